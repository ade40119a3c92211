/* A record as values by column: what is inserted, and the bytes that its leaf is the hash of (AUDIT ). */

#include "config.h"

#include <string.h>

#include "base/str.h"
#include "db/db.h"

#include "audit_int.h"

const struct audit_column_info audit_columns[COL_COUNT] = {
#define COLUMN_INFO(sym, name, tag, form, size) [COL_##sym] = { name, tag, FORM_##form, size },
	AUDIT_COLUMNS(COLUMN_INFO)
#undef COLUMN_INFO
};

void audit_row_int(struct audit_row *row, enum audit_column col, int64_t v)
{
	row->v[col] = (struct audit_value){ .n = v, .present = true };
}

void audit_row_blob(struct audit_row *row, enum audit_column col, const void *p, size_t len)
{
	row->v[col] = (struct audit_value){ .p = p, .len = len, .present = true };
}

void audit_row_text(struct audit_row *row, enum audit_column col, int64_t id, const char *text, size_t len)
{
	row->v[col] = (struct audit_value){ .n = id, .p = text, .len = len, .present = true };
}

static void put_be(struct str *out, uint64_t v, unsigned bytes)
{
	while (bytes > 0)
		str_putc(out, (char)(v >> 8 * --bytes));
}

void audit_row_encode(const struct audit_row *row, struct str *out)
{
	str_put(out, "TCAR", 4);
	str_putc(out, AUDIT_ENC);
	for (unsigned col = 0; col < COL_COUNT; col++) {
		const struct audit_value *v = &row->v[col];

		if (!v->present)
			continue;
		put_be(out, audit_columns[col].tag, 2);
		if (audit_columns[col].form == FORM_INT) {
			put_be(out, 8, 4);
			put_be(out, (uint64_t)v->n, 8);
		} else {
			put_be(out, v->len, 4);
			str_put(out, v->p, v->len);
		}
	}
}

void audit_row_bind(const struct audit_row *row, struct db_stmt *st, unsigned pos)
{
	for (unsigned col = 0; col < COL_COUNT; col++, pos++) {
		const struct audit_value *v = &row->v[col];

		if (!v->present)
			db_bind_null(st, pos);
		else if (audit_columns[col].form == FORM_BLOB)
			db_bind_blob(st, pos, v->p, v->len);
		else
			db_bind_i64(st, pos, v->n);
	}
}
