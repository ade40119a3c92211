/*
 * Records as they stand in the store, trusting nothing: storage classes, ids and the stored leaf are checked, and
 * what is wrong is said as a set of findings, so that the reader can go on to the next record (AUDIT ).
 */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"

#include "audit_int.h"

enum { TEXTS_MAX = 65536, PAGE_ROWS = 1024 };

/* An entry of the dictionary. */
struct entry {
	int64_t kind;
	bool found, wrong_type;
	size_t len;
	char text[];
};

struct audit_reader {
	struct db *db;
	struct db_stmt *st;             /* the page that is being read */
	struct map *entries;            /* by id */
	struct audit_bytes bytes;
};

struct audit_reader *audit_reader_new(struct db *db)
{
	struct audit_reader *r = mem_zalloc(sizeof *r);

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

		e = mem_zalloc(sizeof *e + len + 1);
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
	struct entry *e = map_get_u64(r->entries, (uint64_t)id);
	int rc;

	if (!e) {
		rc = read_entry(r, id, &e, err);
		if (rc < 0)
			return rc;
		if (map_count(r->entries) >= TEXTS_MAX) {
			forget_entries(r);
			r->entries = map_new();
		}
		map_set_u64(r->entries, (uint64_t)id, e);
	}
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

static int read_column(struct audit_reader *r, const struct audit_page *page, enum audit_column col, unsigned pos,
		       struct audit_row *row, unsigned *findings, struct err *err)
{
	const struct audit_column_info *info = &audit_columns[col];
	enum db_type type = db_col_type(r->st, pos);
	size_t len = 0;
	const void *p;

	if (type == DB_NULL)
		return 0;
	if (info->form == FORM_BLOB) {
		p = db_col_blob(r->st, pos, &len);
		if (type != DB_BLOB || (info->size && len != info->size))
			*findings |= AUDIT_FOUND_TYPE;
		audit_row_blob(row, col, p, len);
		return 0;
	}
	if (type != DB_INT || db_col_i64(r->st, pos) < 0) {
		*findings |= AUDIT_FOUND_TYPE;
		return 0;
	}
	return read_int(r, page, col, db_col_i64(r->st, pos), row, findings, err);
}

/* enc, leaf, then the columns in their order. */
static int read_row(struct audit_reader *r, const struct audit_page *page, struct audit_read *ret, struct err *err)
{
	size_t len = 0;
	const void *stored;

	memset(ret, 0, sizeof *ret);
	for (unsigned col = 0; col < COL_COUNT; col++) {
		int rc = read_column(r, page, col, col + 2, &ret->row, &ret->findings, err);

		if (rc < 0)
			return rc;
	}
	ret->idx = ret->row.v[COL_IDX].n;
	stored = db_col_blob(r->st, 1, &len);
	if (db_col_type(r->st, 0) != DB_INT || db_col_i64(r->st, 0) != AUDIT_ENC)
		ret->findings |= AUDIT_FOUND_ENCODING;
	audit_row_encode(&ret->row, &r->bytes);
	tree_leaf(r->bytes.p, r->bytes.len, ret->leaf);
	if (db_col_type(r->st, 1) != DB_NULL && (len != TREE_HASH || memcmp(stored, ret->leaf, TREE_HASH) != 0))
		ret->findings |= AUDIT_FOUND_LEAF;
	return 0;
}

/* A page at a time, so that no read transaction lasts long (AUDIT A-804). */
static bool next_page(struct audit_reader *r, struct audit_page *page)
{
	if (r->st)
		db_stmt_put(&r->st);
	if (page->rows == 0 && page->begun)
		return false;
	page->begun = true;
	page->rows = 0;
	r->st = db_stmt_get(r->db, SQL_AUDIT_LIST_ROWS);
	db_bind_i64(r->st, 1, page->log);
	db_bind_i64(r->st, 2, page->from);
	db_bind_i64(r->st, 3, page->to);
	db_bind_i64(r->st, 4, PAGE_ROWS);
	return true;
}

int audit_reader_next(struct audit_reader *r, struct audit_page *page, struct audit_read *ret, struct err *err)
{
	for (;;) {
		int rc = r->st ? db_step(r->st, err) : 0;

		if (rc < 0)
			return rc;
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
