#ifndef REVIEW_INT_H
#define REVIEW_INT_H

#include "base/crypto.h"
#include "db/db.h"
#include "report/report.h"
#include "review/review.h"
#include "toolset/toolset.h"

/* The commands that are reports: which report one is, and what it is asked with, is found out here; report/report.h
 * answers. */

/* In check(): the question, as c->priv, which a reporter answers. */
struct report_ask *report_ask_new(struct command_call *c);
/* The options that reports have in common, into ask. */
int report_ask_check(struct command_call *c, struct report_ask *ask, struct err *err) MUST_CHECK;
/* reports.c: who answers. */
extern const struct command_elsewhere report_elsewhere;

/* --- what reports are asked for with */

#define REPORT_SPAN \
	OPT("since", "TIME", ARG_TIME, COMPLETE_NONE, "From this time on: 1h, 3d (ago), 2026-07-28, RFC 3339."), \
	OPT("until", "TIME", ARG_TIME, COMPLETE_NONE, "Before this time, which is left out; a day is its midnight, UTC.")
#define REPORT_LIMIT \
	OPT("limit", "N", ARG_UINT, COMPLETE_NONE, "At most so many, the newest; default 100, 0 = all."), \
	OPT("after", "CURSOR", ARG_TEXT, COMPLETE_NONE, \
	    "Go on where a page ended: what its `next:` said, with the same question.")
#define REPORT_WAIT FLAG("wait", "Wait for a turn, however many reports run and wait already.")
#define REPORT_END REPORT_SPAN, REPORT_LIMIT, REPORT_WAIT, ARG_END
#define REPORT_TENANT NEED("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "Whose log.")
#define REPORT_TENANT_OR(what) OPT("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, what)
#define REPORT_TOOL OPT("tool", "TOOL", ARG_TEXT, COMPLETE_TOOL, "Only calls of this tool, as the tenant sees it.")
#define REPORT_PRINCIPAL \
	OPT("principal", "NAME", ARG_TEXT, COMPLETE_NONE, "Only what this principal did; a name or a pseudonym.")
#define REPORT_KEY OPT("key", "ACCESSOR", ARG_TEXT, COMPLETE_KEY, "Only what was done with this key.")
#define REPORT_OUTCOME \
	OPT("outcome", "OUTCOME", ARG_TEXT, COMPLETE_NONE, \
	    "Only calls that ended so: ok, tool_error, invalid, denied, rate_limited, timeout, cancelled, …")
#define REPORT_LOOK_AT \
	OPT("look", "N", ARG_UINT, COMPLETE_NONE, \
	    "Read about so many records of one log at most, 700 ms long, then say where to go on.")
#define REPORT_CALLS REPORT_TOOL, REPORT_PRINCIPAL, REPORT_KEY, REPORT_OUTCOME, REPORT_LOOK_AT

#endif
