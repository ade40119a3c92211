/* tools/list, prompts/list, resources/list, resources/templates/list (MCP sections 4.1 and 9): a page of the registry's
 * text, its cursor, its record. */

#include "config.h"

#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/seal.h"
#include "call/call.h"
#include "ev/ev.h"
#include "metrics/metric.h"
#include "registry/registry.h"
#include "tenant/tenant.h"

#include "method_int.h"

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
	return msg->rpc->cursor.len < sizeof text && rpc_string(msg->rpc->cursor, text, sizeof text, &len) &&
		seal_open(x->srv->cursors, &of, sizeof of, text, len, ret) == 0;
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
	    slot->generation == generation && slot->what == what && slot->tport == now.tport && now.at_us - slot->at_us < LIST_REPEAT_US) {
		met_inc(MET_list_records_merged);
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

static void send_page(struct mcp_req *req, struct reg_snapshot *snap, enum reg_kind kind, const char *after)
{
	struct mcp_exchange *x = req->x;
	struct mcp_memory *memory = exchange_memory(x);
	enum reg_family family = reg_kinds[kind].family;
	const struct cursor_of of = { snap->tenant_id, (int64_t)kind };
	struct enc_result r = { .kind = ENC_LIST, .list = lists[kind].list };
	struct str next = STR_INIT;
	const struct reg_ask ask = { .kind = kind, .rev = req->rev, .after = after, .scopes = x->who->scopes,
				     .all = req->rev == REV_R0 };       /* it has no pages (MCP D) */
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
		seal_make(x->srv->cursors, &of, sizeof of, page.last, strlen(page.last), &next);
		r.next = next.p;
		r.next_len = next.len;
	}
	if (memory && memory->announced[family] < snap->generation[family])
		memory->announced[family] = snap->generation[family];
	(void)snprintf(detail, sizeof detail, "%zu %s", page.total, lists[kind].noun); /* fits */
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

void m_tools_list(struct mcp_req *req, const struct mcp_msg *msg)
{
	list(req, msg, REG_TOOL);
}

void m_prompts_list(struct mcp_req *req, const struct mcp_msg *msg)
{
	list(req, msg, REG_PROMPT);
}

void m_resources_list(struct mcp_req *req, const struct mcp_msg *msg)
{
	list(req, msg, REG_RESOURCE);
}

void m_templates_list(struct mcp_req *req, const struct mcp_msg *msg)
{
	list(req, msg, REG_TEMPLATE);
}
