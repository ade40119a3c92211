/* One body over all engines of the store: what db.h promises holds for each of them, and the same operations come out
 * the same.  PostgreSQL where its programs are installed; what a server must be is in t_db_server.c. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"

#include "engines.h"
#include "suite.h"

/* --- what holds for each */

static int put_meta(struct fix *f, const char *key, const char *value)
{
	struct db_stmt *st = db_stmt_get(f->db, SQL_META_SET_VALUE);

	db_bind_textz(st, 1, key);
	db_bind_textz(st, 2, value);
	return db_run(&st, &f->err);
}

static bool has_meta(struct fix *f, struct db *db, const char *key)
{
	struct db_stmt *st = db_stmt_get(db, SQL_META_GET_VALUE);
	int rc;

	db_bind_textz(st, 1, key);
	rc = db_step(st, &f->err);
	db_stmt_put(&st);
	if (rc < 0)
		fail_msg("%s: %s", f->err.where, f->err.msg);
	return rc == 1;
}

static void a_commit_keeps_and_a_failure_undoes(void **state)
{
	struct fix *f = *state;

	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	assert_int_equal(put_meta(f, "a", "1"), 0);
	assert_false(has_meta(f, f->reader, "a"));
	assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	assert_int_equal(put_meta(f, "b", "1"), 0);
	assert_int_equal(db_txn_end(f->db, ERR_CONFLICT, &f->err), ERR_CONFLICT);
	assert_true(has_meta(f, f->reader, "a"));
	assert_false(has_meta(f, f->reader, "b"));
	assert_int_equal(put_meta(f, "c", "1"), 0);
	assert_true(has_meta(f, f->reader, "c"));
}

static void an_item_fails_alone(void **state)
{
	struct fix *f = *state;

	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(db_item_begin(f->db, &f->err), 0);
		assert_int_equal(add(f, i, NULL), 0);
		if (i == 2)
			assert_int_equal(add(f, 0, NULL), ERR_CONFLICT);
		assert_int_equal(db_item_end(f->db, i == 1 ? ERR_INVALID : 0, &f->err), i == 1 ? ERR_INVALID : 0);
	}
	assert_true(db_txn_alive(f->db));
	assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
	assert_int_equal(number(f, f->reader, "SELECT count(*) FROM t WHERE k IN (0, 2, 3)"), 3);
	assert_int_equal(number(f, f->reader, "SELECT count(*) FROM t"), 3);
}

/* Callers look at ERR_CONFLICT and go on in the same transaction. */
static void a_conflict_leaves_the_transaction(void **state)
{
	struct fix *f = *state;

	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	assert_int_equal(add(f, 1, "x"), 0);
	assert_int_equal(add(f, 1, "y"), ERR_CONFLICT);
	assert_int_equal(add(f, 2, "x"), ERR_CONFLICT);
	assert_int_equal(run(f, f->db, "INSERT INTO t(k, s) VALUES (4, 'no')"), ERR_CONFLICT);
	assert_true(db_txn_alive(f->db));
	assert_int_equal(number(f, f->db, "SELECT count(*) FROM t"), 1);
	assert_int_equal(add(f, 3, "z"), 0);
	assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
	assert_int_equal(number(f, f->reader, "SELECT count(*) FROM t"), 2);
}

static void changes_are_counted(void **state)
{
	struct fix *f = *state;
	struct db_stmt *st;

	for (int i = 0; i < 5; i++)
		assert_int_equal(add(f, i, NULL), 0);
	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	assert_int_equal(run(f, f->db, "UPDATE t SET i = 7 WHERE k < 3"), 0);
	assert_int_equal(db_changes(f->db), 3);
	assert_int_equal(run(f, f->db, "DELETE FROM t WHERE k > 100"), 0);
	assert_int_equal(db_changes(f->db), 0);
	st = say(f, f->db, "INSERT INTO t(k, i) VALUES (?1, 8) RETURNING k, i", "i");
	db_bind_i64(st, 1, 50);
	assert_int_equal(db_step(st, &f->err), 1);
	assert_int_equal(db_col_i64(st, 0), 50);
	assert_int_equal(db_col_i64(st, 1), 8);
	assert_int_equal(db_step(st, &f->err), 0);
	put(&st);
	assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
	assert_int_equal(number(f, f->reader, "SELECT count(*) FROM t WHERE i = 7 OR i = 8"), 4);
}

static void values_come_back_as_they_were(void **state)
{
	struct fix *f = *state;
	static const int64_t numbers[] = { 0, -1, 1, 255, 256, -32769, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN };
	static const double reals[] = { 0, -1.5, 1e300, 0.1 };
	static const char odd[] = "\xef\xbf\xbf \xf0\x9f\x94\xa7 '\"\\ $1 ?1 \n";
	char *large = mem_alloc(64 << 10);
	struct db_stmt *st;
	size_t len;

	for (size_t i = 0; i < 64 << 10; i++)
		large[i] = (char)i;
	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	for (int i = 0; i < 10; i++) {
		st = say(f, f->db, "INSERT INTO t(k, i, s, b, d) VALUES (?1, ?2, ?3, ?4, ?5)", "iitbf");
		db_bind_i64(st, 1, i);
		db_bind_i64(st, 2, numbers[i]);
		db_bind_text(st, 3, odd, i % 2 ? strlen(odd) : 0);
		db_bind_blob(st, 4, large, i % 2 ? 64 << 10 : 0);
		db_bind_f64(st, 5, reals[i % 4]);
		assert_int_equal(db_step(st, &f->err), 0);
		put(&st);
	}
	assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
	assert_int_equal(add(f, 99, NULL), 0);
	st = say(f, f->reader, "SELECT i, s, b, d, u FROM t WHERE k < 99 ORDER BY k", "");
	for (int i = 0; i < 10; i++) {
		assert_int_equal(db_step(st, &f->err), 1);
		assert_int_equal(db_col_count(st), 5);
		assert_int_equal(db_col_type(st, 0), DB_INT);
		assert_true(db_col_i64(st, 0) == numbers[i]);
		assert_int_equal(db_col_type(st, 1), DB_TEXT);
		assert_string_equal(db_col_text(st, 1, &len), i % 2 ? odd : "");
		assert_int_equal(db_col_type(st, 2), DB_BLOB);
		assert_memory_equal(db_col_blob(st, 2, &len), large, i % 2 ? 64 << 10 : 0);
		assert_int_equal(len, i % 2 ? 64 << 10 : 0);
		assert_int_equal(db_col_type(st, 3), DB_FLOAT);
		assert_true(db_col_f64(st, 3) == reals[i % 4]);
		assert_int_equal(db_col_type(st, 4), DB_NULL);
		assert_string_equal(db_col_text(st, 4, &len), "");
		assert_int_equal(len + (size_t)db_col_i64(st, 4), 0);
	}
	assert_int_equal(db_step(st, &f->err), 0);
	put(&st);
	st = say(f, f->reader, "SELECT i, k FROM t WHERE k = ?1 OR (?2 IS NULL AND k = 99) ORDER BY k DESC", "ii");
	db_bind_i64(st, 1, 6);
	db_bind_null(st, 2);
	assert_string_equal(db_col_name(st, 1), "k");
	assert_int_equal(db_step(st, &f->err), 1);
	assert_int_equal(db_col_type(st, 0), DB_NULL);
	assert_int_equal(db_step(st, &f->err), 1);
	assert_string_equal(db_col_text(st, 0, &len), "2147483647");
	put(&st);
	free(large);
}

static void what_is_missing_or_wrong_is_our_bug(void **state)
{
	struct fix *f = *state;
	struct db_stmt *st = db_stmt_get(f->db, SQL_META_SET_VALUE);
	bool was = db_check_types(true);

	db_bind_textz(st, 1, "a");
	assert_int_equal(db_step(st, &f->err), ERR_INTERNAL);
	db_stmt_put(&st);
	st = db_stmt_get(f->db, SQL_META_SET_VALUE);
	db_bind_textz(st, 1, "a");
	db_bind_i64(st, 2, 3);
	assert_int_equal(db_step(st, &f->err), ERR_INTERNAL);
	assert_string_equal(f->err.msg, "?2 is bound as type i and takes t");
	db_stmt_put(&st);
	assert_int_equal(put_meta(f, "a", "3"), 0);
	(void)db_check_types(was);
}

/* By bytes: cursors are the last name of a page. */
static void texts_sort_by_their_bytes(void **state)
{
	struct fix *f = *state;
	static const char *const names[] = { "", " ", "-a", "A", "B", "Z", "_", "a", "a-b", "a_b", "aa", "z", "\xc3\x84", "\xc3\xa4", "\xef\xbf\xbf" };
	const int n = (int)(sizeof names / sizeof names[0]);
	struct db_stmt *st;

	for (int i = n - 1; i >= 0; i--)
		assert_int_equal(add(f, i, names[i]), 0);
	st = say(f, f->reader, "SELECT u FROM t ORDER BY u", "");
	for (int i = 0; i < n; i++) {
		assert_int_equal(db_step(st, &f->err), 1);
		assert_string_equal(db_col_text(st, 0, NULL), names[i]);
	}
	put(&st);
	st = say(f, f->reader, "SELECT count(*) FROM t WHERE u > ?1", "t");
	db_bind_textz(st, 1, "Z");
	assert_int_equal(db_step(st, &f->err), 1);
	assert_int_equal(db_col_i64(st, 0), n - 6);
	put(&st);
}

static void a_statement_nests_in_its_own_rows(void **state)
{
	struct fix *f = *state;
	struct db_stmt *outer, *st;
	int seen = 0;

	for (int i = 0; i < 1000; i++)
		assert_int_equal(add(f, i, NULL), 0);
	assert_int_equal(put_meta(f, "in", "1"), 0);
	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	outer = say(f, f->db, "SELECT k FROM t WHERE k < 1000 ORDER BY k", "");
	while (db_step(outer, &f->err) == 1) {
		assert_int_equal(db_col_i64(outer, 0), seen);
		if (seen++ % 300 != 0)
			continue;
		assert_int_equal(add(f, 10000 + seen, NULL), 0);
		st = db_stmt_get(f->db, SQL_META_GET_VALUE);
		db_bind_textz(st, 1, "in");
		assert_int_equal(db_step(st, &f->err), 1);
		assert_true(has_meta(f, f->db, "in"));
		assert_string_equal(db_col_text(st, 0, NULL), "1");
		db_stmt_put(&st);
		assert_int_equal(db_item_begin(f->db, &f->err), 0);
		assert_int_equal(db_item_end(f->db, 0, &f->err), 0);
	}
	put(&outer);
	assert_int_equal(seen, 1000);
	assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
	assert_int_equal(number(f, f->reader, "SELECT count(*) FROM t"), 1004);
	/* What is put before its end leaves the connection to others. */
	outer = say(f, f->db, "SELECT k FROM t ORDER BY k", "");
	assert_int_equal(db_step(outer, &f->err), 1);
	put(&outer);
	assert_int_equal(number(f, f->db, "SELECT count(*) FROM t"), 1004);
}

static void an_open_statement_refuses_the_commit(void **state)
{
	struct fix *f = *state;
	struct db_stmt *st;

	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	assert_int_equal(add(f, 1, NULL), 0);
	st = say(f, f->db, "SELECT k FROM t", "");
	assert_int_equal(db_step(st, &f->err), 1);
	assert_int_equal(db_txn_end(f->db, 0, &f->err), ERR_INTERNAL);
	put(&st);
	assert_int_equal(number(f, f->db, "SELECT count(*) FROM t"), 0);
}

static void a_read_is_of_one_moment(void **state)
{
	struct fix *f = *state;

	assert_int_equal(add(f, 1, NULL), 0);
	assert_int_equal(db_txn_begin(f->reader, false, &f->err), 0);
	assert_int_equal(number(f, f->reader, "SELECT count(*) FROM t"), 1);
	assert_int_equal(add(f, 2, NULL), 0);
	assert_int_equal(number(f, f->reader, "SELECT count(*) FROM t"), 1);
	assert_int_equal(db_txn_end(f->reader, 0, &f->err), 0);
	assert_int_equal(number(f, f->reader, "SELECT count(*) FROM t"), 2);
}

static void a_reader_writes_nothing(void **state)
{
	struct fix *f = *state;

	assert_int_equal(run(f, f->reader, "INSERT INTO t(k) VALUES (1)"), ERR_UNREACHABLE);
	assert_int_equal(run(f, f->reader, "DELETE FROM t"), ERR_UNREACHABLE);
	assert_int_equal(number(f, f->reader, "SELECT count(*) FROM t"), 0);
}

static void records_are_appended_alone(void **state)
{
	struct fix *f = *state;
	struct db_stmt *st;

	assert_true(run(f, f->db, "INSERT INTO log(id, origin, state) VALUES (1, 'o', 1)") == 0);
	st = say(f, f->db, "INSERT INTO rec(log, idx, ts, enc, kind, leaf) VALUES (1, 0, 5, 1, 1001, ?1)", "b");
	db_bind_blob(st, 1, "leaf", 4);
	if (db_step(st, &f->err) != 0)
		fail_msg("%s", f->err.msg);
	put(&st);
	assert_true(run(f, f->db, "UPDATE rec SET ts = 6") < 0);
	assert_int_equal(number(f, f->db, "SELECT ts FROM rec"), 5);
}

/* AUDIT A-417: what a record vouched for says so when it is changed, or gone. */
static void rows_say_that_they_were_changed(void **state)
{
	struct fix *f = *state;
	struct db_stmt *st;

	st = say(f, f->db, "INSERT INTO secret(name, key_id, value, created_us, changed_us, actor, rec_log, rec_idx) "
		 "VALUES ('s', '', ?1, 0, 0, '', 1, 7)", "b");
	db_bind_blob(st, 1, "box", 3);
	assert_int_equal(db_step(st, &f->err), 0);
	put(&st);
	assert_int_equal(run(f, f->db, "UPDATE secret SET actor = 'x'"), 0);
	assert_int_equal(number(f, f->db, "SELECT rec_idx FROM secret"), 7);
	assert_int_equal(run(f, f->db, "UPDATE secret SET name = 't'"), 0);
	assert_int_equal(number(f, f->db, "SELECT rec_idx FROM secret"), -8);
	assert_int_equal(run(f, f->db, "UPDATE secret SET rec_idx = 9"), 0);
	assert_int_equal(number(f, f->db, "SELECT rec_idx FROM secret"), 9);
	assert_int_equal(run(f, f->db, "DELETE FROM secret"), 0);
	assert_int_equal(number(f, f->db, "SELECT rec_idx * 100 + kind FROM row_gone"), 908);
}

/* --- statements of sql/ that are worded for both */

static int64_t insert(struct fix *f, struct db_stmt *st)
{
	int64_t id = -1;

	if (db_run_id(&st, &id, &f->err) < 0)
		fail_msg("%s: %s", f->err.where, f->err.msg);
	return id;
}

static int64_t add_tool(struct fix *f, const char *name)
{
	struct db_stmt *st = db_stmt_get(f->db, SQL_TOOL_INSERT);
	int64_t id;

	db_bind_textz(st, 1, name);
	db_bind_i64(st, 2, 1);
	db_bind_i64(st, 3, 1);
	id = insert(f, st);
	st = db_stmt_get(f->db, SQL_TOOL_INSERT_VERSION);
	db_bind_i64(st, 1, id);
	db_bind_i64(st, 2, 1);
	db_bind_blob(st, 3, "d", 1);
	db_bind_blob(st, 4, "l", 1);
	db_bind_textz(st, 5, "{\"_meta\":{\"ui\":{\"resourceUri\":\"ui://x\"}},\"audit\":{\"level\":2}}");
	db_bind_textz(st, 6, "uid/0");
	db_bind_i64(st, 7, 1);
	db_bind_i64(st, 8, 1);
	db_bind_null(st, 9);
	(void)insert(f, st);
	return id;
}

static int64_t add_tenant(struct fix *f)
{
	struct db_stmt *st = db_stmt_get(f->db, SQL_TENANT_INSERT);

	db_bind_textz(st, 1, "acme");
	db_bind_textz(st, 2, "Acme");
	for (unsigned i = 3; i <= 6; i++)
		db_bind_i64(st, i, 0);
	db_bind_textz(st, 7, "");
	if (db_run(&st, &f->err) < 0)
		fail_msg("%s", f->err.msg);
	assert_int_equal(number(f, f->db, "SELECT length(list_digest) FROM tenant"), 32);
	return number(f, f->db, "SELECT id FROM tenant");
}

static int visible(struct fix *f, int64_t tenant, const char *glob)
{
	struct db_stmt *st;
	int n = 0, rc;

	if (run(f, f->db, "DELETE FROM tool_grant") < 0)
		fail_msg("%s", f->err.msg);
	st = db_stmt_get(f->db, SQL_GRANT_INSERT);
	db_bind_i64(st, 1, tenant);
	db_bind_textz(st, 2, glob);
	db_bind_textz(st, 3, "");
	for (unsigned i = 4; i <= 7; i++)
		db_bind_i64(st, i, 0);
	db_bind_null(st, 8);
	(void)insert(f, st);
	st = db_stmt_get(f->db, SQL_GRANT_VISIBLE);
	db_bind_i64(st, 1, tenant);
	while ((rc = db_step(st, &f->err)) == 1)
		n++;
	db_stmt_put(&st);
	assert_int_equal(rc, 0);
	return n;
}

static void a_grant_names_the_same_tools(void **state)
{
	static const struct { const char *glob; int n; } rows[] = { { "get_weather", 1 }, { "get_*", 2 }, { "*", 4 }, { "get_weathe?", 1 },
		{ "?et_*e?", 1 }, { "Get_*", 0 }, { "get.*", 0 }, { "*x", 2 }, { "prompt:*", 1 }, { "a.b+x", 1 }, { "a?b?x", 1 }, { "a.b", 0 } };
	struct fix *f = *state;
	int64_t tenant = add_tenant(f), first = add_tool(f, "get_weather");

	assert_true(add_tool(f, "get_x") > first);
	(void)add_tool(f, "put");
	(void)add_tool(f, "a.b+x");
	(void)add_tool(f, "prompt:p");
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (visible(f, tenant, rows[i].glob) != rows[i].n)
			fail_msg("%s names %d tools and not %d", rows[i].glob, visible(f, tenant, rows[i].glob), rows[i].n);
}

static void a_row_that_is_there_is_added_to(void **state)
{
	struct fix *f = *state;
	struct db_stmt *st;

	for (int i = 0; i < 2; i++) {
		st = db_stmt_get(f->db, SQL_BASELINE_PUT);
		db_bind_i64(st, 1, 1);
		db_bind_textz(st, 2, "prn_x");
		db_bind_i64(st, 3, 7);
		db_bind_i64(st, 4, 5);
		db_bind_i64(st, 5, 2);
		assert_int_equal(db_run(&st, &f->err), 0);
		st = db_stmt_get(f->db, SQL_BASELINE_PAIR_PUT);
		db_bind_i64(st, 1, 1);
		db_bind_textz(st, 2, "prn_x");
		db_bind_textz(st, 3, "tool");
		db_bind_i64(st, 4, 10 + i);
		assert_int_equal(db_run(&st, &f->err), 0);
		assert_int_equal(db_changes(f->db), i == 0);
	}
	assert_int_equal(number(f, f->db, "SELECT n * 100 + denied FROM baseline"), 1004);
	assert_int_equal(number(f, f->db, "SELECT first_us FROM baseline_tool"), 10);
}

/* AUTOINCREMENT, a sequence: what was given once is given to nobody else. */
static void an_id_is_given_once(void **state)
{
	struct fix *f = *state;
	struct db_stmt *st;
	int64_t id[2];

	for (int i = 0; i < 2; i++) {
		st = db_stmt_get(f->db, SQL_SECRET_INSERT);
		db_bind_textz(st, 1, "s");
		db_bind_textz(st, 2, "k");
		db_bind_i64(st, 3, 1);
		db_bind_textz(st, 4, "uid/0");
		id[i] = insert(f, st);
		assert_int_equal(number(f, f->db, "SELECT length(value) FROM secret"), 0);
		assert_int_equal(run(f, f->db, "DELETE FROM secret"), 0);
	}
	assert_true(id[1] > id[0]);
	st = db_stmt_get(f->db, SQL_META_SET_VALUE);
	db_bind_textz(st, 1, "a");
	db_bind_textz(st, 2, "b");
	assert_int_equal(db_run_id(&st, &id[0], &f->err), ERR_INTERNAL);       /* no row, so no id */
}

static void definitions_are_looked_into(void **state)
{
	struct fix *f = *state;
	int64_t tool = add_tool(f, "get_weather");
	struct db_stmt *st = db_stmt_get(f->db, SQL_LEVEL_GET_VERSION);

	db_bind_i64(st, 1, tool);
	db_bind_i64(st, 2, 1);
	assert_int_equal(db_step(st, &f->err), 1);
	assert_int_equal(db_col_i64(st, 0), 2);
	db_stmt_put(&st);
	st = db_stmt_get(f->db, SQL_LEVEL_DEFINITION_BETWEEN);
	db_bind_i64(st, 1, 1);
	assert_int_equal(db_step(st, &f->err), 1);
	assert_int_equal(db_col_i64(st, 0), 2);
	db_stmt_put(&st);
	st = db_stmt_get(f->db, SQL_ADMIN_COUNTS);
	assert_int_equal(db_step(st, &f->err), 1);
	assert_int_equal(db_col_i64(st, 1), 1);
	assert_int_equal(db_col_i64(st, 3), 0);
	db_stmt_put(&st);
}

static void a_deadline_ends_a_query(void **state)
{
	struct fix *f = *state;

	db_deadline(f->reader, clock_mono_us() + 50000);
	assert_int_equal(run(f, f->reader, f->e->slow), ERR_TIMEOUT);
	db_deadline(f->reader, 0);
	assert_int_equal(number(f, f->reader, "SELECT 1 + 1"), 2);
}

/* --- the same operations, the same outcome */

struct seed { uint64_t s; };
static unsigned rnd(struct seed *r, unsigned n)
{
	r->s = r->s * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (unsigned)(r->s >> 33) % n;
}

/* One operation, as a word of what came out. */
static int operation(struct fix *f, struct seed *r, bool *txn, bool *item)
{
	char key[8];
	int rc;

	snprintf(key, sizeof key, "k%u", rnd(r, 30));
	switch (rnd(r, 12)) {
	case 0:
		if (*txn)
			return 100;
		*txn = true;
		return db_txn_begin(f->db, true, &f->err);
	case 1:
		if (!*txn || *item)
			return 101;
		*txn = false;
		return db_txn_end(f->db, rnd(r, 3) ? 0 : ERR_CANCELLED, &f->err);
	case 2:
		if (!*txn || *item)
			return 102;
		*item = true;
		return db_item_begin(f->db, &f->err);
	case 3:
		if (!*item)
			return 103;
		*item = false;
		return db_item_end(f->db, rnd(r, 2) ? 0 : ERR_CANCELLED, &f->err);
	case 4:
		return run(f, f->db, rnd(r, 2) ? "DELETE FROM t WHERE k % 7 = 3" : "UPDATE t SET i = coalesce(i, 0) + 1 WHERE k % 5 = 1");
	case 5:
		return (int)(number(f, f->db, "SELECT coalesce(max(k), -1) FROM t") & 0xffff);
	case 6:
		return (int)db_changes(f->db);
	case 7:
		return put_meta(f, key, "v");
	case 8:
		return has_meta(f, f->db, key);
	default:
		rc = add(f, rnd(r, 200), key);
		return rc == 0 ? (int)db_changes(f->db) : rc;
	}
}

static void random_operations_come_out_the_same(void **state)
{
	struct seed of[ENGINES] = { { 7 }, { 7 } };
	bool txn[ENGINES] = { false }, item[ENGINES] = { false };
	struct fix *f[ENGINES];

	for (int e = 0; e < ENGINES; e++) {
		void *made;

		(void)set_up(&made, (enum which)e);
		f[e] = made;
	}
	for (int i = 0; i < 1000; i++) {
		int a = operation(f[LITE], &of[LITE], &txn[LITE], &item[LITE]);
		int b = operation(f[SERVER], &of[SERVER], &txn[SERVER], &item[SERVER]);

		if (a != b)
			fail_msg("operation %d: %d and %d; %s", i, a, b, f[SERVER]->err.msg);
	}
	for (int e = 0; e < ENGINES; e++) {
		void *made = f[e];

		if (item[e])
			(void)db_item_end(f[e]->db, ERR_CANCELLED, NULL);
		assert_int_equal(number(f[e], f[e]->db, "SELECT CAST(count(*) + coalesce(sum(k * 3 + coalesce(i, 0)), 0) * 1000 AS bigint) FROM t"),
				 number(f[LITE], f[LITE]->db, "SELECT CAST(count(*) + coalesce(sum(k * 3 + coalesce(i, 0)), 0) * 1000 AS bigint) FROM t"));
		if (e == LITE)
			continue;
		(void)tear_down(&made);
		made = f[LITE];
		(void)tear_down(&made);
	}
}

/* --- what people and reports read */

static size_t field(uint8_t *at, unsigned tag, const void *p, size_t n)
{
	const uint8_t head[6] = { (uint8_t)(tag >> 8), (uint8_t)tag, 0, 0, (uint8_t)(n >> 8), (uint8_t)n };

	memcpy(at, head, 6);
	memcpy(at + 6, p, n);
	return n + 6;
}

/* Fields that the views show and some that they do not, in turn. */
static size_t fields(int i, uint8_t ext[4096])
{
	static const struct { unsigned tag; const char *p; size_t n; } all[] = {
		{ 0x0199, "other", 5 }, { 0x0113, "what it was about", 17 }, { 0x010d, "\0\0\0\0\0\0\1\2", 8 }, { 0x010e, "\0\0\0\0\0\0\0\7", 8 },
		{ 0x0100, "\xab\xcd", 2 }, { 0x0101, "\x01", 1 }, { 0x0102, "\0\0\0\0\0\0\0\1\0\0\0\0\0\0\1\0", 16 }, { 0x0104, "a ground", 8 },
		{ 0x0105, "T-1", 3 }, { 0x0106, "uid/7", 5 }, { 0x011b, "permit \xc3\xa4", 9 }, { 0x0114, "", 0 }, { 0x0113, "second", 6 },
	};
	size_t len = 0;

	for (size_t f = 0; f < sizeof all / sizeof all[0]; f++)
		if (i % 5 && (f + (size_t)i) % (size_t)(i % 5) == 0)
			len += field(ext + len, all[f].tag, all[f].p, all[f].n);
	return len;
}

static void add_record(struct fix *f, int64_t log, int i)
{
	static const int kinds[] = { 1001, 1002, 1003, 1004, 1005, 1010, 1011, 1101, 1202, 1301, 1502, 1601, 1701, 1801, 1903, 1911, 2001, 4711 };
	struct db_stmt *st = say(f, f->db, "INSERT INTO rec(log, idx, ts, enc, kind, leaf, ext, call, prev, trace, outcome, tport, authn, actor, beg, "
				 "flags, dur, cpu, clk, prn, cred, tool, rule, obj, boot, n_req, xstat, mdl) VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8, ?9, "
				 "?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27)",
				 "iiiibbbbbiiiiiiiiiiiiiiiiii");
	static const uint8_t id[16] = { 1, 2, 0xab, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0xff };
	uint8_t ext[4096];
	size_t len = fields(i, ext);

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, i);
	db_bind_i64(st, 3, INT64_C(1796000523000000) + i * INT64_C(333333333));
	db_bind_i64(st, 4, kinds[i % 18]);
	db_bind_blob(st, 5, id, 16);
	if (len)
		db_bind_blob(st, 6, ext, len);
	else
		db_bind_null(st, 6);
	for (unsigned pos = 7; pos <= 9; pos++)
		if ((i + (int)pos) % 3)
			db_bind_blob(st, pos, id, 16);
		else
			db_bind_null(st, pos);
	for (unsigned pos = 10; pos <= 27; pos++)
		if ((i * 7 + (int)pos) % 4)
			db_bind_i64(st, pos, pos >= 19 && pos <= 24 ? 1 + (i + pos) % 6 : (i * 3 + pos) % 200);
		else
			db_bind_null(st, pos);
	if (db_step(st, &f->err) < 0)
		fail_msg("%s", f->err.msg);
	put(&st);
}

static void add_records(struct fix *f)
{
	int64_t tenant = add_tenant(f);
	char sql[200];

	snprintf(sql, sizeof sql, "INSERT INTO log(id, origin, tenant_id, state) VALUES (1, 'i/s', NULL, 1), (2, 'i/t/acme', %lld, 1)", (long long)tenant);
	assert_int_equal(run(f, f->db, sql), 0);
	snprintf(sql, sizeof sql, "INSERT INTO principal(tenant_id, name, pseudonym, state, created_us) VALUES (%lld, 'alice', 'text 2', 1, 0)",
		 (long long)tenant);
	assert_int_equal(run(f, f->db, sql), 0);
	for (int i = 1; i <= 6; i++) {
		snprintf(sql, sizeof sql, "INSERT INTO dict(id, kind, text) VALUES (%d, %d, 'text %d')", i, i, i);
		assert_int_equal(run(f, f->db, sql), 0);
	}
	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	for (int i = 0; i < 180; i++)
		add_record(f, 1 + i % 2, i);
	assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
}

static void same_row(struct db_stmt *a, struct db_stmt *b, const char *view, int row)
{
	const unsigned n = db_col_count(a);

	assert_int_equal(db_col_count(b), n);
	for (unsigned i = 0; i < n; i++) {
		const enum db_type type = db_col_type(a, i);
		bool same = type == db_col_type(b, i);

		assert_string_equal(db_col_name(a, i), db_col_name(b, i));
		if (same && type == DB_INT)
			same = db_col_i64(a, i) == db_col_i64(b, i);
		else if (same && type == DB_FLOAT)
			same = db_col_f64(a, i) == db_col_f64(b, i);
		else if (same && type != DB_NULL)
			same = strcmp(db_col_text(a, i, NULL), db_col_text(b, i, NULL)) == 0;
		if (!same)
			fail_msg("%s, row %d, %s: type %d, '%s', and type %d, '%s'", view, row, db_col_name(a, i), (int)type,
				 db_col_text(a, i, NULL), (int)db_col_type(b, i), db_col_text(b, i, NULL));
	}
}

static int same_rows(struct fix *a, struct fix *b, const char *view)
{
	char sql[200];
	struct db_stmt *x, *y;
	int n = 0, rc;

	snprintf(sql, sizeof sql, "SELECT * FROM %s ORDER BY log_id, idx", view);
	x = say(a, a->reader, sql, "");
	y = say(b, b->reader, sql, "");
	while ((rc = db_step(x, &a->err)) == 1) {
		if (db_step(y, &b->err) != 1)
			fail_msg("%s ends at row %d: %s", view, n, b->err.msg);
		same_row(x, y, view, n++);
	}
	assert_int_equal(rc, 0);
	assert_int_equal(db_step(y, &b->err), 0);
	put(&x);
	put(&y);
	return n;
}

static void views_say_the_same(void **state)
{
	static const char *const views[] = { "v_records", "v_calls", "v_denied", "v_auth_failures", "v_admin", "v_keys", "v_definitions", "v_lists",
		"v_notify", "v_lifecycle", "v_reads", "v_retention", "v_checkpoints" };
	struct fix *f[ENGINES];

	for (int e = 0; e < ENGINES; e++) {
		void *made;

		(void)set_up(&made, (enum which)e);
		f[e] = made;
		add_records(f[e]);
	}
	for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
		int n = same_rows(f[LITE], f[SERVER], views[i]);

		assert_true(i ? n >= 10 : n == 180);
	}
	for (int e = 0; e < ENGINES; e++) {
		void *made = f[e];

		(void)tear_down(&made);
	}
}

#define BODY(setup) \
	cmocka_unit_test_setup_teardown(a_commit_keeps_and_a_failure_undoes, setup, tear_down), \
	cmocka_unit_test_setup_teardown(an_item_fails_alone, setup, tear_down), \
	cmocka_unit_test_setup_teardown(a_conflict_leaves_the_transaction, setup, tear_down), \
	cmocka_unit_test_setup_teardown(changes_are_counted, setup, tear_down), \
	cmocka_unit_test_setup_teardown(values_come_back_as_they_were, setup, tear_down), \
	cmocka_unit_test_setup_teardown(what_is_missing_or_wrong_is_our_bug, setup, tear_down), \
	cmocka_unit_test_setup_teardown(texts_sort_by_their_bytes, setup, tear_down), \
	cmocka_unit_test_setup_teardown(a_statement_nests_in_its_own_rows, setup, tear_down), \
	cmocka_unit_test_setup_teardown(an_open_statement_refuses_the_commit, setup, tear_down), \
	cmocka_unit_test_setup_teardown(a_read_is_of_one_moment, setup, tear_down), \
	cmocka_unit_test_setup_teardown(a_reader_writes_nothing, setup, tear_down), \
	cmocka_unit_test_setup_teardown(records_are_appended_alone, setup, tear_down), \
	cmocka_unit_test_setup_teardown(rows_say_that_they_were_changed, setup, tear_down), \
	cmocka_unit_test_setup_teardown(a_grant_names_the_same_tools, setup, tear_down), \
	cmocka_unit_test_setup_teardown(a_row_that_is_there_is_added_to, setup, tear_down), \
	cmocka_unit_test_setup_teardown(an_id_is_given_once, setup, tear_down), \
	cmocka_unit_test_setup_teardown(definitions_are_looked_into, setup, tear_down), \
	cmocka_unit_test_setup_teardown(a_deadline_ends_a_query, setup, tear_down)

SINGLE_THREAD_SUITE(engine_sqlite)
{
	const struct CMUnitTest tests[] = { BODY(set_up_lite) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

SINGLE_THREAD_SUITE(engine_pgsql)
{
	const struct CMUnitTest tests[] = {
		BODY(set_up_server), cmocka_unit_test(random_operations_come_out_the_same), cmocka_unit_test(views_say_the_same),
	};
	int rc = start_server();

	rc = rc == 1 ? cmocka_run_group_tests(tests, NULL, NULL) : rc;
	pgrig_stop(&rig);
	return rc;
}
