/* Copies of records carried outside: begin, end, their share of the machine, commands on them.  Loop thread. */
#include "config.h"

#include <string.h>

#include "audit/audit.h"
#include "base/text.h"
#include "call/call.h"
#include "command/call.h"
#include "command/rows.h"
#include "limit/limit.h"
#include "notary/notary.h"
#include "sink/sink.h"

#include "app_int.h"

#define SHARE_BUSY 25                   /* percent of one processor, while calls run (OP-307) */

/* OP-001, OP-307: calls go first. */
static unsigned share(void *app)
{
	const struct app *a = app;

	switch (a->pressure.step) {
	case LIMIT_CALM:
		return call_engine_running(a->calls) > 0 ? SHARE_BUSY : 100;
	case LIMIT_NEARLY_FULL:
		return SHARE_BUSY / 2;
	default:
		return 0;
	}
}

static void anchored(void *arg, uint64_t size, const struct str *note, const char *receipt)
{
	struct app *a = arg;

	notary_object(a->notary, &(struct notary_object){ size, note->p, note->len, receipt });
}

int app_sinks_start(struct app *a, struct err *err)
{
	return sinks_open(&(struct sinks_env){ .loop = a->loop, .writer = a->writer, .fetcher = a->fetcher,
					       .conf = a->opt.conf, .store = a->store,
					       .share = share, .anchored = anchored, .arg = a }, &a->sinks, err);
}

void app_sinks_stop(struct app *a)
{
	sinks_close(&a->sinks);
}

/* --- commands */

static int find_sinks(struct command_call *c, struct sinks **ret, struct err *err)
{
	const struct app *a = command_env(c)->arg;

	*ret = a->sinks;
	if (*ret)
		return 0;
	(void)err_set(err, ERR_INVALID, "", "no server runs on this store, so nothing is carried anywhere");
	err_hint(err, "toolcribd carries copies to the sinks of its configuration: see toolcribd.yaml(5)");
	return ERR_INVALID;
}

static void put_row(void *arg, const struct sink_view *v)
{
	struct reply *o = arg;

	reply_row_begin(o);
	reply_text(o, "name", v->name);
	reply_text(o, "type", v->type);
	reply_text(o, "state", sink_state_name(v->state));
	reply_int(o, "behind", (int64_t)v->behind);
	reply_int(o, "behind_s", (int64_t)v->behind_s);
	reply_int(o, "required_s", (int64_t)v->required_s);
	reply_int(o, "retry_s", (int64_t)v->retry_s);
	reply_int(o, "sent", (int64_t)v->sent);
	reply_int(o, "pruned", (int64_t)v->pruned);
	reply_int(o, "cut", (int64_t)v->cut);
	reply_int(o, "refused", (int64_t)v->refused);
	reply_int(o, "rejected", (int64_t)v->rejected);
	reply_int(o, "batches", (int64_t)v->batches);
	reply_int(o, "failures", (int64_t)v->failures);
	reply_text(o, "names", v->clear ? "clear" : "pseudonym");
	reply_text(o, "why", *v->why ? v->why : NULL);
	reply_row_end(o);
}

static int list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct sinks *s;
	int rc = find_sinks(c, &s, err);

	(void)db;
	(void)logs;
	if (rc == 0)
		sinks_each(s, put_row, c->out);
	return rc;
}

static void put_name(struct command_call *c)
{
	reply_row_begin(c->out);
	reply_text(c->out, "name", arg_text(c, "name"));
	reply_row_end(c->out);
}

static int pause_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct sinks *s;
	int rc = find_sinks(c, &s, err);

	(void)db;
	(void)logs;
	if (rc == 0)
		rc = sinks_pause(s, arg_text(c, "name"), strcmp(command_verb(c), "pause") == 0, err);
	if (rc == 0)
		put_name(c);
	return rc;
}

static void put_rejected(void *arg, const struct sink_rejected *r)
{
	struct reply *o = arg;

	reply_row_begin(o);
	reply_text(o, "log", r->log);
	reply_int(o, "from", r->from);
	reply_int(o, "to", r->to - 1);
	reply_int(o, "records", r->records);
	reply_time(o, "time", r->at_us);
	reply_text(o, "why", r->why);
	reply_row_end(o);
}

static int rejected_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct sinks *s;
	int rc = find_sinks(c, &s, err);

	(void)db;
	(void)logs;
	return rc ? rc : sinks_rejected(s, arg_text(c, "name"), put_rejected, c->out, err);
}

static int settle_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct sinks *s;
	size_t n = 0;
	int rc = find_sinks(c, &s, err);

	(void)db;
	(void)logs;
	rc = rc ? rc : sinks_settle(s, arg_text(c, "name"), &n, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_text(c->out, "name", arg_text(c, "name"));
	reply_int(c->out, "settled", (int64_t)n);
	reply_row_end(c->out);
	return 0;
}

static int seek_check(struct command_call *c, struct err *err)
{
	if (arg_given(c, "index") && !arg_given(c, "log"))
		return err_set(err, ERR_INVALID, "index", "a position is one of a log: name it with --log");
	if (arg_given(c, "index") + arg_flag(c, "begin") + arg_flag(c, "end") != 1)
		return err_set(err, ERR_INVALID, "", "say where it goes on: --begin, --end, or --log ORIGIN --index N");
	return 0;
}

static int seek_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const int64_t to = arg_flag(c, "begin") ? 0 : arg_flag(c, "end") ? -1 : (int64_t)arg_uint(c, "index", 0);
	struct sinks *s;
	int rc = find_sinks(c, &s, err);

	(void)db;
	(void)logs;
	if (rc == 0)
		rc = sinks_seek(s, arg_text(c, "name"), arg_text(c, "log"), to, err);
	if (rc == 0)
		put_name(c);
	return rc;
}

static const struct command_arg name_args[] = {
	WORD("name", "NAME", COMPLETE_NONE, "Name of the sink, as the configuration has it."), ARG_END };
static const struct command_arg seek_args[] = {
	WORD("name", "NAME", COMPLETE_NONE, "Name of the sink, as the configuration has it."),
	FLAG("begin", "From the first records that there are."),
	FLAG("end", "From the next records on; those between are not sent to it."),
	OPT("log", "ORIGIN", ARG_TEXT, COMPLETE_NONE, "Of this log alone, as records name it."),
	OPT("index", "N", ARG_UINT, COMPLETE_NONE, "From this record of that log on."), ARG_END };
static const struct command_column list_cols[] = {
	COL("name", "NAME"), COL("type", "TYPE"), COL("state", "STATE"), COL("behind", "BEHIND"), COL("behind_s", "FOR S"),
	COL("retry_s", "RETRY S"), COL("sent", "SENT"), COL("refused", "REFUSED"), COL("rejected", "TO SETTLE"),
	COL("failures", "FAILURES"),
	COL("names", "NAMES"), COL("why", "WHY"), COL_END };

static const struct command_column rejected_cols[] = {
	COL("log", "LOG"), COL("from", "FROM"), COL("to", "TO"), COL("records", "RECORDS"), COL("time", "TIME"),
	COL("why", "WHY"), COL_END };

const struct command sink_commands[] = {
	{ .noun = "sink", .verb = "list", .help = "List where copies of records are carried, and how far each is",
	  .detail = "What waits is counted in records, and FOR S says how old the oldest of them may be; what was "
		    "sent and what failed, since the server started.  State: up; retries, it did not take the last batch, WHY "
		    "says the reason, and it is sent again after RETRY seconds; refused, likewise, and a person has to mend "
		    "something; paused; stopped, it waits for sink seek.  TO SETTLE: see sink rejected.",
	  .args = no_args, .columns = list_cols, .shape = ADM_TABLE, .role = ADM_READ, .console = true,
	  .where = ADM_ON_LOOP, .body = list_body },
	{ .noun = "sink", .verb = "pause", .help = "Send nothing to a sink",
	  .detail = "Until sink resume, or the next start of the server.  What waits for it stays where it is.",
	  .args = name_args, .done = "sink %{name} paused", .role = ADM_OPERATE, .where = ADM_ON_LOOP,
	  .record = AUDIT_ADMIN_CMD, .body = pause_body },
	{ .noun = "sink", .verb = "resume", .help = "Go on sending to a sink, and try again at once", .args = name_args,
	  .done = "sink %{name} resumed", .role = ADM_OPERATE, .where = ADM_ON_LOOP, .record = AUDIT_ADMIN_CMD,
	  .body = pause_body },
	{ .noun = "sink", .verb = "seek", .help = "Say from where on a sink gets records",
	  .detail = "Backwards it gets records again, which have the member id that they had; forwards it never gets those "
		    "between.  A sink that is stopped, since the store was put back behind what was sent of it, goes on.",
	  .args = seek_args, .done = "sink %{name} moved", .role = ADM_OPERATE, .where = ADM_ON_LOOP,
	  .record = AUDIT_ADMIN_CMD, .check = seek_check, .body = seek_body },
	{ .noun = "sink", .verb = "rejected", .help = "List what a sink did not want, and nobody has settled",
	  .detail = "RECORDS of those at the positions FROM to TO of LOG; how many a collector has refused of them is all "
		    "that some say.  They stay in the store: mend the receiver, and sink seek sends them again, or sink settle.  "
		    "Of at most 1000 rows; then the sink gets nothing until they are settled.",
	  .args = name_args, .columns = rejected_cols, .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_LOOP,
	  .body = rejected_body },
	{ .noun = "sink", .verb = "settle", .help = "Say that what a sink did not want has been looked at", .args = name_args,
	  .detail = "The list of sink rejected is empty then, its alert is over, and the sink is tried again at once.",
	  .done = "sink %{name} settled: %{settled}", .role = ADM_OPERATE, .where = ADM_ON_LOOP, .record = AUDIT_ADMIN_CMD,
	  .body = settle_body },
	{ .noun = NULL },
};
