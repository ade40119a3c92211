/* The methods of the protocol: their table, who may call them and when, and the bodies of those that open and probe a
 * connection and of the lists.  message.c hands each request to mcp_dispatch(), on the loop's thread.  A row without a
 * right does not compile, and a body runs only when its revision has the method, its capability is declared and its
 * right is held. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/tally.h"
#include "call/call.h"
#include "ev/ev.h"
#include "mcp/mcp.h"
#include "proto/caps.h"
#include "registry/registry.h"
#include "tenant/scope.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "method_int.h"

/* --- tools/list, prompts/list, resources/list, resources/templates/list (MCP sections 4.1 and 9) */

/* A page of the registry's text, its cursor, its record. */

enum { CURSOR_MAX = 512, SHED_LISTS = 90 };

static const struct { enum enc_list list; const char *noun; } lists[REG_KINDS] = {
	[REG_TOOL] = { ENC_TOOLS, "tools" },
	[REG_PROMPT] = { ENC_PROMPTS, "prompts" },
	[REG_RESOURCE] = { ENC_RESOURCES, "resources" },
	[REG_TEMPLATE] = { ENC_TEMPLATES, "resource templates" },
};

/* What a cursor belongs to. */
struct cursor_of { int64_t tenant_id, kind; };

/* The cursor is the last name of the page before, sealed for the tenant and the list: it survives any change of the
 * list, and means nothing to another tenant (MCP B-18). */
static bool read_cursor(struct mcp_req *req, const struct mcp_msg *msg, enum reg_kind kind, struct str *ret)
{
	struct mcp_exchange *x = req->x;
	const struct cursor_of of = { x->who->tenant_id, (int64_t)kind };
	char text[CURSOR_MAX];
	size_t len;

	if (!msg->rpc->cursor.p || rpc_is_null(msg->rpc->cursor))       /* MCP B-52 */
		return true;
	return msg->rpc->cursor.len < sizeof(text) && rpc_string(msg->rpc->cursor, text, sizeof(text), &len) &&
		seal_open(x->srv->cursors, &of, sizeof(of), text, len, ret) == 0;
}

static void send_page(struct mcp_req *req, struct reg_snapshot *snap, enum reg_kind kind, const char *after)
{
	struct mcp_exchange *x = req->x;
	struct mcp_memory *memory = exchange_memory(x);
	enum reg_family family = reg_kinds[kind].family;
	const struct cursor_of of = { snap->tenant_id, (int64_t)kind };
	struct enc_result r = { .kind = ENC_LIST, .list = lists[kind].list };
	struct str next = STR_INIT;
	const struct reg_ask ask = { .kind = kind, .rev = req->rev, .after = after, .scopes = x->who->scopes,
				     .apps = req->caps & CAP_UI, .all = req->rev == REV_R0 };       /* it has no pages (MCP D) */
	struct reg_page page;
	struct rpc_error e;
	char detail[48];

	if (reg_page(x->srv->env.registry, snap, &ask, &page, NULL) < 0) {
		rpc_error_init(&e, FAULT_INTERNAL, NULL);
		req_fault(req, &e);
		return;
	}
	r.page = page.text;
	r.page_len = page.len;
	if (page.last) {
		seal_make(x->srv->cursors, &of, sizeof(of), page.last, strlen(page.last), &next);
		r.next = next.p;
		r.next_len = next.len;
	}
	if (memory && memory->announced[family] < snap->generation[family])
		memory->announced[family] = snap->generation[family];
	(void)snprintf(detail, sizeof(detail), "%zu %s", page.total, lists[kind].noun); /* fits */
	list_record(req, snap->generation[family], r.page_len, detail, &lists[kind]);
	req_result(req, &r);
	str_fini(&next);
}

static void list(struct mcp_req *req, const struct mcp_msg *msg, enum reg_kind kind)
{
	struct mcp_server *srv = req->x->srv;
	struct str after = STR_INIT;
	struct reg_snapshot *snap;
	struct rpc_error e;

	if (call_shed(srv->env.calls, req->x->who, SHED_LISTS)) {       /* SEC S-807 */
		rpc_error_init(&e, FAULT_BUSY, NULL);
		req_fault(req, &e);
	} else if (req->rev != REV_R0 && !read_cursor(req, msg, kind, &after)) {       /* MCP T-05 */
		rpc_error_init(&e, FAULT_PARAMS, "Invalid cursor");
		rpc_error_text(&e, "reason", "invalid_cursor");
		req_fault(req, &e);
	} else {
		snap = reg_acquire(srv->env.registry, req->x->who->tenant_id);
		send_page(req, snap, kind, after.len ? after.p : NULL);
		reg_release(srv->env.registry, &snap);
	}
	str_fini(&after);
}

static void m_tools_list(struct mcp_req *req, const struct mcp_msg *msg)
{
	list(req, msg, REG_TOOL);
}

static void m_prompts_list(struct mcp_req *req, const struct mcp_msg *msg)
{
	list(req, msg, REG_PROMPT);
}

static void m_resources_list(struct mcp_req *req, const struct mcp_msg *msg)
{
	list(req, msg, REG_RESOURCE);
}

/* m_lists.c */
static void m_templates_list(struct mcp_req *req, const struct mcp_msg *msg)
{
	list(req, msg, REG_TEMPLATE);
}

/* --- initialize, ping, logging/setLevel, server/discover (MCP sections 2, 3 and 8) */

enum { VERSION_SIZE = 64, LEVEL_SIZE = 32 };

struct init_params { struct jx_span version, caps, client; };

static void read_params(struct jx_span params, struct init_params *ret)
{
	struct rpc_walk w;
	struct jx_span v;
	char name[32];

	memset(ret, 0, sizeof(*ret));
	if (!params.p)
		return;
	rpc_walk_start(&w, params);
	while (rpc_walk_member(&w, name, sizeof(name), &v)) {
		if (strcmp(name, "protocolVersion") == 0)
			ret->version = v;
		else if (strcmp(name, "capabilities") == 0)
			ret->caps = v;
		else if (strcmp(name, "clientInfo") == 0)
			ret->client = v;
	}
}

/* MCP L-02, B-08: echo what we speak, else offer the newest that has a handshake. */
static enum rev negotiate(const char *asked)
{
	enum rev rev = rev_find(asked, strlen(asked));

	return rev == REV_COUNT || rev_table[rev].era == ERA_MODERN ? REV_LEGACY_NEWEST : rev;
}

static void remember(struct mcp_memory *m, struct mcp_req *req, const struct init_params *p)
{
	struct registry *reg = req->x->srv->env.registry;
	struct reg_snapshot *snap;
	json_t *caps = NULL;

	m->state = LEGACY_INIT;
	m->rev = req->rev;
	m->caps = 0;
	m->log_level = MCP_LOG_OFF;
	m->client[0] = '\0';
	if (rpc_is(p->caps, '{') && jx_parse_scanned(p->caps.p, p->caps.len, &caps, NULL) == 0)
		m->caps = caps_from_json(caps) & (rev_table[m->rev].asks | CAP_UI);     /* MCP L-06, UI-03 */
	json_decref(caps);
	(void)client_read(p->client, m->client);        /* a claim, for views; without it nothing is lost */
	snap = reg_acquire(reg, req->x->who->tenant_id);
	m->declared = mcp_has(snap);
	memcpy(m->announced, snap->generation, sizeof(m->announced));
	reg_release(reg, &snap);
	subs_fini(&m->subs);
}

/* The capabilities that hold for a request (MCP B-15): what the peer's initialize result declared, else what its
 * tenant has now. */
static unsigned declared_for(const struct mcp_req *req)
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

/* The same as ENC_HAS_ bits. */
static unsigned enc_has(unsigned declared)
{
	return (declared & SRV_PROMPTS ? (unsigned)ENC_HAS_PROMPTS : 0) |
		(declared & SRV_RESOURCES ? (unsigned)ENC_HAS_RESOURCES : 0) |
		(declared & SRV_COMPLETIONS ? (unsigned)ENC_HAS_COMPLETIONS : 0) |
		(declared & SRV_PAGES ? (unsigned)ENC_HAS_PAGES : 0);
}

static void m_initialize(struct mcp_req *req, const struct mcp_msg *msg)
{
	struct mcp_exchange *x = req->x;
	char asked[VERSION_SIZE];
	struct init_params p;
	struct mcp_memory *memory;
	struct mcp_session *s;
	struct rpc_error e;

	read_params(msg->rpc->params, &p);
	if (!rpc_string(p.version, asked, sizeof(asked), NULL)) {
		rpc_error_init(&e, FAULT_PARAMS, "params.protocolVersion must be a string");
		req_fault(req, &e);
		return;
	}
	req->rev = negotiate(asked);
	if (x->ch) {
		memory = &x->ch->memory;
	} else {
		s = session_new(x, &e);
		if (!s) {
			req_fault(req, &e);
			return;
		}
		memory = &s->memory;
		memcpy(x->session_id, s->id, sizeof(x->session_id));
	}
	remember(memory, req, &p);
	req_result(req, &(struct enc_result){ .kind = ENC_INITIALIZE, .has = enc_has(memory->declared) });
}

static void m_ping(struct mcp_req *req, const struct mcp_msg *msg)
{
	req_result(req, &(struct enc_result){ .kind = ENC_EMPTY });
}

/* What the handlers of calls have to say, from the next call on (MCP G-02). */
static void m_set_level(struct mcp_req *req, const struct mcp_msg *msg)
{
	struct mcp_memory *memory = exchange_memory(req->x);
	struct rpc_walk w;
	struct jx_span v;
	char name[16], level[LEVEL_SIZE] = "";
	struct rpc_error e;

	if (msg->rpc->params.p) {
		rpc_walk_start(&w, msg->rpc->params);
		while (rpc_walk_member(&w, name, sizeof(name), &v)) {
			if (strcmp(name, "level") == 0 && !rpc_string(v, level, sizeof(level), NULL))
				level[0] = '\0';
		}
	}
	if (encode_log_level(level) < 0) {
		rpc_error_arguments(&e, "params.level must be debug, info, notice, warning, error, critical, alert or "
				    "emergency");
		req_fault(req, &e);
		return;
	}
	if (!memory) {
		rpc_error_init(&e, FAULT_PARAMS, "A level needs a session: initialize first");
		req_fault(req, &e);
		return;
	}
	memory->log_level = encode_log_level(level);
	req_result(req, &(struct enc_result){ .kind = ENC_EMPTY });
}

static void m_discover(struct mcp_req *req, const struct mcp_msg *msg)
{
	req_result(req, &(struct enc_result){ .kind = ENC_DISCOVER, .has = enc_has(declared_for(req)) });
}

/* --- the table */

#define BIT(rev) (1u << (rev))
enum {
	LEGACY = BIT(REV_R0) | BIT(REV_R1) | BIT(REV_R2) | BIT(REV_R3) | BIT(REV_R4),
	MODERN = BIT(REV_R5),
	ALL = LEGACY | MODERN,
};

/* A row without a right does not compile: 0 is none. */
#define METHOD(name, revs, capability, right, repeats, run) \
	{ name, revs, capability, (right) * sizeof(char[(right) != 0 ? 1 : -1]), repeats, run }

/* What is never declared has no handler: tasks of R4 (MCP B-36). */
const struct mcp_method mcp_methods[] = {
	METHOD("initialize", LEGACY, 0, SCOPE_ANYONE, NAME_NONE, m_initialize),
	METHOD("ping", LEGACY, 0, SCOPE_ANYONE, NAME_NONE, m_ping),
	METHOD("server/discover", MODERN, 0, SCOPE_ANYONE, NAME_NONE, m_discover),
	METHOD("tools/list", ALL, SRV_TOOLS, SCOPE_TOOLS_LIST, NAME_NONE, m_tools_list),
	METHOD("tools/call", ALL, SRV_TOOLS, SCOPE_TOOLS_CALL, NAME_NAME, m_tools_call),
	METHOD("subscriptions/listen", MODERN, 0, SCOPE_ANYONE, NAME_NONE, m_listen_tasks),
	METHOD("logging/setLevel", LEGACY, SRV_LOGGING, SCOPE_ANYONE, NAME_NONE, m_set_level),
	METHOD("resources/list", ALL, SRV_RESOURCES, SCOPE_RESOURCES_LIST, NAME_NONE, m_resources_list),
	METHOD("resources/templates/list", ALL, SRV_RESOURCES, SCOPE_RESOURCES_LIST, NAME_NONE, m_templates_list),
	METHOD("resources/read", ALL, SRV_RESOURCES, SCOPE_RESOURCES_READ, NAME_URI, m_resources_read),
	METHOD("resources/subscribe", LEGACY, SRV_RESOURCES, SCOPE_RESOURCES_READ, NAME_NONE, m_subscribe),
	METHOD("resources/unsubscribe", LEGACY, SRV_RESOURCES, SCOPE_RESOURCES_READ, NAME_NONE, m_unsubscribe),
	METHOD("prompts/list", ALL, SRV_PROMPTS, SCOPE_PROMPTS_LIST, NAME_NONE, m_prompts_list),
	METHOD("prompts/get", ALL, SRV_PROMPTS, SCOPE_PROMPTS_GET, NAME_NAME, m_prompts_get),
	METHOD("completion/complete", ALL, SRV_COMPLETIONS, SCOPE_PROMPTS_GET | SCOPE_RESOURCES_READ, NAME_NONE,
	       m_complete),
	METHOD("tasks/get", MODERN, 0, SCOPE_TOOLS_CALL, NAME_TASK, m_tasks),
	METHOD("tasks/cancel", MODERN, 0, SCOPE_TOOLS_CALL, NAME_TASK, m_tasks),
	METHOD("tasks/update", MODERN, 0, SCOPE_TOOLS_CALL, NAME_TASK, m_tasks),
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

static bool is_declared(const struct mcp_req *req, unsigned capability)
{
	return !(capability & ~(unsigned)SRV_ALWAYS) || (capability & declared_for(req));
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
	struct scope_refusal *r = mem_alloc(sizeof(*r));
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

	req->method = m ? m->name : TALLY_OTHER;
	req->begun_us = clock_mono_us();
	if (!m || m->run != m_listen_tasks)           /* which lasts as long as somebody listens */
		req_span_begin(req, msg);
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
