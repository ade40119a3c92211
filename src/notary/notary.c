/*
 * The beats.  One round at a time: the writer says what is due (a transaction), the signer is asked on a lane of its own,
 * the writer takes the notes down (another transaction).  Calls never wait for any of it, unless it stays away.
 */

#include "config.h"

#include "notary/notary.h"

#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "db/db.h"
#include "db/owner.h"
#include "ev/ev.h"
#include "writer/writer.h"

#include "notary_int.h"

#define PLACE_KEY "signer"              /* of meta: where the signer is, when it is not beside the store */

static void begin_round(struct notary *n);

/* --- the end of a round */

static void call_waiters(struct notary *n, struct list *list, int rc)
{
	while (!list_empty(list)) {
		struct waiter *w = CONTAINER_OF(list->next, struct waiter, node);

		list_unlink(&w->node);
		w->done(w->arg, rc, rc < 0 ? &n->err : NULL);
		free(w);
	}
}

static void arm(struct notary *n, uint32_t ms)
{
	if (!n->stopping && !ev_timer_armed(n->timer))
		ev_timer_start(n->timer, ms * 1000ull);
}

/* AUDIT A-715: for a while calls go on; a contradiction is another matter. */
static void hold_if_late(struct notary *n)
{
	uint64_t now = ev_now_us(n->loop);

	if (n->refused)
		writer_hold(n->writer, "the signer contradicts the store: see the log");
	else if (n->unsigned_us && now - n->unsigned_us > n->max_age_s * 1000000ull)
		writer_hold(n->writer, "checkpoints of the audit cannot be signed");
}

static void failed(struct notary *n, int rc)
{
	static struct log_site site;

	metric_inc(METRIC_checkpoint_failures);
	if (log_allow(&site))
		log_err(NULL, "a checkpoint was not signed why=\"%s\" where=%s", n->err.msg, n->err.where);
	n->refused |= rc == ERR_CORRUPT || rc == ERR_CONFLICT;
	/* What came of a request that was cut short is asked anew, of a signer that starts from its disk. */
	if (n->state == NOTARY_SIGNS)
		notary_disconnect(n, 0);
	hold_if_late(n);
	n->again = true;
}

static void end_round(struct notary *n, int rc)
{
	bool signed_any = rc == 0 && n->round.beat.nhead > 0;

	if (rc < 0) {
		failed(n, rc);
	} else {
		n->refused = false;
		n->again |= n->round.epoch != NULL;     /* its own record came behind its checkpoint */
		n->unsigned_us = n->again ? n->round_us : 0;
		writer_hold(n->writer, NULL);
		if (signed_any)
			metric_inc(METRIC_checkpoints);
		if (n->round.rotated)
			n->epoch_us = ev_now_us(n->loop);
		if (signed_any && (n->always || n->round.rotated))
			notary_anchor(n, &n->round);
	}
	round_fini(&n->round);
	n->state = NOTARY_IDLE;
	n->always = n->always && rc < 0;
	if (!n->stopping)
		ev_timer_start(n->heartbeat, HEARTBEAT_S * 1000000ull);
	if (n->again || !list_empty(&n->waiters))
		arm(n, rc < 0 ? RETRY_MS : BEAT_MS);
	call_waiters(n, &n->running, rc);
}

/* --- taking down */

static int store_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct notary *n = arg;

	return notary_take_down(n, db, logs, &n->round, err);
}

static void note_epoch(struct notary *n, const struct round *r)
{
	if (!r->epoch)
		return;
	n->known = true;
	n->stored.n = r->epoch->epoch;
	memcpy(n->stored.public, r->epoch->epoch_key, SIGN_PUBLIC_SIZE);
}

static void store_done(void *arg, int rc, const struct err *err)
{
	struct notary *n = arg;

	CRASH_AT("cp.stored");
	if (rc < 0)
		n->err = *err;
	else
		note_epoch(n, &n->round);
	end_round(n, rc < 0 ? ERR_AUDIT : 0);
}

/* --- signing, on its lane */

static int open_reader(struct notary *n, struct err *err)
{
	char *file;
	int rc;

	if (n->reader)
		return 0;
	file = path_join(n->store, DB_FILE);
	rc = db_open(file, DB_READER, false, &n->reader, err);
	free(file);
	return rc;
}

static void sign_body(void *arg)
{
	struct notary *n = arg;

	n->rc = open_reader(n, &n->err);
	if (n->rc == 0)
		n->rc = notary_sign(n, n->reader, &n->round, &n->err);
}

static void sign_done(void *arg)
{
	static const struct writer_job job = { .name = "checkpoint", .run = store_run, .volatile_only = true, .done = store_done };
	struct notary *n = arg;

	if (n->rc < 0) {
		end_round(n, n->rc);
		return;
	}
	n->state = NOTARY_STORES;
	if (writer_submit(n->writer, &job, n) < 0)
		end_round(n, err_set(&n->err, ERR_AUDIT, "writer", "the store takes nothing now"));
}

/* --- what is due */

static int collect_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct notary *n = arg;
	bool all = n->round.rotate;     /* a new epoch begins with all of them, and a record of its own */
	int rc = audit_beat(logs, db, all ? SIZE_MAX : TENANTS_MAX, n->always || all, &n->round.beat, err);

	return rc < 0 ? rc : audit_beat_system(logs, db, &n->round.beat, err);
}

static void collect_done(void *arg, int rc, const struct err *err)
{
	struct notary *n = arg;

	if (rc < 0) {
		n->err = *err;
		end_round(n, ERR_AUDIT);
		return;
	}
	if (n->round.beat.nhead == 0) {
		end_round(n, 0);
		return;
	}
	n->state = NOTARY_SIGNS;
	if (n->fd < 0)
		rc = notary_connect(n, &n->err);
	if (rc == 0)
		rc = ev_work(n->loop, EV_LANE_SIGN, sign_body, sign_done, n);
	if (rc == ERR_BUSY)
		(void)err_set(&n->err, ERR_BUSY, "signer", "no thread can be had");
	if (rc < 0)
		end_round(n, rc);
}

static void begin_round(struct notary *n)
{
	static const struct writer_job job = { .name = "beat", .run = collect_run, .volatile_only = true, .done = collect_done };
	uint64_t now = ev_now_us(n->loop);

	if (n->state != NOTARY_IDLE) {
		n->again = true;
		return;
	}
	ev_timer_stop(n->timer);
	n->again = false;
	n->round_us = now;
	n->state = NOTARY_COLLECTS;
	n->round = (struct round){ .rotate = n->known && (n->epoch_us == 0 || now - n->epoch_us > EPOCH_S * 1000000ull) };
	while (!list_empty(&n->waiters)) {
		struct list *first = n->waiters.next;

		list_unlink(first);
		list_push_back(&n->running, first);
	}
	if (writer_submit(n->writer, &job, n) < 0)
		end_round(n, err_set(&n->err, ERR_AUDIT, "writer", "the store takes nothing now"));
}

/* --- when */

static void on_timer(void *arg)
{
	begin_round(arg);
}

static void on_heartbeat(void *arg)
{
	struct notary *n = arg;

	n->always = true;
	begin_round(n);
}

static void on_records(void *arg)
{
	struct notary *n = arg;

	if (!n->unsigned_us)
		n->unsigned_us = ev_now_us(n->loop);
	if (n->state == NOTARY_IDLE)
		arm(n, BEAT_MS);
	else
		n->again = true;
}

void notary_now(struct notary *n, notary_done_fn *done, void *arg)
{
	struct waiter *w = mem_zalloc(sizeof *w);

	list_init(&w->node);
	w->done = done;
	w->arg = arg;
	list_push_back(&n->waiters, &w->node);
	ev_timer_start(n->timer, 0);
}

/* --- the end: on the writer's thread, which is alone with the store by then */

static int stopping(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct notary *n = arg;

	return n->stuck ? 0 : audit_beat(logs, db, SIZE_MAX, false, &n->round.beat, err);
}

/* An epoch that the store has not heard of begins with a record, and none comes behind server.stop: the signer remembers what
 * it has signed, and the next start takes it down (AUDIT A-734). */
static int sign_last(struct notary *n, struct db *db, struct audit_logs *logs, struct err *err)
{
	int rc = audit_beat_system(logs, db, &n->round.beat, err);

	if (rc < 0 || n->round.beat.nhead == 0)
		return rc;
	rc = notary_sign(n, db, &n->round, err);
	if (rc == 0 && n->round.epoch)
		return 0;
	if (rc == 0)
		rc = db_txn_begin(db, true, err);
	if (rc < 0)
		return rc;
	rc = db_txn_end(db, notary_take_down(n, db, logs, &n->round, err), err);
	if (rc == 0)
		audit_logs_commit(logs);
	return rc;
}

static void stopped(void *arg, struct db *db, struct audit_logs *logs)
{
	struct notary *n = arg;
	struct err err;

	if (n->stuck)
		return;
	if (sign_last(n, db, logs, &err) < 0)   /* the next start finds the tail, and says so */
		log_err(NULL, "the last checkpoint was not signed why=\"%s\"", err.msg);
	round_fini(&n->round);
}

/* --- the whole */

void notary_guard(struct notary *n, struct writer_guard *ret)
{
	*ret = (struct writer_guard){ .before = notary_before, .stopping = stopping, .stopped = stopped, .arg = n };
}

const char *notary_place(const struct notary *n)
{
	return n->place;
}

int notary_open(const struct notary_opt *opt, struct notary **ret, struct err *err)
{
	struct notary *n = mem_zalloc(sizeof *n);
	int rc;

	n->loop = opt->loop;
	n->fd = -1;
	n->store = mem_strdup(opt->store);
	n->socket = mem_strdup0(opt->socket);
	n->dir = opt->dir ? path_absolute(opt->dir) : path_join(opt->store, "signer");
	n->place = n->socket ? mem_printf("socket %s", n->socket) : mem_printf("child %s", n->dir);
	n->max_age_s = opt->max_age_s;
	n->adopt = opt->adopt;
	n->anchor_file = mem_strdup0(opt->anchor_file);
	n->anchor_cmd = mem_strdup0(opt->anchor_cmd);
	n->anchor_every_s = opt->anchor_every_s;
	n->bases = map_new();
	list_init(&n->waiters);
	list_init(&n->running);
	n->timer = ev_timer_new(n->loop, on_timer, n);
	n->heartbeat = ev_timer_new(n->loop, on_heartbeat, n);
	rc = notary_connect(n, err);
	if (rc < 0) {
		notary_close(&n);
		return rc;
	}
	*ret = n;
	return 0;
}

struct start { struct notary *n; bool done; int rc; struct err err; };

static void started(void *arg, int rc, const struct err *err)
{
	struct start *s = arg;

	s->done = true;
	s->rc = rc;
	if (rc < 0)
		s->err = *err;
}

static int first_round(struct notary *n, struct err *err)
{
	struct start s = { .n = n };

	notary_now(n, started, &s);
	if (!ev_loop_run_until(n->loop, &s.done, START_MS))
		return err_set(err, ERR_TIMEOUT, n->place, "the signer (%s) did not answer", n->place);
	if (s.rc < 0)
		*err = s.err;
	return s.rc;
}

int notary_start(struct notary *n, struct writer *w, struct err *err)
{
	bool first = !n->known;
	int rc;

	n->writer = w;
	writer_on_records(w, on_records, n);
	rc = first_round(n, err);
	/* An epoch that a crash had kept from the store got its checkpoint with that; now it ends. */
	if (rc == 0 && !first && n->epoch_us == 0)
		rc = first_round(n, err);
	if (rc == 0 && first)
		n->epoch_us = ev_now_us(n->loop);
	if (rc < 0)
		notary_stop(n);
	return rc;
}

static void idle(void *arg, int rc, const struct err *err)
{
	bool *done = arg;

	(void)rc;
	(void)err;
	*done = true;
}

void notary_stop(struct notary *n)
{
	bool done = n->state == NOTARY_IDLE;

	if (!n->writer)
		return;
	n->stopping = true;
	ev_timer_stop(n->timer);
	ev_timer_stop(n->heartbeat);
	if (!done) {
		struct waiter *w = mem_zalloc(sizeof *w);

		list_init(&w->node);
		w->done = idle;
		w->arg = &done;
		list_push_back(&n->running, &w->node);
		n->stuck = !ev_loop_run_until(n->loop, &done, START_MS);
	}
	if (n->stuck)
		log_err(NULL, "the signer does not end its work place=\"%s\"", n->place);
	if (!n->stuck)
		notary_anchor_wait(n);
	(void)err_set(&n->err, ERR_CANCELLED, "", "the server is stopping");
	call_waiters(n, &n->waiters, ERR_CANCELLED);
	writer_on_records(n->writer, NULL, NULL);
	if (!n->stuck)
		db_close(&n->reader);
	if (n->fd < 0 && notary_connect(n, &n->err) < 0)
		log_warn(NULL, "no signer for the last checkpoint why=\"%s\"", n->err.msg);
}

void notary_close(struct notary **np)
{
	struct notary *n = *np;
	void *base;

	if (!n)
		return;
	*np = NULL;
	notary_disconnect(n, HELPER_END_MS);
	db_close(&n->reader);
	ev_timer_free(&n->timer);
	ev_timer_free(&n->heartbeat);
	for (size_t it = 0; map_next(n->bases, &it, NULL, NULL, &base);)
		free(base);
	map_free(&n->bases);
	if (n->who)
		free(n->who->instance);
	free(n->who);
	round_fini(&n->round);
	free(n->anchor_file);
	free(n->anchor_cmd);
	free(n->store);
	free(n->dir);
	free(n->socket);
	free(n->place);
	free(n);
}
