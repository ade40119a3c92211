/* Streamable HTTP of both eras: POST, GET, DELETE and OPTIONS on /mcp and /t/<tenant>/mcp (MCP 14, C.3).
 *
 * Order of the checks: path, Host and Origin, credential, tenant of the path, method, Content-Type; then the body is
 * read and handed to the core as one message.  Facts of the head go along in mcp_headers; the core decides by message. */

#include "config.h"

#include "tr_http_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/mem.h"
#include "base/str.h"
#include "ev/ev.h"
#include "metrics/metric.h"

static const char unauthorized[] = "WWW-Authenticate: Bearer realm=\"toolcrib\"\r\n";
static const char allow[] = "Allow: POST, GET, DELETE\r\n";

/* --- requests */

void hreq_free(struct hreq *q)
{
	list_unlink(&q->node);
	principal_unref(&q->who);
	free(q);
}

const char *hreq_cors(const struct hreq *q, char *ret, size_t size)
{
	ret[0] = '\0';
	if (q->origin)
		snprintf(ret, size, "Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n"
			 "Access-Control-Expose-Headers: Mcp-Session-Id, WWW-Authenticate\r\n", q->origin);
	return ret;
}

void hreq_refuse(struct hreq *q, int status, const char *headers, const char *text)
{
	struct http_request *r = q->r;
	char lines[1024], cors[768];

	snprintf(lines, sizeof(lines), "Content-Type: text/plain\r\n%s%s", headers ? headers : "",
		 hreq_cors(q, cors, sizeof(cors)));
	hreq_free(q);
	http_reply(r, status, status == 204 ? NULL : lines, text, strlen(text));
}

static void refuse_head(struct http_request *r, int status, const char *headers, const char *text)
{
	struct str lines = STR_INIT;

	str_puts(&lines, "Content-Type: text/plain\r\n");
	if (headers)
		str_puts(&lines, headers);
	http_reply(r, status, lines.p, text, strlen(text));
	str_fini(&lines);
}

/* --- the head's facts, copied into the request's own block */

struct pen { char *at; };

static const char *pen_copy(struct pen *pen, struct http_text t)
{
	char *begin = pen->at;

	if (!t.p)
		return NULL;
	memcpy(begin, t.p, t.len);
	begin[t.len] = '\0';
	pen->at += t.len + 1;
	return begin;
}

static const char *pen_lower(struct pen *pen, struct http_text t)
{
	char *begin = pen->at;

	for (size_t i = 0; i < t.len; i++)
		begin[i] = t.p[i] >= 'A' && t.p[i] <= 'Z' ? (char)(t.p[i] + 32) : t.p[i];
	begin[t.len] = '\0';
	pen->at += t.len + 1;
	return begin;
}

static bool has_word(struct http_text value, const char *word)
{
	return value.p && memmem(value.p, value.len, word, strlen(word)) != NULL;
}

/* No Accept, a wildcard, or the type itself (MCP B-26). */
static bool accepts_sse(const struct http_head *h)
{
	struct http_text accept = http_head_get(h, "accept", NULL);

	return !accept.p || has_word(accept, "text/event-stream") || has_word(accept, "*/*") || has_word(accept, "text/*");
}

static const char *single(struct pen *pen, const struct http_head *h, const char *name, bool *duplicate)
{
	unsigned count = 0;
	struct http_text value = http_head_get(h, name, &count);

	*duplicate = *duplicate || count > 1;
	return pen_copy(pen, value);
}

static void copy_params(struct hreq *q, struct pen *pen, const struct http_head *h)
{
	static const char prefix[] = "mcp-param-";
	const size_t n = sizeof(prefix) - 1;

	for (size_t i = 0; i < h->nheaders; i++) {
		struct http_text name = h->header[i].name, value = h->header[i].value;

		if (name.len <= n || !http_text_is_nocase((struct http_text){ name.p, n }, prefix))
			continue;
		if (q->http.nparams == TR_HTTP_PARAMS_MAX) {
			q->http.duplicate = true;       /* more than any tool can ask for */
			return;
		}
		struct mcp_param *param = &q->params[q->http.nparams++];

		param->name = pen_lower(pen, (struct http_text){ name.p + n, name.len - n });
		param->value = pen_copy(pen, value);
		param->len = value.len;
		for (size_t k = 0; k + 1 < q->http.nparams; k++)
			q->http.duplicate = q->http.duplicate || strcmp(q->params[k].name, param->name) == 0;
	}
}

static struct hreq *hreq_new(struct tr_http *t, struct http_request *r, const struct http_head *h, enum hmethod method,
			     struct principal *who)
{
	size_t room = 1;

	for (size_t i = 0; i < h->nheaders; i++)
		room += h->header[i].name.len + h->header[i].value.len + 2;
	struct hreq *q = mem_alloc(sizeof(*q) + room);
	struct pen pen = { q->text };

	memset(q, 0, sizeof(*q));
	q->t = t;
	q->r = r;
	q->who = who;
	q->method = method;
	q->begun_us = ev_now_us(t->env.loop);
	list_push_back(&t->open, &q->node);
	q->http.version = single(&pen, h, "mcp-protocol-version", &q->http.duplicate);
	q->http.session = single(&pen, h, "mcp-session-id", &q->http.duplicate);
	q->http.method = single(&pen, h, "mcp-method", &q->http.duplicate);
	q->http.name = single(&pen, h, "mcp-name", &q->http.duplicate);
	q->http.traceparent = pen_copy(&pen, http_head_get(h, "traceparent", NULL));
	q->http.sse_ok = accepts_sse(h);
	q->origin = pen_copy(&pen, http_head_get(h, "origin", NULL));
	copy_params(q, &pen, h);
	q->http.params = q->params;
	return q;
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
	char headers[1280], cors[768];
	int n = snprintf(headers, sizeof(headers), "%s%s", a->len > 0 ? "Content-Type: application/json\r\n" : "",
			 hreq_cors(q, cors, sizeof(cors)));

	if (a->session)
		n += snprintf(headers + n, sizeof(headers) - (size_t)n, "Mcp-Session-Id: %s\r\n", a->session);
	if (a->retry_after_s)
		n += snprintf(headers + n, sizeof(headers) - (size_t)n, "Retry-After: %u\r\n", a->retry_after_s);
	if (a->status == 401)
		snprintf(headers + n, sizeof(headers) - (size_t)n, "%s", unauthorized);
	hreq_free(q);
	http_reply(r, a->status, headers, a->text, a->len);
}

static void exchange_finish(void *peer, const struct mcp_answer *a)
{
	struct hreq *q = peer;

	q->x = NULL;
	if (!q->streaming) {
		reply(q, a);
		return;
	}
	struct http_request *r = q->r;

	if (a->len > 0)
		hreq_last_event(q, a->text, a->len);
	hreq_free(q);
	http_stream_end(r);
}

static const struct mcp_sink_ops exchange_ops = { exchange_notice, exchange_finish };

static void post(struct hreq *q, const char *body, size_t len)
{
	struct mcp_in in = { .text = body, .len = len, .who = q->who, .http = &q->http, .tport = AUDIT_HTTP };
	struct mcp_sink sink = { &exchange_ops, q };

	mcp_input(q->t->env.mcp, NULL, &in, &sink, &q->x);
}

/* --- the connection's callbacks */

/* A preflight of an allowed origin (MCP B-55); Host and Origin have been checked. */
static int preflight(struct http_request *r, const struct http_head *h)
{
	struct http_text origin = http_head_get(h, "origin", NULL);
	char headers[1024];

	if (!origin.p) {
		refuse_head(r, 405, allow, "OPTIONS is for browsers: it needs Origin\n");
		return 1;
	}
	snprintf(headers, sizeof(headers),
		 "Access-Control-Allow-Origin: %.*s\r\nVary: Origin\r\n"
		 "Access-Control-Allow-Methods: POST, GET, DELETE\r\nAccess-Control-Max-Age: 600\r\n"
		 "Access-Control-Allow-Headers: Authorization, Content-Type, MCP-Protocol-Version, Mcp-Method, Mcp-Name, "
		 "Mcp-Session-Id, Last-Event-ID\r\n", origin.len < 256 ? (int)origin.len : 256, origin.p);
	http_reply(r, 204, headers, NULL, 0);
	return 1;
}

static bool is_json(struct http_text type)
{
	static const char json[] = "application/json";
	const size_t n = sizeof(json) - 1;

	return type.len >= n && http_text_is_nocase((struct http_text){ type.p, n }, json) &&
		(type.len == n || type.p[n] == ';' || type.p[n] == ' ' || type.p[n] == '\t');
}

/* 0 and the method, or the status that refuses. */
static int method_of(const struct http_head *h, enum hmethod *ret)
{
	if (http_text_is(h->method, "POST"))
		*ret = METHOD_POST;
	else if (http_text_is(h->method, "GET"))
		*ret = METHOD_GET;
	else if (http_text_is(h->method, "DELETE"))
		*ret = METHOD_DELETE;
	else
		return 405;
	return 0;
}

static int on_head(void *arg, struct http_request *r, const struct http_head *h, size_t *body_max, void **ret_user)
{
	struct hconn *c = arg;
	struct principal *who = NULL;
	struct http_text tenant;
	enum hmethod method;
	char text[400];
	int status;

	*body_max = TRANSPORT_MESSAGE_MAX;
	if (http_route(h->path, &tenant) == ROUTE_NONE) {
		refuse_head(r, 404, NULL, "no such path\n");
		return 1;
	}
	if (http_guard_host(c->t, h) != 0) {
		refuse_head(r, 403, NULL, "this Host or Origin is not served here\n");
		return 1;
	}
	if (http_text_is(h->method, "OPTIONS"))
		return preflight(r, h);
	status = http_guard_who(c->t, h, c->from, &who, text, sizeof(text));
	if (status != 0) {
		refuse_head(r, status, status == 401 ? unauthorized : NULL, text);
		return 1;
	}
	/* Whether or not that tenant exists (MCP B-30). */
	if (tenant.p && !http_text_is(tenant, who->tenant)) {
		principal_unref(&who);
		refuse_head(r, 404, NULL, "no such path\n");
		return 1;
	}
	status = method_of(h, &method);
	if (status == 0 && method == METHOD_POST && !is_json(http_head_get(h, "content-type", NULL)))
		status = 415;
	if (status != 0) {
		principal_unref(&who);
		refuse_head(r, status, status == 405 ? allow : NULL,
			    status == 405 ? "POST, GET or DELETE\n" : "Content-Type must be application/json\n");
		return 1;
	}
	*ret_user = hreq_new(c->t, r, h, method, who);
	return 0;
}

static void on_request(void *arg, struct http_request *r, void *user, const char *body, size_t len)
{
	struct hreq *q = user;

	switch (q->method) {
	case METHOD_POST:
		post(q, body, len);
		return;
	case METHOD_GET:
		hreq_get(q);
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
	hreq_free(q);
}

static void http_free(void *arg)
{
	struct tr_http *t = arg;

	listen_close(&t->listener);
	ev_timer_free(&t->tick);
	free(t);
}

static void on_closed(void *arg, struct http_conn *conn)
{
	struct hconn *c = arg;
	struct tr_http *t = c->t;

	list_unlink(&c->node);
	free(c);
	met_dec(MET_connections_open);
	listen_conn_gone(t->listener);
	if (t->closing && list_empty(&t->conns))
		ev_defer(t->env.loop, http_free, t);
}

static const struct http_ops conn_ops = { on_head, on_request, on_gone, on_closed };

static void http_accepted(void *arg, const struct accepted *a)
{
	struct tr_http *t = arg;
	struct hconn *c = mem_zalloc(sizeof(*c));

	c->t = t;
	snprintf(c->from, sizeof(c->from), "%s", a->from);
	list_push_back(&t->conns, &c->node);
	met_inc(MET_connections_open);
	c->conn = http_conn_new(t->env.loop, a->fd, NULL, &conn_ops, c);
}

/* --- the room's interface */

static int http_check(const struct conf_listener *c, struct err *err)
{
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
	rc = addr_parse(conf->address, &a, err);
	if (rc == 0)
		rc = listen_tcp(env->loop, conf->address, conf->connections_max, http_accepted, t, &t->listener, err);
	if (rc < 0) {
		free(t);
		return rc;
	}
	t->loopback = addr_is_loopback(&a);
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

	listen_pause(t->listener, paused);
	LIST_FOREACH_SAFE(n, tmp, &t->conns) {
		if (paused)
			http_conn_drain(CONTAINER_OF(n, struct hconn, node)->conn);
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
	"http", http_check, http_open, http_pause, http_live, http_address, http_close,
};
