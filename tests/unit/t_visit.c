/* Visits of browsers and the links that make them: how long, how many, whose (CONSOLE C-303, C-304). */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/metric.h"
#include "command/visit.h"

#include "suite.h"

#define START_US 1785000000000000ull
#define US 1000ull

static struct visits *visits;

static int set_up(void **state)
{
	clock_fake(START_US, 5000000);
	visits = visits_new();
	return 0;
}

static int tear_down(void **state)
{
	visits_free(&visits);
	clock_real();
	return 0;
}

static struct actor uid(uint32_t id)
{
	return (struct actor){ .uid = id };
}

/* A visit of this user; its token into ret. */
static struct visit *enter(uint32_t id, char ret[VISIT_TOKEN_SIZE])
{
	const struct actor who = uid(id);
	struct visit *visit = NULL;
	char link[VISIT_TOKEN_SIZE];
	struct err err;

	assert_int_equal(visits_link(visits, &who, link, &err), 0);
	assert_int_equal(visits_enter(visits, link, "127.0.0.1", &visit, &err), 0);
	memcpy(ret, visit_first_token(visit), VISIT_TOKEN_SIZE);
	visit_drop(visit);
	return visit;
}

static bool is_there(const char *token)
{
	struct visit *visit = visits_find(visits, token);

	if (visit)
		visit_drop(visit);
	return visit != NULL;
}

static void a_link_opens_once_within_a_minute(void **state)
{
	const struct actor who = uid(1000);
	char link[2][VISIT_TOKEN_SIZE], token[VISIT_TOKEN_SIZE];
	struct visit *visit;
	struct err err;

	for (size_t i = 0; i < 2; i++)
		assert_int_equal(visits_link(visits, &who, link[i], &err), 0);
	assert_string_not_equal(link[0], link[1]);
	assert_int_equal(strlen(link[0]), VISIT_TOKEN_SIZE - 1);
	clock_step(VISIT_LINK_MS * US - 1);
	assert_int_equal(visits_enter(visits, link[0], "x", &visit, &err), 0);
	memcpy(token, visit_first_token(visit), sizeof(token));
	assert_int_equal(visit_actor(visit)->uid, 1000);
	assert_ptr_equal(visit_actor(visit)->visit, visit);
	visit_drop(visit);
	assert_string_equal(visit_first_token(visit), "");      /* it is told once */
	assert_true(is_there(token));
	assert_false(is_there(link[0]));
	assert_int_equal(visits_enter(visits, link[0], "x", &visit, &err), ERR_DENIED);
	clock_step(1);
	assert_int_equal(visits_enter(visits, link[1], "x", &visit, &err), ERR_DENIED);
	assert_int_equal(visits_enter(visits, "", "x", &visit, &err), ERR_DENIED);
}

static void links_are_so_many(void **state)
{
	const struct actor mine = uid(1000), theirs = uid(1001);
	char link[VISIT_TOKEN_SIZE];
	struct err err;

	for (int i = 0; i < VISIT_LINKS_MAX; i++)
		assert_int_equal(visits_link(visits, &mine, link, &err), 0);
	assert_int_equal(visits_link(visits, &mine, link, &err), ERR_BUSY);
	assert_int_equal(visits_link(visits, &theirs, link, &err), 0);
	clock_step(VISIT_LINK_MS * US);
	assert_int_equal(visits_link(visits, &mine, link, &err), 0);
}

static void visits_end_when_nobody_looks(void **state)
{
	char token[VISIT_TOKEN_SIZE], other[VISIT_TOKEN_SIZE];

	(void)enter(1000, token);
	(void)enter(1000, other);
	clock_step(VISIT_IDLE_MS * US - 1);
	assert_true(is_there(token));
	clock_step(1);
	assert_false(is_there(other));
	assert_true(is_there(token));
	for (uint64_t at = VISIT_IDLE_MS; at + VISIT_IDLE_MS < VISIT_MAX_MS; at += VISIT_IDLE_MS / 2) {
		clock_step(VISIT_IDLE_MS / 2 * US);
		assert_true(is_there(token));
	}
	clock_step(VISIT_IDLE_MS * US - 1);
	(void)is_there(token);
	clock_step(VISIT_IDLE_MS * US - 1);     /* twelve hours are over, and it was seen just now */
	assert_false(is_there(token));
	assert_int_equal(metric_get(METRIC_console_visits), 0);
}

static void visits_are_so_many(void **state)
{
	const struct actor mine = uid(1), last = uid(5000);
	char token[VISIT_TOKEN_SIZE], link[VISIT_TOKEN_SIZE];
	struct visit *visit, *mine_too = NULL;
	struct err err;

	for (int i = 0; i < VISITS_SHARE_MAX; i++)
		mine_too = enter(1, token);
	assert_int_equal(visits_link(visits, &mine, link, &err), 0);
	assert_int_equal(visits_enter(visits, link, "x", &visit, &err), ERR_BUSY);
	assert_non_null(strstr(err.msg, "8 visits of yours"));
	visit_end(mine_too);
	assert_int_equal(visits_enter(visits, link, "x", &visit, &err), 0);     /* the link has stayed */
	visit_drop(visit);
	for (unsigned i = VISITS_SHARE_MAX; i < VISITS_MAX; i++)
		(void)enter(1000 + i, token);
	assert_int_equal(metric_get(METRIC_console_visits), VISITS_MAX);
	assert_int_equal(visits_link(visits, &last, link, &err), 0);
	assert_int_equal(visits_enter(visits, link, "x", &visit, &err), ERR_BUSY);
}

/* A command of it runs: it lives until then, with no rights. */
static void one_that_has_ended_waits_for_its_command(void **state)
{
	char token[VISIT_TOKEN_SIZE];
	struct visit *visit;

	(void)enter(1000, token);
	visit = visits_find(visits, token);
	assert_false(visit_is_over(visit));
	visit_end(visit);
	visit_end(visit);
	assert_true(visit_is_over(visit));
	assert_false(is_there(token));
	assert_int_equal(visit_actor(visit)->uid, 1000);
	visits_free(&visits);
	assert_true(visit_is_over(visit));
	visit_drop(visit);
}

/* A key's texts and a user's groups are the visit's own. */
static void who_it_is_is_copied(void **state)
{
	uint32_t gids[] = { 7, 8 };
	char key[ADMIN_KEY_HASH_SIZE] = "abc", name[] = "ci", link[VISIT_TOKEN_SIZE];
	const struct actor by_key = { .uid = UINT32_MAX, .key = key, .name = name, .from = "192.0.2.7" };
	const struct actor by_group = { .uid = 1000, .gids = gids, .ngids = 2 };
	struct visit *visit;
	struct err err;

	assert_int_equal(visits_link(visits, &by_key, link, &err), 0);
	memset(key, 'x', 3);
	memset(name, 'x', 2);
	assert_int_equal(visits_enter(visits, link, "127.0.0.1", &visit, &err), 0);
	assert_string_equal(visit_actor(visit)->key, "abc");
	assert_string_equal(visit_actor(visit)->name, "ci");
	assert_string_equal(visit_actor(visit)->from, "127.0.0.1");
	visit_drop(visit);
	assert_int_equal(visits_link(visits, &by_group, link, &err), 0);
	gids[0] = 0;
	assert_int_equal(visits_enter(visits, link, "127.0.0.1", &visit, &err), 0);
	assert_int_equal(visit_actor(visit)->ngids, 2);
	assert_int_equal(visit_actor(visit)->gids[0], 7);
	assert_null(visit_actor(visit)->key);
	visit_drop(visit);
}

SINGLE_THREAD_SUITE(visit)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_link_opens_once_within_a_minute),
		TEST(links_are_so_many),
		TEST(visits_end_when_nobody_looks),
		TEST(visits_are_so_many),
		TEST(one_that_has_ended_waits_for_its_command),
		TEST(who_it_is_is_copied),
	};

	return cmocka_run_group_tests_name("visit", tests, NULL, NULL);
}
