/* What compiles, what is refused by name and where, and the limits of a schema (SEC S-209). */
#include "config.h"

#include "schema/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "suite.h"

static int compile(const char *text, struct err *err)
{
	struct schema *s = NULL;
	json_t *doc = NULL;
	int rc;

	if (jx_parse(text, strlen(text), &doc, err) != 0)
		fail_msg("not JSON: %s", text);
	rc = schema_compile(doc, &s, err);
	assert_int_equal(rc == 0, s != NULL);
	json_decref(doc);
	schema_free(&s);
	assert_null(s);
	return rc;
}

static void accepts(const char *text)
{
	struct err e;

	if (compile(text, &e) != 0)
		fail_msg("%s\nrefused at %s: %s", text, e.where, e.msg);
}

static struct err refuses(const char *text, int code, const char *where)
{
	struct err e = { 0 };

	if (compile(text, &e) != code || strcmp(e.where, where) != 0)
		fail_msg("%s\ncode %d at %s: %s", text, e.code, e.where, e.msg);
	return e;
}

/* Lenient means: what has no effect may stand.  Draft-04 says MUST of an enum with nothing in it. */
static void an_empty_enum_is_no_draft_04(void **state)
{
	static const struct { const char *text; int code; } rows[] = {
		{ "{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"enum\":[]}", ERR_INVALID },
		{ "{\"$schema\":\"http://json-schema.org/draft-06/schema#\",\"enum\":[]}", 0 },
		{ "{\"enum\":[]}", 0 },
	};
	const struct schema_options lenient = { .lenient = true };

	for (size_t i = 0; i < NELEMS(rows); i++) {
		struct schema *s = NULL;
		json_t *doc = NULL;
		struct err e;

		assert_int_equal(jx_parse(rows[i].text, strlen(rows[i].text), &doc, &e), 0);
		assert_int_equal(schema_compile_with(doc, &lenient, &s, &e), rows[i].code);
		schema_free(&s);
		json_decref(doc);
		assert_int_equal(compile(rows[i].text, &e), ERR_INVALID);
	}
}

static void unknown_members_are_refused_with_a_hint(void **state)
{
	struct err e = refuses("{\"type\":\"object\",\"requird\":[\"a\"]}", ERR_INVALID, "/requird");

	assert_string_equal(e.hint, "did you mean required?");
	e = refuses("{\"items\":{\"minLenght\":1}}", ERR_INVALID, "/items/minLenght");
	assert_string_equal(e.hint, "did you mean minLength?");
	e = refuses("{\"type\":\"string\",\"nullable\":true}", ERR_INVALID, "/nullable");
	assert_non_null(strstr(e.hint, "null"));
	e = refuses("{\"wholly-unknown-word\":1}", ERR_INVALID, "/wholly-unknown-word");
	assert_non_null(strstr(e.hint, "x-"));
}

static void annotations_are_accepted_and_ignored(void **state)
{
	accepts("{\"$comment\":\"c\",\"title\":\"t\",\"description\":\"d\",\"default\":{\"type\":7},\"examples\":[1],\"format\":\"date\","
		"\"deprecated\":true,\"readOnly\":true,\"writeOnly\":false,\"contentEncoding\":\"base64\",\"contentMediaType\":\"a/b\","
		"\"contentSchema\":{},\"x-mcp-header\":\"X\",\"x-\":1,\"markdownDescription\":\"m\",\"enumNames\":[],\"example\":1,"
		"\"$id\":\"https://example.com/s\"}");
	refuses("{\"title\":1}", ERR_INVALID, "/title");
	refuses("{\"format\":null}", ERR_INVALID, "/format");
}

/* MCP */
static void dialects_are_known_by_name(void **state)
{
	accepts("{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"prefixItems\":[{}]}");
	accepts("{\"$schema\":\"https://json-schema.org/draft/2020-12/schema#\"}");
	accepts("{\"$schema\":\"https://json-schema.org/draft/2019-09/schema\",\"items\":[{}],\"$recursiveAnchor\":true}");
	accepts("{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"items\":[{}],\"additionalItems\":false}");
	accepts("{\"$schema\":\"http://json-schema.org/draft-07/schema\",\"dependencies\":{\"a\":[\"b\"],\"c\":{}}}");
	accepts("{\"$schema\":\"http://json-schema.org/draft-06/schema#\",\"const\":1}");
	accepts("{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"id\":\"a\",\"minimum\":1,\"exclusiveMinimum\":true}");
	struct err e = refuses("{\"$schema\":\"http://json-schema.org/draft-03/schema#\"}", ERR_INVALID, "/$schema");

	assert_non_null(strstr(e.msg, "draft-03"));
	refuses("{\"$schema\":7}", ERR_INVALID, "/$schema");
	refuses("{\"items\":{\"$schema\":\"http://json-schema.org/draft-07/schema#\"}}", ERR_INVALID, "/items/$schema");
	accepts("{\"items\":{\"$id\":\"x\",\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"items\":[{}]}}");
}

static void keywords_of_the_other_dialect_are_refused(void **state)
{
	static const char *const modern[] = { "prefixItems", "minContains", "maxContains", "dependentRequired",
		"dependentSchemas", "unevaluatedItems" };
	struct err e;

	for (size_t i = 0; i < NELEMS(modern); i++) {
		char text[160], where[64];

		(void)snprintf(text, sizeof text, "{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"%s\":{}}", modern[i]);
		(void)snprintf(where, sizeof where, "/%s", modern[i]);
		refuses(text, ERR_INVALID, where);
	}
	e = refuses("{\"items\":[{}]}", ERR_INVALID, "/items");
	assert_string_equal(e.hint, "use prefixItems");
	refuses("{\"additionalItems\":{}}", ERR_INVALID, "/additionalItems");
	refuses("{\"id\":\"a\"}", ERR_INVALID, "/id");
	refuses("{\"$recursiveRef\":\"#\"}", ERR_INVALID, "/$recursiveRef");
	e = refuses("{\"dependencies\":{}}", ERR_INVALID, "/dependencies");
	assert_non_null(strstr(e.hint, "dependentRequired"));
}

static void wrong_values_of_keywords_are_refused(void **state)
{
	static const struct { const char *text, *where; } rows[] = {
		{ "1", "" }, { "[]", "" }, { "null", "" }, { "{\"type\":1}", "/type" }, { "{\"type\":[]}", "/type" },
		{ "{\"type\":[\"string\",\"string\"]}", "/type/1" }, { "{\"type\":[\"string\",1]}", "/type/1" },
		{ "{\"properties\":[]}", "/properties" }, { "{\"properties\":{\"a/b\":1}}", "/properties/a~1b" },
		{ "{\"required\":\"a\"}", "/required" }, { "{\"required\":[1]}", "/required" },
		{ "{\"required\":[\"a\",\"b\",\"a\"]}", "/required" }, { "{\"enum\":1}", "/enum" }, { "{\"enum\":[]}", "/enum" },
		{ "{\"minimum\":\"1\"}", "/minimum" }, { "{\"exclusiveMinimum\":true}", "/exclusiveMinimum" },
		{ "{\"multipleOf\":0}", "/multipleOf" }, { "{\"multipleOf\":-1}", "/multipleOf" }, { "{\"multipleOf\":\"1\"}", "/multipleOf" },
		{ "{\"minLength\":-1}", "/minLength" }, { "{\"minLength\":1.5}", "/minLength" }, { "{\"maxItems\":\"1\"}", "/maxItems" },
		{ "{\"pattern\":1}", "/pattern" }, { "{\"pattern\":\"(\"}", "/pattern" }, { "{\"uniqueItems\":1}", "/uniqueItems" },
		{ "{\"items\":1}", "/items" }, { "{\"prefixItems\":[]}", "/prefixItems" }, { "{\"prefixItems\":[1]}", "/prefixItems/0" },
		{ "{\"allOf\":[]}", "/allOf" }, { "{\"anyOf\":{}}", "/anyOf" }, { "{\"oneOf\":[true,1]}", "/oneOf/1" }, { "{\"not\":[]}", "/not" },
		{ "{\"patternProperties\":{\"[\":{}}}", "/patternProperties/[" }, { "{\"patternProperties\":1}", "/patternProperties" },
		{ "{\"dependentRequired\":{\"a\":1}}", "/dependentRequired/a" }, { "{\"dependentSchemas\":{\"a\":[]}}", "/dependentSchemas/a" },
		{ "{\"$defs\":[]}", "/$defs" }, { "{\"$defs\":{\"a\":1}}", "/$defs/a" }, { "{\"definitions\":{\"a\":{\"type\":\"strng\"}}}",
		"/definitions/a/type" }, { "{\"$id\":1}", "/$id" }, { "{\"$id\":\"a#b\"}", "" },
		{ "{\"additionalProperties\":\"no\"}", "/additionalProperties" }, { "{\"minContains\":-1}", "/minContains" },
	};

	for (size_t i = 0; i < NELEMS(rows); i++)
		refuses(rows[i].text, ERR_INVALID, rows[i].where);
	assert_string_equal(refuses("{\"type\":\"strng\"}", ERR_INVALID, "/type").hint, "did you mean string?");
}

/* MCP: none is ever fetched. */
static void refs_that_lead_nowhere_are_refused_q05(void **state)
{
	refuses("{\"$ref\":\"https://example.com/other\"}", ERR_INVALID, "/$ref");
	refuses("{\"$ref\":\"other.json\"}", ERR_INVALID, "/$ref");
	refuses("{\"$ref\":\"#name\"}", ERR_INVALID, "/$ref");
	refuses("{\"$ref\":\"#/nowhere\"}", ERR_INVALID, "/$ref");
	refuses("{\"$ref\":\"#/a%2\"}", ERR_INVALID, "/$ref");
	refuses("{\"$ref\":\"#/a%00\"}", ERR_INVALID, "/$ref");
	refuses("{\"$ref\":1}", ERR_INVALID, "/$ref");
	refuses("{\"$dynamicRef\":\"#name\"}", ERR_INVALID, "/$dynamicRef");
	refuses("{\"$ref\":\"#/type\",\"type\":\"string\"}", ERR_INVALID, "/type");
	refuses("{\"$ref\":\"#/$defs\",\"$defs\":{\"zzzzzzzz\":{}}}", ERR_INVALID, "/$defs/zzzzzzzz");
	refuses("{\"$defs\":{\"a\":{\"$anchor\":\"x\"},\"b\":{\"$anchor\":\"x\"}}}", ERR_INVALID, "/$defs/b");
}

static void refs_that_lead_in_circles_are_found(void **state)
{
	refuses("{\"$ref\":\"#\"}", ERR_INVALID, "");
	refuses("{\"$ref\":\"\"}", ERR_INVALID, "");
	refuses("{\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},\"b\":{\"allOf\":[{\"$ref\":\"#/$defs/a\"}]}}}", ERR_INVALID,
		"/$defs/b");
	refuses("{\"not\":{\"$ref\":\"#\"}}", ERR_INVALID, "");
	refuses("{\"dependentSchemas\":{\"a\":{\"$ref\":\"#\"}}}", ERR_INVALID, "");
	refuses("{\"if\":true,\"then\":{\"$ref\":\"#\"}}", ERR_INVALID, "");
	/* the same target twice is no circle, nor is one that goes into the value */
	accepts("{\"allOf\":[{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/a\"}],\"$defs\":{\"a\":{\"minLength\":1}}}");
	accepts("{\"properties\":{\"next\":{\"$ref\":\"#\"}},\"items\":{\"$ref\":\"#\"},\"additionalProperties\":{\"$ref\":\"#\"}}");
}

static void draft_07_ignores_what_stands_beside_a_ref(void **state)
{
	accepts("{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"$ref\":\"#/definitions/a\",\"requird\":1,"
		"\"definitions\":{\"a\":{\"type\":\"string\"}}}");
	refuses("{\"$ref\":\"#/definitions/a\",\"requird\":1,\"definitions\":{\"a\":{}}}", ERR_INVALID, "/requird");
}

/* LIMITS */

static void text_limit_s209(void **state)
{
	for (size_t over = 0; over < 2; over++) {
		struct str s = STR_INIT;
		struct err e;

		str_puts(&s, "{\"title\":\"");
		while (s.len < SCHEMA_TEXT_MAX - 2 + over)
			str_putc(&s, 'x');
		str_puts(&s, "\"}");
		assert_int_equal(s.len, SCHEMA_TEXT_MAX + over);
		assert_int_equal(compile(s.p, &e), over ? ERR_LIMIT : 0);
		str_fini(&s);
	}
}

/* MCP Q-07 */
static void depth_limit_s209(void **state)
{
	for (int over = 0; over < 2; over++) {
		struct str s = STR_INIT;
		struct err e;

		for (int i = 0; i < SCHEMA_DEPTH_MAX - 1 + over; i++)
			str_puts(&s, "{\"not\":");
		str_puts(&s, "{}");
		for (int i = 0; i < SCHEMA_DEPTH_MAX - 1 + over; i++)
			str_putc(&s, '}');
		assert_int_equal(compile(s.p, &e), over ? ERR_LIMIT : 0);
		str_fini(&s);
	}
}

/* MCP Q-07 */
static void subschema_limit_s209(void **state)
{
	for (int over = 0; over < 2; over++) {
		struct str s = STR_INIT;
		struct err e;

		str_puts(&s, "{\"anyOf\":[");
		for (int i = 0; i < SCHEMA_NODES_MAX - 1 + over; i++)
			str_puts(&s, i ? ",{}" : "{}");
		str_puts(&s, "]}");
		assert_int_equal(compile(s.p, &e), over ? ERR_LIMIT : 0);
		str_fini(&s);
	}
}

static void pattern_limit_s209(void **state)
{
	for (size_t over = 0; over < 2; over++) {
		struct str s = STR_INIT;
		struct err e;

		str_puts(&s, "{\"pattern\":\"");
		for (size_t i = 0; i < SCHEMA_PATTERN_MAX + over; i++)
			str_putc(&s, 'x');
		str_puts(&s, "\"}");
		assert_int_equal(compile(s.p, &e), over ? ERR_LIMIT : 0);
		str_fini(&s);
	}
}

static void memory_limit_s209(void **state)
{
	struct str s = STR_INIT;
	struct err e;

	/* Each pattern is small as text and large once compiled. */
	str_puts(&s, "{\"patternProperties\":{");
	for (int i = 0; i < 1000; i++)
		str_printf(&s, "%s\"%d(abcdefgh){0,1000}\":{}", i ? "," : "", i);
	str_puts(&s, "}}");
	assert_int_equal(compile(s.p, &e), ERR_LIMIT);
	str_fini(&s);
}

/* The memory of a schema with n large patterns and one of `last` repetitions; 0 = above the limit. */
static size_t memory_of(size_t n, int last)
{
	struct str s = STR_INIT;
	struct schema *compiled = NULL;
	json_t *doc = NULL;
	struct err e;
	size_t memory = 0;

	str_puts(&s, "{\"patternProperties\":{");
	for (size_t i = 0; i < n; i++)
		str_printf(&s, "\"%04zu(abcd){0,1000}\":{},", i);
	str_printf(&s, "\"(abcd){0,%d}\":{}}}", last);
	assert_int_equal(jx_parse(s.p, s.len, &doc, &e), 0);
	if (schema_compile(doc, &compiled, &e) == 0)
		memory = schema_memory(compiled);
	else
		assert_int_equal(e.code, ERR_LIMIT);
	schema_free(&compiled);
	json_decref(doc);
	str_fini(&s);
	return memory;
}

/* A repetition more or less is the smallest step. */
static void memory_at_limit_and_beyond_s209(void **state)
{
	const size_t pattern = memory_of(2, 1) - memory_of(1, 1), step = (memory_of(1, 1000) - memory_of(1, 500)) / 500 + 16;
	const size_t n = (SCHEMA_MEMORY_MAX - memory_of(0, 1)) / pattern;
	int fits = 1, over = 1200;

	while (over - fits > 1) {
		int middle = fits + (over - fits) / 2;

		if (memory_of(n, middle))
			fits = middle;
		else
			over = middle;
	}
	assert_in_range(memory_of(n, fits), SCHEMA_MEMORY_MAX - 2 * step, SCHEMA_MEMORY_MAX + 64);
	assert_int_equal(memory_of(n, fits + 1), 0);
}

static void long_chains_of_refs_need_no_stack(void **state)
{
	struct str s = STR_INIT;
	struct err e;

	str_puts(&s, "{\"$ref\":\"#/$defs/0\",\"$defs\":{");
	for (int i = 0; i < 1500; i++)
		str_printf(&s, "\"%d\":{\"$ref\":\"#/$defs/%d\"},", i, i + 1);
	str_puts(&s, "\"1500\":{}}}");
	if (compile(s.p, &e) != 0)
		fail_msg("%s %s", e.where, e.msg);
	str_fini(&s);
}

static void memory_is_reported_and_small(void **state)
{
	static const char text[] = "{\"type\":\"object\",\"properties\":{\"location\":{\"type\":\"string\",\"description\":\"City\"},"
		"\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":14}},\"required\":[\"location\"],\"additionalProperties\":false}";
	struct schema *s = NULL;
	json_t *doc = NULL;

	assert_int_equal(jx_parse(text, strlen(text), &doc, NULL), 0);
	assert_int_equal(schema_compile(doc, &s, NULL), 0);
	json_decref(doc);
	assert_in_range(schema_memory(s), 100, 1600);
	schema_free(&s);
	schema_free(&s);
}

/* LINT */

static void collect(void *arg, const char *pointer, const char *text)
{
	struct str *out = arg;

	assert_true(strlen(text) > 10);
	str_printf(out, "%s;", *pointer ? pointer : "root");
}

static void lints(const char *text, const char *expected)
{
	struct str out = STR_INIT;
	json_t *doc = NULL;

	assert_int_equal(jx_parse(text, strlen(text), &doc, NULL), 0);
	schema_lint(doc, collect, &out);
	assert_string_equal(str_text(&out), expected);
	json_decref(doc);
	str_fini(&out);
}

static void lint_warns_of_what_hosts_choke_on_b31(void **state)
{
	lints("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}},\"additionalProperties\":false}", "");
	lints("{}", "root;");
	lints("true", "root;");
	lints("{\"type\":\"object\",\"oneOf\":[{}]}", "/oneOf;");
	lints("{\"type\":\"object\",\"$schema\":\"http://json-schema.org/draft-07/schema#\"}", "");
	lints("{\"type\":\"object\",\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"not\":{\"$id\":\"x\"}}", "/$schema;");
	lints("{\"type\":\"object\",\"properties\":{\"a b\":{\"$ref\":\"#\"},\"c\":{\"items\":{\"type\":[\"null\",\"string\"]}}}}",
	      "/properties/a b;/properties/a b/$ref;/properties/c/items/type;");
	lints("{\"type\":\"object\",\"default\":{\"$ref\":1},\"enum\":[{\"$ref\":1}],\"additionalProperties\":{\"patternProperties\":{}}}",
	      "/additionalProperties;/additionalProperties/patternProperties;");
}

SINGLE_THREAD_SUITE(compile)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_enum_is_no_draft_04),
		cmocka_unit_test(unknown_members_are_refused_with_a_hint),
		cmocka_unit_test(annotations_are_accepted_and_ignored),
		cmocka_unit_test(dialects_are_known_by_name),
		cmocka_unit_test(keywords_of_the_other_dialect_are_refused),
		cmocka_unit_test(wrong_values_of_keywords_are_refused),
		cmocka_unit_test(refs_that_lead_nowhere_are_refused_q05),
		cmocka_unit_test(refs_that_lead_in_circles_are_found),
		cmocka_unit_test(draft_07_ignores_what_stands_beside_a_ref),
		cmocka_unit_test(text_limit_s209),
		cmocka_unit_test(depth_limit_s209),
		cmocka_unit_test(subschema_limit_s209),
		cmocka_unit_test(pattern_limit_s209),
		cmocka_unit_test(memory_limit_s209),
		cmocka_unit_test(memory_at_limit_and_beyond_s209),
		cmocka_unit_test(long_chains_of_refs_need_no_stack),
		cmocka_unit_test(memory_is_reported_and_small),
		cmocka_unit_test(lint_warns_of_what_hosts_choke_on_b31),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
