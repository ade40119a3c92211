/* The tree of a log that is written to: as it was committed, and the leaves that are to come. */

#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "audit/record.h"
#include "base/mem.h"
#include "db/db.h"

#include "audit_int.h"

/* Records from before the trees, or a head that was never written with one: from the rows. */
static int grow_from_rows(const struct audit_log *log, struct db *db, struct tree *ret, struct tile_nodes *nodes, struct err *err)
{
	struct audit_reader *reader = audit_reader_new(db);
	struct audit_page page = { .log = log->id, .origin = log->origin, .from = (int64_t)ret->size, .to = log->saved };
	struct audit_read got;
	int rc;

	while ((rc = audit_reader_next(reader, &page, &got, err)) == 1) {
		if (got.findings || got.idx != (int64_t)ret->size) {
			rc = err_set(err, ERR_CORRUPT, log->origin, "record %" PRId64 " cannot be read as it was written", got.idx);
			break;
		}
		tree_append_nodes(ret, got.leaf, audit_tile_note, nodes);
	}
	audit_reader_free(&reader);
	if (rc == 0 && (int64_t)ret->size != log->saved)
		rc = err_set(err, ERR_CORRUPT, log->origin, "has %" PRIu64 " records instead of %" PRId64, ret->size, log->saved);
	return rc;
}

/* 1: *ret is the tree that the head has; 0: the head has none. */
static int read_head(const struct audit_log *log, struct db *db, struct tree *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_AUDIT_GET_HEAD);
	size_t len = 0, root_len = 0;
	const void *root, *frontier;
	uint8_t want[TREE_HASH];
	int rc;

	db_bind_i64(st, 1, log->id);
	rc = db_step(st, err);
	if (rc == 1) {
		root = db_col_blob(st, 0, &root_len);
		frontier = db_col_blob(st, 1, &len);
		rc = db_col_type(st, 0) != DB_NULL || db_col_type(st, 1) != DB_NULL;
		if (rc == 1 && (!tree_load(ret, log->saved, frontier, len) || root_len != TREE_HASH)) {
			rc = err_set(err, ERR_CORRUPT, log->origin, "the head has no tree of %" PRId64 " records", log->saved);
		} else if (rc == 1) {
			tree_root(ret, want);
			if (memcmp(root, want, TREE_HASH) != 0)
				rc = err_set(err, ERR_CORRUPT, log->origin, "the head's root and frontier contradict each other");
		}
	} else if (rc == 0) {
		rc = err_set(err, ERR_CORRUPT, log->origin, "the log has no head");
	}
	db_stmt_put(&st);
	return rc;
}

int audit_growth_tiles(const struct audit_log *log, struct db *db, struct err *err)
{
	struct tile_nodes nodes = { 0 };
	struct tree tree = { 0 };
	bool whole = false;
	int rc = audit_tiles_whole(db, log->id, (uint64_t)log->saved, &whole, err);

	if (rc < 0 || whole)
		return rc;
	if (log->min_idx > 0)
		return err_set(err, ERR_CORRUPT, log->origin, "tiles of records that were pruned are missing");
	rc = grow_from_rows(log, db, &tree, &nodes, err);
	if (rc == 0)
		rc = db_txn_begin(db, true, err);
	if (rc == 0)
		rc = db_txn_end(db, audit_tiles_save(db, log->id, &nodes, err), err);
	free(nodes.v);
	return rc;
}

int audit_growth_open(struct audit_log *log, struct db *db, struct err *err)
{
	struct growth *g = mem_zalloc(sizeof *g);
	int rc = read_head(log, db, &g->now, err);

	if (rc == 0)
		rc = grow_from_rows(log, db, &g->now, &g->nodes, err);
	if (rc < 0) {
		audit_growth_free(&g);
		return rc;
	}
	log->growth = g;
	return 0;
}

void audit_growth_add(struct growth *g, const uint8_t leaf[TREE_HASH])
{
	if (g->nleaf == g->cap) {
		g->cap = g->cap ? 2 * g->cap : 16;
		g->leaf = mem_realloc(g->leaf, g->cap * sizeof *g->leaf);
	}
	memcpy(g->leaf[g->nleaf++], leaf, TREE_HASH);
}

void audit_growth_tree(const struct growth *g, struct tree *ret)
{
	*ret = g->now;
	for (size_t i = 0; i < g->nleaf; i++)
		tree_append(ret, g->leaf[i]);
}

void audit_growth_save(struct growth *g, struct db_stmt *st, unsigned pos)
{
	g->next = g->now;
	g->nodes.n = 0;
	for (size_t i = 0; i < g->nleaf; i++)
		tree_append_nodes(&g->next, g->leaf[i], audit_tile_note, &g->nodes);
	tree_root(&g->next, g->root);
	db_bind_blob(st, pos, g->root, TREE_HASH);
	db_bind_blob(st, pos + 1, g->next.peak, tree_peaks(g->next.size) * TREE_HASH);
}

void audit_growth_commit(struct growth *g)
{
	if (g->nleaf == 0)              /* nothing was left of what this transaction had appended */
		return;
	g->now = g->next;
	g->nleaf = 0;
}

void audit_growth_free(struct growth **gp)
{
	struct growth *g = *gp;

	if (!g)
		return;
	*gp = NULL;
	free(g->leaf);
	free(g->nodes.v);
	free(g);
}
