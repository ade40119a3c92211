/* Rows become blocks: whatever a store answers, and each root, is what it was (SCALE SC-203); what is erased or pruned
 * goes out of blocks as well (SC-301, SC-803, SC-804). */

#include "config.h"

#include <stdlib.h>

#include "audit/checkpoint.h"
#include "audit/erase.h"
#include "audit/fold.h"
#include "audit/keep.h"
#include "audit/payload.h"
#include "audit/record.h"
#include "base/crypto.h"
#include "base/path.h"
#include "base/text.h"
#include "forms/forms.h"
#include "keys/keys.h"

#include "audit/recover.h"
#include "audit_rig.h"
#include "suite.h"

enum { ACME = 7, OTHER = 8, ACME_LOG = 2 };
#define CANARY "c4nary-7f3a99"

static uint64_t random_state;
static const uint8_t master[32] = { 1 };

static unsigned draw(unsigned n)
{
	uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (unsigned)((z ^ (z >> 31)) % n);
}

static void open_all(struct fix *f)
{
	const struct keyfile_place place = { f->dir, master };
	struct keys *keys = NULL;

	open_store(f);
	OK(keys_open(&place, &keys, &f->err));
	audit_logs_give_keys(f->logs, &keys);
}

static void append(struct fix *f, int64_t tenant, enum audit_kind kind, unsigned call)
{
	const struct audit_payload payload = { .level = AUDIT_REQUEST, .n = 1,
		.value = { { .ctag = AUDIT_C_ARGUMENTS, .p = CANARY, .len = strlen(CANARY), .keep = draw(2) } } };
	static const char *const who[] = { "prn_a", "prn_b", "prn_c" };
	struct audit_event ev;

	clock_step(draw(50000) + 1);
	audit_event_init(&ev, kind, tenant);
	ev.has_call = kind == AUDIT_CALL_BEGIN || kind == AUDIT_CALL_END;
	memcpy(ev.call, &call, sizeof(call));
	ev.prn = who[call % 3];         /* who began it ends it */
	ev.tool = ev.has_call ? "echo" : NULL;
	if (ev.has_call && draw(3))
		ev.payload = &payload;
	OK(audit_append(f->logs, f->db, &ev, NULL, &f->err));
}

/* n records of a tenant: calls that end sooner or later, and events between them. */
static void append_calls(struct fix *f, int64_t tenant, unsigned n)
{
	static unsigned next;
	unsigned open[8] = { 0 };

	begin(f);
	for (unsigned i = 0; i < n; i++) {
		unsigned *slot = &open[draw(8)];

		if (draw(10) == 0) {
			append(f, tenant, AUDIT_ADMIN_CMD, 0);
		} else if (*slot) {
			append(f, tenant, AUDIT_CALL_END, *slot);
			*slot = 0;
		} else {
			append(f, tenant, AUDIT_CALL_BEGIN, *slot = ++next);
		}
		if (draw(100) == 0) {
			commit(f);
			begin(f);
		}
	}
	commit(f);
}

static struct fix *new_store(uint64_t seed, unsigned records)
{
	struct fix *f = fix_new();

	assert_int_equal(secret_init(), 0);
	random_state = seed;
	clock_fake(UINT64_C(1780000000000000), 500000);
	open_all(f);
	begin(f);
	create_log(f, 0, NULL);
	create_log(f, ACME, "acme");
	create_log(f, OTHER, "other");
	commit(f);
	append_calls(f, ACME, records);
	append_calls(f, OTHER, records / 10 + 1);
	return f;
}

static int set_up(void **state)
{
	*state = new_store(1, 1000);
	return 0;
}

/* --- folding */

static struct db *reader(struct fix *f)
{
	struct db *db = NULL;

	OK(db_open(f->path, DB_READER, false, &db, &f->err));
	return db;
}

/* What audit_folder_next() says. */
static int propose(struct fix *f, int64_t log, int64_t to, struct audit_folded **ret)
{
	struct db *db = reader(f);
	struct audit_folder *folder = audit_folder_new(db);
	int rc = audit_folder_next(folder, log, to, ret, &f->err);

	audit_folder_free(&folder);
	db_close(&db);
	return rc;
}

static int left(struct fix *f, int64_t log, int64_t *ret_from, int64_t *ret_to)
{
	struct db *db = reader(f);
	struct audit_folder *folder = audit_folder_new(db);
	int rc = audit_folder_left(folder, log, ret_from, ret_to, &f->err);

	audit_folder_free(&folder);
	db_close(&db);
	return rc;
}

static int try_put(struct fix *f, struct audit_folded *made)
{
	int rc;

	begin(f);
	rc = audit_fold_put(f->logs, f->db, made, &f->err);
	if (rc == 0)
		commit(f);
	else
		(void)db_txn_end(f->db, rc, NULL);
	audit_folded_free(&made);
	return rc;
}

static int drop(struct fix *f, int64_t log, int64_t from, int64_t to)
{
	int64_t n = AUDIT_FOLD_SLICE;
	int slices = 0;

	for (; n == AUDIT_FOLD_SLICE; slices++) {
		begin(f);
		OK(audit_fold_drop(f->db, log, from, to, INT64_MAX, &n, &f->err));
		commit(f);
	}
	return slices;
}

/* All below `to` that can be; blocks. */
static int fold(struct fix *f, int64_t log, int64_t to, bool drops)
{
	struct audit_folded *made = NULL;
	int rc, n = 0;

	while ((rc = propose(f, log, to, &made)) == 1) {
		const struct audit_folded at = *made;

		OK(try_put(f, made));
		if (drops)
			(void)drop(f, log, at.first, at.first + at.cnt);
		n++;
	}
	OK(rc);
	OK(forms_see(f->db, &f->err));
	return n;
}

static int64_t number(struct fix *f, const char *sql)
{
	sqlite3_stmt *st = NULL;
	sqlite3 *db;
	int64_t n;

	assert_int_equal(sqlite3_open_v2(f->path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	n = sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int64(st, 0) : -1;
	sqlite3_finalize(st);
	sqlite3_close(db);
	return n;
}

/* Everything that records say and that is kept of them, by place. */
static void said(struct fix *f, uint8_t ret[DIGEST_SIZE])
{
	struct db *db = NULL;
	struct audit_reader *r;
	struct digest *d = digest_new();

	OK(forms_open_store(db_of_file(f->path), &db, &f->err));
	r = audit_reader_new(db);
	for (int64_t log = 1; log <= 3; log++) {
		struct audit_page page = { .log = log, .origin = "", .to = INT64_MAX };
		struct audit_read got;
		int rc;

		while ((rc = audit_reader_next(r, &page, &got, &f->err)) == 1) {
			struct db_stmt *st = db_stmt_get(db, SQL_PAYLOAD_GET);

			digest_put(d, got.leaf, sizeof(got.leaf));
			db_bind_i64(st, 1, log);
			db_bind_i64(st, 2, got.idx);
			assert_int_equal(db_step(st, &f->err), 1);
			for (unsigned col = 3; col < 6; col++) {
				size_t len = 0;
				const void *p = db_col_blob(st, col, &len);

				digest_put(d, &len, sizeof(len));
				digest_put(d, p ? p : "", len);
			}
			db_stmt_put(&st);
		}
		OK(rc);
	}
	digest_end(&d, ret);
	audit_reader_free(&r);
	db_close(&db);
}

static void verify_clean(struct fix *f)
{
	(void)verify(f, 0);                     /* but for keys, which it does not have, and calls that run */
	if (f->sum.bad > 0 || f->sum.gaps != f->count[AUDIT_FINDING_NOT_CHECKED] + f->count[AUDIT_FINDING_DANGLING])
		fail_msg("%u bad, %u gaps: %s", (unsigned)f->sum.bad, (unsigned)f->sum.gaps, f->last);
}

static void roots_and_answers_stay(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 4; seed++) {
		struct fix *f = new_store(seed, 300 + 800 * (seed % 3));
		uint8_t before[DIGEST_SIZE], after[DIGEST_SIZE];

		verify_clean(f);
		said(f, before);
		fold(f, 1, 1, true);
		for (int64_t log = 2; log <= 3; log++)
			fold(f, log, INT64_MAX, seed != 3);
		assert_true(number(f, "SELECT count(*) FROM blk") >= 3);
		if (seed != 3)
			assert_int_equal(number(f, "SELECT count(*) FROM rec WHERE log <> 1"), 1);      /* the newest id is not given again */
		said(f, after);
		assert_memory_equal(before, after, sizeof(before));
		verify_clean(f);
		/* it goes on, also behind a start */
		append_calls(f, ACME, 50);
		close_store(f);
		open_all(f);
		append_calls(f, ACME, 50);
		said(f, before);
		fold(f, 2, INT64_MAX, true);
		said(f, after);
		assert_memory_equal(before, after, sizeof(before));
		verify_clean(f);
		(void)fix_free((void **)&f);
	}
}

static void blocks_have_bounds(void **state)
{
	struct fix *f = new_store(9, AUDIT_FOLD_RECORDS + 300);
	struct audit_folded *made = NULL;

	(void)state;
	assert_int_equal(propose(f, 2, 0, &made), 0);           /* there is nothing below it */
	assert_int_equal(propose(f, 99, 10, &made), ERR_NOT_FOUND);
	assert_int_equal(propose(f, 2, AUDIT_FOLD_RECORDS, &made), 1);
	assert_int_equal(made->cnt, AUDIT_FOLD_RECORDS);
	audit_folded_free(&made);
	assert_int_equal(propose(f, 2, AUDIT_FOLD_RECORDS + 1, &made), 1);
	assert_int_equal(made->cnt, AUDIT_FOLD_RECORDS);
	audit_folded_free(&made);
	fold(f, 2, 100, true);
	assert_int_equal(propose(f, 2, INT64_MAX, &made), 1);   /* not from a tile's middle to another's */
	assert_int_equal(made->first, 100);
	assert_int_equal(made->first + made->cnt, AUDIT_FOLD_RECORDS);
	audit_folded_free(&made);
	assert_int_equal(number(f, "SELECT max(c) FROM (SELECT count(*) AS c FROM blk GROUP BY log)"), 1);
	fold(f, 2, INT64_MAX, true);
	assert_int_equal(number(f, "SELECT count(*) FROM blk"), 3);
	assert_int_equal(number(f, "SELECT count(*) FROM blkpay WHERE first % 256 <> 0 AND first <> 100"), 0);
	(void)fix_free((void **)&f);
}

/* The second is made before the first is put; without that it would be the first again. */
static void blocks_of_one_log_go_into_one_transaction(void **state)
{
	struct fix *f = new_store(9, AUDIT_FOLD_RECORDS + 300);
	struct db *db = reader(f);
	struct audit_folder *folder = audit_folder_new(db);
	struct audit_folded *made[3];
	int64_t next = 0;
	int n = 0;

	(void)state;
	while (audit_folder_next(folder, 2, INT64_MAX, &made[n], &f->err) == 1) {
		assert_int_equal(made[n]->first, next);
		next += made[n]->cnt;
		audit_folder_go_on(folder, made[n++]);
	}
	assert_int_equal(n, 2);
	assert_int_equal(audit_folder_next(folder, 3, INT64_MAX, &made[n], &f->err), 1);
	assert_int_equal(made[n]->first, 0);                    /* another log begins where it is */
	begin(f);
	for (int i = 0; i <= n; i++)
		OK(audit_fold_put(f->logs, f->db, made[i], &f->err));
	commit(f);
	for (int i = 0; i <= n; i++)
		audit_folded_free(&made[i]);
	assert_int_equal(number(f, "SELECT sum(cnt) FROM blk WHERE log = 2"), next);
	audit_folder_free(&folder);
	db_close(&db);
	verify_clean(f);
	(void)fix_free((void **)&f);
}

static void check_look(struct fix *f, int64_t waiting, bool any, bool once)
{
	struct forms_rows is;
	struct db *db = reader(f);

	OK(forms_count(db, &is, &f->err));
	db_close(&db);
	assert_int_equal(is.waiting, waiting);
	assert_true(is.any == any && is.once == once);
}

/* SC-305 */
static void what_waits_is_counted_of_each_log(void **state)
{
	struct fix *f = *state;
	const int64_t all = number(f, "SELECT count(*) FROM rec"), acme = number(f, "SELECT count(*) FROM rec WHERE log = 2");

	check_look(f, all, false, false);
	fold(f, 2, 512, true);
	check_look(f, all - 512, true, false);
	fold(f, 2, INT64_MAX, true);            /* it has no row any more: none waits, and not fewer */
	check_look(f, all - acme, true, false);
	begin(f);
	OK(forms_tail_set(f->db, 0, &f->err));
	commit(f);
	check_look(f, all - acme, true, true);
}

static void rows_go_in_slices(void **state)
{
	struct fix *f = *state;
	int64_t n;

	append_calls(f, ACME, 1000);
	fold(f, 2, 1000, false);
	assert_int_equal(drop(f, 2, 0, AUDIT_FOLD_SLICE - 1), 1);
	assert_int_equal(number(f, "SELECT min(idx) FROM rec WHERE log = 2"), AUDIT_FOLD_SLICE - 1);
	assert_int_equal(drop(f, 2, 0, 2 * AUDIT_FOLD_SLICE - 1), 2);   /* a whole one, and a look for more */
	assert_int_equal(number(f, "SELECT min(idx) FROM rec WHERE log = 2"), 2 * AUDIT_FOLD_SLICE - 1);
	assert_int_equal(drop(f, 2, 0, 1000), 2);
	assert_int_equal(number(f, "SELECT min(idx) FROM rec WHERE log = 2"), 1000);
	assert_int_equal(number(f, "SELECT count(*) FROM pay p LEFT JOIN rec r ON r.id = p.rec WHERE r.id IS NULL"), 0);
	begin(f);
	assert_int_equal(audit_fold_drop(f->db, 2, 0, 1001, INT64_MAX, &n, &f->err), ERR_CONFLICT);     /* that is in no block */
	commit(f);
}

/* --- what does not fit */

static void one_block_is_put_once(void **state)
{
	struct fix *f = *state;
	struct audit_folded *a = NULL, *b = NULL, *c = NULL;

	assert_int_equal(propose(f, 2, 256, &a), 1);
	assert_int_equal(propose(f, 2, 256, &b), 1);
	assert_int_equal(propose(f, 2, 512, &c), 1);
	OK(try_put(f, a));
	assert_int_equal(try_put(f, b), ERR_CONFLICT);
	assert_int_equal(try_put(f, c), ERR_CONFLICT);
	assert_int_equal(number(f, "SELECT count(*) FROM blk"), 1);
}

static void erased_payload_does_not_come_back(void **state)
{
	struct fix *f = *state;
	struct audit_folded *made = NULL;
	int64_t idx = number(f, "SELECT idx FROM rec r JOIN pay p ON p.rec = r.id WHERE log = 2 ORDER BY idx LIMIT 1");
	bool had = false;

	assert_int_equal(propose(f, 2, INT64_MAX, &made), 1);
	begin(f);
	OK(audit_erase_record(f->logs, f->db, ACME, idx, &had, &f->err));
	commit(f);
	assert_true(had);
	assert_int_equal(try_put(f, made), ERR_CONFLICT);
	assert_int_equal(number(f, "SELECT count(*) FROM blk"), 0);
	assert_int_equal(number(f, "SELECT count(*) FROM blkpay"), 0);
	assert_int_equal(propose(f, 2, INT64_MAX, &made), 1);
	OK(try_put(f, made));
	begin(f);
	OK(audit_erase_record(f->logs, f->db, ACME, idx, &had, &f->err));
	commit(f);
}

#define EDIT(sql) "DROP TRIGGER rec_frozen;" sql ";" \
	"CREATE TRIGGER rec_frozen BEFORE UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END"

static void stops_at(struct fix *f, const char *sql, int64_t idx, const char *where, int code)
{
	struct audit_folded *made = NULL;

	close_store(f);
	raw(f, sql);
	reopen_store(f);
	assert_int_equal(propose(f, 2, 600, &made), 1);         /* what comes before it */
	assert_int_equal(made->first + made->cnt, idx);
	OK(try_put(f, made));
	assert_int_equal(propose(f, 2, 600, &made), code);
	assert_string_equal(f->err.where, where);
	assert_int_equal(number(f, "SELECT count(*) FROM blk"), 1);
}

static void edited_row_stops_the_fold(void **state)
{
	stops_at(*state, EDIT("UPDATE rec SET ts = ts + 1 WHERE log = 2 AND idx = 300"), 300, "log/2/idx/300", ERR_CORRUPT);
}

static void edited_leaf_stops_the_fold(void **state)
{
	stops_at(*state, EDIT("UPDATE rec SET leaf = zeroblob(32) WHERE log = 2 AND idx = 301"), 301, "log/2/idx/301", ERR_CORRUPT);
}

static void missing_row_stops_the_fold(void **state)
{
	stops_at(*state, "DELETE FROM rec WHERE log = 2 AND idx = 302", 302, "log/2/idx/302", ERR_CORRUPT);
}

static void missing_text_stops_the_fold(void **state)
{
	stops_at(*state, EDIT("UPDATE rec SET tool = 4711 WHERE log = 2 AND idx = 303"), 303, "log/2/idx/303", ERR_CORRUPT);
}

/* SC-204 */
static void row_that_the_format_cannot_carry_stops_the_fold(void **state)
{
	stops_at(*state, EDIT("UPDATE rec SET cm = x'00', leaf = NULL WHERE log = 2 AND idx = 304"), 304, "log/2/idx/304",
		 ERR_INVALID);
}

/* --- a stop in between */

static void stop_in_between_loses_nothing(void **state)
{
	struct fix *f = *state;
	struct audit_folded *made = NULL;
	uint8_t before[DIGEST_SIZE], after[DIGEST_SIZE];
	int64_t from = 0, to = 0, n;

	said(f, before);
	assert_int_equal(left(f, 2, &from, &to), 0);
	assert_int_equal(propose(f, 2, 700, &made), 1);         /* not committed: it never was */
	begin(f);
	OK(audit_fold_put(f->logs, f->db, made, &f->err));
	audit_folded_free(&made);
	(void)db_txn_end(f->db, ERR_IO, NULL);
	close_store(f);
	open_all(f);
	assert_int_equal(number(f, "SELECT count(*) FROM blk"), 0);
	fold(f, 2, 700, false);                                 /* committed: it counts, what is left goes later */
	begin(f);
	OK(audit_fold_drop(f->db, 2, 0, 700, INT64_MAX, &n, &f->err));
	commit(f);
	close_store(f);
	open_all(f);
	said(f, after);
	assert_memory_equal(before, after, sizeof(before));
	assert_int_equal(left(f, 2, &from, &to), 1);
	assert_int_equal(from, AUDIT_FOLD_SLICE);
	assert_int_equal(to, 700);
	(void)drop(f, 2, from, to);
	assert_int_equal(left(f, 2, &from, &to), 0);
	said(f, after);
	assert_memory_equal(before, after, sizeof(before));
}

static void edited_leftover_stays(void **state)
{
	struct fix *f = *state;
	int64_t from, to;

	fold(f, 2, 700, false);
	raw(f, EDIT("UPDATE rec SET ts = ts + 1, leaf = NULL WHERE log = 2 AND idx = 300"));
	assert_int_equal(left(f, 2, &from, &to), ERR_CORRUPT);
	assert_string_equal(f->err.where, "log/2/idx/300");
}

/* --- calls that run (SC-307) */

static void call_that_runs_ends_when_its_begin_is_in_a_block(void **state)
{
	struct fix *f = *state;
	int64_t idx;
	int64_t open = number(f, "SELECT count(*) FROM rec b WHERE log = 2 AND kind = 1001 AND NOT EXISTS "
				 "(SELECT 1 FROM rec e WHERE e.log = 2 AND e.beg = b.idx)");

	begin(f);
	append(f, ACME, AUDIT_CALL_BEGIN, 900000);
	commit(f);
	OK(audit_size(f->logs, ACME, &idx, &f->err));
	fold(f, 2, INT64_MAX, true);
	assert_int_equal(number(f, "SELECT count(*) FROM open_call"), open + 1);
	begin(f);                                               /* undone: it still runs */
	append(f, ACME, AUDIT_CALL_END, 900000);
	audit_logs_rollback(f->logs, (struct audit_mark){ 0 });
	(void)db_txn_end(f->db, ERR_CONFLICT, NULL);
	assert_int_equal(number(f, "SELECT count(*) FROM open_call"), open + 1);
	begin(f);
	append(f, ACME, AUDIT_CALL_END, 900000);
	commit(f);
	assert_int_equal(number(f, "SELECT count(*) FROM open_call"), open);
	assert_int_equal(number(f, "SELECT beg FROM rec WHERE log = 2 ORDER BY idx DESC LIMIT 1"), idx - 1);
}

static void call_that_a_crash_left_is_recovered_from_a_block(void **state)
{
	struct fix *f = *state;
	int64_t open, from = 0;
	size_t count = 0;

	OK(audit_size(f->logs, ACME, &from, &f->err));
	for (unsigned i = 0; i < 3; i++) {
		begin(f);
		append(f, ACME, AUDIT_CALL_BEGIN, 900000 + i);
		commit(f);
		append_calls(f, ACME, 299);
	}
	open = number(f, "SELECT count(*) FROM rec b WHERE kind = 1001 AND NOT EXISTS "
		      "(SELECT 1 FROM rec e WHERE e.log = b.log AND e.beg = b.idx)");
	fold(f, 2, from + 300, true);                           /* one in a block, one in a block and a leftover, one a row */
	fold(f, 2, from + 600, false);
	assert_true(number(f, "SELECT count(*) FROM open_call") >= 2);
	close_store(f);
	open_all(f);
	begin(f);
	OK(audit_recover(f->logs, f->db, NULL, false, &count, &f->err));
	commit(f);
	assert_int_equal(count, open);
	assert_int_equal(number(f, "SELECT count(*) FROM open_call"), 0);
	assert_int_equal(number(f, "SELECT count(*) FROM rec r JOIN dict d ON d.id = r.tool WHERE r.kind = 1004 AND d.text = 'echo' "
				   "AND r.beg IS NOT NULL"), open);
	verify_clean(f);
	assert_int_equal(f->count[AUDIT_FINDING_DANGLING], 0);
	close_store(f);
	open_all(f);
	begin(f);
	OK(audit_recover(f->logs, f->db, NULL, false, &count, &f->err));
	commit(f);
	assert_int_equal(count, 0);
}

static void newest_id_is_never_given_again(void **state)
{
	struct fix *f = *state;
	const int64_t newest = number(f, "SELECT max(id) FROM rec");

	for (int64_t log = 1; log <= 3; log++)
		fold(f, log, INT64_MAX, true);
	close_store(f);
	open_all(f);
	begin(f);
	append(f, ACME, AUDIT_ADMIN_CMD, 0);
	commit(f);
	assert_int_equal(number(f, "SELECT max(id) FROM rec"), newest + 1);
}

/* --- what is taken away */

/* Records of the tenant that have something kept; of a pseudonym, or of all. */
static int64_t kept(struct fix *f, const char *prn)
{
	struct db *db = NULL;
	struct db_stmt *st;
	int64_t n = 0;

	OK(forms_open_store(db_of_file(f->path), &db, &f->err));
	st = db_stmt_get(db, SQL_ERASE_COUNT);
	db_bind_i64(st, 1, ACME_LOG);
	db_bind_textz(st, 2, prn);
	db_bind_null(st, 3);
	assert_int_equal(db_step(st, &f->err), 1);
	n = db_col_i64(st, 0);
	db_stmt_put(&st);
	db_close(&db);
	return n;
}

static void erase_all_of(struct fix *f, const int64_t *ids, size_t n)
{
	int64_t cursor = 0, size = 0;
	bool done = false;

	OK(audit_size(f->logs, ACME, &size, &f->err));
	for (int i = 0; !done; i++) {
		assert_true(i < 1000);
		begin(f);
		OK(audit_erase_slice(f->logs, f->db, ACME, ids, n, size, &cursor, &done, &f->err));
		commit(f);
	}
}

static void subject_is_erased_in_every_form(void **state)
{
	struct fix *f = *state;
	int64_t *ids = NULL, others;
	size_t n = 0;

	append_calls(f, ACME, 1500);
	fold(f, 2, 800, true);
	fold(f, 2, 1200, false);
	others = kept(f, "prn_a") + kept(f, "prn_c");
	assert_true(others > 0 && kept(f, "prn_b") > 0);
	OK(audit_erase_keys(f->logs, ACME, "prn_b", &ids, &n, &f->err));
	assert_true(n > 0);
	erase_all_of(f, ids, n);
	free(ids);
	assert_int_equal(kept(f, "prn_b"), 0);
	assert_int_equal(kept(f, "prn_a") + kept(f, "prn_c"), others);
	assert_int_equal(number(f, "SELECT count(*) FROM pay p JOIN rec r ON r.id = p.rec JOIN dict d ON d.id = r.prn "
				   "WHERE r.log = 2 AND d.text = 'prn_b'"), 0);         /* leftovers too */
	erase_all_of(f, NULL, 0);
	assert_int_equal(kept(f, NULL), 0);
	assert_int_equal(number(f, "SELECT count(*) FROM blkpay WHERE log = 2"), 0);
	assert_int_equal(kept(f, NULL), number(f, "SELECT count(*) FROM pay p JOIN rec r ON r.id = p.rec WHERE r.log = 2"));
}

static void record_is_erased_in_every_form(void **state)
{
	struct fix *f = *state;
	const int64_t all = kept(f, NULL);
	int64_t gone = 0, size = 0;

	fold(f, 2, 300, true);
	fold(f, 2, 600, false);
	OK(audit_size(f->logs, ACME, &size, &f->err));
	for (int64_t idx = 0; idx < size; idx += 7) {
		bool had = false;

		begin(f);
		OK(audit_erase_record(f->logs, f->db, ACME, idx, &had, &f->err));
		commit(f);
		gone += had;
	}
	assert_int_equal(kept(f, NULL), all - gone);
	assert_true(gone > 20);
}

/* A salt that was in a block is in no file of the store any more. */
static void erased_bytes_are_in_no_file(void **state)
{
	struct fix *f = *state;
	struct str file = STR_INIT;
	uint8_t salt[16];
	int64_t cursor = 0;
	struct db_stmt *st;
	bool had = false;

	while (cursor < 200) {
		st = db_stmt_get(f->db, SQL_PAYLOAD_GET);
		db_bind_i64(st, 1, 2);
		db_bind_i64(st, 2, cursor++);
		assert_int_equal(db_step(st, &f->err), 1);
		had = db_col_type(st, 3) != DB_NULL;
		if (had)
			memcpy(salt, db_col_blob(st, 3, &(size_t){ 0 }), sizeof(salt));
		db_stmt_put(&st);
		if (had)
			break;
	}
	fold(f, 2, INT64_MAX, true);
	OK(audit_erase_flush(f->logs, f->db, &f->err));
	OK(path_read(f->path, 64 << 20, &file, &f->err));
	assert_non_null(memmem(file.p, file.len, salt, sizeof(salt)));
	begin(f);
	OK(audit_erase_record(f->logs, f->db, ACME, cursor - 1, &had, &f->err));
	commit(f);
	assert_true(had);
	OK(audit_erase_flush(f->logs, f->db, &f->err));
	str_reset(&file);
	OK(path_read(f->path, 64 << 20, &file, &f->err));
	assert_null(memmem(file.p, file.len, salt, sizeof(salt)));
	str_fini(&file);
}

/* --- pruning */

static void end_calls(struct fix *f)
{
	size_t count = 0;

	close_store(f);
	open_all(f);
	begin(f);
	OK(audit_recover(f->logs, f->db, NULL, false, &count, &f->err));
	commit(f);
}

static void prune(struct fix *f, int64_t at)
{
	struct audit_cut cut;
	struct audit_receipt r;
	struct audit_event ev, vouch;
	uint8_t range[16] = { 0 };
	static const char by[] = "approval policy one";
	struct audit_field field[4] = { { AUDIT_TAG_RANGE, range, sizeof(range) }, { AUDIT_TAG_APPROVER, by, sizeof(by) - 1 },
		{ AUDIT_TAG_ROOT, cut.root, 32 } };
	struct audit_job job = { 0 };
	bool done = false;

	OK(audit_cut_read(f->db, 2, at, &cut, &f->err));
	audit_put_be(range + 8, (uint64_t)at, 8);
	field[3] = (struct audit_field){ AUDIT_TAG_FRONTIER, cut.frontier, cut.peaks * 32 };
	audit_event_init(&ev, AUDIT_PRUNE, ACME);
	ev.field = field;
	ev.nfield = 4;
	begin(f);
	audit_event_init(&vouch, AUDIT_POLICY_CHANGE, 0);
	vouch.obj = "approval/policy/one";
	OK(audit_append(f->logs, f->db, &vouch, NULL, &f->err));
	audit_event_init(&vouch, AUDIT_ADMIN_CMD, 0);
	OK(audit_cut_rows(f->logs, f->db, &cut, &vouch, &f->err));
	OK(audit_append(f->logs, f->db, &ev, &r, &f->err));
	OK(audit_cut_set(f->logs, f->db, &cut, &r, &f->err));
	commit(f);
	assert_int_equal(audit_job_next(f->db, 0, &job, &f->err), 1);
	while (!done) {
		begin(f);
		OK(audit_job_step(f->logs, f->db, &job, &done, &f->err));
		commit(f);
		if (job.flush) {
			OK(audit_erase_flush(f->logs, f->db, &f->err));
			job.flush = false;
			job.flushed = true;
		}
	}
}

static void cut_goes_through_a_block(void **state)
{
	struct fix *f = *state;
	uint8_t before[DIGEST_SIZE], after[DIGEST_SIZE];

	append_calls(f, ACME, 1500);
	end_calls(f);
	fold(f, 2, 300, true);
	fold(f, 2, 1000, true);
	fold(f, 2, 2000, false);
	prune(f, 1280);
	assert_int_equal(number(f, "SELECT min(first) FROM blk WHERE log = 2"), 1280);
	assert_int_equal(number(f, "SELECT count(*) FROM blk WHERE log = 2"), 1);
	assert_true(number(f, "SELECT min(first) FROM blkpay WHERE log = 2") >= 1280);
	verify_clean(f);
	said(f, before);
	fold(f, 2, INT64_MAX, true);
	said(f, after);
	assert_memory_equal(before, after, sizeof(before));
	verify_clean(f);
	append_calls(f, ACME, 600);
	end_calls(f);
	prune(f, 2304);                                         /* beyond all blocks of before */
	verify_clean(f);
	assert_true(number(f, "SELECT min(idx) FROM rec WHERE log = 2") >= 2304);
	fold(f, 2, INT64_MAX, true);
	assert_int_equal(number(f, "SELECT min(first) FROM blk WHERE log = 2"), 2304);
	verify_clean(f);
}

static int propose_of(struct fix *f, const struct forms_chapter_sizes *sizes, struct forms_chapter **ret)
{
	struct db *db = reader(f);
	int rc = forms_chapter_next(db, 2, sizes, ret, &f->err);

	db_close(&db);
	return rc;
}

static int propose_chapter(struct fix *f, struct forms_chapter **ret)
{
	return propose_of(f, &(struct forms_chapter_sizes){ .blocks = 4 }, ret);
}

static int try_put_chapter(struct fix *f, struct forms_chapter *made)
{
	int rc;

	begin(f);
	rc = forms_chapter_put(f->db, made, &f->err);
	if (rc == 0)
		commit(f);
	else
		(void)db_txn_end(f->db, rc, NULL);
	forms_chapter_free(&made);
	return rc;
}

static void chapter_goes_with_its_blocks(void **state)
{
	struct fix *f = *state;
	struct forms_chapter *one = NULL, *again = NULL, *late = NULL;

	append_calls(f, ACME, 1500);
	end_calls(f);
	fold(f, 2, 256, true);
	assert_int_equal(propose_chapter(f, &one), 0);          /* so many blocks there are not */
	for (int64_t to = 512; to <= 1536; to += 256)
		fold(f, 2, to, true);
	assert_int_equal(propose_chapter(f, &one), 1);
	assert_true(one->log == 2 && one->first == 0 && one->cnt == 1024);
	assert_int_equal(propose_chapter(f, &again), 1);
	assert_int_equal(propose_chapter(f, &late), 1);
	OK(try_put_chapter(f, one));
	assert_int_equal(try_put_chapter(f, again), ERR_CONFLICT);
	assert_int_equal(propose_chapter(f, &one), 0);
	verify_clean(f);
	prune(f, 512);
	assert_int_equal(number(f, "SELECT count(*) FROM chap"), 0);
	assert_int_equal(try_put_chapter(f, late), ERR_CONFLICT);       /* of what was pruned since */
	verify_clean(f);
	assert_int_equal(propose_chapter(f, &one), 1);
	assert_int_equal(one->first, 512);
	OK(try_put_chapter(f, one));
	verify_clean(f);
}

/* Of a month that is sealed chapters are made anew, and books of the old ones go. */
static void books_come_again_where_they_went(void **state)
{
	static const struct forms_chapter_sizes sizes = { .blocks = 1, .chapters = 3 };
	static const int64_t first[] = { 0, 384, 768, 1152 };
	struct fix *f = *state;
	struct forms_chapter *made = NULL, *late = NULL;

	append_calls(f, ACME, 2048);
	end_calls(f);
	for (int64_t to = 128; to <= 1664; to += 128)
		fold(f, 2, to, true);
	for (size_t i = 0; i < NELEMS(first);) {
		assert_int_equal(propose_of(f, &sizes, &made), 1);
		i += made->book;
		assert_true(!made->book || (made->first == first[i - 1] && made->cnt == 384));
		OK(try_put_chapter(f, made));
	}
	assert_int_equal(propose_of(f, &sizes, &made), 0);      /* a thirteenth is none yet */
	verify_clean(f);
	close_store(f);
	raw(f, "DELETE FROM book WHERE log = 2 AND first IN (0, 384, 1152)");
	reopen_store(f);
	/* the first gap; of the next one, which a book ends, what there is */
	assert_int_equal(propose_of(f, &(struct forms_chapter_sizes){ .blocks = 1, .chapters = 4 }, &made), 1);
	assert_true(made->book && made->first == 0 && made->cnt == 512);
	assert_int_equal(propose_of(f, &sizes, &late), 1);
	assert_true(late->book && late->first == 0 && late->cnt == 384);
	OK(try_put_chapter(f, made));
	assert_int_equal(try_put_chapter(f, late), ERR_CONFLICT);       /* it lies upon that */
	assert_int_equal(propose_of(f, &sizes, &made), 1);
	assert_true(made->book && made->first == 512 && made->cnt == 256);
	OK(try_put_chapter(f, made));
	assert_int_equal(propose_of(f, &sizes, &made), 1);
	assert_true(made->book && made->first == 1152 && made->cnt == 384);
	OK(try_put_chapter(f, made));
	assert_int_equal(propose_of(f, &sizes, &made), 0);
	assert_int_equal(number(f, "SELECT sum(cnt) FROM book WHERE log = 2"), 1536);
	verify_clean(f);
}

/* Few chapters are a book, which has more as they come, until it is whole. */
static void a_book_grows(void **state)
{
	static const struct forms_chapter_sizes sizes = { .blocks = 1, .chapters = 6, .few = 2 };
	static const int64_t step[][2] = { { 128, 0 }, { 256, 256 }, { 384, 256 }, { 640, 640 }, { 1024, 768 + 7680256 } };
	struct fix *f = *state;
	struct forms_chapter *made = NULL, *late = NULL;
	int64_t to = 0;

	append_calls(f, ACME, 2048);
	for (size_t i = 0; i < NELEMS(step); i++) {
		while (to < step[i][0])
			fold(f, 2, to += 128, true);
		while (propose_of(f, &sizes, &made) == 1) {
			assert_int_equal(propose_of(f, &sizes, &late), 1);
			OK(try_put_chapter(f, made));
			assert_int_equal(try_put_chapter(f, late), ERR_CONFLICT);
		}
		assert_int_equal(number(f, "SELECT coalesce(sum(first * 10000 + cnt), 0) FROM book WHERE log = 2"), step[i][1]);
		verify_clean(f);
	}
}

/* Of a sealed file that is away nobody knows what stands apart in it; what comes behind it has its books. */
static void a_file_that_is_away_holds_no_book_up(void **state)
{
	static const struct forms_chapter_sizes sizes = { .blocks = 1, .chapters = 3 };
	static const struct forms_chapter_sizes grow = { .blocks = 1, .chapters = 6, .few = 2 };
	struct fix *f = *state;
	struct forms_chapter *made = NULL;

	append_calls(f, ACME, 1024);
	end_calls(f);
	for (int64_t to = 127; to <= 6 * 127; to += 127)         /* an end is in the block behind its begin's */
		fold(f, 2, to, true);
	for (int books = 0; books < 2;) {
		assert_int_equal(propose_of(f, &sizes, &made), 1);
		books += made->book;
		OK(try_put_chapter(f, made));
	}
	close_store(f);
	raw(f, "INSERT INTO seg(log, from_idx, to_idx, month, ts_min, ts_max, bytes, digest, root, set_by, path) "
	    "VALUES(2, 0, 381, 202601, 0, 1, 1, zeroblob(32), zeroblob(32), 1, 'segments/2/202601-0.tcs')");
	for (unsigned i = 0; i < 2; i++) {      /* beside the book before it, which has no more for it, and without */
		raw(f, i == 0 ? "DELETE FROM book WHERE log = 2 AND first > 0" : "DELETE FROM book WHERE log = 2");
		reopen_store(f);
		assert_int_equal(propose_of(f, i == 0 ? &grow : &sizes, &made), 1);
		assert_true(made->book && made->first == 381 && made->cnt == 381);
		forms_chapter_free(&made);
		close_store(f);
	}
	reopen_store(f);
}

static void fold_waits_for_a_prune(void **state)
{
	struct fix *f = *state;
	struct audit_folded *made = NULL, *before = NULL;

	end_calls(f);
	assert_int_equal(propose(f, 3, 50, &before), 1);
	close_store(f);
	raw(f, "UPDATE log SET min_idx = 10 WHERE id = 3");
	reopen_store(f);
	assert_int_equal(try_put(f, before), ERR_CONFLICT);     /* it begins before the log */
	fold(f, 2, 300, true);
	assert_int_equal(propose(f, 2, 600, &before), 1);
	close_store(f);
	raw(f, "UPDATE log SET min_idx = 512 WHERE id = 2");
	reopen_store(f);
	assert_int_equal(propose(f, 2, 1000, &made), 0);
	assert_int_equal(try_put(f, before), ERR_CONFLICT);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, fix_free)

SUITE(fold)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(roots_and_answers_stay),
		cmocka_unit_test(blocks_have_bounds),
		cmocka_unit_test(blocks_of_one_log_go_into_one_transaction),
		T(what_waits_is_counted_of_each_log), T(rows_go_in_slices), T(one_block_is_put_once),
		T(erased_payload_does_not_come_back), T(edited_row_stops_the_fold), T(edited_leaf_stops_the_fold),
		T(missing_row_stops_the_fold), T(missing_text_stops_the_fold),
		T(row_that_the_format_cannot_carry_stops_the_fold), T(stop_in_between_loses_nothing),
		T(edited_leftover_stays), T(call_that_runs_ends_when_its_begin_is_in_a_block),
		T(call_that_a_crash_left_is_recovered_from_a_block), T(newest_id_is_never_given_again),
		T(subject_is_erased_in_every_form), T(record_is_erased_in_every_form), T(erased_bytes_are_in_no_file),
		T(cut_goes_through_a_block), T(fold_waits_for_a_prune), T(chapter_goes_with_its_blocks),
		T(books_come_again_where_they_went), T(a_book_grows), T(a_file_that_is_away_holds_no_book_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
