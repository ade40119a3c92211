#ifndef UPSTREAM_FAR_INT_H
#define UPSTREAM_FAR_INT_H

#include "link_int.h"

/* far.c: a task of an upstream, followed until it ends or asks (TK-60 to TK-64).  It is asked for again and again, over
 * whatever link there is then; a server that cannot be reached is asked later.  Loop thread. */

#define FAR_ID_MAX 1024                 /* bytes of an id there */
#define FAR_POLL_MIN_MS 250
#define FAR_POLL_MAX_MS 60000
#define FAR_POLL_MS 1000                /* of a server that says nothing */

struct far;
struct far_sink {
	void (*note)(void *arg, const char *text);      /* what it is doing */
	/* One of these, once and last, from the loop; free it then. */
	void (*ask)(void *arg, json_t *requests);       /* taken */
	void (*result)(void *arg, json_t *result);      /* an object, borrowed: what the call would have been answered */
	void (*error)(void *arg, int code, const char *message, json_t *data);  /* data is taken, may be NULL */
};
struct far_of {                         /* texts are copied */
	struct ev_loop *loop;
	struct upstreams *all;
	const char *upstream;
	struct upstream_caller who;
	const char *id;
	uint32_t caps;                  /* what the caller can be asked */
	size_t result_max;
	json_t *answers;                /* to be told it first, or NULL; counted */
};
struct far *far_new(const struct far_of *of, const struct far_sink *sink, void *arg) MUST_CHECK;
const char *far_id(const struct far *f);
void far_free(struct far **f);
/* It may end; nobody waits for that. */
void far_leave(const struct far_of *of, bool recorded);

#endif
