/* Heads of logs as logs.commit says them (AUDIT A-702).  Form 1 is, for each log, its number, its size and its root.
 * Form 2 has numbers and sizes as differences, and one root: that of the RFC 6962 tree whose leaves are the entries of
 * form 1 (decision 0065).  What is read is strict: each list has one way to be written.  Pure; any thread. */

#include "config.h"

#include <string.h>

#include "audit/checkpoint.h"
#include "audit/fields.h"
#include "base/err.h"

void audit_head_leaf(const struct audit_said *said, const uint8_t root[TREE_HASH], uint8_t ret[TREE_HASH])
{
	uint8_t entry[AUDIT_HEAD_BYTES];

	audit_put_be(entry, said->log, 4);
	audit_put_be(entry + 4, said->size, 8);
	memcpy(entry + 12, root, TREE_HASH);
	tree_leaf(entry, sizeof(entry), ret);
}

/* --- numbers: seven bits in a byte, the lowest first (LEB128); with a sign: 0, -1, 1, -2, … */

static uint8_t *put_number(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)v;
	return p;
}

/* NULL: too large, or not the shortest form. */
static const uint8_t *get_number(const uint8_t *p, const uint8_t *end, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned shift = 0; p < end && shift < 64; shift += 7) {
		uint8_t byte = *p++;

		if (shift == 63 && byte > 1)
			return NULL;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		*ret = v;
		return byte || shift == 0 ? p : NULL;
	}
	return NULL;
}

static uint64_t sign_folded(uint64_t difference)
{
	return difference << 1 ^ (difference >> 63 ? UINT64_MAX : 0);
}

static uint64_t sign_unfolded(uint64_t folded)
{
	return folded >> 1 ^ (folded & 1 ? UINT64_MAX : 0);
}

/* --- the list */

size_t audit_heads_write(const struct audit_said *said, size_t n, const uint8_t root[TREE_HASH],
			 uint8_t ret[AUDIT_HEADS_BYTES])
{
	struct audit_said before = { 0, 0 };
	uint8_t *p = ret;

	for (size_t i = 0; i < n; before = said[i++]) {
		p = put_number(p, said[i].log - before.log);
		p = put_number(p, sign_folded(said[i].size - before.size));
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

		p = get_number(p, end, &number);
		p = p ? get_number(p, end, &size) : NULL;
		if (!p || n == AUDIT_HEADS_MAX || number == 0 || number > UINT32_MAX - at.log)
			return ERR_INVALID;
		at.log += number;
		at.size += sign_unfolded(size);
		if (at.size == 0 || at.size > INT64_MAX)
			return ERR_INVALID;
		ret[n++] = at;
	}
	memcpy(ret_root, end, TREE_HASH);
	*ret_n = n;
	return 0;
}
