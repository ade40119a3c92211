/* What of a new schema breaks callers: pairs of schemas and what is said, place by place (Show 6). */
#include "config.h"

#include "registry/define.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "json_text.h"
#include "suite.h"

/* "POINTER: WHY" of each, "?" in front where it cannot be told; "" = nothing breaks. */
static void note(void *arg, const char *pointer, bool certain, const char *why)
{
	struct str *out = arg;

	str_printf(out, "%s%s%s: %s", out->len ? "\n" : "", certain ? "" : "?", pointer, why);
}

static void compares(enum define_side side, bool formats, const char *old, const char *now, const char *expected)
{
	json_t *a = parse(old), *b = parse(now);
	struct str out = STR_INIT;
	size_t n = define_schema_breaks(&(struct define_pair){ a, b, formats, formats }, side, note, &out), lines = out.len > 0;

	for (const char *p = str_text(&out); (p = strchr(p, '\n')); p++)
		lines++;
	if (strcmp(str_text(&out), expected) != 0)
		fail_msg("%s\n-> %s\nsaid:\n%s\nnot:\n%s", old, now, str_text(&out), expected);
	assert_int_equal(n, lines);
	assert_int_equal(define_schema_breaks(&(struct define_pair){ a, b, formats, formats }, side, NULL, NULL) > 0, n > 0);
	str_fini(&out);
	json_decref(a);
	json_decref(b);
}

struct pair { const char *old, *now, *said; };

static void each(enum define_side side, const struct pair *pairs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		compares(side, false, pairs[i].old, pairs[i].now, pairs[i].said);
}

#define INPUT(...) each(DEFINE_INPUT, (const struct pair[]){ __VA_ARGS__ }, \
			sizeof((const struct pair[]){ __VA_ARGS__ }) / sizeof(struct pair))
#define OUTPUT(...) each(DEFINE_OUTPUT, (const struct pair[]){ __VA_ARGS__ }, \
			 sizeof((const struct pair[]){ __VA_ARGS__ }) / sizeof(struct pair))
#define OBJ(rest) "{\"type\":\"object\"," rest "}"
#define P(schema) "{\"type\":\"object\",\"properties\":{\"a\":" schema "}}"

static void what_stays_or_widens_breaks_nobody(void **state)
{
	(void)state;
	INPUT({ "{}", "{}", "" }, { "true", "{}", "" }, { "false", "{\"type\":\"null\"}", "" },
	      { P("{\"type\":\"string\"}"), P("{\"type\":\"string\",\"description\":\"d\",\"default\":1,\"x-y\":2}"), "" },
	      { P("{\"type\":\"integer\"}"), P("{\"type\":\"number\"}"), "" },
	      { P("{\"type\":\"string\"}"), P("{\"type\":[\"string\",\"null\"]}"), "" },
	      { P("{\"enum\":[1,2]}"), P("{\"enum\":[2,1,3]}"), "" }, { P("{\"enum\":[1,2]}"), P("{\"type\":\"integer\"}"), "" },
	      { P("{\"const\":1}"), P("{\"enum\":[1.0,\"x\"]}"), "" },
	      { OBJ("\"required\":[\"a\",\"b\"]"), OBJ("\"required\":[\"b\"]"), "" },
	      { OBJ("\"properties\":{}"), P("{\"type\":\"string\"}"), "" },
	      { P("{}"), "{\"type\":\"object\"}", "" },
	      { OBJ("\"additionalProperties\":false"), "{\"type\":\"object\"}", "" },
	      { P("{\"type\":\"integer\",\"minimum\":2,\"maximum\":5}"), P("{\"type\":\"integer\",\"minimum\":1,\"maximum\":6}"),
		"" },
	      { P("{\"exclusiveMinimum\":5}"), P("{\"minimum\":5}"), "" },
	      { P("{\"type\":\"string\"}"), P("{\"type\":\"string\",\"minimum\":5}"), "" },
	      { P("{\"type\":\"string\"}"), P("{\"type\":\"string\",\"format\":\"email\"}"), "" },
	      { P("{\"type\":\"integer\",\"multipleOf\":4}"), P("{\"type\":\"integer\",\"multipleOf\":2}"), "" },
	      { P("{\"type\":\"integer\"}"), P("{\"type\":\"integer\",\"multipleOf\":1}"), "" },
	      { P("{\"type\":\"string\",\"pattern\":\"^a\"}"), P("{\"type\":\"string\"}"), "" },
	      { P("{\"not\":{\"const\":1}}"), P("{}"), "" });
}

static void what_arguments_lose_is_named_with_its_place(void **state)
{
	(void)state;
	INPUT({ P("{}"), OBJ("\"properties\":{\"a\":{}},\"required\":[\"a\"]"), "/properties/a: is required now" },
	      { "{\"type\":\"object\"}", OBJ("\"required\":[\"b\"]"), "/required: \"b\" is required now" },
	      { P("{\"type\":\"number\"}"), P("{\"type\":\"integer\"}"), "/properties/a/type: was \"number\", is \"integer\"" },
	      { P("{\"type\":[\"string\",\"null\"]}"), P("{\"type\":\"string\"}"),
		"/properties/a/type: was [\"string\",\"null\"], is \"string\"" },
	      { P("{}"), P("{\"type\":\"string\"}"), "/properties/a/type: was any, is \"string\"" },
	      { P("{\"enum\":[\"c\",\"f\",\"k\"]}"), P("{\"enum\":[\"c\",\"f\"]}"),
		"/properties/a/enum: \"k\" is not accepted any more" },
	      { P("{\"type\":\"string\"}"), P("{\"type\":\"string\",\"enum\":[\"c\"]}"),
		"/properties/a/enum: was anything, is [\"c\"]" },
	      { P("{\"enum\":[1,\"x\"]}"), P("{\"type\":\"integer\"}"), "/properties/a/type: \"x\" is not accepted any more" },
	      { OBJ("\"properties\":{\"a\":{},\"b\":{}}"), OBJ("\"properties\":{\"a\":{}},\"additionalProperties\":false"),
		"/properties/b: is not accepted any more\n/additionalProperties: others are not accepted any more" },
	      { OBJ("\"properties\":{\"a\":{},\"b/c\":{}},\"additionalProperties\":false"),
		OBJ("\"properties\":{\"a\":{}},\"additionalProperties\":false"), "/properties/b~1c: is not accepted any more" },
	      { P("{}"), P("false"), "/properties/a: is not accepted any more" },
	      { "{}", "false", ": nothing is accepted any more" },
	      { OBJ("\"additionalProperties\":{\"type\":\"number\"}"), OBJ("\"additionalProperties\":{\"type\":\"integer\"}"),
		"/additionalProperties/type: was \"number\", is \"integer\"" },
	      { OBJ("\"additionalProperties\":{\"type\":\"number\"}"), P("{\"type\":\"string\"}"),
		"/properties/a/type: was \"number\", is \"string\"" },
	      { P("{\"type\":\"array\",\"items\":{\"type\":\"number\"}}"), P("{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}"),
		"/properties/a/items/type: was \"number\", is \"integer\"" },
	      { P("{\"type\":\"array\"}"), P("{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"}]}"),
		"/properties/a/prefixItems/0/type: was any, is \"null\"" },
	      { P("{\"type\":\"array\"}"), P("{\"type\":\"array\",\"uniqueItems\":true}"),
		"/properties/a/uniqueItems: was false, is true" },
	      { P(P("{\"type\":\"string\"}")), P(P("{\"type\":\"null\"}")),
		"/properties/a/properties/a/type: was \"string\", is \"null\"" });
}

static void bounds_that_came_closer_are_named(void **state)
{
	(void)state;
	INPUT({ P("{\"type\":\"integer\",\"minimum\":1}"), P("{\"type\":\"integer\",\"minimum\":2}"),
		"/properties/a/minimum: was 1, is 2" },
	      { P("{\"type\":\"integer\",\"maximum\":9}"), P("{\"type\":\"integer\",\"maximum\":8}"),
		"/properties/a/maximum: was 9, is 8" },
	      { P("{\"type\":\"integer\"}"), P("{\"type\":\"integer\",\"maximum\":8}"), "/properties/a/maximum: was none, is 8" },
	      { P("{\"type\":\"integer\",\"minimum\":5}"), P("{\"type\":\"integer\",\"exclusiveMinimum\":5}"),
		"/properties/a/exclusiveMinimum: was 5, is 5" },
	      { P("{\"type\":\"string\"}"), P("{\"type\":\"string\",\"minLength\":0}"), "" },
	      { P("{\"type\":\"string\"}"), P("{\"type\":\"string\",\"minLength\":1}"), "/properties/a/minLength: was 0, is 1" },
	      { P("{\"type\":\"string\",\"maxLength\":9}"), P("{\"type\":\"string\",\"maxLength\":8}"),
		"/properties/a/maxLength: was 9, is 8" },
	      { P("{\"type\":\"array\"}"), P("{\"type\":\"array\",\"maxItems\":8}"), "/properties/a/maxItems: was none, is 8" },
	      { P("{\"type\":\"object\"}"), P("{\"type\":\"object\",\"minProperties\":1}"),
		"/properties/a/minProperties: was 0, is 1" },
	      { P("{\"type\":\"integer\",\"multipleOf\":2}"), P("{\"type\":\"integer\",\"multipleOf\":3}"),
		"/properties/a/multipleOf: was 2, is 3" },
	      { P("{\"type\":\"string\"}"), P("{\"type\":\"string\",\"pattern\":\"^a\"}"),
		"/properties/a/pattern: was any, is \"^a\"" });
	compares(DEFINE_INPUT, true, P("{\"type\":\"string\"}"), P("{\"type\":\"string\",\"format\":\"email\"}"),
		 "/properties/a/format: was any, is \"email\"");
}

static void of_results_it_is_the_other_way_round(void **state)
{
	(void)state;
	OUTPUT({ OBJ("\"required\":[\"a\"]"), "{\"type\":\"object\"}", "/required: \"a\" may be missing now" },
	       { OBJ("\"properties\":{\"a\":{}},\"required\":[\"a\"]"), P("{}"), "/properties/a: may be missing now" },
	       { "{\"type\":\"object\"}", OBJ("\"required\":[\"a\"]"), "" },
	       { P("{\"type\":\"integer\"}"), P("{\"type\":\"number\"}"), "/properties/a/type: was \"integer\", is \"number\"" },
	       { P("{\"type\":\"number\"}"), P("{\"type\":\"integer\"}"), "" },
	       { P("{\"enum\":[1]}"), P("{\"enum\":[1,2]}"), "/properties/a/enum: 2 may come, and could not before" },
	       { P("{\"type\":\"integer\",\"maximum\":8}"), P("{\"type\":\"integer\",\"maximum\":9}"),
		 "/properties/a/maximum: was 8, is 9" },
	       { OBJ("\"properties\":{\"a\":{}},\"additionalProperties\":false"),
		 OBJ("\"properties\":{\"a\":{},\"b\":{}},\"additionalProperties\":false"),
		 "/properties/b: may come, and could not before" });
}

static void unions_are_compared_branch_by_branch(void **state)
{
	(void)state;
	INPUT({ P("{\"anyOf\":[{\"type\":\"string\"}]}"), P("{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"string\"}]}"), "" },
	      { P("{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}"), P("{\"type\":\"string\"}"),
		"/properties/a/type: was \"null\", is \"string\"" },
	      { P("{\"type\":\"string\"}"), P("{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}"), "" },
	      { P("{\"type\":\"string\"}"), P("{\"oneOf\":[{\"type\":\"string\"},{\"minLength\":2}]}"),
		"?/properties/a/oneOf: oneOf differs" },
	      { P("{\"type\":\"string\"}"), P("{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"integer\"}]}"),
		"/properties/a/anyOf: none of them accepts what was accepted" },
	      { P("{\"type\":\"string\",\"minLength\":2}"), P("{\"allOf\":[{\"type\":\"string\"},{\"minLength\":1}]}"), "" },
	      { P("{\"type\":\"string\"}"), P("{\"allOf\":[{\"minLength\":1}]}"), "?/properties/a/allOf: allOf differs" });
}

static void references_are_followed_and_loops_end(void **state)
{
	(void)state;
	INPUT({ "{\"$defs\":{\"n\":{\"type\":\"number\"}},\"properties\":{\"a\":{\"$ref\":\"#/$defs/n\"}}}",
		"{\"$defs\":{\"n\":{\"type\":\"integer\"}},\"properties\":{\"a\":{\"$ref\":\"#/$defs/n\"}}}",
		"/properties/a/type: was \"number\", is \"integer\"" },
	      { "{\"$defs\":{\"n\":{\"type\":\"number\"}},\"properties\":{\"a\":{\"$ref\":\"#/$defs/n\"}}}", P("{\"type\":\"number\"}"),
		"/type: was any, is \"object\"" },
	      { "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"},\"b\":{\"type\":\"string\"}}}",
		"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"},\"b\":{\"type\":\"null\"}}}",
		"/properties/b/type: was \"string\", is \"null\"" },
	      { P("{\"$ref\":\"https://e.example/a\"}"), P("{\"$ref\":\"https://e.example/a\"}"), "" },
	      { P("{\"$ref\":\"https://e.example/a\"}"), P("{\"$ref\":\"https://e.example/b\"}"),
		"?/properties/a/$ref: $ref differs" });
}

static void what_cannot_be_told_is_said(void **state)
{
	(void)state;
	INPUT({ P("{\"type\":\"string\",\"pattern\":\"^a\"}"), P("{\"type\":\"string\",\"pattern\":\"^ab?\"}"),
		"?/properties/a/pattern: pattern differs" },
	      { P("{\"not\":{\"const\":1}}"), P("{\"not\":{\"const\":2}}"), "?/properties/a/not: not differs" },
	      { P("{}"), P("{\"if\":{},\"then\":{\"type\":\"string\"}}"), "?/properties/a/if: if differs" },
	      { P("{\"contains\":{}}"), P("{\"contains\":{},\"minContains\":2}"), "?/properties/a/contains: contains differs" },
	      { P("{\"enum\":[5,6]}"), P("{\"type\":\"integer\",\"minimum\":3}"), "?/properties/a: its bounds differ" },
	      { OBJ("\"properties\":{\"a\":{}}"), OBJ("\"patternProperties\":{\"^a\":{}},\"additionalProperties\":false"),
		"?/properties/a: patternProperties may speak of it\n?/patternProperties: patternProperties differs\n"
		"/additionalProperties: others are not accepted any more" },
	      { "{" S7 ",\"type\":\"object\"}", "{" S4 ",\"type\":\"object\"}", "?/$schema: $schema differs" });
}

/* {"anyOf": [{"minLength": N}, ...]}, of which no one takes what another one does; each is compared with each. */
static char *alternatives(int n, int from)
{
	struct str out = STR_INIT;

	str_puts(&out, "{\"anyOf\":[");
	for (int i = 0; i < n; i++)
		str_printf(&out, "%s{\"type\":\"string\",\"pattern\":\"%d\"}", i ? "," : "", from + i);
	str_puts(&out, "]}");
	return str_take(&out);
}

static void steps_are_bounded(void **state)
{
	static const struct { int n; bool too_large; } sizes[] = { { 99, false }, { 100, true } };

	(void)state;
	for (size_t i = 0; i < NELEMS(sizes); i++) {
		char *old = alternatives(sizes[i].n, 1000), *now = alternatives(sizes[i].n, 2000);
		json_t *a = parse(old), *b = parse(now);
		struct str out = STR_INIT;

		(void)define_schema_breaks(&(struct define_pair){ a, b, false, false }, DEFINE_INPUT, note, &out);
		assert_int_equal(strstr(str_text(&out), "it is too large to compare") != NULL, sizes[i].too_large);
		assert_non_null(strstr(str_text(&out), "anyOf"));
		str_fini(&out);
		json_decref(a);
		json_decref(b);
		free(old);
		free(now);
	}
}

/* A schema within itself more often than schemas may be. */
static void depth_is_bounded(void **state)
{
	struct str a = STR_INIT, b = STR_INIT;

	(void)state;
	for (int i = 0; i < 40; i++) {
		str_puts(&a, "{\"items\":");
		str_puts(&b, "{\"items\":");
	}
	str_puts(&a, "{}");
	str_puts(&b, "{\"type\":\"null\"}");
	for (int i = 0; i < 40; i++) {
		str_putc(&a, '}');
		str_putc(&b, '}');
	}
	compares(DEFINE_INPUT, false, str_text(&a), str_text(&b), "?: it is too large to compare");
	str_fini(&a);
	str_fini(&b);
}

static void breaks(const char *old, const char *now, const char *expected)
{
	json_t *a = parse(old), *b = parse(now);
	struct str out = STR_INIT;

	(void)define_breaks(a, b, note, &out);
	assert_string_equal(str_text(&out), expected);
	str_fini(&out);
	json_decref(a);
	json_decref(b);
}

static void of_definitions_schemas_arguments_and_uris_are_compared(void **state)
{
	(void)state;
	breaks("{\"inputSchema\":{},\"outputSchema\":{}}", "{\"inputSchema\":{\"required\":[\"a\"]}}",
	       "/inputSchema/required: \"a\" is required now\n/outputSchema: results are no longer described");
	breaks("{\"inputSchema\":{}}", "{\"inputSchema\":{},\"outputSchema\":{}}", "");
	breaks("{\"inputSchema\":{}}", "{}", "");
	breaks("{\"inputSchema\":{},\"formats\":\"assert\"}", "{\"inputSchema\":{\"format\":\"date\"}}", "");
	breaks("{\"inputSchema\":{}}", "{\"inputSchema\":{\"format\":\"date\"},\"formats\":\"assert\"}",
	       "/inputSchema/format: was any, is \"date\"");
	breaks("{\"messages\":[],\"arguments\":[{\"name\":\"a\"},{\"name\":\"b\"}]}",
	       "{\"messages\":[],\"arguments\":[{\"name\":\"a\",\"required\":true}]}",
	       "/arguments/properties/a: is required now\n/arguments/properties/b: is not accepted any more");
	breaks("{\"uri\":\"x:1\"}", "{\"uri\":\"x:2\"}", "/uri: nothing is read under the old one");
	breaks("{\"uriTemplate\":\"x:{a}\"}", "{\"uriTemplate\":\"x:{b}\"}", "?/uriTemplate: uriTemplate differs");
}

SINGLE_THREAD_SUITE(registry_breaks)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_stays_or_widens_breaks_nobody),
		cmocka_unit_test(what_arguments_lose_is_named_with_its_place),
		cmocka_unit_test(bounds_that_came_closer_are_named),
		cmocka_unit_test(of_results_it_is_the_other_way_round),
		cmocka_unit_test(unions_are_compared_branch_by_branch),
		cmocka_unit_test(references_are_followed_and_loops_end),
		cmocka_unit_test(what_cannot_be_told_is_said),
		cmocka_unit_test(steps_are_bounded),
		cmocka_unit_test(depth_is_bounded),
		cmocka_unit_test(of_definitions_schemas_arguments_and_uris_are_compared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
