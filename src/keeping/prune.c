/* retention prune: the command that removes records which were kept long enough (AUDIT ).  gather()
 * writes a bundle of them on a thread of the pool; body() on the writer's thread checks again and records the cut;
 * the job runner (jobs.c) removes them.  Nothing is removed before its bundle is on the disk. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/keep.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "bundle/bundle.h"
#include "command/rows.h"
#include "db/db.h"
#include "db/owner.h"
#include "ev/ev.h"
#include "review/review.h"
#include "toolset/toolset.h"

#include "keeping_int.h"
#include "periods_int.h"

struct prune_job {
	char tenant[64], file[4096];
	uint64_t before_us;             /* 0: as the period says */
	bool dry_run;
	/* the plan, made on the pool */
	char *store, *origin;
	struct tenant_row t;
	int64_t log, size, from, to;
	int64_t holds;                  /* id of the newest hold that was seen */
	struct audit_bundle bundle;
	int rc;
	struct err err;
};

static void free_prune(void *priv)
{
	struct prune_job *job = priv;

	free(job->store);
	free(job->origin);
	free(job);
}

static int prune_check(struct command_call *c, struct err *err)
{
	struct prune_job *job = command_priv(c, sizeof(*job));

	c->free_priv = free_prune;
	job->store = mem_strdup(command_env(c)->store);
	arg_copy(c, "tenant", job->tenant, sizeof(job->tenant));
	job->before_us = arg_time(c, "before");
	job->dry_run = c->undo = arg_flag(c, "dry-run");
	if (!arg_given(c, "bundle") && !job->dry_run)
		return err_set(err, ERR_INVALID, "bundle", "--bundle FILE is missing: what goes is written there first");
	if (arg_given(c, "bundle") && strlen(arg_text(c, "bundle")) >= sizeof(job->file))
		return err_set(err, ERR_INVALID, "bundle", "the path is longer than %zu bytes", sizeof(job->file) - 1);
	arg_copy(c, "bundle", job->file, sizeof(job->file));
	return 0;
}

/* --- the plan */

static int read_log(struct prune_job *job, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_RETENTION_LOG);
	int rc;

	db_bind_i64(st, 1, job->log);
	rc = db_step(st, err);
	if (rc == 1) {
		job->from = db_col_i64(st, 0);
		job->size = db_col_i64(st, 1);
		job->origin = mem_strdup(db_col_text(st, 3, NULL));
	}
	db_stmt_put(&st);
	return rc == 0 ? err_set(err, ERR_CORRUPT, job->tenant, "the log has no head") : rc < 0 ? rc : 0;
}

static int newest_hold(struct db *db, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_HOLD_NEWEST);
	int rc = db_step(st, err);

	if (rc == 1)
		*ret = db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int64_t whole_tiles(int64_t idx)
{
	return idx - idx % AUDIT_CUT_UNIT;
}

/* Where the cut is: what is wanted, and what the period allows. */
static int find_cut(struct prune_job *job, struct db *db, const struct retention_periods *p, struct err *err)
{
	uint64_t now = clock_wall_us(), before = job->before_us;
	int64_t wanted = 0, allowed = 0;
	int rc;

	if (p->n == 0) {
		(void)err_set(err, ERR_DENIED, "", "%s has no period of retention, so nothing is pruned", job->tenant);
		err_hint(err, "toolcrib retention set %s --min-days N", job->tenant);
		return ERR_DENIED;
	}
	if (!before && p->v->max_days < 0)
		return err_set(err, ERR_INVALID, "before", "--before TIME is missing, and the period has no --max-days");
	if (!before)
		before = now - (uint64_t)p->v->max_days * 86400u * 1000000u;
	rc = first_since(db, job->log, job->from, job->size, before, &wanted, err);
	if (rc == 0)
		rc = first_promised(db, job->log, p, job->from, wanted, &allowed, err);
	if (rc < 0)
		return rc;
	job->to = whole_tiles(allowed);
	if (job->before_us && job->to < whole_tiles(wanted)) {
		(void)err_set(err, ERR_DENIED, "", "record %" PRId64 " of %s has to be kept %" PRId64 " days, and is younger",
			allowed,
			      job->tenant, promised_days(p, allowed));
		err_hint(err, "toolcrib retention show %s --history", job->tenant);
		return ERR_DENIED;
	}
	if (job->to <= job->from)
		return err_set(err, ERR_NOT_FOUND, "", "nothing to prune: there are no %d whole records of %s that are old enough",
			       AUDIT_CUT_UNIT, job->tenant);
	return 0;
}

/* What nobody outside could know of must not go (AUDIT A-902). */
static int is_signed(const struct prune_job *job, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_RETENTION_SIGNED);
	bool covered = false;
	int rc;

	db_bind_i64(st, 1, job->log);
	rc = db_step(st, err);
	if (rc == 1)
		covered = !db_col_i64(st, 0) || db_col_i64(st, 1) >= job->to;
	db_stmt_put(&st);
	if (rc < 0 || covered)
		return rc < 0 ? rc : 0;
	return err_set(err, ERR_DENIED, "", "no checkpoint covers record %" PRId64 " of %s yet", job->to - 1, job->tenant);
}

static int make_plan(struct prune_job *job, struct db *db, struct err *err)
{
	struct retention_periods p = { 0 };
	int rc = tenant_row_find(db, job->tenant, &job->t, err);

	if (rc == 0)
		rc = tenant_row_log(db, job->t.id, &job->log, err);
	if (rc == 0)
		rc = read_log(job, db, err);
	if (rc == 0)
		rc = newest_hold(db, &job->holds, err);
	if (rc == 0)
		rc = periods_load(db, job->log, &p, err);
	if (rc == 0)
		rc = find_cut(job, db, &p, err);
	periods_fini(&p);
	if (rc == 0)
		rc = held_range(db, job->log, job->from, job->to, job->tenant, err);
	return rc == 0 ? is_signed(job, db, err) : rc;
}

/* --- the bundle */

static void ignore_finding(void *arg, const struct audit_finding *f)
{
	(void)arg;
	(void)f;
}

/* One that is there already, of a run that was refused or interrupted, is taken when it is what would be written. */
static int take_bundle(struct prune_job *job, struct err *err)
{
	struct audit_coverage sum;
	struct audit_bundle *b = &job->bundle;
	FILE *f = fopen(job->file, "rbe");
	int rc;

	if (!f)
		return err_set(err, ERR_UNREACHABLE, job->file, "%s", strerror(errno));
	rc = audit_bundle_verify(f, NULL, ignore_finding, NULL, b, &sum, err);
	fclose(f);
	if (rc < 0)
		return rc;
	if (sum.bad > 0 || strcmp(b->origin, job->origin) != 0 || b->from != job->from || b->to > job->to ||
	    b->to % AUDIT_CUT_UNIT != 0)
		return err_set(err, ERR_CONFLICT, job->file, "the file exists, and is no bundle of the records that would go");
	job->to = b->to;
	return 0;
}

static int write_bundle(struct prune_job *job, struct db *db, struct err *err)
{
	char query[160];
	const struct audit_bundle_req req = { job->log, job->from, job->to, job->origin, query };
	int rc;

	(void)snprintf(query, sizeof(query), "retention prune %s", job->tenant);
	rc = audit_bundle_write(db, &req, job->file, &job->bundle, err);
	CRASH_AT("prune.bundle");
	return rc == ERR_CONFLICT ? take_bundle(job, err) : rc;
}

static void plan_body(void *arg)
{
	struct prune_job *job = ((struct command_call *)arg)->priv;
	char *file = path_join(job->store, DB_FILE);
	struct db *db = NULL;

	job->rc = db_open(file, DB_READER, false, &db, &job->err);
	if (job->rc == 0)
		job->rc = make_plan(job, db, &job->err);
	if (job->rc == 0 && !job->dry_run)
		job->rc = write_bundle(job, db, &job->err);
	db_close(&db);
	free(file);
}

static void plan_done(void *arg)
{
	struct command_call *c = arg;
	const struct prune_job *job = c->priv;

	command_gathered(c, job->rc < 0 ? &job->err : NULL);
}

static void prune_gather(struct command_call *c)
{
	struct err err = { 0 };
	int rc = ev_work(command_env(c)->loop, EV_LANE_READ, plan_body, plan_done, c);

	if (rc < 0) {
		(void)err_set(&err, (enum err_code)rc, "", "too much is being read; nothing was done");
		command_gathered(c, &err);
	}
}

/* --- the intent */

/* Between the plan and now a hold may have been set, and another prune may have come first. */
static int still_true(const struct prune_job *job, struct db *db, struct audit_cut *ret, struct err *err)
{
	struct prune_job now = { .log = job->log };
	int rc = read_log(&now, db, err);

	free(now.origin);
	if (rc == 0)
		rc = newest_hold(db, &now.holds, err);
	if (rc < 0)
		return rc;
	if (now.from != job->from || now.holds != job->holds)
		return err_set(err, ERR_CONFLICT, "", "a hold was set or records were pruned meanwhile; say it again");
	rc = audit_cut_read(db, job->log, job->to, ret, err);
	if (rc == 0 && memcmp(ret->root, job->bundle.root, sizeof(ret->root)) != 0)
		rc = err_set(err, ERR_CORRUPT, job->tenant, "the bundle's records are not those that the log's tree has");
	return rc;
}

static int intend(struct command_call *c, struct db *db, struct audit_logs *logs, const struct audit_cut *cut,
		  struct err *err)
{
	const struct prune_job *job = c->priv;
	const char *by = approval_by(c);
	uint8_t range[16];
	const struct audit_field field[] = {
		{ AUDIT_TAG_RANGE, range, sizeof(range) }, { AUDIT_TAG_APPROVER, by, strlen(by) },
		{ AUDIT_TAG_BUNDLE, job->bundle.sha256, sizeof(job->bundle.sha256) },
		{ AUDIT_TAG_ROOT, cut->root, sizeof(cut->root) },
		{ AUDIT_TAG_FRONTIER, cut->frontier, cut->peaks * sizeof(*cut->frontier) },
	};
	struct audit_receipt at;
	const struct command_record r = { .kind = AUDIT_PRUNE, .tenant_id = job->t.id, .obj = "retention", .field = field,
		.nfield = sizeof(field) / sizeof(*field), .ret = &at };
	struct audit_event vouch;
	int rc;

	command_event_of(c, AUDIT_ADMIN_CMD, &vouch);
	rc = audit_cut_rows(logs, db, cut, &vouch, err);
	if (rc < 0)
		return rc;
	audit_put_be(range, (uint64_t)job->from, 8);
	audit_put_be(range + 8, (uint64_t)job->to, 8);
	rc = command_record(c, db, logs, &r, err);
	return rc < 0 ? rc : audit_cut_set(logs, db, cut, &at, err);
}

static int prune_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct prune_job *job = c->priv;
	struct audit_cut cut;
	int rc = 0;

	if (!job->dry_run) {
		rc = still_true(job, db, &cut, err);
		if (rc == 0)
			rc = approval_require(c, db, err);
		if (rc == 0)
			rc = intend(c, db, logs, &cut, err);
	}
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_text(c->out, "tenant", job->t.name);
	reply_int(c->out, "from", job->from);
	reply_int(c->out, "to", job->to - 1);
	reply_int(c->out, "records", job->to - job->from);
	reply_text(c->out, "said", job->dry_run ? "would be pruned" : "pruned");
	if (!job->dry_run) {
		reply_text(c->out, "bundle", job->file);
		reply_hex(c->out, "sha256", job->bundle.sha256, sizeof(job->bundle.sha256));
	}
	reply_row_end(c->out);
	return 0;
}

/* --- rows of the command table */

static const struct command_arg retention_prune_args[] = {
	TENANT_WORD, OPT("bundle", "FILE", ARG_PATH, COMPLETE_FILE, "Where the records are written first; a new file."),
	OPT("before", "TIME", ARG_TIME, COMPLETE_NONE, "Records before this time; default: those older than --max-days says."),
	FLAG("dry-run", "Say what would go and change nothing."), ARG_END };

const struct command prune_commands[] = {
	{ .noun = "retention", .verb = "prune", .help = "Remove old records, once they are in a bundle",
	  .detail = "Whole tiles of 256 records go, from the front of the log.  First they are written to a file that "
		    "toolcrib-verify --bundle checks without the store; then a record says what goes; then they go, 64 at a time "
		    "while calls are served, and the next start goes on with what was interrupted.  Refused are records that are "
		    "held, that were promised to be kept longer, or that no checkpoint covers.  Needs a second administrator: what "
		    "the first run wrote is used by the second.  Payloads are not in the bundle.",
	  .args = retention_prune_args, .done = "records %{from} to %{to} of %{tenant} %{said}", .destructive = true,
	  .role = ADM_OWNER, .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER, .check = prune_check,
	  .gather = prune_gather, .body = prune_body, .after = jobs_after },
	{ .noun = NULL },
};
