/* Merkle trees of RFC 6962 over SHA-256: growing, proving, checking.  The writer grows them, the notary proves,
 * verifiers check; pure functions of bytes, any thread; hostile proofs are simply wrong. */

#include "config.h"

#include <assert.h>
#include <string.h>

#include "base/crypto.h"
#include "base/err.h"
#include "tlog/tree.h"

enum { LEAF_PREFIX = 0, NODE_PREFIX = 1 };

void tree_leaf(const void *bytes, size_t len, uint8_t ret[TREE_HASH])
{
	static const uint8_t prefix = LEAF_PREFIX;
	const struct digest_part part[] = { { &prefix, 1 }, { bytes, len } };

	digest_sha256_parts(part, 2, ret);
}

void tree_node(const uint8_t left[TREE_HASH], const uint8_t right[TREE_HASH], uint8_t ret[TREE_HASH])
{
	uint8_t both[1 + 2 * TREE_HASH] = { NODE_PREFIX };

	memcpy(both + 1, left, TREE_HASH);
	memcpy(both + 1 + TREE_HASH, right, TREE_HASH);
	digest_sha256(both, sizeof(both), ret);
}

/* --- growing */

size_t tree_peaks(uint64_t size)
{
	return (size_t)__builtin_popcountll(size);
}

void tree_append(struct tree *t, const uint8_t leaf[TREE_HASH])
{
	tree_append_nodes(t, leaf, NULL, NULL);
}

void tree_append_nodes(struct tree *t, const uint8_t leaf[TREE_HASH], tree_node_fn *fn, void *arg)
{
	size_t n = tree_peaks(t->size);
	unsigned height = 0;
	uint8_t hash[TREE_HASH];

	assert(t->size < INT64_MAX);    /* TREE_LOAD_MAX and more records than a file can have */
	memcpy(hash, leaf, TREE_HASH);
	/* As in a binary counter: each bit that carries joins two subtrees of one size. */
	for (uint64_t bits = t->size; bits & 1; bits >>= 1) {
		tree_node(t->peak[--n], hash, hash);
		height++;
		if (fn)
			fn(arg, height, t->size >> height, hash);
	}
	memcpy(t->peak[n], hash, TREE_HASH);
	t->size++;
}

void tree_root(const struct tree *t, uint8_t ret[TREE_HASH])
{
	size_t n = tree_peaks(t->size);

	if (n == 0) {
		digest_sha256("", 0, ret);
		return;
	}
	memcpy(ret, t->peak[n - 1], TREE_HASH);
	for (size_t i = n - 1; i > 0; i--)
		tree_node(t->peak[i - 1], ret, ret);
}

bool tree_load(struct tree *t, int64_t size, const void *peaks, size_t len)
{
	if (size < 0 || size > TREE_LOAD_MAX || len != tree_peaks((uint64_t)size) * TREE_HASH)
		return false;
	memset(t, 0, sizeof(*t));
	t->size = (uint64_t)size;
	if (len > 0)
		memcpy(t->peak, peaks, len);
	return true;
}

/* --- proving */

/* The largest power of two below n; n > 1. */
static uint64_t split(uint64_t n)
{
	return 1ull << (63 - __builtin_clzll(n - 1));
}

struct path {
	tree_range_fn *range;
	void *arg;
	uint8_t (*hash)[TREE_HASH];
	size_t n;
};

/* The walk goes from the root down, the proof from the leaf up: turned over at the end. */
static int path_add(struct path *p, uint64_t from, uint64_t to)
{
	assert(p->n < TREE_PROOF_MAX);
	return p->range(p->arg, from, to, p->hash[p->n++]);
}

static void path_turn(struct path *p)
{
	for (size_t i = 0, k = p->n; i + 1 < k--; i++) {
		uint8_t hash[TREE_HASH];

		memcpy(hash, p->hash[i], TREE_HASH);
		memcpy(p->hash[i], p->hash[k], TREE_HASH);
		memcpy(p->hash[k], hash, TREE_HASH);
	}
}

int tree_prove_inclusion(uint64_t index, uint64_t size, tree_range_fn *range, void *arg,
			 uint8_t ret[TREE_PROOF_MAX][TREE_HASH], size_t *ret_n)
{
	struct path p = { range, arg, ret, 0 };
	uint64_t from = 0, to = size;
	int rc = 0;

	assert(index < size);
	while (rc == 0 && to - from > 1) {
		uint64_t middle = from + split(to - from);

		if (index < middle) {
			rc = path_add(&p, middle, to);
			to = middle;
		} else {
			rc = path_add(&p, from, middle);
			from = middle;
		}
	}
	path_turn(&p);
	*ret_n = p.n;
	return rc;
}

int tree_prove_consistency(uint64_t old, uint64_t size, tree_range_fn *range, void *arg,
			   uint8_t ret[TREE_PROOF_MAX][TREE_HASH], size_t *ret_n)
{
	struct path p = { range, arg, ret, 0 };
	uint64_t from = 0, to = size;
	int rc = 0;

	assert(old > 0 && old <= size);
	while (rc == 0 && old != to) {
		uint64_t middle = from + split(to - from);

		if (old <= middle) {
			rc = path_add(&p, middle, to);
			to = middle;
		} else {
			rc = path_add(&p, from, middle);
			from = middle;
		}
	}
	/* The old tree itself need not be said: who checks has its root. */
	if (rc == 0 && from > 0)
		rc = path_add(&p, from, to);
	path_turn(&p);
	*ret_n = p.n;
	return rc;
}

/* --- checking */

bool tree_check_inclusion(const uint8_t leaf[TREE_HASH], uint64_t index, uint64_t size,
			  const uint8_t (*proof)[TREE_HASH], size_t n, const uint8_t root[TREE_HASH])
{
	uint64_t at = index, last = size - 1;
	uint8_t hash[TREE_HASH];

	if (index >= size)
		return false;
	memcpy(hash, leaf, TREE_HASH);
	for (size_t i = 0; i < n; i++) {
		if (last == 0)
			return false;
		if (at & 1 || at == last) {
			tree_node(proof[i], hash, hash);
			for (; !(at & 1) && at != 0; at >>= 1)
				last >>= 1;
		} else {
			tree_node(hash, proof[i], hash);
		}
		at >>= 1;
		last >>= 1;
	}
	return last == 0 && memcmp(hash, root, TREE_HASH) == 0;
}

bool tree_check_consistency(uint64_t old, uint64_t size, const uint8_t old_root[TREE_HASH],
			    const uint8_t root[TREE_HASH], const uint8_t (*proof)[TREE_HASH], size_t n)
{
	uint64_t at = old - 1, last = size - 1;
	uint8_t before[TREE_HASH], after[TREE_HASH];
	size_t i = 0;

	if (old == 0 || old > size)
		return false;
	if (old == size)
		return n == 0 && memcmp(old_root, root, TREE_HASH) == 0;
	for (; at & 1; at >>= 1)
		last >>= 1;
	/* An old size that is a power of two: the old tree is a whole subtree of the new one. */
	if ((old & (old - 1)) != 0 && i == n)
		return false;
	memcpy(before, (old & (old - 1)) == 0 ? old_root : proof[i++], TREE_HASH);
	memcpy(after, before, TREE_HASH);
	for (; i < n; i++) {
		if (last == 0)
			return false;
		if (at & 1 || at == last) {
			tree_node(proof[i], before, before);
			tree_node(proof[i], after, after);
			for (; !(at & 1) && at != 0; at >>= 1)
				last >>= 1;
		} else {
			tree_node(after, proof[i], after);
		}
		at >>= 1;
		last >>= 1;
	}
	return last == 0 && memcmp(before, old_root, TREE_HASH) == 0 && memcmp(after, root, TREE_HASH) == 0;
}

/* --- consistency, from what is small: the old tree's peaks and the subtrees that came behind it */

void tree_consistency_start(struct tree_consistency *s, uint64_t from)
{
	s->from = s->to = from;
	s->n = 0;
}

void tree_consistency_append(struct tree_consistency *s, const uint8_t leaf[TREE_HASH])
{
	tree_consistency_append_whole(s, 0, leaf);
}

void tree_consistency_append_whole(struct tree_consistency *s, unsigned level, const uint8_t hash[TREE_HASH])
{
	assert(s->n < TREE_CONSISTENCY_MAX && s->to < INT64_MAX && level < 63 && s->to % (1ull << level) == 0);
	s->node[s->n].at = s->to;
	s->node[s->n].level = level;
	s->to += 1ull << level;
	memcpy(s->node[s->n++].hash, hash, TREE_HASH);
	/* Two neighbours of one size are a subtree when the left one stands where such a subtree begins. */
	while (s->n >= 2 && s->node[s->n - 2].level == s->node[s->n - 1].level &&
	       s->node[s->n - 2].at % (2ull << s->node[s->n - 2].level) == 0) {
		tree_node(s->node[s->n - 2].hash, s->node[s->n - 1].hash, s->node[s->n - 2].hash);
		s->node[s->n-- - 2].level++;
	}
}

struct two_parts { const struct tree *old; const struct tree_consistency *since; };

/* MTH(D[from:to]) of the old tree: one of its peaks. */
static int old_range(const struct tree *t, uint64_t from, uint64_t to, uint8_t ret[TREE_HASH])
{
	uint64_t at = 0;
	size_t i = 0;

	for (unsigned bit = 63; bit-- > 0;) {
		uint64_t width = 1ull << bit;

		if (!(t->size & width))
			continue;
		if (at == from && to - from == width) {
			memcpy(ret, t->peak[i], TREE_HASH);
			return 0;
		}
		at += width;
		i++;
	}
	return ERR_INTERNAL;
}

/* MTH(D[from:to]) behind the old tree: whole nodes, joined from the right. */
static int new_range(const struct tree_consistency *s, uint64_t from, uint64_t to, uint8_t ret[TREE_HASH])
{
	bool any = false;

	for (size_t i = s->n; i-- > 0;) {
		if (s->node[i].at < from || s->node[i].at >= to)
			continue;
		if (any)
			tree_node(s->node[i].hash, ret, ret);
		else
			memcpy(ret, s->node[i].hash, TREE_HASH);
		any = true;
	}
	return any ? 0 : ERR_INTERNAL;
}

static int range(void *arg, uint64_t from, uint64_t to, uint8_t ret[TREE_HASH])
{
	const struct two_parts *g = arg;

	return to <= g->old->size ? old_range(g->old, from, to, ret) : new_range(g->since, from, to, ret);
}

void tree_consistency_prove(const struct tree *old, const struct tree_consistency *since,
			    uint8_t ret[TREE_PROOF_MAX][TREE_HASH], size_t *ret_n)
{
	struct two_parts g = { old, since };
	int rc = 0;

	assert(since->from == old->size);
	*ret_n = 0;
	if (old->size > 0)
		rc = tree_prove_consistency(old->size, since->to, range, &g, ret, ret_n);
	assert(rc == 0);        /* both together have every hash that such a proof asks for */
	(void)rc;
}
