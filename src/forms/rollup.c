/* What records come to, as tables "rollup" and "rollup_hist" (forms/forms.h): sums of chapters where they serve,
 * and else the records, from blocks and rows, counted in the same way.  One log at a time, in its order; what
 * has been counted is handed on when it is much, so that memory is bounded.  Any thread with a reader. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "forms/forms.h"

#include "forms_int.h"

enum { KIND_BEGIN = 1001, KIND_END = 1002 };
#define DAY_US INT64_C(86400000000)
enum { ENTRIES_MAX = 16384 };   /* a part of the log that would make more is handed on by itself */
enum { NEAR_BITS = 10 };        /* entries that were met last, which are found without hashing all their words well */

/* Columns of rollup: what is asked, then the words of struct block_sum. */
enum {
	R_LOG, R_SINCE, R_UNTIL, R_BY, R_OF_TOOL, R_OF_PRN, R_OF_CRED, R_OF_OUTCOME, R_ASKED,
};
enum { MUST = 1 << R_LOG | 1 << R_SINCE | 1 << R_UNTIL };
enum { W_DAY, W_NIGHT, W_CALLED, W_KEY, W_COUNT = W_KEY + SUM_KEYS, W_DUR_MAX = W_COUNT + 3, W_N_REQ };
/* Of rollup_hist: an entry has slot, class and step where day and these keys would be. */
enum { H_LOG, H_SINCE, H_UNTIL, H_OF_TOOL, H_EVERY, H_ASKED, H_SLOT = H_ASKED, H_TOOL, H_KIND, H_OUTCOME, H_CLASS,
       H_STEP, H_N, H_DUR_MAX };
enum { W_SLOT = W_DAY, HIST_CLASS = SUM_OUTCOME, HIST_STEP = SUM_CRED };

enum { VALUES_MAX = 64 };               /* of a test; one with more is left to SQLite */
struct test { unsigned word, n; int64_t v[VALUES_MAX]; };

enum stage { AT_CHAPTERS, AT_CHAPTER, AT_BLOCKS, AT_ROWS, AT_END };

struct cursor {
	struct forms *f;
	bool hist;
	/* what is asked */
	struct db_value given[R_ASKED];
	unsigned said;                  /* bits of those that have to be */
	char *by;
	int64_t log, since, until;
	int64_t every;                  /* of hist: how much time a slot is; 0: there is one */
	bool classes;                   /* of hist: they are asked for, which have the place of outcomes */
	struct test test[DB_VTAB_TERMS_MAX + 4];
	unsigned tests;
	uint64_t words;                 /* of an entry, that are wanted; the other keys are one */
	bool joined;                    /* some of it is of begins */
	uint64_t reads;                 /* words that are looked at */
	uint64_t numbers;               /* columns that are added up */
	uint64_t takes;                 /* words of sums that are looked at */
	/* where it is */
	enum stage stage, then;
	int64_t line, at, sealed;       /* records below `at` are counted */
	int64_t booked;                 /* where the last book that was counted ends; -1: none */
	struct db_stmt *chapters, *rows;
	struct forms_walk walk;
	struct forms_slot *slot, *before;       /* the block that is counted, and the one before it */
	int64_t first, cnt, before_first, before_cnt;
	struct forms_place apart, begin;        /* of a record that stands apart in a chapter, and of a begin */
	struct block_zones *zones;
	/* what was counted */
	struct map *table;              /* by the words of the key -> place in v, from 1 on */
	uint32_t near[1 << NEAR_BITS];  /* such places, or 0 */
	struct block_sum *v;
	size_t n, cap, next;
};

/* --- entries */

static int64_t *words_of(struct block_sum *e)
{
	return &e->day;
}

static bool passes(const struct cursor *c, const int64_t *word, unsigned from, unsigned to)
{
	for (unsigned i = 0; i < c->tests; i++) {
		const struct test *t = &c->test[i];
		bool is = t->word < from || t->word >= to;

		for (unsigned k = 0; k < t->n && !is; k++)
			is = t->v[k] == word[t->word];
		if (!is)
			return false;
	}
	return true;
}

static uint32_t *near_of(struct cursor *c, const int64_t *word)
{
	uint64_t sum = 0;

	for (unsigned w = 0; w < W_COUNT; w++)
		sum += (uint64_t)word[w] * (2 * w + 1);
	return &c->near[sum * UINT64_C(0x9e3779b97f4a7c15) >> (64 - NEAR_BITS)];
}

/* The place of an entry with these words, from 1 on; 0: there is none yet. */
static size_t find_entry(struct cursor *c, uint32_t *near, const int64_t *word)
{
	if (*near == 0 || memcmp(words_of(&c->v[*near - 1]), word, W_COUNT * sizeof(*word)) != 0)
		*near = (uint32_t)(uintptr_t)map_get(c->table, word, W_COUNT * sizeof(*word));
	return *near;
}

static int put_entry(struct cursor *c, const struct block_sum *one, struct err *err)
{
	struct block_sum e = *one, *to;
	int64_t *word = words_of(&e);
	uint32_t *near;
	size_t at;

	for (unsigned w = 0; w < W_COUNT; w++)
		if (!(c->words >> w & 1))
			word[w] = -1;
	near = near_of(c, word);
	at = find_entry(c, near, word);
	if (at == 0) {
		if (c->n == c->cap) {
			c->cap = c->cap ? 2 * c->cap : 64;
			c->v = mem_realloc(c->v, c->cap * sizeof(*c->v));
		}
		c->v[c->n++] = e;
		(void)map_set(c->table, word, W_COUNT * sizeof(*word), (void *)(uintptr_t)c->n);
		*near = (uint32_t)c->n;
		return 0;
	}
	to = &c->v[at - 1];
	return block_sum_merge(to, &e) ? 0 : err_set(err, ERR_LIMIT, "", "sums are larger than 63 bits");
}

static int64_t slot_of(const struct cursor *c, int64_t ts)
{
	return c->every > 0 ? (ts - c->since) / c->every : 0;
}

/* Slots are whole days, as sums of chapters are: what spans several says of each. */
static bool by_days(const struct cursor *c)
{
	return c->every > 0 && c->every % DAY_US == 0 && c->since % DAY_US == 0;
}

/* Of sums.  day: 0 in a book, all of which is in one slot, as is a chapter unless slots are days; ts: of one of its
 * records. */
static int64_t slot_of_sum(const struct cursor *c, int64_t day, int64_t ts)
{
	return slot_of(c, day > 0 && by_days(c) ? day * DAY_US : ts);
}

/* Calls of a slot that took so long. */
static int put_hist(struct cursor *c, const struct block_hist *h, int64_t slot, struct err *err)
{
	struct block_sum e = { .day = slot, .count = h->count };

	for (unsigned k = 0; k < SUM_KEYS; k++)
		e.key[k] = -1;
	e.key[SUM_KIND] = KIND_END;
	e.key[SUM_TOOL] = h->tool;
	if (c->classes)
		e.key[HIST_CLASS] = h->class;
	e.key[HIST_STEP] = h->step;
	return passes(c, words_of(&e), 0, W_COUNT) ? put_entry(c, &e, err) : 0;
}

/* Records of calls of a slot, however long they took. */
static int put_calls(struct cursor *c, const struct block_sum *one, int64_t slot, struct err *err)
{
	struct block_sum e = { .day = slot, .count = one->count, .dur_max = one->dur_max };

	for (unsigned k = 0; k < SUM_KEYS; k++)
		e.key[k] = -1;
	e.key[SUM_KIND] = one->key[SUM_KIND];
	e.key[SUM_TOOL] = one->key[SUM_TOOL];
	e.key[SUM_OUTCOME] = one->key[SUM_OUTCOME];
	return one->called && passes(c, words_of(&e), 0, W_COUNT) ? put_entry(c, &e, err) : 0;
}

/* --- records one by one */

/* What one says by itself; NULL is -1, also in n_req, which may be its begin's. */
static void read_record(struct db_stmt *st, struct block_sum *ret, int64_t *ret_beg)
{
	const int64_t ts = db_col_i64(st, 0);

	*ret = (struct block_sum){ .called = db_col_i64(st, 2), .count = 1, .timed = db_col_type(st, 4) != DB_NULL,
		.dur = db_col_i64(st, 4), .dur_max = db_col_i64(st, 4),
		.n_req = db_col_type(st, 5) == DB_NULL ? -1 : db_col_i64(st, 5), .n_res = db_col_i64(st, 6),
		.ts_min = ts, .ts_max = ts };
	ret->idx_min = ret->idx_max = db_col_i64(st, 1);
	block_sum_at(ret, ts);
	*ret_beg = db_col_type(st, 3) == DB_NULL ? -1 : db_col_i64(st, 3);
	for (unsigned k = 0; k < SUM_KEYS; k++)
		ret->key[k] = db_col_type(st, 7 + k) == DB_NULL ? -1 : db_col_i64(st, 7 + k);
}

/* Of one that may be a row. */
static int find_begin_row(struct cursor *c, int64_t idx, struct block_sum *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->f->db, SQL_FORMS_SUMS_RECORD);
	int64_t beg;
	int rc;

	db_bind_i64(st, 1, c->log);
	db_bind_i64(st, 2, idx);
	rc = db_step(st, err);
	if (rc == 1)
		read_record(st, ret, &beg);
	db_stmt_put(&st);
	return rc;
}

static int read_in_slot(const struct cursor *c, struct forms_slot *slot, int64_t first, int64_t i,
			struct block_sum *ret, struct err *err)
{
	return forms_slot_sum(slot, first, i, c->reads, c->numbers, ret, err);
}

static uint64_t columns_of(const struct cursor *c)
{
	uint64_t columns = BLOCK_COLUMN(COL_TS) | BLOCK_COLUMN(COL_KIND) | c->numbers;

	if (c->joined)
		columns |= BLOCK_COLUMN(COL_BEG);
	if (c->reads >> W_CALLED & 1)
		columns |= BLOCK_COLUMN(COL_CALL);
	for (unsigned k = 0; k < SUM_KEYS; k++)
		if (c->reads >> (W_KEY + k) & 1)
			columns |= BLOCK_COLUMN(block_sum_columns[k]);
	return columns;
}

static int read_at(const struct cursor *c, const struct forms_place *at, int64_t idx, struct block_sum *ret,
		   struct err *err)
{
	return read_in_slot(c, at->slot, at->first, idx - at->first, ret, err);
}

/* 1; 0: it is gone. */
static int find_begin(struct cursor *c, int64_t idx, struct block_sum *ret, struct err *err)
{
	int rc;

	if (idx >= c->line)
		return find_begin_row(c, idx, ret, err);
	rc = forms_place_find(c->f, c->log, c->sealed, idx, columns_of(c), &c->begin, err);
	return rc != 1 ? rc : read_at(c, &c->begin, idx, ret, err) < 0 ? ERR_CORRUPT : 1;
}

/* Adds what the begin at beg says; -1: there is none. */
static int join(struct cursor *c, struct block_sum *one, int64_t beg, struct err *err)
{
	struct block_sum begin;
	int rc = 0;

	if (!c->joined)
		return 0;
	if (beg >= 0 && c->slot && beg >= c->first && beg < c->first + c->cnt)
		rc = read_in_slot(c, c->slot, c->first, beg - c->first, &begin, err) < 0 ? ERR_CORRUPT : 1;
	else if (beg >= 0 && c->before && beg >= c->before_first && beg < c->before_first + c->before_cnt)
		rc = read_in_slot(c, c->before, c->before_first, beg - c->before_first, &begin, err) < 0 ? ERR_CORRUPT : 1;
	else if (beg >= 0)
		rc = find_begin(c, beg, &begin, err);
	if (rc < 0)
		return rc;
	block_sum_join(one->key, rc == 1 ? begin.key : NULL);
	if (rc == 1 && one->n_req < 0)
		one->n_req = begin.n_req;
	return 0;
}

static int count_call(struct cursor *c, const struct block_sum *one, struct err *err)
{
	const struct block_hist h = { .tool = one->key[SUM_TOOL], .class = block_class_of(one->key[SUM_OUTCOME]),
		.step = one->timed ? block_step_of((uint64_t)one->dur) : 0, .count = 1 };
	const int64_t slot = slot_of(c, one->ts_min);
	int rc = put_calls(c, one, slot, err);

	return rc == 0 && one->key[SUM_KIND] == KIND_END && one->called ? put_hist(c, &h, slot, err) : rc;
}

/* A record that is no begin, whose own keys have passed. */
static int count_record(struct cursor *c, struct block_sum *one, int64_t beg, struct err *err)
{
	int rc;

	if (c->hist)
		return count_call(c, one, err);
	rc = join(c, one, beg, err);
	one->n_req = one->n_req < 0 ? 0 : one->n_req;
	return rc == 0 && passes(c, words_of(one), 0, W_COUNT) ? put_entry(c, one, err) : rc;
}

static bool in_time(const struct cursor *c, int64_t ts)
{
	return ts >= c->since && ts < c->until;
}

/* --- blocks */

static const enum block_sum_key own[] = { SUM_KIND, SUM_OUTCOME, SUM_PRN, SUM_CRED, SUM_TOOL };     /* as zones count */
static const enum block_zone_column zone_of[] = { ZONE_KIND, ZONE_OUTCOME, ZONE_PRN, ZONE_CRED, ZONE_TOOL };

/* By the record alone; those of joined keys come later. */
static bool own_passes(const struct cursor *c, const struct block_sum *one)
{
	struct block_sum e = *one;

	for (size_t i = 0; i < NELEMS(own) && !c->hist; i++)
		if (!passes(c, words_of(&e), W_KEY + own[i], W_KEY + own[i] + 1))
			return false;
	return true;
}

static int may_have(struct cursor *c, struct db_stmt *st, unsigned col, int64_t cnt, struct forms_file *file,
		    struct err *err)
{
	bool may = true, asked = false;
	size_t len = 0;
	const void *p;
	int rc;

	for (unsigned i = 0; i < c->tests && !c->hist; i++)
		for (size_t k = 0; k < NELEMS(own); k++)
			asked = asked || c->test[i].word == W_KEY + own[k];
	if (!asked)
		return 1;
	p = db_col_blob(st, col, &len);
	if (!c->zones)
		c->zones = mem_zalloc(sizeof(*c->zones));
	rc = block_zones_read(p, len, cnt, c->zones, err);
	if (rc == 0)
		rc = forms_file_zones(file, c->zones, err);
	for (unsigned i = 0; i < c->tests && rc == 0 && may; i++) {
		const struct test *t = &c->test[i];

		for (size_t k = 0; k < NELEMS(own); k++) {
			if (t->word != W_KEY + own[k])
				continue;
			may = false;
			for (unsigned n = 0; n < t->n; n++)
				may = may || t->v[n] < 0 || block_zone_may_have(c->zones, zone_of[k], t->v[n]);
		}
	}
	return rc < 0 ? rc : may;
}

static int count_block(struct cursor *c, struct err *err)
{
	int rc = 0;

	for (int64_t i = 0; i < c->cnt && rc >= 0; i++) {
		struct block_sum one;
		int64_t ts = 0, kind = 0, beg = -1;

		rc = forms_slot_number(c->slot, COL_TS, i, &ts, err);
		if (rc >= 0)
			rc = forms_slot_number(c->slot, COL_KIND, i, &kind, err);
		if (rc < 0 || kind == KIND_BEGIN || !in_time(c, ts))
			continue;
		rc = read_in_slot(c, c->slot, c->first, i, &one, err);
		one.key[SUM_KIND] = kind;
		if (rc < 0 || !own_passes(c, &one))
			continue;
		rc = c->joined ? forms_slot_number(c->slot, COL_BEG, i, &beg, err) : 0;
		if (rc >= 0)
			rc = count_record(c, &one, rc == 1 ? beg : -1, err);
	}
	return rc < 0 ? rc : 0;
}

/* From where a block begins. */
static void ask_blocks(struct cursor *c, int64_t from, int64_t to, enum stage then)
{
	c->stage = then;
	if (from > to)
		return;
	forms_walk_over(&c->walk, from, to);
	c->stage = AT_BLOCKS;
	c->then = then;
}

static struct block_bytes bytes_of(struct db_stmt *st, unsigned col)
{
	struct block_bytes b = { 0 };

	b.p = db_col_blob(st, col, &b.len);
	return b;
}

/* The block that the statement is at. */
static int take_block(struct cursor *c, struct err *err)
{
	struct db_stmt *st = c->walk.st;
	struct block b = { .first = db_col_i64(st, 0), .cnt = db_col_i64(st, 1), .fmt = db_col_i64(st, 2),
		.ts_min = db_col_i64(st, 3), .ts_max = db_col_i64(st, 4) };
	int rc = 0;

	if (b.cnt < 1 || b.cnt > BLOCK_RECORDS_MAX || b.first < 0 || b.first >= c->line)
		return forms_bad(c->log, b.first, err_set(err, ERR_CORRUPT, "", "no block can be there"), err);
	if (c->at >= 0 && b.first != c->at)
		return forms_bad(c->log, b.first, err_set(err, ERR_CORRUPT, "", b.first < c->at
			? "it overlaps the one beside it" : "there is a gap beside it"), err);
	c->at = b.first + b.cnt;
	if (b.ts_max < c->since || b.ts_min >= c->until)
		return 0;
	rc = may_have(c, st, WALK_ZONE, b.cnt, c->walk.file, err);
	if (rc < 0)
		return forms_bad(c->log, b.first, rc, err);
	if (rc == 0)
		return 0;
	rc = forms_walk_bytes(&c->walk, &b, err);
	if (rc < 0)
		return forms_bad(c->log, b.first, rc, err);
	forms_slot_put(&c->before);
	c->before = c->slot;
	c->before_first = c->first;
	c->before_cnt = c->cnt;
	c->slot = NULL;
	c->first = b.first;
	c->cnt = b.cnt;
	rc = forms_slot_get(c->f, c->log, c->walk.file, &b, columns_of(c), &c->slot, err);
	return rc < 0 ? rc : count_block(c, err);
}

static int next_block(struct cursor *c, struct err *err)
{
	int rc = forms_walk_step(&c->walk, err);

	if (c->walk.jumped >= 0)
		c->at = c->walk.jumped;
	c->walk.jumped = -1;
	if (rc == 1) {
		rc = take_block(c, err);
		return c->walk.file ? forms_file_bad(c->walk.file, rc, err) : rc;
	}
	c->stage = c->then;
	return rc;
}

/* --- chapters */

/* A record that stands apart in its chapter, by itself.  1; 0: it is in a file that is not here. */
static int find_apart(struct cursor *c, int64_t idx, struct block_sum *ret, int64_t *ret_beg, struct err *err)
{
	const struct forms_place *at = &c->apart;
	int64_t kind = 0;
	int rc = forms_place_open(c->f, c->log, c->sealed, idx, columns_of(c), &c->apart, err);

	if (rc != 1)
		return rc;
	rc = read_at(c, at, idx, ret, err);
	if (rc >= 0)
		rc = forms_slot_number(at->slot, COL_KIND, idx - at->first, &kind, err);
	ret->key[SUM_KIND] = kind;
	*ret_beg = -1;
	if (rc >= 0 && c->joined)
		rc = forms_slot_number(at->slot, COL_BEG, idx - at->first, ret_beg, err);
	return rc < 0 ? rc : 1;
}

/* ts: of any record of the chapter. */
static int add_sums(struct cursor *c, const struct block_sums *sums, int64_t ts, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < sums->sums && rc == 0; i++) {
		if (c->hist)
			rc = put_calls(c, &sums->sum[i], slot_of_sum(c, sums->sum[i].day, ts), err);
		else if (passes(c, words_of(&sums->sum[i]), 0, W_COUNT))
			rc = put_entry(c, &sums->sum[i], err);
	}
	for (size_t i = 0; i < sums->hists && c->hist && rc == 0; i++)
		rc = put_hist(c, &sums->hist[i], slot_of_sum(c, sums->hist[i].day, ts), err);
	for (size_t i = 0; i < sums->aparts && rc == 0; i++) {
		struct block_sum one;
		int64_t beg = -1;

		rc = find_apart(c, sums->apart[i], &one, &beg, err);
		if (rc == 1)
			rc = own_passes(c, &one) ? count_record(c, &one, beg, err) : 0;
	}
	return rc;
}

/* 1: the chapter's sums were counted; 0: it has none. */
static int take_sums(struct cursor *c, int64_t first, int64_t cnt, int64_t ts, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->f->db, SQL_FORMS_CHAPTER_SUMS);
	struct block_sums sums = { .partial = true };
	struct block_bytes b;
	int rc;

	db_bind_i64(st, 1, c->log);
	db_bind_i64(st, 2, first);
	rc = db_step(st, err);
	if (rc == 1) {
		b = bytes_of(st, 0);
		rc = block_sums_read_some(b.p, b.len, first, cnt, c->takes, c->hist, &sums, err);
	}
	db_stmt_put(&st);
	if (rc == 0 && !sums.partial)
		rc = add_sums(c, &sums, ts, err) < 0 ? ERR_CORRUPT : 1;
	block_sums_fini(&sums);
	return rc;
}

static void ask_chapters(struct cursor *c, int64_t from)
{
	if (c->chapters)
		db_stmt_put(&c->chapters);
	c->chapters = db_stmt_get(c->f->db, SQL_FORMS_CHAPTERS_UP);
	db_bind_i64(c->chapters, 1, c->log);
	db_bind_i64(c->chapters, 2, from);
	db_bind_i64(c->chapters, 3, INT64_MAX);
}

/* 1: the book that begins at a chapter was counted, by its days or by its sums, which are without days and halves, and
 * the chapters behind it are next; 0: there is none that serves.  ts: of one of its records, whose slot it is in. */
static int take_book(struct cursor *c, int64_t first, int64_t ts, bool days, struct err *err)
{
	const int64_t slot = c->every > 0 ? c->since + slot_of(c, ts) * c->every : c->since;
	const bool cut = c->every > 0 && c->until - slot > c->every;
	const struct forms_book_ask ask = { .log = c->log, .first = first, .since = slot, .days = days,
		.until = cut ? slot + c->every : c->until, .words = c->takes, .hists = c->hist };
	struct forms_booked is = { .cnt = 0 };
	struct block_sums sums;
	int rc = forms_book_sums(c->f, &ask, &is, &sums, err);

	if (rc == 1 && first + is.cnt > c->line)
		rc = err_set(err, ERR_CORRUPT, "", "no book of log %" PRId64 " can be at %" PRId64, c->log, first);
	if (rc == 1) {
		rc = add_sums(c, &sums, is.ts, err) < 0 ? ERR_CORRUPT : 1;
		c->at = c->booked = first + is.cnt;
		ask_chapters(c, c->at);
	}
	block_sums_fini(&sums);
	return rc;
}

/* As take_book().  What days say is read of days, a page where sums are twenty. */
static int take_books(struct cursor *c, int64_t first, int64_t ts, struct err *err)
{
	const bool by_day = !c->hist && c->words & (UINT64_C(1) << W_DAY | UINT64_C(1) << W_NIGHT);
	int rc = !c->hist && !c->joined && !(c->words & ~BLOCK_DAYS_WORDS) ? take_book(c, first, ts, true, err) : 0;

	return rc != 0 || by_day ? rc : take_book(c, first, ts, false, err);
}

/* The chapter that the statement is at: its sums, or its blocks. */
static int take_chapter(struct cursor *c, struct err *err)
{
	struct db_stmt *st = c->chapters;
	const int64_t first = db_col_i64(st, 0), cnt = db_col_i64(st, 1);
	const int64_t ts_min = db_col_i64(st, 2), ts_max = db_col_i64(st, 3);
	int rc;

	c->stage = AT_CHAPTERS;
	if (c->at >= 0 && c->at != first)
		return forms_bad(c->log, c->at, err_set(err, ERR_CORRUPT, "", "the next block is missing"), err);
	rc = ts_max < c->since || ts_min >= c->until ? 0 : may_have(c, st, 4, cnt, NULL, err);
	if (rc == 1 && ts_min >= c->since && ts_max < c->until) {
		const int took = take_books(c, first, ts_min, err);

		if (took != 0)
			return took < 0 ? took : 0;
	}
	if (rc == 1 && ts_min >= c->since && ts_max < c->until && (by_days(c) || slot_of(c, ts_min) == slot_of(c, ts_max))) {
		rc = take_sums(c, first, cnt, ts_min, err);
		rc = rc == 0 || rc == 1 ? !rc : rc;
	}
	if (rc < 0)
		return err_wrap(err, "chapter %" PRId64 " of log %" PRId64, first, c->log);
	if (rc == 1) {
		c->at = first;
		ask_blocks(c, first, first + cnt - 1, AT_CHAPTERS);
	} else {
		c->at = first + cnt;
	}
	return 0;
}

static int next_chapter(struct cursor *c, struct err *err)
{
	int rc = db_step(c->chapters, err);
	int64_t first, cnt;

	if (rc < 0)
		return rc;
	if (rc == 0) {
		db_stmt_put(&c->chapters);
		ask_blocks(c, c->at < 0 ? 0 : c->at, c->line - 1, AT_ROWS);
		return 0;
	}
	first = db_col_i64(c->chapters, 0);
	cnt = db_col_i64(c->chapters, 1);
	if (first < c->booked && first + cnt <= c->booked)      /* the last one of the book */
		return 0;
	if (first < 0 || cnt < 1 || cnt > BLOCK_CHAPTER_MAX || first + cnt > c->line || (c->at >= 0 && first < c->at))
		return err_set(err, ERR_CORRUPT, "", "no chapter of log %" PRId64 " can be at %" PRId64, c->log, first);
	/* blocks before it are in none; the first chapter may have some that are left of one that was pruned */
	ask_blocks(c, c->at < 0 ? 0 : c->at, first - 1, AT_CHAPTER);
	return 0;
}

/* --- rows */

static void ask_rows(struct cursor *c)
{
	struct db *db = c->f->db;
	const struct test *prn = NULL, *cred = NULL, *kind = NULL;
	const bool all = c->line == INT64_MIN;          /* no blocks: all of the log are rows, and have indexes */
	enum sql_id id = all ? SQL_FORMS_SUMS_TIMES : SQL_FORMS_SUMS_TAIL;

	for (unsigned i = 0; i < c->tests && all && !c->hist; i++) {
		const struct test *t = &c->test[i];

		if (t->n != 1 || t->v[0] < 0)
			continue;
		prn = t->word == W_KEY + SUM_PRN ? t : prn;
		cred = t->word == W_KEY + SUM_CRED ? t : cred;
		kind = t->word == W_KEY + SUM_KIND && t->v[0] != KIND_END && t->v[0] != KIND_BEGIN ? t : kind;
	}
	id = cred ? SQL_FORMS_SUMS_CRED : prn ? SQL_FORMS_SUMS_PRN : kind ? SQL_FORMS_SUMS_KIND : id;
	c->rows = db_stmt_get(db, id);
	db_bind_i64(c->rows, 1, c->log);
	db_bind_i64(c->rows, 2, c->since);
	db_bind_i64(c->rows, 3, c->until);
	if (cred || prn || kind)
		db_bind_i64(c->rows, 4, (cred ? cred : prn ? prn : kind)->v[0]);
	else if (!all)
		db_bind_i64(c->rows, 4, c->line);
	c->stage = AT_ROWS;
}

static int next_row(struct cursor *c, struct err *err)
{
	struct db_stmt *row;
	struct block_sum one;
	int64_t beg = -1;
	int rc;

	if (!c->rows)
		ask_rows(c);
	rc = db_step(c->rows, err);
	if (rc != 1) {
		db_stmt_put(&c->rows);
		c->stage = AT_END;
		return rc;
	}
	row = db_stmt_get(c->f->db, SQL_FORMS_SUMS_ROW);
	db_bind_i64(row, 1, db_col_i64(c->rows, 0));
	rc = db_step(row, err);
	if (rc == 1)
		read_record(row, &one, &beg);
	db_stmt_put(&row);
	if (rc != 1 || !in_time(c, one.ts_min) || !own_passes(c, &one))
		return rc < 0 ? rc : 0;
	return count_record(c, &one, beg, err);
}

/* --- the cursor */

static void *open_cursor(void *f, bool hist)
{
	struct cursor *c = mem_zalloc(sizeof(*c));

	c->f = f;
	c->hist = hist;
	c->stage = AT_END;
	c->table = map_new();
	return c;
}

static void *rollup_open(void *arg)
{
	return open_cursor(arg, false);
}

static void *hist_open(void *arg)
{
	return open_cursor(arg, true);
}

static void leave(struct cursor *c)
{
	struct db_stmt **of[] = { &c->chapters, &c->rows };

	for (size_t i = 0; i < NELEMS(of); i++)
		if (*of[i])
			db_stmt_put(of[i]);
	forms_walk_end(&c->walk);
	forms_slot_put(&c->slot);
	forms_slot_put(&c->before);
	forms_slot_put(&c->apart.slot);
	forms_slot_put(&c->begin.slot);
	c->stage = AT_END;
}

static void rollup_close(void *cursor)
{
	struct cursor *c = cursor;

	leave(c);
	map_free(&c->table);
	free(c->zones);
	free(c->v);
	free(c->by);
	free(c);
}

/* Counts on until there is enough to hand on. */
static int count_on(struct cursor *c, struct err *err)
{
	int rc = 0;

	map_free(&c->table);
	c->table = map_new();
	memset(c->near, 0, sizeof(c->near));
	c->n = c->next = 0;
	while (rc == 0 && c->stage != AT_END && c->n < ENTRIES_MAX) {
		if (c->stage == AT_CHAPTERS)
			rc = next_chapter(c, err);
		else if (c->stage == AT_CHAPTER)
			rc = take_chapter(c, err);
		else if (c->stage == AT_BLOCKS)
			rc = next_block(c, err);
		else
			rc = next_row(c, err);
	}
	if (rc < 0)
		leave(c);
	return rc < 0 ? rc : c->n > 0;
}

static int rollup_next(void *cursor, struct err *err)
{
	struct cursor *c = cursor;

	return ++c->next < c->n ? 1 : count_on(c, err);
}

/* --- what is asked */

static const struct { const char *name; unsigned word; } names[] = {   /* in by, as reports call them */
	{ "client", W_KEY + SUM_CLIENT }, { "obo", W_KEY + SUM_OBO }, { "tool", W_KEY + SUM_TOOL },
	{ "principal", W_KEY + SUM_PRN }, { "key", W_KEY + SUM_CRED }, { "outcome", W_KEY + SUM_OUTCOME },
	{ "transport", W_KEY + SUM_TPORT }, { "revision", W_KEY + SUM_REV }, { "rule", W_KEY + SUM_RULE }, { "day", W_DAY },
};

static uint64_t words_by(const char *by)
{
	uint64_t words = 0;

	for (size_t i = 0; i < NELEMS(names); i++) {
		char *word = mem_printf(",%s,", names[i].name);

		if (strstr(by, word))
			words |= UINT64_C(1) << names[i].word;
		free(word);
	}
	return words;
}

/* A column that says what must be, of those that are asked; false: it says nothing. */
static bool test_of(const struct cursor *c, const struct db_vtab_given *g, struct test *ret)
{
	static const unsigned of[R_ASKED] = { [R_OF_TOOL] = W_KEY + SUM_TOOL, [R_OF_PRN] = W_KEY + SUM_PRN,
		[R_OF_CRED] = W_KEY + SUM_CRED, [R_OF_OUTCOME] = W_KEY + SUM_OUTCOME };
	const bool tool = c->hist && g->col == H_OF_TOOL;

	if ((c->hist && !tool) || g->n > VALUES_MAX)
		return false;
	*ret = (struct test){ .word = tool ? W_KEY + SUM_TOOL : g->col < R_ASKED ? of[g->col] : g->col - R_ASKED };
	if (!tool && g->col < R_ASKED && !of[g->col])
		return false;
	for (unsigned i = 0; i < g->n; i++)
		if (g->value[i].type == DB_INT)
			ret->v[ret->n++] = g->value[i].n;
	/* what must be none in particular may be any */
	return !(g->col < R_ASKED && ret->n == 1 && ret->v[0] == -1);
}

static void take_term(struct cursor *c, const struct db_vtab_given *g)
{
	struct test t;

	if (g->col <= R_UNTIL)
		c->said |= 1u << g->col;
	if (g->col < (c->hist ? H_ASKED : R_ASKED))
		c->given[g->col] = *g->value;
	if (!c->hist && g->col == R_BY && g->value->type == DB_TEXT) {
		c->by = mem_strndup(g->value->p, g->value->len);
		c->given[R_BY].p = c->by;
	}
	if (test_of(c, g, &t)) {
		c->words |= UINT64_C(1) << t.word;
		c->test[c->tests++] = t;
	}
}

/* As for rollup, of those that there are.  Steps always, since an entry without one is of another sort. */
static uint64_t hist_words(uint64_t tested, uint64_t columns)
{
	static const unsigned word[] = { [H_SLOT] = W_SLOT, [H_TOOL] = W_KEY + SUM_TOOL, [H_KIND] = W_KEY + SUM_KIND,
		[H_OUTCOME] = W_KEY + SUM_OUTCOME, [H_CLASS] = W_KEY + HIST_CLASS, [H_STEP] = W_KEY + HIST_STEP };

	for (unsigned col = H_SLOT; col < NELEMS(word); col++)
		if (columns >> col & 1 || col == H_STEP)
			tested |= UINT64_C(1) << word[col];
	return tested;
}

static void read_ask(struct cursor *c, const struct db_vtab_ask *ask)
{
	static const unsigned joined[] = { SUM_AUTHN, SUM_TPORT, SUM_OBO, SUM_PEER, SUM_CLIENT, SUM_REV, SUM_TDEF, SUM_RULE,
		SUM_SBOX };
	const uint64_t keys = (UINT64_C(1) << W_COUNT) - 1;

	free(c->by);
	c->by = NULL;
	memset(c->given, 0, sizeof(c->given));
	for (unsigned i = 0; i < R_ASKED; i++)
		c->given[i] = (struct db_value){ .type = DB_NULL };
	c->tests = c->said = 0;
	c->words = c->numbers = 0;
	for (unsigned i = 0; i < ask->terms; i++)
		take_term(c, &ask->term[i]);
	c->log = c->given[R_LOG].n;
	c->since = c->given[R_SINCE].n;
	c->until = c->given[R_UNTIL].n;
	c->every = c->hist && c->given[H_EVERY].type == DB_INT ? c->given[H_EVERY].n : 0;
	c->classes = c->hist && ask->columns >> H_CLASS & 1;
	if (c->hist)
		c->words = hist_words(c->words, ask->columns);
	else
		c->words |= c->by ? words_by(c->by) : ask->columns >> R_ASKED & keys;
	c->reads = c->words;
	if (c->hist)
		c->reads = UINT64_C(1) << W_CALLED | UINT64_C(1) << (W_KEY + SUM_TOOL) | UINT64_C(1) << (W_KEY + SUM_OUTCOME);
	c->joined = !c->hist && ask->columns >> (R_ASKED + W_N_REQ) & 1;
	for (size_t i = 0; i < NELEMS(joined); i++)
		c->joined = c->joined || (!c->hist && c->words >> (W_KEY + joined[i]) & 1);
	if (c->hist || ask->columns >> (R_ASKED + W_COUNT + 1) & 7)
		c->numbers |= BLOCK_COLUMN(COL_DUR);
	if (!c->hist && ask->columns >> (R_ASKED + W_N_REQ) & 1)
		c->numbers |= BLOCK_COLUMN(COL_N_REQ);
	if (!c->hist && ask->columns >> (R_ASKED + W_N_REQ + 1) & 1)
		c->numbers |= BLOCK_COLUMN(COL_N_RES);
	c->takes = c->words | (ask->columns >> R_ASKED & ~keys);
	if (c->hist)
		c->takes = c->reads | UINT64_C(1) << (W_KEY + SUM_KIND) | UINT64_C(1) << W_DUR_MAX |
			(uint64_t)by_days(c) << W_DAY;
}

static int rollup_filter(void *cursor, const struct db_vtab_ask *ask, struct err *err)
{
	struct cursor *c = cursor;
	int rc;

	leave(c);
	read_ask(c, ask);
	c->n = 0;
	if (c->said != MUST)
		return err_set(err, ERR_INTERNAL, "", "sums are asked for without log, since and until");
	for (unsigned i = R_LOG; i <= R_UNTIL; i++)
		if (c->given[i].type != DB_INT)
			return 0;               /* as with NULL nothing compares */
	for (unsigned i = 0; i < c->tests; i++)
		if (c->test[i].n == 0)
			return 0;
	c->line = INT64_MIN;
	c->sealed = 0;
	rc = forms_seen(c->f->db) ? forms_line(c->f->db, c->log, &c->line, err) : 0;
	if (rc == 0 && c->line != INT64_MIN)
		rc = forms_sealed(c->f->db, c->log, &c->sealed, err);
	if (rc < 0)
		return rc;
	c->at = c->booked = -1;
	c->stage = AT_ROWS;
	if (c->line != INT64_MIN) {
		ask_chapters(c, 0);
		c->stage = AT_CHAPTERS;
		forms_walk_begin(&c->walk, c->f, c->log, c->sealed, false);
	}
	return count_on(c, err);
}

static int rollup_column(void *cursor, unsigned col, struct db_value *ret, struct err *err)
{
	struct cursor *c = cursor;
	const int64_t *word = words_of(&c->v[c->next]);
	const unsigned w = col - R_ASKED;

	if (col < R_ASKED) {
		*ret = c->given[col];
	} else if (w >= W_COUNT || ((c->words >> w & 1) && word[w] >= 0)) {
		ret->type = DB_INT;
		ret->n = word[w];
	}
	return 0;
}

static int hist_column(void *cursor, unsigned col, struct db_value *ret, struct err *err)
{
	struct cursor *c = cursor;
	const struct block_sum *e = &c->v[c->next];
	const bool timed = e->key[HIST_STEP] >= 0;
	const int64_t of[] = { [H_SLOT] = e->day, [H_TOOL] = e->key[SUM_TOOL], [H_KIND] = e->key[SUM_KIND],
		[H_OUTCOME] = timed ? -1 : e->key[SUM_OUTCOME], [H_CLASS] = timed ? e->key[HIST_CLASS] : -1,
		[H_STEP] = e->key[HIST_STEP], [H_N] = e->count, [H_DUR_MAX] = timed ? -1 : e->dur_max };

	if (col < H_ASKED) {
		*ret = c->given[col];
		return 0;
	}
	ret->n = of[col];
	if (ret->n >= 0)
		ret->type = DB_INT;
	return 0;
}

static int64_t rollup_id(const void *cursor)
{
	const struct cursor *c = cursor;

	return (int64_t)c->next;
}

/* What is asked has to come by value; which keys may be is of use. */
static void rollup_plan(void *arg, struct db_vtab_plan *plan)
{
	(void)arg;
	db_vtab_plan_given(plan, R_UNTIL + 1, R_ASKED, R_ASKED + W_COUNT, 1e5);
}

static void hist_plan(void *arg, struct db_vtab_plan *plan)
{
	(void)arg;
	db_vtab_plan_given(plan, H_UNTIL + 1, H_ASKED, H_ASKED, 1e5);
}

#define KEY_NAME(col) #col " INTEGER, "
static const struct db_vtab rollup_table = {
	.name = "rollup",
	.columns = "log INTEGER, since INTEGER, until INTEGER, \"by\" TEXT, of_tool INTEGER, of_prn INTEGER, of_cred INTEGER, "
		"of_outcome INTEGER, day INTEGER, night INTEGER, called INTEGER, "
		BLOCK_SUM_KEYS(KEY_NAME)
		"n INTEGER, timed INTEGER, dur INTEGER, dur_max INTEGER, n_req INTEGER, n_res INTEGER, "
		"idx_min INTEGER, idx_max INTEGER, ts_min INTEGER, ts_max INTEGER",
	.plan = rollup_plan, .open = rollup_open, .filter = rollup_filter, .next = rollup_next, .column = rollup_column,
	.id = rollup_id, .close = rollup_close,
};

static const struct db_vtab hist_table = {
	.name = "rollup_hist",
	.columns = "log INTEGER, since INTEGER, until INTEGER, of_tool INTEGER, every INTEGER, slot INTEGER, tool INTEGER, "
		"kind INTEGER, outcome INTEGER, class INTEGER, step INTEGER, n INTEGER, dur_max INTEGER",
	.plan = hist_plan, .open = hist_open, .filter = rollup_filter, .next = rollup_next, .column = hist_column,
	.id = rollup_id, .close = rollup_close, .free = forms_free,
};

int forms_see_sums(struct db *db, struct forms_absent *absent, struct err *err)
{
	struct forms *f;
	int rc;

	if (db_vtab_has(db, rollup_table.name) || !db_vtab_can(db))
		return 0;
	f = forms_new(db, absent);
	rc = db_vtab_make(db, &rollup_table, f, err);
	if (rc < 0) {
		forms_free(f);
		return rc;
	}
	rc = db_vtab_make(db, &forms_parts, f, err);
	rc = rc < 0 ? rc : db_vtab_make(db, &forms_meets, f, err);
	return rc < 0 ? rc : db_vtab_make(db, &hist_table, f, err);     /* which frees it */
}
