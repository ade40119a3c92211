/* Appending, undoing, recovering and reading records. */

#include "config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>


#include "audit/fold.h"
#include "audit/recover.h"
#include "audit_rig.h"
#include "base/tally.h"
#include "suite.h"

enum { ACME = 7, OTHER = 8 };

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
	*state = f;
	return 0;
}

static void reopen(struct fix *f)
{
	close_store(f);
	reopen_store(f);
}

static struct audit_event event(enum audit_kind kind, int64_t tenant, uint8_t call)
{
	struct audit_event ev;

	clock_step(1);
	audit_event_init(&ev, kind, tenant);
	if (call) {
		ev.has_call = true;
		memset(ev.call, call, sizeof ev.call);
		ev.cred = "7Qm3";
		ev.prn = "prn_a";
		ev.tool = "echo";
	}
	if (kind == AUDIT_CALL_END) {
		ev.has_outcome = true;
		ev.outcome = AUDIT_OK;
	}
	return ev;
}

static struct audit_receipt append(struct fix *f, enum audit_kind kind, int64_t tenant, uint8_t call)
{
	struct audit_event ev = event(kind, tenant, call);
	struct audit_receipt r = { -1, -1 };

	OK(audit_append(f->logs, f->db, &ev, &r, &f->err));
	return r;
}

enum { SEEN_MAX = 32 };
struct seen {
	size_t n;
	struct audit_view v[SEEN_MAX];
	char text[SEEN_MAX][80];
};

static int see(void *arg, const struct audit_view *v)
{
	struct seen *s = arg;

	assert_true(s->n < SEEN_MAX);
	s->v[s->n] = *v;
	snprintf(s->text[s->n], sizeof s->text[0], "%d %s %s %s", v->kind, v->tool ? v->tool : "-", v->prn ? v->prn : "-",
		 v->detail ? v->detail : "-");
	s->n++;
	return 0;
}

static struct seen query(struct fix *f, struct audit_filter filter)
{
	struct seen s = { 0 };

	OK(audit_query(f->db, &filter, see, &s, &f->err));
	return s;
}

static struct seen query_call(struct fix *f, int64_t tenant, uint8_t call)
{
	struct seen s = { 0 };
	uint8_t id[16];

	memset(id, call, sizeof id);
	OK(audit_query_call(f->db, tenant, id, see, &s, &f->err));
	return s;
}

#define ALL(t) ((struct audit_filter){ .tenant_id = (t), .outcome = -1, .limit = SEEN_MAX })

static int64_t count(struct fix *f, const char *sql)
{
	sqlite3_stmt *st;
	sqlite3 *raw;
	int64_t n;

	assert_int_equal(sqlite3_open_v2(f->path, &raw, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(raw, sql, -1, &st, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	n = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	sqlite3_close(raw);
	return n;
}

static void each_log_counts_from_zero(void **state)
{
	struct fix *f = *state;

	begin(f);
	assert_int_equal(append(f, AUDIT_CALL_BEGIN, ACME, 1).idx, 1);  /* 0 is log.open */
	assert_int_equal(append(f, AUDIT_CALL_BEGIN, OTHER, 2).idx, 1);
	assert_int_equal(append(f, AUDIT_CALL_END, ACME, 1).idx, 2);
	commit(f);
	reopen(f);
	begin(f);
	assert_int_equal(append(f, AUDIT_CALL_END, OTHER, 2).idx, 2);
	commit(f);
	assert_int_equal(count(f, "SELECT size FROM head JOIN log ON log.id = log WHERE tenant_id = 7"), 3);
}

static void end_knows_its_begin(void **state)
{
	struct fix *f = *state;
	struct seen s;

	begin(f);
	append(f, AUDIT_CALL_BEGIN, ACME, 1);
	append(f, AUDIT_CALL_BEGIN, ACME, 2);
	append(f, AUDIT_CALL_END, ACME, 1);
	append(f, AUDIT_CALL_END, OTHER, 2);    /* another tenant's call id is nobody's begin */
	commit(f);
	s = query_call(f, ACME, 1);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.v[0].kind, AUDIT_CALL_BEGIN);
	assert_int_equal(s.v[1].beg, 1);
	s = query_call(f, OTHER, 2);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.v[0].beg, -1);
	s = query_call(f, ACME, 2);             /* runs: in no index, found from open_from on */
	assert_int_equal(s.n, 1);
	assert_int_equal(s.v[0].kind, AUDIT_CALL_BEGIN);
	assert_int_equal(query_call(f, OTHER, 1).n, 0);
}

static void records_count_when_they_are_committed(void **state)
{
	struct fix *f = *state;
	const uint64_t begins = tally_records(AUDIT_CALL_BEGIN), grants = tally_records(AUDIT_GRANT_ADD),
		opened = tally_records(AUDIT_LOG_OPEN);
	struct audit_mark mark;

	begin(f);
	append(f, AUDIT_CALL_BEGIN, ACME, 1);
	mark = audit_logs_mark(f->logs);
	OK(db_item_begin(f->db, &f->err));
	append(f, AUDIT_GRANT_ADD, ACME, 0);
	assert_int_equal(db_item_end(f->db, ERR_INVALID, &f->err), ERR_INVALID);
	audit_logs_rollback(f->logs, mark);
	append(f, AUDIT_EPOCH_START, ACME, 0);
	assert_int_equal(tally_records(AUDIT_CALL_BEGIN), begins);
	commit(f);
	assert_int_equal(tally_records(AUDIT_CALL_BEGIN), begins + 1);
	assert_int_equal(tally_records(AUDIT_GRANT_ADD), grants);
	assert_int_equal(tally_records(AUDIT_EPOCH_START), 1);
	assert_int_equal(tally_records(AUDIT_LOG_OPEN), opened);
	assert_true(opened > 0);
}

static void undone_item_leaves_no_trace(void **state)
{
	struct fix *f = *state;
	struct audit_mark mark;
	struct audit_event ev;

	begin(f);
	append(f, AUDIT_CALL_BEGIN, ACME, 1);
	mark = audit_logs_mark(f->logs);
	OK(db_item_begin(f->db, &f->err));
	append(f, AUDIT_CALL_END, ACME, 1);
	ev = event(AUDIT_GRANT_ADD, ACME, 0);
	ev.obj = "a text of this item alone";
	OK(audit_append(f->logs, f->db, &ev, NULL, &f->err));
	OK(audit_log_create(f->logs, f->db, 9, "ninth", &f->err));
	assert_int_equal(db_item_end(f->db, ERR_INVALID, &f->err), ERR_INVALID);
	audit_logs_rollback(f->logs, mark);
	assert_int_equal(append(f, AUDIT_GRANT_ADD, ACME, 0).idx, 2);
	ev = event(AUDIT_GRANT_ADD, 9, 0);
	assert_int_equal(audit_append(f->logs, f->db, &ev, NULL, &f->err), ERR_NOT_FOUND);
	ev = event(AUDIT_GRANT_REMOVE, ACME, 0);
	ev.obj = "a text of this item alone";
	OK(audit_append(f->logs, f->db, &ev, NULL, &f->err));   /* not by the id that was rolled back */
	assert_int_equal(append(f, AUDIT_CALL_END, ACME, 1).idx, 4);
	commit(f);
	assert_int_equal(query_call(f, ACME, 1).v[1].beg, 1);   /* the call was open again */
	assert_int_equal(count(f, "SELECT count(*) FROM rec r JOIN dict d ON d.id = r.obj WHERE d.text LIKE 'a text of%'"), 1);
	reopen(f);
}

static void failed_commit_is_forgotten(void **state)
{
	struct fix *f = *state;
	struct audit_mark none = { 0 };

	begin(f);
	append(f, AUDIT_CALL_BEGIN, ACME, 1);
	OK(audit_logs_flush(f->logs, f->db, &f->err));
	assert_int_equal(db_txn_end(f->db, ERR_AUDIT, &f->err), ERR_AUDIT);
	audit_logs_rollback(f->logs, none);
	begin(f);
	assert_int_equal(append(f, AUDIT_CALL_BEGIN, ACME, 1).idx, 1);
	commit(f);
	reopen(f);
	assert_int_equal(query_call(f, ACME, 1).n, 1);
}

/* AUDIT A-104 */
static void recovery_closes_what_a_crash_left(void **state)
{
	struct fix *f = *state;
	struct seen s;
	size_t n = 0;

	begin(f);
	append(f, AUDIT_CALL_BEGIN, ACME, 1);
	append(f, AUDIT_CALL_BEGIN, ACME, 2);
	append(f, AUDIT_CALL_BEGIN, OTHER, 3);
	append(f, AUDIT_CALL_END, ACME, 2);
	append(f, AUDIT_CALL_DENIED, ACME, 4);
	commit(f);
	reopen(f);
	begin(f);
	OK(audit_recover(f->logs, f->db, NULL, false, &n, &f->err));
	assert_int_equal(n, 2);
	commit(f);
	s = query_call(f, ACME, 1);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.v[1].kind, AUDIT_CALL_RECOVERED);
	assert_int_equal(s.v[1].outcome, AUDIT_UNKNOWN);
	assert_int_equal(s.v[1].beg, s.v[0].idx);
	assert_string_equal(s.text[1], "1004 echo prn_a -");    /* who and what, as its begin */
	assert_int_equal(query_call(f, OTHER, 3).n, 2);
	assert_int_equal(query_call(f, ACME, 4).n, 1);
	reopen(f);
	begin(f);
	OK(audit_recover(f->logs, f->db, NULL, false, &n, &f->err));
	assert_int_equal(n, 0);
	commit(f);
}

static void recovery_starts_at_the_oldest_open_call(void **state)
{
	struct fix *f = *state;
	size_t n = 0;

	begin(f);
	append(f, AUDIT_CALL_BEGIN, ACME, 1);
	append(f, AUDIT_CALL_END, ACME, 1);
	append(f, AUDIT_CALL_BEGIN, ACME, 2);
	append(f, AUDIT_CALL_BEGIN, ACME, 3);
	append(f, AUDIT_CALL_END, ACME, 3);
	OK(audit_save_open_from(f->logs, f->db, &f->err));
	commit(f);
	assert_int_equal(count(f, "SELECT value = (SELECT id FROM rec WHERE call = x'02020202020202020202020202020202') "
				  "FROM meta WHERE key = 'open_from'"), 1);
	reopen(f);
	begin(f);
	OK(audit_recover(f->logs, f->db, NULL, false, &n, &f->err));
	assert_int_equal(n, 1);
	OK(audit_save_open_from(f->logs, f->db, &f->err));
	commit(f);
	assert_int_equal(count(f, "SELECT value = (SELECT max(id) + 1 FROM rec) FROM meta WHERE key = 'open_from'"), 1);
}

static void missing_records_stop_the_start(void **state)
{
	struct fix *f = *state;
	sqlite3 *raw;

	begin(f);
	append(f, AUDIT_GRANT_ADD, ACME, 0);
	commit(f);
	audit_logs_close(&f->logs);
	db_close(&f->db);
	assert_int_equal(sqlite3_open(f->path, &raw), SQLITE_OK);
	assert_int_equal(sqlite3_exec(raw, "DELETE FROM rec WHERE id = (SELECT max(id) FROM rec)", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(raw);
	OK(db_open(f->path, DB_WRITER, false, &f->db, &f->err));
	assert_int_equal(audit_logs_open(f->db, &f->logs, &f->err), ERR_CORRUPT);
	assert_non_null(strstr(f->err.msg, "should have 2 records and has 1"));
}

/* --- heads that lag behind (SCALE SC-104) */

static void commit_rows(struct fix *f)
{
	OK(audit_logs_flush_rows(f->logs, f->db, &f->err));
	OK(db_txn_end(f->db, 0, &f->err));
	audit_logs_commit(f->logs);
}

/* As a server leaves it that dies: n records that the head of ACME's log does not know. */
static void leave_rows(struct fix *f, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		begin(f);
		append(f, AUDIT_LIST, ACME, 0);
		commit_rows(f);
	}
	close_store(f);
}

#define HEAD_OF_ACME "SELECT size FROM head JOIN log ON log.id = log WHERE tenant_id = 7"
#define TILES_OF_ACME "SELECT coalesce(sum(length(hashes) / 32), 0) FROM tile JOIN log ON log.id = log WHERE tenant_id = 7 AND level = 1"

static void a_start_reads_what_heads_do_not_know(void **state)
{
	struct fix *f = *state;
	int64_t size = 0;

	leave_rows(f, 300);
	assert_int_equal(count(f, HEAD_OF_ACME), 1);
	reopen_store(f);
	OK(audit_size(f->logs, ACME, &size, &f->err));
	assert_int_equal(size, 301);
	begin(f);
	append(f, AUDIT_LIST, OTHER, 0);
	commit(f);                              /* also of logs that have not grown since the start */
	assert_int_equal(count(f, HEAD_OF_ACME), 301);
	assert_int_equal(count(f, TILES_OF_ACME), 1);
	leave_rows(f, 256);
	reopen_store(f);
	leave_rows(f, 2);                       /* a tile that was completed by the process before */
	reopen_store(f);
	begin(f);
	assert_int_equal(append(f, AUDIT_LIST, ACME, 0).idx, 559);
	commit(f);
	assert_int_equal(count(f, TILES_OF_ACME), 2);
}

/* A head is written when it is due, and what was written of it goes with its transaction. */
static void a_head_is_written_when_it_is_due(void **state)
{
	struct fix *f = *state;

	for (unsigned i = 0; i < 255; i++) {
		begin(f);
		append(f, AUDIT_LIST, ACME, 0);
		commit_rows(f);
	}
	assert_int_equal(count(f, HEAD_OF_ACME), 1);
	begin(f);
	append(f, AUDIT_LIST, ACME, 0);         /* completes a tile */
	audit_heads_due(f->logs);
	OK(audit_logs_flush_rows(f->logs, f->db, &f->err));
	assert_int_equal(db_txn_end(f->db, ERR_AUDIT, &f->err), ERR_AUDIT);
	audit_logs_rollback(f->logs, (struct audit_mark){ 0 });
	assert_int_equal(count(f, HEAD_OF_ACME), 1);
	begin(f);
	append(f, AUDIT_LIST, OTHER, 0);
	commit(f);                              /* of all that lag, once */
	assert_int_equal(count(f, HEAD_OF_ACME), 256);
	assert_int_equal(count(f, TILES_OF_ACME), 1);
	begin(f);
	append(f, AUDIT_LIST, OTHER, 0);
	commit_rows(f);                         /* due no more */
	assert_int_equal(count(f, "SELECT max(size) FROM head JOIN log ON log.id = log WHERE tenant_id = 8"), 2);
}

static void what_heads_do_not_know_is_looked_at_by_a_start(void **state)
{
	static const struct { const char *sql, *why; } damage[] = {
		{ "DELETE FROM rec WHERE log = 2 AND idx = 20", "record 20 cannot be read as it was written" },
		{ "DROP TRIGGER rec_frozen; UPDATE rec SET ts = ts + 1 WHERE log = 2 AND idx = 20", "record 20 cannot be read" },
		{ "INSERT INTO rec(enc, log, idx, kind, ts) SELECT 1, 1, max(idx) + 1, 1602, 2000000 FROM rec WHERE log = 1",
		  "should have" },      /* a stop leaves no head behind */
		{ "UPDATE head SET size = 1000 WHERE log = 2", "should have 1000 records and has 41" },
	};

	for (size_t i = 0; i < NELEMS(damage); i++) {
		struct fix *f = *state;

		leave_rows(f, 40);
		raw(f, damage[i].sql);
		OK(db_open(f->path, DB_WRITER, false, &f->db, &f->err));
		assert_int_equal(audit_logs_open(f->db, &f->logs, &f->err), ERR_CORRUPT);
		if (!strstr(f->err.msg, damage[i].why))
			fail_msg("%s: %s", damage[i].sql, f->err.msg);
		db_close(&f->db);
		fix_free(state);
		set_up(state);
	}
}

/* A row by nobody, where the next record of a log is to stand. */
static void put_in_the_way(struct fix *f, int64_t log, int64_t idx)
{
	struct db_stmt *st = db_stmt_get(f->db, SQL_AUDIT_INSERT_REC);

	for (unsigned i = 1; i <= 46; i++)
		db_bind_null(st, i);
	db_bind_i64(st, 1, 1);
	db_bind_i64(st, 3, log);
	db_bind_i64(st, 4, idx);
	db_bind_i64(st, 6, 1);
	db_bind_i64(st, 19, 1);
	OK(db_run(&st, &f->err));
}

/* Decision 0173. */
static void rows_that_waited_in_vain_are_said_to_be_lost(void **state)
{
	struct fix *f = *state;
	struct audit_mark none = { 0 };

	begin(f);
	audit_logs_gather(f->logs, true);
	assert_int_equal(append(f, AUDIT_CALL_BEGIN, ACME, 1).idx, 1);
	assert_int_equal(append(f, AUDIT_CALL_BEGIN, OTHER, 2).idx, 1);
	audit_logs_gather(f->logs, false);
	put_in_the_way(f, 2, 1);
	assert_int_equal(audit_logs_insert(f->logs, f->db, &f->err), ERR_CONFLICT);
	assert_true(audit_logs_is_lost(f->logs));
	assert_int_equal(audit_logs_insert(f->logs, f->db, &f->err), ERR_INTERNAL);
	assert_int_equal(db_txn_end(f->db, ERR_CONFLICT, &f->err), ERR_CONFLICT);
	audit_logs_rollback(f->logs, none);
	assert_false(audit_logs_is_lost(f->logs));
	begin(f);
	assert_int_equal(append(f, AUDIT_CALL_BEGIN, ACME, 1).idx, 1);
	commit(f);
	begin(f);                                       /* a number that is not the next would be that of another payload */
	audit_logs_gather(f->logs, true);
	append(f, AUDIT_CALL_BEGIN, ACME, 3);
	put_in_the_way(f, 3, 1);
	assert_int_equal(audit_logs_insert(f->logs, f->db, &f->err), ERR_INTERNAL);
	assert_int_equal(db_txn_end(f->db, ERR_INTERNAL, &f->err), ERR_INTERNAL);
	audit_logs_rollback(f->logs, none);
	begin(f);                                       /* nothing waits behind a roll back */
	append(f, AUDIT_CALL_BEGIN, ACME, 4);
	audit_logs_rollback(f->logs, none);
	OK(audit_logs_insert(f->logs, f->db, &f->err));
	assert_int_equal(db_txn_end(f->db, ERR_CANCELLED, &f->err), ERR_CANCELLED);
	audit_logs_gather(f->logs, false);
	assert_int_equal(count(f, "SELECT count(*) FROM rec WHERE kind = 1001"), 1);
}

static void store_and_read_all(struct fix *f, bool waits);
static void everything_that_is_stored_is_read(void **state)
{
	store_and_read_all(*state, false);
	store_and_read_all(*state, true);
}

static void store_and_read_all(struct fix *f, bool waits)
{
	struct audit_event ev = event(AUDIT_CALL_END, ACME, 5);
	uint8_t digest[32];
	struct audit_filter all = ALL(ACME);
	struct audit_view *v;
	struct seen s;

	memset(digest, 0xab, sizeof digest);
	ev.has_prev = ev.has_trace = ev.has_xstat = true;
	memset(ev.prev, 6, 16);
	memset(ev.trace, 7, 16);
	ev.actor = AUDIT_BY_SERVICE;
	ev.authn = AUDIT_AUTHN_KEY;
	ev.tport = AUDIT_HTTP;
	ev.rev = "2025-11-25";
	ev.tdef = ev.before = ev.after = digest;
	ev.rule = "grant/12";
	ev.n_req = 0;
	ev.n_res = 1234567890123;
	ev.flags = AUDIT_FLAG_UNDELIVERED | AUDIT_FLAG_BROKE_SCHEMA;
	ev.outcome = AUDIT_TOOL_ERROR;
	ev.xstat = -32602;
	ev.sig = 9;
	ev.dur_us = 42;
	ev.obj = "tool/echo@3";
	ev.detail = "why \xc3\xa4\xc3\xb6";
	ev.generation = 1ULL << 40;
	ev.receivers = 3;
	begin(f);
	audit_logs_gather(f->logs, waits);
	OK(audit_append(f->logs, f->db, &ev, NULL, &f->err));
	audit_logs_gather(f->logs, false);
	OK(audit_logs_insert(f->logs, f->db, &f->err));
	OK(audit_logs_flush_rows(f->logs, f->db, &f->err));
	OK(db_txn_end(f->db, 0, &f->err));
	audit_logs_commit(f->logs);
	reopen(f);
	begin(f);
	append(f, AUDIT_CALL_BEGIN, OTHER, 2);
	append(f, AUDIT_CALL_BEGIN, ACME, 3);           /* reads what no head has, with its leaves */
	commit(f);
	all.limit = 1;
	s = query(f, all);
	assert_int_equal(s.n, 1);
	v = &s.v[0];
	assert_string_equal(s.text[0], "1002 echo prn_a why \xc3\xa4\xc3\xb6");
	assert_true(v->has_call && v->has_prev && v->has_outcome && v->has_xstat);
	assert_memory_equal(v->prev, ev.prev, 16);
	assert_int_equal(v->outcome, AUDIT_TOOL_ERROR);
	assert_int_equal(v->xstat, 32602);
	assert_int_equal(v->n_req, 0);
	assert_true(v->n_res == 1234567890123);
	assert_int_equal(v->flags, ev.flags);
	assert_int_equal(v->sig, 9);
	assert_int_equal(v->dur_us, 42);
	assert_true(v->generation == 1ULL << 40);
	assert_int_equal(v->receivers, 3);
	assert_int_equal(v->ts_us, ev.time_us);
	assert_int_equal(v->actor * 100 + v->authn * 10 + v->tport, 114);
}

static void filters_narrow_newest_first(void **state)
{
	struct fix *f = *state;
	struct audit_filter q;
	struct audit_event ev;
	uint64_t t[3];
	struct seen s;

	begin(f);
	for (int i = 0; i < 3; i++) {
		append(f, AUDIT_CALL_BEGIN, ACME, (uint8_t)(i + 1));
		ev = event(AUDIT_CALL_END, ACME, (uint8_t)(i + 1));
		ev.tool = i == 1 ? "word_count" : "echo";
		ev.prn = i == 2 ? "prn_b" : "prn_a";
		ev.outcome = i == 0 ? AUDIT_TIMEOUT : AUDIT_OK;
		t[i] = ev.time_us;
		OK(audit_append(f->logs, f->db, &ev, NULL, &f->err));
	}
	append(f, AUDIT_CALL_DENIED, OTHER, 9);
	commit(f);
	s = query(f, ALL(ACME));
	assert_int_equal(s.n, 4);               /* three ends and log.open; no begin */
	assert_int_equal(s.v[0].idx, 6);
	assert_int_equal(s.v[3].idx, 0);
	q = ALL(ACME);
	q.tool = "word_count";
	assert_int_equal(query(f, q).v[0].call[0], 2);
	assert_int_equal(query(f, q).n, 1);
	q.tool = "never_called";
	assert_int_equal(query(f, q).n, 0);
	q = ALL(ACME);
	q.prn = "prn_a";
	assert_int_equal(query(f, q).n, 2);
	q.outcome = AUDIT_OK;
	assert_int_equal(query(f, q).n, 1);
	q = ALL(ACME);
	q.cred = "7Qm3";
	q.since_us = t[1];
	q.until_us = t[2];
	s = query(f, q);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.v[0].ts_us, t[1]);
	q = ALL(ACME);
	q.limit = 2;
	assert_int_equal(query(f, q).n, 2);
	q = ALL(ACME);
	q.kind = AUDIT_LOG_OPEN;
	assert_int_equal(query(f, q).n, 1);
	q.kind = AUDIT_CALL_BEGIN;
	assert_int_equal(query(f, q).n, 3);
	assert_int_equal(query(f, ALL(OTHER)).n, 2);
	q = ALL(99);
	assert_int_equal(audit_query(f->db, &q, see, &s, &f->err), ERR_NOT_FOUND);
}

/* AUDIT A-409: at the limit and one byte above it */
static void texts_have_limits(void **state)
{
	struct fix *f = *state;
	char text[AUDIT_TEXT_MAX + 2], detail[AUDIT_DETAIL_MAX + 2];
	struct audit_event ev = event(AUDIT_GRANT_ADD, ACME, 0);
	struct audit_filter q = ALL(ACME);

	memset(text, 'x', sizeof text);
	text[AUDIT_TEXT_MAX] = '\0';
	ev.obj = text;
	begin(f);
	OK(audit_append(f->logs, f->db, &ev, NULL, &f->err));
	text[AUDIT_TEXT_MAX] = 'x';
	text[AUDIT_TEXT_MAX + 1] = '\0';
	assert_int_equal(audit_append(f->logs, f->db, &ev, NULL, &f->err), ERR_INVALID);
	ev.obj = "\xff";
	assert_int_equal(audit_append(f->logs, f->db, &ev, NULL, &f->err), ERR_INVALID);
	ev.obj = NULL;
	memset(detail, 'd', sizeof detail);
	memcpy(detail + AUDIT_DETAIL_MAX - 1, "\xc3\xa4", 3);   /* would be cut in two */
	ev.detail = detail;
	OK(audit_append(f->logs, f->db, &ev, NULL, &f->err));
	ev.detail = "bad \xff byte";
	OK(audit_append(f->logs, f->db, &ev, NULL, &f->err));
	commit(f);
	assert_int_equal(count(f, "SELECT length(ext) FROM rec WHERE id = (SELECT max(id) - 1 FROM rec)"), 6 + AUDIT_DETAIL_MAX - 1);
	q.limit = 1;
	assert_string_equal(query(f, q).text[0], "1405 - - bad \\xff byte");
}

static void damaged_ext_is_found(void **state)
{
	static const char *const bad[] = {
		"0113",                                         /* a head cut short */
		"01130000000261",                               /* longer than the rest */
		"010D0000000401020304",                         /* not 8 bytes */
		"010D00000008000000000000000100F00000000161",   /* tags fall */
		"011300000001610113000000016200",               /* twice, and a byte too many */
		"000100000000",                                 /* below 0100 */
	};
	struct fix *f = *state;
	struct audit_filter q = ALL(ACME);
	struct seen s = { 0 };
	sqlite3 *raw;
	char sql[200];

	assert_int_equal(sqlite3_open(f->path, &raw), SQLITE_OK);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		snprintf(sql, sizeof sql, "DELETE FROM rec WHERE idx = 1; INSERT INTO rec(enc, log, idx, kind, ts, ext) "
			 "VALUES(1, 2, 1, 1701, 9000000, x'%s')", bad[i]);
		assert_int_equal(sqlite3_exec(raw, sql, NULL, NULL, NULL), SQLITE_OK);
		if (audit_query(f->db, &q, see, &s, &f->err) != ERR_CORRUPT)
			fail_msg("%s", bad[i]);
		assert_string_equal(f->err.where, "idx/1");
	}
	sqlite3_close(raw);
}

static int see_fields(void *arg, const struct audit_view *v)
{
	static const struct { unsigned tag; const char *text; } want[] = {
		{ AUDIT_TAG_GROUND, "asked for" }, { AUDIT_TAG_TICKET, "" }, { AUDIT_TAG_REASON, "why" }, { AUDIT_TAG_TAILS, "zz" },
	};
	size_t *seen = arg, len = 99;

	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		const uint8_t *p = audit_field_find(v->ext, v->ext_len, want[i].tag, &len);

		assert_non_null(p);
		assert_int_equal(len, strlen(want[i].text));
		assert_memory_equal(p, want[i].text, len);
	}
	assert_null(audit_field_find(v->ext, v->ext_len, AUDIT_TAG_BUNDLE, &len));
	assert_string_equal(v->detail, "why");
	assert_int_equal(v->generation, 7);
	++*seen;
	return 0;
}

static void further_fields_stand_among_the_common_ones(void **state)
{
	struct fix *f = *state;
	const struct audit_field field[] = { { AUDIT_TAG_GROUND, "asked for", 9 }, { AUDIT_TAG_TICKET, NULL, 0 },
		{ AUDIT_TAG_TAILS, "zz", 2 } };
	struct audit_event ev = event(AUDIT_ERASE, ACME, 0);
	struct audit_filter all = { .tenant_id = ACME, .outcome = -1, .kind = AUDIT_ERASE, .limit = 9 };
	size_t seen = 0;

	ev.detail = "why";
	ev.generation = 7;
	ev.field = field;
	ev.nfield = 3;
	begin(f);
	OK(audit_append(f->logs, f->db, &ev, NULL, &f->err));
	commit(f);
	OK(audit_query(f->db, &all, see_fields, &seen, &f->err));
	assert_int_equal(seen, 1);
}

static void fields_have_an_order_and_a_limit(void **state)
{
	struct fix *f = *state;
	static uint8_t big[AUDIT_EXT_MAX];
	const struct { struct audit_field field[2]; int rc; } cases[] = {
		{ { { AUDIT_TAG_TICKET, "t", 1 }, { AUDIT_TAG_GROUND, "g", 1 } }, ERR_INTERNAL },
		{ { { AUDIT_TAG_TICKET, "t", 1 }, { AUDIT_TAG_TICKET, "t", 1 } }, ERR_INTERNAL },
		{ { { AUDIT_TAG_TICKET, "", 0 }, { AUDIT_TAG_FRONTIER, big, AUDIT_EXT_MAX - 12 } }, 0 },
		{ { { AUDIT_TAG_TICKET, "", 0 }, { AUDIT_TAG_FRONTIER, big, AUDIT_EXT_MAX - 11 } }, ERR_LIMIT },
	};

	begin(f);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct audit_event ev = event(AUDIT_PRUNE, ACME, 0);

		ev.field = cases[i].field;
		ev.nfield = 2;
		assert_int_equal(audit_append(f->logs, f->db, &ev, NULL, &f->err), cases[i].rc);
	}
	commit(f);
}

static void origin_is_not_given_twice(void **state)
{
	struct fix *f = *state;

	begin(f);
	OK(audit_log_create(f->logs, f->db, 9, "acme", &f->err));
	assert_int_equal(audit_log_create(f->logs, f->db, 9, "acme", &f->err), ERR_CONFLICT);
	commit(f);
	assert_int_equal(count(f, "SELECT count(*) FROM log WHERE origin = (SELECT value FROM meta WHERE key = 'instance') || '/t/acme/9'"), 1);
}

static void last_kind_of_a_log(void **state)
{
	struct fix *f = *state;
	int kind = -1;

	begin(f);
	OK(audit_last_kind(f->logs, f->db, 0, &kind, NULL, &f->err));
	assert_int_equal(kind, AUDIT_LOG_OPEN);
	append(f, AUDIT_SERVER_START, 0, 0);
	commit(f);
	OK(audit_last_kind(f->logs, f->db, 0, &kind, NULL, &f->err));
	assert_int_equal(kind, AUDIT_SERVER_START);
}

static void names_and_codes_agree(void **state)
{
	assert_string_equal(audit_kind_name(1002), "call.end");
	assert_null(audit_kind_name(1999));
	for (int i = 0; i < AUDIT_OUTCOME_COUNT; i++)
		assert_int_equal(audit_outcome_from_name(audit_outcome_name(i)), i);
	assert_int_equal(audit_outcome_from_name("none"), -1);
	assert_null(audit_outcome_name(AUDIT_OUTCOME_COUNT));
	assert_string_equal(audit_tport_name(AUDIT_HTTP), "http");
	assert_null(audit_tport_name(0));
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, fix_free)

SINGLE_THREAD_SUITE(log)
{
	const struct CMUnitTest tests[] = {
		T(each_log_counts_from_zero), T(end_knows_its_begin), T(records_count_when_they_are_committed),
		T(undone_item_leaves_no_trace), T(failed_commit_is_forgotten),
		T(recovery_closes_what_a_crash_left), T(recovery_starts_at_the_oldest_open_call), T(missing_records_stop_the_start),
		T(a_start_reads_what_heads_do_not_know), T(a_head_is_written_when_it_is_due),
		T(what_heads_do_not_know_is_looked_at_by_a_start),
		T(everything_that_is_stored_is_read), T(rows_that_waited_in_vain_are_said_to_be_lost), T(filters_narrow_newest_first), T(texts_have_limits),
		T(damaged_ext_is_found), T(further_fields_stand_among_the_common_ones), T(fields_have_an_order_and_a_limit),
		T(origin_is_not_given_twice), T(last_kind_of_a_log), cmocka_unit_test(names_and_codes_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
