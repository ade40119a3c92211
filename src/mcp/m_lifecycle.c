/* initialize, ping, logging/setLevel, server/discover (MCP sections 2, 3 and 8). */

#include "config.h"

#include <stdio.h>
#include <string.h>

#include "proto/caps.h"
#include "tenant/tenant.h"

#include "method_int.h"

enum { VERSION_SIZE = 64, LEVEL_SIZE = 32 };

struct init_params { struct jx_span version, caps, client; };

static void read_params(struct jx_span params, struct init_params *ret)
{
	struct rpc_walk w;
	struct jx_span v;
	char name[32];

	memset(ret, 0, sizeof *ret);
	if (!params.p)
		return;
	rpc_walk_start(&w, params);
	while (rpc_walk_member(&w, name, sizeof name, &v)) {
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
		m->caps = caps_from_json(caps) & rev_table[m->rev].asks;        /* MCP L-06 */
	json_decref(caps);
	(void)client_read(p->client, m->client);        /* a claim, for views; without it nothing is lost */
	snap = reg_acquire(reg, req->x->who->tenant_id);
	m->declared = mcp_has(snap);
	memcpy(m->announced, snap->generation, sizeof m->announced);
	reg_release(reg, &snap);
	subs_fini(&m->subs);
}

void m_initialize(struct mcp_req *req, const struct mcp_msg *msg)
{
	struct mcp_exchange *x = req->x;
	char asked[VERSION_SIZE];
	struct init_params p;
	struct mcp_memory *memory;
	struct mcp_session *s;
	struct rpc_error e;

	read_params(msg->rpc->params, &p);
	if (!rpc_string(p.version, asked, sizeof asked, NULL)) {
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
		memcpy(x->session_id, s->id, sizeof x->session_id);
	}
	remember(memory, req, &p);
	req_result(req, &(struct enc_result){ .kind = ENC_INITIALIZE, .has = mcp_enc_has(memory->declared) });
}

void m_ping(struct mcp_req *req, const struct mcp_msg *msg)
{
	req_result(req, &(struct enc_result){ .kind = ENC_EMPTY });
}

/* What the handlers of calls have to say, from the next call on (MCP G-02). */
void m_set_level(struct mcp_req *req, const struct mcp_msg *msg)
{
	struct mcp_memory *memory = exchange_memory(req->x);
	struct rpc_walk w;
	struct jx_span v;
	char name[16], level[LEVEL_SIZE] = "";
	struct rpc_error e;

	if (msg->rpc->params.p) {
		rpc_walk_start(&w, msg->rpc->params);
		while (rpc_walk_member(&w, name, sizeof name, &v)) {
			if (strcmp(name, "level") == 0 && !rpc_string(v, level, sizeof level, NULL))
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

void m_discover(struct mcp_req *req, const struct mcp_msg *msg)
{
	req_result(req, &(struct enc_result){ .kind = ENC_DISCOVER, .has = mcp_enc_has(mcp_declared(req)) });
}
