/* Numbers and texts as bytes (base/pack.h). */

#include "config.h"

#include <endian.h>
#include <string.h>

#include "base/pack.h"

void pack_u64(struct str *to, uint64_t n)
{
	n = htole64(n);
	str_put(to, &n, sizeof(n));
}

void pack_bytes(struct str *to, const void *p, size_t n)
{
	if (n > 0)
		str_put(to, p, n);
}

void pack_text(struct str *to, const char *p, size_t len)
{
	pack_u64(to, len);
	pack_bytes(to, p, len);
}

static const uint8_t *take(struct unpack *in, size_t n)
{
	const uint8_t *p = in->p;

	if (in->bad || n > in->left) {
		in->bad = true;
		return NULL;
	}
	in->p += n;
	in->left -= n;
	return p;
}

uint64_t unpack_u64(struct unpack *in)
{
	const uint8_t *p = take(in, sizeof(uint64_t));
	uint64_t n = 0;

	if (p)
		memcpy(&n, p, sizeof(n));
	return le64toh(n);
}

bool unpack_bool(struct unpack *in)
{
	uint64_t n = unpack_u64(in);

	in->bad |= n > 1;
	return n == 1;
}

void unpack_bytes(struct unpack *in, void *ret, size_t n)
{
	const uint8_t *p = take(in, n);

	if (p && n > 0)
		memcpy(ret, p, n);
	else
		memset(ret, 0, n);
}

const char *unpack_text(struct unpack *in, size_t *ret_len)
{
	uint64_t len = unpack_u64(in);
	const uint8_t *p = len <= in->left ? take(in, (size_t)len) : NULL;

	in->bad |= !p;
	*ret_len = p ? (size_t)len : 0;
	return p ? (const char *)p : "";
}

void unpack_name(struct unpack *in, char *ret, size_t size)
{
	size_t len;
	const char *p = unpack_text(in, &len);

	in->bad |= len >= size || memchr(p, 0, len);
	*ret = '\0';
	if (in->bad)
		return;
	memcpy(ret, p, len);
	ret[len] = '\0';
}

size_t unpack_count(struct unpack *in, size_t each)
{
	uint64_t n = unpack_u64(in);

	in->bad |= n > in->left / each;
	return in->bad ? 0 : (size_t)n;
}

void unpack_part(struct unpack *in, struct unpack *ret)
{
	size_t len;
	const char *p = unpack_text(in, &len);

	*ret = (struct unpack){ (const uint8_t *)p, len, in->bad };
}
