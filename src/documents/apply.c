/* apply and export: the commands that bring the store to what files say, and write what it holds as such files.
 * apply: documents come in pieces; when all are there, gather() has a thread of the pool check each by itself, and
 * body() runs on the writer's thread and calls the kinds (kinds.c, tenants.c) in their order, in one transaction.
 * Everything is checked before anything is written, a dry run is the same transaction taken back, and a tenant's list
 * of tools changes at most once.  Of a document only the name is in memory.  export: body() runs on the pool. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "audit/audit.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "command/rows.h"
#include "db/db.h"
#include "ev/ev.h"
#include "json/json.h"
#include "mcp/mcp.h"
#include "registry/catalogue.h"
#include "remote/remote.h"

#include "documents/documents.h"

#include "documents_int.h"

/* What --prune removes without --prune-limit: so many objects, or such a share of those of its kinds, whichever is
 * more. */
#define PRUNE_OBJECTS 10
#define PRUNE_PERCENT 10

/* --- apply: reading */

static int by_id(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void once_each(struct apply_ids *ids)
{
	size_t n = 0;

	if (ids->n > 0)
		qsort(ids->v, ids->n, sizeof(*ids->v), by_id);
	for (size_t i = 0; i < ids->n; i++)
		if (n == 0 || ids->v[n - 1] != ids->v[i])
			ids->v[n++] = ids->v[i];
	ids->n = n;
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
	map_free(&a->spaces);
	map_free(&a->named);
	schema_set_fini(&a->schemas);
	catalogue_free(&a->shared);
	while (a->nupstreams > 0) {
		free(a->upstream[--a->nupstreams].name);
		free(a->upstream[a->nupstreams].text);
	}
	free(a->upstream);
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

/* Once to check it; what read() made of it is made again when it is stored. */
static int check_item(struct apply *a, const json_t *doc, struct err *err)
{
	struct apply_item *item = &a->item[a->count];
	int rc = find_kind(doc, &item->kind, err);

	if (rc < 0)
		return rc;
	a->count++;
	rc = item->kind->read(a, doc, item, err);
	if (rc < 0)
		return rc;
	if (!item->kind->keeps) {
		item->kind->free_doc(item->doc);
		item->doc = NULL;
	}
	if (!apply_name(a, item))
		rc = err_set(err, ERR_INVALID, "", "two documents define the %s %s", item->kind->space, item->name);
	(void)map_set_z(a->spaces, item->kind->space, item);
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
	struct apply *a = command_priv(c, sizeof(*a));

	c->free_priv = free_apply;
	a->c = c;
	a->dry_run = arg_flag(c, "dry-run");
	a->prune = arg_flag(c, "prune");
	a->names = map_new();
	a->spaces = map_new();
	a->named = map_new();
	a->shared = catalogue_copy(schema_shared(c));
	return read_prune_limit(c, a, err);
}

/* --- apply: checking, on a thread of the pool */

/* All of them first: what is listed may refer to any of them. */
static int check_schemas(struct apply *a, size_t n, struct err *err)
{
	json_t *documents = json_array();
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		json_t *doc = NULL;

		rc = command_document(a->c, i, &doc, err);
		(void)json_array_append_new(documents, rc == 0 && is_schema(doc) ? json_incref(doc) : json_null());
		json_decref(doc);
	}
	if (rc == 0)
		rc = schema_set_define(a->shared, documents, false, &a->schemas, err);
	json_decref(documents);
	return rc;
}

static void check_all(void *arg)
{
	struct apply *a = arg;
	size_t n = command_documents(a->c);
	int rc = check_schemas(a, n, &a->err);

	a->item = mem_calloc(n, sizeof(*a->item));
	for (size_t i = 0; i < n && rc == 0; i++) {
		json_t *doc = NULL;

		a->item[i].document = i;
		rc = command_document(a->c, i, &doc, &a->err);
		if (rc == 0)
			rc = check_item(a, doc, &a->err);
		if (rc < 0)
			err_at_document(&a->err, i);
		json_decref(doc);
	}
	a->wrong = rc < 0;
}

static void checked(void *arg)
{
	struct apply *a = arg;

	command_gathered(a->c, a->wrong ? &a->err : NULL);
}

static void apply_gather(struct command_call *c)
{
	struct apply *a = c->priv;
	int rc = ev_work(command_env(c)->loop, EV_LANE_READ, check_all, checked, a);

	if (rc == 0)
		return;
	(void)err_set(&a->err, (enum err_code)rc, "", "too much is being read; nothing was done");
	command_gathered(c, &a->err);
}

/* --- apply: what is said */

static bool prunes_too_much(const struct apply *a)
{
	uint64_t of = a->count + a->removed;            /* what is named is there by now */

	return a->removed > a->prune_most && 100 * a->removed > a->prune_percent * of;
}

static void put_summary(const struct apply *a)
{
	struct reply *o = a->c->out;
	bool none = a->added + a->changed + a->removed == 0;
	struct str text = STR_INIT;

	if (none)
		str_puts(&text, "nothing differs");
	else
		str_printf(&text, "%s%zu added, %zu changed, %zu removed", a->dry_run ? "would be: " : "", a->added, a->changed,
			   a->removed);
	if (a->breaking)
		str_printf(&text, "; %zu of them break%s callers", a->breaking, a->breaking == 1 ? "s" : "");
	if (a->waits)
		str_printf(&text, "; %zu wait%s for approval and %s not in force: see tool pending", a->waits,
			   a->waits == 1 ? "s" : "", a->waits == 1 ? "is" : "are");
	if (prunes_too_much(a))
		str_puts(&text, "; more is removed than --prune-limit lets pass");
	if (a->unsaid)
		str_printf(&text, "; %zu of them are not listed: the answer would be larger than admin.answer_max", a->unsaid);
	reply_row_begin(o);
	reply_text(o, "summary", str_text(&text));
	reply_int(o, "added", (int64_t)a->added);
	reply_int(o, "changed", (int64_t)a->changed);
	reply_int(o, "removed", (int64_t)a->removed);
	reply_int(o, "breaking", (int64_t)a->breaking);
	reply_int(o, "waiting", (int64_t)a->waits);
	reply_bool(o, "dry_run", a->dry_run);
	reply_row_end(o);
	str_fini(&text);
}

/* --- apply: one transaction */

static int store_item(struct apply *a, const struct apply_item *item, struct err *err)
{
	struct apply_item again = { .kind = item->kind, .document = item->document };
	json_t *doc = NULL;
	int rc;

	if (item->doc)
		return item->kind->store(a, item, err);
	rc = item->kind->same ? item->kind->same(a, item, err) : 0;
	if (rc != 0)
		return rc < 0 ? rc : 0;
	rc = command_document(a->c, item->document, &doc, err);
	if (rc == 0)
		rc = item->kind->read(a, doc, &again, err);
	json_decref(doc);
	if (rc == 0)
		rc = item->kind->store(a, &again, err);
	if (again.doc)
		item->kind->free_doc(again.doc);
	free(again.name);
	return rc;
}

static int store_all(struct apply *a, struct err *err)
{
	for (size_t k = 0; k < APPLY_KINDS; k++)
		for (size_t i = 0; i < a->count; i++) {
			int rc = a->item[i].kind == apply_kinds[k] ? store_item(a, &a->item[i], err) : 0;

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
		if (apply_kinds[k]->prune && map_get_z(a->spaces, apply_kinds[k]->space))
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
	int rc;

	once_each(&a->tools);
	once_each(&a->tenants);
	once_each(&a->out);
	rc = a->tools.n > 0 ? command_changed_tools(a->c, a->db, a->tools.v, a->tools.n, err) : 0;

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

static void use_upstreams(const struct apply *a)
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

static void apply_after(struct command_call *c)
{
	const struct apply *a = c->priv;

	if (a->dry_run)
		return;
	for (size_t i = 0; i < a->out.n; i++)
		people_end_tenant(c, a->out.v[i], &(struct mcp_ended){ 0 });
	use_upstreams(a);
}

/* --- rows of the command table */

static const struct command_arg apply_args[] = {
	{ "file", "PATH", ARG_FILE, true, true, true, COMPLETE_FILE,
		"YAML or JSON, or a folder with such files; - is standard input." },
	FLAG("dry-run", "Say what would be done and change nothing."),
	REFUSE_BREAKING,
	FLAG("prune", "Remove what the documents do not name, of each kind that they have."),
	OPT("prune-limit", "N|N%", ARG_TEXT, COMPLETE_NONE,
		"Let --prune remove so many objects, or such a share of those of its kinds; default: 10 objects or 10 %, whichever "
		"is more."), ARG_END };

const struct command apply_commands[] = {
	{ .noun = "apply", .help = "Bring the store to what files say",
	  .detail = "Documents of every kind, in any order and of any number, all of them or none.  What differs is shown: "
		    "+ added, ~ changed, - removed, ! waits for approval; when nothing does, nothing is changed.  "
		    "With --prune, what no document names is "
		    "removed, of each kind that the documents have any of; of grants, limits and levels, those of tenants "
		    "that the documents name; never secrets and periods of retention.  That needs a second administrator, "
		    "who is told what goes: see approval list.  When more goes than --prune-limit lets pass, nothing is "
		    "done.  Tools of upstreams stay: they come by upstream sync.  " BELOW_DETAIL,
	  .args = apply_args, .shape = ADM_DIFF, .destructive_with = "prune", .role = ADM_OWNER, .second = ADM_SECOND_ASKED,
	  .where = ADM_ON_WRITER,
	  .pieces = true, .check = apply_check, .gather = apply_gather, .body = apply_body, .after = apply_after },
	{ .noun = NULL },
};

/* --- export */

/* body() is asked once for each part of the answer.  The first time it has every kind write its own documents, in one
 * picture of the store: into the answer, and when they are more than a part of it into a nameless file beside the
 * store, of which the other times send what follows.  So neither memory nor the picture waits for a slow reader. */

static int export_all(struct export *x, struct err *err)
{
	struct tenant_row t;
	int rc = *x->tenant ? tenant_row_find(x->db, x->tenant, &t, err) : 0;

	if (rc == 0 && *x->tenant)
		x->tenant_id = t.id;
	for (size_t i = 0; i < APPLY_KINDS && rc == 0; i++)
		rc = apply_kinds[i]->export(x, apply_kinds[i], err);
	if (rc == 0)
		rc = export_end(x, err);
	x->written = true;
	return rc;
}

static int export_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct export *x = c->priv;
	int rc = 0;

	(void)logs;
	if (!x->written) {
		x->db = db;
		rc = db_txn_begin(db, false, err);      /* one picture of all of it */
		rc = rc < 0 ? rc : db_txn_end(db, export_all(x, err), err);
	}
	return rc == 0 && x->file ? export_part(x, err) : rc;
}

static void free_export(void *priv)
{
	struct export *x = priv;

	if (x->file)
		(void)fclose(x->file);          /* what it holds is wanted no more */
	free(x->store);
	free(x);
}

static int export_check(struct command_call *c, struct err *err)
{
	struct export *x = command_priv(c, sizeof(*x));

	(void)err;
	c->free_priv = free_export;
	x->c = c;
	x->store = mem_strdup(command_env(c)->store);
	arg_copy(c, "tenant", x->tenant, sizeof(x->tenant));
	return 0;
}

/* --- rows of the command table */

static const struct command_arg export_args[] = {
	OPT("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "Only this tenant, its grants, and what they show."),
	OPT("output", "DIR", ARG_PATH, COMPLETE_FILE, "Write a file for each into this folder; none may be there yet."),
	ARG_END };

const struct command export_commands[] = {
	{ .noun = "export", .help = "Write what the store holds as files for apply",
	  .detail = "Keys and tools of upstreams are left out.  Applying what was exported changes nothing.",
	  .args = export_args, .shape = ADM_DOCUMENTS, .stream = true, .role = ADM_READ, .where = ADM_ON_POOL,
	  .check = export_check, .body = export_body },
	{ .noun = NULL },
};
