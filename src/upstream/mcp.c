/* mcp: a tool, prompt or resource of another MCP server, or the completion of an argument there.  Blocks are bound on
 * any thread, runs and watches are of the loop; the link does the talking.  What has a digest runs only while the item
 * there still has it (SEC S-731). */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "ev/ev.h"
#include "proto/caps.h"

#include "far_int.h"
#include "mcp_int.h"

#define QUESTION_KEY "question"
#define CAPABILITY_MISSING (-32021)
#define URL_REQUIRED (-32042)           /* 2025-11-25: answer a question by URL first, then call again */

/* The state of an ask: what it begins with says who asked. */
#define STATE_PARKED 'p'                /* and the handle of the parked call */
#define STATE_OPEN 'm'                  /* and the requestState of a server of 2026-07-28 */
#define STATE_AGAIN 'a'                 /* nothing: call again */
#define STATE_FAR 'f'                   /* and name of the upstream, line feed, id of a task there */

struct mcp_op {
	struct backend_op op;
	char *upstream;
	const struct mcp_plan *plan;
	const char *uri_prefix;
	struct upstream_conf *conf;     /* as it was at the start; NULL: the upstream is not known */
	struct link_call *call;           /* NULL: it has ended */
	size_t result_max;
	uint32_t caps;
	double done;                    /* of the last progress */
	struct ev_timer *deadline;
	bool over;                      /* its end is on its way */
	bool may_far;                   /* the server may make a task of it (TK-60), */
	struct far *far;                /* which is followed */
	unsigned notes;                 /* of it */
	struct upstreams *all;          /* borrowed, or NULL */
	int64_t tenant_id;
	char *tenant, *principal;
	struct err err;
};

/* --- the end */

static void op_free(struct mcp_op *x)
{
	ev_timer_free(&x->deadline);
	far_free(&x->far);
	free(x->tenant);
	free(x->principal);
	upstream_conf_free(&x->conf);
	free(x->upstream);
	free(x);
}

static void give_error(struct mcp_op *x, struct err *err)
{
	(void)err_wrap(err, "upstream %s", x->upstream);
	x->op.sink.error(x->op.arg, err, 0, NULL);
	op_free(x);
}

static void give_failure(void *arg)
{
	struct mcp_op *x = arg;

	x->op.sink.error(x->op.arg, &x->err, 0, NULL);
	op_free(x);
}

static void on_failed(void *arg, const struct err *err)
{
	struct mcp_op *x = arg;
	struct err copy = *err;

	x->call = NULL;
	if (!x->over)
		give_error(x, &copy);
}

static void give_ask(struct mcp_op *x, json_t *requests, char kind, const char *state, size_t len)
{
	char *text = mem_alloc(len + 2);
	struct backend_ask ask = { .requests = requests, .state = text, .state_len = len + 1 };

	text[0] = kind;
	if (len > 0)
		memcpy(text + 1, state, len);
	text[len + 1] = '\0';
	x->op.sink.ask(x->op.arg, &ask);
	free(text);
	op_free(x);
}

/* --- results */

static int bad_result(struct err *err, const char *why)
{
	return err_set(err, ERR_TOOL, "", "its result %s", why);
}

/* A server of 2026-07-28 left the request open: its questions are the caller's. */
static int take_open(struct mcp_op *x, const json_t *result, struct err *err)
{
	json_t *requests = json_object_get(result, "inputRequests");
	const json_t *state = json_object_get(result, "requestState");

	if (!json_is_object(requests) || json_object_size(requests) == 0)
		return bad_result(err, "asks for input, but has no question");
	if (json_object_size(requests) > ASK_REQUESTS_MAX)
		return bad_result(err, "asks too many questions at once");
	if (state && !json_is_string(state))
		return bad_result(err, "has a requestState that is no string");
	if (json_string_length(state) >= ASK_STATE_MAX)
		return bad_result(err, "has a requestState that is too long");
	give_ask(x, json_incref(requests), STATE_OPEN, json_string_value(state), json_string_length(state));
	return 0;
}

static void give_result(struct mcp_op *x, json_t *result)
{
	struct backend_result res = { .content = NULL };
	struct err err;

	if (mcp_take(x->plan, x->conf, result, &res, &err) < 0) {
		give_error(x, &err);
		return;
	}
	x->op.sink.result(x->op.arg, &res);
	op_free(x);
}

/* Its name of a question by URL is for 2025-11-25 alone, whose callers get one of ours (MCP X-02). */
static void clean_question(const struct mcp_op *x, json_t *params)
{
	mcp_clean_meta(params, x->uri_prefix);
	(void)json_object_del(params, "elicitationId");
}

/* MCP B-45: each of its elicitations becomes a question; with the answers the call is made again. */
static json_t *url_questions(const struct mcp_op *x, json_t *data)
{
	json_t *all = json_object_get(data, "elicitations"), *one;
	json_t *requests = json_object();
	size_t i;

	json_array_foreach(all, i, one) {
		char key[32];

		if (!json_is_object(one) || i >= ASK_REQUESTS_MAX)
			continue;
		clean_question(x, one);
		(void)snprintf(key, sizeof(key), QUESTION_KEY "%zu", i + 1); /* fits */
		json_object_set_new(requests, key, json_pack("{s:s, s:O}", "method", "elicitation/create", "params",
							     one));
	}
	return requests;
}

/* MCP E-06: what the caller did not declare there it did not declare here. */
static bool lacks_caps(const struct mcp_op *x, int code, const json_t *data)
{
	const json_t *needed = code == CAPABILITY_MISSING ? json_object_get(data, "requiredCapabilities") : NULL;

	return (caps_from_json(needed) & ~(x->caps | (x->may_far ? (uint32_t)CAP_TASKS : 0))) != 0;
}

static void give_fault(struct mcp_op *x, int code, const char *message, json_t *data)
{
	struct err err;

	(void)err_set(&err, lacks_caps(x, code, data) ? ERR_CAPABILITY : ERR_TOOL, "", "upstream %s: %s", x->upstream,
		      message);
	x->op.sink.error(x->op.arg, &err, code, data);
	op_free(x);
}

static void on_error(void *arg, int code, const char *message, json_t *data)
{
	struct mcp_op *x = arg;

	x->call = NULL;
	if (x->over) {
		json_decref(data);
		return;
	}
	json_t *questions = code == URL_REQUIRED ? url_questions(x, data) : NULL;
	if (json_object_size(questions) > 0) {
		json_decref(data);
		give_ask(x, questions, STATE_AGAIN, NULL, 0);
		return;
	}
	json_decref(questions);
	give_fault(x, code, message, data);
}

/* --- a task there */

static struct far_of far_of(const struct mcp_op *x, const char *id)
{
	return (struct far_of){ .loop = x->op.loop, .all = x->all, .upstream = x->upstream,
		.who = { x->tenant_id, x->tenant, x->principal }, .id = id, .caps = x->caps, .result_max = x->result_max };
}

/* Behind its first byte. */
static void put_far(const struct mcp_op *x, const char *id, struct str *out)
{
	str_puts(out, x->upstream);
	str_putc(out, '\n');
	str_puts(out, id);
}

/* The id of a task in a state, if that is of this upstream; free. */
static char *far_id_in(const char *upstream, const char *state, size_t len)
{
	const size_t n = strlen(upstream);

	if (len < n + 3 || state[0] != STATE_FAR || memcmp(state + 1, upstream, n) != 0 || state[n + 1] != '\n')
		return NULL;
	return mem_strndup(state + n + 2, len - n - 2);
}

static void far_note(void *arg, const char *text)
{
	struct mcp_op *x = arg;

	if (!x->over)
		x->op.sink.progress(x->op.arg, ++x->notes, -1, text);
}

static void far_ask(void *arg, json_t *requests)
{
	struct mcp_op *x = arg;
	struct str state = STR_INIT;
	const char *key;
	json_t *one;

	json_object_foreach(requests, key, one)
		clean_question(x, json_object_get(one, "params"));
	put_far(x, far_id(x->far), &state);
	give_ask(x, requests, STATE_FAR, state.p, state.len);
	str_fini(&state);
}

static void far_result(void *arg, json_t *result)
{
	give_result(arg, result);
}

static void far_error(void *arg, int code, const char *message, json_t *data)
{
	give_fault(arg, code, message, data);
}

static const struct far_sink far_sink = { far_note, far_ask, far_result, far_error };

static const char *task_id(const json_t *result)
{
	const json_t *id = json_object_get(result, "taskId");
	const size_t len = json_string_length(id);

	return len > 0 && len <= FAR_ID_MAX && strlen(json_string_value(id)) == len ? json_string_value(id) : NULL;
}

/* TK-61: it is followed from here on; whoever started the run says whether a later one may take it up. */
static int take_task(struct mcp_op *x, const json_t *result, struct err *err)
{
	const char *id = task_id(result);
	struct far_of of = far_of(x, id);
	struct str state = STR_INIT;

	if (!id)
		return bad_result(err, "is a task without a name");
	if (!x->may_far) {
		far_leave(&of, true);
		return bad_result(err, "is of a kind that was not asked for");
	}
	x->far = far_new(&of, &far_sink, x);
	ev_timer_stop(x->deadline);             /* the engine has one, by what it has become */
	str_putc(&state, STATE_FAR);
	put_far(x, id, &state);
	x->op.sink.far(x->op.arg, state.p, state.len);
	str_fini(&state);
	return 0;
}

static int resume_task(struct mcp_op *x, const struct backend_req *req, struct err *err)
{
	char *id = far_id_in(x->upstream, req->state, req->state_len);
	struct far_of of = far_of(x, id);

	if (!id)
		return err_set(err, ERR_TOOL, "", "upstream %s: its task is another upstream's", x->upstream);
	of.answers = (json_t *)(uintptr_t)req->answers;
	x->far = far_new(&of, &far_sink, x);
	free(id);
	return 0;
}

static void mcp_leave(const struct backend_env *env, const struct backend_leave *what)
{
	const struct mcp_plan *plan = what->plan;
	char *id = far_id_in(plan->upstream, what->state, what->state_len);
	const struct far_of of = { .loop = env->loop, .all = env->upstreams, .upstream = plan->upstream,
		.who = { what->tenant_id, what->tenant, what->principal }, .id = id };

	if (id && env->upstreams)
		far_leave(&of, what->recorded);
	free(id);
}

/* --- results, by their kind */

static void on_result(void *arg, struct jx_span span)
{
	struct mcp_op *x = arg;
	json_t *result = NULL;
	struct err err;
	int rc;

	x->call = NULL;
	if (x->over)
		return;
	rc = mcp_parse(span, x->result_max, &result, &err);
	const char *type = json_string_value(json_object_get(result, "resultType"));
	if (rc == 0 && type && strcmp(type, "input_required") == 0)
		rc = take_open(x, result, &err);
	else if (rc == 0 && type && strcmp(type, "task") == 0)
		rc = take_task(x, result, &err);
	else if (rc == 0 && type && strcmp(type, "complete") != 0)
		rc = bad_result(&err, "is of a kind that was not asked for");
	else if (rc == 0)
		give_result(x, result);
	json_decref(result);
	if (rc < 0)
		give_error(x, &err);
}

/* --- notices */

static void on_progress(void *arg, double done, double total, const char *note)
{
	struct mcp_op *x = arg;

	if (x->over || !isfinite(done) || done <= x->done)
		return;                         /* MCP P-02, B-23 */
	x->done = done;
	x->op.sink.progress(x->op.arg, done, total, note);
}

static void on_log(void *arg, int level, const char *logger, json_t *data)
{
	struct mcp_op *x = arg;

	if (x->over)
		json_decref(data);
	else
		x->op.sink.log(x->op.arg, level, logger, data);
}

static int on_question(void *arg, const char *handle, const char *method, json_t *params)
{
	struct mcp_op *x = arg;
	uint32_t needs = caps_for_request(method, params);

	if (x->over || !needs || (needs & ~x->caps)) {
		json_decref(params);
		return ERR_CAPABILITY;
	}
	clean_question(x, params);
	json_t *requests = json_pack("{s:{s:s, s:o}}", QUESTION_KEY, "method", method, "params", params);
	x->call = NULL;
	give_ask(x, requests, STATE_PARKED, handle, strlen(handle));
	return 0;
}

static const struct link_call_sink call_sink = {
	.progress = on_progress, .log = on_log, .question = on_question, .result = on_result, .error = on_error,
	.failed = on_failed,
};

/* --- the start */

/* With the answer the parked call goes on.  The seal has bound the state to tenant, principal, tool and arguments. */
static int resume(struct mcp_op *x, const struct backend_env *env, const struct backend_req *req, struct err *err)
{
	const char *handle = (const char *)req->state + 1;
	struct map *parked = env->upstreams ? upstreams_parked(env->upstreams) : NULL;
	struct link_call *c = parked ? link_call_parked(parked, handle, req->state_len - 1) : NULL;

	if (!c)
		return err_set(err, ERR_TOOL, "", "upstream %s: the answer came too late, the call is over there",
			       x->upstream);
	link_call_resume(c, json_object_get(req->answers, QUESTION_KEY), &call_sink, x);
	x->call = c;
	return 0;
}

static const char *text_of(const json_t *args, const char *name)
{
	const char *text = json_string_value(json_object_get(args, name));

	return text ? text : "";
}

/* completion/complete: what is typed, and what the caller has settled already (MCP U-04). */
static void put_completion(const struct mcp_plan *plan, const json_t *args, struct str *out)
{
	bool prompt = plan->kind == UPSTREAM_PROMPT;
	json_t *settled = json_copy((json_t *)(uintptr_t)args);

	str_printf(out, "\"ref\":{\"type\":\"ref/%s\",\"%s\":", prompt ? "prompt" : "resource",
		   prompt ? "name" : "uri");
	jx_write_stringz(out, plan->name);
	str_puts(out, "},\"argument\":{\"name\":");
	jx_write_stringz(out, plan->argument);
	str_puts(out, ",\"value\":");
	jx_write_stringz(out, text_of(args, plan->argument));
	str_putc(out, '}');
	(void)json_object_del(settled, plan->argument);
	if (json_object_size(settled) > 0) {
		str_puts(out, ",\"context\":{\"arguments\":");
		jx_write(settled, out);
		str_putc(out, '}');
	}
	json_decref(settled);
}

/* What is sent: call->method, name and params; *ret_uri is what the name stands in, if it is nowhere else. */
static void put_request(const struct mcp_op *x, const struct backend_req *req, struct link_call_req *call,
			char **ret_uri)
{
	const struct mcp_plan *plan = x->plan;
	struct str *out = call->params;

	if (plan->argument) {
		call->method = "completion/complete";
		put_completion(plan, req->args, out);
		return;
	}
	call->name = plan->name;
	if (plan->kind == UPSTREAM_RESOURCE || plan->kind == UPSTREAM_TEMPLATE) {
		call->method = "resources/read";
		if (plan->kind == UPSTREAM_TEMPLATE)
			call->name = *ret_uri = upstream_uri_there(text_of(req->args, "uri"), x->uri_prefix);
		str_puts(out, "\"uri\":");
		jx_write_stringz(out, call->name);
		return;
	}
	call->method = plan->kind == UPSTREAM_PROMPT ? "prompts/get" : "tools/call";
	str_puts(out, "\"name\":");
	jx_write_stringz(out, plan->name);
	str_puts(out, ",\"arguments\":");
	backend_put_args(req, out);
}

/* Arguments that headers repeat (MCP T-43): their texts. */
static void put_params(const struct backend_req *req, struct link_call_req *call)
{
	if (req->nparams == 0 || req->nparams > LINK_PARAMS_MAX)
		return;
	call->more = mem_calloc(req->nparams, sizeof(*call->more));
	for (size_t i = 0; i < req->nparams; i++) {
		const json_t *v = jx_at(req->args, req->params[i].pointer);
		struct str text = STR_INIT;

		if (json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v))
			str_puts(&text, json_string_value(v));
		else if (json_is_number(v) || json_is_boolean(v))
			jx_write(v, &text);
		else
			continue;
		call->more[call->nmore++] = (struct link_param){ mem_printf("Mcp-Param-%s", req->params[i].header),
			mem_strdup(str_text(&text)) };
		str_fini(&text);
	}
}

static int begin(struct mcp_op *x, const struct backend_env *env, const struct backend_req *req, struct err *err)
{
	const struct mcp_plan *plan = req->plan;
	const char *state = req->state;
	struct str params = STR_INIT;
	struct link_call_req call = { .key = plan->key, .digest = plan->has_digest ? plan->digest : NULL,
		.params = &params,
		/* MCP U-06: a completion asks nothing. */
		.caps = plan->argument ? 0 : req->caps | (x->may_far ? (uint32_t)CAP_TASKS : 0),
		.log_level = req->log_level, .trace = req->trace,
		.recorded = req->recorded, .answers = req->answers };
	struct link *link = NULL;

	if (req->deadline_us <= ev_now_us(x->op.loop))
		return backend_cancel_err(CANCEL_DEADLINE, err);
	if (req->state_len > 0 && state[0] == STATE_PARKED)
		return resume(x, env, req, err);
	if (req->state_len > 0 && state[0] == STATE_FAR)
		return resume_task(x, req, err);
	if (req->state_len > 1 && state[0] == STATE_OPEN) {
		call.state = state + 1;
		call.state_len = req->state_len - 1;
	}
	int rc = upstreams_link(env->upstreams, plan->upstream,
				&(struct upstream_caller){ req->tenant_id, req->tenant, req->principal }, &link, err);
	if (rc < 0)
		return rc;
	char *who = mem_printf("%lld/%s", (long long)req->tenant_id, req->principal), *uri = NULL;
	call.who = who;
	upstreams_use_secrets(env->upstreams, plan->upstream, req);
	put_request(x, req, &call, &uri);
	put_params(req, &call);
	rc = link_call_start(link, &call, &call_sink, x, &x->call, err);
	if (rc < 0)
		link_params_free(call.more, call.nmore);
	free(who);
	free(uri);
	str_fini(&params);
	return rc < 0 ? err_wrap(err, "upstream %s", plan->upstream) : 0;
}

static void fail_later(struct mcp_op *x, const struct err *err)
{
	x->over = true;
	x->err = *err;
	ev_defer(x->op.loop, give_failure, x);
}

static void mcp_cancel(struct backend_op *op, enum cancel_why why)
{
	struct mcp_op *x = CONTAINER_OF(op, struct mcp_op, op);
	struct err err;

	if (x->over)
		return;
	(void)backend_cancel_err(why, &err);
	if (x->call)
		link_call_cancel(&x->call, why == CANCEL_DEADLINE);
	if (x->far && why != CANCEL_SHUTDOWN) {         /* which a later run takes up */
		struct far_of of = far_of(x, far_id(x->far));

		far_leave(&of, true);
	}
	far_free(&x->far);
	fail_later(x, &err);
}

static void on_deadline(void *arg)
{
	struct mcp_op *x = arg;

	mcp_cancel(&x->op, CANCEL_DEADLINE);
}

static void mcp_start(const struct backend_env *env, const struct backend_req *req, const struct backend_sink *sink,
		      void *arg, struct backend_op **ret)
{
	const struct mcp_plan *plan = req->plan;
	const struct upstream_conf *conf = env->upstreams ? upstreams_conf(env->upstreams, plan->upstream) : NULL;
	struct mcp_op *x = mem_zalloc(sizeof(*x));
	struct err err;

	backend_op_init(&x->op, env, sink, arg);
	x->upstream = mem_strdup(plan->upstream);
	x->plan = plan;
	x->conf = conf ? upstream_conf_ref((struct upstream_conf *)(uintptr_t)conf) : NULL;
	x->uri_prefix = conf ? conf->uri_prefix : "";
	x->result_max = req->result_max;
	x->caps = req->caps;
	x->may_far = req->far && plan->kind == UPSTREAM_TOOL && !plan->argument;
	x->all = env->upstreams;
	x->tenant_id = req->tenant_id;
	x->tenant = mem_strdup(req->tenant);
	x->principal = mem_strdup(req->principal);
	x->done = -1;
	*ret = &x->op;
	if (begin(x, env, req, &err) < 0) {
		fail_later(x, &err);
		return;
	}
	x->deadline = ev_timer_new(env->loop, on_deadline, x);
	if (!x->far)                    /* else the engine has one */
		ev_timer_start(x->deadline, req->deadline_us - ev_now_us(env->loop));
}

/* Of the upstream's process, when it has one. */
static void mcp_sandbox(const struct backend_env *env, const void *plan, struct backend_sandbox *ret)
{
	const struct mcp_plan *p = plan;
	const struct upstream_conf *conf = env->upstreams ? upstreams_conf(env->upstreams, p->upstream) : NULL;

	*ret = (struct backend_sandbox){ .enough = true };
	if (conf && conf->argv && env->sandbox)
		exec_sandbox_show(&conf->sandbox, env->sandbox, ret);
}

static int mcp_watch(const struct backend_env *env, const struct backend_watch_req *req, struct backend_watch **ret,
		     struct err *err)
{
	const struct mcp_plan *p = req->plan;
	const struct upstream_conf *conf = env->upstreams ? upstreams_conf(env->upstreams, p->upstream) : NULL;
	char *uri;

	if (!conf || p->argument || (p->kind != UPSTREAM_RESOURCE && p->kind != UPSTREAM_TEMPLATE))
		return 0;
	if (!req->recorded)
		return err_set(err, ERR_AUDIT, "", "upstream %s would be told", p->upstream);
	uri = p->kind == UPSTREAM_TEMPLATE ? upstream_uri_there(text_of(req->args, "uri"), conf->uri_prefix)
					   : mem_strdup(p->name);
	int rc = upstreams_watch(env->upstreams, p->upstream, uri, req, ret, err);
	free(uri);
	return rc;
}

/* What it is: exactly one of the members that name something there. */
static int bind_name(const json_t *handler, struct arena *mem, struct mcp_plan *plan, struct err *err)
{
	static const struct { const char *member, *prefix; size_t max; } kinds[UPSTREAM_KINDS] = {
		[UPSTREAM_TOOL] = { "tool", "", UPSTREAM_NAME_MAX },
		[UPSTREAM_PROMPT] = { "prompt", "prompt:", UPSTREAM_NAME_MAX },
		[UPSTREAM_RESOURCE] = { "resource", "resource:", UPSTREAM_URI_MAX },
		[UPSTREAM_TEMPLATE] = { "template", "template:", UPSTREAM_URI_MAX },
	};
	const char *name = NULL;
	char at[16];

	for (size_t i = 0; i < UPSTREAM_KINDS; i++) {
		if (!json_object_get(handler, kinds[i].member))
			continue;
		(void)snprintf(at, sizeof(at), "/%s", kinds[i].member); /* fits */
		if (name)
			return err_set(err, ERR_INVALID, at,
				       "only one of tool, prompt, resource and template can be named");
		int rc = jx_get_string(handler, "", kinds[i].member, JX_REQUIRED, &name, err);
		if (rc < 0)
			return rc;
		if (!*name || strlen(name) > kinds[i].max)
			return err_set(err, ERR_INVALID, at, "must have 1 to %zu bytes", kinds[i].max);
		char *key = mem_printf("%s%s", kinds[i].prefix, name);
		plan->kind = (enum upstream_kind)i;
		plan->key = arena_strdup(mem, key);
		free(key);
		plan->name = plan->key ? plan->key + strlen(kinds[i].prefix) : NULL;
	}
	if (!name)
		return err_set(err, ERR_INVALID, "", "tool, prompt, resource or template must name what is there");
	return plan->name ? 0 : backend_bind_full("", err);
}

static int bind_argument(const json_t *handler, struct arena *mem, struct mcp_plan *plan, struct err *err)
{
	const char *argument = NULL;
	int rc = jx_get_string(handler, "", "argument", JX_OPTIONAL, &argument, err);

	if (rc < 0 || !argument)
		return rc;
	if (plan->kind != UPSTREAM_PROMPT && plan->kind != UPSTREAM_TEMPLATE)
		return err_set(err, ERR_INVALID, "/argument", "belongs to a prompt or a template");
	plan->argument = arena_strdup(mem, argument);
	return plan->argument ? 0 : backend_bind_full("", err);
}

static int mcp_bind(const json_t *handler, struct arena *mem, const void **ret_plan, struct err *err)
{
	static const char *const known[] = { "type", "upstream", "tool", "prompt", "resource", "template", "argument",
		"digest" };
	struct mcp_plan *plan = arena_alloc(mem, sizeof(*plan));
	const char *upstream = NULL, *digest = NULL;

	int rc = jx_only(handler, "", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_string(handler, "", "upstream", JX_REQUIRED, &upstream, err);
	if (rc == 0)
		rc = jx_get_string(handler, "", "digest", JX_OPTIONAL, &digest, err);
	if (rc < 0)
		return rc;
	if (!text_entity_name(upstream, strlen(upstream)))
		return err_set(err, ERR_INVALID, "/upstream", "%.80s is no name of an upstream", upstream);
	if (!plan)
		return backend_bind_full("", err);
	*plan = (struct mcp_plan){ .upstream = arena_strdup(mem, upstream), .has_digest = digest != NULL };
	if (!plan->upstream)
		return backend_bind_full("", err);
	rc = bind_name(handler, mem, plan, err);
	if (rc == 0)
		rc = bind_argument(handler, mem, plan, err);
	if (rc < 0)
		return rc;
	if (digest && text_unhex(digest, strlen(digest), plan->digest, sizeof(plan->digest)) < 0)
		return err_set(err, ERR_INVALID, "/digest",
			       "must be the SHA-256 of what is there, 64 hexadecimal digits");
	*ret_plan = plan;
	return 0;
}

static void mcp_way(const void *plan, struct backend_way *ret)
{
	static const char *const methods[UPSTREAM_KINDS] = { [UPSTREAM_TOOL] = "tools/call", [UPSTREAM_PROMPT] = "prompts/get",
		[UPSTREAM_RESOURCE] = "resources/read", [UPSTREAM_TEMPLATE] = "resources/read" };
	const struct mcp_plan *p = plan;
	const bool named = p->kind == UPSTREAM_TOOL || p->kind == UPSTREAM_PROMPT;

	*ret = (struct backend_way){ .method = p->argument ? "completion/complete" : methods[p->kind],
				     .upstream = p->upstream, .item = named ? p->name : NULL };
}

const struct backend_ops handler_mcp = {
	.name = "mcp", .bind = mcp_bind, .start = mcp_start, .cancel = mcp_cancel, .sandbox = mcp_sandbox,
	.watch = mcp_watch, .way = mcp_way, .leave = mcp_leave,
};
