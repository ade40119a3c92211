/* The HTTP way in: who is let through to the core, what it is told of the head, and how answers turn into streams. */

#include "config.h"

#include "fake_mcp.h"
#include "tr_rig.h"

#include <stdio.h>

#include "base/clock.h"
#include "ev/ev.h"
#include "metrics/metric.h"

/* As in the module's own headers, which are on nobody's path. */
#define TRANSPORT_MESSAGE_MAX (10u << 20)
#define TR_HTTP_PARAMS_MAX 16
#define TR_HTTP_ORIGIN_MAX 255

#define NOW_US 1800000000000000ull
#define SECOND_US 1000000ull
#define HTTP_ACCEPT "Accept: application/json, text/event-stream\r\n"

static struct tr_rig rig;
static struct tr_peer *peer;
static unsigned answered, begun;        /* whole answers and heads that peer had before it asked */

static int open_rig(void **state)
{
	tr_open(&rig, "http");
	peer = NULL;
	return 0;
}

static int open_frozen(void **state)
{
	clock_fake(NOW_US, SECOND_US);
	return open_rig(state);
}

static int close_rig(void **state)
{
	tr_close(&rig);
	clock_real();
	return 0;
}

/* A request: NULL members are as usual, NONE is left out. */
struct ask {
	bool session;                   /* GET of the session's stream is usual, else POST of a message */
	const char *method, *target, *host, *key, *type;
	const char *more;               /* further header lines */
	const char *body;
};
static const char NONE[] = "";
#define ASK(...) (&(struct ask){ __VA_ARGS__ })
#define SESSION_ASK(...) (&(struct ask){ .session = true, __VA_ARGS__ })

static void put_header(struct str *out, const char *name, const char *value, const char *usual)
{
	if (value != NONE)
		str_printf(out, "%s%s\r\n", name, value ? value : usual);
}

static void put_ask(const struct ask *a, struct str *out)
{
	const char *method = a->method ? a->method : a->session ? "GET" : "POST";
	const char *more = a->more ? a->more : a->session ?
		"Accept: text/event-stream\r\nMcp-Session-Id: " FAKE_SESSION "\r\n" : HTTP_ACCEPT;
	const char *body = a->body ? a->body : a->session ? NONE : "now 1 new";

	str_printf(out, "%s %s HTTP/1.1\r\n", method, a->target ? a->target : "/mcp");
	put_header(out, "Host: ", a->host, rig.address);
	put_header(out, "Authorization: Bearer ", a->key, rig.acme.text);
	put_header(out, "Content-Type: ", a->type, "application/json");
	str_puts(out, more);
	if (body != NONE)
		str_printf(out, "Content-Length: %zu\r\n", strlen(body));
	str_printf(out, "\r\n%s", body);
}

/* On the peer of this test; a new one where the last was closed. */
static void send_ask(const struct ask *a)
{
	struct str s = STR_INIT;

	if (!rig.t)
		tr_listen(&rig);
	/* A connection that ends behind its answer says so (RFC 9112 9.6). */
	if (!peer || peer->eof || strstr(peer->head, "\r\nConnection: close\r\n"))
		peer = tr_dial(&rig, "acme");
	answered = peer->replies;
	begun = peer->heads;
	put_ask(a, &s);
	tr_raw(peer, s.p, s.len);
	str_fini(&s);
}

/* The status of the whole answer; its head and body are the peer's. */
static int ask(const struct ask *a)
{
	send_ask(a);
	if (a->method && strcmp(a->method, "HEAD") == 0) {
		TR_WAIT(&rig, peer->heads > begun);
		tr_hang_up(&peer);
		return rig.peers[rig.npeers - 1]->status;
	}
	TR_WAIT(&rig, peer->replies > answered);
	return peer->status;
}

static bool head_has(const char *line)
{
	char want[600];

	(void)snprintf(want, sizeof want, "\r\n%s\r\n", line);
	return strstr(peer->head, want) != NULL;
}

static const char *body(void)
{
	return str_text(&peer->body);
}

/* --- SEC S-B03: no second door */

/* What a path answers to its tenant, or to all. */
struct route { const char *path, *tenant; int get, post; };

static int expected(const struct route *r, const char *method, const char *tenant)
{
	if (strcmp(method, "OPTIONS") == 0)
		return 405;
	if (!tenant)
		return 401;
	if (r->tenant && strcmp(r->tenant, tenant) != 0)
		return 404;
	return strcmp(method, "GET") == 0 ? r->get : strcmp(method, "POST") == 0 ? r->post : 405;
}

/* MCP H-01, B-54 */
static void only_the_table_of_routes_is_served(void **state)
{
	static const struct route known[] = {
		{ "/mcp", NULL, 405, 200 }, { "/t/acme/mcp", "acme", 405, 200 }, { "/t/other/mcp", "other", 405, 200 },
		{ "/t/nobody/mcp", "nobody", 405, 200 }, { "/t/%61cme/mcp", "%61cme", 405, 200 },
		{ "/sse", NULL, 406, 405 }, { "/messages", NULL, 405, 404 },
	};
	static const char *const unknown[] = { "/", "/mcp/", "/MCP", "//mcp", "/t//mcp", "/t/acme/x/mcp", "/t/acme/mcp/",
		"/t/acme", "/t/acme/sse", "/sse/", "/messages/", "/metrics", "/healthz", "/readyz", "/admin", "/debug",
		"/mcp/../admin", "/.well-known/oauth-protected-resource", "/mcp;x", "/mcp%2f", "/t/mcp" };
	static const char *const methods[] = { "GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS" };
	static const char *const tenants[] = { NULL, NULL, "acme", "other" };
	static const char accept[] = "Accept: application/json\r\n";
	struct key_new stranger = rig.acme;
	const char *const keys[] = { NONE, stranger.text, rig.acme.text, rig.other.text };

	memcpy(stranger.text + 4, "000000000000", 12);
	for (size_t i = 0; i < NELEMS(methods) * NELEMS(keys); i++) {
		const char *method = methods[i / NELEMS(keys)], *key = keys[i % NELEMS(keys)], *tenant = tenants[i % NELEMS(keys)];

		for (size_t k = 0; k < NELEMS(unknown); k++)
			assert_int_equal(ask(ASK(.method = method, .target = unknown[k], .key = key)), 404);
		for (size_t k = 0; k < NELEMS(known); k++) {
			size_t seen = rig.srv->nseen;
			int want = expected(&known[k], method, tenant);

			assert_int_equal(ask(ASK(.method = method, .target = known[k].path, .key = key, .more = accept)), want);
			assert_int_equal(rig.srv->nseen, seen + (want == 200));
			if (want == 200)
				assert_string_equal(fake_last(rig.srv)->tenant, tenant);
		}
	}
	assert_int_equal(ask(ASK(.target = "/mcp?x=/t/other/mcp")), 200);
	assert_int_equal(ask(ASK(.method = "TRACE")), 405);     /* SEC S-117 */
	assert_int_equal(ask(ASK(.method = "QUERY")), 501);
}

/* MCP B-30, B-49: a path of somebody else's tenant looks like none at all. */
static void path_of_a_foreign_tenant_is_like_a_wrong_one(void **state)
{
	char first[200];

	assert_int_equal(ask(ASK(.target = "/nothing")), 404);
	(void)snprintf(first, sizeof first, "%s", body());
	assert_int_equal(ask(ASK(.target = "/t/other/mcp")), 404);
	assert_string_equal(body(), first);
	assert_int_equal(ask(ASK(.target = "/t/nobody/mcp")), 404);
	assert_string_equal(body(), first);
	assert_true(head_has("Content-Type: text/plain"));
}

/* --- SEC S-B02: Host and Origin */

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
		{ "crib.example", NULL, 200 }, { "CRIB.example:8443", NULL, 200 }, { "crib.example:80", NULL, 403 },
		{ "crib.example.", NULL, 403 }, { "192.0.2.1", NULL, 200 }, { "192.0.2.1:80", NULL, 200 },
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

	assert_int_equal(ask(ASK(.method = "OPTIONS", .key = NONE, .body = NONE, .more = "Origin: http://localhost\r\n")), 204);
	assert_true(head_has(usual));
	assert_true(head_has("Access-Control-Allow-Methods: POST, GET, DELETE"));
	assert_null(strstr(peer->head, "\r\nContent-"));
	assert_int_equal(ask(ASK(.method = "OPTIONS", .key = NONE, .body = NONE, .more = "Origin: http://localhost\r\n"
		"Access-Control-Request-Headers: content-type,, mcp-param-region ,x-evil,Mcp-Param-, mcp-param-a;b, "
		"mcp-param-\xc3\xa4, Mcp-Param-Z_9\r\n")), 204);
	(void)snprintf(want, sizeof want, "%s, mcp-param-region, Mcp-Param-Z_9", usual);
	assert_true(head_has(want));
	assert_int_equal(ask(ASK(.method = "OPTIONS", .key = NONE, .body = NONE, .more = "Origin: http://evil.example\r\n")), 403);
	assert_int_equal(ask(ASK(.method = "OPTIONS", .key = NONE, .body = NONE)), 405);
	assert_true(head_has("Allow: POST, GET, DELETE"));
}

/* --- credentials */

/* All but the date. */
static void copy_answer(char *ret, size_t size)
{
	const char *date = strstr(peer->head, "Date: ");

	(void)snprintf(ret, size, "%.*s%s%s", (int)(date - peer->head), peer->head, strstr(date, "\r\n"), body());
}

/* MCP, SEC S-309 */
static void unknown_wrong_malformed_and_missing_are_one_401(void **state)
{
	struct key_new unknown = rig.acme, wrong = rig.acme;
	char basic[120], query[120], first[1000], next[1000];
	const struct ask *rows[] = {
		ASK(.key = NONE), ASK(.key = unknown.text), ASK(.key = wrong.text), ASK(.key = "x"), ASK(.key = " "),
		ASK(.key = NONE, .more = basic), ASK(.key = NONE, .more = "Authorization: Bearer\r\n"),
		ASK(.key = NONE, .more = "Authorization: \r\n"),
		ASK(.key = NONE, .target = query),
	};

	memcpy(unknown.text + 4, "000000000000", 12);
	memcpy(wrong.text + 17, rig.other.text + 17, 43);
	(void)snprintf(basic, sizeof basic, "Authorization: Basic %s\r\n", rig.acme.text);
	(void)snprintf(query, sizeof query, "/mcp?access_token=%s", rig.acme.text);
	for (size_t i = 0; i < NELEMS(rows); i++) {
		uint64_t before = met_get(MET_auth_failures);

		assert_int_equal(ask(rows[i]), 401);
		assert_int_equal(met_get(MET_auth_failures), before + 1);
		assert_true(head_has("WWW-Authenticate: Bearer realm=\"toolcrib\""));
		tr_settle(&rig);
		copy_answer(i ? next : first, sizeof first);
		if (i)
			assert_string_equal(next, first);
		tr_hang_up(&peer);
	}
	assert_int_equal(rig.srv->nseen, 0);
}

/* MCP A-13 */
static void scheme_has_any_case_and_comes_once(void **state)
{
	char more[300];

	(void)snprintf(more, sizeof more, "authorization: bEARER %s\r\n", rig.acme.text);
	assert_int_equal(ask(ASK(.key = NONE, .more = more)), 200);
	assert_int_equal(ask(ASK(.more = more)), 400);          /* MCP B-37 */
	assert_string_equal(body(), "Authorization came twice\n");
	assert_int_equal(rig.srv->nseen, 1);
}

/* SEC S-306, S-309 */
static void only_a_proved_secret_learns_the_reason(void **state)
{
	assert_int_equal(ask(ASK()), 200);
	tr_tenant_state(&rig, "acme", TENANT_SUSPENDED);
	assert_int_equal(ask(ASK()), 401);
	assert_string_equal(body(), "the tenant is suspended\n");
	tr_tenant_state(&rig, "acme", TENANT_ACTIVE);
	assert_int_equal(ask(ASK()), 200);
}

static void bound_listener_needs_no_key(void **state)
{
	rig.conf.tenant = (char []){ "other" };
	assert_int_equal(ask(ASK(.key = NONE)), 200);
	assert_string_equal(fake_last(rig.srv)->tenant, "other");
	assert_int_equal(ask(ASK()), 200);                      /* acme's key opens nothing here */
	assert_string_equal(fake_last(rig.srv)->tenant, "other");
	assert_int_equal(ask(ASK(.target = "/t/acme/mcp")), 404);
	assert_int_equal(ask(ASK(.host = "evil.example")), 403);
	tr_tenant_state(&rig, "other", TENANT_SUSPENDED);
	assert_int_equal(ask(ASK(.key = NONE)), 401);
	tr_tenant_state(&rig, "other", TENANT_ACTIVE);
}

/* MCP Z-06 */
static void listener_is_checked_before_it_opens(void **state)
{
	static char *origins[1];
	struct conf_listener *c = &rig.conf;
	char origin[TR_HTTP_ORIGIN_MAX + 2];
	struct err err;

	assert_int_equal(tr_http.check(c, &err), 0);
	memset(origin, 'o', sizeof origin);
	origin[TR_HTTP_ORIGIN_MAX] = '\0';
	origins[0] = origin;
	c->origins = origins;
	c->norigins = 1;
	assert_int_equal(tr_http.check(c, &err), 0);
	origin[TR_HTTP_ORIGIN_MAX] = 'o';
	origin[TR_HTTP_ORIGIN_MAX + 1] = '\0';
	assert_int_equal(tr_http.check(c, &err), ERR_INVALID);
	c->norigins = 0;
	free(c->address);
	c->address = mem_strdup("0.0.0.0:0");
	assert_int_equal(tr_http.check(c, &err), ERR_INVALID);  /* SEC S-102 */
	c->insecure = true;
	assert_int_equal(tr_http.check(c, &err), 0);
	c->tenant = (char []){ "acme" };
	assert_int_equal(tr_http.check(c, &err), ERR_INVALID);  /* MCP B-28 */
}

/* --- what the core is told of the head */

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

/* --- answers */

static void answers_carry_what_the_core_says(void **state)
{
	assert_int_equal(ask(ASK()), 200);
	assert_true(head_has("Content-Type: application/json"));
	assert_string_equal(body(), "1 new acme");
	assert_int_equal(ask(ASK(.body = "quiet 1 new")), 202);
	assert_true(head_has("Content-Length: 0"));             /* MCP B-53 */
	assert_null(strstr(peer->head, "Content-Type"));
	assert_int_equal(ask(ASK(.body = "session 1 old")), 200);
	assert_true(head_has("Mcp-Session-Id: " FAKE_SESSION));
	assert_int_equal(ask(ASK(.body = "status 1 new 404")), 404);
	assert_string_equal(body(), "1 new acme");
	assert_int_equal(ask(ASK(.body = "status 1 new 429")), 429);
	assert_true(head_has("Retry-After: 7"));
	assert_int_equal(ask(ASK(.body = "deny 1 new")), 401);
	assert_true(head_has("WWW-Authenticate: Bearer realm=\"toolcrib\""));
	assert_int_equal(rig.npeers, 1);                        /* all on one connection */
}

/* MCP H-06 */
static void first_notice_turns_the_answer_into_a_stream(void **state)
{
	assert_int_equal(ask(ASK(.body = "notes 1 new 2")), 200);
	assert_true(head_has("Content-Type: text/event-stream"));
	assert_true(head_has("Cache-Control: no-store"));
	assert_true(head_has("X-Accel-Buffering: no"));         /* MCP H-40 */
	tr_expect(peer, "note 1 acme 0");
	tr_expect(peer, "note 1 acme 1");
	tr_expect(peer, "1 new acme");
	assert_int_equal(peer->comments, 0);
}

static void body_is_taken_up_to_its_limit(void **state)
{
	char *text = mem_alloc(TRANSPORT_MESSAGE_MAX + 2);

	memset(text, ' ', TRANSPORT_MESSAGE_MAX + 1);
	memcpy(text, "now 1 new", 9);
	text[TRANSPORT_MESSAGE_MAX] = '\0';
	assert_int_equal(ask(ASK(.body = text)), 200);
	assert_int_equal(fake_last(rig.srv)->len, TRANSPORT_MESSAGE_MAX);
	text[TRANSPORT_MESSAGE_MAX] = ' ';
	text[TRANSPORT_MESSAGE_MAX + 1] = '\0';
	assert_int_equal(ask(ASK(.body = text)), 413);
	assert_int_equal(rig.srv->nseen, 1);
	free(text);
}

/* --- time */

static void step(unsigned seconds)
{
	clock_step(seconds * SECOND_US);
	tr_settle(&rig);
}

/* MCP B-39 */
static void late_answer_becomes_a_stream(void **state)
{
	send_ask(ASK(.body = "later 1 new"));
	TR_WAIT(&rig, rig.srv->nseen == 1);
	step(5);
	step(4);
	assert_int_equal(peer->heads, 0);
	step(6);
	assert_int_equal(peer->heads, 1);
	assert_int_equal(peer->status, 200);
	assert_true(head_has("Content-Type: text/event-stream"));
	assert_int_equal(peer->comments, 1);
	fake_finish(rig.srv, "1", "acme");
	tr_expect(peer, "1 new acme");
	TR_WAIT(&rig, peer->replies == 1);
}

static void late_answer_stays_json_where_no_stream_is_accepted(void **state)
{
	send_ask(ASK(.body = "later 1 new", .more = "Accept: application/json\r\n"));
	TR_WAIT(&rig, rig.srv->nseen == 1);
	for (unsigned i = 0; i < 12; i++)
		step(5);
	assert_int_equal(peer->heads, 0);
	fake_finish(rig.srv, "1", "acme");
	TR_WAIT(&rig, peer->replies == 1);
	assert_true(head_has("Content-Type: application/json"));
}

/* The time begins with the message, not with a head whose body comes slowly. */
static void slow_body_is_no_late_answer(void **state)
{
	send_ask(ASK(.body = NONE, .more = HTTP_ACCEPT "Content-Length: 11\r\n"));
	tr_settle(&rig);
	for (unsigned i = 0; i < 7; i++)
		step(2);
	tr_rawz(peer, "later 1 new");
	TR_WAIT(&rig, rig.srv->nseen == 1);
	step(5);
	assert_int_equal(peer->heads, 0);
	fake_finish(rig.srv, "1", "acme");
	TR_WAIT(&rig, peer->replies == 1);
	assert_true(head_has("Content-Type: application/json"));
}

/* MCP N-12, H-40 */
static void quiet_streams_get_comments(void **state)
{
	send_ask(ASK(.body = "later 1 new"));
	TR_WAIT(&rig, rig.srv->nseen == 1);
	fake_notice(rig.srv, "1", "acme");
	tr_expect(peer, "note 1 acme 0");
	for (unsigned i = 0; i < 2; i++)
		step(5);
	assert_int_equal(peer->comments, 0);
	step(5);
	assert_int_equal(peer->comments, 1);
	step(5);
	step(5);
	fake_notice(rig.srv, "1", "acme");      /* not quiet */
	step(5);
	assert_int_equal(peer->comments, 1);
	step(5);
	step(5);
	assert_int_equal(peer->comments, 2);
	tr_expect(peer, "note 1 acme 0");
	fake_finish(rig.srv, "1", "acme");
	tr_expect(peer, "1 new acme");
}

/* --- the stream of a session (MCP B-25) */

static struct tr_peer *get_stream(void)
{
	struct tr_peer *p;

	peer = NULL;
	send_ask(SESSION_ASK());
	p = peer;
	TR_WAIT(&rig, p->comments == 1);        /* the head is not held back */
	assert_int_equal(p->status, 200);
	return p;
}

/* MCP H-15 */
static void get_is_the_one_stream_of_its_session(void **state)
{
	struct tr_peer *a = get_stream(), *b;

	assert_true(head_has("Content-Type: text/event-stream"));
	rig.srv->stream_ops->push(rig.srv->stream_peer, "one", 3);
	tr_expect(a, "one");
	b = get_stream();
	TR_WAIT(&rig, a->replies == 1);         /* the older one ends */
	assert_int_equal(rig.srv->streams_gone, 0);
	rig.srv->stream_ops->push(rig.srv->stream_peer, "two", 3);
	tr_expect(b, "two");
	step(20);                               /* and is not looked at any more */
	tr_nothing(a);
	peer = a;                               /* its connection is as good as new */
	assert_int_equal(ask(ASK()), 200);
	tr_vanish(&b);
	TR_WAIT(&rig, rig.srv->streams_gone == 1);
	(void)get_stream();
	assert_int_equal(rig.srv->streams, 3);
}

static void get_stream_is_kept_alive(void **state)
{
	struct tr_peer *p = get_stream();

	for (unsigned i = 0; i < 6; i++)
		step(5);
	assert_int_equal(p->comments, 3);
}

static void comments_do_not_queue_behind_what_is_not_read(void **state)
{
	struct tr_peer *p = get_stream();
	char *text = mem_alloc(FAKE_FLOOD_BYTES);
	unsigned n = 0;

	memset(text, 'p', FAKE_FLOOD_BYTES);
	tr_read(p, false);
	for (; rig.srv->stream_ops->queued(rig.srv->stream_peer) == 0; n++) {
		rig.srv->stream_ops->push(rig.srv->stream_peer, text, FAKE_FLOOD_BYTES);
		tr_settle(&rig);
	}
	free(text);
	for (unsigned i = 0; i < 4; i++)
		step(5);
	tr_read(p, true);
	while (n-- > 0)
		(void)tr_next(p);
	tr_nothing(p);
	assert_int_equal(p->comments, 1);
}

/* MCP H-15 */
static void get_and_delete_need_their_session(void **state)
{
	static const char *const methods[] = { "GET", "DELETE" };

	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(ask(SESSION_ASK(.method = methods[i], .more = "")), 405);
		assert_true(head_has("Allow: POST, GET, DELETE"));
		assert_int_equal(ask(SESSION_ASK(.method = methods[i], .more = "Mcp-Session-Id: unknown\r\n")), 404);
		assert_string_equal(body(), "no such session\n");
		assert_int_equal(ask(SESSION_ASK(.method = methods[i], .key = rig.other.text)), 404);
		assert_string_equal(body(), "no such session\n");
	}
	assert_int_equal(ask(SESSION_ASK(.more = "Accept: application/json\r\nMcp-Session-Id: " FAKE_SESSION "\r\n")), 406);
	assert_int_equal(rig.srv->streams + rig.srv->sessions_ended, 0);
}

static void delete_ends_the_session_and_its_stream(void **state)
{
	struct tr_peer *p = get_stream();

	peer = NULL;
	assert_int_equal(ask(SESSION_ASK(.method = "DELETE")), 204);
	assert_null(strstr(peer->head, "Content-"));
	TR_WAIT(&rig, p->replies == 1);
	assert_int_equal(rig.srv->sessions_ended, 1);
	assert_int_equal(ask(SESSION_ASK(.method = "DELETE")), 404);
	assert_int_equal(ask(SESSION_ASK()), 404);
}

/* MCP B-24: a reader that has gone is noticed while its stream is quiet, and the slow one loses its stream only. */
static void slow_get_stream_is_ended(void **state)
{
	struct tr_peer *p = get_stream();
	char *text = mem_alloc(FAKE_FLOOD_BYTES);

	memset(text, 'p', FAKE_FLOOD_BYTES);
	tr_read(p, false);
	for (unsigned i = 0; i < 1000 && rig.srv->stream_ops; i++) {
		rig.srv->stream_ops->push(rig.srv->stream_peer, text, FAKE_FLOOD_BYTES);
		tr_turn(&rig);
	}
	assert_null(rig.srv->stream_ops);
	assert_int_equal(rig.srv->streams_gone, 1);
	free(text);
	tr_read(p, true);
	tr_ended(p);
}

/* --- HTTP+SSE of 2024-11-05 (MCP O-01 to O-05) */

static void endpoint_belongs_to_one_stream_and_its_principal(void **state)
{
	struct tr_peer *a, *b;
	char longer[80];

	tr_listen(&rig);
	rig.sse = true;
	a = tr_dial(&rig, "acme");
	b = tr_dial(&rig, "acme");
	rig.sse = false;
	assert_string_not_equal(a->endpoint, b->endpoint);
	assert_int_equal(ask(ASK(.target = a->endpoint, .body = "now 1 old")), 202);
	assert_string_equal(body(), "Accepted\n");
	tr_expect(a, "1 old acme");
	tr_nothing(b);
	assert_int_equal(ask(ASK(.target = a->endpoint, .key = NONE)), 401);
	assert_int_equal(ask(ASK(.target = a->endpoint, .key = rig.other.text)), 404);
	assert_int_equal(ask(ASK(.target = a->endpoint, .type = "text/plain")), 415);
	(void)snprintf(longer, sizeof longer, "%sx", a->endpoint);
	assert_int_equal(ask(ASK(.target = longer)), 404);
	assert_int_equal(ask(ASK(.target = "/messages?s=")), 404);
	assert_int_equal(ask(ASK(.target = "/messages?")), 404);
	(void)snprintf(longer, sizeof longer, "%s", a->endpoint);
	tr_hang_up(&a);
	TR_WAIT(&rig, rig.srv->channels_closed == 1);
	assert_int_equal(ask(ASK(.target = longer)), 404);
	assert_int_equal(ask(ASK(.target = b->endpoint, .body = "stop 2 old")), 202);
	tr_expect(b, "2 old acme");
	TR_WAIT(&rig, b->replies == 1);
	assert_int_equal(ask(ASK(.target = b->endpoint)), 404);
	assert_int_equal(rig.srv->nseen, 2);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, open_rig, close_rig)
#define FROZEN(fn) cmocka_unit_test_setup_teardown(fn, open_frozen, close_rig)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(only_the_table_of_routes_is_served), T(path_of_a_foreign_tenant_is_like_a_wrong_one),
		T(only_loopback_names_reach_a_loopback_listener), T(public_listener_takes_addresses_and_listed_names),
		T(host_missing_twice_or_unlike_the_target_is_400), T(allowed_origin_may_read_every_answer),
		T(preflight_names_what_it_allows), T(unknown_wrong_malformed_and_missing_are_one_401),
		T(scheme_has_any_case_and_comes_once), T(only_a_proved_secret_learns_the_reason), T(bound_listener_needs_no_key),
		T(listener_is_checked_before_it_opens), T(post_takes_json_only), T(head_goes_along_with_the_message),
		T(repeated_headers_are_told), T(params_are_counted), T(accept_tells_whether_a_stream_is_wanted),
		T(answers_carry_what_the_core_says), T(first_notice_turns_the_answer_into_a_stream),
		T(body_is_taken_up_to_its_limit), FROZEN(late_answer_becomes_a_stream),
		FROZEN(late_answer_stays_json_where_no_stream_is_accepted), FROZEN(slow_body_is_no_late_answer),
		FROZEN(quiet_streams_get_comments), FROZEN(get_is_the_one_stream_of_its_session), FROZEN(get_stream_is_kept_alive),
		FROZEN(comments_do_not_queue_behind_what_is_not_read),
		T(get_and_delete_need_their_session), T(delete_ends_the_session_and_its_stream), T(slow_get_stream_is_ended),
		T(endpoint_belongs_to_one_stream_and_its_principal),
	};

	return cmocka_run_group_tests_name("transport_http", tests, tr_store_open, tr_store_close);
}
