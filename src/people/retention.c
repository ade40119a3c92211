/* How long the records of a tenant are kept (AUDIT A-901): the rows of `retention`, the record of each change, and who
 * has to agree to one.  keeping has the commands that say, show and follow it, documents those that bring it along.
 * What reads runs on any thread, retention_store() on the writer's.  A row is added and none is changed: records that
 * are there keep what they were promised. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>

#include "audit/audit.h"
#include "base/mem.h"
#include "base/text.h"
#include "command/approval.h"
#include "command/command.h"
#include "db/db.h"
#include "people/people.h"

/* --- rows */

static void read_period(struct db_stmt *st, struct retention_period *ret)
{
	*ret = (struct retention_period){ .set_by = db_col_i64(st, 0), .from_idx = db_col_i64(st, 1),
		.min_days = db_col_i64(st, 2),
		.max_days = db_col_type(st, 3) == DB_NULL ? -1 : db_col_i64(st, 3) };
}

void retention_fini(struct retention_periods *p)
{
	free(p->v);
	*p = (struct retention_periods){ 0 };
}

int retention_load(struct db *db, int64_t log, struct retention_periods *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_RETENTION_LIST);
	int rc;

	*ret = (struct retention_periods){ 0 };
	db_bind_i64(st, 1, log);
	while ((rc = db_step(st, err)) == 1) {
		ret->v = mem_realloc(ret->v, (ret->n + 1) * sizeof(*ret->v));
		read_period(st, &ret->v[ret->n++]);
	}
	db_stmt_put(&st);
	if (rc < 0)
		retention_fini(ret);
	return rc;
}

/* 1, or 0 and a period without days. */
static int newest(struct db *db, int64_t log, struct retention_period *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_RETENTION_LIST);
	int rc;

	*ret = (struct retention_period){ .min_days = -1, .max_days = -1 };
	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	if (rc == 1)
		read_period(st, ret);
	db_stmt_put(&st);
	return rc;
}

int retention_now(struct db *db, int64_t tenant_id, struct retention_period *ret, struct err *err)
{
	int64_t log = 0;
	int rc = tenant_row_log(db, tenant_id, &log, err);

	return rc < 0 ? rc : newest(db, log, ret, err);
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

/* --- a change */

int retention_check(int64_t min_days, int64_t max_days, struct err *err)
{
	if (min_days > RETENTION_DAYS_MAX || max_days > RETENTION_DAYS_MAX)
		return err_set(err, ERR_INVALID, "", "a period has at most %d days", RETENTION_DAYS_MAX);
	if (max_days >= 0 && max_days < min_days)
		return err_set(err, ERR_INVALID, "", "a maximum of %" PRId64 " days is less than the minimum of %" PRId64, max_days,
			       min_days);
	return 0;
}

static bool is_same(const struct retention_period *a, const struct retention_period *b)
{
	return a->min_days == b->min_days && a->max_days == b->max_days;
}

/* Less than now, for records to come: those that are there keep what they were promised. */
static bool is_shorter(const struct retention_period *now, const struct retention_period *next)
{
	return next->min_days < now->min_days ||
	       (next->max_days >= 0 && (now->max_days < 0 || next->max_days < now->max_days));
}

static void say_end(struct str *s, int64_t days)
{
	if (days < 0)
		str_puts(s, "no end");
	else
		str_printf(s, "%" PRId64, days);
}

static void say_days(struct str *s, const char *what, int64_t a, int64_t b)
{
	if (a == b)
		return;
	str_printf(s, "%s %s ", s->len ? "," : "", what);
	say_end(s, a);
	str_puts(s, " -> ");
	say_end(s, b);
}

/* AUDIT A-909: for fewer days, as the one who agrees is told. */
static int ask_for_shorter(struct command_call *c, struct db *db, const char *tenant,
			   const struct retention_period *now, const struct retention_period *next, struct err *err)
{
	struct str days = STR_INIT;
	char *why;
	int rc;

	say_days(&days, "at least", now->min_days, next->min_days);
	say_days(&days, "at most", now->max_days, next->max_days);
	why = mem_printf("records of %s are kept for fewer days:%s", tenant, str_text(&days));
	rc = approval_require_for(c, db, why, err);
	free(why);
	str_fini(&days);
	return rc;
}

static int record_period(struct command_call *c, struct db *db, struct audit_logs *logs, int64_t tenant_id,
			 const struct retention_period *p, struct audit_receipt *ret, struct err *err)
{
	uint8_t days[16];
	struct audit_field field[2];
	struct command_record r = { .kind = AUDIT_RETENTION_CHANGE, .tenant_id = tenant_id, .obj = "retention", .field = field,
		.ret = ret };

	audit_put_be(days, (uint64_t)p->min_days, 8);
	audit_put_be(days + 8, p->max_days >= 0 ? (uint64_t)p->max_days : 0, 8);
	r.nfield = approval_field(c, field);
	field[r.nfield++] = (struct audit_field){ AUDIT_TAG_COUNTS, days, sizeof(days) };
	return command_record(c, db, logs, &r, err);
}

int retention_store(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *t,
		    const struct retention_period *want, struct retention_period *ret_before, struct err *err)
{
	struct audit_receipt at;
	int64_t log = 0;
	int rc = tenant_row_log(db, t->id, &log, err);

	if (rc == 0)
		rc = retention_check(want->min_days, want->max_days, err);
	if (rc == 0)
		rc = newest(db, log, ret_before, err);
	if (rc < 0 || (rc == 1 && is_same(ret_before, want)))
		return rc < 0 ? rc : 0;
	rc = rc == 1 && is_shorter(ret_before, want) ? ask_for_shorter(c, db, t->name, ret_before, want, err) : 0;
	if (rc == 0)
		rc = record_period(c, db, logs, t->id, want, &at, err);
	if (rc == 0)
		rc = store_period(db, log, want, &at, err);
	return rc < 0 ? rc : 1;
}
