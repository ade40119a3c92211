/* Numbers and texts, as what is carried from one verification to the next holds them, and the marks of auditors.
 * Called by all steps, by verify.c and by auditor; any thread. */

#include "config.h"

#include <endian.h>
#include <string.h>

#include "verify_int.h"

void verify_put(struct str *to, uint64_t n)
{
	n = htole64(n);
	str_put(to, &n, sizeof(n));
}

void verify_put_bytes(struct str *to, const void *p, size_t n)
{
	if (n > 0)
		str_put(to, p, n);
}

void verify_put_text(struct str *to, const char *p, size_t len)
{
	verify_put(to, len);
	verify_put_bytes(to, p, len);
}

void verify_put_tree(struct str *to, const struct tree *t)
{
	verify_put(to, t->size);
	verify_put_bytes(to, t->peak, tree_peaks(t->size) * TREE_HASH);
}

static const uint8_t *take(struct verify_in *in, size_t n)
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

uint64_t verify_get(struct verify_in *in)
{
	const uint8_t *p = take(in, sizeof(uint64_t));
	uint64_t n = 0;

	if (p)
		memcpy(&n, p, sizeof(n));
	return le64toh(n);
}

bool verify_get_bool(struct verify_in *in)
{
	uint64_t n = verify_get(in);

	in->bad |= n > 1;
	return n == 1;
}

void verify_get_bytes(struct verify_in *in, void *ret, size_t n)
{
	const uint8_t *p = take(in, n);

	if (p && n > 0)
		memcpy(ret, p, n);
	else
		memset(ret, 0, n);
}

const char *verify_get_text(struct verify_in *in, size_t *ret_len)
{
	uint64_t len = verify_get(in);
	const uint8_t *p = len <= in->left ? take(in, (size_t)len) : NULL;

	in->bad |= !p;
	*ret_len = p ? (size_t)len : 0;
	return p ? (const char *)p : "";
}

void verify_get_name(struct verify_in *in, char *ret, size_t size)
{
	size_t len;
	const char *p = verify_get_text(in, &len);

	in->bad |= len >= size || memchr(p, 0, len);
	*ret = '\0';
	if (in->bad)
		return;
	memcpy(ret, p, len);
	ret[len] = '\0';
}

void verify_get_tree(struct verify_in *in, struct tree *ret)
{
	uint64_t size = verify_get(in);
	size_t len = size <= (uint64_t)TREE_LOAD_MAX ? tree_peaks(size) * TREE_HASH : 0;
	const uint8_t *p = size <= (uint64_t)TREE_LOAD_MAX ? take(in, len) : NULL;

	memset(ret, 0, sizeof(*ret));
	in->bad |= !p || !tree_load(ret, (int64_t)size, p, len);
}

size_t verify_get_count(struct verify_in *in, size_t each)
{
	uint64_t n = verify_get(in);

	in->bad |= n > in->left / each;
	return in->bad ? 0 : (size_t)n;
}

void verify_get_part(struct verify_in *in, struct verify_in *ret)
{
	size_t len;
	const char *p = verify_get_text(in, &len);

	*ret = (struct verify_in){ (const uint8_t *)p, len, in->bad };
}
