/* audit bundle: records as a file that verifies without the store (AUDIT A-1002). */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/bundle.h"
#include "base/mem.h"
#include "db/db.h"
#include "tenant/tenant.h"

#include "adm_commands.h"
#include "admin_int.h"

struct bundle_job {
	char tenant[64], file[4096];
	int64_t from, to;               /* from <= idx <= to; -1: open */
	uint64_t since_us, until_us;
	int64_t log;
};

int adm_index(const struct adm_call *c, const char *name, int64_t *ret, struct err *err)
{
	const char *text = adm_text(c, name);
	int64_t v = 0;

	*ret = -1;
	if (!text)
		return 0;
	if (text_i64(text, strlen(text), &v) < 0 || v < 0)
		return err_set(err, ERR_INVALID, name, "%s must be the index of a record, not \"%.30s\"", name, text);
	*ret = v;
	return 0;
}

int adm_audit_bundle_check(struct adm_call *c, struct err *err)
{
	struct bundle_job *job = adm_priv(c, sizeof(*job));
	const struct tenant *t;
	int rc;

	adm_copy(c, "tenant", job->tenant, sizeof(job->tenant));
	if (strlen(adm_text(c, "file")) >= sizeof(job->file))
		return err_set(err, ERR_INVALID, "file", "the path is longer than %zu bytes", sizeof(job->file) - 1);
	adm_copy(c, "file", job->file, sizeof(job->file));
	job->since_us = adm_time(c, "since");
	job->until_us = adm_time(c, "until");
	rc = adm_index(c, "from", &job->from, err);
	if (rc == 0)
		rc = adm_index(c, "to", &job->to, err);
	if (rc == 0 && (job->from >= 0 || job->to >= 0) && (job->since_us || job->until_us))
		rc = err_set(err, ERR_INVALID, "", "a range is by indexes or by times");
	t = tenant_by_name(c->admin->env.tenants, job->tenant, strlen(job->tenant));
	if (t)
		adm_record_in(c, t->id);
	return rc;
}

int adm_range_of_times(struct db *db, int64_t log, uint64_t since_us, uint64_t until_us, int64_t *ret_from, int64_t *ret_to,
		       struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_HOLD_TIMES);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, (int64_t)since_us);
	db_bind_i64(st, 3, until_us ? (int64_t)until_us : INT64_MAX);
	rc = db_step(st, err);
	if (rc == 1) {
		*ret_from = db_col_i64(st, 0);
		*ret_to = db_col_i64(st, 1) - 1;
	}
	db_stmt_put(&st);
	return rc == 0 ? err_set(err, ERR_NOT_FOUND, "", "there are no records of that time") : rc < 0 ? rc : 0;
}

static int find_range(struct bundle_job *job, struct db *db, struct audit_bundle_req *ret, char **ret_origin, struct err *err)
{
	struct db_stmt *st;
	int64_t min_idx = 0, size = 0;
	int rc = job->since_us || job->until_us
			 ? adm_range_of_times(db, job->log, job->since_us, job->until_us, &job->from, &job->to, err) : 0;

	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_RETENTION_LOG);
	db_bind_i64(st, 1, job->log);
	rc = db_step(st, err);
	if (rc == 1) {
		min_idx = db_col_i64(st, 0);
		size = db_col_i64(st, 1);
		*ret_origin = mem_strdup(db_col_text(st, 3, NULL));
	}
	db_stmt_put(&st);
	if (rc < 0)
		return rc;
	*ret = (struct audit_bundle_req){ .log = job->log, .from = job->from >= 0 ? job->from : min_idx,
		.to = job->to >= 0 ? job->to + 1 : size, .origin = *ret_origin };
	if (!*ret_origin || ret->from < min_idx || ret->to > size || ret->from >= ret->to)
		return err_set(err, ERR_NOT_FOUND, "", "%s has the records %" PRId64 " to %" PRId64, job->tenant, min_idx, size - 1);
	return 0;
}

int adm_audit_bundle_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct bundle_job *job = c->priv;
	struct audit_bundle_req req = { 0 };
	struct audit_bundle b;
	struct adm_tenant t;
	char *origin = NULL, query[160];
	int rc = adm_find_tenant(db, job->tenant, &t, err);

	(void)logs;
	if (rc == 0)
		rc = adm_log_of(db, t.id, &job->log, err);
	if (rc == 0)
		rc = find_range(job, db, &req, &origin, err);
	if (rc == 0) {
		(void)snprintf(query, sizeof(query), "audit bundle %s", job->tenant);
		req.query = query;
		rc = audit_bundle_write(db, &req, job->file, &b, err);
	}
	free(origin);
	if (rc < 0)
		return rc;
	adm_seen(c, t.id, req.from);
	adm_seen(c, t.id, req.to - 1);
	adm_row_begin(c->out);
	adm_put_text(c->out, "tenant", t.name);
	adm_put_int(c->out, "from", req.from);
	adm_put_int(c->out, "to", req.to - 1);
	adm_put_int(c->out, "records", req.to - req.from);
	adm_put_text(c->out, "bundle", job->file);
	adm_put_hex(c->out, "sha256", b.sha256, sizeof(b.sha256));
	adm_row_end(c->out);
	return 0;
}
