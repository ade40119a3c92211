/* Parsing into trees, writing them, comparing them, reading members. */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/direct.h"
#include "json_text.h"
#include "suite.h"

static int parse_rc(const char *text)
{
	json_t *v = NULL;
	int rc = jx_parse(text, strlen(text), &v, NULL);

	json_decref(v);
	return rc;
}

static void parse_replaces_lone_surrogates_b33(void **state)
{
	static const struct { const char *text, *plain; } rows[] = {
		{ "\"\\ud800\"", "\xef\xbf\xbd" }, { "\"\\uDFFF\"", "\xef\xbf\xbd" }, { "\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80" },
		{ "\"\\ud800\\ud83d\\ude00x\"", "\xef\xbf\xbd\xf0\x9f\x98\x80x" }, { "\"\\ud800\\u0041\"", "\xef\xbf\xbd" "A" },
		{ "\"\\\\ud800\"", "\\ud800" }, { "\"\\ud800\\\\\"", "\xef\xbf\xbd\\" }, { "\"\\ud800\\n\"", "\xef\xbf\xbd\n" },
		{ "\"\\ufffd\\udc00\"", "\xef\xbf\xbd\xef\xbf\xbd" }, { "\"\\udc00\\ud800\"", "\xef\xbf\xbd\xef\xbf\xbd" },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		json_t *v = parse(rows[i].text);

		assert_string_equal(json_string_value(v), rows[i].plain);
		json_decref(v);
	}
	json_t *v = parse("{\"\\ud800\":1}");

	assert_non_null(json_object_get(v, "\xef\xbf\xbd"));
	json_decref(v);
}

static void parse_keeps_nul_in_values_and_refuses_it_in_names_s204(void **state)
{
	json_t *v = parse("\"a\\u0000b\"");

	assert_int_equal(json_string_length(v), 3);
	assert_memory_equal(json_string_value(v), "a\0b", 3);
	json_decref(v);
	assert_int_equal(parse_rc("{\"a\\u0000\":1}"), ERR_INVALID);
}

static void parse_accepts_any_root_and_the_deepest_nesting(void **state)
{
	json_t *v = parse(" null ");
	char deep[2 * JX_DEPTH_MAX + 1] = { 0 };

	assert_true(json_is_null(v));
	json_decref(v);
	memset(deep, '[', JX_DEPTH_MAX);
	memset(deep + JX_DEPTH_MAX, ']', JX_DEPTH_MAX);
	json_decref(parse(deep));
	assert_int_equal(parse_rc("{\"a\":1,\"\\u0061\":1}"), ERR_CONFLICT);
}

/* Where this fails all still works, but validation takes twice as long: json/direct.h has to learn a layout. */
static void jansson_is_laid_out_as_known(void **state)
{
	assert_true(jx_direct_fits());
}

typedef void write_fn(const json_t *v, struct str *out);

static void writes(write_fn *write, const char *text, const char *expected)
{
	struct str out = STR_INIT;
	json_t *v = parse(text);

	write(v, &out);
	assert_string_equal(str_text(&out), expected);
	str_fini(&out);
	json_decref(v);
}

static void write_is_compact_and_keeps_order_and_kind(void **state)
{
	writes(jx_write, "{\"b\": [1, 2.0, 0.1, 12.30, 1e2, true, false, null], \"a\": {}, \"c\":[]}",
	       "{\"b\":[1,2.0,0.1,12.3,100.0,true,false,null],\"a\":{},\"c\":[]}");
	writes(jx_write, "[1e21, 1e-7, 123456789012345680000.0, 5e-324, -1.5]",
	       "[1e+21,1e-7,123456789012345680000.0,5e-324,-1.5]");
}

static void write_escapes_as_rfc8785(void **state)
{
	writes(jx_write, "\"\\u0000\\u0007\\b\\t\\n\\u000b\\f\\r\\u001f\\\"\\\\\\/\\u007f\\u20ac\\ud83d\\ude00\"",
	       "\"\\u0000\\u0007\\b\\t\\n\\u000b\\f\\r\\u001f\\\"\\\\/\x7f\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

static void write_string_replaces_bytes_that_are_not_utf8(void **state)
{
	struct str out = STR_INIT;

	jx_write_string(&out, "a\xff" "b\xe2\x82\"", 6);
	assert_string_equal(out.p, "\"a\xef\xbf\xbd" "b\xef\xbf\xbd\xef\xbf\xbd\\\"\"");
	str_reset(&out);
	jx_write_stringz(&out, "");
	assert_string_equal(out.p, "\"\"");
	str_fini(&out);
}

static void write_pretty_indents_by_two(void **state)
{
	writes(jx_write_pretty, "{\"a\":[1,{}],\"b\":{\"c\":[]}}",
	       "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": {\n    \"c\": []\n  }\n}");
}

static void canon_sorts_members_and_shortens_numbers(void **state)
{
	writes(jx_write_canon, "{\"b\": 1.0, \"a\": {\"z\": 1e3, \"\": -0.0}, \"B\": [0.10, 100E-2]}",
	       "{\"B\":[0.1,1],\"a\":{\"\":0,\"z\":1000},\"b\":1}");
}

static void equal(const char *a, const char *b, bool expected)
{
	json_t *x = parse(a), *y = parse(b);

	if (jx_equal(x, y) != expected || jx_equal(y, x) != expected)
		fail_msg("%s and %s", a, b);
	json_decref(x);
	json_decref(y);
}

static void equality_is_that_of_json_schema(void **state)
{
	equal("1", "1.0", true);
	equal("[1,{\"a\":2.0,\"b\":null}]", "[1.0,{\"b\":null,\"a\":2}]", true);
	equal("9007199254740993", "9007199254740992.0", false);
	equal("9223372036854775807", "9223372036854775808.0", false);
	equal("-9223372036854775808", "-9223372036854775808.0", true);
	equal("0", "-0.0", true);
	equal("1", "true", false);
	equal("0", "false", false);
	equal("null", "false", false);
	equal("\"a\\u0000b\"", "\"a\\u0000c\"", false);
	equal("\"a\"", "\"a\"", true);
	equal("{\"a\":1}", "{\"a\":1,\"b\":1}", false);
	equal("{\"a\":1}", "{\"b\":1}", false);
	equal("[1,2]", "[2,1]", false);
	equal("[]", "{}", false);
}

static void pointers_follow_rfc6901(void **state)
{
	json_t *v = parse("{\"foo\":[\"bar\",\"baz\"],\"\":0,\"a/b\":1,\"m~n\":8,\"~1\":9}");

	assert_ptr_equal(jx_at(v, ""), v);
	assert_string_equal(json_string_value(jx_at(v, "/foo/1")), "baz");
	assert_int_equal(json_integer_value(jx_at(v, "/")), 0);
	assert_non_null(jx_at(v, "/"));
	assert_int_equal(json_integer_value(jx_at(v, "/a~1b")), 1);
	assert_int_equal(json_integer_value(jx_at(v, "/m~0n")), 8);
	assert_int_equal(json_integer_value(jx_at(v, "/~01")), 9);
	static const char *const nowhere[] = { "foo", "/foo/2", "/foo/01", "/foo/-", "/foo/", "/foo/1x", "/foo/bar", "/~2",
		"/foo/0/x", "/foo/99999999999999999999999999", "/x", "/m~" };

	for (size_t i = 0; i < NELEMS(nowhere); i++)
		assert_null(jx_at(v, nowhere[i]));
	json_decref(v);
}

static void pointer_add_escapes(void **state)
{
	struct str p = STR_INIT;

	jx_pointer_add(&p, "a/b~c");
	jx_pointer_add(&p, "");
	jx_pointer_add(&p, "~");
	assert_string_equal(p.p, "/a~1b~0c//~0");
	str_fini(&p);
}

static void getters_refuse_wrong_types_and_say_where(void **state)
{
	json_t *v = parse("{\"s\":\"x\",\"n\":\"a\\u0000b\",\"i\":5,\"b\":true,\"o\":{},\"a\":[],\"z\":null,\"r\":1.5}");
	const char *s = "untouched";
	struct err e;
	int64_t i = -1;
	bool b = false;
	json_t *o = NULL;

	assert_int_equal(jx_get_string(v, "/at", "s", JX_REQUIRED, &s, &e), 0);
	assert_string_equal(s, "x");
	assert_int_equal(jx_get_string(v, "/at", "n", JX_REQUIRED, &s, &e), ERR_INVALID);
	assert_string_equal(s, "x");
	assert_int_equal(jx_get_string(v, "/at", "i", JX_OPTIONAL, &s, &e), ERR_INVALID);
	assert_string_equal(e.where, "/at/i");
	assert_string_equal(e.msg, "must be a string, is an integer");
	assert_int_equal(jx_get_string(v, "", "a/b", JX_REQUIRED, &s, &e), ERR_INVALID);
	assert_string_equal(e.where, "/a~1b");
	assert_string_equal(e.msg, "is missing");
	assert_int_equal(jx_get_string(v, "", "none", JX_OPTIONAL, &s, &e), 0);
	assert_string_equal(s, "x");
	assert_int_equal(jx_get_bool(v, "", "b", JX_REQUIRED, &b, &e), 0);
	assert_true(b);
	assert_int_equal(jx_get_bool(v, "", "z", JX_OPTIONAL, &b, &e), ERR_INVALID);
	assert_string_equal(e.msg, "must be true or false, is null");
	assert_int_equal(jx_get_object(v, "", "o", JX_REQUIRED, &o, &e), 0);
	assert_true(json_is_object(o));
	assert_int_equal(jx_get_object(v, "", "a", JX_REQUIRED, &o, &e), ERR_INVALID);
	assert_string_equal(e.msg, "must be an object, is an array");
	assert_int_equal(jx_get_array(v, "", "a", JX_REQUIRED, &o, &e), 0);
	assert_true(json_is_array(o));
	assert_int_equal(jx_get_array(v, "", "s", JX_REQUIRED, &o, &e), ERR_INVALID);
	assert_int_equal(jx_get_int(v, "", "r", JX_REQUIRED, 0, 9, &i, &e), ERR_INVALID);
	assert_string_equal(e.msg, "must be an integer, is a number");
	assert_int_equal(i, -1);
	json_decref(v);
}

static void get_int_limits(void **state)
{
	json_t *v = parse("{\"i\":5}");
	struct err e;
	int64_t i = -1;

	assert_int_equal(jx_get_int(v, "", "i", JX_REQUIRED, 5, 5, &i, &e), 0);
	assert_int_equal(i, 5);
	assert_int_equal(jx_get_int(v, "", "i", JX_REQUIRED, 6, 9, &i, &e), ERR_INVALID);
	assert_int_equal(jx_get_int(v, "", "i", JX_REQUIRED, 0, 4, &i, &e), ERR_INVALID);
	assert_string_equal(e.msg, "must be between 0 and 4, is 5");
	json_decref(v);
}

static void only_refuses_unknown_members_with_a_hint(void **state)
{
	static const char *const known[] = { "name", "description", "handler" };
	json_t *v = parse("{\"name\":1,\"handler\":2}"), *w = parse("{\"name\":1,\"descripton\":2}"), *x = parse("{\"zzz\":2}");
	struct err e;

	assert_int_equal(jx_only(v, "", known, NELEMS(known), &e), 0);
	assert_int_equal(jx_only(w, "/t", known, NELEMS(known), &e), ERR_INVALID);
	assert_string_equal(e.where, "/t/descripton");
	assert_string_equal(e.hint, "did you mean description?");
	assert_int_equal(jx_only(x, "", known, NELEMS(known), &e), ERR_INVALID);
	assert_string_equal(e.hint, "");
	json_decref(v);
	json_decref(w);
	json_decref(x);
}

struct seen { struct str text; };

static void note_difference(void *arg, const char *pointer, const json_t *a, const json_t *b)
{
	struct seen *seen = arg;

	str_printf(&seen->text, "%s%s%s\n", a ? b ? "~" : "-" : "+", *pointer ? "" : "/", pointer);
}

static void assert_differs(const char *a, const char *b, const char *places)
{
	struct seen seen = { STR_INIT };
	json_t *x = NULL, *y = NULL;

	assert_int_equal(jx_parse(a, strlen(a), &x, NULL), 0);
	assert_int_equal(jx_parse(b, strlen(b), &y, NULL), 0);
	jx_diff(x, y, note_difference, &seen);
	assert_string_equal(str_text(&seen.text), places);
	str_fini(&seen.text);
	json_decref(x);
	json_decref(y);
}

static void a_difference_is_named_where_it_begins(void **state)
{
	assert_differs("{\"a\":1,\"b\":[1,{\"c\":2}]}", "{\"b\":[1.0,{\"c\":2}],\"a\":1}", "");
	assert_differs("{\"a\":1,\"b\":2,\"c/d\":{\"e\":true}}", "{\"b\":3,\"c/d\":{\"e\":null},\"f\":[]}", "-/a\n~/b\n~/c~1d/e\n+/f\n");
	assert_differs("[1,2,3]", "[1,4]", "~/1\n-/2\n");
	assert_differs("[1]", "[1,{}]", "+/1\n");
	assert_differs("{}", "[]", "~/\n");
}

/* --- where values stand */

static void put_place(void *arg, size_t pointer, size_t from, size_t to)
{
	str_printf(arg, "%zu:%zu-%zu ", pointer, from, to);
}

static void assert_places(const char *text, const char *const *pointers, size_t n, const char *want)
{
	struct str got = STR_INIT;

	assert_int_equal(jx_scan(text, strlen(text), NULL, 0, NULL), 0);
	jx_locate(text, strlen(text), pointers, n, put_place, &got);
	assert_string_equal(str_text(&got), want);
	str_fini(&got);
}

static void locate_finds_values_by_pointer(void **state)
{
	static const char *const some[] = { "/a", "/b/c", "/l/1", "/x", "/b/d/e", "/q\"~1~0" };
	static const char *const outer[] = { "/b/c", "/b" };
	static const char *const all[] = { "" };

	assert_places("{\"a\":1}", some, 6, "0:5-6 ");
	assert_places(" { \"\\u0061\" : \"}\\\"]\" , \"b\":{\"z\":[{}],\"c\":{\"c\":[1,2]},\"d\":{}}}", some, 6, "0:14-20 1:41-52 ");
	assert_places("{\"l\":[[9],{\"a\":1} ,3],\"a\":[ ]}", some, 6, "2:10-17 0:26-29 ");
	assert_places("{\"b\":{\"d\":{\"e\":-1.5e3}},\"q\\\"/~\":null}", some, 6, "4:15-21 5:32-36 ");
	assert_places("{\"b\":{\"c\":1},\"a\":2}", outer, 2, "1:5-12 ");
	assert_places(" [1, 2] ", all, 1, "0:1-7 ");
	assert_places("[1, 2]", some, 6, "");
	assert_places("{}", some, 6, "");
	assert_places("7", some, 6, "");
	assert_places("{\"b\":1,\"l\":{\"1\":5}}", some, 6, "2:16-17 ");
}

/* Blocks of jansson's with their sizes in front, looked at when they are given back. */
struct block { size_t n; char bytes[]; };
static unsigned leaks;

static void *take_block(size_t n)
{
	struct block *b = mem_zalloc(sizeof *b + n);

	b->n = n;
	return b->bytes;
}

static void give_block(void *p)
{
	struct block *b = p ? CONTAINER_OF(p, struct block, bytes) : NULL;

	if (b && memmem(b->bytes, b->n, "s3cret", 6))
		leaks++;
	free(b);
}

static void wipe_leaves_no_text_but_what_others_hold_s344(void **state)
{
	json_malloc_t take;
	json_free_t give;
	json_t *v, *held;

	json_get_alloc_funcs(&take, &give);
	json_set_alloc_funcs(take_block, give_block);
	v = parse("{\"value\":\"s3cret\",\"more\":[{\"a\":\"a\\ns3cret\"},\"s3cret\"],\"held\":{\"a\":\"s3cret\"}}");
	held = json_incref(json_object_get(v, "held"));
	jx_wipe(&v);
	assert_null(v);
	assert_int_equal(leaks, 0);
	assert_string_equal(json_string_value(json_object_get(held, "a")), "s3cret");
	json_decref(held);
	assert_int_equal(leaks, 1);     /* the test sees it */
	jx_wipe(&v);
	json_set_alloc_funcs(take, give);
}

SINGLE_THREAD_SUITE(value)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wipe_leaves_no_text_but_what_others_hold_s344),
		cmocka_unit_test(a_difference_is_named_where_it_begins),
		cmocka_unit_test(parse_replaces_lone_surrogates_b33),
		cmocka_unit_test(parse_keeps_nul_in_values_and_refuses_it_in_names_s204),
		cmocka_unit_test(jansson_is_laid_out_as_known),
		cmocka_unit_test(parse_accepts_any_root_and_the_deepest_nesting),
		cmocka_unit_test(write_is_compact_and_keeps_order_and_kind),
		cmocka_unit_test(write_escapes_as_rfc8785),
		cmocka_unit_test(write_string_replaces_bytes_that_are_not_utf8),
		cmocka_unit_test(write_pretty_indents_by_two),
		cmocka_unit_test(canon_sorts_members_and_shortens_numbers),
		cmocka_unit_test(equality_is_that_of_json_schema),
		cmocka_unit_test(pointers_follow_rfc6901),
		cmocka_unit_test(pointer_add_escapes),
		cmocka_unit_test(locate_finds_values_by_pointer),
		cmocka_unit_test(getters_refuse_wrong_types_and_say_where),
		cmocka_unit_test(get_int_limits),
		cmocka_unit_test(only_refuses_unknown_members_with_a_hint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
