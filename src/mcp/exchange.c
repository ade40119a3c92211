/* An exchange: from mcp_input() to the one finish(), or to the peer's leaving.
 *
 * Requests end in req_result(), req_fault() or req_drop(); the last end of an exchange finishes it.  While
 * mcp_input() is on the stack, for this message or another, the finish is deferred.  The memory goes when
 * nothing points to it any more: the owner's pin goes at the finish, each running call and each deferred job
 * has one of its own. */

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
#include "call/call.h"
#include "ev/ev.h"
#include "tenant/scope.h"
#include "tenant/tenant.h"

#include "method_int.h"

/* --- asking */

/* Our requests to legacy callers (MCP section 13): the questions of a call, put to its caller as real requests while
 * the call waits.  Their ids are ours, counted for each channel or session (MCP J-15).  On a byte stream they go out
 * on it; on HTTP on the stream of the request that they belong to (MCP X-09). */

enum { ELICITATION_ID_LEN = 22, ASK_MESSAGE_SIZE = 200 };
/* Of an answer, whose parts have limits of their own: a string with a limit fails where there is no memory. */
#define REPLY_MAX (SIZE_MAX / 4)
enum { REPLY_ROOM = 500 };              /* what most answers fit into */

struct mcp_ask {
	struct mcp_memory *memory;
	struct mcp_req *req;
	struct list link;       /* mcp_req.asks */
	uint64_t id;
	char key[];             /* the handler's name for it */
};

static void ask_free(struct mcp_ask *a)
{
	map_del_u64(a->memory->asks, a->id);
	list_unlink(&a->link);
	free(a);
}

/* Also what belongs to a request that its caller has cancelled: the question is ours to take back. */
static void send(struct mcp_req *req, const struct str *text)
{
	struct mcp_exchange *x = req->x;

	if (x->ch)
		x->ch->ops->push(x->ch->peer, text->p, text->len);
	else if (!x->closed && x->sse_ok)
		x->sink.ops->notice(x->sink.peer, text->p, text->len);
}

/* R4 wants a name for each question by URL, later revisions none (MCP X-02). */
static json_t *params_for(enum rev rev, const json_t *question)
{
	json_t *params = json_object_get(question, "params");
	const char *mode = json_string_value(json_object_get(params, "mode"));
	char id[ELICITATION_ID_LEN + 1];
	json_t *ret;

	if (rev != REV_R4 || !mode || strcmp(mode, "url") != 0 || json_object_get(params, "elicitationId"))
		return json_incref(params);
	id_random_text(id, ELICITATION_ID_LEN);
	ret = json_copy(params);
	json_object_set_new(ret, "elicitationId", json_string(id));
	return ret;
}

static void ask_one(struct mcp_req *req, const char *key, const json_t *question)
{
	struct mcp_ask *a = mem_zalloc(sizeof(*a) + strlen(key) + 1);
	struct str *out = &req->x->srv->out;
	json_t *params = params_for(req->rev, question);

	a->memory = req->memory;
	a->req = req;
	a->id = ++req->memory->next_ask;
	memcpy(a->key, key, strlen(key) + 1);
	list_init(&a->link);
	list_push_back(&req->asks, &a->link);
	map_set_u64(req->memory->asks, a->id, a);
	str_reset(out);
	encode_request(out, a->id, json_string_value(json_object_get(question, "method")), params);
	json_decref(params);
	send(req, out);
}

/* Take open questions back. */
static void asking_drop(struct mcp_req *req, bool tell)
{
	LIST_FOREACH_SAFE(n, tmp, &req->asks) {
		struct mcp_ask *a = CONTAINER_OF(n, struct mcp_ask, link);
		struct str *out = &req->x->srv->out;
		char id[24];

		if (tell) {     /* MCP L-11 */
			(void)snprintf(id, sizeof(id), "%llu", (unsigned long long)a->id);
			str_reset(out);
			encode_cancelled(out, (struct jx_span){ id, strlen(id) }, "No answer is needed any more");
			send(req, out);
		}
		ask_free(a);
	}
}

int asking_start(struct mcp_req *req, const json_t *requests, struct err *err)
{
	const char *key;
	json_t *question;

	asking_drop(req, true);
	if (!requests)
		return 0;
	if (!req->memory || req->mute || req->x->closed || (req->x->http && !req->x->sse_ok) ||
	    (req->x->ch && req->x->ch->eof))
		return err_set(err, ERR_CANCELLED, "", "the caller cannot be asked any more");
	json_object_foreach((json_t *)(uintptr_t)requests, key, question)
		if (!json_is_string(json_object_get(question, "method")))
			return err_set(err, ERR_INTERNAL, key, "a question without a method");
	json_decref(req->answers);
	req->answers = json_object();
	json_object_foreach((json_t *)(uintptr_t)requests, key, question)
		ask_one(req, key, question);
	return 0;
}

/* A refusal to answer ends the call; a decline is an answer like any other (MCP X-06). */
static void fail(struct mcp_ask *a, struct jx_span error)
{
	struct mcp_req *req = a->req;
	char key[16], message[ASK_MESSAGE_SIZE] = "no reason given";
	struct rpc_walk w;
	struct jx_span v;

	if (rpc_is(error, '{')) {
		rpc_walk_start(&w, error);
		while (rpc_walk_member(&w, key, sizeof(key), &v))
			if (strcmp(key, "message") == 0)
				(void)rpc_string(v, message, sizeof(message), NULL);
	}
	free(req->ask_failure);
	req->ask_failure = mem_printf("The client could not answer the tool's question: %s", message);
	ask_free(a);
	asking_drop(req, true);
	call_cancel(req->call, CANCEL_BY_CLIENT);
}

void asking_response(struct mcp_memory *memory, const struct rpc_msg *msg)
{
	uint64_t id = 0;
	json_t *value = NULL, *answers;
	struct mcp_ask *a;
	struct mcp_req *req;

	if (!msg->id.p || msg->id.len > 19)
		return;
	for (size_t i = 0; i < msg->id.len; i++) {
		if (msg->id.p[i] < '0' || msg->id.p[i] > '9')
			return;
		id = id * 10 + (uint64_t)(msg->id.p[i] - '0');
	}
	a = map_get_u64(memory->asks, id);
	if (!a)
		return;         /* taken back, answered already, or never asked */
	req = a->req;
	if (!rpc_is(msg->result, '{') || jx_parse_scanned(msg->result.p, msg->result.len, &value, NULL) < 0) {
		fail(a, msg->error);
		return;
	}
	json_object_set_new(req->answers, a->key, value);
	ask_free(a);
	if (!list_empty(&req->asks))
		return;
	answers = req->answers;
	req->answers = NULL;
	call_answer(req->call, answers);
}

enum {
	INFLIGHT_RETRY_MS = 1000,
	UNIT_BYTES = 16384,             /* of a result, for each unit of its cost */
};

/* --- exchanges and their requests */

struct mcp_exchange *exchange_new(struct mcp_server *srv, struct mcp_channel *ch, const struct mcp_in *in,
				  const struct mcp_sink *sink, size_t nreq)
{
	struct mcp_exchange *x = mem_zalloc(sizeof(*x) + nreq * sizeof(x->req[0]));

	x->srv = srv;
	x->ch = ch;
	x->reply.max = REPLY_MAX;
	x->who = in->who;
	principal_ref(x->who);
	x->tport = in->tport;
	x->peer = in->peer;
	x->sink = *sink;
	x->http = in->http != NULL;
	x->sse_ok = in->http && in->http->sse_ok;
	x->inside = true;
	x->status = 200;
	x->pins = 1;
	x->nreq = nreq;
	x->serial = ++srv->serial;
	x->since_us = clock_turn_us();
	for (size_t i = 0; i < nreq; i++) {
		x->req[i].x = x;
		x->req[i].rev = REV_SESSIONLESS;
		x->req[i].log_level = MCP_LOG_OFF;
		list_init(&x->req[i].asks);
		list_init(&x->req[i].listen_link);
	}
	list_push_back(ch ? &ch->exchanges : &srv->exchanges, &x->link);
	return x;
}

void exchange_join_session(struct mcp_exchange *x, struct mcp_session *s)
{
	x->session = s;
	list_unlink(&x->link);
	list_push_back(&s->exchanges, &x->link);
}

struct mcp_memory *exchange_memory(struct mcp_exchange *x)
{
	if (x->ch)
		return &x->ch->memory;
	return x->session ? &x->session->memory : NULL;
}

void exchange_pin(struct mcp_exchange *x)
{
	x->pins++;
}

void exchange_unpin(struct mcp_exchange *x)
{
	if (--x->pins)
		return;
	for (size_t i = 0; i < x->nreq; i++) {
		struct mcp_req *req = &x->req[i];

		free((char *)(uintptr_t)req->id.p);
		free((char *)(uintptr_t)req->token.p);
		free(req->label);
		free(req->ask_failure);
		json_decref(req->answers);
	}
	list_unlink(&x->link);
	str_fini(&x->reply);
	principal_unref(&x->who);
	free(x);
}

static void finish(struct mcp_exchange *x)
{
	struct mcp_channel *ch = x->ch;
	struct mcp_memory *memory = exchange_memory(x);
	struct mcp_answer a = { .status = x->status, .retry_after_s = x->retry_after_s, .hang_up = x->hang_up };
	char need[SCOPE_NEED_SIZE];

	if (x->batch && x->reply.len)
		str_putc(&x->reply, ']');
	a.hang_up |= x->reply.failed;   /* no memory even to say so */
	if (x->reply.len && !x->reply.failed) {
		a.text = x->reply.p;
		a.len = x->reply.len;
	} else if (a.status == 200) {
		a.status = 202;
	}
	if (x->needs && x->status == 403)
		a.scope = scope_need(x->needs, need);
	if (x->session_id[0])
		a.session = x->session_id;
	if (x->initialized && memory) {
		if (ch)
			notify_missed(memory, x->srv, x->who, ch->ops, ch->peer);
		else if (x->session->ops)
			notify_missed(memory, x->srv, x->who, x->session->ops, x->session->peer);
	}
	x->closed = true;
	list_unlink(&x->link);
	x->ch = NULL;
	x->session = NULL;
	if (ch)
		channel_check_drained(ch);
	x->sink.ops->finish(x->sink.peer, &a);
	exchange_unpin(x);
}

static void finish_deferred(void *arg)
{
	struct mcp_exchange *x = arg;

	if (!x->closed)
		finish(x);
	exchange_unpin(x);
}

void exchange_settle(struct mcp_exchange *x)
{
	if (x->unanswered || x->closed)
		return;
	if (x->srv->inside) {
		exchange_pin(x);
		ev_defer(x->srv->env.loop, finish_deferred, x);
	} else {
		finish(x);
	}
}

void exchange_abandon(struct mcp_exchange *x, bool cancel)
{
	bool stays = x->session && !cancel;

	exchange_pin(x);
	x->closed = true;
	x->ch = NULL;
	if (!stays) {
		list_unlink(&x->link);
		x->session = NULL;
	}
	for (size_t i = 0; i < x->nreq; i++) {
		struct mcp_req *req = &x->req[i];
		/* Nobody is left to answer an open question. */
		bool asked = !list_empty(&req->asks);

		if (!req->open)
			continue;
		if (stays && req->call && !asked)
			continue;       /* its id and its session can still cancel it (MCP C-02) */
		if (req->call && !cancel && !asked) {
			call_detach(req->call);
			req->call = NULL;
			req_drop(req);
			exchange_unpin(x);
		} else {
			req_cancel(req);
		}
	}
	exchange_unpin(x);
	exchange_unpin(x);
}

void exchange_refuse(struct mcp_exchange *x, enum rev rev, struct jx_span id, struct rpc_error *e)
{
	struct enc_to to = { rev, id, &x->srv->info };

	encode_error(&x->reply, &to, e);
	x->status = rpc_error_status(e, rev_table[rev].era);
	x->retry_after_s = rpc_error_retry_after_s(e);
	if (e->fault == FAULT_DENIED)
		x->hang_up = true;
	rpc_error_fini(e);
}

/* Its id may be used again. */
static void forget(struct mcp_req *req)
{
	asking_drop(req, !req->x->closed);
	if (req->memory)
		map_del(req->memory->inflight, req->id.p, req->id.len);
	req->memory = NULL;
}

void exchange_leave_session(struct mcp_exchange *x)
{
	x->session = NULL;
	list_unlink(&x->link);
	if (!x->closed)
		list_push_back(&x->srv->exchanges, &x->link);
	for (size_t i = 0; i < x->nreq; i++) {
		struct mcp_req *req = &x->req[i];
		bool asked = !list_empty(&req->asks);

		if (!req->open)
			continue;
		forget(req);
		if (asked)      /* nobody can answer that any more */
			call_cancel(req->call, CANCEL_REVOKED);
	}
}

void mcp_exchange_gone(struct mcp_exchange **px)
{
	struct mcp_exchange *x = *px;

	*px = NULL;
	if (x && !x->closed)
		exchange_abandon(x, x->modern);         /* MCP B-24, C-04, C-05 */
}

bool mcp_exchange_may_stream(const struct mcp_exchange *x)
{
	return x->http && x->sse_ok && !x->closed && x->unanswered > 0;
}

bool mcp_crowded_by(const struct mcp_server *srv, const struct principal *who)
{
	return call_crowds(srv->env.calls, who);
}

static struct jx_span copy(struct jx_span s)
{
	return (struct jx_span){ mem_strndup(s.p, s.len), s.len };
}

void req_set_token(struct mcp_req *req, struct jx_span raw)
{
	if (rpc_is_id(raw))
		req->token = copy(raw);
}

bool req_open(struct mcp_req *req, struct mcp_memory *memory, struct jx_span id)
{
	struct mcp_req *holder;
	struct rpc_error e;

	req->open = true;
	req->x->unanswered++;
	if (id.p)
		req->id = copy(id);
	if (!memory)
		return true;
	holder = map_get(memory->inflight, id.p, id.len);
	if (holder && holder->x->closed) {
		forget(holder);         /* the connection was lost: the caller asks again */
		holder = NULL;
	}
	if (holder) {           /* MCP B-43 */
		rpc_error_init(&e, FAULT_REQUEST, "The id is in use by a request that has no answer yet");
	} else if (map_count(memory->inflight) >= MCP_INFLIGHT_MAX) {
		rpc_error_rate(&e, INFLIGHT_RETRY_MS);
	} else {
		map_set(memory->inflight, id.p, id.len, req);
		req->memory = memory;
		return true;
	}
	req_fault(req, &e);
	return false;
}

static void end(struct mcp_req *req)
{
	listen_stop(req);
	subs_fini(&req->subs);
	if (req->tasks)
		req->ways->end(req);
	forget(req);
	req->open = false;
	req->x->unanswered--;
	req_span_end(req);
	if (req->method)
		tally_observe(tally_get(TALLY_METHOD, req->method), clock_mono_us() - req->begun_us, NULL);
	if (!req->x->inside)
		exchange_settle(req->x);
}

/* Where the answer of a request is written; NULL: to nobody. */
static struct str *reply_begin(struct mcp_req *req)
{
	struct mcp_exchange *x = req->x;

	if (x->closed || req->mute)
		return NULL;
	if (!x->reply.p)
		str_room(&x->reply, REPLY_ROOM);
	if (x->batch)
		str_putc(&x->reply, x->reply.len ? ',' : '[');
	return &x->reply;
}

/* Instead of a result for which there is no memory (HARDENING F-15). */
static void put_no_memory(struct str *out, size_t before, const struct enc_to *to)
{
	struct rpc_error e;

	metric_inc(METRIC_budget_memory_refused);
	out->len = before;
	out->failed = false;
	rpc_error_init(&e, FAULT_BUSY, "There is no memory for the result");
	encode_error(out, to, &e);
	rpc_error_fini(&e);
}

static void mcp_charge_result(struct mcp_exchange *x, size_t len);

void req_result(struct mcp_req *req, const struct enc_result *r)
{
	struct enc_to to = { req->rev, req->id, &req->x->srv->info };
	struct str *out = reply_begin(req);
	size_t before = out ? out->len : 0;

	if (out) {
		encode_result(out, &to, r);
		if (out->failed)
			put_no_memory(out, before, &to);
		mcp_charge_result(req->x, out->len - before);
	}
	end(req);
}

void req_fault(struct mcp_req *req, struct rpc_error *e)
{
	struct enc_to to = { req->rev, req->id, &req->x->srv->info };
	struct str *out = reply_begin(req);

	req->code = e->code;
	if (out) {
		encode_error(out, &to, e);
		if (!req->x->batch) {   /* a batch has a status of its own (MCP B-57) */
			req->x->status = rpc_error_status(e, req->x->modern ? ERA_MODERN : ERA_LEGACY);
			req->x->retry_after_s = rpc_error_retry_after_s(e);
		}
		req->x->hang_up |= e->fault == FAULT_DENIED;
	}
	rpc_error_fini(e);
	end(req);
}

void req_drop(struct mcp_req *req)
{
	end(req);
}

void req_cancel(struct mcp_req *req)
{
	req->mute = true;
	if (!req->call) {
		req_drop(req);
		return;
	}
	forget(req);
	call_cancel(req->call, CANCEL_BY_CLIENT);       /* its end drops the request */
}

void req_notice(struct mcp_req *req, const struct str *text)
{
	struct mcp_exchange *x = req->x;

	if (x->closed || req->mute || (x->http && !x->sse_ok))
		return;
	x->sink.ops->notice(x->sink.peer, text->p, text->len);
}

/* what a long one was more */
static void mcp_charge_result(struct mcp_exchange *x, size_t len)
{
	if (len >= UNIT_BYTES)
		call_charge_more(x->srv->env.calls, x->who, (unsigned)(len / UNIT_BYTES));
}
