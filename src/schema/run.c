/* A compiled schema over a value.  Recursion follows the nesting of value and schema and is counted; every
 * piece of work is paid from one budget.  A spent budget makes the value invalid, never valid, whatever
 * `not` would make of it. */
#include "config.h"

#include "run_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define RUN_DEPTH_MAX 1000      /* nodes inside of nodes: 64 levels of value times references between */

static bool check(struct run *r, const struct node *n, const json_t *v, const struct spot *at);

bool run_pay(struct run *r, size_t steps)
{
	r->steps += steps;
	if (r->steps > SCHEMA_STEPS_MAX)
		r->spent = true;
	return !r->spent;
}

/* Check in a corner where failures are no news. */
static bool check_quietly(struct run *r, const struct node *n, const json_t *v, const struct spot *at)
{
	bool ok;

	r->quiet++;
	ok = check(r, n, v, at);
	r->quiet--;
	return ok;
}

static bool match(struct run *r, const struct regex *re, const char *p, size_t len)
{
	size_t steps = 0;
	int rc = regex_match(re, p, len, &r->room, &steps);

	if (rc < 0)
		r->spent = true;
	return run_pay(r, steps) && rc == 1;
}

/* VALUES BY THEMSELVES */

static bool check_constants(struct run *r, const struct constants *set, const json_t *v, const struct spot *at)
{
	size_t steps = set->n / 16;
	uint64_t h;

	if (!(set->types & schema_type_bits(v)))
		return run_fail_constant(r, at, set);
	h = schema_hash(v, &steps);
	if (!run_pay(r, steps))
		return false;
	for (size_t i = 0; i < set->n; i++)
		if (set->hashes[i] == h && schema_constant_equal(&set->values[i], v))
			return true;
	return run_fail_constant(r, at, set);
}

static bool fail_bound(struct run *r, const struct spot *at, const char *keyword, const char *must, struct jx_number n)
{
	if (n.is_real)
		return run_fail(r, at, keyword, "%s %.15g", must, n.d);
	return run_fail(r, at, keyword, "%s %lld", must, (long long)n.i);
}

static bool check_number(struct run *r, const struct num_rules *rules, const json_t *v, const struct spot *at)
{
	struct jx_number n = jx_number(v);
	bool ok = true;

	if (rules->min.set && jx_compare(n, rules->min.n) < 0)
		ok = fail_bound(r, at, "minimum", "must be at least", rules->min.n);
	if (rules->max.set && jx_compare(n, rules->max.n) > 0)
		ok = fail_bound(r, at, "maximum", "must be at most", rules->max.n);
	if (rules->above.set && jx_compare(n, rules->above.n) <= 0)
		ok = fail_bound(r, at, "exclusiveMinimum", "must be greater than", rules->above.n);
	if (rules->below.set && jx_compare(n, rules->below.n) >= 0)
		ok = fail_bound(r, at, "exclusiveMaximum", "must be less than", rules->below.n);
	if (rules->step.set && !run_is_multiple(n, rules->step_digits))
		ok = fail_bound(r, at, "multipleOf", "must be a multiple of", rules->step.n);
	return ok;
}

static bool check_string(struct run *r, const struct str_rules *rules, const json_t *v, const struct spot *at)
{
	const char *p = json_string_value(v);
	size_t len = json_string_length(v), count;
	bool ok = true;

	if (rules->min > 0 || rules->max < len) {
		if (!run_pay(r, len / 64))
			return false;
		count = text_utf8_count(p, len);
		if (count < rules->min)
			ok = run_fail(r, at, "minLength", "must have at least %zu character%s", rules->min,
				      rules->min == 1 ? "" : "s");
		if (count > rules->max)
			ok = run_fail(r, at, "maxLength", "must have at most %zu character%s", rules->max,
				      rules->max == 1 ? "" : "s");
	}
	if (rules->pattern && !match(r, rules->pattern, p, len))
		ok = run_fail(r, at, "pattern", "must match the pattern %.200s", regex_source(rules->pattern));
	return ok;
}

/* ARRAYS */

static bool check_element(struct run *r, const struct node *n, const json_t *array, size_t i, struct spot at)
{
	at.element = true;
	at.child_index = i;
	return check(r, n, json_array_get(array, i), &at);
}

static bool check_elements(struct run *r, const struct arr_rules *rules, const json_t *v, const struct spot *at)
{
	const char *prefix = r->schema->draft7 ? "items" : "prefixItems";
	const char *rest = r->schema->draft7 && rules->prefix.n ? "additionalItems" : "items";
	bool ok = true;

	for (size_t i = 0; i < json_array_size(v) && (ok || !run_is_over(r)); i++) {
		if (i < rules->prefix.n)
			ok &= check_element(r, rules->prefix.nodes[i], v, i, (struct spot){
				.up = at, .keyword = prefix, .index = i, .has_index = true });
		else if (rules->items)
			ok &= check_element(r, rules->items, v, i, (struct spot){ .up = at, .keyword = rest });
		else
			break;
	}
	return ok;
}

static bool check_contains(struct run *r, const struct arr_rules *rules, const json_t *v, const struct spot *at)
{
	const struct spot in = { .up = at, .keyword = "contains" };
	size_t found = 0;

	for (size_t i = 0; i < json_array_size(v) && found <= rules->max_contains && !r->spent; i++)
		found += check_quietly(r, rules->contains, json_array_get(v, i), &in);
	if (found < rules->min_contains)
		return run_fail(r, at, rules->min_contains == 1 ? "contains" : "minContains",
				"must contain at least %zu matching element%s", rules->min_contains,
				rules->min_contains == 1 ? "" : "s");
	if (found > rules->max_contains)
		return run_fail(r, at, "maxContains", "must contain at most %zu matching elements",
				rules->max_contains);
	return true;
}

static bool check_array(struct run *r, const struct arr_rules *rules, const json_t *v, const struct spot *at)
{
	size_t n = json_array_size(v), a, b;
	bool ok = true;

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

struct member { const char *name; size_t len; const json_t *v; };

static bool check_member(struct run *r, const struct node *n, const struct member *m, struct spot at)
{
	at.member = true;
	at.child = m->name;
	return check(r, n, m->v, &at);
}

static bool check_additional(struct run *r, const struct obj_rules *rules, const struct member *m,
			     const struct spot *at)
{
	const struct spot in = { .up = at, .keyword = "additionalProperties", .member = true, .child = m->name };

	if (rules->additional->never)
		return run_fail_unknown(r, &in, rules);
	return check(r, rules->additional, m->v, &in);
}

static bool check_name(struct run *r, const struct node *n, const struct member *m, const struct spot *at)
{
	const struct spot in = { .up = at, .keyword = "propertyNames", .member = true, .child = m->name };
	json_t *name = json_stringn_nocheck(m->name, m->len);
	bool ok = check_quietly(r, n, name, &in);

	json_decref(name);
	return ok || run_fail(r, &in, NULL, "the name is not allowed here");
}

static bool check_one_member(struct run *r, const struct obj_rules *rules, const struct member *m,
			     const struct spot *at)
{
	const struct property *p = schema_find_property(rules, m->name, m->len);
	bool known = p != NULL, ok = true;

	if (p)
		ok = check_member(r, p->node, m, (struct spot){ .up = at, .keyword = "properties", .name = m->name });
	for (size_t i = 0; i < rules->npatterns && (ok || !run_is_over(r)); i++) {
		const struct pattern_property *pp = &rules->patterns[i];

		if (!match(r, pp->re, m->name, m->len))
			continue;
		known = true;
		ok &= check_member(r, pp->node, m, (struct spot){
			.up = at, .keyword = "patternProperties", .name = regex_source(pp->re) });
	}
	if (rules->additional && !known && (ok || !run_is_over(r)))
		ok &= check_additional(r, rules, m, at);
	if (rules->names && (ok || !run_is_over(r)))
		ok &= check_name(r, rules->names, m, at);
	return ok;
}

static bool check_members(struct run *r, const struct obj_rules *rules, const json_t *v, const struct spot *at)
{
	json_t *obj = (json_t *)(uintptr_t)v;   /* jansson iterates without const */
	bool ok = true;

	for (void *it = json_object_iter(obj); it && (ok || !run_is_over(r)); it = json_object_iter_next(obj, it)) {
		const struct member m = { json_object_iter_key(it), json_object_iter_key_len(it),
					  json_object_iter_value(it) };

		ok &= run_pay(r, 1) && check_one_member(r, rules, &m, at);
	}
	return ok;
}

static bool check_required(struct run *r, const struct name_list *names, const json_t *v, const struct spot *at,
			   const char *keyword, const char *because)
{
	bool ok = true;

	if (!run_pay(r, names->n / 4))
		return false;
	for (size_t i = 0; i < names->n && (ok || !run_is_over(r)); i++)
		if (!json_object_getn(v, names->names[i].p, names->names[i].len))
			ok = run_fail_missing(r, at, keyword, &names->names[i], because);
	return ok;
}

static bool check_dependents(struct run *r, const struct obj_rules *rules, const json_t *v, const struct spot *at)
{
	bool draft7 = r->schema->draft7, ok = true;

	for (size_t i = 0; i < rules->ndependents && (ok || !run_is_over(r)); i++) {
		const struct dependent *d = &rules->dependents[i];
		const struct spot in = { .up = at, .keyword = draft7 ? "dependencies" : "dependentSchemas",
					 .name = d->name.p };

		if (!run_pay(r, 1) || !json_object_getn(v, d->name.p, d->name.len))
			continue;
		ok &= check_required(r, &d->required, v, at, draft7 ? "dependencies" : "dependentRequired",
				     d->name.p);
		if (d->node && (ok || !run_is_over(r)))
			ok &= check(r, d->node, v, &in);
	}
	return ok;
}

static bool check_object(struct run *r, const struct obj_rules *rules, const json_t *v, const struct spot *at)
{
	size_t n = json_object_size(v);
	bool ok = check_required(r, &rules->required, v, at, "required", NULL);

	if (n < rules->min)
		ok = run_fail(r, at, "minProperties", "must have at least %zu member%s", rules->min,
			      rules->min == 1 ? "" : "s");
	if (n > rules->max)
		ok = run_fail(r, at, "maxProperties", "must have at most %zu member%s", rules->max,
			      rules->max == 1 ? "" : "s");
	if ((rules->nprops || rules->npatterns || rules->additional || rules->names) && (ok || !run_is_over(r)))
		ok &= check_members(r, rules, v, at);
	if (rules->ndependents && (ok || !run_is_over(r)))
		ok &= check_dependents(r, rules, v, at);
	return ok;
}

/* LOGIC */

static bool check_all(struct run *r, const struct node_list *all, const json_t *v, const struct spot *at)
{
	bool ok = true;

	for (size_t i = 0; i < all->n && (ok || !run_is_over(r)); i++) {
		const struct spot in = { .up = at, .keyword = "allOf", .index = i, .has_index = true };

		ok &= check(r, all->nodes[i], v, &in);
	}
	return ok;
}

static size_t count_matches(struct run *r, const struct node_list *list, const char *keyword, size_t enough,
			    const json_t *v, const struct spot *at)
{
	size_t found = 0;

	for (size_t i = 0; i < list->n && found < enough && !r->spent; i++) {
		const struct spot in = { .up = at, .keyword = keyword, .index = i, .has_index = true };

		found += check_quietly(r, list->nodes[i], v, &in);
	}
	return found;
}

/* No alternative fits: say which types would, if that is all that they ask for. */
static bool fail_alternatives(struct run *r, const struct node_list *list, const char *keyword, const json_t *v,
			      const struct spot *at)
{
	unsigned types = 0;
	bool plain = true;

	for (size_t i = 0; i < list->n; i++) {
		plain = plain && list->nodes[i]->plain;
		types |= list->nodes[i]->types;
	}
	if (types != 0 && (plain || !(types & schema_type_bits(v))))
		return run_fail_type(r, at, keyword, types, v);
	return run_fail(r, at, keyword, "must match at least one of %zu alternatives", list->n);
}

static bool check_any(struct run *r, const struct node_list *any, const json_t *v, const struct spot *at)
{
	return count_matches(r, any, "anyOf", 1, v, at) || fail_alternatives(r, any, "anyOf", v, at);
}

static bool check_one(struct run *r, const struct node_list *one, const json_t *v, const struct spot *at)
{
	size_t found = count_matches(r, one, "oneOf", 2, v, at);

	if (found == 0)
		return fail_alternatives(r, one, "oneOf", v, at);
	return found == 1 || run_fail(r, at, "oneOf", "must match exactly one of %zu alternatives, matches more",
				      one->n);
}

static bool check_condition(struct run *r, const struct logic *l, const json_t *v, const struct spot *at)
{
	const struct spot cond = { .up = at, .keyword = "if" };
	bool is = check_quietly(r, l->cond, v, &cond);
	const struct spot in = { .up = at, .keyword = is ? "then" : "else" };
	const struct node *next = is ? l->then : l->other;

	return !r->spent && (!next || check(r, next, v, &in));
}

static bool check_logic(struct run *r, const struct logic *l, const json_t *v, const struct spot *at)
{
	const struct spot not = { .up = at, .keyword = "not" };
	bool ok = check_all(r, &l->all, v, at);

	if (l->any.n && (ok || !run_is_over(r)))
		ok &= check_any(r, &l->any, v, at);
	if (l->one.n && (ok || !run_is_over(r)))
		ok &= check_one(r, &l->one, v, at);
	if (l->not && (ok || !run_is_over(r)) && check_quietly(r, l->not, v, &not))
		ok = run_fail(r, at, "not", "must not match what is excluded");
	if (l->cond && (ok || !run_is_over(r)))
		ok &= check_condition(r, l, v, at);
	return ok;
}

/* THE NODE */

static bool check_rules(struct run *r, const struct node *n, const json_t *v, unsigned is, const struct spot *at)
{
	const struct spot ref = { .up = at, .keyword = "$ref" };
	bool ok = !n->ref || check(r, n->ref, v, &ref);

	for (int i = 0; i < 2; i++)
		if (n->constants[i] && (ok || !run_is_over(r)))
			ok &= check_constants(r, n->constants[i], v, at);
	if (n->num && (is & TYPE_NUMBER) && (ok || !run_is_over(r)))
		ok &= check_number(r, n->num, v, at);
	if (n->str && (is & TYPE_STRING) && (ok || !run_is_over(r)))
		ok &= check_string(r, n->str, v, at);
	if (n->arr && (is & TYPE_ARRAY) && (ok || !run_is_over(r)))
		ok &= check_array(r, n->arr, v, at);
	if (n->obj && (is & TYPE_OBJECT) && (ok || !run_is_over(r)))
		ok &= check_object(r, n->obj, v, at);
	if (n->logic && (ok || !run_is_over(r)))
		ok &= check_logic(r, n->logic, v, at);
	return ok;
}

static bool check(struct run *r, const struct node *n, const json_t *v, const struct spot *at)
{
	unsigned is = schema_type_bits(v);
	bool ok;

	if (!run_pay(r, 1))
		return false;
	if (n->never)
		return run_fail(r, at, NULL, "is not allowed");
	if (!(n->types & is))
		return run_fail_type(r, at, "type", n->types, v);
	if (n->plain)
		return true;
	if (r->depth == RUN_DEPTH_MAX) {
		r->spent = true;
		return false;
	}
	r->depth++;
	ok = check_rules(r, n, v, is, at);
	r->depth--;
	return ok;
}

int schema_run(const struct schema *s, const json_t *value, struct schema_report *report)
{
	struct run r = { .schema = s, .report = report };
	bool ok;

	if (report)
		report->count = 0;
	ok = check(&r, s->root, value, NULL);
	regex_room_free(&r.room);
	if (r.spent) {
		run_note_spent(&r);
		return ERR_LIMIT;
	}
	return ok ? 0 : ERR_INVALID;
}
