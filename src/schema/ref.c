/* $ref: inside of the document only, nothing is fetched (MCP Q-05).  Targets are compiled after the walk,
 * one by one, so that a chain of references costs no stack; then circles that would never reach into the
 * value are looked for. */
#include "config.h"

#include "compile_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undo %xx in place of a copy; NULL when one is broken or hides U+0000. */
static char *decode_fragment(const char *p)
{
	char *copy = mem_strdup(p), *to = copy;

	for (; *p; p++) {
		*to = *p;
		if (*p == '%') {
			int high = hex(p[1]), low = high < 0 ? -1 : hex(p[2]);

			if (low < 0 || (high | low) == 0) {
				free(copy);
				return NULL;
			}
			*to = (char)(high << 4 | low);
			p += 2;
		}
		to++;
	}
	*to = '\0';
	return copy;
}

/* The fragment of a reference that stays in the document, or NULL. */
static const char *local_fragment(const struct compiler *c, const char *uri)
{
	size_t n = c->id ? strcspn(c->id, "#") : 0;

	if (n && strncmp(uri, c->id, n) == 0 && (uri[n] == '#' || uri[n] == '\0'))
		uri += n;
	else if (*uri != '#')
		return NULL;
	return *uri ? uri + 1 : uri;
}

static void add_pending(struct compiler *c, const json_t *target, char *pointer)
{
	if (c->nrefs == c->refs_cap) {
		c->refs_cap = c->refs_cap ? c->refs_cap * 2 : 16;
		c->refs = mem_realloc(c->refs, c->refs_cap * sizeof *c->refs);
	}
	c->refs[c->nrefs++] = (struct pending_ref){ .target = target, .pointer = pointer };
}

/* The entry is the node's once it is made: see compile_add_ref(). */
int compile_ref(struct compiler *c, const json_t *v)
{
	const char *uri = json_string_value(v), *fragment;
	char *pointer;

	if (!uri)
		return compile_fail(c, ERR_INVALID, "must be a string");
	fragment = local_fragment(c, uri);
	if (!fragment)
		return compile_fail(c, ERR_INVALID, "\"%.120s\" leads out of the schema, nothing is fetched: put it "
				    "into $defs and refer to \"#/$defs/...\"", uri);
	pointer = decode_fragment(fragment);
	if (!pointer)
		return compile_fail(c, ERR_INVALID, "\"%.120s\" has a broken %% escape", uri);
	if (*pointer && *pointer != '/') {
		free(pointer);
		return compile_fail(c, ERR_INVALID, "\"%.120s\": anchors are not supported, use a JSON pointer", uri);
	}
	c->ref_target = jx_at(c->doc, pointer);
	if (!c->ref_target) {
		free(pointer);
		return compile_fail(c, ERR_INVALID, "\"%.120s\" leads nowhere in this schema", uri);
	}
	add_pending(c, c->ref_target, pointer);
	return 0;
}

int compile_add_ref(struct compiler *c, struct node *from)
{
	/* Subschemas beside the $ref may have added theirs behind it. */
	for (size_t i = c->nrefs; i-- > 0;)
		if (!c->refs[i].from && c->refs[i].target == c->ref_target) {
			c->refs[i].from = from;
			return 0;
		}
	return compile_fail(c, ERR_INTERNAL, "a reference was lost");
}

int compile_pending_refs(struct compiler *c)
{
	int rc = 0;

	/* nrefs grows meanwhile: targets may have references of their own. */
	for (size_t i = 0; i < c->nrefs && !rc; i++) {
		compile_leave(c, 0);
		str_puts(&c->pointer, c->refs[i].pointer);
		rc = compile_schema(c, c->refs[i].target, &c->refs[i].from->ref);
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
		if (has_circle(&s, c->refs[i].from)) {
			str_puts(&c->pointer, c->refs[i].pointer);
			rc = compile_fail(c, ERR_INVALID, "refers to itself without going into the value");
		}
	map_free(&s.state);
	free(s.stack);
	return rc;
}
