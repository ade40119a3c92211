#ifndef ADM_KEEP_ROWS_H
#define ADM_KEEP_ROWS_H

/* Commands about what is kept, for how long, and who has to agree that it goes.  A part of admin_table.c. */

static const struct adm_arg approval_args[] = {
	{ "id", "ID", ARG_UINT, false, true, false, COMPLETE_NONE, "Number of the request, from approval list." }, END };
static const struct adm_arg approval_policy_args[] = {
	WORD("policy", "one|two", COMPLETE_NONE, "How many administrators a destructive act needs."), END };
static const struct adm_column approval_list_cols[] = {
	COL("id", "ID"), COL("state", "STATE"), COL("asked_by", "ASKED BY"), COL_AT("asked", "ASKED"), COL("granted_by", "GRANTED BY"),
	COL_AT("until", "UNTIL"), COL("command", "COMMAND"), COL_END };

#define TICKET_NEED NEED("ticket", "TEXT", ARG_TEXT, COMPLETE_NONE, "Number of the case it belongs to.")
static const struct adm_arg hold_set_args[] = {
	TENANT_WORD, NEED("reason", "TEXT", ARG_TEXT, COMPLETE_NONE, "Why; it stays in the record for ever: no names of persons."),
	TICKET_NEED, OPT("principal", "NAME", ARG_TEXT, COMPLETE_NONE, "Only what this principal of the tenant did, now and later."),
	OPT("from", "INDEX", ARG_TEXT, COMPLETE_NONE, "Only records from this index on."),
	OPT("to", "INDEX", ARG_TEXT, COMPLETE_NONE, "The last of them."),
	OPT("since", "TIME", ARG_TIME, COMPLETE_NONE, "Only records from this time on that are there today."),
	OPT("until", "TIME", ARG_TIME, COMPLETE_NONE, "Only records before this time."), END };
static const struct adm_arg hold_list_args[] = {
	TENANT_MAYBE, FLAG("history", "Released ones as well."), END };
static const struct adm_arg hold_release_args[] = {
	{ "id", "ID", ARG_UINT, false, true, false, COMPLETE_NONE, "Number of the hold, from hold list." },
	NEED("reason", "TEXT", ARG_TEXT, COMPLETE_NONE, "Why; it stays in the record for ever."), TICKET_NEED, END };
static const struct adm_column hold_list_cols[] = {
	COL("id", "ID"), COL("tenant", "TENANT"), COL("state", "STATE"), COL("principal", "PRINCIPAL"), COL("from", "FROM"),
	COL("to", "TO"), COL("ticket", "TICKET"), COL_AT("set", "SET"), COL("set_by", "SET BY"), COL_AT("released", "RELEASED"),
	COL("released_by", "RELEASED BY"), COL("reason", "REASON"), COL_END };

#define HOLD_ROWS \
	{ .noun = "hold", .verb = "set", .help = "Keep records from being pruned or erased", \
	  .detail = "All records of a tenant, a range of them, or those of a principal.  A range by times is turned into indexes " \
		    "once, now.", \
	  .args = hold_set_args, .done = "hold %{id} of %{tenant} set for %{ticket}", .role = ADM_OWNER, .where = ADM_ON_WRITER, \
	  .check = adm_hold_set_check, .body = adm_hold_set_body }, \
	{ .noun = "hold", .verb = "list", .help = "List what is held", .args = hold_list_args, .columns = hold_list_cols, \
	  .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL, .check = adm_hold_list_check, .body = adm_hold_list_body }, \
	{ .noun = "hold", .verb = "release", .help = "Let go what is held", \
	  .detail = "Needs a second administrator: see approval list.", .args = hold_release_args, \
	  .done = "hold %{id} of %{tenant} released", .destructive = true, .role = ADM_OWNER, .second = ADM_SECOND_ASKED, \
	  .where = ADM_ON_WRITER, .check = adm_hold_release_check, .body = adm_hold_release_body }

#define APPROVAL_ROWS \
	{ .noun = "approval", .verb = "list", .help = "List what waits for a second administrator", \
	  .detail = "A destructive act needs two: the first runs the command, which files a request; another grants it within " \
		    "24 hours; then the same command, said again within 24 hours, is done.  Administrators are told apart by " \
		    "their user id.", \
	  .args = no_args, .columns = approval_list_cols, .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL, \
	  .body = adm_approval_list_body }, \
	{ .noun = "approval", .verb = "grant", .help = "Agree to what another administrator asked for", \
	  .detail = "What is agreed to is the command with all its arguments, once.  Nobody grants a request of their own.", \
	  .args = approval_args, .done = "request %{id} of %{asked_by} granted: %{command}", .role = ADM_OWNER, \
	  .where = ADM_ON_WRITER, .check = adm_approval_check, .body = adm_approval_grant_body }, \
	{ .noun = "approval", .verb = "deny", .help = "Take a request away, or withdraw it", .args = approval_args, \
	  .done = "request %{id} of %{asked_by} denied: %{command}", .role = ADM_OWNER, .where = ADM_ON_WRITER, \
	  .check = adm_approval_check, .body = adm_approval_deny_body }, \
	{ .noun = "approval", .verb = "policy", .help = "Say how many administrators a destructive act needs", \
	  .detail = "Two, unless this says one, for a crib that has a single administrator.  Going down to one works only while " \
		    "no server runs, as the user of the store.  Both ways are recorded, and so is each act that had no second.", \
	  .args = approval_policy_args, .done = "%{said} enough for a destructive act", .role = ADM_OWNER, \
	  .where = ADM_ON_WRITER, .check = adm_approval_policy_check, .body = adm_approval_policy_body }

#endif
