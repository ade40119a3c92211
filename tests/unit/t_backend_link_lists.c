/* Links to upstreams: their lists, and news of what they host. */
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

/* HARDENING F-17: what a server leaves unanswered is bounded; at the bound more wait, and ends of them are not told. */
static void test_f17_subscriptions_that_are_not_answered_are_bounded(void **state)
{
	const uint64_t held = metric_get(METRIC_upstream_subscriptions_held);
	char uri[32];

	begin_hosting();
	say(EMPTY(4, "resources"));
	say(EMPTY(5, "resourceTemplates"));
	for (unsigned i = 0; i < LINK_ASIDE_MAX; i++) {
		(void)snprintf(uri, sizeof(uri), "a:%u", i);
		link_watch(f.link, uri, true, true);
		fake_turn(&f);
	}
	assert_true(sent("\"id\":261,"));
	assert_int_equal(metric_get(METRIC_upstream_subscriptions_held), held);
	link_watch(f.link, "b:1", true, true);
	fake_turn(&f);
	assert_false(sent("b:1"));
	assert_int_equal(metric_get(METRIC_upstream_subscriptions_held), held + 1);
	link_watch(f.link, "a:7", false, true);
	assert_false(sent("resources/unsubscribe"));
	update("a:7");
	assert_int_equal(f.updated, 0);
	for (unsigned id = 6; id < 6 + LINK_ASIDE_MAX / 2; id++)
		say_id("{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":{}}", id);
	assert_false(sent("b:1"));
	say_id("{\"jsonrpc\":\"2.0\",\"id\":%u,\"error\":{\"code\":-32603,\"message\":\"no\"}}", 6 + LINK_ASIDE_MAX / 2);
	assert_true(sent("b:1"));
	link_watch(f.link, "a:8", false, true);
	assert_true(sent("resources/unsubscribe"));
	assert_false(f.dead);
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

SINGLE_THREAD_SUITE(link_lists)
{
	const struct CMUnitTest tests[] = {
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
		cmocka_unit_test(test_f17_subscriptions_that_are_not_answered_are_bounded),
		cmocka_unit_test(test_f4_no_message_of_a_caller_leaves_unrecorded),
		cmocka_unit_test(test_f4_no_list_of_watched_uris_leaves_unrecorded),
		cmocka_unit_test(next_stream_of_news_is_there_before_the_old_one_ends),
		cmocka_unit_test(stream_of_news_that_ends_is_asked_for_later_and_later),
		cmocka_unit_test(stream_of_news_that_is_refused_is_not_asked_for_again),
	};
	return cmocka_run_group_tests_name("lists of links to upstreams", tests, NULL, NULL);
}
