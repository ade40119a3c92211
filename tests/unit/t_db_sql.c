/* Every statement of sql/ prepares against a migrated store, and none walks through a table that grows
 * with use (AUDIT A-634). */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "db/db.h"
#include "src/db/db_int.h"

#include "tmpdir.h"
#include "suite.h"

enum { FIRST = SQL__STEPS + SQL__KEYS_STEPS + SQL__SEGMENT_STEPS };       /* what comes before makes files */

/* Tables that a room above computes (forms/forms.h): their columns, and what they are always asked by. */
static const char computed[] = "CREATE TEMP TABLE rollup(log, since, until, \"by\", of_tool, of_prn, of_cred, of_outcome, day, night, "
	"called, cred, prn, authn, obo, peer, client, tport, rev, kind, tool, tdef, rule, outcome, sbox, n, timed, dur, dur_max, "
	"n_req, n_res, idx_min, idx_max, ts_min, ts_max, PRIMARY KEY(log, since, until));"
	"CREATE TEMP TABLE rollup_hist(log, since, until, of_tool, every, slot, tool, kind, outcome, class, step, n, dur_max, "
	"PRIMARY KEY(log, since, until));"
	"CREATE TEMP TABLE parts(log, since, until, lo, hi, chapters, of_kind, first, below, n, PRIMARY KEY(log, since, until));"
	"CREATE TEMP TABLE meets(log, since, until, lo, hi, of_tool, of_prn, of_cred, of_outcome, of_kind, idx, PRIMARY KEY(log, since, until));";

static sqlite3 *raw, *raw_keys, *raw_segment;
static char *dir;

static int set_up(void **state)
{
	struct db *db = NULL;
	struct err err = { 0 };
	char path[600];

	dir = tmpdir_make();
	tmpdir_path(dir, "toolcrib.db", path, sizeof path);
	if (db_open(path, DB_WRITER, true, &db, &err) < 0 || db_migrate(db, &err) < 0)
		fail_msg("%s: %s", err.where, err.msg);
	db_close(&db);
	assert_int_equal(sqlite3_open_v2(path, &raw, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	tmpdir_path(dir, "keys.db", path, sizeof path);
	if (db_open(path, DB_WRITER, true, &db, &err) < 0 || db_migrate_keys(db, &err) < 0)
		fail_msg("%s: %s", err.where, err.msg);
	db_close(&db);
	if (db_row_define(raw) != SQLITE_OK || sqlite3_exec(raw, computed, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s", sqlite3_errmsg(raw));
	assert_int_equal(sqlite3_open_v2(path, &raw_keys, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	tmpdir_path(dir, "1.tcs", path, sizeof path);
	if (db_segment_make(path, &db, &err) < 0)
		fail_msg("%s: %s", err.where, err.msg);
	db_close(&db);
	return sqlite3_open_v2(path, &raw_segment, SQLITE_OPEN_READWRITE, NULL);
}

static int tear_down(void **state)
{
	sqlite3_close(raw);
	sqlite3_close(raw_keys);
	sqlite3_close(raw_segment);
	tmpdir_remove(dir);
	return 0;
}

/* The file that a statement is for. */
static sqlite3 *file_of(int id)
{
	const char *name = sql_sqlite[id].name;

	return strncmp(name, "keys_", 5) == 0 ? raw_keys : strncmp(name, "segment_", 8) == 0 ? raw_segment : raw;
}

static void every_statement_prepares(void **state)
{
	for (int id = FIRST; id < SQL__COUNT; id++) {
		sqlite3_stmt *st = NULL;
		const char *tail = "";

		if (!sql_sqlite[id].text)       /* of the other engine alone */
			continue;
		if (sqlite3_prepare_v2(file_of(id), sql_sqlite[id].text, -1, &st, &tail) != SQLITE_OK)
			fail_msg("%s: %s", sql_sqlite[id].name, sqlite3_errmsg(file_of(id)));
		if (*tail)
			fail_msg("%s: more than one statement", sql_sqlite[id].name);
		sqlite3_finalize(st);
	}
}

static void no_report_walks_through_the_records(void **state)
{
	static const char *const bad[] = { "SCAN rec", "SCAN r", "SCAN dict", "SCAN d" };
	char sql[4096];

	for (int id = FIRST; id < SQL__COUNT; id++) {
		sqlite3_stmt *st = NULL;

		/* Verification reads all there is, and so do offline a clean-up and a move. */
		if (!sql_sqlite[id].text || id == SQL_VERIFY_LIST_TWINS || id == SQL_VERIFY_LIST_TEXTS ||
		    strncmp(sql_sqlite[id].name, "verify_scan_", 12) == 0 || strncmp(sql_sqlite[id].name, "compact_", 8) == 0 ||
		    strncmp(sql_sqlite[id].name, "move_", 5) == 0)
			continue;
		snprintf(sql, sizeof sql, "EXPLAIN QUERY PLAN %s", sql_sqlite[id].text);
		if (sqlite3_prepare_v2(file_of(id), sql, -1, &st, NULL) != SQLITE_OK)
			fail_msg("%s: %s", sql_sqlite[id].name, sqlite3_errmsg(file_of(id)));
		while (sqlite3_step(st) == SQLITE_ROW) {
			const char *step = (const char *)sqlite3_column_text(st, 3);

			for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
				size_t n = strlen(bad[i]);

				if (strncmp(step, bad[i], n) == 0 && (step[n] == '\0' || step[n] == ' '))
					fail_msg("%s: %s", sql_sqlite[id].name, step);
			}
			if (strncmp(sql_sqlite[id].name, "audit_", 6) == 0 && strstr(step, "TEMP B-TREE FOR"))
				fail_msg("%s sorts: %s", sql_sqlite[id].name, step);
		}
		sqlite3_finalize(st);
	}
}

/* Each scan reads its index in order and as a whole: it does not sort, look into the table, or leave an entry out. */
static void scans_of_a_verification_read_one_index_each(void **state)
{
	char sql[4096];
	unsigned n = 0;

	for (int id = FIRST; id < SQL__COUNT; id++) {
		sqlite3_stmt *st = NULL;

		if (strncmp(sql_sqlite[id].name, "verify_scan_", 12) != 0)
			continue;
		n++;
		snprintf(sql, sizeof sql, "EXPLAIN %s", sql_sqlite[id].text);
		assert_int_equal(sqlite3_prepare_v2(raw, sql, -1, &st, NULL), SQLITE_OK);
		while (sqlite3_step(st) == SQLITE_ROW) {
			const char *op = (const char *)sqlite3_column_text(st, 1);
			bool of_table = strcmp(op, "Column") == 0 && sqlite3_column_int(st, 2) == 0;

			if (strncmp(op, "Sorter", 6) == 0 || strcmp(op, "Eq") == 0 || strcmp(op, "Ne") == 0 || strcmp(op, "IsNull") == 0 ||
			    (of_table && id != SQL_VERIFY_SCAN_REC))
				fail_msg("%s: %s", sql_sqlite[id].name, op);
		}
		sqlite3_finalize(st);
	}
	assert_int_equal(n, 1 + 9);
}

static bool plan_names(enum sql_id id, const char *what)
{
	sqlite3_stmt *st = NULL;
	bool found = false;
	char sql[4096];

	snprintf(sql, sizeof sql, "EXPLAIN QUERY PLAN %s", sql_sqlite[id].text);
	assert_int_equal(sqlite3_prepare_v2(raw, sql, -1, &st, NULL), SQLITE_OK);
	while (sqlite3_step(st) == SQLITE_ROW)
		found |= strstr((const char *)sqlite3_column_text(st, 3), what) != NULL;
	sqlite3_finalize(st);
	return found;
}

static void reports_use_the_index_made_for_them(void **state)
{
	static const struct { enum sql_id id; const char *index; } rows[] = {
		{ SQL_AUDIT_LIST_REC, "rec_ts (log=? AND ts>? AND ts<?)" },
		{ SQL_AUDIT_LIST_BEGIN, "rec_pos (log=?)" },
		{ SQL_AUDIT_LIST_CALL, "rec_call (call=?)" },
		{ SQL_AUDIT_LIST_CALL, "rec_pos (log=? AND idx=?)" },
		{ SQL_AUDIT_LIST_RUNNING, "PRIMARY KEY (rowid>?)" },
		{ SQL_AUDIT_LIST_TAIL, "PRIMARY KEY (rowid>?)" },
		{ SQL_AUDIT_LAST_KIND, "rec_pos (log=?)" },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (!plan_names(rows[i].id, rows[i].index))
			fail_msg("%s does not use %s", sql_sqlite[rows[i].id].name, rows[i].index);
}

enum bound { AS_TEXT, AS_NULL, AS_INT, AS_BLOB, AS_REAL, AS_ROW };

static int ask_meta(struct db *db, enum bound how, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_META_GET_VALUE);       /* takes: text */
	int rc;

	switch (how) {
	case AS_TEXT:
		db_bind_textz(st, 1, "no such key");
		break;
	case AS_NULL:
		db_bind_null(st, 1);
		break;
	case AS_INT:
		db_bind_i64(st, 1, 7);
		break;
	case AS_BLOB:
		db_bind_blob(st, 1, "no such key", 11);
		break;
	case AS_REAL:
		db_bind_f64(st, 1, 7.5);
		break;
	case AS_ROW:
		db_bind_row(st, 1);
		break;
	}
	rc = db_step(st, err);
	db_stmt_put(&st);
	return rc;
}

/* The value of the run before does not stay. */
static void a_parameter_is_null_again(void **state)
{
	static const char *const asked[] = { "key", NULL, NULL, "key", "no such key", NULL };
	struct err err = { 0 };
	struct db *db = NULL;
	struct db_stmt *set;
	char path[600];

	assert_int_equal(db_open(tmpdir_path(dir, "toolcrib.db", path, sizeof path), DB_WRITER, false, &db, &err), 0);
	set = db_stmt_get(db, SQL_META_SET_VALUE);
	db_bind_textz(set, 1, "key");
	db_bind_textz(set, 2, "value");
	assert_int_equal(db_run(&set, &err), 0);
	for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
		struct db_stmt *st = db_stmt_get(db, SQL_META_GET_VALUE);

		db_bind_textz(st, 1, asked[i]);
		assert_int_equal(db_step(st, &err), i % 3 == 0);
		db_stmt_put(&st);
	}
	db_close(&db);
}

static void a_statement_refuses_what_it_does_not_take(void **state)
{
	const bool was = db_check_types(true);
	struct err err = { 0 };
	struct db *db = NULL;
	struct db_stmt *st;
	char path[600];

	assert_int_equal(db_open(tmpdir_path(dir, "toolcrib.db", path, sizeof path), DB_READER, false, &db, &err), 0);
	assert_int_equal(ask_meta(db, AS_TEXT, &err), 0);
	assert_int_equal(ask_meta(db, AS_NULL, &err), 0);
	for (enum bound how = AS_INT; how <= AS_ROW; how++) {
		assert_int_equal(ask_meta(db, how, &err), ERR_INTERNAL);
		assert_string_equal(err.where, "meta_get_value");
	}
	assert_string_equal(err.msg, "?1 takes no row");
	assert_int_equal(ask_meta(db, AS_INT, &err), ERR_INTERNAL);
	assert_string_equal(err.msg, "?1 is bound as type i and takes t");
	st = db_stmt_get(db, SQL_REPORT_RECORDS);
	for (unsigned i = 1; i <= 6; i++)
		db_bind_i64(st, i, 0);
	assert_int_equal(db_step(st, &err), ERR_INTERNAL);
	assert_string_equal(err.msg, "?6 takes its row");
	db_stmt_put(&st);
	assert_true(db_check_types(false));
	assert_int_equal(ask_meta(db, AS_INT, &err), 0);        /* where nothing is tried it is SQLite's to say */
	(void)db_check_types(was);
	db_close(&db);
}

SINGLE_THREAD_SUITE(sql)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_statement_prepares), cmocka_unit_test(no_report_walks_through_the_records),
		cmocka_unit_test(scans_of_a_verification_read_one_index_each),
		cmocka_unit_test(reports_use_the_index_made_for_them),
		cmocka_unit_test(a_parameter_is_null_again), cmocka_unit_test(a_statement_refuses_what_it_does_not_take),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
