/* Commands level set and list: how much of a tenant's calls is kept (AUDIT ); bodies on the writer and the
 * pool. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/rows.h"
#include "audit/payload.h"
#include "base/mem.h"
#include "command/rows.h"
#include "db/db.h"
#include "toolset/toolset.h"

enum { UNSET = -1 };

/* What `level set` is about. */
struct setting { const char *tool; int level; };        /* tool NULL: all; level UNSET: the one above decides again */

static int read_setting(const struct command_call *c, struct setting *ret, struct err *err)
{
	const char *level = arg_text(c, "level"), *tool = arg_text(c, "tool");
	bool unset = strcmp(level, "default") == 0;

	*ret = (struct setting){ .tool = tool && *tool ? tool : NULL, .level = unset ? UNSET : audit_level_from_name(level) };
	if (ret->level >= 0 || unset)
		return 0;
	(void)err_set(err, ERR_INVALID, "level", "\"%.40s\" is no level", level);
	err_hint(err, "metadata, request, request_response, or default: as the tenant or the server says");
	return ERR_INVALID;
}

static int level_set_check(struct command_call *c, struct err *err)
{
	struct setting ignored;

	return read_setting(c, &ignored, err);
}

/* What a statement's one row says; UNSET: there is no row, or NULL in it. */
static int read_level(struct db_stmt *st, int *ret, struct err *err)
{
	int rc = db_step(st, err);

	*ret = rc == 1 && db_col_type(st, 0) != DB_NULL ? (int)db_col_i64(st, 0) : UNSET;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int level_of_tenant(struct db *db, int64_t tenant_id, int *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_LEVEL_GET_TENANT);

	db_bind_i64(st, 1, tenant_id);
	return read_level(st, ret, err);
}

static int level_of_tool(struct db *db, int64_t tenant_id, const char *tool, int *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_LEVEL_GET_TOOL);

	db_bind_i64(st, 1, tenant_id);
	db_bind_textz(st, 2, tool);
	return read_level(st, ret, err);
}

/* The server's default as the store has it; where it has none the built-in one. */
static int level_of_server(struct db *db, int *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_META_GET_VALUE);
	uint64_t taken_us;
	int rc;

	db_bind_textz(st, 1, "audit_level");
	rc = db_step(st, err);
	*ret = rc == 1 ? audit_level_from_name(db_col_text(st, 0, NULL)) : AUDIT_LEVEL_DEFAULT;
	db_stmt_put(&st);
	return rc == 1 ? audit_row_check(db, AUDIT_ROW_SETTING, 1, &taken_us, err) : rc;
}

static int store_tenant(struct db *db, int64_t tenant_id, int level, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_LEVEL_SET_TENANT);

	db_bind_i64(st, 1, tenant_id);
	if (level == UNSET)
		db_bind_null(st, 2);
	else
		db_bind_i64(st, 2, level);
	return db_run(&st, err);
}

static int store_tool(struct db *db, int64_t tenant_id, const char *tool, int level, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, level == UNSET ? SQL_LEVEL_DELETE_TOOL : SQL_LEVEL_SET_TOOL);

	db_bind_i64(st, 1, tenant_id);
	db_bind_textz(st, 2, tool);
	if (level != UNSET)
		db_bind_i64(st, 3, level);
	return db_run(&st, err);
}

static const char *name_of(int level)
{
	return level == UNSET ? "default" : audit_level_name(level);
}

/* Would the level of the whole tenant leave a tool below it that is not below it now? */
static int leaves_below(struct db *db, int64_t tenant_id, int before, int after, bool *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_LEVEL_TOOL_BETWEEN);
	int rc;

	db_bind_i64(st, 1, tenant_id);
	db_bind_i64(st, 2, before);
	db_bind_i64(st, 3, after);
	rc = db_step(st, err);
	*ret = rc == 1;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* The same of a definition that says a level of its own, which every tenant may be granted. */
static int definition_below(struct db *db, int64_t tenant_id, int before, int after, bool *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_LEVEL_DEFINITION_BETWEEN);
	int rc;

	db_bind_i64(st, 1, tenant_id);
	while ((rc = db_step(st, err)) == 1 && !*ret) {
		int own = audit_level_from_name(db_col_text(st, 0, NULL));

		*ret = own >= before && own < after;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* Of a whole tenant: it is recorded less than before, or something is less than the rest. */
static int lowers_tenant(struct db *db, int64_t tenant_id, int before, int after, bool *ret, struct err *err)
{
	int rc = 0;

	*ret = after < before;
	if (!*ret)
		rc = leaves_below(db, tenant_id, before, after, ret, err);
	if (rc == 0 && !*ret)
		rc = definition_below(db, tenant_id, before, after, ret, err);
	return rc;
}

/* AUDIT A-909: a tenant that is recorded less than before, or a tool less than the rest of its tenant, whichever
 * level is set. */
static int is_lower(struct db *db, const struct setting *want, int64_t tenant_id, bool *ret, struct err *err)
{
	int server = UNSET, tenant = UNSET;
	int rc = level_of_tenant(db, tenant_id, &tenant, err);

	if (rc == 0)
		rc = level_of_server(db, &server, err);
	if (tenant == UNSET)
		tenant = server;
	if (rc == 0 && want->tool)
		*ret = want->level != UNSET && want->level < tenant;
	else if (rc == 0)
		rc = lowers_tenant(db, tenant_id, tenant, want->level == UNSET ? server : want->level, ret, err);
	return rc;
}

/* --- of a definition */

/* The level that a version says; UNSET: none, or there is no such version. */
static int level_of_version(struct db *db, int64_t tool_id, int64_t version, int *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_LEVEL_GET_VERSION);
	int rc;

	db_bind_i64(st, 1, tool_id);
	db_bind_i64(st, 2, version);
	rc = db_step(st, err);
	*ret = rc == 1 && db_col_type(st, 0) != DB_NULL ? audit_level_from_name(db_col_text(st, 0, NULL)) : UNSET;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* Of the server's default and all tenants'. */
static int highest_level(struct db *db, int *ret, struct err *err)
{
	int tenants = UNSET, rc = level_of_server(db, ret, err);

	if (rc == 0)
		rc = read_level(db_stmt_get(db, SQL_LEVEL_HIGHEST), &tenants, err);
	if (tenants > *ret)
		*ret = tenants;
	return rc;
}

int level_check_version(struct command_call *c, struct db *db, const struct tool_row *tool, int64_t before,
			int64_t after, struct err *err)
{
	int own = UNSET, was = UNSET, highest = UNSET;
	char why[200];
	int rc = level_of_version(db, tool->id, after, &own, err);

	if (rc < 0 || own == UNSET)
		return rc;
	rc = level_of_version(db, tool->id, before, &was, err);
	if (rc == 0)
		rc = highest_level(db, &highest, err);
	if (rc < 0 || own >= highest || (was != UNSET && was <= own))
		return rc;
	(void)snprintf(why, sizeof(why), "%s %s says audit level %s, below %s", tool_noun(tool->name),
		tool_bare_name(tool->name),
		       audit_level_name(own), audit_level_name(highest));
	return approval_require_for(c, db, why, err);
}

/* --- set */

static int change(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *t,
		  const struct setting *want, int before, struct err *err)
{
	struct audit_field field;
	char obj[160], reason[80];
	int rc = want->tool ? store_tool(db, t->id, want->tool, want->level, err) : store_tenant(db, t->id, want->level, err);

	if (rc < 0)
		return rc;
	(void)snprintf(obj, sizeof(obj), "level/%s%s%s", t->name, want->tool ? "/" : "", want->tool ? want->tool : "");
	(void)snprintf(reason, sizeof(reason), "%s -> %s", name_of(before), name_of(want->level));
	rc = command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_LEVEL_CHANGE, .tenant_id = t->id, .obj = obj,
		.reason = reason, .field = &field, .nfield = approval_field(c, &field) }, err);
	return rc;
}

static int level_set_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct setting want;
	struct tenant_row t;
	struct tool_row tool;
	int before = UNSET;
	bool lower = false;
	int rc = read_setting(c, &want, err);

	if (rc == 0)
		rc = tenant_row_find(db, arg_text(c, "tenant"), &t, err);
	if (rc == 0 && want.tool && want.level != UNSET)
		rc = tool_row_find(db, want.tool, &tool, err);
	if (rc == 0)
		rc = want.tool ? level_of_tool(db, t.id, want.tool, &before, err) : level_of_tenant(db, t.id, &before, err);
	if (rc == 0 && before == want.level)
		rc = err_set(err, ERR_CONFLICT, "", "the level is %s already", name_of(before));
	if (rc == 0)
		rc = is_lower(db, &want, t.id, &lower, err);
	if (rc == 0 && lower)
		rc = approval_require(c, db, err);
	if (rc == 0)
		rc = change(c, db, logs, &t, &want, before, err);
	if (rc == 0)
		rc = command_changed_people(c, db, t.id, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_text(c->out, "what", want.tool ? want.tool : "all tools");
	reply_text(c->out, "tenant", t.name);
	reply_text(c->out, "level", name_of(want.level));
	reply_row_end(c->out);
	return 0;
}

/* --- for documents */

int level_check(const char *level, struct err *err)
{
	if (audit_level_from_name(level) >= 0)
		return 0;
	(void)err_set(err, ERR_INVALID, "level", "\"%.40s\" is no level", level);
	err_hint(err, "metadata, request or request_response");
	return ERR_INVALID;
}

/* One of many in a file: it is named to the one who agrees, and a rehearsal needs nobody. */
static int ask_for_lower(struct command_call *c, struct db *db, const struct level_of *l, int before, struct err *err)
{
	char *why = mem_printf("level of %s%s%s: %s -> %s", l->tenant, *l->tool ? "/" : "", l->tool, name_of(before),
			       l->level);
	int rc = approval_require_for(c, db, why, err);

	free(why);
	return rc;
}

int level_store(struct command_call *c, struct db *db, struct audit_logs *logs, const struct level_of *l,
		const char **ret_before, int64_t *ret_tenant_id, struct err *err)
{
	const struct setting want = { .tool = *l->tool ? l->tool : NULL,
		.level = strcmp(l->level, "default") == 0 ? UNSET : audit_level_from_name(l->level) };
	struct tenant_row t;
	struct tool_row tool;
	int before = UNSET;
	bool lower = false;
	int rc = tenant_row_find(db, l->tenant, &t, err);

	if (rc < 0)
		err_at(err, "/tenant");
	if (rc == 0 && want.tool && want.level != UNSET && (rc = tool_row_find(db, want.tool, &tool, err)) < 0)
		err_at(err, "/tool");
	if (rc == 0)
		rc = want.tool ? level_of_tool(db, t.id, want.tool, &before, err) : level_of_tenant(db, t.id, &before, err);
	if (rc < 0 || before == want.level)
		return rc;
	*ret_tenant_id = t.id;
	*ret_before = before == UNSET ? NULL : audit_level_name(before);
	rc = is_lower(db, &want, t.id, &lower, err);
	if (rc == 0 && lower)
		rc = ask_for_lower(c, db, l, before, err);
	if (rc == 0)
		rc = change(c, db, logs, &t, &want, before, err);
	return rc < 0 ? rc : 1;
}

int level_each(struct db *db, const struct tenant_row *t, level_each_fn *fn, void *arg, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_LEVEL_LIST);
	struct level_of *all = NULL;
	size_t n = 0;
	int rc;

	db_bind_textz(st, 1, t->name);
	while ((rc = db_step(st, err)) == 1) {
		struct level_of l = { .tool = "" };

		if (db_col_type(st, 2) == DB_NULL)
			continue;
		(void)snprintf(l.tenant, sizeof(l.tenant), "%.63s", t->name);
		if (db_col_type(st, 1) != DB_NULL)
			(void)snprintf(l.tool, sizeof(l.tool), "%s", db_col_text(st, 1, NULL));
		(void)snprintf(l.level, sizeof(l.level), "%s", audit_level_name((int)db_col_i64(st, 2)));
		all = mem_realloc(all, (n + 1) * sizeof(*all));
		all[n++] = l;
	}
	db_stmt_put(&st);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = fn(arg, &all[i], err);
	free(all);
	return rc;
}

/* --- list */

static void put_level(struct reply *o, const char *tenant, const char *tool, int level)
{
	reply_row_begin(o);
	reply_text(o, "tenant", tenant);
	reply_text(o, "tool", tool);
	reply_text(o, "level", name_of(level));
	reply_row_end(o);
}

static int level_list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const char *tenant = arg_text(c, "tenant");
	struct db_stmt *st;
	int level = UNSET;
	int rc = level_of_server(db, &level, err);

	(void)logs;
	if (rc < 0)
		return rc;
	if (tenant && *tenant) {
		struct tenant_row t;

		rc = tenant_row_find(db, tenant, &t, err);
		if (rc < 0)
			return rc;
	} else {
		put_level(c->out, NULL, NULL, level);
	}
	st = db_stmt_get(db, SQL_LEVEL_LIST);
	db_bind_textz(st, 1, tenant && *tenant ? tenant : NULL);
	while ((rc = db_step(st, err)) == 1) {
		char *of = mem_strdup(db_col_text(st, 0, NULL));

		put_level(c->out, of, db_col_type(st, 1) == DB_NULL ? NULL : db_col_text(st, 1, NULL),
			  db_col_type(st, 2) == DB_NULL ? UNSET : (int)db_col_i64(st, 2));
		free(of);
	}
	db_stmt_put(&st);
	return rc;
}

/* --- rows of the command table */

static const struct command_arg level_set_args[] = {
	WORD("level", "LEVEL", COMPLETE_NONE, "metadata, request, request_response; or default: as the tenant or the server "
		"says."),
	NEED("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "Whose calls."),
	OPT("tool", "TOOL", ARG_TEXT, COMPLETE_TOOL, "Only calls of this tool, by its own name."), ARG_END };
static const struct command_arg level_list_args[] = { TENANT_MAYBE, ARG_END };
static const struct command_column level_list_cols[] = {
	COL("tenant", "TENANT"), COL("tool", "TOOL"), COL("level", "LEVEL"), COL_END };

const struct command level_commands[] = {
	{ .noun = "level", .verb = "set", .help = "Say how much of a tenant's calls is kept",
	  .detail = "At metadata the records say who, what, when, sizes and outcome, and commit to arguments and results "
		    "without "
		    "keeping them.  At request the arguments are kept as well, encrypted; at request_response the result and the "
		    "text of an error too.  The level of the tool wins over its definition's, that over the tenant's, that over "
		    "the server's.  A tenant that comes to be recorded less, and a tool or a definition that comes to be below its "
		    "tenant, "
		    "need a second administrator: see approval list.",
	  .args = level_set_args, .done = "%{what} of %{tenant}: level %{level}", .role = ADM_OWNER,
	  .second = ADM_SECOND_ASKED,
	  .where = ADM_ON_WRITER, .check = level_set_check, .body = level_set_body },
	{ .noun = "level", .verb = "list", .help = "List how much of calls is kept", .args = level_list_args,
	  .columns = level_list_cols, .shape = ADM_TABLE, .role = ADM_READ, .seen = "tenant", .where = ADM_ON_POOL,
	  .body = level_list_body },
	{ .noun = NULL },
};
