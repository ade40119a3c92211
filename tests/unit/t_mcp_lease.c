/* What a credential has opened ends with it, to the microsecond by a scripted clock: channels, notice streams, listens (SEC S-306). */

#include "config.h"

#include "mcp_rig.h"

#include <stdio.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "tenant/scope.h"
#include "suite.h"

#define WALL_US 1800000000000000ull
#define HOUR_US 3600000000ull
#define CALL(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"echo\"}}"
#define TOOLS_FILTER ",\"notifications\":{\"toolsListChanged\":true}"

static struct rig r;

static int set_up(void **state)
{
	clock_fake(WALL_US, HOUR_US);
	rig_open(&r);
	return 0;
}

static int tear_down(void **state)
{
	rig_close(&r);
	clock_real();
	return 0;
}

/* Alice, until then. */
static struct principal *by_token(uint64_t expires_us)
{
	static const char words[] = "tools:list tools:call";
	struct principal_claims claims = { .tenant = "acme", .subject = "alice", .expires_us = expires_us, .authn = AUDIT_AUTHN_JWT };
	struct principal *who = NULL;

	assert_int_equal(scopes_parse(words, sizeof words - 1, &claims.scopes, NULL), 0);
	assert_int_equal(principal_from_claims(r.tenants, &claims, &who, NULL), 0);
	scopes_unref(&claims.scopes);
	return who;
}

static void at(uint64_t us)
{
	clock_fake(WALL_US + us, HOUR_US + us);
	rig_turn(&r);
}

static void listen_as(struct rig_http *h, struct principal *who)
{
	struct rig_head head = { .version = "2026-07-28", .method = "subscriptions/listen" };
	char *body = rig_modern_line("1", "subscriptions/listen", TOOLS_FILTER, "{}");

	rig_post(&r, h, who, &head, body);
	rig_expect_has(&h->box, "acknowledged");
	free(body);
}

static void open_session(struct rig_http *h, struct principal *who)
{
	struct rig_head none = { .version = NULL };

	rig_post(&r, h, who, &none, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
		 "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{}}}");
	(void)rig_next(&h->box);
}

static void a_channel_ends_behind_its_calls(void **state)
{
	struct principal *who = by_token(WALL_US + 1000), *later = by_token(WALL_US + 1001);
	struct rig_peer p, q;

	rig_peer_open(&r, &p, who);
	rig_peer_open(&r, &q, later);
	rig_handshake(&p, REV_R4, "{}");
	rig_send(&p, CALL("1"));
	at(999);
	assert_false(p.hung_up);
	at(1000);
	p.put_out = true;
	rig_send(&p, CALL("2"));                /* not heard any more */
	rig_none(&p.box);
	assert_false(p.hung_up || q.hung_up || rig_call(&r)->cancelled);
	rig_end_text(rig_call(&r), "it ran already");
	rig_expect_has(&p.box, "it ran already");
	rig_turn(&r);
	assert_true(p.hung_up);
	assert_false(q.hung_up);
	at(1001);
	rig_turn(&r);
	assert_true(q.hung_up);
	rig_peer_close(&p);
	rig_peer_close(&q);
	principal_unref(&who);
	principal_unref(&later);
}

static void a_listen_ends_with_its_result(void **state)
{
	struct principal *who = by_token(WALL_US + 1000), *later = by_token(WALL_US + 2 * HOUR_US);
	struct rig_http first, second;

	listen_as(&first, who);
	listen_as(&second, later);
	at(999);
	assert_false(first.finished);
	at(1000);
	rig_expect_has(&first.box, "\"id\":1,\"result\"");
	assert_true(first.finished);
	/* Timers look again meanwhile, and find that it is not time. */
	for (uint64_t us = HOUR_US / 2; us < 2 * HOUR_US; us += HOUR_US / 2)
		at(us);
	at(2 * HOUR_US - 1);
	rig_none(&second.box);
	assert_false(second.finished);
	at(2 * HOUR_US);
	assert_true(second.finished);
	rig_http_free(&first);
	rig_http_free(&second);
	principal_unref(&who);
	principal_unref(&later);
}

/* The session stays its principal's: another token goes on with it. */
static void a_notice_stream_ends_and_its_session_does_not(void **state)
{
	struct principal *who = by_token(WALL_US + 1000), *fresh = by_token(WALL_US + 2000);
	struct rig_http session;
	struct rig_stream first, second;

	open_session(&session, who);
	rig_stream_open(&r, &first, session.session, who);
	at(1000);
	assert_true(first.hung_up);
	rig_stream_open(&r, &second, session.session, fresh);
	at(1999);
	assert_false(second.hung_up);
	mcp_session_stream_gone(r.srv, session.session, &first);        /* ended before: no-op */
	at(2000);
	assert_true(second.hung_up);
	rig_stream_close(&second, session.session);
	rig_http_free(&session);
	rig_box_free(&first.box);
	principal_unref(&who);
	principal_unref(&fresh);
}

/* Timers go by the other clock: when the wall clock was set, and when rows have changed, everybody is looked at. */
static void a_clock_that_was_set_is_told(void **state)
{
	struct principal *who = by_token(WALL_US + HOUR_US);
	struct rig_http listen;
	struct rig_peer p;

	rig_peer_open(&r, &p, who);
	listen_as(&listen, who);
	clock_fake(WALL_US + HOUR_US, HOUR_US + 1);
	rig_turn(&r);
	assert_false(listen.finished);
	mcp_recheck(r.srv, r.other);
	rig_turn(&r);
	assert_false(listen.finished || p.hung_up);
	mcp_recheck(r.srv, 0);
	rig_turn(&r);
	assert_true(listen.finished && p.hung_up);
	rig_http_free(&listen);
	rig_peer_close(&p);
	principal_unref(&who);
}

static void a_row_that_has_changed_is_told(void **state)
{
	struct rig_http listen;
	struct rig_peer p, q;

	rig_peer_open(&r, &p, r.who_acme);
	rig_peer_open(&r, &q, r.who_other);
	listen_as(&listen, r.who_acme);
	rig_suspend(&r, r.acme);
	mcp_recheck(r.srv, r.acme);
	rig_turn(&r);
	rig_turn(&r);
	assert_true(listen.finished && p.hung_up);
	assert_false(q.hung_up);
	rig_http_free(&listen);
	rig_peer_close(&p);
	rig_peer_close(&q);
}

SINGLE_THREAD_SUITE(lease)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_channel_ends_behind_its_calls),
		TEST(a_listen_ends_with_its_result),
		TEST(a_notice_stream_ends_and_its_session_does_not),
		TEST(a_clock_that_was_set_is_told),
		TEST(a_row_that_has_changed_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
