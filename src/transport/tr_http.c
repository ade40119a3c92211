/* Streamable HTTP of both eras: POST, GET, DELETE and OPTIONS on /mcp and /t/<tenant>/mcp (MCP 14, C.3); the way to
 * tr_sse.c for /sse and /messages.
 *
 * Order of the checks: Host and Origin, path, credential, tenant of the path, method, Content-Type; then the body is
 * read and handed to the core as one message.  Facts of the head go along in mcp_headers; the core decides by message. */

#include "config.h"

#include "tr_http_int.h"

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

static const char no_path[] = "no such path\n";

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

/* --- requests */

void hreq_free(struct hreq *q)
{
	list_unlink(&q->node);
	oauth_check_cancel(&q->check);
	principal_unref(&q->who);
	free(q);
}

/* An allowed Origin's own lines: its page may read the answer, whatever it is (MCP B-55). */
const char *http_cors(struct http_text origin, char ret[TR_HTTP_CORS_SIZE])
{
	ret[0] = '\0';
	if (origin.p)
		snprintf(ret, TR_HTTP_CORS_SIZE, "Access-Control-Allow-Origin: %.*s\r\nVary: Origin\r\n"
			 "Access-Control-Expose-Headers: Mcp-Session-Id, WWW-Authenticate\r\n", (int)origin.len, origin.p);
	return ret;
}

const char *hreq_cors(const struct hreq *q, char ret[TR_HTTP_CORS_SIZE])
{
	return http_cors((struct http_text){ q->origin, q->origin ? strlen(q->origin) : 0 }, ret);
}

/* A plain text, not JSON (MCP B-49); 204 has none. */
static void refuse(struct http_request *r, int status, const char *headers, const char *cors, const char *text)
{
	struct str lines = STR_INIT;

	str_puts(&lines, status == 204 ? "" : "Content-Type: text/plain\r\n");
	str_puts(&lines, headers);
	str_puts(&lines, cors);
	http_reply(r, status, str_text(&lines), text, strlen(text));
	str_fini(&lines);
}

void hreq_refuse(struct hreq *q, int status, const char *headers, const char *text)
{
	struct http_request *r = q->r;
	char cors[TR_HTTP_CORS_SIZE];

	hreq_cors(q, cors);
	hreq_free(q);
	refuse(r, status, headers, cors, text);
}

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
	struct http_request *r = q->r;
	struct str headers = STR_INIT;
	char cors[TR_HTTP_CORS_SIZE];

	str_puts(&headers, a->len > 0 ? "Content-Type: application/json\r\n" : "");
	str_puts(&headers, hreq_cors(q, cors));
	if (a->session)
		str_printf(&headers, "Mcp-Session-Id: %s\r\n", a->session);
	if (a->retry_after_s)
		str_printf(&headers, "Retry-After: %u\r\n", a->retry_after_s);
	if (a->status == 401)
		http_unauthorized(q->t, (struct http_text){ q->tenant, q->tenant ? strlen(q->tenant) : 0 }, true, &headers);
	if (a->status == 403 && a->scope)
		http_insufficient(q, a->scope, &headers);
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
		refuse(r, 405, routes[route].allow, "", "OPTIONS is for pages of the origins that are listed\n");
		return 1;
	}
	str_puts(&headers, http_cors(origin, cors));
	str_puts(&headers, "Access-Control-Allow-Methods: POST, GET, DELETE\r\nAccess-Control-Max-Age: 600\r\n"
		 "Access-Control-Allow-Headers: Authorization, Content-Type, MCP-Protocol-Version, Mcp-Method, Mcp-Name, "
		 "Mcp-Session-Id, Last-Event-ID");
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

void http_punish(struct hconn *c)
{
	if (gate_penalty_ms(&c->pass) > 0)
		http_conn_drain(c->conn);               /* the next try is a connection, and has to wait (SEC S-316) */
}

int http_admit(struct hconn *c, struct http_text tenant, const struct principal *who, struct http_refusal *no)
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

/* After path, Host and Origin: the credential, the tenant of the path, the method, the type.  0 and HTTP_LATER as
 * hreq_check_token(), or the status that refuses. */
static int admit(struct hreq *q, const struct http_head *h, struct http_text tenant, struct http_refusal *no)
{
	struct http_asker asker = { .who = NULL };
	int status;

	look_over(h, q);
	status = http_guard_who(q->c, h, &asker, no->text, sizeof(no->text));
	q->who = asker.who;
	if (status == HTTP_TOKEN) {
		status = hreq_check_token(q, asker.token, no);
	} else {
		if (status == 401) {
			http_unauthorized(q->t, tenant, asker.had_one, &no->headers);
			http_not_known(q->c);
		}
		http_punish(q->c);
		if (status == 0)
			status = http_admit(q->c, tenant, q->who, no);
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
	refuse(r, status, str_text(&no->headers), http_cors(http_cors_origin(c->t, h), cors), no->text);
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
static void send_metadata(const struct hconn *c, struct http_request *r, const struct http_head *h, struct http_text tenant)
{
	struct str text = STR_INIT, headers = STR_INIT;
	char cors[TR_HTTP_CORS_SIZE];

	http_metadata(c->t, tenant, &text);
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
			refuse(r, 405, routes[route].allow, "", routes[route].text);
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
	if (http_guard_host(c->t, h) != 0) {            /* before anything else (SEC S-104) */
		refuse(r, 403, "", "", "this Host or Origin is not served here\n");
		return 1;
	}
	route = http_route(h->path, &tenant);
	if (route == ROUTE_NONE && http_route_metadata(c->t, h->path, &tenant))
		route = ROUTE_METADATA;
	if (route == ROUTE_NONE) {
		refuse(r, 404, "", "", no_path);
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
	return q->route == ROUTE_SSE || (q->t->conf->get_opens_sse && q->http.sse_ok && !q->http.session && !q->http.version);
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
	const struct http_timers timers = { conf->head_ms, conf->body_ms, conf->idle_ms, conf->stall_ms };
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
	c->tls = a->tls;
	if (a->tls)
		http_conn_tls(c->conn, a->tls);
	if (t->press == TRANSPORT_FULL)
		http_hurry(c);
}

/* --- the room's interface */

static int http_check(const struct conf_listener *c, struct err *err)
{
	for (size_t i = 0; i < c->norigins; i++) {
		if (strlen(c->origins[i]) > TR_HTTP_ORIGIN_MAX)
			return err_set(err, ERR_INVALID, c->address, "an origin is longer than %d bytes", TR_HTTP_ORIGIN_MAX);
	}
	return tr_tcp.check(c, err);            /* the same rules for where it may listen */
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
		rc = listen_tcp(env->loop, conf->address, conf->connections_max, http_accepted, t, &t->listener, err);
	if (rc == 0)
		rc = transport_tls_open(&t->base, conf, t->listener, &t->front, err);
	if (rc < 0) {
		listen_close(&t->listener);
		map_free(&t->sse);
		free(t);
		return rc;
	}
	t->loopback = addr_is_loopback(&a);
	t->origin = env->resource ? mem_strdup(env->resource) : mem_printf("%s://%s", conf->tls ? "https" : "http", listen_address(t->listener));
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

static void http_pause(struct transport *base, bool paused)
{
	struct tr_http *t = CONTAINER_OF(base, struct tr_http, base);

	t->draining = paused;
	listen_pause(t->listener, paused);
	LIST_FOREACH_SAFE(n, tmp, &t->conns) {
		if (paused)
			http_conn_drain_in(CONTAINER_OF(n, struct hconn, node)->conn, TR_HTTP_DRAIN_MS);
	}
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
	"http", http_check, http_open, http_pause, http_press, http_live, http_address, http_close,
};
