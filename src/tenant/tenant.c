/* Tenants in memory: images of their rows, found by id, name and the accessors of their keys. */

#include "config.h"

#include "tenant/tenant.h"

#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/id.h"
#include "base/map.h"
#include "base/mem.h"
#include "tenant/arg_rule.h"
#include "tenant/cidr.h"
#include "tenant/scope.h"
#include "tenant_int.h"

int tenants_open(const uint8_t master[32], struct db *db, struct tenants **ret, struct err *err)
{
	struct tenants *t = mem_zalloc(sizeof *t);
	int rc;

	t->by_id = map_new();
	t->by_name = map_new();
	t->creds = map_new();
	t->subjects = map_new();
	list_init(&t->dirty);
	t->pepper = secret_alloc(sizeof *t->pepper);
	key_pepper_derive(master, t->pepper);
	id_random(t->dummy, sizeof t->dummy);
	rc = ten_load_all(t, db, err);
	if (rc < 0) {
		tenants_close(&t);
		return rc;
	}
	*ret = t;
	return 0;
}

void tenants_close(struct tenants **t)
{
	void *value;

	if (!t || !*t)
		return;
	for (size_t it = 0; map_next((*t)->by_id, &it, NULL, NULL, &value);) {
		struct tenant_image *img = value;

		tenant_image_free(&img);
	}
	for (size_t it = 0; map_next((*t)->subjects, &it, NULL, NULL, &value);) {
		struct ten_subjects *s = value;

		ten_subjects_free(&s);
	}
	map_free(&(*t)->subjects);
	map_free(&(*t)->by_id);
	map_free(&(*t)->by_name);
	map_free(&(*t)->creds);
	secret_free((*t)->pepper);
	free(*t);
	*t = NULL;
}

static void cred_fini(struct ten_cred *c)
{
	principal_unref(&c->who[0]);
	principal_unref(&c->who[1]);
	scopes_unref(&c->scopes);
	cidrs_free(&c->cidrs);
	arg_rules_unref(&c->rules);
}

int64_t tenant_image_id(const struct tenant_image *img)
{
	return img->tenant.id;
}

void tenant_image_free(struct tenant_image **img)
{
	void *level;

	if (!img || !*img)
		return;
	for (size_t i = 0; i < (*img)->ncreds; i++) {
		list_unlink(&(*img)->creds[i].dirty);
		cred_fini(&(*img)->creds[i]);
	}
	for (size_t it = 0; (*img)->levels && map_next((*img)->levels, &it, NULL, NULL, &level);)
		free(level);
	map_free(&(*img)->levels);
	free((*img)->creds);
	free((*img)->principals);
	free((*img)->title);
	free((*img)->sandbox);
	free((*img)->limits);
	free(*img);
	*img = NULL;
}

struct tenant_image *ten_find(const struct tenants *t, int64_t tenant_id)
{
	return map_get_u64(t->by_id, (uint64_t)tenant_id);
}

static int compare_principal(const void *key, const void *element)
{
	int64_t id = *(const int64_t *)key;
	const struct ten_principal *p = element;

	return (id > p->id) - (id < p->id);
}

const struct ten_principal *ten_principal(const struct tenant_image *img, int64_t principal_id)
{
	return img->nprincipals ? bsearch(&principal_id, img->principals, img->nprincipals, sizeof *img->principals,
					  compare_principal)
				: NULL;
}

/* What memory knows better than the rows: the last use of keys that are in both images.  Both sorted by id. */
static void move_last_use(struct tenants *t, struct tenant_image *from, struct tenant_image *to)
{
	for (size_t i = 0, k = 0; i < from->ncreds && k < to->ncreds;) {
		struct ten_cred *a = &from->creds[i], *b = &to->creds[k];

		if (a->id == b->id) {
			b->used_us = a->used_us;
			b->used |= a->used;
			if (!list_empty(&a->dirty))
				list_push_back(&t->dirty, &b->dirty);
		}
		i += a->id <= b->id;
		k += b->id <= a->id;
	}
}

static void forget(struct tenants *t, struct tenant_image *img)
{
	(void)map_del_u64(t->by_id, (uint64_t)img->tenant.id); /* img is in hand */
	(void)map_del_z(t->by_name, img->name);
	for (size_t i = 0; i < img->ncreds; i++)
		(void)map_del(t->creds, img->creds[i].accessor, KEY_ACCESSOR_SIZE - 1);
	tenant_image_free(&img);
}

void tenants_apply(struct tenants *t, struct tenant_image **img)
{
	struct tenant_image *fresh = *img, *old = ten_find(t, fresh->tenant.id);

	*img = NULL;
	if (old) {
		move_last_use(t, old, fresh);
		forget(t, old);
	}
	if (fresh->tenant.state == TENANT_REMOVED) {
		struct ten_subjects *s = map_del_u64(t->subjects, (uint64_t)fresh->tenant.id);

		ten_subjects_free(&s);
		tenant_image_free(&fresh);
		return;
	}
	(void)map_set_u64(t->by_id, (uint64_t)fresh->tenant.id, fresh); /* new, or forgotten above */
	(void)map_set_z(t->by_name, fresh->name, fresh);
	for (size_t i = 0; i < fresh->ncreds; i++)
		(void)map_set(t->creds, fresh->creds[i].accessor, KEY_ACCESSOR_SIZE - 1, &fresh->creds[i]);
}

const struct tenant *tenant_by_id(const struct tenants *t, int64_t id)
{
	const struct tenant_image *img = ten_find(t, id);

	return img ? &img->tenant : NULL;
}

const struct tenant *tenant_by_name(const struct tenants *t, const char *name, size_t len)
{
	const struct tenant_image *img = map_get(t->by_name, name, len);

	return img ? &img->tenant : NULL;
}

int tenant_tool_level(const struct tenants *t, int64_t tenant_id, const char *tool)
{
	const struct tenant_image *img = ten_find(t, tenant_id);
	const struct ten_level *level = img && img->levels ? map_get_z(img->levels, tool) : NULL;

	return level ? level->level : -1;
}

static int compare_limits(const void *key, const void *element)
{
	const struct ten_limits *a = key, *b = element;

	if (a->scope != b->scope)
		return a->scope < b->scope ? -1 : 1;
	return (a->subject > b->subject) - (a->subject < b->subject);
}

const struct tenant_limits *tenant_limits(const struct tenants *t, int64_t tenant_id, enum tenant_scope scope, int64_t subject)
{
	const struct tenant_image *img = ten_find(t, tenant_id);
	const struct ten_limits key = { .scope = scope, .subject = subject }, *row;

	if (!img || img->nlimits == 0)
		return NULL;
	row = bsearch(&key, img->limits, img->nlimits, sizeof *img->limits, compare_limits);
	return row ? &row->set : NULL;
}

int64_t tenant_principal_id(const struct tenants *t, int64_t tenant_id, const char *name)
{
	const struct tenant_image *img = ten_find(t, tenant_id);

	for (size_t i = 0; img && i < img->nprincipals; i++)
		if (strcmp(img->principals[i].name, name) == 0)
			return img->principals[i].id;
	return 0;
}

int64_t tenant_key_id(const struct tenants *t, const char *accessor, int64_t *ret_tenant_id, int64_t *ret_principal_id)
{
	const struct ten_cred *c = strlen(accessor) == KEY_ACCESSOR_SIZE - 1 ? map_get(t->creds, accessor, KEY_ACCESSOR_SIZE - 1) : NULL;

	if (!c)
		return 0;
	*ret_tenant_id = c->home->tenant.id;
	*ret_principal_id = c->principal_id;
	return c->id;
}

size_t tenants_count(const struct tenants *t)
{
	return map_count(t->by_id);
}

void tenants_each(const struct tenants *t, tenant_each_fn *fn, void *arg)
{
	void *img;

	for (size_t it = 0; map_next(t->by_id, &it, NULL, NULL, &img);)
		fn(arg, &((const struct tenant_image *)img)->tenant);
}

size_t tenants_dirty(struct tenants *t, struct tenant_used *ret, size_t max)
{
	size_t n = 0;

	while (n < max && !list_empty(&t->dirty)) {
		struct ten_cred *c = CONTAINER_OF(t->dirty.next, struct ten_cred, dirty);

		list_unlink(&c->dirty);
		ret[n++] = (struct tenant_used){ c->home->tenant.id, c->id, c->used_us };
	}
	return n;
}
