/* Appending: an event becomes a row; logs are created; calls that a crash left open are closed. */
#include "config.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/recover.h"
#include "audit/fold.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "forms/forms.h"

#include "audit_int.h"

void audit_logs_gather(struct audit_logs *logs, bool on)
{
	logs->gather = on && !logs->shared;
}

bool audit_logs_is_lost(const struct audit_logs *logs)
{
	return logs->lost;
}

int audit_logs_insert(struct audit_logs *logs, struct db *db, struct err *err)
{
	int rc = !logs->lost ? forms_batch_insert(logs->gathered, db, logs->last_id, err) :
		err_set(err, ERR_INTERNAL, "audit", "records of this transaction could not be inserted");

	logs->lost = rc < 0;
	return rc;
}

static bool ends_call(int64_t kind)
{
	return kind == AUDIT_CALL_END || kind == AUDIT_CALL_RECOVERED;
}

/* The wall clock as it is; absent where the kernel does not say. */
static void put_clock(const struct audit_logs *logs, struct audit_row *row)
{
	if (row->v[COL_KIND].n == AUDIT_CLOCK_STEP)
		audit_row_int(row, COL_CLK, AUDIT_CLOCK_STEPPED);
	else if (logs->clock == CLOCK_SYNCED)
		audit_row_int(row, COL_CLK, AUDIT_CLOCK_SYNCED);
	else if (logs->clock == CLOCK_UNSYNCED)
		audit_row_int(row, COL_CLK, AUDIT_CLOCK_UNSYNCED);
}

/* Its begin is in a block, and has an end now (SCALE SC-307). */
static int end_open(struct db *db, const struct audit_open *o, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FOLD_END_OPEN);

	db_bind_i64(st, 1, o->log);
	db_bind_i64(st, 2, o->beg);
	return db_run(&st, err);
}

/* A row whose log, idx and beg are still open; *log moves on.  f: its payload, or NULL. */
static int insert(struct audit_logs *logs, struct db *db, struct audit_log *log, struct audit_row *row,
		  const struct audit_filled *f, struct err *err)
{
	const int64_t kind = row->v[COL_KIND].n;
	const uint8_t *call = row->v[COL_CALL].p;
	const size_t payload = !f || !f->any ? 0 : sizeof(f->salt) + sizeof(f->nonce) + (f->kept ? logs->ct.len : 0);
	uint8_t leaf[TREE_HASH];
	struct audit_open *o = NULL;
	int64_t id = logs->last_id + 1;
	int rc = log->tail ? 0 : audit_tail_open(log, db, err);

	if (rc < 0)
		return rc;
	audit_row_text(row, COL_LOG, log->id, log->origin, log->origin_len);
	audit_row_int(row, COL_IDX, log->size);
	put_clock(logs, row);
	if (call && ends_call(kind)) {
		o = audit_open_find(logs, call, log->id);
		if (o)
			audit_row_int(row, COL_BEG, o->beg);
	}
	rc = o && o->folded ? end_open(db, o, err) : 0;
	audit_row_encode(row, &logs->bytes);
	tree_leaf(logs->bytes.p, logs->bytes.len, leaf);
	if (rc == 0 && !(logs->gather && forms_batch_add(logs->gathered, row, leaf, payload))) {
		rc = audit_logs_insert(logs, db, err);
		rc = rc < 0 ? rc : forms_row_insert(db, row, leaf, logs->shared ? NULL : &id, err);
	}
	if (rc == 0 && !logs->shared)   /* shared: id is an order of its own, there rows have none */
		rc = forms_span_put(db, logs->last_id, id, err);
	if (rc < 0)
		return rc;
	audit_tail_add(log->tail, leaf);
	audit_undo_push(logs, UNDO_RECORD, log);
	logs->undo[logs->undo_len - 1].record = kind;
	logs->last_id = id;
	log->size++;
	if (list_empty(&log->dirty))
		list_push_back(&logs->dirty, &log->dirty);
	if (list_empty(&log->lagging))
		list_push_back(&logs->lagging, &log->lagging);
	audit_behind(logs, log);
	if (o)
		audit_open_end(logs, o);
	else if (call && kind == AUDIT_CALL_BEGIN)
		audit_open_add(logs, call, logs->last_id, log->id, log->size - 1)->ts = row->v[COL_TS].n;
	return 0;
}

/* "(0) = absent" of the face. */
static void put_unless_0(struct audit_row *row, enum audit_column col, uint64_t v)
{
	if (v != 0)
		audit_row_int(row, col, (int64_t)v);
}

static void fill_numbers(const struct audit_event *ev, struct audit_row *row)
{
	audit_row_int(row, COL_KIND, ev->kind);
	audit_row_int(row, COL_TS, (int64_t)ev->time_us);
	audit_row_int(row, COL_MONO, (int64_t)ev->mono_us);
	if (ev->has_call)
		audit_row_blob(row, COL_CALL, ev->call, sizeof(ev->call));
	if (ev->has_prev)
		audit_row_blob(row, COL_PREV, ev->prev, sizeof(ev->prev));
	if (ev->has_trace)
		audit_row_blob(row, COL_TRACE, ev->trace, sizeof(ev->trace));
	put_unless_0(row, COL_ACTOR, (uint64_t)ev->actor);
	put_unless_0(row, COL_AUTHN, (uint64_t)ev->authn);
	put_unless_0(row, COL_TPORT, (uint64_t)ev->tport);
	if (ev->n_req >= 0)
		audit_row_int(row, COL_N_REQ, ev->n_req);
	if (ev->n_res >= 0)
		audit_row_int(row, COL_N_RES, ev->n_res);
	put_unless_0(row, COL_FLAGS, ev->flags);
	if (ev->has_outcome)
		audit_row_int(row, COL_OUTCOME, ev->outcome);
	if (ev->has_xstat)
		audit_row_int(row, COL_XSTAT, ev->xstat >= 0 ? ev->xstat : ev->xstat == INT64_MIN ? INT64_MAX : -ev->xstat);
	put_unless_0(row, COL_SIG, (uint64_t)ev->sig);
	put_unless_0(row, COL_DUR, ev->dur_us);
	put_unless_0(row, COL_CPU, ev->cpu_us);
	put_unless_0(row, COL_RSS, ev->rss_kib);
}

static int fill_texts(struct audit_logs *logs, struct db *db, const struct audit_event *ev, struct audit_row *row,
		      struct err *err)
{
	const struct {
		enum audit_column col;
		const char *text;
	} texts[] = {
		{ COL_BOOT, logs->boot }, { COL_BUILD, logs->build }, { COL_CRED, ev->cred }, { COL_PRN, ev->prn },
		{ COL_REV, ev->rev }, { COL_TOOL, ev->tool }, { COL_TDEF, ev->tdef ? logs->tdef.hex : NULL }, { COL_RULE, ev->rule },
		{ COL_SBOX, ev->sbox }, { COL_OBJ, ev->obj }, { COL_SYS, ev->sys }, { COL_MDL, ev->mdl },
	};

	if (ev->tdef && (!*logs->tdef.hex || memcmp(ev->tdef, logs->tdef.digest, sizeof(logs->tdef.digest)) != 0)) {
		memcpy(logs->tdef.digest, ev->tdef, sizeof(logs->tdef.digest));
		text_hex(ev->tdef, 32, logs->tdef.hex);
	}
	for (size_t i = 0; i < NELEMS(texts); i++) {
		int rc = texts[i].text ? audit_row_intern(row, texts[i].col, texts[i].text, logs, db, err) : 0;

		if (rc < 0)
			return rc;
	}
	return 0;
}

int audit_row_fill(struct audit_logs *logs, struct db *db, const struct audit_log *log, const struct audit_event *ev,
		   struct audit_row *row, struct audit_filled *ret, struct err *err)
{
	int rc;

	fill_numbers(ev, row);
	rc = fill_texts(logs, db, ev, row, err);
	if (rc == 0)
		rc = audit_ext_build(ev, &logs->ext, err);
	if (rc < 0)
		return rc;
	if (logs->ext.len > 0)
		audit_row_blob(row, COL_EXT, logs->ext.p, logs->ext.len);
	return audit_payload_fill(logs, db, log, ev, row, ret, err);
}

static int append_row(struct audit_logs *logs, struct db *db, struct audit_log *log, const struct audit_event *ev,
		      struct audit_row *row, struct err *err)
{
	struct audit_filled filled;
	int rc = audit_row_fill(logs, db, log, ev, row, &filled, err);

	if (rc == 0)
		rc = insert(logs, db, log, row, &filled, err);
	return rc < 0 ? rc : audit_payload_store(logs, db, row, &filled, err);
}

/* An event without pseudonyms of its own. */
static int append_one(struct audit_logs *logs, struct db *db, struct audit_log *log, const struct audit_event *ev,
		      struct err *err)
{
	struct audit_row row = { 0 };

	return append_row(logs, db, log, ev, &row, err);
}

int audit_append(struct audit_logs *logs, struct db *db, const struct audit_event *ev, struct audit_receipt *ret,
		 struct err *err)
{
	struct audit_log *log = audit_log_find(logs, ev->tenant_id);
	struct audit_row row = { 0 };
	int rc;

	if (!log)
		return err_set(err, ERR_NOT_FOUND, "audit", "tenant %" PRId64 " has no log", ev->tenant_id);
	rc = audit_shared_meet(logs, log, db, err);
	if (rc == 0)
		rc = audit_pseudonym_fill(logs, db, log, ev, append_one, &row, err);
	if (rc == 0)
		rc = append_row(logs, db, log, ev, &row, err);
	if (rc == 0 && ret)
		*ret = (struct audit_receipt){ log->id, log->size - 1 };
	return rc < 0 ? audit_shared_failed(logs, log, rc, err) : 0;
}

int64_t audit_newest_row(const struct audit_logs *logs)
{
	return logs->last_id;
}

int audit_size(const struct audit_logs *logs, int64_t tenant_id, int64_t *ret, struct err *err)
{
	const struct audit_log *log = map_get_u64(logs->by_tenant, (uint64_t)tenant_id);

	if (!log)
		return err_set(err, ERR_NOT_FOUND, "audit", "tenant %" PRId64 " has no log", tenant_id);
	*ret = log->size;
	return 0;
}

int audit_last_kind(struct audit_logs *logs, struct db *db, int64_t tenant_id, int *ret, uint64_t *ret_us,
		    struct err *err)
{
	struct audit_log *log = audit_log_find(logs, tenant_id);
	struct db_stmt *st;
	int rc;

	if (!log)
		return err_set(err, ERR_NOT_FOUND, "audit", "tenant %" PRId64 " has no log", tenant_id);
	st = db_stmt_get(db, SQL_AUDIT_LAST_KIND);
	db_bind_i64(st, 1, log->id);
	rc = db_step(st, err);
	if (rc >= 0)
		*ret = rc == 1 ? (int)db_col_i64(st, 0) : 0;
	if (rc >= 0 && ret_us)
		*ret_us = rc == 1 ? (uint64_t)db_col_i64(st, 1) : 0;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* Begins in blocks that have no end, into logs->open (SCALE SC-307). */
static int find_folded(struct audit_logs *logs, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FOLD_LIST_OPEN);
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		const int64_t log = db_col_i64(st, 0), idx = db_col_i64(st, 1);
		size_t len = 0;
		const uint8_t *call = db_col_blob(st, 2, &len);

		if (len != 16 || log < 0 || idx < 0) {
			rc = err_set(err, ERR_CORRUPT, "open_call", "record %" PRId64 " of log %" PRId64 " is no open call", idx, log);
			break;
		}
		audit_open_add(logs, call, forms_id(log, idx), log, idx);
		audit_open_find(logs, call, log)->folded = true;
	}
	db_stmt_put(&st);
	return rc;
}

/* Begins without an end, from meta.open_from on, into logs->open. */
static int find_open(struct audit_logs *logs, struct db *db, struct err *err)
{
	struct db_stmt *st;
	int64_t from = 0;
	char text[24];
	int rc = logs->shared ? 0 : db_meta_get(db, META_OPEN_FROM, text, sizeof(text), err);

	if (rc < 0 || logs->shared)     /* there a node says which: audit_recover_node() */
		return rc;
	if (text[0] && text_i64(text, strlen(text), &from) < 0)
		return err_set(err, ERR_CORRUPT, "meta/" META_OPEN_FROM, "%s is no number", text);
	rc = find_folded(logs, db, err);
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_AUDIT_LIST_TAIL);
	db_bind_i64(st, 1, from);
	while ((rc = db_step(st, err)) == 1) {
		int64_t log = db_col_i64(st, 1), kind = db_col_i64(st, 3);
		struct audit_open *o;
		size_t len = 0;
		const uint8_t *call = db_col_blob(st, 4, &len);

		if (len != 16) {
			rc = err_set(err, ERR_CORRUPT, "audit", "record %" PRId64 " has no proper call id", db_col_i64(st, 0));
			break;
		}
		if (kind == AUDIT_CALL_BEGIN)
			audit_open_add(logs, call, db_col_i64(st, 0), log, db_col_i64(st, 2));
		else if (ends_call(kind) && (o = audit_open_find(logs, call, log)))
			audit_open_end(logs, o);
	}
	db_stmt_put(&st);
	return rc;
}

/* The record repeats who and what of its begin (AUDIT 4.2). */
static int repeat_begin(struct audit_logs *logs, struct db *db, const struct audit_open *o, struct audit_row *row,
			struct err *err)
{
	static const enum audit_column numbers[] = { COL_ACTOR, COL_AUTHN, COL_TPORT };
	static const enum audit_column texts[] = { COL_CRED, COL_PRN, COL_REV, COL_TOOL, COL_TDEF, COL_SBOX };
	struct db_stmt *st = db_stmt_get(db, logs->shared ? SQL_AUDIT_GET_BEGIN_AT : SQL_AUDIT_GET_BEGIN);
	unsigned at = 0;
	int rc;

	db_bind_i64(st, 1, logs->shared ? o->log : o->id);
	if (logs->shared)
		db_bind_i64(st, 2, o->beg);
	rc = db_step(st, err);
	for (unsigned i = 0; rc == 1 && i < NELEMS(numbers); i++, at++)
		if (db_col_type(st, at) != DB_NULL)
			audit_row_int(row, numbers[i], db_col_i64(st, at));
	for (unsigned i = 0; rc == 1 && i < NELEMS(texts); i++, at++)
		if (db_col_type(st, at) != DB_NULL && audit_row_intern(row, texts[i], db_col_text(st, at, NULL), logs, db, err) < 0)
			rc = err->code;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int recover_one(struct audit_logs *logs, struct db *db, const struct audit_open *o, struct audit_log *log,
		       struct err *err)
{
	struct audit_row row = { 0 };
	uint8_t call[16];
	int rc;

	memcpy(call, o->call, sizeof(call));     /* insert() ends *o */
	audit_row_int(&row, COL_KIND, AUDIT_CALL_RECOVERED);
	audit_row_blob(&row, COL_CALL, call, sizeof(call));
	audit_row_int(&row, COL_TS, (int64_t)clock_wall_us());
	audit_row_int(&row, COL_MONO, (int64_t)clock_mono_us());
	audit_row_int(&row, COL_OUTCOME, AUDIT_UNKNOWN);
	rc = audit_shared_meet(logs, log, db, err);
	if (rc == 0)
		rc = repeat_begin(logs, db, o, &row, err);
	if (rc == 0)
		rc = audit_row_intern(&row, COL_BOOT, logs->boot, logs, db, err);
	if (rc == 0)
		rc = audit_row_intern(&row, COL_BUILD, logs->build, logs, db, err);
	return rc < 0 ? rc : insert(logs, db, log, &row, NULL, err);
}

int audit_recover_node(struct audit_logs *logs, struct db *db, const char *boot, int64_t since_us, size_t *ret_count,
		       struct err *err)
{
	struct audit_calls of = { NULL, 0 };
	struct db_stmt *st;
	int rc;

	*ret_count = 0;
	st = db_stmt_get(db, SQL_AUDIT_LIST_DEAD);
	db_bind_i64(st, 1, since_us);
	db_bind_textz(st, 2, boot);
	while ((rc = db_step(st, err)) == 1) {
		size_t len = 0;
		const uint8_t *call = db_col_blob(st, 2, &len);

		if (len != 16) {
			rc = err_set(err, ERR_CORRUPT, "audit", "record %" PRId64 " of log %" PRId64 " has no proper call id",
				     db_col_i64(st, 1), db_col_i64(st, 0));
			break;
		}
		if ((of.n & (of.n - 1)) == 0)
			of.id = mem_realloc(of.id, (of.n ? 2 * of.n : 1) * sizeof(*of.id));
		memcpy(of.id[of.n++], call, 16);
		audit_open_add(logs, call, ++logs->last_id, db_col_i64(st, 0), db_col_i64(st, 1));
	}
	db_stmt_put(&st);
	rc = rc < 0 || of.n == 0 ? rc : audit_recover(logs, db, &of, true, ret_count, err);
	free(of.id);
	return rc;
}

int audit_recover(struct audit_logs *logs, struct db *db, const struct audit_calls *some, bool only, size_t *ret_count,
		  struct err *err)
{
	struct map *by_id = audit_logs_by_id(logs);
	size_t count = 0;
	int rc;

	rc = only ? 0 : find_open(logs, db, err);
	LIST_FOREACH_SAFE(n, tmp, &logs->open) {
		struct audit_open *o = CONTAINER_OF(n, struct audit_open, node);
		struct audit_log *log = map_get_u64(by_id, (uint64_t)o->log);

		if (rc < 0 || audit_calls_have(some, o->call) != only)
			continue;
		if (!log)
			rc = err_set(err, ERR_CORRUPT, "audit", "record %" PRId64 " is in no log", o->id);
		else
			rc = recover_one(logs, db, o, log, err);
		CRASH_AT("recover.mid");
		count++;
	}
	map_free(&by_id);
	if (rc == 0)
		*ret_count = count;
	return rc;
}
