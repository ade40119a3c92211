/* The job runner: erasures and prunes that a record of the audit has promised are driven to their end, slice by
 * slice, with calls in between (AUDIT A-305).  Commands start it behind their answer by jobs_after(), a start of
 * the server by jobs_resume(), which goes on with what a crash has left.  Loop thread; each slice is a job on the
 * writer's. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/erase.h"
#include "audit/keep.h"
#include "base/log.h"
#include "base/mem.h"
#include "ev/ev.h"
#include "keeping/keeping.h"
#include "review/review.h"
#include "toolset/toolset.h"
#include "writer/seal.h"
#include "writer/writer.h"

#include "keeping_int.h"

typedef void jobs_fn(void *arg, const struct err *err);

#define FLUSH_TRIES 100                 /* 10 s: longer than a reader may read (AUDIT A-623) */
#define FLUSH_PAUSE_US 100000

struct job_runner {
	struct commands *admin;            /* counted */
	jobs_fn *done;
	void *arg;
	struct audit_job job;         /* under way, or kind 0 */
	struct ev_timer *again;         /* a reader holds the log of a file */
	unsigned tries;
	bool over;                      /* nothing is left */
	struct err err;
};

static int runner_step(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct job_runner *r = arg;
	bool done = false;
	int rc = r->job.kind ? 1 : audit_job_next(db, 0, &r->job, err);

	r->over = rc == 0;
	if (rc == 1)
		rc = audit_job_step(logs, db, &r->job, &done, err);
	if (rc < 0 || done)
		r->job.kind = 0;
	return rc;
}

/* AUDIT A-509: erased bytes are in no file once the logs have been emptied. */
static int runner_flush(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct job_runner *r = arg;
	int rc = audit_erase_flush(logs, db, err);

	if (rc == ERR_BUSY && r->tries < FLUSH_TRIES)
		return rc;
	r->job.flush = false;
	r->job.flushed = rc == 0;
	return rc;
}

static void runner_end(struct job_runner *r, int rc)
{
	if (rc < 0)
		log_err(NULL, "what was begun could not be ended, the next start goes on with it error=%s", r->err.msg);
	ev_timer_free(&r->again);
	if (r->done)
		r->done(r->arg, rc < 0 ? &r->err : NULL);
	commands_unref(r->admin);
	free(r);
}

static void runner_stepped(void *arg, int rc, const struct err *err);

static void runner_again(void *arg);

/* 1: later.  What is being sealed was read before something was erased. */
static int runner_waits(struct job_runner *r)
{
	if (!r->job.flush || r->tries == FLUSH_TRIES || writer_seal_yield(commands_env(r->admin)->writer))
		return 0;
	r->tries++;
	ev_timer_start(r->again, FLUSH_PAUSE_US);
	return 1;
}

static int runner_next(struct job_runner *r)
{
	/* The record of the intent speaks for all slices, the last one has a record of its own. */
	const struct writer_job step = { .name = "job", .run = runner_step, .volatile_only = true, .done = runner_stepped };
	const struct writer_job flush = { .name = "job", .run = runner_flush, .between = true, .done = runner_stepped };

	if (runner_waits(r))
		return 0;
	return writer_submit(commands_env(r->admin)->writer, r->job.flush ? &flush : &step, r);
}

static void runner_again(void *arg)
{
	runner_stepped(arg, 0, NULL);
}

static void runner_stepped(void *arg, int rc, const struct err *err)
{
	struct job_runner *r = arg;

	if (rc == ERR_BUSY && r->job.flush && !commands_closed(r->admin)) {
		r->tries++;
		ev_timer_start(r->again, FLUSH_PAUSE_US);
		return;
	}
	if (rc < 0 && err)
		r->err = *err;
	if (rc == 0 && !r->over && commands_closed(r->admin))
		rc = err_set(&r->err, ERR_CANCELLED, "", "the server is stopping; the next start goes on with it");
	if (rc == 0 && !r->over) {
		rc = runner_next(r);
		if (rc == 0)
			return;
		writer_refused(commands_env(r->admin)->writer, rc, "the next start goes on with it", &r->err);
	}
	runner_end(r, rc);
}

/* All jobs that are not done, one after the other; done() at the end, or NULL. */
static int jobs_start(struct commands *a, jobs_fn *done, void *arg, struct err *err)
{
	struct job_runner *r = mem_zalloc(sizeof(*r));
	int rc;

	*r = (struct job_runner){ .admin = a, .done = done, .arg = arg };
	r->again = ev_timer_new(commands_env(a)->loop, runner_again, r);
	rc = runner_next(r);
	if (rc < 0) {
		ev_timer_free(&r->again);
		free(r);
		writer_refused(commands_env(a)->writer, rc, "the next start goes on with it", err);
		return rc;
	}
	commands_ref(a);
	return 0;
}

static void runner_ended(void *arg, const struct err *err)
{
	command_ended(arg, err);
}

void jobs_after(struct command_call *c)
{
	struct err err = { 0 };

	if (c->undo)
		return;
	c->later = true;
	if (jobs_start(c->admin, runner_ended, c, &err) < 0)
		command_ended(c, &err);
}

void jobs_resume(struct commands *a)
{
	struct err err = { 0 };

	drill_clean(commands_env(a)->store);
	if (jobs_start(a, NULL, NULL, &err) < 0)
		log_err(NULL, "what was begun cannot be gone on with error=%s", err.msg);
}
