/* Schemas of OpenAPI in the words of JSON Schema 2020-12.  What is referred to is copied once below $defs, so that
 * schemas which contain themselves stay finite. */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/json.h"

#include "openapi_int.h"

#define NOTE_BYTES 300
#define FOLLOW_MAX 16                   /* references to references */

/* --- notes */

static void say(struct operation *o, const char *where, const char *text)
{
	size_t mark = o->at.len;

	str_puts(&o->at, where);
	o->c->sink->note(o->c->arg, str_text(&o->at), text);
	o->at.len = mark;
	o->at.p[mark] = '\0';
}

void oa_note(struct operation *o, const char *where, const char *fmt, ...)
{
	char text[NOTE_BYTES];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);    /* cut */
	va_end(ap);
	say(o, where, text);
}

void oa_fail(struct operation *o, const char *where, const char *fmt, ...)
{
	char text[NOTE_BYTES], *whole;
	va_list ap;

	if (o->failed)
		return;
	o->failed = true;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);    /* cut */
	va_end(ap);
	whole = mem_printf("%s is left out: %s", o->output ? "outputSchema" : "the operation", text);
	say(o, where, whole);
	free(whole);
}

/* --- names */

char *oa_word(const char *text)
{
	static const char fit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
	struct str word = STR_INIT;

	for (const char *p = text; *p && word.len < NAME_MAX_BYTES; p++) {
		bool ok = strchr(fit, *p) != NULL;

		if (ok)
			str_putc(&word, *p);
		else if (word.len > 0 && word.p[word.len - 1] != '_')
			str_putc(&word, '_');
	}
	while (word.len > 1 && word.p[word.len - 1] == '_')
		word.p[--word.len] = '\0';
	if (word.len == 0)
		str_puts(&word, "x");
	return str_take(&word);
}

/* --- schemas */

static json_t *convert(struct operation *o, const json_t *v, bool schema);

const json_t *oa_follow(const struct converter *c, const json_t *v)
{
	for (int i = 0; i < FOLLOW_MAX; i++) {
		const char *ref = json_string_value(json_object_get(v, "$ref"));

		if (!ref)
			return v;
		if (*ref != '#')
			return NULL;
		v = jx_at(c->root, ref + 1);
	}
	return NULL;
}

/* "#/components/schemas/Pet" becomes "Pet", or "Pet_2" beside another one. */
static char *def_name(const struct operation *o, const char *ref)
{
	const char *last = strrchr(ref, '/');
	char *word = oa_word(last ? last + 1 : "root"), *name = mem_strdup(word);

	for (unsigned n = 2; json_object_get(o->defs, name); n++) {
		free(name);
		name = mem_printf("%s_%u", word, n);
	}
	free(word);
	return name;
}

/* The schema itself is converted later: a chain of references costs no stack. */
static json_t *convert_reference(struct operation *o, const char *ref)
{
	const char *known = json_string_value(json_object_get(o->targets, ref));
	char *name, *text;
	json_t *made;

	if (!known && (*ref != '#' || !jx_at(o->c->root, ref + 1))) {
		oa_fail(o, "", "the reference %.120s leads out of the description", ref);
		return json_true();
	}
	if (!known && json_object_size(o->defs) == OPENAPI_DEFS_MAX) {
		oa_fail(o, "", "refers to more than %d schemas", OPENAPI_DEFS_MAX);
		return json_true();
	}
	name = known ? mem_strdup(known) : def_name(o, ref);
	if (!known) {
		(void)json_object_set_new(o->targets, ref, json_string(name));
		(void)json_object_set_new(o->defs, name, json_true());
		(void)json_array_append_new(o->waiting, json_string(ref));
	}
	text = mem_printf(DEFS "%s", name);
	made = json_pack("{s:s}", "$ref", text);
	free(text);
	free(name);
	return made;
}

/* What OpenAPI has beside JSON Schema; it says nothing about values. */
static bool is_foreign(const char *name)
{
	static const char *const foreign[] = { "discriminator", "xml", "externalDocs", "nullable", "example",
		"readOnly",
					       "writeOnly", "$schema", "$id", "id" };

	for (size_t i = 0; i < NELEMS(foreign); i++)
		if (strcmp(foreign[i], name) == 0)
			return true;
	return strncmp(name, "x-", 2) == 0;
}

/* 3.0: a bound that true makes exclusive. */
static void convert_bounds(const json_t *schema, json_t *made)
{
	static const char *const bounds[][2] = { { "minimum", "exclusiveMinimum" }, { "maximum", "exclusiveMaximum" } };

	for (size_t i = 0; i < NELEMS(bounds); i++) {
		const json_t *exclusive = json_object_get(schema, bounds[i][1]);
		json_t *bound = json_object_get(schema, bounds[i][0]);

		if (!json_is_boolean(exclusive))
			continue;
		(void)json_object_del(made, bounds[i][1]);
		if (!json_is_true(exclusive) || !bound)
			continue;
		(void)json_object_set(made, bounds[i][1], bound);
		(void)json_object_del(made, bounds[i][0]);
	}
}

/* 3.0: nullable beside a type. */
static void convert_nullable(const json_t *schema, json_t *made)
{
	json_t *type = json_object_get(made, "type"), *values = json_object_get(made, "enum"), *more;

	if (!json_is_true(json_object_get(schema, "nullable")) || !json_is_string(type))
		return;
	(void)json_object_set_new(made, "type", json_pack("[s, s]", json_string_value(type), "null"));
	if (!json_is_array(values))
		return;
	more = json_copy(values);
	for (size_t i = 0; i < json_array_size(more); i++)
		if (json_is_null(json_array_get(more, i))) {
			json_decref(more);
			return;
		}
	(void)json_array_append_new(more, json_null());
	(void)json_object_set_new(made, "enum", more);
}

/* What the server alone writes is no part of a request, wherever it stands, and what the client alone writes none of an
 * answer. */
static void drop_other_side(const struct operation *o, const json_t *schema, json_t *made)
{
	const char *theirs = o->output ? "writeOnly" : "readOnly", *name;
	json_t *required = json_object_get(schema, "required"), *left = json_array(), *sub;

	for (size_t i = 0; i < json_array_size(required); i++) {
		const char *word = json_string_value(json_array_get(required, i));
		const json_t *is = word ? oa_follow(o->c, json_object_get(json_object_get(schema, "properties"), word))
			: NULL;

		if (word && !json_is_true(json_object_get(is, theirs)))
			(void)json_array_append_new(left, json_string(word));
	}
	if (json_array_size(left) < json_array_size(required))
		(void)json_object_set(made, "required", left);
	json_decref(left);
	json_object_foreach(json_object_get(schema, "properties"), name, sub)
		if (json_is_true(json_object_get(oa_follow(o->c, sub), theirs)))
			(void)json_object_del(json_object_get(made, "properties"), name);
}

enum below { BELOW_DATA, BELOW_SCHEMA, BELOW_MAP };

static enum below below(const char *keyword)
{
	static const char *const maps[] = { "properties", "patternProperties", "$defs", "definitions",
		"dependentSchemas" };
	static const char *const schemas[] = { "items", "prefixItems", "additionalProperties", "allOf", "anyOf",
		"oneOf", "not", "if",
					       "then", "else", "contains", "propertyNames", "unevaluatedProperties",
						"unevaluatedItems" };

	for (size_t i = 0; i < NELEMS(maps); i++)
		if (strcmp(maps[i], keyword) == 0)
			return BELOW_MAP;
	for (size_t i = 0; i < NELEMS(schemas); i++)
		if (strcmp(schemas[i], keyword) == 0)
			return BELOW_SCHEMA;
	return BELOW_DATA;
}

static json_t *convert_members(struct operation *o, const json_t *v, bool schema)
{
	json_t *made = json_object(), *child;
	const char *name;

	json_object_foreach((json_t *)(uintptr_t)v, name, child) {
		if (!schema) {          /* a map of schemas */
			(void)json_object_set_new(made, name, convert(o, child, true));
			continue;
		}
		if (is_foreign(name))
			continue;
		switch (below(name)) {
		case BELOW_DATA:
			(void)json_object_set(made, name, child);
			break;
		case BELOW_SCHEMA:
			(void)json_object_set_new(made, name, convert(o, child, true));
			break;
		case BELOW_MAP:
			(void)json_object_set_new(made, name, convert(o, child, false));
			break;
		}
	}
	return made;
}

/* The depth is the parser's: references are not gone into. */
static json_t *convert(struct operation *o, const json_t *v, bool schema)
{
	const char *ref = json_string_value(json_object_get(v, "$ref"));
	json_t *made, *list;

	if (o->failed)
		return json_true();
	if (++o->nodes > OPENAPI_NODES_MAX) {
		oa_fail(o, "", "its schemas have more than %d values", OPENAPI_NODES_MAX);
		return json_true();
	}
	if (json_is_array(v)) {
		list = json_array();
		for (size_t i = 0; i < json_array_size(v); i++)
			(void)json_array_append_new(list, convert(o, json_array_get(v, i), true));
		return list;
	}
	if (!json_is_object(v))
		return json_incref((json_t *)(uintptr_t)v);
	/* in 3.0 what stands beside it does not count */
	if (schema && ref && (!o->c->modern || json_object_size(v) == 1))
		return convert_reference(o, ref);
	made = convert_members(o, v, schema);
	if (schema && ref) {
		list = convert_reference(o, ref);
		(void)json_object_update(made, list);
		json_decref(list);
	}
	if (schema && json_object_get(v, "example") && !json_object_get(v, "examples"))
		(void)json_object_set_new(made, "examples", json_pack("[O]", json_object_get(v, "example")));
	if (schema && json_is_object(json_object_get(v, "properties")))
		drop_other_side(o, v, made);
	if (schema && !o->c->modern) {
		convert_bounds(v, made);
		convert_nullable(v, made);
	}
	return made;
}

json_t *oa_schema(struct operation *o, const json_t *schema)
{
	json_t *made = schema ? convert(o, schema, true) : json_object();

	while (o->converted < json_array_size(o->waiting)) {
		const char *ref = json_string_value(json_array_get(o->waiting, o->converted++));
		const char *name = json_string_value(json_object_get(o->targets, ref));

		(void)json_object_set_new(o->defs, name, convert(o, jx_at(o->c->root, ref + 1), true));
	}
	return made;
}

/* --- types */

/* a list of strings */
bool oa_listed(const json_t *list, const char *name)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (text && strcmp(text, name) == 0)
			return true;
	}
	return false;
}

bool oa_is_type(const struct operation *o, const json_t *schema, const char *type)
{
	const json_t *said = json_object_get(oa_follow(o->c, schema), "type");

	return json_is_string(said) ? strcmp(json_string_value(said), type) == 0 : oa_listed(said, type);
}

/* --- objects */

#define MERGE_DEPTH_MAX 16              /* allOf inside of allOf */
static bool is_object(const struct operation *o, const json_t *schema)
{
	return oa_is_type(o, schema, "object") || !json_object_get(schema, "type");
}

/* Does it say all of its members itself, or by allOf? */
static bool is_simple(const struct operation *o, const json_t *schema)
{
	static const char *const complex[] = { "anyOf", "oneOf", "not", "if", "patternProperties" };
	const json_t *more = json_object_get(schema, "additionalProperties");

	for (size_t i = 0; i < NELEMS(complex); i++)
		if (json_object_get(schema, complex[i]))
			return false;
	return json_is_object(schema) && (!more || json_is_false(more)) && is_object(o, schema);
}

static void merge_members(const json_t *schema, json_t *properties, json_t *required)
{
	const char *name;
	json_t *sub;

	json_object_foreach(json_object_get(schema, "properties"), name, sub) {
		json_t *before = json_object_get(properties, name);

		if (!before)
			(void)json_object_set(properties, name, sub);
		else if (!json_equal(before, sub))
			(void)json_object_set_new(properties, name, json_pack("{s:[O, O]}", "allOf", before, sub));
	}
	json_array_extend(required, json_object_get(schema, "required"));
}

/* All parts of an allOf as one object; false: one of them is more than that. */
static bool merge(struct operation *o, const json_t *schema, json_t *properties, json_t *required, unsigned depth)
{
	const json_t *all;

	schema = oa_follow(o->c, schema);
	if (depth > MERGE_DEPTH_MAX || ++o->nodes > OPENAPI_NODES_MAX || !is_simple(o, schema))
		return false;
	merge_members(schema, properties, required);
	all = json_object_get(schema, "allOf");
	for (size_t i = 0; i < json_array_size(all); i++)
		if (!merge(o, json_array_get(all, i), properties, required, depth + 1))
			return false;
	return true;
}

/* An object of named members, an allOf as one; NULL: it is more than that, or none.  Borrowed until the end. */
const json_t *oa_members(struct operation *o, const json_t *schema)
{
	json_t *properties, *required;

	if (!is_simple(o, schema))
		return NULL;
	if (!json_object_get(schema, "allOf"))
		return json_object_size(json_object_get(schema, "properties")) > 0 ? schema : NULL;
	properties = json_object();
	required = json_array();
	if (merge(o, schema, properties, required, 0) && json_object_size(properties) > 0) {
		schema = json_pack("{s:O, s:O}", "properties", properties, "required", required);
		(void)json_array_append_new(o->merged, (json_t *)(uintptr_t)schema);
	} else {
		schema = NULL;
	}
	json_decref(properties);
	json_decref(required);
	return schema;
}

/* --- arguments */

char *oa_argument(struct operation *o, const char *name, json_t *schema, const char *description, bool required)
{
	char *word = oa_word(name), *unique = mem_strdup(word);

	for (unsigned n = 2; json_object_get(o->properties, unique); n++) {
		free(unique);
		unique = mem_printf("%.56s_%u", word, n);
	}
	free(word);
	if (description && *description && json_is_object(schema) && !json_object_get(schema, "description")) {
		json_t *told = json_copy(schema);

		(void)json_object_set_new(told, "description", json_string(description));
		json_decref(schema);
		schema = told;
	}
	(void)json_object_set_new(o->properties, unique, schema);
	if (required)
		(void)json_array_append_new(o->required, json_string(unique));
	return unique;
}
