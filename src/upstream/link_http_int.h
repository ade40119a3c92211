#ifndef UPSTREAM_LINK_HTTP_INT_H
#define UPSTREAM_LINK_HTTP_INT_H

#include "link_int.h"

/* Wires over HTTP: Streamable HTTP of both eras, and HTTP+SSE of 2024-11-05; and the events that both carry. */

#define LINK_EXCHANGES_MAX 64             /* requests of one link under way */

struct link_sse {
	struct str line, data;
	char event[32];
	bool has_data, cr;
};
/* data is borrowed.  False: stop, the reader may be gone. */
typedef bool link_sse_fn(void *arg, const char *event, const char *data, size_t len);
FOR_TESTS void link_sse_init(struct link_sse *s);
FOR_TESTS void link_sse_fini(struct link_sse *s);
/* 0; 1: fn said stop; ERR_LIMIT: an event larger than a message. */
FOR_TESTS int link_sse_feed(struct link_sse *s, const char *p, size_t len, link_sse_fn *fn, void *arg);

#endif
