/* Hearing of it when what a resource gives is another. */

#include "config.h"

#include "backend/backend.h"
#include "call_int.h"
#include "tenant/tenant.h"

int call_watch(struct call_engine *eng, struct reg_def *def, int64_t tenant_id, const json_t *args, backend_changed_fn *fn,
	       void *arg, struct backend_watch **ret, struct err *err)
{
	const struct tenant *tenant = tenant_by_id(eng->env.tenants, tenant_id);
	const struct backend_env env = call_backend_env(eng);
	const struct reg_compiled *compiled;

	if (!tenant || reg_compile(eng->env.registry, def, &compiled, NULL) < 0 || !compiled->ops->watch)
		return 0;
	return compiled->ops->watch(&env, &(struct backend_watch_req){ .plan = compiled->plan, .args = args,
				    .tenant_id = tenant_id, .tenant = tenant->name, .fn = fn, .arg = arg }, ret, err);
}
