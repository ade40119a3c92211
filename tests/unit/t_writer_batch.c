/* Group commit, order, fairness, isolation of items, start and stop. */

#include "config.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/metric.h"

#include "../../src/writer/writer_int.h"
#include "t_writer.h"
#include "suite.h"

/* The first submission hangs in its flush, so that what follows gathers. */
static void hang(struct fix *f)
{
	fault_set(FAULT_HANG);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 3, 9999), 0);
	fault_wait_hanging(f->loop);
}

static void what_waits_is_one_transaction(void **state)
{
	struct fix *f = *state;
	uint64_t batches;

	hang(f);
	for (int i = 1; i <= 200; i++)
		assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, i), 0);
	batches = metric_get(METRIC_writer_batches);
	fault_set(FAULT_NONE);
	wait_idle(f);
	assert_int_equal(metric_get(METRIC_writer_batches) - batches, 2);
	assert_int_equal(f->n, 201);
	for (int i = 1; i <= 200; i++) {
		assert_int_equal(f->log[i].tag, i);
		assert_int_equal(f->log[i].rc, 0);
		assert_int_equal(f->log[i].idx, i);     /* 0 is log.open */
	}
}

/* AUDIT A-214 */
static void what_one_turn_submits_is_one_transaction(void **state)
{
	struct fix *f = *state;
	uint64_t batches = metric_get(METRIC_writer_batches);

	for (int i = 1; i <= 20; i++)
		assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1 + i % 3, i), 0);
	wait_idle(f);
	assert_int_equal(metric_get(METRIC_writer_batches) - batches, 1);
	assert_int_equal(f->n, 20);
}

/* AUDIT A-215 */
static void tenants_take_turns(void **state)
{
	struct fix *f = *state;

	hang(f);
	for (int i = 1; i <= 100; i++)
		assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, i), 0);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 2, 1000), 0);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 2, 1001), 0);
	fault_set(FAULT_NONE);
	wait_idle(f);
	assert_int_equal(f->log[2].tag, 1000);
	assert_int_equal(f->log[4].tag, 1001);
	assert_int_equal(f->log[5].tag, 3);
}

static void batch_has_a_limit(void **state)
{
	struct fix *f = *state;
	uint64_t batches;

	close_writer(f);
	f->limits.batch_max = 10;
	open_writer(f);
	hang(f);
	batches = metric_get(METRIC_writer_batches);
	for (int i = 1; i <= 21; i++)
		assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, i), 0);
	fault_set(FAULT_NONE);
	wait_idle(f);
	assert_int_equal(metric_get(METRIC_writer_batches) - batches, 4);     /* 1, 10, 10, 1 */
}

/* SPEED SP-502: once behind each burst, and what comes then is done. */
static void what_a_burst_left_is_given_back(void **state)
{
	struct fix *f = *state;

	close_writer(f);
	f->limits.rest_ms = 1;
	open_writer(f);
	for (unsigned burst = 1; burst <= 3; burst++) {
		unsigned before = writer_rested(f->w);

		hang(f);
		assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, (int)burst), 0);
		assert_int_equal(submit(f, AUDIT_CALL_END, 3, 9999), 0);
		assert_in_range(writer_rested(f->w), before, before + 1);       /* before it hung, not while it does */
		before = writer_rested(f->w);
		fault_set(FAULT_NONE);
		wait_idle(f);
		for (uint64_t end = clock_mono_us() + WAIT_MS * 1000; writer_rested(f->w) == before;)
			assert_true(clock_mono_us() < end);
		assert_int_equal(writer_rested(f->w), before + 1);
	}
	assert_int_equal(f->n, 9);
	for (size_t i = 0; i < f->n; i++)
		assert_int_equal(f->log[i].rc, 0);
}

static void full_queue_refuses_call(void **state)
{
	struct fix *f = *state;

	close_writer(f);
	f->limits.queue_max = 8;
	open_writer(f);
	hang(f);
	for (int i = 1; i <= 8; i++)
		assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, i), 0);
	assert_int_equal(writer_reserve(f->w, 1), ERR_AUDIT);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 2, 9), ERR_AUDIT);
	assert_int_equal(submit_job(f, 10, false, make_tenants), ERR_BUSY);
	assert_int_equal(submit(f, AUDIT_CALL_END, 3, 9999), 0);        /* what has begun can end */
	fault_set(FAULT_NONE);
	wait_idle(f);
	assert_int_equal(f->n, 10);
	for (size_t i = 0; i < f->n; i++)
		assert_int_equal(f->log[i].rc, 0);
	assert_int_equal(writer_reserve(f->w, 1), 0);
	writer_release(f->w, 1);
}

static int fail_after_writing(struct db *db, struct audit_logs *logs, struct err *err)
{
	struct audit_event ev;
	int rc;

	audit_event_init(&ev, AUDIT_GRANT_ADD, 1);
	ev.obj = "only in the job that fails";
	rc = audit_append(logs, db, &ev, NULL, err);
	return rc < 0 ? rc : err_set(err, ERR_INVALID, "/here", "it is wrong");
}

static int write_meta(struct db *db, const char *key, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_META_SET_VALUE);

	db_bind_textz(st, 1, key);
	db_bind_textz(st, 2, "x");
	return db_run(&st, err);
}

static int change_without_record(struct db *db, struct audit_logs *logs, struct err *err)
{
	return write_meta(db, "unrecorded", err);
}

static int change_with_record(struct db *db, struct audit_logs *logs, struct err *err)
{
	struct audit_event ev;
	int rc = write_meta(db, "recorded", err);

	audit_event_init(&ev, AUDIT_GRANT_ADD, 1);
	return rc < 0 ? rc : audit_append(logs, db, &ev, NULL, err);
}

/* A record, and a row where the next one of its log is to stand. */
static int be_in_the_way(struct db *db, struct audit_logs *logs, struct err *err)
{
	struct audit_receipt at;
	struct audit_event ev;
	struct db_stmt *st;
	int rc;

	audit_event_init(&ev, AUDIT_GRANT_ADD, 1);
	rc = audit_append(logs, db, &ev, &at, err);
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_AUDIT_INSERT_REC);
	for (unsigned i = 1; i <= 46; i++)
		db_bind_null(st, i);
	db_bind_i64(st, 1, 1);
	db_bind_i64(st, 3, at.log);
	db_bind_i64(st, 4, at.idx + 1);
	db_bind_i64(st, 6, 1);
	db_bind_i64(st, 19, 1);
	return db_run(&st, err);
}

/* Decision 0173: nobody is told of a record that is not there, and the end of a call is kept and tried on its own. */
static void rows_that_cannot_be_inserted_together_fail_together(void **state)
{
	struct fix *f = *state;

	hang(f);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 1), 0);
	assert_int_equal(submit_job(f, 2, false, be_in_the_way), 0);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 3), 0);
	assert_int_equal(submit(f, AUDIT_CALL_END, 1, 4), 0);
	fault_set(FAULT_NONE);
	wait_idle(f);
	assert_int_equal(rc_of(f, 1), ERR_AUDIT);
	assert_int_equal(rc_of(f, 2), ERR_AUDIT);
	assert_int_equal(rc_of(f, 3), ERR_AUDIT);
	assert_int_equal(rc_of(f, -4), 0);
	assert_int_equal(ask(f, "SELECT count(*) FROM rec WHERE kind = 1002"), 1);
	assert_int_equal(ask(f, "SELECT count(*) = max(idx) + 1 FROM rec WHERE log = 2"), 1);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 5), 0);
	wait_idle(f);
	assert_int_equal(rc_of(f, 5), 0);
}

static void item_fails_alone(void **state)
{
	struct fix *f = *state;
	struct audit_event bad = call_event(AUDIT_CALL_BEGIN, 77, 4);   /* a tenant without a log */

	hang(f);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 1), 0);
	assert_int_equal(submit_job(f, 2, false, fail_after_writing), 0);
	assert_int_equal(submit_job(f, 3, false, change_with_record), 0);
	assert_int_equal(writer_audit(f->w, &bad, on_audit, ticket(f, 4)), 0);
	f->pending++;
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 5), 0);
	fault_set(FAULT_NONE);
	wait_idle(f);
	assert_int_equal(rc_of(f, 1), 0);
	assert_int_equal(rc_of(f, 2), ERR_INVALID);
	assert_string_equal(f->err.msg, "it is wrong");
	assert_int_equal(rc_of(f, 3), 0);
	assert_int_equal(rc_of(f, 4), ERR_AUDIT);
	assert_int_equal(rc_of(f, 5), 0);
	assert_int_equal(ask(f, "SELECT count(*) FROM dict WHERE text LIKE 'only in%'"), 0);
	assert_int_equal(ask(f, "SELECT count(*) FROM meta WHERE key = 'recorded'"), 1);
	assert_int_equal(ask(f, "SELECT count(*) = max(idx) + 1 FROM rec WHERE log = 2"), 1);
}

/* AUDIT A-206 */
static void change_without_record_is_undone(void **state)
{
	struct fix *f = *state;

	assert_int_equal(submit_job(f, 1, false, change_without_record), 0);
	wait_idle(f);
	assert_int_equal(rc_of(f, 1), ERR_INTERNAL);
	assert_int_equal(ask(f, "SELECT count(*) FROM meta WHERE key = 'unrecorded'"), 0);
	assert_int_equal(submit_job(f, 2, true, change_without_record), 0);
	wait_idle(f);
	assert_int_equal(rc_of(f, 2), 0);
}

/* TK-37: records and rows are there together, or neither is, and what shares the batch is not touched by it. */
static void tk37_a_change_is_one(void **state)
{
	struct fix *f = *state;
	struct audit_event ev[WRITER_CHANGE_EVENTS];
	char key[] = "tk37";

	for (int i = 0; i < WRITER_CHANGE_EVENTS; i++)
		ev[i] = call_event(i ? AUDIT_LIST : AUDIT_CALL_BEGIN, 1, i + 1);
	hang(f);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 90), 0);
	assert_int_equal(submit_change(f, ev, WRITER_CHANGE_EVENTS, key, 1), 0);
	memset(key, 'y', 2);
	assert_int_equal(submit_change(f, ev, 2, "fail", 2), 0);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 91), 0);
	fault_set(FAULT_NONE);
	wait_idle(f);
	assert_int_equal(rc_of(f, 1), 0);
	assert_int_equal(f->log[2].tag, 1);
	assert_int_equal(f->log[2].idx, f->log[1].idx + 1);     /* the receipt is the first one's */
	assert_int_equal(rc_of(f, 2), ERR_NOT_FOUND);
	assert_int_equal(rc_of(f, 90), 0);
	assert_int_equal(rc_of(f, 91), 0);
	assert_int_equal(f->log[4].idx, f->log[2].idx + WRITER_CHANGE_EVENTS);
	assert_int_equal(ask(f, "SELECT count(*) FROM meta WHERE key = 'tk37'"), 1);
	assert_int_equal(ask(f, "SELECT count(*) FROM meta WHERE key = 'fail'"), 0);
	assert_int_equal(ask(f, "SELECT count(*) = max(idx) + 1 FROM rec WHERE log = 2"), 1);
	ev[1].tenant_id = 1;
	ev[1].tool = "a text that is longer than the record may have it, which refuses the second of them: "
		"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
		"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
		"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
		"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
		"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789";
	assert_int_equal(submit_change(f, ev, 2, "second", 3), 0);
	wait_idle(f);
	assert_int_equal(rc_of(f, 3), ERR_INVALID);
	assert_int_equal(ask(f, "SELECT count(*) FROM meta WHERE key = 'second'"), 0);
	assert_int_equal(ask(f, "SELECT count(*) = max(idx) + 1 FROM rec WHERE log = 2"), 1);
}

static void texts_are_copied(void **state)
{
	struct fix *f = *state;
	struct audit_event ev = call_event(AUDIT_CALL_BEGIN, 1, 1);
	char tool[] = "borrowed";
	uint8_t digest[32];

	memset(digest, 0xcd, sizeof digest);
	hang(f);
	ev.tool = tool;
	ev.tdef = ev.before = ev.after = digest;
	ev.detail = tool;
	assert_int_equal(writer_audit(f->w, &ev, on_audit, ticket(f, 1)), 0);
	f->pending++;
	memset(tool, 'x', sizeof tool - 1);
	memset(digest, 0, sizeof digest);
	fault_set(FAULT_NONE);
	wait_idle(f);
	assert_int_equal(ask(f, "SELECT count(*) FROM rec_text WHERE tool = 'borrowed' AND tdef LIKE 'cdcdcd%' AND "
				"hex(ext) LIKE '010000000020CDCD%626F72726F776564'"), 1);
}

static void close_commits_what_waits(void **state)
{
	struct fix *f = *state;
	struct stat st;
	char wal[640];

	for (int i = 1; i <= 300; i++)
		assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, i), 0);
	close_writer(f);
	assert_int_equal(f->n, 300);
	for (size_t i = 0; i < f->n; i++)
		assert_int_equal(f->log[i].rc, 0);
	assert_int_equal(ask(f, "SELECT count(*) FROM rec WHERE kind = 1001"), 300);
	assert_int_equal(ask(f, "SELECT kind FROM rec WHERE log = 1 ORDER BY idx DESC LIMIT 1"), AUDIT_SERVER_STOP);
	snprintf(wal, sizeof wal, "%s-wal", f->path);
	assert_true(stat(wal, &st) != 0 || st.st_size == 0);
}

/* AUDIT A-303 */
static void start_and_stop_alternate(void **state)
{
	struct fix *f = *state;

	close_writer(f);
	open_writer(f);
	assert_int_equal(f->recovered, 0);
	close_writer(f);
	assert_int_equal(ask(f, "SELECT group_concat(kind) = '1,1601,1534,1602,1601,1602' FROM (SELECT kind FROM rec WHERE log = 1 ORDER BY idx)"), 1);
	assert_int_equal(ask(f, "SELECT count(*) FROM rec_text WHERE kind = 1601 AND hex(ext) LIKE '0113%74657374'"), 2);
}

static void a_round(struct fix *f)
{
	char detail[400];

	memset(detail, 'd', sizeof detail - 1);
	detail[sizeof detail - 1] = '\0';
	for (int i = 0; i < 256; i++) {
		struct audit_event ev = call_event(AUDIT_CALL_DENIED, i % TENANTS + 1, i);

		ev.detail = detail;
		assert_int_equal(writer_audit(f->w, &ev, on_audit, ticket(f, i)), 0);
		f->pending++;
	}
	f->idle = false;
	wait_idle(f);
	f->n = 0;
}

/* SC-104: a log of SQLite's is saved often, heads are with it when so many records have come since; at a start no more are
 * behind them. */
static void heads_are_saved_behind_so_many_records(void **state)
{
	enum { OF_A_WAL = 4096 };       /* more than 1000 pages take */
	struct fix *f = *state;
	const int64_t before = ask(f, "SELECT sum(size) FROM head");
	int64_t at = 0;

	while (ask(f, "SELECT sum(size) FROM head") == before && at < HEADS_EVERY + OF_A_WAL) {
		a_round(f);
		at = ask(f, "SELECT max(id) FROM rec");
	}
	assert_in_range(at, HEADS_EVERY, HEADS_EVERY + OF_A_WAL - 1);
	assert_true(ask(f, "SELECT sum(size) FROM head") >= HEADS_EVERY);
	close_writer(f);
	assert_int_equal(ask(f, "SELECT sum(size) FROM head"), ask(f, "SELECT max(id) FROM rec"));
}

static void log_file_stays_small(void **state)
{
	struct fix *f = *state;
	struct stat st;
	char wal[640];

	for (int round = 0; round < 40; round++)
		a_round(f);
	snprintf(wal, sizeof wal, "%s-wal", f->path);
	assert_int_equal(stat(wal, &st), 0);
	assert_in_range(st.st_size, 1, 1500 * 4096);
	assert_true(ask(f, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'open_from'") > 1000);
}

static void notices_need_no_callback(void **state)
{
	struct fix *f = *state;
	struct audit_event ev;

	audit_event_init(&ev, AUDIT_NOTIFY, 1);
	ev.generation = 7;
	assert_int_equal(writer_audit(f->w, &ev, NULL, NULL), 0);
	close_writer(f);
	assert_int_equal(ask(f, "SELECT count(*) FROM rec WHERE kind = 1011"), 1);
}

static void missing_store_is_an_error(void **state)
{
	struct fix *f = *state;
	struct writer *w = NULL;

	assert_int_equal(writer_open(f->loop, &(struct keyfile_place){ "/nonexistent", writer_master }, "test", &f->limits, NULL, &w, NULL, &f->err), ERR_UNREACHABLE);
	assert_null(w);
	assert_int_equal(writer_close(&w, 0, NULL), 0);
}

/* All other tests begin with a store that is whole. */
static void empty_file_becomes_a_store(void **state)
{
	struct fix *f = *state;
	struct db *db = NULL;
	int version = 0;

	close_writer(f);
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(db_open(f->path, DB_WRITER, true, &db, &f->err), 0);
	assert_int_equal(db_check_version(db, &version, &f->err), ERR_INVALID);
	db_close(&db);
	open_writer(f);
	close_writer(f);
	assert_int_equal(db_open(f->path, DB_READER, false, &db, &f->err), 0);
	assert_int_equal(db_check_version(db, &version, &f->err), 0);
	assert_int_equal(version, db_schema_version());
	assert_int_equal(db_check_schema(db, &f->err), 0);
	db_close(&db);
	open_writer(f);
}

static uint64_t random_refills;
static bool random_pooled;

static int draw(struct db *db, struct audit_logs *logs, struct err *err)
{
	uint8_t salt[16];
	size_t left;

	for (size_t i = 0; i < 2 * ID_POOL_SIZE / sizeof salt; i++)
		id_random(salt, sizeof salt);
	random_pooled = id_random_look(&left, &random_refills) != NULL;
	return 0;
}

/* SC-604: one getrandom a refill, in the writer's thread; the loop's has none. */
static void sc604_the_writer_has_random_bytes_by_the_page(void **state)
{
	struct fix *f = *state;
	uint64_t refills;
	size_t left;

	assert_int_equal(submit_job(f, 1, false, draw), 0);
	wait_idle(f);
	assert_null(id_random_look(&left, &refills));
	id_random_pool();               /* whether there can be one here */
	assert_int_equal(random_pooled, id_random_look(&left, &refills) != NULL);
	if (random_pooled)
		assert_in_range(random_refills, 2, 3);
}

SUITE(batch)
{
	const struct CMUnitTest tests[] = {
		T(what_waits_is_one_transaction), T(what_one_turn_submits_is_one_transaction), T(tenants_take_turns),
		T(batch_has_a_limit), T(what_a_burst_left_is_given_back), T(full_queue_refuses_call), T(item_fails_alone), T(rows_that_cannot_be_inserted_together_fail_together), T(change_without_record_is_undone), T(tk37_a_change_is_one), T(texts_are_copied),
		T(close_commits_what_waits), T(start_and_stop_alternate), T(log_file_stays_small),
		T(heads_are_saved_behind_so_many_records), T(notices_need_no_callback),
		T(missing_store_is_an_error), T(empty_file_becomes_a_store), T(sc604_the_writer_has_random_bytes_by_the_page),
	};

	faultvfs_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
