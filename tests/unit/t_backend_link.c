/* Links to upstreams: every bound and every wait, without a server and without waiting. */
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
#include "fake_wire.h"
#include "suite.h"

#define SECOND UINT64_C(1000000)
#define TOOL "{\"name\":\"echo\",\"inputSchema\":{\"type\":\"object\"}}"
#define INITIALIZED "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}}}}"

struct call { unsigned ends, lines; bool asked; char handle[LINK_HANDLE_SIZE]; char text[320]; struct link_call *call; };

static struct fake f;

static void on_progress(void *arg, double done, double total, const char *note)
{
}

static void on_log(void *arg, int level, const char *logger, json_t *data)
{
	((struct call *)arg)->lines++;
	json_decref(data);
}

static int on_question(void *arg, const char *handle, const char *method, json_t *params)
{
	struct call *c = arg;

	json_decref(params);
	c->asked = true;
	c->call = NULL;
	memcpy(c->handle, handle, LINK_HANDLE_SIZE);
	return 0;
}

static void end(struct call *c, const char *text, size_t len)
{
	assert_int_equal(++c->ends, 1);
	c->call = NULL;
	(void)snprintf(c->text, sizeof(c->text), "%.*s", (int)len, text);
}

static void on_result(void *arg, struct jx_span result)
{
	end(arg, result.p, result.len);
}

static void on_error(void *arg, int code, const char *message, json_t *data)
{
	json_decref(data);
	end(arg, message, strlen(message));
}

static void on_failed(void *arg, const struct err *err)
{
	end(arg, err->msg, strlen(err->msg));
}

static const struct link_call_sink sink = { on_progress, on_log, on_question, on_result, on_error, on_failed };

static int try_call_of(struct call *c, const char *who, const uint8_t *digest, struct err *err)
{
	struct str params = STR_INIT;
	const struct link_call_req req = { .who = who, .recorded = true, .method = "tools/call", .name = "echo", .key = "echo", .params = &params, .digest = digest,
		.log_level = 8 };

	*c = (struct call){ .ends = 0 };
	str_puts(&params, "\"name\":\"echo\",\"arguments\":{}");
	int rc = link_call_start(f.link, &req, &sink, c, &c->call, err);
	str_fini(&params);
	return rc;
}

static int try_call(struct call *c, const uint8_t *digest, struct err *err)
{
	return try_call_of(c, "1/ann", digest, err);
}

static void call_as(struct call *c, const char *who)
{
	struct err err;

	if (try_call_of(c, who, NULL, &err) < 0)
		fail_msg("%s", err.msg);
	fake_turn(&f);
}

static void call(struct call *c)
{
	call_as(c, "1/ann");
}

static void say(const char *text)
{
	fake_say(&f, text, strlen(text));
}

PRINTF_LIKE(1, 2) static void say_id(const char *format, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	say(text);
}

static bool sent(const char *what)
{
	return strstr(str_text(&f.sent), what) != NULL;
}

static void step(uint64_t us)
{
	clock_step(us);
	fake_turn(&f);
}

static void begin(bool asks, enum link_era era)
{
	clock_fake(1000 * SECOND, 1000 * SECOND);
	fake_begin(&f, asks, era);
}

/* Ready, with the ids 1 and 2 used up. */
static void begin_ready(bool asks)
{
	begin(asks, LINK_ERA_LEGACY);
	say(INITIALIZED);
	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"tools\":[" TOOL "]}}");
	assert_int_equal(link_status(f.link).era, LINK_ERA_LEGACY);
}

static void finish(void)
{
	fake_end(&f);
	clock_real();
}

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

/* --- prompts, resources, templates */

#define HOSTS "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}," \
	"\"prompts\":{},\"resources\":{\"subscribe\":true},\"completions\":{},\"logging\":{}}}}"
#define EMPTY(id, member) "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"result\":{\"" member "\":[]}}"

static struct upstream_list *listed;

static void on_list(void *arg, struct upstream_list *list, const struct err *err)
{
	upstream_list_free(&listed);
	listed = list;
}

static int call_of(struct call *c, const char *key, const uint8_t *digest, int log_level)
{
	struct str params = STR_INIT;
	const struct link_call_req req = { .who = "1/ann", .recorded = true, .method = "prompts/get", .name = "greet", .key = key, .params = &params, .digest = digest,
		.log_level = log_level };

	*c = (struct call){ .ends = 0 };
	str_puts(&params, "\"name\":\"greet\"");
	int rc = link_call_start(f.link, &req, &sink, c, &c->call, NULL);
	fake_turn(&f);
	return rc;
}

/* Up to resources/list, with the ids 1 to 3 used up. */
static void begin_hosting(void)
{
	begin(false, LINK_ERA_LEGACY);
	(void)link_list(f.link, on_list, NULL);
	say(HOSTS);
	say(EMPTY(2, "tools"));
	say("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"prompts\":[{\"name\":\"greet\"}]}}");
}

static void end_hosting(void)
{
	upstream_list_free(&listed);
	finish();
}

static void other_lists_follow_the_tools_and_are_pinned(void **state)
{
	static const uint8_t wrong[32] = { 1 };
	struct call c;

	begin_hosting();
	assert_true(sent("\"id\":4,\"method\":\"resources/list\""));
	say("{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{\"resources\":[{\"uri\":\"a:b\",\"name\":\"x\",\"size\":7},"
	    "{\"uri\":\"a:b\",\"name\":\"again\"}]}}");
	assert_null(listed);
	say("{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{\"resourceTemplates\":[{\"uriTemplate\":\"a:{x}\",\"name\":\"t\"}]}}");
	assert_int_equal(listed->count, 3);
	assert_string_equal(listed->item[0].key, "prompt:greet");
	assert_string_equal(listed->item[0].text, "{\"name\":\"greet\",\"completes\":true}");
	assert_string_equal(listed->item[1].key, "resource:a:b");
	assert_string_equal(listed->item[1].text, "{\"uri\":\"a:b\",\"name\":\"x\"}");       /* its size is its content's */
	assert_string_equal(listed->item[2].key, "template:a:{x}");
	(void)call_of(&c, "prompt:greet", wrong, 8);
	assert_string_equal(c.text, "its prompt greet is not what was accepted; an administrator must look at it");
	(void)call_of(&c, "prompt:gone", wrong, 8);
	assert_string_equal(c.text, "it has no prompt gone any more");
	(void)call_of(&c, "prompt:greet", listed->item[0].digest, 8);
	assert_true(sent("\"method\":\"prompts/get\",\"params\":{\"name\":\"greet\",\"_meta\""));
	end_hosting();
}

static void list_that_cannot_be_read_costs_that_list_alone(void **state)
{
	static const uint8_t digest[32] = { 1 };
	struct call c;

	begin_hosting();
	say("{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{\"nextCursor\":\"2\",\"resources\":[{\"uri\":\"a:b\",\"name\":\"x\"}]}}");
	say("{\"jsonrpc\":\"2.0\",\"id\":5,\"error\":{\"code\":-32603,\"message\":\"no\"}}");
	say("{\"jsonrpc\":\"2.0\",\"id\":6,\"error\":{\"code\":-32601,\"message\":\"what?\"}}");
	assert_int_equal(listed->count, 1);
	assert_true(listed->unread[UPSTREAM_RESOURCE]);
	assert_false(listed->unread[UPSTREAM_PROMPT] || listed->unread[UPSTREAM_TEMPLATE]);
	(void)call_of(&c, "resource:a:b", digest, 8);
	assert_string_equal(c.text, "its list of resources could not be read");
	end_hosting();
}

static void resources_beyond_the_bound_are_left_out(void **state)
{
	struct str text = STR_INIT;

	begin_hosting();
	str_puts(&text, "{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{\"nextCursor\":\"x\",\"resources\":[");
	for (unsigned i = 0; i <= UPSTREAM_ITEMS_MAX; i++)
		str_printf(&text, "%s{\"uri\":\"a:%u\",\"name\":\"x\"}", i ? "," : "", i);
	str_puts(&text, "]}}");
	say(str_text(&text));
	assert_true(sent("resources/templates/list"));
	say(EMPTY(5, "resourceTemplates"));
	assert_int_equal(listed->count, 1 + UPSTREAM_ITEMS_MAX);
	assert_false(listed->unread[UPSTREAM_RESOURCE]);
	str_fini(&text);
	end_hosting();
}

static void tool_that_is_named_like_a_prompt_is_refused(void **state)
{
	begin(false, LINK_ERA_LEGACY);
	say(INITIALIZED);
	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"tools\":[{\"name\":\"prompt:greet\"}]}}");
	assert_true(f.dead);
	finish();
}

static unsigned list_ends;
static struct err list_err;

static void on_list_end(void *arg, struct upstream_list *list, const struct err *err)
{
	list_ends++;
	if (err)
		list_err = *err;
	upstream_list_free(&list);
}

/* HARDENING F-17: a ready link, whatever is said meanwhile. */
static void test_f17_list_that_does_not_come_is_given_up_at_its_deadline(void **state)
{
	begin_ready(false);
	list_ends = 0;
	(void)link_list(f.link, on_list_end, NULL);
	assert_true(sent("\"id\":3,\"method\":\"tools/list\""));
	for (unsigned i = 0; i < 29; i++) {     /* noise and pages that lead on and on do not move it */
		say_id("{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":{\"nextCursor\":\"x\",\"tools\":[]}}", 3 + i);
		say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}");
		step(SECOND);
	}
	step(SECOND - 1);
	assert_int_equal(list_ends, 0);
	step(1);
	assert_int_equal(list_ends, 1);
	assert_string_equal(list_err.msg, "it did not list its tools within 30 s");
	assert_false(f.dead);
	assert_true(sent("\"method\":\"ping\""));       /* is it there at all? */
	step(LINK_DOUBT_MS * UINT64_C(1000));
	assert_true(f.dead);
	assert_int_equal(list_ends, 1);
	finish();
}

/* HARDENING F-17: the first reading, too. */
static void test_f17_lists_of_the_start_have_the_deadline_too(void **state)
{
	begin(false, LINK_ERA_LEGACY);
	say(INITIALIZED);
	step(LINK_LIST_MS * UINT64_C(1000) - 1);
	assert_false(f.dead);
	step(1);
	assert_true(f.dead);
	assert_string_equal(f.death.msg, "it did not list its tools within 30 s");
	finish();
}

/* HARDENING F-17: prompts, resources and templates. */
static void test_f17_each_further_list_ends_at_the_one_deadline(void **state)
{
	static const char *const late[] = { "prompts/list", "resources/list", "resources/templates/list" };

	for (size_t i = 0; i < NELEMS(late); i++) {
		begin(false, LINK_ERA_LEGACY);
		(void)link_list(f.link, on_list, NULL);
		say(HOSTS);
		step(10 * SECOND);
		say(EMPTY(2, "tools"));
		step(10 * SECOND);
		if (i > 0)
			say(EMPTY(3, "prompts"));
		if (i > 1)
			say(EMPTY(4, "resources"));
		assert_true(sent(late[i]));
		step(10 * SECOND - 1);
		assert_null(listed);
		step(1);
		assert_non_null(listed);
		assert_int_equal(listed->unread[UPSTREAM_PROMPT], i == 0);
		assert_int_equal(listed->unread[UPSTREAM_RESOURCE], i <= 1);
		assert_true(listed->unread[UPSTREAM_TEMPLATE]);
		assert_int_equal(link_status(f.link).era, LINK_ERA_LEGACY);
		say_id("{\"jsonrpc\":\"2.0\",\"id\":%zu,\"result\":{\"prompts\":[{\"name\":\"late\"}]}}", 3 + i);
		assert_false(f.dead);
		end_hosting();
	}
}

/* HARDENING F-17: whoever waits in vain can leave, and is in nobody's way. */
static void test_f17_who_waits_for_a_list_may_leave_and_be_sent_away(void **state)
{
	struct link_lister *one, *two;
	struct call c;

	begin_ready(false);
	list_ends = 0;
	one = link_list(f.link, on_list_end, NULL);
	two = link_list(f.link, on_list_end, NULL);
	link_unlist(&one);
	assert_true(link_busy(f.link));
	link_unlist(&two);
	assert_false(link_busy(f.link));
	say(EMPTY(3, "tools"));
	assert_int_equal(list_ends, 0);
	call(&c);
	(void)link_list(f.link, on_list_end, NULL);
	link_retire(f.link);
	fake_turn(&f);
	assert_int_equal(list_ends, 1);
	assert_string_equal(list_err.msg, "it was changed, disabled or removed");
	assert_int_equal(c.ends, 0);
	finish();
}

/* HARDENING F-17: all who asked before it began share one reading; who came later gets one of his own. */
static void test_f17_a_reading_serves_all_who_asked_before_it(void **state)
{
	begin(false, LINK_ERA_LEGACY);
	list_ends = 0;
	for (unsigned i = 0; i < 16; i++)
		(void)link_list(f.link, on_list_end, NULL);
	say(INITIALIZED);
	(void)link_list(f.link, on_list_end, NULL);
	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"tools\":[" TOOL "]}}");
	assert_int_equal(list_ends, 16);
	assert_true(sent("\"id\":3,\"method\":\"tools/list\""));
	say(EMPTY(3, "tools"));
	assert_int_equal(list_ends, 17);
	finish();
}

/* MCP G-02: one level for all calls of a link, so the least that anybody wants. */
static void older_server_is_told_a_level_when_a_lower_one_is_wanted(void **state)
{
	struct call c[4];

	begin_hosting();
	say(EMPTY(4, "resources"));
	say(EMPTY(5, "resourceTemplates"));
	(void)call_of(&c[0], "prompt:greet", NULL, 8);
	assert_false(sent("setLevel"));
	(void)call_of(&c[1], "prompt:greet", NULL, 4);
	assert_true(sent("\"method\":\"logging/setLevel\",\"params\":{\"level\":\"error\"}"));
	(void)call_of(&c[2], "prompt:greet", NULL, 5);
	assert_false(sent("\"level\":\"critical\""));
	(void)call_of(&c[3], "prompt:greet", NULL, 0);
	assert_true(sent("\"level\":\"debug\""));
	end_hosting();
}

/* --- news */

static void update(const char *uri)
{
	say_id("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"%s\"}}", uri);
}

/* MCP U-03 */
static void older_server_is_subscribed_to_once_there_is_room(void **state)
{
	begin_hosting();
	link_watch(f.link, "a:b", true, true);
	link_watch(f.link, "a:b", true, true);
	say(EMPTY(4, "resources"));
	assert_false(sent("resources/subscribe"));
	f.full = true;
	say(EMPTY(5, "resourceTemplates"));
	assert_false(sent("resources/subscribe"));
	f.full = false;
	link_drained(f.link);
	fake_turn(&f);
	assert_true(sent("\"id\":6,\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"a:b\"}"));
	assert_false(sent("\"id\":7"));
	update("a:c");
	update("a");
	assert_int_equal(f.updated, 0);
	update("a:b");
	assert_int_equal(f.updated, 1);
	update("a:b/part/of/it");
	assert_int_equal(f.updated, 2);
	link_watch(f.link, "a:b", false, true);
	assert_true(sent("\"id\":7,\"method\":\"resources/unsubscribe\",\"params\":{\"uri\":\"a:b\"}"));
	update("a:b");
	assert_int_equal(f.updated, 2);
	end_hosting();
}

/* HARDENING F-4: the gate that every message to an upstream passes, once with its record and once without. */
static void test_f4_no_message_of_a_caller_leaves_unrecorded(void **state)
{
	static const char *const methods[] = { "tools/call", "prompts/get", "resources/read", "completion/complete" };

	for (unsigned recorded = 0; recorded <= 1; recorded++) {
		begin_hosting();
		say(EMPTY(4, "resources"));
		say(EMPTY(5, "resourceTemplates"));
		uint64_t stopped = metric_get(METRIC_handlers_unrecorded);
		unsigned before = f.messages;
		for (size_t i = 0; i < NELEMS(methods); i++) {
			struct str params = STR_INIT;
			const struct link_call_req req = { .who = "1/ann", .recorded = recorded, .method = methods[i], .key = "echo",
				.params = &params, .log_level = (int)(NELEMS(methods) - i) };
			struct call c = { .ends = 0 };

			str_puts(&params, "\"name\":\"echo\"");
			assert_int_equal(link_call_start(f.link, &req, &sink, &c, &c.call, NULL), 0);
			fake_turn(&f);
			assert_int_equal(sent(methods[i]), recorded);
			link_call_cancel(&c.call, false);
			str_fini(&params);
		}
		assert_int_equal(sent("notifications/cancelled"), recorded);
		assert_int_equal(sent("logging/setLevel"), recorded);
		link_watch(f.link, "a:b", true, recorded);
		fake_turn(&f);
		assert_int_equal(sent("resources/subscribe"), recorded);
		link_watch(f.link, "a:b", false, recorded);
		assert_int_equal(sent("resources/unsubscribe"), recorded);
		assert_int_equal(f.messages > before, recorded);
		assert_int_equal(metric_get(METRIC_handlers_unrecorded) == stopped, recorded);
		end_hosting();
	}
}

#define ACKNOWLEDGED "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{\"_meta\":" \
	"{\"io.modelcontextprotocol/subscriptionId\":%u},\"notifications\":{}}}"

/* Ready, listening by request 2, with the ids up to 4 used up. */
static void begin_modern(void)
{
	begin(false, LINK_ERA_UNKNOWN);
	say("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"tools\":"
	    "{\"listChanged\":true},\"resources\":{\"subscribe\":true}}}}");
	assert_true(sent("\"id\":2,\"method\":\"subscriptions/listen\",\"params\":{\"notifications\":{\"toolsListChanged\":true},"));
	say(EMPTY(3, "tools"));
	say(EMPTY(4, "resources"));
	say(EMPTY(5, "resourceTemplates"));
	assert_int_equal(link_status(f.link).era, LINK_ERA_MODERN);
}

/* HARDENING F-4: one that is not recorded keeps the whole filter. */
static void test_f4_no_list_of_watched_uris_leaves_unrecorded(void **state)
{
	begin_modern();
	link_watch(f.link, "a:b", true, false);
	fake_turn(&f);
	assert_false(sent("resourceSubscriptions"));
	link_watch(f.link, "a:b", false, false);
	link_watch(f.link, "a:c", true, true);
	fake_turn(&f);
	assert_true(sent("\"resourceSubscriptions\":[\"a:c\"]"));
	finish();
}

/* MCP N-05, N-07 */
static void next_stream_of_news_is_there_before_the_old_one_ends(void **state)
{
	begin_modern();
	link_watch(f.link, "a:b", true, true);
	link_watch(f.link, "a:c", true, true);
	fake_turn(&f);
	assert_true(sent("\"id\":6,\"method\":\"subscriptions/listen\""));
	assert_true(sent("\"resourceSubscriptions\":["));
	assert_false(sent("\"id\":7"));
	say_id(ACKNOWLEDGED, 2u);
	assert_false(sent("notifications/cancelled"));
	say_id(ACKNOWLEDGED, 6u);
	assert_true(sent("\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2"));
	update("a:c");
	assert_int_equal(f.updated, 1);
	finish();
}

static void stream_of_news_that_ends_is_asked_for_later_and_later(void **state)
{
	char text[80];
	unsigned id = 2, next = 6;

	begin_modern();
	link_watch(f.link, "a:b", true, true);
	fake_turn(&f);
	id = next++;
	for (unsigned n = 0; n < 4; n++) {
		uint64_t gap = LINK_RELISTEN_MS * UINT64_C(1000) << n;

		say_id("{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":{}}", id);
		(void)snprintf(text, sizeof(text), "\"id\":%u,\"method\":\"subscriptions/listen\"", next);
		step(gap - 1);
		assert_false(sent(text));
		step(1);
		assert_true(sent(text));
		assert_int_equal(f.updated, n + 1);     /* what was missed is not known */
		id = next++;
		for (unsigned list = 0; list < 3; list++)       /* nor whether a list has changed */
			say_id("{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":{\"tools\":[],\"resources\":[],\"resourceTemplates\":[]}}", next++);
	}
	finish();
}

static void stream_of_news_that_is_refused_is_not_asked_for_again(void **state)
{
	begin_modern();
	unsigned before = f.messages;
	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32601,\"message\":\"no\"}}");
	step(3600 * SECOND);
	assert_int_equal(f.messages, before);
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

SUITE(link)
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
		cmocka_unit_test(other_lists_follow_the_tools_and_are_pinned),
		cmocka_unit_test(list_that_cannot_be_read_costs_that_list_alone),
		cmocka_unit_test(resources_beyond_the_bound_are_left_out),
		cmocka_unit_test(tool_that_is_named_like_a_prompt_is_refused),
		cmocka_unit_test(test_f17_list_that_does_not_come_is_given_up_at_its_deadline),
		cmocka_unit_test(test_f17_lists_of_the_start_have_the_deadline_too),
		cmocka_unit_test(test_f17_each_further_list_ends_at_the_one_deadline),
		cmocka_unit_test(test_f17_who_waits_for_a_list_may_leave_and_be_sent_away),
		cmocka_unit_test(test_f17_a_reading_serves_all_who_asked_before_it),
		cmocka_unit_test(older_server_is_told_a_level_when_a_lower_one_is_wanted),
		cmocka_unit_test(older_server_is_subscribed_to_once_there_is_room),
		cmocka_unit_test(test_f4_no_message_of_a_caller_leaves_unrecorded),
		cmocka_unit_test(test_f4_no_list_of_watched_uris_leaves_unrecorded),
		cmocka_unit_test(next_stream_of_news_is_there_before_the_old_one_ends),
		cmocka_unit_test(stream_of_news_that_ends_is_asked_for_later_and_later),
		cmocka_unit_test(stream_of_news_that_is_refused_is_not_asked_for_again),
		cmocka_unit_test(burst_is_let_through_and_then_one_in_each_gap),
		cmocka_unit_test(array_of_messages_is_taken_where_the_revision_has_them),
		cmocka_unit_test(array_of_messages_is_bounded),
		cmocka_unit_test(noise_is_borne_for_a_while),
	};
	return cmocka_run_group_tests_name("links to upstreams", tests, NULL, NULL);
}
