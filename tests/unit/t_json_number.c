/* Numbers: what a tree keeps of them, their digits, order and text. */
#include "config.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "json_text.h"
#include "suite.h"

static void parse_keeps_what_no_integer_and_no_double_holds_s205(void **state)
{
	static const struct { const char *text; enum jx_kind kind; } rows[] = {
		{ "0", JX_INTEGER }, { "-0", JX_INTEGER }, { "9223372036854775807", JX_INTEGER },
		{ "-9223372036854775808", JX_INTEGER }, { "9223372036854775808", JX_TEXT },
		{ "-9223372036854775809", JX_TEXT }, { "0.1", JX_REAL }, { "1.0", JX_REAL }, { "1e5", JX_REAL },
		{ "1.7976931348623157e308", JX_REAL }, { "1.7976931348623159e308", JX_TEXT }, { "1e309", JX_TEXT },
		{ "5e-324", JX_REAL }, { "4e-324", JX_TEXT }, { "1e-400", JX_TEXT }, { "0.30000000000000004", JX_REAL },
		{ "0.30000000000000003", JX_TEXT }, { "0.1000000000000000055511151231257827", JX_TEXT },
		{ "9007199254740992.0", JX_REAL }, { "9007199254740993.0", JX_TEXT }, { "0.0", JX_REAL },
		{ "0e1000000000", JX_REAL }, { "1.00000000000000000000000000000", JX_REAL },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		json_t *v = parse(rows[i].text);

		if (jx_number(v).kind != rows[i].kind)
			fail_msg("%s", rows[i].text);
		if (rows[i].kind == JX_TEXT)
			assert_string_equal(jx_number(v).text, rows[i].text);
		assert_true(json_is_number(v));
		json_decref(v);
	}
}

static int parse_digits(size_t n, const char *tail)
{
	struct str text = STR_INIT;
	json_t *v = NULL;
	struct err e;
	int rc;

	str_puts(&text, "[0, 1");
	for (size_t i = 1; i < n; i++)
		str_putc(&text, '7');
	str_printf(&text, "%s]", tail);
	rc = jx_parse(text.p, text.len, &v, &e);
	if (rc)
		assert_string_equal(e.where, "byte 5");
	json_decref(v);
	str_fini(&text);
	return rc;
}

static void parse_limits_digits_and_exponents(void **state)
{
	assert_int_equal(parse_digits(JX_DIGITS_MAX, ""), 0);
	assert_int_equal(parse_digits(JX_DIGITS_MAX + 1, ""), ERR_LIMIT);
	assert_int_equal(parse_digits(JX_DIGITS_MAX, "0000.000e5"), 0);
	assert_int_equal(parse_digits(JX_DIGITS_MAX, ".0001"), ERR_LIMIT);
	assert_int_equal(parse_digits(1, "e1000000000"), 0);
	assert_int_equal(parse_digits(1, "e1000000001"), ERR_LIMIT);
	assert_int_equal(parse_digits(1, "e-1000000000"), 0);
	assert_int_equal(parse_digits(1, "E-99999999999999999999999999"), ERR_LIMIT);
	/* With one digit before the point, as it may be written again. */
	assert_int_equal(parse_digits(3, "e999999998"), 0);
	assert_int_equal(parse_digits(3, "e999999999"), ERR_LIMIT);
	assert_int_equal(parse_digits(1, "0e999999999"), 0);
	assert_int_equal(parse_digits(1, "0e1000000000"), ERR_LIMIT);
}

static void numbers_are_written_as_they_came(void **state)
{
	static const struct { const char *text, *compact, *canon, *words; } rows[] = {
		{ "123456789012345678901234567890", "123456789012345678901234567890", "1.2345678901234567890123456789e+29",
		  "123456789012345678901234567890" },
		{ "-1e400", "-1e400", "-1e+400", "-1e400" }, { "9007199254740993.0", "9007199254740993.0", "9007199254740993",
		  "9007199254740993.0" },
		{ "1.0", "1.0", "1", "1" }, { "1e2", "100.0", "100", "100" }, { "1.50", "1.5", "1.5", "1.5" }, { "-7", "-7", "-7", "-7" },
		{ "0.100000000000000000000001", "0.100000000000000000000001", "0.100000000000000000000001",
		  "0.100000000000000000000001" },
		{ "10000000000000000000", "10000000000000000000", "1e+19", "10000000000000000000" }, { "1e19", "10000000000000000000.0",
		  "1e+19", "10000000000000000000" },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		struct str compact = STR_INIT, canon = STR_INIT, words = STR_INIT;
		json_t *v = parse(rows[i].text), *back;

		jx_write(v, &compact);
		jx_write_canon(v, &canon);
		jx_write_number(jx_number(v), &words);
		assert_string_equal(compact.p, rows[i].compact);
		assert_string_equal(canon.p, rows[i].canon);
		assert_string_equal(words.p, rows[i].words);
		back = parse(canon.p);
		assert_true(jx_equal(v, back));
		json_decref(v);
		json_decref(back);
		str_fini(&compact);
		str_fini(&canon);
		str_fini(&words);
	}
}

static void nearest_is_a_double_in_any_case(void **state)
{
	static const struct { const char *text; double d; } rows[] = {
		{ "3", 3 }, { "2.5", 2.5 }, { "18446744073709551616", 18446744073709551616.0 }, { "1e400", DBL_MAX },
		{ "-1e400", -DBL_MAX }, { "1e-400", 0 }, { "0.1000000000000000055511151231257827", 0.1 },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		json_t *v = parse(rows[i].text);

		assert_true(jx_nearest(v) == rows[i].d);
		json_decref(v);
	}
}

/* The samples of RFC 8785 appendix B (three of them beyond int64, hence with an exponent), a power of two
 * whose shortest form is not the rounded one, the last double within int64 and the first beyond it. */
static void canon_numbers_read_back_as_equal_values(void **state)
{
	static const struct { uint64_t bits; const char *text; } rows[] = {
		{ 0x0000000000000000, "0" }, { 0x8000000000000000, "0" }, { 0x0000000000000001, "5e-324" },
		{ 0x8000000000000001, "-5e-324" }, { 0x7fefffffffffffff, "1.7976931348623157e+308" },
		{ 0xffefffffffffffff, "-1.7976931348623157e+308" }, { 0x4340000000000000, "9007199254740992" },
		{ 0xc340000000000000, "-9007199254740992" }, { 0x4430000000000000, "2.9514790517935283e+20" },
		{ 0x44b52d02c7e14af5, "9.999999999999997e+22" }, { 0x44b52d02c7e14af6, "1e+23" },
		{ 0x44b52d02c7e14af7, "1.0000000000000001e+23" }, { 0x444b1ae4d6e2ef4e, "9.999999999999997e+20" },
		{ 0x444b1ae4d6e2ef4f, "9.999999999999999e+20" }, { 0x444b1ae4d6e2ef50, "1e+21" },
		{ 0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7" }, { 0x3eb0c6f7a0b5ed8d, "0.000001" },
		{ 0x41b3de4355555553, "333333333.3333332" }, { 0x41b3de4355555554, "333333333.33333325" },
		{ 0x41b3de4355555555, "333333333.3333333" }, { 0x41b3de4355555556, "333333333.3333334" },
		{ 0x41b3de4355555557, "333333333.33333343" }, { 0xbecbf647612f3696, "-0.0000033333333333333333" },
		{ 0x43143ff3c1cb0959, "1424953923781206.2" }, { 0x3d30000000000000, "5.684341886080802e-14" },
		{ 0x43dfffffffffffff, "9223372036854775000" }, { 0x43e0000000000000, "9.223372036854776e+18" },
		{ 0xc3e0000000000000, "-9.223372036854776e+18" }, { 0x3ff8000000000000, "1.5" },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		struct str out = STR_INIT;
		json_t *v, *back;
		double d;

		memcpy(&d, &rows[i].bits, sizeof d);
		v = json_real(d);
		jx_write_canon(v, &out);
		assert_string_equal(out.p, rows[i].text);
		back = parse(out.p);
		assert_true(jx_equal(v, back));
		str_fini(&out);
		json_decref(v);
		json_decref(back);
	}
}

static void write_then_parse_gives_the_same_number(void **state)
{
	uint64_t bits = 88172645463325252;

	for (int i = 0; i < 20000; i++) {
		struct str out = STR_INIT;
		json_t *v, *back;
		double d;

		bits ^= bits << 13;
		bits ^= bits >> 7;
		bits ^= bits << 17;
		memcpy(&d, &bits, sizeof d);
		if (!isfinite(d) || d == 0)
			continue;
		v = json_real(d);
		jx_write(v, &out);
		back = parse(out.p);
		assert_true(json_is_real(back) && json_real_value(back) == d);
		json_decref(v);
		json_decref(back);
		str_fini(&out);
	}
}

static int compare(const char *a, const char *b)
{
	json_t *x = parse(a), *y = parse(b);
	int r = jx_compare(jx_number(x), jx_number(y));

	assert_int_equal(jx_compare(jx_number(y), jx_number(x)), -r);
	json_decref(x);
	json_decref(y);
	return r;
}

static void compare_is_exact(void **state)
{
	assert_int_equal(compare("9007199254740993", "9007199254740992.0"), 1);
	assert_int_equal(compare("9007199254740991", "9007199254740992.0"), -1);
	assert_int_equal(compare("9223372036854775807", "9223372036854775808.0"), -1);
	assert_int_equal(compare("1", "1.5"), -1);
	assert_int_equal(compare("-1", "-1.5"), 1);
	assert_int_equal(compare("9223372036854775807", "1e300"), -1);
	assert_int_equal(compare("-9223372036854775808", "-1e300"), 1);
	assert_int_equal(compare("2", "2.0"), 0);
	assert_int_equal(compare("0.5", "0.25"), 1);
	assert_int_equal(compare("-7", "3"), -1);
	/* A double stands for the digits that were written, not for its binary value. */
	assert_int_equal(compare("1152921504606846976", "1152921504606847000.0"), -1);
	assert_int_equal(compare("1152921504606847000", "1152921504606847000.0"), 0);
	assert_int_equal(compare("100000000000000000000000", "1e23"), 0);
	assert_int_equal(compare("123456789012345678901234567890", "123456789012345678901234567891"), -1);
	assert_int_equal(compare("-123456789012345678901234567890", "-123456789012345678901234567891"), 1);
	assert_int_equal(compare("972783798187987123879878123.188781371", "972783798187987123879878123.18878137"), 1);
	assert_int_equal(compare("0.1", "0.1000000000000000055511151231257827"), -1);
	assert_int_equal(compare("1e400", "1e401"), -1);
	assert_int_equal(compare("-1e400", "1"), -1);
	assert_int_equal(compare("1e-400", "0"), 1);
	assert_int_equal(compare("-1e-400", "0.0"), -1);
	assert_int_equal(compare("10e399", "0.001e403"), 0);
	assert_int_equal(compare("9223372036854775807", "9223372036854775808"), -1);
	assert_int_equal(compare("0", "-0.0"), 0);
}

static void integers_are_recognised_by_value(void **state)
{
	static const struct { const char *text; bool is; } rows[] = {
		{ "1", true }, { "1.0", true }, { "1e300", true }, { "-0.0", true }, { "1.5", false }, { "\"1\"", false },
		{ "123456789012345678901234567890", true }, { "1e400", true }, { "1e-400", false },
		{ "12345678901234567890.5", false }, { "12345678901234567890.0", true }, { "true", false }, { "null", false },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		json_t *v = parse(rows[i].text);

		assert_int_equal(jx_is_integer(v), rows[i].is);
		json_decref(v);
	}
}

static void decimal_has_the_digits_as_written(void **state)
{
	static const struct { const char *text, *digits; int exp10; bool negative; } rows[] = {
		{ "0", "", 0, false }, { "-1200", "12", 2, true }, { "9223372036854775807", "9223372036854775807", 0, false },
		{ "-9223372036854775808", "9223372036854775808", 0, true }, { "0.0075", "75", -4, false },
		{ "1e308", "1", 308, false }, { "-12.5", "125", -1, true }, { "0.0", "", 0, false }, { "0e5", "", 0, false },
		{ "100200300400500600700.00800", "100200300400500600700008", -3, false }, { "1e400", "1", 400, false },
		{ "-0.00012345678901234567890E+5", "1234567890123456789", -17, true }, { "1000E-1000000000", "1", -999999997, false },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		json_t *v = parse(rows[i].text);
		struct jx_decimal d;

		jx_decimal(jx_number(v), &d);
		assert_int_equal(d.n, strlen(rows[i].digits));
		assert_memory_equal(d.digits, rows[i].digits, d.n);
		assert_int_equal(d.exp10, rows[i].exp10);
		assert_true(d.negative == rows[i].negative || !d.n);
		json_decref(v);
	}
}

SINGLE_THREAD_SUITE(number)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse_keeps_what_no_integer_and_no_double_holds_s205),
		cmocka_unit_test(parse_limits_digits_and_exponents),
		cmocka_unit_test(numbers_are_written_as_they_came),
		cmocka_unit_test(nearest_is_a_double_in_any_case),
		cmocka_unit_test(canon_numbers_read_back_as_equal_values),
		cmocka_unit_test(write_then_parse_gives_the_same_number),
		cmocka_unit_test(compare_is_exact),
		cmocka_unit_test(integers_are_recognised_by_value),
		cmocka_unit_test(decimal_has_the_digits_as_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
