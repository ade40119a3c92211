/* Proving growth from what is small: the old tree's peaks and the subtrees that came behind it. */

#include "config.h"

#include "tlog/tree.h"

#include <assert.h>
#include <string.h>

#include "base/err.h"

void tree_span_start(struct tree_span *s, uint64_t from)
{
	s->from = s->to = from;
	s->n = 0;
}

void tree_span_append(struct tree_span *s, const uint8_t leaf[TREE_HASH])
{
	assert(s->n < TREE_SPAN_MAX && s->to < INT64_MAX);
	s->node[s->n].at = s->to++;
	s->node[s->n].level = 0;
	memcpy(s->node[s->n++].hash, leaf, TREE_HASH);
	/* Two neighbours of one size are a subtree when the left one stands where such a subtree begins. */
	while (s->n >= 2 && s->node[s->n - 2].level == s->node[s->n - 1].level &&
	       s->node[s->n - 2].at % (2ull << s->node[s->n - 2].level) == 0) {
		tree_node(s->node[s->n - 2].hash, s->node[s->n - 1].hash, s->node[s->n - 2].hash);
		s->node[s->n-- - 2].level++;
	}
}

struct growth { const struct tree *old; const struct tree_span *since; };

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
static int new_range(const struct tree_span *s, uint64_t from, uint64_t to, uint8_t ret[TREE_HASH])
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
	const struct growth *g = arg;

	return to <= g->old->size ? old_range(g->old, from, to, ret) : new_range(g->since, from, to, ret);
}

void tree_prove_growth(const struct tree *old, const struct tree_span *since, uint8_t ret[TREE_PROOF_MAX][TREE_HASH],
		       size_t *ret_n)
{
	struct growth g = { old, since };
	int rc = 0;

	assert(since->from == old->size);
	*ret_n = 0;
	if (old->size > 0)
		rc = tree_prove_consistency(old->size, since->to, range, &g, ret, ret_n);
	assert(rc == 0);        /* both together have every hash that such a proof asks for */
	(void)rc;
}
