/* retention set, show, prune, compact: the commands that say how long the records of a tenant are kept, and that remove
 * those which were kept long enough (AUDIT ).  set and compact run on the writer's thread, show on the
 * pool. prune writes a bundle of the records on the pool first; its body on the writer's thread checks again and
 * records the cut, and the job runner (jobs.c) removes them.  A shorter period never takes back what records that are
 * there were promised; nothing is removed before its bundle is on the disk. */
#include "config.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/keep.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "bundle/seal.h"
#include "command/rows.h"
#include "db/db.h"
#include "ev/ev.h"
#include "forms/forms.h"
#include "review/review.h"
#include "toolset/toolset.h"

#include "keeping_int.h"

/* --- periods of a log, and the records that they protect */

#define DAY_US (86400ull * 1000000)

/* how long a record has to be kept */
static int64_t promised_days(const struct retention_periods *p, int64_t idx)
{
	int64_t days = 0;

	for (size_t i = 0; i < p->n; i++) {     /* the newest first */
		if (p->v[i].min_days > days)
			days = p->v[i].min_days;
		if (p->v[i].from_idx <= idx)
			break;
	}
	return days;
}

static int first_since(struct db *db, int64_t log, int64_t from, int64_t to, uint64_t since_us, int64_t *ret,
		       struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_RETENTION_FIRST_SINCE);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, from);
	db_bind_i64(st, 3, to);
	db_bind_i64(st, 4, (int64_t)since_us);
	rc = db_step(st, err);
	if (rc >= 0)
		*ret = rc == 1 ? db_col_i64(st, 0) : to;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static uint64_t days_ago(int64_t days)
{
	uint64_t now = clock_wall_us(), age = (uint64_t)days * DAY_US;

	return age < now ? now - age : 0;
}

/* Stretches between the changes of the period, the newest first: what was promised once stays, what is promised now
 * holds for what is there already. */
static int first_promised(struct db *db, int64_t log, const struct retention_periods *p, int64_t from, int64_t to,
			  int64_t *ret, struct err *err)
{
	int64_t end = to, days = 0, found = to;
	int rc = 0;

	for (size_t i = 0; i <= p->n && rc == 0 && end > from; i++) {
		int64_t begin = i < p->n ? p->v[i].from_idx : from;

		if (i < p->n && p->v[i].min_days > days)
			days = p->v[i].min_days;
		if (begin < from)
			begin = from;
		if (begin >= end)
			continue;
		rc = first_since(db, log, begin, end, days_ago(days), &found, err);
		if (rc == 0 && found < end)
			to = found;
		end = begin;
	}
	*ret = to;
	return rc;
}

/* --- set */

struct days { int64_t min, max; bool no_max; };         /* min, max: -1 = not said */

static struct days arg_days(const struct command_call *c)
{
	return (struct days){ .min = arg_given(c, "min-days") ? (int64_t)arg_uint(c, "min-days", 0) : -1,
		.max = arg_given(c, "max-days") ? (int64_t)arg_uint(c, "max-days", 0) : -1,
		.no_max = arg_flag(c, "no-max") };
}

static int retention_set_check(struct command_call *c, struct err *err)
{
	const struct days days = arg_days(c);

	if (days.min < 0 && days.max < 0 && !days.no_max)
		return err_set(err, ERR_INVALID, "", "nothing to set: --min-days, --max-days or --no-max");
	if (days.no_max && days.max >= 0)
		return err_set(err, ERR_INVALID, "", "--max-days and --no-max contradict each other");
	return retention_check(days.min, days.max, err);
}

/* What the command leaves open stays as it is. */
static int next_period(struct db *db, int64_t tenant_id, struct days days, struct retention_period *ret,
		       struct err *err)
{
	int rc = retention_now(db, tenant_id, ret, err);

	if (rc < 0)
		return rc;
	if (rc == 0 && days.min < 0)
		return err_set(err, ERR_INVALID, "min-days", "the first period of a tenant needs --min-days");
	if (days.min >= 0)
		ret->min_days = days.min;
	if (days.max >= 0 || days.no_max)
		ret->max_days = days.max;
	return retention_check(ret->min_days, ret->max_days, err);
}

static void put_days(struct reply *o, const struct retention_period *p)
{
	reply_int(o, "min_days", p->min_days);
	if (p->max_days >= 0)
		reply_int(o, "max_days", p->max_days);
	else
		reply_text(o, "max_days", NULL);
}

static int retention_set_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct retention_period next, before;
	struct tenant_row t;
	int rc = tenant_row_find(db, arg_text(c, "tenant"), &t, err);

	if (rc == 0)
		rc = next_period(db, t.id, arg_days(c), &next, err);
	if (rc == 0)
		rc = retention_store(c, db, logs, &t, &next, &before, err);
	if (rc == 0)
		rc = err_set(err, ERR_CONFLICT, "", "this is the period in force");
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_text(c->out, "tenant", t.name);
	put_days(c->out, &next);
	reply_row_end(c->out);
	return 0;
}

/* --- show */

/* The cut of a log and its newest record. */
static int read_log(struct db *db, int64_t log, int64_t *ret_min, int64_t *ret_size, uint64_t *ret_first,
		    struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_RETENTION_LOG);
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	if (rc == 1) {
		*ret_min = db_col_i64(st, 0);
		*ret_size = db_col_i64(st, 1);
		*ret_first = (uint64_t)db_col_i64(st, 2);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int show_now(struct command_call *c, struct db *db, const struct tenant_row *t, struct err *err)
{
	struct retention_period now;
	int64_t log = 0, min_idx = 0, size = 0;
	uint64_t first_us = 0;
	int has = retention_now(db, t->id, &now, err), rc = has < 0 ? has : tenant_row_log(db, t->id, &log, err);

	if (rc == 0)
		rc = read_log(db, log, &min_idx, &size, &first_us, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_text(c->out, "tenant", t->name);
	if (has)
		put_days(c->out, &now);
	reply_int(c->out, "records", size - min_idx);
	reply_time(c->out, "since", first_us);
	reply_int(c->out, "pruned", min_idx);
	reply_row_end(c->out);
	return 0;
}

static void put_field(struct reply *o, const char *name, const struct audit_view *v, unsigned tag)
{
	char text[128];
	size_t len = 0;
	const uint8_t *p = audit_field_find(v->ext, v->ext_len, tag, &len);

	(void)snprintf(text, sizeof(text), "%.*s", p ? (int)(len < sizeof(text) ? len : sizeof(text) - 1) : 0,
		p ? (const char *)p : "");
	reply_text(o, name, p ? text : NULL);
}

struct history { struct reply *out; const char *tenant; };

/* What the log says of periods and prunes, the newest first. */
static int history_row(void *arg, const struct audit_view *v)
{
	const struct history *h = arg;
	struct reply *o = h->out;
	size_t len = 0;
	const uint8_t *p;

	reply_row_begin(o);
	reply_time(o, "time", v->ts_us);
	reply_text(o, "tenant", h->tenant);
	reply_int(o, "index", v->idx);
	reply_text(o, "kind", audit_kind_name(v->kind));
	p = audit_field_find(v->ext, v->ext_len, AUDIT_TAG_COUNTS, &len);
	if (v->kind == AUDIT_RETENTION_CHANGE && p && len == 16) {
		reply_int(o, "min_days", (int64_t)audit_get_be(p, 8));
		if (audit_get_be(p + 8, 8))
			reply_int(o, "max_days", (int64_t)audit_get_be(p + 8, 8));
	}
	p = audit_field_find(v->ext, v->ext_len, AUDIT_TAG_RANGE, &len);
	if (p && len == 16) {
		reply_int(o, "from", (int64_t)audit_get_be(p, 8));
		reply_int(o, "to", (int64_t)audit_get_be(p + 8, 8) - 1);
	}
	p = audit_field_find(v->ext, v->ext_len, AUDIT_TAG_BUNDLE, &len);
	if (p && len == 32)
		reply_hex(o, "bundle", p, 32);
	put_field(o, "approver", v, AUDIT_TAG_APPROVER);
	reply_text(o, "detail", v->detail);
	reply_row_end(o);
	return reply_full(o);
}

static int show_history(struct command_call *c, struct db *db, const struct tenant_row *t, struct err *err)
{
	static const int kinds[] = { AUDIT_RETENTION_CHANGE, AUDIT_PRUNE, AUDIT_PRUNE_DONE };
	struct history h = { c->out, t->name };
	int rc = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && rc == 0; i++) {
		struct audit_filter f = { .tenant_id = t->id, .outcome = -1, .kind = kinds[i], .limit = UINT_MAX };

		rc = audit_query(db, &f, history_row, &h, err);
	}
	return rc;
}

static int retention_show_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	int (*show)(struct command_call *, struct db *, const struct tenant_row *, struct err *) =
		arg_flag(c, "history") ? show_history : show_now;
	const char *name = arg_text(c, "tenant");
	struct db_stmt *st;
	struct tenant_row t;
	int rc;

	(void)logs;
	if (name && *name) {
		rc = tenant_row_find(db, name, &t, err);
		return rc < 0 ? rc : show(c, db, &t, err);
	}
	st = db_stmt_get(db, SQL_ADMIN_TENANT_LIST);
	while ((rc = db_step(st, err)) == 1) {
		tenant_row_read(st, &t);
		rc = show(c, db, &t, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc;
}

/* --- compact */

static int retention_compact_check(struct command_call *c, struct err *err)
{
	if (c->who.embedded)
		return 0;
	(void)err_set(err, ERR_DENIED, "", "while the server runs, calls would wait for this");
	err_hint(err, "stop toolcribd, run this as the user of the store, start toolcribd");
	return ERR_DENIED;
}

/* The record of the command says that it was done. */
static int retention_compact_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	int64_t texts = 0, names = 0;
	int rc = audit_compact(logs, db, &texts, &names, err);

	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_int(c->out, "texts", texts);
	reply_int(c->out, "names", names);
	reply_row_end(c->out);
	return 0;
}

/* --- rows of the command table */

static const struct command_arg retention_set_args[] = {
	TENANT_WORD, OPT("min-days", "N", ARG_UINT, COMPLETE_NONE, "Keep records at least so long; 0 promises nothing."),
	OPT("max-days", "N", ARG_UINT, COMPLETE_NONE, "Prune takes those that are older."),
	FLAG("no-max", "Prune takes none by itself."), ARG_END };
static const struct command_arg retention_show_args[] = {
	TENANT_MAYBE, FLAG("history", "What the log says of changes and prunes."), ARG_END };
static const struct command_column retention_show_cols[] = {
	COL("tenant", "TENANT"), COL("min_days", "MIN DAYS"), COL("max_days", "MAX DAYS"), COL("records", "RECORDS"),
	COL_AT("since", "SINCE"), COL("pruned", "PRUNED"), COL_AT("time", "CHANGED"), COL("kind", "WHAT"), COL("from", "FROM"),
	COL("to", "TO"), COL("approver", "APPROVER"), COL("detail", "DETAIL"), COL_END };

const struct command retention_commands[] = {
	{ .noun = "retention", .verb = "set", .help = "Say how long the records of a tenant are kept",
	  .detail = "Without a period nothing is ever pruned.  A longer one holds for records that are there already; a "
		    "shorter one for those to come alone, and needs a second administrator.",
	  .args = retention_set_args, .done = "records of %{tenant} are kept %{min_days} days at least", .role = ADM_OWNER,
	  .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER, .check = retention_set_check, .body = retention_set_body },
	{ .noun = "retention", .verb = "show", .help = "Show how long records are kept, and what is gone",
	  .args = retention_show_args, .columns = retention_show_cols, .shape = ADM_TABLE, .role = ADM_READ,
	  .console = true, .seen = "tenant",
	  .where = ADM_ON_POOL,
	   .body = retention_show_body },
	{ .noun = NULL },
};

const struct command compact_commands[] = {
	{ .noun = "retention", .verb = "compact", .help = "Remove texts and names that no record uses any more",
	  .detail = "What pruned records have left in the dictionary.  Reads all records, so it works only while "
		    "no server runs.",
	  .args = no_args, .done = "%{texts} texts and %{names} names removed", .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = retention_compact_check, .body = retention_compact_body },
	{ .noun = NULL },
};

/* --- prune */

struct prune_job {
	char tenant[64], file[4096];
	uint64_t before_us;             /* 0: as the period says */
	bool dry_run, keep;             /* keep: in the archive, instead of a bundle */
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
	job->keep = arg_flag(c, "keep");
	if (job->keep && arg_given(c, "bundle"))
		return err_set(err, ERR_INVALID, "keep", "--keep and --bundle contradict each other: files that are kept are "
			       "the bundle");
	if (!arg_given(c, "bundle") && !job->dry_run && !job->keep)
		return err_set(err, ERR_INVALID, "bundle", "--bundle FILE is missing: what goes is written there first; or "
			       "say --keep");
	if (arg_given(c, "bundle") && strlen(arg_text(c, "bundle")) >= sizeof(job->file))
		return err_set(err, ERR_INVALID, "bundle", "the path is longer than %zu bytes", sizeof(job->file) - 1);
	arg_copy(c, "bundle", job->file, sizeof(job->file));
	return 0;
}

/* --- prune: the plan */

static int prune_read_log(struct prune_job *job, struct db *db, struct err *err)
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

/* A cut lies between sealed files: one that is old enough in part stays (SC-801). */
static int whole_files(struct prune_job *job, struct db *db, struct err *err)
{
	int64_t next = 0;
	int rc = forms_cut(db, job->log, &job->to, &next, err);

	if (rc < 0 || job->to > job->from)
		return rc;
	if (next <= job->from)
		return err_set(err, ERR_NOT_FOUND, "", "nothing to prune: there are no %d whole records of %s that are old enough",
			       AUDIT_CUT_UNIT, job->tenant);
	(void)err_set(err, ERR_NOT_FOUND, "", "nothing to prune: records %" PRId64 " to %" PRId64 " of %s are one sealed "
		      "file, which goes as a whole, and not all of them are old enough", job->from, next - 1, job->tenant);
	err_hint(err, "toolcrib audit segments --tenant %s says what each file has", job->tenant);
	return ERR_NOT_FOUND;
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
			      allowed, job->tenant, promised_days(p, allowed));
		err_hint(err, "toolcrib retention show %s --history", job->tenant);
		return ERR_DENIED;
	}
	return whole_files(job, db, err);
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
		rc = prune_read_log(job, db, err);
	if (rc == 0)
		rc = newest_hold(db, &job->holds, err);
	if (rc == 0)
		rc = retention_load(db, job->log, &p, err);
	if (rc == 0)
		rc = find_cut(job, db, &p, err);
	retention_fini(&p);
	if (rc == 0)
		rc = held_range(db, job->log, job->from, job->to, job->tenant, err);
	return rc == 0 ? is_signed(job, db, err) : rc;
}

/* --- prune: the bundle */

static void ignore_finding(void *arg, const struct audit_finding *f)
{
	(void)arg;
	(void)f;
}

/* Between two runs what a bundle has in part may have been sealed. */
static int still_whole(const struct prune_job *job, struct db *db, struct err *err)
{
	int64_t cut = job->to, next = 0;
	int rc = forms_cut(db, job->log, &cut, &next, err);

	if (rc == 0 && cut != job->to)
		rc = err_set(err, ERR_CONFLICT, job->file, "the bundle ends with record %" PRId64 ", and records %" PRId64 " to %"
			     PRId64 " are one sealed file now, which goes as a whole: say another file", job->to - 1, cut, next - 1);
	return rc;
}

/* One that is there already, of a run that was refused or interrupted, is taken when it is what would be written. */
static int take_bundle(struct prune_job *job, struct db *db, struct err *err)
{
	struct audit_coverage sum;
	struct audit_bundle *b = &job->bundle;
	FILE *f = NULL;
	int rc = path_open_stream(job->file, &f, err);

	if (rc < 0)
		return rc;
	rc = audit_bundle_verify(f, NULL, ignore_finding, NULL, b, &sum, err);
	fclose(f);
	if (rc < 0)
		return rc;
	if (sum.bad > 0 || strcmp(b->origin, job->origin) != 0 || b->from != job->from || b->to > job->to ||
	    b->to % AUDIT_CUT_UNIT != 0)
		return err_set(err, ERR_CONFLICT, job->file, "the file exists, and is no bundle of the records that would go");
	job->to = b->to;
	return still_whole(job, db, err);
}

static int write_bundle(struct prune_job *job, struct db *db, struct err *err)
{
	char query[160];
	const struct audit_bundle_req req = { job->log, job->from, job->to, job->origin, query };
	int rc;

	(void)snprintf(query, sizeof(query), "retention prune %s", job->tenant);
	rc = audit_bundle_write(db, &req, job->file, &job->bundle, err);
	CRASH_AT("prune.bundle");
	return rc == ERR_CONFLICT ? take_bundle(job, db, err) : rc;
}

static int find_kept(struct prune_job *job, struct db *db, struct err *err)
{
	int rc = audit_archive_kept(db, job->log, job->from, job->to, &job->to, job->bundle.root, job->bundle.sha256, err);

	if (rc == ERR_NOT_FOUND)
		err_hint(err, "toolcrib audit archive --tenant %s moves sealed files there, toolcrib audit segments says where "
			 "each is", job->tenant);
	return rc;
}

static void plan_body(void *arg)
{
	struct prune_job *job = ((struct command_call *)arg)->priv;
	struct db *db = NULL;

	command_lend(arg);
	job->rc = forms_open_store(db_in(job->store), &db, &job->err);
	if (job->rc == 0)
		job->rc = make_plan(job, db, &job->err);
	if (job->rc == 0 && job->keep)
		job->rc = find_kept(job, db, &job->err);
	else if (job->rc == 0 && !job->dry_run)
		job->rc = write_bundle(job, db, &job->err);
	command_lend(NULL);
	db_close(&db);
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

/* --- prune: the intent */

/* Between the plan and now a hold may have been set, and another prune may have come first. */
static int still_true(const struct prune_job *job, struct db *db, struct audit_cut *ret, struct err *err)
{
	struct prune_job now = { .log = job->log };
	int rc = prune_read_log(&now, db, err);

	free(now.origin);
	if (rc == 0)
		rc = newest_hold(db, &now.holds, err);
	if (rc < 0)
		return rc;
	if (now.from != job->from || now.holds != job->holds)
		return err_set(err, ERR_CONFLICT, "", "a hold was set or records were pruned meanwhile; say it again");
	rc = audit_cut_read(db, job->log, job->to, ret, err);
	if (rc == 0 && memcmp(ret->root, job->bundle.root, sizeof(ret->root)) != 0)
		rc = err_set(err, ERR_CORRUPT, job->tenant, "the %s records are not those that the log's tree has",
			     job->keep ? "archive's" : "bundle's");
	ret->keep = job->keep;
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
		reply_text(c->out, "bundle", job->keep ? NULL : job->file);
		reply_hex(c->out, "sha256", job->bundle.sha256, sizeof(job->bundle.sha256));
	}
	reply_row_end(c->out);
	return 0;
}

/* --- rows of the command table */

static void prune_after(struct command_call *c)
{
	jobs_after(c, ((const struct prune_job *)c->priv)->log);
}

static const struct command_arg retention_prune_args[] = {
	TENANT_WORD, OPT("bundle", "FILE", ARG_PATH_KEPT, COMPLETE_FILE, "Where the records are written first; a new file."),
	OPT("before", "TIME", ARG_TIME, COMPLETE_NONE, "Records before this time; default: those older than --max-days says."),
	FLAG("keep", "Instead of a bundle: only what is in sealed files of the archive, and these stay there."),
	FLAG("dry-run", "Say what would go and change nothing."), ARG_END };

const struct command prune_commands[] = {
	{ .noun = "retention", .verb = "prune", .help = "Remove old records, once they are in a bundle",
	  .detail = "Whole tiles of 256 records go, from the front of the log; of what is in sealed files, whole files.  "
		    "First they are written to a file that toolcrib-verify --bundle checks without the store; then a "
		    "record says what goes; then they go, 64 at a time while calls are served, and the next start goes on with "
		    "what was interrupted.  Refused are records that are "
		    "held, that were promised to be kept longer, or that no checkpoint covers.  Needs a second administrator: what "
		    "the first run wrote is used by the second.  Payloads are not in the bundle.  With --keep files of the "
		    "archive are read and compared, and stay; the record has the SHA-256 of their digests, one behind the "
		    "other, toolcrib-verify checks each by itself, and of what is erased later only keys reach them.",
	  .args = retention_prune_args, .done = "records %{from} to %{to} of %{tenant} %{said}", .destructive = true,
	  .role = ADM_OWNER, .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER, .check = prune_check,
	  .gather = prune_gather, .body = prune_body, .after = prune_after },
	{ .noun = NULL },
};
