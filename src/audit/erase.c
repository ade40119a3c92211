/* Destroying payloads, clear names and keys (AUDIT ). */

#include "config.h"

#include "audit/erase.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "db/db.h"
#include "keys/keys.h"

#include "audit_int.h"

enum { LOOK_MAX = 4096 };               /* records that one slice looks at */

static int find_log(struct audit_logs *logs, int64_t tenant_id, int64_t *ret, struct err *err)
{
	const struct audit_log *log = audit_log_find(logs, tenant_id);

	if (!log)
		return err_set(err, ERR_NOT_FOUND, "audit", "tenant %" PRId64 " has no log", tenant_id);
	*ret = log->id;
	return 0;
}

static int delete_at(struct db *db, int64_t log, int64_t idx, bool *ret_had, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ERASE_PAYLOAD_AT);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, idx);
	rc = db_run(&st, err);
	if (rc == 0)
		*ret_had = db_changes(db) > 0;
	return rc;
}

int audit_erase_record(struct audit_logs *logs, struct db *db, int64_t tenant_id, int64_t idx, bool *ret_had, struct err *err)
{
	int64_t log = 0;
	int rc = find_log(logs, tenant_id, &log, err);

	return rc < 0 ? rc : delete_at(db, log, idx, ret_had, err);
}

/* The record alias.new of a pseudonym of this log; 0: it has none. */
static int alias_record(struct db *db, int64_t log, const char *pseudonym, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ALIAS_GET);
	int rc;

	db_bind_textz(st, 1, pseudonym);
	rc = db_step(st, err);
	if (rc == 1 && db_col_i64(st, 0) != log)
		rc = 0;
	if (rc == 1)
		*ret = db_col_i64(st, 5);
	db_stmt_put(&st);
	return rc;
}

int audit_erase_alias(struct audit_logs *logs, struct db *db, int64_t tenant_id, const char *pseudonym, bool *ret_had,
		      struct err *err)
{
	struct db_stmt *st;
	int64_t log = 0, idx = 0;
	bool had = false;
	int rc = find_log(logs, tenant_id, &log, err);

	if (rc == 0)
		rc = alias_record(db, log, pseudonym, &idx, err);
	if (rc <= 0) {
		*ret_had = false;
		return rc;
	}
	rc = delete_at(db, log, idx, &had, err);
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_ERASE_ALIAS);
	db_bind_i64(st, 1, log);
	db_bind_textz(st, 2, pseudonym);
	rc = db_run(&st, err);
	audit_alias_trim(logs, 0);
	*ret_had = true;
	return rc;
}

int audit_erase_keys(struct audit_logs *logs, int64_t tenant_id, const char *subject, int64_t **ret, size_t *ret_n, struct err *err)
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

int audit_erase_slice(struct audit_logs *logs, struct db *db, int64_t tenant_id, const int64_t *ids, size_t n, int64_t before,
		      int64_t *cursor, bool *ret_done, struct err *err)
{
	int64_t rows[AUDIT_ERASE_SLICE], log = 0;
	bool first = *cursor == 0, end = false;
	size_t found = 0;
	int rc = find_log(logs, tenant_id, &log, err);

	if (rc == 0 && first && n == 0)
		rc = delete_all_aliases(db, log, err);
	for (size_t i = 0; rc == 0 && first && i < n; i++)
		rc = delete_aliases(db, log, ids[i], err);
	if (rc == 0)
		rc = list_rows(db, log, ids, n, before, cursor, rows, &found, &end, err);
	for (size_t i = 0; rc == 0 && i < found; i++) {
		struct db_stmt *st = db_stmt_get(db, SQL_ERASE_PAYLOAD);

		db_bind_i64(st, 1, rows[i]);
		rc = db_run(&st, err);
	}
	audit_alias_trim(logs, 0);
	if (rc == 0)
		*ret_done = end;
	return rc;
}

int audit_erase_flush(struct audit_logs *logs, struct db *db, struct err *err)
{
	int rc = db_truncate_log(db, err);

	return rc < 0 ? rc : keys_truncate_log(logs->keys, err);
}
