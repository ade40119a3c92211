/* The vault: secrets at rest.  The store has them in boxes, each encrypted and bound to its row; the loop keeps
 * the boxes and the keys that open them, the writer changes them and hands the change over after the commit.
 * Values are in the clear in guarded memory alone.  And whether the key files that a start finds are the store's
 * (decision 0051). */

#include "config.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"
#include "db/owner.h"
#include "db/server.h"
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
	return db_run_id(&st, ret_id, err);
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

void vault_take(struct vault *v, struct vault **from)
{
	struct vault *f = *from, was = *v;

	v->by_name = f->by_name;
	v->key = f->key;
	v->nkey = f->nkey;
	v->version++;
	f->by_name = was.by_name;
	f->key = was.key;
	f->nkey = was.nkey;
	vault_close(from);
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

/* --- a start */

/* master.key by its id, which the store knows, and keys.db by the ids that were given, which it remembers.  What is not
 * as it was left refuses the start and names the way back; only payload keys that are gone for good may be given up, by
 * a person's word. */

enum { META_SIZE = 96 };                /* of a value here, with NUL */

/* 1, or 0 = there is none. */
static int meta_get(struct db *store, const char *key, char ret[META_SIZE], struct err *err)
{
	struct db_stmt *st = db_stmt_get(store, SQL_META_GET_VALUE);
	int rc;

	db_bind_textz(st, 1, key);
	rc = db_step(st, err);
	if (rc >= 0)
		(void)snprintf(ret, META_SIZE, "%s", rc == 1 ? db_col_text(st, 0, NULL) : "");
	db_stmt_put(&st);
	return rc;
}

static int meta_set(struct db *store, const char *key, const char *value, struct err *err)
{
	struct db_stmt *st = db_stmt_get(store, SQL_META_SET_VALUE);

	db_bind_textz(st, 1, key);
	db_bind_textz(st, 2, value);
	return db_run(&st, err);
}

/* --- numbers */

/* Up to three, zero where there are fewer. */
static int get_numbers(struct db *store, const char *key, int64_t ret[3], struct err *err)
{
	char text[META_SIZE], *at = text;
	int rc = meta_get(store, key, text, err);

	for (size_t i = 0; i < 3; i++)
		ret[i] = strtoll(at, &at, 10);
	return rc;
}

static int set_given(struct db *store, int64_t kek, int64_t dek, struct err *err)
{
	char text[META_SIZE];

	(void)snprintf(text, sizeof(text), "%" PRId64 " %" PRId64, kek, dek);
	return meta_set(store, KEYS_META_GIVEN, text, err);
}

/* --- which files open what there is */

struct files {
	const struct keyfile_place *place;
	char master[KEYFILE_ID_SIZE], current[KEYFILE_ID_SIZE];
	bool by_master, missing, known;         /* something is under master.key; under no file that there is; under one that
						 * this store has, or had */
	char name[KEYFILE_ID_SIZE];             /* one that is missing */
};

static void look_at(void *arg, const char *id)
{
	struct files *f = arg;

	if (strcmp(id, f->master) == 0)
		f->by_master = f->known = true;
	else if (keyfile_exists(f->place->store, id) || strcmp(id, f->current) == 0)
		f->known = true;
	else
		(void)snprintf(f->name, sizeof(f->name), "%s", id);
	f->missing = *f->name != '\0';
}

static int look_at_secrets(struct db *store, struct files *f, struct err *err)
{
	struct db_stmt *st = db_stmt_get(store, SQL_META_SECRET_FILES);
	int rc;

	while ((rc = db_step(st, err)) == 1)
		look_at(f, db_col_text(st, 0, NULL));
	db_stmt_put(&st);
	return rc;
}

static void start_files(const struct keyfile_place *place, struct files *ret)
{
	struct keyfile k = { .key = NULL };

	*ret = (struct files){ .place = place };
	keyfile_from(place->master, "toolcrib/begin/1", &k);
	memcpy(ret->master, k.id, sizeof(ret->master));
	keyfile_fini(&k);
}

/* --- master.key */

static int other_master(const struct files *f, const char *want, struct err *err)
{
	char *file = path_join(f->place->store, DB_MASTER_KEY);

	(void)err_set(err, ERR_CORRUPT, file, "%s is not the master key of this store (it is %s, the store's is %s); nothing "
		      "was changed", file, f->master, want);
	err_hint(err, "%s; with the wrong one no key would be accepted, and what is written now would be lost with the right "
		 "one",
		 db_is_served(f->place->store) ?
		 "name this store's own database in database.url, or put its master.key back"
		 : "put back whichever of it and toolcrib.db is another store's");
	free(file);
	return ERR_CORRUPT;
}

/* A store from before it knew its key: by what the key opens. */
static int learn_master(const struct files *f, const struct files *secrets, const struct files *keks,
			struct keys_begin *ret, struct err *err)
{
	if (!secrets->by_master && !keks->by_master && (secrets->missing || keks->missing))
		return other_master(f, secrets->missing ? secrets->name : keks->name, err);
	memcpy(ret->master, f->master, sizeof(ret->master));
	ret->by = keks->by_master ? "payload keys" : secrets->by_master ? "secrets" : NULL;
	return 0;
}

static int check_master(struct db *store, const struct files *f, bool *ret_known, struct err *err)
{
	char want[META_SIZE];
	int rc = meta_get(store, KEYS_META_MASTER, want, err);

	*ret_known = rc == 1;
	return rc == 1 && strcmp(want, f->master) != 0 ? other_master(f, want, err) : rc < 0 ? rc : 0;
}

/* --- keys.db */

struct given {
	int64_t kek, dek;               /* as the store remembers */
	bool known;                     /* it does; else what the records of a store from before show */
	int64_t lost_kek, lost_dek;     /* of them, accepted as lost */
};

static int read_given(struct db *store, struct given *ret, struct err *err)
{
	struct db_stmt *st;
	int64_t n[3];
	int rc = get_numbers(store, KEYS_META_GIVEN, n, err);

	*ret = (struct given){ .kek = n[0], .dek = n[1], .known = rc == 1 };
	if (rc == 0) {
		st = db_stmt_get(store, SQL_META_LAST_KEY);
		rc = db_step(st, err);
		ret->dek = rc == 1 ? db_col_i64(st, 0) : 0;
		ret->kek = ret->dek > 0;
		db_stmt_put(&st);
	}
	rc = rc < 0 ? rc : get_numbers(store, KEYS_META_LOST, n, err);
	ret->lost_kek = n[0];
	ret->lost_dek = n[1];
	return rc < 0 ? rc : 0;
}

static bool lacks(const struct given *g, int64_t kek, int64_t dek)
{
	return (kek < g->kek && g->kek > g->lost_kek) || (dek < g->dek && g->dek > g->lost_dek);
}

static int refuse_loss(const struct keyfile_place *place, const struct given *g, int64_t dek, bool is_there,
		       struct err *err)
{
	char *file = path_join(place->store, DB_KEYS);

	if (is_there)
		(void)err_set(err, ERR_CORRUPT, file, "%s lacks keys that this store has given: it goes to %" PRId64 ", the store to "
			      "%" PRId64 "; what is kept of calls would not open", file, dek, g->dek);
	else
		(void)err_set(err, ERR_CORRUPT, file, "%s is missing or empty, and this store has given %" PRId64 " payload keys: "
			      "what is kept of calls would not open", file, g->dek);
	err_hint(err, "put the newest keys.db back; when there is none, toolcrib audit adopt " KEYS_FILE_ADOPT
		 " goes on without, on record: those values are lost then");
	free(file);
	return ERR_CORRUPT;
}

/* Without one that it had, the store would make an empty one. */
static int check_file(const struct keyfile_place *place, const struct given *g, bool adopt, struct err *err)
{
	char *file = path_join(place->store, DB_KEYS);
	struct stat st;
	bool is_there = db_is_served(place->store) || (stat(file, &st) == 0 && st.st_size > 0);

	free(file);
	return is_there || adopt || !lacks(g, 0, 0) ? 0 : refuse_loss(place, g, 0, false, err);
}

static int other_keys(const struct keyfile_place *place, const struct files *f, struct err *err)
{
	char *file = path_join(place->store, DB_KEYS);

	(void)err_set(err, ERR_CORRUPT, file, "%s is another store's: its keys are under the key file %s, which this store "
		      "never had", file, f->name);
	err_hint(err, "move it away and put this store's own back");
	free(file);
	return ERR_CORRUPT;
}

/* file: the last ids that it has. */
static int check_given(const struct keyfile_place *place, const struct given *g, const int64_t file[2], bool adopt,
		       struct keys_begin *ret, struct err *err)
{
	ret->lost = lacks(g, file[0], file[1]);
	if (ret->lost && !adopt)
		return refuse_loss(place, g, file[1], true, err);
	ret->kek = file[0] > g->kek ? file[0] : g->kek;
	ret->dek = file[1] > g->dek ? file[1] : g->dek;
	return 0;
}

/* --- a start */

static int check(const struct keyfile_place *place, struct db *store, struct keys *keys, const struct given *g,
		 bool knows_master, bool adopt, struct files *f, struct keys_begin *ret, struct err *err)
{
	struct files secrets = *f, keks = *f;
	int64_t last[2] = { g->kek, g->dek };
	int rc = keyfile_current(store, keks.current, err);

	memcpy(secrets.current, keks.current, sizeof(secrets.current));
	if (rc >= 0)
		rc = keys_look(keys, last, look_at, &keks, err);
	if (rc == 0)
		rc = look_at_secrets(store, &secrets, err);
	if (rc == 0 && !knows_master)
		rc = learn_master(f, &secrets, &keks, ret, err);
	if (rc == 0 && keks.missing && !keks.known)
		rc = other_keys(place, &keks, err);
	return rc < 0 ? rc : check_given(place, g, last, adopt, ret, err);
}

int keys_begin(const struct keyfile_place *place, struct db *store, bool adopt, struct keys **ret,
	       struct keys_begin *ret_begin, struct err *err)
{
	struct keys *keys = NULL;
	struct files f;
	struct given g;
	bool known = false;
	int rc;

	*ret_begin = (struct keys_begin){ .by = NULL };
	start_files(place, &f);
	rc = check_master(store, &f, &known, err);
	if (rc == 0)
		rc = read_given(store, &g, err);
	if (rc == 0)
		rc = check_file(place, &g, adopt, err);
	if (rc == 0 && keys_open(place, &keys, err) < 0) {
		rc = err->code;
		if (rc == ERR_CORRUPT && !*err->hint)
			err_hint(err, "put the newest keys.db back; when there is none, move this one away and go on without by "
				 "toolcrib audit adopt " KEYS_FILE_ADOPT);
	}
	if (rc == 0)
		rc = check(place, store, keys, &g, known, adopt, &f, ret_begin, err);
	if (rc < 0)
		keys_close(&keys);
	else
		*ret = keys;
	return rc;
}

int keys_begun(struct db *store, const struct keys_begin *b, struct err *err)
{
	char text[META_SIZE];
	int rc = 0;

	if (*b->master)
		rc = meta_set(store, KEYS_META_MASTER, b->master, err);
	if (rc == 0)
		rc = set_given(store, b->kek, b->dek, err);
	if (rc < 0 || !b->lost)
		return rc;
	(void)snprintf(text, sizeof(text), "%" PRId64 " %" PRId64 " %" PRIu64, b->kek, b->dek, clock_wall_us());
	return meta_set(store, KEYS_META_LOST, text, err);
}

/* --- what people are told of a store that is served */

static struct str *next(struct str *ret)
{
	str_puts(ret, ret->len ? "; " : "");
	return ret;
}

static int say_lost(struct db *db, struct str *ret, struct err *err)
{
	char when[32];
	int64_t lost[3];
	int rc = get_numbers(db, KEYS_META_LOST, lost, err);

	if (rc == 1)
		str_printf(next(ret), "keys.db was lost: what was kept of calls before %s may not open",
		    clock_format_utc((uint64_t)lost[2], when, sizeof(when)));
	return rc < 0 ? rc : 0;
}

static int say_shut(const struct keyfile_place *place, struct db *db, struct str *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_META_SECRET_FILES);
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		struct keyfile k = { .key = NULL };
		struct err why;

		if (keyfile_load(place, VAULT_PURPOSE, db_col_text(st, 0, NULL), &k, &why) < 0)
			str_printf(next(ret), "secrets do not open: %s", why.msg);
		keyfile_fini(&k);
	}
	db_stmt_put(&st);
	return rc;
}

static void say_mode(const char *store, const char *name, struct str *ret)
{
	char *path = path_join(store, name);
	const char *what = *name ? name : "the folder";
	mode_t others = S_IRWXO | S_IRGRP | S_IWGRP | (*name ? S_IXGRP : 0);    /* a group may come to the sockets */
	struct stat st;

	if (stat(path, &st) == 0 && st.st_mode & others)
		str_printf(next(ret), "others may use %s: its mode is %03o", what, st.st_mode & 0777u);
	else if (stat(path, &st) == 0 && st.st_uid != geteuid())
		str_printf(next(ret), "%s belongs to uid %u", what, (unsigned)st.st_uid);
	free(path);
}

int keys_files_wrong(const struct keyfile_place *place, struct db *db, bool modes, struct str *ret, struct err *err)
{
	static const char *const names[] = { "", DB_FILE, DB_KEYS };
	int rc = say_lost(db, ret, err);

	if (rc == 0)
		rc = say_shut(place, db, ret, err);
	for (size_t i = 0; modes && i < NELEMS(names); i++)
		say_mode(place->store, names[i], ret);
	return rc;
}
