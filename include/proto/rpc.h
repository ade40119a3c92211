#ifndef PROTO_RPC_H
#define PROTO_RPC_H

#include "base/err.h"
#include "json/json.h"

#include <stdbool.h>
#include <stddef.h>

/* The envelope of a JSON-RPC 2.0 message as spans of its text: ids and tokens are never parsed and
 * printed again (MCP B-04).  Nothing here allocates but rpc_string() with escapes in the text. */

#define RPC_ID_MAX 256                  /* bytes of an id or progress token; the quotes of a string do not count */
#define RPC_METHOD_MAX 127              /* longer names are unknown methods anyway */

enum rpc_kind { RPC_REQUEST, RPC_NOTICE, RPC_RESPONSE };

struct rpc_msg {
	bool object, array;             /* the kind of the text; a batch is an array: nothing below is set */
	enum rpc_kind kind;             /* by rpc_check() */
	struct jx_span id;              /* raw token, `1` or `"1"`; p NULL: absent or unreadable */
	char method[RPC_METHOD_MAX + 1];        /* "" in responses; cut when longer */
	struct jx_span params;          /* an object; p NULL: absent */
	bool params_bad;                /* there, but no object: -32602 (MCP B-52) */
	struct jx_span meta, name, uri, task_id, arguments, cursor, state, responses;  /* members of params, raw */
	struct jx_span result, error;   /* of a response */
	struct jx_span version, raw_id, raw_method;     /* as written, for rpc_check() */
};

/* Scan one message strictly and note its parts.  Spans point into text.  ERR_INVALID: not JSON (-32700);
 * ERR_CONFLICT, ERR_LIMIT: JSON that is refused (-32600); then ret->id is set if it was seen. */
int rpc_scan(const char *text, size_t len, struct rpc_msg *ret, struct err *err) MUST_CHECK;
/* Is it a request, a notification or a response?  ERR_INVALID: none of them (-32600); msg->id is set when it
 * could be read.  Not for arrays. */
int rpc_check(struct rpc_msg *msg, struct err *err) MUST_CHECK;

/* What the core reads of params._meta; raw values, p NULL: absent. */
struct rpc_meta {
	struct jx_span claim, caps, client, level, token, traceparent, tracestate, model;
};
void rpc_meta_read(struct jx_span meta, struct rpc_meta *ret);

/* Walk the members of an object, or the elements of an array, whose text has been scanned. */
struct rpc_walk { const char *p, *end; };
void rpc_walk_start(struct rpc_walk *w, struct jx_span container);
/* name is unescaped and cut at size - 1 bytes; false: no more. */
bool rpc_walk_member(struct rpc_walk *w, char *name, size_t size, struct jx_span *ret_value);
bool rpc_walk_element(struct rpc_walk *w, struct jx_span *ret_value);

/* The text of a raw JSON string, unescaped, with NUL, cut at size - 1 bytes (never inside a character).
 * False when it is no string; *ret_len (may be NULL) counts embedded U+0000 too. */
bool rpc_string(struct jx_span raw, char *ret, size_t size, size_t *ret_len);
bool rpc_is(struct jx_span raw, char first);            /* first byte: '{' object, '[' array, '"' string */
bool rpc_is_null(struct jx_span raw);
/* A string or an integer within RPC_ID_MAX (MCP J-02, P-01). */
bool rpc_is_id(struct jx_span raw);

#endif
