/*
 * Slots and rates of tenants and of their tools: one bounded table of entries.  An entry that nobody runs
 * under and whose bucket is full says nothing a new one would not say: it may be forgotten.
 */

#include "config.h"

#include "limit/limit.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/mem.h"
#include "limit_int.h"
#include "metrics/metric.h"

enum { SWEEP_INTERVAL_US = 1000000 };   /* looking at all entries is not free */

struct entry_key {
	int64_t tenant_id, tool_id;     /* tool_id 0: the tenant as a whole */
};

struct entry {
	uint32_t running;
	struct text_rate rate;          /* what the bucket was filled for */
	struct limit_bucket bucket;
};

struct limiter {
	struct map *entries;            /* struct entry_key -> struct entry */
	uint64_t swept_us;
};

struct limit_ticket {
	struct entry *tenant, *tool;    /* an entry with a running call stays */
};

struct limiter *limiter_new(void)
{
	struct limiter *l = mem_zalloc(sizeof *l);

	l->entries = map_new();
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

		if (e->running > 0 || !bucket_full(&e->bucket, e->rate, now_us))
			continue;
		(void)map_del(l->entries, key, len); /* the value is in hand */
		free(e);
	}
}

/* NULL when the table is full of entries that are in use. */
static struct entry *entry_get(struct limiter *l, struct entry_key key, struct text_rate rate, uint64_t now_us)
{
	struct entry *e = map_get(l->entries, &key, sizeof key);

	if (!e) {
		if (map_count(l->entries) >= LIMIT_ENTRIES_MAX)
			sweep(l, now_us);
		if (map_count(l->entries) >= LIMIT_ENTRIES_MAX)
			return NULL;
		e = mem_zalloc(sizeof *e);
		e->rate = rate;
		(void)map_set(l->entries, &key, sizeof key, e); /* there was none */
	}
	if (e->rate.count != rate.count || e->rate.per_s != rate.per_s) {
		e->rate = rate;
		e->bucket = (struct limit_bucket){ 0, 0 };      /* a changed rate starts afresh */
	}
	return e;
}

static int check(struct entry *e, uint32_t concurrency, const char *who, uint64_t now_us, struct err *err)
{
	char where[32];
	uint32_t retry_ms = LIMIT_SLOT_RETRY_MS;

	if (concurrency && e->running >= concurrency) {
		met_inc(MET_calls_busy);
		(void)snprintf(where, sizeof where, "%s/concurrency", who); /* two short words */
		(void)err_set(err, ERR_RATE, where, "too many calls of this %s are running (limit %u)", who, concurrency);
	} else if (!bucket_has(&e->bucket, e->rate, now_us, &retry_ms)) {
		char rate[40];

		met_inc(MET_calls_rate_limited);
		(void)snprintf(where, sizeof where, "%s/rate", who); /* two short words */
		(void)err_set(err, ERR_RATE, where, "too many calls of this %s (limit %s)", who,
			      text_format_rate(e->rate, rate, sizeof rate));
	} else {
		return 0;
	}
	if (err)
		err->retry_ms = retry_ms;
	return ERR_RATE;
}

int limit_admit(struct limiter *l, const struct limit_req *req, uint64_t now_us, struct limit_ticket **ret,
		struct err *err)
{
	const struct entry_key tenant_key = { req->tenant_id, 0 }, tool_key = { req->tenant_id, req->tool_id };
	struct entry *tenant, *tool;
	int rc;

	/* The tool second: making room for it must not forget the tenant, hence the slot while looking. */
	tenant = entry_get(l, tenant_key, req->tenant_rate, now_us);
	if (!tenant)
		goto full;
	tenant->running++;
	tool = entry_get(l, tool_key, req->tool_rate, now_us);
	tenant->running--;
	if (!tool)
		goto full;
	rc = check(tenant, req->tenant_concurrency, "tenant", now_us, err);
	if (rc == 0)
		rc = check(tool, req->tool_concurrency, "tool", now_us, err);
	if (rc < 0)
		return rc;
	bucket_pay(&tenant->bucket, tenant->rate);
	bucket_pay(&tool->bucket, tool->rate);
	tenant->running++;
	tool->running++;
	*ret = mem_alloc(sizeof **ret);
	**ret = (struct limit_ticket){ tenant, tool };
	return 0;
full:
	met_inc(MET_calls_busy);
	(void)err_set(err, ERR_RATE, "limiter", "too many tools are busy at once");
	if (err)
		err->retry_ms = LIMIT_SLOT_RETRY_MS;
	return ERR_RATE;
}

void limit_release(struct limiter *l, struct limit_ticket **ticket)
{
	(void)l; /* the entries know */
	if (!ticket || !*ticket)
		return;
	assert((*ticket)->tenant->running > 0 && (*ticket)->tool->running > 0);
	(*ticket)->tenant->running--;
	(*ticket)->tool->running--;
	free(*ticket);
	*ticket = NULL;
}

uint32_t limit_running(const struct limiter *l, int64_t tenant_id)
{
	const struct entry_key key = { tenant_id, 0 };
	const struct entry *e = map_get(l->entries, &key, sizeof key);

	return e ? e->running : 0;
}

size_t limiter_entries(const struct limiter *l)
{
	return map_count(l->entries);
}
