/* YAML in and out: the core schema, what is refused (house trap 17), places, round trips. */
#include "config.h"

#include "json/yaml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "suite.h"

static struct yaml_docs *load(const char *text)
{
	struct yaml_docs *docs = NULL;
	struct err e;

	if (yaml_load("t.yaml", text, strlen(text), &docs, &e) != 0)
		fail_msg("%s\nrefused at %s: %s", text, e.where, e.msg);
	return docs;
}

static void reads(const char *text, const char *json)
{
	struct yaml_docs *docs = load(text);
	struct str out = STR_INIT;

	assert_int_equal(yaml_count(docs), 1);
	jx_write(yaml_root(docs, 0), &out);
	assert_string_equal(out.p, json);
	str_fini(&out);
	yaml_free(&docs);
	assert_null(docs);
}

static void refuses(const char *text, int code, const char *where)
{
	struct yaml_docs *docs = NULL;
	struct err e = { 0 };

	if (yaml_load("t.yaml", text, strlen(text), &docs, &e) != code || strcmp(e.where, where) != 0)
		fail_msg("%s\ncode %d at %s: %s", text, e.code, e.where, e.msg);
	assert_null(docs);
}

static void plain_scalars_follow_the_core_schema(void **state)
{
	reads("[null, Null, NULL, ~, nUll]", "[null,null,null,null,\"nUll\"]");
}

static void booleans_are_true_and_false_only(void **state)
{
	reads("[true, True, FALSE, no, yes, on, off, y, tRue]",
	      "[true,true,false,\"no\",\"yes\",\"on\",\"off\",\"y\",\"tRue\"]");
}

static void numbers_follow_the_core_schema(void **state)
{
	reads("[1, -2, +3, 007, 0o17, 0x1F, 017, 0b1, 1_000, 0o8, 0x, 1:30]",
	      "[1,-2,3,7,15,31,17,\"0b1\",\"1_000\",\"0o8\",\"0x\",\"1:30\"]");
	reads("[1.5, .5, 5., -1e3, 1E+2, +.5, e3, 1e, 1.2.3, ., 1.0]",
	      "[1.5,0.5,5.0,-1000.0,100.0,0.5,\"e3\",\"1e\",\"1.2.3\",\".\",1.0]");
	reads("9223372036854775807", "9223372036854775807");
	reads("-9223372036854775808", "-9223372036854775808");
	reads("[9223372036854775808, +0012345678901234567890, .1e400, -5.e999, !!float 9007199254740993]",
	      "[9223372036854775808,12345678901234567890,0.1e400,-5.0e999,9007199254740993.0]");
	refuses("0x8000000000000000", ERR_LIMIT, "t.yaml:1:1");
	refuses("a: 1e1000000001", ERR_LIMIT, "t.yaml:1:4");
}

static void infinity_and_nan_are_refused(void **state)
{
	static const char *const bad[] = { ".inf", "-.inf", "+.INF", ".Inf", ".nan", ".NaN", ".NAN" };

	for (size_t i = 0; i < NELEMS(bad); i++)
		refuses(bad[i], ERR_INVALID, "t.yaml:1:1");
	reads("[\".inf\", .infinity]", "[\".inf\",\".infinity\"]");
}

static void quoted_and_block_scalars_are_text(void **state)
{
	reads("[\"1\", 'true', \"\", '~', \"a\\tb\\u20ac\\ud83d\\ude00\"]",
	      "[\"1\",\"true\",\"\",\"~\",\"a\\tb\xe2\x82\xac\xf0\x9f\x98\x80\"]");
	reads("a: |\n  1\n  two\nb: >-\n  x\n  y\n", "{\"a\":\"1\\ntwo\\n\",\"b\":\"x y\"}");
	reads("\"\\0\"", "\"\\u0000\"");
}

static void json_is_yaml(void **state)
{
	reads("{\"a\": [1, 2.5, {\"b\":\t\"x\\/y\"}],\n\t\"c\": null, \"d\":true}",
	      "{\"a\":[1,2.5,{\"b\":\"x/y\"}],\"c\":null,\"d\":true}");
}

static void core_tags_are_accepted_where_they_fit(void **state)
{
	reads("[!!str 5, !!int 5, !!float 5, !!bool true, !!null null, !!map {}, !!seq [], !!str true]",
	      "[\"5\",5,5.0,true,null,{},[],\"true\"]");
	reads("{!!str 5: 1}", "{\"5\":1}");
	refuses("!!int x", ERR_INVALID, "t.yaml:1:7");
	refuses("!!bool 1", ERR_INVALID, "t.yaml:1:8");
	refuses("!!map []", ERR_INVALID, "t.yaml:1:7");
	refuses("a: !!seq x", ERR_INVALID, "t.yaml:1:10");
}

static void back_doors_are_refused(void **state)
{
	refuses("a: &x 1\nb: 2", ERR_INVALID, "t.yaml:1:7");
	refuses("a: &x [1]", ERR_INVALID, "t.yaml:1:7");
	refuses("a: &x {}", ERR_INVALID, "t.yaml:1:7");
	refuses("a: *x", ERR_INVALID, "t.yaml:1:4");
	refuses("a: !python/object x", ERR_INVALID, "t.yaml:1:19");
	refuses("a: !!binary aGk=", ERR_INVALID, "t.yaml:1:13");
	refuses("!!set {a}", ERR_INVALID, "t.yaml:1:7");
	refuses("%TAG !! tag:evil,2000:\n---\n!!str 5", ERR_INVALID, "t.yaml:3:7");
	refuses("a: 1\n<<: {b: 2}", ERR_INVALID, "t.yaml:2:1");
	refuses("a: 1\nb: 2\na: 3", ERR_INVALID, "t.yaml:3:1");
	refuses("a: 1\n\"a\": 3", ERR_INVALID, "t.yaml:2:1");
	refuses("1: x", ERR_INVALID, "t.yaml:1:1");
	refuses("a: {null: x}", ERR_INVALID, "t.yaml:1:5");
	refuses("? [a]\n: 1", ERR_INVALID, "t.yaml:1:3");
	refuses("? {a: 1}\n: 1", ERR_INVALID, "t.yaml:1:3");
	refuses("\"a\\0b\": 1", ERR_INVALID, "t.yaml:1:1");
	reads("\"<<\": 1", "{\"<<\":1}");
	reads("\"1\": x", "{\"1\":\"x\"}");
}

static void broken_texts_are_refused_with_their_place(void **state)
{
	refuses("a: b: c", ERR_INVALID, "t.yaml:1:5");
	refuses("a:\n\tb: 1", ERR_INVALID, "t.yaml:2:1");
	refuses("a: \"x", ERR_INVALID, "t.yaml:1:5");
	refuses("a: 1\nb: \xff", ERR_INVALID, "t.yaml:2:4");
	refuses("a: x\x01y", ERR_INVALID, "t.yaml:1:5");
	refuses("\"\\ud83d\"", ERR_INVALID, "t.yaml:1:2");
}

static void nested(struct str *s, int depth)
{
	for (int i = 0; i < depth; i++)
		str_putc(s, '[');
	for (int i = 0; i < depth; i++)
		str_putc(s, ']');
}

static void depth_limit(void **state)
{
	struct str s = STR_INIT;
	struct yaml_docs *docs = NULL;

	nested(&s, JX_DEPTH_MAX);
	docs = load(s.p);
	yaml_free(&docs);
	str_reset(&s);
	nested(&s, JX_DEPTH_MAX + 1);
	assert_int_equal(yaml_load("-", s.p, s.len, &docs, NULL), ERR_LIMIT);
	str_fini(&s);
}

static void item_limit_counts_all_documents(void **state)
{
	struct str s = STR_INIT;
	struct yaml_docs *docs = NULL;

	for (int i = 0; i < JX_MEMBERS_MAX / 2; i++)
		str_puts(&s, i ? ",1" : "[1");
	str_puts(&s, "]\n---\n");
	for (int i = 0; i < JX_MEMBERS_MAX / 2; i++)
		str_puts(&s, i ? ",1" : "[1");
	str_puts(&s, "]");
	docs = load(s.p);
	assert_int_equal(yaml_count(docs), 2);
	yaml_free(&docs);
	s.p[s.len - 1] = ' ';
	str_puts(&s, ",1]");
	assert_int_equal(yaml_load("-", s.p, s.len, &docs, NULL), ERR_LIMIT);
	str_fini(&s);
}

static void name_limit(void **state)
{
	char text[JX_NAME_MAX + 8];
	struct yaml_docs *docs = NULL;

	for (int extra = 0; extra < 2; extra++) {
		memset(text, 'n', JX_NAME_MAX + 1);
		memcpy(text + JX_NAME_MAX + extra, ": 1", 4);
		assert_int_equal(yaml_load("-", text, strlen(text), &docs, NULL), extra ? ERR_LIMIT : 0);
		yaml_free(&docs);
	}
}

static void document_limit(void **state)
{
	struct str s = STR_INIT;
	struct yaml_docs *docs = NULL;

	for (int i = 0; i < YAML_DOCS_MAX; i++)
		str_puts(&s, "---\n1\n");
	docs = load(s.p);
	assert_int_equal(yaml_count(docs), YAML_DOCS_MAX);
	yaml_free(&docs);
	str_puts(&s, "---\n1\n");
	assert_int_equal(yaml_load("-", s.p, s.len, &docs, NULL), ERR_LIMIT);
	str_fini(&s);
}

static void text_limit(void **state)
{
	char *text = mem_alloc(YAML_TEXT_MAX + 1);
	struct yaml_docs *docs = NULL;

	memset(text, ' ', YAML_TEXT_MAX + 1);
	text[0] = '1';
	assert_int_equal(yaml_load("-", text, YAML_TEXT_MAX, &docs, NULL), 0);
	yaml_free(&docs);
	assert_int_equal(yaml_load("-", text, YAML_TEXT_MAX + 1, &docs, NULL), ERR_LIMIT);
	free(text);
}

/* N-06: what is large by nature has larger bounds, and still has them. */
static void n06_limits_of_large_texts(void **state)
{
	struct str s = STR_INIT;
	struct yaml_docs *docs = NULL;
	struct err err;

	for (unsigned i = 0; i < YAML_LARGE_ITEMS_MAX; i++)
		str_puts(&s, i ? ",1" : "[1");
	str_puts(&s, "]");
	assert_int_equal(yaml_load_large("-", s.p, s.len, &docs, NULL), 0);
	yaml_free(&docs);
	str_reset(&s);
	for (unsigned i = 0; i <= YAML_LARGE_ITEMS_MAX; i++)
		str_puts(&s, i == 0 ? "[1" : i % 1000 ? ",1" : ",\n1");
	str_puts(&s, "]");
	assert_int_equal(yaml_load_large("-", s.p, s.len, &docs, &err), ERR_LIMIT);
	assert_string_equal(err.msg, "more than 1000000 members and elements");
	str_fini(&s);

	char *text = mem_alloc(YAML_LARGE_TEXT_MAX + 1);

	memset(text, ' ', YAML_LARGE_TEXT_MAX + 1);
	text[0] = '1';
	assert_int_equal(yaml_load_large("-", text, YAML_LARGE_TEXT_MAX, &docs, NULL), 0);
	yaml_free(&docs);
	assert_int_equal(yaml_load_large("-", text, YAML_LARGE_TEXT_MAX + 1, &docs, &err), ERR_LIMIT);
	assert_string_equal(err.msg, "longer than 32 MiB");
	text[0] = 'a';                  /* no JSON */
	assert_int_equal(yaml_load_large("-", text, YAML_LARGE_LINE_MAX, &docs, NULL), 0);
	yaml_free(&docs);
	assert_int_equal(yaml_load_large("-", text, YAML_LARGE_LINE_MAX + 1, &docs, &err), ERR_LIMIT);
	assert_string_equal(err.where, "-:1:1");
	free(text);
}

/* Both ways to read JSON agree about its values and their places. */
static void n06_large_json_has_the_places_of_yaml(void **state)
{
	static const char text[] = "{\n  \"a\": [1, -2.5e3, true , null, \"x\\\"]\\n\", {}, []],\n\t\"\xc3\xa9\": {\"b\" : {\"c\": \"\xe2\x82\xac\", "
		"\"d/e\":[[\"\"],\n[0]]}}, \"f\":\nfalse}\n";
	static const char *const pointers[] = { "", "/a", "/a/0", "/a/1", "/a/2", "/a/3", "/a/4", "/a/5", "/a/6", "/a/7", "/\xc3\xa9", "/\xc3\xa9/b",
		"/\xc3\xa9/b/c", "/\xc3\xa9/b/d~1e", "/\xc3\xa9/b/d~1e/0", "/\xc3\xa9/b/d~1e/0/0", "/\xc3\xa9/b/d~1e/1/0", "/f", "/nowhere" };
	struct yaml_docs *docs = load(text), *large = NULL;
	char where[200], here[200];

	assert_int_equal(yaml_load_large("t.yaml", text, strlen(text), &large, NULL), 0);
	assert_int_equal(yaml_count(large), 1);
	assert_true(json_equal(yaml_root(docs, 0), yaml_root(large, 0)));
	for (size_t i = 0; i < NELEMS(pointers); i++) {
		yaml_where(docs, 0, pointers[i], where, sizeof(where));
		yaml_where(large, 0, pointers[i], here, sizeof(here));
		assert_string_equal(here, where);
	}
	yaml_free(&docs);
	yaml_free(&large);
}

static void empty_documents_are_left_out(void **state)
{
	static const struct { const char *text; size_t count; } rows[] = {
		{ "", 0 }, { "# only a comment\n", 0 }, { "---\n", 0 }, { "---\n---\n", 0 }, { "a: 1\n---\n", 1 }, { "---\na: 1\n...\n", 1 },
		{ "a: 1\n---\nb: 2", 2 }, { "--- null\n", 1 }, { "---\n~\n", 1 },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		struct yaml_docs *docs = load(rows[i].text);

		assert_int_equal(yaml_count(docs), rows[i].count);
		yaml_free(&docs);
	}
}

static void where(const struct yaml_docs *docs, size_t i, const char *pointer, const char *expected)
{
	char at[64];

	yaml_where(docs, i, pointer, at, sizeof at);
	assert_string_equal(at, expected);
}

static void where_finds_any_pointer(void **state)
{
	struct yaml_docs *docs = load("name: x\n"                       /* 1 */
				      "inputSchema:\n"                  /* 2 */
				      "  type: object\n"                /* 3 */
				      "  required: [a, 'b',\n"          /* 4 */
				      "    c]\n"                        /* 5 */
				      "  properties:\n"                 /* 6 */
				      "    a/b: {type: strng}\n"        /* 7 */
				      "  other: 1\n"                    /* 8 */
				      "---\n"
				      "- 1\n"
				      "- \"q\": 2\n"
				      "- [[x, y], z]\n"
				      "- r: [s]\n");

	where(docs, 0, "", "t.yaml:1:1");
	where(docs, 0, "/name", "t.yaml:1:1");
	where(docs, 0, "/inputSchema", "t.yaml:2:1");
	where(docs, 0, "/inputSchema/type", "t.yaml:3:3");
	where(docs, 0, "/inputSchema/required/0", "t.yaml:4:14");
	where(docs, 0, "/inputSchema/required/1", "t.yaml:4:17");
	where(docs, 0, "/inputSchema/required/2", "t.yaml:5:5");
	where(docs, 0, "/inputSchema/properties/a~1b/type", "t.yaml:7:11");
	where(docs, 0, "/inputSchema/other", "t.yaml:8:3");
	where(docs, 1, "/0", "t.yaml:10:3");
	where(docs, 1, "/1/q", "t.yaml:11:3");
	where(docs, 1, "/2/0/1", "t.yaml:12:8");
	where(docs, 1, "/2/1", "t.yaml:12:12");
	where(docs, 1, "/3/r/0", "t.yaml:13:7");
	/* nowhere: the nearest parent */
	where(docs, 0, "/inputSchema/missing", "t.yaml:2:1");
	where(docs, 0, "/inputSchema/required/9", "t.yaml:4:3");
	where(docs, 0, "/name/x/y", "t.yaml:1:1");
	where(docs, 0, "/~7", "t.yaml:1:1");
	where(docs, 1, "/7", "t.yaml:10:1");
	yaml_free(&docs);
}

static void where_keeps_line_and_column_of_a_long_name(void **state)
{
	struct yaml_docs *docs = NULL;
	char name[300], at[160];
	struct err e;

	memset(name, 'd', sizeof name);
	memcpy(name + sizeof name - 8, "/x.yaml", 8);
	assert_int_equal(yaml_load(name, "a: [", 4, &docs, &e), ERR_INVALID);
	assert_non_null(strstr(e.where, "/x.yaml:"));
	assert_int_equal(yaml_load(name, "a: 1", 4, &docs, &e), 0);
	yaml_where(docs, 0, "/a", at, sizeof at);
	assert_non_null(strstr(at, "/x.yaml:1:1"));
	yaml_free(&docs);
}

static void writes(const char *json, const char *yaml)
{
	struct str out = STR_INIT;
	struct yaml_docs *docs;
	json_t *v = NULL;

	assert_int_equal(jx_parse(json, strlen(json), &v, NULL), 0);
	yaml_write(v, &out);
	if (yaml)
		assert_string_equal(out.p, yaml);
	docs = load(out.p);
	assert_int_equal(yaml_count(docs), 1);
	if (!json_equal(v, yaml_root(docs, 0)))
		fail_msg("%s became\n%s", json, out.p);
	yaml_free(&docs);
	json_decref(v);
	str_fini(&out);
}

static void write_is_block_style(void **state)
{
	writes("{\"name\":\"get_weather\",\"limits\":{\"timeout\":\"10s\",\"num\":8,\"r\":1.5},\"list\":[1,{\"a\":true,\"b\":null},[2,[3]],[]],"
	       "\"empty\":{},\"text\":\"Current weather, from the feed.\"}",
	       "name: get_weather\n"
	       "limits:\n"
	       "  timeout: \"10s\"\n"
	       "  num: 8\n"
	       "  r: 1.5\n"
	       "list:\n"
	       "  - 1\n"
	       "  - a: true\n"
	       "    b: null\n"
	       "  - - 2\n"
	       "    - - 3\n"
	       "  - []\n"
	       "empty: {}\n"
	       "text: Current weather, from the feed.\n");
	writes("\"x\"", "x\n");
	writes("[]", "[]\n");
}

static void write_quotes_what_yaml_would_read_otherwise(void **state)
{
	static const char *const texts[] = {
		"", "null", "~", "true", "False", "no", "On", "y", "1", "1.5", "0x1F", ".inf", "-", "- a", "a: b", "a:", "a #b", "#a",
		"a ", " a", "&a", "*a", "!a", "|", ">", "%a", "@a", "[a", "{a", "? a", "a\\nb", "a\\tb", "\\u0000", "\\u007f", "\\u0085", "\\u2028",
		"\\ufeff", "\\uffff", "\\u00e4", "\\ud83d\\ude00", "---", "...", "<<", "a'b", "a\\\"b", "a, b", "C:\\\\x", "http://x/y?z#w",
	};

	for (size_t i = 0; i < NELEMS(texts); i++) {
		char json[128];

		(void)snprintf(json, sizeof json, "{\"%s\":[\"%s\",{\"k\":\"%s\"}]}", *texts[i] == '\\' && texts[i][2] == '0' &&
			       texts[i][5] == '0' ? "k" : texts[i], texts[i], texts[i]);
		writes(json, NULL);
	}
}

SINGLE_THREAD_SUITE(yaml)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_scalars_follow_the_core_schema),
		cmocka_unit_test(booleans_are_true_and_false_only),
		cmocka_unit_test(numbers_follow_the_core_schema),
		cmocka_unit_test(infinity_and_nan_are_refused),
		cmocka_unit_test(quoted_and_block_scalars_are_text),
		cmocka_unit_test(json_is_yaml),
		cmocka_unit_test(core_tags_are_accepted_where_they_fit),
		cmocka_unit_test(back_doors_are_refused),
		cmocka_unit_test(broken_texts_are_refused_with_their_place),
		cmocka_unit_test(depth_limit),
		cmocka_unit_test(item_limit_counts_all_documents),
		cmocka_unit_test(name_limit),
		cmocka_unit_test(document_limit),
		cmocka_unit_test(text_limit),
		cmocka_unit_test(n06_limits_of_large_texts),
		cmocka_unit_test(n06_large_json_has_the_places_of_yaml),
		cmocka_unit_test(empty_documents_are_left_out),
		cmocka_unit_test(where_finds_any_pointer),
		cmocka_unit_test(where_keeps_line_and_column_of_a_long_name),
		cmocka_unit_test(write_is_block_style),
		cmocka_unit_test(write_quotes_what_yaml_would_read_otherwise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
