/* The HTTP way in: which paths there are, and who is let through to the core. */

#include "config.h"

#include "http_ask.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/metric.h"
#include "suite.h"

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

/* SEC S-104: not even that there is no such path. */
static void a_page_from_elsewhere_learns_of_no_path(void **state)
{
	static const char *const paths[] = { "/mcp", "/nothing", "/.well-known/oauth-protected-resource" };

	for (size_t i = 0; i < NELEMS(paths); i++) {
		assert_int_equal(ask(ASK(.target = paths[i], .host = "evil.example")), 403);
		assert_int_equal(ask(ASK(.target = paths[i], .more = "Origin: https://evil.example\r\n")), 403);
	}
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

/* --- credentials */

/* All but the date and the request's name. */
static void copy_answer(char *ret, size_t size)
{
	const char *date = strstr(peer->head, "Date: "), *id = strstr(date, "X-Request-Id: ");

	(void)snprintf(ret, size, "%.*s%s%s", (int)(date - peer->head), peer->head, strstr(id, "\r\n"), body());
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
		uint64_t before = metric_get(METRIC_auth_failures);

		assert_int_equal(ask(rows[i]), 401);
		assert_int_equal(metric_get(METRIC_auth_failures), before + 1);
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

/* SEC S-842: whoever is about to ask is told, and a stop waits for nobody else. */
static void stop_is_told_to_those_who_ask(void **state)
{
	struct tr_peer *idle;

	assert_int_equal(ask(ASK()), 200);
	idle = tr_dial(&rig, "acme");
	tr_settle(&rig);
	tr_http.drain(rig.t);
	assert_int_equal(ask(ASK()), 503);
	assert_true(head_has("Connection: close"));
	assert_true(head_has("Retry-After: 1"));
	assert_string_equal(body(), "the server is stopping\n");
	tr_ended(peer);
	clock_step(SECOND_US / 2);
	tr_ended(idle);
	assert_int_equal(rig.srv->nseen, 1);
}

/* SEC S-807 */
static void who_fills_the_server_keeps_no_connection(void **state)
{
	struct tr_peer *kept;

	assert_int_equal(ask(ASK()), 200);
	kept = peer;
	tr_http.pressure(rig.t, TRANSPORT_NEARLY_FULL);
	rig.srv->crowd = "acme";
	assert_int_equal(ask(ASK()), 200);
	assert_ptr_equal(peer, kept);
	assert_true(head_has("Connection: close"));
	tr_ended(kept);
	assert_int_equal(ask(ASK(.key = rig.other.text)), 200); /* another tenant */
	assert_false(head_has("Connection: close"));
	assert_int_equal(ask(ASK(.body = "notes 1 new 1", .key = rig.other.text)), 200);
	assert_false(head_has("Connection: close"));
	assert_int_equal(ask(ASK(.body = "notes 2 new 1")), 200);
	assert_true(head_has("Connection: close"));             /* an event stream */
	assert_int_equal(ask(ASK(.key = NONE)), 401);           /* nobody */
	assert_true(head_has("Connection: close"));
	/* So many in 100 ms, and no more. */
	for (unsigned i = 3; i < 10; i++) {
		assert_int_equal(ask(ASK()), 200);
		assert_true(head_has("Connection: close"));
	}
	assert_int_equal(ask(ASK()), 200);
	assert_false(head_has("Connection: close"));
	clock_step(SECOND_US / 10);
	assert_int_equal(ask(ASK()), 200);
	assert_true(head_has("Connection: close"));
	tr_http.pressure(rig.t, TRANSPORT_CALM);
	rig.srv->crowd = NULL;
	assert_int_equal(ask(ASK(.key = NONE)), 401);
	assert_false(head_has("Connection: close"));
	assert_int_equal(ask(ASK()), 200);
	assert_false(head_has("Connection: close"));
}

/* SEC S-807: idle strangers go first, and one that asks in time is heard. */
static void full_server_hurries_strangers(void **state)
{
	struct tr_peer *known, *idle, *late;

	assert_int_equal(ask(ASK()), 200);
	known = peer;
	idle = tr_dial(&rig, "acme");
	peer = tr_dial(&rig, "acme");
	tr_settle(&rig);
	tr_http.pressure(rig.t, TRANSPORT_NEARLY_FULL);
	clock_step(3 * SECOND_US);
	tr_settle(&rig);
	assert_false(idle->eof);
	tr_http.pressure(rig.t, TRANSPORT_FULL);
	assert_int_equal(ask(ASK()), 200);
	assert_true(head_has("Connection: close"));
	tr_ended(peer);
	clock_step(2 * SECOND_US);
	tr_ended(idle);
	tr_settle(&rig);
	assert_false(known->eof);
	/* A new one is in a hurry too. */
	late = tr_dial(&rig, "acme");
	tr_settle(&rig);
	clock_step(2 * SECOND_US);
	tr_ended(late);
	tr_http.pressure(rig.t, TRANSPORT_CALM);
	peer = known;
	assert_int_equal(ask(ASK()), 200);
	assert_false(head_has("Connection: close"));
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

SINGLE_THREAD_SUITE(http)
{
	const struct CMUnitTest tests[] = {
		T(only_the_table_of_routes_is_served), T(a_page_from_elsewhere_learns_of_no_path),
		T(path_of_a_foreign_tenant_is_like_a_wrong_one),
		T(unknown_wrong_malformed_and_missing_are_one_401), T(scheme_has_any_case_and_comes_once),
		T(only_a_proved_secret_learns_the_reason), FROZEN(stop_is_told_to_those_who_ask),
		FROZEN(who_fills_the_server_keeps_no_connection), FROZEN(full_server_hurries_strangers), T(bound_listener_needs_no_key),
		T(listener_is_checked_before_it_opens),
	};

	return cmocka_run_group_tests_name("transport_http", tests, tr_store_open, tr_store_close);
}
