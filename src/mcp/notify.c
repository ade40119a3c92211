/* list_changed: to exactly the peers of one tenant that listen, and what a peer missed while it did not
 * (MCP section 5, B-19). */

#include "config.h"

#include "mcp/mcp.h"

#include <string.h>

#include "audit/audit.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "ev/ev.h"
#include "metrics/metric.h"
#include "tenant/scope.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "method_int.h"

void mcp_record(struct mcp_server *srv, const struct audit_event *ev)
{
	static struct log_site site;

	if (writer_audit(srv->env.writer, ev, NULL, NULL) < 0 && log_allow(&site))
		log_warn(NULL, "record lost kind=%s", audit_kind_name((int)ev->kind));
}

/* What is announced together, under which capability, and to whom. */
static const struct family { enum enc_list list; unsigned wanted, capability, right; const char *obj; } families[REG_FAMILIES] = {
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
	met_inc(MET_list_changed_sent);
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
		met_inc(MET_list_changed_sent);
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
			told += subs_tell(&ch->memory.subs, snap, push_updated, &(struct way){ srv, ch->who, ch->ops, ch->peer });
	}
	LIST_FOREACH_SAFE(n, tmp, &t->sessions) {
		struct mcp_session *s = CONTAINER_OF(n, struct mcp_session, link);

		if (s->ops)
			told += subs_tell(&s->memory.subs, snap, push_updated, &(struct way){ srv, s->who, s->ops, s->peer });
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

void notify_updated(struct mcp_tenant *t, const char *uri)
{
	LIST_FOREACH(n, &t->channels)
		subs_mark(&CONTAINER_OF(n, struct mcp_channel, link)->memory.subs, uri);
	LIST_FOREACH(n, &t->sessions)
		subs_mark(&CONTAINER_OF(n, struct mcp_session, link)->memory.subs, uri);
	LIST_FOREACH(n, &t->listens)
		subs_mark(&CONTAINER_OF(n, struct mcp_req, listen_link)->subs, uri);
	if (!ev_timer_armed(t->updates))
		ev_timer_start(t->updates, 0);
}

void notify_marked(void *tenant)
{
	struct mcp_tenant *t = tenant;
	struct mcp_server *srv = t->srv;
	struct reg_snapshot *snap = reg_acquire(srv->env.registry, t->id);
	struct reg_news news = { .tenant_id = t->id };

	memcpy(news.generation, snap->generation, sizeof news.generation);
	record(srv, &news, REG_RESOURCES, "resources/updated", tell_updated(srv, t, snap), "upstream");
	reg_release(srv->env.registry, &snap);
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
