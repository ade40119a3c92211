/* audit review sign: the command by which a person says that the audit was read up to a record (AUDIT 12, A-Q31).
 * The signature is a record in the log that was read.  check() runs on the loop, body() on the writer's thread. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "command/rows.h"

#include "review_int.h"

#define NOTE_MAX 400

static void free_ask(void *priv)
{
	report_ask_fini(priv);
	free(priv);
}

static int review_check(struct command_call *c, struct err *err)
{
	struct report_ask *ask = command_priv(c, sizeof(*ask));
	const char *action = arg_text(c, "action"), *note = arg_text(c, "note");

	c->free_priv = free_ask;
	if (strcmp(action, "sign") != 0)
		return err_set(err, ERR_INVALID, "action", "audit review: say sign; audit reviews lists what was signed");
	if (note && strlen(note) > NOTE_MAX)
		return err_set(err, ERR_LIMIT, "note", "note: longer than %d bytes", NOTE_MAX);
	ask->report = report_find("audit", "reviews");
	ask->way = ask->report->way;
	return report_ask_check(c, ask, err);
}

/* The newest record that the review covers. */
static int last_of(struct db *db, const struct report_ask *ask, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_HEAD_SPAN);
	int rc;

	db_bind_i64(st, 1, ask->log);
	db_bind_i64(st, 2, (int64_t)ask->since_us);
	db_bind_i64(st, 3, ask->until_us ? (int64_t)ask->until_us : (int64_t)clock_wall_us());
	rc = db_step(st, err);
	*ret = rc == 1 && db_col_type(st, 1) != DB_NULL ? db_col_i64(st, 1) + 1 : 0;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int review_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct report_ask *ask = c->priv;
	uint8_t range[16] = { 0 };
	const struct audit_field field = { AUDIT_TAG_RANGE, range, sizeof(range) };
	struct audit_receipt receipt = { 0, 0 };
	struct command_record rec = { .kind = AUDIT_AUDIT_REVIEW, .field = &field, .nfield = 1, .ret = &receipt };
	int64_t to = 0;
	int rc = report_ask_find(db, ask, err);

	if (ask->log == 0)
		ask->log = 1;
	if (rc == 0)
		rc = last_of(db, ask, &to, err);
	if (rc < 0)
		return rc;
	audit_put_be(range + 8, (uint64_t)to, 8);
	rec.tenant_id = ask->tenant_id;
	rc = command_record(c, db, logs, &rec, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_text(c->out, "log", *ask->tenant ? ask->tenant : "the system");
	reply_int(c->out, "to", to);
	reply_int(c->out, "index", receipt.idx);
	reply_row_end(c->out);
	return 0;
}

/* --- rows of the command table */

static const struct command_arg audit_review_args[] = {
	WORD("action", "sign", COMPLETE_NONE, "What to do: sign."),
	REPORT_TENANT_OR("The log of this tenant; default: the system's."),
	OPT("until", "TIME", ARG_TIME, COMPLETE_NONE, "What was read: up to this time; default: now."),
	OPT("note", "TEXT", ARG_TEXT, COMPLETE_NONE, "What came of it, or a reference."), ARG_END };

const struct command review_commands[] = {
	{ .noun = "audit", .verb = "review", .help = "Sign that the audit was reviewed", .args = audit_review_args,
	  .detail = "Writes a record of who looked and how far; audit reviews lists them.",
	  .done = "review of the log of %{log} up to record %{to} signed, as record %{index}", .role = ADM_OPERATE,
	  .where = ADM_ON_WRITER, .check = review_check, .body = review_body },
	{ .noun = NULL },
};
