/* What is unusual of whom, on a clock that the test steps, over records of a real writer (OP-602): each rule finds what
 * was planted and says the numbers; an ordinary hour, a new principal, one that is back from a holiday and another
 * tenant's past say nothing. */
#include "config.h"

#include "alert/alert.h"
#include "alert_int.h"
#include "audit/rows.h"
#include "base/clock.h"
#include "base/metric.h"

#include "t_writer.h"
#include "suite.h"

#define SECOND UINT64_C(1000000)
#define HOUR (3600 * SECOND)
#define MONDAY UINT64_C(1767571200000000)       /* 2026-01-05T00:00:00Z */

struct rig { struct fix *f; struct alerts *a; struct alert_reader *reader; int calls; };

/* "one", "two" and "three", with the ids that their logs have. */
static int name_tenants(struct db *db, struct audit_logs *logs, struct err *err)
{
	static const char *const names[TENANTS] = { "one", "two", "three" };
	struct audit_event ev;
	int rc = 0;

	for (int i = 0; rc == 0 && i < TENANTS; i++) {
		struct db_stmt *st = db_stmt_get(db, SQL_TENANT_INSERT);

		db_bind_textz(st, 1, names[i]);
		db_bind_textz(st, 2, "");
		for (unsigned k = 3; k <= 6; k++)
			db_bind_i64(st, k, 1);
		db_bind_textz(st, 7, "");
		rc = db_run(&st, err);
		audit_event_init(&ev, AUDIT_TENANT_CREATE, i + 1);
		ev.actor = AUDIT_BY_SYSTEM;
		if (rc == 0)
			rc = audit_append_rows(logs, db, &ev, 0, NULL, err);
	}
	return rc;
}

static int set_up_usual(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct db *db = NULL;
	struct err err;
	void *fix;

	clock_fake(MONDAY, 1000 * SECOND);
	assert_int_equal(set_up(&fix), 0);
	r->f = fix;
	assert_int_equal(submit_job(r->f, 1, false, name_tenants), 0);
	wait_idle(r->f);
	if (rc_of(r->f, 1) < 0)
		fail_msg("%s: %s", r->f->err.where, r->f->err.msg);
	assert_int_equal(db_open_store(db_of_file(r->f->path), &db, &err), 0);
	assert_int_equal(alerts_open(&(struct alert_env){ .loop = r->f->loop, .writer = r->f->w }, db, &r->a, &err), 0);
	db_close(&db);
	r->reader = alert_reader_new(&(struct alert_reader_env){ .loop = r->f->loop, .writer = r->f->w, .alerts = r->a,
		.store = r->f->dir, .started_us = MONDAY + 400 * 24 * HOUR });       /* so that nobody misses a verification */
	*state = r;
	return 0;
}

static int tear_down_usual(void **state)
{
	struct rig *r = *state;
	void *fix = r->f;
	int rc;

	alert_reader_free(&r->reader);
	alerts_close(&r->a);
	rc = tear_down(&fix);
	clock_real();
	free(r);
	return rc;
}

static int nothing(struct db *db, struct audit_logs *logs, struct err *err)
{
	(void)db;
	(void)logs;
	(void)err;
	return 0;
}

static void settle(struct rig *r)
{
	r->f->n = 0;
	assert_int_equal(submit_job(r->f, 1, true, nothing), 0);
	wait_idle(r->f);
}

static void call(struct rig *r, int64_t tenant, const char *prn, const char *tool, enum audit_kind kind, int n)
{
	for (int i = 0; i < n; i++) {
		struct audit_event ev = call_event(kind, tenant, ++r->calls);

		ev.prn = prn;
		ev.tool = tool;
		if (kind == AUDIT_CALL_DENIED) {
			ev.has_outcome = true;
			ev.outcome = 3;
		}
		assert_int_equal(writer_audit(r->f->w, &ev, NULL, NULL), 0);
		if (i % 200 == 199)
			settle(r);
	}
	settle(r);
}

/* All that is there is read, and compared. */
static void look(struct rig *r)
{
	settle(r);
	alert_reader_soon(r->reader);
	alert_reader_tick(r->reader);
	while (alert_reader_is_reading(r->reader))
		settle(r);
	settle(r);
}

/* Working days, eight hours each, from 9 on; n calls an hour.  Ends on a Monday at 0:00. */
static void weeks(struct rig *r, int64_t tenant, const char *prn, int weeks, int n)
{
	for (int h = 0; h < weeks * 168; h++) {
		if (h / 24 % 7 < 5 && h % 24 >= 9 && h % 24 < 17)
			call(r, tenant, prn, "echo", AUDIT_CALL_BEGIN, n);
		clock_step(HOUR);
	}
	settle(r);
}

static int64_t open_alerts(const struct rig *r, const char *rule, const char *subject, int64_t tenant)
{
	char sql[300];

	snprintf(sql, sizeof(sql), "SELECT count(*) FROM alert WHERE state < 2 AND rule LIKE '%s' AND subject LIKE '%s' AND tenant_id = %lld",
		 rule, subject, (long long)tenant);
	return ask(r->f, sql);
}

static int64_t all_unusual(const struct rig *r)
{
	return ask(r->f, "SELECT count(*) FROM alert WHERE rule IN ('new_tool', 'volume', 'off_hours', 'denials')");
}

static void to_hour(int h)
{
	clock_step((uint64_t)h * HOUR);
}

static void an_ordinary_week_says_nothing(void **state)
{
	struct rig *r = *state;

	weeks(r, 1, "prn_a", 3, 4);
	for (int h = 0; h < 5 * 24; h++) {
		if (h % 24 >= 9 && h % 24 < 17)
			call(r, 1, "prn_a", "echo", AUDIT_CALL_BEGIN, 3 + h % 5);
		look(r);
		clock_step(HOUR);
	}
	call(r, 1, "prn_new", "echo", AUDIT_CALL_BEGIN, 200);   /* nothing to compare with */
	look(r);
	assert_int_equal(all_unusual(r), 0);
	assert_true(ask(r->f, "SELECT count(*) FROM baseline") > 100);
}

static void ten_times_as_many_calls(void **state)
{
	struct rig *r = *state;

	weeks(r, 1, "prn_a", 2, 6);
	to_hour(10);
	call(r, 1, "prn_a", "echo", AUDIT_CALL_BEGIN, 59);
	look(r);
	assert_int_equal(open_alerts(r, "volume", "%", 1), 0);
	call(r, 1, "prn_a", "echo", AUDIT_CALL_BEGIN, 1);
	look(r);
	assert_int_equal(open_alerts(r, "volume", "prn_a", 1), 1);
	assert_int_equal(ask(r->f, "SELECT value * 1000 + usual FROM alert"), 60006);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM alert WHERE text = 'prn_a of one made 60 calls in the hour from "
			     "2026-01-19T10:00:00.000000Z; in the 79 hours of the 14 days before in which it made any, 6 each "
			     "(rule volume: 10 times, and 50). Look: toolcrib audit calls --tenant one --principal prn_a --since "
			     "2026-01-19T10:00:00.000000Z'"), 1);
	clock_step(4 * HOUR);
	look(r);
	assert_int_equal(open_alerts(r, "volume", "%", 1), 0);
}

/* Ten times little is little. */
static void fewer_than_fifty_are_no_volume(void **state)
{
	struct rig *r = *state;

	weeks(r, 1, "prn_a", 2, 1);
	to_hour(10);
	call(r, 1, "prn_a", "echo", AUDIT_CALL_BEGIN, 49);
	look(r);
	assert_int_equal(all_unusual(r), 0);
	call(r, 1, "prn_a", "echo", AUDIT_CALL_BEGIN, 1);
	look(r);
	assert_int_equal(open_alerts(r, "volume", "prn_a", 1), 1);
}

static void back_from_a_holiday(void **state)
{
	struct rig *r = *state;

	weeks(r, 1, "prn_a", 2, 1);
	to_hour(15 * 24 + 10);          /* two weeks later, on a Tuesday */
	call(r, 1, "prn_a", "echo", AUDIT_CALL_BEGIN, 60);
	look(r);
	assert_int_equal(all_unusual(r), 0);
}

static void a_call_in_the_night(void **state)
{
	struct rig *r = *state;

	weeks(r, 1, "prn_a", 3, 4);
	to_hour(3);
	call(r, 1, "prn_a", "echo", AUDIT_CALL_BEGIN, 2);
	look(r);
	assert_int_equal(open_alerts(r, "off_hours", "prn_a", 1), 1);
	assert_int_equal(ask(r->f, "SELECT value * 1000 + usual FROM alert"), 2040);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM alert WHERE text LIKE 'prn_a of one made 2 calls on a Monday from 03:00 to 03:59 UTC; "
			     "of the 480 calls of the 30 days before it made 98 %% in 40 other hours of the week, in this one 0 (rule off_hours: "
			     "98 %% of at least 200, and a tenth). Look: toolcrib audit calls --tenant one --principal prn_a --since 2026-01-26T03:%'"), 1);
}

/* Too few calls, too short a time, or around the clock. */
static void who_has_no_hours(void **state)
{
	struct rig *r = *state;

	weeks(r, 1, "prn_few", 2, 2);                           /* 160 calls */
	for (int h = 0; h < 168; h++) {
		call(r, 1, "prn_clock", "echo", AUDIT_CALL_BEGIN, h % 3 > 0);
		if (h / 24 < 5 && h % 24 >= 9 && h % 24 < 17)
			call(r, 1, "prn_short", "echo", AUDIT_CALL_BEGIN, 9);
		clock_step(HOUR);
	}
	for (int h = 0; h < 168; h++) {
		call(r, 1, "prn_clock", "echo", AUDIT_CALL_BEGIN, h % 3 > 0);
		clock_step(HOUR);
	}
	to_hour(3);                                             /* the third hour: nobody has called in it */
	call(r, 1, "prn_few", "echo", AUDIT_CALL_BEGIN, 1);
	call(r, 1, "prn_short", "echo", AUDIT_CALL_BEGIN, 1);
	call(r, 1, "prn_clock", "echo", AUDIT_CALL_BEGIN, 1);
	look(r);
	assert_int_equal(all_unusual(r), 0);
}

static void twenty_refusals_in_an_hour(void **state)
{
	struct rig *r = *state;

	call(r, 1, "prn_a", "echo", AUDIT_CALL_DENIED, 19);
	look(r);
	assert_int_equal(all_unusual(r), 0);
	call(r, 1, "prn_a", NULL, AUDIT_CALL_DENIED, 1);
	look(r);
	assert_int_equal(open_alerts(r, "denials", "prn_a", 1), 1);
	assert_int_equal(ask(r->f, "SELECT value FROM alert"), 20);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM alert WHERE text LIKE 'prn_a of one was refused 20 calls in the hour from %; in the "
			     "0 hours of the 30 days before in which it called, 0 in all (rule denials: 20 in an hour). Look: toolcrib audit "
			     "denied --tenant one --principal prn_a %'"), 1);
}

/* Of a flood of refusals most are in one record. */
static void refusals_that_were_summed_up_count(void **state)
{
	struct rig *r = *state;
	struct audit_event ev;

	audit_event_init(&ev, AUDIT_CALL_DENIED_SUMMARY, 1);
	ev.prn = "prn_a";
	ev.detail = "rate=12 unknown_tool=7";
	call(r, 1, "prn_a", "echo", AUDIT_CALL_DENIED, 1);
	assert_int_equal(writer_audit(r->f->w, &ev, NULL, NULL), 0);
	look(r);
	assert_int_equal(open_alerts(r, "denials", "prn_a", 1), 1);
	assert_int_equal(ask(r->f, "SELECT value FROM alert"), 20);
}

static void a_tool_that_is_new_to_who_is_not(void **state)
{
	struct rig *r = *state;

	call(r, 1, "prn_a", "echo", AUDIT_CALL_BEGIN, 1);
	look(r);
	clock_step(6 * 24 * HOUR);
	call(r, 1, "prn_a", "early", AUDIT_CALL_BEGIN, 1);      /* it is known for six days */
	look(r);
	assert_int_equal(all_unusual(r), 0);
	clock_step(2 * 24 * HOUR);
	call(r, 1, "prn_a", "echo", AUDIT_CALL_BEGIN, 1);
	call(r, 1, "prn_a", "early", AUDIT_CALL_BEGIN, 1);
	call(r, 1, "prn_a", "denied", AUDIT_CALL_DENIED, 1);    /* it has not called that */
	look(r);
	assert_int_equal(all_unusual(r), 0);
	call(r, 1, "prn_a", "payroll", AUDIT_CALL_BEGIN, 2);
	look(r);
	assert_int_equal(open_alerts(r, "new_tool", "prn_a payroll", 1), 1);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM alert WHERE text LIKE 'prn_a of one called payroll at 2026-01-13T00:%, which it had "
			     "not called in the 8 days since its first call; it has called 2 other tools (rule new_tool: known for 7 days). "
			     "Look: toolcrib audit calls --tenant one --principal prn_a --tool payroll'"), 1);
	call(r, 1, "prn_a", "payroll", AUDIT_CALL_BEGIN, 1);
	look(r);
	assert_int_equal(ask(r->f, "SELECT count FROM alert"), 1);
	clock_step(25 * HOUR);
	look(r);
	assert_int_equal(open_alerts(r, "new_tool", "%", 1), 0);
}

/* Whoever has the same name elsewhere has a past of his own; the alert and its record are in the log of his tenant. */
static void tenants_are_compared_with_themselves(void **state)
{
	struct rig *r = *state;

	weeks(r, 1, "prn_a", 2, 6);
	to_hour(10);
	call(r, 2, "prn_a", "other", AUDIT_CALL_BEGIN, 100);
	call(r, 1, "prn_a", "echo", AUDIT_CALL_BEGIN, 6);
	look(r);
	assert_int_equal(all_unusual(r), 0);
	call(r, 1, "prn_a", "echo", AUDIT_CALL_BEGIN, 100);
	look(r);
	assert_int_equal(open_alerts(r, "volume", "prn_a", 1), 1);
	assert_int_equal(all_unusual(r), 1);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM alert WHERE text LIKE '%two%' OR text LIKE '%other%'"), 0);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM rec r JOIN log l ON l.id = r.log WHERE r.kind = 1811 AND l.tenant_id = 1"), 1);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM rec WHERE kind = 1811"), 1);
}

/* A store that was never read: 30 days of it count, and nothing that happened then is told. */
static void what_was_there_before_is_history(void **state)
{
	struct rig *r = *state;

	call(r, 1, "prn_old", "echo", AUDIT_CALL_BEGIN, 3);
	clock_step(20 * 24 * HOUR);
	call(r, 1, "prn_a", "echo", AUDIT_CALL_BEGIN, 2500);    /* more than one part */
	clock_step(9 * 24 * HOUR);
	call(r, 1, "prn_a", "other", AUDIT_CALL_BEGIN, 30);
	clock_step(48 * HOUR);
	look(r);
	assert_int_equal(all_unusual(r), 0);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM baseline WHERE prn = 'prn_old'"), 0);
	assert_int_equal(ask(r->f, "SELECT sum(n) FROM baseline"), 2530);
	look(r);
	assert_int_equal(ask(r->f, "SELECT sum(n) FROM baseline"), 2530);
	clock_step(22 * 24 * HOUR);
	look(r);
	assert_int_equal(ask(r->f, "SELECT sum(n) FROM baseline"), 30);
}

static int many_pairs(struct db *db, struct audit_logs *logs, struct err *err)
{
	struct db_stmt *st;
	int rc = 0;

	(void)logs;
	for (int i = 0; rc == 0 && i < ALERT_PAIRS_MAX - 1; i++) {
		char tool[32];

		snprintf(tool, sizeof(tool), "tool_%d", i);
		st = db_stmt_get(db, SQL_BASELINE_PAIR_PUT);
		db_bind_i64(st, 1, 2);
		db_bind_textz(st, 2, "prn_b");
		db_bind_textz(st, 3, tool);
		db_bind_i64(st, 4, 1);
		rc = db_run(&st, err);
	}
	return rc;
}

static void so_many_pairs_are_known(void **state)
{
	struct rig *r = *state;
	const uint64_t before = metric_get(METRIC_alert_pairs_dropped);

	assert_int_equal(submit_job(r->f, 2, true, many_pairs), 0);
	wait_idle(r->f);
	call(r, 1, "prn_a", "last", AUDIT_CALL_BEGIN, 1);
	look(r);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM baseline_tool WHERE prn = 'prn_a'"), 1);
	assert_int_equal(metric_get(METRIC_alert_pairs_dropped), before);
	call(r, 1, "prn_a", "beyond", AUDIT_CALL_BEGIN, 1);
	look(r);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM baseline_tool"), ALERT_PAIRS_MAX);
	assert_int_equal(metric_get(METRIC_alert_pairs_dropped), before + 1);
}

#define U(name) cmocka_unit_test_setup_teardown(name, set_up_usual, tear_down_usual)

SUITE(alert_usual)
{
	const struct CMUnitTest tests[] = {
		U(an_ordinary_week_says_nothing),
		U(ten_times_as_many_calls),
		U(fewer_than_fifty_are_no_volume),
		U(back_from_a_holiday),
		U(a_call_in_the_night),
		U(who_has_no_hours),
		U(twenty_refusals_in_an_hour),
		U(refusals_that_were_summed_up_count),
		U(a_tool_that_is_new_to_who_is_not),
		U(tenants_are_compared_with_themselves),
		U(what_was_there_before_is_history),
		U(so_many_pairs_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
