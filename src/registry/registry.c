/* The current picture of each tenant, and the definitions they share. */

#include "config.h"

#include "registry/registry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "json/json.h"
#include "registry_int.h"
#include "tenant/scope.h"

struct reg_node *reg_node_new(const struct reg_def *def)
{
	size_t name_size = strlen(def->name) + 1, uri_size = strlen(def->uri) + 1;
	struct reg_node *node = mem_alloc(sizeof *node + name_size + def->len + 1 + uri_size);
	char *uri = node->data + name_size + def->len + 1;
	struct jx_want complete = { .pointer = "/complete" };

	*node = (struct reg_node){ .pub = *def, .refs = 1 };
	memcpy(node->data, def->name, name_size);
	memcpy(node->data + name_size, def->text, def->len);
	node->data[name_size + def->len] = '\0';
	memcpy(uri, def->uri, uri_size);
	node->pub.name = node->data;
	node->pub.text = node->data + name_size;
	node->pub.uri = *uri ? uri : NULL;
	if (def->kind == REG_PROMPT || def->kind == REG_TEMPLATE)
		node->pub.completes = jx_scan(def->text, def->len, &complete, 1, NULL) == 0 && complete.span.p;
	return node;
}

void reg_node_unref(struct reg_node **node)
{
	struct reg_node *n = *node;

	*node = NULL;
	if (!n || --n->refs > 0)
		return;
	if (n->compiled)
		define_compiled_fini(n->compiled);
	arena_free(&n->mem);
	free(n->broken);
	free(n);
}

struct reg_snap *reg_snap_new(int64_t tenant_id, size_t lines, size_t name_bytes)
{
	struct reg_snap *snap = mem_zalloc(sizeof *snap);

	snap->pub = (struct reg_snapshot){ .tenant_id = tenant_id, .refs = 1 };
	list_init(&snap->pages);
	if (lines == 0)
		return snap;
	snap->lines = mem_calloc(lines, sizeof *snap->lines);
	snap->wanted = mem_calloc(lines, sizeof *snap->wanted);
	snap->names = mem_alloc(name_bytes);
	snap->nlines = lines;
	return snap;
}

void reg_snap_free(struct reg_snap **snap)
{
	struct reg_snap *s = *snap;

	if (!s)
		return;
	assert(list_empty(&s->pages));
	for (size_t i = 0; i < s->nlines; i++) {
		struct reg_node *node = s->lines[i].def ? CONTAINER_OF(s->lines[i].def, struct reg_node, pub) : NULL;

		reg_node_unref(&node);
	}
	free(s->lines);
	free(s->wanted);
	free(s->by_uri);
	free(s->names);
	free(s);
	*snap = NULL;
}

struct registry *registry_new(reg_bind_fn *bind)
{
	struct registry *reg = mem_zalloc(sizeof *reg);

	reg->bind = bind;
	reg->shared = catalogue_new(NULL);
	reg->current = map_new();
	reg->snaps = map_new();
	list_init(&reg->lru);
	return reg;
}

void registry_free(struct registry **reg)
{
	void *value;

	if (!reg || !*reg)
		return;
	for (size_t it = 0; map_next((*reg)->snaps, &it, NULL, NULL, &value);) {
		struct reg_snapshot *snap = &((struct reg_snap *)value)->pub;

		reg_release(*reg, &snap);
	}
	for (size_t it = 0; map_next((*reg)->current, &it, NULL, NULL, &value);) {
		struct reg_node *node = value;

		reg_node_unref(&node);
	}
	catalogue_free(&(*reg)->shared);
	map_free(&(*reg)->snaps);
	map_free(&(*reg)->current);
	free(*reg);
	*reg = NULL;
}

const struct catalogue *reg_shared(const struct registry *reg)
{
	return reg->shared;
}

struct reg_snapshot *reg_acquire(struct registry *reg, int64_t tenant_id)
{
	struct reg_snap *snap = map_get_u64(reg->snaps, (uint64_t)tenant_id);

	if (!snap)
		return &reg_snap_new(tenant_id, 0, 0)->pub;
	snap->pub.refs++;
	return &snap->pub;
}

void reg_release(struct registry *reg, struct reg_snapshot **snap)
{
	struct reg_snap *s;

	if (!snap || !*snap)
		return;
	s = CONTAINER_OF(*snap, struct reg_snap, pub);
	*snap = NULL;
	assert(s->pub.refs > 0);
	if (--s->pub.refs > 0)
		return;
	reg_pages_drop(reg, s);
	reg_snap_free(&s);
}

/* Order of counted bytes and a text. */
static int compare(const char *p, size_t len, const char *z)
{
	size_t n = strlen(z);
	int d = memcmp(p, z, len < n ? len : n);

	return d ? d : (len > n) - (len < n);
}

const struct reg_tool *reg_find(const struct reg_snapshot *snap, enum reg_kind kind, const char *name, size_t len)
{
	const struct reg_list *list = &snap->list[kind];
	size_t low = 0, high = list->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int d = compare(name, len, list->items[mid].name);

		if (d == 0)
			return &list->items[mid];
		if (d < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

bool reg_in_scope(const struct reg_tool *line, const struct scopes *scopes)
{
	return scope_allows(scopes, (enum scope_right)reg_kinds[line->def->kind].right, line->name);
}

static const struct reg_tool *find_resource(const struct reg_snapshot *snap, const char *uri, size_t len)
{
	size_t low = 0, high = snap->list[REG_RESOURCE].count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int d = compare(uri, len, snap->by_uri[mid]->def->uri);

		if (d == 0)
			return snap->by_uri[mid];
		if (d < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

static const struct reg_tool *match_template(const struct reg_snapshot *snap, const char *uri, size_t len)
{
	const struct reg_list *list = &snap->list[REG_TEMPLATE];
	const struct reg_tool *best = NULL;
	size_t most = 0;

	for (size_t i = 0; i < list->count; i++) {
		const char *pattern = list->items[i].def->uri;
		size_t literal;

		if (!reg_uri_match(pattern, uri, len, NULL))
			continue;
		literal = uri_template_literals(pattern);
		if (best && literal <= most)
			continue;
		best = &list->items[i];
		most = literal;
	}
	return best;
}

const struct reg_tool *reg_find_template(const struct reg_snapshot *snap, const char *pattern, size_t len)
{
	const struct reg_list *list = &snap->list[REG_TEMPLATE];

	for (size_t i = 0; i < list->count; i++)
		if (text_eq(pattern, len, list->items[i].def->uri))
			return &list->items[i];
	return NULL;
}

const struct reg_tool *reg_find_uri(const struct reg_snapshot *snap, const char *uri, size_t len, json_t **ret_args)
{
	const struct reg_tool *line;
	json_t *args = NULL;

	if (len > REG_URI_MAX || memchr(uri, '\0', len))
		return NULL;
	line = find_resource(snap, uri, len);
	if (!line) {
		line = match_template(snap, uri, len);
		if (line && ret_args)
			(void)reg_uri_match(line->def->uri, uri, len, &args); /* it has matched */
	}
	if (line && ret_args) {
		*ret_args = args ? args : json_object();
		json_object_set_new(*ret_args, "uri", json_stringn(uri, len));
	}
	return line;
}

static int compile(struct registry *reg, struct reg_node *node, struct err *err)
{
	json_t *doc = NULL;
	int rc;

	node->mem = arena_new(DEFINE_MEMORY_MAX);
	node->compiled = arena_alloc(node->mem, sizeof *node->compiled);
	rc = jx_parse(node->pub.text, node->pub.len, &doc, err);
	if (rc == 0)
		rc = define_compile(doc, node->pub.kind, reg->bind, reg->shared, node->mem, node->compiled, err);
	json_decref(doc);
	if (rc == 0)
		return 0;
	node->compiled = NULL;
	arena_free(&node->mem);
	return rc;
}

int reg_compile(struct registry *reg, struct reg_def *def, const struct reg_compiled **ret, struct err *err)
{
	struct reg_node *node = CONTAINER_OF(def, struct reg_node, pub);
	struct err why;

	if (!node->compiled && !node->broken && compile(reg, node, &why) < 0) {
		/* It was checked when it was written: another release, or somebody's hand, wrote this one. */
		node->broken = mem_zalloc(sizeof *node->broken);
		(void)err_set(node->broken, ERR_CORRUPT, why.where, "tool %s, version %lld: %s", def->name,
			      (long long)def->version, why.msg);
		log_err(NULL, "stored definition does not compile tool=%s version=%lld where=%s reason=\"%s\"",
			def->name, (long long)def->version, why.where, why.msg);
	}
	if (node->broken) {
		if (err)
			*err = *node->broken;
		return ERR_CORRUPT;
	}
	*ret = node->compiled;
	return 0;
}

static void apply_def(struct registry *reg, struct reg_change_def *d)
{
	struct reg_node *old;

	old = d->node ? map_set_u64(reg->current, (uint64_t)d->tool_id, d->node)
		      : map_del_u64(reg->current, (uint64_t)d->tool_id);
	d->node = NULL;
	reg_node_unref(&old);
}

static int by_uri(const void *x, const void *y)
{
	const struct reg_tool *const *a = x, *const *b = y;

	return strcmp((*a)->def->uri, (*b)->def->uri);
}

/* What is found by something else than a place in all lines: the lists, the index of URIs. */
static void index_lines(struct reg_snap *snap)
{
	struct reg_list *resources = &snap->pub.list[REG_RESOURCE];

	for (size_t i = 0; i < snap->nlines; i++) {
		struct reg_list *list = &snap->pub.list[snap->lines[i].def->kind];

		if (list->count++ == 0)
			list->items = &snap->lines[i];
		snap->pub.completes |= snap->lines[i].def->completes;
	}
	if (resources->count == 0)
		return;
	snap->by_uri = mem_calloc(resources->count, sizeof(*snap->by_uri));
	for (size_t i = 0; i < resources->count; i++)
		snap->by_uri[i] = &resources->items[i];
	qsort(snap->by_uri, resources->count, sizeof(*snap->by_uri), by_uri);
	snap->pub.by_uri = snap->by_uri;
}

/* Lines to definitions.  A line whose definition is not there is left out: changes were applied out of order. */
static void resolve(struct registry *reg, struct reg_snap *snap)
{
	size_t n = 0;

	for (size_t i = 0; i < snap->nlines; i++) {
		const struct reg_line_ref *want = &snap->wanted[i];
		struct reg_node *node = map_get_u64(reg->current, (uint64_t)want->tool_id);

		if (!node || node->pub.version_id != want->version_id) {
			log_err(NULL, "tool version not in memory tenant_id=%lld tool=%s version_id=%lld",
				(long long)snap->pub.tenant_id, snap->lines[i].name, (long long)want->version_id);
			continue;
		}
		node->refs++;
		snap->lines[n] = snap->lines[i];
		snap->lines[n++].def = &node->pub;
	}
	snap->nlines = n;
	free(snap->wanted);
	snap->wanted = NULL;
	index_lines(snap);
}

void reg_apply(struct registry *reg, struct reg_change **change, reg_told_fn *told, void *arg)
{
	struct reg_change *c = *change;

	*change = NULL;
	for (size_t i = 0; i < c->nschemas; i++)
		catalogue_set(reg->shared, c->schemas[i].uri, c->schemas[i].text, c->schemas[i].len, c->schemas[i].digest);
	for (size_t i = 0; i < c->ndefs; i++)
		apply_def(reg, &c->defs[i]);
	for (size_t i = 0; i < c->ntenants; i++) {
		struct reg_snap *snap = c->tenants[i].snap, *old;

		resolve(reg, snap);
		old = map_set_u64(reg->snaps, (uint64_t)snap->pub.tenant_id, snap);
		if (old) {
			struct reg_snapshot *gone = &old->pub;

			reg_release(reg, &gone);
		}
	}
	/* All pictures are in place before anybody is told and comes to look. */
	for (size_t i = 0; i < c->ntenants; i++) {
		struct reg_news news;

		if (told && reg_change_tenant_at(c, i, &news))
			told(arg, &news);
		c->tenants[i].snap = NULL;
	}
	reg_change_free(&c);
}
