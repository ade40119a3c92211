/* builtin: functions of the server itself, for trials and tests.  Loop thread.  They take no path, address or program
 * from arguments (SEC S-519). */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "backend/handler.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "ev/ev.h"
#include "handlers/handlers.h"
#include "json/json.h"

#define SLEEP_MS_MAX 3600000            /* the longest timeout that a definition can have */

enum builtin_function { FN_ECHO, FN_TIME, FN_SLEEP };
static const char *const function_names[] = { "echo", "time", "sleep" };

struct builtin_plan { enum builtin_function fn; };

struct builtin_op {
	struct backend_op op;
	json_t *content;                /* echo: made in start(), while the arguments are at hand */
	struct ev_timer *timer;         /* sleep */
	int64_t ms;
	struct err fail;                /* code ERR_OK: none */
	bool ending;
};

static int builtin_bind(const json_t *handler, struct arena *mem, const void **ret_plan, struct err *err)
{
	static const char *const known[] = { "type", "function" };
	struct builtin_plan *plan = arena_alloc(mem, sizeof(*plan));
	unsigned fn = 0;

	if (!plan)
		return backend_bind_full("", err);
	int rc = jx_only(handler, "", known, NELEMS(known), err);
	if (rc == 0 && !json_object_get(handler, "function"))
		rc = err_set(err, ERR_INVALID, "/function", "is missing");
	if (rc == 0)
		rc = backend_get_word(handler, "function", function_names, NELEMS(function_names), &fn, err);
	if (rc < 0)
		return rc;
	plan->fn = (enum builtin_function)fn;
	*ret_plan = plan;
	return 0;
}

static void end_free(struct builtin_op *b)
{
	ev_timer_free(&b->timer);
	json_decref(b->content);
	free(b);
}

static void fail_end(void *arg)
{
	struct builtin_op *b = arg;

	b->op.sink.error(b->op.arg, &b->fail, 0, NULL);
	end_free(b);
}

/* The word of each block that is a text; it stays. */
static json_t *text_word(void)
{
	static json_t *word;

	if (!word)
		word = json_string("text");
	return json_incref(word);
}

/* The `text` argument, shared with the arguments' tree; else the arguments as they came. */
static json_t *echo_content(const struct backend_req *req)
{
	json_t *text = json_object_get(req->args, "text");
	json_t *content = json_array();

	if (json_is_string(text)) {
		json_t *block = json_object();
		json_object_set_new_nocheck(block, "type", text_word());
		json_object_set_nocheck(block, "text", text);
		json_array_append_new(content, block);
	} else if (req->args_len > 0) {
		json_array_append_new(content, content_text(req->args_text, req->args_len));
	} else {
		json_array_append_new(content, content_text("{}", 2));
	}
	return content;
}

static void echo_end(void *arg)
{
	struct builtin_op *b = arg;
	struct backend_result res = { .content = b->content };

	b->content = NULL;
	b->op.sink.result(b->op.arg, &res);
	end_free(b);
}

static void time_end(void *arg)
{
	struct builtin_op *b = arg;
	char utc[32];
	struct str text = STR_INIT;
	struct backend_result res = { .content = json_array(), .structured = json_object() };

	clock_format_utc(clock_wall_us(), utc, sizeof(utc));
	json_object_set_new(res.structured, "time", json_string(utc));
	jx_write(res.structured, &text);                /* MCP T-27 */
	json_array_append_new(res.content, content_text(str_text(&text), text.len));
	str_fini(&text);
	b->op.sink.result(b->op.arg, &res);
	end_free(b);
}

static void sleep_end(void *arg)
{
	struct builtin_op *b = arg;
	struct str text = STR_INIT;

	b->ending = true;
	if (b->fail.code != ERR_OK) {
		fail_end(b);
		return;
	}
	str_printf(&text, "slept %lld ms", (long long)b->ms);
	backend_op_text(&b->op, str_text(&text), text.len);
	str_fini(&text);
	end_free(b);
}

static void sleep_start(struct builtin_op *b, const struct backend_req *req)
{
	struct err *err = &b->fail;

	if (jx_get_int(req->args, "", "ms", JX_REQUIRED, 0, SLEEP_MS_MAX, &b->ms, err) < 0) {
		err->code = ERR_TOOL;
		(void)err_wrap(err, "argument ms");
		b->ending = true;
		ev_defer(b->op.loop, fail_end, b);
		return;
	}
	uint64_t now = ev_now_us(b->op.loop), delay = (uint64_t)b->ms * 1000;
	if (req->deadline_us < now + delay) {
		(void)backend_cancel_err(CANCEL_DEADLINE, err);
		delay = req->deadline_us > now ? req->deadline_us - now : 0;
	}
	b->timer = ev_timer_new(b->op.loop, sleep_end, b);
	ev_timer_start(b->timer, delay);
}

static void builtin_start(const struct backend_env *env, const struct backend_req *req,
			  const struct backend_sink *sink, void *arg, struct backend_op **ret)
{
	const struct builtin_plan *plan = req->plan;
	struct builtin_op *b = mem_zalloc(sizeof(*b));

	backend_op_init(&b->op, env, sink, arg);
	*ret = &b->op;
	switch (plan->fn) {
	case FN_ECHO:
		b->ending = true;
		b->content = echo_content(req);
		ev_defer(env->loop, echo_end, b);
		break;
	case FN_TIME:
		b->ending = true;
		ev_defer(env->loop, time_end, b);
		break;
	case FN_SLEEP:
		sleep_start(b, req);
		break;
	}
}

static void builtin_cancel(struct backend_op *op, enum cancel_why why)
{
	struct builtin_op *b = CONTAINER_OF(op, struct builtin_op, op);

	if (b->ending)
		return;
	b->ending = true;
	ev_timer_stop(b->timer);
	(void)backend_cancel_err(why, &b->fail);
	ev_defer(op->loop, fail_end, b);
}

const struct backend_ops handler_builtin = {
	.name = "builtin", .bind = builtin_bind, .start = builtin_start, .cancel = builtin_cancel,
};
