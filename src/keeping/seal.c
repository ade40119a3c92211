/* audit seal: months that have ended become sealed files, now (writer/seal.h).  Loop thread. */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"
#include "command/rows.h"
#include "review/review.h"
#include "toolset/toolset.h"
#include "writer/seal.h"

#include "keeping_int.h"

enum { MONTH_TEXT = 7 };                /* "2026-11" */

struct seal_ask { char tenant[80]; uint64_t until_us; };

/* When a month begins; 0: it is none. */
static uint64_t begin_of(const char *text)
{
	int64_t year = 0, month = 0;
	struct tm tm = { .tm_mday = 1 };

	if (strlen(text) != MONTH_TEXT || text[4] != '-')
		return 0;
	if (text_i64(text, 4, &year) < 0 || text_i64(text + 5, 2, &month) < 0 || year < 1970 || month < 1 || month > 12)
		return 0;
	tm.tm_year = (int)year - 1900;
	tm.tm_mon = (int)month - 1;
	return (uint64_t)timegm(&tm) * 1000000;
}

static int seal_check(struct command_call *c, struct err *err)
{
	struct seal_ask *ask = command_priv(c, sizeof(*ask));
	const char *before = arg_text(c, "before");

	arg_copy(c, "tenant", ask->tenant, sizeof(ask->tenant));
	ask->until_us = before ? begin_of(before) : clock_wall_us();
	if (before && ask->until_us == 0)
		return err_set(err, ERR_INVALID, "before", "before: \"%.40s\" is no month such as 2026-11", before);
	if (ask->until_us > clock_wall_us())
		return err_set(err, ERR_INVALID, "before", "before: %s has not begun yet, and the month before it has not ended",
			       before);
	return 0;
}

static void was_sealed(void *arg, int rc, const struct writer_sealed *sealed, const struct err *err)
{
	struct command_call *c = arg;

	if (rc == 0) {
		reply_row_begin(c->out);
		reply_int(c->out, "files", sealed->files);
		reply_int(c->out, "records", sealed->records);
		reply_int(c->out, "bytes", sealed->bytes);
		reply_row_end(c->out);
	}
	command_finish(c, rc < 0 ? err : NULL);
}

static int seal_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct seal_ask *ask = c->priv;

	(void)db;
	(void)logs;
	c->later = true;
	return writer_seal_now(command_env(c)->writer, *ask->tenant ? ask->tenant : NULL, ask->until_us, was_sealed, c, err);
}

/* --- rows of the command table */

static const struct command_arg seal_args[] = {
	OPT("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "The log of this tenant; default: every log."),
	OPT("before", "YYYY-MM", ARG_TEXT, COMPLETE_NONE, "Months before this one; default: all that have ended."), ARG_END };

const struct command seal_commands[] = {
	{ .noun = "audit", .verb = "seal", .help = "Put months that have ended into sealed files",
	  .detail = "Records of a log that are in blocks become a file for each month, which toolcrib-verify checks without "
		    "the store; reports read it as before.  A file ends with a whole tile of 256 records that a checkpoint "
		    "covers, and where rows begin that stay for sqlite3 (audit.plain_rows).  Unless audit.seal is off the server "
		    "does it by itself.",
	  .args = seal_args, .done = "%{files} files sealed, with %{records} records",
	  .role = ADM_OWNER, .where = ADM_ON_LOOP, .record = AUDIT_ADMIN_CMD, .check = seal_check,
	  .body = seal_body },
	{ .noun = NULL },
};
