/* The form of a bundle: heads of tar members (POSIX ustar, as much of it as a bundle has), a record's bytes as columns,
 * and its readable view.  Used by write.c and read.c; pure functions of bytes. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#include "bundle_int.h"

/* --- heads of tar members (POSIX ustar): as much of the format as a bundle has */

const char *const bundle_part_name[PART_COUNT] = {
	[PART_RECORDS] = "records.jsonl", [PART_TREE] = "tree.json", [PART_NOTES] = "notes.json",
	[PART_EPOCHS] = "epochs.json", [PART_MANIFEST] = "manifest.json",
};

enum { AT_NAME = 0, AT_MODE = 100, AT_UID = 108, AT_GID = 116, AT_SIZE = 124, AT_MTIME = 136, AT_SUM = 148,
	AT_TYPE = 156, AT_LINK = 157, LINK_SIZE = 100, AT_MAGIC = 257, AT_PREFIX = 345, PREFIX_SIZE = 155, SUM_DIGITS = 6,
	SIZE_DIGITS = 11 };

/* Octal digits and a NUL. */
static void put_octal(uint8_t *p, uint64_t v, unsigned digits)
{
	for (unsigned i = digits; i > 0; i--, v >>= 3)
		p[i - 1] = (uint8_t)('0' + (v & 7));
}

static uint64_t sum_of(const uint8_t head[TAR_BLOCK])
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < TAR_BLOCK; i++)
		sum += i >= AT_SUM && i < AT_SUM + 8 ? ' ' : head[i];
	return sum;
}

void bundle_tar_head(enum bundle_part part, uint64_t size, uint64_t mtime_s, uint8_t ret[TAR_BLOCK])
{
	memset(ret, 0, TAR_BLOCK);
	memcpy(ret + AT_NAME, bundle_part_name[part], strlen(bundle_part_name[part]));
	put_octal(ret + AT_MODE, 0600, 7);
	put_octal(ret + AT_UID, 0, 7);
	put_octal(ret + AT_GID, 0, 7);
	put_octal(ret + AT_SIZE, size, SIZE_DIGITS);
	put_octal(ret + AT_MTIME, mtime_s, SIZE_DIGITS);
	ret[AT_TYPE] = '0';
	memcpy(ret + AT_MAGIC, "ustar\00000", 8);
	put_octal(ret + AT_SUM, sum_of(ret), SUM_DIGITS);
	ret[AT_SUM + SUM_DIGITS + 1] = ' ';
}

static bool get_octal(const uint8_t *p, unsigned digits, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < digits; i++) {
		if (p[i] < '0' || p[i] > '7')
			return false;
		v = v << 3 | (uint64_t)(p[i] - '0');
	}
	*ret = v;
	return p[digits] == '\0';
}

static bool is_zero(const uint8_t *p, size_t n)
{
	for (; n > 0; n--)
		if (*p++)
			return false;
	return true;
}

/* What another program packed again has other times and owners, nothing else: no link, no folder before the name. */
bool bundle_tar_read(const uint8_t head[TAR_BLOCK], enum bundle_part *ret, uint64_t *ret_size)
{
	uint64_t sum = 0;

	if (!get_octal(head + AT_SUM, SUM_DIGITS, &sum) || head[AT_SUM + SUM_DIGITS + 1] != ' ' ||
	    sum != sum_of(head) ||
	    memcmp(head + AT_MAGIC, "ustar", 5) != 0 ||
	    head[AT_TYPE] != '0' || !is_zero(head + AT_LINK, LINK_SIZE) || !is_zero(head + AT_PREFIX, PREFIX_SIZE) ||
	    !get_octal(head + AT_SIZE, SIZE_DIGITS, ret_size))
		return false;
	for (unsigned i = 0; i < PART_COUNT; i++) {
		size_t len = strlen(bundle_part_name[i]);

		if (memcmp(head + AT_NAME, bundle_part_name[i], len) == 0 && is_zero(head + AT_NAME + len, AT_MODE - len)) {
			*ret = (enum bundle_part)i;
			return true;
		}
	}
	return false;
}

/* --- the bytes of a record as columns again, and the view of them for people (AUDIT) */

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

	memset(ret, 0, sizeof(*ret));
	if (len < HEAD || memcmp(p, "TCAR", 4) != 0 || p[4] != AUDIT_ENC)
		return false;
	for (p += HEAD, len -= HEAD; len > 0; col++) {
		size_t n;

		if (len < FIELD_HEAD)
			return false;
		n = (size_t)audit_get_be(p + 2, 4);
		while (col < COL_COUNT && audit_columns[col].tag != audit_get_be(p, 2))
			col++;                  /* tags ascend, so do columns */
		if (col == COL_COUNT || n > len - FIELD_HEAD ||
		    !take_value((enum audit_column)col, p + FIELD_HEAD, n, ret))
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
	jx_write_stringz(ret, clock_format_utc((uint64_t)row->v[COL_TS].n, time, sizeof(time)));
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
