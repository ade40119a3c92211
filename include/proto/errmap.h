#ifndef PROTO_ERRMAP_H
#define PROTO_ERRMAP_H

#include "base/err.h"
#include "base/text.h"
#include "proto/rev.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* What can be wrong with a request, and how each era is told: JSON-RPC code, HTTP status (MCP 14.4), words.
 * No other file knows these numbers.  Texts are ours: no library text, path or SQL leaves in an answer. */

enum fault {
	FAULT_PARSE,            /* not JSON */
	FAULT_REQUEST,          /* JSON, but no message that is legal here */
	FAULT_ENVELOPE,         /* `_meta` is not complete (MCP E-12) */
	FAULT_HEADER,           /* HTTP header and body disagree (E-05) */
	FAULT_VERSION,          /* revision not served (E-07) */
	FAULT_METHOD,           /* unknown method, or one of a capability that is not declared (E-11) */
	FAULT_CAPABILITY,       /* the client did not declare what the tool needs (E-06) */
	FAULT_PARAMS,           /* found by a handler: unknown tool, bad cursor, bad state (B-10) */
	FAULT_RESOURCE,         /* no such resource (E-09, E-10) */
	FAULT_LISTENS,          /* too many listens (B-21) */
	FAULT_SESSION,          /* unknown or ended session (H-13) */
	FAULT_DENIED,           /* the credential is not valid any more */
	FAULT_SCOPE,            /* it is valid, but not for this method */
	FAULT_RATE,             /* 4290 (E-14) */
	FAULT_AUDIT,            /* 5030 (E-15) */
	FAULT_BUSY,             /* a queue or table is full */
	FAULT_POLICY,           /* a policy decision point does not allow it */
	FAULT_UNDECIDED,        /* one could not be asked */
	FAULT_CANCELLED,        /* ended by the server before it was done */
	FAULT_INTERNAL,
	FAULT_TOOL,             /* the tool asked for a code of its own */
	FAULT__COUNT
};

struct rpc_error {
	enum fault fault;
	int code;               /* JSON-RPC */
	uint32_t retry_ms;
	struct str message;
	struct str data;        /* members of the data object, without braces; or with `whole` any JSON */
	bool whole;
};

/* Start an error; the message is printf-like, NULL: the standing text of the fault. */
void rpc_error_init(struct rpc_error *e, enum fault fault, const char *fmt, ...) PRINTF_LIKE(3, 4);
void rpc_error_fini(struct rpc_error *e);
/* Members of data; name is ours and needs no escapes. */
void rpc_error_text(struct rpc_error *e, const char *name, const char *value);
void rpc_error_raw(struct rpc_error *e, const char *name, const char *json);
/* 4290 with data.retryAfterMs. */
void rpc_error_rate(struct rpc_error *e, uint32_t retry_ms);
/* The same of a limit, with data.reason, which it was: "rate", "concurrency", "queue", "wait", "quota", "storage",
 * "requests", "bytes", "audit" (SEC S-840), and data.limit, whose: "tenant", "principal", "key", "tool", or "queue".
 * The message has its numbers, which are the caller's own.  Of a budget data.budget says them as well. */
void rpc_error_limit(struct rpc_error *e, const struct err *why);
/* With data.scope: the words that are lacking. */
void rpc_error_scope(struct rpc_error *e, const char *need);
/* 5030 in the form of AUDIT. */
void rpc_error_audit(struct rpc_error *e, bool executed);
/* -32602; words by revision (MCP D). */
void rpc_error_unknown_tool(struct rpc_error *e, enum rev rev, const char *name, size_t len);
void rpc_error_arguments(struct rpc_error *e, const char *reason);
void rpc_error_unknown_prompt(struct rpc_error *e, const char *name, size_t len);
/* -32002 up to R4, -32602 from R5 on, with data.uri (MCP E-09, E-10). */
void rpc_error_unknown_resource(struct rpc_error *e, enum rev rev, const char *uri, size_t len);
/* -32022 with supported and requested (MCP B-51). */
void rpc_error_version(struct rpc_error *e, const char *requested);
/* -32021 with requiredCapabilities. */
void rpc_error_capability(struct rpc_error *e, uint32_t missing);
/* A code that the tool chose; taken out of the ranges that 2026-07-28 reserves (MCP E-02, E-03, E-08). */
void rpc_error_tool(struct rpc_error *e, enum rev rev, int code, const char *message, const json_t *data);

int rpc_error_status(const struct rpc_error *e, enum rev_era era);
uint32_t rpc_error_retry_after_s(const struct rpc_error *e);    /* Retry-After; 0 = none */

/* The versions of server/discover, newest first, as a JSON array; never R0 (MCP B-51). */
extern const char rpc_versions[];

#endif
