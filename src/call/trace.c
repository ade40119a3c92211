/* What spans say of calls (OP-403, OTel's conventions for MCP and HTTP): that of the request, which the engine borrows
 * for the call's life, and one for each run that leaves the process.  engine.c calls; loop thread.  No argument, no
 * result, no path of a URL (OP-003). */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/id.h"
#include "base/text.h"
#include "otel/span.h"
#include "proto/trace.h"
#include "registry/registry.h"
#include "tenant/tenant.h"

#include "call_int.h"

#define DIGEST_SHOWN 8          /* bytes of a definition's digest */
#define TOOL_ERROR "tool_error"

const struct trace *call_trace(const struct call *c, bool onward)
{
	if (onward && c->run)
		return span_trace(c->run);
	return c->span ? span_trace(c->span) : c->trace;
}

static bool is_failure(int outcome)
{
	return outcome != AUDIT_OK && outcome != AUDIT_INPUT_REQUIRED;
}

/* --- a run */

/* Answers that are part of the program, and a query of SQLite, are within the request's span. */
static bool leaves(const struct backend_ops *ops)
{
	return ops->way || strcmp(ops->name, "exec") == 0;
}

void call_span_run(struct call *c)
{
	span_event(c->span, "started");
	span_end(&c->run);
	if (leaves(c->ops))
		c->run = span_child(c->span, c->ops->way ? SPAN_CLIENT : SPAN_INTERNAL);
}

static void say_mcp(struct span *s, const struct backend_way *way)
{
	const bool tool = strcmp(way->method, "tools/call") == 0;

	span_name(s, way->method, way->item);
	span_text(s, "mcp.method.name", way->method);
	if (tool)
		span_text(s, "gen_ai.operation.name", "execute_tool");
	if (way->item)
		span_text(s, tool ? "gen_ai.tool.name" : "gen_ai.prompt.name", way->item);
	span_text(s, "toolcrib.upstream", way->upstream);
}

static void say_http(struct span *s, const struct backend_way *way, const struct call *c)
{
	char status[24];

	span_name(s, way->method, NULL);
	span_text(s, "http.request.method", way->method);
	if (!c->result.has_xstat)
		return;
	span_int(s, "http.response.status_code", c->result.xstat);
	(void)snprintf(status, sizeof(status), "%lld", (long long)c->result.xstat);
	if (c->result.xstat >= 400)
		span_error(s, status);
}

static void say_exec(struct span *s, const struct call *c)
{
	span_name(s, c->ops->name, NULL);
	if (c->sandboxed)
		span_text(s, "toolcrib.sandbox", c->sandbox.level);
	if (c->result.has_xstat)
		span_int(s, "process.exit.code", c->result.xstat);
}

void call_span_ran(struct call *c, int outcome)
{
	struct backend_way way = { .method = NULL };

	if (span_stop(c->run, is_failure(outcome))) {
		if (c->ops->way)
			c->ops->way(c->plan, &way);
		if (way.upstream)
			say_mcp(c->run, &way);
		else if (way.method)
			say_http(c->run, &way, c);
		else
			say_exec(c->run, c);
		if (way.host)
			span_text(c->run, "server.address", way.host);
		if (way.port)
			span_int(c->run, "server.port", way.port);
		if (is_failure(outcome))
			span_error(c->run, outcome == AUDIT_TOOL_ERROR ? TOOL_ERROR : audit_outcome_name(outcome));
		span_text(c->run, "toolcrib.tenant", c->who->tenant);
	}
	span_end(&c->run);
}

/* --- the request */

/* What it is called by, once it is known to be there: what a caller makes up is nobody's name. */
static void say_tool(struct span *s, const struct call *c)
{
	char digest[2 * DIGEST_SHOWN + 1];

	if (c->kind == REG_TOOL)
		span_text(s, "gen_ai.tool.name", c->tool->name);
	else if (c->kind == REG_PROMPT)
		span_text(s, "gen_ai.prompt.name", c->tool->name);
	text_hex(c->tool->def->digest, DIGEST_SHOWN, digest);
	span_text(s, "toolcrib.definition", digest);
}

void call_span_end(struct call *c)
{
	static const char *const methods[REG_KINDS] = { [REG_TOOL] = "tools/call", [REG_PROMPT] = "prompts/get",
		[REG_RESOURCE] = "resources/read", [REG_TEMPLATE] = "resources/read" };
	const bool unrecorded = c->trouble && c->trouble->refusal == REFUSE_AUDIT;
	const int outcome = unrecorded ? AUDIT_OVERLOAD : c->outcome;
	const bool named = c->kind == REG_TOOL || c->kind == REG_PROMPT;
	char id[ID_TEXT_SIZE];

	call_span_ran(c, outcome);
	if (!span_stop(c->span, is_failure(outcome)))
		return;
	if (c->tool)
		say_tool(c->span, c);
	if (c->has_id)
		span_text(c->span, "toolcrib.call", id_format(c->id, id));
	span_text(c->span, "toolcrib.outcome", audit_outcome_name(outcome));
	if (c->end_idx >= 0)
		span_int(c->span, "toolcrib.record", c->end_idx);
	if (c->sandboxed)
		span_text(c->span, "toolcrib.sandbox", c->sandbox.level);
	if (c->has_result && c->result.is_error)
		span_error(c->span, TOOL_ERROR);
	span_name(c->span, c->completing ? "completion/complete" : methods[c->kind], c->tool && named ? c->tool->name : NULL);
	if (c->out)
		return;
	/* Nobody waits for the answer, so nobody else says whose it was. */
	span_text(c->span, "toolcrib.tenant", c->who->tenant);
	if (is_failure(outcome))
		span_error(c->span, audit_outcome_name(outcome));
}
