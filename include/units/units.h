#ifndef UNITS_UNITS_H
#define UNITS_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#include "audit/record.h"
#include "base/err.h"
#include "block/block.h"

/* Records of a log, believing nothing, read by several threads and handed over in the order of their indexes (SCALE
 * SC-701, decision 0068).  A unit is a block, or the rows of a page; whichever thread is free reads it by a connection
 * of its own, decodes it and hashes each record.  Blocks of sealed files, which are checked by themselves
 * (bundle/seal.h), are handed over as records alone.  What is handed over is the same with any number of threads.
 *
 * One thread walks; the others are there from units_new() to units_free(). */

#define UNITS_THREADS_MAX 32            /* what each of them has at hand is some 6 MiB */

/* What is known of what is kept of a record. */
enum units_kept {
	UNITS_KEPT_UNKNOWN,             /* of a row: nobody has looked; where something is kept is known otherwise */
	UNITS_KEPT_LOOK,                /* somebody has to look */
	UNITS_KEPT_NOTHING,             /* it commits to nothing, and nothing is there */
	UNITS_KEPT_GOOD,                /* it is there and fits, unless it was erased */
	UNITS_KEPT_SHUT                 /* the same, but for what is encrypted: there are no keys */
};

struct units_ask {
	/* A reader; borrowed.  Where no others can be beside it (db_open_beside()) there is one thread. */
	struct db *db;
	unsigned threads;               /* the caller's among them; 0 is 1, beyond UNITS_THREADS_MAX is that many */
	/* enum units_kept of a record in a block, by itself and what is kept of it (NULL: nothing).  Any thread. */
	uint8_t (*look)(void *arg, const struct audit_row *row, const struct block_payload *kept);
	void *arg;
};

/* A block as a whole. */
struct units_block {
	struct block b;
	const struct block_reader *reader;      /* it is open there, with all columns, until the record behind its last */
	bool lies;                      /* its times or its zone are not what a count of the records gives, */
	char said[320];                 /* namely this */
	bool beyond, twice;             /* something is kept of records behind its last one; of its own in two groups */
};

struct units_read {
	struct audit_read got;          /* borrows until the next one */
	uint8_t kept;                   /* enum units_kept */
	const struct units_block *begins;       /* the first one of a block: that; else NULL */
};

struct units;
struct units *units_new(const struct units_ask *ask);
void units_free(struct units **units);
/* Records from <= idx < to; origin is borrowed. */
void units_walk(struct units *units, int64_t log, const char *origin, int64_t from, int64_t to);
/* 1: the next one; 0: that was all; or an error.  ERR_CORRUPT: a block is missing, or cannot be read. */
int units_next(struct units *units, struct units_read *ret, struct err *err) MUST_CHECK;
/* The walk is at its end, or given up. */
void units_leave(struct units *units);

#endif
