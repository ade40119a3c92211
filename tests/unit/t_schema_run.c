/* Verdicts keyword by keyword, the sentences and paths of failures, the budgets. */
#include "config.h"

#include "schema/schema.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "json_text.h"
#include "suite.h"

/* A jansson whose trees cannot be read in place. */
static bool unknown_jansson;

int __real_jansson_version_cmp(int major, int minor, int micro);
int __wrap_jansson_version_cmp(int major, int minor, int micro);
int __wrap_jansson_version_cmp(int major, int minor, int micro)
{
	return unknown_jansson ? -1 : __real_jansson_version_cmp(major, minor, micro);
}

static struct schema *compile(const char *text)
{
	struct schema *s = NULL;
	json_t *doc = parse(text);
	struct err e;

	if (schema_compile(doc, &s, &e) != 0)
		fail_msg("%s\nrefused at %s: %s", text, e.where, e.msg);
	json_decref(doc);
	return s;
}

static int run(const struct schema *s, const char *value, struct schema_report *report)
{
	json_t *v = parse(value);
	int rc = schema_run(s, v, report);

	json_decref(v);
	return rc;
}

struct row { const char *schema, *good, *bad; };

/* good and bad are arrays of values. */
static void judge(const char *schema, const char *values, int expected)
{
	struct schema *s = compile(schema);
	json_t *list = parse(values), *v;
	size_t i;

	json_array_foreach(list, i, v) {
		struct schema_report report;

		if (schema_run(s, v, &report) != expected || schema_run(s, v, NULL) != expected ||
		    (report.count > 0) != (expected != 0))
			fail_msg("%s on %s [%zu]", schema, values, i);
	}
	json_decref(list);
	schema_free(&s);
}

static void judge_rows(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		judge(rows[i].schema, rows[i].good, 0);
		judge(rows[i].schema, rows[i].bad, ERR_INVALID);
	}
}

static void types_and_boolean_schemas(void **state)
{
	static const struct row rows[] = {
		{ "true", "[1,null,{},[]]", "[]" },
		{ "false", "[]", "[1,null,{},[]]" },
		{ "{\"type\":\"integer\"}", "[1,-1,1.0,1e3,0.0]", "[1.5,\"1\",true,null,[],{}]" },
		{ "{\"type\":\"number\"}", "[1,1.5]", "[\"1\",true]" },
		{ "{\"type\":\"string\"}", "[\"\"]", "[1,null]" },
		{ "{\"type\":\"boolean\"}", "[true,false]", "[0,\"true\"]" },
		{ "{\"type\":\"null\"}", "[null]", "[false,0,\"\"]" },
		{ "{\"type\":\"array\"}", "[[]]", "[{}]" },
		{ "{\"type\":\"object\"}", "[{}]", "[[]]" },
		{ "{\"type\":[\"string\",\"null\"]}", "[\"a\",null]", "[1]" },
	};

	judge_rows(rows, NELEMS(rows));
}

static void constants_compare_by_value(void **state)
{
	static const struct row rows[] = {
		{ "{\"const\":1}", "[1,1.0]", "[2,\"1\",true,[1]]" },
		{ "{\"const\":null}", "[null]", "[0,false]" },
		{ "{\"const\":false}", "[false]", "[0,true]" },
		{ "{\"const\":{\"a\":[1,{\"b\":2.0}],\"c\":\"x\"}}", "[{\"c\":\"x\",\"a\":[1.0,{\"b\":2}]}]",
		  "[{\"a\":[1,{\"b\":2}]},{\"a\":[1,{\"b\":3}],\"c\":\"x\"},{\"a\":[1],\"c\":\"x\"}]" },
		{ "{\"const\":\"a\\u0000b\"}", "[\"a\\u0000b\"]", "[\"a\",\"a\\u0000c\"]" },
		{ "{\"const\":9007199254740993}", "[9007199254740993]", "[9007199254740992,9007199254740992.0]" },
		{ "{\"enum\":[\"a\",1,null,[],{}]}", "[\"a\",1.0,null,[],{}]", "[\"b\",2,false,[1],{\"a\":1}]" },
		{ "{\"enum\":[-0.0]}", "[0,0.0]", "[1]" },
		{ "{\"const\":123456789012345678901234567890}", "[123456789012345678901234567890,"
		  "123456789012345678901234567890.0,12345678901234567890123456789e1]",
		  "[123456789012345678901234567891,1.2345678901234568e29,\"123456789012345678901234567890\"]" },
		{ "{\"enum\":[100000000000000000000,0.1000000000000000055]}", "[1e20,0.10000000000000000550]",
		  "[0.1,100000000000000000001]" },
		{ "{\"enum\":[1152921504606847000]}", "[1152921504606847000,1152921504606847000.0]", "[1152921504606846976]" },
		{ "{\"uniqueItems\":true}", "[[123456789012345678901,123456789012345678902],[1e400,1e401,1e-400]]",
		  "[[1e23,0,100000000000000000000000],[1e400,10e399],[1152921504606847000.0,1152921504606847000]]" },
	};

	judge_rows(rows, NELEMS(rows));
}

static void number_bounds_at_limit_and_beyond(void **state)
{
	static const struct row rows[] = {
		{ "{\"minimum\":5}", "[5,5.0,6,\"a\"]", "[4,4.999]" },
		{ "{\"maximum\":5}", "[5,4,null]", "[6,5.001]" },
		{ "{\"exclusiveMinimum\":5}", "[6,5.001]", "[5,5.0,4]" },
		{ "{\"exclusiveMaximum\":5}", "[4,4.999]", "[5,5.0,6]" },
		{ "{\"maximum\":9007199254740992}", "[9007199254740992,9007199254740992.0]", "[9007199254740993]" },
		{ "{\"minimum\":9223372036854775807}", "[9223372036854775807,1e19]", "[9223372036854775806,9.2e18]" },
		{ "{\"maximum\":1e300}", "[9223372036854775807,1e300]", "[1.1e300]" },
		{ "{\"multipleOf\":3}", "[9,0,-3,3e20]", "[10,1.5]" },
		{ "{\"multipleOf\":0.01}", "[0.07,19.99,4.35,1,-2.5,1e300]", "[0.075,0.001]" },
		{ "{\"multipleOf\":0.0001}", "[0.0075]", "[0.00751]" },
		{ "{\"multipleOf\":1e-8}", "[12391239123]", "[1e-9]" },
		{ "{\"multipleOf\":1e20}", "[1e20,3e20,0]", "[1,1.5e20]" },
		{ "{\"multipleOf\":9223372036854775807}", "[9223372036854775807]", "[9223372036854775806]" },
		{ "{\"maximum\":18446744073709551615}", "[18446744073709551615,1,18446744073709551614.9,-1e999]",
		  "[18446744073709551616,18446744073709551615.00001,1e999]" },
		{ "{\"exclusiveMinimum\":1e400}", "[1.0001e400,1e401]", "[1e400,10e399,5]" },
		{ "{\"type\":\"integer\"}", "[123456789012345678901234567890,1e400,12345678901234567890.0]",
		  "[1e-400,12345678901234567890.5]" },
		{ "{\"multipleOf\":7}", "[70000000000000000000000007,-7e400]", "[70000000000000000000000008,1e400]" },
		{ "{\"multipleOf\":0.5}", "[1e308,1e400,12345678901234567890.5]", "[12345678901234567890.25]" },
		{ "{\"multipleOf\":123456789012345678901234567890}", "[0,246913578024691357802469135780,"
		  "123456789012345678901234567890e300]", "[123456789012345678901234567891,1e400,1]" },
		{ "{\"multipleOf\":0.12345678901234567890123}", "[0.12345678901234567890123,12345678901234567890123]",
		  "[0.24691357802469135780247,1e-400]" },
		/* 2^64 divides no power of ten below 10^64. */
		{ "{\"multipleOf\":18446744073709551616}", "[1e64,1e1000000000,36893488147419103232]", "[1e63]" },
	};

	judge_rows(rows, NELEMS(rows));
}

static void lengths_count_code_points(void **state)
{
	static const struct row rows[] = {
		{ "{\"minLength\":2}", "[\"ab\",\"\\u00e4\\u00e4\",\"\\ud83d\\ude00\\ud83d\\ude00\",1]", "[\"a\",\"\\ud83d\\ude00\",\"\"]" },
		{ "{\"maxLength\":2}", "[\"\",\"ab\",\"\\ud83d\\ude00\\ud83d\\ude00\",[1,2,3]]", "[\"abc\",\"\\u00e4\\u00e4\\u00e4\"]" },
		{ "{\"minLength\":2.0,\"maxLength\":1e30}", "[\"ab\"]", "[\"a\"]" },
		{ "{\"pattern\":\"^[a-z]+$\"}", "[\"abc\",7]", "[\"\",\"aB\",\"abc\\n\"]" },
		{ "{\"pattern\":\"b\"}", "[\"abc\"]", "[\"ac\"]" },
	};

	judge_rows(rows, NELEMS(rows));
}

static void array_keywords(void **state)
{
	static const struct row rows[] = {
		{ "{\"items\":{\"type\":\"integer\"}}", "[[],[1,2],\"x\"]", "[[1,\"2\"]]" },
		{ "{\"items\":false}", "[[]]", "[[1]]" },
		{ "{\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}", "[[],[1],[1,\"a\"],[1,\"a\",null]]", "[[\"a\"],[1,2]]" },
		{ "{\"prefixItems\":[{}],\"items\":{\"type\":\"null\"}}", "[[1,null]]", "[[1,2]]" },
		{ "{\"minItems\":2}", "[[1,2],{}]", "[[1],[]]" },
		{ "{\"maxItems\":2}", "[[1,2],[]]", "[[1,2,3]]" },
		{ "{\"uniqueItems\":true}", "[[],[1],[1,2,\"1\",true,null,[1],{\"a\":1}],[[1,2],[2,1]],[0,false]]",
		  "[[1,1.0],[{\"a\":1,\"b\":2},{\"b\":2,\"a\":1.0}],[1,2,3,4,5,6,7,8,9,10,1],[null,null],[[[]],[[]]]]" },
		{ "{\"uniqueItems\":false}", "[[1,1]]", "[]" },
		{ "{\"contains\":{\"const\":5}}", "[[5],[1,5,5]]", "[[],[1]]" },
		{ "{\"contains\":{\"const\":5},\"minContains\":2}", "[[5,5]]", "[[5]]" },
		{ "{\"contains\":{\"const\":5},\"minContains\":0}", "[[],[1]]", "[]" },
		{ "{\"contains\":{\"const\":5},\"maxContains\":2}", "[[5,5,1]]", "[[5,5,5],[]]" },
		{ "{\"minContains\":3}", "[[]]", "[]" },
	};

	judge_rows(rows, NELEMS(rows));
}

static void object_keywords(void **state)
{
	static const struct row rows[] = {
		{ "{\"properties\":{\"a\":{\"type\":\"integer\"},\"\":false}}", "[{},{\"a\":1},{\"b\":\"x\"},[]]", "[{\"a\":\"1\"},{\"\":1}]" },
		{ "{\"required\":[\"a\",\"b\"]}", "[{\"a\":1,\"b\":null},7]", "[{\"a\":1},{}]" },
		{ "{\"minProperties\":1}", "[{\"a\":1}]", "[{}]" },
		{ "{\"maxProperties\":1}", "[{\"a\":1},{}]", "[{\"a\":1,\"b\":1}]" },
		{ "{\"properties\":{\"a\":{}},\"additionalProperties\":false}", "[{},{\"a\":1}]", "[{\"b\":1},{\"a\":1,\"b\":1}]" },
		{ "{\"properties\":{\"a\":{}},\"additionalProperties\":{\"type\":\"string\"}}", "[{\"a\":1,\"b\":\"x\"}]", "[{\"b\":1}]" },
		{ "{\"patternProperties\":{\"^x\":{\"type\":\"integer\"},\"y$\":{\"minimum\":5}}}", "[{\"x\":1,\"y\":9,\"z\":\"s\",\"xy\":7}]",
		  "[{\"x\":\"1\"},{\"xy\":1}]" },
		{ "{\"patternProperties\":{\"^x\":{}},\"additionalProperties\":false}", "[{\"x1\":1}]", "[{\"y\":1}]" },
		{ "{\"propertyNames\":{\"maxLength\":3}}", "[{\"abc\":1}]", "[{\"abcd\":1}]" },
		{ "{\"dependentRequired\":{\"a\":[\"b\"]}}", "[{},{\"b\":1},{\"a\":1,\"b\":1}]", "[{\"a\":1}]" },
		{ "{\"dependentSchemas\":{\"a\":{\"maxProperties\":1}},\"dependentRequired\":{\"a\":[]}}", "[{\"a\":1},{\"b\":1,\"c\":1}]",
		  "[{\"a\":1,\"b\":1}]" },
	};

	judge_rows(rows, NELEMS(rows));
}

static void logic_keywords(void **state)
{
	static const struct row rows[] = {
		{ "{\"allOf\":[{\"minimum\":1},{\"maximum\":3}]}", "[1,3]", "[0,4]" },
		{ "{\"anyOf\":[{\"type\":\"string\"},{\"minimum\":3}]}", "[\"a\",3]", "[1]" },
		{ "{\"oneOf\":[{\"multipleOf\":2},{\"multipleOf\":3}]}", "[2,3,4]", "[6,7]" },
		{ "{\"not\":{\"type\":\"string\"}}", "[1]", "[\"a\"]" },
		{ "{\"if\":{\"const\":1},\"then\":false,\"else\":{\"type\":\"string\"}}", "[\"a\"]", "[1,2]" },
		{ "{\"if\":{\"const\":1},\"else\":{\"type\":\"string\"}}", "[1,\"a\"]", "[2]" },
		{ "{\"then\":false,\"else\":false}", "[1]", "[]" },
	};

	judge_rows(rows, NELEMS(rows));
}

/* Most alternatives ask for a string of their own in one member: it rules out the others, and nothing else. */
static void alternatives_told_apart_by_a_member(void **state)
{
	static const struct row rows[] = {
		{ "{\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"a\"},\"v\":{\"type\":\"null\"}}},{\"properties\":{\"k\":{\"enum\":[\"b\",\"c\"]}}}]}",
		  "[{\"k\":\"a\",\"v\":null},{\"k\":\"c\",\"v\":1},{\"v\":1}]", "[{\"k\":\"a\",\"v\":1},{\"k\":\"d\"},{\"k\":1},{},1]" },
		{ "{\"anyOf\":[{\"$ref\":\"#/$defs/a\"},{\"required\":[\"v\"],\"properties\":{\"k\":{\"const\":\"b\"}}},{\"type\":\"object\","
		  "\"maxProperties\":1}],\"$defs\":{\"a\":{\"required\":[\"k\"],\"properties\":{\"k\":{\"const\":\"a\"}}}}}",
		  "[{\"k\":\"a\",\"v\":1},{\"k\":\"b\",\"v\":1},{\"k\":\"z\"},{\"v\":1,\"w\":2},{}]", "[{\"k\":\"z\",\"v\":1}]" },
	};

	judge_rows(rows, NELEMS(rows));
}

static void references(void **state)
{
	static const struct row rows[] = {
		{ "{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"type\":\"integer\"}},\"minimum\":3}", "[3]", "[2,\"a\"]" },
		{ "{\"type\":\"object\",\"properties\":{\"next\":{\"$ref\":\"#\"}},\"additionalProperties\":false}",
		  "[{},{\"next\":{\"next\":{}}}]", "[{\"next\":{\"nxt\":{}}},{\"next\":1}]" },
		{ "{\"properties\":{\"a\":{\"type\":\"string\"},\"b\":{\"$ref\":\"#/properties/a\"}}}", "[{\"b\":\"x\"}]", "[{\"b\":1}]" },
		{ "{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"$ref\":\"#/definitions/a\",\"maximum\":0,"
		  "\"definitions\":{\"a\":{\"type\":\"integer\"}}}", "[1]", "[\"a\"]" },
	};

	judge_rows(rows, NELEMS(rows));
}

static void draft_07_keywords(void **state)
{
#define D7 "{\"$schema\":\"http://json-schema.org/draft-07/schema#\","
	static const struct row rows[] = {
		{ D7 "\"items\":[{\"type\":\"integer\"}],\"additionalItems\":{\"type\":\"string\"}}", "[[],[1,\"a\"]]", "[[\"a\"],[1,2]]" },
		{ D7 "\"items\":{\"type\":\"integer\"},\"additionalItems\":false}", "[[1,2]]", "[[\"a\"]]" },
		{ D7 "\"dependencies\":{\"a\":[\"b\"],\"c\":{\"minProperties\":2}}}", "[{\"a\":1,\"b\":1},{\"c\":1,\"d\":1}]",
		  "[{\"a\":1},{\"c\":1}]" },
		{ D7 "\"contains\":{\"const\":1}}", "[[1]]", "[[]]" },
	};

	judge_rows(rows, NELEMS(rows));
}

/* SENTENCES */

#define TOOL "{\"type\":\"object\",\"properties\":{\"location\":{\"type\":\"string\",\"minLength\":2},\"days\":{\"type\":\"integer\"," \
	"\"minimum\":1,\"maximum\":14},\"units\":{\"enum\":[\"metric\",\"imperial\"]},\"to\":{\"type\":\"object\",\"properties\":{" \
	"\"street\":{\"type\":\"string\"}},\"required\":[\"street\"]},\"list\":{\"items\":{\"$ref\":\"#/properties/to\"}}," \
	"\"id\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]},\"code\":{\"pattern\":\"^[a-z]+$\"},\"one\":{\"const\":1.5}}," \
	"\"required\":[\"location\"],\"additionalProperties\":false,\"dependentRequired\":{\"days\":[\"units\"]}}"

static void says(const char *value, const char *text, const char *instance, const char *keyword)
{
	struct schema *s = compile(TOOL);
	struct schema_report r;

	assert_int_equal(run(s, value, &r), ERR_INVALID);
	assert_string_equal(r.failure[0].text, text);
	assert_string_equal(r.failure[0].instance, instance);
	assert_string_equal(r.failure[0].keyword, keyword);
	schema_free(&s);
}

static void missing_arguments_are_named(void **state)
{
	says("{}", "Missing required argument: location", "", "/required");
	says("{\"location\":\"xx\",\"to\":{}}", "Missing required argument: to.street", "/to", "/properties/to/required");
	says("{\"location\":\"xx\",\"list\":[{\"street\":\"\"},{}]}", "Missing required argument: list[1].street", "/list/1",
	     "/properties/list/items/$ref/required");
	says("{\"location\":\"xx\",\"days\":1}", "Missing required argument: units (it goes with days)", "", "/dependentRequired");
}

static void invalid_arguments_say_path_and_reason(void **state)
{
	says("[]", "Invalid argument: (root): must be an object, is an array", "", "/type");
	says("{\"location\":7}", "Invalid argument: location: must be a string, is a number", "/location", "/properties/location/type");
	says("{\"location\":\"x\"}", "Invalid argument: location: must have at least 2 characters", "/location",
	     "/properties/location/minLength");
	says("{\"location\":\"xx\",\"units\":1}", "Invalid argument: units: must be one of \"metric\", \"imperial\"", "/units",
	     "/properties/units/enum");
	says("{\"location\":\"xx\",\"units\":\"metric\",\"days\":15}", "Invalid argument: days: must be at most 14", "/days",
	     "/properties/days/maximum");
	says("{\"location\":\"xx\",\"units\":\"metric\",\"days\":1.5}", "Invalid argument: days: must be an integer, has a fraction", "/days",
	     "/properties/days/type");
	says("{\"location\":\"xx\",\"id\":1}", "Invalid argument: id: must be a string or null, is a number", "/id",
	     "/properties/id/anyOf");
	says("{\"location\":\"xx\",\"code\":\"A\"}", "Invalid argument: code: must match the pattern ^[a-z]+$", "/code",
	     "/properties/code/pattern");
	says("{\"location\":\"xx\",\"one\":1}", "Invalid argument: one: must be 1.5", "/one", "/properties/one/const");
	says("{\"location\":\"xx\",\"locaton\":1}", "Invalid argument: locaton: is not known, did you mean \"location\"?", "/locaton",
	     "/additionalProperties");
	says("{\"location\":\"xx\",\"a~b/c\\n\":1}", "Invalid argument: a~b/c\\x0a: is not known", "/a~0b~1c\n", "/additionalProperties");
}

static void all_failures_are_listed_up_to_twenty_one(void **state)
{
	struct schema *s = compile("{\"items\":{\"type\":\"string\"}}");
	struct schema_report r;
	struct str v = STR_INIT;

	for (int n = SCHEMA_ERRORS_MAX; n <= SCHEMA_ERRORS_MAX + 1; n++) {
		str_reset(&v);
		for (int i = 0; i < n; i++)
			str_puts(&v, i ? ",1" : "[1");
		str_putc(&v, ']');
		assert_int_equal(run(s, v.p, &r), ERR_INVALID);
		assert_int_equal(r.count, SCHEMA_ERRORS_MAX);
		assert_string_equal(r.failure[SCHEMA_ERRORS_MAX - 1].instance, "/20");
	}
	schema_free(&s);
	s = compile(TOOL);
	assert_int_equal(run(s, "{\"days\":99,\"code\":\"A\",\"extra\":1}", &r), ERR_INVALID);
	assert_int_equal(r.count, 5);
	assert_int_equal(run(s, "{\"location\":\"xx\"}", &r), 0);
	assert_int_equal(r.count, 0);
	schema_free(&s);
	str_fini(&v);
}

static void explains(const char *schema, const struct schema_redact *redact, const char *value, const char *instance,
		     const char *text)
{
	struct schema *s = compile(schema);
	json_t *v = parse(value);
	struct schema_report r;

	assert_int_equal(schema_explain(s, v, redact, &r), ERR_INVALID);
	assert_string_equal(r.failure[0].text, text);
	assert_string_equal(r.failure[0].instance, instance);
	json_decref(v);
	schema_free(&s);
}

static void explanations_repeat_scalars_shortened(void **state)
{
	static const struct schema_redact none = { NULL, 0 };
	char text[400];
	struct str shown = STR_INIT;

	explains(TOOL, &none, "{\"location\":\"xx\",\"units\":\"kelvin\"}", "/units",
		 "Invalid argument: units: must be one of \"metric\", \"imperial\"; got \"kelvin\"");
	explains(TOOL, &none, "{\"location\":7}", "/location", "Invalid argument: location: must be a string, is a number; got 7");
	explains(TOOL, &none, "{\"location\":null}", "/location", "Invalid argument: location: must be a string, is null");
	explains(TOOL, &none, "{\"location\":\"xx\",\"units\":null}", "/units",
		 "Invalid argument: units: must be one of \"metric\", \"imperial\"; got null");
	explains(TOOL, &none, "{\"location\":[1]}", "/location", "Invalid argument: location: must be a string, is an array");
	explains(TOOL, &none, "{\"location\":\"xx\",\"days\":1e400,\"units\":\"metric\"}", "/days",
		 "Invalid argument: days: must be at most 14; got 1e400");
	explains(TOOL, &none, "{\"location\":\"xx\",\"days\":1.5,\"units\":\"metric\"}", "/days",
		 "Invalid argument: days: must be an integer, has a fraction; got 1.5");
	explains(TOOL, &none, "{\"location\":\"xx\",\"code\":\"a\\u202eb\\n\\\"\"}", "/code",
		 "Invalid argument: code: must match the pattern ^[a-z]+$; got \"a\\u{202e}b\\n\\\"\"");
	explains("{\"multipleOf\":0.1}", &none, "1.55", "", "Invalid argument: (root): must be a multiple of 0.1; got 1.55");
	/* 60 bytes, and no half of a character */
	str_puts(&shown, "\"");
	for (int i = 0; i < 59; i++)
		str_putc(&shown, 'x');
	str_puts(&shown, "\xc3\xa9yyyy\"");
	(void)snprintf(text, sizeof text, "Invalid argument: (root): must have at most 2 characters; got %.60s\"...", shown.p);
	explains("{\"maxLength\":2}", &none, shown.p, "", text);
	str_fini(&shown);
}

#define CARD "{\"properties\":{\"card\":{\"type\":\"object\",\"properties\":{\"number\":{\"type\":\"string\",\"pattern\":\"^[0-9]+$\"}," \
	"\"valid\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}}},\"cards\":{\"type\":\"string\"}}}"

static void redacted_places_are_not_told(void **state)
{
	static const char *const number[] = { "/other", "/card/number" }, *const card[] = { "/card" }, *const all[] = { "" };
	static const struct schema_redact below = { number, 2 }, at = { card, 1 }, whole = { all, 1 };

	explains(CARD, &below, "{\"card\":{\"number\":\"secret\"}}", "/card/number",
		 "Invalid argument: card.number: must match the pattern ^[0-9]+$");
	explains(CARD, &below, "{\"card\":\"secret\"}", "/card", "Invalid argument: card: must be an object, is a string");
	explains(CARD, &below, "{\"card\":{\"valid\":{\"name\":\"told\"}}}", "/card/valid/name",
		 "Invalid argument: card.valid.name: must be an integer, is a string; got \"told\"");
	explains(CARD, &at, "{\"card\":{\"number\":4711}}", "/card/number",
		 "Invalid argument: card.number: must be a string, is a number");
	explains(CARD, &at, "{\"card\":{\"valid\":{\"secret\":\"secret\"}}}", "/card/valid/*",
		 "Invalid argument: card.valid.*: must be an integer, is a string");
	explains(CARD, &at, "{\"cards\":5}", "/cards", "Invalid argument: cards: must be a string, is a number; got 5");
	explains(CARD, &whole, "{\"cards\":5}", "/cards", "Invalid argument: cards: must be a string, is a number");
	explains("{\"type\":\"object\"}", &at, "\"secret\"", "", "Invalid argument: (root): must be an object, is a string");
}

static void alternatives_that_failed_on_the_way_are_not_listed(void **state)
{
	struct schema *s = compile("{\"anyOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}],\"not\":{\"required\":[\"c\"]},"
				   "\"if\":{\"required\":[\"d\"]},\"contains\":false}");
	struct schema_report r;

	assert_int_equal(run(s, "{\"b\":1}", &r), 0);
	assert_int_equal(run(s, "{\"x\":1}", &r), ERR_INVALID);
	assert_int_equal(r.count, 1);
	assert_string_equal(r.failure[0].text, "Invalid argument: (root): must match at least one of 2 alternatives");
	schema_free(&s);
}

static void values_are_not_repeated_in_sentences(void **state)
{
	struct schema *s = compile("{\"properties\":{\"p\":{\"type\":\"integer\"},\"q\":{\"pattern\":\"x\",\"minLength\":99,\"enum\":[\"e\"],"
				   "\"not\":{},\"const\":\"c\"},\"n\":{\"minimum\":1,\"multipleOf\":7}}}");
	struct schema_report r;

	assert_int_equal(run(s, "{\"p\":\"SECRET\",\"q\":\"SECRET\",\"n\":-424242}", &r), ERR_INVALID);
	assert_true(r.count > 5);
	for (size_t i = 0; i < r.count; i++) {
		assert_null(strstr(r.failure[i].text, "SECRET"));
		assert_null(strstr(r.failure[i].text, "424242"));
	}
	schema_free(&s);
}

/* BUDGETS */

static void spent_is(const char *schema, const char *value, bool by_match, const char *text)
{
	struct schema *s = compile(schema);
	struct schema_report r;

	assert_int_equal(run(s, value, NULL), ERR_LIMIT);
	assert_int_equal(run(s, value, &r), ERR_LIMIT);
	assert_int_equal(r.match_limit, by_match);
	assert_string_equal(r.failure[r.count - 1].text, text);
	schema_free(&s);
}

#define TOO_LARGE false, "Invalid argument: (root): too large or too deeply nested to be checked against the schema"

/* n definitions, each asking twice for the next: 2^n visits. */
static void doubling(struct str *s, int n, const char *last)
{
	str_puts(s, "{\"$ref\":\"#/$defs/0\",\"$defs\":{");
	for (int i = 0; i < n; i++)
		str_printf(s, "\"%d\":{\"allOf\":[{\"$ref\":\"#/$defs/%d\"},{\"$ref\":\"#/$defs/%d\"}]},", i, i + 1, i + 1);
	str_printf(s, "\"%d\":%s}}", n, last);
}

static void step_budget_ends_exponential_schemas_s209(void **state)
{
	struct str s = STR_INIT, with_not = STR_INIT;
	struct schema *fits;

	doubling(&s, 16, "{\"minimum\":1}");
	fits = compile(s.p);
	assert_int_equal(run(fits, "1", NULL), 0);
	schema_free(&fits);
	str_reset(&s);
	doubling(&s, 30, "{\"minimum\":1}");
	spent_is(s.p, "1", TOO_LARGE);
	/* what is spent stays invalid behind a not */
	str_printf(&with_not, "{\"not\":{\"$ref\":\"#/$defs/0\"},%s", strstr(s.p, "\"$defs\""));
	spent_is(with_not.p, "1", TOO_LARGE);
	str_fini(&with_not);
	str_fini(&s);
}

/* The root costs a step, an array one for eight elements, each element one. */
static void step_budget_at_limit_and_beyond_s209(void **state)
{
	struct schema *s = compile("{\"items\":{\"minimum\":1}}");
	json_t *list = json_array(), *one = json_integer(1);
	struct schema_report r;
	size_t n = 0;

	while (1 + (n + 1) + (n + 1) / 8 <= SCHEMA_STEPS_MAX)
		n++;
	for (size_t i = 0; i < n; i++)
		(void)json_array_append(list, one);
	assert_int_equal(schema_run(s, list, NULL), 0);
	(void)json_array_append(list, one);
	assert_int_equal(schema_run(s, list, NULL), ERR_LIMIT);
	assert_int_equal(schema_run(s, list, &r), ERR_LIMIT);
	assert_int_equal(r.count, 1);
	assert_false(r.match_limit);
	json_decref(one);
	json_decref(list);
	schema_free(&s);
}

static void depth_budget_ends_long_chains_s209(void **state)
{
	for (int over = 0; over < 2; over++) {
		struct str s = STR_INIT;

		/* The root and each link are one node deep, the last one leads nowhere. */
		str_puts(&s, "{\"$ref\":\"#/$defs/0\",\"$defs\":{");
		for (int i = 0; i < 999 + over; i++)
			str_printf(&s, "\"%d\":{\"$ref\":\"#/$defs/%d\"},", i, i + 1);
		str_printf(&s, "\"%d\":{\"minimum\":1}}}", 999 + over);
		if (over) {
			spent_is(s.p, "1", TOO_LARGE);
		} else {
			struct schema *fits = compile(s.p);
			struct schema_report r;

			assert_int_equal(run(fits, "1", NULL), 0);
			assert_int_equal(run(fits, "1", &r), 0);
			schema_free(&fits);
		}
		str_fini(&s);
	}
}

struct deep_run { const struct schema *s; const json_t *value; int rc[2]; };

static void *run_deep(void *arg)
{
	static const struct schema_redact none = { NULL, 0 };
	struct deep_run *d = arg;
	struct schema_report r;

	d->rc[0] = schema_run(d->s, d->value, NULL);
	d->rc[1] = schema_explain(d->s, d->value, &none, &r);
	return NULL;
}

static void put_link(struct str *s, bool logic, int i)
{
	str_printf(s, ",\"%d\":{\"$dynamicAnchor\":\"a%d\",", i, i);
	if (logic)
		str_printf(s, "\"unevaluatedItems\":true,\"if\":{\"not\":{\"oneOf\":[{\"$ref\":\"#/$defs/%d\"}]}}}", i + 1);
	else
		str_printf(s, "\"unevaluatedProperties\":{\"type\":\"null\"},\"$ref\":\"#/$defs/%d\"}", i + 1);
}

/* The longest way from node to node, each by as many functions as there are. */
static void deepest_run_fits_its_stack(void **state)
{
	const struct schema_options options = { .scale = 4 };

	for (int logic = 0; logic < 2; logic++) {
		struct deep_run d = { .value = parse("{\"a\":1}") };
		struct str text = STR_INIT;
		struct schema *s = NULL;
		pthread_attr_t attr;
		pthread_t thread;
		json_t *doc;

		str_puts(&text, "{\"$ref\":\"#/$defs/0\",\"$defs\":{\"1000\":true");
		for (int i = 0; i < 1000; i++)
			put_link(&text, logic, i);
		str_puts(&text, "}}");
		doc = parse(text.p);
		assert_int_equal(schema_compile_with(doc, &options, &s, NULL), 0);
		d.s = s;
		assert_int_equal(pthread_attr_init(&attr), 0);
		assert_int_equal(pthread_attr_setstacksize(&attr, SCHEMA_STACK_MAX), 0);
		assert_int_equal(pthread_create(&thread, &attr, run_deep, &d), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(d.rc[0], ERR_LIMIT);
		assert_int_equal(d.rc[1], ERR_LIMIT);
		(void)pthread_attr_destroy(&attr);
		json_decref((json_t *)(uintptr_t)d.value);
		json_decref(doc);
		schema_free(&s);
		str_fini(&text);
	}
}

static void match_budget_ends_catastrophic_patterns_s209(void **state)
{
	static const char too_long[] = "Invalid argument: (root): takes too long to match against a pattern";

	spent_is("{\"pattern\":\"^(a+)+$\"}", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\"", true, too_long);
	spent_is("{\"patternProperties\":{\"^(a|a)*$\":{}}}", "{\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\":1}", true,
		 "Invalid argument: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab: takes too long to match against a pattern");
	spent_is("{\"not\":{\"pattern\":\"^(a+)+$\"}}", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\"", true, too_long);
	spent_is("{\"properties\":{\"a\":{\"anyOf\":[{\"minimum\":3},{\"pattern\":\"^(a+)+$\"}],\"pattern\":\"^(b|b)+$\"}}}",
		 "{\"a\":\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbba\"}", true,
		 "Invalid argument: a: takes too long to match against a pattern");
}

static void unique_items_of_many_elements_is_not_quadratic(void **state)
{
	struct schema *s = compile("{\"uniqueItems\":true}");
	struct str v = STR_INIT;
	struct schema_report r;

	for (int i = 0; i < 40000; i++)
		str_printf(&v, "%c{\"n\":%d}", i ? ',' : '[', i);
	str_putc(&v, ']');
	assert_int_equal(run(s, v.p, &r), 0);
	v.len--;
	str_puts(&v, ",{\"n\":39999.0}]");
	assert_int_equal(run(s, v.p, &r), ERR_INVALID);
	assert_string_equal(r.failure[0].text, "Invalid argument: (root): must not have equal elements, but 39999 and 40000 are");
	str_fini(&v);
	schema_free(&s);
}

static void deep_values_fit_recursive_schemas(void **state)
{
	struct schema *s = compile("{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#/$defs/list\"}],"
				   "\"$defs\":{\"list\":{\"type\":\"array\",\"items\":{\"allOf\":[{\"$ref\":\"#\"}]}}}}");
	char deep[2 * JX_DEPTH_MAX + 1] = { 0 };

	memset(deep, '[', JX_DEPTH_MAX);
	memset(deep + JX_DEPTH_MAX, ']', JX_DEPTH_MAX);
	assert_int_equal(run(s, deep, NULL), 0);
	schema_free(&s);
}

SINGLE_THREAD_SUITE(run)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(types_and_boolean_schemas),
		cmocka_unit_test(constants_compare_by_value),
		cmocka_unit_test(number_bounds_at_limit_and_beyond),
		cmocka_unit_test(lengths_count_code_points),
		cmocka_unit_test(array_keywords),
		cmocka_unit_test(object_keywords),
		cmocka_unit_test(logic_keywords),
		cmocka_unit_test(alternatives_told_apart_by_a_member),
		cmocka_unit_test(references),
		cmocka_unit_test(draft_07_keywords),
		cmocka_unit_test(missing_arguments_are_named),
		cmocka_unit_test(invalid_arguments_say_path_and_reason),
		cmocka_unit_test(all_failures_are_listed_up_to_twenty_one),
		cmocka_unit_test(explanations_repeat_scalars_shortened),
		cmocka_unit_test(redacted_places_are_not_told),
		cmocka_unit_test(alternatives_that_failed_on_the_way_are_not_listed),
		cmocka_unit_test(values_are_not_repeated_in_sentences),
		cmocka_unit_test(step_budget_ends_exponential_schemas_s209),
		cmocka_unit_test(step_budget_at_limit_and_beyond_s209),
		cmocka_unit_test(depth_budget_ends_long_chains_s209),
		cmocka_unit_test(match_budget_ends_catastrophic_patterns_s209),
		cmocka_unit_test(unique_items_of_many_elements_is_not_quadratic),
		cmocka_unit_test(deep_values_fit_recursive_schemas),
	};

	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	unknown_jansson = true;
	return failed + cmocka_run_group_tests(tests, NULL, NULL);
}

SUITE(run_deepest)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(deepest_run_fits_its_stack) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
