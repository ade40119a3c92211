/* All peers of the server at once: views, forced ends, the stop. */

#include "config.h"

#include "mcp/mcp.h"

#include "audit/audit.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "call/call.h"
#include "tenant/tenant.h"

#include "method_int.h"

static bool concerns(const struct call_where *w, const struct principal *who)
{
	return (!w->principal_id || who->principal_id == w->principal_id) && (!w->cred_id || who->cred_id == w->cred_id);
}

/* How many of them are peers of their own. */
static size_t end_listens(struct mcp_tenant *t, const struct call_where *where)
{
	size_t n = 0;

	LIST_FOREACH_SAFE(link, tmp, &t->listens) {
		struct mcp_req *req = CONTAINER_OF(link, struct mcp_req, listen_link);

		if (!concerns(where, req->x->who))
			continue;
		n += req->x->http;
		listen_end(req);
	}
	return n;
}

void mcp_end_where(struct mcp_server *srv, const struct call_where *where, bool kill, struct mcp_ended *ret)
{
	struct mcp_tenant *t = map_get_u64(srv->tenants, (uint64_t)where->tenant_id);

	*ret = (struct mcp_ended){ 0 };
	if (kill)
		ret->calls = call_cancel_where(srv->env.calls, where, CANCEL_REVOKED);
	if (!t)
		return;
	ret->peers = end_listens(t, where);
	LIST_FOREACH_SAFE(n, tmp, &t->sessions) {
		struct mcp_session *s = CONTAINER_OF(n, struct mcp_session, link);

		if (!concerns(where, s->who))
			continue;
		session_put_out(s);
		ret->peers++;
	}
	LIST_FOREACH_SAFE(n, tmp, &t->channels) {
		struct mcp_channel *ch = CONTAINER_OF(n, struct mcp_channel, link);

		if (!concerns(where, ch->who) || ch->deaf)
			continue;
		channel_put_out(ch);
		ret->peers++;
	}
}

/* Does a request of it run that is no listen? */
static bool is_call(const struct mcp_exchange *x)
{
	for (size_t i = 0; i < x->nreq; i++)
		if (x->req[i].open && x->req[i].call)
			return true;
	return false;
}

/* Cancel what runs; how many calls that were. */
static size_t stop_exchange(const struct mcp_exchange *x)
{
	size_t n = 0;

	for (size_t i = 0; i < x->nreq; i++) {
		if (!x->req[i].open || !x->req[i].call)
			continue;
		call_cancel(x->req[i].call, CANCEL_STOPPED);
		n++;
	}
	return n;
}

static size_t stop_calls(const struct list *exchanges)
{
	size_t n = 0;

	LIST_FOREACH(link, exchanges)
		n += stop_exchange(CONTAINER_OF(link, struct mcp_exchange, link));
	return n;
}

static bool end_in_tenant(struct mcp_tenant *t, uint64_t id, struct mcp_ended *ret)
{
	LIST_FOREACH(n, &t->channels) {
		struct mcp_channel *ch = CONTAINER_OF(n, struct mcp_channel, link);

		if (ch->serial != id)
			continue;
		ret->calls = stop_calls(&ch->exchanges);
		channel_put_out(ch);
		return true;
	}
	LIST_FOREACH(n, &t->sessions) {
		struct mcp_session *s = CONTAINER_OF(n, struct mcp_session, link);

		if (s->serial != id)
			continue;
		ret->calls = stop_calls(&s->exchanges);
		session_put_out(s);
		return true;
	}
	LIST_FOREACH(n, &t->listens) {
		struct mcp_req *req = CONTAINER_OF(n, struct mcp_req, listen_link);

		if (!req->x->http || req->x->serial != id)
			continue;
		listen_end(req);
		return true;
	}
	return false;
}

bool mcp_end_peer(struct mcp_server *srv, int64_t tenant_id, uint64_t id, struct mcp_ended *ret)
{
	const void *key;
	void *value;
	size_t len;

	*ret = (struct mcp_ended){ .peers = 1 };
	for (size_t it = 0; map_next(srv->tenants, &it, &key, &len, &value);) {
		struct mcp_tenant *t = value;

		if ((!tenant_id || t->id == tenant_id) && end_in_tenant(t, id, ret))
			return true;
	}
	LIST_FOREACH(n, &srv->exchanges) {
		struct mcp_exchange *x = CONTAINER_OF(n, struct mcp_exchange, link);

		if (x->serial != id || (tenant_id && x->who->tenant_id != tenant_id) || !is_call(x))
			continue;
		ret->calls = stop_exchange(x);
		return true;
	}
	return false;
}

void mcp_drain(struct mcp_server *srv, uint32_t drain_ms)
{
	const void *key;
	void *value;
	size_t len;

	for (size_t it = 0; map_next(srv->tenants, &it, &key, &len, &value);) {
		struct mcp_tenant *t = value;

		(void)end_listens(t, &(struct call_where){ 0 });
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

static void count_exchange(struct mcp_peer_view *v, const struct mcp_exchange *x)
{
	for (size_t i = 0; i < x->nreq; i++) {
		if (!list_empty(&x->req[i].listen_link))
			v->listens++;
		else if (x->req[i].open)
			v->running++;
	}
}

static void count(struct mcp_peer_view *v, const struct list *exchanges)
{
	LIST_FOREACH(n, exchanges)
		count_exchange(v, CONTAINER_OF(n, struct mcp_exchange, link));
}

static void view_channels(const struct mcp_tenant *t, mcp_peer_fn *fn, void *arg)
{
	LIST_FOREACH(n, &t->channels) {
		const struct mcp_channel *ch = CONTAINER_OF(n, struct mcp_channel, link);
		struct mcp_peer_view v = { .id = ch->serial, .kind = ch->tport == AUDIT_HTTP ? "http-sse" : audit_tport_name(ch->tport),
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
		struct mcp_peer_view v = { .id = s->serial, .kind = "http-session", .since_us = s->since_us, .last_us = s->last_us,
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
		struct mcp_peer_view v = { .id = req->x->serial, .kind = "http-listen", .rev = rev_table[req->rev].text,
					   .client = req->label ? req->label : "", .since_us = req->since_us,
					   .last_us = req->since_us, .listens = 1, .listening = true };

		if (!req->x->http)
			continue;       /* counted with its channel */
		set_who(&v, req->x->who);
		fn(arg, &v);
	}
}

/* What neither a channel nor a session has, while it runs. */
static void view_calls(const struct mcp_server *srv, int64_t tenant_id, mcp_peer_fn *fn, void *arg)
{
	LIST_FOREACH(n, &srv->exchanges) {
		const struct mcp_exchange *x = CONTAINER_OF(n, struct mcp_exchange, link);
		struct mcp_peer_view v = { .id = x->serial, .kind = "http-call", .client = "", .since_us = x->since_us,
					   .last_us = x->since_us };

		if (!is_call(x) || (tenant_id && x->who->tenant_id != tenant_id))
			continue;
		set_who(&v, x->who);
		v.rev = rev_table[x->req[0].rev].text;
		count_exchange(&v, x);
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
	view_calls(srv, tenant_id, fn, arg);
}
