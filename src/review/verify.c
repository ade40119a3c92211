/* audit verify: the command that checks the whole store, or one tenant's log, as somebody does who trusts nothing
 * in it. check() runs on the loop, body() on a thread of the pool; toolcrib-verify does the same without a server. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "auditor/evidence.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "audit/audit.h"
#include "audit/record.h"
#include "bundle/bundle.h"
#include "command/rows.h"
#include "db/db.h"
#include "notary/notary.h"
#include "review/review.h"
#include "tenant/tenant.h"
#include "tlog/note.h"
#include "toolset/toolset.h"
#include "verify/verify.h"

#include "review_int.h"

#define BUNDLE_PATH_SIZE 4096
#define FINDINGS_SHOWN 1000             /* rows; what is beyond is counted */

struct verify_job {
	struct evidence *with;
	struct reply *out;
	uint64_t shown;
};

static void free_job(void *priv)
{
	struct verify_job *job = priv;

	evidence_free(&job->with);
	free(job);
}

/* Whoever reads one tenant's audit names no files of the server; and one that never ends would stop all. */
static int check_file(const struct command_call *c, const char *name, const char *path, struct err *err)
{
	struct stat st;

	if (!actor_may(c->admin, &c->who, ADM_READ, NULL))
		return err_set(err, ERR_DENIED, name, "%s: who reads one tenant's audit cannot name files of the server", name);
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return err_set(err, ERR_INVALID, name, "%s: %s is no file", name, path);
	return 0;
}

static int check_files(const struct command_call *c, struct err *err)
{
	static const char *const one[] = { "signer-state", "with-bundle" };
	int rc = 0;

	for (size_t i = 0; i < NELEMS(one) && rc == 0; i++)
		if (arg_given(c, one[i]))
			rc = check_file(c, one[i], arg_text(c, one[i]), err);
	for (size_t i = 0; i < arg_count(c, "anchor") && rc == 0; i++)
		rc = check_file(c, "anchor", arg_nth(c, "anchor", i), err);
	return rc;
}

static int take_evidence(const struct command_call *c, struct evidence *with, struct err *err)
{
	const char *signer = arg_text(c, "signer-state"), *age = arg_text(c, "anchor-max-age");
	struct err why = { 0 };
	int rc = signer ? evidence_signer(with, signer, err) : 0;

	for (size_t i = 0; rc == 0 && i < arg_count(c, "key"); i++)
		rc = evidence_key(with, arg_nth(c, "key", i), err);
	for (size_t i = 0; rc == 0 && i < arg_count(c, "anchor"); i++)
		rc = evidence_anchor(with, arg_nth(c, "anchor", i), err);
	/* The server has the keys of its own store; where they cannot be read, a gap says what stayed shut. */
	if (rc == 0 && evidence_payload_keys(with, command_env(c)->store, false, &why) < 0 && arg_flag(c, "keys")) {
		*err = why;
		rc = (int)why.code;
	}
	return rc == 0 && age ? evidence_anchor_age(with, age, err) : rc;
}

static int audit_verify_check(struct command_call *c, struct err *err)
{
	struct verify_job *job = command_priv(c, sizeof(*job));

	c->free_priv = free_job;
	job->with = evidence_new();
	if (check_files(c, err) < 0)
		return (int)err->code;
	if (arg_given(c, "with-bundle") && strlen(arg_text(c, "with-bundle")) >= BUNDLE_PATH_SIZE)
		return err_set(err, ERR_INVALID, "with-bundle", "the path is longer than %d bytes", BUNDLE_PATH_SIZE - 1);
	job->out = c->out;
	arg_record_in(c);
	return take_evidence(c, job->with, err);
}

static void found(void *arg, const struct audit_finding *f)
{
	struct verify_job *job = arg;

	if (job->shown++ >= FINDINGS_SHOWN)
		return;
	reply_row_begin(job->out);
	reply_text(job->out, "finding", audit_finding_name(f->code));
	reply_text(job->out, "class", audit_finding_bad(f->code) && !f->gap ? "bad" : "gap");
	reply_text(job->out, "log", f->origin);
	if (f->from >= 0) {
		reply_int(job->out, "from", f->from);
		reply_int(job->out, "to", f->to);
	}
	reply_text(job->out, "detail", f->detail ? f->detail : audit_finding_text(f->code));
	reply_row_end(job->out);
}

/* The last row says what was looked at, also when nothing was found. */
static void put_coverage(struct verify_job *job, const struct audit_coverage *sum, bool alone)
{
	char text[640], names[320] = "";

	if (sum->names)
		(void)snprintf(names, sizeof(names), "; names of %" PRIu64 " principals not verified, for lack of keys or of a "
			       "record: %s", sum->names, sum->named); /* fits */
	reply_row_begin(job->out);
	reply_text(job->out, "finding", sum->bad ? "DAMAGED" : sum->gaps ? "INCOMPLETE" : "INTACT");
	reply_text(job->out, "class", "sum");
	reply_text(job->out, "log", NULL);
	reply_int(job->out, "logs", (int64_t)sum->logs);
	reply_int(job->out, "records", (int64_t)sum->records);
	reply_int(job->out, "checkpoints", (int64_t)sum->notes);
	reply_int(job->out, "epochs", (int64_t)sum->epochs);
	reply_bool(job->out, "pinned", sum->pinned);
	reply_int(job->out, "bad", (int64_t)sum->bad);
	reply_int(job->out, "gaps", (int64_t)sum->gaps);
	reply_int(job->out, "running", (int64_t)sum->running);
	reply_int(job->out, "names_unverified", (int64_t)sum->names);
	reply_int(job->out, "not_opened", (int64_t)sum->shut);
	reply_time(job->out, "first", sum->first_us);
	reply_time(job->out, "last", sum->last_us);
	if (sum->vouched_us)
		reply_time(job->out, "vouched_since", sum->vouched_us);
	(void)snprintf(text, sizeof(text), "%" PRIu64 " records of %" PRIu64 " logs, %" PRIu64 " checkpoints of %" PRIu64
		       " epochs, the first key %s: %" PRIu64 " bad, %" PRIu64 " gaps, %" PRIu64 " calls running%s%s", sum->records,
		       sum->logs, sum->notes, sum->epochs, sum->pinned ? "as pinned" : "not pinned", sum->bad, sum->gaps,
		       sum->running, names, alone ? "; neither rows of the registry nor indexes were looked at" : "");
	reply_text(job->out, "detail", text);
	reply_row_end(job->out);
}

/* The bundle by itself, then beside the store. */
static int verify_bundle(struct verify_job *job, const char *file, struct db *db, struct audit_coverage *sum,
			 struct err *err)
{
	struct audit_coverage own;
	struct audit_bundle b;
	FILE *f = NULL;
	int rc = path_open_stream(file, &f, err);

	if (rc < 0)
		return rc;
	rc = audit_bundle_verify(f, NULL, found, job, &b, &own, err);
	fclose(f);
	if (rc == 0 && own.bad == 0)
		rc = audit_bundle_join(db, &b, found, job, &own, err);
	sum->records += own.records;
	sum->bad += own.bad;
	sum->gaps += own.gaps;
	return rc;
}

static int audit_verify_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct verify_job *job = c->priv;
	struct audit_coverage sum;
	struct tenant_row t = { 0 };
	const char *name = arg_text(c, "tenant"), *bundle = arg_text(c, "with-bundle");
	int rc = name && *name ? tenant_row_find(db, name, &t, err) : 0;

	(void)logs;
	/* The server that is asked signs what it has just written within the second. */
	if (rc == 0) {
		struct audit_evidence with = *evidence_get(job->with);

		with.young_s = NOTARY_MAX_AGE_S;
		rc = audit_verify_with(db, t.id, &with, found, job, &sum, err);
	}
	if (rc == 0 && t.id == 0) {
		metric_set(METRIC_verify_time, clock_wall_us() / 1000000);
		metric_set(METRIC_verify_findings, sum.bad);
	}
	if (rc == 0 && bundle)
		rc = verify_bundle(job, bundle, db, &sum, err);
	if (rc == 0)
		put_coverage(job, &sum, t.id > 0);
	if (rc == 0)
		c->status = sum.bad ? ADM_STATUS_FINDINGS : sum.gaps ? ADM_STATUS_GAPS : 0;
	return rc;
}

/* --- rows of the command table */

static const struct command_arg audit_verify_args[] = {
	OPT("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "This tenant's log alone; default: the whole store."),
	OPTS("key", "KEY", ARG_TEXT, COMPLETE_NONE,
		"A key that you have pinned, as audit keys prints it; may be given again."),
	OPT("signer-state", "FILE", ARG_PATH_READ, COMPLETE_FILE,
		"What the signer remembers: its directory, or a copy of its file state."),
	OPTS("anchor", "FILE", ARG_PATH_READ, COMPLETE_FILE, "A checkpoint that was taken away earlier; may be given again."),
	OPT("anchor-max-age", "TIME", ARG_TEXT, COMPLETE_NONE,
		"Say so when no checkpoint was taken outside for that long, such as 7d."),
	OPT("with-bundle", "FILE", ARG_PATH_READ, COMPLETE_FILE,
		"Also this bundle, and whether its records are those that the store had."),
	FLAG("keys", "Fail when this store's keys cannot be read, instead of saying what stayed shut."),
	ARG_END };
static const struct command_column verify_cols[] = {
	COL("finding", "FINDING"), COL("log", "LOG"), COL("from", "FROM"), COL("to", "TO"), COL("detail", "DETAIL"), COL_END };

const struct command verify_commands[] = {
	{ .noun = "audit", .verb = "verify", .help = "Check that no record was changed, removed or added",
	  .detail = "Computes each record's hash and each log's tree anew and compares them with what is stored; checks the "
	  "dictionary, that begins and ends of calls belong together, and the database's own soundness.  The last row says "
	  "what was looked at.  Exit status 4 when something is bad, 5 when only something could not be checked.  "
	  "A begin without an end is a call that runs, and no gap, when it is younger than the last start.  "
	  "What is kept of calls and the names of principals are opened with this store's keys; where these cannot be read, "
	  "a gap says how much stayed shut.  Principals that no record has named yet are in the last row, and no gap.",
	  .args = audit_verify_args,
	  .columns = verify_cols, .shape = ADM_FINDINGS, .role = ADM_AUDIT, .where = ADM_ON_POOL, .record = AUDIT_AUDIT_VERIFY,
	  .check = audit_verify_check, .body = audit_verify_body },
	{ .noun = NULL },
};
