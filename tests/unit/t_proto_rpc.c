/* The JSON-RPC envelope. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "proto/rpc.h"
#include "proto/trace.h"
#include "suite.h"

static int read_msg(const char *text, struct rpc_msg *msg)
{
	struct err err = { 0 };
	int rc = rpc_scan(text, strlen(text), msg, &err);

	return rc < 0 ? rc : rpc_check(msg, &err);
}

static void a_request_has_method_and_id(void **state)
{
	struct rpc_msg msg;

	assert_int_equal(read_msg(" {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{"
		"\"name\":\"a\","
				  "\"arguments\":{\"x\": 1.0},\"_meta\":{}}}\r", &msg), 0);
	assert_int_equal(msg.kind, RPC_REQUEST);
	assert_true(text_eq(msg.id.p, msg.id.len, "7"));
	assert_string_equal(msg.method, "tools/call");
	assert_true(text_eq(msg.name.p, msg.name.len, "\"a\""));
	assert_true(text_eq(msg.arguments.p, msg.arguments.len, "{\"x\": 1.0}"));
	assert_true(text_eq(msg.meta.p, msg.meta.len, "{}"));
	assert_false(msg.params_bad);
}

static void kinds_are_told_apart(void **state)
{
	static const struct { const char *text; int rc; enum rpc_kind kind; } rows[] = {
		{ "{\"jsonrpc\":\"2.0\",\"method\":\"x\"}", 0, RPC_NOTICE },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", 0, RPC_RESPONSE },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}", 0, RPC_RESPONSE },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{},\"result\":{}}", ERR_INVALID, 0 },
			/* MCP J-05 */
		{ "{\"jsonrpc\":\"2.0\",\"id\":1}", ERR_INVALID, 0 },
		{ "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"x\"}", ERR_INVALID, 0 },
			/* MCP J-01 */
		{ "{\"id\":1,\"method\":\"x\"}", ERR_INVALID, 0 },
		{ "{\"jsonrpc\":2.0,\"id\":1,\"method\":\"x\"}", ERR_INVALID, 0 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}", ERR_INVALID, 0 },
		{ "5", ERR_INVALID, 0 },
		{ "\"x\"", ERR_INVALID, 0 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":1,\"method\":\"x\"}", ERR_CONFLICT, 0 },
			/* MCP B-33 */
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"", ERR_INVALID, 0 },
		{ "", ERR_INVALID, 0 },
	};
	struct rpc_msg msg;

	for (size_t i = 0; i < NELEMS(rows); i++) {
		assert_int_equal(read_msg(rows[i].text, &msg), rows[i].rc);
		if (rows[i].rc == 0)
			assert_int_equal(msg.kind, rows[i].kind);
	}
}

/* MCP J-02, B-04: the raw token survives, what is no id is refused, and its text is not taken over. */
static void ids_are_tokens(void **state)
{
	static const struct { const char *id; bool ok; } rows[] = {
		{ "1", true }, { "\"1\"", true }, { "9007199254740993", true }, { "-5", true }, { "0", true },
		{ "\"\"", true }, { "123456789012345678901234567890", true }, { "\"\\u0041\"", true },
		{ "null", false }, { "true", false }, { "{}", false }, { "[]", false }, { "1.0", false },
			{ "1e3", false },
		{ "1.5", false },
	};
	char text[256];
	struct rpc_msg msg;

	for (size_t i = 0; i < NELEMS(rows); i++) {
		(void)snprintf(text, sizeof text, "{\"id\":%s,\"jsonrpc\":\"2.0\",\"method\":\"x\"}",
			rows[i].id);
		assert_int_equal(read_msg(text, &msg), rows[i].ok ? 0 : ERR_INVALID);
		assert_int_equal(msg.id.p != NULL, rows[i].ok);
		if (rows[i].ok)
			assert_true(text_eq(msg.id.p, msg.id.len, rows[i].id));
	}
}

static void a_string_id_ends_at_its_limit(void **state)
{
	for (size_t n = RPC_ID_MAX; n <= RPC_ID_MAX + 1; n++) {
		struct str s = STR_INIT;
		struct rpc_msg msg;

		str_puts(&s, "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"id\":\"");
		for (size_t i = 0; i < n; i++)
			str_putc(&s, 'a');
		str_puts(&s, "\"}");
		assert_int_equal(read_msg(s.p, &msg), n == RPC_ID_MAX ? 0 : ERR_INVALID);
		str_fini(&s);
	}
}

/* MCP B-52 */
static void params_of_another_kind_are_noted(void **state)
{
	struct rpc_msg msg;

	assert_int_equal(read_msg("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":[]}", &msg), 0);
	assert_true(msg.params_bad);
	assert_null(msg.params.p);
	assert_int_equal(read_msg("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":null}", &msg), 0);
	assert_true(msg.params_bad);
}

static void an_array_is_walked(void **state)
{
	const char *text = "[ {\"a\":[1,\"]\"]} ,2, \"x,\\\"]\" ,[] ]";
	static const char *const want[] = { "{\"a\":[1,\"]\"]}", "2", "\"x,\\\"]\"", "[]" };
	struct rpc_msg msg;
	struct rpc_walk w;
	struct jx_span v;
	size_t n = 0;

	assert_int_equal(rpc_scan(text, strlen(text), &msg, NULL), 0);
	assert_true(msg.array);
	rpc_walk_start(&w, (struct jx_span){ text, strlen(text) });
	for (; rpc_walk_element(&w, &v); n++)
		assert_true(text_eq(v.p, v.len, want[n]));
	assert_int_equal(n, NELEMS(want));
	rpc_walk_start(&w, (struct jx_span){ "[ ]", 3 });
	assert_false(rpc_walk_element(&w, &v));
}

static void meta_is_read_by_its_full_names(void **state)
{
	const char *text = "{ \"progressToken\" : 5 , \"io.modelcontextprotocol/protocolVersion\":"
		"\"2026-07-28\","
		"\"io.modelcontextprotocol\\/clientCapabilities\":{\"x\":\"}\"},\"other\":{\"progressToken\":"
			"6}}";
	struct rpc_meta meta;

	rpc_meta_read((struct jx_span){ text, strlen(text) }, &meta);
	assert_true(text_eq(meta.token.p, meta.token.len, "5"));
	assert_true(text_eq(meta.claim.p, meta.claim.len, "\"2026-07-28\""));
	assert_true(text_eq(meta.caps.p, meta.caps.len, "{\"x\":\"}\"}"));
	assert_null(meta.client.p);
	rpc_meta_read((struct jx_span){ "[1]", 3 }, &meta);
	assert_null(meta.claim.p);
	rpc_meta_read((struct jx_span){ NULL, 0 }, &meta);
	assert_null(meta.claim.p);
}

static void strings_are_cut_between_characters(void **state)
{
	struct jx_span raw = { "\"a\xC3\xA9z\"", 6 }, escaped = { "\"\\u0000\\u00e9\"", 14 };
	char buf[8];
	size_t len;

	assert_true(rpc_string(raw, buf, sizeof buf, &len));
	assert_string_equal(buf, "a\xC3\xA9z");
	assert_true(rpc_string(raw, buf, 3, &len));
	assert_string_equal(buf, "a");
	assert_true(rpc_string(raw, buf, 4, &len));
	assert_int_equal(len, 3);
	assert_true(rpc_string(escaped, buf, sizeof buf, &len));
	assert_int_equal(len, 3);
	assert_memory_equal(buf, "\0\xC3\xA9", 4);
	assert_false(rpc_string((struct jx_span){ "5", 1 }, buf, sizeof buf, &len));
	assert_false(rpc_string((struct jx_span){ NULL, 0 }, buf, sizeof buf, &len));
}

/* MCP W-01, W-03 */
static void trace_follows_w3c_or_is_dropped(void **state)
{
#define PARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	static const char *const bad_parents[] = { "", "00-rubbish", "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", PARENT "-x", "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01" };
	static const char *const good_states[] = { "a=1", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "a=1 , b= x y,,c@d=~", "0-*/_=!" };
	static const char *const bad_states[] = { "", ",", "a", "=1", "a=", "A=1", "-a=1", "a=1=2", "a=\x01", "a=\xc3\xa4", "a=1;b\n" };
	struct trace t;

	for (size_t i = 0; i < NELEMS(bad_parents); i++)
		assert_false(trace_parse(&t, bad_parents[i], strlen(bad_parents[i]), "a=1", 3));
	assert_false(trace_parse(&t, NULL, 0, NULL, 0));
	for (size_t i = 0; i < NELEMS(good_states); i++) {
		assert_true(trace_parse(&t, PARENT, strlen(PARENT), good_states[i], strlen(good_states[i])));
		assert_string_equal(t.parent, PARENT);
		assert_string_equal(t.state, good_states[i]);
	}
	for (size_t i = 0; i < NELEMS(bad_states); i++) {
		assert_true(trace_parse(&t, PARENT, strlen(PARENT), bad_states[i], strlen(bad_states[i])));
		assert_string_equal(t.state, "");
	}
#undef PARENT
}

static void trace_state_has_limits(void **state)
{
	static const char parent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
	struct trace t;

	for (unsigned n = 32; n <= 33; n++) {
		struct str text = STR_INIT;

		for (unsigned i = 0; i < n; i++)
			str_printf(&text, "%sk%u=v", i ? "," : "", i);
		assert_true(trace_parse(&t, parent, strlen(parent), text.p, text.len));
		assert_int_equal(strlen(t.state), n == 32 ? text.len : 0);
		str_fini(&text);
	}
	for (size_t n = TRACE_STATE_MAX; n <= TRACE_STATE_MAX + 1; n++) {
		char *text = mem_printf("a=%0*d,b=%0*d,c=%0*d", 170, 1, 170, 1, (int)n - 348, 1);

		assert_int_equal(strlen(text), n);
		assert_true(trace_parse(&t, parent, strlen(parent), text, n));
		assert_int_equal(strlen(t.state), n == TRACE_STATE_MAX ? n : 0);
		free(text);
	}
}

SINGLE_THREAD_SUITE(rpc)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_has_method_and_id),
		cmocka_unit_test(kinds_are_told_apart),
		cmocka_unit_test(ids_are_tokens),
		cmocka_unit_test(a_string_id_ends_at_its_limit),
		cmocka_unit_test(params_of_another_kind_are_noted),
		cmocka_unit_test(an_array_is_walked),
		cmocka_unit_test(meta_is_read_by_its_full_names),
		cmocka_unit_test(strings_are_cut_between_characters),
		cmocka_unit_test(trace_follows_w3c_or_is_dropped),
		cmocka_unit_test(trace_state_has_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
