/* The server: its tables, the way in of a message, the method table. */

#include "config.h"

#include "mcp/mcp.h"

#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/seal.h"
#include "call/call.h"
#include "ev/ev.h"
#include "metrics/metric.h"
#include "registry/registry.h"
#include "tenant/scope.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "method_int.h"

#define BIT(rev) (1u << (rev))
enum {
	LEGACY = BIT(REV_R0) | BIT(REV_R1) | BIT(REV_R2) | BIT(REV_R3) | BIT(REV_R4),
	MODERN = BIT(REV_R5),
	ALL = LEGACY | MODERN,
	TASKS_OF_R4 = BIT(REV_R4) | MODERN,
};

/* A row without a right does not compile: 0 is none. */
#define METHOD(name, revs, capability, right, repeats, run) \
	{ name, revs, capability, (right) * sizeof(char[(right) != 0 ? 1 : -1]), repeats, run }

/* What is never declared has no handler (MCP B-36); its row is here for Mcp-Name. */
const struct mcp_method mcp_methods[] = {
	METHOD("initialize", LEGACY, 0, SCOPE_ANYONE, NAME_NONE, m_initialize),
	METHOD("ping", LEGACY, 0, SCOPE_ANYONE, NAME_NONE, m_ping),
	METHOD("server/discover", MODERN, 0, SCOPE_ANYONE, NAME_NONE, m_discover),
	METHOD("tools/list", ALL, SRV_TOOLS, SCOPE_TOOLS_LIST, NAME_NONE, m_tools_list),
	METHOD("tools/call", ALL, SRV_TOOLS, SCOPE_TOOLS_CALL, NAME_NAME, m_tools_call),
	METHOD("subscriptions/listen", MODERN, 0, SCOPE_ANYONE, NAME_NONE, m_listen),
	METHOD("logging/setLevel", LEGACY, SRV_LOGGING, SCOPE_ANYONE, NAME_NONE, m_set_level),
	METHOD("resources/list", ALL, SRV_RESOURCES, SCOPE_RESOURCES_LIST, NAME_NONE, m_resources_list),
	METHOD("resources/templates/list", ALL, SRV_RESOURCES, SCOPE_RESOURCES_LIST, NAME_NONE, m_templates_list),
	METHOD("resources/read", ALL, SRV_RESOURCES, SCOPE_RESOURCES_READ, NAME_URI, m_resources_read),
	METHOD("resources/subscribe", LEGACY, SRV_RESOURCES, SCOPE_RESOURCES_READ, NAME_NONE, m_subscribe),
	METHOD("resources/unsubscribe", LEGACY, SRV_RESOURCES, SCOPE_RESOURCES_READ, NAME_NONE, m_unsubscribe),
	METHOD("prompts/list", ALL, SRV_PROMPTS, SCOPE_PROMPTS_LIST, NAME_NONE, m_prompts_list),
	METHOD("prompts/get", ALL, SRV_PROMPTS, SCOPE_PROMPTS_GET, NAME_NAME, m_prompts_get),
	METHOD("completion/complete", ALL, SRV_COMPLETIONS, SCOPE_PROMPTS_GET | SCOPE_RESOURCES_READ, NAME_NONE, m_complete),
	METHOD("tasks/get", TASKS_OF_R4, SRV_TASKS, SCOPE_TOOLS_CALL, NAME_TASK, NULL),
	METHOD("tasks/cancel", TASKS_OF_R4, SRV_TASKS, SCOPE_TOOLS_CALL, NAME_TASK, NULL),
	METHOD("tasks/update", MODERN, SRV_TASKS, SCOPE_TOOLS_CALL, NAME_TASK, NULL),
	METHOD("tasks/list", BIT(REV_R4), SRV_TASKS, SCOPE_TOOLS_CALL, NAME_NONE, NULL),
	METHOD("tasks/result", BIT(REV_R4), SRV_TASKS, SCOPE_TOOLS_CALL, NAME_NONE, NULL),
	{ NULL, 0, 0, 0, NAME_NONE, NULL },
};

const struct mcp_method *mcp_method_find(const char *name)
{
	for (const struct mcp_method *m = mcp_methods; m->name; m++)
		if (strcmp(m->name, name) == 0)
			return m;
	return NULL;
}

unsigned mcp_has(const struct reg_snapshot *snap)
{
	unsigned has = SRV_ALWAYS;

	if (snap->list[REG_PROMPT].count)
		has |= SRV_PROMPTS;
	if (snap->list[REG_RESOURCE].count || snap->list[REG_TEMPLATE].count)
		has |= SRV_RESOURCES;
	return snap->completes ? has | SRV_COMPLETIONS : has;
}

unsigned mcp_declared(const struct mcp_req *req)
{
	struct registry *reg = req->x->srv->env.registry;
	struct mcp_memory *memory = req->x->modern ? NULL : exchange_memory(req->x);
	struct reg_snapshot *snap;
	unsigned has;

	if (memory && memory->state != LEGACY_NONE)
		return memory->declared;
	snap = reg_acquire(reg, req->x->who->tenant_id);
	has = mcp_has(snap);
	reg_release(reg, &snap);
	return has;
}

unsigned mcp_enc_has(unsigned declared)
{
	return (declared & SRV_PROMPTS ? (unsigned)ENC_HAS_PROMPTS : 0) |
		(declared & SRV_RESOURCES ? (unsigned)ENC_HAS_RESOURCES : 0) |
		(declared & SRV_COMPLETIONS ? (unsigned)ENC_HAS_COMPLETIONS : 0);
}

static bool is_declared(const struct mcp_req *req, unsigned capability)
{
	return !(capability & ~(unsigned)SRV_ALWAYS) || (capability & mcp_declared(req));
}

struct scope_refusal { struct mcp_req *req; unsigned right; };

static void answer_scope(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct scope_refusal *r = arg;
	struct mcp_exchange *x = r->req->x;
	char need[SCOPE_NEED_SIZE];
	struct rpc_error e;

	if (r->req->open) {
		if (rc == 0)
			rpc_error_scope(&e, scope_need(r->right, need));
		else
			rpc_error_audit(&e, false);
		if (rc == 0)
			x->needs = r->right;
		req_fault(r->req, &e);
	}
	free(r);
	exchange_unpin(x);
}

static void answer_unrecorded(void *arg)
{
	answer_scope(arg, 0, NULL);
}

/* Recorded like a call that is denied (AUDIT A-205), before it is answered. */
static void refuse_scope(struct mcp_req *req, const struct mcp_method *m)
{
	struct mcp_exchange *x = req->x;
	struct scope_refusal *r = mem_alloc(sizeof *r);
	struct audit_event ev;

	*r = (struct scope_refusal){ req, m->right };
	exchange_pin(x);
	if (!call_may_record_denied(x->srv->env.calls, x->who, REFUSE_SCOPE)) {
		ev_defer(x->srv->env.loop, answer_unrecorded, r);
		return;
	}
	audit_event_init(&ev, AUDIT_CALL_DENIED, x->who->tenant_id);
	ev.cred = x->who->accessor[0] ? x->who->accessor : NULL;
	ev.prn = x->who->pseudonym;
	ev.actor = AUDIT_BY_SERVICE;
	ev.authn = x->who->authn;
	ev.tport = x->tport;
	ev.peer = x->peer;
	ev.rev = rev_table[req->rev].text;
	ev.rule = "scope";
	ev.detail = m->name;
	ev.has_outcome = true;
	ev.outcome = AUDIT_DENIED;
	if (writer_audit(x->srv->env.writer, &ev, answer_scope, r) < 0)
		answer_scope(r, ERR_AUDIT, NULL);
}

void mcp_dispatch(struct mcp_req *req, const struct mcp_msg *msg)
{
	const struct mcp_method *m = mcp_method_find(msg->rpc->method);
	struct rpc_error e;

	if (!m || !(m->revs & BIT(req->rev)) || !is_declared(req, m->capability)) {
		rpc_error_init(&e, FAULT_METHOD, "Method not found: %s", msg->rpc->method);
	} else if (!scope_has(req->x->who->scopes, m->right)) {
		refuse_scope(req, m);
		return;
	} else if (msg->rpc->params_bad) {      /* MCP B-52 */
		rpc_error_init(&e, FAULT_PARAMS, "params must be an object");
	} else {
		m->run(req, msg);
		return;
	}
	req_fault(req, &e);
}

struct mcp_server *mcp_server_new(const struct mcp_env *env)
{
	struct mcp_server *srv = mem_zalloc(sizeof *srv);

	srv->env = *env;
	srv->info = (struct enc_server){ "toolcrib", "toolcrib", env->version };
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
	LIST_FOREACH_SAFE(n, tmp, &srv->idle)
		session_end(CONTAINER_OF(n, struct mcp_session, idle_link));
	LIST_FOREACH_SAFE(n, tmp, &srv->exchanges)
		exchange_abandon(CONTAINER_OF(n, struct mcp_exchange, link), true);
	ev_timer_free(&srv->expiry);
	map_free(&srv->sessions);
	for (size_t it = 0; map_next(srv->tenants, &it, &key, &len, &value);) {
		watch_fini(value);
		free(value);
	}
	map_free(&srv->tenants);
	seal_free(&srv->cursors);
	str_fini(&srv->out);
	free(srv);
}

struct mcp_tenant *mcp_tenant_get(struct mcp_server *srv, int64_t id)
{
	struct mcp_tenant *t = map_get_u64(srv->tenants, (uint64_t)id);

	if (t)
		return t;
	t = mem_zalloc(sizeof *t);
	t->srv = srv;
	t->id = id;
	list_init(&t->channels);
	list_init(&t->sessions);
	list_init(&t->listens);
	t->watches = map_new();
	t->updates = ev_timer_new(srv->env.loop, notify_marked, t);
	map_set_u64(srv->tenants, (uint64_t)id, t);
	return t;
}

/* Not JSON, or JSON that the scan refuses. */
static void refuse_text(struct mcp_exchange *x, const struct mcp_in *in, const struct rpc_msg *msg,
			const struct err *why)
{
	bool json = why->code != ERR_INVALID;
	struct jx_span id = msg->id;
	struct rpc_error e;

	met_inc(MET_json_refused);
	if (!json)
		id.p = NULL;
	rpc_error_init(&e, json ? FAULT_REQUEST : FAULT_PARSE, "%s: %s (%s)",
		       json ? "Invalid Request" : "Parse error", why->msg, why->where);
	if (!json && (x->tport == AUDIT_TCP || x->tport == AUDIT_UNIX))
		x->hang_up = true;      /* a browser can be made to connect there (MCP B-06) */
	exchange_refuse(x, classify_rev_known(x, in->http), id, &e);
}

/* Its credential is not valid any more (MCP Z-01): the message is not looked at further. */
static void refuse_denied(struct mcp_exchange *x, const struct mcp_in *in, struct rpc_msg *msg,
			  const struct err *why)
{
	bool silent = !in->http && !msg->array && rpc_check(msg, NULL) == 0 && msg->kind != RPC_REQUEST;
	struct rpc_error e;

	rpc_error_init(&e, FAULT_DENIED, "%s", why->msg);
	exchange_refuse(x, classify_rev_known(x, in->http), msg->id, &e);
	if (silent)
		str_reset(&x->reply);   /* MCP J-06 */
}

static size_t count_elements(const struct mcp_in *in)
{
	struct rpc_walk w;
	struct jx_span v;
	const char *p = in->text;
	size_t n = 0;

	while (*p != '[')
		p++;
	rpc_walk_start(&w, (struct jx_span){ p, in->len - (size_t)(p - in->text) });
	while (n <= MCP_BATCH_MAX && rpc_walk_element(&w, &v))
		n++;
	return n;
}

static void classify(struct mcp_exchange *x, const struct mcp_in *in, struct mcp_msg *msg)
{
	if (msg->rpc->array)
		classify_batch(x, in);
	else
		classify_single(x, msg);
}

void mcp_input(struct mcp_server *srv, struct mcp_channel *ch, const struct mcp_in *in,
	       const struct mcp_sink *sink, struct mcp_exchange **ret)
{
	struct rpc_msg rpc;
	struct mcp_msg msg = { .rpc = &rpc, .http = in->http };
	struct mcp_exchange *x;
	struct err err = { 0 };
	int rc;

	if (ch && ch->deaf) {
		if (ret)
			*ret = NULL;
		return;
	}
	rc = rpc_scan(in->text, in->len, &rpc, &err);
	x = exchange_new(srv, ch, in, sink, rc == 0 && rpc.array ? count_elements(in) : 1);
	if (ret)
		*ret = x;
	srv->inside++;
	met_inc(MET_requests);
	if (ch)
		channel_touch(ch);
	if (rc < 0) {
		call_charge_more(srv->env.calls, x->who, 1);    /* SEC S-803 */
		refuse_text(x, in, &rpc, &err);
	} else if (principal_check(srv->env.tenants, in->who, &err) < 0) {
		refuse_denied(x, in, &rpc, &err);
	} else if (mcp_charge(x, in, &rpc)) {
		classify(x, in, &msg);
	}
	x->inside = false;
	if (ch)
		ch->deaf = x->hang_up;
	exchange_settle(x);
	srv->inside--;
}
