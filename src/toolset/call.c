/* Command call: a tool, a prompt, or a read of a resource, as a tenant's principal, through the pipeline of agents'
 * calls; on the loop. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "audit/audit.h"
#include "backend/backend.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "call/call.h"
#include "command/rows.h"
#include "json/json.h"
#include "proto/rev.h"
#include "registry/registry.h"
#include "tenant/tenant.h"
#include "toolset/toolset.h"

struct call_job {
	struct call *call;
	struct str args_text;
};

static void free_job(void *priv)
{
	struct call_job *job = priv;

	str_fini(&job->args_text);
	free(job);
}

static void no_progress(void *arg, double done, double total, const char *note)
{
	(void)arg;
	(void)done;
	(void)total;
	(void)note;
}

static void no_log(void *arg, int level, const char *logger, json_t *data)
{
	(void)arg;
	(void)level;
	(void)logger;
	json_decref(data);
}

static int no_ask(void *arg, const json_t *requests, struct err *err)
{
	(void)arg;
	(void)requests;
	return err_set(err, ERR_CAPABILITY, "", "nobody is there to be asked");
}

static bool never_gone(void *arg)
{
	(void)arg;
	return false;
}

/* get_weather, prompt:greet, or a URI, which a tool's name cannot be. */
static enum reg_kind kind_of(const char *what, const char **ret_name)
{
	bool prompt = strcmp(tool_noun(what), "prompt") == 0;

	*ret_name = prompt ? tool_bare_name(what) : what;
	return prompt ? REG_PROMPT : strchr(what, ':') ? REG_RESOURCE : REG_TOOL;
}

static void refused(const struct command_call *c, const struct call_end *end, struct err *ret)
{
	*ret = *end->err;
	if (end->refusal == REFUSE_ARGUMENTS && end->report && end->report->count > 0) {
		refused_arguments(end->report, ret);
	} else if (end->refusal == REFUSE_UNKNOWN_TOOL) {
		const char *name;
		enum reg_kind kind = kind_of(arg_text(c, "tool"), &name);

		(void)err_set(ret, ERR_NOT_FOUND, "", "%s %.64s: tenant %s has no such %s", reg_kinds[kind].noun, name,
			      arg_text(c, "tenant"), reg_kinds[kind].noun);
		err_hint(ret, "toolcrib grant list %s shows what it may call", arg_text(c, "tenant"));
	} else if (end->refusal == REFUSE_CAPABILITY) {
		(void)err_set(ret, ERR_CAPABILITY, "", "%.64s asks its caller something, and a command cannot answer",
			      arg_text(c, "tool"));
		err_hint(ret, "call it from an MCP client that can; toolcrib tool test FILE shows the first question");
	}
}

static void call_finish(void *arg, struct call_end *end)
{
	struct command_call *c = arg;
	char id[ID_TEXT_SIZE] = "";
	struct err err;

	if (end->call_id)
		id_format(end->call_id, id);
	if (end->result) {
		put_result(c->out, id, end->result);
		json_decref(end->result->content);
		json_decref(end->result->structured);
		json_decref(end->result->meta);
		command_finish(c, NULL);
	} else if (end->requests) {
		put_questions(c->out, id, end->requests);
		json_decref(end->requests);
		command_finish(c, NULL);
	} else {
		refused(c, end, &err);
		json_decref(end->rpc_data);
		command_finish(c, &err);
	}
}

/* The definition as the tenant sees it, so that NAME=VALUE words get the types of its schema; NULL when it sees
 * none. */
static json_t *visible_definition(const struct reg_snapshot *snap, enum reg_kind kind, const char *name)
{
	const struct reg_tool *tool = reg_find(snap, kind, name, strlen(name));
	json_t *doc = NULL;

	if (!tool || jx_parse(tool->def->text, tool->def->len, &doc, NULL) < 0)
		return NULL;
	return doc;
}

/* What the handler gets: of a resource the URI and the template's variables, else what the words say. */
static int read_args(const struct command_call *c, const struct reg_snapshot *snap, enum reg_kind kind,
		     const char *name,
		     json_t **ret, struct err *err)
{
	json_t *definition;
	int rc;

	if (kind == REG_RESOURCE) {
		(void)reg_find_uri(snap, name, strlen(name), ret); /* the pipeline says that it is unknown */
		return 0;
	}
	definition = visible_definition(snap, kind, name);
	rc = tool_args(c, definition, ret, err);
	json_decref(definition);
	return rc;
}

static int call_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	static const struct call_out out = { no_progress, no_log, no_ask, never_gone, call_finish };
	const struct command_env *env = command_env(c);
	const char *name;
	enum reg_kind kind = kind_of(arg_text(c, "tool"), &name);
	struct call_job *job = command_priv(c, sizeof(*job));
	struct principal *who = NULL;
	struct reg_snapshot *snap;
	json_t *args = NULL;
	int rc = principal_named(env->tenants, arg_text(c, "tenant"), arg_text(c, "principal"), AUDIT_AUTHN_UID, &who, err);

	(void)db;
	(void)logs;
	c->free_priv = free_job;
	if (rc < 0)
		return rc;
	snap = reg_acquire(env->registry, who->tenant_id);
	rc = read_args(c, snap, kind, name, &args, err);
	if (rc < 0) {
		reg_release(env->registry, &snap);
		principal_unref(&who);
		return rc;
	}
	if (args)
		jx_write(args, &job->args_text);
	c->later = true;
	call_start(env->calls, &(struct call_req){ .who = who, .snap = snap, .kind = kind, .tool = name,
		.tool_len = strlen(name),
		.args = args, .args_text = str_text(&job->args_text), .args_len = job->args_text.len, .rev = REV_COUNT - 1,
		.tport = AUDIT_ADMIN_SOCKET }, &out, c, &job->call);
	principal_unref(&who);
	return 0;
}

/* --- rows of the command table */

static const struct command_arg call_args[] = {
	TENANT_WORD, WORD("tool", "TOOL", COMPLETE_TOOL, "The tool, as the tenant sees it; or prompt:NAME, or the URI of a "
		"resource."),
	VALUES, ARGS_OPT,
	OPT("principal", "NAME", ARG_TEXT, COMPLETE_NONE, "As this principal of the tenant."), ARG_END };

const struct command call_commands[] = {
	{ .noun = "call", .help = "Call a tool, get a prompt or read a resource as a tenant",
		.detail = "Audited and limited like any call.",
	  .args = call_args, .runs = true, .shape = ADM_CONTENT, .role = ADM_OPERATE, .where = ADM_ON_LOOP,
	  .body = call_body },
	{ .noun = NULL },
};
