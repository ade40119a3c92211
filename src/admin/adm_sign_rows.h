#ifndef ADM_SIGN_ROWS_H
#define ADM_SIGN_ROWS_H

/* Commands about signed checkpoints.  A part of admin_table.c. */

static const struct adm_arg audit_keys_args[] = { FLAG("all", "Of every epoch, not of the first one alone."), END };
static const struct adm_arg audit_adopt_args[] = {
	WORDS("tail", "LOG:FROM-TO", COMPLETE_NONE, "The records, as the refusal names them."), END };

static const struct adm_arg audit_drill_args[] = {
	NEED("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "Whose log is tampered with, in the copy."), END };
static const struct adm_column drill_cols[] = {
	COL("tampering", "KIND"), COL("what", "WHAT"), COL("found", "FOUND"), COL_END };

#define SIGN_ROWS \
	{ .noun = "audit", .verb = "drill", .help = "Show that tampering is noticed", \
	  .detail = "Makes a copy of the store beside it, changes the copy in known ways, one after the other, verifies it each time and " \
		    "says by which findings it was noticed; then the copy is removed.  Nothing is done to the store itself.  The exit " \
		    "status is 4 when a change was not noticed, or when the store is damaged as it is.", \
	  .args = audit_drill_args, .columns = drill_cols, .shape = ADM_FINDINGS, .role = ADM_AUDIT, .where = ADM_ON_POOL, \
	  .record = AUDIT_AUDIT_VERIFY, .check = adm_audit_drill_check, .body = adm_audit_drill_body }, \
	{ .noun = "audit", .verb = "keys", .help = "Print the keys that a reviewer pins", \
	  .detail = "The key of the logs and that of the first epoch, one in each line, as toolcrib-verify --key takes them.  Keep " \
		    "them where nobody who may write the store can change them.", \
	  .args = audit_keys_args, .shape = ADM_CONTENT, .role = ADM_READ, .where = ADM_ON_POOL, \
	  .check = adm_audit_keys_check, .body = adm_audit_keys_body }, \
	{ .noun = "audit", .verb = "checkpoint", .help = "Sign what was written until now, and print the checkpoint", \
	  .detail = "The signed note of the system log, which covers all logs.  Kept elsewhere it is what a later toolcrib-verify " \
		    "--anchor compares the store with.", \
	  .args = no_args, .shape = ADM_CONTENT, .role = ADM_READ, .where = ADM_ON_POOL, \
	  .gather = adm_audit_checkpoint_gather, .body = adm_audit_checkpoint_body }, \
	{ .noun = "audit", .verb = "adopt", .help = "Take over records that no checkpoint covers", \
	  .detail = "A start is refused when records were added while no server could have written them, because whoever can write " \
		    "the file could have.  Look at them with toolcrib-verify first.  Adopted records are listed in the record of the start.  " \
		    "No second administrator is asked: a store that refuses to start can neither file a request nor know who grants it.", \
	  .args = audit_adopt_args, .done = "the records are taken over", .role = ADM_OWNER, .where = ADM_ON_LOOP, \
	  .record = AUDIT_ADMIN_CMD, .body = adm_audit_adopt_body }

#endif
