/* Records in blocks and rows as one table (forms/forms.h): what a statement asks for, block by block and row by row, in
 * the order of a log, as far as the statement goes on asking.  Any thread with a connection that reads. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "db/server.h"
#include "forms/forms.h"

#include "forms_int.h"

#define TYPE_OF_INT "INTEGER"
#define TYPE_OF_DICT "INTEGER"
#define TYPE_OF_ORIGIN "INTEGER"
#define TYPE_OF_BLOB "BLOB"
#define COLUMN_TEXT(sym, name, tag, form, size) ", \"" name "\" " TYPE_OF_##form

enum { IN_LOG = FORMS_FIRST + COL_LOG, IN_IDX = FORMS_FIRST + COL_IDX, IN_TS = FORMS_FIRST + COL_TS,
       IN_CALL = FORMS_FIRST + COL_CALL, IN_KIND = FORMS_FIRST + COL_KIND, CALL_SIZE = 16,
       KIND_BEGIN = 1001 };

/* --- what is asked for */

struct range { int64_t lo, hi; };
enum { FEW = 16 };                      /* more values are sorted, and looked up */
struct test { enum audit_column col; enum db_vtab_op op; unsigned n; const int64_t *v; int64_t few[FEW]; };
struct want {
	struct range log, idx, ts, id;
	struct test test[DB_VTAB_TERMS_MAX];
	unsigned tests;
	bool nothing, has_call, zoned, backwards;
	uint8_t call[CALL_SIZE];
	uint64_t columns;               /* of audit_columns[] that may be asked for, or are tested */
	int64_t *many;                  /* values of the one test that has more than a few, or NULL */
};

static void narrow(struct range *r, const struct test *t)
{
	int64_t lo = t->v[0], hi = t->v[0];

	for (unsigned i = 1; i < t->n; i++) {
		lo = t->v[i] < lo ? t->v[i] : lo;
		hi = t->v[i] > hi ? t->v[i] : hi;
	}
	if (t->op == DB_VTAB_NE)
		return;
	if (t->op != DB_VTAB_LT && t->op != DB_VTAB_LE && lo > r->lo)
		r->lo = lo;
	if (t->op != DB_VTAB_GT && t->op != DB_VTAB_GE && hi < r->hi)
		r->hi = hi;
	/* < and > are tested row by row. */
}

static bool is_zoned(enum audit_column col)
{
	for (enum block_zone_column z = 0; z < ZONE_COUNT; z++)
		if (block_zone_columns[z] == col)
			return true;
	return false;
}

static int by_value(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static void want_number(struct want *w, const struct db_vtab_given *g)
{
	struct test *t = &w->test[w->tests];
	struct range other = { 0, 0 };
	int64_t *v = t->few;

	if (g->n > FEW && w->many)
		return;
	if (g->n > FEW)
		v = w->many = mem_calloc(g->n, sizeof(*v));
	*t = (struct test){ .op = g->op, .v = v };
	for (unsigned i = 0; i < g->n; i++) {
		if (g->value[i].type == DB_INT)
			v[t->n++] = g->value[i].n;
		else if (g->value[i].type != DB_NULL)
			return;                 /* SQLite knows how these compare */
	}
	if (t->n > FEW)
		qsort(v, t->n, sizeof(*v), by_value);
	if (t->n == 0) {
		w->nothing = true;              /* with NULL nothing compares */
		return;
	}
	if (g->col == FORMS_ID) {
		narrow(&w->id, t);
		return;
	}
	t->col = (enum audit_column)(g->col - FORMS_FIRST);
	narrow(g->col == IN_LOG ? &w->log : g->col == IN_IDX ? &w->idx : g->col == IN_TS ? &w->ts : &other, t);
	w->columns |= BLOCK_COLUMN(t->col);
	w->zoned = w->zoned || (t->op != DB_VTAB_NE && is_zoned(t->col));
	w->tests++;
}

static void read_ask(const struct db_vtab_ask *ask, struct want *w)
{
	static const struct range all = { INT64_MIN, INT64_MAX };

	w->log = w->idx = w->ts = w->id = all;
	w->tests = 0;
	free(w->many);
	w->many = NULL;
	w->nothing = w->has_call = w->zoned = false;
	w->backwards = ask->backwards;
	w->columns = ask->columns >> FORMS_FIRST;
	for (unsigned i = 0; i < ask->terms; i++) {
		const struct db_vtab_given *g = &ask->term[i];

		if (g->col != IN_CALL) {
			want_number(w, g);
		} else if (g->n == 1 && g->value->type == DB_BLOB && g->value->len == CALL_SIZE) {
			w->has_call = true;
			memcpy(w->call, g->value->p, CALL_SIZE);
			w->columns |= BLOCK_COLUMN(COL_CALL);
		}
	}
	if (w->id.lo == w->id.hi && w->id.lo < 0) {     /* a record in a block, by its place */
		forms_place(w->id.lo, &w->log.lo, &w->idx.lo);
		w->log.hi = w->log.lo;
		w->idx.hi = w->idx.lo;
	}
}

static bool passes(const struct test *t, int64_t v)
{
	switch (t->op) {
	case DB_VTAB_EQ:
		if (t->n > FEW)
			return bsearch(&v, t->v, t->n, sizeof(v), by_value);
		for (unsigned i = 0; i < t->n; i++)
			if (t->v[i] == v)
				return true;
		return false;
	case DB_VTAB_NE:
		return v != t->v[0];
	case DB_VTAB_LT:
		return v < t->v[0];
	case DB_VTAB_LE:
		return v <= t->v[0];
	case DB_VTAB_GT:
		return v > t->v[0];
	case DB_VTAB_GE:
		return v >= t->v[0];
	}
	return true;
}

/* --- the cursor: logs ascending; of each its blocks and then its rows, or the reverse */

enum stage { AT_BLOCKS, AT_ROWS, AT_END };

struct cursor {
	struct forms *f;
	struct want w;
	enum stage stage;
	int64_t log, line, line_of;     /* line_of: the log that line is of, */
	bool has_line;                  /* if it is of any */
	struct db_stmt *st;             /* of rows of rec */
	struct forms_walk walk;         /* of rows of blk */
	struct forms_slot *slot;        /* the block that is open */
	int64_t first, cnt, at;         /* of it; the record that the cursor is at */
	int64_t edge;                   /* where the block before ended, backwards where it began; -1: there was none */
	struct db_stmt *chapters;       /* NULL: all blocks that are left are asked for */
	struct range left;              /* positions whose blocks are still to be asked for */
	struct range skip;              /* a chapter that has nothing, beside the blocks that are asked for; lo -1: none */
	struct forms_meeting meeting;   /* what is asked for by rec_meet() */
	struct forms_meet meet;         /* asked NULL: it is not */
};

static void *rec_open(void *arg)
{
	struct cursor *c = mem_zalloc(sizeof(*c));

	c->f = arg;
	c->stage = AT_END;
	return c;
}

/* But for the block that is open. */
static void rest(struct cursor *c)
{
	if (c->st)
		db_stmt_put(&c->st);
	forms_walk_end(&c->walk);
	if (c->chapters)
		db_stmt_put(&c->chapters);
	forms_slot_put(&c->meet.at.slot);
	c->stage = AT_END;
}

static void leave(struct cursor *c)
{
	forms_slot_put(&c->slot);
	rest(c);
}

static void rec_close(void *cursor)
{
	struct cursor *c = cursor;

	leave(c);
	free(c->w.many);
	free(c);
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void ask_rows(struct cursor *c)
{
	struct db *db = c->f->db;

	c->stage = AT_ROWS;
	if (c->w.id.lo == c->w.id.hi) {
		c->st = db_stmt_get(db, SQL_FORMS_ROW);
		db_bind_i64(c->st, 1, c->w.id.lo);
		return;
	}
	c->st = db_stmt_get(db, c->w.backwards ? SQL_FORMS_ROWS_DOWN : SQL_FORMS_ROWS_UP);
	db_bind_i64(c->st, 1, c->log);
	db_bind_i64(c->st, 2, larger(c->w.idx.lo, c->line));
	db_bind_i64(c->st, 3, c->w.idx.hi);
	if (c->w.has_call)
		db_bind_blob(c->st, 4, c->w.call, CALL_SIZE);
	else
		db_bind_null(c->st, 4);
}

/* Which blocks: next_span() says, before the first one too. */
static int ask_blocks(struct cursor *c, struct err *err)
{
	const bool all = !c->w.zoned && c->w.ts.lo == INT64_MIN && c->w.ts.hi == INT64_MAX;
	int64_t sealed = 0;
	int rc = forms_sealed(c->f->db, c->log, &sealed, err);

	if (rc < 0)
		return rc;
	if (c->chapters)
		db_stmt_put(&c->chapters);
	forms_walk_begin(&c->walk, c->f, c->log, sealed, c->w.backwards);
	c->stage = AT_BLOCKS;
	c->edge = c->skip.lo = -1;
	c->meet.sealed = sealed;
	c->meet.book_end = c->meet.book = 0;
	c->left = (struct range){ larger(c->w.idx.lo, 0), smaller(c->w.idx.hi, c->line - 1) };
	if (!all) {
		c->chapters = db_stmt_get(c->f->db, c->w.backwards ? SQL_FORMS_CHAPTERS_DOWN : SQL_FORMS_CHAPTERS_UP);
		db_bind_i64(c->chapters, 1, c->log);
		db_bind_i64(c->chapters, 2, c->left.lo);
		db_bind_i64(c->chapters, 3, c->left.hi);
	}
	return 1;
}

static bool has_blocks(const struct cursor *c)
{
	return c->line > 0 && c->w.id.lo < 0 && c->w.idx.lo < c->line && c->w.idx.hi >= 0 && c->w.idx.lo <= c->w.idx.hi;
}

static bool has_rows(const struct cursor *c)
{
	return c->w.idx.hi >= c->line && c->w.idx.lo <= c->w.idx.hi;
}

/* The next log that the statement may mean; 0: there is none. */
static int next_log(struct cursor *c, struct err *err)
{
	const int64_t below = c->stage == AT_END ? c->w.log.lo : c->log + 1;
	struct db_stmt *st;
	int rc = 1;

	if (below > c->w.log.hi || (c->stage != AT_END && c->log == INT64_MAX))
		return 0;
	c->log = below;
	if (c->w.log.lo != c->w.log.hi) {
		st = db_stmt_get(c->f->db, SQL_FORMS_NEXT_LOG);
		db_bind_i64(st, 1, below == INT64_MIN ? below : below - 1);
		rc = db_step(st, err);
		if (rc == 1 && db_col_type(st, 0) == DB_NULL)
			rc = 0;
		if (rc == 1)
			c->log = db_col_i64(st, 0);
		db_stmt_put(&st);
	}
	if (rc != 1 || c->log > c->w.log.hi)
		return rc < 0 ? rc : 0;
	/* A cursor is one run of a statement: a join that asks for one record after the other finds them as they are. */
	if (!c->has_line || c->line_of != c->log)
		rc = forms_line(c->f->db, c->log, &c->line, err);
	c->has_line = rc >= 0;
	c->line_of = c->log;
	return rc < 0 ? rc : 1;
}

/* 1: there is a statement to step; 0: that was all. */
static int next_stage(struct cursor *c, struct err *err)
{
	int rc;

	for (;;) {
		const enum stage was = c->stage;

		if (was == AT_BLOCKS && !c->w.backwards && has_rows(c)) {
			ask_rows(c);
			return 1;
		}
		if (was == AT_ROWS && c->w.backwards && has_blocks(c))
			return ask_blocks(c, err);
		rc = next_log(c, err);
		if (rc != 1)
			return rc;
		c->stage = c->w.backwards ? AT_ROWS : AT_BLOCKS;
		if (c->w.backwards ? has_rows(c) : has_blocks(c)) {
			if (!c->w.backwards)
				return ask_blocks(c, err);
			ask_rows(c);
			return 1;
		}
	}
}

/* --- blocks */

static int corrupt(const struct cursor *c, int64_t first, const char *what, struct err *err)
{
	return forms_bad(c->log, first, err_set(err, ERR_CORRUPT, "", "%s", what), err);
}

static struct block_bytes bytes_of(struct db_stmt *st, unsigned col)
{
	struct block_bytes b = { 0 };

	b.p = db_col_blob(st, col, &b.len);
	return b;
}

/* The block that the statement is at; blocks join without a gap, up to the line. */
static int read_block(struct cursor *c, struct block *ret, struct err *err)
{
	struct db_stmt *st = c->walk.st;
	int64_t end;

	*ret = (struct block){ .first = db_col_i64(st, 0), .cnt = db_col_i64(st, 1), .fmt = db_col_i64(st, 2),
		.ts_min = db_col_i64(st, 3), .ts_max = db_col_i64(st, 4) };
	if (ret->cnt < 1 || ret->cnt > BLOCK_RECORDS_MAX || ret->first < 0 || ret->first >= c->line)
		return corrupt(c, ret->first, "no block can be there", err);
	end = ret->first + ret->cnt;
	if (c->edge < 0 && c->w.backwards && end <= smaller(c->w.idx.hi, c->line - 1))
		return corrupt(c, ret->first, "the next block is missing", err);
	if (c->edge >= 0 && (c->w.backwards ? end : ret->first) != c->edge)
		return corrupt(c, ret->first, (c->w.backwards ? end > c->edge : ret->first < c->edge)
			       ? "it overlaps the one beside it" : "there is a gap beside it", err);
	c->edge = c->w.backwards ? ret->first : end;
	return 0;
}

static bool zone_passes(const struct block_zone *zone, const struct test *t)
{
	bool may = zone->many;

	for (unsigned i = 0; i < zone->n && !may; i++)
		may = passes(t, zone->v[i].id);
	return may;
}

/* Whether a record of the block, or the chapter, can be meant, by what stands beside; its zone is a column of st, of a
 * file or the store. */
static int may_have(struct cursor *c, const struct block *b, struct db_stmt *st, unsigned zone, struct forms_file *file,
		    struct err *err)
{
	const struct block_bytes bytes = c->w.zoned ? bytes_of(st, zone) : (struct block_bytes){ NULL, 0 };
	struct block_zones *zones;
	bool may = b->ts_max >= c->w.ts.lo && b->ts_min <= c->w.ts.hi && b->first + b->cnt > c->w.idx.lo;
	int rc;

	if (!may || !c->w.zoned)
		return may;
	if (!c->f->zones)
		c->f->zones = mem_zalloc(sizeof(*c->f->zones));
	zones = c->f->zones;
	rc = block_zones_read(bytes.p, bytes.len, b->cnt, zones, err);
	if (rc == 0)
		rc = forms_file_zones(file, zones, err);
	if (rc < 0)
		return forms_bad(c->log, b->first, rc, err);
	for (unsigned i = 0; i < c->w.tests && may; i++) {
		const struct test *t = &c->w.test[i];

		for (enum block_zone_column z = 0; z < ZONE_COUNT && may; z++)
			may = block_zone_columns[z] != t->col || zone_passes(&zones->of[z], t);
	}
	return may;
}

/* A chapter without what is meant: what stands between it and the blocks that were asked for last comes first. */
static void pass_chapter(struct cursor *c, int64_t first, int64_t end)
{
	const struct range was = c->left;

	c->skip = (struct range){ first, end };
	if (!c->w.backwards) {
		c->left.lo = end;
		if (was.lo < first)
			forms_walk_over(&c->walk, was.lo, smaller(first - 1, was.hi));
	} else {
		c->left.hi = first - 1;
		if (was.hi >= end)
			forms_walk_over(&c->walk, larger(end, was.lo), was.hi);
	}
}

/* One that may have it: its blocks, and those of none before it. */
static void take_chapter(struct cursor *c, int64_t first, int64_t end)
{
	const int64_t lo = c->w.backwards ? larger(first, c->left.lo) : c->left.lo;
	const int64_t hi = c->w.backwards ? c->left.hi : smaller(end - 1, c->left.hi);

	forms_walk_over(&c->walk, lo, hi);
	if (c->w.backwards)
		c->left.hi = lo - 1;
	else
		c->left.lo = hi + 1;
}

/* Blocks go on behind the chapter, from where it ends. */
static int end_skip(struct cursor *c, struct err *err)
{
	const int64_t near = c->w.backwards ? c->skip.hi : c->skip.lo;

	if (c->skip.lo < 0)
		return 0;
	if (c->edge >= 0 && c->edge != near)
		return corrupt(c, c->edge, "the next block is missing", err);
	c->edge = c->w.backwards ? c->skip.lo : c->skip.hi;
	c->skip.lo = -1;
	return 0;
}

/* Asks for the blocks up to the end of the next chapter that may have something: 1; 0: there is none. */
static int next_chapter(struct cursor *c, struct err *err)
{
	int rc = db_step(c->chapters, err);
	struct block b;
	int64_t end;

	if (rc == 1) {
		b = (struct block){ .first = db_col_i64(c->chapters, 0), .cnt = db_col_i64(c->chapters, 1),
			.ts_min = db_col_i64(c->chapters, 2), .ts_max = db_col_i64(c->chapters, 3) };
		if (b.first < 0 || b.cnt < 1 || b.cnt > BLOCK_CHAPTER_MAX || b.first > c->line - b.cnt)
			return corrupt(c, b.first, "no chapter can be there", err);
		end = b.first + b.cnt;
		if (c->w.backwards ? b.first > c->left.hi : end <= c->left.lo)
			return 1;               /* not that far yet */
		if (c->w.backwards ? end > c->left.lo : b.first <= c->left.hi) {
			rc = may_have(c, &b, c->chapters, 4, NULL, err);
			if (rc == 1 && c->meet.asked)
				rc = forms_meet_may(&c->meet, b.first, b.cnt, err);
			if (rc == 0)
				pass_chapter(c, b.first, end);
			else if (rc == 1)
				take_chapter(c, b.first, end);
			return rc < 0 ? rc : 1;
		}
	}
	db_stmt_put(&c->chapters);
	return rc < 0 ? rc : 0;
}

/* The next blocks that are worth reading: 1; 0: that was all of them. */
static int next_span(struct cursor *c, struct err *err)
{
	int rc = end_skip(c, err);

	while (rc >= 0 && !forms_walk_has(&c->walk) && c->left.lo <= c->left.hi) {
		if (c->chapters) {
			rc = next_chapter(c, err);
			if (rc >= 0 && !forms_walk_has(&c->walk) && c->skip.lo >= 0)
				rc = end_skip(c, err);
			continue;
		}
		forms_walk_over(&c->walk, c->left.lo, c->left.hi);
		c->left.lo = c->left.hi + 1;
	}
	return rc < 0 ? rc : forms_walk_has(&c->walk);
}

static int step_blocks(struct cursor *c, struct err *err)
{
	int rc = 0;

	while (rc == 0) {
		rc = forms_walk_has(&c->walk) ? 1 : next_span(c, err);
		if (rc != 1)
			return rc;
		rc = forms_walk_step(&c->walk, err);
		if (c->walk.jumped >= 0)
			c->edge = c->walk.jumped;
		c->walk.jumped = -1;
	}
	return rc;
}

static int open_block(struct cursor *c, struct block *b, struct err *err)
{
	int rc = forms_walk_bytes(&c->walk, b, err);

	if (rc < 0)
		return forms_bad(c->log, b->first, rc, err);
	return forms_slot_get(c->f, c->log, c->walk.file, b, c->w.columns, &c->slot, err);
}

static int next_block(struct cursor *c, struct err *err)
{
	struct block b;
	int rc;

	while ((rc = step_blocks(c, err)) == 1) {
		rc = read_block(c, &b, err);
		if (rc == 0)
			rc = may_have(c, &b, c->walk.st, WALK_ZONE, c->walk.file, err);
		if (rc == 1)
			rc = open_block(c, &b, err);
		if (rc < 0)
			return c->walk.file ? forms_file_bad(c->walk.file, rc, err) : rc;
		if (!c->slot)
			continue;
		c->first = b.first;
		c->cnt = b.cnt;
		c->at = c->w.backwards ? smaller(b.cnt - 1, c->w.idx.hi - b.first) + 1
			: larger(b.first, c->w.idx.lo) - b.first - 1;
		return 1;
	}
	/* What lies between the last block that came and the line is missing. */
	if (rc == 0 && !c->w.backwards && c->edge >= 0 && c->edge <= smaller(c->w.idx.hi, c->line - 1))
		return corrupt(c, c->edge, "the next block is missing", err);
	return rc;
}

static int call_matches(struct cursor *c, struct err *err)
{
	struct db_value v;
	int rc = forms_slot_value(c->slot, IN_CALL, c->at, &v, err);

	if (rc < 0)
		return rc;
	return v.type == DB_BLOB && v.len == CALL_SIZE && memcmp(v.p, c->w.call, CALL_SIZE) == 0;
}

/* 1: the record is meant; 0: it is not. */
static int test_record(struct cursor *c, struct err *err)
{
	for (unsigned i = 0; i < c->w.tests; i++) {
		int64_t v = 0;
		int rc = forms_slot_number(c->slot, c->w.test[i].col, c->at, &v, err);

		if (rc < 0)
			return rc;
		if (rc == 0 || !passes(&c->w.test[i], v))
			return 0;
	}
	return c->w.has_call ? call_matches(c, err) : 1;
}

/* The next record of the block that is open; 0: there is none. */
static int next_record(struct cursor *c, struct err *err)
{
	for (;;) {
		int rc;

		c->at += c->w.backwards ? -1 : 1;
		if (c->at < 0 || c->at >= c->cnt || c->first + c->at < c->w.idx.lo || c->first + c->at > c->w.idx.hi)
			return 0;
		rc = test_record(c, err);
		if (rc != 0)
			return rc;
	}
}

/* --- rows */

/* What is no number is SQLite's to compare. */
static bool test_row(const struct cursor *c)
{
	for (unsigned i = 0; i < c->w.tests; i++) {
		const unsigned col = FORMS_FIRST + c->w.test[i].col;
		const enum db_type type = db_col_type(c->st, col);

		if (type == DB_NULL || (type == DB_INT && !passes(&c->w.test[i], db_col_i64(c->st, col))))
			return false;
	}
	return true;
}

/* 1: a row that counts. */
static int next_row(struct cursor *c, struct err *err)
{
	int rc;

	while ((rc = db_step(c->st, err)) == 1) {
		int64_t line = c->line;

		if (!test_row(c))
			continue;
		if (c->w.id.lo == c->w.id.hi)           /* found by its id, whatever its log */
			rc = forms_line(c->f->db, db_col_i64(c->st, IN_LOG), &line, err);
		if (rc < 0 || db_col_i64(c->st, IN_IDX) >= line)
			return rc < 0 ? rc : 1;
	}
	return rc;
}

/* One record is meant, by its place. */
static bool is_place(const struct cursor *c)
{
	return c->w.log.lo == c->w.log.hi && c->w.idx.lo == c->w.idx.hi;
}

static int next_of_stage(struct cursor *c, struct err *err)
{
	int rc;

	if (c->stage == AT_ROWS)
		return next_row(c, err);
	for (;;) {
		rc = c->slot ? next_record(c, err) : 0;
		if (rc != 0 || (c->slot && is_place(c)))        /* SQLite asks for a second one */
			return rc;
		forms_slot_put(&c->slot);
		rc = next_block(c, err);
		if (rc != 1)
			return rc;
	}
}

static int rec_next(void *cursor, struct err *err)
{
	struct cursor *c = cursor;
	int rc = 0;

	for (;;) {
		rc = c->st || c->stage == AT_BLOCKS ? next_of_stage(c, err) : 0;
		if (rc == 1)
			return 1;
		if (c->st)
			db_stmt_put(&c->st);
		if (rc == 0 && !(c->w.id.lo == c->w.id.hi && c->w.id.lo >= 0))
			rc = next_stage(c, err);
		if (rc == 0 && is_place(c)) {
			rest(c);
			return 0;
		}
		if (rc != 1) {
			leave(c);
			return rc;
		}
	}
}

/* A join asks for one record after the other: what is open has the next one as well, for it is the same statement's. */
static bool is_open(const struct cursor *c)
{
	return c->slot && c->log == c->w.log.lo && is_place(c) && c->w.idx.lo >= c->first && c->w.idx.lo < c->first + c->cnt;
}

static int rec_filter(void *cursor, const struct db_vtab_ask *ask, struct err *err)
{
	struct cursor *c = cursor;

	read_ask(ask, &c->w);
	c->meet.asked = NULL;
	if (!c->w.nothing && is_open(c)) {
		c->stage = AT_BLOCKS;
		c->at = c->w.idx.lo - c->first + (c->w.backwards ? 1 : -1);
		return rec_next(c, err);
	}
	leave(c);
	if (c->w.nothing || c->w.id.lo > c->w.id.hi)
		return 0;
	if (c->w.id.lo == c->w.id.hi && c->w.id.lo >= 0)
		ask_rows(c);
	return rec_next(c, err);
}

static void add_test(struct want *w, enum audit_column col, enum db_vtab_op op, int64_t v)
{
	struct test *t = &w->test[w->tests++];

	*t = (struct test){ .col = col, .op = op, .n = 1, .v = t->few, .few = { v } };
	w->columns |= BLOCK_COLUMN(col);
}

static int rec_meet(void *cursor, const struct forms_meeting *asked, struct err *err)
{
	static const struct db_vtab_ask nothing = { .backwards = true };
	struct cursor *c = cursor;
	struct want *w = &c->w;

	leave(c);
	read_ask(&nothing, w);
	c->meeting = *asked;
	c->meet.f = c->f;
	c->meet.asked = &c->meeting;
	w->log = (struct range){ asked->log, asked->log };
	w->idx = (struct range){ asked->lo, asked->hi };
	w->ts = (struct range){ asked->since, asked->until };
	w->zoned = true;
	add_test(w, COL_KIND, DB_VTAB_NE, KIND_BEGIN);
	add_test(w, COL_TS, DB_VTAB_GE, asked->since);
	add_test(w, COL_TS, DB_VTAB_LT, asked->until);
	for (unsigned k = 0; k < SUM_KEYS; k++)
		if (asked->keys >> k & 1)
			add_test(w, block_sum_columns[k], DB_VTAB_EQ, asked->is[k]);
	return rec_next(c, err);
}

static int64_t rec_idx(const void *cursor)
{
	const struct cursor *c = cursor;

	return c->slot ? c->first + c->at : db_col_i64(c->st, IN_IDX);
}

static int tail_value(struct db_stmt *st, unsigned col, struct db_value *ret)
{
	ret->type = db_col_type(st, col);
	if (ret->type == DB_INT)
		ret->n = db_col_i64(st, col);
	else if (ret->type == DB_TEXT)
		ret->p = db_col_text(st, col, &ret->len);
	else if (ret->type == DB_BLOB)
		ret->p = db_col_blob(st, col, &ret->len);
	return 0;
}

static int rec_column(void *cursor, unsigned col, struct db_value *ret, struct err *err)
{
	struct cursor *c = cursor;

	return c->slot ? forms_slot_value(c->slot, col, c->at, ret, err) : tail_value(c->st, col, ret);
}

static int64_t rec_id(const void *cursor)
{
	const struct cursor *c = cursor;

	return c->slot ? forms_id(c->log, c->first + c->at) : db_col_i64(c->st, FORMS_ID);
}

/* --- plans */

static bool use(struct db_vtab_plan *plan, unsigned col, bool equal)
{
	bool used = false;

	for (unsigned i = 0; i < plan->terms; i++) {
		if (plan->term[i].col != col || (equal && plan->term[i].op != DB_VTAB_EQ))
			continue;
		plan->term[i].use = used = true;
		if (equal)              /* a look for each */
			plan->term[i].several = false;
	}
	return used;
}

/* By position in one log, either way, or by log and position. */
static void find_order(struct db_vtab_plan *plan, bool one_log)
{
	unsigned i = 0;

	while (i < plan->orders && plan->order[i].col == IN_LOG && (one_log || !plan->order[i].desc))
		i++;
	if (i == plan->orders) {
		plan->ordered = true;
		return;
	}
	if (plan->order[i].col != IN_IDX || (!one_log && (plan->order[i].desc || i == 0)))
		return;
	plan->ordered = true;           /* no two records have one place, so what comes behind says nothing */
	plan->backwards = plan->order[i].desc;
}

static void rec_plan(void *arg, struct db_vtab_plan *plan)
{
	bool by_id = use(plan, FORMS_ID, true), one_log, place, few;

	for (unsigned i = 0; i < plan->terms; i++)
		if (plan->term[i].col == FORMS_ID || (plan->term[i].col > FORMS_LEAF &&
		    audit_columns[plan->term[i].col - FORMS_FIRST].form != FORM_BLOB))
			plan->term[i].use = true;
	one_log = use(plan, IN_LOG, true);
	place = use(plan, IN_IDX, true) && one_log;
	few = use(plan, IN_CALL, true);
	find_order(plan, one_log);
	if (by_id || place) {
		plan->unique = true;
		plan->cost = by_id ? 20 : 40;
		plan->rows = 1;
		return;
	}
	plan->cost = one_log ? 1e6 : 1e8;
	plan->rows = one_log ? 100000 : 10000000;
	for (unsigned i = 0; i < plan->terms; i++) {
		const bool equal = plan->term[i].op == DB_VTAB_EQ;

		if (!plan->term[i].use || plan->term[i].col == IN_LOG || plan->term[i].op == DB_VTAB_NE)
			continue;
		plan->cost /= equal || plan->term[i].col == IN_IDX || plan->term[i].col == IN_TS ? 4 : 1;
		plan->rows = plan->rows / (equal ? 10 : 3) + 1;
	}
	if (few)
		plan->rows = 2;
}

static const struct db_vtab forms_rec = {
	.name = "rec", .columns = "id INTEGER, enc INTEGER, leaf BLOB" AUDIT_COLUMNS(COLUMN_TEXT),
	.plan = rec_plan, .open = rec_open, .filter = rec_filter, .next = rec_next, .column = rec_column,
	.id = rec_id, .close = rec_close, .free = forms_free,
};

/* --- who sees them */

static int any(struct db *db, struct err *err)
{
	struct db_stmt *st;
	int rc;

	if (db_is_shared(db))           /* rows are all that it has */
		return 0;
	if (db_is_guest(db))            /* another program's connection does not ask again */
		return 1;
	st = db_stmt_get(db, SQL_FORMS_ANY);
	rc = db_step(st, err);

	if (rc == 1)
		rc = (int)db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc == 0 ? db_is_lean(db, err) : rc;
}

bool forms_seen(const struct db *db)
{
	return db_vtab_has(db, forms_rec.name);
}

int forms_see(struct db *db, struct err *err)
{
	return forms_see_without(db, NULL, err);
}

int forms_see_without(struct db *db, struct forms_absent *absent, struct err *err)
{
	struct forms *f;
	int rc = forms_seen(db) || !db_vtab_can(db) ? 0 : any(db, err);

	if (rc != 1)
		return rc;
	f = forms_new(db, absent);
	rc = db_vtab_make(db, &forms_pay, f, err);
	if (rc < 0) {
		forms_free(f);
		return rc;
	}
	rc = db_vtab_make(db, &forms_rec, f, err);      /* which frees it */
	return rc < 0 ? rc : db_vtab_views(db, err);
}

int forms_open_store(struct db_where at, struct db **ret, struct err *err)
{
	struct db *db = NULL;
	int rc = db_open_store(at, &db, err);

	if (rc == 0)
		rc = forms_see(db, err);
	if (rc < 0)
		db_close(&db);
	else
		*ret = db;
	return rc;
}

/* --- where several ids meet, as table "meets": meet.c */

enum { M_LOG, M_SINCE, M_UNTIL, M_LO, M_HI, M_OF_TOOL, M_OF_PRN, M_OF_CRED, M_OF_OUTCOME, M_OF_KIND, M_ASKED };
enum { M_MUST = (1 << M_ASKED) - 1 };

struct meets { void *rec; struct db_value given[M_ASKED]; };

static void *meets_open(void *forms)
{
	struct meets *c = mem_zalloc(sizeof(*c));

	c->rec = rec_open(forms);
	return c;
}

static void meets_close(void *cursor)
{
	struct meets *c = cursor;

	rec_close(c->rec);
	free(c);
}

static int meets_filter(void *cursor, const struct db_vtab_ask *ask, struct err *err)
{
	static const enum block_sum_key of[] = { SUM_TOOL, SUM_PRN, SUM_CRED, SUM_OUTCOME, SUM_KIND };
	struct meets *c = cursor;
	struct forms_meeting m = { .keys = 0 };
	unsigned said = 0;

	for (unsigned i = 0; i < ask->terms; i++) {
		c->given[ask->term[i].col] = *ask->term[i].value;
		said |= ask->term[i].value->type == DB_INT ? 1u << ask->term[i].col : 0;
	}
	if (said != M_MUST)
		return err_set(err, ERR_INTERNAL, "", "where ids meet is asked for without all that it goes by");
	m.log = c->given[M_LOG].n;
	m.since = c->given[M_SINCE].n;
	m.until = c->given[M_UNTIL].n;
	m.lo = c->given[M_LO].n;
	m.hi = c->given[M_HI].n;
	for (size_t i = 0; i < NELEMS(of); i++) {
		m.is[of[i]] = c->given[M_OF_TOOL + i].n;
		m.keys |= m.is[of[i]] == -1 ? 0 : UINT32_C(1) << of[i];
	}
	return rec_meet(c->rec, &m, err);
}

static int meets_next(void *cursor, struct err *err)
{
	return rec_next(((struct meets *)cursor)->rec, err);
}

static int64_t meets_id(const void *cursor)
{
	return rec_idx(((const struct meets *)cursor)->rec);
}

static int meets_column(void *cursor, unsigned col, struct db_value *ret, struct err *err)
{
	struct meets *c = cursor;

	(void)err;
	if (col < M_ASKED)
		*ret = c->given[col];
	else
		*ret = (struct db_value){ .type = DB_INT, .n = meets_id(cursor) };
	return 0;
}

static void meets_plan(void *arg, struct db_vtab_plan *plan)
{
	(void)arg;
	db_vtab_plan_given(plan, M_ASKED, M_ASKED, M_ASKED, 1e4);
}

const struct db_vtab forms_meets = {
	.name = "meets",
	.columns = "log INTEGER, since INTEGER, until INTEGER, lo INTEGER, hi INTEGER, of_tool INTEGER, of_prn INTEGER, "
		"of_cred INTEGER, of_outcome INTEGER, of_kind INTEGER, idx INTEGER",
	.plan = meets_plan, .open = meets_open, .filter = meets_filter, .next = meets_next, .column = meets_column,
	.id = meets_id, .close = meets_close,
};
