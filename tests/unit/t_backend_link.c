/* Links to upstreams: every bound and every wait of calls, without a server and without waiting. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/metric.h"
#include "link_rig.h"
#include "suite.h"

/* MCP V-07 */
static void silence_after_a_probe_means_an_older_server(void **state)
{
	begin(false, LINK_ERA_UNKNOWN);
	assert_true(sent("server/discover"));
	step(LINK_PROBE_MS * 1000 - 1);
	assert_false(sent("initialize"));
	step(1);
	assert_true(sent("\"method\":\"initialize\""));
	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"protocolVersion\":\"2024-11-05\",\"capabilities\":{\"tools\":{}}}}");
	assert_true(sent("tools/list"));
	finish();
}

static void late_answer_to_the_probe_still_counts(void **state)
{
	begin(false, LINK_ERA_UNKNOWN);
	step(LINK_PROBE_MS * 1000);
	say("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"tools\":{}}}}");
	assert_int_equal(link_status(f.link).era, LINK_ERA_MODERN);
	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{}}}");
	assert_int_equal(link_status(f.link).era, LINK_ERA_MODERN);
	assert_false(f.dead);
	finish();
}

static void discover_may_offer_older_revisions_alone(void **state)
{
	begin(false, LINK_ERA_UNKNOWN);
	say("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"supportedVersions\":[\"2025-06-18\"],\"capabilities\":{}}}");
	assert_true(sent("\"method\":\"initialize\""));
	assert_false(f.dead);
	finish();
}

static void server_that_never_answers_is_given_up(void **state)
{
	struct call c;

	begin(false, LINK_ERA_LEGACY);
	call(&c);
	step(LINK_START_MS * UINT64_C(1000) - 1);
	assert_false(f.dead);
	step(1);
	assert_true(f.dead);
	assert_int_equal(c.ends, 1);
	assert_string_equal(c.text, "it did not answer within 60 s");
	finish();
}

static void call_before_the_handshake_waits_for_it(void **state)
{
	struct call c;

	begin(false, LINK_ERA_LEGACY);
	call(&c);
	assert_false(sent("tools/call"));
	say(INITIALIZED);
	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"tools\":[" TOOL "]}}");
	assert_true(sent("\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\",\"arguments\":{},\"_meta\":{\"progressToken\":3}}"));
	say("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"content\":[]}}");
	assert_string_equal(c.text, "{\"content\":[]}");
	finish();
}

/* MCP C-02 */
static void late_answer_of_a_cancelled_call_is_dropped(void **state)
{
	struct call c;

	begin_ready(false);
	call(&c);
	link_call_cancel(&c.call, false);
	assert_true(sent("\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":3}"));
	say("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"content\":[]}}");
	assert_int_equal(c.ends, 0);
	assert_false(f.dead);
	finish();
}

/* SEC S-740 */
static void tool_with_another_digest_is_not_called(void **state)
{
	const uint8_t other[32] = { 1 };
	struct call c;
	struct err err;

	begin_ready(false);
	unsigned changed = f.changed;
	assert_int_equal(try_call(&c, other, &err), 0);
	fake_turn(&f);
	assert_false(sent("tools/call"));
	assert_non_null(strstr(c.text, "is not what was accepted"));
	assert_int_equal(f.changed, changed + 1);
	finish();
}

static void calls_of_a_link_are_bounded(void **state)
{
	struct call *calls = mem_calloc(LINK_CALLS_MAX + 1, sizeof(*calls));
	struct err err;

	begin_ready(false);
	for (unsigned i = 0; i < LINK_CALLS_MAX; i++)
		assert_int_equal(try_call(&calls[i], NULL, &err), 0);
	assert_int_equal(try_call(&calls[LINK_CALLS_MAX], NULL, &err), ERR_TOOL);
	assert_string_equal(err.msg, "more than 256 calls run there already");
	fake_turn(&f);
	link_call_cancel(&calls[0].call, false);
	assert_int_equal(try_call(&calls[LINK_CALLS_MAX], NULL, &err), 0);
	finish();
	for (unsigned i = 1; i <= LINK_CALLS_MAX; i++)
		assert_int_equal(calls[i].ends, 1);
	free(calls);
}

static void nothing_is_sent_to_a_wire_that_is_full(void **state)
{
	struct call c;

	begin_ready(false);
	f.full = true;
	call(&c);
	assert_false(sent("tools/call"));
	f.full = false;
	link_drained(f.link);
	fake_turn(&f);
	assert_true(sent("tools/call"));
	finish();
}

/* On the stream of a request. */
static void say_on(uint64_t exchange, const char *text)
{
	(void)link_message(f.link, exchange, text, strlen(text));
	fake_turn(&f);
}

#define QUESTION_ONE "{\"jsonrpc\":\"2.0\",\"id\":\"q1\",\"method\":\"elicitation/create\",\"params\":{\"message\":\"m\"}}"
#define LOG_LINE "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"error\",\"data\":\"x\"}}"
#define QUESTION "{\"jsonrpc\":\"2.0\",\"id\":\"q%u\",\"method\":\"elicitation/create\",\"params\":{\"message\":\"m\"}}"

static void question_that_is_not_answered_in_time_is_refused(void **state)
{
	struct call c;

	begin_ready(true);
	call(&c);
	say_id(QUESTION, 1);
	assert_true(c.asked);
	step(LINK_PARK_MS * UINT64_C(1000) - 1);
	assert_non_null(link_call_parked(f.parked, c.handle, strlen(c.handle)));
	step(1);
	assert_null(link_call_parked(f.parked, c.handle, strlen(c.handle)));
	assert_true(sent("{\"jsonrpc\":\"2.0\",\"id\":\"q1\",\"error\":{\"code\":-32603,\"message\":\"The question was not answered in time\"}}"));
	assert_true(sent("notifications/cancelled"));
	finish();
}

static void answer_goes_out_and_the_call_goes_on(void **state)
{
	json_t *answer = json_pack("{s:s}", "action", "decline");
	struct call c, again = { .ends = 0 };

	begin_ready(true);
	call(&c);
	say_id(QUESTION, 1);
	link_call_resume(link_call_parked(f.parked, c.handle, strlen(c.handle)), answer, &sink, &again);
	fake_turn(&f);
	assert_true(sent("{\"jsonrpc\":\"2.0\",\"id\":\"q1\",\"result\":{\"action\":\"decline\"}}"));
	say("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"content\":[]}}");
	assert_int_equal(again.ends, 1);
	assert_int_equal(c.ends, 0);
	json_decref(answer);
	finish();
}

/* MCP C-01 */
static void question_that_is_withdrawn_is_not_answered(void **state)
{
	struct call c, again = { .ends = 0 };

	begin_ready(true);
	call(&c);
	say_id(QUESTION, 1);
	say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"q1\"}}");
	link_call_resume(link_call_parked(f.parked, c.handle, strlen(c.handle)), NULL, &sink, &again);
	fake_turn(&f);
	assert_false(sent("\"id\":\"q1\""));
	finish();
}

static void second_question_waits_for_the_first(void **state)
{
	struct call c, again = { .ends = 0 };

	begin_ready(true);
	call(&c);
	for (unsigned i = 1; i <= LINK_QUESTIONS_MAX; i++)
		say_id(QUESTION, i);
	assert_false(sent("-32601"));
	say_id(QUESTION, LINK_QUESTIONS_MAX + 1);
	assert_true(sent("-32601"));
	link_call_resume(link_call_parked(f.parked, c.handle, strlen(c.handle)), NULL, &sink, &again);
	fake_turn(&f);
	assert_true(again.asked);
	finish();
}

static void one_call_runs_at_once_where_questions_are_wanted(void **state)
{
	struct call a, b;

	begin_ready(true);
	call(&a);
	call(&b);
	assert_true(sent("\"id\":3,\"method\":\"tools/call\""));
	say_id(QUESTION, 1);            /* it is a's: nobody else is open there, nor will be until a is over */
	assert_true(a.asked);
	assert_false(sent("\"id\":4,\"method\":\"tools/call\""));
	say("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"content\":[]}}");
	assert_true(sent("\"id\":4,\"method\":\"tools/call\""));
	say_id(QUESTION, 2);
	assert_true(b.asked);
	assert_int_equal(f.dropped, 0);
	finish();
}

static void parked_calls_are_bounded(void **state)
{
	struct call *calls = mem_calloc(LINK_PARKED_MAX + 1, sizeof(*calls));

	begin_ready(true);
	f.wire.exchanges = true;
	for (unsigned i = 0; i <= LINK_PARKED_MAX; i++) {
		call(&calls[i]);
		say_on(3 + i, QUESTION_ONE);
		assert_int_equal(calls[i].asked, i < LINK_PARKED_MAX);
	}
	assert_true(sent("The client cannot be asked this"));
	assert_int_equal(map_count(f.parked), LINK_PARKED_MAX);
	finish();
	free(calls);
}

/* HARDENING F-3: also of the same principal, since it cannot be known. */
static void test_f3_question_after_its_call_was_cancelled_is_nobodys(void **state)
{
	static const char *const others[] = { "1/bob", "2/ann", "1/ann" };

	for (size_t i = 0; i < NELEMS(others); i++) {
		struct call a, b;

		begin_ready(true);
		call(&a);
		link_call_cancel(&a.call, false);
		assert_true(f.left);
		call_as(&b, others[i]);
		say_id(QUESTION, 1);
		assert_false(b.asked);
		assert_true(sent("{\"jsonrpc\":\"2.0\",\"id\":\"q1\",\"error\":{\"code\":-32601,"));
		say(LOG_LINE);
		assert_int_equal(b.lines, 0);
		assert_int_equal(f.dropped, 2);
		finish();
	}
}

/* HARDENING F-3 */
static void test_f3_question_for_which_nobody_waited_is_nobodys(void **state)
{
	struct call a;

	begin_ready(true);
	say_id(QUESTION, 1);
	assert_int_equal(f.dropped, 1);
	call(&a);
	say("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"content\":[]}}");
	say_id(QUESTION, 2);
	say(LOG_LINE);
	assert_int_equal(f.dropped, 3);
	assert_false(a.asked);
	finish();
}

/* HARDENING F-3 */
static void test_f3_line_of_a_link_of_several_principals_is_nobodys(void **state)
{
	struct call a, b, c;

	begin_ready(false);
	call(&a);
	say(LOG_LINE);
	assert_int_equal(a.lines, 1);
	call(&b);
	say(LOG_LINE);                  /* of the same principal, but which call? */
	assert_int_equal(f.dropped, 1);
	say("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"content\":[]}}");
	say(LOG_LINE);
	assert_int_equal(b.lines, 1);
	say("{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{\"content\":[]}}");
	call_as(&c, "1/bob");
	say(LOG_LINE);
	assert_int_equal(c.lines, 0);
	assert_int_equal(f.dropped, 2);
	finish();
}

/* HARDENING F-3: a stream that is no request's is nobody's. */
static void test_f3_question_beside_the_stream_of_a_call_is_nobodys(void **state)
{
	struct call a;

	begin_ready(true);
	f.wire.exchanges = true;
	call(&a);
	say(QUESTION_ONE);
	say(LOG_LINE);
	say_on(99, QUESTION_ONE);
	assert_int_equal(f.dropped, 3);
	assert_false(a.asked);
	say_on(3, LOG_LINE);
	say_on(3, QUESTION_ONE);
	assert_int_equal(a.lines, 1);
	assert_true(a.asked);
	assert_int_equal(f.dropped, 3);
	finish();
}

static void question_without_asks_is_refused(void **state)
{
	struct call c;

	begin_ready(false);
	call(&c);
	say_id(QUESTION, 1);
	assert_false(c.asked);
	assert_true(sent("{\"jsonrpc\":\"2.0\",\"id\":\"q1\",\"error\":{\"code\":-32601,"));
	finish();
}

/* MCP K-01 */
static void ping_is_answered_and_a_flood_of_them_is_the_end(void **state)
{
	begin_ready(false);
	for (unsigned i = 0; i < LINK_ANSWERED_MAX; i++)
		say_id("{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"ping\"}", i);
	assert_true(sent("{\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}"));
	assert_false(f.dead);
	say_id("{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"ping\"}", LINK_ANSWERED_MAX);
	assert_true(f.dead);
	finish();
}

static void silence_after_a_timeout_is_tested_by_a_ping(void **state)
{
	struct call a, b;

	begin_ready(false);
	call(&a);
	call(&b);
	link_call_cancel(&a.call, true);
	assert_true(sent("\"method\":\"ping\""));
	step(LINK_DOUBT_MS * UINT64_C(1000) - 1);
	say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/unknown\"}");
	step(SECOND);
	assert_false(f.dead);           /* any sign of life will do */
	link_call_cancel(&b.call, true);
	call(&a);
	step(LINK_DOUBT_MS * UINT64_C(1000));
	assert_true(f.dead);
	assert_string_equal(a.text, "it does not answer any more");
	finish();
}

static void list_that_changes_all_the_time_is_read_once_a_second(void **state)
{
	char text[200];

	begin_ready(false);
	unsigned before = f.messages, id = 3;
	for (unsigned ms = 0; ms < 5000; ms += 10) {
		say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}");
		clock_step(10000);
		fake_turn(&f);
		(void)snprintf(text, sizeof(text), "\"id\":%u,\"method\":\"tools/list\"", id);
		if (sent(text))
			say_id("{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":{\"tools\":[]}}", id++);
	}
	assert_in_range(f.messages - before, LINK_RELIST_BURST, LINK_RELIST_BURST + 6);
	finish();
}

static void list_is_bounded_in_tools(void **state)
{
	struct str text = STR_INIT;

	begin(false, LINK_ERA_LEGACY);
	say(INITIALIZED);
	for (unsigned page = 0; page * 500 <= UPSTREAM_ITEMS_MAX; page++) {
		str_reset(&text);
		str_printf(&text, "{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":{\"nextCursor\":\"x\",\"tools\":[", 2 + page);
		for (unsigned i = 0; i < 500 && page * 500 + i <= UPSTREAM_ITEMS_MAX; i++)
			str_printf(&text, "%s{\"name\":\"t%u\"}", i ? "," : "", page * 500 + i);
		str_puts(&text, "]}}");
		assert_false(f.dead);
		say(str_text(&text));
	}
	assert_true(f.dead);
	assert_string_equal(f.death.msg, "it lists more than 2000 tools");
	str_fini(&text);
	finish();
}

static void list_is_bounded_in_pages(void **state)
{
	begin(false, LINK_ERA_LEGACY);
	say(INITIALIZED);
	for (unsigned page = 0; page <= LINK_PAGES_MAX; page++) {
		assert_false(f.dead);
		say_id("{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":{\"nextCursor\":\"\",\"tools\":[]}}", 2 + page);
	}
	assert_true(f.dead);
	finish();
}

static void burst_is_let_through_and_then_one_in_each_gap(void **state)
{
	uint64_t tat = 0, now = 1000 * SECOND;

	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(link_due(&tat, now, SECOND, 3), now);
	assert_int_equal(link_due(&tat, now, SECOND, 3), now + SECOND);
	assert_int_equal(link_due(&tat, now + SECOND, SECOND, 3), now + 2 * SECOND);
	assert_int_equal(link_due(&tat, now + 100 * SECOND, SECOND, 3), now + 100 * SECOND);
}

/* MCP J-09, J-10 */
static void array_of_messages_is_taken_where_the_revision_has_them(void **state)
{
	static const char *const revisions[] = { "2025-03-26", "2025-06-18" };

	for (size_t i = 0; i < NELEMS(revisions); i++) {
		struct call a, b;

		begin(false, LINK_ERA_LEGACY);
		say_id("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"%s\",\"capabilities\":{}}}", revisions[i]);
		call(&a);
		call(&b);
		say(" [{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[]}},{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}},[]]");
		assert_int_equal(a.ends, i == 0);
		assert_int_equal(b.ends, i == 0);
		finish();
	}
}

static void array_of_messages_is_bounded(void **state)
{
	for (unsigned n = 50; n <= 51; n++) {
		struct str text = STR_INIT;

		begin(false, LINK_ERA_LEGACY);
		say("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-03-26\",\"capabilities\":{}}}");
		for (unsigned i = 0; i < n; i++)
			str_printf(&text, "%s{\"jsonrpc\":\"2.0\",\"method\":\"x\"}", i ? "," : "[");
		str_putc(&text, ']');
		say(str_text(&text));
		assert_int_equal(f.dead, n > 50);
		str_fini(&text);
		finish();
	}
}

static void noise_is_borne_for_a_while(void **state)
{
	begin_ready(false);
	for (unsigned i = 0; i < 100; i++)
		say("Server is running on port 3001");
	assert_false(f.dead);
	say("Server is running on port 3001");
	assert_true(f.dead);
	finish();
}

SINGLE_THREAD_SUITE(link)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silence_after_a_probe_means_an_older_server),
		cmocka_unit_test(late_answer_to_the_probe_still_counts),
		cmocka_unit_test(discover_may_offer_older_revisions_alone),
		cmocka_unit_test(server_that_never_answers_is_given_up),
		cmocka_unit_test(call_before_the_handshake_waits_for_it),
		cmocka_unit_test(late_answer_of_a_cancelled_call_is_dropped),
		cmocka_unit_test(tool_with_another_digest_is_not_called),
		cmocka_unit_test(calls_of_a_link_are_bounded),
		cmocka_unit_test(nothing_is_sent_to_a_wire_that_is_full),
		cmocka_unit_test(question_that_is_not_answered_in_time_is_refused),
		cmocka_unit_test(answer_goes_out_and_the_call_goes_on),
		cmocka_unit_test(question_that_is_withdrawn_is_not_answered),
		cmocka_unit_test(second_question_waits_for_the_first),
		cmocka_unit_test(one_call_runs_at_once_where_questions_are_wanted),
		cmocka_unit_test(parked_calls_are_bounded),
		cmocka_unit_test(test_f3_question_after_its_call_was_cancelled_is_nobodys),
		cmocka_unit_test(test_f3_question_for_which_nobody_waited_is_nobodys),
		cmocka_unit_test(test_f3_line_of_a_link_of_several_principals_is_nobodys),
		cmocka_unit_test(test_f3_question_beside_the_stream_of_a_call_is_nobodys),
		cmocka_unit_test(question_without_asks_is_refused),
		cmocka_unit_test(ping_is_answered_and_a_flood_of_them_is_the_end),
		cmocka_unit_test(silence_after_a_timeout_is_tested_by_a_ping),
		cmocka_unit_test(list_that_changes_all_the_time_is_read_once_a_second),
		cmocka_unit_test(list_is_bounded_in_tools),
		cmocka_unit_test(list_is_bounded_in_pages),
		cmocka_unit_test(burst_is_let_through_and_then_one_in_each_gap),
		cmocka_unit_test(array_of_messages_is_taken_where_the_revision_has_them),
		cmocka_unit_test(array_of_messages_is_bounded),
		cmocka_unit_test(noise_is_borne_for_a_while),
	};
	return cmocka_run_group_tests_name("links to upstreams", tests, NULL, NULL);
}
