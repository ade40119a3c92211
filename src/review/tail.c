/* audit tail, export and export-check: records in the order of their logs, as a stream.  check() runs on the loop;
 * body() on a thread of the pool, once for each part.  A part is one read transaction; the next one is asked for
 * when the client has taken the last (AUDIT A-623, A-1010).  Where each log stands is kept between parts. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/record.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "command/rows.h"

#include "review_int.h"

#define PART_ROWS 500
#define PART_BYTES (1u << 19)           /* a part ends behind the row that reaches this */
#define TAIL_DEFAULT 10
#define LOGS_MAX 100000                 /* that one stream follows */

/* Where the stream stands in a log: the next record to say, and where it ends unless it follows. */
struct place { int64_t log, tenant_id, next, end; char *origin; };

struct tail_job {
	struct report_ask ask;
	struct command_call *c;
	bool follow, bytes, begun;
	int64_t newest;                 /* tail: so many of the records that are there; export: -1 */
	struct place *at;
	size_t n, now;                  /* logs, and which of them comes next */
	int64_t last_log;               /* the newest that is known */
};

static void free_job(void *priv)
{
	struct tail_job *job = priv;

	for (size_t i = 0; i < job->n; i++)
		free(job->at[i].origin);
	free(job->at);
	report_ask_fini(&job->ask);
	free(job);
}

static int new_job(struct command_call *c, struct err *err)
{
	struct tail_job *job = command_priv(c, sizeof(*job));

	c->free_priv = free_job;
	job->c = c;
	job->newest = -1;
	job->follow = arg_given(c, "follow");
	job->ask.report = report_find(command_noun(c), command_verb(c));
	job->ask.way = job->ask.report->way;
	if (job->follow && c->who.embedded) {
		(void)err_set(err, ERR_INVALID, "follow", "there is nothing to follow: no server runs on this store");
		err_hint(err, "start toolcribd, or leave out --follow");
		return ERR_INVALID;
	}
	return report_ask_check(c, &job->ask, err);
}

static int tail_check(struct command_call *c, struct err *err)
{
	int rc = new_job(c, err);

	if (rc == 0)
		((struct tail_job *)c->priv)->newest = arg_uint(c, "number", TAIL_DEFAULT);
	return rc;
}

static int audit_export_check(struct command_call *c, struct err *err)
{
	int rc = new_job(c, err);

	if (rc == 0)
		((struct tail_job *)c->priv)->bytes = true;
	return rc;
}

/* --- where it begins */

/* The argument `cursor`: origin -> next index. */
static int64_t cursor_of(const struct tail_job *job, const char *origin)
{
	const json_t *next = json_object_get(arg_json(job->c, "cursor"), origin);

	return json_is_integer(next) && json_integer_value(next) > 0 ? json_integer_value(next) : 0;
}

/* The first record at or behind since, the end when there is none. */
static int find_since(struct db *db, const struct tail_job *job, struct place *p, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_HEAD_SPAN);
	int rc;

	db_bind_i64(st, 1, p->log);
	db_bind_i64(st, 2, (int64_t)job->ask.since_us);
	db_bind_i64(st, 3, INT64_MAX);
	rc = db_step(st, err);
	if (rc == 1)
		p->next = db_col_type(st, 0) == DB_NULL ? p->end : db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int add_place(struct tail_job *job, struct db *db, int64_t log, int64_t tenant_id, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_HEAD);
	struct place p = { .log = log, .tenant_id = tenant_id };
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	if (rc == 1) {
		p.origin = mem_strdup(db_col_text(st, 0, NULL));
		p.end = db_col_i64(st, 2);
	}
	db_stmt_put(&st);
	if (rc != 1)
		return rc;
	rc = 0;
	if (cursor_of(job, p.origin) > 0)
		p.next = cursor_of(job, p.origin);
	else if (job->newest >= 0 && !job->begun)
		p.next = p.end > job->newest ? p.end - job->newest : 0;
	else if (job->ask.since_us > 0)
		rc = find_since(db, job, &p, err);
	job->at = mem_realloc(job->at, (job->n + 1) * sizeof(*job->at));
	job->at[job->n++] = p;
	job->last_log = log;
	return rc;
}

/* Logs that have come since the last look. */
static int find_logs(struct tail_job *job, struct db *db, struct err *err)
{
	int64_t log = job->last_log, tenant_id = 0;
	int rc;

	if (job->ask.log > 0)
		return job->n > 0 ? 0 : add_place(job, db, job->ask.log, job->ask.tenant_id, err);
	while ((rc = report_next_log(db, &log, &tenant_id, err)) == 0 && log > 0 && job->n < LOGS_MAX) {
		rc = add_place(job, db, log, tenant_id, err);
		if (rc < 0)
			return rc;
	}
	return rc;
}

/* --- what it says */

static int put_bytes(struct reply *o, struct audit_walk *walk, int64_t idx, struct err *err)
{
	struct audit_record rec = { .idx = -1 };
	char *text;
	int rc = 1;

	while (rc == 1 && rec.idx < idx)
		rc = audit_walk_next(walk, &rec, err);
	if (rc < 0 || rec.idx != idx)
		return rc < 0 ? rc : err_set(err, ERR_CORRUPT, "", "record %lld cannot be read twice", (long long)idx);
	text = mem_alloc(text_base64_size(rec.len));
	text_base64(rec.bytes, rec.len, text);
	reply_int(o, "enc", rec.enc);
	reply_hex(o, "leaf", rec.leaf, sizeof(rec.leaf));
	reply_text(o, "bytes", text);
	free(text);
	return 0;
}

static struct db_stmt *next_rows(const struct tail_job *job, struct db *db, const struct place *p)
{
	struct db_stmt *st = db_stmt_get(db, job->bytes ? SQL_REPORT_EXPORT : SQL_REPORT_TAIL);

	db_bind_i64(st, 1, p->log);
	db_bind_i64(st, 2, p->next);
	db_bind_i64(st, 3, job->follow ? INT64_MAX : p->end);
	db_bind_i64(st, 4, PART_ROWS);
	db_bind_i64(st, 5, job->ask.until_us ? (int64_t)job->ask.until_us : INT64_MAX);
	return st;
}

static int put_rows(struct tail_job *job, struct db *db, struct place *p, size_t *ret_rows, struct err *err)
{
	struct audit_walk *walk = job->bytes ? audit_walk_new(db, p->log, p->origin, p->next, INT64_MAX) : NULL;
	struct db_stmt *st = next_rows(job, db, p);
	struct reply *o = job->c->out;
	int rc = 0;

	*ret_rows = 0;
	while (rc == 0 && o->text.len < PART_BYTES && (rc = db_step(st, err)) == 1) {
		int64_t idx = db_col_i64(st, 0);

		reply_row_begin(o);
		report_columns(o, st);
		rc = walk ? put_bytes(o, walk, idx, err) : 0;
		reply_row_end(o);
		p->next = idx + 1;
		++*ret_rows;
	}
	db_stmt_put(&st);
	audit_walk_free(&walk);
	return rc;
}

/* One log with something to say in a part, in turn. */
static int next_part(struct tail_job *job, struct db *db, struct err *err)
{
	for (size_t tried = 0; tried < job->n; tried++) {
		size_t rows = 0;
		int rc = put_rows(job, db, &job->at[job->now], &rows, err);

		if (rc < 0)
			return rc;
		if (rows < PART_ROWS)
			job->now = (job->now + 1) % job->n;
		if (rows > 0) {
			job->c->more = ADM_MORE_NOW;
			return 0;
		}
	}
	job->c->more = job->follow ? ADM_MORE_LATER : ADM_NO_MORE;
	return 0;
}

static const char *const export_more[] = { "enc", "leaf", "bytes", NULL };

static int tail_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct tail_job *job = c->priv;
	struct db_stmt *st;
	struct place none = { 0 };
	int rc = job->begun ? 0 : report_ask_find(db, &job->ask, err);

	(void)logs;
	if (rc == 0 && !job->begun) {
		st = next_rows(job, db, &none);
		rc = report_head(c->out, db, &job->ask, st, job->bytes ? export_more : NULL, err);
		db_stmt_put(&st);
	}
	if (rc == 0 && (!job->begun || job->follow))
		rc = find_logs(job, db, err);
	job->begun = true;
	return rc < 0 ? rc : next_part(job, db, err);
}

/* --- what has not been exported yet */

static void free_ask(void *priv)
{
	report_ask_fini(priv);
	free(priv);
}

#define LAG_MS (10u * 60 * 1000)

static int export_check_check(struct command_call *c, struct err *err)
{
	struct report_ask *ask = command_priv(c, sizeof(*ask));

	c->free_priv = free_ask;
	ask->report = report_find(command_noun(c), command_verb(c));
	ask->way = ask->report->way;
	return report_ask_check(c, ask, err);
}

/* Of one log: a cursor behind its end, or records that wait for too long. */
static int check_log(struct command_call *c, struct db *db, int64_t log, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_EXPORT_CHECK);
	const uint64_t lag_us = 1000 * arg_duration_ms(c, "lag", LAG_MS);
	const json_t *at;
	int64_t size, next, oldest;
	const char *origin;
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	if (rc != 1) {
		db_stmt_put(&st);
		return rc;
	}
	origin = db_col_text(st, 0, NULL);
	size = db_col_i64(st, 1);
	at = json_object_get(arg_json(c, "cursor"), origin);
	next = json_is_integer(at) ? json_integer_value(at) : 0;
	rc = report_record_time(db, log, next, &oldest, err);
	if (rc == 0 && (next > size || (next < size && oldest >= 0 && (uint64_t)oldest + lag_us < clock_wall_us()))) {
		reply_row_begin(c->out);
		reply_text(c->out, "log", origin);
		reply_text(c->out, "finding", next > size ? "exported more than there is: records are missing here" : "not exported");
		reply_int(c->out, "next", next);
		reply_int(c->out, "records", size);
		reply_time(c->out, "since", next > size || oldest < 0 ? 0 : (uint64_t)oldest);
		reply_row_end(c->out);
	}
	db_stmt_put(&st);
	return rc;
}

static int export_check_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	static const char *const columns[] = { "log", "finding", "next", "records", "since", NULL };
	struct report_ask *ask = c->priv;
	int64_t log = 0;
	int rc = report_ask_find(db, ask, err);

	(void)logs;
	if (rc == 0)
		rc = report_head(c->out, db, ask, NULL, columns, err);
	if (rc == 0 && ask->log > 0)
		rc = check_log(c, db, ask->log, err);
	while (rc == 0 && ask->log == 0 && (rc = report_next_log(db, &log, NULL, err)) == 0 && log > 0)
		rc = check_log(c, db, log, err);
	if (c->out->rows > 0)
		c->status = ADM_STATUS_FINDINGS;
	return rc;
}

/* --- rows of the command table */

static const struct command_column tail_cols[] = {
	COL_AT("time", "TIME"), COL("tenant", "TENANT"), COL("kind", "KIND"), COL("tool", "TOOL"),
	COL("principal", "PRINCIPAL"),
	COL("outcome", "OUTCOME"), COL("ms", "MS"), COL("detail", "DETAIL"), COL_END };
#define FOLLOW FLAG("follow", "Go on with what is written from now on, until Ctrl-C.")
static const struct command_arg audit_tail_args[] = {
	REPORT_TENANT_OR("The log of this tenant; default: every log."), FOLLOW,
	OPT("number", "N", ARG_UINT, COMPLETE_NONE, "Begin with so many of the newest records of each log; default 10."),
	REPORT_FORMAT, ARG_END };
static const struct command_arg audit_export_args[] = {
	REPORT_TENANT_OR("The log of this tenant; default: every log."), FOLLOW,
	{ "cursor", "FILE", ARG_CURSOR, true, false, false, COMPLETE_FILE,
	  "Go on where this file says, and keep it up to date; made when it is not there." },
	REPORT_SPAN, OPT("format", "FORMAT", ARG_TEXT, COMPLETE_NONE,
		"jsonl, csv or ocsf (API Activity 6003); default jsonl."), ARG_END };
static const struct command_arg audit_export_check_args[] = {
	{ "cursor", "FILE", ARG_CURSOR, true, true, false, COMPLETE_FILE, "The file of audit export --cursor." },
	OPT("lag", "TIME", ARG_DURATION, COMPLETE_NONE, "How long a record may wait for its export; default 10m."),
	REPORT_TENANT_OR("The log of this tenant; default: every log."), REPORT_FORMAT, ARG_END };

const struct command tail_commands[] = {
	{ .noun = "audit", .verb = "tail", .help = "Show the newest records, and follow", .args = audit_tail_args,
	  .columns = tail_cols, .shape = ADM_REPORT, .stream = true, .role = ADM_AUDIT, .where = ADM_ON_POOL,
	  .record = AUDIT_AUDIT_READ,
	  .check = tail_check, .body = tail_body },
	{ .noun = "audit", .verb = "export", .help = "Write all records, and follow", .args = audit_export_args,
	  .detail = "One object for each record, with the bytes that are hashed.  With --cursor each record is written at "
		    "least once: the file is brought up to date after what it says has been written.",
	  .shape = ADM_REPORT, .stream = true,
	  .role = ADM_AUDIT, .where = ADM_ON_POOL, .record = AUDIT_AUDIT_EXPORT, .check = audit_export_check,
	  .body = tail_body },
	{ .noun = "audit", .verb = "export-check", .help = "List logs whose export stays behind",
	  .args = audit_export_check_args,
	  .detail = "Must be empty: exit status 4 when it is not.  A cursor that is ahead of its log means that records are "
		    "missing in the store.",
	  .shape = ADM_REPORT, .role = ADM_AUDIT, .where = ADM_ON_POOL, .record = AUDIT_AUDIT_READ,
	  .check = export_check_check, .body = export_check_body },
	{ .noun = NULL },
};
