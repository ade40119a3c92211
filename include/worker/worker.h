#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sanitized.h"

/* Work that can run away runs in a process that can be killed (HARDENING 1.4): the program toolcrib-worker.  A worker
 * has no network, starts no program, inherits nothing, and has bounds of memory and processor time; the pool kills it
 * at the deadline.  It serves one request at a time and stays for further ones of the same tenant, never of another.
 *
 *   worker.h   the server's side: a pool of workers, requests to them
 *   serve.h    the worker's side: a table of what it can do
 *   proto.h    what the two say to each other
 *
 * A tenant has at most its share at work; the next request waits, at most WORKER_TENANT_WAIT_MAX of a tenant,
 * and tenants that wait take turns.  While a worker answers quickly a few of those that wait are sent to it ahead of
 * their turn, so that neither it nor the loop waits for the other; they are taken back when it does not (decision
 * 0148).  Whoever has its workers killed again and again gets new ones at a rate, so that what waits behind work
 * without end does not make the machine start processes for nothing.  All of it on the loop thread. */

struct ev_loop;
struct worker_job;
struct worker_pool;

#define WORKER_MAX 32                   /* processes */
#define WORKER_TENANT_MAX 4             /* requests of one tenant that run at once, and no more than processors */
#define WORKER_TENANT_LEAST 2           /* however few those are */
#define WORKER_TENANT_STARTS 8          /* processes that a tenant gets at once, and then one each WORKER_START_MS */
#define WORKER_START_MS 500
/* Of processor time at the usual priority, less for who lacks starts; a sanitizer takes several times as much. */
#define WORKER_BRISK_US (SANITIZED ? 80000 : 10000)
#define WORKER_BRISK_PART 100          /* and no more than this part of what is left of its time */
#define WORKER_AHEAD 8                  /* requests that a worker has at hand, with the one that it works on */
#define WORKER_AHEAD_US 10000           /* as long as its answers take no longer */
#define WORKER_AHEAD_BYTES 65536        /* of a request that may stand behind another */
#define WORKER_WAIT_MAX 1024            /* requests that wait for a worker */
#define WORKER_TENANT_WAIT_MAX 256      /* of one tenant */
#define WORKER_IDLE_MAX 8               /* workers that wait for a request */
#define WORKER_IDLE_MS 60000            /* how long one waits */
#define WORKER_MEMORY_DEFAULT (64u << 20)       /* bytes beyond what the program needs itself */
#define WORKER_MEMORY_LEAST (8u << 20)
#define WORKER_MEMORY_MAX (256u << 20)

/* How many requests of one tenant run at once where there are so many processors: more would not make it faster, and
 * wake-ups of others slower. */
unsigned worker_share(unsigned processors);
/* The first request starts the first process.  At most share requests of one tenant run at once. */
struct worker_pool *worker_pool_new(struct ev_loop *loop, unsigned share);
/* Kills all of them.  Requests that are left get no end. */
void worker_pool_free(struct worker_pool **pool);

struct worker_req {
	const char *name;               /* of the work */
	int64_t tenant_id;
	const void *p; size_t len;      /* copied */
	uint64_t memory;                /* bytes; 0 = WORKER_MEMORY_DEFAULT */
	size_t answer_max;              /* bytes; at most WORKER_ANSWER_MAX less WORKER_MSG_MORE */
	uint64_t deadline_us;           /* monotonic */
	/* Once and last, never from inside worker_start().  err NULL: the work is done, and this is its answer, which
	 * is borrowed and was made by a process that nobody trusts.  Else: what the work says of itself; ERR_TIMEOUT:
	 * it was killed at its deadline, or has waited until then (where = "wait"); ERR_LIMIT with where = "answer";
	 * ERR_UNREACHABLE: no worker can be started, or it died of this request (where = "worker"). */
	void (*ended)(void *arg, const struct err *err, const char *p, size_t len);
	void *arg;
};
/* ERR_LIMIT: too many bytes; ERR_BUSY: too many wait. */
int worker_start(struct worker_pool *pool, const struct worker_req *req, struct worker_job **ret,
		 struct err *err) MUST_CHECK;
/* How many requests of a tenant run, and how many may. */
unsigned worker_pool_running(const struct worker_pool *pool, int64_t tenant_id);
unsigned worker_pool_share(const struct worker_pool *pool);
/* Requests that were sent to a worker behind the one that it worked on; and of those, that were taken back. */
struct worker_counts { uint64_t ahead, back; };
FOR_TESTS struct worker_counts worker_pool_counts(const struct worker_pool *pool);
/* Its worker is killed, if it has one; ended() is not called any more. */
void worker_cancel(struct worker_job **job);

#endif
