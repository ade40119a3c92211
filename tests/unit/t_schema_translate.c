/* Older dialects in the words of 2020-12: what is renamed, what is left out, what is refused. */
#include "config.h"

#include "schema/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "json_text.h"
#include "suite.h"

static void becomes(const char *text, const char *expected)
{
	json_t *doc = parse(text), *made = NULL;
	struct str out = STR_INIT;
	struct err e = { 0 };

	if (schema_translate(doc, &made, &e) != 1)
		fail_msg("%s: not translated: %s %s", text, e.where, e.msg);
	jx_write(made, &out);
	assert_string_equal(str_text(&out), expected);
	str_fini(&out);
	json_decref(made);
	json_decref(doc);
}

static void stays(const char *text, int rc, const char *where)
{
	json_t *doc = parse(text), *made = NULL;
	struct err e = { 0 };

	assert_int_equal(schema_translate(doc, &made, &e), rc);
	assert_null(made);
	if (rc)
		assert_string_equal(e.where, where);
	json_decref(doc);
}

static void keywords_get_their_new_names(void **state)
{
	becomes("{" S7 ",\"type\":\"object\"}", "{\"type\":\"object\"}");
	becomes("{" S7 ",\"items\":[{},true],\"additionalItems\":false}", "{\"prefixItems\":[{},true],\"items\":false}");
	becomes("{" S7 ",\"items\":{},\"additionalItems\":false}", "{\"items\":{}}");
	becomes("{" S7 ",\"dependencies\":{\"a\":[\"b\"],\"c\":{\"items\":[true]}}}",
		"{\"dependentRequired\":{\"a\":[\"b\"]},\"dependentSchemas\":{\"c\":{\"prefixItems\":[true]}}}");
	becomes("{" S7 ",\"properties\":{\"items\":{\"type\":\"array\"},\"$ref\":{\"const\":{\"items\":[1]}}}}",
		"{\"properties\":{\"items\":{\"type\":\"array\"},\"$ref\":{\"const\":{\"items\":[1]}}}}");
	becomes("{" S4 ",\"id\":\"https://e.x/s\",\"minimum\":1,\"exclusiveMinimum\":true,\"maximum\":2,\"exclusiveMaximum\":false}",
		"{\"$id\":\"https://e.x/s\",\"exclusiveMinimum\":1,\"maximum\":2}");
	becomes("{" S2019 ",\"properties\":{\"a\":{\"$recursiveRef\":\"#\"}},\"$recursiveAnchor\":true}",
		"{\"properties\":{\"a\":{\"$ref\":\"#\"}}}");
}

static void references_follow_the_names(void **state)
{
	becomes("{" S7 ",\"properties\":{\"a\":{\"$ref\":\"#/definitions/b\"}},\"definitions\":{\"b\":{}}}",
		"{\"properties\":{\"a\":{\"$ref\":\"#/$defs/b\"}},\"$defs\":{\"b\":{}}}");
	becomes("{" S7 ",\"not\":{\"$ref\":\"#/definitions/definitions/items/0\"},\"definitions\":{\"definitions\":{\"items\":[{}]}}}",
		"{\"not\":{\"$ref\":\"#/$defs/definitions/prefixItems/0\"},\"$defs\":{\"definitions\":{\"prefixItems\":[{}]}}}");
	becomes("{" S7 ",\"not\":{\"$ref\":\"#x\"},\"definitions\":{\"b\":{\"$id\":\"#x\"}}}",
		"{\"not\":{\"$ref\":\"#x\"},\"$defs\":{\"b\":{\"$anchor\":\"x\"}}}");
}

static void what_had_no_effect_beside_a_ref_goes(void **state)
{
	becomes("{" S7 ",\"items\":{\"$ref\":\"#/definitions/a\",\"type\":\"null\",\"title\":\"t\"},\"definitions\":{\"a\":{}}}",
		"{\"items\":{\"$ref\":\"#/$defs/a\",\"title\":\"t\"},\"$defs\":{\"a\":{}}}");
}

static void what_would_mean_something_else_stays(void **state)
{
	stays("{\"type\":\"object\"}", 0, "");
	stays("{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\"}", 0, "");
	stays("{\"$schema\":\"https://e.x/m\"}", ERR_INVALID, "/$schema");
	stays("{" S7 ",\"items\":{\"$id\":\"x\"}}", ERR_INVALID, "/items/$id");
	stays("{" S7 ",\"properties\":{\"a\":{\"contains\":{},\"minContains\":2}}}", ERR_INVALID, "/properties/a/minContains");
	stays("{" S2019 ",\"contains\":{},\"unevaluatedItems\":false}", ERR_INVALID, "");
	stays("{" S7 ",\"definitions\":{},\"$defs\":{}}", ERR_INVALID, "/definitions");
}

SINGLE_THREAD_SUITE(translate)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keywords_get_their_new_names),
		cmocka_unit_test(references_follow_the_names),
		cmocka_unit_test(what_had_no_effect_beside_a_ref_goes),
		cmocka_unit_test(what_would_mean_something_else_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
