/* What a credential has opened ends with it (SEC S-306).  Channels, notice streams and listens have a timer each for the
 * moment at which time alone ends their credential: then no message comes that would ask, and no command puts them out. */

#include "config.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "ev/ev.h"
#include "tenant/tenant.h"

#include "method_int.h"

/* Timers go by another clock than credentials do, and the two drift apart: look again after so long at the latest. */
#define LOOK_AGAIN_US (60ull * 60 * 1000 * 1000)

bool lease_over(const struct mcp_server *srv, const struct principal *who)
{
	return principal_check(srv->env.tenants, who, NULL) < 0;
}

void lease_look(struct mcp_server *srv, const struct principal *who, struct ev_timer **lease,
		void (*look)(void *arg), void *arg)
{
	uint64_t until = principal_until(srv->env.tenants, who), now = clock_wall_us(), left = 0;

	if (!lease_over(srv, who)) {
		if (until == 0) {
			ev_timer_free(lease);
			return;
		}
		left = until > now ? until - now : 0;
	}
	if (!*lease)
		*lease = ev_timer_new(srv->env.loop, look, arg);
	ev_timer_start(*lease, left < LOOK_AGAIN_US ? left : LOOK_AGAIN_US);
}

static void recheck(const struct mcp_tenant *t)
{
	LIST_FOREACH(n, &t->channels)
		channel_look(CONTAINER_OF(n, struct mcp_channel, link));
	LIST_FOREACH(n, &t->sessions)
		session_look(CONTAINER_OF(n, struct mcp_session, link));
	LIST_FOREACH(n, &t->listens)
		listen_look(CONTAINER_OF(n, struct mcp_req, listen_link));
}

void mcp_recheck(struct mcp_server *srv, int64_t tenant_id)
{
	const void *key;
	void *value;
	size_t len;

	for (size_t it = 0; map_next(srv->tenants, &it, &key, &len, &value);) {
		const struct mcp_tenant *t = value;

		if (!tenant_id || t->id == tenant_id)
			recheck(t);
	}
}
