/* Patterns mean what ECMA-262 with the u flag says, seen through the keyword "pattern". */
#include "config.h"

#include "schema/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../src/schema/schema_int.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "suite.h"

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

/* A pattern that has cost somebody a server, and a text that makes it look for long. */
struct attack {
	const char *pattern, *before, *again, *after;
	bool stopped;                           /* by the match limit; else PCRE2 sees in time that nothing fits */
};

/* Of the classes of published CVEs: nested and ambiguous repetition, e-mail addresses, durations, versions, device names,
 * white space, lists, cookies, links, colours. */
static const struct attack attacks[] = {
		{ "(a+)+$", "", "a", "!", true },
		{ "^(a+)+$", "", "a", "!", true },
		{ "(a|a)*$", "", "a", "!", true },
		{ "(a|aa)+$", "", "a", "!", true },
		{ "^(a|a?)+$", "", "a", "!", true },
		{ "([a-zA-Z]+)*$", "", "a", "!", true },
		{ "(.*)*x", "", "a", "", false },
		{ "(.*a){20}", "", "a", "!", true },
		{ "(?:x+x+)+y", "", "x", "", false },
		{ "^(a?){30}a{30}$", "", "a", "!", true },
		{ "(x+)\\1+y", "", "x", "", true },
		{ "^(([a-z])+.)+[A-Z]([a-z])+$", "", "a", "!", true },
		{ "^([a-zA-Z0-9])(([\\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+[.]{1}(([a-z]{2,3})|([a-z]{2,3}[.]{1}[a-z]{2,3}))$", "", "a", "@", true },
		{ "^(\\w+([.-]?\\w+)*)@\\w+([.-]?\\w+)*(\\.\\w{2,3})+$", "a@", "a", ".!", true },
		{ "^(\\w+\\s?)*$", "", "a", "!", true },
		{ "\\s+$", "", " ", "x", true },
		{ "^\\s+|\\s+$", "x", " ", "x", true },
		{ "\\s*,\\s*$", "", " ", ", x", true },
		{ "^\\s*(,\\s*)*$", "", ",", "x", true },
		{ "^((?:\\d+)?\\-?\\d?\\.?\\d+) *(milliseconds?|msecs?|ms|seconds?)?$", "", "1", "x", true },
		{ "((h|H)(a|A)(n|N)|\\w+)*;Build$", "", "han", ";Build!", true },
		{ "; *([^;\\/]+) Build[\\/ ]Huawei(MT1-U06|[A-Z]+\\d+[^\\);]+)[^\\);]*\\)", "; ", "A", " Build/HuaweiA", false },
		{ "^(0|[1-9]\\d*)\\.(0|[1-9]\\d*)\\.(0|[1-9]\\d*)(-[0-9A-Za-z-]+(\\.[0-9A-Za-z-]+)*)*$", "1.2.3-", "a-", "!", true },
		{ "([^;,\\s]+\\s*)+;$", "", "a", ",;!", true },
		{ "(?:^|,)\\s*((?:\\w+\\s*)+)=", "", "a", "!=", true },
		{ "^(?:https?:\\/\\/)?(?:[\\w-]+\\.?)+(?:\\/[\\w.\\/-]*)*$", "", "a", "!", true },
		{ "^#([0-9a-f]{3}){1,2}(\\s*,\\s*#([0-9a-f]{3}){1,2})*$", "#fff", " , #fff", "!", true },
		{ "^(?:(?:[^\\s,\"]+|\"(?:[^\"\\\\]|\\\\.)*\")\\s*,?\\s*)+$", "", "a", "\"", true },
		{ "^(?:.*?,){11}P", "", "1,", "", true },
		{ "^(.*?)(\\w+)*,(.*?)$", "", "a", "!", true },
		/* loops that are never come back into, from each place to the end of the text */
		{ "[a-z]+@[a-z]+$", "", "a", "@!", true },
		{ "\\w+@\\w+\\.\\w+", "", "a", "@.", true },
		/* the same bytes looked at again and again */
		{ "(?=\\s*x)y", "", " ", "xy", true },
		{ "^(?:(?=a*b)a)*$", "", "a", "b!", true },
};

static void attack_text(const struct attack *a, size_t len, struct str *text)
{
	str_puts(text, a->before);
	while (text->len < len)
		str_puts(text, a->again);
	str_puts(text, a->after);
}

/* Nothing fits, and the price is bounded by the length: it buys backtracking points, not time (SEC S-209). */
static int attack(const struct regex *re, const struct str *text)
{
	struct regex_room *room = NULL;
	size_t steps = 0;
	int rc = regex_match(re, text->p, text->len, &room, &steps);

	assert_in_range(steps, 1, 8 + text->len / 16 + 1000 * (text->len / 100 + 1) + 100000);
	regex_room_free(&room);
	return rc;
}

static void published_attacks_end_within_the_match_limit_s209(void **state)
{
	static const size_t lens[] = { 30, 300, 3000, 30000 };

	for (size_t i = 0; i < NELEMS(attacks); i++) {
		struct arena *mem = arena_new(SCHEMA_MEMORY_MAX);
		const struct regex *re = NULL;
		bool stopped = false;

		assert_int_equal(regex_compile(mem, attacks[i].pattern, strlen(attacks[i].pattern), &re, NULL), 0);
		for (size_t k = 0; k < NELEMS(lens); k++) {
			struct str text = STR_INIT;
			int rc;

			attack_text(&attacks[i], lens[k], &text);
			rc = attack(re, &text);
			if (rc > 0)
				fail_msg("%s: fits", attacks[i].pattern);
			stopped |= rc == ERR_LIMIT;
			/* Through the keyword: invalid, whatever ended it. */
			assert_int_equal(match(attacks[i].pattern, text.p, text.len), rc ? ERR_LIMIT : ERR_INVALID);
			str_fini(&text);
		}
		if (stopped != attacks[i].stopped)
			fail_msg("%s: stopped %d", attacks[i].pattern, stopped);
		arena_free(&mem);
	}
}

static void dots_in_front_cost_nothing(void **state)
{
	size_t len = 200000;
	char *text = mem_alloc(len);

	memset(text, 'o', len);
	memcpy(text, "foo", 3);
	assert_int_equal(match(".*foo", text, len), 0);
	assert_int_equal(match(".*?foo.*", text, len), 0);
	assert_int_equal(match(".*.*f", text, len), 0);
	assert_int_equal(match(".*a|f", text, 30), 0);
	assert_int_equal(match(".*b.*", text, len), ERR_INVALID);
	assert_int_equal(match(".*", text, len), 0);
	free(text);
	assert_int_equal(match(".*^b", "a\nb", 3), ERR_INVALID);
	assert_int_equal(match(".*(?<=a)b", "ab", 2), 0);
}

SINGLE_THREAD_SUITE(pattern)
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
		cmocka_unit_test(published_attacks_end_within_the_match_limit_s209),
		cmocka_unit_test(dots_in_front_cost_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
