/* One message in: scanned, charged, sorted to an era and a revision, and its requests handed to the methods.  The
 * transports call mcp_input(), on the loop's thread.  Era and revision are properties of the message, nothing is pinned
 * to a connection (MCP B-01, B-02, C.1). */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "call/call.h"
#include "mcp/mcp.h"
#include "proto/caps.h"
#include "proto/rpc.h"
#include "tenant/tenant.h"

#include "method_int.h"

static bool header_modern(const struct mcp_headers *h)
{
	return h && h->version && rev_at_least_modern(h->version, strlen(h->version));
}

/* The revision that an answer without readable id is written for (MCP B-05). */
static enum rev classify_rev_known(const struct mcp_exchange *x, const struct mcp_headers *h)
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

/* --- the charge of a message to its tenant, principal and key, before it is looked into (SEC S-803) */

enum { LISTEN_COST = 5 };               /* it stays */

/* Who is told "too often" for its first words takes us for a server of another era (MCP B-57). */
static bool is_loose(const struct rpc_msg *rpc)
{
	return rpc->kind == RPC_REQUEST && (strcmp(rpc->method, "server/discover") == 0 ||
					    strcmp(rpc->method, "initialize") == 0 || strcmp(rpc->method, "ping") == 0);
}

/* silent: it is no request on a byte stream (MCP J-06). */
static void refuse_rate(struct mcp_exchange *x, const struct mcp_in *in, struct jx_span id, bool silent,
			const struct err *why)
{
	struct rpc_error e;

	rpc_error_limit(&e, why);
	exchange_refuse(x, classify_rev_known(x, in->http), id, &e);
	if (silent)
		str_reset(&x->reply);
}

static bool refuse_channel(struct mcp_exchange *x, const struct mcp_in *in, const struct rpc_msg *rpc)
{
	struct rpc_error e;

	rpc_error_init(&e, FAULT_BUSY, "Too many streams are open");
	exchange_refuse(x, classify_rev_known(x, in->http), rpc->id, &e);
	x->hang_up = true;
	return false;
}

static unsigned cost_of(const struct mcp_exchange *x, const struct rpc_msg *rpc)
{
	if (rpc->array)
		return (unsigned)x->nreq;
	return strcmp(rpc->method, "subscriptions/listen") == 0 ? LISTEN_COST : 1;
}

/* It ends a call that runs: never refused. */
static bool is_end(const struct rpc_msg *rpc)
{
	return rpc->kind == RPC_RESPONSE ||
	       (rpc->kind == RPC_NOTICE && strcmp(rpc->method, "notifications/cancelled") == 0);
}

/* whole: rpc_check() has found nothing wrong.  False: refused and answered. */
static bool charge(struct mcp_exchange *x, const struct mcp_in *in, const struct rpc_msg *rpc, bool whole)
{
	struct call_engine *calls = x->srv->env.calls;
	bool silent = !in->http && whole && rpc->kind != RPC_REQUEST;
	struct err err = { 0 };

	if (x->ch && x->ch->over)
		return refuse_channel(x, in, rpc);
	if (whole && is_end(rpc)) {
		call_charge_more(calls, x->who, 1);
		return true;
	}
	if (call_charge(calls, x->who, cost_of(x, rpc), whole && is_loose(rpc), &err) == 0)
		return true;
	refuse_rate(x, in, rpc->array ? (struct jx_span){ NULL, 0 } : rpc->id, silent, &err);
	return false;
}

/* --- the gate: what a modern request must bring, in the order of MCP B-11; the first fault is the answer */

#define KEY "io.modelcontextprotocol/"

enum { CLAIM_SIZE = 128, LEVEL_SIZE = 32, HEADER_MAX = 8192 };

/* MCP M-06, M-07, B-41: data names the keys that are missing or of the wrong kind. */
static bool check_meta(const struct mcp_msg *msg, struct rpc_error *e)
{
	const struct rpc_meta *m = &msg->meta;
	bool claim = rpc_is(m->claim, '"'), caps = rpc_is(m->caps, '{');
	char client[MCP_CLIENT_SIZE];

	if (!claim || !caps) {
		rpc_error_init(e, FAULT_ENVELOPE, "params._meta lacks %s%s%s",
			       claim ? "" : KEY "protocolVersion (a string)", claim || caps ? "" : " and ",
			       caps ? "" : KEY "clientCapabilities (an object)");
		rpc_error_raw(e, "missing", !claim && !caps ?
			      "[\"" KEY "protocolVersion\",\"" KEY "clientCapabilities\"]" :
			      claim ? "[\"" KEY "clientCapabilities\"]" : "[\"" KEY "protocolVersion\"]");
		return false;
	}
	if (m->client.p && !client_read(m->client, client)) {
		rpc_error_init(e, FAULT_ENVELOPE, KEY "clientInfo must hold the strings name and version");
		return false;
	}
	return true;
}

/* MCP G-03, G-04 */
static bool check_log_level(struct mcp_req *req, const struct mcp_msg *msg, struct rpc_error *e)
{
	char level[LEVEL_SIZE];

	if (!msg->meta.level.p)
		return true;
	if (rpc_string(msg->meta.level, level, sizeof(level), NULL))
		req->log_level = encode_log_level(level);
	else
		req->log_level = -1;
	if (req->log_level >= 0)
		return true;
	req->log_level = MCP_LOG_OFF;
	rpc_error_init(e, FAULT_ENVELOPE, KEY "logLevel is none of debug, info, notice, warning, error, "
		       "critical, alert, emergency");
	return false;
}

static bool header_is(const char *header, struct jx_span raw)
{
	char text[HEADER_MAX];
	size_t len;

	return header && rpc_string(raw, text, sizeof(text), &len) && mcp_header_is(header, strlen(header), text, len);
}

/* MCP H-32, H-33, B-37 */
static bool check_version_and_method(const struct mcp_msg *msg, const char *claim, struct rpc_error *e)
{
	const struct mcp_headers *h = msg->http;
	bool version = h->version && strcmp(h->version, claim) == 0;
	static struct log_site site;

	/* Known clients mix them up: whoever looks for the reason finds both values. */
	if (!version && log_allow(&site))
		log_info(NULL, "version refused header=%s claim=%s", h->version ? h->version : "", claim);

	if (h->duplicate)
		rpc_error_init(e, FAULT_HEADER, "A header of the protocol came twice");
	else if (!version)
		rpc_error_init(e, FAULT_HEADER, "MCP-Protocol-Version is %s, " KEY "protocolVersion is %s",
			       h->version ? h->version : "missing", claim);
	else if (!h->method || strcmp(h->method, msg->rpc->method) != 0)
		rpc_error_init(e, FAULT_HEADER, "Mcp-Method is %s, the method is %s",
			       h->method ? h->method : "missing", msg->rpc->method);
	else
		return true;
	return false;
}

/* MCP H-33, H-35.  A body without the string is left to the handler, which says what it lacks. */
static bool check_name(const struct mcp_msg *msg, struct rpc_error *e)
{
	const struct mcp_method *m = mcp_method_find(msg->rpc->method);
	struct jx_span body = { NULL, 0 };
	const char *what = NULL;

	switch (m ? m->repeats : NAME_NONE) {
	case NAME_NONE:
		return true;
	case NAME_NAME:
		what = "params.name";
		body = msg->rpc->name;
		break;
	case NAME_URI:
		what = "params.uri";
		body = msg->rpc->uri;
		break;
	case NAME_TASK:
		what = "params.taskId";
		body = msg->rpc->task_id;
		break;
	}
	if (msg->http->name && (!rpc_is(body, '"') || header_is(msg->http->name, body)))
		return true;
	rpc_error_init(e, FAULT_HEADER, msg->http->name ? "Mcp-Name is not %s" : "Mcp-Name is missing, not %s",
		       what);
	return false;
}

static bool check_version(const char *claim, struct rpc_error *e)
{
	enum rev rev = rev_find(claim, strlen(claim));

	if (rev != REV_COUNT && rev_table[rev].era == ERA_MODERN)
		return true;
	rpc_error_version(e, claim);
	return false;
}

/* What the last clientCapabilities said that are short: those of the next request are the same bytes as a rule, whoever
 * sends it, and mean the same. */
enum { CAPS_READ_MAX = 256 };
struct mcp_caps_read { size_t len; uint32_t caps; char text[CAPS_READ_MAX]; };

static bool read_caps(struct mcp_req *req, const struct mcp_msg *msg, struct rpc_error *e)
{
	const struct jx_span text = msg->meta.caps;
	struct mcp_caps_read **last = &req->x->srv->caps_read;
	json_t *caps = NULL;

	if (*last && (*last)->len == text.len && memcmp((*last)->text, text.p, text.len) == 0) {
		req->caps = (*last)->caps;
		return true;
	}
	if (jx_parse_scanned(text.p, text.len, &caps, NULL) < 0) {
		rpc_error_init(e, FAULT_ENVELOPE, KEY "clientCapabilities cannot be read");
		return false;
	}
	req->caps = caps_from_json(caps);
	json_decref(caps);
	if (text.len > CAPS_READ_MAX)
		return true;
	if (!*last)
		*last = mem_alloc(sizeof(**last));
	(*last)->len = text.len;
	(*last)->caps = req->caps;
	memcpy((*last)->text, text.p, text.len);
	return true;
}

/* gate.c: the checks of a modern request in the order of MCP B-11; false: refused and answered. */
static bool pass_gate(struct mcp_req *req, const struct mcp_msg *msg)
{
	char claim[CLAIM_SIZE];
	struct rpc_error e;

	if (check_meta(msg, &e)) {
		(void)rpc_string(msg->meta.claim, claim, sizeof(claim), NULL);   /* check_meta saw a string */
		if (check_log_level(req, msg, &e) &&
		    (!msg->http || check_version_and_method(msg, claim, &e)) && check_version(claim, &e) &&
		    (!msg->http || check_name(msg, &e)) && read_caps(req, msg, &e))
			return true;
	}
	req_fault(req, &e);
	return false;
}

/* --- the era and revision of a message */

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
	if (pass_gate(req, msg))
		mcp_dispatch(req, msg);
}

/* A request that is refused before it is one of an era. */
static void classify_refuse(struct mcp_exchange *x, const struct mcp_msg *msg, enum rev rev, struct rpc_error *e)
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
	classify_refuse(x, msg, rev, &e);
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
	while (rpc_walk_member(&w, name, sizeof(name), &id)) {
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
		classify_refuse(x, msg, REV_R5, &e);
		return false;
	}
	if (http_legacy(x, msg->http, &rev, &e))
		return true;
	classify_refuse(x, msg, classify_rev_known(x, msg->http), &e);
	return false;
}

static void refuse_invalid(struct mcp_exchange *x, const struct mcp_msg *msg, const struct err *why)
{
	struct rpc_error e;

	rpc_error_init(&e, FAULT_REQUEST, "Invalid Request: %s", why->msg);
	x->hang_up = !msg->rpc->object && x->tport != AUDIT_STDIO;      /* MCP B-06 */
	exchange_refuse(x, classify_rev_known(x, msg->http), msg->rpc->id, &e);
}

static void classify_single(struct mcp_exchange *x, struct mcp_msg *msg)
{
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

/* classify.c: whose rules a message follows (MCP C.1); starts its requests. */
static void classify_batch(struct mcp_exchange *x, const struct mcp_in *in)
{
	struct member *m = mem_calloc(x->nreq + 1, sizeof(*m));
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

/* --- the way in */

/* Not JSON, or JSON that the scan refuses. */
static void refuse_text(struct mcp_exchange *x, const struct mcp_in *in, const struct rpc_msg *msg,
			const struct err *why)
{
	bool json = why->code != ERR_INVALID;
	struct jx_span id = msg->id;
	struct rpc_error e;

	metric_inc(METRIC_json_refused);
	if (!json)
		id.p = NULL;
	rpc_error_init(&e, json ? FAULT_REQUEST : FAULT_PARSE, "%s: %s (%s)",
		       json ? "Invalid Request" : "Parse error", why->msg, why->where);
	if (!json && (x->tport == AUDIT_TCP || x->tport == AUDIT_UNIX))
		x->hang_up = true;      /* a browser can be made to connect there (MCP B-06) */
	exchange_refuse(x, classify_rev_known(x, in->http), id, &e);
}

/* Its credential is not valid any more (MCP Z-01): the message is not looked at further. */
static void refuse_denied(struct mcp_exchange *x, const struct mcp_in *in, struct rpc_msg *msg,
			  const struct err *why)
{
	bool silent = !in->http && !msg->array && rpc_check(msg, NULL) == 0 && msg->kind != RPC_REQUEST;
	struct rpc_error e;

	rpc_error_init(&e, FAULT_DENIED, "%s", why->msg);
	exchange_refuse(x, classify_rev_known(x, in->http), msg->id, &e);
	if (silent)
		str_reset(&x->reply);   /* MCP J-06 */
}

static size_t count_elements(const struct mcp_in *in)
{
	struct rpc_walk w;
	struct jx_span v;
	const char *p = in->text;
	size_t n = 0;

	while (*p != '[')
		p++;
	rpc_walk_start(&w, (struct jx_span){ p, in->len - (size_t)(p - in->text) });
	while (n <= MCP_BATCH_MAX && rpc_walk_element(&w, &v))
		n++;
	return n;
}

static void take_in(struct mcp_exchange *x, const struct mcp_in *in, struct mcp_msg *msg)
{
	bool array = msg->rpc->array;
	struct err err = { 0 };
	int rc = array ? 0 : rpc_check(msg->rpc, &err);

	if (!charge(x, in, msg->rpc, !array && rc == 0))
		return;
	if (array)
		classify_batch(x, in);
	else if (rc < 0)
		refuse_invalid(x, msg, &err);
	else
		classify_single(x, msg);
}

void mcp_input(struct mcp_server *srv, struct mcp_channel *ch, const struct mcp_in *in,
	       const struct mcp_sink *sink, struct mcp_exchange **ret)
{
	struct rpc_msg rpc;
	struct mcp_msg msg = { .rpc = &rpc, .http = in->http };
	struct mcp_exchange *x;
	struct err err = { 0 };
	int rc;

	if (ch && ch->deaf) {
		if (ret)
			*ret = NULL;
		return;
	}
	rc = rpc_scan(in->text, in->len, &rpc, &err);
	x = exchange_new(srv, ch, in, sink, rc == 0 && rpc.array ? count_elements(in) : 1);
	if (ret)
		*ret = x;
	srv->inside++;
	metric_inc(METRIC_requests);
	if (ch)
		ch->last_us = clock_wall_us();
	if (rc < 0) {
		call_charge_more(srv->env.calls, x->who, 1);    /* SEC S-803 */
		refuse_text(x, in, &rpc, &err);
	} else if (principal_check(srv->env.tenants, in->who, &err) < 0) {
		refuse_denied(x, in, &rpc, &err);
	} else {
		take_in(x, in, &msg);
	}
	x->inside = false;
	if (ch)
		ch->deaf = x->hang_up;
	exchange_settle(x);
	srv->inside--;
}

