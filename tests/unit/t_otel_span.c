/* Spans: what goes on to others, which are sent, and what a queue with bounds does when nobody takes them.  The clock is
 * the test's own, and the collector is a server on its loop. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "http_peer.h"
#include "net/fetch.h"
#include "otel/otel.h"
#include "otel/otlp.h"
#include "otel/span.h"
#include "proto/trace.h"
#include "suite.h"

#define START 1900000000000000ull
#define ANSWER(status, more) "HTTP/1.1 " status "\r\nContent-Length: 0\r\n" more "\r\n"

struct rig {
	struct ev_loop *loop;
	struct fetcher *fetcher;
	struct peer peer;
	struct conf conf;
	char endpoint[64];
	struct otel *o;
};

static int set_up(void **state)
{
	struct rig *r = mem_zalloc(sizeof(*r));
	struct otel_setup *setup = NULL;

	clock_fake(START, START);
	r->loop = ev_loop_new();
	r->fetcher = fetcher_new(r->loop);
	peer_open(&r->peer, r->loop, "127.0.0.1:0");
	peer_says(&r->peer, ANSWER("200 OK", ""), false);
	(void)snprintf(r->endpoint, sizeof(r->endpoint), "http://127.0.0.1:%u/", r->peer.port);
	r->conf = (struct conf){ .otel_endpoint = r->endpoint, .otel_sample = 0, .otel_parent_limit = 2 };
	assert_int_equal(otel_setup_load(&r->conf, &setup, NULL), 0);
	r->o = otel_new(&(struct otel_env){ r->loop, r->fetcher, &r->conf, "1" }, &setup);
	for (unsigned id = METRIC_otel_spans_sent; id <= METRIC_otel_parents_refused; id++)
		metric_set((enum metric_id)id, 0);
	*state = r;
	return 0;
}

static int tear_down(void **state)
{
	struct rig *r = *state;

	otel_free(&r->o);
	peer_close(&r->peer);
	fetcher_free(&r->fetcher);
	ev_loop_free(&r->loop);
	clock_real();
	free(r);
	return 0;
}

static struct trace parent_of(const char *flags)
{
	char text[TRACE_PARENT_LEN + 1];
	struct trace t;

	(void)snprintf(text, sizeof(text), "00-ffffffffffffffffffffffffffffffff-b7ad6b7169203331-%s", flags);
	assert_true(trace_parse(&t, text, TRACE_PARENT_LEN, "a=1", 3));
	return t;
}

static struct span *begin(struct rig *r, const char *flags, int64_t tenant_id)
{
	struct trace parent = parent_of(flags);

	return span_begin(r->o, &(struct span_from){ .parent = &parent, .tenant_id = tenant_id });
}

/* Is one of these flags and tenant sent, and are the flags that go on those? */
static bool is_sent(struct rig *r, const char *flags, int64_t tenant_id, bool failed, const char *want)
{
	struct span *s = begin(r, flags, tenant_id);
	bool sent = span_stop(s, failed);

	assert_string_equal(span_trace(s)->parent + 53, want);
	span_end(&s);
	assert_null(s);
	return sent;
}

static void send_many(struct rig *r, size_t n)
{
	r->conf.otel_sample = 100;
	for (size_t i = 0; i < n; i++) {
		struct span *s = span_begin(r->o, &(struct span_from){ .tenant_id = 1 });

		assert_true(span_stop(s, false));
		span_name(s, "x", NULL);
		span_end(&s);
	}
}

static void wait_for_counter(struct rig *r, enum metric_id id, uint64_t want)
{
	static const bool never;

	for (unsigned i = 0; i < 500 && metric_get(id) < want; i++)
		(void)ev_loop_run_until(r->loop, &never, 10);
	assert_int_equal(metric_get(id), want);
}

/* --- context */

static void what_goes_on_has_the_span_as_its_parent(void **state)
{
	struct rig *r = *state;
	struct span *s = begin(r, "03", 1), *child = span_child(s, SPAN_CLIENT);
	const struct trace *a = span_trace(s), *b = span_trace(child);

	assert_memory_equal(a->parent, "00-ffffffffffffffffffffffffffffffff-", 36);
	assert_memory_equal(b->parent, a->parent, 36);
	assert_memory_not_equal(a->parent + 36, "b7ad6b7169203331", 16);
	assert_memory_not_equal(b->parent + 36, a->parent + 36, 16);
	assert_string_equal(a->parent + 52, "-03");
	assert_string_equal(b->parent + 52, "-03");
	assert_string_equal(b->state, "a=1");
	span_end(&child);
	span_end(&s);
	assert_null(span_begin(NULL, &(struct span_from){ .tenant_id = 1 }));
	assert_null(span_child(NULL, SPAN_CLIENT));
	assert_null(span_trace(NULL));
	assert_false(span_stop(NULL, true));
}

/* --- sampling */

static void each_tenant_has_a_share_of_its_own(void **state)
{
	struct rig *r = *state;

	assert_true(is_sent(r, "01", 1, false, "01"));
	assert_true(is_sent(r, "01", 1, false, "01"));
	assert_false(is_sent(r, "01", 1, false, "00"));
	assert_int_equal(metric_get(METRIC_otel_parents_refused), 1);
	assert_true(is_sent(r, "01", 2, false, "01"));          /* of the first it knows nothing */
	clock_step(1000000);
	assert_true(is_sent(r, "01", 1, false, "01"));
}

static void what_nobody_samples_is_sent_when_it_fails_or_is_slow_within_the_share(void **state)
{
	struct rig *r = *state;
	struct span *s;

	assert_false(is_sent(r, "00", 1, false, "00"));
	assert_true(is_sent(r, "00", 1, true, "00"));
	assert_true(is_sent(r, "00", 1, true, "00"));
	assert_false(is_sent(r, "00", 1, true, "00"));
	assert_true(is_sent(r, "00", 2, true, "00"));
	s = begin(r, "00", 3);
	clock_step(SPAN_SLOW_US);
	assert_false(span_stop(s, false));
	clock_step(1);
	assert_true(span_stop(s, false));
	assert_true(span_stop(s, false));       /* counted once */
	span_end(&s);
	assert_true(is_sent(r, "00", 3, true, "00"));
	assert_false(is_sent(r, "00", 3, true, "00"));
}

static void the_share_of_traces_that_begin_here_is_about_as_many(void **state)
{
	struct rig *r = *state;
	unsigned n = 0;

	r->conf.otel_sample = 10;
	for (unsigned i = 0; i < 10000; i++) {
		struct span *s = span_begin(r->o, &(struct span_from){ .tenant_id = 1 });
		const bool sent = span_stop(s, false);

		assert_string_equal(span_trace(s)->parent + 53, sent ? "03" : "02");
		n += sent;
		span_end(&s);
	}
	assert_in_range(n, 700, 1300);          /* ten deviations */
}

/* --- bounds */

static void attributes_and_events_have_a_bound(void **state)
{
	struct rig *r = *state;
	char text[OTLP_VALUE_MAX + 1];
	struct span *s = begin(r, "01", 1);

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (unsigned i = 0; i <= SPAN_EVENTS_MAX; i++)
		span_event(s, "e");
	assert_true(span_stop(s, false));
	span_name(s, text, text);
	for (unsigned i = 0; i <= SPAN_ATTRIBUTES_MAX; i++)
		span_text(s, "k", text);        /* so long that fewer than those fit */
	span_end(&s);
	assert_int_equal(metric_get(METRIC_otel_spans_waiting), 1);
	assert_int_equal(metric_get(METRIC_otel_spans_dropped), 0);
}

static void so_many_wait_and_one_more_is_dropped(void **state)
{
	struct rig *r = *state;

	r->peer.answer = NULL;                  /* silence */
	send_many(r, OTEL_WAITING_MAX);
	assert_int_equal(metric_get(METRIC_otel_spans_waiting), OTEL_WAITING_MAX);
	assert_int_equal(metric_get(METRIC_otel_spans_dropped), 0);
	send_many(r, 1);
	assert_int_equal(metric_get(METRIC_otel_spans_waiting), OTEL_WAITING_MAX);
	assert_int_equal(metric_get(METRIC_otel_spans_dropped), 1);
}

static void a_batch_leaves_when_it_is_full_or_old(void **state)
{
	struct rig *r = *state;
	static const bool never;

	send_many(r, OTEL_BATCH_SPANS - 1);
	(void)ev_loop_run_until(r->loop, &never, 20);
	assert_int_equal(r->peer.requests, 0);
	send_many(r, 2);
	wait_for_counter(r, METRIC_otel_spans_sent, OTEL_BATCH_SPANS);
	assert_int_equal(r->peer.requests, 1);
	clock_step((OTEL_BATCH_MS + 1) * 1000ull);
	wait_for_counter(r, METRIC_otel_spans_sent, OTEL_BATCH_SPANS + 1);
	assert_int_equal(metric_get(METRIC_otel_spans_waiting), 0);
}

static void a_batch_is_given_up_behind_its_time(void **state)
{
	struct rig *r = *state;
	unsigned tries = 0;

	peer_says(&r->peer, ANSWER("503 Busy", ""), false);
	send_many(r, OTEL_BATCH_SPANS);
	for (uint64_t ms = 0; metric_get(METRIC_otel_spans_lost) == 0; ms += OTEL_RETRY_MOST_MS * 3 / 2) {
		assert_in_range(ms, 0, 2 * OTEL_GIVE_UP_MS);
		wait_for_counter(r, METRIC_otel_requests_failed, ++tries);
		clock_step(OTEL_RETRY_MOST_MS * 3 / 2 * 1000ull);
	}
	assert_int_equal(metric_get(METRIC_otel_spans_lost), OTEL_BATCH_SPANS);
	assert_int_equal(metric_get(METRIC_otel_spans_waiting), 0);
	assert_in_range(tries, 5, 12);
}

static void a_collector_that_says_when_is_asked_then(void **state)
{
	struct rig *r = *state;
	static const bool never;

	peer_says(&r->peer, ANSWER("429 Slow", "Retry-After: 60\r\n"), false);
	send_many(r, OTEL_BATCH_SPANS);
	wait_for_counter(r, METRIC_otel_requests_failed, 1);
	peer_says(&r->peer, ANSWER("200 OK", ""), false);
	clock_step(59000000);
	(void)ev_loop_run_until(r->loop, &never, 20);
	assert_int_equal(r->peer.requests, 1);
	clock_step(1000001);
	wait_for_counter(r, METRIC_otel_spans_sent, OTEL_BATCH_SPANS);
	assert_int_equal(r->peer.requests, 2);
}

/* What is no answer of OTLP is a batch that nobody knows of; it is not sent twice. */
static void one_that_lies_costs_a_batch(void **state)
{
	static const char *const answers[] = {
		"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", "HTTP/1.1 200 OK\r\nContent-Length: 65537\r\n\r\n",
		ANSWER("400 Bad", ""), ANSWER("302 There", "Location: http://127.0.0.1:1/\r\n"),
	};
	struct rig *r = *state;
	struct str said = STR_INIT;

	for (unsigned i = 0; i < NELEMS(answers); i++) {
		struct str text = STR_INIT;

		str_puts(&text, answers[i]);
		for (size_t n = 0; strstr(answers[i], "65537") && n < 65537; n++)
			str_putc(&text, 'x');
		peer_says(&r->peer, str_text(&text), false);
		send_many(r, OTEL_BATCH_SPANS);
		wait_for_counter(r, METRIC_otel_spans_lost, (i + 1) * OTEL_BATCH_SPANS);
		assert_int_equal(r->peer.requests, i + 1);
		assert_int_equal(metric_get(METRIC_otel_requests_failed), i + 1);
		str_fini(&text);
	}
	otel_describe(r->o, &said);
	assert_non_null(strstr(str_text(&said), "not taken now: it answers with status 302"));
	peer_says(&r->peer, ANSWER("200 OK", ""), false);
	send_many(r, OTEL_BATCH_SPANS);
	wait_for_counter(r, METRIC_otel_spans_sent, OTEL_BATCH_SPANS);
	str_reset(&said);
	otel_describe(r->o, &said);
	assert_null(strstr(str_text(&said), "not taken"));
	str_fini(&said);
}

/* OP-006, SEC S-705: although its address is named. */
static void no_listener_of_ours_is_the_collector(void **state)
{
	struct rig *r = *state;
	char own[32];

	(void)snprintf(own, sizeof(own), "127.0.0.1:%u", r->peer.port);
	fetcher_own(r->fetcher, own);
	send_many(r, OTEL_BATCH_SPANS);
	wait_for_counter(r, METRIC_otel_requests_failed, 1);
	assert_int_equal(r->peer.requests, 0);
	assert_int_equal(metric_get(METRIC_otel_spans_waiting), OTEL_BATCH_SPANS);
}

SINGLE_THREAD_SUITE(otel_span)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(what_goes_on_has_the_span_as_its_parent),
		TEST(each_tenant_has_a_share_of_its_own),
		TEST(what_nobody_samples_is_sent_when_it_fails_or_is_slow_within_the_share),
		TEST(the_share_of_traces_that_begin_here_is_about_as_many),
		TEST(attributes_and_events_have_a_bound),
		TEST(so_many_wait_and_one_more_is_dropped),
		TEST(a_batch_leaves_when_it_is_full_or_old),
		TEST(a_batch_is_given_up_behind_its_time),
		TEST(a_collector_that_says_when_is_asked_then),
		TEST(one_that_lies_costs_a_batch),
		TEST(no_listener_of_ours_is_the_collector),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
