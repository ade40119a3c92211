#ifndef LIMIT_LIMIT_H
#define LIMIT_LIMIT_H

#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who may do how much, and who is next; in memory.  A call is charged to its tenant first, then to its principal and
 * key, then to the tool (SEC S-802, S-806): rates and quotas at once, slots at once or after a wait in a fair queue.
 * What the process has is divided into guaranteed shares of the tenants and a common pool (S-804).  Loop thread. */

/* tenants, principals, keys and tools that are remembered; idle ones are forgotten */
#define LIMIT_ENTRIES_MAX 262144
#define LIMIT_SLOT_RETRY_MS 1000        /* what a caller is told when nobody knows better */

struct limiter;
struct limit_ticket;                    /* a call's slots, or its place in the queue */

enum limit_scope { LIMIT_TENANT, LIMIT_PRINCIPAL, LIMIT_KEY, LIMIT_TOOL, LIMIT_SCOPES,
	LIMIT_AUDIT = LIMIT_SCOPES };   /* no call is charged to it: what was recorded of a tenant, and its bytes */
extern const char *const limit_scopes[LIMIT_SCOPES];    /* "tenant", "principal", "key", "tool" */

/* What all tenants share. */
enum limit_pool {
	LIMIT_CALLS,                    /* calls that run */
	LIMIT_PLACES,                   /* calls that wait */
	LIMIT_STREAMS,                  /* listens, sessions, byte streams of tenants */
	LIMIT_BYTES,                    /* arguments and results in memory */
	LIMIT_POOLS
};
extern const char *const limit_pools[LIMIT_POOLS];      /* "calls", "queue", "streams", "bytes" */

struct limit_conf {
	uint64_t ceiling[LIMIT_POOLS];  /* 0 = no ceiling */
	/* of each ceiling, divided evenly among the tenants; the rest is for who comes first */
	unsigned share_percent;
	uint32_t wait_ms;               /* the longest wait in the queue; 0: nobody waits */
	/* Of one tenant, 0 = any: bytes of arguments and results in memory, bytes of records of a day (HARDENING F-10) */
	uint64_t tenant_bytes, tenant_audit;
};
/* Without a configuration; the rows of conf.def say the same. */
#define LIMIT_CONF_DEFAULT { .ceiling = { 4096, 4096, 16384, 256u << 20 }, .share_percent = 50, .wait_ms = 1000 }
#define LIMIT_REQUESTS 5000             /* messages a second */
#define LIMIT_TENANT_QUEUE 256          /* of one tenant that has no limit of its own */
struct limiter *limiter_new(const struct limit_conf *conf);     /* copied; NULL: no ceilings, no queue */
void limiter_free(struct limiter **l);  /* tickets that are out are never released any more */
const struct limit_conf *limiter_conf(const struct limiter *l);
void limiter_set_tenants(struct limiter *l, size_t n);  /* how many share; cheap when nothing changes */

struct limit_set {                      /* 0 and count 0: no limit */
	uint32_t concurrency, queue;    /* calls running, calls waiting; queue is a tenant's */
	struct text_rate rate;          /* calls */
	struct text_rate requests;      /* all messages, by their cost; not of tools */
	uint64_t calls_day, bytes_day;  /* per day of UTC */
};
struct limit_req {
	int64_t tenant_id, principal_id, cred_id, tool_id;      /* cred_id 0 = no key; tool_id 0 = no call */
	const struct limit_set *set[LIMIT_SCOPES];      /* borrowed for the call; NULL: no limits */
	uint64_t now_us, wall_us;       /* monotonic; wall clock */
	size_t bytes;                   /* of the arguments */
	bool again;                     /* a call that was counted before goes on: it takes slots alone */
};
/* Its turn has come (granted), or its time is over: then the ticket is to be released as well.  Called by limit_turns()
 * alone. */
typedef void limit_turn_fn(void *arg, bool granted);
/* 0: *ret runs, or waits and fn follows; or it has nothing at all.  err->where says which: "tenant/rate",
 * "tool/concurrency", "key/quota", "tenant/storage", "tenant/queue", "tenant/bytes", "tenant/audit" are ERR_RATE with
 * retry_ms; "server/calls", "server/queue", "server/bytes", "server/limiter" are ERR_BUSY with retry_ms: no fault of
 * this tenant. */
int limit_enter(struct limiter *l, const struct limit_req *req, limit_turn_fn *fn, void *arg, struct limit_ticket **ret,
		struct err *err) MUST_CHECK;
bool limit_waits(const struct limit_ticket *t);
/* Something was recorded of this tenant, in about so many bytes.  low: the disk is nearly full, and until it is not
 * each tenant has one part of LIMIT_LOW_PARTS of what it may take in a day; the rest is for those who took less. */
void limit_add_audit(struct limiter *l, int64_t tenant_id, uint64_t wall_us, size_t bytes, bool low);
#define LIMIT_LOW_PARTS 16
/* More bytes in memory, charged to the quotas too.  Never refused: the work is done. */
void limit_add_bytes(struct limit_ticket *t, size_t n);
/* Of a tenant in the turn of the loop that began at now_us: n more, the sum. */
size_t limit_turn_bytes(struct limit_ticket *t, uint64_t now_us, size_t n);
void limit_release(struct limiter *l, struct limit_ticket **ticket, uint64_t now_us);
/* Hand out what is free, end the waits that are over. */
void limit_turns(struct limiter *l, uint64_t now_us);
/* When limit_turns() should be called next: 0 = now, UINT64_MAX = nobody waits. */
uint64_t limit_next_us(const struct limiter *l);

/* A message that is no call: cost units of the rate of requests.  loose: on credit, up to one filling of the bucket.
 * ERR_RATE as above ("tenant/requests"). */
int limit_charge(struct limiter *l, const struct limit_req *req, unsigned cost, bool loose, struct err *err) MUST_CHECK;
/* What a message turned out to cost beside that; a debt that later messages pay. */
void limit_charge_more(struct limiter *l, const struct limit_req *req, unsigned cost);
void limit_charge_back(struct limiter *l, const struct limit_req *req, unsigned cost);

/* One stream of a tenant.  ERR_BUSY. */
int limit_hold_stream(struct limiter *l, int64_t tenant_id, struct err *err) MUST_CHECK;
void limit_drop_stream(struct limiter *l, int64_t tenant_id);
/* How full the process is with what piles up, in percent of the fullest ceiling: calls that wait, streams, bytes.
 * Calls that run count where none may wait; else it is no sign of trouble when all their slots are taken. */
unsigned limit_pressure(const struct limiter *l);
/* It is filled to this percentage, and the tenant has more than its share of what is (SEC S-807). */
bool limit_shed(const struct limiter *l, int64_t tenant_id, unsigned percent);

/* What that comes to (SEC S-807).  A step is left LIMIT_SLACK percent below where it is reached, so that nothing
 * flutters. */
enum limit_step {
	LIMIT_CALM,
	LIMIT_NEARLY_FULL,              /* from 80 % */
	LIMIT_FULL,                     /* from 95 % */
	LIMIT_STEPS
};
#define LIMIT_SLACK 10
/* fn hears of each change from inside of whatever makes it, so it calls nothing here. */
typedef void limit_step_fn(void *arg, enum limit_step step);
void limiter_on_step(struct limiter *l, limit_step_fn *fn, void *arg);
/* Not calm, and the tenant is among those who fill it. */
bool limit_crowds(const struct limiter *l, int64_t tenant_id);

FOR_TESTS uint32_t limit_running(const struct limiter *l, int64_t tenant_id);
FOR_TESTS size_t limit_waiting(const struct limiter *l);
FOR_TESTS size_t limiter_entries(const struct limiter *l);
struct limit_pool_view { uint64_t used, ceiling, share; };
struct limit_pool_view limit_pool_see(const struct limiter *l, enum limit_pool pool);

/* What was used on a day; kept by the store across restarts. */
struct limit_usage {
	int64_t tenant_id, subject;     /* subject: 0 of a tenant, else the id of the principal, key or tool */
	enum limit_scope scope;
	uint64_t day;                   /* since 1970 */
	uint64_t calls, bytes;
};
#define LIMIT_DAY_US 86400000000ull
/* memory: of a tenant, in use now */
struct limit_view { uint32_t running, waiting; uint64_t calls, bytes, memory; };
/* What is running, waiting and used today by one of them. */
struct limit_view limit_see(const struct limiter *l, enum limit_scope scope, int64_t tenant_id, int64_t subject,
			    uint64_t wall_us);
void limit_usage_load(struct limiter *l, const struct limit_usage *u);
/* What has changed since it was handed out last, at most max; call again while it returns max. */
size_t limit_usage_dirty(struct limiter *l, struct limit_usage *ret, size_t max);

/* A token bucket of its own, full when zeroed: capacity = count, refilled evenly over per_s seconds.  0, or
 * ERR_RATE with the time until the next token.  A rate above a million a second counts as a million. */
struct limit_bucket { uint64_t level_us, at_us; };
int limit_bucket_take(struct limit_bucket *b, struct text_rate rate, uint64_t now_us,
		      uint32_t *ret_retry_ms) MUST_CHECK;

#endif
