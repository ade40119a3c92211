/* mcp: a tool of another MCP server.  The link does the talking; here its answers become results, after they have been
 * checked like a stranger's (SEC S-731). */
#include "config.h"

#include "up_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/text.h"
#include "ev/ev.h"
#include "exec_int.h"
#include "proto/caps.h"

#define TOOL_MAX 256                    /* bytes of a tool's name there */
#define QUESTION_KEY "question"
#define URL_REQUIRED (-32042)           /* 2025-11-25: answer a question by URL first, then call again */

/* The state of an ask: what it begins with says who asked. */
#define STATE_PARKED 'p'                /* and the handle of the parked call */
#define STATE_OPEN 'm'                  /* and the requestState of a server of 2026-07-28 */
#define STATE_AGAIN 'a'                 /* nothing: call again */

struct mcp_plan {
	const char *upstream, *tool;
	bool has_digest;
	uint8_t digest[32];
};

struct mcp_op {
	struct backend_op op;
	char *upstream;
	struct up_call *call;           /* NULL: it has ended */
	size_t result_max;
	uint32_t caps;
	double done;                    /* of the last progress */
	struct ev_timer *deadline;
	bool over;                      /* its end is on its way */
	struct err err;
};

/* --- the end */

static void op_free(struct mcp_op *x)
{
	ev_timer_free(&x->deadline);
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

/* A link leads to something there, where the caller cannot go (MCP B-15, U-07). */
static json_t *link_text(const json_t *block)
{
	const char *name = json_string_value(json_object_get(block, "name"));
	const char *uri = json_string_value(json_object_get(block, "uri"));
	char *text = mem_printf("[resource %s: %s]", name, uri);
	json_t *ret = content_text(text, strlen(text));

	free(text);
	return ret;
}

static void clean_block(json_t *obj)
{
	json_t *meta = json_object_get(obj, "_meta");

	if (!json_is_object(meta))
		return;
	upstream_strip_meta(meta);
	if (json_object_size(meta) == 0)
		(void)json_object_del(obj, "_meta");
}

static int take_content(const json_t *result, json_t **ret, struct err *err)
{
	json_t *content = json_object_get(result, "content"), *block;
	struct err wrong;
	size_t i;

	if (!content && json_object_get(result, "structuredContent")) {
		*ret = json_array();
		return 0;
	}
	if (!json_is_array(content))
		return bad_result(err, "has no content");
	if (content_check_all(content, "", &wrong) < 0)
		return err_set(err, ERR_TOOL, "", "its result has a bad content block: %.60s %.120s", wrong.where, wrong.msg);
	json_array_foreach(content, i, block) {
		if (strcmp(json_string_value(json_object_get(block, "type")), "resource_link") == 0) {
			(void)json_array_set_new(content, i, link_text(block));
			continue;
		}
		clean_block(block);
		clean_block(json_object_get(block, "resource"));
	}
	*ret = json_incref(content);
	return 0;
}

static int take_result(const json_t *result, struct backend_result *res, struct err *err)
{
	json_t *is_error = json_object_get(result, "isError"), *meta = json_object_get(result, "_meta");

	if (is_error && !json_is_boolean(is_error))
		return bad_result(err, "has an isError that is not true or false");
	int rc = take_content(result, &res->content, err);
	if (rc < 0)
		return rc;
	res->is_error = json_is_true(is_error);
	res->structured = json_incref(json_object_get(result, "structuredContent"));
	if (json_is_object(meta)) {
		upstream_strip_meta(meta);      /* MCP B-44 */
		res->meta = json_object_size(meta) > 0 ? json_incref(meta) : NULL;
	}
	return 0;
}

/* A server of 2026-07-28 left the request open: its questions are the caller's. */
static int take_open(struct mcp_op *x, const json_t *result, struct err *err)
{
	json_t *requests = json_object_get(result, "inputRequests");
	const json_t *state = json_object_get(result, "requestState");

	if (!json_is_object(requests) || json_object_size(requests) == 0)
		return bad_result(err, "asks for input, but has no question");
	if (json_object_size(requests) > CHILD_REQUESTS_MAX)
		return bad_result(err, "asks too many questions at once");
	if (state && !json_is_string(state))
		return bad_result(err, "has a requestState that is no string");
	if (json_string_length(state) >= ASK_STATE_MAX)
		return bad_result(err, "has a requestState that is too long");
	give_ask(x, json_incref(requests), STATE_OPEN, json_string_value(state), json_string_length(state));
	return 0;
}

static void on_result(void *arg, struct jx_span span)
{
	struct mcp_op *x = arg;
	struct backend_result res = { .content = NULL };
	json_t *result = NULL;
	struct err err;
	int rc = 0;

	x->call = NULL;
	if (x->over)
		return;
	if (span.len > x->result_max)
		rc = err_set(&err, ERR_LIMIT, "", "its result is larger than %zu bytes", x->result_max);
	else if (!rpc_is(span, '{'))
		rc = bad_result(&err, "is no object");
	else if (jx_parse_scanned(span.p, span.len, &result, &err) < 0)
		rc = bad_result(&err, "has a number that is too long");
	const char *type = json_string_value(json_object_get(result, "resultType"));
	if (rc == 0 && type && strcmp(type, "input_required") == 0) {
		rc = take_open(x, result, &err);
		json_decref(result);
		if (rc < 0)
			give_error(x, &err);
		return;
	}
	if (rc == 0 && type && strcmp(type, "complete") != 0)
		rc = bad_result(&err, "is of a kind that was not asked for");
	if (rc == 0)
		rc = take_result(result, &res, &err);
	json_decref(result);
	if (rc < 0) {
		give_error(x, &err);
		return;
	}
	x->op.sink.result(x->op.arg, &res);
	op_free(x);
}

/* MCP B-45: each of its elicitations becomes a question; with the answers the call is made again. */
static json_t *url_questions(const json_t *data)
{
	const json_t *all = json_object_get(data, "elicitations"), *one;
	json_t *requests = json_object();
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)all, i, one) {
		char key[32];

		if (!json_is_object(one) || i >= CHILD_REQUESTS_MAX)
			continue;
		(void)snprintf(key, sizeof(key), QUESTION_KEY "%zu", i + 1); /* fits */
		json_object_set_new(requests, key, json_pack("{s:s, s:O}", "method", "elicitation/create", "params", one));
	}
	return requests;
}

static void on_error(void *arg, int code, const char *message, json_t *data)
{
	struct mcp_op *x = arg;
	struct err err;

	x->call = NULL;
	if (x->over) {
		json_decref(data);
		return;
	}
	json_t *questions = code == URL_REQUIRED ? url_questions(data) : NULL;
	if (json_object_size(questions) > 0) {
		json_decref(data);
		give_ask(x, questions, STATE_AGAIN, NULL, 0);
		return;
	}
	json_decref(questions);
	(void)err_set(&err, ERR_TOOL, "", "upstream %s: %s", x->upstream, message);
	x->op.sink.error(x->op.arg, &err, code, data);
	op_free(x);
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
	clean_block(params);
	json_t *requests = json_pack("{s:{s:s, s:o}}", QUESTION_KEY, "method", method, "params", params);
	x->call = NULL;
	give_ask(x, requests, STATE_PARKED, handle, strlen(handle));
	return 0;
}

static const struct up_call_sink call_sink = {
	.progress = on_progress, .log = on_log, .question = on_question, .result = on_result, .error = on_error,
	.failed = on_failed,
};

/* --- the start */

/* With the answer the parked call goes on.  The seal has bound the state to tenant, principal, tool and arguments. */
static int resume(struct mcp_op *x, const struct backend_env *env, const struct backend_req *req, struct err *err)
{
	const char *handle = (const char *)req->state + 1;
	struct up_call *c = env->upstreams ? up_call_parked(upstreams_parked(env->upstreams), handle, req->state_len - 1) : NULL;

	if (!c)
		return err_set(err, ERR_TOOL, "", "upstream %s: the answer came too late, the call is over there", x->upstream);
	up_call_resume(c, json_object_get(req->answers, QUESTION_KEY), &call_sink, x);
	x->call = c;
	return 0;
}

static int begin(struct mcp_op *x, const struct backend_env *env, const struct backend_req *req, struct err *err)
{
	const struct mcp_plan *plan = req->plan;
	const char *state = req->state;
	struct str args = STR_INIT;
	struct up_call_req call = { .tool = plan->tool, .digest = plan->has_digest ? plan->digest : NULL, .args = &args,
		.caps = req->caps, .answers = req->answers };
	struct up_link *link = NULL;

	if (req->deadline_us <= ev_now_us(x->op.loop))
		return be_cancel_err(CANCEL_DEADLINE, err);
	if (req->state_len > 0 && state[0] == STATE_PARKED)
		return resume(x, env, req, err);
	if (req->state_len > 1 && state[0] == STATE_OPEN) {
		call.state = state + 1;
		call.state_len = req->state_len - 1;
	}
	int rc = upstreams_link(env->upstreams, plan->upstream, req->tenant_id, req->tenant, &link, err);
	if (rc < 0)
		return rc;
	upstreams_use_secrets(env->upstreams, plan->upstream, req);
	child_write_args(req, &args);
	rc = up_call_start(link, &call, &call_sink, x, &x->call, err);
	str_fini(&args);
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
	(void)be_cancel_err(why, &err);
	if (x->call)
		up_call_cancel(&x->call, why == CANCEL_DEADLINE);
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
	struct mcp_op *x = mem_zalloc(sizeof(*x));
	struct err err;

	be_op_init(&x->op, env, sink, arg);
	x->upstream = mem_strdup(plan->upstream);
	x->result_max = req->result_max;
	x->caps = req->caps;
	x->done = -1;
	*ret = &x->op;
	if (begin(x, env, req, &err) < 0) {
		fail_later(x, &err);
		return;
	}
	x->deadline = ev_timer_new(env->loop, on_deadline, x);
	ev_timer_start(x->deadline, req->deadline_us - ev_now_us(env->loop));
}

/* Of the upstream's process, when it has one. */
static void mcp_cage(const struct backend_env *env, const void *plan, struct backend_cage *ret)
{
	const struct mcp_plan *p = plan;
	const struct upstream_conf *conf = env->upstreams ? upstreams_conf(env->upstreams, p->upstream) : NULL;

	*ret = (struct backend_cage){ .enough = true };
	if (conf && conf->argv && env->cage)
		be_cage_show(&conf->cage, env->cage, ret);
}

static int mcp_bind(const json_t *handler, struct arena *mem, const void **ret_plan, struct err *err)
{
	static const char *const known[] = { "type", "upstream", "tool", "digest" };
	struct mcp_plan *plan = arena_alloc(mem, sizeof(*plan));
	const char *upstream = NULL, *tool = NULL, *digest = NULL;

	int rc = jx_only(handler, "", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_string(handler, "", "upstream", JX_REQUIRED, &upstream, err);
	if (rc == 0)
		rc = jx_get_string(handler, "", "tool", JX_REQUIRED, &tool, err);
	if (rc == 0)
		rc = jx_get_string(handler, "", "digest", JX_OPTIONAL, &digest, err);
	if (rc < 0)
		return rc;
	if (!text_entity_name(upstream, strlen(upstream)))
		return err_set(err, ERR_INVALID, "/upstream", "%.80s is no name of an upstream", upstream);
	if (!*tool || strlen(tool) > TOOL_MAX)
		return err_set(err, ERR_INVALID, "/tool", "must have 1 to %d bytes", TOOL_MAX);
	if (!plan || !(plan->upstream = arena_strdup(mem, upstream)) || !(plan->tool = arena_strdup(mem, tool)))
		return be_bind_full("", err);
	if (digest && text_unhex(digest, strlen(digest), plan->digest, sizeof(plan->digest)) < 0)
		return err_set(err, ERR_INVALID, "/digest", "must be the SHA-256 of the tool there, 64 hexadecimal digits");
	plan->has_digest = digest != NULL;
	*ret_plan = plan;
	return 0;
}

const struct backend_ops be_mcp = {
	.name = "mcp", .bind = mcp_bind, .start = mcp_start, .cancel = mcp_cancel, .cage = mcp_cage,
};
