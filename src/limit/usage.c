/* What was used on a day of UTC, and the quotas of it. */

#include "config.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/metric.h"
#include "limit_int.h"

/* Yesterday's use is history. */
static void turn_day(struct entry *e, uint64_t wall_us)
{
	uint64_t day = wall_us / LIMIT_DAY_US;

	if (e->day == day)
		return;
	e->day = day;
	e->calls = e->bytes = 0;
}

int usage_check(struct entry *e, const struct limit_set *set, const struct limit_req *req, struct err *err)
{
	const char *who = limit_scopes[e->key.scope];
	bool calls, bytes;
	char where[32];
	uint64_t rest_ms;

	if (!set || (set->calls_day == 0 && set->bytes_day == 0))
		return 0;
	turn_day(e, req->wall_us);
	calls = set->calls_day && e->calls >= set->calls_day;
	bytes = set->bytes_day && e->bytes + req->bytes > set->bytes_day;
	if (!calls && !bytes)
		return 0;
	metric_inc(METRIC_calls_over_quota);
	(void)snprintf(where, sizeof where, "%s/%s", who, calls ? "quota" : "storage"); /* two short words */
	(void)err_set(err, ERR_RATE, where, "this %s has used its %llu %s of today", who,
		      (unsigned long long)(calls ? set->calls_day : set->bytes_day), calls ? "calls" : "bytes");
	rest_ms = (LIMIT_DAY_US - req->wall_us % LIMIT_DAY_US + 999) / 1000;
	if (err)
		err->retry_ms = (uint32_t)rest_ms;      /* a day at most */
	return ERR_RATE;
}

void usage_add(struct limiter *l, struct entry *e, uint64_t wall_us, uint64_t calls, uint64_t bytes)
{
	if (wall_us) {
		turn_day(e, wall_us);
		l->day = e->day;
	}
	e->calls += calls;
	e->bytes += bytes;
	if (list_empty(&e->dirty))
		list_push_back(&l->dirty, &e->dirty);
}

void limit_usage_load(struct limiter *l, const struct limit_usage *u)
{
	const struct entry_key key = { u->tenant_id, u->subject, (int64_t)u->scope };
	struct entry *e = entry_get(l, &key, NULL, 0);

	if (!e)
		return;
	e->day = u->day;
	e->calls = u->calls;
	e->bytes = u->bytes;
}

size_t limit_usage_dirty(struct limiter *l, struct limit_usage *ret, size_t max)
{
	size_t n = 0;

	while (n < max && !list_empty(&l->dirty)) {
		struct entry *e = CONTAINER_OF(l->dirty.next, struct entry, dirty);

		list_unlink(&e->dirty);
		ret[n++] = (struct limit_usage){ e->key.tenant_id, e->key.subject, (enum limit_scope)e->key.scope, e->day, e->calls,
			e->bytes };
	}
	return n;
}

struct limit_view limit_see(const struct limiter *l, enum limit_scope scope, int64_t tenant_id, int64_t subject, uint64_t wall_us)
{
	const struct entry *e = entry_find(l, tenant_id, scope, subject);
	struct limit_view v = { 0 };

	if (!e)
		return v;
	v.running = e->running;
	v.waiting = e->waiting;
	if (e->day == wall_us / LIMIT_DAY_US) {
		v.calls = e->calls;
		v.bytes = e->bytes;
	}
	return v;
}
