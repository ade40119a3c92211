/* Who is told of changes, and how things end: listens, sessions, cancels, peers that leave, questions to legacy
 * callers, the end of input (MCP sections 5, 7, 13, B-19 to B-24, B-56). */

#include "config.h"

#include "mcp_rig.h"

#include <stdio.h>

#include "base/clock.h"
#include "proto/caps.h"
#include "suite.h"

#define CALL(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"echo\"}}"
#define CANCEL(id) "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id "}}"
#define CHANGED "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}"
#define CHANGED_FOR(id) "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\",\"params\":{\"_meta\":" \
	"{\"io.modelcontextprotocol/subscriptionId\":" id "}}}"
#define ACK_FOR(id) "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\"," \
	"\"params\":{\"notifications\":{\"toolsListChanged\":true},\"_meta\":{" \
	"\"io.modelcontextprotocol/subscriptionId\":" id "}}}"
#define TOOLS_FILTER ",\"notifications\":{\"toolsListChanged\":true}"

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
	if (p.ch)
		rig_peer_close(&p);
	rig_close(&r);
	return 0;
}

static void send_modern(struct rig_peer *peer, const char *id, const char *method, const char *params)
{
	char *line = rig_modern_line(id, method, params, "{}");

	rig_send(peer, line);
	free(line);
}

/* An initialized session of acme over HTTP; its id in h->session. */
static void open_session(struct rig_http *h, const char *capabilities)
{
	struct rig_head none = { .version = NULL }, head = { .version = NULL };
	char *body = mem_printf("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
		"\"protocolVersion\":"
				"\"2025-11-25\",\"capabilities\":%s}}", capabilities);
	struct rig_http again;

	rig_post(&r, h, r.who_acme, &none, body);
	(void)rig_next(&h->box);
	head.session = h->session;
	rig_post(&r, &again, r.who_acme, &head, "{\"jsonrpc\":\"2.0\",\"method\":"
		"\"notifications/initialized\"}");
	rig_http_free(&again);
	free(body);
}

/* MCP M-11, N-01, N-02, N-04, N-05, N-06, N-08, B-19: each listener of the tenant once, of no other tenant, and on
 * record. */
static void changes_reach_exactly_the_listeners(void **state)
{
	struct rig_peer silent, other, both;
	struct rig_http listen, session;
	struct rig_stream stream;

	rig_peer_open(&r, &silent, r.who_acme);         /* no handshake */
	rig_peer_open(&r, &other, r.who_other);
	rig_peer_open(&r, &both, r.who_acme);
	rig_handshake(&p, REV_R1, "{}");
	rig_handshake(&other, REV_R4, "{}");
	rig_handshake(&both, REV_R4, "{}");
	send_modern(&both, "7", "subscriptions/listen", TOOLS_FILTER);
	send_modern(&both, "\"8\"", "subscriptions/listen", TOOLS_FILTER);
	rig_expect(&both.box, ACK_FOR("7"));
	rig_expect(&both.box, ACK_FOR("\"8\""));
	rig_modern(&r, &listen, "subscriptions/listen", NULL, TOOLS_FILTER, "{}");
	rig_expect(&listen.box, ACK_FOR("1"));
	open_session(&session, "{}");
	rig_stream_open(&r, &stream, session.session, r.who_acme);
	r.nrecords = 0;
	assert_int_equal(rig_ungrant(&r, r.acme, "secret"), 6);
	rig_expect(&p.box, CHANGED);
	rig_expect(&both.box, CHANGED);
	rig_expect(&both.box, CHANGED_FOR("7"));
	rig_expect(&both.box, CHANGED_FOR("\"8\""));
	rig_expect(&listen.box, CHANGED_FOR("1"));
	rig_expect(&stream.box, CHANGED);
	rig_none(&both.box);
	rig_none(&silent.box);
	rig_none(&other.box);
	assert_int_equal(r.nrecords, 1);
	assert_int_equal(r.records[0].kind, AUDIT_NOTIFY);
	assert_int_equal(r.records[0].tenant_id, r.acme);
	assert_int_equal(r.records[0].receivers, 6);
	assert_string_equal(r.records[0].cause, "test");
	assert_int_equal(rig_ungrant(&r, r.other, "private"), 1);
	rig_expect(&other.box, CHANGED);
	rig_none(&p.box);
	rig_none(&listen.box);
	rig_none(&stream.box);
	rig_http_free(&listen);
	rig_stream_close(&stream, session.session);
	rig_http_free(&session);
	rig_peer_close(&silent);
	rig_peer_close(&other);
	rig_peer_close(&both);
}

/* MCP L-04 */
static void nothing_is_told_before_initialized(void **state)
{
	rig_send(&p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
		"\"protocolVersion\":\"2025-11-25\"}}");
	(void)rig_next(&p.box);
	assert_int_equal(rig_ungrant(&r, r.acme, "secret"), 0);
	rig_none(&p.box);
	rig_send(&p, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
	rig_expect(&p.box, CHANGED);            /* what was missed, once */
	rig_send(&p, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
	rig_none(&p.box);
}

/* MCP B-19: announced once when the stream opens again; a newer stream replaces the older. */
static void a_stream_that_reopens_hears_what_it_missed(void **state)
{
	struct rig_http session;
	struct rig_stream first, second, third;

	open_session(&session, "{}");
	rig_stream_open(&r, &first, session.session, r.who_acme);
	rig_none(&first.box);
	mcp_session_stream_gone(r.srv, session.session, &first);
	assert_int_equal(rig_ungrant(&r, r.acme, "secret"), 0);
	rig_stream_open(&r, &second, session.session, r.who_acme);
	rig_expect(&second.box, CHANGED);
	rig_stream_open(&r, &third, session.session, r.who_acme);
	assert_true(second.hung_up);
	rig_none(&third.box);
	mcp_session_stream_gone(r.srv, session.session, &second);       /* replaced: no-op */
	assert_int_equal(rig_grant(&r, r.acme, "secret"), 1);
	rig_expect(&third.box, CHANGED);
	rig_stream_close(&third, session.session);
	rig_http_free(&session);
	rig_box_free(&first.box);
	rig_box_free(&second.box);
}

/* MCP B-21, N-07 */
static void filters_are_checked(void **state)
{
	static const struct { const char *params, *part; } rows[] = {
		{ "", "\"code\":-32602,\"message\":\"params.notifications must be an object" },
		{ ",\"notifications\":[]", "-32602" },
		{ ",\"notifications\":{\"toolsListChanged\":1}", "toolsListChanged has the wrong type" },
		{ ",\"notifications\":{\"resourceSubscriptions\":[5]}", "-32602" },
		{ ",\"notifications\":{\"taskIds\":5}", "-32602" },
	};
	struct rig_http h;

	for (size_t i = 0; i < NELEMS(rows); i++) {
		rig_modern(&r, &h, "subscriptions/listen", NULL, rows[i].params, "{}");
		assert_int_equal(h.status, 200);
		rig_expect_has(&h.box, rows[i].part);
		rig_http_free(&h);
	}
	/* K5-06: for who has declared tasks, whatever else is asked for. */
	rig_modern(&r, &h, "subscriptions/listen", NULL, ",\"notifications\":{\"toolsListChanged\":true,\"taskIds\":[\"t\"]}", "{}");
	assert_int_equal(h.status, 400);
	rig_expect_has(&h.box, "-32021");
	rig_http_free(&h);
	/* Nothing to honour: acknowledged, and over. */
	rig_modern(&r, &h, "subscriptions/listen", NULL,
		   ",\"notifications\":{\"promptsListChanged\":true,\"toolsListChanged\":false,\"unheardOf\":5}", "{}");
	rig_expect_has(&h.box, "\"notifications\":{},\"_meta\"");
	rig_expect_has(&h.box, "\"resultType\":\"complete\",\"_meta\":{"
		"\"io.modelcontextprotocol/subscriptionId\":1");
	assert_true(h.finished);
	rig_http_free(&h);
}

static void a_principal_has_so_many_listens(void **state)
{
	char id[16];

	for (int i = 1; i <= MCP_LISTENS_MAX; i++) {
		snprintf(id, sizeof id, "%d", i);
		send_modern(&p, id, "subscriptions/listen", TOOLS_FILTER);
		rig_expect_has(&p.box, "acknowledged");
	}
	send_modern(&p, "999", "subscriptions/listen", TOOLS_FILTER);
	rig_expect_has(&p.box, "\"id\":999,\"error\":{\"code\":-32603");
	rig_send(&p, CANCEL("1"));
	rig_none(&p.box);       /* MCP N-10: no result is due */
	send_modern(&p, "999", "subscriptions/listen", TOOLS_FILTER);
	rig_expect_has(&p.box, "acknowledged");
}

static void a_listen_needs_an_event_stream(void **state)
{
	struct rig_head head = { .version = "2026-07-28", .method = "subscriptions/listen", .no_sse = true };
	char *body = rig_modern_line("1", "subscriptions/listen", TOOLS_FILTER, "{}");
	struct rig_http h;

	rig_post(&r, &h, r.who_acme, &head, body);
	assert_int_equal(h.status, 400);
	rig_http_free(&h);
	free(body);
}

static void a_listen_whose_peer_left_is_forgotten(void **state)
{
	struct rig_http h;

	rig_modern(&r, &h, "subscriptions/listen", NULL, TOOLS_FILTER, "{}");
	rig_http_free(&h);      /* leaves */
	assert_int_equal(rig_ungrant(&r, r.acme, "secret"), 0);
}

static void put_out(int64_t tenant_id, int64_t cred_id, size_t peers)
{
	struct mcp_ended ended;

	mcp_end_where(r.srv, &(struct call_where){ .tenant_id = tenant_id, .cred_id = cred_id }, true, &ended);
	assert_int_equal(ended.peers, peers);
}

/* MCP N-09a, C-07, B-20: on byte streams the result, then the notice; HTTP has the result alone. */
static void the_end_of_a_listen_by_us(void **state)
{
	struct rig_http h;

	send_modern(&p, "7", "subscriptions/listen", TOOLS_FILTER);
	(void)rig_next(&p.box);
	rig_modern(&r, &h, "subscriptions/listen", NULL, TOOLS_FILTER, "{}");
	(void)rig_next(&h.box);
	put_out(r.other, 0, 0);
	rig_none(&p.box);
	put_out(r.acme, 99, 0);         /* another key */
	rig_none(&p.box);
	put_out(r.acme, 0, 2);
	rig_turn(&r);
	rig_expect_has(&p.box, "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"resultType\":\"complete\"");
	rig_expect_has(&p.box, "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":7");
	assert_true(p.hung_up);
	rig_expect_has(&h.box, "\"id\":1,\"result\"");
	assert_true(h.finished);
	rig_none(&h.box);
	rig_http_free(&h);
}

/* MCP C-01 to C-03, B-42 */
static void a_cancelled_call_has_no_answer(void **state)
{
	rig_handshake(&p, REV_R4, "{}");
	rig_send(&p, CANCEL("1"));              /* before */
	rig_send(&p, CALL("1"));
	rig_send(&p, CANCEL("\"1\""));          /* another id */
	assert_false(rig_call(&r)->cancelled);
	rig_send(&p, CANCEL("1"));              /* during */
	assert_true(rig_call(&r)->cancelled);
	assert_int_equal(rig_call(&r)->why, CANCEL_BY_CLIENT);
	rig_none(&p.box);
	rig_send(&p, CALL("1"));                /* the id is free */
	rig_end_text(rig_call(&r), "ok");
	rig_expect_has(&p.box, "\"id\":1,\"result\"");
	rig_send(&p, CANCEL("1"));              /* after */
	rig_none(&p.box);
}

static void the_result_may_come_before_the_cancel_is_done(void **state)
{
	struct rig_call *c;

	rig_handshake(&p, REV_R4, "{}");
	rig_send(&p, CALL("1"));
	c = rig_call(&r);
	rig_feed(&p, CANCEL("1"));
	rig_end_text(c, "too late");
	rig_none(&p.box);       /* MCP C-03: nothing more for that request */
}

static void a_legacy_session_cancels_by_its_own_table(void **state)
{
	struct rig_http session, call, notice;
	struct rig_head head = { .version = NULL }, none = { .version = NULL };

	open_session(&session, "{}");
	head.session = session.session;
	rig_post(&r, &call, r.who_acme, &head, CALL("5"));
	rig_post(&r, &notice, r.who_acme, &none, CANCEL("5"));  /* without the session: means nothing */
	assert_false(rig_call(&r)->cancelled);
	rig_http_free(&notice);
	rig_post(&r, &notice, r.who_acme, &head, CANCEL("5"));
	assert_int_equal(notice.status, 202);
	assert_true(rig_call(&r)->cancelled);
	assert_true(call.finished);
	assert_int_equal(call.box.n, 0);
	rig_http_free(&notice);
	rig_http_free(&call);
	rig_http_free(&session);
}

/* MCP H-41, B-24, C-04, C-05 */
static void leaving_cancels_in_the_modern_era_only(void **state)
{
	struct rig_head none = { .version = NULL };
	struct rig_http h;

	rig_modern(&r, &h, "tools/call", "echo", ",\"name\":\"echo\"", "{}");
	assert_false(rig_call(&r)->out->is_gone(rig_call(&r)->arg));
	mcp_exchange_gone(&h.x);
	assert_true(rig_call(&r)->out->is_gone(rig_call(&r)->arg));
	rig_turn(&r);
	assert_true(rig_call(&r)->cancelled && rig_call(&r)->ended);
	assert_false(h.finished);
	rig_http_free(&h);
	rig_post(&r, &h, r.who_acme, &none, CALL("1"));
	mcp_exchange_gone(&h.x);
	assert_true(rig_call(&r)->detached);
	assert_false(rig_call(&r)->cancelled);
	rig_http_free(&h);
}

/* MCP C-02, C-05: who has lost the connection has neither cancelled nor lost the right to. */
static void a_lost_call_of_a_session_can_be_cancelled(void **state)
{
	struct rig_http session, lost, again, notice;
	struct rig_head head = { .version = NULL };
	struct mcp_session *s = NULL;

	open_session(&session, "{}");
	head.session = session.session;
	rig_post(&r, &lost, r.who_acme, &head, CALL("5"));
	mcp_exchange_gone(&lost.x);
	assert_false(rig_call(&r)->cancelled || rig_call(&r)->detached);
	assert_true(rig_call(&r)->out->is_gone(rig_call(&r)->arg));
	rig_post(&r, &notice, r.who_acme, &head, CANCEL("5"));
	assert_true(rig_call(&r)->cancelled);
	rig_http_free(&lost);
	rig_http_free(&notice);

	rig_post(&r, &lost, r.who_acme, &head, CALL("6"));
	mcp_exchange_gone(&lost.x);
	rig_post(&r, &again, r.who_acme, &head, CALL("6"));     /* asked again: the id is the caller's */
	rig_end_text(rig_call(&r), "second");
	rig_expect_has(&again.box, "second");
	assert_false(r.calls[1]->cancelled);
	assert_int_equal(mcp_session_find(r.srv, session.session, r.who_acme, &s, NULL), 0);
	mcp_session_end(&s);
	rig_turn(&r);
	assert_true(r.calls[1]->cancelled && r.calls[1]->ended);
	assert_false(lost.finished);
	rig_http_free(&lost);
	rig_http_free(&again);
	rig_http_free(&session);
}

static void a_lost_call_ends_in_silence(void **state)
{
	struct rig_http session, lost;
	struct rig_head head = { .version = NULL };

	open_session(&session, "{}");
	head.session = session.session;
	rig_post(&r, &lost, r.who_acme, &head, CALL("5"));
	mcp_exchange_gone(&lost.x);
	rig_end_text(rig_call(&r), "unread");
	assert_false(lost.finished);
	rig_none(&lost.box);
	rig_http_free(&lost);
	rig_http_free(&session);
}

static void leaving_before_the_deferred_answer_is_harmless(void **state)
{
	struct rig_peer q;

	rig_peer_open(&r, &q, r.who_acme);
	rig_feed(&q, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
	mcp_channel_close(&q.ch);
	rig_turn(&r);
	assert_int_equal(q.finishes, 0);
	rig_box_free(&q.box);
}

static void closing_a_channel_cancels_what_runs(void **state)
{
	rig_handshake(&p, REV_R4, "{}");
	rig_send(&p, CALL("1"));
	send_modern(&p, "2", "subscriptions/listen", TOOLS_FILTER);
	rig_peer_close(&p);
	assert_true(rig_call(&r)->cancelled && rig_call(&r)->ended);
	assert_int_equal(rig_ungrant(&r, r.acme, "secret"), 0);
}

static json_t *question(const char *method)
{
	json_t *q = json_object(), *params = json_object();

	json_object_set_new(params, "message", json_string("sure?"));
	json_object_set_new(q, "method", json_string(method));
	json_object_set_new(q, "params", params);
	return q;
}

static int ask(struct rig_call *c, const char *first, const char *second)
{
	json_t *requests = json_object();
	int rc;

	json_object_set_new(requests, first, question("elicitation/create"));
	if (second)
		json_object_set_new(requests, second, question("sampling/createMessage"));
	rc = c->out->ask(c->arg, requests, NULL);
	json_decref(requests);
	return rc;
}

/* MCP, J-15 */
static void questions_go_out_as_requests_of_ours(void **state)
{
	rig_handshake(&p, REV_R4, "{\"elicitation\":{},\"sampling\":{}}");
	rig_send(&p, CALL("1"));
	assert_int_equal(ask(rig_call(&r), "a", "b"), 0);
	rig_expect(&p.box, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"elicitation/create\",\"params\":{"
		"\"message\":\"sure?\"}}");
	rig_expect_has(&p.box, "\"id\":2,\"method\":\"sampling/createMessage\"");
	rig_send(&p, "{\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}");  /* never asked */
	rig_send(&p, "{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{}}");
	rig_send(&p, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"model\":\"m\"}}");
	assert_null(rig_call(&r)->answers);
	rig_send(&p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"action\":\"decline\"}}");
	assert_int_equal(json_object_size(rig_call(&r)->answers), 2);
	assert_string_equal(json_string_value(json_object_get(json_object_get(rig_call(&r)->answers, "a"),
		"action")), "decline");
	rig_send(&p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"action\":\"accept\"}}");       /* answered already */
	assert_int_equal(ask(rig_call(&r), "c", NULL), 0);      /* the next round */
	rig_expect_has(&p.box, "\"id\":3,\"method\":\"elicitation/create\"");
	rig_send(&p, "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}");
	rig_end_text(rig_call(&r), "done");
	rig_expect_has(&p.box, "\"id\":1,\"result\"");
}

/* MCP L-06, X-01, X-02: what a revision does not have is not declared in it. */
static void questions_stay_inside_their_revision(void **state)
{
	static const uint32_t want[] = {
		[REV_R0] = CAP_SAMPLING, [REV_R1] = CAP_ROOTS | CAP_SAMPLING, [REV_R2] = CAP_ROOTS | CAP_SAMPLING,
		[REV_R3] = CAP_ROOTS | CAP_SAMPLING | CAP_ELICITATION_FORM,
		[REV_R4] = CAP_ROOTS | CAP_SAMPLING | CAP_ELICITATION_FORM | CAP_ELICITATION_URL | CAP_SAMPLING_TOOLS,
	};

	for (enum rev rev = REV_R0; rev <= REV_R4; rev++) {
		rig_handshake(&p, rev, "{\"elicitation\":{\"form\":{},\"url\":{}},\"sampling\":{\"tools\":{}},"
			"\"roots\":{}}");
		rig_send(&p, CALL("1"));
		assert_int_equal(rig_call(&r)->req.caps, want[rev]);
		rig_end_text(rig_call(&r), "done");
		rig_expect_has(&p.box, "\"id\":1,\"result\"");
	}
}

static void a_question_answered_by_an_error_ends_the_call(void **state)
{
	rig_handshake(&p, REV_R4, "{\"elicitation\":{},\"sampling\":{}}");
	rig_send(&p, CALL("1"));
	assert_int_equal(ask(rig_call(&r), "a", "b"), 0);
	p.box.read = p.box.n;
	rig_send(&p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-1,\"message\":\"no user\"}}");
	rig_expect_has(&p.box, "\"notifications/cancelled\",\"params\":{\"requestId\":2");
	assert_true(rig_call(&r)->cancelled);
	rig_expect_has(&p.box, "The client could not answer the tool's question: no user\"}],\"isError\":true");
}

/* MCP X-09: on HTTP the questions travel on the stream of their call; the answers arrive by POST. */
static void questions_over_http(void **state)
{
	struct rig_http session, call, answer;
	struct rig_head head = { .version = NULL }, deaf = { .no_sse = true }, none = { .version = NULL };

	open_session(&session, "{\"elicitation\":{}}");
	head.session = deaf.session = session.session;
	rig_post(&r, &call, r.who_acme, &deaf, CALL("5"));
	assert_false(rig_call(&r)->req.can_ask);
	assert_int_equal(ask(rig_call(&r), "a", NULL), ERR_CANCELLED);
	rig_end_text(rig_call(&r), "ok");
	rig_http_free(&call);
	rig_post(&r, &call, r.who_acme, &none, CALL("5"));
	assert_false(rig_call(&r)->req.can_ask);        /* session-less */
	rig_end_text(rig_call(&r), "ok");
	rig_http_free(&call);
	rig_post(&r, &call, r.who_acme, &head, CALL("5"));
	assert_true(rig_call(&r)->req.can_ask);
	assert_int_equal(ask(rig_call(&r), "a", NULL), 0);
	rig_expect_has(&call.box, "\"id\":1,\"method\":\"elicitation/create\"");
	rig_post(&r, &answer, r.who_acme, &none, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
	assert_int_equal(answer.status, 202);
	assert_null(rig_call(&r)->answers);             /* not in the session */
	rig_http_free(&answer);
	rig_post(&r, &answer, r.who_acme, &head, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"action\":"
		"\"accept\"}}");
	assert_int_equal(answer.status, 202);
	assert_non_null(rig_call(&r)->answers);
	rig_http_free(&answer);
	rig_end_text(rig_call(&r), "done");
	assert_int_equal(call.status, 200);
	rig_http_free(&call);
	rig_http_free(&session);
}

static void leaving_with_an_open_question_cancels(void **state)
{
	struct rig_http session, call;
	struct rig_head head = { .version = NULL };

	open_session(&session, "{\"elicitation\":{}}");
	head.session = session.session;
	rig_post(&r, &call, r.who_acme, &head, CALL("5"));
	assert_int_equal(ask(rig_call(&r), "a", NULL), 0);
	mcp_exchange_gone(&call.x);
	assert_true(rig_call(&r)->cancelled);
	rig_http_free(&call);
	rig_http_free(&session);
}

/* DELETE (MCP H-14, C.3): cancels its jobs, ends its stream, is unknown from then on. */
static void the_end_of_a_session(void **state)
{
	struct rig_http session, call;
	struct rig_head head = { .version = NULL };
	struct mcp_session *s = NULL;
	struct rig_stream stream;

	open_session(&session, "{}");
	head.session = session.session;
	rig_stream_open(&r, &stream, session.session, r.who_acme);
	rig_post(&r, &call, r.who_acme, &head, CALL("5"));
	assert_int_equal(mcp_session_find(r.srv, session.session, r.who_other, &s, NULL), ERR_NOT_FOUND);
	assert_int_equal(mcp_session_find(r.srv, session.session, r.who_acme, &s, NULL), 0);
	mcp_session_end(&s);
	rig_turn(&r);
	assert_true(stream.hung_up);
	assert_true(rig_call(&r)->cancelled);
	assert_true(call.finished);
	rig_http_free(&call);
	rig_post(&r, &call, r.who_acme, &head, CALL("6"));
	assert_int_equal(call.status, 404);
	rig_http_free(&call);
	rig_http_free(&session);
	rig_box_free(&stream.box);
}

/* MCP B-09: bounded; the one that has been idle longest makes room, one with a stream stays. */
static void sessions_are_bounded(void **state)
{
	struct rig_http first, second, h;
	struct rig_stream stream;
	struct mcp_session *s = NULL;

	open_session(&first, "{}");
	rig_stream_open(&r, &stream, first.session, r.who_acme);
	clock_fake(1000000000, 1000000000);
	open_session(&second, "{}");
	for (int i = 2; i < MCP_SESSIONS_MAX; i++) {
		clock_step(1000);
		open_session(&h, "{}");
		rig_http_free(&h);
	}
	assert_int_equal(mcp_session_find(r.srv, second.session, r.who_acme, &s, NULL), 0);
	open_session(&h, "{}");
	assert_true(h.session[0] != '\0');
	rig_http_free(&h);
	assert_int_equal(mcp_session_find(r.srv, second.session, r.who_acme, &s, NULL), ERR_NOT_FOUND);
	assert_int_equal(mcp_session_find(r.srv, first.session, r.who_acme, &s, NULL), 0);
	clock_real();
	rig_stream_close(&stream, first.session);
	rig_http_free(&first);
	rig_http_free(&second);
}

/* MCP B-56: answers are still given, listens end, then we hang up. */
static void the_end_of_input_drains(void **state)
{
	rig_handshake(&p, REV_R4, "{}");
	rig_send(&p, CALL("1"));
	send_modern(&p, "2", "subscriptions/listen", TOOLS_FILTER);
	(void)rig_next(&p.box);
	mcp_channel_eof(p.ch, 60000);
	rig_turn(&r);
	rig_expect_has(&p.box, "\"id\":2,\"result\"");
	rig_expect_has(&p.box, "notifications/cancelled");
	assert_false(p.hung_up);
	rig_end_text(rig_call(&r), "late");
	rig_expect_has(&p.box, "\"id\":1,\"result\"");
	(void)ev_loop_run_until(r.loop, &p.hung_up, 1000);
	assert_true(p.hung_up);
}

static void what_does_not_end_in_time_is_cancelled(void **state)
{
	rig_handshake(&p, REV_R4, "{\"elicitation\":{}}");
	rig_send(&p, CALL("1"));
	rig_send(&p, CALL("2"));
	assert_int_equal(ask(r.calls[1], "a", NULL), 0);
	(void)rig_next(&p.box);
	mcp_channel_eof(p.ch, 1);
	assert_true(r.calls[1]->cancelled);     /* nobody can answer its question */
	assert_false(r.calls[0]->cancelled);
	assert_true(ev_loop_run_until(r.loop, &p.hung_up, 2000));
	assert_true(r.calls[0]->cancelled);
	assert_int_equal(r.calls[0]->why, CANCEL_SHUTDOWN);
	rig_expect_has(&p.box, "notifications/cancelled");      /* of the question */
	rig_expect_has(&p.box, "\"id\":2,\"error\"");
	rig_expect_has(&p.box, "\"id\":1,\"error\"");
}

static void an_idle_channel_hangs_up_at_once(void **state)
{
	mcp_channel_eof(p.ch, 60000);
	assert_true(ev_loop_run_until(r.loop, &p.hung_up, 1000));
}

static void the_stop_ends_listens_and_drains(void **state)
{
	struct rig_http h;

	rig_modern(&r, &h, "subscriptions/listen", NULL, TOOLS_FILTER, "{}");
	(void)rig_next(&h.box);
	mcp_drain(r.srv, 1000);
	rig_turn(&r);
	rig_expect_has(&h.box, "\"id\":1,\"result\"");
	assert_true(ev_loop_run_until(r.loop, &p.hung_up, 1000));
	rig_http_free(&h);
}

struct seen { unsigned n, listening, running, listens; char kinds[128]; };

static void see(void *arg, const struct mcp_peer_view *v)
{
	struct seen *s = arg;

	s->n++;
	s->listening += v->listening;
	s->running += v->running;
	s->listens += v->listens;
	strncat(s->kinds, v->kind, sizeof s->kinds - strlen(s->kinds) - 1);
	strncat(s->kinds, " ", sizeof s->kinds - strlen(s->kinds) - 1);
}

static void peers_can_be_seen(void **state)
{
	struct rig_http session, listen;
	struct seen s = { 0 };

	rig_handshake(&p, REV_R4, "{}");
	rig_send(&p, CALL("1"));
	open_session(&session, "{}");
	rig_modern(&r, &listen, "subscriptions/listen", NULL, TOOLS_FILTER, "{}");
	mcp_peers(r.srv, 0, see, &s);
	assert_int_equal(s.n, 3);
	assert_string_equal(s.kinds, "tcp http-session http-listen ");
	assert_int_equal(s.listening, 2);
	assert_int_equal(s.running, 1);
	assert_int_equal(s.listens, 1);
	memset(&s, 0, sizeof s);
	mcp_peers(r.srv, r.other, see, &s);
	assert_int_equal(s.n, 0);
	rig_http_free(&listen);
	rig_http_free(&session);
}

/* SEC S-315: who is put out gets the answers of what ran, and is not heard any more. */
static void who_is_put_out_gets_its_answers(void **state)
{
	struct rig_http session, by_session, modern, listen;
	struct rig_head head = { .version = NULL };
	struct mcp_session *found;
	struct mcp_ended ended;
	struct rig_peer idle;

	rig_peer_open(&r, &idle, r.who_acme);
	rig_handshake(&p, REV_R4, "{}");
	rig_send(&p, CALL("1"));
	open_session(&session, "{}");
	head.session = session.session;
	rig_post(&r, &by_session, r.who_acme, &head, CALL("5"));
	rig_modern(&r, &modern, "tools/call", "echo", ",\"name\":\"echo\"", "{}");
	rig_modern(&r, &listen, "subscriptions/listen", NULL, TOOLS_FILTER, "{}");
	(void)rig_next(&listen.box);

	mcp_end_where(r.srv, &(struct call_where){ .tenant_id = r.acme }, true, &ended);
	assert_int_equal(ended.calls, 3);
	assert_int_equal(ended.peers, 4);       /* two channels, a session, a listen */
	p.put_out = true;
	rig_feed(&p, CALL("2"));
	rig_turn(&r);
	rig_expect_has(&p.box, "\"id\":1,");
	rig_none(&p.box);
	assert_true(p.hung_up && idle.hung_up);
	rig_expect_has(&by_session.box, "\"id\":5,");
	assert_true(by_session.finished && modern.finished && listen.finished);
	assert_int_equal(mcp_session_find(r.srv, session.session, r.who_acme, &found, NULL), ERR_NOT_FOUND);
	rig_http_free(&session);
	rig_http_free(&by_session);
	rig_http_free(&modern);
	rig_http_free(&listen);
	rig_peer_close(&idle);
}

/* SEC S-306: without the kill what runs ends by itself, and only then the connection. */
static void calls_may_end_by_themselves(void **state)
{
	struct rig_http session, by_session;
	struct rig_head head = { .version = NULL };
	struct rig_call *first;
	struct mcp_ended ended;

	rig_handshake(&p, REV_R4, "{}");
	rig_send(&p, CALL("1"));
	first = rig_call(&r);
	open_session(&session, "{}");
	head.session = session.session;
	rig_post(&r, &by_session, r.who_acme, &head, CALL("5"));
	mcp_end_where(r.srv, &(struct call_where){ .tenant_id = r.acme }, false, &ended);
	assert_int_equal(ended.calls, 0);
	assert_int_equal(ended.peers, 2);
	rig_turn(&r);
	assert_false(first->cancelled || rig_call(&r)->cancelled || p.hung_up);
	mcp_end_where(r.srv, &(struct call_where){ .tenant_id = r.acme }, false, &ended);
	assert_int_equal(ended.peers, 0);       /* they are on their way out */
	rig_end_text(rig_call(&r), "late");
	rig_expect_has(&by_session.box, "late");
	rig_end_text(first, "late");
	rig_turn(&r);
	rig_expect_has(&p.box, "late");
	assert_true(p.hung_up);
	rig_http_free(&session);
	rig_http_free(&by_session);
}

/* Nobody could answer it any more. */
static void an_open_question_ends_with_its_session(void **state)
{
	struct rig_http session, call;
	struct rig_head head = { .version = NULL };
	struct mcp_ended ended;
	json_t *requests = json_pack("{s:{s:s}}", "k", "method", "roots/list");

	open_session(&session, "{\"roots\":{}}");
	head.session = session.session;
	rig_post(&r, &call, r.who_acme, &head, CALL("5"));
	assert_int_equal(rig_call(&r)->out->ask(rig_call(&r)->arg, requests, NULL), 0);
	rig_expect_has(&call.box, "roots/list");
	mcp_end_where(r.srv, &(struct call_where){ .tenant_id = r.acme }, false, &ended);
	rig_turn(&r);
	assert_true(rig_call(&r)->cancelled);
	assert_true(call.finished);
	json_decref(requests);
	rig_http_free(&call);
	rig_http_free(&session);
}

struct id_of { const char *kind; uint64_t id; };

static void find_id(void *arg, const struct mcp_peer_view *v)
{
	struct id_of *want = arg;

	if (strcmp(v->kind, want->kind) == 0)
		want->id = v->id;
}

static uint64_t id_of(const char *kind)
{
	struct id_of want = { kind, 0 };

	mcp_peers(r.srv, r.acme, find_id, &want);
	assert_true(want.id > 0);
	return want.id;
}

static void one_peer_can_be_ended_by_its_id(void **state)
{
	struct rig_http session, modern, listen;
	struct mcp_ended ended;

	rig_handshake(&p, REV_R4, "{}");
	rig_send(&p, CALL("1"));
	open_session(&session, "{}");
	rig_modern(&r, &modern, "tools/call", "echo", ",\"name\":\"echo\"", "{}");
	rig_modern(&r, &listen, "subscriptions/listen", NULL, TOOLS_FILTER, "{}");
	assert_false(mcp_end_peer(r.srv, 0, 0, &ended));
	assert_false(mcp_end_peer(r.srv, r.other, id_of("http-listen"), &ended));
	assert_false(mcp_end_peer(r.srv, r.other, id_of("http-call"), &ended));
	assert_true(mcp_end_peer(r.srv, r.acme, id_of("http-listen"), &ended));
	assert_int_equal(ended.calls, 0);
	assert_true(mcp_end_peer(r.srv, r.acme, id_of("http-call"), &ended));
	assert_int_equal(ended.calls, 1);
	assert_int_equal(rig_call(&r)->why, CANCEL_STOPPED);
	rig_turn(&r);
	assert_true(listen.finished && modern.finished);
	assert_false(p.hung_up);
	assert_true(mcp_end_peer(r.srv, r.acme, id_of("http-session"), &ended));
	assert_true(mcp_end_peer(r.srv, r.acme, id_of("tcp"), &ended));
	assert_int_equal(ended.calls, 1);
	rig_turn(&r);
	rig_expect_has(&p.box, "\"id\":1,");
	assert_true(p.hung_up);
	rig_http_free(&modern);
	rig_http_free(&listen);
	rig_http_free(&session);
}

SINGLE_THREAD_SUITE(ends)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(changes_reach_exactly_the_listeners),
		TEST(nothing_is_told_before_initialized),
		TEST(a_stream_that_reopens_hears_what_it_missed),
		TEST(filters_are_checked),
		TEST(a_principal_has_so_many_listens),
		TEST(a_listen_needs_an_event_stream),
		TEST(a_listen_whose_peer_left_is_forgotten),
		TEST(the_end_of_a_listen_by_us),
		TEST(a_cancelled_call_has_no_answer),
		TEST(the_result_may_come_before_the_cancel_is_done),
		TEST(a_legacy_session_cancels_by_its_own_table),
		TEST(leaving_cancels_in_the_modern_era_only),
		TEST(a_lost_call_of_a_session_can_be_cancelled),
		TEST(a_lost_call_ends_in_silence),
		TEST(leaving_before_the_deferred_answer_is_harmless),
		TEST(closing_a_channel_cancels_what_runs),
		TEST(questions_go_out_as_requests_of_ours),
		TEST(questions_stay_inside_their_revision),
		TEST(a_question_answered_by_an_error_ends_the_call),
		TEST(questions_over_http),
		TEST(leaving_with_an_open_question_cancels),
		TEST(the_end_of_a_session),
		TEST(sessions_are_bounded),
		TEST(the_end_of_input_drains),
		TEST(what_does_not_end_in_time_is_cancelled),
		TEST(an_idle_channel_hangs_up_at_once),
		TEST(the_stop_ends_listens_and_drains),
		TEST(peers_can_be_seen),
		TEST(who_is_put_out_gets_its_answers),
		TEST(calls_may_end_by_themselves),
		TEST(an_open_question_ends_with_its_session),
		TEST(one_peer_can_be_ended_by_its_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
