/* Questions about values: type names, JSON pointers, equality, the order and the digits of numbers. */
#include "config.h"

#include "json/json.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#include "json_int.h"

#define DIGITS_MAX 17           /* of a double that reads back as itself */

const char *jx_type_name(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return "object";
	case JSON_ARRAY:
		return "array";
	case JSON_STRING:
		return "string";
	case JSON_INTEGER:
		return "integer";
	case JSON_REAL:
		return "number";
	case JSON_TRUE:
	case JSON_FALSE:
		return "boolean";
	case JSON_NULL:
		return "null";
	}
	return "nothing";
}

bool jx_is_integer(const json_t *v)
{
	return json_is_integer(v) || (json_is_real(v) && trunc(json_real_value(v)) == json_real_value(v));
}

/* POINTERS */

bool jx_pointer_token(const char **p, char *ret)
{
	size_t n = 0;

	for (; **p && **p != '/'; ++*p) {
		char c = **p;

		if (c == '~') {
			c = *++*p;
			if (c != '0' && c != '1')
				return false;
			c = c == '0' ? '~' : '/';
		}
		if (n == JX_NAME_MAX)
			return false;
		ret[n++] = c;
	}
	ret[n] = '\0';
	return true;
}

bool jx_pointer_index(const char *token, size_t *ret)
{
	size_t i = 0;

	if (!*token || (token[0] == '0' && token[1]))
		return false;
	for (; *token; token++) {
		if (*token < '0' || *token > '9' || i > JX_MEMBERS_MAX)
			return false;
		i = i * 10 + (size_t)(*token - '0');
	}
	*ret = i;
	return true;
}

json_t *jx_at(const json_t *root, const char *pointer)
{
	char token[JX_NAME_MAX + 1];
	/* jansson's getters take const and return the child without it. */
	json_t *v = (json_t *)(uintptr_t)root;
	size_t i;

	while (v && *pointer) {
		if (*pointer++ != '/' || !jx_pointer_token(&pointer, token))
			return NULL;
		if (json_is_object(v))
			v = json_object_get(v, token);
		else
			v = json_is_array(v) && jx_pointer_index(token, &i) ? json_array_get(v, i) : NULL;
	}
	return v;
}

void jx_pointer_add(struct str *pointer, const char *token)
{
	str_putc(pointer, '/');
	for (;;) {
		size_t n = strcspn(token, "~/");

		str_put(pointer, token, n);
		if (!token[n])
			return;
		str_puts(pointer, token[n] == '~' ? "~0" : "~1");
		token += n + 1;
	}
}

/* NUMBERS */

/* A double of this size or more is beyond every int64. */
#define INT64_END 9223372036854775808.0

struct jx_number jx_number(const json_t *v)
{
	if (json_is_integer(v))
		return (struct jx_number){ .i = json_integer_value(v) };
	return (struct jx_number){ .is_real = true, .d = json_real_value(v) };
}

static int compare_int_real(int64_t i, double d)
{
	int64_t whole;

	if (d >= INT64_END)
		return -1;
	if (d < -INT64_END)
		return 1;
	whole = (int64_t)d;             /* exact: cut towards zero */
	if (i != whole)
		return i < whole ? -1 : 1;
	d -= (double)whole;             /* exact as well: the fraction */
	return d > 0 ? -1 : d < 0;
}

int jx_compare(struct jx_number a, struct jx_number b)
{
	if (a.is_real && b.is_real)
		return a.d < b.d ? -1 : a.d > b.d;
	if (b.is_real)
		return compare_int_real(a.i, b.d);
	if (a.is_real)
		return -compare_int_real(b.i, a.d);
	return a.i < b.i ? -1 : a.i > b.i;
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
	int exp, n = fabs(d) < DBL_MIN ? 1 : 15;
	bool lopsided = fabs(frexp(d, &exp)) == 0.5;

	for (; n < DIGITS_MAX; n++) {
		(void)snprintf(text, size, "%.*e", n - 1, d);
		if (strtod(text, NULL) == d)
			return;
		if (!lopsided)
			continue;
		step_up(text, (size_t)n);
		if (strtod(text, NULL) == d)
			return;
	}
	(void)snprintf(text, size, "%.*e", DIGITS_MAX - 1, d);
}

struct jx_decimal jx_decimal(struct jx_number v)
{
	struct jx_decimal r = { 0 };
	char text[40];
	const char *p = text;

	if (!v.is_real) {
		r.negative = v.i < 0;
		r.digits = v.i < 0 ? 0 - (uint64_t)v.i : (uint64_t)v.i;
	} else {
		shortest(v.d, text, sizeof text);
		r.negative = *p == '-';
		for (p += r.negative; *p != 'e'; p++) {
			if (*p == '.')
				continue;
			r.digits = r.digits * 10 + (uint64_t)(*p - '0');
			r.exp10--;
		}
		r.exp10 += 1 + (int)strtol(p + 1, NULL, 10);
	}
	while (r.digits && r.digits % 10 == 0) {
		r.digits /= 10;
		r.exp10++;
	}
	if (!r.digits)
		r.exp10 = 0;
	return r;
}

/* EQUALITY */

static bool equal_objects(const json_t *a, const json_t *b)
{
	json_t *obj = (json_t *)(uintptr_t)a;   /* jansson iterates without const */

	if (json_object_size(a) != json_object_size(b))
		return false;
	for (void *it = json_object_iter(obj); it; it = json_object_iter_next(obj, it)) {
		const json_t *other = json_object_getn(b, json_object_iter_key(it), json_object_iter_key_len(it));

		if (!other || !jx_equal(json_object_iter_value(it), other))
			return false;
	}
	return true;
}

static bool equal_arrays(const json_t *a, const json_t *b)
{
	if (json_array_size(a) != json_array_size(b))
		return false;
	for (size_t i = 0; i < json_array_size(a); i++)
		if (!jx_equal(json_array_get(a, i), json_array_get(b, i)))
			return false;
	return true;
}

bool jx_equal(const json_t *a, const json_t *b)
{
	if (json_is_number(a) && json_is_number(b))
		return jx_compare(jx_number(a), jx_number(b)) == 0;
	if (json_typeof(a) != json_typeof(b))
		return false;
	switch (json_typeof(a)) {
	case JSON_OBJECT:
		return equal_objects(a, b);
	case JSON_ARRAY:
		return equal_arrays(a, b);
	case JSON_STRING:
		return json_string_length(a) == json_string_length(b) &&
		       memcmp(json_string_value(a), json_string_value(b), json_string_length(a)) == 0;
	case JSON_INTEGER:
	case JSON_REAL:
	case JSON_TRUE:
	case JSON_FALSE:
	case JSON_NULL:
		break;
	}
	return true;
}
