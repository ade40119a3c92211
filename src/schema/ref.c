/* References from one subschema to another.  Targets are compiled after the walk, one by one, so that a chain of references costs no stack; then circles that would never reach into the
 * value are looked for. */
#include "config.h"

#include "compile_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

void compile_add_pending(struct compiler *c, const struct pending *p)
{
	if (c->nrefs == c->refs_cap) {
		c->refs_cap = c->refs_cap ? c->refs_cap * 2 : 16;
		c->refs = mem_realloc(c->refs, c->refs_cap * sizeof *c->refs);
	}
	c->refs[c->nrefs++] = *p;
}

/* Where an error in the target is: the resource, and inside of it the pointer unless it is an anchor. */
static char *target_place(const struct resource *in, char *fragment)
{
	char *place = mem_printf("%s%s", in->place, *fragment == '/' ? fragment : "");

	free(fragment);
	return place;
}

/* The node is made once all its keywords are read: reading->refs waits for it. */
static int note_ref(struct compiler *c, const json_t *v, struct pending **ret)
{
	struct pending *p = &c->reading->refs[c->reading->nrefs];
	const char *uri = json_string_value(v);
	char *fragment = NULL;
	int rc;

	if (!uri)
		return compile_fail(c, ERR_INVALID, "must be a string");
	if (c->reading->nrefs == REFS_MAX)
		return compile_fail(c, ERR_INVALID, "more than two references side by side");
	rc = resource_resolve(c, uri, &p->target, &p->in, &fragment);
	if (rc)
		return rc;
	p->pointer = target_place(p->in, fragment);
	c->reading->nrefs++;
	*ret = p;
	return 0;
}

int compile_ref(struct compiler *c, struct node *n, const json_t *v)
{
	struct pending *p;

	return note_ref(c, v, &p);
}

/* $dynamicRef "#name" or $recursiveRef "#": a reference like any other, unless what it leads to is a
 * dynamic anchor; then the run looks for the outermost resource that has one of this name. */
int compile_jump(struct compiler *c, struct node *n, const char *keyword, const json_t *v)
{
	struct jump *jump = compile_take(c, sizeof *jump);
	struct pending *p = NULL;
	const char *name = json_string_value(v);
	int rc;

	if (!jump)
		return compile_fail_memory(c);
	rc = note_ref(c, v, &p);
	if (rc)
		return rc;
	jump->keyword = keyword;
	name = strchr(name, '#');
	name = name ? name + 1 : "";
	for (size_t i = 0; i < p->in->ndynamic; i++)
		if (strcmp(p->in->dynamic[i].p, name) == 0 && (*name || strcmp(keyword, "$recursiveRef") == 0)) {
			jump->name = arena_strdup(c->mem, name);
			if (!jump->name)
				return compile_fail_memory(c);
		}
	p->slot = &jump->target;
	n->jump = jump;
	return 0;
}

static int compile_pending(struct compiler *c, const struct pending *p)
{
	int rc;

	c->in = p->in;
	compile_leave(c, 0);
	str_puts(&c->pointer, p->pointer);
	rc = resource_add_stray(c, p->target, p->in);
	return rc ? rc : compile_schema(c, p->target, p->slot);
}

int compile_pending_refs(struct compiler *c)
{
	int rc = 0;

	/* nrefs grows meanwhile: targets may have references of their own. */
	for (size_t i = 0; i < c->nrefs && !rc; i++) {
		const struct pending p = c->refs[i];

		rc = compile_pending(c, &p);
	}
	if (!rc)
		compile_leave(c, 0);
	return rc;
}

/* CIRCLES */

/* The i-th node that judges the same value as n, or NULL behind the last. */
static const struct node *same_value(const struct node *n, size_t i)
{
	const struct logic *l = n->logic;

	if (n->ref && i-- == 0)
		return n->ref;
	if (n->jump && !n->jump->name && i-- == 0)
		return n->jump->target;
	if (l) {
		const struct node_list *const lists[] = { &l->all, &l->any, &l->one };
		const struct node *const single[] = { l->not, l->cond, l->then, l->other };

		for (size_t k = 0; k < NELEMS(lists); k++) {
			if (i < lists[k]->n)
				return lists[k]->nodes[i];
			i -= lists[k]->n;
		}
		for (size_t k = 0; k < NELEMS(single); k++)
			if (single[k] && i-- == 0)
				return single[k];
	}
	for (size_t k = 0; n->obj && k < n->obj->ndependents; k++)
		if (n->obj->dependents[k].node && i-- == 0)
			return n->obj->dependents[k].node;
	return NULL;
}

struct visit { const struct node *n; size_t next; };
struct search {                 /* depth first with an own stack */
	struct map *state;      /* node -> &open while it is on the stack, &done afterwards */
	char open, done;
	struct visit *stack;    /* room for every node */
	size_t depth;
};

static void push(struct search *s, const struct node *n)
{
	(void)map_set_u64(s->state, (uintptr_t)n, &s->open);
	s->stack[s->depth++] = (struct visit){ n, 0 };
}

static bool has_circle(struct search *s, const struct node *from)
{
	if (map_get_u64(s->state, (uintptr_t)from))
		return false;
	push(s, from);
	while (s->depth) {
		struct visit *top = &s->stack[s->depth - 1];
		const struct node *n = same_value(top->n, top->next++);
		const void *is = n ? map_get_u64(s->state, (uintptr_t)n) : NULL;

		if (is == &s->open)
			return true;
		if (!n) {
			(void)map_set_u64(s->state, (uintptr_t)top->n, &s->done);
			s->depth--;
		} else if (!is) {
			push(s, n);
		}
	}
	return false;
}

int compile_check_circles(struct compiler *c)
{
	struct search s = { .depth = 0 };
	int rc = 0;

	s.state = map_new();
	/* Every node was counted but those that are shared by types. */
	s.stack = mem_calloc(c->nnodes + TYPE_ANY + 1, sizeof *s.stack);
	for (size_t i = 0; i < c->nrefs && !rc; i++)
		if (c->refs[i].from && has_circle(&s, c->refs[i].from)) {
			str_puts(&c->pointer, c->refs[i].pointer);
			rc = compile_fail(c, ERR_INVALID, "refers to itself without going into the value");
		}
	map_free(&s.state);
	free(s.stack);
	return rc;
}
