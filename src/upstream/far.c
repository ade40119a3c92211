/* A task of an upstream: what mcp.c follows it with (far_int.h).  What its server says is hostile, as ever: each answer
 * is bounded, a state that is none ends it. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "ev/ev.h"
#include "proto/caps.h"

#include "far_int.h"
#include "mcp_int.h"

enum { NOTE_MAX = 200, DOUBLINGS = 6, FAR_LOG_OFF = 8, INTERNAL = -32603, UNKNOWN_PARAMS = -32602 };
#define AWAY "The server that works on it cannot be reached"

struct far {
	struct far_of of;
	const struct far_sink *sink;
	void *arg;
	char *upstream, *tenant, *principal, *who, *id;
	struct ev_timer *timer;
	struct link_call *call;         /* that is out */
	json_t *answers;                /* that are to be told, or are on their way */
	json_t *answered;               /* keys that are not asked again */
	uint64_t poll_ms;
	unsigned fails;                 /* one after the other */
	bool away;                      /* so its caller was told */
};

const char *far_id(const struct far *f)
{
	return f->id;
}

void far_free(struct far **p)
{
	struct far *f = *p;

	if (!f)
		return;
	*p = NULL;
	if (f->call)
		link_call_cancel(&f->call, false);
	ev_timer_free(&f->timer);
	json_decref(f->answers);
	json_decref(f->answered);
	free(f->upstream);
	free(f->tenant);
	free(f->principal);
	free(f->who);
	free(f->id);
	free(f);
}

/* --- requests */

static void put_id(struct str *out, const char *id)
{
	str_puts(out, "\"taskId\":");
	jx_write_stringz(out, id);
}

static void request(const struct far_of *of, const char *method, const char *who, struct str *params,
		    struct link_call_req *ret)
{
	put_id(params, of->id);
	*ret = (struct link_call_req){ .who = who, .method = method, .name = of->id, .key = "", .params = params,
				       .recorded = true, .caps = of->caps | CAP_TASKS, .log_level = FAR_LOG_OFF };
}

static char *who_of(const struct far_of *of)
{
	return mem_printf("%lld/%s", (long long)of->who.tenant_id, of->who.principal);
}

void far_leave(const struct far_of *of, bool recorded)
{
	struct str params = STR_INIT;
	struct link_call_req req;
	struct link *link = NULL;
	char *who = who_of(of);
	struct err err;

	request(of, "tasks/cancel", who, &params, &req);
	req.recorded = recorded;
	if (upstreams_link(of->all, of->upstream, &of->who, &link, &err) < 0 || link_call_post(link, &req, &err) < 0)
		metric_inc(METRIC_upstream_tasks_left);         /* it ends when its time is over there */
	str_fini(&params);
	free(who);
}

/* --- when */

static void look_in(struct far *f, uint64_t ms)
{
	const struct upstream_conf *conf = upstreams_conf(f->of.all, f->upstream);

	if (conf && ms > conf->idle_ms / 2)     /* its link, and perhaps its process, lives that long */
		ms = conf->idle_ms / 2;
	ev_timer_start(f->timer, ms * 1000);
}

/* Each time: who has become a task meanwhile has not heard the last one. */
static void tell(struct far *f, const char *text)
{
	char note[NOTE_MAX + 1] = "";

	if (text)
		text_printable(text, strlen(text), note, sizeof(note));
	if (text || f->away)
		f->sink->note(f->arg, note);
	f->away = false;
}

static void try_later(struct far *f)
{
	const uint64_t gap = (uint64_t)FAR_POLL_MS << f->fails;

	metric_inc(METRIC_upstream_tasks_unreachable);
	if (f->fails < DOUBLINGS)
		f->fails++;
	tell(f, AWAY);
	f->away = true;
	look_in(f, gap > f->poll_ms ? gap : f->poll_ms);
}

static void take_poll(struct far *f, const json_t *state)
{
	const json_t *ms = json_object_get(state, "pollIntervalMs");
	const double v = json_is_number(ms) ? jx_nearest(ms) : FAR_POLL_MS;

	f->poll_ms = v < FAR_POLL_MIN_MS ? FAR_POLL_MIN_MS : v > FAR_POLL_MAX_MS ? FAR_POLL_MAX_MS : (uint64_t)v;
}

/* --- what it says */

static void end(struct far *f, const char *why)
{
	f->sink->error(f->arg, INTERNAL, why, NULL);
}

/* Of no use here: it may as well end. */
static void give_up(struct far *f, const char *why)
{
	far_leave(&f->of, true);
	end(f, why);
}

static void take_questions(struct far *f, const json_t *state)
{
	json_t *requests = json_object_get(state, "inputRequests"), *one, *open;
	const char *key;

	if (!json_is_object(requests) || json_object_size(requests) == 0) {
		give_up(f, "its task asks for input, but has no question");
		return;
	}
	open = json_object();
	json_object_foreach(requests, key, one)
		if (!json_object_get(f->answered, key))
			json_object_set(open, key, one);
	if (json_object_size(open) > ASK_REQUESTS_MAX) {
		json_decref(open);
		give_up(f, "its task asks too many questions at once");
	} else if (json_object_size(open) == 0) {       /* it has not looked at the answers yet */
		json_decref(open);
		look_in(f, f->poll_ms);
	} else {
		f->sink->ask(f->arg, open);
	}
}

static void take_error(struct far *f, const json_t *state)
{
	const json_t *error = json_object_get(state, "error"), *code = json_object_get(error, "code");
	const char *text = json_string_value(json_object_get(error, "message"));
	char message[300];

	if (!json_is_object(error) || !json_is_integer(code) || !text || json_integer_value(code) < INT32_MIN ||
	    json_integer_value(code) > INT32_MAX) {
		end(f, "its task has failed, and does not say why");
		return;
	}
	text_printable(text, strlen(text), message, sizeof(message));
	f->sink->error(f->arg, (int)json_integer_value(code), message, json_incref(json_object_get(error, "data")));
}

static void take_state(struct far *f, json_t *state)
{
	const char *status = json_string_value(json_object_get(state, "status"));
	const char *id = json_string_value(json_object_get(state, "taskId"));
	json_t *result = json_object_get(state, "result");

	take_poll(f, state);
	if (!id || strcmp(id, f->id) != 0) {
		give_up(f, "its answer is about another task");
	} else if (status && strcmp(status, "working") == 0) {
		tell(f, json_string_value(json_object_get(state, "statusMessage")));
		look_in(f, f->poll_ms);
	} else if (status && strcmp(status, "input_required") == 0) {
		take_questions(f, state);
	} else if (status && strcmp(status, "completed") == 0 && json_is_object(result)) {
		f->sink->result(f->arg, result);
	} else if (status && strcmp(status, "completed") == 0) {
		end(f, "its task is completed, but has no result");
	} else if (status && strcmp(status, "failed") == 0) {
		take_error(f, state);
	} else if (status && strcmp(status, "cancelled") == 0) {
		end(f, "its task was cancelled there");
	} else {
		give_up(f, "its task is in a state that is not known here");
	}
}

static void on_result(void *arg, struct jx_span span)
{
	struct far *f = arg;
	json_t *state = NULL;
	struct err err;

	f->call = NULL;
	f->fails = 0;
	if (f->answers) {
		json_decref(f->answered);
		f->answered = f->answers;
		f->answers = NULL;
		look_in(f, 0);
		return;
	}
	if (mcp_parse(span, f->of.result_max, &state, &err) < 0)
		give_up(f, err.msg);
	else
		take_state(f, state);
	json_decref(state);
}

/* What is wrong with the request will be wrong the next time. */
static void on_error(void *arg, int code, const char *message, json_t *data)
{
	struct far *f = arg;

	f->call = NULL;
	json_decref(data);
	if (code == UNKNOWN_PARAMS && !f->answers)
		end(f, "it does not know its task any more");
	else if (code == UNKNOWN_PARAMS || code == -32600 || code == -32601 || code == -32021)
		end(f, message);
	else
		try_later(f);
}

static void on_failed(void *arg, const struct err *err)
{
	struct far *f = arg;

	(void)err;
	f->call = NULL;
	try_later(f);
}

static void on_progress(void *arg, double done, double total, const char *note)
{
	(void)arg;
	(void)done;
	(void)total;
	(void)note;
}

static void on_log(void *arg, int level, const char *logger, json_t *data)
{
	(void)arg;
	(void)level;
	(void)logger;
	json_decref(data);
}

static int on_question(void *arg, const char *handle, const char *method, json_t *params)
{
	(void)arg;
	(void)handle;
	(void)method;
	json_decref(params);
	return ERR_CAPABILITY;
}

static void ask(void *arg)
{
	static const struct link_call_sink sink = { .progress = on_progress, .log = on_log, .question = on_question,
		.result = on_result, .error = on_error, .failed = on_failed };
	struct far *f = arg;
	struct str params = STR_INIT;
	struct link_call_req req;
	struct link *link = NULL;
	struct err err;

	if (!upstreams_conf(f->of.all, f->upstream)) {
		end(f, "it was removed");
		return;
	}
	request(&f->of, f->answers ? "tasks/update" : "tasks/get", f->who, &params, &req);
	if (f->answers) {
		str_puts(&params, ",\"inputResponses\":");
		jx_write(f->answers, &params);
	}
	if (upstreams_link(f->of.all, f->upstream, &f->of.who, &link, &err) < 0 ||
	    link_call_start(link, &req, &sink, f, &f->call, &err) < 0)
		try_later(f);
	str_fini(&params);
}

struct far *far_new(const struct far_of *of, const struct far_sink *sink, void *arg)
{
	struct far *f = mem_zalloc(sizeof(*f));

	f->of = *of;
	f->of.upstream = f->upstream = mem_strdup(of->upstream);
	f->of.who.tenant = f->tenant = mem_strdup(of->who.tenant);
	f->of.who.principal = f->principal = mem_strdup(of->who.principal);
	f->of.id = f->id = mem_strdup(of->id);
	f->who = who_of(of);
	f->sink = sink;
	f->arg = arg;
	f->answers = json_incref(of->answers);
	f->poll_ms = FAR_POLL_MS;
	f->timer = ev_timer_new(of->loop, ask, f);
	ev_timer_start(f->timer, 0);
	return f;
}
