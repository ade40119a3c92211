/* Whose rules a message follows (MCP C.1): era and revision are properties of the message, nothing is pinned
 * to a connection (MCP B-01, B-02). */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/map.h"
#include "base/mem.h"

#include "method_int.h"

static bool header_modern(const struct mcp_headers *h)
{
	return h && h->version && rev_at_least_modern(h->version, strlen(h->version));
}

enum rev classify_rev_known(const struct mcp_exchange *x, const struct mcp_headers *h)
{
	enum rev rev = REV_COUNT;

	if (x->ch)
		return x->ch->memory.state == LEGACY_NONE ? REV_SESSIONLESS : x->ch->memory.rev;
	if (x->session)
		return x->session->memory.rev;
	if (header_modern(h))
		return REV_R5;
	if (h && h->version)
		rev = rev_find(h->version, strlen(h->version));
	return rev == REV_COUNT ? REV_SESSIONLESS : rev;
}

/* Find the session that a legacy HTTP message names, and the revision (MCP H-13, H-19, B-27); false: refused,
 * error filled. */
static bool http_legacy(struct mcp_exchange *x, const struct mcp_headers *h, enum rev *ret_rev,
			struct rpc_error *e)
{
	enum rev header = h->version ? rev_find(h->version, strlen(h->version)) : REV_SESSIONLESS;
	struct mcp_session *s = NULL;

	if (h->session && mcp_session_find(x->srv, h->session, x->who, &s, NULL) < 0) {
		rpc_error_init(e, FAULT_SESSION, NULL);
		return false;
	}
	if (h->duplicate) {     /* MCP B-37 */
		rpc_error_init(e, FAULT_REQUEST, "A header of the protocol came twice");
		return false;
	}
	if (header == REV_COUNT) {
		rpc_error_init(e, FAULT_REQUEST, "MCP-Protocol-Version is not served: %s", h->version);
		rpc_error_raw(e, "supported", rpc_versions);
		return false;
	}
	if (s) {
		exchange_join_session(x, s);
		session_touch(s);
	}
	*ret_rev = s ? s->memory.rev : header;
	return true;
}

static void run_legacy(struct mcp_req *req, const struct mcp_msg *msg, enum rev rev)
{
	struct mcp_memory *memory = exchange_memory(req->x);

	req->rev = rev;
	req->caps = memory ? memory->caps : 0;
	req->log_level = memory ? memory->log_level : MCP_LOG_OFF;
	if (!req_open(req, memory, msg->rpc->id))
		return;
	req_set_token(req, msg->meta.token);
	mcp_dispatch(req, msg);
}

static void run_modern(struct mcp_req *req, const struct mcp_msg *msg)
{
	struct mcp_exchange *x = req->x;

	x->modern = true;
	req->rev = REV_R5;
	if (!req_open(req, x->ch ? &x->ch->memory : NULL, msg->rpc->id))
		return;
	req_set_token(req, msg->meta.token);
	if (mcp_gate(req, msg))
		mcp_dispatch(req, msg);
}

/* A request that is refused before it is one of an era. */
static void refuse(struct mcp_exchange *x, const struct mcp_msg *msg, enum rev rev, struct rpc_error *e)
{
	exchange_refuse(x, rev, msg->rpc->kind == RPC_REQUEST ? msg->rpc->id : (struct jx_span){ NULL, 0 }, e);
}

static void classify_request(struct mcp_exchange *x, struct mcp_msg *msg)
{
	bool claim = msg->meta.claim.p, initialize = strcmp(msg->rpc->method, "initialize") == 0;
	enum rev rev = REV_SESSIONLESS;
	struct rpc_error e;

	if (initialize && (!claim || !rpc_is(msg->meta.claim, '"'))) {
		if (!header_modern(msg->http)) {
			run_legacy(&x->req[0], msg, REV_LEGACY_NEWEST);
			return;
		}
		rpc_error_init(&e, FAULT_HEADER, "MCP-Protocol-Version is %s, which has no initialize",
			       msg->http->version);     /* MCP B-27 */
		rev = REV_R5;
	} else if (claim) {
		run_modern(&x->req[0], msg);
		return;
	} else if (header_modern(msg->http)) {
		run_modern(&x->req[0], msg);    /* the gate names what is missing */
		return;
	} else if (msg->http) {
		if (http_legacy(x, msg->http, &rev, &e)) {
			run_legacy(&x->req[0], msg, rev);
			return;
		}
	} else if (x->ch->memory.state != LEGACY_NONE || strcmp(msg->rpc->method, "ping") == 0) {
		run_legacy(&x->req[0], msg, x->ch->memory.rev);
		return;
	} else {                /* MCP B-02: both cures */
		rpc_error_init(&e, FAULT_ENVELOPE, "Send initialize first, or put "
			       "io.modelcontextprotocol/protocolVersion and "
			       "io.modelcontextprotocol/clientCapabilities into params._meta");
	}
	refuse(x, msg, rev, &e);
}

/* The request that a cancelled notice names (MCP B-42, C-02): whichever era made it, but only on the peer's own
 * table; on modern HTTP there is none (C-08). */
static void cancelled(struct mcp_exchange *x, const struct rpc_msg *rpc)
{
	struct mcp_memory *memory = exchange_memory(x);
	struct mcp_req *req;
	struct jx_span id;
	struct rpc_walk w;
	char name[16];

	if (!memory || !rpc->params.p)
		return;
	rpc_walk_start(&w, rpc->params);
	while (rpc_walk_member(&w, name, sizeof name, &id)) {
		if (strcmp(name, "requestId") != 0)
			continue;
		req = map_get(memory->inflight, id.p, id.len);
		if (req)
			req_cancel(req);
	}
}

static void run_notice(struct mcp_exchange *x, const struct rpc_msg *rpc)
{
	struct mcp_memory *memory = exchange_memory(x);

	if (strcmp(rpc->method, "notifications/cancelled") == 0)
		cancelled(x, rpc);
	/* What else there is means nothing to us (MCP B-42). */
	if (strcmp(rpc->method, "notifications/initialized") != 0 || !memory || memory->state != LEGACY_INIT)
		return;
	memory->state = LEGACY_READY;
	x->initialized = true;
}

static void run_response(struct mcp_exchange *x, const struct rpc_msg *rpc)
{
	struct mcp_memory *memory = exchange_memory(x);

	if (memory)
		asking_response(memory, rpc);
}

/* Notifications and responses on HTTP: taken with 202, unless the session is gone. */
static bool join_http(struct mcp_exchange *x, const struct mcp_msg *msg)
{
	enum rev rev;
	struct rpc_error e;

	if (!msg->http)
		return true;
	if (header_modern(msg->http) || msg->meta.claim.p) {
		if (msg->rpc->kind == RPC_NOTICE)
			return true;    /* MCP H-36: nothing is required of it, and nothing here obeys it */
		rpc_error_init(&e, FAULT_REQUEST, "A client sends no responses in this version"); /* MCP H-31 */
		refuse(x, msg, REV_R5, &e);
		return false;
	}
	if (http_legacy(x, msg->http, &rev, &e))
		return true;
	refuse(x, msg, classify_rev_known(x, msg->http), &e);
	return false;
}

void classify_single(struct mcp_exchange *x, struct mcp_msg *msg)
{
	struct err err = { 0 };
	struct rpc_error e;

	if (rpc_check(msg->rpc, &err) < 0) {
		rpc_error_init(&e, FAULT_REQUEST, "Invalid Request: %s", err.msg);
		x->hang_up = !msg->rpc->object && x->tport != AUDIT_STDIO;      /* MCP B-06 */
		exchange_refuse(x, classify_rev_known(x, msg->http), msg->rpc->id, &e);
		return;
	}
	rpc_meta_read(msg->rpc->meta, &msg->meta);
	switch (msg->rpc->kind) {
	case RPC_REQUEST:
		classify_request(x, msg);
		break;
	case RPC_NOTICE:
		if (join_http(x, msg))
			run_notice(x, msg->rpc);
		break;
	case RPC_RESPONSE:
		if (join_http(x, msg))
			run_response(x, msg->rpc);
		break;
	}
}

/* May this message be an array (MCP B-03)?  The message says why not. */
static bool batch_allowed(struct mcp_exchange *x, const struct mcp_headers *h, enum rev *ret_rev,
			  struct rpc_error *e)
{
	*ret_rev = classify_rev_known(x, h);
	if (x->http && !header_modern(h)) {
		if (!http_legacy(x, h, ret_rev, e))
			return false;
	} else if (x->http || x->ch->memory.state == LEGACY_NONE) {
		rpc_error_init(e, FAULT_REQUEST, "An array of messages is not legal here");
		return false;
	}
	if (!rev_table[*ret_rev].batches) {
		rpc_error_init(e, FAULT_REQUEST, "Batches are not part of %s", rev_table[*ret_rev].text);
		return false;
	}
	if (x->nreq == 0)
		rpc_error_init(e, FAULT_REQUEST, "A batch holds at least one message");
	else if (x->nreq > MCP_BATCH_MAX)
		rpc_error_init(e, FAULT_REQUEST, "A batch holds at most %d messages", MCP_BATCH_MAX);
	else
		return true;
	return false;
}

struct member {
	struct rpc_msg rpc;
	struct rpc_meta meta;
	bool bad;
};

/* Read all members before any of them runs; false: one must not be in a batch at all. */
static bool read_members(const struct mcp_in *in, struct member *m, size_t n)
{
	const char *p = in->text;
	struct rpc_walk w;
	struct jx_span v;

	while (*p != '[')
		p++;
	rpc_walk_start(&w, (struct jx_span){ p, in->len - (size_t)(p - in->text) });
	for (size_t i = 0; i < n && rpc_walk_element(&w, &v); i++) {
		m[i].bad = rpc_scan(v.p, v.len, &m[i].rpc, NULL) < 0 || m[i].rpc.array ||
			rpc_check(&m[i].rpc, NULL) < 0;
		rpc_meta_read(m[i].rpc.meta, &m[i].meta);
		if (m[i].meta.claim.p || strcmp(m[i].rpc.method, "initialize") == 0)
			return false;
	}
	return true;
}

static void run_member(struct mcp_req *req, struct member *m, const struct mcp_headers *h, enum rev rev)
{
	struct mcp_msg msg = { .rpc = &m->rpc, .meta = m->meta, .http = h };
	struct rpc_error e;

	if (m->bad) {
		req->rev = rev;
		(void)req_open(req, NULL, m->rpc.id);   /* without a table it cannot be refused */
		rpc_error_init(&e, FAULT_REQUEST, NULL);
		req_fault(req, &e);
	} else if (m->rpc.kind == RPC_REQUEST) {
		run_legacy(req, &msg, rev);
	} else if (m->rpc.kind == RPC_NOTICE) {
		run_notice(req->x, &m->rpc);
	} else {
		run_response(req->x, &m->rpc);
	}
}

void classify_batch(struct mcp_exchange *x, const struct mcp_in *in)
{
	struct member *m = mem_calloc(x->nreq + 1, sizeof *m);
	struct rpc_error e;
	enum rev rev;

	if (!batch_allowed(x, in->http, &rev, &e)) {
		exchange_refuse(x, rev, (struct jx_span){ NULL, 0 }, &e);
	} else if (!read_members(in, m, x->nreq)) {
		rpc_error_init(&e, FAULT_REQUEST, "A batch holds neither initialize nor a request of %s",
			       rev_table[REV_R5].text);
		exchange_refuse(x, rev, (struct jx_span){ NULL, 0 }, &e);
	} else {
		x->batch = true;
		for (size_t i = 0; i < x->nreq; i++)
			run_member(&x->req[i], &m[i], in->http, rev);
	}
	free(m);
}
