/* The job runner: erasures and prunes that a record of the audit has promised are driven to their end, slice by
 * slice, with calls in between (AUDIT A-305).  Commands start it behind their answer by jobs_after(), a start of
 * the server by jobs_resume(), which goes on with what a crash has left, here or at another node (CLUSTER K-211).  Of a
 * store one run is on at a time, which whoever comes meanwhile waits for as well: a sealed file is made anew by one.
 * What cannot be ended holds nothing else up.  Loop thread; each slice is a job on the writer's, and sealed files are
 * looked at by the lane that seals. */
#include "config.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "audit/erase.h"
#include "audit/keep.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "bundle/seal.h"
#include "db/db.h"
#include "db/owner.h"
#include "ev/ev.h"
#include "forms/forms.h"
#include "keeping/keeping.h"
#include "review/review.h"
#include "toolset/toolset.h"
#include "writer/seal.h"
#include "writer/writer.h"

#include "keeping_int.h"

#define PAUSE_US 100000                 /* while a reader is in the way (AUDIT A-623), or what seals */
#define SEAL_TRIES 100                  /* 10 s */

/* A command, and what came of the intents of the log that it is about. */
struct waiter {
	struct list node;
	struct command_call *c;
	int64_t log;
	int rc; struct err err;
};

/* What a lane does to a sealed file of the job's log, then the writer. */
struct in_file {
	char *store;                    /* toolcrib.db */
	uint64_t floor;
	int64_t log, at;
	bool put, made;                 /* the one before has taken its place; this one is to */
	struct audit_sealed is;
	int rc; struct err err;
};

struct jobs {
	unsigned refs;
	atomic_bool stop;
	struct writer *writer;          /* of a server, which tells when there may be jobs of another one; or NULL */
	struct list waiting;            /* struct waiter.node */
	/* of the run that is on; admin is counted, NULL: none is */
	struct commands *admin;
	bool again;                     /* somebody came meanwhile: from the first intent on */
	bool over;                      /* nothing is left */
	struct audit_job job;           /* under way, or kind 0: done with, as all before it */
	int rc; struct err err;         /* what could not be done of it, in some file */
	struct in_file file;
	struct ev_timer *timer;
	unsigned tries;                 /* to have what is being sealed given up */
};

struct jobs *jobs_new(void)
{
	struct jobs *j = mem_zalloc(sizeof(*j));

	j->refs = 1;
	atomic_init(&j->stop, false);
	list_init(&j->waiting);
	return j;
}

void jobs_unref(struct jobs *j)
{
	if (--j->refs == 0)
		free(j);
}

void jobs_free(struct jobs **jp)
{
	struct jobs *j = *jp;

	*jp = NULL;
	if (!j)
		return;
	atomic_store(&j->stop, true);
	if (j->writer)
		writer_on_inherit(j->writer, NULL, NULL);
	jobs_unref(j);
}

const atomic_bool *jobs_ref(struct jobs *j)
{
	j->refs++;
	return &j->stop;
}

/* --- the end of a run, and of a job that has none */

static void forget(struct jobs *j)
{
	j->job = (struct audit_job){ .log = j->job.log, .idx = j->job.idx };
	j->file.put = false;
	j->tries = 0;
	j->rc = 0;
}

/* It stays intended. */
static void job_failed(struct jobs *j, int rc, const struct err *err)
{
	struct err why = *err;

	if (j->job.log > 0)
		err_wrap(&why, "what record %" PRId64 " of log %" PRId64 " intends", j->job.idx, j->job.log);
	if (!*why.hint)
		err_hint(&why, "it stays intended: the next start goes on with it, and so does the next erase or prune");
	log_err(NULL, "what was begun could not be ended, the next start goes on with it error=%s", why.msg);
	LIST_FOREACH(n, &j->waiting) {
		struct waiter *w = CONTAINER_OF(n, struct waiter, node);

		if (w->rc < 0 || (j->job.log > 0 && w->log != j->job.log))
			continue;
		w->rc = rc;
		w->err = why;
	}
	forget(j);
}

static void run_end(struct jobs *j)
{
	struct commands *admin = j->admin;
	struct list told;

	ev_timer_free(&j->timer);
	free(j->file.store);
	j->file = (struct in_file){ 0 };
	j->job = (struct audit_job){ 0 };
	j->admin = NULL;
	list_init(&told);               /* who comes while they are told begins the next run */
	LIST_FOREACH_SAFE(n, after, &j->waiting) {
		list_unlink(n);
		list_push_back(&told, n);
	}
	LIST_FOREACH_SAFE(n, after, &told) {
		struct waiter *w = CONTAINER_OF(n, struct waiter, node);

		list_unlink(n);
		command_ended(w->c, w->rc < 0 ? &w->err : NULL);
		free(w);
	}
	commands_unref(admin);
	jobs_unref(j);
}

/* Nothing more can be done, for whoever waits. */
static void run_failed(struct jobs *j, int rc, const struct err *err)
{
	j->job = (struct audit_job){ 0 };
	job_failed(j, rc, err);
	run_end(j);
}

/* --- one step */

static int step_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct jobs *j = arg;
	bool done = false;
	int rc = j->job.kind ? 1 : audit_job_next(db, 0, &j->job, err);

	j->over = rc == 0;
	if (rc == 1)
		rc = audit_job_step(logs, db, &j->job, &done, err);
	if (done)
		j->job.kind = 0;
	return rc;
}

/* AUDIT A-509: erased bytes are in no file once the logs have been emptied. */
static int flush_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct jobs *j = arg;
	int rc = audit_erase_flush(logs, db, err);

	if (rc == 0) {
		j->job.flush = false;
		j->job.flushed = true;
	}
	return rc;
}

static int put_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct jobs *j = arg;

	(void)logs;
	return audit_sealed_erase_put(db, &j->file.is, j->file.made, err);
}

static void stepped(void *arg, int rc, const struct err *err);
static void put_done(void *arg, int rc, const struct err *err);

/* The record of the intent speaks for all slices, the last one has a record of its own. */
static const struct writer_job step_job = { .name = "job", .run = step_run, .volatile_only = true, .done = stepped };
static const struct writer_job flush_job = { .name = "job", .run = flush_run, .between = true, .done = stepped };
static const struct writer_job put_job = { .name = "erased file", .run = put_run, .volatile_only = true,
	.done = put_done };

static void submit(struct jobs *j, const struct writer_job *job)
{
	struct writer *writer = commands_env(j->admin)->writer;
	struct err err = { 0 };
	int rc = writer_submit(writer, job, j);

	if (rc == 0)
		return;
	writer_refused(writer, rc, "the next start goes on with it", &err);
	run_failed(j, rc, &err);
}

/* True: the server stops, and the run is over. */
static bool is_closed(struct jobs *j)
{
	struct err err = { 0 };

	if (!commands_closed(j->admin))
		return false;
	run_failed(j, err_set(&err, ERR_CANCELLED, "", "the server is stopping; the next start goes on with it"), &err);
	return true;
}

/* --- sealed files */

static void look(void *arg)
{
	struct jobs *j = arg;
	struct in_file *f = &j->file;
	struct db *db = NULL;

	f->made = false;
	f->rc = forms_open_store(db_of_file(f->store), &db, &f->err);
	if (f->rc == 0 && f->put)
		f->rc = audit_sealed_erase_sync(db, &f->is, &f->err);
	f->put = false;
	if (f->rc == 0)
		f->rc = audit_sealed_erase(db, f->log, f->at, f->floor, &j->stop, &f->is, &f->made, &f->err);
	db_close(&db);
}

static void next(struct jobs *j);

static void note_failed(struct jobs *j, int rc, const struct err *err)
{
	if (j->rc == 0) {
		j->rc = rc;
		j->err = *err;
	}
}

/* The others are done also when one cannot be. */
static void files_end(struct jobs *j)
{
	struct err err = j->err;

	j->job.files = false;
	j->job.flush = true;
	if (j->rc < 0)
		job_failed(j, j->rc, &err);
	next(j);
}

static void looked(void *arg)
{
	struct jobs *j = arg;
	const struct in_file *f = &j->file;

	if (is_closed(j))
		return;
	if (f->rc < 0)
		note_failed(j, f->rc, &f->err);
	if (f->is.to <= j->job.cursor) {        /* none is left, or nobody knows where the next one begins */
		files_end(j);
		return;
	}
	j->job.cursor = f->is.to;
	if (f->rc >= 0 && f->is.bytes > 0)
		submit(j, &put_job);
	else
		next(j);
}

static void put_done(void *arg, int rc, const struct err *err)
{
	struct jobs *j = arg;

	if (rc < 0)
		note_failed(j, rc, err);
	j->file.put = rc == 0;          /* also one whose rename a death left behind */
	if (!is_closed(j))
		next(j);
}

static void look_at_file(struct jobs *j)
{
	const struct command_env *env = commands_env(j->admin);
	struct err err = { 0 };
	int rc;

	j->file.floor = writer_space_floor(env->writer);
	j->file.log = j->job.log;
	j->file.at = j->job.cursor;
	rc = ev_work(env->loop, EV_LANE_SEAL, look, looked, j);
	if (rc < 0)
		run_failed(j, err_set(&err, (enum err_code)rc, "", "too much waits to be sealed or erased"), &err);
}

/* --- one after the other */

/* What is being sealed was read before something was erased. */
static bool waits(struct jobs *j)
{
	if (j->tries == SEAL_TRIES || writer_seal_yield(commands_env(j->admin)->writer))
		return false;
	j->tries++;
	ev_timer_start(j->timer, PAUSE_US);
	return true;
}

static void next(struct jobs *j)
{
	if (j->job.files)
		look_at_file(j);
	else if (!j->job.flush)
		submit(j, &step_job);
	else if (!waits(j))
		submit(j, &flush_job);
}

static void stepped(void *arg, int rc, const struct err *err)
{
	struct jobs *j = arg;

	if (rc == 0 && j->over && !j->again) {
		run_end(j);
		return;
	}
	if (is_closed(j))
		return;
	if (rc < 0 && j->job.kind == 0) {       /* which intent is next cannot be told */
		run_failed(j, rc, err);
		return;
	}
	if (rc == ERR_BUSY && j->job.flush) {
		ev_timer_start(j->timer, PAUSE_US);
		return;
	}
	if (rc < 0)
		job_failed(j, rc, err);
	if (j->over) {
		j->again = j->over = false;
		j->job = (struct audit_job){ 0 };
	}
	if (j->job.kind == 0)
		forget(j);
	next(j);
}

static void on_timer(void *arg)
{
	struct jobs *j = arg;

	if (!is_closed(j))
		next(j);
}

static void run(struct jobs *j, struct commands *a)
{
	j->again = j->admin != NULL;
	if (j->admin)
		return;
	commands_ref(a);
	j->refs++;
	j->admin = a;
	j->over = false;
	j->file.store = path_join(commands_env(a)->store, DB_FILE);
	j->timer = ev_timer_new(commands_env(a)->loop, on_timer, j);
	next(j);
}

void jobs_after(struct command_call *c, int64_t log)
{
	struct waiter *w;

	if (c->undo)
		return;
	c->later = true;
	w = mem_zalloc(sizeof(*w));
	w->c = c;
	w->log = log;
	list_push_back(&command_env(c)->jobs->waiting, &w->node);
	run(command_env(c)->jobs, c->admin);
}

static void inherit(void *arg)
{
	struct commands *a = arg;

	if (!commands_closed(a))
		run(commands_env(a)->jobs, a);
}

void jobs_resume(struct commands *a)
{
	struct writer *w = commands_env(a)->jobs->writer = commands_env(a)->writer;

	drill_clean(commands_env(a)->store);
	writer_on_inherit(w, inherit, a);
	run(commands_env(a)->jobs, a);
}
