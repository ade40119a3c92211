/* alerts list, show, ack, silence, rules, ways, test: the commands.  What they change is on record in the log of the
 * tenant that an alert is about, or in the system's; the server's own picture follows behind the commit. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "command/call.h"
#include "command/rows.h"
#include "db/db.h"
#include "json/reply.h"
#include "tenant/tenant_rows.h"

#include "alert_int.h"

#define LIST_MAX 1000
#define NAME_SIZE 64

static const char *or_null(const char *text)
{
	return text && *text ? text : NULL;
}

/* Binds the tenant that --tenant names, or none. */
static int bind_tenant(const struct command_call *c, struct db *db, struct db_stmt *st, unsigned pos, struct err *err)
{
	const char *tenant = or_null(arg_text(c, "tenant"));
	struct tenant_row t = { 0 };
	int rc = tenant ? tenant_row_find(db, tenant, &t, err) : 0;

	if (tenant)
		db_bind_i64(st, pos, t.id);
	else
		db_bind_null(st, pos);
	return rc;
}

static int not_found(uint32_t id, struct err *err)
{
	(void)err_set(err, ERR_NOT_FOUND, "", "alert %u: not found", id);
	err_hint(err, "toolcrib alerts --all");
	return ERR_NOT_FOUND;
}

/* --- list, show */

static void put_alert(struct reply *o, struct db_stmt *st)
{
	static const char *const states[] = { [ALERT_OPEN] = "open", [ALERT_ACKNOWLEDGED] = "acknowledged",
					      [ALERT_OVER] = "over" };
	const int64_t severity = db_col_i64(st, 4), state = db_col_i64(st, 5);

	reply_row_begin(o);
	reply_int(o, "id", db_col_i64(st, 0));
	reply_text(o, "severity", severity >= 0 && severity < ALERT_SEVERITIES ?
		   alert_severity_name((enum alert_severity)severity) : NULL);
	reply_text(o, "rule", db_col_text(st, 1, NULL));
	reply_text(o, "subject", db_col_text(st, 2, NULL));
	reply_text(o, "tenant", or_null(db_col_text(st, 3, NULL)));
	reply_text(o, "state", state >= 0 && state < (int64_t)NELEMS(states) ? states[state] : NULL);
	reply_time(o, "first", (uint64_t)db_col_i64(st, 6));
	reply_time(o, "last", (uint64_t)db_col_i64(st, 7));
	reply_int(o, "count", db_col_i64(st, 8));
	reply_text(o, "text", db_col_text(st, 9, NULL));
	reply_int(o, "value", db_col_i64(st, 10));
	reply_int(o, "usual", db_col_i64(st, 11));
	reply_time(o, "over", (uint64_t)db_col_i64(st, 12));
	reply_time(o, "acknowledged", (uint64_t)db_col_i64(st, 13));
	reply_text(o, "acknowledged_by", or_null(db_col_text(st, 14, NULL)));
	reply_text(o, "note", or_null(db_col_text(st, 15, NULL)));
	reply_row_end(o);
}

/* id 0: all. */
static int put_alerts(struct command_call *c, struct db *db, uint32_t id, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ALERT_LIST);
	int rc = bind_tenant(c, db, st, 1, err);

	db_bind_i64(st, 2, id > 0 || arg_flag(c, "all"));
	if (id > 0)
		db_bind_i64(st, 3, id);
	else
		db_bind_null(st, 3);
	db_bind_i64(st, 4, id > 0 ? 1 : arg_uint(c, "limit", LIST_MAX));
	while (rc == 0 && (rc = db_step(st, err)) == 1) {
		put_alert(c->out, st);
		rc = 0;
	}
	db_stmt_put(&st);
	return rc;
}

static int list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	(void)logs;
	return put_alerts(c, db, 0, err);
}

static int show_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const uint32_t id = arg_uint(c, "id", 0);
	int rc = id > 0 ? put_alerts(c, db, id, err) : 0;

	(void)logs;
	return rc == 0 && c->out->rows == 0 ? not_found(id, err) : rc;
}

/* A server that does not keep the store does not have its alerts, and who has them would not hear of it. */
static int who_has_them(const struct command_call *c, struct err *err)
{
	const struct alerts *a = command_env(c)->alerts;

	if (!a || alerts_are_ours(a))
		return 0;
	(void)err_set(err, ERR_CONFLICT, "", "another node of this store has its alerts");
	err_hint(err, "give the command to the one that toolcrib node list calls the keeper");
	return ERR_CONFLICT;
}

/* --- ack */

struct acknowledging { int64_t id, tenant_id; char rule[NAME_SIZE], subject[ALERT_SUBJECT_SIZE]; };

static int ack_check(struct command_call *c, struct err *err)
{
	char note[REASON_SIZE];
	int rc = who_has_them(c, err);

	(void)command_priv(c, sizeof(struct acknowledging));
	return rc < 0 ? rc : arg_reason(c, "note", note, sizeof(note), err);
}

static int find_open(struct command_call *c, struct db *db, struct acknowledging *ret, struct err *err)
{
	const uint32_t id = arg_uint(c, "id", 0);
	struct db_stmt *st = db_stmt_get(db, SQL_ALERT_GET);
	int64_t state = ALERT_OVER;
	int rc;

	db_bind_i64(st, 1, id);
	rc = bind_tenant(c, db, st, 2, err);
	if (rc == 0)
		rc = db_step(st, err);
	if (rc == 1) {
		*ret = (struct acknowledging){ .id = id, .tenant_id = db_col_i64(st, 0) };
		db_col_copy(st, 1, ret->rule, sizeof(ret->rule));
		db_col_copy(st, 2, ret->subject, sizeof(ret->subject));
		state = db_col_i64(st, 3);
	}
	db_stmt_put(&st);
	if (rc == 0)
		return not_found(id, err);
	if (rc == 1 && state != ALERT_OPEN)
		return err_set(err, ERR_CONFLICT, "", "alert %u %s", id,
			       state == ALERT_OVER ? "is over" : "has been acknowledged");
	return rc < 0 ? rc : 0;
}

static int write_ack(struct command_call *c, struct db *db, const struct acknowledging *k, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ALERT_ACK);
	enum alert_rule rule;
	const bool known = alert_rule_find(k->rule, &rule) == 0;
	char by[ACTOR_SIZE];

	db_bind_i64(st, 1, k->id);
	db_bind_i64(st, 2, k->tenant_id);
	db_bind_i64(st, 3, known && !alert_rule_ends_by_ack(rule) ? ALERT_ACKNOWLEDGED : ALERT_OVER);
	db_bind_i64(st, 4, (int64_t)clock_wall_us());
	db_bind_textz(st, 5, actor_text(&c->who, by));
	db_bind_textz(st, 6, or_null(arg_text(c, "note")));
	return db_run(&st, err);
}

static int ack_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct acknowledging *k = c->priv;
	char obj[40];
	struct command_record r = { .kind = AUDIT_ALERT_ACK, .obj = obj, .reason = or_null(arg_text(c, "note")) };
	int rc = find_open(c, db, k, err);

	if (rc == 0)
		rc = write_ack(c, db, k, err);
	if (rc < 0)
		return rc;
	(void)snprintf(obj, sizeof(obj), "alert/%" PRId64, k->id);
	r.tenant_id = k->tenant_id;
	rc = command_record(c, db, logs, &r, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_int(c->out, "id", k->id);
	reply_text(c->out, "rule", k->rule);
	reply_text(c->out, "subject", k->subject);
	reply_row_end(c->out);
	return 0;
}

static void ack_after(struct command_call *c)
{
	const struct acknowledging *k = c->priv;

	if (command_env(c)->alerts)
		alerts_acknowledged(command_env(c)->alerts, k->id);
}

/* --- silence, rules */

struct silencing { enum alert_rule rule; uint64_t until_us; };

static int find_rule(const char *name, enum alert_rule *ret, struct err *err)
{
	const char *names[ALERT_RULES], *near;

	if (alert_rule_find(name, ret) == 0)
		return 0;
	for (int i = 0; i < ALERT_RULES; i++)
		names[i] = alert_rule_name((enum alert_rule)i);
	near = text_nearest(name, names, ALERT_RULES);
	(void)err_set(err, ERR_NOT_FOUND, "rule", "%.64s: there is no such rule", name);
	if (near)
		err_hint(err, "did you mean %s?", near);
	else
		err_hint(err, "toolcrib alerts rules");
	return ERR_NOT_FOUND;
}

static int silence_check(struct command_call *c, struct err *err)
{
	const uint64_t for_ms = arg_duration_ms(c, "for", 0);
	struct silencing *s = command_priv(c, sizeof(*s));
	char note[REASON_SIZE];
	int rc = find_rule(arg_text(c, "rule"), &s->rule, err);

	if (rc == 0)
		rc = who_has_them(c, err);
	if (rc == 0)
		rc = arg_reason(c, "note", note, sizeof(note), err);
	if (rc == 0 && for_ms > ALERT_SILENCE_MAX_MS)
		rc = err_set(err, ERR_INVALID, "for", "--for is at most 30d; silence it again when that is over");
	s->until_us = clock_wall_us() + for_ms * 1000;
	return rc;
}

static int silence_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct silencing *s = c->priv;
	const char *note = arg_text(c, "note");
	struct db_stmt *st = db_stmt_get(db, SQL_ALERT_SILENCE);
	char obj[NAME_SIZE + 16], by[ACTOR_SIZE];
	struct command_record r = { .kind = AUDIT_ALERT_SILENCE, .obj = obj, .reason = note };
	int rc;

	db_bind_textz(st, 1, alert_rule_name(s->rule));
	db_bind_i64(st, 2, (int64_t)s->until_us);
	db_bind_textz(st, 3, actor_text(&c->who, by));
	db_bind_textz(st, 4, note);
	rc = db_run(&st, err);
	(void)snprintf(obj, sizeof(obj), "alert-rule/%s", alert_rule_name(s->rule));
	if (rc == 0)
		rc = command_record(c, db, logs, &r, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_text(c->out, "rule", alert_rule_name(s->rule));
	reply_time(c->out, "until", s->until_us);
	reply_row_end(c->out);
	return 0;
}

static void silence_after(struct command_call *c)
{
	const struct silencing *s = c->priv;

	if (command_env(c)->alerts)
		alerts_silenced(command_env(c)->alerts, s->rule, s->until_us);
}

struct silence { uint64_t until_us; char *by, *note; };

static int load_silences(struct db *db, struct silence ret[ALERT_RULES], struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ALERT_SILENCES);
	enum alert_rule rule;
	int rc;

	while ((rc = db_step(st, err)) == 1)
		if (alert_rule_find(db_col_text(st, 0, NULL), &rule) == 0 && (uint64_t)db_col_i64(st, 1) > clock_wall_us() &&
		    !ret[rule].by)
			ret[rule] = (struct silence){ (uint64_t)db_col_i64(st, 1), db_col_dup(st, 2), db_col_dup(st, 3) };
	db_stmt_put(&st);
	return rc;
}

static int rules_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct silence silences[ALERT_RULES] = { { 0, NULL, NULL } };
	int rc = load_silences(db, silences, err);

	(void)logs;
	for (int i = 0; i < ALERT_RULES; i++) {
		const enum alert_rule rule = (enum alert_rule)i;
		struct silence *s = &silences[i];
		const char *from, *help = alert_rule_help(rule, &from);

		if (rc == 0) {
			reply_row_begin(c->out);
			reply_text(c->out, "rule", alert_rule_name(rule));
			reply_text(c->out, "severity", alert_severity_name(alert_rule_severity(rule)));
			reply_text(c->out, "from", from);
			reply_text(c->out, "ends", alert_rule_ends_by_ack(rule) ? "ack" : "itself");
			reply_time(c->out, "silent_until", s->until_us);
			reply_text(c->out, "silenced_by", s->by);
			reply_text(c->out, "note", s->note);
			reply_text(c->out, "help", help);
			reply_row_end(c->out);
		}
		free(s->by);
		free(s->note);
	}
	return rc;
}

/* --- ways */

static int no_server(const char *so, struct err *err)
{
	(void)err_set(err, ERR_INVALID, "", "%s: no server runs on this store", so);
	err_hint(err, "start toolcribd");
	return ERR_INVALID;
}

static void put_way(void *arg, const struct alert_way_view *v)
{
	struct reply *o = arg;

	reply_row_begin(o);
	reply_text(o, "name", v->name);
	reply_text(o, "type", v->type);
	reply_text(o, "severity", alert_severity_name(v->severity));
	reply_text(o, "state", *v->why ? "retries" : "up");
	reply_int(o, "waiting", v->waiting);
	reply_int(o, "retry_s", (int64_t)v->retry_s);
	reply_int(o, "sent", (int64_t)v->sent);
	reply_int(o, "failures", (int64_t)v->failures);
	reply_int(o, "dropped", (int64_t)v->dropped);
	reply_time(o, "last", v->told_us);
	reply_text(o, "why", or_null(v->why));
	reply_row_end(o);
}

static int ways_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct alerts *a = command_env(c)->alerts;

	(void)db;
	(void)logs;
	if (!a || who_has_them(c, err) < 0)
		return a ? ERR_CONFLICT : no_server("nobody is told of alerts", err);
	alert_ways_each(alerts_ways(a), put_way, c->out);
	return 0;
}

/* --- test */

static int test_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct alerts *a = command_env(c)->alerts;
	char by[ACTOR_SIZE], *text;

	(void)db;
	(void)logs;
	if (!a || who_has_them(c, err) < 0)
		return a ? ERR_CONFLICT : no_server("nothing would arrive", err);
	text = mem_printf("%s tries whether alerts arrive; nothing is wrong. Look: toolcrib alerts rules",
			  actor_text(&c->who, by));
	alerts_saw(a, &(struct alert_seen){ .rule = ALERT_test, .severity = ALERT_INFO, .subject = by, .text = text });
	alerts_end(a);
	free(text);
	reply_row_begin(c->out);
	reply_text(c->out, "subject", by);
	reply_row_end(c->out);
	return 0;
}

/* --- rows of the command table */

static const struct command_arg list_args[] = {
	TENANT_OPT, FLAG("all", "Those that are over as well."),
	OPT("limit", "N", ARG_UINT, COMPLETE_NONE, "At most so many; default 1000."), ARG_END };
#define ID_WORD { "id", "ID", ARG_UINT, false, true, false, COMPLETE_NONE, "Number of the alert, from alerts list." }
static const struct command_arg show_args[] = { ID_WORD, TENANT_OPT, ARG_END };
static const struct command_arg ack_args[] = {
	ID_WORD, OPT("note", "TEXT", ARG_TEXT, COMPLETE_NONE, "What was found; it stays in the record for ever."),
	TENANT_OPT, ARG_END };
static const struct command_arg silence_args[] = {
	WORD("rule", "RULE", COMPLETE_NONE, "Name of the rule, from alerts rules."),
	NEED("for", "TIME", ARG_DURATION, COMPLETE_NONE, "How long, at most 30d; 0s: no longer."),
	NEED("note", "TEXT", ARG_TEXT, COMPLETE_NONE, "Why; it stays in the record for ever."), ARG_END };
static const struct command_column list_cols[] = {
	COL("id", "ID"), COL("severity", "SEVERITY"), COL("rule", "RULE"), COL("subject", "SUBJECT"), COL("state", "STATE"),
	COL("count", "COUNT"), COL_AT("first", "FIRST"), COL_AT("last", "LAST"), COL("text", "TEXT"), COL_END };
static const struct command_column show_cols[] = {
	COL("id", "id"), COL("severity", "severity"), COL("rule", "rule"), COL("subject", "subject"), COL("tenant", "tenant"),
	COL("state", "state"), COL("text", "text"), COL("count", "count"), COL("value", "value"), COL("usual", "usual"),
	COL_AT("first", "first"), COL_AT("last", "last"), COL_AT("over", "over"), COL_AT("acknowledged", "acknowledged"),
	COL("acknowledged_by", "acknowledged by"), COL("note", "note"), COL_END };
static const struct command_column rules_cols[] = {
	COL("rule", "RULE"), COL("severity", "SEVERITY"), COL("from", "FROM"), COL("ends", "ENDS BY"),
	COL_AT("silent_until", "SILENT UNTIL"), COL("silenced_by", "SILENCED BY"), COL("help", "WHAT IT SAYS"), COL_END };

static const struct command_column ways_cols[] = {
	COL("name", "NAME"), COL("type", "TYPE"), COL("severity", "FROM"), COL("state", "STATE"),
	COL("waiting", "WAITING"), COL("retry_s", "RETRY"), COL("sent", "SENT"), COL("failures", "FAILURES"),
	COL("dropped", "DROPPED"), COL_AT("last", "LAST"), COL("why", "WHY"), COL_END };

const struct command alert_commands[] = {
	{ .noun = "alerts", .verb = "list", .help = "List what somebody should look at",
	  .detail = "Also without the word list.  An alert is one thing that goes on: the server looks each ten seconds at "
		    "what it counts and each hour at the store, COUNT says how often it saw it, brought up to date once a "
		    "minute.  Most are over by themselves; one that says what has happened stays until somebody acknowledges it.",
	  .alone = true, .args = list_args, .columns = list_cols, .shape = ADM_TABLE, .role = ADM_AUDIT,
	  .console = true, .own = "tenant",
	  .where = ADM_ON_POOL, .body = list_body },
	{ .noun = "alerts", .verb = "show", .help = "Show an alert", .args = show_args, .columns = show_cols,
	  .shape = ADM_ITEM, .role = ADM_AUDIT, .own = "tenant", .where = ADM_ON_POOL, .body = show_body },
	{ .noun = "alerts", .verb = "ack", .help = "Say that somebody looks after an alert",
	  .detail = "It is not said again, unless it becomes worse.  On record: who knew of it, and when.",
	  .args = ack_args, .done = "alert %{id} acknowledged: %{rule}, %{subject}", .role = ADM_OPERATE,
	  .console = true, .own = "tenant",
	  .where = ADM_ON_WRITER, .check = ack_check, .body = ack_body, .after = ack_after },
	{ .noun = "alerts", .verb = "silence", .help = "Say nothing of a rule for a time",
	  .detail = "Its alerts still open and are on record; they are not said in the log of the server, and nobody else is "
		    "told.  What is open when the time is over is said then.",
	  .args = silence_args, .done = "%{rule} silenced until %{until}", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .check = silence_check, .body = silence_body, .after = silence_after },
	{ .noun = "alerts", .verb = "rules", .help = "List the rules that open alerts, and which are silenced",
	  .args = no_args, .columns = rules_cols, .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL,
	  .body = rules_body },
	{ .noun = "alerts", .verb = "ways", .help = "List who is told of alerts, beside the log, and how each is",
	  .detail = "Of what the list alerts of the configuration names.  WAITING counts alerts that it is still to be told "
		    "of, or that they are over; one that does not take a message has the state retries, with the reason, and is "
		    "tried again after RETRY seconds.  Counted since the server started.", .args = no_args, .columns = ways_cols,
	  .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_LOOP, .body = ways_body },
	{ .noun = "alerts", .verb = "test", .help = "Open an alert that says that nothing is wrong",
	  .detail = "It goes all the way of others, and is over with the next look.", .args = no_args,
	  .done = "a test alert is on its way for %{subject}", .role = ADM_OPERATE, .where = ADM_ON_LOOP,
	  .record = AUDIT_ADMIN_CMD, .body = test_body },
	{ .noun = NULL },
};
