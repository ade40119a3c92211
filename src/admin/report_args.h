#ifndef REPORT_ARGS_H
#define REPORT_ARGS_H

#include "admin/admin.h"

/* What reports are asked for with.  A part of admin_table.c. */

#define REPORT_SPAN \
	OPT("since", "TIME", ARG_TIME, COMPLETE_NONE, "From this time: 1h, 3d (ago), 2026-07-28, RFC 3339."), \
	OPT("until", "TIME", ARG_TIME, COMPLETE_NONE, "Up to this time.")
#define REPORT_FORMAT \
	OPT("format", "FORMAT", ARG_TEXT, COMPLETE_NONE, "table, json (one document), jsonl (header and rows) or csv; default table.")
#define REPORT_LIMIT \
	OPT("limit", "N", ARG_UINT, COMPLETE_NONE, "At most so many, the newest; default 100, 0 = all.")
#define REPORT_END REPORT_SPAN, REPORT_LIMIT, REPORT_FORMAT, END
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

static const struct adm_arg audit_calls_args[] = {
	REPORT_TENANT, REPORT_CALLS,
	OPT("group-by", "LIST", ARG_TEXT, COMPLETE_NONE,
	    "Count by these, with commas: client, obo, tool, principal, key, outcome, transport, revision, day."), REPORT_END };
static const struct adm_arg audit_denied_args[] = {
	REPORT_TENANT, REPORT_CALLS,
	OPT("by", "WHAT", ARG_TEXT, COMPLETE_NONE, "Count by rule, tool, principal, key, outcome or day."), REPORT_END };
static const struct adm_arg audit_auth_args[] = {
	REPORT_TENANT_OR("Of this tenant's keys; default: all."), REPORT_KEY,
	OPT("by", "WHAT", ARG_TEXT, COMPLETE_NONE, "Count by source, rule, key, transport or hour."), REPORT_END };
static const struct adm_arg audit_either_args[] = {
	REPORT_TENANT_OR("The log of this tenant; default: the system's."), REPORT_END };
static const struct adm_arg audit_all_args[] = { REPORT_TENANT_OR("The log of this tenant; default: every log."), REPORT_END };
static const struct adm_arg audit_tenant_args[] = { REPORT_TENANT, REPORT_END };
static const struct adm_arg audit_system_args[] = { REPORT_END };
static const struct adm_arg audit_credential_args[] = {
	WORD("key", "ACCESSOR", COMPLETE_KEY, "The public part of the key: 12 characters after tck_."),
	FLAG("timeline", "Each record instead of sums by place and tool."), REPORT_END };
static const struct adm_arg audit_credentials_args[] = {
	REPORT_TENANT_OR("Keys of this tenant; default: all."),
	FLAG("changes", "What happened to keys; the default."), REPORT_END };
static const struct adm_arg audit_subject_args[] = {
	WORD("principal", "TENANT/NAME", COMPLETE_PRINCIPAL, "The subject, with its tenant in front; a name or a pseudonym."),
	FLAG("export", "Every record instead of sums by kind and tool."), REPORT_END };
static const struct adm_arg audit_sample_args[] = {
	REPORT_TENANT_OR("Calls of this tenant; default: the system's log, with --kind."),
	OPT("kind", "KIND", ARG_TEXT, COMPLETE_NONE, "Records of this kind, such as tool.change, instead of calls."),
	OPT("number", "N", ARG_UINT, COMPLETE_NONE, "How many; default 25."),
	OPT("seed", "N", ARG_UINT, COMPLETE_NONE, "The same seed takes the same records; default 1."),
	REPORT_SPAN, REPORT_FORMAT, END };
static const struct adm_arg audit_continuity_args[] = {
	FLAG("executions", "Calls that ran while the audit was failing: there must be none."), REPORT_END };
static const struct adm_arg audit_blast_args[] = {
	REPORT_KEY, OPT("tool-hash", "SHA256", ARG_TEXT, COMPLETE_NONE, "Who called this definition of a tool."),
	REPORT_TENANT_OR("With --tool-hash: calls of this tenant; default: of all."), REPORT_END };
static const struct adm_arg audit_sandbox_args[] = {
	REPORT_TENANT_OR("Calls of this tenant; default: of all."), REPORT_TOOL, REPORT_END };
static const struct adm_arg audit_capacity_args[] = {
	FLAG("events", "When room was short, or the audit failed."), REPORT_END };
static const struct adm_arg audit_tool_health_args[] = {
	REPORT_TENANT, REPORT_SPAN, OPT("tool", "TOOL", ARG_TEXT, COMPLETE_TOOL, "This tool alone, as the tenant sees it."),
	REPORT_FORMAT, END };
static const struct adm_arg audit_review_args[] = {
	WORD("action", "sign", COMPLETE_NONE, "What to do: sign."),
	REPORT_TENANT_OR("The log of this tenant; default: the system's."),
	OPT("until", "TIME", ARG_TIME, COMPLETE_NONE, "What was read: up to this time; default: now."),
	OPT("note", "TEXT", ARG_TEXT, COMPLETE_NONE, "What came of it, or a reference."), END };
#define FOLLOW FLAG("follow", "Go on with what is written from now on, until Ctrl-C.")
static const struct adm_arg audit_tail_args[] = {
	REPORT_TENANT_OR("The log of this tenant; default: every log."), FOLLOW,
	OPT("number", "N", ARG_UINT, COMPLETE_NONE, "Begin with so many of the newest records of each log; default 10."),
	REPORT_FORMAT, END };
static const struct adm_arg audit_export_args[] = {
	REPORT_TENANT_OR("The log of this tenant; default: every log."), FOLLOW,
	{ "cursor", "FILE", ARG_CURSOR, true, false, false, COMPLETE_FILE,
	  "Go on where this file says, and keep it up to date; made when it is not there." },
	REPORT_SPAN, OPT("format", "FORMAT", ARG_TEXT, COMPLETE_NONE, "jsonl, csv or ocsf (API Activity 6003); default jsonl."), END };
static const struct adm_arg audit_export_check_args[] = {
	{ "cursor", "FILE", ARG_CURSOR, true, true, false, COMPLETE_FILE, "The file of audit export --cursor." },
	OPT("lag", "TIME", ARG_DURATION, COMPLETE_NONE, "How long a record may wait for its export; default 10m."),
	REPORT_TENANT_OR("The log of this tenant; default: every log."), REPORT_FORMAT, END };
static const struct adm_arg audit_stats_args[] = {
	REPORT_TENANT_OR("Calls of this tenant; default: of all."), REPORT_TOOL, REPORT_SPAN,
	OPT("step", "TIME", ARG_DURATION, COMPLETE_NONE, "How much time a line stands for: 1m, 1h; default: what gives some 48."),
	REPORT_FORMAT, END };

#endif
