#ifndef HANDLERS_HANDLERS_H
#define HANDLERS_HANDLERS_H

#include "backend/backend.h"

/* The handlers that need neither a process nor another MCP server:
 *
 *   static   content that the definition holds, with arguments inserted
 *   builtin  functions of the server itself
 *   http     a request to a web service
 *   sql      a statement that reads an SQLite file, on a thread of the pool
 *
 * Each is a row of backend/backend.h: bind() is pure, start() and cancel() are of the loop thread. */

extern const struct backend_ops handler_static, handler_builtin, handler_http, handler_sql;

#endif
