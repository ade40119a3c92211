/* The table of handlers: what a definition's `type` may be.  The registry and the commands get it as a function when
 * they are made; it is constant, any thread reads it.  A new handler is a line here. */
#include "config.h"

#include <stddef.h>

#include "app/handlers.h"
#include "backend/backend.h"
#include "exec/exec.h"
#include "handlers/handlers.h"
#include "upstream/upstream.h"

static const struct backend_ops *const handler_table[] = {
	&handler_static, &handler_builtin, &handler_exec, &handler_http, &handler_sql, &handler_mcp, NULL,
};

int handlers_bind(const json_t *handler, struct arena *mem, const struct backend_ops **ret_ops, const void **ret_plan,
		  struct err *err)
{
	return backend_bind(handler_table, handler, mem, ret_ops, ret_plan, err);
}
