/* Who is told of a change: subscriptions to resources, list_changed, subscriptions/listen (MCP section 5).  Called by
 * the methods, and by whoever changes what a tenant sees (mcp_changed()), on the loop's thread.  Nothing goes to a peer
 * of another tenant, or of what its scopes leave out. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "call/call.h"
#include "ev/ev.h"
#include "mcp/mcp.h"
#include "proto/caps.h"
#include "registry/registry.h"
#include "tenant/scope.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "method_int.h"

/* --- watches */

/* What the peers of a tenant are subscribed to, each resource once.  Where its handler can say that what it gives has
 * changed, it is asked to, as long as somebody is told.  It may have to ask elsewhere: neither that nor its end leaves
 * before it is on record, 1013 resource.subscribe and 1014 resource.unsubscribe (HARDENING F-4). */

struct mcp_watch {
	struct mcp_tenant *tenant;
	char *uri;
	size_t peers;
	int64_t version_id;             /* whose handler was asked */
	struct backend_watch *handler;  /* NULL: it has nothing to say */
	bool recorded;                  /* that it was asked for; else it is asked for nothing that leaves */
	bool recording;                 /* its record is on its way: who has no other user of it then frees it */
	struct list ending;             /* of the tenant, once nobody is told any more */
};

static void notify_updated(struct mcp_tenant *t, const char *uri);

static void on_changed(void *arg)
{
	struct mcp_watch *w = arg;

	if (w->peers > 0)
		notify_updated(w->tenant, w->uri);
}

/* by: whose, or NULL: the server's own */
static void event_of(const struct mcp_tenant *t, enum audit_kind kind, struct mcp_req *by, const struct reg_tool *line,
		     struct audit_event *ev)
{
	const struct mcp_exchange *x = by ? by->x : NULL;

	audit_event_init(ev, kind, t->id);
	ev->actor = by ? AUDIT_BY_SERVICE : AUDIT_BY_SYSTEM;
	if (line) {
		ev->tool = line->full_name;
		ev->tdef = line->def->digest;
	}
	if (!x)
		return;
	ev->cred = x->who->accessor[0] ? x->who->accessor : NULL;
	ev->prn = x->who->pseudonym;
	ev->authn = x->who->authn;
	ev->tport = x->tport;
	ev->peer = x->peer;
	ev->rev = rev_table[by->rev].text;
}

/* ERR_LIMIT; ERR_AUDIT: it is not recorded, and something would leave. */
static int ask_handler(struct mcp_watch *w, const struct reg_snapshot *snap, struct err *err)
{
	json_t *args = NULL;
	const struct reg_tool *line = reg_find_uri(snap, w->uri, strlen(w->uri), &args);
	int rc = 0;

	w->version_id = line ? line->def->version_id : 0;
	if (line)
		rc = call_watch(w->tenant->srv->env.calls, line->def, &(struct backend_watch_req){ .args = args,
				.tenant_id = w->tenant->id, .recorded = w->recorded, .fn = on_changed, .arg = w },
				&w->handler, err);
	json_decref(args);
	return rc;
}

/* recorded: its end. */
static void watch_free(struct mcp_watch *w, bool recorded)
{
	backend_unwatch(&w->handler, recorded);
	list_unlink(&w->ending);
	free(w->uri);
	free(w);
}

static int watch_join(struct mcp_tenant *t, const struct reg_snapshot *snap, const char *uri, bool recorded)
{
	struct mcp_watch *w = map_get_z(t->watches, uri);
	struct err err;
	int rc = 0;

	if (!w) {
		w = mem_zalloc(sizeof(*w));
		*w = (struct mcp_watch){ .tenant = t, .uri = mem_strdup(uri), .recorded = recorded };
		list_init(&w->ending);
		rc = ask_handler(w, snap, &err);
		if (rc == ERR_LIMIT || rc == ERR_AUDIT) {
			watch_free(w, false);
			return rc;
		}
		map_set_z(t->watches, uri, w);
	}
	w->peers++;
	t->nsubs++;
	return 0;
}

static void end_recorded(void *arg, int rc, const struct audit_receipt *receipt)
{
	(void)receipt;
	watch_free(arg, rc == 0);
}

/* Nobody is told any more.  by: who has said so, or NULL. */
static void watch_over(struct mcp_watch *w, struct mcp_req *by)
{
	struct mcp_tenant *t = w->tenant;
	struct registry *reg = t->srv->env.registry;
	struct reg_snapshot *snap;
	struct audit_event ev;
	int rc;

	if (!w->handler && !w->recording) {
		watch_free(w, false);
		return;
	}
	list_push_back(&t->ending, &w->ending);
	if (w->recording)
		return;
	snap = reg_acquire(reg, t->id);
	event_of(t, AUDIT_RESOURCE_UNSUBSCRIBE, by, reg_find_uri(snap, w->uri, strlen(w->uri), NULL), &ev);
	w->recording = true;
	rc = writer_audit(t->srv->env.writer, &ev, end_recorded, w);
	reg_release(reg, &snap);
	if (rc < 0)
		watch_free(w, false);
}

static void watch_leave(struct mcp_tenant *t, const char *uri, struct mcp_req *by)
{
	struct mcp_watch *w = map_get_z(t->watches, uri);

	t->nsubs--;
	if (--w->peers > 0)
		return;
	(void)map_del_z(t->watches, uri);
	watch_over(w, by);
}

static void look_recorded(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct mcp_watch *w = arg;
	struct reg_snapshot *snap;
	struct err err;

	(void)receipt;
	w->recording = false;
	w->recorded = rc == 0;
	if (w->peers == 0) {
		watch_free(w, false);
		return;
	}
	if (rc < 0)
		return;                 /* only changes of the definition are told */
	snap = reg_acquire(w->tenant->srv->env.registry, w->tenant->id);
	(void)ask_handler(w, snap, &err);       /* likewise */
	reg_release(w->tenant->srv->env.registry, &snap);
}

/* it is a new one */
static void watch_look(struct mcp_tenant *t, const struct reg_snapshot *snap)
{
	const void *key;
	void *value;
	size_t len;
	struct audit_event ev;
	struct err err;

	for (size_t it = 0; map_next(t->watches, &it, &key, &len, &value);) {
		struct mcp_watch *w = value;
		const struct reg_tool *line = reg_find_uri(snap, w->uri, strlen(w->uri), NULL);

		if (w->recording || w->version_id == (line ? line->def->version_id : 0))
			continue;
		backend_unwatch(&w->handler, w->recorded);
		if (ask_handler(w, snap, &err) != ERR_AUDIT)
			continue;       /* what fails: only changes of the definition are told */
		event_of(t, AUDIT_RESOURCE_SUBSCRIBE, NULL, line, &ev);
		w->recording = writer_audit(t->srv->env.writer, &ev, look_recorded, w) == 0;
	}
}

static void watch_fini_one(struct mcp_watch *w)
{
	w->peers = 0;
	if (!w->recording) {
		watch_free(w, false);
		return;
	}
	backend_unwatch(&w->handler, false);
	list_unlink(&w->ending);
}

void watch_fini(struct mcp_tenant *t)
{
	const void *key;
	void *value;
	size_t len;

	/* Nothing leaves any more; whose record is still on its way is freed when it comes. */
	for (size_t it = 0; map_next(t->watches, &it, &key, &len, &value);)
		watch_fini_one(value);
	map_free(&t->watches);
	LIST_FOREACH_SAFE(n, tmp, &t->ending)
		watch_fini_one(CONTAINER_OF(n, struct mcp_watch, ending));
	ev_timer_free(&t->updates);
}

/* --- subscriptions to resources */

/* The methods resources/subscribe and resources/unsubscribe of the legacy era, the URIs of a modern listen (MCP U-03,
 * N-07). */

struct mcp_sub { char *uri; int64_t version_id; };

/* UNRECORDED: nothing was done, it has to be recorded first */
enum subs_added { SUBS_ADDED, SUBS_UNKNOWN, SUBS_FULL, SUBS_UNRECORDED };
typedef void subs_fn(void *arg, const char *uri);

/* 0: there is none, or not for who has these scopes. */
static int64_t version_of(const struct reg_snapshot *snap, const struct scopes *scopes, const char *uri)
{
	const struct reg_tool *line = reg_find_uri(snap, uri, strlen(uri), NULL);

	return line && reg_in_scope(line, scopes) ? line->def->version_id : 0;
}

#define MARKED (-1)                     /* the version of no definition */

static size_t find(const struct mcp_subs *s, const char *uri)
{
	size_t i = 0;

	while (i < s->n && strcmp(s->sub[i].uri, uri) != 0)
		i++;
	return i;
}

/* x: whose scopes hold; what they leave out is unknown. */
static enum subs_added subs_add(struct mcp_subs *s, const struct reg_snapshot *snap, const struct mcp_exchange *x,
				const char *uri, bool recorded)
{
	struct mcp_tenant *t = mcp_tenant_get(x->srv, snap->tenant_id);
	int64_t version_id = version_of(snap, x->who->scopes, uri);
	int rc;

	if (version_id == 0)
		return SUBS_UNKNOWN;
	if (find(s, uri) < s->n)
		return SUBS_ADDED;
	if (s->n == MCP_SUBSCRIPTIONS_MAX || t->nsubs == MCP_SUBSCRIPTIONS_TENANT_MAX)
		return SUBS_FULL;
	rc = watch_join(t, snap, uri, recorded);
	if (rc < 0)
		return rc == ERR_AUDIT ? SUBS_UNRECORDED : SUBS_FULL;
	s->sub = mem_realloc(s->sub, (s->n + 1) * sizeof(*s->sub));
	s->sub[s->n++] = (struct mcp_sub){ mem_strdup(uri), version_id };
	s->tenant = t;
	return SUBS_ADDED;
}

/* a no-op when it is not there */
static void subs_remove(struct mcp_subs *s, const char *uri, struct mcp_req *by)
{
	size_t i = find(s, uri);

	if (i == s->n)
		return;
	watch_leave(s->tenant, uri, by);
	free(s->sub[i].uri);
	s->sub[i] = s->sub[--s->n];
}

void subs_fini(struct mcp_subs *s)
{
	for (size_t i = 0; i < s->n; i++) {
		watch_leave(s->tenant, s->sub[i].uri, NULL);
		free(s->sub[i].uri);
	}
	free(s->sub);
	*s = (struct mcp_subs){ .sub = NULL };
}

static const char *subs_uri(const struct mcp_subs *s, size_t i)
{
	return s->sub[i].uri;
}

/* it has changed, whatever its definition: subs_tell() says so */
static void subs_mark(struct mcp_subs *s, const char *uri)
{
	size_t i = find(s, uri);

	if (i < s->n)
		s->sub[i].version_id = MARKED;
}

static size_t subs_tell(struct mcp_subs *s, const struct reg_snapshot *snap, subs_fn *fn, void *arg)
{
	size_t told = 0;

	for (size_t i = 0; i < s->n; i++) {
		int64_t now = version_of(snap, NULL, s->sub[i].uri);

		if (now == s->sub[i].version_id)
			continue;
		s->sub[i].version_id = now;
		fn(arg, s->sub[i].uri);
		metric_inc(METRIC_resource_updates_sent);
		told++;
	}
	return told;
}

/* The URI of a request, NUL-terminated; false: refused and answered. */
static bool read_uri(struct mcp_req *req, const struct mcp_msg *msg, char ret[MCP_URI_SIZE])
{
	struct rpc_error e;
	size_t len;

	if (!rpc_string(msg->rpc->uri, ret, MCP_URI_SIZE, &len) || strlen(ret) != len)
		rpc_error_arguments(&e, "params.uri must be a string");
	else if (!exchange_memory(req->x))
		rpc_error_init(&e, FAULT_PARAMS, "A subscription needs a session: initialize first");
	else
		return true;
	req_fault(req, &e);
	return false;
}

/* --- what is recorded before it is done */

/* A request that goes on once what it asks for is on record: text is a URI, or the URIs of a listen as it has them. */
struct noted {
	struct mcp_req *req;
	void (*go_on)(struct mcp_req *req, unsigned lists, const char *text, bool recorded);
	unsigned lists;
	bool many;                      /* it is a listen */
	char *text;
};

static void on_noted(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct noted *n = arg;
	struct mcp_req *req = n->req;
	struct mcp_exchange *x = req->x;
	struct rpc_error e;

	(void)receipt;
	if (req->open && rc < 0) {
		rpc_error_audit(&e, false);
		req_fault(req, &e);
	} else if (req->open && principal_check(x->srv->env.tenants, x->who, NULL) < 0) {
		rpc_error_init(&e, FAULT_DENIED, NULL);
		req_fault(req, &e);
	} else if (req->open) {
		n->go_on(req, n->lists, n->text, true);
	}
	exchange_unpin(x);
	free(n->text);
	free(n);
}

/* The names of what a listen asks for, as far as it may be read. */
static void put_names(const struct reg_snapshot *snap, const struct scopes *scopes, const char *uris, struct str *out)
{
	char uri[MCP_URI_SIZE];
	struct rpc_walk w;
	struct jx_span v;
	size_t len;

	rpc_walk_start(&w, (struct jx_span){ uris, strlen(uris) });
	while (rpc_walk_element(&w, &v)) {
		const struct reg_tool *line = rpc_string(v, uri, sizeof(uri), &len) && strlen(uri) == len
					      ? reg_find_uri(snap, uri, len, NULL) : NULL;

		if (line && reg_in_scope(line, scopes))
			str_printf(out, "%s%s", out->len ? " " : "", line->full_name);
	}
}

/* What it points to is taken.  uri: the first of those that ask for it. */
static void note_first(const struct noted *what, const char *uri)
{
	struct noted *n = mem_dup(what, sizeof(*what));
	struct mcp_exchange *x = n->req->x;
	struct registry *reg = x->srv->env.registry;
	struct reg_snapshot *snap = reg_acquire(reg, x->who->tenant_id);
	struct str names = STR_INIT;
	struct audit_event ev;
	int rc;

	event_of(mcp_tenant_get(x->srv, x->who->tenant_id), AUDIT_RESOURCE_SUBSCRIBE, n->req,
		 reg_find_uri(snap, uri, strlen(uri), NULL), &ev);
	if (n->many) {
		put_names(snap, x->who->scopes, n->text, &names);
		ev.detail = str_text(&names);
	}
	exchange_pin(x);
	rc = writer_audit(x->srv->env.writer, &ev, on_noted, n);
	str_fini(&names);
	reg_release(reg, &snap);
	if (rc < 0)
		on_noted(n, rc, NULL);
}

static void subscribe(struct mcp_req *req, unsigned lists, const char *uri, bool recorded)
{
	struct mcp_server *srv = req->x->srv;
	struct reg_snapshot *snap = reg_acquire(srv->env.registry, req->x->who->tenant_id);
	enum subs_added added = subs_add(&exchange_memory(req->x)->subs, snap, req->x, uri, recorded);
	struct rpc_error e;

	(void)lists;
	reg_release(srv->env.registry, &snap);
	switch (added) {
	case SUBS_ADDED:
		req_result(req, &(struct enc_result){ .kind = ENC_EMPTY });
		return;
	case SUBS_UNRECORDED:
		note_first(&(struct noted){ .req = req, .go_on = subscribe, .text = mem_strdup(uri) }, uri);
		return;
	case SUBS_UNKNOWN:
		rpc_error_unknown_resource(&e, req->rev, uri, strlen(uri));
		break;
	case SUBS_FULL:
		metric_inc(METRIC_subscriptions_refused);
		rpc_error_init(&e, FAULT_LISTENS, "Too many subscriptions: at most %d", MCP_SUBSCRIPTIONS_MAX);
		break;
	}
	req_fault(req, &e);
}

void m_subscribe(struct mcp_req *req, const struct mcp_msg *msg)
{
	char uri[MCP_URI_SIZE];

	if (read_uri(req, msg, uri))
		subscribe(req, 0, uri, false);
}

void m_unsubscribe(struct mcp_req *req, const struct mcp_msg *msg)
{
	char uri[MCP_URI_SIZE];

	if (!read_uri(req, msg, uri))
		return;
	subs_remove(&exchange_memory(req->x)->subs, uri, req);
	req_result(req, &(struct enc_result){ .kind = ENC_EMPTY });
}

/* --- list_changed */

/* To exactly the peers of one tenant that listen, and what a peer missed while it did not (MCP section 5, B-19). */

/* What is announced together, under which capability, and to whom. */
struct family { enum enc_list list; unsigned wanted, capability, right; const char *obj; };

static const struct family families[REG_FAMILIES] = {
	[REG_TOOLS] = { ENC_TOOLS, ENC_ON_TOOLS, SRV_TOOLS, SCOPE_TOOLS_LIST, NULL },
	[REG_PROMPTS] = { ENC_PROMPTS, ENC_ON_PROMPTS, SRV_PROMPTS, SCOPE_PROMPTS_LIST, "prompts" },
	[REG_RESOURCES] = { ENC_RESOURCES, ENC_ON_RESOURCES, SRV_RESOURCES, SCOPE_RESOURCES_LIST, "resources" },
};

/* A legacy peer: what it is told through. */
struct way { struct mcp_server *srv; const struct principal *who; const struct mcp_push_ops *ops; void *peer; };

static void push_changed(const struct way *way, const struct family *f)
{
	str_reset(&way->srv->out);
	encode_list_changed(&way->srv->out, f->list, (struct jx_span){ NULL, 0 });
	way->ops->push(way->peer, way->srv->out.p, way->srv->out.len);
	metric_inc(METRIC_list_changed_sent);
}

static void push_updated(void *arg, const char *uri)
{
	const struct way *way = arg;

	str_reset(&way->srv->out);
	encode_updated(&way->srv->out, uri, (struct jx_span){ NULL, 0 });
	way->ops->push(way->peer, way->srv->out.p, way->srv->out.len);
}

static void listen_updated(void *arg, const char *uri)
{
	struct mcp_req *req = arg;
	struct str *out = &req->x->srv->out;

	str_reset(out);
	encode_updated(out, uri, req->id);
	req_notice(req, out);
}

void notify_missed(struct mcp_memory *m, struct mcp_server *srv, const struct principal *who,
		   const struct mcp_push_ops *ops, void *peer)
{
	struct reg_snapshot *snap = reg_acquire(srv->env.registry, who->tenant_id);
	struct way way = { srv, who, ops, peer };

	for (size_t f = 0; f < REG_FAMILIES; f++) {
		if (m->announced[f] >= snap->generation[f] || !(m->declared & families[f].capability) ||
		    !scope_has(who->scopes, families[f].right))
			continue;
		m->announced[f] = snap->generation[f];
		push_changed(&way, &families[f]);
	}
	(void)subs_tell(&m->subs, snap, push_updated, &way);
	reg_release(srv->env.registry, &snap);
}

/* One legacy peer that can be told now. */
static size_t tell_changed(const struct way *way, struct mcp_memory *m, const struct reg_news *news, enum reg_family f)
{
	if (!(m->declared & families[f].capability) || !scope_has(way->who->scopes, families[f].right))
		return 0;
	m->announced[f] = news->generation[f];
	push_changed(way, &families[f]);
	return 1;
}

static size_t tell_legacy(struct mcp_server *srv, struct mcp_tenant *t, const struct reg_news *news, enum reg_family f)
{
	size_t told = 0;

	LIST_FOREACH_SAFE(n, tmp, &t->channels) {
		struct mcp_channel *ch = CONTAINER_OF(n, struct mcp_channel, link);

		if (ch->memory.state == LEGACY_READY)
			told += tell_changed(&(struct way){ srv, ch->who, ch->ops, ch->peer }, &ch->memory, news, f);
	}
	LIST_FOREACH_SAFE(n, tmp, &t->sessions) {
		struct mcp_session *s = CONTAINER_OF(n, struct mcp_session, link);

		if (s->ops)     /* else told when the stream opens again */
			told += tell_changed(&(struct way){ srv, s->who, s->ops, s->peer }, &s->memory, news, f);
	}
	return told;
}

static size_t tell_listens(struct mcp_server *srv, struct mcp_tenant *t, const struct family *f)
{
	size_t told = 0;

	LIST_FOREACH_SAFE(n, tmp, &t->listens) {
		struct mcp_req *req = CONTAINER_OF(n, struct mcp_req, listen_link);

		if (!(req->wants & f->wanted))
			continue;               /* MCP N-04 */
		str_reset(&srv->out);
		encode_list_changed(&srv->out, f->list, req->id);       /* MCP N-08 */
		req_notice(req, &srv->out);
		metric_inc(METRIC_list_changed_sent);
		told++;
	}
	return told;
}

static size_t tell_updated(struct mcp_server *srv, struct mcp_tenant *t, const struct reg_snapshot *snap)
{
	size_t told = 0;

	LIST_FOREACH_SAFE(n, tmp, &t->channels) {
		struct mcp_channel *ch = CONTAINER_OF(n, struct mcp_channel, link);

		if (ch->memory.state == LEGACY_READY)
			told += subs_tell(&ch->memory.subs, snap, push_updated,
					  &(struct way){ srv, ch->who, ch->ops, ch->peer });
	}
	LIST_FOREACH_SAFE(n, tmp, &t->sessions) {
		struct mcp_session *s = CONTAINER_OF(n, struct mcp_session, link);

		if (s->ops)
			told += subs_tell(&s->memory.subs, snap, push_updated,
					  &(struct way){ srv, s->who, s->ops, s->peer });
	}
	LIST_FOREACH_SAFE(n, tmp, &t->listens) {
		struct mcp_req *req = CONTAINER_OF(n, struct mcp_req, listen_link);

		told += subs_tell(&req->subs, snap, listen_updated, req);
	}
	return told;
}

static void record(struct mcp_server *srv, const struct reg_news *news, enum reg_family f, const char *obj, size_t told,
		   const char *cause)
{
	struct audit_event ev;

	if (told == 0)
		return;
	audit_event_init(&ev, AUDIT_NOTIFY, news->tenant_id);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.generation = (uint64_t)news->generation[f];
	ev.receivers = told;
	ev.obj = obj;
	ev.detail = cause;
	mcp_record(srv, &ev);
}

static size_t tell_of_change(struct mcp_server *srv, struct mcp_tenant *t)
{
	struct reg_snapshot *snap = reg_acquire(srv->env.registry, t->id);
	size_t told;

	watch_look(t, snap);
	told = tell_updated(srv, t, snap);
	reg_release(srv->env.registry, &snap);
	return told;
}

/* The resources of a tenant that handlers have called others: each told once.  A timer. */
static void tell_marked(void *tenant)
{
	struct mcp_tenant *t = tenant;
	struct mcp_server *srv = t->srv;
	struct reg_snapshot *snap = reg_acquire(srv->env.registry, t->id);
	struct reg_news news = { .tenant_id = t->id };

	memcpy(news.generation, snap->generation, sizeof(news.generation));
	record(srv, &news, REG_RESOURCES, "resources/updated", tell_updated(srv, t, snap), "upstream");
	reg_release(srv->env.registry, &snap);
}

static void notify_updated(struct mcp_tenant *t, const char *uri)
{
	LIST_FOREACH(n, &t->channels)
		subs_mark(&CONTAINER_OF(n, struct mcp_channel, link)->memory.subs, uri);
	LIST_FOREACH(n, &t->sessions)
		subs_mark(&CONTAINER_OF(n, struct mcp_session, link)->memory.subs, uri);
	LIST_FOREACH(n, &t->listens)
		subs_mark(&CONTAINER_OF(n, struct mcp_req, listen_link)->subs, uri);
	if (!t->updates)
		t->updates = ev_timer_new(t->srv->env.loop, tell_marked, t);
	if (!ev_timer_armed(t->updates))
		ev_timer_start(t->updates, 0);
}

size_t mcp_changed(struct mcp_server *srv, const struct reg_news *news, const char *cause)
{
	struct mcp_tenant *t = map_get_u64(srv->tenants, (uint64_t)news->tenant_id);
	size_t told, sum = 0;

	if (!t)
		return 0;
	for (enum reg_family f = REG_TOOLS; f < REG_FAMILIES; f++) {
		if (!news->differs[f])
			continue;
		told = tell_legacy(srv, t, news, f) + tell_listens(srv, t, &families[f]);
		record(srv, news, f, families[f].obj, told, cause);
		sum += told;
	}
	told = t->nsubs ? tell_of_change(srv, t) : 0;
	record(srv, news, REG_RESOURCES, "resources/updated", told, cause);
	return sum + told;
}

/* --- subscriptions/listen (MCP section 5) */

/* A request that is answered when it ends.  First the acknowledgement, then notices tagged with its id, at last the
 * result. */

enum { SHED_LISTENS = 80 };             /* percent */

struct filter {
	unsigned lists;                 /* ENC_ON_ bits */
	struct jx_span uris;            /* resourceSubscriptions, or p NULL */
	struct jx_span tasks;           /* taskIds, likewise */
};

static bool is_bool(struct jx_span v)
{
	return rpc_is(v, 't') || rpc_is(v, 'f');
}

static bool is_strings(struct jx_span v)
{
	struct rpc_walk w;
	struct jx_span item;

	if (!rpc_is(v, '['))
		return false;
	rpc_walk_start(&w, v);
	while (rpc_walk_element(&w, &item))
		if (!rpc_is(item, '"'))
			return false;
	return true;
}

/* The name of a member of the wrong type, or NULL (MCP B-21).  Unknown members are passed over. */
static const char *read_filter(struct jx_span filter, struct filter *ret)
{
	static const struct { const char *name; bool (*ok)(struct jx_span v); unsigned list; } members[] = {
		{ "toolsListChanged", is_bool, ENC_ON_TOOLS },
		{ "promptsListChanged", is_bool, ENC_ON_PROMPTS },
		{ "resourcesListChanged", is_bool, ENC_ON_RESOURCES },
		{ "resourceSubscriptions", is_strings, 0 }, { "taskIds", is_strings, 0 },
	};
	struct rpc_walk w;
	struct jx_span v;
	char name[32];

	rpc_walk_start(&w, filter);
	while (rpc_walk_member(&w, name, sizeof(name), &v))
		for (size_t i = 0; i < NELEMS(members); i++) {
			if (strcmp(name, members[i].name) != 0)
				continue;
			if (!members[i].ok(v))
				return members[i].name;
			if (strcmp(name, "taskIds") == 0)
				ret->tasks = v;
			else if (!members[i].list)
				ret->uris = v;
			else if (*v.p == 't')
				ret->lists |= members[i].list;
		}
	return NULL;
}

static bool read_params(const struct mcp_msg *msg, struct filter *ret, struct rpc_error *e)
{
	struct rpc_walk w;
	struct jx_span v;
	char name[32];
	const char *wrong;

	memset(ret, 0, sizeof(*ret));
	rpc_walk_start(&w, msg->rpc->params);   /* there: the gate has found `_meta` in it */
	while (rpc_walk_member(&w, name, sizeof(name), &v)) {
		if (strcmp(name, "notifications") != 0)
			continue;
		if (!rpc_is(v, '{'))
			break;
		wrong = read_filter(v, ret);
		if (!wrong)
			return true;
		rpc_error_init(e, FAULT_PARAMS, "params.notifications.%s has the wrong type", wrong);
		return false;
	}
	rpc_error_init(e, FAULT_PARAMS, "params.notifications must be an object");
	return false;
}

/* Listens of one principal (MCP B-21). */
static size_t count(const struct mcp_tenant *t, const struct principal *who)
{
	size_t n = 0;

	LIST_FOREACH(l, &t->listens)
		if (CONTAINER_OF(l, struct mcp_req, listen_link)->x->who->principal_id == who->principal_id)
			n++;
	return n;
}

static void send_ack(struct mcp_req *req)
{
	struct str *out = &req->x->srv->out;
	const char *uris[MCP_SUBSCRIPTIONS_MAX], *tasks[MCP_TASKS_MAX];
	struct enc_filter filter = { .lists = req->wants, .uris = uris, .nuris = req->subs.n, .tasks = tasks,
		.ntasks = mcp_ntasks(req) };

	for (size_t i = 0; i < req->subs.n; i++)
		uris[i] = subs_uri(&req->subs, i);
	for (size_t i = 0; i < filter.ntasks; i++)
		tasks[i] = req->tasks->of[i].id;
	str_reset(out);
	encode_listen_ack(out, req->id, &filter);
}

static size_t count_tasks(const struct mcp_tenant *t)
{
	size_t n = 0;

	LIST_FOREACH(l, &t->listens)
		n += mcp_ntasks(CONTAINER_OF(l, struct mcp_req, listen_link));
	return n;
}

/* Nothing of a subscription goes out before its acknowledgement (MCP N-05), and that not before mcp_input() has
 * returned; so it joins the list here. */
static void acknowledge(void *arg)
{
	struct mcp_req *req = arg;
	struct mcp_exchange *x = req->x;
	/* Whoever was put out since then is not told of anything. */
	bool honoured = (req->wants || req->subs.n || req->tasks) && principal_check(x->srv->env.tenants, x->who, NULL) == 0;

	if (req->open && !req->mute && !x->closed) {
		send_ack(req);
		if (honoured) {
			list_push_back(&mcp_tenant_get(x->srv, x->who->tenant_id)->listens, &req->listen_link);
			metric_inc(METRIC_listens_open);
			listen_look(req);
		}
		req_notice(req, &x->srv->out);
		if (honoured && req->tasks)
			req->ways->begin(req);
		if (!honoured)
			listen_end(req);
	}
	exchange_unpin(x);
}

/* Lists that a change of is told of: those that may be read. */
static unsigned may_hear(const struct scopes *scopes)
{
	return (scope_has(scopes, SCOPE_TOOLS_LIST) ? (unsigned)ENC_ON_TOOLS : 0) |
	       (scope_has(scopes, SCOPE_PROMPTS_LIST) ? (unsigned)ENC_ON_PROMPTS : 0) |
	       (scope_has(scopes, SCOPE_RESOURCES_LIST) ? (unsigned)ENC_ON_RESOURCES : 0);
}

/* Take what is offered to this tenant (MCP N-07).  Unknown URIs are left out; of one that is not SUBS_ADDED, in uri,
 * and all before it nothing stays. */
static enum subs_added take_filter(struct mcp_req *req, const struct filter *filter, bool recorded,
		char uri[MCP_URI_SIZE])
{
	struct registry *reg = req->x->srv->env.registry;
	struct reg_snapshot *snap = reg_acquire(reg, req->x->who->tenant_id);
	enum subs_added added = SUBS_ADDED;
	unsigned has = mcp_has(snap);
	struct rpc_walk w;
	struct jx_span v;
	size_t len;

	req->wants = filter->lists;
	if (!(has & SRV_PROMPTS))
		req->wants &= ~(unsigned)ENC_ON_PROMPTS;
	if (!(has & SRV_RESOURCES))
		req->wants &= ~(unsigned)ENC_ON_RESOURCES;
	req->wants &= may_hear(req->x->who->scopes);
	if (filter->uris.p) {
		rpc_walk_start(&w, filter->uris);
		while (added != SUBS_FULL && added != SUBS_UNRECORDED && rpc_walk_element(&w, &v))
			if (rpc_string(v, uri, MCP_URI_SIZE, &len) && strlen(uri) == len)
				added = subs_add(&req->subs, snap, req->x, uri, recorded);
	}
	reg_release(reg, &snap);
	if (added != SUBS_FULL && added != SUBS_UNRECORDED)
		return SUBS_ADDED;
	subs_fini(&req->subs);
	return added;
}

static void start_listen(struct mcp_req *req, unsigned lists, const char *uris, bool recorded)
{
	const struct filter filter = { .lists = lists, .uris = { uris, uris ? strlen(uris) : 0 } };
	struct mcp_exchange *x = req->x;
	char uri[MCP_URI_SIZE];
	struct rpc_error e;

	switch (take_filter(req, &filter, recorded, uri)) {
	case SUBS_UNRECORDED:
		note_first(&(struct noted){ .req = req, .go_on = start_listen, .lists = lists, .many = true,
			   .text = mem_strdup(uris) }, uri);
		return;
	case SUBS_FULL:
		metric_inc(METRIC_subscriptions_refused);
		rpc_error_init(&e, FAULT_LISTENS, "Too many subscriptions: at most %d of one listen, %d of all peers",
			       MCP_SUBSCRIPTIONS_MAX, MCP_SUBSCRIPTIONS_TENANT_MAX);
		req_fault(req, &e);
		return;
	case SUBS_ADDED:
	case SUBS_UNKNOWN:
		break;
	}
	exchange_pin(x);
	ev_defer(x->srv->env.loop, acknowledge, req);
}

/* SEC S-804, S-807 */
static bool take_stream(struct mcp_req *req)
{
	struct mcp_exchange *x = req->x;
	struct call_engine *calls = x->srv->env.calls;

	req->streams = !call_shed(calls, x->who, SHED_LISTENS) && call_hold_stream(calls, x->who->tenant_id, NULL) == 0;
	return req->streams;
}

void m_listen(struct mcp_req *req, const struct mcp_msg *msg)
{
	struct mcp_exchange *x = req->x;
	char client[MCP_CLIENT_SIZE] = "";
	struct filter filter;
	struct rpc_error e;

	if (x->http && !x->sse_ok) {
		rpc_error_init(&e, FAULT_REQUEST, "subscriptions/listen is answered by an event stream; "
			       "Accept must allow text/event-stream");
	} else if (!read_params(msg, &filter, &e)) {
		/* e says what is wrong */
	} else if (filter.tasks.p && !(req->caps & CAP_TASKS)) {
		rpc_error_capability(&e, CAP_TASKS);    /* K5-06 */
	} else if (count(mcp_tenant_get(x->srv, x->who->tenant_id), x->who) >= MCP_LISTENS_MAX) {
		metric_inc(METRIC_listens_refused);
		rpc_error_init(&e, FAULT_LISTENS, "Too many subscriptions: at most %d for one principal",
			       MCP_LISTENS_MAX);
	} else if (filter.tasks.p && (!req->ways->take(req, filter.tasks) || mcp_ntasks(req) +
				      count_tasks(mcp_tenant_get(x->srv, x->who->tenant_id)) > MCP_TASKS_TENANT_MAX)) {
		metric_inc(METRIC_listens_refused);
		rpc_error_init(&e, FAULT_LISTENS, "Too many tasks: at most %d of one listen, %d of all peers", MCP_TASKS_MAX,
			       MCP_TASKS_TENANT_MAX);
	} else if (!take_stream(req)) {
		rpc_error_init(&e, FAULT_BUSY, "Too many streams are open");
	} else {
		char *uris = filter.uris.p ? mem_strndup(filter.uris.p, filter.uris.len) : NULL;

		(void)client_read(msg->meta.client, client);
		req->label = mem_strdup(client);
		req->since_us = clock_wall_us();
		start_listen(req, filter.lists, uris, false);
		free(uris);
		return;
	}
	req_fault(req, &e);
}

void listen_stop(struct mcp_req *req)
{
	if (req->streams)
		call_drop_stream(req->x->srv->env.calls, req->x->who->tenant_id);
	req->streams = false;
	if (list_empty(&req->listen_link))
		return;
	list_unlink(&req->listen_link);
	ev_timer_free(&req->lease);
	metric_dec(METRIC_listens_open);
}

void listen_end(struct mcp_req *req)
{
	struct mcp_exchange *x = req->x;
	struct mcp_channel *ch = x->ch;

	exchange_pin(x);
	req_result(req, &(struct enc_result){ .kind = ENC_LISTEN_END });
	if (ch) {               /* MCP B-20: on byte streams the notice follows the result */
		str_reset(&x->srv->out);
		encode_cancelled(&x->srv->out, req->id, "The server ended the subscription");
		ch->ops->push(ch->peer, x->srv->out.p, x->srv->out.len);
	}
	exchange_unpin(x);
}
