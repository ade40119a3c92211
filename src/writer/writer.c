/* The writer as the loop has it: events and jobs go in, completions come back, deadlines pass, room on the disk is
 * booked; opening and closing with their records.  Loop thread. */

#include "config.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "audit/fold.h"
#include "audit/keep.h"
#include "audit/payload.h"
#include "audit/recover.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "bundle/seal.h"
#include "db/db.h"
#include "db/owner.h"
#include "db/server.h"
#include "ev/ev.h"
#include "forms/forms.h"
#include "keys/keys.h"
#include "writer/writer.h"

#include "writer_int.h"

/* --- events and jobs go in, completions come back, deadlines pass */

enum { SPARE_EVENT = 1536, SPARE_EVENTS = 256 };        /* bytes of one with usual texts, and how many are kept */

/* Where the bytes go behind the event, and the pointer that leads there. */
static void *move_bytes(const void *from, size_t n, char **at)
{
	char *to = *at;

	if (n > 0)
		memcpy(to, from, n);
	*at += n;
	return to;
}

/* What has pointers of its own goes first, for its alignment. */
static void move_fields(struct audit_event *ev, char **at)
{
	struct audit_field *field = move_bytes(ev->field, ev->nfield * sizeof(*field), at);

	ev->field = field;
}

static void move_field_bytes(struct audit_event *ev, char **at)
{
	struct audit_field *field = (struct audit_field *)(uintptr_t)ev->field;

	for (size_t i = 0; i < ev->nfield; i++)
		field[i].p = move_bytes(field[i].p, field[i].len, at);
}

/* Values with their hidden pieces, likewise. */
static size_t payload_size(const struct audit_payload *p)
{
	size_t n = p ? sizeof(*p) : 0;

	for (size_t i = 0; p && i < p->n; i++)
		n += p->value[i].nhidden * sizeof(*p->value[i].hidden) + p->value[i].len;
	return n;
}

static void move_payload(struct audit_event *ev, char **at)
{
	struct audit_payload *p;

	if (!ev->payload)
		return;
	ev->payload = p = move_bytes(ev->payload, sizeof(*p), at);
	for (size_t i = 0; i < p->n; i++)
		p->value[i].hidden = move_bytes(p->value[i].hidden, p->value[i].nhidden * sizeof(*p->value[i].hidden), at);
	for (size_t i = 0; i < p->n; i++)
		p->value[i].p = move_bytes(p->value[i].p, p->value[i].len, at);
}

#define TEXTS_OF(ev) { &(ev)->cred, &(ev)->prn, &(ev)->rev, &(ev)->tool, &(ev)->rule, &(ev)->sbox, &(ev)->obj, \
	&(ev)->detail, &(ev)->peer, &(ev)->client, &(ev)->sys, &(ev)->mdl }
#define DIGESTS_OF(ev) { &(ev)->tdef, &(ev)->before, &(ev)->after }

static size_t size_of_all(const struct audit_event *ev)
{
	const char *const *const text[] = TEXTS_OF(ev);
	const uint8_t *const *const digest[] = DIGESTS_OF(ev);
	size_t n = ev->nfield * sizeof(*ev->field) + payload_size(ev->payload);

	for (size_t i = 0; i < ev->nfield; i++)
		n += ev->field[i].len;
	for (size_t i = 0; i < NELEMS(text); i++)
		n += *text[i] ? strlen(*text[i]) + 1 : 0;
	for (size_t i = 0; i < NELEMS(digest); i++)
		n += *digest[i] ? 32 : 0;
	return n;
}

/* What of it stays: values that are not kept are commitments alone. */
static size_t recorded_bytes(const struct wevent *e)
{
	const struct audit_payload *p = e->ev.payload;
	size_t n = WRITER_RECORD_BYTES + e->size - sizeof(*e) - payload_size(p);

	for (size_t i = 0; p && i < p->n; i++)
		n += p->value[i].keep ? p->value[i].len : 0;
	return n;
}

static void move_all(struct audit_event *ev, char *at)
{
	const char **const text[] = TEXTS_OF(ev);
	const uint8_t **const digest[] = DIGESTS_OF(ev);

	move_fields(ev, &at);
	move_payload(ev, &at);
	move_field_bytes(ev, &at);
	for (size_t i = 0; i < NELEMS(text); i++)
		if (*text[i])
			*text[i] = move_bytes(*text[i], strlen(*text[i]) + 1, &at);
	for (size_t i = 0; i < NELEMS(digest); i++)
		if (*digest[i])
			*digest[i] = move_bytes(*digest[i], 32, &at);
}

/* NULL: there is no memory for it. */
static struct wevent *wevent_new(struct writer *w, const struct audit_event *ev, writer_audit_fn *done, void *arg)
{
	const size_t size = sizeof(struct wevent) + size_of_all(ev);
	struct wevent *e = mem_spare_try(&w->spares, size);

	if (!e)
		return NULL;
	e->size = size;
	e->item = (struct witem){
		.lane = ev->tenant_id,
		.is_begin = ev->kind == AUDIT_CALL_BEGIN,
		.must_stay = ev->kind == AUDIT_CALL_END || ev->kind == AUDIT_CALL_RECOVERED || !done,
		.is_notice = !done && ev->kind != AUDIT_CALL_END && ev->kind != AUDIT_CALL_RECOVERED,
	};
	list_init(&e->item.in_queue);
	list_init(&e->item.waiting);
	e->done = done;
	e->arg = arg;
	e->change = NULL;
	e->ev = *ev;
	move_all(&e->ev, (char *)(e + 1));
	return e;
}

static void wevent_free(struct writer *w, struct wevent *e)
{
	if (e)
		mem_spare_free(&w->spares, e, e->size);
}

static void wchange_free(struct writer *w, struct wchange *c)
{
	for (size_t i = 0; c && i < NELEMS(c->more); i++)
		wevent_free(w, c->more[i]);
	free(c);
}

static void item_free(struct writer *w, struct witem *it)
{
	list_unlink(&it->waiting);
	if (it->is_job) {
		free(CONTAINER_OF(it, struct wjob, item));
	} else {
		struct wevent *e = CONTAINER_OF(it, struct wevent, item);

		wchange_free(w, e->change);
		wevent_free(w, e);
	}
}

static void wait_for(struct writer *w, struct witem *it)
{
	it->due_us = ev_now_us(w->loop) + (uint64_t)w->limits.deadline_ms * 1000;
	list_push_back(&w->waiting, &it->waiting);
	if (!ev_timer_armed(w->deadline))
		ev_timer_start(w->deadline, (uint64_t)w->limits.deadline_ms * 1000);
}

/* Like writer_state(), but for the room on the disk. */
static enum writer_why refuses(const struct writer *w)
{
	return atomic_load(&w->failed) ? WRITER_FAILED :
		w->stalled ? WRITER_STALLED :
		atomic_load(&w->refused) ? WRITER_FULL :
		w->closing ? WRITER_STOPS : WRITER_TAKES;
}

static int refusal(const struct writer *w, const char **ret_reason)
{
	static const char *const reasons[] = {
		[WRITER_TAKES] = "",
		[WRITER_FAILED] = "the store has failed; restart to recover",
		[WRITER_STALLED] = "the disk of the store does not answer",
		[WRITER_STOPS] = "the server is stopping" };
	const enum writer_why why = refuses(w);

	if (ret_reason)
		*ret_reason = why == WRITER_FULL ? atomic_load(&w->refused) : reasons[why];
	return why == WRITER_TAKES ? ERR_OK : why == WRITER_FAILED ? ERR_IO : ERR_AUDIT;
}

static void show(void *arg)
{
	struct wcourier *c = arg;
	bool last = atomic_fetch_sub(&c->pending, 1) == 1;

	if (c->w) {
		c->w->showing = false;
		wqueue_show(c->w->queue);
	} else if (last) {
		free(c);
	}
}

/* Awake at the first item of a turn, the writer would flush that one alone while the turn brings the others. */
static void show_at_turn_end(struct writer *w)
{
	if (w->showing)
		return;
	w->showing = true;
	atomic_fetch_add(&w->courier->pending, 1);
	ev_at_turn_end(w->loop, show, w->courier);
}

/* Something leaves when it is durable (HARDENING F-4). */
static bool begins_something(const struct audit_event *ev)
{
	return ev->kind == AUDIT_CALL_BEGIN || ev->kind == AUDIT_RESOURCE_SUBSCRIBE || ev->kind == AUDIT_RESOURCE_UNSUBSCRIBE;
}

/* Takes it; ERR_AUDIT: the queue is full. */
static int send(struct writer *w, struct wevent *e)
{
	size_t bytes = recorded_bytes(e);
	int64_t tenant_id = e->ev.tenant_id;

	for (size_t i = 0; e->change && i < NELEMS(e->change->more) && e->change->more[i]; i++)
		bytes += recorded_bytes(e->change->more[i]);
	bytes += e->change ? e->change->len : 0;
	if (e->done)
		wait_for(w, &e->item);
	/* A full disk keeps what nobody waits for, and nothing else holds it back. */
	if ((e->item.is_notice && w->notices >= w->limits.queue_max) || !wqueue_push(w->queue, &e->item)) {
		metric_inc(METRIC_writer_queue_full);
		item_free(w, &e->item);
		return ERR_AUDIT;
	}
	w->notices += e->item.is_notice;
	if (w->limits.counted && tenant_id)
		w->limits.counted(w->limits.arg, tenant_id, bytes, w->space->room != WRITER_ROOM_ENOUGH);
	show_at_turn_end(w);
	return 0;
}

int writer_audit(struct writer *w, const struct audit_event *ev, writer_audit_fn *done, void *arg)
{
	struct audit_event bare;
	struct wevent *e;

	if (w->relay)
		return begins_something(ev) ? ERR_AUDIT : wrelay_audit(w->relay, ev, done, arg);
	if (w->closing || atomic_load(&w->failed))
		return ERR_AUDIT;
	/* What has not begun can be refused; what has must be recorded if it can be. */
	if (begins_something(ev) && writer_state(w, NULL) != ERR_OK)
		return ERR_AUDIT;
	e = wevent_new(w, ev, done, arg);
	if (!e && (ev->kind == AUDIT_CALL_END || ev->kind == AUDIT_CALL_RECOVERED)) {
		bare = *ev;             /* that it ended is worth more than what it said */
		bare.payload = NULL;
		e = wevent_new(w, &bare, done, arg);
	}
	if (!e) {
		metric_inc(METRIC_budget_memory_refused);
		return ERR_AUDIT;
	}
	return send(w, e);
}

/* NULL: there is no memory for it. */
static struct wchange *wchange_new(struct writer *w, const struct audit_event *ev, size_t n,
				   const struct writer_rows *rows, const void *bytes, size_t len)
{
	struct wchange *c = mem_try_realloc(NULL, sizeof(*c) + len);

	if (!c)
		return NULL;
	*c = (struct wchange){ .rows = rows, .len = len };
	if (len)
		memcpy(c->bytes, bytes, len);
	for (size_t i = 1; i < n; i++) {
		c->more[i - 1] = wevent_new(w, &ev[i], NULL, NULL);
		if (!c->more[i - 1]) {
			wchange_free(w, c);
			return NULL;
		}
	}
	return c;
}

int writer_change(struct writer *w, const struct audit_event *ev, size_t n, const struct writer_rows *rows,
		  const void *bytes, size_t len, writer_audit_fn *done, void *arg)
{
	bool ends = false;
	struct wevent *e;

	assert(n > 0 && n <= WRITER_CHANGE_EVENTS && done);
	for (size_t i = 0; i < n; i++) {
		assert(ev[i].tenant_id == ev[0].tenant_id);
		ends |= ev[i].kind == AUDIT_CALL_END;
	}
	if (w->closing || atomic_load(&w->failed) || (!ends && writer_state(w, NULL) != ERR_OK))
		return ERR_AUDIT;
	e = wevent_new(w, ev, done, arg);
	if (e)
		e->change = wchange_new(w, ev, n, rows, bytes, len);
	if (!e || !e->change) {
		wevent_free(w, e);
		metric_inc(METRIC_budget_memory_refused);
		return ERR_AUDIT;
	}
	e->item.must_stay = ends;
	return send(w, e);
}

int writer_submit(struct writer *w, const struct writer_job *job, void *arg)
{
	struct wjob *j;

	if (refusal(w, NULL) != ERR_OK)
		return ERR_AUDIT;
	j = mem_zalloc(sizeof(*j));
	j->item.lane = LANE_JOBS;
	j->item.is_job = true;
	j->job = *job;
	j->arg = arg;
	list_init(&j->item.in_queue);
	list_init(&j->item.waiting);
	wait_for(w, &j->item);
	if (!wqueue_push(w->queue, &j->item)) {
		metric_inc(METRIC_writer_queue_full);
		item_free(w, &j->item);
		return ERR_BUSY;
	}
	w->patient = job->patient ? job->name : w->patient;
	w->npatient += job->patient;
	show_at_turn_end(w);
	return 0;
}

void writer_refused(const struct writer *w, int rc, const char *what, struct err *err)
{
	const char *reason = "";

	if (rc == ERR_BUSY)
		reason = "too much is waiting to be written";
	else if (writer_state(w, &reason) == ERR_OK)
		reason = "the store could not be written a moment ago";
	(void)err_set(err, (enum err_code)rc, "", "%s; %s", reason, what);
}

void writer_on_late(struct writer *w, writer_late_fn *fn, void *arg)
{
	w->late = fn;
	w->late_arg = arg;
}

void writer_hold(struct writer *w, const char *reason)
{
	w->held = reason;
}

void writer_hold_sink(struct writer *w, const char *reason)
{
	w->sink_held = reason;
}

void writer_on_records(struct writer *w, void (*fn)(void *arg), void *arg)
{
	w->on_records = fn;
	w->on_records_arg = arg;
}

/* Tell the submitter, once. */
static void report(struct writer *w, struct witem *it, int rc)
{
	if (it->is_job) {
		struct wjob *j = CONTAINER_OF(it, struct wjob, item);

		w->npatient -= j->job.patient;
		if (j->job.done)
			j->job.done(j->arg, rc, &j->err);
	} else {
		struct wevent *e = CONTAINER_OF(it, struct wevent, item);

		if (e->done)
			e->done(e->arg, rc < 0 && !e->change ? ERR_AUDIT : rc < 0 ? rc : 0, rc < 0 ? NULL : &e->receipt);
	}
}

static void finished(struct writer *w, struct witem *it)
{
	struct wevent *e;

	list_unlink(&it->waiting);
	if (w->node && w->node->holds && it->is_begin && it->rc == 0 && !it->refused && !it->held && w->node->holds(w)) {
		list_push_back(&w->node->waiting, &it->waiting);
		return;
	}
	w->notices -= it->is_notice;
	if (!it->refused) {
		report(w, it, it->rc);
	} else if (it->rc == 0 && it->is_begin && w->late) {    /* AUDIT A-210 */
		e = CONTAINER_OF(it, struct wevent, item);
		w->late(w->late_arg, &e->ev);
	}
	item_free(w, it);
}

/* One that has waited for share.c. */
static void finish_late(struct writer *w, struct witem *it, bool late)
{
	list_unlink(&it->waiting);
	if (late)
		report(w, it, ERR_AUDIT);
	it->refused = late;
	it->held = true;
	finished(w, it);
}

static void finish_all(struct writer *w)
{
	bool any = atomic_exchange(&w->tried, false);

	for (struct witem *it = wqueue_finished(w->queue), *next; it; it = next) {
		next = it->next;
		w->stalled = false;
		any |= it->rc == 0 && !(it->is_job && CONTAINER_OF(it, struct wjob, item)->job.volatile_only);
		finished(w, it);
	}
	if (w->node && w->node->look)
		w->node->look(w);
	if (any && w->on_records)
		w->on_records(w->on_records_arg);
	if (w->follower)
		w->follower->arrived(w->follower);
}

static void on_finished(void *arg)
{
	struct wcourier *c = arg;
	bool last = atomic_fetch_sub(&c->pending, 1) == 1;

	if (c->w)
		finish_all(c->w);
	else if (last)
		free(c);
}

/* AUDIT A-207.  What the writer has not taken yet need not happen, unless it must stay; what it
 * has taken may still become durable: a begin is then late, a job is waited for, since only its
 * outcome tells what is true. */
static void expire(struct writer *w, struct witem *it)
{
	bool waited = it->is_job || CONTAINER_OF(it, struct wevent, item)->change;
	bool ours = !it->must_stay && wqueue_withdraw(w->queue, it);

	list_unlink(&it->waiting);
	if (!ours && !w->npatient)
		w->stalled = true;      /* until something comes back, as this one will */
	if (waited && !ours)
		return;
	if (it->is_job)
		err_set(&CONTAINER_OF(it, struct wjob, item)->err, ERR_AUDIT, "", "nothing was changed: %s%s",
			w->npatient ? w->patient : "the disk of the store does not answer",
			w->npatient ? " changes much and goes first; try again" : "");
	it->refused = true;
	report(w, it, ERR_AUDIT);
	if (ours)
		item_free(w, it);
}

/* Like writer_state(), but for the room on the disk. */
static void on_deadline(void *arg)
{
	struct writer *w = arg;
	uint64_t now = ev_now_us(w->loop);

	while (!list_empty(&w->waiting)) {
		struct witem *it = CONTAINER_OF(w->waiting.next, struct witem, waiting);

		if (it->due_us > now) {
			ev_timer_start(w->deadline, it->due_us - now);
			return;
		}
		expire(w, it);
	}
}

/* --- room on the disk: what is free above the floor and not booked by calls that run (AUDIT A-211) */

/* Free bytes above the floor that nobody has booked. */
static uint64_t room_left(const struct writer *w)
{
	uint64_t now = ev_now_us(w->loop);
	uint64_t taken = w->limits.space_floor + w->booked;
	struct wspace *space = w->space;
	struct statvfs fs;

	if (!space->at_us || now - space->at_us >= SPACE_AGE_US) {
		/* When the system does not say, the commit will. */
		space->free_bytes = statvfs(w->store, &fs) == 0 ? (uint64_t)fs.f_bavail * fs.f_frsize : UINT64_MAX;
		space->at_us = now;
	}
	return space->free_bytes > taken ? space->free_bytes - taken : 0;
}

/* AUDIT A-213: the crossing of a threshold, by its name. */
static int record_crossing(struct writer *w, bool worse, bool floor, uint64_t free_bytes)
{
	struct audit_event ev;
	char text[120];

	if (floor)
		(void)snprintf(text, sizeof(text),
			       "audit.space_floor: %" PRIu64 " bytes are free of %" PRIu64 " below which calls are refused",
			       free_bytes, w->limits.space_floor);
	else
		(void)snprintf(text, sizeof(text), "audit.space_warn: %" PRIu64 " bytes are free, %s than %u %%", free_bytes,
			       worse ? "less" : "more", w->limits.space_warn);
	log_warn(NULL, "room on the disk of the store %s free=%" PRIu64, worse ? "shrinks" : "is back", free_bytes);
	audit_event_init(&ev, worse ? AUDIT_SPACE_LOW : AUDIT_SPACE_OK, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.detail = text;
	return writer_audit(w, &ev, NULL, NULL);
}

enum writer_room writer_room(const struct writer *w)
{
	return (enum writer_room)w->space->room;
}

/* Every SPACE_WATCH_MS: a record when a threshold was crossed. */
static void watch_room(void *arg)
{
	struct writer *w = arg;
	struct wspace *space = w->space;
	struct statvfs fs;

	if (statvfs(w->store, &fs) == 0) {
		uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
		unsigned was = space->room, is = free_bytes < w->limits.space_floor ? WRITER_ROOM_NONE :
			fs.f_bavail < fs.f_blocks / 100 * w->limits.space_warn ? WRITER_ROOM_LOW : WRITER_ROOM_ENOUGH;

		metric_set(METRIC_store_free_bytes, free_bytes);
		/* What finds no place in the queue is said at the next look. */
		if (is == was ||
		    record_crossing(w, is > was, is == WRITER_ROOM_NONE || was == WRITER_ROOM_NONE, free_bytes) == 0)
			space->room = is;
	}
	ev_timer_start(space->watch, SPACE_WATCH_MS * 1000);
}

enum writer_why writer_why(const struct writer *w)
{
	const enum writer_why why = refuses(w);

	return why != WRITER_TAKES ? why :
		w->held ? WRITER_HELD :                 /* AUDIT A-715 */
		w->sink_held ? WRITER_SINK :            /* OP-316 */
		w->fold_held ? WRITER_BEHIND :          /* SC-303 */
		room_left(w) == 0 ? WRITER_ROOM : WRITER_TAKES;
}

const char *writer_why_name(enum writer_why why)
{
	static const char *const names[WRITER_WHYS] = { "", "failed", "stalled", "full", "stopping", "signer", "sink",
							"fold", "space" };

	return names[why];
}

int writer_state(const struct writer *w, const char **ret_reason)
{
	const enum writer_why why = writer_why(w);

	if (why < WRITER_HELD)
		return refusal(w, ret_reason);
	if (ret_reason)
		*ret_reason = why == WRITER_HELD ? w->held : why == WRITER_SINK ? w->sink_held : why == WRITER_BEHIND ? w->fold_held :
			"too little space is left on the disk of the store";
	return ERR_AUDIT;
}

uint64_t writer_turned_us(const struct writer *w)
{
	return atomic_load(&w->turned_us);
}

uint64_t writer_space_floor(const struct writer *w)
{
	return w->limits.space_floor;
}

int writer_reserve(struct writer *w, size_t bytes)
{
	if (writer_why(w) != WRITER_TAKES || wqueue_is_full(w->queue) || room_left(w) < bytes)
		return ERR_AUDIT;
	w->booked += bytes;
	return 0;
}

void writer_release(struct writer *w, size_t bytes)
{
	w->booked -= bytes < w->booked ? bytes : w->booked;
}

/* --- opening and closing */

/* Signals are the loop's. */
static int start_thread(struct writer *w, struct err *err)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&w->thread, NULL, writer_main, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc != 0)
		return err_set(err, ERR_INTERNAL, "writer", "cannot start a thread: %s", strerror(rc));
	(void)pthread_setname_np(w->thread, "writer");  /* for those who look with top */
	return 0;
}

static void writer_free(struct writer *w)
{
	if (w->relay) {
		writer_relay_broken(w);         /* nobody waits any more */
		map_free(&w->relay->waiting);
		free(w->relay);
	}
	audit_logs_close(&w->logs);
	db_close(&w->db);
	wqueue_free(&w->queue);
	wnode_free(w);
	ev_timer_free(&w->deadline);
	ev_timer_free(&w->space->watch);
	if (atomic_load(&w->courier->pending) == 0)
		free(w->courier);
	else
		w->courier->w = NULL;   /* the last post that arrives frees it */
	mem_spares_fini(&w->spares);
	free(w->space);
	free(w->store);
	free(w);
}

/* What a start finds of the store's files, before it writes any of them (decision 0051). */

static int find_put_back(struct writer *w, struct err *err)
{
	struct db_stmt *st = db_stmt_get(w->db, SQL_META_GET_VALUE);
	int rc;

	db_bind_textz(st, 1, DB_META_PUT_BACK);
	rc = db_step(st, err);
	w->begin.put_back = rc == 1;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static bool is_adopted(const struct writer *w)
{
	for (size_t i = 0; w->guard.adopt && w->guard.adopt[i]; i++)
		if (strcmp(w->guard.adopt[i], KEYS_FILE_ADOPT) == 0)
			return true;
	return false;
}

static int find_files(struct writer *w, const struct keyfile_place *place, struct keys **ret, struct err *err)
{
	int rc = find_put_back(w, err);

	if (rc == 0)
		rc = db_before_noted(w->db, &w->begin.before, err);
	w->begin.went_forward = rc == 1;
	return rc < 0 ? rc : keys_begin(place, w->db, is_adopted(w), ret, &w->begin.keys, err);
}

/* SC-305: before anything is changed, so that the release of before can still go on with it.  What else is wrong with
 * the store is said by what comes next. */
static int refuse_unfolded(struct writer *w, struct err *err)
{
	struct forms_rows is = { 0 };
	int version, rc;

	if (w->limits.waiting_max == 0 || db_check_version(w->db, &version, NULL) < 0)
		return 0;
	rc = forms_count(w->db, &is, err);
	if (rc < 0 || is.once || is.waiting <= w->limits.waiting_max)
		return rc;
	(void)err_set(err, ERR_CONFLICT, w->store,
		      "%" PRId64 " records wait to become blocks, and a start takes %" PRId64 " of them", is.waiting,
		      w->limits.waiting_max);
	err_hint(err, "toolcrib migrate puts them into blocks; with --dry-run it says how long that takes");
	return ERR_CONFLICT;
}

/* With what it needs to start; none without the other. */
static int make_before(struct writer *w, const char *path, struct db_before *b, struct err *err)
{
	char *signer = db_before_signer(w->store, b->to);
	int rc = w->guard.copying ? w->guard.copying(w->guard.arg, signer, err) : 0;

	if (rc == 0) {
		db_close(&w->db);
		rc = db_before_make(path, b, err);
		if (rc < 0)
			path_unmake(signer);
	}
	free(signer);
	return rc < 0 ? rc : db_open(path, DB_WRITER, false, &w->db, err);
}

/* OP-911: what the store was, before the first step.  Steps that were cut off have their copy. */
static int copy_before(struct writer *w, const char *path, struct err *err)
{
	struct db_before b = { .to = db_schema_version() };
	int noted, rc = db_schema_due(w->db, &b.from, err);

	if (rc != 1)
		return rc;
	noted = db_before_noted(w->db, &(struct db_before){ 0 }, err);
	if (noted != 0)
		return noted < 0 ? noted : 0;
	if (w->guard.no_copy)
		return db_before_note(w->db, &b, err);
	rc = db_truncate_log(w->db, err);
	if (rc == ERR_BUSY) {
		(void)err_set(err, rc, path, "another program reads the store, so that no copy of before can be made");
		err_hint(err, "end it, or go on without a copy: toolcrib migrate --no-copy");
	}
	if (rc == 0)
		rc = make_before(w, path, &b, err);
	return rc < 0 ? rc : db_before_note(w->db, &b, err);
}

/* To this program's schema. */
static int open_file(struct writer *w, struct err *err)
{
	char *path = path_join(w->store, DB_FILE);
	int rc = db_open(path, DB_WRITER, false, &w->db, err);
	const bool shared = rc == 0 && db_is_shared(w->db);

	if (rc == 0 && !shared)
		rc = refuse_unfolded(w, err);
	if (rc == 0 && !shared)
		rc = copy_before(w, path, err);
	if (rc == 0)
		rc = db_migrate(w->db, err);
	if (rc == 0 && shared)
		rc = wnode_open(w, err);
	free(path);
	return rc;
}

static int open_store(struct writer *w, const struct keyfile_place *place, struct err *err)
{
	struct keys *keys = NULL;
	size_t swept = 0;
	int rc = open_file(w, err);

	if ((rc == ERR_CORRUPT || rc == ERR_INVALID) && !*err->hint && !db_is_served(w->store))
		err_hint(err, "put the newest backup back: toolcribd(8), BAD NIGHTS");
	if (rc == 0)
		rc = forms_see(w->db, err);     /* what says that a store was served may be in a block */
	if (rc == 0)
		rc = find_files(w, place, &keys, err);
	if (rc == 0)
		rc = audit_logs_open(w->db, &w->logs, err);
	if (rc == 0 && !w->node)
		rc = audit_seal_sweep(w->db, w->store, &swept, err);
	if (rc == 0)
		audit_logs_give_keys(w->logs, &keys);
	keys_close(&keys);
#ifdef BENCH_BUILD
	if (rc == 0 && getenv("TOOLCRIB_BENCH_NOSYNC"))
		rc = db_bench_no_sync(w->db, err);
#endif
	return rc;
}

int writer_open(struct ev_loop *loop, const struct keyfile_place *place, const char *mode,
		const struct writer_limits *limits,
		const struct writer_guard *guard, struct writer **ret, size_t *ret_recovered, struct err *err)
{
	struct writer *w = mem_zalloc(sizeof(*w));
	struct clock_state clock;
	size_t recovered = 0;
	int rc;

	w->loop = loop;
	w->limits = *limits;
	w->spares = (struct mem_spares){ .size = SPARE_EVENT, .max = SPARE_EVENTS };
	if (guard)
		w->guard = *guard;
	w->store = mem_strdup(place->store);
	w->space = mem_zalloc(sizeof(*w->space));
	w->space->watch = ev_timer_new(loop, watch_room, w);
	ev_timer_start(w->space->watch, SPACE_WATCH_MS * 1000);
	w->queue = wqueue_new(limits->queue_max);
	w->courier = mem_zalloc(sizeof(*w->courier));
	w->courier->w = w;
	w->courier->arrived = on_finished;
	w->deadline = ev_timer_new(loop, on_deadline, w);
	list_init(&w->waiting);
	clock_state(&clock);
	writer_clock(w, clock.sync);
	rc = open_store(w, place, err);
	if (rc == 0)
		rc = writer_write_start(w, mode, &recovered, err);
	if (rc == 0)
		rc = audit_erase_replay(w->logs, w->db, err);
	if (rc == 0)
		rc = audit_erase_resume(w->logs, w->db, err);
	if (rc == 0)
		atomic_store(&w->newest, audit_newest_row(w->logs));
	if (rc == 0)
		rc = start_thread(w, err);
	if (rc == 0 && w->node)
		w->node->finish = finish_late;
	if (rc < 0) {
		writer_free(w);
		return rc;
	}
	if (ret_recovered)
		*ret_recovered = recovered;
	*ret = w;
	return 0;
}

void writer_clock(struct writer *w, enum clock_sync sync)
{
	atomic_store(&w->clock, sync);
}

/* Its files are closed behind it, unless the thread hangs. */
static int end_thread(struct writer *w, uint32_t deadline_ms, struct err *err)
{
	int failed;

	if (w->sealer)
		w->sealer->close(w->sealer);
	if (w->follower)
		w->follower->close(w->follower);
	w->closing = true;
	atomic_store(&w->close_by_us, clock_mono_us() + (uint64_t)deadline_ms * 1000);
	wqueue_close(w->queue);
	if (!wqueue_wait_exit(w->queue, deadline_ms + CLOSE_GRACE_MS)) {
		/* The thread hangs in the kernel and keeps all it needs; the process is about to end. */
		w->courier->w = NULL;
		return err_set(err, ERR_TIMEOUT, w->store, "the disk of the store does not answer; the stop is not recorded");
	}
	pthread_join(w->thread, NULL);
	finish_all(w);
	if (w->node && w->node->release)
		w->node->release(w);
	failed = atomic_load(&w->failed);
	if (failed)
		err_set(err, (enum err_code)failed, w->store, "the store had failed; the stop is not recorded");
	audit_logs_close(&w->logs);
	db_close(&w->db);
	return failed;
}

int writer_close(struct writer **wp, uint32_t deadline_ms, struct err *err)
{
	struct writer *w = wp ? *wp : NULL;
	int rc;

	if (!w)
		return 0;
	*wp = NULL;
	rc = w->relay ? 0 : end_thread(w, deadline_ms, err);
	if (rc != ERR_TIMEOUT)
		writer_free(w);
	return rc;
}

/* --- a store that is another process's (OP-903) */

int writer_leave(struct writer *w, uint32_t deadline_ms, const struct writer_relay *to, struct err *err)
{
	int rc = end_thread(w, deadline_ms, err);

	ev_timer_stop(w->space->watch);
	ev_timer_stop(w->deadline);
	if (rc != ERR_TIMEOUT) {
		w->relay = mem_zalloc(sizeof(*w->relay));
		w->relay->to = *to;
		w->relay->waiting = map_new();
	}
	return rc;
}

struct relayed { struct writer *w; writer_audit_fn *done; void *arg; };

static int audit_relayed(void *arg, const struct audit_event *ev)
{
	const struct relayed *r = arg;

	return writer_audit(r->w, ev, r->done, r->arg);
}

int writer_audit_relayed(struct writer *w, const void *p, size_t len, writer_audit_fn *done, void *arg)
{
	return wrelay_event(p, len, audit_relayed, &(struct relayed){ w, done, arg });
}

struct recovering { size_t n, found; uint8_t id[][16]; };

static int recover_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct recovering *r = arg;
	const struct audit_calls calls = { r->id, r->n };

	return audit_recover(logs, db, &calls, true, &r->found, err);
}

static void recover_done(void *arg, int rc, const struct err *err)
{
	struct recovering *r = arg;

	if (rc < 0)
		log_err(NULL, "calls of the server before have no end, the next start closes them why=\"%s\"", err->msg);
	else
		metric_add(METRIC_calls_recovered, r->found);
	if (rc == 0 && r->found > 0)
		log_warn(NULL, "calls without an end recovered count=%zu", r->found);
	free(r);
}

int writer_recover(struct writer *w, const struct audit_calls *calls)
{
	/* volatile: all of them may have an end already */
	static const struct writer_job job = { .name = "calls without an end", .run = recover_run, .volatile_only = true,
					       .done = recover_done };
	struct recovering *r = mem_zalloc(sizeof(*r) + calls->n * sizeof(*r->id));
	int rc;

	r->n = calls->n;
	memcpy(r->id, calls->id, calls->n * sizeof(*r->id));
	rc = writer_submit(w, &job, r);
	if (rc < 0)
		free(r);
	return rc;
}
