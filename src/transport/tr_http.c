/* Streamable HTTP of both eras: POST, GET, DELETE and OPTIONS on /mcp and /t/<tenant>/mcp (MCP 14, C.3); the way to
 * HTTP+SSE for /sse and /messages.  Listeners and timers call it, on the loop's thread.
 *
 * Order of the checks: Host and Origin, path, credential, tenant of the path, method, Content-Type; then the body is
 * read and handed to the core as one message.  Facts of the head go along in mcp_headers; the core decides by
 * message. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "ev/ev.h"
#include "oauth/oauth.h"
#include "tenant/scope.h"

#include "tr_http_int.h"

/* --- what a server that fills up has no patience for: strangers (SEC S-807) */

/* Whoever has not said who it is goes first: it has to ask at once, and has one answer. */
static void http_hurry(struct hconn *c)
{
	if (c->pass.tenant || c->hurried)
		return;
	c->hurried = true;
	metric_inc(METRIC_connections_hurried);
	http_conn_drain_in(c->conn, TR_HTTP_HURRY_MS);
}

static void http_pressure(struct transport *base, enum transport_pressure pressure)
{
	struct tr_http *t = CONTAINER_OF(base, struct tr_http, base);
	bool full = pressure == TRANSPORT_FULL && t->pressure != TRANSPORT_FULL;

	t->pressure = pressure;
	listen_slow(t->listener, pressure == TRANSPORT_FULL);
	if (!full)
		return;
	LIST_FOREACH_SAFE(n, tmp, &t->conns)
		http_hurry(CONTAINER_OF(n, struct hconn, node));
}

/* --- who may come in */

static const char no_path[] = "no such path\n";

/* somebody failed to say who he is */
static void punish(struct hconn *c)
{
	if (gate_penalty_ms(&c->pass) > 0)
		http_conn_drain(c->conn);               /* the next try is a connection, and has to wait (SEC S-316) */
}

/* May this tenant come in, at this path?  0, or the status that refuses. */
static int admit_tenant(struct hconn *c, struct http_text tenant, const struct principal *who, struct http_refusal *no)
{
	if (!gate_join(&c->pass, who->tenant_id)) {
		(void)snprintf(no->text, sizeof(no->text), "the tenant has too many connections\n");
		no->retry_s = 1;
		http_conn_drain(c->conn);
		return 503;
	}
	/* Whether or not that tenant exists (MCP B-30). */
	if (tenant.p && !http_text_is(tenant, who->tenant)) {
		snprintf(no->text, sizeof(no->text), "%s", no_path);
		return 404;
	}
	return 0;
}

/* --- access tokens */

/* A bearer that is no key is checked by its issuer's word, for which a request may have to wait at its head; and what
 * those are told who have none, or one that is not enough (SEC 7, MCP 17). */

#define WELL_KNOWN "/.well-known/oauth-protected-resource"

static bool has_tokens(const struct tr_http *t)
{
	return oauth_has_issuers(t->env.oauth) && !t->conf->tenant;
}

/* --- the URL that was asked for, and its document */

/* The path of the MCP endpoint behind prefix: the tenant's own, when the path names what can be one, whether or not
 * there is such a tenant (MCP B-30); /sse and /messages belong to /mcp. */
static void put_path(const struct tr_http *t, const char *prefix, struct http_text tenant, struct str *out)
{
	str_puts(out, t->origin);
	str_puts(out, prefix);
	if (tenant.p && text_entity_name(tenant.p, tenant.len)) {
		str_puts(out, "/t/");
		str_put(out, tenant.p, tenant.len);
	}
	str_puts(out, "/mcp");
}

/* Is it the path of a document about us (RFC 9728)?  *ret_tenant as http_route(). */
static bool route_metadata(const struct tr_http *t, struct http_text path, struct http_text *ret_tenant)
{
	static const char prefix[] = WELL_KNOWN;
	const size_t n = sizeof(prefix) - 1;

	*ret_tenant = (struct http_text){ NULL, 0 };
	if (!has_tokens(t) || path.len < n || memcmp(path.p, prefix, n) != 0)
		return false;
	path = (struct http_text){ path.p + n, path.len - n };
	if (path.len == 0)                              /* the root form speaks for /mcp (MCP A-04) */
		return true;
	return http_route(path, ret_tenant) == ROUTE_MCP && (!ret_tenant->p ||
							     text_entity_name(ret_tenant->p, ret_tenant->len));
}

static void put_metadata(const struct tr_http *t, struct http_text tenant, struct str *out)
{
	struct str resource = STR_INIT;

	put_path(t, "", tenant, &resource);
	oauth_metadata(t->env.oauth, str_text(&resource), out);
	str_fini(&resource);
}

/* --- challenges */

static void put_challenge(const struct tr_http *t, struct http_text tenant, struct oauth_challenge *c, struct str *out)
{
	struct str metadata = STR_INIT;

	put_path(t, WELL_KNOWN, tenant, &metadata);
	c->metadata = str_text(&metadata);
	str_puts(out, "WWW-Authenticate: ");
	oauth_challenge(t->env.oauth, c, out);
	str_puts(out, "\r\n");
	str_fini(&metadata);
}

/* Appends the header WWW-Authenticate.  had_one: a credential came, and is not good. */
static void put_unauthorized(const struct tr_http *t, struct http_text tenant, bool had_one, struct str *out)
{
	/* What every client begins with: a list shows what may be called.  More is asked for when it is needed. */
	struct oauth_challenge c = { .error = had_one ? "invalid_token" : NULL,
				     .rights = SCOPE_TOOLS_LIST | SCOPE_TOOLS_CALL };

	if (has_tokens(t))
		put_challenge(t, tenant, &c, out);
	else
		str_puts(out, "WWW-Authenticate: Bearer realm=\"toolcrib\"\r\n");
}

static unsigned rights_of(const struct scopes *s)
{
	unsigned rights = 0;

	for (unsigned right = SCOPE_ANYONE << 1; right <= SCOPE_ADMIN; right <<= 1)
		rights |= scope_has(s, right) ? right : 0;
	return rights;
}

/* What is lacking and what is there already, at once: a client that asks for less would lose the rest (MCP A-10). */
static void put_insufficient(const struct hreq *q, const char *scope, struct str *out)
{
	struct oauth_challenge c = { .error = "insufficient_scope", .issuer = q->issuer };
	struct scopes *lacks = NULL;

	if (!q->issuer || scopes_parse(scope, strlen(scope), &lacks, NULL) < 0) {
		str_printf(out, "WWW-Authenticate: Bearer realm=\"toolcrib\", error=\"insufficient_scope\", "
			   "scope=\"%s\"\r\n", scope);
		return;
	}
	c.rights = rights_of(lacks) | rights_of(q->who->scopes);
	scopes_unref(&lacks);
	put_challenge(q->t, (struct http_text){ q->tenant, q->tenant ? strlen(q->tenant) : 0 }, &c, out);
}

/* --- the check of a token */

#define HTTP_LATER 1

/* What is known of it is known: who, or why not.  0, or the status that refuses. */
static int settle(struct hreq *q, int rc, const struct oauth_pass *pass, const struct err *err, struct http_refusal *no)
{
	struct http_text tenant = { q->tenant, q->tenant ? strlen(q->tenant) : 0 };

	if (rc == 0) {
		q->who = pass->who;
		q->issuer = pass->issuer;
		return admit_tenant(q->c, tenant, q->who, no);
	}
	snprintf(no->text, sizeof(no->text), "%s\n", err->msg);
	if (rc != ERR_DENIED) {
		no->retry_s = (err->retry_ms + 999) / 1000;
		return 503;
	}
	put_unauthorized(q->t, tenant, true, &no->headers);
	http_not_known(q->c);
	punish(q->c);
	return 401;
}

static void on_checked(void *arg, int rc, const struct oauth_pass *pass, const struct err *err)
{
	struct hreq *q = arg;
	struct http_refusal no = { .headers = STR_INIT };
	int status;

	q->check = NULL;
	status = settle(q, rc, pass, err, &no);
	if (status == 0 && q->later.status) {
		status = q->later.status;
		str_puts(&no.headers, q->later.headers);
		snprintf(no.text, sizeof(no.text), "%s", q->later.text);
	}
	if (status == 0) {
		http_go_on(q->r);
		return;
	}
	if (no.retry_s)
		str_printf(&no.headers, "Retry-After: %u\r\n", no.retry_s);
	hreq_refuse(q, status, str_text(&no.headers), no.text);
	str_fini(&no.headers);
}

/* Whose is it?  0: q->who is.  HTTP_LATER: it is held, and goes on or is refused by itself.  Else the status. */
static int check_token(struct hreq *q, struct http_text token, struct http_refusal *no)
{
	const struct cred_source source = { q->from, AUDIT_HTTP };
	struct oauth_pass pass = { 0 };
	struct str resource = STR_INIT;
	struct err err = { 0 };
	int rc;

	put_path(q->t, "", (struct http_text){ q->tenant, q->tenant ? strlen(q->tenant) : 0 }, &resource);
	rc = oauth_check(q->t->env.oauth, &(struct oauth_ask){ token.p, token.len, str_text(&resource), &source },
			 on_checked, q,
			 &pass, &q->check, &err);
	str_fini(&resource);
	return rc == 1 ? HTTP_LATER : settle(q, rc, &pass, &err, no);
}

/* What a route takes, and the words for everything else. */
static const struct {
	unsigned methods;
	const char *allow, *text;
} routes[] = {
	[ROUTE_MCP] = { 1 << METHOD_POST | 1 << METHOD_GET | 1 << METHOD_DELETE, "Allow: POST, GET, DELETE\r\n",
			"POST, GET or DELETE\n" },
	/* A client that tries to POST here first goes on to GET (MCP B-25, O-04). */
	[ROUTE_SSE] = { 1 << METHOD_GET, "Allow: GET\r\n", "GET opens the event stream\n" },
	[ROUTE_METADATA] = { 1 << METHOD_GET, "Allow: GET\r\n", "GET reads the document\n" },
	[ROUTE_MESSAGES] = { 1 << METHOD_POST, "Allow: POST\r\n", "POST takes messages\n" },
};

/* --- exchanges */

static void exchange_notice(void *peer, const char *text, size_t len)
{
	struct hreq *q = peer;

	if (!q->streaming)
		hreq_stream_begin(q);
	hreq_event(q, text, len);
}

static void reply(struct hreq *q, const struct mcp_answer *a)
{
	static const char json[] = "Content-Type: application/json\r\n";
	const bool plain = a->status == 200 && a->len > 0 && !q->origin && !a->session && !a->retry_after_s;
	struct http_request *r = q->r;
	struct str headers = STR_INIT;
	char cors[TR_HTTP_CORS_SIZE];

	if (plain) {            /* as most are: nothing has to be put together */
		hreq_keep(q);
		hreq_free(q);
		http_reply(r, 200, json, a->text, a->len);
		return;
	}
	str_puts(&headers, a->len > 0 ? json : "");
	str_puts(&headers, hreq_cors(q, cors));
	if (a->session)
		str_printf(&headers, "Mcp-Session-Id: %s\r\n", a->session);
	if (a->retry_after_s)
		str_printf(&headers, "Retry-After: %u\r\n", a->retry_after_s);
	if (a->status == 401)
		put_unauthorized(q->t, (struct http_text){ q->tenant, q->tenant ? strlen(q->tenant) : 0 }, true,
				 &headers);
	if (a->status == 403 && a->scope)
		put_insufficient(q, a->scope, &headers);
	hreq_keep(q);
	hreq_free(q);
	http_reply(r, a->status, str_text(&headers), a->text, a->len);
	str_fini(&headers);
}

static void exchange_finish(void *peer, const struct mcp_answer *a)
{
	struct hreq *q = peer;

	if (!q->streaming) {
		reply(q, a);
		return;
	}
	struct http_request *r = q->r;

	if (a->len > 0)
		hreq_answer_event(q, a->text, a->len);
	hreq_free(q);
	http_stream_end(r);
}

static const struct mcp_sink_ops exchange_ops = { exchange_notice, exchange_finish };

static void post(struct hreq *q, const char *body, size_t len)
{
	struct mcp_in in = { .text = body, .len = len, .who = q->who, .http = &q->http, .tport = AUDIT_HTTP,
		.peer = q->from };
	struct mcp_sink sink = { &exchange_ops, q };

	q->begun_us = ev_now_us(q->t->env.loop);
	mcp_input(q->t->env.mcp, NULL, &in, &sink, &q->x);
}

/* --- the connection's callbacks */

/* The Mcp-Param-* names that a preflight asks for, as ", name"; anything that is no token of ours is left out (SEC
 * S-109). */
static void put_params(struct str *out, const struct http_head *h)
{
	static const char prefix[] = "mcp-param-";
	static const char token[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	struct http_text list = http_head_get(h, "access-control-request-headers", NULL), word;
	unsigned n = 0;

	while (n < TR_HTTP_PARAMS_MAX && http_list_next(&list, &word)) {
		size_t len = sizeof(prefix) - 1;

		if (word.len <= len || !http_text_is_nocase((struct http_text){ word.p, len }, prefix))
			continue;
		while (len < word.len && strchr(token, word.p[len]))
			len++;
		if (len < word.len)
			continue;
		str_puts(out, ", ");
		str_put(out, word.p, word.len);
		n++;
	}
}

/* A preflight of an allowed origin (MCP B-55); Host and Origin have been checked. */
static int preflight(const struct tr_http *t, struct http_request *r, const struct http_head *h, enum hroute route)
{
	struct http_text origin = http_cors_origin(t, h);
	struct str headers = STR_INIT;
	char cors[TR_HTTP_CORS_SIZE];

	if (!origin.p) {
		http_refuse(r, 405, routes[route].allow, "", "OPTIONS is for pages of the origins that are listed\n");
		return 1;
	}
	str_puts(&headers, http_cors(origin, cors));
	str_puts(&headers, "Access-Control-Allow-Methods: POST, GET, DELETE\r\nAccess-Control-Max-Age: 600\r\n"
		 "Access-Control-Allow-Headers: Authorization, Content-Type, MCP-Protocol-Version, Mcp-Method, "
		 "Mcp-Name, Mcp-Session-Id, Last-Event-ID");
	put_params(&headers, h);
	str_puts(&headers, "\r\n");
	http_reply(r, 204, headers.p, NULL, 0);
	str_fini(&headers);
	return 1;
}

/* With any parameters; once, so that nobody in front of us can have read another one (MCP B-26). */
static bool is_json(const struct http_head *h)
{
	static const char json[] = "application/json";
	const size_t n = sizeof(json) - 1;
	unsigned count = 0;
	struct http_text type = http_head_get(h, "content-type", &count);

	return count == 1 && type.len >= n && http_text_is_nocase((struct http_text){ type.p, n }, json) &&
		(type.len == n || type.p[n] == ';' || type.p[n] == ' ' || type.p[n] == '\t');
}

/* 0 and the method, or the status that refuses. */
static int method_of(const struct http_head *h, enum hroute route, enum hmethod *ret)
{
	if (http_text_is(h->method, "POST"))
		*ret = METHOD_POST;
	else if (http_text_is(h->method, "GET"))
		*ret = METHOD_GET;
	else if (http_text_is(h->method, "DELETE"))
		*ret = METHOD_DELETE;
	else
		return 405;
	return routes[route].methods & 1u << *ret ? 0 : 405;
}

/* What is wrong with it whoever asks; status 0: nothing. */
static void look_over(const struct http_head *h, struct hreq *q)
{
	if (method_of(h, q->route, &q->method) != 0) {
		q->later.status = 405;
		q->later.headers = routes[q->route].allow;
		q->later.text = routes[q->route].text;
	} else if (q->method == METHOD_POST && !is_json(h)) {
		q->later.status = 415;
		q->later.headers = "";
		q->later.text = "Content-Type must be application/json\n";
	}
}

/* After path, Host and Origin: the credential, the tenant of the path, the method, the type.  0 and HTTP_LATER as
 * check_token(), or the status that refuses. */
static int admit(struct hreq *q, const struct http_head *h, struct http_text tenant, struct http_refusal *no)
{
	struct http_asker asker = { .who = NULL };
	int status;

	look_over(h, q);
	status = http_guard_who(q->c, h, &asker, no->text, sizeof(no->text));
	q->who = asker.who;
	if (status == HTTP_TOKEN) {
		status = check_token(q, asker.token, no);
	} else {
		if (status == 401) {
			put_unauthorized(q->t, tenant, asker.had_one, &no->headers);
			http_not_known(q->c);
		}
		punish(q->c);
		if (status == 0)
			status = admit_tenant(q->c, tenant, q->who, no);
	}
	if (status != 0 || q->later.status == 0)
		return status;
	str_puts(&no->headers, q->later.headers);
	snprintf(no->text, sizeof(no->text), "%s", q->later.text);
	return q->later.status;
}

/* A head is refused for this reason; what that holds is freed. */
static void refuse_head(const struct hconn *c, struct http_request *r, const struct http_head *h, int status,
			struct http_refusal *no)
{
	char cors[TR_HTTP_CORS_SIZE];

	if (no->retry_s)
		str_printf(&no->headers, "Retry-After: %u\r\n", no->retry_s);
	http_refuse(r, status, str_text(&no->headers), http_cors(http_cors_origin(c->t, h), cors), no->text);
	str_fini(&no->headers);
}

/* Before anything is looked at that costs work: a stop, or a source that has to wait.  0, or the status. */
static int turned_away(const struct hconn *c, struct http_refusal *ret)
{
	uint32_t wait_ms = gate_penalty_ms(&c->pass);

	if (c->t->draining) {                           /* SEC S-842 */
		(void)snprintf(ret->text, sizeof(ret->text), "the server is stopping\n");
		ret->retry_s = 1;
		return 503;
	}
	if (wait_ms == 0)
		return 0;
	(void)snprintf(ret->text, sizeof(ret->text), "too many failures from this address, come again later\n");
	ret->retry_s = (wait_ms + 999) / 1000;
	return 429;
}

/* Where tokens for this path come from: anybody may know, whether or not there is such a tenant. */
static void send_metadata(const struct hconn *c, struct http_request *r, const struct http_head *h,
			  struct http_text tenant)
{
	struct str text = STR_INIT, headers = STR_INIT;
	char cors[TR_HTTP_CORS_SIZE];

	put_metadata(c->t, tenant, &text);
	str_puts(&headers, "Content-Type: application/json\r\n");
	str_puts(&headers, http_cors(http_cors_origin(c->t, h), cors));
	http_reply(r, 200, headers.p, text.p, text.len);
	str_fini(&headers);
	str_fini(&text);
}

static int open_head(struct hconn *c, struct http_request *r, const struct http_head *h, enum hroute route,
		     struct http_text tenant, void **ret_user)
{
	struct http_refusal no = { .headers = STR_INIT };
	struct hreq *q;
	enum hmethod method;
	int status;

	if (route == ROUTE_METADATA) {
		if (method_of(h, route, &method) != 0)
			http_refuse(r, 405, routes[route].allow, "", routes[route].text);
		else
			send_metadata(c, r, h, tenant);
		return 1;
	}
	q = hreq_new(c, r, h, tenant);
	q->route = route;
	status = admit(q, h, tenant, &no);
	if (status == 0 || status == HTTP_LATER) {
		str_fini(&no.headers);
		*ret_user = q;
		return status == 0 ? 0 : 2;
	}
	hreq_free(q);
	refuse_head(c, r, h, status, &no);
	return 1;
}

static int on_head(void *arg, struct http_request *r, const struct http_head *h, size_t *body_max, void **ret_user)
{
	struct hconn *c = arg;
	struct http_refusal no = { .headers = STR_INIT };
	struct http_text tenant;
	enum hroute route;
	int status;

	*body_max = TRANSPORT_MESSAGE_MAX;
	status = http_guard_host(c, h, no.text, sizeof(no.text));       /* before anything else (SEC S-104) */
	if (status != 0) {
		http_refuse(r, status, "", "", no.text);
		return 1;
	}
	route = http_route(h->path, &tenant);
	if (route == ROUTE_NONE && route_metadata(c->t, h->path, &tenant))
		route = ROUTE_METADATA;
	if (route == ROUTE_NONE) {
		http_refuse(r, 404, "", "", no_path);
		return 1;
	}
	status = turned_away(c, &no);
	if (status != 0) {
		http_conn_drain(c->conn);
		refuse_head(c, r, h, status, &no);
		return 1;
	}
	if (http_text_is(h->method, "OPTIONS"))
		return preflight(c->t, r, h, route);
	return open_head(c, r, h, route, tenant, ret_user);
}

/* One URL for clients of any age, where the listener says so: those of HTTP+SSE know neither sessions nor the version's
 * header (MCP B-25). */
static bool opens_sse(const struct hreq *q)
{
	return q->route == ROUTE_SSE || (q->t->conf->get_opens_sse && q->http.sse_ok && !q->http.session &&
					 !q->http.version);
}

static void on_request(void *arg, struct http_request *r, void *user, const char *body, size_t len)
{
	struct hreq *q = user;

	switch (q->method) {
	case METHOD_POST:
		(q->route == ROUTE_MESSAGES ? sse_post : post)(q, body, len);
		return;
	case METHOD_GET:
		(opens_sse(q) ? sse_open : hreq_get)(q);
		return;
	case METHOD_DELETE:
		hreq_delete(q);
		return;
	}
}

static void on_gone(void *arg, struct http_request *r, void *user)
{
	struct hreq *q = user;

	if (q->x)
		mcp_exchange_gone(&q->x);
	if (q->stream_session)
		mcp_session_stream_gone(q->t->env.mcp, q->stream_session, q);
	if (q->sse)
		sse_gone(&q->sse);
	hreq_free(q);
}

static void http_free(void *arg)
{
	struct tr_http *t = arg;

	listen_close(&t->listener);
	tls_server_free(&t->base.tls);
	ev_timer_free(&t->tick);
	map_free(&t->sse);
	free(t->origin);
	free(t);
}

static void on_closed(void *arg, struct http_conn *conn)
{
	struct hconn *c = arg;
	struct tr_http *t = c->t;

	list_unlink(&c->node);
	gate_leave(&c->pass);
	free(c);
	metric_dec(METRIC_connections_open);
	listen_conn_gone(t->listener);
	if (t->closing && list_empty(&t->conns))
		ev_defer(t->env.loop, http_free, t);
}

static void on_broken(void *arg)
{
	const struct hconn *c = arg;

	gate_broke(&c->pass);
}

static const struct http_ops conn_ops = { on_head, on_request, on_gone, on_closed, on_broken };

static void http_accepted(void *arg, const struct accepted *a)
{
	struct tr_http *t = arg;
	const struct conf_listener *conf = t->conf;
	const struct http_timers timers = { .head_ms = conf->head_ms, .body_ms = conf->body_ms, .idle_ms = conf->idle_ms,
					    .stall_ms = conf->stall_ms, .late_ms = conf->late_ms };
	struct gate_pass pass;

	if (!front_enter(&t->front, t->listener, a, true, &pass))
		return;
	struct hconn *c = mem_zalloc(sizeof(*c));

	c->t = t;
	c->pass = pass;
	c->proxied = front_is_proxy(&t->front, &a->peer);
	snprintf(c->from, sizeof(c->from), "%s", a->from);
	list_push_back(&t->conns, &c->node);
	metric_inc(METRIC_connections_open);
	c->conn = http_conn_new(t->env.loop, a->fd, &timers, &conn_ops, c);
	http_conn_from(c->conn, a->tls, &c->pass);
	c->tls = a->tls;
	if (t->pressure == TRANSPORT_FULL)
		http_hurry(c);
}

/* --- the room's interface */

static int http_check(const struct conf_listener *c, struct err *err)
{
	for (size_t i = 0; i < c->norigins; i++) {
		if (strlen(c->origins[i]) > TR_HTTP_ORIGIN_MAX)
			return err_set(err, ERR_INVALID, c->address, "an origin is longer than %d bytes",
				       TR_HTTP_ORIGIN_MAX);
	}
	return tr_tcp.check(c, err);            /* the same rules for where it may listen */
}

/* The kernel's choice, where the configuration says 0. */
static uint64_t port_of(const char *address)
{
	const char *colon = strrchr(address, ':');
	uint64_t port = 0;

	return colon && text_u64(colon + 1, strlen(colon + 1), &port) == 0 ? port : 0;
}

static int http_open(const struct transport_env *env, const struct conf_listener *conf, struct transport **ret,
		     struct err *err)
{
	struct tr_http *t = mem_zalloc(sizeof(*t));
	struct addr a;
	int rc;

	t->base.ops = &tr_http;
	t->env = *env;
	t->conf = conf;
	list_init(&t->conns);
	list_init(&t->open);
	t->sse = map_new();
	rc = addr_parse(conf->address, &a, err);
	if (rc == 0)
		rc = front_open(&t->front, env, conf, err);
	if (rc == 0)
		rc = transport_listen(env, conf, http_accepted, t, &t->listener, err);
	if (rc == 0)
		rc = transport_tls_open(&t->base, conf, t->listener, &t->front, err);
	if (rc < 0) {
		listen_close(&t->listener);
		map_free(&t->sse);
		free(t);
		return rc;
	}
	t->loopback = addr_is_loopback(&a);
	t->port = port_of(listen_address(t->listener));
	t->origin = env->resource ? mem_strdup(env->resource) : mem_printf("%s://%s", conf->tls ? "https" : "http",
									   listen_address(t->listener));
	t->tick = ev_timer_new(env->loop, http_tick, t);
	ev_timer_start(t->tick, TR_HTTP_TICK_MS * 1000ull);
	*ret = &t->base;
	return 0;
}

/* base is the first member. */
static const struct tr_http *http_of(const struct transport *t)
{
	return (const struct tr_http *)(const void *)t;
}

static void http_drain(struct transport *base)
{
	struct tr_http *t = CONTAINER_OF(base, struct tr_http, base);

	t->draining = true;
	listen_shut(t->listener);
	LIST_FOREACH_SAFE(n, tmp, &t->conns)
		http_conn_drain_in(CONTAINER_OF(n, struct hconn, node)->conn, TR_HTTP_DRAIN_MS);
}

static void http_leave(struct transport *base, void (*take)(void *arg, int fd), void *arg)
{
	struct tr_http *t = CONTAINER_OF(base, struct tr_http, base);

	listen_pause(t->listener, true);
	LIST_FOREACH_SAFE(n, tmp, &t->conns) {
		struct http_conn *conn = CONTAINER_OF(n, struct hconn, node)->conn;
		int fd = http_conn_hand(conn);

		if (fd >= 0)
			take(arg, fd);
		else
			http_conn_drain_in(conn, TR_HTTP_DRAIN_MS);
	}
}

static unsigned http_busy(const struct transport *base)
{
	unsigned n = 0;

	LIST_FOREACH(node, &http_of(base)->conns)
		n += !http_conn_is_over(CONTAINER_OF(node, struct hconn, node)->conn);
	return n;
}

static struct listener *http_listener(struct transport *base)
{
	return CONTAINER_OF(base, struct tr_http, base)->listener;
}

static unsigned http_live(const struct transport *t)
{
	return listen_live(http_of(t)->listener);
}

static const char *http_address(const struct transport *t)
{
	return listen_address(http_of(t)->listener);
}

static void http_close(struct transport **base)
{
	if (!*base)
		return;
	struct tr_http *t = CONTAINER_OF(*base, struct tr_http, base);

	t->closing = true;
	listen_pause(t->listener, true);
	if (list_empty(&t->conns))
		ev_defer(t->env.loop, http_free, t);
	LIST_FOREACH_SAFE(n, tmp, &t->conns)
		http_conn_close(CONTAINER_OF(n, struct hconn, node)->conn);
	*base = NULL;
}

const struct transport_ops tr_http = {
	"http", http_check, http_open, http_drain, http_leave, http_busy, http_listener, http_pressure, http_live,
	http_address, http_close,
};

/* Every member that listens. */
const struct transport_ops *const transport_all[] = { &tr_http, &tr_tcp, &tr_unix, NULL };
