#ifndef WRITER_WRITER_INT_H
#define WRITER_WRITER_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/map.h"
#include "base/mem.h"
#include "db/db.h"
#include "keys/vault.h"
#include "writer/writer.h"

/* Inside of src/writer.  The loop thread owns an item, lends it to the queue and so to the writer thread,
 * and gets it back by the done list; who may touch which field stands beside it. */

struct ev_timer;
struct map;

enum {
	RETRY_MS = 100,                 /* between two tries of a store that cannot be written */
	CLOSE_GRACE_MS = 500,           /* for the last try and the stop record, above the deadline of a close */
	CLOCK_STEP_US = 1000000,        /* how far a clock may be behind the last record and was not set back */
	SPACE_AGE_US = 100000,          /* how old a look at the free space may be */
	SPACE_WATCH_MS = 2000,
	CHECKPOINT_PAGES = 1000,        /* AUDIT A-624 */
	SHARED_TRIES = 6,               /* of a transaction when other nodes are faster */
	HEADS_EVERY = 16384,            /* records that a start may find behind the heads, and those of a log of SQLite's */
};

struct witem {
	struct list in_queue;           /* under the lock: in a tenant's queue */
	struct list waiting;            /* loop: in writer.waiting, oldest first; on its own when nobody waits */
	struct witem *next;             /* batch, done list */
	int64_t lane;                   /* tenant, or LANE_JOBS */
	uint64_t due_us;                /* loop */
	bool is_job, is_begin;          /* constant */
	bool is_notice;                 /* constant: an event nobody waits for, but the end of a call */
	bool must_stay;                 /* constant: the end of a call, or an event nobody waits for */
	bool taken;                     /* under the lock */
	bool refused;                   /* loop: its submitter has been told that it failed */
	bool held;                      /* loop: it has waited for what another node has changed */
	int rc;                         /* writer, then loop */
};
#define LANE_JOBS INT64_MIN

struct wevent {
	struct witem item;
	writer_audit_fn *done;
	void *arg;
	struct audit_receipt receipt;
	struct wchange *change;         /* what is done beside it, in the same savepoint; NULL: nothing */
	size_t size;                    /* of the block */
	struct audit_event ev;          /* texts stand behind it in the same block */
};

/* writer_change(): the first event's item carries the rest. */
struct wchange {
	const struct writer_rows *rows;
	struct wevent *more[WRITER_CHANGE_EVENTS - 1];  /* NULL behind the last */
	size_t len;
	uint8_t bytes[];
};

struct wjob {
	struct witem item;
	struct writer_job job;
	void *arg;
	struct err err;
};

/* --- batch.c */

/* All that is shared between the two threads, but the atomics. */
struct wqueue;
struct wqueue *wqueue_new(size_t max);
void wqueue_free(struct wqueue **q);
/* Loop thread.  False: full (an item that must stay is always let in). */
bool wqueue_push(struct wqueue *q, struct witem *item);
/* Loop thread: what has been pushed so far may be taken.  Once a turn, after its last push. */
void wqueue_show(struct wqueue *q);
bool wqueue_is_full(struct wqueue *q);
/* Loop thread: take an item out again; false when the writer has it already. */
bool wqueue_withdraw(struct wqueue *q, struct witem *item);
void wqueue_close(struct wqueue *q);
/* Loop thread: what has been finished; NULL when nothing was. */
struct witem *wqueue_finished(struct wqueue *q);
/* Loop thread: wait for wqueue_exit(); false when the time has passed, and then nothing is posted any more. */
bool wqueue_wait_exit(struct wqueue *q, uint32_t timeout_ms);

/* What a posted completion holds, and a turn's end: the writer may be gone when it arrives. */
struct wcourier {
	struct writer *w;               /* loop; NULL: it is gone */
	void (*arrived)(void *courier); /* constant; what is posted: the loop takes what has been finished */
	atomic_uint pending;            /* what has not arrived */
};

/* The last look at the free space. */
struct wspace {
	uint64_t free_bytes, at_us;     /* at_us 0: none yet */
	struct ev_timer *watch;
	unsigned room;                  /* enum writer_room, as it was recorded last (AUDIT A-213) */
};

/* What a start finds of the store's files, for its record. */
struct wbegin {
	struct keys_begin keys;
	struct db_before before;        /* with went_forward: from which schema, and the copy of it */
	bool went_forward;              /* steps were done, and no start has said so yet */
	bool put_back;                  /* toolcrib.db is a copy that db_backup() made, and no start has said so yet */
};

/* Transactions that failed since the last one that did not; count 0: none. */
struct wfails {
	uint64_t count, first_us, last_us;      /* wall clock */
	char why[sizeof ((struct err *)0)->msg];
};

/* Who is told when records have become durable, and when the writer is closed: before its queue is.  Loop thread. */
struct wfollower {
	void (*arrived)(struct wfollower *f);
	void (*close)(struct wfollower *f);
};

/* One of several that share the store; NULL in struct writer: it is ours. */
struct wnode {
	char name[WRITER_NODE_SIZE];
	char before[40];                /* the process before that has not stopped, "": it has; since when its calls run */
	int64_t before_us;
	/* writer thread */
	int64_t id, epoch, batch;       /* batch: of the last transaction that was sent */
	int64_t version, next;          /* of what is no record, as committed; as this transaction found it */
	bool own;                       /* this transaction has raised it */
	bool entered;                   /* its items are run */
	int64_t months_us;
	bool took, buried;              /* this beat's transaction has made it the keeper; has closed calls of another one */
	bool leaves;                    /* an administrator wants it to stop */
	struct { int64_t id, beat_us; uint64_t seen_us; } suspect;      /* seems to be dead, since when by our clock */
	atomic_llong foreign;           /* the last one that another node made, as far as is known */
	atomic_llong signed_us;         /* when the keeper began the round that it had signed last; not kept by who is it */
	atomic_bool keeper, grew;       /* it keeps the store; then: others have appended */
	atomic_bool drains;             /* leaves, as committed */
	/* loop */
	int64_t applied;                /* shown here */
	bool looking, beating;
	struct list waiting;            /* begins that are durable, until that is so */
	struct ev_timer *beat;
	void (*on_change)(void *arg, int64_t version);
	void *on_change_arg;
	void (*on_keeper)(void *arg);
	void *on_keeper_arg;
	void (*on_inherit)(void *arg);
	void *on_inherit_arg;
	/* share.c's, NULL before it has started: does a begin wait; something may have been changed; let all go on */
	bool (*holds)(const struct writer *w);
	void (*look)(struct writer *w), (*release)(struct writer *w);
	void (*finish)(struct writer *w, struct witem *it, bool late); /* writer.c's: one that has waited */
};

struct writer {
	struct ev_loop *loop;
	struct writer_limits limits;
	struct wqueue *queue;
	struct wcourier *courier;
	pthread_t thread;
	char *store;
	/* writer thread, before its start and after its end the loop's */
	struct db *db;
	struct audit_logs *logs;
	struct witem *kept;             /* must stay, and the disk was full */
	struct wfails fails;
	bool singly;                    /* rows that were inserted together failed: the next time one has its own error */
	int64_t headed;                 /* rec.id of the newest record as the heads were due last */
	struct writer_guard guard;
	struct wbegin begin;
	/* both */
	atomic_int failed;              /* ERR_IO, ERR_CORRUPT: stopped for good */
	_Atomic(const char *) refused;  /* why the last transaction failed, static; NULL = it went well */
	atomic_uint rested;             /* how often what was left was given back */
	atomic_ullong turned_us;        /* when the last one came back, however it went */
	atomic_bool tried;              /* one went well that nobody waited for */
	_Atomic enum clock_sync clock;  /* what records say of it */
	_Atomic int64_t newest;         /* rec.id of the newest record that is durable */
	atomic_ullong close_by_us;      /* when to give up what is kept; 0 = not closing */
	/* loop */
	struct list waiting;
	struct mem_spares spares;       /* of events */
	struct ev_timer *deadline;
	writer_late_fn *late;
	void *late_arg;
	void (*on_records)(void *arg);
	void *on_records_arg;
	const char *held, *sink_held, *fold_held;       /* why; NULL = not held */
	struct wfollower *follower, *sealer;    /* NULL: nothing is folded; is sealed */
	bool showing;                   /* at the end of this turn */
	bool stalled, closing;          /* stalled: a commit has not returned in time */
	const char *patient;            /* name of the last job that may take long; NULL: none is on its way */
	unsigned npatient;              /* of those */
	uint64_t booked;
	size_t notices;                 /* that have not come back; at most limits.queue_max */
	struct wspace *space;
	struct wrelay *relay;           /* NULL: the store is ours */
	struct wnode *node;             /* NULL: nobody shares it */
};

/* --- node.c; what each is for stands there */
int wnode_open(struct writer *w, struct err *err) MUST_CHECK;
int wnode_begin(struct writer *w, size_t *ret_recovered, struct err *err) MUST_CHECK;
/* The first of a transaction: over these items, of which a job is alone. */
int wnode_enter(struct writer *w, struct witem *first, struct err *err) MUST_CHECK;
/* Whether one that failed with ERR_BUSY, so many times, is begun again: a job only when it has not run. */
bool wnode_again(const struct writer *w, const struct witem *first, int tries);
int wnode_move(struct writer *w, bool changes, struct err *err) MUST_CHECK;    /* the last of a transaction */
void wnode_moved(struct writer *w);                     /* it is durable */
int wnode_resolve(struct writer *w, bool (*give_up)(struct writer *w), struct err *err) MUST_CHECK;
int wnode_stop(struct writer *w, struct err *err) MUST_CHECK;
void wnode_unkeep(struct writer *w);                    /* behind the last checkpoint: another one may be the keeper */
int wnode_beat(void *arg, struct db *db, struct audit_logs *logs, struct err *err) MUST_CHECK;    /* of a writer_job */
void wnode_free(struct writer *w);

/* --- relay.c */

struct wrelay_waiting { uint64_t number; writer_audit_fn *done; void *arg; };
struct wrelay {
	struct writer_relay to;
	struct map *waiting;            /* struct wrelay_waiting by number */
	uint64_t last;
	bool broken;
};
int wrelay_audit(struct wrelay *r, const struct audit_event *ev, writer_audit_fn *done, void *arg) MUST_CHECK;
/* The other side: what they say, for fn() alone; its result, or ERR_INVALID. */
typedef int wrelay_event_fn(void *arg, const struct audit_event *ev);
int wrelay_event(const void *p, size_t len, wrelay_event_fn *fn, void *arg) MUST_CHECK;

void *writer_main(void *arg);           /* the writer thread */
/* server.crash, call.recovered, server.start: one transaction, before the thread begins. */
int writer_write_start(struct writer *w, const char *mode, size_t *ret_recovered, struct err *err) MUST_CHECK;

#endif
