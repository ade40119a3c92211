/* The writer thread: what waits becomes one transaction (AUDIT A-214).  The queue, all that the two threads share
 * but the atomics, comes first; then what the thread makes of a batch.  It sees the queue, its connection and the
 * picture of the logs, never an object of the loop.  An event is one INSERT, atomic by itself, so only jobs pay
 * for a savepoint. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "audit/checkpoint.h"
#include "audit/recover.h"
#include "audit/fold.h"
#include "audit/rows.h"
#include "audit/shared.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/tally.h"
#include "base/text.h"
#include "db/db.h"
#include "ev/ev.h"
#include "forms/forms.h"

#include "writer_int.h"

/* --- the queue between the loop and the writer */

/* Bounded, one list per tenant, tenants in turn (AUDIT A-215).  Every lock of this module is here, and nothing is
 * called while one is held. */

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
	struct wqueue *q = mem_zalloc(sizeof(*q));

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
	lane = mem_alloc(sizeof(*lane));
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

/* Writer thread. */
static bool wqueue_is_closed(struct wqueue *q)
{
	bool closed;

	pthread_mutex_lock(&q->lock);
	closed = q->closed;
	pthread_mutex_unlock(&q->lock);
	return closed;
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

/* Writer thread: whether something is shown, or it is closed, within so long. */
static bool wqueue_comes(struct wqueue *q, uint32_t ms)
{
	struct timespec until = after_ms(ms);
	bool comes;

	pthread_mutex_lock(&q->lock);
	for (int late = 0; !q->shown && !q->closed && !late;) {
		q->idle = true;
		late = pthread_cond_timedwait(&q->more, &q->lock, &until);
	}
	q->idle = false;
	comes = q->shown || q->closed;
	pthread_mutex_unlock(&q->lock);
	return comes;
}

/* Writer thread: at most max items, tenants in turn.  With wait it waits until something is shown, and NULL means
 * closed and empty. */
static struct witem *wqueue_take(struct wqueue *q, size_t max, bool wait)
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

/* Writer thread: hand back a chain.  True: the loop has to be told. */
static bool wqueue_finish(struct wqueue *q, struct witem *first)
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

/* Writer thread; wqueue_close() meanwhile ends it early. */
static void wqueue_pause(struct wqueue *q, uint32_t ms)
{
	struct timespec until = after_ms(ms);
	bool was_closed;

	pthread_mutex_lock(&q->lock);
	was_closed = q->closed;
	for (int late = 0; q->closed == was_closed && !late;)
		late = pthread_cond_timedwait(&q->more, &q->lock, &until);
	pthread_mutex_unlock(&q->lock);
}

/* Writer thread: pause; wqueue_close() meanwhile ends it early. */
static void wqueue_exit(struct wqueue *q)
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

/* --- batches */

/* No later transaction can succeed; the rest may pass: a full disk, a lock. */
static bool is_final(int rc)
{
	return rc == ERR_IO || rc == ERR_CORRUPT;
}

static void stop_for_good(struct writer *w, int rc, const struct err *err)
{
	/* AUDIT A-216: nothing is flushed twice; the process above us ends and starts anew. */
	if (!atomic_exchange(&w->failed, rc))
		log_err(NULL, "the store failed and nothing is recorded any more error=%s where=%s", err->msg, err->where);
}

static void tell(struct writer *w)
{
	atomic_fetch_add(&w->courier->pending, 1);
	ev_post(w->loop, w->courier->arrived, w->courier);
}

static void post(struct writer *w, struct witem *first)
{
	if (wqueue_finish(w->queue, first))
		tell(w);
}

/* A command of somebody who looks at the store when this is durable. */
static bool looks_next(enum audit_kind kind)
{
	return kind >= AUDIT_ADMIN_CMD && kind <= AUDIT_AUDIT_REVIEW;
}

static int run_event(struct writer *w, struct wevent *e, struct err *err)
{
	int rc = audit_append(w->logs, w->db, &e->ev, &e->receipt, err);

	if (looks_next(e->ev.kind))
		audit_heads_due(w->logs);
	if (rc < 0 && rc != ERR_AUDIT && rc != ERR_IO && (rc != ERR_BUSY || !w->node))
		log_err(NULL, "an event could not be recorded kind=%d error=%s", (int)e->ev.kind, err->msg);
	return rc;
}

/* As many items as one: all of it, or nothing. */
static int run_change(struct writer *w, struct wevent *e, struct err *err)
{
	struct wchange *c = e->change;
	struct audit_mark mark = audit_logs_mark(w->logs);
	char row[40];
	int rc = db_item_begin(w->db, err);

	if (rc < 0)
		return rc;
	rc = audit_append(w->logs, w->db, &e->ev, &e->receipt, err);
	for (size_t i = 0; rc == 0 && i < NELEMS(c->more) && c->more[i]; i++)
		rc = audit_append(w->logs, w->db, &c->more[i]->ev, NULL, err);
	if (rc == 0)
		rc = c->rows->run(c->bytes, c->len, w->db, w->logs, err);
	if (rc >= 0) {          /* AUDIT A-206 */
		rc = audit_rows_pending(w->db, row, err);
		if (rc == 1)
			rc = err_set(err, ERR_INTERNAL, c->rows->name, "changed %s without a record of it", row);
	}
	if (rc < 0)
		audit_logs_rollback(w->logs, mark);
	rc = db_item_end(w->db, rc < 0 ? rc : 0, err);
	if (rc < 0 && rc != ERR_AUDIT && rc != ERR_IO && (rc != ERR_BUSY || !w->node))
		log_err(NULL, "a change was not made change=%s error=%s", c->rows->name, err->msg);
	return rc;
}

/* No row of the registry and no credential is written without a record that vouches for it (AUDIT A-206). */
static int check_rows(struct writer *w, struct wjob *j)
{
	char row[40];
	int rc = audit_rows_pending(w->db, row, &j->err);

	return rc == 1 ? err_set(&j->err, ERR_INTERNAL, j->job.name, "changed %s without a record of it", row) : rc;
}

static int run_job(struct writer *w, struct wjob *j)
{
	struct audit_mark mark = audit_logs_mark(w->logs);
	int rc = db_item_begin(w->db, &j->err);

	if (rc < 0)
		return rc;
	if (!j->job.volatile_only)      /* likewise a command */
		audit_heads_due(w->logs);
	rc = j->job.run(j->arg, w->db, w->logs, &j->err);
	if (rc >= 0 && !j->job.volatile_only && audit_logs_mark(w->logs).undo == mark.undo)     /* AUDIT A-206 */
		rc = err_set(&j->err, ERR_INTERNAL, j->job.name, "changed the store without a record");
	if (rc >= 0)
		rc = check_rows(w, j);
	if (rc < 0)
		audit_logs_rollback(w->logs, mark);
	return db_item_end(w->db, rc < 0 ? rc : 0, &j->err);
}

/* Rows of events wait; those of what has a savepoint do not, and go behind them. */
static int run_item(struct writer *w, struct witem *it, struct err *err)
{
	struct wevent *e = it->is_job ? NULL : CONTAINER_OF(it, struct wevent, item);
	struct wjob *j = it->is_job ? CONTAINER_OF(it, struct wjob, item) : NULL;
	int rc = e && !e->change ? 0 : audit_logs_insert(w->logs, w->db, err);

	audit_logs_gather(w->logs, e && !e->change && !w->singly);
	if (rc == 0 && e)
		rc = e->change ? run_change(w, e, err) : run_event(w, e, err);
	else if (rc == 0 && (rc = run_job(w, j)) < 0)
		*err = j->err;
	audit_logs_gather(w->logs, false);
	return rc;
}

/* One after the other; negative when the transaction as a whole has no future. */
static int run_items(struct writer *w, struct witem *first, struct err *err)
{
	for (struct witem *it = first; it; it = it->next) {
		if (it->is_job && CONTAINER_OF(it, struct wjob, item)->job.between)
			continue;
		it->rc = run_item(w, it, err);
		if (it->rc == ERR_AUDIT || it->rc == ERR_IO || audit_logs_is_lost(w->logs) || (it->rc < 0 && !db_txn_alive(w->db)) ||
		    (it->rc == ERR_BUSY && w->node && !it->is_job))
			return it->rc;
	}
	return audit_logs_insert(w->logs, w->db, err) < 0 ? err->code : audit_logs_flush_rows(w->logs, w->db, err);
}

#ifdef CRASH_POINTS
static void crash_around(struct witem *first, const char *begin, const char *end, const char *job, const char *task)
{
	for (struct witem *it = first; it; it = it->next) {
		int kind = it->is_job ? 0 : (int)CONTAINER_OF(it, struct wevent, item)->ev.kind;

		if (it->is_job)
			crash_at(job);
		else if (kind == AUDIT_CALL_BEGIN)
			crash_at(begin);
		else if (kind == AUDIT_CALL_END)
			crash_at(end);
		else if (kind == AUDIT_TASK_CREATE)
			crash_at(task);
	}
}
#else
#define crash_around(first, begin, end, job, task) ((void)0)
#endif

/* AUDIT 1610: what failed, how often, from when to when.  Its time is that of the last failure. */
static int write_fails(struct writer *w, struct err *err)
{
	const struct wfails *f = &w->fails;
	uint8_t count[8], times[16];
	const struct audit_field fields[] = { { AUDIT_TAG_COUNTS, count, sizeof(count) },
					      { AUDIT_TAG_TIMES, times, sizeof(times) } };
	struct audit_event ev;

	audit_put_be(count, f->count, 8);
	audit_put_be(times, f->first_us, 8);
	audit_put_be(times + 8, f->last_us, 8);
	audit_event_init(&ev, AUDIT_AUDIT_FAIL, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.time_us = f->last_us;
	ev.dur_us = f->last_us - f->first_us;
	ev.detail = f->why;
	ev.field = fields;
	ev.nfield = NELEMS(fields);
	return audit_append(w->logs, w->db, &ev, NULL, err);
}

static void note_failure(struct writer *w, const struct err *err)
{
	struct wfails *f = &w->fails;
	uint64_t now = clock_wall_us();

	if (f->count++ == 0)
		f->first_us = now;
	f->last_us = now > f->first_us ? now : f->first_us;
	(void)snprintf(f->why, sizeof(f->why), "%s", err->msg);
}

static bool past_close(struct writer *w)
{
	uint64_t by = atomic_load(&w->close_by_us);

	return by && clock_mono_us() >= by;
}

/* Between two tries. */
static bool gives_up(struct writer *w)
{
	wqueue_pause(w->queue, RETRY_MS);
	return past_close(w);
}

/* What other nodes have to look at: a job has changed more than records. */
static bool changes(struct witem *first)
{
	const struct wjob *j = first && first->is_job && first->rc == 0 ? CONTAINER_OF(first, struct wjob, item) : NULL;

	return j && !j->job.volatile_only && !j->job.between;
}

static int run_txn(struct writer *w, struct witem *first, bool save, struct err *err)
{
	struct audit_mark start = audit_logs_mark(w->logs);
	int rc = db_txn_begin(w->db, true, err);

	if (rc < 0)
		return rc;
	if (w->node)
		rc = wnode_enter(w, first, err);
	audit_logs_clock(w->logs, atomic_load(&w->clock));
	if (save && audit_newest_row(w->logs) - w->headed >= HEADS_EVERY) {
		audit_heads_due(w->logs);
		w->headed = audit_newest_row(w->logs);
	}
	if (rc == 0 && w->fails.count > 0)
		rc = write_fails(w, err);
	if (rc == 0)
		rc = run_items(w, first, err);
	if (rc == 0 && save)
		rc = audit_save_open_from(w->logs, w->db, err);
	if (rc == 0 && w->node)
		rc = wnode_move(w, changes(first), err);
	crash_around(first, "begin.before", "end.before", "admin.item", "task.before");
	w->singly = audit_logs_is_lost(w->logs);
	rc = db_txn_end(w->db, rc, err);
	if (rc == ERR_UNCERTAIN && w->node)
		rc = wnode_resolve(w, gives_up, err);
	if (rc < 0)
		audit_logs_rollback(w->logs, start);
	else
		audit_logs_commit(w->logs);
	if (rc == 0 && w->node)
		wnode_moved(w);
	return rc;
}

/* What a transaction would be in the way of. */
static void run_between(struct writer *w, struct witem *first)
{
	for (struct witem *it = first; it; it = it->next) {
		struct wjob *j = it->is_job ? CONTAINER_OF(it, struct wjob, item) : NULL;

		if (!j || !j->job.between)
			continue;
		it->rc = j->job.run(j->arg, w->db, w->logs, &j->err);
		if (is_final(it->rc))
			stop_for_good(w, it->rc, &j->err);
	}
}

/* Nothing of the batch has happened.  What must stay is kept for the next one, the rest is handed back. */
static struct witem *sort_failed(struct writer *w, struct witem *first, int rc, const struct err *err)
{
	struct witem *back = NULL, **back_tail = &back, **kept_tail = &w->kept;
	bool keep = !is_final(rc) && !past_close(w);

	while (*kept_tail)              /* of another part of the batch */
		kept_tail = &(*kept_tail)->next;
	for (struct witem *it = first, *next; it; it = next) {
		bool mine = it->rc < 0 && it->rc != rc;         /* its own error, which will not pass */

		next = it->next;
		it->next = NULL;
		if (keep && it->must_stay && !mine) {
			*kept_tail = it;
			kept_tail = &it->next;
			continue;
		}
		if (it->is_job && !mine)
			err_set(&CONTAINER_OF(it, struct wjob, item)->err, ERR_AUDIT, "", "nothing was changed: %s", err->msg);
		if (!mine)
			it->rc = ERR_AUDIT;
		*back_tail = it;
		back_tail = &it->next;
	}
	return back;
}

/* As health and status say it: of what passes.  ERR_AUDIT is also what a file is that was moved. */
static const char *reason_of(int rc, const struct err *err)
{
	static const char no_space[] = "no space is left on the disk of the store";     /* as db_fail() has it */

	return rc == ERR_BUSY ? "another program holds the store" :
		rc == ERR_AUDIT && strcmp(err->msg, no_space) == 0 ? no_space :
		"the store cannot be written, or its files are not where they were";
}

static void batch_failed(struct writer *w, struct witem *first, int rc, const struct err *err)
{
	static struct log_site site;

	metric_inc(METRIC_writer_failures);
	note_failure(w, err);
	if (is_final(rc))
		stop_for_good(w, rc, err);
	else if (log_allow(&site))
		log_err(NULL, "a transaction failed, calls are refused until one succeeds error=%s", err->msg);
	atomic_store(&w->refused, w->node ? "the database of the store takes no records" : reason_of(rc, err));
	post(w, sort_failed(w, first, rc, err));
	if (!is_final(rc) && !past_close(w))
		wqueue_pause(w->queue, RETRY_MS);
}

static void refuse_all(struct writer *w, struct witem *first)
{
	struct err err = { .code = ERR_AUDIT, .msg = "the store has failed before" };

	post(w, sort_failed(w, first, atomic_load(&w->failed), &err));
}

static size_t count(const struct witem *first)
{
	size_t n = 0;

	for (; first; first = first->next)
		n++;
	return n;
}

/* Where another node was faster, events come behind what it wrote: nobody has been told of them yet (CLUSTER K-101). */
static int try_txn(struct writer *w, struct witem *first, bool save, struct err *err)
{
	int rc = ERR_BUSY;

	for (int tries = 0; rc == ERR_BUSY && (tries == 0 || wnode_again(w, first, tries)); tries++) {
		for (struct witem *it = first; it; it = it->next)
			it->rc = 0;
		if (tries > 1)
			wqueue_pause(w->queue, 1u << tries);
		rc = run_txn(w, first, save, err);
	}
	return rc;
}

/* One transaction over the chain; hands back what is finished.  Writer thread. */
static void run_batch(struct writer *w, struct witem *first)
{
	bool save = db_wal_pages(w->db) >= CHECKPOINT_PAGES;
	struct err err = { 0 };
	uint64_t begun_us;
	int rc;

	begun_us = clock_mono_us();
	rc = try_txn(w, first, save, &err);
	atomic_store(&w->turned_us, clock_mono_us());
	tally_observe(tally_get(TALLY_COMMIT, TALLY_OTHER), clock_mono_us() - begun_us, NULL);
	if (rc < 0) {
		batch_failed(w, first, rc, &err);
		return;
	}
	crash_around(first, "begin.after", "end.after", "admin.commit", "task.after");
	atomic_store(&w->newest, audit_newest_row(w->logs));
	atomic_store(&w->refused, NULL);
	w->fails.count = 0;
	metric_inc(METRIC_writer_batches);
	metric_set(METRIC_store_wal_pages, db_wal_pages(w->db));
	metric_add(METRIC_writer_items, count(first));
	run_between(w, first);
	post(w, first);
	if (!first) {
		atomic_store(&w->tried, true);
		tell(w);
	}
	if (save && w->guard.checkpoint)
		w->guard.checkpoint(w->guard.checkpoint_arg);
	/* With a fresh open_from in it, the log is copied while the answers are on their way. */
	rc = save ? db_checkpoint(w->db, CHECKPOINT_PAGES, &err) : 0;
	if (save && rc == 0 && w->guard.checkpoint)     /* who has seen that all is in the file keeps no log */
		w->guard.checkpoint(w->guard.checkpoint_arg);
	if (is_final(rc))
		stop_for_good(w, rc, &err);
	else if (rc < 0)
		log_warn(NULL, "a checkpoint failed, the log grows error=%s", err.msg);
}

/* Where nodes share the store, a job is a transaction of its own: it is not run twice, and what it has seen and locked
 * is nobody else's. */
static void writer_run_batch(struct writer *w, struct witem *first)
{
	do {
		struct witem *last = first, *rest = NULL;

		while (w->node && last && !last->is_job && last->next && !last->next->is_job)
			last = last->next;
		if (w->node && last) {
			rest = last->next;
			last->next = NULL;
		}
		run_batch(w, first);
		first = rest;
	} while (first);
}

static int append_stop(struct writer *w, struct err *err)
{
	struct audit_mark mark = audit_logs_mark(w->logs);
	struct audit_event ev;
	int rc = 0;

	if (w->guard.stopping) {
		rc = db_item_begin(w->db, err);
		if (rc < 0)
			return rc;
		rc = w->guard.stopping(w->guard.arg, w->db, w->logs, err);
		if (rc < 0)
			audit_logs_rollback(w->logs, mark);
		(void)db_item_end(w->db, rc, err);
	}
	audit_event_init(&ev, AUDIT_SERVER_STOP, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	rc = audit_append(w->logs, w->db, &ev, NULL, err);
	if (rc == 0)
		rc = audit_logs_flush(w->logs, w->db, err);
	if (rc == 0 && w->node)
		rc = wnode_stop(w, err);
	return rc < 0 ? rc : audit_save_open_from(w->logs, w->db, err);
}

static void write_stop(struct writer *w)
{
	struct audit_mark mark = audit_logs_mark(w->logs);
	struct err err;
	int rc = db_txn_begin(w->db, true, &err);

	if (w->node)
		audit_shared_begin(w->logs, true);
	audit_logs_clock(w->logs, atomic_load(&w->clock));
	if (rc == 0)
		rc = db_txn_end(w->db, append_stop(w, &err), &err);
	if (rc < 0) {   /* the next start finds that this one did not stop, and says so */
		audit_logs_rollback(w->logs, mark);
		log_err(NULL, "the stop could not be recorded error=%s", err.msg);
		return;
	}
	audit_logs_commit(w->logs);
	if (w->guard.stopped)
		w->guard.stopped(w->guard.arg, w->db, w->logs);
	if (w->node)
		wnode_unkeep(w);
}

/* A store that could not be written is tried until it can be: the record of what failed is what there is to write. */
static bool tries(const struct writer *w)
{
	return w->fails.count > 0 && !atomic_load(&w->failed);
}

/* What a burst has left goes back to the system (SPEED SP-502): pages of the store, and what all threads have freed. */
static void rest(struct writer *w)
{
	db_give_back(w->db);
	mem_give_back();
	atomic_fetch_add(&w->rested, 1);
}

unsigned writer_rested(const struct writer *w)
{
	return atomic_load(&w->rested);
}

void *writer_main(void *arg)
{
	struct writer *w = arg;

	id_random_pool();
	for (;;) {
		const bool wait = !w->kept && !tries(w);
		struct witem *first, **tail = &w->kept;

		if (wait && !wqueue_comes(w->queue, w->limits.rest_ms))
			rest(w);
		first = wqueue_take(w->queue, w->limits.batch_max, wait);
		while (*tail)
			tail = &(*tail)->next;
		*tail = first;
		first = w->kept;
		w->kept = NULL;
		if (!first && (!tries(w) || wqueue_is_closed(w->queue)))
			break;
		if (atomic_load(&w->failed))
			refuse_all(w, first);
		else
			writer_run_batch(w, first);
	}
	if (!atomic_load(&w->failed))
		write_stop(w);
	audit_logs_close(&w->logs);
	db_close(&w->db);
	wqueue_exit(w->queue);
	return NULL;
}

#define DAY_US UINT64_C(86400000000)
#define CLOCK_GAP_US (90 * DAY_US)      /* between two starts; more is a clock that leapt, or a store from the attic */

/* The clock was set back while nobody was there to see it (AUDIT 1605). */
static int write_clock_step(struct writer *w, uint64_t last_us, struct err *err)
{
	uint64_t now = clock_wall_us();
	struct audit_event ev;
	char text[64];

	if (last_us && now > last_us && now - last_us > CLOCK_GAP_US)
		log_warn(NULL, "the last record is old: is the clock right? days=%llu",
			 (unsigned long long)((now - last_us) / DAY_US));
	if (last_us <= now + CLOCK_STEP_US)
		return 0;
	log_warn(NULL, "the clock is behind the last record by_ms=%llu", (unsigned long long)(last_us - now) / 1000);
	(void)snprintf(text, sizeof(text), "-%llu ms or more since the last record",
		       (unsigned long long)(last_us - now) / 1000);
	audit_event_init(&ev, AUDIT_CLOCK_STEP, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.detail = text;
	return audit_append(w->logs, w->db, &ev, NULL, err);
}

static int find_size(void *arg, const struct audit_log_view *log, struct err *err)
{
	(void)err;
	if (log->tenant_id == 0)
		*(int64_t *)arg = log->size;
	return 0;
}

/* Whoever puts the copy back can tell by the record that it is the one. */
static void describe_before(const struct db_before *b, struct str *ret)
{
	char hex[2 * DIGEST_SIZE + 1];

	str_printf(ret, ", schema %d -> %d", b->from, b->to);
	if (!*b->name) {
		str_puts(ret, " without a copy of before");
		return;
	}
	text_hex(b->digest, sizeof(b->digest), hex);
	str_printf(ret, ", copy of before %s sha256:%s", b->name, hex);
}

static int describe_start(struct writer *w, const char *mode, struct str *ret, struct err *err)
{
	const struct wbegin *b = &w->begin;
	int64_t size = 0;
	int rc = b->put_back ? audit_logs_each(w->logs, find_size, &size, err) : 0;

	str_puts(ret, mode);
	if (w->node)
		str_printf(ret, ", node=%s", w->node->name);
	if (rc == 0 && b->put_back) {
		str_printf(ret, ", put back from a copy that ends at system:%" PRId64, size - 1);
		log_warn(NULL, "the store was put back from a copy, what came behind it is not there any more last=system:%" PRId64,
			 size - 1);
	}
	if (b->went_forward)
		describe_before(&b->before, ret);
	if (b->keys.by) {       /* a new store has nothing to tell by */
		str_printf(ret, ", master.key taken down by the %s under it", b->keys.by);
		log_info(NULL, "the store knows its master.key from now on key=%s by=\"the %s under it\"", b->keys.master,
			 b->keys.by);
	}
	if (b->keys.lost) {
		str_printf(ret, ", keys.db is lost: payload keys up to %" PRId64 " may not open", b->keys.dek);
		log_warn(NULL, "payload keys are given up, what is kept of calls of before may not open keys=%" PRId64, b->keys.dek);
	}
	return rc;
}

static int note_start(struct writer *w, struct err *err)
{
	struct db_stmt *st;
	int rc = keys_begun(w->db, &w->begin.keys, err);

	if (rc == 0 && w->begin.went_forward)
		rc = db_before_forget(w->db, err);
	if (rc < 0 || !w->begin.put_back)
		return rc;
	st = db_stmt_get(w->db, SQL_META_DELETE_VALUE);
	db_bind_textz(st, 1, DB_META_PUT_BACK);
	return db_run(&st, err);
}

static int make_lean(struct writer *w, struct err *err)
{
	bool made = false;
	int rc = forms_make_lean(w->db, &made, err);

	if (made)
		log_info(NULL, "records are in blocks now, the indexes of their rows were dropped");
	return rc;
}

/* tails: of logs that go beyond what was signed (AUDIT A-722); they stand in the first record that is written. */
static int write_start(struct writer *w, const char *what, const struct audit_field *tails, size_t *ret_recovered,
		       struct err *err)
{
	struct audit_field said[2];
	uint8_t since[8];
	struct audit_event ev;
	bool listed = tails->p == NULL;
	uint64_t last_us = 0;
	int last = 0, rc = 0;

	if (audit_last_kind(w->logs, w->db, 0, &last, &last_us, NULL) == ERR_NOT_FOUND)
		rc = audit_log_create(w->logs, w->db, 0, NULL, err);
	else if (w->node ? *w->node->before != '\0' : last != AUDIT_SERVER_STOP && last != AUDIT_LOG_OPEN) {
		audit_event_init(&ev, AUDIT_SERVER_CRASH, 0);
		ev.actor = AUDIT_BY_SYSTEM;
		ev.field = tails;
		ev.nfield = !listed;
		listed = true;
		rc = audit_append(w->logs, w->db, &ev, NULL, err);
	}
	if (rc == 0)
		rc = write_clock_step(w, last_us, err);
	if (rc == 0)
		rc = w->node ? wnode_begin(w, ret_recovered, err)
			: audit_recover(w->logs, w->db, w->guard.elsewhere, false, ret_recovered, err);
	if (rc == 0 && w->guard.recover)
		rc = w->guard.recover(w->db, w->logs, err);
	if (rc < 0)
		return rc;
	if (w->guard.quarantine)
		rc = audit_quarantine(w->logs, w->db, w->guard.quarantine, w->guard.quarantined_by, err);
	if (rc < 0)
		return rc;
	audit_event_init(&ev, AUDIT_SERVER_START, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.detail = what;
	ev.field = said;
	if (w->guard.elsewhere) {       /* they have no end here, and are none that is missing */
		audit_put_be(since, w->guard.elsewhere_us, sizeof(since));
		said[ev.nfield++] = (struct audit_field){ AUDIT_TAG_TIMES, since, sizeof(since) };
	}
	if (!listed)
		said[ev.nfield++] = *tails;
	rc = audit_append_start(w->logs, w->db, &ev, err);
	if (rc == 0 && w->guard.begun)
		rc = w->guard.begun(w->guard.arg, w->db, w->logs, err);
	if (rc == 0)
		rc = note_start(w, err);
	if (rc == 0)
		rc = make_lean(w, err);
	if (rc == 0)
		rc = audit_logs_flush(w->logs, w->db, err);
	return rc < 0 ? rc : audit_save_open_from(w->logs, w->db, err);
}

int writer_write_start(struct writer *w, const char *mode, size_t *ret_recovered, struct err *err)
{
	struct audit_field tails = { AUDIT_TAG_TAILS, NULL, 0 };
	uint8_t *bytes = NULL;
	struct str what = STR_INIT;
	int rc = !w->guard.before ? 0 : writer_keeps(w) ?
		w->guard.before(w->guard.arg, w->db, w->logs, &bytes, &tails.len, err) : w->guard.away(w->guard.arg, w->logs, err);

	tails.p = bytes;
	if (rc == 0)
		rc = describe_start(w, mode, &what, err);
	if (rc == 0)
		rc = db_txn_begin(w->db, true, err);
	if (rc == 0 && w->node)
		audit_shared_begin(w->logs, true);
	if (rc == 0) {
		rc = db_txn_end(w->db, write_start(w, str_text(&what), &tails, ret_recovered, err), err);
		if (rc == 0)
			audit_logs_commit(w->logs);
	}
	free(bytes);
	str_fini(&what);
	return rc;
}
