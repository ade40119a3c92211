#ifndef TESTS_ENGINES_H
#define TESTS_ENGINES_H

/* Stores of each engine for t_db_engines.c and t_db_server.c, and statements that are not of sql/. */

#include "db/db.h"
#include "db/server.h"
#include "src/db/db_int.h"

#include "pgrig.h"
#include "store.h"
#include "tmpdir.h"

/* A table of the test's own; meta and tile are of both schemas. */
enum which { LITE, SERVER, ENGINES };
static const struct engine {
	const char *name, *table, *slow, *tick;
} engines[ENGINES] = {
	[LITE] = { "sqlite", "CREATE TABLE t(k INTEGER PRIMARY KEY, i INTEGER, s TEXT CHECK(s <> 'no'), b BLOB, d REAL, "
		"u TEXT UNIQUE) STRICT",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n", "?" },
	[SERVER] = { "pgsql", "CREATE TABLE t(k int8 PRIMARY KEY, i int8, s text CHECK(s <> 'no'), b bytea, d float8, "
		"u text UNIQUE)",
		"SELECT count(*) FROM generate_series(1, 1000000000000)", "$" },
};

struct fix {
	const struct engine *e;
	struct db *db, *reader;
	struct db_stmt *owned[16];              /* statements that are not of sql/ */
	unsigned n;
	struct err err;
	char *dir;
};

static struct pgrig rig;
static unsigned databases;                      /* of the server, one for each test */

/* --- statements of the test's own */

/* text with ?1, ?2, …; types: a letter each, as in sql_text. */
static inline struct db_stmt *say(struct fix *f, struct db *db, const char *text, const char *types)
{
	struct db_stmt *st;
	char *mine = strdup(text);

	for (char *p = mine; (p = strchr(p, '?')); p++)
		*p = f->e->tick[0];
	st = db_stmt_new(db, "test", mine, (unsigned)strlen(types));
	st->types = types;
	st->lent = st->temp = true;             /* put frees it */
	db->lent++;
	f->owned[f->n++ % 16] = st;
	return st;
}

static inline void put(struct db_stmt **st)
{
	char *text;

	memcpy(&text, &(*st)->text, sizeof(text));
	db_stmt_put(st);
	free(text);
}

static inline int run(struct fix *f, struct db *db, const char *text)
{
	struct db_stmt *st = say(f, db, text, "");
	int rc = db_step(st, &f->err);

	put(&st);
	return rc;
}

static inline int64_t number(struct fix *f, struct db *db, const char *text)
{
	struct db_stmt *st = say(f, db, text, "");
	int64_t n;

	if (db_step(st, &f->err) != 1)
		fail_msg("%s: %s: %s", text, f->err.where, f->err.msg);
	n = db_col_i64(st, 0);
	put(&st);
	return n;
}

/* One row: k, and u unless it is NULL. */
static inline int add(struct fix *f, int64_t k, const char *u)
{
	struct db_stmt *st = say(f, f->db, "INSERT INTO t(k, u) VALUES (?1, ?2)", "it");
	int rc;

	db_bind_i64(st, 1, k);
	db_bind_textz(st, 2, u);
	rc = db_step(st, &f->err);
	put(&st);
	return rc;
}

/* --- set-up */

static inline void open_lite(struct fix *f)
{
	char path[600];

	f->dir = tmpdir_make();
	tmpdir_path(f->dir, "toolcrib.db", path, sizeof path);
	if (store_copy(path, &f->err) < 0 || db_open(path, DB_WRITER, false, &f->db, &f->err) < 0 || run(f, f->db, f->e->table) < 0 ||
	    db_open(path, DB_READER, false, &f->reader, &f->err) < 0)
		fail_msg("%s: %s", f->err.where, f->err.msg);
}

static inline struct db *server(struct fix *f, const char *user, enum db_mode mode)
{
	char url[512];
	struct db_server at = { .url = url, .owner = strcmp(user, "crib_owner") == 0 };
	struct db *db = NULL;

	snprintf(url, sizeof url, "postgresql:host=%s dbname=t%u user=%s", rig.host, databases, user);
	if (db_open_server(&at, mode, &db, &f->err) < 0)
		fail_msg("%s: %s", f->err.where, f->err.msg);
	return db;
}

/* They lie in memory, as a rule. */
static inline void drop_database(unsigned n)
{
	char sql[80];

	snprintf(sql, sizeof sql, "DROP DATABASE t%u WITH (FORCE)", n);
	if (!pgrig_sql(&rig, "postgres", sql))
		fail_msg("%s", rig.line);
}

static inline void open_server(struct fix *f)
{
	char sql[200];

	snprintf(sql, sizeof sql, "CREATE DATABASE t%u TEMPLATE model OWNER crib_owner STRATEGY file_copy", ++databases);
	if (!pgrig_sql(&rig, "postgres", sql))
		fail_msg("%s", rig.line);
	f->db = server(f, "toolcrib", DB_WRITER);
	f->reader = server(f, "toolcrib", DB_READER);
}

static inline int set_up(void **state, enum which which)
{
	struct fix *f = calloc(1, sizeof *f);

	f->e = &engines[which];
	if (which == LITE)
		open_lite(f);
	else
		open_server(f);
	*state = f;
	return 0;
}

static inline int set_up_lite(void **state) { return set_up(state, LITE); }
static inline int set_up_server(void **state) { return set_up(state, SERVER); }

static inline int tear_down(void **state)
{
	struct fix *f = *state;

	db_close(&f->reader);
	db_close(&f->db);
	if (f->dir)
		tmpdir_remove(f->dir);
	else
		drop_database(databases);
	free(f);
	return 0;
}

/* The server, with a model for its databases; 0: there is none, and why is said; -1: it is not as it must be. */
static inline int make_model(void);
static inline int start_server(void)
{
#ifndef HAVE_PGSQL
	printf("skipped: this build knows no PostgreSQL\n");
	return 0;
#endif
	if (!pgrig_start(&rig)) {
		const bool missing = strncmp(rig.line, "skip ", 5) == 0;

		printf("%s%s\n", missing ? "skipped: " : "", missing ? rig.line + 5 : rig.line);
		return missing ? 0 : -1;
	}
	return make_model() < 0 ? -1 : 1;
}

/* A database with a store and the table, which those of the tests are copies of. */
static inline int make_model(void)
{
	static const char *const roles[] = { "CREATE ROLE crib_owner LOGIN", "CREATE ROLE toolcrib LOGIN", "CREATE ROLE toolcrib_audit LOGIN",
		"CREATE ROLE toolcrib_views LOGIN",
		"CREATE DATABASE model OWNER crib_owner" };
	struct fix f = { .e = &engines[SERVER] };
	char url[512];
	struct db_server at = { .url = url, .owner = true };
	int rc;

	for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
		if (!pgrig_sql(&rig, "postgres", roles[i]))
			return -1;
	snprintf(url, sizeof url, "postgresql:host=%s dbname=model user=crib_owner", rig.host);
	rc = db_open_server(&at, DB_WRITER, &f.db, &f.err);
	if (rc == 0)
		rc = db_migrate(f.db, &f.err);
	if (rc == 0)
		rc = run(&f, f.db, f.e->table);
	if (rc == 0)
		rc = run(&f, f.db, "GRANT ALL ON t TO toolcrib, toolcrib_audit");
	db_close(&f.db);
	if (rc < 0)
		printf("model: %s: %s\n", f.err.where, f.err.msg);
	return rc;
}

#endif
