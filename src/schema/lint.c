/* What real hosts choke on though the schema is legal (MCP B-31).  The walk goes where subschemas are, not
 * into constants, defaults or examples. */
#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#include "schema_int.h"

struct lint {
	schema_warn_fn *warn;
	void *arg;
	struct str pointer;
	unsigned depth;
};

static void warn(struct lint *l, const char *name, const char *text)
{
	size_t mark = l->pointer.len;

	if (name)
		jx_pointer_add(&l->pointer, name);
	l->warn(l->arg, str_text(&l->pointer), text);
	l->pointer.len = mark;
	if (l->pointer.p)
		l->pointer.p[mark] = '\0';
}

static void lint_root(struct lint *l, const json_t *doc)
{
	static const char *const combining[] = { "oneOf", "anyOf", "allOf" };
	const char *type = json_string_value(json_object_get(doc, "type"));
	json_t *modern = NULL;
	struct err e;

	if (!type || strcmp(type, "object") != 0)
		warn(l, NULL, "the root has no \"type\": \"object\"; some hosts drop the whole list of tools for it");
	for (size_t i = 0; i < NELEMS(combining); i++)
		if (json_object_get(doc, combining[i]))
			warn(l, combining[i], "some model APIs refuse oneOf, anyOf and allOf at the root");
	if (schema_translate(doc, &modern, &e) < 0)
		warn(l, "$schema",
		     "some hosts refuse dialects other than 2020-12, and this schema cannot be listed as that");
	json_decref(modern);
}

/* Names that model APIs take for arguments. */
static bool is_argument_name(const char *p)
{
	size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

	return n > 0 && n <= 64 && !p[n];
}

static void lint_one(struct lint *l, const json_t *doc)
{
	json_t *props = json_object_get(doc, "properties");
	size_t mark = l->pointer.len;

	if (json_object_get(doc, "$ref"))
		warn(l, "$ref", "some hosts do not follow $ref");
	if (json_is_array(json_object_get(doc, "type")))
		warn(l, "type", "some hosts do not take a list of types");
	if (json_is_object(json_object_get(doc, "additionalProperties")))
		warn(l, "additionalProperties", "some hosts do not take a schema here");
	if (json_object_get(doc, "patternProperties"))
		warn(l, "patternProperties", "some hosts do not know patternProperties");
	jx_pointer_add(&l->pointer, "properties");
	for (void *it = json_object_iter(props); it; it = json_object_iter_next(props, it))
		if (!is_argument_name(json_object_iter_key(it)))
			warn(l, json_object_iter_key(it),
			     "some model APIs refuse names other than [A-Za-z0-9_.-]{1,64}");
	l->pointer.len = mark;
}

static void lint_schema(struct lint *l, const json_t *doc);

/* Each child of a list or of a map, or the value itself. */
static void lint_children(struct lint *l, const char *name, json_t *v, bool map)
{
	size_t mark = l->pointer.len, inner;

	jx_pointer_add(&l->pointer, name);
	inner = l->pointer.len;
	if (!map && json_is_object(v))
		lint_schema(l, v);
	for (size_t i = 0; i < json_array_size(v); i++) {
		str_printf(&l->pointer, "/%zu", i);
		lint_schema(l, json_array_get(v, i));
		l->pointer.len = inner;
	}
	for (void *it = map ? json_object_iter(v) : NULL; it; it = json_object_iter_next(v, it)) {
		jx_pointer_add(&l->pointer, json_object_iter_key(it));
		lint_schema(l, json_object_iter_value(it));
		l->pointer.len = inner;
	}
	l->pointer.len = mark;
}

static void lint_schema(struct lint *l, const json_t *doc)
{
	static const struct { const char *name; bool map; } inside[] = {
		{ "properties", true }, { "patternProperties", true }, { "$defs", true }, { "definitions", true },
		{ "dependentSchemas", true }, { "items", false }, { "prefixItems", false }, { "contains", false },
		{ "additionalProperties", false }, { "propertyNames", false }, { "allOf", false }, { "anyOf", false },
		{ "oneOf", false }, { "not", false }, { "if", false }, { "then", false }, { "else", false },
	};

	if (!json_is_object(doc) || l->depth == SCHEMA_DEPTH_MAX)
		return;
	l->depth++;
	lint_one(l, doc);
	for (size_t i = 0; i < NELEMS(inside); i++)
		lint_children(l, inside[i].name, json_object_get(doc, inside[i].name), inside[i].map);
	l->depth--;
}

void schema_lint(const json_t *doc, schema_warn_fn *fn, void *arg)
{
	struct lint l = { .warn = fn, .arg = arg, .pointer = STR_INIT };

	lint_root(&l, doc);
	lint_schema(&l, doc);
	str_fini(&l.pointer);
}
