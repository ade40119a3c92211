/* Alternatives told apart by one member: where most of anyOf or oneOf ask for a string out of a set in the
 * same property ("kind", "type"), a look at that member rules out all but a few of them. */
#include "config.h"

#include "compile_int.h"

#include "base/mem.h"

static const struct node *behind_refs(const struct node *n)
{
	while (n->only_ref)
		n = n->ref;
	return n;
}

/* The strings that a property may be, or NULL when it may be something else. */
static const struct constants *strings_of(const struct node *n)
{
	const struct constants *set = n ? behind_refs(n)->constants : NULL;

	while (set && !set->strings)
		set = set->next;
	return set;
}

static const struct constants *strings_of_property(const struct node *n, const struct name *name)
{
	const struct obj_rules *o = behind_refs(n)->obj;
	const struct property *p = o ? schema_find_name(&o->index, o->props, sizeof *o->props, name->p, name->len) : NULL;

	return p ? strings_of(p->node) : NULL;
}

static size_t count_alternatives(const struct node_list *list, const struct name *name)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++)
		n += strings_of_property(list->nodes[i], name) != NULL;
	return n;
}

static int guard_list(struct compiler *c, struct node_list *list)
{
	const struct obj_rules *first = NULL;
	const struct name *best = NULL;
	const struct constants **sets;
	size_t most = 1;

	for (size_t i = 0; i < list->n && !first; i++)
		first = behind_refs(list->nodes[i])->obj;
	for (size_t i = 0; first && i < first->nprops; i++) {
		size_t n = strings_of(first->props[i].node) ? count_alternatives(list, &first->props[i].name) : 0;

		if (n > most) {
			most = n;
			best = &first->props[i].name;
		}
	}
	if (!best)
		return 0;
	sets = compile_take(c, list->n * sizeof(const struct constants *));
	if (!sets)
		return compile_fail_memory(c);
	for (size_t i = 0; i < list->n; i++)
		sets[i] = strings_of_property(list->nodes[i], best);
	list->guard = best;
	list->sets = sets;
	return 0;
}

int compile_guards(struct compiler *c)
{
	int rc = 0;

	for (struct logic *l = c->logics; l && !rc; l = l->before) {
		rc = guard_list(c, &l->any);
		if (!rc)
			rc = guard_list(c, &l->one);
	}
	return rc;
}
