/* The shared schemas in memory. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/map.h"
#include "base/mem.h"
#include "json/json.h"
#include "registry/catalogue.h"

/* Shared schemas without "$schema" speak this, whoever refers to them. */
#define DIALECT "https://json-schema.org/draft/2020-12/schema"

struct entry {
	uint8_t digest[DIGEST_SIZE];
	bool gone;
	size_t len;
	char text[];
};

struct catalogue {
	const struct catalogue *below;
	struct map *entries;            /* uri -> struct entry */
	size_t live;
};

struct catalogue *catalogue_new(const struct catalogue *below)
{
	struct catalogue *c = mem_zalloc(sizeof(*c));

	c->below = below;
	c->entries = map_new();
	return c;
}

void catalogue_free(struct catalogue **cp)
{
	struct catalogue *c = cp ? *cp : NULL;
	void *value;

	if (!c)
		return;
	*cp = NULL;
	for (size_t it = 0; map_next(c->entries, &it, NULL, NULL, &value);)
		free(value);
	map_free(&c->entries);
	free(c);
}

static void drop(struct catalogue *c, struct entry *old)
{
	if (old && !old->gone)
		c->live--;
	free(old);
}

void catalogue_set(struct catalogue *c, const char *uri, const char *text, size_t len, const uint8_t digest[32])
{
	struct entry *e;

	if (!text && !c->below) {
		drop(c, map_del_z(c->entries, uri));
		return;
	}
	e = mem_zalloc(sizeof(*e) + len + 1);
	e->gone = !text;
	if (text) {
		memcpy(e->digest, digest, sizeof(e->digest));
		memcpy(e->text, text, len);
		e->len = len;
		c->live++;
	}
	drop(c, map_set_z(c->entries, uri, e));
}

struct catalogue *catalogue_copy(const struct catalogue *c)
{
	struct catalogue *ret = c ? catalogue_copy(c->below) : catalogue_new(NULL);
	const void *uri;
	void *value;
	size_t len;

	for (size_t it = 0; c && map_next(c->entries, &it, &uri, &len, &value);) {
		const struct entry *e = value;
		char *name = mem_strndup(uri, len);

		catalogue_set(ret, name, e->gone ? NULL : e->text, e->len, e->digest);
		free(name);
	}
	return ret;
}

bool catalogue_is_empty(const struct catalogue *c)
{
	while (c && c->live == 0)
		c = c->below;
	return !c;
}

static const struct entry *find(const struct catalogue *c, const char *uri)
{
	const struct entry *e = NULL;

	for (; c && !e; c = c->below)
		e = map_get_z(c->entries, uri);
	return e && !e->gone ? e : NULL;
}

const json_t *catalogue_find(void *arg, const char *uri)
{
	struct catalogue_use *use = arg;
	const struct entry *e;
	json_t *doc = NULL;
	size_t n = use->refs.n;

	for (size_t i = 0; i < n; i++)
		if (strcmp(use->refs.v[i].uri, uri) == 0)
			return use->docs[i];
	e = find(use->from, uri);
	if (!e || jx_parse(e->text, e->len, &doc, NULL) < 0)
		return NULL;
	if (!json_object_get(doc, "$schema"))
		(void)json_object_set_new(doc, "$schema", json_string(DIALECT));
	use->refs.v = mem_realloc(use->refs.v, (n + 1) * sizeof(*use->refs.v));
	use->docs = mem_realloc(use->docs, (n + 1) * sizeof(json_t *));
	use->refs.v[n].uri = mem_strdup(uri);
	memcpy(use->refs.v[n].digest, e->digest, sizeof(e->digest));
	use->docs[n] = doc;
	use->refs.n++;
	return doc;
}

void catalogue_refs_fini(struct catalogue_refs *refs)
{
	while (refs->n > 0)
		free(refs->v[--refs->n].uri);
	free(refs->v);
	refs->v = NULL;
}

void catalogue_use_end(struct catalogue_use *use, struct catalogue_refs *ret)
{
	for (size_t i = 0; i < use->refs.n; i++)
		json_decref(use->docs[i]);
	free(use->docs);
	use->docs = NULL;
	if (ret) {
		*ret = use->refs;
		use->refs = (struct catalogue_refs){ NULL, 0 };
	}
	catalogue_refs_fini(&use->refs);
}
