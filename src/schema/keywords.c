/* The table of keywords: what each does, in which dialect, and what is refused by name.  Handlers that
 * read one number, one schema or a map of schemas are shared; the row says where the result goes. */
#include "config.h"

#include "compile_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#include "keywords_int.h"

#define D7 1
#define D2020 2
#define BOTH (D7 | D2020)

static int kw_note(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return 0;
}

static int kw_note_text(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return json_is_string(v) ? 0 : compile_fail(c, ERR_INVALID, "must be a string");
}

static int kw_id(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	if (c->object != c->doc)
		return compile_fail(c, ERR_INVALID, "\"$id\" is supported at the root only");
	return kw_note_text(c, n, kw, v);
}

/* choose_dialect() has read the one at the root. */
static int kw_dialect(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	if (c->object != c->doc && !json_equal(v, json_object_get(c->doc, "$schema")))
		return compile_fail(c, ERR_INVALID, "a subschema cannot have a dialect of its own");
	return 0;
}

static int kw_ref(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return compile_ref(c, v);
}

static int kw_refused(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return compile_fail(c, ERR_INVALID, "the keyword \"%s\" is not supported", kw->name);
}

#define AT(group, member) offsetof(struct group, member)

static const struct keyword keywords[] = {
	{ "$ref", BOTH, kw_ref, 0 },
	{ "type", BOTH, kw_type, 0 },
	{ "properties", BOTH, kw_properties, 0 },
	{ "required", BOTH, kw_required, 0 },
	{ "items", BOTH, kw_items, 0 },
	{ "enum", BOTH, kw_enum, 0 },
	{ "const", BOTH, kw_const, 0 },
	{ "pattern", BOTH, kw_pattern, 0 },
	{ "minLength", BOTH, kw_str_count, AT(str_rules, min) },
	{ "maxLength", BOTH, kw_str_count, AT(str_rules, max) },
	{ "minimum", BOTH, kw_bound, AT(num_rules, min) },
	{ "maximum", BOTH, kw_bound, AT(num_rules, max) },
	{ "exclusiveMinimum", BOTH, kw_bound, AT(num_rules, above) },
	{ "exclusiveMaximum", BOTH, kw_bound, AT(num_rules, below) },
	{ "multipleOf", BOTH, kw_multiple, 0 },
	{ "minItems", BOTH, kw_arr_count, AT(arr_rules, min) },
	{ "maxItems", BOTH, kw_arr_count, AT(arr_rules, max) },
	{ "uniqueItems", BOTH, kw_unique, 0 },
	{ "contains", BOTH, kw_arr_schema, AT(arr_rules, contains) },
	{ "minContains", D2020, kw_arr_count, AT(arr_rules, min_contains) },
	{ "maxContains", D2020, kw_arr_count, AT(arr_rules, max_contains) },
	{ "prefixItems", D2020, kw_prefix, 0 },
	{ "additionalItems", D7, kw_additional_items, 0 },
	{ "minProperties", BOTH, kw_obj_count, AT(obj_rules, min) },
	{ "maxProperties", BOTH, kw_obj_count, AT(obj_rules, max) },
	{ "additionalProperties", BOTH, kw_obj_schema, AT(obj_rules, additional) },
	{ "propertyNames", BOTH, kw_obj_schema, AT(obj_rules, names) },
	{ "patternProperties", BOTH, kw_pattern_properties, 0 },
	{ "dependentRequired", D2020, kw_dependents, 0 },
	{ "dependentSchemas", D2020, kw_dependents, 0 },
	{ "dependencies", D7, kw_dependents, 0 },
	{ "allOf", BOTH, kw_logic_list, AT(logic, all) },
	{ "anyOf", BOTH, kw_logic_list, AT(logic, any) },
	{ "oneOf", BOTH, kw_logic_list, AT(logic, one) },
	{ "not", BOTH, kw_logic_schema, AT(logic, not) },
	{ "if", BOTH, kw_logic_schema, AT(logic, cond) },
	{ "then", BOTH, kw_logic_schema, AT(logic, then) },
	{ "else", BOTH, kw_logic_schema, AT(logic, other) },
	{ "$defs", BOTH, kw_definitions, 0 },
	{ "definitions", BOTH, kw_definitions, 0 },
	{ "$schema", BOTH, kw_dialect, 0 },
	{ "$id", BOTH, kw_id, 0 },
	/* annotations */
	{ "$comment", BOTH, kw_note_text, 0 },
	{ "$anchor", D2020, kw_note_text, 0 },  /* a name; a $ref that uses it is refused */
	{ "title", BOTH, kw_note_text, 0 },
	{ "description", BOTH, kw_note_text, 0 },
	{ "format", BOTH, kw_note_text, 0 },
	{ "default", BOTH, kw_note, 0 },
	{ "examples", BOTH, kw_note, 0 },
	{ "deprecated", BOTH, kw_note, 0 },
	{ "readOnly", BOTH, kw_note, 0 },
	{ "writeOnly", BOTH, kw_note, 0 },
	{ "contentEncoding", BOTH, kw_note, 0 },
	{ "contentMediaType", BOTH, kw_note, 0 },
	{ "contentSchema", D2020, kw_note, 0 },
	/* annotations of editors and of OpenAPI that never decide about a value */
	{ "example", BOTH, kw_note, 0 },
	{ "externalDocs", BOTH, kw_note, 0 },
	{ "xml", BOTH, kw_note, 0 },
	{ "markdownDescription", BOTH, kw_note, 0 },
	{ "markdownEnumDescriptions", BOTH, kw_note, 0 },
	{ "enumDescriptions", BOTH, kw_note, 0 },
	{ "enumNames", BOTH, kw_note, 0 },
	{ "defaultSnippets", BOTH, kw_note, 0 },
	{ "deprecationMessage", BOTH, kw_note, 0 },
	{ "errorMessage", BOTH, kw_note, 0 },
	{ "propertyOrder", BOTH, kw_note, 0 },
	{ "propertyOrdering", BOTH, kw_note, 0 },
	{ "tsType", BOTH, kw_note, 0 },
	/* keywords that need what is not built */
	{ "unevaluatedItems", D2020, kw_refused, 0 },
	{ "unevaluatedProperties", D2020, kw_refused, 0 },
	{ "$dynamicRef", D2020, kw_refused, 0 },
	{ "$dynamicAnchor", D2020, kw_refused, 0 },
	{ "$vocabulary", D2020, kw_refused, 0 },
	{ "$recursiveRef", BOTH, kw_refused, 0 },
	{ "$recursiveAnchor", BOTH, kw_refused, 0 },
};

static int refuse_dialect(struct compiler *c, const struct keyword *kw)
{
	int rc = compile_fail(c, ERR_INVALID, "\"%s\" belongs to %s, this schema is %s", kw->name,
			      c->draft7 ? "2020-12" : "draft-07", c->draft7 ? "draft-07" : "2020-12");

	if (c->draft7)
		err_hint(c->err, "leave $schema out to use 2020-12");
	else
		err_hint(c->err, "use %s", strcmp(kw->name, "dependencies") == 0 ?
			 "dependentRequired or dependentSchemas" : "prefixItems and items");
	return rc;
}

int compile_unknown(struct compiler *c, const char *name)
{
	const char *known[NELEMS(keywords)], *near;
	int rc = compile_fail(c, ERR_INVALID, "not a keyword of JSON Schema");

	for (size_t i = 0; i < NELEMS(keywords); i++)
		known[i] = keywords[i].name;
	near = text_nearest(name, known, NELEMS(known));
	if (near)
		err_hint(c->err, "did you mean %s?", near);
	else if (strcmp(name, "nullable") == 0)
		err_hint(c->err, "add \"null\" to the list of types");
	else
		err_hint(c->err, "annotations of your own begin with \"x-\"");
	return rc;
}

int compile_keyword(struct compiler *c, struct node *n, const char *name, const json_t *v)
{
	for (size_t i = 0; i < NELEMS(keywords); i++) {
		const struct keyword *kw = &keywords[i];

		if (strcmp(kw->name, name) != 0)
			continue;
		if (!(kw->dialects & (c->draft7 ? D7 : D2020)))
			return refuse_dialect(c, kw);
		return kw->read(c, n, kw, v);
	}
	return strncmp(name, "x-", 2) == 0 ? 0 : compile_unknown(c, name);
}
