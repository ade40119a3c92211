/* All peers of the server at once: views, forced ends, the stop. */

#include "config.h"

#include "mcp/mcp.h"

#include "audit/audit.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "tenant/tenant.h"

#include "method_int.h"

static bool matches(const struct principal *who, int64_t cred_id)
{
	return cred_id == 0 || who->cred_id == cred_id;
}

static void end_listens(struct mcp_tenant *t, int64_t cred_id)
{
	LIST_FOREACH_SAFE(n, tmp, &t->listens) {
		struct mcp_req *req = CONTAINER_OF(n, struct mcp_req, listen_link);

		if (matches(req->x->who, cred_id))
			listen_end(req);
	}
}

void mcp_end_matching(struct mcp_server *srv, int64_t tenant_id, int64_t cred_id)
{
	struct mcp_tenant *t = map_get_u64(srv->tenants, (uint64_t)tenant_id);

	if (!t)
		return;
	end_listens(t, cred_id);
	LIST_FOREACH_SAFE(n, tmp, &t->sessions) {
		struct mcp_session *s = CONTAINER_OF(n, struct mcp_session, link);

		if (matches(s->who, cred_id))
			session_end(s);
	}
	LIST_FOREACH_SAFE(n, tmp, &t->channels) {
		struct mcp_channel *ch = CONTAINER_OF(n, struct mcp_channel, link);

		if (matches(ch->who, cred_id))
			ch->ops->hang_up(ch->peer);
	}
}

void mcp_drain(struct mcp_server *srv, uint32_t drain_ms)
{
	const void *key;
	void *value;
	size_t len;

	for (size_t it = 0; map_next(srv->tenants, &it, &key, &len, &value);) {
		struct mcp_tenant *t = value;

		end_listens(t, 0);
		LIST_FOREACH_SAFE(n, tmp, &t->sessions) {
			struct mcp_session *s = CONTAINER_OF(n, struct mcp_session, link);

			if (s->ops)
				s->ops->hang_up(s->peer);
		}
		LIST_FOREACH_SAFE(n, tmp, &t->channels)
			mcp_channel_eof(CONTAINER_OF(n, struct mcp_channel, link), drain_ms);
	}
}

static void set_who(struct mcp_peer_view *v, const struct principal *who)
{
	v->tenant = who->tenant;
	v->principal = who->name;
	v->accessor = who->accessor;
}

static void set_memory(struct mcp_peer_view *v, const struct mcp_memory *m)
{
	v->rev = m->state == LEGACY_NONE ? "" : rev_table[m->rev].text;
	v->client = m->client;
}

/* Listens and running requests of a list of exchanges. */
static void count(struct mcp_peer_view *v, const struct list *exchanges)
{
	LIST_FOREACH(n, exchanges) {
		const struct mcp_exchange *x = CONTAINER_OF(n, struct mcp_exchange, link);

		for (size_t i = 0; i < x->nreq; i++) {
			if (!list_empty(&x->req[i].listen_link))
				v->listens++;
			else if (x->req[i].open)
				v->running++;
		}
	}
}

static void view_channels(const struct mcp_tenant *t, mcp_peer_fn *fn, void *arg)
{
	LIST_FOREACH(n, &t->channels) {
		const struct mcp_channel *ch = CONTAINER_OF(n, struct mcp_channel, link);
		struct mcp_peer_view v = { .kind = ch->tport == AUDIT_HTTP ? "http-sse" : audit_tport_name(ch->tport),
					   .since_us = ch->since_us, .last_us = ch->last_us };

		set_who(&v, ch->who);
		set_memory(&v, &ch->memory);
		count(&v, &ch->exchanges);
		v.listening = ch->memory.state == LEGACY_READY || v.listens;
		fn(arg, &v);
	}
}

static void view_sessions(const struct mcp_tenant *t, mcp_peer_fn *fn, void *arg)
{
	LIST_FOREACH(n, &t->sessions) {
		const struct mcp_session *s = CONTAINER_OF(n, struct mcp_session, link);
		struct mcp_peer_view v = { .kind = "http-session", .since_us = s->since_us, .last_us = s->last_us,
					   .listening = s->ops != NULL };

		set_who(&v, s->who);
		set_memory(&v, &s->memory);
		count(&v, &s->exchanges);
		fn(arg, &v);
	}
}

static void view_listens(const struct mcp_tenant *t, mcp_peer_fn *fn, void *arg)
{
	LIST_FOREACH(n, &t->listens) {
		const struct mcp_req *req = CONTAINER_OF(n, struct mcp_req, listen_link);
		struct mcp_peer_view v = { .kind = "http-listen", .rev = rev_table[req->rev].text,
					   .client = req->label ? req->label : "", .since_us = req->since_us,
					   .last_us = req->since_us, .listens = 1, .listening = true };

		if (!req->x->http)
			continue;       /* counted with its channel */
		set_who(&v, req->x->who);
		fn(arg, &v);
	}
}

void mcp_peers(const struct mcp_server *srv, int64_t tenant_id, mcp_peer_fn *fn, void *arg)
{
	const void *key;
	void *value;
	size_t len;

	for (size_t it = 0; map_next(srv->tenants, &it, &key, &len, &value);) {
		const struct mcp_tenant *t = value;

		if (tenant_id && t->id != tenant_id)
			continue;
		view_channels(t, fn, arg);
		view_sessions(t, fn, arg);
		view_listens(t, fn, arg);
	}
}
