/* http: one call.  At most HTTP_TRIES_MAX requests, all before the deadline; the breaker of the server is asked before
 * each and told after it. */
#include "config.h"

#include "http_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "ev/ev.h"
#include "net/breaker.h"

#define RETRY_FIRST_MS 100              /* and four times as long each time; a Retry-After of the server goes before */
#define RETRY_FACTOR 4
#define RETRY_LEFT_MS 20                /* less time than this is none */

struct http_op {
	struct backend_op op;
	struct fetcher *fetcher;
	const struct http_plan *plan;
	struct backend_req req;         /* its texts are ours; the rest lives until the end */
	char *tool, *tenant, *principal;
	uint8_t call_id[16];
	struct http_message message;
	struct fetch *fetch;
	struct ev_timer *wait;          /* before another try */
	unsigned tries;
	bool cancelled;
	enum cancel_why why;
	/* of the answer at hand */
	int status;
	char *type;
	bool encoded;
	uint64_t retry_after_ms;        /* 0 = not said */
	struct str body;
	struct err err;                 /* how it failed; code 0 = it did not */
};

static void http_free(void *arg)
{
	struct http_op *h = arg;

	ev_timer_free(&h->wait);
	http_message_fini(&h->message);
	str_fini(&h->body);
	free(h->type);
	free(h->tool);
	free(h->tenant);
	free(h->principal);
	free(h);
}

static void give_error(struct http_op *h, const struct err *err)
{
	h->op.sink.error(h->op.arg, err, 0, NULL);
	http_free(h);
}

/* What a client reads says what is wrong with the tool's server, in the codes of a handler. */
static void give_failure(struct http_op *h)
{
	char id[ID_TEXT_SIZE];
	const struct log_ctx ctx = { .tenant = h->tenant, .principal = h->principal, .call = id_format(h->call_id, id) };

	if (h->cancelled) {
		(void)backend_cancel_err(h->why, &h->err);
	} else if (h->err.code != ERR_TIMEOUT && h->err.code != ERR_LIMIT) {
		log_warn(&ctx, "request failed tool=%s host=%s port=%u tries=%u why=\"%s\"", h->tool, h->plan->base.host,
			 h->plan->base.port, h->tries, h->err.msg);
		h->err.code = ERR_TOOL;
	}
	give_error(h, &h->err);
}

static void give_answer(struct http_op *h)
{
	const struct http_answer a = { h->status, h->type ? h->type : "", h->encoded, str_text(&h->body), h->body.len };
	struct backend_result res;

	if (http_map(h->plan, &h->req, &a, &res, &h->err) < 0) {
		give_failure(h);
		return;
	}
	h->op.sink.result(h->op.arg, &res);
	http_free(h);
}

/* --- tries --------------------------------------------------------------------------------------- */

static void try_now(void *arg);

static bool is_overload(int status)
{
	return status == 502 || status == 503 || status == 504;
}

static enum breaker_word verdict(const struct http_op *h)
{
	switch (h->err.code) {
	case ERR_OK:
		return is_overload(h->status) ? BREAKER_BAD : BREAKER_GOOD;
	case ERR_UNREACHABLE:
	case ERR_IO:
	case ERR_TIMEOUT:
		return BREAKER_BAD;
	case ERR_LIMIT:
		return BREAKER_GOOD;
	case ERR_CANCELLED:
	case ERR_INVALID:
	case ERR_NOT_FOUND:
	case ERR_DENIED:
	case ERR_CAPABILITY:
	case ERR_RATE:
	case ERR_BUSY:
	case ERR_AUDIT:
	case ERR_CONFLICT:
	case ERR_CORRUPT:
	case ERR_UNCERTAIN:
	case ERR_INTERNAL:
	case ERR_TOOL:
		break;
	}
	return BREAKER_UNSAID;
}

/* RFC 9110 9.2.2: what is not idempotent is sent once. */
static bool worth_another(const struct http_op *h)
{
	if (!h->plan->idempotent || h->tries >= HTTP_TRIES_MAX || h->cancelled)
		return false;
	if (h->err.code == 0)
		return is_overload(h->status) || h->status == 429;
	return h->err.code == ERR_UNREACHABLE || h->err.code == ERR_IO;
}

static bool try_later(struct http_op *h)
{
	uint64_t wait_ms = h->retry_after_ms, now = ev_now_us(h->op.loop);

	if (!worth_another(h))
		return false;
	if (wait_ms == 0) {
		wait_ms = RETRY_FIRST_MS;
		for (unsigned i = 1; i < h->tries; i++)
			wait_ms *= RETRY_FACTOR;
		uint8_t jitter;
		id_random(&jitter, 1);
		wait_ms += wait_ms * jitter / 512;      /* up to half as much again */
	}
	if (now + (wait_ms + RETRY_LEFT_MS) * 1000 > h->req.deadline_us)
		return false;
	metric_inc(METRIC_http_retries);
	if (!h->wait)
		h->wait = ev_timer_new(h->op.loop, try_now, h);
	ev_timer_start(h->wait, wait_ms * 1000);
	return true;
}

/* RFC 9110 10.2.3: seconds, or a date by the wall clock.  0: nothing that helps, or a time that has passed. */
static uint64_t read_retry_after_ms(const char *text)
{
	uint64_t seconds, at_us, now_us = clock_wall_us();

	if (text_u64(text, strlen(text), &seconds) == 0)
		return (seconds < UINT32_MAX ? seconds : UINT32_MAX) * 1000;
	if (clock_parse_http(text, now_us, &at_us) == 0 && at_us > now_us)
		return (at_us - now_us + 999) / 1000;
	return 0;
}

static void on_head(void *arg, const struct fetch_head *head)
{
	struct http_op *h = arg;
	const char *type = fetch_head_get(head, "content-type"), *after = fetch_head_get(head, "retry-after");
	const char *encoding = fetch_head_get(head, "content-encoding");

	h->status = fetch_head_status(head);
	h->type = mem_strdup0(type);
	h->encoded = encoding && *encoding && strcasecmp(encoding, "identity") != 0;
	h->retry_after_ms = after ? read_retry_after_ms(after) : 0;
}

static int on_data(void *arg, const void *p, size_t len)
{
	struct http_op *h = arg;

	str_put(&h->body, p, len);      /* the fetcher counts */
	return 0;
}

static void on_done(void *arg, int rc, const struct err *err)
{
	struct http_op *h = arg;

	h->fetch = NULL;
	h->err = *err;
	breaker_tell(fetcher_breakers(h->fetcher), h->tenant, h->plan->base.host, h->plan->base.port,
		     h->cancelled ? BREAKER_UNSAID : verdict(h), ev_now_us(h->op.loop));
	if (try_later(h))
		return;
	if (rc < 0 || h->cancelled)
		give_failure(h);
	else
		give_answer(h);
}

static int ask_breaker(struct http_op *h)
{
	uint32_t wait_ms = breaker_ask(fetcher_breakers(h->fetcher), h->tenant, h->plan->base.host, h->plan->base.port,
				       ev_now_us(h->op.loop));

	if (wait_ms == 0)
		return 0;
	return err_set(&h->err, ERR_TOOL, "", "the tool's server failed %d times and rests; try again in %u s",
		       BREAKER_FAILURES, (wait_ms + 999) / 1000);
}

static int send_request(struct http_op *h)
{
	static const struct fetch_sink sink = { on_head, on_data, on_done };
	const struct fetch_req req = {
		.method = h->plan->method, .url = h->message.url, .policy = &h->plan->policy, .scope = h->tenant,
		.headers = h->message.headers, .nheaders = h->message.nheaders, .body = h->message.body,
		.body_len = h->message.body_len, .deadline_us = h->req.deadline_us, .body_max = h->req.result_max,
	};

	int rc = ask_breaker(h);
	if (rc < 0)
		return rc;
	rc = fetch_start(h->fetcher, &req, &sink, h, &h->fetch, &h->err);
	if (rc < 0)
		breaker_tell(fetcher_breakers(h->fetcher), h->tenant, h->plan->base.host, h->plan->base.port, BREAKER_UNSAID,
			     ev_now_us(h->op.loop));
	return rc;
}

static void try_now(void *arg)
{
	struct http_op *h = arg;

	h->tries++;
	h->status = 0;
	h->encoded = false;
	h->retry_after_ms = 0;
	h->err.code = ERR_OK;
	free(h->type);
	h->type = NULL;
	str_reset(&h->body);
	if (send_request(h) < 0)
		give_failure(h);
}

/* --- the handler --------------------------------------------------------------------------------- */

static void begin(void *arg)
{
	struct http_op *h = arg;

	if (h->err.code == ERR_TOOL || h->err.code == ERR_LIMIT)
		give_error(h, &h->err);         /* the arguments' fault: nothing for the log */
	else if (h->err.code != 0 || h->cancelled)
		give_failure(h);
	else
		try_now(h);
}

void http_start(const struct backend_env *env, const struct backend_req *req, const struct backend_sink *sink, void *arg,
		struct backend_op **ret)
{
	struct http_op *h = mem_zalloc(sizeof(*h));

	backend_op_init(&h->op, env, sink, arg);
	h->fetcher = env->fetcher;
	h->plan = req->plan;
	h->tool = mem_strdup(req->tool);
	h->tenant = mem_strdup(req->tenant);
	h->principal = mem_strdup(req->principal);
	memcpy(h->call_id, req->call_id, sizeof(h->call_id));
	h->req = *req;
	h->req.tool = h->tool;
	h->req.tenant = h->tenant;
	h->req.principal = h->principal;
	h->req.call_id = h->call_id;
	str_init(&h->body, 0);
	*ret = &h->op;
	if (http_message_make(h->plan, req, &h->message, &h->err) == 0)
		h->err.code = ERR_OK;
	ev_defer(env->loop, begin, h);
}

static void cancelled_while_waiting(void *arg)
{
	give_failure(arg);
}

void http_cancel(struct backend_op *op, enum cancel_why why)
{
	struct http_op *h = CONTAINER_OF(op, struct http_op, op);

	if (h->cancelled)
		return;
	h->cancelled = true;
	h->why = why;
	if (h->fetch) {
		fetch_cancel(h->fetch);
	} else if (h->wait && ev_timer_armed(h->wait)) {
		ev_timer_stop(h->wait);
		ev_defer(op->loop, cancelled_while_waiting, h);
	}
	/* Else begin() has not run yet, and sees it. */
}
