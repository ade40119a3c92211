#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

/* A suite: the tests of one file.  The program of a room (tests/unit/t_ROOM) has all suites of the room in it, each of
 * which makes itself known before main() of suite.c begins; so a suite moves to another room by its line in module.am
 * alone.
 *
 *	SUITE(verify)
 *	{
 *		const struct CMUnitTest tests[] = { … };
 *
 *		return cmocka_run_group_tests(tests, NULL, NULL);
 *	}
 */
struct suite {
	const char *name;
	int (*run)(void);       /* 0: all tests passed */
	struct suite *next;
};

/* Before main(), which owns nothing: s lives as long as the program. */
void suite_add(struct suite *s);

#define SUITE(id) \
	static int suite_##id(void); \
	static void __attribute__((constructor)) suite_add_##id(void) \
	{ \
		static struct suite self = { #id, suite_##id, NULL }; \
		suite_add(&self); \
	} \
	static int suite_##id(void)

#endif
