#ifndef TLOG_TREE_H
#define TLOG_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Merkle trees of RFC 6962, section 2.1, over SHA-256 (AUDIT A-701).  Pure; any thread.  D[from:to] is the range of
 * leaves that begins at from and ends before to; MTH is its tree hash. */

#define TREE_HASH 32
#define TREE_PEAKS_MAX 63               /* sizes are below 2^63 */
#define TREE_PROOF_MAX 64               /* hashes of a proof: two per level at most, of which few levels have both */

void tree_leaf(const void *bytes, size_t len, uint8_t ret[TREE_HASH]);     /* SHA-256(0x00 || bytes) */
void tree_node(const uint8_t left[TREE_HASH], const uint8_t right[TREE_HASH], uint8_t ret[TREE_HASH]);

/* What has to be remembered of a tree to let it grow: the hashes of the perfect subtrees that make it up, biggest
 * first, one for each bit of size that is set (the frontier of AUDIT A-904).  All zero is the empty tree. */
struct tree {
	uint64_t size;
	uint8_t peak[TREE_PEAKS_MAX][TREE_HASH];
};
size_t tree_peaks(uint64_t size);                               /* how many peaks a tree of that size has */
void tree_append(struct tree *t, const uint8_t leaf[TREE_HASH]);
/* The same, and fn() for each whole subtree that the leaf completes, smallest first: the n-th of 2^height leaves,
 * height > 0. */
typedef void tree_node_fn(void *arg, unsigned height, uint64_t n, const uint8_t hash[TREE_HASH]);
void tree_append_nodes(struct tree *t, const uint8_t leaf[TREE_HASH], tree_node_fn *fn, void *arg);
void tree_root(const struct tree *t, uint8_t ret[TREE_HASH]);
#define TREE_LOAD_MAX (INT64_C(1) << 62) /* whoever wrote the bytes leaves room for what is appended */
/* A tree whose peaks were kept as bytes.  false: len is not 32 bytes for each, or size is out of range. */
bool tree_load(struct tree *t, int64_t size, const void *peaks, size_t len);

/* Proofs.  From above: MTH(D[from:to]); 0 or a negative err_code, which ends the proof.  from is a multiple of the
 * smallest power of two that is not below to - from, so hashes of whole subtrees are all that is ever asked for but at
 * the tree's right edge. */
typedef int tree_range_fn(void *arg, uint64_t from, uint64_t to, uint8_t ret[TREE_HASH]);
/* PATH(index, D[0:size]); index < size.  *ret_n hashes, nearest to the leaf first. */
int tree_prove_inclusion(uint64_t index, uint64_t size, tree_range_fn *range, void *arg,
			 uint8_t ret[TREE_PROOF_MAX][TREE_HASH], size_t *ret_n);
/* PROOF(old, D[0:size]); 0 < old <= size. */
int tree_prove_consistency(uint64_t old, uint64_t size, tree_range_fn *range, void *arg,
			   uint8_t ret[TREE_PROOF_MAX][TREE_HASH], size_t *ret_n);

/* The leaves of a tree from an old size on, whose first ones are not at hand: the hashes of the largest whole
 * subtrees that lie behind from, in order.  With the old tree's peaks that is enough to prove how it grew. */
#define TREE_CONSISTENCY_MAX 126
struct tree_consistency {
	uint64_t from, to;
	size_t n;
	struct { uint64_t at; unsigned level; uint8_t hash[TREE_HASH]; } node[TREE_CONSISTENCY_MAX];
};
void tree_consistency_start(struct tree_consistency *s, uint64_t from);
void tree_consistency_append(struct tree_consistency *s, const uint8_t leaf[TREE_HASH]);
/* The next 2^level leaves at once, by the hash of their subtree; s->to is a multiple of so many. */
void tree_consistency_append_whole(struct tree_consistency *s, unsigned level, const uint8_t hash[TREE_HASH]);
/* PROOF(old->size, since->to), where since begins at old->size; an empty old tree needs none. */
void tree_consistency_prove(const struct tree *old, const struct tree_consistency *since,
			    uint8_t ret[TREE_PROOF_MAX][TREE_HASH], size_t *ret_n);

/* RFC 9162, 2.1.3.2 and 2.1.4.2: hostile proofs are simply wrong. */
bool tree_check_inclusion(const uint8_t leaf[TREE_HASH], uint64_t index, uint64_t size,
			  const uint8_t (*proof)[TREE_HASH], size_t n, const uint8_t root[TREE_HASH]);
bool tree_check_consistency(uint64_t old, uint64_t size, const uint8_t old_root[TREE_HASH],
			    const uint8_t root[TREE_HASH], const uint8_t (*proof)[TREE_HASH], size_t n);

#endif
