#ifndef AUDIT_TILE_H
#define AUDIT_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "tlog/tree.h"

/* Tiles: the hashes of whole subtrees of 256, 65536, … leaves of a log, kept in a table beside the records, so
 * that proofs need not read the records below and can be made when those have been pruned (AUDIT A-904).  The
 * writer notes the nodes that an append completes and saves them with the transaction; provers and the verifier
 * get single hashes by any connection. */

struct db;

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

#endif
