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

static const struct adm_arg retention_set_args[] = {
	TENANT_WORD, OPT("min-days", "N", ARG_UINT, COMPLETE_NONE, "Keep records at least so long; 0 promises nothing."),
	OPT("max-days", "N", ARG_UINT, COMPLETE_NONE, "Prune takes those that are older."),
	FLAG("no-max", "Prune takes none by itself."), END };
static const struct adm_arg retention_show_args[] = {
	TENANT_MAYBE, FLAG("history", "What the log says of changes and prunes."), END };
static const struct adm_arg retention_prune_args[] = {
	TENANT_WORD, OPT("bundle", "FILE", ARG_PATH, COMPLETE_FILE, "Where the records are written first; a new file."),
	OPT("before", "TIME", ARG_TIME, COMPLETE_NONE, "Records before this time; default: those older than --max-days says."),
	FLAG("dry-run", "Say what would go and change nothing."), END };
static const struct adm_column retention_show_cols[] = {
	COL("tenant", "TENANT"), COL("min_days", "MIN DAYS"), COL("max_days", "MAX DAYS"), COL("records", "RECORDS"),
	COL_AT("since", "SINCE"), COL("pruned", "PRUNED"), COL_AT("time", "CHANGED"), COL("kind", "WHAT"), COL("from", "FROM"),
	COL("to", "TO"), COL("approver", "APPROVER"), COL("detail", "DETAIL"), COL_END };

#define RETENTION_ROWS \
	{ .noun = "retention", .verb = "set", .help = "Say how long the records of a tenant are kept", \
	  .detail = "Without a period nothing is ever pruned.  A longer one holds for records that are there already; a shorter one " \
		    "for those to come alone, and needs a second administrator.", \
	  .args = retention_set_args, .done = "records of %{tenant} are kept %{min_days} days at least", .role = ADM_OWNER, \
	  .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER, .check = adm_retention_set_check, .body = adm_retention_set_body }, \
	{ .noun = "retention", .verb = "show", .help = "Show how long records are kept, and what is gone", \
	  .args = retention_show_args, .columns = retention_show_cols, .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL, \
	  .check = adm_retention_show_check, .body = adm_retention_show_body }, \
	{ .noun = "retention", .verb = "prune", .help = "Remove old records, once they are in a bundle", \
	  .detail = "Whole tiles of 256 records go, from the front of the log.  First they are written to a file that " \
		    "toolcrib-verify --bundle checks without the store; then a record says what goes; then they go, 64 at a time " \
		    "while calls are served, and the next start goes on with what was interrupted.  Refused are records that are " \
		    "held, that were promised to be kept longer, or that no checkpoint covers.  Needs a second administrator: what " \
		    "the first run wrote is used by the second.  Payloads are not in the bundle.", \
	  .args = retention_prune_args, .done = "records %{from} to %{to} of %{tenant} %{said}", .destructive = true, \
	  .role = ADM_OWNER, .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER, .check = adm_prune_check, \
	  .gather = adm_prune_gather, .body = adm_prune_body, .after = adm_course_after }, \
	{ .noun = "retention", .verb = "compact", .help = "Remove texts and names that no record uses any more", \
	  .detail = "What pruned records have left in the dictionary.  Reads all records, so it works only while no server runs.", \
	  .args = no_args, .done = "%{texts} texts and %{names} names removed", .role = ADM_OWNER, .where = ADM_ON_WRITER, \
	  .check = adm_retention_compact_check, .body = adm_retention_compact_body }

static const struct adm_arg erase_args[] = {
	OPT("call", "ID", ARG_TEXT, COMPLETE_NONE, "What is kept of this call."),
	OPT("principal", "TENANT/NAME", ARG_TEXT, COMPLETE_PRINCIPAL, "What is kept of this principal."),
	OPT("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "All that is kept of this tenant."),
	NEED("ground", "TEXT", ARG_TEXT, COMPLETE_NONE, "Why; it stays in the record for ever: no names of persons."),
	TICKET_NEED, FLAG("dry-run", "Say how much would go and change nothing."), END };

#define ERASE_ROW \
	{ .noun = "erase", .help = "Destroy the arguments, results and names that are kept beside records", \
	  .detail = "Of one call, of a principal with the keys that encrypt it, or of a tenant.  The records stay and verify; that, by " \
		    "whom and on which ground something was erased is a record of its own.  Refused for what is held.  Needs a second " \
		    "administrator.  Backups of keys.db that were made before can still open a principal's or a tenant's: they must " \
		    "not outlive the time in which you promise to erase.", \
	  .args = erase_args, .done = "%{records} records: what was kept of them %{said}", .destructive = true, .role = ADM_OWNER, \
	  .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER, .check = adm_erase_check, \
	  .gather = adm_erase_gather, .body = adm_erase_body, .after = adm_course_after }

static const struct adm_arg audit_bundle_args[] = {
	TENANT_WORD, { "file", "FILE", ARG_PATH, false, true, false, COMPLETE_FILE, "The bundle, a new file, which this program writes." },
	OPT("from", "INDEX", ARG_TEXT, COMPLETE_NONE, "Records from this index on."),
	OPT("to", "INDEX", ARG_TEXT, COMPLETE_NONE, "The last of them."),
	OPT("since", "TIME", ARG_TIME, COMPLETE_NONE, "Records from this time on."),
	OPT("until", "TIME", ARG_TIME, COMPLETE_NONE, "Records before this time."), END };

#define BUNDLE_ROW \
	{ .noun = "audit", .verb = "bundle", .help = "Write records to a file that verifies without the store", \
	  .detail = "A tar with each record's bytes and a readable view of them, the hashes that lead to the signed checkpoints, and " \
		    "these.  toolcrib-verify --bundle checks it anywhere.  Payloads are not in it.  The file belongs to who runs " \
		    "this, here; a server writes none where a reader says.", \
	  .args = audit_bundle_args, .done = "records %{from} to %{to} of %{tenant} are in %{bundle}", .shape = ADM_FILE, \
	  .stream = true, .role = ADM_READ, .where = ADM_ON_POOL, .record = AUDIT_AUDIT_EXPORT, .check = adm_audit_bundle_check, .body = adm_audit_bundle_body }

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
	  .detail = "A destructive act needs two, as does one by which less is recorded: the first runs the command, which files a " \
		    "request; another grants it within 24 hours; then the same command, said again within 24 hours, is done.  " \
		    "Where files say what is done, the request names what of them needs a second one.  Administrators are told " \
		    "apart by their user id, or by the name of their key.", \
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
