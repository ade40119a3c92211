/* Admission: what a call is charged to, whether it may run now, and what it gives back. */
#include "config.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "limit/limit.h"

#include "limit_int.h"

enum blocked { BLOCKED_NOT, BLOCKED_BY_TENANT, BLOCKED_BY_PRINCIPAL, BLOCKED_BY_KEY, BLOCKED_BY_TOOL, BLOCKED_BY_POOL,
	BLOCKED_BY_TURN };              /* a slot is free, for others of its tenant that came before */
static enum blocked ticket_blocked(const struct limit_ticket *t);

#define LOW_RETRY_MS 60000              /* somebody makes room on the disk, perhaps */

/* --- What was used on a day of UTC, and the quotas of it. */

/* Yesterday's use is history. */
static void turn_day(struct entry *e, uint64_t wall_us)
{
	uint64_t day = wall_us / LIMIT_DAY_US;

	if (e->day == day)
		return;
	e->day = day;
	e->calls = e->bytes = 0;
}

static uint32_t rest_of_day_ms(uint64_t wall_us)
{
	return (uint32_t)((LIMIT_DAY_US - wall_us % LIMIT_DAY_US + 999) / 1000);        /* a day at most */
}

#define DAY_TEXT_SIZE 40

/* When the quotas begin anew: midnight of UTC, to the second. */
static const char *day_ends(uint64_t wall_us, char ret[DAY_TEXT_SIZE])
{
	clock_format_utc((wall_us / LIMIT_DAY_US + 1) * LIMIT_DAY_US, ret, DAY_TEXT_SIZE);
	(void)snprintf(strchr(ret, '.'), 2, "Z");
	return ret;
}

static int usage_check(struct entry *e, const struct limit_set *set, const struct limit_req *req, struct err *err)
{
	const char *who = limit_scopes[e->key.scope];
	bool calls, bytes;
	char where[32], day[DAY_TEXT_SIZE];

	if (!set || (set->calls_day == 0 && set->bytes_day == 0))
		return 0;
	turn_day(e, req->wall_us);
	calls = set->calls_day && e->calls >= set->calls_day;
	bytes = set->bytes_day && e->bytes + req->bytes > set->bytes_day;
	if (!calls && !bytes)
		return 0;
	metric_inc(METRIC_calls_over_quota);
	(void)snprintf(where, sizeof(where), "%s/%s", who, calls ? "quota" : "storage"); /* two short words */
	if (calls)
		(void)err_set(err, ERR_RATE, where, "this %s has used its %llu calls of today; it has more from %s", who,
			      (unsigned long long)set->calls_day, day_ends(req->wall_us, day));
	else if (req->bytes > set->bytes_day)
		(void)err_set(err, ERR_RATE, where, "the arguments are %zu bytes, more than the %llu that this %s has for a "
			      "whole day", req->bytes, (unsigned long long)set->bytes_day, who);
	else
		(void)err_set(err, ERR_RATE, where, "this %s has used %llu of its %llu bytes of today, and the arguments are %zu "
			      "more; it has more from %s", who, (unsigned long long)e->bytes,
			      (unsigned long long)set->bytes_day, req->bytes, day_ends(req->wall_us, day));
	if (err)
		err->retry_ms = rest_of_day_ms(req->wall_us);
	return ERR_RATE;
}

/* ERR_RATE when a quota of the day is used up. */
static void usage_add(struct limiter *l, struct entry *e, uint64_t wall_us, uint64_t calls, uint64_t bytes)
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

static struct entry_key audit_key(int64_t tenant_id)
{
	return (struct entry_key){ tenant_id, 0, LIMIT_AUDIT };
}

void limit_add_audit(struct limiter *l, int64_t tenant_id, uint64_t wall_us, size_t bytes, bool low)
{
	const struct entry_key key = audit_key(tenant_id);
	struct entry *e = entry_get(l, &key, NULL, l->swept_us);

	l->low = low;
	if (e)
		usage_add(l, e, wall_us, 1, bytes);
}

/* Budgets of a tenant (HARDENING F-10), beside those that `limit set` gives. */
static int budget_check(struct limiter *l, const struct limit_req *req, struct err *err)
{
	const uint64_t allowed = l->conf.tenant_audit / (l->low ? LIMIT_LOW_PARTS : 1);
	char day[DAY_TEXT_SIZE];
	uint64_t used;

	if (!allowed)
		return 0;
	used = limit_see(l, LIMIT_AUDIT, req->tenant_id, 0, req->wall_us).bytes;
	if (used < allowed)
		return 0;
	metric_inc(METRIC_budget_audit_refused);
	(void)err_set(err, ERR_RATE, "tenant/audit", "%llu bytes were recorded of this tenant today, allowed are %llu "
		      "(budgets.audit_per_tenant%s); it has more from %s", (unsigned long long)used, (unsigned long long)allowed,
		      l->low ? ", less while the disk is nearly full" : "", day_ends(req->wall_us, day));
	if (err)
		err->retry_ms = l->low && used < l->conf.tenant_audit ? LOW_RETRY_MS : rest_of_day_ms(req->wall_us);
	return ERR_RATE;
}

static int memory_check(const struct limiter *l, const struct account *a, size_t bytes, struct err *err)
{
	uint64_t with = a->used[LIMIT_BYTES] + bytes;

	if (!l->conf.tenant_bytes || with <= l->conf.tenant_bytes)
		return 0;
	metric_inc(METRIC_budget_results_refused);
	(void)err_set(err, ERR_RATE, "tenant/bytes",
		"arguments and results of this tenant's calls are %llu bytes with this one, "
		      "allowed are %llu (budgets.results_per_tenant)", (unsigned long long)with,
		      (unsigned long long)l->conf.tenant_bytes);
	if (err)
		err->retry_ms = LIMIT_SLOT_RETRY_MS;
	return ERR_RATE;
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
		ret[n++] = (struct limit_usage){ e->key.tenant_id, e->key.subject, (enum limit_scope)e->key.scope,
			e->day, e->calls,
			e->bytes };
	}
	return n;
}

struct limit_view limit_see(const struct limiter *l, enum limit_scope scope, int64_t tenant_id, int64_t subject,
			    uint64_t wall_us)
{
	struct entry *e = entry_find(l, tenant_id, scope, subject);
	struct limit_view v = { 0 };

	if (!e)
		return v;
	v.running = e->running;
	v.waiting = e->waiting;
	if (scope == LIMIT_TENANT)
		v.memory = CONTAINER_OF(e, struct account, e)->used[LIMIT_BYTES];
	if (e->day == wall_us / LIMIT_DAY_US) {
		v.calls = e->calls;
		v.bytes = e->bytes;
	}
	return v;
}

/* --- The queue of calls that wait for a slot */

/* Turns go round the tenants, within a tenant round its credentials, and in the order of arrival within one of these
 * (SEC S-804): who sends more waits longer, not the others.  A call whose tool has no slot does not hold up the
 * calls behind it.  All wait equally long at most, so that the order of arrival is that of the ends of the waits
 * too. */

static struct lane *lane_get(struct account *a, const struct limit_req *req)
{
	struct lane *lane;

	LIST_FOREACH(n, &a->lanes) {
		lane = CONTAINER_OF(n, struct lane, link);
		if (lane->principal_id == req->principal_id && lane->cred_id == req->cred_id)
			return lane;
	}
	lane = mem_zalloc(sizeof(*lane));
	lane->principal_id = req->principal_id;
	lane->cred_id = req->cred_id;
	list_init(&lane->tickets);
	list_push_back(&a->lanes, &lane->link);
	return lane;
}

static const char *slots_of(enum blocked why, char where[static 32])
{
	static const enum limit_scope scope[] = { [BLOCKED_BY_TENANT] = LIMIT_TENANT,
		[BLOCKED_BY_PRINCIPAL] = LIMIT_PRINCIPAL,
		[BLOCKED_BY_KEY] = LIMIT_KEY, [BLOCKED_BY_TOOL] = LIMIT_TOOL };

	if (why == BLOCKED_BY_POOL)
		return "server/calls";
	if (why == BLOCKED_BY_TURN)
		return "tenant/queue";
	(void)snprintf(where, 32, "%s/concurrency", limit_scopes[scope[why]]); /* two short words */
	return where;
}

static int refuse(const char *where, uint32_t retry_ms, const char *why, struct err *err)
{
	int code = strncmp(where, "server/", 7) == 0 ? ERR_BUSY : ERR_RATE;

	metric_inc(code == ERR_BUSY ? METRIC_calls_shed : METRIC_calls_busy);
	(void)err_set(err, code, where, "%s", why);
	if (err)
		err->retry_ms = retry_ms;
	return code;
}

/* room: slots that are free, for those before it first. */
static uint64_t until_turn_us(uint64_t before, uint64_t room, uint64_t hold_us, uint64_t running)
{
	if (room > before || running == 0)
		return 0;
	return (before - room + 1) * hold_us / running;
}

static struct account *ticket_account(const struct limit_ticket *t);

/* How long this one would wait, by how long calls have run of late. */
static uint64_t expected_us(const struct limit_ticket *t, enum blocked why)
{
	static const enum limit_scope scope[] = { [BLOCKED_BY_TURN] = LIMIT_TENANT, [BLOCKED_BY_TENANT] = LIMIT_TENANT,
		[BLOCKED_BY_PRINCIPAL] = LIMIT_PRINCIPAL, [BLOCKED_BY_KEY] = LIMIT_KEY,
			[BLOCKED_BY_TOOL] = LIMIT_TOOL };
	const struct limiter *l = t->l;
	uint32_t concurrency = ticket_account(t)->concurrency;
	const struct entry *e;

	if (why == BLOCKED_BY_POOL || (why == BLOCKED_BY_TURN && concurrency == 0))
		return until_turn_us(l->waiting, pool_room(l, LIMIT_CALLS), l->hold_us, l->used[LIMIT_CALLS]);
	e = t->e[scope[why]];
	return until_turn_us(e->waiting, why == BLOCKED_BY_TURN ? concurrency - e->running : 0, e->hold_us, e->running);
}

static int queue_join(struct limit_ticket *t, const struct limit_req *req, enum blocked why, struct err *err)
{
	struct limiter *l = t->l;
	struct account *a = ticket_account(t);
	const struct limit_set *set = req->set[LIMIT_TENANT];
	uint64_t wait_us = l->conf.wait_ms * 1000ull, expected = expected_us(t, why), over_ms;
	char where[32];

	if (wait_us == 0)
		return refuse(slots_of(why, where), LIMIT_SLOT_RETRY_MS, "too many calls are running", err);
	if (set && set->queue && a->e.waiting >= set->queue)
		return refuse("tenant/queue", LIMIT_SLOT_RETRY_MS,
			      "too many calls of this tenant are running and waiting", err);
	if (!pool_has(l, LIMIT_PLACES, a, 1))
		return refuse("server/queue", LIMIT_SLOT_RETRY_MS, "too many calls are running and waiting", err);
	if (expected > wait_us) {       /* SEC S-806 */
		over_ms = (expected - wait_us + 999) / 1000;
		return refuse(slots_of(why, where), over_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)over_ms,
			      "too many calls are running, and its turn would come too late", err);
	}
	t->state = TICKET_WAITS;
	t->until_us = req->now_us + wait_us;
	t->lane = lane_get(a, req);
	list_push_back(&t->lane->tickets, &t->link);
	list_push_back(&l->order, &t->order);
	if (list_empty(&a->ring))
		list_push_back(&l->ring, &a->ring);
	for (unsigned i = 0; i < LIMIT_SCOPES; i++)
		if (t->e[i])
			t->e[i]->waiting++;
	pool_take(l, LIMIT_PLACES, a, 1);
	l->waiting++;
	metric_inc(METRIC_calls_queued);
	metric_set(METRIC_calls_waiting, l->waiting);
	return 0;
}

/* Let it wait.  0, or why not, as limit_enter(). */
static void queue_leave(struct limit_ticket *t)
{
	struct account *a = ticket_account(t);

	list_unlink(&t->link);
	list_unlink(&t->order);
	if (list_empty(&t->lane->tickets)) {
		list_unlink(&t->lane->link);
		free(t->lane);
	}
	t->lane = NULL;
	if (list_empty(&a->lanes))
		list_unlink(&a->ring);
	for (unsigned i = 0; i < LIMIT_SCOPES; i++)
		if (t->e[i])
			t->e[i]->waiting--;
	pool_give(t->l, LIMIT_PLACES, a, 1);
	t->l->waiting--;
	metric_set(METRIC_calls_waiting, t->l->waiting);
}

static void to_back(struct list *head, struct list *n)
{
	list_unlink(n);
	list_push_back(head, n);
}

static struct limit_ticket *turn_of_lane(const struct lane *lane)
{
	LIST_FOREACH(n, &lane->tickets) {
		struct limit_ticket *t = CONTAINER_OF(n, struct limit_ticket, link);
		enum blocked why = ticket_blocked(t);

		if (why == BLOCKED_NOT)
			return t;
		if (why != BLOCKED_BY_TOOL)
			break;          /* those behind it are held by the same */
	}
	return NULL;
}

static struct limit_ticket *turn_of_tenant(const struct account *a)
{
	if (a->concurrency && a->e.running >= a->concurrency)
		return NULL;
	LIST_FOREACH(n, &a->lanes) {
		struct limit_ticket *t = turn_of_lane(CONTAINER_OF(n, struct lane, link));

		if (t)
			return t;
	}
	return NULL;
}

static struct limit_ticket *next_turn(struct limiter *l)
{
	LIST_FOREACH(n, &l->ring) {
		struct account *a = CONTAINER_OF(n, struct account, ring);
		struct limit_ticket *t = turn_of_tenant(a);

		if (!t)
			continue;
		to_back(&a->lanes, &t->lane->link);
		to_back(&l->ring, &a->ring);
		return t;
	}
	return NULL;
}

/* Can somebody run now whose tenant's share is too small for all of its calls that wait? */
static bool pool_is_wanted(const struct limiter *l)
{
	LIST_FOREACH(n, &l->ring) {
		const struct account *a = CONTAINER_OF(n, struct account, ring);

		if (a->used[LIMIT_CALLS] + a->e.waiting > l->share[LIMIT_CALLS] && turn_of_tenant(a))
			return true;
	}
	return false;
}

/* For whom the slots are that one could take at once: BLOCKED_NOT, BLOCKED_BY_TURN or, for other tenants,
 * BLOCKED_BY_POOL. */
static enum blocked queue_before(const struct limit_ticket *t)
{
	const struct limiter *l = t->l;
	const struct account *a = ticket_account(t);

	if (!l->due)            /* who waits has been looked at, and cannot run */
		return BLOCKED_NOT;
	if (a->e.waiting > 0)
		return BLOCKED_BY_TURN;
	/* A tenant's share is its own, whoever waits for the pool (SEC S-804). */
	if (a->used[LIMIT_CALLS] < l->share[LIMIT_CALLS] || pool_room(l, LIMIT_CALLS) > l->waiting)
		return BLOCKED_NOT;
	return pool_is_wanted(l) ? BLOCKED_BY_POOL : BLOCKED_NOT;
}

static struct limit_ticket *first_to_end(const struct limiter *l)
{
	return list_empty(&l->order) ? NULL : CONTAINER_OF(l->order.next, struct limit_ticket, order);
}

static void ticket_run(struct limit_ticket *t, uint64_t now_us);

void limit_turns(struct limiter *l, uint64_t now_us)
{
	struct limit_ticket *t;

	while (l->due && (t = next_turn(l))) {
		queue_leave(t);
		ticket_run(t, now_us);
		t->fn(t->arg, true);
	}
	l->due = false;
	while ((t = first_to_end(l)) && t->until_us <= now_us) {
		queue_leave(t);
		t->state = TICKET_OVER;
		metric_inc(METRIC_calls_waited_too_long);
		t->fn(t->arg, false);
	}
}

uint64_t limit_next_us(const struct limiter *l)
{
	const struct limit_ticket *t = first_to_end(l);

	if (l->due)
		return 0;
	return t ? t->until_us : UINT64_MAX;
}

size_t limit_waiting(const struct limiter *l)
{
	return l->waiting;
}

/* --- admission */

static int64_t subject_of(const struct limit_req *req, enum limit_scope scope)
{
	switch (scope) {
	case LIMIT_PRINCIPAL:
		return req->principal_id;
	case LIMIT_KEY:
		return req->cred_id;
	case LIMIT_TOOL:
		return req->tool_id;
	case LIMIT_TENANT:
	case LIMIT_SCOPES:
		break;
	}
	return 0;
}

/* Principals and keys without limits of their own are not looked at. */
static bool is_charged(const struct limit_req *req, enum limit_scope scope)
{
	return scope == LIMIT_TENANT || (subject_of(req, scope) && (scope == LIMIT_TOOL || req->set[scope]));
}

static int busy(const char *where, const char *why, struct err *err)
{
	(void)err_set(err, ERR_BUSY, where, "%s", why);
	if (err)
		err->retry_ms = LIMIT_SLOT_RETRY_MS;
	return ERR_BUSY;
}

/* Entries for all that is charged; those at hand are kept from being forgotten while room is made for the next. */
static int find_entries(struct limiter *l, const struct limit_req *req, struct entry *ret[LIMIT_SCOPES],
			struct err *err)
{
	bool full = false;

	for (unsigned i = 0; i < LIMIT_SCOPES; i++) {
		const struct entry_key key = { req->tenant_id, subject_of(req, (enum limit_scope)i), i };

		ret[i] = NULL;
		if (full || !is_charged(req, (enum limit_scope)i))
			continue;
		ret[i] = entry_get(l, &key, req->set[i], req->now_us);
		full = !ret[i];
		if (ret[i])
			ret[i]->waiting++;
	}
	for (unsigned i = 0; i < LIMIT_SCOPES; i++)
		if (ret[i])
			ret[i]->waiting--;
	if (!full)
		return 0;
	metric_inc(METRIC_calls_busy);
	return busy("server/limiter", "too many tools are busy at once", err);
}

static int refuse_rate(unsigned scope, const char *what, struct text_rate rate, uint32_t retry_ms, struct err *err)
{
	char where[32], text[40];

	metric_inc(strcmp(what, "requests") == 0 ? METRIC_requests_rate_limited : METRIC_calls_rate_limited);
	(void)snprintf(where, sizeof(where), "%s/%s", limit_scopes[scope], what); /* two short words */
	(void)err_set(err, ERR_RATE, where, "too many %s of this %s (limit %s)",
		      strcmp(what, "rate") == 0 ? "calls" : what, limit_scopes[scope],
		      text_format_rate(rate, text, sizeof(text)));
	if (err)
		err->retry_ms = retry_ms;
	return ERR_RATE;
}

static int check_rates(struct entry *const e[LIMIT_SCOPES], const struct limit_req *req, struct err *err)
{
	uint32_t retry_ms = 0;

	for (unsigned i = 0; i < LIMIT_SCOPES; i++) {
		if (!e[i])
			continue;
		if (!bucket_has(&e[i]->bucket, e[i]->rate, 1, req->now_us, &retry_ms))
			return refuse_rate(i, "rate", e[i]->rate, retry_ms, err);
		if (usage_check(e[i], req->set[i], req, err) < 0)
			return ERR_RATE;
	}
	return 0;
}

static struct account *ticket_account(const struct limit_ticket *t)
{
	return CONTAINER_OF(t->e[LIMIT_TENANT], struct account, e);
}

static enum blocked ticket_blocked(const struct limit_ticket *t)
{
	static const enum blocked by[LIMIT_SCOPES] = { BLOCKED_BY_TENANT, BLOCKED_BY_PRINCIPAL, BLOCKED_BY_KEY,
		BLOCKED_BY_TOOL };

	for (unsigned i = 0; i < LIMIT_SCOPES; i++)
		if (t->e[i] && t->concurrency[i] && t->e[i]->running >= t->concurrency[i])
			return by[i];
	return pool_has(t->l, LIMIT_CALLS, ticket_account(t), 1) ? BLOCKED_NOT : BLOCKED_BY_POOL;
}

static void ticket_run(struct limit_ticket *t, uint64_t now_us)
{
	t->state = TICKET_RUNS;
	t->since_us = now_us;
	for (unsigned i = 0; i < LIMIT_SCOPES; i++)
		if (t->e[i])
			t->e[i]->running++;
	pool_take(t->l, LIMIT_CALLS, ticket_account(t), 1);
	metric_inc(METRIC_calls_running);
}

static struct limit_ticket *ticket_new(struct limiter *l, struct entry *const e[LIMIT_SCOPES],
				       const struct limit_req *req)
{
	struct limit_ticket *t = mem_spare(&l->spares);

	memset(t, 0, sizeof(*t));
	t->l = l;
	list_init(&t->link);
	list_init(&t->order);
	for (unsigned i = 0; i < LIMIT_SCOPES; i++) {
		t->e[i] = e[i];
		t->concurrency[i] = req->set[i] ? req->set[i]->concurrency : 0;
	}
	ticket_account(t)->concurrency = t->concurrency[LIMIT_TENANT];
	return t;
}

/* Nothing refuses it any more. */
static void charge(struct limit_ticket *t, const struct limit_req *req)
{
	for (unsigned i = 0; i < LIMIT_SCOPES; i++) {
		struct entry *e = t->e[i];

		if (!e || req->again)
			continue;
		bucket_pay(&e->bucket, e->rate, 1);
		if (i == LIMIT_TENANT || (req->set[i] && (req->set[i]->calls_day || req->set[i]->bytes_day)))
			usage_add(t->l, e, req->wall_us, 1, req->bytes);
	}
	pool_take(t->l, LIMIT_BYTES, ticket_account(t), req->bytes);
	t->bytes = req->bytes;
}

int limit_enter(struct limiter *l, const struct limit_req *req, limit_turn_fn *fn, void *arg, struct limit_ticket **ret,
		struct err *err)
{
	struct entry *e[LIMIT_SCOPES];
	struct limit_ticket *t;
	enum blocked why;
	int rc = find_entries(l, req, e, err);

	if (rc == 0 && !req->again)
		rc = check_rates(e, req, err);
	if (rc == 0)
		rc = budget_check(l, req, err);
	if (rc == 0)
		rc = memory_check(l, CONTAINER_OF(e[LIMIT_TENANT], struct account, e), req->bytes, err);
	if (rc < 0)
		return rc;
	t = ticket_new(l, e, req);
	t->fn = fn;
	t->arg = arg;
	why = ticket_blocked(t);
	if (why == BLOCKED_NOT)
		why = queue_before(t);  /* nobody overtakes those whose turn comes now */
	if (!pool_has(l, LIMIT_BYTES, ticket_account(t), req->bytes)) {
		metric_inc(METRIC_calls_shed);
		rc = busy("server/bytes", "too much is in memory", err);
	} else if (why != BLOCKED_NOT) {
		rc = queue_join(t, req, why, err);
	} else {
		ticket_run(t, req->now_us);
	}
	if (rc < 0) {
		mem_spare_free(&l->spares, t, sizeof(*t));
		return rc;
	}
	charge(t, req);
	*ret = t;
	return 0;
}

bool limit_waits(const struct limit_ticket *t)
{
	return t->state == TICKET_WAITS;
}

void limit_add_bytes(struct limit_ticket *t, size_t n)
{
	for (unsigned i = 0; i < LIMIT_SCOPES; i++)
		if (t->e[i] && (i == LIMIT_TENANT || t->e[i]->calls || t->e[i]->bytes))
			usage_add(t->l, t->e[i], 0, 0, n);
	pool_take(t->l, LIMIT_BYTES, ticket_account(t), n);
	t->bytes += n;
}

size_t limit_turn_bytes(struct limit_ticket *t, uint64_t now_us, size_t n)
{
	struct account *a = ticket_account(t);

	if (a->turn_us != now_us) {
		a->turn_us = now_us;
		a->turn_bytes = 0;
	}
	a->turn_bytes += n;
	return a->turn_bytes;
}

static void note_hold(uint64_t *average, uint64_t us)
{
	*average = *average ? (*average * 7 + us) / 8 : us;
	if (*average == 0)
		*average = 1;
}

static void stop(struct limit_ticket *t, uint64_t now_us)
{
	uint64_t us = now_us > t->since_us ? now_us - t->since_us : 0;

	for (unsigned i = 0; i < LIMIT_SCOPES; i++) {
		if (!t->e[i])
			continue;
		assert(t->e[i]->running > 0);
		t->e[i]->running--;
		note_hold(&t->e[i]->hold_us, us);
	}
	note_hold(&t->l->hold_us, us);
	pool_give(t->l, LIMIT_CALLS, ticket_account(t), 1);
	metric_dec(METRIC_calls_running);
	t->l->due = t->l->waiting > 0;
}

/* It has not run: the day is as if it had not come. */
static void refund(struct limit_ticket *t)
{
	for (unsigned i = 0; i < LIMIT_SCOPES; i++) {
		struct entry *e = t->e[i];

		if (!e)
			continue;
		e->calls -= e->calls > 0;
		e->bytes -= e->bytes < t->bytes ? e->bytes : t->bytes;
	}
}

void limit_release(struct limiter *l, struct limit_ticket **ticket, uint64_t now_us)
{
	struct limit_ticket *t = ticket ? *ticket : NULL;

	if (!t)
		return;
	*ticket = NULL;
	if (t->state == TICKET_RUNS)
		stop(t, now_us);
	else
		refund(t);
	if (t->state == TICKET_WAITS)
		queue_leave(t);
	pool_give(l, LIMIT_BYTES, ticket_account(t), t->bytes);
	mem_spare_free(&l->spares, t, sizeof(*t));
}

static int charge_requests(struct entry *const e[LIMIT_SCOPES], const struct limit_req *req, unsigned cost, bool loose,
			   struct err *err)
{
	uint32_t retry_ms = 0;

	for (unsigned i = 0; i < LIMIT_SCOPES; i++) {
		struct entry *x = e[i];

		if (x && !bucket_has(&x->requests, x->requests_rate, cost, req->now_us, &retry_ms) &&
		    !(loose && bucket_lends(&x->requests, x->requests_rate, cost, req->now_us)))
			return refuse_rate(i, "requests", x->requests_rate, retry_ms, err);
	}
	for (unsigned i = 0; i < LIMIT_SCOPES; i++)
		if (e[i])
			bucket_owe(&e[i]->requests, e[i]->requests_rate, cost, req->now_us);
	return 0;
}

int limit_charge(struct limiter *l, const struct limit_req *req, unsigned cost, bool loose, struct err *err)
{
	struct entry *e[LIMIT_SCOPES];
	int rc = find_entries(l, req, e, err);

	if (rc == 0 && !loose)          /* those are not recorded */
		rc = budget_check(l, req, err);
	return rc < 0 ? rc : charge_requests(e, req, cost, loose, err);
}

void limit_charge_more(struct limiter *l, const struct limit_req *req, unsigned cost)
{
	struct entry *e[LIMIT_SCOPES];

	if (find_entries(l, req, e, NULL) < 0)
		return;
	for (unsigned i = 0; i < LIMIT_SCOPES; i++)
		if (e[i])
			bucket_owe(&e[i]->requests, e[i]->requests_rate, cost, req->now_us);
}

void limit_charge_back(struct limiter *l, const struct limit_req *req, unsigned cost)
{
	struct entry *e[LIMIT_SCOPES];

	if (find_entries(l, req, e, NULL) < 0)
		return;
	for (unsigned i = 0; i < LIMIT_SCOPES; i++)
		if (e[i])
			bucket_give(&e[i]->requests, e[i]->requests_rate, cost);
}
