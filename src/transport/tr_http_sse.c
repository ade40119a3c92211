/* Event streams: answers that turned into one, the notice stream of a legacy session, keep-alive comments. */

#include "config.h"

#include "tr_http_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "ev/ev.h"

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
