/* row_out(): a row's values in one call of a function instead of two or three for each column. */

#include "config.h"

#include "db/db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#include "db_int.h"

enum { ROW_COLUMNS = 64 };

/* Values are valid during the call alone, so that bytes are copied. */
struct db_row {
	int64_t number;                 /* of the call; the statement's column says it again */
	unsigned n;
	struct db_value v[ROW_COLUMNS];
	size_t at[ROW_COLUMNS];         /* where the bytes of a value begin */
	char *bytes;
	size_t len, cap;
};

void db_row_free(struct db_row **row)
{
	if (*row)
		free((*row)->bytes);
	free(*row);
	*row = NULL;
}

static void put_bytes(struct db_row *row, unsigned i, enum db_type type, sqlite3_value *v)
{
	const void *p = sqlite3_value_blob(v);
	size_t len = p ? (size_t)sqlite3_value_bytes(v) : 0;

	if (row->len + len > row->cap) {
		row->cap = 2 * (row->len + len);
		row->bytes = mem_realloc(row->bytes, row->cap);
	}
	if (len > 0)
		memcpy(row->bytes + row->len, p, len);
	row->v[i] = (struct db_value){ .type = type, .len = len };
	row->at[i] = row->len;
	row->len += len;
}

static void put_value(struct db_row *row, unsigned i, sqlite3_value *v)
{
	switch (sqlite3_value_type(v)) {
	case SQLITE_INTEGER:
		row->v[i] = (struct db_value){ .type = DB_INT, .n = sqlite3_value_int64(v) };
		break;
	case SQLITE_TEXT:
		put_bytes(row, i, DB_TEXT, v);
		break;
	case SQLITE_BLOB:
		put_bytes(row, i, DB_BLOB, v);
		break;
	case SQLITE_FLOAT:
		row->v[i] = (struct db_value){ .type = DB_FLOAT };
		break;
	default:
		row->v[i] = (struct db_value){ .type = DB_NULL };
		break;
	}
}

static void row_out(sqlite3_context *ctx, int n, sqlite3_value **value)
{
	struct db_stmt *st = n > 0 ? sqlite3_value_pointer(value[0], DB_ROW_POINTER) : NULL;

	if (!st || n > ROW_COLUMNS + 1) {
		sqlite3_result_error(ctx, "row_out() without its statement", -1);
		return;
	}
	if (!st->row) {
		st->row = mem_zalloc(sizeof *st->row);
		st->row->bytes = mem_alloc(st->row->cap = 256);
	}
	st->row->n = (unsigned)n - 1;
	st->row->len = 0;
	for (int i = 1; i < n; i++)
		put_value(st->row, (unsigned)i - 1, value[i]);
	sqlite3_result_int64(ctx, ++st->row->number);
}

int db_row_define(sqlite3 *native)
{
	return sqlite3_create_function_v2(native, "row_out", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, NULL, row_out, NULL, NULL, NULL);
}

const struct db_value *db_row(struct db_stmt *st, unsigned n)
{
	struct db_row *row = st->row;

	/* A plan that sorts would have made all rows before the first one comes out. */
	if (!row || row->n != n || row->number != db_col_i64(st, 0))
		return NULL;
	for (unsigned i = 0; i < n; i++)
		if (row->v[i].type == DB_TEXT || row->v[i].type == DB_BLOB)
			row->v[i].p = row->bytes + row->at[i];
		else
			row->v[i].p = "";
	return row->v;
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
