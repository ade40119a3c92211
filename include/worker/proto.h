#ifndef WORKER_PROTO_H
#define WORKER_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* What the server and a worker say to each other over one socket: the worker that it is ready, then requests and
 * answers in turn; each a length of 4 bytes, big-endian, and a message.  A worker runs texts of strangers, so that the
 * server treats what it reads as hostile: a decoder takes nothing that an encoder does not write. */

struct str;

#define WORKER_HEAD_SIZE 4              /* of the length */
#define WORKER_REQUEST_MAX (12u << 20)  /* bytes of a request: a message of a client and what belongs to it */
#define WORKER_ANSWER_MAX (17u << 20)   /* bytes of an answer: the largest result of a tool and what belongs to it */
#define WORKER_MSG_MORE 512             /* bytes of a message beside those of an answer */
#define WORKER_NAME_SIZE 16             /* of work, with its NUL */

enum worker_op {
	WORKER_READY = 1,               /* it is confined and waits */
	WORKER_RUN,                     /* name, times and bounds, bytes */
	WORKER_DONE,                    /* last, bytes */
	WORKER_FAILED,                  /* last, what failed */
	WORKER_OP_COUNT
};

struct worker_msg {
	uint8_t op;
	bool last;                      /* the worker ends behind this message */
	char name[WORKER_NAME_SIZE];    /* of the work (worker/serve.h) */
	uint64_t time_us;               /* from now on */
	uint64_t brisk_us;              /* of processor time at the usual priority */
	uint64_t memory, answer_max;    /* bytes */
	const char *p; size_t len;      /* borrowed */
	struct err err;                 /* code, where and msg alone */
};

/* Appends length and message. */
void worker_msg_encode(const struct worker_msg *m, struct str *out);
/* A message without its length; ret->p points into p.  ERR_INVALID. */
int worker_msg_decode(const void *p, size_t len, struct worker_msg *ret) MUST_CHECK;
/* The length that stands at the front of p, of which there are at least WORKER_HEAD_SIZE bytes. */
size_t worker_msg_length(const void *p);

/* --- what messages are made of, for the bytes of a request as well */

void worker_put(struct str *out, uint64_t v, unsigned bytes);                   /* big-endian */
void worker_put_bytes(struct str *out, const void *p, size_t len);              /* behind their length of 4 bytes */
/* Reading: after the first thing that is missing everything is. */
struct worker_cursor { const char *p; size_t len; bool failed; };
uint64_t worker_take(struct worker_cursor *c, unsigned bytes);
const char *worker_take_bytes(struct worker_cursor *c, size_t *ret_len);        /* borrowed; "" when it has failed */

#endif
