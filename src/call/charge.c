/* Whom a message is charged to, by which limits, and what is charged beside calls. */

#include "config.h"

#include "base/clock.h"
#include "base/metric.h"
#include "call_int.h"
#include "ev/ev.h"
#include "limit/limit.h"
#include "tenant/tenant.h"

static uint32_t lower(uint32_t a, uint32_t b)
{
	return a && b ? (a < b ? a : b) : a + b;        /* 0 = no limit */
}

/* Whoever says something later may lower the rate, never raise it (product.md 4). */
static struct text_rate lower_rate(struct text_rate a, struct text_rate b)
{
	if (a.count == 0 || b.count == 0)
		return a.count ? a : b;
	return (uint64_t)a.count * b.per_s <= (uint64_t)b.count * a.per_s ? a : b;
}

static struct limit_set set_of(const struct tenant_limits *l)
{
	if (!l)
		return (struct limit_set){ 0 };
	return (struct limit_set){ .concurrency = l->concurrency, .queue = l->queue, .rate = l->rate, .requests = l->requests,
		.calls_day = l->calls_day, .bytes_day = l->bytes_day };
}

static void of_tenant(const struct call_engine *eng, int64_t tenant_id, struct limit_set *ret)
{
	const struct tenant *tenant = tenant_by_id(eng->env.tenants, tenant_id);

	*ret = set_of(tenant_limits(eng->env.tenants, tenant_id, TENANT_SCOPE_TENANT, 0));
	if (tenant) {           /* else it has been removed meanwhile */
		ret->concurrency = tenant->concurrency;
		ret->rate = tenant->rate;
	}
	if (!ret->queue)
		ret->queue = eng->env.queue;
	if (!ret->requests.count && eng->env.requests)
		ret->requests = (struct text_rate){ eng->env.requests, 1 };
}

/* The least of what the definition, the grant and `limit set` say. */
static void of_tool(const struct call_engine *eng, const struct call_charged *to, struct limit_set *ret)
{
	*ret = set_of(tenant_limits(eng->env.tenants, to->who->tenant_id, TENANT_SCOPE_TOOL, to->tool->def->tool_id));
	ret->concurrency = lower(ret->concurrency, lower(to->compiled->concurrency, to->tool->concurrency));
	ret->rate = lower_rate(ret->rate, lower_rate(to->compiled->rate, to->tool->rate));
}

void call_limits(const struct call_engine *eng, const struct call_charged *to, struct call_sets *sets, struct limit_req *ret)
{
	const struct tenants *tenants = eng->env.tenants;
	const struct principal *who = to->who;
	const struct tenant_limits *principal = tenant_limits(tenants, who->tenant_id, TENANT_SCOPE_PRINCIPAL, who->principal_id),
		*key = who->cred_id ? tenant_limits(tenants, who->tenant_id, TENANT_SCOPE_KEY, who->cred_id) : NULL;

	*ret = (struct limit_req){ .tenant_id = who->tenant_id, .principal_id = who->principal_id, .cred_id = who->cred_id,
		.now_us = ev_now_us(eng->env.loop), .wall_us = clock_wall_us() };
	of_tenant(eng, who->tenant_id, &sets->of[LIMIT_TENANT]);
	ret->set[LIMIT_TENANT] = &sets->of[LIMIT_TENANT];
	sets->of[LIMIT_PRINCIPAL] = set_of(principal);
	if (principal)
		ret->set[LIMIT_PRINCIPAL] = &sets->of[LIMIT_PRINCIPAL];
	sets->of[LIMIT_KEY] = set_of(key);
	if (key)
		ret->set[LIMIT_KEY] = &sets->of[LIMIT_KEY];
	if (to->tool) {
		ret->tool_id = to->tool->def->tool_id;
		of_tool(eng, to, &sets->of[LIMIT_TOOL]);
		ret->set[LIMIT_TOOL] = &sets->of[LIMIT_TOOL];
	}
	limiter_set_tenants(eng->env.limiter, tenants_count(tenants));
}

int call_charge(struct call_engine *eng, const struct principal *who, unsigned cost, bool loose, struct err *err)
{
	struct call_sets sets;
	struct limit_req req;

	call_limits(eng, &(struct call_charged){ .who = who }, &sets, &req);
	return limit_charge(eng->env.limiter, &req, cost, loose, err);
}

void call_charge_more(struct call_engine *eng, const struct principal *who, unsigned cost)
{
	struct call_sets sets;
	struct limit_req req;

	call_limits(eng, &(struct call_charged){ .who = who }, &sets, &req);
	limit_charge_more(eng->env.limiter, &req, cost);
}

void call_charge_back(struct call_engine *eng, const struct principal *who, unsigned cost)
{
	struct call_sets sets;
	struct limit_req req;

	call_limits(eng, &(struct call_charged){ .who = who }, &sets, &req);
	limit_charge_back(eng->env.limiter, &req, cost);
}

bool call_shed(const struct call_engine *eng, const struct principal *who, unsigned percent)
{
	if (!limit_shed(eng->env.limiter, who->tenant_id, percent))
		return false;
	metric_inc(METRIC_requests_shed);
	return true;
}

bool call_crowds(const struct call_engine *eng, const struct principal *who)
{
	return limit_crowds(eng->env.limiter, who->tenant_id);
}

int call_hold_stream(struct call_engine *eng, int64_t tenant_id, struct err *err)
{
	limiter_set_tenants(eng->env.limiter, tenants_count(eng->env.tenants));
	return limit_hold_stream(eng->env.limiter, tenant_id, err);
}

void call_drop_stream(struct call_engine *eng, int64_t tenant_id)
{
	limit_drop_stream(eng->env.limiter, tenant_id);
}
