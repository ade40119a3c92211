/* The rules for arrays and objects.  An object is walked over once: each member finds its property by an
 * index, and a word of bits notes which of the required ones have come by. */
#include "config.h"

#include "run_int.h"

struct member {
	const char *name;
	size_t len;
	const json_t *v;
	struct name_key key;
};

/* ARRAYS */

static bool check_elements(struct run *r, const struct arr_rules *rules, const json_t *v, const struct spot *at)
{
	size_t n = json_array_size(v), i = 0;
	struct spot in = { .up = at, .keyword = rules->old_items ? "items" : "prefixItems", .element = true,
			   .has_index = true };
	bool ok = true;

	for (; i < n && i < rules->prefix.n && (ok || !run_is_over(r)); i++) {
		in.index = in.child_index = (uint32_t)i;
		ok &= run_check_child(r, rules->prefix.nodes[i], json_array_get(v, i), &in);
		run_mark(r, i);
	}
	if (!rules->items)
		return ok;
	in.keyword = rules->old_items && rules->prefix.n ? "additionalItems" : "items";
	in.has_index = false;
	for (; i < n && (ok || !run_is_over(r)); i++) {
		in.child_index = (uint32_t)i;
		ok &= run_check_child(r, rules->items, json_array_get(v, i), &in);
		run_mark(r, i);
	}
	return ok;
}

static bool check_contains(struct run *r, const struct arr_rules *rules, const json_t *v, const struct spot *at)
{
	const struct spot in = { .up = at, .keyword = "contains" };
	size_t enough = rules->max_contains == SIZE_MAX ? rules->min_contains : rules->max_contains + 1, found = 0;

	if (r->marks && rules->marks)
		enough = SIZE_MAX;
	for (size_t i = 0; i < json_array_size(v) && found < enough && !r->spent; i++) {
		if (!run_check_child_quietly(r, rules->contains, json_array_get(v, i), &in))
			continue;
		found++;
		if (rules->marks)
			run_mark(r, i);
	}
	if (found < rules->min_contains)
		return run_fail(r, at, rules->min_contains == 1 ? "contains" : "minContains",
				"must contain at least %zu matching element%s", rules->min_contains,
				rules->min_contains == 1 ? "" : "s");
	if (found > rules->max_contains)
		return run_fail(r, at, "maxContains", "must contain at most %zu matching element%s",
				rules->max_contains, rules->max_contains == 1 ? "" : "s");
	return true;
}

bool run_array(struct run *r, const struct arr_rules *rules, const json_t *v, const struct spot *at)
{
	size_t n = json_array_size(v), a, b;
	bool ok = run_pay(r, n / 8);

	if (n < rules->min)
		ok = run_fail(r, at, "minItems", "must have at least %zu element%s", rules->min,
			      rules->min == 1 ? "" : "s");
	if (n > rules->max)
		ok = run_fail(r, at, "maxItems", "must have at most %zu element%s", rules->max,
			      rules->max == 1 ? "" : "s");
	if (rules->unique && n > 1 && (ok || !run_is_over(r)) && run_find_equal(r, v, &a, &b))
		ok = run_fail(r, at, "uniqueItems", "must not have equal elements, but %zu and %zu are", a, b);
	if ((rules->items || rules->prefix.n) && (ok || !run_is_over(r)))
		ok &= check_elements(r, rules, v, at);
	if (rules->contains && (ok || !run_is_over(r)))
		ok &= check_contains(r, rules, v, at);
	return ok;
}

/* OBJECTS */

static bool check_additional(struct run *r, const struct obj_rules *rules, const struct member *m,
			     const struct spot *at)
{
	const struct spot in = { .up = at, .keyword = "additionalProperties", .child = m->name };

	if (rules->additional->never)
		return run_fail_unknown(r, &in, rules);
	return run_check_child(r, rules->additional, m->v, &in);
}

static bool check_name(struct run *r, const struct node *n, const struct member *m, const struct spot *at)
{
	const struct spot in = { .up = at, .keyword = "propertyNames", .child = m->name };
	json_t *name = json_stringn_nocheck(m->name, m->len);
	bool ok = run_check_child_quietly(r, n, name, &in);

	json_decref(name);
	return ok || run_fail(r, &in, NULL, "the name is not allowed here");
}

static bool check_patterns(struct run *r, const struct obj_rules *rules, const struct member *m,
			   const struct spot *at, bool *known)
{
	struct spot in = { .up = at, .keyword = "patternProperties", .child = m->name };
	bool ok = true;

	for (size_t i = 0; i < rules->npatterns && (ok || !run_is_over(r)); i++) {
		const struct pattern_property *pp = &rules->patterns[i];

		in.name = regex_source(pp->re);
		if (!run_match(r, pp->re, m->name, m->len, &in))
			continue;
		*known = true;
		ok &= run_check_child(r, pp->node, m->v, &in);
	}
	return ok;
}

static inline bool check_property(struct run *r, const struct property *p, const struct member *m, const struct spot *at)
{
	if (!r->report)
		return run_check_child(r, p->node, m->v, NULL);
	return run_check_child(r, p->node, m->v, &(const struct spot){
		.up = at, .keyword = "properties", .name = m->name, .child = m->name });
}

/* *ret_known: some keyword has looked at the value, as unevaluatedProperties understands it. */
static inline bool check_member(struct run *r, const struct obj_rules *rules, const struct member *m,
			 const struct spot *at, uint64_t *seen, bool *ret_known)
{
	const struct property *p = schema_find_key(&rules->index, rules->props, sizeof *rules->props, m->key, m->name,
						   m->len);
	bool known = false, ok = true;

	if (p) {
		*seen |= p->needed;
		known = p->node != NULL;
		if (known)
			ok = check_property(r, p, m, at);
	}
	*ret_known = known;
	if (rules->sparse || (!ok && run_is_over(r)))
		return ok;
	if (rules->npatterns)
		ok &= check_patterns(r, rules, m, at, &known);
	*ret_known = known || rules->additional;
	if (rules->additional && !known && (ok || !run_is_over(r)))
		ok &= check_additional(r, rules, m, at);
	if (rules->names && (ok || !run_is_over(r)))
		ok &= check_name(r, rules->names, m, at);
	return ok;
}

static inline void take_member(void *it, struct member *ret)
{
	ret->name = json_object_iter_key(it);
	ret->len = json_object_iter_key_len(it);
	ret->v = json_object_iter_value(it);
	ret->key = schema_name_key(ret->name, ret->len);
}

/* The next member is on its way from memory while this one is checked. */
static bool walk_members(struct run *r, const struct obj_rules *rules, const json_t *v, const struct spot *at,
			 uint64_t *seen)
{
	json_t *obj = (json_t *)(uintptr_t)v;   /* jansson iterates without const */
	bool ok = true, known = false;
	size_t i = 0;

	for (void *it = json_object_iter(obj), *next; it && (ok || !run_is_over(r)); it = next) {
		struct member m;

		next = json_object_iter_next(obj, it);
		__builtin_prefetch(next);
		take_member(it, &m);
		ok &= run_pay(r, 1) && check_member(r, rules, &m, at, seen, &known);
		if (r->marks && known)
			run_mark(r, i);
		i++;
	}
	return ok;
}

static bool look_up_members(struct run *r, const struct obj_rules *rules, const json_t *v, const struct spot *at,
			    uint64_t *seen)
{
	bool ok = run_pay(r, rules->nprops);

	for (size_t i = 0; i < rules->nprops && (ok || !run_is_over(r)); i++) {
		const struct property *p = &rules->props[i];
		struct member m = { .name = p->name.p, .len = p->name.len };

		m.v = json_object_getn(v, m.name, m.len);
		if (!m.v)
			continue;
		*seen |= p->needed;
		if (p->node)
			ok &= check_property(r, p, &m, at);
	}
	return ok;
}

static bool check_required(struct run *r, const struct name_list *names, size_t from, const json_t *v,
			   const struct spot *at, const char *keyword, const char *because)
{
	bool ok = true;

	if (!run_pay(r, names->n / 4))
		return false;
	for (size_t i = from; i < names->n && (ok || !run_is_over(r)); i++)
		if (!json_object_getn(v, names->names[i].p, names->names[i].len))
			ok = run_fail_missing(r, at, keyword, &names->names[i], because);
	return ok;
}

static bool check_dependents(struct run *r, const struct obj_rules *rules, const json_t *v, const struct spot *at)
{
	bool old = rules->old_dependencies, ok = true;

	for (size_t i = 0; i < rules->ndependents && (ok || !run_is_over(r)); i++) {
		const struct dependent *d = &rules->dependents[i];
		const struct spot in = { .up = at, .keyword = old ? "dependencies" : "dependentSchemas",
					 .name = d->name.p };

		if (!run_pay(r, 1) || !json_object_getn(v, d->name.p, d->name.len))
			continue;
		ok &= check_required(r, &d->required, 0, v, at, old ? "dependencies" : "dependentRequired", d->name.p);
		if (d->node && (ok || !run_is_over(r)))
			ok &= run_check(r, d->node, v, &in);
	}
	return ok;
}

/* Who is asked for reasons looks for what is missing first: it is the first thing to say. */
static bool check_members(struct run *r, const struct obj_rules *rules, const json_t *v, const struct spot *at)
{
	bool asked = !run_is_over(r), ok = true;
	size_t from = asked || !rules->walk ? 0 : rules->nneeded;
	uint64_t seen = 0;

	if (rules->required.n > from)
		ok = check_required(r, &rules->required, from, v, at, "required", NULL);
	if (!rules->walk || (!ok && run_is_over(r)))
		return ok;
	if (!r->marks && run_looks_up(rules, json_object_size(v)))
		ok &= look_up_members(r, rules, v, at, &seen);
	else
		ok &= walk_members(r, rules, v, at, &seen);
	return ok && (asked || seen == rules->needed);
}

bool run_object(struct run *r, const struct obj_rules *rules, const json_t *v, const struct spot *at)
{
	size_t n = json_object_size(v);
	bool ok = true;

	if (n < rules->min)
		ok = run_fail(r, at, "minProperties", "must have at least %zu member%s", rules->min,
			      rules->min == 1 ? "" : "s");
	if (n > rules->max)
		ok = run_fail(r, at, "maxProperties", "must have at most %zu member%s", rules->max,
			      rules->max == 1 ? "" : "s");
	if ((rules->walk || rules->required.n) && (ok || !run_is_over(r)))
		ok &= check_members(r, rules, v, at);
	if (rules->ndependents && (ok || !run_is_over(r)))
		ok &= check_dependents(r, rules, v, at);
	return ok;
}
