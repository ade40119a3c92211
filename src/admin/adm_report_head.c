/* The header of a report: what was looked at, and what stands behind it (AUDIT A-1101). */
#include "config.h"

#include "adm_report.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/text.h"
#include "json/json.h"

#define SYSTEM_LOG 1

/* What the header says of a log, or of all of them together. */
struct coverage {
	char origin[512], tenant[80];
	int64_t size, pruned, erased;
	int64_t from, to;               /* positions in the span that was asked for; to < from: none */
	uint64_t verified_us;
};

/* Time and position of the newest record of a kind; 0 and -1: there is none. */
static int newest(struct db *db, int64_t log, int kind, uint64_t *ret_us, int64_t *ret_idx, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_HEAD_NEWEST);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, kind);
	rc = db_step(st, err);
	*ret_idx = rc == 1 ? db_col_i64(st, 0) : -1;
	*ret_us = rc == 1 ? (uint64_t)db_col_i64(st, 1) : 0;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* Time and size of the newest checkpoint of a log, or of the newest anchor; 0 and -1: there is none. */
static int newest_of(struct db *db, enum sql_id id, int64_t log, uint64_t *ret_us, int64_t *ret_size, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, id);
	int rc;

	if (db_param_count(st) > 0)
		db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	*ret_us = rc == 1 ? (uint64_t)db_col_i64(st, 0) : 0;
	*ret_size = rc == 1 ? db_col_i64(st, 1) : -1;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int count(struct db *db, int64_t log, int kind, int64_t *sum, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_HEAD_COUNT);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, kind);
	rc = db_step(st, err);
	if (rc == 1)
		*sum += db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int read_size(struct db *db, int64_t log, struct coverage *cov, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_HEAD);
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	if (rc == 1) {
		(void)snprintf(cov->origin, sizeof(cov->origin), "%s", db_col_text(st, 0, NULL));
		(void)snprintf(cov->tenant, sizeof(cov->tenant), "%s", db_col_text(st, 1, NULL));
		cov->size += db_col_i64(st, 2);
		cov->pruned += db_col_i64(st, 3);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int read_span(struct db *db, const struct adm_ask *ask, int64_t log, struct coverage *cov, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_HEAD_SPAN);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, (int64_t)ask->since_us);
	db_bind_i64(st, 3, ask->until_us ? (int64_t)ask->until_us : INT64_MAX);
	rc = db_step(st, err);
	if (rc == 1 && db_col_type(st, 0) != DB_NULL) {
		cov->from = db_col_i64(st, 0);
		cov->to = db_col_i64(st, 1);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int add_log(struct db *db, const struct adm_ask *ask, int64_t log, struct coverage *cov, struct err *err)
{
	uint64_t verified_us = 0;
	int64_t idx;
	int rc = read_size(db, log, cov, err);

	if (rc == 0)
		rc = read_span(db, ask, log, cov, err);
	if (rc == 0)
		rc = count(db, log, AUDIT_ERASE_DONE, &cov->erased, err);
	if (rc == 0)
		rc = newest(db, log, AUDIT_AUDIT_VERIFY, &verified_us, &idx, err);
	if (verified_us > cov->verified_us)
		cov->verified_us = verified_us;
	return rc;
}

static int read_coverage(struct db *db, const struct adm_ask *ask, struct coverage *cov, struct err *err)
{
	int64_t log = 0, idx;
	uint64_t verified_us = 0;
	int rc;

	*cov = (struct coverage){ .from = 0, .to = -1 };
	if (ask->log > 0) {
		rc = add_log(db, ask, ask->log, cov, err);
		if (rc == 0)    /* the whole store was verified, and this log with it */
			rc = newest(db, SYSTEM_LOG, AUDIT_AUDIT_VERIFY, &verified_us, &idx, err);
		if (verified_us > cov->verified_us)
			cov->verified_us = verified_us;
		return rc;
	}
	while ((rc = adm_next_log(db, &log, NULL, err)) == 0 && log > 0) {
		rc = add_log(db, ask, log, cov, err);
		if (rc < 0)
			return rc;
	}
	(void)snprintf(cov->origin, sizeof(cov->origin), "all");
	*cov->tenant = '\0';
	return rc;
}

static void put_time_or(struct adm_out *o, const char *name, uint64_t us, const char *none)
{
	if (us)
		adm_put_time(o, name, us);
	else
		adm_put_text(o, name, none);
}

static void put_age(struct adm_out *o, const char *name, uint64_t us)
{
	uint64_t now_us = clock_wall_us();
	char age[32];

	adm_put_text(o, name, us ? text_format_age(now_us > us ? now_us - us : 0, age, sizeof(age)) : NULL);
}

static void put_coverage(struct adm_out *o, const struct adm_ask *ask, const struct coverage *cov)
{
	char title[80];

	(void)snprintf(title, sizeof(title), "%s %s", ask->report->noun, ask->report->verb);
	adm_put_text(o, "report", title);
	adm_put_text(o, "asked", ask->line);
	adm_put_time(o, "at", clock_wall_us());
	adm_put_text(o, "log", cov->origin);
	if (*cov->tenant)
		adm_put_text(o, "tenant", cov->tenant);
	put_time_or(o, "since", ask->since_us, "the beginning");
	put_time_or(o, "until", ask->until_us, "now");
	if (ask->log > 0 && cov->to >= cov->from) {
		adm_put_int(o, "from", cov->from);
		adm_put_int(o, "to", cov->to);
	}
	adm_put_int(o, "records", cov->size);
	adm_put_int(o, "pruned", cov->pruned);
	adm_put_int(o, "erasures", cov->erased);
}

/* How large the store is, and how long there is room for more of it. */
static int put_room(struct adm_out *o, struct db *db, const struct adm_ask *ask, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_ROOM);
	struct statvfs fs;
	int64_t bytes = 0, records = 0, in_week = 0, free_bytes = 0;
	int rc;

	db_bind_i64(st, 1, (int64_t)clock_wall_us());
	rc = db_step(st, err);
	if (rc == 1) {
		bytes = db_col_i64(st, 0);
		records = db_col_i64(st, 1);
		in_week = db_col_i64(st, 2);
	}
	db_stmt_put(&st);
	if (rc < 0)
		return rc;
	adm_put_int(o, "store_bytes", bytes);
	adm_put_int(o, "bytes_per_record", records > 0 ? bytes / records : 0);
	if (statvfs(ask->store, &fs) != 0)
		return 0;
	free_bytes = (int64_t)(fs.f_bavail * fs.f_frsize);
	adm_put_int(o, "free_bytes", free_bytes);
	if (in_week > 0 && records > 0)
		adm_put_int(o, "full_in_days", (int64_t)(7.0 * (double)free_bytes / ((double)in_week * (double)bytes / (double)records)));
	return 0;
}

static void put_column(struct adm_out *o, const char *name, bool *any)
{
	if (*any)
		str_putc(&o->text, ',');
	*any = true;
	jx_write_stringz(&o->text, name);
}

static void put_columns(struct adm_out *o, struct db_stmt *st, const char *const *names)
{
	unsigned n = st ? db_col_count(st) : 0;
	bool any = false;

	str_puts(&o->text, "},\"columns\":[");
	for (unsigned col = 0; col < n; col++)
		if (db_col_name(st, col)[0] != '_')
			put_column(o, db_col_name(st, col), &any);
	for (; names && *names; names++)
		put_column(o, *names, &any);
	str_puts(&o->text, "]}\n");
}

int adm_report_head(struct adm_out *o, struct db *db, const struct adm_ask *ask, struct db_stmt *columns, const char *const *names,
		    struct err *err)
{
	struct coverage cov;
	uint64_t checkpoint_us = 0, anchor_us = 0;
	int64_t checked = -1, anchored = -1;
	int rc = read_coverage(db, ask, &cov, err);

	if (rc == 0)
		rc = newest_of(db, SQL_REPORT_HEAD_SIGNED, ask->log > 0 ? ask->log : SYSTEM_LOG, &checkpoint_us, &checked, err);
	if (rc == 0)
		rc = newest_of(db, SQL_REPORT_HEAD_ANCHOR, 0, &anchor_us, &anchored, err);
	if (rc < 0)
		return rc;
	str_puts(&o->text, "{\"header\":{");
	o->any = false;
	put_coverage(o, ask, &cov);
	put_time_or(o, "checkpoint", checkpoint_us, "none");
	if (ask->log > 0 && checked >= 0)
		adm_put_int(o, "signed", checked);
	put_time_or(o, "anchor", anchor_us, "none");
	put_age(o, "anchor_age", anchor_us);
	put_time_or(o, "verified", cov.verified_us, "never");
	adm_put_bool(o, "must_be_empty", ask->way->must_be_empty);
	if (ask->report->room)
		rc = put_room(o, db, ask, err);
	put_columns(o, columns, names);
	return rc;
}
