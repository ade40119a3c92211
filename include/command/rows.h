#ifndef COMMAND_ROWS_H
#define COMMAND_ROWS_H

#include "command/command.h"
#include "audit/audit.h"

/* What rows of the command table are written with: arguments, columns, and what several commands have in common.
 * Included by files that end with a table. */

#define ARG_END { NULL, NULL, ARG_TEXT, false, false, false, COMPLETE_NONE, NULL }
#define WORD(name, value, complete, help) { name, value, ARG_TEXT, false, true, false, complete, help }
#define MAYBE(name, value, complete, help) { name, value, ARG_TEXT, false, false, false, complete, help }
#define WORDS(name, value, complete, help) { name, value, ARG_TEXT, false, true, true, complete, help }
#define FILES(help) { "file", "FILE", ARG_FILE, false, true, true, COMPLETE_FILE, help }
#define FILE1(help) { "file", "FILE", ARG_FILE, false, true, false, COMPLETE_FILE, help }
#define VALUES { "values", "NAME=VALUE", ARG_KEYVALUES, false, false, true, COMPLETE_NONE, \
	"An argument of the tool; a number, true, or JSON where its schema says so." }
#define OPT(name, value, type, complete, help) { name, value, type, true, false, false, complete, help }
#define OPTS(name, value, type, complete, help) { name, value, type, true, false, true, complete, help }
#define NEED(name, value, type, complete, help) { name, value, type, true, true, false, complete, help }
#define FLAG(name, help) { name, NULL, ARG_FLAG, true, false, false, COMPLETE_NONE, help }
#define TENANT_WORD WORD("tenant", "TENANT", COMPLETE_TENANT, "Name of the tenant.")
#define TENANT_MAYBE MAYBE("tenant", "TENANT", COMPLETE_TENANT, "Only this tenant.")
#define TENANT_OPT OPT("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "Only this tenant.")
#define PRINCIPAL_WORD WORD("principal", "TENANT/NAME", COMPLETE_PRINCIPAL, "The principal, with its tenant in front.")
#define CONCURRENCY_OPT OPT("concurrency", "N", ARG_UINT, COMPLETE_NONE, "Calls running at once; 0 removes the limit.")
#define RATE_OPT OPT("rate", "N/UNIT", ARG_RATE, COMPLETE_NONE, "Calls per time: 10/s, 60/min, 100/h, 5000/day.")
/* In the record of the command, with its other arguments; checked by command_reason_check(). */
#define REASON_OPT OPT("reason", "TEXT", ARG_TEXT, COMPLETE_NONE, "Why, for whoever reads the record of this command.")
#define ARGS_OPT \
	OPT("args", "JSON", ARG_JSON, COMPLETE_NONE, "All arguments as one JSON object; NAME=VALUE words go on top.")
#define PROGRESS_FLAG FLAG("progress", "Say how far it is on standard error, as on a terminal it does.")
#define COL(member, title) { member, title, COL_PLAIN }
#define COL_AT(member, title) { member, title, COL_TIME }
#define COL_IF(member, title) { member, title, COL_ASKED }
#define COL_END { NULL, NULL, COL_PLAIN }
#define BELOW_DETAIL \
	"A definition whose own audit level comes to lie below the server's or a tenant's needs a second " \
	"administrator: see approval list."
#define VERSION_MAYBE(name, help) { name, "VERSION", ARG_UINT, false, false, false, COMPLETE_NONE, help }
#define TICKET_NEED NEED("ticket", "TEXT", ARG_TEXT, COMPLETE_NONE, "Number of the case it belongs to.")

extern const struct command_arg no_args[];

#endif
