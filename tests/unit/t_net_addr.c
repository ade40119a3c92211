/* Addresses of listeners, and lines of byte streams. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "net/addr.h"
#include "net/stream.h"
#include "suite.h"

static void addresses_come_back_as_written(void **state)
{
	const struct { const char *text, *host; bool loopback; } good[] = {
		{ "127.0.0.1:8808", "127.0.0.1", true }, { "127.9.9.9:0", "127.9.9.9", true },
		{ "0.0.0.0:65535", "0.0.0.0", false },   { "192.168.1.1:80", "192.168.1.1", false },
		{ "[::1]:0", "::1", true },              { "[::]:80", "::", false },
		{ "[::ffff:127.0.0.1]:1", "::ffff:127.0.0.1", true },
		{ "[1111:2222:3333:4444:5555:6666:7777:8888]:65535", "1111:2222:3333:4444:5555:6666:7777:8888", false },
	};
	for (size_t i = 0; i < NELEMS(good); i++) {
		struct addr a;
		char text[ADDR_TEXT_SIZE];
		assert_int_equal(addr_parse(good[i].text, &a, NULL), 0);
		assert_string_equal(addr_format(&a, text), good[i].text);
		assert_string_equal(addr_format_host(&a, text), good[i].host);
		assert_int_equal(addr_is_loopback(&a), good[i].loopback);
	}
}

static void what_is_no_address_is_refused(void **state)
{
	const char *const bad[] = { "", "127.0.0.1", ":80", "localhost:80", "127.0.0.1:", "127.0.0.1:65536",
				    "127.0.0.1:-1", "127.0.0.1:+1", "127.0.0.1: 1", "127.1:80", "::1:80", "[::1]80",
				    "[::1:80", "[127.0.0.1]:80", "[::1%lo]:80", "0177.0.0.1:80", "127.0.0.1:80x",
				    "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:80" };
	for (size_t i = 0; i < NELEMS(bad); i++) {
		struct addr a;
		struct err err;
		if (addr_parse(bad[i], &a, &err) != ERR_INVALID)
			fail_msg("accepted: %s", bad[i]);
		assert_string_equal(err.where, bad[i]);
	}
}

#define LINE_MAX_HERE 5

/* Feed text in pieces of `step` bytes; what comes out is joined: lines in <>, the end at one too long as !. */
static void feed(const char *text, size_t step, struct str *out)
{
	size_t len = strlen(text), start = 0, searched = 0, n = 0;
	str_reset(out);
	for (size_t have = 0; have < len;) {
		have = have + step < len ? have + step : len;
		ssize_t used;
		while ((used = line_next(text + start, have - start, searched, LINE_MAX_HERE, &n)) > 0) {
			str_putc(out, '<');
			str_put(out, text + start, n);
			str_putc(out, '>');
			start += (size_t)used;
			searched = 0;
		}
		searched = have - start;
		if (used < 0) {
			str_putc(out, '!');
			return;
		}
	}
}

static void lines_do_not_depend_on_how_bytes_are_split(void **state)
{
	const struct { const char *in, *out; } cases[] = {
		{ "a\nbc\r\n\n\r\nx", "<a><bc><><>" }, { "12345\n12345\r\n", "<12345><12345>" },
		{ "ok\n123456\nok\n", "<ok>!" },       { "123456\r\n", "!" },
		{ "12345\rx\n", "!" },                 { "a\rb\r\r\n", "<a\rb\r>" },
		{ "", "" },
	};
	for (size_t i = 0; i < NELEMS(cases); i++) {
		for (size_t step = 1; step < 20; step++) {
			struct str out = STR_INIT;
			feed(cases[i].in, step, &out);
			assert_string_equal(str_text(&out), cases[i].out);
			str_fini(&out);
		}
	}
}

SINGLE_THREAD_SUITE(addr)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_come_back_as_written),
		cmocka_unit_test(what_is_no_address_is_refused),
		cmocka_unit_test(lines_do_not_depend_on_how_bytes_are_split),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
