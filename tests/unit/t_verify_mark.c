/* What one verification leaves to the next: only what is new is read, and what was is held against it (SC-704, SC-705,
 * SC-707). */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/text.h"
#include "verify/verify.h"

#include "audit_rig.h"
#include "suite.h"

enum { ACME = 7, OTHER = 8, CALLS = 20, MANY = 2 * AUDIT_VERIFY_STEP + 100 };

static void append(struct fix *f, enum audit_kind kind, int64_t tenant, unsigned call)
{
	struct audit_event ev;

	clock_step(10);
	audit_event_init(&ev, kind, tenant);
	ev.has_call = true;
	memset(ev.call, 1, sizeof(ev.call));
	memcpy(ev.call, &call, sizeof(call));
	ev.call[15] = (uint8_t)tenant;
	ev.cred = "7Qm3";
	ev.prn = call & 1 ? "prn_a" : "prn_b";
	ev.tool = "echo";
	ev.actor = AUDIT_BY_SERVICE;
	ev.has_outcome = kind == AUDIT_CALL_END;
	OK(audit_append(f->logs, f->db, &ev, NULL, &f->err));
}

static void add_calls(struct fix *f, unsigned from, unsigned n)
{
	begin(f);
	for (unsigned i = from; i < from + n; i++) {
		append(f, AUDIT_CALL_BEGIN, ACME, i);
		append(f, AUDIT_CALL_BEGIN, OTHER, i);
		append(f, AUDIT_CALL_END, OTHER, i);
		append(f, AUDIT_CALL_END, ACME, i);
	}
	commit(f);
}

static int set_up(void **state)
{
	struct fix *f = fix_new();

	clock_fake(1000000, 500000);
	open_store(f);
	begin(f);
	create_log(f, 0, NULL);
	create_log(f, ACME, "acme");
	create_log(f, OTHER, "other");
	commit(f);
	add_calls(f, 1, CALLS);
	*state = f;
	return 0;
}

/* --- a verification with a mark */

struct run {
	struct str base, way;           /* taken up */
	struct str ret;
	struct str kept;                /* the last one that was kept on the way */
	unsigned keeps;
	int rc;
};

static bool due(void *arg)
{
	(void)arg;
	return true;
}

static void keep(void *arg, const void *p, size_t len)
{
	struct run *r = arg;

	str_reset(&r->kept);
	str_put(&r->kept, p, len);
	r->keeps++;
}

static unsigned run(struct fix *f, struct run *r)
{
	const struct verify_marking mark = { .base = r->base.p, .base_len = r->base.len, .way = r->way.p,
		.way_len = r->way.len, .due = due, .keep = keep, .arg = r, .ret = &r->ret };
	struct db *reader = NULL;

	memset(f->count, 0, sizeof(f->count));
	f->last[0] = '\0';
	str_reset(&r->ret);
	r->keeps = 0;
	OK(db_open(f->path, DB_READER, false, &reader, &f->err));
	r->rc = audit_verify_marked(reader, NULL, &mark, found, f, &f->sum, &f->err);
	db_close(&reader);
	return (unsigned)(f->sum.bad + f->sum.gaps);
}

/* What was left is what the next one takes up. */
static void go_on(struct run *r)
{
	str_fini(&r->base);
	r->base = r->ret;
	r->ret = (struct str)STR_INIT;
}

static void run_fini(struct run *r)
{
	str_fini(&r->base);
	str_fini(&r->way);
	str_fini(&r->ret);
	str_fini(&r->kept);
}

static void clean(struct fix *f, struct run *r)
{
	if (run(f, r) != 0)
		fail_msg("%s", f->last);
	OK(r->rc);
}

static void marked(struct fix *f, struct run *r)
{
	clean(f, r);
	go_on(r);
}

/* --- what is read */

static void only_what_is_new_is_read(void **state)
{
	struct run r = { .rc = 0 };
	struct fix *f = *state;

	marked(f, &r);
	assert_int_equal(f->sum.records, 1 + 2 * (1 + 2 * CALLS));
	assert_int_equal(f->sum.older, 0);
	marked(f, &r);
	assert_int_equal(f->sum.records, 0);
	assert_int_equal(f->sum.older, 1 + 2 * (1 + 2 * CALLS));
	assert_int_equal(f->sum.logs, 3);
	add_calls(f, 100, 5);
	marked(f, &r);
	assert_int_equal(f->sum.records, 20);
	assert_int_equal(f->sum.older, 1 + 2 * (1 + 2 * CALLS));
	add_calls(f, 200, 300);
	marked(f, &r);
	marked(f, &r);
	run_fini(&r);
}

/* The same bytes as if all had been read at once. */
static void a_mark_of_steps_is_that_of_one_reading(void **state)
{
	struct run r = { .rc = 0 }, whole = { .rc = 0 };
	struct fix *f = *state;

	for (unsigned i = 0; i < 5; i++) {
		add_calls(f, 1000 * (i + 1), 70);
		begin(f);
		append(f, AUDIT_CALL_BEGIN, ACME, 1000 * (i + 1) + 900);        /* runs on */
		append(f, AUDIT_CALL_DENIED, OTHER, 1000 * (i + 1) + 901);
		commit(f);
		(void)run(f, &r);
		OK(r.rc);
		go_on(&r);
	}
	(void)run(f, &whole);
	assert_int_equal(r.base.len, whole.ret.len);
	run_fini(&r);
	run_fini(&whole);
}

static void an_end_behind_the_mark_has_its_begin(void **state)
{
	struct run r = { .rc = 0 };
	struct fix *f = *state;

	begin(f);
	append(f, AUDIT_CALL_BEGIN, ACME, 500);
	commit(f);
	assert_int_equal(run(f, &r), 1);
	assert_int_equal(f->count[AUDIT_FINDING_DANGLING], 1);  /* there is no server */
	go_on(&r);
	assert_int_equal(run(f, &r), 1);
	assert_int_equal(f->count[AUDIT_FINDING_DANGLING], 1);  /* it still is */
	begin(f);
	append(f, AUDIT_CALL_END, ACME, 500);
	commit(f);
	clean(f, &r);
	begin(f);
	append(f, AUDIT_CALL_END, ACME, 500);
	commit(f);
	assert_true(run(f, &r) > 0);
	assert_int_equal(f->count[AUDIT_FINDING_PAIRING], 1);
	run_fini(&r);
}

/* --- what is found below the mark */

static void expect(struct fix *f, struct run *r, enum audit_finding_code code)
{
	(void)run(f, r);
	if (r->rc != 0 || f->count[code] == 0)
		fail_msg("%d, no %s; the last is %s", r->rc, audit_finding_name(code), f->last);
	run_fini(r);
}

static void a_log_that_was_cut_is_found(void **state)
{
	struct run r = { .rc = 0 };
	struct fix *f = *state;

	marked(f, &r);
	raw(f, "DELETE FROM rec WHERE log = 2 AND idx >= 30; UPDATE head SET size = 30 WHERE log = 2");
	expect(f, &r, AUDIT_FINDING_TRUNCATED);
}

/* A copy of before the mark, that went on in another way. */
static void another_history_is_found(void **state)
{
	struct run r = { .rc = 0 };
	struct fix *f = *state;
	char copy[600], sql[700];

	tmpdir_path(f->dir, "copy.db", copy, sizeof(copy));
	(void)snprintf(sql, sizeof(sql), "VACUUM INTO '%s'", copy);
	raw(f, sql);
	add_calls(f, 300, 3);
	marked(f, &r);
	close_store(f);
	assert_int_equal(rename(copy, f->path), 0);
	reopen_store(f);
	add_calls(f, 400, 3);
	expect(f, &r, AUDIT_FINDING_ROOT);
}

static void a_log_that_is_gone_is_found(void **state)
{
	struct run r = { .rc = 0 };
	struct fix *f = *state;

	marked(f, &r);
	raw(f, "PRAGMA foreign_keys=OFF; DELETE FROM rec WHERE log = 3; DELETE FROM head WHERE log = 3; DELETE FROM tile WHERE log = 3;"
	    "DELETE FROM log WHERE id = 3");
	expect(f, &r, AUDIT_FINDING_LOG_MISSING);
}

static void a_text_that_was_changed_is_found(void **state)
{
	struct run r = { .rc = 0 };
	struct fix *f = *state;

	marked(f, &r);
	raw(f, "UPDATE dict SET text = 'other' WHERE text = 'echo'");
	expect(f, &r, AUDIT_FINDING_DICT);
}

/* --- marks that do not fit */

static void refused(struct fix *f, struct run *r, enum err_code code)
{
	(void)run(f, r);
	assert_int_equal(r->rc, code);
	run_fini(r);
}

static void the_mark_of_another_store_is_refused(void **state)
{
	struct run r = { .rc = 0 };
	struct fix *f = *state;
	void *other = NULL;

	set_up(&other);
	marked(other, &r);
	fix_free(&other);
	clock_fake(2000000, 500000);
	refused(f, &r, ERR_INVALID);
	assert_non_null(strstr(f->err.msg, "another store"));
}

static void a_mark_of_before_a_prune_is_refused(void **state)
{
	struct run r = { .rc = 0 };
	struct fix *f = *state;

	marked(f, &r);
	raw(f, "UPDATE log SET min_idx = 256 WHERE id = 2");
	refused(f, &r, ERR_INVALID);
	assert_non_null(strstr(f->err.msg, "older than what was pruned"));
}

static void bytes_that_are_cut_or_changed_are_refused(void **state)
{
	struct run r = { .rc = 0 };
	struct fix *f = *state;

	clean(f, &r);
	for (size_t len = 1; len < r.ret.len; len += len < 64 ? 1 : 37) {
		struct run cut = { .rc = 0 };

		str_put(&cut.base, r.ret.p, len);
		refused(f, &cut, ERR_CORRUPT);
	}
	str_putc(&r.ret, 'x');
	go_on(&r);
	refused(f, &r, ERR_CORRUPT);
}

/* --- one that was cut off */

/* Wherever it was: what goes on finds what one reading finds, each once. */
static void what_was_cut_off_goes_on(void **state)
{
	struct run r = { .rc = 0 };
	struct fix *f = *state;
	uint64_t records, gaps;

	add_calls(f, 1000, MANY / 2);
	begin(f);
	append(f, AUDIT_CALL_BEGIN, ACME, 5);           /* was used before */
	append(f, AUDIT_CALL_BEGIN, ACME, 999999);
	commit(f);
	(void)run(f, &r);
	OK(r.rc);
	records = f->sum.records;
	gaps = f->sum.gaps;
	assert_true(r.keeps >= 3);
	assert_true(gaps > 0);
	r.way = r.kept;
	r.kept = (struct str)STR_INIT;
	(void)run(f, &r);
	OK(r.rc);
	assert_int_equal(f->sum.records, records);
	assert_int_equal(f->sum.gaps, gaps);
	assert_int_equal(f->sum.logs, 3);
	str_fini(&r.way);
	go_on(&r);
	(void)run(f, &r);
	assert_int_equal(f->sum.records, 0);
	assert_int_equal(f->sum.gaps, gaps);
	run_fini(&r);
}

/* --- heads that lag behind (SC-104) */

/* The head may be older than the mark: its root is made of tiles and records then, and still compared. */
static void a_head_below_the_mark_is_compared(void **state)
{
	struct fix *f = *state;
	struct run r = { 0 };

	for (unsigned i = 0; i < 600; i++) {
		begin(f);
		append(f, AUDIT_LIST, ACME, 1000 + i);
		OK(audit_logs_flush_rows(f->logs, f->db, &f->err));
		OK(db_txn_end(f->db, 0, &f->err));
		audit_logs_commit(f->logs);
	}
	close_store(f);
	assert_int_equal(run(f, &r), 0);
	go_on(&r);
	if (run(f, &r) != 0)
		fail_msg("%s", f->last);
	raw(f, "UPDATE head SET root = zeroblob(32) WHERE log = 2");
	run(f, &r);
	assert_int_equal(f->count[AUDIT_FINDING_ROOT], 1);
	run_fini(&r);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, fix_free)

SUITE(verify_mark)
{
	const struct CMUnitTest tests[] = {
		T(only_what_is_new_is_read), T(a_head_below_the_mark_is_compared), T(a_mark_of_steps_is_that_of_one_reading), T(an_end_behind_the_mark_has_its_begin),
		T(a_log_that_was_cut_is_found), T(another_history_is_found), T(a_log_that_is_gone_is_found),
		T(a_text_that_was_changed_is_found), T(the_mark_of_another_store_is_refused),
		T(a_mark_of_before_a_prune_is_refused), T(bytes_that_are_cut_or_changed_are_refused), T(what_was_cut_off_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
