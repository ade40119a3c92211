#ifndef EV_HELPER_H
#define EV_HELPER_H

#include "base/err.h"

#include <stdint.h>

struct ev_loop;
struct ev_helper;

/* A program of this package that serves this process over a socket on its descriptor 0 and ends when that is closed.
 *  It is part of the server, not a tool: no launcher, no sandbox; it inherits standard error and nothing else.  Loop
 * thread.
 *
 * ret_fd: our end, which blocks; the caller's to close.  ERR_UNREACHABLE when the program is missing (where = path). */
int ev_helper_start(struct ev_loop *loop, const char *path, const char *const argv[], int *ret_fd,
		    struct ev_helper **ret, struct err *err) MUST_CHECK;
/* After our end was closed: wait until it is gone, at most so long, then kill it. */
void ev_helper_end(struct ev_helper **h, uint32_t wait_ms);
/* Kill it now, and wait for nothing: it is reaped when it is dead. */
void ev_helper_kill(struct ev_helper **h);
/* Where a program of this package is: $VARIABLE (tests), beside the running program (build tree), else
 * LIBEXECDIR.  free() it. */
char *ev_helper_path(const char *name, const char *variable);

#endif
