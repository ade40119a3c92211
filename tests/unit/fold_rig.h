#ifndef TESTS_FOLD_RIG_H
#define TESTS_FOLD_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "db/db.h"

/* Puts records of a store into blocks, as nobody but a test may: with a writer's connection, nothing else having the
 * store open. */

struct fold_with {
	uint64_t seed;                  /* of the sizes of blocks */
	int64_t block_max;              /* records of one */
	int64_t tail;                   /* newest records of each log that stay rows */
	bool leftovers;                 /* rows of what is in blocks stay */
	unsigned chapter;               /* blocks of a chapter; 0: there is none */
	unsigned part, book, few;       /* blocks of a small one, chapters of a book, and of one that grows; 0: there is none */
	bool partial;                   /* no chapter has sums, as if none were worth it */
};
/* Blocks that were made; or an error.  The keys of the log's payloads are not asked: bytes go as they are. */
int fold_store(struct db *db, const struct fold_with *with, struct err *err) MUST_CHECK;
/* Any SQL, of one row with one number if *ret is wanted. */
int fold_sql(struct db *db, const char *sql, int64_t *ret, struct err *err) MUST_CHECK;

#endif
