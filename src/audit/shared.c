/* Logs to which several nodes append (CLUSTER 3): the head's row orders them, and this process' picture of a log is
 * a copy, which the transaction that appends proves right by moving the head from it.  A log where another node was
 * faster is locked before it is appended to, for a while.  Writer thread. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/shared.h"
#include "base/map.h"
#include "base/mem.h"
#include "db/db.h"
#include "audit_int.h"

enum { SHARED_LOGS_LATE = 64 };

/* What is known of it goes, and the head says what there is; nothing of this transaction is in it yet.  1: it has
 * become longer. */
static int take_head(struct audit_log *log, struct db_stmt *st, struct err *err)
{
	struct tree now = { 0 };
	uint8_t root[TREE_HASH];
	size_t len = 0, root_len = 0;
	const int64_t size = db_col_i64(st, 0), was = log->size;
	const void *said = db_col_blob(st, 1, &root_len), *frontier = db_col_blob(st, 2, &len);

	if (size < was)
		return err_set(err, ERR_CORRUPT, log->origin, "the log had %lld records and has %lld", (long long)was,
			       (long long)size);
	if (size == was && log->tail)
		return 0;
	if (size > 0 && (!tree_load(&now, size, frontier, len) || root_len != TREE_HASH))
		return err_set(err, ERR_CORRUPT, log->origin, "the head has no tree of %lld records", (long long)size);
	tree_root(&now, root);
	if (size > 0 && memcmp(root, said, TREE_HASH) != 0)
		return err_set(err, ERR_CORRUPT, log->origin, "the head's root and frontier contradict each other");
	log->size = log->saved = log->flushed = size;
	if (!log->tail)
		log->tail = mem_zalloc(sizeof(*log->tail));
	log->tail->now = now;
	log->tail->nleaf = log->tail->nodes.n = 0;
	return size > was;
}

static int read_head(struct audit_logs *logs, struct audit_log *log, enum sql_id sql, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, sql);
	int rc;

	db_bind_i64(st, 1, log->id);
	rc = db_step(st, err);
	if (rc == 1)
		rc = take_head(log, st, err);
	else if (rc == 0)
		rc = err_set(err, ERR_CORRUPT, log->origin, "the log has no head");
	db_stmt_put(&st);
	if (rc == 1)
		audit_behind(logs, log);
	return rc < 0 ? rc : 0;
}

int audit_shared_look(struct audit_logs *logs, struct audit_log *log, struct db *db, struct err *err)
{
	return read_head(logs, log, SQL_AUDIT_LOOK_AT_HEAD, db, err);
}

int audit_shared_meet(struct audit_logs *logs, struct audit_log *log, struct db *db, struct err *err)
{
	if (!logs->shared || log->met == logs->turn)
		return 0;
	log->met = logs->turn;
	return logs->locks || log->contended || !log->tail ? read_head(logs, log, SQL_AUDIT_LOCK_HEAD, db, err) : 0;
}

void audit_shared_begin(struct audit_logs *logs, bool locks)
{
	logs->turn++;
	logs->locks = locks || logs->lock_next;
	logs->lock_next = false;
}

int audit_shared_meet_all(struct audit_logs *logs, const int64_t *tenant, size_t n, struct db *db, struct err *err)
{
	struct audit_log **log = mem_calloc(n + 1, sizeof(*log));
	size_t found = 0;
	int rc = 0;

	for (size_t i = 0; i < n; i++) {
		log[found] = audit_log_find(logs, tenant[i]);
		logs->locks |= log[found] && (log[found]->contended || !log[found]->tail);
		found += log[found] != NULL;
	}
	qsort(log, found, sizeof(*log), audit_log_order);
	for (size_t i = 0; rc == 0 && i < found; i++)
		rc = audit_shared_meet(logs, log[i], db, err);
	free(log);
	return rc;
}

int audit_shared_heads(struct audit_logs *logs, struct db *db, bool all, bool *ret_grew, struct err *err)
{
	struct map *by_id = audit_logs_by_id(logs);
	struct audit_log **log = mem_calloc(map_count(by_id) + 1, sizeof(*log));
	struct db_stmt *st = db_stmt_get(db, SQL_AUDIT_LIST_HEADS);
	size_t n = 0;
	int rc;

	*ret_grew = false;
	while ((rc = db_step(st, err)) == 1) {
		struct audit_log *l = map_get_u64(by_id, (uint64_t)db_col_i64(st, 0));

		if (!l || l->met == logs->turn)
			continue;
		*ret_grew |= db_col_i64(st, 1) > l->size;
		if (db_col_i64(st, 1) != l->size || (all && !l->tail))
			log[n++] = l;
	}
	db_stmt_put(&st);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = audit_shared_look(logs, log[i], db, err);
	map_free(&by_id);
	free(log);
	return rc;
}

int audit_shared_notes(struct audit_logs *logs, struct db *db, struct err *err)
{
	struct map *by_id = audit_logs_by_id(logs);
	struct db_stmt *st = db_stmt_get(db, SQL_AUDIT_LIST_NOTES);
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		struct audit_log *l = map_get_u64(by_id, (uint64_t)db_col_i64(st, 0));

		if (l && l->noted.size < db_col_i64(st, 1)) {
			l->noted.size = db_col_i64(st, 1);
			l->noted.epoch = db_col_i64(st, 2);
			l->noted.ts = db_col_i64(st, 3);
		}
	}
	db_stmt_put(&st);
	map_free(&by_id);
	return rc;
}

void audit_shared_eased(struct audit_logs *logs)
{
	void *value;

	for (size_t it = 0; map_next(logs->by_tenant, &it, NULL, NULL, &value);)
		((struct audit_log *)value)->contended = false;
}

int audit_shared_logs(struct audit_logs *logs, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_AUDIT_LIST_NEW_LOGS);
	int rc;

	/* ids are given out before their logs are there */
	db_bind_i64(st, 1, logs->newest_log - SHARED_LOGS_LATE);
	while ((rc = db_step(st, err)) == 1) {
		const int64_t id = db_col_i64(st, 0), tenant_id = db_col_i64(st, 1);
		struct audit_log *log = audit_log_find(logs, tenant_id);

		logs->newest_log = id > logs->newest_log ? id : logs->newest_log;
		if (log)                        /* made here */
			continue;
		log = audit_log_add(logs, id, tenant_id, db_col_i64(st, 3), db_col_text(st, 2, NULL));
		log->min_idx = db_col_i64(st, 4);
		audit_behind(logs, log);
	}
	db_stmt_put(&st);
	return rc;
}

int64_t audit_shared_since(const struct audit_logs *logs)
{
	int64_t first = 0;

	LIST_FOREACH(n, &logs->open) {
		const struct audit_open *o = CONTAINER_OF(n, struct audit_open, node);

		if (first == 0 || o->ts < first)
			first = o->ts;
	}
	return first;
}

const char *audit_boot(const struct audit_logs *logs)
{
	return logs->boot;
}
