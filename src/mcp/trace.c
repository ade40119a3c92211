/* Of which trace a request is (MCP W-01 to W-04), and the span that says how it went (OP-402, OP-403; OpenTelemetry's
 * conventions for MCP servers).  A call has it while it runs.  Loop thread. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/crypto.h"
#include "base/text.h"
#include "otel/span.h"
#include "proto/trace.h"
#include "tenant/tenant.h"

#include "method_int.h"

#define SESSION_SHOWN 8         /* bytes of the digest of a session's id, which is a credential */
#define ID_SHOWN 256            /* bytes of a request's id */

static size_t length(const char *text)
{
	return text ? strlen(text) : 0;
}

static bool of_meta(const struct mcp_msg *msg, struct trace *ret)
{
	char parent[TRACE_PARENT_LEN + 2], state[TRACE_STATE_MAX + 2];
	size_t parent_len, state_len = 0;
	bool has_state;

	if (!rpc_string(msg->meta.traceparent, parent, sizeof(parent), &parent_len))
		return false;
	has_state = rpc_string(msg->meta.tracestate, state, sizeof(state), &state_len);
	return trace_parse(ret, parent, parent_len, has_state ? state : NULL, state_len);
}

static bool of_headers(const struct mcp_msg *msg, struct trace *ret)
{
	return msg->http && trace_parse(ret, msg->http->traceparent, length(msg->http->traceparent),
					msg->http->tracestate, length(msg->http->tracestate));
}

/* `_meta` goes before the headers: one in it that is none leaves the request without (MCP W-03, W-04). */
static bool has_meta(const struct mcp_msg *msg)
{
	return rpc_is(msg->meta.traceparent, '"');
}

bool req_read_trace(const struct mcp_msg *msg, struct trace *ret)
{
	return has_meta(msg) ? of_meta(msg, ret) : of_headers(msg, ret);
}

void req_span_begin(struct mcp_req *req, const struct mcp_msg *msg)
{
	struct otel *otel = req->x->srv->env.otel;
	struct trace parent, header;
	struct span_from from = { .tenant_id = req->x->who->tenant_id };

	if (!otel)
		return;
	if (req_read_trace(msg, &parent))
		from.parent = &parent;
	/* What carried the message is a trace of its own, unless its caller says the same twice. */
	if (has_meta(msg) && of_headers(msg, &header) && (!from.parent || strcmp(parent.parent, header.parent) != 0))
		from.link = &header;
	req->span = span_begin(otel, &from);
}

/* --- what it was */

static void say_id(struct span *s, struct jx_span id)
{
	char text[ID_SHOWN + 1];
	size_t len;

	if (rpc_is(id, '"') && rpc_string(id, text, sizeof(text), &len))
		span_text_n(s, "jsonrpc.request.id", text, len);
	else if (id.p && *id.p != '"')
		span_text_n(s, "jsonrpc.request.id", id.p, id.len);
}

static void say_session(struct span *s, const struct mcp_session *session)
{
	uint8_t digest[DIGEST_SIZE];
	char text[2 * SESSION_SHOWN + 1];

	digest_sha256(session->id, strlen(session->id), digest);
	text_hex(digest, SESSION_SHOWN, text);
	span_text(s, "mcp.session.id", text);
}

static void say_transport(struct span *s, const struct mcp_exchange *x)
{
	span_text(s, "network.transport", x->tport == AUDIT_STDIO ? "pipe" : x->tport == AUDIT_UNIX ? "unix" : "tcp");
	if (x->http)
		span_text(s, "network.protocol.name", "http");
}

void req_span_end(struct mcp_req *req)
{
	struct span *s = req->span;
	char code[16];

	if (span_stop(s, req->code != 0)) {
		span_name(s, req->method, NULL);
		span_text(s, "mcp.method.name", req->method);
		span_text(s, "mcp.protocol.version", rev_table[req->rev].text);
		if (strcmp(req->method, "tools/call") == 0)
			span_text(s, "gen_ai.operation.name", "execute_tool");
		say_id(s, req->id);
		if (req->x->session)
			say_session(s, req->x->session);
		say_transport(s, req->x);
		span_text(s, "toolcrib.tenant", req->x->who->tenant);
		if (req->code) {
			(void)snprintf(code, sizeof(code), "%d", req->code);
			span_text(s, "rpc.response.status_code", code);
			span_error(s, code);
		}
	}
	span_end(&req->span);
}
