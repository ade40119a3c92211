/* subscriptions/listen (MCP section 5): a request that is answered when it ends.  First the acknowledgement, then
 * notices tagged with its id, at last the result. */

#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"
#include "ev/ev.h"
#include "metrics/metric.h"
#include "tenant/tenant.h"

#include "mcp_int.h"

struct filter { bool present, tools; };

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
	static const struct { const char *name; bool (*ok)(struct jx_span v); } members[] = {
		{ "toolsListChanged", is_bool },
		{ "promptsListChanged", is_bool },
		{ "resourcesListChanged", is_bool },
		{ "resourceSubscriptions", is_strings },
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
			if (i == 0)
				ret->tools = *v.p == 't';
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
		ret->present = true;
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

/* Nothing of a subscription goes out before its acknowledgement (MCP N-05), and that not before mcp_input() has
 * returned; so it joins the list here. */
static void acknowledge(void *arg)
{
	struct mcp_req *req = arg;
	struct mcp_exchange *x = req->x;
	bool tools = req->wants_tools;

	if (req->open && !req->mute && !x->closed) {
		str_reset(&x->srv->out);
		encode_listen_ack(&x->srv->out, req->id, tools);
		if (tools) {
			list_push_back(&mcp_tenant_get(x->srv, x->who->tenant_id)->listens, &req->listen_link);
			met_inc(MET_listens_open);
		}
		req_notice(req, &x->srv->out);
		if (!tools)
			listen_end(req);
	}
	exchange_unpin(x);
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
	} else {
		(void)client_read(msg->meta.client, client);
		req->label = mem_strdup(client);
		req->since_us = clock_wall_us();
		req->wants_tools = filter.tools;
		exchange_pin(x);
		ev_defer(x->srv->env.loop, acknowledge, req);
		return;
	}
	req_fault(req, &e);
}

void listen_stop(struct mcp_req *req)
{
	if (list_empty(&req->listen_link))
		return;
	list_unlink(&req->listen_link);
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
