/* tool-health and stats: the reports that count calls and show their times as percentiles, by tool or by time.  What is
 * counted are sums (forms/forms.h), each log in a transaction of its own (AUDIT A-623). */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "db/db.h"
#include "forms/forms.h"

#include "report_int.h"

#define SUB 8                           /* steps of a histogram for each power of two */
#define BUCKETS (SUB * 40)              /* up to 2^42 us, seven weeks */

/* What the calls of a tool, or of a span of time, came to. */
struct tally {
	uint64_t calls, ok, errors, timeouts, refused, other;
	uint64_t longest_us, timed;
	uint32_t bucket[BUCKETS];
	int64_t tool;                   /* tool-health: its id in the dictionary, and its name */
	char *name;
};

struct stats_job {
	const struct report_ask *ask;
	struct report_out *out;
	struct map *tallies;            /* tool-health: id of the tool -> struct tally */
	struct tally **slot;            /* stats: by time; NULL where nothing was called */
	size_t slots;
};

/* --- histograms: a step is an eighth of its power of two */

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

static void count_outcome(struct tally *t, int64_t kind, int64_t outcome, uint64_t n)
{
	if (kind == AUDIT_CALL_DENIED || outcome == AUDIT_INVALID || outcome == AUDIT_DENIED ||
	    outcome == AUDIT_RATE_LIMITED || outcome == AUDIT_OVERLOAD)
		t->refused += n;
	else if (outcome == AUDIT_OK || outcome == AUDIT_INPUT_REQUIRED)
		t->ok += n;
	else if (outcome == AUDIT_TOOL_ERROR)
		t->errors += n;
	else if (outcome == AUDIT_TIMEOUT)
		t->timeouts += n;
	else
		t->other += n;
}

/* --- the sums */

static struct tally *tally_of(struct stats_job *job, struct db_stmt *st)
{
	const int64_t what = db_col_i64(st, 0);
	struct tally *t;

	if (job->slot) {
		struct tally **at = (uint64_t)what < job->slots ? &job->slot[what] : NULL;

		if (at && !*at)
			*at = mem_zalloc(sizeof(**at));
		return at ? *at : NULL;
	}
	if (db_col_type(st, 0) == DB_NULL)
		return NULL;
	t = map_get_u64(job->tallies, (uint64_t)what);
	if (!t) {
		t = mem_zalloc(sizeof(*t));
		t->tool = what;
		(void)map_set_u64(job->tallies, (uint64_t)what, t);
	}
	return t;
}

/* Calls of a kind and outcome, or those that took so long. */
static void add_row(struct tally *t, struct db_stmt *st)
{
	const int64_t kind = db_col_i64(st, 1), step = db_col_i64(st, 3);
	const uint64_t n = (uint64_t)db_col_i64(st, 4), longest_us = (uint64_t)db_col_i64(st, 5);

	if (db_col_type(st, 3) == DB_NULL) {
		t->calls += n;
		count_outcome(t, kind, db_col_i64(st, 2), n);
		if (kind == AUDIT_CALL_END && longest_us > t->longest_us)
			t->longest_us = longest_us;
	} else if (step >= 0 && step < BUCKETS) {
		t->timed += n;
		t->bucket[step] += (uint32_t)n;
	}
}

/* What the calls of a log came to, by tool or by time, in one pass. */
static int count_log(struct stats_job *job, struct db *db, int64_t log, int64_t tenant_id, struct err *err)
{
	const struct report_ask *a = job->ask;
	struct db_stmt *st;
	int rc = forms_see(db, err);

	if (rc < 0)
		return rc;
	job->out->seen(job->out->arg, tenant_id, -1);
	st = db_stmt_get(db, a->way->sql);
	report_bind(st, a, log, 0, INT64_MAX, 0);
	if (job->slot)
		db_bind_i64(st, 12, (int64_t)a->step_us);
	while ((rc = db_step(st, err)) == 1) {
		struct tally *t = tally_of(job, st);

		if (t)
			add_row(t, st);
	}
	db_stmt_put(&st);
	return rc;
}

static int walk(struct stats_job *job, struct db *db, struct err *err)
{
	int64_t log = 1, tenant_id;     /* the system's log has no calls */
	int rc;

	if (job->ask->log > 0)
		return count_log(job, db, job->ask->log, job->ask->tenant_id, err);
	while ((rc = report_next_log(db, &log, &tenant_id, err)) == 0 && log > 0) {
		rc = count_log(job, db, log, tenant_id, err);
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

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct tally *const *)a)->name, (*(struct tally *const *)b)->name);
}

static int find_name(struct db *db, struct tally *t, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_WORD);
	int rc;

	db_bind_i64(st, 1, t->tool);
	rc = db_step(st, err);
	if (rc >= 0)
		t->name = mem_strdup(rc == 1 ? db_col_text(st, 0, NULL) : "");
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int put_tools(struct stats_job *job, struct db *db, struct reply *o, struct err *err)
{
	size_t n = 0, count = map_count(job->tallies);
	struct tally **all = mem_calloc(count ? count : 1, sizeof(*all));
	void *tally;
	int rc = 0;

	for (size_t it = 0; rc == 0 && map_next(job->tallies, &it, NULL, NULL, &tally);) {
		all[n++] = tally;
		rc = find_name(db, tally, err);
	}
	if (rc == 0)
		qsort(all, n, sizeof(*all), by_name);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		reply_row_begin(o);
		reply_text(o, "tool", all[i]->name);
		put_counts(o, all[i]);
		reply_row_end(o);
	}
	free(all);
	return rc;
}

int report_tool_health(struct report_out *out, struct db *db, struct report_ask *ask, struct err *err)
{
	static const char *const columns[] = { "tool", "calls", "ok", "errors", "timeouts", "refused", "other", "p50_ms",
		"p95_ms",
		"p99_ms", "max_ms", NULL };
	struct stats_job job = { .ask = ask, .out = out, .tallies = map_new() };
	int rc = report_head(out->reply, db, ask, NULL, columns, err);
	void *tally;

	if (rc == 0)
		rc = walk(&job, db, err);
	if (rc == 0)
		rc = put_tools(&job, db, out->reply, err);
	for (size_t it = 0; map_next(job.tallies, &it, NULL, NULL, &tally);) {
		free(((struct tally *)tally)->name);
		free(tally);
	}
	map_free(&job.tallies);
	return rc;
}

/* --- stats */

int report_stats(struct report_out *out, struct db *db, struct report_ask *ask, struct err *err)
{
	static const char *const columns[] = { "time", "calls", "ok", "errors", "timeouts", "refused", "other", "p50_ms",
		"p95_ms",
		"p99_ms", "max_ms", NULL };
	struct stats_job job = { .ask = ask, .out = out };
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
