/* Reading a sealed file that somebody hands over (segment/segment.h): whatever its tables do not say as a maker would
 * is an error.  Its records are looked at by who reads them (bundle/segment.c). */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "segment/segment.h"

enum { TEXTS_KEPT = 65536 };

struct text { int64_t kind; size_t len; char p[]; };

struct segment {
	struct db *db;
	struct segment_info info;
	struct map *texts;              /* by id */
	/* the group of what is kept that segment_kept() is at */
	struct db_stmt *groups;
	int64_t group, asked; size_t n; /* first of it, how many; the index that was asked for last */
	struct block_payload v[BLOCK_PAYLOADS_MAX];
	bool ended;
};

static int bad(const char *where, const char *what, struct err *err)
{
	return err_set(err, ERR_CORRUPT, where, "%s", what);
}

/* Types of a row's columns, a letter for each: i, t, b; B may be NULL.  STRICT tables have no others, in a file that
 * nobody was at. */
static bool is_typed(struct db_stmt *st, const char *want)
{
	for (unsigned i = 0; want[i]; i++) {
		const enum db_type type = db_col_type(st, i);
		const bool good = want[i] == 'i' ? type == DB_INT : want[i] == 't' ? type == DB_TEXT : type == DB_BLOB;

		if (!good && !(want[i] == 'B' && type == DB_NULL))
			return false;
	}
	return true;
}

static struct block_bytes bytes_of(struct db_stmt *st, unsigned col)
{
	struct block_bytes b = { 0 };

	b.p = db_col_blob(st, col, &b.len);
	return b;
}

/* --- what it says of itself */

static bool take_text(struct db_stmt *st, unsigned col, char *ret, size_t size)
{
	size_t len = 0;
	const char *p = db_col_text(st, col, &len);

	if (len == 0 || len >= size || memchr(p, 0, len) || !text_utf8_valid(p, len))
		return false;
	memcpy(ret, p, len);
	ret[len] = '\0';
	return true;
}

static bool take_tree(struct db_stmt *st, unsigned col, int64_t size, struct tree *ret)
{
	const struct block_bytes b = bytes_of(st, col);

	return tree_load(ret, size, b.p, b.len);
}

static bool take_info(struct db_stmt *st, struct segment_info *ret)
{
	const struct block_bytes note = bytes_of(st, 6), growth = bytes_of(st, 7);

	ret->from = db_col_i64(st, 1);
	ret->to = db_col_i64(st, 2);
	ret->epoch = db_col_i64(st, 5);
	if (!take_text(st, 0, ret->origin, sizeof(ret->origin)) || ret->from < 0 || ret->from >= ret->to ||
	    ret->to > INT64_MAX - BLOCK_RECORDS_MAX || ret->from % SEGMENT_UNIT != 0 || ret->to % SEGMENT_UNIT != 0 ||
	    ret->to - ret->from > SEGMENT_RECORDS_MAX || !take_tree(st, 3, ret->from, &ret->before) ||
	    !take_tree(st, 4, ret->to, &ret->after) || ret->epoch < 0 || note.len == 0 || note.len > NOTE_MAX ||
	    growth.len % TREE_HASH != 0 || growth.len / TREE_HASH > TREE_PROOF_MAX ||
	    !take_text(st, 8, ret->release, sizeof(ret->release)))
		return false;
	memcpy(ret->note, note.p, note.len);
	ret->note_len = note.len;
	ret->ngrowth = growth.len / TREE_HASH;
	if (growth.len > 0)
		memcpy(ret->growth, growth.p, growth.len);
	return true;
}

static int read_info(struct segment *s, struct err *err)
{
	struct db_stmt *st = db_stmt_get(s->db, SQL_SEGMENT_GET_INFO);
	int rc = db_step(st, err);
	bool good = rc == 1 && is_typed(st, "tiibbibbt") && take_info(st, &s->info);

	if (good) {
		rc = db_step(st, err);
		good = rc == 0;
	}
	db_stmt_put(&st);
	return rc < 0 || good ? (rc < 0 ? rc : 0) : bad("info", "table info does not say what a sealed file is of", err);
}

int segment_open(const char *path, struct segment **ret, struct err *err)
{
	struct segment *s;
	struct db *db = NULL;
	int rc = db_segment_open(path, SEGMENT_BYTES_MAX, &db, err);

	if (rc < 0)
		return rc;
	s = mem_zalloc(sizeof(*s));
	s->db = db;
	s->texts = map_new();
	s->asked = -1;
	rc = read_info(s, err);
	if (rc < 0)
		segment_close(&s);
	else
		*ret = s;
	return rc;
}

static void forget_texts(struct segment *s)
{
	void *value;

	for (size_t it = 0; map_next(s->texts, &it, NULL, NULL, &value);)
		free(value);
	map_free(&s->texts);
}

void segment_close(struct segment **sp)
{
	struct segment *s = *sp;

	if (!s)
		return;
	*sp = NULL;
	if (s->groups)
		db_stmt_put(&s->groups);
	forget_texts(s);
	db_close(&s->db);
	free(s);
}

const struct segment_info *segment_info(const struct segment *s)
{
	return &s->info;
}

struct db *segment_db(struct segment *s)
{
	return s->db;
}

int segment_sound(struct segment *s, struct err *err)
{
	return db_check_integrity(s->db, err);
}

/* --- its tables, in order */

int segment_epochs(struct segment *s, segment_epoch_fn *fn, void *arg, struct err *err)
{
	struct db_stmt *st = db_stmt_get(s->db, SQL_SEGMENT_LIST_EPOCHS);
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		const struct block_bytes pk = bytes_of(st, 1), cert = bytes_of(st, 2);
		const bool first = db_col_type(st, 2) == DB_NULL;

		if (!is_typed(st, "ibB") || pk.len != SIGN_PUBLIC_SIZE || (!first && cert.len != SIGN_SIZE))
			rc = bad("epoch", "table epoch has what is no key", err);
		else
			rc = fn(arg, db_col_i64(st, 0), pk.p, first ? NULL : cert.p, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static struct block block_of(struct db_stmt *st)
{
	return (struct block){ .first = db_col_i64(st, 0), .cnt = db_col_i64(st, 1), .fmt = db_col_i64(st, 2),
		.ts_min = db_col_i64(st, 3), .ts_max = db_col_i64(st, 4), .cols = bytes_of(st, 5),
		.hash = bytes_of(st, 6), .zone = bytes_of(st, 7) };
}

int segment_blocks(struct segment *s, segment_block_fn *fn, void *arg, struct err *err)
{
	struct db_stmt *st = db_stmt_get(s->db, SQL_SEGMENT_LIST_BLOCKS);
	struct block b;
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		b = block_of(st);
		rc = is_typed(st, "iiiiibbb") ? fn(arg, &b, err) : bad("blk", "table blk has what is no block", err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static struct text *text_of(struct db_stmt *st)
{
	size_t len = 0;
	const char *p = db_col_text(st, 1, &len);
	struct text *text;

	if (!is_typed(st, "it") || len > SEGMENT_TEXT_MAX || !text_utf8_valid(p, len))
		return NULL;
	text = mem_alloc(sizeof(*text) + len + 1);
	text->kind = db_col_i64(st, 0);
	text->len = len;
	if (len > 0)
		memcpy(text->p, p, len);
	text->p[len] = '\0';
	return text;
}

int segment_text(void *segment, uint16_t kind, int64_t id, const char **ret, size_t *ret_len, struct err *err)
{
	struct segment *s = segment;
	struct text *text = map_get_u64(s->texts, (uint64_t)id);
	struct db_stmt *st;
	int rc = 1;

	if (!text) {
		st = db_stmt_get(s->db, SQL_SEGMENT_GET_TEXT);
		db_bind_i64(st, 1, id);
		rc = db_step(st, err);
		text = rc == 1 ? text_of(st) : NULL;
		if (text)
			map_set_u64(s->texts, (uint64_t)id, text);
		db_stmt_put(&st);
	}
	if (rc < 0 || !text || text->kind != kind)
		return rc < 0 ? rc : 0;
	*ret = text->p;
	*ret_len = text->len;
	return 1;
}

bool segment_is_full(const struct segment *s)
{
	return map_count(s->texts) >= TEXTS_KEPT;
}

void segment_trim(struct segment *s)
{
	if (!segment_is_full(s))
		return;
	forget_texts(s);
	s->texts = map_new();
}

/* --- what is kept */

/* The next group: 1; 0: there is none. */
static int next_group(struct segment *s, struct err *err)
{
	const int64_t behind = s->n > 0 ? s->group + (int64_t)s->n : s->info.from;
	int rc = db_step(s->groups, err);

	if (rc != 1) {
		s->ended = rc == 0;
		return rc;
	}
	s->group = db_col_i64(s->groups, 0);
	if (is_typed(s->groups, "ib") && s->group >= behind && s->group < s->info.to) {
		const struct block_bytes body = bytes_of(s->groups, 1);

		rc = block_payloads_read(body.p, body.len, s->v, &s->n, err);
	} else {
		rc = bad("blkpay", "a group of what is kept is of no records of this file", err);
	}
	if (rc == 0 && s->group % SEGMENT_UNIT + (int64_t)s->n > SEGMENT_UNIT)
		rc = bad("blkpay", "a group of what is kept is of more than one tile", err);
	return rc < 0 ? rc : 1;
}

int segment_kept(struct segment *s, int64_t idx, struct block_payload *ret, struct err *err)
{
	int rc = 1;

	if (idx <= s->asked)
		return err_set(err, ERR_INTERNAL, "segment", "what is kept is read in one direction");
	s->asked = idx;
	if (!s->groups)
		s->groups = db_stmt_get(s->db, SQL_SEGMENT_LIST_GROUPS);
	while (rc == 1 && !s->ended && (s->n == 0 || s->group + (int64_t)s->n <= idx))
		rc = next_group(s, err);
	if (rc < 0 || s->ended || idx < s->group)
		return rc < 0 ? rc : 0;
	*ret = s->v[idx - s->group];
	return ret->salt.p != NULL;
}

/* --- its digest */

static void digest_number(struct digest *d, int64_t n)
{
	const uint64_t big = __builtin_bswap64((uint64_t)n);

	digest_put(d, &big, sizeof(big));
}

static void digest_bytes(struct digest *d, const void *p, size_t len)
{
	digest_number(d, (int64_t)len);
	digest_put(d, p, len);
}

static int digest_block(void *arg, const struct block *b, struct err *err)
{
	struct digest *d = arg;
	const int64_t number[] = { b->first, b->cnt, b->fmt, b->ts_min, b->ts_max };
	const struct block_bytes *bytes[] = { &b->cols, &b->hash, &b->zone };

	(void)err;
	digest_put(d, "b", 1);
	for (size_t i = 0; i < NELEMS(number); i++)
		digest_number(d, number[i]);
	for (size_t i = 0; i < NELEMS(bytes); i++)
		digest_bytes(d, bytes[i]->p, bytes[i]->len);
	return 0;
}

static int digest_texts(struct segment *s, struct digest *d, int64_t *ret_texts, struct err *err)
{
	struct db_stmt *st = db_stmt_get(s->db, SQL_SEGMENT_LIST_TEXTS);
	int64_t n = 0;
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		size_t len = 0;
		const char *p = db_col_text(st, 2, &len);

		if (!is_typed(st, "iit") || db_col_i64(st, 0) != n + 1) {
			rc = bad("text", "ids of table text are not those from 1 on", err);
			break;
		}
		n++;
		digest_put(d, "t", 1);
		digest_number(d, n);
		digest_number(d, db_col_i64(st, 1));
		digest_bytes(d, p, len);
	}
	db_stmt_put(&st);
	*ret_texts = n;
	return rc;
}

int segment_digest(struct segment *s, uint8_t ret[DIGEST_SIZE], int64_t *ret_texts, struct err *err)
{
	struct digest *d = digest_new();
	int rc = segment_blocks(s, digest_block, d, err);

	if (rc == 0)
		rc = digest_texts(s, d, ret_texts, err);
	digest_end(&d, ret);
	return rc;
}
