/* Records as they stand in the store, read trusting nothing: storage classes, ids and the stored leaf are checked,
 * and what is wrong is said as a set of findings, so that the reader can go on to the next record (AUDIT A-801,
 * Any thread with a connection. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/record.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "forms/forms.h"

/* --- the reader */

enum { TEXTS_MAX = 65536, PAGE_ROWS = 1024, NEAR_SIZE = 1024 };

/* An entry of the dictionary. */
struct entry {
	int64_t id, kind;
	bool found, wrong_type;
	size_t len;
	char text[];
};

struct audit_reader {
	struct db *db;
	struct db_stmt *st;             /* the page that is being read */
	struct map *entries;            /* by id */
	struct entry *near[NEAR_SIZE];  /* the last of each id modulo the size: a record has ten texts, mostly the same ones */
	struct audit_bytes bytes;
};

struct audit_reader *audit_reader_new(struct db *db)
{
	struct audit_reader *r = mem_zalloc(sizeof(*r));

	r->db = db;
	r->entries = map_new();
	return r;
}

static void forget_entries(struct audit_reader *r)
{
	void *value;

	for (size_t it = 0; map_next(r->entries, &it, NULL, NULL, &value);)
		free(value);
	map_free(&r->entries);
	memset(r->near, 0, sizeof(r->near));
}

void audit_reader_free(struct audit_reader **rp)
{
	struct audit_reader *r = *rp;

	if (!r)
		return;
	*rp = NULL;
	if (r->st)
		db_stmt_put(&r->st);
	forget_entries(r);
	free(r->bytes.p);
	free(r);
}

static int read_entry(struct audit_reader *r, int64_t id, struct entry **ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(r->db, SQL_AUDIT_GET_ENTRY);
	struct entry *e = NULL;
	int rc;

	db_bind_i64(st, 1, id);
	rc = db_step(st, err);
	if (rc >= 0) {
		size_t len = 0;
		const void *p = rc == 1 ? db_col_blob(st, 1, &len) : NULL;

		e = mem_zalloc(sizeof(*e) + len + 1);
		e->id = id;
		e->found = rc == 1;
		e->len = len;
		if (len > 0)
			memcpy(e->text, p, len);
		if (rc == 1) {
			e->kind = db_col_i64(st, 0);
			e->wrong_type = db_col_type(st, 1) != DB_TEXT || !text_utf8_valid(e->text, len);
		}
	}
	db_stmt_put(&st);
	*ret = e;
	return rc < 0 ? rc : 0;
}

static int get_entry(struct audit_reader *r, int64_t id, const struct entry **ret, struct err *err)
{
	struct entry **near = &r->near[(uint64_t)id % NEAR_SIZE], *e;
	int rc;

	if (*near && (*near)->id == id) {
		*ret = *near;
		return 0;
	}
	e = map_get_u64(r->entries, (uint64_t)id);
	if (!e) {
		rc = read_entry(r, id, &e, err);
		if (rc < 0)
			return rc;
		map_set_u64(r->entries, (uint64_t)id, e);
	}
	*near = e;
	*ret = e;
	return 0;
}

static int read_int(struct audit_reader *r, const struct audit_page *page, enum audit_column col, int64_t n,
		    struct audit_row *row, unsigned *findings, struct err *err)
{
	const struct entry *e = NULL;
	int rc;

	switch ((enum audit_form)audit_columns[col].form) {
	case FORM_ORIGIN:
		audit_row_text(row, col, n, page->origin, strlen(page->origin));
		return 0;
	case FORM_DICT:
		rc = get_entry(r, n, &e, err);
		if (rc < 0)
			return rc;
		if (!e->found) {
			*findings |= AUDIT_FOUND_DICT;
			return 0;
		}
		if (e->kind != audit_columns[col].tag)
			*findings |= AUDIT_FOUND_DICT;
		if (e->wrong_type)
			*findings |= AUDIT_FOUND_TYPE;
		audit_row_text(row, col, n, e->text, e->len);
		return 0;
	case FORM_INT:
	case FORM_BLOB:
		break;
	}
	audit_row_int(row, col, n);
	return 0;
}

static int read_column(struct audit_reader *r, const struct audit_page *page, enum audit_column col,
		       const struct db_value *v, struct audit_row *row, unsigned *findings, struct err *err)
{
	const struct audit_column_info *info = &audit_columns[col];

	if (info->form == FORM_BLOB) {
		if (v->type != DB_BLOB || (info->size && v->len != info->size))
			*findings |= AUDIT_FOUND_TYPE;
		audit_row_blob(row, col, v->p, v->len);
		return 0;
	}
	if (v->type != DB_INT || v->n < 0) {
		*findings |= AUDIT_FOUND_TYPE;
		return 0;
	}
	return read_int(r, page, col, v->n, row, findings, err);
}

enum { ENC, LEAF, FIRST, WIDTH = FIRST + COL_COUNT };   /* columns of audit_list_rows: then those of audit_columns[] */

static int read_row(struct audit_reader *r, const struct audit_page *page, struct audit_read *ret, struct err *err)
{
	const struct db_value *v = db_row(r->st, WIDTH);

	if (!v)
		return err_set(err, ERR_INTERNAL, "audit", "a row of records did not come out");
	if (map_count(r->entries) >= TEXTS_MAX) {       /* not later: the row borrows its texts */
		forget_entries(r);
		r->entries = map_new();
	}
	memset(ret, 0, sizeof(*ret));
	for (unsigned col = 0; col < COL_COUNT; col++) {
		int rc = v[FIRST + col].type == DB_NULL ? 0 :
			read_column(r, page, col, &v[FIRST + col], &ret->row, &ret->findings, err);

		if (rc < 0)
			return rc;
	}
	ret->idx = ret->row.v[COL_IDX].n;
	if (v[ENC].type != DB_INT || v[ENC].n != AUDIT_ENC)
		ret->findings |= AUDIT_FOUND_ENCODING;
	audit_row_encode(&ret->row, &r->bytes);
	tree_leaf(r->bytes.p, r->bytes.len, ret->leaf);
	if (v[LEAF].type != DB_NULL && (v[LEAF].len != TREE_HASH || memcmp(v[LEAF].p, ret->leaf, TREE_HASH) != 0))
		ret->findings |= AUDIT_FOUND_LEAF;
	return 0;
}

/* A page at a time (AUDIT A-804), of no more rows than there can be: behind them a walk by position would go on. */
static bool next_page(struct audit_reader *r, struct audit_page *page)
{
	if (r->st)
		db_stmt_put(&r->st);
	if (page->rows == 0 && page->begun)
		return false;
	page->begun = true;
	page->rows = 0;
	r->st = db_stmt_get(r->db, page->leftovers ? SQL_AUDIT_LIST_LEFTOVERS : forms_seen(r->db) ? SQL_AUDIT_LIST_FORMS
			    : SQL_AUDIT_LIST_ROWS);
	db_bind_i64(r->st, 1, page->log);
	db_bind_i64(r->st, 2, page->from);
	db_bind_i64(r->st, 3, page->to);
	db_bind_i64(r->st, 4, page->from < 0 || page->to - page->from > PAGE_ROWS ? PAGE_ROWS : page->to - page->from);
	db_bind_row(r->st, 5);
	return true;
}

int audit_reader_next(struct audit_reader *r, struct audit_page *page, struct audit_read *ret, struct err *err)
{
	for (;;) {
		int rc = r->st ? db_step(r->st, err) : 0;

		if (rc < 0) {
			db_stmt_put(&r->st);
			return rc;
		}
		if (rc == 1) {
			page->rows++;
			rc = read_row(r, page, ret, err);
			page->from = (ret->idx > page->from ? ret->idx : page->from) + 1;      /* always on */
			return rc < 0 ? rc : 1;
		}
		if (!next_page(r, page))
			return 0;
	}
}

/* --- the bytes of records, made anew from their columns: what exports carry and others can check */

struct audit_walk {
	struct audit_reader *reader;
	struct audit_page page;
	struct audit_bytes bytes;
};

struct audit_walk *audit_walk_new(struct db *db, int64_t log, const char *origin, int64_t from, int64_t to)
{
	struct audit_walk *w = mem_zalloc(sizeof(*w));

	w->reader = audit_reader_new(db);
	w->page.log = log;
	w->page.origin = origin;
	w->page.from = from;
	w->page.to = to;
	return w;
}

void audit_walk_free(struct audit_walk **wp)
{
	if (!*wp)
		return;
	audit_reader_free(&(*wp)->reader);
	free((*wp)->bytes.p);
	free(*wp);
	*wp = NULL;
}

int audit_walk_next(struct audit_walk *w, struct audit_record *ret, struct err *err)
{
	struct audit_read read;
	int rc = audit_reader_next(w->reader, &w->page, &read, err);

	if (rc != 1)
		return rc;
	audit_row_encode(&read.row, &w->bytes);
	ret->idx = read.idx;
	ret->enc = AUDIT_ENC;
	ret->bytes = w->bytes.p;
	ret->len = w->bytes.len;
	memcpy(ret->leaf, read.leaf, sizeof(ret->leaf));
	return 1;
}
