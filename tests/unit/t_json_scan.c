/* The strict pass: what is JSON, what is refused and where, the limits, the spans. */
#include "config.h"

#include "json/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "suite.h"

static int scan(const char *text)
{
	return jx_scan(text, strlen(text), NULL, 0, NULL);
}

static void accepts(const char *text)
{
	struct err e;
	/* An exact copy, so that a sanitizer sees a read beyond the end. */
	char *copy = mem_dup(text, strlen(text));

	if (jx_scan(copy, strlen(text), NULL, 0, &e) != 0)
		fail_msg("refused: %s (%s: %s)", text, e.where, e.msg);
	free(copy);
}

static void refuses(const char *text, int code, const char *where)
{
	struct err e = { 0 };
	char *copy = mem_dup(text, strlen(text));

	if (jx_scan(copy, strlen(text), NULL, 0, &e) != code || strcmp(e.where, where) != 0)
		fail_msg("%s: code %d at %s: %s", text, e.code, e.where, e.msg);
	free(copy);
}

static void scan_accepts_json(void **state)
{
	static const char *const good[] = {
		"null", "true", "false", "0", "-0", "-1.5e+10", "1E400", "123456789012345678901234567890", "0.0e-0",
		"\"\"", "\"a\\u0000\\ud800\\/\\b\\f\\n\\r\\t\\\"\\\\\"", 
		"\"\xc2\x80\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\x7f\"", "[]", "{}", " [ 1 , [ ] , { } ] ", "\t\r\n {\"a\" : 1 , \"b\":[{}]}\n",
		"{\"\":1}", "[\"long string of plain text that runs over several words\"]",
	};

	for (size_t i = 0; i < NELEMS(good); i++)
		accepts(good[i]);
}

static void scan_refuses_what_is_not_json(void **state)
{
	static const struct { const char *text, *where; } bad[] = {
		{ "", "byte 1" }, { "  ", "byte 3" }, { "nul", "byte 4" }, { "nulL", "byte 1" }, { "True", "byte 1" },
		{ "NaN", "byte 1" }, { "Infinity", "byte 1" }, { "+1", "byte 1" }, { "01", "byte 2" }, { "-", "byte 2" },
		{ "-x", "byte 2" }, { "1.", "byte 3" }, { ".5", "byte 1" }, { "1e", "byte 3" }, { "1e+", "byte 4" },
		{ "0x10", "byte 2" }, { "1 2", "byte 3" }, { "[1,]", "byte 4" }, { "[1 2]", "byte 4" }, { "[,1]", "byte 2" },
		{ "[1}", "byte 3" }, { "{\"a\":1,}", "byte 8" }, { "{\"a\" 1}", "byte 6" }, { "{a:1}", "byte 2" },
		{ "{1:1}", "byte 2" }, { "{\"a\":}", "byte 6" }, { "{\"a\":1 \"b\":2}", "byte 8" }, { "{\"a\":1]", "byte 7" },
		{ "\"", "byte 2" }, { "\"a", "byte 3" }, { "\"\\", "byte 3" }, { "\"\\u12", "byte 6" },
		{ "\"\\x41\"", "byte 2" }, { "\"\\u12g4\"", "byte 2" }, { "\"a\nb\"", "byte 3" }, { "\"\x1f\"", "byte 2" },
		{ "'a'", "byte 1" }, { "// c\n1", "byte 1" }, { "[1]]", "byte 4" }, { "\v1", "byte 1" },
		{ "\xc2\xa0" "1", "byte 1" }, { "[", "byte 2" }, { "{\"a\"", "byte 5" }, { "truefalse", "byte 5" },
	};

	for (size_t i = 0; i < NELEMS(bad); i++)
		refuses(bad[i].text, ERR_INVALID, bad[i].where);
}

static void scan_refuses_byte_order_mark_b33(void **state)
{
	refuses("\xef\xbb\xbf{}", ERR_INVALID, "byte 1");
}

static void scan_refuses_nul_outside_of_strings_and_in_them(void **state)
{
	assert_int_equal(jx_scan("1\0", 2, NULL, 0, NULL), ERR_INVALID);
	assert_int_equal(jx_scan("\"\0\"", 3, NULL, 0, NULL), ERR_INVALID);
	assert_int_equal(jx_scan("\"12345678\0\"", 11, NULL, 0, NULL), ERR_INVALID);
}

static void scan_refuses_bytes_that_are_not_utf8_s201(void **state)
{
	static const char *const bad[] = {
		"\"\x80\"", "\"\xc0\x80\"", "\"\xc1\xbf\"", "\"\xc2\"", "\"\xe0\x9f\xbf\"", "\"\xed\xa0\x80\"", "\"\xe1\x80\"",
		"\"\xf0\x8f\xbf\xbf\"", "\"\xf4\x90\x80\x80\"", "\"\xf5\x80\x80\x80\"", "\"\xff\"", "\"\xf0\x90\x80\"",
		"\"\xc2", "\"12345678901\xe2\x82\"",
	};

	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_int_equal(scan(bad[i]), ERR_INVALID);
	assert_int_equal(scan("{\"\xff\":1}"), ERR_INVALID);
}

static void scan_of_every_prefix_is_refused(void **state)
{
	const char *text = "{\"id\":-1.5e3,\"\\u0061b\":[true,false,null,{\"x\":\"y\\n\\ud83d\\ude00 \xe2\x82\xac plain\"}], \"c\":{}}";
	size_t len = strlen(text);

	accepts(text);
	for (size_t n = 0; n < len; n++) {
		char *copy = mem_dup(text, n ? n : 1);

		assert_int_equal(jx_scan(copy, n, NULL, 0, NULL), ERR_INVALID);
		free(copy);
	}
}

static void nested(struct str *out, int depth, char open, char close)
{
	for (int i = 0; i < depth; i++)
		str_puts(out, open == '{' ? "{\"a\":" : "[");
	str_puts(out, "1");
	for (int i = 0; i < depth; i++)
		str_putc(out, close);
}

static void scan_depth_limit_s202(void **state)
{
	static const char open[] = "[{", close[] = "]}";

	for (int i = 0; i < 2; i++) {
		struct str at = STR_INIT, over = STR_INIT;

		nested(&at, JX_DEPTH_MAX, open[i], close[i]);
		nested(&over, JX_DEPTH_MAX + 1, open[i], close[i]);
		assert_int_equal(scan(at.p), 0);
		assert_int_equal(scan(over.p), ERR_LIMIT);
		str_fini(&at);
		str_fini(&over);
	}
}

/* An array of n elements, the last one an empty object when object is set. */
static int scan_array_of(size_t n)
{
	struct str s = STR_INIT;
	int rc;

	for (size_t i = 0; i < n; i++)
		str_puts(&s, i ? ",1" : "[1");
	str_putc(&s, ']');
	rc = scan(s.p);
	str_fini(&s);
	return rc;
}

static int scan_object_of(size_t n, size_t same_as)
{
	struct str s = STR_INIT;
	int rc;

	for (size_t i = 0; i < n; i++)
		str_printf(&s, "%c\"name%zu\":[]", i ? ',' : '{', i == n - 1 && same_as < n ? same_as : i);
	str_putc(&s, '}');
	rc = scan(s.p);
	str_fini(&s);
	return rc;
}

static void scan_member_limit_s202(void **state)
{
	assert_int_equal(scan_array_of(JX_MEMBERS_MAX), 0);
	assert_int_equal(scan_array_of(JX_MEMBERS_MAX + 1), ERR_LIMIT);
	assert_int_equal(scan_object_of(JX_MEMBERS_MAX, SIZE_MAX), 0);
	assert_int_equal(scan_object_of(JX_MEMBERS_MAX + 1, SIZE_MAX), ERR_LIMIT);
}

static int scan_name_of(size_t len, const char *unit)
{
	struct str s = STR_INIT;
	int rc;

	str_puts(&s, "{\"");
	for (size_t i = 0; i < len; i++)
		str_puts(&s, unit);
	str_puts(&s, "\":1}");
	rc = scan(s.p);
	str_fini(&s);
	return rc;
}

static void scan_name_limit_counts_unescaped_bytes_s202(void **state)
{
	assert_int_equal(scan_name_of(JX_NAME_MAX, "n"), 0);
	assert_int_equal(scan_name_of(JX_NAME_MAX + 1, "n"), ERR_LIMIT);
	assert_int_equal(scan_name_of(JX_NAME_MAX, "\\u006e"), 0);
	assert_int_equal(scan_name_of(JX_NAME_MAX + 1, "\\u006e"), ERR_LIMIT);
	assert_int_equal(scan_name_of(JX_NAME_MAX / 4, "\\ud83d\\ude00"), 0);
	assert_int_equal(scan_name_of(JX_NAME_MAX / 4 + 1, "\\ud83d\\ude00"), ERR_LIMIT);
}

static void scan_message_limit_s113(void **state)
{
	char *text = mem_alloc(JX_MESSAGE_MAX + 1);

	memset(text, ' ', JX_MESSAGE_MAX + 1);
	text[0] = '1';
	assert_int_equal(jx_scan(text, JX_MESSAGE_MAX, NULL, 0, NULL), 0);
	assert_int_equal(jx_scan(text, JX_MESSAGE_MAX + 1, NULL, 0, NULL), ERR_LIMIT);
	free(text);
}

static void scan_refuses_duplicate_member_s203(void **state)
{
	refuses("{\"a\":1,\"a\":2}", ERR_CONFLICT, "byte 9");
	refuses("{\"id\":1,\"\\u0069d\":2}", ERR_CONFLICT, "byte 10");
	refuses("[{\"x\":{\"a\":1,\"b\":2,\"a\":2}}]", ERR_CONFLICT, "byte 21");
	refuses("{\"\":1,\"\":2}", ERR_CONFLICT, "byte 8");
	/* Both halves become U+FFFD, so the reader would see one name twice. */
	refuses("{\"\\ud800\":1,\"\\udc00\":2}", ERR_CONFLICT, "byte 14");
	accepts("{\"a\":{\"a\":{\"a\":1}},\"b\":[{\"a\":1},{\"a\":1}]}");
	accepts("{\"a\":1,\"A\":2,\"a \":3,\"aa\":4}");
}

static void scan_finds_duplicates_in_large_objects(void **state)
{
	assert_int_equal(scan_object_of(17, SIZE_MAX), 0);
	assert_int_equal(scan_object_of(17, 0), ERR_CONFLICT);
	for (size_t i = 0; i < 17; i++)
		assert_int_equal(scan_object_of(18, i), ERR_CONFLICT);
	assert_int_equal(scan_object_of(65, 63), ERR_CONFLICT);
	assert_int_equal(scan_object_of(50000, 49998), ERR_CONFLICT);
	assert_int_equal(scan_object_of(50000, 0), ERR_CONFLICT);
}

static void scan_keeps_scopes_of_names_apart(void **state)
{
	struct str s = STR_INIT;

	/* 40 names outside, 40 equal ones inside, in the middle of them */
	for (int i = 0; i < 40; i++) {
		str_printf(&s, "%c\"n%d\":", i ? ',' : '{', i);
		if (i == 20)
			for (int k = 0; k < 40; k++)
				str_printf(&s, "%c\"n%d\":1%s", k ? ',' : '{', k, k == 39 ? "}" : "");
		else
			str_puts(&s, "1");
	}
	str_putc(&s, '}');
	assert_int_equal(scan(s.p), 0);
	s.len -= 1;
	str_puts(&s, ",\"n20\":1}");
	assert_int_equal(scan(s.p), ERR_CONFLICT);
	str_fini(&s);
}

static void scan_refuses_nul_in_names_s204(void **state)
{
	refuses("{\"a\\u0000\":1}", ERR_INVALID, "byte 3");
	accepts("{\"a\":\"\\u0000\"}");
}

static void span_is(struct jx_want w, const char *text)
{
	if (!text) {
		assert_null(w.span.p);
		return;
	}
	assert_non_null(w.span.p);
	assert_int_equal(w.span.len, strlen(text));
	assert_memory_equal(w.span.p, text, w.span.len);
}

static void scan_gives_spans_as_written_b04(void **state)
{
	const char *text = "{ \"id\" : 9007199254740993 , \"method\":\"tools\\/call\",\"params\":{\"name\":\"x\",\"_meta\":"
			   "{\"progressToken\": \"1\" ,\"deep\":{\"er\":[1, 2]}},\"arguments\" : { \"id\": 1.0 } },\"x\":{\"id\":7}}";
	struct jx_want w[] = {
		{ .pointer = "/id" }, { .pointer = "/method" }, { .pointer = "/params" }, { .pointer = "/params/arguments" },
		{ .pointer = "/params/_meta/progressToken" }, { .pointer = "/params/_meta/deep/er" }, { .pointer = "/missing" },
		{ .pointer = "/params/id" }, { .pointer = "/method/x" }, { .pointer = "/i" }, { .pointer = "/idx" },
	};

	assert_int_equal(jx_scan(text, strlen(text), w, NELEMS(w), NULL), 0);
	span_is(w[0], "9007199254740993");
	span_is(w[1], "\"tools\\/call\"");
	assert_int_equal(w[2].span.p[0], '{');
	span_is(w[3], "{ \"id\": 1.0 }");
	span_is(w[4], "\"1\"");
	span_is(w[5], "[1, 2]");
	for (size_t i = 6; i < NELEMS(w); i++)
		span_is(w[i], NULL);
}

static void scan_finds_escaped_names_and_not_those_in_arrays(void **state)
{
	const char *text = "{\"\\u0069d\":1,\"params\":[{\"name\":2}],\"a\":{\"name\":3}}";
	struct jx_want w[] = { { .pointer = "/id" }, { .pointer = "/params/name" }, { .pointer = "/a/name" } };

	assert_int_equal(jx_scan(text, strlen(text), w, NELEMS(w), NULL), 0);
	span_is(w[0], "1");
	span_is(w[1], NULL);
	span_is(w[2], "3");
	assert_int_equal(jx_scan("[{\"id\":1}]", 10, w, 1, NULL), 0);
	span_is(w[0], NULL);
}

static void scan_keeps_spans_found_before_a_failure(void **state)
{
	const char *text = "{\"id\":7,\"a\":1,\"a\":2,\"b\":3}";
	struct jx_want w[] = { { .pointer = "/id" }, { .pointer = "/b" } };

	assert_int_equal(jx_scan(text, strlen(text), w, NELEMS(w), NULL), ERR_CONFLICT);
	span_is(w[0], "7");
	span_is(w[1], NULL);
}

SINGLE_THREAD_SUITE(scan)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scan_accepts_json),
		cmocka_unit_test(scan_refuses_what_is_not_json),
		cmocka_unit_test(scan_refuses_byte_order_mark_b33),
		cmocka_unit_test(scan_refuses_nul_outside_of_strings_and_in_them),
		cmocka_unit_test(scan_refuses_bytes_that_are_not_utf8_s201),
		cmocka_unit_test(scan_of_every_prefix_is_refused),
		cmocka_unit_test(scan_depth_limit_s202),
		cmocka_unit_test(scan_member_limit_s202),
		cmocka_unit_test(scan_name_limit_counts_unescaped_bytes_s202),
		cmocka_unit_test(scan_message_limit_s113),
		cmocka_unit_test(scan_refuses_duplicate_member_s203),
		cmocka_unit_test(scan_finds_duplicates_in_large_objects),
		cmocka_unit_test(scan_keeps_scopes_of_names_apart),
		cmocka_unit_test(scan_refuses_nul_in_names_s204),
		cmocka_unit_test(scan_gives_spans_as_written_b04),
		cmocka_unit_test(scan_finds_escaped_names_and_not_those_in_arrays),
		cmocka_unit_test(scan_keeps_spans_found_before_a_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
