/* tenant add, list, show, set, suspend, resume, remove. */
#include "config.h"

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
#include "mcp/mcp.h"
#include "people/people.h"
#include "tenant/tenant.h"

#define TITLE_MAX 200                   /* bytes */
#define CONCURRENCY_MAX 100000

struct tenant_job {
	char name[80], title[256], sandbox[64];
	bool has_title, has_concurrency, has_rate, has_sandbox;
	uint32_t concurrency;
	struct text_rate rate;
	int64_t tenant_id;              /* out, as is state */
	int state;
};

int adm_tenant_title(const char *title, char ret[256], struct err *err)
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

int adm_tenant_sandbox(const char *level, char ret[64], struct err *err)
{
	int rc = *level ? backend_level_check(level, err) : 0;

	if (rc == 0)
		(void)snprintf(ret, 64, "%s", level);
	return rc;
}

static int check_limits(struct adm_call *c, struct tenant_job *job, struct err *err)
{
	const char *title = adm_text(c, "title");

	job->has_title = title != NULL;
	job->has_concurrency = adm_has(c, "concurrency");
	job->has_rate = adm_has(c, "rate") || adm_flag(c, "no-rate");
	job->concurrency = adm_uint(c, "concurrency", 0);
	job->rate = adm_rate(c, "rate");
	if (job->concurrency > CONCURRENCY_MAX)
		return err_set(err, ERR_LIMIT, "concurrency", "concurrency is at most %d", CONCURRENCY_MAX);
	job->has_sandbox = adm_has(c, "sandbox");
	if (job->has_sandbox && adm_tenant_sandbox(adm_text(c, "sandbox"), job->sandbox, err) < 0) {
		err_at(err, "sandbox");
		return ERR_INVALID;
	}
	return title ? adm_tenant_title(title, job->title, err) : 0;
}

int adm_tenant_new_name(const char *name, struct err *err)
{
	if (text_entity_name(name, strlen(name)))
		return 0;
	(void)err_set(err, ERR_INVALID, "name", "\"%.80s\" is no name of a tenant", name);
	err_hint(err, "lower-case letters, digits and _ . -, at most 63, beginning with a letter or digit");
	return ERR_INVALID;
}

static int adm_tenant_add_check(struct adm_call *c, struct err *err)
{
	struct tenant_job *job = adm_priv(c, sizeof(*job));
	int rc = adm_tenant_new_name(adm_text(c, "name"), err);

	(void)snprintf(job->name, sizeof(job->name), "%s", adm_text(c, "name"));
	return rc < 0 ? rc : check_limits(c, job, err);
}

static int insert_tenant(struct db *db, const struct adm_tenant *t, struct err *err)
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

static int record_tenant(struct adm_call *c, struct db *db, struct audit_logs *logs, int kind, const char *name, struct err *err)
{
	char obj[96];

	(void)snprintf(obj, sizeof(obj), "tenant/%.64s", name);
	return adm_record(c, db, logs, &(struct adm_record){ .kind = kind, .obj = obj }, err);
}

/* The row and what belongs to it from the beginning. */
static int create_tenant(struct adm_call *c, struct db *db, struct audit_logs *logs, const struct adm_tenant *want,
			 struct adm_tenant *ret, struct err *err)
{
	struct adm_principal p;
	int rc = insert_tenant(db, want, err);

	if (rc == 0)
		rc = adm_find_tenant(db, want->name, ret, err);
	if (rc == 0)
		rc = adm_limit_write(db, ret->id, TENANT_SCOPE_TENANT, 0, &want->more, err);
	if (rc == 0)    /* who calls without a key: toolcrib call, a bound listener, stdio with --tenant */
		rc = adm_add_principal(db, ret, "default", &p, err);
	if (rc == 0)
		rc = audit_log_create(logs, db, ret->id, ret->name, err);
	return rc < 0 ? rc : record_tenant(c, db, logs, AUDIT_TENANT_CREATE, ret->name, err);
}

static int adm_tenant_add_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct tenant_job *job = c->priv;
	struct adm_tenant want = { .concurrency = job->concurrency, .rate = job->rate }, t;
	int rc;

	(void)snprintf(want.name, sizeof(want.name), "%s", job->name);
	(void)snprintf(want.title, sizeof(want.title), "%s", job->title);
	(void)snprintf(want.sandbox, sizeof(want.sandbox), "%s", job->sandbox);
	rc = create_tenant(c, db, logs, &want, &t, err);
	if (rc == 0)
		rc = adm_changed_people(c, db, t.id, err);
	if (rc == 0)
		rc = adm_changed_tenant(c, db, t.id, err);
	if (rc < 0)
		return rc;
	adm_row_begin(c->out);
	adm_put_text(c->out, "name", t.name);
	adm_row_end(c->out);
	return 0;
}

/* --- reading */

static void put_tenant(struct adm_out *o, const struct adm_tenant *t)
{
	adm_put_text(o, "name", t->name);
	adm_put_text(o, "title", *t->title ? t->title : NULL);
	adm_put_text(o, "state", adm_state_name(t->state));
	adm_put_int(o, "concurrency", t->concurrency ? t->concurrency : TENANT_CONCURRENCY_DEFAULT);
	adm_put_rate(o, "rate", t->rate);
	adm_put_text(o, "sandbox", *t->sandbox ? t->sandbox : NULL);
	adm_put_int(o, "generation", t->generation);
	adm_put_time(o, "created", (uint64_t)t->created_us);
}

static int adm_tenant_list_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_TENANT_LIST);
	struct adm_tenant t;
	int rc;

	(void)logs;
	while ((rc = db_step(st, err)) == 1) {
		adm_read_tenant(st, &t);
		adm_row_begin(c->out);
		put_tenant(c->out, &t);
		adm_row_end(c->out);
	}
	db_stmt_put(&st);
	return rc;
}

int adm_tenant_name_check(struct adm_call *c, struct err *err)
{
	struct tenant_job *job = adm_priv(c, sizeof(*job));

	(void)err;
	(void)snprintf(job->name, sizeof(job->name), "%s", adm_text(c, "tenant"));
	return 0;
}

const char *adm_tenant_job_name(const struct adm_call *c)
{
	const struct tenant_job *job = c->priv;

	return job->name;
}

static int adm_tenant_show_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct tenant_job *job = c->priv;
	struct adm_tenant t;
	struct db_stmt *st;
	int rc = adm_find_tenant(db, job->name, &t, err);

	(void)logs;
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_ADMIN_TENANT_COUNTS);
	db_bind_i64(st, 1, t.id);
	rc = db_step(st, err);
	if (rc == 1) {
		adm_row_begin(c->out);
		put_tenant(c->out, &t);
		adm_put_int(c->out, "principals", db_col_i64(st, 0));
		adm_put_int(c->out, "keys", db_col_i64(st, 1));
		adm_put_int(c->out, "grants", db_col_i64(st, 2));
		adm_row_end(c->out);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* --- changing */

static int adm_tenant_set_check(struct adm_call *c, struct err *err)
{
	int rc = adm_tenant_name_check(c, err);

	if (rc < 0)
		return rc;
	if (!adm_has(c, "title") && !adm_has(c, "concurrency") && !adm_has(c, "rate") && !adm_flag(c, "no-rate") &&
	    !adm_has(c, "sandbox"))
		return err_set(err, ERR_INVALID, "",
			       "nothing to set: name --title, --concurrency, --rate, --no-rate or --sandbox");
	if (adm_has(c, "rate") && adm_flag(c, "no-rate"))
		return err_set(err, ERR_INVALID, "rate", "--rate and --no-rate contradict each other");
	return check_limits(c, c->priv, err);
}

int adm_tenant_write(struct db *db, const struct adm_tenant *after, struct err *err)
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
	return rc < 0 ? rc : adm_limit_write(db, after->id, TENANT_SCOPE_TENANT, 0, &after->more, err);
}

static int update_tenant(struct adm_call *c, struct db *db, struct audit_logs *logs, const struct adm_tenant *after,
			 struct err *err)
{
	int rc = adm_tenant_write(db, after, err);

	return rc < 0 ? rc : record_tenant(c, db, logs, AUDIT_TENANT_CHANGE, after->name, err);
}

static int adm_tenant_set_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct tenant_job *job = c->priv;
	struct adm_tenant before, after;
	int rc = adm_find_tenant(db, job->name, &before, err);

	if (rc < 0)
		return rc;
	after = before;
	if (job->has_title)
		(void)snprintf(after.title, sizeof(after.title), "%s", job->title);
	if (job->has_concurrency)
		after.concurrency = job->concurrency;
	if (job->has_rate)
		after.rate = job->rate;
	if (job->has_sandbox)
		(void)snprintf(after.sandbox, sizeof(after.sandbox), "%s", job->sandbox);
	rc = update_tenant(c, db, logs, &after, err);
	if (rc == 0)
		rc = adm_changed_people(c, db, after.id, err);
	if (rc < 0)
		return rc;
	adm_row_begin(c->out);
	put_tenant(c->out, &after);
	adm_row_end(c->out);
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

int adm_tenant_change_state(struct adm_call *c, struct db *db, struct audit_logs *logs, const struct adm_tenant *before,
			    int state, struct err *err)
{
	static const int kinds[] = { [TENANT_ACTIVE] = AUDIT_TENANT_RESUME, [TENANT_SUSPENDED] = AUDIT_TENANT_SUSPEND,
		[TENANT_REMOVED] = AUDIT_TENANT_DELETE };
	int rc = set_state(db, before->id, state, err);

	return rc < 0 ? rc : record_tenant(c, db, logs, kinds[state], before->name, err);
}

static bool same_settings(const struct adm_tenant *a, const struct adm_tenant *b)
{
	return strcmp(a->title, b->title) == 0 && a->concurrency == b->concurrency && a->rate.count == b->rate.count &&
	       a->rate.per_s == b->rate.per_s && strcmp(a->sandbox, b->sandbox) == 0 && adm_limit_same(&a->more, &b->more);
}

/* What a document leaves out is as if it had never been set; state 0: as it is. */
int adm_tenant_store(struct adm_call *c, struct db *db, struct audit_logs *logs, const struct adm_tenant *want,
		     struct adm_tenant *ret_before, struct adm_tenant *ret, enum adm_stored *ret_what, struct err *err)
{
	struct adm_tenant old, now;
	struct err ignored;
	int rc = adm_find_tenant(db, want->name, &old, &ignored);
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
		rc = adm_tenant_change_state(c, db, logs, &now, want->state, err);
		now.state = want->state;
	}
	*ret_before = old;
	*ret = now;
	return rc;
}

static void put_state(struct adm_call *c, const struct tenant_job *job, const struct mcp_ended *ended)
{
	adm_row_begin(c->out);
	adm_put_text(c->out, "name", job->name);
	adm_put_text(c->out, "state", adm_state_name(job->state));
	adm_put_int(c->out, "calls", (int64_t)ended->calls);
	adm_put_int(c->out, "connections", (int64_t)ended->peers);
	adm_row_end(c->out);
}

static int change_state(struct adm_call *c, struct db *db, struct audit_logs *logs, int state, struct err *err)
{
	struct tenant_job *job = c->priv;
	struct adm_tenant before;
	int rc = adm_find_tenant(db, job->name, &before, err);

	if (rc < 0)
		return rc;
	job->tenant_id = before.id;
	if (before.state == state)
		return err_set(err, ERR_CONFLICT, "", "tenant %s is %s already", before.name, adm_state_name(state));
	rc = adm_tenant_change_state(c, db, logs, &before, state, err);
	if (rc == 0)
		rc = adm_changed_people(c, db, before.id, err);
	if (rc == 0)
		rc = adm_changed_tenant(c, db, before.id, err);
	if (rc < 0)
		return rc;
	(void)snprintf(job->name, sizeof(job->name), "%s", before.name);
	job->state = state;
	if (state == TENANT_ACTIVE)
		put_state(c, job, &(struct mcp_ended){ 0 });
	return 0;
}

static int adm_tenant_suspend_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	return change_state(c, db, logs, TENANT_SUSPENDED, err);
}

static int adm_tenant_resume_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	return change_state(c, db, logs, TENANT_ACTIVE, err);
}

static int adm_tenant_remove_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	return change_state(c, db, logs, TENANT_REMOVED, err);
}

/* Suspended or removed: nobody of the tenant is served any more when the command returns (SEC S-306). */
void adm_tenant_out(struct adm_call *c, int64_t tenant_id, struct mcp_ended *ret)
{
	adm_put_out(c, &(struct call_where){ .tenant_id = tenant_id }, true, ret);
}

static void adm_tenant_out_after(struct adm_call *c)
{
	const struct tenant_job *job = c->priv;

	struct mcp_ended ended;

	adm_tenant_out(c, job->tenant_id, &ended);
	put_state(c, job, &ended);
}

/* --- rows of the command table */

#define SANDBOX_OPT OPT("sandbox", "LEVEL", ARG_TEXT, COMPLETE_NONE, \
	"The least confinement of its tools' processes, as in toolcrib-run(8), beside what else requires one; empty: none.")
static const struct adm_arg tenant_add_args[] = {
	WORD("name", "NAME", COMPLETE_NONE, "Lower-case letters, digits and _ . -, at most 63."),
	OPT("title", "TEXT", ARG_TEXT, COMPLETE_NONE, "A name for people."), CONCURRENCY_OPT, RATE_OPT, SANDBOX_OPT, ARG_END };
static const struct adm_arg tenant_set_args[] = {
	TENANT_WORD, OPT("title", "TEXT", ARG_TEXT, COMPLETE_NONE, "A name for people."), CONCURRENCY_OPT, RATE_OPT,
	FLAG("no-rate", "Remove the limit of the rate."), SANDBOX_OPT, ARG_END };
static const struct adm_arg tenant_args[] = { TENANT_WORD, ARG_END };
static const struct adm_column tenant_list_cols[] = {
	COL("name", "NAME"), COL("state", "STATE"), COL("concurrency", "CONCURRENCY"), COL("rate", "RATE"),
	COL("title", "TITLE"), COL_END };
static const struct adm_column tenant_cols[] = {
	COL("name", "Name"), COL("title", "Title"), COL("state", "State"), COL("concurrency", "Concurrency"),
	COL("rate", "Rate"), COL("sandbox", "Sandbox"), COL("principals", "Principals"), COL("keys", "Keys"), COL("grants", "Grants"),
	COL("generation", "Generation"), COL_AT("created", "Created"), COL_END };

const struct adm_cmd tenant_commands[] = {
	{ .noun = "tenant", .verb = "add", .help = "Add a tenant", .args = tenant_add_args, .done = "tenant %{name} added",
	  .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = adm_tenant_add_check, .body = adm_tenant_add_body },
	{ .noun = "tenant", .verb = "list", .help = "List the tenants", .args = no_args, .columns = tenant_list_cols,
	  .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL,
	  .body = adm_tenant_list_body },
	{ .noun = "tenant", .verb = "show", .help = "Show a tenant", .args = tenant_args, .columns = tenant_cols,
	  .shape = ADM_ITEM, .role = ADM_READ, .own = "tenant", .where = ADM_ON_POOL,
	  .check = adm_tenant_name_check, .body = adm_tenant_show_body },
	{ .noun = "tenant", .verb = "set", .help = "Change a tenant's title and limits",
	  .detail = "What is not named stays as it is.", .args = tenant_set_args, .done = "tenant %{name} changed",
	  .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = adm_tenant_set_check, .body = adm_tenant_set_body },
	{ .noun = "tenant", .verb = "suspend", .help = "Refuse all of a tenant's agents until resume",
	  .detail = "No request of theirs is served once the command returns: sessions and streams are over, running calls are "
		    "cancelled, and connections close behind the answers to those.", .args = tenant_args,
	  .done = "tenant %{name} suspended: %{calls} calls cancelled, %{connections} connections ended", .destructive = true, .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .check = adm_tenant_name_check, .body = adm_tenant_suspend_body, .after = adm_tenant_out_after },
	{ .noun = "tenant", .verb = "resume", .help = "Let a suspended tenant's agents in again", .args = tenant_args,
	  .done = "tenant %{name} resumed", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .check = adm_tenant_name_check, .body = adm_tenant_resume_body },
	{ .noun = "tenant", .verb = "remove", .help = "Remove a tenant with its keys and grants",
	  .detail = "Its records stay.  The name may be given to a new tenant.", .args = tenant_args,
	  .done = "tenant %{name} removed", .destructive = true, .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = adm_tenant_name_check, .body = adm_tenant_remove_body, .after = adm_tenant_out_after },
	{ .noun = NULL },
};
