/* Blocks that statements are reading: each decoded as far as it was asked for, a few kept (forms/forms.h).  What is
 * tested on most rows, what is shown of few, and what a leaf needs are decoded apart (SCALE SC-206). */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"

#include "forms_int.h"

enum { TEXTS_MAX = 65536 };              /* for leaves: forgotten then */

enum part { PART_TESTED, PART_NUMBERS, PART_PRESENT, PART_BYTES, PART_LEAF, PARTS };

struct text { int64_t kind; size_t len; char p[]; };

struct forms_slot {
	struct forms *f;
	int64_t log;
	struct forms_file *file;        /* that has it, pinned; NULL: the store */
	struct block b;                 /* of the bytes that follow */
	uint8_t *cols, *hash;           /* hash: most of a block, read once somebody needs it; NULL: nobody has */
	bool hash_is;                   /* that it is what the row has was seen since the block was fetched */
	unsigned pins;
	uint64_t used, wanted;
	struct { struct block_reader *reader; uint64_t columns; } part[PARTS];
	struct audit_row row; int64_t row_at;           /* of PART_BYTES; -1: none */
	char *origin;                   /* of PART_LEAF */
	uint8_t leaf[TREE_HASH];
};

static void slot_free(struct forms_slot *s)
{
	for (enum part p = 0; p < PARTS; p++)
		block_reader_free(&s->part[p].reader);
	forms_file_put(&s->file);
	free(s->origin);
	free(s->cols);
	free(s->hash);
	free(s);
}

static void forget_texts(struct forms *f)
{
	void *value;

	for (size_t it = 0; map_next(f->texts, &it, NULL, NULL, &value);)
		free(value);
	map_free(&f->texts);
}

struct forms *forms_new(struct db *db, struct forms_absent *absent)
{
	struct forms *f = mem_zalloc(sizeof(*f));

	f->db = db;
	f->absent = absent;
	f->texts = map_new();
	return f;
}

void forms_free(void *forms)
{
	struct forms *f = forms;

	for (size_t i = 0; i < FORMS_KEPT; i++)
		if (f->kept[i])
			slot_free(f->kept[i]);
	forms_files_free(f);
	forget_texts(f);
	free(f->zones);
	free(f);
}

int forms_bad(int64_t log, int64_t first, int rc, struct err *err)
{
	char at[sizeof(err->where)];

	if (!err)
		return rc;
	(void)snprintf(at, sizeof(at), "log/%" PRId64 "/block/%" PRId64 "%s", log, first, *err->where ? "/" : "");
	err_at(err, at);
	err_wrap(err, "block %" PRId64 " of log %" PRId64, first, log);
	return rc;
}

int forms_sealed(struct db *db, int64_t log, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SEAL_LINE);
	int64_t sealed = 0;
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	if (rc == 1)
		sealed = db_col_i64(st, 0);
	db_stmt_put(&st);
	if (rc >= 0 && (sealed < 0 || sealed >> FORMS_IDX_BITS))
		rc = err_set(err, ERR_CORRUPT, "seg", "no sealed file of log %" PRId64 " can end at %" PRId64, log, sealed);
	*ret = sealed;
	return rc < 0 ? rc : 0;
}

/* No block ends before the last sealed file does: of those that it has, the oldest go first. */
int forms_line(struct db *db, int64_t log, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FORMS_NEWEST);
	int64_t first = 0, cnt = 0, sealed = 0;
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	if (rc == 1) {
		first = db_col_i64(st, 0);
		cnt = db_col_i64(st, 1);
	}
	db_stmt_put(&st);
	if (rc == 1 && (first < 0 || first >> FORMS_IDX_BITS || cnt < 1 || cnt > BLOCK_RECORDS_MAX))
		return forms_bad(log, first, err_set(err, ERR_CORRUPT, "", "no block can be there"), err);
	if (rc == 1)
		*ret = first + cnt;
	if (rc != 0)
		return rc < 0 ? rc : 0;
	rc = forms_sealed(db, log, &sealed, err);
	if (rc == 0)
		*ret = sealed > 0 ? sealed : INT64_MIN;
	return rc;
}

int forms_unsealed(struct db *db, int64_t log, const char *done, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FORMS_ANY_FILE);
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	db_stmt_put(&st);
	return rc != 1 ? rc : err_set(err, ERR_CONFLICT, FORMS_FOLDER, "records are in sealed files, which are not %s yet",
				      done);
}

/* --- the blocks that are kept */

static bool same_bytes(const struct block_bytes *a, const struct block_bytes *b)
{
	return a->len == b->len && (a->len == 0 || memcmp(a->p, b->p, a->len) == 0);
}

static bool is_it(const struct forms_slot *s, int64_t log, const struct forms_file *file, const struct block *b)
{
	return s && s->log == log && s->file == file && s->b.first == b->first && s->b.cnt == b->cnt && s->b.fmt == b->fmt &&
		same_bytes(&s->b.cols, &b->cols);
}

static struct forms_slot *slot_new(struct forms *f, int64_t log, struct forms_file *file, const struct block *b)
{
	struct forms_slot *s = mem_zalloc(sizeof(*s));

	s->f = f;
	s->log = log;
	s->file = forms_file_pin(file);
	s->b = *b;
	s->cols = mem_dup(b->cols.p, b->cols.len);
	s->b.cols.p = s->cols;
	s->b.hash = s->b.zone = (struct block_bytes){ "", 0 };
	s->row_at = -1;
	return s;
}

/* They would keep a file open that has another one in its place. */
static void forget_stale(struct forms *f)
{
	for (size_t i = 0; i < FORMS_KEPT; i++)
		if (f->kept[i] && f->kept[i]->pins == 0 && forms_file_stale(f->kept[i]->file)) {
			slot_free(f->kept[i]);
			f->kept[i] = NULL;
		}
}

int forms_slot_get(struct forms *f, int64_t log, struct forms_file *file, const struct block *b, uint64_t columns,
		   struct forms_slot **ret, struct err *err)
{
	struct forms_slot **oldest = NULL;

	if (log < 0 || log >> FORMS_LOG_BITS || b->first < 0 || b->first >> FORMS_IDX_BITS)
		return forms_bad(log, b->first, err_set(err, ERR_LIMIT, "", "records there have no id"), err);
	forget_stale(f);
	for (size_t i = 0; i < FORMS_KEPT; i++) {
		struct forms_slot *s = f->kept[i];

		if (is_it(s, log, file, b)) {
			s->hash_is = s->hash_is && s->pins > 0;         /* by another statement: the row may be another */
			s->pins++;
			s->wanted |= columns;
			s->used = ++f->clock;
			*ret = s;
			return 0;
		}
		if (!s || (s->pins == 0 && (!oldest || (*oldest && s->used < (*oldest)->used))))
			oldest = &f->kept[i];
	}
	*ret = slot_new(f, log, file, b);
	(*ret)->used = ++f->clock;
	(*ret)->pins = 1;
	(*ret)->wanted = columns;
	if (oldest) {
		if (*oldest)
			slot_free(*oldest);
		*oldest = *ret;
	} else {
		f->loose++;
	}
	return 0;
}

void forms_slot_put(struct forms_slot **slot)
{
	struct forms_slot *s = *slot;

	*slot = NULL;
	if (!s || --s->pins > 0)
		return;
	for (size_t i = 0; i < FORMS_KEPT; i++)
		if (s->f->kept[i] == s)
			return;
	s->f->loose--;
	slot_free(s);
}

/* --- what is in them */

static int get_text(void *arg, uint16_t kind, int64_t id, const char **ret, size_t *ret_len, struct err *err)
{
	struct forms *f = arg;
	struct text *t = map_get_u64(f->texts, (uint64_t)id);
	struct db_stmt *st;
	int rc = 1;

	if (!t) {
		st = db_stmt_get(f->db, SQL_AUDIT_GET_ENTRY);
		db_bind_i64(st, 1, id);
		rc = db_step(st, err);
		if (rc == 1 && db_col_type(st, 1) == DB_TEXT) {
			size_t len = 0;
			const char *p = db_col_text(st, 1, &len);

			t = mem_alloc(sizeof(*t) + len + 1);
			t->kind = db_col_i64(st, 0);
			t->len = len;
			memcpy(t->p, p, len);
			t->p[len] = '\0';
			map_set_u64(f->texts, (uint64_t)id, t);
		}
		db_stmt_put(&st);
	}
	if (rc < 0 || !t || t->kind != kind)
		return rc < 0 ? rc : 0;
	*ret = t->p;
	*ret_len = t->len;
	return 1;
}

static int get_origin(struct forms_slot *s, struct err *err)
{
	struct db_stmt *st = db_stmt_get(s->f->db, SQL_FORMS_ORIGIN);
	int rc;

	db_bind_i64(st, 1, s->log);
	rc = db_step(st, err);
	if (rc >= 0)
		s->origin = rc == 1 ? db_col_dup(st, 0) : mem_strdup("");
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* Of zones, and the time. */
#define IS_TESTED(col) [COL_##col] = true,
static const bool is_tested[COL_COUNT] = { [COL_TS] = true, BLOCK_ZONES(IS_TESTED) };

static uint64_t columns_of(enum part p)
{
	uint64_t tested = 0, bytes = 0;

	for (unsigned col = 0; col < COL_COUNT; col++) {
		if (is_tested[col])
			tested |= BLOCK_COLUMN(col);
		if (audit_columns[col].form == FORM_BLOB)
			bytes |= BLOCK_COLUMN(col);
	}
	switch (p) {
	case PART_TESTED:
		return tested;
	case PART_BYTES:
		return bytes;
	case PART_NUMBERS:
		return BLOCK_ALL_COLUMNS & ~tested & ~bytes;
	case PART_PRESENT:
		return 0;
	case PART_LEAF:
	case PARTS:
		break;
	}
	return BLOCK_ALL_COLUMNS;
}

/* Readers of leaves borrow texts: they go first.  Not while one is at work, or a cursor has one of its own. */
static void bound_texts(struct forms *f)
{
	if (map_count(f->texts) < TEXTS_MAX || f->loose > 0)
		return;
	for (size_t i = 0; i < FORMS_KEPT; i++) {
		if (!f->kept[i])
			continue;
		block_reader_free(&f->kept[i]->part[PART_LEAF].reader);
		f->kept[i]->part[PART_LEAF].columns = 0;
	}
	forget_texts(f);
	f->texts = map_new();
}

/* As the row has it now. */
static void set_hash(struct forms_slot *s, const struct block_bytes *hash)
{
	s->hash_is = true;
	if (s->hash && same_bytes(&s->b.hash, hash))
		return;
	for (enum part p = PART_BYTES; p < PARTS; p++)
		block_reader_free(&s->part[p].reader);
	s->row_at = -1;
	free(s->hash);
	s->hash = mem_dup(hash->p, hash->len);
	s->b.hash = (struct block_bytes){ s->hash, hash->len };
}

static int read_hash(struct forms_slot *s, struct err *err)
{
	struct db *db = s->file ? forms_file_db(s->file) : s->f->db;
	struct db_stmt *st = db_stmt_get(db, s->file ? SQL_SEGMENT_BLOCK_HASH : SQL_FORMS_BLOCK_HASH);
	struct block_bytes hash = { 0 };
	int rc;

	db_bind_i64(st, 1, s->log);
	db_bind_i64(st, 2, s->b.first);
	rc = db_step(st, err);
	if (rc == 1) {
		hash.p = db_col_blob(st, 0, &hash.len);
		set_hash(s, &hash);
	} else if (rc == 0) {           /* in one snapshot it is there */
		rc = err_set(err, ERR_CORRUPT, "", "its bytes are not there");
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static bool needs_hash(enum part p, uint64_t columns)
{
	return p != PART_PRESENT && (columns & BLOCK_HASHED);
}

/* The reader of a part, with that column at least. */
static int open_part(struct forms_slot *s, enum part p, uint64_t column, struct block_reader **ret, struct err *err)
{
	struct block_texts texts = { .log = s->log, .origin = "", .fn = get_text, .arg = s->f,
		.id = s->file ? forms_file_id : NULL, .id_arg = s->file };
	uint64_t columns;
	int rc = 0;

	*ret = s->part[p].reader;
	if (*ret && (s->part[p].columns & column) == column && (s->hash_is || !needs_hash(p, s->part[p].columns)))
		return 0;
	columns = s->part[p].columns | column | (s->wanted & columns_of(p));
	if (needs_hash(p, columns) && !s->hash_is)
		rc = read_hash(s, err);
	if (rc < 0)
		return forms_bad(s->log, s->b.first, rc, err);
	*ret = s->part[p].reader;       /* it may have gone with another hash */
	if (*ret && (s->part[p].columns & column) == column)
		return 0;
	if (p == PART_LEAF && !s->origin)
		rc = get_origin(s, err);
	if (rc < 0)
		return rc;
	if (s->origin)
		texts.origin = s->origin;
	if (!*ret)
		s->part[p].reader = *ret = block_reader_new(&texts);
	s->part[p].columns = 0;
	s->row_at = -1;
	rc = p == PART_PRESENT ? block_open_present(*ret, &s->b, columns, err) : block_open(*ret, &s->b, columns, err);
	if (rc == 0)
		s->part[p].columns = columns;
	return rc < 0 ? forms_bad(s->log, s->b.first, rc, err) : 0;
}

int forms_slot_number(struct forms_slot *s, enum audit_column col, int64_t i, int64_t *ret, struct err *err)
{
	const enum part p = is_tested[col] ? PART_TESTED : PART_NUMBERS;
	struct block_reader *r = NULL;
	int rc;

	if (col == COL_LOG || col == COL_IDX) {
		*ret = col == COL_LOG ? s->log : s->b.first + i;
		return 1;
	}
	rc = open_part(s, p, BLOCK_COLUMN(col), &r, err);
	return rc < 0 ? rc : block_number(r, col, i, ret);
}

static int slot_has(struct forms_slot *s, enum audit_column col, int64_t i, struct err *err)
{
	const enum part p = audit_columns[col].form == FORM_BLOB ? PART_PRESENT : is_tested[col] ? PART_TESTED : PART_NUMBERS;
	struct block_reader *r = NULL;
	int rc = open_part(s, p, BLOCK_COLUMN(col), &r, err);

	return rc < 0 ? rc : block_has(r, col, i);
}

static int get_bytes(struct forms_slot *s, enum audit_column col, int64_t i, struct db_value *ret, struct err *err)
{
	struct block_reader *r = NULL;
	int rc = open_part(s, PART_BYTES, BLOCK_COLUMN(col), &r, err);

	if (rc < 0)
		return rc;
	if (s->row_at != i) {
		s->row_at = -1;
		rc = block_row(r, i, &s->row, err);
		if (rc < 0)
			return forms_bad(s->log, s->b.first, rc, err);
		s->row_at = i;
	}
	if (s->row.v[col].present)
		*ret = (struct db_value){ .type = DB_BLOB, .p = s->row.v[col].p, .len = s->row.v[col].len };
	return 0;
}

static int get_leaf(struct forms_slot *s, int64_t i, struct db_value *ret, struct err *err)
{
	struct block_reader *r = NULL;
	int rc;

	bound_texts(s->f);
	rc = open_part(s, PART_LEAF, BLOCK_ALL_COLUMNS, &r, err);
	if (rc < 0)
		return rc;
	rc = block_leaf(r, i, s->leaf, err);
	if (rc < 0)
		return forms_bad(s->log, s->b.first, rc, err);
	*ret = (struct db_value){ .type = DB_BLOB, .p = s->leaf, .len = sizeof(s->leaf) };
	return 0;
}

int forms_slot_value(struct forms_slot *s, unsigned col, int64_t i, struct db_value *ret, struct err *err)
{
	const unsigned at = col - FORMS_FIRST;
	int rc;

	*ret = (struct db_value){ .type = DB_NULL, .p = "" };
	if (col == FORMS_LEAF)
		return get_leaf(s, i, ret, err);
	if (col >= FORMS_FIRST && audit_columns[at].form == FORM_BLOB)
		return get_bytes(s, (enum audit_column)at, i, ret, err);
	rc = 1;
	if (col == FORMS_ID)
		ret->n = forms_id(s->log, s->b.first + i);
	else if (col == FORMS_ENC)
		ret->n = AUDIT_ENC;
	else
		rc = forms_slot_number(s, (enum audit_column)at, i, &ret->n, err);
	if (rc == 1)
		ret->type = DB_INT;
	return rc < 0 ? rc : 0;
}

int forms_slot_sum(struct forms_slot *slot, int64_t first, int64_t i, uint64_t words, uint64_t columns,
		   struct block_sum *ret, struct err *err)
{
	static const enum audit_column numbers[] = { COL_DUR, COL_N_REQ, COL_N_RES };
	int64_t v[NELEMS(numbers)] = { 0, -1, 0 }, ts = 0;
	int rc = forms_slot_number(slot, COL_TS, i, &ts, err);

	*ret = (struct block_sum){ .count = 1, .ts_min = ts, .ts_max = ts, .idx_min = first + i, .idx_max = first + i };
	block_sum_at(ret, ts);
	for (unsigned k = 0; k < SUM_KEYS && rc >= 0; k++) {
		ret->key[k] = -1;
		if (words >> (SUM_WORD_KEY + k) & 1)
			rc = forms_slot_number(slot, block_sum_columns[k], i, &ret->key[k], err);
	}
	for (unsigned k = 0; k < NELEMS(numbers) && rc >= 0; k++) {
		if (!(columns >> numbers[k] & 1))
			continue;
		rc = forms_slot_number(slot, numbers[k], i, &v[k], err);
		v[k] = rc == 1 ? v[k] : k == 1 ? -1 : 0;
		ret->timed |= rc == 1 && k == 0;
	}
	ret->dur = ret->dur_max = v[0];
	ret->n_req = v[1];
	ret->n_res = v[2];
	if (rc >= 0 && words >> SUM_WORD_CALLED & 1) {
		rc = slot_has(slot, COL_CALL, i, err);
		ret->called = rc == 1;
	}
	return rc < 0 ? rc : 0;
}
