/* The vault: secrets at rest.  The store has them in boxes, each encrypted and bound to its row; the loop keeps
 * the boxes and the keys that open them, the writer changes them and hands the change over after the commit.
 * Values are in the clear in guarded memory alone. */

#include "config.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "db/db.h"
#include "keys/keys.h"
#include "keys/secrets.h"
#include "keys/vault.h"

#define VAULT_REKEY_KEKS 1024            /* payload keys wrapped anew in one transaction */
#define VAULT_PURPOSE "toolcrib/secret/1"       /* of the key that boxes are made with */

struct vault_box {
	int64_t id;                     /* of the row */
	char *name;
	char key_id[KEYFILE_ID_SIZE];
	uint8_t *box; size_t len;       /* NULL in a change: the secret was removed */
};
struct vault_change {
	struct vault_box *box; size_t n;
	struct keyfile key;             /* that the boxes are under; key.key NULL = none */
	struct vault_rekeyed rekeyed;   /* whose old keys go */
};

/* --- one value, encrypted in its row */

static void vault_box_read(struct db_stmt *st, struct vault_box *ret)
{
	size_t len;
	const char *text = db_col_text(st, 1, &len);

	ret->id = db_col_i64(st, 0);
	ret->name = mem_strndup(text, len);
	text = db_col_text(st, 2, &len);
	(void)snprintf(ret->key_id, sizeof(ret->key_id), "%.*s", (int)len, text);
	const void *box = db_col_blob(st, 3, &ret->len);
	ret->box = mem_dup(box ? box : "", ret->len);
}

static void vault_box_fini(struct vault_box *b)
{
	free(b->name);
	free(b->box);
	b->name = NULL;
	b->box = NULL;
}

/* SEC S-342: table, row, column, key; and the name, so that nobody can give the row another one. */
static char *place_of(const struct vault_box *b)
{
	return mem_printf("secret|%" PRId64 "|%s|value|%s", b->id, b->name, b->key_id);
}

/* Seal into b, whose id and name are set. */
static void vault_box_seal(struct vault_box *b, const struct keyfile *k, const char *value, size_t len)
{
	memcpy(b->key_id, k->id, sizeof(b->key_id));
	char *place = place_of(b);
	free(b->box);
	b->len = len + AEAD_OVERHEAD;
	b->box = mem_alloc(b->len);
	aead_seal(k->key, place, value, len, b->box);
	free(place);
}

/* *ret: guarded memory, NUL-terminated. */
static int vault_box_open(const struct vault_box *b, const struct keyfile *k, char **ret, size_t *ret_len,
			  struct err *err)
{
	if (b->len < AEAD_OVERHEAD)
		return err_set(err, ERR_CORRUPT, "", "the secret %s is damaged in the store", b->name);
	size_t len = b->len - AEAD_OVERHEAD;
	char *value = secret_alloc(len + 1), *place = place_of(b);
	int rc = aead_open(k->key, place, b->box, b->len, value);
	free(place);
	if (rc < 0) {
		secret_free(value);
		return err_set(err, ERR_CORRUPT, "", "the secret %s is damaged in the store", b->name);
	}
	*ret = value;
	*ret_len = len;
	return 0;
}

/* --- changes of the stored secrets, each inside the caller's transaction on the writer thread */

/* The one row of a statement that counts. */
static int get_count(struct db_stmt *st, int64_t *ret, struct err *err)
{
	int rc = db_step(st, err);

	if (rc == 1)
		*ret = db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* 1 = found, *ret is its id. */
static int find_row(struct db *db, const char *name, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SECRET_FIND);

	db_bind_textz(st, 1, name);
	int rc = db_step(st, err);
	if (rc == 1)
		*ret = db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc;
}

/* The key under which values are stored now. */
static int current_key(struct db *db, const struct keyfile_place *place, struct keyfile *ret, struct err *err)
{
	char id[KEYFILE_ID_SIZE];

	int rc = keyfile_current(db, id, err);
	if (rc == 1)
		return keyfile_load(place, VAULT_PURPOSE, id, ret, err);
	if (rc == 0)
		keyfile_from(place->master, VAULT_PURPOSE, ret);
	return rc;
}

/* A new key, current from now on; its file is durable before the row that names it. */
static int new_key(struct db *db, const char *store, struct keyfile *key, struct err *err)
{
	keyfile_fini(key);
	int rc = keyfile_make(store, VAULT_PURPOSE, key, err);
	if (rc < 0)
		return rc;
	struct db_stmt *st = db_stmt_get(db, SQL_META_SET_VALUE);
	db_bind_textz(st, 1, KEYFILE_META);
	db_bind_textz(st, 2, key->id);
	return db_run(&st, err);
}

/* The key for a new value.  When the current key's file is lost, what is under it stays shut until the file is back or
 * the value is set again; that must not keep anybody from setting it. */
static int key_to_set(struct db *db, const struct keyfile_place *place, struct keyfile *ret, struct err *err)
{
	int rc = current_key(db, place, ret, err);

	if (rc != ERR_UNREACHABLE)
		return rc;
	log_warn(NULL, "key of secrets cannot be read, a new one is made why=\"%s\"", err ? err->msg : "");
	return new_key(db, place->store, ret, err);
}

static struct vault_change *change_new(size_t n)
{
	struct vault_change *c = mem_zalloc(sizeof(*c));

	c->box = mem_calloc(n, sizeof(*c->box));
	c->n = n;
	return c;
}

static int insert_row(struct db *db, const struct vault_new *n, const char *key_id, uint64_t now, int64_t *ret_id,
		      struct err *err)
{
	int64_t count = 0;

	int rc = get_count(db_stmt_get(db, SQL_SECRET_COUNT), &count, err);
	if (rc == 0 && count >= VAULT_SECRETS_MAX)
		rc = err_set(err, ERR_LIMIT, "", "there are %d secrets, which is the limit: remove some", VAULT_SECRETS_MAX);
	if (rc < 0)
		return rc;
	struct db_stmt *st = db_stmt_get(db, SQL_SECRET_INSERT);
	db_bind_textz(st, 1, n->name);
	db_bind_textz(st, 2, key_id);
	db_bind_i64(st, 3, (int64_t)now);
	db_bind_textz(st, 4, n->actor);
	rc = db_run(&st, err);
	if (rc == 0)
		*ret_id = db_last_id(db);
	return rc;
}

static int store_box(struct db *db, const struct vault_box *b, const char *actor, uint64_t now, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SECRET_SET_VALUE);

	db_bind_i64(st, 1, b->id);
	db_bind_textz(st, 2, b->key_id);
	db_bind_blob(st, 3, b->box, b->len);
	db_bind_i64(st, 4, (int64_t)now);
	db_bind_textz(st, 5, actor);
	return db_run(&st, err);
}

int vault_set(struct db *db, const struct keyfile_place *place, const struct vault_new *n,
	      char ret_key[KEYFILE_ID_SIZE], struct vault_change **ret, struct err *err)
{
	struct vault_change *c = change_new(1);
	struct vault_box *b = &c->box[0];
	uint64_t now = clock_wall_us();

	b->name = mem_strdup(n->name);
	int rc = key_to_set(db, place, &c->key, err);
	if (rc == 0)
		rc = find_row(db, n->name, &b->id, err);
	if (rc == 0)
		rc = insert_row(db, n, c->key.id, now, &b->id, err);
	if (rc >= 0) {
		vault_box_seal(b, &c->key, n->value, n->len);
		rc = store_box(db, b, n->actor, now, err);
	}
	if (rc < 0) {
		vault_change_free(&c);
		return rc;
	}
	memcpy(ret_key, c->key.id, KEYFILE_ID_SIZE);
	*ret = c;
	return 0;
}

int vault_remove(struct db *db, const char *name, struct vault_change **ret, struct err *err)
{
	int64_t id = 0;

	int rc = find_row(db, name, &id, err);
	if (rc == 0)
		return err_set(err, ERR_NOT_FOUND, "", "secret %s: not found", name);
	if (rc < 0)
		return rc;
	struct db_stmt *st = db_stmt_get(db, SQL_SECRET_DELETE);
	db_bind_i64(st, 1, id);
	rc = db_run(&st, err);
	if (rc < 0)
		return rc;
	*ret = change_new(1);
	(*ret)->box[0].name = mem_strdup(name);
	return 0;
}

/* --- rekey */

static int count_stale(struct db *db, const char *key_id, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SECRET_COUNT_STALE);

	db_bind_textz(st, 1, key_id);
	return get_count(st, ret, err);
}

/* The next boxes under older keys, at most VAULT_REKEY_BATCH. */
static int read_stale(struct db *db, const char *key_id, struct vault_change *c, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SECRET_STALE);
	int rc;

	db_bind_textz(st, 1, key_id);
	db_bind_i64(st, 2, VAULT_REKEY_BATCH);
	c->n = 0;
	while ((rc = db_step(st, err)) == 1) {
		vault_box_read(st, &c->box[c->n++]);
	}
	db_stmt_put(&st);
	return rc;
}

/* Open under `old`, which is replaced when the row is under another key, and seal under the current one. */
static int rewrite(struct db *db, const struct keyfile_place *place, struct vault_box *b, struct keyfile *old,
		   const struct keyfile *key, struct err *err)
{
	char *value = NULL;
	size_t len = 0;
	int rc = 0;

	if (!old->key || strcmp(old->id, b->key_id) != 0) {
		keyfile_fini(old);
		rc = keyfile_load(place, VAULT_PURPOSE, b->key_id, old, err);
	}
	if (rc == 0)
		rc = vault_box_open(b, old, &value, &len, err);
	if (rc < 0) {
		(void)err_wrap(err, "secret %s cannot be rewritten", b->name);
		err_hint(err, "set it again, or remove it; then go on with secret rekey");
		return rc;
	}
	vault_box_seal(b, key, value, len);
	secret_free(value);
	struct db_stmt *st = db_stmt_get(db, SQL_SECRET_REWRITE);
	db_bind_i64(st, 1, b->id);
	db_bind_textz(st, 2, b->key_id);
	db_bind_blob(st, 3, b->box, b->len);
	return db_run(&st, err);
}

/* What is under other keys: secrets, payload keys. */
static int count_all(struct db *db, struct keys *keys, const char *key_id, int64_t *ret_secrets, size_t *ret_keks,
		     struct err *err)
{
	int rc = count_stale(db, key_id, ret_secrets, err);

	*ret_keks = 0;
	return rc == 0 && keys ? keys_stale(keys, key_id, ret_keks, err) : rc;
}

static int rekey_batch(struct db *db, const struct keyfile_place *place, struct keys *keys, struct vault_change *c,
		       size_t *ret_left, struct err *err)
{
	struct keyfile old = { .key = NULL };
	int64_t secrets = 0;
	size_t keks = 0;

	int rc = count_all(db, keys, c->key.id, &secrets, &keks, err);
	if (rc == 0 && secrets == 0 && keks == 0) {
		rc = new_key(db, place->store, &c->key, err);
		if (rc == 0)
			rc = count_all(db, keys, c->key.id, &secrets, &keks, err);
	}
	if (rc == 0)
		rc = read_stale(db, c->key.id, c, err);
	for (size_t i = 0; i < c->n && rc == 0; i++) {
		rc = rewrite(db, place, &c->box[i], &old, &c->key, err);
		CRASH_AT("rekey.row");
	}
	keyfile_fini(&old);
	*ret_left = (size_t)secrets - c->n;
	if (rc == 0 && *ret_left == 0 && keks > 0)
		rc = keys_rewrap(keys, c->key.id, VAULT_REKEY_KEKS, &keks, err);
	*ret_left += keks;
	return rc;
}

int vault_rekey(struct db *db, const struct keyfile_place *place, struct keys *keys, struct vault_rekeyed *ret_done,
		struct vault_change **ret, struct err *err)
{
	struct vault_change *c = change_new(VAULT_REKEY_BATCH);
	size_t left = 0;

	c->n = 0;
	int rc = current_key(db, place, &c->key, err);
	if (rc == 0)
		rc = rekey_batch(db, place, keys, c, &left, err);
	if (rc < 0) {
		vault_change_free(&c);
		return rc;
	}
	struct vault_rekeyed *done = &c->rekeyed;
	memcpy(done->key, c->key.id, sizeof(done->key));
	done->rewritten = c->n;
	done->left = left;
	/* Looked up here: the file of a rekey that begins later is not among them. */
	if (done->left == 0)
		done->nold = keyfile_others(place->store, done->key, done->old, VAULT_OLD_KEYS);
	*ret_done = *done;
	*ret = c;
	return 0;
}

struct vault {
	struct secret_source face;    /* arg = this */
	char *store;
	struct map *by_name;            /* struct vault_box, owned */
	struct keyfile *key; size_t nkey;
	uint64_t version;
};

static const struct keyfile *find_key(const struct vault *v, const char *id)
{
	for (size_t i = 0; i < v->nkey; i++) {
		if (strcmp(v->key[i].id, id) == 0)
			return &v->key[i];
	}
	return NULL;
}

static int open_value(void *arg, const char *name, char **ret, size_t *ret_len, struct err *err)
{
	const struct vault *v = arg;
	const struct vault_box *b = map_get_z(v->by_name, name);

	if (!b)
		return err_set(err, ERR_NOT_FOUND, "", "secret %s: not found", name);
	const struct keyfile *k = find_key(v, b->key_id);
	if (!k || !k->key)
		return err_set(err, ERR_CORRUPT, "", "its key %s is missing", b->key_id);
	return vault_box_open(b, k, ret, ret_len, err);
}

static uint64_t version_now(void *arg)
{
	const struct vault *v = arg;

	return v->version;
}

const struct secret_source *vault_secrets(const struct vault *v)
{
	return &v->face;
}

static void box_free(struct vault_box *b)
{
	if (b)
		vault_box_fini(b);
	free(b);
}

/* Takes what b points to. */
static void put_box(struct vault *v, const struct vault_box *b)
{
	struct vault_box *mine = mem_dup(b, sizeof(*b));

	box_free(map_set_z(v->by_name, b->name, mine));
}

static void put_key(struct vault *v, const struct keyfile *k)
{
	v->key = mem_realloc(v->key, (v->nkey + 1) * sizeof(*v->key));
	v->key[v->nkey++] = *k;
}

/* A key that is not there is remembered as such: one warning, not one per secret. */
static void need_key(struct vault *v, const struct keyfile_place *place, const char *id)
{
	struct keyfile k = { .key = NULL };
	struct err err;

	if (find_key(v, id))
		return;
	if (keyfile_load(place, VAULT_PURPOSE, id, &k, &err) < 0) {
		log_err(NULL, "key of secrets cannot be read, they do not open key=%s why=\"%s\"", id, err.msg);
		(void)snprintf(k.id, sizeof(k.id), "%s", id);
	}
	put_key(v, &k);
}

int vault_open(const struct keyfile_place *place, struct db *db, struct vault **ret, struct err *err)
{
	struct vault *v = mem_zalloc(sizeof(*v));
	struct db_stmt *st = db_stmt_get(db, SQL_SECRET_ALL);
	int rc;

	v->face = (struct secret_source){ .arg = v, .open = open_value, .version = version_now };
	v->store = mem_strdup(place->store);
	v->by_name = map_new();
	while ((rc = db_step(st, err)) == 1) {
		struct vault_box b;
		vault_box_read(st, &b);
		put_box(v, &b);
		need_key(v, place, b.key_id);
	}
	db_stmt_put(&st);
	if (rc < 0)
		vault_close(&v);
	else
		*ret = v;
	return rc;
}

void vault_close(struct vault **vp)
{
	struct vault *v = vp ? *vp : NULL;
	const void *name;
	size_t len;
	void *box;

	if (!v)
		return;
	*vp = NULL;
	for (size_t it = 0; map_next(v->by_name, &it, &name, &len, &box); )
		box_free(box);
	map_free(&v->by_name);
	for (size_t i = 0; i < v->nkey; i++)
		keyfile_fini(&v->key[i]);
	free(v->key);
	free(v->store);
	free(v);
}

void vault_change_free(struct vault_change **change)
{
	if (!change || !*change)
		return;
	for (size_t i = 0; i < (*change)->n; i++)
		vault_box_fini(&(*change)->box[i]);
	free((*change)->box);
	keyfile_fini(&(*change)->key);
	free(*change);
	*change = NULL;
}

static bool key_in_use(const struct vault *v, const char *id)
{
	const void *name;
	size_t len;
	void *value;

	for (size_t it = 0; map_next(v->by_name, &it, &name, &len, &value); ) {
		const struct vault_box *b = value;
		if (strcmp(b->key_id, id) == 0)
			return true;
	}
	return false;
}

static void forget_keys(struct vault *v)
{
	size_t n = 0;

	for (size_t i = 0; i < v->nkey; i++) {
		if (key_in_use(v, v->key[i].id))
			v->key[n++] = v->key[i];
		else
			keyfile_fini(&v->key[i]);
	}
	v->nkey = n;
}

void vault_apply(struct vault *v, struct vault_change **changep)
{
	struct vault_change *c = *changep;

	if (!c)
		return;
	if (c->key.key && !find_key(v, c->key.id)) {
		put_key(v, &c->key);
		c->key.key = NULL;
	}
	for (size_t i = 0; i < c->n; i++) {
		struct vault_box *b = &c->box[i];
		if (!b->box) {
			box_free(map_del_z(v->by_name, b->name));
			continue;
		}
		put_box(v, b);
		*b = (struct vault_box){ .name = NULL };
	}
	for (size_t i = 0; i < c->rekeyed.nold; i++)
		keyfile_remove(v->store, c->rekeyed.old[i]);
	v->version++;
	forget_keys(v);
	vault_change_free(changep);
}
