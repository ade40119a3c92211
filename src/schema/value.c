/* What a schema asks of one value alone: its type, whether it equals a constant, whether it is a multiple, whether
 * elements differ.  The compiler and a run call it, on any thread; work is counted in the run's steps. */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#include "run_int.h"
#include "schema_int.h"

/* --- The seven types of JSON Schema as bits and as words. */

static const struct { const char *name, *words; unsigned bit; } types[] = {
	{ "object", "an object", TYPE_OBJECT },
	{ "array", "an array", TYPE_ARRAY },
	{ "string", "a string", TYPE_STRING },
	{ "number", "a number", TYPE_NUMBER },
	{ "integer", "an integer", TYPE_INTEGER },
	{ "boolean", "true or false", TYPE_BOOLEAN },
	{ "null", "null", TYPE_NULL },
};

unsigned schema_type_of_name(const char *name)
{
	for (size_t i = 0; i < NELEMS(types); i++)
		if (strcmp(types[i].name, name) == 0)
			return types[i].bit;
	return 0;
}

unsigned schema_type_bits(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return TYPE_OBJECT;
	case JSON_ARRAY:
		return TYPE_ARRAY;
	case JSON_STRING:
		return TYPE_STRING;
	case JSON_INTEGER:
		return TYPE_INTEGER | TYPE_NUMBER;
	case JSON_REAL:
		return jx_is_integer(v) ? TYPE_INTEGER | TYPE_NUMBER : TYPE_NUMBER;
	case JSON_TRUE:
	case JSON_FALSE:
		return TYPE_BOOLEAN;
	case JSON_NULL:
		return TYPE_NULL;
	}
	return 0;
}

void schema_type_words(unsigned bits, char *ret, size_t size)
{
	struct str out = STR_INIT;
	unsigned left;

	if (bits & TYPE_NUMBER)
		bits &= ~(unsigned)TYPE_INTEGER;
	left = (unsigned)__builtin_popcount(bits);
	for (size_t i = 0; i < NELEMS(types); i++) {
		if (!(bits & types[i].bit))
			continue;
		str_puts(&out, types[i].words);
		if (--left)
			str_puts(&out, left == 1 ? " or " : ", ");
	}
	(void)snprintf(ret, size, "%s", str_text(&out));
	str_fini(&out);
}

/* --- Constants of const and enum, and the hash that makes enum and uniqueItems fast. */

#define HASH_MIX 0x9e3779b97f4a7c15u
#define BYTES_PER_STEP 64
#define EXACT_END 9007199254740992      /* doubles and integers below this are told apart by their bits */

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0xff51afd7ed558ccdu;
	return h ^ h >> 32;
}

static uint64_t hash_bytes(uint64_t h, const char *p, size_t len)
{
	uint64_t w;

	h = mix(h, len);
	for (; len >= sizeof(w); p += sizeof(w), len -= sizeof(w)) {
		memcpy(&w, p, sizeof(w));
		h = mix(h, w);
	}
	w = 0;
	memcpy(&w, p, len);
	return mix(h, w);
}

static uint64_t hash_decimal(struct jx_number n)
{
	struct jx_decimal d;

	jx_decimal(n, &d);
	return mix(hash_bytes(d.negative, d.digits, d.n), (uint64_t)d.exp10);
}

/* A double that is a whole number hashes as that integer; what may be written as either, as its digits. */
static uint64_t hash_number(struct jx_number n)
{
	uint64_t bits;

	if (n.kind == JX_REAL && fabs(n.d) < EXACT_END && (double)(int64_t)n.d == n.d)
		n = (struct jx_number){ .kind = JX_INTEGER, .i = (int64_t)n.d };
	if (n.kind == JX_INTEGER && n.i < EXACT_END && n.i > -EXACT_END)
		return mix(TYPE_INTEGER, (uint64_t)n.i);
	if (n.kind != JX_REAL || fabs(n.d) >= EXACT_END)
		return hash_decimal(n);
	memcpy(&bits, &n.d, sizeof(bits));
	return mix(TYPE_NUMBER, bits);
}

/* Members are added up, so that their order does not count. */
static uint64_t hash_object(const json_t *v, size_t *steps)
{
	json_t *obj = (json_t *)(uintptr_t)v;   /* jansson iterates without const */
	uint64_t sum = 0;

	for (void *it = json_object_iter(obj); it; it = json_object_iter_next(obj, it)) {
		uint64_t h = hash_bytes(HASH_MIX, json_object_iter_key(it), json_object_iter_key_len(it));

		sum += mix(h, schema_hash(json_object_iter_value(it), steps));
	}
	return mix(TYPE_OBJECT, sum);
}

uint64_t schema_hash(const json_t *v, size_t *steps)
{
	uint64_t h;

	++*steps;
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return hash_object(v, steps);
	case JSON_ARRAY:
		h = TYPE_ARRAY;
		for (size_t i = 0; i < json_array_size(v); i++)
			h = mix(h, schema_hash(json_array_get(v, i), steps));
		return mix(h, json_array_size(v));
	case JSON_STRING:
		*steps += json_string_length(v) / BYTES_PER_STEP;
		return hash_bytes(TYPE_STRING, json_string_value(v), json_string_length(v));
	case JSON_INTEGER:
	case JSON_REAL:
		return hash_number(jx_number(v));
	case JSON_TRUE:
		return mix(TYPE_BOOLEAN, 1);
	case JSON_FALSE:
		return mix(TYPE_BOOLEAN, 0);
	case JSON_NULL:
		return mix(TYPE_NULL, 0);
	}
	return 0;
}

static bool equal_object(const struct constant *c, const json_t *v)
{
	if (json_object_size(v) != c->n)
		return false;
	for (size_t i = 0; i < c->n; i++) {
		const json_t *child = json_object_getn(v, c->names[i].p, c->names[i].len);

		if (!child || !schema_constant_equal(&c->children[i], child))
			return false;
	}
	return true;
}

static bool equal_array(const struct constant *c, const json_t *v)
{
	if (json_array_size(v) != c->n)
		return false;
	for (size_t i = 0; i < c->n; i++)
		if (!schema_constant_equal(&c->children[i], json_array_get(v, i)))
			return false;
	return true;
}

bool schema_constant_equal(const struct constant *c, const json_t *v)
{
	if (!(schema_type_bits(v) & c->type))
		return false;
	switch (c->type) {
	case TYPE_OBJECT:
		return equal_object(c, v);
	case TYPE_ARRAY:
		return equal_array(c, v);
	case TYPE_STRING:
		return json_string_length(v) == c->len && memcmp(json_string_value(v), c->text, c->len) == 0;
	case TYPE_NUMBER:
		return jx_compare(jx_number(v), c->number) == 0;
	case TYPE_BOOLEAN:
		return json_is_true(v) == c->truth;
	default:
		return true;
	}
}

/* --- The two rules that need arithmetic and a sort: multipleOf and uniqueItems. */

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
	struct element few[FEW], *e = n > FEW ? mem_calloc(n, sizeof(*e)) : few;
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
		qsort(e, n, sizeof(*e), order_elements);
	found = found && find_in_sorted(r, array, e, n, ret_a, ret_b);
	if (e != few)
		free(e);
	return found;
}
