/* principal list, show, set. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/mem.h"
#include "base/text.h"
#include "call/call.h"
#include "command/rows.h"
#include "db/db.h"
#include "mcp/mcp.h"
#include "people/people.h"

enum { PRINCIPAL_ACTIVE = 1, PRINCIPAL_SUSPENDED = 2 };

struct principal_job {
	char tenant[64], name[64];
	bool suspend;
	size_t nkeys;                   /* out, as are these */
	int64_t tenant_id;
	struct adm_principal now;
};

static void put_principal(struct adm_out *o, const char *tenant, const struct adm_principal *p)
{
	char full[160];

	(void)snprintf(full, sizeof(full), "%s/%s", tenant, p->name);
	adm_put_text(o, "principal", full);
	adm_put_text(o, "tenant", tenant);
	adm_put_text(o, "name", p->name);
	adm_put_text(o, "state", adm_state_name(p->state));
	adm_put_text(o, "pseudonym", p->pseudonym);
	adm_put_time(o, "created", (uint64_t)p->created_us);
}

static int adm_principal_list_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct adm_tenant t;
	struct adm_principal p;
	struct db_stmt *st;
	int rc = adm_find_tenant(db, adm_tenant_job_name(c), &t, err);

	(void)logs;
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_ADMIN_PRINCIPAL_LIST);
	db_bind_i64(st, 1, t.id);
	while ((rc = db_step(st, err)) == 1) {
		adm_read_principal(st, &p);
		adm_row_begin(c->out);
		put_principal(c->out, t.name, &p);
		adm_row_end(c->out);
	}
	db_stmt_put(&st);
	return rc;
}

static int adm_principal_check(struct adm_call *c, struct err *err)
{
	struct principal_job *job = adm_priv(c, sizeof(*job));

	job->suspend = adm_flag(c, "suspended");
	return adm_split(adm_text(c, "principal"), job->tenant, job->name, err);
}

/* How many keys of a principal are not revoked. */
static int count_keys(struct db *db, struct principal_job *job, const struct adm_tenant *t, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_KEY_LIST);
	int rc;

	db_bind_i64(st, 1, t->id);
	while ((rc = db_step(st, err)) == 1) {
		size_t len;
		const char *name = db_col_text(st, 3, &len);

		if (!text_eq(name, len, job->name) || db_col_type(st, 8) != DB_NULL)
			continue;
		job->nkeys++;
	}
	db_stmt_put(&st);
	return rc;
}

static int adm_principal_show_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct principal_job *job = c->priv;
	struct adm_tenant t;
	struct adm_principal p;
	int rc = adm_find_tenant(db, job->tenant, &t, err);

	(void)logs;
	if (rc == 0)
		rc = adm_find_principal(db, &t, job->name, &p, err);
	if (rc == 0)
		rc = count_keys(db, job, &t, err);
	if (rc < 0)
		return rc;
	adm_row_begin(c->out);
	put_principal(c->out, t.name, &p);
	adm_put_int(c->out, "keys", (int64_t)job->nkeys);
	adm_row_end(c->out);
	return 0;
}

static int adm_principal_set_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct principal_job *job = c->priv;
	struct adm_tenant t;
	struct adm_principal p;
	struct db_stmt *st;
	char obj[64];
	int rc = adm_find_tenant(db, job->tenant, &t, err);

	if (rc == 0)
		rc = adm_find_principal(db, &t, job->name, &p, err);
	if (rc < 0)
		return rc;
	job->tenant_id = t.id;
	p.state = job->suspend ? PRINCIPAL_SUSPENDED : PRINCIPAL_ACTIVE;
	st = db_stmt_get(db, SQL_PRINCIPAL_SET_STATE);
	db_bind_i64(st, 1, t.id);
	db_bind_i64(st, 2, p.id);
	db_bind_i64(st, 3, p.state);
	rc = db_run(&st, err);
	(void)snprintf(obj, sizeof(obj), "principal/%s", p.pseudonym);
	if (rc == 0)
		rc = adm_record(c, db, logs, &(struct adm_record){ .kind = AUDIT_POLICY_CHANGE, .obj = obj,
			.prn = p.pseudonym }, err);
	if (rc == 0)
		rc = adm_changed_people(c, db, t.id, err);
	job->now = p;
	return rc;
}

/* Whatever is the principal's ends; its next request is refused. */
static void adm_principal_set_after(struct adm_call *c)
{
	const struct principal_job *job = c->priv;
	const struct call_where whose = { .tenant_id = job->tenant_id, .principal_id = job->now.id };
	struct mcp_ended ended = { 0 };

	if (job->suspend)
		adm_put_out(c, &whose, true, &ended);
	adm_row_begin(c->out);
	put_principal(c->out, job->tenant, &job->now);
	adm_put_int(c->out, "calls", (int64_t)ended.calls);
	adm_put_int(c->out, "connections", (int64_t)ended.peers);
	adm_row_end(c->out);
}

/* --- rows of the command table */

static const struct adm_arg tenant_args[] = { TENANT_WORD, ARG_END };
static const struct adm_arg principal_args[] = { PRINCIPAL_WORD, ARG_END };
static const struct adm_arg principal_set_args[] = {
	PRINCIPAL_WORD, NEED("suspended", "yes|no", ARG_YESNO, COMPLETE_NONE, "Whether its keys are refused."), ARG_END };
static const struct adm_column principal_list_cols[] = {
	COL("principal", "PRINCIPAL"), COL("state", "STATE"), COL("pseudonym", "PSEUDONYM"), COL_AT("created", "CREATED"),
	COL_END };
static const struct adm_column principal_cols[] = {
	COL("principal", "Principal"), COL("state", "State"), COL("pseudonym", "Pseudonym"), COL("keys", "Keys"),
	COL_AT("created", "Created"), COL_END };

const struct adm_cmd principal_commands[] = {
	{ .noun = "principal", .verb = "list", .help = "List the principals of a tenant", .args = tenant_args,
	  .columns = principal_list_cols, .shape = ADM_TABLE, .role = ADM_READ, .own = "tenant", .where = ADM_ON_POOL,
	  .check = adm_tenant_name_check, .body = adm_principal_list_body },
	{ .noun = "principal", .verb = "show", .help = "Show a principal", .args = principal_args, .columns = principal_cols,
	  .shape = ADM_ITEM, .role = ADM_READ, .own = "principal", .where = ADM_ON_POOL,
	  .check = adm_principal_check, .body = adm_principal_show_body },
	{ .noun = "principal", .verb = "set", .help = "Suspend a principal or let it in again",
	  .detail = "What a suspended one has open ends as with tenant suspend.", .args = principal_set_args,
	  .done = "principal %{tenant}/%{name} is %{state}", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .check = adm_principal_check, .body = adm_principal_set_body, .after = adm_principal_set_after },
	{ .noun = NULL },
};
