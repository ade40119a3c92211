/* What differs between definitions: tool diff, and the changes that apply shows; tool revert, which takes one back. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "audit/audit.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "json/json.h"
#include "registry/define.h"

#include "adm_commands.h"
#include "adm_pending.h"
#include "admin_int.h"

static const char *sign_of(const json_t *a, const json_t *b)
{
	return !a ? "+" : !b ? "-" : "~";
}

static json_t *change_of(const char *pointer, const json_t *a, const json_t *b)
{
	json_t *change = json_object();

	(void)json_object_set_new(change, "sign", json_string(sign_of(a, b)));
	(void)json_object_set_new(change, "where", json_string(*pointer ? pointer : "/"));
	if (a)
		(void)json_object_set(change, "from", (json_t *)(uintptr_t)a);
	if (b)
		(void)json_object_set(change, "to", (json_t *)(uintptr_t)b);
	return change;
}

static void collect(void *arg, const char *pointer, const json_t *a, const json_t *b)
{
	(void)json_array_append_new(arg, change_of(pointer, a, b));
}

void adm_put_changes(struct adm_out *o, const char *name, const json_t *a, const json_t *b)
{
	json_t *changes = json_array();

	jx_diff(a, b, collect, changes);
	adm_put_json(o, name, changes);
	json_decref(changes);
}

/* --- versions of a tool */

struct versions_job {
	char tool[80];
	uint32_t from, to;              /* 0 = the one before, the one in force */
};

int adm_tool_versions_check(struct adm_call *c, struct err *err)
{
	struct versions_job *job = adm_priv(c, sizeof(*job));

	(void)err;
	adm_full_name(adm_noun(c), adm_text(c, adm_noun(c)), job->tool, sizeof(job->tool));
	job->from = adm_uint(c, "from", adm_uint(c, "version", 0));
	job->to = adm_uint(c, "to", 0);
	return 0;
}

/* The text of a version as a tree of this thread. */
static int read_version(struct db *db, const struct adm_tool *tool, int64_t version, json_t **ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_TOOL_VERSION);
	int rc;

	db_bind_i64(st, 1, tool->id);
	db_bind_i64(st, 2, version);
	rc = db_step(st, err);
	if (rc == 1) {
		size_t len;
		const char *text = db_col_text(st, 5, &len);

		rc = jx_parse(text, len, ret, err);
	} else if (rc == 0) {
		rc = err_set(err, ERR_NOT_FOUND, "", "version %lld of %s %s: not found", (long long)version,
			     adm_noun_of(tool->name), adm_bare(tool->name));
		err_hint(err, "toolcrib %s history %s lists them", adm_noun_of(tool->name), adm_bare(tool->name));
	}
	db_stmt_put(&st);
	return rc;
}

static void put_change(void *arg, const char *pointer, const json_t *a, const json_t *b)
{
	struct adm_out *o = arg;

	adm_row_begin(o);
	adm_put_text(o, "sign", sign_of(a, b));
	adm_put_text(o, "where", *pointer ? pointer : "/");
	if (a)
		adm_put_json(o, "from", a);
	if (b)
		adm_put_json(o, "to", b);
	adm_row_end(o);
}

int adm_tool_diff_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct versions_job *job = c->priv;
	json_t *a = NULL, *b = NULL;
	struct adm_tool tool;
	int64_t from, to;
	int rc = adm_find_tool(db, job->tool, &tool, err);

	(void)logs;
	if (rc < 0)
		return rc;
	to = job->to ? job->to : tool.version;
	from = job->from ? job->from : to - 1;
	if (from == 0)
		return err_set(err, ERR_NOT_FOUND, "", "%s %s has one version only", adm_noun_of(tool.name),
			       adm_bare(tool.name));
	rc = read_version(db, &tool, from, &a, err);
	if (rc == 0)
		rc = read_version(db, &tool, to, &b, err);
	if (rc == 0)
		jx_diff(a, b, put_change, c->out);
	json_decref(a);
	json_decref(b);
	return rc;
}

/* --- revert */

int adm_catalogue_load(struct db *db, struct catalogue **ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SCHEMA_CURRENT_ALL);
	struct catalogue *shared = catalogue_new(NULL);
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		size_t len, n;
		const char *uri = db_col_text(st, 0, &len), *text = db_col_text(st, 2, &n);
		const void *digest = db_col_blob(st, 1, &len);

		if (len == 32)
			catalogue_set(shared, uri, text, n, digest);
	}
	db_stmt_put(&st);
	if (rc < 0)
		catalogue_free(&shared);
	else
		*ret = shared;
	return rc;
}

/* By the rules of today: what it needs may be gone. */
static int define_again(const struct adm_call *c, struct db *db, const struct adm_tool *tool, json_t *doc,
			struct define_item *ret, struct err *err)
{
	enum reg_kind kind = (enum reg_kind)(tool->kind - 1);
	struct catalogue *shared = NULL;
	int rc = adm_catalogue_load(db, &shared, err);

	/* A name of resources may have been a template's. */
	if (kind == REG_RESOURCE || kind == REG_TEMPLATE)
		kind = json_object_get(doc, "uriTemplate") ? REG_TEMPLATE : REG_RESOURCE;
	json_object_set_new(doc, "kind", json_string(reg_kinds[kind].word));
	if (rc == 0)
		rc = define_item(doc, adm_bind(c), shared, ret, err);
	if (rc < 0 && err && *err->where == '/') {      /* there is no file to point into */
		(void)err_wrap(err, "%s", err->where + 1);
		err->where[0] = '\0';
	}
	catalogue_free(&shared);
	return rc;
}

int adm_define_stored(const struct adm_call *c, struct db *db, const struct adm_tool *tool, int64_t version,
		      struct define_item *ret, struct err *err)
{
	json_t *doc = NULL;
	int rc = read_version(db, tool, (uint32_t)version, &doc, err);

	if (rc == 0)
		rc = define_again(c, db, tool, doc, ret, err);
	json_decref(doc);
	return rc;
}

int adm_tool_revert_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct versions_job *job = c->priv;
	struct define_item def = { .text = NULL };
	struct adm_tool_stored done;
	struct adm_tool tool;
	int rc = adm_find_tool(db, job->tool, &tool, err);

	if (rc == 0)
		rc = adm_define_stored(c, db, &tool, job->from, &def, err);
	if (rc == 0)
		rc = adm_tool_store(c, db, logs, &def, true, &done, err);
	if (rc == 0 && done.what == ADM_UNCHANGED)
		rc = err_set(err, ERR_CONFLICT, "", "version %u of %s %s says what the one in force says", job->from,
			     adm_noun_of(tool.name), adm_bare(tool.name));
	if (rc == 0)
		rc = adm_changed_tools(c, db, &done.id, 1, err);
	if (rc == 0) {
		adm_row_begin(c->out);
		adm_put_text(c->out, "name", adm_bare(tool.name));
		adm_put_int(c->out, "version", done.version);
		adm_put_int(c->out, "as", job->from);
		adm_put_text(c->out, "waits", done.waits ? ", and waits for approval" : "");
		adm_put_hex(c->out, "digest", def.digest, sizeof(def.digest));
		adm_row_end(c->out);
	}
	define_free(&def);
	return rc;
}
