/* Wires over HTTP, and their events; upstream.c opens them for a link, on the loop thread.  Each message of ours is a
 * POST; what comes back stands in its answer, as JSON or as events (MCP section 14).  HTTP+SSE has one stream for all
 * that comes, whose first event says where to POST (MCP section 15).  Credentials are the document's, never a caller's
 * (SEC S-730, MCP A-09). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/secrets.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "ev/ev.h"
#include "net/fetch.h"

#include "link_http_int.h"

/* --- events */

/* Events of a text/event-stream, from bytes as they come (HTML, server-sent events): fields `event` and `data`, the
 * others are skipped; an event without data is none. */

void link_sse_init(struct link_sse *s)
{
	*s = (struct link_sse){ .cr = false };
	str_init(&s->line, LINK_MESSAGE_MAX + 64);
	str_init(&s->data, LINK_MESSAGE_MAX);
}

void link_sse_fini(struct link_sse *s)
{
	str_fini(&s->line);
	str_fini(&s->data);
}

static void take_field(struct link_sse *s)
{
	const char *line = str_text(&s->line), *colon = memchr(line, ':', s->line.len);
	size_t name = colon ? (size_t)(colon - line) : s->line.len;
	const char *value = colon ? colon + 1 : line + name;

	if (colon && *value == ' ')
		value++;
	size_t len = s->line.len - (size_t)(value - line);
	if (name == 4 && memcmp(line, "data", 4) == 0) {
		if (s->has_data)
			str_putc(&s->data, '\n');
		str_put(&s->data, value, len);
		s->has_data = true;
	} else if (name == 5 && memcmp(line, "event", 5) == 0) {
		size_t n = len < sizeof(s->event) - 1 ? len : sizeof(s->event) - 1;

		memcpy(s->event, value, n);
		s->event[n] = '\0';
	}
}

/* The end of a line; an empty one ends the event. */
static bool take_line(struct link_sse *s, link_sse_fn *fn, void *arg)
{
	bool go_on = true;

	if (s->line.len > 0) {
		take_field(s);
	} else {
		if (s->has_data && !s->data.failed)
			go_on = fn(arg, *s->event ? s->event : "message", str_text(&s->data), s->data.len);
		if (go_on) {
			str_reset(&s->data);
			s->has_data = false;
			s->event[0] = '\0';
		}
	}
	if (go_on)
		str_reset(&s->line);
	return go_on;
}

int link_sse_feed(struct link_sse *s, const char *p, size_t len, link_sse_fn *fn, void *arg)
{
	for (const char *end = p + len; p < end; ) {
		const char *stop = p;

		if (s->cr && *p == '\n') {      /* the rest of \r\n */
			s->cr = false;
			p++;
			continue;
		}
		s->cr = false;
		while (stop < end && *stop != '\n' && *stop != '\r')
			stop++;
		str_put(&s->line, p, (size_t)(stop - p));
		if (s->line.failed || s->data.failed)
			return ERR_LIMIT;
		if (stop == end)
			break;
		s->cr = *stop == '\r';
		p = stop + 1;
		if (!take_line(s, fn, arg))
			return 1;
	}
	return s->data.failed ? ERR_LIMIT : 0;
}

#define HEADERS_OURS (8 + LINK_PARAMS_MAX)
#define SESSION_MAX 256                 /* bytes of a session id */
#define BYE_US 2000000                  /* for the DELETE of a session */
#define EARLY_MAX 8                     /* messages that wait for the endpoint of HTTP+SSE */
#define REOPEN_US 1000000               /* after the stream of a session has ended, and twice as long each time */
#define REOPEN_DOUBLINGS 6
#define STEADY_US 60000000              /* a stream that lived so long is opened again as if it were the first */

enum exchange_kind { EX_POST, EX_STREAM, EX_BYE };
struct exchange {
	struct list node;
	struct http_wire *wire;
	enum exchange_kind kind;
	uint64_t id;                    /* of the request; 0: a notice or an answer */
	bool initialize;
	bool answered;                  /* nobody waits any more */
	int status;
	bool events;
	struct fetch *fetch;
	struct str body;
	struct link_sse sse;
};

struct http_wire {
	struct link_wire wire;
	struct link *link;           /* NULL: closed */
	struct ev_loop *loop;
	struct fetcher *fetcher;
	struct upstream_conf *conf;     /* counted: requests use its policy to their end */
	char *scope;
	struct fetch_header headers[UPSTREAM_HEADERS_MAX]; size_t nheaders;     /* names borrowed, values ours */
	char *url;                      /* to POST to; NULL: not known yet */
	char session[SESSION_MAX + 1];
	enum rev rev;                   /* REV_COUNT until the handshake is over */
	struct list exchanges; size_t nexchanges;
	struct str early[EARLY_MAX]; uint64_t early_id[EARLY_MAX]; size_t nearly;
	/* the stream of a session, which an older server may have */
	bool streams;                   /* it does: one was there */
	unsigned reopens; uint64_t stream_us;   /* tries since one was steady; when the last one began */
	struct ev_timer *reopen;
};

static void wire_free(struct http_wire *w)
{
	for (size_t i = 0; i < w->nheaders; i++) {
		secret_wipe((char *)(uintptr_t)w->headers[i].value, strlen(w->headers[i].value));
		free((char *)(uintptr_t)w->headers[i].value);
	}
	for (size_t i = 0; i < w->nearly; i++)
		str_fini(&w->early[i]);
	ev_timer_free(&w->reopen);
	upstream_conf_free(&w->conf);
	free(w->url);
	free(w->scope);
	free(w);
}

/* --- one exchange */

static void exchange_free(struct exchange *x)
{
	struct http_wire *w = x->wire;

	list_unlink(&x->node);
	str_fini(&x->body);
	link_sse_fini(&x->sse);
	free(x);
	w->nexchanges--;
	if (!w->link && w->nexchanges == 0)
		wire_free(w);
	else if (w->link)
		link_drained(w->link);
}

/* What has been answered cannot fail any more: the link knows. */
static void fail(struct exchange *x, const char *why)
{
	struct http_wire *w = x->wire;
	struct err err;

	if (!w->link || x->answered)
		return;
	x->answered = true;
	(void)err_set(&err, ERR_TOOL, "", "%s", why);
	if (x->kind == EX_STREAM && !w->wire.exchanges)
		link_dead(w->link, &err);
	else if (x->id)
		link_failed(w->link, x->id, &err);
}

static bool endpoint(struct http_wire *w, const char *data, size_t len);

static bool on_event(void *arg, const char *event, const char *data, size_t len)
{
	struct exchange *x = arg;
	struct http_wire *w = x->wire;

	if (!w->link)
		return false;
	if (!w->wire.exchanges && strcmp(event, "endpoint") == 0)
		return endpoint(w, data, len);
	if (strcmp(event, "message") == 0 && link_message(w->link, w->wire.exchanges ? x->id : 0, data, len))
		x->answered = true;
	return w->link != NULL;
}

static void on_head(void *arg, const struct fetch_head *h)
{
	struct exchange *x = arg;
	const char *type = fetch_head_get(h, "content-type"), *session = fetch_head_get(h, "mcp-session-id");

	x->status = fetch_head_status(h);
	/* What was said while no stream was open is not known. */
	if (x->kind == EX_STREAM && x->wire->streams && x->wire->link && x->status == 200)
		link_missed(x->wire->link);
	x->events = type && strncasecmp(type, "text/event-stream", 17) == 0 && x->status == 200;
	if (!x->initialize || !session || x->status != 200)
		return;
	size_t n = strlen(session);     /* MCP H-11 */
	if (n > 0 && n <= SESSION_MAX && fetch_check_header_value(session, n, "", NULL) == 0)
		memcpy(x->wire->session, session, n + 1);
}

static int on_data(void *arg, const void *p, size_t len)
{
	struct exchange *x = arg;

	if (x->events) {
		int rc = link_sse_feed(&x->sse, p, len, on_event, x);

		return rc == 1 ? ERR_CANCELLED : rc;
	}
	str_put(&x->body, p, len);
	return x->body.failed ? ERR_LIMIT : 0;
}

/* A whole answer that is no stream: the result, or an error with a JSON-RPC body (MCP 14.4). */
static void take_body(struct exchange *x)
{
	struct http_wire *w = x->wire;
	struct rpc_msg msg;
	char why[80];

	if (!w->wire.exchanges && x->kind == EX_POST && x->status >= 200 && x->status < 300)
		return;                 /* MCP O-02: the answer comes on the stream */
	if (w->session[0] && x->status == 404 && x->kind == EX_POST) {  /* MCP H-13 */
		struct err err;

		(void)err_set(&err, ERR_TOOL, "", "it has ended the session");
		link_dead(w->link, &err);
		return;
	}
	bool message = x->body.len > 0 && rpc_scan(x->body.p, x->body.len, &msg, NULL) == 0 && msg.object &&
		       rpc_check(&msg, NULL) == 0;
	if (x->id && message && (x->status == 200 || msg.id.p)) {
		x->answered = link_message(w->link, x->id, x->body.p, x->body.len);
		return;
	}
	(void)snprintf(why, sizeof(why), x->status == 200 ? "its answer is no MCP" :
		       "it answered with HTTP status %d", x->status);
	fail(x, why);
}

static const char *words_for(int rc)
{
	switch (rc) {
	case ERR_DENIED:
		return "its address is not allowed";
	case ERR_UNREACHABLE:
		return "it cannot be reached";
	case ERR_LIMIT:
		return "its answer is too long";
	case ERR_TIMEOUT:
		return "it did not answer in time";
	default:
		return "the connection to it broke";
	}
}

/* The stream of a session has ended, or did not begin.  A server that has none refuses it (MCP H-15). */
static void stream_ended(struct exchange *x)
{
	struct http_wire *w = x->wire;
	uint64_t now = ev_now_us(w->loop);

	if (!w->link || x->kind != EX_STREAM || !w->wire.exchanges)
		return;
	w->streams = w->streams || x->events;
	if (!w->streams || (x->status >= 400 && x->status < 500))
		return;
	if (x->events && now - w->stream_us >= STEADY_US)
		w->reopens = 0;
	ev_timer_start(w->reopen, (uint64_t)REOPEN_US << w->reopens);
	if (w->reopens < REOPEN_DOUBLINGS)
		w->reopens++;
}

static void on_done(void *arg, int rc, const struct err *err)
{
	struct exchange *x = arg;
	const struct http_wire *w = x->wire;

	x->fetch = NULL;
	stream_ended(x);
	if (w->link && x->kind != EX_BYE) {
		if (rc < 0)
			fail(x, words_for(rc));
		else if (!x->events)
			take_body(x);
		if (w->wire.exchanges || x->kind == EX_STREAM)
			fail(x, "it ended its answer without a result");
	}
	exchange_free(x);
}

static int start(struct exchange *x, struct fetch_req *req, struct fetch_header *headers, size_t n, struct err *err)
{
	static const struct fetch_sink sink = { on_head, on_data, on_done };
	struct http_wire *w = x->wire;

	for (size_t i = 0; i < w->nheaders; i++)
		headers[n++] = w->headers[i];
	req->policy = &w->conf->policy;
	req->scope = w->scope;
	req->headers = headers;
	req->nheaders = n;
	req->body_max = SIZE_MAX;
	return fetch_start(w->fetcher, req, &sink, x, &x->fetch, err);
}

static struct exchange *exchange_new(struct http_wire *w, enum exchange_kind kind, uint64_t id)
{
	struct exchange *x = mem_zalloc(sizeof(*x));

	x->wire = w;
	x->kind = kind;
	x->id = id;
	str_init(&x->body, LINK_MESSAGE_MAX);
	link_sse_init(&x->sse);
	list_push_back(&w->exchanges, &x->node);
	w->nexchanges++;
	return x;
}

static void refused(void *arg)
{
	struct exchange *x = arg;

	stream_ended(x);
	fail(x, "it cannot be asked: too many requests are under way, or its address is not allowed");
	exchange_free(x);
}

/* --- sending */

/* MCP H-35, T-44: what is no plain header value goes as base64.  Free it. */
static char *header_value(const char *name)
{
	size_t n = strlen(name);
	bool plain = n > 0 && name[0] != ' ' && name[n - 1] != ' ' && strncmp(name, "=?", 2) != 0;

	for (size_t i = 0; i < n; i++)
		plain = plain && name[i] >= ' ' && name[i] < 0x7f;
	if (plain)
		return mem_strdup(name);
	char *b64 = mem_alloc(text_base64_size(n));
	text_base64(name, n, b64);
	char *ret = mem_printf("=?base64?%s?=", b64);
	free(b64);
	return ret;
}

/* MCP H-33, T-43: what a modern request's headers repeat of its body.  How many; free
 * their values. */
static size_t modern_headers(const struct link_head *head, struct fetch_header *to)
{
	size_t n = 0;

	to[n++] = (struct fetch_header){ "MCP-Protocol-Version", mem_strdup(rev_table[REV_R5].text) };
	if (head->method)
		to[n++] = (struct fetch_header){ "Mcp-Method", mem_strdup(head->method) };
	if (head->name)
		to[n++] = (struct fetch_header){ "Mcp-Name", header_value(head->name) };
	for (size_t i = 0; i < head->nmore; i++)
		to[n++] = (struct fetch_header){ head->more[i].name, header_value(head->more[i].value) };
	return n;
}

/* Before the handshake is over server/discover is what only the modern era has. */
static bool is_modern(const struct http_wire *w, const struct link_head *head)
{
	if (w->rev != REV_COUNT)
		return rev_table[w->rev].era == ERA_MODERN;
	return head->method && strcmp(head->method, "server/discover") == 0;
}

static void post(struct http_wire *w, uint64_t id, const struct link_head *head, const char *text, size_t len)
{
	struct fetch_header headers[HEADERS_OURS + UPSTREAM_HEADERS_MAX] = {
		{ "Content-Type", "application/json" }, { "Accept", "application/json, text/event-stream" } };
	struct fetch_req req = { .method = "POST", .url = w->url, .body = text, .body_len = len };
	struct exchange *x = exchange_new(w, EX_POST, id);
	size_t n = 2, made = 0;
	struct err err;

	x->initialize = head->method && strcmp(head->method, "initialize") == 0;
	if (w->wire.exchanges && is_modern(w, head)) {
		made = modern_headers(head, headers + n);
		n += made;
	} else if (w->wire.exchanges) {
		if (w->rev != REV_COUNT)
			headers[n++] = (struct fetch_header){ "MCP-Protocol-Version", rev_table[w->rev].text };
		if (w->session[0])
			headers[n++] = (struct fetch_header){ "Mcp-Session-Id", w->session };
	}
	if (start(x, &req, headers, n, &err) < 0)
		ev_defer(w->loop, refused, x);
	for (size_t i = 2; i < 2 + made; i++)
		free((char *)(uintptr_t)headers[i].value);
}

static void http_send(struct link_wire *wire, uint64_t id, const struct link_head *head, const char *text, size_t len)
{
	struct http_wire *w = CONTAINER_OF(wire, struct http_wire, wire);

	if (w->url) {
		post(w, id, head, text, len);
	} else if (w->nearly < EARLY_MAX) {
		str_put(&w->early[w->nearly], text, len);
		w->early_id[w->nearly++] = id;
	}
}

static void open_stream(struct http_wire *w)
{
	struct fetch_header headers[HEADERS_OURS + UPSTREAM_HEADERS_MAX] = { { "Accept", "text/event-stream" } };
	struct fetch_req req = { .method = "GET", .url = w->conf->url };
	struct exchange *x = exchange_new(w, EX_STREAM, 0);
	struct err err;
	size_t n = 1;

	w->stream_us = ev_now_us(w->loop);
	if (w->wire.exchanges) {
		headers[n++] = (struct fetch_header){ "MCP-Protocol-Version", rev_table[w->rev].text };
		headers[n++] = (struct fetch_header){ "Mcp-Session-Id", w->session };
	}
	if (start(x, &req, headers, n, &err) < 0)
		ev_defer(w->loop, refused, x);
}

static void on_reopen(void *arg)
{
	open_stream(arg);
}

/* An older server says on a stream of its session that its tools have changed; one without refuses the GET. */
static void http_spoken(struct link_wire *wire, enum rev rev)
{
	struct http_wire *w = CONTAINER_OF(wire, struct http_wire, wire);

	w->rev = rev;
	if (w->wire.exchanges && rev_table[rev].era == ERA_LEGACY && w->session[0])
		open_stream(w);
}

static void http_forget(struct link_wire *wire, uint64_t id)
{
	struct http_wire *w = CONTAINER_OF(wire, struct http_wire, wire);

	LIST_FOREACH(n, &w->exchanges) {
		struct exchange *x = CONTAINER_OF(n, struct exchange, node);

		if (x->kind != EX_POST || x->id != id || x->answered)
			continue;
		x->answered = true;
		if (x->fetch)
			fetch_cancel(x->fetch);
		return;
	}
}

/* A server that leaves answered streams open is helped when room is needed. */
static bool http_full(const struct link_wire *wire)
{
	const struct http_wire *w = CONTAINER_OF((struct link_wire *)(uintptr_t)wire, struct http_wire, wire);

	if (w->nexchanges < LINK_EXCHANGES_MAX)
		return false;
	LIST_FOREACH(n, &w->exchanges) {
		struct exchange *x = CONTAINER_OF(n, struct exchange, node);

		if (x->answered && x->fetch)
			fetch_cancel(x->fetch);
	}
	return true;
}

/* Tell an older server that its session is over (MCP L-12), end everything else. */
static void http_close(struct link_wire **wire)
{
	struct http_wire *w = CONTAINER_OF(*wire, struct http_wire, wire);
	struct fetch_header headers[HEADERS_OURS + UPSTREAM_HEADERS_MAX] = { { "Mcp-Session-Id", w->session } };
	struct fetch_req req = { .method = "DELETE", .url = w->url, .deadline_us = ev_now_us(w->loop) + BYE_US };
	struct err err;

	*wire = NULL;
	w->link = NULL;
	ev_timer_stop(w->reopen);
	LIST_FOREACH(n, &w->exchanges) {
		struct exchange *x = CONTAINER_OF(n, struct exchange, node);

		if (x->fetch)
			fetch_cancel(x->fetch);
	}
	if (w->session[0]) {
		struct exchange *x = exchange_new(w, EX_BYE, 0);

		if (start(x, &req, headers, 1, &err) < 0)
			ev_defer(w->loop, refused, x);
	}
	if (w->nexchanges == 0)
		wire_free(w);
}

static const struct link_wire_ops http_ops = {
	.send = http_send, .spoken = http_spoken, .forget = http_forget, .full = http_full, .close = http_close,
};

/* --- HTTP+SSE */

/* MCP O-05: a path on the same server, or the same server spelled out; anything else is refused. */
static bool endpoint(struct http_wire *w, const char *data, size_t len)
{
	const struct upstream_conf *c = w->conf;
	char *text = mem_strndup(data, len), *url = NULL;
	const struct link_head none = { .method = NULL };
	struct url u;

	if (w->url) {
		free(text);
		return true;
	}
	if (text[0] == '/' && text[1] != '/')
		url = mem_printf("%.*s%s", (int)c->base.target, c->url, text);
	else
		url = mem_strdup(text);
	free(text);
	if (url_parse(url, strlen(url), "", &u, NULL) < 0 || u.tls != c->base.tls || u.port != c->base.port ||
	    strcmp(u.host, c->base.host) != 0) {
		struct err err;

		free(url);
		(void)err_set(&err, ERR_TOOL, "", "it names an endpoint that is not its own");
		link_dead(w->link, &err);
		return false;
	}
	w->url = url;
	for (size_t i = 0; i < w->nearly; i++) {
		post(w, w->early_id[i], &none, w->early[i].p, w->early[i].len);
		str_fini(&w->early[i]);
	}
	w->nearly = 0;
	return true;
}

/* --- the start */

static int render_headers(struct http_wire *w, struct open_secrets *secrets, const char *tenant, struct err *err)
{
	const struct upstream_conf *c = w->conf;
	const struct backend_req req = { .tenant = tenant, .principal = "", .secrets = secrets };

	for (size_t i = 0; i < c->nvalues; i++) {
		struct str value = STR_INIT;
		int rc = tpl_render(c->values[i].value, &req, &value, err);

		if (rc == 0)
			rc = fetch_check_header_value(str_text(&value), value.len, c->values[i].name, err);
		if (rc < 0) {
			if (value.p)
				secret_wipe(value.p, value.len);
			str_fini(&value);
			return err_set(err, ERR_TOOL, "", "its header %s cannot be made: %.200s", c->values[i].name,
				       err->msg);
		}
		w->headers[w->nheaders++] = (struct fetch_header){ c->values[i].name, str_take(&value) };
	}
	return 0;
}

int link_http_open(struct link *link, struct ev_loop *loop, struct fetcher *fetcher, struct upstream_conf *conf,
		 const struct secret_source *secrets, const char *tenant, struct link_wire **ret, struct err *err)
{
	struct http_wire *w = mem_zalloc(sizeof(*w));
	struct open_secrets *opened = open_secrets_new(secrets);

	*w = (struct http_wire){ .wire = { .ops = &http_ops, .exchanges = conf->transport == UPSTREAM_HTTP },
		.loop = loop, .fetcher = fetcher, .conf = upstream_conf_ref(conf), .rev = REV_COUNT };
	list_init(&w->exchanges);
	w->reopen = ev_timer_new(loop, on_reopen, w);
	w->scope = mem_strdup(tenant);
	int rc = fetcher ? render_headers(w, opened, tenant, err) :
		 err_set(err, ERR_TOOL, "", "nothing can be fetched here");
	open_secrets_free(&opened);
	if (rc < 0) {
		wire_free(w);
		return rc;
	}
	w->link = link;
	if (w->wire.exchanges)
		w->url = mem_strdup(conf->url);
	else
		open_stream(w);
	*ret = &w->wire;
	return 0;
}
