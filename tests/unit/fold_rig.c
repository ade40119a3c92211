/* A store whose records are in blocks (fold_rig.h). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "audit/fold.h"
#include "audit/record.h"
#include "base/mem.h"
#include "block/block.h"
#include "forms/forms.h"
#include "src/db/db_int.h"

#include "fold_rig.h"

struct fold {
	struct db *db;
	const struct fold_with *with;
	uint64_t random;
	int64_t log, size, blocks;
	char *origin;
	struct block_maker *maker;
	sqlite3_stmt *put, *put_pay, *get_pay;
};

static int said(struct fold *f, int rc, struct err *err)
{
	return rc == SQLITE_OK || rc == SQLITE_DONE || rc == SQLITE_ROW ? 0
		: err_set(err, ERR_INTERNAL, "fold", "%s", sqlite3_errmsg(f->db->native));
}

int fold_sql(struct db *db, const char *sql, int64_t *ret, struct err *err)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db->native, sql, -1, &st, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW && ret)
		*ret = sqlite3_column_int64(st, 0);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		(void)err_set(err, ERR_INTERNAL, sql, "%s", sqlite3_errmsg(db->native));
	sqlite3_finalize(st);
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : ERR_INTERNAL;
}

static int64_t draw(struct fold *f, int64_t n)
{
	uint64_t z = f->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (int64_t)((z ^ (z >> 31)) % (uint64_t)n);
}

/* What is kept beside a record; its bytes are copied. */
static int get_payload(struct fold *f, int64_t idx, struct block_payload *ret, struct err *err)
{
	struct block_bytes *to[] = { &ret->salt, &ret->nonce, &ret->ct };
	int rc;

	memset(ret, 0, sizeof(*ret));
	sqlite3_bind_int64(f->get_pay, 1, f->log);
	sqlite3_bind_int64(f->get_pay, 2, idx);
	rc = sqlite3_step(f->get_pay);
	for (int i = 0; rc == SQLITE_ROW && i < 3; i++) {
		const void *p = sqlite3_column_blob(f->get_pay, i);
		size_t len = (size_t)sqlite3_column_bytes(f->get_pay, i);

		if (sqlite3_column_type(f->get_pay, i) != SQLITE_NULL) {
			uint8_t *copy = mem_alloc(len + 1);

			if (len > 0)
				memcpy(copy, p, len);
			*to[i] = (struct block_bytes){ copy, len };
		}
	}
	sqlite3_reset(f->get_pay);
	return said(f, rc, err);
}

/* Groups of what is kept beside a block; one without anything is not written. */
static int put_payloads(struct fold *f, int64_t first, int64_t cnt, struct err *err)
{
	struct block_payload v[BLOCK_PAYLOADS_MAX];
	struct audit_bytes out = { 0 };
	int rc = 0;

	for (int64_t at = 0; rc == 0 && at < cnt;) {
		size_t n = 0, put = 0;
		bool any = false;

		while (rc == 0 && n < BLOCK_PAYLOADS_MAX && at + (int64_t)n < cnt) {
			rc = get_payload(f, first + at + (int64_t)n, &v[n], err);
			any = any || v[n].salt.p;
			n++;
		}
		if (rc == 0)
			rc = block_payloads_write(v, n, &out, &put, err);
		if (rc == 0 && any) {
			sqlite3_bind_int64(f->put_pay, 1, f->log);
			sqlite3_bind_int64(f->put_pay, 2, first + at);
			sqlite3_bind_blob(f->put_pay, 3, out.p, (int)out.len, SQLITE_STATIC);
			rc = said(f, sqlite3_step(f->put_pay), err);
			sqlite3_reset(f->put_pay);
		}
		for (size_t i = 0; i < n; i++) {
			free((void *)(uintptr_t)v[i].salt.p);
			free((void *)(uintptr_t)v[i].nonce.p);
			free((void *)(uintptr_t)v[i].ct.p);
		}
		at += (int64_t)put;
	}
	free(out.p);
	return rc;
}

static int put_block(struct fold *f, struct err *err)
{
	struct block b;
	int rc;

	if (block_maker_count(f->maker) == 0)
		return 0;
	block_maker_end(f->maker, &b);
	sqlite3_bind_int64(f->put, 1, f->log);
	sqlite3_bind_int64(f->put, 2, b.first);
	sqlite3_bind_int64(f->put, 3, b.cnt);
	sqlite3_bind_int64(f->put, 4, b.fmt);
	sqlite3_bind_int64(f->put, 5, b.ts_min);
	sqlite3_bind_int64(f->put, 6, b.ts_max);
	sqlite3_bind_blob(f->put, 7, b.cols.p ? b.cols.p : "", (int)b.cols.len, SQLITE_STATIC);
	sqlite3_bind_blob(f->put, 8, b.hash.p ? b.hash.p : "", (int)b.hash.len, SQLITE_STATIC);
	sqlite3_bind_blob(f->put, 9, b.zone.p ? b.zone.p : "", (int)b.zone.len, SQLITE_STATIC);
	rc = said(f, sqlite3_step(f->put), err);
	sqlite3_reset(f->put);
	f->blocks++;
	return rc < 0 ? rc : put_payloads(f, b.first, b.cnt, err);
}

static int fold_log(struct fold *f, struct err *err)
{
	struct audit_reader *reader = audit_reader_new(f->db);
	struct audit_page page = { .log = f->log, .origin = f->origin, .from = 0, .to = f->size - f->with->tail };
	int64_t left = 0;
	struct audit_read got;
	int rc = forms_line(f->db, f->log, &page.from, err);

	page.from = page.from > 0 ? page.from : 0;      /* behind the blocks that it has */
	while (rc == 0 && (rc = audit_reader_next(reader, &page, &got, err)) == 1) {
		if (left-- == 0) {
			rc = put_block(f, err);
			left = draw(f, f->with->block_max);
		}
		rc = rc < 0 ? rc : block_maker_add(f->maker, &got.row, err);
		if (rc == 1) {
			rc = put_block(f, err);
			rc = rc < 0 ? rc : block_maker_add(f->maker, &got.row, err);
		}
		if (rc < 0)
			break;
	}
	audit_reader_free(&reader);
	return rc < 0 ? rc : put_block(f, err);
}

static int clean(struct fold *f, struct err *err)
{
	int rc = fold_sql(f->db, "INSERT OR IGNORE INTO open_call(log, idx, call) SELECT b.log, b.idx, b.call FROM rec b WHERE b.kind = 1001 "
			  "AND b.idx < (SELECT first + cnt FROM blk WHERE log = b.log ORDER BY first DESC LIMIT 1) "
			  "AND (b.log, b.call) NOT IN (SELECT e.log, e.call FROM rec e WHERE e.kind <> 1001 AND e.call IS NOT NULL)",
			  NULL, err);

	if (rc == 0 && !f->with->leftovers)
		rc = fold_sql(f->db, "DELETE FROM pay WHERE rec IN (SELECT r.id FROM rec r "
			      "WHERE r.idx < (SELECT first + cnt FROM blk WHERE log = r.log ORDER BY first DESC LIMIT 1))", NULL, err);
	if (rc == 0 && !f->with->leftovers)
		rc = fold_sql(f->db, "DELETE FROM rec "
			      "WHERE idx < (SELECT first + cnt FROM blk WHERE log = rec.log ORDER BY first DESC LIMIT 1)", NULL, err);
	return rc;
}

static int fold_logs(struct fold *f, struct err *err)
{
	sqlite3_stmt *logs = NULL;
	int rc = said(f, sqlite3_prepare_v2(f->db->native, "SELECT l.id, l.origin, h.size FROM log l JOIN head h ON h.log = l.id",
					    -1, &logs, NULL), err);

	while (rc == 0 && sqlite3_step(logs) == SQLITE_ROW) {
		f->log = sqlite3_column_int64(logs, 0);
		f->origin = mem_strdup((const char *)sqlite3_column_text(logs, 1));
		f->size = sqlite3_column_int64(logs, 2);
		rc = fold_log(f, err);
		free(f->origin);
	}
	sqlite3_finalize(logs);
	return rc < 0 ? rc : clean(f, err);
}

static int put_next_chapter(struct db *db, int64_t log, const struct fold_with *with, struct err *err)
{
	const struct forms_chapter_sizes sizes = { with->chapter, with->part, with->book, with->few };
	struct forms_chapter *c = NULL;
	int rc = forms_chapter_next(db, log, &sizes, &c, err);

	if (rc == 1) {
		rc = db_txn_begin(db, true, err);
		if (rc == 0)
			rc = db_txn_end(db, forms_chapter_put(db, c, err), err);
		rc = rc < 0 ? rc : 1;
	}
	forms_chapter_free(&c);
	return rc;
}

static int put_chapters(struct db *db, const struct fold_with *with, struct err *err)
{
	int64_t logs = 0;
	int rc = fold_sql(db, "SELECT max(id) FROM log", &logs, err);

	for (int64_t log = 1; rc == 0 && log <= logs && with->chapter > 0; log++)
		while ((rc = put_next_chapter(db, log, with, err)) == 1)
			;
	if (rc == 0 && with->partial)
		rc = fold_sql(db, "UPDATE chap SET sums = x'00'", NULL, err);
	if (rc == 0 && with->partial)
		rc = fold_sql(db, "UPDATE book SET days = x'00', sums = x'00'", NULL, err);
	return rc;
}

int fold_store(struct db *db, const struct fold_with *with, struct err *err)
{
	static const char put[] = "INSERT INTO blk(log, first, cnt, fmt, ts_min, ts_max, cols, hash, zone) VALUES(?,?,?,?,?,?,?,?,?)",
		put_pay[] = "INSERT INTO blkpay(log, first, body) VALUES(?,?,?)",
		get_pay[] = "SELECT salt, nonce, ct FROM pay WHERE rec = (SELECT id FROM rec WHERE log = ?1 AND idx = ?2)";
	struct fold f = { .db = db, .with = with, .random = with->seed, .maker = block_maker_new() };
	int rc = db_txn_begin(db, true, err);

	if (rc == 0) {
		sqlite3_prepare_v2(db->native, put, -1, &f.put, NULL);
		sqlite3_prepare_v2(db->native, put_pay, -1, &f.put_pay, NULL);
		rc = said(&f, sqlite3_prepare_v2(db->native, get_pay, -1, &f.get_pay, NULL), err);
		rc = rc < 0 ? rc : fold_logs(&f, err);
		sqlite3_finalize(f.put);
		sqlite3_finalize(f.put_pay);
		sqlite3_finalize(f.get_pay);
		rc = db_txn_end(db, rc, err);
	}
	block_maker_free(&f.maker);
	rc = rc < 0 ? rc : put_chapters(db, with, err);
	return rc < 0 ? rc : (int)f.blocks;
}
