/* A compiled schema over a value: nodes, references, alternatives.  Recursion follows the nesting of value
 * and schema and is counted; every piece of work is paid from one budget.  A spent budget makes the value
 * invalid, never valid, whatever `not` would make of it. */
#include "config.h"

#include "run_int.h"

#include <string.h>

/* CHILDREN */

bool run_check_marked_child(struct run *r, const struct node *n, const json_t *v, const struct spot *at)
{
	struct marks *outer = r->marks;
	bool ok;

	r->marks = NULL;
	ok = run_check(r, n, v, at);
	r->marks = outer;
	return ok;
}

bool run_check_child_quietly(struct run *r, const struct node *n, const json_t *v, const struct spot *at)
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

static size_t count_matches(struct run *r, const struct node_list *list, const char *keyword, size_t enough,
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
	return count_matches(r, any, "anyOf", r->marks ? SIZE_MAX : 1, v, at) || fail_alternatives(r, any, "anyOf", v, at);
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
	bool is = run_branch(r, l->cond, v, &cond);
	const struct spot in = { .up = at, .keyword = is ? "then" : "else" };
	const struct node *next = is ? l->then : l->other;

	return !r->spent && (!next || run_check(r, next, v, &in));
}

static bool check_logic(struct run *r, const struct logic *l, const json_t *v, const struct spot *at)
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

const uint8_t run_type_bits[] = {
	[JSON_OBJECT] = TYPE_OBJECT, [JSON_ARRAY] = TYPE_ARRAY, [JSON_STRING] = TYPE_STRING,
	[JSON_INTEGER] = TYPE_INTEGER | TYPE_NUMBER, [JSON_REAL] = TYPE_NUMBER, [JSON_TRUE] = TYPE_BOOLEAN,
	[JSON_FALSE] = TYPE_BOOLEAN, [JSON_NULL] = TYPE_NULL,
};

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
		ok &= check_logic(r, n->logic, v, at);
	return ok;
}

bool run_rules(struct run *r, const struct node *n, const json_t *v, unsigned is, const struct spot *at)
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

bool run_check(struct run *r, const struct node *n, const json_t *v, const struct spot *at)
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
