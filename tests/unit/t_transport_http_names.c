/* The HTTP way in: under which names it is reached, and which pages may ask (SEC S-B02, S-104). */

#include "config.h"

#include "http_ask.h"
#include "suite.h"

#include <stdio.h>

struct name_case { const char *host, *origin; int want; };

static void check_names(const struct name_case *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char more[300] = HTTP_ACCEPT;
		int got;

		if (rows[i].origin)
			(void)snprintf(more, sizeof more, HTTP_ACCEPT "Origin: %s\r\n", rows[i].origin);
		got = ask(ASK(.host = rows[i].host, .more = more));
		if (got != rows[i].want)
			fail_msg("Host %s, Origin %s: %d", rows[i].host, rows[i].origin ? rows[i].origin : "-", got);
		if (got == 403)         /* no word to a page that may not read it */
			assert_null(strstr(peer->head, "Access-Control"));
	}
}

/* MCP H-02, H-03 */
static void only_loopback_names_reach_a_loopback_listener(void **state)
{
	static const struct name_case rows[] = {
		{ "localhost", NULL, 200 }, { "localhost:1", NULL, 200 }, { "LocalHost:65535", NULL, 200 },
		{ "127.0.0.1", NULL, 200 }, { "127.0.0.1:8808", NULL, 200 }, { "[::1]", NULL, 200 }, { "[::1]:80", NULL, 200 },
		{ "localhost.", NULL, 403 }, { "localhost:", NULL, 403 }, { "localhost:65536", NULL, 403 },
		{ "localhost:080000", NULL, 403 }, { "localhost:000080", NULL, 403 }, { "localhost:8x", NULL, 403 }, { "localhost:-1", NULL, 403 },
		{ "localhost:80:80", NULL, 403 },
		{ "[::1", NULL, 403 }, { "[::1]x", NULL, 403 }, { "::1", NULL, 403 }, { "[::2]", NULL, 403 },
		{ "127.0.0.2", NULL, 403 }, { "127.1", NULL, 403 }, { "10.0.0.1", NULL, 403 },
		{ "evil.example", NULL, 403 }, { "localhost.evil.example", NULL, 403 }, { "127.0.0.1.evil.example", NULL, 403 },
		{ "user@localhost", NULL, 400 }, { "localhost@evil.example", NULL, 400 }, { "localhost, evil.example", NULL, 400 },
		{ "localhost", "http://localhost", 200 }, { "localhost", "http://localhost:3000", 200 },
		{ "localhost", "https://127.0.0.1:6274", 200 }, { "localhost", "http://[::1]:1", 200 },
		{ "localhost", "http://LOCALHOST:1", 200 },
		{ "localhost", "http://localhost.", 403 }, { "localhost", "http://localhost:", 403 },
		{ "localhost", "http://localhost:65536", 403 }, { "localhost", "http://localhost/", 403 },
		{ "localhost", "http://user@localhost", 403 }, { "localhost", "http://evil.example", 403 },
		{ "localhost", "http://localhost.evil.example", 403 }, { "localhost", "http://localhost@evil.example", 403 },
		{ "localhost", "ftp://localhost", 403 }, { "localhost", "localhost", 403 }, { "localhost", "http://", 403 },
		{ "localhost", "null", 403 }, { "localhost", "", 403 }, { "localhost", "*", 403 },
		{ "localhost", "http://localhost http://localhost", 403 }, { "localhost", "http://localhost, http://localhost", 403 },
		{ "localhost", "http://localhost\r\nOrigin: http://localhost", 403 },
		{ "evil.example", "http://localhost", 403 },
	};

	check_names(rows, NELEMS(rows));
}

/* MCP H-02 */
static void public_listener_takes_addresses_and_listed_names(void **state)
{
	static char host[] = "crib.example", host_port[] = "crib.example:8443", origin[] = "https://app.example";
	static char *hosts[] = { host, host_port }, *origins[] = { origin };
	static const struct name_case rows[] = {
		{ "crib.example", NULL, 200 }, { "CRIB.example:8443", NULL, 200 }, { "crib.example:80", NULL, 200 },
		{ "crib.example:443", NULL, 403 }, { "crib.example.", NULL, 403 }, { "192.0.2.1", NULL, 200 }, { "192.0.2.1:80", NULL, 200 },
		{ "[2001:db8::1]:80", NULL, 200 }, { "[2001:db8::1", NULL, 403 }, { "[evil.example]", NULL, 403 },
		{ "1", NULL, 403 }, { "1.2.3", NULL, 403 }, { "...", NULL, 403 }, { "192.0.2.256", NULL, 403 },
		{ "evil.example", NULL, 403 }, { "localhost", NULL, 403 },
		{ "crib.example", "https://app.example", 200 }, { "crib.example", "http://app.example", 403 },
		{ "crib.example", "https://app.example:444", 403 }, { "crib.example", "http://localhost", 403 },
		{ "evil.example", "https://app.example", 403 },
	};

	free(rig.conf.address);
	rig.conf.address = mem_strdup("0.0.0.0:0");
	rig.conf.insecure = true;
	rig.conf.hosts = hosts;
	rig.conf.nhosts = NELEMS(hosts);
	rig.conf.origins = origins;
	rig.conf.norigins = NELEMS(origins);
	check_names(rows, NELEMS(rows));
}

/* N-02: a name without a port is also good with the listener's, one with a port for that alone, and a refusal says what
 * came. */
static void a_listed_name_is_good_with_the_port_of_its_listener(void **state)
{
	static char plain[] = "crib.example", usual[] = "usual.example:80", other[] = "other.example:81";
	static char *hosts[] = { plain, usual, other };
	static const struct name_case rows[] = {
		{ "usual.example", NULL, 200 }, { "usual.example:80", NULL, 200 }, { "usual.example:81", NULL, 403 },
		{ "other.example", NULL, 403 }, { "other.example:80", NULL, 403 }, { "other.example:81", NULL, 200 },
		{ "crib.example:81", NULL, 403 }, { "crib.example:", NULL, 403 }, { "crib.example:0", NULL, 403 },
		{ "xcrib.example", NULL, 403 }, { "crib.examplex", NULL, 403 }, { "evil.example:80", NULL, 403 },
	};
	char name[64];

	rig.conf.hosts = hosts;
	rig.conf.nhosts = NELEMS(hosts);
	check_names(rows, NELEMS(rows));
	assert_string_equal(body(), "the Host \"evil.example:80\" is not served here: hosts of this listener lists what is\n");
	for (size_t i = 0; i < NELEMS(hosts); i++) {
		(void)snprintf(name, sizeof name, "%.*s%s", (int)strcspn(hosts[i], ":"), hosts[i], strrchr(rig.address, ':'));
		assert_int_equal(ask(ASK(.host = name)), i == 0 ? 200 : 403);
	}
	assert_int_equal(ask(ASK(.host = "localhost", .more = "Origin: http://evil\x9b.example\r\n")), 403);
	assert_string_equal(body(), "the Origin \"http://evil\\x9b.example\" is not served here: origins of this listener "
				    "lists what is\n");
}

static void host_missing_twice_or_unlike_the_target_is_400(void **state)
{
	assert_int_equal(ask(ASK(.host = NONE)), 400);
	assert_int_equal(ask(ASK(.host = "localhost", .more = "Host: localhost\r\n")), 400);
	assert_int_equal(ask(ASK(.target = "http://localhost/mcp", .host = "localhost")), 200);
	assert_int_equal(ask(ASK(.target = "http://localhost/mcp", .host = "127.0.0.1")), 400);
	assert_int_equal(ask(ASK(.target = "http://evil.example/mcp", .host = "localhost")), 400);
	assert_int_equal(ask(ASK(.target = "http://evil.example/mcp", .host = "evil.example")), 403);
	assert_int_equal(rig.srv->nseen, 1);
}

static void list_origin(void)
{
	static char origin[] = "http://localhost:6274";
	static char *origins[] = { origin };

	rig.conf.origins = origins;
	rig.conf.norigins = 1;
}

/* SEC S-105, S-B11: a page on loopback may send, as any program there; to read, it has to be listed. */
static void no_page_reads_an_answer_unless_it_is_listed(void **state)
{
	static const char *const lines[] = { "Origin: http://localhost:6274\r\n", "Origin: http://127.0.0.1\r\n", "" };

	for (size_t i = 0; i < NELEMS(lines); i++) {
		char more[200];

		(void)snprintf(more, sizeof more, HTTP_ACCEPT "%s", lines[i]);
		assert_int_equal(ask(ASK(.more = more)), 200);
		assert_null(strstr(peer->head, "Access-Control"));
		assert_int_equal(ask(ASK(.more = more, .body = "notes 1 new 1")), 200);
		assert_null(strstr(peer->head, "Access-Control"));
		assert_int_equal(ask(ASK(.more = more, .key = NONE)), 401);
		assert_null(strstr(peer->head, "Access-Control"));
		assert_int_equal(ask(ASK(.method = "OPTIONS", .more = lines[i], .key = NONE, .body = NONE)), 405);
		assert_null(strstr(peer->head, "Access-Control"));
	}
}

/* MCP B-55: what a page of an allowed origin may read, refusals as well. */
static void allowed_origin_may_read_every_answer(void **state)
{
	static const char origin[] = "Origin: http://localhost:6274\r\nAccept: text/event-stream\r\n";
	static const char allowed[] = "Access-Control-Allow-Origin: http://localhost:6274";
	const struct { const struct ask *ask; int want; } rows[] = {
		{ ASK(.more = origin), 200 },
		{ ASK(.more = origin, .body = "notes 1 new 1"), 200 },
		{ ASK(.more = origin, .body = "quiet 1 new"), 202 },
		{ ASK(.more = origin, .key = NONE), 401 },
		{ ASK(.more = origin, .target = "/t/other/mcp"), 404 },
		{ ASK(.more = origin, .method = "PUT"), 405 },
		{ ASK(.more = origin, .method = "GET"), 405 },
		{ ASK(.more = origin, .type = "text/plain"), 415 },
		{ ASK(.more = origin, .method = "OPTIONS", .key = NONE, .body = NONE), 204 },
		{ ASK(.method = "DELETE", .body = NONE,
		      .more = "Origin: http://localhost:6274\r\nMcp-Session-Id: " FAKE_SESSION "\r\n"), 204 },
	};

	list_origin();
	for (size_t i = 0; i < NELEMS(rows); i++) {
		assert_int_equal(ask(rows[i].ask), rows[i].want);
		assert_true(head_has(allowed));
		assert_true(head_has("Vary: Origin"));
		assert_true(head_has("Access-Control-Expose-Headers: Mcp-Session-Id, WWW-Authenticate"));
	}
	assert_int_equal(ask(ASK()), 200);
	assert_null(strstr(peer->head, "Access-Control"));
}

/* MCP B-55 */
static void preflight_names_what_it_allows(void **state)
{
	static const char usual[] = "Access-Control-Allow-Headers: Authorization, Content-Type, MCP-Protocol-Version, Mcp-Method, "
		"Mcp-Name, Mcp-Session-Id, Last-Event-ID";
	char want[400];

	list_origin();
	assert_int_equal(ask(ASK(.method = "OPTIONS", .key = NONE, .body = NONE, .more = "Origin: http://localhost:6274\r\n")), 204);
	assert_true(head_has(usual));
	assert_true(head_has("Access-Control-Allow-Methods: POST, GET, DELETE"));
	assert_null(strstr(peer->head, "\r\nContent-"));
	assert_int_equal(ask(ASK(.method = "OPTIONS", .key = NONE, .body = NONE, .more = "Origin: http://localhost:6274\r\n"
		"Access-Control-Request-Headers: content-type,, mcp-param-region ,x-evil,Mcp-Param-, mcp-param-a;b, "
		"mcp-param-\xc3\xa4, Mcp-Param-Z_9\r\n")), 204);
	(void)snprintf(want, sizeof want, "%s, mcp-param-region, Mcp-Param-Z_9", usual);
	assert_true(head_has(want));
	assert_int_equal(ask(ASK(.method = "OPTIONS", .key = NONE, .body = NONE, .more = "Origin: http://evil.example\r\n")), 403);
	assert_int_equal(ask(ASK(.method = "OPTIONS", .key = NONE, .body = NONE)), 405);
	assert_true(head_has("Allow: POST, GET, DELETE"));
}

SINGLE_THREAD_SUITE(http_names)
{
	const struct CMUnitTest tests[] = {
		T(only_loopback_names_reach_a_loopback_listener),
		T(public_listener_takes_addresses_and_listed_names),
		T(a_listed_name_is_good_with_the_port_of_its_listener),
		T(host_missing_twice_or_unlike_the_target_is_400), T(no_page_reads_an_answer_unless_it_is_listed), T(allowed_origin_may_read_every_answer),
		T(preflight_names_what_it_allows),
	};

	return cmocka_run_group_tests_name("transport_http_names", tests, tr_store_open, tr_store_close);
}
