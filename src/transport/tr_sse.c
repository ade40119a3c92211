/* HTTP+SSE of 2024-11-05: the machine of byte streams, whose input arrives by POST (MCP 15, C.4).
 *
 * GET /sse makes a channel; its first event names where to POST, and what the channel has to say follows as events.
 * POST /messages?s=<id> feeds one message and is answered 202 without JSON-RPC (MCP O-02).  The id is a secret, but
 * proves nothing: each POST has a credential of its own, of the principal that opened the stream (MCP O-05, Z-01).
 * Any revision may be spoken here: version and transport are separate (MCP O-06). */

#include "config.h"

#include "tr_http_int.h"

#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/id.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "net/stream.h"

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
