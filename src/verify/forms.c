/* Blocks of a log (SCALE 5, SC-101): they join without a gap, each is what an encoder makes, what stands beside its
 * columns is what its records come to (SC-207), and rows that they have replaced say the same.  What the records are is
 * looked at where they are read; this comes first, so that it is known what cannot be. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "block/block.h"
#include "block/zone.h"
#include "db/db.h"
#include "forms/forms.h"
#include "units/units.h"

#include "verify_int.h"

/* The chapter that is counted while its blocks are read. */
struct chapters {
	bool begun, there;              /* the first block has come; there is one, */
	int64_t first, cnt, ts_min, ts_max;     /* as it says */
	struct audit_bytes zone, sums;
	int64_t edge, last;             /* where the one before ended; the first record of the last one that there is */
	int64_t at, blocks;             /* where its blocks have come to; 0: it has not begun */
	int64_t min, max;               /* their times */
	bool bad;                       /* one of its blocks cannot be read */
	struct block_zoner *zoner;
	struct block_summer *summer;
};

struct verify_forms {
	struct chapters chapters;
	int64_t line, sealed;           /* where blocks, and sealed files, end: chapters of those are sealed.c's */
	struct audit_reader *leftovers; /* of rows before it */
	struct audit_page page;
	struct audit_read left;
	int more;                       /* 1: left is one */
};

/* --- where the blocks are: of all logs, before anything is read by them */

/* sealed: where sealed files end; blocks before it are leftovers. */
struct blocks { struct verify *v; int64_t log, sealed, end, blocks; char *origin; struct block_reader *reader; };
typedef int blocks_fn(struct blocks *of, struct err *err);

static void tell_block(const struct blocks *of, enum audit_finding_code code, const struct block *b, const char *detail)
{
	const bool place = b->first >= 0 && b->cnt > 0;

	verify_tell(of->v, &(struct audit_finding){ .code = code, .origin = of->origin, .from = place ? b->first : -1,
		.to = place ? b->first + b->cnt - 1 : -1, .detail = detail });
}

/* Behind the one before; the first one may begin in what was pruned. */
static bool check_place(const struct blocks *of, const struct block *b)
{
	if (b->first > of->end) {
		verify_tell(of->v, &(struct audit_finding){ .code = AUDIT_FINDING_GAP, .origin = of->origin, .from = of->end,
			.to = b->first - 1, .detail = "a block is missing" });
		return false;
	}
	if (b->first < of->end && of->blocks > 0) {
		tell_block(of, AUDIT_FINDING_GAP, b, "the block begins before the one before it ends");
		return false;
	}
	return true;
}

static bool can_be(const struct block *b)
{
	return b->first >= 0 && b->cnt >= 1 && b->cnt <= BLOCK_RECORDS_MAX && b->first <= INT64_MAX - BLOCK_RECORDS_MAX;
}

static int check_places(struct blocks *of, struct err *err)
{
	struct db_stmt *st = db_stmt_get(of->v->db, SQL_VERIFY_LIST_PLACES);
	int rc;

	db_bind_i64(st, 1, of->log);
	while ((rc = db_step(st, err)) == 1) {
		const struct block b = { .first = db_col_i64(st, 0), .cnt = db_col_i64(st, 1) };

		if (!can_be(&b)) {
			tell_block(of, AUDIT_FINDING_PARSE, &b, "no block can be there, or of that size");
			of->v->unreadable = true;
			continue;
		}
		if (b.first < of->sealed && b.first + b.cnt <= of->sealed)
			continue;
		if (!check_place(of, &b))
			of->v->unreadable = true;
		of->end = b.first + b.cnt;
		of->blocks++;
	}
	db_stmt_put(&st);
	return rc;
}

static int each_folded(struct verify *v, blocks_fn *fn, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_LIST_FOLDED);
	int rc;

	db_bind_i64(st, 1, v->tenant_id);
	while ((rc = db_step(st, err)) == 1) {
		struct blocks of = { .v = v, .log = db_col_i64(st, 0), .end = db_col_i64(st, 2), .origin = db_col_dup(st, 1) };

		rc = forms_sealed(v->db, of.log, &of.sealed, err);
		of.end = of.sealed > of.end ? of.sealed : of.end;
		rc = rc == 0 ? fn(&of, err) : rc;
		free(of.origin);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc;
}

static int forms_open(struct verify *v, struct err *err)
{
	return forms_seen(v->db) ? each_folded(v, check_places, err) : 0;
}

/* --- blocks that cannot be read: all of them, so that they are told wherever the first one was met */

static struct block_bytes bytes_of(struct db_stmt *st, unsigned col)
{
	struct block_bytes b = { 0 };

	b.p = db_col_blob(st, col, &b.len);
	return b;
}

static struct block block_of(struct db_stmt *st)
{
	return (struct block){ .first = db_col_i64(st, 0), .cnt = db_col_i64(st, 1), .fmt = db_col_i64(st, 2),
		.ts_min = db_col_i64(st, 3), .ts_max = db_col_i64(st, 4), .cols = bytes_of(st, 5), .hash = bytes_of(st, 6),
		.zone = bytes_of(st, 7) };
}

static int blame_blocks(struct blocks *of, struct err *err)
{
	struct db_stmt *st = db_stmt_get(of->v->db, SQL_VERIFY_LIST_BLOCKS);
	int rc;

	db_bind_i64(st, 1, of->log);
	while ((rc = db_step(st, err)) == 1) {
		const struct block b = block_of(st);
		struct err why = { 0 };

		if (!can_be(&b) || block_open(of->reader, &b, BLOCK_ALL_COLUMNS, &why) == 0)
			continue;
		tell_block(of, AUDIT_FINDING_PARSE, &b, why.msg);
		of->v->unreadable = true;
	}
	db_stmt_put(&st);
	return rc;
}

/* What is kept beside them. */
static int blame_bodies(struct blocks *of, struct err *err)
{
	struct block_payload *v = mem_calloc(BLOCK_PAYLOADS_MAX, sizeof(*v));
	struct db_stmt *st = db_stmt_get(of->v->db, SQL_VERIFY_LIST_BODIES);
	int rc;

	db_bind_i64(st, 1, of->log);
	while ((rc = db_step(st, err)) == 1) {
		const struct block_bytes body = bytes_of(st, 1);
		struct block group = { .first = db_col_i64(st, 0), .cnt = 1 };
		struct err why = { 0 };
		size_t n;

		if (block_payloads_read(body.p, body.len, v, &n, &why) == 0)
			continue;
		tell_block(of, AUDIT_FINDING_PARSE, &group, why.msg);
		of->v->unreadable = true;
	}
	db_stmt_put(&st);
	free(v);
	return rc;
}

static int blame(struct blocks *of, struct err *err)
{
	int rc;

	of->reader = block_reader_new(NULL);
	rc = blame_blocks(of, err);
	block_reader_free(&of->reader);
	return rc < 0 ? rc : blame_bodies(of, err);
}

int verify_forms_blame(struct verify *v, struct err *err)
{
	if (v->blamed || !forms_seen(v->db))
		return 0;
	v->blamed = true;
	return each_folded(v, blame, err);
}

/* --- what is beside their columns */

/* A block comes to its turn. */
static void tell_beside(struct verify_log *c, const struct units_block *seen)
{
	const struct blocks of = { .v = c->v, .log = c->head->id, .origin = c->head->origin };

	if (seen->lies)
		tell_block(&of, AUDIT_FINDING_INDEX, &seen->b, seen->said);
	if (seen->beyond)
		tell_block(&of, AUDIT_FINDING_PAYLOAD_EXTRA, &seen->b,
			   "something is kept beside it of records that it does not have");
	if (seen->twice)
		tell_block(&of, AUDIT_FINDING_PAYLOAD_EXTRA, &seen->b, "something is kept beside it twice");
}

/* --- chapters: derived from blocks, so counted while these are read (SC-207) */

static void tell_derived(void *arg, int64_t first, int64_t cnt, const char *detail)
{
	const struct verify_log *c = arg;
	const bool place = first >= 0 && cnt > 0 && first <= INT64_MAX - cnt;

	verify_tell(c->v, &(struct audit_finding){ .code = AUDIT_FINDING_INDEX, .origin = c->head->origin,
		.from = place ? first : -1, .to = place ? first + cnt - 1 : -1, .detail = detail });
}

static void tell_chapter(struct verify_log *c, const char *detail)
{
	tell_derived(c, c->forms->chapters.first, c->forms->chapters.cnt, detail);
}

static void copy_bytes(struct audit_bytes *to, struct block_bytes from)
{
	free(to->p);
	*to = (struct audit_bytes){ mem_dup(from.p, from.len), from.len, from.len };
}

/* The first that ends behind a record, or the next one from a record on. */
static int find_chapter(struct verify_log *c, enum sql_id sql, int64_t from, struct err *err)
{
	struct chapters *k = &c->forms->chapters;
	struct db_stmt *st = db_stmt_get(c->v->db, sql);
	int rc;

	db_bind_i64(st, 1, c->head->id);
	db_bind_i64(st, 2, from);
	db_bind_i64(st, 3, k->last);
	rc = db_step(st, err);
	k->at = k->blocks = 0;
	k->bad = false;
	k->there = rc == 1;
	if (rc == 1) {
		k->first = db_col_i64(st, 0);
		k->cnt = db_col_i64(st, 1);
		k->ts_min = db_col_i64(st, 2);
		k->ts_max = db_col_i64(st, 3);
		copy_bytes(&k->zone, bytes_of(st, 4));
		copy_bytes(&k->sums, bytes_of(st, 5));
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int next_chapter(struct verify_log *c, struct err *err)
{
	const int64_t first = c->forms->chapters.first;

	c->forms->chapters.there = false;
	return first < INT64_MAX ? find_chapter(c, SQL_VERIFY_NEXT_CHAPTER, first + 1, err) : 0;
}

static void compare_chapter(struct verify_log *c)
{
	struct chapters *k = &c->forms->chapters;
	struct audit_bytes zone = { 0 }, sums = { 0 };
	struct err err = { 0 };

	block_zoner_end(k->zoner, &zone);
	block_summer_end(k->summer, &sums);
	if (k->bad)
		;
	else if (k->ts_min != k->min || k->ts_max != k->max)
		tell_chapter(c, "the chapter says other times than its records have");
	else if (zone.len != k->zone.len || memcmp(zone.p, k->zone.p, zone.len) != 0)
		tell_chapter(c, "the chapter's zone does not list what its records have");
	else if (!block_sums_same((struct block_bytes){ k->sums.p, k->sums.len }, (struct block_bytes){ sums.p, sums.len },
				  k->first, k->cnt, &err))
		tell_chapter(c, *err.msg ? err.msg : "the chapter's sums are not what its records come to");
	free(zone.p);
	free(sums.p);
}

/* A block that is there; r: it is open; NULL: it cannot be read. */
static void add_to_chapter(struct chapters *k, const struct block *b, const struct block_reader *r)
{
	if (k->blocks == 0) {
		if (!k->zoner)
			k->zoner = block_zoner_new();
		if (!k->summer)
			k->summer = block_summer_new();
		k->min = b->ts_min;
		k->max = b->ts_max;
	}
	k->bad = k->bad || !r || (k->blocks > 0 && b->first != k->at);
	if (!k->bad) {
		block_zoner_add_block(k->zoner, r);
		block_summer_add(k->summer, r);
	}
	k->min = b->ts_min < k->min ? b->ts_min : k->min;
	k->max = b->ts_max > k->max ? b->ts_max : k->max;
	k->at = b->first + b->cnt;
	k->blocks++;
}

/* Chapters begin where a block does, end where one ends, and have 64 blocks at most. */
static int pass_chapters(struct verify_log *c, const struct block *b, const struct block_reader *r, struct err *err)
{
	struct chapters *k = &c->forms->chapters;
	int rc = 0;

	while (rc == 0 && k->there && k->blocks == 0 && (k->first < b->first || k->first < k->edge || k->cnt < 1)) {
		tell_chapter(c, "the chapter does not begin where a block does, or lies upon another");
		rc = next_chapter(c, err);
	}
	if (rc < 0 || !k->there || (k->blocks == 0 && k->first != b->first))
		return rc;
	add_to_chapter(k, b, r);
	if (k->at - k->first < k->cnt && k->blocks < BLOCK_CHAPTER_BLOCKS)
		return 0;
	k->bad = k->bad || k->at - k->first != k->cnt;
	if (k->at - k->first != k->cnt)
		tell_chapter(c, "the chapter does not end where a block does, or has more blocks than one may have");
	compare_chapter(c);
	k->edge = k->first + k->cnt;
	return next_chapter(c, err);
}

/* Blocks from <= first < to, by themselves, as far as there are chapters. */
static int count_blocks(struct verify_log *c, int64_t from, int64_t to, struct err *err)
{
	struct block_reader *r = block_reader_new(NULL);
	struct db_stmt *st = db_stmt_get(c->v->db, SQL_VERIFY_LIST_PART);
	int rc = 0;

	db_bind_i64(st, 1, c->head->id);
	db_bind_i64(st, 2, from);
	db_bind_i64(st, 3, to);
	while (rc == 0 && c->forms->chapters.there && (rc = db_step(st, err)) == 1) {
		const struct block b = block_of(st);
		struct err why = { 0 };

		rc = can_be(&b) ? pass_chapters(c, &b, block_open(r, &b, BLOCK_ALL_COLUMNS, &why) == 0 ? r : NULL, err) : 0;
	}
	db_stmt_put(&st);
	block_reader_free(&r);
	return rc;
}

/* Those that there are when the first block comes, which begins at `at`: later ones may be of blocks that have passed.
 * What was read up to an earlier run's end is counted again as far as a chapter needs it. */
static int begin_chapters(struct verify_log *c, int64_t at, struct err *err)
{
	struct chapters *k = &c->forms->chapters;
	const bool anew = c->start == VERIFY_ANEW || c->start == VERIFY_AGAIN;
	struct db_stmt *st = db_stmt_get(c->v->db, SQL_VERIFY_LAST_CHAPTER);
	int rc;

	db_bind_i64(st, 1, c->head->id);
	rc = db_step(st, err);
	k->begun = true;
	k->edge = k->last = INT64_MIN;
	if (rc == 1 && db_col_type(st, 0) == DB_INT)
		k->last = db_col_i64(st, 0);
	db_stmt_put(&st);
	if (rc >= 0)
		rc = find_chapter(c, anew ? SQL_VERIFY_NEXT_CHAPTER : SQL_VERIFY_FIRST_CHAPTER,
				  !anew ? at : c->forms->sealed > 0 ? c->forms->sealed : INT64_MIN, err);
	return rc < 0 || !k->there || k->first >= at ? rc : count_blocks(c, k->first, at, err);
}

/* Behind the last block. */
static int end_chapters(struct verify_log *c, struct err *err)
{
	struct chapters *k = &c->forms->chapters;
	int rc = k->begun ? 0 : begin_chapters(c, c->forms->line, err);

	while (rc == 0 && k->there) {
		tell_chapter(c, "the chapter has more records than there are in blocks");
		rc = next_chapter(c, err);
	}
	return rc;
}

/* Those that begin in a range, with all of their blocks. */
static int count_again(struct verify_log *c, int64_t from, int64_t to, struct err *err)
{
	struct chapters *k = &c->forms->chapters;
	int rc;

	k->begun = true;
	k->edge = INT64_MIN;
	k->last = to - 1;
	rc = find_chapter(c, SQL_VERIFY_NEXT_CHAPTER, from > c->forms->sealed ? from : c->forms->sealed, err);
	if (rc == 0 && k->there)
		rc = count_blocks(c, k->first, INT64_MAX, err);
	return rc < 0 ? rc : end_chapters(c, err);
}

static void free_chapters(struct chapters *k)
{
	block_zoner_free(&k->zoner);
	block_summer_free(&k->summer);
	free(k->zone.p);
	free(k->sums.p);
}

/* --- records in either form */

/* Chapters of those that are read again are counted by themselves. */
static int pass_block(struct verify_log *c, const struct units_block *seen, struct err *err)
{
	int rc = 0;

	tell_beside(c, seen);
	if (!c->forms || c->again)
		return 0;
	if (!c->forms->chapters.begun)
		rc = begin_chapters(c, seen->b.first, err);
	return rc < 0 ? rc : pass_chapters(c, &seen->b, seen->reader, err);
}

int verify_read(struct verify_log *c, int64_t from, int64_t to, verify_read_fn *fn, void *arg, struct err *err)
{
	const struct units_ask ask = { .db = c->v->db, .threads = c->v->with->threads, .look = verify_payload_look,
		.arg = c->v };
	struct units_read next;
	int rc;

	if (!c->v->units)
		c->v->units = units_new(&ask);
	units_walk(c->v->units, c->head->id, c->head->origin, from, to);
	while ((rc = units_next(c->v->units, &next, err)) == 1) {
		rc = next.begins ? pass_block(c, next.begins, err) : 0;
		c->kept = next.kept;
		if (rc == 0)
			rc = fn(c, &next.got, arg, err);
		if (rc < 0)
			break;
	}
	units_leave(c->v->units);
	return rc;
}

/* --- rows that they have replaced */

static int next_leftover(struct verify_forms *forms, struct err *err)
{
	forms->more = audit_reader_next(forms->leftovers, &forms->page, &forms->left, err);
	return forms->more < 0 ? forms->more : 0;
}

static int check_kept(struct verify_log *c, int64_t from, int64_t to, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->v->db, SQL_VERIFY_LIST_KEPT_TWICE);
	int rc;

	db_bind_i64(st, 1, c->head->id);
	db_bind_i64(st, 2, from);
	db_bind_i64(st, 3, to);
	while ((rc = db_step(st, err)) == 1)
		verify_tell_record(c, db_col_i64(st, 1) ? AUDIT_FINDING_FORM : AUDIT_FINDING_ERASED_BUT_PRESENT,
				   db_col_i64(st, 0), db_col_i64(st, 0));
	db_stmt_put(&st);
	return rc;
}

/* Leftovers before a position: there is no record that they could be. */
static int pass_leftovers(struct verify_log *c, int64_t before, struct err *err)
{
	struct verify_forms *forms = c->forms;
	int rc = 0;

	while (rc == 0 && forms->more == 1 && forms->left.idx < before) {
		verify_tell_record(c, forms->left.idx >= 0 && forms->left.idx < c->head->min_idx
				   ? AUDIT_FINDING_ERASED_BUT_PRESENT : AUDIT_FINDING_FORM, forms->left.idx, forms->left.idx);
		rc = next_leftover(forms, err);
	}
	return rc;
}

static int compare_left(struct verify_log *c, const struct audit_read *got, struct err *err)
{
	struct verify_forms *forms = c->forms;

	if (forms->left.findings || memcmp(forms->left.leaf, got->leaf, TREE_HASH) != 0)
		verify_tell_record(c, AUDIT_FINDING_FORM, got->idx, got->idx);
	return next_leftover(forms, err);
}

/* Leftovers from <= idx < to are what comes next. */
static int find_leftovers(struct verify_log *c, int64_t from, int64_t to, struct err *err)
{
	struct verify_forms *forms = c->forms;

	audit_reader_free(&forms->leftovers);
	forms->leftovers = audit_reader_new(c->v->db);
	forms->page = (struct audit_page){ .log = c->head->id, .from = from, .to = to, .origin = c->head->origin,
		.leftovers = true };
	return next_leftover(forms, err);
}

/* --- the step */

/* Of a log that is not read from its first record, those behind what was read; the others are told by who reads those
 * again. */
static int forms_start(struct verify_log *c, struct err *err)
{
	int64_t line = INT64_MIN, from = c->start == VERIFY_BEHIND || c->start == VERIFY_ON ? c->next : INT64_MIN;
	int rc = forms_seen(c->v->db) ? forms_line(c->v->db, c->head->id, &line, err) : 0;

	if (rc < 0 || line == INT64_MIN)
		return rc;
	c->forms = mem_zalloc(sizeof(*c->forms));
	c->forms->line = line;
	rc = forms_sealed(c->v->db, c->head->id, &c->forms->sealed, err);
	if (rc < 0)
		return rc;
	rc = check_kept(c, from, line, err);
	return rc < 0 ? rc : find_leftovers(c, from, line, err);
}

static int forms_record(struct verify_log *c, const struct audit_read *got, struct err *err)
{
	struct verify_forms *forms = c->forms;
	int rc;

	if (!forms || forms->more != 1)
		return 0;
	rc = pass_leftovers(c, got->idx, err);
	if (rc < 0 || forms->more != 1 || forms->left.idx != got->idx)
		return rc;
	return compare_left(c, got, err);
}

static int forms_end(struct verify_log *c, struct err *err)
{
	int rc = c->forms ? end_chapters(c, err) : 0;

	rc = c->forms && rc == 0 ? forms_books_check(c->v->db, c->head->id, c->known, INT64_MAX, tell_derived, c, err) : rc;
	return c->forms && rc == 0 ? pass_leftovers(c, INT64_MAX, err) : rc;
}

/* Leftovers of records that are read again. */
static int compare_again(struct verify_log *c, int64_t from, int64_t to, struct err *err)
{
	struct audit_reader *reader = audit_reader_new(c->v->db);
	struct audit_page page = { .log = c->head->id, .origin = c->head->origin, .from = from, .to = to };
	struct audit_read got;
	int rc = find_leftovers(c, from, to, err);

	while (rc == 0 && c->forms->more == 1 && (rc = audit_reader_next(reader, &page, &got, err)) == 1)
		rc = forms_record(c, &got, err);
	audit_reader_free(&reader);
	return rc < 0 ? rc : pass_leftovers(c, INT64_MAX, err);
}

static int any_leftover(struct verify_log *c, int64_t from, int64_t to, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->v->db, SQL_VERIFY_ANY_LEFTOVER);
	int rc;

	db_bind_i64(st, 1, c->head->id);
	db_bind_i64(st, 2, from);
	db_bind_i64(st, 3, to);
	rc = db_step(st, err);
	if (rc == 1)
		rc = (int)db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc;
}

/* With the first records those too that no record can be. */
static int left_again(struct verify_log *c, int64_t from, int64_t to, struct err *err)
{
	int rc;

	from = from <= c->head->min_idx ? INT64_MIN : from;
	rc = any_leftover(c, from, to, err);
	if (rc != 1)
		return rc;
	rc = check_kept(c, from, to, err);
	return rc < 0 ? rc : compare_again(c, from, to, err);
}

static int forms_again(struct verify_log *c, int64_t from, int64_t to, struct err *err)
{
	struct verify_forms *own = c->forms, now = { .line = own ? own->line : INT64_MIN, .sealed = own ? own->sealed : 0 };
	int rc;

	to = to < now.line ? to : now.line;
	if (!own || from >= to)
		return 0;
	c->forms = &now;
	rc = count_again(c, from, to, err);
	rc = rc == 0 ? forms_books_check(c->v->db, c->head->id, from, to, tell_derived, c, err) : rc;
	rc = rc == 0 ? left_again(c, from, to, err) : rc;
	free_chapters(&now.chapters);
	audit_reader_free(&now.leftovers);
	c->forms = own;
	return rc;
}

static void forms_close(struct verify_log *c)
{
	if (c->forms) {
		audit_reader_free(&c->forms->leftovers);
		free_chapters(&c->forms->chapters);
	}
	free(c->forms);
	c->forms = NULL;
}

const struct verify_step verify_forms = {
	.name = "forms", .open = forms_open, .start_log = forms_start, .record = forms_record, .end = forms_end,
	.close = forms_close, .again = forms_again, .form = 1,
};
