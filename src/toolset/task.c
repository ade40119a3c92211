/* Tasks, for administrators: task list and show, from the store, and cancel, of what runs in the server. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/text.h"
#include "call/call.h"
#include "command/rows.h"
#include "db/db.h"
#include "task/task.h"
#include "tenant/tenant.h"
#include "toolset/toolset.h"

enum { NOTE_SHOWN = 400 };

/* A row of task_show or task_of. */
static void put_task(struct command_call *c, struct db_stmt *st)
{
	const int64_t created = db_col_i64(st, 5), ends = db_col_i64(st, 7), now = (int64_t)clock_wall_us();
	const enum task_state state = (enum task_state)db_col_i64(st, 4);
	size_t call_len, len;
	const void *call = db_col_blob(st, 8, &call_len);
	const char *note = db_col_text(st, 9, &len);
	char shown[NOTE_SHOWN];

	reply_row_begin(c->out);
	reply_text(c->out, "task", db_col_text(st, 0, NULL));
	reply_text(c->out, "tenant", db_col_text(st, 1, NULL));
	reply_text(c->out, "state", task_status(state));
	reply_text(c->out, "tool", db_col_text(st, 3, NULL));
	reply_text(c->out, "by", db_col_text(st, 2, NULL));
	reply_int(c->out, "age_s", now > created ? (now - created) / 1000000 : 0);
	reply_time(c->out, "created", (uint64_t)created);
	reply_time(c->out, "updated", (uint64_t)db_col_i64(st, 6));
	reply_time(c->out, "ends", (uint64_t)ends);
	reply_hex(c->out, "call", call, call_len);
	reply_int(c->out, "bytes", db_col_i64(st, 10));
	reply_text(c->out, "note", len ? text_printable(note, len, shown, sizeof(shown)) : NULL);
	reply_row_end(c->out);
}

static int list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TASK_SHOW);
	int rc;

	(void)logs;
	db_bind_textz(st, 1, arg_text(c, "tenant"));
	while ((rc = db_step(st, err)) == 1 && !reply_full(c->out))
		put_task(c, st);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int not_found(const char *id, struct err *err)
{
	(void)err_set(err, ERR_NOT_FOUND, "", "task %.64s: not found", id);
	err_hint(err, "toolcrib task list");
	return ERR_NOT_FOUND;
}

static int show_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TASK_OF);
	int rc;

	(void)logs;
	db_bind_textz(st, 1, arg_text(c, "tenant"));
	db_bind_textz(st, 2, arg_text(c, "id"));
	rc = db_step(st, err);
	if (rc == 1)
		put_task(c, st);
	db_stmt_put(&st);
	return rc == 1 ? 0 : rc < 0 ? rc : not_found(arg_text(c, "id"), err);
}

static void cancelled(void *arg, int rc)
{
	struct command_call *c = arg;
	struct err err;

	if (rc < 0)
		(void)err_set(&err, ERR_AUDIT, "", "the cancellation cannot be recorded, nothing was done");
	command_finish(c, rc < 0 ? &err : NULL);
}

/* Recorded in the tenant's log, with the reason, before its run is told (TK-34). */
static int cancel_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct command_env *env = command_env(c);
	const char *id = arg_text(c, "id"), *name = arg_text(c, "tenant");
	const struct tenant *tenant = tenant_by_name(env->tenants, name, strlen(name));
	struct task *t = env->tasks && tenant ? task_by_id(env->tasks, id) : NULL;
	struct audit_event ev;
	int rc;

	(void)db;
	(void)logs;
	if (!t || t->tenant_id != tenant->id)
		return not_found(id, err);
	audit_event_init(&ev, AUDIT_TASK_CANCEL, t->tenant_id);
	ev.actor = AUDIT_BY_ADMIN;
	ev.tport = AUDIT_ADMIN_SOCKET;
	ev.prn = t->of->prn;
	ev.tool = t->of->tool;
	ev.has_prev = true;
	memcpy(ev.prev, t->call, sizeof(ev.prev));
	ev.detail = arg_text(c, "reason");
	reply_row_begin(c->out);
	reply_text(c->out, "task", t->id);
	reply_row_end(c->out);
	rc = call_task_cancel(env->calls, t, &ev, cancelled, c);
	if (rc == 1)
		return err_set(err, ERR_CONFLICT, "", "task %.64s has ended already: it is %s", id,
			       task_status(t->state));
	if (rc < 0)
		return err_set(err, ERR_AUDIT, "", "the cancellation cannot be recorded, nothing was done");
	c->later = true;
	return 0;
}

/* --- rows of the command table */

static const struct command_arg list_args[] = { TENANT_WORD, ARG_END };
static const struct command_arg show_args[] = {
	TENANT_WORD, WORD("id", "TASK", COMPLETE_NONE, "Its id, from task list."), ARG_END };
static const struct command_arg cancel_args[] = {
	TENANT_WORD, WORD("id", "TASK", COMPLETE_NONE, "Its id, from task list."),
	OPT("reason", "TEXT", ARG_TEXT, COMPLETE_NONE, "Why, for the record."), ARG_END };
static const struct command_column list_cols[] = {
	COL("task", "TASK"), COL("state", "STATE"), COL("tool", "TOOL"), COL("by", "BY"), COL_AT("created", "CREATED"),
	COL_AT("ends", "ENDS"), COL("note", "NOTE"), COL_END };
static const struct command_column show_cols[] = {
	COL("task", "task"), COL("tenant", "tenant"), COL("state", "state"), COL("tool", "tool"), COL("by", "by"),
	COL_AT("created", "created"), COL_AT("updated", "updated"), COL_AT("ends", "ends"), COL("call", "call"),
	COL("bytes", "bytes"), COL("note", "note"), COL_END };

const struct command task_commands[] = {
	{ .noun = "task", .verb = "list", .help = "List the tasks of a tenant",
	  .detail = "Calls that outlast their requests, and those that have ended and are kept for their callers, newest "
		    "first.  ENDS: when a running one is cancelled, and when one that has ended goes.",
	  .args = list_args, .columns = list_cols, .shape = ADM_TABLE, .role = ADM_READ, .own = "tenant",
	  .where = ADM_ON_POOL, .body = list_body },
	{ .noun = "task", .verb = "show", .help = "Show one task", .args = show_args, .columns = show_cols,
	  .shape = ADM_ITEM, .role = ADM_READ, .own = "tenant", .where = ADM_ON_POOL, .body = show_body },
	{ .noun = "task", .verb = "cancel", .help = "Cancel a task that runs",
	  .detail = "Who and why is on record before its handler is told; one that has finished by then stays as it is.",
	  .args = cancel_args, .done = "task %{task} is cancelled", .role = ADM_OPERATE, .own = "tenant",
	  .where = ADM_ON_LOOP, .record = AUDIT_ADMIN_CMD, .body = cancel_body },
	{ .noun = NULL },
};
