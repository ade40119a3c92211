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
#include "writer/writer.h"

#include "keeping_int.h"

typedef void jobs_fn(void *arg, const struct err *err);

#define FLUSH_TRIES 100                 /* 10 s: longer than a reader may read (AUDIT A-623) */
#define FLUSH_PAUSE_US 100000

struct course {
	struct commands *admin;            /* counted */
	jobs_fn *done;
	void *arg;
	struct audit_job deed;         /* under way, or kind 0 */
	struct ev_timer *again;         /* a reader holds the log of a file */
	unsigned tries;
	bool over;                      /* nothing is left */
	struct err err;
};

static int course_step(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct course *c = arg;
	bool done = false;
	int rc = c->deed.kind ? 1 : audit_job_next(db, 0, &c->deed, err);

	c->over = rc == 0;
	if (rc == 1)
		rc = audit_job_step(logs, db, &c->deed, &done, err);
	if (rc < 0 || done)
		c->deed.kind = 0;
	return rc;
}

/* AUDIT A-509: erased bytes are in no file once the logs have been emptied. */
static int course_flush(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct course *c = arg;
	int rc = audit_erase_flush(logs, db, err);

	if (rc == ERR_BUSY && c->tries < FLUSH_TRIES)
		return rc;
	c->deed.flush = false;
	c->deed.flushed = rc == 0;
	return rc;
}

static void course_end(struct course *c, int rc)
{
	if (rc < 0)
		log_err(NULL, "what was begun could not be ended, the next start goes on with it error=%s", c->err.msg);
	ev_timer_free(&c->again);
	if (c->done)
		c->done(c->arg, rc < 0 ? &c->err : NULL);
	commands_unref(c->admin);
	free(c);
}

static void course_stepped(void *arg, int rc, const struct err *err);

static int course_next(struct course *c)
{
	/* The record of the intent speaks for all slices, the last one has a record of its own. */
	const struct writer_job step = { .name = "course", .run = course_step, .volatile_only = true, .done = course_stepped };
	const struct writer_job flush = { .name = "course", .run = course_flush, .between = true, .done = course_stepped };

	return writer_submit(commands_env(c->admin)->writer, c->deed.flush ? &flush : &step, c);
}

static void course_again(void *arg)
{
	course_stepped(arg, 0, NULL);
}

static void course_stepped(void *arg, int rc, const struct err *err)
{
	struct course *c = arg;

	if (rc == ERR_BUSY && c->deed.flush && !commands_closed(c->admin)) {
		c->tries++;
		ev_timer_start(c->again, FLUSH_PAUSE_US);
		return;
	}
	if (rc < 0 && err)
		c->err = *err;
	if (rc == 0 && !c->over && commands_closed(c->admin))
		rc = err_set(&c->err, ERR_CANCELLED, "", "the server is stopping; the next start goes on with it");
	if (rc == 0 && !c->over) {
		rc = course_next(c);
		if (rc == 0)
			return;
		(void)err_set(&c->err, (enum err_code)rc, "", "too much is waiting to be written; the next start goes on with it");
	}
	course_end(c, rc);
}

/* All deeds that are not done, one after the other; done() at the end, or NULL. */
static int jobs_start(struct commands *a, jobs_fn *done, void *arg, struct err *err)
{
	struct course *c = mem_zalloc(sizeof(*c));
	int rc;

	*c = (struct course){ .admin = a, .done = done, .arg = arg };
	c->again = ev_timer_new(commands_env(a)->loop, course_again, c);
	rc = course_next(c);
	if (rc < 0) {
		ev_timer_free(&c->again);
		free(c);
		return err_set(err, (enum err_code)rc, "", "too much is waiting to be written; the next start goes on with it");
	}
	commands_ref(a);
	return 0;
}

static void course_ended(void *arg, const struct err *err)
{
	command_ended(arg, err);
}

void jobs_after(struct command_call *c)
{
	struct err err = { 0 };

	if (c->undo)
		return;
	c->later = true;
	if (jobs_start(c->admin, course_ended, c, &err) < 0)
		command_ended(c, &err);
}

void jobs_resume(struct commands *a)
{
	struct err err = { 0 };

	drill_clean(commands_env(a)->store);
	if (jobs_start(a, NULL, NULL, &err) < 0)
		log_err(NULL, "what was begun cannot be gone on with error=%s", err.msg);
}
