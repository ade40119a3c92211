#ifndef HANDLERS_HANDLERS_H
#define HANDLERS_HANDLERS_H

#include "backend/backend.h"

/* The handlers that need neither a process nor another MCP server:
 *
 *   static   content that the definition holds, with arguments inserted
 *   builtin  functions of the server itself
 *   http     a request to a web service
 *   sql      a statement that reads an SQLite file, in a process of its own
 *
 * Each is a row of backend/backend.h: bind() is pure, start() and cancel() are of the loop thread. */

extern const struct backend_ops handler_static, handler_builtin, handler_http, handler_sql;

/* The part of sql that runs in a worker, a row of its table (worker/serve.h). */
#define SQL_WORK "sql"                  /* the name of the work */
struct worker_run;
int sql_work(const struct worker_run *r, struct err *err);

#endif
