/* Where several ids meet, for table "meets" (forms.c): of chapters in which each of them is, the sums say whether
 * one record has all.  One log at a time, the newest first.  Any thread with a reader. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "forms/forms.h"

#include "forms_int.h"

/* --- records at places */

static int missing(int64_t log, int64_t idx, struct err *err)
{
	return err_set(err, ERR_CORRUPT, "", "the block of record %" PRId64 " of log %" PRId64 " is missing", idx, log);
}

enum { NOWHERE = 2 };

/* As forms_place_open(); NOWHERE: it lies before all blocks. */
static int open_place(struct forms *f, int64_t log, int64_t sealed, int64_t idx, uint64_t columns,
		      struct forms_place *at, struct err *err)
{
	struct forms_walk w = { .f = NULL };
	struct block b = { 0 };
	int rc;

	if (at->slot && idx >= at->first && idx < at->first + at->cnt)
		return 1;
	forms_slot_put(&at->slot);
	forms_walk_begin(&w, f, log, sealed, false);
	forms_walk_over(&w, idx, idx);
	rc = forms_walk_step(&w, err);
	if (rc == 1) {
		b = (struct block){ .first = db_col_i64(w.st, 0), .cnt = db_col_i64(w.st, 1), .fmt = db_col_i64(w.st, 2),
			.ts_min = db_col_i64(w.st, 3), .ts_max = db_col_i64(w.st, 4) };
		rc = forms_walk_bytes(&w, &b, err);
		if (rc == 0)
			rc = forms_slot_get(f, log, w.file, &b, columns, &at->slot, err);
		rc = rc < 0 ? rc : 1;
	} else if (rc == 0 && w.jumped < 0) {
		rc = NOWHERE;
	}
	at->first = b.first;
	at->cnt = b.cnt;
	forms_walk_end(&w);
	return rc == 1 && (idx < at->first || idx - at->first >= at->cnt) ? missing(log, idx, err) : rc;
}

int forms_place_open(struct forms *f, int64_t log, int64_t sealed, int64_t idx, uint64_t columns,
		     struct forms_place *at, struct err *err)
{
	const int rc = open_place(f, log, sealed, idx, columns, at, err);

	return rc == NOWHERE ? missing(log, idx, err) : rc;
}

int forms_place_find(struct forms *f, int64_t log, int64_t sealed, int64_t idx, uint64_t columns,
		     struct forms_place *at, struct err *err)
{
	const int rc = open_place(f, log, sealed, idx, columns, at, err);

	return rc == NOWHERE ? 0 : rc;
}

/* --- what sums say */

static bool is_asked(const struct forms_meet *m, unsigned k)
{
	return m->asked->keys >> k & 1;
}

static bool entry_has(const struct forms_meet *m, const struct block_sum *e)
{
	for (unsigned k = 0; k < SUM_KEYS; k++)
		if (is_asked(m, k) && e->key[k] != m->asked->is[k])
			return false;
	return true;
}

/* A record that is in no entry, since its begin is of before. */
static int apart_has(struct forms_meet *m, int64_t idx, struct err *err)
{
	uint64_t columns = 0;
	int rc;

	for (unsigned k = 0; k < SUM_KEYS; k++)
		columns |= is_asked(m, k) ? BLOCK_COLUMN(block_sum_columns[k]) : 0;
	rc = forms_place_open(m->f, m->asked->log, m->sealed, idx, columns, &m->at, err);
	for (unsigned k = 0; k < SUM_KEYS && rc == 1; k++) {
		int64_t v = 0;

		if (!is_asked(m, k))
			continue;
		rc = forms_slot_number(m->at.slot, block_sum_columns[k], idx - m->at.first, &v, err);
		rc = rc == 1 ? v == m->asked->is[k] : rc;
	}
	return rc;
}

static int sums_have(struct forms_meet *m, const struct block_sums *sums, struct err *err)
{
	int rc = sums->partial;

	for (size_t i = 0; i < sums->sums && rc == 0; i++)
		rc = entry_has(m, &sums->sum[i]);
	for (size_t i = 0; i < sums->aparts && rc == 0; i++)
		rc = apart_has(m, sums->apart[i], err);
	return rc;
}

/* Of an entry: what is asked, and its count, without which it is none. */
static uint64_t words_of(const struct forms_meet *m)
{
	return (uint64_t)m->asked->keys << SUM_WORD_KEY | UINT64_C(1) << (SUM_WORD_KEY + SUM_KEYS);
}

static struct block_bytes bytes_of(struct db_stmt *st, unsigned col)
{
	struct block_bytes b = { 0 };

	b.p = db_col_blob(st, col, &b.len);
	return b;
}

/* Of the book around a chapter; where there is none, any may. */
static int book_may(struct forms_meet *m, int64_t first, int64_t cnt, struct err *err)
{
	struct db_stmt *st;
	struct block_sums sums = { .partial = true };
	int64_t from = 0, n = 0;
	int rc;

	if (first >= m->book && first < m->book_end)
		return m->book_may;
	st = db_stmt_get(m->f->db, SQL_FORMS_BOOK_AROUND);
	db_bind_i64(st, 1, m->asked->log);
	db_bind_i64(st, 2, first);
	rc = db_step(st, err);
	if (rc == 1) {
		const struct block_bytes b = bytes_of(st, 2);

		from = db_col_i64(st, 0);
		n = db_col_i64(st, 1);
		rc = 0;
		if (from >= 0 && n > 0 && n <= BLOCK_BOOK_MAX && first - from <= n - cnt)
			rc = block_book_read_some(b.p, b.len, from, n, words_of(m), false, &sums, err);
		else
			n = 0;          /* it ends before */
	}
	db_stmt_put(&st);
	if (rc == 0)
		rc = sums_have(m, &sums, err);
	block_sums_fini(&sums);
	if (rc < 0)
		return err_wrap(err, "book %" PRId64 " of log %" PRId64, from, m->asked->log);
	m->book = from;
	m->book_end = from + n;
	m->book_may = rc == 1;
	return rc;
}

static int chapter_may(struct forms_meet *m, int64_t first, int64_t cnt, struct err *err)
{
	struct db_stmt *st = db_stmt_get(m->f->db, SQL_FORMS_CHAPTER_SUMS);
	struct block_sums sums = { .partial = true };
	int rc;

	db_bind_i64(st, 1, m->asked->log);
	db_bind_i64(st, 2, first);
	rc = db_step(st, err);
	if (rc == 1) {
		const struct block_bytes b = bytes_of(st, 0);

		rc = block_sums_read_some(b.p, b.len, first, cnt, words_of(m), false, &sums, err);
	}
	db_stmt_put(&st);
	if (rc == 0)
		rc = sums_have(m, &sums, err);
	block_sums_fini(&sums);
	return rc < 0 ? err_wrap(err, "chapter %" PRId64 " of log %" PRId64, first, m->asked->log) : rc;
}

int forms_meet_may(struct forms_meet *m, int64_t first, int64_t cnt, struct err *err)
{
	int rc = book_may(m, first, cnt, err);

	return rc == 1 ? chapter_may(m, first, cnt, err) : rc;
}
