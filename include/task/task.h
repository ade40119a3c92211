#ifndef TASK_TASK_H
#define TASK_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "keys/keyfile.h"
#include "writer/writer.h"

/* Tasks: calls whose callers have stopped waiting (decision 0103).  A task is a row of the store, changed with the
 * record that says why in one item of the writer (writer_change()), and an entry of an index in memory that says what
 * the newest durable row says.  What a call would have answered is sealed in its row with the payload key of its
 * caller and month (keys/keys.h): who destroys that has destroyed it.
 *
 * Whoever runs the call (src/call) makes a task of it, ends it, and is told when somebody cancels it; whoever asks for
 * it (src/mcp) finds it by tenant, principal and id.  Nothing here says who may.
 *
 * Loop thread. */

struct db;
struct ev_loop;
struct tasks;

#define TASK_ID_LEN 22                  /* base62: 131 random bits (TK-04) */
#define TASK_CUT_TEXT "The server stopped while the task ran; whether its work was done is not known"
#define TASK_CANCEL_TEXT "the call was cancelled"
#define TASK_LATE_TEXT "Its time is over"
#define TASK_NOTE_MAX 200               /* bytes of a statusMessage (TK-06) */

/* TK-13: what is open or kept; at the limit a call is none. */
#define TASKS_MAX 200000                /* of the process */
#define TASKS_TENANT_MAX 10000          /* open ones of a tenant */
#define TASKS_PRINCIPAL_MAX 1000        /* open ones of a principal */
#define TASKS_BYTES_MAX (UINT64_C(1) << 30)     /* sealed bytes of a tenant */
#define TASK_SMALL 4096                 /* bytes of an answer that are kept beyond it all the same */
#define TASKS_EXPIRE_BATCH 256          /* rows of one transaction */
#define TASKS_KEPT_MS 600000            /* after its end, at least (TK-12) */

#define TASK_ROUNDS_MAX 32              /* in which it asks */
#define TASK_RERUNS_MAX 3               /* runs that a crash cut off and that are made again (TK-35), of a task */
#define TASK_WAITERS_MAX 256            /* for changes of tasks that are on their way, of all of them */

/* Numbers of the store and of records.  INPUT, HELD and QUEUED are parked: nothing runs, and the row has all that
 * another round needs.  INPUT waits for answers, HELD for a person, QUEUED for a round of its own.  FAR runs, but only
 * follows what is done elsewhere, and its row has what another round needs too: one that is cut off becomes QUEUED. */
enum task_state {
	TASK_WORKING = 1, TASK_INPUT, TASK_COMPLETED, TASK_FAILED, TASK_CANCELLED, TASK_HELD, TASK_QUEUED, TASK_FAR
};
const char *task_status(enum task_state state);        /* as the protocol has it */
static inline bool task_is_over(enum task_state state)
{
	return state >= TASK_COMPLETED && state <= TASK_CANCELLED;
}

static inline bool task_is_parked(enum task_state state)
{
	return state == TASK_INPUT || state == TASK_HELD || state == TASK_QUEUED;
}

/* What tasks of one caller and tool have in common. */
struct task_kin {
	int64_t principal_id;
	const char *prn, *tool, *name;  /* pseudonym; full name; as its tenant saw it */
	const char *cred;               /* accessor of the key that made it, or NULL */
	size_t refs, size;              /* index.c: how many it has, and of how many bytes its texts are */
};

/* TASKS_MAX of these may be there, most of them parked: whoever makes it larger runs make bench-tasks. */
struct task {                           /* borrowed until the loop turns, or while it is held or runs */
	struct list queued;             /* tasks_next(), while it is QUEUED */
	char id[TASK_ID_LEN + 1];
	enum task_state state : 8;
	uint8_t call[16];               /* of its newest call */
	unsigned round : 16;            /* how often it has asked */
	bool held : 1;                  /* a change of it is on its way (task_hold()) */
	bool rests : 1;                 /* HELD: nothing has come since it was looked at (task_look()) */
	uint32_t poll_ms;
	struct task_kin *of;
	int64_t tenant_id;
	uint64_t created_us, updated_us, ends_us;       /* wall clock; ends: when it is over, or goes */
	uint32_t bytes;                 /* sealed */
	char *note;                     /* or NULL */
	void (*stop)(void *run);        /* cancel what runs; NULL: nothing does */
	union {
		void *run;
		int64_t told;           /* of one that is over: credential that was told so last (TK-51); 0: none was */
	};
};

/* While somebody holds a task nobody else changes it.  hold: false, it is held.  unhold: those who wait are called, in
 * their order, until one holds it.  wait: fn follows, not before the return, also when the task is gone then; ERR_BUSY:
 * too many wait. */
static inline bool task_hold(struct task *t)
{
	const bool was = t->held;

	t->held = true;
	return !was;
}
void task_unhold(struct tasks *tasks, struct task *t);
int task_wait(struct tasks *tasks, struct task *t, void (*fn)(void *arg), void *arg) MUST_CHECK;

struct task_env {
	struct ev_loop *loop;
	struct writer *writer;
	struct keyfile_place place; struct db *db;      /* borrowed; db: by the open, or NULL */
	size_t max;                     /* tasks of the process; 0: TASKS_MAX */
	uint64_t bytes;                 /* sealed ones of a tenant; 0: TASKS_BYTES_MAX */
};
/* Reads the index; nothing that ran is working any more (task_recover()). */
int tasks_open(const struct task_env *env, struct tasks **ret, struct err *err) MUST_CHECK;
/* fn: the status of one is another, and durable, never from inside a call of these; or, from inside of task_says(), it
 * says something else of itself. */
typedef void task_changed_fn(void *arg, struct task *t, bool status);
void tasks_on_change(struct tasks *tasks, task_changed_fn *fn, void *arg);
/* Nothing runs any more; what still waits for the writer or a reader is not called back. */
void tasks_close(struct tasks **tasks);
/* Writer's guard, in the transaction of its start: those that ran have failed, or wait for another
 * run of the TASK_RERUNS_MAX that they may have, and a record of each says so (TK-35).
 * What was kept of their answer, nothing, is said by task_result(). */
int task_recover(struct db *db, struct audit_logs *logs, struct err *err) MUST_CHECK;

struct task_new {                       /* texts are copied */
	int64_t tenant_id, principal_id;
	const char *prn, *cred, *tool, *name;   /* cred NULL: none */
	const uint8_t *tdef, *call;     /* 32 and 16 bytes */
	uint64_t ttl_ms;
	uint32_t poll_ms;
	enum task_state state;          /* WORKING, FAR, or parked from the beginning */
	const char *note;               /* of one that is parked, or NULL */
	const char *body; size_t len;   /* what another round needs; NULL: there is none without a question */
	bool rerun;                     /* a run of it that a crash cuts off is made again, with its body */
	const struct writer_rows *also; /* as in struct task_move */
	const void *bytes; size_t nbytes;
	void (*stop)(void *run);
	void *run;
};
/* rc below 0: there is none, nor a record.  Once, not before the return. */
typedef void task_made_fn(void *arg, int rc, struct task *t);
bool task_room(struct tasks *tasks, int64_t tenant_id, int64_t principal_id);   /* for one more; counts when not */
/* ev: task.create, and what else there is to say, to which the id is added.  ERR_LIMIT, ERR_AUDIT: it is not tried. */
int task_create(struct tasks *tasks, const struct task_new *task, const struct audit_event *ev, size_t n,
		task_made_fn *done, void *arg) MUST_CHECK;

/* The run has ended: its record, ev (call.end), and the row are one item; one that is parked ends by task.end, behind
 * what led to it.  The last of the n events says that it has ended.  text: what the caller would have been
 * answered, copied.  done: as of writer_change(); below 0, it is working until the next start.  The task is nobody's
 * run from here on.  ERR_LIMIT: the tenant has too much kept to keep a text of more than TASK_SMALL, and nothing was
 * done: it has to end with less. */
struct task_answer {
	enum task_state state;
	const char *note;               /* or NULL */
	const char *text; size_t len;
};
int task_end(struct tasks *tasks, struct task *t, const struct audit_event *ev, size_t n, const struct task_answer *a,
	     writer_audit_fn *done, void *arg) MUST_CHECK;

/* To another state that is no end, in one item with events (at most WRITER_CHANGE_EVENTS, all of its tenant), which get
 * the id: it is parked, has got answers, or a round of it begins.  A run that it is parked by is not its run from here
 * on; the one that begins is when that is durable.  done as of writer_change(); ERR_CONFLICT: it has ended meanwhile.
 * ERR_LIMIT: what is kept of its tenant is too much, and nothing was done. */
struct task_move {
	enum task_state state;
	unsigned round;
	const char *note;               /* or NULL */
	const uint8_t *call;            /* the newest, or NULL: as it was */
	const char *body; size_t len;   /* what another round needs, copied and sealed; NULL: as it was */
	/* More rows, in the same item: writer thread, behind the task's.  NULL: none. */
	const struct writer_rows *also;
	const void *bytes; size_t nbytes;
};
int task_move(struct tasks *tasks, struct task *t, const struct audit_event *ev, size_t n, const struct task_move *m,
	      writer_audit_fn *done, void *arg) MUST_CHECK;
/* One that is HELD is to be looked at, as all are at a start: it waits for a round meanwhile; or is not any more. */
void task_look(struct tasks *tasks, struct task *t, bool due);
/* What waits for a round: the first, which becomes the last; NULL: none.  count: how many. */
struct task *tasks_next(struct tasks *tasks);
size_t tasks_queued(const struct tasks *tasks);
typedef void task_each_fn(void *arg, struct task *t);
void tasks_each(struct tasks *tasks, task_each_fn *fn, void *arg);      /* fn may change it, as ever by the writer */

/* NULL: unknown, of somebody else, expired. */
struct task *task_find(struct tasks *tasks, int64_t tenant_id, int64_t principal_id, const char *id, size_t len);
/* Of any principal of any tenant: for administrators. */
struct task *task_by_id(struct tasks *tasks, const char *id);
/* What it says of itself meanwhile; cut and cleaned. */
void task_note(struct task *t, const char *note);
/* The same of one that runs, and who listens is told. */
void task_says(struct tasks *tasks, struct task *t, const char *note);

/* ev: task.cancel, to which the id is added.  The run is stopped when that is durable; one that is parked ends with it.
 * done then, or with ERR_AUDIT.  One that has ended: 1, and nothing happens. */
typedef void task_done_fn(void *arg, int rc);
int task_cancel(struct tasks *tasks, struct task *t, const struct audit_event *ev, task_done_fn *done,
		void *arg) MUST_CHECK;

/* What one that has ended would have answered: rc 0 with text, NULL: its run was cut off.  ERR_NOT_FOUND: its key was
 * destroyed, or its row is not as it was written: it is gone.  ERR_BUSY: too many read.  Once, not before the
 * return. */
typedef void task_result_fn(void *arg, int rc, const char *text, size_t len);
int task_result(struct tasks *tasks, struct task *t, task_result_fn *done, void *arg) MUST_CHECK;
/* The body of one that is parked; the same. */
int task_body(struct tasks *tasks, struct task *t, task_result_fn *done, void *arg) MUST_CHECK;

#endif
