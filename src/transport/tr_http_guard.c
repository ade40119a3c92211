/* Which requests may reach the core: the route table, Host and Origin, the credential.  Each refusal is decided here
 * before a body is read (SEC S-104, S-106, S-115). */

#include "config.h"

#include "tr_http_int.h"

#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/mem.h"
#include "base/text.h"
#include "net/addr.h"
#include "oauth/oauth.h"

enum hroute http_route(struct http_text path, struct http_text *ret_tenant)
{
	static const char prefix[] = "/t/", suffix[] = "/mcp";
	const size_t np = sizeof(prefix) - 1, ns = sizeof(suffix) - 1;

	*ret_tenant = (struct http_text){ NULL, 0 };
	if (http_text_is(path, suffix))
		return ROUTE_MCP;
	if (http_text_is(path, "/sse"))                 /* the tenant is the credential's (MCP B-30) */
		return ROUTE_SSE;
	if (http_text_is(path, "/messages"))
		return ROUTE_MESSAGES;
	if (path.len <= np + ns || memcmp(path.p, prefix, np) != 0 || memcmp(path.p + path.len - ns, suffix, ns) != 0)
		return ROUTE_NONE;
	*ret_tenant = (struct http_text){ path.p + np, path.len - np - ns };
	return memchr(ret_tenant->p, '/', ret_tenant->len) ? ROUTE_NONE : ROUTE_MCP;
}

/* A host with an optional port: its name without the port, or p NULL. */
static struct http_text host_name(struct http_text host)
{
	const struct http_text bad = { NULL, 0 };
	const char *end = host.p + host.len, *from = host.p, *colon;
	uint64_t port;

	if (host.len > 0 && host.p[0] == '[') {
		from = memchr(host.p, ']', host.len);
		if (!from)
			return bad;
	}
	colon = memchr(from, ':', (size_t)(end - from));
	if (!colon)
		return host;
	if (text_u64(colon + 1, (size_t)(end - colon - 1), &port) < 0 || end - colon > 6 || port > UINT16_MAX)
		return bad;
	return (struct http_text){ host.p, (size_t)(colon - host.p) };
}

static bool is_loopback_name(struct http_text name)
{
	return name.p && (http_text_is_nocase(name, "localhost") || http_text_is(name, "127.0.0.1") ||
			  http_text_is(name, "[::1]"));
}

static bool is_address(struct http_text name)
{
	char text[ADDR_TEXT_SIZE];
	struct addr a;
	int n = snprintf(text, sizeof(text), "%.*s:0", (int)name.len, name.p ? name.p : "");

	return n > 0 && (size_t)n < sizeof(text) && addr_parse(text, &a, NULL) == 0;
}

static bool listed(struct http_text value, char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (http_text_is_nocase(value, list[i]))
			return true;
	}
	return false;
}

/* A name that a web page could have pointed at us is refused: on loopback only loopback's names pass, elsewhere
 * addresses and what the configuration lists (DNS rebinding, SEC S-T20). */
static bool host_allowed(const struct tr_http *t, struct http_text host)
{
	struct http_text name = host_name(host);

	if (listed(host, t->conf->hosts, t->conf->nhosts))
		return true;
	return t->loopback ? is_loopback_name(name) : is_address(name);
}

static bool origin_allowed(const struct tr_http *t, struct http_text origin)
{
	if (listed(origin, t->conf->origins, t->conf->norigins))
		return true;
	if (!t->loopback)
		return false;
	for (size_t i = 0; i < 2; i++) {
		const char *scheme = i == 0 ? "http://" : "https://";
		size_t n = strlen(scheme);

		if (origin.len > n && memcmp(origin.p, scheme, n) == 0)
			return is_loopback_name(host_name((struct http_text){ origin.p + n, origin.len - n }));
	}
	return false;
}

int http_guard_host(const struct tr_http *t, const struct http_head *h)
{
	unsigned origins = 0;
	struct http_text host = http_head_get(h, "host", NULL);
	struct http_text origin = http_head_get(h, "origin", &origins);

	if (!host.p || !host_allowed(t, host))
		return 403;
	if (origins > 1 || (origin.p && !origin_allowed(t, origin)))
		return 403;
	return 0;
}

/* Loopback's names may call a loopback listener, but a page there reads nothing unless it is listed. */
struct http_text http_cors_origin(const struct tr_http *t, const struct http_head *h)
{
	struct http_text origin = http_head_get(h, "origin", NULL);

	return listed(origin, t->conf->origins, t->conf->norigins) ? origin : (struct http_text){ NULL, 0 };
}

/* Tokens never begin like keys, also not like those of administrators; what does is told to be no good by the check of keys,
 * and no issuer is asked about it. */
static bool is_token(const struct tr_http *t, struct http_text value)
{
	static const char keys[][4] = { { 't', 'c', 'k', '_' }, { 't', 'c', 'a', '_' } };

	for (size_t i = 0; i < NELEMS(keys); i++)
		if (value.len >= sizeof(keys[i]) && memcmp(value.p, keys[i], sizeof(keys[i])) == 0)
			return false;
	return oauth_has_issuers(t->env.oauth) && value.len > 0;
}

int http_guard_who(const struct hconn *c, const struct http_head *h, struct http_asker *ret, char *ret_text, size_t size)
{
	struct tr_http *t = c->t;
	static const char scheme[] = "Bearer ";
	const size_t n = sizeof(scheme) - 1;
	char client[TR_HTTP_CLIENT_SIZE];
	const struct cred_source source = { http_client(c, h, client), AUDIT_HTTP };
	unsigned count = 0;
	struct http_text value = http_head_get(h, "authorization", &count);
	struct err err;
	int rc;

	if (count > 1) {                                /* MCP B-37 */
		snprintf(ret_text, size, "Authorization came twice\n");
		return 400;
	}
	rc = transport_cert_who(&t->env, t->conf, c->tls, &source, &ret->who);
	if (rc < 0)
		snprintf(ret_text, size, "this certificate names nobody here\n");
	if (rc)
		return rc < 0 ? 401 : 0;
	if (t->conf->tenant) {
		rc = principal_named(t->env.tenants, t->conf->tenant, t->conf->principal, AUDIT_AUTHN_BOUND, &ret->who, &err);
		if (rc < 0)
			cred_refused(t->env.tenants, &source, CRED_SUSPENDED);
		snprintf(ret_text, size, "the tenant of this listener is not served\n");
		return rc < 0 ? 401 : 0;
	}
	if (value.len <= n || !http_text_is_nocase((struct http_text){ value.p, n }, scheme))
		value = (struct http_text){ scheme, n };        /* as a wrong key: the same work, the same words */
	ret->had_one = count > 0;
	ret->token = (struct http_text){ value.p + n, value.len - n };
	if (is_token(t, ret->token))
		return HTTP_TOKEN;
	rc = cred_check(t->env.tenants, value.p + n, value.len - n, &source, &ret->who, &err);
	if (rc < 0)
		snprintf(ret_text, size, "%s\n", err.msg);
	return rc < 0 ? 401 : 0;
}
