/*
 * What all tenants share (SEC S-804).  Of each ceiling C a part is divided evenly among the tenants: each has its share S
 * for certain.  Beyond that all draw from what is left, the common pool: the sum of what is used beyond the shares never
 * exceeds C - N * S, so that the shares of those who are quiet stay free.
 */

#include "config.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "limit_int.h"

const char *const limit_pools[LIMIT_POOLS] = { "calls", "queue", "streams", "bytes" };

static uint64_t beyond(uint64_t used, uint64_t share)
{
	return used > share ? used - share : 0;
}

/* The shares are others: so is what was drawn from the pool. */
static void count_common(struct limiter *l, enum limit_pool pool)
{
	void *value;

	l->common[pool] = 0;
	for (size_t it = 0; map_next(l->entries, &it, NULL, NULL, &value);) {
		struct entry *e = value;

		if (e->key.scope == LIMIT_TENANT)
			l->common[pool] += beyond(CONTAINER_OF(e, struct account, e)->used[pool], l->share[pool]);
	}
}

void limiter_set_tenants(struct limiter *l, size_t n)
{
	if (n == 0)
		n = 1;
	if (n == l->tenants)
		return;
	l->tenants = n;
	for (unsigned i = 0; i < LIMIT_POOLS; i++) {
		uint64_t share = l->conf.ceiling[i] / 100 * l->conf.share_percent + l->conf.ceiling[i] % 100 * l->conf.share_percent / 100;

		share /= n;
		if (share == l->share[i])
			continue;
		l->share[i] = share;
		count_common(l, (enum limit_pool)i);
	}
	l->due = l->waiting > 0;
}

static uint64_t common_size(const struct limiter *l, enum limit_pool pool)
{
	return l->conf.ceiling[pool] - l->share[pool] * l->tenants;
}

bool pool_has(const struct limiter *l, enum limit_pool pool, const struct account *a, uint64_t n)
{
	uint64_t used = a->used[pool], more;

	if (l->conf.ceiling[pool] == 0)
		return true;
	more = beyond(used + n, l->share[pool]) - beyond(used, l->share[pool]);
	/* The second: shares that have become smaller are still used as they were. */
	return (more == 0 || l->common[pool] + more <= common_size(l, pool)) && l->used[pool] + n <= l->conf.ceiling[pool];
}

uint64_t pool_room(const struct limiter *l, enum limit_pool pool)
{
	uint64_t common, all;

	if (l->conf.ceiling[pool] == 0)
		return UINT64_MAX;
	common = beyond(common_size(l, pool), l->common[pool]);
	all = beyond(l->conf.ceiling[pool], l->used[pool]);
	return common < all ? common : all;
}

static void set_used(struct limiter *l, enum limit_pool pool, struct account *a, uint64_t used)
{
	l->common[pool] += beyond(used, l->share[pool]);
	l->common[pool] -= beyond(a->used[pool], l->share[pool]);
	l->used[pool] += used;
	l->used[pool] -= a->used[pool];
	a->used[pool] = used;
	step_look(l);
}

void pool_take(struct limiter *l, enum limit_pool pool, struct account *a, uint64_t n)
{
	set_used(l, pool, a, a->used[pool] + n);
}

void pool_give(struct limiter *l, enum limit_pool pool, struct account *a, uint64_t n)
{
	set_used(l, pool, a, beyond(a->used[pool], n));
}

int limit_hold_stream(struct limiter *l, int64_t tenant_id, struct err *err)
{
	const struct entry_key key = { tenant_id, 0, LIMIT_TENANT };
	struct entry *e = entry_find(l, tenant_id, LIMIT_TENANT, 0);
	struct account *a;

	if (!e)         /* its limits come with its first message */
		e = entry_get(l, &key, NULL, l->swept_us);
	a = e ? CONTAINER_OF(e, struct account, e) : NULL;
	if (a && pool_has(l, LIMIT_STREAMS, a, 1)) {
		pool_take(l, LIMIT_STREAMS, a, 1);
		return 0;
	}
	metric_inc(METRIC_limit_streams_refused);
	(void)err_set(err, ERR_BUSY, "server/streams", "too many streams are open");
	if (err)
		err->retry_ms = LIMIT_SLOT_RETRY_MS;
	return ERR_BUSY;
}

void limit_drop_stream(struct limiter *l, int64_t tenant_id)
{
	struct entry *e = entry_find(l, tenant_id, LIMIT_TENANT, 0);

	if (e)
		pool_give(l, LIMIT_STREAMS, CONTAINER_OF(e, struct account, e), 1);
}

struct limit_pool_view limit_pool_see(const struct limiter *l, enum limit_pool pool)
{
	return (struct limit_pool_view){ l->used[pool], l->conf.ceiling[pool], l->share[pool] };
}
