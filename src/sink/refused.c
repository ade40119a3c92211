/* What a sink did not want, until a person has looked (OP-305): a list for each sink, in memory and in table
 * sink_rejected.  It is written together with positions, so that none moves beyond a record that was given up and is
 * not in the list; and it is bounded: a sink whose list is full gets nothing until it is settled.  Loop thread, but for
 * sink_refusals_write(). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "db/db.h"

#include "sink_int.h"

static void row_free(struct sink_refusal *r)
{
	free(r->why);
}

void sink_refusals_fini(struct sink_refusals *l)
{
	for (size_t i = 0; i < l->n; i++)
		row_free(&l->v[i]);
	free(l->v);
	*l = (struct sink_refusals){ .n = 0 };
}

static void append(struct sink_refusals *l, struct sink_refusal row)
{
	l->v = mem_realloc(l->v, (l->n + 1) * sizeof(*l->v));
	l->v[l->n++] = row;
}

/* The same again, after a death or by a seek, is no second row. */
void sink_refusals_add(struct sink_refusals *l, const struct sink_refusal *row)
{
	for (size_t i = 0; i < l->n; i++) {
		struct sink_refusal *old = &l->v[i];

		if (old->log != row->log || old->from != row->from || old->to != row->to)
			continue;
		row_free(old);
		*old = *row;
		old->why = mem_strdup(row->why);
		l->anew = true;
		return;
	}
	append(l, *row);
	l->v[l->n - 1].why = mem_strdup(row->why);
}

/* Those at or behind `from` of a log are sent again. */
void sink_refusals_forget(struct sink_refusals *l, int64_t log, int64_t from)
{
	size_t left = 0;

	for (size_t i = 0; i < l->n; i++) {
		if ((log == 0 || l->v[i].log == log) && l->v[i].from >= from)
			row_free(&l->v[i]);
		else
			l->v[left++] = l->v[i];
	}
	l->anew |= left != l->n;
	l->n = left;
}

int sink_refusals_load(struct sink_refusals *l, struct db *db, const char *sink, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SINK_REJECTED_LIST);
	int rc;

	db_bind_textz(st, 1, sink);
	while ((rc = db_step(st, err)) == 1)
		append(l, (struct sink_refusal){ db_col_i64(st, 0), db_col_i64(st, 1), db_col_i64(st, 2), db_col_i64(st, 3),
						 (uint64_t)db_col_i64(st, 4), db_col_dup(st, 5) });
	db_stmt_put(&st);
	l->written = l->n;
	return rc;
}

/* --- writing: a copy of what is not in the store yet */

bool sink_refusals_take(struct sink_refusals *l, struct sink_refusals *ret)
{
	const size_t from = l->anew ? 0 : l->written;

	if (!l->anew && from == l->n)
		return false;
	*ret = (struct sink_refusals){ .anew = l->anew };
	for (size_t i = from; i < l->n; i++) {
		append(ret, l->v[i]);
		ret->v[ret->n - 1].why = mem_strdup(l->v[i].why);
	}
	l->anew = false;
	l->written = l->n;
	return true;
}

/* It was not written. */
void sink_refusals_keep(struct sink_refusals *l)
{
	l->anew = true;
}

static int put_row(struct db *db, const char *sink, const struct sink_refusal *r, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SINK_REJECTED_PUT);

	db_bind_textz(st, 1, sink);
	db_bind_i64(st, 2, r->log);
	db_bind_i64(st, 3, r->from);
	db_bind_i64(st, 4, r->to);
	db_bind_i64(st, 5, r->records);
	db_bind_i64(st, 6, (int64_t)r->at_us);
	db_bind_textz(st, 7, r->why);
	return db_run(&st, err);
}

int sink_refusals_write(const struct sink_refusals *l, struct db *db, const char *sink, struct err *err)
{
	int rc = 0;

	if (l->anew) {
		struct db_stmt *st = db_stmt_get(db, SQL_SINK_REJECTED_DROP);

		db_bind_textz(st, 1, sink);
		rc = db_run(&st, err);
	}
	for (size_t i = 0; rc == 0 && i < l->n; i++)
		rc = put_row(db, sink, &l->v[i], err);
	return rc;
}
