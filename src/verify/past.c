/* The tree of a log as it was at an earlier size, where a verification begins behind it: what others say of that size
 * can be compared all the same.  It is made of the hashes of tiles that are kept beside the records, and of records
 * where there is no whole tile; all are nobody's word until a proof of consistency (RFC 6962) shows that they lead to
 * the tree that was read.  Called by anchors.c and checkpoints.c. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "db/db.h"

#include "verify_int.h"

/* 0, and *ret_fits, or what reading gives. */
static int prove(struct verify_log *c, struct audit_ranges *r, uint64_t size, uint8_t root[TREE_HASH], bool *ret_fits)
{
	uint8_t (*proof)[TREE_HASH] = mem_calloc(TREE_PROOF_MAX, TREE_HASH), now[TREE_HASH];
	size_t n = 0;
	int rc = audit_range_hash(r, 0, size, root);

	if (rc == 0)
		rc = tree_prove_consistency(size, c->tree.size, audit_range_hash, r, proof, &n);
	tree_root(&c->tree, now);
	*ret_fits = rc == 0 && tree_check_consistency(size, c->tree.size, root, now, (const uint8_t (*)[TREE_HASH])proof, n);
	free(proof);
	return rc;
}

static int read_time(struct verify_log *c, struct audit_ranges *r, uint64_t size, uint64_t *ret, struct err *err)
{
	struct audit_page page = { .log = c->head->id, .origin = c->head->origin, .from = (int64_t)size - 1,
		.to = (int64_t)size };
	struct audit_read got;
	int rc = audit_reader_next(r->reader, &page, &got, err);

	if (rc == 1 && got.row.v[COL_TS].present)
		*ret = (uint64_t)got.row.v[COL_TS].n;
	return rc < 0 ? rc : 0;
}

int verify_past_root(struct verify_log *c, uint64_t size, uint8_t ret[TREE_HASH], uint64_t *ret_ts, struct err *err)
{
	struct audit_ranges ranges = { c->v->db, NULL, c->head->id, c->head->origin, err };
	bool fits = false;
	int rc;

	*ret_ts = 0;
	if (size > c->tree.size || size == 0)
		return 0;
	ranges.reader = audit_reader_new(c->v->db);
	rc = prove(c, &ranges, size, ret, &fits);
	audit_reader_free(&ranges.reader);
	if (rc == ERR_CORRUPT)          /* pruned, or not as it was */
		return 0;
	if (rc < 0 || !fits)
		return rc;
	ranges.reader = audit_reader_new(c->v->db);
	rc = read_time(c, &ranges, size, ret_ts, err);
	audit_reader_free(&ranges.reader);
	return rc < 0 ? rc : 1;
}
