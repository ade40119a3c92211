/* Sealed files: the same leaves, root and kept values as the store has, whatever form its records have (SCALE SC-102,
 * SC-105 to SC-107); and whatever somebody does to one is found, without the store (SC-709). */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "audit/record.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "bundle/segment.h"
#include "db/db.h"
#include "db/owner.h"
#include "forms/forms.h"
#include "segment/segment.h"

#include "fold_rig.h"
#include "seal_rig.h"
#include "suite.h"
#include "tmpdir.h"

enum { RECORDS = 5200, TO = 4608, NEXT = 4864 };        /* two blocks, the second one small */

static struct fix {
	char *dir, store[600], file[600], copy[600];
	struct seal_rig rig;
	struct note_key key[2]; size_t nkey;
	struct err err;
	unsigned count[AUDIT_FINDING_COUNT];
	struct str said;
	struct audit_segment got;
	struct audit_coverage sum;
} fix;

#define OK(expr) do { if ((expr) != 0) fail_msg("%s: %s: %s", #expr, fix.err.where, fix.err.msg); } while (0)

/* --- making */

static int try_seal(int64_t from, int64_t to, const char *path)
{
	const struct audit_segment_req req = { SEAL_LOG, from, to, fix.rig.origin, NULL };
	struct db *db = NULL;
	int rc;

	OK(forms_open_store(db_of_file(fix.store), &db, &fix.err));
	rc = audit_segment_write(db, &req, path, &fix.err);
	db_close(&db);
	return rc;
}

static int set_up(void **state)
{
	assert_int_equal(secret_init(), 0);
	fix.dir = tmpdir_make();
	tmpdir_path(fix.dir, DB_FILE, fix.store, sizeof(fix.store));
	tmpdir_path(fix.dir, "202605-0.tcs", fix.file, sizeof(fix.file));
	tmpdir_path(fix.dir, "other.tcs", fix.copy, sizeof(fix.copy));
	OK(seal_rig_make(fix.dir, RECORDS, &fix.rig, &fix.err));
	fix.key[0] = fix.rig.pin;
	fix.nkey = 1;
	OK(try_seal(0, TO, fix.file));
	return 0;
}

static int tear_down(void **state)
{
	tmpdir_remove(fix.dir);
	str_fini(&fix.said);
	clock_real();
	return 0;
}

static int again(void **state)
{
	(void)unlink(fix.copy);
	fix.key[0] = fix.rig.pin;
	fix.nkey = 1;
	return 0;
}

static void copy_file(void)
{
	struct str bytes = STR_INIT;

	(void)unlink(fix.copy);
	OK(path_read(fix.file, 64 << 20, &bytes, &fix.err));
	OK(path_create(fix.copy, 0600, bytes.p, bytes.len, &fix.err));
	str_fini(&bytes);
}

/* --- verifying */

static void found(void *arg, const struct audit_finding *f)
{
	fix.count[f->code]++;
	str_printf(&fix.said, "%s %d-%d %s\n", audit_finding_name(f->code), (int)f->from, (int)f->to, f->detail ? f->detail : "-");
}

static int try_verify(const char *path)
{
	const struct audit_evidence with = { .key = fix.key, .nkey = fix.nkey };

	memset(fix.count, 0, sizeof(fix.count));
	str_reset(&fix.said);
	fix.err.code = 0;
	return audit_segment_verify(path, &with, found, NULL, &fix.got, &fix.sum, &fix.err);
}

/* How many findings. */
static unsigned verify(const char *path)
{
	unsigned n = 0;

	OK(try_verify(path));
	for (unsigned i = 0; i < AUDIT_FINDING_COUNT; i++)
		n += fix.count[i];
	assert_int_equal(n, fix.sum.bad + fix.sum.gaps);
	return n;
}

static void is_whole(const char *path)
{
	if (verify(path) != 0)
		fail_msg("%s", str_text(&fix.said));
}

/* --- what is in one */

struct leaves { uint8_t (*leaf)[TREE_HASH]; int64_t from; struct segment *s; };

static int take_leaves(void *arg, const struct block *b, struct err *err)
{
	struct leaves *l = arg;
	const struct block_texts texts = { .log = 1, .origin = fix.rig.origin, .fn = segment_text, .arg = l->s };
	struct block_reader *r = block_reader_new(&texts);

	assert_true(b->first % BLOCK_RECORDS_MAX == 0 || b->first == l->from);
	OK(block_open(r, b, BLOCK_ALL_COLUMNS, err));
	for (int64_t i = 0; i < b->cnt; i++)
		OK(block_leaf(r, i, l->leaf[b->first + i - l->from], err));
	block_reader_free(&r);
	return 0;
}

static void each_record_has_the_leaf_that_it_had(void **state)
{
	uint8_t (*leaf)[TREE_HASH] = mem_calloc(TO, TREE_HASH);
	struct leaves leaves = { leaf, 0, NULL };
	struct audit_page page = { .log = SEAL_LOG, .origin = fix.rig.origin, .from = 0, .to = TO };
	struct audit_reader *reader;
	struct audit_read got;
	struct db *db = NULL;
	int64_t n = 0;
	int rc;

	OK(segment_open(fix.file, &leaves.s, &fix.err));
	OK(segment_blocks(leaves.s, take_leaves, &leaves, &fix.err));
	OK(db_open(fix.store, DB_READER, false, &db, &fix.err));
	reader = audit_reader_new(db);
	while ((rc = audit_reader_next(reader, &page, &got, &fix.err)) == 1)
		assert_memory_equal(got.leaf, leaf[n++], TREE_HASH);
	assert_int_equal(rc, 0);
	assert_int_equal(n, TO);
	audit_reader_free(&reader);
	db_close(&db);
	segment_close(&leaves.s);
	free(leaf);
}

static void each_kept_value_is_what_it_was(void **state)
{
	static const char sql[] = "SELECT r.idx, p.salt, p.nonce, p.ct FROM rec r LEFT JOIN pay p ON p.rec = r.id "
		"WHERE r.log = 2 AND r.idx < 4608 ORDER BY r.idx";
	struct segment *s = NULL;
	sqlite3 *store;
	sqlite3_stmt *st;
	unsigned n = 0;

	OK(segment_open(fix.file, &s, &fix.err));
	assert_int_equal(sqlite3_open(fix.store, &store), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(store, sql, -1, &st, NULL), SQLITE_OK);
	while (sqlite3_step(st) == SQLITE_ROW) {
		struct block_payload kept = { .salt = { NULL, 0 } };
		const struct block_bytes *piece[] = { &kept.salt, &kept.nonce, &kept.ct };
		const bool any = sqlite3_column_type(st, 1) != SQLITE_NULL;

		assert_int_equal(segment_kept(s, sqlite3_column_int64(st, 0), &kept, &fix.err), any);
		for (int i = 0; any && i < 3; i++) {
			const int len = sqlite3_column_bytes(st, i + 1);

			assert_int_equal(sqlite3_column_type(st, i + 1) != SQLITE_NULL, piece[i]->p != NULL);
			assert_int_equal(len, piece[i]->len);
			assert_true(len == 0 || memcmp(sqlite3_column_blob(st, i + 1), piece[i]->p, piece[i]->len) == 0);
		}
		n += any;
	}
	assert_true(n > 500);
	sqlite3_finalize(st);
	sqlite3_close(store);
	segment_close(&s);
}

static void files_join(void **state)
{
	struct segment *a = NULL, *b = NULL;

	is_whole(fix.file);
	assert_int_equal(fix.sum.records, TO);
	assert_int_equal(fix.sum.epochs, 2);
	assert_true(fix.sum.pinned && fix.sum.shut > 100);
	OK(try_seal(TO, NEXT, fix.copy));
	is_whole(fix.copy);
	assert_int_equal(fix.got.from, TO);
	assert_int_equal(fix.got.to, NEXT);
	OK(segment_open(fix.file, &a, &fix.err));
	OK(segment_open(fix.copy, &b, &fix.err));
	assert_memory_equal(&segment_info(a)->after, &segment_info(b)->before, sizeof(struct tree));
	segment_close(&a);
	segment_close(&b);
}

/* What audit_segment_join() says of these pieces of the log: a code, or COUNT for nothing. */
static unsigned joined(const int64_t (*piece)[2], size_t n, struct audit_segment *v)
{
	struct audit_coverage sum = { 0 };

	memset(fix.count, 0, sizeof(fix.count));
	str_reset(&fix.said);
	for (size_t i = 0; i < n; i++) {
		(void)unlink(fix.copy);
		OK(try_seal(piece[i][0], piece[i][1], fix.copy));
		is_whole(fix.copy);
		v[i] = fix.got;
	}
	audit_segment_join(v, n, found, NULL, &sum);
	assert_int_equal(sum.logs, 1);
	for (unsigned i = 0; i < AUDIT_FINDING_COUNT; i++)
		if (fix.count[i])
			return i;
	return AUDIT_FINDING_COUNT;
}

static void pieces_join_or_it_is_said(void **state)
{
	static const int64_t all[][2] = { { 512, 1024 }, { 0, 512 }, { 1024, 1280 } }, gap[][2] = { { 0, 256 }, { 512, 768 } },
		twice[][2] = { { 0, 512 }, { 256, 768 } }, within[][2] = { { 0, 1024 }, { 256, 512 }, { 1024, 1280 } };
	struct audit_segment v[3];
	struct audit_coverage sum = { 0 };

	assert_int_equal(joined(all, 3, v), AUDIT_FINDING_COUNT);
	assert_int_equal(v[0].from, 0);         /* sorted */
	v[1].before[3] ^= 1;
	audit_segment_join(v, 3, found, NULL, &sum);
	assert_int_equal(fix.count[AUDIT_FINDING_ROOT], 1);
	v[1].whole = false;                     /* what is damaged joins nothing */
	audit_segment_join(v, 3, found, NULL, &sum);
	assert_int_equal(fix.count[AUDIT_FINDING_SEGMENT_MISSING], 1);
	assert_int_equal(sum.bad, 1);
	assert_int_equal(sum.gaps, 1);
	assert_int_equal(joined(gap, 2, v), AUDIT_FINDING_SEGMENT_MISSING);
	assert_string_equal(str_text(&fix.said), "SEGMENT_MISSING 256-511 no file that is whole has these records\n");
	assert_int_equal(joined(twice, 2, v), AUDIT_FINDING_SEGMENT);
	assert_string_equal(str_text(&fix.said), "SEGMENT 256-511 two files have these records\n");
	assert_int_equal(joined(within, 3, v), AUDIT_FINDING_SEGMENT);
	assert_int_equal(fix.count[AUDIT_FINDING_SEGMENT], 1);
	snprintf(v[2].origin, sizeof(v[2].origin), "another");
	audit_segment_join(v, 3, found, NULL, &sum);
	assert_int_equal(sum.logs, 2);
	audit_segment_join(v, 0, found, NULL, &sum);
	assert_int_equal(sum.logs, 0);
}

static void read_copy(struct str *ret)
{
	OK(path_read(fix.copy, 64 << 20, ret, &fix.err));
}

static void form_of_the_source_is_no_matter(void **state)
{
	static const struct fold_with with[] = { { .seed = 1, .block_max = 300, .tail = 50 }, { .seed = 2, .block_max = 4096, .leftovers = true } };
	struct str rows = STR_INIT, blocks = STR_INIT, store = STR_INIT;

	OK(path_read(fix.store, 64 << 20, &store, &fix.err));
	OK(try_seal(256, TO, fix.copy));
	read_copy(&rows);
	for (size_t i = 0; i < NELEMS(with); i++) {
		struct db *db = NULL;

		(void)unlink(fix.copy);
		OK(db_open(fix.store, DB_WRITER, false, &db, &fix.err));
		assert_true(fold_store(db, &with[i], &fix.err) > 3);
		db_close(&db);
		OK(try_seal(256, TO, fix.copy));
		str_reset(&blocks);
		read_copy(&blocks);
		assert_int_equal(rows.len, blocks.len);
		assert_memory_equal(rows.p, blocks.p, rows.len);
		(void)unlink(fix.store);
		OK(path_create(fix.store, 0600, store.p, store.len, &fix.err));
	}
	str_fini(&rows);
	str_fini(&blocks);
	str_fini(&store);
}

/* --- what is refused, and leaves nothing */

static void ranges_have_bounds(void **state)
{
	static const struct { int64_t from, to; enum err_code want; } bad[] = {
		{ -256, 256, ERR_INVALID }, { 256, 256, ERR_INVALID }, { 512, 256, ERR_INVALID }, { 1, 256, ERR_INVALID },
		{ 0, 255, ERR_INVALID }, { 0, 257, ERR_INVALID }, { 0, SEGMENT_RECORDS_MAX + 256, ERR_LIMIT },
		{ 0, SEGMENT_RECORDS_MAX, ERR_CONFLICT }, { 0, 10240, ERR_CONFLICT },    /* no note covers it */
	};

	for (size_t i = 0; i < NELEMS(bad); i++) {
		assert_int_equal(try_seal(bad[i].from, bad[i].to, fix.copy), bad[i].want);
		assert_false(path_exists(fix.copy));
	}
	OK(try_seal(0, 256, fix.copy));
	is_whole(fix.copy);
	assert_int_equal(try_seal(0, 512, fix.copy), ERR_CONFLICT);
	is_whole(fix.copy);                     /* as it was */
	assert_int_equal(fix.got.to, 256);
}

#define EDIT(sql) "DROP TRIGGER rec_frozen;" sql ";" \
	"CREATE TRIGGER rec_frozen BEFORE UPDATE ON rec BEGIN SELECT RAISE(ABORT, 'rec is append-only'); END"

static void with_store(const char *sql)
{
	sqlite3 *db;
	char *why = NULL;

	assert_int_equal(sqlite3_open(fix.store, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
		fail_msg("%s: %s", sql, why);
	sqlite3_close(db);
}

static void record_that_is_not_as_written_ends_it(void **state)
{
	with_store(EDIT("UPDATE rec SET mono = mono + 1 WHERE log = 2 AND idx = 4200"));
	assert_int_equal(try_seal(0, TO, fix.copy), ERR_CORRUPT);
	assert_false(path_exists(fix.copy));
	with_store(EDIT("UPDATE rec SET mono = mono - 1 WHERE log = 2 AND idx = 4200"));
	OK(try_seal(0, TO, fix.copy));
}

static void no_file_is_opened_that_is_none(void **state)
{
	char path[700];

	assert_int_equal(try_verify("/nonexistent.tcs"), ERR_UNREACHABLE);
	assert_int_equal(try_verify(fix.dir), ERR_UNREACHABLE);
	assert_int_equal(symlink(fix.file, tmpdir_path(fix.dir, "link.tcs", path, sizeof(path))), 0);
	assert_int_equal(try_verify(path), ERR_UNREACHABLE);
	assert_int_equal(mkfifo(tmpdir_path(fix.dir, "fifo.tcs", path, sizeof(path)), 0600), 0);
	assert_int_equal(try_verify(path), ERR_UNREACHABLE);
	assert_int_equal(try_verify(fix.store), ERR_INVALID);
	OK(path_create(fix.copy, 0600, "SQLite format 3", 16, &fix.err));
	assert_int_equal(try_verify(fix.copy), ERR_INVALID);
}

/* --- tampering */

static void with_copy(const char *sql)
{
	sqlite3 *db;
	char *why = NULL;

	assert_int_equal(sqlite3_open(fix.copy, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
		fail_msg("%s: %s", sql, why);
	sqlite3_close(db);
}

/* Who has a file can do this to it, and what is found then. */
static const struct { const char *sql; enum audit_finding_code want; } tampering[] = {
	{ "DELETE FROM blk WHERE first = 4096", AUDIT_FINDING_GAP },
	{ "DELETE FROM blk WHERE first = 0", AUDIT_FINDING_GAP },
	{ "DELETE FROM blk", AUDIT_FINDING_GAP },
	{ "UPDATE blk SET first = 4608 WHERE first = 4096", AUDIT_FINDING_GAP },
	{ "UPDATE blk SET first = 4095 WHERE first = 4096", AUDIT_FINDING_GAP },
	{ "INSERT INTO blk SELECT 1, cnt, fmt, ts_min, ts_max, cols, hash, zone FROM blk WHERE first = 0", AUDIT_FINDING_GAP },
	{ "UPDATE blk SET cols = CAST(x'00' || substr(cols, 2) AS BLOB) WHERE first = 0", AUDIT_FINDING_PARSE },
	{ "UPDATE blk SET cnt = 511 WHERE first = 4096", AUDIT_FINDING_PARSE },
	{ "UPDATE blk SET fmt = 2 WHERE first = 0", AUDIT_FINDING_NOT_CHECKED },
	{ "UPDATE blk SET hash = CAST(x'00112233' || substr(hash, 5) AS BLOB) WHERE first = 0", AUDIT_FINDING_ROOT },
	{ "UPDATE blk SET hash = (SELECT hash FROM blk WHERE first = 4096) WHERE first = 0", AUDIT_FINDING_PARSE },
	{ "UPDATE blk SET ts_max = ts_max + 1 WHERE first = 0", AUDIT_FINDING_INDEX },
	{ "UPDATE blk SET zone = (SELECT zone FROM blk WHERE first = 4096) WHERE first = 0", AUDIT_FINDING_INDEX },
	{ "UPDATE text SET text = 'other' WHERE text = 'tool_1'", AUDIT_FINDING_ROOT },
	{ "UPDATE text SET kind = 99 WHERE text = 'tool_1'", AUDIT_FINDING_DICT },
	{ "DELETE FROM text WHERE id = (SELECT max(id) FROM text)", AUDIT_FINDING_DICT },
	{ "INSERT INTO text SELECT max(id) + 1, 34, 'unused' FROM text", AUDIT_FINDING_DICT },
	{ "INSERT INTO text SELECT max(id) + 2, 34, 'unused' FROM text", AUDIT_FINDING_SEGMENT },
	{ "UPDATE text SET text = CAST(x'ff' AS TEXT) WHERE text = 'tool_1'", AUDIT_FINDING_DICT },
	{ "DELETE FROM info", AUDIT_FINDING_SEGMENT },
	{ "INSERT INTO info SELECT * FROM info", AUDIT_FINDING_SEGMENT },
	{ "UPDATE info SET to_idx = 4864", AUDIT_FINDING_SEGMENT },
	{ "UPDATE info SET to_idx = 4096, to_peaks = zeroblob(32)", AUDIT_FINDING_ROOT },
	{ "UPDATE info SET from_idx = 4096, from_peaks = zeroblob(32)", AUDIT_FINDING_GAP },
	{ "UPDATE info SET to_peaks = zeroblob(64)", AUDIT_FINDING_ROOT },
	{ "UPDATE info SET from_idx = 1, from_peaks = zeroblob(32)", AUDIT_FINDING_SEGMENT },
	{ "UPDATE info SET origin = replace(origin, 'acme', 'other')", AUDIT_FINDING_PARSE },
	{ "UPDATE info SET note = CAST(replace(CAST(note AS TEXT), 'acme', 'acne') AS BLOB)", AUDIT_FINDING_PARSE },
	{ "UPDATE info SET note = x'00'", AUDIT_FINDING_PARSE },
	{ "UPDATE info SET note = zeroblob(16385)", AUDIT_FINDING_SEGMENT },
	{ "UPDATE info SET growth = zeroblob(length(growth))", AUDIT_FINDING_ROOT },
	{ "UPDATE info SET growth = x''", AUDIT_FINDING_ROOT },
	{ "UPDATE info SET growth = zeroblob(33)", AUDIT_FINDING_SEGMENT },
	{ "UPDATE info SET growth = zeroblob(65 * 32)", AUDIT_FINDING_SEGMENT },
	{ "UPDATE info SET epoch = 0", AUDIT_FINDING_KEYCHAIN },
	{ "UPDATE info SET epoch = 0; DELETE FROM epoch WHERE n = 1", AUDIT_FINDING_CP_SIG },
	{ "DELETE FROM epoch", AUDIT_FINDING_CP_SIG },
	{ "DELETE FROM epoch WHERE n = 0", AUDIT_FINDING_KEYCHAIN },
	{ "UPDATE epoch SET pk = zeroblob(32) WHERE n = 0", AUDIT_FINDING_KEYCHAIN },
	{ "UPDATE epoch SET cert = zeroblob(64) WHERE n = 1", AUDIT_FINDING_KEYCHAIN },
	{ "UPDATE epoch SET cert = NULL WHERE n = 1", AUDIT_FINDING_KEYCHAIN },
	{ "UPDATE epoch SET pk = zeroblob(31) WHERE n = 0", AUDIT_FINDING_SEGMENT },
	{ "UPDATE blkpay SET body = x'00' WHERE first = 256", AUDIT_FINDING_SEGMENT },
	{ "UPDATE blkpay SET body = (SELECT body FROM blkpay WHERE first = 512) WHERE first = 256", AUDIT_FINDING_PAYLOAD },
	{ "UPDATE blkpay SET first = 257 WHERE first = 256", AUDIT_FINDING_SEGMENT },
	{ "UPDATE blkpay SET first = 257 WHERE first = 256; DELETE FROM blkpay WHERE first = 512", AUDIT_FINDING_SEGMENT },
	/* the salt of a record that has its check */
	{ "UPDATE blkpay SET body = CAST(substr(body, 1, length(body) - 4) || x'00000000' AS BLOB) WHERE first = 256",
	  AUDIT_FINDING_PAYLOAD },
	{ "UPDATE blkpay SET first = 4608 WHERE first = 4352", AUDIT_FINDING_SEGMENT },
	{ "INSERT INTO blkpay SELECT 9000, body FROM blkpay WHERE first = 256", AUDIT_FINDING_SEGMENT },
	{ "INSERT INTO blkpay SELECT 8, body FROM blkpay WHERE first = 256", AUDIT_FINDING_SEGMENT },
	{ "CREATE TABLE more(x)", AUDIT_FINDING_SEGMENT },
	{ "CREATE INDEX more ON blk(ts_min)", AUDIT_FINDING_SEGMENT },
	{ "CREATE VIEW more AS SELECT * FROM blk", AUDIT_FINDING_SEGMENT },
	{ "CREATE TRIGGER more AFTER INSERT ON blk BEGIN SELECT 1; END", AUDIT_FINDING_SEGMENT },
	{ "DROP TABLE blkpay", AUDIT_FINDING_SEGMENT },
	{ "PRAGMA journal_mode=WAL", AUDIT_FINDING_SEGMENT },
	{ "PRAGMA page_size=4096; VACUUM", AUDIT_FINDING_SEGMENT },
};

static void each_tampering_is_found(void **state)
{
	for (size_t i = 0; i < NELEMS(tampering); i++) {
		copy_file();
		with_copy(tampering[i].sql);
		if (verify(fix.copy) == 0 || fix.count[tampering[i].want] == 0)
			fail_msg("%s: not %s, but\n%s", tampering[i].sql, audit_finding_name(tampering[i].want), str_text(&fix.said));
	}
}

static void what_erasing_takes_is_no_damage(void **state)
{
	copy_file();
	with_copy("PRAGMA secure_delete=ON; DELETE FROM blkpay WHERE first = 256");
	is_whole(fix.copy);
}

static void numbers_of_newer_files_are_refused(void **state)
{
	copy_file();
	with_copy("PRAGMA user_version=2");
	assert_int_equal(try_verify(fix.copy), ERR_CONFLICT);
	copy_file();
	with_copy("PRAGMA application_id=7");
	assert_int_equal(try_verify(fix.copy), ERR_INVALID);
}

/* Limits of what is read, and one more. */
static void texts_have_bounds(void **state)
{
	char sql[200];

	for (int len = SEGMENT_TEXT_MAX; len <= SEGMENT_TEXT_MAX + 1; len++) {
		copy_file();
		snprintf(sql, sizeof(sql), "UPDATE text SET text = substr(hex(zeroblob(%d)), 1, %d) WHERE text = 'tool_1'", len, len);
		with_copy(sql);
		(void)verify(fix.copy);
		/* One that is too long is none; of the other one the records are not. */
		assert_int_equal(fix.count[AUDIT_FINDING_DICT] > 0, len > SEGMENT_TEXT_MAX);
		assert_int_equal(fix.count[AUDIT_FINDING_ROOT] > 0, len == SEGMENT_TEXT_MAX);
	}
}

static void files_have_bounds(void **state)
{
	copy_file();
	if (truncate(fix.copy, (off_t)SEGMENT_BYTES_MAX + 1) != 0) {
		print_message("no file system for files of 64 GiB\n");
		skip();
	}
	assert_int_equal(try_verify(fix.copy), ERR_LIMIT);
	assert_int_equal(truncate(fix.copy, (off_t)SEGMENT_BYTES_MAX), 0);
	assert_int_equal(verify(fix.copy), 1);  /* not as long as it says */
	assert_int_equal(fix.count[AUDIT_FINDING_SEGMENT], 1);
}

static void keys_decide(void **state)
{
	uint8_t public[SIGN_PUBLIC_SIZE] = { 1 };

	fix.nkey = 0;
	assert_int_equal(verify(fix.file), 1);
	assert_int_equal(fix.count[AUDIT_FINDING_NOT_CHECKED], 1);
	assert_int_equal(fix.sum.gaps, 1);
	fix.nkey = 1;
	OK(note_key_set(&fix.key[0], fix.rig.pin.name, public));
	(void)verify(fix.file);
	assert_int_equal(fix.count[AUDIT_FINDING_KEYCHAIN], 1);
}

/* --- bytes */

static void with_bytes(const struct str *bytes, size_t len)
{
	(void)unlink(fix.copy);
	OK(path_create(fix.copy, 0600, bytes->p, len, &fix.err));
}

static void what_was_cut_or_grew_is_found(void **state)
{
	struct str bytes = STR_INIT;

	OK(path_read(fix.file, 64 << 20, &bytes, &fix.err));
	for (size_t len = 100; len < bytes.len; len += bytes.len / 7) {
		with_bytes(&bytes, len);
		assert_int_equal(verify(fix.copy), 1);
		assert_int_equal(fix.count[AUDIT_FINDING_SEGMENT], 1);
	}
	with_bytes(&bytes, bytes.len - 8192);
	assert_int_equal(verify(fix.copy), 1);
	str_putc(&bytes, 'x');
	with_bytes(&bytes, bytes.len);
	assert_int_equal(verify(fix.copy), 1);
	with_bytes(&bytes, 99);
	assert_int_equal(try_verify(fix.copy), ERR_INVALID);
	str_fini(&bytes);
}

/* Bits anywhere: what nobody finds is what is erasable, unused, or a claim, and the digest says that it is the same. */
static void a_bit_that_is_not_found_changes_no_record(void **state)
{
	struct str bytes = STR_INIT;
	uint8_t digest[DIGEST_SIZE];
	uint64_t random = 1;
	unsigned n = 0;

	is_whole(fix.file);
	memcpy(digest, fix.got.digest, sizeof(digest));
	OK(path_read(fix.file, 64 << 20, &bytes, &fix.err));
	for (unsigned i = 0; i < 60; i++) {
		size_t at;

		random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
		at = (size_t)(random >> 20) % bytes.len;
		bytes.p[at] = (char)(bytes.p[at] ^ 1 << (random >> 17) % 8);
		with_bytes(&bytes, bytes.len);
		if (try_verify(fix.copy) == 0 && fix.sum.bad == 0)
			assert_memory_equal(digest, fix.got.digest, sizeof(digest));
		else
			n++;
		bytes.p[at] = (char)(bytes.p[at] ^ 1 << (random >> 17) % 8);
	}
	assert_true(n > 8);
	str_fini(&bytes);
}

SINGLE_THREAD_SUITE(segment)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(each_record_has_the_leaf_that_it_had, again),
		cmocka_unit_test_setup(each_kept_value_is_what_it_was, again),
		cmocka_unit_test_setup(files_join, again),
		cmocka_unit_test_setup(pieces_join_or_it_is_said, again),
		cmocka_unit_test_setup(form_of_the_source_is_no_matter, again),
		cmocka_unit_test_setup(ranges_have_bounds, again),
		cmocka_unit_test_setup(record_that_is_not_as_written_ends_it, again),
		cmocka_unit_test_setup(no_file_is_opened_that_is_none, again),
		cmocka_unit_test_setup(each_tampering_is_found, again),
		cmocka_unit_test_setup(what_erasing_takes_is_no_damage, again),
		cmocka_unit_test_setup(numbers_of_newer_files_are_refused, again),
		cmocka_unit_test_setup(texts_have_bounds, again),
		cmocka_unit_test_setup(files_have_bounds, again),
		cmocka_unit_test_setup(keys_decide, again),
		cmocka_unit_test_setup(what_was_cut_or_grew_is_found, again),
		cmocka_unit_test_setup(a_bit_that_is_not_found_changes_no_record, again),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
