/* Retention periods of a log: reading them, and which records they protect (AUDIT A-901).  For retention set, show
 * and prune; any thread that has a connection to the store. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "db/db.h"

#include "periods_int.h"

#define DAY_US (86400ull * 1000000)

static void read_period(struct db_stmt *st, struct retention_period *ret)
{
	*ret = (struct retention_period){ .set_by = db_col_i64(st, 0), .from_idx = db_col_i64(st, 1),
		.min_days = db_col_i64(st, 2),
		.max_days = db_col_type(st, 3) == DB_NULL ? -1 : db_col_i64(st, 3) };
}

int periods_load(struct db *db, int64_t log, struct retention_periods *ret, struct err *err)
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
		periods_fini(ret);
	return rc;
}

void periods_fini(struct retention_periods *p)
{
	free(p->v);
	*p = (struct retention_periods){ 0 };
}

int64_t promised_days(const struct retention_periods *p, int64_t idx)
{
	int64_t days = 0;

	for (size_t i = 0; i < p->n; i++) {     /* the newest first */
		if (p->v[i].min_days > days)
			days = p->v[i].min_days;
		if (p->v[i].from_idx <= idx)
			break;
	}
	return days;
}

int first_since(struct db *db, int64_t log, int64_t from, int64_t to, uint64_t since_us, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_RETENTION_FIRST_SINCE);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, from);
	db_bind_i64(st, 3, to);
	db_bind_i64(st, 4, (int64_t)since_us);
	rc = db_step(st, err);
	if (rc >= 0)
		*ret = rc == 1 ? db_col_i64(st, 0) : to;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static uint64_t days_ago(int64_t days)
{
	uint64_t now = clock_wall_us(), age = (uint64_t)days * DAY_US;

	return age < now ? now - age : 0;
}

/* Stretches between the changes of the period, the newest first: what was promised once stays, what is promised now
 * holds for what is there already. */
int first_promised(struct db *db, int64_t log, const struct retention_periods *p, int64_t from, int64_t to,
		   int64_t *ret, struct err *err)
{
	int64_t end = to, days = 0, found = to;
	int rc = 0;

	for (size_t i = 0; i <= p->n && rc == 0 && end > from; i++) {
		int64_t begin = i < p->n ? p->v[i].from_idx : from;

		if (i < p->n && p->v[i].min_days > days)
			days = p->v[i].min_days;
		if (begin < from)
			begin = from;
		if (begin >= end)
			continue;
		rc = first_since(db, log, begin, end, days_ago(days), &found, err);
		if (rc == 0 && found < end)
			to = found;
		end = begin;
	}
	*ret = to;
	return rc;
}
