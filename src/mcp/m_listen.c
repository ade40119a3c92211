/* subscriptions/listen (MCP section 5): a request that is answered when it ends.  First the acknowledgement, then
 * notices tagged with its id, at last the result. */

#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"
#include "call/call.h"
#include "ev/ev.h"
#include "metrics/metric.h"
#include "tenant/scope.h"
#include "tenant/tenant.h"

#include "method_int.h"

enum { SHED_LISTENS = 80 };             /* percent */

struct filter {
	unsigned lists;                 /* ENC_ON_ bits */
	struct jx_span uris;            /* resourceSubscriptions, or p NULL */
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
		{ "resourceSubscriptions", is_strings, 0 },
	};
	struct rpc_walk w;
	struct jx_span v;
	char name[32];

	rpc_walk_start(&w, filter);
	while (rpc_walk_member(&w, name, sizeof name, &v))
		for (size_t i = 0; i < NELEMS(members); i++) {
			if (strcmp(name, members[i].name) != 0)
				continue;
			if (!members[i].ok(v))
				return members[i].name;
			if (!members[i].list)
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

	memset(ret, 0, sizeof *ret);
	rpc_walk_start(&w, msg->rpc->params);   /* there: the gate has found `_meta` in it */
	while (rpc_walk_member(&w, name, sizeof name, &v)) {
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
	const char *uris[MCP_SUBSCRIPTIONS_MAX];
	struct enc_filter filter = { .lists = req->wants, .uris = uris, .nuris = req->subs.n };

	for (size_t i = 0; i < req->subs.n; i++)
		uris[i] = subs_uri(&req->subs, i);
	str_reset(out);
	encode_listen_ack(out, req->id, &filter);
}

/* Nothing of a subscription goes out before its acknowledgement (MCP N-05), and that not before mcp_input() has
 * returned; so it joins the list here. */
static void acknowledge(void *arg)
{
	struct mcp_req *req = arg;
	struct mcp_exchange *x = req->x;
	/* Whoever was put out since then is not told of anything. */
	bool honoured = (req->wants || req->subs.n) && principal_check(x->srv->env.tenants, x->who, NULL) == 0;

	if (req->open && !req->mute && !x->closed) {
		send_ack(req);
		if (honoured) {
			list_push_back(&mcp_tenant_get(x->srv, x->who->tenant_id)->listens, &req->listen_link);
			met_inc(MET_listens_open);
			listen_look(req);
		}
		req_notice(req, &x->srv->out);
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

/* Take what is offered to this tenant (MCP N-07); false: too many URIs, e says so.  Unknown ones are left out. */
static bool take_filter(struct mcp_req *req, const struct filter *filter, struct rpc_error *e)
{
	struct registry *reg = req->x->srv->env.registry;
	struct reg_snapshot *snap = reg_acquire(reg, req->x->who->tenant_id);
	enum subs_added added = SUBS_ADDED;
	char uri[MCP_URI_SIZE];
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
		while (added != SUBS_FULL && rpc_walk_element(&w, &v))
			if (rpc_string(v, uri, sizeof uri, &len) && strlen(uri) == len)
				added = subs_add(&req->subs, snap, req->x, uri);
	}
	reg_release(reg, &snap);
	if (added != SUBS_FULL)
		return true;
	met_inc(MET_subscriptions_refused);
	rpc_error_init(e, FAULT_LISTENS, "Too many subscriptions: at most %d of one listen, %d of all peers",
		       MCP_SUBSCRIPTIONS_MAX, MCP_SUBSCRIPTIONS_TENANT_MAX);
	return false;
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
	} else if (count(mcp_tenant_get(x->srv, x->who->tenant_id), x->who) >= MCP_LISTENS_MAX) {
		met_inc(MET_listens_refused);
		rpc_error_init(&e, FAULT_LISTENS, "Too many subscriptions: at most %d for one principal",
			       MCP_LISTENS_MAX);
	} else if (!take_stream(req)) {
		rpc_error_init(&e, FAULT_BUSY, "Too many streams are open");
	} else if (take_filter(req, &filter, &e)) {
		(void)client_read(msg->meta.client, client);
		req->label = mem_strdup(client);
		req->since_us = clock_wall_us();
		exchange_pin(x);
		ev_defer(x->srv->env.loop, acknowledge, req);
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
	met_dec(MET_listens_open);
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

static void lease_ended(void *arg)
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
		lease_look(x->srv, x->who, &req->lease, lease_ended, req);
}
