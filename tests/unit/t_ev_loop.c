/* Turns, timers, deferred and posted functions, descriptors, signals, the pool. */
#include "config.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "ev/again.h"
#include "ev/ev.h"
#include "suite.h"

#define PATIENCE_MS 5000
#define TIMERS 100

struct fixture {
	struct ev_loop *loop;
	struct ev_timer *timers[TIMERS];
	char trace[256];
	unsigned count;
	bool done;
};

static int setup(void **state)
{
	struct fixture *f = mem_zalloc(sizeof(*f));
	f->loop = ev_loop_new();
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	clock_real();
	ev_loop_free(&f->loop);
	free(f);
	return 0;
}

static void note(struct fixture *f, char c)
{
	f->trace[strlen(f->trace)] = c;
}

static void note_d(void *arg) { note(arg, 'd'); }
static void note_t(void *arg) { note(arg, 't'); }
static void note_done(void *arg) { struct fixture *f = arg; f->done = true; }

static void run_until_done(struct fixture *f)
{
	assert_true(ev_loop_run_until(f->loop, &f->done, PATIENCE_MS));
	f->done = false;
}

/* One turn or a few, without waiting for anything. */
static void run_turns(struct fixture *f)
{
	ev_post(f->loop, note_done, f);
	run_until_done(f);
}

static void defer_more(void *arg)
{
	struct fixture *f = arg;
	note(f, '1');
	ev_defer(f->loop, note_d, f);
	note(f, '2');
}

static void deferred_runs_after_the_callback_in_the_same_turn(void **state)
{
	struct fixture *f = *state;
	ev_post(f->loop, defer_more, f);
	ev_post(f->loop, note_t, f);
	run_turns(f);
	assert_string_equal(f->trace, "12dt");
}

static void note_e(void *arg) { note(arg, 'e'); }

static void share_end(void *arg)
{
	struct fixture *f = arg;
	note(f, '1');
	ev_at_turn_end(f->loop, note_e, f);
	ev_defer(f->loop, note_d, f);
}

static void turn_end_comes_after_all_callbacks_of_the_turn(void **state)
{
	struct fixture *f = *state;
	ev_post(f->loop, share_end, f);
	ev_post(f->loop, note_t, f);
	run_turns(f);
	assert_string_equal(f->trace, "1dte");
}

static void free_runs_what_is_deferred_and_posted(void **state)
{
	struct fixture *f = *state;
	struct ev_loop *loop = ev_loop_new();
	ev_defer(loop, note_d, f);
	ev_post(loop, note_t, f);
	ev_loop_free(&loop);
	assert_null(loop);
	assert_string_equal(f->trace, "td");
}

static void timers_fire_by_the_clock_and_in_order(void **state)
{
	struct fixture *f = *state;
	clock_fake(1, 1000);
	struct ev_timer *late = ev_timer_new(f->loop, note_t, f), *soon = ev_timer_new(f->loop, note_d, f);
	ev_timer_start(late, 2000000);
	ev_timer_start(soon, 1000000);
	run_turns(f);
	assert_string_equal(f->trace, "");
	clock_step(999999);
	run_turns(f);
	assert_string_equal(f->trace, "");
	clock_step(1);
	run_turns(f);
	assert_string_equal(f->trace, "d");
	assert_false(ev_timer_armed(soon));
	clock_step(5000000);
	run_turns(f);
	assert_string_equal(f->trace, "dt");
	ev_timer_free(&late);
	ev_timer_free(&soon);
}

static void stopped_and_restarted_timers_keep_their_word(void **state)
{
	struct fixture *f = *state;
	clock_fake(1, 1000);
	struct ev_timer *t = ev_timer_new(f->loop, note_t, f);
	ev_timer_start(t, 10);
	ev_timer_stop(t);
	ev_timer_stop(t);
	clock_step(10);
	run_turns(f);
	ev_timer_start(t, 10);
	ev_timer_start(t, 1000);
	clock_step(10);
	run_turns(f);
	assert_string_equal(f->trace, "");
	clock_step(990);
	run_turns(f);
	assert_string_equal(f->trace, "t");
	ev_timer_free(&t);
	assert_null(t);
}

static void count_up(void *arg) { struct fixture *f = arg; f->count++; }

static void many_timers_stay_ordered(void **state)
{
	struct fixture *f = *state;
	clock_fake(1, 1000);
	for (unsigned i = 0; i < TIMERS; i++) {
		f->timers[i] = ev_timer_new(f->loop, count_up, f);
		ev_timer_start(f->timers[i], (i * 37 % TIMERS + 1) * 10);
	}
	for (unsigned i = 0; i < TIMERS; i += 3)
		ev_timer_stop(f->timers[i]);
	unsigned want = 0;
	for (unsigned due = 1; due <= TIMERS; due++) {
		clock_step(10);
		run_turns(f);
		for (unsigned i = 0; i < TIMERS; i++)
			want += i % 3 != 0 && i * 37 % TIMERS + 1 == due;
		assert_int_equal(f->count, want);
	}
	for (unsigned i = 0; i < TIMERS; i++)
		ev_timer_free(&f->timers[i]);
}

struct clocked { struct ev_timer *t; uint64_t due_us, fired_us; };

static void note_time(void *arg)
{
	struct clocked *c = arg;
	c->fired_us = clock_mono_us();
}

static void timers_survive_any_order_of_starts_and_stops(void **state)
{
	struct fixture *f = *state;
	struct clocked all[40] = { { 0 } };
	uint32_t seed = 1;
	clock_fake(1, 1000);
	for (size_t i = 0; i < NELEMS(all); i++)
		all[i].t = ev_timer_new(f->loop, note_time, &all[i]);
	for (int round = 0; round < 2000; round++) {
		seed = seed * 1664525 + 1013904223;
		struct clocked *c = &all[(seed >> 8) % NELEMS(all)];
		uint64_t delay = (seed >> 16) % 300 + 1;
		if (seed >> 31) {
			ev_timer_stop(c->t);
			c->due_us = 0;
		} else {
			ev_timer_start(c->t, delay);
			c->due_us = clock_mono_us() + delay;
			c->fired_us = 0;
		}
		if (round % 4)
			continue;
		clock_step(1);
		run_turns(f);
		for (size_t i = 0; i < NELEMS(all); i++) {
			bool due = all[i].due_us && all[i].due_us <= clock_mono_us();
			assert_int_equal(ev_timer_armed(all[i].t), all[i].due_us && !due);
			assert_int_equal(all[i].fired_us, due ? all[i].due_us : 0);
			if (due)
				all[i].due_us = all[i].fired_us = 0;
		}
	}
	for (size_t i = 0; i < NELEMS(all); i++)
		ev_timer_free(&all[i].t);
}

/* The heap is [1, 100, 2, 101, 102, 3, 4]: the one that takes the place of 101 is earlier than 100 above it. */
static void stopping_one_timer_keeps_an_early_one_early(void **state)
{
	struct fixture *f = *state;
	static const uint64_t due[] = { 1, 100, 2, 101, 102, 3, 4, 200, 201, 202, 203, 204 };
	clock_fake(1, 1000);
	for (size_t i = 0; i < NELEMS(due); i++) {
		f->timers[i] = ev_timer_new(f->loop, count_up, f);
		if (i == 7)
			ev_timer_stop(f->timers[3]);
		ev_timer_start(f->timers[i], due[i]);
	}
	clock_step(4);
	run_turns(f);
	assert_int_equal(f->count, 4);
	for (size_t i = 0; i < NELEMS(due); i++)
		ev_timer_free(&f->timers[i]);
}

static void timer_is_precise_to_a_millisecond(void **state)
{
	struct fixture *f = *state;
	uint64_t best = UINT64_MAX;
	for (int i = 0; i < 20; i++) {  /* the best of some: a busy machine may be late */
		struct ev_timer *t = ev_timer_new(f->loop, note_done, f);
		uint64_t start = clock_mono_us();
		ev_timer_start(t, 1000);
		run_until_done(f);
		uint64_t took = clock_mono_us() - start;
		assert_true(took >= 1000);
		best = took < best ? took : best;
		ev_timer_free(&t);
	}
	assert_true(best < 2500);
}

struct again { struct fixture *f; struct ev_timer *t; unsigned left; };

static void arm_again(void *arg)
{
	struct again *a = arg;
	if (--a->left > 0)
		ev_timer_start(a->t, 0);
	else
		a->f->done = true;
}

static void timer_that_arms_itself_does_not_hold_the_loop(void **state)
{
	struct fixture *f = *state;
	struct again a = { f, NULL, 1000 };
	a.t = ev_timer_new(f->loop, arm_again, &a);
	ev_timer_start(a.t, 0);
	ev_post(f->loop, note_t, f);
	run_until_done(f);
	assert_string_equal(f->trace, "t");
	ev_timer_free(&a.t);
}

static void step_and_ask(void *arg)
{
	struct fixture *f = arg;
	uint64_t now = ev_now_us(f->loop);
	clock_step(5);
	f->count = (unsigned)(ev_now_us(f->loop) - now);
}

static void time_is_one_within_a_turn(void **state)
{
	struct fixture *f = *state;
	clock_fake(1, 1000);
	f->count = 1;
	ev_post(f->loop, step_and_ask, f);
	run_turns(f);
	assert_int_equal(f->count, 0);
	assert_int_equal(ev_now_us(f->loop), 1005);
}

/* Nothing else happens that could wake a loop which waits after the deferred call. */
static void run_until_sees_what_a_deferred_call_did(void **state)
{
	struct fixture *f = *state;
	uint64_t before = clock_mono_us();
	ev_defer(f->loop, note_done, f);
	run_until_done(f);
	assert_true(clock_mono_us() - before < PATIENCE_MS * 500ull);
}

static void deadline_of_run_until_passes(void **state)
{
	struct fixture *f = *state;
	clock_fake(1, 1000);
	assert_false(ev_loop_run_until(f->loop, &f->done, 5));
}

struct pipe_end { struct fixture *f; int fd; struct ev_io *io; char got[16]; };

static void on_readable(void *arg, bool readable, bool writable)
{
	struct pipe_end *e = arg;
	if (writable)
		note(e->f, 'w');
	if (readable && read(e->fd, e->got, sizeof(e->got)) > 0)
		note(e->f, 'r');
	ev_io_free(&e->io);     /* from inside, with the other event pending */
	e->f->done = true;
}

static void io_may_be_freed_in_its_callback(void **state)
{
	struct fixture *f = *state;
	int s[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	struct pipe_end e = { .f = f, .fd = s[0] };
	e.io = ev_io_new(f->loop, s[0], on_readable, &e);
	ev_io_want(e.io, true, true);
	assert_int_equal(write(s[1], "x", 1), 1);
	run_until_done(f);
	run_turns(f);
	assert_int_equal(strlen(f->trace), 1);
	close(s[0]);
	close(s[1]);
}

static void on_first(void *arg, bool readable, bool writable)
{
	(void)readable;
	(void)writable;
	note(arg, '1');
}

/* Who has it now hears what comes, and nothing has to be wanted again. */
static void io_that_is_handed_over_is_the_others(void **state)
{
	struct fixture *f = *state;
	int s[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	struct pipe_end e = { .f = f, .fd = s[0] };
	e.io = ev_io_new(f->loop, s[0], on_first, f);
	ev_io_want(e.io, true, false);
	ev_io_hand(e.io, on_readable, &e);
	assert_int_equal(write(s[1], "x", 1), 1);
	run_until_done(f);
	assert_string_equal(f->trace, "r");
	close(s[0]);
	close(s[1]);
}

static void so_many_pieces_stay_and_one_more_does_not(void **state)
{
	struct fixture *f = *state;
	void *piece[EV_PIECES + 1], *last;

	for (size_t i = 0; i < NELEMS(piece); i++) {
		piece[i] = ev_piece_take(f->loop);
		memset(piece[i], (int)i, EV_PIECE);
	}
	last = piece[EV_PIECES - 1];
	for (size_t i = 0; i < NELEMS(piece); i++)
		ev_piece_give(f->loop, piece[i]);       /* the last one goes */
	assert_ptr_equal(ev_piece_take(f->loop), last);
	ev_piece_give(f->loop, last);
	mem_fail_above(EV_PIECE - 1);
	for (size_t i = 0; i < EV_PIECES; i++)
		assert_non_null(piece[i] = ev_piece_take(f->loop));
	assert_null(ev_piece_take(f->loop));
	mem_fail_above(SIZE_MAX);
	for (size_t i = 0; i < EV_PIECES; i++)
		ev_piece_give(f->loop, piece[i]);
}

static void on_signal(void *arg, int signo)
{
	struct fixture *f = arg;
	f->count = (unsigned)signo;
	f->done = true;
}

static void signal_becomes_a_callback(void **state)
{
	struct fixture *f = *state;
	struct ev_signal *s = ev_signal_new(f->loop, SIGUSR1, on_signal, f);
	raise(SIGUSR1);
	run_until_done(f);
	assert_int_equal(f->count, SIGUSR1);
	ev_signal_free(&s);
	assert_null(s);
}

struct gate { pthread_mutex_t lock; struct fixture *f; unsigned ran; };

static void held_body(void *arg)
{
	struct gate *g = arg;
	pthread_mutex_lock(&g->lock);
	g->ran++;
	pthread_mutex_unlock(&g->lock);
}

static void held_done(void *arg)
{
	struct gate *g = arg;
	g->f->count++;
}

static void full_lane_is_busy_and_leaves_the_other_alone(void **state)
{
	struct fixture *f = *state;
	struct gate g = { .lock = PTHREAD_MUTEX_INITIALIZER, .f = f }, free_lane = g;
	pthread_mutex_lock(&g.lock);
	unsigned taken = 0;
	/* The lane's threads may have picked up some already. */
	while (taken <= EV_LANE_QUEUE_MAX + EV_LANE_THREADS &&
	       ev_work(f->loop, EV_LANE_SIGN, held_body, held_done, &g) == 0)
		taken++;
	assert_in_range(taken, EV_LANE_QUEUE_MAX, EV_LANE_QUEUE_MAX + EV_LANE_THREADS);
	assert_int_equal(ev_work(f->loop, EV_LANE_READ, held_body, note_done, &free_lane), 0);
	free_lane.f = f;
	assert_in_range(ev_lane_waiting(f->loop, EV_LANE_SIGN), EV_LANE_QUEUE_MAX - EV_LANE_THREADS, EV_LANE_QUEUE_MAX);
	assert_int_equal(ev_lane_waiting(f->loop, EV_LANE_FOLD), 0);
	assert_string_equal(ev_lane_name(EV_LANE_FOLD), "fold");
	pthread_mutex_unlock(&g.lock);
	ev_loop_free(&f->loop);         /* finishes the queue and runs the ends */
	f->loop = ev_loop_new();
	assert_int_equal(g.ran, taken);
	assert_int_equal(f->count, taken);
}

static void *post_many(void *arg)
{
	struct fixture *f = arg;
	for (int i = 0; i < 10000; i++)
		ev_post(f->loop, count_up, f);
	ev_post(f->loop, note_done, f);
	return NULL;
}

static void thread_body(void *arg) { (void)post_many(arg); }

static void posts_of_another_thread_arrive_in_order_and_all(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(ev_work(f->loop, EV_LANE_READ, thread_body, note_t, f), 0);
	run_until_done(f);
	assert_int_equal(f->count, 10000);
}

static void stop_from_callback(void *arg)
{
	struct fixture *f = arg;
	ev_loop_stop(f->loop);
}

static void stop_ends_the_run_and_only_that_one(void **state)
{
	struct fixture *f = *state;
	ev_post(f->loop, stop_from_callback, f);
	ev_loop_run(f->loop);
	run_turns(f);
}

/* --- posts beside a crowd */

#define CROWD 700                       /* descriptors that are always ready: more than one turn takes */
#define TURN_MAX 300                    /* of these */

struct crowd {
	struct ev_loop *loop;
	struct ev_io *io[CROWD];
	int fd[CROWD];
	unsigned seen, posted_at, run_at;
	bool done;
};

static void on_post_of_crowd(void *arg)
{
	struct crowd *c = arg;

	c->run_at = c->seen;
	c->done = true;
}

/* Two rounds first, so that all are known to be ready, and stand before what gets ready now. */
static void on_crowd(void *arg, bool readable, bool writable)
{
	struct crowd *c = arg;

	if (++c->seen != 2 * CROWD)
		return;
	c->posted_at = c->seen;
	ev_post(c->loop, on_post_of_crowd, c);
}

/* HARDENING F-5: a call comes by here twice; each time it would wait until the crowd had been served once. */
static void test_f5_posts_do_not_wait_for_all_that_is_ready(void **state)
{
	struct fixture *f = *state;
	struct crowd *c = mem_zalloc(sizeof(*c));

	c->loop = f->loop;
	for (size_t i = 0; i < CROWD; i++) {
		c->fd[i] = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
		assert_true(c->fd[i] >= 0);
		c->io[i] = ev_io_new(f->loop, c->fd[i], on_crowd, c);
		ev_io_want(c->io[i], true, false);
	}
	assert_true(ev_loop_run_until(f->loop, &c->done, 60000));
	assert_in_range(c->run_at - c->posted_at, 0, TURN_MAX);
	for (size_t i = 0; i < CROWD; i++) {
		ev_io_free(&c->io[i]);
		close(c->fd[i]);
	}
	free(c);
}

/* --- timers beside what is always ready */

struct busy { struct ev_timer *timer; unsigned calls, fired; bool done; };

static void on_busy(void *arg, bool readable, bool writable)
{
	struct busy *b = arg;

	if (++b->calls == 10)
		ev_timer_start(b->timer, 0);
	if (b->calls > 100000)
		fail_msg("the timer did not fire");
}

static void on_busy_timer(void *arg)
{
	struct busy *b = arg;

	b->done = ++b->fired == 3;
	if (!b->done)
		ev_timer_start(b->timer, 0);    /* due at once, in the next turn */
}

/* A turn that must not wait ends like all others. */
static void timers_fire_beside_what_is_always_ready(void **state)
{
	struct fixture *f = *state;
	struct busy b = { .timer = ev_timer_new(f->loop, on_busy_timer, &b) };
	int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	struct ev_io *io = ev_io_new(f->loop, fd, on_busy, &b);

	ev_io_want(io, true, false);
	assert_true(ev_loop_run_until(f->loop, &b.done, 60000));
	assert_in_range(b.calls, 10, 20);
	ev_io_free(&io);
	ev_timer_free(&b.timer);
	close(fd);
}

/* --- what is read behind all else */

struct behind {
	struct ev_io *io[4 * EV_BEHIND_MAX], *front;
	struct behind_one { struct behind *all; size_t place; } one[4 * EV_BEHIND_MAX];
	int fd[4 * EV_BEHIND_MAX];
	unsigned calls[4 * EV_BEHIND_MAX], since, most, total;
	bool done;
};

static void on_behind(void *arg, bool readable, bool writable)
{
	struct behind_one *o = arg;
	struct behind *b = o->all;

	assert_true(readable && !writable);
	b->calls[o->place]++;
	b->total++;
	b->since++;
	b->most = b->since > b->most ? b->since : b->most;
	if (o->place == 1 && b->io[20]) {       /* they wait, and do not come */
		ev_io_free(&b->io[20]);
		ev_io_want(b->io[21], false, false);
	}
	b->done = b->done || b->calls[NELEMS(b->calls) - 1] == 3;
}

static void on_front(void *arg, bool readable, bool writable)
{
	((struct behind *)arg)->since = 0;
}

/* HARDENING F-5: however many of them are ready, what is not behind has its turn after EV_BEHIND_MAX. */
static void test_f5_what_is_behind_keeps_nobody_waiting(void **state)
{
	struct fixture *f = *state;
	const uint64_t waited = metric_get(METRIC_ev_behind_waited);
	struct behind b = { .done = false };
	int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);

	assert_true(fd >= 0);
	for (size_t i = 0; i < NELEMS(b.io); i++) {
		b.one[i] = (struct behind_one){ &b, i };
		b.fd[i] = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
		b.io[i] = ev_io_new(f->loop, b.fd[i], on_behind, &b.one[i]);
		ev_io_behind(b.io[i], true);
		ev_io_want(b.io[i], true, false);
	}
	b.front = ev_io_new(f->loop, fd, on_front, &b);
	ev_io_want(b.front, true, false);
	assert_true(ev_loop_run_until(f->loop, &b.done, 60000));
	assert_int_equal(b.most, EV_BEHIND_MAX);
	assert_in_range(b.calls[0], 2, 4);       /* all have their turn */
	assert_int_equal(b.calls[20], 0);
	assert_int_equal(b.calls[21], 0);
	assert_in_range(metric_get(METRIC_ev_behind_waited) - waited, 1, b.total);
	b.done = false;
	memset(b.calls, 0, sizeof(b.calls));
	ev_io_want(b.io[21], true, false);
	assert_true(ev_loop_run_until(f->loop, &b.done, 60000));
	assert_in_range(b.calls[21], 2, 4);
	for (size_t i = 0; i < NELEMS(b.io); i++) {
		ev_io_free(&b.io[i]);
		close(b.fd[i]);
	}
	ev_io_free(&b.front);
	close(fd);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

SUITE(loop)
{
	const struct CMUnitTest tests[] = {
		T(deferred_runs_after_the_callback_in_the_same_turn),
		T(turn_end_comes_after_all_callbacks_of_the_turn),
		T(free_runs_what_is_deferred_and_posted),
		T(test_f5_posts_do_not_wait_for_all_that_is_ready),
		T(test_f5_what_is_behind_keeps_nobody_waiting),
		T(timers_fire_beside_what_is_always_ready),
		T(timers_fire_by_the_clock_and_in_order),
		T(stopped_and_restarted_timers_keep_their_word),
		T(many_timers_stay_ordered),
		T(timers_survive_any_order_of_starts_and_stops),
		T(stopping_one_timer_keeps_an_early_one_early),
		T(timer_is_precise_to_a_millisecond),
		T(timer_that_arms_itself_does_not_hold_the_loop),
		T(time_is_one_within_a_turn),
		T(run_until_sees_what_a_deferred_call_did),
		T(deadline_of_run_until_passes),
		T(io_may_be_freed_in_its_callback),
		T(io_that_is_handed_over_is_the_others),
		T(so_many_pieces_stay_and_one_more_does_not),
		T(signal_becomes_a_callback),
		T(full_lane_is_busy_and_leaves_the_other_alone),
		T(posts_of_another_thread_arrive_in_order_and_all),
		T(stop_ends_the_run_and_only_that_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
