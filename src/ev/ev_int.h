#ifndef EV_INT_H
#define EV_INT_H

#include "base/map.h"
#include "ev/child.h"
#include "ev/again.h"
#include "ev/ev.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the files of src/ev share.  One turn of the loop: timers that are due, what is deferred, a wait
 * in libevent, the callbacks; what a callback defers runs as soon as it has returned. */

struct event_base;

struct ev_job {
	ev_fn *fn;
	void *arg;
};

struct ev_queue {               /* first in, first out; grows, never shrinks */
	struct ev_job *v;
	size_t len, cap;
};

struct ev_timers {
	struct ev_timer **heap; /* the timer that is due first is heap[0] */
	size_t len, cap;
	int fd;                 /* one timerfd for all */
	uint64_t armed_us;      /* when fd fires; 0 = not armed */
	struct ev_io *io;
};

struct ev_post {
	pthread_mutex_t lock;   /* guards queue; nothing is called while it is held */
	struct ev_queue queue;
	struct ev_queue taken;  /* the loop thread works through this one */
	int fd;                 /* one eventfd; written when the queue becomes non-empty */
	struct ev_io *io;
};

struct ev_pool {                /* one lane */
	struct ev_loop *loop;
	pthread_mutex_t lock;   /* guards all below */
	pthread_cond_t wake;
	struct list queue;
	size_t waiting;
	bool stop;
	unsigned nthreads;      /* 0 until the first job */
	pthread_t threads[EV_LANE_THREADS];
};

struct ev_nursery {             /* what the launcher has started for us (launch.c) */
	struct launcher *launcher;      /* NULL before the first start, and when it is gone */
	struct ev_io *io;
	struct map *started;            /* id -> struct started */
	struct list children;           /* of child.c */
	struct ev_child_bounds bounds;
	uint64_t bytes;                 /* of all their own directories; a sum is made only where it may matter */
	bool gone;
	void (*end)(struct ev_loop *loop);      /* of the launcher; NULL before the first start */
	void (*kill_all)(struct ev_loop *loop);         /* of child.c; NULL before its first start */
};

struct ev_loop {
	struct event_base *base;
	pthread_t thread;
	uint64_t now_us;        /* 0 = not asked for in this turn */
	bool running, stop, deferring;
	struct ev_queue deferred, late;
	struct ev_timers timers;
	struct ev_post post;
	struct ev_pool lanes[EV_LANES];
	struct ev_nursery nursery;
	struct list leavers;    /* struct ev_leaver */
	struct list behind;     /* struct ev_io.node: ready to be read, behind all else */
	void *pieces[EV_PIECES]; unsigned npieces;
};

void ev_assert_thread(const struct ev_loop *loop);

/* --- launch.c */

struct launcher_ask;
struct launcher_event;
typedef void ev_launch_fn(void *arg, const struct launcher_event *event);

/* Ask the launcher, which is started when there is none yet.  fn(arg) comes once, not before this has returned.
 * ERR_UNREACHABLE, ERR_LIMIT, ERR_IO. */
int ev_launch(struct ev_loop *loop, const struct launcher_ask *ask, ev_launch_fn *fn, void *arg, uint64_t *ret_id,
	      struct err *err) MUST_CHECK;
/* Wait, at most so long, until the event of *id has come, whose fn sets it to 0.  Events of others come meanwhile, or
 * wait for their turn. */
void ev_launch_await(struct ev_loop *loop, const uint64_t *id, bool others, uint32_t wait_ms);
/* As launcher_signal(); nothing when the launcher is gone. */
void ev_launch_signal(struct ev_loop *loop, uint64_t id, int signal);
/* No fn for this one any more. */
void ev_launch_forget(struct ev_loop *loop, uint64_t id);

#endif
