/* audit drill: the command that proves that verification works.  It copies the store, changes the copy in known
 * ways and verifies after each (AUDIT A-807).  check() runs on the loop, body() on a thread of the pool.  The copy
 * is removed at the end, or by drill_clean() at the next start: it may hold what has been erased since.  It stands
 * beside the store, so that its sealed files are the store's own: of them only what the catalog says is changed. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "command/rows.h"
#include "db/db.h"
#include "db/owner.h"
#include "forms/forms.h"
#include "notary/notary.h"
#include "review/review.h"
#include "toolset/toolset.h"
#include "verify/verify.h"

#include "keeping_int.h"

/* whole: not only the tenant's log is looked at; schema: the statement changes no row */
static const struct tampering { const char *name, *what; enum sql_id sql; bool whole, schema; } tamperings[] = {
	{ "A-T03", "the outcome of a call was changed", SQL_DRILL_OUTCOME, false, false },
	{ "A-T05", "the time of a call was changed", SQL_DRILL_TIME, false, false },
	{ "A-T02", "who called was removed", SQL_DRILL_PERSON, false, false },
	{ "A-T36", "the stored hash of a record was changed", SQL_DRILL_LEAF, false, false },
	{ "A-T06", "a record was removed", SQL_DRILL_REMOVE, false, false },
	{ "A-T12", "the newest records were cut off", SQL_DRILL_CUT, false, false },
	{ "A-T30", "the name of a tool was changed", SQL_DRILL_WORD, false, false },
	{ "A-T17", "what is kept of a call was removed", SQL_DRILL_PAYLOAD, false, false },
	{ "A-T22", "a signed checkpoint was changed", SQL_DRILL_NOTE, false, false },
	{ "A-T42", "a byte of a block was changed", SQL_DRILL_COLUMNS, false, false },
	{ "A-T43", "stored hashes of a block were changed", SQL_DRILL_HASHES, false, false },
	{ "A-T46", "a block was removed", SQL_DRILL_BLOCK, false, false },
	{ "A-T50", "a sealed file was said to be another one", SQL_DRILL_SEALED, false, false },
	{ "A-T60", "a trigger was put in that undoes revocations", SQL_DRILL_TRIGGER, true, true },
	{ "A-T65", "an older version of a tool was changed", SQL_DRILL_OLD_VERSION, true, false },
	{ "A-T68", "a setting was changed", SQL_DRILL_SETTING, true, false },
	{ "A-T69", "the log was given to another tenant", SQL_DRILL_RELABEL, true, false },
	{ "A-T24", "an approval that nobody gave was written", SQL_DRILL_APPROVAL, true, false },
};

#define COPY "drill.db"

struct drill_job {
	char *store, *copy;
	int64_t tenant_id, log, idx;
};

static void free_drill(void *priv)
{
	struct drill_job *job = priv;

	free(job->store);
	free(job->copy);
	free(job);
}

static int audit_drill_check(struct command_call *c, struct err *err)
{
	struct drill_job *job = command_priv(c, sizeof(*job));

	(void)err;
	c->free_priv = free_drill;
	job->store = mem_strdup(command_env(c)->store);
	job->copy = path_join(job->store, COPY);
	return 0;
}

static int pick_record(struct drill_job *job, const char *tenant, struct db *db, struct err *err)
{
	struct tenant_row t = { 0 };
	struct db_stmt *st;
	int rc = tenant_row_find(db, tenant, &t, err);

	if (rc == 0)
		rc = tenant_row_log(db, t.id, &job->log, err);
	if (rc < 0)
		return rc;
	job->tenant_id = t.id;
	st = db_stmt_get(db, SQL_DRILL_PICK);
	db_bind_i64(st, 1, job->log);
	rc = db_step(st, err);
	if (rc == 1)
		job->idx = db_col_i64(st, 0);
	db_stmt_put(&st);
	if (rc == 0)
		return err_set(err, ERR_NOT_FOUND, tenant, "%s has no call yet that a checkpoint covers", tenant);
	return rc < 0 ? rc : 0;
}

/* The copy must not take the room that records need. */
static int check_room(const struct drill_job *job, struct err *err)
{
	char *path = path_join(job->store, DB_FILE);
	struct statvfs fs;
	struct stat st;
	bool fits = stat(path, &st) == 0 && statvfs(job->store, &fs) == 0 &&
		(uint64_t)fs.f_bavail * fs.f_frsize / 4 > (uint64_t)st.st_size;

	free(path);
	return fits ? 0 : err_set(err, ERR_LIMIT, job->store,
		"a copy of the store needs a quarter of the free space, or more");
}

struct seen { bool code[AUDIT_FINDING_COUNT]; };

static void note_finding(void *arg, const struct audit_finding *f)
{
	struct seen *seen = arg;

	seen->code[f->code] |= audit_finding_bad(f->code) && !f->gap;
}

/* The names of what was found; tenant_id 0: in the whole store. */
static int look(int64_t tenant_id, struct db *copy, struct str *ret, struct err *err)
{
	const struct audit_evidence with = { .young_s = NOTARY_MAX_AGE_S };
	struct audit_coverage sum;
	struct seen seen = { { false } };
	int rc = audit_verify_with(copy, tenant_id, &with, note_finding, &seen, &sum, err);

	for (unsigned code = 0; rc == 0 && code < AUDIT_FINDING_COUNT; code++)
		if (seen.code[code])
			str_printf(ret, "%s%s", ret->len > 0 ? " " : "", audit_finding_name((enum audit_finding_code)code));
	return rc;
}

/* The schema is the release's own again afterwards, or nothing else would be looked at.  1: something was changed. */
static int tamper(const struct drill_job *job, struct db *copy, const struct tampering *t, struct err *err)
{
	struct db_stmt *st = db_stmt_get(copy, SQL_DRILL_UNFREEZE);
	int rc = db_run(&st, err);
	bool changed;

	if (rc < 0)
		return rc;
	st = db_stmt_get(copy, t->sql);
	if (db_param_count(st) > 0)
		db_bind_i64(st, 1, job->log);
	if (db_param_count(st) > 1)
		db_bind_i64(st, 2, job->idx);
	rc = db_run(&st, err);
	if (rc < 0)
		return rc;
	changed = t->schema || db_changes(copy) > 0;
	st = db_stmt_get(copy, SQL_DRILL_FREEZE);
	rc = db_run(&st, err);
	return rc < 0 ? rc : changed;
}

/* t NULL: before anything was changed, when nothing should be found. */
static void put_drill(struct command_call *c, const struct tampering *t, const char *found)
{
	bool good = t ? *found : !*found;

	if (!good)
		c->status = ADM_STATUS_FINDINGS;
	reply_row_begin(c->out);
	reply_text(c->out, "tampering", t ? t->name : NULL);
	reply_text(c->out, "what", t ? t->what : "nothing was changed");
	reply_text(c->out, "found", *found ? found : NULL);
	reply_text(c->out, "class", good ? "sum" : "bad");
	reply_bool(c->out, "as_expected", good);
	reply_row_end(c->out);
}

/* One, in a transaction that is undone.  What is not there to be changed is left out. */
static int drill(struct command_call *c, struct db *copy, const struct tampering *t, struct err *err)
{
	const struct drill_job *job = c->priv;
	struct str found = STR_INIT;
	int rc = db_txn_begin(copy, true, err), n = 0;

	if (rc < 0)
		return rc;
	rc = tamper(job, copy, t, err);
	if (rc == 1)
		n = look(t->whole ? 0 : job->tenant_id, copy, &found, err);
	(void)db_txn_end(copy, ERR_CANCELLED, NULL);
	if (rc == 1 && n >= 0)
		put_drill(c, t, str_text(&found));
	str_fini(&found);
	return rc < 0 ? rc : n < 0 ? n : 0;
}

static int drill_all(struct command_call *c, struct db *copy, struct err *err)
{
	struct str found = STR_INIT;
	int rc = look(0, copy, &found, err);

	if (rc >= 0)
		put_drill(c, NULL, str_text(&found));
	str_fini(&found);
	for (size_t i = 0; rc >= 0 && i < NELEMS(tamperings); i++)
		rc = drill(c, copy, &tamperings[i], err);
	return rc < 0 ? rc : 0;
}

static void remove_copy(const char *path)
{
	static const char *const tails[] = { "", "-wal", "-shm" };

	for (size_t i = 0; i < NELEMS(tails); i++) {
		char *file = mem_printf("%s%s", path, tails[i]);

		(void)unlink(file);
		free(file);
	}
}

static int audit_drill_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct drill_job *job = c->priv;
	struct db *copy = NULL;
	int rc = pick_record(job, arg_text(c, "tenant"), db, err);

	(void)logs;
	if (rc == 0)
		rc = check_room(job, err);
	if (rc == 0)
		rc = db_backup(db, job->copy, err);
	if (rc < 0)
		return rc;
	rc = db_open(job->copy, DB_WRITER, false, &copy, err);
	if (rc == 0)
		rc = drill_all(c, copy, err);
	db_close(&copy);
	remove_copy(job->copy);
	return rc;
}

void drill_clean(const char *store)
{
	char *copy = path_join(store, COPY);

	remove_copy(copy);
	free(copy);
}

/* --- rows of the command table */

static const struct command_arg audit_drill_args[] = {
	NEED("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "Whose log is tampered with, in the copy."), ARG_END };
static const struct command_column drill_cols[] = {
	COL("tampering", "KIND"), COL("what", "WHAT"), COL("found", "FOUND"), COL_END };

const struct command drill_commands[] = {
	{ .noun = "audit", .verb = "drill", .help = "Show that tampering is noticed",
	  .detail = "Makes a copy of the store beside it, changes the copy in known ways, one after the other, verifies it "
		    "each time and says by which findings it was noticed; then the copy is removed.  Nothing is done to the "
		    "store itself.  The exit status is 4 when a change was not noticed, or when the store is damaged as it "
		    "is.",
	  .args = audit_drill_args, .columns = drill_cols, .shape = ADM_FINDINGS, .role = ADM_AUDIT, .where = ADM_ON_POOL,
	  .record = AUDIT_AUDIT_VERIFY, .check = audit_drill_check, .body = audit_drill_body },
	{ .noun = NULL },
};
