#ifndef PROTO_TRACE_H
#define PROTO_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of which trace a request is: W3C Trace Context in the words of its version 00 (MCP section 20). */

#define TRACE_PARENT_LEN 55
#define TRACE_STATE_MAX 512             /* bytes; a longer one is dropped */

struct trace {
	uint8_t id[16];
	char parent[TRACE_PARENT_LEN + 1];      /* traceparent */
	char state[TRACE_STATE_MAX + 1];        /* tracestate; "" = none */
};

/* False: parent is none, and so there is no trace (MCP W-03).  A state that is none is dropped alone; p NULL =
 * absent. */
bool trace_parse(struct trace *ret, const char *parent, size_t parent_len, const char *state, size_t state_len);

#endif
