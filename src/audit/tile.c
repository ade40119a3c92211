/* Tiles: the hashes of whole subtrees of 256, 65536, … leaves (C2SP tlog-tiles), so that proofs need not read the
 * records below, and still can be made when those have been pruned (AUDIT A-904).  Level 0 is rec.leaf. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "db/db.h"

#include "audit_int.h"

void audit_tile_note(void *arg, unsigned height, uint64_t n, const uint8_t hash[TREE_HASH])
{
	struct tile_nodes *nodes = arg;

	if (height % TILE_HEIGHT != 0)
		return;
	if (nodes->n == nodes->cap) {
		nodes->cap = nodes->cap ? 2 * nodes->cap : 4;
		nodes->v = mem_realloc(nodes->v, nodes->cap * sizeof(*nodes->v));
	}
	nodes->v[nodes->n] = (struct tile_node){ .level = height / TILE_HEIGHT, .n = n };
	memcpy(nodes->v[nodes->n++].hash, hash, TREE_HASH);
}

int audit_tiles_whole(struct db *db, int64_t log, uint64_t size, bool *ret, struct err *err)
{
	uint64_t want = size / TILE_WIDTH;
	struct db_stmt *st = db_stmt_get(db, SQL_TILE_LAST);
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	if (rc >= 0)
		*ret = want == (rc == 1 ? (uint64_t)db_col_i64(st, 0) * TILE_WIDTH + (uint64_t)db_col_i64(st, 1) / TREE_HASH : 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int audit_tile_get(struct db *db, int64_t log, unsigned level, uint64_t n, uint8_t ret[TREE_HASH], struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TILE_GET);
	size_t len = 0;
	const uint8_t *hashes;
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, level);
	db_bind_i64(st, 3, (int64_t)(n / TILE_WIDTH));
	rc = db_step(st, err);
	if (rc == 1) {
		hashes = db_col_blob(st, 0, &len);
		rc = n % TILE_WIDTH < len / TREE_HASH;
		if (rc == 1)
			memcpy(ret, hashes + n % TILE_WIDTH * TREE_HASH, TREE_HASH);
	}
	db_stmt_put(&st);
	return rc;
}
