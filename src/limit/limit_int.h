#ifndef LIMIT_INT_H
#define LIMIT_INT_H

#include <stdbool.h>

#include "base/map.h"
#include "base/mem.h"
#include "limit/limit.h"

struct map;

/* Are there n tokens?  When not, the time until there are. */
bool bucket_has(struct limit_bucket *b, struct text_rate rate, unsigned n, uint64_t now_us, uint32_t *ret_retry_ms);
void bucket_pay(struct limit_bucket *b, struct text_rate rate, unsigned n);     /* after bucket_has() */
/* Take n however little there is: what is missing is a debt, of one filling at most. */
void bucket_owe(struct limit_bucket *b, struct text_rate rate, unsigned n, uint64_t now_us);
void bucket_give(struct limit_bucket *b, struct text_rate rate, unsigned n);
/* May n be taken on credit? */
bool bucket_lends(struct limit_bucket *b, struct text_rate rate, unsigned n, uint64_t now_us);

struct entry_key {
	int64_t tenant_id, subject, scope;      /* subject 0: the tenant as a whole */
};

/* Whoever or whatever a call is charged to. */
struct entry {
	struct entry_key key;
	uint32_t running, waiting;
	struct text_rate rate, requests_rate;   /* what the buckets were filled for */
	struct limit_bucket bucket, requests;
	uint64_t hold_us;               /* how long a call runs, on average; 0 = unknown */
	uint64_t day, calls, bytes;     /* used on that day */
	struct list dirty;              /* in limiter.dirty while that is not stored */
};

/* Of a tenant. */
struct account {
	struct entry e;                 /* first: an entry of scope LIMIT_TENANT is one of these */
	uint64_t used[LIMIT_POOLS];
	struct list lanes;              /* struct lane, whose turn is next first */
	struct list ring;               /* limiter.ring while it has lanes */
	uint32_t concurrency;           /* as of its last call */
	uint64_t turn_us;               /* a turn of the loop, and what its results took in it */
	size_t turn_bytes;
};

/* Of one credential of a tenant: calls that wait, in their order. */
struct lane {
	struct list link;               /* account.lanes */
	int64_t principal_id, cred_id;
	struct list tickets;            /* struct limit_ticket.link */
};

enum ticket_state { TICKET_RUNS, TICKET_WAITS, TICKET_OVER };

struct limit_ticket {
	struct limiter *l;
	struct entry *e[LIMIT_SCOPES];  /* NULL: not charged; an entry with tickets stays */
	uint32_t concurrency[LIMIT_SCOPES];
	enum ticket_state state;
	size_t bytes;
	uint64_t since_us;              /* when it began to run */
	/* While it waits. */
	struct lane *lane;
	struct list link;               /* lane.tickets */
	struct list order;              /* limiter.order */
	uint64_t until_us;
	limit_turn_fn *fn;
	void *arg;
};

struct limiter {
	struct limit_conf conf;
	struct map *entries;            /* struct entry_key -> struct entry */
	struct mem_spares spares;       /* of tickets */
	struct near *near;              /* some of them */
	uint64_t swept_us;
	uint64_t day;                   /* the last one that was used */
	size_t tenants;
	uint64_t share[LIMIT_POOLS];    /* guaranteed to each tenant */
	uint64_t used[LIMIT_POOLS];
	unsigned percent[LIMIT_POOLS];  /* that this is of the ceiling; 0: there is none */
	uint64_t common[LIMIT_POOLS];   /* of these, beyond the shares */
	uint64_t hold_us;               /* of all calls */
	struct list ring;               /* struct account.ring: tenants whose calls wait, whose turn is next first */
	struct list order;              /* tickets that wait, by the end of their wait */
	size_t waiting;
	bool due;                       /* a slot has become free */
	struct list dirty;              /* struct entry.dirty */
	bool low;                       /* the disk is nearly full */
	enum limit_step step;
	limit_step_fn *on_step;         /* NULL: nobody asks */
	void *on_step_arg;
};

/* limiter.c */
/* NULL when the table is full of entries that are in use. */
struct entry *entry_get(struct limiter *l, const struct entry_key *key, const struct limit_set *set, uint64_t now_us);
struct entry *entry_find(const struct limiter *l, int64_t tenant_id, enum limit_scope scope, int64_t subject);

bool pool_has(const struct limiter *l, enum limit_pool pool, const struct account *a, uint64_t n);
/* What any tenant may still take beyond its share. */
uint64_t pool_room(const struct limiter *l, enum limit_pool pool);
void pool_take(struct limiter *l, enum limit_pool pool, struct account *a, uint64_t n);
void pool_give(struct limiter *l, enum limit_pool pool, struct account *a, uint64_t n);

#endif
