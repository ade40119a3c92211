/*
 * The confinement of what a call starts (SEC S-510, S-511): settled before its begin record, which names the level.  Where
 * it is less than the machine has, because the definition asks for the network, the tenant's log says so once for each
 * definition as long as the process lives.
 */

#include "config.h"

#include <string.h>

#include "base/log.h"
#include "base/map.h"
#include "call_int.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#define DEGRADED_MAX 4096               /* definitions that are remembered; then all are said again */

struct degraded_key { int64_t tenant_id; uint8_t tdef[32]; };

struct backend_env call_backend_env(const struct call_engine *eng)
{
	return (struct backend_env){ .loop = eng->env.loop, .secrets = eng->env.secrets, .store = eng->env.store,
				     .fetcher = eng->env.fetcher, .upstreams = eng->env.upstreams, .cage = eng->env.cage,
				     .workers = eng->env.workers };
}

void call_cage_init(struct call_engine *eng)
{
	eng->degraded = map_new();
}

void call_cage_fini(struct call_engine *eng)
{
	map_free(&eng->degraded);
}

int call_check_cage(struct call *c, struct err *err)
{
	const struct backend_env env = call_backend_env(c->eng);

	if (!c->ops->cage)
		return 0;
	c->ops->cage(&env, c->plan, &c->cage);
	c->caged = *c->cage.level != '\0';
	if (!c->caged)
		return 0;
	const struct tenant *tenant = tenant_by_id(c->eng->env.tenants, c->who->tenant_id);
	if (tenant && *tenant->sandbox)
		backend_cage_require(&c->cage, tenant->sandbox);
	return backend_cage_check(&c->cage, err);
}

int call_note_cage(struct call *c)
{
	struct degraded_key key = { .tenant_id = c->who->tenant_id };
	struct audit_event ev;

	if (!c->caged || strcmp(c->cage.level, c->cage.best) == 0)
		return 0;
	memcpy(key.tdef, c->tool->def->digest, sizeof key.tdef);
	if (map_get(c->eng->degraded, &key, sizeof key))
		return 0;
	if (map_count(c->eng->degraded) >= DEGRADED_MAX) {
		call_cage_fini(c->eng);
		call_cage_init(c->eng);
	}
	(void)map_set(c->eng->degraded, &key, sizeof key, c->eng); /* any value: it is a set */
	log_warn(NULL, "tool is confined less than it could be tool=%s level=%s best=%s", c->tool->full_name, c->cage.level,
		 c->cage.best);
	audit_event_init(&ev, AUDIT_SANDBOX_DEGRADED, c->who->tenant_id);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.tool = c->tool->full_name;
	ev.tdef = c->tool->def->digest;
	ev.sbox = c->cage.level;
	ev.detail = c->cage.best;
	return writer_audit(c->eng->env.writer, &ev, NULL, NULL);
}
