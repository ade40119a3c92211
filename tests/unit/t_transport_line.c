/* TCP and Unix sockets before the first message: the credential line, its limits and its time, and peers that need
 * none (MCP B-28); then the limit of a line. */

#include "config.h"

#include "fake_mcp.h"
#include "tr_rig.h"

#include <stdio.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/metric.h"
#include "ev/ev.h"
#include "suite.h"

/* As in the module's own headers, which are on nobody's path. */
#define MESSAGE_MAX (10u << 20)
#define CREDENTIAL_MAX 4096
#define CREDENTIAL_MS 5000

#define NOW_US 1800000000000000ull

static struct tr_rig rig;

static int open_tcp(void **state)
{
	(void)state;
	tr_open(&rig, "tcp");
	return 0;
}

static int open_unix(void **state)
{
	(void)state;
	tr_open(&rig, "unix");
	return 0;
}

static int open_frozen(void **state)
{
	clock_fake(NOW_US, 1000000);
	return open_tcp(state);
}

static int close_rig(void **state)
{
	(void)state;
	tr_close(&rig);
	clock_real();
	return 0;
}

/* The peer is sent away without a byte, and the core has heard nothing. */
static void expect_refused(struct tr_peer *p)
{
	unsigned channels = rig.srv->channels;

	tr_ended(p);
	tr_nothing(p);
	assert_int_equal(p->in.len, 0);
	assert_int_equal(rig.srv->channels, channels);
	assert_int_equal(rig.srv->nseen, 0);
	assert_int_equal(rig.ops->live(rig.t), 0);
}

/* MCP S-09, B-28 */
static void first_line_must_be_the_credential(void **state)
{
	static const char key_of_nobody[] = "tck_000000000000_0000000000000000000000000000000000000000000000000";
	char lines[12][160];
	size_t n = 0;

	tr_listen(&rig);
	(void)snprintf(lines[n++], 160, "now 1 old");
	(void)snprintf(lines[n++], 160, "POST /mcp HTTP/1.1\r\nAuthorization: Bearer %s\r\n\r\nnow 1 old", rig.acme.text);
	(void)snprintf(lines[n++], 160, "%s", "");
	(void)snprintf(lines[n++], 160, "%s", rig.acme.text);
	(void)snprintf(lines[n++], 160, "Authorization: Bearer %s", key_of_nobody);
	(void)snprintf(lines[n++], 160, "Authorization: Bearer %sx", rig.acme.text);
	(void)snprintf(lines[n++], 160, "Authorization: Bearer %s ", rig.acme.text);
	(void)snprintf(lines[n++], 160, "Authorization: Bearer  %s", rig.acme.text);
	(void)snprintf(lines[n++], 160, "authorization: bearer %s", rig.acme.text);
	(void)snprintf(lines[n++], 160, "Authorization: Basic %s", rig.acme.text);
	(void)snprintf(lines[n++], 160, "Authorization: Bearer ");
	(void)snprintf(lines[n++], 160, " Authorization: Bearer %s", rig.acme.text);
	assert_int_equal(n, NELEMS(lines));
	for (size_t i = 0; i < n; i++) {
		uint64_t before = metric_get(METRIC_auth_failures);
		struct tr_peer *p = tr_dial(&rig, NULL);

		tr_rawz(p, lines[i]);
		tr_rawz(p, "\nnow 2 old\n");
		expect_refused(p);
		assert_int_equal(metric_get(METRIC_auth_failures), before + 1);
	}
}

static void message_may_follow_in_the_same_piece(void **state)
{
	static const char *const ends[] = { "\n", "\r\n" };
	char text[160];

	tr_listen(&rig);
	for (size_t i = 0; i < NELEMS(ends); i++) {
		struct tr_peer *p = tr_dial(&rig, NULL);

		(void)snprintf(text, sizeof text, "Authorization: Bearer %s%snow 1 old%s", rig.other.text, ends[i], ends[i]);
		tr_rawz(p, text);
		tr_expect(p, "1 old other");
		assert_int_equal(fake_last(rig.srv)->len, strlen("now 1 old"));
	}
}

/* MCP B-28: only the length differs: neither is a key. */
static void credential_line_is_bounded(void **state)
{
	char line[CREDENTIAL_MAX + 1];

	tr_listen(&rig);
	for (size_t len = CREDENTIAL_MAX; len <= CREDENTIAL_MAX + 1; len++) {
		uint64_t failures = metric_get(METRIC_auth_failures), too_long = metric_get(METRIC_line_too_long);

		for (int crlf = 0; crlf < 2; crlf++) {
			struct tr_peer *p = tr_dial(&rig, NULL);

			memset(line, 'x', len);
			memcpy(line, "Authorization: Bearer ", 22);
			tr_raw(p, line, len);
			tr_rawz(p, crlf ? "\r\n" : "\n");
			expect_refused(p);
		}
		assert_int_equal(metric_get(METRIC_auth_failures), failures + (len > CREDENTIAL_MAX ? 0 : 2));
		assert_int_equal(metric_get(METRIC_line_too_long), too_long + (len > CREDENTIAL_MAX ? 2 : 0));
	}
}

/* Without an end, and without waiting for one. */
static void endless_credential_line_is_cut_off(void **state)
{
	uint64_t too_long = metric_get(METRIC_line_too_long);
	char line[CREDENTIAL_MAX + 2];
	struct tr_peer *p;

	tr_listen(&rig);
	p = tr_dial(&rig, NULL);
	memset(line, 'x', sizeof line);
	tr_raw(p, line, CREDENTIAL_MAX);
	tr_settle(&rig);
	assert_false(p->eof);
	tr_raw(p, line, 2);             /* one more may be the "\r" of the end */
	expect_refused(p);
	assert_int_equal(metric_get(METRIC_line_too_long), too_long + 1);
}

/* SEC S-116: for the whole line, however the bytes come. */
static void credential_line_has_its_time(void **state)
{
	uint64_t before = metric_get(METRIC_auth_failures);
	struct tr_peer *silent, *slow, *known;

	tr_listen(&rig);
	silent = tr_dial(&rig, NULL);
	slow = tr_dial(&rig, NULL);
	known = tr_dial(&rig, "acme");
	TR_WAIT(&rig, rig.srv->channels == 1 && rig.ops->live(rig.t) == 3);
	for (unsigned ms = 0; ms + 1000 < CREDENTIAL_MS; ms += 1000) {
		clock_step(1000 * 1000ull);
		tr_rawz(slow, "A");
		tr_settle(&rig);
	}
	clock_step(999 * 1000ull);
	tr_settle(&rig);
	assert_false(silent->eof || slow->eof);
	clock_step(1000);
	tr_ended(silent);
	tr_ended(slow);
	assert_int_equal(metric_get(METRIC_auth_failures), before + 2);
	tr_say(known, "now 1 old");
	tr_expect(known, "1 old acme");
}

/* MCP S-01, B-06, SEC S-113 */
static void line_is_taken_up_to_its_limit(void **state)
{
	char *line = mem_alloc(MESSAGE_MAX + 3);
	uint64_t before = metric_get(METRIC_line_too_long);
	struct tr_peer *p;

	tr_listen(&rig);
	p = tr_dial(&rig, "acme");
	memset(line, ' ', MESSAGE_MAX + 3);
	memcpy(line, "now 1 old", 9);
	line[MESSAGE_MAX] = '\n';
	tr_raw(p, line, MESSAGE_MAX + 1);
	tr_expect(p, "1 old acme");
	assert_int_equal(fake_last(rig.srv)->len, MESSAGE_MAX);
	line[MESSAGE_MAX] = '\r';
	line[MESSAGE_MAX + 1] = '\n';
	tr_raw(p, line, MESSAGE_MAX + 2);
	tr_expect(p, "1 old acme");
	assert_int_equal(fake_last(rig.srv)->len, MESSAGE_MAX);
	line[MESSAGE_MAX] = ' ';
	line[MESSAGE_MAX + 1] = '\n';
	tr_raw(p, line, MESSAGE_MAX + 2);
	tr_ended(p);
	assert_int_equal(rig.srv->nseen, 2);
	assert_int_equal(metric_get(METRIC_line_too_long), before + 1);
	free(line);
}

static void empty_lines_are_messages_too(void **state)
{
	struct tr_peer *p;

	tr_listen(&rig);
	p = tr_dial(&rig, "acme");
	tr_rawz(p, "now 1 old\n\n\r\nnow 2 old\n");
	TR_WAIT(&rig, rig.srv->nseen == 4);
	assert_int_equal(rig.srv->seen[1].len, 0);
	assert_int_equal(rig.srv->seen[2].len, 0);
	assert_string_equal(rig.srv->seen[3].text, "now 2 old");
}

/* What was answered before leaves; what was asked behind it is not heard. */
static void core_may_close_behind_an_answer(void **state)
{
	struct tr_peer *p;

	tr_listen(&rig);
	p = tr_dial(&rig, "acme");
	tr_say(p, "now 1 old");
	tr_say(p, "stop 2 old");
	tr_expect(p, "1 old acme");
	tr_expect(p, "2 old acme");
	tr_ended(p);
	tr_nothing(p);
	assert_int_equal(rig.srv->channels_closed, 1);
}

static void bound_listener_asks_for_no_credential(void **state)
{
	struct tr_peer *p;

	rig.conf.tenant = (char []){ "other" };
	tr_listen(&rig);
	p = tr_dial(&rig, NULL);
	tr_rawz(p, "now 1 old\n");
	tr_expect(p, "1 old other");
	tr_rawz(p, "Authorization: Bearer x\n");        /* a line like any other */
	TR_WAIT(&rig, rig.srv->nseen == 2);
	assert_string_equal(fake_last(rig.srv)->text, "Authorization: Bearer x");
}

static void bound_listener_of_a_suspended_tenant_sends_everybody_away(void **state)
{
	uint64_t before = metric_get(METRIC_auth_failures);

	rig.conf.tenant = (char []){ "other" };
	tr_listen(&rig);
	tr_tenant_state(&rig, "other", TENANT_SUSPENDED);
	expect_refused(tr_dial(&rig, NULL));
	tr_tenant_state(&rig, "other", TENANT_ACTIVE);
	assert_int_equal(metric_get(METRIC_auth_failures), before + 1);
}

static void mapped_uid_is_known_at_once(void **state)
{
	struct tr_peer *p;

	rig.conf.uids[0] = (struct conf_uid){ (uint32_t)getuid() + 1, (char []){ "other" }, NULL };
	rig.conf.uids[1] = (struct conf_uid){ (uint32_t)getuid(), (char []){ "acme" }, (char []){ "bot" } };
	rig.conf.nuids = 2;
	tr_listen(&rig);
	p = tr_dial(&rig, NULL);
	tr_rawz(p, "now 1 old\n");
	tr_expect(p, "1 old acme");
}

static void unmapped_uid_sends_the_credential(void **state)
{
	struct tr_peer *p;

	rig.conf.uids[0] = (struct conf_uid){ (uint32_t)getuid() + 1, (char []){ "other" }, NULL };
	rig.conf.nuids = 1;
	tr_listen(&rig);
	p = tr_dial(&rig, NULL);
	tr_rawz(p, "now 1 old\n");
	expect_refused(p);
	p = tr_dial(&rig, "acme");
	tr_say(p, "now 1 old");
	tr_expect(p, "1 old acme");
}

static void relay_door_is_stdio_to_the_core(void **state)
{
	struct tr_peer *p;

	rig.conf.relay = true;
	tr_listen(&rig);
	p = tr_dial(&rig, "acme");
	tr_say(p, "now 1 old");
	tr_expect(p, "1 old acme");
	assert_int_equal(fake_last(rig.srv)->tport, AUDIT_STDIO);
}

static void listeners_are_checked_before_they_open(void **state)
{
	struct conf_listener *c = &rig.conf;
	struct err err;

	assert_int_equal(tr_tcp.check(c, &err), 0);
	c->tenant = (char []){ "acme" };
	assert_int_equal(tr_tcp.check(c, &err), 0);
	free(c->address);
	c->address = mem_strdup("192.0.2.1:1");
	c->insecure = true;
	assert_int_equal(tr_tcp.check(c, &err), ERR_INVALID);   /* nobody's tenant to the world */
	c->tenant = NULL;
	assert_int_equal(tr_tcp.check(c, &err), 0);
	c->insecure = false;
	assert_int_equal(tr_tcp.check(c, &err), ERR_INVALID);   /* SEC S-102 */
	free(c->address);
	c->address = mem_strdup("localhost:1");
	assert_int_equal(tr_tcp.check(c, &err), ERR_INVALID);
	free(c->address);
	c->address = mem_strdup("relative.sock");
	assert_int_equal(tr_unix.check(c, &err), ERR_INVALID);
}

#define T(fn, open) cmocka_unit_test_setup_teardown(fn, open, close_rig)

SINGLE_THREAD_SUITE(line)
{
	const struct CMUnitTest tests[] = {
		T(first_line_must_be_the_credential, open_tcp), T(message_may_follow_in_the_same_piece, open_tcp),
		T(credential_line_is_bounded, open_tcp), T(endless_credential_line_is_cut_off, open_tcp),
		T(credential_line_has_its_time, open_frozen), T(line_is_taken_up_to_its_limit, open_tcp),
		T(empty_lines_are_messages_too, open_tcp),
		T(core_may_close_behind_an_answer, open_tcp), T(bound_listener_asks_for_no_credential, open_tcp),
		T(bound_listener_of_a_suspended_tenant_sends_everybody_away, open_tcp),
		T(mapped_uid_is_known_at_once, open_unix), T(unmapped_uid_sends_the_credential, open_unix),
		T(relay_door_is_stdio_to_the_core, open_unix), T(listeners_are_checked_before_they_open, open_tcp),
	};

	return cmocka_run_group_tests_name("transport_line", tests, tr_store_open, tr_store_close);
}
