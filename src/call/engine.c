/* One call from admission to reply, on the loop's thread:
 *
 *   ADMIT -> AUDIT_BEGIN -> RUN -> AUDIT_END -> REPLY -> DEAD
 *     QUEUED --^            ASKING (and back)
 *       DECIDING --^          DECIDING (and back)
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

#include "held_int.h"
#include "task_call_int.h"

static void set_state(struct call *c, enum call_state to)
{
#define TO(name) (1u << CALL_##name)
	static const unsigned allowed[CALL_STATE_COUNT] = {
		[CALL_ADMIT] = TO(QUEUED) | TO(DECIDING) | TO(AUDIT_BEGIN) | TO(AUDIT_END) | TO(REPLY),
		[CALL_QUEUED] = TO(DECIDING) | TO(AUDIT_BEGIN) | TO(AUDIT_END) | TO(REPLY),
		[CALL_DECIDING] = TO(AUDIT_BEGIN) | TO(RUN) | TO(AUDIT_END) | TO(REPLY),
		[CALL_AUDIT_BEGIN] = TO(RUN) | TO(AUDIT_END) | TO(REPLY),
		[CALL_RUN] = TO(ASKING) | TO(AUDIT_END),
		[CALL_ASKING] = TO(DECIDING) | TO(RUN) | TO(AUDIT_END),
		[CALL_AUDIT_END] = TO(REPLY),
		[CALL_REPLY] = TO(DEAD),
	};
#undef TO
	static const char *const names[CALL_STATE_COUNT] = {
#define CALL_STATE_NAME(name) [CALL_##name] = #name,
		CALL_STATES(CALL_STATE_NAME)
#undef CALL_STATE_NAME
	};

	assert(allowed[c->state] & (1u << to));
	log_debug(NULL, "call state tool=%s from=%s to=%s", c->tool_name, names[c->state], names[to]);
	c->state = to;
}

/* --- pace */

/* Large results take the loop's time, to measure, to commit to, to encode.  What a tenant's results take in one turn
 * of the loop is bounded (SEC S-820); its next steps wait for the turns that follow, and other tenants' come in
 * between. */

enum { TURN_BYTES = 65536 };            /* one result more than fits is taken whole */

static bool is_full(const struct call *c)
{
	return limit_turn_bytes(c->ticket, ev_now_us(c->eng->env.loop), 0) >= TURN_BYTES;
}

static void pace(struct call *c, ev_fn *step)
{
	if (!c->ticket || !is_full(c)) {
		step(c);
		return;
	}
	c->step = step;
	list_push_back(&c->eng->paced, &c->paced);
	ev_timer_start(c->eng->pace, 0);
}

static void on_pace(void *arg)
{
	struct call_engine *eng = arg;
	struct list due;

	list_init(&due);
	LIST_FOREACH_SAFE(n, tmp, &eng->paced) {
		list_unlink(n);
		list_push_back(&due, n);
	}
	while (!list_empty(&due)) {
		struct call *c = CONTAINER_OF(due.next, struct call, paced);

		list_unlink(&c->paced);
		pace(c, c->step);
	}
}

/* --- the end of a call */

/* A slot may have become free. */
static void turn_soon(struct call_engine *eng)
{
	uint64_t next = limit_next_us(eng->env.limiter), now = ev_now_us(eng->env.loop);

	if (next != UINT64_MAX)
		ev_timer_start(eng->turns, next > now ? next - now : 0);
}

static void call_free(void *arg)
{
	struct call *c = arg;

	if (c->eng->closed)
		return;
	list_unlink(&c->all);
	c->eng->running--;
	reg_release(c->eng->env.registry, &c->snap);
	principal_unref(&c->who);
	json_decref(c->args);
	json_decref(c->answers);
	ev_timer_free(&c->timer);
	span_end(&c->run);
	span_end(&c->span);
	free(c->trace);
	free(c->kept);
	pdp_forget(&c->asking);
	str_fini(&c->state_bytes);
	str_fini(&c->sealed);
	str_fini(&c->text);
	free(c->hint);
	if (c->trouble) {
		free(c->trouble->report);
		free(c->trouble);
	}
	free(c);
}

static void drop_payload(struct call *c)
{
	if (c->has_result) {
		json_decref(c->result.content);
		json_decref(c->result.structured);
		json_decref(c->result.meta);
	}
	json_decref(c->requests);
	if (c->trouble)
		json_decref(c->trouble->rpc_data);
}

/* Give back what the call held, before anybody is told that it has ended. */
static void release_holds(struct call *c)
{
	limit_release(c->eng->env.limiter, &c->ticket, ev_now_us(c->eng->env.loop));
	turn_soon(c->eng);
	writer_release(c->eng->env.writer, c->reserved);
	c->reserved = 0;
	if (c->timer)
		ev_timer_stop(c->timer);
}

/* REPLY; an ev_fn */
static void reply(void *arg)
{
	struct call *c = arg;
	struct call_end end = { .call_id = c->has_id ? c->id : NULL };
	struct ev_loop *loop = c->eng->env.loop;

	if (c->eng->closed)
		return;
	set_state(c, CALL_REPLY);
	release_holds(c);
	call_span_end(c);
	call_tally_end(c);
	if (c->trouble) {
		end.err = &c->trouble->err;
		end.refusal = c->trouble->refusal;
		end.report = c->trouble->report;
		end.missing_caps = c->trouble->missing_caps;
		end.approval_id = c->trouble->approval_id;
		end.approval_until_us = c->trouble->approval_until_us;
		end.executed = c->trouble->executed;
		end.rpc_code = c->trouble->rpc_code;
		end.rpc_data = c->trouble->rpc_data;
	} else if (c->requests) {
		end.requests = c->requests;
		end.sealed_state = str_text(&c->sealed);
	} else {
		end.result = &c->result;
		end.output = c->compiled->output_form;
		end.content = (struct jx_span){ c->text.p + c->content.at, c->content.len };
		if (c->structured.len)
			end.structured = (struct jx_span){ c->text.p + c->structured.at, c->structured.len };
	}
	if (c->out) {
		end.span = c->span;
		c->span = NULL;
		c->out->finish(c->out_arg, &end);
	} else {
		drop_payload(c);
	}
	set_state(c, CALL_DEAD);
	ev_defer(loop, call_free, c);
}

/* The end could not be recorded: the result is withheld (AUDIT A-209).  The writer keeps trying. */
static void withhold(struct call *c)
{
	struct call_trouble *t;

	drop_payload(c);
	c->has_result = false;
	c->requests = NULL;
	t = call_trouble(c);
	t->refusal = REFUSE_AUDIT;
	t->rpc_code = 0;
	t->rpc_data = NULL;
	t->executed = !(c->flags & AUDIT_FLAG_NOT_EXECUTED);
	(void)err_set(&t->err, ERR_AUDIT, "", "the tool has run, but its end could not be recorded");
	metric_inc(METRIC_calls_audit_refused);
}

static void reply_durable(void *arg)
{
	struct call *c = arg;

	if (!c->eng->closed && c->n_res > 0)
		call_took(c, (size_t)c->n_res);
	reply(c);
}

static void on_end_durable(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct call *c = arg;

	if (c->eng->closed)
		return;
	if (rc == 0) {
		metric_inc(METRIC_calls_finished);
		c->end_idx = receipt->idx;
		span_event(c->span, "end.durable");
	} else {
		withhold(c);
	}
	pace(c, reply_durable);
}

/* End the run or the wait: record the end, then answer. */
static void end_call(struct call *c, int outcome)
{
	struct audit_event ev;
	struct call_payload payload;
	int rc;

	c->outcome = outcome;
	if (c->promoting) {             /* first it becomes a task */
		c->over = true;
		return;
	}
	if (c->requests && !c->task)
		call_seal_state(c);
	CRASH_AT("run.done");
	span_event(c->span, "ended");
	call_span_ran(c, outcome);
	set_state(c, CALL_AUDIT_END);
	if (c->timer)
		ev_timer_stop(c->timer);
	if (!c->out && !c->task)
		c->flags |= AUDIT_FLAG_DETACHED | AUDIT_FLAG_UNDELIVERED;
	else if (c->out && c->out->is_gone(c->out_arg))
		c->flags |= AUDIT_FLAG_UNDELIVERED;
	call_fill_event(c, AUDIT_CALL_END, &ev);
	ev.has_outcome = true;
	ev.outcome = outcome;
	ev.flags = c->flags;
	ev.n_res = c->n_res;
	ev.detail = c->hint;
	ev.has_xstat = c->result.has_xstat;
	ev.xstat = c->result.xstat;
	ev.sig = c->result.sig;
	ev.cpu_us = c->result.cpu_us;
	ev.rss_kib = c->result.rss_kib;
	ev.dur_us = clock_mono_us() - c->start_us;
	call_payload_end(c, &ev, &payload);
	rc = c->task ? call_task_end(c, &ev, on_end_durable) :
		writer_audit(c->eng->env.writer, &ev, on_end_durable, c);
	call_payload_fini(&payload);
	if (rc < 0) {
		withhold(c);
		ev_defer(c->eng->env.loop, reply, c);
	}
}

/* fills c->trouble */
static void say_cancelled(struct call *c)
{
	struct call_trouble *t = call_trouble(c);

	switch (c->why) {
	case CANCEL_BY_CLIENT:
		(void)err_set(&t->err, ERR_CANCELLED, "", "the call was cancelled");
		break;
	case CANCEL_REVOKED:
		(void)err_set(&t->err, ERR_CANCELLED, "", "the call was cancelled: the credential is no longer valid");
		break;
	case CANCEL_STOPPED:
		(void)err_set(&t->err, ERR_CANCELLED, "", "the call was cancelled by an administrator");
		break;
	case CANCEL_SHUTDOWN:
		(void)err_set(&t->err, ERR_CANCELLED, "", "the call was cancelled: the server is stopping");
		break;
	case CANCEL_DEADLINE:
		(void)err_set(&t->err, ERR_CANCELLED, "", "the call was cancelled: it took too long");
		break;
	}
}

/* How a cancelled call ends, whatever its handler says (AUDIT A-224: aborted by a drain). */
static void end_cancelled(struct call *c)
{
	if (c->eng->closed)
		return;
	say_cancelled(c);
	end_call(c, c->why == CANCEL_SHUTDOWN ? AUDIT_ABORTED : AUDIT_CANCELLED);
}

/* --- refusals: a denied call is recorded before it is answered (AUDIT A-205) */

static void refuse_for_audit(struct call *c)
{
	struct call_trouble *t = call_trouble(c);

	metric_inc(METRIC_calls_audit_refused);
	t->refusal = REFUSE_AUDIT;
	(void)err_set(&t->err, ERR_AUDIT, "", "the refusal of this call cannot be recorded, nothing has run");
}

static void on_denied_durable(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct call *c = arg;

	if (c->eng->closed)
		return;
	if (rc < 0)
		refuse_for_audit(c);
	else
		c->end_idx = receipt->idx;
	reply(c);
}

static void deny(struct call *c)
{
	const bool files = c->trouble->files;
	struct audit_event ev;
	struct call_payload payload;
	int rc;

	c->outcome = call_outcome_of(c->trouble->refusal);
	/* Its turn must not come while its record is written. */
	limit_release(c->eng->env.limiter, &c->ticket, ev_now_us(c->eng->env.loop));
	if (c->trouble->refusal == REFUSE_UNKNOWN_TOOL || c->trouble->refusal == REFUSE_SCOPE ||
	    c->trouble->refusal == REFUSE_RULES || c->trouble->refusal == REFUSE_NONE ||
	    c->trouble->refusal == REFUSE_POLICY || c->trouble->refusal == REFUSE_UNDECIDED)
		metric_inc(METRIC_calls_denied);
	if (c->trouble->refusal == REFUSE_AUDIT && !c->task) {
		metric_inc(METRIC_calls_audit_refused);       /* there is no room for this record either */
		ev_defer(c->eng->env.loop, reply, c);
		return;
	}
	if (c->task ? !call_task_over(c) : !files && !call_may_record_denied(c->eng, c->who, c->trouble->refusal)) {
		if (c->task)
			call_task_unbegun(c);
		ev_defer(c->eng->env.loop, reply, c);
		return;
	}
	call_draw_id(c);
	c->has_id = true;
	call_fill_event(c, files ? AUDIT_CALL_HELD : AUDIT_CALL_DENIED, &ev);
	ev.rule = c->trouble->rule;
	ev.has_outcome = !files;
	ev.outcome = c->outcome;
	if (c->trouble->refusal == REFUSE_SANDBOX)
		ev.detail = c->sandbox.wanted;
	else if (c->trouble->refusal == REFUSE_POLICY || c->trouble->refusal == REFUSE_UNDECIDED)
		ev.detail = c->hint;
	set_state(c, CALL_AUDIT_END);
	call_payload_request(c, &ev, &payload);
	rc = files ? call_file(c, &ev, on_denied_durable) : c->task ? call_task_end(c, &ev, on_denied_durable) :
		writer_audit(c->eng->env.writer, &ev, on_denied_durable, c);
	call_payload_fini(&payload);
	if (rc < 0) {
		if (c->task)
			call_task_unbegun(c);
		refuse_for_audit(c);
		ev_defer(c->eng->env.loop, reply, c);
	}
}

/* --- a handler that asks */

/* Modern callers get the questions with a sealed state and send both back; a legacy caller is asked on its
 * connection, and the call waits. */

static void fail(struct call *c, int outcome, const char *text)
{
	call_put_failure(c, text);
	end_call(c, outcome);
}

static void ask_legacy(struct call *c, struct backend_ask *ask)
{
	struct err err;

	if (!c->out || !c->can_ask) {
		fail(c, AUDIT_TOOL_ERROR, "the tool needs to ask, and this connection cannot carry questions");
		return;
	}
	if (c->rounds == CALL_ROUNDS_MAX) {
		fail(c, AUDIT_TOOL_ERROR, "the tool asked too often");
		return;
	}
	c->rounds++;
	str_reset(&c->state_bytes);
	str_put(&c->state_bytes, ask->state, ask->state_len);
	set_state(c, CALL_ASKING);
	call_span_ran(c, AUDIT_INPUT_REQUIRED);
	ev_timer_start(c->timer, (uint64_t)CALL_ASK_TIMEOUT_MS * 1000);
	if (c->out->ask(c->out_arg, ask->requests, &err) < 0 && c->state == CALL_ASKING)
		fail(c, err.code == ERR_CANCELLED ? AUDIT_CANCELLED : AUDIT_TOOL_ERROR, err.msg);
}

static void take_ask(struct call *c, struct backend_ask *ask)
{
	const char *wrong = c->task && c->task->round >= TASK_ROUNDS_MAX ? "the tool asked too often" :
		call_check_questions(c, ask);

	if (wrong) {
		call_far_leave(c, ask->state, ask->state_len);
		fail(c, AUDIT_TOOL_ERROR, wrong);
	} else if (c->modern) {
		str_reset(&c->state_bytes);
		str_put(&c->state_bytes, ask->state, ask->state_len);
		c->requests = json_incref(ask->requests);
		(void)call_task_first(c, true);         /* then the row comes first, and else the question is the call's */
		end_call(c, AUDIT_INPUT_REQUIRED);
	} else {
		ask_legacy(c, ask);
	}
	json_decref(ask->requests);
}

/* --- a run, and what its handler gives */

static void on_progress(void *arg, double done, double total, const char *note)
{
	struct call *c = arg;

	if (c->task && note)
		task_note(c->task, note);
	if (c->out && !c->cancelled && !c->eng->closed)
		c->out->progress(c->out_arg, done, total, note);
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
		end_cancelled(c);
	} else {
		call_take_result(c, res);
		end_call(c, c->outcome);
	}
}

static void on_ask(void *arg, struct backend_ask *ask)
{
	struct call *c = arg;

	c->op = NULL;
	if (c->eng->closed || c->cancelled) {
		json_decref(ask->requests);
		end_cancelled(c);
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
		end_cancelled(c);
	} else {
		end_call(c, call_take_error(c, err, rpc_code, data));
	}
}

static void on_timer(void *arg)
{
	struct call *c = arg;

	if (c->state == CALL_ASKING) {
		fail(c, AUDIT_TIMEOUT, "the question was not answered in time");
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
		on_hint, call_far };
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

	set_state(c, CALL_RUN);
	if (!c->timer)
		c->timer = ev_timer_new(eng->env.loop, on_timer, c);
	call_task_arm(c);
	rc = backend_start(c->ops, &env, &req, &sink, c, &c->op, &err);
	free(params);
	call_far_rest(c);
	CRASH_AT("run.spawned");
	if (rc < 0)
		fail(c, AUDIT_ABORTED, err.msg);
}

static void run_durable(void *arg)
{
	struct call *c = arg;

	if (c->eng->closed || call_task_first(c, false))
		return;
	if (c->cancelled) {
		c->flags |= AUDIT_FLAG_NOT_EXECUTED;
		end_cancelled(c);
	} else {
		run(c);
	}
}

/* Its row is durable, or refused: it goes on, whatever it was about to do. */
static void task_made(struct call *c)
{
	if (c->over)
		end_call(c, c->outcome);
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
		reply(c);
		return;
	}
	c->begun = true;
	span_event(c->span, "begin.durable");
	metric_inc(METRIC_calls_started);
	pace(c, run_durable);
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
	set_state(c, CALL_AUDIT_BEGIN);
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
		ev_defer(c->eng->env.loop, reply, c);
	}
}

/* --- calls that wait for their slots */

/* Nothing of them is recorded as begun.  Turns are handed out from a timer, never from the end of another call. */

/* The record has no place for the request: the line joins an answer's X-Request-Id with its call. */
static void forget_borrowed(struct call *c)
{
	char id[ID_TEXT_SIZE];

	if (c->state == CALL_DECIDING)  /* kept, and still needed */
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
		struct call_trouble *t = c->trouble;

		c->trouble = NULL;
		fail(c, AUDIT_DENIED, t->err.msg);
		free(t);
	} else if (c->begun) {
		run(c);
	} else if (rc < 0 || call_check_approval(c) < 0) {
		deny(c);
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
	set_state(c, CALL_DECIDING);
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
	call_keep_texts(c);
	set_state(c, CALL_QUEUED);
	call_tally_in(c, TALLY_WAITING);
	turn_soon(c->eng);
}

static void deny_queued(struct call *c, enum call_refusal refusal, const char *rule)
{
	struct call_trouble *t = call_trouble(c);

	t->refusal = refusal;
	(void)snprintf(t->rule, sizeof(t->rule), "%s", rule); /* fits */
	deny(c);
	forget_borrowed(c);
}

/* cancelled while it waits */
static void leave_queue(struct call *c)
{
	say_cancelled(c);
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
			deny(c);
		else
			decide(c);
		forget_borrowed(c);
	}
}

static void on_turns(void *arg)
{
	struct call_engine *eng = arg;

	limit_turns(eng->env.limiter, ev_now_us(eng->env.loop));
	turn_soon(eng);
}

/* --- the way in, and what is done to a call that runs */

static struct call *call_new(struct call_engine *eng, const struct call_req *req, const struct call_out *out, void *arg)
{
	const size_t least = sizeof(struct call) + req->tool_len + 1 + 1;
	struct call *c = mem_try_realloc(NULL, least + req->args_len);
	const size_t args_len = c ? req->args_len : 0;
	char *text;

	if (!c)                         /* call_start() refuses it */
		c = mem_alloc(least);
	text = (char *)(c + 1);
	*c = (struct call){
		.eng = eng, .out = out, .out_arg = arg,
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
		deny(c);
	} else if (call_admit(c, req, take_turn) < 0 || (!limit_waits(c->ticket) && call_admit_last(c) < 0)) {
		deny(c);
	} else if (limit_waits(c->ticket)) {
		wait_for_slots(c);
		return;
	} else {
		decide(c);
	}
	forget_borrowed(c);
}

static void start_round(struct call_engine *eng, const struct call_req *req)
{
	struct call *c;

	call_start(eng, req, NULL, NULL, &c);
}

void call_answer(struct call *c, json_t *answers)
{
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
			end_cancelled(c);
		} else if (!c->cancelled) {
			c->cancelled = true;
			c->why = why;
			leave_queue(c);
		}
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
		end_cancelled(c);
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
	if (c->state == CALL_ASKING || c->state == CALL_QUEUED || c->state == CALL_DECIDING)
		call_cancel(c, CANCEL_BY_CLIENT);
}

/* --- the engine */

struct call_engine *call_engine_new(const struct call_env *env)
{
	struct call_engine *eng = mem_zalloc(sizeof(*eng));

	eng->env = *env;
	eng->seal = seal_new(env->master, "toolcrib/request-state/1");
	eng->no_args = json_object();
	eng->task_made = task_made;
	eng->task_stop = task_stop;
	eng->decided = decided_later;
	eng->start_round = start_round;
	list_init(&eng->calls);
	eng->denials = denials_new(eng);
	eng->degraded = map_new();
	eng->turns = ev_timer_new(eng->env.loop, on_turns, eng);
	list_init(&eng->paced);
	eng->pace = ev_timer_new(eng->env.loop, on_pace, eng);
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
	if (!list_empty(&e->calls)) {
		/* Handlers still point to their calls: better to leave both than to free under them. */
		e->closed = true;
		return;
	}
	seal_free(&e->seal);
	map_free(&e->degraded);
	json_decref(e->no_args);
	str_fini(&e->scratch);
	free(e);
}

size_t call_engine_running(const struct call_engine *eng)
{
	return eng->running;
}
