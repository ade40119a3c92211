/* What goes and what must stay (AUDIT 8, 10): the tree at a cut, the hashes of tiles, intents to prune or erase
 * and their ends, holds and periods against the records that made them. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "db/db.h"

#include "verify_int.h"

struct verify_retention {
	struct tree tiles;              /* whose leaves are the hashes of level 1 */
	bool no_tiles;                  /* the table of tiles is not to be compared with */
	struct map *intents;            /* index of the record by itself, of intents that have not been done */
	int64_t holds, releases, policies;      /* records of each */
};

/* --- pruned logs */

/* A field of ext of exactly that length, or NULL. */
static const uint8_t *field(const struct audit_row *row, unsigned tag, size_t want)
{
	const struct audit_value *ext = &row->v[COL_EXT];
	size_t len = 0;
	const uint8_t *p = ext->present ? audit_field_find(ext->p, ext->len, tag, &len) : NULL;

	return len == want ? p : NULL;
}

static bool tree_of_cut(const struct audit_row *row, int64_t cut, struct tree *ret)
{
	const uint8_t *range = field(row, AUDIT_TAG_RANGE, 16);
	size_t len = tree_peaks((uint64_t)cut) * TREE_HASH;
	const uint8_t *frontier = field(row, AUDIT_TAG_FRONTIER, len), *want = field(row, AUDIT_TAG_ROOT, TREE_HASH);
	uint8_t root[TREE_HASH];

	if (row->v[COL_KIND].n != AUDIT_PRUNE || !range || !frontier || !want || audit_get_be(range + 8, 8) != (uint64_t)cut ||
	    !tree_load(ret, cut, frontier, len))
		return false;
	tree_root(ret, root);
	return memcmp(root, want, TREE_HASH) == 0;
}

/* The record itself is one of those that are hashed from the cut on, so that it is as good as the root. */
static int read_cut(struct verify_log *c, bool *ret_found, struct err *err)
{
	const struct verify_head *h = c->head;
	struct audit_reader *reader = audit_reader_new(c->v->db);
	struct audit_page page = { .log = h->id, .origin = h->origin, .from = h->pruned_by,
		.to = h->pruned_by + (h->pruned_by < INT64_MAX) };
	struct audit_read got;
	int rc = audit_reader_next(reader, &page, &got, err);

	*ret_found = rc == 1 && h->pruned_by >= h->min_idx && tree_of_cut(&got.row, h->min_idx, &c->tree);
	audit_reader_free(&reader);
	return rc < 0 ? rc : 0;
}

/* The tiles that stay have to give the same peaks. */
static int fold_tiles(struct verify_log *c, struct err *err)
{
	uint64_t count = (uint64_t)c->head->min_idx / TILE_WIDTH;
	uint8_t hash[TREE_HASH];

	for (uint64_t n = 0; n < count; n++) {
		int rc = audit_tile_get(c->v->db, c->head->id, 1, n, hash, err);

		if (rc < 0)
			return rc;
		if (rc == 0)
			break;
		tree_append(&c->retention->tiles, hash);
	}
	if (c->retention->tiles.size == count &&
	    memcmp(c->retention->tiles.peak, c->tree.peak, tree_peaks(count) * TREE_HASH) == 0)
		return 0;
	verify_tell_store(c->v, AUDIT_FINDING_TILE, c->head->origin,
			  "the tiles of what was pruned do not fit the prune record");
	c->retention->no_tiles = true;
	return 0;
}

/* The tree begins at the cut, as the record of the prune says it was. */
static int begin_at_cut(struct verify_log *c, struct err *err)
{
	const struct verify_head *h = c->head;
	bool found = false;
	int rc;

	if (h->min_idx == 0)            /* a store from before the tiles? */
		return audit_tiles_whole(c->v->db, h->id, 0, &c->retention->no_tiles, err);
	rc = h->min_idx % TILE_WIDTH == 0 ? read_cut(c, &found, err) : 0;
	if (rc < 0)
		return rc;
	if (!found) {
		verify_tell_store(c->v, AUDIT_FINDING_TILE, h->origin, "the log begins late, and no prune record says so");
		memset(&c->tree, 0, sizeof(c->tree));
		/* What is no place in a log tells nothing of the records: the tree counts from the first. */
		c->tree.size = h->min_idx > 0 && h->min_idx <= TREE_LOAD_MAX ? (uint64_t)h->min_idx : 0;
		c->retention->no_tiles = true;
		return 0;
	}
	c->v->sum->pruned += (uint64_t)h->min_idx;
	return fold_tiles(c, err);
}

/* --- tiles */

static int check_node(struct verify_log *c, const struct tile_node *node, struct err *err)
{
	uint8_t stored[TREE_HASH];
	uint64_t width = 1ull << TILE_HEIGHT * node->level;
	int rc;

	if ((node->n + 1) * width > (uint64_t)c->head->said)    /* tiles are written with the head */
		return 0;
	rc = audit_tile_get(c->v->db, c->head->id, node->level, node->n, stored, err);
	if (rc < 0)
		return rc;
	if (rc == 0 || memcmp(stored, node->hash, TREE_HASH) != 0)
		verify_tell_record(c, AUDIT_FINDING_TILE, (int64_t)(node->n * width), (int64_t)((node->n + 1) * width) - 1);
	return 0;
}

/* In a log that was cut, the tree knows only nodes that lie behind the cut; the tree of tiles knows all. */
static int check_tiles(struct verify_log *c, struct err *err)
{
	struct tile_nodes higher = { 0 };
	int rc = 0;

	for (size_t i = 0; i < c->nodes.n && rc == 0 && !c->retention->no_tiles; i++) {
		if (c->nodes.v[i].level != 1)
			continue;
		rc = check_node(c, &c->nodes.v[i], err);
		tree_append_nodes(&c->retention->tiles, c->nodes.v[i].hash, audit_tile_note, &higher);
		for (size_t k = 0; k < higher.n && rc == 0; k++) {
			higher.v[k].level++;
			rc = check_node(c, &higher.v[k], err);
		}
	}
	free(higher.v);
	return rc;
}

/* --- intents, holds, periods */

static void note_intent(struct verify_log *c, int64_t idx)
{
	map_set_u64(c->retention->intents, (uint64_t)idx + 1, mem_zalloc(1));
}

/* A deed names its intent; one that was pruned needs no more words. */
static void note_done(struct verify_log *c, const struct audit_row *row, int64_t idx)
{
	const uint8_t *cause = field(row, AUDIT_TAG_CAUSE, 12);
	int64_t intent = cause ? (int64_t)(audit_get_be(cause + 4, 8) & INT64_MAX) : INT64_MAX - 1;
	void *mark = map_del_u64(c->retention->intents, (uint64_t)intent + 1);

	if (!mark && intent >= c->head->min_idx)
		verify_tell_record(c, AUDIT_FINDING_PAIRING, idx, idx);
	free(mark);
}

static bool same_number(struct db_stmt *st, unsigned col, const uint8_t *be)
{
	return be ? db_col_type(st, col) == DB_INT && (uint64_t)db_col_i64(st, col) == audit_get_be(be, 8)
		  : db_col_type(st, col) == DB_NULL;
}

/* hold.set: from, to, prn of the hold whose record this is. */
static bool holds_as_said(struct db_stmt *st, const struct audit_row *row)
{
	const uint8_t *range = field(row, AUDIT_TAG_RANGE, 16);
	const struct audit_value *prn = &row->v[COL_PRN];
	size_t len = 0;
	const char *text = db_col_text(st, 2, &len);

	return same_number(st, 0, range) && same_number(st, 1, range ? range + 8 : NULL) &&
	       prn->present == (db_col_type(st, 2) != DB_NULL) &&
	       (!prn->present || (prn->len == len && memcmp(prn->p, text, len) == 0));
}

/* retention.change: min_days, max_days; it speaks of records from its own on. */
static bool keeps_as_said(struct db_stmt *st, const struct audit_row *row)
{
	const uint8_t *days = field(row, AUDIT_TAG_COUNTS, 16);

	return days && db_col_i64(st, 2) == row->v[COL_IDX].n && same_number(st, 0, days) &&
	       same_number(st, 1, audit_get_be(days + 8, 8) ? days + 8 : NULL);
}

static bool released_as_said(struct db_stmt *st, const struct audit_row *row)
{
	(void)row;
	return db_col_type(st, 0) == DB_INT;
}

static int against_row(struct verify_log *c, enum sql_id sql, bool (*same)(struct db_stmt *, const struct audit_row *),
		       const struct audit_row *row, int64_t idx, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->v->db, sql);
	int rc;

	db_bind_i64(st, 1, c->head->id);
	db_bind_i64(st, 2, idx);
	rc = db_step(st, err);
	if (rc >= 0 && (rc == 0 || !same(st, row)))
		verify_tell_record(c, AUDIT_FINDING_REGISTRY, idx, idx);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int check_kept(struct verify_log *c, const struct audit_row *row, int64_t idx, struct err *err)
{
	switch (verify_kind(row)) {
	case AUDIT_PRUNE:
	case AUDIT_ERASE:
		note_intent(c, idx);
		return 0;
	case AUDIT_PRUNE_DONE:
	case AUDIT_ERASE_DONE:
		note_done(c, row, idx);
		return 0;
	case AUDIT_HOLD_SET:
		c->retention->holds++;
		return against_row(c, SQL_VERIFY_HOLD_SET, holds_as_said, row, idx, err);
	case AUDIT_HOLD_RELEASE:
		c->retention->releases++;
		return against_row(c, SQL_VERIFY_HOLD_RELEASE, released_as_said, row, idx, err);
	case AUDIT_RETENTION_CHANGE:
		c->retention->policies++;
		return against_row(c, SQL_VERIFY_RETENTION, keeps_as_said, row, idx, err);
	default:
		return 0;
	}
}

/* As many rows as records: none that no record made. */
static int count_rows(struct verify_log *c, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->v->db, SQL_VERIFY_COUNT_KEPT);
	int rc;

	db_bind_i64(st, 1, c->head->id);
	db_bind_i64(st, 2, c->head->min_idx);
	rc = db_step(st, err);
	if (rc == 1 && (db_col_i64(st, 0) != c->retention->holds || db_col_i64(st, 1) != c->retention->releases))
		verify_tell_store(c->v, AUDIT_FINDING_REGISTRY, c->head->origin, "the holds are not those that the records say");
	if (rc == 1 && db_col_i64(st, 2) != c->retention->policies)
		verify_tell_store(c->v, AUDIT_FINDING_REGISTRY, c->head->origin, "the periods are not those that the records say");
	if (rc == 1 && db_col_i64(st, 3) && map_count(c->retention->intents) == 0)
		verify_tell_store(c->v, AUDIT_FINDING_ERASED_BUT_PRESENT, c->head->origin,
				  "records that were pruned are still there");
	if (rc == 1 && db_col_i64(st, 4))
		verify_tell_store(c->v, AUDIT_FINDING_TYPE, c->head->origin, "records with an index below the first");
	if (rc == 1 && db_col_i64(st, 5))
		verify_tell_store(c->v, AUDIT_FINDING_NOT_CHECKED, c->head->origin,
				  "holds or periods whose records were pruned");
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static void tell_undone(struct verify_log *c)
{
	int64_t *undone = mem_calloc(map_count(c->retention->intents) + 1, sizeof(*undone));
	const void *key;
	size_t len, n = 0;

	for (size_t it = 0; map_next(c->retention->intents, &it, &key, &len, NULL); n++)
		if (len == sizeof(*undone))
			memcpy(&undone[n], key, sizeof(*undone));
	verify_sort(undone, n);
	for (size_t i = 0; i < n; i++)
		verify_tell_record(c, AUDIT_FINDING_DANGLING, undone[i] - 1, undone[i] - 1);
	free(undone);
}

/* --- the tree at an earlier size, where a verification begins behind it */

/* What others say of that size can be compared all the same.  The tree is made of the hashes of tiles, and of records
 * where there is no whole tile; all are nobody's word until a proof of consistency (RFC 6962) shows that they lead to
 * the tree that was read. */

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

static int check_read_tiles(struct verify_log *c, const struct tile_nodes *nodes, struct err *err)
{
	uint8_t stored[TREE_HASH];
	int rc = 1;

	for (size_t i = 0; i < nodes->n && rc >= 0; i++) {
		const struct tile_node *node = &nodes->v[i];
		int64_t first = (int64_t)(node->n * TILE_WIDTH);

		if (node->level != 1 || first + TILE_WIDTH > c->head->said)
			continue;
		rc = audit_tile_get(c->v->db, c->head->id, 1, node->n, stored, err);
		if (rc == 0 || (rc == 1 && memcmp(stored, node->hash, TREE_HASH) != 0))
			verify_tell_record(c, AUDIT_FINDING_TILE, first, first + TILE_WIDTH - 1);
	}
	return rc < 0 ? rc : 0;
}

struct again { struct tree *tree; struct tile_nodes nodes; };

static int hash_record(struct verify_log *c, const struct audit_read *got, void *arg, struct err *err)
{
	struct again *a = arg;
	int rc;

	if (got->idx > (int64_t)a->tree->size)
		verify_tell_record(c, AUDIT_FINDING_GAP, (int64_t)a->tree->size, got->idx - 1);
	verify_tell_read(c, got);
	tree_append_nodes(a->tree, got->leaf, audit_tile_note, &a->nodes);
	rc = check_read_tiles(c, &a->nodes, err);
	a->nodes.n = 0;
	c->v->sum->records++;
	c->v->sum->again++;
	if (c->v->with->progress && c->v->sum->records % AUDIT_VERIFY_STEP == 0)
		c->v->with->progress(c->v->arg, c->v->sum->records + c->v->sum->older, c->v->total);
	return rc;
}

/* The records themselves; the tree is that of those before, and then has them. */
static int hash_again(struct verify_log *c, struct tree *tree, int64_t to, struct err *err)
{
	struct again a = { .tree = tree };
	int rc = verify_read(c, (int64_t)tree->size, to, hash_record, &a, err);

	free(a.nodes.v);
	return rc;
}

/* From the tile's first record on: what is before it is the tiles' word, until what was read leads to the tree. */
static int retention_again(struct verify_log *c, int64_t from, int64_t to, struct err *err)
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

/* --- the step */

static int retention_begin(struct verify_log *c, struct err *err)
{
	c->retention = mem_zalloc(sizeof(*c->retention));
	c->retention->intents = map_new();
	(void)err;
	return 0;
}

static int retention_start(struct verify_log *c, struct err *err)
{
	if (c->start == VERIFY_ANEW || c->start == VERIFY_AGAIN)
		return begin_at_cut(c, err);
	if (c->start == VERIFY_BEHIND)
		c->v->sum->pruned += (uint64_t)c->head->min_idx;
	if (c->tree.size < TILE_WIDTH)  /* there were none yet */
		return audit_tiles_whole(c->v->db, c->head->id, 0, &c->retention->no_tiles, err);
	return 0;
}

static void save_retention(const struct verify_log *c, struct str *to)
{
	const struct verify_retention *r = c->retention;
	const void *key;
	size_t len;

	verify_put_tree(to, &r->tiles);
	pack_u64(to, r->no_tiles);
	pack_u64(to, (uint64_t)r->holds);
	pack_u64(to, (uint64_t)r->releases);
	pack_u64(to, (uint64_t)r->policies);
	pack_u64(to, map_count(r->intents));
	for (size_t it = 0; map_next(r->intents, &it, &key, &len, NULL);) {
		uint64_t idx = 0;

		memcpy(&idx, key, len < sizeof(idx) ? len : sizeof(idx));
		pack_u64(to, idx - 1);
	}
}

static void load_retention(struct verify_log *c, struct unpack *in)
{
	struct verify_retention *r = c->retention;

	verify_get_tree(in, &r->tiles);
	r->no_tiles = unpack_bool(in);
	r->holds = (int64_t)unpack_u64(in);
	r->releases = (int64_t)unpack_u64(in);
	r->policies = (int64_t)unpack_u64(in);
	for (size_t n = unpack_count(in, 8); n > 0 && !in->bad; n--) {
		uint64_t idx = unpack_u64(in);

		in->bad |= idx >= INT64_MAX;
		if (!in->bad)
			free(map_set_u64(r->intents, idx + 1, mem_zalloc(1)));
	}
}

static int retention_record(struct verify_log *c, const struct audit_read *got, struct err *err)
{
	int rc = check_tiles(c, err);

	return rc < 0 ? rc : check_kept(c, &got->row, got->idx, err);
}

static int retention_end(struct verify_log *c, struct err *err)
{
	int rc = count_rows(c, err);

	tell_undone(c);
	return rc;
}

static void retention_close(struct verify_log *c)
{
	void *mark;

	if (!c->retention)
		return;
	for (size_t it = 0; map_next(c->retention->intents, &it, NULL, NULL, &mark);)
		free(mark);
	map_free(&c->retention->intents);
	free(c->retention);
	c->retention = NULL;
}

const struct verify_step verify_retention = {
	.name = "retention", .begin = retention_begin, .record = retention_record, .end = retention_end,
	.close = retention_close, .again = retention_again, .form = 1, .start_log = retention_start,
	.save_log = save_retention,
	.load_log = load_retention,
};
