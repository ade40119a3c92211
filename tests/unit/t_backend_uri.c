/* URL templates: the examples of RFC 6570 as far as level 3 goes, and where arguments must not get to. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../src/handlers/http_int.h"
#include "backend_run.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "suite.h"

#define BASE "https://h.example"

static int expand(const char *template, const char *args, struct str *out, struct err *err)
{
	struct arena *mem = arena_new(1 << 20);
	const struct uri_tpl *t = NULL;
	struct url base;
	json_t *tree = NULL;

	*err = (struct err){ 0 };
	int rc = uri_compile(template, "/url", mem, &t, &base, err);
	if (rc == 0) {
		assert_int_equal(jx_parse(args, strlen(args), &tree, NULL), 0);
		const struct backend_req req = { .args = tree, .args_text = args, .args_len = strlen(args) };
		str_reset(out);
		rc = uri_expand(t, &req, out, err);
		json_decref(tree);
	} else {
		assert_string_equal(err->where, "/url");
	}
	arena_free(&mem);
	return rc;
}

struct good { const char *template, *args, *want; };

static void expect(const struct good *list, size_t n)
{
	struct str out = STR_INIT;

	for (size_t i = 0; i < n; i++) {
		char *template = mem_printf(BASE "%s", list[i].template);
		struct err err;
		if (expand(template, list[i].args, &out, &err) < 0)
			fail_msg("%s: %s", template, err.msg);
		if (strcmp(str_text(&out) + strlen(BASE), list[i].want) != 0)
			fail_msg("%s: %s instead of %s", template, str_text(&out), list[i].want);
		free(template);
	}
	str_fini(&out);
}

/* The variables of RFC 6570 1.2. */
#define VARS "{\"var\":\"value\",\"hello\":\"Hello World!\",\"empty\":\"\",\"path\":\"/foo/bar\",\"x\":\"1024\",\"y\":\"768\"}"

static void examples_of_the_rfc_expand(void **state)
{
	static const struct good list[] = {
		{ "/{var}", VARS, "/value" },
		{ "/{hello}", VARS, "/Hello%20World%21" },
		{ "/map?{x,y}", VARS, "/map?1024,768" },
		{ "/{x,hello,y}", VARS, "/1024,Hello%20World%21,768" },
		{ "/X{.var}", VARS, "/X.value" },
		{ "/X{.x,y}", VARS, "/X.1024.768" },
		{ "{/var}", VARS, "/value" },
		{ "{/var,x}/here", VARS, "/value/1024/here" },
		{ "/{;x,y}", VARS, "/;x=1024;y=768" },
		{ "/{;x,y,empty}", VARS, "/;x=1024;y=768;empty" },
		{ "{?x,y}", VARS, "?x=1024&y=768" },
		{ "/{?x,y,empty}", VARS, "/?x=1024&y=768&empty=" },
		{ "/?fixed=yes{&x}", VARS, "/?fixed=yes&x=1024" },
		{ "/?a=b{&x,y,empty}", VARS, "/?a=b&x=1024&y=768&empty=" },
		{ "/{?undef,x}", VARS, "/?x=1024" },
		{ "/p{?undef}", VARS, "/p" },
		{ "/p?a{&undef}", VARS, "/p?a" },
		{ "/p{/undef,x}", VARS, "/p/1024" },
		{ "/p{;undef}{.undef}", VARS, "/p" },
	};
	expect(list, NELEMS(list));
}

static void lists_are_joined_or_repeated(void **state)
{
	static const struct good list[] = {
		{ "/{?t}", "{\"t\":[\"a\",\"b c\"]}", "/?t=a,b%20c" },
		{ "/{?t*}", "{\"t\":[\"a\",\"b c\",3,true]}", "/?t=a&t=b%20c&t=3&t=true" },
		{ "/{?t*,u}", "{\"t\":[\"a\",\"\"],\"u\":1}", "/?t=a&t=&u=1" },
		{ "/{t}", "{\"t\":[1,2]}", "/1,2" },
		{ "{/t*}", "{\"t\":[1,2]}", "/1/2" },
		{ "/p{?t}", "{\"t\":[]}", "/p" },
		{ "/p{;t*}", "{\"t\":[\"a\",\"\"]}", "/p;t=a;t" },
	};
	expect(list, NELEMS(list));
}

static void values_keep_their_spelling(void **state)
{
	static const struct good list[] = {
		{ "/{n}", "{\"n\":1.50}", "/1.50" },
		{ "/{n}", "{\"n\":1e2}", "/1e2" },
		{ "/{n}", "{\"n\":-9223372036854775808}", "/-9223372036854775808" },
		{ "/{?b}", "{\"b\":false}", "/?b=false" },
		{ "/{user-id}{?a.b,c_d}", "{\"user-id\":\"x\",\"a.b\":1,\"c_d\":2}", "/x?a.b=1&c_d=2" },
		{ "/p{?n}", "{\"n\":null}", "/p" },
	};
	expect(list, NELEMS(list));
}

/* SEC S-708: nothing of an argument is syntax. */
static void arguments_are_encoded(void **state)
{
	static const struct good list[] = {
		{ "/{a}/end", "{\"a\":\"../x?y#z\"}", "/..%2Fx%3Fy%23z/end" },
		{ "/{a}", "{\"a\":\"%2e%2e\"}", "/%252e%252e" },
		{ "/{a}", "{\"a\":\"a\\r\\nHost: b\"}", "/a%0D%0AHost%3A%20b" },
		{ "/{a}", "{\"a\":\"\\u00e9\\\\@\"}", "/%C3%A9%5C%40" },
		{ "/{?a}", "{\"a\":\"1&admin=true\"}", "/?a=1%26admin%3Dtrue" },
		{ "/{+a}", "{\"a\":\"dir/f x?y&z=%41;p:@\"}", "/dir/f%20x%3Fy%26z%3D%2541%3Bp%3A%40" },
	};
	expect(list, NELEMS(list));
}

static void what_an_argument_must_not_be_is_refused(void **state)
{
	static const struct { const char *template, *args, *msg; } list[] = {
		{ "/{a}", "{}", "argument a is missing" },
		{ "/{a}", "{\"a\":null}", "argument a is missing" },
		{ "/{a}", "{\"a\":[]}", "argument a is missing" },
		{ "/{a}/x", "{\"a\":\"\"}", "argument a is empty" },
		{ "/{+a}", "{\"a\":\"\"}", "argument a is empty" },
		{ "/{a}", "{\"a\":{}}", "has elements" },
		{ "/{?a}", "{\"a\":{\"b\":1}}", "has elements" },
		{ "/{?a}", "{\"a\":[[1]]}", "has elements" },
		{ "/{?a}", "{\"a\":[null]}", "has elements" },
		{ "/{a}", "{\"a\":\"x\\u0000y\"}", "U+0000" },
		{ "/{?a}", "{\"a\":[\"x\\u0000y\"]}", "U+0000" },
	};
	struct str out = STR_INIT;

	for (size_t i = 0; i < NELEMS(list); i++) {
		char *template = mem_printf(BASE "%s", list[i].template);
		struct err err;
		if (expand(template, list[i].args, &out, &err) != ERR_TOOL || !strstr(err.msg, list[i].msg))
			fail_msg("%s %s: %s", template, list[i].args, err.msg);
		free(template);
	}
	str_fini(&out);
}

static void templates_that_let_arguments_out_are_refused(void **state)
{
	static const char *const list[] = {
		"", "{url}", "{+url}", "{scheme}://h.example/", "https://{host}/", "https://{host}.example/", "https://h.example{a}",
		"https://h.example{+a}", "https://h.example{.a}", "https://h.example{;a}", "https://h.example:{port}/",
		"https://h.example:1{port}/", "https://h.example{&a}", "https://{user}@h.example/", "https://[{a}]/",
		"https://h.example/{#a}", "https://h.example/{=a}", "https://h.example/{!a}", "https://h.example/{|a}",
		"https://h.example/{a:3}", "https://h.example/{}", "https://h.example/{,a}", "https://h.example/{a,}",
		"https://h.example/{a", "https://h.example/a}", "https://h.example/{{a}}", "https://h.example/{a b}",
		"https://h.example/{a/b}", "https://h.example/{a**}", "https://h.example/{secret:x}", "https://h.example/#{a}",
		"https://h.example/../{a}", "https://h.example/ {a}", "https://h.example/%{a}", "https://h.example/%2{a}",
		"https://h.example/?a{?b}", "https://h.example/?a{/b}", "https://h.example/?a{+b}", "https://h.example/{&b}",
		"https://h.example/{?a}{?b}", "ftp://h.example/{a}", "https://h.example/\xc3\xa9",
		"https://h{/a}.example", "https://h{/a}{?b}:8443/", "https://h{?a}example/x",
	};
	struct str out = STR_INIT;

	for (size_t i = 0; i < NELEMS(list); i++) {
		struct err err;
		if (expand(list[i], "{}", &out, &err) != ERR_INVALID || !err.msg[0])
			fail_msg("accepted: %s", list[i]);
	}
	str_fini(&out);
}

static void limits_of_a_template(void **state)
{
	char text[URL_MAX + 2];
	struct str many = STR_INIT, out = STR_INIT;
	struct err err;

	memset(text, 'a', sizeof(text));
	text[URL_MAX + 1] = '\0';
	memcpy(text, "https://a/", 10);
	assert_int_equal(expand(text, "{}", &out, &err), ERR_LIMIT);
	text[URL_MAX] = '\0';
	assert_int_equal(expand(text, "{}", &out, &err), 0);
	str_puts(&many, BASE "/{?a");
	for (int i = 1; i < 64; i++)
		str_puts(&many, ",a");
	size_t at = many.len;
	str_puts(&many, "}");
	assert_int_equal(expand(str_text(&many), "{}", &out, &err), 0);
	many.p[at] = ',';
	str_puts(&many, "a}");
	assert_int_equal(expand(str_text(&many), "{}", &out, &err), ERR_LIMIT);
	str_fini(&many);
	str_fini(&out);
}

SINGLE_THREAD_SUITE(uri)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(examples_of_the_rfc_expand),
		cmocka_unit_test(lists_are_joined_or_repeated),
		cmocka_unit_test(values_keep_their_spelling),
		cmocka_unit_test(arguments_are_encoded),
		cmocka_unit_test(what_an_argument_must_not_be_is_refused),
		cmocka_unit_test(templates_that_let_arguments_out_are_refused),
		cmocka_unit_test(limits_of_a_template),
	};
	return cmocka_run_group_tests_name("URL templates", tests, NULL, NULL);
}
