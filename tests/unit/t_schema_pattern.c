/* Patterns mean what ECMA-262 with the u flag says, seen through the keyword "pattern". */
#include "config.h"

#include "schema/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "json/json.h"

static int compile(const char *pattern, struct schema **ret)
{
	json_t *doc = json_pack("{ss}", "pattern", pattern);
	int rc = schema_compile(doc, ret, NULL);

	json_decref(doc);
	return rc;
}

static int match(const char *pattern, const char *text, size_t len)
{
	struct schema *s = NULL;
	json_t *v = json_stringn(text, len);
	int rc;

	if (compile(pattern, &s) != 0)
		fail_msg("refused: %s", pattern);
	assert_non_null(v);
	rc = schema_run(s, v, NULL);
	json_decref(v);
	schema_free(&s);
	return rc;
}

struct row { const char *pattern, *text; };

static void all_match(const struct row *rows, size_t n, int expected)
{
	for (size_t i = 0; i < n; i++)
		if (match(rows[i].pattern, rows[i].text, strlen(rows[i].text)) != expected)
			fail_msg("%s on %s: not %d", rows[i].pattern, rows[i].text, expected);
}

static void shorthand_sets_are_those_of_ecma(void **state)
{
	static const struct row yes[] = {
		{ "^\\d$", "7" }, { "^\\D$", "\xd9\xa3" }, { "^\\w$", "_" }, { "^\\W$", "\xc3\xa9" }, { "^\\s$", "\xc2\xa0" },
		{ "^\\s$", "\xef\xbb\xbf" }, { "^\\s$", "\xe2\x80\xa9" }, { "^\\s$", "\v" }, { "^\\S$", "\xe2\x80\x8b" }, { "^\\S$", "a" },
		{ "^[\\s]$", "\xe3\x80\x80" }, { "^[\\S]$", "x" }, { "^[\\Sa ]$", " " }, { "^[^\\S]$", "\t" }, { "^[^\\s]$", "x" },
		{ "^[\\d\\-x]+$", "1-x" }, { "^[\\D]$", "\xd9\xa3" }, { "^[^\\D]$", "5" }, { "^[^\\w]$", "\xc3\xa9" }, { "a\\b", "a\xc3\xa9" },
		{ "\\Bb", "ab" },
	};
	static const struct row no[] = {
		{ "^\\d$", "\xd9\xa3" }, { "^\\w$", "\xc3\xa9" }, { "^\\s$", "\xe2\x80\x8b" }, { "^\\S$", "\xc2\xa0" }, { "^\\s$", "\x1c" },
		{ "^[\\S]$", "\xe2\x80\xa8" }, { "^[^\\S]$", "x" }, { "a\\b", "ab" }, { "^\\s$", "\xe1\xa0\x8e" },
	};

	all_match(yes, NELEMS(yes), 0);
	all_match(no, NELEMS(no), ERR_INVALID);
}

static void dot_and_anchors(void **state)
{
	static const struct row yes[] = { { "^.$", "\xf0\x9f\x98\x80" }, { "^.$", "\xc2\x85" }, { "b$", "ab" }, { "^$", "" }, { "", "anything" } };
	static const struct row no[] = { { "^.$", "\n" }, { "^.$", "\xe2\x80\xa8" }, { "^a$", "a\n" }, { "^b", "a\nb" }, { "a$", "a\nb" },
					 { "^.$", "\r" } };

	all_match(yes, NELEMS(yes), 0);
	all_match(no, NELEMS(no), ERR_INVALID);
}

static void escapes_of_characters(void **state)
{
	static const struct row yes[] = {
		{ "^\\t\\n\\v\\f\\r$", "\t\n\v\f\r" }, { "^\\cA\\cz$", "\x01\x1a" }, { "^\\x41\\u0042\\u{43}$", "ABC" },
		{ "^\\ud83d\\ude00$", "\xf0\x9f\x98\x80" }, { "^\\u{1F600}$", "\xf0\x9f\x98\x80" }, { "^[\\ud83d\\ude00]$", "\xf0\x9f\x98\x80" },
		{ "^\\^\\$\\\\\\.\\*\\+\\?\\(\\)\\[\\]\\{\\}\\|\\/$", "^$\\.*+?()[]{}|/" }, { "^\\-$", "-" }, { "^[\\b]$", "\b" },
		{ "^[\\]\\^\\-]+$", "]^-" }, { "^#a b$", "#a b" }, { "^\xc3\xa9$", "\xc3\xa9" }, { "^[\\v]$", "\v" },
	};
	static const struct row no[] = { { "\\ud83d", "\xf0\x9f\x98\x80" }, { "[\\ud800-\\udfff]", "a" }, { "^[\\v]$", "\n" } };

	all_match(yes, NELEMS(yes), 0);
	all_match(no, NELEMS(no), ERR_INVALID);
	assert_int_equal(match("^\\0$", "\0", 1), 0);
	assert_int_equal(match("^a$", "a\0", 2), ERR_INVALID);
}

static void classes(void **state)
{
	static const struct row yes[] = {
		{ "^[a-]$", "-" }, { "^[-a]$", "-" }, { "^[a-c-e]$", "-" }, { "^[^a]$", "\n" }, { "^[^]$", "\n" }, { "^[[:alpha:]+$", ":[al" },
		{ "^[a[]$", "[" }, { "^[\\&\\%]\\@$", "%@" }, { "^[.*]$", "*" }, { "^[\xc3\xa0-\xc3\xaf]$", "\xc3\xa9" }, { "^[$^]$", "^" }, { "^[\\ud800-\\ue001]$", "\xee\x80\x80" },
	};
	static const struct row no[] = { { "[]", "a" }, { "^[a-c]$", "-" }, { "^[^\\n]$", "\n" }, { "^[[:alpha:]+$", "b" } };

	all_match(yes, NELEMS(yes), 0);
	all_match(no, NELEMS(no), ERR_INVALID);
}

static void groups_and_references(void **state)
{
	static const struct row yes[] = {
		{ "^(a|b)\\1$", "bb" }, { "^(?<x>a|b)\\k<x>$", "aa" }, { "^\\k<x>(?<x>a)$", "a" }, { "^\\1(a)$", "a" }, { "^(?:ab)+$", "abab" },
		{ "^(?=a)\\w+$", "ab" }, { "^(?!b)\\w+$", "ab" }, { "(?<=a)b", "ab" }, { "(?<!a)b", "cb" }, { "^(?:(a)|b)\\1$", "b" },
		{ "^(?<$a_1>x)(?<b>y)\\k<b>\\k<$a_1>$", "xyyx" }, { "^()$", "" }, { "^(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)\\10$", "abcdefghijj" },
		{ "^[(](a)\\1$", "(aa" }, { "^\\((a)\\1$", "(aa" },
	};
	static const struct row no[] = { { "^(a|b)\\1$", "ab" }, { "(?<!a)b", "ab" }, { "^(?!a)\\w+$", "ab" } };

	all_match(yes, NELEMS(yes), 0);
	all_match(no, NELEMS(no), ERR_INVALID);
}

static void quantifiers(void **state)
{
	static const struct row yes[] = { { "^a{2}$", "aa" }, { "^a{2,}$", "aaaa" }, { "^a{1,2}?$", "aa" }, { "^a*?b+?c??$", "aabb" }, { "^(ab){0}$", "" } };
	static const struct row no[] = { { "^a{2}$", "a" }, { "^a{2,3}$", "aaaa" } };

	all_match(yes, NELEMS(yes), 0);
	all_match(no, NELEMS(no), ERR_INVALID);
}

static void unicode_properties(void **state)
{
	static const struct row yes[] = {
		{ "^\\p{Letter}$", "\xc3\xa9" }, { "^\\p{L}\\p{Lu}$", "aB" }, { "^\\p{gc=Nd}$", "\xd9\xa3" }, { "^\\p{General_Category=Decimal_Number}$", "7" },
		{ "^\\p{Script=Greek}$", "\xce\xb1" }, { "^\\p{sc=Grek}$", "\xce\xb1" }, { "^\\p{scx=Latin}$", "a" }, { "^\\P{L}$", "1" },
		{ "^[\\p{L}\\d]+$", "a1" }, { "^[^\\p{L}]$", "1" }, { "^\\p{ASCII}$", "a" }, { "^\\p{Any}$", "\xf0\x9f\x98\x80" },
		{ "^\\p{Assigned}$", "a" }, { "^\\p{LC}$", "a" }, { "^\\p{Alphabetic}$", "a" }, { "^\\p{Emoji}$", "\xf0\x9f\x98\x80" },
		{ "^\\p{White_Space}$", " " },
	};
	static const struct row no[] = { { "\\p{ASCII}", "\xc3\xa9" }, { "\\p{Assigned}", "\xcd\xb8" }, { "^\\P{Assigned}$", "a" } };

	all_match(yes, NELEMS(yes), 0);
	all_match(no, NELEMS(no), ERR_INVALID);
}

static void what_is_not_ecma_is_refused(void **state)
{
	static const char *const bad[] = {
		"(", ")", "[", "]", "{", "}", "a{", "a{1", "a{,2}", "a{2,1}", "x{65536}", "*", "+a", "?", "a**", "a+?+", "a++", "^*", "$+", "\\b?", "(?=a)*",
		"(?<=a)+", "(*UTF8)a", "(?i)a", "(?#c)", "(?P<n>a)", "(?>a)", "(?|a)", "(?<1a>b)", "(?<>a)", "(?<a>b)(?<a>c)", "\\k<a>", "\\k", "\\1",
		"(a)\\2", "[(]\\1", "\\((a)\\2", "\\a", "\\e", "\\z", "\\A", "\\Z", "\\G", "\\Qa\\E", "\\h", "\\R", "\\X", "\\C", "\\K", "\\N", "\\_", "\\ ", "\\01", "\\8",
		"\\x4", "\\xg0", "\\u12", "\\u{}", "\\u{110000}", "\\u{zz}", "\\c", "\\c1", "\\", "[\\", "[a", "[[:alpha:]]", "[z-a]", "[\\w-a]", "[a-\\d]", "[\\B]", "[\\k]",
		"[\\1]", "\\p", "\\pL", "\\p{}", "\\p{Nope}", "\\p{^L}", "\\p{L&}", "\\p{Xan}", "\\p{Greek}", "\\p{Script=Nope}", "\\p{gc=Nope}",
		"(?<=a+)b", "\\p{l}",
	};

	for (size_t i = 0; i < NELEMS(bad); i++) {
		struct schema *s = NULL;

		if (compile(bad[i], &s) == 0)
			fail_msg("accepted: %s", bad[i]);
		assert_null(s);
	}
}

static void long_texts_with_loose_patterns_end_in_time(void **state)
{
	size_t len = 200000;
	char *text = mem_alloc(len);

	memset(text, ' ', len);
	text[len - 1] = 'x';
	/* quadratic: each blank is a place to begin */
	assert_int_equal(match("\\s+$", text, len), ERR_LIMIT);
	assert_int_equal(match("x$", text, len), 0);
	assert_int_equal(match("^\\s*x$", text, len), 0);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shorthand_sets_are_those_of_ecma),
		cmocka_unit_test(dot_and_anchors),
		cmocka_unit_test(escapes_of_characters),
		cmocka_unit_test(classes),
		cmocka_unit_test(groups_and_references),
		cmocka_unit_test(quantifiers),
		cmocka_unit_test(unicode_properties),
		cmocka_unit_test(what_is_not_ecma_is_refused),
		cmocka_unit_test(long_texts_with_loose_patterns_end_in_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
