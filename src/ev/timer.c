/* One-shot timers: a binary heap of our own over one timerfd.  libevent's timers are either late by up
 * to 4 ms or cost a system call in every turn; these are precise, and follow the clock of base/clock.h,
 * so that a test can step them.  The timerfd is set only when the first deadline moves forward: one
 * that was stopped meanwhile costs one idle turn. */
#include "config.h"

#include "ev/ev.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#include "ev_int.h"

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

void ev_timers_init(struct ev_loop *loop)
{
	struct ev_timers *ts = &loop->timers;
	ts->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (ts->fd < 0)
		abort();
	ts->io = ev_io_new(loop, ts->fd, on_timerfd, loop);
	ev_io_want(ts->io, true, false);
}

void ev_timers_run(struct ev_loop *loop)
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

bool ev_timers_arm(struct ev_loop *loop)
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

void ev_timers_fini(struct ev_loop *loop)
{
	struct ev_timers *ts = &loop->timers;
	ev_io_free(&ts->io);
	close(ts->fd);
	free(ts->heap);
}
