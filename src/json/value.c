/* Questions about values: type names, JSON pointers, equality. */
#include "config.h"

#include "json/json.h"

#include <string.h>

#include "base/text.h"

#include "json_int.h"

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

bool jx_pointer_valid(const char *pointer)
{
	char token[JX_NAME_MAX + 1];

	while (*pointer)
		if (*pointer++ != '/' || !jx_pointer_token(&pointer, token))
			return false;
	return true;
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
