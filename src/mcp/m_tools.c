/* tools/list and tools/call (MCP section 4).  A call belongs to the call engine from call_start() on; what comes
 * back is put into the words of the caller's revision here. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/seal.h"
#include "base/text.h"
#include "call/call.h"
#include "ev/ev.h"
#include "metrics/metric.h"
#include "registry/registry.h"
#include "tenant/tenant.h"

#include "mcp_int.h"

enum { CURSOR_MAX = 512 };

/* tools/list */

/* The cursor is the last name of the page before, sealed for the tenant: it survives any change of the list, and
 * means nothing to another tenant (MCP B-18). */
static bool read_cursor(struct mcp_req *req, const struct mcp_msg *msg, struct str *ret)
{
	struct mcp_exchange *x = req->x;
	int64_t tenant = x->who->tenant_id;
	char text[CURSOR_MAX];
	size_t len;

	if (!msg->rpc->cursor.p || rpc_is_null(msg->rpc->cursor))       /* MCP B-52 */
		return true;
	return msg->rpc->cursor.len < sizeof text && rpc_string(msg->rpc->cursor, text, sizeof text, &len) &&
		seal_open(x->srv->cursors, &tenant, sizeof tenant, text, len, ret) == 0;
}

/* A client that reads its list again and again says nothing new: one record a second tells what it saw. */
static bool listed_before(struct mcp_exchange *x, int64_t generation, size_t len)
{
	struct mcp_tenant *t = mcp_tenant_get(x->srv, x->who->tenant_id);
	struct mcp_listed *slot = &t->listed[(uint64_t)x->who->principal_id % LIST_SLOTS];
	struct mcp_listed now = { x->who->principal_id, x->who->cred_id, generation, len, x->tport,
		ev_now_us(x->srv->env.loop) };

	if (slot->at_us && slot->principal_id == now.principal_id && slot->cred_id == now.cred_id && slot->len == len &&
	    slot->generation == generation && slot->tport == now.tport && now.at_us - slot->at_us < LIST_REPEAT_US) {
		met_inc(MET_list_records_merged);
		return true;
	}
	*slot = now;
	return false;
}

static void record_list(struct mcp_req *req, const struct reg_snapshot *snap, size_t len)
{
	struct mcp_exchange *x = req->x;
	const struct principal *who = x->who;
	struct audit_event ev;
	char detail[32];

	if (listed_before(x, snap->generation, len))
		return;
	audit_event_init(&ev, AUDIT_LIST, who->tenant_id);
	ev.cred = who->accessor[0] ? who->accessor : NULL;
	ev.prn = who->pseudonym;
	ev.actor = AUDIT_BY_SERVICE;
	ev.authn = who->authn;
	ev.tport = x->tport;
	ev.rev = rev_table[req->rev].text;
	ev.n_res = (int64_t)len;
	ev.generation = (uint64_t)snap->generation;
	(void)snprintf(detail, sizeof detail, "%zu tools", snap->tool_count);
	ev.detail = detail;
	mcp_record(x->srv, &ev);
}

static void send_page(struct mcp_req *req, struct reg_snapshot *snap, const char *after)
{
	struct mcp_exchange *x = req->x;
	struct mcp_memory *memory = exchange_memory(x);
	struct enc_result r = { .kind = ENC_LIST };
	struct str next = STR_INIT;
	const char *last = NULL;
	bool all = req->rev == REV_R0;  /* it has no pages (MCP D) */
	struct rpc_error e;

	if (reg_page(x->srv->env.registry, snap, req->rev, all, after, &r.page, &r.page_len, &last, NULL) < 0) {
		rpc_error_init(&e, FAULT_INTERNAL, NULL);
		req_fault(req, &e);
		return;
	}
	if (last) {
		seal_make(x->srv->cursors, &snap->tenant_id, sizeof snap->tenant_id, last, strlen(last), &next);
		r.next = next.p;
		r.next_len = next.len;
	}
	if (memory && memory->announced < snap->generation)
		memory->announced = snap->generation;
	record_list(req, snap, r.page_len);
	req_result(req, &r);
	str_fini(&next);
}

void m_tools_list(struct mcp_req *req, const struct mcp_msg *msg)
{
	struct mcp_server *srv = req->x->srv;
	struct str after = STR_INIT;
	struct reg_snapshot *snap;
	struct rpc_error e;

	if (req->rev != REV_R0 && !read_cursor(req, msg, &after)) {     /* MCP T-05 */
		rpc_error_init(&e, FAULT_PARAMS, "Invalid cursor");
		rpc_error_text(&e, "reason", "invalid_cursor");
		req_fault(req, &e);
	} else {
		snap = reg_acquire(srv->env.registry, req->x->who->tenant_id);
		send_page(req, snap, after.len ? after.p : NULL);
		reg_release(srv->env.registry, &snap);
	}
	str_fini(&after);
}

/* tools/call: the way out of the engine */

/* The peer does not read what it has: progress and logs may be dropped, answers never (MCP B-40). */
static bool is_slow(const struct mcp_req *req)
{
	const struct mcp_channel *ch = req->x->ch;

	return ch && ch->ops->queued(ch->peer) > MCP_QUEUED_MAX;
}

static void on_progress(void *arg, double done, double total, const char *note)
{
	struct mcp_req *req = arg;
	struct mcp_server *srv = req->x->srv;
	struct enc_progress p = { req->token, done, total, note };
	uint64_t now = ev_now_us(srv->env.loop);
	bool first = req->progress_us == 0;

	if (!req->token.p || is_slow(req))      /* MCP P-01 */
		return;
	/* MCP P-02, P-04 */
	if (!first && (done <= req->progress || now - req->progress_us < MCP_PROGRESS_GAP_US))
		return;
	req->progress = done;
	req->progress_us = now ? now : 1;
	str_reset(&srv->out);
	encode_progress(&srv->out, req->rev, &p);
	req_notice(req, &srv->out);
}

static void on_log(void *arg, int level, const char *logger, json_t *data)
{
	struct mcp_req *req = arg;
	struct mcp_server *srv = req->x->srv;

	if (level >= req->log_level && !is_slow(req)) { /* MCP G-02, G-03 */
		str_reset(&srv->out);
		encode_log(&srv->out, level, logger, data);
		req_notice(req, &srv->out);
	}
	json_decref(data);
}

static int on_ask(void *arg, const json_t *requests, struct err *err)
{
	return asking_start(arg, requests, err);
}

static bool on_is_gone(void *arg)
{
	struct mcp_req *req = arg;

	return req->x->closed || req->mute;
}

static void end_with_result(struct mcp_req *req, const struct call_end *end)
{
	const struct backend_result *res = end->result;
	struct enc_result r = { .kind = ENC_CALL, .content = res->content, .structured = res->structured,
				.meta = res->meta, .is_error = res->is_error, .unwrapped = req->hidden_output,
				.wrapped = req->wrapped_output, .call_id = end->call_id };

	req_result(req, &r);
}

/* A failure that a model can act on: a result with one text. */
static void end_with_text(struct mcp_req *req, const struct call_end *end, const char *text)
{
	struct enc_result r = { .kind = ENC_CALL, .text = text, .is_error = true, .call_id = end->call_id };

	req_result(req, &r);
}

/* The first is a plain sentence, those behind it say where they belong (MCP D). */
static void put_failure(struct str *text, const struct schema_failure *f, bool first)
{
	if (first)
		str_puts(text, f->text);
	else
		str_printf(text, "\n%s (%s%s%sby %s)", f->text, *f->instance ? "at " : "", f->instance,
			   *f->instance ? ", " : "", f->keyword);
}

/* MCP B-12, T-25: one report, in the form of the revision. */
static bool arguments_as_result(struct mcp_req *req, const struct call_end *end, const char *first)
{
	struct str text = STR_INIT;

	if (!rev_table[req->rev].invalid_args_is_error)
		return false;
	if (!end->report || end->report->count == 0)
		str_puts(&text, first);
	for (size_t i = 0; end->report && i < end->report->count; i++)
		put_failure(&text, &end->report->failure[i], i == 0);
	end_with_text(req, end, str_text(&text));
	str_fini(&text);
	return true;
}

static void error_of_code(struct rpc_error *e, const struct call_end *end)
{
	if (end->err->code == ERR_CANCELLED)
		rpc_error_init(e, FAULT_CANCELLED, NULL);
	else if (end->err->code == ERR_BUSY)
		rpc_error_init(e, FAULT_BUSY, NULL);
	else if (end->err->code == ERR_DENIED)
		rpc_error_init(e, FAULT_DENIED, "%s", end->err->msg);
	else
		rpc_error_init(e, FAULT_INTERNAL, NULL);
}

/* The protocol error of a refusal; false: it has been answered by a result. */
static bool refusal(struct mcp_req *req, const struct call_end *end, struct rpc_error *e)
{
	const char *first = end->report && end->report->count ? end->report->failure[0].text : end->err->msg;

	switch (end->refusal) {
	case REFUSE_UNKNOWN_TOOL:
		rpc_error_unknown_tool(e, req->rev, req->label, strlen(req->label));
		return true;
	case REFUSE_ARGUMENTS:
		if (arguments_as_result(req, end, first))
			return false;
		rpc_error_arguments(e, first);
		break;
	case REFUSE_STATE:      /* MCP B-34: no detail */
		rpc_error_init(e, FAULT_PARAMS, "Invalid request state");
		rpc_error_text(e, "reason", "invalid_request_state");
		break;
	case REFUSE_PARAMS:     /* MCP T-43 */
		rpc_error_init(e, FAULT_HEADER, "%s", end->err->msg);
		break;
	case REFUSE_CAPABILITY:
		if (!req->x->modern) {
			end_with_text(req, end, end->err->msg);
			return false;
		}
		rpc_error_capability(e, end->missing_caps);
		break;
	case REFUSE_RATE:
		rpc_error_rate(e, end->err->retry_ms);
		break;
	case REFUSE_AUDIT:
		rpc_error_audit(e, end->executed);
		break;
	case REFUSE_INTERNAL:
		rpc_error_init(e, FAULT_INTERNAL, NULL);
		break;
	case REFUSE_NONE:
		if (req->ask_failure) {
			end_with_text(req, end, req->ask_failure);
			return false;
		}
		if (end->rpc_code)
			rpc_error_tool(e, req->rev, end->rpc_code, end->err->msg, end->rpc_data);
		else
			error_of_code(e, end);
		break;
	}
	if (end->call_id && !e->whole) {        /* AUDIT A-203; never for an unknown tool (MCP B-13) */
		char id[ID_TEXT_SIZE];

		rpc_error_text(e, "callId", id_format(end->call_id, id));
	}
	return true;
}

static void release(struct call_end *end)
{
	if (end->result) {
		json_decref(end->result->content);
		json_decref(end->result->structured);
		json_decref(end->result->meta);
	}
	json_decref(end->requests);
	json_decref(end->rpc_data);
}

static void on_finish(void *arg, struct call_end *end)
{
	struct mcp_req *req = arg;
	struct mcp_exchange *x = req->x;
	struct rpc_error e;

	req->call = NULL;
	if (req->mute || x->closed)     /* MCP C-02 */
		req_drop(req);
	else if (end->result)
		end_with_result(req, end);
	else if (end->requests || end->sealed_state)
		req_result(req, &(struct enc_result){ .kind = ENC_INPUT, .requests = end->requests,
						      .state = end->sealed_state, .call_id = end->call_id });
	else if (refusal(req, end, &e))
		req_fault(req, &e);
	release(end);
	exchange_unpin(x);
}

static const struct call_out out = {
	.progress = on_progress,
	.log = on_log,
	.ask = on_ask,
	.is_gone = on_is_gone,
	.finish = on_finish,
};

/* tools/call: the way in */

struct call_input {             /* what call_start() borrows, and what must be freed behind it */
	char name[MCP_TOOL_NAME_MAX];
	size_t name_len;
	char *state;
	size_t state_len;
	struct call_param params[MCP_PARAMS_MAX];
	struct str values[MCP_PARAMS_MAX];
	size_t nparams;
	json_t *args, *answers;
};

/* A member that must be an object; *ret stays NULL when it is absent. */
static bool read_object(struct jx_span raw, const char *what, json_t **ret, struct rpc_error *e)
{
	struct err err = { 0 };

	if (!raw.p)
		return true;
	if (!rpc_is(raw, '{')) {
		rpc_error_init(e, FAULT_PARAMS, NULL);
		rpc_error_raw(e, "reason", what);
		return false;
	}
	if (jx_parse_scanned(raw.p, raw.len, ret, &err) == 0)
		return true;
	rpc_error_arguments(e, err.msg);
	return false;
}

/* inputResponses: an object of objects (MCP R-08). */
static bool read_answers(const struct mcp_msg *msg, struct call_input *in, struct rpc_error *e)
{
	const char *key;
	json_t *value;

	if (!read_object(msg->rpc->responses, "\"params.inputResponses must be an object\"", &in->answers, e))
		return false;
	json_object_foreach(in->answers, key, value) {
		if (json_is_object(value))
			continue;
		rpc_error_init(e, FAULT_PARAMS, NULL);
		rpc_error_text(e, "reason", "each member of params.inputResponses must be an object");
		return false;
	}
	return true;
}

static bool read_state(const struct mcp_msg *msg, struct call_input *in, struct rpc_error *e)
{
	struct jx_span raw = msg->rpc->state;

	if (!raw.p)
		return true;
	if (rpc_is(raw, '"') && raw.len <= MCP_STATE_MAX) {
		in->state = mem_alloc(raw.len + 1);
		if (rpc_string(raw, in->state, raw.len + 1, &in->state_len))
			return true;
	}
	rpc_error_init(e, FAULT_PARAMS, "Invalid request state");
	rpc_error_text(e, "reason", "invalid_request_state");
	return false;
}

/* Mcp-Param-* (MCP T-43, T-44). */
static bool read_params(const struct mcp_msg *msg, struct call_input *in, struct rpc_error *e)
{
	const struct mcp_headers *h = msg->http;

	if (!h)
		return true;
	if (h->nparams > MCP_PARAMS_MAX) {
		rpc_error_init(e, FAULT_HEADER, "More than %d Mcp-Param headers", MCP_PARAMS_MAX);
		return false;
	}
	for (; in->nparams < h->nparams; in->nparams++) {
		const struct mcp_param *p = &h->params[in->nparams];
		struct str *value = &in->values[in->nparams];

		str_init(value, 0);
		if (!mcp_header_decode(p->value, p->len, value)) {
			rpc_error_init(e, FAULT_HEADER, "Mcp-Param-%s cannot be decoded", p->name);
			str_fini(value);
			return false;
		}
		in->params[in->nparams] = (struct call_param){ p->name, str_text(value), value->len };
	}
	return true;
}

static bool read_call(struct mcp_req *req, const struct mcp_msg *msg, struct call_input *in, struct rpc_error *e)
{
	if (!rpc_string(msg->rpc->name, in->name, sizeof in->name, &in->name_len)) {    /* MCP T-21 */
		rpc_error_arguments(e, "params.name must be a string");
		return false;
	}
	if (!read_object(msg->rpc->arguments, "\"params.arguments must be an object\"", &in->args, e))
		return false;
	if (!req->x->modern)
		return true;
	return read_answers(msg, in, e) && read_state(msg, in, e) && read_params(msg, in, e);
}

static void input_fini(struct call_input *in)
{
	for (size_t i = 0; i < in->nparams; i++)
		str_fini(&in->values[i]);
	free(in->state);
}

/* "00-" 32 hex "-" 16 hex "-" 2 hex (W3C Trace Context); anything else starts no trace (MCP W-03). */
static void read_trace(struct mcp_req *req, const struct mcp_msg *msg)
{
	static const uint8_t none[16];
	char text[64];
	size_t len;

	if (rpc_string(msg->meta.traceparent, text, sizeof text, &len)) {
		/* `_meta` goes before the header (MCP W-04) */
	} else if (msg->http && msg->http->traceparent && strlen(msg->http->traceparent) < sizeof text) {
		len = strlen(msg->http->traceparent);
		memcpy(text, msg->http->traceparent, len + 1);
	} else {
		return;
	}
	req->has_trace = len == 55 && memcmp(text, "00-", 3) == 0 && text[35] == '-' && text[52] == '-' &&
		text_unhex(text + 3, 32, req->trace, sizeof req->trace) == 0 &&
		memcmp(req->trace, none, sizeof none) != 0;
}

static bool can_ask(const struct mcp_req *req)
{
	const struct mcp_exchange *x = req->x;

	if (x->modern || !req->memory)
		return false;
	return x->ch ? !x->ch->eof : x->sse_ok;
}

/* How the listing of R3 and R4 shows the output schema (MCP B-16). */
static void note_output(struct mcp_req *req, const struct reg_snapshot *snap, const struct call_input *in)
{
	const struct rev_row *row = &rev_table[req->rev];
	const struct reg_compiled *compiled;
	const struct reg_tool *tool;

	if (!row->output_schema || row->structured_any)
		return;
	tool = reg_find(snap, in->name, in->name_len);
	if (!tool || reg_compile(req->x->srv->env.registry, tool->def, &compiled, NULL) < 0)
		return;
	req->hidden_output = compiled->output_form == REG_OUTPUT_HIDDEN;
	req->wrapped_output = compiled->output_form == REG_OUTPUT_WRAPPED;
}

static void start(struct mcp_req *req, const struct mcp_msg *msg, struct call_input *in)
{
	struct mcp_exchange *x = req->x;
	struct call_req call = {
		.who = x->who,
		.snap = reg_acquire(x->srv->env.registry, x->who->tenant_id),
		.tool = in->name, .tool_len = in->name_len,
		.args = in->args,
		.args_text = in->args ? msg->rpc->arguments.p : "",
		.args_len = in->args ? msg->rpc->arguments.len : 0,
		.answers = in->answers,
		.sealed_state = in->state, .sealed_len = in->state_len,
		.params = in->params, .nparams = in->nparams,
		.check_params = x->modern && x->http,
		.caps = req->caps,
		.can_ask = can_ask(req),
		.rev = req->rev,
		.tport = x->tport,
		.has_trace = req->has_trace,
	};

	memcpy(call.trace, req->trace, sizeof call.trace);
	req->label = mem_strndup(in->name, in->name_len);
	note_output(req, call.snap, in);
	exchange_pin(x);
	call_start(x->srv->env.calls, &call, &out, req, &req->call);
}

void m_tools_call(struct mcp_req *req, const struct mcp_msg *msg)
{
	struct call_input in = { .name_len = 0 };
	struct rpc_error e;

	if (read_call(req, msg, &in, &e)) {
		read_trace(req, msg);
		start(req, msg, &in);
	} else {
		json_decref(in.args);
		json_decref(in.answers);
		req_fault(req, &e);
	}
	input_fini(&in);
}
