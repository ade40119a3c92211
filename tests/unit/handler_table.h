#ifndef TESTS_HANDLER_TABLE_H
#define TESTS_HANDLER_TABLE_H

#include "backend/backend.h"
#include "exec/exec.h"
#include "handlers/handlers.h"
#include "upstream/upstream.h"

/* The handlers of the server, as app/handlers.c lists them: for tests that do not link what lies above the handlers. */

static const struct backend_ops *const handler_table[] = { &be_static, &be_builtin, &be_exec, &be_http, &be_sql, &be_mcp, NULL };

static inline int bind_handler(const json_t *handler, struct arena *mem, const struct backend_ops **ret_ops,
			       const void **ret_plan, struct err *err)
{
	return backend_bind(handler_table, handler, mem, ret_ops, ret_plan, err);
}

#endif
