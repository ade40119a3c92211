#ifndef APP_HANDLERS_H
#define APP_HANDLERS_H

#include <jansson.h>

#include "base/err.h"

/* All handlers that a definition may name by its member `type`: the one list of them. */

struct arena;
struct backend_ops;

/* Compile a handler block by the handler that its type names; a reg_bind_fn (registry/registry.h).  Any thread. */
int handlers_bind(const json_t *handler, struct arena *mem, const struct backend_ops **ret_ops, const void **ret_plan,
		  struct err *err) MUST_CHECK;

#endif
