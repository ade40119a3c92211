/*
 * The table of tenants, principals, keys and tools.  An entry that nobody runs or waits under, whose buckets are full and
 * of which nothing was used today says nothing that a new one would not say: it may be forgotten.
 */

#include "config.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "limit_int.h"

enum { SWEEP_INTERVAL_US = 1000000 };   /* looking at all entries is not free */

const char *const limit_scopes[LIMIT_SCOPES] = { "tenant", "principal", "key", "tool" };

struct limiter *limiter_new(const struct limit_conf *conf)
{
	struct limiter *l = mem_zalloc(sizeof *l);

	if (conf)
		l->conf = *conf;
	l->entries = map_new();
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
	free(*l);
	*l = NULL;
}

static bool is_idle(const struct limiter *l, struct entry *e, uint64_t now_us)
{
	if (e->running > 0 || e->waiting > 0 || !list_empty(&e->dirty) || ((e->calls > 0 || e->bytes > 0) && e->day == l->day))
		return false;
	if (e->key.scope == LIMIT_TENANT)
		for (unsigned i = 0; i < LIMIT_POOLS; i++)
			if (CONTAINER_OF(e, struct account, e)->used[i] > 0)
				return false;
	return bucket_full(&e->bucket, e->rate, now_us) && bucket_full(&e->requests, e->requests_rate, now_us);
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
		(void)map_del(l->entries, key, len); /* the value is in hand */
		free(e);
	}
}

static struct entry *entry_new(struct limiter *l, const struct entry_key *key)
{
	struct account *a;
	struct entry *e;

	if (key->scope == LIMIT_TENANT) {
		a = mem_zalloc(sizeof *a);
		list_init(&a->lanes);
		list_init(&a->ring);
		e = &a->e;
	} else {
		e = mem_zalloc(sizeof *e);
	}
	e->key = *key;
	list_init(&e->dirty);
	(void)map_set(l->entries, &e->key, sizeof e->key, e); /* there was none */
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
	struct entry *e = map_get(l->entries, key, sizeof *key);

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

	return map_get(l->entries, &key, sizeof key);
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
