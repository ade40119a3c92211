/* The contract of a way in, one body for all members: messages reach the core in order, each with its principal; each
 * answer goes once to the peer that asked; a slow, silent or vanished peer costs nobody else anything, and whatever
 * it leaves behind ends exactly once. */

#include "config.h"

#include "fake_mcp.h"
#include "tr_rig.h"

#include <stdio.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/metric.h"
#include "ev/ev.h"
#include "suite.h"

struct member {
	const char *name;
	int tport;
	bool due;                       /* a credential line */
	bool channel;                   /* answers leave as they come */
	bool drains;                    /* behind the end of input what runs gets its time */
};

static const struct member members[] = {
	{ "http", AUDIT_HTTP, false, false, false },
	{ "sse", AUDIT_HTTP, false, true, false },
	{ "tcp", AUDIT_TCP, true, true, true },
	{ "unix", AUDIT_UNIX, true, true, true },
	{ "stdio", AUDIT_STDIO, false, true, true },
};

static struct tr_rig rig;
static uint64_t open_before;

static const struct member *begin_with(void **state, uint32_t drain_ms)
{
	const struct member *m = *state;

	open_before = metric_get(METRIC_connections_open);
	tr_open(&rig, m->name);
	rig.env.drain_ms = drain_ms;
	tr_listen(&rig);
	return m;
}

static const struct member *begin(void **state)
{
	return begin_with(state, TR_DRAIN_MS);
}

static void end(void)
{
	tr_close(&rig);
	assert_int_equal(metric_get(METRIC_connections_open), open_before);
}

static size_t held(void)
{
	size_t n = 0;

	LIST_FOREACH(node, &rig.srv->open)
		n++;
	return n;
}

/* Messages whose sender has left. */
static unsigned unanswered(const struct member *m)
{
	return m->channel ? rig.srv->cancelled : rig.srv->gone;
}

/* --- order, and one end each */

static void messages_reach_the_core_in_order(void **state)
{
	const struct member *m = begin(state);
	struct tr_peer *p = tr_dial(&rig, "acme");
	struct str all = STR_INIT;
	char text[64];

	for (int i = 0; i < 15; i++) {
		(void)snprintf(text, sizeof text, "now %d old", i);
		tr_frame(p, text, &all);
	}
	tr_raw(p, all.p, all.len);
	for (int i = 0; i < 15; i++) {
		(void)snprintf(text, sizeof text, "%d old acme", i);
		tr_expect(p, text);
		(void)snprintf(text, sizeof text, "now %d old", i);
		assert_string_equal(rig.srv->seen[i].text, text);
		assert_int_equal(rig.srv->seen[i].tport, m->tport);
		assert_int_equal(rig.srv->seen[i].http, !m->channel);
	}
	tr_nothing(p);
	str_fini(&all);
	end();
}

static void messages_in_single_bytes_are_the_same(void **state)
{
	(void)begin(state);
	struct tr_peer *p = tr_dial(&rig, "acme");
	struct str all = STR_INIT;

	tr_frame(p, "now 1 old", &all);
	tr_frame(p, "now 2 old", &all);
	for (size_t i = 0; i < all.len; i++) {
		tr_raw(p, all.p + i, 1);
		bool never = false;

		(void)ev_loop_run_until(rig.loop, &never, 0);   /* read before the next is sent */
	}
	tr_expect(p, "1 old acme");
	tr_expect(p, "2 old acme");
	assert_int_equal(rig.srv->nseen, 2);
	str_fini(&all);
	end();
}

static void each_message_has_one_end(void **state)
{
	const struct member *m = begin(state);
	struct tr_peer *p = tr_dial(&rig, "acme");

	tr_say(p, "later 1 old");
	tr_say(p, "quiet 2 old");
	tr_say(p, "now 3 new");
	tr_say(p, "later 4 new");
	TR_WAIT(&rig, rig.srv->nseen == 4 && rig.srv->finished == 2);
	if (m->channel)
		tr_expect(p, "3 new acme");
	tr_nothing(p);
	fake_finish(rig.srv, "4", "acme");
	if (m->channel)
		tr_expect(p, "4 new acme");
	tr_nothing(p);
	fake_finish(rig.srv, "1", "acme");
	tr_expect(p, "1 old acme");
	if (!m->channel) {                /* answers wait for those before them */
		tr_expect(p, "3 new acme");
		tr_expect(p, "4 new acme");
		assert_int_equal(p->replies, 4);
	}
	tr_nothing(p);
	assert_int_equal(rig.srv->finished, 4);
	end();
}

static void notices_come_before_their_answer(void **state)
{
	(void)begin(state);
	struct tr_peer *p = tr_dial(&rig, "acme");

	tr_say(p, "notes 1 new 3");
	for (int i = 0; i < 3; i++) {
		char want[32];

		(void)snprintf(want, sizeof want, "note 1 acme %d", i);
		tr_expect(p, want);
	}
	tr_expect(p, "1 new acme");
	tr_say(p, "now 2 new");         /* the connection goes on */
	tr_expect(p, "2 new acme");
	tr_nothing(p);
	end();
}

static void eras_are_interleaved_on_one_connection(void **state)
{
	(void)begin(state);
	struct tr_peer *p = tr_dial(&rig, "acme");
	char text[64];

	for (int i = 0; i < 40; i++) {
		const char *era = i % 2 ? "new" : "old";

		(void)snprintf(text, sizeof text, "%s %d %s 2", i % 3 ? "now" : "notes", i, era);
		tr_say(p, text);
		for (int k = 0; k < 2 && i % 3 == 0; k++) {
			(void)snprintf(text, sizeof text, "note %d acme %d", i, k);
			tr_expect(p, text);
		}
		(void)snprintf(text, sizeof text, "%d %s acme", i, era);
		tr_expect(p, text);
	}
	tr_nothing(p);
	end();
}

/* SEC S-B01 */
static void equal_ids_of_two_tenants_do_not_cross(void **state)
{
	(void)begin(state);
	struct tr_peer *a = tr_dial(&rig, "acme"), *b = tr_dial(&rig, "other"), *c = tr_dial(&rig, "acme");

	tr_say(a, "later 1 old");
	tr_say(b, "later 1 old");
	TR_WAIT(&rig, rig.srv->nseen == 2);
	tr_say(c, "now 1 new");
	tr_expect(c, "1 new acme");
	fake_notice(rig.srv, "1", "other");
	fake_finish(rig.srv, "1", "other");
	tr_expect(b, "note 1 other 0");
	tr_expect(b, "1 old other");
	tr_nothing(a);
	fake_finish(rig.srv, "1", "acme");
	tr_expect(a, "1 old acme");
	tr_nothing(a);
	tr_nothing(b);
	tr_nothing(c);
	end();
}

/* --- slow readers (SEC S-830, MCP B-40) */

#define BIG (200u << 10)

static void slow_reader_stops_being_read_and_loses_no_answer(void **state)
{
	(void)begin(state);
	struct tr_peer *p = tr_dial(&rig, "acme"), *other = tr_dial(&rig, "other");
	size_t n = 0;

	tr_read(p, false);
	/* Ask until no more is taken; well below what buffers of all kinds could hold. */
	for (size_t before = SIZE_MAX; n < 200 && rig.srv->nseen != before; n++) {
		char text[64];

		before = rig.srv->nseen;
		(void)snprintf(text, sizeof text, "big %zu old %u", n, BIG);
		tr_say(p, text);
		tr_settle(&rig);
	}
	assert_true(n < 200);
	tr_say(other, "now 1 old");     /* nobody else waits */
	tr_expect(other, "1 old other");
	if (rig.sse) {                  /* its POST cannot wait: it is refused */
		n = rig.srv->nseen - 1;
		assert_int_equal(p->door->status, 503);
	}
	tr_read(p, true);
	for (size_t i = 0; i < n; i++) {
		const struct tr_text *t = tr_next(p);
		char want[64];
		int head = snprintf(want, sizeof want, "%zu old acmexxx", i);

		assert_int_equal(t->len, (size_t)head - 3 + BIG);
		assert_memory_equal(t->p, want, (size_t)head);
	}
	tr_nothing(p);
	end();
}

static void notices_that_nobody_reads_end_the_connection(void **state)
{
	const struct member *m = begin(state);
	struct tr_peer *p = tr_dial(&rig, "acme"), *other = tr_dial(&rig, "other");
	uint64_t before = metric_get(METRIC_output_overflow_closed);

	tr_read(p, false);
	tr_say(p, "flood 1 new 400");   /* 25 MiB: more than any socket's buffer and ours */
	TR_WAIT(&rig, rig.srv->nseen == 1 && held() == 0);
	assert_int_equal(rig.srv->finished, 0);
	assert_int_equal(unanswered(m), 1);
	assert_int_equal(metric_get(METRIC_output_overflow_closed), before + 1);
	tr_read(p, true);
	tr_ended(p);
	tr_say(other, "now 1 old");
	tr_expect(other, "1 old other");
	end();
}

static void answer_larger_than_the_queue_arrives_behind_a_notice(void **state)
{
	(void)begin(state);
	struct tr_peer *p = tr_dial(&rig, "acme");

	tr_say(p, "big 1 new 8000000");
	assert_int_equal(tr_next(p)->len, 8000000 + strlen("1 new acme"));
	tr_say(p, "later 2 new");
	TR_WAIT(&rig, rig.srv->nseen == 2);
	fake_notice(rig.srv, "2", "acme");
	tr_expect(p, "note 2 acme 0");
	fake_finish_big(rig.srv, "2", "acme", 8000000);
	assert_int_equal(tr_next(p)->len, 8000000 + strlen("2 new acme"));
	end();
}

/* --- the end of input in every state (MCP B-24, B-56) */

static void end_of_input_before_a_message_closes(void **state)
{
	const struct member *m = begin(state);
	struct tr_peer *silent = tr_dial(&rig, m->due ? NULL : "acme"), *known = tr_dial(&rig, "acme");
	struct tr_peer *half = tr_dial(&rig, "acme");

	tr_end_input(silent);
	tr_end_input(known);
	tr_raw(half, "POST", 4);        /* of a head, or of a line: dropped */
	tr_end_input(half);
	tr_ended(silent);
	tr_ended(known);
	tr_ended(half);
	assert_int_equal(rig.srv->nseen, 0);
	if (rig.ops)
		TR_WAIT(&rig, rig.ops->live(rig.t) == 0);
	else
		assert_int_equal(rig.stdio_ended, 3);
	end();
}

static void end_of_input_behind_an_answer_closes(void **state)
{
	(void)begin(state);
	struct tr_peer *p = tr_dial(&rig, "acme");

	tr_say(p, "now 1 old");
	tr_expect(p, "1 old acme");
	tr_end_input(p);
	tr_ended(p);
	tr_nothing(p);
	end();
}

/* On a byte stream what runs gets its time; on HTTP the caller has left. */
static void end_of_input_during_a_call(void **state)
{
	const struct member *m = begin_with(state, TR_WAIT_MS);        /* longer than a busy machine sleeps */
	struct tr_peer *p = tr_dial(&rig, "acme");

	tr_say(p, "later 1 old");
	TR_WAIT(&rig, rig.srv->nseen == 1);
	tr_end_input(p);
	TR_WAIT(&rig, m->drains ? rig.srv->eofs == 1 : unanswered(m) == 1);
	if (m->drains) {
		fake_finish(rig.srv, "1", "acme");
		tr_expect(p, "1 old acme");
	}
	tr_ended(p);
	tr_nothing(p);
	assert_int_equal(held(), 0);
	end();
}

static void message_and_end_of_input_in_one_piece(void **state)
{
	const struct member *m = begin(state);
	struct tr_peer *p = tr_dial(&rig, "acme");

	tr_say(p, "now 1 old");
	tr_end_input(p);
	tr_ended(p);
	if (m->drains)
		tr_expect(p, "1 old acme");
	assert_true(rig.srv->nseen == 1 || rig.sse);    /* there each has a connection of its own */
	assert_int_equal(held(), 0);
	end();
}

static void drain_is_bounded(void **state)
{
	const struct member *m = begin(state);
	struct tr_peer *p = tr_dial(&rig, "acme");

	tr_say(p, "never 1 old");
	TR_WAIT(&rig, rig.srv->nseen == 1);
	tr_end_input(p);
	tr_ended(p);
	assert_int_equal(unanswered(m), 1);
	tr_nothing(p);
	end();
}

/* All that was answered is written before the end, however slowly it is read: a little beyond what descriptors hold,
 * where the end of input is seen at once, and so much that reading pauses before it. */
static void end_of_input_waits_for_a_slow_reader(void **state)
{
	static const size_t sizes[] = { 200u << 10, 8000000 };
	const struct member *m = begin(state);

	for (size_t i = 0; m->drains && i < NELEMS(sizes); i++) {
		struct tr_peer *p = tr_dial(&rig, "acme");
		char text[64];

		tr_read(p, false);
		(void)snprintf(text, sizeof text, "big 1 old %zu", sizes[i]);
		tr_say(p, text);
		tr_end_input(p);
		TR_WAIT(&rig, rig.srv->finished == i + 1);
		tr_settle(&rig);
		assert_int_equal(rig.stdio_ended, rig.ops ? 0 : i);
		tr_read(p, true);
		assert_int_equal(tr_next(p)->len, sizes[i] + strlen("1 old acme"));
		tr_ended(p);
		TR_WAIT(&rig, rig.stdio_ended == (rig.ops ? 0 : i + 1));
	}
	end();
}

/* --- peers that vanish */

static void vanish_with(const struct member *m, const char *message, bool notices)
{
	struct tr_peer *p = tr_dial(&rig, "acme"), *other = tr_dial(&rig, "other");
	unsigned before = unanswered(m);
	size_t seen = rig.srv->nseen;

	tr_say(p, message);
	TR_WAIT(&rig, rig.srv->nseen == seen + 1);
	if (notices) {
		fake_notice(rig.srv, "1", "acme");
		tr_expect(p, "note 1 acme 0");
	}
	tr_vanish(&p);
	TR_WAIT(&rig, unanswered(m) == before + 1);
	assert_int_equal(held(), 0);
	tr_say(other, "now 1 old");
	tr_expect(other, "1 old other");
}

static void peer_that_vanishes_ends_its_call_once(void **state)
{
	const struct member *m = begin(state);

	vanish_with(m, "later 1 old", false);
	vanish_with(m, "never 1 new", false);
	vanish_with(m, "later 1 new", true);
	assert_int_equal(rig.srv->finished, 3);
	end();
}

static void peer_that_vanishes_before_it_is_known(void **state)
{
	const struct member *m = begin(state);
	struct tr_peer *p = tr_dial(&rig, m->due ? NULL : "acme");

	tr_raw(p, "Auth", 4);
	tr_settle(&rig);
	tr_vanish(&p);
	if (rig.ops)
		TR_WAIT(&rig, rig.ops->live(rig.t) == 0);
	else
		TR_WAIT(&rig, rig.stdio_ended == 1);
	assert_int_equal(rig.srv->nseen, 0);
	end();
}

/* --- stop */

static void close_ends_everything_at_once(void **state)
{
	const struct member *m = begin(state);
	struct tr_peer *p = tr_dial(&rig, "acme"), *q = tr_dial(&rig, "other");

	(void)tr_dial(&rig, "acme");
	tr_say(p, "later 1 old");
	tr_say(q, "later 1 new");
	TR_WAIT(&rig, rig.srv->nseen == 2);
	fake_notice(rig.srv, "1", "other");
	tr_expect(q, "note 1 other 0");
	if (rig.ops)
		rig.ops->close(&rig.t);
	for (size_t i = 0; i < rig.npeers; i++)
		tr_stdio_close(&rig.peers[i]->stdio);
	assert_null(rig.t);
	tr_ended(p);
	tr_ended(q);
	assert_int_equal(unanswered(m), 2);
	assert_int_equal(rig.srv->finished, 0);
	assert_int_equal(rig.stdio_ended, 0);   /* whoever closes knows */
	end();
}

static void pause_lets_running_calls_end(void **state)
{
	const struct member *m = begin(state);
	struct tr_peer *p, *idle, *unknown;

	if (!rig.ops) {
		end();
		return;
	}
	p = tr_dial(&rig, "acme");
	idle = tr_dial(&rig, "acme");
	unknown = tr_dial(&rig, NULL);
	tr_say(p, "later 1 old");
	TR_WAIT(&rig, rig.srv->nseen == 1 && rig.ops->live(rig.t) == (rig.sse ? 5 : 3));
	rig.ops->drain(rig.t);
	tr_ended(unknown);              /* nothing of it can be under way */
	if (!m->channel)
		tr_ended(idle);
	fake_finish(rig.srv, "1", "acme");
	tr_expect(p, "1 old acme");
	if (!m->channel)
		tr_ended(p);
	end();
}

SINGLE_THREAD_SUITE(contract)
{
	static const struct { const char *name; CMUnitTestFunction fn; } tests[] = {
#define T(fn) { #fn, fn }
		T(messages_reach_the_core_in_order), T(messages_in_single_bytes_are_the_same),
		T(each_message_has_one_end), T(notices_come_before_their_answer),
		T(eras_are_interleaved_on_one_connection), T(equal_ids_of_two_tenants_do_not_cross),
		T(slow_reader_stops_being_read_and_loses_no_answer), T(notices_that_nobody_reads_end_the_connection),
		T(answer_larger_than_the_queue_arrives_behind_a_notice), T(end_of_input_before_a_message_closes),
		T(end_of_input_behind_an_answer_closes), T(end_of_input_during_a_call),
		T(message_and_end_of_input_in_one_piece), T(drain_is_bounded), T(end_of_input_waits_for_a_slow_reader),
		T(peer_that_vanishes_ends_its_call_once), T(peer_that_vanishes_before_it_is_known),
		T(close_ends_everything_at_once), T(pause_lets_running_calls_end),
#undef T
	};
	enum { TESTS = NELEMS(tests), MEMBERS = NELEMS(members) };
	static char names[TESTS * MEMBERS][96];
	struct CMUnitTest rows[TESTS * MEMBERS];

	for (size_t i = 0; i < TESTS * MEMBERS; i++) {
		const struct member *m = &members[i / TESTS];

		(void)snprintf(names[i], sizeof names[i], "%s: %s", m->name, tests[i % TESTS].name);
		rows[i] = (struct CMUnitTest){ .name = names[i], .test_func = tests[i % TESTS].fn,
					       .initial_state = (void *)(uintptr_t)m };
	}
	return cmocka_run_group_tests_name("transport", rows, tr_store_open, tr_store_close);
}
