/* What a report is: a statement of sql/queries/report.sql and a row of reports[]; rows.c asks it, and names its columns
 * as the statement does. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "audit/audit.h"

#include "report_int.h"

/* --- THE table of reports: which statement, on which logs, and whether its rows are findings */

#define BODY(id, fn) .way = { { .sql = id, COUNTED, .body = fn } }
#define PAGED(id) .way = { { .sql = id, .paged = true } }
#define COUNTED .counted = true
#define WALKED .paged = true, .walked = true
#define FINDINGS(id) .way = { { .sql = id, .paged = true, .must_be_empty = true } }

/* ended by noun NULL */
static const struct report reports[] = {
	{ "audit", "calls", SCOPE_TENANTS,
	  .way = { { .option = "group-by", .sql = SQL_REPORT_CALLS_GROUPED, COUNTED, .sums = true },
		   { .sql = SQL_REPORT_CALLS, WALKED, .own = true, .columns = report_calls_columns } },
	  .text = "group-by", .text_list = true,
	  .text_in = " client obo tool principal key outcome transport revision day tenant " },
	{ "audit", "denied", SCOPE_TENANT,
	  .way = { { .option = "by", .sql = SQL_REPORT_DENIED_BY, COUNTED },
		   { .sql = SQL_REPORT_DENIED, WALKED, .own = true,
		     .kind = { AUDIT_CALL_DENIED, AUDIT_CALL_DENIED_SUMMARY } } },
	  .text = "by", .text_in = " rule tool principal key outcome day " },
	{ "audit", "auth-failures", SCOPE_ALL,
	  .way = { { .option = "by", .sql = SQL_REPORT_AUTH_FAILURES_BY, .sums = true },
		   { .sql = SQL_REPORT_AUTH_FAILURES, WALKED, .kind = { AUDIT_AUTH_FAIL, AUDIT_AUTH_FAIL_SUMMARY } } },
	  .text = "by", .text_in = " source rule key transport hour " },
	{ "audit", "admin", SCOPE_EITHER, PAGED(SQL_REPORT_ADMIN) },
	{ "audit", "access", SCOPE_ALL, PAGED(SQL_REPORT_ACCESS) },
	{ "audit", "credential", SCOPE_KEY,
	  .way = { { .option = "timeline", .sql = SQL_REPORT_CREDENTIAL_TIMELINE, WALKED },
		   { .sql = SQL_REPORT_CREDENTIAL, COUNTED } },
	  .reads = " cred " },
	{ "audit", "credentials", SCOPE_ALL, PAGED(SQL_REPORT_CREDENTIALS) },
	{ "audit", "subject", SCOPE_TENANT,
	  .way = { { .option = "export", .sql = SQL_REPORT_SUBJECT_EXPORT, WALKED },
		   { .sql = SQL_REPORT_SUBJECT, COUNTED } },
	  .reads = " kinds " },
	{ "audit", "coverage", SCOPE_EITHER, .way = { { .sql = SQL_REPORT_COVERAGE, COUNTED } },
	  .reads = " own sys around bounds days newest " },
	{ "audit", "sample", SCOPE_EITHER,
	  .way = { { .option = "kind", .method = "hash", .sql = SQL_REPORT_SAMPLE_KIND_HASH, .drawn = true },
		   { .method = "hash", .sql = SQL_REPORT_SAMPLE_HASH, .drawn = true, .body = report_sample_hash },
		   { .option = "kind", .sql = SQL_REPORT_SAMPLE_KIND, .drawn = true, .body = report_sample },
		   { .sql = SQL_REPORT_SAMPLE, .drawn = true, .body = report_sample } } },
	{ "audit", "after-revocation", SCOPE_TENANTS,
	  .way = { { .sql = SQL_REPORT_AFTER_REVOCATION, .forms = SQL_REPORT_AFTER_REVOCATION_FORMS, .paged = true,
		     .must_be_empty = true } } },
	{ "audit", "continuity", SCOPE_SYSTEM,
	  .way = { { .option = "executions", .sql = SQL_REPORT_CONTINUITY_EXECUTIONS, COUNTED, .paged = true,
		     .must_be_empty = true, .scope = SCOPE_TENANTS },
		   { .sql = SQL_REPORT_CONTINUITY } } },
	{ "audit", "clock", SCOPE_SYSTEM, PAGED(SQL_REPORT_CLOCK) },
	{ "audit", "erasures", SCOPE_ALL, PAGED(SQL_REPORT_ERASURES) },
	{ "audit", "blast-radius", SCOPE_KEY,
	  .way = { { .option = "tool-hash", .sql = SQL_REPORT_BLAST_TOOL, COUNTED, .scope = SCOPE_TENANTS, .sums = true },
		   { .sql = SQL_REPORT_BLAST_KEY, COUNTED } },
	  .text = "tool-hash", .reads = " cred tool_grant " },
	{ "audit", "drift", SCOPE_TENANTS,
	  .way = { { .sql = SQL_REPORT_DRIFT, COUNTED, .paged = true, .must_be_empty = true } },
	  .reads = " tool_version bad hit " },
	{ "audit", "config", SCOPE_ALL, PAGED(SQL_REPORT_CONFIG) },
	{ "audit", "isolation", SCOPE_TENANTS,
	  .way = { { .sql = SQL_REPORT_ISOLATION, .forms = SQL_REPORT_ISOLATION_FORMS, COUNTED, .must_be_empty = true } },
	  .reads = " cred seen " },
	{ "audit", "key-history", SCOPE_ALL, PAGED(SQL_REPORT_KEYS) },
	{ "audit", "dual-control", SCOPE_ALL, FINDINGS(SQL_REPORT_DUAL_CONTROL) },
	{ "audit", "reviews", SCOPE_ALL, PAGED(SQL_REPORT_REVIEWS) },
	{ "audit", "anomalies", SCOPE_TENANT, .way = { { .sql = SQL_REPORT_ANOMALIES, COUNTED } },
	  .reads = " c ever past daily firsts found " },
	{ "audit", "sandbox", SCOPE_TENANTS, .way = { { .sql = SQL_REPORT_SANDBOX, COUNTED, .sums = true } } },
	{ "audit", "oversight", SCOPE_TENANTS,
	  .way = { { .sql = SQL_REPORT_OVERSIGHT, .forms = SQL_REPORT_OVERSIGHT_FORMS, WALKED,
		     .outcome = AUDIT_INPUT_REQUIRED, .kind = { AUDIT_CALL_HELD }, .either = true } } },
	{ "audit", "approvals", SCOPE_TENANTS,
	  .way = { { .option = "by", .sql = SQL_REPORT_APPROVALS_BY, .forms = SQL_REPORT_APPROVALS_BY_FORMS },
		   { .sql = SQL_REPORT_APPROVALS, .forms = SQL_REPORT_APPROVALS_FORMS, WALKED,
		     .kind = { AUDIT_CALL_HELD, AUDIT_CALL_APPROVED, AUDIT_CALL_REFUSED, AUDIT_CALL_LAPSED,
			       AUDIT_CALL_RECALLED } } },
	  .text = "by", .text_in = " person tool principal ", .reads = " said ranked " },
	{ "audit", "tasks", SCOPE_TENANTS,
	  .way = { { .option = "by", .sql = SQL_REPORT_TASKS_BY, .forms = SQL_REPORT_TASKS_BY_FORMS },
		   { .option = "open", .sql = SQL_REPORT_TASKS_OPEN, .forms = SQL_REPORT_TASKS_OPEN_FORMS, WALKED,
		     .kind = { AUDIT_TASK_CREATE } },
		   { .sql = SQL_REPORT_TASKS, .forms = SQL_REPORT_TASKS_FORMS, WALKED, .kind = { AUDIT_TASK_CREATE } } },
	  .text = "by", .text_in = " tool principal state ", .reads = " made ranked " },
	{ "audit", "capacity", SCOPE_SYSTEM,
	  .way = { { .option = "events", .sql = SQL_REPORT_CAPACITY_EVENTS, .paged = true },
		   { .option = "tables", .sql = SQL_REPORT_CAPACITY_TABLES },
		   { .sql = SQL_REPORT_CAPACITY, .forms = SQL_REPORT_CAPACITY_FORMS } },
	  .room = true,
	  .reads = " pragma pragma_page_count pragma_page_size pragma_freelist_count sqlite_master dbstat of " },
	{ "audit", "segments", SCOPE_ALL,
	  .way = { { .sql = SQL_REPORT_SEGMENTS, .body = report_segments, .not_evidence = "month, bytes, bytes_a_record" } } },
	{ "audit", "anchors", SCOPE_SYSTEM, .way = { { .sql = SQL_REPORT_ANCHORS } },
	  .reads = " anchor " },
	{ "audit", "tool-health", SCOPE_TENANT, BODY(SQL_REPORT_DURATIONS, report_tool_health) },
	{ "audit", "stats", SCOPE_TENANTS, BODY(SQL_REPORT_DURATIONS_BY_TIME, report_stats) },
	{ "audit", "tail", SCOPE_ALL,
	  .way = { { .sql = SQL_REPORT_RECORDS, .columns = report_tail_columns, .chosen = true, .own = true } } },
	{ "audit", "export", SCOPE_ALL,
	  .way = { { .sql = SQL_REPORT_RECORDS, .columns = report_export_columns, .chosen = true, .own = true } } },
	{ "audit", "export-check", SCOPE_ALL,
	  .way = { { .sql = SQL_REPORT_EXPORT_CHECK, .must_be_empty = true, .body = report_export_check } } },
	{ "key", "list", SCOPE_TENANTS,
	  .way = { { .option = "unused-scopes", .sql = SQL_REPORT_KEY_UNUSED, .forms = SQL_REPORT_KEY_UNUSED_FORMS, COUNTED,
		     .not_evidence = "label" },
		   { .option = "stale", .sql = SQL_REPORT_KEY_STALE, .not_evidence = "last_used, label" },
		   { .sql = SQL_REPORT_KEY_REVIEW, .not_evidence = "last_used, label" } },
	  .reads = " cred tool_grant used " },
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

static bool is_in(const char *list, const char *word)
{
	char item[72];

	(void)snprintf(item, sizeof(item), " %s ", word);
	return list && strlen(word) < sizeof(item) - 3 && strstr(list, item) != NULL;
}

bool report_may_read(const void *report, const char *table, const char *column)
{
	static const char all[] = " rec rec_tail rec_at span meta blk chap book seg rollup rollup_hist parts meets log "
		"tenant principal dict head cp tile limit_row system sqlite_master ";      /* the last: whether rows have indexes */
	static const char of_cred[] = " id tenant_id principal_id accessor label created_us expires_us revoked_us rotated_us "
		"suspended_us last_used_us scopes ROWID ";
	const struct report *r = report;

	if (strncmp(table, "v_", 2) != 0 && !is_in(all, table) && !is_in(r->reads, table))
		return false;
	/* What says whether a key is the right one is for who checks keys. */
	return strcmp(table, "cred") != 0 || !*column || is_in(of_cred, column);
}
