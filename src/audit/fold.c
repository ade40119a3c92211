/* Folding (audit/fold.h): rows become a block that gave each of their leaves back before anybody puts it, and leftovers
 * are compared with what replaced them: any thread with a reader.  Then the writer's half: blocks are put, the rows
 * that they were made of go, and what is erased or pruned goes out of blocks as well (SC-803, SC-804). */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/fold.h"
#include "audit/record.h"
#include "base/map.h"
#include "base/mem.h"
#include "block/block.h"
#include "db/db.h"
#include "forms/forms.h"

#include "audit_int.h"

enum {
	TEXTS_MAX = 65536, TILE = TILE_WIDTH,
	PRUNE_BLOCKS = 4,               /* or chapters, in one step: some 1 MiB, which secure_delete writes over */
};

/* --- what both halves use */

/* Texts of the dictionary, for readers of blocks; forgotten when there are many. */
struct texts { struct db *db; struct map *by_id; };

/* Where a log stands: where its newest block ends, or, without one, its first record is; erasures so far. */
struct line {
	int64_t next, cut, erasures;    /* cut: the first record that was not pruned */
	bool waits;                     /* for blocks below the cut to go */
};

/* A proposal, with the bytes that follow it. */
struct made_group { int64_t first; struct audit_bytes body; };
struct folded {
	struct audit_folded face;
	int64_t erasures;
	struct block b;
	struct audit_bytes bytes;       /* of b */
	struct made_group *group; size_t groups;
};

struct text { int64_t kind; size_t len; char p[]; };

static void texts_init(struct texts *t, struct db *db)
{
	*t = (struct texts){ db, map_new() };
}


static struct text *text_read(struct db_stmt *st)
{
	size_t len = 0;
	const char *p = db_col_text(st, 1, &len);
	struct text *text = mem_alloc(sizeof(*text) + len + 1);

	text->kind = db_col_i64(st, 0);
	text->len = len;
	memcpy(text->p, p, len);
	text->p[len] = '\0';
	return text;
}

static int get_text(void *arg, uint16_t kind, int64_t id, const char **ret, size_t *ret_len, struct err *err)
{
	struct texts *t = arg;
	struct text *text = map_get_u64(t->by_id, (uint64_t)id);
	struct db_stmt *st;
	int rc = 1;

	if (!text) {
		st = db_stmt_get(t->db, SQL_AUDIT_GET_ENTRY);
		db_bind_i64(st, 1, id);
		rc = db_step(st, err);
		if (rc == 1 && db_col_type(st, 1) == DB_TEXT) {
			text = text_read(st);
			map_set_u64(t->by_id, (uint64_t)id, text);
		}
		db_stmt_put(&st);
	}
	if (rc < 0 || !text || text->kind != kind)
		return rc < 0 ? rc : 0;
	*ret = text->p;
	*ret_len = text->len;
	return 1;
}

/* ret_origin: of the log, the caller frees it; or NULL. */
static int read_line(struct db *db, int64_t log, struct line *ret, char **ret_origin, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FOLD_LINE);
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	if (rc == 1) {
		const bool any = db_col_type(st, 0) != DB_NULL;
		const int64_t end = db_col_i64(st, 0), first = db_col_i64(st, 1);

		*ret = (struct line){ any ? end : first, first, db_col_i64(st, 2), any && end < first };
		if (ret_origin)
			*ret_origin = db_col_dup(st, 3);
	} else if (rc == 0) {
		rc = err_set(err, ERR_NOT_FOUND, "audit", "there is no log %" PRId64, log);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static struct block_bytes bytes_of(struct db_stmt *st, unsigned col)
{
	struct block_bytes b = { 0 };

	b.p = db_col_blob(st, col, &b.len);
	return b;
}

static void read_block(struct db_stmt *st, struct block *ret)
{
	*ret = (struct block){ .first = db_col_i64(st, 0), .cnt = db_col_i64(st, 1), .fmt = db_col_i64(st, 2),
		.ts_min = db_col_i64(st, 3), .ts_max = db_col_i64(st, 4), .cols = bytes_of(st, 5),
		.hash = bytes_of(st, 6), .zone = bytes_of(st, 7) };
}

/* --- a proposal */

struct kept { struct block_payload v[BLOCK_PAYLOADS_MAX]; };

struct audit_folder {
	struct db *db;
	struct texts texts;
	struct block_maker *maker;
	struct block_reader *checker;
	struct audit_reader *rows;
	struct kept kept;
	uint8_t (*leaf)[TREE_HASH];     /* of the rows of the block */
	bool held;                      /* a read transaction is open */
	int64_t log, next;              /* where its proposals that will have been put end; log 0: of none */
};

struct audit_folder *audit_folder_new(struct db *db)
{
	struct audit_folder *f = mem_zalloc(sizeof(*f));

	f->db = db;
	texts_init(&f->texts, db);
	f->maker = block_maker_new();
	f->leaf = mem_calloc(AUDIT_FOLD_RECORDS, TREE_HASH);
	return f;
}

void audit_folder_free(struct audit_folder **fp)
{
	struct audit_folder *f = *fp;

	if (!f)
		return;
	*fp = NULL;
	map_free_all(&f->texts.by_id);
	block_maker_free(&f->maker);
	block_reader_free(&f->checker);
	audit_reader_free(&f->rows);
	free(f->leaf);
	free(f);
}

void audit_folded_free(struct audit_folded **fp)
{
	struct folded *f = (struct folded *)*fp;

	if (!f)
		return;
	*fp = NULL;
	for (size_t i = 0; i < f->groups; i++)
		free(f->group[i].body.p);
	free(f->group);
	free(f->bytes.p);
	free(f);
}

static int at_record(int64_t log, int64_t idx, int rc, struct err *err)
{
	char where[64];

	(void)snprintf(where, sizeof(where), "log/%" PRId64 "/idx/%" PRId64, log, idx);
	if (err)
		(void)snprintf(err->where, sizeof(err->where), "%s", where);
	return rc;
}

/* Rows from `from` on go into the maker, as many as one block has room for. */
static int take_rows(struct audit_folder *f, struct audit_page *page, int64_t *ret_n, struct err *err)
{
	struct audit_read got;
	int64_t n = 0, at = page->from;
	int rc;

	audit_reader_free(&f->rows);            /* begin anew: its statement is of a page */
	f->rows = audit_reader_new(f->db);
	while ((rc = audit_reader_next(f->rows, page, &got, err)) == 1) {
		if (got.idx != at + n || got.findings)
			rc = err_set(err, ERR_CORRUPT, "", "record %" PRId64 " of %s is %s", at + n, page->origin,
				     got.idx == at + n ? "not as it was written" : "missing");
		else
			rc = block_maker_add(f->maker, &got.row, err);
		if (rc != 0)
			break;
		memcpy(f->leaf[n++], got.leaf, TREE_HASH);
	}
	audit_reader_free(&f->rows);
	*ret_n = n;
	return rc < 0 ? at_record(page->log, at + n, rc, err) : 0;
}

static void copy_block(struct folded *ret, const struct block *b)
{
	struct audit_bytes *to = &ret->bytes;
	const struct block_bytes *from[] = { &b->cols, &b->hash, &b->zone };
	struct block_bytes *at[] = { &ret->b.cols, &ret->b.hash, &ret->b.zone };

	ret->b = *b;
	to->p = mem_alloc(b->cols.len + b->hash.len + b->zone.len + 1);
	for (size_t i = 0; i < NELEMS(from); i++) {
		if (from[i]->len > 0)
			memcpy(to->p + to->len, from[i]->p, from[i]->len);
		at[i]->p = to->p + to->len;
		to->len += from[i]->len;
	}
}

/* One for all blocks: its tables are larger than a block of few records. */
static struct block_reader *checker_of(struct audit_folder *f, const struct block_texts *texts)
{
	if (!f->checker)
		f->checker = block_reader_new(NULL);
	block_reader_go_on(f->checker, texts);
	return f->checker;
}

/* SC-203: what was made gives each leaf back. */
static int check_block(struct audit_folder *f, const char *origin, const struct folded *made, struct err *err)
{
	struct block_texts texts = { .log = made->face.log, .origin = origin, .fn = get_text, .arg = &f->texts };
	int rc = block_check(checker_of(f, &texts), &made->b, (const uint8_t (*)[TREE_HASH])f->leaf, err);

	return rc < 0 ? at_record(made->face.log, made->face.first, rc, err) : 0;
}

/* --- what is kept beside the rows of a proposal */

static void keep(struct kept *kept, size_t i, struct db_stmt *st)
{
	struct block_bytes *to[] = { &kept->v[i].salt, &kept->v[i].nonce, &kept->v[i].ct };

	for (unsigned k = 0; k < NELEMS(to); k++) {
		size_t len = 0;
		const void *p = db_col_blob(st, k + 1, &len);
		uint8_t *copy;

		if (db_col_type(st, k + 1) == DB_NULL)
			continue;
		copy = mem_alloc(len + 1);
		if (len > 0)
			memcpy(copy, p, len);
		*to[k] = (struct block_bytes){ copy, len };
	}
}

static void forget_kept(struct kept *kept, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct block_bytes *of[] = { &kept->v[i].salt, &kept->v[i].nonce, &kept->v[i].ct };

		for (unsigned k = 0; k < NELEMS(of); k++)
			free((void *)(uintptr_t)of[k]->p);
	}
	memset(kept->v, 0, n * sizeof(kept->v[0]));
}

/* Of records from <= idx < to, which are of one tile; true in *ret_any: something is kept. */
static int read_kept(struct db *db, int64_t log, int64_t from, int64_t to, struct kept *kept, bool *ret_any,
		     struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FOLD_LIST_KEPT);
	int rc;

	*ret_any = false;
	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, from);
	db_bind_i64(st, 3, to);
	while ((rc = db_step(st, err)) == 1) {
		keep(kept, (size_t)(db_col_i64(st, 0) - from), st);
		*ret_any = true;
	}
	db_stmt_put(&st);
	return rc;
}

/* Groups of a tile, more than one when they are large; what is left of its end is read again for the next. */
static int make_group(struct audit_folder *f, struct folded *made, int64_t *at, int64_t end, struct err *err)
{
	struct kept *kept = &f->kept;
	int64_t to = *at - *at % TILE + TILE;
	struct made_group *g = &made->group[made->groups];
	bool any = false;
	size_t n = 0;
	int rc;

	to = to < end ? to : end;
	rc = read_kept(f->db, made->face.log, *at, to, kept, &any, err);
	if (rc == 0 && any) {
		*g = (struct made_group){ .first = *at };
		rc = block_payloads_write(kept->v, (size_t)(to - *at), &g->body, &n, err);
		made->groups += rc == 0;
	}
	forget_kept(kept, (size_t)(to - *at));
	if (rc < 0)
		return at_record(made->face.log, *at, rc, err);
	*at = any ? *at + (int64_t)n : to;
	return 0;
}

static int make_groups(struct audit_folder *f, struct folded *made, struct err *err)
{
	int64_t at = made->face.first, end = at + made->face.cnt;
	int rc = 0;

	made->group = mem_calloc((size_t)made->face.cnt, sizeof(*made->group));         /* when each record is large */
	while (rc == 0 && at < end)
		rc = make_group(f, made, &at, end, err);
	return rc;
}

/* --- the next block */

/* Where the block that begins there ends at the latest. */
static int64_t end_of(int64_t first, int64_t to)
{
	const int64_t most = first + AUDIT_FOLD_RECORDS;

	return to < most ? to : most - most % TILE;
}

int audit_folder_line(struct audit_folder *f, int64_t log, int64_t *ret, bool *ret_waits, struct err *err)
{
	struct line line;
	int rc = read_line(f->db, log, &line, NULL, err);

	if (rc < 0)
		return rc;
	*ret = line.next;
	*ret_waits = line.waits;
	return 0;
}

static int make(struct audit_folder *f, struct audit_page *page, int64_t erasures, struct audit_folded **ret,
		struct err *err)
{
	struct folded *made;
	struct audit_folded *face;
	struct block b;
	int64_t n = 0;
	int rc = take_rows(f, page, &n, err);

	/* What comes before a row that cannot be folded can be, and the next one stops there (SC-204). */
	if (n == 0 || (rc < 0 && rc != ERR_CORRUPT && rc != ERR_INVALID)) {
		if (n > 0)
			block_maker_end(f->maker, &b);
		return rc;
	}
	block_maker_end(f->maker, &b);
	made = mem_zalloc(sizeof(*made));
	made->face = (struct audit_folded){ page->log, b.first, b.cnt };
	made->erasures = erasures;
	copy_block(made, &b);
	face = &made->face;
	rc = check_block(f, page->origin, made, err);
	if (rc == 0)
		rc = make_groups(f, made, err);
	if (rc < 0) {
		audit_folded_free(&face);
		return rc;
	}
	*ret = face;
	return 1;
}

/* Texts of which the checker has some. */
static void trim(struct audit_folder *f)
{
	if (map_count(f->texts.by_id) < TEXTS_MAX)
		return;
	block_reader_free(&f->checker);
	map_free_all(&f->texts.by_id);
	texts_init(&f->texts, f->db);
}

int audit_folder_hold(struct audit_folder *f, struct err *err)
{
	int rc = db_txn_begin(f->db, false, err);

	f->held = rc == 0;
	f->log = 0;
	return rc;
}

int audit_folder_let_go(struct audit_folder *f, int rc, struct err *err)
{
	f->held = false;
	return db_txn_end(f->db, rc, err);
}

int audit_folder_next(struct audit_folder *f, int64_t log, int64_t to, struct audit_folded **ret, struct err *err)
{
	struct line line;
	char *origin = NULL;
	int rc = f->held ? 0 : db_txn_begin(f->db, false, err);         /* rows, what is kept and erasures of one moment */

	if (rc < 0)
		return rc;
	trim(f);
	rc = read_line(f->db, log, &line, &origin, err);
	if (rc == 0 && f->log == log && f->next > line.next)
		line.next = f->next;
	if (rc == 0 && !line.waits && line.next < to) {
		struct audit_page page = { .log = log, .origin = origin, .from = line.next, .to = end_of(line.next, to) };

		rc = make(f, &page, line.erasures, ret, err);
	}
	free(origin);
	return f->held ? rc : db_txn_end(f->db, rc, err);
}

/* --- leftovers */

void audit_folder_go_on(struct audit_folder *f, const struct audit_folded *folded)
{
	f->log = folded->log;
	f->next = folded->first + folded->cnt;
}

/* The rows of a block that are still there are what it says. */
static int compare(struct audit_folder *f, int64_t log, const char *origin, const struct block *b, int64_t from,
		   struct err *err)
{
	struct block_texts texts = { .log = log, .origin = origin, .fn = get_text, .arg = &f->texts };
	struct audit_page page = { .log = log, .origin = origin, .from = from, .to = b->first + b->cnt,
		.leftovers = true };
	struct block_reader *r = checker_of(f, &texts);
	struct audit_reader *rows = audit_reader_new(f->db);
	int rc = block_open(r, b, BLOCK_ALL_COLUMNS, err);
	uint8_t leaf[TREE_HASH];
	struct audit_read got;

	if (rc < 0)
		(void)at_record(log, b->first, rc, err);
	while (rc == 0 && (rc = audit_reader_next(rows, &page, &got, err)) == 1) {
		rc = block_leaf(r, got.idx - b->first, leaf, err);
		if (rc == 0 && (got.findings || memcmp(leaf, got.leaf, TREE_HASH) != 0))
			rc = err_set(err, ERR_CORRUPT, "", "the row of record %" PRId64 " of %s is not what its block has", got.idx, origin);
		if (rc < 0)
			(void)at_record(log, got.idx, rc, err);
	}
	audit_reader_free(&rows);
	return rc;
}

static int look_left(struct audit_folder *f, int64_t log, int64_t line, const char *origin, int64_t *ret_from,
		     int64_t *ret_to, struct err *err)
{
	struct db_stmt *st = db_stmt_get(f->db, SQL_FOLD_OLDEST_LEFT);
	struct block b;
	int64_t idx;
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, line);
	rc = db_step(st, err);
	if (rc == 1) {
		read_block(st, &b);
		idx = db_col_i64(st, 8);
		if (b.cnt < 1 || b.cnt > BLOCK_RECORDS_MAX || idx - b.first >= b.cnt)
			rc = at_record(log, idx, err_set(err, ERR_CORRUPT, "", "no block of %s has the record %" PRId64, origin, idx), err);
		else
			rc = compare(f, log, origin, &b, idx, err);
		if (rc == 0) {
			*ret_from = idx;
			*ret_to = b.first + b.cnt;
			rc = 1;
		}
	}
	db_stmt_put(&st);
	return rc;
}

int audit_folder_left(struct audit_folder *f, int64_t log, int64_t *ret_from, int64_t *ret_to, struct err *err)
{
	struct line line;
	char *origin = NULL;
	int rc = f->held ? 0 : db_txn_begin(f->db, false, err);

	if (rc < 0)
		return rc;
	trim(f);
	rc = read_line(f->db, log, &line, &origin, err);
	if (rc == 0)
		rc = look_left(f, log, line.next, origin, ret_from, ret_to, err);
	free(origin);
	return f->held ? rc : db_txn_end(f->db, rc, err);
}

/* --- the writer's half: putting, and what goes then */

static int put_block(struct db *db, int64_t log, const struct block *b, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FOLD_PUT_BLOCK);
	const struct block_bytes *bytes[] = { &b->cols, &b->hash, &b->zone };
	const int64_t number[] = { log, b->first, b->cnt, b->fmt, b->ts_min, b->ts_max };

	for (unsigned i = 0; i < NELEMS(number); i++)
		db_bind_i64(st, 1 + i, number[i]);
	for (unsigned i = 0; i < NELEMS(bytes); i++)
		db_bind_blob(st, 7 + i, bytes[i]->len > 0 ? bytes[i]->p : "", bytes[i]->len);
	return db_run(&st, err);
}

/* Begins in the block whose end has not come. */
static int put_open(struct audit_logs *logs, struct db *db, const struct audit_folded *made, struct err *err)
{
	int rc = 0;

	LIST_FOREACH(n, &logs->open) {
		struct audit_open *o = CONTAINER_OF(n, struct audit_open, node);
		struct db_stmt *st;

		if (rc < 0 || o->log != made->log || o->beg < made->first || o->beg - made->first >= made->cnt)
			continue;
		st = db_stmt_get(db, SQL_FOLD_PUT_OPEN);
		db_bind_i64(st, 1, o->log);
		db_bind_i64(st, 2, o->beg);
		db_bind_blob(st, 3, o->call, sizeof(o->call));
		rc = db_run(&st, err);
		o->folded = true;
	}
	return rc;
}

int audit_fold_put(struct audit_logs *logs, struct db *db, const struct audit_folded *folded, struct err *err)
{
	const struct folded *made = (const struct folded *)folded;
	struct line line;
	int rc = read_line(db, folded->log, &line, NULL, err);

	if (rc < 0)
		return rc;
	if (line.waits || line.next != folded->first || line.erasures != made->erasures)
		return err_set(err, ERR_CONFLICT, "", "a block of log %" PRId64 " was made of what has changed since", folded->log);
	rc = put_block(db, folded->log, &made->b, err);
	for (size_t i = 0; rc == 0 && i < made->groups; i++)
		rc = forms_group_put(db, folded->log, made->group[i].first, &made->group[i].body, err);
	if (rc == 0)
		rc = put_open(logs, db, folded, err);
	return rc;
}

static int drop_slice(struct db *db, enum sql_id sql, int64_t log, int64_t from, int64_t to, int64_t upto,
		      struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, sql);

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, from);
	db_bind_i64(st, 3, to);
	db_bind_i64(st, 4, AUDIT_FOLD_SLICE);
	db_bind_i64(st, 5, upto);
	return db_run(&st, err);
}

int audit_fold_drop(struct db *db, int64_t log, int64_t from, int64_t to, int64_t upto, int64_t *ret_n, struct err *err)
{
	struct line line;
	int rc = read_line(db, log, &line, NULL, err);

	if (rc == 0 && (line.waits || to > line.next))
		rc = err_set(err, ERR_CONFLICT, "", "rows of log %" PRId64 " are in no block", log);
	if (rc == 0)
		rc = drop_slice(db, SQL_FOLD_DROP_KEPT, log, from, to, upto, err);
	if (rc == 0)
		rc = drop_slice(db, SQL_FOLD_DROP_ROWS, log, from, to, upto, err);
	if (rc == 0)
		*ret_n = db_changes(db);
	return rc == 0 ? forms_spans_drop(db, err) : rc;
}

/* --- erasing */

int fold_erased(struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FOLD_ERASED);

	return db_run(&st, err);
}

int fold_erase_at(struct db *db, int64_t log, int64_t idx, bool *ret_had, struct err *err)
{
	struct forms_group *g;
	int rc = forms_group_read(db, log, idx, &g, err);

	if (rc == 1 && g->v[idx - g->first].salt.p) {
		g->v[idx - g->first] = (struct block_payload){ 0 };
		rc = forms_group_write(db, log, g, err);
		*ret_had = *ret_had || rc == 0;
	}
	forms_group_free(&g);
	return rc < 0 ? rc : 0;
}

static bool is_one_of(int64_t key, const int64_t *ids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ids[i] == key)
			return true;
	return n == 0;
}

/* Of the records of an open block from *at on, which moves behind the group: those under the keys go out of the group
 * that *at is in. */
static int erase_group(struct db *db, int64_t log, const struct block_reader *r, const int64_t *ids, size_t n,
		       int64_t end, int64_t *at, struct err *err)
{
	struct forms_group *g;
	int64_t first = block_first(r), next, key;
	bool changed = false;
	int rc = forms_group_read(db, log, *at, &g, err);

	next = rc == 1 ? g->first + (int64_t)g->n : *at + 1;
	for (int64_t idx = *at; rc == 1 && idx < next && idx < end; idx++) {
		struct block_payload *v = &g->v[idx - g->first];

		if (!v->salt.p || (n > 0 && (!block_number(r, COL_KEY, idx - first, &key) || !is_one_of(key, ids, n))))
			continue;
		*v = (struct block_payload){ 0 };
		changed = true;
	}
	if (changed)
		rc = forms_group_write(db, log, g, err);
	forms_group_free(&g);
	*at = next;
	return rc < 0 ? rc : 0;
}

/* The first block that ends behind idx, borrowed from *ret_st, which the caller puts: 1; 0: there is none. */
static int next_block(struct db *db, int64_t log, int64_t idx, struct db_stmt **ret_st, struct block *ret,
		      struct err *err)
{
	int rc;

	*ret_st = db_stmt_get(db, SQL_FOLD_NEXT_BLOCK);
	db_bind_i64(*ret_st, 1, log);
	db_bind_i64(*ret_st, 2, idx);
	rc = db_step(*ret_st, err);
	if (rc == 1)
		read_block(*ret_st, ret);
	return rc;
}

int fold_erase_block(struct db *db, int64_t log, const int64_t *ids, size_t n, int64_t before, int64_t *cursor,
		     bool *ret_end, struct err *err)
{
	struct block_reader *r = block_reader_new(NULL);
	struct db_stmt *st = NULL;
	struct block b;
	int64_t at, end;
	int rc = next_block(db, log, *cursor, &st, &b, err);

	*ret_end = rc == 0 || (rc == 1 && b.first >= before);
	if (rc == 1 && !*ret_end) {
		rc = block_open(r, &b, BLOCK_COLUMN(COL_KEY), err);
		at = b.first > *cursor ? b.first : *cursor;
		end = b.first + b.cnt < before ? b.first + b.cnt : before;
		while (rc == 0 && at < end)
			rc = erase_group(db, log, r, ids, n, end, &at, err);
		if (rc == 0)
			*cursor = b.first + b.cnt;
	}
	db_stmt_put(&st);
	block_reader_free(&r);
	return rc < 0 ? rc : 0;
}

/* --- pruning */

static int prune_slice(struct db *db, enum sql_id sql, int64_t log, int64_t cut, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, sql);

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, cut);
	if (sql == SQL_FOLD_PRUNE_BLOCKS || sql == SQL_FOLD_PRUNE_CHAPTERS)
		db_bind_i64(st, 3, PRUNE_BLOCKS);
	return db_run(&st, err);
}

/* The records of a block from the cut on, as a block of their own, whose records have the leaves that they had. */
static int make_rest(struct texts *dict, int64_t log, const struct block *b, int64_t cut, struct block_maker *m,
		     struct block *ret, struct err *err)
{
	struct block_texts texts = { .log = log, .origin = "", .fn = get_text, .arg = dict };
	struct block_reader *r = block_reader_new(&texts), *again = block_reader_new(&texts);
	uint8_t (*leaf)[TREE_HASH] = mem_calloc(BLOCK_RECORDS_MAX, TREE_HASH);
	int64_t n = 0;
	int rc = block_open(r, b, BLOCK_ALL_COLUMNS, err);

	for (int64_t i = cut - b->first; rc == 0 && i < b->cnt; i++) {
		struct audit_row row;

		rc = block_row(r, i, &row, err);
		if (rc == 0)
			rc = block_leaf(r, i, leaf[n++], err);
		if (rc == 0)
			rc = block_maker_add(m, &row, err);
	}
	if (rc == 1)
		rc = err_set(err, ERR_INTERNAL, "audit", "a part of a block has no room in one");
	if (block_maker_count(m) > 0)
		block_maker_end(m, ret);
	if (rc == 0)
		rc = block_check(again, ret, (const uint8_t (*)[TREE_HASH])leaf, err);
	block_reader_free(&r);
	block_reader_free(&again);
	free(leaf);
	return rc;
}

int audit_fold_cut(struct db *db, int64_t log, int64_t cut, struct err *err)
{
	struct block_maker *m = block_maker_new();
	struct texts dict;
	struct db_stmt *st = NULL;
	struct block b, rest;
	int64_t first = 0;
	int rc = next_block(db, log, cut, &st, &b, err);
	bool through = rc == 1 && b.first < cut;

	texts_init(&dict, db);
	if (through) {
		first = b.first;
		rc = make_rest(&dict, log, &b, cut, m, &rest, err);
	}
	db_stmt_put(&st);
	if (through && rc == 0) {
		st = db_stmt_get(db, SQL_FOLD_DELETE_BLOCK);
		db_bind_i64(st, 1, log);
		db_bind_i64(st, 2, first);
		rc = db_run(&st, err);
		if (rc == 0)
			rc = put_block(db, log, &rest, err);
	}
	map_free_all(&dict.by_id);
	block_maker_free(&m);
	return rc < 0 ? rc : forms_group_cut(db, log, cut, err);
}

int fold_prune(struct db *db, int64_t log, bool *ret_more, struct err *err)
{
	struct line line;
	int rc = read_line(db, log, &line, NULL, err);

	if (rc == 0)
		rc = prune_slice(db, SQL_FOLD_PRUNE_BOOKS, log, line.cut, err);
	if (rc == 0)
		rc = prune_slice(db, SQL_FOLD_PRUNE_CHAPTERS, log, line.cut, err);
	*ret_more = rc == 0 && db_changes(db) == PRUNE_BLOCKS;
	if (rc < 0 || *ret_more)
		return rc;
	rc = prune_slice(db, SQL_FOLD_PRUNE_BLOCKS, log, line.cut, err);
	*ret_more = rc == 0 && db_changes(db) == PRUNE_BLOCKS;
	if (rc == 0 && !*ret_more)
		rc = audit_fold_cut(db, log, line.cut, err);
	if (rc == 0)
		rc = prune_slice(db, SQL_FOLD_PRUNE_GROUPS, log, line.cut, err);
	return rc < 0 ? rc : prune_slice(db, SQL_FOLD_PRUNE_OPEN, log, line.cut, err);
}
