/* Chapters and books (forms/forms.h): what the next blocks, or chapters, of a log come to, by a thread that reads;
 * put by the writer beside its other work.  Derived from blocks alone, so that nothing of it can be lost, and counted
 * anew by the verifier, which shares how a book is counted. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "block/zone.h"
#include "forms/forms.h"

#include "forms_int.h"

/* --- what chapters come to together */

enum { KIND_BEGIN = 1001 };

/* What chapters of a log come to, one behind the other or not; how many there are. */
struct forms_book {
	int64_t first, cnt, ts_min, ts_max;
	unsigned chapters;
	bool joined;
	struct audit_bytes days, sums;
};

#define NUMBERS (BLOCK_COLUMN(COL_DUR) | BLOCK_COLUMN(COL_N_REQ) | BLOCK_COLUMN(COL_N_RES))

struct counting {
	struct forms *f;
	int64_t log, sealed;
	struct forms_book *book;
	struct block_summer *summer, *days;
	struct forms_place record, begin;     /* whose records are apart, and where their begins are */
	int64_t *apart; size_t aparts, room;
};

/* Of a record that is counted, and its begin. */
static uint64_t columns_of(void)
{
	uint64_t columns = BLOCK_COLUMN(COL_TS) | BLOCK_COLUMN(COL_CALL) | BLOCK_COLUMN(COL_BEG) | NUMBERS;

	for (unsigned k = 0; k < SUM_KEYS; k++)
		columns |= BLOCK_COLUMN(block_sum_columns[k]);
	return columns;
}

/* A record by itself, and whose end it is; -1: nobody's. */
static int find(struct counting *c, int64_t idx, struct forms_place *at, struct block_sum *ret, int64_t *ret_beg,
		struct err *err)
{
	int rc = forms_place_open(c->f, c->log, c->sealed, idx, columns_of(), at, err);

	if (rc == 0)
		rc = err_set(err, ERR_UNREACHABLE, "", "the file of record %" PRId64 " of log %" PRId64 " is not here", idx, c->log);
	if (rc == 1)
		rc = forms_slot_sum(at->slot, at->first, idx - at->first, BLOCK_SUM_ALL, NUMBERS, ret, err);
	if (rc == 0)
		rc = forms_slot_number(at->slot, COL_BEG, idx - at->first, ret_beg, err);
	if (rc == 0)
		*ret_beg = -1;
	return rc < 0 ? rc : 0;
}

/* A record that stands apart in its chapter: its begin may be in one before. */
static int add_apart(struct counting *c, int64_t idx, struct err *err)
{
	struct block_sum own, begin = { .count = 0 };
	int64_t beg = -1, none;
	int rc = find(c, idx, &c->record, &own, &beg, err);

	if (rc == 0 && beg >= c->book->first && beg < idx)
		rc = find(c, beg, &c->begin, &begin, &none, err);
	if (rc < 0)
		return rc;
	block_summer_add_one(c->days, &own, NULL);
	if (begin.count > 0 && begin.key[SUM_KIND] == KIND_BEGIN)
		block_summer_add_one(c->summer, &own, &begin);
	else
		block_summer_add_apart(c->summer, idx);
	return 0;
}

/* The chapter that the statement is at. */
static int add_chapter(struct counting *c, struct db_stmt *st, struct err *err)
{
	const int64_t first = db_col_i64(st, 0), cnt = db_col_i64(st, 1);
	const int64_t ts_min = db_col_i64(st, 2), ts_max = db_col_i64(st, 3);
	struct forms_book *b = c->book;
	struct block_sums sums = { .partial = true };
	size_t len = 0;
	const void *p = db_col_blob(st, 4, &len);
	int rc = block_sums_read(p, len, first, cnt, &sums, err);

	if (rc < 0) {
		block_sums_fini(&sums);
		return err_wrap(err, "chapter %" PRId64 " of log %" PRId64, first, c->log);
	}
	if (b->chapters++ == 0)
		*b = (struct forms_book){ .first = first, .ts_min = ts_min, .ts_max = ts_max, .chapters = 1, .joined = true };
	b->joined = b->joined && first == b->first + b->cnt;
	b->cnt += cnt;
	b->ts_min = ts_min < b->ts_min ? ts_min : b->ts_min;
	b->ts_max = ts_max > b->ts_max ? ts_max : b->ts_max;
	block_summer_add_sums(c->summer, b->first, &sums);
	block_summer_add_sums(c->days, b->first, &sums);
	for (size_t i = 0; i < sums.aparts; i++) {
		if (c->aparts == c->room) {
			c->room = c->room ? 2 * c->room : 64;
			c->apart = mem_realloc(c->apart, c->room * sizeof(*c->apart));
		}
		c->apart[c->aparts++] = sums.apart[i];
	}
	block_sums_fini(&sums);
	return 0;
}

static int add_chapters(struct counting *c, int64_t from, int64_t to, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->f->db, SQL_FORMS_BOOK_CHAPTERS);
	int rc;

	db_bind_i64(st, 1, c->log);
	db_bind_i64(st, 2, from);
	db_bind_i64(st, 3, to);
	while ((rc = db_step(st, err)) == 1 && c->book->chapters <= BLOCK_BOOK_CHAPTERS) {
		rc = add_chapter(c, st, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* Of those from <= first < to.  ERR_UNREACHABLE: a file is not here. */
static int count_book(struct db *db, int64_t log, int64_t from, int64_t to, struct forms_book *ret, struct err *err)
{
	struct counting c = { .f = forms_new(db, NULL), .log = log, .book = ret, .summer = block_summer_new_book(),
		.days = block_summer_new_days() };
	int rc;

	*ret = (struct forms_book){ .first = from, .joined = true };
	rc = forms_sealed(db, log, &c.sealed, err);
	if (rc == 0)
		rc = add_chapters(&c, from, to, err);
	for (size_t i = 0; rc == 0 && i < c.aparts && ret->joined && ret->chapters <= BLOCK_BOOK_CHAPTERS; i++)
		rc = add_apart(&c, c.apart[i], err);
	if (rc == 0) {
		block_summer_end(c.summer, &ret->sums);
		block_summer_end(c.days, &ret->days);
	}
	forms_slot_put(&c.record.slot);
	forms_slot_put(&c.begin.slot);
	block_summer_free(&c.summer);
	block_summer_free(&c.days);
	forms_free(c.f);
	free(c.apart);
	return rc;
}

/* --- whether a book is what its chapters come to */

static struct block_bytes bytes_of(struct db_stmt *st, unsigned col)
{
	struct block_bytes b = { 0 };

	b.p = db_col_blob(st, col, &b.len);
	return b;
}

/* The one that the statement is at; edge: where the one before ends.  What cannot be counted has findings of its
 * own. */
static int check_book(struct db *db, int64_t log, struct db_stmt *st, int64_t edge, const char **ret, struct err *err)
{
	const int64_t first = db_col_i64(st, 0), cnt = db_col_i64(st, 1);
	const bool can_be = first >= 0 && cnt > 0 && cnt <= BLOCK_BOOK_MAX && first <= INT64_MAX - cnt && first >= edge;
	struct forms_book book = { .cnt = 0 };
	int rc = can_be ? count_book(db, log, first, first + cnt, &book, err) : 0;
	const struct block_bytes days = { book.days.p, book.days.len }, sums = { book.sums.p, book.sums.len };

	if (!can_be || (rc == 0 && (book.chapters < 1 || book.chapters > BLOCK_BOOK_CHAPTERS || !book.joined ||
				    book.first != first || book.cnt != cnt)))
		*ret = "the book is not of whole chapters, has more than one may have, or lies upon another";
	else if (rc == 0 && (book.ts_min != db_col_i64(st, 2) || book.ts_max != db_col_i64(st, 3)))
		*ret = "the book says other times than its records have";
	else if (rc == 0 && !block_days_same(bytes_of(st, 4), days, first, cnt, err))
		*ret = "the book's days are not what its records come to";
	else if (rc == 0 && !block_book_same(bytes_of(st, 5), sums, first, cnt, err))
		*ret = "the book's sums are not what its records come to";
	free(book.days.p);
	free(book.sums.p);
	return rc == ERR_CORRUPT || rc == ERR_INVALID || rc == ERR_UNREACHABLE || rc == ERR_LIMIT ? 0 : rc;
}

int forms_books_check(struct db *db, int64_t log, int64_t behind, int64_t below, forms_book_bad_fn *fn, void *arg,
		      struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_VERIFY_LIST_BOOKS);
	int64_t edge = INT64_MIN;
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, behind);
	db_bind_i64(st, 3, below);
	while ((rc = db_step(st, err)) == 1) {
		const char *what = NULL;

		rc = check_book(db, log, st, edge, &what, err);
		if (rc < 0)
			break;
		if (what)
			fn(arg, db_col_i64(st, 0), db_col_i64(st, 1), what);
		if (__builtin_add_overflow(db_col_i64(st, 0), db_col_i64(st, 1), &edge))
			edge = INT64_MAX;
	}
	db_stmt_put(&st);
	return rc;
}

/* --- what a book says */

int forms_book_sums(struct forms *f, const struct forms_book_ask *ask, struct forms_booked *ret,
		    struct block_sums *sums, struct err *err)
{
	struct db_stmt *st = db_stmt_get(f->db, ask->days ? SQL_FORMS_BOOK_DAYS : SQL_FORMS_BOOK);
	int rc;

	*sums = (struct block_sums){ .partial = true };
	db_bind_i64(st, 1, ask->log);
	db_bind_i64(st, 2, ask->first);
	db_bind_i64(st, 3, ask->since);
	db_bind_i64(st, 4, ask->until);
	rc = db_step(st, err);
	if (rc == 1) {
		const struct block_bytes b = bytes_of(st, 2);

		*ret = (struct forms_booked){ db_col_i64(st, 0), db_col_i64(st, 1) };
		rc = ask->days ? block_days_read_some(b.p, b.len, ask->first, ret->cnt, ask->words, sums, err)
			: block_book_read_some(b.p, b.len, ask->first, ret->cnt, ask->words, ask->hists, sums, err);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : !sums->partial;
}

/* --- a chapter */

_Static_assert((int)FORMS_CHAPTER_BLOCKS == (int)BLOCK_CHAPTER_BLOCKS, "one number");
_Static_assert((int)FORMS_BOOK_CHAPTERS == (int)BLOCK_BOOK_CHAPTERS, "one number");

struct chapter {
	struct forms_chapter face;
	int64_t ts_min, ts_max;
	struct audit_bytes zone, days, sums;    /* zone: of a chapter; days: of a book */
	unsigned chapters;              /* of a book */
};

struct making {
	struct chapter *c;
	struct block_reader *reader;
	struct block_zoner *zoner;
	struct block_summer *summer;
	struct block_zones *zones;
};

void forms_chapter_free(struct forms_chapter **cp)
{
	struct chapter *c = (struct chapter *)*cp;

	if (!c)
		return;
	*cp = NULL;
	free(c->zone.p);
	free(c->days.p);
	free(c->sums.p);
	free(c);
}

static int add_block(struct making *m, const struct block *b, struct err *err)
{
	struct chapter *c = m->c;
	int rc;

	if (c->face.cnt > 0 && b->first != c->face.first + c->face.cnt)
		return err_set(err, ERR_CORRUPT, "", "blocks of log %" PRId64 " do not join at %" PRId64, c->face.log, b->first);
	rc = block_open(m->reader, b, BLOCK_ALL_COLUMNS, err);
	if (rc == 0)
		rc = block_zones_read(b->zone.p, b->zone.len, b->cnt, m->zones, err);
	if (rc < 0)
		return err_wrap(err, "block %" PRId64 " of log %" PRId64, b->first, c->face.log);
	block_zoner_add_zones(m->zoner, m->zones);
	block_summer_add(m->summer, m->reader);
	if (c->face.cnt == 0) {
		c->face.first = b->first;
		c->ts_min = b->ts_min;
		c->ts_max = b->ts_max;
	}
	c->face.cnt += b->cnt;
	c->ts_min = b->ts_min < c->ts_min ? b->ts_min : c->ts_min;
	c->ts_max = b->ts_max > c->ts_max ? b->ts_max : c->ts_max;
	return 0;
}

static int add_blocks(struct making *m, struct db *db, int64_t from, unsigned blocks, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FOLD_LIST_CHAPTER);
	int rc;

	db_bind_i64(st, 1, m->c->face.log);
	db_bind_i64(st, 2, from);
	db_bind_i64(st, 3, blocks);
	while ((rc = db_step(st, err)) == 1) {
		const struct block b = { .first = db_col_i64(st, 0), .cnt = db_col_i64(st, 1), .fmt = db_col_i64(st, 2),
			.ts_min = db_col_i64(st, 3), .ts_max = db_col_i64(st, 4), .cols = bytes_of(st, 5),
			.hash = bytes_of(st, 6), .zone = bytes_of(st, 7) };

		rc = add_block(m, &b, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc;
}

/* --- which blocks */

/* Chapters that are small yet, from a record on, and how many blocks they have; where blocks are in none, and how
 * many, as far as it matters. */
struct open { int64_t from, loose_from; unsigned parts, loose; };

/* Small ones are the newest that have fewer blocks together than one may have. */
static int find_parts(struct db *db, int64_t log, unsigned blocks, struct open *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FOLD_LIST_PARTS);
	int rc;

	db_bind_i64(st, 1, log);
	while ((rc = db_step(st, err)) == 1) {
		const int64_t first = db_col_i64(st, 0), n = db_col_i64(st, 2);

		if (n < 1 || first + db_col_i64(st, 1) != ret->from || n + ret->parts >= blocks)
			break;
		ret->parts += (unsigned)n;
		ret->from = first;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int find_open(struct db *db, int64_t log, unsigned blocks, struct open *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FOLD_LOOSE_FROM);
	int rc;

	*ret = (struct open){ .parts = 0 };
	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	if (rc == 1)
		ret->from = ret->loose_from = db_col_i64(st, 0);
	db_stmt_put(&st);
	if (rc != 1)
		return rc;
	rc = find_parts(db, log, blocks, ret, err);
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_FOLD_COUNT_LOOSE);
	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, ret->loose_from);
	db_bind_i64(st, 3, blocks - ret->parts);
	rc = db_step(st, err);
	if (rc == 1)
		ret->loose = (unsigned)db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc;
}

/* --- a proposal */

static int make(struct db *db, int64_t log, int64_t from, unsigned blocks, struct forms_chapter **ret, struct err *err)
{
	struct chapter *c = mem_zalloc(sizeof(*c));
	struct making m = { .c = c, .reader = block_reader_new(NULL), .zoner = block_zoner_new(),
		.summer = block_summer_new(), .zones = mem_zalloc(sizeof(*m.zones)) };
	struct forms_chapter *face = &c->face;
	int rc;

	c->face.log = log;
	rc = add_blocks(&m, db, from, blocks, err);
	if (rc == 0) {
		block_zoner_end(m.zoner, &c->zone);
		block_summer_end(m.summer, &c->sums);
		*ret = face;
		rc = 1;
	} else {
		forms_chapter_free(&face);
	}
	block_reader_free(&m.reader);
	block_zoner_free(&m.zoner);
	block_summer_free(&m.summer);
	free(m.zones);
	return rc;
}

/* Where chapters lie that are to be a book: joined, and in none. */
struct run { int64_t first, end; unsigned chapters; bool closed; };    /* closed: none joins behind it */

/* The next of them from a record on, before the small ones; which are in a book already are passed by. */
static int find_run(struct db *db, int64_t log, unsigned most, int64_t from, int64_t below, struct run *r,
		    struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FOLD_LIST_BOOK);
	bool booked = false;
	int rc;

	*r = (struct run){ .first = from, .end = from };
	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, from);
	while ((rc = db_step(st, err)) == 1 && db_col_i64(st, 0) < below) {
		const int64_t first = db_col_i64(st, 0);

		booked = db_col_type(st, 2) != DB_NULL;
		r->closed = r->chapters > 0 && (booked || first != r->end);
		if (r->closed || booked)
			break;
		r->first = r->chapters++ == 0 ? first : r->first;
		r->end = first + db_col_i64(st, 1);
		if (r->chapters == most)
			break;
	}
	if (rc == 1 && booked && r->chapters == 0)
		r->end = db_col_i64(st, 2);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* So many chapters, or fewer where no other one comes behind them: those of files that were sealed. */
static int find_book(struct db *db, int64_t log, unsigned most, int64_t from, int64_t below, struct run *r,
		     struct err *err)
{
	int rc;

	for (;;) {
		rc = find_run(db, log, most, from, below, r, err);
		if (rc < 0 || r->chapters > 0 || r->end <= from)
			break;
		from = r->end;          /* behind books */
	}
	return rc < 0 ? rc : r->chapters > 0 && (r->closed || r->chapters == most);
}

/* 1: *r, which is what comes behind the newest book, has that book's chapters as well when these are few yet, and it
 * begins at `from` or behind. */
static int grow_book(struct db *db, int64_t log, unsigned most, int64_t from, int64_t below, struct run *r,
		     struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FOLD_BOOK_BEFORE);
	int64_t first = 0, n = 0;
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, r->first);
	rc = db_step(st, err);
	if (rc == 1) {
		first = db_col_i64(st, 0);
		n = db_col_i64(st, 1);
	}
	db_stmt_put(&st);
	if (rc < 0 || n < 1 || n >= most || first < from)
		return rc < 0 ? rc : 1;
	rc = find_run(db, log, most - (unsigned)n, r->first, below, r, err);
	r->first = first;
	r->chapters += (unsigned)n;
	return rc < 0 ? rc : 1;
}

static int make_book(struct db *db, int64_t log, const struct forms_chapter_sizes *sizes, int64_t from, int64_t below,
		     struct forms_chapter **ret, struct err *err)
{
	const unsigned most = sizes->chapters;
	struct forms_book book = { .cnt = 0 };
	struct run r;
	struct chapter *c;
	int rc = most > 0 ? find_book(db, log, most, from, below, &r, err) : 0;

	if (most > 0 && rc >= 0 && sizes->few > 0 && r.chapters >= sizes->few && !r.closed)
		rc = grow_book(db, log, most, from, below, &r, err);
	if (rc != 1)
		return rc;
	rc = count_book(db, log, r.first, r.end, &book, err);
	if (rc < 0) {
		free(book.days.p);
		free(book.sums.p);
		return rc;
	}
	c = mem_zalloc(sizeof(*c));
	c->face = (struct forms_chapter){ log, book.first, book.cnt, true };
	c->chapters = r.chapters;
	c->ts_min = book.ts_min;
	c->ts_max = book.ts_max;
	c->days = book.days;
	c->sums = book.sums;
	*ret = &c->face;
	return 1;
}

/* What is sealed gets none while one of its files cannot be read: what comes behind it does. */
static int propose_book(struct db *db, int64_t log, const struct forms_chapter_sizes *sizes, int64_t below,
			struct forms_chapter **ret, struct err *err)
{
	int64_t sealed = 0;
	int rc = make_book(db, log, sizes, 0, below, ret, err), known;

	if (rc != ERR_UNREACHABLE && rc != ERR_CORRUPT)
		return rc;
	known = forms_sealed(db, log, &sealed, err);
	return known < 0 ? known : sealed > 0 ? make_book(db, log, sizes, sealed, below, ret, err) : rc;
}

static int propose(struct db *db, int64_t log, const struct forms_chapter_sizes *sizes, struct forms_chapter **ret,
		   struct err *err)
{
	struct open open;
	int rc = find_open(db, log, sizes->blocks, &open, err);

	if (rc != 1)
		return rc;
	if (open.parts + open.loose >= sizes->blocks)
		return make(db, log, open.from, sizes->blocks, ret, err);
	if (sizes->part > 0 && open.loose >= sizes->part)
		return make(db, log, open.loose_from, sizes->part, ret, err);
	return propose_book(db, log, sizes, open.from, ret, err);
}

int forms_chapter_next(struct db *db, int64_t log, const struct forms_chapter_sizes *sizes, struct forms_chapter **ret,
		       struct err *err)
{
	int rc = db_txn_begin(db, false, err);

	return rc < 0 ? rc : db_txn_end(db, propose(db, log, sizes, ret, err), err);
}

/* --- putting it */

static int put_chapter(struct db *db, const struct chapter *c, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FOLD_PUT_CHAPTER);

	db_bind_i64(st, 1, c->face.log);
	db_bind_i64(st, 2, c->face.first);
	db_bind_i64(st, 3, c->face.cnt);
	db_bind_i64(st, 4, c->ts_min);
	db_bind_i64(st, 5, c->ts_max);
	db_bind_blob(st, 6, c->zone.p, c->zone.len);
	db_bind_blob(st, 7, c->sums.p, c->sums.len);
	return db_run(&st, err);
}

static int put_book(struct db *db, const struct chapter *c, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FOLD_PUT_BOOK);

	db_bind_i64(st, 1, c->face.log);
	db_bind_i64(st, 2, c->face.first);
	db_bind_i64(st, 3, c->face.cnt);
	db_bind_i64(st, 4, c->ts_min);
	db_bind_i64(st, 5, c->ts_max);
	db_bind_blob(st, 6, c->days.p, c->days.len);
	db_bind_blob(st, 7, c->sums.p, c->sums.len);
	db_bind_i64(st, 8, c->chapters);
	return db_run(&st, err);
}

/* Small ones in whose place it came. */
static int drop_parts(struct db *db, const struct forms_chapter *chapter, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FOLD_DROP_PARTS);

	db_bind_i64(st, 1, chapter->log);
	db_bind_i64(st, 2, chapter->first);
	db_bind_i64(st, 3, chapter->cnt);
	return db_run(&st, err);
}

int forms_chapter_put(struct db *db, const struct forms_chapter *chapter, struct err *err)
{
	const struct chapter *c = (const struct chapter *)chapter;
	int rc = chapter->book ? put_book(db, c, err) : put_chapter(db, c, err);

	if (rc == 0 && db_changes(db) == 0)
		return err_set(err, ERR_CONFLICT, "", "a block of log %" PRId64 " was made of what has changed since", chapter->log);
	return rc < 0 || chapter->book ? rc : drop_parts(db, chapter, err);
}
