/* The way of spans to the collector (OP-406, OP-407): batches in a bounded queue, one request at a time, tries that
 * come later and later, and an end.  What cannot be taken or delivered is dropped and counted.  Loop thread. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "ev/ev.h"
#include "otel/otlp.h"
#include "otel/pb.h"

#include "otel_int.h"

struct batch {
	struct list node;
	struct str items;
	unsigned n;
	uint64_t since_us;              /* monotonic */
	uint64_t tried_us;              /* first; 0: not yet, and more may be added to it */
};

/* A request; it may outlive the queue. */
struct sending {
	struct otel *o;                 /* NULL: nobody wants to know */
	struct fetch *fetch;
	int status;
	uint64_t retry_after_us;        /* 0: the collector did not say */
	struct str body;
};

static void send_next(struct otel *o);

static struct batch *first(const struct otel *o)
{
	return list_empty(&o->batches) ? NULL : CONTAINER_OF(o->batches.next, struct batch, node);
}

static struct batch *last(const struct otel *o)
{
	return list_empty(&o->batches) ? NULL : CONTAINER_OF(o->batches.prev, struct batch, node);
}

static void batch_free(struct otel *o, struct batch *b)
{
	list_unlink(&b->node);
	o->waiting -= b->n;
	o->waiting_bytes -= b->items.len;
	metric_set(METRIC_otel_spans_waiting, o->waiting);
	str_fini(&b->items);
	free(b);
}

/* --- how a batch ends */

static void say_failure(struct otel *o, const char *why)
{
	static struct log_site site;
	const bool news = !o->why[0];

	metric_inc(METRIC_otel_requests_failed);
	o->failures++;
	(void)snprintf(o->why, sizeof(o->why), "%s", why);
	if (news && log_allow(&site))
		log_warn(NULL, "spans are not taken, they wait and are then dropped endpoint=%s why=\"%s\"",
			 o->setup->url, o->why);
}

static void lose(struct otel *o, struct batch *b)
{
	metric_add(METRIC_otel_spans_lost, b->n);
	batch_free(o, b);
	send_next(o);
}

static uint64_t delay_us(const struct otel *o, uint64_t retry_after_us)
{
	uint64_t ms = OTEL_RETRY_FIRST_MS;
	uint8_t chance;

	if (retry_after_us)
		return retry_after_us;
	for (unsigned i = 1; i < o->failures && ms < OTEL_RETRY_MOST_MS; i++)
		ms *= 2;
	if (ms > OTEL_RETRY_MOST_MS)
		ms = OTEL_RETRY_MOST_MS;
	id_random(&chance, 1);
	return ms * 1000 + ms * 1000 / 512 * chance;
}

/* Another try, unless its time is over. */
static void put_off(struct otel *o, struct batch *b, uint64_t retry_after_us)
{
	const uint64_t delay = delay_us(o, retry_after_us);

	if (o->closing || clock_mono_us() + delay > b->tried_us + OTEL_GIVE_UP_MS * 1000ull)
		lose(o, b);
	else
		ev_timer_start(o->retry, delay);
}

static void taken(struct otel *o, struct batch *b, const struct sending *s)
{
	static struct log_site site;
	uint64_t rejected = 0;
	char why[160];

	if (s->status == 200 && otlp_read_answer(str_text(&s->body), s->body.len, &rejected, why, sizeof(why)) < 0) {
		say_failure(o, "its answer is none of OTLP");
		lose(o, b);
		return;
	}
	if (rejected > b->n)
		rejected = b->n;
	if (rejected && log_allow(&site))
		log_warn(NULL, "the collector refused spans endpoint=%s count=%" PRIu64 " why=\"%s\"", o->setup->url, rejected,
			 why);
	if (o->why[0])
		log_info(NULL, "spans are taken again endpoint=%s", o->setup->url);
	o->why[0] = '\0';
	o->failures = 0;
	metric_add(METRIC_otel_spans_rejected, rejected);
	metric_add(METRIC_otel_spans_sent, b->n - rejected);
	batch_free(o, b);
	send_next(o);
}

/* --- one request */

static void on_head(void *arg, const struct fetch_head *head)
{
	struct sending *s = arg;
	const char *after = fetch_head_get(head, "retry-after");
	uint64_t seconds, at_us;
	const uint64_t now_us = clock_wall_us();

	s->status = fetch_head_status(head);
	if (!after)
		return;
	if (text_u64(after, strlen(after), &seconds) == 0)      /* RFC 9110 10.2.3 */
		s->retry_after_us = (seconds < UINT32_MAX ? seconds : UINT32_MAX) * 1000000;
	else if (clock_parse_http(after, now_us, &at_us) == 0 && at_us > now_us)
		s->retry_after_us = at_us - now_us;
}

static int on_data(void *arg, const void *p, size_t len)
{
	struct sending *s = arg;

	str_put(&s->body, p, len);
	return 0;
}

static void on_done(void *arg, int rc, const struct err *err)
{
	struct sending *s = arg;
	struct otel *o = s->o;
	struct batch *b = o ? first(o) : NULL;
	char why[64];

	if (o)
		o->sending = NULL;
	if (o && rc < 0) {
		say_failure(o, err->msg);
		if (rc == ERR_LIMIT)
			lose(o, b);
		else
			put_off(o, b, 0);
	} else if (o && s->status >= 200 && s->status < 300) {
		taken(o, b, s);
	} else if (o) {
		(void)snprintf(why, sizeof(why), "it answers with status %d", s->status);
		say_failure(o, why);
		if (otlp_may_retry(s->status))
			put_off(o, b, s->retry_after_us);
		else
			lose(o, b);
	}
	str_fini(&s->body);
	free(s);
}

static int start(struct otel *o, const struct batch *b, struct err *err)
{
	static const struct fetch_sink sink = { on_head, on_data, on_done };
	const struct otel_setup *setup = o->setup;
	struct sending *s = mem_zalloc(sizeof(*s));
	struct str body = STR_INIT;
	int rc;

	otlp_put_request(&body, &(struct otlp_frame){ &setup->resource, OTEL_SCOPE, o->env.version, &b->items });
	s->o = o;
	rc = fetch_start(o->env.fetcher, &(struct fetch_req){ .method = "POST", .url = setup->url, .policy = &setup->policy,
				.scope = "otel:",       /* no tenant has that name */
				.headers = setup->headers.header, .nheaders = setup->headers.n, .body = str_text(&body),
				.body_len = body.len, .deadline_us = clock_mono_us() + OTEL_TIMEOUT_MS * 1000ull,
				.body_max = OTLP_ANSWER_MAX }, &sink, s, &s->fetch, err);
	str_fini(&body);
	if (rc < 0)
		free(s);
	else
		o->sending = s;
	return rc;
}

/* 0: it leaves now. */
static uint64_t wait_us(const struct otel *o, const struct batch *b)
{
	const uint64_t now = clock_mono_us(), due = b->since_us + OTEL_BATCH_MS * 1000ull;

	return o->closing || b->tried_us || b->n >= OTEL_BATCH_SPANS || now >= due ? 0 : due - now;
}

static void send_next(struct otel *o)
{
	struct batch *b = first(o);
	struct err err;
	uint64_t wait;

	o->idle = !b;
	if (!b || o->sending || ev_timer_armed(o->retry))
		return;
	wait = wait_us(o, b);
	if (wait) {
		ev_timer_start(o->timer, wait);
		return;
	}
	if (b->tried_us == 0)
		b->tried_us = clock_mono_us();
	if (start(o, b, &err) < 0) {
		say_failure(o, err.msg);
		put_off(o, b, 0);
	}
}

static void on_timer(void *arg)
{
	send_next(arg);
}

/* --- what comes */

static struct batch *batch_for(struct otel *o)
{
	struct batch *b = last(o);

	if (b && !b->tried_us && b->n < OTEL_BATCH_SPANS)
		return b;
	b = mem_zalloc(sizeof(*b));
	b->since_us = clock_mono_us();
	str_init(&b->items, OTEL_WAITING_BYTES);
	list_init(&b->node);
	list_push_back(&o->batches, &b->node);
	return b;
}

void otel_send(struct otel *o, const struct str *span)
{
	struct batch *b;
	size_t before;

	if (span->failed || o->waiting >= OTEL_WAITING_MAX || span->len > OTEL_WAITING_BYTES - o->waiting_bytes) {
		metric_inc(METRIC_otel_spans_dropped);
		return;
	}
	b = batch_for(o);
	before = b->items.len;
	pb_bytes(&b->items, OTLP_ITEM, span->p, span->len);
	if (b->items.failed) {                  /* no memory */
		b->items.failed = false;
		b->items.len = before;
		metric_inc(METRIC_otel_spans_dropped);
		return;
	}
	b->n++;
	o->waiting++;
	o->waiting_bytes += b->items.len - before;
	metric_set(METRIC_otel_spans_waiting, o->waiting);
	if (b->n == 1 || b->n == OTEL_BATCH_SPANS)
		send_next(o);
}

/* --- life */

void otel_queue_open(struct otel *o)
{
	list_init(&o->batches);
	o->timer = ev_timer_new(o->env.loop, on_timer, o);
	o->retry = ev_timer_new(o->env.loop, on_timer, o);
}

void otel_queue_close(struct otel *o)
{
	o->closing = true;
	ev_timer_stop(o->retry);
	send_next(o);                   /* one try for each batch, all within OTEL_STOP_MS */
	if (!o->idle)
		(void)ev_loop_run_until(o->env.loop, &o->idle, OTEL_STOP_MS);
	if (o->sending) {
		o->sending->o = NULL;
		fetch_cancel(o->sending->fetch);
	}
	while (first(o)) {
		metric_add(METRIC_otel_spans_lost, first(o)->n);
		batch_free(o, first(o));
	}
	ev_timer_free(&o->timer);
	ev_timer_free(&o->retry);
}
