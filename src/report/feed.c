/* audit tail, export and export-check: records in the order of their logs, as a stream.  A part is one read transaction
 * (AUDIT A-623, A-1010).  Where each log stands is kept between parts. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/record.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "forms/forms.h"

#include "report_int.h"

#define PART_ROWS 500
#define PART_BYTES (1u << 19)           /* a part ends behind the row that reaches this */
#define LOGS_MAX 100000                 /* that one stream follows */
#define SECOND_US 1000000

/* Where the stream stands in a log: the next record to say, and where it ends unless it follows. */
struct place {
	int64_t log, tenant_id, next, end;
	int64_t width;                  /* positions that are looked at next, when not all records are wanted */
	char *origin;
};

struct report_feed {
	struct report_ask *ask;
	struct report_texts *texts;
	bool bytes, begun;
	bool chosen;                    /* not all records are wanted */
	struct place *at;
	size_t n, now;                  /* logs, and which of them comes next */
	int64_t last_log;               /* the newest that is known */
	uint64_t second_us;             /* when this second of a rate began; clock_mono_us() */
	int64_t said, left_out;         /* records in it */
};

/* How many rows the next part may have. */
static int64_t room(const struct report_feed *job)
{
	const int64_t left = job->ask->rate - job->said;

	return job->ask->rate == 0 || left > PART_ROWS ? PART_ROWS : left;
}

/* --- where it begins */

static int64_t cursor_of(const struct report_feed *job, const char *origin)
{
	const json_t *next = json_object_get(job->ask->cursor, origin);

	return json_is_integer(next) && json_integer_value(next) > 0 ? json_integer_value(next) : 0;
}

/* The first record at or behind since, the end when there is none. */
static int find_since(struct db *db, const struct report_feed *job, struct place *p, struct err *err)
{
	int64_t last;
	int rc = report_span(db, p->log, (int64_t)job->ask->since_us, INT64_MAX, &p->next, &last, err);

	if (rc == 0)
		p->next = p->end;
	return rc < 0 ? rc : 0;
}

/* Behind the last one before until.  Of a store with blocks: rows have no index that says it. */
static int find_until(struct db *db, const struct report_feed *job, struct place *p, struct err *err)
{
	int64_t first, last = -1;
	int rc;

	if (job->ask->until_us == 0 || job->ask->until_us > INT64_MAX || job->ask->follow || !forms_seen(db))
		return 0;
	rc = report_edges(db, p->log, 0, (int64_t)job->ask->until_us, &first, &last, err);
	if (rc >= 0 && last + 1 < p->end)
		p->end = last + 1;
	return rc < 0 ? rc : 0;
}

/* Another part: the next one when nothing was in this, a narrower one when something may be. */
static int64_t next_width(int64_t width, bool found)
{
	if (!found)
		return width < INT64_MAX / 8 ? 4 * width : width;
	return width / 4 > REPORT_LOOK ? width / 4 : REPORT_LOOK;
}

/* Of the records of a part that are wanted the newest ones, *left at most. */
static int newest_in(const struct report_feed *job, struct db *db, struct place *p, int64_t low, int64_t below,
		     int64_t *left, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_NEWEST_CHOSEN);
	int rc;

	report_bind(st, job->ask, p->log, low, below, *left);
	db_bind_i64(st, 12, job->ask->kind);
	while ((rc = db_step(st, err)) == 1) {
		p->next = db_col_i64(st, 0);
		--*left;
	}
	db_stmt_put(&st);
	return rc;
}

/* Where the newest ones begin that are wanted; the end when there are none. */
static int find_newest(const struct report_feed *job, struct db *db, struct place *p, struct err *err)
{
	int64_t below = p->end, width = REPORT_LOOK, left = job->ask->newest;
	int rc = 0;

	p->next = p->end;
	while (rc >= 0 && left > 0 && below > 0) {
		const int64_t low = below > width ? below - width : 0;

		rc = forms_see(db, err);
		if (rc == 0)
			rc = report_may_have(db, job->ask, p->log, low, below, err);
		width = next_width(width, rc == 1);
		if (rc == 1 && below - low > REPORT_LOOK)
			continue;
		if (rc == 1)
			rc = newest_in(job, db, p, low, below, &left, err);
		below = low;
	}
	return rc < 0 ? rc : 0;
}

static int add_place(struct report_feed *job, struct db *db, int64_t log, int64_t tenant_id, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_HEAD);
	struct place p = { .log = log, .tenant_id = tenant_id, .width = REPORT_LOOK };
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
	rc = find_until(db, job, &p, err);
	if (rc < 0)
		free(p.origin);
	if (rc < 0)
		return rc;
	if (cursor_of(job, p.origin) > 0)
		p.next = cursor_of(job, p.origin);
	else if (job->ask->newest >= 0 && !job->begun && job->chosen)
		rc = find_newest(job, db, &p, err);
	else if (job->ask->newest >= 0 && !job->begun)
		p.next = p.end > job->ask->newest ? p.end - job->ask->newest : 0;
	else if (job->ask->since_us > 0)
		rc = find_since(db, job, &p, err);
	job->at = mem_realloc(job->at, (job->n + 1) * sizeof(*job->at));
	job->at[job->n++] = p;
	job->last_log = log;
	return rc;
}

/* Logs that have come since the last look. */
static int find_logs(struct report_feed *job, struct db *db, struct err *err)
{
	int64_t log = job->last_log, tenant_id = 0;
	int rc;

	if (job->ask->log > 0)
		return job->n > 0 ? 0 : add_place(job, db, job->ask->log, job->ask->tenant_id, err);
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

/* Positions from p->next to below. */
static struct db_stmt *next_rows(const struct report_feed *job, struct db *db, const struct place *p, int64_t below)
{
	struct db_stmt *st = db_stmt_get(db, job->chosen ? SQL_REPORT_RECORDS_CHOSEN : job->ask->way->sql);

	if (job->chosen) {
		report_bind(st, job->ask, p->log, p->next, below, room(job));
		db_bind_i64(st, 12, job->ask->kind);
		return st;
	}
	db_bind_i64(st, 1, p->log);
	db_bind_i64(st, 2, p->next);
	db_bind_i64(st, 3, below);
	db_bind_i64(st, 4, room(job));
	db_bind_i64(st, 5, job->ask->until_us ? (int64_t)job->ask->until_us : INT64_MAX);
	db_bind_row(st, 6);
	return st;
}

/* 1: there may be more of them, and p->next says from where on; 0: those were all. */
static int put_rows(struct report_feed *job, struct reply *o, struct db *db, struct place *p, int64_t below,
		    size_t *ret_rows, struct err *err)
{
	struct audit_walk *walk = job->bytes ? audit_walk_new(db, p->log, p->origin, p->next, INT64_MAX) : NULL;
	struct db_stmt *st = next_rows(job, db, p, below);
	const size_t most = (size_t)room(job);
	int rc = 1;

	report_texts_page(job->texts, p->log, p->tenant_id);
	*ret_rows = 0;
	while (rc == 1 && (*ret_rows == 0 || o->text.len < PART_BYTES) && (rc = db_step(st, err)) == 1) {
		int64_t idx = db_col_i64(st, 1);

		reply_row_begin(o);
		rc = report_texts_row(job->texts, st, o, err);
		if (rc == 0 && walk)
			rc = put_bytes(o, walk, idx, err);
		reply_row_end(o);
		p->next = idx + 1;
		++*ret_rows;
		rc = rc < 0 ? rc : 1;
	}
	db_stmt_put(&st);
	audit_walk_free(&walk);
	job->said += (int64_t)*ret_rows;
	return rc < 0 ? rc : rc == 1 || *ret_rows == most;
}

/* How many records a log that is followed has by now. */
static int find_end(const struct report_feed *job, struct db *db, const struct place *p, int64_t *ret, struct err *err)
{
	struct db_stmt *st;
	int rc = 0;

	*ret = p->end;
	if (!job->ask->follow)
		return 0;
	st = db_stmt_get(db, SQL_REPORT_PLACE_BELOW);   /* the head may lag behind the rows (decision 0061) */
	db_bind_i64(st, 1, p->log);
	db_bind_i64(st, 2, INT64_MAX);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = db_col_i64(st, 0) + 1;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* When not all are wanted, part by part, each a read transaction: what says beside the records that it has none is not
 * read (SC-206).  Until there is something to say. */
static int put_chosen(struct report_feed *job, struct reply *o, struct db *db, struct place *p, size_t *ret_rows,
		      struct err *err)
{
	int64_t end = 0, below;
	int rc = find_end(job, db, p, &end, err);

	while (rc >= 0 && *ret_rows == 0 && p->next < end) {
		below = end - p->next > p->width ? p->next + p->width : end;
		rc = forms_see(db, err);
		if (rc == 0)
			rc = report_may_have(db, job->ask, p->log, p->next, below, err);
		p->width = next_width(p->width, rc == 1);
		if (rc == 1 && below - p->next > REPORT_LOOK)
			continue;
		if (rc == 1)
			rc = put_rows(job, o, db, p, below, ret_rows, err);
		p->next = rc == 0 ? below : p->next;
	}
	return rc < 0 ? rc : 0;
}

/* --- no more in a second than was asked for */

/* Of the records from p->next on those that are wanted, counted and not read. */
static int count_chosen(const struct report_feed *job, struct db *db, const struct place *p, int64_t end, int64_t *n,
			struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_NEWEST_CHOSEN);
	int rc;

	report_bind(st, job->ask, p->log, p->next, end, INT64_MAX);
	db_bind_i64(st, 12, job->ask->kind);
	while ((rc = db_step(st, err)) == 1)
		++*n;
	db_stmt_put(&st);
	return rc;
}

static int pass_over(struct report_feed *job, struct db *db, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < job->n; i++) {
		struct place *p = &job->at[i];
		int64_t end = 0;

		rc = find_end(job, db, p, &end, err);
		if (rc < 0 || end <= p->next)
			continue;
		if (job->chosen)
			rc = count_chosen(job, db, p, end, &job->left_out, err);
		else
			job->left_out += end - p->next;
		p->next = end;
	}
	return rc;
}

/* Another second, which begins with what the one before left out. */
static void next_second(struct report_feed *job, struct reply *o, uint64_t now_us)
{
	char text[80];

	if (job->left_out > 0) {
		(void)snprintf(text, sizeof(text), "%lld more in this second", (long long)job->left_out);
		reply_row_begin(o);
		reply_text(o, "detail", text);
		reply_row_end(o);
	}
	job->second_us = now_us;
	job->said = job->left_out = 0;
}

/* One log with something to say in a part, in turn. */
static int next_part(struct report_feed *job, struct reply *o, struct db *db, enum report_more *ret, struct err *err)
{
	for (size_t tried = 0; tried < job->n; tried++) {
		struct place *p = &job->at[job->now];
		const int64_t below = job->ask->follow ? INT64_MAX : p->end, most = room(job);
		size_t rows = 0;
		int rc = job->chosen ? put_chosen(job, o, db, p, &rows, err) : put_rows(job, o, db, p, below, &rows, err);

		if (rc < 0)
			return rc;
		if (rows < (size_t)most)
			job->now = (job->now + 1) % job->n;
		if (rows > 0) {
			*ret = REPORT_MORE_NOW;
			return 0;
		}
	}
	*ret = job->ask->follow ? REPORT_MORE_LATER : REPORT_NO_MORE;
	return 0;
}

static int rated_part(struct report_feed *job, struct reply *o, struct db *db, enum report_more *ret, struct err *err)
{
	const uint64_t now_us = clock_mono_us();
	int rc = 0;

	if (now_us - job->second_us >= SECOND_US)
		next_second(job, o, now_us);
	*ret = REPORT_MORE_LATER;
	if (job->said < job->ask->rate)
		rc = next_part(job, o, db, ret, err);
	return rc == 0 && job->said >= job->ask->rate ? pass_over(job, db, err) : rc;
}

static const char *const export_more[] = { "enc", "leaf", "bytes", NULL };

int report_feed_part(struct report_feed *job, struct report_out *out, struct db *db, enum report_more *ret,
		     struct err *err)
{
	int rc = forms_see(db, err);      /* a log may be followed for days */

	if (rc == 0 && !job->begun)
		rc = report_ask_find(db, job->ask, err);
	if (rc == 0 && !job->begun) {
		job->texts = report_texts_new(db, job->ask->way->columns, job->bytes ? export_more : NULL, false);
		rc = report_head(out->reply, db, job->ask, NULL, report_texts_names(job->texts), err);
	}
	if (rc == 0 && (!job->begun || job->ask->follow))
		rc = find_logs(job, db, err);
	job->begun = true;
	if (rc < 0)
		return rc;
	return job->ask->rate > 0 ? rated_part(job, out->reply, db, ret, err) : next_part(job, out->reply, db, ret, err);
}

struct report_feed *report_feed_new(struct report_ask *ask)
{
	struct report_feed *job = mem_zalloc(sizeof(*job));

	job->ask = ask;
	job->bytes = strcmp(ask->report->verb, "export") == 0;
	job->chosen = report_is_chosen(ask);
	return job;
}

void report_feed_free(struct report_feed **jobp)
{
	struct report_feed *job = *jobp;

	if (!job)
		return;
	*jobp = NULL;
	for (size_t i = 0; i < job->n; i++)
		free(job->at[i].origin);
	free(job->at);
	report_texts_free(&job->texts);
	free(job);
}

/* --- what has not been exported yet */

/* When the first record at or behind idx was written, -1 = there is none. */
static int record_time(struct db *db, int64_t log, int64_t idx, int64_t *ret_us, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_RECORD_TIME);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, idx);
	rc = db_step(st, err);
	*ret_us = rc == 1 ? db_col_i64(st, 0) : -1;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* Of one log: a cursor behind its end, or records that wait for too long. */
static int check_log(struct reply *o, struct db *db, const struct report_ask *ask, int64_t log, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_EXPORT_CHECK);
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
	at = json_object_get(ask->cursor, origin);
	next = json_is_integer(at) ? json_integer_value(at) : 0;
	rc = record_time(db, log, next, &oldest, err);
	if (rc == 0 && (next > size || (next < size && oldest >= 0 && (uint64_t)oldest + ask->lag_us < clock_wall_us()))) {
		reply_row_begin(o);
		reply_text(o, "log", origin);
		reply_text(o, "finding", next > size ? "exported more than there is: records are missing here" : "not exported");
		reply_int(o, "next", next);
		reply_int(o, "records", size);
		reply_time(o, "since", next > size || oldest < 0 ? 0 : (uint64_t)oldest);
		reply_row_end(o);
	}
	db_stmt_put(&st);
	return rc;
}

int report_export_check(struct report_out *out, struct db *db, struct report_ask *ask, struct err *err)
{
	static const char *const columns[] = { "log", "finding", "next", "records", "since", NULL };
	struct reply *o = out->reply;
	int64_t log = 0;
	int rc = report_head(o, db, ask, NULL, columns, err);

	if (rc == 0 && ask->log > 0)
		rc = check_log(o, db, ask, ask->log, err);
	while (rc == 0 && ask->log == 0 && (rc = report_next_log(db, &log, NULL, err)) == 0 && log > 0)
		rc = check_log(o, db, ask, log, err);
	return rc;
}
