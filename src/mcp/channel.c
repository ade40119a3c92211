/* Channels: what a byte stream must remember, its end of input, its end. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "call/call.h"
#include "ev/ev.h"
#include "tenant/tenant.h"

#include "method_int.h"

void memory_init(struct mcp_memory *m)
{
	m->rev = REV_SESSIONLESS;
	m->log_level = MCP_LOG_OFF;
	m->inflight = map_new();
	m->asks = map_new();
}

void memory_fini(struct mcp_memory *m)
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
	while (rpc_walk_member(&w, key, sizeof key, &v)) {
		if (strcmp(key, "name") == 0)
			has_name = rpc_string(v, name, sizeof name, NULL);
		else if (strcmp(key, "version") == 0)
			has_version = rpc_string(v, version, sizeof version, NULL);
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

struct mcp_channel *mcp_channel_new(struct mcp_server *srv, const struct mcp_push_ops *ops, void *peer,
				    struct principal *who, int tport)
{
	struct mcp_channel *ch = mem_zalloc(sizeof *ch);

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

void channel_touch(struct mcp_channel *ch)
{
	ch->last_us = clock_wall_us();
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

void channel_put_out(struct mcp_channel *ch)
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

void channel_look(struct mcp_channel *ch)
{
	if (!ch->deaf)
		lease_look(ch->srv, ch->who, &ch->lease, lease_ended, ch);
}
