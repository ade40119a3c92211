/* Tables that functions give: what a statement asks comes to them, what they say comes out, and what they fail with is what
 * the statement fails with. */

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

#include "base/mem.h"
#include "base/text.h"
#include "db/vtab.h"
#include "src/db/db_int.h"

#include "store.h"
#include "suite.h"
#include "tmpdir.h"

enum { N = 100, COL_I = 0, COL_SQUARE, COL_TEXT };

/* The numbers from 0 to N, their squares, and a text. */
struct numbers { struct str asked; int64_t fails_at; unsigned open, freed; struct db *db; };
struct at { struct numbers *of; int64_t i; bool down; char text[24]; };

struct fix { char *dir, path[600]; struct db *db; struct numbers *n; struct err err; };

#define OK(expr) do { if ((expr) != 0) fail_msg("%s: %s: %s", #expr, f->err.where, f->err.msg); } while (0)

static unsigned freed;

static void plan(void *arg, struct db_vtab_plan *p)
{
	for (unsigned i = 0; i < p->terms; i++)
		p->term[i].use = p->term[i].col == COL_I;
	p->ordered = p->orders == 1 && p->order[0].col == COL_I;
	p->backwards = p->ordered && p->order[0].desc;
	p->rows = N;
	p->cost = N;
	(void)arg;
}

static void *open_it(void *arg)
{
	struct at *at = mem_zalloc(sizeof(*at));

	at->of = arg;
	at->of->open++;
	return at;
}

static int look(struct at *at, struct err *err)
{
	if (at->i == at->of->fails_at)
		return err_set(err, ERR_CORRUPT, "number/7", "the number %d is no number", (int)at->i);
	return at->i >= 0 && at->i < N;
}

static int filter(void *cursor, const struct db_vtab_ask *ask, struct err *err)
{
	struct at *at = cursor;

	str_puts(&at->of->asked, "[");
	for (unsigned i = 0; i < ask->terms; i++) {
		str_printf(&at->of->asked, " %u%c", ask->term[i].col, "=!<[>]"[ask->term[i].op]);
		for (unsigned k = 0; k < ask->term[i].n; k++)
			str_printf(&at->of->asked, "%s%d", k ? "," : "", (int)ask->term[i].value[k].n);
	}
	str_printf(&at->of->asked, "%s ]", ask->backwards ? " v" : "");
	at->down = ask->backwards;
	at->i = at->down ? N - 1 : 0;
	return look(at, err);
}

static int next(void *cursor, struct err *err)
{
	struct at *at = cursor;

	at->i += at->down ? -1 : 1;
	return look(at, err);
}

static int column(void *cursor, unsigned col, struct db_value *ret, struct err *err)
{
	struct at *at = cursor;
	struct db_stmt *st;

	if (col == COL_TEXT && at->i == 50) {           /* a statement of the same connection, which fails by itself */
		st = db_stmt_get(at->of->db, SQL_META_GET_VALUE);
		assert_int_equal(db_step(st, err), ERR_INTERNAL);
		db_stmt_put(&st);
		return ERR_INTERNAL;
	}
	if (col == COL_TEXT)
		*ret = (struct db_value){ .type = DB_TEXT, .p = at->text,
			.len = (size_t)snprintf(at->text, sizeof(at->text), "n%d", (int)at->i) };
	else
		*ret = (struct db_value){ .type = DB_INT, .n = col == COL_I ? at->i : at->i * at->i };
	return 0;
}

static int64_t id(const void *cursor)
{
	return ((const struct at *)cursor)->i;
}

static void close_it(void *cursor)
{
	((struct at *)cursor)->of->open--;
	free(cursor);
}

static void free_it(void *arg)
{
	struct numbers *n = arg;

	assert_int_equal(n->open, 0);
	str_fini(&n->asked);
	free(n);
	freed++;
}

static const struct db_vtab numbers = {
	.name = "hold", .columns = "i INTEGER, square INTEGER, text TEXT", .plan = plan, .open = open_it, .filter = filter,
	.next = next, .column = column, .id = id, .close = close_it, .free = free_it,
};

static int set_up(void **state)
{
	struct fix *f = mem_zalloc(sizeof(*f));

	f->dir = tmpdir_make();
	OK(store_copy(tmpdir_path(f->dir, DB_FILE, f->path, sizeof(f->path)), &f->err));
	OK(db_open(f->path, DB_WRITER, false, &f->db, &f->err));        /* so that there is a log */
	db_close(&f->db);
	OK(db_open(f->path, DB_READER, false, &f->db, &f->err));
	f->n = mem_zalloc(sizeof(*f->n));
	f->n->fails_at = -7;
	f->n->db = f->db;
	assert_false(db_vtab_has(f->db, "hold"));
	OK(db_vtab_make(f->db, &numbers, f->n, &f->err));
	assert_true(db_vtab_has(f->db, "hold"));
	assert_false(db_vtab_has(f->db, "old"));
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fix *f = *state;

	freed = 0;
	db_close(&f->db);
	assert_int_equal(freed, 1);
	tmpdir_remove(f->dir);
	free(f);
	return 0;
}

/* The rows, each a number, or ERR_… of the house. */
static int ask(struct fix *f, const char *sql, char *ret, size_t size)
{
	sqlite3_stmt *st = NULL;
	size_t len = 0;
	int rc;

	str_reset(&f->n->asked);
	ret[0] = '\0';
	rc = sqlite3_prepare_v2(f->db->native, sql, -1, &st, NULL);
	while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW && len < size) {
		len += (size_t)snprintf(ret + len, size - len, "%s ", (const char *)sqlite3_column_text(st, 0));
		rc = SQLITE_OK;
	}
	rc = rc == SQLITE_DONE ? 0 : db_fail(f->db, rc, "test", &f->err);
	sqlite3_finalize(st);
	return rc;
}

static void gives(struct fix *f, const char *sql, const char *rows, const char *asked)
{
	char said[400];

	OK(ask(f, sql, said, sizeof(said)));
	assert_string_equal(said, rows);
	if (asked)
		assert_string_equal(str_text(&f->n->asked), asked);
}

static void terms_and_order_come_to_the_table(void **state)
{
	struct fix *f = *state;

	gives(f, "SELECT i FROM hold WHERE i < 3", "0 1 2 ", "[ 0<3 ]");
	gives(f, "SELECT i FROM hold WHERE i >= 98 ORDER BY i DESC", "99 98 ", "[ 0]98 v ]");
	gives(f, "SELECT i FROM hold WHERE i <> 0 AND i <= 2 AND square > 1", "2 ", NULL);
	gives(f, "SELECT square FROM hold ORDER BY i DESC LIMIT 2", "9801 9604 ", "[ v ]");
	gives(f, "SELECT i FROM hold WHERE square = 49 ORDER BY text", "7 ", "[ ]");
	gives(f, "SELECT i FROM hold WHERE rowid = 7", "7 ", "[ ]");
#if SQLITE_VERSION_NUMBER >= 3038000
	gives(f, "SELECT i FROM hold WHERE i IN (5, 3) ORDER BY i", "3 5 ", "[ 0=3,5 ]");
#endif
	gives(f, "SELECT i FROM hold WHERE i IN (WITH RECURSIVE n(x) AS (SELECT 0 UNION ALL SELECT x + 2 FROM n WHERE x < 400) "
	      "SELECT x FROM n) AND i > 95", "96 98 ", NULL);   /* more than come at once */
	gives(f, "SELECT a.i FROM hold a JOIN hold b ON b.i = a.square WHERE a.i > 7", "8 9 ", NULL);
}

static void it_hides_what_the_file_has(void **state)
{
	struct fix *f = *state;

	gives(f, "SELECT count(*) FROM hold", "100 ", NULL);
	gives(f, "SELECT count(*) FROM main.hold", "0 ", "");
	gives(f, "PRAGMA query_only", "1 ", NULL);
	assert_int_not_equal(ask(f, "INSERT INTO hold(i) VALUES(1)", (char[400]){ 0 }, 400), 0);
}

static void failure_is_the_statement_s(void **state)
{
	struct fix *f = *state;
	char said[400];

	f->n->fails_at = 7;
	assert_int_equal(ask(f, "SELECT i FROM hold", said, sizeof(said)), ERR_CORRUPT);
	assert_string_equal(said, "0 1 2 3 4 5 6 ");
	assert_string_equal(f->err.where, "number/7");
	assert_string_equal(f->err.msg, "the number 7 is no number");
	f->n->fails_at = 0;             /* before the first row */
	assert_int_equal(ask(f, "SELECT i FROM hold", said, sizeof(said)), ERR_CORRUPT);
	f->n->fails_at = -7;
	assert_int_equal(ask(f, "SELECT text FROM hold WHERE square > 2304", said, sizeof(said)), ERR_INTERNAL);
	assert_string_equal(said, "n49 ");
	assert_non_null(strstr(f->err.msg, "is not bound"));
	assert_int_equal(ask(f, "SELECT nobody FROM hold", said, sizeof(said)), ERR_INTERNAL);
	assert_non_null(strstr(f->err.msg, "no such column"));
	gives(f, "SELECT i FROM hold WHERE i = 7", "7 ", "[ 0=7 ]");
}

#define TEMP_VIEWS "SELECT group_concat(name, ' ') FROM (SELECT name FROM temp.sqlite_schema WHERE type = 'view' ORDER BY name)"

static void compile(struct fix *f, enum sql_id id)
{
	struct db_stmt *st = db_stmt_get(f->db, id);

	(void)db_col_count(st);         /* some name other tables that are not there */
	db_stmt_put(&st);
}

static void views_are_copied_for_who_names_them(void **state)
{
	struct fix *f = *state;

	compile(f, SQL_REPORT_CONTINUITY);               /* of the file still */
	OK(db_vtab_views(f->db, &f->err));
	gives(f, TEMP_VIEWS, "(null) ", NULL);
	compile(f, SQL_META_LIST_VIEWS);
	gives(f, TEMP_VIEWS, "(null) ", NULL);
	compile(f, SQL_REPORT_DRIFT);                   /* and those that these name */
	gives(f, TEMP_VIEWS, "v_calls v_records ", NULL);
	compile(f, SQL_REPORT_CONTINUITY);
	gives(f, TEMP_VIEWS, "v_calls v_lifecycle v_records ", NULL);
	assert_int_equal(db_vtab_views(f->db, &f->err), ERR_INTERNAL);
	gives(f, "PRAGMA query_only", "1 ", NULL);
}

static void what_a_rollback_takes_is_copied_again(void **state)
{
	struct fix *f = *state;
	struct db_stmt *st = NULL;

	OK(db_vtab_views(f->db, &f->err));
	OK(db_txn_begin(f->db, false, &f->err));
	compile(f, SQL_REPORT_CONTINUITY);
	gives(f, TEMP_VIEWS, "v_lifecycle v_records ", NULL);
	assert_int_equal(db_txn_end(f->db, ERR_CANCELLED, NULL), ERR_CANCELLED);
	gives(f, TEMP_VIEWS, "(null) ", NULL);
	compile(f, SQL_REPORT_CONTINUITY);
	gives(f, TEMP_VIEWS, "v_lifecycle v_records ", NULL);
	OK(db_txn_begin(f->db, false, &f->err));
	compile(f, SQL_REPORT_DRIFT);
	assert_int_equal(db_txn_end(f->db, ERR_CANCELLED, NULL), ERR_CANCELLED);
	st = db_stmt_get(f->db, SQL_REPORT_DRIFT);      /* by its first step as well; what is there stays */
	for (unsigned i = 1; i <= 9; i++)
		db_bind_null(st, i);
	assert_int_equal(db_step(st, NULL), ERR_INTERNAL);      /* no table of sums here */
	db_stmt_put(&st);
	gives(f, TEMP_VIEWS, "v_calls v_lifecycle v_records ", NULL);
}

static void all_views_are_copied_for_a_guest(void **state)
{
	struct fix *f = *state;
	char said[400];

	OK(db_pragma(f->db, "PRAGMA query_only=off", &f->err));
	f->db->guest = true;
	OK(db_vtab_views(f->db, &f->err));
	gives(f, "SELECT count(*) > 10 AND count(*) = (SELECT count(*) FROM main.sqlite_schema WHERE type = 'view' "
	      "AND name NOT IN ('rec_at', 'rec_tail')) FROM temp.sqlite_schema WHERE type = 'view'", "1 ", NULL);      /* which find rows alone */
	OK(ask(f, "SELECT count(*) FROM v_calls", said, sizeof(said)));
	f->db->guest = false;
}

static bool may(const void *arg, const char *table, const char *column)
{
	(void)arg;
	(void)column;
	return strcmp(table, "hold") == 0;
}

static void guard_of_a_reporter_stays(void **state)
{
	struct fix *f = *state;
	struct numbers *n = mem_zalloc(sizeof(*n)), *before = f->n;
	struct db *reader = f->db, *reporter = NULL;
	char said[400];

	n->fails_at = -7;
	OK(db_open_reporter(db_of_file(f->path), f->dir, may, NULL, &reporter, &f->err));
	n->db = reporter;
	OK(db_vtab_make(reporter, &numbers, n, &f->err));
	f->n = n;
	f->db = reporter;
	gives(f, "SELECT count(*) FROM hold", "100 ", NULL);
	assert_int_equal(ask(f, "SELECT count(name) FROM tenant", said, sizeof(said)), ERR_DENIED);
	assert_int_equal(ask(f, "CREATE TEMP TABLE x(y)", said, sizeof(said)), ERR_DENIED);
	db_close(&reporter);
	f->db = reader;
	f->n = before;
}

SINGLE_THREAD_SUITE(vtab)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(terms_and_order_come_to_the_table, set_up, tear_down),
		cmocka_unit_test_setup_teardown(it_hides_what_the_file_has, set_up, tear_down),
		cmocka_unit_test_setup_teardown(failure_is_the_statement_s, set_up, tear_down),
		cmocka_unit_test_setup_teardown(views_are_copied_for_who_names_them, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_a_rollback_takes_is_copied_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(all_views_are_copied_for_a_guest, set_up, tear_down),
		cmocka_unit_test_setup_teardown(guard_of_a_reporter_stays, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
