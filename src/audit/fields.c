/*
 * The column ext: what an event has beyond the common columns, as fields of 2 bytes tag, 4 bytes length,
 * value; big-endian, tags ascending (AUDIT A-413).  And the one field that is a list, heads of logs.
 */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/checkpoint.h"
#include "audit/fields.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/varint.h"

#include "audit_int.h"

enum { HEAD_SIZE = 6, TEXT_SIZE = AUDIT_DETAIL_MAX + 1, OWN_FIELDS = 5 };

void audit_put_be(uint8_t *p, uint64_t v, unsigned bytes)
{
	while (bytes > 0)
		*p++ = (uint8_t)(v >> 8 * --bytes);
}

uint64_t audit_get_be(const uint8_t *p, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < bytes; i++)
		v = v << 8 | p[i];
	return v;
}

/* Text that is stored is UTF-8: other bytes are shown as \xNN, a character is not cut in two. */
static struct audit_field text_field(enum audit_tag tag, const char *text, char clean[TEXT_SIZE])
{
	size_t len = strnlen(text, AUDIT_DETAIL_MAX);

	while (len && text[len] && ((unsigned char)text[len] & 0xc0) == 0x80)
		len--;
	if (text_utf8_valid(text, len))
		return (struct audit_field){ tag, text, len };
	text_printable(text, len, clean, TEXT_SIZE);
	return (struct audit_field){ tag, clean, strlen(clean) };
}

/* The members of the event that are fields, by ascending tag. */
static size_t own_fields(const struct audit_event *ev, struct audit_field ret[OWN_FIELDS], uint8_t number[2][8],
			 char clean[TEXT_SIZE])
{
	bool command = ev->kind == AUDIT_ADMIN_CMD || (ev->kind >= AUDIT_AUDIT_READ && ev->kind <= AUDIT_AUDIT_REVIEW);
	size_t n = 0;

	if (ev->before)
		ret[n++] = (struct audit_field){ AUDIT_TAG_BEFORE, ev->before, 32 };
	if (ev->after)
		ret[n++] = (struct audit_field){ AUDIT_TAG_AFTER, ev->after, 32 };
	audit_put_be(number[0], ev->generation, 8);
	audit_put_be(number[1], ev->receivers, 8);
	if (ev->generation)
		ret[n++] = (struct audit_field){ AUDIT_TAG_GENERATION, number[0], 8 };
	if (ev->receivers)
		ret[n++] = (struct audit_field){ AUDIT_TAG_RECEIVERS, number[1], 8 };
	if (ev->detail)
		ret[n++] = text_field(command ? AUDIT_TAG_COMMAND : AUDIT_TAG_REASON, ev->detail, clean);
	return n;
}

static void put_field(struct audit_bytes *out, const struct audit_field *f)
{
	size_t need = out->len + HEAD_SIZE + f->len;

	if (need > out->cap) {
		out->cap = 2 * need;
		out->p = mem_realloc(out->p, out->cap);
	}
	audit_put_be(out->p + out->len, f->tag, 2);
	audit_put_be(out->p + out->len + 2, f->len, 4);
	if (f->len > 0)
		memcpy(out->p + out->len + HEAD_SIZE, f->p, f->len);
	out->len = need;
}

int audit_ext_build(const struct audit_event *ev, struct audit_bytes *out, struct err *err)
{
	struct audit_field own[OWN_FIELDS];
	uint8_t number[2][8];
	char clean[TEXT_SIZE];
	size_t nown = own_fields(ev, own, number, clean), i = 0, k = 0;
	unsigned last = 0;

	out->len = 0;
	while (i < nown || k < ev->nfield) {
		bool mine = k == ev->nfield || (i < nown && own[i].tag < ev->field[k].tag);
		const struct audit_field *f = mine ? &own[i++] : &ev->field[k++];

		if (f->tag <= last)
			return err_set(err, ERR_INTERNAL, "audit", "field %04x of a record comes after %04x", f->tag, last);
		if (f->len > AUDIT_EXT_MAX - HEAD_SIZE || out->len + HEAD_SIZE + f->len > AUDIT_EXT_MAX)
			return err_set(err, ERR_LIMIT, "audit", "the fields of a record have more than %d bytes", AUDIT_EXT_MAX);
		last = f->tag;
		put_field(out, f);
	}
	return 0;
}

/* One field off the front.  false: malformed, or nothing is left. */
static bool next_field(const uint8_t **p, size_t *len, struct audit_field *ret)
{
	size_t n;

	if (*len < HEAD_SIZE)
		return false;
	n = (size_t)audit_get_be(*p + 2, 4);
	if (n > *len - HEAD_SIZE)
		return false;
	*ret = (struct audit_field){ (uint16_t)audit_get_be(*p, 2), *p + HEAD_SIZE, n };
	*p += HEAD_SIZE + n;
	*len -= HEAD_SIZE + n;
	return true;
}

const uint8_t *audit_field_find(const void *ext, size_t ext_len, unsigned tag, size_t *ret_len)
{
	const uint8_t *p = ext;
	struct audit_field f;

	while (next_field(&p, &ext_len, &f)) {
		if (f.tag == tag) {
			*ret_len = f.len;
			return f.p;
		}
	}
	return NULL;
}

static int read_field(const struct audit_field *f, struct audit_view *ret, char *buf)
{
	switch (f->tag) {
	case AUDIT_TAG_GENERATION:
	case AUDIT_TAG_RECEIVERS:
		if (f->len != 8)
			return ERR_CORRUPT;
		*(f->tag == AUDIT_TAG_GENERATION ? &ret->generation : &ret->receivers) = audit_get_be(f->p, 8);
		return 0;
	case AUDIT_TAG_REASON:
	case AUDIT_TAG_COMMAND:
		if (f->len > AUDIT_DETAIL_MAX)
			return ERR_CORRUPT;
		memcpy(buf, f->p, f->len);
		buf[f->len] = '\0';
		ret->detail = buf;
		return 0;
	default:
		return 0;       /* written by a later release, or not shown */
	}
}

int audit_ext_read(const uint8_t *p, size_t len, struct audit_view *ret, char *buf)
{
	struct audit_field f;
	unsigned last = 0;

	while (len) {
		if (!next_field(&p, &len, &f) || f.tag <= last || f.tag < AUDIT_TAG_BEFORE || read_field(&f, ret, buf) < 0)
			return ERR_CORRUPT;
		last = f.tag;
	}
	return 0;
}

/* --- heads of logs as logs.commit says them (AUDIT A-702) */

/* Form 1 is, for each log, its number, its size and its root.  Form 2 has numbers and sizes as differences, and one
 * root: that of the RFC 6962 tree whose leaves are the entries of form 1 (decision 0065).  What is read is strict: each
 * list has one way to be written.  Pure; any thread. */

void audit_head_leaf(const struct audit_said *said, const uint8_t root[TREE_HASH], uint8_t ret[TREE_HASH])
{
	uint8_t entry[AUDIT_HEAD_BYTES];

	audit_put_be(entry, said->log, 4);
	audit_put_be(entry + 4, said->size, 8);
	memcpy(entry + 12, root, TREE_HASH);
	tree_leaf(entry, sizeof(entry), ret);
}

size_t audit_heads_write(const struct audit_said *said, size_t n, const uint8_t root[TREE_HASH],
			 uint8_t ret[AUDIT_HEADS_BYTES])
{
	struct audit_said before = { 0, 0 };
	uint8_t *p = ret;

	for (size_t i = 0; i < n; before = said[i++]) {
		p = put_varint(p, said[i].log - before.log);
		p = put_varint(p, zigzag((int64_t)(said[i].size - before.size)));
	}
	memcpy(p, root, TREE_HASH);
	return (size_t)(p - ret) + TREE_HASH;
}

int audit_heads_read(const uint8_t *p, size_t len, struct audit_said ret[AUDIT_HEADS_MAX], size_t *ret_n,
		     uint8_t ret_root[TREE_HASH])
{
	struct audit_said at = { 0, 0 };
	const uint8_t *end;
	size_t n = 0;

	if (len <= TREE_HASH)
		return ERR_INVALID;
	end = p + len - TREE_HASH;
	while (p < end) {
		uint64_t number = 0, size = 0;

		p = get_varint(p, end, &number);
		p = p ? get_varint(p, end, &size) : NULL;
		if (!p || n == AUDIT_HEADS_MAX || number == 0 || number > UINT32_MAX - at.log)
			return ERR_INVALID;
		at.log += number;
		at.size += (uint64_t)unzigzag(size);
		if (at.size == 0 || at.size > INT64_MAX)
			return ERR_INVALID;
		ret[n++] = at;
	}
	memcpy(ret_root, end, TREE_HASH);
	*ret_n = n;
	return 0;
}
