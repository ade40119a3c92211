/* From rows to pictures, inside the transaction that changed the rows: which definitions and which tenants. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "db/db.h"
#include "registry_int.h"

enum { TENANT_STATE_ACTIVE = 1, TOOL_STATE_ENABLED = 1, NAME_SIZE = 65 };

static int compare_i64(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

struct tenant_row {
	char name[NAME_SIZE];
	bool active;
	int64_t generation[REG_FAMILIES];
	uint8_t digest[REG_FAMILIES][DIGEST_SIZE];
};

static int read_tenant(struct db_stmt *st, struct tenant_row *ret, struct err *err)
{
	size_t len;
	const char *name = db_col_text(st, 0, &len);

	memcpy(ret->name, name, len < NAME_SIZE ? len : NAME_SIZE - 1);
	ret->active = db_col_i64(st, 1) == TENANT_STATE_ACTIVE;
	for (unsigned f = 0; f < REG_FAMILIES; f++) {
		const void *digest = db_col_blob(st, 3 + 2 * f, &len);

		ret->generation[f] = db_col_i64(st, 2 + 2 * f);
		if (len != DIGEST_SIZE)
			return err_set(err, ERR_CORRUPT, "tenant", "tenant %s has a digest of %zu bytes", ret->name, len);
		memcpy(ret->digest[f], digest, DIGEST_SIZE);
	}
	return 0;
}

static int load_tenant(struct db *db, int64_t tenant_id, struct tenant_row *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TENANT_GET_LIST);
	int rc;

	db_bind_i64(st, 1, tenant_id);
	rc = db_step(st, err);
	if (rc == 0)
		rc = err_set(err, ERR_NOT_FOUND, "tenant", "tenant %lld: not found", (long long)tenant_id);
	if (rc > 0)
		rc = read_tenant(st, ret, err);
	db_stmt_put(&st);
	return rc;
}

static int store_lists(struct db *db, int64_t tenant_id, const struct tenant_row *t, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TENANT_SET_LIST);

	db_bind_i64(st, 1, tenant_id);
	for (unsigned f = 0; f < REG_FAMILIES; f++) {
		db_bind_i64(st, 2 + 2 * f, t->generation[f]);
		db_bind_blob(st, 3 + 2 * f, t->digest[f], DIGEST_SIZE);
	}
	return db_run(&st, err);
}

/* Raise the generation of each list that differs; true: one does. */
static bool compare_lists(const struct visible *v, struct tenant_row *t, struct reg_change_tenant *ret)
{
	bool any = false;

	for (unsigned f = 0; f < REG_FAMILIES; f++) {
		uint8_t digest[DIGEST_SIZE];

		visible_digest(v, (enum reg_family)f, digest);
		if (memcmp(digest, t->digest[f], sizeof digest) == 0)
			continue;
		memcpy(t->digest[f], digest, sizeof digest);
		t->generation[f]++;
		ret->differs[f] = any = true;
	}
	return any;
}

/* Add this tenant's picture to the change.  starting: as the rows say, nothing is written. */
static int add_tenant(struct reg_change *c, struct db *db, int64_t tenant_id, bool starting, struct err *err)
{
	struct visible v = { .uris = STR_INIT };
	struct tenant_row t = { .active = false };
	struct reg_change_tenant change = { .snap = NULL };
	int rc = load_tenant(db, tenant_id, &t, err);

	if (rc == 0 && t.active)
		rc = visible_load(&v, db, tenant_id, err);
	if (rc == 0)
		rc = visible_settle(&v, t.name, starting, err);
	if (rc == 0 && !starting && compare_lists(&v, &t, &change))
		rc = store_lists(db, tenant_id, &t, err);
	if (rc == 0) {
		if (c->ntenants == c->cap_tenants) {
			c->cap_tenants = c->cap_tenants ? c->cap_tenants * 2 : 16;
			c->tenants = mem_realloc(c->tenants, c->cap_tenants * sizeof *c->tenants);
		}
		change.snap = visible_snap(&v, tenant_id, t.generation);
		c->tenants[c->ntenants++] = change;
	}
	visible_fini(&v);
	return rc;
}

static void add_def(struct reg_change *c, int64_t tool_id, struct reg_node *node)
{
	if (c->ndefs == c->cap_defs) {
		c->cap_defs = c->cap_defs ? c->cap_defs * 2 : 16;
		c->defs = mem_realloc(c->defs, c->cap_defs * sizeof *c->defs);
	}
	c->defs[c->ndefs++] = (struct reg_change_def){ tool_id, node };
}

/* Columns of tool_current and tool_current_all. */
static int read_def(struct db_stmt *st, struct reg_node **ret, struct err *err)
{
	size_t len;
	const void *digest = db_col_blob(st, 5, &len);
	struct reg_def def = { .tool_id = db_col_i64(st, 0), .version_id = db_col_i64(st, 3),
			       .version = db_col_i64(st, 4) };
	int rc;

	if (len != sizeof def.digest)
		return err_set(err, ERR_CORRUPT, "tool_version", "tool %lld has a digest of %zu bytes",
			       (long long)def.tool_id, len);
	memcpy(def.digest, digest, sizeof def.digest);
	def.name = db_col_text(st, 1, &len);
	def.text = db_col_text(st, 6, &def.len);
	def.uri = db_col_text(st, 8, &len);
	rc = reg_kind_of(db_col_i64(st, 7), &def.kind, err);
	if (rc == 0)
		*ret = reg_node_new(&def);
	return rc;
}

static int load_all_defs(struct reg_change *c, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TOOL_CURRENT_ALL);
	int rc;

	while ((rc = db_step(st, err)) > 0) {
		struct reg_node *node = NULL;

		rc = read_def(st, &node, err);
		if (rc < 0)
			break;
		add_def(c, node->pub.tool_id, node);
	}
	db_stmt_put(&st);
	return rc;
}

struct ids { int64_t *p; size_t n, cap; };

static void add_id(struct ids *ids, int64_t id)
{
	if (ids->n == ids->cap) {
		ids->cap = ids->cap ? ids->cap * 2 : 16;
		ids->p = mem_realloc(ids->p, ids->cap * sizeof *ids->p);
	}
	ids->p[ids->n++] = id;
}

static int collect_ids(struct db_stmt *st, struct ids *ids, struct err *err)
{
	int rc;

	while ((rc = db_step(st, err)) > 0)
		add_id(ids, db_col_i64(st, 0));
	db_stmt_put(&st);
	return rc;
}

/* The tool's definition, and the tenants that have a grant for its name. */
static int load_tool(struct reg_change *c, struct db *db, int64_t tool_id, struct ids *tenants, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TOOL_CURRENT), *match;
	struct reg_node *node = NULL;
	int rc;

	db_bind_i64(st, 1, tool_id);
	rc = db_step(st, err);
	if (rc == 0)
		rc = err_set(err, ERR_NOT_FOUND, "tool", "tool %lld: not found", (long long)tool_id);
	if (rc > 0)
		rc = read_def(st, &node, err);
	if (rc == 0) {
		match = db_stmt_get(db, SQL_GRANT_TENANTS_OF_TOOL);
		db_bind_textz(match, 1, node->pub.name);
		rc = collect_ids(match, tenants, err);
	}
	if (rc < 0 || db_col_i64(st, 2) != TOOL_STATE_ENABLED)
		reg_node_unref(&node);
	db_stmt_put(&st);
	if (rc == 0)
		add_def(c, tool_id, node);
	return rc;
}

static int add_tenants(struct reg_change *c, struct db *db, const struct ids *tenants, bool starting, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < tenants->n && rc == 0; i++)
		if (i == 0 || tenants->p[i] != tenants->p[i - 1])
			rc = add_tenant(c, db, tenants->p[i], starting, err);
	return rc;
}

static int by_id(const void *a, const void *b)
{
	return compare_i64(*(const int64_t *)a, *(const int64_t *)b);
}

static int hand_out(struct reg_change **c, int rc, struct reg_change **ret)
{
	if (rc < 0)
		reg_change_free(c);
	else
		*ret = *c;
	return rc;
}

/* The columns of schema_current and schema_current_all. */
static int add_schema(struct reg_change *c, struct db_stmt *st, struct err *err)
{
	struct reg_change_schema s = { .text = NULL };
	size_t len;
	const char *uri = db_col_text(st, 0, &len), *text;
	const void *digest;

	s.uri = mem_strndup(uri, len);
	digest = db_col_blob(st, 1, &len);
	if (len != sizeof s.digest) {
		free(s.uri);
		return err_set(err, ERR_CORRUPT, "shared_schema", "a shared schema has a digest of %zu bytes", len);
	}
	memcpy(s.digest, digest, len);
	text = db_col_text(st, 2, &s.len);
	s.text = mem_strndup(text, s.len);
	c->schemas = mem_realloc(c->schemas, (c->nschemas + 1) * sizeof *c->schemas);
	c->schemas[c->nschemas++] = s;
	return 0;
}

static int load_all_schemas(struct reg_change *c, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SCHEMA_CURRENT_ALL);
	int rc;

	while ((rc = db_step(st, err)) > 0)
		if ((rc = add_schema(c, st, err)) < 0)
			break;
	db_stmt_put(&st);
	return rc;
}

int reg_change_schema(struct db *db, const char *uri, struct reg_change **ret, struct err *err)
{
	struct reg_change *c = mem_zalloc(sizeof *c);
	struct db_stmt *st = db_stmt_get(db, SQL_SCHEMA_CURRENT);
	int rc;

	db_bind_textz(st, 1, uri);
	rc = db_step(st, err);
	if (rc > 0) {
		rc = add_schema(c, st, err);
	} else if (rc == 0) {
		c->schemas = mem_zalloc(sizeof *c->schemas);
		c->schemas[c->nschemas++].uri = mem_strdup(uri);
	}
	db_stmt_put(&st);
	return hand_out(&c, rc, ret);
}

int reg_change_all(struct db *db, struct reg_change **ret, struct err *err)
{
	struct reg_change *c = mem_zalloc(sizeof *c);
	struct ids tenants = { NULL, 0, 0 };
	int rc = load_all_schemas(c, db, err);

	if (rc == 0)
		rc = load_all_defs(c, db, err);
	if (rc == 0)
		rc = collect_ids(db_stmt_get(db, SQL_TENANT_IDS), &tenants, err);
	if (rc == 0)
		rc = add_tenants(c, db, &tenants, true, err);
	free(tenants.p);
	return hand_out(&c, rc, ret);
}

int reg_change_tools(struct db *db, const int64_t *tool_ids, size_t n, struct reg_change **ret, struct err *err)
{
	struct reg_change *c = mem_zalloc(sizeof *c);
	struct ids tenants = { NULL, 0, 0 };
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = load_tool(c, db, tool_ids[i], &tenants, err);
	if (tenants.n)
		qsort(tenants.p, tenants.n, sizeof *tenants.p, by_id);
	if (rc == 0)
		rc = add_tenants(c, db, &tenants, false, err);
	free(tenants.p);
	return hand_out(&c, rc, ret);
}

int reg_change_tool(struct db *db, int64_t tool_id, struct reg_change **ret, struct err *err)
{
	return reg_change_tools(db, &tool_id, 1, ret, err);
}

int reg_change_tenant(struct db *db, int64_t tenant_id, struct reg_change **ret, struct err *err)
{
	struct reg_change *c = mem_zalloc(sizeof *c);

	return hand_out(&c, add_tenant(c, db, tenant_id, false, err), ret);
}

bool reg_change_tenant_at(const struct reg_change *c, size_t i, struct reg_news *ret)
{
	if (i >= c->ntenants)
		return false;
	*ret = (struct reg_news){ .tenant_id = c->tenants[i].snap->pub.tenant_id };
	memcpy(ret->generation, c->tenants[i].snap->pub.generation, sizeof ret->generation);
	memcpy(ret->differs, c->tenants[i].differs, sizeof ret->differs);
	return true;
}

void reg_change_free(struct reg_change **c)
{
	if (!c || !*c)
		return;
	for (size_t i = 0; i < (*c)->nschemas; i++) {
		free((*c)->schemas[i].uri);
		free((*c)->schemas[i].text);
	}
	free((*c)->schemas);
	for (size_t i = 0; i < (*c)->ndefs; i++)
		reg_node_unref(&(*c)->defs[i].node);
	for (size_t i = 0; i < (*c)->ntenants; i++)
		reg_snap_free(&(*c)->tenants[i].snap);
	free((*c)->defs);
	free((*c)->tenants);
	free(*c);
	*c = NULL;
}
