/* The pool: bodies that may block run on a lane's threads, their ends on the loop. */
#include "config.h"

#include "ev/ev.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/metric.h"

#include "ev_int.h"

struct job {
	struct list node;
	ev_fn *body, *done;
	void *arg;
};

/* The next job, or NULL when the lane is to end.  What is queued is done before. */
static struct job *next_job(struct ev_pool *pool)
{
	struct job *job = NULL;
	pthread_mutex_lock(&pool->lock);
	while (list_empty(&pool->queue) && !pool->stop)
		pthread_cond_wait(&pool->wake, &pool->lock);
	if (!list_empty(&pool->queue)) {
		job = CONTAINER_OF(pool->queue.next, struct job, node);
		list_unlink(&job->node);
		pool->waiting--;
	}
	pthread_mutex_unlock(&pool->lock);
	return job;
}

static void *lane_main(void *arg)
{
	struct ev_pool *pool = arg;
	for (struct job *job; (job = next_job(pool)) != NULL; free(job)) {
		job->body(job->arg);
		ev_post(pool->loop, job->done, job->arg);
	}
	return NULL;
}

/* Signals are the loop's: new threads inherit a full mask. */
static void start_threads(struct ev_pool *pool)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (pool->nthreads < EV_LANE_THREADS &&
	       pthread_create(&pool->threads[pool->nthreads], NULL, lane_main, pool) == 0)
		pool->nthreads++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int ev_work(struct ev_loop *loop, enum ev_lane lane, ev_fn *body, ev_fn *done, void *arg)
{
	ev_assert_thread(loop);
	struct ev_pool *pool = &loop->lanes[lane];
	if (pool->nthreads == 0)
		start_threads(pool);
	if (pool->nthreads == 0)
		return ERR_BUSY;
	struct job *job = mem_alloc(sizeof(*job));
	*job = (struct job){ .body = body, .done = done, .arg = arg };

	pthread_mutex_lock(&pool->lock);
	bool full = pool->waiting == EV_LANE_QUEUE_MAX;
	if (!full) {
		list_push_back(&pool->queue, &job->node);
		pool->waiting++;
		pthread_cond_signal(&pool->wake);
	}
	pthread_mutex_unlock(&pool->lock);
	if (!full)
		return 0;
	metric_inc(METRIC_ev_work_queue_full);
	free(job);
	return ERR_BUSY;
}

void ev_work_init(struct ev_loop *loop)
{
	for (size_t i = 0; i < NELEMS(loop->lanes); i++) {
		struct ev_pool *pool = &loop->lanes[i];
		pool->loop = loop;
		pthread_mutex_init(&pool->lock, NULL);
		pthread_cond_init(&pool->wake, NULL);
		list_init(&pool->queue);
	}
}

void ev_work_fini(struct ev_loop *loop)
{
	for (size_t i = 0; i < NELEMS(loop->lanes); i++) {
		struct ev_pool *pool = &loop->lanes[i];
		pthread_mutex_lock(&pool->lock);
		pool->stop = true;
		pthread_cond_broadcast(&pool->wake);
		pthread_mutex_unlock(&pool->lock);
		for (unsigned t = 0; t < pool->nthreads; t++)
			pthread_join(pool->threads[t], NULL);
		pthread_cond_destroy(&pool->wake);
		pthread_mutex_destroy(&pool->lock);
	}
}
