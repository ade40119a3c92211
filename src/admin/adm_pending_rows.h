#ifndef ADM_PENDING_ROWS_H
#define ADM_PENDING_ROWS_H

/* Rows of the command table: new versions that wait for a second administrator.  For admin_table.c alone. */

#define PENDING_TOOL WORD("tool", "TOOL", COMPLETE_TOOL, "Its name; prompts and resources with prompt: or resource: in front.")
static const struct adm_arg approve_args[] = {
	PENDING_TOOL, NEED("version", "N", ARG_UINT, COMPLETE_NONE, "The version that was looked at, from tool pending."), END };
static const struct adm_arg reject_args[] = {
	PENDING_TOOL, OPT("version", "N", ARG_UINT, COMPLETE_NONE, "Only if it is this version that waits."), END };
static const struct adm_arg versions_policy_args[] = {
	WORD("policy", "required|free", COMPLETE_NONE, "Whether they wait, or are shown at once."), END };
static const struct adm_column pending_cols[] = {
	COL("name", "NAME"), COL("version", "VERSION"), COL("in_force", "IN FORCE"), COL("actor", "MADE BY"), COL_AT("since", "SINCE"),
	COL_END };
static const struct adm_column drift_cols[] = {
	COL("name", "NAME"), COL("state", "STATE"), COL("what", "WHAT"), COL("note", "NOTE"), COL_END };

#define PENDING_ROWS \
	{ .noun = "tool", .verb = "pending", .help = "List versions that wait for approval", \
	  .detail = "Where approval versions says so, a new version of a tool, prompt or resource is shown to nobody before another " \
		    "administrator than its author approves it; calls go on with the version in force.  tool diff shows what is " \
		    "new.", \
	  .args = no_args, .columns = pending_cols, .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL, \
	  .body = adm_tool_pending_body }, \
	{ .noun = "tool", .verb = "approve", .help = "Put a version that waits in force", \
	  .detail = "By another administrator than the one who made it.  Agents are told now.", .args = approve_args, \
	  .done = "version %{version} of %{name} is in force", .role = ADM_OWNER, .where = ADM_ON_WRITER, \
	  .check = adm_pending_check, .body = adm_tool_approve_body }, \
	{ .noun = "tool", .verb = "reject", .help = "Take a version that waits away", \
	  .detail = "The one in force stays; where there is none, the name is removed.  The version stays in the history.", \
	  .args = reject_args, .done = "version %{version} of %{name} rejected", .role = ADM_OWNER, .where = ADM_ON_WRITER, \
	  .check = adm_pending_check, .body = adm_tool_reject_body }, \
	{ .noun = "tool", .verb = "drift", .help = "List what is not as it was approved", \
	  .detail = "Versions that wait, and what of upstreams has changed, is gone, is new or was refused since it was accepted.  " \
		    "Exit status 4 when there is something to say.", \
	  .args = no_args, .columns = drift_cols, .shape = ADM_FINDINGS, .role = ADM_READ, .where = ADM_ON_POOL, \
	  .body = adm_tool_drift_body }

#define VERSIONS_POLICY_ROW \
	{ .noun = "approval", .verb = "versions", .help = "Say whether new versions of definitions wait for approval", \
	  .detail = "Of tools, prompts and resources, of upstreams too: see tool pending.  Where they have to be approved, an upstream that " \
		    "has tools here is not changed by one administrator either: see approval list.  Free at first.  Going back to " \
		    "free needs a second administrator; what waits then goes on waiting.", \
	  .args = versions_policy_args, .done = "new versions %{said}", .role = ADM_OWNER, .second = ADM_SECOND_ASKED, \
	  .where = ADM_ON_WRITER, .check = adm_versions_policy_check, .body = adm_versions_policy_body }

#endif
