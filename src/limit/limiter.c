/* The limiter: its table of tenants, principals, keys and tools, their buckets, what all tenants share, and how full
 * the process is.  slots.c asks it for each call, on the loop's thread.  The sum of what is taken beyond the shares
 * never reaches into the shares of others. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"

#include "limit_int.h"

/* --- Token buckets as time */

/* A token costs per_s / count seconds of credit, credit grows with the clock up to per_s. */

static uint64_t capacity_us(struct text_rate rate)
{
	return (uint64_t)rate.per_s * 1000000;
}

static uint64_t cost_us(struct text_rate rate)
{
	uint64_t cost = capacity_us(rate) / rate.count;

	return cost ? cost : 1;
}

static void refill(struct limit_bucket *b, struct text_rate rate, uint64_t now_us)
{
	uint64_t cap = capacity_us(rate);

	if (b->at_us == 0 || b->level_us > cap)
		b->level_us = cap;      /* new, or the rate was lowered */
	else if (now_us > b->at_us)
		b->level_us = now_us - b->at_us > cap - b->level_us ? cap : b->level_us + (now_us - b->at_us);
	if (now_us > b->at_us)
		b->at_us = now_us;
}

bool bucket_has(struct limit_bucket *b, struct text_rate rate, unsigned n, uint64_t now_us, uint32_t *ret_retry_ms)
{
	uint64_t cost, wait_ms;

	if (rate.count == 0)
		return true;
	refill(b, rate, now_us);
	cost = cost_us(rate) * n;
	if (cost > capacity_us(rate))
		cost = capacity_us(rate);
	if (b->level_us >= cost)
		return true;
	wait_ms = (cost - b->level_us + (b->at_us > now_us ? b->at_us - now_us : 0) + 999) / 1000;
	*ret_retry_ms = wait_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)wait_ms;
	return false;
}

void bucket_pay(struct limit_bucket *b, struct text_rate rate, unsigned n)
{
	uint64_t cost = rate.count ? cost_us(rate) * n : 0;

	b->level_us -= cost < b->level_us ? cost : b->level_us;
}

void bucket_owe(struct limit_bucket *b, struct text_rate rate, unsigned n, uint64_t now_us)
{
	uint64_t cost, debt;

	if (rate.count == 0)
		return;
	refill(b, rate, now_us);
	cost = cost_us(rate) * n;
	debt = cost > b->level_us ? cost - b->level_us : 0;
	bucket_pay(b, rate, n);
	/* Credit grows from a later time on. */
	b->at_us += debt;
	if (b->at_us > now_us + capacity_us(rate))
		b->at_us = now_us + capacity_us(rate);
}

bool bucket_lends(struct limit_bucket *b, struct text_rate rate, unsigned n, uint64_t now_us)
{
	uint64_t debt;

	if (rate.count == 0)
		return true;
	refill(b, rate, now_us);
	debt = b->at_us > now_us ? b->at_us - now_us : 0;
	return debt + cost_us(rate) * n <= capacity_us(rate) + b->level_us;
}

void bucket_give(struct limit_bucket *b, struct text_rate rate, unsigned n)
{
	uint64_t cost = rate.count ? cost_us(rate) * n : 0, room = rate.count ? capacity_us(rate) - b->level_us : 0;

	b->level_us += cost < room ? cost : room;
}

static bool bucket_full(struct limit_bucket *b, struct text_rate rate, uint64_t now_us)
{
	if (rate.count == 0)
		return true;
	refill(b, rate, now_us);
	return b->level_us == capacity_us(rate) && b->at_us <= now_us;
}

int limit_bucket_take(struct limit_bucket *b, struct text_rate rate, uint64_t now_us, uint32_t *ret_retry_ms)
{
	if (!bucket_has(b, rate, 1, now_us, ret_retry_ms))
		return ERR_RATE;
	bucket_pay(b, rate, 1);
	return 0;
}

/* --- What all tenants share (SEC S-804) */

/* Of each ceiling C a part is divided evenly among the tenants: each has its share S for certain.  Beyond that all
 * draw from what is left, the common pool: the sum of what is used beyond the shares never exceeds C - N * S, so
 * that the shares of those who are quiet stay free. */

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
		const uint64_t ceiling = l->conf.ceiling[i], percent = l->conf.share_percent;
		uint64_t share = ceiling / 100 * percent + ceiling % 100 * percent / 100;

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
	return (more == 0 || l->common[pool] + more <= common_size(l, pool)) &&
		l->used[pool] + n <= l->conf.ceiling[pool];
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

static void step_look(struct limiter *l);

static void set_used(struct limiter *l, enum limit_pool pool, struct account *a, uint64_t used)
{
	l->common[pool] += beyond(used, l->share[pool]);
	l->common[pool] -= beyond(a->used[pool], l->share[pool]);
	l->used[pool] += used;
	l->used[pool] -= a->used[pool];
	a->used[pool] = used;
	l->percent[pool] = l->conf.ceiling[pool] ? (unsigned)(l->used[pool] * 100 / l->conf.ceiling[pool]) : 0;
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

/* --- How full the process is, in steps (SEC S-807). */

static const unsigned reached_at[LIMIT_STEPS] = { [LIMIT_NEARLY_FULL] = 80, [LIMIT_FULL] = 95 };      /* percent */

/* Where calls may wait it is no trouble when all that may run do. */
static enum limit_pool first_pool(const struct limiter *l)
{
	return l->conf.wait_ms == 0 ? LIMIT_CALLS : LIMIT_PLACES;
}

unsigned limit_pressure(const struct limiter *l)
{
	unsigned most = 0;

	for (unsigned i = first_pool(l); i < LIMIT_POOLS; i++)
		if (l->percent[i] > most)
			most = l->percent[i];
	return most;
}

bool limit_shed(const struct limiter *l, int64_t tenant_id, unsigned from)
{
	struct entry *e = NULL;

	for (unsigned i = first_pool(l); i < LIMIT_POOLS; i++) {
		if (l->percent[i] < from || l->conf.ceiling[i] == 0)
			continue;
		if (!e)
			e = entry_find(l, tenant_id, LIMIT_TENANT, 0);
		if (e && CONTAINER_OF(e, struct account, e)->used[i] > l->share[i])
			return true;
	}
	return false;
}

static void step_look(struct limiter *l)
{
	unsigned percent = limit_pressure(l), step = l->step;

	while (step + 1 < LIMIT_STEPS && percent >= reached_at[step + 1])
		step++;
	while (step > 0 && percent + LIMIT_SLACK < reached_at[step])
		step--;
	if (step == l->step)
		return;
	l->step = (enum limit_step)step;
	if (l->on_step)
		l->on_step(l->on_step_arg, l->step);
}

void limiter_on_step(struct limiter *l, limit_step_fn *fn, void *arg)
{
	l->on_step = fn;
	l->on_step_arg = arg;
}

bool limit_crowds(const struct limiter *l, int64_t tenant_id)
{
	return l->step != LIMIT_CALM && limit_shed(l, tenant_id, reached_at[LIMIT_NEARLY_FULL] - LIMIT_SLACK);
}

/* --- the table of tenants, principals, keys and tools */

/* An entry that nobody runs or waits under, whose buckets are full and of which nothing was used today says nothing
 * that a new one would not say: it may be forgotten. */

enum { SWEEP_INTERVAL_US = 1000000 };   /* looking at all entries is not free */
enum { NEAR_SETS = 2048, SPARE_TICKETS = 256 };

const char *const limit_scopes[LIMIT_SCOPES] = { "tenant", "principal", "key", "tool" };

struct limiter *limiter_new(const struct limit_conf *conf)
{
	struct limiter *l = mem_zalloc(sizeof(*l));

	if (conf)
		l->conf = *conf;
	l->spares = (struct mem_spares){ .size = sizeof(struct limit_ticket), .max = SPARE_TICKETS };
	l->entries = map_new();
	l->near = near_new(NEAR_SETS);
	list_init(&l->ring);
	list_init(&l->order);
	list_init(&l->dirty);
	limiter_set_tenants(l, 1);
	return l;
}

void limiter_free(struct limiter **l)
{
	void *e;

	if (!l || !*l)
		return;
	for (size_t it = 0; map_next((*l)->entries, &it, NULL, NULL, &e);)
		free(e);
	map_free(&(*l)->entries);
	near_free(&(*l)->near);
	mem_spares_fini(&(*l)->spares);
	free(*l);
	*l = NULL;
}

const struct limit_conf *limiter_conf(const struct limiter *l)
{
	return &l->conf;
}

static bool is_idle(const struct limiter *l, struct entry *e, uint64_t now_us)
{
	if (e->running > 0 || e->waiting > 0 || !list_empty(&e->dirty) ||
	    ((e->calls > 0 || e->bytes > 0) && e->day == l->day))
		return false;
	if (e->key.scope == LIMIT_TENANT)
		for (unsigned i = 0; i < LIMIT_POOLS; i++)
			if (CONTAINER_OF(e, struct account, e)->used[i] > 0)
				return false;
	return bucket_full(&e->bucket, e->rate, now_us) && bucket_full(&e->requests, e->requests_rate, now_us);
}

static uint64_t tag_of(const struct entry_key *key)
{
	return (uint64_t)key->tenant_id << 24 ^ (uint64_t)key->subject << 4 ^ (uint64_t)key->scope;
}

static struct entry *look_up(const struct limiter *l, const struct entry_key *key)
{
	struct entry *e = near_get(l->near, tag_of(key));

	if (e && memcmp(&e->key, key, sizeof(*key)) == 0)
		return e;
	e = map_get(l->entries, key, sizeof(*key));
	if (e)
		near_put(l->near, tag_of(key), e);
	return e;
}

static void sweep(struct limiter *l, uint64_t now_us)
{
	const void *key;
	size_t len;
	void *value;

	if (l->swept_us && now_us - l->swept_us < SWEEP_INTERVAL_US)
		return;
	l->swept_us = now_us;
	for (size_t it = 0; map_next(l->entries, &it, &key, &len, &value);) {
		struct entry *e = value;

		if (!is_idle(l, e, now_us))
			continue;
		near_del(l->near, tag_of(&e->key), e);
		(void)map_del(l->entries, key, len); /* the value is in hand */
		free(e);
	}
}

static struct entry *entry_new(struct limiter *l, const struct entry_key *key)
{
	struct account *a;
	struct entry *e;

	if (key->scope == LIMIT_TENANT) {
		a = mem_zalloc(sizeof(*a));
		list_init(&a->lanes);
		list_init(&a->ring);
		e = &a->e;
	} else {
		e = mem_zalloc(sizeof(*e));
	}
	e->key = *key;
	list_init(&e->dirty);
	(void)map_set(l->entries, &e->key, sizeof(e->key), e); /* there was none */
	return e;
}

/* A changed rate starts afresh. */
static void take_rate(struct text_rate *have, struct limit_bucket *b, struct text_rate want)
{
	if (have->count == want.count && have->per_s == want.per_s)
		return;
	*have = want;
	*b = (struct limit_bucket){ 0, 0 };
}

struct entry *entry_get(struct limiter *l, const struct entry_key *key, const struct limit_set *set, uint64_t now_us)
{
	struct entry *e = look_up(l, key);

	if (!e) {
		if (map_count(l->entries) >= LIMIT_ENTRIES_MAX)
			sweep(l, now_us);
		if (map_count(l->entries) >= LIMIT_ENTRIES_MAX)
			return NULL;
		e = entry_new(l, key);
	}
	take_rate(&e->rate, &e->bucket, set ? set->rate : (struct text_rate){ 0, 0 });
	take_rate(&e->requests_rate, &e->requests, set ? set->requests : (struct text_rate){ 0, 0 });
	return e;
}

struct entry *entry_find(const struct limiter *l, int64_t tenant_id, enum limit_scope scope, int64_t subject)
{
	const struct entry_key key = { tenant_id, subject, (int64_t)scope };

	return look_up(l, &key);
}

uint32_t limit_running(const struct limiter *l, int64_t tenant_id)
{
	const struct entry *e = entry_find(l, tenant_id, LIMIT_TENANT, 0);

	return e ? e->running : 0;
}

size_t limiter_entries(const struct limiter *l)
{
	return map_count(l->entries);
}
