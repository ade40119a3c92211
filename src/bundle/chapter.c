/* Chapters (bundle/chapter.h): what the next blocks of a log come to, by a thread that reads; put by the writer beside
 * its other work.  Derived from blocks alone, so that nothing of it can be lost, and counted anew by the verifier. */

#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "block/block.h"
#include "block/zone.h"
#include "bundle/chapter.h"
#include "db/db.h"

_Static_assert((int)BUNDLE_CHAPTER_BLOCKS == (int)BLOCK_CHAPTER_BLOCKS, "one number");

struct chapter {
	struct bundle_chapter face;
	int64_t ts_min, ts_max;
	struct audit_bytes zone, sums;
};

struct making {
	struct chapter *c;
	struct block_reader *reader;
	struct block_zoner *zoner;
	struct block_summer *summer;
	struct block_zones *zones;
};

void bundle_chapter_free(struct bundle_chapter **cp)
{
	struct chapter *c = (struct chapter *)*cp;

	if (!c)
		return;
	*cp = NULL;
	free(c->zone.p);
	free(c->sums.p);
	free(c);
}

static struct block_bytes bytes_of(struct db_stmt *st, unsigned col)
{
	struct block_bytes b = { 0 };

	b.p = db_col_blob(st, col, &b.len);
	return b;
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

static int add_blocks(struct making *m, struct db *db, unsigned blocks, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FOLD_LIST_CHAPTER);
	int rc;

	db_bind_i64(st, 1, m->c->face.log);
	db_bind_i64(st, 2, blocks);
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

/* 1: there are as many blocks that are in no chapter. */
static int are_there(struct db *db, int64_t log, unsigned blocks, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FOLD_COUNT_LOOSE);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, blocks);
	rc = db_step(st, err);
	if (rc == 1)
		rc = db_col_i64(st, 0) == blocks;
	db_stmt_put(&st);
	return rc;
}

static int make(struct db *db, int64_t log, unsigned blocks, struct bundle_chapter **ret, struct err *err)
{
	struct chapter *c = mem_zalloc(sizeof(*c));
	struct making m = { .c = c, .reader = block_reader_new(NULL), .zoner = block_zoner_new(),
		.summer = block_summer_new(), .zones = mem_zalloc(sizeof(*m.zones)) };
	struct bundle_chapter *face = &c->face;
	int rc;

	c->face.log = log;
	rc = add_blocks(&m, db, blocks, err);
	if (rc == 0) {
		block_zoner_end(m.zoner, &c->zone);
		block_summer_end(m.summer, &c->sums);
		*ret = face;
		rc = 1;
	} else {
		bundle_chapter_free(&face);
	}
	block_reader_free(&m.reader);
	block_zoner_free(&m.zoner);
	block_summer_free(&m.summer);
	free(m.zones);
	return rc;
}

int bundle_chapter_next(struct db *db, int64_t log, unsigned blocks, struct bundle_chapter **ret, struct err *err)
{
	int rc = db_txn_begin(db, false, err);

	if (rc < 0)
		return rc;
	rc = are_there(db, log, blocks, err);
	if (rc == 1)
		rc = make(db, log, blocks, ret, err);
	return db_txn_end(db, rc, err);
}

int bundle_chapter_put(struct db *db, const struct bundle_chapter *chapter, struct err *err)
{
	const struct chapter *c = (const struct chapter *)chapter;
	struct db_stmt *st = db_stmt_get(db, SQL_FOLD_PUT_CHAPTER);
	int rc;

	db_bind_i64(st, 1, chapter->log);
	db_bind_i64(st, 2, chapter->first);
	db_bind_i64(st, 3, chapter->cnt);
	db_bind_i64(st, 4, c->ts_min);
	db_bind_i64(st, 5, c->ts_max);
	db_bind_blob(st, 6, c->zone.p, c->zone.len);
	db_bind_blob(st, 7, c->sums.p, c->sums.len);
	rc = db_run(&st, err);
	if (rc == 0 && db_changes(db) == 0)
		rc = err_set(err, ERR_CONFLICT, "", "a block of log %" PRId64 " was made of what has changed since", chapter->log);
	return rc;
}
