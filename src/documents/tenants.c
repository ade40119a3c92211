/* The kinds of documents about a tenant, for apply and export as in kinds.c: the tenant itself, its grants, limits
 * and levels, and how long its records are kept.  Their rows, and the records of what changes, are made by people and
 * toolset. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "audit/audit.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "json/json.h"
#include "tenant/tenant.h"

#include "inventory/inventory.h"

#include "documents/documents.h"

#include "documents_int.h"

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

static int read_limits(const json_t *doc, const char *kind, struct tenant_row *t, struct err *err)
{
	int64_t queue = 0, calls = 0;
	json_t *limits = NULL;
	int rc = jx_get_object(doc, "", "limits", JX_OPTIONAL, &limits, err);

	if (rc < 0 || !limits)
		return rc;
	rc = document_only_keys(limits, kind, "/limits", err);
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
	const char *level = NULL;
	json_t *box = NULL;
	int rc = jx_get_object(doc, "", "sandbox", JX_OPTIONAL, &box, err);

	if (rc < 0 || !box)
		return rc;
	rc = document_only_keys(box, "tenant", "/sandbox", err);
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
	struct tenant_row *t = mem_zalloc(sizeof(*t));
	const char *name = NULL, *title = NULL;
	bool suspended = false;
	int rc = document_only_keys(doc, "tenant", "", err);

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
		rc = read_limits(doc, "tenant", t, err);
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

struct going { struct apply *a; const struct tenant_row *t; };

static int note_grant(void *arg, const struct grant_row *g, struct err *err)
{
	const struct going *of = arg;
	char *name = mem_printf("%s/%s", of->t->name, grant_tool(g));

	(void)err;
	apply_note(of->a, "-", "grant", name, 0, "with its tenant");
	free(name);
	return 0;
}

/* Its grants and keys go with it. */
static int note_what_goes(struct apply *a, const struct tenant_row *t, struct err *err)
{
	struct db_stmt *st;
	int rc = grant_each(a->db, t->id, note_grant, &(struct going){ a, t }, err);

	st = db_stmt_get(a->db, SQL_ADMIN_KEY_LIST);
	db_bind_i64(st, 1, t->id);
	while (rc == 0 && (rc = db_step(st, err)) == 1) {
		char *accessor = db_col_dup(st, 4);
		char *said = mem_printf("of %s/%s, with its tenant", t->name, db_col_text(st, 3, NULL));

		if (db_col_i64(st, 8) == 0)     /* not revoked before */
			apply_note(a, "-", "key", accessor, 0, said);
		free(accessor);
		free(said);
		rc = 0;
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
		rc = note_what_goes(a, t, err);
		if (rc == 0)
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
			rc = export_put(x, "tenant", all.v[i].name, tenant_document(&all.v[i]), err);
	free(all.v);
	return rc;
}

const struct apply_kind apply_kind_tenant = {
	.name = "tenant", .space = "tenant", .read = read_tenant, .store = store_tenant,
	.prune = prune_tenants, .export = export_tenants, .free_doc = free,
};

/* --- grant */

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
	const json_t *limits = json_object_get(doc, "limits");
	int rc = document_only_keys(doc, "grant", "", err);

	if (rc == 0 && json_is_object(limits))
		rc = document_only_keys(limits, "grant", "/limits", err);
	if (rc == 0)
		rc = grant_read(doc, g->tenant, &g->grant, err);
	if (rc < 0)
		return rc;
	(void)map_set_z(a->named, g->tenant, a);
	item->name = mem_printf("%s/%s", g->tenant, grant_tool(g->grant));
	return 0;
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
	return map_get_z(a->named, tenant) || apply_find(a, "tenant", tenant);
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

	return export_put(of->x, "grant", of->t->name, grant_document(of->t->name, g), err);
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

const struct apply_kind apply_kind_grant = {
	.name = "grant", .space = "grant", .read = read_grant, .store = store_grant,
	.prune = prune_grants, .export = export_grants, .free_doc = free_grant,
};

/* --- limit: of a tool, a principal or a key of a tenant; level: how much of calls is kept */

static const char *const limit_words[] = { [TENANT_SCOPE_PRINCIPAL] = "principal", [TENANT_SCOPE_KEY] = "key",
	[TENANT_SCOPE_TOOL] = "tool" };

struct limit_doc { struct limit_of of; struct tenant_limits set; };

static char *limit_name(const struct limit_of *of)
{
	return mem_printf("%s/%s/%s", of->tenant, limit_words[of->scope], of->name);
}

static int read_limit(struct apply *a, const json_t *doc, struct apply_item *item, struct err *err)
{
	struct limit_doc *l = item->doc = mem_zalloc(sizeof(*l));
	struct tenant_row t = { .concurrency = 0 };
	const char *tenant = NULL, *name = NULL;
	unsigned named = 0;
	int rc = document_only_keys(doc, "limit", "", err);

	if (rc == 0)
		rc = jx_get_string(doc, "", "tenant", JX_REQUIRED, &tenant, err);
	for (unsigned i = TENANT_SCOPE_PRINCIPAL; i < NELEMS(limit_words) && rc == 0; i++) {
		const char *found = NULL;

		rc = jx_get_string(doc, "", limit_words[i], JX_OPTIONAL, &found, err);
		if (!found)
			continue;
		named++;
		name = found;
		l->of.scope = (enum tenant_scope)i;
	}
	if (rc == 0 && named != 1)
		rc = err_set(err, ERR_INVALID, "", "whose limits? Name a tool, a principal or a key, one of them");
	if (rc == 0)
		rc = read_limits(doc, "limit", &t, err);
	if (rc == 0 && l->of.scope == TENANT_SCOPE_TOOL && t.more.requests.count)
		rc = err_set(err, ERR_INVALID, "/limits/requests", "a tool has no requests but calls: use rate");
	if (rc < 0)
		return rc;
	l->set = t.more;
	l->set.concurrency = (uint32_t)t.concurrency;
	l->set.rate = t.rate;
	(void)snprintf(l->of.tenant, sizeof(l->of.tenant), "%s", tenant);
	(void)snprintf(l->of.name, sizeof(l->of.name), "%s", name);
	(void)map_set_z(a->named, l->of.tenant, a);
	item->name = limit_name(&l->of);
	return 0;
}

static json_t *limit_document(const struct limit_of *of, const struct tenant_limits *set)
{
	struct tenant_row t = { .concurrency = set->concurrency, .rate = set->rate, .more = *set };
	json_t *doc = json_pack("{s:s, s:s, s:s}", "kind", "limit", "tenant", of->tenant, limit_words[of->scope], of->name);

	put_limits(doc, &t);
	return doc;
}

static int store_limits(struct apply *a, const struct limit_of *of, const struct tenant_limits *set, struct err *err)
{
	static const struct tenant_limits none;
	struct tenant_limits before;
	int64_t tenant_id = 0;
	char *name = limit_name(of);
	int rc = limit_store(a->c, a->db, a->logs, of, set, &before, &tenant_id, err);

	if (rc == ERR_NOT_FOUND && of->scope != TENANT_SCOPE_TOOL && tenant_id) {
		apply_note(a, "!", "limit", name, 0, "left out: there is none such here");
		rc = 0;
	} else if (rc == 1) {
		apply_id(&a->tenants, tenant_id);
		say(a, "limit", name, limit_same(&before, &none) ? NULL : limit_document(of, &before),
		    limit_same(set, &none) ? NULL : limit_document(of, set));
	}
	free(name);
	return rc < 0 ? rc : 0;
}

static int store_limit(struct apply *a, const struct apply_item *item, struct err *err)
{
	const struct limit_doc *l = item->doc;

	return store_limits(a, &l->of, &l->set, err);
}

struct tenants_of { struct apply *a; struct export *x; };

static int prune_limit(void *arg, const struct limit_of *of, const struct tenant_limits *set, struct err *err)
{
	static const struct tenant_limits none;
	struct apply *a = ((struct tenants_of *)arg)->a;
	char *name = limit_name(of);
	int rc = apply_find(a, "limit", name) ? 0 : store_limits(a, of, &none, err);

	(void)set;
	free(name);
	return rc;
}

static int export_limit(void *arg, const struct limit_of *of, const struct tenant_limits *set, struct err *err)
{
	return export_put(((struct tenants_of *)arg)->x, "limit", of->tenant, limit_document(of, set), err);
}

static int read_level(struct apply *a, const json_t *doc, struct apply_item *item, struct err *err)
{
	struct level_of *l = item->doc = mem_zalloc(sizeof(*l));
	const char *tenant = NULL, *tool = NULL, *level = NULL;
	int rc = document_only_keys(doc, "level", "", err);

	if (rc == 0)
		rc = jx_get_string(doc, "", "tenant", JX_REQUIRED, &tenant, err);
	if (rc == 0)
		rc = jx_get_string(doc, "", "tool", JX_OPTIONAL, &tool, err);
	if (rc == 0)
		rc = jx_get_string(doc, "", "level", JX_REQUIRED, &level, err);
	if (rc == 0)
		rc = document_member(err, level_check(level, err));
	if (rc < 0)
		return rc;
	(void)snprintf(l->tenant, sizeof(l->tenant), "%s", tenant);
	(void)snprintf(l->tool, sizeof(l->tool), "%s", tool ? tool : "");
	(void)snprintf(l->level, sizeof(l->level), "%s", level);
	(void)map_set_z(a->named, l->tenant, a);
	item->name = mem_printf("%s%s%s", tenant, tool ? "/" : "", l->tool);
	return 0;
}

static json_t *level_document(const struct level_of *l, const char *level)
{
	json_t *doc = json_pack("{s:s, s:s}", "kind", "level", "tenant", l->tenant);

	if (*l->tool)
		(void)json_object_set_new(doc, "tool", json_string(l->tool));
	(void)json_object_set_new(doc, "level", json_string(level));
	return doc;
}

/* level "default": as the one above says. */
static int store_levels(struct apply *a, const struct level_of *l, struct err *err)
{
	char *name = mem_printf("%s%s%s", l->tenant, *l->tool ? "/" : "", l->tool);
	const char *before = NULL;
	int64_t tenant_id = 0;
	int rc = level_store(a->c, a->db, a->logs, l, &before, &tenant_id, err);

	if (rc == 1) {
		apply_id(&a->tenants, tenant_id);
		say(a, "level", name, before ? level_document(l, before) : NULL,
		    strcmp(l->level, "default") == 0 ? NULL : level_document(l, l->level));
	}
	free(name);
	return rc < 0 ? rc : 0;
}

static int store_level(struct apply *a, const struct apply_item *item, struct err *err)
{
	return store_levels(a, item->doc, err);
}

static int prune_level(void *arg, const struct level_of *l, struct err *err)
{
	struct apply *a = ((struct tenants_of *)arg)->a;
	char *name = mem_printf("%s%s%s", l->tenant, *l->tool ? "/" : "", l->tool);
	struct level_of gone = *l;
	int rc;

	(void)snprintf(gone.level, sizeof(gone.level), "default");
	rc = apply_find(a, "level", name) ? 0 : store_levels(a, &gone, err);
	free(name);
	return rc;
}

static int export_level(void *arg, const struct level_of *l, struct err *err)
{
	return export_put(((struct tenants_of *)arg)->x, "level", l->tenant, level_document(l, l->level), err);
}

/* Of each tenant that is meant: those that documents name, or the one that is exported. */
static int each_setting(struct tenants_of *of, const struct apply_kind *kind, struct err *err)
{
	bool levels = strcmp(kind->name, "level") == 0;
	struct tenants all = { NULL, 0 };
	int rc = load_tenants(of->a ? of->a->db : of->x->db, &all, err);

	for (size_t i = 0; i < all.n && rc == 0; i++) {
		const struct tenant_row *t = &all.v[i];

		if (of->a ? !is_named(of->a, t->name) : *of->x->tenant && strcmp(of->x->tenant, t->name) != 0)
			continue;
		if (levels)
			rc = level_each(of->a ? of->a->db : of->x->db, t, of->a ? prune_level : export_level, of, err);
		else
			rc = limit_each(of->a ? of->a->db : of->x->db, t, of->a ? prune_limit : export_limit, of, err);
	}
	free(all.v);
	return rc;
}

static int prune_settings(struct apply *a, const struct apply_kind *kind, struct err *err)
{
	return each_setting(&(struct tenants_of){ .a = a }, kind, err);
}

static int export_settings(struct export *x, const struct apply_kind *kind, struct err *err)
{
	return each_setting(&(struct tenants_of){ .x = x }, kind, err);
}

const struct apply_kind apply_kind_limit = {
	.name = "limit", .space = "limit", .read = read_limit, .store = store_limit, .prune = prune_settings,
	.export = export_settings, .free_doc = free,
};
const struct apply_kind apply_kind_level = {
	.name = "level", .space = "level", .read = read_level, .store = store_level, .prune = prune_settings,
	.export = export_settings, .free_doc = free,
};

/* --- retention: how long records are kept */

static int read_retention(struct apply *a, const json_t *doc, struct apply_item *item, struct err *err)
{
	struct retention_period *p = item->doc = mem_zalloc(sizeof(*p));
	const char *tenant = NULL;
	int rc = document_only_keys(doc, "retention", "", err);

	*p = (struct retention_period){ .min_days = -1, .max_days = -1 };
	if (rc == 0)
		rc = jx_get_string(doc, "", "tenant", JX_REQUIRED, &tenant, err);
	if (rc == 0)
		rc = jx_get_int(doc, "", "minDays", JX_REQUIRED, 0, RETENTION_DAYS_MAX, &p->min_days, err);
	if (rc == 0)
		rc = jx_get_int(doc, "", "maxDays", JX_OPTIONAL, 0, RETENTION_DAYS_MAX, &p->max_days, err);
	if (rc == 0 && (rc = retention_check(p->min_days, p->max_days, err)) < 0)
		err_at(err, "/maxDays");
	if (rc < 0)
		return rc;
	(void)map_set_z(a->named, tenant, a);
	item->name = mem_strdup(tenant);
	return 0;
}

static json_t *retention_document(const char *tenant, const struct retention_period *p)
{
	json_t *doc = json_pack("{s:s, s:s, s:I}", "kind", "retention", "tenant", tenant, "minDays", (json_int_t)p->min_days);

	if (p->max_days >= 0)
		(void)json_object_set_new(doc, "maxDays", json_integer(p->max_days));
	return doc;
}

static int store_retention(struct apply *a, const struct apply_item *item, struct err *err)
{
	const struct retention_period *want = item->doc;
	struct retention_period before;
	struct tenant_row t;
	int rc = tenant_row_find(a->db, item->name, &t, err);

	if (rc < 0) {
		err_at(err, "/tenant");
		return rc;
	}
	rc = retention_store(a->c, a->db, a->logs, &t, want, &before, err);
	if (rc == 1)
		say(a, "retention", t.name, before.min_days < 0 ? NULL : retention_document(t.name, &before),
		    retention_document(t.name, want));
	return rc < 0 ? rc : 0;
}

static int export_retention(struct export *x, const struct apply_kind *kind, struct err *err)
{
	struct tenants all = { NULL, 0 };
	int rc = load_tenants(x->db, &all, err);

	for (size_t i = 0; i < all.n && rc == 0; i++) {
		const struct tenant_row *t = &all.v[i];
		struct retention_period p;

		if (*x->tenant && strcmp(x->tenant, t->name) != 0)
			continue;
		rc = retention_now(x->db, t->id, &p, err);
		if (rc == 1)
			rc = export_put(x, kind->name, t->name, retention_document(t->name, &p), err);
	}
	free(all.v);
	return rc;
}

/* What was promised is not taken back by silence: there is no prune(). */
const struct apply_kind apply_kind_retention = {
	.name = "retention", .space = "retention", .read = read_retention, .store = store_retention,
	.export = export_retention, .free_doc = free,
};

/* --- system and inventory: what is said of AI systems, and of whatever there is */

static int get_texts(const json_t *doc, const char *const *names, size_t n, char **ret, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		const char *text = NULL;

		rc = jx_get_string(doc, "", names[i], JX_OPTIONAL, &text, err);
		ret[i] = rc == 0 && text && *text ? mem_strdup(text) : NULL;
	}
	return rc;
}

static void put_texts(json_t *doc, const char *const *names, size_t n, char *const *text)
{
	for (size_t i = 0; i < n; i++)
		if (text[i])
			(void)json_object_set_new(doc, names[i], json_string(text[i]));
}

/* err is of this member of the document, whatever it said before; NULL: of the one that it names. */
static int at_member(int rc, const char *member, struct err *err)
{
	char at[64];

	if (rc < 0 && err && (member || *err->where)) {
		(void)snprintf(at, sizeof(at), "/%.60s", member ? member : err->where);
		(void)snprintf(err->where, sizeof(err->where), "%s", at);
	}
	return rc;
}

static void free_system(void *doc)
{
	if (doc)
		inventory_system_fini(doc);
	free(doc);
}

static int read_system(struct apply *a, const json_t *doc, struct apply_item *item, struct err *err)
{
	struct inventory_system *s = mem_zalloc(sizeof(*s));
	const char *tenant = NULL, *name = NULL;
	char full[160], parts[2][64];
	int rc = document_only_keys(doc, "system", "", err);

	(void)a;
	if (rc == 0)
		rc = jx_get_string(doc, "", "tenant", JX_REQUIRED, &tenant, err);
	if (rc == 0)
		rc = jx_get_string(doc, "", "name", JX_REQUIRED, &name, err);
	if (rc == 0) {
		(void)snprintf(full, sizeof(full), "%.64s/%.64s", tenant, name);
		rc = at_member(arg_split(full, parts[0], parts[1], err), "name", err);
	}
	if (rc == 0)
		rc = get_texts(doc, inventory_system_texts, INVENTORY_SYSTEM_TEXTS, s->text, err);
	if (rc == 0)
		rc = at_member(inventory_system_check(s, err), NULL, err);
	if (rc < 0) {
		free_system(s);
		return rc;
	}
	item->name = mem_strdup(full);
	item->doc = s;
	return 0;
}

static json_t *system_document(const char *full, const struct inventory_system *s)
{
	const char *slash = strchr(full, '/');
	json_t *doc = json_pack("{s:s, s:s#, s:s}", "kind", "system", "tenant", full, (int)(slash - full), "name", slash + 1);

	put_texts(doc, inventory_system_texts, INVENTORY_SYSTEM_TEXTS, s->text);
	return doc;
}

static int store_system(struct apply *a, const struct apply_item *item, struct err *err)
{
	struct inventory_system said;
	struct inventory_before before;
	int rc = inventory_store_system(a->c, a->db, a->logs, item->name, item->doc, &said, &before, err);

	rc = at_member(rc, "tenant", err);
	if (rc == 1) {
		apply_id(&a->tenants, before.tenant);
		say(a, "system", item->name, before.there ? system_document(item->name, &said) : NULL,
		    system_document(item->name, item->doc));
	}
	inventory_system_fini(&said);
	return rc < 0 ? rc : 0;
}

static int export_system(void *arg, const char *name, const struct inventory_system *s, struct err *err)
{
	char *tenant = mem_strndup(name, strcspn(name, "/"));
	int rc = export_put(arg, "system", tenant, system_document(name, s), err);

	free(tenant);
	return rc;
}

static int export_systems(struct export *x, const struct apply_kind *kind, struct err *err)
{
	(void)kind;
	return inventory_each_system(x->db, x->tenant_id, export_system, x, err);
}

/* Records name it, and principals are it: there is no prune(). */
const struct apply_kind apply_kind_system = {
	.name = "system", .space = "system", .read = read_system, .store = store_system, .export = export_systems,
	.free_doc = free_system,
};

static void free_said(void *doc)
{
	if (doc)
		inventory_said_fini(doc);
	free(doc);
}

static int read_inventory(struct apply *a, const json_t *doc, struct apply_item *item, struct err *err)
{
	struct inventory_said *s = mem_zalloc(sizeof(*s));
	const char *subject = NULL;
	int rc = document_only_keys(doc, "inventory", "", err);

	(void)a;
	if (rc == 0)
		rc = jx_get_string(doc, "", "subject", JX_REQUIRED, &subject, err);
	if (rc == 0)
		rc = get_texts(doc, inventory_texts, INVENTORY_TEXTS, s->text, err);
	if (rc == 0)
		rc = jx_get_int(doc, "", "reviewDays", JX_OPTIONAL, 0, INVENTORY_DAYS_MAX, &s->days, err);
	if (rc == 0)
		rc = at_member(inventory_said_check(subject, s, err), NULL, err);
	if (rc < 0) {
		free_said(s);
		return rc;
	}
	item->name = mem_strdup(subject);
	item->doc = s;
	return 0;
}

static json_t *inventory_document(const char *subject, const struct inventory_said *s)
{
	json_t *doc = json_pack("{s:s, s:s}", "kind", "inventory", "subject", subject);

	put_texts(doc, inventory_texts, INVENTORY_TEXTS, s->text);
	if (s->days > 0)
		(void)json_object_set_new(doc, "reviewDays", json_integer(s->days));
	return doc;
}

static int store_inventory(struct apply *a, const struct apply_item *item, struct err *err)
{
	struct inventory_said said;
	struct inventory_before before;
	int rc = inventory_store(a->c, a->db, a->logs, item->name, item->doc, &said, &before, err);

	if (rc == ERR_NOT_FOUND && strncmp(item->name, "principal:", 10) == 0) {
		apply_note(a, "!", "inventory", item->name, 0, "is not there: what is said of it is left out");
		return 0;
	}
	rc = at_member(rc, "subject", err);
	if (rc == 1) {
		if (before.tool > 0)
			apply_id(&a->tools, before.tool);
		if (before.tenant > 0)
			apply_id(&a->tenants, before.tenant);
		say(a, "inventory", item->name, before.there ? inventory_document(item->name, &said) : NULL,
		    inventory_document(item->name, item->doc));
	}
	inventory_said_fini(&said);
	return rc < 0 ? rc : 0;
}

static int export_said(void *arg, const char *subject, const struct inventory_said *s, struct err *err)
{
	const char *name = strchr(subject, ':') + 1;
	const bool of_tenant = strncmp(subject, "tenant:", 7) == 0 ||
			       (strchr(name, '/') != NULL && strncmp(subject, "resource:", 9) != 0);
	char *file = of_tenant ? mem_strndup(name, strcspn(name, "/")) : mem_strdup("store");
	int rc = export_put(arg, "inventory", file, inventory_document(subject, s), err);

	free(file);
	return rc;
}

static int export_inventory(struct export *x, const struct apply_kind *kind, struct err *err)
{
	(void)kind;
	return inventory_each(x->db, x->tenant_id, export_said, x, err);
}

/* Who answers for something is not taken back by silence: there is no prune(). */
const struct apply_kind apply_kind_inventory = {
	.name = "inventory", .space = "inventory", .read = read_inventory, .store = store_inventory,
	.export = export_inventory, .free_doc = free_said,
};
