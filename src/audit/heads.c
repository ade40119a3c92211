/* Heads of logs as logs.commit says them (AUDIT A-702).  Form 1 is, for each log, its number, its size and its root.
 * Form 2 has numbers and sizes as differences, and one root: that of the RFC 6962 tree whose leaves are the entries of
 * form 1 (decision 0065).  What is read is strict: each list has one way to be written.  Pure; any thread. */

#include "config.h"

#include <string.h>

#include "audit/checkpoint.h"
#include "audit/fields.h"
#include "base/err.h"
#include "base/varint.h"

void audit_head_leaf(const struct audit_said *said, const uint8_t root[TREE_HASH], uint8_t ret[TREE_HASH])
{
	uint8_t entry[AUDIT_HEAD_BYTES];

	audit_put_be(entry, said->log, 4);
	audit_put_be(entry + 4, said->size, 8);
	memcpy(entry + 12, root, TREE_HASH);
	tree_leaf(entry, sizeof(entry), ret);
}

/* --- the list */

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
