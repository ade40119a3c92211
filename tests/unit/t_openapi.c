/* Descriptions of REST APIs: what an operation becomes, what is left out and named, what is bounded. */
#include "config.h"

#include "openapi/openapi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "suite.h"

#define API(version, paths, more) "{\"openapi\":\"" version "\",\"servers\":[{\"url\":\"https://a.example/v1/\"}]," more "\"paths\":{" paths "}}"
#define GET(parameters) "\"/p\":{\"get\":{\"operationId\":\"op\",\"parameters\":[" parameters "]}}"
#define POST(schema, more) "\"/p\":{\"post\":{\"operationId\":\"op\"," more "\"requestBody\":{\"required\":true,\"content\":" \
	"{\"application/json\":{\"schema\":" schema "}}}}}"
#define P(in, name, schema) "{\"in\":\"" in "\",\"name\":\"" name "\",\"schema\":" schema "}"

struct got { json_t *docs; struct str notes; };

static void take(void *arg, const char *pointer, const char *name, json_t *doc)
{
	struct got *got = arg;

	assert_string_equal(json_string_value(json_object_get(doc, "name")), name);
	(void)json_array_append_new(got->docs, doc);
}

static void note(void *arg, const char *pointer, const char *text)
{
	struct got *got = arg;

	str_printf(&got->notes, "%s: %s\n", pointer, text);
}

static int convert(const char *text, const char *server, struct got *got, struct err *err)
{
	static const struct openapi_sink sink = { take, note };
	const struct openapi_options options = { .server = server };
	json_t *doc = NULL;
	int rc;

	*got = (struct got){ json_array(), STR_INIT };
	if (jx_parse(text, strlen(text), &doc, err) < 0)
		fail_msg("%s: %s", text, err->msg);
	rc = openapi_convert(doc, &options, &sink, got, err);
	json_decref(doc);
	return rc;
}

/* The names of what is taken, or where the refusal stands. */
static void takes(const char *text, const char *tags, const char *paths, const char *expected)
{
	static const struct openapi_sink sink = { take, note };
	struct openapi_options options = { .server = "https://a.example" };
	struct got got = { json_array(), STR_INIT };
	struct str said = STR_INIT;
	json_t *doc = NULL, *t = NULL, *p = NULL;
	struct err err;

	assert_int_equal(jx_parse(text, strlen(text), &doc, NULL), 0);
	assert_int_equal(jx_parse(tags, strlen(tags), &t, NULL), 0);
	assert_int_equal(jx_parse(paths, strlen(paths), &p, NULL), 0);
	options.tags = json_is_array(t) ? t : NULL;
	options.paths = json_is_array(p) ? p : NULL;
	if (openapi_convert(doc, &options, &sink, &got, &err) < 0)
		str_printf(&said, "%s (%s)", err.msg, err.hint);
	for (size_t i = 0; i < json_array_size(got.docs); i++)
		str_printf(&said, "%s ", json_string_value(json_object_get(json_array_get(got.docs, i), "name")));
	assert_string_equal(str_text(&said), expected);
	json_decref(got.docs);
	json_decref(doc);
	json_decref(t);
	json_decref(p);
	str_fini(&got.notes);
	str_fini(&said);
}

static void got_fini(struct got *got)
{
	json_decref(got->docs);
	str_fini(&got->notes);
}

static void assert_part(const json_t *doc, const char *pointer, const char *expected)
{
	struct str out = STR_INIT;
	const json_t *v = jx_at(doc, pointer);

	if (v)
		jx_write(v, &out);
	assert_string_equal(str_text(&out), expected);
	str_fini(&out);
}

/* One operation becomes one document, with this at these places. */
static void becomes(const char *text, const char *pointer, const char *expected, const char *pointer2, const char *expected2)
{
	struct got got;
	struct err err;

	assert_int_equal(convert(text, NULL, &got, &err), 0);
	assert_int_equal(json_array_size(got.docs), 1);
	assert_part(json_array_get(got.docs, 0), pointer, expected);
	assert_part(json_array_get(got.docs, 0), pointer2, expected2);
	got_fini(&got);
}

static void is_left_out(const char *text, const char *why)
{
	struct got got;
	struct err err;

	assert_int_equal(convert(text, NULL, &got, &err), 0);
	assert_int_equal(json_array_size(got.docs), 0);
	if (!strstr(str_text(&got.notes), why))
		fail_msg("%s\n%s", why, str_text(&got.notes));
	got_fini(&got);
}

static void parameters_stand_in_url_query_and_headers(void **state)
{
	becomes(API("3.1.0", GET(P("query", "a", "{\"type\":\"array\"}") "," P("query", "b", "true") "," P("header", "X-C", "{}")), ""),
		"/handler", "{\"type\":\"http\",\"url\":\"https://a.example/v1/p{?a*,b}\",\"headers\":{\"X-C\":\"{/X-C}\"}}",
		"/inputSchema/properties", "{\"a\":{\"type\":\"array\"},\"b\":true,\"X-C\":{}}");
	becomes(API("3.1.0", "\"/u/{user id}/x\":{\"get\":{\"parameters\":[" P("path", "user id", "{\"type\":\"string\"}") "]}}", ""),
		"/handler/url", "\"https://a.example/v1/u/{user_id}/x\"", "/inputSchema/required", "[\"user_id\"]");
	becomes(API("3.1.0", GET(P("query", "a[b]", "{}")), ""), "/handler/query", "{\"a[b]\":\"{/a_b}\"}", "/name", "\"op\"");
}

static void an_operation_overrides_the_parameters_of_its_path(void **state)
{
	becomes(API("3.0.0", "\"/p\":{\"parameters\":[" P("query", "a", "{\"type\":\"string\"}") "," P("query", "b", "{}") "],\"get\":{"
		    "\"parameters\":[" P("query", "a", "{\"type\":\"integer\"}") "]}}", ""),
		"/inputSchema/properties", "{\"b\":{},\"a\":{\"type\":\"integer\"}}", "/name", "\"get_p\"");
}

static void members_of_a_body_are_arguments(void **state)
{
	becomes(API("3.1.0", POST("{\"type\":\"object\",\"properties\":{\"a\":{},\"r\":{\"readOnly\":true}},\"required\":[\"a\",\"r\"]}",
				  "\"parameters\":[" P("query", "a", "true") "],"), ""),
		"/handler/body", "{\"a\":\"{/a_2}\"}", "/inputSchema/required", "[\"a_2\"]");
	becomes(API("3.1.0", POST("{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}", ""), ""), "/handler/body",
		"\"arguments\"", "/inputSchema", "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}");
}

/* What is no object of named members is one argument, beside those of the path. */
static void other_bodies_are_one_argument(void **state)
{
	becomes(API("3.1.0", POST("{\"type\":\"array\",\"items\":{\"type\":\"string\"}}", ""), ""), "/handler",
		"{\"type\":\"http\",\"method\":\"POST\",\"url\":\"https://a.example/v1/p\",\"headers\":{\"Content-Type\":\"application/json\"},"
		"\"body\":\"{/body}\"}",
		"/inputSchema", "{\"type\":\"object\",\"properties\":{\"body\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}},"
		"\"required\":[\"body\"],\"additionalProperties\":false}");
	becomes(API("3.1.0", POST("{\"anyOf\":[{\"type\":\"object\"},{\"type\":\"string\"}]}", "\"parameters\":[" P("query", "body", "true") "],"), ""),
		"/handler/body", "\"{/body_2}\"", "/inputSchema/required", "[\"body_2\"]");
	becomes(API("3.1.0", "\"/p\":{\"patch\":{\"requestBody\":{\"content\":{\"application/json-patch+json\":{\"schema\":{\"type\":\"array\"}}}}}}", ""),
		"/handler/headers", "{\"Content-Type\":\"application/json-patch+json\"}", "/inputSchema/required", "");
}

static void parts_of_all_of_are_one_object(void **state)
{
	static const char more[] = "\"components\":{\"schemas\":{\"New\":{\"allOf\":[{\"$ref\":\"#/components/schemas/Base\"},{\"type\":\"object\","
		"\"properties\":{\"name\":{\"maxLength\":9},\"b\":{}},\"required\":[\"b\"]}]},\"Base\":{\"properties\":{\"id\":{\"readOnly\":true},"
		"\"name\":{\"type\":\"string\"}},\"required\":[\"id\",\"name\"]},\"Self\":{\"allOf\":[{\"$ref\":\"#/components/schemas/Self\"}]}}},";
	char *text = mem_printf(API("3.0.3", POST("{\"$ref\":\"#/components/schemas/New\"}", "\"parameters\":[" P("query", "q", "{}") "],"), "%s"), more);

	becomes(text, "/inputSchema", "{\"type\":\"object\",\"properties\":{\"q\":{},\"name\":{\"allOf\":[{\"type\":\"string\"},{\"maxLength\":9}]},"
		"\"b\":{}},\"required\":[\"name\",\"b\"],\"additionalProperties\":false}",
		"/handler/body", "{\"name\":\"{/name}\",\"b\":\"{/b}\"}");
	free(text);
	text = mem_printf(API("3.0.3", POST("{\"$ref\":\"#/components/schemas/Self\"}", ""), "%s"), more);
	becomes(text, "/handler/body", "\"arguments\"", "/name", "\"op\"");
	free(text);
}

static void members_of_objects_in_the_query_are_arguments(void **state)
{
	static const char object[] = "{\"type\":\"object\",\"properties\":{\"min\":{\"type\":\"integer\"},\"tags\":{\"type\":\"array\"}},"
		"\"required\":[\"min\"]}";
	char *text = mem_printf(API("3.0.3", GET("{\"in\":\"query\",\"name\":\"age\",\"style\":\"deepObject\",\"required\":true,\"schema\":%s}"), ""), object);

	becomes(text, "/handler/query", "{\"age[min]\":\"{/age_min}\"}", "/inputSchema/required", "[\"age_min\"]");
	free(text);
	text = mem_printf(API("3.0.3", GET("{\"in\":\"query\",\"name\":\"age\",\"schema\":%s}"), ""), object);
	becomes(text, "/handler/query", "{\"min\":\"{/min}\"}", "/inputSchema/required", "");
	free(text);
	text = mem_printf(API("3.0.3", GET("{\"in\":\"query\",\"name\":\"age\",\"explode\":false,\"required\":true,\"schema\":%s}"), ""), object);
	is_left_out(text, "objects outside of the body");
	free(text);
}

#define ANSWERS(list) "\"/p\":{\"get\":{\"operationId\":\"op\",\"responses\":{" list "}}}"
#define JSON(schema) "{\"content\":{\"application/json\":{\"schema\":" schema "}}}"

static void answers_of_success_make_the_output_schema(void **state)
{
	static const char more[] = "\"components\":{\"schemas\":{\"T\":{\"type\":\"object\",\"properties\":{\"id\":{\"readOnly\":true},"
		"\"secret\":{\"writeOnly\":true},\"t\":{\"$ref\":\"#/components/schemas/T\"}},\"required\":[\"id\",\"secret\"]}}},";
	char *text = mem_printf(API("3.0.3", ANSWERS("\"200\":" JSON("{\"$ref\":\"#/components/schemas/T\"}") ",\"404\":" JSON("{}")), "%s"), more);
	struct got got;
	struct err err;

	becomes(text, "/outputSchema", "{\"type\":\"object\",\"properties\":{\"id\":{},\"t\":{\"$ref\":\"#/$defs/T\"}},\"required\":[\"id\"],\"$defs\":{\"T\":"
		"{\"type\":\"object\",\"properties\":{\"id\":{},\"t\":{\"$ref\":\"#/$defs/T\"}},\"required\":[\"id\"]}}}", "/handler/headers", "");
	free(text);
	becomes(API("3.1.0", ANSWERS("\"200\":" JSON("{\"type\":\"array\"}") ",\"201\":" JSON("{\"type\":\"string\"}") ",\"2XX\":" JSON("{\"type\":\"array\"}")), ""),
		"/outputSchema", "{\"anyOf\":[{\"type\":\"array\"},{\"type\":\"string\"}]}", "/name", "\"op\"");
	becomes(API("3.1.0", ANSWERS("\"200\":{\"content\":{\"text/csv\":{},\"application/json\":{\"schema\":true}}}"), ""), "/outputSchema", "true",
		"/handler/headers", "{\"Accept\":\"application/json\"}");
	assert_int_equal(convert(API("3.1.0", ANSWERS("\"200\":" JSON("{}") ",\"204\":{}"), ""), NULL, &got, &err), 0);
	assert_part(json_array_get(got.docs, 0), "/outputSchema", "");
	assert_string_equal(str_text(&got.notes), "/paths/~1p/get/responses: outputSchema is left out: an answer that means success is no JSON with a schema\n");
	got_fini(&got);
	assert_int_equal(convert(API("3.1.0", ANSWERS("\"200\":" JSON("{\"$ref\":\"other.yaml\"}")), ""), NULL, &got, &err), 0);
	assert_part(json_array_get(got.docs, 0), "/outputSchema", "");
	assert_string_equal(str_text(&got.notes), "/paths/~1p/get: outputSchema is left out: the reference other.yaml leads out of the description\n");
	got_fini(&got);
}

/* A schema that contains itself stays finite, and one that others are made of is there once. */
static void references_become_definitions(void **state)
{
	becomes(API("3.1.0", POST("{\"$ref\":\"#/components/schemas/T\"}", ""),
		    "\"components\":{\"schemas\":{\"T\":{\"type\":\"object\",\"properties\":{\"t\":{\"$ref\":\"#/components/schemas/T\"},"
		    "\"u\":{\"$ref\":\"#/components/schemas/U\"}}},\"U\":{\"type\":\"string\",\"example\":\"x\"}}},"),
		"/inputSchema/properties", "{\"t\":{\"$ref\":\"#/$defs/T\"},\"u\":{\"$ref\":\"#/$defs/U\"}}", "/inputSchema/$defs/U",
		"{\"type\":\"string\",\"examples\":[\"x\"]}");
}

static void schemas_of_3_0_become_2020_12(void **state)
{
	becomes(API("3.0.3", GET(P("query", "a", "{\"type\":\"integer\",\"nullable\":true,\"minimum\":1,\"exclusiveMinimum\":true,\"x-y\":1}")), ""),
		"/inputSchema/properties/a", "{\"type\":[\"integer\",\"null\"],\"exclusiveMinimum\":1}", "/name", "\"op\"");
	becomes(API("3.0.3", GET(P("query", "a", "{\"type\":\"string\",\"nullable\":true,\"enum\":[\"x\"],\"maximum\":2,\"exclusiveMaximum\":false}")), ""),
		"/inputSchema/properties/a", "{\"type\":[\"string\",\"null\"],\"enum\":[\"x\",null],\"maximum\":2}", "/name", "\"op\"");
	becomes(API("3.0.3", GET(P("query", "a", "{\"$ref\":\"#/components/schemas/T\",\"type\":\"array\"}")),
		    "\"components\":{\"schemas\":{\"T\":{\"type\":\"string\"}}},"),
		"/inputSchema/properties/a", "{\"$ref\":\"#/$defs/T\"}", "/handler/url", "\"https://a.example/v1/p{?a}\"");
}

static void security_becomes_secrets(void **state)
{
	static const char more[] = "\"security\":[{\"s\":[]},{}],\"components\":{\"securitySchemes\":{\"s\":";
	static const struct { const char *scheme, *pointer, *expected; } cases[] = {
		{ "{\"type\":\"http\",\"scheme\":\"bearer\"}", "/handler/headers", "{\"Authorization\":\"Bearer {secret:s}\"}" },
		{ "{\"type\":\"http\",\"scheme\":\"Basic\"}", "/handler/headers", "{\"Authorization\":\"Basic {secret:s}\"}" },
		{ "{\"type\":\"apiKey\",\"in\":\"query\",\"name\":\"k\"}", "/handler/query", "{\"k\":\"{secret:s}\"}" },
		{ "{\"type\":\"apiKey\",\"in\":\"header\",\"name\":\"K\"}", "/handler/headers", "{\"K\":\"{secret:s}\"}" },
		{ "{\"type\":\"mutualTLS\"}", "/handler/headers", "" },
	};

	for (size_t i = 0; i < NELEMS(cases); i++) {
		char *text = mem_printf("{\"openapi\":\"3.1.0\",\"servers\":[{\"url\":\"https://a.example\"}],%s%s}},\"paths\":{" GET("") "}}", more,
					cases[i].scheme);

		becomes(text, cases[i].pointer, cases[i].expected, "/handler/url", "\"https://a.example/p\"");
		free(text);
	}
}

static void what_cannot_be_said_is_named(void **state)
{
	struct got got;
	struct err err;

	assert_int_equal(convert(API("3.1.0", GET(P("cookie", "c", "{}") ",{\"in\":\"query\",\"name\":\"d\",\"style\":\"deepObject\"}"), ""), NULL,
				 &got, &err), 0);
	assert_int_equal(json_array_size(got.docs), 1);
	assert_string_equal(str_text(&got.notes), "/paths/~1p/get/parameters: the parameter c is left out: cookies are not sent\n"
			    "/paths/~1p/get/parameters: the parameter d is left out: its style is not known here\n");
	got_fini(&got);
	is_left_out(API("3.1.0", GET("{\"in\":\"cookie\",\"name\":\"c\",\"required\":true}"), ""), "cookies are not sent");
	is_left_out(API("3.1.0", GET("{\"$ref\":\"#/nowhere\"}"), ""), "leads nowhere");
	is_left_out(API("3.1.0", GET("{\"$ref\":\"other.yaml#/p\"}"), ""), "leads nowhere");
	is_left_out(API("3.1.0", GET(P("query", "q", "{\"items\":{\"$ref\":\"other.yaml\"}}")), ""), "leads out of the description");
	is_left_out(API("3.1.0", "\"/p/{id}\":{\"get\":{}}", ""), "{id} of its path is no parameter");
	is_left_out(API("3.1.0", "\"/p\":{\"post\":{\"requestBody\":{\"required\":true,\"content\":{\"multipart/form-data\":{}}}}}", ""),
		    "/paths/~1p/post/requestBody/content/multipart~1form-data: the operation is left out: bodies of several parts");
	is_left_out(API("3.1.0", "\"/p\":{\"post\":{\"requestBody\":{\"required\":true,\"content\":{\"application/x-www-form-urlencoded\":"
			"{\"schema\":{\"type\":\"array\"}}}}}}", ""), "no object of named members");
	is_left_out(API("3.1.0", "\"/p\":{\"post\":{\"requestBody\":{\"required\":true,\"content\":{\"text/xml\":{\"schema\":"
			"{\"type\":\"object\"}}}}}}", ""), "bodies are JSON, forms, text or bytes");
	is_left_out(API("3.1.0", "\"/p\":{\"post\":{\"requestBody\":{\"content\":{\"multipart/form-data\":{}}}}}", ""), "(multipart)");
	is_left_out(API("3.1.0", "\"/p\":{\"post\":{\"requestBody\":{\"content\":{\"application/{secret:k}+json\":{}}}}}", ""), "bodies are");
	is_left_out(API("3.1.0", "\"/p\":{\"trace\":{}}", ""), "method is not known");
}

static void references_to_themselves_end(void **state)
{
	is_left_out(API("3.1.0", GET("{\"$ref\":\"#/components/parameters/a\"}"),
			"\"components\":{\"parameters\":{\"a\":{\"$ref\":\"#/components/parameters/a\"}}},"), "leads nowhere");
}

static void refuses_what_is_no_description(void **state)
{
	static const struct { const char *text, *server, *where; } cases[] = {
		{ "[]", NULL, "" }, { "{}", NULL, "" }, { "{\"swagger\":\"2.0\"}", NULL, "/swagger" },
		{ "{\"openapi\":\"4.0\"}", NULL, "/openapi" }, { "{\"openapi\":\"3.1.0\",\"paths\":{}}", "https://a.example", "/paths" },
		{ "{\"openapi\":\"3.1.0\",\"servers\":[{\"url\":\"/v1\"}]}", NULL, "/servers/0/url" },
		{ "{\"openapi\":\"3.1.0\",\"servers\":[{\"url\":\"https://{host}/\"}]}", NULL, "/servers/0/url" },
		{ "{\"openapi\":\"3.1.0\",\"paths\":{\"/p\":{\"get\":{}}}}", NULL, "" }, { "{\"openapi\":\"3.1.0\"}", NULL, "/paths" }, { "{\"openapi\":\"3.1.0\"}", "https://", "" },
		{ "{\"openapi\":\"3.1.0\"}", "https://user@a.example", "" },
	};

	for (size_t i = 0; i < NELEMS(cases); i++) {
		struct got got;
		struct err err;

		assert_int_equal(convert(cases[i].text, cases[i].server, &got, &err), ERR_INVALID);
		assert_string_equal(err.where, cases[i].where);
		got_fini(&got);
	}
}

static void other_servers_than_https_are_allowed_by_name(void **state)
{
	static const struct { const char *server, *url, *allow; } cases[] = {
		{ "https://b.example:443//", "\"https://b.example:443/p\"", "" },
		{ "http://b.example/x/", "\"http://b.example/x/p\"", "{\"hosts\":[\"b.example:80\"]}" },
		{ "https://b.example:8443", "\"https://b.example:8443/p\"", "{\"hosts\":[\"b.example:8443\"]}" },
		{ "http://[::1]:80", "\"http://[::1]:80/p\"", "{\"hosts\":[\"[::1]:80\"]}" },
	};

	for (size_t i = 0; i < NELEMS(cases); i++) {
		struct got got;
		struct err err;

		assert_int_equal(convert(API("3.1.0", GET(""), ""), cases[i].server, &got, &err), 0);
		assert_part(json_array_get(got.docs, 0), "/handler/url", cases[i].url);
		assert_part(json_array_get(got.docs, 0), "/handler/allow", cases[i].allow);
		got_fini(&got);
	}
}

static void operations_are_taken_by_tag_and_path(void **state)
{
	static const char api[] = "{\"openapi\":\"3.1.0\",\"paths\":{\"/issues/{n}\":{\"parameters\":[" P("path", "n", "{}") "],"
		"\"get\":{\"operationId\":\"a\",\"tags\":[\"issues\",\"x\"]},\"put\":{\"operationId\":\"b\",\"tags\":[\"issues\"]}},"
		"\"/issues\":{\"get\":{\"operationId\":\"c\"}},\"/gists/new\":{\"post\":{\"operationId\":\"d\",\"tags\":[\"gists\"]}}}}";

	takes(api, "1", "1", "a b c d ");
	takes(api, "[\"issues\"]", "1", "a b ");
	takes(api, "[\"x\",\"g*\"]", "1", "a d ");
	takes(api, "1", "[\"/issues\",\"/gists*\"]", "c d ");
	takes(api, "1", "[\"/issues/*\"]", "a b ");
	takes(api, "[\"x\"]", "[\"/issues*\"]", "a ");
	takes(api, "[\"isues\"]", "1", "no operation has the tag isues (did you mean issues?)");
	takes(api, "1", "[\"/issues\",\"/gist/new\"]", "no operation has the path /gist/new (did you mean /gists/new?)");
	takes(api, "[\"x\"]", "[\"/gists/*\"]", "no operation has one of the tags and one of the paths ()");
}

/* At the limit, and one more. */
static void a_description_has_at_most_2000_operations(void **state)
{
	for (unsigned over = 0; over <= 1; over++) {
		struct str text = STR_INIT;
		struct got got;
		struct err err = { 0 };

		str_puts(&text, "{\"openapi\":\"3.1.0\",\"paths\":{");
		for (unsigned i = 0; i < OPENAPI_OPERATIONS_MAX + over; i++)
			str_printf(&text, "%s\"/p%u\":{\"get\":{}}", i ? "," : "", i);
		str_puts(&text, "}}");
		assert_int_equal(convert(str_text(&text), "https://a.example", &got, &err), over ? ERR_LIMIT : 0);
		assert_int_equal(json_array_size(got.docs), over ? 0 : OPENAPI_OPERATIONS_MAX);
		got_fini(&got);
		str_fini(&text);
	}
}

#define OWN(of_path, of_operation) "\"/p\":{" of_path "\"get\":{" of_operation "\"operationId\":\"op\"}}"
#define SERVERS(url) "\"servers\":[{\"url\":\"" url "\"" "}],"

/* N-06: those of an operation, else those of its path, else those of all. */
static void n06_operations_go_to_their_own_servers(void **state)
{
	becomes(API("3.1.0", OWN("", SERVERS("https://up.example/x/")), ""), "/handler/url", "\"https://up.example/x/p\"", "/handler/allow", "");
	becomes(API("3.1.0", OWN(SERVERS("http://up.example"), ""), ""), "/handler/url", "\"http://up.example/p\"",
		"/handler/allow", "{\"hosts\":[\"up.example:80\"]}");
	becomes(API("3.1.0", OWN(SERVERS("https://b.example"), SERVERS("/uploads")), ""), "/handler/url", "\"https://a.example/uploads/p\"",
		"/name", "\"op\"");
	becomes(API("3.1.0", OWN("", "\"servers\":[{\"url\":\"https://{r}.b.example:{n}\",\"variables\":{\"r\":{\"default\":\"eu\"},"
			"\"n\":{\"default\":\"8443\"}}}],"), ""),
		"/handler/url", "\"https://eu.b.example:8443/p\"", "/handler/allow", "{\"hosts\":[\"eu.b.example:8443\"]}");
	becomes(API("3.1.0", OWN("\"servers\":[],", ""), ""), "/handler/url", "\"https://a.example/v1/p\"", "/name", "\"op\"");
	becomes("{\"openapi\":\"3.1.0\",\"paths\":{" OWN("", SERVERS("https://b.example")) "}}", "/handler/url", "\"https://b.example/p\"",
		"/name", "\"op\"");
	is_left_out(API("3.1.0", OWN("", SERVERS("https://{r}.b.example")), ""), "is no URL of the form");
	is_left_out(API("3.1.0", OWN("", SERVERS("ftp://b.example")), ""), "is no URL of the form");
}

/* What --server says is not where these go, and that is said. */
static void a_server_of_its_own_is_told_beside_a_given_one(void **state)
{
	struct got got;
	struct err err;

	assert_int_equal(convert(API("3.1.0", OWN("", SERVERS("https://up.example")), ""), "https://c.example", &got, &err), 0);
	assert_part(json_array_get(got.docs, 0), "/handler/url", "\"https://up.example/p\"");
	assert_string_equal(str_text(&got.notes),
			    "/paths/~1p/get/servers: its requests go to its own server https://up.example, not to --server\n");
	got_fini(&got);
	assert_int_equal(convert(API("3.1.0", OWN("", "\"servers\":[],"), ""), "https://c.example", &got, &err), 0);
	assert_part(json_array_get(got.docs, 0), "/handler/url", "\"https://c.example/p\"");
	assert_string_equal(str_text(&got.notes), "");
	got_fini(&got);
}

#define BODY(type, schema) "\"/p\":{\"post\":{\"operationId\":\"op\",\"requestBody\":{\"required\":true,\"content\":{\"" type "\":{" schema "}}}}}"

/* N-06: no tool is hollow. */
static void n06_bodies_of_text_and_bytes_are_one_argument(void **state)
{
	becomes(API("3.1.0", BODY("text/plain", "\"schema\":{\"type\":\"string\",\"maxLength\":9}"), ""), "/inputSchema",
		"{\"type\":\"object\",\"properties\":{\"body\":{\"type\":\"string\",\"maxLength\":9}},\"required\":[\"body\"],"
		"\"additionalProperties\":false}", "/handler/headers", "{\"Content-Type\":\"text/plain\"}");
	becomes(API("3.1.0", BODY("application/xml", ""), ""), "/inputSchema/properties/body", "{\"type\":\"string\"}", "/handler/encoding", "");
	becomes(API("3.0.3", BODY("application/octet-stream", "\"schema\":{\"type\":\"string\",\"format\":\"binary\"}"), ""), "/inputSchema",
		"{\"type\":\"object\",\"properties\":{\"body\":{\"type\":\"string\",\"description\":\"The bytes that are sent, in base64, or as "
		"text when body_encoding says so\"},\"body_encoding\":{\"type\":\"string\",\"enum\":[\"base64\",\"text\"],\"default\":\"base64\"}},"
		"\"required\":[\"body\"],\"additionalProperties\":false}",
		"/handler", "{\"type\":\"http\",\"method\":\"POST\",\"url\":\"https://a.example/v1/p\",\"headers\":{\"Content-Type\":"
		"\"application/octet-stream\"},\"body\":\"{/body}\",\"encoding\":\"{/body_encoding}\"}");
	becomes(API("3.1.0", BODY("image/png", ""), ""), "/inputSchema/properties",
		"{\"body\":{\"type\":\"string\",\"contentEncoding\":\"base64\",\"description\":\"The bytes that are sent, in base64\"}}",
		"/handler/encoding", "\"base64\"");
	/* JSON is better, wherever it stands */
	becomes(API("3.1.0", BODY("text/plain", "},\"application/json\":{\"schema\":{\"type\":\"object\"}"), ""), "/handler/body", "\"arguments\"",
		"/handler/headers", "");
}

/* A chain of n schemas, each of which contains the next. */
static char *chain(unsigned n)
{
	struct str text = STR_INIT;

	str_puts(&text, "{\"openapi\":\"3.1.0\",\"servers\":[{\"url\":\"https://a.example\"}],\"paths\":{"
		 GET(P("query", "q", "{\"$ref\":\"#/components/schemas/s0\"}")) "},\"components\":{\"schemas\":{");
	for (unsigned i = 0; i + 1 < n; i++)
		str_printf(&text, "\"s%u\":{\"items\":{\"$ref\":\"#/components/schemas/s%u\"}},", i, i + 1);
	str_printf(&text, "\"s%u\":{}}}}", n - 1);
	return str_take(&text);
}

static void an_operation_refers_to_at_most_500_schemas(void **state)
{
	for (unsigned over = 0; over <= 1; over++) {
		char *text = chain(OPENAPI_DEFS_MAX + over);
		struct got got;
		struct err err;

		assert_int_equal(convert(text, NULL, &got, &err), 0);
		assert_int_equal(json_array_size(got.docs), over ? 0 : 1);
		got_fini(&got);
		free(text);
	}
}

static void names_are_unique_and_fit_for_tools(void **state)
{
	struct got got;
	struct err err;

	assert_int_equal(convert(API("3.1.0", "\"/a\":{\"get\":{\"operationId\":\"a b!\"},\"put\":{\"operationId\":\"a/b\"},\"delete\":{}}", ""), NULL,
				 &got, &err), 0);
	assert_part(json_array_get(got.docs, 0), "/name", "\"a_b\"");
	assert_part(json_array_get(got.docs, 1), "/name", "\"a_b_2\"");
	assert_part(json_array_get(got.docs, 2), "/name", "\"delete_a\"");
	assert_part(json_array_get(got.docs, 2), "/description", "\"DELETE /a\"");
	got_fini(&got);
}

SINGLE_THREAD_SUITE(openapi)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parameters_stand_in_url_query_and_headers),
		cmocka_unit_test(an_operation_overrides_the_parameters_of_its_path),
		cmocka_unit_test(members_of_a_body_are_arguments),
		cmocka_unit_test(other_bodies_are_one_argument),
		cmocka_unit_test(parts_of_all_of_are_one_object),
		cmocka_unit_test(members_of_objects_in_the_query_are_arguments),
		cmocka_unit_test(answers_of_success_make_the_output_schema),
		cmocka_unit_test(references_become_definitions),
		cmocka_unit_test(schemas_of_3_0_become_2020_12),
		cmocka_unit_test(security_becomes_secrets),
		cmocka_unit_test(what_cannot_be_said_is_named),
		cmocka_unit_test(references_to_themselves_end),
		cmocka_unit_test(refuses_what_is_no_description),
		cmocka_unit_test(other_servers_than_https_are_allowed_by_name),
		cmocka_unit_test(operations_are_taken_by_tag_and_path),
		cmocka_unit_test(a_description_has_at_most_2000_operations),
		cmocka_unit_test(n06_operations_go_to_their_own_servers),
		cmocka_unit_test(a_server_of_its_own_is_told_beside_a_given_one),
		cmocka_unit_test(n06_bodies_of_text_and_bytes_are_one_argument),
		cmocka_unit_test(an_operation_refers_to_at_most_500_schemas),
		cmocka_unit_test(names_are_unique_and_fit_for_tools),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
