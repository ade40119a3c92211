/* What the loop keeps of the secrets: boxes by name and the keys that open them. */
#include "config.h"

#include "vault_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "db/db.h"
#include "keys/secrets.h"

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
