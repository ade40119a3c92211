/* audit bundle and proof: the commands that give an outsider what he verifies without the store (AUDIT A-1002): a tar
 * with records of a tenant's log, or a C2SP tlog-proof of one record, which shows nothing of others.  audit
 * consistency: how a log grew, for who holds one of its checkpoints (CONSOLE C-108).  audit unfold:
 * records as a plain database.  check() runs on the loop; body() on a thread of the pool, that of bundle and unfold
 * once for each part.  The server never writes where a reader says (SEC S-920): a file is made without a name beside
 * the store, and its bytes go to the client, which writes its own. */
#include "config.h"

#include "review/review.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "command/rows.h"
#include "db/db.h"
#include "tenant/tenant.h"
#include "toolset/toolset.h"

/* --- audit proof */

struct proof {
	bool begin;
	int64_t idx;                    /* of the record; -1 = not found */
};

static int note_record(void *arg, const struct audit_view *v)
{
	struct proof *proof = arg;

	if ((v->kind == AUDIT_CALL_BEGIN) == proof->begin)
		proof->idx = v->idx;
	return 0;
}

static int audit_proof_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct proof proof = { arg_flag(c, "begin"), -1 };
	struct str text = STR_INIT;
	struct tenant_row t;
	uint8_t call[16];
	uint64_t size = 0;
	int rc = arg_call(c, db, call, &t, err);

	(void)logs;
	if (rc == 0)
		rc = audit_query_call(db, t.id, call, note_record, &proof, err);
	if (rc >= 0 && proof.idx < 0)
		rc = err_set(err, ERR_NOT_FOUND, "", "call %s: has no %s", arg_text(c, "call"),
			     proof.begin ? "begin" : "end yet");
	if (rc >= 0)
		rc = audit_prove(db, t.id, proof.idx, &text, &size, err);
	if (rc == 0) {
		command_seen(c, t.id, proof.idx);
		reply_row_begin(c->out);
		reply_text(c->out, "proof", str_text(&text));
		reply_text(c->out, "tenant", t.name);
		reply_int(c->out, "index", proof.idx);
		reply_int(c->out, "size", (int64_t)size);
		reply_row_end(c->out);
	}
	str_fini(&text);
	return rc < 0 ? rc : 0;
}

/* --- audit consistency */

/* A size, not an index: what there may be of records. */
static int read_size(const struct command_call *c, uint64_t *ret, struct err *err)
{
	const char *text = arg_text(c, "from");

	if (text_u64(text, strlen(text), ret) < 0 || *ret > INT64_MAX)
		return err_set(err, ERR_INVALID, "from", "from must be how many records the log had, not \"%.30s\"", text);
	return 0;
}

static int audit_consistency_check(struct command_call *c, struct err *err)
{
	uint64_t from;

	arg_record_in(c);
	return read_size(c, &from, err);
}

static int audit_consistency_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const char *tenant = arg_text(c, "tenant");
	struct str text = STR_INIT;
	struct audit_growth g;
	struct tenant_row t = { 0 };
	uint64_t from = 0;
	int rc = read_size(c, &from, err);

	(void)logs;
	if (rc == 0 && tenant)
		rc = tenant_row_find(db, tenant, &t, err);
	if (rc == 0)
		rc = audit_prove_growth(db, t.id, from, &text, &g, err);
	if (rc == 0) {
		command_seen(c, t.id, -1);
		reply_row_begin(c->out);
		reply_text(c->out, "proof", str_text(&text));
		reply_text(c->out, "tenant", tenant);
		reply_text(c->out, "log", g.origin);
		reply_int(c->out, "from", (int64_t)g.from);
		if (g.from > 0)
			reply_hex(c->out, "from_root", g.from_root, sizeof(g.from_root));
		reply_int(c->out, "size", (int64_t)g.size);
		reply_int(c->out, "hashes", (int64_t)g.n);
		reply_row_end(c->out);
	}
	str_fini(&text);
	return rc;
}

/* --- rows of the command table */

static const struct command_arg audit_consistency_args[] = {
	OPT("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "The log of this tenant; default: the system's."),
	NEED("from", "SIZE", ARG_TEXT, COMPLETE_NONE, "How many records the log had: the second line of a checkpoint."),
	ARG_END };
static const struct command_arg audit_proof_args[] = {
	WORD("call", "CALL", COMPLETE_NONE, "Id of the call, as in audit calls."), TENANT_OPT,
	FLAG("begin", "The record of its begin, not of its end."), ARG_END };
static const struct command_column audit_proof_cols[] = { COL("proof", "Proof"), COL_END };

const struct command proof_commands[] = {
	{ .noun = "audit", .verb = "proof", .help = "Prove to an outsider that a call is in its tenant's log",
	  .detail = "Prints a C2SP tlog-proof: the bytes of the record, its place, the hashes that lead from it to the root "
		    "of the log's newest signed checkpoint, and that checkpoint.  Whoever has the log's public key checks "
		    "it without the store: with contrib/verify/verify.py, or any tool that knows transparency logs.  It "
		    "shows nothing of other records.",
	  .args = audit_proof_args, .columns = audit_proof_cols, .done = "record %{index} of %{tenant}, in a log of %{size}",
	  .shape = ADM_TEXT, .role = ADM_READ, .console = true, .seen = "tenant", .where = ADM_ON_POOL,
	  .record = AUDIT_AUDIT_EXPORT,
	  .check = arg_call_check, .body = audit_proof_body },
	{ .noun = "audit", .verb = "consistency", .help = "Prove to who holds an old checkpoint that the log only grew since",
	  .detail = "Prints what a witness is asked with (C2SP tlog-witness): \"old SIZE\", the hashes of RFC 9162 that lead "
		    "from the log's first SIZE records to its newest signed checkpoint, an empty line, and that checkpoint.  Whoever "
		    "holds a checkpoint of that size and the log's public key checks it without the store: with "
		    "contrib/verify/verify.py --consistency, or any tool that knows transparency logs.  It shows nothing of "
		    "records.  Of size 0 it is the checkpoint alone.",
	  .args = audit_consistency_args, .columns = audit_proof_cols,
	  .done = "%{log} goes on from %{from} to %{size}: %{hashes} hashes", .shape = ADM_TEXT, .role = ADM_AUDIT,
	  .where = ADM_ON_POOL, .record = AUDIT_AUDIT_EXPORT, .check = audit_consistency_check,
	  .body = audit_consistency_body },
	{ .noun = NULL },
};

/* --- audit bundle */

#define PART_BYTES 262144               /* of a bundle in a row */

struct bundle_job {
	char *store;
	int64_t from, to;               /* from <= idx <= to; -1: open */
	int64_t log;
	int64_t size, covered;          /* of the log; of its newest checkpoint, -1 = there is none */
	FILE *file;                     /* without a name, once it is written; then as far as it was read */
	struct audit_bundle bundle;
	/* of audit unfold */
	uint64_t since_us, until_us;
	struct audit_unfolded unfolded;
	struct digest *digest;          /* of what was sent */
};

static void free_job(void *priv)
{
	struct bundle_job *job = priv;

	uint8_t rest[DIGEST_SIZE];

	if (job->file)
		fclose(job->file);
	if (job->digest)
		digest_end(&job->digest, rest);
	free(job->store);
	free(job);
}

int arg_index(const struct command_call *c, const char *name, int64_t *ret, struct err *err)
{
	const char *text = arg_text(c, name);
	int64_t v = 0;

	*ret = -1;
	if (!text)
		return 0;
	if (text_i64(text, strlen(text), &v) < 0 || v < 0)
		return err_set(err, ERR_INVALID, name, "%s must be the index of a record, not \"%.30s\"", name, text);
	*ret = v;
	return 0;
}

static int audit_bundle_check(struct command_call *c, struct err *err)
{
	struct bundle_job *job = command_priv(c, sizeof(*job));
	bool times = arg_time(c, "since") || arg_time(c, "until");
	int rc;

	c->free_priv = free_job;
	job->store = mem_strdup(command_env(c)->store);
	rc = arg_index(c, "from", &job->from, err);
	if (rc == 0)
		rc = arg_index(c, "to", &job->to, err);
	if (rc == 0 && (job->from >= 0 || job->to >= 0) && times)
		rc = err_set(err, ERR_INVALID, "", "a range is by indexes or by times");
	arg_record_in(c);
	return rc;
}

int range_of_times(struct db *db, int64_t log, uint64_t since_us, uint64_t until_us, int64_t *ret_from, int64_t *ret_to,
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

static int find_log(struct bundle_job *job, struct db *db, int64_t *ret_min, char **ret_origin, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_RETENTION_LOG);
	int rc;

	db_bind_i64(st, 1, job->log);
	rc = db_step(st, err);
	if (rc == 1) {
		*ret_min = db_col_i64(st, 0);
		job->size = db_col_i64(st, 1);
		*ret_origin = mem_strdup(db_col_text(st, 3, NULL));
	}
	db_stmt_put(&st);
	if (rc != 1)
		return rc < 0 ? rc : err_set(err, ERR_INTERNAL, "", "a log without a row");
	st = db_stmt_get(db, SQL_REPORT_HEAD_SIGNED);
	db_bind_i64(st, 1, job->log);
	rc = db_step(st, err);
	job->covered = rc == 1 ? db_col_i64(st, 1) : -1;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* Whoever names no end gets what a checkpoint vouches for: behind it, a bundle is INCOMPLETE for ever. */
static int64_t end_of(const struct command_call *c, const struct bundle_job *job)
{
	if (arg_given(c, "to") || arg_time(c, "until"))
		return job->to + 1;
	return job->covered > 0 ? job->covered : job->size;
}

static int find_range(struct command_call *c, struct db *db, struct audit_bundle_req *ret, char **ret_origin,
		      struct err *err)
{
	struct bundle_job *job = c->priv;
	uint64_t since_us = arg_time(c, "since"), until_us = arg_time(c, "until");
	int64_t min_idx = 0;
	int rc = since_us || until_us
			 ? range_of_times(db, job->log, since_us, until_us, &job->from, &job->to, err) : 0;

	if (rc == 0)
		rc = find_log(job, db, &min_idx, ret_origin, err);
	if (rc < 0)
		return rc;
	*ret = (struct audit_bundle_req){ .log = job->log, .from = job->from >= 0 ? job->from : min_idx,
		.to = end_of(c, job), .origin = *ret_origin };
	if (ret->from >= min_idx && ret->to <= job->size && ret->from < ret->to)
		return 0;
	if (ret->from >= min_idx && ret->from < job->size && ret->to == job->covered) {
		(void)err_set(err, ERR_NOT_FOUND, "", "no checkpoint of %s covers record %" PRId64 " yet", arg_text(c, "tenant"),
			      ret->from);
		err_hint(err, "toolcrib audit checkpoint, and then this command again");
		return ERR_NOT_FOUND;
	}
	return err_set(err, ERR_NOT_FOUND, "", "%s has the records %" PRId64 " to %" PRId64, arg_text(c, "tenant"), min_idx,
		       job->size - 1);
}

/* Beside the store: it may be large, and is gone with its descriptor. */
static int open_file(struct bundle_job *job, struct err *err)
{
	int fd = path_nameless(job->store);

	job->file = fd >= 0 ? fdopen(fd, "w+") : NULL;
	if (!job->file) {
		(void)err_set(err, ERR_IO, "", "the bundle cannot be written: %s", strerror(errno));
		if (fd >= 0)
			close(fd);
	}
	return job->file ? 0 : ERR_IO;
}

static int make_bundle(struct command_call *c, struct db *db, struct err *err)
{
	struct bundle_job *job = c->priv;
	const char *tenant = arg_text(c, "tenant");
	struct audit_bundle_req req = { 0 };
	struct tenant_row t;
	char *origin = NULL, query[160];
	int rc = tenant_row_find(db, tenant, &t, err);

	if (rc == 0)
		rc = tenant_row_log(db, t.id, &job->log, err);
	if (rc == 0)
		rc = find_range(c, db, &req, &origin, err);
	if (rc == 0)
		rc = open_file(job, err);
	if (rc == 0) {
		(void)snprintf(query, sizeof(query), "audit bundle %s", tenant);
		req.query = query;
		rc = audit_bundle_write_to(db, &req, job->file, &job->bundle, err);
		rewind(job->file);
	}
	free(origin);
	return rc;
}

/* Where the bundle ends and why, when that is not the end of the log. */
static void put_end(struct reply *o, const struct bundle_job *job)
{
	const int64_t to = job->bundle.to;
	char text[120] = "";

	if (to == job->covered && to < job->size)
		(void)snprintf(text, sizeof(text), ", to the newest checkpoint; %" PRId64 " behind it %s left out",
			       job->size - to, job->size - to == 1 ? "is" : "are");
	else if (to > job->covered)
		(void)snprintf(text, sizeof(text), "; no checkpoint covers the last %" PRId64 ", so it verifies as INCOMPLETE",
			       job->covered > job->bundle.from ? to - job->covered : to - job->bundle.from);
	reply_text(o, "end", text);
}

static void put_done(struct command_call *c, const struct bundle_job *job)
{
	const struct audit_bundle *b = &job->bundle;

	reply_row_begin(c->out);
	reply_text(c->out, "tenant", arg_text(c, "tenant"));
	reply_int(c->out, "from", b->from);
	reply_int(c->out, "to", b->to - 1);
	reply_int(c->out, "records", b->to - b->from);
	put_end(c->out, job);
	reply_hex(c->out, "sha256", b->sha256, sizeof(b->sha256));
	reply_row_end(c->out);
}

static void put_part(struct command_call *c, const uint8_t *p, size_t n)
{
	char *text = mem_alloc(text_base64_size(n));

	text_base64(p, n, text);
	reply_row_begin(c->out);
	reply_text(c->out, "data", text);
	reply_row_end(c->out);
	free(text);
}

/* The next part of the file; 0: that was all. */
static int send_part(struct command_call *c, struct err *err)
{
	struct bundle_job *job = c->priv;
	uint8_t *buf = mem_alloc(PART_BYTES);
	size_t n = fread(buf, 1, PART_BYTES, job->file);
	int rc = n > 0;

	if (n > 0) {
		put_part(c, buf, n);
		if (job->digest)
			digest_put(job->digest, buf, n);
		c->more = ADM_MORE_NOW;
	} else if (ferror(job->file)) {
		rc = err_set(err, ERR_IO, "", "the file cannot be read: %s", strerror(errno));
	}
	free(buf);
	return rc;
}

static int audit_bundle_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct bundle_job *job = c->priv;
	int rc = job->file ? 0 : make_bundle(c, db, err);

	(void)logs;
	rc = rc < 0 ? rc : send_part(c, err);
	if (rc == 0)
		put_done(c, job);
	return rc < 0 ? rc : 0;
}

/* --- audit unfold */

/* "2026-03": from its first moment to that of the next. */
static int read_month(const char *text, uint64_t *ret_since, uint64_t *ret_until, struct err *err)
{
	const char *form = "0000-00", *p = text;
	char day[16];
	int year, month;

	while (*p && (*form == '0' ? *p >= '0' && *p <= '9' : *p == *form)) {
		p++;
		form++;
	}
	year = *p || *form ? 0 : (text[0] - '0') * 1000 + (text[1] - '0') * 100 + (text[2] - '0') * 10 + text[3] - '0';
	month = *p || *form ? 0 : (text[5] - '0') * 10 + text[6] - '0';
	(void)snprintf(day, sizeof(day), "%.7s-01", text);
	if (year >= 1970 && month >= 1 && month <= 12 && clock_parse(day, 0, ret_since) == 0) {
		(void)snprintf(day, sizeof(day), "%04d-%02d-01", month == 12 ? year + 1 : year, month == 12 ? 1 : month + 1);
		if (clock_parse(day, 0, ret_until) == 0)
			return 0;
	}
	return err_set(err, ERR_INVALID, "month", "a month is YYYY-MM, like 2026-03, not \"%.20s\"", text);
}

static int audit_unfold_check(struct command_call *c, struct err *err)
{
	struct bundle_job *job = command_priv(c, sizeof(*job));
	const char *month = arg_text(c, "month");
	const int ways = (month != NULL) + (arg_given(c, "since") || arg_given(c, "until")) + arg_flag(c, "whole");

	c->free_priv = free_job;
	job->store = mem_strdup(command_env(c)->store);
	job->since_us = arg_time(c, "since");
	job->until_us = arg_time(c, "until");
	arg_record_in(c);
	if (ways != 1)
		return err_set(err, ERR_INVALID, "", ways == 0 ? "say which records: --month, --since and --until, or --whole"
			       : "records are those of a month, of a time, or the whole log: say one of these");
	return month ? read_month(month, &job->since_us, &job->until_us, err) : 0;
}

static int make_rows(struct command_call *c, struct db *db, struct err *err)
{
	struct bundle_job *job = c->priv;
	struct audit_unfold_req req = { .since_us = job->since_us, .until_us = job->until_us, .dir = job->store };
	struct tenant_row t;
	char *origin = NULL;
	int fd = -1, rc = tenant_row_find(db, arg_text(c, "tenant"), &t, err);

	if (rc == 0)
		rc = tenant_row_log(db, t.id, &job->log, err);
	if (rc == 0)
		rc = find_log(job, db, &req.from, &origin, err);
	free(origin);
	req.log = job->log;
	req.tenant_id = t.id;
	req.to = job->size;
	if (rc == 0)
		rc = audit_unfold(db, &req, &fd, &job->unfolded, err);
	if (rc < 0)
		return rc;
	job->file = fdopen(fd, "r");
	job->digest = digest_new();
	return job->unfolded.records > 0 ? 0 : err_set(err, ERR_NOT_FOUND, "", "%s has no records of that time",
						       arg_text(c, "tenant"));
}

static int audit_unfold_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct bundle_job *job = c->priv;
	uint8_t digest[DIGEST_SIZE];
	int rc = job->file ? 0 : make_rows(c, db, err);

	(void)logs;
	rc = rc < 0 ? rc : send_part(c, err);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	digest_end(&job->digest, digest);
	reply_row_begin(c->out);
	reply_text(c->out, "tenant", arg_text(c, "tenant"));
	reply_int(c->out, "records", (int64_t)job->unfolded.records);
	reply_int(c->out, "begins", (int64_t)job->unfolded.begins);
	reply_hex(c->out, "sha256", digest, sizeof(digest));
	reply_row_end(c->out);
	return 0;
}

/* --- rows of the command table */

static const struct command_arg audit_bundle_args[] = {
	TENANT_WORD, { "file", "FILE", ARG_PATH, false, true, false, COMPLETE_FILE,
		"The bundle, a new file, which this program writes." },
	OPT("from", "INDEX", ARG_TEXT, COMPLETE_NONE, "Records from this index on."),
	OPT("to", "INDEX", ARG_TEXT, COMPLETE_NONE, "The last of them; default: the last that a checkpoint covers."),
	OPT("since", "TIME", ARG_TIME, COMPLETE_NONE, "Records from this time on."),
	OPT("until", "TIME", ARG_TIME, COMPLETE_NONE, "Records before this time; default: as of --to."), ARG_END };

static const struct command_arg audit_unfold_args[] = {
	NEED("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "Whose records."),
	NEED("to", "FILE", ARG_PATH, COMPLETE_FILE, "The database, a new file, which this program writes."),
	OPT("month", "YYYY-MM", ARG_TEXT, COMPLETE_NONE, "Records of this month (UTC)."),
	OPT("since", "TIME", ARG_TIME, COMPLETE_NONE, "Records from this time on."),
	OPT("until", "TIME", ARG_TIME, COMPLETE_NONE, "Records before this time."),
	FLAG("whole", "All records of the log."), ARG_END };

const struct command bundle_commands[] = {
	{ .noun = "audit", .verb = "unfold", .help = "Write records as plain rows to an SQLite database",
	  .detail = "Whatever form the records have in the store, the file has them as rows of table rec, "
		    "with the texts that they stand for and the views of the release: sqlite3, or whatever "
		    "reads SQLite, shows v_calls and the others without knowing anything of toolcrib.  "
		    "Begins of calls that ended in the time are there too.  What else was of the tenant is "
		    "not, nor payloads and keys.  Nothing vouches for the file: audit bundle makes one that "
		    "verifies.  The file belongs to who runs this, here; a server writes none where a reader "
		    "says.",
	  .args = audit_unfold_args, .done = "%{records} records of %{tenant} are in %{bundle}", .shape = ADM_FILE,
	  .stream = true, .role = ADM_READ, .where = ADM_ON_POOL, .record = AUDIT_AUDIT_EXPORT, .check = audit_unfold_check,
	  .body = audit_unfold_body },
	{ .noun = "audit", .verb = "bundle", .help = "Write records to a file that verifies without the store",
	  .detail = "A tar with each record's bytes and a readable view of them, the hashes that lead to the signed "
		    "checkpoints, and these.  toolcrib-verify --bundle checks it anywhere.  It ends at the newest checkpoint of "
		    "the log unless an end is named: what no checkpoint covers verifies as INCOMPLETE; audit checkpoint makes "
		    "one now.  Payloads are not in it.  The file belongs to who runs this, here; a server writes none where a "
		    "reader says.",
	  .args = audit_bundle_args, .done = "records %{from} to %{to} of %{tenant} are in %{bundle}%{end}", .shape = ADM_FILE,
	  .stream = true, .role = ADM_READ, .console = true, .seen = "tenant", .where = ADM_ON_POOL,
	  .record = AUDIT_AUDIT_EXPORT, .check = audit_bundle_check, .body = audit_bundle_body },
	{ .noun = NULL },
};
