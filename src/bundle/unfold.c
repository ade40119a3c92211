/* Records of a tenant as plain rows, with the views of the release, in a database of their own (SCALE SC-109): of the
 * registry what the views say names with, of the dictionary what these records stand for, nothing of anybody else. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "bundle/bundle.h"
#include "db/db.h"
#include "forms/forms.h"

enum {
	PAGE_RECORDS = 4096,            /* that are read before a statement ends, and what holds the log with it (SC-505) */
	SEEN_MAX = 1 << 27,             /* ids of texts that are kept in mind; the others are looked up again */
	FIRST_COLUMN = 2,               /* of UNFOLD_RECORDS: enc, leaf, then audit_columns[] */
};

struct unfolding {
	struct db *db;
	const struct audit_unfold_req *req;
	struct db_copy *to;
	uint8_t *seen; size_t cap;      /* bit n: the text n is there */
	struct audit_unfolded *said;
};

static bool see(struct unfolding *u, int64_t id)
{
	size_t at = (size_t)id / 8, cap = u->cap ? u->cap : 4096;
	bool was;

	if (id < 0 || id >= SEEN_MAX)
		return false;
	while (cap <= at)
		cap *= 2;
	if (cap > u->cap) {
		u->seen = mem_realloc(u->seen, cap);
		memset(u->seen + u->cap, 0, cap - u->cap);
		u->cap = cap;
	}
	was = u->seen[at] >> (id & 7) & 1;
	u->seen[at] |= (uint8_t)(1 << (id & 7));
	return was;
}

static int put_all(struct unfolding *u, enum sql_id sql, const char *table, int64_t key, struct err *err)
{
	struct db_stmt *st = db_stmt_get(u->db, sql);
	int rc;

	db_bind_i64(st, 1, key);
	while ((rc = db_step(st, err)) == 1) {
		rc = db_copy_row(u->to, table, st, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* A record and the texts that it stands for. */
static int put_record(struct unfolding *u, struct db_stmt *st, struct err *err)
{
	int rc = db_copy_row(u->to, "rec", st, err);

	for (unsigned i = 0; i < COL_COUNT && rc == 0; i++) {
		const unsigned col = FIRST_COLUMN + i;

		if (audit_columns[i].form == FORM_DICT && db_col_type(st, col) == DB_INT && !see(u, db_col_i64(st, col)))
			rc = put_all(u, SQL_UNFOLD_TEXT, "dict", db_col_i64(st, col), err);
	}
	return rc;
}

/* The columns stand where put_record() looks for them. */
static int check_columns(struct db_stmt *st, struct err *err)
{
	for (unsigned i = 0; i < COL_COUNT; i++)
		if (strcmp(db_col_name(st, FIRST_COLUMN + i), audit_columns[i].name) != 0)
			return err_set(err, ERR_INTERNAL, audit_columns[i].name, "a column of records is not unfolded");
	return 0;
}

/* Some records from *from on; *from is behind them then.  1: there may be more. */
static int put_page(struct unfolding *u, int64_t *from, struct err *err)
{
	struct db_stmt *st = db_stmt_get(u->db, SQL_UNFOLD_RECORDS);
	const int64_t until = u->req->until_us ? (int64_t)u->req->until_us : INT64_MAX;
	int64_t to = *from <= INT64_MAX - PAGE_RECORDS ? *from + PAGE_RECORDS : INT64_MAX;
	int rc;

	to = to < u->req->to ? to : u->req->to;
	db_bind_i64(st, 1, u->req->log);
	db_bind_i64(st, 2, *from);
	db_bind_i64(st, 3, to);
	db_bind_i64(st, 4, (int64_t)u->req->since_us);
	db_bind_i64(st, 5, until);
	rc = check_columns(st, err);
	while (rc == 0 && (rc = db_step(st, err)) == 1) {
		rc = put_record(u, st, err);
		u->said->records++;
	}
	db_stmt_put(&st);
	*from = to;
	return rc < 0 ? rc : to < u->req->to;
}

/* A call that has ended in the time says of its begin what the views show, wherever that is. */
static int put_begins(struct unfolding *u, struct err *err)
{
	struct db_stmt *lost = db_stmt_get(db_copy_db(u->to), SQL_UNFOLD_LOST);
	int rc;

	db_bind_i64(lost, 1, u->req->log);
	while ((rc = db_step(lost, err)) == 1) {
		struct db_stmt *st = db_stmt_get(u->db, SQL_UNFOLD_RECORD);

		db_bind_i64(st, 1, u->req->log);
		db_bind_i64(st, 2, db_col_i64(lost, 0));
		rc = db_step(st, err);
		if (rc == 1)
			rc = put_record(u, st, err);
		u->said->begins += rc == 0;
		db_stmt_put(&st);
		if (rc < 0)
			break;
	}
	db_stmt_put(&lost);
	return rc;
}

static int put_everything(struct unfolding *u, struct err *err)
{
	int64_t from = u->req->from;
	int rc = put_all(u, SQL_UNFOLD_LOG, "log", u->req->log, err);

	if (rc == 0)
		rc = put_all(u, SQL_UNFOLD_TENANT, "tenant", u->req->tenant_id, err);
	if (rc == 0)
		rc = put_all(u, SQL_UNFOLD_PRINCIPALS, "principal", u->req->tenant_id, err);
	for (bool more = rc == 0 && from < u->req->to; more && rc >= 0;) {
		rc = forms_see(u->db, err);     /* it takes long, and blocks may come to a store that had none */
		if (rc == 0)
			rc = put_page(u, &from, err);
		more = rc == 1;
	}
	if (rc == 0)
		rc = db_copy_index(u->to, "rec_place", "rec(log, idx)", err);
	if (rc == 0)
		rc = put_begins(u, err);
	return rc < 0 ? rc : db_copy_index(u->to, "rec_time", "rec(log, ts)", err);
}

int audit_unfold(struct db *db, const struct audit_unfold_req *req, int *ret_fd, struct audit_unfolded *ret,
		 struct err *err)
{
	static const char *const tables[] = { "tenant", "principal", "log", "dict", "rec", NULL };
	struct unfolding u = { .db = db, .req = req, .said = ret };
	int fd = -1, rc;

	memset(ret, 0, sizeof(*ret));
	rc = db_copy_new(db, req->dir, tables, &u.to, &fd, err);
	if (rc < 0)
		return rc;
	rc = put_everything(&u, err);
	free(u.seen);
	if (rc == 0)
		rc = db_copy_end(&u.to, err);
	db_copy_free(&u.to);
	if (rc < 0)
		close(fd);
	else
		*ret_fd = fd;
	return rc;
}
