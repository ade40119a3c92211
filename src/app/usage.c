/* What was used of the quotas of the day: from the store at a start, to it each minute and at stop. */
#include "config.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "db/db.h"
#include "db/owner.h"
#include "limit/limit.h"
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
	static const struct writer_job what = { .name = "use of quotas", .run = run, .volatile_only = true, .done = done };
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

		if (scope < 1 || scope > LIMIT_SCOPES)
			continue;
		limit_usage_load(a->limiter, &(struct limit_usage){ .tenant_id = db_col_i64(st, 0), .subject = db_col_i64(st, 2),
			.scope = (enum limit_scope)(scope - 1), .day = day, .calls = (uint64_t)db_col_i64(st, 3),
			.bytes = (uint64_t)db_col_i64(st, 4) });
	}
	db_stmt_put(&st);
	return rc;
}

int app_usage_load(struct app *a, struct err *err)
{
	char *file = path_join(a->store, DB_FILE);
	struct db *db = NULL;
	int rc = db_open(file, DB_READER, false, &db, err);

	free(file);
	if (rc == 0)
		rc = load(a, db, err);
	db_close(&db);
	return rc;
}
