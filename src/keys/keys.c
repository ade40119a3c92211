/* keys.db: the keys that payloads are encrypted with.  The writer makes them, new ones become durable together;
 * readers open them; opened keys are kept in memory.  Destroying a key destroys what is under it: it leaves the
 * file before anybody is told. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "db/db.h"
#include "db/owner.h"
#include "db/server.h"
#include "keys/commit.h"
#include "keys/keys.h"

#define KEYS_PURPOSE "toolcrib/kek/1"   /* of the key, derived from a key file, that KEKs are wrapped with */
#define KEYS_SUBJECT_SIZE 64            /* with NUL */
#define EMPTY_WAIT_US 2000              /* for readers, of each file's log */

struct kek { int64_t id; uint8_t key[32], token[32]; };
struct dek { struct keys_dek face; int64_t tenant_id; };

struct keys {
	struct db *db;
	char *store;
	uint8_t *master;                /* guarded memory */
	struct map *by_tenant;          /* struct kek in force */
	struct map *by_id;              /* struct dek, owned */
	struct map *by_place;           /* the same by tenant, month, subject: those in force */
	bool pending, made;             /* a transaction is open; keys were made whose ids the store has not noted */
	int64_t last_kek, last_dek;     /* ids given; -1 = not read yet */
	int64_t past_kek, past_dek;     /* given before, as the store remembers */
	struct { time_t day; int64_t month; } asked;    /* month_of() */
};

static void wipe_values(struct map **map, size_t size)
{
	void *value;

	for (size_t it = 0; map_next(*map, &it, NULL, NULL, &value);) {
		secret_wipe(value, size);
		free(value);
	}
	map_free(map);
	*map = map_new();
}

/* Drop and wipe what is in memory. */
static void keys_forget(struct keys *k)
{
	map_free(&k->by_place);         /* the same objects as by_id */
	k->by_place = map_new();
	wipe_values(&k->by_id, sizeof(struct dek));
	wipe_values(&k->by_tenant, sizeof(struct kek));
	k->last_kek = k->last_dek = -1;
}

/* --- opening */

static int open_file(const struct keyfile_place *place, enum db_mode mode, struct keys **ret, struct err *err)
{
	char *path = path_join(place->store, DB_KEYS);
	struct keys *k = mem_zalloc(sizeof(*k));

	k->store = mem_strdup(place->store);
	k->by_place = map_new();
	k->by_id = map_new();
	k->by_tenant = map_new();
	k->last_kek = k->last_dek = -1;
	k->master = secret_alloc(SECRET_KEY_SIZE);
	memcpy(k->master, place->master, SECRET_KEY_SIZE);
	int rc = db_open(path, mode, mode == DB_WRITER, &k->db, err);
	if (rc == 0)
		rc = db_migrate_keys(k->db, err);
	if (rc < 0)
		keys_close(&k);
	else
		*ret = k;
	free(path);
	return rc;
}

int keys_open(const struct keyfile_place *place, struct keys **ret, struct err *err)
{
	return open_file(place, DB_WRITER, ret, err);
}

int keys_open_reader(const struct keyfile_place *place, struct keys **ret, struct err *err)
{
	return open_file(place, DB_READER, ret, err);
}

void keys_close(struct keys **kp)
{
	struct keys *k = kp ? *kp : NULL;

	if (!k)
		return;
	*kp = NULL;
	keys_forget(k);
	map_free(&k->by_place);
	map_free(&k->by_id);
	map_free(&k->by_tenant);
	db_close(&k->db);       /* undoes what was not committed */
	secret_free(k->master);
	free(k->store);
	free(k);
}

/* --- transactions */

static int begin(struct keys *k, struct err *err)
{
	int rc = k->pending ? 0 : db_txn_begin(k->db, true, err);

	if (rc == 0)
		k->pending = true;
	return rc;
}

void keys_abandon(struct keys *k)
{
	if (k->pending)
		(void)db_txn_end(k->db, ERR_CANCELLED, NULL);   /* what failed has been told */
	k->pending = false;
	keys_forget(k);
}

/* Where nodes share the store a key is durable at once: one that waits for it may hold what its maker waits for in the
 * other database.  A key that no record names harms nothing. */
static int let_go(struct keys *k, struct err *err)
{
	if (!db_is_shared(k->db))
		return 0;
	k->pending = false;
	k->made = true;
	return db_txn_end(k->db, 0, err);
}

/* Also when the engine has given the transaction up meanwhile: then nothing that uses its keys may be committed
 * either. */
int keys_commit(struct keys *k, struct err *err)
{
	int rc;

	if (!k->pending)
		return 0;
	k->pending = false;
	rc = db_txn_end(k->db, 0, err);
	CRASH_AT("dek.made");
	if (rc < 0 || map_count(k->by_id) > KEYS_CACHE_MAX || map_count(k->by_tenant) > KEYS_CACHE_MAX)
		keys_forget(k);
	return rc;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* The counters of ids, read once. */
static int read_ids(struct keys *k, struct err *err)
{
	struct db_stmt *st;
	int rc;

	if (k->last_kek >= 0)
		return 0;
	st = db_stmt_get(k->db, SQL_KEYS_LAST_IDS);
	rc = db_step(st, err);
	if (rc == 1) {          /* never one again that a record names */
		k->last_kek = larger(db_col_i64(st, 0), k->past_kek);
		k->last_dek = larger(db_col_i64(st, 1), k->past_dek);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int keys_look(struct keys *k, int64_t given[2], void (*fn)(void *arg, const char *key_id), void *arg, struct err *err)
{
	struct db_stmt *st = db_stmt_get(k->db, SQL_KEYS_LAST_IDS);
	int rc;

	k->past_kek = given[0];
	k->past_dek = given[1];
	k->last_kek = k->last_dek = -1;
	rc = db_step(st, err);
	if (rc == 1) {
		given[0] = db_col_i64(st, 0);
		given[1] = db_col_i64(st, 1);
	}
	db_stmt_put(&st);
	if (rc < 0)
		return rc;
	st = db_stmt_get(k->db, SQL_KEYS_LIST_FILES);
	while ((rc = db_step(st, err)) == 1)
		fn(arg, db_col_text(st, 0, NULL));
	db_stmt_put(&st);
	return rc;
}

int keys_remember(struct keys *k, struct db *store, struct err *err)
{
	struct db_stmt *st;
	char text[48];

	if ((!k->pending && !k->made) || k->last_kek < 0)
		return 0;
	k->made = false;
	(void)snprintf(text, sizeof(text), "%" PRId64 " %" PRId64, k->last_kek, k->last_dek);
	st = db_stmt_get(store, SQL_META_SET_VALUE);
	db_bind_textz(st, 1, KEYS_META_GIVEN);
	db_bind_textz(st, 2, text);
	return db_run(&st, err);
}

/* --- keks */

static char *keys_kek_place(int64_t id, int64_t tenant_id, const char *key_id)
{
	return mem_printf("kek|%" PRId64 "|%" PRId64 "|box|%s", id, tenant_id, key_id);
}

static char *dek_place(int64_t id, int64_t kek_id, const char *subject, int64_t month)
{
	return mem_printf("dek|%" PRId64 "|%s|%" PRId64 "|box|%" PRId64, id, subject, month, kek_id);
}

static struct kek *kek_keep(struct keys *k, int64_t id, int64_t tenant_id, const uint8_t key[32])
{
	struct kek *kek = mem_zalloc(sizeof(*kek));

	kek->id = id;
	memcpy(kek->key, key, sizeof(kek->key));
	secret_derive(key, "toolcrib/token/1", kek->token);
	map_set_u64(k->by_tenant, (uint64_t)tenant_id, kek);
	return kek;
}

/* key_id and box stand in columns col and col + 1 of the row. */
static int keys_open_kek(struct keys *k, struct db_stmt *st, unsigned col, int64_t id, int64_t tenant_id,
			 uint8_t ret[32], struct err *err)
{
	const struct keyfile_place place = { k->store, k->master };
	struct keyfile file = { .key = NULL };
	char *key_id = mem_strdup(db_col_text(st, col, NULL)), *where;
	size_t len;
	const uint8_t *box = db_col_blob(st, col + 1, &len);
	int rc = keyfile_load(&place, KEYS_PURPOSE, key_id, &file, err);

	if (rc == 0) {
		where = keys_kek_place(id, tenant_id, key_id);
		if (len != 32 + AEAD_OVERHEAD || aead_open(file.key, where, box, len, ret) < 0)
			rc = err_set(err, ERR_CORRUPT, DB_KEYS, "the payload key of tenant %" PRId64 " does not open", tenant_id);
		free(where);
	}
	keyfile_fini(&file);
	free(key_id);
	return rc;
}

static int find_kek(struct keys *k, int64_t tenant_id, struct kek **ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(k->db, SQL_KEYS_GET_KEK);
	uint8_t key[32];
	int64_t id;
	int rc;

	db_bind_i64(st, 1, tenant_id);
	rc = db_step(st, err);
	if (rc == 1) {
		id = db_col_i64(st, 0);
		rc = keys_open_kek(k, st, 1, id, tenant_id, key, err);
		if (rc == 0)
			*ret = kek_keep(k, id, tenant_id, key);
		secret_wipe(key, sizeof(key));
	}
	db_stmt_put(&st);
	if (rc == ERR_UNREACHABLE) {    /* what is under it stays shut until the file is back; that must not stop the calls */
		log_err(NULL, "payload key of a tenant is lost, a new one is made tenant=%lld why=\"%s\"", (long long)tenant_id,
			err->msg);
		return 0;
	}
	return rc;
}

/* The file that new keys are wrapped with.  When it is lost, master.key is there, or nothing runs. */
static int current_file(struct keys *k, struct db *store, struct keyfile *ret, struct err *err)
{
	const struct keyfile_place place = { k->store, k->master };
	char id[KEYFILE_ID_SIZE];
	struct err why;
	int rc = keyfile_current(store, id, err);

	if (rc < 0)
		return rc;
	if (rc == 1 && keyfile_load(&place, KEYS_PURPOSE, id, ret, &why) == 0)
		return 0;
	if (rc == 1)
		log_warn(NULL, "key file cannot be read, master.key wraps a new payload key why=\"%s\"", why.msg);
	keyfile_from(k->master, KEYS_PURPOSE, ret);
	return 0;
}

static int insert_kek(struct keys *k, int64_t id, int64_t tenant_id, const char *key_id,
		      const uint8_t box[32 + AEAD_OVERHEAD], struct err *err)
{
	struct db_stmt *st = db_stmt_get(k->db, SQL_KEYS_INSERT_KEK);

	db_bind_i64(st, 1, id);
	db_bind_i64(st, 2, tenant_id);
	db_bind_textz(st, 3, key_id);
	db_bind_blob(st, 4, box, 32 + AEAD_OVERHEAD);
	db_bind_i64(st, 5, (int64_t)clock_wall_us());
	return db_run(&st, err);
}

static int make_kek(struct keys *k, struct db *store, int64_t tenant_id, struct kek **ret, struct err *err)
{
	uint8_t key[32], box[32 + AEAD_OVERHEAD];
	struct keyfile file = { .key = NULL };
	char *where;
	int rc = read_ids(k, err);

	if (rc == 0)
		rc = current_file(k, store, &file, err);
	if (rc == 0)
		rc = begin(k, err);
	if (rc == 0) {
		id_random(key, sizeof(key));
		where = keys_kek_place(k->last_kek + 1, tenant_id, file.id);
		aead_seal(file.key, where, key, sizeof(key), box);
		free(where);
		rc = insert_kek(k, k->last_kek + 1, tenant_id, file.id, box, err);
		if (rc == 0)
			rc = let_go(k, err);
		if (rc == 0)
			*ret = kek_keep(k, ++k->last_kek, tenant_id, key);
		secret_wipe(key, sizeof(key));
	}
	keyfile_fini(&file);
	return rc;
}

static int get_kek(struct keys *k, struct db *store, int64_t tenant_id, struct kek **ret, struct err *err)
{
	int rc;

	*ret = map_get_u64(k->by_tenant, (uint64_t)tenant_id);
	if (*ret)
		return 0;
	rc = find_kek(k, tenant_id, ret, err);
	if (rc == 0 && !*ret)
		rc = make_kek(k, store, tenant_id, ret, err);
	return rc;
}

int keys_token(struct keys *k, struct db *store, int64_t tenant_id, const uint8_t **ret, struct err *err)
{
	struct kek *kek;
	int rc = get_kek(k, store, tenant_id, &kek, err);

	if (rc < 0)
		return rc;
	*ret = kek->token;
	return 0;
}

/* --- deks */

/* Asked for each record; a day is in one month. */
static int64_t month_of(struct keys *k, uint64_t time_us)
{
	const time_t s = (time_t)(time_us / 1000000), day = s / 86400;
	struct tm tm;

	if (k->asked.month == 0 || k->asked.day != day) {
		gmtime_r(&s, &tm);
		k->asked.day = day;
		k->asked.month = (tm.tm_year + 1900) * INT64_C(100) + tm.tm_mon + 1;
	}
	return k->asked.month;
}

static struct dek *dek_keep(struct keys *k, int64_t id, int64_t tenant_id, const uint8_t key[32])
{
	struct dek *dek = mem_zalloc(sizeof(*dek));

	dek->face.id = id;
	dek->tenant_id = tenant_id;
	memcpy(dek->face.key, key, sizeof(dek->face.key));
	audit_payload_key(key, dek->face.ekey);
	map_set_u64(k->by_id, (uint64_t)id, dek);
	return dek;
}

static int open_dek(const struct kek *kek, const char *where, const uint8_t *box, size_t len, uint8_t ret[32],
		    struct err *err)
{
	if (len != 32 + AEAD_OVERHEAD || aead_open(kek->key, where, box, len, ret) < 0)
		return err_set(err, ERR_CORRUPT, DB_KEYS, "a payload key does not open: %s", where);
	return 0;
}

static int find_dek(struct keys *k, const struct kek *kek, int64_t tenant_id, const char *subject, int64_t month,
		    struct dek **ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(k->db, SQL_KEYS_GET_DEK);
	uint8_t key[32];
	int rc;

	db_bind_i64(st, 1, kek->id);
	db_bind_textz(st, 2, subject);
	db_bind_i64(st, 3, month);
	rc = db_step(st, err);
	if (rc == 1) {
		int64_t id = db_col_i64(st, 0);
		size_t len;
		const uint8_t *box = db_col_blob(st, 1, &len);
		char *where = dek_place(id, kek->id, subject, month);

		rc = open_dek(kek, where, box, len, key, err);
		if (rc == 0)
			*ret = dek_keep(k, id, tenant_id, key);
		secret_wipe(key, sizeof(key));
		free(where);
	}
	db_stmt_put(&st);
	return rc;
}

static int make_dek(struct keys *k, const struct kek *kek, int64_t tenant_id, const char *subject, int64_t month,
		    struct dek **ret, struct err *err)
{
	uint8_t key[32], box[32 + AEAD_OVERHEAD];
	struct db_stmt *st;
	char *where;
	int rc = read_ids(k, err);

	if (rc == 0)
		rc = begin(k, err);
	if (rc < 0)
		return rc;
	id_random(key, sizeof(key));
	where = dek_place(k->last_dek + 1, kek->id, subject, month);
	aead_seal(kek->key, where, key, sizeof(key), box);
	free(where);
	st = db_stmt_get(k->db, SQL_KEYS_INSERT_DEK);
	db_bind_i64(st, 1, k->last_dek + 1);
	db_bind_i64(st, 2, kek->id);
	db_bind_textz(st, 3, subject);
	db_bind_i64(st, 4, month);
	db_bind_blob(st, 5, box, sizeof(box));
	db_bind_i64(st, 6, (int64_t)clock_wall_us());
	rc = db_run(&st, err);
	if (rc == 0)
		rc = let_go(k, err);
	if (rc == 0)
		*ret = dek_keep(k, ++k->last_dek, tenant_id, key);
	secret_wipe(key, sizeof(key));
	return rc;
}

int keys_dek(struct keys *k, struct db *store, int64_t tenant_id, const char *subject, uint64_t time_us,
	     const struct keys_dek **ret, struct err *err)
{
	struct { int64_t tenant_id, month; char subject[KEYS_SUBJECT_SIZE]; } at = { tenant_id, month_of(k, time_us), "" };
	size_t len = strnlen(subject, sizeof(at.subject));
	struct kek *kek = NULL;
	struct dek *dek;
	int rc;

	if (len >= sizeof(at.subject))
		return err_set(err, ERR_INVALID, DB_KEYS, "a subject has at most %zu bytes", sizeof(at.subject) - 1);
	memcpy(at.subject, subject, len);
	dek = map_get(k->by_place, &at, offsetof(typeof(at), subject) + len);
	if (dek) {
		*ret = &dek->face;
		return 0;
	}
	rc = get_kek(k, store, tenant_id, &kek, err);
	if (rc == 0)
		rc = find_dek(k, kek, tenant_id, at.subject, at.month, &dek, err);
	if (rc == 0 && !dek)
		rc = make_dek(k, kek, tenant_id, at.subject, at.month, &dek, err);
	if (rc < 0)
		return rc;
	map_set(k->by_place, &at, offsetof(typeof(at), subject) + len, dek);
	*ret = &dek->face;
	return 0;
}

/* The kek of a key that a record names; it may be another than the tenant's of today. */
static int open_kek_by_id(struct keys *k, int64_t id, int64_t tenant_id, struct kek *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(k->db, SQL_KEYS_GET_KEK_BY_ID);
	int rc;

	db_bind_i64(st, 1, id);
	rc = db_step(st, err);
	if (rc == 0 || (rc == 1 && db_col_type(st, 2) == DB_NULL))
		rc = err_set(err, ERR_NOT_FOUND, DB_KEYS, "the key is destroyed");
	else if (rc == 1 && db_col_i64(st, 0) != tenant_id)
		rc = err_set(err, ERR_DENIED, DB_KEYS, "the key is another tenant's");
	else if (rc == 1)
		rc = keys_open_kek(k, st, 1, id, tenant_id, ret->key, err);
	ret->id = id;
	db_stmt_put(&st);
	return rc;
}

static int find_by_id(struct keys *k, int64_t tenant_id, int64_t id, struct dek **ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(k->db, SQL_KEYS_GET_DEK_BY_ID);
	struct kek kek;
	uint8_t key[32];
	int rc;

	db_bind_i64(st, 1, id);
	rc = db_step(st, err);
	if (rc == 0 || (rc == 1 && db_col_type(st, 3) == DB_NULL))
		rc = err_set(err, ERR_NOT_FOUND, DB_KEYS, "the key is destroyed");
	if (rc == 1)
		rc = open_kek_by_id(k, db_col_i64(st, 0), tenant_id, &kek, err);
	if (rc == 0) {
		size_t len;
		const uint8_t *box = db_col_blob(st, 3, &len);
		char *where = dek_place(id, kek.id, db_col_text(st, 1, NULL), db_col_i64(st, 2));

		rc = open_dek(&kek, where, box, len, key, err);
		if (rc == 0)
			*ret = dek_keep(k, id, tenant_id, key);
		free(where);
	}
	secret_wipe(&kek, sizeof(kek));
	secret_wipe(key, sizeof(key));
	db_stmt_put(&st);
	return rc;
}

int keys_find(struct keys *k, int64_t tenant_id, int64_t id, const struct keys_dek **ret, struct err *err)
{
	struct dek *dek = map_get_u64(k->by_id, (uint64_t)id);
	int rc = 0;

	if (!dek) {
		if (!k->pending && map_count(k->by_id) >= KEYS_CACHE_MAX)
			keys_forget(k);
		rc = find_by_id(k, tenant_id, id, &dek, err);
	}
	if (rc == 0 && dek->tenant_id != tenant_id)
		rc = err_set(err, ERR_DENIED, DB_KEYS, "the key is another tenant's");
	if (rc == 0)
		*ret = &dek->face;
	return rc;
}

/* --- destroying keys, and wrapping them anew */

int keys_of_subject(struct keys *k, int64_t tenant_id, const char *subject, int64_t **ret, size_t *ret_n,
		    struct err *err)
{
	struct db_stmt *st = db_stmt_get(k->db, SQL_KEYS_LIST_SUBJECT);
	int64_t *ids = NULL;
	size_t n = 0;
	int rc;

	db_bind_i64(st, 1, tenant_id);
	db_bind_textz(st, 2, subject);
	while ((rc = db_step(st, err)) == 1) {
		ids = mem_realloc(ids, (n + 1) * sizeof(*ids));
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

/* Without waiting for readers for long: calls do meanwhile, and who asks comes again. */
static int empty_log(struct db *db, struct err *err)
{
	int rc;

	db_deadline(db, clock_mono_us() + EMPTY_WAIT_US);
	rc = db_truncate_log(db, err);
	db_deadline(db, 0);
	return rc;
}

/* The end of a transaction that destroyed: the log of the file holds older pages with the wrapped keys (AUDIT
 * */
static int finish(struct keys *k, int rc, struct err *err)
{
	rc = db_txn_end(k->db, rc, err);
	keys_forget(k);
	return rc < 0 ? rc : empty_log(k->db, err);
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

int keys_truncate_logs(struct keys *k, struct db *store, struct err *err)
{
	int rc = empty_log(store, err);

	if (rc == 0)
		rc = keys_commit(k, err);
	return rc < 0 ? rc : empty_log(k->db, err);
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
	db_bind_blob(st, 3, what->leaf, sizeof(what->leaf));
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
		if (len == sizeof(ret->leaf))
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
		rc = db_migrate_keys(db, err);
	if (rc == 0)
		rc = db_backup(db, path, err);
	db_close(&db);
	free(file);
	return rc;
}

/* --- rekey */

/* How many KEKs are under other files than this one, and one of those files; what is under a file that is lost
 * cannot be helped and does not count.  One that is there and cannot be read is an error: at the end of a rekey it
 * would be removed. */
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
static int wrap_batch(struct keys *k, const char *from, const struct keyfile *to, struct wrapped *ret, size_t max,
		      size_t *ret_n, struct err *err)
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
		aead_seal(to->key, where, key, sizeof(key), ret[n++].box);
		free(where);
	}
	secret_wipe(key, sizeof(key));
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
		db_bind_blob(st, 3, batch[i].box, sizeof(batch[i].box));
		rc = db_run(&st, err);
	}
	return db_txn_end(k->db, rc, err);
}

int keys_rewrap(struct keys *k, const char *id, size_t max, size_t *ret_left, struct err *err)
{
	const struct keyfile_place place = { k->store, k->master };
	struct wrapped *batch = mem_calloc(max, sizeof(*batch));
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
