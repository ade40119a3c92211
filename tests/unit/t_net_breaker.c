/* Circuit breakers on a clock that the test reads out. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/metric.h"
#include "net/breaker.h"
#include "suite.h"

#define MS 1000ull
#define T0 (1000000 * MS)

static struct breakers *b;

static int set_up(void **state)
{
	b = breakers_new();
	return 0;
}

static int tear_down(void **state)
{
	breakers_free(&b);
	assert_int_equal(metric_get(METRIC_breakers_open), 0);
	return 0;
}

static uint32_t ask(uint64_t now_us) { return breaker_ask(b, "acme", "a.example", 443, now_us); }
static void tell(enum breaker_word word, uint64_t now_us) { breaker_tell(b, "acme", "a.example", 443, word, now_us); }

static void fail_times(int n, uint64_t now_us)
{
	for (int i = 0; i < n; i++) {
		assert_int_equal(ask(now_us), 0);
		tell(BREAKER_BAD, now_us);
	}
}

static void breaker_opens_at_its_number_of_failures(void **state)
{
	uint64_t before = metric_get(METRIC_breaker_refusals);

	fail_times(BREAKER_FAILURES - 1, T0);
	assert_int_equal(ask(T0), 0);
	tell(BREAKER_BAD, T0);
	assert_int_equal(ask(T0), BREAKER_REST_MS);
	assert_int_equal(metric_get(METRIC_breakers_open), 1);
	assert_int_equal(metric_get(METRIC_breaker_refusals), before + 1);
	assert_int_equal(ask(T0 + BREAKER_REST_MS * MS - 1), 1);
}

static void success_forgets_failures(void **state)
{
	fail_times(BREAKER_FAILURES - 1, T0);
	tell(BREAKER_GOOD, T0);
	assert_int_equal(breakers_count(b), 0);
	fail_times(BREAKER_FAILURES - 1, T0);
	assert_int_equal(ask(T0), 0);
}

static void failures_outside_of_the_window_do_not_add_up(void **state)
{
	const uint64_t later = T0 + BREAKER_WINDOW_MS * MS;

	fail_times(BREAKER_FAILURES - 1, T0);
	fail_times(BREAKER_FAILURES - 1, later + 1);
	assert_int_equal(ask(later + 1), 0);
	fail_times(1, later + 1);
	assert_true(ask(later + 1) > 0);
}

static void failures_within_the_window_add_up(void **state)
{
	fail_times(BREAKER_FAILURES - 1, T0);
	fail_times(1, T0 + BREAKER_WINDOW_MS * MS);
	assert_true(ask(T0 + BREAKER_WINDOW_MS * MS) > 0);
}

static void half_open_lets_one_probe_pass(void **state)
{
	const uint64_t half = T0 + BREAKER_REST_MS * MS;

	fail_times(BREAKER_FAILURES, T0);
	assert_int_equal(ask(half), 0);
	assert_true(ask(half) > 0);
	tell(BREAKER_BAD, half);
	assert_int_equal(ask(half + 1), BREAKER_REST_MS);
	const uint64_t again = half + BREAKER_REST_MS * MS;
	assert_int_equal(ask(again), 0);
	tell(BREAKER_GOOD, again);
	assert_int_equal(ask(again), 0);
	assert_int_equal(ask(again), 0);
	assert_int_equal(metric_get(METRIC_breakers_open), 0);
}

static void probe_without_a_verdict_makes_room_for_another(void **state)
{
	const uint64_t half = T0 + BREAKER_REST_MS * MS;

	fail_times(BREAKER_FAILURES, T0);
	assert_int_equal(ask(half), 0);
	tell(BREAKER_UNSAID, half);
	assert_int_equal(ask(half), 0);
	assert_true(ask(half + BREAKER_WINDOW_MS * MS - 1) > 0);
	assert_int_equal(ask(half + BREAKER_WINDOW_MS * MS), 0);        /* it never told */
}

static void servers_scopes_and_ports_are_apart(void **state)
{
	fail_times(BREAKER_FAILURES, T0);
	assert_true(ask(T0) > 0);
	assert_int_equal(breaker_ask(b, "other", "a.example", 443, T0), 0);
	assert_int_equal(breaker_ask(b, "acme", "b.example", 443, T0), 0);
	assert_int_equal(breaker_ask(b, "acme", "a.example", 444, T0), 0);
}

static void servers_beyond_the_limit_push_the_oldest_out(void **state)
{
	uint64_t before = metric_get(METRIC_breakers_forgotten);
	char host[24];

	fail_times(BREAKER_FAILURES, T0);
	for (int i = 0; i < BREAKER_HOSTS_MAX - 1; i++) {
		snprintf(host, sizeof(host), "h%d.example", i);
		breaker_tell(b, "acme", host, 1, BREAKER_BAD, T0 + 1);
	}
	assert_int_equal(breakers_count(b), BREAKER_HOSTS_MAX);
	assert_true(ask(T0) > 0);
	breaker_tell(b, "acme", "one.more", 1, BREAKER_BAD, T0 + 1);
	assert_int_equal(breakers_count(b), BREAKER_HOSTS_MAX);
	assert_int_equal(metric_get(METRIC_breakers_forgotten), before + 1);
	assert_int_equal(ask(T0), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

SINGLE_THREAD_SUITE(breaker)
{
	const struct CMUnitTest tests[] = {
		TEST(breaker_opens_at_its_number_of_failures),
		TEST(success_forgets_failures),
		TEST(failures_outside_of_the_window_do_not_add_up),
		TEST(failures_within_the_window_add_up),
		TEST(half_open_lets_one_probe_pass),
		TEST(probe_without_a_verdict_makes_room_for_another),
		TEST(servers_scopes_and_ports_are_apart),
		TEST(servers_beyond_the_limit_push_the_oldest_out),
	};
	return cmocka_run_group_tests_name("circuit breakers", tests, NULL, NULL);
}
