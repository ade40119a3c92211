#ifndef LIMIT_LIMIT_H
#define LIMIT_LIMIT_H

#include "base/err.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

/* Rates and concurrency, per tenant and per tool of a tenant; in memory.  Charged to the tenant first
 * (SEC S-802).  Loop thread. */

#define LIMIT_ENTRIES_MAX 262144        /* tenants and tools that are remembered; idle ones are forgotten */
#define LIMIT_SLOT_RETRY_MS 1000        /* what a caller is told when all slots are taken: nobody knows better */

struct limiter;
struct limit_ticket;                    /* a running call's slots */

struct limiter *limiter_new(void);
void limiter_free(struct limiter **l);  /* tickets that are out are never released any more */

struct limit_req {
	int64_t tenant_id, tool_id;     /* tool_id is never 0 */
	uint32_t tenant_concurrency;    /* 0 = no limit */
	struct text_rate tenant_rate;   /* count 0 = no limit */
	uint32_t tool_concurrency;      /* of this tool in this tenant */
	struct text_rate tool_rate;
};
/* Take one token of each rate and one slot of each kind, or nothing at all.  ERR_RATE with retry_ms;
 * err->where says which ("tenant/rate", "tool/concurrency", "limiter" when too many entries are busy). */
int limit_admit(struct limiter *l, const struct limit_req *req, uint64_t now_us, struct limit_ticket **ret,
		struct err *err) MUST_CHECK;
void limit_release(struct limiter *l, struct limit_ticket **ticket);
uint32_t limit_running(const struct limiter *l, int64_t tenant_id);
size_t limiter_entries(const struct limiter *l);

/* A token bucket of its own, full when zeroed: capacity = count, refilled evenly over per_s seconds.  0, or
 * ERR_RATE with the time until the next token.  A rate above a million a second counts as a million. */
struct limit_bucket { uint64_t level_us, at_us; };
int limit_bucket_take(struct limit_bucket *b, struct text_rate rate, uint64_t now_us, uint32_t *ret_retry_ms) MUST_CHECK;

#endif
