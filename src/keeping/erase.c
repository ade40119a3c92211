/* erase: the command that destroys arguments, results and names that are kept beside the records of a call, of a
 * principal or of a tenant (AUDIT ).  gather() counts on a thread of the pool, body() on the writer's
 * thread records what will be erased, and the job runner (jobs.c) erases it.  The records stay, and verify. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/erase.h"
#include "audit/keep.h"
#include "base/id.h"
#include "base/mem.h"
#include "command/rows.h"
#include "db/db.h"
#include "ev/ev.h"
#include "forms/forms.h"
#include "review/review.h"
#include "toolset/toolset.h"

#include "keeping_int.h"

#define RECORDS_MAX 16                  /* of one call */

struct erase_job {
	char tenant[64], principal[64], call[ID_TEXT_SIZE], ground[REASON_SIZE], ticket[TICKET_SIZE];
	uint8_t id[16];
	bool dry_run;
	/* what it comes to */
	struct tenant_row t;
	struct principal_row p;
	int64_t log, idx[RECORDS_MAX];
	size_t nidx;
	/* what the pool has found */
	char *store;
	int64_t kept;
	int rc;
	struct err err;
};

static void free_erase(void *priv)
{
	struct erase_job *job = priv;

	free(job->store);
	free(job);
}

static int erase_check(struct command_call *c, struct err *err)
{
	struct erase_job *job = command_priv(c, sizeof(*job));
	const char *who = arg_text(c, "principal");
	int rc = arg_reason(c, "ground", job->ground, sizeof(job->ground), err);

	c->free_priv = free_erase;
	job->store = mem_strdup(command_env(c)->store);
	if (rc == 0)
		rc = arg_reason(c, "ticket", job->ticket, sizeof(job->ticket), err);
	if (rc < 0)
		return rc;
	job->dry_run = c->undo = arg_flag(c, "dry-run");
	if (arg_given(c, "call") + (who != NULL) + arg_given(c, "tenant") != 1)
		return err_set(err, ERR_INVALID, "", "say one of --call, --principal and --tenant");
	arg_copy(c, "tenant", job->tenant, sizeof(job->tenant));
	arg_copy(c, "call", job->call, sizeof(job->call));
	if (*job->call && id_parse(job->call, strlen(job->call), job->id) < 0)
		return err_set(err, ERR_INVALID, "call", "\"%.60s\" is no id of a call", arg_text(c, "call"));
	return who ? arg_split(who, job->tenant, job->principal, err) : 0;
}

/* --- finding it */

static int note_record(void *arg, const struct audit_view *v)
{
	struct erase_job *job = arg;

	if (job->nidx < RECORDS_MAX)
		job->idx[job->nidx++] = v->idx;
	return job->nidx == RECORDS_MAX;
}

static int find_call(struct erase_job *job, struct db *db, struct err *err)
{
	int rc = tenant_row_of_call(db, "", job->id, job->call, &job->t, err);

	if (rc == 0)
		rc = audit_query_call(db, job->t.id, job->id, note_record, job, err);
	return rc < 0 ? rc : 0;
}

static int find_target(struct erase_job *job, struct db *db, struct err *err)
{
	int rc;

	job->nidx = 0;
	rc = *job->call ? find_call(job, db, err) : tenant_row_find(db, job->tenant, &job->t, err);
	if (rc == 0 && *job->principal)
		rc = principal_row_find(db, &job->t, job->principal, &job->p, err);
	return rc == 0 ? tenant_row_log(db, job->t.id, &job->log, err) : rc;
}

/* AUDIT A-513 */
static int refuse_held(const struct erase_job *job, struct db *db, struct err *err)
{
	int rc = 0;

	if (*job->principal)
		return held_subject(db, job->log, job->p.pseudonym, job->principal, err);
	if (!*job->call)
		return held_any(db, job->log, job->tenant, err);
	for (size_t i = 0; i < job->nidx && rc == 0; i++)
		rc = held_range(db, job->log, job->idx[i], job->idx[i] + 1, job->call, err);
	return rc;
}

/* Of a principal or tenant also what cannot be counted is erased: a sealed file that is away keeps no key alive. */
static int open_reader(const struct erase_job *job, struct forms_absent *absent, struct db **ret, struct err *err)
{
	int rc = db_open_store(db_in(job->store), ret, err);

	if (rc == 0)
		rc = *job->call ? forms_see(*ret, err) : forms_see_without(*ret, absent, err);
	return rc;
}

/* How many records have something kept.  Walks through much: on the pool. */
static int count_kept(const struct erase_job *job, struct db *db, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ERASE_COUNT);
	int rc;

	db_bind_i64(st, 1, job->log);
	db_bind_textz(st, 2, *job->principal ? job->p.pseudonym : NULL);
	if (*job->call)
		db_bind_blob(st, 3, job->id, sizeof(job->id));
	else
		db_bind_null(st, 3);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static void look_body(void *arg)
{
	struct erase_job *job = ((struct command_call *)arg)->priv;
	struct forms_absent *absent = mem_zalloc(sizeof(*absent));
	struct db *db = NULL;

	job->rc = open_reader(job, absent, &db, &job->err);
	if (job->rc == 0)
		job->rc = find_target(job, db, &job->err);
	if (job->rc == 0)
		job->rc = refuse_held(job, db, &job->err);
	if (job->rc == 0)
		job->rc = count_kept(job, db, &job->kept, &job->err);
	db_close(&db);
	free(absent);
}

static void look_done(void *arg)
{
	struct command_call *c = arg;
	const struct erase_job *job = c->priv;

	command_gathered(c, job->rc < 0 ? &job->err : NULL);
}

static void erase_gather(struct command_call *c)
{
	struct err err = { 0 };
	int rc = ev_work(command_env(c)->loop, EV_LANE_READ, look_body, look_done, c);

	if (rc < 0) {
		(void)err_set(&err, (enum err_code)rc, "", "too much is being read; nothing was done");
		command_gathered(c, &err);
	}
}

/* --- the intents */

/* range or keys: the field that says what. */
static int intend(struct command_call *c, struct db *db, struct audit_logs *logs, const char *obj,
		  const struct audit_field *what, int64_t *ret_idx, struct err *err)
{
	const struct erase_job *job = c->priv;
	const char *by = approval_by(c);
	const struct audit_field field[] = {
		*what, { AUDIT_TAG_GROUND, job->ground, strlen(job->ground) }, { AUDIT_TAG_TICKET, job->ticket, strlen(job->ticket) },
		{ AUDIT_TAG_APPROVER, by, strlen(by) },
	};
	struct audit_receipt at;
	const struct command_record r = { .kind = AUDIT_ERASE, .tenant_id = job->t.id, .obj = obj,
		.prn = *job->principal ? job->p.pseudonym : NULL, .field = field, .nfield = sizeof(field) / sizeof(*field),
		.ret = &at };
	int rc = command_record(c, db, logs, &r, err);

	if (rc < 0)
		return rc;
	*ret_idx = at.idx;
	return audit_erase_intend(db, &at, err);
}

static int intend_range(struct command_call *c, struct db *db, struct audit_logs *logs, const char *obj, int64_t from,
			int64_t to, struct err *err)
{
	uint8_t range[16];
	const struct audit_field what = { AUDIT_TAG_RANGE, range, sizeof(range) };
	int64_t idx = 0;
	int rc;

	audit_put_be(range, (uint64_t)from, 8);
	audit_put_be(range + 8, (uint64_t)to, 8);
	rc = intend(c, db, logs, obj, &what, &idx, err);
	if (rc == 0 && from == 0 && idx != to)  /* "all before this record" has to say so */
		rc = err_set(err, ERR_INTERNAL, "", "the log has grown meanwhile");
	return rc;
}

static int intend_call(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct erase_job *job = c->priv;
	char obj[ID_TEXT_SIZE + 8];
	int rc = 0;

	(void)snprintf(obj, sizeof(obj), "call/%s", job->call);
	for (size_t i = 0; i < job->nidx && rc == 0; i++)
		rc = intend_range(c, db, logs, obj, job->idx[i], job->idx[i] + 1, err);
	return rc;
}

static int intend_principal(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct erase_job *job = c->priv;
	struct audit_field what = { .tag = AUDIT_TAG_KEYS };
	uint8_t *bytes;
	int64_t *ids = NULL, idx;
	size_t n = 0;
	int rc = audit_erase_keys(logs, job->t.id, job->p.pseudonym, &ids, &n, err);

	if (rc < 0)
		return rc;
	if (n == 0) {
		free(ids);
		return err_set(err, ERR_NOT_FOUND, "", "nothing of %s/%s is kept", job->tenant, job->principal);
	}
	bytes = mem_alloc(8 * n);
	for (size_t i = 0; i < n; i++)
		audit_put_be(bytes + 8 * i, (uint64_t)ids[i], 8);
	what.p = bytes;
	what.len = 8 * n;
	rc = intend(c, db, logs, job->p.pseudonym, &what, &idx, err);
	free(bytes);
	free(ids);
	return rc;
}

static int intend_tenant(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct erase_job *job = c->priv;
	char obj[80];
	int64_t size = 0;
	int rc = audit_size(logs, job->t.id, &size, err);

	(void)snprintf(obj, sizeof(obj), "tenant/%s", job->tenant);
	return rc < 0 ? rc : intend_range(c, db, logs, obj, 0, size, err);
}

static int erase_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct erase_job *job = c->priv;
	int rc = find_target(job, db, err);

	if (rc == 0)            /* once more: a hold may have been set since */
		rc = refuse_held(job, db, err);
	if (rc == 0 && !job->dry_run)
		rc = approval_require(c, db, err);
	if (rc == 0 && !job->dry_run)
		rc = *job->call ? intend_call(c, db, logs, err) : *job->principal ? intend_principal(c, db, logs, err)
										   : intend_tenant(c, db, logs, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_text(c->out, "tenant", job->t.name);
	reply_text(c->out, "principal", *job->principal ? job->principal : NULL);
	reply_text(c->out, "call", *job->call ? job->call : NULL);
	reply_int(c->out, "records", job->kept);
	reply_text(c->out, "said", job->dry_run ? "would be erased" : "erased");
	reply_row_end(c->out);
	return 0;
}

static void erase_after(struct command_call *c)
{
	jobs_after(c, ((const struct erase_job *)c->priv)->log);
}

/* --- rows of the command table */

static const struct command_arg erase_args[] = {
	OPT("call", "ID", ARG_TEXT, COMPLETE_NONE, "What is kept of this call."),
	OPT("principal", "TENANT/NAME", ARG_TEXT, COMPLETE_PRINCIPAL, "What is kept of this principal."),
	OPT("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "All that is kept of this tenant."),
	NEED("ground", "TEXT", ARG_TEXT, COMPLETE_NONE, "Why; it stays in the record for ever: no names of persons."),
	TICKET_NEED, FLAG("dry-run", "Say how much would go and change nothing."), ARG_END };

const struct command erase_commands[] = {
	{ .noun = "erase", .help = "Destroy the arguments, results and names that are kept beside records",
	  .detail = "Of one call, of a principal with the keys that encrypt it, or of a tenant.  The records stay and "
		    "verify; that, by whom and on which ground something was erased is a record of its own.  Refused for "
		    "what is held.  Needs a second administrator.  Sealed files that have some of it are made anew without it; "
		    "while one is away, or cannot be written, the erasure stays intended, and the command says so.  "
		    "Backups of keys.db that were made before can still open a principal's or a tenant's: they must not "
		    "outlive the time in which you promise to erase.  What tasks of theirs have ended with cannot be read "
		    "any more; a task of one call that is erased keeps it until its time is over.  Copies of "
		    "before an upgrade (before-NN.db in the store, for 14 days) have the names: toolcrib migrate --drop-copy.",
	  .args = erase_args, .done = "%{records} records: what was kept of them %{said}", .destructive = true,
	  .role = ADM_OWNER,
	  .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER, .check = erase_check,
	  .gather = erase_gather, .body = erase_body, .after = erase_after },
	{ .noun = NULL },
};
