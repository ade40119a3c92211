#ifndef REVIEW_INT_H
#define REVIEW_INT_H

#include "db/db.h"
#include "review/review.h"
#include "toolset/toolset.h"

/* Reports are statements (sql/queries/report.sql) with a header in front (AUDIT 12).  What a report is stands in a row
 * of reports[]; how it is asked for, in the command table. */

enum report_scope {
	SCOPE_REPORT,           /* of a way: as its report says */
	SCOPE_TENANT,           /* a tenant's log, which must be named */
	SCOPE_EITHER,           /* a tenant's, or the system's when none is named */
	SCOPE_ALL,              /* a tenant's, or every log one after another */
	SCOPE_TENANTS,          /* likewise, without the system log */
	SCOPE_SYSTEM,
	SCOPE_KEY,              /* the log of the tenant of the key that is named */
};

struct report_way {
	const char *option;             /* the flag or option that asks for this one; NULL: none needed */
	enum sql_id sql;
	bool paged;                     /* gives _ts and _idx, and is asked again from there */
	bool must_be_empty;             /* rows are findings: exit status 4 (AUDIT A-1103) */
	enum report_scope scope;
};
#define REPORT_WAYS 4
struct report {
	const char *noun, *verb;
	enum report_scope scope;
	struct report_way way[REPORT_WAYS];   /* the last one has no option */
	enum sql_id by_prn, by_cred, by_tool, by_out;   /* the same by another index, when there is such a filter; or 0 */
	const char *text;               /* the option or word whose text is parameter 11, or NULL */
	const char *text_in;            /* what it may be: " rule tool "; NULL: anything */
	bool text_list;                 /* several of them, with commas */
	bool room;                      /* the header says how full the disk is */
};
const struct report *report_find(const char *noun, const char *verb);

/* What is asked for, copied from the arguments on the loop. */
struct report_ask {
	const struct report *report;
	const struct report_way *way;
	char *line;                     /* the command, as its record has it */
	char *store;                    /* its directory */
	char tenant[80], tool[80], principal[64], key[32], text[512];
	uint64_t since_us, until_us;    /* from, before */
	int outcome;
	int64_t number, limit;          /* limit 0: all */
	bool as_text;                   /* parameter 11 is set */
	/* found in the store */
	int64_t log, tenant_id;         /* log 0: all of them; tenant_id 0: the system's */
	char pseudonym[64];
};
#define REPORT_MS 5000              /* of one read transaction (AUDIT A-623) */
#define REPORT_PAGE 1000            /* rows of one */

/* The options that reports have in common, into ret; and the log and the pseudonym, from the store. */
int report_ask_check(struct command_call *c, struct report_ask *ret, struct err *err) MUST_CHECK;
int report_ask_find(struct db *db, struct report_ask *ask, struct err *err) MUST_CHECK;
void report_ask_fini(struct report_ask *ask);
/* The line {"header":{...},"columns":[...]}; the columns from a statement, without those that begin with _, or by
 * name. */
int report_head(struct reply *o, struct db *db, const struct report_ask *ask, struct db_stmt *columns,
		    const char *const *names, struct err *err) MUST_CHECK;
/* Of the row that the statement stands at: its columns as members, without those that begin with _. */
void report_columns(struct reply *o, struct db_stmt *st);
/* When the first record at or behind idx was written, -1 = there is none. */
int report_record_time(struct db *db, int64_t log, int64_t idx, int64_t *ret_us, struct err *err) MUST_CHECK;
/* The next log behind *log, 0 = there is none; *ret_tenant may be NULL. */
int report_next_log(struct db *db, int64_t *log, int64_t *ret_tenant, struct err *err) MUST_CHECK;

/* --- what reports are asked for with */

#define REPORT_SPAN \
	OPT("since", "TIME", ARG_TIME, COMPLETE_NONE, "From this time: 1h, 3d (ago), 2026-07-28, RFC 3339."), \
	OPT("until", "TIME", ARG_TIME, COMPLETE_NONE, "Up to this time.")
#define REPORT_FORMAT \
	OPT("format", "FORMAT", ARG_TEXT, COMPLETE_NONE, \
		"table, json (one document), jsonl (header and rows) or csv; default table.")
#define REPORT_LIMIT \
	OPT("limit", "N", ARG_UINT, COMPLETE_NONE, "At most so many, the newest; default 100, 0 = all.")
#define REPORT_END REPORT_SPAN, REPORT_LIMIT, REPORT_FORMAT, ARG_END
#define REPORT_TENANT NEED("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "Whose log.")
#define REPORT_TENANT_OR(what) OPT("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, what)
#define REPORT_TOOL OPT("tool", "TOOL", ARG_TEXT, COMPLETE_TOOL, "Only calls of this tool, as the tenant sees it.")
#define REPORT_PRINCIPAL \
	OPT("principal", "NAME", ARG_TEXT, COMPLETE_NONE, "Only what this principal did; a name or a pseudonym.")
#define REPORT_KEY OPT("key", "ACCESSOR", ARG_TEXT, COMPLETE_KEY, "Only what was done with this key.")
#define REPORT_OUTCOME \
	OPT("outcome", "OUTCOME", ARG_TEXT, COMPLETE_NONE, \
	    "Only calls that ended so: ok, tool_error, invalid, denied, rate_limited, timeout, cancelled, …")
#define REPORT_CALLS REPORT_TOOL, REPORT_PRINCIPAL, REPORT_KEY, REPORT_OUTCOME

#endif
