/* Definition documents: what is taken, what is refused, and where the refusal points (product.md 4). */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "proto/caps.h"
#include "registry/define.h"
#include "suite.h"

static int bind_any(const json_t *handler, struct arena *mem, const struct backend_ops **ret_ops,
		    const void **ret_plan, struct err *err)
{
	const char *type = NULL;
	int rc = jx_get_string(handler, "", "type", JX_REQUIRED, &type, err);

	if (rc == 0 && strcmp(type, "fake") != 0)
		rc = err_set(err, ERR_INVALID, "/type", "unknown handler type");
	if (rc == 0)
		*ret_plan = arena_strdup(mem, type);
	return rc;
}

static json_t *parse(const char *text)
{
	json_t *doc = NULL;
	struct err err;

	if (jx_parse(text, strlen(text), &doc, &err) < 0)
		fail_msg("%s: %s", err.where, err.msg);
	return doc;
}

#define PLAIN "'name':'t','description':'d','inputSchema':{'type':'object'},'handler':{'type':'fake'}"

/* JSON with ' for ", so that tests can be read. */
static char *quoted(const char *text)
{
	char *s = mem_strdup(text);

	for (char *p = s; *p; p++)
		if (*p == '\'')
			*p = '"';
	return s;
}

static int define(const char *text, struct define_item *ret, struct err *err)
{
	char *json = quoted(text);
	json_t *doc = parse(json);
	int rc = define_item(doc, bind_any, NULL, ret, err);

	json_decref(doc);
	free(json);
	return rc;
}

static void refused(const char *text, const char *where, const char *words)
{
	struct define_item d = { .text = NULL };
	struct err err = { .code = ERR_OK };
	int rc = define(text, &d, &err);

	if (rc >= 0)
		fail_msg("taken: %s", text);
	if (strcmp(err.where, where) != 0 || !strstr(err.msg, words))
		fail_msg("%s\n  at %s: %s\n  not at %s: %s", text, err.where, err.msg, where, words);
	define_free(&d);
}

static void hinted(const char *text, const char *hint)
{
	struct define_item d = { .text = NULL };
	struct err err = { .code = ERR_OK };

	assert_true(define(text, &d, &err) < 0);
	assert_string_equal(err.hint, hint);
}

static void taken(const char *text)
{
	struct define_item d = { .text = NULL };
	struct err err = { .code = ERR_OK };

	if (define(text, &d, &err) < 0)
		fail_msg("%s\n  at %s: %s", text, err.where, err.msg);
	define_free(&d);
}

static void whole_document_is_taken(void **state)
{
	struct define_item d;
	struct err err;

	assert_int_equal(define("{'kind':'tool','name':'get_weather','title':'Weather','description':'Now.\\nTwo lines.',"
				"'inputSchema':{'type':'object','properties':{'location':{'type':'string',"
				"'x-mcp-header':'Location'}},'required':['location']},"
				"'outputSchema':{'type':'object'},'annotations':{'readOnlyHint':true},"
				"'icons':[{'src':'https://example.org/i.png','sizes':['48x48'],'theme':'dark'}],"
				"'_meta':{'dev.example/x':1},'handler':{'type':'fake'},"
				"'limits':{'timeout':'1s','concurrency':8,'rate':'60/min','result':'16MiB'},"
				"'audit':{'level':'metadata'},'needs':{'client':['elicitation','sampling.tools']}}",
				&d, &err), 0);
	assert_string_equal(d.name, "get_weather");
	assert_memory_equal(d.text, "{\"name\":\"get_weather\",\"title\":", 29);
	assert_null(strstr(d.text, "\"kind\""));
	define_free(&d);
	assert_null(d.text);
}

static void digests_follow_meaning_not_spelling(void **state)
{
	struct define_item a, b, c, l;
	struct err err;

	assert_int_equal(define("{" PLAIN "}", &a, &err), 0);
	assert_int_equal(define("{'handler':{'type':'fake'},'inputSchema':{'type':'object'},'kind':'tool',"
				"'description':'d','name':'t'}", &b, &err), 0);
	assert_int_equal(define("{" PLAIN ",'limits':{'rate':'1/s'}}", &c, &err), 0);
	assert_int_equal(define("{" PLAIN ",'title':'T'}", &l, &err), 0);
	assert_memory_equal(a.digest, b.digest, 32);
	assert_memory_equal(a.list_digest, b.list_digest, 32);
	assert_memory_not_equal(a.digest, c.digest, 32);
	assert_memory_equal(a.list_digest, c.list_digest, 32);
	assert_memory_not_equal(a.list_digest, l.list_digest, 32);
	define_free(&a);
	define_free(&b);
	define_free(&c);
	define_free(&l);
}

/* MCP T-18 */
static void names_and_kinds_are_checked(void **state)
{
	refused("[]", "", "must be an object");
	refused("{'kind':'grant'," PLAIN "}", "/kind", "kind grant is no tool, prompt or resource");
	refused("{'kind':'tol'," PLAIN "}", "/kind", "unknown kind tol");
	hinted("{'kind':'tol'," PLAIN "}", "did you mean tool?");
	refused("{'description':'d','inputSchema':{'type':'object'},'handler':{'type':'fake'}}", "/name", "is missing");
	refused("{'name':'a b','description':'d','inputSchema':{'type':'object'},'handler':{'type':'fake'}}", "/name",
		"is no tool name");
	refused("{'name':5,'description':'d','inputSchema':{'type':'object'},'handler':{'type':'fake'}}", "/name",
		"must be a string");
	refused("{" PLAIN ",'inputschema':{}}", "/inputschema", "");
	hinted("{" PLAIN ",'limit':{}}", "did you mean limits?");
}

static void words_for_models_are_checked(void **state)
{
	refused("{'name':'t','inputSchema':{'type':'object'},'handler':{'type':'fake'}}", "/description", "is missing");
	refused("{'name':'t','description':' \\n','inputSchema':{'type':'object'},'handler':{'type':'fake'}}",
		"/description", "is empty");
	refused("{'name':'t','description':'a\\u202eb','inputSchema':{'type':'object'},'handler':{'type':'fake'}}",
		"/description", "U+202E");
	refused("{'name':'t','description':'a\\u001b[2J','inputSchema':{'type':'object'},'handler':{'type':'fake'}}",
		"/description", "U+001B");
	refused("{'name':'t','description':'a\\u0085','inputSchema':{'type':'object'},'handler':{'type':'fake'}}",
		"/description", "U+0085");
	refused("{'name':'t','description':'x\\udb40\\udc41','inputSchema':{'type':'object'},'handler':{'type':'fake'}}",
		"/description", "U+E0041");
	refused("{'name':'t','description':'d','inputSchema':{'type':'object','properties':{'a/b':{'type':'string',"
		"'description':'\\u2066'}}},'handler':{'type':'fake'}}", "/inputSchema/properties/a~1b/description", "U+2066");
	refused("{" PLAIN ",'annotations':{'readOnly':true}}", "/annotations/readOnly", "");
	refused("{" PLAIN ",'annotations':{'readOnlyHint':'yes'}}", "/annotations/readOnlyHint", "must be true or false");
	refused("{" PLAIN ",'annotations':{'title':'\\u0007'}}", "/annotations/title", "U+0007");
	taken("{" PLAIN ",'title':'\\u00dcber \\ud83d\\ude00'}");
	taken("{" PLAIN ",'title':'\\u26a0\\ufe0f'}");
	refused("{" PLAIN ",'title':'a\\u200bb'}", "/title", "U+200B");
	refused("{" PLAIN ",'title':'a\\ufe0f'}", "/title", "U+FE0F");
}

static void description_at_its_limit_and_beyond(void **state)
{
	static const char form[] = "{'name':'t','description':'%s','inputSchema':{'type':'object'},'handler':{'type':'fake'}}";

	for (int n = 16384; n <= 16385; n++) {
		char *words = mem_alloc((size_t)n + 1), *text;

		memset(words, 'x', (size_t)n);
		words[n] = '\0';
		text = mem_printf(form, words);
		if (n == 16384)
			taken(text);
		else
			refused(text, "/description", "more than 16384");
		free(text);
		free(words);
	}
}

/* MCP I-03, I-04 */
static void icons_are_loaded_from_safe_places_only(void **state)
{
	taken("{" PLAIN ",'icons':[{'src':'data:image/png;base64,AA=='}]}");
	refused("{" PLAIN ",'icons':[{'src':'javascript:alert(1)'}]}", "/icons/0/src", "must begin with");
	refused("{" PLAIN ",'icons':[{'src':'https://a/'},{'src':'file:///etc'}]}", "/icons/1/src", "must begin with");
	refused("{" PLAIN ",'icons':[{'mimeType':'image/png'}]}", "/icons/0/src", "is missing");
	refused("{" PLAIN ",'icons':[{'src':'https://a/','theme':'blue'}]}", "/icons/0/theme", "light or dark");
	refused("{" PLAIN ",'icons':[{'src':'https://a/','sizes':[48]}]}", "/icons/0/sizes/0", "must be a string");
	refused("{" PLAIN ",'icons':['https://a/']}", "/icons/0", "must be an object");
}

/* MCP T-16, T-11 */
static void schemas_are_objects_of_type_object(void **state)
{
	refused("{'name':'t','description':'d','handler':{'type':'fake'}}", "/inputSchema", "is missing");
	refused("{'name':'t','description':'d','inputSchema':true,'handler':{'type':'fake'}}", "/inputSchema",
		"must be an object");
	refused("{'name':'t','description':'d','inputSchema':null,'handler':{'type':'fake'}}", "/inputSchema",
		"must be an object");
	refused("{'name':'t','description':'d','inputSchema':{},'handler':{'type':'fake'}}", "/inputSchema/type", "object");
	refused("{'name':'t','description':'d','inputSchema':{'type':'array'},'handler':{'type':'fake'}}",
		"/inputSchema/type", "object");
	refused("{'name':'t','description':'d','inputSchema':{'type':'object','properties':{'a':{'type':'strin'}}},"
		"'handler':{'type':'fake'}}", "/inputSchema/properties/a/type", "");
	refused("{" PLAIN ",'outputSchema':{'minimum':'x'}}", "/outputSchema/minimum", "");
	refused("{" PLAIN ",'outputSchema':[]}", "/outputSchema", "must be an object");
}

static void handler_block_is_bound(void **state)
{
	refused("{'name':'t','description':'d','inputSchema':{'type':'object'}}", "/handler", "is missing");
	refused("{'name':'t','description':'d','inputSchema':{'type':'object'},'handler':{}}", "/handler/type", "is missing");
	refused("{'name':'t','description':'d','inputSchema':{'type':'object'},'handler':{'type':'x'}}", "/handler/type",
		"unknown handler type");
}

static void limits_have_bounds_and_units(void **state)
{
	taken("{" PLAIN ",'limits':{'timeout':'1h'}}");
	refused("{" PLAIN ",'limits':{'timeout':'999ms'}}", "/limits/timeout", "from 1s to 1h");
	refused("{" PLAIN ",'limits':{'timeout':'61m'}}", "/limits/timeout", "from 1s to 1h");
	refused("{" PLAIN ",'limits':{'timeout':10}}", "/limits/timeout", "must be a string");
	refused("{" PLAIN ",'limits':{'timeout':'10'}}", "/limits/timeout", "is no duration");
	refused("{" PLAIN ",'limits':{'concurrency':0}}", "/limits/concurrency", "between 1 and 10000");
	refused("{" PLAIN ",'limits':{'concurrency':10001}}", "/limits/concurrency", "between 1 and 10000");
	refused("{" PLAIN ",'limits':{'rate':'60'}}", "/limits/rate", "is no rate");
	refused("{" PLAIN ",'limits':{'result':'17MiB'}}", "/limits/result", "16MiB");
	refused("{" PLAIN ",'limits':{'result':'0'}}", "/limits/result", "1 byte");
	refused("{" PLAIN ",'limits':{'memory':'1MiB'}}", "/limits/memory", "");
}

static void what_is_not_there_yet_is_refused_by_name(void **state)
{
	refused("{" PLAIN ",'audit':{'level':'none'}}", "/audit/level", "unknown audit level none");
	refused("{" PLAIN ",'audit':{'redact':'/password'}}", "/audit/redact", "must be an array");
	refused("{" PLAIN ",'audit':{'redact':['/a','password']}}", "/audit/redact/1", "must be a JSON pointer");
	refused("{" PLAIN ",'audit':{'redact':['/a~2']}}", "/audit/redact/0", "must be a JSON pointer");
	refused("{" PLAIN ",'audit':{'redact':[7]}}", "/audit/redact/0", "must be a JSON pointer");
	refused("{" PLAIN ",'needs':{'client':['elicitations']}}", "/needs/client/0", "unknown client capability");
	hinted("{" PLAIN ",'needs':{'client':['elicitations']}}", "did you mean elicitation?");
	refused("{" PLAIN ",'needs':{'client':['roots',7]}}", "/needs/client/1", "must be a string");
	refused("{" PLAIN ",'needs':{'server':[]}}", "/needs/server", "");
}

#define SCHEMA(s) "{'name':'t','description':'d','handler':{'type':'fake'},'inputSchema':{'type':'object'," s "}}"

/* MCP T-41, T-42 */
static void header_parameters_stand_where_clients_find_them(void **state)
{
	taken(SCHEMA("'properties':{'a':{'type':'object','properties':{'b':{'type':'integer','x-mcp-header':'B'}}}}"));
	taken(SCHEMA("'properties':{'x-mcp-header':{'type':'string'}}"));
	taken(SCHEMA("'properties':{'a':{'const':{'x-mcp-header':1}}}"));
	refused(SCHEMA("'x-mcp-header':'A'"), "/inputSchema/x-mcp-header", "needs type string");
	refused(SCHEMA("'properties':{'a':{'type':'number','x-mcp-header':'A'}}"), "/inputSchema/properties/a/x-mcp-header",
		"needs type string");
	refused(SCHEMA("'properties':{'a':{'x-mcp-header':'A'}}"), "/inputSchema/properties/a/x-mcp-header",
		"needs type string");
	refused(SCHEMA("'properties':{'a':{'type':'array','items':{'type':'string','x-mcp-header':'A'}}}"),
		"/inputSchema/properties/a/items/x-mcp-header", "properties alone");
	refused(SCHEMA("'anyOf':[{'properties':{'a':{'type':'string','x-mcp-header':'A'}}}]"),
		"/inputSchema/anyOf/properties/a/x-mcp-header", "properties alone");
	refused(SCHEMA("'$defs':{'s':{'type':'string','x-mcp-header':'A'}}"), "/inputSchema/$defs/s/x-mcp-header",
		"properties alone");
	refused(SCHEMA("'properties':{'a':{'type':'string','x-mcp-header':'A'},'b':{'type':'string','x-mcp-header':'a'}}"),
		"/inputSchema/properties/b/x-mcp-header", "used twice");
	refused(SCHEMA("'properties':{'a':{'type':'string','x-mcp-header':''}}"), "/inputSchema/properties/a/x-mcp-header",
		"must be a header name");
	refused(SCHEMA("'properties':{'a':{'type':'string','x-mcp-header':'a b'}}"), "/inputSchema/properties/a/x-mcp-header",
		"must be a header name");
	refused(SCHEMA("'properties':{'a':{'type':'string','x-mcp-header':3}}"), "/inputSchema/properties/a/x-mcp-header",
		"must be a header name");
}

static void redacted_places_at_the_limit_and_beyond(void **state)
{
	for (int n = REG_REDACT_MAX; n <= REG_REDACT_MAX + 1; n++) {
		struct str text = STR_INIT;

		str_puts(&text, "{" PLAIN ",'audit':{'redact':['/a~1b'");
		for (int i = 1; i < n; i++)
			str_printf(&text, ",'/%d'", i);
		str_puts(&text, "]}}");
		if (n <= REG_REDACT_MAX)
			taken(text.p);
		else
			refused(text.p, "/audit/redact", "more than 64 pointers");
		str_fini(&text);
	}
}

static void compiled_definition_knows_its_limits(void **state)
{
	char *text = quoted("{'name':'t','description':'d','inputSchema':{'type':'object','properties':{'a':{'type':'object',"
			    "'properties':{'b':{'type':'boolean','x-mcp-header':'B'}}}}},'handler':{'type':'fake'},"
			    "'outputSchema':{'type':'array'},'limits':{'timeout':'2s','concurrency':3,'rate':'5/s',"
			    "'result':'2KiB'},'needs':{'client':['elicitation']}}");
	json_t *doc = parse(text);
	struct arena *mem = arena_new(1 << 20);
	struct reg_compiled c;
	struct err err;

	assert_int_equal(define_compile(doc, REG_TOOL, bind_any, NULL, mem, &c, &err), 0);
	assert_non_null(c.input);
	assert_non_null(c.output);
	assert_int_equal(c.output_form, REG_OUTPUT_WRAPPED);
	assert_int_equal(c.timeout_ms, 2000);
	assert_int_equal(c.concurrency, 3);
	assert_int_equal(c.rate.count, 5);
	assert_int_equal(c.rate.per_s, 1);
	assert_int_equal(c.result_max, 2048);
	assert_int_equal(c.needs_caps, CAP_ELICITATION_FORM);
	assert_int_equal(c.nparams, 1);
	assert_string_equal(c.params[0].header, "B");
	assert_string_equal(c.params[0].pointer, "/a/b");
	assert_int_equal(c.params[0].type, REG_PARAM_BOOLEAN);
	assert_string_equal((const char *)c.plan, "fake");
	define_compiled_fini(&c);
	arena_free(&mem);
	json_decref(doc);
	free(text);
}

static void defaults_are_the_documented_ones(void **state)
{
	char *text = quoted("{" PLAIN "}");
	json_t *doc = parse(text);
	struct arena *mem = arena_new(1 << 20);
	struct reg_compiled c;
	struct err err;

	assert_int_equal(define_compile(doc, REG_TOOL, bind_any, NULL, mem, &c, &err), 0);
	assert_int_equal(c.timeout_ms, 30000);
	assert_int_equal(c.concurrency, 0);
	assert_int_equal(c.rate.count, 0);
	assert_int_equal(c.result_max, 1 << 20);
	assert_int_equal(c.output_form, REG_OUTPUT_NONE);
	assert_null(c.output);
	define_compiled_fini(&c);
	arena_free(&mem);
	json_decref(doc);
	free(text);
}

static void count_warning(void *arg, const char *pointer, const char *text)
{
	json_array_append_new(arg, json_string(pointer));
}

/* MCP B-16, B-31, B-32 */
static void lint_tells_what_hosts_choke_on(void **state)
{
	char *text = quoted("{'name':'a.b','description':'d','inputSchema':{'type':'object'},"
			    "'outputSchema':{'type':'array'},'handler':{'type':'fake'}}");
	json_t *doc = parse(text), *seen = json_array(), *v;
	bool name = false, output = false;
	size_t i;

	define_lint(doc, count_warning, seen);
	json_array_foreach(seen, i, v) {
		name = name || strcmp(json_string_value(v), "/name") == 0;
		output = output || strcmp(json_string_value(v), "/outputSchema") == 0;
	}
	assert_true(name);
	assert_true(output);
	json_decref(seen);
	json_decref(doc);
	free(text);
}

SINGLE_THREAD_SUITE(define)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_document_is_taken),
		cmocka_unit_test(digests_follow_meaning_not_spelling),
		cmocka_unit_test(names_and_kinds_are_checked),
		cmocka_unit_test(words_for_models_are_checked),
		cmocka_unit_test(description_at_its_limit_and_beyond),
		cmocka_unit_test(icons_are_loaded_from_safe_places_only),
		cmocka_unit_test(schemas_are_objects_of_type_object),
		cmocka_unit_test(handler_block_is_bound),
		cmocka_unit_test(limits_have_bounds_and_units),
		cmocka_unit_test(what_is_not_there_yet_is_refused_by_name),
		cmocka_unit_test(header_parameters_stand_where_clients_find_them),
		cmocka_unit_test(redacted_places_at_the_limit_and_beyond),
		cmocka_unit_test(compiled_definition_knows_its_limits),
		cmocka_unit_test(defaults_are_the_documented_ones),
		cmocka_unit_test(lint_tells_what_hosts_choke_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
