/* The current picture of each tenant, and the definitions they share. */

#include "config.h"

#include "registry/registry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "json/json.h"
#include "registry_int.h"

struct reg_node *reg_node_new(const struct reg_def *def)
{
	size_t name_size = strlen(def->name) + 1;
	struct reg_node *node = mem_alloc(sizeof *node + name_size + def->len + 1);

	*node = (struct reg_node){ .pub = *def, .refs = 1 };
	memcpy(node->data, def->name, name_size);
	memcpy(node->data + name_size, def->text, def->len);
	node->data[name_size + def->len] = '\0';
	node->pub.name = node->data;
	node->pub.text = node->data + name_size;
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

struct reg_snap *reg_snap_new(int64_t tenant_id, int64_t generation, size_t tools, size_t name_bytes)
{
	struct reg_snap *snap = mem_zalloc(sizeof *snap);

	snap->pub = (struct reg_snapshot){ .tenant_id = tenant_id, .generation = generation, .refs = 1 };
	list_init(&snap->pages);
	if (tools == 0)
		return snap;
	snap->lines = mem_calloc(tools, sizeof *snap->lines);
	snap->wanted = mem_calloc(tools, sizeof *snap->wanted);
	snap->names = mem_alloc(name_bytes);
	snap->pub.tools = snap->lines;
	snap->pub.tool_count = tools;
	return snap;
}

void reg_snap_free(struct reg_snap **snap)
{
	struct reg_snap *s = *snap;

	if (!s)
		return;
	assert(list_empty(&s->pages));
	for (size_t i = 0; i < s->pub.tool_count; i++) {
		struct reg_node *node = s->lines[i].def ? CONTAINER_OF(s->lines[i].def, struct reg_node, pub) : NULL;

		reg_node_unref(&node);
	}
	free(s->lines);
	free(s->wanted);
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
		return &reg_snap_new(tenant_id, 0, 0, 0)->pub;
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

const struct reg_tool *reg_find(const struct reg_snapshot *snap, const char *name, size_t len)
{
	size_t low = 0, high = snap->tool_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2, n = strlen(snap->tools[mid].name);
		int d = memcmp(name, snap->tools[mid].name, len < n ? len : n);

		if (d == 0 && len == n)
			return &snap->tools[mid];
		if (d < 0 || (d == 0 && len < n))
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

static int compile(struct registry *reg, struct reg_node *node, struct err *err)
{
	json_t *doc = NULL;
	int rc;

	node->mem = arena_new(DEFINE_MEMORY_MAX);
	node->compiled = arena_alloc(node->mem, sizeof *node->compiled);
	rc = jx_parse(node->pub.text, node->pub.len, &doc, err);
	if (rc == 0)
		rc = define_compile(doc, reg->bind, reg->shared, node->mem, node->compiled, err);
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

/* Lines to definitions.  A line whose definition is not there is left out: changes were applied out of order. */
static void resolve(struct registry *reg, struct reg_snap *snap)
{
	size_t n = 0;

	for (size_t i = 0; i < snap->pub.tool_count; i++) {
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
	snap->pub.tool_count = n;
	free(snap->wanted);
	snap->wanted = NULL;
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
		const struct reg_snapshot *snap = &c->tenants[i].snap->pub;

		if (c->tenants[i].differs && told)
			told(arg, snap->tenant_id, snap->generation);
		c->tenants[i].snap = NULL;
	}
	reg_change_free(&c);
}
