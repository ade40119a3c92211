/* A call becomes a task (TK-30 to TK-32): a row is made durable while it runs, its caller gets the handle, and from
 * then on its slots and its run are all that is left of it; its end goes into the row. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/metric.h"
#include "proto/caps.h"
#include "proto/encode.h"
#include "proto/errmap.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "task_call_int.h"

/* The caller has its handle. */
static void hand_out(struct call *c)
{
	struct call_end end = { .call_id = c->id, .task = c->task, .span = c->span };
	const struct call_out *out = c->out;

	c->out = NULL;
	c->span = NULL;
	if (out)
		out->finish(c->out_arg, &end);
}

static void on_made(void *arg, int rc, struct task *t)
{
	struct call *c = arg;

	if (c->eng->closed)
		return;
	c->promoting = c->may_task = false;
	c->task = rc == 0 ? t : NULL;
	if (c->task) {
		task_note(t, c->note);
		hand_out(c);
	}
	c->eng->task_made(c);
}

static bool promote(struct call *c)
{
	const struct reg_task *how = &c->compiled->task;
	struct task_new n = {
		.tenant_id = c->who->tenant_id, .principal_id = c->who->principal_id, .prn = c->who->pseudonym,
		.cred = c->who->cred_id ? c->who->accessor : NULL, .tool = c->tool->full_name,
		.name = c->tool->name, .tdef = c->tool->def->digest,
		.call = c->id, .ttl_ms = how->ttl_ms, .poll_ms = (uint32_t)how->poll_ms, .stop = c->eng->task_stop,
		.run = c, .state = c->far ? TASK_FAR : TASK_WORKING, .rerun = how->rerun,
	};
	struct str body = STR_INIT;
	struct audit_event ev;

	if (c->far || how->rerun) {
		call_task_body(c, &body);
		n.body = body.p;
		n.len = body.len;
	}
	call_fill_event(c, AUDIT_TASK_CREATE, &ev);
	c->promoting = task_create(c->eng->env.tasks, &n, &ev, 1, on_made, c) == 0;
	c->may_task = c->promoting;
	str_fini(&body);
	return c->promoting;
}

/* --- what goes on elsewhere (TK-61) */

/* Of one that became a task by time, the row does not know it: its run is cut off by a crash as any other. */
void call_far(void *arg, const void *state, size_t len)
{
	struct call *c = arg;

	if (c->eng->closed || c->cancelled)
		return;
	c->far = true;
	str_reset(&c->state_bytes);
	str_put(&c->state_bytes, state, len);
	if (c->may_task && !c->promoting)
		(void)promote(c);
	else if (c->task)
		call_task_arm(c);
	call_far_rest(c);
}

void call_far_leave(const struct call *c, const void *state, size_t len)
{
	const struct backend_env env = call_backend_env(c->eng);
	const struct backend_leave what = { .plan = c->plan, .state = state, .state_len = len,
		.tenant_id = c->who->tenant_id, .tenant = c->who->tenant, .principal = c->who->name, .recorded = c->begun };

	if (c->ops->leave)
		c->ops->leave(&env, &what);
}

/* TK-21: how long it is none, whatever comes. */
static uint64_t after_ms(const struct call *c)
{
	const struct reg_task *how = &c->compiled->task;
	const bool first = !c->answers && c->state_bytes.len == 0;

	return first && how->grace_ms > how->after_ms ? how->grace_ms : how->after_ms;
}

bool call_task_first(struct call *c, bool asks)
{
	return c->may_task && !c->promoting && (asks ? c->compiled->task.asks_inside : after_ms(c) == 0) && promote(c);
}

void call_task_arm(struct call *c)
{
	const uint64_t now = ev_now_us(c->eng->env.loop);
	uint64_t due = c->task ? call_task_deadline(c) : c->started_us + (uint64_t)c->compiled->timeout_ms * 1000;
	if (c->may_task && after_ms(c) < UINT64_MAX && c->started_us + after_ms(c) * 1000 < due)
		due = c->started_us + after_ms(c) * 1000;
	ev_timer_start(c->timer, due > now ? due - now : 0);
}

bool call_task_due(struct call *c)
{
	const uint64_t now = ev_now_us(c->eng->env.loop);

	if (c->promoting)
		return true;
	if (c->task && (c->far || c->ttl_ms <= c->compiled->task.timeout_ms)) { /* TK-12 */
		c->cancelled = true;
		c->why = CANCEL_DEADLINE;
	}
	if (!c->may_task || now >= c->started_us + (uint64_t)c->compiled->timeout_ms * 1000)
		return false;
	if (!promote(c))
		call_task_arm(c);       /* as a plain call */
	return true;
}

void call_task_long(struct call *c)
{
	if (c->may_task && !c->promoting && !promote(c))
		call_task_arm(c);       /* as a plain call */
}

/* --- its end */

static void put_fault(const struct call *c, struct rpc_error *e, struct str *text)
{
	char id[ID_TEXT_SIZE];

	if (!e->whole)
		rpc_error_text(e, "callId", id_format(c->id, id));
	encode_error_object(text, e);
	rpc_error_fini(e);
}

static void put_unkept(const struct call *c, struct str *text)
{
	struct rpc_error e;

	rpc_error_init(&e, FAULT_INTERNAL, "The tool has ended, but too much is kept for this tenant to keep its result");
	put_fault(c, &e, text);
}

/* As whoever calls would be told. */
static void refusal_error(const struct call *c, struct rpc_error *e)
{
	const struct call_trouble *t = c->trouble;

	switch (t->refusal) {
	case REFUSE_UNKNOWN_TOOL:
	case REFUSE_SCOPE:
		rpc_error_unknown_tool(e, c->rev, c->tool_name, c->tool_len);
		return;
	case REFUSE_ARGUMENTS:
	case REFUSE_RULES:
		rpc_error_arguments(e, t->err.msg);
		return;
	case REFUSE_CAPABILITY:
		rpc_error_capability(e, t->missing_caps);
		return;
	case REFUSE_SANDBOX:
	case REFUSE_POLICY:
	case REFUSE_APPROVAL:
		rpc_error_init(e, FAULT_TOOL, "%s", t->err.msg);
		return;
	case REFUSE_NONE:
		if (t->err.code == ERR_DENIED) {
			rpc_error_init(e, FAULT_DENIED, "%s", t->err.msg);
			return;
		}
		break;
	case REFUSE_STATE:
	case REFUSE_PARAMS:
	case REFUSE_RATE:
	case REFUSE_BUSY:
	case REFUSE_CANCELLED:
	case REFUSE_AUDIT:
	case REFUSE_UNDECIDED:
	case REFUSE_INTERNAL:
		break;
	}
	rpc_error_init(e, FAULT_INTERNAL, NULL);
}

static void put_error(const struct call *c, struct str *text)
{
	const struct call_trouble *t = c->trouble;
	struct rpc_error e;

	if (c->cancelled)       /* by the end of the server */
		rpc_error_init(&e, FAULT_INTERNAL, TASK_CUT_TEXT);
	else if (t && t->rpc_code)
		rpc_error_tool(&e, c->rev, t->rpc_code, t->err.msg, t->rpc_data);
	else
		refusal_error(c, &e);
	put_fault(c, &e, text);
}

static void put_result(const struct call *c, struct str *text)
{
	const struct enc_to to = { .rev = c->rev };
	struct enc_result r = { .kind = ENC_CALL, .content = c->result.content, .structured = c->result.structured,
				.meta = c->result.meta, .is_error = c->result.is_error,
				.unwrapped = c->compiled->output_form == REG_OUTPUT_HIDDEN,
				.wrapped = c->compiled->output_form == REG_OUTPUT_WRAPPED, .call_id = c->id };

	encode_result_object(text, &to, &r);
}

/* HA-06: nobody agreed, which is an answer of the tool. */
static void put_no(const struct call *c, struct str *text)
{
	const struct enc_to to = { .rev = c->rev };
	json_t *content = json_pack("[{s:s, s:s}]", "type", "text", "text", c->trouble->err.msg);
	const struct enc_result r = { .kind = ENC_CALL, .content = content, .is_error = true, .call_id = c->id };

	encode_result_object(text, &to, &r);
	json_decref(content);
}

/* What came of the run; then its record is as durable as its row, and others may change it. */
static void on_over(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct call *c = arg;
	struct task *t = c->eng->closed ? NULL : c->task;

	CRASH_AT("task.over");
	if (t)
		task_unhold(c->eng->env.tasks, t);
	c->task_done(c, rc, receipt);
}

static int end_with(struct call *c, const struct audit_event *ev, const struct task_answer *a, writer_audit_fn *done)
{
	int rc;

	c->task_done = done;
	c->task->held = true;
	rc = task_end(c->eng->env.tasks, c->task, ev, 1, a, on_over, c);
	if (rc < 0)
		task_unhold(c->eng->env.tasks, c->task);
	return rc;
}

/* It asks, or the server stops while it follows what goes on elsewhere, or may run again: it is parked with what
 * another round needs. */
static int park(struct call *c, const struct audit_event *ev, writer_audit_fn *done)
{
	struct task_move m = { .state = c->requests ? TASK_INPUT : TASK_QUEUED,
			       .round = c->task->round + (c->requests != NULL) };
	struct str body = STR_INIT;
	int rc;

	call_task_body(c, &body);
	m.body = body.p;
	m.len = body.len;
	c->task_done = done;
	c->task->held = true;
	rc = task_move(c->eng->env.tasks, c->task, ev, 1, &m, on_over, c);
	if (rc < 0)
		task_unhold(c->eng->env.tasks, c->task);
	str_fini(&body);
	return rc;
}

/* Its text, of what is no end by the caller's will. */
static void put_end(struct call *c, struct task_answer *a, struct str *text)
{
	if (c->cancelled && c->why != CANCEL_SHUTDOWN) {
		a->state = TASK_CANCELLED;
		a->note = c->trouble ? c->trouble->err.msg : NULL;
	} else if (c->trouble && c->trouble->refusal == REFUSE_APPROVAL) {
		put_no(c, text);
	} else if (c->cancelled || c->trouble) {
		a->state = TASK_FAILED;
		put_error(c, text);
	} else {
		put_result(c, text);
	}
	a->text = text->p;
	a->len = text->len;
}

int call_task_end(struct call *c, const struct audit_event *ev, writer_audit_fn *done)
{
	struct task_answer a = { .state = TASK_COMPLETED };
	struct str text = STR_INIT;
	const bool stops = c->cancelled && c->why == CANCEL_SHUTDOWN && ev->kind == AUDIT_CALL_END &&
		(c->far || c->compiled->task.rerun);
	int rc = c->requests || stops ? park(c, ev, done) : ERR_LIMIT;

	if (rc != ERR_LIMIT)
		return rc;
	if (!c->requests) {
		put_end(c, &a, &text);
		rc = end_with(c, ev, &a, done);
	}
	if (rc == ERR_LIMIT) {          /* its tool is done, and the record of it says how */
		str_reset(&text);
		put_unkept(c, &text);
		a = (struct task_answer){ .state = TASK_FAILED, .text = text.p, .len = text.len };
		rc = end_with(c, ev, &a, done);
	}
	str_fini(&text);
	return rc;
}
