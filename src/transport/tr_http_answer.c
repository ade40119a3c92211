/* What HTTP answers beside the JSON of one exchange: plain refusals, event streams, the notice stream of a legacy
 * session, HTTP+SSE of 2024-11-05.  tr_http.c hands requests over, on the loop's thread.  A request is freed before its
 * last byte is handed to the connection, which may free itself. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/id.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "ev/ev.h"
#include "net/stream.h"
#include "oauth/oauth.h"
#include "tenant/tenant.h"

#include "tr_http_int.h"

/* --- plain answers */

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
			 "Access-Control-Expose-Headers: Mcp-Session-Id, WWW-Authenticate\r\n",
			 (int)origin.len, origin.p);
	return ret;
}

const char *hreq_cors(const struct hreq *q, char ret[TR_HTTP_CORS_SIZE])
{
	return http_cors((struct http_text){ q->origin, q->origin ? strlen(q->origin) : 0 }, ret);
}

/* A plain text, not JSON (MCP B-49); 204 has none. */
void http_refuse(struct http_request *r, int status, const char *headers, const char *cors, const char *text)
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
	http_refuse(r, status, headers, cors, text);
}

/* --- connections that are not kept, while the server fills up (SEC S-807) */

/* Whoever is sent away comes again, and a new connection costs more than the next answer on an old one: so some at a
 * time. */
static bool may_end(struct tr_http *t)
{
	uint64_t now = ev_now_us(t->env.loop);

	if (now - t->ended_us >= TR_HTTP_END_US) {
		t->ended_us = now;
		t->ended = 0;
	}
	return t->ended++ < TR_HTTP_END_MAX;
}

void hreq_keep(const struct hreq *q)
{
	if (!mcp_crowded_by(q->t->env.mcp, q->who) || !may_end(q->t))
		return;
	metric_inc(METRIC_connections_not_kept);
	http_no_more(q->r);
}

void http_not_known(struct hconn *c)
{
	if (c->t->pressure == TRANSPORT_CALM || c->pass.tenant || !may_end(c->t))
		return;
	metric_inc(METRIC_connections_not_kept);
	http_conn_drain(c->conn);
}

/* --- event streams */

static const char sse_headers[] =
	"Content-Type: text/event-stream\r\n"
	"Cache-Control: no-store\r\n"
	"X-Accel-Buffering: no\r\n";           /* MCP H-40 */

void hreq_stream_begin(struct hreq *q)
{
	char headers[sizeof(sse_headers) + TR_HTTP_CORS_SIZE], cors[TR_HTTP_CORS_SIZE];

	snprintf(headers, sizeof(headers), "%s%s", sse_headers, hreq_cors(q, cors));
	hreq_keep(q);
	http_stream_begin(q->r, 200, headers);
	q->streaming = true;
	q->written_us = ev_now_us(q->t->env.loop);
}

/* One `data:` line a message: JSON has no raw newline (MCP B-53). */
static struct str event_text(const char *text, size_t len)
{
	struct str event = STR_INIT;

	str_puts(&event, "event: message\ndata: ");
	str_put(&event, text, len);
	str_puts(&event, "\n\n");
	return event;
}

/* A reader too slow for its stream loses it; a lost notice stream is opened again by its client (SEC S-830). */
void hreq_event(struct hreq *q, const char *text, size_t len)
{
	struct str event = event_text(text, len);

	http_stream_write(q->r, event.p, event.len);
	str_fini(&event);
	q->written_us = ev_now_us(q->t->env.loop);
}

/* An answer is never dropped for its size (MCP B-40). */
void hreq_answer_event(struct hreq *q, const char *text, size_t len)
{
	struct str event = event_text(text, len);

	http_stream_answer(q->r, event.p, event.len);
	str_fini(&event);
	q->written_us = ev_now_us(q->t->env.loop);
}

/* --- the notice stream of a legacy session */

static void get_push(void *peer, const char *text, size_t len)
{
	hreq_event(peer, text, len);
}

static size_t get_queued(const void *peer)
{
	const struct hreq *q = peer;

	return http_stream_queued(q->r);
}

static void get_hang_up(void *peer)
{
	struct hreq *q = peer;
	struct http_request *r = q->r;

	hreq_free(q);
	http_stream_end(r);
}

static const struct mcp_push_ops get_ops = { get_push, get_queued, get_hang_up };

static struct mcp_session *find_session(struct hreq *q)
{
	struct mcp_session *s = NULL;
	struct err err;

	if (!q->http.session) {
		hreq_refuse(q, 405, "Allow: POST, GET, DELETE\r\n", "GET and DELETE need Mcp-Session-Id\n");
		return NULL;
	}
	if (mcp_session_find(q->t->env.mcp, q->http.session, q->who, &s, &err) < 0) {
		hreq_refuse(q, 404, "", "no such session\n");
		return NULL;
	}
	return s;
}

void hreq_get(struct hreq *q)
{
	struct mcp_session *s;

	if (q->http.session && !q->http.sse_ok) {
		hreq_refuse(q, 406, "", "the answer is text/event-stream\n");
		return;
	}
	s = find_session(q);
	if (!s)
		return;
	q->stream_session = q->http.session;
	hreq_stream_begin(q);
	http_stream_write(q->r, ":\n\n", 3);            /* the head reaches the client now */
	mcp_session_stream(s, &get_ops, q, q->who);
}

void hreq_delete(struct hreq *q)
{
	struct mcp_session *s = find_session(q);

	if (!s)
		return;
	mcp_session_end(&s);
	hreq_refuse(q, 204, "", "");
}

/* --- time */

static void look_at(struct hreq *q, uint64_t now_us)
{
	if (q->streaming) {
		if (http_stream_queued(q->r) == 0 && now_us - q->written_us >= TR_HTTP_ALIVE_MS * 1000ull) {
			http_stream_write(q->r, ":\n\n", 3);
			q->written_us = now_us;
		}
		return;
	}
	if (q->x && now_us - q->begun_us >= TR_HTTP_LATE_MS * 1000ull && mcp_exchange_may_stream(q->x)) {
		hreq_stream_begin(q);
		http_stream_write(q->r, ":\n\n", 3);
	}
}

void http_tick(void *arg)
{
	struct tr_http *t = arg;
	uint64_t now_us = ev_now_us(t->env.loop);

	LIST_FOREACH_SAFE(n, tmp, &t->open)
		look_at(CONTAINER_OF(n, struct hreq, node), now_us);
	ev_timer_start(t->tick, TR_HTTP_TICK_MS * 1000ull);
}

/* --- HTTP+SSE of 2024-11-05 */

/* The machine of byte streams, whose input arrives by POST (MCP 15, C.4).  GET /sse makes a channel; its first
 * event names where to POST, and what the channel has to say follows as events. POST /messages?s=<id> feeds one
 * message and is answered 202 without JSON-RPC (MCP O-02).  The id is a secret, but proves nothing: each POST has a
 * credential of its own, of the principal that opened the stream (MCP O-05, Z-01). Any revision may be spoken here:
 * version and transport are separate (MCP O-06). */

#define SSE_ID_LEN 32                   /* base62: 190 bits */

struct sse_peer {
	struct hreq *q;                 /* the open GET */
	struct mcp_channel *channel;
	char id[SSE_ID_LEN + 1];
};

/* Whoever opens a stream that is no more finds nothing: its id is gone. */
void sse_gone(struct sse_peer **pp)
{
	struct sse_peer *p = *pp;

	*pp = NULL;
	map_del_z(p->q->t->sse, p->id);
	mcp_channel_close(&p->channel);         /* nobody is left to read answers: cancel */
	free(p);
}

/* --- what the channel says */

static void peer_event(void *peer, const char *text, size_t len)
{
	struct sse_peer *p = peer;

	hreq_event(p->q, text, len);
}

static size_t peer_queued(const void *peer)
{
	const struct sse_peer *p = peer;

	return http_stream_queued(p->q->r);
}

static void peer_hang_up(void *peer)
{
	struct sse_peer *p = peer;
	struct hreq *q = p->q;
	struct http_request *r = q->r;

	sse_gone(&q->sse);
	hreq_free(q);
	http_stream_end(r);
}

static void peer_finish(void *peer, const struct mcp_answer *a)
{
	struct sse_peer *p = peer;

	if (a->len > 0)
		hreq_answer_event(p->q, a->text, a->len);
	if (a->hang_up)
		peer_hang_up(p);
}

static const struct mcp_sink_ops sink_ops = { peer_event, peer_finish };
static const struct mcp_push_ops push_ops = { peer_event, peer_queued, peer_hang_up };

/* --- the two endpoints */

void sse_open(struct hreq *q)
{
	struct sse_peer *p;
	struct str event = STR_INIT;

	if (!q->http.sse_ok) {
		hreq_refuse(q, 406, "", "the answer is text/event-stream\n");
		return;
	}
	p = mem_zalloc(sizeof(*p));
	p->q = q;
	q->sse = p;
	id_random_text(p->id, SSE_ID_LEN);
	map_set_z(q->t->sse, p->id, p);
	hreq_stream_begin(q);
	str_printf(&event, "event: endpoint\ndata: /messages?s=%s\n\n", p->id);
	http_stream_write(q->r, event.p, event.len);
	str_fini(&event);
	p->channel = mcp_channel_new(q->t->env.mcp, &push_ops, p, q->who, AUDIT_HTTP);
}

static struct sse_peer *find_peer(const struct hreq *q)
{
	struct sse_peer *p = NULL;

	if (q->query && strncmp(q->query, "s=", 2) == 0)
		p = map_get_z(q->t->sse, q->query + 2);
	if (!p || p->q->who->tenant_id != q->who->tenant_id || p->q->who->principal_id != q->who->principal_id)
		return NULL;
	return p;
}

void sse_post(struct hreq *q, const char *body, size_t len)
{
	struct sse_peer *p = find_peer(q);

	if (!p) {
		hreq_refuse(q, 404, "", "no such stream\n");
		return;
	}
	/* A byte stream would not be read any further; here the answers would pile up (SEC S-830). */
	if (http_stream_queued(p->q->r) > STREAM_OUT_MAX) {
		hreq_refuse(q, 503, "Retry-After: 1\r\n", "the event stream is not read\n");
		return;
	}
	struct mcp_in in = { .text = body, .len = len, .who = q->who, .tport = AUDIT_HTTP, .peer = q->from };
	struct mcp_sink sink = { &sink_ops, p };
	struct mcp_exchange *x = NULL;

	mcp_input(q->t->env.mcp, p->channel, &in, &sink, &x);
	hreq_refuse(q, 202, "", "Accepted\n");
}
