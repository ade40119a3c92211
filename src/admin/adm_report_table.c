/* THE table of reports: which statement, on which logs, and whether its rows are findings. */
#include "config.h"

#include "adm_report.h"

#include <string.h>

#define ONE(sql) .way = { { NULL, sql, false, false, 0 } }
#define PAGED(sql) .way = { { NULL, sql, true, false, 0 } }
#define EMPTY(sql) .way = { { NULL, sql, false, true, 0 } }

/* ended by noun NULL */
static const struct adm_report adm_reports[] = {
	{ "audit", "calls", SCOPE_TENANT,
	  .way = { { "group-by", SQL_REPORT_CALLS_GROUPED, false, false, 0 }, { NULL, SQL_REPORT_CALLS, true, false, 0 } },
	  .by_prn = SQL_REPORT_CALLS_PRN, .by_cred = SQL_REPORT_CALLS_CRED, .by_tool = SQL_REPORT_CALLS_TOOL,
	  .by_out = SQL_REPORT_CALLS_OUT, .text = "group-by", .text_list = true,
	  .text_in = " client obo tool principal key outcome transport revision day " },
	{ "audit", "denied", SCOPE_TENANT,
	  .way = { { "by", SQL_REPORT_DENIED_BY, false, false, 0 }, { NULL, SQL_REPORT_DENIED, true, false, 0 } },
	  .text = "by", .text_in = " rule tool principal key outcome day " },
	{ "audit", "auth-failures", SCOPE_ALL,
	  .way = { { "by", SQL_REPORT_AUTH_FAILURES_BY, false, false, 0 }, { NULL, SQL_REPORT_AUTH_FAILURES, true, false, 0 } },
	  .text = "by", .text_in = " source rule key transport hour " },
	{ "audit", "admin", SCOPE_EITHER, PAGED(SQL_REPORT_ADMIN) },
	{ "audit", "access", SCOPE_ALL, PAGED(SQL_REPORT_ACCESS) },
	{ "audit", "credential", SCOPE_KEY,
	  .way = { { "timeline", SQL_REPORT_CREDENTIAL_TIMELINE, true, false, 0 }, { NULL, SQL_REPORT_CREDENTIAL, false, false, 0 } } },
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
	  .way = { { "tool-hash", SQL_REPORT_BLAST_TOOL, false, false, SCOPE_TENANTS }, { NULL, SQL_REPORT_BLAST_KEY, false, false, 0 } },
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
	  .way = { { "unused-scopes", SQL_REPORT_KEY_UNUSED, false, false, 0 }, { "stale", SQL_REPORT_KEY_STALE, false, false, 0 },
		   { NULL, SQL_REPORT_KEY_REVIEW, false, false, 0 } } },
	{ "tool", "history", SCOPE_SYSTEM, PAGED(SQL_REPORT_DEFINITION_EVENTS) },
	{ .noun = NULL },
};

const struct adm_report *adm_report_find(const char *noun, const char *verb)
{
	for (const struct adm_report *r = adm_reports; r->noun; r++)
		if (strcmp(r->noun, noun) == 0 && strcmp(r->verb, verb) == 0)
			return r;
	return NULL;
}
