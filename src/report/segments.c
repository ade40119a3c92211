/* audit segments: the catalog of sealed files, and whether each is where it says (SCALE 1). */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "forms/forms.h"

#include "report_int.h"

enum { TENANT_ID, TENANT, MONTH, RECORDS, SIZE, PATH, FROM };

/* "missing" and "damaged" are what a look says; audit verify reads it. */
static const char *state_of(const struct db *db, const char *path, int64_t size)
{
	char *file = db_beside(db, path);
	struct stat st;
	const char *state = "here";

	if (lstat(file, &st) != 0)
		state = "missing";
	else if (!S_ISREG(st.st_mode) || st.st_size != size)
		state = "damaged";
	free(file);
	return state;
}

static void put_file(struct report_out *out, const struct db *db, struct db_stmt *st)
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
	reply_row_end(o);
}

static int put_files(struct report_out *out, struct db *db, const struct report_ask *ask, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_SEGMENTS);
	const int64_t limit = ask->limit > 0 ? ask->limit : INT64_MAX;
	int64_t n = 0;
	int rc;

	report_bind(st, ask, ask->log, 0, INT64_MAX, limit < INT64_MAX ? limit + 1 : limit);
	while ((rc = db_step(st, err)) == 1 && n++ < limit && !reply_full(out->reply))
		put_file(out, db, st);
	out->more = rc == 1;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int report_segments(struct report_out *out, struct db *db, struct report_ask *ask, struct err *err)
{
	static const char *const columns[] = { "tenant", "month", "from", "records", "bytes", "bytes_a_record", "state",
		"path", NULL };
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
