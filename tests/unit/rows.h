#ifndef TESTS_ROWS_H
#define TESTS_ROWS_H

/* A store of the test's own, and rows as the administration writes them. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/crypto.h"
#include "base/id.h"
#include "db/db.h"
#include "tenant/tenant.h"

#include "store.h"
#include "tmpdir.h"

struct rows {
	char *dir;
	struct db *db;
};

#define ROWS_OK(call) do { \
		if ((call) < 0) \
			fail_msg("%s: %s: %s", #call, rows_err.where, rows_err.msg); \
	} while (0)
static struct err rows_err;

static inline void rows_open(struct rows *r)
{
	char path[600];

	assert_int_equal(secret_init(), 0);
	r->dir = tmpdir_make();
	assert_non_null(r->dir);
	ROWS_OK(store_copy(tmpdir_path(r->dir, "toolcrib.db", path, sizeof path), &rows_err));
	ROWS_OK(db_open(path, DB_WRITER, false, &r->db, &rows_err));
	ROWS_OK(db_migrate(r->db, &rows_err));
	/* One transaction for the test's life: its rows need no flush. */
	ROWS_OK(db_txn_begin(r->db, true, &rows_err));
}

static inline void rows_close(struct rows *r)
{
	ROWS_OK(db_txn_end(r->db, 0, &rows_err));
	db_close(&r->db);
	tmpdir_remove(r->dir);
}

static inline int64_t rows_run(struct rows *r, struct db_stmt *st)
{
	const int rc = db_step(st, &rows_err);
	const int64_t id = rc == 1 ? db_col_i64(st, 0) : db_last_id(r->db);

	ROWS_OK(rc == 1 ? db_step(st, &rows_err) : rc);
	db_stmt_put(&st);
	return id;
}

static inline int64_t rows_principal(struct rows *r, int64_t tenant_id, const char *name)
{
	struct db_stmt *st = db_stmt_get(r->db, SQL_PRINCIPAL_INSERT);
	char pseudonym[24] = "prn_";

	id_random_text(pseudonym + 4, 16);
	db_bind_i64(st, 1, tenant_id);
	db_bind_textz(st, 2, name);
	db_bind_textz(st, 3, pseudonym);
	db_bind_i64(st, 4, 1);
	return rows_run(r, st);
}

/* With its principal "default". */
static inline int64_t rows_tenant(struct rows *r, const char *name)
{
	struct db_stmt *st = db_stmt_get(r->db, SQL_TENANT_INSERT);
	int64_t id;

	db_bind_textz(st, 1, name);
	db_bind_textz(st, 2, name);
	db_bind_i64(st, 3, 0);
	db_bind_i64(st, 4, 0);
	db_bind_i64(st, 5, 0);
	db_bind_i64(st, 6, 1);
	db_bind_textz(st, 7, "");
	id = rows_run(r, st);
	(void)rows_principal(r, id, "default");
	return id;
}

static inline void rows_tenant_state(struct rows *r, int64_t tenant_id, enum tenant_state state)
{
	struct db_stmt *st = db_stmt_get(r->db, SQL_TENANT_SET_STATE);

	db_bind_i64(st, 1, tenant_id);
	db_bind_i64(st, 2, state);
	(void)rows_run(r, st);
}

/* expires_us 0: never. */
static inline int64_t rows_key(struct rows *r, int64_t tenant_id, int64_t principal_id, const struct key_new *key,
			       int64_t expires_us)
{
	struct db_stmt *st = db_stmt_get(r->db, SQL_KEY_INSERT);

	db_bind_i64(st, 1, tenant_id);
	db_bind_i64(st, 2, principal_id);
	db_bind_textz(st, 3, key->accessor);
	db_bind_blob(st, 4, key->hash, sizeof key->hash);
	db_bind_textz(st, 5, "");
	db_bind_i64(st, 6, 1);
	if (expires_us)
		db_bind_i64(st, 7, expires_us);
	else
		db_bind_null(st, 7);
	for (unsigned i = 8; i <= 13; i++)
		db_bind_null(st, i);
	return rows_run(r, st);
}

static inline void rows_grant(struct rows *r, int64_t tenant_id, const char *glob, const char *alias)
{
	struct db_stmt *st = db_stmt_get(r->db, SQL_GRANT_INSERT);

	db_bind_i64(st, 1, tenant_id);
	db_bind_textz(st, 2, glob);
	db_bind_textz(st, 3, alias);
	for (unsigned i = 4; i <= 7; i++)
		db_bind_i64(st, i, 0);
	db_bind_null(st, 8);
	(void)rows_run(r, st);
}

static inline void rows_ungrant(struct rows *r, int64_t tenant_id, const char *glob)
{
	struct db_stmt *st = db_stmt_get(r->db, SQL_GRANT_DELETE);

	db_bind_i64(st, 1, tenant_id);
	db_bind_textz(st, 2, glob);
	(void)rows_run(r, st);
}

/* kind as it is stored; uri: NULL = none. */
static inline void rows_version(struct rows *r, int64_t tool_id, int64_t version, const char *text, const uint8_t digest[32],
				const uint8_t list_digest[32], int kind, const char *uri)
{
	struct db_stmt *st = db_stmt_get(r->db, SQL_TOOL_INSERT_VERSION);

	db_bind_i64(st, 1, tool_id);
	db_bind_i64(st, 2, version);
	db_bind_blob(st, 3, digest, 32);
	db_bind_blob(st, 4, list_digest, 32);
	db_bind_textz(st, 5, text);
	db_bind_textz(st, 6, "uid/0");
	db_bind_i64(st, 7, 1);
	db_bind_i64(st, 8, kind);
	db_bind_textz(st, 9, uri);
	(void)rows_run(r, st);
}

static inline void rows_tool_version(struct rows *r, int64_t tool_id, int64_t version, const char *text,
				     const uint8_t digest[32], const uint8_t list_digest[32])
{
	rows_version(r, tool_id, version, text, digest, list_digest, 1, NULL);
}

/* Version 1 of anything, by its full name; both digests are the text's. */
static inline int64_t rows_item(struct rows *r, const char *name, const char *text, int kind, const char *uri)
{
	struct db_stmt *st = db_stmt_get(r->db, SQL_TOOL_INSERT);
	uint8_t digest[32];
	int64_t id;

	db_bind_textz(st, 1, name);
	db_bind_i64(st, 2, 1);
	db_bind_i64(st, 3, 1);
	id = rows_run(r, st);
	digest_sha256(text, strlen(text), digest);
	rows_version(r, id, 1, text, digest, digest, kind, uri);
	return id;
}

static inline int64_t rows_tool(struct rows *r, const char *name, const char *text)
{
	return rows_item(r, name, text, 1, NULL);
}

/* From version to version + 1.  list: what the listed part's digest is made of. */
static inline void rows_tool_next(struct rows *r, int64_t tool_id, int64_t version, const char *text, const char *list)
{
	struct db_stmt *st;
	uint8_t digest[32], list_digest[32];

	digest_sha256(text, strlen(text), digest);
	digest_sha256(list, strlen(list), list_digest);
	rows_tool_version(r, tool_id, version + 1, text, digest, list_digest);
	st = db_stmt_get(r->db, SQL_TOOL_SET_VERSION);
	db_bind_i64(st, 1, tool_id);
	db_bind_i64(st, 2, version);
	db_bind_i64(st, 3, version + 1);
	db_bind_i64(st, 4, 1);
	(void)rows_run(r, st);
}

static inline void rows_tool_state(struct rows *r, int64_t tool_id, int state)
{
	struct db_stmt *st = db_stmt_get(r->db, SQL_TOOL_SET_STATE);

	db_bind_i64(st, 1, tool_id);
	db_bind_i64(st, 2, state);
	(void)rows_run(r, st);
}

#endif
