/* Functions that run once the current callback has returned, or once all of the turn have. */
#include "config.h"

#include "ev/ev.h"

#include <stdlib.h>

#include "base/mem.h"

#include "ev_int.h"

#define QUEUE_FIRST 64          /* places of a queue when it gets its first job */

void ev_queue_push(struct ev_queue *q, ev_fn *fn, void *arg)
{
	if (q->len == q->cap) {
		q->cap = q->cap ? q->cap * 2 : QUEUE_FIRST;
		q->v = mem_realloc(q->v, q->cap * sizeof(*q->v));
	}
	q->v[q->len++] = (struct ev_job){ fn, arg };
}

void ev_queue_fini(struct ev_queue *q)
{
	free(q->v);
	*q = (struct ev_queue){ 0 };
}

void ev_defer(struct ev_loop *loop, ev_fn *fn, void *arg)
{
	ev_assert_thread(loop);
	ev_queue_push(&loop->deferred, fn, arg);
}

void ev_run_deferred(struct ev_loop *loop)
{
	if (loop->deferring)
		return;
	loop->deferring = true;
	/* The queue may grow, and move, while it is worked through. */
	for (size_t i = 0; i < loop->deferred.len; i++) {
		struct ev_job job = loop->deferred.v[i];
		job.fn(job.arg);
	}
	loop->deferred.len = 0;
	loop->deferring = false;
}

void ev_at_turn_end(struct ev_loop *loop, ev_fn *fn, void *arg)
{
	ev_assert_thread(loop);
	ev_queue_push(&loop->late, fn, arg);
}

void ev_run_late(struct ev_loop *loop)
{
	for (size_t i = 0; i < loop->late.len; i++) {
		struct ev_job job = loop->late.v[i];
		job.fn(job.arg);
		ev_run_deferred(loop);
	}
	loop->late.len = 0;
}
