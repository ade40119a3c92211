/* Protocol Buffers: each kind of field as its documentation and others' writers have it, and what is refused. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "otel/pb.h"
#include "suite.h"

static void assert_bytes(const struct str *s, const char *hex)
{
	char text[2 * 256 + 1];

	assert_false(s->failed);
	assert_in_range(s->len, 0, 256);
	text_hex(s->p, s->len, text);
	assert_string_equal(text, hex);
}

/* The examples of protobuf.dev, "Encoding", and what protoc --encode writes. */
static void fields_are_written_as_others_write_them(void **state)
{
	struct str s = STR_INIT;

	pb_uint(&s, 1, 150);
	assert_bytes(&s, "089601");
	str_reset(&s);
	pb_text(&s, 2, "testing");
	assert_bytes(&s, "120774657374696e67");
	str_reset(&s);
	pb_uint(&s, 3, (uint64_t)INT64_C(-2));
	assert_bytes(&s, "18feffffffffffffffff01");
	str_reset(&s);
	pb_fixed64(&s, 7, UINT64_C(0x0102030405060708));
	assert_bytes(&s, "390807060504030201");
	str_reset(&s);
	pb_fixed32(&s, 16, 0x301);
	assert_bytes(&s, "850101030000");
	str_reset(&s);
	pb_bytes(&s, 1, "\0\xff", 2);
	assert_bytes(&s, "0a0200ff");
	str_reset(&s);
	pb_uint(&s, PB_FIELD_MAX, 0);
	assert_bytes(&s, "f8ffffff0f00");
	str_fini(&s);
}

static void a_message_has_the_length_of_what_was_written_into_it(void **state)
{
	static const size_t lens[] = { 0, 1, 125, 126, 127, 128, 16380, 16381, 16382, 16384, 2097152 };
	static char fill[2097152];

	for (size_t i = 0; i < NELEMS(lens); i++) {
		struct str s = STR_INIT;
		struct pb_field outer, inner;
		const uint8_t *p, *end;

		str_puts(&s, "x");
		const size_t a = pb_open(&s, 3), b = pb_open(&s, 1);

		str_put(&s, fill, lens[i]);
		pb_close(&s, b);
		pb_uint(&s, 2, 1);
		pb_close(&s, a);
		p = (const uint8_t *)s.p + 1;
		end = p + s.len - 1;
		assert_int_equal(pb_next(&p, end, &outer), 1);
		assert_int_equal(outer.number, 3);
		assert_ptr_equal(p, end);
		p = outer.p;
		assert_int_equal(pb_next(&p, outer.p + outer.len, &inner), 1);
		assert_int_equal(inner.len, lens[i]);
		assert_int_equal(pb_next(&p, outer.p + outer.len, &inner), 1);
		assert_int_equal(inner.number, 2);
		assert_int_equal(pb_next(&p, outer.p + outer.len, &inner), 0);
		str_fini(&s);
	}
}

static void a_string_that_is_full_fails_and_stays_within_its_limit(void **state)
{
	for (size_t max = 1; max < 300; max++) {
		struct str s = STR_INIT;
		size_t a, b;

		str_init(&s, max);
		a = pb_open(&s, 1);
		b = pb_open(&s, 2);
		for (unsigned i = 0; i < 200; i++)
			str_putc(&s, 'x');
		pb_close(&s, b);
		pb_close(&s, a);
		assert_int_equal(s.failed, max < 206);
		assert_in_range(s.len, 0, max);
		str_fini(&s);
	}
}

static void what_is_no_message_is_refused(void **state)
{
	static const struct { const char *bytes; size_t len; } bad[] = {
		{ "\x08", 1 }, { "\x08\x80", 2 }, { "\x0a\x02x", 3 }, { "\x09\1\2\3\4\5\6\7", 8 }, { "\x0d\1\2\3", 4 },
		{ "\x0b", 1 }, { "\x0c", 1 }, { "\x0e", 1 }, { "\x0f", 1 },             /* groups, and no types */
		{ "\x00\x00", 2 },                                                      /* field 0 */
		{ "\x80\x80\x80\x80\x10\x00", 6 },                                      /* a field beyond the last */
		{ "\x08\x80\x00", 3 }, { "\x88\x00\x01", 3 },                           /* longer than it need be */
		{ "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 },
	};

	for (size_t i = 0; i < NELEMS(bad); i++) {
		const uint8_t *p = (const uint8_t *)bad[i].bytes, *const begin = p;
		struct pb_field f = { .number = 99 };

		assert_int_equal(pb_next(&p, begin + bad[i].len, &f), ERR_INVALID);
		assert_ptr_equal(p, begin);
		assert_int_equal(f.number, 99);
	}
}

SINGLE_THREAD_SUITE(otel_pb)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_are_written_as_others_write_them),
		cmocka_unit_test(a_message_has_the_length_of_what_was_written_into_it),
		cmocka_unit_test(a_string_that_is_full_fails_and_stays_within_its_limit),
		cmocka_unit_test(what_is_no_message_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
