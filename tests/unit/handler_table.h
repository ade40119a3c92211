#ifndef TESTS_HANDLER_TABLE_H
#define TESTS_HANDLER_TABLE_H

#include "backend/backend.h"
#include "exec/exec.h"
#include "handlers/handlers.h"
#include "upstream/upstream.h"

/* The handlers of the server, as app/handlers.c lists them: for tests that do not link what lies above the handlers. */

static const struct backend_ops *const handler_table[] = { &handler_static, &handler_builtin, &handler_exec, &handler_http, &handler_sql, &handler_mcp, NULL };

static inline int bind_handler(const json_t *handler, struct arena *mem, const struct backend_ops **ret_ops,
			       const void **ret_plan, struct err *err)
{
	return backend_bind(handler_table, handler, mem, ret_ops, ret_plan, err);
}

#endif
