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
	size_t index;
	bool has_index;
	bool member, element;   /* the value went down by name or by index too */
	const char *child;      /* the member's name, when member */
	size_t child_index;     /* the element, when element */
};

struct run {
	const struct schema *schema;
	struct schema_report *report;   /* NULL: nobody asks why */
	unsigned quiet;                 /* inside of alternatives: failures are no news */
	unsigned depth;
	size_t steps;
	bool spent;                     /* a budget ended: the value counts as invalid */
	struct regex_room *room;
};

/* Note a failure of keyword (NULL: of the schema as a whole) at the spot; always false. */
bool run_fail(struct run *r, const struct spot *at, const char *keyword, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* A member that must be there is not; because = the member that asks for it, or NULL. */
bool run_fail_missing(struct run *r, const struct spot *at, const char *keyword, const struct name *name,
		      const char *because);
bool run_fail_type(struct run *r, const struct spot *at, const char *keyword, unsigned types, const json_t *v);
bool run_fail_constant(struct run *r, const struct spot *at, const struct constants *set);
/* A member that additionalProperties: false keeps out. */
bool run_fail_unknown(struct run *r, const struct spot *at, const struct obj_rules *rules);
/* The budget is spent. */
void run_note_spent(struct run *r);

/* Is no further failure of interest? */
static inline bool run_is_over(const struct run *r)
{
	return r->spent || !r->report || r->quiet || r->report->count == SCHEMA_ERRORS_MAX;
}

/* Is v a whole multiple of the step? */
bool run_is_multiple(struct jx_number v, struct jx_decimal step);
/* The first pair of equal elements; false when there is none (or the budget ended: r->spent). */
bool run_find_equal(struct run *r, const json_t *array, size_t *ret_a, size_t *ret_b);
/* Pay for work; false when the budget is spent. */
bool run_pay(struct run *r, size_t steps);

#endif
