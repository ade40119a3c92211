/* Eras and revisions: whose rules a message follows, on byte streams and HTTP (MCP C.1, B-01 to B-11, 14.4). */

#include "config.h"

#include "mcp_rig.h"
#include "suite.h"

#include <stdio.h>

#define RPC(id, method) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\"}"
#define PING(id) RPC(id, "ping")
#define CLAIM_META "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"," \
	"\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define MODERN_HEAD(m) { .version = "2026-07-28", .method = m }
#define EMPTY(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":{}}"

static struct rig r;
static struct rig_peer p;

static int set_up(void **state)
{
	rig_open(&r);
	rig_peer_open(&r, &p, r.who_acme);
	return 0;
}

static int tear_down(void **state)
{
	rig_peer_close(&p);
	rig_close(&r);
	return 0;
}

static void post(struct rig_http *h, const struct rig_head *head, const char *body)
{
	rig_post(&r, h, r.who_acme, head, body);
	assert_true(h->finished);
}

/* One refusal over HTTP: status and a part of the body. */
static void refused(const struct rig_head *head, const char *body, int status, const char *part)
{
	struct rig_http h;

	post(&h, head, body);
	assert_int_equal(h.status, status);
	rig_expect_has(&h.box, part);
	rig_http_free(&h);
}

/* MCP L-02, B-08: echo, else the newest that has a handshake. */
static void initialize_negotiates(void **state)
{
	static const struct { const char *asked, *want; } rows[] = {
		{ "2024-10-07", "2024-10-07" }, { "2024-11-05", "2024-11-05" }, { "2025-03-26", "2025-03-26" },
		{ "2025-06-18", "2025-06-18" }, { "2025-11-25", "2025-11-25" }, { "2026-07-28", "2025-11-25" },
		{ "2030-01-01", "2025-11-25" }, { "1.0", "2025-11-25" }, { "", "2025-11-25" },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		char *line = mem_printf("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":"
					"{\"protocolVersion\":\"%s\"}}", rows[i].asked);
		char *want = mem_printf("\"protocolVersion\":\"%s\"", rows[i].want);

		rig_send(&p, line);
		rig_expect_has(&p.box, want);
		free(line);
		free(want);
	}
	rig_send(&p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
		"\"protocolVersion\":5}}");
	rig_expect_has(&p.box, "-32602");
	rig_send(&p, RPC("1", "initialize"));
	rig_expect_has(&p.box, "-32602");
}

/* MCP K-01, B-02 */
static void before_a_handshake_only_ping_is_legacy(void **state)
{
	rig_send(&p, PING("1"));
	rig_expect(&p.box, EMPTY("1"));
	rig_send(&p, RPC("2", "tools/list"));
	rig_expect_has(&p.box, "\"id\":2,\"error\":{\"code\":-32602,\"message\":\"Send initialize first, or "
		"put");
	rig_send(&p, RPC("3", "server/discover"));
	rig_expect_has(&p.box, "-32602");
	rig_handshake(&p, REV_R4, "{}");
	rig_send(&p, RPC("4", "server/discover"));
	rig_expect_has(&p.box, "-32601");
	rig_send(&p, RPC("5", "tools/list"));
	rig_expect_has(&p.box, "\"result\":{\"tools\":[{\"name\":\"echo\"");
}

/* MCP V-01, V-03, B-01: a probe pins nothing (claude-code speaks like this). */
static void discover_then_initialize_on_one_pipe(void **state)
{
	char *discover = rig_modern_line("1", "server/discover", "", "{}");
	char *list = rig_modern_line("3", "tools/list", "", "{}");

	rig_send(&p, discover);
	rig_expect_has(&p.box, "\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"");
	rig_handshake(&p, REV_R3, "{}");
	rig_send(&p, list);
	rig_expect_has(&p.box, "\"ttlMs\":5000");
	rig_send(&p, RPC("4", "tools/list"));
	assert_null(strstr(rig_next(&p.box), "ttlMs"));
	rig_send(&p, discover);
	rig_expect_has(&p.box, "supportedVersions");
	free(discover);
	free(list);
}

/* MCP B-07: what is sent right behind initialize is served. */
static void requests_may_follow_initialize_at_once(void **state)
{
	rig_feed(&p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
		"\"protocolVersion\":\"2025-11-25\"}}");
	rig_feed(&p, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
	rig_feed(&p, RPC("2", "tools/list"));
	rig_turn(&r);
	rig_expect_has(&p.box, "\"id\":1,\"result\"");
	rig_expect_has(&p.box, "\"id\":2,\"result\"");
}

/* MCP J-02, B-04: kinds of ids stay apart, and are replayed byte by byte. */
static void ids_are_replayed(void **state)
{
	static const char *const ids[] = { "1", "\"1\"", "9007199254740993", "\"\\u0041\"", "-1" };

	for (size_t i = 0; i < NELEMS(ids); i++) {
		char *line = mem_printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"ping\"}", ids[i]);
		char *want = mem_printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}", ids[i]);

		rig_send(&p, line);
		rig_expect(&p.box, want);
		free(line);
		free(want);
	}
	rig_send(&p, PING("null"));
	rig_expect_has(&p.box, "\"id\":null,\"error\":{\"code\":-32600");
	rig_send(&p, PING("1.5"));
	rig_expect_has(&p.box, "-32600");
}

/* MCP B-43: the newcomer is refused, the first is left alone; both eras share the table. */
static void an_id_in_flight_is_refused_to_the_second(void **state)
{
	char *call = rig_modern_line("7", "tools/call", ",\"name\":\"echo\"", "{}");
	char *text = rig_modern_line("\"7\"", "tools/call", ",\"name\":\"echo\"", "{}");

	rig_send(&p, call);
	rig_none(&p.box);
	rig_send(&p, PING("7"));
	rig_expect_has(&p.box, "\"id\":7,\"error\":{\"code\":-32600");
	rig_send(&p, text);     /* "7" is another id */
	rig_none(&p.box);
	rig_end_text(r.calls[0], "one");
	rig_expect_has(&p.box, "\"id\":7,\"result\"");
	rig_send(&p, PING("7"));        /* MCP J-04: free again */
	rig_expect_has(&p.box, "\"id\":7,\"result\":{}");
	rig_end_text(r.calls[1], "two");
	rig_expect_has(&p.box, "\"id\":\"7\",\"result\"");
	free(call);
	free(text);
}

static void feed_numbered(const char *format, int id)
{
	char line[256];

	snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"%s}", id, format);
	rig_feed(&p, line);
}

static void the_table_of_ids_has_a_limit(void **state)
{
	rig_handshake(&p, REV_R4, "{}");
	for (int i = 0; i < MCP_INFLIGHT_MAX; i++)
		feed_numbered("tools/call\",\"params\":{\"name\":\"echo\"}", i);
	rig_turn(&r);
	rig_none(&p.box);
	assert_int_equal(mcp_channel_busy(p.ch), MCP_INFLIGHT_MAX);
	feed_numbered("ping\"", MCP_INFLIGHT_MAX);
	rig_turn(&r);
	rig_expect_has(&p.box, "\"id\":1024,\"error\":{\"code\":4290");
	rig_end_text(r.calls[0], "ok");
	(void)rig_next(&p.box);
	feed_numbered("ping\"", MCP_INFLIGHT_MAX);
	rig_turn(&r);
	rig_expect_has(&p.box, "\"id\":1024,\"result\"");
}

/* MCP J-06 */
static void notices_are_never_answered(void **state)
{
	static const char *const lines[] = {
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/unknown\"}",
		"{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":[]}",
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":99}}",
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":{}}}",
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}",
		"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}",
	};

	for (size_t i = 0; i < NELEMS(lines); i++)
		rig_send(&p, lines[i]);
	assert_int_equal(p.finishes, NELEMS(lines));
	rig_none(&p.box);
}

/* MCP B-06: sockets close at the first line that is no JSON object or array; stdio goes on. */
static void what_is_not_json_closes_a_socket(void **state)
{
	static const struct { const char *line, *part; bool closes; } rows[] = {
		{ "POST / HTTP/1.1", "-32700", true },
		{ "{\"jsonrpc\":\"2.0\"", "-32700", true },
		{ "\"text\"", "-32600", true },
		{ "{}", "-32600", false },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":1,\"method\":\"ping\"}",
			"\"id\":1,\"error\":{\"code\":-32600", false },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		p.told_to_close = false;
		rig_send(&p, rows[i].line);
		rig_expect_has(&p.box, rows[i].part);
		assert_int_equal(p.told_to_close, rows[i].closes);
		if (!rows[i].closes)
			continue;
		rig_send(&p, PING("1"));                /* the body behind a browser's head is never read */
		rig_none(&p.box);
		rig_peer_close(&p);
		rig_peer_open(&r, &p, r.who_acme);
	}
	p.told_to_close = false;
	p.tport = AUDIT_STDIO;
	rig_send(&p, "no JSON");
	rig_expect_has(&p.box, "\"id\":null,\"error\":{\"code\":-32700");
	assert_false(p.told_to_close);
}

static void what_follows_in_the_same_read_is_not_heard(void **state)
{
	rig_feed(&p, "POST / HTTP/1.1");
	p.told_to_close = true; /* as it will be: the refusal is deferred */
	rig_feed(&p, PING("1"));
	rig_turn(&r);
	rig_expect_has(&p.box, "-32700");
	rig_none(&p.box);
}

/* MCP J-09, J-10, B-03 */
static void batches_are_part_of_two_revisions(void **state)
{
	for (enum rev rev = REV_R0; rev <= REV_R4; rev++) {
		rig_handshake(&p, rev, "{}");
		rig_send(&p, "[" PING("1") ",{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}," RPC("2",
			"nope") "]");
		if (rev_table[rev].batches)
			rig_expect(&p.box, "[" EMPTY("1") ",{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{"
				"\"code\":-32601,"
				   "\"message\":\"Method not found: nope\"}}]");
		else
			rig_expect_has(&p.box, "\"error\":{\"code\":-32600");
		assert_false(p.told_to_close);
	}
}

/* MCP L-08, J-09 */
static void batches_are_refused_as_a_whole(void **state)
{
	struct str s = STR_INIT;

	rig_send(&p, "[" PING("1") "]");        /* before any handshake */
	rig_expect_has(&p.box, "-32600");
	rig_handshake(&p, REV_R2, "{}");
	rig_send(&p, "[]");
	rig_expect_has(&p.box, "-32600");
	rig_send(&p, "[" PING("1") "," RPC("2", "initialize") "]");
	rig_expect_has(&p.box, "-32600");
	rig_send(&p, "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{" CLAIM_META "}}]");
	rig_expect_has(&p.box, "-32600");
	for (int n = MCP_BATCH_MAX; n <= MCP_BATCH_MAX + 1; n++) {
		str_reset(&s);
		for (int i = 0; i < n; i++)
			str_printf(&s, "%c{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}",
				i ? ',' : '[', i);
		str_puts(&s, "]");
		rig_send(&p, s.p);
		rig_expect_has(&p.box, n == MCP_BATCH_MAX ? "{\"jsonrpc\":\"2.0\",\"id\":49,\"result\":{}}"
			"]" : "-32600");
	}
	rig_send(&p, "[5,[],{}]");      /* each bad member has its own error */
	rig_expect_has(&p.box, "[{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":"
		"\"Invalid Request\"}},{");
	rig_send(&p, "[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}]");
	rig_none(&p.box);
	str_fini(&s);
}

/* MCP J-09 */
static void a_batch_waits_for_its_calls(void **state)
{
	rig_handshake(&p, REV_R2, "{}");
	rig_send(&p, "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\"}},"
		 "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\"}}," PING("3") "]");
	rig_none(&p.box);
	rig_end_text(r.calls[1], "two");
	rig_none(&p.box);
	rig_end_text(r.calls[0], "one");
	rig_expect_has(&p.box, "[{\"jsonrpc\":\"2.0\",\"id\":3,");
	rig_none(&p.box);
}

/* MCP G-04, M-06, M-07, B-41, E-12: what a modern request must bring. */
static void incomplete_meta_is_named(void **state)
{
	static const struct { const char *params; const char *part; } rows[] = {
		{ "", "\"missing\":[\"io.modelcontextprotocol/protocolVersion\","
			"\"io.modelcontextprotocol/clientCapabilities\"]" },
		{ ",\"params\":{}", "protocolVersion\",\"io" },
		{ ",\"params\":{\"_meta\":5}", "protocolVersion\",\"io" },
		{ ",\"params\":{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}",
			"\"missing\":[\"io.modelcontextprotocol/clientCapabilities\"]" },
		{ ",\"params\":{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
			"\"io.modelcontextprotocol/clientCapabilities\":[]}}", "\"missing\":[" },
		{ ",\"params\":{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":5,"
			"\"io.modelcontextprotocol/clientCapabilities\":{}}}",
			"\"missing\":[\"io.modelcontextprotocol/protocolVersion\"]" },
		{ ",\"params\":{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
			"\"io.modelcontextprotocol/clientCapabilities\":{},"
				"\"io.modelcontextprotocol/clientInfo\":{\"name\":\"x\"}}}",
			"clientInfo" },
		{ ",\"params\":{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
			"\"io.modelcontextprotocol/clientCapabilities\":{},"
				"\"io.modelcontextprotocol/logLevel\":\"loud\"}}",
			"logLevel" },
	};
	struct rig_head head = MODERN_HEAD("tools/list");

	for (size_t i = 0; i < NELEMS(rows); i++) {
		char *body = mem_printf("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"%s}",
			rows[i].params);

		refused(&head, body, 400, "\"id\":1,\"error\":{\"code\":-32602");
		refused(&head, body, 400, rows[i].part);
		free(body);
	}
}

/* MCP H-32, H-33, V-04, B-11, E-05, E-07: the first fault in the order of the checks is the answer. */
static void modern_checks_come_in_order(void **state)
{
#define BODY(version, method, more) "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\",\"params\":{\"_meta\":{" \
	"\"io.modelcontextprotocol/protocolVersion\":\"" version "\"," \
	"\"io.modelcontextprotocol/clientCapabilities\":{}}" more "}}"
	static const struct { struct rig_head head; const char *body; int status; const char *part; } rows[] = {
		{ { .version = "2026-07-28", .method = "tools/list" }, BODY("v999.0.0", "tools/list", ""),
			400, "-32020" },
		{ { .version = NULL, .method = "tools/list" }, BODY("2026-07-28", "tools/list", ""), 400,
			"-32020" },
		{ { .version = "2025-11-25", .method = "tools/list" }, BODY("2026-07-28", "tools/list", ""),
			400, "-32020" },
		{ { .version = "v999.0.0", .method = "x" }, BODY("v999.0.0", "tools/list", ""), 400, "-32020" },
		{ { .version = "v999.0.0", .method = "tools/list" }, BODY("v999.0.0", "tools/list", ""), 400,
			"\"code\":-32022,\"message\":\"Unsupported protocol version: v999.0.0\",\"data\":{"
				"\"supported\":[\"2026-07-28\","
			"\"2025-11-25\",\"2025-06-18\",\"2025-03-26\",\"2024-11-05\"],\"requested\":"
				"\"v999.0.0\"}" },
		{ { .version = "2025-11-25", .method = "tools/list" }, BODY("2025-11-25", "tools/list", ""),
			400,
			"\"supported\":[\"2026-07-28\"],\"requested\":\"2025-11-25\"" },
		{ { .version = "2026-07-28", .method = NULL }, BODY("2026-07-28", "tools/list", ""), 400,
			"-32020" },
		{ { .version = "2026-07-28", .method = "Tools/list" }, BODY("2026-07-28", "tools/list", ""),
			400, "-32020" },
		{ { .version = "2026-07-28", .method = "tools/call" }, BODY("2026-07-28", "tools/call",
			",\"name\":\"echo\""), 400,
			"-32020" },
		{ { .version = "2026-07-28", .method = "tools/call", .name = "Echo" },
			BODY("2026-07-28", "tools/call", ",\"name\":\"echo\""), 400, "-32020" },
		{ { .version = "2026-07-28", .method = "tools/call", .name = "=?base64?!!?=" },
			BODY("2026-07-28", "tools/call", ",\"name\":\"echo\""), 400, "-32020" },
		{ { .version = "2026-07-28", .method = "tools/call", .name = "x" },
			BODY("2026-07-28", "tools/call", ",\"name\":5"), 200, "-32602" },
		{ { .version = "2026-07-28", .method = "nope" }, BODY("2026-07-28", "nope", ""), 404,
			"-32601" },
		{ { .version = "2026-07-28", .method = "tools/list", .duplicate = true }, BODY("2026-07-28",
			"tools/list", ""), 400,
			"-32020" },
		{ { .version = "2026-07-28", .method = "tools/call", .name = "echo", .param = "x",
			.param_value = "=?base64?SGVsbG8?=" },
			BODY("2026-07-28", "tools/call", ",\"name\":\"echo\""), 400, "-32020" },
	};

	for (size_t i = 0; i < NELEMS(rows); i++)
		refused(&rows[i].head, rows[i].body, rows[i].status, rows[i].part);
	rig_send(&p, BODY("2025-11-25", "tools/list", ""));     /* the same without headers */
	rig_expect_has(&p.box, "-32022");
}

/* MCP H-34, H-35, E-11, V-10, H-33, T-44: removed and undeclared methods; base64 in Mcp-Name. */
static void removed_methods_are_unknown_in_the_modern_era(void **state)
{
	static const char *const methods[] = { "initialize", "ping", "logging/setLevel", "resources/subscribe",
		"resources/unsubscribe", "prompts/list", "resources/list", "tasks/list", "tasks/result",
			"completion/complete" };
	struct rig_http h;

	for (size_t i = 0; i < NELEMS(methods); i++) {
		rig_modern(&r, &h, methods[i], NULL, "", "{}");
		assert_int_equal(h.status, 404);
		rig_expect_has(&h.box, "\"id\":1,\"error\":{\"code\":-32601");
		rig_http_free(&h);
	}
	rig_modern(&r, &h, "tools/call", " =?base64?ZWNobw==?= ", ",\"name\":\"echo\"", "{}");
	assert_int_equal(r.ncalls, 1);
	rig_end_text(rig_call(&r), "ok");
	assert_int_equal(h.status, 200);
	rig_http_free(&h);
}

/* MCP H-37, H-05, H-20, B-09, H-11, H-13, B-27 */
static void legacy_http_has_sessions_and_does_without(void **state)
{
	struct rig_head none = { .version = NULL }, r4 = { .version = "2025-11-25" },
		rubbish = { .version = "1999" };
	struct rig_head in_session = { .version = "2025-11-25" }, unknown = { .session = "nope" };
	struct rig_http h, again;

	post(&h, &none, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
		"\"protocolVersion\":\"2025-06-18\"}}");
	assert_int_equal(h.status, 200);
	assert_int_equal(strlen(h.session), 32);
	in_session.session = h.session;
	post(&again, &in_session, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
	assert_int_equal(again.status, 202);
	assert_int_equal(again.box.n, 0);
	rig_http_free(&again);
	post(&again, &in_session, "[" PING("1") "]");   /* the session's version rules: R3 has no batches */
	assert_int_equal(again.status, 400);
	rig_http_free(&again);
	rig_post(&r, &again, r.who_other, &in_session, PING("1"));      /* MCP Z-02: foreign like unknown */
	assert_int_equal(again.status, 404);
	rig_http_free(&again);
	refused(&unknown, PING("1"), 404, "\"id\":1,\"error\"");
	refused(&rubbish, PING("1"), 400, "-32600");
	post(&again, &none, "[" PING("1") "]"); /* session-less without header is R2 (MCP H-19) */
	rig_expect(&again.box, "[" EMPTY("1") "]");
	rig_http_free(&again);
	refused(&r4, "[" PING("1") "]", 400, "{\"jsonrpc\":\"2.0\",\"error\"");
	post(&again, &none, RPC("1", "tools/list"));
	rig_expect_has(&again.box, "\"result\":{\"tools\":[");
	rig_http_free(&again);
	post(&again, &none, RPC("1", "nope"));
	assert_int_equal(again.status, 200);
	rig_http_free(&again);
	rig_http_free(&h);
}

/* MCP H-31, B-27: modern header, body without a claim. */
static void a_modern_header_wants_a_modern_body(void **state)
{
	struct rig_head head = MODERN_HEAD("initialize");
	struct rig_http h;

	refused(&head, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
		"\"protocolVersion\":\"2025-11-25\"}}",
		400, "-32020");
	refused(&head, "[" PING("1") "]", 400, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600");
	refused(&head, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", 400, "-32600");
	refused(&head, "{", 400, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700");
	post(&h, &head, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
		"\"requestId\":1}}");
	assert_int_equal(h.status, 202);        /* MCP C-08, H-36 */
	rig_http_free(&h);
}

/* MCP Z-01: asked for every message. */
static void a_suspended_tenant_is_refused_at_once(void **state)
{
	struct rig_head none = { .version = NULL };

	rig_handshake(&p, REV_R4, "{}");
	rig_suspend(&r, r.acme);
	rig_send(&p, PING("1"));
	rig_expect_has(&p.box, "\"id\":1,\"error\":{\"code\":-32600");
	assert_true(p.told_to_close);
	rig_send(&p, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
	rig_none(&p.box);
	refused(&none, PING("1"), 401, "-32600");
}

/* Each row of the method table, in each revision: served exactly where the row says so. */
static const struct { const char *method; bool legacy, modern; } served[] = {
	{ "ping", true, false }, { "server/discover", false, true }, { "tools/list", true, true },
		{ "tools/call", true, true },
	{ "subscriptions/listen", false, true }, { "logging/setLevel", true, false }, { "resources/list",
		false, false },
	{ "resources/templates/list", false, false }, { "resources/read", false, false },
		{ "resources/subscribe", false, false },
	{ "resources/unsubscribe", false, false }, { "prompts/list", false, false }, { "prompts/get", false,
		false },
	{ "completion/complete", false, false }, { "tasks/get", false, true }, { "tasks/cancel", false,
		true },
	{ "tasks/update", false, true }, { "tasks/list", false, false }, { "tasks/result", false, false },
	{ "notifications/initialized", false, false }, { "", false, false },
};

/* MCP B-36, U-01, K-02 */
static void methods_are_served_where_they_exist(void **state)
{
	for (size_t i = 0; i < NELEMS(served); i++) {
		char *legacy = mem_printf("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{"
			"\"name\":5}}", served[i].method);
		char *modern = rig_modern_line("1", served[i].method, ",\"name\":5", "{}");

		for (enum rev rev = REV_R0; rev <= REV_R4; rev++) {
			rig_handshake(&p, rev, "{}");
			rig_send(&p, legacy);
			assert_int_equal(!strstr(rig_next(&p.box), "\"code\":-32601"), served[i].legacy);
		}
		rig_send(&p, modern);
		assert_int_equal(!strstr(rig_next(&p.box), "\"code\":-32601"), served[i].modern);
		free(legacy);
		free(modern);
	}
}

SINGLE_THREAD_SUITE(eras)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(initialize_negotiates),
		TEST(before_a_handshake_only_ping_is_legacy),
		TEST(discover_then_initialize_on_one_pipe),
		TEST(requests_may_follow_initialize_at_once),
		TEST(ids_are_replayed),
		TEST(an_id_in_flight_is_refused_to_the_second),
		TEST(the_table_of_ids_has_a_limit),
		TEST(notices_are_never_answered),
		TEST(what_is_not_json_closes_a_socket),
		TEST(what_follows_in_the_same_read_is_not_heard),
		TEST(batches_are_part_of_two_revisions),
		TEST(batches_are_refused_as_a_whole),
		TEST(a_batch_waits_for_its_calls),
		TEST(incomplete_meta_is_named),
		TEST(modern_checks_come_in_order),
		TEST(removed_methods_are_unknown_in_the_modern_era),
		TEST(legacy_http_has_sessions_and_does_without),
		TEST(a_modern_header_wants_a_modern_body),
		TEST(a_suspended_tenant_is_refused_at_once),
		TEST(methods_are_served_where_they_exist),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
