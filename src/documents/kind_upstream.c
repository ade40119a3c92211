/* Documents of kind upstream, for apply and export.  Its tools are no documents: they come by upstream sync. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "audit/audit.h"
#include "base/log.h"
#include "base/mem.h"
#include "db/db.h"
#include "json/json.h"
#include "remote/remote.h"

#include "documents_int.h"

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

const struct apply_kind apply_kind_upstream = {
	.name = "upstream", .space = "upstream", .read = read_upstream, .store = store_upstream, .prune = prune_upstreams,
	.export = export_upstreams, .free_doc = free_upstream,
};
