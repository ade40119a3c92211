/* One HTTP/1.1 server connection on the loop's thread: what the peer sends, what it is waited for, answers in the order
 * of their requests, and the end.  Heads and the framing of bodies are read by http_head.c.  Bad framing is refused,
 * never repaired, and closes the connection. */
#include "config.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "ev/ev.h"
#include "net/gate.h"
#include "net/http_server.h"
#include "net/stream.h"

/* What the peer is waited for, and how long. */
enum http_phase {
	HTTP_PHASE_IDLE,                /* for the first byte of a head, and no answer is due */
	HTTP_PHASE_HEAD,                /* for the rest of a head */
	HTTP_PHASE_BODY,                /* for the rest of a body */
	HTTP_PHASE_LATE,                /* for nothing: its body found no room, and is told so in a while */
	HTTP_PHASE_WORK,                /* for nothing: answers are due */
};

#define HTTP_DATE_SIZE 40
#define HTTP_TAG_LEN 12                 /* of a connection: begins the names of its requests */

struct http_conn {
	struct ev_loop *loop;
	struct stream *stream;
	struct http_timers timers;
	const struct http_ops *ops;
	void *arg;
	struct list requests;           /* in the order of their answers; the first one writes */
	unsigned nrequests;
	struct http_scan scan;
	struct http_request *reading;   /* whose body is being read, or NULL */
	struct http_request *held;      /* whose body waits for http_go_on(), or NULL: nothing is read */
	bool held_expects;              /* its peer waits for 100 Continue */
	struct http_body body;
	struct str body_text;
	struct gate_pass *pass;         /* whose bytes are counted, or NULL */
	enum http_phase phase;
	uint64_t phase_us;              /* since when */
	struct ev_timer *timer;
	uint64_t timer_us;              /* when it fires, if it is armed */
	uint64_t drain_us;              /* no head is waited for beyond; 0 = as long as usual */
	bool last;                      /* no further request is read */
	bool paused;                    /* HTTP_PIPELINE_MAX answers are due */
	char *late_why;                 /* what is told at the end of HTTP_PHASE_LATE; owned */
	uint16_t late_part;             /* so much later, in units of late_ms / 1000: who came together is told apart */
	bool dying, finishing;
	char tag[HTTP_TAG_LEN + 1];     /* "": not drawn yet */
	unsigned serial;                /* of the request that was named last */
};

struct http_request {
	struct list node;
	struct http_conn *conn;
	void *user;
	bool ours;                      /* nobody is told of its end: a refusal, or head() has not taken it */
	bool is_head;                   /* its answer has no body */
	bool old;                       /* HTTP/1.0 */
	bool close;                     /* the connection ends behind its answer */
	bool body_missing;              /* not all of its body has been read */
	bool chunked;                   /* its answer is */
	bool answered;
	char id[HTTP_REQUEST_ID_MAX + 1];       /* "": its head could not be read */
	struct str waiting;             /* of its answer, while earlier ones are not complete */
};

/* --- Answers: their heads, their order, whole or in chunks. */

const char *http_status_text(int status)
{
	switch (status) {
	case 100: return "Continue";
	case 200: return "OK";
	case 201: return "Created";
	case 202: return "Accepted";
	case 204: return "No Content";
	case 301: return "Moved Permanently";
	case 302: return "Found";
	case 303: return "See Other";
	case 304: return "Not Modified";
	case 307: return "Temporary Redirect";
	case 308: return "Permanent Redirect";
	case 400: return "Bad Request";
	case 401: return "Unauthorized";
	case 402: return "Payment Required";
	case 403: return "Forbidden";
	case 404: return "Not Found";
	case 405: return "Method Not Allowed";
	case 406: return "Not Acceptable";
	case 408: return "Request Timeout";
	case 409: return "Conflict";
	case 410: return "Gone";
	case 412: return "Precondition Failed";
	case 413: return "Content Too Large";
	case 414: return "URI Too Long";
	case 415: return "Unsupported Media Type";
	case 417: return "Expectation Failed";
	case 422: return "Unprocessable Content";
	case 429: return "Too Many Requests";
	case 431: return "Request Header Fields Too Large";
	case 500: return "Internal Server Error";
	case 501: return "Not Implemented";
	case 502: return "Bad Gateway";
	case 503: return "Service Unavailable";
	case 504: return "Gateway Timeout";
	case 505: return "HTTP Version Not Supported";
	}
	return "Unknown";
}

/* RFC 9110 6.6.1; made once a second in each thread.  English whatever the locale. */
static const char *date_line(void)
{
	static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	static _Thread_local char line[HTTP_DATE_SIZE];
	static _Thread_local uint64_t line_s;
	uint64_t now_s = clock_turn_us() / 1000000;
	if (now_s != line_s || !line[0]) {
		time_t t = (time_t)now_s;
		struct tm tm = { 0 };
		gmtime_r(&t, &tm);
		line_s = now_s;
		snprintf(line, sizeof(line), "Date: %.3s, %02u %.3s %04u %02u:%02u:%02u GMT\r\n",
			 days + 3 * tm.tm_wday, (unsigned)tm.tm_mday % 100, months + 3 * tm.tm_mon,
			 (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)tm.tm_hour % 100,
			 (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
	}
	return line;
}

static bool is_first(const struct http_request *r)
{
	return r->conn->requests.next == &r->node;
}

/* Bytes of r's answer, now or when its turn comes. */
static void emit(struct http_request *r, const char *p, size_t len)
{
	if (r->conn->dying || len == 0)
		return;
	if (is_first(r))
		stream_write_answer(r->conn->stream, p, len);
	else
		str_put(&r->waiting, p, len);
}

/* Parts of an answer on their way to emit(): what is short goes as one, since each step of a stream costs more than a
 * copy of all of them.  head_end() brings what waits. */
#define HEAD_ROOM 1024                  /* a usual head with a short body */
struct head { struct http_request *r; size_t len; char p[HEAD_ROOM]; };

static void head_end(struct head *h)
{
	emit(h->r, h->p, h->len);
	h->len = 0;
}

static void head_put(struct head *h, const char *p, size_t len)
{
	if (len > sizeof(h->p) - h->len)
		head_end(h);
	if (len > sizeof(h->p)) {
		emit(h->r, p, len);
	} else if (len > 0) {
		memcpy(h->p + h->len, p, len);
		h->len += len;
	}
}

static void head_text(struct head *h, const char *z)
{
	head_put(h, z, strlen(z));
}

/* Does the connection end behind this answer? */
static bool closes(const struct http_request *r)
{
	const struct http_conn *c = r->conn;
	bool is_last = c->requests.prev == &r->node && (!c->reading || c->reading == r);
	return r->close || r->body_missing || (c->last && is_last);
}

enum { DECIMAL_MAX = 20 };

/* What each answer has is not formatted: that took longer than all else of its head.  Returns the end, without NUL. */
static char *put_decimal(char *to, size_t v)
{
	char digits[DECIMAL_MAX];
	size_t at = sizeof(digits);
	do {
		digits[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	return mempcpy(to, digits + at, sizeof(digits) - at);
}

static void put_head(struct head *h, int status, const char *headers, const char *framing)
{
	struct http_request *r = h->r;
	char line[9 + DECIMAL_MAX + 1] = "HTTP/1.1 ", *end = put_decimal(line + 9, (size_t)status);
	*end++ = ' ';
	head_put(h, line, (size_t)(end - line));
	head_text(h, http_status_text(status));
	head_text(h, "\r\n");
	head_text(h, date_line());
	if (r->id[0]) {
		head_text(h, "X-Request-Id: ");
		head_text(h, r->id);
		head_text(h, "\r\n");
	}
	if (headers)
		head_text(h, headers);
	head_text(h, framing);
	r->close = closes(r);
	if (r->close)
		head_text(h, "Connection: close\r\n\r\n");
	else
		head_text(h, r->old ? "Connection: keep-alive\r\n\r\n" : "\r\n");
}

static void http_conn_advance(struct http_conn *c);

static void http_conn_release(struct http_conn *c);

static void complete(struct http_request *r)
{
	r->answered = true;
	if (r->conn->held == r)
		http_conn_release(r->conn);
	if (!r->conn->dying)
		http_conn_advance(r->conn);
}

void http_reply(struct http_request *r, int status, const char *headers, const char *body, size_t len)
{
	assert(!r->answered && !r->chunked);
	struct head h;
	char framing[48] = "";
	h.r = r;
	h.len = 0;
	if (status != 204)
		memcpy(put_decimal(stpcpy(framing, "Content-Length: "), len), "\r\n", sizeof("\r\n"));
	put_head(&h, status, headers, framing);
	if (status != 204 && !r->is_head)
		head_put(&h, body, len);
	head_end(&h);
	complete(r);
}

void http_stream_begin(struct http_request *r, int status, const char *headers)
{
	assert(!r->answered && !r->chunked);
	r->chunked = !r->old;
	r->close = r->close || r->old;  /* without chunks only the end of the connection tells the end */
	struct head h;
	h.r = r;
	h.len = 0;
	put_head(&h, status, headers, r->chunked ? "Transfer-Encoding: chunked\r\n" : "");
	head_end(&h);
}

static void write_chunk(struct http_request *r, const char *p, size_t len, bool answer)
{
	struct http_conn *c = r->conn;
	char size[24] = "";
	if (c->dying || r->is_head || len == 0)
		return;         /* an empty chunk would be the end */
	int n = r->chunked ? snprintf(size, sizeof(size), "%zx\r\n", len) : 0;
	if (!is_first(r)) {
		str_put(&r->waiting, size, (size_t)n);
		str_put(&r->waiting, p, len);
		str_puts(&r->waiting, r->chunked ? "\r\n" : "");
		if (r->waiting.len > STREAM_OUT_MAX && !answer)         /* SEC S-830 */
			http_conn_close(c);
		return;
	}
	void (*put)(struct stream *, const void *, size_t) = answer ? stream_write_answer : stream_write;
	put(c->stream, size, (size_t)n);
	put(c->stream, p, len);
	if (r->chunked)
		put(c->stream, "\r\n", 2);
}

void http_stream_write(struct http_request *r, const char *p, size_t len)
{
	write_chunk(r, p, len, false);
}

void http_stream_answer(struct http_request *r, const char *p, size_t len)
{
	write_chunk(r, p, len, true);
}

void http_stream_end(struct http_request *r)
{
	if (r->chunked && !r->is_head)
		emit(r, "0\r\n\r\n", 5);
	complete(r);
}

size_t http_stream_queued(const struct http_request *r)
{
	if (r->conn->dying)
		return 0;
	return is_first(r) ? stream_queued(r->conn->stream) : r->waiting.len;
}

/* --- connections */

#define BODY_RATE (64u << 10)           /* bytes in a second that keep a body alive beyond its time (SEC S-116) */

/* --- the end */

static void free_request(void *arg)
{
	struct http_request *r = arg;
	str_fini(&r->waiting);
	free(r);
}

/* What has come of a body is not needed any more: nobody keeps memory for the next one (HARDENING F-5). */
static void drop_body(struct http_conn *c)
{
	str_fini(&c->body_text);
	if (c->stream)
		stream_behind(c->stream, false);
	if (c->pass)
		gate_release(c->pass);
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
	drop_body(c);
	free(c->late_why);
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
	stream_behind(c->stream, true); /* all that comes yet is thrown away */
}

static void tell_late(struct http_conn *c);

void http_conn_drain(struct http_conn *c)
{
	c->last = true;
	if (c->phase == HTTP_PHASE_LATE)
		tell_late(c);
	if (c->nrequests == 0)
		finish(c);
}

/* --- phases and their timers */

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
	case HTTP_PHASE_LATE:
		return c->phase_us + c->timers.late_ms * (1000ull + c->late_part % 1000);
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
	if (c->phase == HTTP_PHASE_LATE)
		tell_late(c);
	if (c->nrequests > 0) {
		c->last = true;
		return;
	}
	c->drain_us = drained_us(c, ev_now_us(c->loop) + ms * 1000ull);
	arm(c);
}

int http_conn_hand(struct http_conn *c)
{
	bool idle = c->phase == HTTP_PHASE_IDLE && c->nrequests == 0 && !c->last && !c->dying && c->drain_us == 0;
	int fd = idle ? stream_dup(c->stream) : -1;

	if (fd >= 0) {
		stream_pause(c->stream, true);
		http_conn_close(c);
	}
	return fd;
}

bool http_conn_is_over(const struct http_conn *c)
{
	return c->dying || (c->finishing && stream_queued(c->stream) == 0);
}

void http_no_more(struct http_request *r)
{
	r->conn->last = true;
}

static void refuse_request(struct http_conn *c, int status, const char *why);

/* What refuse_late() has put off. */
static void tell_late(struct http_conn *c)
{
	stream_pause(c->stream, false);
	refuse_request(c, 503, c->late_why);
}

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
	else if (c->phase == HTTP_PHASE_LATE)
		tell_late(c);
	else
		refuse_request(c, 408, "the request did not arrive in time");
}

/* --- the order of answers */

static void http_conn_advance(struct http_conn *c)
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
		if (c->reading == r) {  /* answered before its body was whole */
			c->reading = NULL;
			drop_body(c);
		}
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

/* --- input */

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
	_Static_assert(HTTP_TAG_LEN + 1 + DECIMAL_MAX <= HTTP_REQUEST_ID_MAX, "a name that we give fits");
	*put_decimal(stpcpy(stpcpy(r->id, c->tag), "-"), ++c->serial) = '\0';
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
static void refuse_request(struct http_conn *c, int status, const char *why)
{
	if (status != 503)
		metric_inc(status == 413 ? METRIC_http_body_too_large :
			   status == 414 || status == 431 ? METRIC_http_head_too_large : METRIC_http_bad_requests);
	if (status == 400 && c->ops->broken)
		c->ops->broken(c->arg);
	struct http_request *half = c->reading;
	char id[HTTP_REQUEST_ID_MAX + 1] = "";
	c->reading = NULL;
	drop_body(c);
	c->last = true;
	c->phase = HTTP_PHASE_WORK;
	if (half) {
		memcpy(id, half->id, sizeof(id));
		remove_request(half);
		ev_defer(c->loop, tell_gone, half);
	}
	struct http_request *r = add_request(c);
	char text[256];
	int n = snprintf(text, sizeof(text), "%s\n", why);
	r->ours = true;
	memcpy(r->id, id, sizeof(id));
	http_reply(r, status, status == 503 ? "Content-Type: text/plain\r\nRetry-After: 1\r\n" :
		   "Content-Type: text/plain\r\n", text, (size_t)n);
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
		refuse_request(c, -rc, c->body.why);
	return rc == 0;
}

/* The rest of the body is still to come. */
static void await_body(struct http_conn *c, struct http_request *r, bool expects)
{
	c->reading = r;
	set_phase(c, HTTP_PHASE_BODY);
	stream_behind(c->stream, c->body.left > GATE_SMALL_MAX);
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

/* A held request has its answer: the connection reads on. */
static void http_conn_release(struct http_conn *c)
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
		refuse_request(c, (int)-rc, h.why);
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

/* Its body is forgotten now and nothing more is read; told it is in a while, or who floods would be back at once with
 * the next one (HARDENING F-5). */
static void refuse_late(struct http_conn *c, const char *why)
{
	drop_body(c);
	c->late_why = mem_strdup(why);
	id_random(&c->late_part, sizeof(c->late_part));
	stream_pause(c->stream, true);
	set_phase(c, HTTP_PHASE_LATE);
}

/* False: there is no room, in the budgets or in memory, and it is refused. */
static bool keep_data(struct http_conn *c, const char *p, size_t n)
{
	struct err err = { 0 };
	int rc = c->pass ? gate_hold(c->pass, c->body_text.len + n, &err) : 0;
	if (rc == 0)
		str_put(&c->body_text, p, n);
	if (c->body_text.len > GATE_SMALL_MAX)
		stream_behind(c->stream, true);
	if (rc == 0 && !c->body_text.failed)
		return true;
	if (rc == 0)
		metric_inc(METRIC_budget_memory_refused);
	if (rc == ERR_DENIED)
		refuse_request(c, 413, err.msg);
	else
		refuse_late(c, rc == 0 ? "there is no memory for this body" : err.msg);
	return false;
}

static size_t take_body(struct http_conn *c, const char *p, size_t len)
{
	size_t used, data, ndata;
	int rc = http_body_take(&c->body, p, len, &used, &data, &ndata);
	if (rc < 0) {
		refuse_request(c, -rc, c->body.why);
		return len;
	}
	if (ndata > 0 && !keep_data(c, p + data, ndata))
		return len;
	if (rc == 0)
		return used;
	hand_over(c, c->reading, str_text(&c->body_text), c->body_text.len);
	drop_body(c);
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
		refuse_request(c, (int)-size, why);
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

struct http_conn *http_conn_new(struct ev_loop *loop, int fd, const struct http_timers *timers,
				const struct http_ops *ops,
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
	c->timers.late_ms = timers->late_ms ? timers->late_ms : HTTP_LATE_MS;
	c->ops = ops;
	c->arg = arg;
	str_init(&c->body_text, HTTP_BODY_MAX);
	list_init(&c->requests);
	c->timer = ev_timer_new(loop, on_timer, c);
	/* A whole head fits, with the body that usually comes along. */
	c->stream = stream_new(loop, fd, fd, STREAM_TURN_BYTES, &stream_ops, c);
	if (timers->stall_ms)
		stream_stall_ms(c->stream, timers->stall_ms);
	set_phase(c, HTTP_PHASE_IDLE);
	return c;
}

void http_conn_from(struct http_conn *c, struct tls *t, struct gate_pass *pass)
{
	if (t)
		stream_tls(c->stream, t);
	c->pass = pass;
}
