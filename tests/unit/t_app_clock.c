/* What is recorded of the wall clock: that it is synchronised, or not, or that nobody knows (FAULT F25). */

#include "config.h"

#include "app_int.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"

#include "t_writer.h"
#include "suite.h"

#define TIME_US (UINT64_C(1000) * APP_CLOCK_GAP_US)

static int quiet(void **state)
{
	(void)state;
	log_open(STDERR_FILENO, LOG_FORMAT_TEXT, LOG_LEVEL_ERR);
	return 0;
}

static int set_up_clock(void **state)
{
	clock_fake(TIME_US, TIME_US);
	return set_up(state);
}

static int tear_down_clock(void **state)
{
	int rc = tear_down(state);

	clock_real();
	return rc;
}

static void start(struct fix *f, struct app *a, enum clock_sync sync)
{
	*a = (struct app){ .writer = f->w };
	clock_fake_sync(sync);
	app_clock_start(a);
}

static void check(struct app *a, enum clock_sync sync)
{
	clock_fake_sync(sync);
	app_clock_check(a);
}

/* Records of the state so far.  A call behind it, in the same transaction, is waited for. */
static int64_t told(struct fix *f)
{
	static int call;

	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, ++call), 0);
	wait_idle(f);
	return ask(f, "SELECT count(*) FROM rec WHERE kind = 1606");
}

/* The column clk of that call; 0 = NULL. */
static int64_t said(const struct fix *f)
{
	return ask(f, "SELECT coalesce(clk, 0) FROM rec WHERE kind = 1001 ORDER BY id DESC LIMIT 1");
}

static void a_start_is_told_and_then_only_changes(void **state)
{
	static const struct { enum clock_sync sync; int64_t clk; } rows[] = {
		{ CLOCK_UNKNOWN, 0 }, { CLOCK_SYNCED, AUDIT_CLOCK_SYNCED }, { CLOCK_UNSYNCED, AUDIT_CLOCK_UNSYNCED },
	};
	struct fix *f = *state;
	struct app a;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		start(f, &a, rows[i].sync);
		assert_int_equal(told(f), i + 1);
		assert_int_equal(said(f), rows[i].clk);
		assert_int_equal(metric_get(METRIC_clock_synchronised), rows[i].sync == CLOCK_SYNCED);
		clock_step(2 * APP_CLOCK_GAP_US);
		check(&a, rows[i].sync);
		assert_int_equal(told(f), i + 1);
	}
}

static void the_first_change_is_told_at_once(void **state)
{
	struct fix *f = *state;
	struct app a;

	start(f, &a, CLOCK_UNSYNCED);
	check(&a, CLOCK_SYNCED);
	assert_int_equal(told(f), 2);
	assert_int_equal(said(f), AUDIT_CLOCK_SYNCED);
	assert_int_equal(ask(f, "SELECT clk FROM rec WHERE kind = 1606 ORDER BY id DESC LIMIT 1"), AUDIT_CLOCK_SYNCED);
}

static void a_clock_on_the_edge_fills_no_log(void **state)
{
	struct fix *f = *state;
	struct app a;
	uint64_t changes;

	start(f, &a, CLOCK_SYNCED);
	check(&a, CLOCK_UNSYNCED);
	assert_int_equal(told(f), 2);
	changes = metric_get(METRIC_clock_changes);
	for (int second = 1; second < 60; second++) {
		clock_step(1000000);
		check(&a, second % 2 ? CLOCK_SYNCED : CLOCK_UNSYNCED);
		if (second % 7)
			continue;
		assert_int_equal(told(f), 2);
		assert_int_equal(said(f), second % 2 ? AUDIT_CLOCK_SYNCED : AUDIT_CLOCK_UNSYNCED);      /* every record does */
	}
	assert_int_equal(metric_get(METRIC_clock_changes) - changes, 59);
	clock_step(1000000 - 1);
	check(&a, CLOCK_SYNCED);
	assert_int_equal(told(f), 2);
	clock_step(1);
	check(&a, CLOCK_SYNCED);
	assert_int_equal(told(f), 3);
	assert_int_equal(ask(f, "SELECT instr(ext, CAST('changed 59 times' AS BLOB)) > 0 FROM rec WHERE kind = 1606 ORDER BY id DESC LIMIT 1"), 1);
	clock_step(10 * APP_CLOCK_GAP_US);
	check(&a, CLOCK_SYNCED);
	assert_int_equal(told(f), 3);
}

/* It came back before it could be told: the record says that it was away. */
static void a_change_that_went_away_is_told(void **state)
{
	struct fix *f = *state;
	struct app a;

	start(f, &a, CLOCK_UNSYNCED);
	check(&a, CLOCK_SYNCED);
	clock_step(1000000);
	check(&a, CLOCK_UNSYNCED);
	clock_step(1000000);
	check(&a, CLOCK_SYNCED);
	assert_int_equal(told(f), 2);
	clock_step(APP_CLOCK_GAP_US);
	check(&a, CLOCK_SYNCED);
	assert_int_equal(told(f), 3);
	assert_int_equal(ask(f, "SELECT instr(ext, CAST('changed 2 times' AS BLOB)) > 0 FROM rec WHERE kind = 1606 ORDER BY id DESC LIMIT 1"), 1);
}

static void a_step_is_one_whatever_the_kernel_says(void **state)
{
	struct fix *f = *state;
	struct app a;

	start(f, &a, CLOCK_SYNCED);
	clock_fake(TIME_US + 1000000, TIME_US);
	clock_fake_sync(CLOCK_SYNCED);
	app_clock_check(&a);
	assert_int_equal(told(f), 1);
	assert_int_equal(ask(f, "SELECT clk FROM rec WHERE kind = 1605"), AUDIT_CLOCK_STEPPED);
	assert_int_equal(said(f), AUDIT_CLOCK_SYNCED);
}

/* AUDIT 1602: the last records of a server that was idle say how the clock is now. */
static void a_stop_says_how_the_clock_is(void **state)
{
	struct fix *f = *state;

	writer_clock(f->w, CLOCK_UNSYNCED);
	close_writer(f);
	assert_int_equal(ask(f, "SELECT clk FROM rec WHERE kind = 1602 ORDER BY id DESC LIMIT 1"), AUDIT_CLOCK_UNSYNCED);
	clock_fake_sync(CLOCK_SYNCED);
	open_writer(f);
	assert_int_equal(ask(f, "SELECT clk FROM rec WHERE kind = 1601 ORDER BY id DESC LIMIT 1"), AUDIT_CLOCK_SYNCED);
}

#undef T
#define T(name) cmocka_unit_test_setup_teardown(name, set_up_clock, tear_down_clock)

SUITE(clock)
{
	const struct CMUnitTest tests[] = {
		T(a_start_is_told_and_then_only_changes), T(the_first_change_is_told_at_once), T(a_clock_on_the_edge_fills_no_log),
		T(a_change_that_went_away_is_told), T(a_step_is_one_whatever_the_kernel_says), T(a_stop_says_how_the_clock_is),
	};

	faultvfs_install();
	return cmocka_run_group_tests(tests, quiet, NULL);
}
