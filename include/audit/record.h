#ifndef AUDIT_RECORD_H
#define AUDIT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block/row.h"
#include "base/err.h"
#include "tlog/tree.h"

struct db;

/* Reading records, page by page in the order of a log, by any connection.  The reader trusts nothing: storage
 * classes, ids and the stored leaf are checked, and what is wrong with a record is a set of findings beside it, so
 * that the walk goes on. */

/* What is wrong with a record by itself; names as in AUDIT 8. */
#define AUDIT_FOUND_TYPE (1u << 0)
#define AUDIT_FOUND_DICT (1u << 1)
#define AUDIT_FOUND_ENCODING (1u << 2)
#define AUDIT_FOUND_LEAF (1u << 3)

struct audit_page {
	int64_t log, from, to;          /* indexes from <= idx < to; from moves on */
	const char *origin;
	bool leftovers;                 /* rows alone, also those whose block counts */
	int64_t rows;                   /* the reader's own: of this page */
	bool begun;
};
struct audit_read {
	struct audit_row row;           /* borrows from the reader until the next record */
	int64_t idx;
	uint8_t leaf[TREE_HASH];        /* computed from the columns */
	unsigned findings;
};
struct audit_reader;
struct audit_reader *audit_reader_new(struct db *db);
void audit_reader_free(struct audit_reader **r);
/* 1 and the next record by index; 0: no more; or an error of the database. */
int audit_reader_next(struct audit_reader *r, struct audit_page *page, struct audit_read *ret,
		      struct err *err) MUST_CHECK;

/* The bytes that are hashed, made anew from the columns, and the leaf that they give.  Positions from <=
 * idx < to; origin is borrowed.  1 = a record, 0 = the end; its bytes stay until the next. */
struct audit_record { int64_t idx; int enc; const uint8_t *bytes; size_t len; uint8_t leaf[32]; };
struct audit_walk;
struct audit_walk *audit_walk_new(struct db *db, int64_t log, const char *origin, int64_t from, int64_t to);
int audit_walk_next(struct audit_walk *w, struct audit_record *ret, struct err *err) MUST_CHECK;
void audit_walk_free(struct audit_walk **w);

/* Tiles: the hashes of whole subtrees of 256, 65536, … leaves of a log, kept in a table beside the records, so
 * that proofs need not read the records below and can be made when those have been pruned (AUDIT A-904).  The
 * writer notes the nodes that an append completes and saves them with the transaction; provers and the verifier
 * get single hashes by any connection. */

/* Hashes of tiles: the n-th of a level, which covers 256^level leaves (C2SP tlog-tiles). */
struct tile_node { unsigned level; uint64_t n; uint8_t hash[TREE_HASH]; };
struct tile_nodes { struct tile_node *v; size_t n, cap; };
enum { TILE_HEIGHT = 8, TILE_WIDTH = 256 };
/* into struct tile_nodes */
void audit_tile_note(void *arg, unsigned height, uint64_t n, const uint8_t hash[TREE_HASH]);
/* Whether the table has all tiles of a log of that size. */
int audit_tiles_whole(struct db *db, int64_t log, uint64_t size, bool *ret, struct err *err) MUST_CHECK;
/* The hash of a tile: 1 = it is there, 0 = it is not. */
int audit_tile_get(struct db *db, int64_t log, unsigned level, uint64_t n, uint8_t ret[TREE_HASH],
		   struct err *err) MUST_CHECK;

/* MTH(D[from:to]) for proofs, a tree_range_fn of struct audit_ranges: whole tiles from the table, what is smaller
 * from the records, which have to be as they were written (ERR_CORRUPT). */
struct audit_ranges {
	struct db *db;
	struct audit_reader *reader;
	int64_t log;
	const char *origin;
	struct err *err;
};
int audit_range_hash(void *ranges, uint64_t from, uint64_t to, uint8_t ret[TREE_HASH]);

/* The record at idx, once its columns were shown to be in the tree of that size and root: fn(), whose record is
 * borrowed until it returns.  1; 0: there is no such record; ERR_CORRUPT: it is not as it was written. */
struct audit_place { int64_t log, idx; const char *origin; uint64_t size; const uint8_t *root; };
typedef int audit_read_fn(void *arg, const struct audit_read *got);
int audit_included(struct db *db, const struct audit_place *at, audit_read_fn *fn, void *arg,
		   struct err *err) MUST_CHECK;

#endif
