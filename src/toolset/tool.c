/* Commands on tools, prompts and resources: add, list, show, enable, disable, remove, history.  check() of add
 * compiles the documents on the loop; the bodies store them on the writer, each version for ever, or read rows on
 * the pool. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <jansson.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "command/rows.h"
#include "db/db.h"
#include "json/json.h"
#include "registry/define.h"
#include "toolset/toolset.h"

/* --- add */

struct add_job {
	struct define_item *def; size_t count;
};

static void free_add(void *priv)
{
	struct add_job *job = priv;

	for (size_t i = 0; i < job->count; i++)
		define_free(&job->def[i]);
	free(job->def);
	free(job);
}

int toolset_define(const struct command_call *c, const json_t *documents, size_t i, const struct catalogue *shared,
	       struct define_item *ret, struct err *err)
{
	int rc = define_item(json_array_get(documents, i), command_bind(c), shared, ret, err);

	if (rc < 0)
		err_at_document(err, i);
	return rc;
}

/* Each noun stores its own kinds, so that nobody grants what he did not mean to. */
static int check_noun(const struct command_call *c, const struct define_item *def, size_t i, struct err *err)
{
	const char *noun = tool_noun(def->name);
	char at[40];

	if (strcmp(noun, command_noun(c)) == 0)
		return 0;
	(void)snprintf(at, sizeof(at), "/documents/%zu/kind", i);
	(void)err_set(err, ERR_INVALID, at, "%s is a %s, not a %s", tool_bare_name(def->name), reg_kinds[def->kind].noun,
		command_noun(c));
	if (def->kind == REG_TOOL)
		err_hint(err, "write kind: %s, or use toolcrib tool add", command_noun(c));
	else
		err_hint(err, "use toolcrib %s add", noun);
	return ERR_INVALID;
}

static int tool_add_check(struct command_call *c, struct err *err)
{
	const json_t *documents = arg_json(c, "documents");
	size_t n = json_array_size(documents);
	struct add_job *job = command_priv(c, sizeof(*job));

	c->free_priv = free_add;
	job->def = mem_calloc(n, sizeof(*job->def));
	for (size_t i = 0; i < n; i++) {
		int rc = toolset_define(c, documents, i, schema_shared(c), &job->def[i], err);

		if (rc == 0) {
			job->count++;
			rc = check_noun(c, &job->def[i], i, err);
		}
		if (rc < 0)
			return rc;
		for (size_t k = 0; k < i; k++) {
			char at[40];

			if (strcmp(job->def[k].name, job->def[i].name) != 0)
				continue;
			(void)snprintf(at, sizeof(at), "/documents/%zu/name", i);
			return err_set(err, ERR_INVALID, at, "two documents define the %s %s", command_noun(c),
				       tool_bare_name(job->def[i].name));
		}
	}
	return 0;
}

static int next_version(struct db *db, int64_t tool_id, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_TOOL_LAST_VERSION);
	int rc;

	db_bind_i64(st, 1, tool_id);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = db_col_i64(st, 0) + 1;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int insert_tool(struct db *db, const char *name, struct tool_row *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TOOL_INSERT);
	int rc;

	db_bind_textz(st, 1, name);
	db_bind_i64(st, 2, 1);
	db_bind_i64(st, 3, (int64_t)clock_wall_us());
	*ret = (struct tool_row){ .version = 1 };
	rc = db_run_id(&st, &ret->id, err);
	(void)snprintf(ret->name, sizeof(ret->name), "%s", name);
	return rc;
}

static int insert_version(struct db *db, const struct command_call *c, const struct define_item *def, int64_t tool_id,
			  int64_t version, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TOOL_INSERT_VERSION);
	char actor[ACTOR_SIZE];
	int64_t id;
	int rc;

	(void)actor_text(&c->who, actor);
	db_bind_i64(st, 1, tool_id);
	db_bind_i64(st, 2, version);
	db_bind_blob(st, 3, def->digest, sizeof(def->digest));
	db_bind_blob(st, 4, def->list_digest, sizeof(def->list_digest));
	db_bind_textz(st, 5, def->text);
	db_bind_textz(st, 6, actor);
	db_bind_i64(st, 7, (int64_t)clock_wall_us());
	db_bind_i64(st, 8, (int64_t)def->kind + 1);
	db_bind_textz(st, 9, def->uri);
	rc = db_run_id(&st, &id, err);
	return rc < 0 ? rc : schema_link_tool(db, id, &def->refs, err);
}

int tool_check_allowed(struct db *db, int64_t id, const char *name, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_INVENTORY_PROHIBITED);
	int rc;

	db_bind_i64(st, 1, id);
	rc = db_step(st, err);
	db_stmt_put(&st);
	if (rc <= 0)
		return rc;
	(void)err_set(err, ERR_DENIED, "", "%s %s is prohibited", tool_noun(name), tool_bare_name(name));
	err_hint(err, "toolcrib inventory show %s:%s", tool_noun(name), tool_bare_name(name));
	return ERR_DENIED;
}

int tool_set_version(struct db *db, const struct tool_row *tool, int64_t version, int state, struct err *err)
{
	struct db_stmt *st;
	int rc = state == ADM_TOOL_ENABLED ? tool_check_allowed(db, tool->id, tool->name, err) : 0;

	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_TOOL_SET_VERSION);
	db_bind_i64(st, 1, tool->id);
	db_bind_i64(st, 2, tool->version);
	db_bind_i64(st, 3, version);
	db_bind_i64(st, 4, state);
	rc = db_run(&st, err);
	if (rc == 0 && db_changes(db) != 1)
		return err_set(err, ERR_CONFLICT, "", "%s %s was changed at the same time", tool_noun(tool->name),
			       tool_bare_name(tool->name));
	return rc;
}

static const char *said(const struct tool_stored *done)
{
	if (done->waits)
		return done->what == ADM_UNCHANGED ? "unchanged, waits for approval" : "stored, waits for approval";
	return done->what == ADM_UNCHANGED ? "unchanged" : "stored";
}

static void put_row(struct reply *o, const struct define_item *def, const struct tool_stored *done, const char *said)
{
	reply_row_begin(o);
	reply_text(o, "name", tool_bare_name(def->name));
	reply_int(o, "version", done->version);
	reply_text(o, "said", said);
	reply_text(o, "breaks", done->breaks);
	reply_hex(o, "digest", def->digest, sizeof(def->digest));
	reply_row_end(o);
}

/* --- what users of tools cannot reach, where each tenant has one of its own (HARDENING 1.1) */

/* By mode: such a user owns nothing and is in no group.  A list of rights beside the mode is believed. */
static bool is_open(const char *path, mode_t bits)
{
	struct stat st;

	return stat(path, &st) != 0 || (st.st_mode & bits) == bits ||
	       getxattr(path, "system.posix_acl_access", NULL, 0) > 0;
}

static void add_closed(const json_t *path, mode_t bits, struct str *out)
{
	char *real = json_is_string(path) ? realpath(json_string_value(path), NULL) : NULL;
	const char *closed = NULL;

	if (!real && json_is_string(path))      /* perhaps closed to us as well */
		real = mem_strdup(json_string_value(path));
	for (char *at = real; at && !closed && (at = strchr(at + 1, '/'));) {
		*at = '\0';
		if (!is_open(real, S_IXOTH))
			closed = real;
		else
			*at = '/';
	}
	if (real && !closed && !is_open(real, bits))
		closed = real;
	if (closed)
		str_printf(out, "%s%s", out->len ? ", " : "", closed);
	free(real);
}

static void find_closed(const struct command_call *c, const char *text, struct str *out)
{
	const json_t *handler, *sandbox, *path;
	json_t *doc = NULL;
	size_t i;

	if (!command_env(c)->tool_users || jx_parse(text, strlen(text), &doc, NULL) < 0)
		return;
	handler = json_object_get(doc, "handler");
	sandbox = json_object_get(handler, "sandbox");
	add_closed(json_array_get(json_object_get(handler, "argv"), 0), S_IXOTH, out);
	json_array_foreach(json_object_get(sandbox, "read"), i, path)
		add_closed(path, S_IROTH, out);
	json_array_foreach(json_object_get(sandbox, "write"), i, path)
		add_closed(path, S_IWOTH, out);
	json_decref(doc);
}

/* The row, and what calls would lack: a warning, since secrets may be set later. */
static int put_added(const struct command_call *c, struct db *db, const struct define_item *def,
		     const struct tool_stored *done, struct err *err)
{
	struct str missing = STR_INIT, text = STR_INIT, closed = STR_INIT;

	int rc = secrets_missing(db, def->text, &missing, err);
	str_puts(&text, said(done));
	if (done->breaks)
		str_printf(&text, "; %s", done->breaks);
	if (missing.len > 0)
		str_printf(&text, "; not set yet: secret %s", str_text(&missing));
	find_closed(c, def->text, &closed);
	if (closed.len > 0)
		str_printf(&text, "; closed to the users of tools, open with setfacl or chmod: %s", str_text(&closed));
	if (rc == 0)
		put_row(c->out, def, done, str_text(&text));
	str_fini(&closed);
	str_fini(&missing);
	str_fini(&text);
	return rc;
}

/* What the records of a definition's changes are. */
struct record_kinds { int add, change, by_state[ADM_TOOL_REMOVED + 1]; };

static const struct record_kinds *kinds_of(const char *name)
{
	static const struct record_kinds tool = { AUDIT_TOOL_REGISTER, AUDIT_TOOL_CHANGE,
		{ [ADM_TOOL_ENABLED] = AUDIT_TOOL_ENABLE, [ADM_TOOL_DISABLED] = AUDIT_TOOL_DISABLE,
		  [ADM_TOOL_REMOVED] = AUDIT_TOOL_DELETE } };
	static const struct record_kinds other = { AUDIT_DEFINITION_ADD, AUDIT_DEFINITION_CHANGE,
		{ [ADM_TOOL_ENABLED] = AUDIT_DEFINITION_CHANGE, [ADM_TOOL_DISABLED] = AUDIT_DEFINITION_CHANGE,
		  [ADM_TOOL_REMOVED] = AUDIT_DEFINITION_REMOVE } };

	return strcmp(tool_noun(name), "tool") == 0 ? &tool : &other;
}

static void put_object(char *ret, size_t size, const char *name, int64_t version)
{
	(void)snprintf(ret, size, "%s/%s@%lld", tool_noun(name), tool_bare_name(name), (long long)version); /* fits */
}

/* The version is stored, and nobody sees it yet. */
static int store_to_wait(struct command_call *c, struct db *db, struct audit_logs *logs, const struct define_item *def,
			 const struct tool_row *tool, int64_t version, int state, struct err *err)
{
	struct pending_row p = { .version = version, .state = state };

	(void)actor_text(&c->who, p.actor);
	memcpy(p.digest, def->digest, sizeof(p.digest));
	return pending_put(c, db, logs, tool, &p, err);
}

/* The row of the tool says this version, with its record. */
static int store_in_row(struct command_call *c, struct db *db, struct audit_logs *logs, const struct define_item *def,
			struct tool_row *tool, int64_t version, int state, struct err *err)
{
	const struct record_kinds *kinds = kinds_of(def->name);
	bool alive = tool->state && tool->state != ADM_TOOL_REMOVED;
	struct audit_field by;
	char obj[128];
	int rc = tool_set_version(db, tool, version, state, err);

	put_object(obj, sizeof(obj), def->name, version);
	return rc < 0 ? rc : command_record(c, db, logs, &(struct command_record){
		.kind = alive ? kinds->change : kinds->add, .obj = obj, .before = alive ? tool->digest : NULL,
		.after = def->digest, .field = &by, .nfield = approval_field(c, &by) }, err);
}

/* What is known of a tool before another version of it is stored. */
struct known {
	struct tool_row tool;
	struct pending_row p;
	bool row, alive, pending, waits;
};

static int look(struct db *db, const char *name, struct known *ret, struct err *err)
{
	int rc = tool_row_get(db, name, &ret->tool, err);

	ret->row = rc == 1;
	ret->alive = ret->row && ret->tool.state != ADM_TOOL_REMOVED;
	if (rc == 1)
		rc = pending_row_find(db, ret->tool.id, &ret->p, err);
	ret->pending = rc == 1;
	return rc < 0 ? rc : 0;
}

static bool is_same(const struct known *k, const uint8_t digest[32], struct tool_stored *ret)
{
	bool waits = k->alive && k->pending && memcmp(k->p.digest, digest, sizeof(k->p.digest)) == 0;
	int64_t version = waits ? k->p.version : k->tool.version;

	if (!waits && !(k->alive && memcmp(k->tool.digest, digest, sizeof(k->tool.digest)) == 0))
		return false;
	*ret = (struct tool_stored){ .what = ADM_UNCHANGED, .id = k->tool.id, .before = version, .version = version,
		.waits = waits };
	return true;
}

int tool_is_same(struct db *db, const char *name, const uint8_t digest[32], struct tool_stored *ret, struct err *err)
{
	struct known k = { .row = false };
	int rc = look(db, name, &k, err);

	return rc < 0 ? rc : is_same(&k, digest, ret);
}

static int store_new(struct command_call *c, struct db *db, struct audit_logs *logs, const struct define_item *def,
		     struct known *k, bool keep_state, int64_t version, struct err *err)
{
	/* What was never in force gives way; what is in force stays until the new one is approved. */
	bool shown = k->alive && !(k->pending && k->p.version == k->tool.version);
	int was = shown ? k->tool.state : k->pending ? k->p.state : ADM_TOOL_ENABLED;
	int becomes = keep_state && was == ADM_TOOL_DISABLED ? ADM_TOOL_DISABLED : ADM_TOOL_ENABLED;
	struct tool_row before = k->tool;
	int rc = insert_version(db, c, def, k->tool.id, version, err);

	if (rc == 0 && !k->waits)       /* else whoever approves it is the second one */
		rc = level_check_version(c, db, &k->tool, shown ? k->tool.version : 0, version, err);
	if (rc == 0 && !(k->waits && shown))
		rc = store_in_row(c, db, logs, def, &k->tool, version, k->waits ? ADM_TOOL_DISABLED : becomes, err);
	if (rc == 0 && k->waits) {
		if (!shown)
			before.version = 0;
		return store_to_wait(c, db, logs, def, &before, version, becomes, err);
	}
	return rc == 0 && k->pending ? pending_drop(db, k->tool.id, err) : rc;
}

/* Of what is in force; what was never approved has no callers. */
static int look_for_breaks(const struct command_call *c, struct db *db, const struct define_item *def,
			   const struct known *k, char **ret, struct err *err)
{
	bool shown = !(k->pending && k->p.version == k->tool.version);
	int rc = shown ? version_breaks(db, &k->tool, k->tool.version, def->text, ret, err) : 0;

	if (rc < 0 || !*ret || !arg_flag(c, "refuse-breaking"))
		return rc;
	(void)err_set(err, ERR_CONFLICT, "", "%s %s: %s", tool_noun(def->name), tool_bare_name(def->name), *ret);
	err_hint(err, "if it is meant, leave --refuse-breaking out; grant set TENANT TOOL --version N keeps a tenant on the "
		 "old one");
	free(*ret);
	*ret = NULL;
	return ERR_CONFLICT;
}

int tool_store(struct command_call *c, struct db *db, struct audit_logs *logs, const struct define_item *def,
		   bool keep_state, struct tool_stored *ret, struct err *err)
{
	struct known k = { .row = false };
	int64_t version = 1;
	char *breaks = NULL;
	int rc = look(db, def->name, &k, err);

	if (rc < 0)
		return rc;
	if (is_same(&k, def->digest, ret))
		return 0;
	rc = versions_wait(c, db, &k.waits, err);
	if (rc == 0 && k.alive)
		rc = look_for_breaks(c, db, def, &k, &breaks, err);
	if (rc == 0 && k.row)
		rc = next_version(db, k.tool.id, &version, err);
	else if (rc == 0)
		rc = insert_tool(db, def->name, &k.tool, err);
	if (rc == 0)
		rc = store_new(c, db, logs, def, &k, keep_state, version, err);
	if (rc < 0) {
		free(breaks);
		return rc;
	}
	*ret = (struct tool_stored){ .what = k.alive ? ADM_CHANGED : ADM_ADDED, .id = k.tool.id,
		.before = k.alive ? k.tool.version : 0, .version = version, .waits = k.waits, .breaks = breaks };
	return 0;
}

static int tool_add_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct add_job *job = c->priv;
	int64_t *changed = mem_calloc(job->count, sizeof(*changed));
	size_t n = 0;
	int rc = 0;

	for (size_t i = 0; i < job->count && rc == 0; i++) {
		struct tool_stored done;

		rc = tool_store(c, db, logs, &job->def[i], false, &done, err);
		if (rc == 0 && done.what != ADM_UNCHANGED)
			changed[n++] = done.id;
		if (rc == 0) {
			rc = put_added(c, db, &job->def[i], &done, err);
			free(done.breaks);
		}
	}
	if (rc == 0 && n > 0)
		rc = command_changed_tools(c, db, changed, n, err);
	free(changed);
	return rc;
}

/* --- reading */

static int tool_list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_TOOL_LIST);
	struct tool_row tool;
	char prefix[16];
	int rc;

	(void)logs;
	tool_full_name(command_noun(c), "", prefix, sizeof(prefix));
	db_bind_textz(st, 1, prefix);
	while ((rc = db_step(st, err)) == 1) {
		tool_row_read(st, &tool);
		reply_row_begin(c->out);
		reply_text(c->out, "name", tool_bare_name(tool.name));
		if (*tool.uri)
			reply_text(c->out, "uri", tool.uri);
		reply_int(c->out, "version", tool.version);
		reply_text(c->out, "state", tool_state_name(tool.state));
		reply_hex(c->out, "digest", tool.digest, sizeof(tool.digest));
		reply_time(c->out, "created", (uint64_t)tool.created_us);
		reply_time(c->out, "changed", (uint64_t)tool.changed_us);
		reply_row_end(c->out);
	}
	db_stmt_put(&st);
	return rc;
}

/* The i-th tool, prompt or resource that is named, with its kind in front. */
static void named(const struct command_call *c, size_t i, char ret[REG_FULL_NAME_SIZE])
{
	const char *noun = command_noun(c);

	tool_full_name(noun, arg_nth(c, noun, i), ret, REG_FULL_NAME_SIZE);
}

static void put_version(struct reply *o, struct db_stmt *st)
{
	char actor[64];
	size_t len;
	const char *text = db_col_text(st, 3, &len);
	const void *digest;

	(void)snprintf(actor, sizeof(actor), "%.*s", (int)len, text);
	reply_int(o, "version", db_col_i64(st, 1));
	digest = db_col_blob(st, 2, &len);
	reply_hex(o, "digest", digest, len);
	reply_text(o, "actor", actor);
	reply_time(o, "created", (uint64_t)db_col_i64(st, 4));
}

static int count_grants(struct db *db, const char *name, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_TOOL_GRANTS);
	int rc;

	db_bind_textz(st, 1, name);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int tool_asked(const struct command_call *c, struct db *db, bool removed, struct tool_row *ret, struct err *err)
{
	const char *tenant = arg_text(c, "tenant");
	char name[REG_FULL_NAME_SIZE];
	int rc;

	named(c, 0, name);
	if (tenant)
		return tool_row_granted(db, tenant, name, removed, ret, err);
	rc = removed ? tool_row_get(db, name, ret, err) : 0;
	return rc == 0 ? tool_row_find(db, name, ret, err) : rc < 0 ? rc : 0;
}

static int tool_show_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	uint32_t version = arg_uint(c, "version", 0);
	const bool whole = !arg_given(c, "tenant");     /* others' grants are none of a tenant's business */
	struct tool_row tool;
	struct db_stmt *st;
	struct pending_row p;
	bool waits;
	int64_t grants = 0;
	uint64_t taken_us;
	size_t len;
	int rc;

	(void)logs;
	rc = tool_asked(c, db, false, &tool, err);
	if (rc == 0)
		rc = count_grants(db, tool.name, &grants, err);
	if (rc == 0)
		rc = pending_row_find(db, tool.id, &p, err);
	if (rc < 0)
		return rc;
	waits = rc == 1;
	st = db_stmt_get(db, SQL_ADMIN_TOOL_VERSION);
	db_bind_i64(st, 1, tool.id);
	db_bind_i64(st, 2, version ? version : tool.version);
	rc = db_step(st, err);
	if (rc == 1 && version_check(db, &tool, db_col_i64(st, 1), db_col_i64(st, 0), &taken_us, err) < 0)
		rc = ERR_CORRUPT;
	if (rc == 1) {
		const char *text = db_col_text(st, 5, &len);

		reply_row_begin(c->out);
		reply_text(c->out, "name", tool_bare_name(tool.name));
		if (tool.kind > 1)
			reply_text(c->out, "kind", reg_kinds[tool.kind - 1].word);
		put_version(c->out, st);
		reply_text(c->out, "state", tool_state_name(tool.state));
		if (whole)
			reply_int(c->out, "grants", grants);
		if (waits)
			reply_int(c->out, "waits", p.version);
		reply_raw(c->out, "definition", text, len);
		reply_row_end(c->out);
	}
	db_stmt_put(&st);
	if (rc == 0)
		return err_set(err, ERR_NOT_FOUND, "", "version %u of %s %s: not found", version,
			       command_noun(c), tool_bare_name(tool.name));
	return rc < 0 ? rc : 0;
}

int tool_history_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct tool_row tool;
	struct db_stmt *st;
	int rc = tool_asked(c, db, true, &tool, err);

	(void)logs;
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_ADMIN_TOOL_VERSIONS);
	db_bind_i64(st, 1, tool.id);
	db_bind_textz(st, 2, tool.name);
	db_bind_textz(st, 3, arg_text(c, "tenant"));
	while ((rc = db_step(st, err)) == 1) {
		uint64_t taken_us = 0;

		rc = version_check(db, &tool, db_col_i64(st, 1), db_col_i64(st, 0), &taken_us, err);
		if (rc < 0)
			break;
		reply_row_begin(c->out);
		put_version(c->out, st);
		reply_time(c->out, "vouched_since", taken_us);
		reply_int(c->out, "kept_by", db_col_i64(st, 5));
		reply_bool(c->out, "in_force", db_col_i64(st, 1) == tool.version && tool.state != ADM_TOOL_REMOVED);
		reply_row_end(c->out);
	}
	db_stmt_put(&st);
	return rc;
}

/* --- enable, disable, remove */

/* What was never approved cannot be enabled; of what is removed nothing waits any more. */
static int check_decided(struct db *db, const struct tool_row *tool, int state, struct err *err)
{
	struct pending_row p;
	int rc = pending_row_find(db, tool->id, &p, err);

	if (rc == 1 && state == ADM_TOOL_ENABLED && p.version == tool->version) {
		(void)err_set(err, ERR_CONFLICT, "", "version %lld of %s %s waits for approval", (long long)p.version,
			      tool_noun(tool->name), tool_bare_name(tool->name));
		err_hint(err, "toolcrib tool pending");
		return ERR_CONFLICT;
	}
	if (rc >= 0 && state == ADM_TOOL_ENABLED)
		return tool_check_allowed(db, tool->id, tool->name, err);
	if (rc == 1 && state == ADM_TOOL_REMOVED)
		return pending_drop(db, tool->id, err);
	return rc < 0 ? rc : 0;
}

int tool_change_state(struct command_call *c, struct db *db, struct audit_logs *logs, const char *name, int state,
			  int64_t *ret_id, struct err *err)
{
	struct tool_row tool;
	struct db_stmt *st;
	char obj[128];
	int rc = tool_row_find(db, name, &tool, err);

	if (rc < 0)
		return rc;
	if (tool.state == state)
		return err_set(err, ERR_CONFLICT, "", "%s %s is %s already", tool_noun(tool.name), tool_bare_name(tool.name),
			       tool_state_name(state));
	rc = check_decided(db, &tool, state, err);
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_TOOL_SET_STATE);
	db_bind_i64(st, 1, tool.id);
	db_bind_i64(st, 2, state);
	rc = db_run(&st, err);
	put_object(obj, sizeof(obj), tool.name, tool.version);
	if (rc == 0)
		rc = command_record(c, db, logs, &(struct command_record){ .kind = kinds_of(tool.name)->by_state[state], .obj = obj,
			.before = tool.digest }, err);
	if (rc < 0)
		return rc;
	*ret_id = tool.id;
	return 0;
}

static int change_states(struct command_call *c, struct db *db, struct audit_logs *logs, int state, struct err *err)
{
	size_t n = arg_count(c, command_noun(c));
	int64_t *ids = mem_calloc(n, sizeof(*ids));
	char name[REG_FULL_NAME_SIZE];
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		named(c, i, name);
		rc = tool_change_state(c, db, logs, name, state, &ids[i], err);
		if (rc < 0)
			break;
		if (state == ADM_TOOL_DISABLED)
			continue;       /* tool_disable_after() knows more */
		reply_row_begin(c->out);
		reply_text(c->out, "name", tool_bare_name(name));
		reply_text(c->out, "state", tool_state_name(state));
		reply_row_end(c->out);
	}
	if (rc == 0)
		rc = command_changed_tools(c, db, ids, n, err);
	free(ids);
	return rc;
}

static int tool_enable_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	return change_states(c, db, logs, ADM_TOOL_ENABLED, err);
}

static int tool_disable_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	return change_states(c, db, logs, ADM_TOOL_DISABLED, err);
}

/* Nobody finds it any more; what runs ends by itself, or now. */
static void tool_disable_after(struct command_call *c)
{
	for (size_t i = 0; i < arg_count(c, command_noun(c)); i++) {
		char name[REG_FULL_NAME_SIZE];
		size_t calls;

		named(c, i, name);
		calls = arg_flag(c, "kill") ? people_stop_tool(c, name) : 0;
		reply_row_begin(c->out);
		reply_text(c->out, "name", tool_bare_name(name));
		reply_text(c->out, "state", tool_state_name(ADM_TOOL_DISABLED));
		reply_int(c->out, "calls", (int64_t)calls);
		reply_row_end(c->out);
	}
}

static int tool_remove_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	return change_states(c, db, logs, ADM_TOOL_REMOVED, err);
}

/* --- rows of the command table */

static const struct command_arg files_args[] = { FILES("YAML or JSON, one or more documents; - is standard input."),
	REFUSE_BREAKING, ARG_END };
static const struct command_column hosted_cols[] = {
	COL("name", "Name"), COL("kind", "Kind"), COL("version", "Version"), COL("state", "State"), COL("digest", "Digest"),
	COL("actor", "Added by"), COL_AT("created", "Added"), COL("definition", "Definition"), COL_END };
static const struct command_column tool_history_cols[] = {
	COL("version", "VERSION"), COL("in_force", "IN FORCE"), COL("kept_by", "KEPT BY"), COL_AT("created", "ADDED"),
	COL("actor", "BY"), COL_AT("vouched_since", "NOT VOUCHED BEFORE"), COL("digest", "DIGEST"), COL_END };
#define HOSTED_ROWS(word, words, list_columns) \
	{ .noun = #word, .verb = "add", .help = "Store " words ", or new versions of them", \
	  .detail = "All documents or none.  A definition that differs from the version in force becomes the next " \
		    "version; one that does not changes nothing.  " BELOW_DETAIL, \
	  .args = files_args, .done = #word " %{name}: version %{version} %{said}", .role = ADM_OWNER, \
	  .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER, .check = tool_add_check, .body = tool_add_body }, \
	{ .noun = #word, .verb = "list", .help = "List the " words, .args = no_args, .columns = list_columns, \
	  .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL, .body = tool_list_body }, \
	{ .noun = #word, .verb = "show", .help = "Show a " #word " and its definition", .args = word##_show_args, \
	  .columns = hosted_cols, .shape = ADM_ITEM, .role = ADM_READ, .where = ADM_ON_POOL, \
	  .body = tool_show_body }, \
	{ .noun = #word, .verb = "enable", .help = "Show disabled " words " again", .args = word##s_args, \
	  .done = #word " %{name} enabled", .role = ADM_OPERATE, .where = ADM_ON_WRITER, \
	  .body = tool_enable_body }, \
	{ .noun = #word, .verb = "disable", .help = "Hide " words " from all tenants", .args = word##s_args, \
	  .done = #word " %{name} disabled", .role = ADM_OPERATE, .where = ADM_ON_WRITER, \
	  .body = tool_disable_body, .after = tool_disable_after }, \
	{ .noun = #word, .verb = "remove", .help = "Remove " words, \
	  .detail = "The versions stay for the records that name them; adding the " #word " again goes on counting.", \
	  .args = word##s_args, .done = #word " %{name} removed", .destructive = true, .role = ADM_OWNER, \
	  .where = ADM_ON_WRITER, .body = tool_remove_body }, \
	{ .noun = #word, .verb = "history", .help = "List the versions of a " #word, .args = word##_args, \
	  .columns = tool_history_cols, .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL, \
	  .body = tool_history_body }, \
	{ .noun = #word, .verb = "diff", .help = "Show what differs between two versions of a " #word, \
	  .detail = DIFF_DETAIL, .args = word##_diff_args, .shape = ADM_DIFF, .role = ADM_READ, .where = ADM_ON_POOL, \
	  .body = tool_diff_body }, \
	{ .noun = #word, .verb = "revert", .help = "Put an older version of a " #word " in force again", \
	  .detail = "It becomes the next version, by the rules of today.  A disabled one stays disabled.", \
	  .args = word##_revert_args, .done = #word " %{name}: version %{version} says what version %{as} said%{waits}", \
	  .role = ADM_OWNER, .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER, \
	  .body = tool_revert_body }, \
	{ .noun = #word, .verb = "test", .help = "Run a definition without storing it", .args = word##_test_args, \
	  .runs = true, .shape = ADM_CONTENT, .role = ADM_OWNER, .where = ADM_ON_LOOP, .record = AUDIT_ADMIN_CMD, \
	  .check = tool_test_check, .body = tool_test_body, .cancel = tool_test_cancel }
static const struct command_arg tool_show_args[] = {
	WORD("tool", "TOOL", COMPLETE_TOOL, "Name of the tool."),
	OPT("version", "N", ARG_UINT, COMPLETE_NONE, "This version instead of the one in force."), TOOL_OF_TENANT, ARG_END };
static const struct command_arg tools_args[] = { WORDS("tool", "TOOL", COMPLETE_TOOL, "Name of the tool."), ARG_END };
static const struct command_arg tool_disable_args[] = {
	WORDS("tool", "TOOL", COMPLETE_TOOL, "Name of the tool."), FLAG("kill", "Cancel its running calls."), ARG_END };
static const struct command_arg prompt_test_args[] = {
	FILE1("YAML or JSON, one document; - is standard input."),
	{ "values", "NAME=VALUE", ARG_KEYVALUES, false, false, true, COMPLETE_NONE, "An argument of the prompt." }, ARG_END };
static const struct command_arg resource_test_args[] = {
	FILE1("YAML or JSON, one document; - is standard input."),
	{ "uri", "URI", ARG_TEXT, false, false, false, COMPLETE_NONE, "Which one is read; a template needs it." }, ARG_END };
static const struct command_arg prompt_show_args[] = {
	WORD("prompt", "PROMPT", COMPLETE_PROMPT, "Name of the prompt."),
	OPT("version", "N", ARG_UINT, COMPLETE_NONE, "This version instead of the one in force."), ARG_END };
static const struct command_arg prompt_args[] = { WORD("prompt", "PROMPT", COMPLETE_PROMPT, "Name of the prompt."),
	ARG_END };
static const struct command_arg prompts_args[] = { WORDS("prompt", "PROMPT", COMPLETE_PROMPT, "Name of the prompt."),
	ARG_END };
static const struct command_arg resource_show_args[] = {
	WORD("resource", "RESOURCE", COMPLETE_RESOURCE, "Name of the resource or template."),
	OPT("version", "N", ARG_UINT, COMPLETE_NONE, "This version instead of the one in force."), ARG_END };
static const struct command_arg resource_args[] = {
	WORD("resource", "RESOURCE", COMPLETE_RESOURCE, "Name of the resource or template."), ARG_END };
static const struct command_arg resources_args[] = {
	WORDS("resource", "RESOURCE", COMPLETE_RESOURCE, "Name of the resource or template."), ARG_END };
static const struct command_arg prompt_diff_args[] = {
	WORD("prompt", "PROMPT", COMPLETE_PROMPT, "Name of the prompt."),
	DIFF_VERSIONS, ARG_END };
static const struct command_arg prompt_revert_args[] = {
	WORD("prompt", "PROMPT", COMPLETE_PROMPT, "Name of the prompt."),
	{ "version", "VERSION", ARG_UINT, false, true, false, COMPLETE_NONE, "The version to take back." }, ARG_END };
static const struct command_arg resource_diff_args[] = {
	WORD("resource", "RESOURCE", COMPLETE_RESOURCE, "Name of the resource or template."),
	DIFF_VERSIONS, ARG_END };
static const struct command_arg resource_revert_args[] = {
	WORD("resource", "RESOURCE", COMPLETE_RESOURCE, "Name of the resource or template."),
	{ "version", "VERSION", ARG_UINT, false, true, false, COMPLETE_NONE, "The version to take back." }, ARG_END };
static const struct command_column tool_list_cols[] = {
	COL("name", "NAME"), COL("version", "VERSION"), COL("state", "STATE"), COL_AT("changed", "CHANGED"), COL_END };
static const struct command_column tool_cols[] = {
	COL("name", "Name"), COL("version", "Version"), COL("state", "State"), COL("digest", "Digest"),
	COL("actor", "Added by"), COL_AT("created", "Added"), COL("definition", "Definition"), COL_END };
static const struct command_column resource_list_cols[] = {
	COL("name", "NAME"), COL("uri", "URI"), COL("version", "VERSION"), COL("state", "STATE"), COL_AT("changed", "CHANGED"),
	COL_END };

const struct command tool_commands[] = {
	{ .noun = "tool", .verb = "add", .help = "Store tools, or new versions of them",
	  .detail = "All documents or none.  A definition that differs from the version in force becomes the next "
		    "version; one that does not changes nothing.  " BELOW_DETAIL,
	  .args = files_args, .done = "tool %{name}: version %{version} %{said}", .role = ADM_OWNER,
	  .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER,
	  .check = tool_add_check, .body = tool_add_body },
	{ .noun = "tool", .verb = "list", .help = "List the tools", .args = no_args, .columns = tool_list_cols,
	  .shape = ADM_TABLE, .role = ADM_READ, .console = true, .where = ADM_ON_POOL,
	  .body = tool_list_body },
	{ .noun = "tool", .verb = "show", .help = "Show a tool and its definition", .args = tool_show_args,
	  .columns = tool_cols, .shape = ADM_ITEM, .role = ADM_READ, .console = true, .seen = "tenant",
	  .where = ADM_ON_POOL,
	  .body = tool_show_body },
	{ .noun = "tool", .verb = "enable", .help = "Show disabled tools again", .args = tools_args,
	  .done = "tool %{name} enabled", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .body = tool_enable_body },
	{ .noun = "tool", .verb = "disable", .help = "Hide tools from all tenants",
	  .detail = "Running calls end by themselves, with --kill at once.  tool enable takes it back.",
	  .args = tool_disable_args,
	  .done = "tool %{name} disabled, %{calls} calls cancelled", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .body = tool_disable_body, .after = tool_disable_after },
	{ .noun = "tool", .verb = "remove", .help = "Remove tools",
	  .detail = "The versions stay for the records that name them; adding the tool again goes on counting.",
	  .args = tools_args, .done = "tool %{name} removed", .destructive = true, .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .body = tool_remove_body },
	{ .noun = NULL },
};

const struct command hosted_commands[] = {
	HOSTED_ROWS(prompt, "prompts", tool_list_cols),
	HOSTED_ROWS(resource, "resources and templates", resource_list_cols),
	{ .noun = NULL },
};
