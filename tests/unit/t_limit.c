/* Rates and slots: limit and limit + 1, all or nothing, a bounded table. */

#include "config.h"

#include "limit/limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

#define SECOND 1000000ull

static const struct limit_req plain = { .tenant_id = 1, .tool_id = 10 };

static int admit(struct limiter *l, const struct limit_req *req, uint64_t now_us, struct err *err)
{
	struct limit_ticket *t = NULL;
	int rc = limit_admit(l, req, now_us, &t, err);

	if (rc == 0)
		limit_release(l, &t);
	return rc;
}

static void bucket_gives_its_count_then_refuses(void **state)
{
	struct limit_bucket b = { 0, 0 };
	const struct text_rate rate = { 3, 1 };
	uint32_t retry_ms = 0;

	for (int i = 0; i < 3; i++)
		assert_int_equal(limit_bucket_take(&b, rate, 5 * SECOND, &retry_ms), 0);
	assert_int_equal(limit_bucket_take(&b, rate, 5 * SECOND, &retry_ms), ERR_RATE);
	assert_true(retry_ms > 0 && retry_ms <= 334);
	assert_int_equal(limit_bucket_take(&b, rate, 5 * SECOND + retry_ms * 1000, &retry_ms), 0);
	assert_int_equal(limit_bucket_take(&b, rate, 5 * SECOND + 340000, &retry_ms), ERR_RATE);
}

static void bucket_never_holds_more_than_its_count(void **state)
{
	struct limit_bucket b = { 0, 0 };
	const struct text_rate rate = { 60, 60 };
	uint32_t retry_ms;
	int taken = 0;

	assert_int_equal(limit_bucket_take(&b, rate, SECOND, &retry_ms), 0);
	while (limit_bucket_take(&b, rate, 90000 * SECOND, &retry_ms) == 0)
		taken++;
	assert_int_equal(taken, 60);
}

static void bucket_survives_extreme_rates_and_a_clock_that_stands(void **state)
{
	struct limit_bucket fast = { 0, 0 }, slow = { 0, 0 };
	uint32_t retry_ms = 0;

	for (int i = 0; i < 1000; i++)
		assert_int_equal(limit_bucket_take(&fast, (struct text_rate){ UINT32_MAX, 1 }, SECOND, &retry_ms), 0);
	assert_int_equal(limit_bucket_take(&slow, (struct text_rate){ 1, 86400 }, SECOND, &retry_ms), 0);
	assert_int_equal(limit_bucket_take(&slow, (struct text_rate){ 1, 86400 }, SECOND, &retry_ms), ERR_RATE);
	assert_int_equal(retry_ms, 86400000);
	assert_int_equal(limit_bucket_take(&slow, (struct text_rate){ 1, 86400 }, 1, &retry_ms), ERR_RATE);
}

static void tenant_concurrency_counts_all_tools(void **state)
{
	struct limiter *l = limiter_new();
	struct limit_req req = plain;
	struct limit_ticket *a = NULL, *b = NULL, *c = NULL;
	struct err err;

	req.tenant_concurrency = 2;
	assert_int_equal(limit_admit(l, &req, SECOND, &a, &err), 0);
	req.tool_id = 11;
	assert_int_equal(limit_admit(l, &req, SECOND, &b, &err), 0);
	assert_int_equal(limit_running(l, 1), 2);
	assert_int_equal(limit_admit(l, &req, SECOND, &c, &err), ERR_RATE);
	assert_string_equal(err.where, "tenant/concurrency");
	assert_int_equal(err.retry_ms, LIMIT_SLOT_RETRY_MS);
	req.tenant_id = 2;
	assert_int_equal(limit_admit(l, &req, SECOND, &c, &err), 0);
	limit_release(l, &a);
	req.tenant_id = 1;
	assert_int_equal(admit(l, &req, SECOND, &err), 0);
	limit_release(l, &b);
	limit_release(l, &c);
	limit_release(l, &c);
	assert_int_equal(limit_running(l, 1), 0);
	limiter_free(&l);
}

static void tool_limits_bind_one_tool_of_one_tenant(void **state)
{
	struct limiter *l = limiter_new();
	struct limit_req req = plain;
	struct limit_ticket *a = NULL;
	struct err err;

	req.tool_concurrency = 1;
	assert_int_equal(limit_admit(l, &req, SECOND, &a, &err), 0);
	assert_int_equal(admit(l, &req, SECOND, &err), ERR_RATE);
	assert_string_equal(err.where, "tool/concurrency");
	req.tool_id++;
	assert_int_equal(admit(l, &req, SECOND, &err), 0);
	req = plain;
	req.tool_concurrency = 1;
	req.tenant_id = 2;
	assert_int_equal(admit(l, &req, SECOND, &err), 0);
	limit_release(l, &a);
	limiter_free(&l);
}

/* A refusal must not burn what another limit holds. */
static void refused_call_takes_no_token(void **state)
{
	struct limiter *l = limiter_new();
	struct limit_req req = plain;
	struct limit_ticket *a = NULL;
	struct err err;

	req.tenant_rate = (struct text_rate){ 2, 60 };
	req.tool_concurrency = 1;
	assert_int_equal(limit_admit(l, &req, SECOND, &a, &err), 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(admit(l, &req, SECOND, &err), ERR_RATE);
	limit_release(l, &a);
	assert_int_equal(admit(l, &req, SECOND, &err), 0);
	assert_int_equal(admit(l, &req, SECOND, &err), ERR_RATE);
	assert_string_equal(err.where, "tenant/rate");
	assert_int_equal(err.retry_ms, 30000);
	limiter_free(&l);
}

static void changed_rate_starts_afresh(void **state)
{
	struct limiter *l = limiter_new();
	struct limit_req req = plain;
	struct err err;

	req.tool_rate = (struct text_rate){ 1, 86400 };
	assert_int_equal(admit(l, &req, SECOND, &err), 0);
	assert_int_equal(admit(l, &req, SECOND, &err), ERR_RATE);
	assert_string_equal(err.where, "tool/rate");
	req.tool_rate = (struct text_rate){ 2, 60 };
	assert_int_equal(admit(l, &req, SECOND, &err), 0);
	assert_int_equal(admit(l, &req, SECOND, &err), 0);
	assert_int_equal(admit(l, &req, SECOND, &err), ERR_RATE);
	limiter_free(&l);
}

/* SEC S-801: a bound, and what is idle makes room. */
static void table_is_bounded_and_forgets_the_idle(void **state)
{
	struct limiter *l = limiter_new();
	struct limit_req req = { .tenant_rate = { 1, 3600 } };
	struct err err;
	int64_t n = LIMIT_ENTRIES_MAX / 2;

	for (int64_t i = 0; i < n; i++) {
		req.tenant_id = i + 1;
		req.tool_id = 1;
		assert_int_equal(admit(l, &req, SECOND, &err), 0);
	}
	assert_int_equal(limiter_entries(l), LIMIT_ENTRIES_MAX);
	/* The tools are idle, the tenants' buckets are not. */
	req.tenant_id = n + 1;
	assert_int_equal(admit(l, &req, 2 * SECOND, &err), 0);
	assert_true(limiter_entries(l) <= (size_t)n + 2);
	/* The empty bucket of a tenant was not forgotten. */
	req.tenant_id = 1;
	assert_int_equal(admit(l, &req, 2 * SECOND, &err), ERR_RATE);
	limiter_free(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bucket_gives_its_count_then_refuses),
		cmocka_unit_test(bucket_never_holds_more_than_its_count),
		cmocka_unit_test(bucket_survives_extreme_rates_and_a_clock_that_stands),
		cmocka_unit_test(tenant_concurrency_counts_all_tools),
		cmocka_unit_test(tool_limits_bind_one_tool_of_one_tenant),
		cmocka_unit_test(refused_call_takes_no_token),
		cmocka_unit_test(changed_rate_starts_afresh),
		cmocka_unit_test(table_is_bounded_and_forgets_the_idle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
