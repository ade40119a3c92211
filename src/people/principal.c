/* Principals, who the keys of a tenant belong to: the commands principal list, show and set.  check() runs on the loop
 * thread and parses; body() runs on the writer's, or on the pool's where it only reads, and reads the arguments itself;
 * after() runs on the loop once the rows are durable, and ends what a suspended principal has open. */
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

struct principal_set {                  /* what body() leaves for after() */
	struct tenant_row tenant;
	struct principal_row now;
};

/* Into the open row of the answer. */
static void put_principal(struct reply *o, const char *tenant, const struct principal_row *p)
{
	char full[160];

	(void)snprintf(full, sizeof(full), "%s/%s", tenant, p->name);
	reply_text(o, "principal", full);
	reply_text(o, "tenant", tenant);
	reply_text(o, "name", p->name);
	reply_text(o, "state", tenant_state_name(p->state));
	reply_text(o, "pseudonym", p->pseudonym);
	reply_text(o, "system", *p->system ? p->system : NULL);
	reply_time(o, "created", (uint64_t)p->created_us);
}

static int principal_list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct tenant_row t;
	struct principal_row p;
	struct db_stmt *st;
	int rc = tenant_row_find(db, arg_text(c, "tenant"), &t, err);

	(void)logs;
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_ADMIN_PRINCIPAL_LIST);
	db_bind_i64(st, 1, t.id);
	while ((rc = db_step(st, err)) == 1) {
		principal_row_read(st, &p);
		reply_row_begin(c->out);
		put_principal(c->out, t.name, &p);
		reply_row_end(c->out);
	}
	db_stmt_put(&st);
	return rc;
}

static int principal_name_check(struct command_call *c, struct err *err)
{
	char tenant[64], name[64];

	return arg_split(arg_text(c, "principal"), tenant, name, err);
}

static int principal_set_check(struct command_call *c, struct err *err)
{
	(void)command_priv(c, sizeof(struct principal_set));
	if (!arg_given(c, "suspended") && !arg_given(c, "system"))
		return err_set(err, ERR_INVALID, "", "say --suspended or --system");
	return principal_name_check(c, err);
}

static int find_principal(struct command_call *c, struct db *db, struct tenant_row *ret_tenant,
			  struct principal_row *ret, struct err *err)
{
	char tenant[64], name[64];
	int rc = arg_split(arg_text(c, "principal"), tenant, name, err);

	if (rc == 0)
		rc = tenant_row_find(db, tenant, ret_tenant, err);
	return rc < 0 ? rc : principal_row_find(db, ret_tenant, name, ret, err);
}

/* How many keys of a principal are not revoked. */
static int count_keys(struct db *db, int64_t tenant_id, const char *principal, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_KEY_LIST);
	int rc;

	db_bind_i64(st, 1, tenant_id);
	while ((rc = db_step(st, err)) == 1) {
		size_t len;
		const char *name = db_col_text(st, 3, &len);

		*ret += text_eq(name, len, principal) && db_col_type(st, 8) == DB_NULL;
	}
	db_stmt_put(&st);
	return rc;
}

static int principal_show_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct tenant_row t;
	struct principal_row p;
	int64_t nkeys = 0;
	int rc = find_principal(c, db, &t, &p, err);

	(void)logs;
	if (rc == 0)
		rc = count_keys(db, t.id, p.name, &nkeys, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	put_principal(c->out, t.name, &p);
	reply_int(c->out, "keys", nkeys);
	reply_row_end(c->out);
	return 0;
}

/* An empty name: it is none any more. */
static int set_system(struct db *db, const struct tenant_row *t, struct principal_row *p, const char *name,
		      struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SYSTEM_FIND);
	int64_t id = 0;
	int rc;

	db_bind_i64(st, 1, t->id);
	db_bind_textz(st, 2, name);
	rc = db_step(st, err);
	if (rc == 1)
		id = db_col_i64(st, 0);
	db_stmt_put(&st);
	if (rc == 0 && *name) {
		(void)err_set(err, ERR_NOT_FOUND, "system", "system %s/%.64s: not found", t->name, name);
		err_hint(err, "toolcrib system list --tenant %s", t->name);
		return ERR_NOT_FOUND;
	}
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_SYSTEM_SET_PRINCIPAL);
	db_bind_i64(st, 1, t->id);
	db_bind_i64(st, 2, p->id);
	if (id > 0)
		db_bind_i64(st, 3, id);
	else
		db_bind_null(st, 3);
	(void)snprintf(p->system, sizeof(p->system), "%s", name);
	return db_run(&st, err);
}

static int set_state(struct db *db, const struct tenant_row *t, struct principal_row *p, bool suspended,
		     struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_PRINCIPAL_SET_STATE);

	p->state = suspended ? PRINCIPAL_SUSPENDED : PRINCIPAL_ACTIVE;
	db_bind_i64(st, 1, t->id);
	db_bind_i64(st, 2, p->id);
	db_bind_i64(st, 3, p->state);
	return db_run(&st, err);
}

static int principal_set_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct principal_set *set = c->priv;
	struct principal_row *p = &set->now;
	char obj[64];
	int rc = find_principal(c, db, &set->tenant, p, err);

	if (rc == 0 && arg_given(c, "suspended"))
		rc = set_state(db, &set->tenant, p, arg_flag(c, "suspended"), err);
	if (rc == 0 && arg_given(c, "system"))
		rc = set_system(db, &set->tenant, p, arg_text(c, "system"), err);
	if (rc < 0)
		return rc;
	(void)snprintf(obj, sizeof(obj), "principal/%s", p->pseudonym);
	if (rc == 0)
		rc = command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_POLICY_CHANGE, .obj = obj,
			.prn = p->pseudonym }, err);
	return rc < 0 ? rc : command_changed_people(c, db, set->tenant.id, err);
}

/* Whatever is the principal's ends; its next request is refused. */
static void principal_set_after(struct command_call *c)
{
	const struct principal_set *set = c->priv;
	const struct call_where whose = { .tenant_id = set->tenant.id, .principal_id = set->now.id };
	struct mcp_ended ended = { 0 };

	if (set->now.state == PRINCIPAL_SUSPENDED && arg_given(c, "suspended"))
		people_end_where(c, &whose, true, &ended);
	reply_row_begin(c->out);
	put_principal(c->out, set->tenant.name, &set->now);
	reply_int(c->out, "calls", (int64_t)ended.calls);
	reply_int(c->out, "connections", (int64_t)ended.peers);
	reply_row_end(c->out);
}

/* --- rows of the command table */

static const struct command_arg tenant_args[] = { TENANT_WORD, ARG_END };
static const struct command_arg principal_args[] = { PRINCIPAL_WORD, ARG_END };
static const struct command_arg principal_set_args[] = {
	PRINCIPAL_WORD, OPT("suspended", "yes|no", ARG_YESNO, COMPLETE_NONE, "Whether its keys are refused."),
	OPT("system", "NAME", ARG_TEXT, COMPLETE_NONE, "Which AI system of the tenant it is, see system add; empty: none."),
	ARG_END };
static const struct command_column principal_list_cols[] = {
	COL("principal", "PRINCIPAL"), COL("state", "STATE"), COL("pseudonym", "PSEUDONYM"),
	COL_AT("created", "CREATED"), COL_END };
static const struct command_column principal_cols[] = {
	COL("principal", "Principal"), COL("state", "State"), COL("pseudonym", "Pseudonym"),
	COL_IF("system", "System"), COL("keys", "Keys"),
	COL_AT("created", "Created"), COL_END };

const struct command principal_commands[] = {
	{ .noun = "principal", .verb = "list", .help = "List the principals of a tenant", .args = tenant_args,
	  .columns = principal_list_cols, .shape = ADM_TABLE, .role = ADM_READ, .console = true, .own = "tenant",
	  .seen = "tenant",
	  .where = ADM_ON_POOL, .body = principal_list_body },
	{ .noun = "principal", .verb = "show", .help = "Show a principal", .args = principal_args,
	  .columns = principal_cols, .shape = ADM_ITEM, .role = ADM_READ, .own = "principal", .where = ADM_ON_POOL,
	  .check = principal_name_check, .body = principal_show_body },
	{ .noun = "principal", .verb = "set", .help = "Suspend a principal, let it in again, or say which AI system it is",
	  .detail = "What a suspended one has open ends as with tenant suspend.", .args = principal_set_args,
	  .done = "principal %{tenant}/%{name} is %{state}", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .check = principal_set_check, .body = principal_set_body, .after = principal_set_after },
	{ .noun = NULL },
};
