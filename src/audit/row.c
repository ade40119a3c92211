/* A record as values by column: what is inserted, and the bytes that its leaf is the hash of (AUDIT ). */

#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "db/db.h"

#include "audit_int.h"

static const char magic[4] = "TCAR";
enum { FIELD_HEAD = 2 + 4 };            /* tag, length */

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

static uint8_t *put_be(uint8_t *p, uint64_t v, unsigned bytes)
{
	while (bytes > 0)
		*p++ = (uint8_t)(v >> 8 * --bytes);
	return p;
}

static size_t value_size(const struct audit_value *v, enum audit_column col)
{
	return audit_columns[col].form == FORM_INT ? 8 : v->len;
}

/* Once for all: a record is encoded for each call, twice. */
static void reserve(const struct audit_row *row, struct audit_bytes *out)
{
	size_t need = sizeof magic + 1;

	for (unsigned col = 0; col < COL_COUNT; col++)
		need += row->v[col].present ? FIELD_HEAD + value_size(&row->v[col], (enum audit_column)col) : 0;
	if (need > out->cap) {
		out->cap = 2 * need;
		out->p = mem_realloc(out->p, out->cap);
	}
}

void audit_row_encode(const struct audit_row *row, struct audit_bytes *out)
{
	uint8_t *p;

	reserve(row, out);
	p = out->p;
	memcpy(p, magic, sizeof magic);
	p += sizeof magic;
	*p++ = AUDIT_ENC;
	for (unsigned col = 0; col < COL_COUNT; col++) {
		const struct audit_value *v = &row->v[col];

		if (!v->present)
			continue;
		p = put_be(p, audit_columns[col].tag, 2);
		p = put_be(p, value_size(v, (enum audit_column)col), 4);
		if (audit_columns[col].form == FORM_INT) {
			p = put_be(p, (uint64_t)v->n, 8);
		} else if (v->len > 0) {
			memcpy(p, v->p, v->len);
			p += v->len;
		}
	}
	out->len = (size_t)(p - out->p);
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
