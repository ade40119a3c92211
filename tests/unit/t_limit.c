/* Rates and slots: limit and limit + 1, all or nothing, a bounded table. */

#include "config.h"

#include "limit/limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "suite.h"

#define SECOND 1000000ull

static const struct limit_set no_limits;

/* A tenant's tool, with limits of both. */
struct want { struct limit_req req; struct limit_set tenant, tool; };

static struct want want_of(int64_t tenant, int64_t tool)
{
	return (struct want){ .req = { .tenant_id = tenant, .tool_id = tool, .now_us = SECOND } };
}

static int enter(struct limiter *l, struct want *w, struct limit_ticket **ret, struct err *err)
{
	w->req.set[LIMIT_TENANT] = &w->tenant;
	w->req.set[LIMIT_TOOL] = &w->tool;
	return limit_enter(l, &w->req, NULL, NULL, ret, err);
}

static int admit(struct limiter *l, struct want *w, struct err *err)
{
	struct limit_ticket *t = NULL;
	int rc = enter(l, w, &t, err);

	if (rc == 0)
		limit_release(l, &t, w->req.now_us);
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
	struct limiter *l = limiter_new(NULL);
	struct want w = want_of(1, 10);
	struct limit_ticket *a = NULL, *b = NULL, *c = NULL;
	struct err err;

	w.tenant.concurrency = 2;
	assert_int_equal(enter(l, &w, &a, &err), 0);
	w.req.tool_id = 11;
	assert_int_equal(enter(l, &w, &b, &err), 0);
	assert_int_equal(limit_running(l, 1), 2);
	assert_int_equal(enter(l, &w, &c, &err), ERR_RATE);
	assert_string_equal(err.where, "tenant/concurrency");
	assert_int_equal(err.retry_ms, LIMIT_SLOT_RETRY_MS);
	w.req.tenant_id = 2;
	assert_int_equal(enter(l, &w, &c, &err), 0);
	limit_release(l, &a, SECOND);
	w.req.tenant_id = 1;
	assert_int_equal(admit(l, &w, &err), 0);
	limit_release(l, &b, SECOND);
	limit_release(l, &c, SECOND);
	limit_release(l, &c, SECOND);
	assert_int_equal(limit_running(l, 1), 0);
	limiter_free(&l);
}

static void tool_limits_bind_one_tool_of_one_tenant(void **state)
{
	struct limiter *l = limiter_new(NULL);
	struct want w = want_of(1, 10);
	struct limit_ticket *a = NULL;
	struct err err;

	w.tool.concurrency = 1;
	assert_int_equal(enter(l, &w, &a, &err), 0);
	assert_int_equal(admit(l, &w, &err), ERR_RATE);
	assert_string_equal(err.where, "tool/concurrency");
	w.req.tool_id++;
	assert_int_equal(admit(l, &w, &err), 0);
	w.req.tool_id--;
	w.req.tenant_id = 2;
	assert_int_equal(admit(l, &w, &err), 0);
	limit_release(l, &a, SECOND);
	limiter_free(&l);
}

/* SEC S-802, S-806: a principal's and a key's limits are their own, within those of the tenant. */
static void principal_and_key_have_limits_of_their_own(void **state)
{
	const struct limit_set one = { .concurrency = 1 };
	struct limiter *l = limiter_new(NULL);
	struct want w = want_of(1, 10);
	struct limit_ticket *a = NULL, *b = NULL;
	struct err err;

	w.req.principal_id = 5;
	w.req.cred_id = 50;
	w.req.set[LIMIT_KEY] = &one;
	assert_int_equal(enter(l, &w, &a, &err), 0);
	assert_int_equal(enter(l, &w, &b, &err), ERR_RATE);
	assert_string_equal(err.where, "key/concurrency");
	w.req.cred_id = 51;
	assert_int_equal(enter(l, &w, &b, &err), 0);
	limit_release(l, &b, SECOND);
	limit_release(l, &a, SECOND);
	w.req.set[LIMIT_PRINCIPAL] = &one;
	assert_int_equal(enter(l, &w, &a, &err), 0);
	w.req.cred_id = 52;
	assert_int_equal(enter(l, &w, &b, &err), ERR_RATE);
	assert_string_equal(err.where, "principal/concurrency");
	limit_release(l, &a, SECOND);
	limiter_free(&l);
}

/* A refusal must not burn what another limit holds. */
static void refused_call_takes_no_token(void **state)
{
	struct limiter *l = limiter_new(NULL);
	struct want w = want_of(1, 10);
	struct limit_ticket *a = NULL;
	struct err err;

	w.tenant.rate = (struct text_rate){ 2, 60 };
	w.tool.concurrency = 1;
	assert_int_equal(enter(l, &w, &a, &err), 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(admit(l, &w, &err), ERR_RATE);
	limit_release(l, &a, SECOND);
	assert_int_equal(admit(l, &w, &err), 0);
	assert_int_equal(admit(l, &w, &err), ERR_RATE);
	assert_string_equal(err.where, "tenant/rate");
	assert_int_equal(err.retry_ms, 30000);
	limiter_free(&l);
}

static void changed_rate_starts_afresh(void **state)
{
	struct limiter *l = limiter_new(NULL);
	struct want w = want_of(1, 10);
	struct err err;

	w.tool.rate = (struct text_rate){ 1, 86400 };
	assert_int_equal(admit(l, &w, &err), 0);
	assert_int_equal(admit(l, &w, &err), ERR_RATE);
	assert_string_equal(err.where, "tool/rate");
	w.tool.rate = (struct text_rate){ 2, 60 };
	assert_int_equal(admit(l, &w, &err), 0);
	assert_int_equal(admit(l, &w, &err), 0);
	assert_int_equal(admit(l, &w, &err), ERR_RATE);
	limiter_free(&l);
}

/* SEC S-801: a bound, and what is idle makes room. */
static void table_is_bounded_and_forgets_the_idle(void **state)
{
	struct limiter *l = limiter_new(NULL);
	struct want w = want_of(1, 1);
	struct err err;
	int64_t n = LIMIT_ENTRIES_MAX / 2;

	w.tenant.rate = (struct text_rate){ 1, 3600 };
	for (int64_t i = 0; i < n; i++) {
		w.req.tenant_id = i + 1;
		assert_int_equal(admit(l, &w, &err), 0);
	}
	assert_int_equal(limiter_entries(l), LIMIT_ENTRIES_MAX);
	/* The tools are idle, the tenants' buckets are not. */
	w.req.now_us = 2 * SECOND;
	w.req.tenant_id = n + 1;
	assert_int_equal(admit(l, &w, &err), 0);
	assert_true(limiter_entries(l) <= (size_t)n + 2);
	/* The empty bucket of a tenant was not forgotten. */
	w.req.tenant_id = 1;
	assert_int_equal(admit(l, &w, &err), ERR_RATE);
	limiter_free(&l);
}

/* MCP B-57, SEC S-803: what is no call is paid in units of another rate. */
static void messages_are_charged_by_their_cost(void **state)
{
	const struct limit_set set = { .requests = { 10, 1 } };
	struct limit_req req = { .tenant_id = 1, .now_us = SECOND, .set = { [LIMIT_TENANT] = &set } };
	struct limiter *l = limiter_new(NULL);
	struct err err;

	assert_int_equal(limit_charge(l, &req, 4, false, &err), 0);
	assert_int_equal(limit_charge(l, &req, 6, false, &err), 0);
	assert_int_equal(limit_charge(l, &req, 1, false, &err), ERR_RATE);
	assert_string_equal(err.where, "tenant/requests");
	assert_int_equal(err.retry_ms, 100);
	/* What was dearer than it looked is a debt, of one filling at most. */
	req.now_us += SECOND;
	assert_int_equal(limit_charge(l, &req, 1, false, &err), 0);
	limit_charge_more(l, &req, 1000);
	assert_int_equal(limit_charge(l, &req, 1, false, &err), ERR_RATE);
	assert_int_equal(err.retry_ms, 1100);
	req.now_us += 1100 * 1000;
	assert_int_equal(limit_charge(l, &req, 1, false, &err), 0);
	/* A loose one is lent as much as the bucket holds, and no more. */
	for (int i = 0; i < 10; i++)
		assert_int_equal(limit_charge(l, &req, 1, true, &err), 0);
	assert_int_equal(limit_charge(l, &req, 1, true, &err), ERR_RATE);
	/* A call pays by its own rate. */
	req.now_us += 2 * SECOND;
	assert_int_equal(limit_charge(l, &req, 10, false, &err), 0);
	limit_charge_back(l, &req, 1);
	assert_int_equal(limit_charge(l, &req, 1, false, &err), 0);
	assert_int_equal(limit_charge(l, &req, 1, false, &err), ERR_RATE);
	limiter_free(&l);
}

/* --- the day */

static void quota_of_calls_and_bytes_ends_with_the_day(void **state)
{
	struct limiter *l = limiter_new(NULL);
	struct want w = want_of(1, 10);
	struct limit_usage u[4];
	struct err err;

	w.req.wall_us = 20000 * LIMIT_DAY_US + LIMIT_DAY_US / 2;
	w.req.bytes = 100;
	w.tenant.calls_day = 2;
	assert_int_equal(admit(l, &w, &err), 0);
	assert_int_equal(admit(l, &w, &err), 0);
	assert_int_equal(admit(l, &w, &err), ERR_RATE);
	assert_string_equal(err.where, "tenant/quota");
	assert_int_equal(err.retry_ms, LIMIT_DAY_US / 2 / 1000);
	w.tenant.calls_day = 0;
	w.tenant.bytes_day = 300;
	assert_int_equal(admit(l, &w, &err), 0);
	assert_int_equal(admit(l, &w, &err), ERR_RATE);
	assert_string_equal(err.where, "tenant/storage");
	assert_string_equal(err.msg, "this tenant has used 300 of its 300 bytes of today, and the arguments are 100 more; "
			    "it has more from 2024-10-05T00:00:00Z");
	assert_int_equal(limit_usage_dirty(l, u, 4), 1);
	assert_true(u[0].tenant_id == 1 && u[0].scope == LIMIT_TENANT && u[0].day == 20000 && u[0].calls == 3 && u[0].bytes == 300);
	assert_int_equal(limit_usage_dirty(l, u, 4), 0);
	w.req.wall_us += LIMIT_DAY_US / 2;
	assert_int_equal(admit(l, &w, &err), 0);
	limiter_free(&l);
	/* After a restart it goes on where it was. */
	l = limiter_new(NULL);
	limit_usage_load(l, &u[0]);
	w.req.wall_us -= LIMIT_DAY_US / 2;
	assert_int_equal(admit(l, &w, &err), ERR_RATE);
	assert_int_equal(limit_see(l, LIMIT_TENANT, 1, 0, w.req.wall_us).calls, 3);
	limiter_free(&l);
}

/* As many bytes as a whole day has can be called with, one more never: that has nothing to do with what was used. */
static void call_that_no_day_has_room_for_says_so(void **state)
{
	struct limiter *l = limiter_new(NULL);
	struct want w = want_of(1, 10);
	struct err err;

	w.req.wall_us = 20000 * LIMIT_DAY_US;
	w.tenant.bytes_day = 300;
	w.req.bytes = 301;
	assert_int_equal(admit(l, &w, &err), ERR_RATE);
	assert_string_equal(err.where, "tenant/storage");
	assert_string_equal(err.msg, "the arguments are 301 bytes, more than the 300 that this tenant has for a whole day");
	w.req.bytes = 300;
	assert_int_equal(admit(l, &w, &err), 0);
	limiter_free(&l);
}

/* --- what all tenants share */

static const struct limit_conf hundred = { .ceiling = { 100, 0, 4, 1000 }, .share_percent = 50 };

/* SEC S-804 */
static void greedy_tenant_leaves_the_shares_of_the_others(void **state)
{
	struct limiter *l = limiter_new(&hundred);
	struct want a = want_of(1, 10), b = want_of(2, 10);
	struct limit_ticket *t[101], *u[26];
	struct err err;
	int n = 0, m = 0;

	limiter_set_tenants(l, 2);      /* 25 each, 50 for whoever comes first */
	while (enter(l, &a, &t[n], &err) == 0)
		n++;
	assert_int_equal(n, 75);
	assert_int_equal(err.code, ERR_BUSY);
	assert_string_equal(err.where, "server/calls");
	assert_int_equal(limit_pressure(l), 75);
	assert_true(limit_shed(l, 1, 75));
	assert_false(limit_shed(l, 1, 76));
	assert_false(limit_shed(l, 2, 75));
	while (enter(l, &b, &u[m], &err) == 0)
		m++;
	assert_int_equal(m, 25);
	limit_release(l, &t[--n], SECOND);
	assert_int_equal(enter(l, &b, &u[m], &err), 0);
	m++;
	while (n > 0)
		limit_release(l, &t[--n], SECOND);
	while (m > 0)
		limit_release(l, &u[--m], SECOND);
	assert_int_equal(limit_pressure(l), 0);
	limiter_free(&l);
}

/* HARDENING F-10: at the bound, one below it, and another tenant beside it. */
static void test_f10_what_was_recorded_of_a_tenant_is_bounded(void **state)
{
	const struct limit_conf conf = { .tenant_audit = 1600 };
	struct limiter *l = limiter_new(&conf);
	struct want w = want_of(1, 10), other = want_of(2, 20);
	struct limit_usage u[8];
	struct err err;
	size_t n, audit = 0;

	w.req.wall_us = other.req.wall_us = 20000 * LIMIT_DAY_US + LIMIT_DAY_US / 2;
	limit_add_audit(l, 1, w.req.wall_us, 1599, false);
	assert_int_equal(admit(l, &w, &err), 0);
	assert_int_equal(limit_charge(l, &w.req, 1, false, &err), 0);
	limit_add_audit(l, 1, w.req.wall_us, 1, false);
	assert_int_equal(admit(l, &w, &err), ERR_RATE);
	assert_string_equal(err.where, "tenant/audit");
	assert_string_equal(err.msg, "1600 bytes were recorded of this tenant today, allowed are 1600 (budgets.audit_per_tenant); "
			    "it has more from 2024-10-05T00:00:00Z");
	assert_int_equal(err.retry_ms, LIMIT_DAY_US / 2 / 1000);
	assert_int_equal(limit_charge(l, &w.req, 1, false, &err), ERR_RATE);
	assert_int_equal(limit_charge(l, &w.req, 1, true, &err), 0);
	assert_int_equal(admit(l, &other, &err), 0);
	n = limit_usage_dirty(l, u, 8);
	for (size_t i = 0; i < n; i++)
		audit = u[i].scope == LIMIT_AUDIT && u[i].tenant_id == 1 && u[i].bytes == 1600 && u[i].calls == 2 ? i + 1 : audit;
	assert_true(audit > 0);
	/* Nearly no disk: a sixteenth. */
	limit_add_audit(l, 2, w.req.wall_us, 99, true);
	assert_int_equal(admit(l, &other, &err), 0);
	limit_add_audit(l, 2, w.req.wall_us, 1, true);
	assert_int_equal(admit(l, &other, &err), ERR_RATE);
	assert_int_equal(err.retry_ms, 60000);
	limit_add_audit(l, 2, w.req.wall_us, 1, false);
	assert_int_equal(admit(l, &other, &err), 0);
	w.req.wall_us += LIMIT_DAY_US / 2;
	assert_int_equal(admit(l, &w, &err), 0);
	limiter_free(&l);
	/* After a restart it goes on where it was. */
	l = limiter_new(&conf);
	limit_usage_load(l, &u[audit - 1]);
	w.req.wall_us -= LIMIT_DAY_US / 2;
	assert_int_equal(admit(l, &w, &err), ERR_RATE);
	limiter_free(&l);
}

static void test_f10_memory_of_a_tenants_calls_is_bounded(void **state)
{
	const struct limit_conf conf = { .tenant_bytes = 1000 };
	struct limiter *l = limiter_new(&conf);
	struct want w = want_of(1, 10), other = want_of(2, 20);
	struct limit_ticket *t = NULL, *u = NULL;
	struct err err;

	w.req.bytes = other.req.bytes = 400;
	assert_int_equal(enter(l, &w, &t, &err), 0);
	w.req.bytes = 601;
	assert_int_equal(enter(l, &w, &u, &err), ERR_RATE);
	assert_string_equal(err.where, "tenant/bytes");
	assert_non_null(strstr(err.msg, "are 1001 bytes with this one, allowed are 1000 (budgets.results_per_tenant)"));
	assert_int_equal(err.retry_ms, LIMIT_SLOT_RETRY_MS);
	w.req.bytes = 600;
	assert_int_equal(enter(l, &w, &u, &err), 0);
	assert_int_equal(limit_see(l, LIMIT_TENANT, 1, 0, 0).memory, 1000);
	assert_int_equal(admit(l, &other, &err), 0);
	limit_release(l, &t, SECOND);
	limit_release(l, &u, SECOND);
	assert_int_equal(limit_see(l, LIMIT_TENANT, 1, 0, 0).memory, 0);
	limiter_free(&l);
}

static void bytes_and_streams_have_ceilings(void **state)
{
	struct limiter *l = limiter_new(&hundred);
	struct want a = want_of(1, 10);
	struct limit_ticket *t = NULL, *u = NULL;
	struct err err;

	a.req.bytes = 600;
	assert_int_equal(enter(l, &a, &t, &err), 0);
	a.req.bytes = 401;
	assert_int_equal(enter(l, &a, &u, &err), ERR_BUSY);
	assert_string_equal(err.where, "server/bytes");
	a.req.bytes = 400;
	assert_int_equal(enter(l, &a, &u, &err), 0);
	limit_release(l, &u, SECOND);
	limit_add_bytes(t, 5000);       /* a result is taken however large the rest is */
	assert_int_equal(enter(l, &a, &u, &err), ERR_BUSY);
	limit_release(l, &t, SECOND);
	for (int i = 0; i < 4; i++)
		assert_int_equal(limit_hold_stream(l, 1, &err), 0);
	assert_int_equal(limit_hold_stream(l, 1, &err), ERR_BUSY);
	assert_int_equal(err.retry_ms, LIMIT_SLOT_RETRY_MS);
	limit_drop_stream(l, 1);
	assert_int_equal(limit_hold_stream(l, 1, &err), 0);
	limiter_free(&l);
}

/* --- the queue */

struct waiter { struct want w; struct limit_ticket *t; char name; };
static char heard[256];

static void on_turn(void *arg, bool granted)
{
	struct waiter *w = arg;
	size_t n = strlen(heard);

	heard[n] = granted ? w->name : '!';
	heard[n + 1] = '\0';
}

static int wait_for(struct limiter *l, struct waiter *w, char name, int64_t tenant, int64_t cred, int64_t tool, struct err *err)
{
	static const struct limit_set one = { .concurrency = 1 };

	w->name = name;
	w->w = want_of(tenant, tool);
	w->w.req.cred_id = cred;
	w->w.req.principal_id = cred;
	w->w.req.set[LIMIT_TENANT] = &no_limits;
	w->w.req.set[LIMIT_TOOL] = tool == 1 ? &one : &no_limits;
	return limit_enter(l, &w->w.req, on_turn, w, &w->t, err);
}

static const struct limit_conf narrow = { .ceiling = { 1, 8, 0, 0 }, .share_percent = 0, .wait_ms = 1000 };

/* SEC S-804: round the tenants, then round the credentials; nobody starves behind a flood. */
static void turns_go_round_tenants_then_credentials(void **state)
{
	static const struct { char name; int64_t tenant, cred; } come[] = {
		{ 'a', 1, 1 }, { 'b', 1, 1 }, { 'c', 1, 1 }, { 'd', 1, 2 }, { 'e', 2, 3 }, { 'f', 1, 1 }, { 'g', 2, 3 }, { 'h', 3, 4 },
	};
	struct limiter *l = limiter_new(&narrow);
	struct waiter first, w[NELEMS(come)], late;
	struct limit_ticket *running;
	struct err err;

	heard[0] = '\0';
	assert_int_equal(wait_for(l, &first, '0', 1, 1, 2, &err), 0);
	assert_false(limit_waits(first.t));
	assert_true(limit_next_us(l) == UINT64_MAX);
	for (size_t i = 0; i < NELEMS(come); i++) {
		assert_int_equal(wait_for(l, &w[i], come[i].name, come[i].tenant, come[i].cred, 2, &err), 0);
		assert_true(limit_waits(w[i].t));
	}
	/* SEC S-801: 8 places, and one more. */
	assert_int_equal(wait_for(l, &late, 'x', 4, 5, 2, &err), ERR_BUSY);
	assert_string_equal(err.where, "server/queue");
	assert_int_equal(limit_waiting(l), 8);
	assert_true(limit_next_us(l) == 2 * SECOND);
	running = first.t;
	for (size_t turn = 0; turn < NELEMS(come); turn++) {
		limit_release(l, &running, SECOND);
		assert_true(limit_next_us(l) == 0);
		limit_turns(l, SECOND);
		assert_int_equal(strlen(heard), turn + 1);
		for (size_t i = 0; i < NELEMS(come); i++)
			if (w[i].name == heard[turn])
				running = w[i].t;
	}
	assert_string_equal(heard, "aehdgbcf");
	limit_release(l, &running, SECOND);
	assert_int_equal(limit_waiting(l), 0);
	limiter_free(&l);
}

/* A slot that is free goes to those who wait, not to who comes meanwhile. */
static void nobody_overtakes_a_turn_that_is_due(void **state)
{
	struct limiter *l = limiter_new(&narrow);
	struct waiter a, b, c;
	struct err err;

	heard[0] = '\0';
	assert_int_equal(wait_for(l, &a, 'a', 1, 1, 2, &err), 0);
	assert_int_equal(wait_for(l, &b, 'b', 1, 1, 2, &err), 0);
	limit_release(l, &a.t, SECOND);
	assert_int_equal(wait_for(l, &c, 'c', 1, 1, 2, &err), 0);
	assert_true(limit_waits(c.t));
	limit_turns(l, SECOND);
	assert_string_equal(heard, "b");
	limit_release(l, &b.t, SECOND);
	limit_turns(l, SECOND);
	assert_string_equal(heard, "bc");
	limit_release(l, &c.t, SECOND);
	limiter_free(&l);
}

/* SEC S-804: nor does another tenant, for what is free of the common pool. */
static void other_tenants_do_not_overtake_a_turn_that_is_due(void **state)
{
	struct limiter *l = limiter_new(&narrow);
	struct waiter a, b, c;
	struct err err;

	heard[0] = '\0';
	assert_int_equal(wait_for(l, &a, 'a', 1, 1, 2, &err), 0);
	assert_int_equal(wait_for(l, &b, 'b', 2, 2, 2, &err), 0);
	limit_release(l, &a.t, SECOND);
	assert_int_equal(wait_for(l, &c, 'c', 1, 1, 2, &err), 0);
	assert_true(limit_waits(c.t));
	limit_turns(l, SECOND);
	assert_string_equal(heard, "b");
	limit_release(l, &b.t, SECOND);
	limit_turns(l, SECOND);
	assert_string_equal(heard, "bc");
	limit_release(l, &c.t, SECOND);
	limiter_free(&l);
}

static void share_is_not_held_up_by_who_waits_for_the_pool(void **state)
{
	/* One slot each, two for whoever comes first. */
	static const struct limit_conf four = { .ceiling = { 4, 8, 0, 0 }, .share_percent = 50, .wait_ms = 1000 };
	struct limiter *l = limiter_new(&four);
	struct waiter flood[4], b, c;
	struct err err;

	heard[0] = '\0';
	limiter_set_tenants(l, 2);
	for (size_t i = 0; i < NELEMS(flood); i++) {
		assert_int_equal(wait_for(l, &flood[i], (char)('p' + i), 1, 1, 2, &err), 0);
		assert_int_equal(limit_waits(flood[i].t), i == 3);
	}
	limit_release(l, &flood[0].t, SECOND);
	assert_int_equal(wait_for(l, &b, 'b', 2, 2, 2, &err), 0);
	assert_false(limit_waits(b.t));                         /* its own */
	assert_int_equal(wait_for(l, &c, 'c', 2, 2, 2, &err), 0);
	assert_true(limit_waits(c.t));                          /* of the pool, where another was first */
	limit_turns(l, SECOND);
	assert_string_equal(heard, "s");
	limit_release(l, &b.t, SECOND);
	limit_turns(l, SECOND);
	assert_string_equal(heard, "sc");
	limit_release(l, &c.t, SECOND);
	for (size_t i = 1; i < NELEMS(flood); i++)
		limit_release(l, &flood[i].t, SECOND);
	limiter_free(&l);
}

/* There is room for all of them: nobody waits for a turn, and nobody is told that it would come too late. */
static void who_waits_for_a_tool_does_not_hold_up_the_pool(void **state)
{
	static const struct limit_conf wide = { .ceiling = { 100, 8, 0, 0 }, .wait_ms = 1000 };
	struct limiter *l = limiter_new(&wide);
	struct waiter a, b, c, d;
	struct err err;

	heard[0] = '\0';
	assert_int_equal(wait_for(l, &d, 'd', 1, 1, 2, &err), 0);
	assert_int_equal(wait_for(l, &a, 'a', 1, 1, 1, &err), 0);
	assert_int_equal(wait_for(l, &b, 'b', 1, 1, 1, &err), 0);
	assert_true(limit_waits(b.t));
	limit_release(l, &a.t, 9 * SECOND);                     /* it took 8 s */
	assert_int_equal(wait_for(l, &c, 'c', 2, 2, 2, &err), 0);
	assert_false(limit_waits(c.t));
	assert_int_equal(wait_for(l, &a, 'a', 1, 1, 2, &err), 0);
	assert_true(limit_waits(a.t));                          /* behind its own, in this turn */
	limit_turns(l, SECOND);
	assert_string_equal(heard, "ba");
	limit_release(l, &a.t, SECOND);
	limit_release(l, &b.t, SECOND);
	limit_release(l, &c.t, SECOND);
	limit_release(l, &d.t, SECOND);
	limiter_free(&l);
}

static void who_waits_is_first_when_shares_grow(void **state)
{
	static const struct limit_conf two = { .ceiling = { 2, 8, 0, 0 }, .share_percent = 100, .wait_ms = 1000 };
	struct limiter *l = limiter_new(&two);
	struct waiter a, b, c;
	struct err err;

	heard[0] = '\0';
	limiter_set_tenants(l, 2);
	assert_int_equal(wait_for(l, &a, 'a', 1, 1, 2, &err), 0);
	assert_int_equal(wait_for(l, &b, 'b', 1, 1, 2, &err), 0);
	assert_true(limit_waits(b.t));
	limiter_set_tenants(l, 1);
	assert_int_equal(wait_for(l, &c, 'c', 1, 1, 2, &err), 0);
	assert_true(limit_waits(c.t));
	limit_turns(l, SECOND);
	assert_string_equal(heard, "b");
	limit_release(l, &c.t, SECOND);
	limit_release(l, &b.t, SECOND);
	limit_release(l, &a.t, SECOND);
	limiter_free(&l);
}

static void busy_tool_does_not_hold_up_other_tools(void **state)
{
	static const struct limit_conf wide = { .ceiling = { 100, 8, 0, 0 }, .wait_ms = 1000 };
	struct limiter *l = limiter_new(&wide);
	struct waiter a, b, c;
	struct err err;

	heard[0] = '\0';
	assert_int_equal(wait_for(l, &a, 'a', 1, 1, 1, &err), 0);
	assert_int_equal(wait_for(l, &b, 'b', 1, 1, 1, &err), 0);
	assert_true(limit_waits(b.t));
	assert_int_equal(wait_for(l, &c, 'c', 1, 1, 2, &err), 0);
	assert_false(limit_waits(c.t));
	limit_release(l, &c.t, SECOND);
	limit_turns(l, SECOND);
	assert_string_equal(heard, "");
	limit_release(l, &a.t, SECOND);
	limit_turns(l, SECOND);
	assert_string_equal(heard, "b");
	limit_release(l, &b.t, SECOND);
	limiter_free(&l);
}

/* SEC S-806: it ends at its time; and who would wait longer is told so at once. */
static void wait_ends_and_a_hopeless_one_does_not_begin(void **state)
{
	struct limiter *l = limiter_new(&narrow);
	struct waiter a, b, c;
	struct err err;

	heard[0] = '\0';
	assert_int_equal(wait_for(l, &a, 'a', 1, 1, 2, &err), 0);
	assert_int_equal(wait_for(l, &b, 'b', 1, 1, 2, &err), 0);
	limit_turns(l, 2 * SECOND - 1);
	assert_string_equal(heard, "");
	limit_turns(l, 2 * SECOND);
	assert_string_equal(heard, "!");
	limit_release(l, &b.t, 2 * SECOND);
	limit_release(l, &a.t, 6 * SECOND);     /* it took 5 s: so will the next */
	assert_int_equal(wait_for(l, &a, 'a', 1, 1, 2, &err), 0);
	assert_int_equal(wait_for(l, &c, 'c', 1, 1, 2, &err), ERR_BUSY);
	assert_string_equal(err.where, "server/calls");
	assert_int_equal(err.retry_ms, 4000);
	limit_release(l, &a.t, SECOND);
	limiter_free(&l);
}

/* The tenant's own length of the queue, and one more. */
static void queue_of_a_tenant_is_bounded(void **state)
{
	static const struct limit_set two = { .queue = 2 };
	struct limiter *l = limiter_new(&narrow);
	struct waiter a, b, c, d;
	struct err err;

	assert_int_equal(wait_for(l, &a, 'a', 1, 1, 2, &err), 0);
	assert_int_equal(wait_for(l, &b, 'b', 1, 1, 2, &err), 0);
	assert_int_equal(wait_for(l, &c, 'c', 1, 1, 2, &err), 0);
	d.w = want_of(1, 2);
	d.w.req.set[LIMIT_TENANT] = &two;
	assert_int_equal(limit_enter(l, &d.w.req, on_turn, &d, &d.t, &err), ERR_RATE);
	assert_string_equal(err.where, "tenant/queue");
	limit_release(l, &b.t, SECOND);         /* it has left: its call was cancelled */
	assert_int_equal(limit_enter(l, &d.w.req, on_turn, &d, &d.t, &err), 0);
	limit_release(l, &d.t, SECOND);
	limit_release(l, &c.t, SECOND);
	limit_release(l, &a.t, SECOND);
	assert_int_equal(limit_waiting(l), 0);
	assert_int_equal(limit_see(l, LIMIT_TENANT, 1, 0, 0).calls, 1); /* only the first has run */
	limiter_free(&l);
}

SINGLE_THREAD_SUITE(limit)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bucket_gives_its_count_then_refuses),
		cmocka_unit_test(bucket_never_holds_more_than_its_count),
		cmocka_unit_test(bucket_survives_extreme_rates_and_a_clock_that_stands),
		cmocka_unit_test(tenant_concurrency_counts_all_tools),
		cmocka_unit_test(tool_limits_bind_one_tool_of_one_tenant),
		cmocka_unit_test(principal_and_key_have_limits_of_their_own),
		cmocka_unit_test(refused_call_takes_no_token),
		cmocka_unit_test(changed_rate_starts_afresh),
		cmocka_unit_test(table_is_bounded_and_forgets_the_idle),
		cmocka_unit_test(messages_are_charged_by_their_cost),
		cmocka_unit_test(quota_of_calls_and_bytes_ends_with_the_day),
		cmocka_unit_test(call_that_no_day_has_room_for_says_so),
		cmocka_unit_test(greedy_tenant_leaves_the_shares_of_the_others),
		cmocka_unit_test(bytes_and_streams_have_ceilings),
		cmocka_unit_test(test_f10_what_was_recorded_of_a_tenant_is_bounded),
		cmocka_unit_test(test_f10_memory_of_a_tenants_calls_is_bounded),
		cmocka_unit_test(turns_go_round_tenants_then_credentials),
		cmocka_unit_test(nobody_overtakes_a_turn_that_is_due),
		cmocka_unit_test(other_tenants_do_not_overtake_a_turn_that_is_due),
		cmocka_unit_test(share_is_not_held_up_by_who_waits_for_the_pool),
		cmocka_unit_test(who_waits_for_a_tool_does_not_hold_up_the_pool),
		cmocka_unit_test(who_waits_is_first_when_shares_grow),
		cmocka_unit_test(busy_tool_does_not_hold_up_other_tools),
		cmocka_unit_test(wait_ends_and_a_hopeless_one_does_not_begin),
		cmocka_unit_test(queue_of_a_tenant_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
