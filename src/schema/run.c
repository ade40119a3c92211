/* A compiled schema over a value: nodes, references, alternatives.  Recursion follows the nesting of value
 * and schema and is counted; every piece of work is paid from one budget.  A spent budget makes the value
 * invalid, never valid, whatever `not` would make of it. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/direct.h"

#include "run_int.h"

/* By json_typeof(); a real is no integer here. */
static const uint8_t run_type_bits[] = {
	[JSON_OBJECT] = TYPE_OBJECT, [JSON_ARRAY] = TYPE_ARRAY, [JSON_STRING] = TYPE_STRING,
	[JSON_INTEGER] = TYPE_INTEGER | TYPE_NUMBER, [JSON_REAL] = TYPE_NUMBER, [JSON_TRUE] = TYPE_BOOLEAN,
	[JSON_FALSE] = TYPE_BOOLEAN, [JSON_NULL] = TYPE_NULL,
};

/* Judge v by a node. */
static bool run_check(struct run *r, const struct node *n, const json_t *v, const struct spot *at);
static bool run_check_marked_child(struct run *r, const struct node *n, const json_t *v, const struct spot *at);

/* The same for a member or an element of the value at hand, whose marks are none of theirs. */
static inline bool run_check_child(struct run *r, const struct node *n, const json_t *v, const struct spot *at)
{
	if (n->plain && (n->types & run_type_bits[json_typeof(v)]))
		return true;
	return r->marks ? run_check_marked_child(r, n, v, at) : run_check(r, n, v, at);
}

/* --- The rules for values by themselves: constants, numbers, strings. */

#define NUMBER_SHOWN 60         /* characters of a bound */
#define PATTERN_SHOWN 160

static bool run_constants(struct run *r, const struct constants *set, const json_t *v, const struct spot *at)
{
	size_t steps = set->n / 16;
	uint64_t h;

	if (set->strings) {
		const char *p = json_string_value(v);

		if (p && schema_find_name(&set->index, set->texts, sizeof(*set->texts), p, json_string_length(v)))
			return true;
		return run_fail_constant(r, at, set, v);
	}
	if (!(set->types & schema_type_bits(v)))
		return run_fail_constant(r, at, set, v);
	h = schema_hash(v, &steps);
	if (!run_pay(r, steps))
		return false;
	for (size_t i = 0; i < set->n; i++)
		if (set->hashes[i] == h && schema_constant_equal(&set->values[i], v))
			return true;
	return run_fail_constant(r, at, set, v);
}

static bool fail_bound(struct run *r, const struct spot *at, const char *keyword, const char *must,
		       const struct bound *b, const json_t *v)
{
	struct str text = STR_INIT;

	if (run_is_over(r))
		return false;
	jx_write_number(b->n, &text);
	(void)run_fail_scalar(r, at, keyword, v, "%s %.*s%s", must, NUMBER_SHOWN, str_text(&text),
			      text.len > NUMBER_SHOWN ? "..." : "");
	str_fini(&text);
	return false;
}

static bool run_number(struct run *r, const struct num_rules *rules, const json_t *v, const struct spot *at)
{
	struct jx_number n = jx_number(v);
	bool ok = true;

	if (rules->min.set && jx_compare(n, rules->min.n) < 0)
		ok = fail_bound(r, at, "minimum", "must be at least", &rules->min, v);
	if (rules->max.set && jx_compare(n, rules->max.n) > 0)
		ok = fail_bound(r, at, "maximum", "must be at most", &rules->max, v);
	if (rules->above.set && jx_compare(n, rules->above.n) <= 0)
		ok = fail_bound(r, at, "exclusiveMinimum", "must be greater than", &rules->above, v);
	if (rules->below.set && jx_compare(n, rules->below.n) >= 0)
		ok = fail_bound(r, at, "exclusiveMaximum", "must be less than", &rules->below, v);
	if (rules->step.set && !run_is_multiple(r, n, &rules->by))
		ok = fail_bound(r, at, "multipleOf", "must be a multiple of", &rules->step, v);
	return ok;
}

static bool run_match(struct run *r, const struct regex *re, const char *p, size_t len, const struct spot *at)
{
	size_t steps = 0;
	int rc = regex_match(re, p, len, &r->room, &steps);

	if (rc < 0)
		run_note_match(r, at);
	return run_pay(r, steps) && rc == 1;
}

/* contentEncoding and contentMediaType, together: what is encoded is what is looked at. */
static bool has_content(struct run *r, const struct str_rules *rules, const char *p, size_t len)
{
	char *bytes = NULL;
	struct err ignored;
	bool ok;

	if (!run_pay(r, len / 8))
		return false;
	if (rules->base64 && (!text_base64_valid(p, len) || !rules->json))
		return text_base64_valid(p, len);
	if (rules->base64) {
		bytes = mem_alloc(len + 1);
		if (text_unbase64(p, len, bytes, len + 1, &len) != 0)
			len = 0;
	}
	ok = jx_scan(bytes ? bytes : p, len, NULL, 0, &ignored) == 0;
	free(bytes);
	return ok;
}

static bool has_format(struct run *r, const struct format *f, const char *p, size_t len)
{
	size_t steps = 0;
	bool ok = format_check(f, p, len, &r->room, &steps);

	return run_pay(r, steps) && ok;
}

static bool run_string(struct run *r, const struct str_rules *rules, const json_t *v, const struct spot *at)
{
	const char *p = json_string_value(v);
	size_t len = json_string_length(v), count;
	bool ok = true;

	if (rules->min > 0 || rules->max < len) {
		if (!run_pay(r, len / 64))
			return false;
		count = text_utf8_count(p, len);
		if (count < rules->min)
			ok = run_fail_scalar(r, at, "minLength", v, "must have at least %zu character%s", rules->min,
				      rules->min == 1 ? "" : "s");
		if (count > rules->max)
			ok = run_fail_scalar(r, at, "maxLength", v, "must have at most %zu character%s", rules->max,
				      rules->max == 1 ? "" : "s");
	}
	if (rules->pattern && !run_match(r, rules->pattern, p, len, at))
		ok = run_fail_scalar(r, at, "pattern", v, "must match the pattern %.*s", PATTERN_SHOWN,
				     regex_source(rules->pattern));
	if (rules->format && !has_format(r, rules->format, p, len))
		ok = run_fail_scalar(r, at, "format", v, "must be %s", format_words(rules->format));
	if ((rules->base64 || rules->json) && !has_content(r, rules, p, len))
		ok = run_fail(r, at, rules->base64 ? "contentEncoding" : "contentMediaType", "must be %s%s",
			      rules->json ? "JSON" : "base64", rules->base64 && rules->json ? " in base64" : "");
	return ok;
}

/* --- The rules for arrays and objects */

/* An object is walked over once: each member finds its property by an index, and a word of bits notes which of the
 * required ones have come by. */

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

static bool run_check_child_quietly(struct run *r, const struct node *n, const json_t *v, const struct spot *at);

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

static bool run_array(struct run *r, const struct arr_rules *rules, const json_t *v, const struct spot *at)
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

static inline bool check_property(struct run *r, const struct property *p, const struct member *m,
				  const struct spot *at)
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
	const struct property *p = schema_find_key(&rules->index, rules->props, sizeof(*rules->props), m->key, m->name,
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

static bool run_object(struct run *r, const struct obj_rules *rules, const json_t *v, const struct spot *at)
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

/* --- unevaluatedItems and unevaluatedProperties */

/* All other rules of the node run first and mark the members or elements that they have evaluated; what is left is
 * judged.  Nobody marks anything unless somebody asks. */

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

static bool run_rules(struct run *r, const struct node *n, const json_t *v, unsigned is, const struct spot *at);

static bool run_with_rest(struct run *r, const struct node *n, const json_t *v, unsigned is, const struct spot *at)
{
	size_t count = is == TYPE_ARRAY ? json_array_size(v) : json_object_size(v);
	uint64_t few[FEW_WORDS] = { 0 };
	struct marks *outer = r->marks, own = { few, count / 64 + 1 };
	bool ok;

	if (!run_pay(r, count / 64))
		return false;
	if (own.words > FEW_WORDS)
		own.bits = mem_calloc(own.words, sizeof(*own.bits));
	r->marks = &own;
	ok = run_rules(r, n, v, is, at);
	if (ok || !run_is_over(r))
		ok &= is == TYPE_ARRAY ? check_left_items(r, n->rest->items, v, &own, at) :
					 check_left_props(r, n->rest->props, v, &own, at);
	r->marks = outer;
	/* What was left has been evaluated now. */
	if (outer)
		memset(outer->bits, 0xff, outer->words * sizeof(*outer->bits));
	if (own.bits != few)
		free(own.bits);
	return ok;
}

/* A schema for the same value whose failure is no failure of the whole: its marks are undone then. */
static bool run_branch(struct run *r, const struct node *n, const json_t *v, const struct spot *at)
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
	before = m->words > FEW_WORDS ? mem_calloc(m->words, sizeof(*before)) : few;
	memcpy(before, m->bits, m->words * sizeof(*before));
	ok = run_pay(r, m->words / 4) && run_check(r, n, v, at);
	r->quiet--;
	if (!ok)
		memcpy(m->bits, before, m->words * sizeof(*before));
	if (before != few)
		free(before);
	return ok;
}

/* --- The verdict alone, which is all that most runs are asked for */

/* No paths, no list of failures, and the first failure ends it.  It reads trees in place; where it cannot, no node
 * is quick.  It knows the rules that nearly all schemas are made of; a node with others (see enum node_kind) goes to
 * run_check(), which knows all of them and judges the same. */

static bool check(struct run *r, const struct node *n, const json_t *v);
static bool check_array(struct run *r, const struct arr_rules *rules, const json_t *v);
static bool check_object(struct run *r, const struct obj_rules *rules, const json_t *v);

static inline bool is_in_set(const struct constants *set, const json_t *v)
{
	const struct jx_direct_string *s = jx_string(v);

	return schema_find_name(&set->index, set->texts, sizeof(*set->texts), s->p, s->len);
}

/* The kinds of nodes that most are, at the price of run_check(). */
static inline bool check_child(struct run *r, const struct node *n, const json_t *v)
{
	const json_type type = json_typeof(v);

	switch (n->kind) {
	case NODE_PLAIN:
		if (n->types & run_type_bits[type])
			return true;
		break;
	case NODE_STRINGS:
		if (type == JSON_STRING)
			return run_pay(r, 1) && is_in_set(n->constants, v);
		break;
	case NODE_OBJECT:
		if (type == JSON_OBJECT)
			return run_pay(r, 1) && check_object(r, n->obj, v);
		break;
	case NODE_ARRAY:
		if (type == JSON_ARRAY)
			return run_pay(r, 1) && check_array(r, n->arr, v);
		break;
	case NODE_QUICK:
		break;
	case NODE_FULL:
		return run_check(r, n, v, NULL);
	}
	return check(r, n, v);
}

static inline bool enter(struct run *r, size_t steps)
{
	if (r->depth++ == RUN_DEPTH_MAX)
		return run_spend(r);
	return run_pay(r, steps);
}

/* ARRAYS AND OBJECTS */

static bool check_array(struct run *r, const struct arr_rules *rules, const json_t *v)
{
	const struct jx_direct_array *array = jx_array(v);
	size_t n = array->n, i = 0, a, b;
	bool ok;

	if (n < rules->min || n > rules->max)
		return false;
	ok = enter(r, n / 8) && !(rules->unique && n > 1 && run_find_equal(r, v, &a, &b));
	for (; ok && i < n && i < rules->prefix.n; i++)
		ok = check_child(r, rules->prefix.nodes[i], array->values[i]);
	for (; ok && rules->items && i < n; i++)
		ok = check_child(r, rules->items, array->values[i]);
	r->depth--;
	return ok;
}

/* A member by its name; *seen gets the bit of one that is required. */
static inline bool quick_check_member(struct run *r, const struct obj_rules *rules, const struct jx_member *m,
				      uint64_t *seen)
{
	const struct property *p = schema_find_name(&rules->index, rules->props, sizeof(*rules->props), m->name,
						    m->len);

	if (p) {
		*seen |= p->needed;
		if (p->node)
			return check_child(r, p->node, m->value);
	}
	return !rules->additional || check_child(r, rules->additional, m->value);
}

/* The next member is on its way from memory while this one is checked. */
static inline bool quick_walk_members(struct run *r, const struct obj_rules *rules, const json_t *v, uint64_t *seen)
{
	bool ok = true;

	for (const struct jx_member *m = jx_first_member(v), *next; m && ok; m = next) {
		next = jx_next_member(v, m);
		__builtin_prefetch(next);
		ok = rules->nprops ? quick_check_member(r, rules, m, seen)
			: check_child(r, rules->additional, m->value);
	}
	return ok;
}

static __attribute__((noinline)) bool quick_look_up_members(struct run *r, const struct obj_rules *rules,
							    const json_t *v,
						      uint64_t *seen)
{
	bool ok = true;

	for (size_t i = 0; ok && i < rules->nprops; i++) {
		const struct property *p = &rules->props[i];
		const json_t *child = json_object_getn(v, p->name.p, p->name.len);

		if (!child)
			continue;
		*seen |= p->needed;
		ok = !p->node || check_child(r, p->node, child);
	}
	return ok;
}

/* Those that have no bit. */
static __attribute__((noinline)) bool has_required(const struct obj_rules *rules, const json_t *v)
{
	for (size_t i = rules->nneeded; i < rules->required.n; i++)
		if (!json_object_getn(v, rules->required.names[i].p, rules->required.names[i].len))
			return false;
	return true;
}

static bool check_object(struct run *r, const struct obj_rules *rules, const json_t *v)
{
	size_t n = jx_object(v)->n;
	uint64_t seen = 0;
	bool ok;

	if (n < rules->min || n > rules->max)
		return false;
	ok = enter(r, n);
	if (ok && rules->walk)
		ok = run_looks_up(rules, n) ? quick_look_up_members(r, rules, v, &seen)
			: quick_walk_members(r, rules, v, &seen);
	r->depth--;
	return ok && seen == rules->needed && (rules->required.n == rules->nneeded ||
					       (run_pay(r, rules->required.n / 4) && has_required(rules, v)));
}

/* LOGIC */

static size_t count_matches(struct run *r, const struct node_list *list, size_t enough, const json_t *v)
{
	const json_t *guard = run_guard(list, v);
	size_t found = 0;

	for (size_t i = 0; i < list->n && found < enough && !r->spent; i++) {
		if (guard && run_rules_out(list, i, guard))
			(void)run_pay(r, 1);
		else
			found += check_child(r, list->nodes[i], v);
	}
	return found;
}

static bool check_logic(struct run *r, const struct logic *l, const json_t *v)
{
	const struct node *next;

	for (size_t i = 0; i < l->all.n; i++)
		if (!check_child(r, l->all.nodes[i], v))
			return false;
	if ((l->any.n && count_matches(r, &l->any, 1, v) == 0) || (l->one.n && count_matches(r, &l->one, 2, v) != 1) ||
	    (l->not && check_child(r, l->not, v)))
		return false;
	if (!l->cond)
		return true;
	next = check_child(r, l->cond, v) ? l->then : l->other;
	return !r->spent && (!next || check_child(r, next, v));
}

/* THE NODE */

static __attribute__((noinline)) bool quick_check_same_value(struct run *r, const struct node *n, const json_t *v)
{
	bool ok = enter(r, 0) && (!n->ref || check_child(r, n->ref, v)) && (!n->logic || check_logic(r, n->logic, v));

	r->depth--;
	return ok;
}

static bool check(struct run *r, const struct node *n, const json_t *v)
{
	unsigned is = run_type_bits[json_typeof(v)];

	if (!run_pay(r, 1) || !run_has_type(n, v, is))
		return false;
	for (const struct constants *set = n->constants; set; set = set->next)
		if (!run_constants(r, set, v, NULL))
			return false;
	if ((is & TYPE_STRING) && n->str && !run_string(r, n->str, v, NULL))
		return false;
	if ((is & TYPE_NUMBER) && n->num && !run_number(r, n->num, v, NULL))
		return false;
	if ((is & TYPE_OBJECT) && n->obj && !check_object(r, n->obj, v))
		return false;
	if ((is & TYPE_ARRAY) && n->arr && !check_array(r, n->arr, v))
		return false;
	return !n->same_value || quick_check_same_value(r, n, v);
}

/* The verdict alone, of a node that is quick, with no report and no marks. */
static bool run_quick(struct run *r, const struct node *n, const json_t *v)
{
	return check(r, n, v);
}

/* --- the walk over schema and value */

/* CHILDREN */

static bool run_check_marked_child(struct run *r, const struct node *n, const json_t *v, const struct spot *at)
{
	struct marks *outer = r->marks;
	bool ok;

	r->marks = NULL;
	ok = run_check(r, n, v, at);
	r->marks = outer;
	return ok;
}

/* The same where failures are no news. */
static bool run_check_child_quietly(struct run *r, const struct node *n, const json_t *v, const struct spot *at)
{
	bool ok;

	r->quiet++;
	ok = run_check_child(r, n, v, at);
	r->quiet--;
	return ok;
}

/* LOGIC */

static bool check_all(struct run *r, const struct node_list *all, const json_t *v, const struct spot *at)
{
	bool ok = true;

	for (size_t i = 0; i < all->n && (ok || !run_is_over(r)); i++) {
		const struct spot in = { .up = at, .keyword = "allOf", .index = (uint32_t)i, .has_index = true };

		ok &= run_check(r, all->nodes[i], v, &in);
	}
	return ok;
}

static size_t run_count_matches(struct run *r, const struct node_list *list, const char *keyword, size_t enough,
			    const json_t *v, const struct spot *at)
{
	const json_t *guard = run_guard(list, v);
	struct spot in = { .up = at, .keyword = keyword, .has_index = true };
	size_t found = 0;

	for (size_t i = 0; i < list->n && found < enough && !r->spent; i++) {
		in.index = (uint32_t)i;
		if (guard && run_rules_out(list, i, guard))
			(void)run_pay(r, 1);
		else
			found += run_branch(r, list->nodes[i], v, &in);
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
	return run_count_matches(r, any, "anyOf", r->marks ? SIZE_MAX : 1, v, at) ||
		fail_alternatives(r, any, "anyOf", v, at);
}

static bool check_one(struct run *r, const struct node_list *one, const json_t *v, const struct spot *at)
{
	size_t found = run_count_matches(r, one, "oneOf", 2, v, at);

	if (found == 0)
		return fail_alternatives(r, one, "oneOf", v, at);
	return found == 1 || run_fail(r, at, "oneOf", "must match exactly one of %zu alternatives, matches more",
				      one->n);
}

static bool check_condition(struct run *r, const struct logic *l, const json_t *v, const struct spot *at)
{
	const struct spot cond = { .up = at, .keyword = "if" };
	bool is = run_branch(r, l->cond, v, &cond);
	const struct spot in = { .up = at, .keyword = is ? "then" : "else" };
	const struct node *next = is ? l->then : l->other;

	return !r->spent && (!next || run_check(r, next, v, &in));
}

static bool run_check_logic(struct run *r, const struct logic *l, const json_t *v, const struct spot *at)
{
	const struct spot not = { .up = at, .keyword = "not" };
	bool ok = check_all(r, &l->all, v, at);

	if (l->any.n && (ok || !run_is_over(r)))
		ok &= check_any(r, &l->any, v, at);
	if (l->one.n && (ok || !run_is_over(r)))
		ok &= check_one(r, &l->one, v, at);
	if (l->not && (ok || !run_is_over(r)) && run_check_child_quietly(r, l->not, v, &not))
		ok = run_fail(r, at, "not", "must not match what is excluded");
	if (l->cond && (ok || !run_is_over(r)))
		ok &= check_condition(r, l, v, at);
	return ok;
}

/* REFERENCES */

/* Of the homes on the way here the outermost that has the anchor. */
static const struct node *find_target(const struct run *r, const struct jump *jump)
{
	const struct node *target = jump->target;

	if (!jump->name)
		return target;
	for (const struct scope *s = r->scope; s; s = s->up)
		for (size_t i = 0; i < s->home->n; i++)
			if (strcmp(s->home->anchors[i].name, jump->name) == 0)
				target = s->home->anchors[i].node;
	return target;
}

static bool check_jump(struct run *r, const struct jump *jump, const json_t *v, const struct spot *at)
{
	const struct spot in = { .up = at, .keyword = jump->keyword };

	return run_check(r, find_target(r, jump), v, &in);
}

static bool check_ref(struct run *r, const struct node *n, const json_t *v, const struct spot *at)
{
	const struct spot in = { .up = at, .keyword = "$ref" };

	return run_check(r, n, v, &in);
}

/* THE NODE */

static bool check_by_type(struct run *r, const struct node *n, const json_t *v, unsigned is, const struct spot *at)
{
	if (is & TYPE_OBJECT)
		return !n->obj || run_object(r, n->obj, v, at);
	if (is & TYPE_STRING)
		return !n->str || run_string(r, n->str, v, at);
	if (is & TYPE_ARRAY)
		return !n->arr || run_array(r, n->arr, v, at);
	return !n->num || !(is & TYPE_NUMBER) || run_number(r, n->num, v, at);
}

static bool check_same_value(struct run *r, const struct node *n, const json_t *v, const struct spot *at)
{
	bool ok = !n->ref || check_ref(r, n->ref, v, at);

	if (n->jump && (ok || !run_is_over(r)))
		ok &= check_jump(r, n->jump, v, at);
	if (n->logic && (ok || !run_is_over(r)))
		ok &= run_check_logic(r, n->logic, v, at);
	return ok;
}

/* All rules of a node that ends with unevaluatedItems or unevaluatedProperties. */
static bool run_rules(struct run *r, const struct node *n, const json_t *v, unsigned is, const struct spot *at)
{
	bool ok = true;

	for (const struct constants *set = n->constants; set && (ok || !run_is_over(r)); set = set->next)
		ok &= run_constants(r, set, v, at);
	if (ok || !run_is_over(r))
		ok &= check_by_type(r, n, v, is, at);
	if (n->same_value && (ok || !run_is_over(r)))
		ok &= check_same_value(r, n, v, at);
	return ok;
}

static bool check_at_home(struct run *r, const struct node *n, const json_t *v, unsigned is, const struct spot *at)
{
	const struct scope here = { r->scope, n->home };
	bool enter = n->home && !(r->scope && r->scope->home == n->home), ok;

	if (enter)
		r->scope = &here;
	if (n->rest && ((is == TYPE_ARRAY && n->rest->items) || (is == TYPE_OBJECT && n->rest->props)))
		ok = run_with_rest(r, n, v, is, at);
	else
		ok = run_rules(r, n, v, is, at);
	if (enter)
		r->scope = here.up;
	return ok;
}

static bool run_check(struct run *r, const struct node *n, const json_t *v, const struct spot *at)
{
	unsigned is = run_type_bits[json_typeof(v)], depth = r->depth;
	bool ok;

	if (n->kind != NODE_FULL && !r->report && !r->marks)
		return run_quick(r, n, v);
	if (!run_pay(r, 1))
		ok = false;
	else if (n->never)
		ok = run_fail(r, at, NULL, "is not allowed");
	else if (!run_has_type(n, v, is))
		ok = run_fail_type(r, at, "type", n->types, v);
	else if (n->plain)
		ok = true;
	else if (n->nests && r->depth++ == RUN_DEPTH_MAX)
		ok = run_spend(r);
	else
		ok = n->deep ? check_at_home(r, n, v, is, at) : run_rules(r, n, v, is, at);
	r->depth = depth;
	return ok;
}

static int run_all(const struct schema *s, const json_t *value, const struct schema_redact *redact,
		   struct schema_report *report)
{
	struct run r = { .report = report, .redact = redact };
	bool ok;

	if (report) {
		report->count = 0;
		report->match_limit = false;
	}
	ok = run_check(&r, s->root, value, NULL);
	regex_room_free(&r.room);
	if (r.spent) {
		run_note_spent(&r);
		return ERR_LIMIT;
	}
	return ok ? 0 : ERR_INVALID;
}

int schema_run(const struct schema *s, const json_t *value, struct schema_report *report)
{
	return run_all(s, value, NULL, report);
}

int schema_explain(const struct schema *s, const json_t *value, const struct schema_redact *redact,
		   struct schema_report *report)
{
	return run_all(s, value, redact, report);
}
