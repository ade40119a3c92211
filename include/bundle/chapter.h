#ifndef BUNDLE_CHAPTER_H
#define BUNDLE_CHAPTER_H

#include <stdint.h>

#include "base/err.h"

struct db;

/* 64 blocks that were put get zone and sums of all their records (SCALE D2, block/zone.h)
 *
 *	a thread that reads	bundle_chapter_next() -> a proposal, as long as there is one
 *	the writer		bundle_chapter_put(), in a transaction
 *
 * Nothing waits for a chapter: blocks without one are read. */
enum { BUNDLE_CHAPTER_BLOCKS = 64 };
struct bundle_chapter { int64_t log, first, cnt; };      /* owned by who has it, any thread */
/* Of the oldest so many blocks (BUNDLE_CHAPTER_BLOCKS; fewer in tests) of a log behind its newest chapter.  1: *ret; 0:
 * there are fewer.  ERR_CORRUPT: one cannot be read, or does not join.  Reads up to 262,144 records, some 0.2 s, in one
 * transaction. */
int bundle_chapter_next(struct db *db, int64_t log, unsigned blocks, struct bundle_chapter **ret,
		       struct err *err) MUST_CHECK;
void bundle_chapter_free(struct bundle_chapter **chapter);
/* ERR_CONFLICT: another was put, or its blocks are being pruned; nothing was changed. */
int bundle_chapter_put(struct db *db, const struct bundle_chapter *chapter, struct err *err) MUST_CHECK;

#endif
