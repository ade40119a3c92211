#ifndef EV_EV_H
#define EV_EV_H

#include "base/err.h"
#include "base/map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The event loop (libevent core, epoll, precise timers): one, on the main thread.  Everything here is
 * for the loop thread unless it says otherwise.  No callback runs before the call that started it has
 * returned.  Timers follow clock_mono_us(): a test that steps the clock steps them. */

struct ev_loop;
typedef void ev_fn(void *arg);

struct ev_loop *ev_loop_new(void);                     /* aborts when the system refuses; ignores SIGPIPE */
void ev_loop_free(struct ev_loop **loop);              /* runs what is deferred or posted first */
void ev_loop_run(struct ev_loop *loop);                /* until ev_loop_stop() */
void ev_loop_stop(struct ev_loop *loop);
/* Run until *done or the deadline; for tests and the embedded CLI.  False: deadline passed. */
bool ev_loop_run_until(struct ev_loop *loop, const bool *done, uint32_t timeout_ms);
uint64_t ev_now_us(const struct ev_loop *loop);        /* monotonic, cached per turn */

/* Run fn(arg) in this turn, once the current callback has returned: the way to report an end or to
 * free an object without pulling it from under a caller on the stack. */
void ev_defer(struct ev_loop *loop, ev_fn *fn, void *arg);
/* Run fn(arg) when all callbacks of this turn are done, before the loop waits again: for work that they can
 * share, like one write for several answers. */
void ev_at_turn_end(struct ev_loop *loop, ev_fn *fn, void *arg);
/* Run fn(arg) on the loop thread.  The only call here that other threads may make. */
void ev_post(struct ev_loop *loop, ev_fn *fn, void *arg);

/* What owns itself and would outlive the loop: fn(arg) runs in ev_loop_free() unless list_unlink(&l->node) came first.
 * Embedded in its object. */
struct ev_leaver { struct list node; ev_fn *fn; void *arg; };
void ev_at_free(struct ev_loop *loop, struct ev_leaver *l, ev_fn *fn, void *arg);

/* Timers: embedded in their owner, idempotent stop. */
struct ev_timer;
struct ev_timer *ev_timer_new(struct ev_loop *loop, ev_fn *fn, void *arg);
void ev_timer_start(struct ev_timer *t, uint64_t delay_us);         /* one shot; restarts when armed */
void ev_timer_stop(struct ev_timer *t);
bool ev_timer_armed(const struct ev_timer *t);
void ev_timer_free(struct ev_timer **t);

/* Descriptors: level-triggered, persistent.  fn(arg, readable, writable). */
struct ev_io;
typedef void ev_io_fn(void *arg, bool readable, bool writable);
struct ev_io *ev_io_new(struct ev_loop *loop, int fd, ev_io_fn *fn, void *arg);   /* fd borrowed */
void ev_io_want(struct ev_io *io, bool read, bool write);
/* What there is to read comes behind all else: at most EV_BEHIND_MAX such descriptors in a turn, in the order in which
 * they were ready, so that thousands of them keep nobody waiting.  Counted by ev_behind_waited. */
#define EV_BEHIND_MAX 16
void ev_io_behind(struct ev_io *io, bool behind);
void ev_io_free(struct ev_io **io);

/* Signals: one callback for HUP, INT, TERM, USR1. */
typedef void ev_signal_fn(void *arg, int signo);
struct ev_signal;
struct ev_signal *ev_signal_new(struct ev_loop *loop, int signo, ev_signal_fn *fn, void *arg);
void ev_signal_free(struct ev_signal **s);

/* body(arg) on a pool thread, then done(arg) on the loop thread.  Each lane has its own threads and its own queue: what
 * reads much cannot starve what signs, what tells how the server is, what folds, what seals,
 * or what carries copies outside.  ERR_BUSY when the lane's queue is full. */
enum ev_lane { EV_LANE_READ, EV_LANE_SIGN, EV_LANE_OPS, EV_LANE_FOLD, EV_LANE_SEAL, EV_LANE_SINK, EV_LANES };
#define EV_LANE_THREADS 2
#define EV_LANE_QUEUE_MAX 256
int ev_work(struct ev_loop *loop, enum ev_lane lane, ev_fn *body, ev_fn *done, void *arg) MUST_CHECK;
/* How many jobs wait for a thread of the lane, and its name.  Any thread. */
size_t ev_lane_waiting(struct ev_loop *loop, enum ev_lane lane);
const char *ev_lane_name(enum ev_lane lane);

#endif
