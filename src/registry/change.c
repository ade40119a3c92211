/*
 * From rows to pictures, inside the transaction that changed the rows.
 *
 * A tenant sees an enabled tool when one of its grants matches.  When several match, the most particular one
 * speaks: a literal name before a pattern, a longer pattern before a shorter, an older grant before a younger.
 * list_digest is SHA-256 over name, NUL and the digest of the listed part of each tool in the order of the list; 32
 * zero bytes stand for the empty list.
 */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/log.h"
#include "base/mem.h"
#include "db/db.h"
#include "registry_int.h"

enum { TENANT_STATE_ACTIVE = 1, TOOL_STATE_ENABLED = 1, NAME_SIZE = 65 };

struct row {                            /* one grant that matches one tool */
	int64_t tool_id, version_id, grant_id;
	size_t glob_len;
	bool literal;
	uint32_t concurrency;
	struct text_rate rate;
	char name[NAME_SIZE];           /* as the tenant sees it */
	uint8_t list_digest[DIGEST_SIZE];
};

struct rows { struct row *p; size_t n, cap; };

static int read_row(struct db_stmt *st, struct row *r, struct err *err)
{
	size_t glob_len, alias_len, name_len, digest_len;
	const char *glob = db_col_text(st, 5, &glob_len), *alias = db_col_text(st, 6, &alias_len);
	const char *name = db_col_text(st, 1, &name_len);
	const void *digest = db_col_blob(st, 3, &digest_len);

	*r = (struct row){ .tool_id = db_col_i64(st, 0), .version_id = db_col_i64(st, 2),
			   .grant_id = db_col_i64(st, 4), .glob_len = glob_len };
	r->literal = text_glob_literal(glob);
	r->concurrency = (uint32_t)db_col_i64(st, 7);
	r->rate = (struct text_rate){ (uint32_t)db_col_i64(st, 8), (uint32_t)db_col_i64(st, 9) };
	if (alias_len > 0 && r->literal) {
		name = alias;
		name_len = alias_len;
	}
	if (name_len >= sizeof r->name || digest_len != sizeof r->list_digest)
		return err_set(err, ERR_CORRUPT, "tool", "tool %lld has a name or a digest of the wrong length",
			       (long long)r->tool_id);
	memcpy(r->name, name, name_len);
	memcpy(r->list_digest, digest, digest_len);
	return 0;
}

static int load_rows(struct db *db, int64_t tenant_id, struct rows *rows, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_GRANT_VISIBLE);
	int rc;

	db_bind_i64(st, 1, tenant_id);
	while ((rc = db_step(st, err)) > 0) {
		if (rows->n == rows->cap) {
			rows->cap = rows->cap ? rows->cap * 2 : 64;
			rows->p = mem_realloc(rows->p, rows->cap * sizeof *rows->p);
		}
		rc = read_row(st, &rows->p[rows->n], err);
		if (rc < 0)
			break;
		rows->n++;
	}
	db_stmt_put(&st);
	return rc;
}

static int compare_i64(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

/* By tool, the grant that speaks first. */
static int by_tool(const void *x, const void *y)
{
	const struct row *a = x, *b = y;

	if (a->tool_id != b->tool_id)
		return compare_i64(a->tool_id, b->tool_id);
	if (a->literal != b->literal)
		return a->literal ? -1 : 1;
	if (a->glob_len != b->glob_len)
		return a->glob_len > b->glob_len ? -1 : 1;
	return compare_i64(a->grant_id, b->grant_id);
}

static int by_name(const void *x, const void *y)
{
	const struct row *a = x, *b = y;
	int d = strcmp(a->name, b->name);

	return d ? d : compare_i64(a->tool_id, b->tool_id);
}

/* One row of each tool, in the order of the list. */
static void settle(struct rows *rows)
{
	size_t n = 0;

	if (rows->n == 0)
		return;
	qsort(rows->p, rows->n, sizeof *rows->p, by_tool);
	for (size_t i = 0; i < rows->n; i++)
		if (n == 0 || rows->p[n - 1].tool_id != rows->p[i].tool_id)
			rows->p[n++] = rows->p[i];
	rows->n = n;
	qsort(rows->p, rows->n, sizeof *rows->p, by_name);
}

/* Two tools under one name: a refusal to who causes it, but stored ones must not keep a server from starting. */
static int check_names(struct rows *rows, const char *tenant, bool starting, struct err *err)
{
	size_t n = 0;

	if (rows->n > REG_TOOLS_MAX)
		return err_set(err, ERR_LIMIT, "grant", "tenant %s would see %zu tools, more than %d", tenant, rows->n,
			       REG_TOOLS_MAX);
	for (size_t i = 0; i < rows->n; i++) {
		const char *name = rows->p[i].name;

		if (n == 0 || strcmp(rows->p[n - 1].name, name) != 0) {
			rows->p[n++] = rows->p[i];
		} else if (starting) {
			log_err(NULL, "two grants show one name tenant=%s tool=%s", tenant, name);
		} else {
			char where[160];

			(void)snprintf(where, sizeof where, "tenant/%s/tool/%s", tenant, name); /* fits */
			(void)err_set(err, ERR_CONFLICT, where, "tenant %s would see two tools named %s", tenant, name);
			err_hint(err, "grant one of them under another name with --as");
			return ERR_CONFLICT;
		}
	}
	rows->n = n;
	return 0;
}

static void digest_rows(const struct rows *rows, uint8_t ret[DIGEST_SIZE])
{
	struct digest *d;

	memset(ret, 0, DIGEST_SIZE);
	if (rows->n == 0)
		return;
	d = digest_new();
	for (size_t i = 0; i < rows->n; i++) {
		digest_put(d, rows->p[i].name, strlen(rows->p[i].name) + 1);
		digest_put(d, rows->p[i].list_digest, DIGEST_SIZE);
	}
	digest_end(&d, ret);
}

static struct reg_snap *make_snap(int64_t tenant_id, int64_t generation, const struct rows *rows)
{
	size_t bytes = 0;
	struct reg_snap *snap;
	char *name;

	for (size_t i = 0; i < rows->n; i++)
		bytes += strlen(rows->p[i].name) + 1;
	snap = reg_snap_new(tenant_id, generation, rows->n, bytes);
	name = snap->names;
	for (size_t i = 0; i < rows->n; i++) {
		const struct row *r = &rows->p[i];
		size_t size = strlen(r->name) + 1;

		memcpy(name, r->name, size);
		snap->lines[i] = (struct reg_tool){ .name = name, .grant_id = r->grant_id,
						    .concurrency = r->concurrency, .rate = r->rate };
		snap->wanted[i] = (struct reg_line_ref){ r->tool_id, r->version_id };
		name += size;
	}
	return snap;
}

struct tenant_row { char name[NAME_SIZE]; bool active; int64_t generation; uint8_t digest[DIGEST_SIZE]; };

static int load_tenant(struct db *db, int64_t tenant_id, struct tenant_row *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TENANT_GET_LIST);
	int rc;

	db_bind_i64(st, 1, tenant_id);
	rc = db_step(st, err);
	if (rc == 0)
		rc = err_set(err, ERR_NOT_FOUND, "tenant", "tenant %lld: not found", (long long)tenant_id);
	if (rc > 0) {
		size_t len;
		const char *name = db_col_text(st, 0, &len);
		const void *digest;

		memcpy(ret->name, name, len < NAME_SIZE ? len : NAME_SIZE - 1);
		ret->active = db_col_i64(st, 1) == TENANT_STATE_ACTIVE;
		ret->generation = db_col_i64(st, 2);
		digest = db_col_blob(st, 3, &len);
		rc = len == DIGEST_SIZE ? 0 : err_set(err, ERR_CORRUPT, "tenant", "tenant %s has a digest of %zu bytes",
						      ret->name, len);
		if (rc == 0)
			memcpy(ret->digest, digest, DIGEST_SIZE);
	}
	db_stmt_put(&st);
	return rc;
}

static int store_list(struct db *db, int64_t tenant_id, int64_t generation, const uint8_t digest[DIGEST_SIZE],
		      struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TENANT_SET_LIST);

	db_bind_i64(st, 1, tenant_id);
	db_bind_i64(st, 2, generation);
	db_bind_blob(st, 3, digest, DIGEST_SIZE);
	return db_run(&st, err);
}

/* Add this tenant's picture to the change.  starting: as the rows say, nothing is written. */
static int add_tenant(struct reg_change *c, struct db *db, int64_t tenant_id, bool starting, struct err *err)
{
	struct rows rows = { NULL, 0, 0 };
	struct tenant_row t = { .active = false };
	uint8_t digest[DIGEST_SIZE];
	bool differs = false;
	int rc = load_tenant(db, tenant_id, &t, err);

	if (rc == 0 && t.active)
		rc = load_rows(db, tenant_id, &rows, err);
	settle(&rows);
	if (rc == 0)
		rc = check_names(&rows, t.name, starting, err);
	if (rc == 0 && !starting) {
		digest_rows(&rows, digest);
		differs = memcmp(digest, t.digest, sizeof digest) != 0;
		if (differs)
			rc = store_list(db, tenant_id, ++t.generation, digest, err);
	}
	if (rc == 0) {
		if (c->ntenants == c->cap_tenants) {
			c->cap_tenants = c->cap_tenants ? c->cap_tenants * 2 : 16;
			c->tenants = mem_realloc(c->tenants, c->cap_tenants * sizeof *c->tenants);
		}
		c->tenants[c->ntenants++] = (struct reg_change_tenant){ make_snap(tenant_id, t.generation, &rows), differs };
	}
	free(rows.p);
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

	if (len != sizeof def.digest)
		return err_set(err, ERR_CORRUPT, "tool_version", "tool %lld has a digest of %zu bytes",
			       (long long)def.tool_id, len);
	memcpy(def.digest, digest, sizeof def.digest);
	def.name = db_col_text(st, 1, &len);
	def.text = db_col_text(st, 6, &def.len);
	*ret = reg_node_new(&def);
	return 0;
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

bool reg_change_tenant_at(const struct reg_change *c, size_t i, int64_t *ret_tenant_id, int64_t *ret_generation,
			  bool *ret_differs)
{
	if (i >= c->ntenants)
		return false;
	*ret_tenant_id = c->tenants[i].snap->pub.tenant_id;
	*ret_generation = c->tenants[i].snap->pub.generation;
	*ret_differs = c->tenants[i].differs;
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
