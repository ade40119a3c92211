/* A schema to a program: the walk over subschemas, references between them, alternatives told apart by a member, what
 * nodes share, the limits.  Any thread; a compiled schema is never changed again. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/map.h"
#include "base/mem.h"
#include "json/direct.h"

#include "compile_int.h"

/* --- References from one subschema to another */

/* Targets are compiled after the walk, one by one, so that a chain of references costs no stack; then circles that
 * would never reach into the value are looked for. */

static void compile_add_pending(struct compiler *c, const struct pending *p)
{
	if (c->nrefs == c->refs_cap) {
		c->refs_cap = c->refs_cap ? c->refs_cap * 2 : 16;
		c->refs = mem_realloc(c->refs, c->refs_cap * sizeof(*c->refs));
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
	struct jump *jump = compile_take(c, sizeof(*jump));
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

static int compile_pending_refs(struct compiler *c)
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

static int compile_check_circles(struct compiler *c)
{
	struct search s = { .depth = 0 };
	int rc = 0;

	s.state = map_new();
	/* Every node was counted but those that are shared by types. */
	s.stack = mem_calloc(c->nnodes + TYPE_ANY + 1, sizeof(*s.stack));
	for (size_t i = 0; i < c->nrefs && !rc; i++)
		if (c->refs[i].from && has_circle(&s, c->refs[i].from)) {
			str_puts(&c->pointer, c->refs[i].pointer);
			rc = compile_fail(c, ERR_INVALID, "refers to itself without going into the value");
		}
	map_free(&s.state);
	free(s.stack);
	return rc;
}

/* --- Alternatives told apart by one member */

/* Where most of anyOf or oneOf ask for a string out of a set in the same property ("kind", "type"), a look at that
 * member rules out all but a few of them. */

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
	const struct property *p = o ? schema_find_name(&o->index, o->props, sizeof(*o->props), name->p, name->len)
		: NULL;

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

/* Once there are no circles: what tells alternatives apart. */
static int compile_guards(struct compiler *c)
{
	int rc = 0;

	for (struct logic *l = c->logics; l && !rc; l = l->before) {
		rc = guard_list(c, &l->any);
		if (!rc)
			rc = guard_list(c, &l->one);
	}
	return rc;
}

/* --- the walk over a schema */

#define PLACES_PER_NODE 8       /* in documents that are only partly compiled */

/* NODES */

/* Schemas that only name types are many and alike: one node for each set of types. */
static int node_of_types(struct compiler *c, unsigned types, const struct node **ret)
{
	struct node *n = c->by_type[types];

	if (!n) {
		n = compile_take(c, sizeof(*n));
		if (!n)
			return compile_fail_memory(c);
		n->types = (uint8_t)types;
		n->never = types == 0;
		n->plain = true;
		n->kind = c->direct ? NODE_PLAIN : NODE_FULL;
		c->by_type[types] = n;
	}
	*ret = n;
	return 0;
}

static bool is_plain(const struct node *n)
{
	return !n->constants && !n->num && !n->str && !n->arr && !n->obj && !n->logic && !n->rest && !n->jump;
}

/* A resource with dynamic anchors is remembered by its nodes; the anchors' schemas are needed from then on. */
static int find_home(struct compiler *c, struct resource *in, const struct home **ret)
{
	struct home *h = in->home;
	int rc = 0;

	*ret = h;
	if (h || !in->ndynamic)
		return 0;
	h = compile_take(c, sizeof(*h));
	if (h)
		h->anchors = compile_take(c, in->ndynamic * sizeof(*h->anchors));
	if (!h || !h->anchors)
		return compile_fail_memory(c);
	for (; h->n < in->ndynamic && !rc; h->n++) {
		const char *name = in->dynamic[h->n].p;
		struct pending p = { .slot = &h->anchors[h->n].node, .in = in, .pointer = mem_strdup(in->place) };

		p.target = *name ? map_get_z(in->anchors, name) : in->doc;
		h->anchors[h->n].name = arena_strdup(c->mem, name);
		if (!h->anchors[h->n].name)
			rc = compile_fail_memory(c);
		compile_add_pending(c, &p);
	}
	in->home = h;
	*ret = h;
	return rc;
}

static enum node_kind kind_of(const struct compiler *c, const struct node *n)
{
	const struct constants *set = n->constants;

	if (!c->direct || n->deep || n->jump || (n->arr && n->arr->contains) ||
	    (n->obj && (n->obj->npatterns || n->obj->names || n->obj->ndependents)))
		return NODE_FULL;
	if (set && set->strings && !set->next && !n->str && !n->same_value && (n->types & TYPE_STRING))
		return NODE_STRINGS;
	if (set || n->same_value)
		return NODE_QUICK;
	if (n->obj && (n->types & TYPE_OBJECT))
		return NODE_OBJECT;
	return n->arr && (n->types & TYPE_ARRAY) ? NODE_ARRAY : NODE_QUICK;
}

static int keep_node(struct compiler *c, const struct node *built, const json_t *doc, const struct node **ret)
{
	struct reading *reading = c->reading;
	struct place *place;
	struct node *n;

	if (is_plain(built) && !reading->nrefs && !built->home)
		return node_of_types(c, built->types, ret);
	n = arena_dup(c->mem, built, sizeof(*built));
	if (!n)
		return compile_fail_memory(c);
	n->deep = n->home || n->rest;
	n->same_value = n->jump || n->logic || reading->nrefs;
	n->nests = n->deep || n->same_value || n->obj || n->arr;
	n->kind = kind_of(c, n);
	n->only_ref = is_plain(n) && !n->home && n->types == TYPE_ANY;
	place = map_get_u64(c->places, (uintptr_t)doc);
	place->node = n;
	*ret = n;
	for (size_t i = 0; i < reading->nrefs; i++) {
		struct pending *p = &reading->refs[i];

		p->from = n;
		if (!p->slot)
			p->slot = &n->ref;
		compile_add_pending(c, p);
	}
	reading->nrefs = 0;
	return 0;
}

static int read_members(struct compiler *c, const json_t *doc, struct node *n)
{
	json_t *obj = (json_t *)(uintptr_t)doc; /* jansson iterates without const */
	bool alone = compile_is(c, D4 | D6 | D7) && json_is_string(json_object_get(doc, "$ref"));
	int rc = find_home(c, c->in, &n->home);

	for (void *it = json_object_iter(obj); it && !rc; it = json_object_iter_next(obj, it)) {
		const char *name = json_object_iter_key(it);
		size_t mark;

		/* Up to draft-07 what stands beside a $ref does not count. */
		if (alone && strcmp(name, "$ref") != 0)
			continue;
		mark = compile_enter(c, name);
		rc = compile_keyword(c, n, name, json_object_iter_value(it));
		compile_leave(c, mark);
	}
	if (!rc && n->obj)
		rc = compile_finish_object(c, n->obj);
	return rc;
}

static int compile_object(struct compiler *c, const json_t *doc, const struct node **ret)
{
	const struct place *place = map_get_u64(c->places, (uintptr_t)doc);
	struct reading reading = { .object = doc }, *outer = c->reading;
	struct resource *outer_in = c->in;
	struct node n = { .types = TYPE_ANY };
	int rc;

	if (!place)
		return compile_fail(c, ERR_INTERNAL, "a subschema was not walked over");
	if (place->node) {
		*ret = place->node;
		return 0;
	}
	if (++c->nnodes > c->nodes_max)
		return compile_fail(c, ERR_LIMIT, "more than %zu subschemas", c->nodes_max);
	if (c->depth == SCHEMA_DEPTH_MAX)
		return compile_fail(c, ERR_LIMIT, "subschemas are nested deeper than %d levels", SCHEMA_DEPTH_MAX);
	c->depth++;
	c->reading = &reading;
	c->in = place->in;
	rc = read_members(c, doc, &n);
	if (!rc)
		rc = keep_node(c, &n, doc, ret);
	for (size_t i = 0; i < reading.nrefs; i++)
		free(reading.refs[i].pointer);
	c->in = outer_in;
	c->reading = outer;
	c->depth--;
	return rc;
}

int compile_schema(struct compiler *c, const json_t *doc, const struct node **ret)
{
	if (json_is_boolean(doc))
		return node_of_types(c, json_is_true(doc) ? TYPE_ANY : 0, ret);
	if (!json_is_object(doc))
		return compile_fail(c, ERR_INVALID, "a schema must be an object, true or false");
	return compile_object(c, doc, ret);
}

int compile_list(struct compiler *c, const json_t *doc, struct node_list *ret)
{
	size_t n = json_array_size(doc);
	int rc = 0;

	if (!json_is_array(doc) || n == 0)
		return compile_fail(c, ERR_INVALID, "must be an array with at least one schema");
	ret->nodes = compile_take(c, n * sizeof(*ret->nodes));
	if (!ret->nodes)
		return compile_fail_memory(c);
	for (ret->n = 0; ret->n < n && !rc; ret->n++) {
		size_t mark = compile_enter_index(c, ret->n);

		rc = compile_schema(c, json_array_get(doc, ret->n), &ret->nodes[ret->n]);
		compile_leave(c, mark);
	}
	return rc;
}

/* THE WHOLE */

static int check_size(struct compiler *c)
{
	struct str text;
	bool over;

	str_init(&text, c->text_max);
	jx_write(c->doc, &text);
	over = text.failed;
	str_fini(&text);
	return over ? compile_fail(c, ERR_LIMIT, "the schema is longer than %zu KiB", c->text_max >> 10) : 0;
}

static int compile_all(struct compiler *c)
{
	const struct dialect usual = dialect_default();
	int rc = check_size(c);

	if (!rc)
		rc = resource_add_document(c, c->doc, NULL, &usual, &c->in);
	if (!rc)
		rc = compile_schema(c, c->doc, &c->s->root);
	if (!rc)
		rc = compile_pending_refs(c);
	if (!rc)
		rc = compile_check_circles(c);
	if (!rc)
		rc = compile_guards(c);
	return rc;
}

static void compiler_fini(struct compiler *c)
{
	for (size_t i = 0; i < c->nrefs; i++)
		free(c->refs[i].pointer);
	free(c->refs);
	resource_free_all(c);
	map_free(&c->places);
	map_free(&c->by_uri);
	arena_free(&c->scratch);
	str_fini(&c->pointer);
}

int schema_compile_with(const json_t *doc, const struct schema_options *options, struct schema **ret,
			struct err *err)
{
	struct compiler c = { .doc = doc, .options = *options, .sub_of = keyword_sub, .err = err, .pointer = STR_INIT };
	size_t scale = options->scale ? options->scale : 1;
	int rc;

	c.text_max = scale * SCHEMA_TEXT_MAX;
	c.nodes_max = scale * SCHEMA_NODES_MAX;
	c.direct = jx_direct_fits();
	c.s = mem_zalloc(sizeof(*c.s));
	c.mem = c.s->mem = arena_new(scale * SCHEMA_MEMORY_MAX);
	c.scratch = arena_new(c.nodes_max * PLACES_PER_NODE * sizeof(struct place));
	c.places = map_new();
	c.by_uri = map_new();
	c.last_resource = &c.resources;
	id_random(c.seed, sizeof(c.seed));
	c.seed[0] |= 1;
	c.seed[1] |= 1;
	str_puts(&c.pointer, "");
	rc = compile_all(&c);
	compiler_fini(&c);
	if (rc)
		schema_free(&c.s);
	else
		*ret = c.s;
	return rc;
}

int schema_compile(const json_t *doc, struct schema **ret, struct err *err)
{
	const struct schema_options usual = { .lenient = false };

	return schema_compile_with(doc, &usual, ret, err);
}

void schema_free(struct schema **s)
{
	if (!*s)
		return;
	arena_free(&(*s)->mem);
	free(*s);
	*s = NULL;
}

size_t schema_memory(const struct schema *s)
{
	return sizeof(*s) + arena_used(s->mem);
}
