/* Numbers: how the tree holds them, their digits, their order. */
#include "config.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#define REAL_DIGITS_MAX 17      /* of a double that reads back as itself */
#define SAFE_DIGITS 15          /* every decimal with so many reads back from its double */
#define SAFE_EXP10 290          /* within this power of ten */
/* Whole doubles below this are what their digits say; a double of INT64_END is beyond every int64. */
#define EXACT_END 9007199254740992.0
#define INT64_END 9223372036854775808.0

/* What jansson sees is its own number, freed as one block by its own free; the text stands behind it. */
struct kept_number {
	json_t head;
	double not_a_number;
	char text[];
};

/* DIGITS */

/* The exponent at p, behind its e; false beyond JX_EXPONENT_MAX. */
static bool read_exponent(const char *p, const char *end, int64_t *ret)
{
	bool negative = *p == '-';
	int64_t e = 0;

	for (p += negative || *p == '+'; p < end; p++) {
		e = e * 10 + (*p - '0');
		if (e > JX_EXPONENT_MAX)
			return false;
	}
	*ret = negative ? -e : e;
	return true;
}

/* The digits of a number in JSON text; NULL, or the limit that it is beyond. */
static const char *read_decimal(const char *p, size_t len, struct jx_decimal *ret)
{
	static const char beyond[] = "a number has an exponent beyond 1000000000";
	const char *end = p + len;
	size_t zeros = 0;               /* seen and not yet followed by another digit */
	bool fraction = false;
	int64_t e = 0;

	ret->n = 0;
	ret->exp10 = 0;
	ret->negative = *p == '-';
	for (p += ret->negative; p < end && *p != 'e' && *p != 'E'; p++) {
		if (*p == '.') {
			fraction = true;
			continue;
		}
		ret->exp10 -= fraction;
		if (*p == '0') {
			zeros += ret->n > 0;
			continue;
		}
		if (zeros + 1 > JX_DIGITS_MAX - ret->n)
			return "a number has more than 2048 digits";
		memset(ret->digits + ret->n, '0', zeros);
		ret->n += zeros;
		ret->digits[ret->n++] = *p;
		zeros = 0;
	}
	if (p < end && !read_exponent(p + 1, end, &e))
		return beyond;
	ret->exp10 = ret->n ? ret->exp10 + (int64_t)zeros + e : 0;
	/* As it is written with one digit before the point: what is read here can be written, and read again. */
	e = ret->exp10 + (ret->n ? (int64_t)ret->n - 1 : 0);
	return e > JX_EXPONENT_MAX || e < -JX_EXPONENT_MAX ? beyond : NULL;
}

/* The decimal with n digits in text ("-d.ddde+xx", by %.*e) one step further from zero. */
static void step_up(char *text, size_t n)
{
	char *p = text + (text[0] == '-') + (n > 1 ? n : 0);    /* the last digit; the point is one more */

	for (; p > text && (*p == '9' || *p == '.'); p--)
		if (*p == '9')
			*p = '0';
	if (*p >= '0' && *p < '9')
		++*p;
}

/* The shortest decimal that reads back as d, nearest to d among those (ECMA-262 6.1.6.1.20).  Between
 * 15 and 17 digits it is the rounded one, except next to a power of two, where the gap below is half
 * the gap above and the neighbour may do. */
static void shortest(double d, char *text, size_t size)
{
	int exp, n = fabs(d) < DBL_MIN ? 1 : SAFE_DIGITS;
	bool lopsided = fabs(frexp(d, &exp)) == 0.5;

	for (; n < REAL_DIGITS_MAX; n++) {
		(void)snprintf(text, size, "%.*e", n - 1, d);
		if (strtod(text, NULL) == d)
			return;
		if (!lopsided)
			continue;
		step_up(text, (size_t)n);
		if (strtod(text, NULL) == d)
			return;
	}
	(void)snprintf(text, size, "%.*e", REAL_DIGITS_MAX - 1, d);
}

void jx_decimal(struct jx_number n, struct jx_decimal *ret)
{
	char text[40];
	const char *p = text;

	switch (n.kind) {
	case JX_INTEGER:
		(void)snprintf(text, sizeof(text), "%" PRId64, n.i);
		break;
	case JX_REAL:
		shortest(n.d, text, sizeof(text));
		break;
	case JX_TEXT:
		p = n.text;
		break;
	}
	(void)read_decimal(p, strlen(p), ret);  /* a text has been read before, within the limits */
}

/* IN A TREE */

static json_t *keep_text(const char *p, size_t len)
{
	json_malloc_t take;
	json_free_t give;
	struct kept_number *n;

	json_get_alloc_funcs(&take, &give);
	n = take(sizeof(*n) + len + 1);
	if (!n && mem_give_up_reserve())
		n = take(sizeof(*n) + len + 1);
	if (!n)
		abort();        /* out of memory, as mem_alloc() */
	n->head = (json_t){ .type = JSON_REAL, .refcount = 1 };
	n->not_a_number = NAN;
	memcpy(n->text, p, len);
	n->text[len] = '\0';
	assert(isnan(json_real_value(&n->head)));       /* jansson's number is laid out as ours */
	return &n->head;
}

static double to_double(const struct jx_decimal *d)
{
	char text[JX_DIGITS_MAX + 32];

	(void)snprintf(text, sizeof(text), "%s%.*se%" PRId64, d->negative ? "-" : "", d->n ? (int)d->n : 1,
		       d->n ? d->digits : "0", d->exp10);
	return strtod(text, NULL);
}

/* Is d the shortest decimal of its double? */
static bool fits_double(const struct jx_decimal *d, double real)
{
	struct jx_decimal back;

	if (d->n <= SAFE_DIGITS && d->exp10 < SAFE_EXP10 && d->exp10 > -SAFE_EXP10)
		return true;
	if (d->n > REAL_DIGITS_MAX || isinf(real))
		return false;
	jx_decimal((struct jx_number){ .kind = JX_REAL, .d = real }, &back);
	return back.n == d->n && back.exp10 == d->exp10 && memcmp(back.digits, d->digits, d->n) == 0;
}

json_t *jx_number_new(const char *p, size_t len, const char **ret_why)
{
	bool whole = !memchr(p, '.', len) && !memchr(p, 'e', len) && !memchr(p, 'E', len);
	struct jx_decimal d;
	int64_t i;
	double real;

	if (whole && text_i64(p, len, &i) == 0)
		return json_integer(i);
	*ret_why = read_decimal(p, len, &d);
	if (*ret_why)
		return NULL;
	if (whole)
		return keep_text(p, len);
	real = to_double(&d);
	return fits_double(&d, real) ? json_real(real) : keep_text(p, len);
}

struct jx_number jx_number(const json_t *v)
{
	double d;

	if (json_is_integer(v))
		return (struct jx_number){ .kind = JX_INTEGER, .i = json_integer_value(v) };
	d = json_real_value(v);
	if (!isnan(d))
		return (struct jx_number){ .kind = JX_REAL, .d = d };
	return (struct jx_number){ .kind = JX_TEXT, .text = ((const struct kept_number *)(const void *)v)->text };
}

double jx_nearest(const json_t *v)
{
	struct jx_number n = jx_number(v);
	struct jx_decimal d;
	double real;

	if (n.kind == JX_INTEGER)
		return (double)n.i;
	if (n.kind == JX_REAL)
		return n.d;
	jx_decimal(n, &d);
	real = to_double(&d);
	return isinf(real) ? copysign(DBL_MAX, real) : real;
}

bool jx_is_integer(const json_t *v)
{
	struct jx_number n;
	struct jx_decimal d;

	if (!json_is_real(v))
		return json_is_integer(v);
	n = jx_number(v);
	if (n.kind == JX_REAL)
		return trunc(n.d) == n.d;
	jx_decimal(n, &d);
	return d.exp10 >= 0;
}

/* ORDER */

static int compare_size(const struct jx_decimal *a, const struct jx_decimal *b)
{
	int64_t x = a->exp10 + (int64_t)a->n, y = b->exp10 + (int64_t)b->n;
	size_t n = a->n < b->n ? a->n : b->n;
	int r;

	if (!a->n || !b->n)
		return (a->n > 0) - (b->n > 0);
	if (x != y)
		return x < y ? -1 : 1;
	r = memcmp(a->digits, b->digits, n);
	return r ? r : (a->n > n) - (b->n > n);
}

static int compare_decimals(struct jx_number a, struct jx_number b)
{
	struct jx_decimal x, y;

	jx_decimal(a, &x);
	jx_decimal(b, &y);
	if (!x.n || !y.n || x.negative == y.negative)
		return (x.n ? x.negative : y.negative) ? -compare_size(&x, &y) : compare_size(&x, &y);
	return x.negative ? -1 : 1;
}

static int compare_int_real(struct jx_number i, struct jx_number real)
{
	double d = real.d;
	int64_t whole;

	if (d >= INT64_END || d <= -INT64_END)
		return d > 0 ? -1 : 1;
	if (fabs(d) >= EXACT_END)
		return compare_decimals(i, real);
	whole = (int64_t)d;             /* exact: cut towards zero */
	if (i.i != whole)
		return i.i < whole ? -1 : 1;
	d -= (double)whole;             /* exact as well: the fraction */
	return d > 0 ? -1 : d < 0;
}

int jx_compare(struct jx_number a, struct jx_number b)
{
	if (a.kind == JX_INTEGER && b.kind == JX_INTEGER)
		return a.i < b.i ? -1 : a.i > b.i;
	if (a.kind == JX_REAL && b.kind == JX_REAL)
		return a.d < b.d ? -1 : a.d > b.d;
	if (a.kind == JX_INTEGER && b.kind == JX_REAL)
		return compare_int_real(a, b);
	if (a.kind == JX_REAL && b.kind == JX_INTEGER)
		return -compare_int_real(b, a);
	return compare_decimals(a, b);
}
