/* Deeds: what an intent of the log promised, a slice at a time (AUDIT ). */

#include "config.h"

#include "audit/keep.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "db/db.h"

#include "audit_int.h"

int audit_cut_read(struct db *db, int64_t log, int64_t at, struct audit_cut *ret, struct err *err)
{
	struct tree tree = { 0 };
	uint8_t hash[TREE_HASH];
	int rc = at >= 0 && at % AUDIT_CUT_UNIT == 0 ? 1 : err_set(err, ERR_INVALID, "", "%" PRId64 " is no place for a cut", at);

	for (uint64_t n = 0; rc == 1 && n < (uint64_t)at / AUDIT_CUT_UNIT; n++) {
		rc = audit_tile_get(db, log, 1, n, hash, err);
		if (rc == 1)
			tree_append(&tree, hash);
	}
	if (rc < 0)
		return rc;
	if (rc == 0)
		return err_set(err, ERR_CORRUPT, "tile", "the tiles of the log do not reach record %" PRId64, at);
	*ret = (struct audit_cut){ .log = log, .at = at, .peaks = tree_peaks(tree.size) };
	memcpy(ret->frontier, tree.peak, ret->peaks * TREE_HASH);
	tree_root(&tree, ret->root);
	return 0;
}

static int no_call_before(const struct audit_logs *logs, const struct audit_cut *cut, struct err *err)
{
	LIST_FOREACH(n, &logs->open) {
		const struct audit_open *o = CONTAINER_OF(n, struct audit_open, node);

		if (o->log == cut->log && o->beg < cut->at)
			return err_set(err, ERR_CONFLICT, "", "the call that began with record %" PRId64 " still runs", o->beg);
	}
	return 0;
}

static int insert_deed(struct db *db, const struct audit_receipt *intent, int kind, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_DEED_INSERT);

	db_bind_i64(st, 1, intent->log);
	db_bind_i64(st, 2, intent->idx);
	db_bind_i64(st, 3, kind);
	return db_run(&st, err);
}

int audit_cut_set(struct audit_logs *logs, struct db *db, const struct audit_cut *cut, const struct audit_receipt *intent,
		  struct err *err)
{
	struct db_stmt *st;
	int rc = no_call_before(logs, cut, err);

	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_DEED_SET_CUT);
	db_bind_i64(st, 1, cut->log);
	db_bind_i64(st, 2, cut->at);
	db_bind_i64(st, 3, intent->idx);
	rc = db_run(&st, err);
	if (rc == 0 && db_changes(db) != 1)
		return err_set(err, ERR_CONFLICT, "", "the log was pruned beyond record %" PRId64 " already", cut->at);
	return rc < 0 ? rc : insert_deed(db, intent, AUDIT_PRUNE, err);
}

int audit_deed_next(struct db *db, int kind, struct audit_deed *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_DEED_NEXT);
	int rc;

	db_bind_i64(st, 1, kind);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = (struct audit_deed){ db_col_i64(st, 0), db_col_i64(st, 1), db_col_i64(st, 2), (int)db_col_i64(st, 3) };
	db_stmt_put(&st);
	return rc;
}

/* The record that says it is done, and no more to do. */
static int finish(struct audit_logs *logs, struct db *db, const struct audit_deed *deed, enum audit_kind kind, struct err *err)
{
	uint8_t cause[12];
	const struct audit_field field = { AUDIT_TAG_CAUSE, cause, sizeof cause };
	struct audit_event ev;
	struct db_stmt *st;
	int rc;

	audit_put_be(cause, (uint64_t)deed->log, 4);
	audit_put_be(cause + 4, (uint64_t)deed->idx, 8);
	audit_event_init(&ev, kind, deed->tenant_id);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.field = &field;
	ev.nfield = 1;
	rc = audit_append(logs, db, &ev, NULL, err);
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_DEED_DELETE);
	db_bind_i64(st, 1, deed->log);
	db_bind_i64(st, 2, deed->idx);
	return db_run(&st, err);
}

static int delete_slice(struct db *db, enum sql_id sql, int64_t log, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, sql);

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, AUDIT_SLICE);
	return db_run(&st, err);
}

static int prune_step(struct audit_logs *logs, struct db *db, const struct audit_deed *deed, bool *ret_done, struct err *err)
{
	int rc = delete_slice(db, SQL_DEED_PRUNE_PAYLOADS, deed->log, err);

	if (rc == 0)
		rc = delete_slice(db, SQL_DEED_PRUNE_SLICE, deed->log, err);
	*ret_done = rc == 0 && db_changes(db) < AUDIT_SLICE;
	return *ret_done ? finish(logs, db, deed, AUDIT_PRUNE_DONE, err) : rc;
}

int audit_deed_step(struct audit_logs *logs, struct db *db, const struct audit_deed *deed, bool *ret_done, struct err *err)
{
	*ret_done = false;
	switch (deed->kind) {
	case AUDIT_PRUNE:
		return prune_step(logs, db, deed, ret_done, err);
	default:
		return err_set(err, ERR_CORRUPT, "deed", "an intent of kind %d", deed->kind);
	}
}
