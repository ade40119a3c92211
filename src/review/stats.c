/* tool-health and stats: the commands that count calls and show their times as percentiles, by tool or by time.
 * check() runs on the loop, body() on a thread of the pool.  The log is walked page by page, oldest first, so that
 * no read transaction lasts (AUDIT A-623). */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "command/rows.h"

#include "review_int.h"

#define PAGE_ROWS 10000
#define SUB 8                           /* steps of a histogram for each power of two */
#define BUCKETS (SUB * 40)              /* up to 2^42 us, seven weeks */
#define SLOTS 48                        /* spans of time that stats aims at */
#define SLOTS_MAX 1000
#define DAY_US 86400000000ull

/* What the calls of a tool, or of a span of time, came to. */
struct tally {
	uint64_t calls, ok, errors, timeouts, refused, other;
	uint64_t longest_us, timed;
	uint32_t bucket[BUCKETS];
};

/* A call as the walk sees it; tool NULL: there was none of that name. */
struct ended { uint64_t ts_us, dur_us; int kind, outcome; const char *tool; };

struct stats_job {
	struct report_ask ask;
	struct command_call *c;
	struct map *tallies;            /* tool-health: tool -> struct tally */
	struct tally **slot;            /* stats: by time; NULL where nothing was called */
	size_t slots;
	uint64_t step_us;
	void (*take)(struct stats_job *job, const struct ended *e);
};

static void free_job(void *priv)
{
	struct stats_job *job = priv;
	void *tally;

	for (size_t it = 0; job->tallies && map_next(job->tallies, &it, NULL, NULL, &tally); )
		free(tally);
	map_free(&job->tallies);
	for (size_t i = 0; i < job->slots; i++)
		free(job->slot[i]);
	free(job->slot);
	report_ask_fini(&job->ask);
	free(job);
}

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
	db_bind_i64(st, 3, job->ask.until_us ? (int64_t)job->ask.until_us : INT64_MAX);
	db_bind_textz(st, 4, *job->ask.tool ? job->ask.tool : NULL);
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
	int64_t ts = (int64_t)job->ask.since_us, idx = -1;
	size_t rows;
	int rc;

	command_seen(job->c, tenant_id, -1);
	do {
		rc = walk_page(job, db, log, &ts, &idx, &rows, err);
	} while (rc == 0 && rows == PAGE_ROWS);
	return rc;
}

static int walk(struct stats_job *job, struct db *db, struct err *err)
{
	int64_t log = 1, tenant_id;     /* the system's log has no calls */
	int rc;

	if (job->ask.log > 0)
		return walk_log(job, db, job->ask.log, job->ask.tenant_id, err);
	while ((rc = report_next_log(db, &log, &tenant_id, err)) == 0 && log > 0) {
		rc = walk_log(job, db, log, tenant_id, err);
		if (rc < 0)
			return rc;
	}
	return rc;
}

static int new_job(struct command_call *c, struct err *err)
{
	struct stats_job *job = command_priv(c, sizeof(*job));

	c->free_priv = free_job;
	job->c = c;
	job->ask.report = report_find(command_noun(c), command_verb(c));
	job->ask.way = job->ask.report->way;
	return report_ask_check(c, &job->ask, err);
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

static int tool_health_check(struct command_call *c, struct err *err)
{
	return new_job(c, err);
}

static int tool_health_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	static const char *const columns[] = { "tool", "calls", "ok", "errors", "timeouts", "refused", "other", "p50_ms",
		"p95_ms",
		"p99_ms", "max_ms", NULL };
	struct stats_job *job = c->priv;
	int rc = report_ask_find(db, &job->ask, err);

	(void)logs;
	job->tallies = map_new();
	job->take = take_by_tool;
	if (rc == 0)
		rc = report_head(c->out, db, &job->ask, NULL, columns, err);
	if (rc == 0)
		rc = walk(job, db, err);
	if (rc == 0)
		put_tools(job, c->out);
	return rc;
}

/* --- stats */

static void take_by_time(struct stats_job *job, const struct ended *e)
{
	size_t i = (size_t)((e->ts_us - job->ask.since_us) / job->step_us);

	if (i >= job->slots)
		return;
	if (!job->slot[i])
		job->slot[i] = mem_zalloc(sizeof(struct tally));
	count_call(job->slot[i], e);
}

/* The smallest round step that makes few enough of the span. */
static uint64_t step_for(uint64_t span_us)
{
	static const unsigned seconds[] = { 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600,
		43200 };

	for (size_t i = 0; i < sizeof(seconds) / sizeof(*seconds); i++)
		if (span_us <= SLOTS * 1000000ull * seconds[i])
			return 1000000ull * seconds[i];
	return (span_us / DAY_US / SLOTS + 1) * DAY_US;
}

static int stats_check(struct command_call *c, struct err *err)
{
	uint64_t now_us = clock_wall_us();
	struct report_ask *ask;
	struct stats_job *job;
	int rc = new_job(c, err);

	if (rc < 0)
		return rc;
	job = c->priv;
	ask = &job->ask;
	if (!ask->until_us)
		ask->until_us = now_us;
	if (!ask->since_us)
		ask->since_us = ask->until_us > DAY_US ? ask->until_us - DAY_US : 0;
	if (ask->until_us <= ask->since_us)
		return err_set(err, ERR_INVALID, "until", "--until is not after --since");
	job->step_us = 1000 * arg_duration_ms(c, "step", 0);
	if (job->step_us == 0)
		job->step_us = step_for(ask->until_us - ask->since_us);
	ask->since_us -= ask->since_us % job->step_us;
	if ((ask->until_us - ask->since_us) / job->step_us >= SLOTS_MAX)
		return err_set(err, ERR_LIMIT, "step", "more than %d steps: make --step longer", SLOTS_MAX);
	job->slots = (size_t)((ask->until_us - ask->since_us - 1) / job->step_us) + 1;
	job->slot = mem_calloc(job->slots, sizeof(*job->slot));
	return 0;
}

static int stats_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	static const char *const columns[] = { "time", "calls", "ok", "errors", "timeouts", "refused", "other", "p50_ms",
		"p95_ms",
		"p99_ms", "max_ms", NULL };
	struct stats_job *job = c->priv;
	struct tally none = { 0 };
	int rc = report_ask_find(db, &job->ask, err);

	(void)logs;
	job->take = take_by_time;
	if (rc == 0)
		rc = report_head(c->out, db, &job->ask, NULL, columns, err);
	if (rc == 0)
		rc = walk(job, db, err);
	for (size_t i = 0; rc == 0 && i < job->slots; i++) {
		reply_row_begin(c->out);
		reply_time(c->out, "time", job->ask.since_us + i * job->step_us);
		put_counts(c->out, job->slot[i] ? job->slot[i] : &none);
		reply_row_end(c->out);
	}
	return rc;
}

/* --- rows of the command table */

static const struct command_column tool_health_cols[] = {
	COL("tool", "TOOL"), COL("calls", "CALLS"), COL("ok", "OK"), COL("errors", "ERRORS"), COL("timeouts", "TIMEOUTS"),
	COL("refused", "REFUSED"), COL("other", "OTHER"), COL("p50_ms", "P50 MS"), COL("p95_ms", "P95 MS"),
	COL("p99_ms", "P99 MS"), COL("max_ms", "MAX MS"), COL_END };
static const struct command_column stats_cols[] = {
	COL_AT("time", "TIME"), COL("calls", "CALLS"), COL("errors", "ERRORS"), COL("timeouts", "TIMEOUTS"),
	COL("refused", "REFUSED"), COL("p50_ms", "P50 MS"), COL("p95_ms", "P95 MS"), COL("p99_ms", "P99 MS"), COL_END };
static const struct command_arg audit_tool_health_args[] = {
	REPORT_TENANT, REPORT_SPAN, OPT("tool", "TOOL", ARG_TEXT, COMPLETE_TOOL, "This tool alone, as the tenant sees it."),
	REPORT_FORMAT, ARG_END };
static const struct command_arg audit_stats_args[] = {
	REPORT_TENANT_OR("Calls of this tenant; default: of all."), REPORT_TOOL, REPORT_SPAN,
	OPT("step", "TIME", ARG_DURATION, COMPLETE_NONE,
		"How much time a line stands for: 1m, 1h; default: what gives some 48."),
	REPORT_FORMAT, ARG_END };

const struct command tool_health_commands[] = {
	{ .noun = "audit", .verb = "tool-health", .help = "Count a tenant's calls, failures and times by tool",
	  .args = audit_tool_health_args,
	  .detail = "P50, P95 and P99 are the times within which so many of a hundred of the calls that ran had ended: "
		    "upper bounds, an eighth too large at most.",
	  .columns = tool_health_cols, .shape = ADM_REPORT, .role = ADM_AUDIT, .where = ADM_ON_POOL,
	  .record = AUDIT_AUDIT_READ,
	  .check = tool_health_check, .body = tool_health_body },
	{ .noun = NULL },
};

const struct command stats_commands[] = {
	{ .noun = "audit", .verb = "stats", .help = "Chart calls, errors and times", .args = audit_stats_args,
	  .detail = "Of the last day, when no time is given.  Bars are calls, their end in another sign those that failed "
		    "or were refused.",
	  .columns = stats_cols, .shape = ADM_CHART, .role = ADM_AUDIT, .where = ADM_ON_POOL, .record = AUDIT_AUDIT_READ,
	  .check = stats_check, .body = stats_body },
	{ .noun = NULL },
};
