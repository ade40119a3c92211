/* The seven types of JSON Schema as bits and as words. */
#include "config.h"

#include "schema_int.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

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
