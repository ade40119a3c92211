#ifndef ADM_LIMIT_ROWS_H
#define ADM_LIMIT_ROWS_H

/* Commands about limits.  A part of admin_table.c. */

#define LIMIT_WHO \
	MAYBE("who", "TENANT[/PRINCIPAL]", COMPLETE_TENANT, "A tenant, or one of its principals."), \
	OPT("key", "ACCESSOR", ARG_TEXT, COMPLETE_KEY, "A key instead, by its public part."), \
	OPT("tool", "TOOL", ARG_TEXT, COMPLETE_TOOL, "One tool of the tenant, by its own name.")
static const struct adm_arg limit_set_args[] = {
	LIMIT_WHO, CONCURRENCY_OPT, RATE_OPT, FLAG("no-rate", "Remove the limit of the rate."),
	OPT("requests", "N/UNIT", ARG_RATE, COMPLETE_NONE, "Messages per time, calls apart: lists, listens and all others."),
	FLAG("no-requests", "Remove the limit of messages; of a tenant that of the server counts again."),
	OPT("queue", "N", ARG_UINT, COMPLETE_NONE, "Calls of the tenant that may wait for their turn; 0: as the server says."),
	OPT("calls-per-day", "N", ARG_UINT, COMPLETE_NONE, "Calls of a day, which ends at midnight UTC; 0 removes the limit."),
	OPT("bytes-per-day", "SIZE", ARG_TEXT, COMPLETE_NONE, "Bytes of arguments and results of a day: 100MiB; 0 removes the limit."),
	END };
static const struct adm_arg limit_show_args[] = { LIMIT_WHO, END };
static const struct adm_column limit_show_cols[] = {
	COL("of", "OF"), COL("limit", "LIMIT"), COL("value", "VALUE"), COL("from", "FROM"), COL("now", "NOW"), COL_END };

#define LIMIT_ROWS \
	{ .noun = "limit", .verb = "set", .help = "Limit what a tenant, a principal, a key or a tool may do", \
	  .detail = "What is not named stays as it is.  A call counts for its tenant, its principal, its key and its tool, and " \
		    "whichever of them has the least left decides.  A call whose slots are taken waits for its turn; one that comes " \
		    "too often is refused, with the time after which it may come again.  Takes effect for the next message.", \
	  .args = limit_set_args, .done = "limits of %{what} set", .role = ADM_OWNER, .where = ADM_ON_WRITER, \
	  .check = adm_limit_set_check, .body = adm_limit_set_body }, \
	{ .noun = "limit", .verb = "show", .help = "Show the limits in force, where each comes from and what is used of it", \
	  .detail = "Without a tenant those of the server alone.  FROM is default, config (the server's configuration), tenant, " \
		    "principal, key, or of a tool: tool (its definition), grant, limit (limit set).  NOW is what runs, waits or is " \
		    "open, or what was used today.  A share is what a tenant is sure of, whatever the others do.  " \
		    "A tenant-admin names its tenant, and sees neither the server's nor the shares.", \
	  .args = limit_show_args, .columns = limit_show_cols, .shape = ADM_TABLE, .role = ADM_READ, .own = "who", .where = ADM_ON_LOOP, \
	  .check = adm_limit_show_check, .body = adm_limit_show_body }

#endif
