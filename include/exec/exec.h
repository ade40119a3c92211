#ifndef EXEC_EXEC_H
#define EXEC_EXEC_H

#include "backend/backend.h"

/* exec: a call is a process of a program, confined (exec/sandbox.h), that reads the call on its stdin and answers on
 * its stdout; or one process serves several calls of a tenant, one after the other (`reuse`).
 *
 * Life.  A run takes a process that waits, or starts one by toolcrib-run; its output is read as text, JSON or the lines
 * of the child contract (contract.c).  The end of the process is the end of the run; a process that is kept goes back
 * to struct exec_workers instead, which the server has one of, made before the first call and freed when the children
 * are dead.  Loop thread, but for bind(). */

extern const struct backend_ops handler_exec;

/* Processes of tools that are kept between calls.  Free when no run is open and the loop's children are dead. */
struct exec_workers *exec_workers_new(struct ev_loop *loop);
void exec_workers_free(struct exec_workers **w);

#endif
