/* What each kind of document is, for apply (read() on the loop, store() and prune() on the writer's thread) and export
 * (pool): secret, schema, what is listed to agents (tool, prompt, resource, resourceTemplate), tenant, grant, upstream.
 * The order of apply_kinds[] is that in which apply stores them. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "audit/audit.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "json/json.h"
#include "registry/define.h"
#include "remote/remote.h"
#include "tenant/tenant.h"

#include "documents_int.h"

/* --- secret: {kind: secret, name: shop} says that one must be set; a value never stands in a file */

static int read_secret(struct apply *a, const json_t *doc, struct apply_item *item, struct err *err)
{
	static const char *const known[] = { "kind", "name" };
	const char *name = NULL;
	int rc = 0;

	(void)a;
	if (json_object_get(doc, "value")) {
		(void)err_set(err, ERR_INVALID, "/value", "a secret's value does not belong into a file");
		err_hint(err, "toolcrib secret set NAME reads it from standard input");
		return ERR_INVALID;
	}
	rc = jx_only(doc, "", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_string(doc, "", "name", JX_REQUIRED, &name, err);
	if (rc == 0 && !text_tool_name(name, strlen(name)))
		rc = err_set(err, ERR_INVALID, "/name", "\"%.80s\" is no name of a secret", name);
	if (rc == 0)
		item->name = mem_strdup(name);
	return rc;
}

static int store_secret(struct apply *a, const struct apply_item *item, struct err *err)
{
	struct db_stmt *st = db_stmt_get(a->db, SQL_SECRET_FIND);
	int rc;

	db_bind_textz(st, 1, item->name);
	rc = db_step(st, err);
	db_stmt_put(&st);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	(void)err_set(err, ERR_NOT_FOUND, "/name", "secret %s is not set", item->name);
	err_hint(err, "toolcrib secret set %s reads its value from standard input", item->name);
	return ERR_NOT_FOUND;
}

/* What cannot be brought back by a file is not taken away by one. */
static int prune_secrets(struct apply *a, const struct apply_kind *kind, struct err *err)
{
	(void)a;
	(void)kind;
	(void)err;
	return 0;
}

/* They are the store's: one tenant's export has none. */
static int export_secrets(struct export *x, const struct apply_kind *kind, struct err *err)
{
	struct db_stmt *st;
	int rc = 0;

	if (*x->tenant)
		return 0;
	st = db_stmt_get(x->db, SQL_SECRET_LIST);
	while ((rc = db_step(st, err)) == 1) {
		size_t len;
		const char *text = db_col_text(st, 0, &len);
		char *name = mem_strndup(text, len);

		export_put(x, kind->name, name, json_pack("{s:s, s:s}", "kind", "secret", "name", name));
		free(name);
	}
	db_stmt_put(&st);
	return rc;
}

static const struct apply_kind apply_kind_secret = {
	.name = "secret", .space = "secret", .read = read_secret, .store = store_secret, .prune = prune_secrets,
	.export = export_secrets, .free_doc = free,
};

/* --- rows with a name and a definition, of which all are looked at before one is changed */

struct written { char **name, **text; size_t n; };

static void written_fini(struct written *w)
{
	while (w->n > 0) {
		free(w->name[--w->n]);
		free(w->text[w->n]);
	}
	free(w->name);
	free(w->text);
}

/* Columns name and definition of the rows of st, which is put. */
static int load_written(struct db_stmt *st, unsigned first, struct written *ret, struct err *err)
{
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		size_t len;
		const char *text;

		ret->name = mem_realloc(ret->name, (ret->n + 1) * sizeof(char *));
		ret->text = mem_realloc(ret->text, (ret->n + 1) * sizeof(char *));
		text = db_col_text(st, first, &len);
		ret->name[ret->n] = mem_strndup(text, len);
		text = db_col_text(st, first + 1, &len);
		ret->text[ret->n++] = mem_strndup(text, len);
	}
	db_stmt_put(&st);
	return rc;
}

/* The members of a stored text behind `kind`, which a tool's document leaves out. */
static json_t *document_of(const char *kind, const char *text)
{
	json_t *doc = json_object(), *stored = NULL;

	if (strcmp(kind, "tool") != 0)
		(void)json_object_set_new(doc, "kind", json_string(kind));
	if (jx_parse(text, strlen(text), &stored, NULL) == 0)
		(void)json_object_update(doc, stored);
	json_decref(stored);
	return doc;
}

static void export_written(struct export *x, const char *kind, struct written *w)
{
	for (size_t i = 0; i < w->n; i++)
		export_put(x, kind, strcmp(kind, "schema") == 0 ? w->name[i] : tool_bare_name(w->name[i]),
			document_of(kind, w->text[i]));
	written_fini(w);
}

/* --- schema */

static int read_schema(struct apply *a, const json_t *doc, struct apply_item *item, struct err *err)
{
	size_t i = a->next_schema++;            /* schema_set_define() went the same way */

	(void)doc;
	(void)err;
	item->name = mem_strdup(a->schemas.def[i].uri);
	item->doc = mem_dup(&i, sizeof(i));
	return 0;
}

static int load_replaced(struct apply *a, struct err *err)
{
	a->replaced = mem_calloc(a->schemas.count, sizeof(char *));
	for (size_t i = 0; i < a->schemas.count; i++) {
		struct db_stmt *st = db_stmt_get(a->db, SQL_SCHEMA_CURRENT);
		int rc;

		db_bind_textz(st, 1, a->schemas.def[i].uri);
		rc = db_step(st, err);
		if (rc == 1) {
			size_t len;
			const char *text = db_col_text(st, 2, &len);

			a->replaced[i] = mem_strndup(text, len);
		}
		db_stmt_put(&st);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* They may refer to each other, so the first one stores them all. */
static int store_schema(struct apply *a, const struct apply_item *item, struct err *err)
{
	const size_t *i = item->doc;
	int rc = 0;

	if (!a->stored) {
		a->stored = mem_calloc(a->schemas.count, sizeof(*a->stored));
		rc = load_replaced(a, err);
		if (rc == 0)
			rc = schema_set_store(a->c, a->db, a->logs, &a->schemas, a->stored, err);
	}
	if (rc == 0 && a->stored[*i] != ADM_UNCHANGED)
		apply_say(a, "schema", item->name, a->replaced[*i], a->schemas.def[*i].text);
	return rc;
}

static struct db_stmt *schemas_of(struct db *db, int64_t tenant_id)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SCHEMA_WRITTEN);

	db_bind_i64(st, 1, tenant_id);
	return st;
}

static int prune_schemas(struct apply *a, const struct apply_kind *kind, struct err *err)
{
	struct written w = { NULL, NULL, 0 };
	const char **gone;
	size_t n = 0;
	int rc = load_written(schemas_of(a->db, 0), 0, &w, err);

	(void)kind;

	gone = mem_calloc(w.n, sizeof(*gone));
	for (size_t i = 0; i < w.n; i++)
		if (!apply_find(a, "schema", w.name[i]))
			gone[n++] = w.name[i];
	if (rc == 0 && n > 0)
		rc = schema_set_remove(a->c, a->db, a->logs, gone, n, err);
	for (size_t i = 0; i < w.n && rc == 0; i++)
		if (!apply_find(a, "schema", w.name[i]))
			apply_say(a, "schema", w.name[i], w.text[i], NULL);
	free(gone);
	written_fini(&w);
	return rc;
}

static int export_schemas(struct export *x, const struct apply_kind *kind, struct err *err)
{
	struct written w = { NULL, NULL, 0 };
	int rc = load_written(schemas_of(x->db, x->tenant_id), 0, &w, err);

	export_written(x, kind->name, &w);
	return rc;
}

static const struct apply_kind apply_kind_schema = {
	.name = "schema", .space = "schema", .read = read_schema, .store = store_schema, .prune = prune_schemas,
	.export = export_schemas, .free_doc = free,
};

/* --- what is listed: tool, prompt, resource, resourceTemplate */

static void free_item(void *doc)
{
	define_free(doc);
	free(doc);
}

static int read_item(struct apply *a, const json_t *doc, struct apply_item *item, struct err *err)
{
	struct define_item *def = mem_zalloc(sizeof(*def));
	int rc = define_item(doc, command_bind(a->c), a->schemas.shared, def, err);

	if (rc < 0) {
		free(def);
		return rc;
	}
	item->name = mem_strdup(tool_bare_name(def->name));
	item->doc = def;
	return 0;
}

static int version_text(struct db *db, int64_t tool_id, int64_t version, char **ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_TOOL_VERSION);
	int rc;

	db_bind_i64(st, 1, tool_id);
	db_bind_i64(st, 2, version);
	rc = db_step(st, err);
	if (rc == 1) {
		size_t len;
		const char *text = db_col_text(st, 5, &len);

		*ret = mem_strndup(text, len);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int store_item(struct apply *a, const struct apply_item *item, struct err *err)
{
	const struct define_item *def = item->doc;
	struct tool_stored done;
	char *before = NULL;
	int rc = tool_store(a->c, a->db, a->logs, def, true, &done, err);

	if (rc < 0 || done.what == ADM_UNCHANGED)
		return rc;
	apply_id(&a->tools, done.id);
	if (done.what == ADM_CHANGED)
		rc = version_text(a->db, done.id, done.before, &before, err);
	if (rc == 0)
		apply_say(a, item->kind->name, item->name, before, def->text);
	free(before);
	return rc;
}

static struct db_stmt *items_of(struct db *db, const struct apply_kind *kind, int64_t tenant_id)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TOOL_WRITTEN);

	db_bind_i64(st, 1, tenant_id);
	db_bind_i64(st, 2, kind->listed + 1);   /* as tool_version.kind says it */
	return st;
}

static int prune_items(struct apply *a, const struct apply_kind *kind, struct err *err)
{
	struct written w = { NULL, NULL, 0 };
	int rc = load_written(items_of(a->db, kind, 0), 1, &w, err);

	for (size_t i = 0; i < w.n && rc == 0; i++) {
		int64_t id;

		if (apply_find(a, kind->space, tool_bare_name(w.name[i])))
			continue;
		rc = tool_change_state(a->c, a->db, a->logs, w.name[i], ADM_TOOL_REMOVED, &id, err);
		if (rc < 0)
			break;
		apply_id(&a->tools, id);
		apply_say(a, kind->name, tool_bare_name(w.name[i]), w.text[i], NULL);
	}
	written_fini(&w);
	return rc;
}

static int export_items(struct export *x, const struct apply_kind *kind, struct err *err)
{
	struct written w = { NULL, NULL, 0 };
	int rc = load_written(items_of(x->db, kind, x->tenant_id), 1, &w, err);

	export_written(x, kind->name, &w);
	return rc;
}

#define LISTED(symbol, word, names, number) \
	static const struct apply_kind apply_kind_##symbol = { \
		.name = word, .space = names, .listed = number, .read = read_item, .store = store_item, .prune = prune_items, \
		.export = export_items, .free_doc = free_item, \
	}
LISTED(tool, "tool", "tool", REG_TOOL);
LISTED(prompt, "prompt", "prompt", REG_PROMPT);
LISTED(resource, "resource", "resource", REG_RESOURCE);
LISTED(template, "resourceTemplate", "resource", REG_TEMPLATE);

/* --- tenant and grant */

/* {kind: tenant, name: acme, title: Acme Corp, limits: {concurrency: 7, rate: 100/s, queue: 50, requests: 200/s,
 *  callsPerDay: 10000, bytesPerDay: 1GiB}, sandbox: {require: base+landlock:6}, suspended: true}
 * A grant's is read and written beside its row, in toolset.
 *
 * What is left out is as if it had never been set; but a tenant that is suspended stays so unless its document says
 * `suspended: false`: no file undoes by its silence what somebody did in an emergency. */

#define TENANT_CONCURRENCY_MAX 100000
#define TENANT_QUEUE_MAX 100000

/* --- tenant and grant: limits */

static int read_size(const json_t *limits, const char *name, uint64_t *ret, struct err *err)
{
	const char *size = NULL;
	char where[32];
	int rc = jx_get_string(limits, "/limits", name, JX_OPTIONAL, &size, err);

	if (rc < 0 || !size || text_size(size, ret) == 0)
		return rc;
	(void)snprintf(where, sizeof(where), "/limits/%s", name); /* fits */
	(void)err_set(err, ERR_INVALID, where, "%.40s is no size", size);
	err_hint(err, "write it as 512KiB, 100MiB or 2GiB");
	return ERR_INVALID;
}

static int read_tenant_limits(const json_t *doc, struct tenant_row *t, struct err *err)
{
	static const char *const known[] = { "concurrency", "rate", "queue", "requests", "callsPerDay", "bytesPerDay" };
	int64_t queue = 0, calls = 0;
	json_t *limits = NULL;
	int rc = jx_get_object(doc, "", "limits", JX_OPTIONAL, &limits, err);

	if (rc < 0 || !limits)
		return rc;
	rc = jx_only(limits, "/limits", known, NELEMS(known), err);
	if (rc == 0)
		rc = document_limits(limits, TENANT_CONCURRENCY_MAX, &t->concurrency, &t->rate, err);
	if (rc == 0)
		rc = jx_get_int(limits, "/limits", "queue", JX_OPTIONAL, 1, TENANT_QUEUE_MAX, &queue, err);
	if (rc == 0)
		rc = document_rate(limits, "requests", &t->more.requests, err);
	if (rc == 0)
		rc = jx_get_int(limits, "/limits", "callsPerDay", JX_OPTIONAL, 1, UINT32_MAX, &calls, err);
	if (rc == 0)
		rc = read_size(limits, "bytesPerDay", &t->more.bytes_day, err);
	t->more.queue = (uint32_t)queue;
	t->more.calls_day = (uint64_t)calls;
	return rc;
}

static void put_count(json_t *limits, const char *name, uint64_t n)
{
	if (n)
		(void)json_object_set_new(limits, name, json_integer((json_int_t)n));
}

static void put_limits(json_t *doc, const struct tenant_row *t)
{
	json_t *limits = json_object();
	char bytes[32];

	put_count(limits, "concurrency", (uint64_t)t->concurrency);
	document_put_rate(limits, "rate", t->rate);
	put_count(limits, "queue", t->more.queue);
	document_put_rate(limits, "requests", t->more.requests);
	put_count(limits, "callsPerDay", t->more.calls_day);
	(void)snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)t->more.bytes_day); /* fits */
	if (t->more.bytes_day)
		(void)json_object_set_new(limits, "bytesPerDay", json_string(bytes));
	if (json_object_size(limits) > 0)
		(void)json_object_set(doc, "limits", limits);
	json_decref(limits);
}

/* Say what became of a document; takes both, either may be NULL. */
static void say(struct apply *a, const char *kind, const char *name, json_t *before, json_t *after)
{
	struct str x = STR_INIT, y = STR_INIT;

	if (before)
		jx_write(before, &x);
	if (after)
		jx_write(after, &y);
	apply_say(a, kind, name, before ? str_text(&x) : NULL, after ? str_text(&y) : NULL);
	str_fini(&x);
	str_fini(&y);
	json_decref(before);
	json_decref(after);
}

/* --- tenant */

static int read_sandbox(const json_t *doc, struct tenant_row *t, struct err *err)
{
	static const char *const known[] = { "require" };
	const char *level = NULL;
	json_t *box = NULL;
	int rc = jx_get_object(doc, "", "sandbox", JX_OPTIONAL, &box, err);

	if (rc < 0 || !box)
		return rc;
	rc = jx_only(box, "/sandbox", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_string(box, "/sandbox", "require", JX_REQUIRED, &level, err);
	if (rc == 0 && tenant_sandbox(level, t->sandbox, err) < 0) {
		err_at(err, "/sandbox/require");
		rc = ERR_INVALID;
	}
	return rc;
}

static int read_tenant(struct apply *a, const json_t *doc, struct apply_item *item, struct err *err)
{
	static const char *const known[] = { "kind", "name", "title", "limits", "sandbox", "suspended" };
	struct tenant_row *t = mem_zalloc(sizeof(*t));
	const char *name = NULL, *title = NULL;
	bool suspended = false;
	int rc = jx_only(doc, "", known, NELEMS(known), err);

	(void)a;
	item->doc = t;
	if (rc == 0)
		rc = jx_get_string(doc, "", "name", JX_REQUIRED, &name, err);
	if (rc == 0)
		rc = document_member(err, tenant_new_name(name, err));
	if (rc == 0)
		rc = jx_get_string(doc, "", "title", JX_OPTIONAL, &title, err);
	if (rc == 0 && title)
		rc = document_member(err, tenant_title(title, t->title, err));
	if (rc == 0)
		rc = read_tenant_limits(doc, t, err);
	if (rc == 0)
		rc = read_sandbox(doc, t, err);
	if (rc == 0)
		rc = jx_get_bool(doc, "", "suspended", JX_OPTIONAL, &suspended, err);
	if (rc < 0)
		return rc;
	if (json_object_get(doc, "suspended"))
		t->state = suspended ? TENANT_SUSPENDED : TENANT_ACTIVE;
	(void)snprintf(t->name, sizeof(t->name), "%s", name);
	item->name = mem_strdup(name);
	return 0;
}

static json_t *tenant_document(const struct tenant_row *t)
{
	json_t *doc = json_pack("{s:s, s:s}", "kind", "tenant", "name", t->name);

	if (*t->title)
		(void)json_object_set_new(doc, "title", json_string(t->title));
	put_limits(doc, t);
	if (*t->sandbox)
		(void)json_object_set_new(doc, "sandbox", json_pack("{s:s}", "require", t->sandbox));
	if (t->state == TENANT_SUSPENDED)
		(void)json_object_set_new(doc, "suspended", json_true());
	return doc;
}

static int store_tenant(struct apply *a, const struct apply_item *item, struct err *err)
{
	const struct tenant_row *want = item->doc;
	struct tenant_row before, after;
	enum row_stored what;
	int rc = tenant_store(a->c, a->db, a->logs, want, &before, &after, &what, err);

	if (rc < 0 || what == ADM_UNCHANGED)
		return rc;
	apply_id(&a->tenants, after.id);
	if (after.state == TENANT_SUSPENDED && before.state != after.state)
		apply_id(&a->out, after.id);
	say(a, "tenant", after.name, what == ADM_ADDED ? NULL : tenant_document(&before), tenant_document(&after));
	return 0;
}

struct tenants { struct tenant_row *v; size_t n; };

static int load_tenants(struct db *db, struct tenants *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_TENANT_LIST);
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		ret->v = mem_realloc(ret->v, (ret->n + 1) * sizeof(*ret->v));
		tenant_row_read(st, &ret->v[ret->n++]);
	}
	db_stmt_put(&st);
	return rc;
}

static int prune_tenants(struct apply *a, const struct apply_kind *kind, struct err *err)
{
	struct tenants all = { NULL, 0 };
	int rc = load_tenants(a->db, &all, err);

	(void)kind;
	for (size_t i = 0; i < all.n && rc == 0; i++) {
		const struct tenant_row *t = &all.v[i];

		if (apply_find(a, "tenant", t->name))
			continue;
		rc = tenant_change_state(a->c, a->db, a->logs, t, TENANT_REMOVED, err);
		if (rc < 0)
			break;
		apply_id(&a->tenants, t->id);
		apply_id(&a->out, t->id);
		say(a, "tenant", t->name, tenant_document(t), NULL);
	}
	free(all.v);
	return rc;
}

static int export_tenants(struct export *x, const struct apply_kind *kind, struct err *err)
{
	struct tenants all = { NULL, 0 };
	int rc = load_tenants(x->db, &all, err);

	(void)kind;
	for (size_t i = 0; i < all.n && rc == 0; i++)
		if (!*x->tenant || strcmp(x->tenant, all.v[i].name) == 0)
			export_put(x, "tenant", all.v[i].name, tenant_document(&all.v[i]));
	free(all.v);
	return rc;
}

static const struct apply_kind apply_kind_tenant = {
	.name = "tenant", .space = "tenant", .read = read_tenant, .store = store_tenant,
	.prune = prune_tenants, .export = export_tenants, .free_doc = free,
};

/* --- grant */

static const struct apply_kind apply_kind_grant;

struct grant_doc { char tenant[64]; struct grant_row *grant; };

static void free_grant(void *doc)
{
	struct grant_doc *g = doc;

	if (g)
		free(g->grant);
	free(g);
}

static int read_grant(struct apply *a, const json_t *doc, struct apply_item *item, struct err *err)
{
	struct grant_doc *g = item->doc = mem_zalloc(sizeof(*g));
	int rc = grant_read(doc, g->tenant, &g->grant, err);

	(void)a;
	if (rc == 0)
		item->name = mem_printf("%s/%s", g->tenant, grant_tool(g->grant));
	return rc;
}

static int store_grant(struct apply *a, const struct apply_item *item, struct err *err)
{
	struct grant_doc *g = item->doc;
	struct tenant_row t;
	enum row_stored what;
	json_t *before;
	int rc = tenant_row_find(a->db, g->tenant, &t, err);

	if (rc < 0) {
		err_at(err, "/tenant");
		return rc;
	}
	rc = grant_store(a->c, a->db, a->logs, &t, g->grant, &before, &what, err);
	if (rc < 0 || what == ADM_UNCHANGED)
		return rc;
	apply_id(&a->tenants, t.id);
	say(a, "grant", item->name, before, grant_document(t.name, g->grant));
	return 0;
}

/* Do the documents speak of this tenant? */
static bool is_named(const struct apply *a, const char *tenant)
{
	for (size_t i = 0; i < a->count; i++) {
		const struct grant_doc *g = a->item[i].doc;

		if (a->item[i].kind == &apply_kind_grant && strcmp(g->tenant, tenant) == 0)
			return true;
	}
	return apply_find(a, "tenant", tenant) != NULL;
}

struct grants_of { struct apply *a; struct export *x; const struct tenant_row *t; };

static int prune_grant(void *arg, const struct grant_row *g, struct err *err)
{
	const struct grants_of *of = arg;
	struct apply *a = of->a;
	char *name = mem_printf("%s/%s", of->t->name, grant_tool(g));
	int rc = 0;

	if (!apply_find(a, "grant", name)) {
		rc = grant_drop(a->c, a->db, a->logs, of->t->id, g, err);
		apply_id(&a->tenants, of->t->id);
		say(a, "grant", name, grant_document(of->t->name, g), NULL);
	}
	free(name);
	return rc;
}

static int prune_grants(struct apply *a, const struct apply_kind *kind, struct err *err)
{
	struct tenants all = { NULL, 0 };
	int rc = load_tenants(a->db, &all, err);

	(void)kind;
	for (size_t i = 0; i < all.n && rc == 0; i++)
		if (is_named(a, all.v[i].name))
			rc = grant_each(a->db, all.v[i].id, prune_grant,
					&(struct grants_of){ .a = a, .t = &all.v[i] }, err);
	free(all.v);
	return rc;
}

static int export_grant(void *arg, const struct grant_row *g, struct err *err)
{
	const struct grants_of *of = arg;

	(void)err;
	export_put(of->x, "grant", of->t->name, grant_document(of->t->name, g));
	return 0;
}

static int export_grants(struct export *x, const struct apply_kind *kind, struct err *err)
{
	struct tenants all = { NULL, 0 };
	int rc = load_tenants(x->db, &all, err);

	(void)kind;
	for (size_t i = 0; i < all.n && rc == 0; i++)
		if (!*x->tenant || strcmp(x->tenant, all.v[i].name) == 0)
			rc = grant_each(x->db, all.v[i].id, export_grant,
					&(struct grants_of){ .x = x, .t = &all.v[i] }, err);
	free(all.v);
	return rc;
}

static const struct apply_kind apply_kind_grant = {
	.name = "grant", .space = "grant", .read = read_grant, .store = store_grant,
	.prune = prune_grants, .export = export_grants, .free_doc = free_grant,
};

/* --- upstream; its tools are no documents: they come by upstream sync */

static void free_upstream(void *doc)
{
	upstream_doc_free(doc);
	free(doc);
}

static int read_upstream(struct apply *a, const json_t *doc, struct apply_item *item, struct err *err)
{
	struct upstream_doc *u = mem_zalloc(sizeof(*u));
	int rc = upstream_define(doc, u, err);

	(void)a;
	if (rc < 0) {
		free(u);
		return rc;
	}
	item->name = mem_strdup(u->name);
	item->doc = u;
	return 0;
}

/* text NULL: it is gone. */
static void note_use(struct apply *a, const char *name, const char *text, bool enabled)
{
	a->upstream = mem_realloc(a->upstream, (a->nupstreams + 1) * sizeof(*a->upstream));
	a->upstream[a->nupstreams++] = (struct apply_upstream){ mem_strdup(name), text ? mem_strdup(text) : NULL, enabled };
}

void apply_upstreams(const struct apply *a)
{
	struct upstreams *all = command_env(a->c)->upstreams;

	for (size_t i = 0; i < a->nupstreams; i++) {
		const struct apply_upstream *u = &a->upstream[i];
		struct err err;

		if (!u->text)
			upstreams_remove(all, u->name);
		else if (upstreams_set(all, u->text, u->enabled, &err) < 0)
			log_err(NULL, "upstream cannot be used upstream=%s where=%s why=\"%s\"", u->name, err.where, err.msg);
	}
}

void apply_upstreams_fini(struct apply *a)
{
	while (a->nupstreams > 0) {
		free(a->upstream[--a->nupstreams].name);
		free(a->upstream[a->nupstreams].text);
	}
	free(a->upstream);
}

static int store_upstream(struct apply *a, const struct apply_item *item, struct err *err)
{
	const struct upstream_doc *doc = item->doc;
	struct upstream_row u = { .definition = NULL };
	int rc = upstream_row_get(a->db, doc->name, &u, err);
	bool known = rc == 1, same = known && memcmp(u.digest, doc->digest, sizeof(u.digest)) == 0;

	if (rc >= 0 && !same)
		rc = known ? upstream_store(a->c, a->db, &u, doc, u.state, err) : upstream_insert(a->db, doc, err);
	if (rc == 0)
		rc = upstream_record(a->c, a->db, a->logs, known ? AUDIT_UPSTREAM_CHANGE : AUDIT_UPSTREAM_ADD, doc->name,
					 known ? u.digest : NULL, doc->digest, err);
	if (rc == 0) {
		note_use(a, doc->name, doc->text, !known || u.state == ADM_UPSTREAM_ENABLED);
		apply_say(a, "upstream", doc->name, u.definition, doc->text);
	}
	free(u.definition);
	return rc < 0 ? rc : 0;
}

/* Names and definitions of all. */
struct upstreams_found { char **name, **text; size_t n; };

static int load_upstreams(struct db *db, struct upstreams_found *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_UPSTREAM_ALL);
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		ret->name = mem_realloc(ret->name, (ret->n + 1) * sizeof(char *));
		ret->text = mem_realloc(ret->text, (ret->n + 1) * sizeof(char *));
		ret->name[ret->n] = db_col_dup(st, 1);
		ret->text[ret->n++] = db_col_dup(st, 3);
	}
	db_stmt_put(&st);
	return rc;
}

static void upstreams_found_fini(struct upstreams_found *f)
{
	while (f->n > 0) {
		free(f->name[--f->n]);
		free(f->text[f->n]);
	}
	free(f->name);
	free(f->text);
}

static int drop_one(struct apply *a, const char *name, struct err *err)
{
	struct upstream_row u;
	int64_t *tools = NULL;
	size_t n = 0;
	int rc = upstream_row_find(a->db, name, &u, err);

	if (rc < 0)
		return rc;
	rc = upstream_drop(a->c, a->db, a->logs, &u, &tools, &n, err);
	for (size_t i = 0; i < n; i++)
		apply_id(&a->tools, tools[i]);
	note_use(a, name, NULL, false);
	free(tools);
	free(u.definition);
	return rc;
}

static int prune_upstreams(struct apply *a, const struct apply_kind *kind, struct err *err)
{
	struct upstreams_found all = { NULL, NULL, 0 };
	int rc = load_upstreams(a->db, &all, err);

	for (size_t i = 0; i < all.n && rc == 0; i++) {
		if (apply_find(a, kind->space, all.name[i]))
			continue;
		rc = drop_one(a, all.name[i], err);
		if (rc == 0)
			apply_say(a, "upstream", all.name[i], all.text[i], NULL);
	}
	upstreams_found_fini(&all);
	return rc;
}

/* They are the store's: one tenant's export has none. */
static int export_upstreams(struct export *x, const struct apply_kind *kind, struct err *err)
{
	struct upstreams_found all = { NULL, NULL, 0 };
	int rc = *x->tenant ? 0 : load_upstreams(x->db, &all, err);

	for (size_t i = 0; i < all.n && rc == 0; i++) {
		json_t *doc = json_pack("{s:s}", "kind", "upstream"), *stored = NULL;

		if (jx_parse(all.text[i], strlen(all.text[i]), &stored, NULL) == 0)
			(void)json_object_update(doc, stored);
		json_decref(stored);
		export_put(x, kind->name, all.name[i], doc);
	}
	upstreams_found_fini(&all);
	return rc;
}

static const struct apply_kind apply_kind_upstream = {
	.name = "upstream", .space = "upstream", .read = read_upstream, .store = store_upstream, .prune = prune_upstreams,
	.export = export_upstreams, .free_doc = free_upstream,
};

/* --- all of them */

/* A kind stands behind those that it refers to: so they are stored, and removed the other way round. */
const struct apply_kind *const apply_kinds[APPLY_KINDS] = {
	&apply_kind_secret, &apply_kind_schema, &apply_kind_upstream, &apply_kind_tool, &apply_kind_prompt,
	&apply_kind_resource, &apply_kind_template, &apply_kind_tenant, &apply_kind_grant,
};
