/* How full the server is, in steps, and whose doing that is (SEC S-807). */

#include "config.h"

#include "limit/limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "suite.h"

#define SECOND 1000000ull

static void note_step(void *arg, enum limit_step step)
{
	size_t n = strlen(arg);

	((char *)arg)[n] = (char)('0' + (int)step);
	((char *)arg)[n + 1] = '\0';
}

static void steps_are_reached_at_their_percentage_and_left_below_it(void **state)
{
	static const struct limit_conf streams = { .ceiling = { 0, 0, 100, 0 }, .share_percent = 50 };
	static const struct { int held; const char *steps; } at[] = {
		{ 79, "" }, { 80, "1" }, { 94, "1" }, { 95, "12" }, { 100, "12" }, { 85, "12" }, { 84, "121" }, { 95, "1212" },
		{ 70, "12121" }, { 69, "121210" }, { 79, "121210" }, { 0, "121210" },
	};
	struct limiter *l = limiter_new(&streams);
	char heard_steps[16] = "";
	struct err err;
	int held = 0;

	limiter_on_step(l, note_step, heard_steps);
	for (size_t i = 0; i < NELEMS(at); i++) {
		for (; held < at[i].held; held++)
			assert_int_equal(limit_hold_stream(l, 1, &err), 0);
		for (; held > at[i].held; held--)
			limit_drop_stream(l, 1);
		assert_string_equal(heard_steps, at[i].steps);
	}
	limiter_free(&l);
}

static void only_who_has_more_than_a_share_crowds(void **state)
{
	static const struct limit_conf streams = { .ceiling = { 0, 0, 100, 0 }, .share_percent = 50 };
	struct limiter *l = limiter_new(&streams);
	struct err err;

	limiter_set_tenants(l, 2);      /* 25 each */
	for (int i = 0; i < 75; i++)
		assert_int_equal(limit_hold_stream(l, 1, &err), 0);
	assert_false(limit_crowds(l, 1));
	for (int i = 0; i < 5; i++)
		assert_int_equal(limit_hold_stream(l, 2, &err), 0);
	assert_true(limit_crowds(l, 1));
	assert_false(limit_crowds(l, 2));
	assert_false(limit_crowds(l, 3));
	limiter_free(&l);
}

/* Slots that are all taken are what a queue is for. */
static void running_calls_press_where_none_may_wait(void **state)
{
	struct limit_conf conf = { .ceiling = { 4, 4, 0, 0 }, .share_percent = 50 };
	struct limit_ticket *t[4];
	const struct limit_req req = { .tenant_id = 1, .tool_id = 10, .now_us = SECOND };
	struct err err;

	for (unsigned waits = 0; waits < 2; waits++) {
		conf.wait_ms = waits ? 1000 : 0;
		struct limiter *l = limiter_new(&conf);

		for (size_t i = 0; i < NELEMS(t); i++)
			assert_int_equal(limit_enter(l, &req, NULL, NULL, &t[i], &err), 0);
		assert_int_equal(limit_pressure(l), waits ? 0 : 100);
		for (size_t i = 0; i < NELEMS(t); i++)
			limit_release(l, &t[i], SECOND);
		limiter_free(&l);
	}
}

SINGLE_THREAD_SUITE(step)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_are_reached_at_their_percentage_and_left_below_it),
		cmocka_unit_test(only_who_has_more_than_a_share_crowds),
		cmocka_unit_test(running_calls_press_where_none_may_wait),
	};

	return cmocka_run_group_tests_name("limit_step", tests, NULL, NULL);
}
