/* audit proof: the command that prints a C2SP tlog-proof, by which an outsider checks that the record of a call
 * stands in its tenant's log.  check() runs on the loop, body() on a thread of the pool, with a reader of the
 * store.  The proof shows nothing of other records. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/text.h"
#include "bundle/prove.h"
#include "command/rows.h"
#include "db/db.h"
#include "review/review.h"
#include "tenant/tenant.h"
#include "toolset/toolset.h"

struct proof {
	bool begin;
	int64_t idx;                    /* of the record; -1 = not found */
};

static int note_record(void *arg, const struct audit_view *v)
{
	struct proof *proof = arg;

	if ((v->kind == AUDIT_CALL_BEGIN) == proof->begin)
		proof->idx = v->idx;
	return 0;
}

static int audit_proof_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct proof proof = { arg_flag(c, "begin"), -1 };
	struct str text = STR_INIT;
	struct tenant_row t;
	uint8_t call[16];
	uint64_t size = 0;
	int rc = arg_call(c, db, call, &t, err);

	(void)logs;
	if (rc == 0)
		rc = audit_query_call(db, t.id, call, note_record, &proof, err);
	if (rc >= 0 && proof.idx < 0)
		rc = err_set(err, ERR_NOT_FOUND, "", "call %s: has no %s", arg_text(c, "call"),
			     proof.begin ? "begin" : "end yet");
	if (rc >= 0)
		rc = audit_prove(db, t.id, proof.idx, &text, &size, err);
	if (rc == 0) {
		command_seen(c, t.id, proof.idx);
		reply_row_begin(c->out);
		reply_text(c->out, "proof", str_text(&text));
		reply_text(c->out, "tenant", t.name);
		reply_int(c->out, "index", proof.idx);
		reply_int(c->out, "size", (int64_t)size);
		reply_row_end(c->out);
	}
	str_fini(&text);
	return rc < 0 ? rc : 0;
}

/* --- rows of the command table */

static const struct command_arg audit_proof_args[] = {
	WORD("call", "CALL", COMPLETE_NONE, "Id of the call, as in audit calls."), TENANT_OPT,
	FLAG("begin", "The record of its begin, not of its end."), ARG_END };
static const struct command_column audit_proof_cols[] = { COL("proof", "Proof"), COL_END };

const struct command proof_commands[] = {
	{ .noun = "audit", .verb = "proof", .help = "Prove to an outsider that a call is in its tenant's log",
	  .detail = "Prints a C2SP tlog-proof: the bytes of the record, its place, the hashes that lead from it to the root "
		    "of the log's newest signed checkpoint, and that checkpoint.  Whoever has the log's public key checks "
		    "it without the store: with contrib/verify/verify.py, or any tool that knows transparency logs.  It "
		    "shows nothing of other records.",
	  .args = audit_proof_args, .columns = audit_proof_cols, .done = "record %{index} of %{tenant}, in a log of %{size}",
	  .shape = ADM_TEXT, .role = ADM_READ, .where = ADM_ON_POOL, .record = AUDIT_AUDIT_EXPORT,
	  .check = arg_call_check, .body = audit_proof_body },
	{ .noun = NULL },
};
