/* When keys were last used, and what was of quotas, to the store: each minute and at stop.  And whose life has ended, on
 * record. */
#include "config.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "ev/ev.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "app_int.h"

#define USED_MAX 256                    /* keys of one job */

struct used_job { size_t n; struct tenant_used used[USED_MAX]; };
struct expiry_job { struct app *app; bool more; };

static int used_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct used_job *job = arg;

	(void)logs;
	return tenant_used_write(db, job->used, job->n, err);
}

static void used_done(void *arg, int rc, const struct err *err)
{
	if (rc < 0)
		log_warn(NULL, "last use of keys not stored why=\"%s\"", err->msg);
	free(arg);
}

static void flush(struct app *a)
{
	static const struct writer_job what = { .name = "last use of keys", .run = used_run, .volatile_only = true,
		.done = used_done };
	size_t n = USED_MAX;

	while (n == USED_MAX) {
		struct used_job *job = mem_alloc(sizeof(*job));

		n = job->n = tenants_dirty(a->tenants, job->used, USED_MAX);
		/* A full queue: these are lost until the keys are used again; nothing depends on them. */
		if (n == 0 || writer_submit(a->writer, &what, job) < 0)
			free(job);
	}
}

/* --- keys that have expired */

static int expiry_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct expiry_job *job = arg;

	return tenant_expired_write(db, logs, &job->more, err);
}

static void record_expired(struct app *a);

static void expiry_done(void *arg, int rc, const struct err *err)
{
	struct expiry_job *job = arg;

	if (rc < 0)
		log_warn(NULL, "expired keys not recorded why=\"%s\"", err->msg);
	else if (job->more && job->app->used)
		record_expired(job->app);
	free(job);
}

static void submit_expiry(struct app *a, const struct writer_job *what)
{
	struct expiry_job *job = mem_zalloc(sizeof(*job));

	job->app = a;
	if (writer_submit(a->writer, what, job) < 0)    /* a full queue: in the next minute */
		free(job);
}

static void record_expired(struct app *a)
{
	static const struct writer_job what = { .name = "expired keys", .run = expiry_run, .done = expiry_done };

	submit_expiry(a, &what);
}

static int look_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct expiry_job *job = arg;

	(void)logs;
	return tenant_expired_find(db, &job->more, err);
}

static void look_for_expired(struct app *a)
{
	static const struct writer_job what = { .name = "look for expired keys", .run = look_run, .volatile_only = true,
		.done = expiry_done };

	submit_expiry(a, &what);
}

static void flush_tick(void *arg)
{
	struct app *a = arg;

	flush(a);
	look_for_expired(a);
	app_usage_flush(a);
	ev_timer_start(a->used, TENANT_USED_FLUSH_MS * 1000ull);
}

void app_used_soon(struct app *a)
{
	ev_timer_start(a->used, 0);
}

int app_used_start(struct app *a, struct err *err)
{
	(void)err;
	a->used = ev_timer_new(a->loop, flush_tick, a);
	ev_timer_start(a->used, TENANT_USED_FLUSH_MS * 1000ull);
	return 0;
}

void app_used_stop(struct app *a)
{
	ev_timer_free(&a->used);
	flush(a);
}
