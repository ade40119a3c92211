/* One call from admission to reply, on the loop's thread:
 *
 *   ADMIT -> AUDIT_BEGIN -> RUN -> AUDIT_END -> REPLY -> DEAD
 *     QUEUED --^            ASKING (and back)
 *       DECIDING --^          DECIDING (and back)
 *         HELD, and back to ADMIT
 *
 * A refusal goes through AUDIT_END (its record) to REPLY, or straight there when nothing can or need be recorded.
 * Nothing runs before its begin is durable, nothing is answered before its end is (AUDIT ). */

#include "config.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "call/call.h"
#include "ev/ev.h"
#include "limit/limit.h"
#include "otel/span.h"
#include "pdp/pdp.h"
#include "proto/caps.h"
#include "proto/trace.h"
#include "registry/registry.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "end_int.h"
#include "held_int.h"
#include "task_call_int.h"

/* --- a handler that asks */

/* Modern callers get the questions with a sealed state and send both back; a legacy caller is asked on its
 * connection, and the call waits. */

static void ask_legacy(struct call *c, struct backend_ask *ask)
{
	struct err err;

	if (!c->out || !c->can_ask) {
		call_fail(c, AUDIT_TOOL_ERROR, "the tool needs to ask, and this connection cannot carry questions");
		return;
	}
	if (c->rounds == CALL_ROUNDS_MAX) {
		call_fail(c, AUDIT_TOOL_ERROR, "the tool asked too often");
		return;
	}
	c->rounds++;
	str_reset(&c->state_bytes);
	str_put(&c->state_bytes, ask->state, ask->state_len);
	call_set_state(c, CALL_ASKING);
	call_span_ran(c, AUDIT_INPUT_REQUIRED);
	ev_timer_start(c->timer, (uint64_t)CALL_ASK_TIMEOUT_MS * 1000);
	if (c->out->ask(c->out_arg, ask->requests, &err) < 0 && c->state == CALL_ASKING)
		call_fail(c, err.code == ERR_CANCELLED ? AUDIT_CANCELLED : AUDIT_TOOL_ERROR, err.msg);
}

static void take_ask(struct call *c, struct backend_ask *ask)
{
	const char *wrong = c->task && c->task->round >= TASK_ROUNDS_MAX ? "the tool asked too often" :
		call_check_questions(c, ask);

	if (wrong) {
		call_far_leave(c, ask->state, ask->state_len);
		call_fail(c, AUDIT_TOOL_ERROR, wrong);
	} else if (c->modern) {
		str_reset(&c->state_bytes);
		str_put(&c->state_bytes, ask->state, ask->state_len);
		c->requests = json_incref(ask->requests);
		(void)call_task_first(c, true);         /* then the row comes first, and else the question is the call's */
		call_finish(c, AUDIT_INPUT_REQUIRED);
	} else {
		ask_legacy(c, ask);
	}
	json_decref(ask->requests);
}

/* --- a run, and what its handler gives */

static void on_progress(void *arg, double done, double total, const char *note)
{
	struct call *c = arg;

	call_task_note(c, note);
	if (c->out && !c->cancelled && !c->eng->closed)
		c->out->progress(c->out_arg, done, total, note);
}

static void on_lasts(void *arg, const char *note)
{
	struct call *c = arg;

	call_task_note(c, note);
	if (!c->cancelled && !c->eng->closed)
		call_task_long(c);
}

static void on_log(void *arg, int level, const char *logger, json_t *data)
{
	struct call *c = arg;

	if (c->out && !c->cancelled && !c->eng->closed)
		c->out->log(c->out_arg, level, logger, data);
	else
		json_decref(data);
}

static void on_hint(void *arg, const char *text)
{
	struct call *c = arg;

	free(c->hint);
	c->hint = mem_strdup(text);
}

static void on_used(void *arg, uint64_t cpu_us, uint64_t rss_kib)
{
	struct call *c = arg;

	c->result.cpu_us = cpu_us;
	c->result.rss_kib = rss_kib;
}

static void on_result(void *arg, struct backend_result *res)
{
	struct call *c = arg;

	c->op = NULL;
	if (c->eng->closed || c->cancelled) {
		json_decref(res->content);
		json_decref(res->structured);
		json_decref(res->meta);
		on_used(c, res->cpu_us, res->rss_kib);
		call_end_cancelled(c);
	} else {
		call_take_result(c, res);
		call_finish(c, c->outcome);
	}
}

static void on_ask(void *arg, struct backend_ask *ask)
{
	struct call *c = arg;

	c->op = NULL;
	if (c->eng->closed || c->cancelled) {
		json_decref(ask->requests);
		call_end_cancelled(c);
	} else {
		take_ask(c, ask);
	}
}

static void on_error(void *arg, const struct err *err, int rpc_code, json_t *data)
{
	struct call *c = arg;

	c->op = NULL;
	if (c->eng->closed || c->cancelled) {
		json_decref(data);
		call_end_cancelled(c);
	} else {
		call_finish(c, call_take_error(c, err, rpc_code, data));
	}
}

static void on_timer(void *arg)
{
	struct call *c = arg;

	if (c->state == CALL_ASKING) {
		call_fail(c, AUDIT_TIMEOUT, "the question was not answered in time");
	} else if (c->state == CALL_RUN && c->op && !call_task_due(c)) {
		metric_inc(METRIC_handler_timeouts);
		backend_cancel(c->op, CANCEL_DEADLINE);
	}
}

/* NULL: none; free. */
static struct backend_param *backend_params(const struct reg_compiled *compiled)
{
	struct backend_param *ret = compiled->nparams ? mem_calloc(compiled->nparams, sizeof(*ret)) : NULL;

	for (size_t i = 0; i < compiled->nparams; i++)
		ret[i] = (struct backend_param){ compiled->params[i].header, compiled->params[i].pointer };
	return ret;
}

/* RUN: start the handler */
static void run(struct call *c)
{
	static const struct backend_sink sink = { on_progress, on_log, on_result, on_ask, on_error, on_used,
		on_hint, call_far, on_lasts };
	struct call_engine *eng = c->eng;
	const struct backend_env env = call_backend_env(eng);
	struct backend_param *params = backend_params(c->compiled);

	c->started_us = ev_now_us(eng->env.loop);
	c->ttl_ms = call_task_left_ms(c);
	call_span_run(c);
	const struct backend_req req = {
		.params = params, .nparams = params ? c->compiled->nparams : 0,
		.plan = c->plan, .tool = c->tool->full_name,
		.args = c->args, .args_text = c->args_text, .args_len = c->args_len,
		.answers = c->answers, .state = c->state_bytes.p, .state_len = c->state_bytes.len,
		.call_id = c->id, .recorded = c->begun, .tenant_id = c->who->tenant_id, .tenant = c->who->tenant,
			.principal = c->who->name,
		.rev = rev_table[c->rev].text, .caps = c->caps & ~(uint32_t)CAP_TASKS, .log_level = c->log_level,
		.far = c->task || c->may_task || c->compiled->task.drive,
		.trace = call_trace(c, true),
		.deadline_us = call_task_deadline(c),
		.result_max = c->compiled->result_max,
	};
	struct err err;
	int rc;

	call_set_state(c, CALL_RUN);
	if (!c->timer)
		c->timer = ev_timer_new(eng->env.loop, on_timer, c);
	call_task_arm(c);
	rc = backend_start(c->ops, &env, &req, &sink, c, &c->op, &err);
	free(params);
	call_far_rest(c);
	CRASH_AT("run.spawned");
	if (rc < 0)
		call_fail(c, AUDIT_ABORTED, err.msg);
}

/* It has begun, and is refused now, for what is in c->trouble. */
static void deny_begun(struct call *c)
{
	struct call_trouble *t = c->trouble;

	c->trouble = NULL;
	call_fail(c, AUDIT_DENIED, t->err.msg);
	free(t);
}

static void run_durable(void *arg)
{
	struct call *c = arg;

	if (c->eng->closed || call_task_first(c, false))
		return;
	if (c->cancelled) {
		c->flags |= AUDIT_FLAG_NOT_EXECUTED;
		call_end_cancelled(c);
	} else if (writer_is_shared(c->eng->env.writer) && call_admit_again(c) < 0) {   /* by another node (CLUSTER K-115) */
		c->flags |= AUDIT_FLAG_NOT_EXECUTED;
		deny_begun(c);
	} else {
		run(c);
	}
}

/* Its row is durable, or refused: it goes on, whatever it was about to do. */
static void task_made(struct call *c)
{
	if (c->over)
		call_finish(c, c->outcome);
	else if (c->state == CALL_AUDIT_BEGIN)
		run_durable(c);
	else
		call_task_arm(c);
	call_far_rest(c);
}

static void task_stop(void *arg)
{
	call_cancel(arg, CANCEL_BY_CLIENT);
}

static void on_begin_durable(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct call *c = arg;

	if (c->eng->closed)
		return;
	if (rc < 0) {           /* AUDIT A-208; should it come through late: call_late_begin() */
		call_refuse_begin(c, c->task ? ERR_AUDIT : rc);
		if (c->task)
			call_task_unbegun(c);
		call_reply(c);
		return;
	}
	c->begun = true;
	span_event(c->span, "begin.durable");
	metric_inc(METRIC_calls_started);
	call_pace(c, run_durable);
}

/* AUDIT_BEGIN */
static void begin(struct call *c)
{
	struct audit_event ev;
	struct call_payload payload;
	struct str *rule = &c->eng->scratch;
	int rc;

	call_draw_id(c);
	c->has_id = true;
	c->start_us = clock_mono_us();
	span_event(c->span, "admitted");
	call_tally_in(c, TALLY_RUNNING);
	call_fill_event(c, AUDIT_CALL_BEGIN, &ev);
	str_reset(rule);
	str_puts(rule, "grant/");
	str_put_i64(rule, c->tool->grant_id);
	ev.rule = str_text(rule);
	call_set_state(c, CALL_AUDIT_BEGIN);
	call_payload_request(c, &ev, &payload);
	rc = call_note_sandbox(c);
	if (rc == 0)
		rc = call_begin_record(c, &ev, on_begin_durable);
	call_payload_fini(&payload);
	pdp_forget(&c->asking);
	if (rc < 0) {
		call_refuse_begin(c, c->task ? ERR_AUDIT : rc);
		if (c->task)
			call_task_unbegun(c);
		ev_defer(c->eng->env.loop, call_reply, c);
	}
}

/* --- calls that wait for their slots */

/* Nothing of them is recorded as begun.  Turns are handed out from a timer, never from the end of another call. */

/* The record has no place for the request: the line joins an answer's X-Request-Id with its call. */
static void forget_borrowed(struct call *c)
{
	char id[ID_TEXT_SIZE];

	if (c->state == CALL_DECIDING || c->hold)       /* kept, and still needed */
		return;
	if (c->has_id && c->request)
		log_debug(&(struct log_ctx){ .tenant = c->who->tenant, .principal = c->who->name,
					     .call = id_format(c->id, id) },
			  "call of a request request=%s", c->request);
	c->peer = c->client = c->model = c->request = NULL;
}

/* --- who decides beside us (decide.c) */

static void decided(struct call *c, int rc)
{
	if (c->begun && rc < 0) {       /* a further round of it */
		deny_begun(c);
	} else if (c->begun) {
		run(c);
	} else if (rc < 0) {
		call_deny(c);
	} else if (call_check_approval(c) < 0) {
		call_holding.wait(c);
	} else {
		begin(c);
	}
}

static void decide(struct call *c)
{
	const int rc = call_decide(c);

	if (rc <= 0) {
		decided(c, rc);
		return;
	}
	if (!c->kept)
		call_keep_texts(c);
	call_set_state(c, CALL_DECIDING);
}

static void decided_later(struct call *c, int rc)
{
	if (c->eng->closed)
		return;
	if (rc == 0 && !c->begun)
		rc = call_admit_turn(c);
	decided(c, rc);
	forget_borrowed(c);
}

/* ADMIT -> QUEUED */
static void wait_for_slots(struct call *c)
{
	if (!c->kept)
		call_keep_texts(c);
	call_set_state(c, CALL_QUEUED);
	call_tally_in(c, TALLY_WAITING);
	call_turn_soon(c->eng);
}

static void deny_queued(struct call *c, enum call_refusal refusal, const char *rule)
{
	struct call_trouble *t = call_trouble(c);

	t->refusal = refusal;
	(void)snprintf(t->rule, sizeof(t->rule), "%s", rule); /* fits */
	call_deny(c);
	forget_borrowed(c);
}

/* cancelled while it waits */
static void leave_queue(struct call *c)
{
	call_say_cancelled(c);
	deny_queued(c, REFUSE_CANCELLED, c->state == CALL_QUEUED ? "queue/cancelled" : "pdp/cancelled");
}

static void take_turn(void *arg, bool granted)
{
	struct call *c = arg;

	if (c->eng->closed)
		return;
	if (!granted) {
		(void)err_set(&call_trouble(c)->err, ERR_RATE, "queue/wait",
			      "too many calls are running, and its turn did not come in time");
		c->trouble->err.retry_ms = LIMIT_SLOT_RETRY_MS;
		deny_queued(c, REFUSE_RATE, "queue/wait");
	} else {
		if (call_admit_turn(c) < 0)
			call_deny(c);
		else
			decide(c);
		forget_borrowed(c);
	}
}

static void on_turns(void *arg)
{
	struct call_engine *eng = arg;

	limit_turns(eng->env.limiter, ev_now_us(eng->env.loop));
	call_turn_soon(eng);
}

/* --- the way in, and what is done to a call that runs */

enum { SPARE_TEXT = 512, SPARE_CALLS = 256 };           /* of one that is kept: name and arguments; how many are */

static struct call *call_new(struct call_engine *eng, const struct call_req *req, const struct call_out *out, void *arg)
{
	const size_t least = sizeof(struct call) + req->tool_len + 1 + 1;
	struct call *c = mem_spare_try(&eng->spares, least + req->args_len);
	const size_t args_len = c ? req->args_len : 0;
	char *text;

	if (!c)                         /* call_start() refuses it */
		c = mem_alloc(least > eng->spares.size ? least : eng->spares.size);
	text = (char *)(c + 1);
	*c = (struct call){
		.eng = eng, .size = least + args_len, .out = out, .out_arg = arg,
		.who = req->who, .snap = req->snap, .kind = req->kind, .completing = req->complete != NULL,
		.ambiguous = req->ambiguous,
		.tool_len = req->tool_len, .args = req->args, .args_len = args_len, .answers = req->answers,
		.caps = req->caps, .log_level = req->log_level, .rev = req->rev, .tport = req->tport,
		.can_ask = req->can_ask, .peer = req->peer, .client = req->client, .model = req->model,
		.request = req->request,
		.span = req->span, .end_idx = -1, .level = -1, .n_res = -1, .text = { .max = CALL_TEXT_MAX },
	};
	principal_ref(c->who);
	if (!c->args)
		c->args = json_incref(eng->no_args);
	c->modern = rev_table[req->rev].era == ERA_MODERN;
	if (req->trace && !req->span)
		c->trace = mem_dup(req->trace, sizeof(*c->trace));
	c->tool_name = memcpy(text, req->tool, req->tool_len);
	text[req->tool_len] = '\0';
	text += req->tool_len + 1;
	if (args_len)
		memcpy(text, req->args_text, args_len);
	text[args_len] = '\0';
	c->args_text = text;
	if (req->task) {
		c->task = req->task;
		c->task->run = c;
		c->task->stop = eng->task_stop;
		c->has_prev = true;
		memcpy(c->prev, c->task->call, sizeof(c->prev));
		str_put(&c->state_bytes, req->state, req->state_len);
		c->far = req->far;
	}
	list_init(&c->paced);
	list_push_back(&eng->calls, &c->all);
	eng->running++;
	return c;
}

static void admit(struct call *c, const struct call_req *req)
{
	if (call_admit(c, req, take_turn) < 0 || (!limit_waits(c->ticket) && call_admit_last(c) < 0)) {
		call_deny(c);
	} else if (limit_waits(c->ticket)) {
		wait_for_slots(c);
		return;
	} else {
		decide(c);
	}
	forget_borrowed(c);
}

/* It has rested. */
static void again(struct call *c)
{
	admit(c, &(struct call_req){ .in_standing = false });
}

void call_start(struct call_engine *eng, const struct call_req *req, const struct call_out *out, void *arg,
		struct call **ret)
{
	struct call *c = call_new(eng, req, out, arg);

	*ret = c;
	if (c->args_len < req->args_len) {
		metric_inc(METRIC_budget_memory_refused);
		(void)err_set(&call_trouble(c)->err, ERR_BUSY, "server/memory", "there is no memory for the arguments");
		c->trouble->refusal = REFUSE_BUSY;
		(void)snprintf(c->trouble->rule, sizeof(c->trouble->rule), "server/memory");
		call_deny(c);
		forget_borrowed(c);
	} else {
		admit(c, req);
	}
}

static void start_round(struct call_engine *eng, const struct call_req *req)
{
	struct call *c;

	call_start(eng, req, NULL, NULL, &c);
}

void call_answer(struct call *c, json_t *answers)
{
	if (c->state == CALL_HELD) {
		call_holding.answered(c, answers);
		return;
	}
	if (c->state != CALL_ASKING) {
		json_decref(answers);
		return;
	}
	json_decref(c->answers);
	c->answers = answers;
	decide(c);
}

void call_cancel(struct call *c, enum cancel_why why)
{
	switch (c->state) {
	case CALL_QUEUED:
	case CALL_DECIDING:
		pdp_forget(&c->asking);
		if (!c->cancelled && c->begun) {
			c->cancelled = true;
			c->why = why;
			call_end_cancelled(c);
		} else if (!c->cancelled) {
			c->cancelled = true;
			c->why = why;
			leave_queue(c);
		}
		break;
	case CALL_HELD:
		call_holding.cancel(c, why);
		break;
	case CALL_AUDIT_BEGIN:
	case CALL_RUN:
		if (!c->cancelled)
			c->why = why;
		c->cancelled = true;
		if (c->state == CALL_RUN && c->op)
			backend_cancel(c->op, why);
		break;
	case CALL_ASKING:
		c->cancelled = true;
		c->why = why;
		call_end_cancelled(c);
		break;
	case CALL_ADMIT:        /* refused already, or its end is on its way to the record */
	case CALL_AUDIT_END:
	case CALL_REPLY:
	case CALL_DEAD:
		break;
	}
}

void call_detach(struct call *c)
{
	c->out = NULL;
	/* Nobody is left to answer. */
	if (c->state == CALL_ASKING || c->state == CALL_QUEUED || c->state == CALL_DECIDING || c->state == CALL_HELD)
		call_cancel(c, CANCEL_BY_CLIENT);
}

/* --- the engine */

struct call_engine *call_engine_new(const struct call_env *env)
{
	struct call_engine *eng = mem_zalloc(sizeof(*eng));

	eng->spares = (struct mem_spares){ .size = sizeof(struct call) + SPARE_TEXT, .max = SPARE_CALLS };
	eng->env = *env;
	eng->seal = seal_new(env->master, "toolcrib/request-state/1");
	eng->no_args = json_object();
	eng->task_made = task_made;
	eng->task_stop = task_stop;
	eng->decided = decided_later;
	eng->start_round = start_round;
	eng->again = again;
	eng->holding = &call_holding;
	eng->file = call_file;
	list_init(&eng->held);
	eng->holds = ev_timer_new(eng->env.loop, call_holding.look, eng);
	list_init(&eng->calls);
	eng->denials = denials_new(eng);
	eng->degraded = map_new();
	eng->turns = ev_timer_new(eng->env.loop, on_turns, eng);
	list_init(&eng->paced);
	eng->pace = ev_timer_new(eng->env.loop, call_on_pace, eng);
	eng->rounds = ev_timer_new(eng->env.loop, call_task_turns, eng);
	if (env->tasks && tasks_queued(env->tasks) > 0)
		ev_timer_start(eng->rounds, 0);
	return eng;
}

void call_engine_free(struct call_engine **eng)
{
	struct call_engine *e = eng ? *eng : NULL;

	if (!e)
		return;
	*eng = NULL;
	denials_free(&e->denials);
	ev_timer_free(&e->turns);
	ev_timer_free(&e->pace);
	ev_timer_free(&e->rounds);
	ev_timer_free(&e->holds);
	if (!list_empty(&e->calls)) {
		/* Handlers still point to their calls: better to leave both than to free under them. */
		e->closed = true;
		return;
	}
	seal_free(&e->seal);
	map_free(&e->degraded);
	json_decref(e->no_args);
	str_fini(&e->scratch);
	mem_spares_fini(&e->spares);
	free(e);
}

size_t call_engine_running(const struct call_engine *eng)
{
	return eng->running;
}
