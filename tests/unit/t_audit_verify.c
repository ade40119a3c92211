/* What verification finds in a store that somebody has changed behind the writer's back (AUDIT 8, 9). */

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


#include "audit/rows.h"
#include "audit/second.h"
#include "verify/verify.h"

#include "audit_rig.h"
#include "suite.h"

enum { ACME = 7, OTHER = 8, CALLS = 20, STORE_MAX = 4 << 20 };

static void append(struct fix *f, enum audit_kind kind, int64_t tenant, uint8_t call)
{
	struct audit_event ev;

	clock_step(10);
	audit_event_init(&ev, kind, tenant);
	ev.has_call = ev.has_trace = true;
	memset(ev.call, call, sizeof ev.call);
	ev.call[15] = (uint8_t)tenant;
	memset(ev.trace, 3, sizeof ev.trace);
	ev.cred = "7Qm3";
	ev.prn = call & 1 ? "prn_a" : "prn_b";
	ev.tool = "echo";
	ev.rule = "grant/1";
	ev.actor = AUDIT_BY_SERVICE;
	ev.authn = AUDIT_AUTHN_KEY;
	ev.tport = AUDIT_HTTP;
	ev.rev = "2026-07-28";
	ev.n_req = call;
	ev.has_outcome = kind == AUDIT_CALL_END;
	ev.dur_us = kind == AUDIT_CALL_END ? 900 : 0;
	ev.detail = call == 5 ? "why" : NULL;
	OK(audit_append(f->logs, f->db, &ev, NULL, &f->err));
}

/* Two tenants with CALLS whole calls each, their begins and ends mixed. */
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
	for (uint8_t i = 1; i <= CALLS; i++) {
		begin(f);
		append(f, AUDIT_CALL_BEGIN, ACME, i);
		append(f, AUDIT_CALL_BEGIN, OTHER, i);
		commit(f);
		begin(f);
		append(f, AUDIT_CALL_END, OTHER, i);
		append(f, AUDIT_CALL_END, ACME, i);
		commit(f);
	}
	*state = f;
	return 0;
}

static void an_untouched_store_has_no_findings(void **state)
{
	struct fix *f = *state;

	if (verify(f, 0) != 0)
		fail_msg("%s", f->last);
	assert_true(f->sum.indexes_summed);     /* verify_index.c knows each index of rec */
	assert_int_equal(f->sum.logs, 3);
	assert_int_equal(f->sum.records, 1 + 2 * (1 + 2 * CALLS));
	assert_true(f->sum.first_us > 0 && f->sum.last_us >= f->sum.first_us + 10 * 2 * 2 * CALLS - 10);
	assert_int_equal(verify(f, ACME), 0);
	assert_int_equal(f->sum.logs, 1);
	assert_int_equal(f->sum.records, 1 + 2 * CALLS);
}

static void undone_records_are_in_no_tree(void **state)
{
	struct fix *f = *state;
	struct audit_mark mark;

	begin(f);
	append(f, AUDIT_CALL_BEGIN, ACME, 99);
	mark = audit_logs_mark(f->logs);
	OK(db_item_begin(f->db, &f->err));
	append(f, AUDIT_CALL_END, ACME, 99);
	append(f, AUDIT_LIST, OTHER, 98);
	assert_int_equal(db_item_end(f->db, ERR_INVALID, &f->err), ERR_INVALID);
	audit_logs_rollback(f->logs, mark);
	append(f, AUDIT_CALL_END, ACME, 99);
	commit(f);
	begin(f);
	append(f, AUDIT_LIST, ACME, 98);
	OK(audit_logs_flush(f->logs, f->db, &f->err));
	assert_int_equal(db_txn_end(f->db, ERR_IO, &f->err), ERR_IO);
	audit_logs_rollback(f->logs, (struct audit_mark){ 0 });
	begin(f);
	append(f, AUDIT_LIST, ACME, 97);
	commit(f);
	if (verify(f, 0) != 0)
		fail_msg("%s", f->last);
}

static void a_tree_goes_on_after_a_restart(void **state)
{
	struct fix *f = *state;

	for (uint8_t i = 100; i < 110; i++) {
		close_store(f);
		reopen_store(f);
		begin(f);
		append(f, AUDIT_LIST, ACME, i);
		commit(f);
	}
	if (verify(f, 0) != 0)
		fail_msg("%s", f->last);
}

/* A setting that waits, and registry.vouch takes it as it is. */
static void take_setting(struct fix *f, const char *value)
{
	const uint8_t kinds[2] = { 0, AUDIT_ROW_SETTING };
	const struct audit_field field = { AUDIT_TAG_ROW_KINDS, kinds, sizeof kinds };
	struct db_stmt *st = db_stmt_get(f->db, SQL_META_SET_VALUE);
	struct audit_event ev;

	begin(f);
	db_bind_textz(st, 1, "approvals");
	db_bind_textz(st, 2, value);
	OK(db_run(&st, &f->err));
	audit_event_init(&ev, AUDIT_REGISTRY_VOUCH, 0);
	ev.field = &field;
	ev.nfield = 1;
	OK(audit_append_rows(f->logs, f->db, &ev, 0, NULL, &f->err));
	commit(f);
}

/* Each kind once, in records that follow one another: who takes rows again says that the store is what he made of it. */
static void rows_are_taken_as_they_are_once(void **state)
{
	struct fix *f = *state;

	take_setting(f, "one");
	if (verify(f, 0) != 0)
		fail_msg("%s", f->last);
	begin(f);
	append(f, AUDIT_LIST, 0, 99);
	commit(f);
	take_setting(f, "two");
	assert_int_equal(verify(f, 0), 1);
	assert_int_equal(f->count[AUDIT_FINDING_REGISTRY], 1);
}

/* A store from before the trees: the head is made from the records, which keep no leaf. */
static void a_store_from_before_the_trees_gets_one(void **state)
{
	struct fix *f = *state;

	close_store(f);
	raw(f, "DROP TRIGGER rec_frozen; UPDATE rec SET leaf = NULL; UPDATE head SET root = NULL, frontier = NULL;"
	    "CREATE TRIGGER rec_frozen BEFORE UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END");
	assert_int_equal(verify(f, ACME), 1);
	assert_int_equal(f->count[AUDIT_FINDING_NOT_CHECKED], 1);
	reopen_store(f);
	begin(f);
	append(f, AUDIT_LIST, ACME, 50);
	commit(f);
	assert_int_equal(verify(f, ACME), 0);
}

static void a_head_that_contradicts_itself_stops_the_log(void **state)
{
	struct fix *f = *state;
	struct audit_event ev;

	close_store(f);
	raw(f, "UPDATE head SET root = zeroblob(32)");
	reopen_store(f);
	begin(f);
	audit_event_init(&ev, AUDIT_LIST, ACME);
	assert_int_equal(audit_append(f->logs, f->db, &ev, NULL, &f->err), ERR_CORRUPT);
	assert_non_null(strstr(f->err.msg, "contradict"));
	db_txn_end(f->db, ERR_CORRUPT, NULL);
}

/* Each on the same store, put back before.  frozen: with the guard against updates out of the way; loose: with the tables'
 * strictness as well, both put back as they were. */
static const struct tampering {
	const char *sql;
	enum audit_finding_code first, second;  /* must be found; second may repeat first */
	bool frozen, loose;
} tamperings[] = {
	{ "UPDATE rec SET ts = ts + 1 WHERE log = 2 AND idx = 5", AUDIT_FINDING_LEAF, AUDIT_FINDING_ROOT, true, false },
	{ "UPDATE rec SET outcome = 3 WHERE log = 2 AND idx = 6", AUDIT_FINDING_LEAF, AUDIT_FINDING_ROOT, true, false },
	{ "UPDATE rec SET trace = NULL WHERE log = 2 AND idx = 6", AUDIT_FINDING_LEAF, AUDIT_FINDING_ROOT, true, false },
	{ "UPDATE rec SET xstat = 0 WHERE log = 2 AND idx = 6", AUDIT_FINDING_LEAF, AUDIT_FINDING_ROOT, true, false },
	{ "UPDATE rec SET ext = CAST(x'011300000001' || 'y' AS BLOB) WHERE ext IS NOT NULL", AUDIT_FINDING_LEAF, AUDIT_FINDING_ROOT,
	  true, false },
	{ "UPDATE rec SET prn = (SELECT id FROM dict WHERE text = 'prn_b') WHERE log = 2 AND idx = 1", AUDIT_FINDING_PAIRING,
	  AUDIT_FINDING_LEAF, true, false },
	{ "UPDATE rec SET tool = (SELECT id FROM dict WHERE text = 'prn_b') WHERE log = 2 AND idx = 1", AUDIT_FINDING_DICT,
	  AUDIT_FINDING_LEAF, true, false },
	{ "UPDATE rec SET tool = 99999 WHERE log = 2 AND idx = 1", AUDIT_FINDING_DICT, AUDIT_FINDING_LEAF, true, false },
	{ "UPDATE rec SET leaf = zeroblob(32) WHERE log = 2 AND idx = 7", AUDIT_FINDING_LEAF, AUDIT_FINDING_LEAF, true, false },
	{ "UPDATE rec SET enc = 2 WHERE log = 2 AND idx = 7", AUDIT_FINDING_ENCODING, AUDIT_FINDING_ENCODING, true, false },
	{ "UPDATE rec SET n_req = -1 WHERE log = 2 AND idx = 7", AUDIT_FINDING_TYPE, AUDIT_FINDING_LEAF, true, false },
	{ "UPDATE rec SET call = x'01' WHERE log = 2 AND idx = 7", AUDIT_FINDING_TYPE, AUDIT_FINDING_PAIRING, true, false },
	{ "DELETE FROM rec WHERE log = 2 AND idx = 9", AUDIT_FINDING_GAP, AUDIT_FINDING_ROOT, false, false },
	{ "DELETE FROM rec WHERE log = 2 AND idx = 9; UPDATE rec SET idx = idx - 1 WHERE log = 2 AND idx > 9; "
	  "UPDATE head SET size = size - 1 WHERE log = 2", AUDIT_FINDING_ROOT, AUDIT_FINDING_PAIRING, true, false },
	{ "DELETE FROM rec WHERE log = 2 AND idx > 30", AUDIT_FINDING_TRUNCATED, AUDIT_FINDING_ROOT, false, false },
	{ "DELETE FROM rec WHERE log = 2 AND idx > 30; UPDATE head SET size = 31 WHERE log = 2", AUDIT_FINDING_ROOT,
	  AUDIT_FINDING_ROOT, false, false },
	{ "INSERT INTO rec(enc, log, idx, kind, ts) SELECT 1, 2, max(idx) + 1, 1010, 2000000 FROM rec WHERE log = 2",
	  AUDIT_FINDING_UNCOVERED_TAIL, AUDIT_FINDING_UNCOVERED_TAIL, false, false },
	{ "UPDATE rec SET idx = 1000 WHERE log = 2 AND idx = 3; UPDATE rec SET idx = 3 WHERE log = 2 AND idx = 5; "
	  "UPDATE rec SET idx = 5 WHERE idx = 1000", AUDIT_FINDING_LEAF, AUDIT_FINDING_ROOT, true, false },
	{ "UPDATE rec SET log = 100 WHERE log = 3; UPDATE rec SET log = 3 WHERE log = 2; UPDATE rec SET log = 2 WHERE log = 100",
	  AUDIT_FINDING_ROOT, AUDIT_FINDING_LEAF, true, false },
	{ "UPDATE rec SET log = 100 WHERE log = 3", AUDIT_FINDING_LOG_MISSING, AUDIT_FINDING_TRUNCATED, true, false },
	{ "DELETE FROM head WHERE log = 2", AUDIT_FINDING_LOG_MISSING, AUDIT_FINDING_LOG_MISSING, false, false },
	{ "UPDATE log SET origin = origin || 'x' WHERE id = 2", AUDIT_FINDING_LEAF, AUDIT_FINDING_ROOT, false, false },
	{ "UPDATE dict SET text = 'echp' WHERE text = 'echo'", AUDIT_FINDING_LEAF, AUDIT_FINDING_ROOT, false, false },
	{ "UPDATE dict SET text = CAST('echo' AS BLOB) WHERE text = 'echo'", AUDIT_FINDING_TYPE, AUDIT_FINDING_TYPE, false, true },
	{ "INSERT INTO dict(kind, text) VALUES(34, CAST('echo' AS BLOB))", AUDIT_FINDING_DICT, AUDIT_FINDING_DICT, false, true },
	{ "UPDATE head SET root = zeroblob(32)", AUDIT_FINDING_ROOT, AUDIT_FINDING_ROOT, false, false },
	{ "CREATE VIEW v AS SELECT 1", AUDIT_FINDING_SCHEMA, AUDIT_FINDING_SCHEMA, false, false },
	{ "DROP INDEX rec_ts; CREATE INDEX rec_ts ON rec(log, ts) WHERE kind <> 1002; PRAGMA writable_schema=ON;"
	  "UPDATE sqlite_schema SET sql = replace(sql, '1002', '1001') WHERE name = 'rec_ts'", AUDIT_FINDING_INDEX,
	  AUDIT_FINDING_INDEX, false, false },
};

static void tamper(struct fix *f, const struct tampering *t)
{
	if (t->frozen)
		raw(f, "DROP TRIGGER rec_frozen");
	if (t->loose)
		raw(f, "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = replace(sql, ' STRICT', ' ') WHERE name = 'dict'");
	raw(f, t->sql);
	if (t->loose)
		raw(f, "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = sql || 'STRICT' WHERE name = 'dict'");
	if (t->frozen)
		raw(f, "CREATE TRIGGER rec_frozen BEFORE UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END");
}

/* The closed store, to begin from again. */
static void *take_copy(const struct fix *f, size_t *ret_len)
{
	FILE *file = fopen(f->path, "rb");
	char *bytes = malloc(STORE_MAX);

	assert_non_null(file);
	*ret_len = fread(bytes, 1, STORE_MAX, file);
	assert_true(*ret_len < STORE_MAX);
	fclose(file);
	return bytes;
}

static void put_back(const struct fix *f, const void *bytes, size_t len)
{
	FILE *file = fopen(f->path, "wb");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, len, file), len);
	assert_int_equal(fclose(file), 0);
}

static void each_tampering_is_found(void **state)
{
	struct fix *f = *state;
	size_t len;
	void *pristine;

	begin(f);
	append(f, AUDIT_SERVER_STOP, 0, 1);     /* behind which nothing comes */
	commit(f);
	close_store(f);
	pristine = take_copy(f, &len);
	for (size_t i = 0; i < NELEMS(tamperings); i++) {
		const struct tampering *t = &tamperings[i];

		put_back(f, pristine, len);
		tamper(f, t);
		verify(f, 0);
		if (!f->count[t->first] || !f->count[t->second])
			fail_msg("%s: found %s, not %s and %s", t->sql, f->last[0] ? f->last : "nothing",
				 audit_finding_name(t->first), audit_finding_name(t->second));
		assert_true(f->sum.bad > 0);
	}
	free(pristine);
}

/* Records that the head does not know yet, as a server leaves them that died (SCALE SC-104). */
static void append_behind_the_head(struct fix *f, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		begin(f);
		append(f, AUDIT_LIST, ACME, (uint8_t)(100 + i % 100));
		OK(audit_logs_flush_rows(f->logs, f->db, &f->err));
		OK(db_txn_end(f->db, 0, &f->err));
		audit_logs_commit(f->logs);
	}
	close_store(f);
}

/* A head that lags is no finding, a head that lies is one, and records behind it are looked at as all others. */
static void a_head_may_lag_behind_and_may_not_lie(void **state)
{
	static const struct { const char *sql; enum audit_finding_code code; } lies[] = {
		{ "UPDATE head SET root = zeroblob(32) WHERE log = 2", AUDIT_FINDING_ROOT },
		{ "UPDATE head SET size = size + 1 WHERE log = 2", AUDIT_FINDING_ROOT },
		{ "UPDATE head SET size = 1000 WHERE log = 2", AUDIT_FINDING_TRUNCATED },
		{ "DELETE FROM rec WHERE log = 2 AND idx = 50", AUDIT_FINDING_GAP },
		{ "DROP TRIGGER rec_frozen; UPDATE rec SET n_req = 9 WHERE log = 2 AND idx = 50;"
		  "CREATE TRIGGER rec_frozen BEFORE UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END",
		  AUDIT_FINDING_LEAF },
		{ "INSERT INTO rec(enc, log, idx, kind, ts) SELECT 1, 1, max(idx) + 1, 1602, 2000000 FROM rec WHERE log = 1",
		  AUDIT_FINDING_UNCOVERED_TAIL },        /* a stop leaves no head behind */
	};
	struct fix *f = *state;
	size_t len;
	void *lagging;

	append_behind_the_head(f, 300);         /* and tiles with it */
	if (verify(f, 0) != 0)
		fail_msg("%s", f->last);
	assert_int_equal(f->sum.records, 1 + 2 * (1 + 2 * CALLS) + 300);
	lagging = take_copy(f, &len);
	reopen_store(f);
	append_behind_the_head(f, 300);         /* of what the process before has left, too */
	if (verify(f, 0) != 0)
		fail_msg("%s", f->last);
	reopen_store(f);
	begin(f);
	append(f, AUDIT_LIST, OTHER, 1);
	commit(f);                              /* now they do not lag any more */
	if (verify(f, 0) != 0)
		fail_msg("%s", f->last);
	close_store(f);
	for (size_t i = 0; i < NELEMS(lies); i++) {
		put_back(f, lagging, len);
		raw(f, lies[i].sql);
		verify(f, 0);
		if (!f->count[lies[i].code] || f->sum.bad == 0)
			fail_msg("%s: found %s", lies[i].sql, f->last[0] ? f->last : "nothing");
	}
	free(lagging);
}

#define FREEZE "CREATE TRIGGER rec_frozen BEFORE UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END;"
#define LAST_END "(SELECT max(id) FROM rec WHERE kind = 1002)"
/* The row changes while its index is hidden, and so does not. */
#define STALE(name, set, of) \
	"CREATE TEMP TABLE kept AS SELECT * FROM sqlite_schema WHERE name = '" name "'; DROP TRIGGER rec_frozen;" \
	"PRAGMA writable_schema=ON; DELETE FROM sqlite_schema WHERE name = '" name "'; PRAGMA writable_schema=RESET;" \
	"UPDATE rec SET " set " WHERE id = " of ";" \
	"PRAGMA writable_schema=ON; INSERT INTO sqlite_schema SELECT * FROM kept; PRAGMA writable_schema=RESET;" FREEZE
/* An index of other rows, or in another order, whose text is put right. */
#define OTHER_INDEX(name, made, from, to) \
	"DROP INDEX " name "; CREATE INDEX " name " ON " made "; PRAGMA writable_schema=ON;" \
	"UPDATE sqlite_schema SET sql = replace(sql, '" from "', '" to "') WHERE name = '" name "'"

/* AUDIT A-635 */
static void each_index_is_compared_with_the_table(void **state)
{
	static const char *const sql[] = {
		STALE("rec_pos", "idx = 1000", LAST_END), STALE("rec_call", "call = zeroblob(16)", LAST_END),
		STALE("rec_ts", "ts = ts + 1", LAST_END), STALE("rec_prn", "prn = prn + 1", LAST_END),
		STALE("rec_cred", "cred = cred + 1", LAST_END), STALE("rec_tool", "tool = NULL", LAST_END),
		STALE("rec_out", "outcome = 1", LAST_END), STALE("rec_kind", "ts = ts + 1", "(SELECT min(id) FROM rec WHERE kind NOT IN (1001, 1002))"),
		OTHER_INDEX("rec_call", "rec(call) WHERE kind <> 1001", "1001", "1001 AND call IS NOT NULL"),
		OTHER_INDEX("rec_ts", "rec(log, ts DESC) WHERE kind <> 1001", " DESC", ""),
		OTHER_INDEX("rec_prn", "rec(log, prn, ts) WHERE kind <> 1001 AND id > 9", " AND id > 9", ""),
	};
	struct fix *f = *state;
	size_t len;
	void *pristine;

	close_store(f);
	pristine = take_copy(f, &len);
	for (size_t i = 0; i < NELEMS(sql); i++) {
		put_back(f, pristine, len);
		raw(f, sql[i]);
		verify(f, 0);
		if (f->count[AUDIT_FINDING_INDEX] != 1 || f->count[AUDIT_FINDING_SCHEMA] || f->sum.indexes_summed)
			fail_msg("%s: found %s", sql[i], f->last[0] ? f->last : "nothing");
	}
	free(pristine);
}

/* AUDIT: neighbours are one finding, and a tenant's verification says nothing of another's log. */
static void findings_are_grouped_and_stay_in_their_log(void **state)
{
	struct fix *f = *state;
	const struct tampering t = { .sql = "UPDATE rec SET dur = 7 WHERE log = 2 AND idx BETWEEN 10 AND 20", .frozen = true };

	close_store(f);
	tamper(f, &t);
	verify(f, ACME);
	assert_int_equal(f->count[AUDIT_FINDING_LEAF], 1);
	assert_int_equal(f->sum.bad, 2);
	assert_non_null(strstr(f->last, "/t/acme 10-20"));
	assert_int_equal(verify(f, OTHER), 0);
	assert_int_equal(f->sum.logs, 1);
}

static void a_begin_without_an_end_is_a_gap(void **state)
{
	struct fix *f = *state;

	begin(f);
	append(f, AUDIT_CALL_BEGIN, ACME, 77);
	commit(f);
	verify(f, 0);
	assert_int_equal(f->sum.bad, 0);
	assert_int_equal(f->count[AUDIT_FINDING_DANGLING], 1);
	begin(f);
	append(f, AUDIT_CALL_BEGIN, ACME, 77);  /* the id again: one of them is nobody's */
	commit(f);
	verify(f, 0);
	assert_int_equal(f->count[AUDIT_FINDING_PAIRING], 1);
}

static void append_in_txn(struct fix *f, enum audit_kind kind, int64_t tenant, uint8_t call)
{
	begin(f);
	append(f, kind, tenant, call);
	commit(f);
}

static void system_record(struct fix *f, enum audit_kind kind)
{
	struct audit_event ev;

	begin(f);
	audit_event_init(&ev, kind, 0);
	OK(audit_append(f->logs, f->db, &ev, NULL, &f->err));
	commit(f);
}

/* HARDENING F-19: what began after the last start runs, as far as anybody can tell; what is older has no excuse. */
static void test_f19_only_calls_from_before_the_last_start_are_gaps(void **state)
{
	struct fix *f = *state;

	system_record(f, AUDIT_SERVER_START);
	begin(f);
	append(f, AUDIT_CALL_BEGIN, ACME, 77);
	commit(f);
	for (int64_t tenant = 0; tenant <= ACME; tenant += ACME) {
		verify(f, tenant);
		assert_int_equal(f->sum.bad + f->sum.gaps, 0);
		assert_int_equal(f->sum.running, 1);
	}
	clock_step(10);
	system_record(f, AUDIT_SERVER_CRASH);   /* nothing runs any more, whatever the next start recovers */
	verify(f, 0);
	assert_int_equal(f->count[AUDIT_FINDING_DANGLING], 1);
	assert_int_equal(f->sum.running, 0);
	clock_step(10);
	system_record(f, AUDIT_SERVER_START);
	begin(f);
	append(f, AUDIT_CALL_BEGIN, ACME, 79);
	commit(f);
	for (int64_t tenant = 0; tenant <= ACME; tenant += ACME) {
		verify(f, tenant);
		assert_int_equal(f->sum.bad, 0);
		assert_int_equal(f->sum.gaps, 1);       /* 77 */
		assert_int_equal(f->sum.running, 1);
	}
	clock_step(10);
	system_record(f, AUDIT_SERVER_STOP);
	verify(f, 0);
	assert_int_equal(f->sum.running, 0);
	assert_int_equal(f->count[AUDIT_FINDING_DANGLING], f->sum.gaps);        /* and 79 is one as well */
}

/* AUDIT A-303 */
static void starts_and_stops_alternate(void **state)
{
	static const enum audit_kind good[] = { AUDIT_SERVER_CRASH, AUDIT_SERVER_START, AUDIT_SERVER_STOP, AUDIT_SERVER_START,
		AUDIT_SERVER_CRASH, AUDIT_SERVER_START, AUDIT_ADMIN_CMD, AUDIT_SERVER_STOP };
	struct fix *f = *state;

	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		system_record(f, good[i]);
		verify(f, 0);
		assert_int_equal(f->count[AUDIT_FINDING_LIFECYCLE], 0);
	}
	system_record(f, AUDIT_SERVER_STOP);    /* nobody had started */
	verify(f, 0);
	assert_int_equal(f->count[AUDIT_FINDING_LIFECYCLE], 1);
	system_record(f, AUDIT_SERVER_START);
	system_record(f, AUDIT_SERVER_START);
	verify(f, 0);
	assert_int_equal(f->count[AUDIT_FINDING_LIFECYCLE], 2);
}

static void times_fall_only_where_the_clock_was_set(void **state)
{
	struct fix *f = *state;

	clock_fake(1000000000, 1000000000);
	system_record(f, AUDIT_ADMIN_CMD);
	clock_fake(940000000, 1000000001);      /* a minute: two threads may be so far apart */
	system_record(f, AUDIT_ADMIN_CMD);
	verify(f, 0);
	assert_int_equal(f->count[AUDIT_FINDING_TIME], 0);
	clock_fake(939999999, 1000000002);
	system_record(f, AUDIT_ADMIN_CMD);
	system_record(f, AUDIT_ADMIN_CMD);
	verify(f, 0);
	assert_int_equal(f->count[AUDIT_FINDING_TIME], 1);
	clock_fake(500000000, 1000000003);
	system_record(f, AUDIT_CLOCK_STEP);
	system_record(f, AUDIT_ADMIN_CMD);
	verify(f, 0);
	assert_int_equal(f->count[AUDIT_FINDING_TIME], 1);
	clock_fake(200000000, 1000000004);      /* set back again, and noticed behind the next record */
	system_record(f, AUDIT_ADMIN_CMD);
	verify(f, 0);
	assert_int_equal(f->count[AUDIT_FINDING_TIME], 2);
	system_record(f, AUDIT_CLOCK_STEP);
	verify(f, 0);
	assert_int_equal(f->count[AUDIT_FINDING_TIME], 1);
}

static void step_record(struct fix *f, const char *by)
{
	struct audit_event ev;

	begin(f);
	audit_event_init(&ev, AUDIT_CLOCK_STEP, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.detail = by;
	OK(audit_append(f->logs, f->db, &ev, NULL, &f->err));
	commit(f);
}

/* An hour back, and a log that is written to when a part of that hour has gone by again. */
static void a_log_that_rested_while_the_clock_was_set_back_is_no_finding(void **state)
{
	struct fix *f = *state;

	clock_fake(UINT64_C(10000000000), 1000000000);
	append_in_txn(f, AUDIT_LIST, ACME, 90);
	clock_fake(UINT64_C(6400000000), 1000000001);
	step_record(f, "-3600000 ms");
	clock_fake(UINT64_C(7000000000), 1600000001);
	append_in_txn(f, AUDIT_LIST, ACME, 91);
	for (int64_t tenant = 0; tenant <= ACME; tenant += ACME) {
		verify(f, tenant);
		assert_int_equal(f->count[AUDIT_FINDING_TIME], 0);
	}
	clock_fake(UINT64_C(6000000000), 1600000002);   /* further than it was set */
	append_in_txn(f, AUDIT_LIST, ACME, 92);
	verify(f, 0);
	assert_int_equal(f->count[AUDIT_FINDING_TIME], 1);
}

/* What two administrators ask for: request 1, 2, …, versions of definitions, policies. */
static void ask(struct fix *f, enum audit_kind kind, const char *obj, uint8_t n)
{
	struct audit_asked asked;
	struct audit_field fields[1];
	struct audit_event ev;
	uint8_t digest[32];

	audit_asked_make("what it is", NULL, &asked);
	fields[0] = (struct audit_field){ AUDIT_TAG_ASKED, asked.p, asked.len };
	memset(digest, n, sizeof digest);
	begin(f);
	audit_event_init(&ev, kind, 0);
	ev.obj = obj;
	ev.actor = AUDIT_BY_ADMIN;
	if (kind == AUDIT_APPROVAL_REQUEST) {
		ev.after = digest;
		ev.field = fields;
		ev.nfield = 1;
	}
	OK(audit_append(f->logs, f->db, &ev, NULL, &f->err));
	commit(f);
}

static unsigned unchecked(struct fix *f)
{
	verify(f, 0);
	return f->count[AUDIT_FINDING_NOT_CHECKED];
}

/* At the bound, and one more. */
static void check_bound(struct fix *f, enum audit_kind kind, const char *first, const char *second, const char *third)
{
	verify_approvals_bound(2);
	ask(f, kind, first, 1);
	ask(f, kind, second, 2);
	assert_int_equal(unchecked(f), 0);
	ask(f, kind, third, 3);
	assert_int_equal(unchecked(f), 1);
	verify_approvals_bound(SIZE_MAX);
	assert_int_equal(unchecked(f), 0);
}

static void requests_beyond_a_bound_are_not_checked(void **state)
{
	check_bound(*state, AUDIT_APPROVAL_REQUEST, "approval/1", "approval/2", "approval/3");
}

static void versions_beyond_a_bound_are_not_checked(void **state)
{
	check_bound(*state, AUDIT_APPROVAL_REQUEST, "tool/a", "tool/b", "tool/c");
}

static void policies_beyond_a_bound_are_not_checked(void **state)
{
	check_bound(*state, AUDIT_POLICY_CHANGE, "approval/policy/one", "approval/policy/two", "approval/policy/one");
}

/* The oldest goes: it has to be asked for again. */
static void so_many_requests_wait_for_a_second_one(void **state)
{
	struct fix *f = *state;
	struct audit_consent found;
	char obj[32];

	for (int i = 1; i <= AUDIT_CONSENTS_MAX; i++) {
		snprintf(obj, sizeof obj, "approval/%d", i);
		ask(f, AUDIT_APPROVAL_REQUEST, obj, 1);
	}
	assert_int_equal(audit_second_find(f->logs, f->db, 1, &found, &f->err), 1);
	snprintf(obj, sizeof obj, "approval/%d", AUDIT_CONSENTS_MAX + 1);
	ask(f, AUDIT_APPROVAL_REQUEST, obj, 1);
	assert_int_equal(audit_second_find(f->logs, f->db, 1, &found, &f->err), 0);
	assert_int_equal(audit_second_find(f->logs, f->db, 2, &found, &f->err), 1);
	assert_int_equal(audit_second_find(f->logs, f->db, AUDIT_CONSENTS_MAX + 1, &found, &f->err), 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, fix_free)

SUITE(verify)
{
	const struct CMUnitTest tests[] = {
		T(an_untouched_store_has_no_findings), T(undone_records_are_in_no_tree), T(a_tree_goes_on_after_a_restart),
		T(rows_are_taken_as_they_are_once),
		T(a_store_from_before_the_trees_gets_one), T(a_head_that_contradicts_itself_stops_the_log),
		T(each_tampering_is_found), T(a_head_may_lag_behind_and_may_not_lie), T(each_index_is_compared_with_the_table), T(findings_are_grouped_and_stay_in_their_log),
		T(a_begin_without_an_end_is_a_gap),
		T(test_f19_only_calls_from_before_the_last_start_are_gaps), T(starts_and_stops_alternate), T(times_fall_only_where_the_clock_was_set),
		T(a_log_that_rested_while_the_clock_was_set_back_is_no_finding),
		T(requests_beyond_a_bound_are_not_checked), T(versions_beyond_a_bound_are_not_checked),
		T(policies_beyond_a_bound_are_not_checked), T(so_many_requests_wait_for_a_second_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
