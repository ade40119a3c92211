/* tools/call, prompts/get, resources/read (MCP sections 4 and 9), and the part of completion/complete that has a
 * handler.  A call belongs to the call engine from call_start() on; what comes back is put into the words of the
 * caller's revision here. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "audit/audit.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "call/call.h"
#include "ev/ev.h"
#include "json/json.h"
#include "proto/caps.h"
#include "proto/trace.h"
#include "registry/registry.h"
#include "tenant/tenant.h"

#include "method_int.h"

#define MCP_TOOL_NAME_MAX 256           /* longer names are unknown tools anyway */
#define MCP_STATE_MAX (48u << 10)       /* bytes of a requestState: ASK_STATE_MAX sealed, in base64 */
#define MCP_PARAMS_MAX 64               /* Mcp-Param-* headers of one request */
#define MCP_QUEUED_MAX (256u << 10)     /* bytes a slow reader has waiting; beyond it progress is dropped */
#define MCP_PROGRESS_GAP_US 10000       /* least distance of two progress notices (MCP P-04) */

/* --- the way out of the engine */

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
	bool first = req->progress_us == 0, whole = total > 0 && done >= total;

	if (!req->token.p || is_slow(req))      /* MCP P-01 */
		return;
	/* MCP P-02, P-04; that all is done is told however soon. */
	if (!first && (done <= req->progress || (!whole && now - req->progress_us < MCP_PROGRESS_GAP_US)))
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

/* A failure of what is no tool has no form of its own in a result. */
static void end_with_failure(struct mcp_req *req, const struct call_end *end)
{
	const char *text = json_string_value(json_object_get(json_array_get(end->result->content, 0), "text"));
	char id[ID_TEXT_SIZE];
	struct rpc_error e;

	rpc_error_init(&e, FAULT_TOOL, "%s", text ? text : "The handler failed");
	if (end->call_id)
		rpc_error_text(&e, "callId", id_format(end->call_id, id));
	req_fault(req, &e);
}

static void end_with_result(struct mcp_req *req, const struct call_end *end)
{
	static const enum enc_kind kinds[REG_KINDS] = { [REG_TOOL] = ENC_CALL, [REG_PROMPT] = ENC_PROMPT,
		[REG_RESOURCE] = ENC_READ, [REG_TEMPLATE] = ENC_READ };
	const struct backend_result *res = end->result;
	struct enc_result r = { .kind = req->completing ? ENC_COMPLETE : kinds[req->kind],
				.content = res->content, .structured = res->structured, .meta = res->meta,
				.content_text = end->content, .structured_text = end->structured,
				.is_error = res->is_error, .unwrapped = end->output == REG_OUTPUT_HIDDEN,
				.wrapped = end->output == REG_OUTPUT_WRAPPED, .call_id = end->call_id };

	if (res->is_error && req->kind != REG_TOOL)
		end_with_failure(req, end);
	else
		req_result(req, &r);
}

/* A failure that a model can act on: a result with one text. */
static void end_with_text(struct mcp_req *req, const struct call_end *end, const char *text)
{
	struct enc_result r = { .kind = ENC_CALL, .text = text, .is_error = true, .call_id = end->call_id };

	req_result(req, &r);
}

/* What it waits for, said to programs as well (HA-08); NULL: nothing. */
static json_t *approval_meta(const struct call_end *end)
{
	if (!end->approval_id)
		return NULL;
	return json_pack("{s:{s:I, s:I}}", "dev.toolcrib/approval", "id", (json_int_t)end->approval_id, "until",
			 (json_int_t)(end->approval_until_us / 1000));
}

static void end_with_approval(struct mcp_req *req, const struct call_end *end)
{
	struct enc_result r = { .kind = ENC_CALL, .text = end->err->msg, .is_error = true, .call_id = end->call_id };
	json_t *meta = approval_meta(end);

	r.meta = meta;
	req_result(req, &r);
	json_decref(meta);
}

static void end_with_requests(struct mcp_req *req, const struct call_end *end)
{
	struct enc_result r = { .kind = ENC_INPUT, .requests = end->requests, .state = end->sealed_state,
				.call_id = end->call_id };
	json_t *meta = approval_meta(end);

	r.meta = meta;
	req_result(req, &r);
	json_decref(meta);
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

	if (req->kind != REG_TOOL || !rev_table[req->rev].invalid_args_is_error)
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

/* MCP B-13: of one that is not granted too, byte for byte. */
static void unknown(const struct mcp_req *req, struct rpc_error *e)
{
	switch (req->kind) {
	case REG_PROMPT:
		rpc_error_unknown_prompt(e, req->label, strlen(req->label));
		return;
	case REG_RESOURCE:
	case REG_TEMPLATE:
		rpc_error_unknown_resource(e, req->rev, req->label, strlen(req->label));
		return;
	case REG_TOOL:
	case REG_KINDS:
		break;
	}
	rpc_error_unknown_tool(e, req->rev, req->label, strlen(req->label));
}

/* It has run, and ended in an error.  False: that has been answered by a result. */
static bool no_refusal(struct mcp_req *req, const struct call_end *end, struct rpc_error *e)
{
	if (req->ask_failure && req->kind == REG_TOOL) {
		end_with_text(req, end, req->ask_failure);
		return false;
	}
	if (req->ask_failure)
		rpc_error_init(e, FAULT_TOOL, "%s", req->ask_failure);
	else if (end->rpc_code)
		rpc_error_tool(e, req->rev, end->rpc_code, end->err->msg, end->rpc_data);
	else
		error_of_code(e, end);
	return true;
}

/* PD-04 */
static bool denied_by_policy(struct mcp_req *req, const struct call_end *end, struct rpc_error *e)
{
	if (req->kind == REG_TOOL && !req->completing) {
		end_with_text(req, end, end->err->msg);
		return false;
	}
	rpc_error_init(e, FAULT_POLICY, "%s", end->err->msg);
	return true;
}

/* The protocol error of a refusal; false: it has been answered by a result. */
static bool refusal(struct mcp_req *req, const struct call_end *end, struct rpc_error *e)
{
	static const enum fault plain[] = { [REFUSE_BUSY] = FAULT_BUSY, [REFUSE_CANCELLED] = FAULT_CANCELLED,
		[REFUSE_UNDECIDED] = FAULT_UNDECIDED, [REFUSE_INTERNAL] = FAULT_INTERNAL };
	const char *first = end->report && end->report->count ? end->report->failure[0].text : end->err->msg;

	switch (end->refusal) {
	case REFUSE_UNKNOWN_TOOL:
	case REFUSE_SCOPE:
		unknown(req, e);
		return true;
	case REFUSE_ARGUMENTS:
	case REFUSE_RULES:
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
		if (!req->x->modern && req->kind == REG_TOOL) {
			end_with_text(req, end, end->err->msg);
			return false;
		}
		rpc_error_capability(e, end->missing_caps);
		break;
	case REFUSE_RATE:
		rpc_error_limit(e, end->err);
		break;
	case REFUSE_AUDIT:
		rpc_error_audit(e, end->executed);
		break;
	case REFUSE_POLICY:
		if (!denied_by_policy(req, end, e))
			return false;
		break;
	case REFUSE_SANDBOX:
	case REFUSE_APPROVAL:
		end_with_approval(req, end);
		return false;
	case REFUSE_BUSY: case REFUSE_CANCELLED: case REFUSE_UNDECIDED: case REFUSE_INTERNAL:
		rpc_error_init(e, plain[end->refusal], NULL);
		break;
	case REFUSE_NONE:
		if (!no_refusal(req, end, e))
			return false;
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

/* TK-31 */
static void end_with_task(struct mcp_req *req, const struct call_end *end)
{
	struct enc_task task;

	mcp_task_view(end->task, &task);
	req_result(req, &(struct enc_result){ .kind = ENC_TASK, .task = &task, .call_id = end->call_id });
}

static void on_finish(void *arg, struct call_end *end)
{
	struct mcp_req *req = arg;
	struct mcp_exchange *x = req->x;
	struct rpc_error e;

	req->call = NULL;
	req->span = end->span;
	if (req->mute || x->closed)     /* MCP C-02 */
		req_drop(req);
	else if (end->result)
		end_with_result(req, end);
	else if (end->task)
		end_with_task(req, end);
	else if (end->requests || end->sealed_state)
		end_with_requests(req, end);
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

/* --- the way in */

struct call_input {             /* what call_start() borrows, and what must be freed behind it */
	char name[MCP_URI_SIZE];
	size_t name_len;
	char *state;
	size_t state_len;
	struct call_param params[MCP_PARAMS_MAX];
	struct str values[MCP_PARAMS_MAX];
	size_t nparams;
	json_t *args, *answers;
	struct str text;        /* of arguments that are not in the message */
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

#define BASE64_HEAD "=?base64?"
#define BASE64_TAIL "?="

enum { HEADER_MAX = 8192 };

/* Without the space around it (MCP H-34).  True: it is base64. */
static bool header_trim(const char **value, size_t *len)
{
	size_t head = strlen(BASE64_HEAD), tail = strlen(BASE64_TAIL);

	while (*len && (**value == ' ' || **value == '\t')) {
		++*value;
		--*len;
	}
	while (*len && ((*value)[*len - 1] == ' ' || (*value)[*len - 1] == '\t'))
		--*len;
	return *len >= head + tail && memcmp(*value, BASE64_HEAD, head) == 0 &&
		memcmp(*value + *len - tail, BASE64_TAIL, tail) == 0;
}

static bool header_is_text(const char *value, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((value[i] < 0x20 && value[i] != '\t') || value[i] == 0x7f)
			return false;
	return true;
}

/* In either form (MCP H-35, T-44); false: malformed. */
static bool header_decode(const char *value, size_t len, struct str *ret)
{
	size_t head = strlen(BASE64_HEAD), tail = strlen(BASE64_TAIL), n;
	char *raw;
	bool ok;

	if (!header_trim(&value, &len)) {
		ok = header_is_text(value, len);
		if (ok)
			str_put(ret, value, len);
		return ok;
	}
	if (len > HEADER_MAX)
		return false;
	raw = mem_alloc(len);
	ok = text_unbase64(value + head, len - head - tail, raw, len, &n) == 0;
	if (ok)
		str_put(ret, raw, n);
	free(raw);
	return ok;
}

bool mcp_header_is(const char *value, size_t len, const char *text, size_t text_len)
{
	struct str decoded = STR_INIT;
	bool is;

	if (!header_trim(&value, &len))         /* nothing is copied of it */
		return len == text_len && header_is_text(value, len) && memcmp(value, text, len) == 0;
	is = header_decode(value, len, &decoded) && decoded.len == text_len &&
		memcmp(str_text(&decoded), text, text_len) == 0;
	str_fini(&decoded);
	return is;
}

/* Mcp-Param-* (MCP T-43, T-44). */
static bool read_param_headers(const struct mcp_msg *msg, struct call_input *in, struct rpc_error *e)
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
		if (!header_decode(p->value, p->len, value)) {
			rpc_error_init(e, FAULT_HEADER, "Mcp-Param-%s cannot be decoded", p->name);
			str_fini(value);
			return false;
		}
		in->params[in->nparams] = (struct call_param){ p->name, str_text(value), value->len };
	}
	return true;
}

static bool is_texts(const json_t *arguments)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)arguments, name, value)
		if (!json_is_string(value))
			return false;
	return true;
}

/* The name or URI, and the arguments (MCP T-21). */
static bool read_target(struct mcp_req *req, const struct mcp_msg *msg, struct call_input *in, struct rpc_error *e)
{
	bool uri = req->kind == REG_RESOURCE;

	if (!rpc_string(uri ? msg->rpc->uri : msg->rpc->name, in->name, uri ? sizeof(in->name) : MCP_TOOL_NAME_MAX,
			&in->name_len)) {
		rpc_error_arguments(e, uri ? "params.uri must be a string" : "params.name must be a string");
		return false;
	}
	if (uri)
		return true;
	if (!read_object(msg->rpc->arguments, "\"params.arguments must be an object\"", &in->args, e))
		return false;
	if (req->kind == REG_TOOL || is_texts(in->args))
		return true;
	rpc_error_arguments(e, "each member of params.arguments must be a string");
	return false;
}

static bool read_call(struct mcp_req *req, const struct mcp_msg *msg, struct call_input *in, struct rpc_error *e)
{
	if (!read_target(req, msg, in, e))
		return false;
	if (!req->x->modern)
		return true;
	return read_answers(msg, in, e) && read_state(msg, in, e) &&
	       (req->kind != REG_TOOL || read_param_headers(msg, in, e));
}

static void input_fini(struct call_input *in)
{
	for (size_t i = 0; i < in->nparams; i++)
		str_fini(&in->values[i]);
	free(in->state);
	str_fini(&in->text);
}

static bool can_ask(const struct mcp_req *req)
{
	const struct mcp_exchange *x = req->x;

	if (x->modern || !req->memory)
		return false;
	return x->ch ? !x->ch->eof : x->sse_ok;
}

/* --- the model that a call was made with (OP-1007): a claim, for its record alone */

static bool is_model(const char *text)
{
	size_t len = 0;

	while (text[len] >= ' ' && text[len] <= '~')
		len++;
	return len > 0 && len <= MCP_MODEL_MAX && text[len] == '\0';
}

/* Words of records stay in the store's dictionary, so that there is a bound to those that clients make up. */
static const char *bounded_model(struct mcp_server *srv, int64_t tenant_id, const char *text)
{
	struct mcp_tenant *t = mcp_tenant_get(srv, tenant_id);

	if (!t->models)
		t->models = map_new();
	if (map_get_z(t->models, text))
		return text;
	if (map_count(t->models) >= MCP_MODELS_MAX) {
		metric_inc(METRIC_models_other);
		return "other";
	}
	(void)map_set_z(t->models, text, srv);         /* any value: it is a set */
	return text;
}

/* NULL: it was not told. */
static const char *model_of(const struct mcp_req *req, const struct mcp_msg *msg, char buf[MCP_MODEL_MAX + 2])
{
	struct mcp_server *srv = req->x->srv;
	const char *text = NULL;
	size_t len = 0;

	if (srv->env.model_meta && msg->meta.model.p && rpc_string(msg->meta.model, buf, MCP_MODEL_MAX + 2, &len) &&
	    len == strlen(buf))
		text = buf;
	else if (srv->env.model_header && msg->http)
		text = msg->http->model;
	return text && is_model(text) ? bounded_model(srv, req->x->who->tenant_id, text) : NULL;
}

/* --- names that pages of apps use (UI-05) */

static void take_name(struct call_input *in, const char *name)
{
	in->name_len = strlen(name);
	memcpy(in->name, name, in->name_len + 1);       /* a name or URI of ours fits */
}

/* `every+ui://x/y`, as pages were called before decision 0120, is ui://every/x/y. */
static bool take_old_page(struct call_input *in, const struct reg_snapshot *snap)
{
	static struct log_site site;
	char *at = strstr(in->name, "ui://"), uri[MCP_URI_SIZE];

	if (!at || at - in->name < 2 || !strchr("+-.", at[-1]) || strlen(in->name) != in->name_len)
		return false;
	(void)snprintf(uri, sizeof(uri), "ui://%.*s/%s", (int)(at - in->name) - 1, in->name, at + strlen("ui://")); /* fits */
	if (!reg_find_uri(snap, uri, strlen(uri), NULL))
		return false;
	if (log_allow(&site))
		log_warn(NULL, "a page was read by a URI of an older release, which the next one will not know tenant_id=%lld uri=%s",
			 (long long)snap->tenant_id, uri);
	take_name(in, uri);
	return true;
}

/* What comes from a page is called as its upstream calls it; ours go first.  True: it could be several. */
static bool take_remote_name(const struct mcp_req *req, const struct reg_snapshot *snap, struct call_input *in)
{
	static struct log_site site;
	const struct reg_tool *line;
	bool resource = req->kind == REG_RESOURCE, ambiguous = false;

	if (req->kind == REG_PROMPT || in->name_len == 0 ||
	    (resource ? reg_find_uri(snap, in->name, in->name_len, NULL)
		      : reg_find(snap, REG_TOOL, in->name, in->name_len)))
		return false;
	if (resource && take_old_page(in, snap))
		return false;
	if (!(req->caps & CAP_UI))
		return false;
	line = reg_find_remote(snap, req->kind, in->name, in->name_len, req->x->who->scopes, &ambiguous);
	if (line)
		take_name(in, resource ? line->def->uri : line->name);
	if (ambiguous && log_allow(&site))
		log_warn(NULL, "an app asks by a name that several upstreams of its tenant have: grant one of them alone "
			 "tenant_id=%lld", (long long)snap->tenant_id);
	return ambiguous;
}

/* Hand over to the engine; takes the arguments. */
static void start(struct mcp_req *req, const struct mcp_msg *msg, struct call_input *in, const char *complete)
{
	struct mcp_exchange *x = req->x;
	struct reg_snapshot *snap = reg_acquire(x->srv->env.registry, x->who->tenant_id);
	bool made = complete || req->kind == REG_RESOURCE;
	bool ambiguous = !complete && take_remote_name(req, snap, in);
	struct trace trace;
	char client[MCP_CLIENT_SIZE], model[MCP_MODEL_MAX + 2];
	struct call_req call = {
		.who = x->who, .in_standing = true,     /* by mcp_input() */
		.snap = snap,
		.kind = req->kind,
		.tool = in->name, .tool_len = in->name_len, .ambiguous = ambiguous,
		.complete = complete,
		.answers = in->answers,
		.sealed_state = in->state, .sealed_len = in->state_len,
		.params = in->params, .nparams = in->nparams,
		.check_params = req->kind == REG_TOOL && x->modern && x->http,
		.caps = req->caps,
		.log_level = req->log_level,
		.can_ask = can_ask(req),
		.rev = req->rev,
		.tport = x->tport,
		.trace = !req->span && req_read_trace(msg, &trace) ? &trace : NULL,
		.span = req->span,
		.request = msg->http ? msg->http->request : NULL,
		.peer = x->peer,
		.client = req_client(req, msg, client),
		.model = model_of(req, msg, model),
	};

	if (req->kind == REG_RESOURCE)
		(void)reg_find_uri(snap, in->name, in->name_len, &in->args); /* unknown is the engine's matter */
	if (in->args && made)
		jx_write(in->args, &in->text);
	call.args = in->args;
	call.args_text = made ? str_text(&in->text) : in->args ? msg->rpc->arguments.p : "";
	call.args_len = made ? in->text.len : in->args ? msg->rpc->arguments.len : 0;
	req->label = mem_strndup(in->name, in->name_len);
	req->span = NULL;
	exchange_pin(x);
	call_charge_back(x->srv->env.calls, x->who, 1);
	call_start(x->srv->env.calls, &call, &out, req, &req->call);
}

static void run(struct mcp_req *req, const struct mcp_msg *msg, enum reg_kind kind)
{
	struct call_input in = { .name_len = 0 };
	struct rpc_error e;

	req->kind = kind;
	if (read_call(req, msg, &in, &e)) {
		start(req, msg, &in, NULL);
	} else {
		json_decref(in.args);
		json_decref(in.answers);
		req_fault(req, &e);
	}
	input_fini(&in);
}

void m_tools_call(struct mcp_req *req, const struct mcp_msg *msg)
{
	run(req, msg, REG_TOOL);
}

void m_prompts_get(struct mcp_req *req, const struct mcp_msg *msg)
{
	run(req, msg, REG_PROMPT);
}

void m_resources_read(struct mcp_req *req, const struct mcp_msg *msg)
{
	run(req, msg, REG_RESOURCE);
}

/* --- completion/complete (MCP U-04) */

/* Values of a prompt's argument or a template's variable that begin with what the caller has typed.  Where the
 * definition has the values, they are part of it and answered here, recorded like a list; a handler is a call. */

/* What a handler is asked to complete; args are taken.  ref is shorter than MCP_URI_SIZE. */
struct mcp_completion {
	enum reg_kind kind;
	const char *ref;
	size_t ref_len;
	const char *argument;
	json_t *args;
};

/* A completion that has a handler, by the call engine. */
static void call_completion(struct mcp_req *req, const struct mcp_msg *msg, const struct mcp_completion *what)
{
	struct call_input in = { .name_len = what->ref_len, .args = what->args };

	req->kind = what->kind;
	req->completing = true;
	memcpy(in.name, what->ref, what->ref_len);
	start(req, msg, &in, what->argument);
	input_fini(&in);
}

enum { VALUES_MAX = 100 };

/* What params say; the trees are owned. */
struct asked {
	json_t *ref, *argument, *context;
	const char *type, *name;        /* of the reference: name, or uri */
	const char *argument_name, *value;
};

static void asked_fini(struct asked *a)
{
	json_decref(a->ref);
	json_decref(a->argument);
	json_decref(a->context);
}

static const char *text_in(const json_t *obj, const char *name)
{
	const json_t *v = json_object_get(obj, name);
	const char *text = json_string_value(v);

	return text && strlen(text) == json_string_length(v) ? text : NULL;
}

static bool read_params(const struct mcp_msg *msg, struct asked *ret)
{
	const struct { const char *name; json_t **tree; } members[] = {
		{ "ref", &ret->ref }, { "argument", &ret->argument }, { "context", &ret->context },
	};
	struct rpc_walk w;
	struct jx_span v;
	char name[16];

	if (!msg->rpc->params.p)
		return false;
	rpc_walk_start(&w, msg->rpc->params);
	while (rpc_walk_member(&w, name, sizeof(name), &v))
		for (size_t i = 0; i < NELEMS(members); i++)
			if (strcmp(name, members[i].name) == 0 && !*members[i].tree &&
			    (!rpc_is(v, '{') || jx_parse_scanned(v.p, v.len, members[i].tree, NULL) < 0))
				return false;
	ret->type = text_in(ret->ref, "type");
	ret->name = ret->type ? text_in(ret->ref, strcmp(ret->type, "ref/resource") == 0 ? "uri" : "name") : NULL;
	ret->argument_name = text_in(ret->argument, "name");
	ret->value = text_in(ret->argument, "value");
	return ret->name && ret->argument_name && ret->value && strlen(ret->name) < MCP_URI_SIZE &&
		(strcmp(ret->type, "ref/prompt") == 0 || strcmp(ret->type, "ref/resource") == 0);
}

/* The arguments that the caller has settled already, and what it types (MCP U-04: from R3 on). */
static json_t *arguments_of(const struct asked *a)
{
	json_t *given = json_object_get(a->context, "arguments"), *args = json_object(), *value;
	const char *name;

	json_object_foreach(given, name, value)
		if (json_is_string(value))
			json_object_set_new(args, name, json_incref(value));
	json_object_set_new(args, a->argument_name, json_string(a->value));
	return args;
}

static const struct reg_completion *find_completion(const struct reg_compiled *compiled, const char *argument)
{
	for (size_t i = 0; i < compiled->ncompletions; i++)
		if (strcmp(compiled->completions[i].argument, argument) == 0)
			return &compiled->completions[i];
	return NULL;
}

/* how NULL: nothing is known of this argument. */
static void answer_values(struct mcp_req *req, const struct reg_completion *how, const char *typed)
{
	json_t *values = json_array(), *completion = json_object();
	size_t len = strlen(typed), total = 0;

	for (size_t i = 0; how && i < how->nvalues; i++) {
		if (strncasecmp(how->values[i], typed, len) != 0)
			continue;
		if (total++ < VALUES_MAX)
			json_array_append_new(values, json_string(how->values[i]));
	}
	json_object_set_new(completion, "values", values);
	json_object_set_new(completion, "total", json_integer((json_int_t)total));
	json_object_set_new(completion, "hasMore", json_boolean(total > VALUES_MAX));
	req_result(req, &(struct enc_result){ .kind = ENC_COMPLETE, .structured = completion });
	json_decref(completion);
}

static void complete(struct mcp_req *req, const struct mcp_msg *msg, const struct asked *a,
		     const struct reg_snapshot *snap, const struct reg_tool *line)
{
	const struct reg_completion *how;
	const struct reg_compiled *compiled;
	struct mcp_completion what;
	struct rpc_error e;
	char detail[128];

	if (reg_compile(req->x->srv->env.registry, line->def, &compiled, NULL) < 0) {
		rpc_error_init(&e, FAULT_INTERNAL, NULL);
		req_fault(req, &e);
		return;
	}
	how = find_completion(compiled, a->argument_name);
	if (how && how->ops) {
		what = (struct mcp_completion){ .kind = line->def->kind, .ref = a->name, .ref_len = strlen(a->name),
						.argument = how->argument, .args = arguments_of(a) };
		call_completion(req, msg, &what);
		return;
	}
	(void)snprintf(detail, sizeof(detail), "completion of %s", line->full_name); /* fits */
	list_record(req, snap->generation[reg_kinds[line->def->kind].family], 0, detail, line->def);
	answer_values(req, how, a->value);
}

void m_complete(struct mcp_req *req, const struct mcp_msg *msg)
{
	struct registry *reg = req->x->srv->env.registry;
	struct asked a = { .ref = NULL };
	const struct reg_tool *line;
	struct reg_snapshot *snap;
	struct rpc_error e;
	bool prompt, whole = false;     /* whole: a URI, no template */

	if (!read_params(msg, &a)) {
		rpc_error_arguments(&e, "params must have ref {type, name or uri} and argument {name, value}");
		req_fault(req, &e);
		asked_fini(&a);
		return;
	}
	prompt = strcmp(a.type, "ref/prompt") == 0;
	snap = reg_acquire(reg, req->x->who->tenant_id);
	line = prompt ? reg_find(snap, REG_PROMPT, a.name, strlen(a.name)) :
			reg_find_template(snap, a.name, strlen(a.name));
	if (!line && !prompt) {
		line = reg_find_uri(snap, a.name, strlen(a.name), NULL);
		whole = line != NULL;
	}
	if (line && !reg_in_scope(line, req->x->who->scopes))
		line = NULL;
	if (line && !whole) {
		complete(req, msg, &a, snap, line);
	} else if (line) {
		answer_values(req, NULL, a.value);      /* a URI without variables has nothing to complete */
	} else {
		if (prompt)
			rpc_error_unknown_prompt(&e, a.name, strlen(a.name));
		else
			rpc_error_unknown_resource(&e, req->rev, a.name, strlen(a.name));
		req_fault(req, &e);
	}
	reg_release(reg, &snap);
	asked_fini(&a);
}
