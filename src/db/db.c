/* The face of the store: statements by name that are lent out and bound, transactions, items, for whichever engine a
 * connection has (struct db_engine).  Each connection belongs to one thread.  After a failed flush it is never used
 * again.  SQLite is in sqlite.c, foreign sources in foreign.c, the schema in migrate.c, the lock in owner.c. */
#include "config.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "db/server.h"
#include "db/vtab.h"

#include "db_int.h"

char *db_col_dup(struct db_stmt *st, unsigned col)
{
	size_t len;
	const char *text = db_col_text(st, col, &len);

	return mem_strndup(text, len);
}

void db_col_copy(struct db_stmt *st, unsigned col, char *ret, size_t size)
{
	size_t len;
	const char *text = db_col_text(st, col, &len);

	(void)snprintf(ret, size, "%.*s", (int)(len < size ? len : size - 1), text);
}

#define CANDIDATES_MAX 2000             /* names that "did you mean" looks at */

void db_did_you_mean(struct db_stmt **st, unsigned col, const char *word, struct err *err)
{
	char **names = mem_calloc(CANDIDATES_MAX, sizeof(*names));
	const char *near;
	size_t n = 0;

	while (n < CANDIDATES_MAX && db_step(*st, NULL) == 1) {
		size_t len;
		const char *text = db_col_text(*st, col, &len);

		names[n++] = mem_strndup(text, len);
	}
	db_stmt_put(st);
	near = text_nearest(word, (const char *const *)names, n);
	if (near)
		err_hint(err, "did you mean %s?", near);
	while (n > 0)
		free(names[--n]);
	free(names);
}

/* --- Statements: prepared once per connection, lent out, bound, stepped, read. */

struct db_stmt *db_stmt_new(struct db *db, const char *name, const char *text, unsigned params)
{
	struct db_stmt *st = mem_zalloc(sizeof(*st) + params * sizeof(st->bind[0]));

	st->db = db;
	st->engine = db->engine;
	st->name = name;
	st->text = text;
	st->params = params;
	st->id = SQL__COUNT;
	return st;
}

struct db_stmt *db_stmt_get(struct db *db, enum sql_id id)
{
	const struct sql_text *sql = &db->engine->sql[id];
	struct db_stmt *st = db->named[id];

	/* The same statement inside its own loop gets a second program that lives until put. */
	if (!st || st->lent) {
		struct db_stmt *fresh = db_stmt_new(db, sql->name, sql->text, sql->params);

		fresh->types = sql->types;
		fresh->id = id;
		fresh->temp = st != NULL;
		if (!st)
			db->named[id] = fresh;
		st = fresh;
	}
	st->lent = true;
	st->stepped = false;
	st->no_param = st->row_param = 0;
	st->bound = 0;
	db->lent++;
	return st;
}

static void stmt_free(struct db_stmt *st)
{
	st->engine->finish(st);
	free(st);
}

void db_stmt_put(struct db_stmt **stp)
{
	struct db_stmt *st = stp ? *stp : NULL;

	if (!st)
		return;
	*stp = NULL;
	assert(st->lent && st->db->lent);
	st->lent = false;
	st->db->lent--;
	if (st->temp)
		stmt_free(st);
	else
		st->engine->reset(st);
}

void db_stmt_free_all(struct db *db)
{
	for (size_t i = 0; i < SQL__COUNT; i++) {
		if (db->named[i])
			stmt_free(db->named[i]);
		db->named[i] = NULL;
	}
}

/* Values wait for the first step, which hands all of them over. */
static inline void bind(struct db_stmt *st, unsigned pos, struct db_value v)
{
	if (pos < 1 || pos > st->params) {
		st->no_param = pos;
		return;
	}
	st->bind[pos - 1] = v;
	if (pos <= 64)
		st->bound |= UINT64_C(1) << (pos - 1);
}

void db_bind_i64(struct db_stmt *st, unsigned pos, int64_t v)
{
	bind(st, pos, (struct db_value){ .type = DB_INT, .n = v });
}

void db_bind_f64(struct db_stmt *st, unsigned pos, double v)
{
	bind(st, pos, (struct db_value){ .type = DB_FLOAT, .d = v });
}

void db_bind_text(struct db_stmt *st, unsigned pos, const char *p, size_t len)
{
	bind(st, pos, (struct db_value){ .type = DB_TEXT, .p = p ? p : "", .len = len });
}

void db_bind_textz(struct db_stmt *st, unsigned pos, const char *z)
{
	if (z)
		db_bind_text(st, pos, z, strlen(z));
	else
		db_bind_null(st, pos);
}

void db_bind_blob(struct db_stmt *st, unsigned pos, const void *p, size_t len)
{
	bind(st, pos, (struct db_value){ .type = DB_BLOB, .p = p ? p : "", .len = len });
}

void db_bind_null(struct db_stmt *st, unsigned pos)
{
	bind(st, pos, (struct db_value){ .type = DB_NULL });
}

void db_bind_row(struct db_stmt *st, unsigned pos)
{
	db_bind_null(st, pos);
	st->row_param = pos;
}

void db_bind_rows(struct db_stmt *st, unsigned pos, const struct db_value *v, size_t width, size_t n)
{
	db_bind_row(st, pos);
	st->rows = v;
	st->rows_width = width < DB_ROWS_IN_MAX ? width : DB_ROWS_IN_MAX;
	st->rows_n = n;
}

/* What the caller forgot, before the first step of a named statement. */
static int check_bindings(const struct db_stmt *st, struct err *err)
{
	uint64_t all = st->params >= 64 ? UINT64_MAX : (UINT64_C(1) << st->params) - 1;

	if (st->no_param)
		return err_set(err, ERR_INTERNAL, st->name, "there is no parameter ?%u", st->no_param);
	if (st->text && st->bound != all)
		return err_set(err, ERR_INTERNAL, st->name, "parameter ?%d is not bound",
			       __builtin_ctzll(~st->bound) + 1);
	return 0;
}

/* SQLite takes a text for a number; others do not.  So what sql/ says that a parameter takes is held wherever tests
 * run, and costs nothing where none do. */
#ifdef CRASH_POINTS
static bool types_are_checked = true;
#else
static bool types_are_checked;
#endif

bool db_check_types(bool on)
{
	bool was = types_are_checked;

	types_are_checked = on;
	return was;
}

static int check_types(const struct db_stmt *st, struct err *err)
{
	static const char letter[] = { [DB_INT] = 'i', [DB_FLOAT] = 'f', [DB_TEXT] = 't', [DB_BLOB] = 'b' };

	for (unsigned i = 0; i < st->params; i++) {
		const bool row = st->types[i] == 'r';

		if (row != (st->row_param == i + 1))
			return err_set(err, ERR_INTERNAL, st->name, row ? "?%u takes its row" : "?%u takes no row", i + 1);
		if (!row && st->bind[i].type != DB_NULL && letter[st->bind[i].type] != st->types[i])
			return err_set(err, ERR_INTERNAL, st->name, "?%u is bound as type %c and takes %c", i + 1,
				       letter[st->bind[i].type], st->types[i]);
	}
	return 0;
}

static int start(struct db_stmt *st, struct err *err)
{
	int rc = check_bindings(st, err);

	if (rc == 0 && types_are_checked && st->types)
		rc = check_types(st, err);
	if (rc == 0)
		rc = st->engine->start(st, err);
	st->stepped = rc == 0;
	return rc;
}

int db_step(struct db_stmt *st, struct err *err)
{
	int rc = st->stepped ? 0 : start(st, err);

	return rc < 0 ? rc : st->engine->step(st, err);
}

int db_run(struct db_stmt **st, struct err *err)
{
	int rc = db_step(*st, err);

	if (rc == 1)
		rc = err_set(err, ERR_INTERNAL, (*st)->name, "returned a row that nobody reads");
	db_stmt_put(st);
	return rc;
}

int db_run_id(struct db_stmt **st, int64_t *ret, struct err *err)
{
	int64_t id = 0;
	int rc = db_step(*st, err);

	if (rc == 1) {
		id = db_col_i64(*st, 0);
		rc = db_step(*st, err);
	} else if (rc == 0) {
		rc = err_set(err, ERR_INTERNAL, (*st)->name, "returned no id");
	}
	if (rc == 1)
		rc = err_set(err, ERR_INTERNAL, (*st)->name, "returned more than one id");
	if (rc == 0)
		*ret = id;
	db_stmt_put(st);
	return rc;
}

unsigned db_col_count(struct db_stmt *st)
{
	return st->engine->columns(st);
}

enum db_type db_col_type(struct db_stmt *st, unsigned col)
{
	return st->engine->type(st, col);
}

int64_t db_col_i64(struct db_stmt *st, unsigned col)
{
	return st->engine->i64(st, col);
}

double db_col_f64(struct db_stmt *st, unsigned col)
{
	return st->engine->f64(st, col);
}

const char *db_col_text(struct db_stmt *st, unsigned col, size_t *ret_len)
{
	return st->engine->text(st, col, ret_len);
}

const void *db_col_blob(struct db_stmt *st, unsigned col, size_t *ret_len)
{
	return st->engine->blob(st, col, ret_len);
}

const struct db_value *db_row(struct db_stmt *st, unsigned n)
{
	return st->engine->row(st, n);
}

const char *db_col_name(struct db_stmt *st, unsigned col)
{
	return st->engine->column_name(st, col);
}

int64_t db_last_id(struct db *db)
{
	return db->engine->last_id(db);
}

int64_t db_changes(struct db *db)
{
	return db->engine->changes(db);
}

bool db_is_shared(const struct db *db)
{
	return db->pg != NULL;
}

/* --- the connection, and its transactions */

void db_close(struct db **dbp)
{
	struct db *db = dbp ? *dbp : NULL;

	if (!db)
		return;
	*dbp = NULL;
	assert(!db->lent);
	if (db->in_txn)
		(void)db_txn_end(db, ERR_CANCELLED, NULL);      /* nobody asked for what is left to stay */
	db_stmt_free_all(db);
	db->engine->close(db);
	free(db->path);
	free(db);
}

int db_txn_begin(struct db *db, bool write, struct err *err)
{
	int rc;

	assert(!db->in_txn && (!write || db->mode == DB_WRITER || db->mode == DB_SEALER));
	if (db->dead)
		return err_set(err, ERR_IO, db->path, "the store failed before; restart to recover");
	db->txn_rc = 0;
	rc = db->engine->control(db, write ? CTL_BEGIN_WRITE : CTL_BEGIN, err);
	if (rc < 0)
		return rc;
	db->in_txn = true;
	db->in_write = write;
	return 0;
}

int db_txn_end(struct db *db, int rc, struct err *err)
{
	assert(db->in_txn);
	db->in_txn = db->in_write = false;
	if (db->lent && rc >= 0)
		rc = err_set(err, ERR_INTERNAL, db->path, "%u statements are still open at the end of a transaction",
			     db->lent);
	if (rc >= 0 && !db->engine->alive(db))
		rc = err_set(err, db->txn_rc ? (enum err_code)db->txn_rc : ERR_INTERNAL, db->path,
			     "the transaction was given up before its end");
	if (rc >= 0) {
		int failed = db->engine->control(db, CTL_COMMIT, err);

		if (failed < 0)
			rc = failed;
	}
	if (rc < 0)
		(void)db->engine->control(db, CTL_ROLLBACK, NULL);
	return rc;
}

bool db_txn_alive(const struct db *db)
{
	return db->in_txn && db->engine->alive(db);
}

int db_item_begin(struct db *db, struct err *err)
{
	assert(db->in_write);
	return db->engine->control(db, CTL_ITEM, err);
}

int db_item_end(struct db *db, int rc, struct err *err)
{
	int failed;

	assert(db->in_write);
	if (!db->engine->alive(db))                     /* nothing left to go back to */
		return db->txn_rc ? db->txn_rc : err_set(err, ERR_INTERNAL, db->path, "the transaction is gone");
	failed = rc < 0 ? db->engine->control(db, CTL_ITEM_UNDO, NULL) : 0;
	if (failed == 0)
		failed = db->engine->control(db, CTL_ITEM_KEEP, rc < 0 ? NULL : err);
	return failed < 0 ? failed : rc;
}

/* --- what a store remembers */

int db_meta_get(struct db *db, const char *key, char *ret, size_t size, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_META_GET_VALUE);
	int rc;

	db_bind_textz(st, 1, key);
	rc = db_step(st, err);
	if (rc >= 0)
		snprintf(ret, size, "%s", rc == 1 ? db_col_text(st, 0, NULL) : "");
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int db_meta_set(struct db *db, const char *key, const char *value, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_META_SET_VALUE);

	db_bind_textz(st, 1, key);
	db_bind_textz(st, 2, value);
	return db_run(&st, err);
}
