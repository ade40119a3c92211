/* The table of keywords: what each does, in which dialect, and what is refused by name.  Handlers that
 * read one number, one schema or a map of schemas are shared; the row says where the result goes. */
#include "config.h"

#include "compile_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#include "keywords_int.h"

#define ALL (D4 | D6 | D7 | D2019 | D2020)
#define FROM6 (ALL & ~D4)
#define FROM7 (FROM6 & ~D6)
#define UPTO7 (D4 | D6 | D7)
#define NEW (D2019 | D2020)

static int kw_note(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return 0;
}

static int kw_note_text(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return json_is_string(v) ? 0 : compile_fail(c, ERR_INVALID, "must be a string");
}

/* resource.c has followed $id, $anchor and their kin before. */
static int kw_noted(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return kw_note_text(c, n, kw, v);
}

static int kw_dialect(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	struct dialect d = c->in->dialect;
	size_t mark = c->pointer.len;
	int rc;

	if (c->options.lenient)
		return 0;
	compile_leave(c, mark - strlen("/$schema"));
	rc = dialect_choose(c, v, &d);
	str_puts(&c->pointer, rc ? "" : "/$schema");
	if (!rc && d.draft != c->in->dialect.draft)
		return compile_fail(c, ERR_INVALID, "a subschema cannot have a dialect of its own without an $id");
	return rc;
}

static int kw_ref(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return compile_ref(c, n, v);
}

static int kw_jump(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return compile_jump(c, n, kw->name, v);
}

static int kw_vocabulary(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return json_is_object(v) ? 0 : compile_fail(c, ERR_INVALID, "must be an object");
}

static int kw_flag(struct compiler *c, struct node *n, const struct keyword *kw, const json_t *v)
{
	return json_is_boolean(v) ? 0 : compile_fail(c, ERR_INVALID, "must be true or false");
}

#define AT(group, member) offsetof(struct group, member)

static const struct keyword keywords[] = {
	{ "$ref", ALL, VOC_CORE, SUB_NONE, kw_ref, 0 },
	{ "type", ALL, VOC_VALIDATION, SUB_NONE, kw_type, 0 },
	{ "properties", ALL, VOC_APPLICATOR, SUB_MAP, kw_properties, 0 },
	{ "required", ALL, VOC_VALIDATION, SUB_NONE, kw_required, 0 },
	{ "items", ALL, VOC_APPLICATOR, SUB_ITEMS, kw_items, 0 },
	{ "enum", ALL, VOC_VALIDATION, SUB_NONE, kw_enum, 0 },
	{ "const", FROM6, VOC_VALIDATION, SUB_NONE, kw_const, 0 },
	{ "pattern", ALL, VOC_VALIDATION, SUB_NONE, kw_pattern, 0 },
	{ "minLength", ALL, VOC_VALIDATION, SUB_NONE, kw_str_count, AT(str_rules, min) },
	{ "maxLength", ALL, VOC_VALIDATION, SUB_NONE, kw_str_count, AT(str_rules, max) },
	{ "minimum", ALL, VOC_VALIDATION, SUB_NONE, kw_bound, AT(num_rules, min) },
	{ "maximum", ALL, VOC_VALIDATION, SUB_NONE, kw_bound, AT(num_rules, max) },
	{ "exclusiveMinimum", FROM6, VOC_VALIDATION, SUB_NONE, kw_bound, AT(num_rules, above) },
	{ "exclusiveMaximum", FROM6, VOC_VALIDATION, SUB_NONE, kw_bound, AT(num_rules, below) },
	{ "exclusiveMinimum", D4, VOC_VALIDATION, SUB_NONE, kw_flag, 0 },
	{ "exclusiveMaximum", D4, VOC_VALIDATION, SUB_NONE, kw_flag, 0 },
	{ "multipleOf", ALL, VOC_VALIDATION, SUB_NONE, kw_multiple, 0 },
	{ "minItems", ALL, VOC_VALIDATION, SUB_NONE, kw_arr_count, AT(arr_rules, min) },
	{ "maxItems", ALL, VOC_VALIDATION, SUB_NONE, kw_arr_count, AT(arr_rules, max) },
	{ "uniqueItems", ALL, VOC_VALIDATION, SUB_NONE, kw_unique, 0 },
	{ "contains", FROM6, VOC_APPLICATOR, SUB_SCHEMA, kw_arr_schema, AT(arr_rules, contains) },
	{ "minContains", NEW, VOC_VALIDATION, SUB_NONE, kw_arr_count, AT(arr_rules, min_contains) },
	{ "maxContains", NEW, VOC_VALIDATION, SUB_NONE, kw_arr_count, AT(arr_rules, max_contains) },
	{ "prefixItems", D2020, VOC_APPLICATOR, SUB_LIST, kw_prefix, 0 },
	{ "additionalItems", UPTO7 | D2019, VOC_APPLICATOR, SUB_SCHEMA, kw_additional_items, 0 },
	{ "unevaluatedItems", NEW, VOC_UNEVALUATED, SUB_SCHEMA, kw_rest, AT(rest, items) },
	{ "minProperties", ALL, VOC_VALIDATION, SUB_NONE, kw_obj_count, AT(obj_rules, min) },
	{ "maxProperties", ALL, VOC_VALIDATION, SUB_NONE, kw_obj_count, AT(obj_rules, max) },
	{ "additionalProperties", ALL, VOC_APPLICATOR, SUB_SCHEMA, kw_obj_schema, AT(obj_rules, additional) },
	{ "propertyNames", FROM6, VOC_APPLICATOR, SUB_SCHEMA, kw_obj_schema, AT(obj_rules, names) },
	{ "patternProperties", ALL, VOC_APPLICATOR, SUB_MAP, kw_pattern_properties, 0 },
	{ "unevaluatedProperties", NEW, VOC_UNEVALUATED, SUB_SCHEMA, kw_rest, AT(rest, props) },
	{ "dependentRequired", NEW, VOC_VALIDATION, SUB_NONE, kw_dependents, 0 },
	{ "dependentSchemas", NEW, VOC_APPLICATOR, SUB_MAP, kw_dependents, 0 },
	{ "dependencies", UPTO7, VOC_APPLICATOR, SUB_MAP, kw_dependents, 0 },
	{ "allOf", ALL, VOC_APPLICATOR, SUB_LIST, kw_logic_list, AT(logic, all) },
	{ "anyOf", ALL, VOC_APPLICATOR, SUB_LIST, kw_logic_list, AT(logic, any) },
	{ "oneOf", ALL, VOC_APPLICATOR, SUB_LIST, kw_logic_list, AT(logic, one) },
	{ "not", ALL, VOC_APPLICATOR, SUB_SCHEMA, kw_logic_schema, AT(logic, not) },
	{ "if", FROM7, VOC_APPLICATOR, SUB_SCHEMA, kw_logic_schema, AT(logic, cond) },
	{ "then", FROM7, VOC_APPLICATOR, SUB_SCHEMA, kw_logic_schema, AT(logic, then) },
	{ "else", FROM7, VOC_APPLICATOR, SUB_SCHEMA, kw_logic_schema, AT(logic, other) },
	{ "$defs", ALL, VOC_CORE, SUB_MAP, kw_definitions, 0 },
	{ "definitions", ALL, VOC_CORE, SUB_MAP, kw_definitions, 0 },
	{ "$schema", ALL, VOC_CORE, SUB_NONE, kw_dialect, 0 },
	{ "$id", FROM6, VOC_CORE, SUB_NONE, kw_noted, 0 },
	{ "id", D4, VOC_CORE, SUB_NONE, kw_noted, 0 },
	{ "$anchor", NEW, VOC_CORE, SUB_NONE, kw_noted, 0 },
	{ "$dynamicAnchor", D2020, VOC_CORE, SUB_NONE, kw_noted, 0 },
	{ "$dynamicRef", D2020, VOC_CORE, SUB_NONE, kw_jump, 0 },
	{ "$recursiveAnchor", D2019, VOC_CORE, SUB_NONE, kw_flag, 0 },
	{ "$recursiveRef", D2019, VOC_CORE, SUB_NONE, kw_jump, 0 },
	{ "$vocabulary", NEW, VOC_CORE, SUB_NONE, kw_vocabulary, 0 },
	/* annotations, unless formats are asserted */
	{ "format", ALL, VOC_FORMAT, SUB_NONE, kw_format, 0 },
	{ "contentEncoding", FROM7, VOC_CONTENT, SUB_NONE, kw_content, 0 },
	{ "contentMediaType", FROM7, VOC_CONTENT, SUB_NONE, kw_content, 0 },
	/* annotations */
	{ "contentSchema", NEW, VOC_CONTENT, SUB_SCHEMA, kw_note, 0 },
	{ "$comment", ALL, VOC_CORE, SUB_NONE, kw_note_text, 0 },
	{ "title", ALL, VOC_META, SUB_NONE, kw_note_text, 0 },
	{ "description", ALL, VOC_META, SUB_NONE, kw_note_text, 0 },
	{ "default", ALL, VOC_META, SUB_NONE, kw_note, 0 },
	{ "examples", ALL, VOC_META, SUB_NONE, kw_note, 0 },
	{ "deprecated", ALL, VOC_META, SUB_NONE, kw_note, 0 },
	{ "readOnly", ALL, VOC_META, SUB_NONE, kw_note, 0 },
	{ "writeOnly", ALL, VOC_META, SUB_NONE, kw_note, 0 },
	/* annotations of editors and of OpenAPI that never decide about a value */
	{ "example", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "externalDocs", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "xml", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "markdownDescription", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "markdownEnumDescriptions", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "enumDescriptions", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "enumNames", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "defaultSnippets", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "deprecationMessage", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "errorMessage", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "propertyOrder", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "propertyOrdering", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
	{ "tsType", ALL, VOC_CORE, SUB_NONE, kw_note, 0 },
};

/* The row of a name in a dialect; *ret_other = a row of other dialects, when only those have the name. */
static const struct keyword *find_keyword(const struct dialect *d, const char *name, const struct keyword **ret_other)
{
	for (size_t i = 0; i < NELEMS(keywords); i++) {
		const struct keyword *kw = &keywords[i];

		if (kw->name[0] != name[0] || kw->name[1] != name[1] || strcmp(kw->name, name) != 0)
			continue;
		if (kw->dialects & d->draft)
			return kw;
		*ret_other = kw;
	}
	return NULL;
}

enum sub keyword_sub(const struct dialect *d, const char *name)
{
	const struct keyword *other = NULL, *kw = find_keyword(d, name, &other);

	if (!kw && other && strcmp(name, "dependencies") == 0)
		kw = other;             /* compile_keyword() may take it */
	return kw && (kw->vocabulary & d->vocabularies) ? kw->sub : SUB_NONE;
}

bool keyword_is_new(const struct dialect *d, const char *name)
{
	const struct dialect newest = dialect_default();
	const struct keyword *other = NULL, *kw = find_keyword(&newest, name, &other);

	return kw && !find_keyword(d, name, &other);
}

/* The drafts of a row in words: the newest that is older than the schema's, else the oldest. */
static const char *draft_words(const struct keyword *kw, unsigned draft)
{
	for (unsigned d = draft >> 1; d; d >>= 1)
		if (kw->dialects & d)
			return dialect_name(d);
	return dialect_name(kw->dialects & (0u - kw->dialects));
}

static int refuse_dialect(struct compiler *c, const struct keyword *kw)
{
	const char *to = "prefixItems and items";
	int rc = compile_fail(c, ERR_INVALID, "\"%s\" belongs to %s, this schema is %s", kw->name,
			      draft_words(kw, c->in->dialect.draft), dialect_name(c->in->dialect.draft));

	if (strcmp(kw->name, "dependencies") == 0)
		to = "dependentRequired or dependentSchemas";
	else if (strncmp(kw->name, "$recursive", 10) == 0)
		to = "$dynamicRef and $dynamicAnchor";
	else if (strcmp(kw->name, "id") == 0)
		to = "$id";
	if (c->in->dialect.draft == D2020)
		err_hint(c->err, "use %s", to);
	else
		err_hint(c->err, "leave $schema out to use 2020-12");
	return rc;
}

/* Refuse a member that no row knows, with the nearest name as a hint. */
static int refuse_unknown(struct compiler *c, const char *name)
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
	const struct keyword *other = NULL, *kw = find_keyword(&c->in->dialect, name, &other);

	/* The newer dialects say that draft-07's keyword may go on to work. */
	if (!kw && other && c->options.lenient && strcmp(name, "dependencies") == 0)
		kw = other;
	if (kw)
		return kw->vocabulary & c->in->dialect.vocabularies ? kw->read(c, n, kw, v) : 0;
	if (c->options.lenient || strncmp(name, "x-", 2) == 0)
		return 0;
	return other ? refuse_dialect(c, other) : refuse_unknown(c, name);
}
