/*
 * The queue between the loop and the writer: bounded, one list per tenant, tenants in turn (AUDIT A-215).
 * Every lock of this module is here, and nothing is called while one is held.
 */

#include "config.h"

#include <stdlib.h>
#include <time.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"

#include "writer_int.h"

/* One tenant's items.  Lives as long as the queue; the loop thread alone finds it by its tenant. */
struct lane {
	struct list in_ring;            /* in wqueue.ring while it has items */
	struct list items;
};

struct wqueue {
	struct map *lanes;              /* loop thread */
	pthread_mutex_t lock;
	pthread_cond_t more, gone;      /* for the writer; for wqueue_wait_exit() */
	struct list ring;               /* lanes with items, next one first */
	size_t len, max;
	struct witem *done, **done_tail;
	bool shown;                     /* the writer may take; false: the loop is still pushing, or nothing waits */
	bool idle, closed, exited, abandoned;
};

static void cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

/* Real time, whatever the clock of a test says: a condition cannot be stepped. */
static struct timespec after_ms(uint32_t ms)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += ms / 1000;
	at.tv_nsec += (long)(ms % 1000) * 1000000;
	if (at.tv_nsec >= 1000000000) {
		at.tv_nsec -= 1000000000;
		at.tv_sec++;
	}
	return at;
}

struct wqueue *wqueue_new(size_t max)
{
	struct wqueue *q = mem_zalloc(sizeof *q);

	q->lanes = map_new();
	pthread_mutex_init(&q->lock, NULL);
	cond_init(&q->more);
	cond_init(&q->gone);
	list_init(&q->ring);
	q->max = max;
	q->done_tail = &q->done;
	return q;
}

void wqueue_free(struct wqueue **qp)
{
	struct wqueue *q = qp ? *qp : NULL;
	void *lane;

	if (!q)
		return;
	*qp = NULL;
	for (size_t it = 0; map_next(q->lanes, &it, NULL, NULL, &lane);)
		free(lane);
	map_free(&q->lanes);
	pthread_cond_destroy(&q->more);
	pthread_cond_destroy(&q->gone);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

static struct lane *lane_of(struct wqueue *q, int64_t tenant)
{
	struct lane *lane = map_get_u64(q->lanes, (uint64_t)tenant);

	if (lane)
		return lane;
	lane = mem_alloc(sizeof *lane);
	list_init(&lane->in_ring);
	list_init(&lane->items);
	map_set_u64(q->lanes, (uint64_t)tenant, lane);
	return lane;
}

bool wqueue_push(struct wqueue *q, struct witem *item)
{
	struct lane *lane = lane_of(q, item->lane);
	bool fits;

	pthread_mutex_lock(&q->lock);
	fits = q->len < q->max || item->must_stay;
	if (fits) {
		list_push_back(&lane->items, &item->in_queue);
		if (list_empty(&lane->in_ring))
			list_push_back(&q->ring, &lane->in_ring);
		metric_set(METRIC_writer_queue_len, ++q->len);
	}
	pthread_mutex_unlock(&q->lock);
	return fits;
}

void wqueue_show(struct wqueue *q)
{
	bool wake;

	pthread_mutex_lock(&q->lock);
	q->shown = !list_empty(&q->ring);
	wake = q->shown && q->idle;
	if (wake)
		q->idle = false;        /* one signal is enough until it waits again */
	pthread_mutex_unlock(&q->lock);
	if (wake)
		pthread_cond_signal(&q->more);
}

bool wqueue_is_full(struct wqueue *q)
{
	bool full;

	pthread_mutex_lock(&q->lock);
	full = q->len >= q->max;
	pthread_mutex_unlock(&q->lock);
	return full;
}

bool wqueue_withdraw(struct wqueue *q, struct witem *item)
{
	struct lane *lane = lane_of(q, item->lane);
	bool ours;

	pthread_mutex_lock(&q->lock);
	ours = !item->taken;
	if (ours) {
		list_unlink(&item->in_queue);
		if (list_empty(&lane->items))
			list_unlink(&lane->in_ring);
		if (list_empty(&q->ring))
			q->shown = false;
		metric_set(METRIC_writer_queue_len, --q->len);
	}
	pthread_mutex_unlock(&q->lock);
	return ours;
}

void wqueue_close(struct wqueue *q)
{
	pthread_mutex_lock(&q->lock);
	q->closed = true;
	pthread_mutex_unlock(&q->lock);
	pthread_cond_broadcast(&q->more);
}

/* Locked: the next item of the next tenant. */
static struct witem *take_one(struct wqueue *q)
{
	struct lane *lane = CONTAINER_OF(q->ring.next, struct lane, in_ring);
	struct witem *item = CONTAINER_OF(lane->items.next, struct witem, in_queue);

	list_unlink(&item->in_queue);
	list_unlink(&lane->in_ring);
	if (!list_empty(&lane->items))
		list_push_back(&q->ring, &lane->in_ring);
	item->taken = true;
	q->len--;
	return item;
}

struct witem *wqueue_take(struct wqueue *q, size_t max, bool wait)
{
	struct witem *first = NULL, **tail = &first;

	pthread_mutex_lock(&q->lock);
	while (wait && !q->shown && !q->closed) {
		q->idle = true;
		pthread_cond_wait(&q->more, &q->lock);
	}
	q->idle = false;
	for (size_t n = 0; n < max && !list_empty(&q->ring); n++) {
		*tail = take_one(q);
		tail = &(*tail)->next;
	}
	if (list_empty(&q->ring))
		q->shown = false;
	metric_set(METRIC_writer_queue_len, q->len);
	pthread_mutex_unlock(&q->lock);
	*tail = NULL;
	return first;
}

bool wqueue_finish(struct wqueue *q, struct witem *first)
{
	struct witem **end = &first;
	bool tell;

	while (*end)
		end = &(*end)->next;
	pthread_mutex_lock(&q->lock);
	tell = !q->done && first && !q->abandoned;
	if (first) {
		*q->done_tail = first;
		q->done_tail = end;
	}
	pthread_mutex_unlock(&q->lock);
	return tell;
}

struct witem *wqueue_finished(struct wqueue *q)
{
	struct witem *first;

	pthread_mutex_lock(&q->lock);
	first = q->done;
	q->done = NULL;
	q->done_tail = &q->done;
	pthread_mutex_unlock(&q->lock);
	return first;
}

void wqueue_pause(struct wqueue *q, uint32_t ms)
{
	struct timespec until = after_ms(ms);
	bool was_closed;

	pthread_mutex_lock(&q->lock);
	was_closed = q->closed;
	for (int late = 0; q->closed == was_closed && !late;)
		late = pthread_cond_timedwait(&q->more, &q->lock, &until);
	pthread_mutex_unlock(&q->lock);
}

void wqueue_exit(struct wqueue *q)
{
	pthread_mutex_lock(&q->lock);
	q->exited = true;
	pthread_cond_signal(&q->gone);
	pthread_mutex_unlock(&q->lock);
}

bool wqueue_wait_exit(struct wqueue *q, uint32_t timeout_ms)
{
	struct timespec until = after_ms(timeout_ms);
	bool exited;

	pthread_mutex_lock(&q->lock);
	for (int late = 0; !q->exited && !late;)
		late = pthread_cond_timedwait(&q->gone, &q->lock, &until);
	exited = q->exited;
	q->abandoned = !exited;
	pthread_mutex_unlock(&q->lock);
	return exited;
}
