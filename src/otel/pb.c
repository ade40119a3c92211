/* Protocol Buffers, written and read: see include/otel/pb.h. */
#include "config.h"

#include <endian.h>
#include <string.h>

#include "base/varint.h"
#include "otel/pb.h"

static void put(struct str *out, uint64_t v)
{
	uint8_t p[VARINT_MAX];

	str_put(out, p, (size_t)(put_varint(p, v) - p));
}

static void put_tag(struct str *out, unsigned field, enum pb_wire wire)
{
	put(out, (uint64_t)field << 3 | wire);
}

void pb_uint(struct str *out, unsigned field, uint64_t v)
{
	put_tag(out, field, PB_VARINT);
	put(out, v);
}

void pb_fixed64(struct str *out, unsigned field, uint64_t v)
{
	const uint64_t le = htole64(v);

	put_tag(out, field, PB_FIXED64);
	str_put(out, &le, sizeof(le));
}

void pb_fixed32(struct str *out, unsigned field, uint32_t v)
{
	const uint32_t le = htole32(v);

	put_tag(out, field, PB_FIXED32);
	str_put(out, &le, sizeof(le));
}

void pb_bytes(struct str *out, unsigned field, const void *p, size_t len)
{
	put_tag(out, field, PB_LEN);
	put(out, len);
	str_put(out, p, len);
}

void pb_text(struct str *out, unsigned field, const char *text)
{
	pb_bytes(out, field, text, strlen(text));
}

/* One byte for the length stands in front of the content; most messages need no more. */
size_t pb_open(struct str *out, unsigned field)
{
	put_tag(out, field, PB_LEN);
	str_putc(out, 0);
	return out->len;
}

void pb_close(struct str *out, size_t mark)
{
	static const uint8_t room[VARINT_MAX];
	const size_t len = out->len - mark;
	uint8_t p[VARINT_MAX];
	const size_t n = (size_t)(put_varint(p, len) - p);

	if (n > 1)
		str_put(out, room, n - 1);
	if (out->failed)
		return;
	if (n > 1)
		memmove(out->p + mark + n - 1, out->p + mark, len);
	memcpy(out->p + mark - 1, p, n);
}

/* --- reading */

static const uint8_t *read_fixed(const uint8_t *p, const uint8_t *end, size_t n, uint64_t *ret)
{
	uint64_t v = 0;

	if ((size_t)(end - p) < n)
		return NULL;
	for (size_t i = n; i-- > 0;)
		v = v << 8 | p[i];
	*ret = v;
	return p + n;
}

int pb_next(const uint8_t **p, const uint8_t *end, struct pb_field *ret)
{
	struct pb_field f = { .number = 0 };
	const uint8_t *at = *p;
	uint64_t tag, len;

	if (at == end)
		return 0;
	at = get_varint(at, end, &tag);
	if (!at || tag >> 3 == 0 || tag >> 3 > PB_FIELD_MAX)
		return ERR_INVALID;
	f.number = (unsigned)(tag >> 3);
	switch (tag & 7) {
	case PB_VARINT:
		at = get_varint(at, end, &f.value);
		break;
	case PB_FIXED64:
		at = read_fixed(at, end, 8, &f.value);
		break;
	case PB_FIXED32:
		at = read_fixed(at, end, 4, &f.value);
		break;
	case PB_LEN:
		at = get_varint(at, end, &len);
		if (!at || len > (size_t)(end - at))
			return ERR_INVALID;
		f.p = at;
		f.len = (size_t)len;
		at += len;
		break;
	default:
		return ERR_INVALID;
	}
	if (!at)
		return ERR_INVALID;
	f.wire = (enum pb_wire)(tag & 7);
	*p = at;
	*ret = f;
	return 1;
}
