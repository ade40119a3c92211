/* Commands on tenants: add, list, show, set, suspend, resume, remove.  check() on the loop refuses what is out of
 * range, the bodies read or change the rows on the pool or the writer, and after() ends on the loop what a tenant
 * that is out has running.  Documents store tenants through the same functions. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "backend/backend.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "call/call.h"
#include "command/rows.h"
#include "db/db.h"
#include "ev/child.h"
#include "limit/limit.h"
#include "mcp/mcp.h"
#include "people/people.h"
#include "tenant/tenant.h"

#define TITLE_MAX 200                   /* bytes */
#define CONCURRENCY_MAX 100000

struct state_job { int64_t tenant_id; int state; };     /* what the body changed, for after() */

int tenant_title(const char *title, char ret[256], struct err *err)
{
	char shown[TITLE_MAX * 2];

	if (strlen(title) > TITLE_MAX)
		return err_set(err, ERR_LIMIT, "title", "the title is longer than %d bytes", TITLE_MAX);
	text_printable(title, strlen(title), shown, sizeof(shown));
	if (strncmp(shown, title, sizeof(shown)) != 0)
		return err_set(err, ERR_INVALID, "title", "the title has invisible or control characters");
	memcpy(ret, title, strlen(title) + 1);
	return 0;
}

int tenant_sandbox(const char *level, char ret[64], struct err *err)
{
	int rc = *level ? backend_level_check(level, err) : 0;

	if (rc == 0)
		(void)snprintf(ret, 64, "%s", level);
	return rc;
}

static int check_settings(const struct command_call *c, struct err *err)
{
	const char *title = arg_text(c, "title"), *sandbox = arg_text(c, "sandbox");
	char text[256];

	if (arg_uint(c, "concurrency", 0) > CONCURRENCY_MAX)
		return err_set(err, ERR_LIMIT, "concurrency", "concurrency is at most %d", CONCURRENCY_MAX);
	if (sandbox && tenant_sandbox(sandbox, text, err) < 0) {
		err_at(err, "sandbox");
		return ERR_INVALID;
	}
	return title ? tenant_title(title, text, err) : 0;
}

/* What was given of them. */
static void take_settings(const struct command_call *c, struct tenant_row *t)
{
	if (arg_given(c, "title"))
		arg_copy(c, "title", t->title, sizeof(t->title));
	if (arg_given(c, "concurrency"))
		t->concurrency = arg_uint(c, "concurrency", 0);
	if (arg_given(c, "rate") || arg_flag(c, "no-rate"))
		t->rate = arg_rate(c, "rate");
	if (arg_given(c, "sandbox"))
		arg_copy(c, "sandbox", t->sandbox, sizeof(t->sandbox));
}

int tenant_new_name(const char *name, struct err *err)
{
	if (text_entity_name(name, strlen(name)))
		return 0;
	(void)err_set(err, ERR_INVALID, "name", "\"%.80s\" is no name of a tenant", name);
	err_hint(err, "lower-case letters, digits and _ . -, at most 63, beginning with a letter or digit");
	return ERR_INVALID;
}

static int tenant_add_check(struct command_call *c, struct err *err)
{
	int rc = tenant_new_name(arg_text(c, "name"), err);

	return rc < 0 ? rc : check_settings(c, err);
}

static int insert_tenant(struct db *db, const struct tenant_row *t, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TENANT_INSERT);
	int rc;

	db_bind_textz(st, 1, t->name);
	db_bind_textz(st, 2, t->title);
	db_bind_i64(st, 3, t->concurrency);
	db_bind_i64(st, 4, t->rate.count);
	db_bind_i64(st, 5, t->rate.per_s);
	db_bind_i64(st, 6, (int64_t)clock_wall_us());
	db_bind_textz(st, 7, t->sandbox);
	rc = db_run(&st, err);
	if (rc == ERR_CONFLICT)
		return err_set(err, ERR_CONFLICT, "", "tenant %s exists already", t->name);
	return rc;
}

static int record_tenant(struct command_call *c, struct db *db, struct audit_logs *logs, int kind, const char *name,
			 struct err *err)
{
	char obj[96];

	(void)snprintf(obj, sizeof(obj), "tenant/%.64s", name);
	return command_record(c, db, logs, &(struct command_record){ .kind = kind, .obj = obj }, err);
}

/* The row and what belongs to it from the beginning. */
static int create_tenant(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *want,
			 struct tenant_row *ret, struct err *err)
{
	struct principal_row p;
	int rc = insert_tenant(db, want, err);

	if (rc == 0)
		rc = tenant_row_find(db, want->name, ret, err);
	if (rc == 0)
		rc = limit_write(db, ret->id, TENANT_SCOPE_TENANT, 0, &want->more, err);
	if (rc == 0)    /* who calls without a key: toolcrib call, a bound listener, stdio with --tenant */
		rc = principal_row_add(db, ret, "default", &p, err);
	if (rc == 0)
		rc = audit_log_create(logs, db, ret->id, ret->name, err);
	return rc < 0 ? rc : record_tenant(c, db, logs, AUDIT_TENANT_CREATE, ret->name, err);
}

static int tenant_add_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct tenant_row want = { .id = 0 }, t;
	int rc;

	arg_copy(c, "name", want.name, sizeof(want.name));
	take_settings(c, &want);
	rc = create_tenant(c, db, logs, &want, &t, err);
	if (rc == 0)
		rc = command_changed_people(c, db, t.id, err);
	if (rc == 0)
		rc = command_changed_tenant(c, db, t.id, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_text(c->out, "name", t.name);
	reply_row_end(c->out);
	return 0;
}

/* --- reading */

static void put_tenant(struct reply *o, const struct tenant_row *t)
{
	reply_text(o, "name", t->name);
	reply_text(o, "title", *t->title ? t->title : NULL);
	reply_text(o, "state", tenant_state_name(t->state));
	reply_int(o, "concurrency", t->concurrency ? t->concurrency : TENANT_CONCURRENCY_DEFAULT);
	reply_rate(o, "rate", t->rate);
	reply_text(o, "sandbox", *t->sandbox ? t->sandbox : NULL);
	reply_int(o, "generation", t->generation);
	reply_time(o, "created", (uint64_t)t->created_us);
}

static int tenant_list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_TENANT_LIST);
	struct tenant_row t;
	int rc;

	(void)logs;
	while ((rc = db_step(st, err)) == 1) {
		tenant_row_read(st, &t);
		reply_row_begin(c->out);
		put_tenant(c->out, &t);
		reply_row_end(c->out);
	}
	db_stmt_put(&st);
	return rc;
}

/* --- budgets (HARDENING F-10): what one tenant may take at most, each counted where it is taken and refused there */

enum {
	BUDGET_CALLS, BUDGET_QUEUE, BUDGET_QUERIES, BUDGET_CONNECTIONS, BUDGET_SESSIONS, BUDGET_AUDIT, BUDGET_RESULTS,
	BUDGET_BODIES, BUDGET_SCRATCH, BUDGET_PRINCIPALS, BUDGET_KEYS, BUDGET_GRANTS, BUDGETS
};
static const struct { const char *name, *unit, *refused, *changed_by; } budgets[BUDGETS] = {
	[BUDGET_CALLS] = { "calls", "calls that run", "its calls that cannot wait", "tenant set --concurrency" },
	[BUDGET_QUEUE] = { "queue", "calls that wait", "its calls", "limits.tenant_queue, limit set --queue" },
	[BUDGET_QUERIES] = { "queries", "queries of sql tools that run", "nothing: they wait in turn", "nothing" },
	[BUDGET_CONNECTIONS] = { "connections", "connections", "its new connections", "connections.per_tenant" },
	[BUDGET_SESSIONS] = { "sessions", "sessions over HTTP", "new ones, if none of the old is idle", "session kill" },
	[BUDGET_AUDIT] = { "audit", "bytes recorded today", "its messages, until midnight UTC", "budgets.audit_per_tenant" },
	[BUDGET_RESULTS] = { "results", "bytes of arguments and results of calls", "its calls",
			     "budgets.results_per_tenant" },
	[BUDGET_BODIES] = { "bodies", "bytes of messages that have not come whole", "such messages",
			    "budgets.bodies_per_tenant" },
	[BUDGET_SCRATCH] = { "scratch", "bytes of own directories of its programs", "its programs; the largest is ended",
			     "budgets.scratch_per_tenant" },
	[BUDGET_PRINCIPALS] = { "principals", "principals", "key create and key enroll for new ones", "nothing: they stay" },
	[BUDGET_KEYS] = { "keys", "keys that are not revoked", "key create, rotate and enroll", "key revoke" },
	[BUDGET_GRANTS] = { "grants", "grants", "grant add", "grant remove" },
};
struct budget { uint64_t used, allowed; };      /* allowed 0: any */

static void see_running(const struct command_env *env, const struct tenant *t, struct budget b[BUDGETS])
{
	const struct tenant_limits *set = tenant_limits(env->tenants, t->id, TENANT_SCOPE_TENANT, 0);
	const struct limit_view v = limit_see(env->limiter, LIMIT_TENANT, t->id, 0, clock_wall_us());
	struct command_taken taken = { 0 };

	if (env->taken)
		env->taken(env->arg, t->id, &taken);
	b[BUDGET_CALLS] = (struct budget){ v.running, t->concurrency };
	b[BUDGET_QUEUE] = (struct budget){ v.waiting, set && set->queue ? set->queue : env->tenant_queue };
	b[BUDGET_QUERIES] = (struct budget){ taken.queries, taken.queries_max };
	b[BUDGET_CONNECTIONS] = (struct budget){ taken.connections, taken.connections_max };
	b[BUDGET_SESSIONS] = (struct budget){ env->mcp ? mcp_sessions(env->mcp, t->id) : 0, MCP_SESSIONS_MAX };
	b[BUDGET_BODIES] = (struct budget){ taken.bodies, taken.bodies_max };
	b[BUDGET_SCRATCH].used = ev_child_bytes(env->loop, ev_child_number(t->id), &b[BUDGET_SCRATCH].allowed);
}

/* On the loop: what is counted there. */
static int tenant_show_check(struct command_call *c, struct err *err)
{
	const struct command_env *env = command_env(c);
	const char *name = arg_text(c, "tenant");
	const struct tenant *t = tenant_by_name(env->tenants, name, strlen(name));
	struct budget *b = command_priv(c, BUDGETS * sizeof(*b));
	struct limit_view day;

	(void)err;
	b[BUDGET_AUDIT].allowed = limiter_conf(env->limiter)->tenant_audit;
	b[BUDGET_RESULTS].allowed = limiter_conf(env->limiter)->tenant_bytes;
	if (!t)
		return 0;               /* suspended, or the body says that there is none */
	day = limit_see(env->limiter, LIMIT_AUDIT, t->id, 0, clock_wall_us());
	b[BUDGET_AUDIT].used = day.bytes;
	b[BUDGET_RESULTS].used = limit_see(env->limiter, LIMIT_TENANT, t->id, 0, clock_wall_us()).memory;
	see_running(env, t, b);
	return 0;
}

/* For people a line each, for programs a list. */
static void put_budgets(struct reply *o, const struct budget b[BUDGETS])
{
	json_t *list = json_array();
	char name[32], text[160];

	for (unsigned i = 0; i < BUDGETS; i++) {
		(void)snprintf(name, sizeof(name), "budget_%s", budgets[i].name); /* short words of ours */
		if (b[i].allowed)
			(void)snprintf(text, sizeof(text), "%" PRIu64 " of %" PRIu64 " %s", b[i].used, b[i].allowed,
				       budgets[i].unit);
		else
			(void)snprintf(text, sizeof(text), "%" PRIu64 " %s", b[i].used, budgets[i].unit);
		reply_text(o, name, text);
		(void)json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:s, s:s, s:s}", "name", budgets[i].name,
			"used", (json_int_t)b[i].used, "allowed", (json_int_t)b[i].allowed, "unit", budgets[i].unit,
			"refused", budgets[i].refused, "changed_by", budgets[i].changed_by));
	}
	reply_json(o, "budgets", list);
	json_decref(list);
}

static int tenant_show_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct budget *b = c->priv;
	struct tenant_row t;
	struct db_stmt *st;
	int rc = tenant_row_find(db, arg_text(c, "tenant"), &t, err);

	(void)logs;
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_ADMIN_TENANT_COUNTS);
	db_bind_i64(st, 1, t.id);
	rc = db_step(st, err);
	if (rc == 1) {
		reply_row_begin(c->out);
		put_tenant(c->out, &t);
		reply_int(c->out, "principals", db_col_i64(st, 0));
		reply_int(c->out, "keys", db_col_i64(st, 1));
		reply_int(c->out, "grants", db_col_i64(st, 2));
		b[BUDGET_PRINCIPALS] = (struct budget){ (uint64_t)db_col_i64(st, 0), TENANT_PRINCIPALS_MAX };
		b[BUDGET_KEYS] = (struct budget){ (uint64_t)db_col_i64(st, 1), TENANT_KEYS_MAX };
		b[BUDGET_GRANTS] = (struct budget){ (uint64_t)db_col_i64(st, 2), TENANT_GRANTS_MAX };
		put_budgets(c->out, b);
		reply_row_end(c->out);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* --- changing */

static int tenant_set_check(struct command_call *c, struct err *err)
{
	if (!arg_given(c, "title") && !arg_given(c, "concurrency") && !arg_given(c, "rate") && !arg_flag(c, "no-rate") &&
	    !arg_given(c, "sandbox"))
		return err_set(err, ERR_INVALID, "",
			       "nothing to set: name --title, --concurrency, --rate, --no-rate or --sandbox");
	if (arg_given(c, "rate") && arg_flag(c, "no-rate"))
		return err_set(err, ERR_INVALID, "rate", "--rate and --no-rate contradict each other");
	return check_settings(c, err);
}

int tenant_write(struct db *db, const struct tenant_row *after, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_TENANT_SET);
	int rc;

	db_bind_i64(st, 1, after->id);
	db_bind_textz(st, 2, after->title);
	db_bind_i64(st, 3, after->concurrency);
	db_bind_i64(st, 4, after->rate.count);
	db_bind_i64(st, 5, after->rate.per_s);
	db_bind_textz(st, 6, after->sandbox);
	rc = db_run(&st, err);
	return rc < 0 ? rc : limit_write(db, after->id, TENANT_SCOPE_TENANT, 0, &after->more, err);
}

static int update_tenant(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *after,
			 struct err *err)
{
	int rc = tenant_write(db, after, err);

	return rc < 0 ? rc : record_tenant(c, db, logs, AUDIT_TENANT_CHANGE, after->name, err);
}

static int tenant_set_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct tenant_row after;
	int rc = tenant_row_find(db, arg_text(c, "tenant"), &after, err);

	if (rc < 0)
		return rc;
	take_settings(c, &after);
	rc = update_tenant(c, db, logs, &after, err);
	if (rc == 0)
		rc = command_changed_people(c, db, after.id, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	put_tenant(c->out, &after);
	reply_row_end(c->out);
	return 0;
}

static int remove_rows(struct db *db, int64_t tenant_id, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_GRANT_DELETE_ALL);
	int rc;

	db_bind_i64(st, 1, tenant_id);
	rc = db_run(&st, err);
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_ADMIN_KEY_REVOKE_ALL);
	db_bind_i64(st, 1, tenant_id);
	db_bind_i64(st, 2, (int64_t)clock_wall_us());
	rc = db_run(&st, err);
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_ADMIN_TENANT_REMOVE);
	db_bind_i64(st, 1, tenant_id);
	return db_run(&st, err);
}

static int set_state(struct db *db, int64_t tenant_id, int state, struct err *err)
{
	struct db_stmt *st;

	if (state == TENANT_REMOVED)
		return remove_rows(db, tenant_id, err);
	st = db_stmt_get(db, SQL_TENANT_SET_STATE);
	db_bind_i64(st, 1, tenant_id);
	db_bind_i64(st, 2, state);
	return db_run(&st, err);
}

int tenant_change_state(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *before,
			    int state, struct err *err)
{
	static const int kinds[] = { [TENANT_ACTIVE] = AUDIT_TENANT_RESUME, [TENANT_SUSPENDED] = AUDIT_TENANT_SUSPEND,
		[TENANT_REMOVED] = AUDIT_TENANT_DELETE };
	int rc = set_state(db, before->id, state, err);

	return rc < 0 ? rc : record_tenant(c, db, logs, kinds[state], before->name, err);
}

static bool same_settings(const struct tenant_row *a, const struct tenant_row *b)
{
	return strcmp(a->title, b->title) == 0 && a->concurrency == b->concurrency && a->rate.count == b->rate.count &&
	       a->rate.per_s == b->rate.per_s && strcmp(a->sandbox, b->sandbox) == 0 && limit_same(&a->more, &b->more);
}

/* What a document leaves out is as if it had never been set; state 0: as it is. */
int tenant_store(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *want,
		     struct tenant_row *ret_before, struct tenant_row *ret, enum row_stored *ret_what, struct err *err)
{
	struct tenant_row old, now;
	struct err ignored;
	int rc = tenant_row_find(db, want->name, &old, &ignored);
	bool known = rc == 0;

	if (rc == ERR_NOT_FOUND)
		rc = create_tenant(c, db, logs, want, &old, err);
	else if (rc < 0)
		return err_set(err, rc, ignored.where, "%s", ignored.msg);
	if (rc < 0)
		return rc;
	now = *want;
	now.id = old.id;
	now.state = old.state;
	*ret_what = known ? ADM_UNCHANGED : ADM_ADDED;
	if (known && !same_settings(&old, &now)) {
		*ret_what = ADM_CHANGED;
		rc = update_tenant(c, db, logs, &now, err);
	}
	if (rc == 0 && want->state && want->state != old.state) {
		*ret_what = known ? ADM_CHANGED : ADM_ADDED;
		rc = tenant_change_state(c, db, logs, &now, want->state, err);
		now.state = want->state;
	}
	*ret_before = old;
	*ret = now;
	return rc;
}

static void put_state(struct command_call *c, int state, const struct mcp_ended *ended)
{
	reply_row_begin(c->out);
	reply_text(c->out, "name", arg_text(c, "tenant"));
	reply_text(c->out, "state", tenant_state_name(state));
	reply_int(c->out, "calls", (int64_t)ended->calls);
	reply_int(c->out, "connections", (int64_t)ended->peers);
	reply_row_end(c->out);
}

static int change_state(struct command_call *c, struct db *db, struct audit_logs *logs, int state, struct err *err)
{
	struct state_job *job = command_priv(c, sizeof(*job));
	struct tenant_row before;
	int rc = tenant_row_find(db, arg_text(c, "tenant"), &before, err);

	if (rc < 0)
		return rc;
	if (before.state == state)
		return err_set(err, ERR_CONFLICT, "", "tenant %s is %s already", before.name, tenant_state_name(state));
	rc = tenant_change_state(c, db, logs, &before, state, err);
	if (rc == 0)
		rc = command_changed_people(c, db, before.id, err);
	if (rc == 0)
		rc = command_changed_tenant(c, db, before.id, err);
	if (rc < 0)
		return rc;
	*job = (struct state_job){ .tenant_id = before.id, .state = state };
	if (state == TENANT_ACTIVE)
		put_state(c, state, &(struct mcp_ended){ 0 });
	return 0;
}

static int tenant_suspend_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	return change_state(c, db, logs, TENANT_SUSPENDED, err);
}

static int tenant_resume_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	return change_state(c, db, logs, TENANT_ACTIVE, err);
}

static int tenant_remove_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	return change_state(c, db, logs, TENANT_REMOVED, err);
}

/* Suspended or removed: nobody of the tenant is served any more when the command returns (SEC S-306). */
void people_end_tenant(struct command_call *c, int64_t tenant_id, struct mcp_ended *ret)
{
	people_end_where(c, &(struct call_where){ .tenant_id = tenant_id }, true, ret);
}

static void tenant_out_after(struct command_call *c)
{
	const struct state_job *job = c->priv;
	struct mcp_ended ended;

	people_end_tenant(c, job->tenant_id, &ended);
	put_state(c, job->state, &ended);
}

/* --- rows of the command table */

#define SANDBOX_OPT OPT("sandbox", "LEVEL", ARG_TEXT, COMPLETE_NONE, \
	"The least confinement of its tools' processes, as in toolcrib-run(8), beside what else requires one; empty: none.")
static const struct command_arg tenant_add_args[] = {
	WORD("name", "NAME", COMPLETE_NONE, "Lower-case letters, digits and _ . -, at most 63."),
	OPT("title", "TEXT", ARG_TEXT, COMPLETE_NONE, "A name for people."), CONCURRENCY_OPT, RATE_OPT, SANDBOX_OPT, ARG_END };
static const struct command_arg tenant_set_args[] = {
	TENANT_WORD, OPT("title", "TEXT", ARG_TEXT, COMPLETE_NONE, "A name for people."), CONCURRENCY_OPT, RATE_OPT,
	FLAG("no-rate", "Remove the limit of the rate."), SANDBOX_OPT, ARG_END };
static const struct command_arg tenant_args[] = { TENANT_WORD, ARG_END };
static const struct command_column tenant_list_cols[] = {
	COL("name", "NAME"), COL("state", "STATE"), COL("concurrency", "CONCURRENCY"), COL("rate", "RATE"),
	COL("title", "TITLE"), COL_END };
static const struct command_column tenant_cols[] = {
	COL("name", "Name"), COL("title", "Title"), COL("state", "State"), COL("concurrency", "Concurrency"),
	COL("rate", "Rate"), COL("sandbox", "Sandbox"), COL("principals", "Principals"), COL("keys", "Keys"),
	COL("grants", "Grants"),
	COL("generation", "Generation (not evidence)"), COL_AT("created", "Created"),
	COL("budget_calls", "Budget calls"),
	COL("budget_queue", "Budget queue"), COL("budget_queries", "Budget queries"),
	COL("budget_connections", "Budget connections"), COL("budget_sessions", "Budget sessions"),
	COL("budget_audit", "Budget audit (not evidence)"), COL("budget_results", "Budget results"),
	COL("budget_bodies", "Budget bodies"),
	COL("budget_scratch", "Budget scratch"),
	COL("budget_principals", "Budget principals"), COL("budget_keys", "Budget keys"),
	COL("budget_grants", "Budget grants"), COL_END };

const struct command tenant_commands[] = {
	{ .noun = "tenant", .verb = "add", .help = "Add a tenant", .args = tenant_add_args, .done = "tenant %{name} added",
	  .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = tenant_add_check, .body = tenant_add_body },
	{ .noun = "tenant", .verb = "list", .help = "List the tenants", .args = no_args, .columns = tenant_list_cols,
	  .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL,
	  .body = tenant_list_body },
	{ .noun = "tenant", .verb = "show", .help = "Show a tenant, what it takes and what it may take",
	  .detail = "A budget is what is used now, or was used today, of what is allowed.  At a bound this tenant alone is "
		    "refused, and told which it is; toolcribd.yaml(5) has those that can be set, under budgets.",
	  .args = tenant_args, .columns = tenant_cols,
	  .shape = ADM_ITEM, .role = ADM_READ, .console = true, .own = "tenant", .seen = "tenant", .where = ADM_ON_POOL,
	  .check = tenant_show_check, .body = tenant_show_body },
	{ .noun = "tenant", .verb = "set", .help = "Change a tenant's title and limits",
	  .detail = "What is not named stays as it is.", .args = tenant_set_args, .done = "tenant %{name} changed",
	  .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = tenant_set_check, .body = tenant_set_body },
	{ .noun = "tenant", .verb = "suspend", .help = "Refuse all of a tenant's agents until resume",
	  .detail = "No request of theirs is served once the command returns: sessions and streams are over, running calls "
		    "are "
		    "cancelled, and connections close behind the answers to those.", .args = tenant_args,
	  .done = "tenant %{name} suspended: %{calls} calls cancelled, %{connections} connections ended",
	  .destructive = true, .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .body = tenant_suspend_body, .after = tenant_out_after },
	{ .noun = "tenant", .verb = "resume", .help = "Let a suspended tenant's agents in again", .args = tenant_args,
	  .done = "tenant %{name} resumed", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .body = tenant_resume_body },
	{ .noun = "tenant", .verb = "remove", .help = "Remove a tenant with its keys and grants",
	  .detail = "Its records stay.  The name may be given to a new tenant.", .args = tenant_args,
	  .done = "tenant %{name} removed", .destructive = true, .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .body = tenant_remove_body, .after = tenant_out_after },
	{ .noun = NULL },
};
