/* UTF-8, codecs, numbers with units, names and globs. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "suite.h"

static void utf8_refuses_what_is_not_well_formed(void **state)
{
	static const char *const good[] = {
		"", "plain", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
		"\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "12345678\xe2\x82\xac", "1234567\xe2\x82\xac!",
	};
	static const char *const bad[] = {
		"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2!", "\xe0\x9f\xbf", "\xe2\x82",
		"\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf0\x90\x80", "\xf4\x90\x80\x80",
		"\xf5\x80\x80\x80", "\xff", "12345678\xff", "\xe2\x82\xac\x80",
	};

	for (size_t i = 0; i < NELEMS(good); i++)
		assert_true(text_utf8_valid(good[i], strlen(good[i])));
	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_false(text_utf8_valid(bad[i], strlen(bad[i])));
	assert_true(text_utf8_valid("a\0b", 3));
	assert_int_equal(text_utf8_count("a\xe2\x82\xac\xf0\x9f\x98\x80", 8), 3);
}

static void plain_run_ends_where_a_json_string_needs_care(void **state)
{
	char text[40];

	for (size_t at = 0; at < sizeof text; at++) {
		for (unsigned c = 0; c < 256; c++) {
			bool plain = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';

			memset(text, 'a', sizeof text);
			text[at] = (char)c;
			assert_int_equal(text_plain_run(text, sizeof text), plain ? sizeof text : at);
			assert_int_equal(text_plain_run(text, at), at);
		}
	}
}

static void check_printable(const char *in, const char *want)
{
	char out[100];

	assert_string_equal(text_printable(in, strlen(in), out, sizeof out), want);
}

static void printable_shows_what_would_act(void **state)
{
	char out[8];

	check_printable("h\xc3\xa9llo \xe2\x82\xac", "h\xc3\xa9llo \xe2\x82\xac");
	check_printable("a\nb\x1b[31m\x7f", "a\\x0ab\\x1b[31m\\x7f");
	check_printable("\xc2\x9b" "2J", "\\u{9b}2J");
	check_printable("\xe2\x80\xae" "txt.exe", "\\u{202e}txt.exe");
	check_printable("\xf3\xa0\x81\x81", "\\u{e0041}");
	check_printable("\xff\xc3", "\\xff\\xc3");
	/* Whole pieces or nothing. */
	assert_string_equal(text_printable("abcdefgh", 8, out, 8), "abcdefg");
	assert_string_equal(text_printable("abcd\x01z", 6, out, 8), "abcd");
	assert_string_equal(text_printable("abc\x01", 4, out, 8), "abc\\x01");
	assert_string_equal(text_printable("abc", 3, out, 1), "");
}

/* The text of one code point; its length. */
static size_t encode(uint32_t c, char ret[5])
{
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	memset(ret, 0, 5);
	for (size_t i = n; i-- > 1; c >>= 6)
		ret[i] = (char)(0x80 | (c & 0x3f));
	ret[0] = (char)(n == 1 ? c : (0xf00u >> n & 0xff) | c);
	return n;
}

/* HARDENING F-15.  Default_Ignorable_Code_Point of Unicode 14.0.0 to 15.1.0 has 4174 code points; beside them 65
 * controls, two separators, three annotations and the 48 places of hieroglyphs' controls. */
static void test_f15_one_table_has_all_that_is_not_seen(void **state)
{
	static const uint32_t seen[] = { ' ', '~', 0xa0, 0xac, 0xae, 0x61b, 0x61d, 0x115e, 0x1161, 0x200a, 0x2010, 0x205f, 0x2070,
		0x3163, 0xfdff, 0xfe10, 0xffef, 0xfffc, 0x1342f, 0xdffff, 0xe1000, 0x10ffff };
	static const uint32_t unseen[] = { 0, 0x1b, 0x7f, 0x9f, 0xad, 0x34f, 0x61c, 0x115f, 0x17b4, 0x180b, 0x180e, 0x180f, 0x200b,
		0x200c, 0x200d, 0x200e, 0x200f, 0x2028, 0x202a, 0x202e, 0x2060, 0x2064, 0x2066, 0x2069, 0x206f, 0x3164, 0xfe00, 0xfe0f,
		0xfeff, 0xffa0, 0xfff0, 0xfffb, 0x1bca0, 0x1d173, 0xe0000, 0xe0001, 0xe0020, 0xe007f, 0xe0100, 0xe01ef, 0xe0fff };
	size_t n = 0;

	for (uint32_t c = 0; c <= 0x10ffff; c++)
		n += text_is_hidden(c);
	assert_int_equal(n, 4174 + 65 + 2 + 3 + 48);
	for (size_t i = 0; i < NELEMS(seen); i++)
		assert_false(text_is_hidden(seen[i]));
	for (size_t i = 0; i < NELEMS(unseen); i++)
		assert_true(text_is_hidden(unseen[i]));
}

/* Each of the table, between letters: found where it stands, gone from the copy, an escape on a terminal. */
static void test_f15_what_is_not_seen_is_found_everywhere(void **state)
{
	for (uint32_t c = 0; c <= 0x10ffff; c++) {
		char one[5], text[12], copy[12], shown[32], want[32];
		size_t n, len;
		uint32_t found = 0;

		if (!text_is_hidden(c) || c == '\n' || c == '\t')
			continue;
		n = encode(c, one);
		text[0] = 'a';
		memcpy(text + 1, one, n);
		text[n + 1] = 'b';
		len = n + 2;
		assert_int_equal(text_hidden(text, len, &found), 1);
		assert_int_equal(found, c);
		assert_int_equal(text_without_hidden(text, len, copy), 2);
		assert_memory_equal(copy, "ab", 2);
		(void)snprintf(want, sizeof(want), c < 0x80 ? "a\\x%02xb" : "a\\u{%x}b", (unsigned)c);
		assert_string_equal(text_printable(text, len, shown, sizeof(shown)), want);
	}
}

static void stands(const char *text, bool may)
{
	char copy[64];
	uint32_t c;

	assert_int_equal(text_hidden(text, strlen(text), &c) == strlen(text), may);
	assert_int_equal(text_without_hidden(text, strlen(text), copy) == strlen(text), may);
}

static void what_shapes_its_neighbours_may_stand(void **state)
{
	stands("a\nb\tc", true);
	stands("a\r", false);
	stands("\xe2\x9a\xa0\xef\xb8\x8f careful", true);                      /* warning sign, emoji style */
	stands("\xe2\x9a\xa0\xef\xb8\x8f\xef\xb8\x8f", false);               /* a second one says nothing more */
	stands("x\xef\xb8\x8f", false);
	stands("1\xef\xb8\x8f\xe2\x83\xa3", true);                            /* keycap 1 */
	stands("1\xef\xb8\x8f", false);
	stands("\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xac", true);        /* woman, joiner, microscope */
	stands("\xf0\x9f\x91\xa9\xe2\x80\x8d", false);
	stands("\xe2\x80\x8d\xf0\x9f\x94\xac", false);
	stands("\xd9\x85\xdb\x8c\xe2\x80\x8c\xd8\xae\xd9\x88", true);         /* Persian, with a non-joiner */
	stands("\xd9\x85\xe2\x80\x8c\xe2\x80\x8c\xd8\xae", false);
	stands("\xef\xbb\xbf" "x", false);
	stands("a\xff", false);
}

/* The text with an asterisk before what is spelt out. */
static void deceives(const char *text, const char *want)
{
	bool marks[64];
	char shown[128];
	size_t n = 0, len = strlen(text);

	text_deceives(text, len, marks);
	for (size_t i = 0; i < len; i++) {
		if (marks[i])
			shown[n++] = '*';
		shown[n++] = text[i];
	}
	shown[n] = '\0';
	assert_string_equal(shown, want);
}

/* HARDENING F-9 */
static void test_f9_what_looks_like_another_character_is_spelt_out(void **state)
{
	deceives("plain, 17 \xc3\xa9t\xc3\xa9s!", "plain, 17 \xc3\xa9t\xc3\xa9s!");
	deceives("p\xd0\xb0y", "p*\xd0\xb0y");                                          /* Cyrillic a among Latin letters */
	deceives("\xd1\x81\xd0\xbe", "*\xd1\x81*\xd0\xbe");                           /* all of it looks like "co" */
	deceives("\xd0\x9c\xd0\xbe\xd1\x81\xd0\xba\xd0\xb2\xd0\xb0 is", "\xd0\x9c\xd0\xbe\xd1\x81\xd0\xba\xd0\xb2\xd0\xb0 is");
	deceives("a\xe2\x80\x8b" "b", "a*\xe2\x80\x8b" "b");
	deceives("a\xc2\xa0" "b", "a*\xc2\xa0" "b");
	deceives("\xef\xbd\x81", "*\xef\xbd\x81");
	deceives("\xe4\xbd\xbf\xe7\x94\xa8" "API", "\xe4\xbd\xbf\xe7\x94\xa8" "API");
	deceives("a\xff", "a*\xff");
	deceives("", "");
}

static void hex_goes_both_ways(void **state)
{
	uint8_t bytes[4] = { 0 };
	char text[9];

	text_hex("\x00\x7f\xab\xff", 4, text);
	assert_string_equal(text, "007fabff");
	assert_int_equal(text_unhex("007FabfF", 8, bytes, 4), 0);
	assert_memory_equal(bytes, "\x00\x7f\xab\xff", 4);
	assert_int_equal(text_unhex("0102030g", 8, bytes, 4), ERR_INVALID);
	assert_int_equal(text_unhex("010203", 6, bytes, 4), ERR_INVALID);
	assert_int_equal(text_unhex("010203040", 9, bytes, 4), ERR_INVALID);
	assert_memory_equal(bytes, "\x00\x7f\xab\xff", 4);
}

static void base64url_matches_the_vectors_of_rfc_4648(void **state)
{
	static const char *const pairs[][2] = {
		{ "", "" }, { "f", "Zg" }, { "fo", "Zm8" }, { "foo", "Zm9v" }, { "foob", "Zm9vYg" },
		{ "fooba", "Zm9vYmE" }, { "foobar", "Zm9vYmFy" }, { "\xfb\xff\xbf", "-_-_" },
	};
	char text[20], bytes[20];
	size_t n;

	for (size_t i = 0; i < NELEMS(pairs); i++) {
		size_t len = strlen(pairs[i][0]);

		text_base64url(pairs[i][0], len, text);
		assert_string_equal(text, pairs[i][1]);
		assert_int_equal(text_base64url_size(len), strlen(text) + 1);
		assert_int_equal(text_unbase64url(text, strlen(text), bytes, len, &n), 0);
		assert_int_equal(n, len);
		assert_memory_equal(bytes, pairs[i][0], len);
		if (len)
			assert_int_equal(text_unbase64url(text, strlen(text), bytes, len - 1, &n), ERR_LIMIT);
	}
}

static void base64url_has_one_text_for_each_value(void **state)
{
	static const char *const bad[] = { "Z", "Zg==", "Zh", "Zo", "Zm9", "Zm9vZ", "Z g", "Zm9v\n", "+/+/", "Zm\xc3\xa9" };
	char bytes[20];
	size_t n = 77;

	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_int_equal(text_unbase64url(bad[i], strlen(bad[i]), bytes, sizeof bytes, &n), ERR_INVALID);
	assert_int_equal(n, 77);
}

static void base64_pads_and_reads_back(void **state)
{
	static const char *const pairs[][2] = {
		{ "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" }, { "\xfb\xff\xbf", "+/+/" },
	};
	char text[16];

	for (size_t i = 0; i < NELEMS(pairs); i++) {
		text_base64(pairs[i][0], strlen(pairs[i][0]), text);
		assert_string_equal(text, pairs[i][1]);
		assert_int_equal(text_base64_size(strlen(pairs[i][0])), strlen(text) + 1);
		assert_true(text_base64_valid(text, strlen(text)));
	}
}

static void base64_wants_its_padding(void **state)
{
	static const char *const good[] = { "", "Zg==", "Zm8=", "Zm9v", "+/+/" };
	static const char *const bad[] = { "Zg", "Zg=", "Zm8", "=", "==", "===", "====", "Zh==", "Zm9=", "Zg==Zg==",
					   "-_-_", "Z===", "Zm 8", "Zm8=\n" };
	char bytes[20];
	size_t n;

	for (size_t i = 0; i < NELEMS(good); i++)
		assert_true(text_base64_valid(good[i], strlen(good[i])));
	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_false(text_base64_valid(bad[i], strlen(bad[i])));
	assert_int_equal(text_unbase64("Zm8=", 4, bytes, 2, &n), 0);
	assert_int_equal(n, 2);
	assert_memory_equal(bytes, "fo", 2);
	assert_int_equal(text_unbase64("Zm8=", 4, bytes, 1, &n), ERR_LIMIT);
	assert_int_equal(text_unbase64("Zm8", 3, bytes, 2, &n), ERR_INVALID);
}

static void integers_are_read_whole_or_not_at_all(void **state)
{
	static const char *const bad_u64[] = { "", " 1", "1 ", "+1", "-1", "0x1", "1.0", "18446744073709551616",
					       "99999999999999999999999" };
	static const char *const bad_i64[] = { "", "-", "+1", "--1", "9223372036854775808", "-9223372036854775809" };
	uint64_t u = 5;
	int64_t i = 5;

	for (size_t k = 0; k < NELEMS(bad_u64); k++)
		assert_int_equal(text_u64(bad_u64[k], strlen(bad_u64[k]), &u), ERR_INVALID);
	for (size_t k = 0; k < NELEMS(bad_i64); k++)
		assert_int_equal(text_i64(bad_i64[k], strlen(bad_i64[k]), &i), ERR_INVALID);
	assert_true(u == 5 && i == 5);
	assert_int_equal(text_u64("18446744073709551615", 20, &u), 0);
	assert_true(u == UINT64_MAX);
	assert_int_equal(text_u64("0129", 3, &u), 0);
	assert_int_equal(u, 12);
	assert_int_equal(text_i64("-9223372036854775808", 20, &i), 0);
	assert_true(i == INT64_MIN);
	assert_int_equal(text_i64("9223372036854775807", 19, &i), 0);
	assert_true(i == INT64_MAX);
}

static void times_of_the_day_have_four_digits(void **state)
{
	static const char *const bad[] = { "", "3:00", "24:00", "03:60", "03-00", "03:00 ", "+3:00", "03:0x", "none" };
	uint32_t s = 5;

	(void)state;
	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_int_equal(text_time_of_day(bad[i], &s), ERR_INVALID);
	assert_int_equal(s, 5);
	assert_true(text_time_of_day("00:00", &s) == 0 && s == 0);
	assert_true(text_time_of_day("23:59", &s) == 0 && s == 86340);
}

static void durations_and_sizes_need_their_units(void **state)
{
	static const char *const bad_times[] = { "", "5", "ms", "-1s", "1.5s", "1 s", "1S", "1s ", "1m30s",
						 "213503982335d" };
	static const char *const bad_sizes[] = { "", "KiB", "1KB", "1kib", "1 KiB", "-1", "17179869184GiB" };
	uint64_t v = 5;

	for (size_t i = 0; i < NELEMS(bad_times); i++)
		assert_int_equal(text_duration_ms(bad_times[i], &v), ERR_INVALID);
	for (size_t i = 0; i < NELEMS(bad_sizes); i++)
		assert_int_equal(text_size(bad_sizes[i], &v), ERR_INVALID);
	assert_int_equal(v, 5);
	assert_true(text_duration_ms("250ms", &v) == 0 && v == 250);
	assert_true(text_duration_ms("10s", &v) == 0 && v == 10000);
	assert_true(text_duration_ms("5m", &v) == 0 && v == 300000);
	assert_true(text_duration_ms("1h", &v) == 0 && v == 3600000);
	assert_true(text_duration_ms("90d", &v) == 0 && v == UINT64_C(7776000000));
	assert_true(text_size("512", &v) == 0 && v == 512);
	assert_true(text_size("64KiB", &v) == 0 && v == 65536);
	assert_true(text_size("1MiB", &v) == 0 && v == 1048576);
	assert_true(text_size("17179869183GiB", &v) == 0 && v == UINT64_C(17179869183) << 30);
}

static void rates_read_what_they_write(void **state)
{
	static const char *const good[] = { "10/s", "60/min", "100/h", "5000/day", "4294967295/s" };
	static const char *const bad[] = { "", "10", "0/s", "/s", "10/sec", "10 /s", "4294967296/s", "-1/s" };
	struct text_rate r = { 0, 0 };
	char text[32];

	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_int_equal(text_rate(bad[i], &r), ERR_INVALID);
	assert_int_equal(r.count, 0);
	for (size_t i = 0; i < NELEMS(good); i++) {
		assert_int_equal(text_rate(good[i], &r), 0);
		assert_string_equal(text_format_rate(r, text, sizeof text), good[i]);
	}
	text_rate("60/min", &r);
	assert_true(r.count == 60 && r.per_s == 60);
	assert_string_equal(text_format_rate((struct text_rate){ 3, 7 }, text, sizeof text), "3 per 7 s");
}

static void ages_take_the_largest_unit(void **state)
{
	static const struct { uint64_t s; const char *want; } rows[] = {
		{ 0, "0s" }, { 12, "12s" }, { 59, "59s" }, { 60, "1m" }, { 3599, "59m" }, { 3600, "1h" },
		{ 86399, "23h" }, { 86400, "1d" }, { 86400 * 400, "400d" },
	};
	char text[16];

	for (size_t i = 0; i < NELEMS(rows); i++)
		assert_string_equal(text_format_age(rows[i].s * 1000000, text, sizeof text), rows[i].want);
}

static void globs_match_whole_texts(void **state)
{
	static const struct { const char *pattern, *text; bool want; } rows[] = {
		{ "", "", true }, { "", "a", false }, { "*", "", true }, { "*", "abc", true }, { "a", "a", true },
		{ "a", "ab", false }, { "ab", "a", false }, { "?", "", false }, { "?", "x", true }, { "??", "x", false },
		{ "get_*", "get_weather", true }, { "get_*", "set_get_x", false }, { "*_x", "a_x_x", true },
		{ "*a*b", "xaxxb", true }, { "*a*b", "xbxa", false }, { "a**b", "ab", true }, { "*?", "", false },
		{ "a?c*", "abcd", true }, { "[a]", "a", false }, { "[a]", "[a]", true }, { "A", "a", false },
	};

	for (size_t i = 0; i < NELEMS(rows); i++)
		assert_int_equal(text_glob(rows[i].pattern, rows[i].text), rows[i].want);
	assert_true(text_glob_literal("get_weather"));
	assert_false(text_glob_literal("get_*"));
	assert_false(text_glob_literal("a?"));
}

static void globs_of_many_stars_stay_cheap(void **state)
{
	char pattern[2001], text[10001];

	for (size_t i = 0; i < 2000; i += 2)
		memcpy(pattern + i, "*a", 2);
	pattern[1999] = 'b';
	pattern[2000] = '\0';
	memset(text, 'a', 10000);
	text[10000] = '\0';
	assert_false(text_glob(pattern, text));
}

static void names_have_an_alphabet_and_a_length(void **state)
{
	char name[70];

	memset(name, 'a', sizeof name);
	assert_true(text_tool_name(name, 64));
	assert_false(text_tool_name(name, 65));
	assert_false(text_tool_name(name, 0));
	assert_true(text_tool_name("Get.weather_2-x", 15));
	assert_false(text_tool_name("get weather", 11));
	assert_false(text_tool_name("g\xc3\xa9t", 4));
	assert_false(text_tool_name("a/b", 3));
	assert_false(text_tool_name("a\0b", 3));
	assert_true(text_entity_name(name, 63));
	assert_false(text_entity_name(name, 64));
	assert_false(text_entity_name(name, 0));
	assert_true(text_entity_name("0a.b-c_d", 8));
	assert_false(text_entity_name("Acme", 4));
	assert_false(text_entity_name(".acme", 5));
	assert_false(text_entity_name("-acme", 5));
}

static void nearest_finds_typing_errors_only(void **state)
{
	static const char *const names[] = { "get_weather", "query_database", "word_count", "deploy" };
	char longest[129];

	assert_string_equal(text_nearest("get_wether", names, NELEMS(names)), "get_weather");
	assert_string_equal(text_nearest("depoly", names, NELEMS(names)), "deploy");
	assert_string_equal(text_nearest("wordcount", names, NELEMS(names)), "word_count");
	assert_string_equal(text_nearest("deploy", names, NELEMS(names)), "deploy");
	/* A swap of neighbours is one error. */
	assert_string_equal(text_nearest("sl", (const char *const[]){ "ls" }, 1), "ls");
	assert_null(text_nearest("x", names, NELEMS(names)));
	/* At the limit 1 + 6/4 = 2, and one above. */
	assert_string_equal(text_nearest("depxxy", names, NELEMS(names)), "deploy");
	assert_null(text_nearest("dexxxy", names, NELEMS(names)));
	memset(longest, 'a', 128);
	longest[128] = '\0';
	assert_null(text_nearest(longest, names, NELEMS(names)));
	assert_null(text_nearest("deploy", names, 0));
}

static void eq_compares_bytes(void **state)
{
	assert_true(text_eq("abc", 3, "abc"));
	assert_false(text_eq("abc", 2, "abc"));
	assert_false(text_eq("abcd", 4, "abc"));
	assert_false(text_eq("ab\0", 3, "ab"));
	assert_true(text_eq(NULL, 0, ""));
}

SINGLE_THREAD_SUITE(text)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(utf8_refuses_what_is_not_well_formed),
		cmocka_unit_test(plain_run_ends_where_a_json_string_needs_care),
		cmocka_unit_test(printable_shows_what_would_act),
		cmocka_unit_test(test_f15_one_table_has_all_that_is_not_seen),
		cmocka_unit_test(test_f15_what_is_not_seen_is_found_everywhere),
		cmocka_unit_test(what_shapes_its_neighbours_may_stand),
		cmocka_unit_test(test_f9_what_looks_like_another_character_is_spelt_out),
		cmocka_unit_test(hex_goes_both_ways),
		cmocka_unit_test(base64url_matches_the_vectors_of_rfc_4648),
		cmocka_unit_test(base64url_has_one_text_for_each_value),
		cmocka_unit_test(base64_pads_and_reads_back),
		cmocka_unit_test(base64_wants_its_padding),
		cmocka_unit_test(integers_are_read_whole_or_not_at_all),
		cmocka_unit_test(times_of_the_day_have_four_digits),
		cmocka_unit_test(durations_and_sizes_need_their_units),
		cmocka_unit_test(rates_read_what_they_write),
		cmocka_unit_test(ages_take_the_largest_unit),
		cmocka_unit_test(globs_match_whole_texts),
		cmocka_unit_test(globs_of_many_stars_stay_cheap),
		cmocka_unit_test(names_have_an_alphabet_and_a_length),
		cmocka_unit_test(nearest_finds_typing_errors_only),
		cmocka_unit_test(eq_compares_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
