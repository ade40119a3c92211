/* Versions of definitions.  Commands tool diff and revert, and the changes that apply shows; tool pending, approve,
 * reject, drift, and approval versions: where new versions have to be approved, one that waits is in nobody's list,
 * and calls go on with the one in force.  Bodies run on the pool where they read, else on the writer. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "audit/audit.h"
#include "audit/rows.h"
#include "audit/second.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "command/rows.h"
#include "db/db.h"
#include "json/json.h"
#include "registry/define.h"
#include "toolset/toolset.h"

#define META_POLICY "versions"          /* "required": a second administrator has to approve them */

int versions_wait(const struct command_call *c, struct db *db, bool *ret, struct err *err)
{
	struct audit_policy policy = { .one = false };
	int rc = approval_policy(c, db, &policy, err);

	*ret = policy.versions;
	return rc;
}

int pending_row_find(struct db *db, int64_t tool_id, struct pending_row *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_PENDING_FIND);
	size_t len = 0;
	int rc;

	db_bind_i64(st, 1, tool_id);
	rc = db_step(st, err);
	if (rc == 1) {
		const void *digest;

		*ret = (struct pending_row){ .version = db_col_i64(st, 0), .state = (int)db_col_i64(st, 1),
			.created_us = db_col_i64(st, 3) };
		(void)snprintf(ret->actor, sizeof(ret->actor), "%s", db_col_text(st, 2, NULL));
		digest = db_col_blob(st, 4, &len);
		if (len == sizeof(ret->digest))
			memcpy(ret->digest, digest, len);
	}
	db_stmt_put(&st);
	return rc;
}

int pending_drop(struct db *db, int64_t tool_id, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_PENDING_DELETE);

	db_bind_i64(st, 1, tool_id);
	return db_run(&st, err);
}

static void put_object(char ret[128], const struct tool_row *tool, int64_t version)
{
	(void)snprintf(ret, 128, "%s/%s@%" PRId64, tool_noun(tool->name), tool_bare_name(tool->name), version); /* fits */
}

int pending_put(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tool_row *tool,
		    const struct pending_row *p, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_PENDING_SET);
	char obj[128];
	int rc;

	db_bind_i64(st, 1, tool->id);
	db_bind_i64(st, 2, p->version);
	db_bind_i64(st, 3, p->state);
	db_bind_textz(st, 4, p->actor);
	db_bind_i64(st, 5, (int64_t)clock_wall_us());
	rc = db_run(&st, err);
	put_object(obj, tool, p->version);
	return rc < 0 ? rc : command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_APPROVAL_REQUEST, .obj = obj,
		.before = tool->version ? tool->digest : NULL, .after = p->digest }, err);
}

/* --- tool pending, drift */

static int tool_pending_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_PENDING_LIST);
	int rc;

	(void)logs;
	while ((rc = db_step(st, err)) == 1) {
		int64_t version = db_col_i64(st, 1), in_force = db_col_i64(st, 2);
		char name[REG_FULL_NAME_SIZE];
		size_t len = 0;
		const void *digest;

		(void)snprintf(name, sizeof(name), "%s", db_col_text(st, 0, NULL));
		reply_row_begin(c->out);
		reply_text(c->out, "name", name);
		reply_int(c->out, "version", version);
		if (in_force == version)
			reply_text(c->out, "in_force", NULL);
		else
			reply_int(c->out, "in_force", in_force);
		reply_text(c->out, "actor", db_col_text(st, 3, NULL));
		reply_time(c->out, "since", (uint64_t)db_col_i64(st, 4));
		digest = db_col_blob(st, 5, &len);
		reply_hex(c->out, "digest", digest, len);
		reply_row_end(c->out);
	}
	db_stmt_put(&st);
	return rc;
}

static int tool_drift_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	static const char *const members[] = { "name", "state", "what", "note" };
	struct db_stmt *st = db_stmt_get(db, SQL_PENDING_DRIFT);
	int rc;

	(void)logs;
	while ((rc = db_step(st, err)) == 1) {
		reply_row_begin(c->out);
		for (unsigned i = 0; i < NELEMS(members); i++) {
			const char *text = db_col_text(st, i, NULL);

			reply_text(c->out, members[i], *text ? text : NULL);
		}
		reply_row_end(c->out);
	}
	db_stmt_put(&st);
	return rc;
}

/* --- tool approve, reject */

static int find_waiting(const struct command_call *c, struct db *db, struct tool_row *ret_tool, struct pending_row *ret,
			struct err *err)
{
	uint32_t version = arg_uint(c, "version", 0);   /* 0: whichever waits */
	char name[REG_FULL_NAME_SIZE];
	uint64_t taken_us;
	int rc;

	tool_full_name(command_noun(c), arg_text(c, "tool"), name, sizeof(name));
	rc = tool_row_find(db, name, ret_tool, err);
	if (rc < 0)
		return rc;
	rc = pending_row_find(db, ret_tool->id, ret, err);
	if (rc == 1 && (!version || version == ret->version))
		return audit_row_check(db, AUDIT_ROW_PENDING, ret_tool->id, &taken_us, err);
	if (rc == 1)
		(void)err_set(err, ERR_CONFLICT, "version", "version %u of %s does not wait, but version %" PRId64, version, name,
			      ret->version);
	else if (rc == 0)
		(void)err_set(err, ERR_CONFLICT, "", "nothing of %s waits for approval", name);
	if (rc >= 0)
		err_hint(err, "toolcrib tool pending");
	return rc < 0 ? rc : ERR_CONFLICT;
}

/* Who made it, by the record: the row may say anybody. */
static int find_author(struct db *db, struct audit_logs *logs, const struct tool_row *tool, struct pending_row *p,
		       struct err *err)
{
	char obj[128], who[AUDIT_WHO_MAX], person[AUDIT_PERSON_MAX];
	int rc;

	put_object(obj, tool, p->version);
	rc = audit_second_author(logs, db, obj, p->digest, who, person, err);
	if (rc == 0) {
		(void)err_set(err, ERR_CONFLICT, "", "no record says who made version %" PRId64 " of %s", p->version, tool->name);
		err_hint(err, "reject it and add it again; what wrote it behind the log: toolcrib audit verify");
		return ERR_CONFLICT;
	}
	if (rc == 1)
		(void)snprintf(p->actor, sizeof(p->actor), "%.*s", (int)sizeof(p->actor) - 1, who);
	return rc < 0 ? rc : 0;
}

/* Who made it does not approve it, unless this crib has a single administrator. */
static int check_second(struct command_call *c, struct db *db, const struct pending_row *p,
			char approver[ACTOR_SIZE + 32], struct err *err)
{
	char who[ACTOR_SIZE];
	struct audit_policy policy;
	int rc = approval_policy(c, db, &policy, err);

	if (rc < 0)
		return rc;
	(void)actor_text(&c->who, who);
	rc = actor_check_other(c, p->actor, "made this version", "approve", err);
	if (rc < 0 && !policy.one)
		return rc;
	(void)snprintf(approver, ACTOR_SIZE + 32, "%s%s", who, rc < 0 ? " alone: approval policy one" : "");
	return 0;
}

/* breaks: what of it breaks callers, or NULL. */
static void put_decided(struct reply *o, const struct tool_row *tool, const struct pending_row *p, const char *breaks)
{
	char *said = mem_printf("%s%s", breaks ? "; " : "", breaks ? breaks : "");

	reply_row_begin(o);
	reply_text(o, "name", tool->name);
	reply_int(o, "version", p->version);
	reply_text(o, "actor", p->actor);
	reply_hex(o, "digest", p->digest, sizeof(p->digest));
	reply_text(o, "breaks", breaks);
	reply_text(o, "said", said);
	reply_row_end(o);
	free(said);
}

static int define_stored(const struct command_call *c, struct db *db, const struct tool_row *tool, int64_t version,
			 struct define_item *ret, struct err *err);

static int tool_approve_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	char approver[ACTOR_SIZE + 32] = "", obj[128];
	struct define_item def = { .text = NULL };
	char *breaks = NULL;
	struct pending_row p;
	struct tool_row tool;
	int rc = find_waiting(c, db, &tool, &p, err);

	if (rc == 0)
		rc = find_author(db, logs, &tool, &p, err);
	if (rc == 0)
		rc = check_second(c, db, &p, approver, err);
	if (rc == 0)            /* what it refers to may have gone since */
		rc = define_stored(c, db, &tool, p.version, &def, err);
	if (rc == 0 && memcmp(def.digest, p.digest, sizeof(p.digest)) != 0)
		rc = err_set(err, ERR_CONFLICT, "", "version %" PRId64 " of %s says something else by now; add it again", p.version,
			     tool.name);
	if (rc == 0 && tool.version != p.version)
		rc = version_breaks(db, &tool, tool.version, def.text, &breaks, err);
	define_free(&def);
	if (rc == 0)
		rc = tool_set_version(db, &tool, p.version, p.state, err);
	if (rc == 0)
		rc = pending_drop(db, tool.id, err);
	put_object(obj, &tool, p.version);
	const struct audit_field by = { AUDIT_TAG_APPROVER, approver, strlen(approver) };
	bool first = tool.version == p.version;

	if (rc == 0)
		rc = command_record(c, db, logs, &(struct command_record){ .obj = obj, .before = first ? NULL : tool.digest,
			.after = p.digest,
			.kind = strcmp(tool_noun(tool.name), "tool") == 0 ? AUDIT_TOOL_APPROVE : AUDIT_DEFINITION_CHANGE,
			.field = &by, .nfield = 1 }, err);
	if (rc == 0)
		rc = command_changed_tools(c, db, &tool.id, 1, err);
	if (rc == 0)
		put_decided(c->out, &tool, &p, breaks);
	free(breaks);
	return rc;
}

/* One that was never in force goes; else the one in force stays. */
static int tool_reject_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct pending_row p;
	struct tool_row tool;
	int64_t id = 0;
	char obj[128];
	int rc = find_waiting(c, db, &tool, &p, err);

	if (rc < 0)
		return rc;
	rc = pending_drop(db, tool.id, err);
	if (rc == 0 && tool.version == p.version)
		rc = tool_change_state(c, db, logs, tool.name, ADM_TOOL_REMOVED, &id, err);
	put_object(obj, &tool, p.version);
	if (rc == 0)
		rc = command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_ADMIN_CMD, .obj = obj, .after = p.digest },
			err);
	if (rc == 0)
		put_decided(c->out, &tool, &p, NULL);
	return rc;
}

/* --- approval versions */

static int versions_policy_check(struct command_call *c, struct err *err)
{
	const char *text = arg_text(c, "policy");

	if (strcmp(text, "required") != 0 && strcmp(text, "free") != 0)
		return err_set(err, ERR_INVALID, "policy", "it is required or free, not \"%.20s\"", text);
	return 0;
}

static int versions_policy_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const char *word = arg_text(c, "policy");
	bool required = strcmp(word, "required") == 0;
	struct audit_field by;
	struct db_stmt *st;
	char obj[40];
	bool now = false;
	int rc = versions_wait(c, db, &now, err);

	if (rc == 0 && now && !required)
		rc = approval_require(c, db, err);
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_META_SET_VALUE);
	db_bind_textz(st, 1, META_POLICY);
	db_bind_textz(st, 2, word);
	rc = db_run(&st, err);
	(void)snprintf(obj, sizeof(obj), "approval/versions/%s", word);
	if (rc == 0)
		rc = command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_POLICY_CHANGE, .obj = obj, .field = &by,
			.nfield = approval_field(c, &by) }, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_text(c->out, "policy", word);
	reply_text(c->out, "said", required ? "wait for a second administrator" : "are shown at once");
	reply_row_end(c->out);
	return 0;
}

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

static const char *break_text(bool certain)
{
	return certain ? "breaks callers: " : "perhaps breaks callers: ";
}

static void collect_break(void *arg, const char *pointer, bool certain, const char *why)
{
	char *text = mem_printf("%s%s", break_text(certain), why);

	(void)json_array_append_new(arg, json_pack("{s:s, s:s, s:s}", "sign", "!", "where", *pointer ? pointer : "/", "breaks",
						   text));
	free(text);
}

size_t put_changes(struct reply *o, const char *name, const json_t *a, const json_t *b)
{
	json_t *changes = json_array();
	size_t n;

	jx_diff(a, b, collect, changes);
	n = define_breaks(a, b, collect_break, changes);
	reply_json(o, name, changes);
	json_decref(changes);
	return n;
}

/* --- what of a version breaks callers */

struct breaks { struct str text; size_t n; };

static void note_break(void *arg, const char *pointer, bool certain, const char *why)
{
	struct breaks *b = arg;

	if (b->n++ == 0)
		str_printf(&b->text, "%s%s %s", break_text(certain), pointer, why);
}

static int read_version(struct db *db, const struct tool_row *tool, int64_t version, json_t **ret, struct err *err);

int version_breaks(struct db *db, const struct tool_row *tool, int64_t version, const char *now, char **ret,
		   struct err *err)
{
	struct breaks b = { .text = STR_INIT };
	json_t *old = NULL, *is = NULL;
	int rc = read_version(db, tool, version, &old, err);

	*ret = NULL;
	if (rc == 0)
		rc = jx_parse(now, strlen(now), &is, err);
	if (rc == 0 && define_breaks(old, is, note_break, &b) > 0) {
		if (b.n > 1)
			str_printf(&b.text, ", and %zu more: toolcrib %s diff %s", b.n - 1, tool_noun(tool->name),
				   tool_bare_name(tool->name));
		*ret = str_take(&b.text);
	}
	str_fini(&b.text);
	json_decref(old);
	json_decref(is);
	return rc;
}

/* --- versions of a tool */

static int no_version(const struct tool_row *tool, int64_t version, struct err *err)
{
	(void)err_set(err, ERR_NOT_FOUND, "", "version %lld of %s %s: not found", (long long)version, tool_noun(tool->name),
		      tool_bare_name(tool->name));
	err_hint(err, "toolcrib %s history %s lists them", tool_noun(tool->name), tool_bare_name(tool->name));
	return ERR_NOT_FOUND;
}

/* The text of a version as a tree of this thread. */
static int read_version(struct db *db, const struct tool_row *tool, int64_t version, json_t **ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_TOOL_VERSION);
	uint64_t taken_us;
	int rc;

	db_bind_i64(st, 1, tool->id);
	db_bind_i64(st, 2, version);
	rc = db_step(st, err);
	if (rc == 1)
		rc = version_check(db, tool, version, db_col_i64(st, 0), &taken_us, err);
	else if (rc == 0)
		rc = no_version(tool, version, err);
	if (rc == 0) {
		size_t len;
		const char *text = db_col_text(st, 5, &len);

		rc = jx_parse(text, len, ret, err);
	}
	db_stmt_put(&st);
	return rc;
}

static void put_change(void *arg, const char *pointer, const json_t *a, const json_t *b)
{
	struct reply *o = arg;

	reply_row_begin(o);
	reply_text(o, "sign", sign_of(a, b));
	reply_text(o, "where", *pointer ? pointer : "/");
	if (a)
		reply_json(o, "from", a);
	if (b)
		reply_json(o, "to", b);
	reply_row_end(o);
}

static void put_break(void *arg, const char *pointer, bool certain, const char *why)
{
	struct reply *o = arg;
	char *text = mem_printf("%s%s", break_text(certain), why);

	reply_row_begin(o);
	reply_text(o, "sign", "!");
	reply_text(o, "where", *pointer ? pointer : "/");
	reply_text(o, "breaks", text);
	reply_row_end(o);
	free(text);
}

/* Which two: what waits against what is in force, so that who approves sees all that becomes effective, whatever was
 * added and rejected in between; else the version in force against the one before.  0: none, all of *ret_to is new. */
static int choose_versions(const struct command_call *c, struct db *db, const struct tool_row *tool, int64_t *ret_from,
			   int64_t *ret_to, struct err *err)
{
	bool given = json_object_get(c->args, "from");
	int64_t to = arg_uint(c, "to", 0), from = arg_uint(c, "from", 0);
	struct pending_row p = { .version = 0 };
	int rc = pending_row_find(db, tool->id, &p, err);

	if (rc < 0)
		return rc;
	if (to == 0)
		to = rc == 1 && from != p.version ? p.version : tool->version;
	if (!given && rc == 1 && to == p.version)
		from = tool->version == p.version ? 0 : tool->version;
	else if (!given)
		from = to - 1;
	*ret_from = from;
	*ret_to = to;
	return 0;
}

int tool_diff_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	json_t *a = NULL, *b = NULL;
	struct tool_row tool;
	int64_t from = 0, to = 0;
	int rc = tool_asked(c, db, false, &tool, err);

	(void)logs;
	if (rc == 0)
		rc = choose_versions(c, db, &tool, &from, &to, err);
	if (rc == 0 && from == 0)
		a = json_object();
	else if (rc == 0)
		rc = read_version(db, &tool, from, &a, err);
	if (rc == 0)
		rc = read_version(db, &tool, to, &b, err);
	if (rc == 0) {
		jx_diff(a, b, put_change, c->out);
		(void)define_breaks(a, b, put_break, c->out);
	}
	json_decref(a);
	json_decref(b);
	return rc;
}

/* --- revert */

static int catalogue_of_rows(struct db *db, struct catalogue **ret, struct err *err)
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
static int define_again(const struct command_call *c, struct db *db, const struct tool_row *tool, json_t *doc,
			struct define_item *ret, struct err *err)
{
	enum reg_kind kind = (enum reg_kind)(tool->kind - 1);
	struct catalogue *shared = NULL;
	int rc = catalogue_of_rows(db, &shared, err);

	/* A name of resources may have been a template's. */
	if (kind == REG_RESOURCE || kind == REG_TEMPLATE)
		kind = json_object_get(doc, "uriTemplate") ? REG_TEMPLATE : REG_RESOURCE;
	json_object_set_new(doc, "kind", json_string(reg_kinds[kind].word));
	if (rc == 0)
		rc = define_item(doc, command_bind(c), shared, ret, err);
	if (rc < 0 && err && *err->where == '/') {      /* there is no file to point into */
		(void)err_wrap(err, "%s", err->where + 1);
		err->where[0] = '\0';
	}
	catalogue_free(&shared);
	return rc;
}

static int define_stored(const struct command_call *c, struct db *db, const struct tool_row *tool, int64_t version,
		      struct define_item *ret, struct err *err)
{
	json_t *doc = NULL;
	int rc = read_version(db, tool, (uint32_t)version, &doc, err);

	if (rc == 0)
		rc = define_again(c, db, tool, doc, ret, err);
	json_decref(doc);
	return rc;
}

int tool_revert_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	uint32_t version = arg_uint(c, "version", 0);
	struct define_item def = { .text = NULL };
	struct tool_stored done = { .breaks = NULL };
	char *waits;
	struct tool_row tool;
	int rc = tool_asked(c, db, false, &tool, err);

	if (rc == 0)
		rc = define_stored(c, db, &tool, version, &def, err);
	if (rc == 0)
		rc = tool_store(c, db, logs, &def, true, &done, err);
	if (rc == 0 && done.what == ADM_UNCHANGED)
		rc = err_set(err, ERR_CONFLICT, "", "version %u of %s %s says what the one in force says", version,
			     tool_noun(tool.name), tool_bare_name(tool.name));
	if (rc == 0)
		rc = command_changed_tools(c, db, &done.id, 1, err);
	if (rc == 0) {
		reply_row_begin(c->out);
		reply_text(c->out, "name", tool_bare_name(tool.name));
		reply_int(c->out, "version", done.version);
		reply_int(c->out, "as", version);
		waits = mem_printf("%s%s%s", done.waits ? ", and waits for approval" : "", done.breaks ? "; " : "",
				   done.breaks ? done.breaks : "");
		reply_text(c->out, "waits", waits);
		free(waits);
		reply_hex(c->out, "digest", def.digest, sizeof(def.digest));
		reply_row_end(c->out);
	}
	free(done.breaks);
	define_free(&def);
	return rc;
}

/* --- rows of the command table */

static const struct command_arg tool_diff_args[] = {
	WORD("tool", "TOOL", COMPLETE_TOOL, "Name of the tool."),
	DIFF_VERSIONS, TOOL_OF_TENANT, ARG_END };
static const struct command_arg tool_revert_args[] = {
	WORD("tool", "TOOL", COMPLETE_TOOL, "Name of the tool."),
	{ "version", "VERSION", ARG_UINT, false, true, false, COMPLETE_NONE, "The version to take back." }, ARG_END };
#define PENDING_TOOL WORD("tool", "TOOL", COMPLETE_TOOL, \
	"Its name; prompts and resources with prompt: or resource: in front.")
static const struct command_arg approve_args[] = {
	PENDING_TOOL, NEED("version", "N", ARG_UINT, COMPLETE_NONE, "The version that was looked at, from tool pending."),
	REASON_OPT, ARG_END };
static const struct command_arg reject_args[] = {
	PENDING_TOOL, OPT("version", "N", ARG_UINT, COMPLETE_NONE, "Only if it is this version that waits."),
	REASON_OPT, ARG_END };
static const struct command_arg versions_policy_args[] = {
	WORD("policy", "required|free", COMPLETE_NONE, "Whether they wait, or are shown at once."), ARG_END };
static const struct command_column pending_cols[] = {
	COL("name", "NAME"), COL("version", "VERSION"), COL("in_force", "IN FORCE"), COL("actor", "MADE BY"),
	COL_AT("since", "SINCE"),
	COL_END };
static const struct command_column drift_cols[] = {
	COL("name", "NAME"), COL("state", "STATE"), COL("what", "WHAT"), COL("note", "NOTE"), COL_END };

const struct command version_commands[] = {
	{ .noun = "tool", .verb = "diff", .help = "Show what differs between two versions of a tool",
	  .detail = DIFF_DETAIL, .args = tool_diff_args,
	  .shape = ADM_DIFF, .role = ADM_READ, .console = true, .seen = "tenant", .where = ADM_ON_POOL,
	  .body = tool_diff_body },
	{ .noun = "tool", .verb = "revert", .help = "Put an older version of a tool in force again",
	  .detail = "It becomes the next version, by the rules of today.  A disabled tool stays disabled.",
	  .args = tool_revert_args,
	  .done = "tool %{name}: version %{version} says what version %{as} said%{waits}", .role = ADM_OWNER,
	  .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER, .body = tool_revert_body },
	{ .noun = NULL },
};

const struct command pending_commands[] = {
	{ .noun = "tool", .verb = "pending", .help = "List versions that wait for approval",
	  .detail = "Where approval versions says so, a new version of a tool, prompt or resource is shown to nobody before "
		    "another "
		    "administrator than its author approves it; calls go on with the version in force.  tool diff shows what "
		    "would change.",
	  .args = no_args, .columns = pending_cols, .shape = ADM_TABLE, .role = ADM_READ, .console = true,
	  .where = ADM_ON_POOL,
	  .body = tool_pending_body },
	{ .noun = "tool", .verb = "approve", .help = "Put a version that waits in force",
	  .detail = "By another administrator than the one who made it.  Agents are told now.", .args = approve_args,
	  .done = "version %{version} of %{name} is in force%{said}", .role = ADM_AGREE, .console = true,
	  .where = ADM_ON_WRITER,
	  .check = command_reason_check, .body = tool_approve_body },
	{ .noun = "tool", .verb = "reject", .help = "Take a version that waits away",
	  .detail = "The one in force stays; where there is none, the name is removed.  The version stays in the history.",
	  .args = reject_args, .done = "version %{version} of %{name} rejected", .role = ADM_AGREE, .console = true,
	  .where = ADM_ON_WRITER,
	  .check = command_reason_check, .body = tool_reject_body },
	{ .noun = "tool", .verb = "drift", .help = "List what is not as it was approved",
	  .detail = "Versions that wait, and what of upstreams has changed, is gone, is new or was refused since it was "
		    "accepted.  "
		    "Exit status 4 when there is something to say.",
	  .args = no_args, .columns = drift_cols, .shape = ADM_FINDINGS, .role = ADM_READ, .console = true,
	  .where = ADM_ON_POOL,
	  .body = tool_drift_body },
	{ .noun = NULL },
};

const struct command versions_policy_commands[] = {
	{ .noun = "approval", .verb = "versions", .help = "Say whether new versions of definitions wait for approval",
	  .detail = "Of tools, prompts and resources, of upstreams too: see tool pending.  Where they have to be approved, "
		    "an upstream that "
		    "has tools here is not changed by one administrator either: see approval list.  Free at first.  Going back to "
		    "free needs a second administrator; what waits then goes on waiting.",
	  .args = versions_policy_args, .done = "new versions %{said}", .role = ADM_OWNER, .second = ADM_SECOND_ASKED,
	  .where = ADM_ON_WRITER, .check = versions_policy_check, .body = versions_policy_body },
	{ .noun = NULL },
};
