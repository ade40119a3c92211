/* The two rules that need arithmetic and a sort: multipleOf and uniqueItems. */
#include "config.h"

#include "run_int.h"

#include <stdlib.h>

#include "base/mem.h"

#define FEW 8                   /* elements that are compared one by one */

/* base^exp mod m; m < 2^64. */
static uint64_t power_mod(uint64_t base, unsigned exp, uint64_t m)
{
	unsigned __int128 r = 1 % m, b = base % m;

	for (; exp; exp >>= 1) {
		if (exp & 1)
			r = r * b % m;
		b = b * b % m;
	}
	return (uint64_t)r;
}

/* On decimal digits, since 0.0075 is no multiple of 0.0001 in binary.  Digits end in no zero: a value with
 * more decimal places than the step is no multiple of it. */
bool run_is_multiple(struct jx_number v, struct jx_decimal step)
{
	struct jx_decimal d = jx_decimal(v);
	unsigned __int128 rest;

	if (!d.digits)
		return true;
	if (d.exp10 < step.exp10)
		return false;
	rest = d.digits % step.digits;
	rest = rest * power_mod(10, (unsigned)(d.exp10 - step.exp10), step.digits) % step.digits;
	return rest == 0;
}

struct element { uint64_t hash; size_t index, size; };

static int order_elements(const void *a, const void *b)
{
	const struct element *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return x->index < y->index ? -1 : 1;
}

static bool equal_elements(struct run *r, const json_t *array, size_t a, size_t b, size_t size)
{
	return run_pay(r, size) && jx_equal(json_array_get(array, a), json_array_get(array, b));
}

/* Equal hashes stand side by side.  Within a run of them all pairs are compared, and paid for. */
static bool find_in_sorted(struct run *r, const json_t *array, const struct element *e, size_t n, size_t *ret_a,
			   size_t *ret_b)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = i + 1; k < n && e[k].hash == e[i].hash && !r->spent; k++)
			if (equal_elements(r, array, e[i].index, e[k].index, e[i].size)) {
				*ret_a = e[i].index;
				*ret_b = e[k].index;
				return true;
			}
	return false;
}

bool run_find_equal(struct run *r, const json_t *array, size_t *ret_a, size_t *ret_b)
{
	size_t n = json_array_size(array);
	struct element few[FEW], *e = n > FEW ? mem_calloc(n, sizeof *e) : few;
	bool found;

	for (size_t i = 0; i < n; i++) {
		e[i].index = i;
		e[i].size = 0;
		e[i].hash = schema_hash(json_array_get(array, i), &e[i].size);
		if (!run_pay(r, e[i].size))
			break;
	}
	found = !r->spent;
	if (found && n > 1)
		qsort(e, n, sizeof *e, order_elements);
	found = found && find_in_sorted(r, array, e, n, ret_a, ret_b);
	if (e != few)
		free(e);
	return found;
}
