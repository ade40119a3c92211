/* Documents of kind tenant and grant, for apply (writer's thread) and export (pool).  What is left out is as if it
 * had never been set; but a tenant that is suspended stays so unless its document says `suspended: false`: no file
 * undoes by its silence what somebody did in an emergency. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "json/json.h"
#include "tenant/tenant.h"

#include "documents_int.h"

/* {kind: tenant, name: acme, title: Acme Corp, limits: {concurrency: 7, rate: 100/s, queue: 50, requests: 200/s,
 *  callsPerDay: 10000, bytesPerDay: 1GiB}, sandbox: {require: base+landlock:6}, suspended: true}
 * {kind: grant, tenant: acme, tool: get_*, limits: {rate: 10/s}}      as: weather, with a single tool */

#define TENANT_CONCURRENCY_MAX 100000
#define TENANT_QUEUE_MAX 100000
#define GRANT_CONCURRENCY_MAX 10000

/* --- limits */

static int read_rate(const json_t *limits, const char *name, struct text_rate *ret, struct err *err)
{
	const char *rate = NULL;
	char where[32];
	int rc = jx_get_string(limits, "/limits", name, JX_OPTIONAL, &rate, err);

	if (rc < 0 || !rate || text_rate(rate, ret) == 0)
		return rc;
	(void)snprintf(where, sizeof(where), "/limits/%s", name); /* fits */
	(void)err_set(err, ERR_INVALID, where, "%.40s is no rate", rate);
	err_hint(err, "write it as 10/s, 60/min, 100/h or 5000/day");
	return ERR_INVALID;
}

/* What tenants and grants have. */
static int read_limits(const json_t *limits, int64_t max, int64_t *ret_concurrency, struct text_rate *ret_rate,
		       struct err *err)
{
	int rc = jx_get_int(limits, "/limits", "concurrency", JX_OPTIONAL, 1, max, ret_concurrency, err);

	return rc < 0 ? rc : read_rate(limits, "rate", ret_rate, err);
}

static int read_grant_limits(const json_t *doc, struct grant_row *g, struct err *err)
{
	static const char *const known[] = { "concurrency", "rate" };
	int64_t concurrency = 0;
	json_t *limits = NULL;
	int rc = jx_get_object(doc, "", "limits", JX_OPTIONAL, &limits, err);

	if (rc < 0 || !limits)
		return rc;
	rc = jx_only(limits, "/limits", known, NELEMS(known), err);
	if (rc == 0)
		rc = read_limits(limits, GRANT_CONCURRENCY_MAX, &concurrency, &g->rate, err);
	g->concurrency = (uint32_t)concurrency;
	return rc;
}

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
		rc = read_limits(limits, TENANT_CONCURRENCY_MAX, &t->concurrency, &t->rate, err);
	if (rc == 0)
		rc = jx_get_int(limits, "/limits", "queue", JX_OPTIONAL, 1, TENANT_QUEUE_MAX, &queue, err);
	if (rc == 0)
		rc = read_rate(limits, "requests", &t->more.requests, err);
	if (rc == 0)
		rc = jx_get_int(limits, "/limits", "callsPerDay", JX_OPTIONAL, 1, UINT32_MAX, &calls, err);
	if (rc == 0)
		rc = read_size(limits, "bytesPerDay", &t->more.bytes_day, err);
	t->more.queue = (uint32_t)queue;
	t->more.calls_day = (uint64_t)calls;
	return rc;
}

static void put_rate(json_t *limits, const char *name, struct text_rate rate)
{
	char text[40];

	if (rate.count)
		(void)json_object_set_new(limits, name, json_string(text_format_rate(rate, text, sizeof(text))));
}

static void put_count(json_t *limits, const char *name, uint64_t n)
{
	if (n)
		(void)json_object_set_new(limits, name, json_integer((json_int_t)n));
}

static void put_limits(json_t *doc, int64_t concurrency, struct text_rate rate, const struct tenant_limits *more)
{
	json_t *limits = json_object();
	char bytes[32];

	put_count(limits, "concurrency", (uint64_t)concurrency);
	put_rate(limits, "rate", rate);
	if (more) {
		put_count(limits, "queue", more->queue);
		put_rate(limits, "requests", more->requests);
		put_count(limits, "callsPerDay", more->calls_day);
		(void)snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)more->bytes_day); /* fits */
		if (more->bytes_day)
			(void)json_object_set_new(limits, "bytesPerDay", json_string(bytes));
	}
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

/* Checks shared with the commands name an argument: here it is a member. */
static int at_member(struct err *err, int rc)
{
	if (rc < 0 && err && *err->where != '/')
		err_at(err, "/");
	return rc;
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
		rc = at_member(err, tenant_new_name(name, err));
	if (rc == 0)
		rc = jx_get_string(doc, "", "title", JX_OPTIONAL, &title, err);
	if (rc == 0 && title)
		rc = at_member(err, tenant_title(title, t->title, err));
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
	put_limits(doc, t->concurrency, t->rate, &t->more);
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

const struct apply_kind apply_kind_tenant = {
	.name = "tenant", .space = "tenant", .read = read_tenant, .store = store_tenant,
	.prune = prune_tenants, .export = export_tenants, .free_doc = free,
};

/* --- grant */

struct grant_doc { char tenant[64]; struct grant_row grant; };

static int read_grant(struct apply *a, const json_t *doc, struct apply_item *item, struct err *err)
{
	static const char *const known[] = { "kind", "tenant", "tool", "as", "limits" };
	struct grant_doc *g = mem_zalloc(sizeof(*g));
	const char *tenant = NULL, *tool = NULL, *as = NULL;
	int rc = jx_only(doc, "", known, NELEMS(known), err);

	(void)a;
	item->doc = g;
	if (rc == 0)
		rc = jx_get_string(doc, "", "tenant", JX_REQUIRED, &tenant, err);
	if (rc == 0 && !text_entity_name(tenant, strlen(tenant)))
		rc = err_set(err, ERR_INVALID, "/tenant", "\"%.80s\" is no name of a tenant", tenant);
	if (rc == 0)
		rc = jx_get_string(doc, "", "tool", JX_REQUIRED, &tool, err);
	if (rc == 0)
		rc = at_member(err, grant_glob(tool, g->grant.glob, err));
	if (rc == 0)
		rc = jx_get_string(doc, "", "as", JX_OPTIONAL, &as, err);
	if (rc == 0 && as)
		rc = at_member(err, grant_alias(as, tool, g->grant.alias, err));
	if (rc == 0)
		rc = read_grant_limits(doc, &g->grant, err);
	if (rc < 0)
		return rc;
	(void)snprintf(g->tenant, sizeof(g->tenant), "%s", tenant);
	item->name = mem_printf("%s/%s", tenant, tool);
	return 0;
}

static json_t *grant_document(const char *tenant, const struct grant_row *g)
{
	json_t *doc = json_pack("{s:s, s:s, s:s}", "kind", "grant", "tenant", tenant, "tool", g->glob);

	if (*g->alias)
		(void)json_object_set_new(doc, "as", json_string(g->alias));
	put_limits(doc, g->concurrency, g->rate, NULL);
	return doc;
}

static int store_grant(struct apply *a, const struct apply_item *item, struct err *err)
{
	struct grant_doc *g = item->doc;
	struct grant_row before;
	struct tenant_row t;
	enum row_stored what;
	int rc = tenant_row_find(a->db, g->tenant, &t, err);

	if (rc < 0) {
		err_at(err, "/tenant");
		return rc;
	}
	rc = grant_store(a->c, a->db, a->logs, t.id, &g->grant, &before, &what, err);
	if (rc < 0 || what == ADM_UNCHANGED)
		return rc;
	apply_id(&a->tenants, t.id);
	say(a, "grant", item->name, what == ADM_ADDED ? NULL : grant_document(t.name, &before),
		grant_document(t.name, &g->grant));
	return 0;
}

struct grants { struct grant_row *v; size_t n; };

static int load_grants(struct db *db, int64_t tenant_id, struct grants *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_GRANT_LIST);
	int rc;

	db_bind_i64(st, 1, tenant_id);
	while ((rc = db_step(st, err)) == 1) {
		ret->v = mem_realloc(ret->v, (ret->n + 1) * sizeof(*ret->v));
		grant_row_read(st, &ret->v[ret->n++]);
	}
	db_stmt_put(&st);
	return rc;
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

static int prune_tenant_grants(struct apply *a, const struct tenant_row *t, struct err *err)
{
	struct grants all = { NULL, 0 };
	int rc = load_grants(a->db, t->id, &all, err);

	for (size_t i = 0; i < all.n && rc == 0; i++) {
		char *name = mem_printf("%s/%s", t->name, all.v[i].glob);

		if (!apply_find(a, "grant", name)) {
			rc = grant_drop(a->c, a->db, a->logs, t->id, &all.v[i], err);
			apply_id(&a->tenants, t->id);
			say(a, "grant", name, grant_document(t->name, &all.v[i]), NULL);
		}
		free(name);
	}
	free(all.v);
	return rc;
}

static int prune_grants(struct apply *a, const struct apply_kind *kind, struct err *err)
{
	struct tenants all = { NULL, 0 };
	int rc = load_tenants(a->db, &all, err);

	(void)kind;
	for (size_t i = 0; i < all.n && rc == 0; i++)
		if (is_named(a, all.v[i].name))
			rc = prune_tenant_grants(a, &all.v[i], err);
	free(all.v);
	return rc;
}

static int export_grants(struct export *x, const struct apply_kind *kind, struct err *err)
{
	struct tenants all = { NULL, 0 };
	int rc = load_tenants(x->db, &all, err);

	(void)kind;
	for (size_t i = 0; i < all.n && rc == 0; i++) {
		struct grants grants = { NULL, 0 };

		if (*x->tenant && strcmp(x->tenant, all.v[i].name) != 0)
			continue;
		rc = load_grants(x->db, all.v[i].id, &grants, err);
		for (size_t k = 0; k < grants.n && rc == 0; k++)
			export_put(x, "grant", all.v[i].name, grant_document(all.v[i].name, &grants.v[k]));
		free(grants.v);
	}
	free(all.v);
	return rc;
}

const struct apply_kind apply_kind_grant = {
	.name = "grant", .space = "grant", .read = read_grant, .store = store_grant,
	.prune = prune_grants, .export = export_grants, .free_doc = free,
};
