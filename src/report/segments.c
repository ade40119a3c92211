/* audit segments: the catalog of sealed files, and whether each is where it says (SCALE 1). */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "forms/forms.h"

#include "report_int.h"

enum { TENANT_ID, TENANT, MONTH, RECORDS, SIZE, PATH, FROM, LOG, SEALED };

/* "missing" and "damaged" are what a look says; audit verify reads it. */
static const char *state_of(const struct db *db, const char *path, int64_t size)
{
	char *file = db_beside(db, path);
	struct stat st;
	const char *state = forms_is_archived(path) ? "archived" : "here";

	if (lstat(file, &st) != 0)
		state = forms_is_archived(path) ? "away" : "missing";
	else if (!S_ISREG(st.st_mode) || st.st_size != size)
		state = "damaged";
	free(file);
	return state;
}

/* A verification that began before the file was made has not read it. */
static void put_verified(struct reply *o, const struct report_verified *v, struct db_stmt *st)
{
	const bool is_known = v->us > 0 && db_col_type(st, SEALED) != DB_NULL;
	const bool read_it = is_known && (int64_t)v->us > db_col_i64(st, SEALED);

	reply_time(o, "verified", read_it ? v->us : 0);
	reply_text(o, "verified_as", read_it || v->us == 0 ? v->result : NULL);
}

static void put_file(struct report_out *out, const struct db *db, struct db_stmt *st, const struct report_verified *v)
{
	const int64_t month = db_col_i64(st, MONTH), records = db_col_i64(st, RECORDS), size = db_col_i64(st, SIZE);
	const char *path = db_col_text(st, PATH, NULL);
	struct reply *o = out->reply;
	char text[32];

	(void)snprintf(text, sizeof(text), "%04" PRId64 "-%02" PRId64, month / 100, month % 100);
	reply_row_begin(o);
	reply_text(o, "tenant", db_col_text(st, TENANT, NULL));
	reply_text(o, "month", text);
	reply_int(o, "from", db_col_i64(st, FROM));
	reply_int(o, "records", records);
	reply_int(o, "bytes", size);
	reply_int(o, "bytes_a_record", records > 0 ? size / records : 0);
	reply_text(o, "state", state_of(db, path, size));
	reply_text(o, "path", path);
	put_verified(o, v, st);
	reply_row_end(o);
}

static int put_files(struct report_out *out, struct db *db, const struct report_ask *ask, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_SEGMENTS);
	const int64_t limit = ask->limit > 0 ? ask->limit : INT64_MAX;
	struct report_verified verified = { .us = 0 };
	int64_t n = 0, log = 0;
	int rc;

	report_bind(st, ask, ask->log, 0, INT64_MAX, limit < INT64_MAX ? limit + 1 : limit);
	while ((rc = db_step(st, err)) == 1 && n++ < limit && !reply_full(out->reply)) {
		if (db_col_i64(st, LOG) != log)
			rc = report_verified(db, ask, db_col_i64(st, LOG), &verified, err);
		if (rc < 0)
			break;
		log = db_col_i64(st, LOG);
		put_file(out, db, st, &verified);
	}
	out->more = rc == 1;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int report_segments(struct report_out *out, struct db *db, struct report_ask *ask, struct err *err)
{
	static const char *const columns[] = { "tenant", "month", "from", "records", "bytes", "bytes_a_record", "state",
		"path", "verified", "verified_as", NULL };
	int64_t log = 0, tenant_id = ask->tenant_id;
	int rc = report_head(out->reply, db, ask, NULL, columns, err);

	if (rc == 0)
		rc = put_files(out, db, ask, err);
	if (ask->log > 0)
		out->seen(out->arg, tenant_id, -1);
	while (rc == 0 && ask->log == 0 && (rc = report_next_log(db, &log, &tenant_id, err)) == 0 && log > 0)
		out->seen(out->arg, tenant_id, -1);
	return rc;
}
