/* The loop: turns, the cached time, timers, posts from other threads, what is deferred, signals, descriptors, the pool
 * of threads.  Children and helpers have files of their own; libevent is asked for descriptors and signals only.  All
 * of it belongs to the thread that made the loop, but for ev_post() and the bodies of jobs. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/tally.h"
#include "ev/ev.h"

#include "ev_int.h"

/* --- Functions that run once the current callback has returned, or once all of the turn have. */

#define QUEUE_FIRST 64          /* places of a queue when it gets its first job */

static void ev_queue_push(struct ev_queue *q, ev_fn *fn, void *arg)
{
	if (q->len == q->cap) {
		q->cap = q->cap ? q->cap * 2 : QUEUE_FIRST;
		q->v = mem_realloc(q->v, q->cap * sizeof(*q->v));
	}
	q->v[q->len++] = (struct ev_job){ fn, arg };
}

static void ev_queue_fini(struct ev_queue *q)
{
	free(q->v);
	*q = (struct ev_queue){ 0 };
}

void ev_defer(struct ev_loop *loop, ev_fn *fn, void *arg)
{
	ev_assert_thread(loop);
	ev_queue_push(&loop->deferred, fn, arg);
}

static void ev_run_deferred(struct ev_loop *loop)
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

/* and what that defers */
static void ev_run_late(struct ev_loop *loop)
{
	for (size_t i = 0; i < loop->late.len; i++) {
		struct ev_job job = loop->late.v[i];
		job.fn(job.arg);
		ev_run_deferred(loop);
	}
	loop->late.len = 0;
}

void *ev_piece_take(struct ev_loop *loop)
{
	ev_assert_thread(loop);
	return loop->npieces > 0 ? loop->pieces[--loop->npieces] : mem_try_realloc(NULL, EV_PIECE);
}

void ev_piece_give(struct ev_loop *loop, void *p)
{
	ev_assert_thread(loop);
	if (loop->npieces < EV_PIECES)
		loop->pieces[loop->npieces++] = p;
	else
		free(p);
}

/* --- One-shot timers */

/* A binary heap of our own over one timerfd. libevent's timers are either late by up to 4 ms or cost a system call
 * in every turn; these are precise, and follow the clock of base/clock.h, so that a test can step them.  The timerfd
 * is set only when the first deadline moves forward: one that was stopped meanwhile costs one idle turn. */

#define NOT_ARMED SIZE_MAX
#define HEAP_FIRST 64

struct ev_timer {
	struct ev_loop *loop;
	ev_fn *fn;
	void *arg;
	uint64_t due_us;
	size_t at;              /* index in the heap, or NOT_ARMED */
};

static void put(struct ev_timers *ts, size_t at, struct ev_timer *t)
{
	ts->heap[at] = t;
	t->at = at;
}

static void sift_up(struct ev_timers *ts, size_t at)
{
	struct ev_timer *t = ts->heap[at];
	while (at > 0) {
		size_t parent = (at - 1) / 2;
		if (ts->heap[parent]->due_us <= t->due_us)
			break;
		put(ts, at, ts->heap[parent]);
		at = parent;
	}
	put(ts, at, t);
}

static void sift_down(struct ev_timers *ts, size_t at)
{
	struct ev_timer *t = ts->heap[at];
	for (;;) {
		size_t child = 2 * at + 1;
		if (child >= ts->len)
			break;
		if (child + 1 < ts->len && ts->heap[child + 1]->due_us < ts->heap[child]->due_us)
			child++;
		if (t->due_us <= ts->heap[child]->due_us)
			break;
		put(ts, at, ts->heap[child]);
		at = child;
	}
	put(ts, at, t);
}

struct ev_timer *ev_timer_new(struct ev_loop *loop, ev_fn *fn, void *arg)
{
	struct ev_timer *t = mem_alloc(sizeof(*t));
	*t = (struct ev_timer){ .loop = loop, .fn = fn, .arg = arg, .at = NOT_ARMED };
	metric_inc(METRIC_timers_open);
	return t;
}

void ev_timer_start(struct ev_timer *t, uint64_t delay_us)
{
	ev_assert_thread(t->loop);
	struct ev_timers *ts = &t->loop->timers;
	uint64_t now = ev_now_us(t->loop);
	t->due_us = delay_us > UINT64_MAX - now ? UINT64_MAX : now + delay_us;
	if (t->at == NOT_ARMED) {
		if (ts->len == ts->cap) {
			ts->cap = ts->cap ? ts->cap * 2 : HEAP_FIRST;
			ts->heap = mem_realloc(ts->heap, ts->cap * sizeof(struct ev_timer *));
		}
		put(ts, ts->len++, t);
	}
	sift_up(ts, t->at);
	sift_down(ts, t->at);
}

void ev_timer_stop(struct ev_timer *t)
{
	if (!t || t->at == NOT_ARMED)
		return;
	ev_assert_thread(t->loop);
	struct ev_timers *ts = &t->loop->timers;
	struct ev_timer *last = ts->heap[--ts->len];
	size_t at = t->at;
	t->at = NOT_ARMED;
	if (last == t)
		return;
	put(ts, at, last);
	sift_up(ts, at);
	sift_down(ts, last->at);
}

bool ev_timer_armed(const struct ev_timer *t)
{
	return t->at != NOT_ARMED;
}

void ev_timer_free(struct ev_timer **t)
{
	if (!t || !*t)
		return;
	ev_timer_stop(*t);
	metric_dec(METRIC_timers_open);
	free(*t);
	*t = NULL;
}

static void on_timerfd(void *arg, bool readable, bool writable)
{
	struct ev_loop *loop = arg;
	uint64_t ticks;
	(void)!read(loop->timers.fd, &ticks, sizeof(ticks)); /* EAGAIN: somebody set it anew meanwhile */
	loop->timers.armed_us = 0;
	/* The turn ends with what is due. */
}

static void ev_timers_init(struct ev_loop *loop)
{
	struct ev_timers *ts = &loop->timers;
	ts->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (ts->fd < 0)
		abort();
	ts->io = ev_io_new(loop, ts->fd, on_timerfd, loop);
	ev_io_want(ts->io, true, false);
}

/* fire what is due */
static void ev_timers_run(struct ev_loop *loop)
{
	struct ev_timers *ts = &loop->timers;
	if (ts->len == 0)
		return;
	uint64_t now = ev_now_us(loop);
	/* A timer that arms itself anew is due later than now, or waits for the next turn. */
	for (size_t most = ts->len; most > 0 && ts->len > 0 && ts->heap[0]->due_us <= now; most--) {
		struct ev_timer *t = ts->heap[0];
		ev_timer_stop(t);
		t->fn(t->arg);
		ev_run_deferred(loop);
	}
}

/* before the wait; false: something is due, do not wait */
static bool ev_timers_arm(struct ev_loop *loop)
{
	struct ev_timers *ts = &loop->timers;
	if (ts->len == 0)
		return true;
	uint64_t now = clock_mono_us(), due = ts->heap[0]->due_us;
	if (due <= now)
		return false;
	if (ts->armed_us != 0 && ts->armed_us <= due)
		return true;
	uint64_t wait = due - now;
	struct itimerspec at = { .it_value = { .tv_sec = (time_t)(wait / 1000000),
					       .tv_nsec = (long)(wait % 1000000 * 1000) } };
	if (timerfd_settime(ts->fd, 0, &at, NULL))
		abort();
	ts->armed_us = due;
	return true;
}

static void ev_timers_fini(struct ev_loop *loop)
{
	struct ev_timers *ts = &loop->timers;
	ev_io_free(&ts->io);
	close(ts->fd);
	free(ts->heap);
}

/* --- The one door for other threads: a queue under a lock and one eventfd that wakes the loop. */

void ev_post(struct ev_loop *loop, ev_fn *fn, void *arg)
{
	struct ev_post *p = &loop->post;
	pthread_mutex_lock(&p->lock);
	bool first = p->queue.len == 0;
	ev_queue_push(&p->queue, fn, arg);
	pthread_mutex_unlock(&p->lock);
	if (first) {
		uint64_t one = 1;

		/* Else it fails only when a wake-up is pending anyway. */
		while (write(p->fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	}
}

/* Take all that waits, by swapping the two queues.  False when nothing did. */
static bool take(struct ev_post *p)
{
	pthread_mutex_lock(&p->lock);
	struct ev_queue full = p->queue;
	p->queue = p->taken;
	p->taken = full;
	pthread_mutex_unlock(&p->lock);
	return p->taken.len > 0;
}

static void run_taken(struct ev_loop *loop)
{
	struct ev_post *p = &loop->post;
	for (size_t i = 0; i < p->taken.len; i++) {
		p->taken.v[i].fn(p->taken.v[i].arg);
		ev_run_deferred(loop);
	}
	p->taken.len = 0;
}

static void on_posted(void *arg, bool readable, bool writable)
{
	struct ev_loop *loop = arg;
	uint64_t count;
	/* Before the queue is taken, else a wake-up between the two would be lost. */
	(void)!read(loop->post.fd, &count, sizeof(count));
	if (take(&loop->post))
		run_taken(loop);
}

static void ev_post_init(struct ev_loop *loop)
{
	struct ev_post *p = &loop->post;
	pthread_mutex_init(&p->lock, NULL);
	p->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->fd < 0)
		abort();
	p->io = ev_io_new(loop, p->fd, on_posted, loop);
	ev_io_want(p->io, true, false);
}

static void ev_post_run(struct ev_loop *loop)
{
	while (take(&loop->post))
		run_taken(loop);
}

static void ev_post_fini(struct ev_loop *loop)
{
	struct ev_post *p = &loop->post;
	ev_io_free(&p->io);
	close(p->fd);
	ev_queue_fini(&p->queue);
	ev_queue_fini(&p->taken);
	pthread_mutex_destroy(&p->lock);
}

/* --- Signals as callbacks of the loop. */

struct ev_signal {
	struct ev_loop *loop;
	struct event *event;
	ev_signal_fn *fn;
	void *arg;
};

static void on_signal(evutil_socket_t signo, short what, void *arg)
{
	struct ev_signal *s = arg;
	struct ev_loop *loop = s->loop;
	s->fn(s->arg, (int)signo);
	ev_run_deferred(loop);
}

struct ev_signal *ev_signal_new(struct ev_loop *loop, int signo, ev_signal_fn *fn, void *arg)
{
	ev_assert_thread(loop);
	struct ev_signal *s = mem_alloc(sizeof(*s));
	*s = (struct ev_signal){ .loop = loop, .fn = fn, .arg = arg };
	s->event = evsignal_new(loop->base, signo, on_signal, s);
	if (!s->event || evsignal_add(s->event, NULL))
		abort();
	return s;
}

void ev_signal_free(struct ev_signal **s)
{
	if (!s || !*s)
		return;
	event_free((*s)->event);
	free(*s);
	*s = NULL;
}

/* --- Descriptors on the loop. */

struct ev_io {
	struct ev_loop *loop;
	struct event *read, *write; /* two, so that turning one on or off leaves the other alone */
	bool reading, writing;
	bool behind, queued;        /* queued: it is in loop->behind, and its event is off however much is wanted */
	struct list node;
	ev_io_fn *fn;
	void *arg;
};

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct ev_io *io = arg;
	struct ev_loop *loop = io->loop;
	bool readable = what & EV_READ;
	if (readable && io->behind && !io->queued) {
		if (event_del(io->read))
			abort();
		io->queued = true;
		list_push_back(&loop->behind, &io->node);
		readable = false;
	}
	if (readable || what & EV_WRITE)
		io->fn(io->arg, readable, what & EV_WRITE);
	ev_run_deferred(loop);
}

static void run_behind(struct ev_loop *loop)
{
	for (unsigned n = 0; n < EV_BEHIND_MAX && !list_empty(&loop->behind); n++) {
		struct ev_io *io = CONTAINER_OF(loop->behind.next, struct ev_io, node);
		list_unlink(&io->node);
		io->queued = false;
		if (!io->reading)
			continue;
		if (event_add(io->read, NULL))
			abort();
		io->fn(io->arg, true, false);
		ev_run_deferred(loop);
	}
	if (!list_empty(&loop->behind))
		metric_inc(METRIC_ev_behind_waited);
}

struct ev_io *ev_io_new(struct ev_loop *loop, int fd, ev_io_fn *fn, void *arg)
{
	ev_assert_thread(loop);
	struct ev_io *io = mem_alloc(sizeof(*io));
	*io = (struct ev_io){ .loop = loop, .fn = fn, .arg = arg };
	io->read = event_new(loop->base, fd, EV_READ | EV_PERSIST, on_event, io);
	io->write = event_new(loop->base, fd, EV_WRITE | EV_PERSIST, on_event, io);
	if (!io->read || !io->write)
		abort();
	return io;
}

static void toggle(struct event *ev, bool *on, bool want)
{
	if (*on == want)
		return;
	if (want ? event_add(ev, NULL) : event_del(ev))
		abort();        /* a closed descriptor: our bug */
	*on = want;
}

void ev_io_hand(struct ev_io *io, ev_io_fn *fn, void *arg)
{
	ev_assert_thread(io->loop);
	io->fn = fn;
	io->arg = arg;
}

void ev_io_want(struct ev_io *io, bool read, bool write)
{
	if (io->queued)
		io->reading = read;     /* its turn comes */
	else
		toggle(io->read, &io->reading, read);
	toggle(io->write, &io->writing, write);
}

void ev_io_behind(struct ev_io *io, bool behind)
{
	io->behind = behind;
}

void ev_io_free(struct ev_io **io)
{
	if (!io || !*io)
		return;
	if ((*io)->queued)
		list_unlink(&(*io)->node);
	event_free((*io)->read);
	event_free((*io)->write);
	free(*io);
	*io = NULL;
}

/* --- The pool: bodies that may block run on a lane's threads, their ends on the loop. */

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

size_t ev_lane_waiting(struct ev_loop *loop, enum ev_lane lane)
{
	struct ev_pool *pool = &loop->lanes[lane];
	size_t n;

	pthread_mutex_lock(&pool->lock);
	n = pool->waiting;
	pthread_mutex_unlock(&pool->lock);
	return n;
}

const char *ev_lane_name(enum ev_lane lane)
{
	static const char *const names[EV_LANES] = { [EV_LANE_READ] = "read", [EV_LANE_SIGN] = "sign", [EV_LANE_OPS] = "ops",
		[EV_LANE_FOLD] = "fold", [EV_LANE_SEAL] = "seal",
		[EV_LANE_SINK] = "sink" };

	return names[lane];
}

static void ev_work_init(struct ev_loop *loop)
{
	for (size_t i = 0; i < NELEMS(loop->lanes); i++) {
		struct ev_pool *pool = &loop->lanes[i];
		pool->loop = loop;
		pthread_mutex_init(&pool->lock, NULL);
		pthread_cond_init(&pool->wake, NULL);
		list_init(&pool->queue);
	}
}

/* finishes what is queued, joins */
static void ev_work_fini(struct ev_loop *loop)
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

/* --- the loop */

void ev_assert_thread(const struct ev_loop *loop)
{
	assert(pthread_equal(loop->thread, pthread_self()));
}

static struct event_base *new_base(void)
{
	/* No libevent timers, hence no precise-timer flag (it costs a system call per turn), no locks. */
	event_set_mem_functions(mem_alloc, mem_realloc, free);
	struct event_config *cfg = event_config_new();
	struct event_base *base = NULL;
	if (cfg && event_config_set_flag(cfg, EVENT_BASE_FLAG_NOLOCK) == 0)
		base = event_base_new_with_config(cfg);
	if (cfg)
		event_config_free(cfg);
	if (!base) {
		log_err(NULL, "event loop cannot be created");
		abort();
	}
	return base;
}

struct ev_loop *ev_loop_new(void)
{
	/* A peer or a child that is gone is EPIPE, never a signal. */
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigaction(SIGPIPE, &ignore, NULL);
	sigaction(SIGXFSZ, &ignore, NULL);

	struct ev_loop *loop = mem_zalloc(sizeof(*loop));
	loop->base = new_base();
	loop->thread = pthread_self();
	ev_timers_init(loop);
	ev_post_init(loop);
	ev_work_init(loop);
	list_init(&loop->nursery.children);
	list_init(&loop->leavers);
	list_init(&loop->behind);
	return loop;
}

void ev_loop_free(struct ev_loop **ploop)
{
	if (!ploop || !*ploop)
		return;
	struct ev_loop *loop = *ploop;
	ev_assert_thread(loop);
	*ploop = NULL;
	ev_work_fini(loop);
	if (loop->nursery.end)
		loop->nursery.end(loop);
	ev_post_run(loop);
	ev_run_deferred(loop);
	while (!list_empty(&loop->leavers)) {
		struct ev_leaver *l = CONTAINER_OF(loop->leavers.next, struct ev_leaver, node);
		list_unlink(&l->node);
		l->fn(l->arg);
	}
	ev_run_late(loop);
	ev_post_fini(loop);
	ev_timers_fini(loop);
	ev_queue_fini(&loop->deferred);
	ev_queue_fini(&loop->late);
	while (loop->npieces > 0)
		free(loop->pieces[--loop->npieces]);
	event_base_free(loop->base);
	free(loop);
}

void ev_at_free(struct ev_loop *loop, struct ev_leaver *l, ev_fn *fn, void *arg)
{
	ev_assert_thread(loop);
	l->fn = fn;
	l->arg = arg;
	list_push_back(&loop->leavers, &l->node);
}

/* What can be done without waiting; afterwards nothing is deferred. */
static void settle(struct ev_loop *loop)
{
	ev_timers_run(loop);
	ev_run_deferred(loop);
	ev_run_late(loop);
}

static void turn(struct ev_loop *loop)
{
	uint64_t begun_us;

	bool wait = ev_timers_arm(loop) && list_empty(&loop->behind);
	loop->now_us = 0;       /* the wait takes time: the first callback that asks reads the clock */
	clock_turn(true);
	/* NONBLOCK alone goes on until nothing is ready, which beside a crowd is never. */
	event_base_loop(loop->base, wait ? EVLOOP_ONCE : EVLOOP_ONCE | EVLOOP_NONBLOCK);
	begun_us = loop->now_us;        /* when the first callback asked: the wait is no part of it */
	loop->now_us = 0;
	clock_turn(true);
	/* What comes from other threads continues what was begun: behind thousands of descriptors that are ready it would
	 * wait for several turns, and a call comes here twice. */
	if (take(&loop->post))
		run_taken(loop);
	run_behind(loop);
	settle(loop);
	if (begun_us)
		tally_observe(tally_get(TALLY_TURN, TALLY_OTHER), clock_mono_us() - begun_us, NULL);
}

static void begin(struct ev_loop *loop)
{
	ev_assert_thread(loop);
	loop->now_us = 0;
	loop->running = true;
	settle(loop);
}

void ev_loop_run(struct ev_loop *loop)
{
	begin(loop);
	while (!loop->stop)
		turn(loop);
	clock_turn(false);
	loop->running = false;
	loop->stop = false;
}

void ev_loop_stop(struct ev_loop *loop)
{
	ev_assert_thread(loop);
	loop->stop = true;
}

static void on_expired(evutil_socket_t fd, short what, void *arg)
{
	bool *expired = arg;
	*expired = true;
}

bool ev_loop_run_until(struct ev_loop *loop, const bool *done, uint32_t timeout_ms)
{
	/* libevent's own timer: this deadline passes even while a test holds the clock. */
	bool expired = false;
	struct timeval tv = { .tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000 };
	struct event *deadline = evtimer_new(loop->base, on_expired, &expired);
	if (!deadline || evtimer_add(deadline, &tv))
		abort();
	begin(loop);
	while (!*done && !expired && !loop->stop)
		turn(loop);
	clock_turn(false);
	loop->running = false;          /* a stop stays: it is meant for ev_loop_run() */
	event_free(deadline);
	return *done;
}

uint64_t ev_now_us(const struct ev_loop *loop)
{
	if (!loop->running)
		return clock_mono_us();
	/* The cache is no part of what callers can see change, so the loop stays const for them. */
	struct ev_loop *cache = (struct ev_loop *)(uintptr_t)loop;
	if (cache->now_us == 0)
		cache->now_us = clock_mono_us();
	return cache->now_us;
}
