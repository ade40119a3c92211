#ifndef DB_VTAB_H
#define DB_VTAB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "db/db.h"

/* Tables whose rows a struct of functions gives.  One is a temporary table of a connection: it hides the stored table
 * of its name from every statement of that connection, but for those that say main.NAME, and nothing of it is in the
 * file.  It can be read only, by the connection's thread. */

enum { DB_VTAB_TERMS_MAX = 16, DB_VTAB_ORDER_MAX = 4, DB_VTAB_IN_MAX = 4096 };

/* A condition of a statement: column, comparison.  several: it is an EQ of a list, whose values can come at once; a
 * table that says false gets one after the other. */
enum db_vtab_op { DB_VTAB_EQ, DB_VTAB_NE, DB_VTAB_LT, DB_VTAB_LE, DB_VTAB_GT, DB_VTAB_GE };
struct db_vtab_term { unsigned col; enum db_vtab_op op; bool several, use; };

/* What a statement would ask.  The table sets which terms it uses; SQLite tests each of them again, so what is given
 * may be more, but never less.  ordered: its rows come as order says. */
struct db_vtab_plan {
	struct db_vtab_term term[DB_VTAB_TERMS_MAX];
	struct { unsigned col; bool desc; } order[DB_VTAB_ORDER_MAX];
	unsigned terms, orders;
	bool ordered, backwards, unique;        /* answers; backwards is handed on to filter() */
	double cost; int64_t rows;
};

/* What it asks: the terms that are used, with their values (borrowed for the call). */
struct db_vtab_given { unsigned col; enum db_vtab_op op; const struct db_value *value; unsigned n; };
struct db_vtab_ask {
	struct db_vtab_given term[DB_VTAB_TERMS_MAX];
	unsigned terms;
	uint64_t columns;               /* bit n: column n may be asked for; bit 63: that one and all behind it */
	bool backwards;
};

struct db_vtab {
	const char *name, *columns;             /* "id INTEGER, text TEXT" */
	void (*plan)(void *arg, struct db_vtab_plan *plan);
	void *(*open)(void *arg);
	/* Begin anew.  1: the cursor is at a row; 0: there is none; or an error. */
	int (*filter)(void *cursor, const struct db_vtab_ask *ask, struct err *err) MUST_CHECK;
	int (*next)(void *cursor, struct err *err) MUST_CHECK;
	/* Borrowed until the next call.  *ret is NULL's. */
	int (*column)(void *cursor, unsigned col, struct db_value *ret, struct err *err) MUST_CHECK;
	int64_t (*id)(const void *cursor);
	void (*close)(void *cursor);
	void (*free)(void *arg);                /* or NULL; also when the table could not be made */
};

/* The plan of a table whose first `asked` columns are asked for by one value each: those below `end` that are given are
 * used, and without one of the first `must` all costs as much as it can. */
void db_vtab_plan_given(struct db_vtab_plan *plan, unsigned must, unsigned asked, unsigned end, double cost);

/* arg is taken.  In the functions, statements of the same connection may be used; what they fail with is what the
 * statement above fails with. */
int db_vtab_make(struct db *db, const struct db_vtab *table, void *arg, struct err *err) MUST_CHECK;
bool db_vtab_has(const struct db *db, const char *name);
/* false: the engine makes none.  Its records are all rows, and it has views where others have such tables. */
bool db_vtab_can(const struct db *db);
/* Of a connection that is another program's (native: its sqlite3; in extensions alone), which has a store open: what
 * such tables need, with the statements' texts of this release.  It lasts as long as the connection once a table was
 * made; db_guest_free() is for before.  ERR_INVALID: it has no store open; ERR_CONFLICT: one of another release;
 * ERR_CORRUPT: its schema is nobody's. */
int db_guest_new(void *native, struct db **ret, struct err *err) MUST_CHECK;
void db_guest_free(struct db **db);
bool db_is_guest(const struct db *db);
/* Copies of views of the file, which see such tables: a view of the file itself would not.  Each is made for the first
 * statement that names it, of another program's connection at once. */
int db_vtab_views(struct db *db, struct err *err) MUST_CHECK;

/* Of SQLite: "INSERT … SELECT c0, c1, … FROM rows_in(?pos)" takes n rows of width values each out of memory in one run,
 * opens its trees once, and binds nothing.  Borrowed until the statement is put. */
enum { DB_ROWS_IN_MAX = 48 };           /* columns */
void db_bind_rows(struct db_stmt *st, unsigned pos, const struct db_value *v, size_t width, size_t n);

#endif
