/*
 * Admission: what a call is charged to, whether it may run now, and what it gives back.
 */

#include "config.h"

#include "limit/limit.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/metric.h"
#include "limit_int.h"

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
static int find_entries(struct limiter *l, const struct limit_req *req, struct entry *ret[LIMIT_SCOPES], struct err *err)
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
	(void)snprintf(where, sizeof where, "%s/%s", limit_scopes[scope], what); /* two short words */
	(void)err_set(err, ERR_RATE, where, "too many %s of this %s (limit %s)",
		      strcmp(what, "rate") == 0 ? "calls" : what, limit_scopes[scope],
		      text_format_rate(rate, text, sizeof text));
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

struct account *ticket_account(const struct limit_ticket *t)
{
	return CONTAINER_OF(t->e[LIMIT_TENANT], struct account, e);
}

enum blocked ticket_blocked(const struct limit_ticket *t)
{
	static const enum blocked by[LIMIT_SCOPES] = { BLOCKED_BY_TENANT, BLOCKED_BY_PRINCIPAL, BLOCKED_BY_KEY, BLOCKED_BY_TOOL };

	for (unsigned i = 0; i < LIMIT_SCOPES; i++)
		if (t->e[i] && t->concurrency[i] && t->e[i]->running >= t->concurrency[i])
			return by[i];
	return pool_has(t->l, LIMIT_CALLS, ticket_account(t), 1) ? BLOCKED_NOT : BLOCKED_BY_POOL;
}

void ticket_run(struct limit_ticket *t, uint64_t now_us)
{
	t->state = TICKET_RUNS;
	t->since_us = now_us;
	for (unsigned i = 0; i < LIMIT_SCOPES; i++)
		if (t->e[i])
			t->e[i]->running++;
	pool_take(t->l, LIMIT_CALLS, ticket_account(t), 1);
	metric_inc(METRIC_calls_running);
}

static struct limit_ticket *ticket_new(struct limiter *l, struct entry *const e[LIMIT_SCOPES], const struct limit_req *req)
{
	struct limit_ticket *t = mem_zalloc(sizeof *t);

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

		if (!e)
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

	if (rc == 0)
		rc = check_rates(e, req, err);
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
		free(t);
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
	free(t);
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
