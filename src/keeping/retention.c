/* retention set, show, compact: the commands that say how long the records of a tenant are kept, and show what has
 * been pruned.  Bodies run on the writer's thread, that of show on the pool.  A shorter period never takes back
 * what records that are there were promised (AUDIT A-909). */
#include "config.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/keep.h"
#include "base/text.h"
#include "command/rows.h"
#include "db/db.h"
#include "review/review.h"
#include "toolset/toolset.h"

#include "keeping_int.h"
#include "periods_int.h"

#define DAYS_MAX 36500

struct period_job {
	char tenant[64];
	int64_t min_days, max_days;     /* -1: not said */
	bool no_max, history;
	struct reply *out;
	const char *name;               /* of the tenant that is shown */
};

/* --- set */

static int retention_set_check(struct command_call *c, struct err *err)
{
	struct period_job *job = command_priv(c, sizeof(*job));

	arg_copy(c, "tenant", job->tenant, sizeof(job->tenant));
	job->min_days = arg_given(c, "min-days") ? (int64_t)arg_uint(c, "min-days", 0) : -1;
	job->max_days = arg_given(c, "max-days") ? (int64_t)arg_uint(c, "max-days", 0) : -1;
	job->no_max = arg_flag(c, "no-max");
	if (job->min_days > DAYS_MAX || job->max_days > DAYS_MAX)
		return err_set(err, ERR_INVALID, "", "a period has at most %d days", DAYS_MAX);
	if (job->min_days < 0 && job->max_days < 0 && !job->no_max)
		return err_set(err, ERR_INVALID, "", "nothing to set: --min-days, --max-days or --no-max");
	if (job->no_max && job->max_days >= 0)
		return err_set(err, ERR_INVALID, "", "--max-days and --no-max contradict each other");
	return 0;
}

/* What the command leaves open stays as it is. */
static int next_period(const struct period_job *job, const struct retention_periods *p, struct retention_period *ret,
		       struct err *err)
{
	const struct retention_period *now = p->n ? p->v : NULL;

	*ret = now ? *now : (struct retention_period){ .max_days = -1 };
	if (job->min_days >= 0)
		ret->min_days = job->min_days;
	else if (!now)
		return err_set(err, ERR_INVALID, "min-days", "the first period of a tenant needs --min-days");
	if (job->max_days >= 0 || job->no_max)
		ret->max_days = job->max_days;
	if (ret->max_days >= 0 && ret->max_days < ret->min_days)
		return err_set(err, ERR_INVALID, "max-days", "--max-days %" PRId64 " is less than --min-days %" PRId64, ret->max_days,
			       ret->min_days);
	if (now && now->min_days == ret->min_days && now->max_days == ret->max_days)
		return err_set(err, ERR_CONFLICT, "", "this is the period in force");
	return 0;
}

/* Less than now, for records to come: those that are there keep what they were promised. */
static bool is_shorter(const struct retention_periods *p, const struct retention_period *next)
{
	const struct retention_period *now = p->n ? p->v : NULL;

	return now && (next->min_days < now->min_days ||
		       (next->max_days >= 0 && (now->max_days < 0 || next->max_days < now->max_days)));
}

static int store_period(struct db *db, int64_t log, const struct retention_period *p, const struct audit_receipt *at,
			struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_RETENTION_INSERT);

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, at->idx);
	db_bind_i64(st, 3, p->min_days);
	if (p->max_days >= 0)
		db_bind_i64(st, 4, p->max_days);
	else
		db_bind_null(st, 4);
	return db_run(&st, err);
}

static int record_period(struct command_call *c, struct db *db, struct audit_logs *logs, int64_t tenant_id,
			 const struct retention_period *p, struct audit_receipt *ret, struct err *err)
{
	const char *by = approval_by(c);
	uint8_t days[16];
	struct audit_field field[2];
	struct command_record r = { .kind = AUDIT_RETENTION_CHANGE, .tenant_id = tenant_id, .obj = "retention", .field = field,
		.ret = ret };

	audit_put_be(days, (uint64_t)p->min_days, 8);
	audit_put_be(days + 8, p->max_days >= 0 ? (uint64_t)p->max_days : 0, 8);
	if (*by)
		field[r.nfield++] = (struct audit_field){ AUDIT_TAG_APPROVER, by, strlen(by) };
	field[r.nfield++] = (struct audit_field){ AUDIT_TAG_COUNTS, days, sizeof(days) };
	return command_record(c, db, logs, &r, err);
}

static void put_days(struct reply *o, const struct retention_period *p)
{
	reply_int(o, "min_days", p->min_days);
	if (p->max_days >= 0)
		reply_int(o, "max_days", p->max_days);
	else
		reply_text(o, "max_days", NULL);
}

static int retention_set_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct period_job *job = c->priv;
	struct retention_periods have = { 0 };
	struct retention_period next = { 0 };
	struct audit_receipt at;
	struct tenant_row t;
	int64_t log = 0;
	int rc = tenant_row_find(db, job->tenant, &t, err);

	if (rc == 0)
		rc = tenant_row_log(db, t.id, &log, err);
	if (rc == 0)
		rc = periods_load(db, log, &have, err);
	if (rc == 0)
		rc = next_period(job, &have, &next, err);
	if (rc == 0 && is_shorter(&have, &next))
		rc = approval_require(c, db, err);            /* AUDIT A-909 */
	if (rc == 0)
		rc = record_period(c, db, logs, t.id, &next, &at, err);
	if (rc == 0)
		rc = store_period(db, log, &next, &at, err);
	periods_fini(&have);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_text(c->out, "tenant", t.name);
	put_days(c->out, &next);
	reply_row_end(c->out);
	return 0;
}

/* --- show */

static int retention_show_check(struct command_call *c, struct err *err)
{
	struct period_job *job = command_priv(c, sizeof(*job));

	(void)err;
	job->out = c->out;
	arg_copy(c, "tenant", job->tenant, sizeof(job->tenant));
	job->history = arg_flag(c, "history");
	return 0;
}

/* The cut of a log and its newest record. */
static int read_log(struct db *db, int64_t log, int64_t *ret_min, int64_t *ret_size, uint64_t *ret_first,
		    struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_RETENTION_LOG);
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	if (rc == 1) {
		*ret_min = db_col_i64(st, 0);
		*ret_size = db_col_i64(st, 1);
		*ret_first = (uint64_t)db_col_i64(st, 2);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int show_now(struct period_job *job, struct db *db, const struct tenant_row *t, struct err *err)
{
	struct retention_periods have = { 0 };
	int64_t log = 0, min_idx = 0, size = 0;
	uint64_t first_us = 0;
	int rc = tenant_row_log(db, t->id, &log, err);

	if (rc == 0)
		rc = periods_load(db, log, &have, err);
	if (rc == 0)
		rc = read_log(db, log, &min_idx, &size, &first_us, err);
	if (rc < 0)
		return rc;
	reply_row_begin(job->out);
	reply_text(job->out, "tenant", t->name);
	if (have.n > 0)
		put_days(job->out, have.v);
	reply_int(job->out, "records", size - min_idx);
	reply_time(job->out, "since", first_us);
	reply_int(job->out, "pruned", min_idx);
	reply_row_end(job->out);
	periods_fini(&have);
	return 0;
}

static void put_field(struct reply *o, const char *name, const struct audit_view *v, unsigned tag)
{
	char text[128];
	size_t len = 0;
	const uint8_t *p = audit_field_find(v->ext, v->ext_len, tag, &len);

	(void)snprintf(text, sizeof(text), "%.*s", p ? (int)(len < sizeof(text) ? len : sizeof(text) - 1) : 0,
		p ? (const char *)p : "");
	reply_text(o, name, p ? text : NULL);
}

/* What the log says of periods and prunes, the newest first. */
static int history_row(void *arg, const struct audit_view *v)
{
	struct period_job *job = arg;
	struct reply *o = job->out;
	size_t len = 0;
	const uint8_t *p;

	reply_row_begin(o);
	reply_time(o, "time", v->ts_us);
	reply_text(o, "tenant", job->name);
	reply_int(o, "index", v->idx);
	reply_text(o, "kind", audit_kind_name(v->kind));
	p = audit_field_find(v->ext, v->ext_len, AUDIT_TAG_COUNTS, &len);
	if (v->kind == AUDIT_RETENTION_CHANGE && p && len == 16) {
		reply_int(o, "min_days", (int64_t)audit_get_be(p, 8));
		if (audit_get_be(p + 8, 8))
			reply_int(o, "max_days", (int64_t)audit_get_be(p + 8, 8));
	}
	p = audit_field_find(v->ext, v->ext_len, AUDIT_TAG_RANGE, &len);
	if (p && len == 16) {
		reply_int(o, "from", (int64_t)audit_get_be(p, 8));
		reply_int(o, "to", (int64_t)audit_get_be(p + 8, 8) - 1);
	}
	p = audit_field_find(v->ext, v->ext_len, AUDIT_TAG_BUNDLE, &len);
	if (p && len == 32)
		reply_hex(o, "bundle", p, 32);
	put_field(o, "approver", v, AUDIT_TAG_APPROVER);
	reply_text(o, "detail", v->detail);
	reply_row_end(o);
	return reply_full(o);
}

static int show_history(struct period_job *job, struct db *db, const struct tenant_row *t, struct err *err)
{
	static const int kinds[] = { AUDIT_RETENTION_CHANGE, AUDIT_PRUNE, AUDIT_PRUNE_DONE };
	int rc = 0;

	job->name = t->name;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && rc == 0; i++) {
		struct audit_filter f = { .tenant_id = t->id, .outcome = -1, .kind = kinds[i], .limit = UINT_MAX };

		rc = audit_query(db, &f, history_row, job, err);
	}
	return rc;
}

static int retention_show_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct period_job *job = c->priv;
	int (*show)(struct period_job *, struct db *, const struct tenant_row *, struct err *) = job->history ? show_history
		: show_now;
	struct db_stmt *st;
	struct tenant_row t;
	int rc;

	(void)logs;
	if (*job->tenant) {
		rc = tenant_row_find(db, job->tenant, &t, err);
		return rc < 0 ? rc : show(job, db, &t, err);
	}
	st = db_stmt_get(db, SQL_ADMIN_TENANT_LIST);
	while ((rc = db_step(st, err)) == 1) {
		tenant_row_read(st, &t);
		rc = show(job, db, &t, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc;
}

/* --- compact */

static int retention_compact_check(struct command_call *c, struct err *err)
{
	if (c->who.embedded)
		return 0;
	(void)err_set(err, ERR_DENIED, "", "while the server runs, calls would wait for this");
	err_hint(err, "stop toolcribd, run this as the user of the store, start toolcribd");
	return ERR_DENIED;
}

/* The record of the command says that it was done. */
static int retention_compact_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	int64_t texts = 0, names = 0;
	int rc = audit_compact(logs, db, &texts, &names, err);

	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_int(c->out, "texts", texts);
	reply_int(c->out, "names", names);
	reply_row_end(c->out);
	return 0;
}

/* --- rows of the command table */

static const struct command_arg retention_set_args[] = {
	TENANT_WORD, OPT("min-days", "N", ARG_UINT, COMPLETE_NONE, "Keep records at least so long; 0 promises nothing."),
	OPT("max-days", "N", ARG_UINT, COMPLETE_NONE, "Prune takes those that are older."),
	FLAG("no-max", "Prune takes none by itself."), ARG_END };
static const struct command_arg retention_show_args[] = {
	TENANT_MAYBE, FLAG("history", "What the log says of changes and prunes."), ARG_END };
static const struct command_column retention_show_cols[] = {
	COL("tenant", "TENANT"), COL("min_days", "MIN DAYS"), COL("max_days", "MAX DAYS"), COL("records", "RECORDS"),
	COL_AT("since", "SINCE"), COL("pruned", "PRUNED"), COL_AT("time", "CHANGED"), COL("kind", "WHAT"), COL("from", "FROM"),
	COL("to", "TO"), COL("approver", "APPROVER"), COL("detail", "DETAIL"), COL_END };

const struct command retention_commands[] = {
	{ .noun = "retention", .verb = "set", .help = "Say how long the records of a tenant are kept",
	  .detail = "Without a period nothing is ever pruned.  A longer one holds for records that are there already; a "
		    "shorter one for those to come alone, and needs a second administrator.",
	  .args = retention_set_args, .done = "records of %{tenant} are kept %{min_days} days at least", .role = ADM_OWNER,
	  .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER, .check = retention_set_check, .body = retention_set_body },
	{ .noun = "retention", .verb = "show", .help = "Show how long records are kept, and what is gone",
	  .args = retention_show_args, .columns = retention_show_cols, .shape = ADM_TABLE, .role = ADM_READ,
	  .where = ADM_ON_POOL,
	  .check = retention_show_check, .body = retention_show_body },
	{ .noun = NULL },
};

const struct command compact_commands[] = {
	{ .noun = "retention", .verb = "compact", .help = "Remove texts and names that no record uses any more",
	  .detail = "What pruned records have left in the dictionary.  Reads all records, so it works only while "
		    "no server runs.",
	  .args = no_args, .done = "%{texts} texts and %{names} names removed", .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = retention_compact_check, .body = retention_compact_body },
	{ .noun = NULL },
};
