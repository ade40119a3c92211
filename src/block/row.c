/* A record as values by column: what is inserted, and the bytes that its leaf is the hash of (AUDIT ). */

#include "config.h"

#include <endian.h>
#include <string.h>

#include "base/mem.h"
#include "block/row.h"

static const char magic[4] = "TCAR";
/* tag, length; of numbers alone */
enum { FIELD_HEAD = 2 + 4, FIXED_MAX = sizeof(magic) + 1 + COL_COUNT * (FIELD_HEAD + 8) };

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

static uint8_t *put_head(uint8_t *p, uint16_t tag, size_t len)
{
	const uint16_t t = htobe16(tag);
	const uint32_t n = htobe32((uint32_t)len);

	memcpy(p, &t, sizeof(t));
	memcpy(p + sizeof(t), &n, sizeof(n));
	return p + FIELD_HEAD;
}

/* Room for more bytes behind the first len, and for all numbers that a record can have. */
static uint8_t *reserve(struct audit_bytes *out, size_t len, size_t more)
{
	size_t need = len + more + FIXED_MAX;

	if (need > out->cap) {
		out->cap = 2 * need;
		out->p = mem_realloc(out->p, out->cap);
	}
	return out->p + len;
}

/* One pass: a record is encoded for each call, twice, and for each that is verified. */
void audit_row_encode(const struct audit_row *row, struct audit_bytes *out)
{
	uint8_t *p = reserve(out, 0, 0);

	memcpy(p, magic, sizeof(magic));
	p += sizeof(magic);
	*p++ = AUDIT_ENC;
	for (unsigned col = 0; col < COL_COUNT; col++) {
		const struct audit_value *v = &row->v[col];

		if (!v->present)
			continue;
		if (audit_columns[col].form == FORM_INT) {
			const uint64_t n = htobe64((uint64_t)v->n);

			p = put_head(p, audit_columns[col].tag, sizeof(n));
			memcpy(p, &n, sizeof(n));
			p += sizeof(n);
			continue;
		}
		p = reserve(out, (size_t)(p - out->p), v->len);
		p = put_head(p, audit_columns[col].tag, v->len);
		if (v->len > 0)
			memcpy(p, v->p, v->len);
		p += v->len;
	}
	out->len = (size_t)(p - out->p);
}
