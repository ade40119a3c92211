/* The bytes of a record as columns again, and the view of them for people (AUDIT ). */

#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#include "bundle_int.h"

enum { HEAD = 5, FIELD_HEAD = 6, TIME_SIZE = 40 };      /* magic and encoding; tag and length */

static bool take_value(enum audit_column col, const uint8_t *p, size_t len, struct audit_row *row)
{
	const struct audit_column_info *info = &audit_columns[col];

	switch ((enum audit_form)info->form) {
	case FORM_INT:
		if (len != 8 || p[0] & 0x80)
			return false;
		audit_row_int(row, col, (int64_t)audit_get_be(p, 8));
		return true;
	case FORM_BLOB:
		audit_row_blob(row, col, p, len);
		return !info->size || len == info->size;
	case FORM_DICT:
	case FORM_ORIGIN:
		audit_row_text(row, col, 0, (const char *)p, len);
		return text_utf8_valid((const char *)p, len);
	}
	return false;
}

bool bundle_decode(const uint8_t *p, size_t len, struct audit_row *ret)
{
	unsigned col = 0;

	memset(ret, 0, sizeof *ret);
	if (len < HEAD || memcmp(p, "TCAR", 4) != 0 || p[4] != AUDIT_ENC)
		return false;
	for (p += HEAD, len -= HEAD; len > 0; col++) {
		size_t n;

		if (len < FIELD_HEAD)
			return false;
		n = (size_t)audit_get_be(p + 2, 4);
		while (col < COL_COUNT && audit_columns[col].tag != audit_get_be(p, 2))
			col++;                  /* tags ascend, so do columns */
		if (col == COL_COUNT || n > len - FIELD_HEAD || !take_value((enum audit_column)col, p + FIELD_HEAD, n, ret))
			return false;
		p += FIELD_HEAD + n;
		len -= FIELD_HEAD + n;
	}
	return ret->v[COL_LOG].present && ret->v[COL_IDX].present && ret->v[COL_KIND].present && ret->v[COL_TS].present;
}

static void put_hex(const void *p, size_t n, struct str *ret)
{
	char *hex = mem_alloc(2 * n + 1);

	text_hex(p, n, hex);
	jx_write_string(ret, hex, 2 * n);
	free(hex);
}

void bundle_view(const struct audit_row *row, struct str *ret)
{
	char time[TIME_SIZE];
	const char *kind = audit_kind_name((int)(row->v[COL_KIND].n & INT32_MAX));

	str_puts(ret, "{\"time\":");
	jx_write_stringz(ret, clock_format_utc((uint64_t)row->v[COL_TS].n, time, sizeof time));
	str_puts(ret, ",\"event\":");
	jx_write_stringz(ret, kind ? kind : "unknown");
	for (unsigned col = 0; col < COL_COUNT; col++) {
		const struct audit_value *v = &row->v[col];

		if (!v->present)
			continue;
		str_printf(ret, ",\"%s\":", audit_columns[col].name);
		if (audit_columns[col].form == FORM_INT)
			str_put_i64(ret, v->n);
		else if (audit_columns[col].form == FORM_BLOB)
			put_hex(v->p, v->len, ret);
		else
			jx_write_string(ret, v->p, v->len);
	}
	str_putc(ret, '}');
}
