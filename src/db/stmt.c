/* Statements: prepared once per connection, lent out, bound, stepped, read. */

#include "config.h"

#include "db/db.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#include "db_int.h"

static int prepare(struct db_stmt *st)
{
	return sqlite3_prepare_v3(st->db->native, st->text, -1, SQLITE_PREPARE_PERSISTENT, &st->native, NULL);
}

struct db_stmt *db_stmt_get(struct db *db, enum sql_id id)
{
	struct db_stmt *st = db->named[id];

	/* The same statement inside its own loop gets a second program that lives until put. */
	if (!st || st->lent) {
		struct db_stmt *fresh = mem_zalloc(sizeof *fresh);

		fresh->db = db;
		fresh->name = sql_sqlite[id].name;
		fresh->text = sql_sqlite[id].text;
		fresh->temp = st != NULL;
		if (!st)
			db->named[id] = fresh;
		st = fresh;
	}
	if (!st->native)
		(void)prepare(st);      /* the first step asks again and reports */
	st->lent = true;
	st->stepped = false;
	st->bind_rc = SQLITE_OK;
	st->bound = 0;
	db->lent++;
	return st;
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
	if (st->temp) {
		sqlite3_finalize(st->native);
		db_row_free(&st->row);
		free(st);
		return;
	}
	if (st->native) {
		sqlite3_reset(st->native);
		sqlite3_clear_bindings(st->native);     /* borrowed bytes are the caller's again */
	}
}

void db_stmt_free_all(struct db *db)
{
	for (size_t i = 0; i < SQL__COUNT; i++) {
		if (db->named[i]) {
			sqlite3_finalize(db->named[i]->native);
			db_row_free(&db->named[i]->row);
		}
		free(db->named[i]);
		db->named[i] = NULL;
	}
}

static void bound(struct db_stmt *st, unsigned pos, int rc)
{
	if (st->bind_rc == SQLITE_OK)
		st->bind_rc = rc;
	if (pos >= 1 && pos <= 64)
		st->bound |= UINT64_C(1) << (pos - 1);
}

void db_bind_i64(struct db_stmt *st, unsigned pos, int64_t v)
{
	bound(st, pos, sqlite3_bind_int64(st->native, (int)pos, v));
}

void db_bind_f64(struct db_stmt *st, unsigned pos, double v)
{
	bound(st, pos, sqlite3_bind_double(st->native, (int)pos, v));
}

void db_bind_text(struct db_stmt *st, unsigned pos, const char *p, size_t len)
{
	bound(st, pos, sqlite3_bind_text64(st->native, (int)pos, p ? p : "", len, SQLITE_STATIC, SQLITE_UTF8));
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
	bound(st, pos, sqlite3_bind_blob64(st->native, (int)pos, p ? p : "", len, SQLITE_STATIC));
}

void db_bind_null(struct db_stmt *st, unsigned pos)
{
	bound(st, pos, sqlite3_bind_null(st->native, (int)pos));
}

void db_bind_row(struct db_stmt *st, unsigned pos)
{
	bound(st, pos, sqlite3_bind_pointer(st->native, (int)pos, st, DB_ROW_POINTER, NULL));
}

/* What the caller forgot, before the first step of a named statement. */
static int check_bindings(struct db_stmt *st, struct err *err)
{
	int n = sqlite3_bind_parameter_count(st->native);
	uint64_t all = n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;

	if (st->bind_rc != SQLITE_OK)
		return db_fail(st->db, st->bind_rc, st->name, err);
	if (st->text && st->bound != all)
		return err_set(err, ERR_INTERNAL, st->name, "parameter ?%d is not bound",
			       __builtin_ctzll(~st->bound) + 1);
	return 0;
}

int db_step(struct db_stmt *st, struct err *err)
{
	int rc;

	if (!st->native) {
		rc = prepare(st);
		if (rc != SQLITE_OK)
			return db_fail(st->db, rc, st->name, err);
		return err_set(err, ERR_INTERNAL, st->name, "was bound while it did not prepare");
	}
	if (!st->stepped) {
		rc = check_bindings(st, err);
		if (rc < 0)
			return rc;
		st->stepped = true;
	}
	rc = sqlite3_step(st->native);
	if (rc == SQLITE_ROW)
		return 1;
	return rc == SQLITE_DONE ? 0 : db_fail(st->db, rc, st->name, err);
}

int db_run(struct db_stmt **st, struct err *err)
{
	int rc = db_step(*st, err);

	if (rc == 1)
		rc = err_set(err, ERR_INTERNAL, (*st)->name, "returned a row that nobody reads");
	db_stmt_put(st);
	return rc;
}

unsigned db_col_count(struct db_stmt *st)
{
	return (unsigned)sqlite3_column_count(st->native);
}

enum db_type db_col_type(struct db_stmt *st, unsigned col)
{
	switch (sqlite3_column_type(st->native, (int)col)) {
	case SQLITE_INTEGER:
		return DB_INT;
	case SQLITE_FLOAT:
		return DB_FLOAT;
	case SQLITE_TEXT:
		return DB_TEXT;
	case SQLITE_BLOB:
		return DB_BLOB;
	default:
		return DB_NULL;
	}
}

int64_t db_col_i64(struct db_stmt *st, unsigned col)
{
	return sqlite3_column_int64(st->native, (int)col);
}

double db_col_f64(struct db_stmt *st, unsigned col)
{
	return sqlite3_column_double(st->native, (int)col);
}

const char *db_col_text(struct db_stmt *st, unsigned col, size_t *ret_len)
{
	const char *p = (const char *)sqlite3_column_text(st->native, (int)col);

	if (ret_len)
		*ret_len = p ? (size_t)sqlite3_column_bytes(st->native, (int)col) : 0;
	return p ? p : "";
}

const void *db_col_blob(struct db_stmt *st, unsigned col, size_t *ret_len)
{
	const void *p = sqlite3_column_blob(st->native, (int)col);

	if (ret_len)
		*ret_len = p ? (size_t)sqlite3_column_bytes(st->native, (int)col) : 0;
	return p ? p : "";
}

const char *db_col_name(struct db_stmt *st, unsigned col)
{
	const char *name = sqlite3_column_name(st->native, (int)col);

	return name ? name : "";
}

int64_t db_last_id(struct db *db)
{
	return sqlite3_last_insert_rowid(db->native);
}

int64_t db_changes(struct db *db)
{
	return sqlite3_changes64(db->native);
}
