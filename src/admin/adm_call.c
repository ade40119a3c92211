/* call: a tool as a tenant's principal, through the same pipeline as any agent's call. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "audit/audit.h"
#include "backend/backend.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "call/call.h"
#include "json/json.h"
#include "proto/rev.h"
#include "registry/registry.h"
#include "tenant/tenant.h"

#include "adm_commands.h"
#include "admin_int.h"

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

static void refused(const struct adm_call *c, const struct call_end *end, struct err *ret)
{
	*ret = *end->err;
	if (end->refusal == REFUSE_ARGUMENTS && end->report && end->report->count > 0) {
		adm_refused_arguments(end->report, ret);
	} else if (end->refusal == REFUSE_UNKNOWN_TOOL) {
		(void)err_set(ret, ERR_NOT_FOUND, "", "tool %.64s: tenant %s has no such tool", adm_text(c, "tool"),
			      adm_text(c, "tenant"));
		err_hint(ret, "toolcrib grant list %s shows what it may call", adm_text(c, "tenant"));
	} else if (end->refusal == REFUSE_CAPABILITY) {
		(void)err_set(ret, ERR_CAPABILITY, "", "tool %.64s asks its caller something, and a command cannot answer",
			      adm_text(c, "tool"));
		err_hint(ret, "call it from an MCP client that can; toolcrib tool test FILE shows the first question");
	}
}

static void call_finish(void *arg, struct call_end *end)
{
	struct adm_call *c = arg;
	char id[ID_TEXT_SIZE] = "";
	struct err err;

	if (end->call_id)
		id_format(end->call_id, id);
	if (end->result) {
		adm_put_result(c->out, id, end->result);
		json_decref(end->result->content);
		json_decref(end->result->structured);
		json_decref(end->result->meta);
		adm_finish(c, NULL);
	} else if (end->requests) {
		adm_put_questions(c->out, id, end->requests);
		json_decref(end->requests);
		adm_finish(c, NULL);
	} else {
		refused(c, end, &err);
		json_decref(end->rpc_data);
		adm_finish(c, &err);
	}
}

/* The definition as the tenant sees it, so that NAME=VALUE words get the types of its schema; NULL when it sees none. */
static json_t *visible_definition(const struct reg_snapshot *snap, const char *name)
{
	const struct reg_tool *tool = reg_find(snap, REG_TOOL, name, strlen(name));
	json_t *doc = NULL;

	if (!tool || jx_parse(tool->def->text, tool->def->len, &doc, NULL) < 0)
		return NULL;
	return doc;
}

int adm_call_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	static const struct call_out out = { no_progress, no_log, no_ask, never_gone, call_finish };
	const struct admin_env *env = &c->admin->env;
	const char *tool = adm_text(c, "tool");
	struct call_job *job = adm_priv(c, sizeof(*job));
	struct principal *who = NULL;
	struct reg_snapshot *snap;
	json_t *args = NULL, *definition;
	int rc = principal_named(env->tenants, adm_text(c, "tenant"), adm_text(c, "principal"), AUDIT_AUTHN_UID, &who, err);

	(void)db;
	(void)logs;
	c->free_priv = free_job;
	if (rc < 0)
		return rc;
	snap = reg_acquire(env->registry, who->tenant_id);
	definition = visible_definition(snap, tool);
	rc = adm_tool_args(c, definition, &args, err);
	json_decref(definition);
	if (rc < 0) {
		reg_release(env->registry, &snap);
		principal_unref(&who);
		return rc;
	}
	jx_write(args, &job->args_text);
	c->later = true;
	call_start(env->calls, &(struct call_req){ .who = who, .snap = snap, .tool = tool, .tool_len = strlen(tool),
		.args = args, .args_text = str_text(&job->args_text), .args_len = job->args_text.len, .rev = REV_COUNT - 1,
		.tport = AUDIT_ADMIN_SOCKET }, &out, c, &job->call);
	principal_unref(&who);
	return 0;
}
