/* Destroying keys, and wrapping them anew. */

#include "config.h"

#include "keys_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/aead.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "db/db.h"

int keys_of_subject(struct keys *k, int64_t tenant_id, const char *subject, int64_t **ret, size_t *ret_n, struct err *err)
{
	struct db_stmt *st = db_stmt_get(k->db, SQL_KEYS_LIST_SUBJECT);
	int64_t *ids = NULL;
	size_t n = 0;
	int rc;

	db_bind_i64(st, 1, tenant_id);
	db_bind_textz(st, 2, subject);
	while ((rc = db_step(st, err)) == 1) {
		ids = mem_realloc(ids, (n + 1) * sizeof *ids);
		ids[n++] = db_col_i64(st, 0);
	}
	db_stmt_put(&st);
	if (rc < 0) {
		free(ids);
		return rc;
	}
	*ret = ids;
	*ret_n = n;
	return 0;
}

static int destroy_row(struct keys *k, enum sql_id sql, int64_t id, struct err *err)
{
	struct db_stmt *st = db_stmt_get(k->db, sql);

	db_bind_i64(st, 1, id);
	db_bind_i64(st, 2, (int64_t)clock_wall_us());
	return db_run(&st, err);
}

/* The end of a transaction that destroyed: the log of the file holds older pages with the wrapped keys (AUDIT A-509). */
static int finish(struct keys *k, int rc, struct err *err)
{
	rc = db_txn_end(k->db, rc, err);
	keys_forget(k);
	return rc < 0 ? rc : db_truncate_log(k->db, err);
}

int keys_destroy(struct keys *k, const int64_t *ids, size_t n, struct err *err)
{
	int rc = keys_commit(k, err);

	if (rc == 0)
		rc = db_txn_begin(k->db, true, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = destroy_row(k, SQL_KEYS_DESTROY_DEK, ids[i], err);
	return finish(k, rc, err);
}

int keys_truncate_log(struct keys *k, struct err *err)
{
	int rc = keys_commit(k, err);

	return rc < 0 ? rc : db_truncate_log(k->db, err);
}

static int kek_in_force(struct keys *k, int64_t tenant_id, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(k->db, SQL_KEYS_GET_KEK);
	int rc;

	db_bind_i64(st, 1, tenant_id);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc;
}

int keys_destroy_tenant(struct keys *k, int64_t tenant_id, struct err *err)
{
	int64_t id = 0;
	int rc = keys_commit(k, err);

	if (rc == 0)
		rc = db_txn_begin(k->db, true, err);
	if (rc < 0)
		return rc;
	rc = kek_in_force(k, tenant_id, &id, err);
	if (rc == 1)
		rc = destroy_row(k, SQL_KEYS_DESTROY_DEKS_OF, id, err);
	if (rc == 0 && id)
		rc = destroy_row(k, SQL_KEYS_DESTROY_KEK, id, err);
	return finish(k, rc, err);
}

/* --- rekey */

int keys_stale(struct keys *k, const char *id, size_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(k->db, SQL_KEYS_COUNT_STALE);
	int rc;

	db_bind_textz(st, 1, id);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = (size_t)db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

struct wrapped { int64_t id; uint8_t box[32 + AEAD_OVERHEAD]; };

/* The next KEKs, as they will be. */
static int wrap_batch(struct keys *k, const struct keyfile *to, struct wrapped *ret, size_t max, size_t *ret_n, struct err *err)
{
	struct db_stmt *st = db_stmt_get(k->db, SQL_KEYS_LIST_STALE);
	uint8_t key[32];
	size_t n = 0;
	int rc;

	db_bind_textz(st, 1, to->id);
	db_bind_i64(st, 2, (int64_t)max);
	while ((rc = db_step(st, err)) == 1 && n < max) {
		int64_t id = db_col_i64(st, 0), tenant_id = db_col_i64(st, 1);
		char *where;

		rc = keys_open_kek(k, st, 2, id, tenant_id, key, err);
		if (rc < 0)
			break;
		where = keys_kek_place(id, tenant_id, to->id);
		ret[n].id = id;
		aead_seal(to->key, where, key, sizeof key, ret[n++].box);
		free(where);
	}
	secret_wipe(key, sizeof key);
	db_stmt_put(&st);
	*ret_n = n;
	return rc < 0 ? rc : 0;
}

static int store_batch(struct keys *k, const struct keyfile *to, const struct wrapped *batch, size_t n, struct err *err)
{
	int rc = db_txn_begin(k->db, true, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < n && rc == 0; i++) {
		struct db_stmt *st = db_stmt_get(k->db, SQL_KEYS_REWRAP_KEK);

		db_bind_i64(st, 1, batch[i].id);
		db_bind_textz(st, 2, to->id);
		db_bind_blob(st, 3, batch[i].box, sizeof batch[i].box);
		rc = db_run(&st, err);
	}
	return db_txn_end(k->db, rc, err);
}

int keys_rewrap(struct keys *k, const char *id, size_t max, size_t *ret_left, struct err *err)
{
	const struct keyfile_place place = { k->store, k->master };
	struct wrapped *batch = mem_calloc(max, sizeof *batch);
	struct keyfile to = { .key = NULL };
	size_t n = 0;
	int rc = keys_commit(k, err);

	if (rc == 0)
		rc = keyfile_load(&place, KEYS_PURPOSE, id, &to, err);
	if (rc == 0)
		rc = wrap_batch(k, &to, batch, max, &n, err);
	if (rc == 0 && n > 0)
		rc = store_batch(k, &to, batch, n, err);
	if (rc == 0)
		rc = keys_stale(k, id, ret_left, err);
	keyfile_fini(&to);
	free(batch);
	return rc;
}
