/* Faults to JSON-RPC codes, HTTP statuses and words. */

#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "json/json.h"
#include "proto/caps.h"
#include "proto/errmap.h"

enum {
	RPC_PARSE = -32700, RPC_INVALID = -32600, RPC_NO_METHOD = -32601, RPC_PARAMS = -32602,
	RPC_INTERNAL = -32603, RPC_HEADER = -32020, RPC_CAPABILITY = -32021, RPC_VERSION = -32022,
	RPC_NO_RESOURCE = -32002,                       /* up to R4 (MCP E-08) */
	RPC_RESERVED_MIN = -32099, RPC_RESERVED_MAX = -32000,
	RPC_RATE = 4290, RPC_AUDIT = 5030,              /* our own (MCP B-57) */
};

#define BUSY_RETRY_TEXT "1000"
enum { BUSY_RETRY_MS = 1000, AUDIT_RETRY_MS = 2000 };   /* AUDIT A-208: Retry-After: 2 */

const char rpc_versions[] = "[\"2026-07-28\",\"2025-11-25\",\"2025-06-18\",\"2025-03-26\",\"2024-11-05\"]";
#define MODERN_VERSIONS "[\"2026-07-28\"]"

static const struct {
	int code, legacy, modern;       /* JSON-RPC; HTTP status by era */
	const char *text;
} rows[FAULT__COUNT] = {
	[FAULT_PARSE] = { RPC_PARSE, 400, 400, "Parse error" },
	[FAULT_REQUEST] = { RPC_INVALID, 400, 400, "Invalid Request" },
	[FAULT_ENVELOPE] = { RPC_PARAMS, 400, 400, "Invalid params" },
	[FAULT_HEADER] = { RPC_HEADER, 400, 400, "Header mismatch" },
	[FAULT_VERSION] = { RPC_VERSION, 400, 400, "Unsupported protocol version" },
	[FAULT_METHOD] = { RPC_NO_METHOD, 200, 404, "Method not found" },
	[FAULT_CAPABILITY] = { RPC_CAPABILITY, 400, 400, "Missing required client capability" },
	[FAULT_PARAMS] = { RPC_PARAMS, 200, 200, "Invalid params" },
	[FAULT_RESOURCE] = { RPC_NO_RESOURCE, 200, 200, "Resource not found" },
	[FAULT_LISTENS] = { RPC_INTERNAL, 200, 200, "Too many subscriptions" },
	[FAULT_SESSION] = { RPC_INVALID, 404, 404, "Session not found" },
	[FAULT_DENIED] = { RPC_INVALID, 401, 401, "The credential is not valid any more" },
	[FAULT_SCOPE] = { RPC_INVALID, 403, 403, "The credential's scope does not include this" },
	[FAULT_RATE] = { RPC_RATE, 429, 429, "Rate limit exceeded" },
	[FAULT_AUDIT] = { RPC_AUDIT, 503, 503, "The audit store is unavailable" },
	[FAULT_BUSY] = { RPC_INTERNAL, 503, 503, "The server is busy" },
	[FAULT_POLICY] = { RPC_INVALID, 200, 200, "Refused by policy" },
	[FAULT_UNDECIDED] = { RPC_INTERNAL, 503, 503, "The policy could not be asked" },
	[FAULT_CANCELLED] = { RPC_INTERNAL, 200, 200, "The server cancelled the request" },
	[FAULT_INTERNAL] = { RPC_INTERNAL, 200, 200, "Internal error" },
	[FAULT_TOOL] = { RPC_INTERNAL, 200, 200, "The tool failed" },
};

void rpc_error_init(struct rpc_error *e, enum fault fault, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	memset(e, 0, sizeof(*e));
	e->fault = fault;
	e->code = rows[fault].code;
	if (fault == FAULT_BUSY || fault == FAULT_UNDECIDED) {  /* SEC S-805 */
		e->retry_ms = BUSY_RETRY_MS;
		rpc_error_raw(e, "retryAfterMs", BUSY_RETRY_TEXT);
	}
	if (!fmt) {
		str_puts(&e->message, rows[fault].text);
		return;
	}
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	str_puts(&e->message, text);
}

void rpc_error_fini(struct rpc_error *e)
{
	str_fini(&e->message);
	str_fini(&e->data);
}

static void member(struct rpc_error *e, const char *name)
{
	if (e->data.len)
		str_putc(&e->data, ',');
	str_putc(&e->data, '"');
	str_puts(&e->data, name);
	str_puts(&e->data, "\":");
}

void rpc_error_text(struct rpc_error *e, const char *name, const char *value)
{
	member(e, name);
	jx_write_stringz(&e->data, value);
}

void rpc_error_raw(struct rpc_error *e, const char *name, const char *json)
{
	member(e, name);
	str_puts(&e->data, json);
}

static void rpc_error_json(struct rpc_error *e, const char *name, const json_t *value)
{
	member(e, name);
	jx_write(value, &e->data);
}

void rpc_error_rate(struct rpc_error *e, uint32_t retry_ms)
{
	char text[16];

	rpc_error_init(e, FAULT_RATE, NULL);
	e->retry_ms = retry_ms;
	(void)snprintf(text, sizeof(text), "%u", (unsigned)retry_ms);
	rpc_error_raw(e, "retryAfterMs", text);
}

/* Whose limit it is, which, and until when: numbers of the caller's own tenant, told only behind the look at what it
 * may call. */
void rpc_error_limit(struct rpc_error *e, const struct err *why)
{
	const char *slash = strchr(why->where, '/'), *reason = slash ? slash + 1 : "rate";
	char of[sizeof(why->where)];

	rpc_error_rate(e, why->retry_ms);
	if (why->msg[0]) {
		str_puts(&e->message, ": ");
		str_puts(&e->message, why->msg);
	}
	rpc_error_text(e, "reason", reason);
	if (slash) {
		(void)snprintf(of, sizeof(of), "%.*s", (int)(slash - why->where), why->where);
		rpc_error_text(e, "limit", of);
	}
	if (strcmp(reason, "audit") == 0 || strcmp(reason, "bytes") == 0)
		rpc_error_text(e, "budget", why->msg);
}

void rpc_error_scope(struct rpc_error *e, const char *need)
{
	rpc_error_init(e, FAULT_SCOPE, NULL);
	rpc_error_text(e, "reason", "insufficient_scope");
	rpc_error_text(e, "scope", need);
}

void rpc_error_audit(struct rpc_error *e, bool executed)
{
	rpc_error_init(e, FAULT_AUDIT, executed ?
		       "The call ran, but its end could not be recorded; the result is withheld" :
		       "The call was not run: the audit store is unavailable");
	e->retry_ms = AUDIT_RETRY_MS;
	rpc_error_text(e, "reason", "audit_unavailable");
	rpc_error_raw(e, "retryable", executed ? "false" : "true");
	rpc_error_raw(e, "executed", executed ? "true" : "false");
	if (executed)
		rpc_error_text(e, "outcome", "unrecorded");
}

void rpc_error_unknown_tool(struct rpc_error *e, enum rev rev, const char *name, size_t len)
{
	struct str reason = STR_INIT;

	str_puts(&reason, "Unknown tool: ");
	str_put(&reason, name, len);
	rpc_error_init(e, FAULT_PARAMS, NULL);
	member(e, "reason");
	jx_write_string(&e->data, reason.p, reason.len);
	if (rev != REV_R0) {    /* R0 says it in data alone (MCP D) */
		str_fini(&e->message);
		e->message = reason;
		return;
	}
	str_fini(&reason);
}

void rpc_error_unknown_prompt(struct rpc_error *e, const char *name, size_t len)
{
	struct str reason = STR_INIT;

	str_puts(&reason, "Unknown prompt: ");
	str_put(&reason, name, len);
	rpc_error_init(e, FAULT_PARAMS, NULL);
	member(e, "reason");
	jx_write_string(&e->data, reason.p, reason.len);
	str_fini(&e->message);
	e->message = reason;
}

void rpc_error_unknown_resource(struct rpc_error *e, enum rev rev, const char *uri, size_t len)
{
	rpc_error_init(e, FAULT_RESOURCE, NULL);
	if (rev_table[rev].era == ERA_MODERN)
		e->code = RPC_PARAMS;
	member(e, "uri");
	jx_write_string(&e->data, uri, len);
}

void rpc_error_arguments(struct rpc_error *e, const char *reason)
{
	rpc_error_init(e, FAULT_PARAMS, NULL);
	rpc_error_text(e, "reason", reason);
}

void rpc_error_version(struct rpc_error *e, const char *requested)
{
	enum rev rev = rev_find(requested, strlen(requested));
	bool legacy = rev != REV_COUNT && rev_table[rev].era == ERA_LEGACY;

	/* The whole list would name what was just refused, and the client would try it for ever (MCP B-51). */
	rpc_error_init(e, FAULT_VERSION, legacy ?
		       "Use initialize for %s; only modern versions can be claimed in _meta" :
		       "Unsupported protocol version: %s", requested);
	rpc_error_raw(e, "supported", legacy ? MODERN_VERSIONS : rpc_versions);
	rpc_error_text(e, "requested", requested);
}

void rpc_error_capability(struct rpc_error *e, uint32_t missing)
{
	json_t *caps = caps_to_json(missing);

	rpc_error_init(e, FAULT_CAPABILITY, "The tool needs a capability that this request did not declare");
	rpc_error_json(e, "requiredCapabilities", caps);
	json_decref(caps);
}

void rpc_error_tool(struct rpc_error *e, enum rev rev, int code, const char *message, const json_t *data)
{
	rpc_error_init(e, FAULT_TOOL, "%s", message);
	if (rev_table[rev].era == ERA_MODERN && code == RPC_NO_RESOURCE)
		code = RPC_PARAMS;
	else if (rev_table[rev].era == ERA_MODERN && code >= RPC_RESERVED_MIN && code <= RPC_RESERVED_MAX)
		code = RPC_INTERNAL;
	e->code = code;
	if (data) {
		jx_write(data, &e->data);
		e->whole = true;
	}
}

int rpc_error_status(const struct rpc_error *e, enum rev_era era)
{
	return era == ERA_MODERN ? rows[e->fault].modern : rows[e->fault].legacy;
}

uint32_t rpc_error_retry_after_s(const struct rpc_error *e)
{
	return e->retry_ms / 1000 + (e->retry_ms % 1000 != 0);
}
