#ifndef UPSTREAM_LINK_HTTP_INT_H
#define UPSTREAM_LINK_HTTP_INT_H

#include "link_int.h"

/* Wires over HTTP: Streamable HTTP of both eras, and HTTP+SSE of 2024-11-05 (up_http.c); their events (up_sse.c). */

#define UP_EXCHANGES_MAX 64             /* requests of one link under way */

struct up_sse {
	struct str line, data;
	char event[32];
	bool has_data, cr;
};
/* data is borrowed.  False: stop, the reader may be gone. */
typedef bool up_sse_fn(void *arg, const char *event, const char *data, size_t len);
void up_sse_init(struct up_sse *s);
void up_sse_fini(struct up_sse *s);
/* 0; 1: fn said stop; ERR_LIMIT: an event larger than a message. */
int up_sse_feed(struct up_sse *s, const char *p, size_t len, up_sse_fn *fn, void *arg);

#endif
