/* What is kept beside records in either form, as table pay, and groups of it that change (forms/forms.h); then how much
 * there is in rows.  Any thread with a reader; what changes one, the writer's. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "db/server.h"
#include "forms/forms.h"

#include "forms_int.h"

enum { PAY_REC, PAY_SALT, PAY_NONCE, PAY_CT };
enum { KEPT_LOG = 4, KEPT_IDX };        /* columns of forms_kept behind these */
enum { SPAN_BITS = 12 };        /* 4,096 rows, whose entries are some eight pages of rec_order: decision 0152 */

struct kept {
	struct forms *f;
	struct db_stmt *st;
	bool in_groups, all;
	int64_t log, first, line, sealed;       /* of the group; the line of log, and where its files end */
	bool has_line;
	struct forms_file *file;        /* whose groups these are; NULL: the store's */
	int64_t file_log, file_from;    /* of all: the file that comes behind this one */
	struct block_payload v[BLOCK_PAYLOADS_MAX];
	size_t n, at;
};

static void *pay_open(void *arg)
{
	struct kept *c = mem_zalloc(sizeof(*c));

	c->f = arg;
	return c;
}

static void pay_close(void *cursor)
{
	struct kept *c = cursor;

	if (c->st)
		db_stmt_put(&c->st);
	forms_file_put(&c->file);
	free(c);
}

static int find_line(struct kept *c, int64_t log, struct err *err)
{
	int rc = 0;

	if (!c->has_line || c->log != log)
		rc = forms_line(c->f->db, log, &c->line, err);
	c->has_line = rc == 0;
	c->log = log;
	return rc;
}

/* A row of a record whose block counts is a leftover. */
static int counts_kept(struct kept *c, struct err *err)
{
	int rc;

	if (db_col_type(c->st, KEPT_LOG) == DB_NULL)
		return 1;
	rc = find_line(c, db_col_i64(c->st, KEPT_LOG), err);
	return rc < 0 ? rc : db_col_i64(c->st, KEPT_IDX) >= c->line;
}

static int open_group(struct kept *c, struct err *err)
{
	size_t len = 0;
	const void *body = db_col_blob(c->st, 2, &len);
	int rc;

	c->log = db_col_i64(c->st, 0);
	c->first = db_col_i64(c->st, 1);
	c->n = 0;
	if (c->log < 0 || c->log >> FORMS_LOG_BITS || c->first < 0 || c->first >> FORMS_IDX_BITS)
		rc = err_set(err, ERR_CORRUPT, "", "what is kept beside it can be of no record");
	else
		rc = block_payloads_read(body, len, c->v, &c->n, err);
	if (rc < 0 && c->file)
		rc = forms_file_bad(c->file, rc, err);
	return rc < 0 ? forms_bad(c->log, c->first, rc, err) : 0;
}

static int find_sealed(struct kept *c, int64_t log, struct err *err)
{
	int rc = 0;

	if (!c->has_line || c->log != log)
		rc = forms_sealed(c->f->db, log, &c->sealed, err);
	c->has_line = rc == 0;
	c->log = log;
	return rc;
}

/* The next record of the group that has something. */
static bool next_in_group(struct kept *c)
{
	while (++c->at < c->n)
		if (c->v[c->at].salt.p)
			return true;
	return false;
}

static int next_group(struct kept *c, struct err *err)
{
	int rc;

	while ((rc = db_step(c->st, err)) == 1) {
		if (!c->file)
			rc = find_sealed(c, db_col_i64(c->st, 0), err);
		if (rc >= 0 && !c->file && db_col_i64(c->st, 1) < c->sealed)
			continue;               /* a leftover */
		rc = rc < 0 ? rc : open_group(c, err);
		c->at = SIZE_MAX;
		if (rc < 0 || next_in_group(c))
			return rc < 0 ? rc : 1;
	}
	return rc;
}

/* Groups of the next sealed file: 1; 0: there is none. */
static int next_file(struct kept *c, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->f->db, SQL_FORMS_NEXT_FILE);
	int rc;

	db_bind_i64(st, 1, c->file_log);
	db_bind_i64(st, 2, c->file_from);
	rc = db_step(st, err);
	if (rc == 1) {
		c->file_log = db_col_i64(st, 0);
		c->file_from = db_col_i64(st, 1);
	}
	db_stmt_put(&st);
	forms_file_put(&c->file);
	return rc == 1 ? forms_file_get(c->f, c->file_log, c->file_from, &c->file, err) : rc;
}

/* What is kept in blocks of the store, then in files. */
static int next_of_all(struct kept *c, struct err *err)
{
	int rc = 0;

	for (;;) {
		rc = c->st ? next_group(c, err) : 0;
		if (rc != 0)
			return rc;
		if (c->st)
			db_stmt_put(&c->st);
		rc = next_file(c, err);
		if (rc != 1)
			return rc;
		if (!forms_file_db(c->file))
			continue;               /* not here, which was noted */
		c->st = db_stmt_get(forms_file_db(c->file), SQL_SEGMENT_ALL_GROUPS);
		db_bind_i64(c->st, 1, c->file_log);
	}
}

static int pay_next(void *cursor, struct err *err)
{
	struct kept *c = cursor;
	int rc;

	if (!c->st)
		return 0;
	if (c->in_groups && !c->all)
		return 0;
	if (!c->in_groups) {
		while ((rc = db_step(c->st, err)) == 1) {
			rc = counts_kept(c, err);
			if (rc != 0)
				return rc;
		}
		if (rc < 0 || !c->all)
			return rc;
		db_stmt_put(&c->st);
		c->st = db_stmt_get(c->f->db, SQL_FORMS_ALL_GROUPS);
		c->in_groups = true;
		c->has_line = false;
		c->file_log = c->file_from = -1;
		return next_of_all(c, err);
	}
	return next_in_group(c) ? 1 : next_of_all(c, err);
}

/* What is kept of one record in a block. */
static int find_kept(struct kept *c, int64_t id, struct err *err)
{
	int64_t log, idx;
	int rc;

	forms_place(id, &log, &idx);
	c->in_groups = true;
	c->n = 0;
	rc = forms_file_get(c->f, log, idx, &c->file, err);
	if (rc < 0 || (rc == 1 && !forms_file_db(c->file)))
		return rc < 0 ? rc : 0;
	c->st = rc == 1 ? db_stmt_get(forms_file_db(c->file), SQL_SEGMENT_GROUP) : db_stmt_get(c->f->db, SQL_FORMS_GROUP);
	db_bind_i64(c->st, 1, log);
	db_bind_i64(c->st, 2, idx);
	rc = db_step(c->st, err);
	if (rc == 1)
		rc = open_group(c, err) < 0 ? ERR_CORRUPT : 1;
	if (rc != 1)
		return rc;
	c->at = (size_t)(idx - c->first);
	return c->at < c->n && c->v[c->at].salt.p;
}

/* Whether the group that is open has the record; then that is where the cursor goes. */
static bool is_group(struct kept *c, int64_t id)
{
	int64_t log, idx;

	forms_place(id, &log, &idx);
	if (!c->st || !c->in_groups || c->all || c->log != log || idx < c->first || idx - c->first >= (int64_t)c->n)
		return false;
	c->at = (size_t)(idx - c->first);
	return true;
}

static int pay_filter(void *cursor, const struct db_vtab_ask *ask, struct err *err)
{
	struct kept *c = cursor;
	const struct db_value *id = ask->terms > 0 && ask->term[0].n == 1 ? ask->term[0].value : NULL;

	if (id && id->type == DB_INT && id->n < 0 && is_group(c, id->n))
		return c->at < c->n && c->v[c->at].salt.p;
	if (c->st)
		db_stmt_put(&c->st);
	forms_file_put(&c->file);
	c->in_groups = c->has_line = false;
	c->all = !id || (id->type != DB_INT && id->type != DB_NULL);
	if (id && id->type == DB_NULL)
		return 0;
	if (id && id->type == DB_INT && id->n < 0)
		return find_kept(c, id->n, err);
	c->st = db_stmt_get(c->f->db, c->all ? SQL_FORMS_ALL_KEPT : SQL_FORMS_KEPT);
	if (!c->all)
		db_bind_i64(c->st, 1, id->n);
	return pay_next(c, err);
}

static int64_t pay_id(const void *cursor)
{
	const struct kept *c = cursor;

	return c->in_groups ? forms_id(c->log, c->first + (int64_t)c->at) : db_col_i64(c->st, PAY_REC);
}

static void put_bytes(const struct block_bytes *b, struct db_value *ret)
{
	if (b->p)
		*ret = (struct db_value){ .type = DB_BLOB, .p = b->p, .len = b->len };
}

static int pay_column(void *cursor, unsigned col, struct db_value *ret, struct err *err)
{
	struct kept *c = cursor;

	if (col == PAY_REC) {
		*ret = (struct db_value){ .type = DB_INT, .n = pay_id(c) };
	} else if (c->in_groups) {
		put_bytes(col == PAY_SALT ? &c->v[c->at].salt : col == PAY_NONCE ? &c->v[c->at].nonce : &c->v[c->at].ct, ret);
	} else if (db_col_type(c->st, col) != DB_NULL) {
		ret->type = DB_BLOB;
		ret->p = db_col_blob(c->st, col, &ret->len);
	}
	return 0;
}

static void pay_plan(void *arg, struct db_vtab_plan *plan)
{
	for (unsigned i = 0; i < plan->terms; i++) {
		if (plan->term[i].col != PAY_REC || plan->term[i].op != DB_VTAB_EQ)
			continue;
		plan->term[i].use = plan->unique = true;
		plan->term[i].several = false;
		plan->cost = 20;
		plan->rows = 1;
		return;
	}
}

const struct db_vtab forms_pay = {
	.name = "pay", .columns = "rec INTEGER, salt BLOB, nonce BLOB, ct BLOB", .plan = pay_plan, .open = pay_open,
	.filter = pay_filter, .next = pay_next, .column = pay_column, .id = pay_id, .close = pay_close,
};

/* --- a group that changes */

void forms_group_free(struct forms_group **gp)
{
	if (*gp)
		free((*gp)->body.p);
	free(*gp);
	*gp = NULL;
}

int forms_group_read(struct db *db, int64_t log, int64_t idx, struct forms_group **ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FORMS_GROUP_OF);
	struct forms_group *g = mem_zalloc(sizeof(*g));
	size_t len = 0;
	const void *body;
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, idx);
	rc = db_step(st, err);
	if (rc == 1) {
		g->first = db_col_i64(st, 0);
		body = db_col_blob(st, 1, &len);
		g->body = (struct audit_bytes){ mem_dup(body, len), len, len };
		rc = block_payloads_read(g->body.p, len, g->v, &g->n, err);
		rc = rc < 0 ? rc : idx - g->first < (int64_t)g->n;
	}
	db_stmt_put(&st);
	if (rc != 1)
		forms_group_free(&g);
	*ret = g;
	return rc;
}

int forms_span_put(struct db *db, int64_t before, int64_t *ret, struct err *err)
{
	struct db_stmt *st;

	*ret = db_last_id(db);
	if (before != 0 && *ret >> SPAN_BITS == before >> SPAN_BITS)
		return 0;
	st = db_stmt_get(db, SQL_FORMS_PUT_SPAN);
	db_bind_i64(st, 1, *ret);
	return db_run(&st, err);
}

int forms_spans_drop(struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FORMS_DROP_SPANS);

	return db_run(&st, err);
}

int forms_group_put(struct db *db, int64_t log, int64_t first, const struct audit_bytes *body, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FORMS_PUT_GROUP);

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, first);
	db_bind_blob(st, 3, body->p, body->len);
	return db_run(&st, err);
}

int forms_group_write(struct db *db, int64_t log, const struct forms_group *g, struct err *err)
{
	struct audit_bytes body = { 0 };
	struct db_stmt *st;
	bool any = false;
	size_t n = 0;
	int rc;

	for (size_t i = 0; i < g->n; i++)
		any = any || g->v[i].salt.p;
	if (!any) {
		st = db_stmt_get(db, SQL_FORMS_DELETE_GROUP);
		db_bind_i64(st, 1, log);
		db_bind_i64(st, 2, g->first);
		return db_run(&st, err);
	}
	rc = block_payloads_write(g->v, g->n, &body, &n, err);
	if (rc == 0 && n != g->n)
		rc = err_set(err, ERR_INTERNAL, "audit", "a group of payloads grew when something was taken out of it");
	if (rc == 0)
		rc = forms_group_put(db, log, g->first, &body, err);
	free(body.p);
	return rc;
}

int forms_group_cut(struct db *db, int64_t log, int64_t cut, struct err *err)
{
	struct forms_group *g, *rest;
	int rc = forms_group_read(db, log, cut, &g, err);

	if (rc == 1 && g->first < cut) {
		const size_t front = (size_t)(cut - g->first);

		rest = mem_zalloc(sizeof(*rest));       /* its bytes are those of the whole */
		rest->first = cut;
		rest->n = g->n - front;
		memcpy(rest->v, g->v + front, rest->n * sizeof(*rest->v));
		g->n = front;
		rc = forms_group_write(db, log, rest, err);
		if (rc == 0)
			rc = forms_group_write(db, log, g, err);
		forms_group_free(&rest);
	}
	forms_group_free(&g);
	return rc < 0 ? rc : 0;
}

int forms_tail_set(struct db *db, int64_t id, struct err *err)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRId64, id);
	return db_meta_set(db, FORMS_META_TAIL_FROM, text, err);
}

int forms_tail_get(struct db *db, int64_t *ret, struct err *err)
{
	char text[24];
	int64_t id = 0;
	int rc = db_meta_get(db, FORMS_META_TAIL_FROM, text, sizeof(text), err);

	if (rc == 0 && *text && (text_i64(text, strlen(text), &id) < 0 || id < 0))
		rc = err_set(err, ERR_CORRUPT, "meta/" FORMS_META_TAIL_FROM, "%s is no number of a row", text);
	if (rc == 0)
		*ret = id;
	return rc;
}

/* --- how much there is */

int forms_count(struct db *db, struct forms_rows *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FOLD_COUNT_ROWS);
	int64_t knows = 0;      /* blocks; spans as well */
	int rc = db_step(st, err);

	if (rc == 1) {
		*ret = (struct forms_rows){ .waiting = db_col_i64(st, 0), .once = db_col_i64(st, 1) };
		knows = db_col_i64(st, 2);
	}
	db_stmt_put(&st);
	if (rc < 0 || !knows)
		return rc < 0 ? rc : 0;
	st = db_stmt_get(db, knows > 1 ? SQL_FOLD_COUNT_WAITING : SQL_FOLD_COUNT_WAITING_BEFORE);
	rc = db_step(st, err);
	if (rc == 1) {
		ret->waiting = db_col_i64(st, 0);
		ret->any = db_col_i64(st, 1);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* --- indexes of rows */

int forms_make_lean(struct db *db, bool *ret_made, struct err *err)
{
	struct db_stmt *st;
	unsigned left = 0;
	int rc = db_lean_left(db, &left, err);

	*ret_made = false;
	if (rc < 0 || left == 0 || db_is_shared(db))
		return rc;
	st = db_stmt_get(db, SQL_FOLD_IS_SMALL);
	db_bind_i64(st, 1, FORMS_LEAN_ROWS_MAX);
	db_bind_i64(st, 2, FORMS_LEAN_TAIL_MAX);
	rc = db_step(st, err);
	if (rc == 1)
		*ret_made = db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 || !*ret_made ? (rc < 0 ? rc : 0) : db_make_lean(db, left, err);
}
