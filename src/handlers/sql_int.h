#ifndef SQL_INT_H
#define SQL_INT_H

#include <stddef.h>
#include <stdint.h>

/* What the sql handler (sql.c) asks of a worker (sql_work.c).  As bytes, numbers big-endian, texts behind their length
 * of 4 bytes: path, store, zone, number of tables 4, each; rows 8, statement, number of parameters 4, each: name, type
 * 1, then 8 bytes of an integer or a double, or a text. */

#define SQL_TABLES_MAX 64

enum sql_type { SQL_NULL, SQL_INT, SQL_FLOAT, SQL_TEXT, SQL_TYPE_COUNT };
struct sql_param {              /* a top-level member of the arguments */
	const char *name; size_t name_len;
	enum sql_type type;
	int64_t i;
	double f;
	const char *text; size_t len;
};
struct sql_ask {
	const char *path;
	const char *store;              /* no file of it is a data source; "" = there is none */
	const char *zone;               /* TZ of the server, "" = not set: what functions of dates call local */
	const char *const *tables; size_t ntables;      /* that may be read; none = all */
	int64_t rows_max;
	const char *sql; size_t sql_len;
	const struct sql_param *params; size_t nparams;
};

#endif
