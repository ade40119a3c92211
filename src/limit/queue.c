/*
 * The queue of calls that wait for a slot.  Turns go round the tenants, within a tenant round its credentials, and in
 * the order of arrival within one of these (SEC S-804): who sends more waits longer, not the others.  A call whose tool
 * has no slot does not hold up the calls behind it.  All wait equally long at most, so that the order of arrival is that
 * of the ends of the waits too.
 */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/metric.h"
#include "limit_int.h"

static struct lane *lane_get(struct account *a, const struct limit_req *req)
{
	struct lane *lane;

	LIST_FOREACH(n, &a->lanes) {
		lane = CONTAINER_OF(n, struct lane, link);
		if (lane->principal_id == req->principal_id && lane->cred_id == req->cred_id)
			return lane;
	}
	lane = mem_zalloc(sizeof *lane);
	lane->principal_id = req->principal_id;
	lane->cred_id = req->cred_id;
	list_init(&lane->tickets);
	list_push_back(&a->lanes, &lane->link);
	return lane;
}

static const char *slots_of(enum blocked why, char where[static 32])
{
	static const enum limit_scope scope[] = { [BLOCKED_BY_TENANT] = LIMIT_TENANT, [BLOCKED_BY_PRINCIPAL] = LIMIT_PRINCIPAL,
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

/* How long this one would wait, by how long calls have run of late. */
static uint64_t expected_us(const struct limit_ticket *t, enum blocked why)
{
	static const enum limit_scope scope[] = { [BLOCKED_BY_TURN] = LIMIT_TENANT, [BLOCKED_BY_TENANT] = LIMIT_TENANT,
		[BLOCKED_BY_PRINCIPAL] = LIMIT_PRINCIPAL, [BLOCKED_BY_KEY] = LIMIT_KEY, [BLOCKED_BY_TOOL] = LIMIT_TOOL };
	const struct limiter *l = t->l;
	uint32_t concurrency = ticket_account(t)->concurrency;
	const struct entry *e;

	if (why == BLOCKED_BY_POOL || (why == BLOCKED_BY_TURN && concurrency == 0))
		return until_turn_us(l->waiting, pool_room(l, LIMIT_CALLS), l->hold_us, l->used[LIMIT_CALLS]);
	e = t->e[scope[why]];
	return until_turn_us(e->waiting, why == BLOCKED_BY_TURN ? concurrency - e->running : 0, e->hold_us, e->running);
}

int queue_join(struct limit_ticket *t, const struct limit_req *req, enum blocked why, struct err *err)
{
	struct limiter *l = t->l;
	struct account *a = ticket_account(t);
	const struct limit_set *set = req->set[LIMIT_TENANT];
	uint64_t wait_us = l->conf.wait_ms * 1000ull, expected = expected_us(t, why), over_ms;
	char where[32];

	if (wait_us == 0)
		return refuse(slots_of(why, where), LIMIT_SLOT_RETRY_MS, "too many calls are running", err);
	if (set && set->queue && a->e.waiting >= set->queue)
		return refuse("tenant/queue", LIMIT_SLOT_RETRY_MS, "too many calls of this tenant are running and waiting", err);
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

void queue_leave(struct limit_ticket *t)
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

enum blocked queue_before(const struct limit_ticket *t)
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
