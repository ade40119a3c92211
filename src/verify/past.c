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

/* 0, and *ret, or what reading gives. */
static int prove(struct verify_log *c, struct audit_ranges *r, uint64_t size, const uint8_t root[TREE_HASH], bool *ret)
{
	uint8_t (*proof)[TREE_HASH] = mem_calloc(TREE_PROOF_MAX, TREE_HASH), now[TREE_HASH];
	size_t n = 0;
	int rc = tree_prove_consistency(size, c->tree.size, audit_range_hash, r, proof, &n);

	tree_root(&c->tree, now);
	*ret = rc == 0 && tree_check_consistency(size, c->tree.size, root, now, (const uint8_t (*)[TREE_HASH])proof, n);
	free(proof);
	return rc;
}

static struct audit_ranges ranges_of(struct verify_log *c, struct err *err)
{
	return (struct audit_ranges){ c->v->db, audit_reader_new(c->v->db), c->head->id, c->head->origin, err };
}

static int fits(struct verify_log *c, uint64_t size, const uint8_t root[TREE_HASH], bool *ret, struct err *err)
{
	struct audit_ranges ranges = ranges_of(c, err);
	int rc = prove(c, &ranges, size, root, ret);

	audit_reader_free(&ranges.reader);
	return rc == ERR_CORRUPT ? 0 : rc;
}

static int tree_at(struct verify_log *c, uint64_t size, struct tree *ret, struct err *err)
{
	struct audit_ranges ranges = ranges_of(c, err);
	uint64_t from = 0;
	size_t n = 0;
	int rc = 0;

	memset(ret, 0, sizeof(*ret));
	for (unsigned bit = 63; bit-- > 0 && rc == 0;) {
		uint64_t width = UINT64_C(1) << bit;

		if (size & width) {
			rc = audit_range_hash(&ranges, from, from + width, ret->peak[n++]);
			from += width;
		}
	}
	ret->size = size;
	audit_reader_free(&ranges.reader);
	return rc == 0 ? 1 : rc == ERR_CORRUPT ? 0 : rc;
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
	struct audit_ranges ranges;
	bool same = false;
	int rc;

	*ret_ts = 0;
	if (size > c->tree.size || size == 0)
		return 0;
	ranges = ranges_of(c, err);
	rc = audit_range_hash(&ranges, 0, size, ret);
	if (rc == 0)
		rc = prove(c, &ranges, size, ret, &same);
	audit_reader_free(&ranges.reader);
	if (rc == ERR_CORRUPT)          /* pruned, or not as it was */
		return 0;
	if (rc < 0 || !same)
		return rc;
	ranges = ranges_of(c, err);
	rc = read_time(c, &ranges, size, ret_ts, err);
	audit_reader_free(&ranges.reader);
	return rc < 0 ? rc : 1;
}

/* --- records that are read again (SC-706) */

static int check_tiles(struct verify_log *c, const struct tile_nodes *nodes, struct err *err)
{
	uint8_t stored[TREE_HASH];
	int rc = 1;

	for (size_t i = 0; i < nodes->n && rc >= 0; i++) {
		const struct tile_node *node = &nodes->v[i];
		int64_t first = (int64_t)(node->n * TILE_WIDTH);

		if (node->level != 1)
			continue;
		rc = audit_tile_get(c->v->db, c->head->id, 1, node->n, stored, err);
		if (rc == 0 || (rc == 1 && memcmp(stored, node->hash, TREE_HASH) != 0))
			verify_tell_record(c, AUDIT_FINDING_TILE, first, first + TILE_WIDTH - 1);
	}
	return rc < 0 ? rc : 0;
}

/* The records themselves; the tree is that of those before, and then has them. */
static int hash_again(struct verify_log *c, struct tree *tree, int64_t to, struct err *err)
{
	struct audit_page page = { .log = c->head->id, .origin = c->head->origin, .from = (int64_t)tree->size, .to = to };
	struct audit_reader *reader = audit_reader_new(c->v->db);
	struct tile_nodes nodes = { 0 };
	struct audit_read got;
	int rc;

	while ((rc = audit_reader_next(reader, &page, &got, err)) == 1) {
		if (got.idx > (int64_t)tree->size)
			verify_tell_record(c, AUDIT_FINDING_GAP, (int64_t)tree->size, got.idx - 1);
		verify_tell_read(c, &got);
		tree_append_nodes(tree, got.leaf, audit_tile_note, &nodes);
		rc = check_tiles(c, &nodes, err);
		nodes.n = 0;
		if (rc < 0)
			break;
		c->v->sum->records++;
		c->v->sum->again++;
		if (c->v->with->progress && c->v->sum->records % AUDIT_VERIFY_STEP == 0)
			c->v->with->progress(c->v->arg, c->v->sum->records + c->v->sum->older, c->v->total);
	}
	free(nodes.v);
	audit_reader_free(&reader);
	return rc;
}

/* From the tile's first record on: what is before it is the tiles' word, until what was read leads to the tree. */
int verify_past_read(struct verify_log *c, int64_t from, int64_t to, struct err *err)
{
	uint8_t root[TREE_HASH];
	struct tree tree;
	bool same = false;
	int rc;

	from = from / TILE_WIDTH * TILE_WIDTH;
	rc = tree_at(c, (uint64_t)from, &tree, err);
	if (rc == 1)
		rc = hash_again(c, &tree, to, err);
	tree_root(&tree, root);
	if (rc == 0 && tree.size == (uint64_t)to)
		rc = fits(c, tree.size, root, &same, err);
	if (rc == 0 && !same)
		verify_tell(c->v, &(struct audit_finding){ .code = AUDIT_FINDING_ROOT, .origin = c->head->origin, .from = from,
			.to = to - 1, .detail = "what was read again, or the tiles before it, is not what the mark has" });
	return rc;
}
