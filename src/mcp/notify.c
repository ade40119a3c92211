/* list_changed: to exactly the peers of one tenant that listen, and what a peer missed while it did not
 * (MCP section 5, B-19). */

#include "config.h"

#include "mcp/mcp.h"

#include "audit/audit.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "metrics/metric.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "mcp_int.h"

void mcp_record(struct mcp_server *srv, const struct audit_event *ev)
{
	static struct log_site site;

	if (writer_audit(srv->env.writer, ev, NULL, NULL) < 0 && log_allow(&site))
		log_warn(NULL, "record lost kind=%s", audit_kind_name((int)ev->kind));
}

static void push_changed(struct mcp_server *srv, const struct mcp_push_ops *ops, void *peer)
{
	str_reset(&srv->out);
	encode_list_changed(&srv->out, (struct jx_span){ NULL, 0 });
	ops->push(peer, srv->out.p, srv->out.len);
	met_inc(MET_list_changed_sent);
}

void notify_missed(struct mcp_memory *m, struct mcp_server *srv, const struct principal *who,
		   const struct mcp_push_ops *ops, void *peer)
{
	int64_t now = mcp_generation(srv, who->tenant_id);

	if (m->announced >= now)
		return;
	m->announced = now;
	push_changed(srv, ops, peer);
}

static size_t tell_channels(struct mcp_server *srv, struct mcp_tenant *t, int64_t generation)
{
	size_t told = 0;

	LIST_FOREACH_SAFE(n, tmp, &t->channels) {
		struct mcp_channel *ch = CONTAINER_OF(n, struct mcp_channel, link);

		if (ch->memory.state != LEGACY_READY)
			continue;
		ch->memory.announced = generation;
		push_changed(srv, ch->ops, ch->peer);
		told++;
	}
	return told;
}

static size_t tell_sessions(struct mcp_server *srv, struct mcp_tenant *t, int64_t generation)
{
	size_t told = 0;

	LIST_FOREACH_SAFE(n, tmp, &t->sessions) {
		struct mcp_session *s = CONTAINER_OF(n, struct mcp_session, link);

		if (!s->ops)
			continue;       /* told when the stream opens again */
		s->memory.announced = generation;
		push_changed(srv, s->ops, s->peer);
		told++;
	}
	return told;
}

static size_t tell_listens(struct mcp_server *srv, struct mcp_tenant *t)
{
	size_t told = 0;

	LIST_FOREACH_SAFE(n, tmp, &t->listens) {
		struct mcp_req *req = CONTAINER_OF(n, struct mcp_req, listen_link);

		str_reset(&srv->out);
		encode_list_changed(&srv->out, req->id);        /* MCP N-08 */
		req_notice(req, &srv->out);
		met_inc(MET_list_changed_sent);
		told++;
	}
	return told;
}

size_t mcp_tools_changed(struct mcp_server *srv, int64_t tenant_id, int64_t generation, const char *cause)
{
	struct mcp_tenant *t = map_get_u64(srv->tenants, (uint64_t)tenant_id);
	struct audit_event ev;
	size_t told;

	if (!t)
		return 0;
	told = tell_channels(srv, t, generation) + tell_sessions(srv, t, generation) + tell_listens(srv, t);
	if (told == 0)
		return 0;
	audit_event_init(&ev, AUDIT_NOTIFY, tenant_id);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.generation = (uint64_t)generation;
	ev.receivers = told;
	ev.detail = cause;
	mcp_record(srv, &ev);
	return told;
}
