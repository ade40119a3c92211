#ifndef EV_HELPER_H
#define EV_HELPER_H

#include "base/err.h"
#include "launcher/launcher.h"

#include <stdint.h>

struct ev_loop;
struct ev_helper;

/* A program of this package that serves this process over a socket on its descriptor 0 and ends when that is closed.
 * It is part of the server, not a tool: no sandbox of ours; it inherits standard error and nothing else.  Loop thread.
 *
 * args: behind its name.  ret_fd: our end, which blocks; the caller's to close; it ends at once when the program cannot
 * be started.  ERR_UNREACHABLE when the launcher is missing. */
int ev_helper_start(struct ev_loop *loop, enum launcher_row row, const char *const args[], int *ret_fd,
		    struct ev_helper **ret, struct err *err) MUST_CHECK;
/* After our end was closed: wait until it is gone, at most so long, then kill it. */
void ev_helper_end(struct ev_helper **h, uint32_t wait_ms);
/* Kill it now, and wait for nothing. */
void ev_helper_kill(struct ev_helper **h);

#endif
