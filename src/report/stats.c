/* tool-health and stats: the reports that count calls and show their times as percentiles, by tool or by time.  The log
 * is walked page by page, oldest first, so that no read transaction lasts (AUDIT A-623). */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "db/db.h"

#include "report_int.h"

#define PAGE_ROWS 10000
#define SUB 8                           /* steps of a histogram for each power of two */
#define BUCKETS (SUB * 40)              /* up to 2^42 us, seven weeks */

/* What the calls of a tool, or of a span of time, came to. */
struct tally {
	uint64_t calls, ok, errors, timeouts, refused, other;
	uint64_t longest_us, timed;
	uint32_t bucket[BUCKETS];
};

/* A call as the walk sees it; tool NULL: there was none of that name. */
struct ended { uint64_t ts_us, dur_us; int kind, outcome; const char *tool; };

struct stats_job {
	const struct report_ask *ask;
	struct report_out *out;
	struct map *tallies;            /* tool-health: tool -> struct tally */
	struct tally **slot;            /* stats: by time; NULL where nothing was called */
	size_t slots;
	void (*take)(struct stats_job *job, const struct ended *e);
};

/* --- histograms: a step is an eighth of its power of two */

static unsigned bucket_of(uint64_t us)
{
	unsigned power, n;

	if (us < 2 * SUB)
		return (unsigned)us;
	power = 63 - (unsigned)__builtin_clzll(us);
	n = (power - 3) * SUB + (unsigned)(us >> (power - 3) & (SUB - 1)) + SUB;
	return n < BUCKETS ? n : BUCKETS - 1;
}

static uint64_t bucket_end(unsigned n)
{
	unsigned power = n / SUB + 2;

	if (n < 2 * SUB)
		return n;
	return ((uint64_t)(SUB + n % SUB) + 1) << (power - 3);
}

/* An upper bound of the time that so many of a hundred calls took, an eighth too large at most. */
static uint64_t percentile_us(const struct tally *t, unsigned percent)
{
	uint64_t seen = 0;

	for (unsigned n = 0; n < BUCKETS; n++) {
		seen += t->bucket[n];
		if (t->timed > 0 && seen * 100 >= t->timed * percent)
			return bucket_end(n) < t->longest_us ? bucket_end(n) : t->longest_us;
	}
	return 0;
}

static void count_outcome(struct tally *t, const struct ended *e)
{
	static const char refused[] = { AUDIT_INVALID, AUDIT_DENIED, AUDIT_RATE_LIMITED, AUDIT_OVERLOAD };

	if (e->kind == AUDIT_CALL_DENIED || memchr(refused, e->outcome, sizeof(refused)))
		t->refused++;
	else if (e->outcome == AUDIT_OK || e->outcome == AUDIT_INPUT_REQUIRED)
		t->ok++;
	else if (e->outcome == AUDIT_TOOL_ERROR)
		t->errors++;
	else if (e->outcome == AUDIT_TIMEOUT)
		t->timeouts++;
	else
		t->other++;
}

static void count_call(struct tally *t, const struct ended *e)
{
	t->calls++;
	count_outcome(t, e);
	if (e->kind != AUDIT_CALL_END)
		return;
	t->timed++;
	t->bucket[bucket_of(e->dur_us)]++;
	if (e->dur_us > t->longest_us)
		t->longest_us = e->dur_us;
}

/* --- the walk */

static int walk_page(struct stats_job *job, struct db *db, int64_t log, int64_t *ts, int64_t *idx, size_t *ret_rows,
		     struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_DURATIONS);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, *ts);
	db_bind_i64(st, 3, job->ask->until_us ? (int64_t)job->ask->until_us : INT64_MAX);
	db_bind_textz(st, 4, *job->ask->tool ? job->ask->tool : NULL);
	db_bind_null(st, 5);
	db_bind_null(st, 6);
	db_bind_null(st, 7);
	db_bind_i64(st, 8, PAGE_ROWS);
	db_bind_i64(st, 9, *ts);
	db_bind_i64(st, 10, *idx);
	for (*ret_rows = 0; (rc = db_step(st, err)) == 1; ++*ret_rows) {
		struct ended e = { (uint64_t)db_col_i64(st, 0), (uint64_t)db_col_i64(st, 4), (int)db_col_i64(st, 2),
			(int)db_col_i64(st, 3), db_col_type(st, 5) == DB_NULL ? NULL : db_col_text(st, 5, NULL) };

		*ts = db_col_i64(st, 0);
		*idx = db_col_i64(st, 1);
		job->take(job, &e);
	}
	db_stmt_put(&st);
	return rc;
}

static int walk_log(struct stats_job *job, struct db *db, int64_t log, int64_t tenant_id, struct err *err)
{
	int64_t ts = (int64_t)job->ask->since_us, idx = -1;
	size_t rows;
	int rc;

	job->out->seen(job->out->arg, tenant_id, -1);
	do {
		rc = walk_page(job, db, log, &ts, &idx, &rows, err);
	} while (rc == 0 && rows == PAGE_ROWS);
	return rc;
}

static int walk(struct stats_job *job, struct db *db, struct err *err)
{
	int64_t log = 1, tenant_id;     /* the system's log has no calls */
	int rc;

	if (job->ask->log > 0)
		return walk_log(job, db, job->ask->log, job->ask->tenant_id, err);
	while ((rc = report_next_log(db, &log, &tenant_id, err)) == 0 && log > 0) {
		rc = walk_log(job, db, log, tenant_id, err);
		if (rc < 0)
			return rc;
	}
	return rc;
}

static void put_counts(struct reply *o, const struct tally *t)
{
	reply_int(o, "calls", (int64_t)t->calls);
	reply_int(o, "ok", (int64_t)t->ok);
	reply_int(o, "errors", (int64_t)t->errors);
	reply_int(o, "timeouts", (int64_t)t->timeouts);
	reply_int(o, "refused", (int64_t)t->refused);
	reply_int(o, "other", (int64_t)t->other);
	reply_ms(o, "p50_ms", percentile_us(t, 50));
	reply_ms(o, "p95_ms", percentile_us(t, 95));
	reply_ms(o, "p99_ms", percentile_us(t, 99));
	reply_ms(o, "max_ms", t->longest_us);
}

/* --- tool-health */

static void take_by_tool(struct stats_job *job, const struct ended *e)
{
	struct tally *t;

	if (!e->tool)
		return;
	t = map_get_z(job->tallies, e->tool);
	if (!t) {
		t = mem_zalloc(sizeof(*t));
		(void)map_set_z(job->tallies, e->tool, t);
	}
	count_call(t, e);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void put_tools(struct stats_job *job, struct reply *o)
{
	size_t n = 0, count = map_count(job->tallies), len;
	char **names = mem_calloc(count ? count : 1, sizeof(*names));
	const void *key;

	for (size_t it = 0; map_next(job->tallies, &it, &key, &len, NULL); )
		names[n++] = mem_strndup(key, len);
	qsort(names, n, sizeof(*names), by_name);
	for (size_t i = 0; i < n; i++) {
		reply_row_begin(o);
		reply_text(o, "tool", names[i]);
		put_counts(o, map_get_z(job->tallies, names[i]));
		reply_row_end(o);
		free(names[i]);
	}
	free(names);
}

int report_tool_health(struct report_out *out, struct db *db, struct report_ask *ask, struct err *err)
{
	static const char *const columns[] = { "tool", "calls", "ok", "errors", "timeouts", "refused", "other", "p50_ms",
		"p95_ms",
		"p99_ms", "max_ms", NULL };
	struct stats_job job = { .ask = ask, .out = out, .tallies = map_new(), .take = take_by_tool };
	int rc = report_head(out->reply, db, ask, NULL, columns, err);
	void *tally;

	if (rc == 0)
		rc = walk(&job, db, err);
	if (rc == 0)
		put_tools(&job, out->reply);
	for (size_t it = 0; map_next(job.tallies, &it, NULL, NULL, &tally); )
		free(tally);
	map_free(&job.tallies);
	return rc;
}

/* --- stats */

static void take_by_time(struct stats_job *job, const struct ended *e)
{
	size_t i = (size_t)((e->ts_us - job->ask->since_us) / job->ask->step_us);

	if (i >= job->slots)
		return;
	if (!job->slot[i])
		job->slot[i] = mem_zalloc(sizeof(struct tally));
	count_call(job->slot[i], e);
}

int report_stats(struct report_out *out, struct db *db, struct report_ask *ask, struct err *err)
{
	static const char *const columns[] = { "time", "calls", "ok", "errors", "timeouts", "refused", "other", "p50_ms",
		"p95_ms",
		"p99_ms", "max_ms", NULL };
	struct stats_job job = { .ask = ask, .out = out, .take = take_by_time };
	struct tally none = { 0 };
	int rc = report_head(out->reply, db, ask, NULL, columns, err);

	job.slots = (size_t)((ask->until_us - ask->since_us - 1) / ask->step_us) + 1;
	job.slot = mem_calloc(job.slots, sizeof(*job.slot));
	if (rc == 0)
		rc = walk(&job, db, err);
	for (size_t i = 0; rc == 0 && i < job.slots; i++) {
		reply_row_begin(out->reply);
		reply_time(out->reply, "time", ask->since_us + i * ask->step_us);
		put_counts(out->reply, job.slot[i] ? job.slot[i] : &none);
		reply_row_end(out->reply);
	}
	for (size_t i = 0; i < job.slots; i++)
		free(job.slot[i]);
	free(job.slot);
	return rc;
}
