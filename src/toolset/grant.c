/* grant add, list, remove, set. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "command/rows.h"
#include "db/db.h"
#include "toolset/toolset.h"

#define GLOB_MAX 64                     /* characters behind the kind */
#define ALIAS_MAX 64
#define CONCURRENCY_MAX 10000
#define TENANT_GRANTS_MAX 10000

struct grant_job {
	char tenant[64];
	char (*glob)[GRANT_GLOB_SIZE]; size_t count;
	struct grant_row want;          /* alias and limits */
	bool has_alias, has_concurrency, has_rate;
};

static void free_job(void *priv)
{
	struct grant_job *job = priv;

	free(job->glob);
	free(job);
}

int grant_glob(const char *text, char ret[GRANT_GLOB_SIZE], struct err *err)
{
	const char *bare = strcmp(tool_noun(text), "tool") == 0 ? text : tool_bare_name(text);
	size_t len = strlen(bare);

	/* Exactly what names can be made of: SQLite's GLOB has sets in brackets, which we do not. */
	for (size_t i = 0; i < len; i++) {
		if (bare[i] != '*' && bare[i] != '?' && !text_tool_name(&bare[i], 1)) {
			(void)err_set(err, ERR_INVALID, "tool", "\"%.80s\" is no name or pattern of %ss", text, tool_noun(text));
			err_hint(err, "letters, digits, _ . - and the wildcards * and ?, perhaps prompt: or resource: in front");
			return ERR_INVALID;
		}
	}
	if (len == 0 || len > GLOB_MAX)
		return err_set(err, ERR_INVALID, "tool", "a name or pattern of %ss has 1 to %d characters", tool_noun(text),
			       GLOB_MAX);
	memcpy(ret, text, strlen(text) + 1);
	return 0;
}

static int take_glob(struct grant_job *job, const char *text, struct err *err)
{
	int rc = grant_glob(text, job->glob[job->count], err);

	job->count += rc == 0;
	return rc;
}

int grant_alias(const char *alias, const char *glob, char ret[65], struct err *err)
{
	if (!text_tool_name(alias, strlen(alias)))
		return err_set(err, ERR_INVALID, "as", "the alias \"%.80s\" is no name of a tool: letters, digits, _ . -, at most 64",
			       alias);
	if (!glob || !text_glob_literal(glob))
		return err_set(err, ERR_INVALID, "as", "an alias is for one tool, not for several or a pattern");
	memcpy(ret, alias, strlen(alias) + 1);
	return 0;
}

static int take_limits(struct command_call *c, struct grant_job *job, struct err *err)
{
	const char *alias = arg_text(c, "as");

	job->has_alias = alias || arg_flag(c, "no-alias");
	job->has_concurrency = arg_given(c, "concurrency");
	job->has_rate = arg_given(c, "rate") || arg_flag(c, "no-rate");
	job->want.concurrency = arg_uint(c, "concurrency", 0);
	job->want.rate = arg_rate(c, "rate");
	if ((alias && arg_flag(c, "no-alias")) || (arg_given(c, "rate") && arg_flag(c, "no-rate")))
		return err_set(err, ERR_INVALID, "", "an option and its --no- contradict each other");
	if (job->want.concurrency > CONCURRENCY_MAX)
		return err_set(err, ERR_LIMIT, "concurrency", "concurrency is at most %d", CONCURRENCY_MAX);
	return alias ? grant_alias(alias, job->count == 1 ? job->glob[0] : NULL, job->want.alias, err) : 0;
}

static int grant_check(struct command_call *c, struct err *err)
{
	struct grant_job *job = command_priv(c, sizeof(*job));
	const char *tenant = arg_text(c, "tenant");
	size_t n = arg_count(c, "tool");
	int rc = 0;

	c->free_priv = free_job;
	(void)snprintf(job->tenant, sizeof(job->tenant), "%s", tenant ? tenant : "");
	job->glob = mem_calloc(n + 1, sizeof(*job->glob));
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = take_glob(job, arg_nth(c, "tool", i), err);
	return rc < 0 ? rc : take_limits(c, job, err);
}

static int grant_set_check(struct command_call *c, struct err *err)
{
	const struct grant_job *job;
	int rc = grant_check(c, err);

	job = c->priv;
	if (rc == 0 && !job->has_alias && !job->has_concurrency && !job->has_rate)
		return err_set(err, ERR_INVALID, "", "nothing to set: name --as, --rate or --concurrency");
	return rc;
}

/* --- rows */

void grant_row_read(struct db_stmt *st, struct grant_row *g)
{
	size_t len;
	const char *text;

	g->id = db_col_i64(st, 0);
	text = db_col_text(st, 1, &len);
	(void)snprintf(g->glob, sizeof(g->glob), "%.*s", (int)(len < GRANT_GLOB_SIZE ? len : GRANT_GLOB_SIZE - 1), text);
	text = db_col_text(st, 2, &len);
	(void)snprintf(g->alias, sizeof(g->alias), "%.*s", (int)(len < ALIAS_MAX ? len : ALIAS_MAX), text);
	g->concurrency = (uint32_t)db_col_i64(st, 3);
	g->rate = (struct text_rate){ (uint32_t)db_col_i64(st, 4), (uint32_t)db_col_i64(st, 5) };
	g->created_us = db_col_i64(st, 6);
}

static void put_grant(struct reply *o, const char *tenant, const struct grant_row *g)
{
	reply_text(o, "tenant", tenant);
	reply_text(o, "tool", g->glob);
	reply_text(o, "alias", *g->alias ? g->alias : NULL);
	reply_rate(o, "rate", g->rate);
	if (g->concurrency)
		reply_int(o, "concurrency", g->concurrency);
	else
		reply_raw(o, "concurrency", "null", 4);
	reply_time(o, "created", (uint64_t)g->created_us);
	reply_int(o, "id", g->id);
}

static int list_tenant(struct command_call *c, struct db *db, const struct tenant_row *t, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_GRANT_LIST);
	struct grant_row g;
	int rc;

	db_bind_i64(st, 1, t->id);
	while ((rc = db_step(st, err)) == 1) {
		grant_row_read(st, &g);
		reply_row_begin(c->out);
		put_grant(c->out, t->name, &g);
		reply_row_end(c->out);
	}
	db_stmt_put(&st);
	return rc;
}

static int grant_list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct grant_job *job = c->priv;
	struct tenant_row t;
	struct db_stmt *st;
	int rc = 0;

	(void)logs;
	if (*job->tenant) {
		rc = tenant_row_find(db, job->tenant, &t, err);
		return rc < 0 ? rc : list_tenant(c, db, &t, err);
	}
	st = db_stmt_get(db, SQL_ADMIN_TENANT_LIST);
	while (rc == 0 && (rc = db_step(st, err)) == 1) {
		tenant_row_read(st, &t);
		rc = list_tenant(c, db, &t, err);
	}
	db_stmt_put(&st);
	return rc;
}

/* 1 = found. */
static int find_row(struct db *db, int64_t tenant_id, const char *glob, struct grant_row *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_GRANT_FIND);
	int rc;

	db_bind_i64(st, 1, tenant_id);
	db_bind_textz(st, 2, glob);
	rc = db_step(st, err);
	if (rc == 1)
		grant_row_read(st, ret);
	db_stmt_put(&st);
	return rc;
}

static int find_grant(struct db *db, const struct tenant_row *t, const char *glob, struct grant_row *ret,
		      struct err *err)
{
	const char *globs[64];
	char kept[NELEMS(globs)][GRANT_GLOB_SIZE];
	const char *near;
	struct db_stmt *st;
	size_t n = 0;
	int rc = find_row(db, t->id, glob, ret, err);

	if (rc != 0)
		return rc < 0 ? rc : 0;
	(void)err_set(err, ERR_NOT_FOUND, "", "grant of %s to %s: not found", glob, t->name);
	st = db_stmt_get(db, SQL_ADMIN_GRANT_LIST);
	db_bind_i64(st, 1, t->id);
	while (n < NELEMS(globs) && db_step(st, NULL) == 1) {
		struct grant_row g;

		grant_row_read(st, &g);
		memcpy(kept[n], g.glob, sizeof(g.glob));
		globs[n] = kept[n];
		n++;
	}
	db_stmt_put(&st);
	near = text_nearest(glob, globs, n);
	if (near)
		err_hint(err, "did you mean %s?", near);
	return ERR_NOT_FOUND;
}

static int record_grant(struct command_call *c, struct db *db, struct audit_logs *logs, int kind, int64_t tenant_id,
			const struct grant_row *g, struct err *err)
{
	char obj[32];

	(void)snprintf(obj, sizeof(obj), "grant/%lld", (long long)g->id);
	return command_record(c, db, logs, &(struct command_record){ .kind = kind, .tenant_id = tenant_id, .obj = obj }, err);
}

/* --- changes */

/* A grant may come before its tool; a typing error would look the same, so say it. */
static int look_for_tool(struct db *db, const char *glob, char *ret_said, size_t size, struct err *err)
{
	struct tool_row tool;
	int rc = text_glob_literal(glob) ? tool_row_find(db, glob, &tool, err) : 0;

	if (rc == ERR_NOT_FOUND)
		(void)snprintf(ret_said, size, "granted; there is no such %s yet%s%s", tool_noun(glob), *err->hint ? ", " : "",
			       err->hint);
	else
		(void)snprintf(ret_said, size, "granted");
	return rc == ERR_NOT_FOUND ? 0 : rc;
}

static int insert_grant(struct db *db, int64_t tenant_id, struct grant_row *g, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_GRANT_INSERT);
	int rc;

	g->created_us = (int64_t)clock_wall_us();
	db_bind_i64(st, 1, tenant_id);
	db_bind_textz(st, 2, g->glob);
	db_bind_textz(st, 3, g->alias);
	db_bind_i64(st, 4, g->concurrency);
	db_bind_i64(st, 5, g->rate.count);
	db_bind_i64(st, 6, g->rate.per_s);
	db_bind_i64(st, 7, g->created_us);
	rc = db_run(&st, err);
	if (rc == 0)
		g->id = db_last_id(db);
	return rc;
}

static int update_grant(struct db *db, int64_t tenant_id, const struct grant_row *g, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_GRANT_SET);

	db_bind_i64(st, 1, tenant_id);
	db_bind_i64(st, 2, g->id);
	db_bind_textz(st, 3, g->alias);
	db_bind_i64(st, 4, g->concurrency);
	db_bind_i64(st, 5, g->rate.count);
	db_bind_i64(st, 6, g->rate.per_s);
	return db_run(&st, err);
}

static int add_one(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *t,
		   const char *glob, struct err *err)
{
	const struct grant_job *job = c->priv;
	struct grant_row g = job->want, old;
	char said[256];
	int rc = look_for_tool(db, glob, said, sizeof(said), err);

	if (rc == 0)
		rc = find_row(db, t->id, glob, &old, err);
	if (rc == 1) {
		(void)err_set(err, ERR_CONFLICT, "", "%s is granted to %s already", glob, t->name);
		err_hint(err, "toolcrib grant set %s '%s' … changes its alias and limits", t->name, glob);
		return ERR_CONFLICT;
	}
	if (rc < 0)
		return rc;
	memcpy(g.glob, glob, strlen(glob) + 1);
	rc = insert_grant(db, t->id, &g, err);
	if (rc == 0)
		rc = record_grant(c, db, logs, AUDIT_GRANT_ADD, t->id, &g, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	put_grant(c->out, t->name, &g);
	reply_text(c->out, "said", said);
	reply_row_end(c->out);
	return 0;
}

int grant_drop(struct command_call *c, struct db *db, struct audit_logs *logs, int64_t tenant_id,
		   const struct grant_row *g, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_GRANT_DELETE);
	int rc;

	db_bind_i64(st, 1, tenant_id);
	db_bind_textz(st, 2, g->glob);
	rc = db_run(&st, err);
	return rc < 0 ? rc : record_grant(c, db, logs, AUDIT_GRANT_REMOVE, tenant_id, g, err);
}

int grant_store(struct command_call *c, struct db *db, struct audit_logs *logs, int64_t tenant_id,
		struct grant_row *want, struct grant_row *ret_before, enum row_stored *ret, struct err *err)
{
	struct grant_row old;
	int rc = find_row(db, tenant_id, want->glob, &old, err);
	bool known = rc == 1;

	if (rc < 0)
		return rc;
	*ret = known ? ADM_CHANGED : ADM_ADDED;
	if (known && strcmp(old.alias, want->alias) == 0 && old.concurrency == want->concurrency &&
	    old.rate.count == want->rate.count && old.rate.per_s == want->rate.per_s) {
		*ret = ADM_UNCHANGED;
		return 0;
	}
	want->id = known ? old.id : 0;
	rc = known ? update_grant(db, tenant_id, want, err) : insert_grant(db, tenant_id, want, err);
	if (rc == 0)
		rc = record_grant(c, db, logs, known ? AUDIT_GRANT_CHANGE : AUDIT_GRANT_ADD, tenant_id, want, err);
	if (known)
		*ret_before = old;
	return rc;
}

static int remove_one(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *t,
		      const char *glob, struct err *err)
{
	struct grant_row g;
	int rc = find_grant(db, t, glob, &g, err);

	if (rc == 0)
		rc = grant_drop(c, db, logs, t->id, &g, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	put_grant(c->out, t->name, &g);
	reply_row_end(c->out);
	return 0;
}

static int set_one(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *t,
		   const char *glob, struct err *err)
{
	const struct grant_job *job = c->priv;
	struct grant_row after;
	int rc = find_grant(db, t, glob, &after, err);

	if (rc < 0)
		return rc;
	if (job->has_alias)
		memcpy(after.alias, job->want.alias, sizeof(after.alias));
	if (job->has_concurrency)
		after.concurrency = job->want.concurrency;
	if (job->has_rate)
		after.rate = job->want.rate;
	rc = update_grant(db, t->id, &after, err);
	if (rc == 0)
		rc = record_grant(c, db, logs, AUDIT_GRANT_CHANGE, t->id, &after, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	put_grant(c->out, t->name, &after);
	reply_row_end(c->out);
	return 0;
}

typedef int grant_fn(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *t,
		     const char *glob, struct err *err);

static int each_glob(struct command_call *c, struct db *db, struct audit_logs *logs, grant_fn *fn, struct err *err)
{
	const struct grant_job *job = c->priv;
	struct tenant_row t;
	int rc = tenant_row_find(db, job->tenant, &t, err);

	for (size_t i = 0; i < job->count && rc == 0; i++)
		rc = fn(c, db, logs, &t, job->glob[i], err);
	return rc < 0 ? rc : command_changed_tenant(c, db, t.id, err);
}

static int grant_add_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	return each_glob(c, db, logs, add_one, err);
}

static int grant_remove_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	return each_glob(c, db, logs, remove_one, err);
}

static int grant_set_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	return each_glob(c, db, logs, set_one, err);
}

/* --- rows of the command table */

#define GLOB(macro) macro("tool", "TOOL-GLOB", COMPLETE_TOOL, \
	"A tool's name, or a pattern with * and ?; of prompts and resources with prompt: or resource: in front.")
#define ALIAS \
	OPT("as", "ALIAS", ARG_TEXT, COMPLETE_NONE, \
	    "The name that the tenant sees, of a single tool, prompt or resource.")
static const struct command_arg grant_add_args[] = {
	TENANT_WORD, GLOB(WORDS), ALIAS, RATE_OPT, CONCURRENCY_OPT, ARG_END };
static const struct command_arg grant_set_args[] = {
	TENANT_WORD, GLOB(WORD), ALIAS, FLAG("no-alias", "Show the tool under its own name."), RATE_OPT,
	FLAG("no-rate", "Remove the grant's own limit of the rate."), CONCURRENCY_OPT, ARG_END };
static const struct command_arg grant_list_args[] = { TENANT_MAYBE, ARG_END };
static const struct command_arg grant_remove_args[] = { TENANT_WORD, GLOB(WORDS), ARG_END };
static const struct command_column grant_list_cols[] = {
	COL("tenant", "TENANT"), COL("tool", "TOOL"), COL("alias", "ALIAS"), COL("rate", "RATE"),
	COL("concurrency", "CONCURRENCY"), COL_AT("created", "GRANTED"), COL_END };

const struct command grant_commands[] = {
	{ .noun = "grant", .verb = "add", .help = "Let a tenant use tools, prompts and resources",
	  .detail = "The tenant's agents are told before the command returns.  Limits may lower those of the tool, never "
		    "raise them.  A grant may come before its tool.",
	  .args = grant_add_args, .done = "%{tenant}: %{tool} %{said}", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .check = grant_check, .body = grant_add_body },
	{ .noun = "grant", .verb = "list", .help = "List grants", .args = grant_list_args, .columns = grant_list_cols,
	  .shape = ADM_TABLE, .role = ADM_READ, .own = "tenant", .where = ADM_ON_POOL,
	  .check = grant_check, .body = grant_list_body },
	{ .noun = "grant", .verb = "remove", .help = "Take grants back", .args = grant_remove_args,
	  .done = "%{tool} no longer granted to %{tenant}", .destructive = true, .role = ADM_OPERATE, .own = "tenant",
	  .where = ADM_ON_WRITER,
	  .check = grant_check, .body = grant_remove_body },
	{ .noun = "grant", .verb = "set", .help = "Change the alias and limits of a grant",
	  .detail = "What is not named stays as it is.", .args = grant_set_args,
	  .done = "grant of %{tool} to %{tenant} changed", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .check = grant_set_check, .body = grant_set_body },
	{ .noun = NULL },
};
