/* unevaluatedItems and unevaluatedProperties: all other rules of the node run first and mark the members or
 * elements that they have evaluated; what is left is judged.  Nobody marks anything unless somebody asks. */
#include "config.h"

#include "run_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define FEW_WORDS 4             /* up to 256 members: no allocation */

static bool is_marked(const struct marks *m, size_t i)
{
	return m->bits[i / 64] >> i % 64 & 1;
}

static bool check_left_items(struct run *r, const struct node *rest, const json_t *v, const struct marks *m,
			     const struct spot *at)
{
	struct spot in = { .up = at, .keyword = "unevaluatedItems", .element = true };
	bool ok = true;

	for (size_t i = 0; i < json_array_size(v) && (ok || !run_is_over(r)); i++) {
		if (is_marked(m, i))
			continue;
		in.child_index = (uint32_t)i;
		ok &= run_check_child(r, rest, json_array_get(v, i), &in);
	}
	return ok;
}

static bool check_left_props(struct run *r, const struct node *rest, const json_t *v, const struct marks *m,
			     const struct spot *at)
{
	json_t *obj = (json_t *)(uintptr_t)v;   /* jansson iterates without const */
	struct spot in = { .up = at, .keyword = "unevaluatedProperties" };
	bool ok = true;
	size_t i = 0;

	for (void *it = json_object_iter(obj); it && (ok || !run_is_over(r)); it = json_object_iter_next(obj, it)) {
		if (is_marked(m, i++))
			continue;
		in.child = json_object_iter_key(it);
		if (rest->never)
			ok = run_fail(r, &in, NULL, "is not known");
		else
			ok &= run_check_child(r, rest, json_object_iter_value(it), &in);
	}
	return ok;
}

bool run_with_rest(struct run *r, const struct node *n, const json_t *v, unsigned is, const struct spot *at)
{
	size_t count = is == TYPE_ARRAY ? json_array_size(v) : json_object_size(v);
	uint64_t few[FEW_WORDS] = { 0 };
	struct marks *outer = r->marks, own = { few, count / 64 + 1 };
	bool ok;

	if (!run_pay(r, count / 64))
		return false;
	if (own.words > FEW_WORDS)
		own.bits = mem_calloc(own.words, sizeof *own.bits);
	r->marks = &own;
	ok = run_rules(r, n, v, is, at);
	if (ok || !run_is_over(r))
		ok &= is == TYPE_ARRAY ? check_left_items(r, n->rest->items, v, &own, at) :
					 check_left_props(r, n->rest->props, v, &own, at);
	r->marks = outer;
	/* What was left has been evaluated now. */
	if (outer)
		memset(outer->bits, 0xff, outer->words * sizeof *outer->bits);
	if (own.bits != few)
		free(own.bits);
	return ok;
}

bool run_branch(struct run *r, const struct node *n, const json_t *v, const struct spot *at)
{
	uint64_t few[FEW_WORDS], *before = few;
	struct marks *m = r->marks;
	bool ok;

	r->quiet++;
	if (!m) {
		ok = run_check(r, n, v, at);
		r->quiet--;
		return ok;
	}
	before = m->words > FEW_WORDS ? mem_calloc(m->words, sizeof *before) : few;
	memcpy(before, m->bits, m->words * sizeof *before);
	ok = run_pay(r, m->words / 4) && run_check(r, n, v, at);
	r->quiet--;
	if (!ok)
		memcpy(m->bits, before, m->words * sizeof *before);
	if (before != few)
		free(before);
	return ok;
}
