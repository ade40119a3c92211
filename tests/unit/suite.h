#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <stdbool.h>

#include "base/sanitized.h"

/* 1 in a build with ThreadSanitizer: what one thread does is left to the other builds. */
#if defined __SANITIZE_THREAD__ || SANITIZED_BY(thread_sanitizer)
#define LOOKS_FOR_RACES 1
#else
#define LOOKS_FOR_RACES 0
#endif

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
 *
 * SINGLE_THREAD_SUITE(verify): its process never has a second thread, so a build with ThreadSanitizer has nothing to see in
 * it and leaves it out, unless TOOLCRIB_ALL_SUITES is set; in each other build a thread in it is a failure.
 */
struct suite {
	const char *name;
	int (*run)(void);       /* 0: all tests passed */
	bool single;            /* it has one thread */
	struct suite *next;
};

/* Before main(), which owns nothing: s lives as long as the program. */
void suite_add(struct suite *s);

#define SUITE(id) SUITE_OF(id, false)
#define SINGLE_THREAD_SUITE(id) SUITE_OF(id, true)
#define SUITE_OF(id, single) \
	static int suite_##id(void); \
	static void __attribute__((constructor)) suite_add_##id(void) \
	{ \
		static struct suite self = { #id, suite_##id, single, NULL }; \
		suite_add(&self); \
	} \
	static int suite_##id(void)

#endif
