/* Shared schemas in memory: layers, what a look notes, and definitions that refer to them. */
#include "config.h"

#include "registry/catalogue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "json/json.h"
#include "registry/define.h"
#include "schema/schema.h"
#include "suite.h"

#define A "https://e.example/a"
#define B "https://e.example/b"
#define TOOL(schema) "{\"name\":\"t\",\"description\":\"d\",\"inputSchema\":{\"type\":\"object\"," schema "},\"handler\":{\"type\":\"fake\"}}"

static const uint8_t one[32] = { 1 }, two[32] = { 2 };

static int bind_any(const json_t *handler, struct arena *mem, const struct backend_ops **ret_ops, const void **ret_plan,
		    struct err *err)
{
	return 0;
}

static json_t *parse(const char *text)
{
	json_t *v = NULL;

	assert_int_equal(jx_parse(text, strlen(text), &v, NULL), 0);
	return v;
}

static void set(struct catalogue *c, const char *uri, const char *text, const uint8_t digest[32])
{
	catalogue_set(c, uri, text, text ? strlen(text) : 0, digest);
}

static void an_upper_layer_hides_the_lower(void **state)
{
	struct catalogue *low = catalogue_new(NULL), *high = catalogue_new(low);
	struct catalogue_use use = { .from = high };
	struct catalogue_refs refs;

	assert_true(catalogue_is_empty(NULL));
	assert_true(catalogue_is_empty(high));
	set(low, A, "{\"title\":\"low\"}", one);
	set(low, B, "{}", one);
	assert_false(catalogue_is_empty(high));
	set(high, A, "{\"title\":\"high\"}", two);
	set(high, B, NULL, NULL);
	assert_string_equal(json_string_value(json_object_get(catalogue_find(&use, A), "title")), "high");
	assert_null(catalogue_find(&use, B));
	assert_ptr_equal(catalogue_find(&use, A), catalogue_find(&use, A));
	catalogue_use_end(&use, &refs);
	assert_int_equal(refs.n, 1);
	assert_string_equal(refs.v[0].uri, A);
	assert_memory_equal(refs.v[0].digest, two, 32);
	catalogue_refs_fini(&refs);
	catalogue_free(&high);
	set(low, A, NULL, NULL);
	set(low, A, NULL, NULL);
	set(low, B, NULL, NULL);
	assert_true(catalogue_is_empty(low));
	catalogue_free(&low);
}

/* Whoever refers to it, it means the same: a shared schema without a dialect does not take the other's. */
static void without_a_dialect_it_is_2020_12(void **state)
{
	struct catalogue *c = catalogue_new(NULL);
	struct catalogue_use use = { .from = c };

	set(c, A, "{\"$id\":\"" A "\"}", one);
	assert_string_equal(json_string_value(json_object_get(catalogue_find(&use, A), "$schema")),
			    "https://json-schema.org/draft/2020-12/schema");
	catalogue_use_end(&use, NULL);
	catalogue_free(&c);
}

static void a_definition_names_all_that_it_refers_to(void **state)
{
	struct catalogue *c = catalogue_new(NULL);
	json_t *doc = parse(TOOL("\"properties\":{\"p\":{\"$ref\":\"" A "#/$defs/n\"}}"));
	struct define_item def;
	struct err err;

	assert_int_equal(define_item(doc, bind_any, c, &def, &err), ERR_INVALID);
	assert_string_equal(err.where, "/inputSchema/properties/p/$ref");
	set(c, A, "{\"$id\":\"" A "\",\"$defs\":{\"n\":{\"type\":\"null\"}},\"properties\":{\"q\":{\"$ref\":\"b\"}}}", one);
	assert_int_equal(define_item(doc, bind_any, c, &def, &err), ERR_INVALID);
	set(c, B, "{\"$id\":\"" B "\"}", two);
	assert_int_equal(define_item(doc, bind_any, c, &def, &err), 0);
	assert_int_equal(def.refs.n, 2);
	assert_string_equal(def.refs.v[0].uri, A);
	assert_string_equal(def.refs.v[1].uri, B);
	define_free(&def);
	json_decref(doc);
	catalogue_free(&c);
}

static void a_place_inside_of_a_shared_schema_is_said_in_words(void **state)
{
	struct catalogue *c = catalogue_new(NULL);
	json_t *doc = parse(TOOL("\"$ref\":\"" A "\""));
	struct define_item def;
	struct err err;

	set(c, A, "{\"$id\":\"" A "\",\"items\":{\"typ\":1}}", one);
	assert_int_equal(define_item(doc, bind_any, c, &def, &err), ERR_INVALID);
	assert_string_equal(err.where, "/inputSchema");
	assert_non_null(strstr(err.msg, A "#/items"));
	json_decref(doc);
	catalogue_free(&c);
}

/* MCP T-41, SEC S-211: what may not stand in a list may not stand in what lists carry. */
static void a_shared_schema_is_fit_for_lists(void **state)
{
	static const char *const bad[] = {
		"{\"$id\":\"" A "\",\"properties\":{\"p\":{\"type\":\"string\",\"x-mcp-header\":\"P\"}}}",
		"{\"$id\":\"" A "\",\"items\":{\"description\":\"a\\u202eb\"}}",
		"{\"$id\":\"" A "\",\"items\":{\"$ref\":\"" B "\"}}",
		"{\"$id\":\"" A "\",\"typ\":1}",
		"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"$id\":\"" A "\",\"items\":{\"$id\":\"c\"}}",
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct catalogue *c = catalogue_new(NULL);
		json_t *doc = parse(bad[i]);
		struct define_schema def;
		struct err err;

		assert_int_equal(define_schema_read(doc, &def, &err), 0);
		set(c, def.uri, def.text, def.digest);
		assert_true(define_schema_check(doc, c, &def, &err) < 0);
		define_schema_free(&def);
		json_decref(doc);
		catalogue_free(&c);
	}
}

static void kind_is_no_part_of_the_schema(void **state)
{
	json_t *plain = parse("{\"$id\":\"" A "\"}"), *said = parse("{\"kind\":\"schema\",\"$id\":\"" A "\"}");
	struct define_schema a, b;
	struct err err;

	assert_int_equal(define_schema_read(plain, &a, &err), 0);
	assert_int_equal(define_schema_read(said, &b, &err), 0);
	assert_string_equal(a.text, b.text);
	assert_memory_equal(a.digest, b.digest, 32);
	define_schema_free(&a);
	define_schema_free(&b);
	json_decref(plain);
	json_decref(said);
}

SINGLE_THREAD_SUITE(catalogue)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_upper_layer_hides_the_lower),
		cmocka_unit_test(without_a_dialect_it_is_2020_12),
		cmocka_unit_test(a_definition_names_all_that_it_refers_to),
		cmocka_unit_test(a_place_inside_of_a_shared_schema_is_said_in_words),
		cmocka_unit_test(a_shared_schema_is_fit_for_lists),
		cmocka_unit_test(kind_is_no_part_of_the_schema),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
