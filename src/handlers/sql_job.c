/* sql: the part that runs on a pool thread.  Opens the database read-only, runs one SELECT, writes the rows as
 * JSON text. */
#include "config.h"

#include "sql_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "json/json.h"

#define INT_EXACT_MAX (1ll << 53)       /* beyond it a double, and so many a reader of JSON, loses digits */

static int too_much(const struct sql_job *job, struct err *err)
{
	return err_set(err, ERR_LIMIT, "", "the result is larger than %zu bytes", job->result_max);
}

static const struct sql_param *param_find(const struct sql_job *job, const char *name)
{
	for (size_t i = 0; i < job->nparams; i++) {
		if (strcmp(job->params[i].name, name) == 0)
			return &job->params[i];
	}
	return NULL;
}

static void bind_one(struct db_stmt *st, unsigned pos, const struct sql_param *p)
{
	switch (p ? p->type : SQL_NULL) {
	case SQL_NULL:
		db_bind_null(st, pos);
		break;
	case SQL_INT:
		db_bind_i64(st, pos, p->i);
		break;
	case SQL_FLOAT:
		db_bind_f64(st, pos, p->f);
		break;
	case SQL_TEXT:
		db_bind_text(st, pos, p->text, p->len);
		break;
	}
}

/* SEC S-B08: arguments reach a statement as parameters only.  A missing one is NULL. */
static int bind_params(const struct sql_job *job, struct db_stmt *st, struct err *err)
{
	for (unsigned pos = 1; pos <= db_param_count(st); pos++) {
		const char *name = db_param_name(st, pos);
		if (!name || name[0] != ':')
			return err_set(err, ERR_INVALID, "", "parameter %u must have a name like :name", pos);
		bind_one(st, pos, param_find(job, name + 1));
	}
	return 0;
}

/* The shortest spelling that reads back as the same number. */
static void put_f64(struct str *out, double v)
{
	char buf[40];

	if (!isfinite(v)) {
		str_puts(out, v > 0 ? "\"Infinity\"" : "\"-Infinity\"");
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(buf, sizeof(buf), "%.*g", digits, v);
		if (strtod(buf, NULL) == v)
			break;
	}
	str_puts(out, buf);
	if (!strpbrk(buf, ".e"))
		str_puts(out, ".0");
}

static void put_i64(struct str *out, int64_t v)
{
	bool exact = v >= -INT_EXACT_MAX && v <= INT_EXACT_MAX;

	str_printf(out, exact ? "%lld" : "\"%lld\"", (long long)v);
}

static void put_blob(struct str *out, const void *p, size_t len, size_t max)
{
	if (len / 3 > max / 4) {
		out->failed = true;
		return;
	}
	char *text = mem_alloc(text_base64_size(len));
	text_base64(p, len, text);
	str_printf(out, "\"%s\"", text);
	free(text);
}

static void put_value(const struct sql_job *job, struct db_stmt *st, unsigned col, struct str *out)
{
	size_t len = 0;
	const void *p;

	switch (db_col_type(st, col)) {
	case DB_NULL:
		str_puts(out, "null");
		break;
	case DB_INT:
		put_i64(out, db_col_i64(st, col));
		break;
	case DB_FLOAT:
		put_f64(out, db_col_f64(st, col));
		break;
	case DB_TEXT:
		p = db_col_text(st, col, &len);
		jx_write_string(out, p, len);
		break;
	case DB_BLOB:
		p = db_col_blob(st, col, &len);
		put_blob(out, p, len, job->result_max);
		break;
	}
}

static void put_columns(struct db_stmt *st, struct str *out)
{
	str_puts(out, "{\"columns\":[");
	for (unsigned i = 0; i < db_col_count(st); i++) {
		if (i > 0)
			str_putc(out, ',');
		jx_write_stringz(out, db_col_name(st, i));
	}
	str_puts(out, "],\"rows\":[");
}

static void put_row(const struct sql_job *job, struct db_stmt *st, struct str *out)
{
	str_putc(out, '[');
	for (unsigned i = 0; i < db_col_count(st) && !out->failed; i++) {
		if (i > 0)
			str_putc(out, ',');
		put_value(job, st, i, out);
	}
	str_putc(out, ']');
}

static int fetch_rows(struct sql_job *job, struct db_stmt *st, struct err *err)
{
	struct str *out = &job->out;
	int64_t rows = 0;
	int rc;

	put_columns(st, out);
	while ((rc = db_step(st, err)) == 1 && rows < job->rows_max) {
		if (atomic_load(&job->stop))
			return err_set(err, ERR_CANCELLED, "", "cancelled");
		if (rows++ > 0)
			str_putc(out, ',');
		put_row(job, st, out);
		if (out->failed)
			return too_much(job, err);
	}
	if (rc < 0)
		return rc;
	str_printf(out, "],\"truncated\":%s}", rc == 1 ? "true" : "false");
	return out->failed ? too_much(job, err) : 0;
}

static int run_query(struct sql_job *job, struct db *db, struct err *err)
{
	struct db_stmt *st = NULL;

	db_deadline(db, job->deadline_us);
	int rc = db_stmt_adhoc(db, job->sql, job->sql_len, &st, err);
	if (rc == 0)
		rc = bind_params(job, st, err);
	if (rc == 0)
		rc = fetch_rows(job, st, err);
	if (st)
		db_stmt_put(&st);
	job->sql_failed = rc < 0 && rc != ERR_TIMEOUT && rc != ERR_CANCELLED && rc != ERR_LIMIT;
	return rc;
}

void sql_job_run(void *arg)
{
	struct sql_job *job = arg;
	struct db *db = NULL;

	str_init(&job->out, job->result_max);
	if (atomic_load(&job->stop)) {
		job->rc = err_set(&job->err, ERR_CANCELLED, "", "cancelled");
		return;
	}
	if (clock_mono_us() >= job->deadline_us) {      /* it waited too long for a thread */
		job->rc = err_set(&job->err, ERR_TIMEOUT, "", "no thread was free in time");
		return;
	}
	job->rc = db_foreign_check(job->path, job->store, &job->err);
	if (job->rc < 0)
		return;
	job->rc = db_open(job->path, DB_FOREIGN, false, &db, &job->err);
	if (job->rc < 0)
		return;
	atomic_store(&job->db, db);
	job->rc = run_query(job, db, &job->err);
}
