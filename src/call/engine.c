/*
 * One call from admission to reply.
 *
 *   ADMIT -> AUDIT_BEGIN -> RUN -> AUDIT_END -> REPLY -> DEAD
 *     |        |            | ^
 *     QUEUED --+           ASKING
 *
 * A refusal goes from ADMIT or QUEUED through AUDIT_END (its record) to REPLY, or straight there when nothing can or need
 * be recorded.  Nothing runs before its begin is durable and nothing is answered before its end is (AUDIT ).
 */

#include "config.h"

#include "call/call.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "call_int.h"
#include "ev/ev.h"
#include "limit/limit.h"
#include "proto/trace.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

void call_set_state(struct call *c, enum call_state to)
{
#define TO(name) (1u << CALL_##name)
	static const unsigned allowed[CALL_STATE_COUNT] = {
		[CALL_ADMIT] = TO(QUEUED) | TO(AUDIT_BEGIN) | TO(AUDIT_END) | TO(REPLY),
		[CALL_QUEUED] = TO(AUDIT_BEGIN) | TO(AUDIT_END) | TO(REPLY),
		[CALL_AUDIT_BEGIN] = TO(RUN) | TO(AUDIT_END) | TO(REPLY),
		[CALL_RUN] = TO(ASKING) | TO(AUDIT_END),
		[CALL_ASKING] = TO(RUN) | TO(AUDIT_END),
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

struct call_trouble *call_trouble(struct call *c)
{
	if (!c->trouble)
		c->trouble = mem_zalloc(sizeof *c->trouble);
	return c->trouble;
}

struct call_engine *call_engine_new(const struct call_env *env)
{
	struct call_engine *eng = mem_zalloc(sizeof *eng);

	eng->env = *env;
	eng->seal = seal_new(env->master, "toolcrib/request-state/1");
	eng->no_args = json_object();
	list_init(&eng->calls);
	eng->denials = denials_new(eng);
	call_cage_init(eng);
	call_queue_init(eng);
	call_pace_init(eng);
	return eng;
}

void call_engine_free(struct call_engine **eng)
{
	struct call_engine *e = eng ? *eng : NULL;

	if (!e)
		return;
	*eng = NULL;
	denials_free(&e->denials);
	call_queue_fini(e);
	call_pace_fini(e);
	if (!list_empty(&e->calls)) {
		/* Handlers still point to their calls: better to leave both than to free under them. */
		e->closed = true;
		return;
	}
	seal_free(&e->seal);
	call_cage_fini(e);
	json_decref(e->no_args);
	str_fini(&e->scratch);
	free(e);
}

size_t call_engine_running(const struct call_engine *eng)
{
	return eng->running;
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
	free(c->trace);
	free(c->kept);
	str_fini(&c->state_bytes);
	str_fini(&c->sealed);
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
	call_queue_soon(c->eng);
	writer_release(c->eng->env.writer, c->reserved);
	c->reserved = 0;
	if (c->timer)
		ev_timer_stop(c->timer);
}

void call_reply(void *arg)
{
	struct call *c = arg;
	struct call_end end = { .call_id = c->has_id ? c->id : NULL };
	struct ev_loop *loop = c->eng->env.loop;

	if (c->eng->closed)
		return;
	call_set_state(c, CALL_REPLY);
	release_holds(c);
	if (c->trouble) {
		end.err = &c->trouble->err;
		end.refusal = c->trouble->refusal;
		end.report = c->trouble->report;
		end.missing_caps = c->trouble->missing_caps;
		end.executed = c->trouble->executed;
		end.rpc_code = c->trouble->rpc_code;
		end.rpc_data = c->trouble->rpc_data;
	} else if (c->requests) {
		end.requests = c->requests;
		end.sealed_state = str_text(&c->sealed);
	} else {
		end.result = &c->result;
	}
	if (c->out)
		c->out->finish(c->out_arg, &end);
	else
		drop_payload(c);
	call_set_state(c, CALL_DEAD);
	ev_defer(loop, call_free, c);
}

void call_fill_event(const struct call *c, enum audit_kind kind, struct audit_event *ev)
{
	audit_event_init(ev, kind, c->who->tenant_id);
	ev->cred = c->who->cred_id ? c->who->accessor : NULL;
	ev->prn = c->who->pseudonym;
	/* AUDIT A-633: a name that does not exist is never interned. */
	ev->tool = c->tool ? c->tool->full_name : NULL;
	ev->has_call = c->has_id;
	memcpy(ev->call, c->id, sizeof ev->call);
	ev->has_prev = c->has_prev;
	memcpy(ev->prev, c->prev, sizeof ev->prev);
	if (kind == AUDIT_CALL_END)
		return;
	ev->actor = c->who->authn == AUDIT_AUTHN_UID ? AUDIT_BY_UID : AUDIT_BY_SERVICE;
	ev->authn = c->who->authn;
	ev->tport = c->tport;
	ev->rev = rev_table[c->rev].text;
	ev->tdef = c->tool ? c->tool->def->digest : NULL;
	ev->sbox = c->caged ? c->cage.level : NULL;
	ev->n_req = (int64_t)c->args_len;
	ev->has_trace = c->trace != NULL;
	if (c->trace)
		memcpy(ev->trace, c->trace->id, sizeof ev->trace);
	ev->peer = c->peer;
	ev->client = c->client;
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
	if (rc == 0)
		metric_inc(METRIC_calls_finished);
	else
		withhold(c);
	call_pace(c, reply_durable);
}

void call_end(struct call *c, int outcome)
{
	struct audit_event ev;
	struct call_said said;
	int rc;

	CRASH_AT("run.done");
	c->outcome = outcome;
	call_set_state(c, CALL_AUDIT_END);
	if (c->timer)
		ev_timer_stop(c->timer);
	if (!c->out)
		c->flags |= AUDIT_FLAG_DETACHED | AUDIT_FLAG_UNDELIVERED;
	else if (c->out->is_gone(c->out_arg))
		c->flags |= AUDIT_FLAG_UNDELIVERED;
	call_fill_event(c, AUDIT_CALL_END, &ev);
	ev.has_outcome = true;
	ev.outcome = outcome;
	ev.flags = c->flags;
	ev.n_res = c->n_res;
	ev.has_xstat = c->result.has_xstat;
	ev.xstat = c->result.xstat;
	ev.sig = c->result.sig;
	ev.cpu_us = c->result.cpu_us;
	ev.rss_kib = c->result.rss_kib;
	ev.dur_us = clock_mono_us() - c->start_us;
	call_say_end(c, &ev, &said);
	rc = writer_audit(c->eng->env.writer, &ev, on_end_durable, c);
	call_said_fini(&said);
	if (rc < 0) {
		withhold(c);
		ev_defer(c->eng->env.loop, call_reply, c);
	}
}

/* How a cancelled call ends, whatever its handler says (AUDIT A-224: aborted by a drain). */
static void end_cancelled(struct call *c)
{
	if (c->eng->closed)
		return;
	call_say_cancelled(c);
	call_end(c, c->why == CANCEL_SHUTDOWN ? AUDIT_ABORTED : AUDIT_CANCELLED);
}

static void on_progress(void *arg, double done, double total, const char *note)
{
	struct call *c = arg;

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
		call_end(c, c->outcome);
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
		call_ask(c, ask);
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
		call_take_error(c, err, rpc_code, data);
	}
}

static void on_timer(void *arg)
{
	struct call *c = arg;

	if (c->state == CALL_ASKING) {
		call_ask_timeout(c);
	} else if (c->state == CALL_RUN && c->op) {
		metric_inc(METRIC_handler_timeouts);
		backend_cancel(c->op, CANCEL_DEADLINE);
	}
}

/* NULL: none; free. */
static struct backend_param *backend_params(const struct reg_compiled *compiled)
{
	struct backend_param *ret = compiled->nparams ? mem_calloc(compiled->nparams, sizeof *ret) : NULL;

	for (size_t i = 0; i < compiled->nparams; i++)
		ret[i] = (struct backend_param){ compiled->params[i].header, compiled->params[i].pointer };
	return ret;
}

void call_run(struct call *c)
{
	static const struct backend_sink sink = { on_progress, on_log, on_result, on_ask, on_error, on_used };
	struct call_engine *eng = c->eng;
	const uint64_t timeout_us = (uint64_t)c->compiled->timeout_ms * 1000;
	const struct backend_env env = call_backend_env(eng);
	struct backend_param *params = backend_params(c->compiled);
	const struct backend_req req = {
		.params = params, .nparams = params ? c->compiled->nparams : 0, .plan = c->plan, .tool = c->tool->full_name, .args = c->args, .args_text = c->args_text,
		.args_len = c->args_len, .answers = c->answers, .state = c->state_bytes.p, .state_len = c->state_bytes.len,
		.call_id = c->id, .tenant_id = c->who->tenant_id, .tenant = c->who->tenant, .principal = c->who->name, .rev = rev_table[c->rev].text,
		.caps = c->caps, .log_level = c->log_level, .trace = c->trace, .deadline_us = ev_now_us(eng->env.loop) + timeout_us,
		.result_max = c->compiled->result_max,
	};

	call_set_state(c, CALL_RUN);
	if (!c->timer)
		c->timer = ev_timer_new(eng->env.loop, on_timer, c);
	ev_timer_start(c->timer, timeout_us);
	backend_start(c->ops, &env, &req, &sink, c, &c->op);
	free(params);
	CRASH_AT("run.spawned");
}

static void run_durable(void *arg)
{
	struct call *c = arg;

	if (c->eng->closed)
		return;
	if (c->cancelled) {
		c->flags |= AUDIT_FLAG_NOT_EXECUTED;
		end_cancelled(c);
	} else {
		call_run(c);
	}
}

static void on_begin_durable(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct call *c = arg;

	if (c->eng->closed)
		return;
	if (rc < 0) {           /* AUDIT A-208; should it come through late: call_late_begin() */
		struct call_trouble *t = call_trouble(c);

		metric_inc(METRIC_calls_audit_refused);
		t->refusal = REFUSE_AUDIT;
		(void)err_set(&t->err, ERR_AUDIT, "", "the call could not be recorded, nothing has run");
		call_reply(c);
		return;
	}
	metric_inc(METRIC_calls_started);
	call_pace(c, run_durable);
}

void call_begin(struct call *c)
{
	struct audit_event ev;
	struct call_said said;
	int rc;
	char rule[32];

	id_uuid7(c->id);
	c->has_id = true;
	c->start_us = clock_mono_us();
	call_fill_event(c, AUDIT_CALL_BEGIN, &ev);
	(void)snprintf(rule, sizeof rule, "grant/%lld", (long long)c->tool->grant_id); /* fits */
	ev.rule = rule;
	call_set_state(c, CALL_AUDIT_BEGIN);
	call_say_request(c, &ev, &said);
	rc = call_note_cage(c);
	if (rc == 0)
		rc = writer_audit(c->eng->env.writer, &ev, on_begin_durable, c);
	call_said_fini(&said);
	if (rc < 0) {
		struct call_trouble *t = call_trouble(c);

		metric_inc(METRIC_calls_audit_refused);
		t->refusal = REFUSE_AUDIT;
		(void)err_set(&t->err, ERR_AUDIT, "", "the call cannot be recorded, nothing has run");
		ev_defer(c->eng->env.loop, call_reply, c);
	}
}

static struct call *call_new(struct call_engine *eng, const struct call_req *req, const struct call_out *out, void *arg)
{
	struct call *c = mem_alloc(sizeof *c + req->tool_len + 1 + req->args_len + 1);
	char *text = (char *)(c + 1);

	*c = (struct call){ .eng = eng, .out = out, .out_arg = arg, .who = req->who, .snap = req->snap, .kind = req->kind,
			    .completing = req->complete != NULL, .tool_len = req->tool_len, .args = req->args, .answers = req->answers,
			    .args_len = req->args_len, .caps = req->caps, .log_level = req->log_level, .rev = req->rev, .tport = req->tport,
			    .can_ask = req->can_ask, .peer = req->peer, .client = req->client, .request = req->request, .n_res = -1 };
	principal_ref(c->who);
	if (!c->args)
		c->args = json_incref(eng->no_args);
	c->modern = rev_table[req->rev].era == ERA_MODERN;
	if (req->trace)
		c->trace = mem_dup(req->trace, sizeof *c->trace);
	c->tool_name = memcpy(text, req->tool, req->tool_len);
	text[req->tool_len] = '\0';
	text += req->tool_len + 1;
	if (req->args_len)
		memcpy(text, req->args_text, req->args_len);
	text[req->args_len] = '\0';
	c->args_text = text;
	list_init(&c->paced);
	list_push_back(&eng->calls, &c->all);
	eng->running++;
	return c;
}

/* The record has no place for the request: the line joins an answer's X-Request-Id with its call. */
void call_said_begin(struct call *c)
{
	char id[ID_TEXT_SIZE];

	if (c->has_id && c->request)
		log_debug(&(struct log_ctx){ .tenant = c->who->tenant, .principal = c->who->name, .call = id_format(c->id, id) },
			  "call of a request request=%s", c->request);
	c->peer = c->client = c->request = NULL;
}

void call_start(struct call_engine *eng, const struct call_req *req, const struct call_out *out, void *arg,
		struct call **ret)
{
	struct call *c = call_new(eng, req, out, arg);

	*ret = c;
	if (call_admit(c, req) < 0 || (!limit_waits(c->ticket) && call_admit_last(c) < 0)) {
		call_deny(c);
	} else if (limit_waits(c->ticket)) {
		call_wait(c);
		return;
	} else {
		call_begin(c);
	}
	call_said_begin(c);
}

void call_answer(struct call *c, json_t *answers)
{
	if (c->state != CALL_ASKING) {
		json_decref(answers);
		return;
	}
	json_decref(c->answers);
	c->answers = answers;
	call_run(c);
}

void call_cancel(struct call *c, enum cancel_why why)
{
	switch (c->state) {
	case CALL_QUEUED:
		if (!c->cancelled) {
			c->cancelled = true;
			c->why = why;
			call_unqueue(c);
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
	if (c->state == CALL_ASKING || c->state == CALL_QUEUED)
		call_cancel(c, CANCEL_BY_CLIENT);
}

void call_late_begin(void *engine, const struct audit_event *begin)
{
	struct call_engine *eng = engine;
	struct audit_event ev;

	audit_event_init(&ev, AUDIT_CALL_END, begin->tenant_id);        /* AUDIT A-210 */
	ev.cred = begin->cred;
	ev.prn = begin->prn;
	ev.tool = begin->tool;
	ev.has_call = true;
	memcpy(ev.call, begin->call, sizeof ev.call);
	ev.has_outcome = true;
	ev.outcome = AUDIT_ABORTED;
	ev.flags = AUDIT_FLAG_NOT_EXECUTED;
	if (writer_audit(eng->env.writer, &ev, NULL, NULL) < 0)
		log_err(NULL, "the end of a late begin could not be recorded; the next start will tenant_id=%lld",
			(long long)begin->tenant_id);
}
