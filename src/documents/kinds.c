/* What each kind of document is, for apply (read() on the pool, store() and prune() on the writer's thread) and export
 * (pool): secret, schema, upstream and what is listed to agents (tool, prompt, resource, resourceTemplate); what
 * tenants have is in tenants.c.  The order of apply_kinds[] is that in which apply stores them. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "audit/audit.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"
#include "json/json.h"
#include "json/yaml.h"
#include "registry/define.h"
#include "remote/remote.h"

#include "documents/documents.h"

#include "documents_int.h"

/* --- pages of own apps, which stand in files beside their documents (UI-06) */

/* What lies in the folder, or below it, and is led to by no link out of it.  free() it; NULL: err says why. */
static char *file_beside(const char *path, const char *name, struct err *err)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash ? mem_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : mem_strdup(".");
	char *file = path_join(folder, name), *root = realpath(folder, NULL), *found = realpath(file, NULL);
	size_t n = root ? strlen(root) : 0;
	char *ret = NULL;

	if (*name == '\0' || *name == '/')
		(void)err_set(err, ERR_INVALID, "/handler/file", "must be the name of a file beside the document");
	else if (!root || !found)
		(void)err_set(err, ERR_UNREACHABLE, "/handler/file", "%.200s: %s", file, strerror(errno));
	else if (strncmp(found, root, n) != 0 || (n > 1 && found[n] != '/'))
		(void)err_set(err, ERR_INVALID, "/handler/file", "%.200s lies outside of the document's folder", name);
	else
		ret = mem_strdup(found);
	free(found);
	free(root);
	free(file);
	free(folder);
	return ret;
}

static int read_beside(const char *path, const char *name, struct str *ret, struct err *err)
{
	char *file = file_beside(path, name, err);
	struct err why;

	if (!file)
		return err->code;
	int rc = path_read(file, DOCUMENT_FILE_MAX, ret, &why);
	free(file);
	if (rc < 0)
		return err_set(err, why.code, "/handler/file", "%.200s: %s", name, why.msg);
	if (ret->len == 0)
		return err_set(err, ERR_INVALID, "/handler/file", "%.200s is empty", name);
	if (!text_utf8_valid(ret->p, ret->len) || memchr(ret->p, '\0', ret->len))
		return err_set(err, ERR_INVALID, "/handler/file", "%.200s is not text in UTF-8", name);
	return 0;
}

static int take_file(const char *path, json_t *doc, struct err *err)
{
	json_t *handler = json_object_get(doc, "handler");
	const char *type = json_string_value(json_object_get(handler, "type")), *name = NULL;
	struct str text = STR_INIT;

	if (!type || strcmp(type, "static") != 0 || !json_object_get(handler, "file"))
		return 0;
	int rc = jx_get_string(handler, "/handler", "file", JX_REQUIRED, &name, err);
	if (rc == 0 && (json_object_get(handler, "text") || json_object_get(handler, "result")))
		rc = err_set(err, ERR_INVALID, "/handler/file", "a static handler has one of file, text and result");
	if (rc == 0 && strcmp(path, "-") == 0)
		rc = err_set(err, ERR_INVALID, "/handler/file", "a document from standard input has no folder beside which it lies");
	if (rc == 0)
		rc = read_beside(path, name, &text, err);
	if (rc == 0) {
		(void)json_object_del(handler, "file");
		json_object_set_new(handler, "text", json_stringn(text.p, text.len));
	}
	str_fini(&text);
	return rc;
}

int document_take_files(const char *path, const struct yaml_docs *docs, json_t *documents, struct err *err)
{
	char where[sizeof(err->where)];
	int rc = 0;

	for (size_t i = 0; i < yaml_count(docs) && rc == 0; i++) {
		(void)json_array_append(documents, yaml_root(docs, i));
		rc = take_file(path, yaml_root(docs, i), err);
		if (rc < 0) {
			yaml_where(docs, i, err->where, where, sizeof(where));
			memcpy(err->where, where, sizeof(where));
		}
	}
	return rc;
}

/* --- secret: {kind: secret, name: shop} says that one must be set; a value never stands in a file */

static int read_secret(struct apply *a, const json_t *doc, struct apply_item *item, struct err *err)
{
	const char *name = NULL;
	int rc = 0;

	(void)a;
	if (json_object_get(doc, "value")) {
		(void)err_set(err, ERR_INVALID, "/value", "a secret's value does not belong into a file");
		err_hint(err, "toolcrib secret set NAME reads it from standard input");
		return ERR_INVALID;
	}
	rc = document_only_keys(doc, "secret", "", err);
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

/* They are the store's: one tenant's export has none. */
static int export_secrets(struct export *x, const struct apply_kind *kind, struct err *err)
{
	struct db_stmt *st;
	int rc = 0;

	if (*x->tenant)
		return 0;
	st = db_stmt_get(x->db, SQL_SECRET_LIST);
	while (rc == 0 && (rc = db_step(st, err)) == 1) {
		char *name = db_col_dup(st, 0);

		rc = export_put(x, kind->name, name, json_pack("{s:s, s:s}", "kind", "secret", "name", name), err);
		free(name);
	}
	db_stmt_put(&st);
	return rc;
}

static const struct apply_kind apply_kind_secret = {
	.name = "secret", .space = "secret", .read = read_secret, .store = store_secret,
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

/* Columns name and definition of the rows of st, which is put, that no document names. */
static int load_gone(struct apply *a, const char *space, struct db_stmt *st, unsigned first, struct written *ret,
		     struct err *err)
{
	bool is_schema = strcmp(space, "schema") == 0;
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		char *name = db_col_dup(st, first);

		if (apply_find(a, space, is_schema ? name : tool_bare_name(name))) {
			free(name);
			continue;
		}
		ret->name = mem_realloc(ret->name, (ret->n + 1) * sizeof(char *));
		ret->text = mem_realloc(ret->text, (ret->n + 1) * sizeof(char *));
		ret->name[ret->n] = name;
		ret->text[ret->n++] = db_col_dup(st, first + 1);
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

/* A document for each row of st, which is put: columns name and definition, the first one is `first`. */
static int export_written(struct export *x, const char *kind, struct db_stmt *st, unsigned first, struct err *err)
{
	bool is_schema = strcmp(kind, "schema") == 0;
	int rc = 0;

	while (rc == 0 && (rc = db_step(st, err)) == 1) {
		char *name = db_col_dup(st, first), *text = db_col_dup(st, first + 1);

		rc = export_put(x, kind, is_schema ? name : tool_bare_name(name), document_of(kind, text), err);
		free(name);
		free(text);
	}
	db_stmt_put(&st);
	return rc;
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
	int rc = load_gone(a, kind->space, schemas_of(a->db, 0), 0, &w, err);

	if (rc == 0 && w.n > 0)
		rc = schema_set_remove(a->c, a->db, a->logs, (const char *const *)w.name, w.n, err);
	for (size_t i = 0; i < w.n && rc == 0; i++)
		apply_say(a, "schema", w.name[i], w.text[i], NULL);
	written_fini(&w);
	return rc;
}

static int export_schemas(struct export *x, const struct apply_kind *kind, struct err *err)
{
	return export_written(x, kind->name, schemas_of(x->db, x->tenant_id), 0, err);
}

static const struct apply_kind apply_kind_schema = {
	.name = "schema", .space = "schema", .keeps = true, .read = read_schema, .store = store_schema, .prune = prune_schemas,
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
	memcpy(item->digest, def->digest, sizeof(item->digest));
	return 0;
}

static void note_waits(struct apply *a, const struct apply_item *item, const char *full_name, int64_t version)
{
	char *said = mem_printf("version %lld waits for another administrator: toolcrib tool approve %s --version %lld",
				(long long)version, full_name, (long long)version);

	a->waits++;
	apply_note(a, "!", item->kind->name, item->name, version, said);
	free(said);
}

static int same_item(struct apply *a, const struct apply_item *item, struct err *err)
{
	struct tool_stored done;
	char full[REG_FULL_NAME_SIZE];
	int rc;

	tool_full_name(reg_kinds[item->kind->listed].noun, item->name, full, sizeof(full));
	rc = tool_is_same(a->db, full, item->digest, &done, err);
	if (rc == 1 && done.waits)
		note_waits(a, item, full, done.version);
	return rc;
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
	free(done.breaks);      /* apply_say() looks again, and says all of them */
	apply_id(&a->tools, done.id);
	if (done.what == ADM_CHANGED)
		rc = version_text(a->db, done.id, done.before, &before, err);
	if (rc == 0)
		apply_say(a, item->kind->name, item->name, before, def->text);
	if (rc == 0 && done.waits)
		note_waits(a, item, def->name, done.version);
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
	int rc = load_gone(a, kind->space, items_of(a->db, kind, 0), 1, &w, err);

	for (size_t i = 0; i < w.n && rc == 0; i++) {
		int64_t id;

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
	return export_written(x, kind->name, items_of(x->db, kind, x->tenant_id), 1, err);
}

#define LISTED(symbol, word, names, number) \
	static const struct apply_kind apply_kind_##symbol = { \
		.name = word, .space = names, \
		.listed = number, .read = read_item, .same = same_item, .store = store_item, .prune = prune_items, \
		.export = export_items, .free_doc = free_item, \
	}
LISTED(tool, "tool", "tool", REG_TOOL);
LISTED(prompt, "prompt", "prompt", REG_PROMPT);
LISTED(resource, "resource", "resource", REG_RESOURCE);
LISTED(template, "resourceTemplate", "resource", REG_TEMPLATE);

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
		rc = export_put(x, kind->name, all.name[i], doc, err);
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
	&apply_kind_limit, &apply_kind_level, &apply_kind_retention, &apply_kind_system, &apply_kind_inventory,
};
