/* Chapters of a sealed file (bundle/seal.h): as those of blocks of a store (audit/fold.h), with ids of the store, made
 * of the file's own blocks, so that they end where it does, while these are verified.  Any thread with a reader. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "block/zone.h"
#include "bundle/seal.h"
#include "db/db.h"
#include "forms/forms.h"

#include "bundle_int.h"

/* Each has at most 64 times as many records as a block can have, and lies at a multiple of that. */
struct bundle_chapters {
	struct forms *forms;
	const char *path;
	struct forms_file *ids;         /* of the file, once it is open */
	int rc;                         /* of the first block that could not be counted: no other is */
	struct err err;
	struct audit_sealed *sealed;
	struct audit_sealed_chapter *at;        /* NULL: none has begun */
	struct block_zoner *zoner;
	struct block_summer *summer;
};

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static void end_chapter(struct bundle_chapters *s)
{
	struct audit_sealed *to = s->sealed;

	if (!s->at)
		return;
	block_zoner_end(s->zoner, &s->at->zone);
	block_summer_end(s->summer, &s->at->sums);
	to->ts_min = to->chapters == 1 ? s->at->ts_min : smaller(to->ts_min, s->at->ts_min);
	to->ts_max = larger(to->ts_max, s->at->ts_max);
	s->at = NULL;
}

static void begin_chapter(struct bundle_chapters *s, const struct block *b)
{
	struct audit_sealed *to = s->sealed;

	to->chapter = mem_realloc(to->chapter, (to->chapters + 1) * sizeof(*to->chapter));
	s->at = &to->chapter[to->chapters++];
	*s->at = (struct audit_sealed_chapter){ .first = b->first, .ts_min = b->ts_min, .ts_max = b->ts_max };
}

static void count_block(struct bundle_chapters *s, struct block_reader *reader, const struct block *b)
{
	if (s->at && b->first / BLOCK_CHAPTER_MAX != s->at->first / BLOCK_CHAPTER_MAX)
		end_chapter(s);
	if (!s->at)
		begin_chapter(s, b);
	block_zoner_add_block(s->zoner, reader);
	block_summer_add(s->summer, reader);
	s->at->cnt += b->cnt;
	s->at->ts_min = smaller(s->at->ts_min, b->ts_min);
	s->at->ts_max = larger(s->at->ts_max, b->ts_max);
}

struct bundle_chapters *bundle_chapters_new(struct db *db, const char *path, struct audit_sealed *sealed)
{
	struct bundle_chapters *s = mem_zalloc(sizeof(*s));

	s->forms = forms_new(db, NULL);
	s->path = path;
	s->sealed = sealed;
	s->zoner = block_zoner_new();
	s->summer = block_summer_new();
	return s;
}

void bundle_chapters_add(struct bundle_chapters *s, struct segment *segment, struct block_reader *reader,
			 const struct block *b)
{
	if (!s->ids)
		s->ids = forms_file_over(s->forms, segment, s->path);
	if (s->rc == 0)
		s->rc = block_turn(reader, forms_file_id, s->ids, &s->err);
	if (s->rc == 0)
		count_block(s, reader, b);
}

int bundle_chapters_end(struct bundle_chapters **sp, struct err *err)
{
	struct bundle_chapters *s = *sp;
	const int rc = s->rc;

	*sp = NULL;
	end_chapter(s);
	if (rc < 0) {
		*err = s->err;
		err_wrap(err, "the sealed file %s", s->path);
	}
	block_zoner_free(&s->zoner);
	block_summer_free(&s->summer);
	forms_file_drop(&s->ids);
	forms_free(s->forms);
	free(s);
	return rc;
}

void audit_sealed_fini(struct audit_sealed *s)
{
	for (size_t i = 0; i < s->chapters; i++) {
		free(s->chapter[i].zone.p);
		free(s->chapter[i].sums.p);
	}
	free(s->chapter);
	s->chapter = NULL;
	s->chapters = 0;
}

static int clear(struct db *db, enum sql_id sql, const struct audit_sealed *s, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, sql);

	db_bind_i64(st, 1, s->log);
	db_bind_i64(st, 2, s->from);
	db_bind_i64(st, 3, s->to);
	return db_run(&st, err);
}

int audit_seal_put_chapters(struct db *db, const struct audit_sealed *s, struct err *err)
{
	struct db_stmt *st;
	int rc = clear(db, SQL_SEAL_DELETE_BOOKS, s, err);

	if (rc == 0)
		rc = clear(db, SQL_SEAL_DELETE_CHAPTERS, s, err);
	for (size_t i = 0; rc == 0 && i < s->chapters; i++) {
		const struct audit_sealed_chapter *c = &s->chapter[i];
		const int64_t number[] = { s->log, c->first, c->cnt, c->ts_min, c->ts_max };

		st = db_stmt_get(db, SQL_SEAL_PUT_CHAPTER);
		for (unsigned k = 0; k < NELEMS(number); k++)
			db_bind_i64(st, 1 + k, number[k]);
		db_bind_blob(st, 6, c->zone.p, c->zone.len);
		db_bind_blob(st, 7, c->sums.p, c->sums.len);
		rc = db_run(&st, err);
	}
	return rc;
}

/* --- whether those of the store are the same */

static struct block_bytes bytes_of(struct db_stmt *st, unsigned col)
{
	struct block_bytes b = { 0 };

	b.p = db_col_blob(st, col, &b.len);
	return b;
}

static bool is_it(struct db_stmt *st, const struct audit_sealed_chapter *c)
{
	const struct block_bytes zone = bytes_of(st, 4), sums = { c->sums.p, c->sums.len };
	struct err why;

	return db_col_i64(st, 0) == c->first && db_col_i64(st, 1) == c->cnt && db_col_i64(st, 2) == c->ts_min &&
		db_col_i64(st, 3) == c->ts_max && zone.len == c->zone.len && memcmp(zone.p, c->zone.p, zone.len) == 0 &&
		block_sums_same(sums, bytes_of(st, 5), c->first, c->cnt, &why);
}

int audit_seal_chapters_same(struct db *db, const struct audit_sealed *made, bool *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SEAL_LIST_CHAPTERS);
	size_t n = 0;
	int rc;

	*ret = true;
	db_bind_i64(st, 1, made->log);
	db_bind_i64(st, 2, made->from);
	db_bind_i64(st, 3, made->to);
	while ((rc = db_step(st, err)) == 1 && *ret) {
		*ret = n < made->chapters && is_it(st, &made->chapter[n]);
		n++;
	}
	*ret = *ret && n == made->chapters;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}
