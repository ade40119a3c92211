/* The HTTP way in: answers, how they turn into streams, and streams of their own. */

#include "config.h"

#include "http_ask.h"

#include <stdio.h>

#include "base/clock.h"
#include "suite.h"

/* --- answers */

static void answers_carry_what_the_core_says(void **state)
{
	assert_int_equal(ask(ASK()), 200);
	assert_true(head_has("Content-Type: application/json"));
	assert_string_equal(body(), "1 new acme");
	assert_int_equal(ask(ASK(.body = "quiet 1 new")), 202);
	assert_true(head_has("Content-Length: 0"));             /* MCP B-53 */
	assert_null(strstr(peer->head, "Content-Type"));
	assert_int_equal(ask(ASK(.body = "session 1 old")), 200);
	assert_true(head_has("Mcp-Session-Id: " FAKE_SESSION));
	assert_int_equal(ask(ASK(.body = "status 1 new 404")), 404);
	assert_string_equal(body(), "1 new acme");
	assert_int_equal(ask(ASK(.body = "status 1 new 429")), 429);
	assert_true(head_has("Retry-After: 7"));
	assert_int_equal(ask(ASK(.body = "deny 1 new")), 401);
	assert_true(head_has("WWW-Authenticate: Bearer realm=\"toolcrib\""));
	assert_int_equal(rig.npeers, 1);                        /* all on one connection */
}

/* MCP H-06 */
static void first_notice_turns_the_answer_into_a_stream(void **state)
{
	assert_int_equal(ask(ASK(.body = "notes 1 new 2")), 200);
	assert_true(head_has("Content-Type: text/event-stream"));
	assert_true(head_has("Cache-Control: no-store"));
	assert_true(head_has("X-Accel-Buffering: no"));         /* MCP H-40 */
	tr_expect(peer, "note 1 acme 0");
	tr_expect(peer, "note 1 acme 1");
	tr_expect(peer, "1 new acme");
	assert_int_equal(peer->comments, 0);
}

static void body_is_taken_up_to_its_limit(void **state)
{
	char *text = mem_alloc(TRANSPORT_MESSAGE_MAX + 2);

	memset(text, ' ', TRANSPORT_MESSAGE_MAX + 1);
	memcpy(text, "now 1 new", 9);
	text[TRANSPORT_MESSAGE_MAX] = '\0';
	assert_int_equal(ask(ASK(.body = text)), 200);
	assert_int_equal(fake_last(rig.srv)->len, TRANSPORT_MESSAGE_MAX);
	text[TRANSPORT_MESSAGE_MAX] = ' ';
	text[TRANSPORT_MESSAGE_MAX + 1] = '\0';
	assert_int_equal(ask(ASK(.body = text)), 413);
	assert_int_equal(rig.srv->nseen, 1);
	free(text);
}

/* --- time */

static void step(unsigned seconds)
{
	clock_step(seconds * SECOND_US);
	tr_settle(&rig);
}

/* MCP B-39 */
static void late_answer_becomes_a_stream(void **state)
{
	send_ask(ASK(.body = "later 1 new"));
	TR_WAIT(&rig, rig.srv->nseen == 1);
	step(5);
	step(4);
	assert_int_equal(peer->heads, 0);
	step(6);
	assert_int_equal(peer->heads, 1);
	assert_int_equal(peer->status, 200);
	assert_true(head_has("Content-Type: text/event-stream"));
	assert_int_equal(peer->comments, 1);
	fake_finish(rig.srv, "1", "acme");
	tr_expect(peer, "1 new acme");
	TR_WAIT(&rig, peer->replies == 1);
}

static void late_answer_stays_json_where_no_stream_is_accepted(void **state)
{
	send_ask(ASK(.body = "later 1 new", .more = "Accept: application/json\r\n"));
	TR_WAIT(&rig, rig.srv->nseen == 1);
	for (unsigned i = 0; i < 12; i++)
		step(5);
	assert_int_equal(peer->heads, 0);
	fake_finish(rig.srv, "1", "acme");
	TR_WAIT(&rig, peer->replies == 1);
	assert_true(head_has("Content-Type: application/json"));
}

/* The time begins with the message, not with a head whose body comes slowly. */
static void slow_body_is_no_late_answer(void **state)
{
	send_ask(ASK(.body = NONE, .more = HTTP_ACCEPT "Content-Length: 11\r\n"));
	tr_settle(&rig);
	for (unsigned i = 0; i < 7; i++)
		step(2);
	tr_rawz(peer, "later 1 new");
	TR_WAIT(&rig, rig.srv->nseen == 1);
	step(5);
	assert_int_equal(peer->heads, 0);
	fake_finish(rig.srv, "1", "acme");
	TR_WAIT(&rig, peer->replies == 1);
	assert_true(head_has("Content-Type: application/json"));
}

/* MCP N-12, H-40 */
static void quiet_streams_get_comments(void **state)
{
	send_ask(ASK(.body = "later 1 new"));
	TR_WAIT(&rig, rig.srv->nseen == 1);
	fake_notice(rig.srv, "1", "acme");
	tr_expect(peer, "note 1 acme 0");
	for (unsigned i = 0; i < 2; i++)
		step(5);
	assert_int_equal(peer->comments, 0);
	step(5);
	assert_int_equal(peer->comments, 1);
	step(5);
	step(5);
	fake_notice(rig.srv, "1", "acme");      /* not quiet */
	step(5);
	assert_int_equal(peer->comments, 1);
	step(5);
	step(5);
	assert_int_equal(peer->comments, 2);
	tr_expect(peer, "note 1 acme 0");
	fake_finish(rig.srv, "1", "acme");
	tr_expect(peer, "1 new acme");
}

/* --- the stream of a session (MCP B-25) */

static struct tr_peer *get_stream(void)
{
	struct tr_peer *p;

	peer = NULL;
	send_ask(SESSION_ASK());
	p = peer;
	TR_WAIT(&rig, p->comments == 1);        /* the head is not held back */
	assert_int_equal(p->status, 200);
	return p;
}

/* MCP H-15 */
static void get_is_the_one_stream_of_its_session(void **state)
{
	struct tr_peer *a = get_stream(), *b;

	assert_true(head_has("Content-Type: text/event-stream"));
	rig.srv->stream_ops->push(rig.srv->stream_peer, "one", 3);
	tr_expect(a, "one");
	b = get_stream();
	TR_WAIT(&rig, a->replies == 1);         /* the older one ends */
	assert_int_equal(rig.srv->streams_gone, 0);
	rig.srv->stream_ops->push(rig.srv->stream_peer, "two", 3);
	tr_expect(b, "two");
	step(20);                               /* and is not looked at any more */
	tr_nothing(a);
	peer = a;                               /* its connection is as good as new */
	assert_int_equal(ask(ASK()), 200);
	tr_vanish(&b);
	TR_WAIT(&rig, rig.srv->streams_gone == 1);
	(void)get_stream();
	assert_int_equal(rig.srv->streams, 3);
}

static void get_stream_is_kept_alive(void **state)
{
	struct tr_peer *p = get_stream();

	for (unsigned i = 0; i < 6; i++)
		step(5);
	assert_int_equal(p->comments, 3);
}

static void comments_do_not_queue_behind_what_is_not_read(void **state)
{
	struct tr_peer *p = get_stream();
	char *text = mem_alloc(FAKE_FLOOD_BYTES);
	unsigned n = 0;

	memset(text, 'p', FAKE_FLOOD_BYTES);
	tr_read(p, false);
	for (; rig.srv->stream_ops->queued(rig.srv->stream_peer) == 0; n++) {
		rig.srv->stream_ops->push(rig.srv->stream_peer, text, FAKE_FLOOD_BYTES);
		tr_settle(&rig);
	}
	free(text);
	for (unsigned i = 0; i < 4; i++)
		step(5);
	tr_read(p, true);
	while (n-- > 0)
		(void)tr_next(p);
	tr_nothing(p);
	assert_int_equal(p->comments, 1);
}

/* MCP H-15 */
static void get_and_delete_need_their_session(void **state)
{
	static const char *const methods[] = { "GET", "DELETE" };

	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(ask(SESSION_ASK(.method = methods[i], .more = "")), 405);
		assert_true(head_has("Allow: POST, GET, DELETE"));
		assert_int_equal(ask(SESSION_ASK(.method = methods[i], .more = "Mcp-Session-Id: unknown\r\n")), 404);
		assert_string_equal(body(), "no such session\n");
		assert_int_equal(ask(SESSION_ASK(.method = methods[i], .key = rig.other.text)), 404);
		assert_string_equal(body(), "no such session\n");
	}
	assert_int_equal(ask(SESSION_ASK(.more = "Accept: application/json\r\nMcp-Session-Id: " FAKE_SESSION "\r\n")), 406);
	assert_int_equal(rig.srv->streams + rig.srv->sessions_ended, 0);
}

static void delete_ends_the_session_and_its_stream(void **state)
{
	struct tr_peer *p = get_stream();

	peer = NULL;
	assert_int_equal(ask(SESSION_ASK(.method = "DELETE")), 204);
	assert_null(strstr(peer->head, "Content-"));
	TR_WAIT(&rig, p->replies == 1);
	assert_int_equal(rig.srv->sessions_ended, 1);
	assert_int_equal(ask(SESSION_ASK(.method = "DELETE")), 404);
	assert_int_equal(ask(SESSION_ASK()), 404);
}

/* MCP B-24: a reader that has gone is noticed while its stream is quiet, and the slow one loses its stream only. */
static void slow_get_stream_is_ended(void **state)
{
	struct tr_peer *p = get_stream();
	char *text = mem_alloc(FAKE_FLOOD_BYTES);

	memset(text, 'p', FAKE_FLOOD_BYTES);
	tr_read(p, false);
	for (unsigned i = 0; i < 1000 && rig.srv->stream_ops; i++) {
		rig.srv->stream_ops->push(rig.srv->stream_peer, text, FAKE_FLOOD_BYTES);
		tr_turn(&rig);
	}
	assert_null(rig.srv->stream_ops);
	assert_int_equal(rig.srv->streams_gone, 1);
	free(text);
	tr_read(p, true);
	tr_ended(p);
}

/* --- HTTP+SSE of 2024-11-05 (MCP O-01 to O-05) */

static void endpoint_belongs_to_one_stream_and_its_principal(void **state)
{
	struct tr_peer *a, *b;
	char longer[80];

	tr_listen(&rig);
	rig.sse = true;
	a = tr_dial(&rig, "acme");
	b = tr_dial(&rig, "acme");
	rig.sse = false;
	assert_string_not_equal(a->endpoint, b->endpoint);
	assert_int_equal(ask(ASK(.target = a->endpoint, .body = "now 1 old")), 202);
	assert_string_equal(body(), "Accepted\n");
	tr_expect(a, "1 old acme");
	tr_nothing(b);
	assert_int_equal(ask(ASK(.target = a->endpoint, .key = NONE)), 401);
	assert_int_equal(ask(ASK(.target = a->endpoint, .key = rig.other.text)), 404);
	assert_int_equal(ask(ASK(.target = a->endpoint, .type = "text/plain")), 415);
	(void)snprintf(longer, sizeof longer, "%sx", a->endpoint);
	assert_int_equal(ask(ASK(.target = longer)), 404);
	assert_int_equal(ask(ASK(.target = "/messages?s=")), 404);
	assert_int_equal(ask(ASK(.target = "/messages?")), 404);
	(void)snprintf(longer, sizeof longer, "%s", a->endpoint);
	tr_hang_up(&a);
	TR_WAIT(&rig, rig.srv->channels_closed == 1);
	assert_int_equal(ask(ASK(.target = longer)), 404);
	assert_int_equal(ask(ASK(.target = b->endpoint, .body = "stop 2 old")), 202);
	tr_expect(b, "2 old acme");
	TR_WAIT(&rig, b->replies == 1);
	assert_int_equal(ask(ASK(.target = b->endpoint)), 404);
	assert_int_equal(rig.srv->nseen, 2);
}

SINGLE_THREAD_SUITE(http_answers)
{
	const struct CMUnitTest tests[] = {
		T(answers_carry_what_the_core_says), T(first_notice_turns_the_answer_into_a_stream),
		T(body_is_taken_up_to_its_limit), FROZEN(late_answer_becomes_a_stream),
		FROZEN(late_answer_stays_json_where_no_stream_is_accepted),
		FROZEN(slow_body_is_no_late_answer), FROZEN(quiet_streams_get_comments),
		FROZEN(get_is_the_one_stream_of_its_session), FROZEN(get_stream_is_kept_alive),
		FROZEN(comments_do_not_queue_behind_what_is_not_read), T(get_and_delete_need_their_session),
		T(delete_ends_the_session_and_its_stream), T(slow_get_stream_is_ended),
		T(endpoint_belongs_to_one_stream_and_its_principal),
	};

	return cmocka_run_group_tests_name("transport_http_answers", tests, tr_store_open, tr_store_close);
}
