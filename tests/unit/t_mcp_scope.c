/* The scopes of a credential: what its methods are, what lists show, what is unknown (SEC S-314, MCP ). */

#include "config.h"

#include "mcp_rig.h"

#include "audit/audit.h"
#include "tenant/scope.h"
#include "suite.h"

static struct rig r;

static int set_up(void **state)
{
	rig_open(&r);
	rig_hosted(&r);
	return 0;
}

static int tear_down(void **state)
{
	rig_close(&r);
	return 0;
}

static void limit(const char *words)
{
	scopes_unref(&r.who_acme->scopes);
	assert_int_equal(scopes_parse(words, strlen(words), &r.who_acme->scopes, NULL), 0);
}

static const struct { const char *method, *name, *params, *need; } methods[] = {
	{ "server/discover", NULL, "", NULL },
	{ "tools/list", NULL, "", "tools:list" },
	{ "tools/call", "echo", ",\"name\":\"echo\"", "tools:call" },
	{ "prompts/list", NULL, "", "prompts:list" },
	{ "prompts/get", "greet", ",\"name\":\"greet\"", "prompts:get" },
	{ "resources/list", NULL, "", "resources:list" },
	{ "resources/templates/list", NULL, "", "resources:list" },
	{ "resources/read", "memo://one", ",\"uri\":\"memo://one\"", "resources:read" },
	{ "completion/complete", NULL, ",\"ref\":{\"type\":\"ref/prompt\",\"name\":\"greet\"},\"argument\":{\"name\":\"who\",\"value\":\"\"}",
	  "prompts:get resources:read" },
};

static void grant_all(void)
{
	rig_grant(&r, r.acme, "prompt:*");
	rig_grant(&r, r.acme, "resource:*");
}

/* MCP A-10: 403 with the words that are lacking, and one record before the answer (AUDIT A-205). */
static void a_method_beyond_the_scopes_is_refused(void **state)
{
	struct rig_http h;

	grant_all();
	limit("");
	for (size_t i = 0; i < NELEMS(methods); i++) {
		size_t records = r.nrecords;

		rig_modern(&r, &h, methods[i].method, methods[i].name, methods[i].params, "{}");
		assert_true(h.finished);
		assert_int_equal(h.status, methods[i].need ? 403 : 200);
		assert_string_equal(h.scope, methods[i].need ? methods[i].need : "");
		if (methods[i].need) {
			rig_expect_has(&h.box, "\"reason\":\"insufficient_scope\"");
			assert_int_equal(r.nrecords, records + 1);
			assert_int_equal(r.records[records].kind, AUDIT_CALL_DENIED);
			assert_string_equal(r.records[records].cause, methods[i].method);
		}
		rig_http_free(&h);
	}
	assert_int_equal(r.ncalls, 0);
}

/* Each right opens its own methods and no others. */
static void one_right_opens_its_methods_only(void **state)
{
	struct rig_http h;

	grant_all();
	for (size_t i = 0; i < NELEMS(methods); i++) {
		if (!methods[i].need)
			continue;
		limit(methods[i].need);
		for (size_t k = 0; k < NELEMS(methods); k++) {
			bool open = !methods[k].need || strstr(methods[k].need, methods[i].need) != NULL ||
				strstr(methods[i].need, methods[k].need) != NULL;

			r.nrecords = 0;
			rig_modern(&r, &h, methods[k].method, methods[k].name, methods[k].params, "{}");
			if (h.finished)
				assert_int_equal(h.status == 403, !open);
			else
				assert_true(open);      /* a call has started */
			rig_http_free(&h);
		}
	}
	rig_forget_calls(&r);
}

/* AUDIT: beyond the rate it is answered without a record; with a failed store it is not answered so. */
static void a_refusal_is_recorded_or_withheld(void **state)
{
	struct rig_http h;

	limit("tools:list");
	r.denials_full = true;
	rig_modern(&r, &h, "tools/call", "echo", ",\"name\":\"echo\"", "{}");
	assert_int_equal(h.status, 403);
	assert_int_equal(r.nrecords, 0);
	rig_http_free(&h);
	r.denials_full = false;
	r.writer_down = true;
	rig_modern(&r, &h, "tools/call", "echo", ",\"name\":\"echo\"", "{}");
	assert_int_equal(h.status, 503);
	assert_string_equal(h.scope, "");
	rig_http_free(&h);
	r.writer_down = false;
}

/* On a byte stream: an error, and the connection stays. */
static void a_stream_gets_an_error(void **state)
{
	struct rig_peer p;

	limit("prompts:list");
	rig_peer_open(&r, &p, r.who_acme);
	rig_handshake(&p, REV_R4, "{}");
	rig_send(&p, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\"}");
	rig_expect_has(&p.box, "\"id\":7,\"error\":{\"code\":-32600");
	assert_false(p.told_to_close);
	rig_send(&p, "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"ping\"}");
	rig_expect_has(&p.box, "\"id\":8,\"result\"");
	rig_peer_close(&p);
}

/* The peer may leave, or take the request back, before the record is durable. */
static void a_peer_that_leaves_gets_nothing(void **state)
{
	struct rig_peer p;

	limit("");
	rig_peer_open(&r, &p, r.who_acme);
	rig_handshake(&p, REV_R4, "{}");
	rig_feed(&p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
	rig_feed(&p, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}");
	rig_turn(&r);
	rig_none(&p.box);
	rig_feed(&p, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}");
	rig_peer_close(&p);
	rig_turn(&r);
}

static char *list(const char *method)
{
	struct rig_http h;
	char *text;

	rig_modern(&r, &h, method, NULL, "", "{}");
	assert_int_equal(h.status, 200);
	text = mem_strdup(rig_next(&h.box));
	rig_http_free(&h);
	return text;
}

/* SEC S-314, product.md 11: lists show what may be called, got and read; a completion of the rest is unknown. */
static void lists_are_cut(void **state)
{
	static const struct { const char *words, *method, *in, *out; } rows[] = {
		{ "tools:list tools:call:e*", "tools/list", "\"echo\"", "\"secret\"" },
		{ "tools:list tools:call:secret", "tools/list", "\"secret\"", "\"echo\"" },
		{ "tools:list prompts:get", "tools/list", "[]", "\"echo\"" },
		{ "prompts:list prompts:get:greet", "prompts/list", "\"greet\"", "\"other\"" },
		{ "prompts:list prompts:get:other", "prompts/list", "[]", "\"greet\"" },
		{ "resources:list resources:read:memo", "resources/list", "memo://one", "page" },
		{ "resources:list resources:read:memo", "resources/templates/list", "[]", "page" },
	};
	struct rig_http h;

	grant_all();
	for (size_t i = 0; i < NELEMS(rows); i++) {
		char *text;

		limit(rows[i].words);
		text = list(rows[i].method);
		if (!strstr(text, rows[i].in) || strstr(text, rows[i].out))
			fail_msg("%s: %s", rows[i].words, text);
		free(text);
	}
	limit("prompts:get:other");
	rig_modern(&r, &h, "completion/complete", NULL, methods[NELEMS(methods) - 1].params, "{}");
	rig_expect_has(&h.box, "Unknown prompt: greet");
	rig_http_free(&h);
}

/* What may not be read, cannot be subscribed to. */
static void subscriptions_need_the_right(void **state)
{
	struct rig_peer p;

	grant_all();
	limit("resources:read:two");
	rig_peer_open(&r, &p, r.who_acme);
	rig_handshake(&p, REV_R4, "{}");
	rig_send(&p, "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"memo://one\"}}");
	rig_expect_has(&p.box, "\"code\":-32002");
	rig_peer_close(&p);
	limit("resources:read:memo");
	rig_peer_open(&r, &p, r.who_acme);
	rig_handshake(&p, REV_R4, "{}");
	rig_send(&p, "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"memo://one\"}}");
	rig_expect_has(&p.box, "\"result\":{}");
	rig_peer_close(&p);
}

SINGLE_THREAD_SUITE(scope)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_method_beyond_the_scopes_is_refused),
		TEST(one_right_opens_its_methods_only),
		TEST(a_refusal_is_recorded_or_withheld),
		TEST(a_stream_gets_an_error),
		TEST(a_peer_that_leaves_gets_nothing),
		TEST(lists_are_cut),
		TEST(subscriptions_need_the_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
