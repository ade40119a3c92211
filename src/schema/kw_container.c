/* Keywords of arrays and objects, and those that combine schemas. */
#include "config.h"

#include "keywords_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define NEEDED_MAX 64           /* bits of a word */

/* ARRAYS */

struct arr_rules *compile_arr(struct compiler *c, struct node *n)
{
	if (!n->arr) {
		n->arr = compile_take(c, sizeof *n->arr);
		if (n->arr) {
			n->arr->marks = compile_is(c, D2020);
			n->arr->max = n->arr->max_contains = SIZE_MAX;
			n->arr->min_contains = 1;
		}
	}
	return n->arr;
}

int kw_arr_count(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct arr_rules *rules = compile_arr(c, n);

	if (!rules)
		return compile_fail_memory(c);
	return kw_read_count(c, v, (size_t *)(void *)((char *)rules + kw->offset));
}

int kw_arr_schema(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct arr_rules *rules = compile_arr(c, n);

	if (!rules)
		return compile_fail_memory(c);
	return compile_schema(c, v, (const struct node **)(void *)((char *)rules + kw->offset));
}

int kw_unique(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct arr_rules *rules = compile_arr(c, n);

	if (!json_is_boolean(v))
		return compile_fail(c, ERR_INVALID, "must be true or false");
	if (!rules)
		return compile_fail_memory(c);
	rules->unique = json_is_true(v);
	return 0;
}

int kw_prefix(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct arr_rules *rules = compile_arr(c, n);

	return rules ? compile_list(c, v, &rules->prefix) : compile_fail_memory(c);
}

int kw_items(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct arr_rules *rules = compile_arr(c, n);

	if (!rules)
		return compile_fail_memory(c);
	if (!json_is_array(v))
		return compile_schema(c, v, &rules->items);
	rules->old_items = !compile_is(c, D2020);
	if (rules->old_items)
		return json_array_size(v) ? compile_list(c, v, &rules->prefix) : 0;
	(void)compile_fail(c, ERR_INVALID, "a list of schemas belongs to 2019-09, this schema is 2020-12");
	err_hint(c->err, "use prefixItems");
	return ERR_INVALID;
}

/* Counts only beside a list in items. */
int kw_additional_items(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct arr_rules *rules = compile_arr(c, n);
	const struct node *unused;

	if (!rules)
		return compile_fail_memory(c);
	return compile_schema(c, v, json_is_array(json_object_get(c->reading->object, "items")) ? &rules->items : &unused);
}

/* OBJECTS */

struct obj_rules *compile_obj(struct compiler *c, struct node *n)
{
	if (!n->obj) {
		n->obj = compile_take(c, sizeof *n->obj);
		if (n->obj)
			n->obj->max = SIZE_MAX;
	}
	return n->obj;
}

int kw_rest(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	if (!n->rest)
		n->rest = compile_take(c, sizeof *n->rest);
	if (!n->rest)
		return compile_fail_memory(c);
	return compile_schema(c, v, (const struct node **)(void *)((char *)n->rest + kw->offset));
}

int kw_obj_count(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct obj_rules *rules = compile_obj(c, n);

	if (!rules)
		return compile_fail_memory(c);
	return kw_read_count(c, v, (size_t *)(void *)((char *)rules + kw->offset));
}

int kw_obj_schema(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct obj_rules *rules = compile_obj(c, n);

	if (!rules)
		return compile_fail_memory(c);
	return compile_schema(c, v, (const struct node **)(void *)((char *)rules + kw->offset));
}

int schema_order_names(const struct name *a, const struct name *b)
{
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	return memcmp(a->p, b->p, a->len);
}

static int order_names(const void *a, const void *b)
{
	return schema_order_names(a, b);
}

static int copy_name(struct compiler *c, const char *p, size_t len, struct name *ret)
{
	ret->len = len;
	ret->p = arena_strndup(c->mem, p, len);
	return ret->p ? 0 : compile_fail_memory(c);
}

/* A list of different names; they keep their order. */
int compile_names(struct compiler *c, const json_t *doc, struct name_list *ret)
{
	size_t n = json_array_size(doc);
	struct name *sorted;
	int rc = 0;

	if (!json_is_array(doc))
		return compile_fail(c, ERR_INVALID, "must be an array of names");
	ret->names = compile_take(c, (n + 1) * sizeof *ret->names);
	if (!ret->names)
		return compile_fail_memory(c);
	for (ret->n = 0; ret->n < n && !rc; ret->n++) {
		const json_t *name = json_array_get(doc, ret->n);

		if (json_is_string(name))
			rc = copy_name(c, json_string_value(name), json_string_length(name), &ret->names[ret->n]);
		else
			rc = compile_fail(c, ERR_INVALID, "must be an array of names");
	}
	if (rc || n == 0)
		return rc;
	sorted = mem_dup(ret->names, n * sizeof *sorted);
	qsort(sorted, n, sizeof *sorted, order_names);
	for (size_t i = 1; i < n && !rc; i++)
		if (order_names(&sorted[i - 1], &sorted[i]) == 0)
			rc = compile_fail(c, ERR_INVALID, "\"%.80s\" is listed twice", sorted[i].p);
	free(sorted);
	return rc;
}

int compile_index(struct compiler *c, const void *items, size_t stride, size_t n, struct name_index *ret)
{
	struct name_index x = { .shift = 63 };
	struct name_slot *slots;

	if (!n)
		return 0;
	while (((size_t)1 << (64 - x.shift)) < 2 * n)
		x.shift--;
	slots = compile_take(c, sizeof *slots << (64 - x.shift));
	if (!slots)
		return compile_fail_memory(c);
	x.slots = slots;
	x.seed[0] = c->seed[0];
	x.seed[1] = c->seed[1];
	for (size_t i = 0; i < n; i++) {
		const struct name *name = (const void *)((const char *)items + i * stride);
		const struct name_key k = schema_name_key(name->p, name->len);
		size_t at = schema_name_slot(&x, k, name->len);

		while (slots[at].item)
			at = (at + 1) & (((size_t)1 << (64 - x.shift)) - 1);
		slots[at] = (struct name_slot){ k.head, k.tail, (uint32_t)name->len, (uint32_t)i + 1 };
	}
	*ret = x;
	return 0;
}

int kw_required(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct obj_rules *rules = compile_obj(c, n);

	return rules ? compile_names(c, v, &rules->required) : compile_fail_memory(c);
}

/* Names that are only required get an entry too, behind the others. */
static int make_properties(struct compiler *c, struct obj_rules *rules, size_t n)
{
	n += json_array_size(json_object_get(c->reading->object, "required"));
	if (!rules->props)
		rules->props = compile_take(c, (n + 1) * sizeof *rules->props);
	return rules->props ? 0 : ERR_LIMIT;
}

int kw_properties(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	json_t *obj = (json_t *)(uintptr_t)v;   /* jansson iterates without const */
	struct obj_rules *rules = compile_obj(c, n);
	int rc = 0;

	if (!json_is_object(v))
		return compile_fail(c, ERR_INVALID, "must be an object of schemas");
	if (!rules || make_properties(c, rules, json_object_size(v)) != 0)
		return compile_fail_memory(c);
	for (void *it = json_object_iter(obj); it && !rc; it = json_object_iter_next(obj, it)) {
		struct property *p = &rules->props[rules->nprops++];
		size_t mark = compile_enter(c, json_object_iter_key(it));

		rc = copy_name(c, json_object_iter_key(it), json_object_iter_key_len(it), &p->name);
		if (!rc)
			rc = compile_schema(c, json_object_iter_value(it), &p->node);
		compile_leave(c, mark);
	}
	return rc;
}

int kw_pattern_properties(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	json_t *obj = (json_t *)(uintptr_t)v;   /* jansson iterates without const */
	struct obj_rules *rules = compile_obj(c, n);
	int rc = 0;

	if (!json_is_object(v))
		return compile_fail(c, ERR_INVALID, "must be an object of schemas");
	if (rules)
		rules->patterns = compile_take(c, (json_object_size(v) + 1) * sizeof *rules->patterns);
	if (!rules || !rules->patterns)
		return compile_fail_memory(c);
	for (void *it = json_object_iter(obj); it && !rc; it = json_object_iter_next(obj, it)) {
		struct pattern_property *p = &rules->patterns[rules->npatterns++];
		size_t mark = compile_enter(c, json_object_iter_key(it));

		rc = kw_read_pattern(c, json_object_iter_key(it), json_object_iter_key_len(it), &p->re);
		if (!rc)
			rc = compile_schema(c, json_object_iter_value(it), &p->node);
		compile_leave(c, mark);
	}
	return rc;
}

/* The first names that are required have a bit each, so that one walk over the members finds them all. */
static void note_required(struct obj_rules *o)
{
	size_t known = o->nprops;

	for (size_t i = 0; i < o->required.n && i < NEEDED_MAX; i++) {
		const struct name *name = &o->required.names[i];
		struct property *p = o->props;

		while (p < o->props + known && schema_order_names(&p->name, name) != 0)
			p++;
		if (p == o->props + known)
			p = &o->props[o->nprops++];
		p->name = *name;
		p->needed = (uint64_t)1 << i;
		o->needed |= p->needed;
		o->nneeded++;
	}
}

int compile_finish_object(struct compiler *c, struct obj_rules *o)
{
	bool any = o->npatterns || o->additional || o->names;

	o->walk = o->nprops || any;
	o->sparse = !any;
	if (o->walk) {
		if (make_properties(c, o, 0) != 0)
			return compile_fail_memory(c);
		note_required(o);
	}
	return compile_index(c, o->props, sizeof *o->props, o->nprops, &o->index);
}

/* The entry for a name: dependentRequired and dependentSchemas may both have one. */
static int find_dependent(struct compiler *c, struct obj_rules *rules, const char *p, size_t len,
			  struct dependent **ret)
{
	const struct name name = { p, len };

	for (size_t i = 0; i < rules->ndependents; i++)
		if (schema_order_names(&rules->dependents[i].name, &name) == 0) {
			*ret = &rules->dependents[i];
			return 0;
		}
	*ret = &rules->dependents[rules->ndependents++];
	return copy_name(c, p, len, &(*ret)->name);
}

static int make_dependents(struct compiler *c, struct obj_rules *rules)
{
	static const char *const keywords[] = { "dependencies", "dependentRequired", "dependentSchemas" };
	size_t n = 1;

	for (size_t i = 0; i < NELEMS(keywords); i++)
		n += json_object_size(json_object_get(c->reading->object, keywords[i]));
	if (!rules->dependents)
		rules->dependents = compile_take(c, n * sizeof *rules->dependents);
	return rules->dependents ? 0 : compile_fail_memory(c);
}

/* An array is a list of names, anything else a schema; draft-07 has both in one keyword. */
int kw_dependents(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	json_t *obj = (json_t *)(uintptr_t)v;   /* jansson iterates without const */
	struct obj_rules *rules = compile_obj(c, n);
	bool names = strcmp(kw->name, "dependentRequired") == 0, schemas = strcmp(kw->name, "dependentSchemas") == 0;
	int rc;

	if (!json_is_object(v))
		return compile_fail(c, ERR_INVALID, "must be an object");
	if (!rules)
		return compile_fail_memory(c);
	rules->old_dependencies = !names && !schemas;
	rc = make_dependents(c, rules);
	for (void *it = json_object_iter(obj); it && !rc; it = json_object_iter_next(obj, it)) {
		const json_t *child = json_object_iter_value(it);
		size_t mark = compile_enter(c, json_object_iter_key(it));
		struct dependent *d = NULL;

		rc = find_dependent(c, rules, json_object_iter_key(it), json_object_iter_key_len(it), &d);
		if (!rc && (names || (!schemas && json_is_array(child))))
			rc = compile_names(c, child, &d->required);
		else if (!rc)
			rc = compile_schema(c, child, &d->node);
		compile_leave(c, mark);
	}
	return rc;
}

/* LOGIC */

struct logic *compile_logic(struct compiler *c, struct node *n)
{
	if (!n->logic) {
		n->logic = compile_take(c, sizeof *n->logic);
		if (n->logic) {
			n->logic->before = c->logics;
			c->logics = n->logic;
		}
	}
	return n->logic;
}

int kw_logic_list(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct logic *l = compile_logic(c, n);

	if (!l)
		return compile_fail_memory(c);
	return compile_list(c, v, (struct node_list *)(void *)((char *)l + kw->offset));
}

int kw_logic_schema(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct logic *l = compile_logic(c, n);

	if (!l)
		return compile_fail_memory(c);
	return compile_schema(c, v, (const struct node **)(void *)((char *)l + kw->offset));
}

/* Compiled though nothing may refer to them: what is not supported is refused, never skipped. */
int kw_definitions(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	json_t *obj = (json_t *)(uintptr_t)v;   /* jansson iterates without const */
	const struct node *unused;
	int rc = 0;

	if (!json_is_object(v))
		return compile_fail(c, ERR_INVALID, "must be an object of schemas");
	for (void *it = json_object_iter(obj); it && !rc; it = json_object_iter_next(obj, it)) {
		size_t mark = compile_enter(c, json_object_iter_key(it));

		rc = compile_schema(c, json_object_iter_value(it), &unused);
		compile_leave(c, mark);
	}
	return rc;
}
