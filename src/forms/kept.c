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
#include "db/vtab.h"
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

int forms_span_put(struct db *db, int64_t before, int64_t id, struct err *err)
{
	struct db_stmt *st;

	if (before != 0 && id >> SPAN_BITS == before >> SPAN_BITS)
		return 0;
	st = db_stmt_get(db, SQL_FORMS_PUT_SPAN);
	db_bind_i64(st, 1, id);
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

/* --- rows that are inserted together */

/* Columns of rec as the table has them, which spares SQLite a copy of each; COL_COUNT: one of those below. */
static const uint8_t rec_columns[] = {
	COL_COUNT, COL_COUNT, COL_LOG, COL_IDX, COL_KIND, COL_TS, COL_MONO, COL_BOOT, COL_CALL, COL_CRED, COL_PRN, COL_ACTOR,
	COL_AUTHN, COL_TPORT, COL_REV, COL_TOOL, COL_TDEF, COL_BUILD, COL_RULE, COL_N_REQ, COL_N_RES, COL_FLAGS, COL_OUTCOME,
	COL_XSTAT, COL_SIG, COL_DUR, COL_BEG, COL_PREV, COL_TRACE, COL_OBJ, COL_EXT, COL_COUNT, COL_SBOX, COL_CLK, COL_OBO,
	COL_PEER, COL_CLIENT, COL_POL, COL_SCOPE, COL_CM, COL_SH, COL_N_STO, COL_KEY, COL_CPU, COL_RSS, COL_SYS, COL_MDL,
};
enum { REC_ID, REC_ENC, REC_LEAF = 31, REC_WIDTH = NELEMS(rec_columns), PAY_WIDTH = PAY_CT + 1, ROWS_MAX = 64,
	ROWS_BYTES = 128 << 10 };
_Static_assert((int)REC_WIDTH <= (int)DB_ROWS_IN_MAX, "rows_in() has as many columns");

struct forms_batch {
	size_t nrec, npay, used;
	struct db_value rec[ROWS_MAX][REC_WIDTH], pay[ROWS_MAX][PAY_WIDTH];
	uint8_t bytes[ROWS_BYTES];              /* that values lead to */
};

struct forms_batch *forms_batch_new(void)
{
	return mem_zalloc(sizeof(struct forms_batch));
}

void forms_batch_drop(struct forms_batch *rows)
{
	rows->nrec = rows->npay = rows->used = 0;
}

static struct db_value number(int64_t n)
{
	return (struct db_value){ .type = DB_INT, .n = n };
}

static struct db_value bytes(struct forms_batch *rows, const void *p, size_t len)
{
	uint8_t *to = rows->bytes + rows->used;

	if (len > 0)
		memcpy(to, p, len);
	rows->used += len;
	return (struct db_value){ .type = DB_BLOB, .p = to, .len = len };
}

bool forms_batch_add(struct forms_batch *rows, const struct audit_row *r, const uint8_t leaf[TREE_HASH], size_t payload)
{
	static const uint8_t blobs[] = { COL_CALL, COL_PREV, COL_TRACE, COL_EXT, COL_CM, COL_SH };
	struct db_value *v = rows->rec[rows->nrec];
	size_t len = TREE_HASH + payload;

	if (rows->nrec == ROWS_MAX)
		return false;
	for (size_t i = 0; i < NELEMS(blobs); i++)
		len += r->v[blobs[i]].present ? r->v[blobs[i]].len : 0;
	if (len > sizeof(rows->bytes) - rows->used)
		return false;
	for (size_t i = 0; i < NELEMS(rec_columns); i++) {
		const struct audit_value *a = rec_columns[i] < COL_COUNT ? &r->v[rec_columns[i]] : NULL;

		if (!a || !a->present)
			v[i].type = DB_NULL;
		else if (audit_columns[rec_columns[i]].form == FORM_BLOB)
			v[i] = bytes(rows, a->p, a->len);
		else
			v[i] = number(a->n);
	}
	v[REC_ENC] = number(AUDIT_ENC);
	v[REC_LEAF] = bytes(rows, leaf, TREE_HASH);
	rows->nrec++;
	return true;
}

int forms_batch_insert(struct forms_batch *rows, struct db *db, int64_t last, struct err *err)
{
	struct db_stmt *st;
	int rc = 0;

	if (rows->nrec == 0)
		return 0;
	st = db_stmt_get(db, SQL_AUDIT_INSERT_RECS);
	db_bind_rows(st, 1, rows->rec[0], REC_WIDTH, rows->nrec);
	rc = db_run(&st, err);
	if (rc == 0 && db_last_id(db) != last)          /* what stands in rows->pay */
		rc = err_set(err, ERR_INTERNAL, "audit", "rows got other numbers than those that come next");
	if (rc == 0 && rows->npay > 0) {
		st = db_stmt_get(db, SQL_PAYLOAD_INSERT_ALL);
		db_bind_rows(st, 1, rows->pay[0], PAY_WIDTH, rows->npay);
		rc = db_run(&st, err);
	}
	forms_batch_drop(rows);
	return rc;
}

int forms_row_insert(struct db *db, const struct audit_row *r, const uint8_t leaf[TREE_HASH], int64_t *ret_id,
		     struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_AUDIT_INSERT_REC);
	int rc;

	db_bind_i64(st, 1, AUDIT_ENC);
	db_bind_blob(st, 2, leaf, TREE_HASH);
	for (unsigned col = 0; col < COL_COUNT; col++) {
		const struct audit_value *v = &r->v[col];

		if (!v->present)
			db_bind_null(st, 3 + col);
		else if (audit_columns[col].form == FORM_BLOB)
			db_bind_blob(st, 3 + col, v->p, v->len);
		else
			db_bind_i64(st, 3 + col, v->n);
	}
	rc = db_run(&st, err);
	if (rc == 0 && ret_id)
		*ret_id = db_last_id(db);
	return rc;
}

int forms_payload_put(struct forms_batch *rows, struct db *db, const struct forms_payload *p, struct err *err)
{
	struct db_stmt *st;

	if (rows->nrec > 0) {
		struct db_value *v = rows->pay[rows->npay++];

		v[PAY_REC] = number(p->rec);
		v[PAY_SALT] = bytes(rows, p->salt.p, p->salt.len);
		v[PAY_NONCE] = p->kept ? bytes(rows, p->nonce.p, p->nonce.len) : (struct db_value){ .type = DB_NULL };
		v[PAY_CT] = p->kept ? bytes(rows, p->ct.p, p->ct.len) : (struct db_value){ .type = DB_NULL };
		return 0;
	}
	st = db_stmt_get(db, SQL_PAYLOAD_INSERT);
	db_bind_i64(st, 1, p->rec);
	db_bind_blob(st, 2, p->salt.p, p->salt.len);
	if (p->kept) {
		db_bind_blob(st, 3, p->nonce.p, p->nonce.len);
		db_bind_blob(st, 4, p->ct.p, p->ct.len);
	} else {
		db_bind_null(st, 3);
		db_bind_null(st, 4);
	}
	return db_run(&st, err);
}
