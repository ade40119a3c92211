/* What differs between definitions: tool diff, and the changes that apply shows; tool revert, which takes one back. */
#include "config.h"
#include "rows.h"

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

static int adm_catalogue_load(struct db *db, struct catalogue **ret, struct err *err)
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

/* --- rows of the command table */

static const struct adm_arg tool_diff_args[] = {
	WORD("tool", "TOOL", COMPLETE_TOOL, "Name of the tool."),
	VERSION_MAYBE("from", "The older version; default: the one before."),
	VERSION_MAYBE("to", "The newer version; default: the one in force."), ARG_END };
static const struct adm_arg tool_revert_args[] = {
	WORD("tool", "TOOL", COMPLETE_TOOL, "Name of the tool."),
	{ "version", "VERSION", ARG_UINT, false, true, false, COMPLETE_NONE, "The version to take back." }, ARG_END };
#define PENDING_TOOL WORD("tool", "TOOL", COMPLETE_TOOL, "Its name; prompts and resources with prompt: or resource: in front.")
static const struct adm_arg approve_args[] = {
	PENDING_TOOL, NEED("version", "N", ARG_UINT, COMPLETE_NONE, "The version that was looked at, from tool pending."), ARG_END };
static const struct adm_arg reject_args[] = {
	PENDING_TOOL, OPT("version", "N", ARG_UINT, COMPLETE_NONE, "Only if it is this version that waits."), ARG_END };
static const struct adm_arg versions_policy_args[] = {
	WORD("policy", "required|free", COMPLETE_NONE, "Whether they wait, or are shown at once."), ARG_END };
static const struct adm_column pending_cols[] = {
	COL("name", "NAME"), COL("version", "VERSION"), COL("in_force", "IN FORCE"), COL("actor", "MADE BY"), COL_AT("since", "SINCE"),
	COL_END };
static const struct adm_column drift_cols[] = {
	COL("name", "NAME"), COL("state", "STATE"), COL("what", "WHAT"), COL("note", "NOTE"), COL_END };

const struct adm_cmd version_commands[] = {
	{ .noun = "tool", .verb = "diff", .help = "Show what differs between two versions of a tool", .args = tool_diff_args,
	  .shape = ADM_DIFF, .role = ADM_READ, .where = ADM_ON_POOL,
	  .check = adm_tool_versions_check, .body = adm_tool_diff_body },
	{ .noun = "tool", .verb = "revert", .help = "Put an older version of a tool in force again",
	  .detail = "It becomes the next version, by the rules of today.  A disabled tool stays disabled.", .args = tool_revert_args,
	  .done = "tool %{name}: version %{version} says what version %{as} said%{waits}", .role = ADM_OWNER,
	  .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER, .check = adm_tool_versions_check, .body = adm_tool_revert_body },
	{ .noun = NULL },
};

const struct adm_cmd pending_commands[] = {
	{ .noun = "tool", .verb = "pending", .help = "List versions that wait for approval",
	  .detail = "Where approval versions says so, a new version of a tool, prompt or resource is shown to nobody before another "
		    "administrator than its author approves it; calls go on with the version in force.  tool diff shows what is "
		    "new.",
	  .args = no_args, .columns = pending_cols, .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL,
	  .body = adm_tool_pending_body },
	{ .noun = "tool", .verb = "approve", .help = "Put a version that waits in force",
	  .detail = "By another administrator than the one who made it.  Agents are told now.", .args = approve_args,
	  .done = "version %{version} of %{name} is in force", .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = adm_pending_check, .body = adm_tool_approve_body },
	{ .noun = "tool", .verb = "reject", .help = "Take a version that waits away",
	  .detail = "The one in force stays; where there is none, the name is removed.  The version stays in the history.",
	  .args = reject_args, .done = "version %{version} of %{name} rejected", .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = adm_pending_check, .body = adm_tool_reject_body },
	{ .noun = "tool", .verb = "drift", .help = "List what is not as it was approved",
	  .detail = "Versions that wait, and what of upstreams has changed, is gone, is new or was refused since it was accepted.  "
		    "Exit status 4 when there is something to say.",
	  .args = no_args, .columns = drift_cols, .shape = ADM_FINDINGS, .role = ADM_READ, .where = ADM_ON_POOL,
	  .body = adm_tool_drift_body },
	{ .noun = NULL },
};

const struct adm_cmd versions_policy_commands[] = {
	{ .noun = "approval", .verb = "versions", .help = "Say whether new versions of definitions wait for approval",
	  .detail = "Of tools, prompts and resources, of upstreams too: see tool pending.  Where they have to be approved, an upstream that "
		    "has tools here is not changed by one administrator either: see approval list.  Free at first.  Going back to "
		    "free needs a second administrator; what waits then goes on waiting.",
	  .args = versions_policy_args, .done = "new versions %{said}", .role = ADM_OWNER, .second = ADM_SECOND_ASKED,
	  .where = ADM_ON_WRITER, .check = adm_versions_policy_check, .body = adm_versions_policy_body },
	{ .noun = NULL },
};
