/* PostgreSQL as an engine: transactions, and the row of functions that db.c knows it by. */
#include "config.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "db/db.h"
#include "db/server.h"

#include "db_int.h"

#ifdef HAVE_PGSQL

#include "pg_int.h"

static bool in_state(const struct db *db, PGTransactionStatusType a, PGTransactionStatusType b)
{
	PGTransactionStatusType now = db->pg->c ? pg.PQtransactionStatus(db->pg->c) : PQTRANS_UNKNOWN;

	return now == a || now == b;
}

/* An item that failed can still be undone. */
static bool engine_alive(const struct db *db)
{
	return in_state(db, PQTRANS_INTRANS, PQTRANS_ACTIVE) ||
		(db->pg->items > 0 && in_state(db, PQTRANS_INERROR, PQTRANS_INERROR));
}

/* AUDIT A-101: what was sent and not answered may be there or not, and so is what no standby has said that it has. */
static int commit(struct db *db, struct err *err)
{
	PGresult *r = NULL;
	int rc;

	db->pg->warned = false;
	rc = pg_exec(db, "COMMIT", &r, err);
	if (rc == ERR_UNREACHABLE || rc == ERR_TIMEOUT || (rc == 0 && db->pg->warned)) {
		rc = err_set(err, ERR_UNCERTAIN, "database", db->pg->warned
			     ? "committed here, and perhaps on no standby"
			     : "the connection was lost while it committed");
	} else if (rc == 0 && strcmp(pg.PQcmdStatus(r), "COMMIT") != 0) {
		rc = err_set(err, db->txn_rc ? (enum err_code)db->txn_rc : ERR_INTERNAL, "database",
			     "the transaction was given up before its end");
	}
	pg.PQclear(r);
	return rc;
}

static int end_item(struct db *db, enum db_ctl what, struct err *err)
{
	const bool failed = in_state(db, PQTRANS_INERROR, PQTRANS_INERROR);
	int rc = 0;

	if (what == CTL_ITEM_UNDO || failed)
		rc = pg_exec(db, "ROLLBACK TO item", NULL, err);
	if (rc < 0 || what == CTL_ITEM_UNDO) {
		if (rc == 0)
			db->txn_rc = 0;
		return rc;
	}
	rc = pg_exec(db, "RELEASE item", NULL, err);
	if (rc == 0)
		db->pg->items--;
	return rc == 0 && failed ? err_set(err, db->txn_rc ? (enum err_code)db->txn_rc : ERR_INTERNAL, "database",
					   "a statement of the item had failed") : rc;
}

static int engine_control(struct db *db, enum db_ctl what, struct err *err)
{
	int rc = what == CTL_BEGIN || what == CTL_BEGIN_WRITE ? pg_alive(db, err) : 0;

	if (rc == 0 && what == CTL_ROLLBACK && (!db->pg->c || in_state(db, PQTRANS_IDLE, PQTRANS_IDLE)))
		return 0;                       /* it is undone already */
	if (rc == 0)
		rc = db->pg->c ? pg_settle(db, err) : pg_unsent(db, "transaction", err);
	if (rc < 0 && what == CTL_ROLLBACK) {   /* the server undoes what was of this connection */
		pg_lost(db);
		return 0;
	}
	if (rc < 0)
		return rc;
	switch (what) {
	case CTL_BEGIN:
		db->pg->items = 0;
		return pg_exec(db, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", NULL, err);
	case CTL_BEGIN_WRITE:
		db->pg->items = 0;
		return pg_exec(db, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", NULL, err);
	case CTL_COMMIT:
		return commit(db, err);
	case CTL_ROLLBACK:
		return pg_exec(db, "ROLLBACK", NULL, err);
	case CTL_ITEM:
		rc = pg_exec(db, "SAVEPOINT item", NULL, err);
		db->pg->items += rc == 0;
		return rc;
	case CTL_ITEM_KEEP:
	case CTL_ITEM_UNDO:
		return end_item(db, what, err);
	case CTL_DATA_VERSION:
	case CTL__COUNT:
		break;
	}
	return err_set(err, ERR_INTERNAL, "database", "no such control");
}

/* --- schemas: steps of sql/pgsql, made by the owner of the tables, each in a transaction */

/* Numbers are those that SQLite's steps count: the first step here is as much as all of them up to `base`.  Key: where
 * meta has the number, so that neither database passes for the other. */
static const struct schema { const char *key, *what; const char *const *steps; int base; } store_schema = {
	"schema", "store", sql_pgsql_steps, 41 }, keys_schema = { "keys_schema", "keys", sql_pgsql_keys_steps, 2 };

static int known(const struct schema *s)
{
	int n = 0;

	while (s->steps[n])
		n++;
	return s->base + n - 1;
}

/* One number. */
static int ask(struct db *db, const char *sql, int *ret, struct err *err)
{
	PGresult *r = NULL;
	int rc = pg_exec(db, sql, &r, err);

	if (rc == 0)
		*ret = pg.PQntuples(r) == 1 ? (int)strtol(pg.PQgetvalue(r, 0, 0), NULL, 10) : 0;
	pg.PQclear(r);
	return rc;
}

/* 0: there is none. */
static int find_version(struct db *db, const struct schema *s, int *ret, struct err *err)
{
	char sql[96];
	int there = 0, rc = ask(db, "SELECT (to_regclass('toolcrib.meta') IS NOT NULL)::int", &there, err);

	*ret = 0;
	(void)snprintf(sql, sizeof(sql), "SELECT value FROM toolcrib.meta WHERE key = '%s'", s->key);
	if (rc == 0 && there)
		rc = ask(db, sql, ret, err);
	if (rc == 0 && *ret > known(s))
		rc = err_set(err, ERR_CONFLICT, "database", "made by a newer toolcrib: schema %d, this one knows %d",
			     *ret, known(s));
	return rc;
}

/* CLUSTER K-704: kind and name of a line of the catalogue end in a colon. */
static int not_as_made(const char *want, const char *found, struct err *err)
{
	const char *line = want ? want : found;
	const int name = (int)strcspn(line, ":");
	const int order = want && found ? strncmp(want, found, (size_t)name + 1) : want ? -1 : 1;
	int rc;

	if (order == 0)
		rc = err_set(err, ERR_CORRUPT, "database", "%.*s is%.100s, and was made as%.100s", name, want, found + name + 1,
			     want + name + 1);
	else if (!found || (want && strcmp(want, found) < 0))
		rc = err_set(err, ERR_CORRUPT, "database", "%.*s is missing, which was made as%.100s", name, want, want + name + 1);
	else
		rc = err_set(err, ERR_CORRUPT, "database", "%.*s is nobody's:%.100s", (int)strcspn(found, ":"), found,
			     found + strcspn(found, ":") + 1);
	err_hint(err, "its owner undoes what was done by hand, and `toolcrib audit verify` says whether records were touched");
	return rc;
}

/* How another release of the server writes a view is its own matter. */
static bool same_line(const struct db *db, const char *want, const char *found)
{
	enum { KNOWN = 15 };

	if (strcmp(want, found) == 0)
		return true;
	return strncmp(want, "view ", 5) == 0 && pg.PQserverVersion(db->pg->c) / 10000 != KNOWN &&
		strncmp(want, found, strcspn(want, ":") + 1) == 0;
}

static int check_catalogue(struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_META_LIST_CATALOGUE);
	const char *const *want = pg_catalogue;
	int rc, bad = 0;

	while (bad == 0 && (rc = db_step(st, err)) == 1) {
		const char *found = db_col_text(st, 0, NULL);

		if (!*want || !same_line(db, *want, found))
			bad = not_as_made(*want, found, err);
		want += bad == 0;
	}
	if (bad == 0 && rc == 0 && *want)
		bad = not_as_made(*want, NULL, err);
	db_stmt_put(&st);
	return bad < 0 ? bad : rc;
}

static int engine_version(struct db *db, int *ret, struct err *err)
{
	int rc = find_version(db, &store_schema, ret, err), moving = 0;

	if (rc == 0 && *ret == 0)
		return err_set(err, ERR_INVALID, "database", "there is no store in it");
	if (rc == 0)
		rc = ask(db, "SELECT count(*) FROM toolcrib.meta WHERE key = 'moving'", &moving, err);
	if (rc == 0 && moving) {
		rc = err_set(err, ERR_CONFLICT, "database", "its store is not whole: it is being moved, was cut off, or "
			     "has moved away");
		err_hint(err, "see toolcrib store move");
	}
	return rc == 0 && *ret == known(&store_schema) ? check_catalogue(db, err) : rc;
}

/* Rights are given to roles that are the whole server's, so whoever has it makes them. */
static int check_roles(struct db *db, struct err *err)
{
	static const char sql[] = "SELECT count(*) FROM pg_roles WHERE rolname IN ('toolcrib', 'toolcrib_audit')";
	int n = 0, rc = ask(db, sql, &n, err);

	if (rc == 0 && n != 2) {
		rc = err_set(err, ERR_NOT_FOUND, "database", "the server lacks one of the roles that get rights");
		err_hint(err, "CREATE ROLE toolcrib LOGIN; CREATE ROLE toolcrib_audit LOGIN");
	}
	return rc;
}

static int step(struct db *db, const struct schema *s, int at, struct err *err)
{
	char note[96];
	int rc = db_txn_begin(db, true, err);

	if (rc < 0)
		return rc;
	rc = pg_exec(db, s->steps[at - s->base], NULL, err);
	(void)snprintf(note, sizeof(note), "UPDATE toolcrib.meta SET value = '%d' WHERE key = '%s'", at, s->key);
	if (rc == 0)
		rc = pg_exec(db, note, NULL, err);
	rc = db_txn_end(db, rc, err);
	return rc < 0 ? err_wrap(err, "%s, schema %d", s->what, at) : 0;
}

/* Who is not the owner has the schema as it must be, or is told to wait for him (CLUSTER K-701). */
static int engine_migrate(struct db *db, bool keys, struct err *err)
{
	const struct schema *s = keys ? &keys_schema : &store_schema;
	int at = 0, rc = find_version(db, s, &at, err);

	if (rc < 0 || at == known(s))
		return rc;
	if (!db->pg->at.owner)
		return err_set(err, ERR_DENIED, "database", "its schema is %d, not %d, and its owner alone makes tables", at,
			       known(s));
	rc = check_roles(db, err);
	for (at = at ? at + 1 : s->base; rc == 0 && at <= known(s); at++)
		rc = step(db, s, at, err);
	return rc;
}

/* --- the row */

static void engine_interrupt(struct db *db)
{
	char why[8];

	if (db->pg->cancel)
		(void)pg.PQcancel(db->pg->cancel, why, (int)sizeof(why));
}

static void engine_deadline(struct db *db, uint64_t mono_us)
{
	db->deadline_us = mono_us;
}

static int64_t engine_last_id(const struct db *db)
{
	return 0;                               /* here statements return what they made */
}

static int64_t engine_changes(const struct db *db)
{
	return db->pg->changes;
}

static void engine_close(struct db *db)
{
	pg_lost(db);
	free(db->pg->url);
	free(db->pg->user);
	free(db->pg);
}

static struct db_engine pgsql = {
	.name = "pgsql", .sql = sql_pgsql, .close = engine_close, .control = engine_control, .alive = engine_alive,
	.last_id = engine_last_id, .changes = engine_changes, .deadline = engine_deadline,
	.interrupt = engine_interrupt, .migrate = engine_migrate, .version = engine_version,
};

static void put_together(void)
{
	pg_stmt_calls(&pgsql);
}

int db_open_server(const struct db_server *at, enum db_mode mode, struct db **ret, struct err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct db *db = db_new(mode, "database");
	int rc;

	assert(mode == DB_WRITER || mode == DB_READER);
	pthread_once(&once, put_together);
	(void)db_check_types(true);             /* in binary, a value of another type would be read as one of its own */
	db->engine = &pgsql;
	db->pg = mem_zalloc(sizeof(*db->pg));
	db->pg->at = *at;
	db->pg->at.url = db->pg->url = mem_strdup(at->url);
	db->pg->at.user = db->pg->user = at->user ? mem_strdup(at->user) : NULL;
	rc = pg_alive(db, err);
	if (rc < 0) {
		db_close(&db);
		return rc;
	}
	*ret = db;
	return 0;
}

int db_may_read_keys(struct db *db, struct err *err)
{
	int may = 1, rc = !db->pg ? 0 : pg_settle(db, err);

	if (rc == 0 && db->pg)
		rc = ask(db, "SELECT (has_column_privilege('toolcrib.cred', 'hash', 'SELECT') AND "
			 "has_column_privilege('toolcrib.cred', 'old_hash', 'SELECT'))::int", &may, err);
	return rc < 0 ? rc : may;
}

int db_open_server_beside(const struct db *db, struct db **ret, struct err *err)
{
	int rc = db_open_server(&db->pg->at, DB_READER, ret, err);

	if (rc == 0) {
		free((*ret)->path);
		(*ret)->path = mem_strdup(db->path);
	}
	return rc;
}

#else

int db_server_check(const char *url, const char *keys_url, struct err *err)
{
	return db_open_server(NULL, DB_READER, NULL, err);
}

void db_server_files(const char *url, void (*fn)(void *arg, const char *file), void *arg)
{
}

int db_open_server(const struct db_server *at, enum db_mode mode, struct db **ret, struct err *err)
{
	int rc = err_set(err, ERR_UNREACHABLE, "database", "this build knows no PostgreSQL");

	err_hint(err, "configure it with libpq: --with-pgsql");
	return rc;
}

int db_may_read_keys(struct db *db, struct err *err)
{
	return 1;
}

int db_open_server_beside(const struct db *db, struct db **ret, struct err *err)
{
	return db_open_server(NULL, DB_READER, ret, err);
}

#endif
