#ifndef WORKER_SERVE_H
#define WORKER_SERVE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The worker's side, in the process toolcrib-worker alone: a table of what it can do, and its life. */

struct str;

/* One request.  out is bounded; when it has failed, so has the request.  Bounds of memory hold for the whole process,
 * which dies beyond them where the body does not notice; until_us is when it is killed. */
struct worker_run {
	const char *p; size_t len;
	uint64_t until_us;              /* monotonic */
	uint64_t memory;                /* bytes */
	struct str *out;
};
struct worker_work {
	const char *name;
	int (*body)(const struct worker_run *run, struct err *err);
};
/* Confine this process, serve requests from descriptor 0 until it ends.  Returns the exit status of the program. */
int worker_serve(const struct worker_work *table, size_t n);

#endif
