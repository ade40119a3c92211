/* The writer's picture of the logs: their sizes, trees, the dictionary, known pseudonyms, calls that are open.
 * Each change can be undone until the transaction has been committed.  Writer thread; appending (append.c) and
 * signing (checkpoint.c) work on it. */

#include "config.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/checkpoint.h"
#include "audit/record.h"
#include "base/id.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/tally.h"
#include "base/text.h"
#include "db/db.h"
#include "db/server.h"
#include "forms/forms.h"
#include "keys/keys.h"

#include "audit_int.h"

/* --- the tree of a log that is written to: as it was committed, and the leaves that are to come */

/* Table head, with the tiles, is written when somebody outside will ask for it (SCALE SC-104): in between the records
 * say what a log is, and a start reads those that a head does not know yet. */

/* The first hash of a tile makes its row, each further one is put behind those that are there, and nowhere else. */
static int save_tiles(struct db *db, int64_t log, const struct tile_nodes *nodes, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < nodes->n && rc == 0; i++) {
		const struct tile_node *node = &nodes->v[i];
		uint64_t at = node->n % TILE_WIDTH;
		struct db_stmt *st = db_stmt_get(db, at == 0 ? SQL_TILE_INSERT : SQL_TILE_APPEND);

		db_bind_i64(st, 1, log);
		db_bind_i64(st, 2, node->level);
		db_bind_i64(st, 3, (int64_t)(node->n / TILE_WIDTH));
		db_bind_blob(st, 4, node->hash, TREE_HASH);
		if (at > 0)
			db_bind_i64(st, 5, (int64_t)at * TREE_HASH);
		rc = db_run(&st, err);
		if (rc == 0 && db_changes(db) != 1)
			rc = err_set(err, ERR_CORRUPT, "tile", "a tile of log %lld does not have the hashes before the next",
				     (long long)log);
	}
	return rc;
}

/* Records that the head does not know yet, all of a store from before the trees: from the rows.  nodes: or NULL. */
static int grow_from_rows(const struct audit_log *log, int64_t to, struct db *db, struct tree *ret,
			  struct tile_nodes *nodes, struct err *err)
{
	struct audit_reader *reader = audit_reader_new(db);
	struct audit_page page = { .log = log->id, .origin = log->origin, .from = (int64_t)ret->size, .to = to };
	struct audit_read got;
	int rc;

	while ((rc = audit_reader_next(reader, &page, &got, err)) == 1) {
		if (got.findings || got.idx != (int64_t)ret->size) {
			rc = err_set(err, ERR_CORRUPT, log->origin, "record %" PRIu64 " cannot be read as it was written", ret->size);
			break;
		}
		if (nodes)
			tree_append_nodes(ret, got.leaf, audit_tile_note, nodes);
		else
			tree_append(ret, got.leaf);
	}
	audit_reader_free(&reader);
	if (rc == 0 && (int64_t)ret->size != to)
		rc = err_set(err, ERR_CORRUPT, log->origin, "has %" PRIu64 " records instead of %" PRId64, ret->size, to);
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

/* A store from before the tiles gets them once; outside of a transaction. */
static int tail_tiles(const struct audit_log *log, struct db *db, struct err *err)
{
	struct tile_nodes nodes = { 0 };
	struct tree tree = { 0 };
	bool whole = false;
	int rc = audit_tiles_whole(db, log->id, (uint64_t)log->saved, &whole, err);

	if (rc < 0 || whole)
		return rc;
	if (log->min_idx > 0)
		return err_set(err, ERR_CORRUPT, log->origin, "tiles of records that were pruned are missing");
	rc = grow_from_rows(log, log->saved, db, &tree, &nodes, err);
	if (rc == 0)
		rc = db_txn_begin(db, true, err);
	if (rc == 0)
		rc = db_txn_end(db, save_tiles(db, log->id, &nodes, err), err);
	free(nodes.v);
	return rc;
}

static void tail_free(struct tail **g);

int audit_tail_open(struct audit_log *log, struct db *db, struct err *err)
{
	struct tail *g = mem_zalloc(sizeof(*g));
	int rc = read_head(log, db, &g->now, err);

	if (rc == 0)                    /* its tiles are there: tail_tiles() */
		rc = grow_from_rows(log, log->saved, db, &g->now, NULL, err);
	if (rc >= 0 && log->saved < log->size)
		rc = grow_from_rows(log, log->size, db, &g->now, &g->nodes, err);
	if (rc < 0) {
		tail_free(&g);
		return rc;
	}
	log->tail = g;
	return 0;
}

void audit_tail_add(struct tail *g, const uint8_t leaf[TREE_HASH])
{
	if (g->nleaf == g->cap) {
		g->cap = g->cap ? 2 * g->cap : 16;
		g->leaf = mem_realloc(g->leaf, g->cap * sizeof(*g->leaf));
	}
	memcpy(g->leaf[g->nleaf++], leaf, TREE_HASH);
}

void audit_tail_tree(const struct tail *g, struct tree *ret)
{
	*ret = g->now;
	for (size_t i = 0; i < g->nleaf; i++)
		tree_append(ret, g->leaf[i]);
}

static void put_leaves(struct tail *g, struct tree *t)
{
	for (size_t i = 0; i < g->nleaf; i++)
		tree_append_nodes(t, g->leaf[i], audit_tile_note, &g->nodes);
}

/* next = now and the leaves; bind ?pos, ?pos+1 */
static void tail_save(struct tail *g, struct db_stmt *st, unsigned pos)
{
	g->next = g->now;
	put_leaves(g, &g->next);
	tree_root(&g->next, g->root);
	db_bind_blob(st, pos, g->root, TREE_HASH);
	db_bind_blob(st, pos + 1, g->next.peak, tree_peaks(g->next.size) * TREE_HASH);
}

/* Before now grows by them: what a proof will ask for. */
static void keep_fresh(struct tail *g)
{
	for (size_t i = 0; i < g->nleaf; i++) {
		if (g->now.size + i != g->from + g->nfresh || g->nfresh == AUDIT_FRESH_MAX)
			continue;
		if (g->nfresh % 16 == 0)
			g->fresh = mem_realloc(g->fresh, (g->nfresh + 16) * sizeof(*g->fresh));
		memcpy(g->fresh[g->nfresh++], g->leaf[i], TREE_HASH);
	}
}

/* The head has all of it. */
static void tail_saved(struct tail *g)
{
	keep_fresh(g);
	g->now = g->next;
	g->nleaf = g->nodes.n = 0;
}

uint8_t (*audit_tail_fresh(struct tail *g, const struct tree *t, uint64_t *ret_from))[TREE_HASH]
{
	uint8_t (*ret)[TREE_HASH] = NULL;

	if (g->from + g->nfresh == g->now.size) {
		ret = mem_realloc(g->fresh, (g->nfresh + g->nleaf + 1) * sizeof(*ret));
		if (g->nleaf > 0)
			memcpy(ret + g->nfresh, g->leaf, g->nleaf * sizeof(*ret));
	} else {
		free(g->fresh);
	}
	g->fresh = NULL;                /* a log that rests has none */
	*ret_from = g->from;
	g->from = t->size;
	g->nfresh = 0;
	return ret;
}

static void tail_commit(struct tail *g)
{
	keep_fresh(g);
	put_leaves(g, &g->now);
	g->nleaf = 0;
}

static void tail_free(struct tail **gp)
{
	struct tail *g = *gp;

	if (!g)
		return;
	*gp = NULL;
	free(g->leaf);
	free(g->fresh);
	free(g->nodes.v);
	free(g);
}

/* The dictionary in memory starts anew above this; some 8 MB. */
enum { TEXTS_MAX = 65536, ALIASES_MAX = 65536, NEAR_SETS = 2048 };

/* --- the state */

void audit_undo_push(struct audit_logs *logs, enum undo_kind kind, void *what)
{
	if (logs->undo_len == logs->undo_cap) {
		logs->undo_cap = logs->undo_cap ? 2 * logs->undo_cap : 256;
		logs->undo = mem_realloc(logs->undo, logs->undo_cap * sizeof(*logs->undo));
	}
	logs->undo[logs->undo_len++] = (struct undo){ kind, what, 0, logs->last_id };
}

struct audit_log *audit_log_add(struct audit_logs *logs, int64_t id, int64_t tenant_id, int64_t size,
				const char *origin)
{
	const size_t len = strlen(origin);
	struct audit_log *log = mem_zalloc(sizeof(*log) + len + 1);

	list_init(&log->dirty);
	list_init(&log->lagging);
	list_init(&log->behind);
	log->id = id;
	log->tenant_id = tenant_id;
	log->size = log->saved = size;
	log->origin_len = len;
	memcpy(log->origin, origin, len + 1);
	map_set_u64(logs->by_tenant, (uint64_t)tenant_id, log);
	return log;
}

void audit_behind(struct audit_logs *logs, struct audit_log *log)
{
	if (list_empty(&log->behind))
		list_push_back(&logs->behind, &log->behind);
}

static void log_free(struct audit_log *log)
{
	tail_free(&log->tail);
	free(log);
}

struct audit_log *audit_log_find(struct audit_logs *logs, int64_t tenant_id)
{
	return map_get_u64(logs->by_tenant, (uint64_t)tenant_id);
}

struct map *audit_logs_by_id(const struct audit_logs *logs)
{
	struct map *by_id = map_new();
	void *value;

	for (size_t it = 0; map_next(logs->by_tenant, &it, NULL, NULL, &value);)
		map_set_u64(by_id, (uint64_t)((const struct audit_log *)value)->id, value);
	return by_id;
}

int audit_log_order(const void *a, const void *b)
{
	const struct audit_log *const *x = a, *const *y = b;

	return (*x)->id < (*y)->id ? -1 : (*x)->id > (*y)->id;
}

/* Oldest first: a begin comes last, one that is put back finds its place from the end. */
static void open_link(struct audit_logs *logs, struct audit_open *o)
{
	struct list *at = logs->open.prev;

	while (at != &logs->open && CONTAINER_OF(at, struct audit_open, node)->id > o->id)
		at = at->prev;
	list_push_front(at, &o->node);          /* that is: right behind `at` */
	map_set(logs->calls, o->call, sizeof(o->call), o);
}

static void open_unlink(struct audit_logs *logs, struct audit_open *o)
{
	list_unlink(&o->node);
	map_del(logs->calls, o->call, sizeof(o->call));
}

struct audit_open *audit_open_add(struct audit_logs *logs, const uint8_t call[16], int64_t id, int64_t log,
				  int64_t beg)
{
	struct audit_open *o = mem_zalloc(sizeof(*o));

	list_init(&o->node);
	memcpy(o->call, call, sizeof(o->call));
	o->id = id;
	o->log = log;
	o->beg = beg;
	open_link(logs, o);
	audit_undo_push(logs, UNDO_BEGIN, o);
	return o;
}

struct audit_open *audit_open_find(struct audit_logs *logs, const uint8_t call[16], int64_t log)
{
	struct audit_open *o = map_get(logs->calls, call, 16);

	return o && o->log == log ? o : NULL;
}

void audit_open_end(struct audit_logs *logs, struct audit_open *o)
{
	open_unlink(logs, o);
	audit_undo_push(logs, UNDO_END, o);
}

int audit_shared_locked(struct audit_logs *logs, struct err *err)
{
	if (!logs->shared || logs->locks)
		return 0;
	logs->lock_next = true;
	return err_set(err, ERR_BUSY, "audit", "heads are locked first");
}

/* The id of a text in the store, 0 when it is not there. */
static int text_in_store(struct db *db, enum audit_column col, const char *text, size_t len, int64_t *ret,
			 struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_AUDIT_GET_TEXT);
	int rc;

	db_bind_i64(st, 1, audit_columns[col].tag);
	db_bind_text(st, 2, text, len);
	rc = db_step(st, err);
	if (rc >= 0)
		*ret = rc == 1 ? db_col_i64(st, 0) : 0;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int text_insert(struct db *db, enum audit_column col, const char *text, size_t len, int64_t *ret,
		       struct err *err)
{
	const bool shared = db_is_shared(db);
	struct db_stmt *st;
	int rc;

	if (!text_utf8_valid(text, len))                /* */
		return err_set(err, ERR_INVALID, "audit", "a text for column %s is not UTF-8", audit_columns[col].name);
	st = db_stmt_get(db, shared ? SQL_AUDIT_SHARE_TEXT : SQL_AUDIT_INSERT_TEXT);
	db_bind_i64(st, 1, audit_columns[col].tag);
	db_bind_text(st, 2, text, len);
	if (!shared)
		return db_run_id(&st, ret, err);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* The entry of a text, which is in the dictionary then; it lives until the transaction is over. */
static int text_get(struct audit_logs *logs, struct db *db, enum audit_column col, const char *text,
		    const struct audit_text **ret, struct err *err)
{
	const size_t len = strnlen(text, AUDIT_TEXT_MAX + 1);
	const uint64_t tag = near_tag(col, text, len);
	char key[2 + AUDIT_TEXT_MAX];
	struct audit_text *t;
	int64_t id = 0;
	int rc;

	if (len > AUDIT_TEXT_MAX)
		return err_set(err, ERR_INVALID, "audit", "a text for column %s is longer than %d bytes", audit_columns[col].name,
			       AUDIT_TEXT_MAX);
	t = near_get(logs->near, tag);
	if (!t || t->col != col || t->len != len + 2 || memcmp(t->key + 2, text, len) != 0) {
		audit_put_be((uint8_t *)key, audit_columns[col].tag, 2);
		memcpy(key + 2, text, len);
		t = map_get(logs->texts, key, len + 2);
		if (t)
			near_put(logs->near, tag, t);
	}
	if (t) {
		*ret = t;
		return 0;
	}
	rc = text_in_store(db, col, text, len, &id, err);
	if (rc == 0 && id == 0)
		rc = audit_shared_locked(logs, err);
	if (rc == 0 && id == 0)
		rc = text_insert(db, col, text, len, &id, err);
	if (rc == 0 && id == 0)                 /* another node was faster, and has committed */
		rc = text_in_store(db, col, text, len, &id, err);
	if (rc == 0 && id == 0)
		rc = err_set(err, ERR_BUSY, "dict", "a text is neither there nor can it be put there");
	if (rc < 0)
		return rc;
	t = mem_alloc(sizeof(*t) + len + 2);
	t->id = id;
	t->col = col;
	t->len = len + 2;
	memcpy(t->key, key, len + 2);
	map_set(logs->texts, t->key, t->len, t);
	audit_undo_push(logs, UNDO_TEXT, t);
	near_put(logs->near, tag, t);
	*ret = t;
	return 0;
}

int audit_row_intern(struct audit_row *row, enum audit_column col, const char *text, struct audit_logs *logs,
		     struct db *db, struct err *err)
{
	const struct audit_text *t = NULL;
	int rc = text_get(logs, db, col, text, &t, err);

	if (rc == 0)
		audit_row_text(row, col, t->id, t->key + 2, t->len - 2);
	return rc;
}

void audit_pseudonym_keep(struct audit_logs *logs, struct audit_pseudonym_known *known)
{
	map_set(logs->aliases, known->key, known->len, known);
	audit_undo_push(logs, UNDO_ALIAS, known);
}

void audit_pseudonym_trim(struct audit_logs *logs, size_t max)
{
	if (map_count(logs->aliases) <= max)
		return;
	near_clear(logs->near_aliases);
	map_free_all(&logs->aliases);
	logs->aliases = map_new();
}

static void undo_one(struct audit_logs *logs, const struct undo *u)
{
	struct audit_log *log;
	struct audit_text *text;
	struct audit_pseudonym_known *known;

	switch (u->kind) {
	case UNDO_RECORD:
		log = u->what;
		log->size--;
		log->tail->nleaf--;
		logs->last_id = u->last_id;
		break;
	case UNDO_TEXT:
		text = u->what;
		near_clear(logs->near);
		map_del(logs->texts, text->key, text->len);
		free(text);
		break;
	case UNDO_BEGIN:
		open_unlink(logs, u->what);
		free(u->what);
		break;
	case UNDO_END:
		open_link(logs, u->what);
		break;
	case UNDO_ALIAS:
		known = u->what;
		near_clear(logs->near_aliases);
		map_del(logs->aliases, known->key, known->len);
		free(known);
		break;
	case UNDO_LOG:
		log = u->what;
		list_unlink(&log->dirty);
		list_unlink(&log->lagging);
		list_unlink(&log->behind);
		map_del_u64(logs->by_tenant, (uint64_t)log->tenant_id);
		log_free(log);
		break;
	case UNDO_HEADED:
		log = u->what;
		log->headed = u->last_id;
		audit_behind(logs, log);
		break;
	case UNDO_SAID_LAST:
		log = u->what;
		log->said_last = u->last_id;
		break;
	case UNDO_NOTED:
		log = u->what;
		log->noted.size = u->last_id;
		log->noted.ts = 0;
		audit_behind(logs, log);
		break;
	case UNDO_SAVED:
		log = u->what;
		log->tail->nodes.n = (size_t)u->last_id;
		break;
	}
}

struct audit_mark audit_logs_mark(const struct audit_logs *logs)
{
	return (struct audit_mark){ logs->undo_len };
}

void audit_logs_rollback(struct audit_logs *logs, struct audit_mark mark)
{
	assert(mark.undo <= logs->undo_len);
	forms_batch_drop(logs->gathered);
	logs->lost = false;
	while (logs->undo_len > mark.undo)
		undo_one(logs, &logs->undo[--logs->undo_len]);
	if (logs->undo_len == 0 && logs->keys)
		keys_abandon(logs->keys);
}

void audit_logs_give_keys(struct audit_logs *logs, struct keys **keys)
{
	logs->keys = *keys;
	*keys = NULL;
}

struct keys *audit_logs_keys(const struct audit_logs *logs)
{
	return logs->keys;
}

void audit_logs_clock(struct audit_logs *logs, enum clock_sync sync)
{
	logs->clock = sync;
}

static void texts_clear(struct audit_logs *logs)
{
	near_clear(logs->near);
	map_free_all(&logs->texts);
	logs->texts = map_new();
}

/* What the transaction wrote of the head is true now. */
static void head_saved(struct audit_log *log)
{
	assert(log->flushed == log->size);      /* nothing was appended behind the flush */
	log->saved = log->size;
	tail_saved(log->tail);
	list_unlink(&log->lagging);
}

void audit_logs_commit(struct audit_logs *logs)
{
	for (size_t i = 0; i < logs->undo_len; i++) {
		if (logs->undo[i].kind == UNDO_END)
			free(logs->undo[i].what);
		else if (logs->undo[i].kind == UNDO_SAVED)
			head_saved(logs->undo[i].what);
		else if (logs->undo[i].kind == UNDO_RECORD)
			tally_record((unsigned)logs->undo[i].record);
	}
	logs->undo_len = 0;
	logs->heads_due = logs->some_due = false;
	LIST_FOREACH_SAFE(n, next, &logs->dirty) {
		struct audit_log *log = CONTAINER_OF(n, struct audit_log, dirty);

		tail_commit(log->tail);
		list_unlink(n);
		if (log->saved == log->size)    /* nothing was left of what was appended */
			list_unlink(&log->lagging);
	}
	if (map_count(logs->texts) > TEXTS_MAX)
		texts_clear(logs);
	metric_set(METRIC_dictionary_texts, map_count(logs->texts));
	audit_pseudonym_trim(logs, ALIASES_MAX);
}

/* CLUSTER K-101: what failed because another node was faster is begun again. */
int audit_shared_failed(const struct audit_logs *logs, struct audit_log *log, int rc, struct err *err)
{
	if (!logs->shared || (rc != ERR_CONFLICT && rc != ERR_BUSY))
		return rc;
	log->contended = true;
	metric_inc(METRIC_cluster_conflicts);
	return err_set(err, ERR_BUSY, log->origin, "another node appends to this log");
}

/* Logs whose heads are to be written, in the order in which all nodes lock them; free() it. */
static struct audit_log **in_order(struct audit_logs *logs, size_t *ret_n)
{
	struct audit_log **order = NULL;
	size_t n = 0, cap = 0;

	LIST_FOREACH(at, &logs->lagging) {
		struct audit_log *log = CONTAINER_OF(at, struct audit_log, lagging);

		if (log->size == log->saved)            /* its records were rolled back */
			continue;
		if (n == cap)
			order = mem_realloc(order, (cap = cap ? 2 * cap : 8) * sizeof(*order));
		order[n++] = log;
	}
	if (n > 1)
		qsort(order, n, sizeof(*order), audit_log_order);
	*ret_n = n;
	return order;
}

static int save_head(struct audit_logs *logs, struct audit_log *log, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, logs->shared ? SQL_AUDIT_MOVE_HEAD : SQL_AUDIT_UPDATE_HEAD);
	int rc;

	audit_undo_push(logs, UNDO_SAVED, log);
	logs->undo[logs->undo_len - 1].last_id = (int64_t)log->tail->nodes.n;
	log->flushed = log->size;
	log->head_due = false;
	db_bind_i64(st, 1, log->id);
	db_bind_i64(st, 2, log->size);
	tail_save(log->tail, st, 3);
	if (logs->shared)
		db_bind_i64(st, 5, log->saved);
	rc = db_run(&st, err);
	if (rc == 0 && logs->shared && db_changes(db) != 1)     /* CLUSTER K-101 */
		rc = ERR_CONFLICT;
	if (rc < 0 && logs->shared)
		return audit_shared_failed(logs, log, rc, err);
	return rc < 0 ? rc : save_tiles(db, log->id, &log->tail->nodes, err);
}

void audit_heads_due(struct audit_logs *logs)
{
	logs->heads_due = true;
}

int audit_logs_flush_rows(struct audit_logs *logs, struct db *db, struct err *err)
{
	int rc = logs->keys ? keys_remember(logs->keys, db, err) : 0;

	if (rc == 0 && logs->keys)
		rc = keys_commit(logs->keys, err);      /* AUDIT A-504 */
	if (rc == 0 && logs->shared) {
		size_t n;
		struct audit_log **order = in_order(logs, &n);

		for (size_t i = 0; rc == 0 && i < n; i++)
			rc = save_head(logs, order[i], db, err);
		for (size_t i = 0; rc == ERR_BUSY && i < n; i++)        /* all of them are locked, in order, at the next try */
			order[i]->contended = true;
		free(order);
		return rc;
	}
	if (!logs->heads_due && !logs->some_due)
		return rc;
	LIST_FOREACH(n, &logs->lagging) {
		struct audit_log *log = CONTAINER_OF(n, struct audit_log, lagging);

		/* Else its records were rolled back. */
		if (rc == 0 && (logs->heads_due || log->head_due) && log->size != log->saved)
			rc = save_head(logs, log, db, err);
	}
	return rc;
}

int audit_logs_flush(struct audit_logs *logs, struct db *db, struct err *err)
{
	audit_heads_due(logs);
	return audit_logs_flush_rows(logs, db, err);
}

int audit_save_open_from(struct audit_logs *logs, struct db *db, struct err *err)
{
	int64_t from = logs->last_id + 1;
	char text[24];

	if (logs->shared)               /* with each transaction, in the row of its node */
		return 0;
	if (!list_empty(&logs->open))
		from = CONTAINER_OF(logs->open.next, struct audit_open, node)->id;
	snprintf(text, sizeof(text), "%" PRId64, from);
	return db_meta_set(db, META_OPEN_FROM, text, err);
}

static int load_logs(struct audit_logs *logs, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_AUDIT_LIST_LOGS);
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		int64_t id = db_col_i64(st, 0), said = db_col_i64(st, 3), size = db_col_i64(st, 4);
		const bool stopped = db_col_i64(st, 9);
		struct audit_log *log;

		/* Records gone, or added behind our back: a stop leaves no head behind.  Nothing may be appended to that. */
		if (size < said || (size > said && stopped)) {
			char where[40];

			snprintf(where, sizeof(where), "log/%" PRId64, id);
			rc = err_set(err, ERR_CORRUPT, where, "the log %s should have %" PRId64 " records and has %" PRId64,
				     db_col_text(st, 2, NULL), said, size);
			err_hint(err, "toolcrib-verify STORE says what is missing");
			break;
		}
		log = audit_log_add(logs, id, db_col_i64(st, 1), size, db_col_text(st, 2, NULL));
		log->saved = said;
		logs->newest_log = id > logs->newest_log ? id : logs->newest_log;
		if (said < size)
			list_push_back(&logs->lagging, &log->lagging);
		log->noted.size = log->headed = log->said_last = db_col_i64(st, 5);
		log->noted.epoch = db_col_i64(st, 6);
		log->noted.ts = db_col_i64(st, 7);
		log->min_idx = db_col_i64(st, 8);
		if (log->tenant_id == 0)
			logs->found = size;
		if (log->noted.size < size)
			audit_behind(logs, log);
	}
	db_stmt_put(&st);
	return rc;
}

/* Of a store whose server did not stop: each record that a head does not know follows the one before, and is as it was
 * written, or nothing is appended to it (SCALE SC-104). */
static int load_tails(struct audit_logs *logs, struct db *db, struct err *err)
{
	int rc = 0;

	LIST_FOREACH(n, &logs->lagging)
		rc = rc < 0 ? rc : audit_tail_open(CONTAINER_OF(n, struct audit_log, lagging), db, err);
	return rc;
}

static int load_last_id(struct audit_logs *logs, struct db *db, struct err *err)
{
	struct db_stmt *st;
	int rc;

	if (logs->shared)
		return 0;
	st = db_stmt_get(db, SQL_AUDIT_LAST_ID);
	rc = db_step(st, err);
	if (rc == 1)
		logs->last_id = db_col_i64(st, 0);      /* NULL reads as 0 */
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int audit_logs_open(struct db *db, struct audit_logs **ret, struct err *err)
{
	struct audit_logs *logs = mem_zalloc(sizeof(*logs));
	struct clock_state clock;
	void *log;
	int rc;

	logs->shared = logs->locks = db_is_shared(db);  /* until a batch begins */
	logs->by_tenant = map_new();
	logs->texts = map_new();
	logs->calls = map_new();
	logs->aliases = map_new();
	logs->near = near_new(NEAR_SETS);
	logs->gathered = forms_batch_new();
	logs->near_aliases = near_new(NEAR_SETS);
	list_init(&logs->open);
	list_init(&logs->dirty);
	list_init(&logs->lagging);
	list_init(&logs->behind);
	logs->shared ? id_random_text(logs->boot, 22) : id_boot(logs->boot, sizeof(logs->boot)); /* nodes are told apart */
	clock_state(&clock);
	audit_logs_clock(logs, clock.sync);
	snprintf(logs->build, sizeof(logs->build), "%s", PACKAGE_STRING);
	rc = db_meta_get(db, META_INSTANCE, logs->instance, sizeof(logs->instance), err);
	if (rc == 0)
		rc = forms_see(db, err);        /* what is read here may be in blocks; what is written names the file's tables */
	if (rc == 0)
		rc = load_logs(logs, db, err);
	for (size_t it = 0; rc == 0 && !logs->shared && map_next(logs->by_tenant, &it, NULL, NULL, &log);)
		rc = tail_tiles(log, db, err);
	if (rc == 0)
		rc = load_tails(logs, db, err);
	if (rc == 0)
		rc = load_last_id(logs, db, err);
	if (rc < 0) {
		audit_logs_close(&logs);
		return rc;
	}
	*ret = logs;
	return 0;
}

void audit_logs_close(struct audit_logs **lp)
{
	struct audit_logs *logs = lp ? *lp : NULL;
	void *value;

	if (!logs)
		return;
	*lp = NULL;
	audit_logs_rollback(logs, (struct audit_mark){ 0 });
	for (size_t it = 0; map_next(logs->by_tenant, &it, NULL, NULL, &value);)
		log_free(value);
	LIST_FOREACH_SAFE(n, next, &logs->open)
		free(CONTAINER_OF(n, struct audit_open, node));
	map_free(&logs->by_tenant);
	map_free(&logs->calls);
	map_free_all(&logs->texts);
	map_free_all(&logs->aliases);
	near_free(&logs->near);
	near_free(&logs->near_aliases);
	free(logs->second.v);
	keys_close(&logs->keys);
	str_fini(&logs->kept);
	str_fini(&logs->clean);
	free(logs->ct.p);
	free(logs->bytes.p);
	free(logs->ext.p);
	free(logs->gathered);
	free(logs->undo);
	free(logs);
}
