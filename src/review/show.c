/* audit show: the command that prints all records of one call, and of its task: the rounds, the answers, who read its
 * end (TK-52).  check() runs on the loop, body() on a thread of the pool, with a reader of the store.  Reading is a
 * record itself, durable before anything is shown (AUDIT A-304). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "command/rows.h"
#include "db/db.h"
#include "review/review.h"
#include "task/task.h"
#include "tenant/tenant.h"
#include "toolset/toolset.h"

#define SHOW_CALLS_MAX (2 * TASK_ROUNDS_MAX)    /* of one chain: rounds, and requests that a person agreed to */
#define SHOW_MORE_MAX 1000              /* records of a task that are of no call: the first ones */

struct show {
	struct command_call *c;
	const struct tenant_row *t;
	struct map *names;              /* pseudonym -> name */
	uint8_t call[SHOW_CALLS_MAX][16];       /* the newest first */
	size_t n;
	char task[TASK_ID_LEN + 1];     /* that the last one is a round of, or "" */
	bool before;                    /* it follows another: a round, or one that a person has agreed to */
	uint8_t prev[16];
	uint64_t first_us;              /* the first record of the chain */
	int64_t *idx;                   /* what is shown */
	size_t nidx;
};

/* --- the argument `call` */

static int parse_call(const struct command_call *c, uint8_t ret[16], struct err *err)
{
	const char *text = arg_text(c, "call");

	if (id_parse(text, strlen(text), ret) < 0)
		return err_set(err, ERR_INVALID, "call", "\"%.60s\" is no id of a call", text);
	return 0;
}

int arg_call_check(struct command_call *c, struct err *err)
{
	uint8_t id[16];

	return parse_call(c, id, err);
}

int arg_call(const struct command_call *c, struct db *db, uint8_t ret[16], struct tenant_row *ret_tenant,
	     struct err *err)
{
	const char *tenant = arg_text(c, "tenant");
	int rc = parse_call(c, ret, err);

	return rc < 0 ? rc : tenant_row_of_call(db, tenant ? tenant : "", ret, arg_text(c, "call"), ret_tenant, err);
}

void arg_record_in(struct command_call *c)
{
	const char *name = arg_text(c, "tenant");
	const struct tenant *t = name ? tenant_by_name(command_env(c)->tenants, name, strlen(name)) : NULL;

	if (t)
		command_record_in(c, t->id);
}

/* --- audit show */

static void put_call_id(struct reply *o, const char *name, bool has, const uint8_t id[16])
{
	char text[ID_TEXT_SIZE];

	reply_text(o, name, has ? id_format(id, text) : NULL);
}

static size_t strcspn_of(const char *p, size_t len, char stop)
{
	const char *at = memchr(p, stop, len);

	return at ? (size_t)(at - p) : len;
}

/* "ann", "key ann", microseconds and the reason, with tabs between: ann (key ann) at 2026-11-27T20:00:00.000Z: why */
static void put_vote(struct str *out, const char *p, size_t len)
{
	const char *part[4] = { "", "", "", "" };
	size_t n[4] = { 0 };
	uint64_t us = 0;
	char at[40];

	for (size_t i = 0; i < 4; i++) {
		part[i] = p;
		n[i] = i < 3 ? strcspn_of(p, len, '\t') : len;
		p += n[i] + (n[i] < len);
		len -= n[i] + (n[i] < len);
	}
	(void)text_u64(part[2], n[2], &us);
	str_printf(out, "%s%.*s (%.*s) at %s%s%.*s", out->len ? "; " : "", (int)n[0], part[0], (int)n[1], part[1],
		   clock_format_utc(us, at, sizeof(at)), n[3] ? ": " : "", (int)n[3], part[3]);
}

/* Who agreed to it, and which request that was (HA-03). */
static void put_approval(struct reply *o, const struct audit_view *v)
{
	size_t len;
	const uint8_t *which = audit_field_find(v->ext, v->ext_len, AUDIT_TAG_ASSENT, &len);
	const char *text, *end;
	struct str by = STR_INIT;

	if (!which || len < 8)
		return;
	reply_int(o, "approval", (int64_t)audit_get_be(which, 8));
	text = (const char *)audit_field_find(v->ext, v->ext_len, AUDIT_TAG_VOTES, &len);
	for (end = text ? text + len : text; text && text < end; ) {
		const size_t line = strcspn_of(text, (size_t)(end - text), '\n');

		put_vote(&by, text, line);
		text += line + (text + line < end);
	}
	if (by.len == 0) {
		text = (const char *)audit_field_find(v->ext, v->ext_len, AUDIT_TAG_APPROVER, &len);
		if (text)
			str_put(&by, text, len);
	}
	reply_text(o, "approved_by", by.len ? str_text(&by) : NULL);
	str_fini(&by);
}

static const char *task_of_record(const struct audit_view *v)
{
	size_t len;
	const char *id = (const char *)audit_field_find(v->ext, v->ext_len, AUDIT_TAG_TASK, &len);

	return id && len == TASK_ID_LEN ? id : NULL;
}

static void put_task(struct reply *o, const struct audit_view *v)
{
	const char *id = task_of_record(v);
	char text[TASK_ID_LEN + 1] = "";

	if (!id)
		return;
	memcpy(text, id, TASK_ID_LEN);
	reply_text(o, "task", text);
}

static void put_record(struct show *show, const struct audit_view *v)
{
	struct reply *o = show->c->out;

	reply_time(o, "time", v->ts_us);
	reply_text(o, "tenant", show->t->name);
	reply_text(o, "tool", v->tool);
	reply_text(o, "principal", principal_name(show->names, v->prn));
	reply_text(o, "key", v->cred);
	reply_text(o, "outcome", v->has_outcome ? audit_outcome_name(v->outcome) : NULL);
	reply_text(o, "rule", v->rule);
	reply_text(o, "transport", v->tport ? audit_tport_name(v->tport) : NULL);
	reply_text(o, "revision", v->rev);
	reply_text(o, "definition", v->tdef);
	reply_text(o, "sandbox", v->sbox);
	put_call_id(o, "call", v->has_call, v->call);
	if (v->has_prev)
		put_call_id(o, "previous", true, v->prev);
	if (v->n_req >= 0)
		reply_int(o, "request_bytes", v->n_req);
	if (v->n_res >= 0)
		reply_int(o, "result_bytes", v->n_res);
	if (v->has_xstat)
		reply_int(o, "status", v->xstat);
	if (v->sig)
		reply_int(o, "signal", v->sig);
	if (v->flags & AUDIT_FLAG_UNDELIVERED)
		reply_bool(o, "undelivered", true);
	if (v->flags & AUDIT_FLAG_NOT_EXECUTED)
		reply_bool(o, "not_executed", true);
	put_approval(o, v);
	put_task(o, v);
	reply_text(o, "detail", v->detail);
}

static bool is_task(const char *text)
{
	static const char base62[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

	return strlen(text) == TASK_ID_LEN && text[strspn(text, base62)] == '\0';
}

static int audit_show_check(struct command_call *c, struct err *err)
{
	arg_record_in(c);
	return is_task(arg_text(c, "call")) ? 0 : arg_call_check(c, err);
}

static int show_row(void *arg, const struct audit_view *v)
{
	struct show *show = arg;
	struct reply *o = show->c->out;
	const char *kind = audit_kind_name(v->kind);

	command_seen(show->c, show->t->id, v->idx);
	reply_row_begin(o);
	reply_int(o, "index", v->idx);
	reply_text(o, "kind", kind ? kind : "unknown");
	put_record(show, v);
	if (v->dur_us)
		reply_ms(o, "ms", v->dur_us);
	reply_row_end(o);
	return 0;
}

/* Its begin says what it follows; any of its records, of which task it is. */
static int look(void *arg, const struct audit_view *v)
{
	struct show *show = arg;
	const char *task = task_of_record(v);
	size_t len;

	if (task)
		memcpy(show->task, task, TASK_ID_LEN);
	if ((v->kind == AUDIT_CALL_BEGIN || v->kind == AUDIT_CALL_HELD) && v->has_prev &&
	    (task || audit_field_find(v->ext, v->ext_len, AUDIT_TAG_ASSENT, &len))) {
		show->before = true;
		memcpy(show->prev, v->prev, sizeof(show->prev));
	}
	return 0;
}

/* From this call back to the first one. */
static int follow(struct show *show, struct db *db, const uint8_t call[16], struct err *err)
{
	int rc;

	memcpy(show->prev, call, sizeof(show->prev));
	show->n = 0;
	do {
		memcpy(show->call[show->n], show->prev, sizeof(show->prev));
		show->before = false;
		rc = audit_query_call(db, show->t->id, show->call[show->n++], look, show, err);
	} while (rc >= 0 && show->before && show->n < SHOW_CALLS_MAX);
	return rc < 0 ? rc : 0;
}

/* 1: *ret is the newest call of a task whose row is there, of this tenant, "": any. */
static int newest_of(struct db *db, const char *task, const char *tenant, uint8_t ret[16], char *ret_tenant,
		     size_t size, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TASK_NEWEST);
	const void *call;
	size_t len;
	int rc;

	db_bind_textz(st, 1, task);
	db_bind_textz(st, 2, tenant);
	rc = db_step(st, err);
	if (rc == 1) {
		call = db_col_blob(st, 0, &len);
		rc = len == 16;
		if (rc)
			memcpy(ret, call, len);
		if (ret_tenant)
			db_col_copy(st, 1, ret_tenant, size);
	}
	db_stmt_put(&st);
	return rc;
}

/* The call that was asked for, or the newest one of the task that was. */
static int asked_for(const struct command_call *c, struct db *db, uint8_t ret[16], struct tenant_row *ret_tenant,
		     struct err *err)
{
	const char *text = arg_text(c, "call"), *tenant = arg_text(c, "tenant");
	char name[sizeof(ret_tenant->name)];
	int rc;

	if (!is_task(text))
		return arg_call(c, db, ret, ret_tenant, err);
	rc = newest_of(db, text, tenant ? tenant : "", ret, name, sizeof(name), err);
	if (rc == 0)
		return err_set(err, ERR_NOT_FOUND, "", "task %s: not found%s%s; the id of a call of it finds its records",
			       text, tenant ? " in the log of " : "", tenant ? tenant : "");
	return rc < 0 ? rc : tenant_row_of_call(db, name, ret, text, ret_tenant, err);
}

/* All that is one matter with this call: what it follows, and while there is a row of its task, what follows it. */
static int find_chain(struct show *show, struct db *db, const uint8_t call[16], struct err *err)
{
	uint8_t newest[16];
	int rc = follow(show, db, call, err);

	if (rc < 0 || !*show->task)
		return rc;
	rc = newest_of(db, show->task, show->t->name, newest, NULL, 0, err);
	if (rc != 1 || memcmp(newest, call, sizeof(newest)) == 0)
		return rc < 0 ? rc : 0;
	rc = follow(show, db, newest, err);
	for (size_t i = 0; rc == 0 && i < show->n; i++)
		if (memcmp(show->call[i], call, sizeof(newest)) == 0)
			return 0;
	return rc < 0 ? rc : follow(show, db, call, err);
}

static void note_idx(struct show *show, int64_t idx)
{
	if ((show->nidx & (show->nidx - 1)) == 0)
		show->idx = mem_realloc(show->idx, (show->nidx ? 2 * show->nidx : 1) * sizeof(*show->idx));
	show->idx[show->nidx++] = idx;
}

static int note_row(void *arg, const struct audit_view *v)
{
	struct show *show = arg;

	if (show->nidx == 0)
		show->first_us = v->ts_us;
	note_idx(show, v->idx);
	return 0;
}

/* What was recorded of its task beside its calls: answers, cancels, an end that is no call's, who read it. */
static int find_more(struct show *show, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TASK_RECORDS);
	int rc;

	db_bind_i64(st, 1, show->t->id);
	db_bind_textz(st, 2, show->task);
	db_bind_i64(st, 3, (int64_t)show->first_us);
	db_bind_i64(st, 4, SHOW_MORE_MAX);
	while ((rc = db_step(st, err)) == 1)
		note_idx(show, db_col_i64(st, 0));
	db_stmt_put(&st);
	return rc;
}

static int by_idx(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static int show_all(struct show *show, struct db *db, struct err *err)
{
	int rc = 0;

	for (size_t i = show->n; rc >= 0 && i > 0; i--)
		rc = audit_query_call(db, show->t->id, show->call[i - 1], note_row, show, err);
	if (rc >= 0 && *show->task && show->nidx > 0)
		rc = find_more(show, db, err);
	if (show->nidx > 0)
		qsort(show->idx, show->nidx, sizeof(*show->idx), by_idx);
	for (size_t i = 0; rc >= 0 && i < show->nidx; i++)
		if (i == 0 || show->idx[i] != show->idx[i - 1])
			rc = audit_query_at(db, show->t->id, show->idx[i], show_row, show, err);
	free(show->idx);
	return rc;
}

static int audit_show_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct tenant_row t;
	struct show show = { .c = c, .t = &t };
	uint8_t call[16];
	int rc = asked_for(c, db, call, &t, err);

	(void)logs;
	if (rc == 0)
		rc = principal_names_load(db, t.id, &show.names, err);
	if (rc == 0)
		rc = find_chain(&show, db, call, err);
	if (rc >= 0)
		rc = show_all(&show, db, err);
	principal_names_free(&show.names);
	return rc < 0 ? rc : 0;
}

/* --- rows of the command table */

static const struct command_arg audit_show_args[] = {
	WORD("call", "CALL", COMPLETE_NONE, "Id of the call, as in audit calls, or of a task."), TENANT_OPT, ARG_END };
static const struct command_column audit_show_cols[] = {
	COL("index", "INDEX"), COL("kind", "KIND"), COL_AT("time", "TIME"), COL("tool", "TOOL"),
	COL("principal", "PRINCIPAL"), COL("outcome", "OUTCOME"), COL("rule", "RULE"), COL("sandbox", "SANDBOX"),
	COL("definition", "DEFINITION"),
	COL("detail", "DETAIL"), COL_END };

const struct command show_commands[] = {
	{ .noun = "audit", .verb = "show", .help = "Show the records of a call",
	  .detail = "With them those of the call that asked a person for it, and all of its task: its rounds, answers, "
		    "who read its end.",
	  .args = audit_show_args,
	  .columns = audit_show_cols, .shape = ADM_TABLE, .role = ADM_AUDIT, .console = true, .where = ADM_ON_POOL,
	  .record = AUDIT_AUDIT_READ,
	  .check = audit_show_check, .body = audit_show_body },
	{ .noun = NULL },
};
