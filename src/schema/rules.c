/* The two rules that need arithmetic and a sort: multipleOf and uniqueItems. */
#include "config.h"

#include "run_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define DIGITS_PER_STEP 8       /* digits times digits of a division */
#define FEW 8                   /* elements that are compared one by one */

/* The remainder of digits followed by zeros, by a divisor of few digits. */
static bool divides_small(const struct jx_decimal *d, size_t zeros, uint64_t by)
{
	unsigned __int128 rest = 0;

	for (size_t i = 0; i < d->n + zeros; i++)
		rest = (rest * 10 + (i < d->n ? (unsigned)(d->digits[i] - '0') : 0)) % by;
	return rest == 0;
}

/* a -= b over n digits when it is at least b, else false. */
static bool subtract_digits(char *a, const char *b, size_t n)
{
	int borrow = 0;

	if (memcmp(a, b, n) < 0)
		return false;
	for (size_t i = n; i-- > 0;) {
		int v = a[i] - b[i] - borrow;

		borrow = v < 0;
		a[i] = (char)(v + (borrow ? 10 : 0));
	}
	return true;
}

/* Division as on paper: rest and divisor have by->n + 1 digits, the next digit comes in from the right. */
static bool divides_large(const struct jx_decimal *d, size_t zeros, const struct divisor *by)
{
	char rest[JX_DIGITS_MAX + 1] = { 0 }, divisor[JX_DIGITS_MAX + 1] = { 0 };

	for (size_t i = 0; i < by->n; i++)
		divisor[i + 1] = (char)(by->digits[i] - '0');
	for (size_t i = 0; i < d->n + zeros; i++) {
		memmove(rest, rest + 1, by->n);
		rest[by->n] = i < d->n ? (char)(d->digits[i] - '0') : 0;
		while (subtract_digits(rest, divisor, by->n + 1))
			;
	}
	for (size_t i = 0; i <= by->n; i++)
		if (rest[i])
			return false;
	return true;
}

/* On decimal digits, since 0.0075 is no multiple of 0.0001 in binary.  Digits end in no zero: a value with
 * more decimal places than the step is no multiple of it.  Of the zeros that a value has behind its digits
 * no more count than the divisor can have factors of 2 or of 5: four for each of its digits. */
bool run_is_multiple(struct run *r, struct jx_number v, const struct divisor *by)
{
	struct jx_decimal d;
	size_t zeros;

	if (by->whole && v.kind == JX_INTEGER)
		return v.i % by->whole == 0;
	jx_decimal(v, &d);
	if (!d.n)
		return true;
	if (d.exp10 < by->exp10)
		return false;
	zeros = d.exp10 - by->exp10 < (int64_t)(4 * by->n) ? (size_t)(d.exp10 - by->exp10) : 4 * by->n;
	if (!run_pay(r, (d.n + zeros) * by->n / DIGITS_PER_STEP))
		return false;
	return by->small ? divides_small(&d, zeros, by->small) : divides_large(&d, zeros, by);
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
