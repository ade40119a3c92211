/* What was used, to the store each minute and at stop: the quotas of the day, and when each key was used last.
 * Expired keys are recorded by the same clock, by the keeper of the store.  Loop thread, jobs on the writer's. */

#include "config.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "db/db.h"
#include "ev/ev.h"
#include "limit/limit.h"
#include "tenant/tenant.h"
#include "writer/writer.h"

#include "app_int.h"

#define USAGE_MAX 256                   /* rows of one job */

struct usage_job { size_t n; struct limit_usage row[USAGE_MAX]; };

/* In the store a scope is one more than in memory: 0 is none. */
static int put(struct db *db, const struct limit_usage *u, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_USAGE_PUT);

	db_bind_i64(st, 1, u->tenant_id);
	db_bind_i64(st, 2, (int64_t)u->scope + 1);
	db_bind_i64(st, 3, u->subject);
	db_bind_i64(st, 4, (int64_t)u->day);
	db_bind_i64(st, 5, (int64_t)u->calls);
	db_bind_i64(st, 6, (int64_t)u->bytes);
	return db_run(&st, err);
}

static int run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct usage_job *job = arg;
	int rc = 0;

	(void)logs;
	for (size_t i = 0; i < job->n && rc == 0; i++)
		rc = put(db, &job->row[i], err);
	return rc;
}

static void done(void *arg, int rc, const struct err *err)
{
	if (rc < 0)
		log_warn(NULL, "use of quotas not stored why=\"%s\"", err->msg);
	free(arg);
}

void app_usage_flush(struct app *a)
{
	static const struct writer_job what = { .name = "use of quotas", .run = run, .volatile_only = true,
						.done = done };
	size_t n = USAGE_MAX;

	while (a->limiter && n == USAGE_MAX) {
		struct usage_job *job = mem_alloc(sizeof(*job));

		n = job->n = limit_usage_dirty(a->limiter, job->row, USAGE_MAX);
		/* A full queue: stored when there are calls again. */
		if (n == 0 || writer_submit(a->writer, &what, job) < 0)
			free(job);
	}
}

static int load(struct app *a, struct db *db, struct err *err)
{
	const uint64_t day = clock_wall_us() / LIMIT_DAY_US;
	struct db_stmt *st = db_stmt_get(db, SQL_USAGE_OF_DAY);
	int rc;

	db_bind_i64(st, 1, (int64_t)day);
	while ((rc = db_step(st, err)) == 1) {
		const int64_t scope = db_col_i64(st, 1);

		if (scope < 1 || scope > LIMIT_AUDIT + 1)
			continue;
		limit_usage_load(a->limiter,
				 &(struct limit_usage){ .tenant_id = db_col_i64(st, 0), .subject = db_col_i64(st, 2),
			.scope = (enum limit_scope)(scope - 1), .day = day, .calls = (uint64_t)db_col_i64(st, 3),
			.bytes = (uint64_t)db_col_i64(st, 4) });
	}
	db_stmt_put(&st);
	return rc;
}

int app_usage_load(struct app *a, struct err *err)
{
	return load(a, a->reader, err);
}

/* --- When keys were last used, and what was of quotas, to the store */

/* Each minute and at stop.  And whose life has ended, on record. */

#define USED_MAX 256                    /* keys of one job */
#define EXPIRING_US 600000000ull        /* between two counts of those that will expire */

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

	if (writer_keeps(a->writer))
		submit_expiry(a, &what);
}

/* --- keys that will expire, for scrapers */

static int expiring_run(void *arg, struct db *db, struct audit_logs *logs, struct err *err)
{
	static const enum metric_id gauges[TENANT_EXPIRING] = { METRIC_keys_expiring_day, METRIC_keys_expiring_week,
		METRIC_keys_expiring_fortnight };
	uint64_t n[TENANT_EXPIRING];
	int rc = tenant_expiring_count(db, n, err);

	for (unsigned i = 0; i < TENANT_EXPIRING && rc == 0; i++)
		metric_set(gauges[i], n[i]);
	return rc;
}

static void expiring_done(void *arg, int rc, const struct err *err)
{
	if (rc < 0)
		log_warn(NULL, "keys that will expire not counted why=\"%s\"", err->msg);
}

static void count_expiring(struct app *a)
{
	static const struct writer_job what = { .name = "keys that will expire", .run = expiring_run, .volatile_only = true,
		.done = expiring_done };

	if (a->opt.profile != APP_DAEMON || clock_mono_us() < a->expiring_due_us)
		return;
	/* A full queue: in the next minute. */
	if (writer_submit(a->writer, &what, a) == 0)
		a->expiring_due_us = clock_mono_us() + EXPIRING_US;
}

static void flush_tick(void *arg)
{
	struct app *a = arg;

	flush(a);
	count_expiring(a);
	app_tallies_sweep(a);
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
	count_expiring(a);
	a->used = ev_timer_new(a->loop, flush_tick, a);
	ev_timer_start(a->used, TENANT_USED_FLUSH_MS * 1000ull);
	return 0;
}

void app_used_stop(struct app *a)
{
	ev_timer_free(&a->used);
	flush(a);
}
