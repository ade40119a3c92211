/* Making a sealed file (segment/segment.h): records become blocks that are aligned, their texts get small ids in the
 * order in which they come, what is kept beside them goes tile by tile; or all of it is as another file has it, but
 * for what is erased.  One transaction, by one thread. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "block/block.h"
#include "db/db.h"
#include "segment/segment.h"

struct segment_maker {
	struct db *db;
	char *path;
	int64_t from, next;             /* the first record; the one that comes */
	struct block_maker *blocks;
	struct map *texts;              /* id of the source -> struct local */
	int64_t ntexts;
	struct block_payload kept[SEGMENT_UNIT];        /* of the tile of the last record; owned */
	bool any;                       /* of it something is kept */
};
struct local { int64_t id; };

static void forget_kept(struct segment_maker *m)
{
	for (size_t i = 0; m->any && i < SEGMENT_UNIT; i++) {
		free((void *)(uintptr_t)m->kept[i].salt.p);
		free((void *)(uintptr_t)m->kept[i].nonce.p);
		free((void *)(uintptr_t)m->kept[i].ct.p);
	}
	memset(m->kept, 0, sizeof(m->kept));
	m->any = false;
}

static void maker_free(struct segment_maker *m)
{
	void *value;

	for (size_t it = 0; map_next(m->texts, &it, NULL, NULL, &value);)
		free(value);
	map_free(&m->texts);
	forget_kept(m);
	block_maker_free(&m->blocks);
	db_close(&m->db);
	free(m->path);
	free(m);
}

int segment_make(const char *path, int64_t from, struct segment_maker **ret, struct err *err)
{
	struct segment_maker *m;
	struct db *db = NULL;
	int rc = db_segment_make(path, &db, err);

	if (rc < 0)
		return rc;
	m = mem_zalloc(sizeof(*m));
	m->db = db;
	m->path = mem_strdup(path);
	m->from = m->next = from;
	m->blocks = block_maker_new();
	m->texts = map_new();
	rc = db_txn_begin(db, true, err);
	if (rc < 0)
		segment_drop(&m);
	else
		*ret = m;
	return rc;
}

/* --- what goes into its tables */

static int insert_block(struct segment_maker *m, const struct block *b, struct err *err)
{
	const struct block_bytes *bytes[] = { &b->cols, &b->hash, &b->zone };
	struct db_stmt *st = db_stmt_get(m->db, SQL_SEGMENT_PUT_BLOCK);

	db_bind_i64(st, 1, b->first);
	db_bind_i64(st, 2, b->cnt);
	db_bind_i64(st, 3, b->fmt);
	db_bind_i64(st, 4, b->ts_min);
	db_bind_i64(st, 5, b->ts_max);
	for (unsigned i = 0; i < NELEMS(bytes); i++)
		db_bind_blob(st, 6 + i, bytes[i]->len > 0 ? bytes[i]->p : "", bytes[i]->len);
	return db_run(&st, err);
}

static int put_block(struct segment_maker *m, struct err *err)
{
	struct block b;

	if (block_maker_count(m->blocks) == 0)
		return 0;
	block_maker_end(m->blocks, &b);
	return insert_block(m, &b, err);
}

static int insert_group(struct segment_maker *m, int64_t first, const void *body, size_t len, struct err *err)
{
	struct db_stmt *st = db_stmt_get(m->db, SQL_SEGMENT_PUT_GROUP);

	db_bind_i64(st, 1, first);
	db_bind_blob(st, 2, body, len);
	return db_run(&st, err);
}

/* What is kept of the tile so far, in more groups than one where it is large; groups without anything are none. */
static int put_groups(struct segment_maker *m, struct err *err)
{
	const int64_t tile = (m->next - 1) / SEGMENT_UNIT * SEGMENT_UNIT;
	const size_t n = (size_t)(m->next - tile);
	struct audit_bytes body = { 0 };
	size_t at = 0, took = 0;
	int rc = 0;

	while (rc == 0 && m->any && at < n) {
		bool any = false;

		rc = block_payloads_write(m->kept + at, n - at, &body, &took, err);
		for (size_t i = 0; rc == 0 && i < took; i++)
			any = any || m->kept[at + i].salt.p;
		if (rc == 0 && any)
			rc = insert_group(m, tile + (int64_t)at, body.p, body.len, err);
		at += took;
	}
	free(body.p);
	forget_kept(m);
	return rc;
}

static int put_text(struct segment_maker *m, int64_t id, int64_t kind, const char *p, size_t len, struct err *err)
{
	struct db_stmt *st = db_stmt_get(m->db, SQL_SEGMENT_PUT_TEXT);

	db_bind_i64(st, 1, id);
	db_bind_i64(st, 2, kind);
	db_bind_text(st, 3, p, len);
	return db_run(&st, err);
}

/* The id of a text in this file. */
static int local_id(struct segment_maker *m, enum audit_column col, struct audit_value *v, struct err *err)
{
	struct local *local = map_get_u64(m->texts, (uint64_t)v->n);
	int rc;

	if (!local) {
		if (m->ntexts == SEGMENT_TEXTS_MAX || v->len > SEGMENT_TEXT_MAX)
			return err_set(err, ERR_LIMIT, m->path, "the records have more than %d texts, or one of more than %d bytes",
				       SEGMENT_TEXTS_MAX, SEGMENT_TEXT_MAX);
		rc = put_text(m, m->ntexts + 1, audit_columns[col].tag, v->p, v->len, err);
		if (rc < 0)
			return rc;
		local = mem_alloc(sizeof(*local));
		local->id = ++m->ntexts;
		map_set_u64(m->texts, (uint64_t)v->n, local);
	}
	v->n = local->id;
	return 0;
}

/* --- records */

static void copy_kept(struct segment_maker *m, size_t at, const struct block_payload *kept)
{
	const struct block_bytes *from[] = { &kept->salt, &kept->nonce, &kept->ct };
	struct block_bytes *to[] = { &m->kept[at].salt, &m->kept[at].nonce, &m->kept[at].ct };

	for (unsigned i = 0; i < NELEMS(from); i++) {
		uint8_t *copy;

		if (!from[i]->p)
			continue;
		copy = mem_alloc(from[i]->len + 1);
		if (from[i]->len > 0)
			memcpy(copy, from[i]->p, from[i]->len);
		*to[i] = (struct block_bytes){ copy, from[i]->len };
		m->any = true;
	}
}

int segment_put(struct segment_maker *m, const struct audit_row *row, const struct block_payload *kept,
		struct err *err)
{
	struct audit_row local = *row;
	int rc = 0;

	if (m->next - m->from == SEGMENT_RECORDS_MAX)
		return err_set(err, ERR_LIMIT, m->path, "a sealed file has at most %d records", SEGMENT_RECORDS_MAX);
	for (unsigned col = 0; rc == 0 && col < COL_COUNT; col++)
		if (local.v[col].present && audit_columns[col].form == FORM_DICT)
			rc = local_id(m, (enum audit_column)col, &local.v[col], err);
	if (rc == 0)
		rc = block_maker_add(m->blocks, &local, err);
	if (rc == 1) {                          /* full before it is aligned */
		rc = put_block(m, err);
		if (rc == 0)
			rc = block_maker_add(m->blocks, &local, err);
	}
	if (rc != 0)
		return rc < 0 ? rc : err_set(err, ERR_INTERNAL, "segment", "a record has no room in a block of its own");
	if (kept)
		copy_kept(m, (size_t)(m->next % SEGMENT_UNIT), kept);
	m->next++;
	if (m->next % SEGMENT_UNIT == 0)
		rc = put_groups(m, err);
	if (rc == 0 && m->next % BLOCK_RECORDS_MAX == 0)
		rc = put_block(m, err);
	return rc;
}

int segment_put_epoch(struct segment_maker *m, int64_t n, const uint8_t public[SIGN_PUBLIC_SIZE],
		      const uint8_t cert[SIGN_SIZE], struct err *err)
{
	struct db_stmt *st = db_stmt_get(m->db, SQL_SEGMENT_PUT_EPOCH);

	db_bind_i64(st, 1, n);
	db_bind_blob(st, 2, public, SIGN_PUBLIC_SIZE);
	if (cert)
		db_bind_blob(st, 3, cert, SIGN_SIZE);
	else
		db_bind_null(st, 3);
	return db_run(&st, err);
}

/* --- the end */

static int put_info(struct segment_maker *m, const struct segment_info *info, struct err *err)
{
	struct db_stmt *st = db_stmt_get(m->db, SQL_SEGMENT_PUT_INFO);

	db_bind_textz(st, 1, info->origin);
	db_bind_i64(st, 2, info->from);
	db_bind_i64(st, 3, info->to);
	db_bind_blob(st, 4, info->before.peak, tree_peaks(info->before.size) * TREE_HASH);
	db_bind_blob(st, 5, info->after.peak, tree_peaks(info->after.size) * TREE_HASH);
	db_bind_i64(st, 6, info->epoch);
	db_bind_blob(st, 7, info->note, info->note_len);
	db_bind_blob(st, 8, info->growth, info->ngrowth * TREE_HASH);
	db_bind_textz(st, 9, info->release);
	return db_run(&st, err);
}

int segment_end(struct segment_maker **mp, const struct segment_info *info, struct err *err)
{
	struct segment_maker *m = *mp;
	int rc = 0;

	if (info->from != m->from || info->to != m->next || m->next == m->from || m->next % SEGMENT_UNIT != 0)
		rc = err_set(err, ERR_INTERNAL, m->path, "a sealed file of other records than were put into it");
	if (rc == 0)
		rc = put_block(m, err);
	if (rc == 0)
		rc = put_info(m, info, err);
	rc = db_txn_end(m->db, rc, err);
	if (rc < 0) {
		segment_drop(mp);
		return rc;
	}
	*mp = NULL;
	maker_free(m);
	return 0;
}

void segment_drop(struct segment_maker **mp)
{
	struct segment_maker *m = *mp;

	if (!m)
		return;
	*mp = NULL;
	path_unmake(m->path);
	maker_free(m);
}

/* --- a file anew, without what is erased */

struct copying { struct segment *from; struct segment_maker *to; const atomic_bool *stop; };

static int is_stopped(const struct copying *c, struct err *err)
{
	return c->stop && atomic_load(c->stop) ? err_set(err, ERR_CANCELLED, "", "it was stopped") : 0;
}

static int copy_epoch(void *arg, int64_t n, const uint8_t public[SIGN_PUBLIC_SIZE], const uint8_t *cert,
		      struct err *err)
{
	return segment_put_epoch(((struct copying *)arg)->to, n, public, cert, err);
}

static int copy_block(void *arg, const struct block *b, struct err *err)
{
	struct copying *c = arg;
	int rc = is_stopped(c, err);

	return rc < 0 ? rc : insert_block(c->to, b, err);
}

static int copy_texts(struct copying *c, struct err *err)
{
	struct db_stmt *st = db_stmt_get(segment_db(c->from), SQL_SEGMENT_LIST_TEXTS);
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		size_t len = 0;
		const char *p = db_col_text(st, 2, &len);

		rc = put_text(c->to, db_col_i64(st, 0), db_col_i64(st, 1), p, len, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* What is left of a group, under the name that it had; without anything left, there is none. */
static int copy_group(struct copying *c, int64_t first, const void *body, size_t len, segment_gone_fn *gone, void *arg,
		      struct err *err)
{
	struct block_payload v[BLOCK_PAYLOADS_MAX];
	struct audit_bytes left = { 0 };
	bool any = false, changed = false;
	size_t n = 0, took = 0;
	int rc = block_payloads_read(body, len, v, &n, err);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		if (v[i].salt.p && gone(arg, first + (int64_t)i)) {
			v[i] = (struct block_payload){ 0 };
			changed = true;
		}
		any = any || v[i].salt.p;
	}
	if (rc < 0 || !any)
		return rc;
	if (!changed)
		return insert_group(c->to, first, body, len, err);
	rc = block_payloads_write(v, n, &left, &took, err);
	if (rc == 0 && took != n)
		rc = err_set(err, ERR_INTERNAL, "segment", "a group of payloads grew when something was taken out of it");
	if (rc == 0)
		rc = insert_group(c->to, first, left.p, left.len, err);
	free(left.p);
	return rc;
}

static int copy_groups(struct copying *c, segment_gone_fn *gone, void *arg, struct err *err)
{
	struct db_stmt *st = db_stmt_get(segment_db(c->from), SQL_SEGMENT_LIST_GROUPS);
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		size_t len = 0;
		const void *body = db_col_blob(st, 1, &len);

		rc = is_stopped(c, err);
		if (rc == 0)
			rc = copy_group(c, db_col_i64(st, 0), body, len, gone, arg, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int segment_copy(struct segment *from, const char *path, segment_gone_fn *gone, void *arg, const atomic_bool *stop,
		 struct err *err)
{
	const struct segment_info *info = segment_info(from);
	struct copying c = { .from = from, .stop = stop };
	int rc = segment_make(path, info->from, &c.to, err);

	if (rc == 0)
		rc = segment_epochs(from, copy_epoch, &c, err);
	if (rc == 0)
		rc = segment_blocks(from, copy_block, &c, err);
	if (rc == 0)
		rc = copy_texts(&c, err);
	if (rc == 0)
		rc = copy_groups(&c, gone, arg, err);
	if (rc == 0) {
		c.to->next = info->to;
		rc = segment_end(&c.to, info, err);
	}
	segment_drop(&c.to);
	return rc;
}
