/* A schema with all that it refers to as one document, and the names of schemas that others refer to (MCP ). */
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

#define A "https://e.example/a"
#define B "https://e.example/b"

struct shared { const char *uri; json_t *doc; };

static const json_t *find(void *arg, const char *uri)
{
	for (const struct shared *s = arg; s->uri; s++)
		if (strcmp(s->uri, uri) == 0)
			return s->doc;
	return NULL;
}

static int bundle(const char *text, const char *a, const char *b, json_t **ret, struct err *err)
{
	struct shared shared[] = { { A, a ? parse(a) : NULL }, { B, b ? parse(b) : NULL }, { NULL, NULL } };
	const struct schema_options options = { .find = find, .find_arg = shared };
	json_t *doc = parse(text);
	int rc = schema_bundle(doc, &options, ret, err);

	json_decref(doc);
	json_decref(shared[0].doc);
	json_decref(shared[1].doc);
	return rc;
}

static void becomes(const char *text, const char *a, const char *b, const char *expected)
{
	json_t *made = NULL;
	struct str out = STR_INIT;
	struct err e = { 0 };

	if (bundle(text, a, b, &made, &e) != 1)
		fail_msg("%s: not bundled: %s %s", text, e.where, e.msg);
	jx_write(made, &out);
	assert_string_equal(str_text(&out), expected);
	str_fini(&out);
	json_decref(made);
}

static void what_stands_alone_stays(void **state)
{
	json_t *made = NULL;
	struct err e;

	assert_int_equal(bundle("{\"properties\":{\"x\":{\"$ref\":\"#/$defs/y\"}},\"$defs\":{\"y\":true}}", NULL, NULL, &made, &e), 0);
	assert_null(made);
}

static void what_is_referred_to_is_carried_under_its_id(void **state)
{
	becomes("{\"properties\":{\"x\":{\"$ref\":\"" A "#/$defs/n\"}},\"$defs\":{\"own\":true}}",
		"{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"$id\":\"" A "\",\"$defs\":{\"n\":{\"type\":\"null\"}}}", NULL,
		"{\"properties\":{\"x\":{\"$ref\":\"" A "#/$defs/n\"}},\"$defs\":{\"own\":true,\"" A "\":{\"$id\":\"" A
		"\",\"$defs\":{\"n\":{\"type\":\"null\"}}}}}");
}

static void what_that_refers_to_is_carried_too_even_beside_the_way(void **state)
{
	/* Nobody looks at a's properties, but there they are. */
	becomes("{\"$ref\":\"" A "#/$defs/n\"}", "{\"$id\":\"" A "\",\"$defs\":{\"n\":true},\"properties\":{\"p\":{\"$ref\":\"b\"}}}",
		"{\"$id\":\"" B "\"}",
		"{\"$ref\":\"" A "#/$defs/n\",\"$defs\":{\"" A "\":{\"$id\":\"" A
		"\",\"$defs\":{\"n\":true},\"properties\":{\"p\":{\"$ref\":\"b\"}}},\"" B "\":{\"$id\":\"" B "\"}}}");
}

static void circles_of_documents_end(void **state)
{
	becomes("{\"items\":{\"$ref\":\"" A "\"}}", "{\"$id\":\"" A "\",\"items\":{\"$ref\":\"b\"}}", "{\"$id\":\"" B "\",\"items\":{\"$ref\":\"a\"}}",
		"{\"items\":{\"$ref\":\"" A "\"},\"$defs\":{\"" A "\":{\"$id\":\"" A "\",\"items\":{\"$ref\":\"b\"}},\"" B "\":{\"$id\":\"" B
		"\",\"items\":{\"$ref\":\"a\"}}}}");
}

static void older_dialects_come_out_as_2020_12(void **state)
{
	becomes("{" S7 ",\"definitions\":{\"l\":{\"$ref\":\"" A "\"}},\"items\":[{\"$ref\":\"#/definitions/l\"}]}",
		"{" S4 ",\"id\":\"" A "\",\"minimum\":1,\"exclusiveMinimum\":true}", NULL,
		"{\"$defs\":{\"l\":{\"$ref\":\"" A "\"},\"" A "\":{\"$id\":\"" A "\",\"exclusiveMinimum\":1}},\"prefixItems\":[{\"$ref\":\"#/$defs/l\"}]}");
}

static void refuses_what_cannot_be_said_so(void **state)
{
	json_t *made = NULL;
	struct err e;

	assert_int_equal(bundle("{\"$ref\":\"" A "\"}", "{" S7 ",\"$id\":\"" A "\",\"properties\":{\"p\":{\"$id\":\"c\"}}}", NULL, &made, &e),
			 ERR_INVALID);
	assert_non_null(strstr(e.msg, A));
	assert_int_equal(bundle("{\"$ref\":\"" A "\",\"$defs\":{\"" A "\":true}}", "{\"$id\":\"" A "\"}", NULL, &made, &e), ERR_INVALID);
	assert_string_equal(e.where, "/$defs");
	assert_int_equal(bundle("{\"$ref\":\"https://e.example/c\"}", NULL, NULL, &made, &e), ERR_INVALID);
	assert_string_equal(e.where, "/$ref");
	assert_non_null(strstr(e.hint, "schema add"));
	assert_null(made);
}

/* SEC S-209: hosts get no more than they would get of one schema. */
static void the_whole_is_no_longer_than_one_schema_may_be(void **state)
{
	for (int over = 0; over <= 1; over++) {
		const char *frame = "{\"$ref\":\"" A "\",\"$defs\":{\"" A "\":{\"$id\":\"" A "\",\"$comment\":\"\"}}}";
		size_t n = SCHEMA_TEXT_MAX - strlen(frame) + (size_t)over;
		char *fill = mem_alloc(n + 1), *a;
		json_t *made = NULL;
		struct err e;

		memset(fill, 'x', n);
		fill[n] = '\0';
		a = mem_printf("{\"$id\":\"" A "\",\"$comment\":\"%s\"}", fill);
		assert_int_equal(bundle("{\"$ref\":\"" A "\"}", a, NULL, &made, &e), over ? ERR_LIMIT : 1);
		json_decref(made);
		free(a);
		free(fill);
	}
}

static void assert_identity(const char *text, const char *uri, const char *where)
{
	json_t *doc = parse(text);
	char *got = NULL;
	struct err e = { 0 };
	int rc = schema_identity(doc, &got, &e);

	if (uri) {
		assert_int_equal(rc, 0);
		assert_string_equal(got, uri);
	} else {
		assert_true(rc < 0);
		assert_string_equal(e.where, where);
	}
	free(got);
	json_decref(doc);
}

static void a_name_is_an_absolute_uri_of_its_own(void **state)
{
	assert_identity("{\"$id\":\"" A "\"}", A, NULL);
	assert_identity("{\"$id\":\"urn:example:a\"}", "urn:example:a", NULL);
	assert_identity("{" S7 ",\"$id\":\"" A "#\"}", A, NULL);
	assert_identity("{" S4 ",\"id\":\"https://e.example/x/../a\"}", A, NULL);
	assert_identity("{" S4 ",\"$id\":\"" A "\"}", NULL, "/id");
	assert_identity("{\"$id\":\"a\"}", NULL, "/$id");
	assert_identity("{\"$id\":\"" A "#b\"}", NULL, "/$id");
	assert_identity("{\"$id\":7}", NULL, "/$id");
	assert_identity("{}", NULL, "/$id");
	assert_identity("true", NULL, "");
	assert_identity("{\"$id\":\"http://json-schema.org/draft-07/schema#\"}", NULL, "/$id");
	assert_identity("{\"$schema\":\"https://e.example/dialect\",\"$id\":\"" A "\"}", NULL, "/$schema");
}

static void a_name_has_at_most_256_bytes(void **state)
{
	for (int over = 0; over <= 1; over++) {
		char id[300] = "urn:", *text;

		memset(id + 4, 'x', 252 + (size_t)over);
		id[256 + over] = '\0';
		text = mem_printf("{\"$id\":\"%s\"}", id);
		assert_identity(text, over ? NULL : id, "/$id");
		free(text);
	}
}

SINGLE_THREAD_SUITE(bundle)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_stands_alone_stays),
		cmocka_unit_test(what_is_referred_to_is_carried_under_its_id),
		cmocka_unit_test(what_that_refers_to_is_carried_too_even_beside_the_way),
		cmocka_unit_test(circles_of_documents_end),
		cmocka_unit_test(older_dialects_come_out_as_2020_12),
		cmocka_unit_test(refuses_what_cannot_be_said_so),
		cmocka_unit_test(the_whole_is_no_longer_than_one_schema_may_be),
		cmocka_unit_test(a_name_is_an_absolute_uri_of_its_own),
		cmocka_unit_test(a_name_has_at_most_256_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
