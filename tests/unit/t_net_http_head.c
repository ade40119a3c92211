/* Heads and bodies of requests: what is refused, with which status, whatever the split (SEC S-110 to S-117,
 * S-B14). */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "net/http_server.h"
#include "suite.h"

#define BODY_MAX 64

/* Read one request in pieces of step bytes.  0: complete, *ret_len bytes of it, the body in *body; 1: more is
 * needed; else the status of the refusal. */
static int read_request(const char *p, size_t len, size_t step, size_t *ret_len, struct str *body)
{
	struct http_head h;
	long n = 0;
	size_t have = 0;
	while (n == 0 && have < len) {
		have = have + step < len ? have + step : len;
		n = http_head_parse(p, have, &h);
		if (n < 0)
			assert_non_null(h.why);
	}
	if (n <= 0)
		return n < 0 ? (int)-n : 1;
	struct http_body b;
	int done = http_body_init(&b, &h, BODY_MAX);
	if (done < 0)
		return -done;
	size_t at = (size_t)n;
	for (done = b.state == HTTP_BODY_DONE; !done;) {
		size_t used, data, ndata;
		if (at == have && have == len)
			return 1;
		if (at == have)
			have = have + step < len ? have + step : len;
		done = http_body_take(&b, p + at, have - at, &used, &data, &ndata);
		if (done < 0)
			return -done;
		str_put(body, p + at + data, ndata);
		at += used;
	}
	*ret_len = at;
	return 0;
}

struct raw { const char *text; int status; };

static void check_table(const struct raw *t, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(t[i].text), used = 0, first_used = 0;
		for (size_t step = 1; step <= len; step++) {
			struct str body = STR_INIT;
			int got = read_request(t[i].text, len, step, &used, &body);
			str_fini(&body);
			if (got != t[i].status)
				fail_msg("%d instead of %d at step %zu for:\n%s", got, t[i].status, step, t[i].text);
			if (step == 1)
				first_used = used;
			assert_int_equal(used, first_used);
		}
	}
}

#define H "Host: x\r\n"
#define POST "POST /mcp HTTP/1.1\r\n" H

static const struct raw good[] = {
	{ "GET / HTTP/1.1\r\n" H "\r\n", 0 },
	{ "GET / HTTP/1.0\r\n" H "\r\n", 0 },
	{ "DELETE /mcp?x=%20&y HTTP/1.1\r\nhOST:\t x:80 \r\n\r\n", 0 },
	{ "GET http://x/mcp HTTP/1.1\r\n" H "\r\n", 0 },
	{ "GET http://[::1]:8808/mcp HTTP/1.1\r\nHost: [::1]:8808\r\n\r\n", 0 },
	{ "OPTIONS * HTTP/1.1\r\n" H "\r\n", 0 },
	{ "GET / HTTP/1.1\r\n" H "X-Empty:\r\nX-Latin: \xe9\r\n\r\n", 0 },
	{ "GET / HTTP/1.1\r\n" H "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n", 0 },
	{ POST "Content-Length: 0\r\n\r\n", 0 },
	{ POST "Content-Length: 5\r\n\r\nhello", 0 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 0 },
	{ POST "Transfer-Encoding: Chunked\r\n\r\n00000005;a=\"b\"\r\nhello\r\nA\r\n0123456789\r\n0\r\nX-T: 1\r\n\r\n", 0 },
	{ POST "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\nx", 0 },
	{ POST "Content-Length: 5\r\n\r\nhell", 1 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n0\r\n", 1 },
	{ "GET / HTTP/1.1\r\n" H, 1 },
};

static const struct raw smuggling[] = {
	/* Two ways to tell the length, or one told twice. */
	{ POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400 },
	{ POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400 },
	{ POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400 },
	{ POST "Content-Length: 5, 5\r\n\r\nhello", 400 },
	{ POST "Content-Length: +5\r\n\r\nhello", 400 },
	{ POST "Content-Length: -5\r\n\r\nhello", 400 },
	{ POST "Content-Length: 0x5\r\n\r\nhello", 400 },
	{ POST "Content-Length: 05\r\n\r\nhello", 400 },
	{ POST "Content-Length: 00\r\n\r\n", 400 },
	{ POST "Content-Length: 5 5\r\n\r\nhello", 400 },
	{ POST "Content-Length: 5.0\r\n\r\nhello", 400 },
	{ POST "Content-Length:\r\n\r\n", 400 },
	{ POST "Content-Length: 9223372036854775808\r\n\r\n", 400 },
	{ POST "Content-Length: 18446744073709551617\r\n\r\n", 400 },
	{ POST "Content-Length : 5\r\n\r\nhello", 400 },
	{ POST "Content-Length\t: 5\r\n\r\nhello", 400 },
	{ POST " Content-Length: 5\r\n\r\nhello", 400 },
	{ POST "Content-Length: 5\r\n 6\r\n\r\nhello", 400 },
	{ POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: identity\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding:\r\n\r\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding:\x0b" "chunked\r\n\r\n0\r\n\r\n", 400 },
	{ "POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400 },
	/* Lines. */
	{ "GET / HTTP/1.1\n" H "\r\n", 400 },
	{ "GET / HTTP/1.1\r\nHost: x\n\r\n", 400 },
	{ "GET / HTTP/1.1\r\nHost: x\r\n\n", 400 },
	{ "GET / HTTP/1.1\r\r\n" H "\r\n", 400 },
	{ "GET / HTTP/1.1\r\nHost: x\rX: y\r\n\r\n", 400 },
	{ "GET / HTTP/1.1\r\n" H "X: a\r\n\tb\r\n\r\n", 400 },
	{ "GET / HTTP/1.1\r\n" H ": y\r\n\r\n", 400 },
	{ "GET / HTTP/1.1\r\n" H "no colon\r\n\r\n", 400 },
	{ "GET / HTTP/1.1\r\n" H "X y: 1\r\n\r\n", 400 },
	{ "GET / HTTP/1.1\r\n" H "X: \x01\r\n\r\n", 400 },
	{ "GET / HTTP/1.1\r\n" H "X: \x7f\r\n\r\n", 400 },
	{ "GET / HTTP/1.1\r\n" H "X\xe9: 1\r\n\r\n", 400 },
	{ "\r\nGET / HTTP/1.1\r\n" H "\r\n", 400 },
	{ "\x16\x03\x01", 400 },
	/* The request line. */
	{ "GET /\r\n" H "\r\n", 400 },
	{ "GET  / HTTP/1.1\r\n" H "\r\n", 400 },
	{ "GET /  HTTP/1.1\r\n" H "\r\n", 400 },
	{ "GET / a HTTP/1.1\r\n" H "\r\n", 400 },
	{ "GET\t/ HTTP/1.1\r\n" H "\r\n", 400 },
	{ "GET / HTTP/1.1 \r\n" H "\r\n", 400 },
	{ "GET / http/1.1\r\n" H "\r\n", 400 },
	{ "GET / HTTP/1.10\r\n" H "\r\n", 400 },
	{ "GET / HTTP/01.1\r\n" H "\r\n", 400 },
	{ "G@T / HTTP/1.1\r\n" H "\r\n", 400 },
	{ "GET mcp HTTP/1.1\r\n" H "\r\n", 400 },
	{ "GET * HTTP/1.1\r\n" H "\r\n", 400 },
	{ "GET /% HTTP/1.1\r\n" H "\r\n", 400 },
	{ "GET /%4 HTTP/1.1\r\n" H "\r\n", 400 },
	{ "GET /%4x HTTP/1.1\r\n" H "\r\n", 400 },
	{ "GET /#a HTTP/1.1\r\n" H "\r\n", 400 },
	{ "GET /\xc3\xa9 HTTP/1.1\r\n" H "\r\n", 400 },
	{ "GET /[ HTTP/1.1\r\n" H "\r\n", 400 },
	{ "get / HTTP/1.1\r\n" H "\r\n", 501 },
	{ "BREW / HTTP/1.1\r\n" H "\r\n", 501 },
	{ "TRACE / HTTP/1.1\r\n" H "\r\n", 405 },
	{ "CONNECT x:80 HTTP/1.1\r\n" H "\r\n", 405 },
	{ "GET / HTTP/1.2\r\n" H "\r\n", 505 },
	{ "GET / HTTP/2.0\r\n" H "\r\n", 505 },
	{ "GET / HTTP/0.9\r\n" H "\r\n", 505 },
	{ "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505 },
	/* Host, and a target that disagrees with it. */
	{ "GET / HTTP/1.1\r\n\r\n", 400 },
	{ "GET / HTTP/1.0\r\n\r\n", 400 },
	{ "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400 },
	{ "GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400 },
	{ "GET / HTTP/1.1\r\nHost: x, y\r\n\r\n", 400 },
	{ "GET / HTTP/1.1\r\nHost: u@x\r\n\r\n", 400 },
	{ "GET / HTTP/1.1\r\nHost: x/y\r\n\r\n", 400 },
	{ "GET http://y/mcp HTTP/1.1\r\n" H "\r\n", 400 },
	{ "GET http://x:80/mcp HTTP/1.1\r\n" H "\r\n", 400 },
	{ "GET http://u@x/mcp HTTP/1.1\r\n" H "\r\n", 400 },
	{ "GET http:///mcp HTTP/1.1\r\n" H "\r\n", 400 },
	{ "GET http://x HTTP/1.1\r\n" H "\r\n", 400 },
	{ "GET http://x?/mcp HTTP/1.1\r\n" H "\r\n", 400 },
	{ "GET http://x/[ HTTP/1.1\r\n" H "\r\n", 400 },
	{ "GET ftp://x/mcp HTTP/1.1\r\n" H "\r\n", 400 },
	{ POST "Expect: 200-ok\r\nContent-Length: 1\r\n\r\nx", 417 },
	/* Chunks (CVE-2025-55315 and before). */
	{ POST "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n;x\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n;x\r\nhello\r\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n5;\nhello\r\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n5;a\rb\r\nhello\r\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello!\r\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloxx0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n000000005\r\nhello\r\n0\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n0\r\nX : 1\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n0\r\nX: 1\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n0\r\n fold\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n0\r\nGET / HTTP/1.1\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\n\r\nffffffff\r\n", 413 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n40\r\n0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	  "\r\n1\r\nx\r\n0\r\n\r\n", 413 },
	{ POST "Content-Length: 65\r\n\r\n", 413 },
};

static void well_formed_requests_are_taken(void **state)
{
	check_table(good, NELEMS(good));
}

static void smuggling_is_refused(void **state)
{
	check_table(smuggling, NELEMS(smuggling));
}

static void nul_is_refused_everywhere_in_a_head(void **state)
{
	const char text[] = "GET /a HTTP/1.1\r\nHost: x\r\nX-Y: z\r\n\r\n";
	for (size_t i = 0; i < sizeof(text) - 1 - 4; i++) {
		char copy[sizeof(text)];
		size_t used = 0;
		struct str body = STR_INIT;
		memcpy(copy, text, sizeof(text));
		copy[i] = '\0';
		int got = read_request(copy, sizeof(text) - 1, sizeof(text), &used, &body);
		if (got != 400)
			fail_msg("%d for NUL at %zu", got, i);
	}
}

/* A request whose line, longest header, number of headers and whole head have these sizes; 0 = do not care. */
static int with_sizes(size_t line, size_t header, size_t headers, size_t head)
{
	struct str s = STR_INIT, body = STR_INIT;
	size_t used = 0, n;
	str_puts(&s, "GET /");
	for (n = strlen("GET / HTTP/1.1"); n < line; n++)
		str_putc(&s, 'a');
	str_puts(&s, " HTTP/1.1\r\nHost: x\r\n");
	if (header) {
		str_puts(&s, "X:");
		for (n = 2; n < header; n++)
			str_putc(&s, 'a');
		str_puts(&s, "\r\n");
	}
	for (n = header ? 2 : 1; n < headers; n++)
		str_puts(&s, "X: y\r\n");
	while (head && s.len + 2 < head) {
		size_t left = head - s.len - 2;
		size_t take = left > 4096 ? left - 4096 > 100 ? 4096 : 2048 : left;
		str_puts(&s, "X:");
		for (n = 4; n < take; n++)
			str_putc(&s, 'a');
		str_puts(&s, "\r\n");
	}
	str_puts(&s, "\r\n");
	int rc = read_request(s.p, s.len, 1000, &used, &body);
	int whole = read_request(s.p, s.len, s.len, &used, &body);
	assert_int_equal(rc, whole);
	if (head)
		assert_int_equal(s.len, head);
	str_fini(&s);
	return rc;
}

static void sizes_are_limited(void **state)
{
	assert_int_equal(with_sizes(HTTP_LINE_MAX, 0, 0, 0), 0);
	assert_int_equal(with_sizes(HTTP_LINE_MAX + 1, 0, 0, 0), 414);
	assert_int_equal(with_sizes(0, HTTP_LINE_MAX, 0, 0), 0);
	assert_int_equal(with_sizes(0, HTTP_LINE_MAX + 1, 0, 0), 431);
	assert_int_equal(with_sizes(0, 0, HTTP_HEADERS_MAX, 0), 0);
	assert_int_equal(with_sizes(0, 0, HTTP_HEADERS_MAX + 1, 0), 431);
	assert_int_equal(with_sizes(0, 0, 0, HTTP_HEAD_MAX), 0);
	assert_int_equal(with_sizes(0, 0, 0, HTTP_HEAD_MAX + 1), 431);
}

static int chunked_with(size_t digits, size_t ext, size_t trailers)
{
	struct str s = STR_INIT, body = STR_INIT;
	size_t used = 0, n;
	str_puts(&s, POST "Transfer-Encoding: chunked\r\n\r\n");
	for (n = 1; n < digits; n++)
		str_putc(&s, '0');
	str_putc(&s, '1');
	for (n = 0; n < ext; n++)
		str_putc(&s, n ? 'a' : ';');
	str_puts(&s, "\r\nx\r\n0\r\n");
	size_t start = s.len;
	if (trailers)
		str_puts(&s, "X:");
	while (trailers && s.len - start < trailers - 4)
		str_putc(&s, 'a');
	str_puts(&s, trailers ? "\r\n\r\n" : "\r\n");
	int rc = read_request(s.p, s.len, 100, &used, &body);
	if (rc == 0)
		assert_string_equal(body.p, "x");
	str_fini(&s);
	str_fini(&body);
	return rc;
}

static void chunk_framing_is_limited(void **state)
{
	assert_int_equal(chunked_with(HTTP_CHUNK_DIGITS_MAX, 0, 0), 0);
	assert_int_equal(chunked_with(HTTP_CHUNK_DIGITS_MAX + 1, 0, 0), 400);
	assert_int_equal(chunked_with(1, HTTP_CHUNK_EXT_MAX + 1, 0), 0);        /* with its semicolon */
	assert_int_equal(chunked_with(1, HTTP_CHUNK_EXT_MAX + 2, 0), 400);
	assert_int_equal(chunked_with(1, 0, HTTP_TRAILERS_MAX + 1), 0);         /* the last LF is no trailer's */
	assert_int_equal(chunked_with(1, 0, HTTP_TRAILERS_MAX + 2), 431);
}

static void parsed_head_says_what_was_sent(void **state)
{
	const char text[] = "POST /t/acme/mcp?a=1 HTTP/1.1\r\nHost: Example.org:80\r\n"
			    "MCP-Protocol-Version: 2026-07-28 \r\nx-twice: 1\r\nX-Twice:\t2\r\n"
			    "Connection: foo , CLOSE\r\nContent-Length: 12\r\n\r\nbody";
	struct http_head h;
	unsigned count;
	assert_int_equal(http_head_parse(text, sizeof(text) - 1, &h), sizeof(text) - 1 - strlen("body"));
	assert_true(http_text_is(h.method, "POST"));
	assert_true(http_text_is(h.target, "/t/acme/mcp?a=1"));
	assert_true(http_text_is(h.path, "/t/acme/mcp"));
	assert_true(http_text_is(h.query, "a=1"));
	assert_int_equal(h.framing, HTTP_BODY_LENGTH);
	assert_int_equal(h.length, 12);
	assert_true(h.close);
	assert_false(h.expect_continue);
	assert_int_equal(h.nheaders, 6);
	assert_true(http_text_is(h.header[1].name, "MCP-Protocol-Version"));
	assert_true(http_text_is(http_head_get(&h, "mcp-protocol-version", NULL), "2026-07-28"));
	assert_true(http_text_is_nocase(http_head_get(&h, "host", NULL), "example.ORG:80"));
	assert_true(http_text_is(http_head_get(&h, "x-twice", &count), "1"));
	assert_int_equal(count, 2);
	assert_null(http_head_get(&h, "absent", &count).p);
	assert_int_equal(count, 0);
}

static void absolute_target_gives_its_path(void **state)
{
	struct http_head h;
	const char text[] = "GET HTTP://X:1/a?b?c HTTP/1.1\r\nHost: x:1\r\n\r\n";
	assert_true(http_head_parse(text, sizeof(text) - 1, &h) > 0);
	assert_true(http_text_is(h.path, "/a"));
	assert_true(http_text_is(h.query, "b?c"));
}

static void closing_follows_version_and_connection(void **state)
{
	const struct { const char *version, *connection; bool close; } cases[] = {
		{ "1.1", "", false },  { "1.1", "Connection: close\r\n", true },
		{ "1.0", "", true },   { "1.0", "Connection: Keep-Alive\r\n", false },
		{ "1.1", "Connection: x\r\nConnection: y,close\r\n", true },
		{ "1.0", "Connection: keep-alive, close\r\n", true },
		{ "1.1", "Connection: closed,, clos\r\n", false },
	};
	for (size_t i = 0; i < NELEMS(cases); i++) {
		char *text = mem_printf("GET / HTTP/%s\r\nHost: x\r\n%s\r\n", cases[i].version, cases[i].connection);
		struct http_head h;
		assert_true(http_head_parse(text, strlen(text), &h) > 0);
		assert_int_equal(h.close, cases[i].close);
		free(text);
	}
}

SINGLE_THREAD_SUITE(http_head)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(well_formed_requests_are_taken),
		cmocka_unit_test(smuggling_is_refused),
		cmocka_unit_test(nul_is_refused_everywhere_in_a_head),
		cmocka_unit_test(sizes_are_limited),
		cmocka_unit_test(chunk_framing_is_limited),
		cmocka_unit_test(parsed_head_says_what_was_sent),
		cmocka_unit_test(absolute_target_gives_its_path),
		cmocka_unit_test(closing_follows_version_and_connection),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
