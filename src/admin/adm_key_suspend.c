/* key suspend, key resume: one key is out until it is let in again (SEC S-315). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "call/call.h"
#include "db/db.h"
#include "mcp/mcp.h"

#include "adm_commands.h"
#include "adm_key.h"

struct key_suspend {
	char tenant[64];                /* a key of another one is as good as none; "" = any */
	char reason[ADM_REASON_SIZE];   /* "" = none */
	size_t count, done;
	char (*accessor)[KEY_ACCESSOR_SIZE];
	struct key_row *key;            /* those that are done, for after() */
};

static void free_job(void *priv)
{
	struct key_suspend *job = priv;

	for (size_t i = 0; i < job->done; i++)
		key_row_fini(&job->key[i]);
	free(job->key);
	free(job->accessor);
	free(job);
}

int adm_key_suspend_check(struct adm_call *c, struct err *err)
{
	size_t n = adm_count(c, "accessor");
	struct key_suspend *job = adm_priv(c, sizeof(*job));
	int rc = adm_reason(c, "reason", job->reason, sizeof(job->reason), err);

	c->free_priv = free_job;
	adm_copy(c, "tenant", job->tenant, sizeof(job->tenant));
	job->accessor = mem_calloc(n + 1, sizeof(*job->accessor));
	job->key = mem_calloc(n + 1, sizeof(*job->key));
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = adm_take_accessor(adm_nth(c, "accessor", i), job->accessor[job->count++], err);
	return rc;
}

static int check_state(const struct key_row *k, bool suspend, struct err *err)
{
	if (k->revoked_us)
		return err_set(err, ERR_CONFLICT, "", "key %s is revoked, and that is for ever", k->accessor);
	if ((k->suspended_us != 0) != suspend)
		return 0;
	return err_set(err, ERR_CONFLICT, "", suspend ? "key %s is suspended already" : "key %s is not suspended", k->accessor);
}

static int write_state(struct db *db, const struct key_row *k, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_KEY_SET_SUSPENDED);

	db_bind_i64(st, 1, k->tenant_id);
	db_bind_i64(st, 2, k->id);
	if (k->suspended_us)
		db_bind_i64(st, 3, (int64_t)k->suspended_us);
	else
		db_bind_null(st, 3);
	return db_run(&st, err);
}

static int change_one(struct adm_call *c, struct db *db, struct audit_logs *logs, struct key_row *k, bool suspend, struct err *err)
{
	const struct key_suspend *job = c->priv;
	char obj[48];
	int rc = check_state(k, suspend, err);

	if (rc < 0)
		return rc;
	k->suspended_us = suspend ? clock_wall_us() : 0;
	rc = write_state(db, k, err);
	(void)snprintf(obj, sizeof(obj), "cred/%s", k->accessor);
	if (rc == 0)
		rc = adm_record(c, db, logs, &(struct adm_record){ .kind = suspend ? AUDIT_CRED_SUSPEND : AUDIT_CRED_RESUME,
			.tenant_id = k->tenant_id, .obj = obj, .accessor = k->accessor, .prn = k->pseudonym,
			.reason = *job->reason ? job->reason : NULL }, err);
	return rc < 0 ? rc : adm_changed_people(c, db, k->tenant_id, err);
}

static int change(struct adm_call *c, struct db *db, struct audit_logs *logs, bool suspend, struct err *err)
{
	struct key_suspend *job = c->priv;
	int rc = 0;

	for (size_t i = 0; i < job->count && rc == 0; i++) {
		rc = adm_find_key(db, job->tenant, job->accessor[i], &job->key[i], err);
		if (rc < 0)
			break;
		job->done++;
		rc = change_one(c, db, logs, &job->key[i], suspend, err);
	}
	return rc;
}

int adm_key_suspend_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	return change(c, db, logs, true, err);
}

int adm_key_resume_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	int rc = change(c, db, logs, false, err);
	const struct key_suspend *job = c->priv;

	for (size_t i = 0; rc == 0 && i < job->done; i++)
		adm_put_key(c->out, &job->key[i], NULL);
	return rc;
}

/* The table refuses the key already; what it has opened ends, as with a tenant (SEC S-306). */
void adm_key_suspend_after(struct adm_call *c)
{
	const struct key_suspend *job = c->priv;
	struct mcp_ended ended;

	for (size_t i = 0; i < job->done; i++) {
		const struct key_row *k = &job->key[i];

		adm_put_out(c, &(struct call_where){ .tenant_id = k->tenant_id, .cred_id = k->id }, true, &ended);
		adm_put_key(c->out, k, &ended);
	}
}
