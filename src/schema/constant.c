/* Values of const and enum against values of a call, and the hash that makes enum and uniqueItems fast. */
#include "config.h"

#include "schema_int.h"

#include <math.h>
#include <string.h>

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
	for (; len >= sizeof w; p += sizeof w, len -= sizeof w) {
		memcpy(&w, p, sizeof w);
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
	memcpy(&bits, &n.d, sizeof bits);
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
