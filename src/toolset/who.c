/* grant who: who of a tenant may call what.  The grants are the picture that calls are answered from, the scopes those
 * of the keys that are active, and whether one lets its holder call is asked of what decides on calls; so the list says
 * what is, and keeps no second opinion (CONSOLE 7).  The picture is copied on the loop, keys are read on the pool. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "command/rows.h"
#include "json/json.h"
#include "tenant/scope.h"

#include "toolset/toolset.h"

#define ACTIVE 1                        /* state of a principal */
#define PAIRS_MAX 1000000               /* principals by tools that are looked at */

struct who_tool { char name[REG_FULL_NAME_SIZE]; bool may; };
struct who_job {
	struct command_call *c;
	struct who_tool *tool; size_t n;
	const char *tenant;
	char principal[64]; int state; int64_t keys, pairs;     /* whose keys are being read */
};

static void free_job(void *priv)
{
	struct who_job *job = priv;

	free(job->tool);
	free(job);
}

/* A tenant that is not there has no tools; body() says so. */
static int who_check(struct command_call *c, struct err *err)
{
	const struct command_env *env = command_env(c);
	const char *name = arg_text(c, "tenant"), *glob = arg_text(c, "tool");
	const struct tenant *t = tenant_by_name(env->tenants, name, strlen(name));
	struct who_job *job = command_priv(c, sizeof(*job));
	struct reg_snapshot *snap;

	(void)err;
	c->free_priv = free_job;
	if (!t)
		return 0;
	snap = reg_acquire(env->registry, t->id);
	job->tool = mem_calloc(snap->list[REG_TOOL].count + 1, sizeof(*job->tool));
	for (size_t i = 0; i < snap->list[REG_TOOL].count; i++)
		if (!glob || text_glob(glob, snap->list[REG_TOOL].items[i].name))
			(void)snprintf(job->tool[job->n++].name, sizeof(job->tool->name), "%s",
				snap->list[REG_TOOL].items[i].name);
	reg_release(env->registry, &snap);
	return 0;
}

/* --- one principal after another, by the keys of each */

static void put_principal(struct who_job *job)
{
	json_t *tools = json_array();
	char full[130];

	for (size_t i = 0; i < job->n; i++)
		if (job->tool[i].may)
			(void)json_array_append_new(tools, json_string(job->tool[i].name));
	(void)snprintf(full, sizeof(full), "%s/%s", job->tenant, job->principal);
	reply_row_begin(job->c->out);
	reply_text(job->c->out, "principal", full);
	reply_text(job->c->out, "state", tenant_state_name(job->state));
	reply_int(job->c->out, "keys", job->keys);
	reply_json(job->c->out, "tools", tools);
	reply_row_end(job->c->out);
	json_decref(tools);
}

static int take_key(struct who_job *job, const char *text, struct err *err)
{
	struct scopes *scopes = NULL;
	int rc = text ? scopes_parse(text, strlen(text), &scopes, err) : 0;

	job->keys++;
	for (size_t i = 0; i < job->n && rc == 0; i++)
		job->tool[i].may = job->tool[i].may || scope_allows(scopes,
			(enum scope_right)reg_kinds[REG_TOOL].right, job->tool[i].name);
	scopes_unref(&scopes);
	return rc;
}

/* The statement stands at a principal, and at a key of it that is active, or at none. */
static int take_row(struct who_job *job, struct db_stmt *st, struct err *err)
{
	const char *name = db_col_text(st, 0, NULL);

	if (strcmp(job->principal, name) != 0) {
		if (*job->principal)
			put_principal(job);
		(void)snprintf(job->principal, sizeof(job->principal), "%s", name);
		job->state = (int)db_col_i64(st, 1);
		job->keys = 0;
		for (size_t i = 0; i < job->n; i++)
			job->tool[i].may = false;
	}
	job->pairs += (int64_t)job->n;
	if (job->pairs > PAIRS_MAX) {
		(void)err_set(err, ERR_LIMIT, "tool",
			"more than %d pairs of keys and tools are too many for one list", PAIRS_MAX);
		err_hint(err, "--tool, a name or a pattern, makes it shorter");
		return ERR_LIMIT;
	}
	if (db_col_i64(st, 2) == 0 || job->state != ACTIVE)
		return 0;
	return take_key(job, db_col_type(st, 3) == DB_NULL ? NULL : db_col_text(st, 3, NULL), err);
}

static int who_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct who_job *job = c->priv;
	struct tenant_row t;
	struct db_stmt *st;
	int rc = tenant_row_find(db, arg_text(c, "tenant"), &t, err);

	(void)logs;
	if (rc < 0)
		return rc;
	job->c = c;
	job->tenant = t.name;
	st = db_stmt_get(db, SQL_GRANT_WHO);
	db_bind_i64(st, 1, t.id);
	db_bind_i64(st, 2, (int64_t)clock_wall_us());
	while ((rc = db_step(st, err)) == 1) {
		rc = take_row(job, st, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	if (rc == 0 && *job->principal)
		put_principal(job);
	return rc;
}

/* --- rows of the command table */

static const struct command_arg who_args[] = {
	TENANT_WORD,
	OPT("tool", "TOOL-GLOB", ARG_TEXT, COMPLETE_TOOL, "Only tools of this name or pattern, as the tenant sees them."),
	ARG_END };
static const struct command_column who_cols[] = {
	COL("principal", "PRINCIPAL"), COL("state", "STATE"), COL("keys", "KEYS"), COL("tools", "TOOLS"), COL_END };

const struct command who_commands[] = {
	{ .noun = "grant", .verb = "who", .help = "List who may call what",
	  .detail = "Of each principal of a tenant the tools that are granted and that one of its active keys lets it call, "
		    "and how many such keys there are.  A suspended principal may call none.  What a policy decision point, a "
		    "limit or an approver says of a call is not in it, nor are persons without a row here who come with a "
		    "token.",
	  .args = who_args, .columns = who_cols, .shape = ADM_TABLE, .role = ADM_READ, .console = true, .own = "tenant",
	  .seen = "tenant", .where = ADM_ON_POOL, .check = who_check, .body = who_body },
	{ .noun = NULL },
};
