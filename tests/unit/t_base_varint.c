/* Numbers of any size as bytes. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/varint.h"
#include "suite.h"

static void numbers_are_written_as_others_read_them(void **state)
{
	static const struct { uint64_t v; size_t len; uint8_t p[VARINT_MAX]; } rows[] = {
		{ 0, 1, { 0 } }, { 1, 1, { 1 } }, { 127, 1, { 0x7F } }, { 128, 2, { 0x80, 1 } }, { 300, 2, { 0xAC, 2 } },
		{ 16383, 2, { 0xFF, 0x7F } }, { 16384, 3, { 0x80, 0x80, 1 } },
		{ INT64_MAX, 9, { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F } },
		{ UINT64_C(1) << 63, 10, { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1 } },
		{ UINT64_MAX, 10, { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1 } },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		uint8_t p[VARINT_MAX + 1];
		uint64_t v = 77;

		memset(p, 0x55, sizeof(p));
		assert_ptr_equal(put_varint(p, rows[i].v), p + rows[i].len);
		assert_memory_equal(p, rows[i].p, rows[i].len);
		assert_int_equal(p[rows[i].len], 0x55);
		assert_ptr_equal(get_varint(p, p + sizeof(p), &v), p + rows[i].len);
		assert_true(v == rows[i].v);
		for (size_t cut = 0; cut < rows[i].len; cut++)
			assert_null(get_varint(p, p + cut, &v));
	}
}

static void every_length_has_its_first_and_its_last(void **state)
{
	for (unsigned bits = 1; bits <= 64; bits++) {
		const uint64_t last = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1, at[] = { last / 2 + 1, last - 1, last };

		for (size_t i = 0; i < NELEMS(at); i++) {
			uint8_t p[VARINT_MAX], *end = put_varint(p, at[i]);
			uint64_t v;

			assert_int_equal(end - p, at[i] == 0 ? 1 : (64 - __builtin_clzll(at[i]) + 6) / 7);
			assert_ptr_equal(get_varint(p, end, &v), end);
			assert_true(v == at[i]);
		}
	}
}

/* Two ways to write one number would be two leaves of one record. */
static void each_number_has_one_way(void **state)
{
	static const uint8_t bad[][VARINT_MAX + 1] = {
		{ 0x80, 0 }, { 0xFF, 0 }, { 0x81, 0x80, 0 },                                    /* longer than it need be */
		{ 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2 },                    /* 65 bits */
		{ 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x81, 0 },
		{ 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1 },              /* one byte more */
	};
	uint64_t v = 77;

	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_null(get_varint(bad[i], bad[i] + sizeof(bad[i]), &v));
	assert_int_equal(v, 77);
}

static void signs_fold_into_small_numbers(void **state)
{
	static const struct { int64_t v; uint64_t folded; } rows[] = {
		{ 0, 0 }, { -1, 1 }, { 1, 2 }, { -2, 3 }, { INT64_MAX, UINT64_MAX - 1 }, { INT64_MIN, UINT64_MAX } };

	for (size_t i = 0; i < NELEMS(rows); i++) {
		assert_true(zigzag(rows[i].v) == rows[i].folded);
		assert_true(unzigzag(rows[i].folded) == rows[i].v);
	}
}

SINGLE_THREAD_SUITE(varint)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_written_as_others_read_them),
		cmocka_unit_test(every_length_has_its_first_and_its_last),
		cmocka_unit_test(each_number_has_one_way),
		cmocka_unit_test(signs_fold_into_small_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
