/* Calls that may not go on, by whom they concern: a key that was revoked, a tool that was disabled, the end of the
 * server.  Commands and the rooms above ask; loop thread. */

#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "tenant/tenant.h"

#include "task_call_int.h"

/* Would a cancel still make a difference? */
static bool is_running(const struct call *c)
{
	if (c->cancelled)
		return false;
	return c->state == CALL_QUEUED || c->state == CALL_DECIDING || c->state == CALL_HELD ||
	       c->state == CALL_AUDIT_BEGIN || c->state == CALL_RUN ||
	       c->state == CALL_ASKING;
}

static bool concerns(const struct call_where *w, const struct call *c)
{
	return (!w->tenant_id || c->who->tenant_id == w->tenant_id) &&
		(!w->principal_id || c->who->principal_id == w->principal_id) &&
		(!w->cred_id || c->who->cred_id == w->cred_id) &&
		(!w->tool || (c->tool && strcmp(c->tool->full_name, w->tool) == 0));
}

size_t call_cancel_where(struct call_engine *eng, const struct call_where *where, enum cancel_why why)
{
	size_t n = 0;

	/* An end is never reported from here, so no call leaves the list. */
	LIST_FOREACH(link, &eng->calls) {
		struct call *c = CONTAINER_OF(link, struct call, all);

		if (!concerns(where, c) || !is_running(c))
			continue;
		call_cancel(c, why);
		n++;
	}
	if (eng->env.also)
		n += eng->env.also(eng->env.also_arg, where, why);
	return n + (why == CANCEL_SHUTDOWN ? 0 : call_task_cancel_where(eng, where));
}

void call_engine_put_off(struct call_engine *eng)
{
	eng->stopping = true;
	LIST_FOREACH(link, &eng->calls) {
		struct call *c = CONTAINER_OF(link, struct call, all);

		if (c->task && c->far && is_running(c))
			call_cancel(c, CANCEL_SHUTDOWN);
	}
}

/* --- calls that stay when the store goes (OP-903) */

static bool stays(const struct call *c)
{
	return c->begun && !c->cancelled && !c->task && !c->promoting && (c->state == CALL_RUN || c->state == CALL_ASKING);
}

void call_engine_stay(struct call_engine *eng)
{
	LIST_FOREACH(link, &eng->calls) {
		struct call *c = CONTAINER_OF(link, struct call, all);

		c->may_task &= c->promoting;
	}
}

size_t call_engine_staying(const struct call_engine *eng, call_staying_fn *fn, void *arg)
{
	size_t n = 0;

	LIST_FOREACH(link, &eng->calls) {
		const struct call *c = CONTAINER_OF(link, struct call, all);

		if (!stays(c))
			continue;
		n++;
		if (fn)
			fn(arg, c->id, clock_wall_us() - (clock_mono_us() - c->start_us), c->who);
	}
	return n;
}

void call_engine_cancel_others(struct call_engine *eng)
{
	eng->stopping = true;
	LIST_FOREACH(link, &eng->calls) {
		struct call *c = CONTAINER_OF(link, struct call, all);

		if (is_running(c) && !stays(c))
			call_cancel(c, CANCEL_SHUTDOWN);
	}
}

void call_engine_cancel_all(struct call_engine *eng, enum cancel_why why)
{
	eng->stopping = true;
	(void)call_cancel_where(eng, &(struct call_where){ 0 }, why);
}
