/* Destroying keys, and wrapping them anew. */

#include "config.h"

#include "keys_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "db/db.h"
#include "db/owner.h"

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

int keys_destroy_tenant(struct keys *k, int64_t tenant_id, struct err *err)
{
	int rc = keys_commit(k, err);

	if (rc == 0)
		rc = db_txn_begin(k->db, true, err);
	if (rc < 0)
		return rc;
	rc = destroy_row(k, SQL_KEYS_DESTROY_DEKS_OF, tenant_id, err);
	if (rc == 0)
		rc = destroy_row(k, SQL_KEYS_DESTROY_KEKS_OF, tenant_id, err);
	return finish(k, rc, err);
}

/* --- the memory of what was erased */

void keys_erased_fini(struct keys_erased *e)
{
	free(e->origin);
	free(e->ext);
	*e = (struct keys_erased){ 0 };
}

int keys_note_erased(struct keys *k, const struct keys_erased *what, struct err *err)
{
	struct db_stmt *st;
	int rc = keys_commit(k, err);

	if (rc < 0)
		return rc;
	st = db_stmt_get(k->db, SQL_KEYS_INSERT_ERASED);
	db_bind_textz(st, 1, what->origin);
	db_bind_i64(st, 2, what->idx);
	db_bind_blob(st, 3, what->leaf, sizeof what->leaf);
	db_bind_blob(st, 4, what->ext, what->ext_len);
	return db_run(&st, err);
}

int keys_next_erased(struct keys *k, int64_t after, struct keys_erased *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(k->db, SQL_KEYS_NEXT_ERASED);
	size_t len = 0;
	const void *p;
	int rc;

	db_bind_i64(st, 1, after);
	rc = db_step(st, err);
	if (rc == 1) {
		*ret = (struct keys_erased){ .id = db_col_i64(st, 0), .idx = db_col_i64(st, 2) };
		ret->origin = mem_strdup(db_col_text(st, 1, NULL));
		p = db_col_blob(st, 3, &len);
		if (len == sizeof ret->leaf)
			memcpy(ret->leaf, p, len);
		p = db_col_blob(st, 4, &ret->ext_len);
		ret->ext = mem_dup(p, ret->ext_len);
	}
	db_stmt_put(&st);
	return rc;
}

int keys_drop_erased(struct keys *k, int64_t id, struct err *err)
{
	struct db_stmt *st;
	int rc = keys_commit(k, err);

	if (rc < 0)
		return rc;
	st = db_stmt_get(k->db, SQL_KEYS_DELETE_ERASED);
	db_bind_i64(st, 1, id);
	return db_run(&st, err);
}

int keys_backup(const char *store, const char *path, struct err *err)
{
	char *file = path_join(store, DB_KEYS);
	struct db *db = NULL;
	int rc = db_open(file, DB_READER, false, &db, err);

	if (rc == 0)
		rc = db_backup(db, path, err);
	db_close(&db);
	free(file);
	return rc;
}

/* --- rekey */

/* How many KEKs are under other files than this one, and one of those files; what is under a file that is lost cannot be
 * helped and does not count.  One that is there and cannot be read is an error: at the end of a rekey it would be removed. */
static int look_stale(struct keys *k, const char *id, size_t *ret, char ret_file[KEYFILE_ID_SIZE], struct err *err)
{
	const struct keyfile_place place = { k->store, k->master };
	struct db_stmt *st = db_stmt_get(k->db, SQL_KEYS_COUNT_STALE);
	int rc;

	*ret = 0;
	*ret_file = '\0';
	db_bind_textz(st, 1, id);
	while ((rc = db_step(st, err)) == 1) {
		const char *file = db_col_text(st, 0, NULL);
		struct keyfile loaded;

		rc = keyfile_load(&place, KEYS_PURPOSE, file, &loaded, err);
		if (rc < 0 && keyfile_exists(k->store, file)) {
			err_hint(err, "mend the key file, or move it away with what is under it; then go on with secret rekey");
			break;
		}
		if (rc < 0) {
			log_warn(NULL, "payload keys stay under a key file that is lost count=%lld why=\"%s\"",
				 (long long)db_col_i64(st, 1), err->msg);
			continue;
		}
		keyfile_fini(&loaded);
		*ret += (size_t)db_col_i64(st, 1);
		(void)snprintf(ret_file, KEYFILE_ID_SIZE, "%s", file);  /* as it loaded */
	}
	db_stmt_put(&st);
	return rc;
}

int keys_stale(struct keys *k, const char *id, size_t *ret, struct err *err)
{
	char file[KEYFILE_ID_SIZE];

	return look_stale(k, id, ret, file, err);
}

struct wrapped { int64_t id; uint8_t box[32 + AEAD_OVERHEAD]; };

/* The next KEKs, as they will be. */
static int wrap_batch(struct keys *k, const char *from, const struct keyfile *to, struct wrapped *ret, size_t max, size_t *ret_n,
		      struct err *err)
{
	struct db_stmt *st = db_stmt_get(k->db, SQL_KEYS_LIST_STALE);
	uint8_t key[32];
	size_t n = 0;
	int rc;

	db_bind_textz(st, 1, from);
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
	char from[KEYFILE_ID_SIZE];
	size_t n = 0;
	int rc = keys_commit(k, err);

	if (rc == 0)
		rc = look_stale(k, id, ret_left, from, err);
	if (rc == 0)
		rc = keyfile_load(&place, KEYS_PURPOSE, id, &to, err);
	if (rc == 0)
		rc = wrap_batch(k, from, &to, batch, max, &n, err);
	if (rc == 0 && n > 0)
		rc = store_batch(k, &to, batch, n, err);
	if (rc == 0)
		*ret_left -= n;
	keyfile_fini(&to);
	free(batch);
	return rc;
}
