#ifndef EXEC_EXEC_H
#define EXEC_EXEC_H

#include "backend/backend.h"

/* exec: a call is a process of a program, confined (exec/sandbox.h), that reads the call on its stdin and answers on its
 * stdout; or one process serves several calls, one after the other.  Loop thread. */

extern const struct backend_ops handler_exec;

/* Processes of tools that are kept between calls.  Free when no run is open and the loop's children are dead. */
struct exec_workers *exec_workers_new(struct ev_loop *loop);
void exec_workers_free(struct exec_workers **w);

#endif
