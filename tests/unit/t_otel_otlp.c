/* OTLP: attributes and the frame of a request to the byte, and what is made of a collector's answer. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "otel/otlp.h"
#include "otel/pb.h"
#include "suite.h"

static void attributes_are_key_and_one_value(void **state)
{
	struct str s = STR_INIT;

	otlp_text(&s, 9, "a", "b");
	otlp_int(&s, 9, "n", 0);
	otlp_int(&s, 9, "n", -1);
	assert_int_equal(s.len, 10 + 9 + 18);
	assert_memory_equal(s.p, "\x4a\x08\x0a\x01" "a\x12\x03\x0a\x01" "b"
			    "\x4a\x07\x0a\x01n\x12\x02\x18\x00"
			    "\x4a\x10\x0a\x01n\x12\x0b\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", s.len);
	str_fini(&s);
}

/* The value of the one attribute in s: its bytes, of a text. */
static struct pb_field value_of(const struct str *s)
{
	const uint8_t *p = (const uint8_t *)s->p, *end = p + s->len;
	struct pb_field f, key, any, value;

	assert_int_equal(pb_next(&p, end, &f), 1);
	p = f.p;
	assert_int_equal(pb_next(&p, f.p + f.len, &key), 1);
	assert_int_equal(pb_next(&p, f.p + f.len, &any), 1);
	p = any.p;
	assert_int_equal(pb_next(&p, any.p + any.len, &value), 1);
	return value;
}

static void a_text_is_utf8_without_what_nobody_sees_and_bounded(void **state)
{
	struct str s = STR_INIT;
	char text[OTLP_VALUE_MAX + 2];
	struct pb_field v;

	otlp_text_n(&s, 1, "k", "a\0b\xff\xe2\x80\xae", 7);
	v = value_of(&s);
	assert_int_equal(v.len, strlen("a\\x00b\\xff\\u{202e}"));
	assert_memory_equal(v.p, "a\\x00b\\xff\\u{202e}", v.len);
	str_reset(&s);
	otlp_text_n(&s, 1, "k", "a\x7f", 2);
	v = value_of(&s);
	assert_int_equal(v.len, strlen("a\\x7f"));
	assert_memory_equal(v.p, "a\\x7f", v.len);
	memset(text, 'x', sizeof(text));
	for (size_t len = OTLP_VALUE_MAX - 1; len <= OTLP_VALUE_MAX + 1; len++) {
		str_reset(&s);
		otlp_text_n(&s, 1, "k", text, len);
		assert_int_equal(value_of(&s).len, len < OTLP_VALUE_MAX ? len : OTLP_VALUE_MAX);
	}
	memcpy(text + OTLP_VALUE_MAX - 1, "\xc3\xa4", 2);       /* a character that does not fit whole is left out */
	str_reset(&s);
	otlp_text_n(&s, 1, "k", text, OTLP_VALUE_MAX + 1);
	assert_int_equal(value_of(&s).len, OTLP_VALUE_MAX - 1);
	str_fini(&s);
}

static void a_request_is_one_resource_and_one_scope(void **state)
{
	struct str resource = STR_INIT, items = STR_INIT, out = STR_INIT;

	otlp_text(&resource, OTLP_RESOURCE_ATTRIBUTE, "a", "b");
	pb_bytes(&items, OTLP_ITEM, "X", 1);
	pb_bytes(&items, OTLP_ITEM, "", 0);
	otlp_put_request(&out, &(struct otlp_frame){ &resource, "crib", "1", &items });
	assert_int_equal(out.len, 2 + 12 + 2 + 11 + 5);
	assert_memory_equal(out.p, "\x0a\x1e"
			    "\x0a\x0a\x0a\x08\x0a\x01" "a\x12\x03\x0a\x01" "b"
			    "\x12\x10\x0a\x09\x0a\x04" "crib\x12\x01" "1"
			    "\x12\x01X\x12\x00", out.len);
	str_fini(&resource);
	str_fini(&items);
	str_fini(&out);
}

static void an_answer_says_how_many_were_refused(void **state)
{
	static const struct { const char *body; size_t len; int rc; uint64_t rejected; const char *why; } rows[] = {
		{ "", 0, 0, 0, "" },
		{ "\x0a\x00", 2, 0, 0, "" },
		{ "\x0a\x02\x08\x07", 4, 0, 7, "" },
		{ "\x0a\x06\x08\x07\x12\x02no", 8, 0, 7, "no" },
		{ "\x0a\x04\x12\x02\x1b[", 6, 0, 0, "\\x1b[" },
		{ "\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13, 0, 0, "" },  /* -1 */
		{ "\x12\x01x\x0a\x02\x08\x07", 7, 0, 7, "" },                             /* a field that is not known */
		{ "\x08\x01", 2, ERR_INVALID, 99, "" },
		{ "\x0a\x02\x0a\x00", 4, ERR_INVALID, 99, "" },
		{ "\x0a\x03\x08\x07", 4, ERR_INVALID, 99, "" },
		{ "{}", 2, ERR_INVALID, 99, "" },
		{ "<html>", 6, ERR_INVALID, 99, "" },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		uint64_t rejected = 99;
		char why[16];

		assert_int_equal(otlp_read_answer(rows[i].body, rows[i].len, &rejected, why, sizeof(why)), rows[i].rc);
		assert_int_equal(rejected, rows[i].rejected);
		assert_string_equal(why, rows[i].why);
	}
}

static void only_what_will_pass_is_tried_again(void **state)
{
	static const int yes[] = { 429, 502, 503, 504 };
	size_t n = 0;

	for (int status = 100; status < 600; status++) {
		n += otlp_may_retry(status);
		for (size_t i = 0; i < NELEMS(yes); i++)
			assert_true(status != yes[i] || otlp_may_retry(status));
	}
	assert_int_equal(n, NELEMS(yes));
}

SINGLE_THREAD_SUITE(otel_otlp)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attributes_are_key_and_one_value),
		cmocka_unit_test(a_text_is_utf8_without_what_nobody_sees_and_bounded),
		cmocka_unit_test(a_request_is_one_resource_and_one_scope),
		cmocka_unit_test(an_answer_says_how_many_were_refused),
		cmocka_unit_test(only_what_will_pass_is_tried_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
