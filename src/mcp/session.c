/* Sessions of legacy HTTP: in memory, bounded per tenant, unknown after a restart (MCP B-09).  An id proves
 * nothing: it is looked up together with the principal (MCP Z-01, Z-02). */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "call/call.h"
#include "ev/ev.h"
#include "metrics/metric.h"
#include "tenant/tenant.h"

#include "method_int.h"

enum { EXPIRY_EVERY_US = 60 * 1000 * 1000 };

int mcp_session_find(struct mcp_server *srv, const char *id, const struct principal *who, struct mcp_session **ret,
		     struct err *err)
{
	struct mcp_session *s = map_get_z(srv->sessions, id);

	if (!s || s->who->tenant_id != who->tenant_id || s->who->principal_id != who->principal_id)
		return err_set(err, ERR_NOT_FOUND, "", "session not found");
	*ret = s;
	return 0;
}

static bool is_idle(const struct mcp_session *s)
{
	return !s->ops && list_empty(&s->exchanges);
}

/* Room for one more of a tenant: the one that has been idle longest makes place.  Some clients open a session
 * for each call and never end one. */
static bool make_room(struct mcp_tenant *t)
{
	struct mcp_session *oldest = NULL;

	if (t->nsessions < MCP_SESSIONS_MAX)
		return true;
	LIST_FOREACH(n, &t->sessions) {
		struct mcp_session *s = CONTAINER_OF(n, struct mcp_session, link);

		if (is_idle(s) && (!oldest || s->used_us < oldest->used_us))
			oldest = s;
	}
	if (!oldest)
		return false;
	session_end(oldest);
	return true;
}

struct mcp_session *session_new(struct mcp_exchange *x, struct rpc_error *e)
{
	struct mcp_server *srv = x->srv;
	struct mcp_tenant *t = mcp_tenant_get(srv, x->who->tenant_id);
	struct mcp_session *s;

	if (!make_room(t) || call_hold_stream(srv->env.calls, x->who->tenant_id, NULL) < 0) {
		met_inc(MET_sessions_refused);
		rpc_error_init(e, FAULT_BUSY, "Too many sessions are open");
		return NULL;
	}
	s = mem_zalloc(sizeof *s);
	memory_init(&s->memory);
	s->srv = srv;
	id_random_text(s->id, MCP_SESSION_ID_LEN);
	s->who = x->who;
	principal_ref(s->who);
	list_init(&s->exchanges);
	list_init(&s->link);
	list_init(&s->idle_link);
	list_push_back(&t->sessions, &s->link);
	t->nsessions++;
	map_set_z(srv->sessions, s->id, s);
	s->serial = ++srv->serial;
	s->since_us = clock_wall_us();
	session_touch(s);
	met_inc(MET_sessions_open);
	if (!ev_timer_armed(srv->expiry))
		ev_timer_start(srv->expiry, EXPIRY_EVERY_US);
	return s;
}

void session_touch(struct mcp_session *s)
{
	s->last_us = clock_wall_us();
	s->used_us = ev_now_us(s->srv->env.loop);
	list_unlink(&s->idle_link);
	list_push_back(&s->srv->idle, &s->idle_link);
}

static void unlist(struct mcp_session *s)
{
	map_del_z(s->srv->sessions, s->id);
	call_drop_stream(s->srv->env.calls, s->who->tenant_id);
	mcp_tenant_get(s->srv, s->who->tenant_id)->nsessions--;
	list_unlink(&s->link);
	list_unlink(&s->idle_link);
}

static void stream_forget(struct mcp_session *s)
{
	s->ops = NULL;
	s->peer = NULL;
	principal_unref(&s->stream_who);
	ev_timer_free(&s->lease);
	met_dec(MET_listens_open);
}

static void stream_end(struct mcp_session *s)
{
	s->ops->hang_up(s->peer);
	stream_forget(s);
}

static void session_free(struct mcp_session *s)
{
	if (s->ops)
		stream_end(s);
	memory_fini(&s->memory);
	principal_unref(&s->who);
	met_dec(MET_sessions_open);
	free(s);
}

void session_put_out(struct mcp_session *s)
{
	unlist(s);
	LIST_FOREACH_SAFE(n, tmp, &s->exchanges) {
		struct mcp_exchange *x = CONTAINER_OF(n, struct mcp_exchange, link);

		exchange_pin(x);
		exchange_leave_session(x);
		exchange_unpin(x);
	}
	session_free(s);
}

void session_end(struct mcp_session *s)
{
	struct mcp_server *srv = s->srv;

	unlist(s);
	LIST_FOREACH_SAFE(n, tmp, &s->exchanges) {
		struct mcp_exchange *x = CONTAINER_OF(n, struct mcp_exchange, link);

		/* Its answers end empty: the caller has ended the session they belong to. */
		exchange_pin(x);
		for (size_t i = 0; i < x->nreq; i++)
			if (x->req[i].open)
				req_cancel(&x->req[i]);
		x->session = NULL;
		list_unlink(&x->link);
		if (!x->closed)
			list_push_back(&srv->exchanges, &x->link);
		exchange_unpin(x);
	}
	session_free(s);
}

void mcp_session_end(struct mcp_session **s)
{
	session_end(*s);
	*s = NULL;
}

void session_expire(void *arg)
{
	struct mcp_server *srv = arg;
	uint64_t now = ev_now_us(srv->env.loop);

	LIST_FOREACH_SAFE(n, tmp, &srv->idle) {
		struct mcp_session *s = CONTAINER_OF(n, struct mcp_session, idle_link);

		if (now - s->used_us < (uint64_t)MCP_SESSION_IDLE_MS * 1000)
			break;
		if (is_idle(s))
			session_end(s);
	}
	if (!list_empty(&srv->idle))
		ev_timer_start(srv->expiry, EXPIRY_EVERY_US);
}

/* The session stays: its client goes on with a fresh credential. */
static void lease_ended(void *arg)
{
	struct mcp_session *s = arg;

	if (lease_over(s->srv, s->stream_who)) {
		stream_end(s);
		session_touch(s);
	} else {
		session_look(s);
	}
}

void session_look(struct mcp_session *s)
{
	if (s->ops)
		lease_look(s->srv, s->stream_who, &s->lease, lease_ended, s);
}

void mcp_session_stream(struct mcp_session *s, const struct mcp_push_ops *ops, void *peer, struct principal *who)
{
	if (s->ops)
		stream_end(s);
	met_inc(MET_listens_open);
	s->ops = ops;
	s->peer = peer;
	s->stream_who = who;
	principal_ref(who);
	session_look(s);
	session_touch(s);
	notify_missed(&s->memory, s->srv, s->who, ops, peer);
}

void mcp_session_stream_gone(struct mcp_server *srv, const char *id, void *peer)
{
	struct mcp_session *s = map_get_z(srv->sessions, id);

	if (!s || !s->ops || s->peer != peer)
		return;
	stream_forget(s);
	session_touch(s);
}
