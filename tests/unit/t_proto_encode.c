/* Results, errors and notices as text, by revision (MCP table A, B-14, D). */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "proto/caps.h"
#include "proto/encode.h"
#include "suite.h"

static const struct enc_server server = { "toolcrib", "toolcrib", "1.2", NULL };
#define INFO "\"_meta\":{\"io.modelcontextprotocol/serverInfo\":{\"name\":\"toolcrib\",\"title\":\"toolcrib\",\"version\":\"1.2\"}}"
#define ID(text) ((struct jx_span){ text, strlen(text) })

static json_t *tree(const char *text)
{
	json_t *v = NULL;

	assert_int_equal(jx_parse(text, strlen(text), &v, NULL), 0);
	return v;
}

/* The members of the result of a call, without envelope and `_meta`. */
static char *call_text(enum rev rev, const char *content, const char *structured, bool is_error)
{
	struct enc_result r = { .kind = ENC_CALL, .is_error = is_error };
	struct enc_to to = { rev, ID("1"), &server };
	json_t *c = tree(content), *s = structured ? tree(structured) : NULL;
	struct str out = STR_INIT;
	const char *head = rev == REV_R5 ? "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"resultType\":"
		"\"complete\"," :
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{";
	const char *tail = rev == REV_R5 ? "," INFO "}}" : "}}";
	char *ret;

	r.content = c;
	r.structured = s;
	encode_result(&out, &to, &r);
	assert_memory_equal(out.p, head, strlen(head));
	assert_string_equal(out.p + out.len - strlen(tail), tail);
	ret = mem_strndup(out.p + strlen(head), out.len - strlen(head) - strlen(tail));
	str_fini(&out);
	json_decref(c);
	json_decref(s);
	return ret;
}

static void expect_call(enum rev rev, const char *content, const char *structured, bool is_error,
	const char *want)
{
	char *got = call_text(rev, content, structured, is_error);

	assert_string_equal(got, want);
	free(got);
}

#define TEXT(t) "{\"type\":\"text\",\"text\":\"" t "\"}"

/* MCP T-22, T-31 */
static void text_is_the_same_everywhere(void **state)
{
	for (enum rev r = REV_R1; r < REV_COUNT; r++) {
		expect_call(r, "[" TEXT("hi") "]", NULL, false, "\"content\":[" TEXT("hi") "]");
		expect_call(r, "[]", NULL, false, "\"content\":[]");
		expect_call(r, "[" TEXT("no") "]", NULL, true, "\"content\":[" TEXT("no") "],\"isError\":true");
	}
}

/* MCP T-32, T-33, B-14 */
static void later_kinds_of_content_become_text(void **state)
{
	const char *audio = "[{\"type\":\"audio\",\"data\":\"AAAAAA==\",\"mimeType\":\"audio/wav\"}]";
	const char *link = "[{\"type\":\"resource_link\",\"name\":\"n\",\"uri\":\"u://x\",\"icons\":[]}]";

	for (enum rev r = REV_R1; r < REV_COUNT; r++) {
		expect_call(r, audio, NULL, false, r == REV_R1 ? "\"content\":[" TEXT("[audio audio/wav, 4 "
			"bytes]") "]" :
			    "\"content\":[{\"type\":\"audio\",\"data\":\"AAAAAA==\",\"mimeType\":"
				"\"audio/wav\"}]");
		expect_call(r, link, NULL, false, r <= REV_R2 ? "\"content\":[" TEXT("[resource n: u:"
			"//x]") "]" :
			    r == REV_R3 ? "\"content\":[{\"type\":\"resource_link\",\"name\":\"n\",\"uri\":"
				"\"u://x\"}]" :
			    "\"content\":[{\"type\":\"resource_link\",\"name\":\"n\",\"uri\":\"u://x\","
				"\"icons\":[]}]");
	}
}

/* MCP M-02, T-34 */
static void members_are_not_sent_before_their_revision(void **state)
{
	const char *block = "[{\"type\":\"text\",\"text\":\"t\",\"_meta\":{\"a\":1},\"annotations\":{"
		"\"priority\":1,"
		"\"lastModified\":\"2026-01-01T00:00:00Z\"}}]";

	expect_call(REV_R2, block, NULL, false,
		    "\"content\":[{\"type\":\"text\",\"text\":\"t\",\"annotations\":{\"priority\":1}}]");
	expect_call(REV_R3, block, NULL, false, "\"content\":[{\"type\":\"text\",\"text\":\"t\",\"_meta\":{"
		"\"a\":1},"
		    "\"annotations\":{\"priority\":1,\"lastModified\":\"2026-01-01T00:00:00Z\"}}]");
}

/* MCP T-20, T-28, T-27, B-16 */
static void structured_content_follows_the_revision(void **state)
{
	expect_call(REV_R2, "[]", "{\"a\":1}", false, "\"content\":[" TEXT("{\\\"a\\\":1}") "]");
	expect_call(REV_R3, "[]", "{\"a\":1}", false,
		    "\"content\":[" TEXT("{\\\"a\\\":1}") "],\"structuredContent\":{\"a\":1}");
	expect_call(REV_R4, "[" TEXT("x") "]", "[1]", false,
		    "\"content\":[" TEXT("x") "],\"structuredContent\":{\"result\":[1]}");
	expect_call(REV_R5, "[" TEXT("x") "]", "[1]", false, "\"content\":[" TEXT("x") "],"
		"\"structuredContent\":[1]");
	expect_call(REV_R5, "[]", "null", false, "\"content\":[" TEXT("null") "],\"structuredContent\":null");
}

static void a_value_without_a_wrapped_schema_is_left_out(void **state)
{
	struct enc_result r = { .kind = ENC_CALL, .unwrapped = true };
	struct enc_to to = { REV_R4, ID("1"), &server };
	json_t *s = tree("[1]"), *c = tree("[]");
	struct str out = STR_INIT;

	r.structured = s;
	r.content = c;
	encode_result(&out, &to, &r);
	assert_null(strstr(out.p, "structuredContent"));
	str_fini(&out);
	json_decref(s);
	json_decref(c);
}

/* MCP B-16: a schema like anyOf has no root type, and is listed as {result: schema}. */
static void an_object_is_wrapped_when_its_schema_is(void **state)
{
	struct enc_result r = { .kind = ENC_CALL, .wrapped = true };
	struct enc_to to = { REV_R4, ID("1"), &server };
	json_t *s = tree("{\"a\":1}"), *c = tree("[]");
	struct str out = STR_INIT;

	r.structured = s;
	r.content = c;
	encode_result(&out, &to, &r);
	assert_non_null(strstr(out.p, "\"structuredContent\":{\"result\":{\"a\":1}}"));
	str_reset(&out);
	to.rev = REV_R5;
	encode_result(&out, &to, &r);
	assert_non_null(strstr(out.p, "\"structuredContent\":{\"a\":1}"));
	str_fini(&out);
	json_decref(s);
	json_decref(c);
}

/* MCP D: the result of R0. */
static void r0_has_tool_result(void **state)
{
	expect_call(REV_R0, "[]", "[1]", false, "\"toolResult\":[1],\"content\":[" TEXT("[1]") "]");
	expect_call(REV_R0, "[" TEXT("{\\\"a\\\":1}") "]", NULL, false,
		    "\"toolResult\":{\"a\":1},\"content\":[" TEXT("{\\\"a\\\":1}") "]");
	expect_call(REV_R0, "[" TEXT("plain") "]", NULL, false, "\"toolResult\":\"plain\",\"content\":"
		"[" TEXT("plain") "]");
	expect_call(REV_R0, "[" TEXT("no") "]", NULL, true,
		    "\"toolResult\":{\"error\":\"no\",\"status\":\"error\"},\"content\":[" TEXT("no") "],"
			"\"isError\":true");
	expect_call(REV_R0, "[" TEXT("no") "]", "{\"status\":502}", true,
		    "\"toolResult\":{\"error\":\"no\",\"status\":502},\"content\":[" TEXT("no") "],"
			"\"isError\":true");
}

static void expect_result(enum rev rev, const struct enc_result *r, const char *want)
{
	struct enc_to to = { rev, ID("\"a\""), &server };
	struct str out = STR_INIT;

	encode_result(&out, &to, r);
	assert_string_equal(out.p, want);
	str_fini(&out);
}

/* MCP I-02, L-09, J-13, and ping's empty object. */
static void legacy_results_carry_nothing_modern(void **state)
{
	expect_result(REV_R4, &(struct enc_result){ .kind = ENC_EMPTY },
		"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{}}");
	expect_result(REV_R4, &(struct enc_result){ .kind = ENC_LIST, .page = "[]", .page_len = 2 },
		      "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"tools\":[]}}");
	expect_result(REV_R2, &(struct enc_result){ .kind = ENC_INITIALIZE },
		      "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"protocolVersion\":\"2025-03-26\","
			"\"capabilities\":"
		      "{\"logging\":{},\"tools\":{\"listChanged\":true}},\"serverInfo\":{\"name\":"
			"\"toolcrib\",\"version\":\"1.2\"}}}");
}

/* MCP B-47, J-12, T-07, M-08, N-06 */
static void modern_results_are_complete(void **state)
{
	expect_result(REV_R5, &(struct enc_result){ .kind = ENC_LIST, .page = "[]", .page_len = 2,
		.next = "v1.x", .next_len = 4 },
		      "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"resultType\":\"complete\",\"tools\":"
			"[],\"nextCursor\":\"v1.x\","
		      "\"ttlMs\":5000,\"cacheScope\":\"private\"," INFO "}}");
	expect_result(REV_R5, &(struct enc_result){ .kind = ENC_DISCOVER },
		      "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"resultType\":\"complete\","
			"\"supportedVersions\":[\"2026-07-28\","
		      "\"2025-11-25\",\"2025-06-18\",\"2025-03-26\",\"2024-11-05\"],\"capabilities\":{"
			"\"extensions\":{\"io.modelcontextprotocol/tasks\":{}},\"logging\":{},\"tools\":"
		      "{\"listChanged\":true}},\"ttlMs\":60000,\"cacheScope\":\"private\"," INFO "}}");
	expect_result(REV_R5, &(struct enc_result){ .kind = ENC_LISTEN_END },
		      "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"resultType\":\"complete\",\"_meta\":"
		      "{\"io.modelcontextprotocol/subscriptionId\":\"a\","
			"\"io.modelcontextprotocol/serverInfo\":"
		      "{\"name\":\"toolcrib\",\"title\":\"toolcrib\",\"version\":\"1.2\"}}}}");
}

static void what_the_server_is_called_may_be_written_before(void **state)
{
	struct enc_server with = server;
	char *text = enc_server_text(&server);
	const enum enc_kind kinds[] = { ENC_EMPTY, ENC_INITIALIZE, ENC_DISCOVER };

	with.text = text;
	for (enum rev rev = REV_R0; rev < REV_COUNT; rev++)
		for (size_t i = 0; i < NELEMS(kinds); i++) {
			const struct enc_to to = { rev, ID("1"), &server }, written = { rev, ID("1"), &with };
			const struct enc_result r = { .kind = kinds[i] };
			struct str want = STR_INIT, got = STR_INIT;

			encode_result(&want, &to, &r);
			encode_result(&got, &written, &r);
			assert_string_equal(str_text(&got), str_text(&want));
			str_fini(&want);
			str_fini(&got);
		}
	free(text);
}

/* MCP R-02, T-07 */
static void input_required_asks_and_is_not_cached(void **state)
{
	json_t *requests = tree("{\"k\":{\"method\":\"roots/list\",\"params\":{}}}");

	expect_result(REV_R5, &(struct enc_result){ .kind = ENC_INPUT, .requests = requests, .state = "v1.s" },
		      "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"resultType\":\"input_required\","
			"\"inputRequests\":"
		      "{\"k\":{\"method\":\"roots/list\",\"params\":{}}},\"requestState\":\"v1.s\"," INFO "}}");
	json_decref(requests);
}

/* MCP M-03, M-04, M-05, B-44, AUDIT A-203 */
static void meta_of_a_tool_loses_reserved_keys(void **state)
{
	static const uint8_t id[16] = { 1 };
	json_t *meta = tree("{\"io.modelcontextprotocol/serverInfo\":1,\"x.example/y\":2,"
		"\"dev.toolcrib/callId\":\"forged\"}");
	json_t *content = tree("[]");

	expect_result(REV_R3, &(struct enc_result){ .kind = ENC_CALL, .content = content, .meta = meta,
		.call_id = id },
		      "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"content\":[],\"_meta\":{"
			"\"x.example/y\":2,"
		      "\"dev.toolcrib/callId\":\"01000000-0000-0000-0000-000000000000\"}}}");
	json_decref(meta);
	json_decref(content);
}

static void expect_error(enum rev rev, struct jx_span id, struct rpc_error *e, const char *want)
{
	struct enc_to to = { rev, id, &server };
	struct str out = STR_INIT;

	encode_error(&out, &to, e);
	assert_string_equal(out.p, want);
	str_fini(&out);
	rpc_error_fini(e);
}

/* MCP J-07, J-08, B-05 */
static void an_unreadable_id_is_null_or_left_out(void **state)
{
	for (enum rev r = REV_R0; r < REV_COUNT; r++) {
		struct rpc_error e;

		rpc_error_init(&e, FAULT_PARSE, NULL);
		expect_error(r, (struct jx_span){ NULL, 0 }, &e, r >= REV_R4 ?
			     "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,\"message\":\"Parse error\"}}" :
			     "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":"
				"\"Parse error\"}}");
	}
}

/* MCP T-23, D: R0 names the tool in data alone. */
static void unknown_tool_has_the_words_of_its_revision(void **state)
{
	struct rpc_error e;

	rpc_error_unknown_tool(&e, REV_R0, "x\"", 2);
	expect_error(REV_R0, ID("1"), &e, "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32602,"
		"\"message\":\"Invalid params\","
		     "\"data\":{\"reason\":\"Unknown tool: x\\\"\"}}}");
	rpc_error_unknown_tool(&e, REV_R4, "x\"", 2);
	expect_error(REV_R4, ID("1"), &e, "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32602,"
		"\"message\":"
		     "\"Unknown tool: x\\\"\",\"data\":{\"reason\":\"Unknown tool: x\\\"\"}}}");
}

/* MCP E-14, E-15, AUDIT */
static void own_refusals_say_when_to_try_again(void **state)
{
	struct rpc_error e;

	rpc_error_rate(&e, 1500);
	assert_int_equal(rpc_error_status(&e, ERA_LEGACY), 429);
	assert_int_equal(rpc_error_status(&e, ERA_MODERN), 429);
	assert_int_equal(rpc_error_retry_after_s(&e), 2);
	expect_error(REV_R5, ID("1"), &e, "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":4290,\"message\":"
		     "\"Rate limit exceeded\",\"data\":{\"retryAfterMs\":1500}}}");
	rpc_error_audit(&e, false);
	assert_int_equal(rpc_error_status(&e, ERA_LEGACY), 503);
	assert_int_equal(rpc_error_retry_after_s(&e), 2);
	expect_error(REV_R5, ID("1"), &e, "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":5030,\"message\":"
		     "\"The call was not run: the audit store is unavailable\",\"data\":{\"reason\":"
			"\"audit_unavailable\","
		     "\"retryable\":true,\"executed\":false}}}");
	rpc_error_audit(&e, true);
	assert_non_null(strstr(e.data.p, "\"executed\":true,\"outcome\":\"unrecorded\""));
	rpc_error_fini(&e);
}

/* MCP B-51: no endless retry with what was refused. */
static void a_legacy_claim_is_offered_modern_versions_only(void **state)
{
	struct rpc_error e;

	rpc_error_version(&e, "2025-11-25");
	assert_string_equal(e.data.p, "\"supported\":[\"2026-07-28\"],\"requested\":\"2025-11-25\"");
	assert_int_equal(rpc_error_status(&e, ERA_MODERN), 400);
	rpc_error_fini(&e);
	rpc_error_version(&e, "v999");
	assert_non_null(strstr(e.data.p, "2024-11-05"));
	assert_null(strstr(e.data.p, "2024-10-07"));
	rpc_error_fini(&e);
}

/* MCP M-10, E-06 */
static void a_missing_capability_is_an_object(void **state)
{
	struct rpc_error e;

	rpc_error_capability(&e, CAP_SAMPLING);
	assert_string_equal(e.data.p, "\"requiredCapabilities\":{\"sampling\":{}}");
	assert_int_equal(e.code, -32021);
	rpc_error_fini(&e);
}

/* MCP E-02, E-03, E-08 */
static void codes_of_tools_stay_out_of_reserved_ranges(void **state)
{
	static const struct { enum rev rev; int code, want; } rows[] = {
		{ REV_R4, -32002, -32002 }, { REV_R5, -32002, -32602 }, { REV_R5, -32042, -32603 }, { REV_R5,
			-32000, -32603 },
		{ REV_R5, -32099, -32603 }, { REV_R5, -32100, -32100 }, { REV_R5, -32602, -32602 }, { REV_R5,
			7, 7 },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		struct rpc_error e;

		rpc_error_tool(&e, rows[i].rev, rows[i].code, "m", NULL);
		assert_int_equal(e.code, rows[i].want);
		rpc_error_fini(&e);
	}
}

/* MCP E-11, 14.4 */
static void unknown_methods_are_404_in_the_modern_era_only(void **state)
{
	struct rpc_error e;

	rpc_error_init(&e, FAULT_METHOD, "Method not found: %s", "x");
	assert_int_equal(rpc_error_status(&e, ERA_LEGACY), 200);
	assert_int_equal(rpc_error_status(&e, ERA_MODERN), 404);
	rpc_error_fini(&e);
}

/* MCP S-01 */
static void notices_are_one_line_each(void **state)
{
	struct str out = STR_INIT;
	struct enc_progress p = { ID("\"t\""), 0.5, -1, "a\nb" };

	encode_progress(&out, REV_R1, &p);
	assert_string_equal(out.p, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":"
			    "{\"progressToken\":\"t\",\"progress\":0.5}}");
	str_reset(&out);
	p.total = 10;
	encode_progress(&out, REV_R2, &p);
	assert_string_equal(out.p, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":"
			    "{\"progressToken\":\"t\",\"progress\":0.5,\"total\":10,\"message\":\"a\\nb\"}}");
	str_reset(&out);
	encode_list_changed(&out, ENC_TOOLS, (struct jx_span){ NULL, 0 });
	assert_string_equal(out.p, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}");
	str_reset(&out);
	encode_list_changed(&out, ENC_TOOLS, ID("7"));
	assert_string_equal(out.p, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\","
		"\"params\":"
			    "{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":7}}}");
	str_reset(&out);
	encode_listen_ack(&out, ID("7"), &(struct enc_filter){ .lists = ENC_ON_TOOLS });
	assert_string_equal(out.p, "{\"jsonrpc\":\"2.0\",\"method\":"
		"\"notifications/subscriptions/acknowledged\",\"params\":"
			    "{\"notifications\":{\"toolsListChanged\":true},\"_meta\":{"
				"\"io.modelcontextprotocol/subscriptionId\":7}}}");
	str_fini(&out);
}

SINGLE_THREAD_SUITE(encode)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_the_same_everywhere),
		cmocka_unit_test(later_kinds_of_content_become_text),
		cmocka_unit_test(members_are_not_sent_before_their_revision),
		cmocka_unit_test(structured_content_follows_the_revision),
		cmocka_unit_test(a_value_without_a_wrapped_schema_is_left_out),
		cmocka_unit_test(an_object_is_wrapped_when_its_schema_is),
		cmocka_unit_test(r0_has_tool_result),
		cmocka_unit_test(legacy_results_carry_nothing_modern),
		cmocka_unit_test(modern_results_are_complete), cmocka_unit_test(what_the_server_is_called_may_be_written_before),
		cmocka_unit_test(input_required_asks_and_is_not_cached),
		cmocka_unit_test(meta_of_a_tool_loses_reserved_keys),
		cmocka_unit_test(an_unreadable_id_is_null_or_left_out),
		cmocka_unit_test(unknown_tool_has_the_words_of_its_revision),
		cmocka_unit_test(own_refusals_say_when_to_try_again),
		cmocka_unit_test(a_legacy_claim_is_offered_modern_versions_only),
		cmocka_unit_test(a_missing_capability_is_an_object),
		cmocka_unit_test(codes_of_tools_stay_out_of_reserved_ranges),
		cmocka_unit_test(unknown_methods_are_404_in_the_modern_era_only),
		cmocka_unit_test(notices_are_one_line_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
