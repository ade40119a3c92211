/* The loop itself: turns, the cached time, the end.  Timers, posts, work and children have files of
 * their own; libevent is asked for descriptors and signals only. */
#include "config.h"

#include "ev/ev.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>

#include <event2/event.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include "ev_int.h"

void ev_assert_thread(const struct ev_loop *loop)
{
	assert(pthread_equal(loop->thread, pthread_self()));
}

static struct event_base *new_base(void)
{
	/* No libevent timers, hence no precise-timer flag (it costs a system call per turn), no locks. */
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
	ev_nursery_init(loop);
	list_init(&loop->leavers);
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
	ev_nursery_fini(loop);
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
	bool wait = ev_timers_arm(loop);
	loop->now_us = 0;       /* the wait takes time: the first callback that asks reads the clock */
	event_base_loop(loop->base, wait ? EVLOOP_ONCE : EVLOOP_NONBLOCK);
	loop->now_us = 0;
	settle(loop);
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
