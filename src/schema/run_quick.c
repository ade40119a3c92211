/* The verdict alone, which is all that most runs are asked for: no paths, no list of failures, and the first
 * failure ends it.  It reads trees in place; where it cannot, no node is quick.  It knows the rules that nearly
 * all schemas are made of; a node with others (see enum node_kind) goes to run_check(), which knows all of
 * them and judges the same. */
#include "config.h"

#include "run_int.h"

#include "json/direct.h"

static bool check(struct run *r, const struct node *n, const json_t *v);
static bool check_array(struct run *r, const struct arr_rules *rules, const json_t *v);
static bool check_object(struct run *r, const struct obj_rules *rules, const json_t *v);

static inline bool is_in_set(const struct constants *set, const json_t *v)
{
	const struct jx_direct_string *s = jx_string(v);

	return schema_find_name(&set->index, set->texts, sizeof *set->texts, s->p, s->len);
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
static inline bool check_member(struct run *r, const struct obj_rules *rules, const struct jx_member *m, uint64_t *seen)
{
	const struct property *p = schema_find_name(&rules->index, rules->props, sizeof *rules->props, m->name, m->len);

	if (p) {
		*seen |= p->needed;
		if (p->node)
			return check_child(r, p->node, m->value);
	}
	return !rules->additional || check_child(r, rules->additional, m->value);
}

/* The next member is on its way from memory while this one is checked. */
static inline bool walk_members(struct run *r, const struct obj_rules *rules, const json_t *v, uint64_t *seen)
{
	bool ok = true;

	for (const struct jx_member *m = jx_first_member(v), *next; m && ok; m = next) {
		next = jx_next_member(v, m);
		__builtin_prefetch(next);
		ok = rules->nprops ? check_member(r, rules, m, seen) : check_child(r, rules->additional, m->value);
	}
	return ok;
}

static __attribute__((noinline)) bool look_up_members(struct run *r, const struct obj_rules *rules, const json_t *v,
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
		ok = run_looks_up(rules, n) ? look_up_members(r, rules, v, &seen) : walk_members(r, rules, v, &seen);
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

static __attribute__((noinline)) bool check_same_value(struct run *r, const struct node *n, const json_t *v)
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
	return !n->same_value || check_same_value(r, n, v);
}

bool run_quick(struct run *r, const struct node *n, const json_t *v)
{
	return check(r, n, v);
}
