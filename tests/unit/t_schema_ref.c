/* What references lead to, what unevaluated* sees, and the catalogue. */
#include "config.h"

#include "schema/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "json_text.h"
#include "suite.h"

struct shared { const char *uri, *text; json_t *doc; };

static const json_t *find(void *arg, const char *uri)
{
	struct shared *shared = arg;

	for (; shared && shared->uri; shared++)
		if (strcmp(shared->uri, uri) == 0)
			return shared->doc;
	return NULL;
}

/* good and bad are arrays of values. */
struct row { const char *schema, *good, *bad; };

static void judge(const struct schema *s, const char *schema, const char *values, int expected)
{
	json_t *list = parse(values), *v;
	size_t i;

	json_array_foreach(list, i, v) {
		struct schema_report report;

		if (schema_run(s, v, NULL) != expected || schema_run(s, v, &report) != expected ||
		    (report.count == 0) != (expected == 0))
			fail_msg("%s\nelement %zu of %s is judged wrongly", schema, i, values);
	}
	json_decref(list);
}

static void judge_rows(const struct row *rows, size_t n, struct shared *shared)
{
	const struct schema_options options = { .find = find, .find_arg = shared };

	for (struct shared *d = shared; d && d->uri; d++)
		d->doc = parse(d->text);
	for (size_t i = 0; i < n; i++) {
		json_t *doc = parse(rows[i].schema);
		struct schema *s = NULL;
		struct err e;

		if (schema_compile_with(doc, &options, &s, &e) != 0)
			fail_msg("%s\nrefused at %s: %s", rows[i].schema, e.where, e.msg);
		json_decref(doc);
		judge(s, rows[i].schema, rows[i].good, 0);
		judge(s, rows[i].schema, rows[i].bad, ERR_INVALID);
		schema_free(&s);
	}
	for (struct shared *d = shared; d && d->uri; d++)
		json_decref(d->doc);
}

static void refs_by_pointer_anchor_and_id(void **state)
{
	static const struct row rows[] = {
		{ "{\"properties\":{\"a\":{\"$ref\":\"#\"}},\"type\":\"object\"}", "[{\"a\":{}}]", "[{\"a\":1}]" },
		{ "{\"$ref\":\"#/$defs/a%25b~1c\",\"$defs\":{\"a%b/c\":{\"type\":\"null\"}}}", "[null]", "[1]" },
		{ "{\"$ref\":\"#here\",\"$defs\":{\"a\":{\"$anchor\":\"here\",\"type\":\"null\"}}}", "[null]", "[1]" },
		{ "{\"$id\":\"https://e.x/d/s\",\"$ref\":\"t#/items\",\"$defs\":{\"a\":{\"$id\":\"t\",\"items\":{\"type\":\"null\"}}}}",
		  "[null]", "[1]" },
		{ "{\"$id\":\"https://e.x/d/s\",\"$ref\":\"../t\",\"$defs\":{\"a\":{\"$id\":\"https://e.x/t\",\"type\":\"null\"}}}",
		  "[null]", "[1]" },
		{ "{\"$ref\":\"urn:a:b#x\",\"$defs\":{\"a\":{\"$id\":\"urn:a:b\",\"items\":{\"$anchor\":\"x\",\"type\":\"null\"}}}}",
		  "[null]", "[1]" },
		/* the same anchor in two resources */
		{ "{\"$ref\":\"o#x\",\"$defs\":{\"a\":{\"$anchor\":\"x\"},\"b\":{\"$id\":\"o\",\"not\":{\"$anchor\":\"x\",\"type\":\"null\"}}}}",
		  "[null]", "[1]" },
		{ "{" S7 ",\"$ref\":\"#x\",\"definitions\":{\"a\":{\"$id\":\"#x\",\"type\":\"null\"}}}", "[null]", "[1]" },
		{ "{" S4 ",\"$ref\":\"#x\",\"definitions\":{\"a\":{\"id\":\"#x\",\"type\":\"null\"}}}", "[null]", "[1]" },
	};

	judge_rows(rows, NELEMS(rows), NULL);
}

static void an_identifier_belongs_to_one_schema(void **state)
{
	json_t *two = parse("{\"$defs\":{\"a\":{\"$id\":\"https://e.x/t\",\"type\":\"null\"},\"b\":{\"$id\":\"https://e.x/t\"}}}");
	json_t *copies = parse("{\"$defs\":{\"a\":{\"$id\":\"https://e.x/t\"},\"b\":{\"$id\":\"https://e.x/t\"}}}");
	struct schema *s = NULL;
	struct err e;

	assert_int_equal(schema_compile(two, &s, &e), ERR_INVALID);
	assert_string_equal(e.where, "/$defs/b");
	assert_non_null(strstr(e.msg, "https://e.x/t"));
	assert_int_equal(schema_compile(copies, &s, &e), 0);
	schema_free(&s);
	json_decref(two);
	json_decref(copies);
}

static void meta_schemas_are_built_in(void **state)
{
	static const struct row rows[] = {
		{ "{\"$ref\":\"https://json-schema.org/draft/2020-12/schema\"}",
		  "[true,{\"items\":{\"minLength\":1},\"$defs\":{\"a\":{\"allOf\":[true]}}}]", "[1,{\"items\":{\"minLength\":-1}}]" },
		{ "{" S2019 ",\"$ref\":\"https://json-schema.org/draft/2019-09/schema\"}", "[{\"items\":[{\"minLength\":1}]}]",
		  "[{\"items\":[{\"minLength\":-1}]}]" },
		{ "{" S7 ",\"$ref\":\"http://json-schema.org/draft-07/schema#\"}", "[{\"if\":true}]", "[{\"if\":1}]" },
		{ "{" S7 ",\"$ref\":\"http://json-schema.org/draft-06/schema#\"}", "[{\"const\":1}]", "[{\"contains\":1}]" },
		{ "{" S4 ",\"$ref\":\"http://json-schema.org/draft-04/schema#\"}", "[{\"exclusiveMinimum\":true,\"minimum\":1}]",
		  "[{\"exclusiveMinimum\":1},true]" },
	};

	judge_rows(rows, NELEMS(rows), NULL);
}

static void dynamic_refs_take_the_outermost_anchor(void **state)
{
	static const struct row rows[] = {
		/* a list whose items a user decides about */
		{ "{\"$id\":\"https://e.x/l\",\"$ref\":\"list\",\"$defs\":{\"i\":{\"$dynamicAnchor\":\"i\",\"type\":\"string\"},\"l\":{\"$id\":\"list\","
		  "\"items\":{\"$dynamicRef\":\"#i\"},\"$defs\":{\"any\":{\"$dynamicAnchor\":\"i\"}}}}}", "[[\"a\"]]", "[[1]]" },
		/* $anchor is no dynamic anchor */
		{ "{\"$id\":\"https://e.x/l\",\"$ref\":\"list\",\"$defs\":{\"i\":{\"$dynamicAnchor\":\"i\",\"type\":\"string\"},\"l\":{\"$id\":\"list\","
		  "\"items\":{\"$dynamicRef\":\"#i\"},\"$defs\":{\"any\":{\"$anchor\":\"i\"}}}}}", "[[\"a\"],[1]]", "[]" },
		{ "{" S2019 ",\"$id\":\"https://e.x/strict\",\"$recursiveAnchor\":true,\"$ref\":\"tree\",\"unevaluatedProperties\":false,"
		  "\"$defs\":{\"t\":{\"$id\":\"tree\",\"$recursiveAnchor\":true,\"properties\":{\"c\":{\"items\":{\"$recursiveRef\":\"#\"}}}}}}",
		  "[{\"c\":[{\"c\":[]}]}]", "[{\"d\":1},{\"c\":[{\"d\":1}]}]" },
	};

	judge_rows(rows, NELEMS(rows), NULL);
}

static void unevaluated_sees_what_others_judged(void **state)
{
	static const struct row rows[] = {
		{ "{\"allOf\":[{\"properties\":{\"a\":true}}],\"properties\":{\"b\":true},\"unevaluatedProperties\":false}",
		  "[{},{\"a\":1,\"b\":2},1]", "[{\"a\":1,\"c\":2}]" },
		/* a branch that fails has judged nothing, all that hold have */
		{ "{\"anyOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},{\"properties\":{\"b\":{\"const\":1}},\"required\":[\"b\"]}],"
		  "\"unevaluatedProperties\":false}", "[{\"a\":1},{\"b\":1},{\"a\":1,\"b\":1}]", "[{\"a\":1,\"b\":2},{}]" },
		{ "{\"if\":{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},\"then\":{\"properties\":{\"b\":true}},\"else\":{\"properties\":{\"c\":true}},"
		  "\"unevaluatedProperties\":false}", "[{\"a\":1,\"b\":1},{\"c\":1}]", "[{\"a\":1,\"c\":1},{\"b\":1}]" },
		{ "{\"not\":{\"not\":{\"properties\":{\"a\":true}}},\"unevaluatedProperties\":false}", "[{}]", "[{\"a\":1}]" },
		{ "{\"dependentSchemas\":{\"a\":{\"properties\":{\"b\":true}}},\"properties\":{\"a\":true},\"unevaluatedProperties\":false}",
		  "[{\"a\":1,\"b\":1}]", "[{\"b\":1}]" },
		{ "{\"$ref\":\"#/$defs/x\",\"unevaluatedProperties\":{\"type\":\"null\"},\"$defs\":{\"x\":{\"patternProperties\":{\"^x\":true}}}}",
		  "[{\"x1\":1,\"a\":null}]", "[{\"a\":1}]" },
		/* members of members are their own affair */
		{ "{\"properties\":{\"a\":{\"properties\":{\"b\":true}}},\"unevaluatedProperties\":false}", "[{\"a\":{\"b\":1}}]", "[{\"b\":1}]" },
		{ "{\"prefixItems\":[true],\"contains\":{\"type\":\"string\"},\"unevaluatedItems\":false}", "[[1,\"a\",\"b\"]]", "[[1,\"a\",2]]" },
		{ "{" S2019 ",\"items\":[true],\"contains\":{\"type\":\"string\"},\"unevaluatedItems\":false}", "[[\"a\"]]", "[[1,\"a\"]]" },
		{ "{\"allOf\":[{\"unevaluatedProperties\":true}],\"unevaluatedProperties\":false}", "[{\"a\":1}]", "[]" },
	};

	judge_rows(rows, NELEMS(rows), NULL);
}

/* More members than the marks of a run hold without memory of their own. */
static void unevaluated_counts_beyond_256_members(void **state)
{
	const struct schema_options options = { .lenient = false };
	json_t *doc = parse("{\"anyOf\":[{\"patternProperties\":{\"^k\":true}}],\"unevaluatedProperties\":false}");
	json_t *value = json_object();
	struct schema *s = NULL;
	struct err e;
	char name[16];

	assert_int_equal(schema_compile_with(doc, &options, &s, &e), 0);
	for (int i = 0; i < 600; i++) {
		(void)snprintf(name, sizeof name, "k%d", i);
		(void)json_object_set_new(value, name, json_true());
	}
	assert_int_equal(schema_run(s, value, NULL), 0);
	(void)json_object_set_new(value, "x", json_true());
	assert_int_equal(schema_run(s, value, NULL), ERR_INVALID);
	schema_free(&s);
	json_decref(value);
	json_decref(doc);
}

static void catalogue_and_vocabularies(void **state)
{
	static const struct row rows[] = {
		{ "{\"$ref\":\"https://e.x/shared#/$defs/n\"}", "[1]", "[null]" },
		{ "{\"$ref\":\"https://e.x/shared\"}", "[{\"n\":1}]", "[{\"n\":\"1\"}]" },
		/* a dialect without the vocabulary of minimum */
		{ "{\"$schema\":\"https://e.x/no-validation\",\"properties\":{\"a\":false},\"minimum\":10}", "[1]", "[{\"a\":1}]" },
	};
	struct shared shared[] = {
		{ "https://e.x/shared", "{\"properties\":{\"n\":{\"$ref\":\"#/$defs/n\"}},\"$defs\":{\"n\":{\"type\":\"integer\"}}}", NULL },
		{ "https://e.x/no-validation", "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"$vocabulary\":{"
		  "\"https://json-schema.org/draft/2020-12/vocab/core\":true,\"https://json-schema.org/draft/2020-12/vocab/applicator\":true}}", NULL },
		{ NULL, NULL, NULL },
	};

	judge_rows(rows, NELEMS(rows), shared);
}

static void unknown_vocabularies_are_refused_by_name(void **state)
{
	struct shared shared[] = {
		{ "https://e.x/m", "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"$vocabulary\":{\"https://e.x/v\":true}}", NULL },
		{ NULL, NULL, NULL },
	};
	const struct schema_options options = { .find = find, .find_arg = shared };
	json_t *doc = parse("{\"$schema\":\"https://e.x/m\"}");
	struct schema *s = NULL;
	struct err e;

	shared[0].doc = parse(shared[0].text);
	assert_int_equal(schema_compile_with(doc, &options, &s, &e), ERR_INVALID);
	assert_non_null(strstr(e.msg, "https://e.x/v"));
	json_decref(shared[0].doc);
	json_decref(doc);
}

SINGLE_THREAD_SUITE(ref)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refs_by_pointer_anchor_and_id),
		cmocka_unit_test(an_identifier_belongs_to_one_schema),
		cmocka_unit_test(meta_schemas_are_built_in),
		cmocka_unit_test(dynamic_refs_take_the_outermost_anchor),
		cmocka_unit_test(unevaluated_sees_what_others_judged),
		cmocka_unit_test(unevaluated_counts_beyond_256_members),
		cmocka_unit_test(catalogue_and_vocabularies),
		cmocka_unit_test(unknown_vocabularies_are_refused_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
