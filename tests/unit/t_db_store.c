/* Connections, transactions, statements and the schema of the store. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "db/db.h"
#include "src/db/db_int.h"

#include "store.h"
#include "tmpdir.h"
#include "suite.h"

struct fix {
	char *dir, path[600];
	struct db *db;
	struct err err;
};

/* A new file, which the steps make a store. */
static int set_up_new(void **state)
{
	struct fix *f = calloc(1, sizeof *f);

	f->dir = tmpdir_make();
	tmpdir_path(f->dir, "toolcrib.db", f->path, sizeof f->path);
	if (db_open(f->path, DB_WRITER, true, &f->db, &f->err) < 0 || db_migrate(f->db, &f->err) < 0)
		fail_msg("%s: %s", f->err.where, f->err.msg);
	*state = f;
	return 0;
}

static int set_up(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	f->dir = tmpdir_make();
	tmpdir_path(f->dir, "toolcrib.db", f->path, sizeof(f->path));
	if (store_copy(f->path, &f->err) < 0 || db_open(f->path, DB_WRITER, false, &f->db, &f->err) < 0)
		fail_msg("%s: %s", f->err.where, f->err.msg);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fix *f = *state;

	db_close(&f->db);
	tmpdir_remove(f->dir);
	free(f);
	return 0;
}

static int put_meta(struct db *db, const char *key, const char *value, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_META_SET_VALUE);

	db_bind_textz(st, 1, key);
	db_bind_textz(st, 2, value);
	return db_run(&st, err);
}

static bool has_meta(struct db *db, const char *key)
{
	struct db_stmt *st = db_stmt_get(db, SQL_META_GET_VALUE);
	struct err err;
	int rc;

	db_bind_textz(st, 1, key);
	rc = db_step(st, &err);
	db_stmt_put(&st);
	assert_true(rc >= 0);
	return rc == 1;
}

static void raw_exec(const char *path, const char *sql)
{
	sqlite3 *raw;

	assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
	assert_int_equal(sqlite3_exec(raw, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(raw);
}

static void store_file_is_private(void **state)
{
	struct fix *f = *state;
	struct stat st;

	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void commit_keeps_and_failure_undoes(void **state)
{
	struct fix *f = *state;

	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	assert_int_equal(put_meta(f->db, "a", "1", &f->err), 0);
	assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	assert_int_equal(put_meta(f->db, "b", "1", &f->err), 0);
	assert_int_equal(db_txn_end(f->db, ERR_CONFLICT, &f->err), ERR_CONFLICT);
	assert_true(has_meta(f->db, "a"));
	assert_false(has_meta(f->db, "b"));
}

static void item_fails_alone(void **state)
{
	struct fix *f = *state;

	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	for (int i = 0; i < 3; i++) {
		char key[2] = { (char)('a' + i), 0 };

		assert_int_equal(db_item_begin(f->db, &f->err), 0);
		assert_int_equal(put_meta(f->db, key, "1", &f->err), 0);
		assert_int_equal(db_item_end(f->db, i == 1 ? ERR_INVALID : 0, &f->err), i == 1 ? ERR_INVALID : 0);
	}
	assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
	assert_true(has_meta(f->db, "a"));
	assert_false(has_meta(f->db, "b"));
	assert_true(has_meta(f->db, "c"));
}

static void open_statement_refuses_commit(void **state)
{
	struct fix *f = *state;
	struct db_stmt *st;

	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	st = db_stmt_get(f->db, SQL_META_LIST_SCHEMA);
	assert_int_equal(db_step(st, &f->err), 1);
	assert_int_equal(db_txn_end(f->db, 0, &f->err), ERR_INTERNAL);
	db_stmt_put(&st);
}

static void missing_binding_is_our_bug(void **state)
{
	struct fix *f = *state;
	struct db_stmt *st = db_stmt_get(f->db, SQL_META_SET_VALUE);

	db_bind_textz(st, 1, "a");
	assert_int_equal(db_run(&st, &f->err), ERR_INTERNAL);
	assert_non_null(strstr(f->err.msg, "?2"));
	assert_null(st);
}

static void same_statement_nests(void **state)
{
	struct fix *f = *state;
	struct db_stmt *outer = db_stmt_get(f->db, SQL_META_GET_VALUE);

	assert_int_equal(put_meta(f->db, "a", "1", &f->err), 0);
	db_bind_textz(outer, 1, "a");
	assert_int_equal(db_step(outer, &f->err), 1);
	assert_false(has_meta(f->db, "b"));
	assert_string_equal(db_col_text(outer, 0, NULL), "1");
	db_stmt_put(&outer);
}

static void null_and_empty_differ(void **state)
{
	struct fix *f = *state;
	struct db_stmt *st = db_stmt_get(f->db, SQL_META_SET_VALUE);

	db_bind_textz(st, 1, "empty");
	db_bind_text(st, 2, NULL, 0);
	assert_int_equal(db_run(&st, &f->err), 0);
	st = db_stmt_get(f->db, SQL_META_SET_VALUE);
	db_bind_textz(st, 1, "null");
	db_bind_textz(st, 2, NULL);
	assert_true(db_run(&st, &f->err) < 0);
	assert_true(has_meta(f->db, "empty"));
	assert_false(has_meta(f->db, "null"));
}

static void newer_schema_is_refused(void **state)
{
	struct fix *f = *state;
	char sql[64];
	int version;

	db_close(&f->db);
	snprintf(sql, sizeof sql, "PRAGMA user_version=%d", db_schema_version() + 1);
	raw_exec(f->path, sql);
	assert_int_equal(db_open(f->path, DB_WRITER, false, &f->db, &f->err), 0);
	assert_int_equal(db_migrate(f->db, &f->err), ERR_CONFLICT);
	assert_non_null(strstr(f->err.msg, "newer toolcrib"));
	assert_int_equal(db_check_version(f->db, &version, &f->err), ERR_CONFLICT);
}

static void version_of_a_store_is_known(void **state)
{
	struct fix *f = *state;
	int version = 0;

	assert_int_equal(db_check_version(f->db, &version, &f->err), 0);
	assert_int_equal(version, db_schema_version());
	assert_int_equal(db_migrate(f->db, &f->err), 0);        /* nothing to do */
}

static void other_file_is_no_store(void **state)
{
	struct fix *f = *state;
	struct db *other;
	char path[600];
	int fd;

	tmpdir_path(f->dir, "other.db", path, sizeof path);
	raw_exec(path, "CREATE TABLE t(a)");
	assert_int_equal(db_open(path, DB_WRITER, false, &other, &f->err), 0);
	assert_int_equal(db_migrate(other, &f->err), ERR_INVALID);
	db_close(&other);
	tmpdir_path(f->dir, "text", path, sizeof path);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0 && write(fd, "not a database, but long enough to be looked at", 47) == 47);
	close(fd);
	assert_int_equal(db_open(path, DB_WRITER, false, &other, &f->err), ERR_CORRUPT);
	assert_int_equal(db_open("/nonexistent/x.db", DB_WRITER, false, &other, &f->err), ERR_UNREACHABLE);
}

static void foreign_trigger_in_schema_is_found(void **state)
{
	struct fix *f = *state;

	db_close(&f->db);
	raw_exec(f->path, "CREATE TRIGGER sqliteXspy AFTER INSERT ON meta BEGIN DELETE FROM meta; END");
	assert_int_equal(db_open(f->path, DB_WRITER, false, &f->db, &f->err), 0);
	assert_int_equal(db_migrate(f->db, &f->err), ERR_CORRUPT);
	assert_non_null(strstr(f->err.msg, "trigger sqliteXspy of meta was added"));
	assert_non_null(strstr(f->err.hint, "backup"));
	db_close(&f->db);
	assert_int_equal(db_open_store(db_of_file(f->path), &f->db, &f->err), ERR_CORRUPT);
	assert_null(f->db);
	raw_exec(f->path, "DROP TRIGGER sqliteXspy; DROP TRIGGER rec_frozen");
	assert_int_equal(db_open_store(db_of_file(f->path), &f->db, &f->err), ERR_CORRUPT);
	assert_non_null(strstr(f->err.msg, "trigger rec_frozen of rec is missing"));
	raw_exec(f->path, "CREATE TRIGGER rec_frozen BEFORE UPDATE ON rec BEGIN SELECT 1; END");
	assert_int_equal(db_open_store(db_of_file(f->path), &f->db, &f->err), ERR_CORRUPT);
	assert_non_null(strstr(f->err.msg, "trigger rec_frozen of rec was changed"));
}

/* Not even between the look at the schema and the first transaction. */
static void foreign_commit_behind_the_look_is_noticed(void **state)
{
	struct fix *f = *state;

	db_close(&f->db);
	assert_int_equal(db_open(f->path, DB_WRITER, false, &f->db, &f->err), 0);
	assert_int_equal(db_migrate(f->db, &f->err), 0);
	raw_exec(f->path, "CREATE TRIGGER sqliteXspy AFTER INSERT ON meta BEGIN DELETE FROM meta; END");
	assert_int_equal(db_txn_begin(f->db, true, &f->err), ERR_CORRUPT);
	assert_non_null(strstr(f->err.msg, "another program"));
}

static int switched(struct db *db, int what)
{
	int on = -1;

	assert_int_equal(sqlite3_db_config(db->native, what, -1, &on), SQLITE_OK);
	return on;
}

/* What the file says runs only where the release has something to run. */
static void connections_may_no_more_than_they_need(void **state)
{
	struct fix *f = *state;
	struct db *reader, *keys;
	char path[600];

	tmpdir_path(f->dir, "keys.db", path, sizeof path);
	assert_int_equal(db_open_store(db_of_file(f->path), &reader, &f->err), 0);
	assert_int_equal(db_open(path, DB_WRITER, true, &keys, &f->err), 0);
	assert_int_equal(db_migrate_keys(keys, &f->err), 0);
	struct db *const all[] = { f->db, reader, keys };
	for (size_t i = 0; i < NELEMS(all); i++) {
		assert_int_equal(switched(all[i], SQLITE_DBCONFIG_DEFENSIVE), 1);
		assert_int_equal(switched(all[i], SQLITE_DBCONFIG_TRUSTED_SCHEMA), 0);
		assert_int_equal(switched(all[i], SQLITE_DBCONFIG_WRITABLE_SCHEMA), 0);
		assert_int_equal(switched(all[i], SQLITE_DBCONFIG_ENABLE_TRIGGER), all[i] == f->db);
		assert_int_equal(switched(all[i], SQLITE_DBCONFIG_ENABLE_VIEW), all[i] != keys);
	}
	db_close(&reader);
	db_close(&keys);
	/* What bounds the opening of a file is gone afterwards. */
	assert_int_equal(sqlite3_hard_heap_limit64(-1), 0);
	assert_int_equal(sqlite3_soft_heap_limit64(-1), 0);
	db_memory_max(100 << 20);
	assert_int_equal(db_open_store(db_of_file(f->path), &reader, &f->err), 0);
	db_close(&reader);
	assert_int_equal(sqlite3_hard_heap_limit64(-1), 100 << 20);
	assert_int_equal(sqlite3_soft_heap_limit64(-1), 100 << 20);
	db_memory_max(0);
}

/* An older store that is as its steps made it is opened by a reader, and is not today's. */
static void schema_of_each_step_is_known(void **state)
{
	struct fix *f = *state;
	char path[600];
	struct db *db;

	tmpdir_path(f->dir, "old.db", path, sizeof path);
	raw_exec(path, sql_sqlite[0].text);
	raw_exec(path, "PRAGMA application_id = 0x54435242; PRAGMA user_version = 1");
	assert_int_equal(db_open_store(db_of_file(path), &db, &f->err), 0);
	assert_int_equal(db_check_schema(db, &f->err), ERR_CONFLICT);
	db_close(&db);
	raw_exec(path, "PRAGMA user_version = 2");
	assert_int_equal(db_open_store(db_of_file(path), &db, &f->err), ERR_CORRUPT);
}

/* Decision 0075: what is left at any moment is a schema of ours, anything else is not. */
static void indexes_of_rows_go_one_by_one_in_one_order(void **state)
{
	struct fix *f = *state;
	struct db *reader = NULL;
	unsigned left = 0;

	for (unsigned n = DB_LEAN_INDEXES; n-- > 0;) {
		assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
		assert_int_equal(db_txn_end(f->db, db_make_lean(f->db, 1, &f->err), &f->err), 0);
		assert_int_equal(db_lean_left(f->db, &left, &f->err), 0);
		assert_int_equal(left, n);
		if (db_open_store(db_of_file(f->path), &reader, &f->err) != 0)
			fail_msg("%u: %s", n, f->err.msg);
		db_close(&reader);
	}
	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	assert_int_equal(db_txn_end(f->db, db_make_lean(f->db, 1, &f->err), &f->err), 0);       /* there is none */
}

static void an_index_that_goes_out_of_turn_is_missed(void **state)
{
	struct fix *f = *state;

	db_close(&f->db);
	raw_exec(f->path, "DROP INDEX rec_ts");
	assert_int_equal(db_open_store(db_of_file(f->path), &f->db, &f->err), ERR_CORRUPT);
	raw_exec(f->path, "DROP INDEX rec_call");
	assert_int_equal(db_open_store(db_of_file(f->path), &f->db, &f->err), 0);
}

/* Else each start would run all steps again to find that out. */
static void the_build_knows_the_schema_of_a_new_store(void **state)
{
	struct fix *f = *state;
	struct db_stmt *st = db_stmt_get(f->db, SQL_META_LIST_SCHEMA);
	struct digest *d = digest_new();
	uint8_t digest[DIGEST_SIZE];

	while (db_step(st, &f->err) == 1) {
		for (unsigned col = 0; col < 4; col++) {
			size_t len;
			const char *text = db_col_text(st, col, &len);

			db_digest_column(d, text, len);
		}
	}
	db_stmt_put(&st);
	digest_end(&d, digest);
	assert_memory_equal(digest, db_store_digest[SQL__STEPS - 1], sizeof(digest));
}

/* AUDIT A-604: refused while the path leads elsewhere, served again once it does not. */
static void a_file_that_was_moved_is_not_written(void **state)
{
	struct fix *f = *state;
	char *from[] = { mem_strdup(f->path), mem_printf("%s-wal", f->path) };

	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	assert_int_equal(put_meta(f->db, "a", "1", &f->err), 0);
	assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
	for (size_t i = 0; i < NELEMS(from); i++) {
		char *to = mem_printf("%s.moved", from[i]);

		assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);        /* and the log has been seen */
		assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
		assert_int_equal(rename(from[i], to), 0);
		assert_int_equal(db_txn_begin(f->db, true, &f->err), ERR_AUDIT);
		assert_string_equal(f->err.where, from[i]);
		assert_non_null(strstr(f->err.msg, "moved or removed"));
		assert_int_equal(rename(to, from[i]), 0);
		assert_int_equal(link(from[i], to), 0);
		assert_int_equal(db_txn_begin(f->db, true, &f->err), ERR_AUDIT);
		assert_non_null(strstr(f->err.msg, "linked"));
		assert_int_equal(unlink(to), 0);
		assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
		assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
		free(to);
		free(from[i]);
	}
}

static void foreign_commit_stops_the_writer(void **state)
{
	struct fix *f = *state;

	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	assert_int_equal(put_meta(f->db, "a", "1", &f->err), 0);
	assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
	assert_int_equal(db_checkpoint(f->db, 1, &f->err), 0);
	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);        /* our own commits and checkpoints are no strangers */
	assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
	raw_exec(f->path, "INSERT INTO meta(key, value) VALUES('x', 'y')");
	assert_int_equal(db_txn_begin(f->db, true, &f->err), ERR_CORRUPT);
	assert_int_equal(db_txn_begin(f->db, true, &f->err), ERR_IO);
}

static void records_are_never_updated(void **state)
{
	struct fix *f = *state;
	sqlite3 *raw;

	db_close(&f->db);
	assert_int_equal(sqlite3_open(f->path, &raw), SQLITE_OK);
	assert_int_equal(sqlite3_exec(raw, "INSERT INTO rec(enc,log,idx,kind,ts) VALUES(1,1,0,1,1)", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(raw, "UPDATE rec SET ts=2", NULL, NULL, NULL), SQLITE_CONSTRAINT);
	sqlite3_close(raw);
}

static void reader_works_beside_the_owner(void **state)
{
	struct fix *f = *state;
	struct db *r;

	assert_int_equal(put_meta(f->db, "a", "1", &f->err), 0);
	assert_int_equal(db_open(f->path, DB_READER, false, &r, &f->err), 0);
	assert_true(has_meta(r, "a"));
	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	assert_int_equal(put_meta(f->db, "b", "1", &f->err), 0);
	assert_false(has_meta(r, "b"));
	assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
	assert_true(has_meta(r, "b"));
	assert_true(put_meta(r, "c", "1", &f->err) < 0);
	db_close(&r);
	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);        /* a reader's close is no checkpoint */
	assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
}

/* What a crash leaves: the file with its log, and nobody there. */
static void reader_sees_the_log_that_a_crash_left(void **state)
{
	struct fix *f = *state;
	char copy[600], cmd[3][600];
	struct db *r;
	static const char *const suffix[] = { "", "-wal", "-shm" };

	assert_int_equal(put_meta(f->db, "a", "1", &f->err), 0);
	tmpdir_path(f->dir, "copy.db", copy, sizeof copy);
	for (int i = 0; i < 3; i++) {
		char from[620], buf[4096];
		ssize_t n;
		int in, out;

		snprintf(from, sizeof from, "%s%s", f->path, suffix[i]);
		snprintf(cmd[i], sizeof cmd[i], "%.500s%s", copy, suffix[i]);
		in = open(from, O_RDONLY);
		out = open(cmd[i], O_WRONLY | O_CREAT, 0600);
		assert_true(in >= 0 && out >= 0);
		while ((n = read(in, buf, sizeof buf)) > 0)
			assert_int_equal(write(out, buf, (size_t)n), n);
		close(in);
		close(out);
	}
	assert_int_equal(db_open(copy, DB_READER, false, &r, &f->err), 0);
	assert_true(has_meta(r, "a"));
	db_close(&r);
}

static void reader_sees_a_store_at_rest(void **state)
{
	struct fix *f = *state;
	struct db *r;

	assert_int_equal(put_meta(f->db, "a", "1", &f->err), 0);
	db_close(&f->db);
	assert_int_equal(db_open(f->path, DB_READER, false, &r, &f->err), 0);
	assert_true(has_meta(r, "a"));
	db_close(&r);
}

static void backup_is_a_whole_store(void **state)
{
	struct fix *f = *state;
	struct db *r, *copy;
	struct stat st;
	char path[600];

	tmpdir_path(f->dir, "backup.db", path, sizeof path);
	assert_int_equal(put_meta(f->db, "a", "1", &f->err), 0);
	assert_int_equal(db_open(f->path, DB_READER, false, &r, &f->err), 0);
	if (db_backup(r, path, &f->err) != 0)
		fail_msg("%s: %s", f->err.where, f->err.msg);
	assert_int_equal(db_backup(r, path, &f->err), ERR_CONFLICT);
	assert_true(put_meta(r, "c", "1", &f->err) < 0);        /* read-only again */
	db_close(&r);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(db_open(path, DB_WRITER, false, &copy, &f->err), 0);
	assert_int_equal(db_migrate(copy, &f->err), 0);
	assert_true(has_meta(copy, "a"));
	db_close(&copy);
}

enum { COPIED = 60 };

/* Values of meta go into a file of at most so many pages (0: as many as there is room for); *ret_pages: that it has. */
static int copy_into(struct fix *f, unsigned pages, unsigned *ret_pages)
{
	static const char *const tables[] = { "meta", NULL };
	struct db *from = NULL;
	struct db_copy *copy = NULL;
	struct db_stmt *st;
	struct stat is;
	char key[8];
	int fd = -1, rc = 0;

	assert_int_equal(db_open(f->path, DB_READER, false, &from, &f->err), 0);
	assert_int_equal(db_copy_new(from, f->dir, tables, &copy, &fd, &f->err), 0);
	if (pages)
		assert_int_equal(db_copy_bound(copy, pages, &f->err), 0);
	for (int i = 0; rc == 0 && i < COPIED; i++) {
		snprintf(key, sizeof key, "k%d", i);
		st = db_stmt_get(from, SQL_META_GET_VALUE);
		db_bind_textz(st, 1, key);
		assert_int_equal(db_step(st, &f->err), 1);
		rc = db_copy_row(copy, "meta", st, &f->err);
		db_stmt_put(&st);
	}
	if (rc == 0)
		rc = db_copy_index(copy, "by_value", "meta(value)", &f->err);
	if (rc == 0)
		rc = db_copy_end(&copy, &f->err);
	else
		db_copy_free(&copy);
	assert_int_equal(fstat(fd, &is), 0);
	*ret_pages = (unsigned)(is.st_size / 4096);
	close(fd);
	db_close(&from);
	return rc;
}

/* Also where the last page is one of an index. */
static void a_copy_has_so_many_pages_and_not_one_more(void **state)
{
	struct fix *f = *state;
	const uint64_t before = metric_get(METRIC_copies_too_large);
	char key[8], value[1000];
	unsigned pages = 0, got = 0;

	memset(value, 'x', sizeof value - 1);
	value[sizeof value - 1] = '\0';
	for (int i = 0; i < COPIED; i++) {
		snprintf(key, sizeof key, "k%d", i);
		assert_int_equal(put_meta(f->db, key, value, &f->err), 0);
	}
	assert_int_equal(copy_into(f, 0, &pages), 0);
	assert_int_equal(copy_into(f, pages, &got), 0);
	assert_int_equal(got, pages);
	assert_int_equal(metric_get(METRIC_copies_too_large), before);
	assert_int_equal(copy_into(f, pages - 1, &got), ERR_LIMIT);
	assert_non_null(strstr(f->err.msg, "more than half of the room"));
	assert_int_equal(copy_into(f, pages / 4, &got), ERR_LIMIT);
	assert_int_equal(metric_get(METRIC_copies_too_large), before + 2);
}

static void checkpoint_empties_the_log(void **state)
{
	struct fix *f = *state;

	assert_int_equal(put_meta(f->db, "a", "1", &f->err), 0);
	assert_true(db_wal_pages(f->db) > 0);
	assert_int_equal(db_checkpoint(f->db, 1000, &f->err), 0);
	assert_true(db_wal_pages(f->db) > 0);
	assert_int_equal(db_checkpoint(f->db, 1, &f->err), 0);
	assert_int_equal(db_wal_pages(f->db), 0);
	assert_int_equal(put_meta(f->db, "b", "1", &f->err), 0);
	assert_in_range(db_wal_pages(f->db), 1, 4);
}

static struct db *foreign(struct fix *f)
{
	struct db *db = NULL;
	char path[600];

	tmpdir_path(f->dir, "shop.db", path, sizeof path);
	raw_exec(path, "CREATE TABLE product(id INTEGER PRIMARY KEY, name TEXT, price REAL);"
		       "INSERT INTO product VALUES(1, 'chair', 49.5), (2, 'table', NULL)");
	assert_int_equal(db_open(path, DB_FOREIGN, false, &db, &f->err), 0);
	return db;
}

static void foreign_reads_by_named_parameters(void **state)
{
	struct fix *f = *state;
	struct db *db = foreign(f);
	struct db_stmt *st;
	static const char sql[] = "SELECT name, price FROM product WHERE id >= :from ORDER BY id; -- all\n";

	assert_int_equal(db_stmt_adhoc(db, sql, strlen(sql), &st, &f->err), 0);
	assert_int_equal(db_param_count(st), 1);
	assert_string_equal(db_param_name(st, 1), ":from");
	assert_int_equal(db_param_index(st, ":other"), 0);
	db_bind_i64(st, db_param_index(st, ":from"), 1);
	assert_int_equal(db_col_count(st), 2);
	assert_string_equal(db_col_name(st, 1), "price");
	assert_int_equal(db_step(st, &f->err), 1);
	assert_string_equal(db_col_text(st, 0, NULL), "chair");
	assert_int_equal(db_col_type(st, 1), DB_FLOAT);
	assert_true(db_col_f64(st, 1) == 49.5);
	assert_int_equal(db_step(st, &f->err), 1);
	assert_int_equal(db_col_type(st, 1), DB_NULL);
	assert_int_equal(db_step(st, &f->err), 0);
	db_stmt_put(&st);
	db_close(&db);
}

static void foreign_refuses_all_but_one_select(void **state)
{
	static const char *const bad[] = {
		"", "-- nothing", "SELECT", "SELECT * FROM nowhere", "INSERT INTO product VALUES(3, 'x', 1)",
		"UPDATE product SET name = 'x'", "DELETE FROM product", "DROP TABLE product", "CREATE TABLE t(a)",
		"ATTACH 'x.db' AS x", "PRAGMA query_only=off", "PRAGMA data_version", "SELECT * FROM pragma_table_info('product')", "VACUUM",
		"BEGIN", "SELECT load_extension('x')", "EXPLAIN SELECT 1", "EXPLAIN QUERY PLAN SELECT 1", "SELECT 1; SELECT 2",
		"SELECT 1; DROP TABLE product", "SELECT 1; garbage", "WITH x AS (SELECT 1) DELETE FROM product",
		"INSERT INTO product VALUES(3, 'x', 1) RETURNING id", "REINDEX", "ANALYZE", "DETACH x",
		"SELECT writefile('x', 'y')", "SELECT Load_Extension('x')", "SELECT fts3_tokenizer('simple')",
		/* Harmless, but nobody has listed it: the state of the connection, how SQLite was built. */
		"SELECT changes()", "SELECT last_insert_rowid()", "SELECT sqlite_compileoption_get(1)", "SELECT sqlite_source_id()",
		"SELECT id FROM product WHERE total_changes() = 0", "SELECT upper(sqlite_compileoption_used('X'))",
	};
	static const char *const good[] = {
		"SELECT 1", "VALUES (1), (2)", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3) SELECT i FROM n",
		"SELECT upper(name) FROM product", "SELECT UPPER(name) || substr(name, 1) FROM product WHERE name NOT LIKE 'x%'",
		"SELECT row_number() OVER (ORDER BY id), count(*) FILTER (WHERE name GLOB '*') OVER () FROM product",
		"SELECT json_object('a', group_concat(name)) ->> '$.a', iif(sum(id) > pow(2, 3), 1, ifnull(NULL, 2)) FROM product",
		"SELECT value FROM json_each('[1]')", "SELECT CURRENT_DATE, strftime('%Y', 'now'), typeof(CAST('1' AS INTEGER))",
		" ; SELECT 1 ;; /* end */ ",
	};
	struct fix *f = *state;
	struct db *db = foreign(f);
	struct db_stmt *st;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		if (db_stmt_adhoc(db, bad[i], strlen(bad[i]), &st, &f->err) != ERR_INVALID)
			fail_msg("%s", bad[i]);
	for (size_t i = 0; i < sizeof good / sizeof good[0] - 1; i++) {
		if (db_stmt_adhoc(db, good[i], strlen(good[i]), &st, &f->err) != 0)
			fail_msg("%s: %s", good[i], f->err.msg);
		assert_int_equal(db_step(st, &f->err), 1);
		db_stmt_put(&st);
	}
	db_close(&db);
}

static void foreign_refuses_a_store(void **state)
{
	struct fix *f = *state;
	struct db *db;

	assert_int_equal(db_open(f->path, DB_FOREIGN, false, &db, &f->err), ERR_DENIED);
}

/* Symbolic and hard links, the log, the keys: all that lies in the store's directory, and nothing else. */
static void foreign_check_knows_a_store_by_any_name(void **state)
{
	static const char *const inside[] = { "x.db", "x.db-wal", "x.db-shm", "master.key" };
	struct fix *f = *state;
	char store[600], out[600], file[700], link_path[700];

	assert_true(mkdir(tmpdir_path(f->dir, "store", store, sizeof(store)), 0700) == 0);
	assert_true(mkdir(tmpdir_path(f->dir, "out", out, sizeof(out)), 0700) == 0);
	for (size_t i = 0; i < NELEMS(inside); i++) {
		int fd = open(tmpdir_path(store, inside[i], file, sizeof(file)), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		close(fd);
		assert_int_equal(db_foreign_check(file, store, &f->err), ERR_DENIED);
		assert_int_equal(db_foreign_check(file, out, &f->err), 0);
		assert_int_equal(db_foreign_check(file, NULL, &f->err), 0);
		tmpdir_path(out, inside[i], link_path, sizeof(link_path));
		assert_int_equal(symlink(file, link_path), 0);
		assert_int_equal(db_foreign_check(link_path, store, &f->err), ERR_DENIED);
		assert_int_equal(unlink(link_path), 0);
		assert_int_equal(link(file, link_path), 0);
		assert_int_equal(db_foreign_check(link_path, store, &f->err), ERR_DENIED);
	}
	assert_int_equal(db_foreign_check(tmpdir_path(out, "none", file, sizeof(file)), store, &f->err), 0);
}

static void foreign_query_has_a_bound_of_memory(void **state)
{
	static const char greedy[] = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000) "
				     "SELECT sum(length(b)) FROM (SELECT zeroblob(1000000) || i AS b FROM n ORDER BY 1)";
	struct fix *f = *state;
	struct db *db = foreign(f);
	struct db_stmt *st = NULL;

	db_deadline(db, clock_mono_us() + 60000000);
	assert_int_equal(db_stmt_adhoc(db, greedy, strlen(greedy), &st, &f->err), 0);
	assert_int_equal(db_step(st, &f->err), ERR_LIMIT);
	assert_string_equal(f->err.msg, "the query needs too much memory");
	db_stmt_put(&st);
	db_close(&db);
}

static void f2_foreign_reads_the_named_tables_alone(void **state)
{
	static const char *const tables[] = { "PRODUCT", "sqlite_schema" };
	static const char *const good[] = {
		"SELECT name FROM product", "SELECT count(*) FROM main.product AS p", "SELECT 1",
		"SELECT count(*) FROM sqlite_master", "SELECT value FROM json_each('[1]')", "WITH x AS (SELECT id FROM product) SELECT * FROM x JOIN product USING (id)",
		"SELECT name FROM product WHERE id = 1 OR name = 'table'",
	};
	static const char *const bad[] = {
		"SELECT n FROM other", "SELECT 1 FROM other", "SELECT count(*) FROM other",
		"SELECT name FROM product JOIN other USING (id)", "SELECT name FROM product NATURAL JOIN other", "WITH product AS (SELECT n FROM other) SELECT * FROM product",
		"SELECT n FROM seen", "SELECT product.n FROM other AS product", "SELECT (SELECT n FROM other LIMIT 1)",
		"SELECT 1 FROM (SELECT 1 AS id) JOIN other USING (id)", "SELECT * FROM sqlite_temp_schema",
	};
	struct fix *f = *state;
	struct db *db = foreign(f);
	struct db_stmt *st;
	char path[600];

	db_close(&db);
	tmpdir_path(f->dir, "shop.db", path, sizeof(path));
	raw_exec(path, "CREATE TABLE other(id INTEGER, n INTEGER); CREATE INDEX other_id ON other(id);"
		       "INSERT INTO other VALUES(1, 7); CREATE INDEX product_name ON product(name); CREATE VIEW seen AS SELECT n FROM other");
	assert_int_equal(db_open(path, DB_FOREIGN, false, &db, &f->err), 0);
	db_foreign_tables(db, tables, NELEMS(tables));
	for (size_t i = 0; i < NELEMS(good); i++) {
		if (db_stmt_adhoc(db, good[i], strlen(good[i]), &st, &f->err) != 0)
			fail_msg("%s: %s", good[i], f->err.msg);
		assert_int_equal(db_step(st, &f->err), 1);
		db_stmt_put(&st);
	}
	for (size_t i = 0; i < NELEMS(bad); i++) {
		if (db_stmt_adhoc(db, bad[i], strlen(bad[i]), &st, &f->err) != ERR_INVALID)
			fail_msg("%s", bad[i]);
		if (!strstr(f->err.msg, "these tables may be read: PRODUCT, sqlite_schema"))
			fail_msg("%s: %s", bad[i], f->err.msg);
	}
	db_close(&db);
}

/* Of the whole process, and before it is taken. */
static void f2_memory_of_the_engine_is_bounded(void **state)
{
	static const char much[] = "SELECT hex(zeroblob(7000000))";
	struct fix *f = *state;
	struct db *db = foreign(f);
	struct db_stmt *st = NULL;

	for (int rich = 0; rich < 2; rich++) {
		db_memory_max(rich ? 64u << 20 : 12u << 20);
		assert_int_equal(db_stmt_adhoc(db, much, strlen(much), &st, &f->err), 0);
		assert_int_equal(db_step(st, &f->err), rich ? 1 : ERR_LIMIT);
		if (!rich)
			assert_string_equal(f->err.msg, "the query needs too much memory");
		db_stmt_put(&st);
	}
	db_memory_max(0);
	db_close(&db);
}

static void a_statement_runs_again(void **state)
{
	static const char sql[] = "SELECT name FROM product WHERE id = :id";
	struct fix *f = *state;
	struct db *db = foreign(f);
	struct db_stmt *st = NULL;

	assert_int_equal(db_stmt_adhoc(db, sql, strlen(sql), &st, &f->err), 0);
	for (int64_t id = 1; id < 3; id++) {
		db_bind_i64(st, 1, id);
		assert_int_equal(db_step(st, &f->err), 1);
		assert_string_equal(db_col_text(st, 0, NULL), id == 1 ? "chair" : "table");
		db_stmt_again(st);
	}
	assert_int_equal(db_step(st, &f->err), 0);      /* nothing is bound any more */
	db_stmt_put(&st);
	db_close(&db);
}

static const char endless[] = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

static void foreign_deadline_ends_a_query(void **state)
{
	struct fix *f = *state;
	struct db *db = foreign(f);
	struct db_stmt *st;

	assert_int_equal(db_stmt_adhoc(db, endless, strlen(endless), &st, &f->err), 0);
	db_deadline(db, clock_mono_us() + 5000);
	assert_int_equal(db_step(st, &f->err), ERR_TIMEOUT);
	db_stmt_put(&st);
	db_deadline(db, 0);
	assert_int_equal(db_stmt_adhoc(db, "SELECT 1", 8, &st, &f->err), 0);
	assert_int_equal(db_step(st, &f->err), 1);
	db_stmt_put(&st);
	db_close(&db);
}

static void *step_endless(void *arg)
{
	struct db_stmt *st = arg;

	return (void *)(intptr_t)db_step(st, NULL);
}

static void interrupt_from_another_thread_ends_a_query(void **state)
{
	struct fix *f = *state;
	struct db *db = foreign(f);
	struct db_stmt *st;
	struct timespec at;
	pthread_t t;
	void *rc;

	assert_int_equal(db_stmt_adhoc(db, endless, strlen(endless), &st, &f->err), 0);
	assert_int_equal(pthread_create(&t, NULL, step_endless, st), 0);
	do {    /* one that comes before the step has begun is lost */
		db_interrupt(db);
		clock_gettime(CLOCK_REALTIME, &at);
		at.tv_nsec += 1000000;
		at.tv_sec += at.tv_nsec / 1000000000;
		at.tv_nsec %= 1000000000;
	} while (pthread_timedjoin_np(t, &rc, &at) == ETIMEDOUT);
	assert_int_equal((intptr_t)rc, ERR_CANCELLED);
	db_stmt_put(&st);
	db_close(&db);
}

static void row_out_hands_over_a_row_at_once(void **state)
{
	struct fix *f = *state;
	struct db_stmt *st;
	const struct db_value *v;

	assert_int_equal(sqlite3_exec(f->db->native, "INSERT INTO rec(enc, log, idx, kind, ts, call) VALUES(1, 2, 3, 4, -5, x'000102')",
				      NULL, NULL, NULL), SQLITE_OK);
	st = db_stmt_get(f->db, SQL_VERIFY_SCAN_REC);
	db_bind_row(st, 1);
	assert_null(db_row(st, 11));
	assert_int_equal(db_step(st, &f->err), 1);
	assert_null(db_row(st, 10));            /* it has eleven */
	v = db_row(st, 11);
	assert_non_null(v);
	assert_true(v[1].type == DB_INT && v[1].n == 2 && v[3].n == -5);
	assert_true(v[5].type == DB_NULL && v[5].len == 0 && v[5].p);
	assert_true(v[9].type == DB_BLOB && v[9].len == 3 && memcmp(v[9].p, "\0\1\2", 3) == 0);
	assert_int_equal(db_step(st, &f->err), 0);
	db_stmt_put(&st);
}

static void only_an_idle_reader_has_others_beside_it(void **state)
{
	struct fix *f = *state;
	struct db *reader = NULL, *beside = NULL;

	assert_int_equal(db_open_beside(f->db, &beside, &f->err), ERR_CONFLICT);
	assert_int_equal(db_open(f->path, DB_READER, false, &reader, &f->err), 0);
	assert_int_equal(db_open_beside(reader, &beside, &f->err), 0);
	db_close(&beside);
	assert_int_equal(db_txn_begin(reader, false, &f->err), 0);
	assert_int_equal(db_open_beside(reader, &beside, &f->err), ERR_CONFLICT);
	assert_null(beside);
	assert_int_equal(db_txn_end(reader, 0, &f->err), 0);
	db_close(&reader);
}

static void put_many(struct fix *f, char first, unsigned n)
{
	char key[] = "?000", value[3001];

	memset(value, first, sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(key, sizeof(key), "%c%03u", first, i % 1000);
		assert_int_equal(put_meta(f->db, key, value, &f->err), 0);
	}
}

/* Decision 0139: of a commit much larger than what waits, with pages that were written before its end, read again and
 * written anew, everybody sees all behind it; of one that was given up, nothing. */
static void a_commit_of_any_size_is_seen_whole(void **state)
{
	struct fix *f = *state;
	struct db *reader = NULL;
	char ok[16];

	assert_int_equal(db_pragma(f->db, "PRAGMA cache_size=10", &f->err), 0);
	assert_int_equal(db_open(f->path, DB_READER, false, &reader, &f->err), 0);
	for (int round = 0; round < 3; round++) {
		assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
		put_many(f, 'a', 200);
		put_many(f, 'a', 100);          /* and again */
		assert_true(has_meta(f->db, "a000"));
		assert_int_equal(has_meta(reader, "a199"), round > 0);
		assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
		assert_true(has_meta(reader, "a000") && has_meta(reader, "a199"));

		assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
		put_many(f, 'b', 150);
		assert_int_equal(db_txn_end(f->db, ERR_CANCELLED, NULL), ERR_CANCELLED);
		assert_false(has_meta(f->db, "b000") || has_meta(reader, "b149"));

		assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
		assert_int_equal(put_meta(f->db, "small", "x", &f->err), 0);
		assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
		assert_true(has_meta(reader, "small"));
		assert_int_equal(db_pragma_get(reader, "quick_check", ok, sizeof(ok), &f->err), 0);
		assert_string_equal(ok, "ok");
	}
	db_close(&reader);
	db_close(&f->db);
	assert_int_equal(db_open(f->path, DB_WRITER, false, &f->db, &f->err), 0);
	assert_true(has_meta(f->db, "a199") && has_meta(f->db, "small"));
}

/* AUDIT A-613: 3.51.3, and what older branches took over. */
static void releases_with_the_fix_are_known(void **state)
{
	static const struct { int number; bool fixed; } rows[] = {
		{ 3040001, false }, { 3044005, false }, { 3044006, true }, { 3045000, false }, { 3050006, false },
		{ 3050007, true }, { 3051000, false }, { 3051002, false }, { 3051003, true }, { 3052000, true },
	};
	bool fixed;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(db_engine_is_fixed(rows[i].number), rows[i].fixed);
	assert_non_null(strchr(db_engine(&fixed), '.'));
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define NEW(name) cmocka_unit_test_setup_teardown(name, set_up_new, tear_down)

SINGLE_THREAD_SUITE(store)
{
	const struct CMUnitTest tests[] = {
		T(row_out_hands_over_a_row_at_once), T(only_an_idle_reader_has_others_beside_it),
		NEW(store_file_is_private), T(commit_keeps_and_failure_undoes), T(item_fails_alone),
		T(open_statement_refuses_commit), T(missing_binding_is_our_bug), T(same_statement_nests),
		T(null_and_empty_differ), NEW(newer_schema_is_refused), NEW(version_of_a_store_is_known),
		T(other_file_is_no_store), T(foreign_trigger_in_schema_is_found), T(schema_of_each_step_is_known),
		NEW(indexes_of_rows_go_one_by_one_in_one_order), NEW(an_index_that_goes_out_of_turn_is_missed), T(connections_may_no_more_than_they_need),
		T(a_commit_of_any_size_is_seen_whole), T(foreign_commit_behind_the_look_is_noticed),
		NEW(the_build_knows_the_schema_of_a_new_store),
		T(a_file_that_was_moved_is_not_written), T(foreign_commit_stops_the_writer),
		T(records_are_never_updated), T(reader_works_beside_the_owner), T(reader_sees_the_log_that_a_crash_left),
		T(reader_sees_a_store_at_rest), NEW(backup_is_a_whole_store), NEW(a_copy_has_so_many_pages_and_not_one_more),
		NEW(checkpoint_empties_the_log),
		T(foreign_reads_by_named_parameters), T(foreign_refuses_all_but_one_select), T(foreign_refuses_a_store),
		T(foreign_check_knows_a_store_by_any_name), T(foreign_query_has_a_bound_of_memory),
		T(f2_foreign_reads_the_named_tables_alone), T(f2_memory_of_the_engine_is_bounded), T(a_statement_runs_again),
		cmocka_unit_test(releases_with_the_fix_are_known), T(foreign_deadline_ends_a_query),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

SUITE(store_threads)
{
	const struct CMUnitTest tests[] = { T(interrupt_from_another_thread_ends_a_query) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
