/* apply and export: the commands that bring the store to what files say, and write what it holds as such files.
 * apply: check() parses the documents on the loop; body() runs on the writer's thread and calls the kinds (kinds.c) in
 * their order, in one transaction.  Everything is checked before anything is written, a dry run is the same
 * transaction taken back, and a tenant's list of tools changes at most once.  export: body() runs on a thread of the
 * pool, and each kind writes its own documents. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "audit/audit.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "command/rows.h"
#include "db/db.h"
#include "json/json.h"
#include "mcp/mcp.h"

#include "documents_int.h"

/* --- export */

/* "schema/https_acme.example_address.yaml": names that any file system takes. */
static char *file_of(const char *kind, const char *name)
{
	char *file = mem_printf("%s/%s.yaml", kind, name);

	for (char *p = file + strlen(kind) + 1; *p; p++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-", *p))
			*p = '_';
	return file;
}

void export_put(struct export *x, const char *kind, const char *name, json_t *doc)
{
	char *file = file_of(kind, name);

	reply_row_begin(x->c->out);
	reply_text(x->c->out, "kind", kind);
	reply_text(x->c->out, "name", name);
	reply_text(x->c->out, "file", file);
	reply_json(x->c->out, "document", doc);
	reply_row_end(x->c->out);
	free(file);
	json_decref(doc);
}

static int export_all(struct export *x, struct err *err)
{
	struct tenant_row t;
	int rc = *x->tenant ? tenant_row_find(x->db, x->tenant, &t, err) : 0;

	if (rc == 0 && *x->tenant)
		x->tenant_id = t.id;
	for (size_t i = 0; i < APPLY_KINDS && rc == 0; i++)
		rc = apply_kinds[i]->export(x, apply_kinds[i], err);
	return rc;
}

static int export_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct export x = { .c = c, .db = db };
	int rc = db_txn_begin(db, false, err);          /* one picture of all of it */

	(void)logs;
	arg_copy(c, "tenant", x.tenant, sizeof(x.tenant));
	return rc < 0 ? rc : db_txn_end(db, export_all(&x, err), err);
}

/* --- rows of the command table */

static const struct command_arg export_args[] = {
	OPT("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "Only this tenant, its grants, and what they show."),
	OPT("output", "DIR", ARG_PATH, COMPLETE_FILE, "Write a file for each into this folder; none may be there yet."),
	ARG_END };

const struct command export_commands[] = {
	{ .noun = "export", .help = "Write what the store holds as files for apply",
	  .detail = "Keys and tools of upstreams are left out.  Applying what was exported changes nothing.",
	  .args = export_args, .shape = ADM_DOCUMENTS, .role = ADM_READ, .where = ADM_ON_POOL,
	   .body = export_body },
	{ .noun = NULL },
};

#define DOCUMENTS_MAX 10000
/* What --prune removes without --prune-limit: so many objects, or such a share of those of its kinds, whichever is
 * more. */
#define PRUNE_OBJECTS 10
#define PRUNE_PERCENT 10

/* --- apply: reading */

void apply_id(struct apply_ids *ids, int64_t id)
{
	for (size_t i = 0; i < ids->n; i++)
		if (ids->v[i] == id)
			return;
	ids->v = mem_realloc(ids->v, (ids->n + 1) * sizeof(*ids->v));
	ids->v[ids->n++] = id;
}

static void free_apply(void *priv)
{
	struct apply *a = priv;

	for (size_t i = 0; i < a->count; i++) {
		if (a->item[i].doc)
			a->item[i].kind->free_doc(a->item[i].doc);
		free(a->item[i].name);
	}
	for (size_t i = 0; a->replaced && i < a->schemas.count; i++)
		free(a->replaced[i]);
	free(a->replaced);
	free(a->stored);
	free(a->item);
	map_free(&a->names);
	schema_set_fini(&a->schemas);
	apply_upstreams_fini(a);
	free(a->tools.v);
	free(a->tenants.v);
	free(a->out.v);
	str_fini(&a->gone);
	free(a);
}

static int find_kind(const json_t *doc, const struct apply_kind **ret, struct err *err)
{
	const char *name = is_schema(doc) ? "schema" : "tool", *near, *names[APPLY_KINDS];
	struct str all = STR_INIT;
	int rc = json_is_object(doc) ? jx_get_string(doc, "", "kind", JX_OPTIONAL, &name, err) :
		 err_set(err, ERR_INVALID, "", "a document must be an object, is %s", jx_type_name(doc));

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < APPLY_KINDS; i++) {
		names[i] = apply_kinds[i]->name;
		str_printf(&all, "%s%s", i > 0 ? ", " : "", names[i]);
		if (strcmp(name, names[i]) == 0)
			*ret = apply_kinds[i];
	}
	if (!*ret) {
		rc = err_set(err, ERR_INVALID, "/kind", "documents of kind %.40s are not known", name);
		near = text_nearest(name, names, NELEMS(names));
		if (near)
			err_hint(err, "did you mean %s?", near);
		else
			err_hint(err, "kinds are %s", str_text(&all));
	}
	str_fini(&all);
	return rc;
}

static char *full_name(const char *space, const char *name)
{
	return mem_printf("%s/%s", space, name);
}

const struct apply_item *apply_find(const struct apply *a, const char *space, const char *name)
{
	char *full = full_name(space, name);
	const struct apply_item *item = map_get_z(a->names, full);

	free(full);
	return item;
}

static bool has_space(const struct apply *a, const char *space)
{
	for (size_t i = 0; i < a->count; i++)
		if (strcmp(a->item[i].kind->space, space) == 0)
			return true;
	return false;
}

static int read_item(struct apply *a, const json_t *doc, struct err *err)
{
	struct apply_item *item = &a->item[a->count];
	char *full;
	int rc = find_kind(doc, &item->kind, err);

	if (rc < 0)
		return rc;
	a->count++;
	rc = item->kind->read(a, doc, item, err);
	if (rc < 0)
		return rc;
	full = full_name(item->kind->space, item->name);
	if (map_get_z(a->names, full))
		rc = err_set(err, ERR_INVALID, "", "two documents define the %s %s", item->kind->space, item->name);
	else
		(void)map_set_z(a->names, full, item);
	free(full);
	return rc;
}

/* "12" or "5%". */
static int read_prune_limit(const struct command_call *c, struct apply *a, struct err *err)
{
	const char *text = arg_text(c, "prune-limit");
	size_t len = text ? strlen(text) : 0;
	bool percent = len > 0 && text[len - 1] == '%';
	uint64_t n = 0;

	a->prune_most = PRUNE_OBJECTS;
	a->prune_percent = PRUNE_PERCENT;
	if (!text)
		return 0;
	if (text_u64(text, len - percent, &n) < 0 || n > (percent ? 100 : UINT32_MAX))
		return err_set(err, ERR_INVALID, "prune-limit", "it is a number of objects, or a share such as 5%%, not \"%.20s\"",
			       text);
	a->prune_most = percent ? 0 : n;
	a->prune_percent = percent ? n : 0;
	return 0;
}

static int apply_check(struct command_call *c, struct err *err)
{
	const json_t *documents = arg_json(c, "documents");
	struct apply *a = command_priv(c, sizeof(*a));
	size_t n = json_array_size(documents);
	int rc;

	c->free_priv = free_apply;
	a->c = c;
	a->dry_run = arg_flag(c, "dry-run");
	a->prune = arg_flag(c, "prune");
	a->names = map_new();
	if (read_prune_limit(c, a, err) < 0)
		return ERR_INVALID;
	if (n > DOCUMENTS_MAX)
		return err_set(err, ERR_LIMIT, "", "%zu documents, more than %d", n, DOCUMENTS_MAX);
	rc = schema_set_define(c, documents, false, &a->schemas, err);
	a->item = mem_calloc(n, sizeof(*a->item));
	for (size_t i = 0; i < n && rc == 0; i++) {
		a->item[i].document = i;
		rc = read_item(a, json_array_get(documents, i), err);
		if (rc < 0)
			err_at_document(err, i);
	}
	return rc;
}

/* --- apply: what is said */

static json_t *parse(const char *text)
{
	json_t *v = NULL;

	if (text && jx_parse(text, strlen(text), &v, NULL) < 0)
		return json_null();
	return v;
}

void apply_say(struct apply *a, const char *kind, const char *name, const char *before, const char *after)
{
	struct reply *o = a->c->out;
	char *what = mem_printf("%s %s", kind, name);

	a->added += !before;
	a->removed += !after;
	a->changed += before && after;
	if (!after)
		str_printf(&a->gone, "%s%s %s%s", a->gone.len ? ", " : "", kind, name,
			   strcmp(kind, "tenant") == 0 ? " with its keys" : "");
	reply_row_begin(o);
	reply_text(o, "sign", !before ? "+" : !after ? "-" : "~");
	reply_text(o, "kind", kind);
	reply_text(o, "name", name);
	reply_text(o, "what", what);
	free(what);
	if (before && after) {
		json_t *x = parse(before), *y = parse(after);

		put_changes(o, "changes", x, y);
		json_decref(x);
		json_decref(y);
	}
	reply_row_end(o);
}

static bool prunes_too_much(const struct apply *a)
{
	uint64_t of = a->count + a->removed;            /* what is named is there by now */

	return a->removed > a->prune_most && 100 * a->removed > a->prune_percent * of;
}

static void put_summary(const struct apply *a)
{
	struct reply *o = a->c->out;
	bool none = a->added + a->changed + a->removed == 0;
	char *text = none ? mem_strdup("nothing differs")
			  : mem_printf("%s%zu added, %zu changed, %zu removed%s", a->dry_run ? "would be: " : "", a->added,
				       a->changed, a->removed,
				       prunes_too_much(a) ? "; more is removed than --prune-limit lets pass" : "");

	reply_row_begin(o);
	reply_text(o, "summary", text);
	reply_int(o, "added", (int64_t)a->added);
	reply_int(o, "changed", (int64_t)a->changed);
	reply_int(o, "removed", (int64_t)a->removed);
	reply_bool(o, "dry_run", a->dry_run);
	reply_row_end(o);
	free(text);
}

/* --- apply: one transaction */

static int store_all(struct apply *a, struct err *err)
{
	for (size_t k = 0; k < APPLY_KINDS; k++)
		for (size_t i = 0; i < a->count; i++) {
			int rc = a->item[i].kind == apply_kinds[k] ? apply_kinds[k]->store(a, &a->item[i], err) : 0;

			if (rc < 0) {
				if (err && strncmp(err->where, "/documents/", 11) != 0)
					err_at_document(err, a->item[i].document);
				return rc;
			}
		}
	return 0;
}

static int prune_all(struct apply *a, struct err *err)
{
	int rc = 0;

	for (size_t k = APPLY_KINDS; k-- > 0 && rc == 0;)
		if (has_space(a, apply_kinds[k]->space))
			rc = apply_kinds[k]->prune(a, apply_kinds[k], err);
	return rc;
}

/* What --prune removes is bounded, and destroys: a second administrator agrees to all of it, by name (HARDENING
 * F-21). */
static int check_prune(struct apply *a, struct err *err)
{
	char *why;
	int rc;

	if (a->removed == 0 || a->dry_run)
		return 0;
	if (prunes_too_much(a)) {
		metric_inc(METRIC_admin_prunes_refused);
		(void)err_set(err, ERR_LIMIT, "",
			"--prune would remove %zu of %zu objects, more than --prune-limit lets pass: %" PRIu64
			      " objects or %" PRIu64 " %%", a->removed, a->count + a->removed, a->prune_most, a->prune_percent);
		err_hint(err, "look at them with --dry-run; if it is meant: --prune-limit %zu", a->removed);
		return ERR_LIMIT;
	}
	why = mem_printf("--prune removes %zu (%s)", a->removed, str_text(&a->gone));
	rc = approval_require_for(a->c, a->db, why, err);
	free(why);
	return rc;
}

/* Once, when all rows are written: no tenant is told of what lies between. */
static int collect_changes(struct apply *a, struct err *err)
{
	int rc = a->tools.n > 0 ? command_changed_tools(a->c, a->db, a->tools.v, a->tools.n, err) : 0;

	for (size_t i = 0; i < a->tenants.n && rc == 0; i++) {
		rc = command_changed_people(a->c, a->db, a->tenants.v[i], err);
		if (rc == 0)
			rc = command_changed_tenant(a->c, a->db, a->tenants.v[i], err);
	}
	return rc;
}

static int apply_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct apply *a = c->priv;
	int rc;

	a->db = db;
	a->logs = logs;
	c->undo = a->dry_run;
	rc = store_all(a, err);
	if (rc == 0 && a->prune)
		rc = prune_all(a, err);
	if (rc == 0 && a->prune)
		rc = check_prune(a, err);
	if (rc == 0)
		rc = collect_changes(a, err);
	if (rc < 0)
		return rc;
	put_summary(a);
	return 0;
}

static void apply_after(struct command_call *c)
{
	const struct apply *a = c->priv;

	if (a->dry_run)
		return;
	for (size_t i = 0; i < a->out.n; i++)
		people_end_tenant(c, a->out.v[i], &(struct mcp_ended){ 0 });
	apply_upstreams(a);
}

/* --- rows of the command table */

static const struct command_arg apply_args[] = {
	{ "file", "PATH", ARG_FILE, true, true, true, COMPLETE_FILE,
		"YAML or JSON, or a folder with such files; - is standard input." },
	FLAG("dry-run", "Say what would be done and change nothing."),
	FLAG("prune", "Remove what the documents do not name, of each kind that they have."),
	OPT("prune-limit", "N|N%", ARG_TEXT, COMPLETE_NONE,
		"Let --prune remove so many objects, or such a share of those of its kinds; default: 10 objects or 10 %, whichever "
		"is more."), ARG_END };

const struct command apply_commands[] = {
	{ .noun = "apply", .help = "Bring the store to what files say",
	  .detail = "Documents of every kind, in any order, all of them or none.  What differs is shown: + added, ~ "
		    "changed, - removed; when nothing does, nothing is changed.  With --prune, what no document names is "
		    "removed, of each kind that the documents have any of; of grants, those of tenants that the documents "
		    "name.  That needs a second administrator, who is told what goes: see approval list.  When more goes than "
		    "--prune-limit lets pass, nothing is done.  Tools of upstreams stay: they come by upstream sync.  " BELOW_DETAIL,
	  .args = apply_args, .shape = ADM_DIFF, .destructive_with = "prune", .role = ADM_OWNER, .second = ADM_SECOND_ASKED,
	  .where = ADM_ON_WRITER,
	  .check = apply_check, .body = apply_body, .after = apply_after },
	{ .noun = NULL },
};
