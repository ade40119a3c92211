/* sql: values both ways, caps, choices, and everything that must not get past (SEC S-B08). */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include <cmocka.h>

#include "backend_run.h"
#include "base/mem.h"
#include "base/path.h"
#include "suite.h"

#include "handler_table.h"

static char *db_file(const char *name)
{
	return path_join(run_dir(), name);
}

static void make_db(const char *name, const char *sql)
{
	char *path = db_file(name), *msg = NULL;
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, &msg) != SQLITE_OK)
		fail_msg("%s: %s", name, msg);
	sqlite3_close(db);
	free(path);
}

static int make_databases(void **state)
{
	(void)run_loop();
	make_db("users.db", "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, score REAL);"
		"INSERT INTO users VALUES (1, 'Ada', 9.5), (2, 'Bob', NULL), (3, 'Eve', 7.25)");
	make_db("orders.db",
		"CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT); INSERT INTO orders VALUES (7, 'lathe')");
	return 0;
}

/* A fixed query on users.db. */
static json_t *query(const char *sql)
{
	char *path = db_file("users.db"), *dsn = mem_printf("sqlite:%s", path);
	json_t *h = json_pack("{s:s, s:s, s:s}", "type", "sql", "database", dsn, "query", sql);

	free(dsn);
	free(path);
	return h;
}

/* Ad-hoc statements on a choice of databases. */
static json_t *adhoc(void)
{
	char *users = db_file("users.db"), *orders = db_file("orders.db");
	char *u = mem_printf("sqlite:%s", users), *o = mem_printf("sqlite:%s", orders);
	json_t *h = json_pack("{s:s, s:s, s:{s:s, s:s, s:s}, s:s}", "type", "sql", "database", "{/database}",
			      "databases", "users", u, "orders", o, "gone", "sqlite:/nonexistent/x.db",
			      "statement", "{/query}");

	free(u);
	free(o);
	free(users);
	free(orders);
	return h;
}

static void expect_rows(json_t *handler, const char *args, const char *want)
{
	struct run r;

	run_it(&r, handler, OPTS(.args = args));
	if (r.kind != END_RESULT)
		fail_msg("%s: %s", args, r.err.msg);
	assert_string_equal(run_text(&r), want);
	assert_true(json_is_object(r.res.structured));
	run_free(&r);
}

static void values_keep_their_types(void **state)
{
	expect_rows(
		query("SELECT id, name, score FROM users ORDER BY id"), NULL,
		"{\"columns\":[\"id\",\"name\",\"score\"],\"rows\":[[1,\"Ada\",9.5],[2,\"Bob\",null],[3,\"Eve\",7.25]],"
		"\"truncated\":false}");
	expect_rows(
		query("SELECT 9007199254740992, 9007199254740993, -9007199254740993, 1e300, 0.1, 2.0, -1e999"),
		NULL,
		"{\"columns\":[\"9007199254740992\",\"9007199254740993\",\"-9007199254740993\",\"1e300\",\"0.1\",\"2.0\","
		"\"-1e999\"],\"rows\":[[9007199254740992,\"9007199254740993\",\"-9007199254740993\",1e+300,0.1,2.0,"
		"\"-Infinity\"]],\"truncated\":false}");
	expect_rows(
		query("SELECT x'00ff10' AS b, 'a\"\n' AS t, CAST(x'ff' AS TEXT) AS bad, x'' AS e"), NULL,
		"{\"columns\":[\"b\",\"t\",\"bad\",\"e\"],\"rows\":[[\"AP8Q\",\"a\\\"\\n\",\"\xef\xbf\xbd\",\"\"]],"
		"\"truncated\":false}");
	expect_rows(query("SELECT id FROM users WHERE 0"), NULL,
		    "{\"columns\":[\"id\"],\"rows\":[],\"truncated\":false}");
}

static void parameters_are_bound_by_type(void **state)
{
	expect_rows(
		query("SELECT typeof(:i), typeof(:f), typeof(:s), typeof(:t), typeof(:n), typeof(:missing), typeof(:a), :t, :a"),
		"{\"i\":1,\"f\":1.5,\"s\":\"x\",\"t\":true,\"n\":null,\"a\":[1,\"b\"]}",
		"{\"columns\":[\"typeof(:i)\",\"typeof(:f)\",\"typeof(:s)\",\"typeof(:t)\",\"typeof(:n)\",\"typeof(:missing)\","
		"\"typeof(:a)\",\":t\",\":a\"],\"rows\":[[\"integer\",\"real\",\"text\",\"integer\",\"null\",\"null\",\"text\",1,"
		"\"[1,\\\"b\\\"]\"]],\"truncated\":false}");
	/* SEC S-B08: text stays text */
	expect_rows(query("SELECT count(*) AS n FROM users WHERE name = :name"),
		    "{\"name\":\"x' OR '1'='1\"}",
		    "{\"columns\":[\"n\"],\"rows\":[[0]],\"truncated\":false}");
	expect_rows(query("SELECT value FROM json_each(:ids)"), "{\"ids\":[3,4]}",
		    "{\"columns\":[\"value\"],\"rows\":[[3],[4]],\"truncated\":false}");
}

static void row_cap_truncates_and_says_so(void **state)
{
	json_t *three = query("SELECT id FROM users ORDER BY id"),
	       *two = query("SELECT id FROM users ORDER BY id");

	json_object_set_new(three, "rows", json_integer(3));
	json_object_set_new(two, "rows", json_integer(2));
	expect_rows(three, NULL, "{\"columns\":[\"id\"],\"rows\":[[1],[2],[3]],\"truncated\":false}");
	expect_rows(two, NULL, "{\"columns\":[\"id\"],\"rows\":[[1],[2]],\"truncated\":true}");
}

static void default_cap_is_a_thousand_rows(void **state)
{
	struct run r;

	run_it(&r,
	       query("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1001) SELECT i FROM n"),
	       NO_OPTS);
	assert_int_equal(json_array_size(json_object_get(r.res.structured, "rows")), 1000);
	assert_true(json_is_true(json_object_get(r.res.structured, "truncated")));
	run_free(&r);
}

static void one_large_blob_is_a_limit(void **state)
{
	struct run r;

	run_it(&r, query("SELECT zeroblob(2000000)"), NO_OPTS);
	assert_int_equal(r.err.code, ERR_LIMIT);
	run_free(&r);
}

static void argument_chooses_among_the_listed(void **state)
{
	struct run r;

	expect_rows(adhoc(), "{\"database\":\"orders\",\"query\":\"SELECT item FROM orders\"}",
		    "{\"columns\":[\"item\"],\"rows\":[[\"lathe\"]],\"truncated\":false}");
	expect_rows(adhoc(),
		    "{\"database\":\"users\",\"query\":\"SELECT name FROM users WHERE id = :id;\",\"id\":3}",
		    "{\"columns\":[\"name\"],\"rows\":[[\"Eve\"]],\"truncated\":false}");

	run_it(&r, adhoc(), OPTS(.args = "{\"database\":\"../secrets\",\"query\":\"SELECT 1\"}"));
	assert_int_equal(r.err.code, ERR_TOOL);
	assert_string_equal(r.err.msg, "no such database; there are: users, orders, gone");
	run_free(&r);
	run_it(&r, adhoc(), OPTS(.args = "{\"database\":\"gone\",\"query\":\"SELECT 1\"}"));
	assert_int_equal(r.err.code, ERR_TOOL);
	assert_string_equal(r.err.msg, "the tool's database cannot be opened");
	run_free(&r);
}

/* SEC S-B08: writes, ATTACH, PRAGMA, a second statement, and what reads files. */
static void statement_that_does_more_than_read_is_refused(void **state)
{
	static const char *const refused[] = {
		"INSERT INTO users VALUES (9, 'x', 1)",
		"UPDATE users SET name = 'x'",
		"DELETE FROM users",
		"DROP TABLE users",
		"CREATE TABLE x (a)",
		"CREATE TEMP TABLE x (a)",
		"ATTACH '/tmp/x' AS y",
		"DETACH main",
		"PRAGMA user_version",
		"PRAGMA query_only = off",
		"VACUUM",
		"VACUUM INTO '/tmp/x'",
		"BEGIN",
		"SAVEPOINT a",
		"ANALYZE",
		"REINDEX",
		"SELECT 1; SELECT 2",
		"SELECT 1; DELETE FROM users",
		"SELECT load_extension('x')",
		"EXPLAIN SELECT 1",
		"",
		";",
		"SELECT * FROM pragma_user_version",
		"WITH x AS (SELECT 1) DELETE FROM users",
		"INSERT INTO users VALUES (9, 'x', 1) RETURNING id",
		"SELECT ?1",
		"SELECT @a",
		"SELECT $a",
		"not sql",
		"SELECT * FROM nothere",
	};

	for (size_t i = 0; i < NELEMS(refused); i++) {
		struct run r;
		json_t *v = json_pack("{s:s, s:s}", "database", "users", "query", refused[i]);
		char *args = json_dumps(v, JSON_COMPACT);
		run_it(&r, adhoc(), OPTS(.args = args));
		if (r.kind != END_ERROR || r.err.code != ERR_TOOL)
			fail_msg("%s: %d %d %s", refused[i], (int)r.kind, (int)r.err.code, r.err.msg);
		free(args);
		json_decref(v);
		run_free(&r);
	}
	expect_rows(query("SELECT count(*) AS n FROM users"), NULL,
		    "{\"columns\":[\"n\"],\"rows\":[[3]],\"truncated\":false}");
}

/* House rule 19: a fixed query is the author's, the caller learns nothing of its text. */
static void fixed_query_that_fails_shows_no_sql(void **state)
{
	struct run r;

	run_it(&r, query("SELECT hidden FROM users"), NO_OPTS);
	assert_int_equal(r.err.code, ERR_TOOL);
	assert_string_equal(r.err.msg, "the tool's query failed");
	run_free(&r);
	run_it(&r, adhoc(), OPTS(.args = "{\"database\":\"users\",\"query\":\"SELECT hidden FROM users\"}"));
	assert_non_null(strstr(r.err.msg, "no such column: hidden"));
	run_free(&r);
}

static void more_queries_than_threads_all_end(void **state)
{
	enum { N = 258 + 20 };          /* two threads, the queue, and some that are refused */
	struct run *runs = mem_calloc(N, sizeof(*runs));
	unsigned rows = 0, busy = 0;

	for (int i = 0; i < N; i++)
		run_start(&runs[i], query("SELECT 1"), NO_OPTS);
	for (int i = 0; i < N; i++) {
		run_wait(&runs[i]);
		rows += runs[i].kind == END_RESULT;
		busy += runs[i].kind == END_ERROR && strstr(runs[i].err.msg, "too many queries");
		run_free(&runs[i]);
	}
	assert_int_equal(rows + busy, N);
	assert_true(rows >= 256);
	free(runs);
}

static void expect_bound(json_t *h, const char *where)
{
	struct arena *mem = arena_new(1 << 20);
	const struct backend_ops *ops;
	const void *plan;
	struct err err = { 0 };
	int rc = bind_handler(h, mem, &ops, &plan, &err);

	if (where) {
		assert_int_equal(rc, ERR_INVALID);
		assert_string_equal(err.where, where);
	} else if (rc < 0) {
		fail_msg("%s: %s", err.where, err.msg);
	}
	arena_free(&mem);
	json_decref(h);
}

/* N-14: what a fixed statement does is seen before it is stored, in any dress. */
static void n14_fixed_query_must_read(void **state)
{
	static const char *const reads[] = {
		"SELECT 1", "  select\n1", "VALUES (1)", "-- DELETE\nSELECT 1", "/* DELETE */ SELECT 1", "/**/SELECT'DELETE'",
		"WITH a AS (SELECT 1) SELECT * FROM a", "with recursive a(n) as (select 1 union select n+1 from a) select n from a",
		"WITH a AS (SELECT ')'), \"b\" AS NOT MATERIALIZED (SELECT (1)) /* ( */ SELECT 1", "WITH [a)] AS (VALUES (1)) VALUES (1)",
	};
	static const char *const writes[] = {
		"DELETE FROM t", "delete from t returning a", "-- SELECT\nDELETE FROM t", "/* SELECT */ INSERT INTO t SELECT 1", "REPLACE INTO t VALUES (1)",
		"UPDATE t SET a = (SELECT 1)", "DROP TABLE t", "PRAGMA user_version", "ATTACH '/x' AS y", "VACUUM", "EXPLAIN SELECT 1", "BEGIN", "", " ", ";",
		"-- SELECT 1", "/* SELECT 1", "WITH a AS (SELECT 1) DELETE FROM t", "WITH a(n) AS (SELECT ')'), b AS (SELECT 1) INSERT INTO t SELECT 1",
		"with a as (select 1)\nupdate t set a = 1", "WITH a AS (SELECT 1)", "'SELECT 1", "not sql",
	};

	for (size_t i = 0; i < NELEMS(reads); i++)
		expect_bound(query(reads[i]), NULL);
	for (size_t i = 0; i < NELEMS(writes); i++)
		expect_bound(query(writes[i]), "/query");
}

/* Who has written it, and tries it, is told what a caller is not. */
static void author_is_told_why(void **state)
{
	struct run r;

	run_it(&r, query("SELECT hidden FROM users"), OPTS(.author = true));
	assert_string_equal(r.err.msg, "the tool's query failed: no such column: hidden (at byte 7)");
	assert_string_equal(r.err.where, "/handler/query");
	run_free(&r);
}

static json_t *with(const char *name, json_t *value)
{
	json_t *h = query("SELECT 1");

	json_object_set_new(h, name, value);
	return h;
}

static json_t *names(size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_string("t"));
	return list;
}

static void f2_tables_and_memory_have_bounds(void **state)
{
	expect_bound(with("tables", names(1)), NULL);
	expect_bound(with("tables", names(64)), NULL);
	expect_bound(with("tables", names(65)), "/tables");
	expect_bound(with("tables", names(0)), "/tables");
	expect_bound(with("tables", json_string("t")), "/tables");
	expect_bound(with("tables", json_pack("[s, i]", "t", 1)), "/tables/1");
	expect_bound(with("tables", json_pack("[s]", "")), "/tables/0");
	expect_bound(with("tables", json_pack("[s%]", "a\0b", (size_t)3)), "/tables/0");
	expect_bound(with("memory", json_string("8MiB")), NULL);
	expect_bound(with("memory", json_string("256MiB")), NULL);
	expect_bound(with("memory", json_string("8388607")), "/memory");
	expect_bound(with("memory", json_string("268435457")), "/memory");
	expect_bound(with("memory", json_string("-1")), "/memory");
	expect_bound(with("memory", json_integer(64)), "/memory");
}

/* A result of many columns is bounded as a worker's memory is, not as the values of one row. */
static void f2_a_row_that_takes_too_much_is_a_limit(void **state)
{
	struct run r;

	run_it(&r, query("SELECT hex(zeroblob(7900000)), hex(zeroblob(7900000)), hex(zeroblob(7900000)), "
			 "hex(zeroblob(7900000)), hex(zeroblob(7900000)), hex(zeroblob(7900000)), hex(zeroblob(7900000))"),
	       OPTS(.result_max = 16u << 20));
	assert_int_equal(r.err.code, ERR_LIMIT);
	assert_string_equal(r.err.msg, "the query needs too much memory");
	run_free(&r);
}

static void f2_one_long_function_is_stopped(void **state)
{
	static const char sql[] = "SELECT instr(hex(zeroblob(4000000)), hex(zeroblob(2000000)) || 'x')";
	struct run r;

	run_it(&r, query(sql), OPTS(.timeout_us = 50000));
	assert_int_equal(r.err.code, ERR_TIMEOUT);
	run_free(&r);
	run_start(&r, query(sql), NO_OPTS);
	run_turns(20);
	backend_cancel(r.op, CANCEL_SHUTDOWN);
	run_wait(&r);
	assert_int_equal(r.err.code, ERR_CANCELLED);
	run_free(&r);
}

SINGLE_THREAD_SUITE(sql)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_keep_their_types),
		cmocka_unit_test(parameters_are_bound_by_type),
		cmocka_unit_test(row_cap_truncates_and_says_so),
		cmocka_unit_test(default_cap_is_a_thousand_rows),
		cmocka_unit_test(one_large_blob_is_a_limit),
		cmocka_unit_test(argument_chooses_among_the_listed),
		cmocka_unit_test(statement_that_does_more_than_read_is_refused),
		cmocka_unit_test(n14_fixed_query_must_read),
		cmocka_unit_test(author_is_told_why),
		cmocka_unit_test(fixed_query_that_fails_shows_no_sql),
		cmocka_unit_test(more_queries_than_threads_all_end),
		cmocka_unit_test(f2_tables_and_memory_have_bounds),
		cmocka_unit_test(f2_a_row_that_takes_too_much_is_a_limit),
		cmocka_unit_test(f2_one_long_function_is_stopped),
	};
	return cmocka_run_group_tests_name("sql", tests, make_databases, NULL);
}
