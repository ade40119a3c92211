/* audit keys, checkpoint, adopt: the commands about the signatures of the logs.  The first two print what an
 * outsider needs to verify; adopt is a person's decision that records which no server has written are accepted.
 * The first two run on a thread of the pool, adopt on the loop. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/checkpoint.h"
#include "base/text.h"
#include "command/rows.h"
#include "db/db.h"
#include "notary/notary.h"
#include "review/review.h"
#include "toolset/toolset.h"

#include "keeping_int.h"

static void put_content(struct command_call *c, const struct str *text)
{
	json_t *content = json_pack("[{s:s, s:s}]", "type", "text", "text", str_text(text));

	reply_row_begin(c->out);
	reply_json(c->out, "content", content);
	reply_row_end(c->out);
	json_decref(content);
}

static int audit_keys_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct str text = STR_INIT;
	int rc = audit_keys_print(db, arg_flag(c, "all"), &text, err);

	(void)logs;
	if (rc == 0)
		put_content(c, &text);
	str_fini(&text);
	return rc;
}

static void signed_now(void *arg, int rc, const struct err *err)
{
	command_gathered(arg, rc < 0 ? err : NULL);
}

/* What was written until now is signed before the checkpoint is shown. */
static void audit_checkpoint_gather(struct command_call *c)
{
	if (command_env(c)->notary)
		notary_now(command_env(c)->notary, signed_now, c);
	else
		command_gathered(c, NULL);
}

static int audit_checkpoint_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct str note = STR_INIT;
	int rc = audit_note_newest(db, &note, err);

	(void)logs;
	if (rc == 0)
		rc = err_set(err, ERR_NOT_FOUND, "", "nothing has been signed yet");
	if (rc == 1)
		put_content(c, &note);
	str_fini(&note);
	return rc < 0 ? rc : 0;
}

/* The start that this command made has taken the tails over, or has been refused; a server that runs did without. */
static int audit_adopt_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	(void)db;
	(void)logs;
	if (!c->who.embedded)
		return err_set(err, ERR_CONFLICT, "", "the server runs: there is nothing that would have to be taken over");
	reply_row_begin(c->out);
	reply_row_end(c->out);
	return 0;
}

/* --- rows of the command table */

static const struct command_arg audit_keys_args[] = {
	FLAG("all", "Of every epoch, not of the first one alone."), ARG_END };
static const struct command_arg audit_adopt_args[] = {
	WORDS("tail", "LOG:FROM-TO", COMPLETE_NONE, "The records, as the refusal names them; or keys.db."),
	OPT("reason", "TEXT", ARG_TEXT, COMPLETE_NONE, "Why, for whoever reads the record of this command."),
	OPT("ticket", "TEXT", ARG_TEXT, COMPLETE_NONE, "Where it was agreed on."), ARG_END };

const struct command sign_commands[] = {
	{ .noun = "audit", .verb = "keys", .help = "Print the keys that a reviewer pins",
	  .detail = "The key of the logs and that of the first epoch, one in each line, as toolcrib-verify --key takes "
		    "them.  Keep them where nobody who may write the store can change them.",
	  .args = audit_keys_args, .shape = ADM_CONTENT, .role = ADM_ANY, .console = true, .where = ADM_ON_POOL,
	   .body = audit_keys_body },
	{ .noun = "audit", .verb = "checkpoint", .help = "Sign what was written until now, and print the checkpoint",
	  .detail = "The signed note of the system log, which covers all logs.  Kept elsewhere it is what a later "
		    "toolcrib-verify --anchor compares the store with.",
	  .args = no_args, .shape = ADM_CONTENT, .role = ADM_READ, .where = ADM_ON_POOL,
	  .gather = audit_checkpoint_gather, .body = audit_checkpoint_body },
	{ .noun = "audit", .verb = "adopt", .help = "Take over records that no checkpoint covers",
	  .detail = "A start is refused when records were added while no server could have written them, because whoever "
		    "can write the file could have.  Look at them with toolcrib-verify first.  Adopted records are listed "
		    "in the record of the start.  With keys.db as the name a start goes on without payload keys that are lost "
		    "for good, which that record says as well.  With lost: before a log's name, or lost:all, a start goes on without "
		    "records that the signer has signed and the store, put back from a backup, does not have: the signer closes the "
		    "log's name and begins the next, a record store.restore says what is lost, and every verification "
		    "names it as a gap from then on.  No second administrator is asked: a store that refuses to start can "
		    "neither file a request nor know who grants it.",
	  .args = audit_adopt_args, .done = "the records are taken over", .role = ADM_OWNER, .where = ADM_ON_LOOP,
	  .record = AUDIT_ADMIN_CMD, .body = audit_adopt_body },
	{ .noun = NULL },
};
