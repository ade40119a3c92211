/* Who may connect: sources, tenants, strangers, penalties (SEC S-316, S-808). */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "ev/ev.h"
#include "net/gate.h"
#include "suite.h"

#define SECOND_US 1000000ull
#define MINUTE 60

static struct ev_loop *loop;
static struct gate *gate;
static struct gate_limits limits;       /* of the next open_gate() */

static const struct gate_limits usual = {
	.per_source = 2, .per_tenant = 3, .failed_ms = 5000, .broken_ms = 90000, .longest_ms = 900000,
};

static int setup(void **state)
{
	clock_fake(1800000000000000ull, SECOND_US);
	loop = ev_loop_new();
	limits = usual;
	return 0;
}

static int teardown(void **state)
{
	gate_free(&gate);
	ev_loop_free(&loop);
	clock_real();
	return 0;
}

static void open_gate(void)
{
	gate_free(&gate);
	gate = gate_new(loop, &limits);
}

static void nothing(void *arg) { *(bool *)arg = true; }

static void step(unsigned seconds)
{
	bool done = false;
	clock_step(seconds * SECOND_US);
	ev_post(loop, nothing, &done);
	assert_true(ev_loop_run_until(loop, &done, 5000));
}

static enum gate_verdict enter(const char *from, struct gate_pass *ret)
{
	struct addr a;
	uint32_t wait;
	assert_true(addr_from_host(from, &a));
	return gate_enter(gate, &a, false, ret, &wait);
}

/* Enters and leaves again. */
static enum gate_verdict knock(const char *from)
{
	struct gate_pass p;
	enum gate_verdict got = enter(from, &p);
	if (got == GATE_OPEN)
		gate_leave(&p);
	return got;
}

static void source_has_so_many_connections(void **state)
{
	static const struct { const char *first, *second, *third; bool same; } rows[] = {
		{ "192.0.2.1", "192.0.2.1", "192.0.2.1", true },
		{ "192.0.2.1", "192.0.2.1", "192.0.2.2", false },
		{ "192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1", true },
		{ "2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff:ffff:ffff:ffff", true },     /* one /64 */
		{ "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", false },
	};
	struct gate_pass p[3];
	open_gate();
	for (size_t i = 0; i < NELEMS(rows); i++) {
		uint64_t before = metric_get(METRIC_connections_over_source);
		assert_int_equal(enter(rows[i].first, &p[0]), GATE_OPEN);
		assert_int_equal(enter(rows[i].second, &p[1]), GATE_OPEN);
		assert_int_equal(enter(rows[i].third, &p[2]), rows[i].same ? GATE_CROWDED : GATE_OPEN);
		assert_int_equal(metric_get(METRIC_connections_over_source), before + rows[i].same);
		gate_leave(&p[0]);
		assert_int_equal(knock(rows[i].third), GATE_OPEN);
		gate_leave(&p[1]);
		if (!rows[i].same)
			gate_leave(&p[2]);
	}
}

static void loopback_and_the_exempt_are_no_sources(void **state)
{
	static const char *const from[] = { "127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1" };
	const struct addr unix_peer = { .sa.ss_family = AF_UNIX, .len = sizeof(struct sockaddr_un) };
	struct gate_pass p[3];
	struct addr a;
	uint32_t wait;
	open_gate();
	for (size_t i = 0; i < NELEMS(from); i++) {
		for (size_t k = 0; k < 3; k++)
			assert_int_equal(enter(from[i], &p[k]), GATE_OPEN);
		gate_failed(gate, from[i]);
		gate_broke(&p[0]);
		assert_int_equal(gate_penalty_ms(&p[0]), 0);
		for (size_t k = 0; k < 3; k++)
			gate_leave(&p[k]);
	}
	for (size_t k = 0; k < 3; k++)
		assert_int_equal(gate_enter(gate, &unix_peer, false, &p[k], &wait), GATE_OPEN);
	gate_failed(gate, "unix");
	gate_failed(gate, "stdio");
	assert_true(addr_from_host("192.0.2.1", &a));
	gate_failed(gate, "192.0.2.1");
	for (size_t k = 0; k < 3; k++)
		assert_int_equal(gate_enter(gate, &a, true, &p[k], &wait), GATE_OPEN);
	limits.loopback = true;
	open_gate();
	gate_failed(gate, "127.0.0.2");
	assert_int_equal(knock("127.0.0.2"), GATE_PENALTY);
	assert_int_equal(knock("127.0.0.1"), GATE_OPEN);
}

static void tenant_has_so_many_connections(void **state)
{
	struct gate_pass p[5] = { { .gate = NULL } };
	limits.loopback = true;
	limits.per_source = 0;
	open_gate();
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(enter("127.0.0.1", &p[i]), GATE_OPEN);
	for (size_t i = 0; i < 3; i++)
		assert_true(gate_join(&p[i], 7));
	assert_true(gate_join(&p[0], 7));               /* counts once */
	assert_false(gate_join(&p[3], 7));
	assert_int_equal(metric_get(METRIC_connections_over_tenant), 1);
	assert_true(gate_join(&p[3], 8));               /* another is not touched */
	assert_true(gate_join(&p[0], 8));               /* behind a proxy a connection serves several */
	assert_true(gate_join(&p[4], 7));
	assert_false(gate_join(&p[3], 7));
	for (size_t i = 0; i < 5; i++)
		gate_leave(&p[i]);
}

/* Chances between the ends: the lot falls on none, some or all. */
static void strangers_are_dropped_early(void **state)
{
	struct gate_pass p[12];
	unsigned n = 0;
	limits = (struct gate_limits){ .start = 4, .percent = 100, .full = 10 };
	open_gate();
	for (; n < 4; n++)
		assert_int_equal(enter("192.0.2.1", &p[n]), GATE_OPEN);
	assert_int_equal(knock("192.0.2.1"), GATE_DROPPED);
	assert_true(gate_join(&p[0], 1));               /* no stranger any more */
	assert_int_equal(enter("192.0.2.1", &p[n++]), GATE_OPEN);
	assert_int_equal(knock("192.0.2.1"), GATE_DROPPED);
	gate_leave(&p[1]);
	assert_int_equal(knock("192.0.2.1"), GATE_OPEN);
	assert_int_equal(enter("192.0.2.1", &p[1]), GATE_OPEN);
	assert_int_equal(knock("192.0.2.1"), GATE_DROPPED);
	gate_known(&p[1]);                              /* an administrator */
	assert_int_equal(knock("192.0.2.1"), GATE_OPEN);
	gate_known(&p[1]);
	gate_leave(&p[1]);
	gate_leave(&p[0]);                              /* was counted off once already */
	assert_int_equal(enter("192.0.2.1", &p[0]), GATE_OPEN);
	assert_int_equal(knock("192.0.2.1"), GATE_DROPPED);
	assert_int_equal(knock("127.0.0.1"), GATE_OPEN);
	limits.percent = 0;
	limits.start = 10;
	open_gate();
	for (n = 0; n < 10; n++)
		assert_int_equal(enter("192.0.2.1", &p[n]), GATE_OPEN);
	assert_int_equal(knock("192.0.2.1"), GATE_DROPPED);
	limits.full = 0;
	open_gate();
	for (n = 0; n < 12; n++)
		assert_int_equal(enter("192.0.2.1", &p[n]), GATE_OPEN);
}

static void assert_waits(const char *from, unsigned seconds)
{
	assert_int_equal(knock(from), GATE_PENALTY);
	step(seconds - 1);
	assert_int_equal(knock(from), GATE_PENALTY);
	step(1);
	assert_int_equal(knock(from), GATE_OPEN);
}

static void penalty_doubles_up_to_the_longest_and_is_forgotten(void **state)
{
	static const unsigned seconds[] = { 5, 10, 20, 40, 80, 160, 320, 640, 900, 900 };
	open_gate();
	for (size_t i = 0; i < NELEMS(seconds); i++) {
		gate_failed(gate, "192.0.2.1");
		gate_failed(gate, "192.0.2.1");         /* while it waits: one fault of several connections */
		assert_int_equal(knock("192.0.2.2"), GATE_OPEN);
		assert_waits("192.0.2.1", seconds[i]);
	}
	step(15 * MINUTE);
	gate_failed(gate, "192.0.2.1");
	assert_waits("192.0.2.1", 5);
}

static void broken_message_costs_more(void **state)
{
	struct gate_pass p;
	open_gate();
	assert_int_equal(enter("2001:db8::1", &p), GATE_OPEN);
	assert_int_equal(gate_penalty_ms(&p), 0);
	gate_broke(&p);
	assert_int_equal(gate_penalty_ms(&p), 90000);
	gate_leave(&p);
	assert_waits("2001:db8::2", 90);
	limits.broken_ms = 0;
	open_gate();
	assert_int_equal(enter("2001:db8::1", &p), GATE_OPEN);
	gate_broke(&p);
	assert_int_equal(gate_penalty_ms(&p), 0);
	gate_leave(&p);
}

/* The n-th source of a family, each of IPv6 in a /48 of its own. */
static const char *nth(bool v6, unsigned n)
{
	static char from[40];
	(void)snprintf(from, sizeof(from), v6 ? "2a00:%x:%x::1" : "10.%u.%u.1", n / 256, n % 256);
	return from;
}

/* SEC S-801: who had one fault makes room, the oldest first. */
static void faults_that_are_remembered_are_bounded(void **state)
{
	for (unsigned v6 = 0; v6 < 2; v6++) {
		uint64_t before = metric_get(METRIC_penalties_forgotten);
		open_gate();
		for (unsigned i = 0; i < GATE_FAULTS_MAX; i++)
			gate_failed(gate, nth(v6, i));
		for (unsigned i = 0; i < GATE_FAULTS_MAX; i++)
			assert_int_equal(knock(nth(v6, i)), GATE_PENALTY);
		assert_int_equal(metric_get(METRIC_penalties_forgotten), before);
		gate_failed(gate, nth(v6, GATE_FAULTS_MAX));
		assert_int_equal(knock(nth(v6, GATE_FAULTS_MAX)), GATE_PENALTY);
		assert_int_equal(knock(nth(v6, 0)), GATE_OPEN);
		assert_int_equal(knock(nth(v6, 1)), GATE_PENALTY);
		assert_int_equal(metric_get(METRIC_penalties_forgotten), before + 1);
		step(16 * MINUTE);
		gate_failed(gate, nth(v6, 0));
		assert_int_equal(knock(nth(v6, 0)), GATE_PENALTY);
		assert_int_equal(metric_get(METRIC_penalties_forgotten), before + 1);
	}
}

static void flood_puts_out_none_that_came_back(void **state)
{
	for (unsigned v6 = 0; v6 < 2; v6++) {
		const char *worst = v6 ? "2001:db8::1" : "192.0.2.1";
		open_gate();
		for (unsigned i = 0; i < 3; i++) {
			gate_failed(gate, worst);
			step(30);
		}
		gate_failed(gate, worst);               /* 40 s */
		for (unsigned i = 0; i < 3 * GATE_FAULTS_MAX; i++)
			gate_failed(gate, nth(v6, i));
		assert_waits(worst, 40);
		gate_failed(gate, worst);
		assert_waits(worst, 80);
	}
}

/* When all have come back the new one is the least; the other family has its own places. */
static void one_family_leaves_the_other_its_places(void **state)
{
	for (unsigned v6 = 0; v6 < 2; v6++) {
		uint64_t before;
		open_gate();
		for (unsigned round = 0; round < 2; round++) {
			for (unsigned i = 0; i < GATE_FAULTS_MAX; i++)
				gate_failed(gate, nth(v6, i));
			step(5);
		}
		before = metric_get(METRIC_penalties_forgotten);
		gate_failed(gate, nth(v6, GATE_FAULTS_MAX));
		assert_int_equal(knock(nth(v6, GATE_FAULTS_MAX)), GATE_OPEN);
		assert_int_equal(metric_get(METRIC_penalties_forgotten), before + 1);
		for (unsigned i = 0; i < GATE_FAULTS_MAX; i++)
			gate_failed(gate, nth(!v6, i));
		assert_int_equal(knock(nth(!v6, 0)), GATE_PENALTY);
		assert_int_equal(metric_get(METRIC_penalties_forgotten), before + 1);
		assert_int_equal(knock(nth(v6, 0)), GATE_PENALTY);
	}
}

static const char *nth_of_net(unsigned n)
{
	static char from[40];
	(void)snprintf(from, sizeof(from), "2001:db8:7:%x::1", n);
	return from;
}

static void many_faults_of_one_48_are_its_own(void **state)
{
	struct gate_pass p;
	open_gate();
	for (unsigned i = 0; i < GATE_NET_FAULTS_MAX; i++)
		gate_failed(gate, nth_of_net(i));
	assert_int_equal(enter(nth_of_net(100), &p), GATE_OPEN);
	assert_int_equal(gate_penalty_ms(&p), 0);
	gate_failed(gate, nth_of_net(GATE_NET_FAULTS_MAX));
	assert_int_equal(gate_penalty_ms(&p), 10000);   /* one fault after that of its sources */
	gate_leave(&p);
	assert_int_equal(knock(nth_of_net(100)), GATE_PENALTY);
	assert_int_equal(knock("2001:db8:8::1"), GATE_OPEN);
	assert_int_equal(knock("2001:db8:6:ffff::1"), GATE_OPEN);
	step(9);
	assert_int_equal(knock(nth_of_net(0)), GATE_PENALTY);
	step(1);
	assert_int_equal(knock(nth_of_net(0)), GATE_OPEN);
	gate_failed(gate, nth_of_net(101));
	assert_int_equal(knock(nth_of_net(102)), GATE_PENALTY);
	step(20);
	assert_int_equal(knock(nth_of_net(102)), GATE_OPEN);
	/* It has atoned, and its sources are told apart again. */
	step(15 * MINUTE);
	gate_failed(gate, nth_of_net(0));
	assert_int_equal(knock(nth_of_net(0)), GATE_PENALTY);
	assert_int_equal(knock(nth_of_net(1)), GATE_OPEN);
}

/* Those that have atoned make no /48 wait. */
static void old_faults_of_one_48_do_not_add_up(void **state)
{
	open_gate();
	for (unsigned i = 0; i < 3 * GATE_NET_FAULTS_MAX; i++) {
		gate_failed(gate, nth_of_net(i));
		assert_int_equal(knock(nth_of_net(i + 1)), GATE_OPEN);
		step(2 * MINUTE);
	}
}

static void whole_48_is_one_place(void **state)
{
	uint64_t before = metric_get(METRIC_penalties_forgotten);
	open_gate();
	gate_failed(gate, "2001:db8::1");
	gate_failed(gate, "192.0.2.1");
	for (unsigned i = 0; i < 65536; i++) {
		gate_failed(gate, nth_of_net(i));
		if (i % 4096 == 0)
			step(1);
	}
	assert_int_equal(metric_get(METRIC_penalties_forgotten), before);
	for (unsigned i = 0; i < GATE_FAULTS_MAX - 2; i++)
		gate_failed(gate, nth(true, i));
	assert_int_equal(metric_get(METRIC_penalties_forgotten), before);
	gate_failed(gate, nth(true, GATE_FAULTS_MAX - 2));
	assert_int_equal(metric_get(METRIC_penalties_forgotten), before + 1);
}

static void without_a_gate_everything_is_open(void **state)
{
	struct gate_pass p;
	struct addr a;
	uint32_t wait;
	assert_true(addr_from_host("192.0.2.1", &a));
	assert_int_equal(gate_enter(NULL, &a, false, &p, &wait), GATE_OPEN);
	assert_true(gate_join(&p, 1));
	gate_broke(&p);
	gate_failed(NULL, "192.0.2.1");
	assert_int_equal(gate_penalty_ms(&p), 0);
	gate_leave(&p);
}

static void blocks_hold_what_they_say(void **state)
{
	static const struct { const char *block, *in, *out; } rows[] = {
		{ "10.0.0.0/8", "10.255.0.1", "11.0.0.0" }, { "10.0.0.1", "10.0.0.1", "10.0.0.2" },
		{ "0.0.0.0/0", "255.0.0.1", "2001:db8::1" }, { "192.0.2.128/25", "192.0.2.129", "192.0.2.127" },
		{ "2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1" }, { "::1", "::1", "::2" },
		{ "10.0.0.0/8", "::ffff:10.1.1.1", "::10.1.1.1" },
	};
	static const char *const bad[] = { "", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8x", "::/129", "10.0.0/8",
		"localhost", "[::1]", "10.0.0.1:80", "1111:2222:3333:4444:5555:6666:7777:8888:9999:0000:aaaa/1" };
	struct addr_block b;
	struct addr a;
	for (size_t i = 0; i < NELEMS(rows); i++) {
		assert_true(addr_block_parse(rows[i].block, &b));
		assert_true(addr_from_host(rows[i].in, &a));
		assert_true(addr_block_has(&b, &a));
		assert_true(addr_from_host(rows[i].out, &a));
		assert_false(addr_block_has(&b, &a));
	}
	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_false(addr_block_parse(bad[i], &b));
}

/* HARDENING F-5: at each limit, one above it, and what is given back. */
static void test_f5_bytes_that_wait_are_bounded(void **state)
{
	struct gate_pass a, b, c;
	struct err err;

	limits.bodies = 1 << 20;
	limits.bodies_source = 600000;
	limits.bodies_tenant = 700000;
	open_gate();
	assert_int_equal(enter("192.0.2.1", &a), GATE_OPEN);
	assert_int_equal(gate_hold(&a, GATE_SMALL_MAX, &err), 0);
	assert_int_equal(gate_hold(&a, GATE_SMALL_MAX + 1, &err), ERR_DENIED);
	assert_true(gate_join(&a, 1));
	assert_int_equal(gate_hold(&a, 600000, &err), 0);
	assert_int_equal(gate_hold(&a, 600001, &err), ERR_BUSY);
	assert_non_null(strstr(err.msg, "600001 with this one, allowed are 600000 (budgets.bodies_per_source)"));
	assert_int_equal(err.retry_ms, 1000);
	assert_int_equal(metric_get(METRIC_budget_bodies_bytes), 600000);
	assert_int_equal(enter("192.0.2.2", &b), GATE_OPEN);
	assert_true(gate_join(&b, 1));
	assert_int_equal(gate_hold(&b, 100000, &err), 0);
	assert_int_equal(gate_hold(&b, 100001, &err), ERR_BUSY);
	assert_non_null(strstr(err.msg, "(budgets.bodies_per_tenant)"));
	/* An eighth is for small messages. */
	assert_int_equal(enter("192.0.2.3", &c), GATE_OPEN);
	assert_true(gate_join(&c, 2));
	assert_int_equal(gate_hold(&c, (7 << 17) - 700000, &err), 0);
	assert_int_equal(gate_hold(&c, (7 << 17) - 700000 + 1, &err), ERR_BUSY);
	assert_non_null(strstr(err.msg, "(budgets.bodies)"));
	assert_true(gate_join(&b, 2));          /* it takes along what it holds */
	assert_int_equal(gate_hold(&a, 600000, &err), 0);
	gate_leave(&a);
	assert_int_equal(gate_hold(&b, 1, &err), 0);
	gate_release(&b);
	gate_leave(&b);
	gate_leave(&c);
	assert_int_equal(metric_get(METRIC_budget_bodies_bytes), 0);
}

static void test_f5_small_messages_have_an_eighth_of_their_own(void **state)
{
	struct gate_pass a, b;
	struct err err;

	limits.bodies = 8 << 17;
	open_gate();
	assert_int_equal(enter("192.0.2.1", &a), GATE_OPEN);
	assert_true(gate_join(&a, 1));
	assert_int_equal(gate_hold(&a, 7 << 17, &err), 0);
	assert_int_equal(gate_hold(&a, (7 << 17) + 1, &err), ERR_BUSY);
	assert_int_equal(enter("192.0.2.2", &b), GATE_OPEN);
	assert_true(gate_join(&b, 2));
	assert_int_equal(gate_hold(&b, GATE_SMALL_MAX, &err), 0);
	assert_int_equal(gate_hold(&b, GATE_SMALL_MAX + 1, &err), ERR_BUSY);
	gate_leave(&a);
	gate_leave(&b);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

SINGLE_THREAD_SUITE(gate)
{
	const struct CMUnitTest tests[] = {
		T(source_has_so_many_connections), T(loopback_and_the_exempt_are_no_sources), T(tenant_has_so_many_connections),
		T(strangers_are_dropped_early), T(penalty_doubles_up_to_the_longest_and_is_forgotten),
		T(broken_message_costs_more), T(faults_that_are_remembered_are_bounded), T(flood_puts_out_none_that_came_back),
		T(one_family_leaves_the_other_its_places), T(many_faults_of_one_48_are_its_own), T(old_faults_of_one_48_do_not_add_up),
		T(whole_48_is_one_place), T(without_a_gate_everything_is_open),
		T(blocks_hold_what_they_say), T(test_f5_bytes_that_wait_are_bounded),
		T(test_f5_small_messages_have_an_eighth_of_their_own),
	};

	return cmocka_run_group_tests_name("net_gate", tests, NULL, NULL);
}
