/* A store whose records are in blocks: it is as whole as its rows were, and what somebody changes in it is found (SCALE 10,
 * T42 to T47, T51). */

#include "config.h"

#include <stdlib.h>

#include "base/crypto.h"
#include "audit/payload.h"
#include "block/zone.h"
#include "forms/forms.h"
#include "keys/keys.h"

#include "audit_rig.h"
#include "fold_rig.h"
#include "suite.h"

enum { ACME = 7, CALLS = 300, OPEN = 20 };

static void append_event(struct fix *f, enum audit_kind kind)
{
	struct audit_event ev;
	struct audit_receipt r;

	clock_step(10);
	audit_event_init(&ev, kind, 0);
	OK(audit_append(f->logs, f->db, &ev, &r, &f->err));
}

static void append(struct fix *f, enum audit_kind kind, unsigned call)
{
	static const struct audit_payload payload = { .level = AUDIT_METADATA, .n = 1,
		.value = { { .ctag = AUDIT_C_ARGUMENTS, .p = "{\"a\":1}", .len = 7 } } };
	struct audit_event ev;
	struct audit_receipt r;

	clock_step(10);
	audit_event_init(&ev, kind, ACME);
	ev.has_call = true;
	memcpy(ev.call, &call, sizeof(call));
	ev.prn = call % 7 ? "prn_a" : "prn_b";
	ev.tool = "echo";
	if (kind == AUDIT_CALL_BEGIN)
		ev.payload = &payload;
	OK(audit_append(f->logs, f->db, &ev, &r, &f->err));
}

static void fold(struct fix *f, bool leftovers)
{
	const struct fold_with with = { .seed = 1, .block_max = 120, .tail = 20, .leftovers = leftovers, .chapter = 2, .book = 2 };

	OK(db_open(f->path, DB_WRITER, false, &f->db, &f->err));
	if (fold_store(f->db, &with, &f->err) < 5)
		fail_msg("%s: %s", f->err.where, f->err.msg);
	db_close(&f->db);
}

static void open_keys(struct fix *f)
{
	static const uint8_t master[32] = { 9 };
	const struct keyfile_place place = { f->dir, master };
	struct keys *keys = NULL;

	open_store(f);
	OK(keys_open(&place, &keys, &f->err));
	audit_logs_give_keys(f->logs, &keys);
}

enum { ROWS, BLOCKS, LEFTOVERS, RUNNING, MADE };          /* RUNNING: in blocks; a server has started, and a call has not ended */

static struct fix *new_store(unsigned which)
{
	struct fix *f = fix_new();

	assert_int_equal(secret_init(), 0);
	clock_fake(1000000, 500000);
	open_keys(f);
	begin(f);
	create_log(f, 0, NULL);
	create_log(f, ACME, "acme");
	if (which == RUNNING)
		append_event(f, AUDIT_SERVER_START);
	for (unsigned i = 0; i < CALLS; i++) {
		append(f, AUDIT_CALL_BEGIN, i);
		if (which != RUNNING || i != OPEN)
			append(f, AUDIT_CALL_END, i);
	}
	commit(f);
	close_store(f);
	if (verify(f, 0) != 0)
		fail_msg("%s", f->last);
	if (which != ROWS)
		fold(f, which == LEFTOVERS);
	return f;
}

static int set_up_as(void **state, unsigned which)
{
	static struct fix_model model[MADE];

	*state = fix_like(&model[which], new_store, which);
	return 0;
}

static int set_up_rows(void **state)
{
	return set_up_as(state, ROWS);
}

static int set_up(void **state)
{
	return set_up_as(state, BLOCKS);
}

static int set_up_leftovers(void **state)
{
	return set_up_as(state, LEFTOVERS);
}

static int set_up_open(void **state)
{
	return set_up_as(state, RUNNING);
}

/* --- without the indexes that only rows need (SCALE D1) */

static bool made_lean(struct fix *f)
{
	bool made = false;

	OK(db_open(f->path, DB_WRITER, false, &f->db, &f->err));
	begin(f);
	OK(forms_make_lean(f->db, &made, &f->err));
	OK(db_txn_end(f->db, 0, &f->err));
	db_close(&f->db);
	return made;
}

static void a_store_of_blocks_needs_no_index_but_that_of_positions(void **state)
{
	struct fix *f = *state;
	struct db *db = NULL;

	assert_true(made_lean(f));
	assert_false(made_lean(f));
	OK(db_open(f->path, DB_WRITER, false, &f->db, &f->err));
	OK(db_migrate(f->db, &f->err));
	db_close(&f->db);
	OK(db_open_store(db_of_file(f->path), &db, &f->err));
	db_close(&db);
	if (verify(f, 0) != 0)
		fail_msg("%s", f->last);
	assert_true(f->sum.indexes_summed);
	raw(f, "CREATE INDEX rec_ts ON rec(log, ts) WHERE kind <> 1001");       /* one of them is as foreign as any other */
	verify(f, 0);
	assert_int_equal(f->count[AUDIT_FINDING_SCHEMA], 1);
	assert_non_null(strstr(f->last, "is missing"));
	assert_int_equal(db_open_store(db_of_file(f->path), &db, &f->err), ERR_CORRUPT);
	raw(f, "DROP INDEX rec_ts; CREATE INDEX rec_id ON rec(id)");
	assert_int_equal(db_open_store(db_of_file(f->path), &db, &f->err), ERR_CORRUPT);
	assert_non_null(strstr(f->err.msg, "rec_id of rec was added"));
}

/* The index that is left is compared with the table as it was among the others. */
static void the_index_that_is_left_is_compared(void **state)
{
	struct fix *f = *state;

	assert_true(made_lean(f));
	raw(f, "CREATE TEMP TABLE kept AS SELECT * FROM sqlite_schema WHERE name = 'rec_order'; DROP TRIGGER rec_frozen;"
	    "PRAGMA writable_schema=ON; DELETE FROM sqlite_schema WHERE name = 'rec_order'; PRAGMA writable_schema=RESET;"
	    "UPDATE rec SET idx = idx + 1000 WHERE id = (SELECT max(id) FROM rec WHERE log = 2);"
	    "PRAGMA writable_schema=ON; INSERT INTO sqlite_schema SELECT * FROM kept; PRAGMA writable_schema=RESET;"
	    "CREATE TRIGGER rec_frozen BEFORE UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END");
	verify(f, 0);
	assert_int_equal(f->count[AUDIT_FINDING_INDEX], 1);
	assert_false(f->sum.indexes_summed);
}

#define UNFROZEN(sql) "DROP TRIGGER rec_frozen; PRAGMA foreign_keys=OFF; " sql "; " \
	"CREATE TRIGGER rec_frozen BEFORE UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END"
#define NEWEST "WHERE id = (SELECT max(id) FROM rec)"

/* Rows are found span after span, by an index that knows what is twice in one span alone. */
static void a_position_is_there_once(void **state)
{
	struct fix *f = *state;

	assert_true(made_lean(f));
	raw(f, "CREATE TEMP TABLE twice AS SELECT * FROM rec WHERE log = 2 ORDER BY idx LIMIT 1; UPDATE twice SET id = 5000;"
	    "INSERT INTO rec SELECT * FROM twice; INSERT INTO span VALUES(1)");
	verify(f, 0);
	assert_int_equal(f->count[AUDIT_FINDING_INDEX], 1);
	assert_non_null(strstr(f->last, "there twice"));
}

static void rows_of_a_log_stand_as_they_came(void **state)
{
	struct fix *f = *state;

	assert_true(made_lean(f));
	raw(f, UNFROZEN("UPDATE rec SET id = 5000 WHERE id = (SELECT min(id) FROM rec WHERE log = 2); INSERT INTO span VALUES(1)"));
	verify(f, 0);
	assert_int_equal(f->count[AUDIT_FINDING_INDEX], 1);
	assert_non_null(strstr(f->last, "not in its place"));
}

/* A span that is missing hides its rows from who asks by position; one too many hides nothing. */
static void each_row_is_in_a_span(void **state)
{
	struct fix *f = *state;

	raw(f, "INSERT INTO span VALUES(77)");
	if (verify(f, 0) != 0)
		fail_msg("%s", f->last);
	raw(f, "DELETE FROM span WHERE n = 0");
	verify(f, 0);
	assert_int_equal(f->count[AUDIT_FINDING_INDEX], 1);
}

/* Nor do rows that wait for a block hide behind meta.tail_from. */
static void the_tail_begins_where_it_does(void **state)
{
	struct fix *f = *state;

	raw(f, "INSERT OR REPLACE INTO meta(key, value) VALUES('tail_from', '9999'); INSERT INTO span VALUES(2)");
	assert_true(verify(f, 0) != 0);
}

/* Many rows, or many that are in no block, are found by them. */
static void a_store_of_rows_keeps_its_indexes(void **state)
{
	struct fix *f = *state;
	char sql[700];

	for (int over = 1; over >= 0; over--) {
		snprintf(sql, sizeof(sql), UNFROZEN("UPDATE rec SET id = (SELECT min(id) FROM rec) + %d " NEWEST "; INSERT OR IGNORE INTO span SELECT id >> 12 FROM rec"),
			 FORMS_LEAN_ROWS_MAX - 1 + over);
		raw(f, sql);
		if (over)
			assert_false(made_lean(f));
	}
	for (int over = 1; over >= 0; over--) {
		snprintf(sql, sizeof(sql), UNFROZEN("UPDATE rec SET idx = %d - 1 + (SELECT max(first + cnt) FROM blk WHERE log = rec.log)"
			 " - (SELECT count(*) FROM rec r WHERE log <> 2 AND idx >= coalesce((SELECT max(first + cnt) FROM blk WHERE log = r.log), 0)) "
			 NEWEST), FORMS_LEAN_TAIL_MAX + over);
		raw(f, sql);
		assert_int_equal(made_lean(f), !over);
	}
}

static void rows_alone_keep_their_indexes(void **state)
{
	assert_false(made_lean(*state));
}

static void it_is_whole(void **state)
{
	struct fix *f = *state;

	if (verify(f, 0) != 0)
		fail_msg("%s", f->last);
	assert_int_equal(f->sum.records, 2 * CALLS + 2);
}

static void finds(struct fix *f, const char *sql, enum audit_finding_code code)
{
	raw(f, sql);
	if (verify(f, 0) == 0 || f->count[code] == 0)
		fail_msg("%s was not found; %s", audit_finding_name(code), f->last);
}

#define THIRD "log = 2 AND first = (SELECT first FROM blk WHERE log = 2 ORDER BY first LIMIT 1 OFFSET 2)"

/* T42 */
static void bit_of_the_columns(void **state)
{
	finds(*state, "UPDATE blk SET cols = CAST(substr(cols, 1, 20) || x'ff' || substr(cols, 22) AS BLOB) WHERE " THIRD,
	      AUDIT_FINDING_PARSE);
}

/* T43: it decodes, and the tree is another one. */
static void bit_of_what_is_not_deflated(void **state)
{
	finds(*state, "UPDATE blk SET hash = CAST(CASE WHEN substr(hash, -1) = x'00' THEN substr(hash, 1, length(hash) - 1) || x'01' "
	      "ELSE substr(hash, 1, length(hash) - 1) || x'00' END AS BLOB) WHERE " THIRD, AUDIT_FINDING_ROOT);
}

/* T44 */
static void zone_of_another_block(void **state)
{
	finds(*state, "UPDATE blk SET zone = (SELECT zone FROM blk WHERE log = 2 AND first = 0) WHERE " THIRD, AUDIT_FINDING_INDEX);
}

static void times_that_leave_records_out(void **state)
{
	finds(*state, "UPDATE blk SET ts_max = ts_min WHERE " THIRD, AUDIT_FINDING_INDEX);
}

#define CHAPTER "log = 2 AND first = (SELECT first FROM chap WHERE log = 2 ORDER BY first LIMIT 1 OFFSET 1)"

/* T44 of a chapter. */
static void zone_of_another_chapter(void **state)
{
	finds(*state, "UPDATE chap SET zone = (SELECT zone FROM chap WHERE log = 2 AND first = 0) WHERE " CHAPTER, AUDIT_FINDING_INDEX);
}

/* T45: no reader of them alone could tell. */
static void sums_with_one_call_less(void **state)
{
	struct fix *f = *state;
	struct block_summer *summer = block_summer_new();
	struct audit_bytes out = { 0 };
	struct block_sums sums;
	int64_t first = 0, cnt = 0;
	sqlite3_stmt *st = NULL;
	sqlite3 *db;

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, "SELECT first, cnt, sums FROM chap WHERE " CHAPTER, -1, &st, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	first = sqlite3_column_int64(st, 0);
	cnt = sqlite3_column_int64(st, 1);
	OK(block_sums_read(sqlite3_column_blob(st, 2), (size_t)sqlite3_column_bytes(st, 2), first, cnt, &sums, &f->err));
	assert_true(!sums.partial && sums.sums > 0 && sums.sum[0].count > 1);
	sums.sum[0].count--;
	while (sums.hists > 0 && sums.hist[sums.hists - 1].count == 1)
		sums.hists--;
	sums.hist[sums.hists - 1].count--;
	block_summer_add_sums(summer, first, &sums);
	block_summer_end(summer, &out);
	block_sums_fini(&sums);
	OK(block_sums_read(out.p, out.len, first, cnt, &sums, &f->err));
	block_sums_fini(&sums);
	sqlite3_finalize(st);
	assert_int_equal(sqlite3_prepare_v2(db, "UPDATE chap SET sums = ?1 WHERE " CHAPTER, -1, &st, NULL), SQLITE_OK);
	sqlite3_bind_blob(st, 1, out.p, (int)out.len, SQLITE_STATIC);
	assert_int_equal(sqlite3_step(st), SQLITE_DONE);
	sqlite3_finalize(st);
	sqlite3_close(db);
	block_summer_free(&summer);
	free(out.p);
	finds(f, "SELECT 1", AUDIT_FINDING_INDEX);
}

/* Nor may they say less than they can: reports would be slow for nothing, or what was partial could be hidden. */
static void sums_that_need_not_be_partial(void **state)
{
	finds(*state, "UPDATE chap SET sums = x'00' WHERE " CHAPTER, AUDIT_FINDING_INDEX);
}

static void times_of_a_chapter(void **state)
{
	finds(*state, "UPDATE chap SET ts_max = ts_max - 1 WHERE " CHAPTER, AUDIT_FINDING_INDEX);
}

static void chapter_of_half_a_block(void **state)
{
	finds(*state, "UPDATE chap SET cnt = cnt - 1 WHERE " CHAPTER, AUDIT_FINDING_INDEX);
}

static void chapter_that_begins_in_a_block(void **state)
{
	finds(*state, "UPDATE chap SET first = first + 1 WHERE " CHAPTER, AUDIT_FINDING_INDEX);
}

static void chapter_of_no_blocks(void **state)
{
	finds(*state, "INSERT INTO chap SELECT log, first + 100000, cnt, ts_min, ts_max, zone, sums FROM chap WHERE " CHAPTER,
	      AUDIT_FINDING_INDEX);
}

/* --- books */

#define BOOK "log = 2 AND first = (SELECT first FROM book WHERE log = 2 ORDER BY first LIMIT 1)"

/* T45 of a book. */
static void book_with_one_call_less(void **state)
{
	struct fix *f = *state;
	struct block_summer *summer = block_summer_new_book();
	struct audit_bytes out = { 0 };
	struct block_sums sums;
	int64_t first = 0, cnt = 0;
	sqlite3_stmt *st = NULL;
	sqlite3 *db;

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, "SELECT first, cnt, sums FROM book WHERE " BOOK, -1, &st, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	first = sqlite3_column_int64(st, 0);
	cnt = sqlite3_column_int64(st, 1);
	OK(block_book_read(sqlite3_column_blob(st, 2), (size_t)sqlite3_column_bytes(st, 2), first, cnt, &sums, &f->err));
	assert_true(!sums.partial && sums.sums > 1 && sums.sum[1].count > 1 && sums.hist[0].count > 1);
	sums.sum[1].count--;
	sums.hist[0].count--;
	block_summer_add_sums(summer, first, &sums);
	block_summer_end(summer, &out);
	block_sums_fini(&sums);
	OK(block_book_read(out.p, out.len, first, cnt, &sums, &f->err));
	assert_false(sums.partial);
	block_sums_fini(&sums);
	sqlite3_finalize(st);
	assert_int_equal(sqlite3_prepare_v2(db, "UPDATE book SET sums = ?1 WHERE " BOOK, -1, &st, NULL), SQLITE_OK);
	sqlite3_bind_blob(st, 1, out.p, (int)out.len, SQLITE_STATIC);
	assert_int_equal(sqlite3_step(st), SQLITE_DONE);
	sqlite3_finalize(st);
	sqlite3_close(db);
	block_summer_free(&summer);
	free(out.p);
	finds(f, "SELECT 1", AUDIT_FINDING_INDEX);
}

static void book_that_need_not_be_partial(void **state)
{
	finds(*state, "UPDATE book SET sums = x'00' WHERE " BOOK, AUDIT_FINDING_INDEX);
}

static void book_with_the_sums_of_a_chapter(void **state)
{
	finds(*state, "UPDATE book SET sums = (SELECT sums FROM chap WHERE log = 2 AND chap.first = book.first) WHERE " BOOK,
	      AUDIT_FINDING_INDEX);
}

static void days_that_need_not_be_partial(void **state)
{
	finds(*state, "UPDATE book SET days = x'00' WHERE " BOOK, AUDIT_FINDING_INDEX);
}

static void days_with_the_sums_of_a_chapter(void **state)
{
	finds(*state, "UPDATE book SET days = (SELECT sums FROM chap WHERE log = 2 AND chap.first = book.first) WHERE " BOOK,
	      AUDIT_FINDING_INDEX);
}

static void days_of_another_book(void **state)
{
	finds(*state, "UPDATE book SET days = (SELECT days FROM book o WHERE o.log = 2 ORDER BY o.first DESC LIMIT 1) WHERE " BOOK,
	      AUDIT_FINDING_INDEX);
}

static void times_of_a_book(void **state)
{
	finds(*state, "UPDATE book SET ts_max = ts_max - 1 WHERE " BOOK, AUDIT_FINDING_INDEX);
}

static void book_of_half_a_chapter(void **state)
{
	finds(*state, "UPDATE book SET cnt = cnt - 1 WHERE " BOOK, AUDIT_FINDING_INDEX);
}

static void book_that_begins_in_a_chapter(void **state)
{
	finds(*state, "UPDATE book SET first = first + 1 WHERE " BOOK, AUDIT_FINDING_INDEX);
}

static void book_upon_another(void **state)
{
	finds(*state, "INSERT INTO book SELECT log, (SELECT first FROM chap c WHERE c.log = book.log AND c.first > book.first ORDER BY first LIMIT 1), "
	      "cnt, ts_min, ts_max, days, sums FROM book WHERE " BOOK, AUDIT_FINDING_INDEX);
}

static void book_of_no_chapters(void **state)
{
	finds(*state, "INSERT INTO book SELECT log, first + 100000, cnt, ts_min, ts_max, days, sums FROM book WHERE " BOOK, AUDIT_FINDING_INDEX);
}

static void book_of_a_chapter_that_is_gone(void **state)
{
	finds(*state, "DELETE FROM chap WHERE " BOOK, AUDIT_FINDING_INDEX);
}

static void books_may_be_missing(void **state)
{
	struct fix *f = *state;

	raw(f, "DELETE FROM book WHERE " BOOK);
	if (verify(f, 0) != 0)
		fail_msg("%s", f->last);
}

/* Nothing hangs on it but how long a report takes. */
static void chapters_may_be_missing(void **state)
{
	struct fix *f = *state;

	raw(f, "DELETE FROM book WHERE log = 2");
	raw(f, "DELETE FROM chap WHERE " CHAPTER);
	if (verify(f, 0) != 0)
		fail_msg("%s", f->last);
}

/* T46 */
static void block_dropped(void **state)
{
	struct fix *f = *state;

	finds(f, "DELETE FROM blk WHERE " THIRD, AUDIT_FINDING_GAP);
}

static void first_block_dropped(void **state)
{
	finds(*state, "DELETE FROM blk WHERE log = 2 AND first = 0", AUDIT_FINDING_GAP);
}

static void last_block_dropped(void **state)
{
	finds(*state, "DELETE FROM blk WHERE log = 2 AND first = (SELECT max(first) FROM blk WHERE log = 2)", AUDIT_FINDING_GAP);
}

/* T47 */
static void blocks_that_overlap(void **state)
{
	finds(*state, "INSERT INTO blk SELECT log, first + 1, cnt, fmt, ts_min, ts_max, cols, hash, zone FROM blk WHERE " THIRD,
	      AUDIT_FINDING_GAP);
}

static void block_of_a_size_that_none_has(void **state)
{
	finds(*state, "UPDATE blk SET cnt = 0 WHERE log = 2 AND first = (SELECT max(first) FROM blk WHERE log = 2)",
	      AUDIT_FINDING_PARSE);
}

/* T52, of a text that all forms share. */
static void text_edited(void **state)
{
	finds(*state, "UPDATE dict SET text = 'ecco' WHERE text = 'echo'", AUDIT_FINDING_ROOT);
}

static void text_gone(void **state)
{
	finds(*state, "DELETE FROM dict WHERE text = 'echo'", AUDIT_FINDING_DICT);
}

/* T51: each is told, and nothing else is wrong. */
static void leftover_edited(void **state)
{
	struct fix *f = *state;

	if (verify(f, 0) != 0)
		fail_msg("%s", f->last);
	finds(f, "DROP TRIGGER rec_frozen; UPDATE rec SET outcome = 1 WHERE log = 2 AND idx = 60; CREATE TRIGGER rec_frozen BEFORE "
	      "UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END;", AUDIT_FINDING_FORM);
	assert_non_null(strstr(f->last, "/t/acme 60-60 -"));
	assert_int_equal(f->sum.bad, 1);
}

static void leftover_with_another_leaf(void **state)
{
	finds(*state, "DROP TRIGGER rec_frozen; UPDATE rec SET leaf = zeroblob(32) WHERE log = 2 AND idx = 61; CREATE TRIGGER "
	      "rec_frozen BEFORE UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END;", AUDIT_FINDING_FORM);
}

static void leftover_without_a_leaf(void **state)
{
	finds(*state, "DROP TRIGGER rec_frozen; UPDATE rec SET outcome = 1, leaf = NULL WHERE log = 2 AND idx = 62; CREATE TRIGGER "
	      "rec_frozen BEFORE UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END;", AUDIT_FINDING_FORM);
}

static void leftover_of_no_record(void **state)
{
	finds(*state, "INSERT INTO rec(enc, log, idx, kind, ts) VALUES(1, 2, -5, 1002, 1)", AUDIT_FINDING_FORM);
}

static void what_is_kept_twice_differs(void **state)
{
	finds(*state, "UPDATE pay SET salt = zeroblob(16) WHERE rec = (SELECT id FROM rec WHERE log = 2 AND idx = 61)",
	      AUDIT_FINDING_FORM);
}

static void what_was_erased_from_the_block(void **state)
{
	finds(*state, "DELETE FROM blkpay WHERE log = 2 AND first = 0", AUDIT_FINDING_ERASED_BUT_PRESENT);
}

/* Some of what it has is gone: leftovers go slice by slice. */
static void leftovers_may_go(void **state)
{
	struct fix *f = *state;

	raw(f, "DELETE FROM pay WHERE rec IN (SELECT id FROM rec WHERE log = 2 AND idx BETWEEN 30 AND 90);"
	    "DELETE FROM rec WHERE log = 2 AND idx BETWEEN 30 AND 90");
	it_is_whole(state);
}

/* What stands in blkpay is looked at as what stands in pay is. */
static void salt_of_a_record_in_a_block(void **state)
{
	struct fix *f = *state;

	finds(f, "UPDATE blkpay SET body = CAST(substr(body, 1, length(body) - 1) || CASE WHEN substr(body, -1) = x'00' THEN x'01' "
	      "ELSE x'00' END AS BLOB) WHERE log = 2 AND first = 0", AUDIT_FINDING_PAYLOAD);
	assert_int_equal(f->sum.bad, 1);
}

static void group_dropped(void **state)
{
	struct fix *f = *state;

	finds(f, "DELETE FROM blkpay WHERE log = 2 AND first = 0", AUDIT_FINDING_PAYLOAD_MISSING);
	assert_int_equal(f->sum.bad, f->count[AUDIT_FINDING_PAYLOAD_MISSING]);
}

static void group_of_another_place(void **state)
{
	finds(*state, "UPDATE blkpay SET first = first + 1 WHERE log = 2 AND first = 0", AUDIT_FINDING_PAYLOAD_EXTRA);
}

static void group_of_no_block(void **state)
{
	finds(*state, "INSERT INTO blkpay SELECT log, first + 100000, body FROM blkpay WHERE log = 2 AND first = 0",
	      AUDIT_FINDING_PAYLOAD_EXTRA);
}

/* Who erases one of them leaves the other. */
static void group_within_another(void **state)
{
	finds(*state, "INSERT INTO blkpay SELECT log, first + 1, CAST(x'01110000' || zeroblob(16) AS BLOB) FROM blkpay "
	      "WHERE log = 2 AND first = 0", AUDIT_FINDING_PAYLOAD_EXTRA);
}

static void group_longer_than_its_block(void **state)
{
	finds(*state, "DELETE FROM blkpay WHERE log = 2 AND first > 0; UPDATE blkpay SET first = (SELECT max(first) FROM blk "
	      "WHERE log = 2) + 1 WHERE log = 2", AUDIT_FINDING_PAYLOAD_EXTRA);
}

static void group_that_is_none(void **state)
{
	struct fix *f = *state;

	finds(f, "UPDATE blkpay SET body = x'0105' WHERE log = 2 AND first = 0", AUDIT_FINDING_PARSE);
	assert_int_equal(f->count[AUDIT_FINDING_NOT_CHECKED], 1);
}

/* --- open_call, which a start after a crash believes */

static void call_that_has_not_ended(void **state)
{
	struct fix *f = *state;

	if (verify(f, 0) != 0)
		fail_msg("%s", f->last);
	assert_int_equal(f->sum.running, 1);
	finds(f, "DELETE FROM open_call", AUDIT_FINDING_INDEX);
	assert_int_equal(f->sum.bad, 1);
	assert_non_null(strstr(f->last, "/t/acme 41-41 open_call does not list"));
}

static void call_that_is_listed_elsewhere(void **state)
{
	struct fix *f = *state;

	finds(f, "UPDATE open_call SET idx = idx + 2", AUDIT_FINDING_INDEX);
	assert_int_equal(f->sum.bad, 2);
}

static void call_that_has_ended_is_listed(void **state)
{
	struct fix *f = *state;

	finds(f, "INSERT INTO open_call VALUES(2, 1, zeroblob(16))", AUDIT_FINDING_INDEX);
	assert_int_equal(f->sum.bad, 1);
	raw(f, "UPDATE open_call SET idx = 100000");            /* it may have come since the log's head was read */
	assert_int_equal(verify(f, 0), 0);
}

/* --- with a mark (SC-705): blocks below it are not decoded, nor are rows that they have replaced compared */

struct marked { struct str base; bool again; };

static unsigned verify_marked(struct fix *f, struct marked *m)
{
	static const struct verify_range all = { .log = 2, .from = 0, .to = INT64_MAX };
	struct str ret = STR_INIT;
	const struct verify_marking mark = { .base = m->base.len ? m->base.p : NULL, .base_len = m->base.len, .ret = &ret,
		.again = m->again ? &all : NULL, .nagain = m->again };
	struct db *reader = NULL;

	memset(f->count, 0, sizeof(f->count));
	f->last[0] = '\0';
	OK(db_open(f->path, DB_READER, false, &reader, &f->err));
	OK(audit_verify_marked(reader, NULL, &mark, found, f, &f->sum, &f->err));
	db_close(&reader);
	str_fini(&m->base);
	m->base = ret;
	return (unsigned)(f->sum.bad + f->sum.gaps);
}

static void grow(struct fix *f, bool leftovers)
{
	open_keys(f);
	begin(f);
	for (unsigned i = CALLS; i < 2 * CALLS; i++) {
		append(f, AUDIT_CALL_BEGIN, i);
		append(f, AUDIT_CALL_END, i);
	}
	commit(f);
	close_store(f);
	fold(f, leftovers);
}

static void new_blocks_alone(void **state)
{
	struct fix *f = *state;
	struct marked m = { .again = false };

	assert_int_equal(verify_marked(f, &m), 0);
	assert_int_equal(verify_marked(f, &m), 0);
	assert_int_equal(f->sum.records, 0);
	grow(f, true);
	if (verify_marked(f, &m) != 0)
		fail_msg("%s", f->last);
	assert_int_equal(f->sum.records, 2 * CALLS);
	raw(f, "UPDATE blk SET ts_max = ts_min WHERE " THIRD);
	raw(f, "DROP TRIGGER rec_frozen; UPDATE rec SET outcome = 1 WHERE log = 2 AND idx = 60; CREATE TRIGGER rec_frozen BEFORE "
	    "UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END;");
	assert_int_equal(verify_marked(f, &m), 0);
	m.again = true;                                         /* the scrub reads them again */
	assert_int_equal(verify_marked(f, &m), 2);
	assert_int_equal(f->count[AUDIT_FINDING_INDEX], 1);
	assert_int_equal(f->count[AUDIT_FINDING_FORM], 1);
	str_fini(&m.base);
}

static void zone_of_a_new_block(void **state)
{
	struct fix *f = *state;
	struct marked m = { .again = false };

	assert_int_equal(verify_marked(f, &m), 0);
	grow(f, true);
	raw(f, "UPDATE blk SET ts_max = ts_min WHERE log = 2 AND first = (SELECT first FROM blk WHERE log = 2 "
	    "ORDER BY first DESC LIMIT 1 OFFSET 1)");
	raw(f, "DROP TRIGGER rec_frozen; UPDATE rec SET outcome = 1 WHERE log = 2 AND idx = 1000; CREATE TRIGGER rec_frozen BEFORE "
	    "UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END;");
	assert_int_equal(verify_marked(f, &m), 2);
	assert_int_equal(f->count[AUDIT_FINDING_INDEX], 1);
	assert_int_equal(f->count[AUDIT_FINDING_FORM], 1);
	str_fini(&m.base);
}

/* Where blocks are is looked at in any case: their places are no secret, and few. */
static void old_block_dropped(void **state)
{
	struct fix *f = *state;
	struct marked m = { .again = false };

	assert_int_equal(verify_marked(f, &m), 0);
	raw(f, "DELETE FROM blk WHERE " THIRD);
	assert_true(verify_marked(f, &m) > 0);
	assert_true(f->count[AUDIT_FINDING_GAP] > 0);
	str_fini(&m.base);
}

#define WITH_OPEN(name) cmocka_unit_test_setup_teardown(name, set_up_open, fix_free)
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, fix_free)
#define WITH_LEFTOVERS(name) cmocka_unit_test_setup_teardown(name, set_up_leftovers, fix_free)
SUITE(verify_forms)
{
	const struct CMUnitTest tests[] = {
		TEST(a_store_of_blocks_needs_no_index_but_that_of_positions), TEST(the_index_that_is_left_is_compared),
		TEST(a_store_of_rows_keeps_its_indexes), WITH_LEFTOVERS(a_position_is_there_once), WITH_LEFTOVERS(rows_of_a_log_stand_as_they_came),
		WITH_LEFTOVERS(each_row_is_in_a_span), TEST(the_tail_begins_where_it_does),
		cmocka_unit_test_setup_teardown(rows_alone_keep_their_indexes, set_up_rows, fix_free),
		TEST(it_is_whole), TEST(bit_of_the_columns), TEST(bit_of_what_is_not_deflated), TEST(zone_of_another_chapter), TEST(sums_with_one_call_less), TEST(sums_that_need_not_be_partial),
		TEST(times_of_a_chapter), TEST(chapter_of_half_a_block), TEST(chapter_that_begins_in_a_block),
		TEST(chapter_of_no_blocks), TEST(chapters_may_be_missing), TEST(book_with_one_call_less), TEST(book_that_need_not_be_partial),
		TEST(book_with_the_sums_of_a_chapter), TEST(times_of_a_book), TEST(book_of_half_a_chapter), TEST(book_that_begins_in_a_chapter),
		TEST(days_that_need_not_be_partial), TEST(days_with_the_sums_of_a_chapter), TEST(days_of_another_book),
		TEST(book_upon_another), TEST(book_of_no_chapters), TEST(book_of_a_chapter_that_is_gone), TEST(books_may_be_missing),
		TEST(zone_of_another_block),
		TEST(times_that_leave_records_out), TEST(block_dropped), TEST(first_block_dropped), TEST(last_block_dropped),
		TEST(blocks_that_overlap), TEST(block_of_a_size_that_none_has), TEST(text_edited), TEST(text_gone),
		WITH_LEFTOVERS(it_is_whole), WITH_LEFTOVERS(leftover_edited), WITH_LEFTOVERS(leftover_with_another_leaf),
		WITH_LEFTOVERS(leftover_without_a_leaf), WITH_LEFTOVERS(leftover_of_no_record), WITH_LEFTOVERS(what_is_kept_twice_differs),
		WITH_LEFTOVERS(what_was_erased_from_the_block), WITH_LEFTOVERS(leftovers_may_go),
		TEST(salt_of_a_record_in_a_block), TEST(group_dropped), TEST(group_of_another_place), TEST(group_of_no_block),
		TEST(group_within_another),
		TEST(group_longer_than_its_block), TEST(group_that_is_none), WITH_OPEN(call_that_has_not_ended),
		WITH_OPEN(call_that_is_listed_elsewhere), TEST(call_that_has_ended_is_listed),
		WITH_LEFTOVERS(new_blocks_alone), WITH_LEFTOVERS(zone_of_a_new_block), TEST(old_block_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
