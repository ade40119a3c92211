/* From rows to pictures, inside the transaction that changed the rows: which definitions and which tenants.  Commands
 * call it on the writer's thread, the start-up on its own; the loop applies what it made (reg_apply()). */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assent/rule.h"
#include "audit/rows.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"

#include "registry_int.h"

/* --- what one tenant sees, from the rows */

/* A tenant sees an enabled definition when one of its grants matches.  When several match, the most particular one
 * speaks: a literal name before a pattern, a longer pattern before a shorter, an older grant before a younger. The
 * digest of a list is SHA-256 over name, NUL and the digest of the listed part of each line in the order of the list;
 * 32 zero bytes stand for the empty list. */

struct visible_row {                    /* one grant that matches one definition */
	int64_t tool_id, version_id, grant_id;
	enum reg_kind kind;
	size_t glob_len;
	bool literal, other_version;    /* the grant names one that is not in force */
	uint32_t concurrency;
	struct text_rate rate;
	size_t name_at;                 /* the bare name in full_name */
	char full_name[REG_FULL_NAME_SIZE];     /* as the tenant sees it */
	size_t uri_at;                  /* in visible.uris; of a resource */
	size_t rule;                    /* in visible.rule + 1; 0: it asks nobody */
	uint8_t list_digest[DIGEST_SIZE];
};

/* What one tenant sees, as rows. */
struct visible {
	struct visible_row *row; size_t n, cap;
	struct str uris;
	struct visible_rule { int64_t grant_id; struct assent_rule *rule; } *rule; size_t nrule;       /* rule NULL: damaged */
};

static const char *name_of(const struct visible_row *r)
{
	return r->full_name + r->name_at;
}

/* tool_version.kind */
static int reg_kind_of(int64_t stored, enum reg_kind *ret, struct err *err)
{
	if (stored < 1 || stored > REG_KINDS)
		return err_set(err, ERR_CORRUPT, "tool_version", "a definition is of the unknown kind %lld", (long long)stored);
	*ret = (enum reg_kind)(stored - 1);
	return 0;
}

static int read_row(struct db_stmt *st, struct visible *v, struct visible_row *r, struct err *err)
{
	size_t glob_len, alias_len, name_len, digest_len, uri_len, prefix;
	const char *glob = db_col_text(st, 5, &glob_len), *alias = db_col_text(st, 6, &alias_len);
	const char *name = db_col_text(st, 1, &name_len), *uri = db_col_text(st, 11, &uri_len);
	const void *digest = db_col_blob(st, 3, &digest_len);
	int rc;

	*r = (struct visible_row){ .tool_id = db_col_i64(st, 0), .version_id = db_col_i64(st, 2),
				   .grant_id = db_col_i64(st, 4), .glob_len = glob_len, .uri_at = v->uris.len };
	r->literal = text_glob_literal(glob);
	r->other_version = db_col_i64(st, 12) != 0;
	r->concurrency = (uint32_t)db_col_i64(st, 7);
	r->rate = (struct text_rate){ (uint32_t)db_col_i64(st, 8), (uint32_t)db_col_i64(st, 9) };
	rc = reg_kind_of(db_col_i64(st, 10), &r->kind, err);
	if (rc < 0)
		return rc;
	prefix = strlen(reg_kinds[r->kind].prefix);
	if (name_len >= sizeof(r->full_name) || name_len <= prefix || alias_len > REG_NAME_MAX ||
	    digest_len != sizeof(r->list_digest))
		return err_set(err, ERR_CORRUPT, "tool", "tool %lld has a name or a digest of the wrong length",
			       (long long)r->tool_id);
	memcpy(r->full_name, name, name_len);
	if (alias_len > 0 && r->literal)
		(void)snprintf(r->full_name + prefix, sizeof(r->full_name) - prefix, "%s", alias); /* fits */
	r->name_at = prefix;
	memcpy(r->list_digest, digest, digest_len);
	str_put(&v->uris, uri, uri_len);
	str_putc(&v->uris, '\0');
	return 0;
}

/* The block `approve` of the grant, read once.  Who cannot be asked is not passed over: what a rule that is no rule
 * speaks of is not seen. */
static void read_rule(struct db_stmt *st, struct visible *v, struct visible_row *r)
{
	struct assent_rule *rule = NULL;
	struct err err;

	if (db_col_type(st, 13) == DB_NULL || r->kind != REG_TOOL)
		return;
	r->rule = v->nrule;
	if (v->nrule > 0 && v->rule[v->nrule - 1].grant_id == r->grant_id)      /* they come one grant after the other */
		return;
	if (assent_rule_parse(db_col_text(st, 13, NULL), &rule, &err) < 0)
		log_err(NULL, "the rule of a grant is damaged, and its tools are left out grant=%lld reason=\"%s\"",
			(long long)r->grant_id, err.msg);
	v->rule = mem_realloc(v->rule, (v->nrule + 1) * sizeof(*v->rule));
	v->rule[v->nrule++] = (struct visible_rule){ r->grant_id, rule };
	r->rule = v->nrule;
}

static int visible_load(struct visible *v, struct db *db, int64_t tenant_id, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_GRANT_VISIBLE);
	int rc;

	db_bind_i64(st, 1, tenant_id);
	while ((rc = db_step(st, err)) > 0) {
		if (v->n == v->cap) {
			v->cap = v->cap ? v->cap * 2 : 64;
			v->row = mem_realloc(v->row, v->cap * sizeof(*v->row));
		}
		rc = read_row(st, v, &v->row[v->n], err);
		if (rc < 0)
			break;
		read_rule(st, v, &v->row[v->n]);
		v->n++;
	}
	db_stmt_put(&st);
	return rc;
}

static void visible_fini(struct visible *v)
{
	for (size_t i = 0; i < v->nrule; i++)
		assent_rule_free(&v->rule[i].rule);
	free(v->rule);
	free(v->row);
	str_fini(&v->uris);
}

static int compare_i64(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

/* By definition, the grant that speaks first. */
static int by_tool(const void *x, const void *y)
{
	const struct visible_row *a = x, *b = y;

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
	const struct visible_row *a = x, *b = y;
	int d = a->kind != b->kind ? (a->kind > b->kind) - (a->kind < b->kind) : strcmp(name_of(a), name_of(b));

	return d ? d : compare_i64(a->tool_id, b->tool_id);
}

/* One row of each definition, in the order of the lists. */
static void settle(struct visible *v)
{
	size_t n = 0;

	if (v->n == 0)
		return;
	qsort(v->row, v->n, sizeof(*v->row), by_tool);
	for (size_t i = 0; i < v->n; i++)
		if (n == 0 || v->row[n - 1].tool_id != v->row[i].tool_id)
			v->row[n++] = v->row[i];
	v->n = n;
	n = 0;
	for (size_t i = 0; i < v->n; i++)
		if (v->row[i].rule == 0 || v->rule[v->row[i].rule - 1].rule)
			v->row[n++] = v->row[i];
	v->n = n;
	qsort(v->row, v->n, sizeof(*v->row), by_name);
}

static int refuse_twice(const char *tenant, const struct visible_row *r, const char *what, const char *value,
			struct err *err)
{
	char where[160];

	(void)snprintf(where, sizeof(where), "tenant/%s/%s/%s", tenant, r->kind == REG_TEMPLATE ? "resource" :
		       reg_kinds[r->kind].word, name_of(r)); /* fits */
	(void)err_set(err, ERR_CONFLICT, where, "tenant %s would see two %ss %s %.80s", tenant, reg_kinds[r->kind].noun,
		      what, value);
	if (strcmp(what, "named") == 0)
		err_hint(err, "grant one of them under another name with --as");
	return ERR_CONFLICT;
}

/* Two lines under one name: a refusal to who causes it, but stored ones must not keep a server from starting. */
static int check_names(struct visible *v, const char *tenant, bool starting, struct err *err)
{
	size_t n = 0, of_kind[REG_KINDS] = { 0 };

	for (size_t i = 0; i < v->n; i++) {
		const struct visible_row *r = &v->row[i];

		if (++of_kind[r->kind] > REG_TOOLS_MAX)
			return err_set(err, ERR_LIMIT, "grant", "tenant %s would see more than %d %ss", tenant, REG_TOOLS_MAX,
				       reg_kinds[r->kind].noun);
		if (n == 0 || v->row[n - 1].kind != r->kind || strcmp(name_of(&v->row[n - 1]), name_of(r)) != 0)
			v->row[n++] = *r;
		else if (starting)
			log_err(NULL, "two grants show one name tenant=%s name=%s", tenant, r->full_name);
		else
			return refuse_twice(tenant, r, "named", name_of(r), err);
	}
	v->n = n;
	return 0;
}

struct uri_ref { const char *uri; size_t row; };

static int by_uri(const void *x, const void *y)
{
	const struct uri_ref *a = x, *b = y;
	int d = strcmp(a->uri, b->uri);

	return d ? d : (a->row > b->row) - (a->row < b->row);
}

/* Likewise two resources under one URI.  At a start the snapshot leaves the second out of its index. */
static int check_uris(struct visible *v, const char *tenant, struct err *err)
{
	struct uri_ref *ref = mem_calloc(v->n + 1, sizeof(*ref));
	size_t n = 0;
	int rc = 0;

	for (size_t i = 0; i < v->n; i++)
		if (v->row[i].kind == REG_RESOURCE)
			ref[n++] = (struct uri_ref){ v->uris.p + v->row[i].uri_at, i };
	if (n)
		qsort(ref, n, sizeof(*ref), by_uri);
	for (size_t i = 1; i < n && rc == 0; i++)
		if (strcmp(ref[i - 1].uri, ref[i].uri) == 0)
			rc = refuse_twice(tenant, &v->row[ref[i].row], "with the URI", ref[i].uri, err);
	free(ref);
	return rc;
}

static int visible_settle(struct visible *v, const char *tenant, bool starting, struct err *err)
{
	int rc;

	settle(v);
	rc = check_names(v, tenant, starting, err);
	return rc < 0 || starting ? rc : check_uris(v, tenant, err);
}

static void visible_digest(const struct visible *v, enum reg_family family, uint8_t ret[DIGEST_SIZE])
{
	struct digest *d = NULL;

	memset(ret, 0, DIGEST_SIZE);
	for (size_t i = 0; i < v->n; i++) {
		const struct visible_row *r = &v->row[i];

		/* Which pages can be read decides what tools say of theirs (UI-04). */
		const char *page = family == REG_TOOLS && r->kind >= REG_RESOURCE ? v->uris.p + r->uri_at : "";

		if (!uri_is_page(page))
			page = "";
		if (reg_kinds[r->kind].family != family && !*page)
			continue;
		if (!d)
			d = digest_new();
		if (*page) {
			digest_put(d, page, strlen(page) + 1);
			continue;
		}
		digest_put(d, name_of(r), strlen(name_of(r)) + 1);
		digest_put(d, r->list_digest, DIGEST_SIZE);
	}
	if (d)
		digest_end(&d, ret);
}

/* One row of each definition in the order of the lists; ERR_CONFLICT, ERR_LIMIT.  starting: conflicts are logged. */
static struct reg_snap *visible_snap(struct visible *v, int64_t tenant_id, const int64_t generation[REG_FAMILIES])
{
	size_t bytes = 0;
	struct reg_snap *snap;
	char *name;

	for (size_t i = 0; i < v->n; i++)
		bytes += strlen(v->row[i].full_name) + 1;
	snap = reg_snap_new(tenant_id, v->n, bytes);
	memcpy(snap->pub.generation, generation, sizeof(snap->pub.generation));
	name = snap->names;
	snap->rules = mem_calloc(v->nrule + 1, sizeof(*snap->rules));
	for (; snap->nrules < v->nrule; snap->nrules++) {
		snap->rules[snap->nrules] = v->rule[snap->nrules].rule;
		v->rule[snap->nrules].rule = NULL;      /* is the snapshot's now */
	}
	for (size_t i = 0; i < v->n; i++) {
		const struct visible_row *r = &v->row[i];
		size_t size = strlen(r->full_name) + 1;

		memcpy(name, r->full_name, size);
		snap->lines[i] = (struct reg_tool){ .name = name + r->name_at, .full_name = name, .grant_id = r->grant_id,
						    .concurrency = r->concurrency, .rate = r->rate,
						    .approve = r->rule ? snap->rules[r->rule - 1] : NULL };
		snap->wanted[i] = (struct reg_line_ref){ r->tool_id, r->version_id };
		name += size;
	}
	return snap;
}

enum { TENANT_STATE_ACTIVE = 1, TOOL_STATE_ENABLED = 1, NAME_SIZE = 65 };

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
		if (memcmp(digest, t->digest[f], sizeof(digest)) == 0)
			continue;
		memcpy(t->digest[f], digest, sizeof(digest));
		t->generation[f]++;
		ret->differs[f] = any = true;
	}
	return any;
}

static int read_def(struct db_stmt *st, struct reg_node **ret, struct err *err);

/* The definition of a version that is not in force, if it is what its record says: else nobody sees it. */
static int add_version(struct reg_change *c, struct db *db, int64_t version_id, struct err *err)
{
	struct db_stmt *st;
	struct reg_node *node = NULL;
	uint64_t taken_us;
	struct err why;
	int rc;

	if (!c->versions)
		c->versions = map_new();
	if (map_get_u64(c->versions, (uint64_t)version_id))
		return 0;
	rc = audit_row_check(db, AUDIT_ROW_VERSION, version_id, &taken_us, &why);
	if (rc == ERR_CORRUPT) {
		log_err(NULL, "a version that a grant names is left out row=%s reason=\"%s\"", why.where, why.msg);
		return 0;
	}
	if (rc < 0) {
		if (err)
			*err = why;
		return rc;
	}
	st = db_stmt_get(db, SQL_TOOL_OF_VERSION);
	db_bind_i64(st, 1, version_id);
	rc = db_step(st, err);
	if (rc == 1)
		rc = read_def(st, &node, err);
	db_stmt_put(&st);
	if (rc == 0 && node)
		(void)map_set_u64(c->versions, (uint64_t)version_id, node);
	return rc;
}

static int add_versions(struct reg_change *c, struct db *db, const struct visible *v, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < v->n && rc == 0; i++)
		if (v->row[i].other_version)
			rc = add_version(c, db, v->row[i].version_id, err);
	return rc;
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
	if (rc == 0)
		rc = add_versions(c, db, &v, err);
	if (rc == 0 && !starting && compare_lists(&v, &t, &change))
		rc = store_lists(db, tenant_id, &t, err);
	if (rc == 0) {
		if (c->ntenants == c->cap_tenants) {
			c->cap_tenants = c->cap_tenants ? c->cap_tenants * 2 : 16;
			c->tenants = mem_realloc(c->tenants, c->cap_tenants * sizeof(*c->tenants));
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
		c->defs = mem_realloc(c->defs, c->cap_defs * sizeof(*c->defs));
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

	if (len != sizeof(def.digest))
		return err_set(err, ERR_CORRUPT, "tool_version", "tool %lld has a digest of %zu bytes",
			       (long long)def.tool_id, len);
	memcpy(def.digest, digest, sizeof(def.digest));
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
		ids->p = mem_realloc(ids->p, ids->cap * sizeof(*ids->p));
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
	if (len != sizeof(s.digest)) {
		free(s.uri);
		return err_set(err, ERR_CORRUPT, "shared_schema", "a shared schema has a digest of %zu bytes", len);
	}
	memcpy(s.digest, digest, len);
	text = db_col_text(st, 2, &s.len);
	s.text = mem_strndup(text, s.len);
	c->schemas = mem_realloc(c->schemas, (c->nschemas + 1) * sizeof(*c->schemas));
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
	struct reg_change *c = mem_zalloc(sizeof(*c));
	struct db_stmt *st = db_stmt_get(db, SQL_SCHEMA_CURRENT);
	int rc;

	db_bind_textz(st, 1, uri);
	rc = db_step(st, err);
	if (rc > 0) {
		rc = add_schema(c, st, err);
	} else if (rc == 0) {
		c->schemas = mem_zalloc(sizeof(*c->schemas));
		c->schemas[c->nschemas++].uri = mem_strdup(uri);
	}
	db_stmt_put(&st);
	return hand_out(&c, rc, ret);
}

int reg_change_all(struct db *db, struct reg_change **ret, struct err *err)
{
	struct reg_change *c = mem_zalloc(sizeof(*c));
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
	struct reg_change *c = mem_zalloc(sizeof(*c));
	struct ids tenants = { NULL, 0, 0 };
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = load_tool(c, db, tool_ids[i], &tenants, err);
	if (tenants.n)
		qsort(tenants.p, tenants.n, sizeof(*tenants.p), by_id);
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
	struct reg_change *c = mem_zalloc(sizeof(*c));

	return hand_out(&c, add_tenant(c, db, tenant_id, false, err), ret);
}

