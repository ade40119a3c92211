/* The reports of the audit: audit calls, denied, admin and so on.  A report is a statement of
 * sql/queries/report.sql and a row of reports[]; the engine asks it log by log and page by page, and names its
 * columns as the statement does. Bodies run on a thread of the pool; no read transaction lasts longer than
 * REPORT_MS (AUDIT A-623).  Reading is a record itself, durable before anything is shown (AUDIT A-304). */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "command/rows.h"
#include "json/json.h"
#include "tenant/tenant.h"

#include "review_int.h"

/* --- THE table of reports: which statement, on which logs, and whether its rows are findings */

#define ONE(sql) .way = { { NULL, sql, false, false, 0 } }
#define PAGED(sql) .way = { { NULL, sql, true, false, 0 } }
#define EMPTY(sql) .way = { { NULL, sql, false, true, 0 } }

/* ended by noun NULL */
static const struct report reports[] = {
	{ "audit", "calls", SCOPE_TENANT,
	  .way = { { "group-by", SQL_REPORT_CALLS_GROUPED, false, false, 0 }, { NULL, SQL_REPORT_CALLS, true, false, 0 } },
	  .by_prn = SQL_REPORT_CALLS_PRN, .by_cred = SQL_REPORT_CALLS_CRED, .by_tool = SQL_REPORT_CALLS_TOOL,
	  .by_out = SQL_REPORT_CALLS_OUT, .text = "group-by", .text_list = true,
	  .text_in = " client obo tool principal key outcome transport revision day " },
	{ "audit", "denied", SCOPE_TENANT,
	  .way = { { "by", SQL_REPORT_DENIED_BY, false, false, 0 }, { NULL, SQL_REPORT_DENIED, true, false, 0 } },
	  .text = "by", .text_in = " rule tool principal key outcome day " },
	{ "audit", "auth-failures", SCOPE_ALL,
	  .way = { { "by", SQL_REPORT_AUTH_FAILURES_BY, false, false, 0 },
		   { NULL, SQL_REPORT_AUTH_FAILURES, true, false, 0 } },
	  .text = "by", .text_in = " source rule key transport hour " },
	{ "audit", "admin", SCOPE_EITHER, PAGED(SQL_REPORT_ADMIN) },
	{ "audit", "access", SCOPE_ALL, PAGED(SQL_REPORT_ACCESS) },
	{ "audit", "credential", SCOPE_KEY,
	  .way = { { "timeline", SQL_REPORT_CREDENTIAL_TIMELINE, true, false, 0 },
		   { NULL, SQL_REPORT_CREDENTIAL, false, false, 0 } } },
	{ "audit", "credentials", SCOPE_ALL, PAGED(SQL_REPORT_CREDENTIALS) },
	{ "audit", "subject", SCOPE_TENANT,
	  .way = { { "export", SQL_REPORT_SUBJECT_EXPORT, true, false, 0 }, { NULL, SQL_REPORT_SUBJECT, false, false, 0 } } },
	{ "audit", "coverage", SCOPE_EITHER, ONE(SQL_REPORT_COVERAGE) },
	{ "audit", "sample", SCOPE_EITHER,
	  .way = { { "kind", SQL_REPORT_SAMPLE_KIND, false, false, 0 }, { NULL, SQL_REPORT_SAMPLE, false, false, 0 } } },
	{ "audit", "after-revocation", SCOPE_TENANTS, EMPTY(SQL_REPORT_AFTER_REVOCATION) },
	{ "audit", "continuity", SCOPE_SYSTEM,
	  .way = { { "executions", SQL_REPORT_CONTINUITY_EXECUTIONS, false, true, SCOPE_TENANTS },
		   { NULL, SQL_REPORT_CONTINUITY, false, false, 0 } } },
	{ "audit", "clock", SCOPE_SYSTEM, PAGED(SQL_REPORT_CLOCK) },
	{ "audit", "erasures", SCOPE_ALL, PAGED(SQL_REPORT_ERASURES) },
	{ "audit", "blast-radius", SCOPE_KEY,
	  .way = { { "tool-hash", SQL_REPORT_BLAST_TOOL, false, false, SCOPE_TENANTS },
		   { NULL, SQL_REPORT_BLAST_KEY, false, false, 0 } },
	  .text = "tool-hash" },
	{ "audit", "drift", SCOPE_TENANTS, EMPTY(SQL_REPORT_DRIFT) },
	{ "audit", "config", SCOPE_ALL, PAGED(SQL_REPORT_CONFIG) },
	{ "audit", "isolation", SCOPE_TENANTS, EMPTY(SQL_REPORT_ISOLATION) },
	{ "audit", "key-history", SCOPE_ALL, PAGED(SQL_REPORT_KEYS) },
	{ "audit", "dual-control", SCOPE_ALL, .way = { { NULL, SQL_REPORT_DUAL_CONTROL, true, true, 0 } } },
	{ "audit", "reviews", SCOPE_ALL, PAGED(SQL_REPORT_REVIEWS) },
	{ "audit", "anomalies", SCOPE_TENANT, ONE(SQL_REPORT_ANOMALIES) },
	{ "audit", "sandbox", SCOPE_TENANTS, ONE(SQL_REPORT_SANDBOX) },
	{ "audit", "oversight", SCOPE_TENANTS, PAGED(SQL_REPORT_OVERSIGHT) },
	{ "audit", "capacity", SCOPE_SYSTEM,
	  .way = { { "events", SQL_REPORT_CAPACITY_EVENTS, true, false, 0 }, { NULL, SQL_REPORT_CAPACITY, false, false, 0 } },
	  .room = true },
	{ "audit", "anchors", SCOPE_SYSTEM, ONE(SQL_REPORT_ANCHORS) },
	{ "audit", "tool-health", SCOPE_TENANT, ONE(SQL_REPORT_DURATIONS) },
	{ "audit", "stats", SCOPE_TENANTS, ONE(SQL_REPORT_DURATIONS) },
	{ "audit", "tail", SCOPE_ALL, ONE(SQL_REPORT_TAIL) },
	{ "audit", "export", SCOPE_ALL, ONE(SQL_REPORT_EXPORT) },
	{ "audit", "export-check", SCOPE_ALL, EMPTY(SQL_REPORT_EXPORT_CHECK) },
	{ "key", "list", SCOPE_TENANTS,
	  .way = { { "unused-scopes", SQL_REPORT_KEY_UNUSED, false, false, 0 },
		   { "stale", SQL_REPORT_KEY_STALE, false, false, 0 },
		   { NULL, SQL_REPORT_KEY_REVIEW, false, false, 0 } } },
	{ "tool", "history", SCOPE_SYSTEM, PAGED(SQL_REPORT_DEFINITION_EVENTS) },
	{ .noun = NULL },
};

const struct report *report_find(const char *noun, const char *verb)
{
	for (const struct report *r = reports; r->noun; r++)
		if (strcmp(r->noun, noun) == 0 && strcmp(r->verb, verb) == 0)
			return r;
	return NULL;
}

/* --- The header of a report: what was looked at, and what stands behind it (AUDIT A-1101) */

#define SYSTEM_LOG 1

/* What the header says of a log, or of all of them together. */
struct coverage {
	char origin[512], tenant[80];
	int64_t size, pruned, erased;
	int64_t from, to;               /* positions in the span that was asked for; to < from: none */
	uint64_t verified_us;
};

/* Time and position of the newest record of a kind; 0 and -1: there is none. */
static int newest(struct db *db, int64_t log, int kind, uint64_t *ret_us, int64_t *ret_idx, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_HEAD_NEWEST);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, kind);
	rc = db_step(st, err);
	*ret_idx = rc == 1 ? db_col_i64(st, 0) : -1;
	*ret_us = rc == 1 ? (uint64_t)db_col_i64(st, 1) : 0;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* Time and size of the newest checkpoint of a log, or of the newest anchor; 0 and -1: there is none. */
static int newest_of(struct db *db, enum sql_id id, int64_t log, uint64_t *ret_us, int64_t *ret_size, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, id);
	int rc;

	if (db_param_count(st) > 0)
		db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	*ret_us = rc == 1 ? (uint64_t)db_col_i64(st, 0) : 0;
	*ret_size = rc == 1 ? db_col_i64(st, 1) : -1;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int count(struct db *db, int64_t log, int kind, int64_t *sum, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_HEAD_COUNT);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, kind);
	rc = db_step(st, err);
	if (rc == 1)
		*sum += db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int read_size(struct db *db, int64_t log, struct coverage *cov, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_HEAD);
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	if (rc == 1) {
		(void)snprintf(cov->origin, sizeof(cov->origin), "%s", db_col_text(st, 0, NULL));
		(void)snprintf(cov->tenant, sizeof(cov->tenant), "%s", db_col_text(st, 1, NULL));
		cov->size += db_col_i64(st, 2);
		cov->pruned += db_col_i64(st, 3);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int read_span(struct db *db, const struct report_ask *ask, int64_t log, struct coverage *cov, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_HEAD_SPAN);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, (int64_t)ask->since_us);
	db_bind_i64(st, 3, ask->until_us ? (int64_t)ask->until_us : INT64_MAX);
	rc = db_step(st, err);
	if (rc == 1 && db_col_type(st, 0) != DB_NULL) {
		cov->from = db_col_i64(st, 0);
		cov->to = db_col_i64(st, 1);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int add_log(struct db *db, const struct report_ask *ask, int64_t log, struct coverage *cov, struct err *err)
{
	uint64_t verified_us = 0;
	int64_t idx;
	int rc = read_size(db, log, cov, err);

	if (rc == 0)
		rc = read_span(db, ask, log, cov, err);
	if (rc == 0)
		rc = count(db, log, AUDIT_ERASE_DONE, &cov->erased, err);
	if (rc == 0)
		rc = newest(db, log, AUDIT_AUDIT_VERIFY, &verified_us, &idx, err);
	if (verified_us > cov->verified_us)
		cov->verified_us = verified_us;
	return rc;
}

static int read_coverage(struct db *db, const struct report_ask *ask, struct coverage *cov, struct err *err)
{
	int64_t log = 0, idx;
	uint64_t verified_us = 0;
	int rc;

	*cov = (struct coverage){ .from = 0, .to = -1 };
	if (ask->log > 0) {
		rc = add_log(db, ask, ask->log, cov, err);
		if (rc == 0)    /* the whole store was verified, and this log with it */
			rc = newest(db, SYSTEM_LOG, AUDIT_AUDIT_VERIFY, &verified_us, &idx, err);
		if (verified_us > cov->verified_us)
			cov->verified_us = verified_us;
		return rc;
	}
	while ((rc = report_next_log(db, &log, NULL, err)) == 0 && log > 0) {
		rc = add_log(db, ask, log, cov, err);
		if (rc < 0)
			return rc;
	}
	(void)snprintf(cov->origin, sizeof(cov->origin), "all");
	*cov->tenant = '\0';
	return rc;
}

static void put_time_or(struct reply *o, const char *name, uint64_t us, const char *none)
{
	if (us)
		reply_time(o, name, us);
	else
		reply_text(o, name, none);
}

static void put_age(struct reply *o, const char *name, uint64_t us)
{
	uint64_t now_us = clock_wall_us();
	char age[32];

	reply_text(o, name, us ? text_format_age(now_us > us ? now_us - us : 0, age, sizeof(age)) : NULL);
}

static void put_coverage(struct reply *o, const struct report_ask *ask, const struct coverage *cov)
{
	char title[80];

	(void)snprintf(title, sizeof(title), "%s %s", ask->report->noun, ask->report->verb);
	reply_text(o, "report", title);
	reply_text(o, "asked", ask->line);
	reply_time(o, "at", clock_wall_us());
	reply_text(o, "log", cov->origin);
	if (*cov->tenant)
		reply_text(o, "tenant", cov->tenant);
	put_time_or(o, "since", ask->since_us, "the beginning");
	put_time_or(o, "until", ask->until_us, "now");
	if (ask->log > 0 && cov->to >= cov->from) {
		reply_int(o, "from", cov->from);
		reply_int(o, "to", cov->to);
	}
	reply_int(o, "records", cov->size);
	reply_int(o, "pruned", cov->pruned);
	reply_int(o, "erasures", cov->erased);
}

/* How large the store is, and how long there is room for more of it. */
static int put_room(struct reply *o, struct db *db, const struct report_ask *ask, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_ROOM);
	struct statvfs fs;
	int64_t bytes = 0, records = 0, in_week = 0, free_bytes = 0;
	int rc;

	db_bind_i64(st, 1, (int64_t)clock_wall_us());
	rc = db_step(st, err);
	if (rc == 1) {
		bytes = db_col_i64(st, 0);
		records = db_col_i64(st, 1);
		in_week = db_col_i64(st, 2);
	}
	db_stmt_put(&st);
	if (rc < 0)
		return rc;
	reply_int(o, "store_bytes", bytes);
	reply_int(o, "bytes_per_record", records > 0 ? bytes / records : 0);
	if (statvfs(ask->store, &fs) != 0)
		return 0;
	free_bytes = (int64_t)(fs.f_bavail * fs.f_frsize);
	reply_int(o, "free_bytes", free_bytes);
	if (in_week > 0 && records > 0)
		reply_int(o, "full_in_days",
			  (int64_t)(7.0 * (double)free_bytes / ((double)in_week * (double)bytes / (double)records)));
	return 0;
}

static void put_column(struct reply *o, const char *name, bool *any)
{
	if (*any)
		str_putc(&o->text, ',');
	*any = true;
	jx_write_stringz(&o->text, name);
}

static void put_columns(struct reply *o, struct db_stmt *st, const char *const *names)
{
	unsigned n = st ? db_col_count(st) : 0;
	bool any = false;

	str_puts(&o->text, "},\"columns\":[");
	for (unsigned col = 0; col < n; col++)
		if (db_col_name(st, col)[0] != '_')
			put_column(o, db_col_name(st, col), &any);
	for (; names && *names; names++)
		put_column(o, *names, &any);
	str_puts(&o->text, "]}\n");
}

int report_head(struct reply *o, struct db *db, const struct report_ask *ask, struct db_stmt *columns,
		const char *const *names, struct err *err)
{
	struct coverage cov;
	uint64_t checkpoint_us = 0, anchor_us = 0;
	int64_t checked = -1, anchored = -1;
	int rc = read_coverage(db, ask, &cov, err);

	if (rc == 0)
		rc = newest_of(db, SQL_REPORT_HEAD_SIGNED, ask->log > 0 ? ask->log : SYSTEM_LOG, &checkpoint_us, &checked, err);
	if (rc == 0)
		rc = newest_of(db, SQL_REPORT_HEAD_ANCHOR, 0, &anchor_us, &anchored, err);
	if (rc < 0)
		return rc;
	str_puts(&o->text, "{\"header\":{");
	o->any = false;
	put_coverage(o, ask, &cov);
	put_time_or(o, "checkpoint", checkpoint_us, "none");
	if (ask->log > 0 && checked >= 0)
		reply_int(o, "signed", checked);
	put_time_or(o, "anchor", anchor_us, "none");
	put_age(o, "anchor_age", anchor_us);
	put_time_or(o, "verified", cov.verified_us, "never");
	reply_bool(o, "must_be_empty", ask->way->must_be_empty);
	if (ask->report->room)
		rc = put_room(o, db, ask, err);
	put_columns(o, columns, names);
	return rc;
}

#define ROWS_DEFAULT 100
#define PARAMS 12
#define KINDS_MAX 3000                  /* codes of kinds are below */
#define KEY_STALE_MS (90ull * 24 * 3600 * 1000)

/* Where a page ended: time and position of its last row. */
struct cursor { int64_t ts, idx; };

struct report_job {
	struct report_ask ask;
	struct command_call *c;
	struct reply *out;
	int64_t tenant_id;              /* of the log that is asked */
	int64_t left;                   /* rows that may still be said */
	size_t rows;                    /* of the page */
	struct cursor at;
	bool headed;
};

void report_ask_fini(struct report_ask *ask)
{
	free(ask->line);
	free(ask->store);
}

static enum report_scope report_ask_scope(const struct report_ask *ask)
{
	return ask->way->scope ? ask->way->scope : ask->report->scope;
}

static void free_job(void *priv)
{
	struct report_job *job = priv;

	report_ask_fini(&job->ask);
	free(job);
}

/* --- what is asked for */

/* One word of the text, or each of a list. */
static int check_word(const struct report *r, const char *word, size_t len, struct err *err)
{
	char item[72];

	(void)snprintf(item, sizeof(item), " %.*s ", (int)(len < 64 ? len : 64), word);
	if (len > 0 && strstr(r->text_in, item))
		return 0;
	(void)err_set(err, ERR_INVALID, r->text, "%s: \"%.*s\" is none", r->text, (int)(len < 64 ? len : 64), word);
	err_hint(err, "one of:%s", r->text_in);
	return ERR_INVALID;
}

static int check_text(const struct command_call *c, struct report_ask *ask, struct err *err)
{
	const struct report *r = ask->report;
	const char *text = r->text ? arg_text(c, r->text) : NULL;
	int rc = 0;

	if (!text)
		return 0;
	if (strlen(text) + 3 > sizeof(ask->text))
		return err_set(err, ERR_LIMIT, r->text, "%s is too long", r->text);
	ask->as_text = true;
	(void)snprintf(ask->text, sizeof(ask->text), r->text_list ? ",%s," : "%s", text);
	for (const char *word = text; rc == 0 && r->text_in; word += strcspn(word, ",") + 1) {
		size_t len = r->text_list ? strcspn(word, ",") : strlen(word);

		rc = check_word(r, word, len, err);
		if (!word[len])
			break;
	}
	return rc;
}

static int check_outcome(const struct command_call *c, struct report_ask *ask, struct err *err)
{
	const char *outcome = arg_given(c, "outcome") ? arg_text(c, "outcome") : NULL;

	ask->outcome = outcome ? audit_outcome_from_name(outcome) : -1;
	if (!outcome || ask->outcome >= 0)
		return 0;
	(void)err_set(err, ERR_INVALID, "outcome", "outcome: \"%.40s\" is none", outcome);
	err_hint(err, "ok, tool_error, invalid, denied, rate_limited, timeout, cancelled, input_required, crashed, aborted, "
		      "overload, unknown");
	return ERR_INVALID;
}

/* "NAME", or "TENANT/NAME" where no tenant is given: authority was decided by that one. */
static void copy_principal(const struct command_call *c, struct report_ask *ask)
{
	const char *text = arg_text(c, "principal"), *slash = text && !*ask->tenant ? strchr(text, '/') : NULL;

	if (slash)
		(void)snprintf(ask->tenant, sizeof(ask->tenant), "%.*s", (int)(slash - text), text);
	(void)snprintf(ask->principal, sizeof(ask->principal), "%s", slash ? slash + 1 : text ? text : "");
}

int report_ask_check(struct command_call *c, struct report_ask *ask, struct err *err)
{
	static const char *const formats[] = { "table", "json", "jsonl", "csv" };
	const char *format = arg_text(c, "format");
	const struct tenant *t;
	bool known = !format;

	for (size_t i = 0; i < NELEMS(formats); i++)
		known = known || strcmp(format, formats[i]) == 0;
	if (!known && !(strcmp(format, "ocsf") == 0 && strcmp(command_verb(c), "export") == 0))
		return err_set(err, ERR_INVALID, "format", "format: \"%.40s\" is none; say table, json, jsonl or csv", format);
	ask->line = mem_strdup(command_line(c));
	ask->store = mem_strdup(command_env(c)->store);
	arg_copy(c, "tenant", ask->tenant, sizeof(ask->tenant));
	arg_copy(c, "tool", ask->tool, sizeof(ask->tool));
	copy_principal(c, ask);
	arg_copy(c, "key", ask->key, sizeof(ask->key));
	ask->since_us = arg_time(c, "since");
	ask->until_us = arg_time(c, "until");
	ask->limit = arg_uint(c, "limit", ROWS_DEFAULT);
	if (*ask->principal && !*ask->tenant)
		return err_set(err, ERR_INVALID, "principal", "--principal needs --tenant");
	t = *ask->tenant ? tenant_by_name(command_env(c)->tenants, ask->tenant, strlen(ask->tenant)) : NULL;
	if (t)
		command_record_in(c, t->id);
	return check_outcome(c, ask, err);
}

static const struct report_way *way_of(const struct command_call *c, const struct report *r)
{
	const struct report_way *way = r->way;

	while (way->option && !arg_given(c, way->option))
		way++;
	return way;
}

/* What some reports take in their own way. */
static int check_specials(const struct command_call *c, struct report_ask *ask, struct err *err)
{
	uint64_t now_us = clock_wall_us(), ms = arg_duration_ms(c, "stale", KEY_STALE_MS);
	const char *kind = arg_text(c, "kind");

	ask->number = arg_given(c, "seed") ? (int64_t)arg_uint(c, "seed", 0) : (int64_t)now_us;
	if (arg_given(c, "number"))
		ask->limit = arg_uint(c, "number", 0);
	if (arg_given(c, "stale") || arg_given(c, "unused-scopes"))
		ask->since_us = now_us - 1000 * ms;
	if (strcmp(ask->report->noun, "tool") == 0) {
		(void)snprintf(ask->text, sizeof(ask->text), "tool/%s", ask->tool);
		ask->as_text = true;
	}
	if (report_ask_scope(ask) == SCOPE_KEY && !*ask->key)
		return err_set(err, ERR_INVALID, "key", "say --key or --tool-hash");
	if (!kind)
		return 0;
	for (int code = 1; code < KINDS_MAX; code++) {
		if (audit_kind_name(code) && strcmp(audit_kind_name(code), kind) == 0) {
			(void)snprintf(ask->text, sizeof(ask->text), "%d", code);
			ask->as_text = true;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, "kind", "kind: \"%.40s\" is none; toolcrib-audit(7) names them", kind);
}

static int report_check(struct command_call *c, struct err *err)
{
	struct report_job *job = command_priv(c, sizeof(*job));
	struct report_ask *ask = &job->ask;
	int rc;

	c->free_priv = free_job;
	job->c = c;
	job->out = c->out;
	ask->report = report_find(command_noun(c), command_verb(c));
	ask->way = way_of(c, ask->report);
	rc = report_ask_check(c, ask, err);
	if (rc == 0)
		rc = check_text(c, ask, err);
	return rc < 0 ? rc : check_specials(c, ask, err);
}

/* --- where it is asked */

static const char *or_null(const char *text)
{
	return *text ? text : NULL;
}

static int find_tenant(struct db *db, struct report_ask *ask, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_FIND_LOG);
	struct tenant_row t = { 0 };
	struct principal_row p;
	int rc;

	db_bind_textz(st, 1, ask->tenant);
	rc = db_step(st, err);
	if (rc == 1) {
		ask->log = db_col_i64(st, 0);
		ask->tenant_id = t.id = db_col_i64(st, 1);
	}
	db_stmt_put(&st);
	if (rc == 0)            /* not even a removed one: say which name is near */
		rc = tenant_row_find(db, ask->tenant, &t, err);
	if (rc < 0 || !*ask->principal)
		return rc < 0 ? rc : 0;
	(void)snprintf(t.name, sizeof(t.name), "%s", ask->tenant);
	(void)snprintf(ask->pseudonym, sizeof(ask->pseudonym), "%s", ask->principal);
	if (strncmp(ask->principal, "prn_", 4) == 0)
		return 0;
	rc = principal_row_find(db, &t, ask->principal, &p, err);
	if (rc == 0)
		(void)snprintf(ask->pseudonym, sizeof(ask->pseudonym), "%s", p.pseudonym);
	return rc;
}

/* A key of another tenant than the one that is named is not there. */
static int find_key(struct db *db, struct report_ask *ask, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_FIND_KEY);
	int rc;

	db_bind_textz(st, 1, ask->key);
	db_bind_textz(st, 2, or_null(ask->tenant));
	rc = db_step(st, err);
	if (rc == 1) {
		ask->log = db_col_i64(st, 0);
		ask->tenant_id = db_col_i64(st, 1);
	} else if (rc == 0) {
		rc = err_set(err, ERR_NOT_FOUND, "key", "key %s: not found", ask->key);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int report_ask_find(struct db *db, struct report_ask *ask, struct err *err)
{
	enum report_scope scope = report_ask_scope(ask);

	if (scope == SCOPE_KEY && *ask->key)
		return find_key(db, ask, err);
	if (*ask->tenant)
		return find_tenant(db, ask, err);
	ask->log = scope == SCOPE_EITHER || scope == SCOPE_SYSTEM ? 1 : 0;
	return 0;
}

int report_next_log(struct db *db, int64_t *log, int64_t *ret_tenant, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_NEXT_LOG);
	int rc;

	db_bind_i64(st, 1, *log);
	rc = db_step(st, err);
	*log = rc == 1 ? db_col_i64(st, 0) : 0;
	if (ret_tenant)
		*ret_tenant = rc == 1 ? db_col_i64(st, 1) : 0;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int report_record_time(struct db *db, int64_t log, int64_t idx, int64_t *ret_us, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_RECORD_TIME);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, idx);
	rc = db_step(st, err);
	*ret_us = rc == 1 ? db_col_i64(st, 0) : -1;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* --- asking */

static enum sql_id statement_of(const struct report_ask *ask)
{
	const struct report *r = ask->report;

	if (ask->way->option)
		return ask->way->sql;
	if (r->by_prn && *ask->pseudonym)
		return r->by_prn;
	if (r->by_cred && *ask->key)
		return r->by_cred;
	if (r->by_tool && *ask->tool)
		return r->by_tool;
	return r->by_out && ask->outcome > 0 ? r->by_out : ask->way->sql;
}

/* Of the parameters, those that the statement has. */
static void bind(struct db_stmt *st, const struct report_job *job, int64_t log, int64_t rows)
{
	const struct report_ask *ask = &job->ask;
	int64_t until = ask->until_us && ask->until_us < INT64_MAX ? (int64_t)ask->until_us : INT64_MAX;
	const int64_t number[PARAMS] = { log, ask->since_us < INT64_MAX ? (int64_t)ask->since_us : INT64_MAX,
		until <= job->at.ts ? until : job->at.ts + 1, 0, 0, 0, ask->outcome, rows, job->at.ts, job->at.idx, 0, ask->number };
	const char *const text[PARAMS] = { [3] = or_null(ask->tool), [4] = or_null(ask->pseudonym), [5] = or_null(ask->key),
		[10] = ask->as_text ? ask->text : NULL };
	static const bool is_text[PARAMS] = { [3] = true, [4] = true, [5] = true, [10] = true };
	unsigned count = db_param_count(st);

	for (unsigned i = 0; i < PARAMS && i < count; i++) {
		if (is_text[i])
			db_bind_textz(st, i + 1, text[i]);
		else
			db_bind_i64(st, i + 1, number[i]);
	}
}

/* Columns whose numbers mean yes and no. */
static bool is_yes_or_no(const char *name)
{
	static const char *const names[] = { "undelivered", "not_executed", "broke_schema", "answered_by_caller" };

	for (size_t i = 0; i < NELEMS(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static void put_value(struct reply *o, struct db_stmt *st, unsigned col)
{
	const char *name = db_col_name(st, col);
	char number[32];
	size_t len = 0;
	const void *p;
	int n;

	switch (db_col_type(st, col)) {
	case DB_NULL:
		reply_text(o, name, NULL);
		break;
	case DB_INT:
		if (is_yes_or_no(name))
			reply_bool(o, name, db_col_i64(st, col) != 0);
		else
			reply_int(o, name, db_col_i64(st, col));
		break;
	case DB_FLOAT:
		n = snprintf(number, sizeof(number), "%.15g", db_col_f64(st, col));
		reply_raw(o, name, number, (size_t)n);
		break;
	case DB_TEXT:
		reply_text(o, name, db_col_text(st, col, NULL));
		break;
	case DB_BLOB:
		p = db_col_blob(st, col, &len);
		reply_hex(o, name, p, len);
		break;
	}
}

void report_columns(struct reply *o, struct db_stmt *st)
{
	unsigned count = db_col_count(st);

	for (unsigned col = 0; col < count; col++)
		if (db_col_name(st, col)[0] != '_')
			put_value(o, st, col);
}

static void put_row(struct report_job *job, struct db_stmt *st)
{
	unsigned count = db_col_count(st);

	reply_row_begin(job->out);
	report_columns(job->out, st);
	reply_row_end(job->out);
	for (unsigned col = 0; col < count; col++) {
		if (strcmp(db_col_name(st, col), "_ts") == 0)
			job->at.ts = db_col_i64(st, col);
		if (strcmp(db_col_name(st, col), "_idx") == 0)
			job->at.idx = db_col_i64(st, col);
	}
	if (job->ask.way->paged)
		command_seen(job->c, job->tenant_id, job->at.idx);
	job->rows++;
	job->left--;
}

/* One read transaction. */
static int ask_page(struct report_job *job, struct db *db, int64_t log, int64_t rows, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, statement_of(&job->ask));
	int rc = 0;

	bind(st, job, log, rows);
	job->rows = 0;
	if (!job->headed)
		rc = report_head(job->out, db, &job->ask, st, NULL, err);
	job->headed = true;
	while (rc == 0 && !reply_full(job->out) && (rc = db_step(st, err)) == 1) {
		put_row(job, st);
		rc = 0;
	}
	db_stmt_put(&st);
	if (rc == ERR_TIMEOUT) {
		(void)err_set(err, ERR_TIMEOUT, "", "the report took longer than %d s and was given up", REPORT_MS / 1000);
		err_hint(err, "--since, --until and --tenant make it smaller");
	}
	return rc;
}

static int ask_log(struct report_job *job, struct db *db, int64_t log, struct err *err)
{
	int rc;

	job->at = (struct cursor){ INT64_MAX, INT64_MAX };
	command_seen(job->c, job->tenant_id, -1);
	do {
		int64_t rows = job->ask.way->paged && job->left > REPORT_PAGE ? REPORT_PAGE : job->left;

		db_deadline(db, clock_mono_us() + UINT64_C(1000) * REPORT_MS);
		rc = ask_page(job, db, log, rows, err);
		db_deadline(db, 0);
	} while (rc == 0 && job->ask.way->paged && job->rows == REPORT_PAGE && job->left > 0 && !reply_full(job->out));
	return rc;
}

static int ask_logs(struct report_job *job, struct db *db, struct err *err)
{
	int64_t log = report_ask_scope(&job->ask) == SCOPE_TENANTS ? 1 : 0;
	int rc;

	while ((rc = report_next_log(db, &log, &job->tenant_id, err)) == 0 && log > 0 && (job->left > 0 || !job->headed)
		&& !reply_full(job->out)) {
		rc = ask_log(job, db, log, err);
		if (rc < 0)
			return rc;
	}
	if (rc == 0 && !job->headed)    /* no log of a tenant: a page of nothing has columns as well */
		rc = ask_log(job, db, 0, err);
	return rc;
}

static int report_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct report_job *job = c->priv;
	int rc;

	(void)logs;
	job->left = job->ask.limit > 0 ? job->ask.limit : INT64_MAX;
	rc = report_ask_find(db, &job->ask, err);
	if (rc < 0)
		return rc;
	job->tenant_id = job->ask.tenant_id;
	rc = job->ask.log > 0 ? ask_log(job, db, job->ask.log, err) : ask_logs(job, db, err);
	if (job->ask.way->must_be_empty && job->out->rows > 0)
		c->status = ADM_STATUS_FINDINGS;
	return rc;
}

/* Commands with a shape of their own that are reports when a flag asks for it. */
static int key_list_any_check(struct command_call *c, struct err *err)
{
	if (!arg_given(c, "review") && !arg_given(c, "stale") && !arg_given(c, "unused-scopes"))
		return key_list_check(c, err);
	command_record_as(c, AUDIT_AUDIT_READ);
	return report_check(c, err);
}

static int key_list_any_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	return c->free_priv == free_job ? report_body(c, db, logs, err) : key_list_body(c, db, logs, err);
}

static int tool_history_any_check(struct command_call *c, struct err *err)
{
	if (!arg_given(c, "events"))
		return 0;
	command_record_as(c, AUDIT_AUDIT_READ);
	return report_check(c, err);
}

static int tool_history_any_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	return c->free_priv == free_job ? report_body(c, db, logs, err) : tool_history_body(c, db, logs, err);
}

/* --- rows of the command table */

static const struct command_arg key_list_args[] = {
	TENANT_MAYBE, OPT("principal", "NAME", ARG_TEXT, COMPLETE_NONE, "Only this principal of the tenant."),
	FLAG("review", "With age, expiry, last use and what the tenant's grants open."),
	OPT("stale", "TIME", ARG_DURATION, COMPLETE_NONE, "Keys not used or not rotated for so long, or without an end: 90d."),
	FLAG("unused-scopes", "Grants that a key did not use for 90 days, or the time of --stale."),
	OPT("format", "FORMAT", ARG_TEXT, COMPLETE_NONE, "Of these reports: table, json, jsonl or csv."), ARG_END };
static const struct command_arg tool_history_args[] = {
	WORD("tool", "TOOL", COMPLETE_TOOL, "Name of the tool."),
	FLAG("events", "What was done to it, by whom, from the audit."),
	OPT("format", "FORMAT", ARG_TEXT, COMPLETE_NONE, "With --events: table, json, jsonl or csv."), ARG_END };
static const struct command_column key_list_cols[] = {
	COL("accessor", "ACCESSOR"), COL("principal", "PRINCIPAL"), COL("state", "STATE"), COL_AT("expires", "EXPIRES"),
	COL_AT("old_secret_until", "OLD SECRET UNTIL"), COL_AT("last_used", "LAST USED"), COL("scopes", "SCOPES"),
	COL("label", "LABEL"), COL_END };
static const struct command_column tool_history_cols[] = {
	COL("version", "VERSION"), COL("in_force", "IN FORCE"), COL_AT("created", "ADDED"), COL("actor", "BY"),
	COL("digest", "DIGEST"), COL_END };
static const struct command_column denied_cols[] = {
	COL_AT("time", "TIME"), COL("tool", "TOOL"), COL("principal", "PRINCIPAL"), COL("key", "KEY"), COL("rule", "RULE"),
	COL("outcome", "OUTCOME"), COL("detail", "DETAIL"), COL_END };
static const struct command_column admin_cols[] = {
	COL_AT("time", "TIME"), COL("kind", "KIND"), COL("object", "OBJECT"), COL("principal", "PRINCIPAL"),
	COL("detail", "DETAIL"),
	COL_END };
static const struct command_column credentials_cols[] = {
	COL_AT("time", "TIME"), COL("tenant", "TENANT"), COL("kind", "KIND"), COL("key", "KEY"), COL("principal", "PRINCIPAL"),
	COL("detail", "DETAIL"), COL_END };
static const struct command_column audit_calls_cols[] = {
	COL_AT("time", "TIME"), COL("tool", "TOOL"), COL("principal", "PRINCIPAL"), COL("outcome", "OUTCOME"),
	COL("ms", "MS"), COL("transport", "BY"), COL("rule", "RULE"), COL("call", "CALL"), COL_END };
static const struct command_arg audit_calls_args[] = {
	REPORT_TENANT, REPORT_CALLS,
	OPT("group-by", "LIST", ARG_TEXT, COMPLETE_NONE,
	    "Count by these, with commas: client, obo, tool, principal, key, outcome, transport, revision, day."),
	    REPORT_END };
static const struct command_arg audit_denied_args[] = {
	REPORT_TENANT, REPORT_CALLS,
	OPT("by", "WHAT", ARG_TEXT, COMPLETE_NONE, "Count by rule, tool, principal, key, outcome or day."), REPORT_END };
static const struct command_arg audit_auth_args[] = {
	REPORT_TENANT_OR("Of this tenant's keys; default: all."), REPORT_KEY,
	OPT("by", "WHAT", ARG_TEXT, COMPLETE_NONE, "Count by source, rule, key, transport or hour."), REPORT_END };
static const struct command_arg audit_either_args[] = {
	REPORT_TENANT_OR("The log of this tenant; default: the system's."), REPORT_END };
static const struct command_arg audit_all_args[] = {
	REPORT_TENANT_OR("The log of this tenant; default: every log."), REPORT_END };
static const struct command_arg audit_tenant_args[] = { REPORT_TENANT, REPORT_END };
static const struct command_arg audit_system_args[] = { REPORT_END };
static const struct command_arg audit_credential_args[] = {
	WORD("key", "ACCESSOR", COMPLETE_KEY, "The public part of the key: 12 characters after tck_."),
	FLAG("timeline", "Each record instead of sums by place and tool."), REPORT_END };
static const struct command_arg audit_credentials_args[] = {
	REPORT_TENANT_OR("Keys of this tenant; default: all."),
	FLAG("changes", "What happened to keys; the default."), REPORT_END };
static const struct command_arg audit_subject_args[] = {
	WORD("principal", "TENANT/NAME", COMPLETE_PRINCIPAL, "The subject, with its tenant in front; a name or a pseudonym."),
	FLAG("export", "Every record instead of sums by kind and tool."), REPORT_END };
static const struct command_arg audit_sample_args[] = {
	REPORT_TENANT_OR("Calls of this tenant; default: the system's log, with --kind."),
	OPT("kind", "KIND", ARG_TEXT, COMPLETE_NONE, "Records of this kind, such as tool.change, instead of calls."),
	OPT("number", "N", ARG_UINT, COMPLETE_NONE, "How many; default 25."),
	OPT("seed", "N", ARG_UINT, COMPLETE_NONE, "The same seed takes the same records; default 1."),
	REPORT_SPAN, REPORT_FORMAT, ARG_END };
static const struct command_arg audit_continuity_args[] = {
	FLAG("executions", "Calls that ran while the audit was failing: there must be none."), REPORT_END };
static const struct command_arg audit_blast_args[] = {
	REPORT_KEY, OPT("tool-hash", "SHA256", ARG_TEXT, COMPLETE_NONE, "Who called this definition of a tool."),
	REPORT_TENANT_OR("With --tool-hash: calls of this tenant; default: of all."), REPORT_END };
static const struct command_arg audit_sandbox_args[] = {
	REPORT_TENANT_OR("Calls of this tenant; default: of all."), REPORT_TOOL, REPORT_END };
static const struct command_arg audit_capacity_args[] = {
	FLAG("events", "When room was short, or the audit failed."), REPORT_END };

const struct command key_list_commands[] = {
	{ .noun = "key", .verb = "list", .help = "List keys", .args = key_list_args, .columns = key_list_cols,
	  .shape = ADM_TABLE, .role = ADM_READ, .own = "tenant", .where = ADM_ON_POOL,
	  .check = key_list_any_check, .body = key_list_any_body },
	{ .noun = NULL },
};

const struct command tool_history_commands[] = {
	{ .noun = "tool", .verb = "history", .help = "List the versions of a tool", .args = tool_history_args,
	  .columns = tool_history_cols, .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL,
	  .check = tool_history_any_check, .body = tool_history_any_body },
	{ .noun = NULL },
};

/* verb, help, detail, arguments, columns of tables for people or NULL for all.  Which statement and which log:
 * reports[]. */
#define REPORT(v, help_, detail_, args_, columns_) \
	{ .noun = "audit", .verb = v, .help = help_, .detail = detail_, .args = args_, .columns = columns_, \
	  .shape = ADM_REPORT, \
	  .role = ADM_AUDIT, .where = ADM_ON_POOL, .record = AUDIT_AUDIT_READ, .check = report_check, .body = report_body }
const struct command report_commands[] = {
	REPORT("calls", "List a tenant's calls, the newest first",
	       "With --group-by: how many, by the client's own claim, the person behind, and more.", audit_calls_args,
	       audit_calls_cols),
	REPORT("denied", "List calls that were refused, the newest first",
	       "RULE says what refused: rights, an unknown tool, the arguments' schema, a rate.", audit_denied_args,
	       denied_cols),
	REPORT("auth-failures", "List who was not let in, the newest first", NULL, audit_auth_args, NULL),
	REPORT("admin", "List what administrators did, the newest first",
	       "Keys and failures to come in with one, tenants, grants, tools, starts and stops, every command, and who "
	       "read or verified the audit.", audit_either_args, admin_cols),
	REPORT("access", "List who read, exported, verified or reviewed the audit", NULL, audit_all_args, NULL),
	REPORT("credential", "Show from where a key was used, and for what", NULL, audit_credential_args, NULL),
	REPORT("credentials", "List how keys were created, used first, rotated and revoked", NULL, audit_credentials_args,
		credentials_cols),
	REPORT("subject", "Show what there is about a principal", NULL, audit_subject_args, NULL),
	REPORT("coverage", "Count the records of each day, and starts and stops",
	       "Positions of a log have no gaps: a day goes on where the day before it ended.", audit_either_args, NULL),
	REPORT("sample", "Take records at random, the same ones for the same seed",
	       "Those with the smallest hash are taken.  Of position i and seed s, modulo p = 2147483647: x = 48271 i + "
	       "69621 s + 1, y = x x + s, hash = y y + x.", audit_sample_args, NULL),
	REPORT("after-revocation", "List calls that began after their key had been revoked",
	       "Must be empty: exit status 4 when it is not.", audit_all_args, NULL),
	REPORT("continuity", "List the runs of the server, how each ended, and the time between",
	       "With --executions the list must be empty: exit status 4 when it is not.", audit_continuity_args, NULL),
	REPORT("clock", "List steps and states of the clock", NULL, audit_system_args, NULL),
	REPORT("erasures", "List what was erased, on which ground, and who approved", NULL, audit_all_args, NULL),
	REPORT("blast-radius", "Show what a key could reach, or who called a definition of a tool", NULL, audit_blast_args,
		NULL),
	REPORT("drift", "List calls whose definition was never stored here", "Must be empty: exit status 4 when it is not.",
	       audit_all_args, NULL),
	REPORT("config", "List changes of configuration and policies", NULL, audit_all_args, NULL),
	REPORT("isolation", "List keys and principals of one tenant in the log of another",
	       "Must be empty: exit status 4 when it is not.", audit_all_args, NULL),
	REPORT("key-history", "List changes of the keys that protect what is stored, and of secrets", NULL, audit_all_args,
		NULL),
	REPORT("dual-control", "List destructive acts that nobody else approved",
		"Must be empty: exit status 4 when it is not.",
	       audit_all_args, NULL),
	REPORT("reviews", "List who reviewed the audit, and when", NULL, audit_all_args, NULL),
	REPORT("anomalies", "List what is unusual",
	       "By plain rules: a tool that a principal had not used before; a day with ten times the calls of the days "
	       "before, at least 50; a few calls between 22 and 6 h UTC; 20 refusals in a day.", audit_tenant_args, NULL),
	REPORT("sandbox", "Count calls by tool and how far its processes were confined", NULL, audit_sandbox_args, NULL),
	REPORT("oversight", "List calls that asked a person, and what came of it", NULL, audit_all_args, NULL),
	REPORT("capacity", "Show how large the logs are, and how long there is room", NULL, audit_capacity_args, NULL),
	REPORT("anchors", "List checkpoints left outside, and epochs of the signing key", NULL, audit_system_args, NULL),
	{ .noun = NULL },
};
