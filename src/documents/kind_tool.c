/* Documents of kind schema, tool, prompt, resource and template, for apply (writer's thread) and export (pool).
 * All documents are looked at before a row is changed. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "db/db.h"
#include "json/json.h"
#include "registry/define.h"

#include "documents_int.h"

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

const struct apply_kind apply_kind_schema = {
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
	const struct apply_kind apply_kind_##symbol = { \
		.name = word, .space = names, .listed = number, .read = read_item, .store = store_item, .prune = prune_items, \
		.export = export_items, .free_doc = free_item, \
	}
LISTED(tool, "tool", "tool", REG_TOOL);
LISTED(prompt, "prompt", "prompt", REG_PROMPT);
LISTED(resource, "resource", "resource", REG_RESOURCE);
LISTED(template, "resourceTemplate", "resource", REG_TEMPLATE);
