/* audit show: the command that prints all records of one call.  check() runs on the loop, body() on a thread of the
 * pool, with a reader of the store.  Reading is a record itself, durable before anything is shown (AUDIT A-304). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/id.h"
#include "command/rows.h"
#include "db/db.h"
#include "review/review.h"
#include "tenant/tenant.h"
#include "toolset/toolset.h"

struct audit_job {
	char tenant[64], text[80];
	uint8_t call[16];
	struct reply *out;
	const char *in_tenant;
	struct map *names;              /* pseudonym -> name, of one tenant */
	struct command_call *c;
	int64_t tenant_id;
};

static void free_job(void *priv)
{
	struct audit_job *job = priv;

	principal_names_free(&job->names);
	free(job);
}

static struct audit_job *new_job(struct command_call *c)
{
	struct audit_job *job = command_priv(c, sizeof(*job));
	const struct tenant *t = NULL;

	c->free_priv = free_job;
	job->c = c;
	job->out = c->out;
	arg_copy(c, "tenant", job->tenant, sizeof(job->tenant));
	if (*job->tenant)
		t = tenant_by_name(command_env(c)->tenants, job->tenant, strlen(job->tenant));
	if (t)
		command_record_in(c, t->id);
	return job;
}

static void put_call_id(struct reply *o, const char *name, bool has, const uint8_t id[16])
{
	char text[ID_TEXT_SIZE];

	reply_text(o, name, has ? id_format(id, text) : NULL);
}

static void put_record(struct audit_job *job, const struct audit_view *v)
{
	struct reply *o = job->out;

	reply_time(o, "time", v->ts_us);
	reply_text(o, "tenant", job->in_tenant);
	reply_text(o, "tool", v->tool);
	reply_text(o, "principal", principal_name(job->names, v->prn));
	reply_text(o, "key", v->cred);
	reply_text(o, "outcome", v->has_outcome ? audit_outcome_name(v->outcome) : NULL);
	reply_text(o, "rule", v->rule);
	reply_text(o, "transport", v->tport ? audit_tport_name(v->tport) : NULL);
	reply_text(o, "revision", v->rev);
	reply_text(o, "definition", v->tdef);
	reply_text(o, "sandbox", v->sbox);
	put_call_id(o, "call", v->has_call, v->call);
	if (v->has_prev)
		put_call_id(o, "previous", true, v->prev);
	if (v->n_req >= 0)
		reply_int(o, "request_bytes", v->n_req);
	if (v->n_res >= 0)
		reply_int(o, "result_bytes", v->n_res);
	if (v->has_xstat)
		reply_int(o, "status", v->xstat);
	if (v->sig)
		reply_int(o, "signal", v->sig);
	if (v->flags & AUDIT_FLAG_UNDELIVERED)
		reply_bool(o, "undelivered", true);
	if (v->flags & AUDIT_FLAG_NOT_EXECUTED)
		reply_bool(o, "not_executed", true);
	reply_text(o, "detail", v->detail);
}

static int audit_show_check(struct command_call *c, struct err *err)
{
	struct audit_job *job = new_job(c);

	arg_copy(c, "call", job->text, sizeof(job->text));
	if (id_parse(job->text, strlen(job->text), job->call) < 0)
		return err_set(err, ERR_INVALID, "call", "\"%.60s\" is no id of a call", job->text);
	return 0;
}

static int show_row(void *arg, const struct audit_view *v)
{
	struct audit_job *job = arg;
	const char *kind = audit_kind_name(v->kind);

	command_seen(job->c, job->tenant_id, v->idx);
	reply_row_begin(job->out);
	reply_int(job->out, "index", v->idx);
	reply_text(job->out, "kind", kind ? kind : "unknown");
	put_record(job, v);
	if (v->dur_us)
		reply_ms(job->out, "ms", v->dur_us);
	reply_row_end(job->out);
	return 0;
}

static int show_tenant(struct audit_job *job, struct db *db, const struct tenant_row *t, struct err *err)
{
	int rc = principal_names_load(db, t->id, &job->names, err);

	job->in_tenant = t->name;
	job->tenant_id = t->id;
	if (rc == 0)
		rc = audit_query_call(db, t->id, job->call, show_row, job, err);
	return rc < 0 ? rc : 0;
}

static int audit_show_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct audit_job *job = c->priv;
	struct tenant_row t;
	int rc;

	(void)logs;
	rc = tenant_row_of_call(db, job->tenant, job->call, job->text, &t, err);
	if (rc == 0)
		rc = show_tenant(job, db, &t, err);
	return rc;
}

/* --- rows of the command table */

static const struct command_arg audit_show_args[] = {
	WORD("call", "CALL", COMPLETE_NONE, "Id of the call, as in audit calls."), TENANT_OPT, ARG_END };
static const struct command_column audit_show_cols[] = {
	COL("index", "INDEX"), COL("kind", "KIND"), COL_AT("time", "TIME"), COL("tool", "TOOL"),
	COL("principal", "PRINCIPAL"), COL("outcome", "OUTCOME"), COL("rule", "RULE"), COL("sandbox", "SANDBOX"),
	COL("detail", "DETAIL"), COL_END };

const struct command show_commands[] = {
	{ .noun = "audit", .verb = "show", .help = "Show the records of a call", .args = audit_show_args,
	  .columns = audit_show_cols, .shape = ADM_TABLE, .role = ADM_AUDIT, .where = ADM_ON_POOL,
	  .record = AUDIT_AUDIT_READ,
	  .check = audit_show_check, .body = audit_show_body },
	{ .noun = NULL },
};
