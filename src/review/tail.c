/* audit tail, export and export-check, the commands: what they are asked with.  report/feed.c reads. */
#include "config.h"

#include "command/rows.h"

#include "review_int.h"

#define TAIL_DEFAULT 10
#define LAG_MS (10u * 60 * 1000)

/* Which records alone, if not all.  A cursor says what has been exported: of some records it would say so of all. */
static int check_choice(struct command_call *c, struct report_ask *ask, struct err *err)
{
	if (!report_is_chosen(ask))
		return 0;
	if (arg_given(c, "cursor")) {
		(void)err_set(err, ERR_INVALID, "cursor", "cursor: it says how far all records were exported, and here some are "
			      "left out");
		err_hint(err, "without --tool, --principal, --key, --outcome and --kind there is a cursor; or --since");
		return ERR_INVALID;
	}
	command_line_default(c, "filtered", "yes");     /* its record names no principal */
	return 0;
}

static int new_job(struct command_call *c, struct report_ask **ret, struct err *err)
{
	struct report_ask *ask = report_ask_new(c);
	int rc;

	ask->follow = arg_given(c, "follow");
	ask->cursor = json_deep_copy(arg_json(c, "cursor"));
	*ret = ask;
	if (ask->follow && c->who.embedded) {
		(void)err_set(err, ERR_INVALID, "follow", "there is nothing to follow: no server runs on this store");
		err_hint(err, "start toolcribd, or leave out --follow");
		return ERR_INVALID;
	}
	rc = report_ask_check(c, ask, err);
	return rc < 0 ? rc : check_choice(c, ask, err);
}

static int tail_check(struct command_call *c, struct err *err)
{
	struct report_ask *ask;
	int rc = new_job(c, &ask, err);

	if (rc == 0 && arg_given(c, "rate") && (!ask->follow || arg_uint(c, "rate", 0) == 0)) {
		rc = err_set(err, ERR_INVALID, "rate", ask->follow ? "rate: at least one row a second" :
			     "rate: what is there already is shown at once");
		err_hint(err, ask->follow ? "leave out --rate for all" : "--rate goes with --follow; --number says how many");
	}
	if (rc == 0) {
		ask->newest = arg_uint(c, "number", TAIL_DEFAULT);
		ask->rate = arg_uint(c, "rate", 0);
	}
	return rc;
}

static int audit_export_check(struct command_call *c, struct err *err)
{
	struct report_ask *ask;

	return new_job(c, &ask, err);
}

static int export_check_check(struct command_call *c, struct err *err)
{
	struct report_ask *ask = report_ask_new(c);

	ask->lag_us = 1000 * arg_duration_ms(c, "lag", LAG_MS);
	ask->cursor = json_deep_copy(arg_json(c, "cursor"));
	return report_ask_check(c, ask, err);
}

/* --- rows of the command table */

static const struct command_column tail_cols[] = {
	COL_AT("time", "TIME"), COL("tenant", "TENANT"), COL("kind", "KIND"), COL("tool", "TOOL"),
	COL("principal", "PRINCIPAL"),
	COL("outcome", "OUTCOME"), COL("ms", "MS"), COL("detail", "DETAIL"), COL_END };
#define CHOICE REPORT_CALLS, \
	OPT("kind", "KIND", ARG_TEXT, COMPLETE_NONE, "Only records of this kind, such as call.end: toolcrib-audit(7).")
#define FOLLOW FLAG("follow", "Go on with what is written from now on, until Ctrl-C.")
static const struct command_arg audit_tail_args[] = {
	REPORT_TENANT_OR("The log of this tenant; default: every log."), FOLLOW,
	OPT("number", "N", ARG_UINT, COMPLETE_NONE, "Begin with so many of the newest records of each log; default 10."),
	OPT("rate", "N", ARG_UINT, COMPLETE_NONE,
	    "With --follow: show at most so many records a second; a row with detail alone says how many more there were."),
	CHOICE, REPORT_WAIT, ARG_END };
static const struct command_arg audit_export_args[] = {
	REPORT_TENANT_OR("The log of this tenant; default: every log."), FOLLOW,
	{ "cursor", "FILE", ARG_CURSOR, true, false, false, COMPLETE_FILE,
	  "Go on where this file says, and keep it up to date; made when it is not there." },
	CHOICE, REPORT_SPAN, REPORT_WAIT, ARG_END };
static const struct command_arg audit_export_check_args[] = {
	{ "cursor", "FILE", ARG_CURSOR, true, true, false, COMPLETE_FILE, "The file of audit export --cursor." },
	OPT("lag", "TIME", ARG_DURATION, COMPLETE_NONE, "How long a record may wait for its export; default 10m."),
	REPORT_TENANT_OR("The log of this tenant; default: every log."), REPORT_WAIT, ARG_END };

const struct command tail_commands[] = {
	{ .noun = "audit", .verb = "tail", .help = "Show the newest records, and follow", .args = audit_tail_args,
	  .columns = tail_cols, .shape = ADM_REPORT, .stream = true, .role = ADM_AUDIT, .console = true,
	  .where = ADM_ELSEWHERE,
	  .record = AUDIT_AUDIT_READ,
	  .check = tail_check },
	{ .noun = "audit", .verb = "export", .help = "Write all records, and follow", .args = audit_export_args,
	  .detail = "One object for each record, with the bytes that are hashed; --format is jsonl, csv, json or ocsf (API "
		    "Activity 6003 of OCSF 1.9.0), by default jsonl.  With --cursor each record is written at "
		    "least once: the file is brought up to date after what it says has been written.  With --tool, --principal, "
		    "--key, --outcome or --kind some are left out: the header says so as only, and there is no cursor, so that "
		    "nobody takes them for all.",
	  .shape = ADM_REPORT, .stream = true,
	  .role = ADM_AUDIT, .console = true, .where = ADM_ELSEWHERE, .record = AUDIT_AUDIT_EXPORT,
	  .check = audit_export_check },
	{ .noun = "audit", .verb = "export-check", .help = "List logs whose export stays behind",
	  .args = audit_export_check_args,
	  .detail = "Must be empty: exit status 4 when it is not.  A cursor that is ahead of its log means that records are "
		    "missing in the store.",
	  .shape = ADM_REPORT, .role = ADM_AUDIT, .where = ADM_ELSEWHERE, .record = AUDIT_AUDIT_READ,
	  .check = export_check_check },
	{ .noun = NULL },
};
