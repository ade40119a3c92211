/* tool-health and stats: the reports that count calls and show their times as percentiles, by tool or by time.  What is
 * counted are sums (forms/forms.h): of a log, or of each step of it, in a transaction of its own (AUDIT A-623). */
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
};

struct stats_job {
	const struct report_ask *ask;
	struct report_out *out;
	struct map *tallies;            /* tool-health: tool -> struct tally */
	struct tally one;               /* stats: of the step that is counted */
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
	struct tally *t;
	const char *tool;

	if (!job->tallies)
		return &job->one;
	if (db_col_type(st, 0) == DB_NULL)
		return NULL;
	tool = db_col_text(st, 0, NULL);
	t = map_get_z(job->tallies, tool);
	if (!t) {
		t = mem_zalloc(sizeof(*t));
		(void)map_set_z(job->tallies, tool, t);
	}
	return t;
}

static struct db_stmt *ask(const struct stats_job *job, struct db *db, enum sql_id id, int64_t log, uint64_t since,
			   uint64_t until)
{
	struct db_stmt *st = db_stmt_get(db, id);

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, (int64_t)since);
	db_bind_i64(st, 3, until && until < INT64_MAX ? (int64_t)until : INT64_MAX);
	db_bind_textz(st, 4, *job->ask->tool ? job->ask->tool : NULL);
	return st;
}

/* What the calls of a span of time came to, by tool or all together. */
static int count_span(struct stats_job *job, struct db *db, int64_t log, uint64_t since, uint64_t until,
		      struct err *err)
{
	struct db_stmt *st;
	struct tally *t;
	int rc = forms_see(db, err);

	if (rc < 0)
		return rc;
	st = ask(job, db, SQL_REPORT_DURATIONS, log, since, until);
	while ((rc = db_step(st, err)) == 1) {
		const uint64_t n = (uint64_t)db_col_i64(st, 3), longest_us = (uint64_t)db_col_i64(st, 4);

		t = tally_of(job, st);
		if (!t)
			continue;
		t->calls += n;
		count_outcome(t, db_col_i64(st, 1), db_col_i64(st, 2), n);
		if (db_col_i64(st, 1) == AUDIT_CALL_END && longest_us > t->longest_us)
			t->longest_us = longest_us;
	}
	db_stmt_put(&st);
	if (rc < 0)
		return rc;
	rc = forms_see(db, err);
	if (rc < 0)
		return rc;
	st = ask(job, db, SQL_REPORT_HISTOGRAM, log, since, until);
	while ((rc = db_step(st, err)) == 1) {
		const int64_t step = db_col_i64(st, 1);

		t = tally_of(job, st);
		if (!t || step < 0 || step >= BUCKETS)
			continue;
		t->timed += (uint64_t)db_col_i64(st, 2);
		t->bucket[step] += (uint64_t)db_col_i64(st, 2);
	}
	db_stmt_put(&st);
	return rc;
}

static void add_tally(struct tally *to, const struct tally *t)
{
	to->calls += t->calls;
	to->ok += t->ok;
	to->errors += t->errors;
	to->timeouts += t->timeouts;
	to->refused += t->refused;
	to->other += t->other;
	to->timed += t->timed;
	to->longest_us = t->longest_us > to->longest_us ? t->longest_us : to->longest_us;
	for (unsigned i = 0; i < BUCKETS; i++)
		to->bucket[i] += t->bucket[i];
}

/* Step by step, unless nothing was called in all of them. */
static int count_steps(struct stats_job *job, struct db *db, int64_t log, struct err *err)
{
	const struct report_ask *a = job->ask;
	int rc = 0;

	for (size_t i = 0; i <= job->slots && rc == 0; i++) {
		const uint64_t since = i == 0 ? a->since_us : a->since_us + (i - 1) * a->step_us;
		const uint64_t until = i == 0 || since + a->step_us > a->until_us ? a->until_us : since + a->step_us;

		memset(&job->one, 0, sizeof(job->one));
		rc = count_span(job, db, log, since, until, err);
		if (rc < 0 || job->one.calls == 0) {
			if (i == 0)
				break;
			continue;
		}
		if (i == 0)
			continue;
		if (!job->slot[i - 1])
			job->slot[i - 1] = mem_zalloc(sizeof(struct tally));
		add_tally(job->slot[i - 1], &job->one);
	}
	return rc;
}

static int walk_log(struct stats_job *job, struct db *db, int64_t log, int64_t tenant_id, struct err *err)
{
	job->out->seen(job->out->arg, tenant_id, -1);
	return job->slot ? count_steps(job, db, log, err)
		: count_span(job, db, log, job->ask->since_us, job->ask->until_us, err);
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
	struct stats_job job = { .ask = ask, .out = out, .tallies = map_new() };
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
