/* Jobs: pruning and erasing.  An intent is a record, durable before anything goes; the job is driven to its end in
 * slices, also by the next start (AUDIT ).  Erasing destroys what records hold beside
 * themselves and touches no record.  Writer thread. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/erase.h"
#include "audit/keep.h"
#include "audit/rows.h"
#include "base/log.h"
#include "base/mem.h"
#include "db/db.h"
#include "forms/forms.h"
#include "keys/keys.h"

#include "audit_int.h"

/* --- destroying payloads, clear names and keys (AUDIT) */

enum { LOOK_MAX = 4096 };               /* records that one slice looks at */

static int find_log(struct audit_logs *logs, int64_t tenant_id, int64_t *ret, struct err *err)
{
	const struct audit_log *log = audit_log_find(logs, tenant_id);

	if (!log)
		return err_set(err, ERR_NOT_FOUND, "audit", "tenant %" PRId64 " has no log", tenant_id);
	*ret = log->id;
	return 0;
}

/* In whatever form it is. */
static int delete_at(struct db *db, int64_t log, int64_t idx, bool *ret_had, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ERASE_PAYLOAD_AT);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, idx);
	rc = db_run(&st, err);
	if (rc == 0)
		*ret_had = db_changes(db) > 0;
	if (rc == 0)
		rc = fold_erase_at(db, log, idx, ret_had, err);
	return rc < 0 ? rc : fold_erased(db, err);
}

int audit_erase_record(struct audit_logs *logs, struct db *db, int64_t tenant_id, int64_t idx, bool *ret_had,
		       struct err *err)
{
	int64_t log = 0;
	int rc = find_log(logs, tenant_id, &log, err);

	return rc < 0 ? rc : delete_at(db, log, idx, ret_had, err);
}

int audit_erase_keys(struct audit_logs *logs, int64_t tenant_id, const char *subject, int64_t **ret, size_t *ret_n,
		     struct err *err)
{
	return keys_of_subject(logs->keys, tenant_id, subject, ret, ret_n, err);
}

int audit_erase_destroy(struct audit_logs *logs, const int64_t *ids, size_t n, struct err *err)
{
	return keys_destroy(logs->keys, ids, n, err);
}

int audit_erase_destroy_tenant(struct audit_logs *logs, int64_t tenant_id, struct err *err)
{
	return keys_destroy_tenant(logs->keys, tenant_id, err);
}

/* --- slices */

static bool is_one_of(int64_t key, const int64_t *ids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ids[i] == key)
			return true;
	return n == 0;
}

/* The next rows that must go, from *cursor on, which moves behind them, and before `before`. */
static int list_rows(struct db *db, int64_t log, const int64_t *ids, size_t n, int64_t before, int64_t *cursor,
		     int64_t ret[AUDIT_ERASE_SLICE], size_t *ret_n, bool *ret_end, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ERASE_LIST_KEYS);
	size_t looked = 0, found = 0;
	int rc = 0;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, *cursor);
	db_bind_i64(st, 3, LOOK_MAX);
	db_bind_i64(st, 4, before);
	while (found < AUDIT_ERASE_SLICE && (rc = db_step(st, err)) == 1) {
		looked++;
		*cursor = db_col_i64(st, 0) + 1;
		if (db_col_i64(st, 3) && is_one_of(db_col_i64(st, 1), ids, n))
			ret[found++] = db_col_i64(st, 2);
	}
	db_stmt_put(&st);
	*ret_n = found;
	*ret_end = found < AUDIT_ERASE_SLICE && looked < LOOK_MAX;
	return rc < 0 ? rc : 0;
}

static int delete_aliases(struct db *db, int64_t log, int64_t key, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ERASE_ALIASES);

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, key);
	return db_run(&st, err);
}

static int delete_all_aliases(struct db *db, int64_t log, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ERASE_ALL_ALIASES);

	db_bind_i64(st, 1, log);
	return db_run(&st, err);
}

/* Rows first, so that no leftover is behind; then blocks, to which the cursor is below 0.  What is folded in between
 * was read behind the rows that had gone, or is thrown away (SC-301). */
static int erase_next(struct db *db, int64_t log, const int64_t *ids, size_t n, int64_t before, int64_t *cursor,
		      bool *ret_end, struct err *err)
{
	int64_t rows[AUDIT_ERASE_SLICE], at = *cursor < 0 ? -1 - *cursor : 0;
	size_t found = 0;
	int rc = 0;

	if (*cursor >= 0) {
		rc = list_rows(db, log, ids, n, before, cursor, rows, &found, ret_end, err);
		for (size_t i = 0; rc == 0 && i < found; i++) {
			struct db_stmt *st = db_stmt_get(db, SQL_ERASE_PAYLOAD);

			db_bind_i64(st, 1, log);
			db_bind_i64(st, 2, rows[i]);
			rc = db_run(&st, err);
		}
		if (rc < 0 || !*ret_end)
			return rc;
	}
	rc = fold_erase_block(db, log, ids, n, before, &at, ret_end, err);
	if (rc == 0)
		*cursor = -1 - at;
	return rc;
}

int audit_erase_slice(struct audit_logs *logs, struct db *db, int64_t tenant_id, const int64_t *ids, size_t n,
		      int64_t before, int64_t *cursor, bool *ret_done, struct err *err)
{
	bool first = *cursor == 0, end = false;
	int64_t log = 0;
	int rc = find_log(logs, tenant_id, &log, err);

	if (rc == 0 && first && n == 0)
		rc = delete_all_aliases(db, log, err);
	for (size_t i = 0; rc == 0 && first && i < n; i++)
		rc = delete_aliases(db, log, ids[i], err);
	if (rc == 0)
		rc = erase_next(db, log, ids, n, before, cursor, &end, err);
	if (rc == 0)
		rc = fold_erased(db, err);
	audit_pseudonym_trim(logs, 0);
	if (rc == 0)
		*ret_done = end;
	return rc;
}

int audit_erase_flush(struct audit_logs *logs, struct db *db, struct err *err)
{
	return keys_truncate_logs(logs->keys, db, err);
}

int audit_cut_read(struct db *db, int64_t log, int64_t at, struct audit_cut *ret, struct err *err)
{
	struct tree tree = { 0 };
	uint8_t hash[TREE_HASH];
	int rc = at >= 0 && at % AUDIT_CUT_UNIT == 0 ? 1 : err_set(err, ERR_INVALID, "", "%" PRId64 " is no place for a cut",
		at);

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

int audit_cut_rows(struct audit_logs *logs, struct db *db, const struct audit_cut *cut, const struct audit_event *vouch,
		   struct err *err)
{
	static const enum sql_id unvouch[] = {
		SQL_DEED_UNVOUCH_TENANT, SQL_DEED_UNVOUCH_PRINCIPAL, SQL_DEED_UNVOUCH_CRED, SQL_DEED_UNVOUCH_TOOL_GRANT,
		SQL_DEED_UNVOUCH_TOOL, SQL_DEED_UNVOUCH_SHARED_SCHEMA, SQL_DEED_UNVOUCH_UPSTREAM, SQL_DEED_UNVOUCH_SECRET,
		SQL_DEED_UNVOUCH_LIMIT_ROW, SQL_DEED_UNVOUCH_TOOL_LEVEL, SQL_DEED_UNVOUCH_UPSTREAM_TOOL,
		SQL_DEED_UNVOUCH_INVENTORY, SQL_DEED_UNVOUCH_SYSTEM, SQL_DEED_UNVOUCH_TOOL_VERSION, SQL_DEED_UNVOUCH_META,
		SQL_DEED_UNVOUCH_PENDING_VERSION, SQL_DEED_UNVOUCH_LOG, SQL_DEED_UNVOUCH_HOLD,
		SQL_DEED_UNVOUCH_UPSTREAM_TOOL_STATE,
	};
	int64_t moved = 0;
	int rc = 0;

	for (size_t i = 0; i < NELEMS(unvouch) && rc == 0; i++) {
		struct db_stmt *st = db_stmt_get(db, unvouch[i]);

		db_bind_i64(st, 1, cut->log);
		db_bind_i64(st, 2, cut->at);
		rc = db_run(&st, err);
		moved += rc == 0 ? db_changes(db) : 0;
	}
	/* nothing false is vouched for anew */
	return rc == 0 && moved > 0 ? audit_append_all_rows(logs, db, vouch, AUDIT_ROWS_SAME, err) : rc;
}

static int insert_job(struct db *db, const struct audit_receipt *intent, int kind, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_DEED_INSERT);

	db_bind_i64(st, 1, intent->log);
	db_bind_i64(st, 2, intent->idx);
	db_bind_i64(st, 3, kind);
	return db_run(&st, err);
}

int audit_cut_set(struct audit_logs *logs, struct db *db, const struct audit_cut *cut,
		  const struct audit_receipt *intent, struct err *err)
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
	if (rc == 0)
		rc = forms_prune(db, cut->log, cut->at, cut->keep, err);
	return rc < 0 ? rc : insert_job(db, intent, AUDIT_PRUNE, err);
}

int audit_job_next(struct db *db, int kind, struct audit_job *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_DEED_NEXT);
	int rc;

	db_bind_i64(st, 1, kind);
	db_bind_i64(st, 2, ret->log);
	db_bind_i64(st, 3, ret->idx);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = (struct audit_job){ .tenant_id = db_col_i64(st, 0), .log = db_col_i64(st, 1), .idx = db_col_i64(st, 2),
			.kind = (int)db_col_i64(st, 3) };
	db_stmt_put(&st);
	return rc;
}

/* The record that says it is done, and no more to do. */
static int finish(struct audit_logs *logs, struct db *db, const struct audit_job *job, enum audit_kind kind,
		  struct err *err)
{
	uint8_t cause[12];
	const struct audit_field field = { AUDIT_TAG_CAUSE, cause, sizeof(cause) };
	struct audit_event ev;
	struct db_stmt *st;
	int rc;

	st = db_stmt_get(db, SQL_DEED_DELETE);
	db_bind_i64(st, 1, job->log);
	db_bind_i64(st, 2, job->idx);
	rc = db_run(&st, err);
	if (rc < 0 || db_changes(db) != 1)      /* another node has done it, and said so */
		return rc;
	audit_put_be(cause, (uint64_t)job->log, 4);
	audit_put_be(cause + 4, (uint64_t)job->idx, 8);
	audit_event_init(&ev, kind, job->tenant_id);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.field = &field;
	ev.nfield = 1;
	return audit_append(logs, db, &ev, NULL, err);
}

static int delete_slice(struct db *db, enum sql_id sql, int64_t log, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, sql);

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, AUDIT_SLICE);
	return db_run(&st, err);
}

static int prune_step(struct audit_logs *logs, struct db *db, struct audit_job *job, bool *ret_done, struct err *err)
{
	bool more;
	int rc;

	if (job->flushed) {
		rc = finish(logs, db, job, AUDIT_PRUNE_DONE, err);
		CRASH_AT("prune.done");
		*ret_done = rc == 0;
		return rc;
	}
	if (!job->begun)
		CRASH_AT("prune.intent");
	job->begun = true;
	rc = forms_remove_pruned(db, job->log, &more, err);         /* one a step: it may be large */
	CRASH_AT("prune.file");
	if (rc < 0 || more)
		return rc;
	rc = delete_slice(db, SQL_DEED_PRUNE_PAYLOADS, job->log, err);
	if (rc == 0)
		rc = delete_slice(db, SQL_DEED_PRUNE_SLICE, job->log, err);
	CRASH_AT("prune.rows");
	more = rc == 0 && db_changes(db) == AUDIT_SLICE;
	if (rc == 0 && !more)
		rc = fold_prune(db, job->log, &more, err);
	job->flush = rc == 0 && !more;
	return rc;
}

int audit_compact(struct audit_logs *logs, struct db *db, int64_t *ret_texts, int64_t *ret_names, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_COMPACT_TEXTS);
	int rc = db_run(&st, err);

	if (rc < 0)
		return rc;
	*ret_texts = db_changes(db);
	st = db_stmt_get(db, SQL_COMPACT_ALIASES);
	rc = db_run(&st, err);
	if (rc == 0)
		*ret_names = db_changes(db);
	audit_pseudonym_trim(logs, 0);
	return rc;
}

/* --- erasing */

int audit_erase_intend(struct db *db, const struct audit_receipt *intent, struct err *err)
{
	return insert_job(db, intent, AUDIT_ERASE, err);
}

enum { KEY_SIZE = 8, RANGE_SIZE = 16 };

static int64_t index_of(const uint8_t *p)
{
	return (int64_t)(audit_get_be(p, 8) & INT64_MAX);
}

int audit_erased_add(struct audit_erased *e, int64_t idx, const void *ext, size_t len, struct err *err)
{
	size_t keys_len = 0, range_len = 0;
	const uint8_t *keys = audit_field_find(ext, len, AUDIT_TAG_KEYS, &keys_len);
	const uint8_t *range = audit_field_find(ext, len, AUDIT_TAG_RANGE, &range_len);

	/* No keys at all must not pass for all of them. */
	if ((!keys || keys_len < KEY_SIZE || keys_len % KEY_SIZE) && (!range || range_len != RANGE_SIZE))
		return err_set(err, ERR_CORRUPT, "deed", "record %" PRId64 " does not say what to erase", idx);
	if (!keys) {
		e->span = mem_realloc(e->span, (e->nspans + 1) * sizeof(*e->span));
		e->span[e->nspans++] = (struct audit_span){ index_of(range), index_of(range + 8) };
		return 0;
	}
	e->keys = mem_realloc(e->keys, (e->nkeys + keys_len / KEY_SIZE) * sizeof(*e->keys));
	for (size_t at = 0; at < keys_len; at += KEY_SIZE)
		e->keys[e->nkeys++] = index_of(keys + at);
	return 0;
}

void audit_erased_fini(struct audit_erased *e)
{
	free(e->keys);
	free(e->span);
	*e = (struct audit_erased){ 0 };
}

/* What an erase record names, and for the memory of the keys' file which record it is. */
struct named { struct audit_erased what; struct keys_erased record; };

static void named_fini(struct named *n)
{
	audit_erased_fini(&n->what);
	keys_erased_fini(&n->record);
}

static void read_record(struct db_stmt *st, const struct audit_job *job, struct keys_erased *ret)
{
	size_t len = 0;
	const void *leaf = db_col_blob(st, 1, &len), *ext;

	ret->idx = job->idx;
	ret->origin = mem_strdup(db_col_text(st, 2, NULL));
	if (len == sizeof(ret->leaf))
		memcpy(ret->leaf, leaf, len);
	ext = db_col_blob(st, 0, &ret->ext_len);
	ret->ext = mem_dup(ext, ret->ext_len);
}

static int read_named(struct db *db, const struct audit_job *job, struct named *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_DEED_EXT);
	int rc;

	db_bind_i64(st, 1, job->log);
	db_bind_i64(st, 2, job->idx);
	rc = db_step(st, err);
	if (rc == 1)
		read_record(st, job, &ret->record);
	db_stmt_put(&st);
	return rc < 0 ? rc : audit_erased_add(&ret->what, job->idx, ret->record.ext, ret->record.ext_len, err);
}

static int destroy(struct audit_logs *logs, const struct audit_job *job, const struct audit_erased *what, bool all,
		   struct err *err)
{
	int rc = 0;

	if (what->nkeys > 0)
		rc = audit_erase_destroy(logs, what->keys, what->nkeys, err);
	else if (all)
		rc = audit_erase_destroy_tenant(logs, job->tenant_id, err);
	return rc == ERR_BUSY ? 0 : rc;         /* destroyed; the flush empties what a reader held */
}

/* Files come behind rows and blocks: what is left in these would not be looked for again. */
static int swept(struct db *db, struct audit_job *job, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_FORMS_ANY_FILE);
	int rc;

	db_bind_i64(st, 1, job->log);
	rc = db_step(st, err);
	db_stmt_put(&st);
	job->cursor = 0;
	job->files = rc == 1;
	job->flush = rc == 0;
	return rc < 0 ? rc : 0;
}

static int sweep(struct audit_logs *logs, struct db *db, struct audit_job *job, const struct audit_erased *what,
		 bool all, struct err *err)
{
	bool had, done = true;
	int rc = 0;

	if (what->nkeys > 0 || all) {
		/* Calls go on, under a new key of the tenant. */
		rc = audit_erase_slice(logs, db, job->tenant_id, what->keys, what->nkeys, all ? job->idx : INT64_MAX,
				       &job->cursor, &done, err);
	} else {
		const struct audit_span span = what->span[0];
		int64_t end = job->cursor + AUDIT_SLICE;

		for (; rc == 0 && job->cursor < end && span.from + job->cursor < span.to; job->cursor++)
			rc = audit_erase_record(logs, db, job->tenant_id, span.from + job->cursor, &had, err);
		done = span.from + job->cursor >= span.to;
	}
	return rc == 0 && done ? swept(db, job, err) : rc;
}

static int erase_step(struct audit_logs *logs, struct db *db, struct audit_job *job, bool *ret_done, struct err *err)
{
	struct named named = { 0 };
	const struct audit_erased *what = &named.what;
	bool all;
	int rc;

	if (job->flushed) {
		CRASH_AT("erase.truncate");
		rc = finish(logs, db, job, AUDIT_ERASE_DONE, err);
		*ret_done = rc == 0;
		return rc;
	}
	rc = read_named(db, job, &named, err);
	all = what->nkeys == 0 && what->nspans == 1 && what->span[0].from == 0 && what->span[0].to == job->idx;
	if (rc == 0 && !job->begun) {
		CRASH_AT("erase.intent");
		if (logs->keys)
			rc = keys_note_erased(logs->keys, &named.record, err);
		if (rc == 0)
			rc = destroy(logs, job, what, all, err);
		CRASH_AT("erase.keys");
	}
	if (rc == 0) {
		job->begun = true;
		rc = sweep(logs, db, job, what, all, err);
		CRASH_AT("erase.rows");
	}
	named_fini(&named);
	return rc;
}

/* The end of a transaction that appended. */
static int end_alone(struct audit_logs *logs, struct db *db, int rc, struct err *err)
{
	if (rc == 0)
		rc = audit_logs_flush(logs, db, err);
	rc = db_txn_end(db, rc, err);
	if (rc < 0)
		audit_logs_rollback(logs, (struct audit_mark){ 0 });
	else
		audit_logs_commit(logs);
	return rc;
}

static int step_alone(struct audit_logs *logs, struct db *db, struct audit_job *job, bool *ret_done, struct err *err)
{
	int rc = db_txn_begin(db, true, err);

	return rc < 0 ? rc : end_alone(logs, db, audit_job_step(logs, db, job, ret_done, err), err);
}

/* --- again, in a store that was put back */

/* 1: this store has not had it; the tenant whose log it is. */
static int is_unknown(struct db *db, const struct keys_erased *e, int64_t *ret_tenant, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_DEED_KNOWN);
	size_t len = 0;
	const void *leaf;
	int rc;

	db_bind_textz(st, 1, e->origin);
	db_bind_i64(st, 2, e->idx);
	rc = db_step(st, err);
	if (rc == 1) {
		*ret_tenant = db_col_i64(st, 0);
		leaf = db_col_blob(st, 2, &len);
		rc = e->idx >= db_col_i64(st, 1) && (len != sizeof(e->leaf) || memcmp(leaf, e->leaf, len) != 0);
	}
	db_stmt_put(&st);
	return rc;
}

/* The same intent as the newest record; what went up to itself goes up to itself.  Nobody signs what keys.db says: who
 * approved it there is nobody's word here, and verification tells that it is not known (FORGERY G-02). */
static int intend_again(struct audit_logs *logs, struct db *db, const struct keys_erased *e, int64_t tenant_id,
			struct err *err)
{
	static const uint16_t tags[] = { AUDIT_TAG_RANGE, AUDIT_TAG_KEYS, AUDIT_TAG_GROUND, AUDIT_TAG_TICKET };
	struct audit_field field[NELEMS(tags)];
	struct audit_receipt at;
	struct audit_event ev;
	uint8_t range[16];
	char detail[100];
	int64_t size = 0;
	int rc = audit_size(logs, tenant_id, &size, err);

	audit_event_init(&ev, AUDIT_ERASE, tenant_id);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.detail = detail;
	ev.field = field;
	(void)snprintf(detail, sizeof(detail), "the store was put back to a copy that is older than record %" PRId64, e->idx);
	for (size_t i = 0; i < NELEMS(tags); i++) {
		struct audit_field *f = &field[ev.nfield];

		f->tag = tags[i];
		f->p = audit_field_find(e->ext, e->ext_len, tags[i], &f->len);
		ev.nfield += f->p != NULL;
		if (!f->p || tags[i] != AUDIT_TAG_RANGE || f->len != sizeof(range))
			continue;
		memcpy(range, f->p, sizeof(range));
		if (audit_get_be(range, 8) == 0 && audit_get_be(range + 8, 8) == (uint64_t)e->idx)
			audit_put_be(range + 8, (uint64_t)size, 8);
		f->p = range;
	}
	if (rc == 0)
		rc = audit_append(logs, db, &ev, &at, err);
	return rc < 0 ? rc : audit_erase_intend(db, &at, err);
}

static int replay(struct audit_logs *logs, struct db *db, const struct keys_erased *e, struct err *err)
{
	int64_t tenant_id = 0;
	int rc = is_unknown(db, e, &tenant_id, err);

	if (rc <= 0)
		return rc;
	log_warn(NULL, "erased again in a store that was put back log=%s record=%" PRId64, e->origin, e->idx);
	rc = db_txn_begin(db, true, err);
	if (rc < 0)
		return rc;
	rc = intend_again(logs, db, e, tenant_id, err);
	rc = end_alone(logs, db, rc, err);
	return rc < 0 ? rc : keys_drop_erased(logs->keys, e->id, err);
}

int audit_erase_replay(struct audit_logs *logs, struct db *db, struct err *err)
{
	struct keys_erased e = { 0 };
	int64_t after = 0;
	int rc = 0;

	while (rc == 0 && (rc = keys_next_erased(logs->keys, after, &e, err)) == 1) {
		after = e.id;
		rc = replay(logs, db, &e, err);
		keys_erased_fini(&e);
	}
	return rc;
}

int audit_erase_resume(struct audit_logs *logs, struct db *db, struct err *err)
{
	struct audit_job job = { 0 };
	int rc;

	while ((rc = audit_job_next(db, AUDIT_ERASE, &job, err)) == 1) {
		bool done = false;

		for (rc = 0; rc == 0 && !done && !job.files;) {
			rc = step_alone(logs, db, &job, &done, err);
			if (rc == 0 && job.flush) {
				rc = audit_erase_flush(logs, db, err);
				job.flush = false;
				job.flushed = true;
			}
		}
		if (rc < 0)
			break;
	}
	/* erased; whoever reads there holds the files' logs, and it is tried again later */
	return rc == ERR_BUSY ? 0 : rc;
}

int audit_job_step(struct audit_logs *logs, struct db *db, struct audit_job *job, bool *ret_done, struct err *err)
{
	*ret_done = false;
	switch (job->kind) {
	case AUDIT_PRUNE:
		return prune_step(logs, db, job, ret_done, err);
	case AUDIT_ERASE:
		return erase_step(logs, db, job, ret_done, err);
	default:
		return err_set(err, ERR_CORRUPT, "deed", "an intent of kind %d", job->kind);
	}
}
