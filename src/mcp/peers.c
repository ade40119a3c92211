/* The server and its peers: channels (byte streams), sessions (legacy HTTP), listens.  How they begin, how long their
 * credential lets them live, views of them, forced ends, the stop.  Called by the transports, by commands and by this
 * module, on the loop's thread.  A peer is in exactly one list of its tenant as long as it can be told of a change. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "call/call.h"
#include "ev/ev.h"
#include "mcp/mcp.h"
#include "registry/registry.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "mcp_int.h"

/* --- leases */

/* What a credential has opened ends with it (SEC S-306).  Channels, notice streams and listens have a timer each for
 * the moment at which time alone ends their credential: then no message comes that would ask, and no command puts
 * them out. */

/* Timers go by another clock than credentials do, and the two drift apart: look again after so long at the latest. */
#define LOOK_AGAIN_US (60ull * 60 * 1000 * 1000)

static bool lease_over(const struct mcp_server *srv, const struct principal *who)
{
	return principal_check(srv->env.tenants, who, NULL) < 0;
}

/* Set *lease for the moment at which the credential of who ends, now if it has ended; then look(arg) ends what was
 * opened, or looks again: a credential may live longer than it was to. */
static void lease_look(struct mcp_server *srv, const struct principal *who, struct ev_timer **lease,
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

/* --- channels: what a byte stream must remember, its end of input, its end */

static void memory_init(struct mcp_memory *m)
{
	m->rev = REV_SESSIONLESS;
	m->log_level = MCP_LOG_OFF;
	m->inflight = map_new();
	m->asks = map_new();
}

static void memory_fini(struct mcp_memory *m)
{
	map_free(&m->inflight);
	map_free(&m->asks);
	subs_fini(&m->subs);
}

bool client_read(struct jx_span raw, char ret[MCP_CLIENT_SIZE])
{
	char key[16], name[MCP_CLIENT_SIZE / 2] = "", version[MCP_CLIENT_SIZE / 2 - 1] = "";
	bool has_name = false, has_version = false;
	struct rpc_walk w;
	struct jx_span v;

	if (!rpc_is(raw, '{'))
		return false;
	rpc_walk_start(&w, raw);
	while (rpc_walk_member(&w, key, sizeof(key), &v)) {
		if (strcmp(key, "name") == 0)
			has_name = rpc_string(v, name, sizeof(name), NULL);
		else if (strcmp(key, "version") == 0)
			has_version = rpc_string(v, version, sizeof(version), NULL);
	}
	(void)snprintf(ret, MCP_CLIENT_SIZE, "%s/%s", name, version);
	return has_name && has_version;
}

const char *req_client(const struct mcp_req *req, const struct mcp_msg *msg, char buf[MCP_CLIENT_SIZE])
{
	if (msg->meta.client.p)
		return client_read(msg->meta.client, buf) ? buf : NULL;
	return req->memory && req->memory->client[0] ? req->memory->client : NULL;
}

static void drain_over(void *arg);
static void channel_look(struct mcp_channel *ch);

struct mcp_channel *mcp_channel_new(struct mcp_server *srv, const struct mcp_push_ops *ops, void *peer,
				    struct principal *who, int tport)
{
	struct mcp_channel *ch = mem_zalloc(sizeof(*ch));

	memory_init(&ch->memory);
	ch->srv = srv;
	ch->ops = ops;
	ch->peer = peer;
	ch->who = who;
	principal_ref(who);
	ch->tport = tport;
	list_init(&ch->link);
	list_push_back(&mcp_tenant_get(srv, who->tenant_id)->channels, &ch->link);
	list_init(&ch->exchanges);
	ch->over = call_hold_stream(srv->env.calls, who->tenant_id, NULL) < 0;
	ch->drain = ev_timer_new(srv->env.loop, drain_over, ch);
	ch->serial = ++srv->serial;
	ch->since_us = ch->last_us = clock_wall_us();
	channel_look(ch);
	return ch;
}

void mcp_channel_close(struct mcp_channel **pch)
{
	struct mcp_channel *ch = *pch;

	*pch = NULL;
	if (!ch)
		return;
	LIST_FOREACH_SAFE(n, tmp, &ch->exchanges)
		exchange_abandon(CONTAINER_OF(n, struct mcp_exchange, link), true);
	list_unlink(&ch->link);
	if (!ch->over)
		call_drop_stream(ch->srv->env.calls, ch->who->tenant_id);
	ev_timer_free(&ch->drain);
	ev_timer_free(&ch->lease);
	memory_fini(&ch->memory);
	principal_unref(&ch->who);
	free(ch);
}

size_t mcp_channel_busy(const struct mcp_channel *ch)
{
	return map_count(ch->memory.inflight);
}

/* The last answer after the end of input: hang up, once the current callback has returned. */
void channel_check_drained(struct mcp_channel *ch)
{
	if (!ch->eof || !list_empty(&ch->exchanges))
		return;
	ch->expired = true;
	ev_timer_start(ch->drain, 0);
}

/* MCP B-56: listens end, questions that nobody can answer any more too; calls get their time. */
static void end_of_input(struct mcp_exchange *x, bool all)
{
	exchange_pin(x);
	for (size_t i = 0; i < x->nreq; i++) {
		struct mcp_req *req = &x->req[i];

		if (req->open && !list_empty(&req->listen_link))
			listen_end(req);
		else if (req->open && req->call && (all || !list_empty(&req->asks)))
			call_cancel(req->call, CANCEL_SHUTDOWN);
	}
	exchange_unpin(x);
}

static void drain_over(void *arg)
{
	struct mcp_channel *ch = arg;

	if (list_empty(&ch->exchanges) || ch->expired) {
		ch->ops->hang_up(ch->peer);
		return;
	}
	ch->expired = true;
	LIST_FOREACH_SAFE(n, tmp, &ch->exchanges)
		end_of_input(CONTAINER_OF(n, struct mcp_exchange, link), true);
}

void mcp_channel_eof(struct mcp_channel *ch, uint32_t drain_ms)
{
	if (ch->eof)
		return;
	ch->eof = true;
	LIST_FOREACH_SAFE(n, tmp, &ch->exchanges)
		end_of_input(CONTAINER_OF(n, struct mcp_exchange, link), false);
	if (list_empty(&ch->exchanges))
		channel_check_drained(ch);
	else
		ev_timer_start(ch->drain, (uint64_t)drain_ms * 1000);
}

/* Longer than any call may take; cancelled ones end at once. */
#define PUT_OUT_MS (2u * 60 * 60 * 1000)

/* Read no more, hang up behind the last answer. */
static void channel_put_out(struct mcp_channel *ch)
{
	ch->deaf = true;
	ev_timer_free(&ch->lease);
	mcp_channel_eof(ch, PUT_OUT_MS);
}

static void lease_ended(void *arg)
{
	struct mcp_channel *ch = arg;

	if (lease_over(ch->srv, ch->who))
		channel_put_out(ch);
	else
		channel_look(ch);
}

static void channel_look(struct mcp_channel *ch)
{
	if (!ch->deaf)
		lease_look(ch->srv, ch->who, &ch->lease, lease_ended, ch);
}

/* --- sessions of legacy HTTP */

/* In memory, bounded per tenant, unknown after a restart (MCP B-09).  An id proves nothing: it is looked up together
 * with the principal (MCP Z-01, Z-02). */

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

size_t mcp_sessions(const struct mcp_server *srv, int64_t tenant_id)
{
	const struct mcp_tenant *t = map_get_u64(srv->tenants, (uint64_t)tenant_id);

	return t ? t->nsessions : 0;
}

static bool is_idle(const struct mcp_session *s)
{
	return !s->ops && list_empty(&s->exchanges);
}

static void session_end(struct mcp_session *s);

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
		metric_inc(METRIC_sessions_refused);
		rpc_error_init(e, FAULT_BUSY, "Too many sessions are open");
		return NULL;
	}
	s = mem_zalloc(sizeof(*s));
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
	metric_inc(METRIC_sessions_open);
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
	metric_dec(METRIC_listens_open);
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
	metric_dec(METRIC_sessions_open);
	free(s);
}

/* by us: they do */
static void session_put_out(struct mcp_session *s)
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

/* by its client: its requests get no answer */
static void session_end(struct mcp_session *s)
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

/* timer */
static void session_expire(void *arg)
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

static void session_look(struct mcp_session *s);

/* The session stays: its client goes on with a fresh credential. */
static void session_lease_ended(void *arg)
{
	struct mcp_session *s = arg;

	if (lease_over(s->srv, s->stream_who)) {
		stream_end(s);
		session_touch(s);
	} else {
		session_look(s);
	}
}

/* At its stream. */
static void session_look(struct mcp_session *s)
{
	if (s->ops)
		lease_look(s->srv, s->stream_who, &s->lease, session_lease_ended, s);
}

void mcp_session_stream(struct mcp_session *s, const struct mcp_push_ops *ops, void *peer, struct principal *who)
{
	if (s->ops)
		stream_end(s);
	metric_inc(METRIC_listens_open);
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

/* --- the server, and what it knows of a tenant */

struct mcp_server *mcp_server_new(const struct mcp_env *env)
{
	struct mcp_server *srv = mem_zalloc(sizeof(*srv));

	srv->env = *env;
	srv->info = (struct enc_server){ "toolcrib", "toolcrib", env->version, NULL };
	srv->info.text = enc_server_text(&srv->info);
	srv->cursors = seal_new(env->master, "mcp.cursor");
	srv->tenants = map_new();
	srv->sessions = map_new();
	list_init(&srv->idle);
	list_init(&srv->exchanges);
	srv->expiry = ev_timer_new(env->loop, session_expire, srv);
	return srv;
}

void mcp_server_free(struct mcp_server **psrv)
{
	struct mcp_server *srv = *psrv;
	const void *key;
	void *value;
	size_t len;

	*psrv = NULL;
	if (!srv)
		return;
	if (srv->env.tasks)
		tasks_on_change(srv->env.tasks, NULL, NULL);
	LIST_FOREACH_SAFE(n, tmp, &srv->idle)
		session_end(CONTAINER_OF(n, struct mcp_session, idle_link));
	LIST_FOREACH_SAFE(n, tmp, &srv->exchanges)
		exchange_abandon(CONTAINER_OF(n, struct mcp_exchange, link), true);
	ev_timer_free(&srv->expiry);
	map_free(&srv->sessions);
	for (size_t it = 0; map_next(srv->tenants, &it, &key, &len, &value);) {
		watch_fini(value);
		map_free(&((struct mcp_tenant *)value)->models);
		free(value);
	}
	map_free(&srv->tenants);
	seal_free(&srv->cursors);
	str_fini(&srv->out);
	free(srv->info.text);
	free(srv->caps_read);
	free(srv);
}

struct mcp_tenant *mcp_tenant_get(struct mcp_server *srv, int64_t id)
{
	struct mcp_tenant *t = map_get_u64(srv->tenants, (uint64_t)id);

	if (t)
		return t;
	t = mem_zalloc(sizeof(*t));
	t->srv = srv;
	t->id = id;
	list_init(&t->channels);
	list_init(&t->sessions);
	list_init(&t->listens);
	t->watches = map_new();
	list_init(&t->ending);
	map_set_u64(srv->tenants, (uint64_t)id, t);
	return t;
}

unsigned mcp_has(const struct reg_snapshot *snap)
{
	unsigned has = SRV_ALWAYS;

	if (snap->list[REG_PROMPT].count)
		has |= SRV_PROMPTS;
	if (snap->list[REG_RESOURCE].count || snap->list[REG_TEMPLATE].count)
		has |= SRV_RESOURCES;
	if (snap->pages)
		has |= SRV_PAGES;
	return snap->completes ? has | SRV_COMPLETIONS : has;
}

void mcp_record(struct mcp_server *srv, const struct audit_event *ev)
{
	static struct log_site site;

	if (writer_audit(srv->env.writer, ev, NULL, NULL) < 0 && log_allow(&site))
		log_warn(NULL, "record lost kind=%s", audit_kind_name((int)ev->kind));
}

/* A client that reads its list again and again says nothing new: one record a second tells what it saw. */
static bool listed_before(struct mcp_exchange *x, int64_t generation, size_t len, const void *what)
{
	struct mcp_tenant *t = mcp_tenant_get(x->srv, x->who->tenant_id);
	/* A client reads one list after the other: each has a slot of its own. */
	struct mcp_listed *slot = &t->listed[((uint64_t)x->who->principal_id + ((uintptr_t)what >> 4)) % LIST_SLOTS];
	struct mcp_listed now = { x->who->principal_id, x->who->cred_id, generation, len, x->tport,
		ev_now_us(x->srv->env.loop), what };

	if (slot->at_us && slot->principal_id == now.principal_id && slot->cred_id == now.cred_id && slot->len == len &&
	    slot->generation == generation && slot->what == what && slot->tport == now.tport &&
	    now.at_us - slot->at_us < LIST_REPEAT_US) {
		metric_inc(METRIC_list_records_merged);
		return true;
	}
	*slot = now;
	return false;
}

void list_record(struct mcp_req *req, int64_t generation, size_t len, const char *detail, const void *what)
{
	struct mcp_exchange *x = req->x;
	const struct principal *who = x->who;
	struct audit_event ev;

	if (listed_before(x, generation, len, what))
		return;
	audit_event_init(&ev, AUDIT_LIST, who->tenant_id);
	ev.cred = who->accessor[0] ? who->accessor : NULL;
	ev.prn = who->pseudonym;
	ev.actor = AUDIT_BY_SERVICE;
	ev.authn = who->authn;
	ev.tport = x->tport;
	ev.peer = x->peer;
	ev.rev = rev_table[req->rev].text;
	ev.n_res = (int64_t)len;
	ev.generation = (uint64_t)generation;
	ev.detail = detail;
	mcp_record(x->srv, &ev);
}

/* --- forced ends */

static void listen_lease_ended(void *arg)
{
	struct mcp_req *req = arg;

	if (lease_over(req->x->srv, req->x->who))
		listen_end(req);
	else
		listen_look(req);
}

void listen_look(struct mcp_req *req)
{
	struct mcp_exchange *x = req->x;

	if (!x->ch || x->ch->who != x->who)
		lease_look(x->srv, x->who, &req->lease, listen_lease_ended, req);
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

	if (srv->env.rechecked)
		srv->env.rechecked(srv->env.arg, tenant_id);
	for (size_t it = 0; map_next(srv->tenants, &it, &key, &len, &value);) {
		const struct mcp_tenant *t = value;

		if (!tenant_id || t->id == tenant_id)
			recheck(t);
	}
}

static bool concerns(const struct call_where *w, const struct principal *who)
{
	return (!w->principal_id || who->principal_id == w->principal_id) &&
	       (!w->cred_id || who->cred_id == w->cred_id);
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

/* --- views of them */

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
		const char *kind = ch->tport == AUDIT_HTTP ? "http-sse" : audit_tport_name(ch->tport);
		struct mcp_peer_view v = { .id = ch->serial, .kind = kind, .since_us = ch->since_us,
					   .last_us = ch->last_us };

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
		struct mcp_peer_view v = { .id = s->serial, .kind = "http-session", .since_us = s->since_us,
					   .last_us = s->last_us, .listening = s->ops != NULL };

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

uint64_t mcp_next_id(struct mcp_server *srv)
{
	return ++srv->serial;
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
