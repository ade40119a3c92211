/* What messages cost (SEC S-803): each is charged to its tenant, principal and key before it is looked into. */

#include "config.h"

#include <string.h>

#include "call/call.h"
#include "proto/rpc.h"

#include "method_int.h"

enum {
	LISTEN_COST = 5,                /* it stays */
	UNIT_BYTES = 16384,             /* of a result, for each unit of its cost */
};

/* Who is told "too often" for its first words takes us for a server of another era (MCP B-57). */
static bool is_loose(const struct rpc_msg *rpc)
{
	return rpc->kind == RPC_REQUEST && (strcmp(rpc->method, "server/discover") == 0 || strcmp(rpc->method, "initialize") == 0 ||
					    strcmp(rpc->method, "ping") == 0);
}

/* silent: it is no request on a byte stream (MCP J-06). */
static void refuse(struct mcp_exchange *x, const struct mcp_in *in, struct jx_span id, bool silent, const struct err *why)
{
	struct rpc_error e;

	rpc_error_rate(&e, why->retry_ms);
	rpc_error_text(&e, "reason", "requests");
	exchange_refuse(x, classify_rev_known(x, in->http), id, &e);
	if (silent)
		str_reset(&x->reply);
}

static bool refuse_channel(struct mcp_exchange *x, const struct mcp_in *in, const struct rpc_msg *rpc)
{
	struct rpc_error e;

	rpc_error_init(&e, FAULT_BUSY, "Too many streams are open");
	exchange_refuse(x, classify_rev_known(x, in->http), rpc->id, &e);
	x->hang_up = true;
	return false;
}

static unsigned cost_of(const struct mcp_exchange *x, const struct rpc_msg *rpc)
{
	if (rpc->array)
		return (unsigned)x->nreq;
	return strcmp(rpc->method, "subscriptions/listen") == 0 ? LISTEN_COST : 1;
}

/* It ends a call that runs: never refused. */
static bool is_end(const struct rpc_msg *rpc)
{
	return rpc->kind == RPC_RESPONSE || (rpc->kind == RPC_NOTICE && strcmp(rpc->method, "notifications/cancelled") == 0);
}

bool mcp_charge(struct mcp_exchange *x, const struct mcp_in *in, struct rpc_msg *rpc)
{
	struct call_engine *calls = x->srv->env.calls;
	bool whole = !rpc->array && rpc_check(rpc, NULL) == 0;
	struct err err = { 0 };

	if (x->ch && x->ch->over)
		return refuse_channel(x, in, rpc);
	if (whole && is_end(rpc)) {
		call_charge_more(calls, x->who, 1);
		return true;
	}
	if (call_charge(calls, x->who, cost_of(x, rpc), whole && is_loose(rpc), &err) == 0)
		return true;
	refuse(x, in, rpc->array ? (struct jx_span){ NULL, 0 } : rpc->id, !in->http && whole && rpc->kind != RPC_REQUEST, &err);
	return false;
}

void mcp_charge_result(struct mcp_exchange *x, size_t len)
{
	if (len >= UNIT_BYTES)
		call_charge_more(x->srv->env.calls, x->who, (unsigned)(len / UNIT_BYTES));
}
