#ifndef SRC_SCHEMA_RUN_INT_H
#define SRC_SCHEMA_RUN_INT_H

/* One run of a compiled schema over a value. */

#include "schema_int.h"

/* A step on the way from the roots to where the run is: on the side of the schema a keyword, perhaps with
 * a name or an index; on the side of the value a member or an element, or nothing. */
struct spot {
	const struct spot *up;
	const char *keyword;
	const char *name;       /* behind the keyword; NULL: index, if has_index */
	const char *child;      /* the member that the value went down to, NULL = none */
	uint32_t index, child_index;
	bool has_index;
	bool element;           /* the value went down to the element child_index */
};

/* Which members or elements of one value have been evaluated, for unevaluated*.  Bits by position. */
struct marks { uint64_t *bits; size_t words; };

/* The homes that the run has come through, innermost first: the dynamic scope. */
struct scope { const struct scope *up; const struct home *home; };

struct run {
	struct schema_report *report;   /* NULL: nobody asks why */
	unsigned quiet;                 /* inside of alternatives: failures are no news */
	unsigned depth;
	size_t steps;
	bool spent;                     /* a budget ended: the value counts as invalid */
	const struct schema_redact *redact;     /* NULL: nothing of the value may be told */
	struct marks *marks;            /* of the value at hand, NULL: nobody asks */
	const struct scope *scope;
	struct regex_room *room;
};

/* Note a failure of keyword (NULL: of the schema as a whole) at the spot; always false. */
bool run_fail(struct run *r, const struct spot *at, const char *keyword, const char *fmt, ...)
	__attribute__((format(printf, 4, 5), cold));
/* The same, about the scalar v. */
bool run_fail_scalar(struct run *r, const struct spot *at, const char *keyword, const json_t *v, const char *fmt, ...)
	__attribute__((format(printf, 5, 6), cold));
/* A member that must be there is not; because = the member that asks for it, or NULL. */
bool run_fail_missing(struct run *r, const struct spot *at, const char *keyword, const struct name *name,
		      const char *because) __attribute__((cold));
bool run_fail_type(struct run *r, const struct spot *at, const char *keyword, unsigned types, const json_t *v)
	__attribute__((cold));
bool run_fail_constant(struct run *r, const struct spot *at, const struct constants *set, const json_t *v)
	__attribute__((cold));
/* A member that additionalProperties: false keeps out. */
bool run_fail_unknown(struct run *r, const struct spot *at, const struct obj_rules *rules) __attribute__((cold));
/* The budget is spent; or one match was too much, at a member or text. */
void run_note_spent(struct run *r);
void run_note_match(struct run *r, const struct spot *at) __attribute__((cold));

/* Is no further failure of interest? */
static inline bool run_is_over(const struct run *r)
{
	return !r->report || r->quiet || r->spent || r->report->count == SCHEMA_ERRORS_MAX;
}

/* The budget is gone, whatever is left of it; always false. */
static inline bool run_spend(struct run *r)
{
	r->spent = true;
	return false;
}

/* Pay for work; false when the budget is spent. */
static inline bool run_pay(struct run *r, size_t steps)
{
	r->steps += steps;
	if (r->steps > SCHEMA_STEPS_MAX)
		r->spent = true;
	return !r->spent;
}

static inline void run_mark(struct run *r, size_t i)
{
	if (r->marks)
		r->marks->bits[i / 64] |= (uint64_t)1 << i % 64;
}

/* Is v a whole multiple of the divisor? */
bool run_is_multiple(struct run *r, struct jx_number v, const struct divisor *by);
/* The first pair of equal elements; false when there is none (or the budget ended: r->spent). */
bool run_find_equal(struct run *r, const json_t *array, size_t *ret_a, size_t *ret_b);

#define RUN_DEPTH_MAX 1000      /* nodes inside of nodes: 64 levels of value times references between */

/* Is it one of the node's types?  is = its bits; whether a real is an integer is looked at last. */
static inline bool run_has_type(const struct node *n, const json_t *v, unsigned is)
{
	return (n->types & is) || (json_is_real(v) && (n->types & schema_type_bits(v)));
}

/* A large object and few properties. */
static inline bool run_looks_up(const struct obj_rules *rules, size_t members)
{
	return rules->sparse && members > rules->nprops;
}

/* The member that tells the alternatives apart, or NULL; is the i-th ruled out by it? */
static inline const json_t *run_guard(const struct node_list *list, const json_t *v)
{
	return list->guard && json_is_object(v) ? json_object_getn(v, list->guard->p, list->guard->len) : NULL;
}

static inline bool run_rules_out(const struct node_list *list, size_t i, const json_t *guard)
{
	const struct constants *set = list->sets[i];
	const char *p = json_string_value(guard);

	return set && (!p || !schema_find_name(&set->index, set->texts, sizeof(*set->texts), p,
					       json_string_length(guard)));
}

#endif
