/* The HTTP way in: what the core is told of a head. */

#include "config.h"

#include "http_ask.h"
#include "suite.h"

#include <stdio.h>

static void post_takes_json_only(void **state)
{
	static const struct { const char *type; int want; } rows[] = {
		{ "application/json", 200 }, { "Application/JSON", 200 }, { "application/json; charset=utf-8", 200 },
		{ "application/json;x", 200 }, { "application/json ; x", 200 },
		{ "application/jsonx", 415 }, { "application/json-rpc", 415 }, { "text/json", 415 }, { "text/plain", 415 },
		{ "application/x-www-form-urlencoded", 415 }, { "multipart/form-data", 415 }, { "text/plain, application/json", 415 },
		{ "application/json, text/plain", 415 }, { "\t", 415 }, { NONE, 415 },
		{ "application/json\r\nContent-Type: application/json", 415 },
		{ "text/plain\r\nContent-Type: application/json", 415 },
	};

	for (size_t i = 0; i < NELEMS(rows); i++)
		assert_int_equal(ask(ASK(.type = rows[i].type)), rows[i].want);
}

static void head_goes_along_with_the_message(void **state)
{
	const struct fake_seen *s;

	assert_int_equal(ask(ASK(.more = "MCP-Protocol-Version: 2026-07-28\r\nmcp-session-id: s1\r\nMcp-Method: tools/call\r\n"
		"Mcp-Name: \t get_weather  \r\ntraceparent: 00-ab\r\nMcp-Param-Region: eu west \r\n")), 200);
	s = fake_last(rig.srv);
	assert_string_equal(s->version, "2026-07-28");
	assert_string_equal(s->session, "s1");
	assert_string_equal(s->method, "tools/call");
	assert_string_equal(s->name, "get_weather");
	assert_string_equal(s->traceparent, "00-ab");
	assert_false(s->duplicate);
	assert_true(s->sse_ok);
	assert_int_equal(s->nparams, 1);
	assert_string_equal(s->params[0].name, "region");
	assert_string_equal(s->params[0].value, "eu west");
	assert_int_equal(ask(ASK(.more = NONE)), 200);
	s = fake_last(rig.srv);
	assert_string_equal(s->version, "");
	assert_string_equal(s->session, "");
	assert_int_equal(s->nparams, 0);
}

/* MCP B-37 */
static void repeated_headers_are_told(void **state)
{
	static const char *const twice[] = { "MCP-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name", "Mcp-Param-a" };
	char more[300];

	for (size_t i = 0; i < NELEMS(twice); i++) {
		(void)snprintf(more, sizeof more, "%s: x\r\n", twice[i]);
		assert_int_equal(ask(ASK(.more = more)), 200);
		assert_false(fake_last(rig.srv)->duplicate);
		(void)snprintf(more, sizeof more, "%s: x\r\nX-Other: x\r\n%s: x\r\n", twice[i], twice[i]);
		assert_int_equal(ask(ASK(.more = more)), 200);
		assert_true(fake_last(rig.srv)->duplicate);
	}
	assert_int_equal(ask(ASK(.more = "Mcp-Param-a: 1\r\nMCP-PARAM-A: 2\r\n")), 200);
	assert_true(fake_last(rig.srv)->duplicate);
	assert_int_equal(ask(ASK(.more = "Mcp-Param-a: 1\r\nMcp-Param-ab: 2\r\nMcp-Param-: 3\r\n")), 200);
	assert_false(fake_last(rig.srv)->duplicate);
	assert_int_equal(fake_last(rig.srv)->nparams, 2);
}

static void params_are_counted(void **state)
{
	for (unsigned n = TR_HTTP_PARAMS_MAX; n <= TR_HTTP_PARAMS_MAX + 1; n++) {
		struct str more = STR_INIT;

		for (unsigned i = 0; i < n; i++)
			str_printf(&more, "Mcp-Param-P%u: v%u\r\n", i, i);
		assert_int_equal(ask(ASK(.more = more.p)), 200);
		str_fini(&more);
		assert_int_equal(fake_last(rig.srv)->nparams, TR_HTTP_PARAMS_MAX);
		assert_int_equal(fake_last(rig.srv)->duplicate, n > TR_HTTP_PARAMS_MAX);
	}
	assert_string_equal(fake_last(rig.srv)->params[TR_HTTP_PARAMS_MAX - 1].name, "p15");
	assert_string_equal(fake_last(rig.srv)->params[TR_HTTP_PARAMS_MAX - 1].value, "v15");
}

struct client_case { const char *lines, *want; };

static void check_clients(const struct client_case *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char more[500];

		(void)snprintf(more, sizeof more, HTTP_ACCEPT "%s", rows[i].lines);
		assert_int_equal(ask(ASK(.more = more)), 200);
		assert_string_equal(fake_last(rig.srv)->peer, rows[i].want);
	}
}

/* SEC S-107, S-B11 */
static void nobody_but_a_listed_proxy_names_the_client(void **state)
{
	static const struct client_case rows[] = {
		{ "", "127.0.0.1" }, { "X-Forwarded-For: 192.0.2.1\r\n", "127.0.0.1" },
		{ "Forwarded: for=192.0.2.1\r\nX-Real-IP: 192.0.2.1\r\n", "127.0.0.1" },
	};

	check_clients(rows, NELEMS(rows));
}

static void proxy_names_the_client_and_both_are_known(void **state)
{
	static char here[] = "127.0.0.0/8", inner[] = "10.0.0.1";
	static char *proxies[] = { here, inner };
	static const struct client_case rows[] = {
		{ "", "127.0.0.1" },
		{ "X-Forwarded-For: 192.0.2.1\r\n", "192.0.2.1 via 127.0.0.1" },
		{ "X-Forwarded-For: 2001:db8::1\r\n", "2001:db8::1 via 127.0.0.1" },
		{ "X-Forwarded-For: 192.0.2.1:4711\r\n", "192.0.2.1 via 127.0.0.1" },
		{ "X-Forwarded-For: [2001:DB8::1]:4711\r\n", "2001:db8::1 via 127.0.0.1" },
		{ "X-Forwarded-For: [2001:db8::1]\r\n", "2001:db8::1 via 127.0.0.1" },
		/* What the client itself wrote stands in front. */
		{ "X-Forwarded-For: 198.51.100.9, 192.0.2.1\r\n", "192.0.2.1 via 127.0.0.1" },
		{ "X-Forwarded-For: 198.51.100.9\r\nX-Forwarded-For:192.0.2.1 \r\n", "192.0.2.1 via 127.0.0.1" },
		/* Proxies of ours one behind the other. */
		{ "X-Forwarded-For: 198.51.100.9, 192.0.2.1, 10.0.0.1\r\n", "192.0.2.1 via 127.0.0.1" },
		{ "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 10.0.0.1, 127.0.0.9\r\n", "192.0.2.1 via 127.0.0.1" },
		{ "X-Forwarded-For: 10.0.0.1\r\n", "127.0.0.1" },
		/* Nothing that can be believed: nothing before it is. */
		{ "X-Forwarded-For: 192.0.2.1, unknown\r\n", "127.0.0.1" }, { "X-Forwarded-For: \r\n", "127.0.0.1" },
		{ "X-Forwarded-For: 192.0.2.1,\r\n", "127.0.0.1" }, { "X-Forwarded-For: 192.0.2.1/8\r\n", "127.0.0.1" },
		{ "X-Forwarded-For: [192.0.2.1]\r\n", "127.0.0.1" }, { "X-Forwarded-For: 192.0.2.1 evil\r\n", "127.0.0.1" },
		{ "Forwarded: for=192.0.2.1\r\n", "127.0.0.1" },
	};

	rig.conf.proxies = proxies;
	rig.conf.nproxies = NELEMS(proxies);
	check_clients(rows, NELEMS(rows));
}

/* RFC 7239 4 */
static void forwarded_is_read_where_the_proxy_writes_it(void **state)
{
	static char here[] = "127.0.0.1";
	static char *proxies[] = { here };
	static const struct client_case rows[] = {
		{ "Forwarded: for=192.0.2.1\r\n", "192.0.2.1 via 127.0.0.1" },
		{ "Forwarded: proto=https;For=\"[2001:db8::1]:4711\";by=10.0.0.1\r\n", "2001:db8::1 via 127.0.0.1" },
		{ "Forwarded: for=198.51.100.9, for=192.0.2.1\r\n", "192.0.2.1 via 127.0.0.1" },
		{ "Forwarded: for=192.0.2.1;host=x, for=127.0.0.1\r\n", "192.0.2.1 via 127.0.0.1" },
		{ "Forwarded: for=_hidden\r\n", "127.0.0.1" }, { "Forwarded: proto=https\r\n", "127.0.0.1" },
		{ "Forwarded: for=\"192.0.2.1\r\n", "127.0.0.1" }, { "X-Forwarded-For: 192.0.2.1\r\n", "127.0.0.1" },
	};

	rig.conf.proxies = proxies;
	rig.conf.nproxies = NELEMS(proxies);
	rig.conf.forwarded = true;
	check_clients(rows, NELEMS(rows));
}

/* MCP B-26, H-04 */
static void accept_tells_whether_a_stream_is_wanted(void **state)
{
	static const struct { const char *lines; bool want; } rows[] = {
		{ "", true }, { "Accept: */*\r\n", true }, { "Accept: text/*\r\n", true }, { "Accept:\r\n", true },
		{ "Accept: text/event-stream\r\n", true }, { "Accept: Text/Event-Stream\r\n", true },
		{ "Accept: application/json, text/event-stream\r\n", true },
		{ "Accept: application/json,text/event-stream;q=0.5\r\n", true },
		{ "Accept: application/json\r\nAccept: text/event-stream\r\n", true },
		{ "Accept: application/json, */*;q=0.1\r\n", true }, { "Accept: text/event-stream;x=0\r\n", true },
		{ "Accept: application/json\r\n", false }, { "Accept: text/event-streams\r\n", false },
		{ "Accept: x-text/event-stream\r\n", false }, { "Accept: text/html\r\n", false },
		{ "Accept: text/event-stream;q=0\r\n", false }, { "Accept: text/event-stream; q=0.000, */*\r\n", false },
		{ "Accept: */*, text/event-stream;q=0\r\n", false }, { "Accept: */*;q=0, text/event-stream\r\n", true },
		{ "Accept: text/event-stream;q=0.01\r\n", true },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		assert_int_equal(ask(ASK(.more = rows[i].lines)), 200);
		if (fake_last(rig.srv)->sse_ok != rows[i].want)
			fail_msg("%s", rows[i].lines);
	}
}

SINGLE_THREAD_SUITE(http_facts)
{
	const struct CMUnitTest tests[] = {
		T(post_takes_json_only), T(head_goes_along_with_the_message), T(repeated_headers_are_told),
		T(params_are_counted), T(nobody_but_a_listed_proxy_names_the_client), T(proxy_names_the_client_and_both_are_known),
		T(forwarded_is_read_where_the_proxy_writes_it), T(accept_tells_whether_a_stream_is_wanted),
	};

	return cmocka_run_group_tests_name("transport_http_facts", tests, tr_store_open, tr_store_close);
}
