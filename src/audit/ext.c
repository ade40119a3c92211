/*
 * The column ext: what an event has beyond the common columns, as fields of 2 bytes tag, 4 bytes length,
 * value; big-endian, tags ascending (AUDIT A-413):
 *
 *	0100  32 bytes  digest before            010E  8 bytes  receivers
 *	0101  32 bytes  digest after             0113  text     reason
 *	010D  8 bytes   generation               0114  text     command or query
 */

#include "config.h"

#include <string.h>

#include "base/text.h"

#include "audit_int.h"

enum ext_tag {
	EXT_BEFORE = 0x0100, EXT_AFTER = 0x0101, EXT_GENERATION = 0x010d, EXT_RECEIVERS = 0x010e, EXT_REASON = 0x0113,
	EXT_COMMAND = 0x0114,
};
enum { HEAD_SIZE = 6 };

static uint8_t *put_be(uint8_t *p, uint64_t v, unsigned bytes)
{
	for (unsigned i = bytes; i > 0; i--)
		*p++ = (uint8_t)(v >> 8 * (i - 1));
	return p;
}

static uint64_t get_be(const uint8_t *p, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < bytes; i++)
		v = v << 8 | p[i];
	return v;
}

static uint8_t *put_field(uint8_t *p, enum ext_tag tag, const void *value, size_t len)
{
	p = put_be(p, tag, 2);
	p = put_be(p, len, 4);
	memcpy(p, value, len);
	return p + len;
}

static uint8_t *put_number(uint8_t *p, enum ext_tag tag, uint64_t v)
{
	uint8_t be[8];

	put_be(be, v, 8);
	return put_field(p, tag, be, sizeof be);
}

/* Text that is stored is UTF-8: other bytes are shown as \xNN, a character is not cut in two. */
static uint8_t *put_text(uint8_t *p, enum ext_tag tag, const char *text)
{
	char clean[AUDIT_DETAIL_MAX + 1];
	size_t len = strnlen(text, AUDIT_DETAIL_MAX);

	while (len && text[len] && ((unsigned char)text[len] & 0xc0) == 0x80)
		len--;
	if (text_utf8_valid(text, len))
		return put_field(p, tag, text, len);
	text_printable(text, len, clean, sizeof clean);
	return put_field(p, tag, clean, strlen(clean));
}

size_t audit_ext_build(const struct audit_event *ev, uint8_t *ret)
{
	bool command = ev->kind == AUDIT_ADMIN_CMD || ev->kind == AUDIT_AUDIT_READ || ev->kind == AUDIT_AUDIT_VERIFY;
	uint8_t *p = ret;

	if (ev->before)
		p = put_field(p, EXT_BEFORE, ev->before, 32);
	if (ev->after)
		p = put_field(p, EXT_AFTER, ev->after, 32);
	if (ev->generation)
		p = put_number(p, EXT_GENERATION, ev->generation);
	if (ev->receivers)
		p = put_number(p, EXT_RECEIVERS, ev->receivers);
	if (ev->detail)
		p = put_text(p, command ? EXT_COMMAND : EXT_REASON, ev->detail);
	return (size_t)(p - ret);
}

static int read_field(unsigned tag, const uint8_t *p, size_t len, struct audit_view *ret, char *buf)
{
	switch (tag) {
	case EXT_GENERATION:
	case EXT_RECEIVERS:
		if (len != 8)
			return ERR_CORRUPT;
		*(tag == EXT_GENERATION ? &ret->generation : &ret->receivers) = get_be(p, 8);
		return 0;
	case EXT_REASON:
	case EXT_COMMAND:
		if (len > AUDIT_DETAIL_MAX)
			return ERR_CORRUPT;
		memcpy(buf, p, len);
		buf[len] = '\0';
		ret->detail = buf;
		return 0;
	default:
		return 0;       /* written by a later release, or not shown */
	}
}

int audit_ext_read(const uint8_t *p, size_t len, struct audit_view *ret, char *buf)
{
	unsigned last = 0;

	while (len) {
		unsigned tag;
		size_t n;

		if (len < HEAD_SIZE)
			return ERR_CORRUPT;
		tag = (unsigned)get_be(p, 2);
		n = get_be(p + 2, 4);
		p += HEAD_SIZE;
		len -= HEAD_SIZE;
		if (tag <= last || tag < EXT_BEFORE || n > len || read_field(tag, p, n, ret, buf) < 0)
			return ERR_CORRUPT;
		last = tag;
		p += n;
		len -= n;
	}
	return 0;
}
