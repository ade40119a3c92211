/* How a call goes from state to state, and how it ends: its refusal or end is recorded, what it held is given back, and
 * its caller is answered, in this order (AUDIT ).  engine.c and hold.c; loop thread. */

#include "config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "ev/ev.h"
#include "limit/limit.h"
#include "otel/span.h"
#include "pdp/pdp.h"
#include "registry/registry.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "end_int.h"
#include "held_int.h"
#include "task_call_int.h"

void call_set_state(struct call *c, enum call_state to)
{
#define TO(name) (1u << CALL_##name)
	static const unsigned allowed[CALL_STATE_COUNT] = {
		[CALL_ADMIT] = TO(QUEUED) | TO(DECIDING) | TO(HELD) | TO(AUDIT_BEGIN) | TO(AUDIT_END) | TO(REPLY),
		[CALL_QUEUED] = TO(DECIDING) | TO(HELD) | TO(AUDIT_BEGIN) | TO(AUDIT_END) | TO(REPLY),
		[CALL_DECIDING] = TO(HELD) | TO(AUDIT_BEGIN) | TO(RUN) | TO(AUDIT_END) | TO(REPLY),
		[CALL_AUDIT_BEGIN] = TO(RUN) | TO(AUDIT_END) | TO(REPLY),
		[CALL_RUN] = TO(ASKING) | TO(AUDIT_END),
		[CALL_ASKING] = TO(DECIDING) | TO(RUN) | TO(AUDIT_END),
		[CALL_HELD] = TO(QUEUED) | TO(DECIDING) | TO(HELD) | TO(AUDIT_BEGIN) | TO(AUDIT_END) | TO(REPLY),
		[CALL_AUDIT_END] = TO(HELD) | TO(REPLY),
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

void call_pace(struct call *c, ev_fn *step)
{
	if (!c->ticket || !is_full(c)) {
		step(c);
		return;
	}
	c->step = step;
	list_push_back(&c->eng->paced, &c->paced);
	ev_timer_start(c->eng->pace, 0);
}

void call_on_pace(void *arg)
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
		call_pace(c, c->step);
	}
}

/* --- the end of a call */

/* A slot may have become free. */
void call_turn_soon(struct call_engine *eng)
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
	c->eng->holding->drop(c);
	span_end(&c->run);
	span_end(&c->span);
	free(c->trace);
	free(c->kept);
	pdp_forget(&c->asking);
	str_fini(&c->state_bytes);
	str_fini(&c->sealed);
	str_fini(&c->text);
	free(c->hint);
	free(c->note);
	if (c->trouble) {
		free(c->trouble->report);
		free(c->trouble);
	}
	mem_spare_free(&c->eng->spares, c, c->size);
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
void call_release_holds(struct call *c)
{
	limit_release(c->eng->env.limiter, &c->ticket, ev_now_us(c->eng->env.loop));
	call_turn_soon(c->eng);
	writer_release(c->eng->env.writer, c->reserved);
	c->reserved = 0;
	if (c->timer)
		ev_timer_stop(c->timer);
}

/* REPLY; an ev_fn */
void call_reply(void *arg)
{
	struct call *c = arg;
	struct call_end end = { .call_id = c->has_id ? c->id : NULL };
	struct ev_loop *loop = c->eng->env.loop;

	if (c->eng->closed)
		return;
	call_set_state(c, CALL_REPLY);
	call_release_holds(c);
	call_span_end(c);
	call_tally_end(c);
	if (c->trouble && !c->eng->holding->joins(c, &end)) {
		end.err = &c->trouble->err;
		end.refusal = c->trouble->refusal;
		end.report = c->trouble->report;
		end.missing_caps = c->trouble->missing_caps;
		end.approval_id = c->trouble->approval_id;
		end.approval_until_us = c->trouble->approval_until_us;
		end.executed = c->trouble->executed;
		end.rpc_code = c->trouble->rpc_code;
		end.rpc_data = c->trouble->rpc_data;
	} else if (c->trouble) {
		end.call_id = NULL;             /* the task has its own */
	} else if (c->requests) {
		c->eng->holding->say(c, &end);
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
	call_set_state(c, CALL_DEAD);
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
	call_reply(c);
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
	call_pace(c, reply_durable);
}

/* End the run or the wait: record the end, then answer. */
void call_finish(struct call *c, int outcome)
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
	call_set_state(c, CALL_AUDIT_END);
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
		ev_defer(c->eng->env.loop, call_reply, c);
	}
}

/* fills c->trouble */
void call_say_cancelled(struct call *c)
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
	if (rc < 0 && c->task)
		call_task_later(c->eng);
	if (rc == 0 && c->hold && c->trouble->files) {
		c->trouble->files = false;
		c->eng->holding->rest(c);
		return;
	}
	if (rc == 0)
		c->eng->holding->put_form(c);
	call_reply(c);
}

void call_deny(struct call *c)
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
		ev_defer(c->eng->env.loop, call_reply, c);
		return;
	}
	if (!files && !(c->task ? call_task_over(c) : call_may_record_denied(c->eng, c->who, c->trouble->refusal))) {
		if (c->task)
			call_task_unbegun(c);
		ev_defer(c->eng->env.loop, call_reply, c);
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
	call_set_state(c, CALL_AUDIT_END);
	call_payload_request(c, &ev, &payload);
	rc = files ? c->eng->file(c, &ev, on_denied_durable) : c->task ? call_task_end(c, &ev, on_denied_durable) :
		writer_audit(c->eng->env.writer, &ev, on_denied_durable, c);
	call_payload_fini(&payload);
	if (rc < 0) {
		if (c->task)
			call_task_unbegun(c);
		refuse_for_audit(c);
		ev_defer(c->eng->env.loop, call_reply, c);
	}
}
