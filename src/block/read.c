/* A block of format 1 into columns and rows again, believing nothing of it.  Whoever wrote it may have meant harm:
 * what is read is bounded by how many records the block says it has, and two blocks that are taken differ in what
 * they say, but for the way their streams are deflated (SC-201, SC-202).  One reader belongs to one thread. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "block/zone.h"

#include "block_int.h"

enum { NEAR_SIZE = 1024 };

/* A column as it is decoded: what the i-th record has, -1 where that is NULL.  Of bytes, where they begin. */
struct column {
	struct audit_bytes inflated;
	struct block_bytes stream;
	int64_t *n;
	uint32_t *len;
	size_t room;                    /* records that n and len have room for */
	const uint8_t *base;
	bool wanted, asked, here;       /* here: some record has a value */
};

struct near { const char *text; size_t len; int64_t id; uint16_t kind; };

struct block_reader {
	struct block_texts texts;
	size_t origin_len;
	struct block b;
	bool open, whole, present;      /* present: of columns it is known who has a value, and no more */
	struct column col[COL_COUNT];
	unsigned cnt;
	uint8_t call[BLOCK_RECORDS_MAX][BLOCK_CALL_SIZE];
	struct audit_bytes cm, bytes, zone;
	size_t hash_at;                 /* what of hash has been given out */
	enum audit_column given[COL_COUNT];     /* asked for, and some record has a value */
	unsigned ngiven;
	struct audit_row row;           /* for leaves; of what is not given nothing is there */
	struct block_zlib *zlib;
	struct block_zoner *zoner;
	struct near near[NEAR_SIZE];    /* texts that were asked for last */
};

/* Those whose values stand in hash, in its order. */
#define IN_HASH(col) COL_##col,
static const enum audit_column hashed[] = { BLOCK_HASH_ORDER(IN_HASH) };

struct block_reader *block_reader_new(const struct block_texts *texts)
{
	struct block_reader *r = mem_zalloc(sizeof(*r));

	if (texts)
		block_reader_go_on(r, texts);
	return r;
}

void block_reader_go_on(struct block_reader *r, const struct block_texts *texts)
{
	r->texts = *texts;
	r->origin_len = strlen(texts->origin);
}

void block_reader_free(struct block_reader **rp)
{
	struct block_reader *r = *rp;

	if (!r)
		return;
	*rp = NULL;
	for (unsigned col = 0; col < COL_COUNT; col++) {
		free(r->col[col].inflated.p);
		free(r->col[col].n);
		free(r->col[col].len);
	}
	block_zlib_free(&r->zlib);
	block_zoner_free(&r->zoner);
	free(r->cm.p);
	free(r->bytes.p);
	free(r->zone.p);
	free(r);
}

static const char *name_of(const struct column *c, const struct block_reader *r)
{
	return audit_columns[c - r->col].name;
}

/* --- what is asked for */

static void want(struct block_reader *r, uint64_t columns)
{
	size_t last = 0;

	for (unsigned col = 0; col < COL_COUNT; col++) {
		r->col[col].asked = r->col[col].wanted = columns >> col & 1;
		r->col[col].here = false;
	}
	if (r->present)
		return;
	/* Where a column begins in hash, the ones before it say; a shared call is that of its begin. */
	for (size_t i = 0; i < NELEMS(hashed); i++)
		if (r->col[hashed[i]].wanted)
			last = i + 1;
	for (size_t i = 0; i < last; i++)
		r->col[hashed[i]].wanted = true;
	if (r->col[COL_CALL].wanted)
		r->col[COL_BEG].wanted = true;
}

/* The most bytes that a column of so many records can have. */
static size_t most(enum audit_column col, size_t cnt)
{
	const size_t head = 1 + (cnt + 7) / 8;

	switch (block_form(col)) {
	case BLOCK_NUMBER:
	case BLOCK_DIFFERENCE:
	case BLOCK_BEGIN:
		return head + cnt * VARINT_MAX;
	case BLOCK_CALL:
		return head + cnt * (1 + BLOCK_CALL_TIME);
	case BLOCK_HASH:
		return head;
	case BLOCK_PLACE:
	case BLOCK_CM:
	case BLOCK_BLOB:
		break;
	}
	return BLOCK_STREAM_MAX;
}

/* The streams of the columns that are wanted. */
static int find_streams(struct block_reader *r, struct err *err)
{
	const uint8_t *p = r->b.cols.p, *end = p + r->b.cols.len;
	uint64_t count, n = 0;
	int rc = 0;

	p = r->b.cols.len > 0 ? get_varint(p, end, &count) : NULL;
	if (!p)
		return block_bad(err, "cols", "it says no number of columns");
	if (count > COL_COUNT - BLOCK_FIRST_COLUMN)
		return err_set(err, ERR_INVALID, "cols", "the block has columns that only a later release knows");
	for (unsigned col = BLOCK_FIRST_COLUMN; col < BLOCK_FIRST_COLUMN + count && rc == 0; col++) {
		struct column *c = &r->col[col];

		p = get_varint(p, end, &n);
		if (!p)
			return block_bad(err, name_of(c, r), "a column is cut off");
		if (n == 0)
			continue;
		c->here = c->wanted;
		if (c->wanted)
			rc = block_stream_get(&r->zlib, n, &p, end, most((enum audit_column)col, r->cnt), &c->inflated,
					      &c->stream, name_of(c, r), err);
		else if (n >> 1 > (uint64_t)(end - p))
			return block_bad(err, name_of(c, r), "a column is cut off");
		else
			p += n >> 1;
	}
	if (rc == 0 && (p != end || n == 0))
		return block_bad(err, "cols", "columns are listed that are empty, or something stands behind the last one");
	return rc;
}

/* --- which records have a value */

struct present { const uint8_t *bits, *p, *end; bool all; };

static inline bool present_at(const struct present *h, size_t i)
{
	return h->all || bit_at(h->bits, i);
}

static int find_present(struct block_reader *r, struct column *c, struct present *ret, struct err *err)
{
	const uint8_t *p = c->stream.p, *end = p + c->stream.len;
	const size_t bytes = (r->cnt + 7) / 8;
	size_t n = 0;

	if (p == end || *p > 1)
		return block_bad(err, name_of(c, r), "a column does not begin with 0 or 1");
	*ret = (struct present){ .all = *p, .p = p + 1, .end = end };
	if (ret->all)
		return 0;
	if (block_must_have((enum audit_column)(c - r->col)))
		return block_bad(err, name_of(c, r), "some record has none");
	if ((size_t)(end - ret->p) < bytes)
		return block_bad(err, name_of(c, r), "a column is cut off");
	ret->bits = ret->p;
	ret->p += bytes;
	for (size_t i = 0; i < bytes; i++)
		n += (size_t)__builtin_popcount(ret->bits[i]);
	for (size_t i = r->cnt; i < 8 * bytes; i++)
		if (bit_at(ret->bits, i))
			return block_bad(err, name_of(c, r), "more records have a value than there are");
	return n > 0 && n < r->cnt ? 0 : block_bad(err, name_of(c, r), "all records or none are listed one by one");
}

/* --- columns */

/* Numbers of 63 bits: in what this one's are told as. */
static inline bool number_of(enum block_form form, uint64_t v, int64_t idx, int64_t *last, int64_t *ret)
{
	int64_t n;

	switch (form) {
	case BLOCK_DIFFERENCE:
		if (__builtin_add_overflow(*last, unzigzag(v), &n))
			return false;
		*last = n;
		break;
	case BLOCK_BEGIN:
		if (__builtin_sub_overflow(idx, unzigzag(v), &n))
			return false;
		break;
	case BLOCK_NUMBER:
	case BLOCK_PLACE:
	case BLOCK_CALL:
	case BLOCK_CM:
	case BLOCK_HASH:
	case BLOCK_BLOB:
	default:
		n = (int64_t)v;
		break;
	}
	*ret = n;
	return n >= 0;
}

/* Of all records a byte each, which most columns are.  false: one of them is no number. */
static bool read_bytes(struct block_reader *r, struct column *c, struct present *h)
{
	uint8_t any = 0;

	for (size_t i = 0; i < r->cnt; i++) {
		any |= h->p[i];
		c->n[i] = h->p[i];
	}
	h->p += r->cnt;
	return any < 0x80;
}

static int read_numbers(struct block_reader *r, struct column *c, struct present *h, struct err *err)
{
	const enum block_form form = block_form((enum audit_column)(c - r->col));
	int64_t last = 0;

	if (form == BLOCK_NUMBER && h->all && (size_t)(h->end - h->p) == r->cnt)
		return read_bytes(r, c, h) ? 0 : block_bad(err, name_of(c, r), "a number is cut off");
	for (size_t i = 0; i < r->cnt; i++) {
		uint64_t v = 0;

		c->n[i] = -1;
		if (!present_at(h, i))
			continue;
		h->p = get_varint(h->p, h->end, &v);
		if (!h->p || !number_of(form, v, r->b.first + (int64_t)i, &last, &c->n[i]))
			return block_bad(err, name_of(c, r), "a number is cut off, longer than it need be, or out of range");
	}
	return 0;
}

static int read_blobs(struct block_reader *r, struct column *c, struct present *h, struct err *err)
{
	c->base = c->stream.p;
	for (size_t i = 0; i < r->cnt; i++) {
		uint64_t len = 0;

		c->n[i] = -1;
		if (!present_at(h, i))
			continue;
		h->p = get_up_to(h->p, h->end, BLOCK_BLOB_MAX, &len);
		if (!h->p || len > (uint64_t)(h->end - h->p))
			return block_bad(err, name_of(c, r), "bytes are cut off, or too many");
		c->n[i] = h->p - c->base;
		c->len[i] = (uint32_t)len;
		h->p += len;
	}
	return 0;
}

/* So many bytes of hash, or NULL. */
static const uint8_t *from_hash(struct block_reader *r, size_t n)
{
	const uint8_t *p = (const uint8_t *)r->b.hash.p + r->hash_at;

	if (n > r->b.hash.len - r->hash_at)
		return NULL;
	r->hash_at += n;
	return p;
}

static int read_hash(struct block_reader *r, struct column *c, const struct present *h, struct err *err)
{
	c->base = r->b.hash.p;
	for (size_t i = 0; i < r->cnt; i++) {
		const uint8_t *p;

		c->n[i] = -1;
		if (!present_at(h, i))
			continue;
		p = from_hash(r, BLOCK_ID_SIZE);
		if (!p)
			return block_bad(err, "hash", "it is cut off");
		c->n[i] = p - c->base;
		c->len[i] = BLOCK_ID_SIZE;
	}
	return 0;
}

static int read_one_cm(struct block_reader *r, struct present *h, struct err *err)
{
	uint64_t count = 0, ctag = 0;

	h->p = get_up_to(h->p, h->end, BLOCK_BLOB_MAX / BLOCK_CM_SIZE, &count);
	if (!h->p)
		return block_bad(err, "cm", "more commitments than a record can have, or a number that is none");
	for (; count > 0; count--) {
		const uint8_t *p = from_hash(r, BLOCK_COMMITMENT);
		uint8_t *to;

		h->p = get_up_to(h->p, h->end, UINT16_MAX, &ctag);
		if (!h->p || !p)
			return block_bad(err, "cm", "commitments are cut off, or have a tag that is none");
		to = block_room(&r->cm, BLOCK_CM_SIZE);
		to[0] = (uint8_t)(ctag >> 8);
		to[1] = (uint8_t)ctag;
		memcpy(to + 2, p, BLOCK_COMMITMENT);
		r->cm.len += BLOCK_CM_SIZE;
	}
	return 0;
}

static int read_commitments(struct block_reader *r, struct column *c, struct present *h, struct err *err)
{
	r->cm.len = 0;
	for (size_t i = 0; i < r->cnt; i++) {
		const size_t from = r->cm.len;

		c->n[i] = -1;
		if (!present_at(h, i))
			continue;
		if (read_one_cm(r, h, err) < 0)
			return ERR_CORRUPT;
		c->n[i] = (int64_t)from;
		c->len[i] = (uint32_t)(r->cm.len - from);
	}
	(void)block_room(&r->cm, 1);
	c->base = r->cm.p;
	return 0;
}

/* The call of the begin that the i-th record names, if it stands before it in this block. */
static const uint8_t *call_of_begin(const struct block_reader *r, size_t i)
{
	const int64_t beg = r->col[COL_BEG].here ? r->col[COL_BEG].n[i] : -1;
	const int64_t at = beg - r->b.first;

	return beg >= r->b.first && at < (int64_t)i && r->col[COL_CALL].n[at] >= 0 ? r->call[at] : NULL;
}

static int read_calls(struct block_reader *r, struct column *c, struct present *h, struct err *err)
{
	c->base = r->call[0];
	for (size_t i = 0; i < r->cnt; i++) {
		const uint8_t *begin = call_of_begin(r, i), *rest;

		c->n[i] = -1;
		if (!present_at(h, i))
			continue;
		c->n[i] = (int64_t)(i * BLOCK_CALL_SIZE);
		c->len[i] = BLOCK_CALL_SIZE;
		if (h->p == h->end || *h->p > 1 || (*h->p == 1 && !begin))
			return block_bad(err, "call", "a call is cut off, or is said to be that of a begin that is not there");
		if (*h->p++ == 1) {
			memcpy(r->call[i], begin, BLOCK_CALL_SIZE);
			continue;
		}
		rest = from_hash(r, BLOCK_CALL_SIZE - BLOCK_CALL_TIME);
		if (!rest || h->end - h->p < BLOCK_CALL_TIME)
			return block_bad(err, "call", "a call is cut off");
		memcpy(r->call[i], h->p, BLOCK_CALL_TIME);
		memcpy(r->call[i] + BLOCK_CALL_TIME, rest, BLOCK_CALL_SIZE - BLOCK_CALL_TIME);
		h->p += BLOCK_CALL_TIME;
		if (begin && memcmp(begin, r->call[i], BLOCK_CALL_SIZE) == 0)
			return block_bad(err, "call", "a call stands there twice");
	}
	return 0;
}

/* Of this block alone: most have far fewer than they may. */
static void make_room(struct column *c, size_t cnt)
{
	if (c->room >= cnt)
		return;
	free(c->n);
	free(c->len);
	c->n = mem_calloc(cnt, sizeof(*c->n));
	c->len = mem_calloc(cnt, sizeof(*c->len));
	c->room = cnt;
}

static int read_column(struct block_reader *r, enum audit_column col, struct err *err)
{
	struct column *c = &r->col[col];
	struct present h = { 0 };
	int rc;

	if (!c->here)
		return c->wanted && block_must_have(col) ? block_bad(err, name_of(c, r), "no record has one") : 0;
	rc = find_present(r, c, &h, err);
	if (rc < 0)
		return rc;
	make_room(c, r->cnt);
	for (size_t i = 0; i < r->cnt && r->present; i++)
		c->n[i] = present_at(&h, i) ? 0 : -1;
	if (r->present)
		return 0;
	switch (block_form(col)) {
	case BLOCK_NUMBER:
	case BLOCK_DIFFERENCE:
	case BLOCK_BEGIN:
		rc = read_numbers(r, c, &h, err);
		break;
	case BLOCK_CALL:
		rc = read_calls(r, c, &h, err);
		break;
	case BLOCK_CM:
		rc = read_commitments(r, c, &h, err);
		break;
	case BLOCK_HASH:
		rc = read_hash(r, c, &h, err);
		break;
	case BLOCK_BLOB:
		rc = read_blobs(r, c, &h, err);
		break;
	case BLOCK_PLACE:
		break;
	}
	return rc < 0 || h.p == h.end ? rc : block_bad(err, name_of(c, r), "something stands behind the last value");
}

/* --- a block */

static int look(const struct block *b, struct err *err)
{
	if (b->fmt != BLOCK_FORMAT)
		return err_set(err, ERR_INVALID, "fmt", "block format %" PRId64 " is of a later release", b->fmt);
	if (b->cnt < 1 || b->cnt > BLOCK_RECORDS_MAX)
		return block_bad(err, "cnt", "it has no records, or more than 4096");
	if (b->first < 0 || b->first > BLOCK_IDX_MAX - (b->cnt - 1))
		return block_bad(err, "first", "no record has such an index");
	return b->hash.len <= BLOCK_STREAM_MAX ? 0 : block_bad(err, "hash", "it is longer than 4 MiB");
}

static int read_all(struct block_reader *r, struct err *err)
{
	int rc = find_streams(r, err);

	for (unsigned col = BLOCK_FIRST_COLUMN; col < COL_COUNT && rc == 0; col++) {
		const enum block_form form = block_form((enum audit_column)col);

		if (form != BLOCK_CALL && form != BLOCK_CM && form != BLOCK_HASH)
			rc = read_column(r, (enum audit_column)col, err);
	}
	r->hash_at = 0;
	for (size_t i = 0; i < NELEMS(hashed) && rc == 0; i++)
		rc = read_column(r, hashed[i], err);
	if (rc == 0 && r->col[COL_TRACE].wanted && !r->present && r->hash_at != r->b.hash.len)
		return block_bad(err, "hash", "something stands behind the last value");
	return rc;
}

static int no_text(enum audit_column col, int64_t id, struct err *err)
{
	char where[40];

	(void)snprintf(where, sizeof(where), "%s/%" PRId64, audit_columns[col].name, id);
	return block_bad(err, where, "the dictionary has no such id of this kind");
}

/* Neighbours have mostly the same one. */
static int turn_column(struct block_reader *r, enum audit_column col, block_id_fn *id, void *arg, struct err *err)
{
	int64_t *n = r->col[col].n, last = -1, now = -1;

	for (size_t i = 0; i < r->cnt; i++) {
		int rc = 1;

		if (n[i] < 0)
			continue;
		if (n[i] != last)
			rc = id(arg, audit_columns[col].tag, n[i], &now, err);
		if (rc != 1)
			return rc < 0 ? rc : no_text(col, n[i], err);
		last = n[i];
		n[i] = now;
	}
	return 0;
}

int block_turn(struct block_reader *r, block_id_fn *id, void *arg, struct err *err)
{
	int rc = 0;

	for (unsigned col = BLOCK_FIRST_COLUMN; col < COL_COUNT && rc == 0; col++)
		if (r->col[col].here && audit_columns[col].form == FORM_DICT)
			rc = turn_column(r, (enum audit_column)col, id, arg, err);
	r->open = r->open && rc == 0;
	return rc;
}

/* What rows have. */
static void give(struct block_reader *r)
{
	r->ngiven = 0;
	for (unsigned col = BLOCK_FIRST_COLUMN; col < COL_COUNT; col++)
		if (r->col[col].asked && r->col[col].here)
			r->given[r->ngiven++] = (enum audit_column)col;
	memset(&r->row, 0, sizeof(r->row));
	audit_row_text(&r->row, COL_LOG, r->texts.log, r->texts.origin, r->origin_len);
}

static int open_as(struct block_reader *r, const struct block *b, uint64_t columns, bool present, struct err *err)
{
	int rc = look(b, err);

	r->open = false;
	if (rc < 0)
		return rc;
	r->b = *b;
	r->cnt = (unsigned)b->cnt;
	r->present = present;
	r->whole = !present && (columns & BLOCK_ALL_COLUMNS) == BLOCK_ALL_COLUMNS;
	want(r, columns);
	rc = read_all(r, err);
	if (rc == 0 && r->texts.id && !present)
		rc = block_turn(r, r->texts.id, r->texts.id_arg, err);
	r->open = rc == 0;
	if (rc == 0)
		give(r);
	return rc;
}

int block_open(struct block_reader *r, const struct block *b, uint64_t columns, struct err *err)
{
	return open_as(r, b, columns, false, err);
}

int block_open_present(struct block_reader *r, const struct block *b, uint64_t columns, struct err *err)
{
	return open_as(r, b, columns, true, err);
}

int64_t block_first(const struct block_reader *r)
{
	return r->b.first;
}

int64_t block_count(const struct block_reader *r)
{
	return r->open ? r->cnt : 0;
}

uint64_t block_columns(const struct block_reader *r)
{
	uint64_t columns = 0;

	for (unsigned col = BLOCK_FIRST_COLUMN; col < COL_COUNT && r->open; col++)
		if (r->col[col].asked && r->col[col].here)
			columns |= BLOCK_COLUMN(col);
	return columns;
}

bool block_number(const struct block_reader *r, enum audit_column col, int64_t i, int64_t *ret)
{
	const struct column *c = &r->col[col];

	*ret = c->asked && c->here ? c->n[i] : -1;
	return *ret >= 0;
}

bool block_has(const struct block_reader *r, enum audit_column col, int64_t i)
{
	return r->col[col].asked && r->col[col].here && r->col[col].n[i] >= 0;
}

/* --- rows */

static int text_of(struct block_reader *r, enum audit_column col, int64_t id, const struct near **ret, struct err *err)
{
	const uint16_t kind = audit_columns[col].tag;
	struct near *near = &r->near[((uint64_t)id + kind * UINT64_C(37)) % NEAR_SIZE];
	int rc;

	*ret = near;
	if (near->text && near->id == id && near->kind == kind)
		return 0;
	near->text = NULL;
	near->id = id;
	near->kind = kind;
	rc = r->texts.fn ? r->texts.fn(r->texts.arg, kind, id, &near->text, &near->len, err) : 0;
	if (rc == 1 && near->text)
		return 0;
	return rc < 0 ? rc : no_text(col, id, err);
}

/* A text that the row has still is not looked for again: most records have those of the one before. */
static int put_column(struct block_reader *r, enum audit_column col, int64_t i, struct audit_value *v, struct err *err)
{
	const struct column *c = &r->col[col];
	const struct near *near;
	int rc;

	if (audit_columns[col].form == FORM_BLOB) {
		v->p = c->base + c->n[i];
		v->len = c->len[i];
	} else if (audit_columns[col].form == FORM_INT) {
		v->n = c->n[i];
	} else if (!v->p || v->n != c->n[i]) {
		v->p = NULL;
		rc = text_of(r, col, c->n[i], &near, err);
		if (rc < 0)
			return rc;
		*v = (struct audit_value){ .n = c->n[i], .p = near->text, .len = near->len };
	}
	v->present = true;
	return 0;
}

/* The values of the i-th record into a row that has those of another one. */
static int put_row(struct block_reader *r, int64_t i, struct audit_row *row, struct err *err)
{
	if (i < 0 || i >= block_count(r))
		return err_set(err, ERR_INTERNAL, "block", "the block that is open has no such record");
	audit_row_int(row, COL_IDX, r->b.first + i);
	for (unsigned k = 0; k < r->ngiven; k++) {
		const enum audit_column col = r->given[k];
		int rc = 0;

		row->v[col].present = false;
		if (r->col[col].n[i] >= 0)
			rc = put_column(r, col, i, &row->v[col], err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int block_row(struct block_reader *r, int64_t i, struct audit_row *ret, struct err *err)
{
	memset(ret, 0, sizeof(*ret));
	return block_row_over(r, i, ret, err);
}

int block_row_over(struct block_reader *r, int64_t i, struct audit_row *row, struct err *err)
{
	audit_row_text(row, COL_LOG, r->texts.log, r->texts.origin, r->origin_len);
	return put_row(r, i, row, err);
}

int block_leaf(struct block_reader *r, int64_t i, uint8_t ret[TREE_HASH], struct err *err)
{
	int rc = r->whole ? put_row(r, i, &r->row, err) :
		err_set(err, ERR_INTERNAL, "block", "a leaf is that of all columns");

	if (rc < 0)
		return rc;
	audit_row_encode(&r->row, &r->bytes);
	tree_leaf(r->bytes.p, r->bytes.len, ret);
	return 0;
}

/* --- what is beside the columns */

void block_zoner_add_block(struct block_zoner *z, const struct block_reader *r)
{
	for (enum block_zone_column col = 0; col < ZONE_COUNT; col++) {
		int64_t id = 0;

		for (int64_t i = 0; i < block_count(r); i++)
			if (block_number(r, block_zone_columns[col], i, &id))
				block_zoner_add(z, col, id);
	}
}

int block_derived(struct block_reader *r, struct err *err)
{
	int64_t min = INT64_MAX, max = 0;

	if (!r->open || !r->whole)
		return err_set(err, ERR_INTERNAL, "block", "what is derived is of all columns");
	for (size_t i = 0; i < r->cnt; i++) {
		const int64_t ts = r->col[COL_TS].n[i];

		min = ts < min ? ts : min;
		max = ts > max ? ts : max;
	}
	if (r->b.ts_min != min || r->b.ts_max != max)
		return err_set(err, ERR_CORRUPT, "ts", "the block says other times than its records have");
	if (!r->zoner)
		r->zoner = block_zoner_new();
	block_zoner_add_block(r->zoner, r);
	block_zoner_end(r->zoner, &r->zone);
	if (r->zone.len != r->b.zone.len || memcmp(r->zone.p, r->b.zone.p, r->zone.len) != 0)
		return err_set(err, ERR_CORRUPT, "zone", "the block's zone does not list what its records have");
	return 0;
}

static int differs(int64_t idx, struct err *err)
{
	char where[40];

	(void)snprintf(where, sizeof(where), "idx/%" PRId64, idx);
	return err_set(err, ERR_CORRUPT, where, "the block gives another leaf than the row has");
}

int block_check(struct block_reader *r, const struct block *b, const uint8_t (*leaf)[TREE_HASH], struct err *err)
{
	int rc = block_open(r, b, BLOCK_ALL_COLUMNS, err);

	for (int64_t i = 0; i < block_count(r) && rc == 0; i++) {
		uint8_t got[TREE_HASH];

		rc = block_leaf(r, i, got, err);
		if (rc == 0 && memcmp(got, leaf[i], TREE_HASH) != 0)
			return differs(r->b.first + i, err);
	}
	return rc < 0 ? rc : block_derived(r, err);
}
