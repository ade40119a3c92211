#ifndef TESTS_HTTP_PEER_H
#define TESTS_HTTP_PEER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/map.h"
#include "base/text.h"

/* A server of HTTP on the test's own loop, which answers each whole request with the bytes it was told, right or wrong. */

struct ev_loop;
struct listener;
struct stream;

struct peer {
	struct ev_loop *loop;
	struct listener *listener;
	unsigned port;
	const char *answer; size_t answer_len;  /* NULL = silence */
	bool keep;                              /* the connection stays open behind the answer */
	void (*choose)(struct peer *p);         /* before an answer, with the request in seen; may call peer_says() */
	unsigned connections, requests;
	struct str seen;                        /* the last request */
	struct stream *last;                    /* the last connection, while it lives */
	struct list conns;
};

void peer_open(struct peer *p, struct ev_loop *loop, const char *address);
void peer_close(struct peer *p);
void peer_says(struct peer *p, const char *answer, bool keep);  /* borrowed */

#endif
