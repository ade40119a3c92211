/* The calls of a link, and the messages that they consist of; mcp.c starts them, link.c hands them answers; loop
 * thread. A call waits for the link, runs on it, and, when an older server asks something in its midst, is parked
 * until its caller has answered (MCP B-45):
 *
 *	WAITING -> RUNNING -> (answered)
 *	   ^          |
 *	   +- PARKED <+ */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/tally.h"
#include "base/text.h"
#include "ev/ev.h"
#include "proto/caps.h"
#include "proto/trace.h"

#include "link_parts_int.h"

/* --- messages: text in, values out, no state */

#define KEY "io.modelcontextprotocol/"
#define CLIENT_INFO "{\"name\":\"toolcrib\",\"version\":\"" PACKAGE_VERSION "\"}"
#define ALL_CAPS (CAP_ROOTS | CAP_SAMPLING | CAP_SAMPLING_TOOLS | CAP_ELICITATION_FORM | CAP_ELICITATION_URL)

static void put_id(struct str *out, uint64_t id)
{
	str_puts(out, ",\"id\":");
	str_put_u64(out, id);
}

static void put_caps(struct str *out, uint32_t caps)
{
	json_t *v = caps_to_json(caps);

	jx_write(v, out);
	json_decref(v);
}

void link_msg_begin(struct str *out, uint64_t id, const char *method)
{
	str_reset(out);
	str_puts(out, "{\"jsonrpc\":\"2.0\"");
	if (id)
		put_id(out, id);
	str_printf(out, ",\"method\":\"%s\",\"params\":{", method);
}

void link_msg_end(struct str *out)
{
	str_puts(out, "}}");
}

struct link_meta { bool modern; uint32_t caps; uint64_t token; int log_level; const struct trace *trace; };

static const char *link_msg_level_word(int level);

static void put_modern(struct str *out, const struct link_meta *m)
{
	str_puts(out, "\"" KEY "protocolVersion\":\"");
	str_puts(out, rev_table[REV_R5].text);
	str_puts(out, "\",\"" KEY "clientInfo\":" CLIENT_INFO ",\"" KEY "clientCapabilities\":");
	put_caps(out, m->caps);
	if (m->log_level < LINK_LOG_OFF)
		str_printf(out, ",\"" KEY "logLevel\":\"%s\"", link_msg_level_word(m->log_level));
}

static void put_trace(struct str *out, const struct trace *trace, bool first)
{
	str_printf(out, "%s\"traceparent\":\"%s\"", first ? "" : ",", trace->parent);       /* hexadecimal */
	if (!trace->state[0])
		return;
	str_puts(out, ",\"tracestate\":");
	jx_write_stringz(out, trace->state);
}

static void link_msg_call_meta(struct str *out, const struct link_meta *m)
{
	if (!m->modern && !m->token && !m->trace)
		return;
	str_puts(out, "\"_meta\":{");
	if (m->modern)
		put_modern(out, m);
	if (m->token) {
		str_puts(out, m->modern ? ",\"progressToken\":" : "\"progressToken\":");
		str_put_u64(out, m->token);
	}
	if (m->trace)
		put_trace(out, m->trace, !m->modern && !m->token);
	str_putc(out, '}');
}

void link_msg_meta(struct str *out, bool modern, uint32_t caps, uint64_t token)
{
	link_msg_call_meta(out, &(struct link_meta){ modern, caps, token, LINK_LOG_OFF, NULL });
}

void link_msg_initialize(struct str *out, uint64_t id, bool asks)
{
	link_msg_begin(out, id, "initialize");
	str_printf(out, "\"protocolVersion\":\"%s\",\"capabilities\":", rev_table[REV_LEGACY_NEWEST].text);
	put_caps(out, (asks ? ALL_CAPS : 0) | CAP_UI);  /* UI-03: servers list what has pages to those alone who show them */
	str_puts(out, ",\"clientInfo\":" CLIENT_INFO);
	link_msg_end(out);
}

static void answer_begin(struct str *out, struct jx_span id)
{
	str_reset(out);
	str_puts(out, "{\"jsonrpc\":\"2.0\",\"id\":");
	str_put(out, id.p, id.len);
}

void link_msg_answer(struct str *out, struct jx_span id, const json_t *result)
{
	answer_begin(out, id);
	str_puts(out, ",\"result\":");
	if (result)
		jx_write(result, out);
	else
		str_puts(out, "{}");
	str_putc(out, '}');
}

void link_msg_refusal(struct str *out, struct jx_span id, int code, const char *text)
{
	answer_begin(out, id);
	str_printf(out, ",\"error\":{\"code\":%d,\"message\":", code);
	jx_write_stringz(out, text);
	str_puts(out, "}}");
}

void link_msg_cancelled(struct str *out, uint64_t id, bool modern)
{
	link_msg_begin(out, 0, "notifications/cancelled");
	str_puts(out, "\"requestId\":");
	str_put_u64(out, id);
	if (modern) {
		str_putc(out, ',');
		link_msg_meta(out, true, 0, 0);
	}
	link_msg_end(out);
}

bool link_msg_id(struct jx_span raw, uint64_t *ret)
{
	return raw.p && text_u64(raw.p, raw.len, ret) == 0;
}

void link_msg_error(struct jx_span error, int *ret_code, char *ret, size_t size, json_t **ret_data)
{
	struct rpc_walk w;
	struct jx_span v;
	char name[16];

	*ret_code = -32603;
	*ret_data = NULL;
	ret[0] = '\0';
	if (rpc_is(error, '{'))
		rpc_walk_start(&w, error);
	while (rpc_is(error, '{') && rpc_walk_member(&w, name, sizeof(name), &v)) {
		int64_t code;

		if (strcmp(name, "code") == 0 && text_i64(v.p, v.len, &code) == 0 && code >= INT32_MIN &&
		    code <= INT32_MAX) {
			*ret_code = (int)code;
		} else if (strcmp(name, "message") == 0) {
			(void)rpc_string(v, ret, size, NULL);
			ret[text_without_hidden(ret, strlen(ret), ret)] = '\0';
		} else if (strcmp(name, "data") == 0 && !*ret_data &&
			   jx_parse_scanned(v.p, v.len, ret_data, NULL) < 0) {
			*ret_data = NULL;       /* numbers that no tree can hold */
		}
	}
	if (!*ret)
		(void)text_printable("unknown error", 13, ret, size);
}

static const char *const levels[LINK_LOG_OFF] = { "debug", "info", "notice", "warning", "error", "critical", "alert",
	"emergency" };

static const char *link_msg_level_word(int level)
{
	return levels[level];
}

/* of a log line; -1 = no such level */
static int link_msg_level(const char *word)
{
	for (size_t i = 0; i < NELEMS(levels); i++)
		if (strcmp(word, levels[i]) == 0)
			return (int)i;
	return -1;
}

struct question {
	struct list node;
	char *id;                       /* theirs, raw */
	char *method;
	json_t *params;
	bool withdrawn;                 /* it wants no answer any more (MCP C-01) */
};

enum call_state { CALL_WAITING, CALL_RUNNING, CALL_PARKED };
struct link_call {
	struct list node;               /* of the link, by state */
	struct link *link;
	char *who;
	enum call_state state;
	const struct link_call_sink *sink; void *arg;     /* NULL while parked */
	uint64_t id;                    /* 0: not sent yet */
	const char *method;
	char *name, *key;               /* name: for a header, may be NULL */
	bool has_digest; uint8_t digest[32];
	struct str params;
	struct link_param *more; size_t nmore;
	uint32_t caps;
	int log_level;
	bool recorded;
	struct trace *trace;            /* or NULL */
	json_t *answers; char *state_text; size_t state_len;
	/* parked */
	char handle[LINK_HANDLE_SIZE];
	struct list questions;
	size_t nquestions;
	bool answering; json_t *answer; /* to the first of them, to be sent when it runs again */
	struct ev_timer *patience;
	size_t notice_bytes;
	uint64_t sent_us;               /* 0: not yet, or nobody asks how long it takes */
};

/* --- life */

static void question_free(struct link_call *c, struct question *q)
{
	list_unlink(&q->node);
	c->nquestions--;
	json_decref(q->params);
	free(q->id);
	free(q->method);
	free(q);
}

static struct question *first_question(const struct link_call *c)
{
	return list_empty(&c->questions) ? NULL : CONTAINER_OF(c->questions.next, struct question, node);
}

static void move(struct link_call *c, enum call_state to)
{
	struct link *l = c->link;
	struct list *lists[] = { [CALL_WAITING] = &l->waiting, [CALL_RUNNING] = &l->running,
		[CALL_PARKED] = &l->parked };

	l->nrunning -= c->state == CALL_RUNNING;
	l->nparked -= c->state == CALL_PARKED;
	if (to == CALL_PARKED)
		c->sent_us = 0;         /* how long people think is not how long it takes */
	c->state = to;
	l->nrunning += to == CALL_RUNNING;
	l->nparked += to == CALL_PARKED;
	list_unlink(&c->node);
	/* What has been on its way already goes on before what has not begun. */
	if (to == CALL_WAITING && c->id)
		list_push_front(lists[to], &c->node);
	else
		list_push_back(lists[to], &c->node);
}

static void link_call_free(struct link_call *c)
{
	struct link *l = c->link;
	struct question *q;

	if (c->sent_us)
		tally_observe(tally_get(TALLY_UPSTREAM, l->name), clock_mono_us() - c->sent_us, NULL);
	l->nrunning -= c->state == CALL_RUNNING;
	l->nparked -= c->state == CALL_PARKED;
	list_unlink(&c->node);
	if (c->id && l->open)
		link_forget(l, c->id);
	if (*c->handle)
		(void)map_del_z(l->env.parked, c->handle);
	while ((q = first_question(c)))
		question_free(c, q);
	ev_timer_free(&c->patience);
	json_decref(c->answers);
	json_decref(c->answer);
	str_fini(&c->params);
	link_params_free(c->more, c->nmore);
	free(c->state_text);
	free(c->trace);
	free(c->who);
	free(c->name);
	free(c->key);
	free(c);
	l->ncalls--;
	if (l->state == LINK_DEAD)
		return;
	if (!list_empty(&l->waiting))
		link_kick(l);
	if (!link_busy(l))
		l->env.idle(l->env.arg, l->left);
}

void link_params_free(struct link_param *more, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(more[i].name);
		free(more[i].value);
	}
	free(more);
}

int link_call_start(struct link *l, const struct link_call_req *req, const struct link_call_sink *sink, void *arg,
		  struct link_call **ret, struct err *err)
{
	if (l->ncalls >= LINK_CALLS_MAX + l->nparked)
		return err_set(err, ERR_TOOL, "", "more than %d calls run there already", LINK_CALLS_MAX);
	struct link_call *c = mem_zalloc(sizeof(*c));

	c->link = l;
	c->sink = sink;
	c->arg = arg;
	c->method = req->method;
	c->who = mem_strdup(req->who);
	c->name = mem_strdup0(req->name);
	c->key = mem_strdup(req->key);
	c->has_digest = req->digest != NULL;
	if (req->digest)
		memcpy(c->digest, req->digest, sizeof(c->digest));
	c->params = *req->params;
	*req->params = (struct str)STR_INIT;
	c->more = req->more;
	c->nmore = req->nmore;
	c->caps = req->caps;
	c->log_level = req->log_level;
	c->recorded = req->recorded;
	if (req->trace)
		c->trace = mem_dup(req->trace, sizeof(*c->trace));
	c->answers = json_incref((json_t *)(uintptr_t)req->answers);
	if (req->state) {
		c->state_text = mem_dup(req->state, req->state_len + 1);
		c->state_len = req->state_len;
	}
	list_init(&c->node);
	list_init(&c->questions);
	list_push_back(&l->waiting, &c->node);
	l->ncalls++;
	link_kick(l);
	*ret = c;
	return 0;
}

static void post_late(void *arg)
{
	struct link_call *c = arg;

	link_call_cancel(&c, false);
}

int link_call_post(struct link *l, const struct link_call_req *req, struct err *err)
{
	struct link_call *c;
	int rc = link_call_start(l, req, NULL, NULL, &c, err);

	if (rc < 0)
		return rc;
	c->patience = ev_timer_new(l->env.loop, post_late, c);
	ev_timer_start(c->patience, LINK_POST_MS * UINT64_C(1000));
	return 0;
}

/* --- sending */

/* An older server has one level for all (MCP G-02): the least that anybody has wanted. */
static void set_level(struct link *l, const struct link_call *c)
{
	int level = c->log_level;
	uint64_t id;

	if (l->modern || !l->logs || level >= l->log_level)
		return;
	l->log_level = level;
	(void)link_request(l, LINK_ASIDE, NULL, &id);
	link_msg_begin(&l->out, id, "logging/setLevel");
	str_printf(&l->out, "\"level\":\"%s\"", link_msg_level_word(level));
	link_msg_end(&l->out);
	link_send_head(l, id, &(struct link_head){ .method = "logging/setLevel", .callers = true, .recorded = c->recorded });
}

/* From now on the server may speak of this principal. */
static void note_voice(struct link *l, const char *who)
{
	if (!l->voice)
		l->voice = mem_strdup(who);
	else if (strcmp(l->voice, who) != 0)
		l->mixed = true;
}

static void send_call(struct link_call *c)
{
	struct link *l = c->link;
	struct str *out = &l->out;

	note_voice(l, c->who);
	set_level(l, c);
	(void)link_request(l, LINK_CALL, c, &c->id);
	link_msg_begin(out, c->id, c->method);
	str_put(out, str_text(&c->params), c->params.len);
	if (c->answers && l->modern) {
		str_puts(out, ",\"inputResponses\":");
		jx_write(c->answers, out);
	}
	if (c->state_text && l->modern) {
		str_puts(out, ",\"requestState\":");
		jx_write_string(out, c->state_text, c->state_len);
	}
	str_putc(out, ',');
	/* MCP B-23: a token of ours; W-03: the caller's trace, whatever the revision (W-02) */
	link_msg_call_meta(out, &(struct link_meta){ l->modern, l->tasks ? c->caps : c->caps & ~(uint32_t)CAP_TASKS, c->id,
						     c->log_level, c->trace });
	link_msg_end(out);
	str_fini(&c->params);
	move(c, CALL_RUNNING);
	c->sent_us = clock_mono_us();
	link_send_head(l, c->id, &(struct link_head){ c->method, c->name, c->more, c->nmore, true, c->recorded });
}

static void send_answer(const struct link_call *c, const struct question *q, const json_t *answer, const char *refusal)
{
	struct link *l = c->link;
	const struct jx_span id = { q->id, strlen(q->id) };

	if (q->withdrawn)
		return;
	if (refusal)
		link_msg_refusal(&l->out, id, -32603, refusal);
	else
		link_msg_answer(&l->out, id, answer);
	link_send_head(l, 0, &(struct link_head){ .callers = !refusal, .recorded = c->recorded });
}

static bool put_question(struct link_call *c);

/* Go on with what was parked: its answer out, and the next question to its caller if one waits already. */
static void go_on(struct link_call *c)
{
	struct question *q = first_question(c);

	move(c, CALL_RUNNING);
	if (c->answering && q) {
		send_answer(c, q, c->answer, c->answer ? NULL : "The question was not answered");
		question_free(c, q);
	}
	c->answering = false;
	json_decref(c->answer);
	c->answer = NULL;
	if (first_question(c))
		(void)put_question(c);
}

/* SEC S-740: what was accepted is what is called. */
static int check_pin(struct link_call *c, struct err *err)
{
	static const char *const nouns[UPSTREAM_KINDS] = { "tool", "prompt", "resource", "resource template" };
	struct link *l = c->link;
	const uint8_t *now = c->has_digest ? map_get_z(l->digests, c->key) : NULL;
	const char *name;
	enum upstream_kind kind = upstream_key(c->key, &name);

	if (!c->has_digest || (now && memcmp(now, c->digest, 32) == 0))
		return 0;
	if (l->unread[kind])
		return err_set(err, ERR_TOOL, "", "its list of %ss could not be read", nouns[kind]);
	metric_inc(METRIC_upstream_drift_refused);
	l->env.changed(l->env.arg);
	if (!now)
		return err_set(err, ERR_TOOL, "", "it has no %s %.80s any more", nouns[kind], name);
	return err_set(err, ERR_TOOL, "", "its %s %.80s is not what was accepted; an administrator must look at it",
		       nouns[kind], name);
}

void link_call_run_waiting(struct link *l)
{
	/* Over one pipe nothing says which call a question belongs to, so where questions are wanted one is open at
	 * once, parked or not. */
	bool serial = l->asks && !l->modern && !l->wire->exchanges;
	struct err err;

	while (l->state == LINK_READY && !list_empty(&l->waiting) && !l->wire->ops->full(l->wire) &&
	       (!serial || l->nrunning + l->nparked == 0)) {
		struct link_call *c = CONTAINER_OF(l->waiting.next, struct link_call, node);

		if (c->id) {
			go_on(c);
		} else if (check_pin(c, &err) < 0) {
			c->sink->failed(c->arg, &err);
			link_call_free(c);
		} else {
			send_call(c);
		}
	}
}

/* --- ends */

void link_call_failed(struct link_call *c, const struct err *err)
{
	c->link->left = c->link->left || c->id;
	c->id = 0;
	if (c->sink)
		c->sink->failed(c->arg, err);
	link_call_free(c);
}

void link_call_fail_all(struct link *l, const struct err *err)
{
	struct list *lists[] = { &l->running, &l->parked, &l->waiting };

	for (size_t i = 0; i < NELEMS(lists); i++)
		while (!list_empty(lists[i]))
			link_call_failed(CONTAINER_OF(lists[i]->next, struct link_call, node), err);
}

void link_call_unpark_all(struct link *l)
{
	LIST_FOREACH(n, &l->parked) {
		struct link_call *c = CONTAINER_OF(n, struct link_call, node);

		(void)map_del_z(l->env.parked, c->handle);
		c->handle[0] = '\0';
	}
}

void link_call_answered(struct link_call *c, const struct rpc_msg *msg)
{
	char text[300];
	json_t *data = NULL;
	int code;

	c->id = 0;
	if (!c->sink) {
		;       /* it was answered while its caller was still being asked */
	} else if (msg->result.p) {
		c->sink->result(c->arg, msg->result);
	} else {
		link_msg_error(msg->error, &code, text, sizeof(text), &data);
		c->sink->error(c->arg, code, text, data);
	}
	link_call_free(c);
}

void link_call_cancel(struct link_call **cp, bool late)
{
	struct link_call *c = *cp;
	struct link *l = c->link;

	*cp = NULL;
	if (c->id) {
		l->left = true;
		/* MCP C-01, C-03; over HTTP the end of the exchange says it (C-04), which link_forget() brings
		 * about. */
		link_msg_cancelled(&l->out, c->id, l->modern);
		if (!l->modern || !l->wire->exchanges)
			link_send_head(l, 0, &(struct link_head){ .method = "notifications/cancelled", .callers = true,
				       .recorded = c->recorded });
	}
	bool doubt = late && c->id;
	c->sink = NULL;
	link_call_free(c);
	if (doubt)
		link_doubt(l);
}

/* --- notices */

static struct link_call *running_call(const struct link *l, uint64_t id)
{
	const struct link_open *o = map_get_u64(l->open, id);

	return o && o->kind == LINK_CALL && o->call->sink ? o->call : NULL;
}

/* Whose message is it (HARDENING F-3): of the call whose exchange it came in, and where a wire has exchanges of no
 * other.  On one that has none: of the only live call, when nobody else's was ever sent here, and none is left that
 * it could be late for.  NULL: nobody's, however likely one is. */
static struct link_call *owner_of(const struct link *l, uint64_t exchange)
{
	if (l->wire->exchanges) {
		const struct link_open *o = exchange ? map_get_u64(l->open, exchange) : NULL;

		return o && o->kind == LINK_CALL ? o->call : NULL;
	}
	/* One that goes on in this turn waits in front of those that have not begun. */
	struct link_call *first = list_empty(&l->waiting) ? NULL : CONTAINER_OF(l->waiting.next, struct link_call, node);
	bool resumed = first && first->id;

	if (l->mixed || l->left || l->nrunning + l->nparked + resumed != 1)
		return NULL;
	return resumed ? first : CONTAINER_OF(l->nrunning ? l->running.next : l->parked.next, struct link_call, node);
}

static void drop(struct link *l, const char *method)
{
	metric_inc(METRIC_upstream_messages_dropped);
	l->env.dropped(l->env.arg, method);
}

static bool has_room(struct link_call *c, const struct rpc_msg *msg)
{
	c->notice_bytes += msg->params.len;
	return c->notice_bytes <= LINK_NOTICES_MAX;
}

static json_t *parse_params(const struct rpc_msg *msg)
{
	json_t *params = NULL;

	if (!msg->params.p || jx_parse_scanned(msg->params.p, msg->params.len, &params, NULL) < 0)
		return NULL;
	return params;
}

void link_call_progress(struct link *l, const struct rpc_msg *msg)
{
	json_t *params = parse_params(msg);
	const json_t *token = json_object_get(params, "progressToken"), *done = json_object_get(params, "progress"),
		*total = json_object_get(params, "total"), *text = json_object_get(params, "message");
	struct link_call *c = json_is_integer(token) && json_integer_value(token) > 0 ?
			    running_call(l, (uint64_t)json_integer_value(token)) : NULL;

	if (c && has_room(c, msg) && json_is_number(done) && jx_nearest(done) >= 0)
		c->sink->progress(c->arg, jx_nearest(done),
				  json_is_number(total) && jx_nearest(total) >= 0 ? jx_nearest(total) : -1,
				  json_string_value(text));
	json_decref(params);
}

void link_call_logged(struct link *l, uint64_t exchange, const struct rpc_msg *msg)
{
	json_t *params = parse_params(msg);
	const char *level = json_string_value(json_object_get(params, "level"));
	json_t *data = json_object_get(params, "data");
	struct link_call *c = owner_of(l, exchange);

	if (!c)
		drop(l, "notifications/message");
	else if (c->sink && has_room(c, msg) && level && data && link_msg_level(level) >= 0)
		c->sink->log(c->arg, link_msg_level(level), json_string_value(json_object_get(params, "logger")),
			     json_incref(data));
	json_decref(params);
}

/* --- questions of an older server */

static void give_up(void *arg)
{
	struct link_call *c = arg;
	struct question *q;

	metric_inc(METRIC_upstream_questions_late);
	while ((q = first_question(c))) {
		send_answer(c, q, NULL, "The question was not answered in time");
		question_free(c, q);
	}
	link_call_cancel(&c, false);
}

/* Ask the caller of this run; true: it is parked now. */
static bool put_question(struct link_call *c)
{
	struct link *l = c->link;
	struct question *q = first_question(c);
	uint8_t random[(LINK_HANDLE_SIZE - 1) / 2];

	if (l->nparked < LINK_PARKED_MAX) {
		id_random(random, sizeof(random));
		text_hex(random, sizeof(random), c->handle);
		if (c->sink->question(c->arg, c->handle, q->method, json_incref(q->params)) == 0) {
			(void)map_set_z(l->env.parked, c->handle, c);
			c->sink = NULL;
			move(c, CALL_PARKED);
			if (!c->patience)
				c->patience = ev_timer_new(l->env.loop, give_up, c);
			ev_timer_start(c->patience, LINK_PARK_MS * UINT64_C(1000));
			link_kick(l);        /* others may run now */
			return true;
		}
		c->handle[0] = '\0';
	}
	send_answer(c, q, NULL, "The client cannot be asked this");
	question_free(c, q);
	return false;
}

bool link_call_question(struct link *l, uint64_t exchange, const struct rpc_msg *msg)
{
	struct link_call *c = owner_of(l, exchange);
	json_t *params = parse_params(msg);
	bool asked = l->asks && !l->modern && caps_for_request(msg->method, params) != 0;

	if (asked && !c)
		drop(l, msg->method);
	if (!asked || !c || c->nquestions == LINK_QUESTIONS_MAX) {
		json_decref(params);
		return false;
	}
	struct question *q = mem_zalloc(sizeof(*q));
	q->id = mem_strndup(msg->id.p, msg->id.len);
	q->method = mem_strdup(msg->method);
	q->params = params ? params : json_object();
	list_push_back(&c->questions, &q->node);
	c->nquestions++;
	if (c->state == CALL_RUNNING && c->nquestions == 1)
		(void)put_question(c);
	return true;
}

void link_call_question_withdrawn(struct link *l, const struct rpc_msg *msg)
{
	json_t *params = parse_params(msg);
	const json_t *id = json_object_get(params, "requestId");
	struct str raw = STR_INIT;

	if (json_is_string(id) || json_is_integer(id))
		jx_write(id, &raw);
	LIST_FOREACH(n, &l->parked) {
		struct link_call *c = CONTAINER_OF(n, struct link_call, node);

		LIST_FOREACH(k, &c->questions) {
			struct question *q = CONTAINER_OF(k, struct question, node);

			q->withdrawn = q->withdrawn || text_eq(str_text(&raw), raw.len, q->id);
		}
	}
	str_fini(&raw);
	json_decref(params);
}

struct link_call *link_call_parked(const struct map *parked, const char *handle, size_t len)
{
	return map_get(parked, handle, len);
}

void link_call_resume(struct link_call *c, const json_t *answer, const struct link_call_sink *sink, void *arg)
{
	(void)map_del_z(c->link->env.parked, c->handle);
	c->handle[0] = '\0';
	ev_timer_stop(c->patience);
	c->sink = sink;
	c->arg = arg;
	c->answering = true;
	c->answer = json_incref((json_t *)(uintptr_t)answer);
	move(c, CALL_WAITING);
	link_kick(c->link);
}
