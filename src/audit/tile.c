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

/* --- hashes of ranges, and the proof of one record */

static int not_as_written(const struct audit_ranges *r, uint64_t idx)
{
	(void)err_set(r->err, ERR_CORRUPT, r->origin, "record %llu of %s is not there as it was written",
		      (unsigned long long)idx, r->origin);
	err_hint(r->err, "run: toolcrib audit verify");
	return ERR_CORRUPT;
}

/* The tree of the records from <= idx < to, by themselves. */
static int hash_records(const struct audit_ranges *r, uint64_t from, uint64_t to, uint8_t ret[TREE_HASH])
{
	struct audit_page page = { .log = r->log, .origin = r->origin, .from = (int64_t)from, .to = (int64_t)to };
	struct tree t = { 0 };
	struct audit_read got;
	int rc;

	while ((rc = audit_reader_next(r->reader, &page, &got, r->err)) == 1) {
		if (got.findings || got.idx != (int64_t)(from + t.size))
			return not_as_written(r, from + t.size);
		tree_append(&t, got.leaf);
	}
	if (rc == 0 && from + t.size != to)
		return not_as_written(r, from + t.size);
	if (rc == 0)
		tree_root(&t, ret);
	return rc;
}

/* Whole tiles from the table, what is smaller from the records; what is neither in halves. */
int audit_range_hash(void *ranges, uint64_t from, uint64_t to, uint8_t ret[TREE_HASH])
{
	const struct audit_ranges *r = ranges;
	uint64_t n = to - from, half = 1;
	uint8_t left[TREE_HASH], right[TREE_HASH];
	unsigned level = 0;
	int rc = 0;

	while (n > 1 && n % TILE_WIDTH == 0)
		n /= TILE_WIDTH, level++;
	if (n == 1 && level > 0)
		rc = audit_tile_get(r->db, r->log, level, from / (to - from), ret, r->err);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	if (to - from <= TILE_WIDTH)
		return hash_records(r, from, to, ret);
	while (2 * half < to - from)
		half *= 2;
	rc = audit_range_hash(ranges, from, from + half, left);
	if (rc == 0)
		rc = audit_range_hash(ranges, from + half, to, right);
	if (rc == 0)
		tree_node(left, right, ret);
	return rc;
}

static int check_included(struct audit_ranges *r, const struct audit_place *at, const struct audit_read *got)
{
	uint8_t (*proof)[TREE_HASH] = mem_calloc(TREE_PROOF_MAX, TREE_HASH);
	size_t n = 0;
	int rc = tree_prove_inclusion((uint64_t)at->idx, at->size, audit_range_hash, r, proof, &n);

	if (rc == 0 && !tree_check_inclusion(got->leaf, (uint64_t)at->idx, at->size, (const uint8_t (*)[TREE_HASH])proof, n,
					     at->root))
		rc = not_as_written(r, (uint64_t)at->idx);
	free(proof);
	return rc;
}

int audit_included(struct db *db, const struct audit_place *at, audit_read_fn *fn, void *arg, struct err *err)
{
	struct audit_page page = { .log = at->log, .origin = at->origin, .from = at->idx, .to = at->idx + 1 };
	struct audit_reader *reader = audit_reader_new(db);
	struct audit_ranges r = { db, audit_reader_new(db), at->log, at->origin, err };
	struct audit_read got;
	int rc = at->idx < 0 || (uint64_t)at->idx >= at->size ? 0 : audit_reader_next(reader, &page, &got, err);

	if (rc == 1 && (got.findings || got.idx != at->idx))
		rc = not_as_written(&r, (uint64_t)at->idx);
	if (rc == 1) {
		rc = check_included(&r, at, &got);
		if (rc == 0)
			rc = fn(arg, &got);
		rc = rc < 0 ? rc : 1;
	}
	audit_reader_free(&r.reader);
	audit_reader_free(&reader);
	return rc;
}
