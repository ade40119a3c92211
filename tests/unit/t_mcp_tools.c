/* tools/list and tools/call: pages and cursors, words of each revision, refusals (MCP section 4, B-10 to
 * B-18, D). */

#include "config.h"

#include "mcp_rig.h"

#include <stdio.h>

#include "base/clock.h"
#include "proto/caps.h"
#include "suite.h"

#define LEGACY_CALL(id, more) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{" more "}}"
#define LIST(id, more) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/list\"" more "}"

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

/* The string after "name":" in a text; free() it. */
static char *member(const char *text, const char *name)
{
	char *key = mem_printf("\"%s\":\"", name);
	const char *at = strstr(text, key), *end;

	free(key);
	if (!at)
		return NULL;
	at = strchr(at + strlen(name) + 3, '"') + 1;
	end = strchr(at, '"');
	return mem_strndup(at, (size_t)(end - at));
}

static void list_after(const char *cursor)
{
	char *line = mem_printf(LIST("1", ",\"params\":{\"cursor\":%s}"), cursor);

	rig_send(&p, line);
	free(line);
}

/* MCP V-08, T-09 */
static void a_tenant_sees_its_own_tools(void **state)
{
	struct rig_peer q;

	rig_peer_open(&r, &q, r.who_other);
	rig_handshake(&p, REV_R4, "{}");
	rig_handshake(&q, REV_R4, "{}");
	rig_send(&p, LIST("1", ""));
	rig_send(&q, LIST("1", ",\"params\":{\"cursor\":null}"));       /* MCP B-52 */
	assert_null(strstr(p.box.text[p.box.read], "private"));
	rig_expect_has(&p.box, "\"name\":\"echo\"");
	assert_null(strstr(q.box.text[q.box.read], "secret"));
	rig_expect_has(&q.box, "\"name\":\"private\"");
	assert_int_equal(r.records[0].kind, AUDIT_LIST);
	assert_int_equal(r.records[0].tenant_id, r.acme);
	assert_int_equal(r.records[1].tenant_id, r.other);
	rig_peer_close(&q);
}

static size_t lists_recorded(void)
{
	size_t n = 0;

	for (size_t i = 0; i < r.nrecords; i++)
		n += r.records[i].kind == AUDIT_LIST;
	return n;
}

static void the_same_list_again_is_recorded_once_a_second(void **state)
{
	clock_fake(1000000000, 1000000000);
	rig_handshake(&p, REV_R4, "{}");
	for (int i = 0; i < 3; i++)
		rig_send(&p, LIST("1", ""));
	assert_int_equal(lists_recorded(), 1);
	rig_grant(&r, r.acme, "private");       /* another generation is another list */
	rig_send(&p, LIST("1", ""));
	assert_int_equal(lists_recorded(), 2);
	clock_step(999999);
	rig_send(&p, LIST("1", ""));
	assert_int_equal(lists_recorded(), 2);
	clock_step(1);
	rig_send(&p, LIST("1", ""));
	assert_int_equal(lists_recorded(), 3);
	clock_real();
}

/* AUDIT A-201: a list needs no record to be served. */
static void lists_are_served_without_the_audit(void **state)
{
	rig_handshake(&p, REV_R4, "{}");
	r.writer_down = true;
	rig_send(&p, LIST("1", ""));
	rig_expect_has(&p.box, "\"result\":{\"tools\"");
}

/* MCP T-08, Z-03, B-18, T-04 to T-06 */
static void cursors_walk_and_bind_to_the_tenant(void **state)
{
	struct rig_peer q;
	char *cursor, *text;

	for (int i = 0; i < 101; i++) {
		char *name = mem_printf("t%03d", i);

		rig_tool(&r, name, "");
		free(name);
	}
	rig_grant(&r, r.acme, "t*");
	rig_handshake(&p, REV_R4, "{}");
	rig_peer_open(&r, &q, r.who_other);
	rig_handshake(&q, REV_R4, "{}");
	p.box.read = p.box.n;
	rig_send(&p, LIST("1", ""));
	cursor = member(rig_next(&p.box), "nextCursor");
	assert_non_null(cursor);
	text = mem_printf("\"%s\"", cursor ? cursor : "");
	rig_grant(&r, r.other, "t001"); /* another tenant's change moves nothing */
	list_after(text);
	assert_null(strstr(p.box.text[p.box.read], "nextCursor"));
	rig_expect_has(&p.box, "\"name\":\"t100\"");
	q.box.read = q.box.n;
	{
		char *line = mem_printf(LIST("1", ",\"params\":{\"cursor\":\"%s\"}"), cursor ? cursor : "");

		rig_send(&q, line);     /* foreign */
		rig_expect_has(&q.box, "\"code\":-32602,\"message\":\"Invalid cursor\"");
		free(line);
	}
	cursor[5] ^= 1;
	free(text);
	text = mem_printf("\"%s\"", cursor);
	list_after(text);       /* altered */
	rig_expect_has(&p.box, "-32602");
	list_after("\"\"");
	rig_expect_has(&p.box, "-32602");
	list_after("5");
	rig_expect_has(&p.box, "-32602");
	rig_handshake(&p, REV_R0, "{}");        /* MCP D: no pages in R0 */
	list_after("5");
	rig_expect_has(&p.box, "\"name\":\"t100\"");
	free(text);
	free(cursor);
	rig_peer_close(&q);
}

/* Whatever the request before it has declared, in texts of one length. */
static void each_request_declares_for_itself(void **state)
{
	static const struct { const char *text; uint32_t caps; } rows[] = {
		{ "{\"sampling\":{}}", CAP_SAMPLING }, { "{\"sampling\":{}}", CAP_SAMPLING }, { "{\"sempling\":{}}", 0 },
		{ "{\"roots\":  {} }", CAP_ROOTS }, { "{}", 0 }, { "{ }", 0 }, { "{\"sampling\":{}}", CAP_SAMPLING },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		struct rig_http h;

		rig_modern(&r, &h, "tools/call", "echo", ",\"name\":\"echo\"", rows[i].text);
		assert_int_equal(rig_call(&r)->req.caps, rows[i].caps);
		rig_end_text(rig_call(&r), "ok");
		rig_http_free(&h);
	}
}

/* MCP T-47, W-02, M-13, W-01 */
static void a_call_carries_what_was_sent(void **state)
{
	rig_handshake(&p, REV_R4, "{\"elicitation\":{}}");
	rig_send(&p, LEGACY_CALL("1", "\"name\":\"echo\",\"arguments\":{ \"x\" : 1.0 },\"_meta\":{"
		"\"traceparent\":"
				 "\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\",\"tracestate\":\"a=1,b@c=2\",\"baggage\":\"k=v\"}"));
	assert_string_equal(rig_call(&r)->tool, "echo");
	assert_string_equal(rig_call(&r)->args_text, "{ \"x\" : 1.0 }");
	assert_int_equal(rig_call(&r)->req.caps, CAP_ELICITATION_FORM);
	assert_true(rig_call(&r)->req.can_ask);
	assert_int_equal(rig_call(&r)->req.trace->id[0], 0x0a);
	assert_string_equal(rig_call(&r)->req.trace->parent, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
	assert_string_equal(rig_call(&r)->req.trace->state, "a=1,b@c=2");
	assert_int_equal(rig_call(&r)->req.rev, REV_R4);
	assert_false(rig_call(&r)->req.check_params);
	rig_end_text(rig_call(&r), "ok");
	rig_expect(&p.box, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\","
		"\"text\":\"ok\"}]}}");
	rig_send(&p, LEGACY_CALL("2", "\"name\":\"echo\",\"_meta\":{\"traceparent\":\"00-rubbish\"}")); /* MCP W-03 */
	assert_null(rig_call(&r)->req.args);
	assert_null(rig_call(&r)->req.trace);
}

/* MCP W-04: the header is read where `_meta` says nothing. */
static void meta_goes_before_the_header_of_a_trace(void **state)
{
	static const char tail[] = "af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
	struct rig_head head = { .version = NULL };
	struct rig_http h;
	char *header = mem_printf("00-1%s", tail);
	char *body = mem_printf(LEGACY_CALL("1", "\"name\":\"echo\",\"_meta\":{\"traceparent\":\"00-2%s\"}"), tail);

	head.traceparent = header;
	head.tracestate = "h=1";
	rig_post(&r, &h, r.who_acme, &head, body);
	assert_int_equal(rig_call(&r)->req.trace->id[0], 0x2a);
	assert_string_equal(rig_call(&r)->req.trace->state, "");
	rig_end_text(rig_call(&r), "ok");
	rig_http_free(&h);
	rig_post(&r, &h, r.who_acme, &head, LEGACY_CALL("1", "\"name\":\"echo\""));
	assert_int_equal(rig_call(&r)->req.trace->id[0], 0x1a);
	assert_string_equal(rig_call(&r)->req.trace->state, "h=1");
	rig_end_text(rig_call(&r), "ok");
	rig_http_free(&h);
	free(header);
	free(body);
}

/* MCP T-21, B-52: the shape of the request, in every revision. */
static void malformed_calls_are_refused_by_shape(void **state)
{
	static const char *const params[] = {
		"\"arguments\":{}", "\"name\":5", "\"name\":\"echo\",\"arguments\":null",
			"\"name\":\"echo\",\"arguments\":[]",
		"\"name\":\"echo\",\"arguments\":{\"n\":1e1000000001}",
	};

	for (enum rev rev = REV_R0; rev <= REV_R5; rev++) {
		if (rev <= REV_R4)
			rig_handshake(&p, rev, "{}");
		for (size_t i = 0; i < NELEMS(params); i++) {
			char *more = mem_printf(",%s", params[i]);
			char *line = rev == REV_R5 ? rig_modern_line("1", "tools/call", more, "{}") :
				mem_printf(LEGACY_CALL("1", "%s"), params[i]);

			rig_send(&p, line);
			rig_expect_has(&p.box, "\"error\":{\"code\":-32602");
			free(more);
			free(line);
		}
	}
	assert_int_equal(r.ncalls, 0);
}

static void call_in(enum rev rev)
{
	char *line = rev == REV_R5 ? rig_modern_line("1", "tools/call", ",\"name\":\"x\",\"arguments\":{}",
		"{}") :
		mem_strdup(LEGACY_CALL("1", "\"name\":\"x\",\"arguments\":{}"));

	if (rev <= REV_R4)
		rig_handshake(&p, rev, "{}");
	rig_send(&p, line);
	free(line);
}

/* MCP B-12, B-13, T-24, T-25, D: words of each revision. */
static void refusals_have_the_words_of_their_revision(void **state)
{
	for (enum rev rev = REV_R0; rev <= REV_R5; rev++) {
		struct schema_report report = { .count = 3 };
		struct err err;
		struct call_end end = { .err = &err, .refusal = REFUSE_ARGUMENTS, .report = &report };

		call_in(rev);
		rig_end_refused(rig_call(&r), REFUSE_UNKNOWN_TOOL, ERR_NOT_FOUND, "no such tool");
		rig_expect(&p.box, rev == REV_R0 ? "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32602,"
			"\"message\":"
			   "\"Invalid params\",\"data\":{\"reason\":\"Unknown tool: x\"}}}" :
			   "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32602,\"message\":\"Unknown "
				"tool: x\",\"data\":"
			   "{\"reason\":\"Unknown tool: x\"}}}");
		call_in(rev);
		snprintf(report.failure[0].text, sizeof report.failure[0].text, "%s",
			"Missing required argument: location");
		snprintf(report.failure[1].text, sizeof report.failure[1].text, "%s",
			"Invalid argument: a: no");
		snprintf(report.failure[1].instance, sizeof report.failure[1].instance, "/a");
		snprintf(report.failure[1].keyword, sizeof report.failure[1].keyword, "/properties/a/type");
		snprintf(report.failure[2].text, sizeof report.failure[2].text, "Invalid argument: (root): no");
		snprintf(report.failure[2].keyword, sizeof report.failure[2].keyword, "/not");
		err_set(&err, ERR_INVALID, "", "not valid");
		rig_end_call(rig_call(&r), &end);
		if (rev <= REV_R3)
			rig_expect(&p.box, "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32602,"
				"\"message\":\"Invalid params\","
				   "\"data\":{\"reason\":\"Missing required argument: location\"}}}");
		else
			rig_expect_has(&p.box, "\"content\":[{\"type\":\"text\",\"text\":\"Missing required "
				"argument: location\\n"
				       "Invalid argument: a: no (at /a, by /properties/a/type)\\n"
				       "Invalid argument: (root): no (by /not)\"}],\"isError\":true");
	}
}

/* MCP E-14, E-15, B-57, AUDIT */
static void own_refusals_have_code_and_status(void **state)
{
	struct rig_http h;
	struct err err;
	struct call_end end = { .err = &err, .refusal = REFUSE_RATE };

	rig_modern(&r, &h, "tools/call", "echo", ",\"name\":\"echo\"", "{}");
	err_set(&err, ERR_RATE, "tenant/quota", "too often");
	err.retry_ms = 1200;
	rig_end_call(rig_call(&r), &end);
	assert_int_equal(h.status, 429);
	assert_int_equal(h.retry_after_s, 2);
	rig_expect_has(&h.box, "\"code\":4290,\"message\":\"Rate limit exceeded: too often\",\"data\":{\"retryAfterMs\":"
		"1200,\"reason\":\"quota\",\"limit\":\"tenant\"}");
	rig_http_free(&h);
	rig_modern(&r, &h, "tools/call", "echo", ",\"name\":\"echo\"", "{}");
	err_set(&err, ERR_BUSY, "server/queue", "full");
	end.refusal = REFUSE_BUSY;
	rig_end_call(rig_call(&r), &end);
	assert_int_equal(h.status, 503);        /* SEC S-805 */
	assert_int_equal(h.retry_after_s, 1);
	rig_expect_has(&h.box, "\"message\":\"The server is busy\",\"data\":{\"retryAfterMs\":1000}");
	rig_http_free(&h);
	for (int executed = 0; executed <= 1; executed++) {
		static const uint8_t id[16] = { 0xAB };

		rig_modern(&r, &h, "tools/call", "echo", ",\"name\":\"echo\"", "{}");
		err_set(&err, ERR_AUDIT, "", "disk full");
		end = (struct call_end){ .err = &err, .refusal = REFUSE_AUDIT, .executed = executed,
			.call_id = id };
		rig_end_call(rig_call(&r), &end);
		assert_int_equal(h.status, 503);
		assert_int_equal(h.retry_after_s, 2);
		rig_expect_has(&h.box, executed ? "\"executed\":true,\"outcome\":\"unrecorded\",\"callId\":"
			"\"ab000000-" :
			       "\"executed\":false,\"callId\":\"ab000000-");
		rig_http_free(&h);
	}
}

/* MCP 14.4: a rate limit inside an array leaves the array's status alone. */
static void a_batch_keeps_its_status(void **state)
{
	struct rig_head none = { .version = NULL };
	struct rig_http h;
	struct err err;
	struct call_end end = { .err = &err, .refusal = REFUSE_RATE };

	rig_post(&r, &h, r.who_acme, &none, "[" LEGACY_CALL("1", "\"name\":\"echo\"") "]");
	err_set(&err, ERR_RATE, "", "too often");
	rig_end_call(rig_call(&r), &end);
	assert_int_equal(h.status, 200);
	rig_expect_has(&h.box, "[{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":4290");
	rig_http_free(&h);
}

/* MCP E-06; before there were such errors it is a failure of the tool. */
static void a_missing_capability_by_era(void **state)
{
	struct rig_http h;
	struct err err;
	struct call_end end = { .err = &err, .refusal = REFUSE_CAPABILITY, .missing_caps = CAP_SAMPLING };

	rig_modern(&r, &h, "tools/call", "echo", ",\"name\":\"echo\"", "{}");
	err_set(&err, ERR_CAPABILITY, "", "The tool needs a client that supports sampling");
	rig_end_call(rig_call(&r), &end);
	assert_int_equal(h.status, 400);
	rig_expect_has(&h.box, "\"code\":-32021,\"message\":\"The tool needs a capability that this request "
		"did not declare\","
		       "\"data\":{\"requiredCapabilities\":{\"sampling\":{}}}");
	rig_http_free(&h);
	call_in(REV_R4);
	rig_end_call(rig_call(&r), &end);
	rig_expect_has(&p.box, "supports sampling\"}],\"isError\":true");
}

/* MCP T-26, B-10 */
static void further_refusals_are_mapped(void **state)
{
	static const struct { enum call_refusal why; enum err_code code; int status; const char *part; } rows[] = {
		{ REFUSE_STATE, ERR_INVALID, 200, "\"code\":-32602,\"message\":\"Invalid request state\","
			"\"data\":"
			"{\"reason\":\"invalid_request_state\"}" },
		{ REFUSE_PARAMS, ERR_INVALID, 400, "\"code\":-32020,\"message\":\"some words\"" },
		{ REFUSE_INTERNAL, ERR_CORRUPT, 200, "\"code\":-32603,\"message\":\"Internal error\"" },
		{ REFUSE_NONE, ERR_CANCELLED, 200, "\"code\":-32603,\"message\":\"The server cancelled the "
			"request\"" },
		{ REFUSE_NONE, ERR_BUSY, 503, "-32603" },
		{ REFUSE_NONE, ERR_IO, 200, "\"message\":\"Internal error\"" },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		struct rig_http h;

		rig_modern(&r, &h, "tools/call", "echo", ",\"name\":\"echo\"", "{}");
		rig_end_refused(rig_call(&r), rows[i].why, rows[i].code, "some words");
		assert_int_equal(h.status, rows[i].status);
		rig_expect_has(&h.box, rows[i].part);
		rig_http_free(&h);
	}
}

static void a_tool_may_ask_for_its_own_error(void **state)
{
	struct err err;
	struct call_end end = { .err = &err, .rpc_code = 1234 };

	call_in(REV_R4);
	err_set(&err, ERR_TOOL, "", "its words");
	end.rpc_data = json_string("d");
	rig_end_call(rig_call(&r), &end);
	rig_expect(&p.box, "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1234,\"message\":\"its words\","
		"\"data\":\"d\"}}");
}

/* MCP P-01 to P-05 */
static void progress_needs_a_token_and_grows(void **state)
{
	struct rig_call *c;

	rig_handshake(&p, REV_R4, "{}");
	rig_send(&p, LEGACY_CALL("1", "\"name\":\"echo\",\"_meta\":{\"progressToken\":\"t\"}"));
	c = rig_call(&r);
	c->out->progress(c->arg, 0, 10, NULL);
	rig_expect(&p.box, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{"
		"\"progressToken\":\"t\","
		   "\"progress\":0,\"total\":10}}");
	c->out->progress(c->arg, 5, 10, NULL);  /* too soon */
	c->out->progress(c->arg, 10, 10, NULL); /* as soon, but it is all there is */
	rig_expect(&p.box, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{"
		"\"progressToken\":\"t\","
		   "\"progress\":10,\"total\":10}}");
	c->out->progress(c->arg, 10, 10, NULL); /* once */
	rig_none(&p.box);
	rig_end_text(c, "ok");
	(void)rig_next(&p.box);
	rig_send(&p, LEGACY_CALL("2", "\"name\":\"echo\""));
	c = rig_call(&r);
	c->out->progress(c->arg, 1, 10, NULL);  /* no token */
	rig_none(&p.box);
	rig_end_text(c, "ok");
}

/* MCP B-40: a slow reader loses progress, never answers. */
static void a_slow_reader_gets_no_progress(void **state)
{
	struct rig_call *c;

	rig_handshake(&p, REV_R4, "{}");
	rig_send(&p, LEGACY_CALL("1", "\"name\":\"echo\",\"_meta\":{\"progressToken\":\"t\"}"));
	c = rig_call(&r);
	p.queued = (256u << 10) + 1;
	c->out->progress(c->arg, 1, 10, NULL);
	rig_none(&p.box);
	p.queued = 256u << 10;
	c->out->progress(c->arg, 1, 10, NULL);
	rig_expect_has(&p.box, "notifications/progress");
	p.queued = SIZE_MAX;
	rig_end_text(c, "ok");
	rig_expect_has(&p.box, "\"id\":1,\"result\"");
}

/* MCP G-01, N-11, G-03: only where the request asked, from its level on. */
static void logs_go_to_requests_that_ask_for_them(void **state)
{
	struct rig_http h;
	struct rig_head head = { .version = "2026-07-28", .method = "tools/call", .name = "echo" };
	struct rig_call *c;

	rig_handshake(&p, REV_R4, "{}");
	rig_send(&p, LEGACY_CALL("1", "\"name\":\"echo\",\"_meta\":{\"io.modelcontextprotocol/logLevel\":"
		"\"debug\"}"));
	c = rig_call(&r);
	c->out->log(c->arg, 7, NULL, json_string("x"));
	rig_none(&p.box);
	rig_post(&r, &h, r.who_acme, &head, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\","
		"\"params\":{\"name\":\"echo\","
		 "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
			"\"io.modelcontextprotocol/clientCapabilities\":"
		 "{},\"io.modelcontextprotocol/logLevel\":\"warning\"}}}");
	c = rig_call(&r);
	c->out->log(c->arg, 2, NULL, json_string("low"));
	rig_none(&h.box);
	c->out->log(c->arg, 3, "tool", json_string("high"));
	rig_expect(&h.box, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":"
		"\"warning\","
		   "\"logger\":\"tool\",\"data\":\"high\"}}");
	rig_end_text(c, "ok");
	rig_http_free(&h);
}

/* MCP G-02: a level of the peer, from the next call to the next handshake. */
static void a_legacy_peer_sets_its_level(void **state)
{
#define SET_LEVEL(params) "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"logging/setLevel\",\"params\":" params "}"
	static const char *const bad[] = { SET_LEVEL("{}"), SET_LEVEL("{\"level\":\"loud\"}"),
		SET_LEVEL("{\"level\":1}") };
	struct rig_call *c;

	for (enum rev rev = REV_R0; rev <= REV_R4; rev++) {
		rig_handshake(&p, rev, "{}");
		for (size_t i = 0; i < NELEMS(bad); i++) {
			rig_send(&p, bad[i]);
			rig_expect_has(&p.box, "-32602");
		}
		rig_send(&p, SET_LEVEL("{\"level\":\"warning\"}"));
		rig_expect(&p.box, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
		rig_send(&p, LEGACY_CALL("2", "\"name\":\"echo\""));
		c = rig_call(&r);
		c->out->log(c->arg, 2, NULL, json_string("low"));
		rig_none(&p.box);
		c->out->log(c->arg, 3, NULL, json_string("high"));
		rig_expect_has(&p.box, "\"level\":\"warning\",\"data\":\"high\"");
		rig_end_text(c, "ok");
		rig_expect_has(&p.box, "\"id\":2");
		rig_handshake(&p, rev, "{}");
		rig_send(&p, LEGACY_CALL("3", "\"name\":\"echo\""));
		c = rig_call(&r);
		c->out->log(c->arg, 7, NULL, json_string("x"));
		rig_end_text(c, "ok");
		rig_expect_has(&p.box, "\"id\":3");
	}
}

/* MCP B-39: a client that takes JSON only gets no notices. */
static void without_event_streams_there_are_no_notices(void **state)
{
	struct rig_head none = { .no_sse = true };
	struct rig_http h;
	struct rig_call *c;

	rig_post(&r, &h, r.who_acme, &none, LEGACY_CALL("1", "\"name\":\"echo\",\"_meta\":{\"progressToken\":"
		"1}"));
	c = rig_call(&r);
	c->out->progress(c->arg, 1, 2, NULL);
	assert_int_equal(h.notices, 0);
	assert_false(mcp_exchange_may_stream(h.x));
	rig_end_text(c, "ok");
	assert_int_equal(h.status, 200);
	rig_http_free(&h);
}

/* MCP J-14, R-02, R-04, R-08 */
static void modern_questions_end_the_request(void **state)
{
	struct call_end end = { .sealed_state = "v1.sealed" };
	struct rig_http h;

	rig_modern(&r, &h, "tools/call", "echo", ",\"name\":\"echo\"", "{\"elicitation\":{}}");
	assert_false(rig_call(&r)->req.can_ask);
	end.requests = json_object();
	json_object_set_new(end.requests, "k", json_object());
	rig_end_call(rig_call(&r), &end);
	assert_int_equal(h.status, 200);
	rig_expect_has(&h.box, "\"resultType\":\"input_required\",\"inputRequests\":{\"k\":{}},"
		"\"requestState\":\"v1.sealed\"");
	rig_http_free(&h);
	rig_modern(&r, &h, "tools/call", "echo", ",\"name\":\"echo\",\"requestState\":\"v1.se\\u0061led\","
		"\"inputResponses\":"
		   "{\"k\":{\"action\":\"accept\"},\"surplus\":{}}", "{\"elicitation\":{}}");
	assert_string_equal(rig_call(&r)->state, "v1.sealed");
	assert_int_equal(json_object_size(rig_call(&r)->req.answers), 2);
	rig_end_text(rig_call(&r), "done");
	rig_http_free(&h);
}

static void malformed_answers_are_turned_away(void **state)
{
	static const char *const params[] = {
		",\"name\":\"echo\",\"inputResponses\":null", ",\"name\":\"echo\",\"inputResponses\":{\"k\":"
			"12345}",
		",\"name\":\"echo\",\"inputResponses\":{\"k\":null}", ",\"name\":\"echo\",\"inputResponses\":"
			"[]",
		",\"name\":\"echo\",\"requestState\":5",
	};
	struct rig_http h;

	for (size_t i = 0; i < NELEMS(params); i++) {
		rig_modern(&r, &h, "tools/call", "echo", params[i], "{}");
		assert_int_equal(h.status, 200);
		rig_expect_has(&h.box, "-32602");
		rig_http_free(&h);
	}
	assert_int_equal(r.ncalls, 0);
}

/* MCP T-44: decoded before they are compared. */
static void param_headers_are_decoded(void **state)
{
	static const struct { const char *header, *value; } rows[] = {
		{ "=?base64?SGVsbG8=?=", "Hello" }, { "SGVsbG8=", "SGVsbG8=" }, { "=?base64?SGVsbG8=",
			"=?base64?SGVsbG8=" },
		{ "=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?=" }, { "  x\t", "x" }, { "", "" },
	};
	char *body = rig_modern_line("1", "tools/call", ",\"name\":\"echo\"", "{}");
	struct rig_http h;

	for (size_t i = 0; i < NELEMS(rows); i++) {
		struct rig_head head = { .version = "2026-07-28", .method = "tools/call", .name = "echo",
			.param = "region",
					 .param_value = rows[i].header };

		rig_post(&r, &h, r.who_acme, &head, body);
		assert_true(rig_call(&r)->req.check_params);
		assert_string_equal(rig_call(&r)->param_value, rows[i].value);
		rig_end_text(rig_call(&r), "ok");
		rig_http_free(&h);
	}
	free(body);
}

SINGLE_THREAD_SUITE(tools)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_tenant_sees_its_own_tools),
		TEST(the_same_list_again_is_recorded_once_a_second),
		TEST(lists_are_served_without_the_audit),
		TEST(cursors_walk_and_bind_to_the_tenant),
		TEST(a_call_carries_what_was_sent),
		TEST(meta_goes_before_the_header_of_a_trace),
		TEST(malformed_calls_are_refused_by_shape),
		TEST(refusals_have_the_words_of_their_revision),
		TEST(own_refusals_have_code_and_status),
		TEST(a_batch_keeps_its_status),
		TEST(a_missing_capability_by_era),
		TEST(further_refusals_are_mapped),
		TEST(a_tool_may_ask_for_its_own_error),
		TEST(progress_needs_a_token_and_grows),
		TEST(a_slow_reader_gets_no_progress),
		TEST(logs_go_to_requests_that_ask_for_them),
		TEST(a_legacy_peer_sets_its_level),
		TEST(without_event_streams_there_are_no_notices),
		TEST(modern_questions_end_the_request),
		TEST(malformed_answers_are_turned_away),
		TEST(param_headers_are_decoded),
		TEST(each_request_declares_for_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
