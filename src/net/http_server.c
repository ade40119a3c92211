/* One HTTP/1.1 server connection: what the peer sends, what it is waited for, and the end. */
#include "config.h"

#include "net/http_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/metric.h"
#include "ev/ev.h"
#include "http_int.h"
#include "net/stream.h"

#define BODY_RATE (64u << 10)           /* bytes in a second that keep a body alive beyond its time (SEC S-116) */
#define BODY_KEEP (64u << 10)           /* a larger buffer is given back behind its request */

/* --- the end ------------------------------------------------------------------------------------- */

static void free_request(void *arg)
{
	struct http_request *r = arg;
	str_fini(&r->waiting);
	free(r);
}

static void remove_request(struct http_request *r)
{
	list_unlink(&r->node);
	r->conn->nrequests--;
}

/* Everything that is owed is told, then the connection is no more. */
static void tear_down(void *arg)
{
	struct http_conn *c = arg;
	c->dying = true;
	stream_close(&c->stream);
	ev_timer_free(&c->timer);
	while (!list_empty(&c->requests)) {
		struct http_request *r = CONTAINER_OF(c->requests.next, struct http_request, node);
		if (!r->ours && !r->answered)
			c->ops->gone(c->arg, r, r->user);
		remove_request(r);
		ev_defer(c->loop, free_request, r);
	}
	str_fini(&c->body_text);
	c->ops->closed(c->arg, c);
	ev_defer(c->loop, free, c);
}

void http_conn_close(struct http_conn *c)
{
	if (c->dying)
		return;
	c->dying = true;
	ev_defer(c->loop, tear_down, c);
}

/* Let the peer read what is written, then close. */
static void finish(struct http_conn *c)
{
	if (c->finishing || c->dying)
		return;
	c->finishing = c->last = true;
	ev_timer_stop(c->timer);
	stream_half_close(c->stream);
}

void http_conn_drain(struct http_conn *c)
{
	c->last = true;
	if (c->nrequests == 0)
		finish(c);
}

/* --- phases and their timers --------------------------------------------------------------------- */

static uint64_t drained_us(const struct http_conn *c, uint64_t end)
{
	return c->drain_us && c->drain_us < end ? c->drain_us : end;
}

/* When the phase ends; 0 = it has no end. */
static uint64_t phase_end_us(const struct http_conn *c)
{
	switch (c->phase) {
	case HTTP_PHASE_IDLE:
		return drained_us(c, c->phase_us + c->timers.idle_ms * 1000ull);
	case HTTP_PHASE_HEAD:
		return drained_us(c, c->phase_us + c->timers.head_ms * 1000ull);
	case HTTP_PHASE_BODY:
		return c->phase_us + c->timers.body_ms * 1000ull + c->body.total * 1000000 / BODY_RATE;
	case HTTP_PHASE_WORK:
		break;
	}
	return 0;
}

/* A timer that is armed too early is left alone: it looks again when it fires.  So a busy connection sets none. */
static void arm(struct http_conn *c)
{
	uint64_t now = ev_now_us(c->loop), end = phase_end_us(c);
	if (c->finishing || c->dying || end == 0 || (ev_timer_armed(c->timer) && c->timer_us <= end))
		return;
	c->timer_us = end;
	ev_timer_start(c->timer, end > now ? end - now : 0);
}

static void set_phase(struct http_conn *c, enum http_phase phase)
{
	c->phase = phase;
	c->phase_us = ev_now_us(c->loop);
	arm(c);
}

void http_conn_drain_in(struct http_conn *c, uint32_t ms)
{
	if (c->nrequests > 0) {
		c->last = true;
		return;
	}
	c->drain_us = drained_us(c, ev_now_us(c->loop) + ms * 1000ull);
	arm(c);
}

void http_no_more(struct http_request *r)
{
	r->conn->last = true;
}

static void refuse(struct http_conn *c, int status, const char *why);

static void on_timer(void *arg)
{
	struct http_conn *c = arg;
	uint64_t now = ev_now_us(c->loop), end = phase_end_us(c);
	if (end == 0)
		return;
	if (now < end) {
		c->timer_us = end;
		ev_timer_start(c->timer, end - now);
		return;
	}
	if (c->phase == HTTP_PHASE_IDLE)
		finish(c);
	else
		refuse(c, 408, "the request did not arrive in time");
}

/* --- the order of answers ------------------------------------------------------------------------ */

void http_conn_advance(struct http_conn *c)
{
	while (!list_empty(&c->requests)) {
		struct http_request *r = CONTAINER_OF(c->requests.next, struct http_request, node);
		if (r->waiting.len > 0) {
			stream_write_answer(c->stream, r->waiting.p, r->waiting.len);
			str_fini(&r->waiting);
		}
		if (!r->answered)
			break;
		bool close = r->close;
		if (c->reading == r)    /* answered before its body was whole */
			c->reading = NULL;
		remove_request(r);
		ev_defer(c->loop, free_request, r);
		if (close) {
			finish(c);
			return;
		}
	}
	if (c->paused && c->nrequests < HTTP_PIPELINE_MAX) {
		c->paused = false;
		stream_pause(c->stream, false);
		stream_kick(c->stream);
	}
	if (c->nrequests > 0)
		return;
	if (c->last)
		finish(c);
	else if (c->phase == HTTP_PHASE_WORK)
		set_phase(c, HTTP_PHASE_IDLE);
}

/* --- input --------------------------------------------------------------------------------------- */

static struct http_request *add_request(struct http_conn *c)
{
	struct http_request *r = mem_zalloc(sizeof(*r));
	r->conn = c;
	list_push_back(&c->requests, &r->node);
	c->nrequests++;
	return r;
}

static bool is_id(struct http_text t)
{
	static const char set[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	for (size_t i = 0; i < t.len; i++) {
		if (!memchr(set, t.p[i], sizeof(set) - 1))
			return false;
	}
	return t.len > 0 && t.len <= HTTP_REQUEST_ID_MAX;
}

static void name_request(struct http_request *r, const struct http_head *h)
{
	struct http_conn *c = r->conn;
	unsigned count;
	struct http_text asked = http_head_get(h, "x-request-id", &count);
	if (count == 1 && is_id(asked)) {
		memcpy(r->id, asked.p, asked.len);      /* SEC S-109: a token */
		return;
	}
	if (!c->tag[0])
		id_random_text(c->tag, HTTP_TAG_LEN);
	snprintf(r->id, sizeof(r->id), "%s-%u", c->tag, ++c->serial);
}

const char *http_request_id(const struct http_request *r)
{
	return r->id;
}

static void tell_gone(void *arg)
{
	struct http_request *r = arg;
	struct http_conn *c = r->conn;
	if (!r->answered)
		c->ops->gone(c->arg, r, r->user);
	ev_defer(c->loop, free_request, r);
}

/* The request being read is taken from its owner and answered by us, behind those before it; nothing more is read
 * (SEC S-110). */
static void refuse(struct http_conn *c, int status, const char *why)
{
	metric_inc(status == 413 ? METRIC_http_body_too_large :
		status == 414 || status == 431 ? METRIC_http_head_too_large : METRIC_http_bad_requests);
	if (status == 400 && c->ops->broken)
		c->ops->broken(c->arg);
	struct http_request *half = c->reading;
	char id[HTTP_REQUEST_ID_MAX + 1] = "";
	c->reading = NULL;
	c->last = true;
	c->phase = HTTP_PHASE_WORK;
	if (half) {
		memcpy(id, half->id, sizeof(id));
		remove_request(half);
		ev_defer(c->loop, tell_gone, half);
	}
	struct http_request *r = add_request(c);
	char text[128];
	int n = snprintf(text, sizeof(text), "%s\n", why);
	r->ours = true;
	memcpy(r->id, id, sizeof(id));
	http_reply(r, status, "Content-Type: text/plain\r\n", text, (size_t)n);
}

/* The whole request is there. */
static void hand_over(struct http_conn *c, struct http_request *r, const char *body, size_t len)
{
	c->reading = NULL;
	r->body_missing = false;
	if (r->close)
		c->last = true;
	set_phase(c, HTTP_PHASE_WORK);
	c->ops->request(c->arg, r, r->user, body, len);
}

/* False: it has been refused. */
static bool begin_body(struct http_conn *c, struct http_request *r, const struct http_head *h, size_t body_max)
{
	c->reading = r;
	int rc = http_body_init(&c->body, h, body_max);
	if (rc)
		refuse(c, -rc, c->body.why);
	return rc == 0;
}

/* The rest of the body is still to come. */
static void await_body(struct http_conn *c, struct http_request *r, bool expects)
{
	c->reading = r;
	set_phase(c, HTTP_PHASE_BODY);
	if (!expects)
		return;
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	if (c->requests.next == &r->node)
		stream_write(c->stream, go_on, sizeof(go_on) - 1);
	else
		str_put(&r->waiting, go_on, sizeof(go_on) - 1);
}

/* None of its body has been taken. */
static void hold(struct http_conn *c, struct http_request *r, const struct http_head *h, size_t body_max)
{
	r->body_missing = h->framing == HTTP_BODY_CHUNKED || (h->framing == HTTP_BODY_LENGTH && h->length > 0);
	if (!begin_body(c, r, h, body_max))
		return;
	c->reading = NULL;
	c->held = r;
	c->held_expects = h->expect_continue;
	stream_pause(c->stream, true);
}

void http_conn_release(struct http_conn *c)
{
	/* What of its body has come, or will, is not the next head. */
	c->last = c->last || c->held->body_missing;
	c->held = NULL;
	if (c->dying)
		return;
	stream_pause(c->stream, false);
	stream_kick(c->stream);
}

void http_go_on(struct http_request *r)
{
	struct http_conn *c = r->conn;
	c->held = NULL;
	if (c->dying)
		return;         /* gone() follows */
	stream_pause(c->stream, false);
	stream_kick(c->stream);
	if (r->body_missing)
		await_body(c, r, c->held_expects);
	else
		hand_over(c, r, "", 0);
}

/* p[0..size) is a head; len bytes are there in all.  Returns how many are taken. */
static size_t take_head(struct http_conn *c, const char *p, size_t size, size_t len)
{
	struct http_head h;
	long rc = http_head_parse(p, size, &h);
	if (rc < 0) {
		refuse(c, (int)-rc, h.why);
		return len;
	}
	struct http_request *r = add_request(c);
	size_t body_max = HTTP_BODY_MAX, there = len - size;
	/* Compared with what is there, so it cannot be more than memory holds. */
	size_t body = h.framing == HTTP_BODY_LENGTH && h.length <= there ? (size_t)h.length : 0;
	name_request(r, &h);
	r->old = h.old;
	r->close = h.close || c->drain_us > 0;
	r->is_head = http_text_is(h.method, "HEAD");
	r->body_missing = h.framing == HTTP_BODY_CHUNKED || (h.framing == HTTP_BODY_LENGTH && h.length > there);

	bool missing = r->body_missing;
	r->ours = true;                 /* until head() has taken it */
	c->phase = HTTP_PHASE_WORK;
	int said = c->ops->head(c->arg, r, &h, &body_max, &r->user);
	if (said == 1) {
		/* r may be on its way out; what of its body is not here will never be read (SEC S-114, S-115). */
		if (missing || h.close || c->drain_us > 0)
			c->last = true;
		return size + body;
	}
	r->ours = false;
	if (c->dying)
		return len;
	if (said == 2) {
		hold(c, r, &h, body_max);
		return size;
	}
	if (missing || body > body_max) {
		if (begin_body(c, r, &h, body_max))
			await_body(c, r, h.expect_continue);
		return size;
	}
	hand_over(c, r, p + size, body);
	return size + body;
}

static size_t take_body(struct http_conn *c, const char *p, size_t len)
{
	size_t used, data, ndata;
	int rc = http_body_take(&c->body, p, len, &used, &data, &ndata);
	if (rc < 0) {
		refuse(c, -rc, c->body.why);
		return len;
	}
	str_put(&c->body_text, p + data, ndata);
	if (rc == 0)
		return used;
	hand_over(c, c->reading, str_text(&c->body_text), c->body_text.len);
	if (c->body_text.cap > BODY_KEEP)
		str_fini(&c->body_text);
	else
		str_reset(&c->body_text);
	return used;
}

static size_t on_data(void *arg, const char *p, size_t len)
{
	struct http_conn *c = arg;
	if (c->dying)
		return len;
	if (c->held)
		return 0;
	if (c->reading)
		return take_body(c, p, len);
	if (c->last)
		return len;
	if (c->nrequests >= HTTP_PIPELINE_MAX) {        /* SEC S-114 */
		c->paused = true;
		stream_pause(c->stream, true);
		return 0;
	}
	const char *why;
	long size = http_head_scan(&c->scan, p, len, &why);
	if (size == 0) {
		if (c->phase != HTTP_PHASE_HEAD)
			set_phase(c, HTTP_PHASE_HEAD);
		return 0;
	}
	c->scan = (struct http_scan){ 0 };
	if (size < 0) {
		refuse(c, (int)-size, why);
		return len;
	}
	return take_head(c, p, (size_t)size, len);
}

/* An end of input counts as gone, as with other servers: nothing else tells that a caller left (MCP B-24). */
static void on_ended(void *arg, enum stream_end why)
{
	struct http_conn *c = arg;
	if (c->dying)
		return;
	if (why == STREAM_OVERFLOW)
		metric_inc(METRIC_output_overflow_closed);
	if (why != STREAM_EOF || c->finishing)
		tear_down(c);
	else
		finish(c);      /* what is written may still be read; then gone() is told for what is not answered */
}

static const struct stream_ops stream_ops = { on_data, on_ended, NULL };

struct http_conn *http_conn_new(struct ev_loop *loop, int fd, const struct http_timers *timers, const struct http_ops *ops,
				void *arg)
{
	static const struct http_timers usual = { 0 };
	if (!timers)
		timers = &usual;
	struct http_conn *c = mem_zalloc(sizeof(*c));
	c->loop = loop;
	c->timers.head_ms = timers->head_ms ? timers->head_ms : HTTP_HEAD_MS;
	c->timers.body_ms = timers->body_ms ? timers->body_ms : HTTP_BODY_MS;
	c->timers.idle_ms = timers->idle_ms ? timers->idle_ms : HTTP_IDLE_MS;
	c->ops = ops;
	c->arg = arg;
	list_init(&c->requests);
	c->timer = ev_timer_new(loop, on_timer, c);
	/* A whole head fits, with the body that usually comes along. */
	c->stream = stream_new(loop, fd, fd, STREAM_TURN_BYTES, &stream_ops, c);
	if (timers->stall_ms)
		stream_stall_ms(c->stream, timers->stall_ms);
	set_phase(c, HTTP_PHASE_IDLE);
	return c;
}

void http_conn_tls(struct http_conn *c, struct tls *t)
{
	stream_tls(c->stream, t);
}
