/* hold set, list, release: the commands for legal holds.  Neither prune nor erase may touch what is held (AUDIT
 * A-908); both ask held_range(), held_subject() or held_any() in their own transaction.  Bodies run on the writer's
 * thread, those that only read on the pool. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "command/rows.h"
#include "db/db.h"
#include "review/review.h"
#include "toolset/toolset.h"

#include "keeping_int.h"

/* --- what is held */

/* Steps a statement whose row is the hold that stands in the way. */
static int refuse_if_row(struct db_stmt *st, const char *what, struct err *err)
{
	int rc = db_step(st, err);
	int64_t id = rc == 1 ? db_col_i64(st, 0) : 0;

	db_stmt_put(&st);
	if (rc != 1)
		return rc;
	(void)err_set(err, ERR_DENIED, "", "%s: held by hold %" PRId64, what, id);
	err_hint(err, "toolcrib hold list shows why; two administrators can release it: toolcrib hold release %" PRId64, id);
	return ERR_DENIED;
}

int held_range(struct db *db, int64_t log, int64_t from, int64_t to, const char *what, struct err *err)
{
	static const enum sql_id sql[] = { SQL_HOLD_OF_RANGE, SQL_HOLD_SUBJECT_IN };
	int rc = 0;

	for (size_t i = 0; i < 2 && rc == 0; i++) {
		struct db_stmt *st = db_stmt_get(db, sql[i]);

		db_bind_i64(st, 1, log);
		db_bind_i64(st, 2, from);
		db_bind_i64(st, 3, to);
		rc = refuse_if_row(st, what, err);
	}
	return rc;
}

int held_subject(struct db *db, int64_t log, const char *prn, const char *what, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_HOLD_OF_SUBJECT);

	db_bind_i64(st, 1, log);
	db_bind_textz(st, 2, prn);
	return refuse_if_row(st, what, err);
}

int held_any(struct db *db, int64_t log, const char *what, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_HOLD_ANY);

	db_bind_i64(st, 1, log);
	return refuse_if_row(st, what, err);
}

/* --- hold set */

struct hold_range { int64_t from, to; };        /* -1: not by index */

static int arg_range(const struct command_call *c, struct hold_range *ret, struct err *err)
{
	int rc = arg_index(c, "from", &ret->from, err);

	return rc < 0 ? rc : arg_index(c, "to", &ret->to, err);
}

static int check_texts(const struct command_call *c, struct err *err)
{
	char text[REASON_SIZE];
	int rc = arg_reason(c, "reason", text, sizeof(text), err);

	return rc < 0 ? rc : arg_reason(c, "ticket", text, TICKET_SIZE, err);
}

static const char *or_null(const char *text)
{
	return text && *text ? text : NULL;
}

static int hold_set_check(struct command_call *c, struct err *err)
{
	bool principal = or_null(arg_text(c, "principal")), times = arg_time(c, "since") || arg_time(c, "until");
	struct hold_range range;
	int rc = check_texts(c, err);

	if (rc == 0)
		rc = arg_range(c, &range, err);
	if (rc < 0)
		return rc;
	if ((range.from < 0) != (range.to < 0))
		return err_set(err, ERR_INVALID, "from", "--from and --to go together: the records from <= index <= to");
	if (range.from > range.to)
		return err_set(err, ERR_INVALID, "to", "--to is before --from");
	if (principal + (range.from >= 0) + times > 1)
		return err_set(err, ERR_INVALID, "", "a hold is of one principal, of a range, or of the whole log");
	return 0;
}

static int insert_hold(struct db *db, int64_t log, const struct hold_range *range, const char *prn, int64_t *ret,
		       struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_HOLD_INSERT);

	db_bind_i64(st, 1, log);
	if (range->from >= 0) {
		db_bind_i64(st, 2, range->from);
		db_bind_i64(st, 3, range->to + 1);
	} else {
		db_bind_null(st, 2);
		db_bind_null(st, 3);
	}
	db_bind_textz(st, 4, prn);
	return db_run_id(&st, ret, err);
}

/* set_by or released_by. */
static int bind_record(struct db *db, enum sql_id sql, int64_t id, const struct audit_receipt *at, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, sql);

	db_bind_i64(st, 1, id);
	db_bind_i64(st, 2, at->idx);
	return db_run(&st, err);
}

static int record_set(struct command_call *c, struct db *db, struct audit_logs *logs, const struct hold_range *range,
		      int64_t tenant_id, int64_t id, const char *prn, struct err *err)
{
	struct audit_field field[2];
	struct audit_receipt at;
	uint8_t bytes[16];
	const char *ticket = arg_text(c, "ticket");
	char obj[40];
	struct command_record r = { .kind = AUDIT_HOLD_SET, .tenant_id = tenant_id, .obj = obj, .prn = prn,
		.reason = arg_text(c, "reason"), .field = field, .ret = &at };
	int rc;

	(void)snprintf(obj, sizeof(obj), "hold/%" PRId64, id);
	if (range->from >= 0) {
		audit_put_be(bytes, (uint64_t)range->from, 8);
		audit_put_be(bytes + 8, (uint64_t)range->to + 1, 8);
		field[r.nfield++] = (struct audit_field){ AUDIT_TAG_RANGE, bytes, sizeof(bytes) };
	}
	field[r.nfield++] = (struct audit_field){ AUDIT_TAG_TICKET, ticket, strlen(ticket) };
	rc = command_record(c, db, logs, &r, err);
	return rc < 0 ? rc : bind_record(db, SQL_HOLD_BIND, id, &at, err);
}

static int hold_set_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const char *principal = or_null(arg_text(c, "principal"));
	uint64_t since_us = arg_time(c, "since"), until_us = arg_time(c, "until");
	struct hold_range range;
	struct principal_row p = { 0 };
	struct tenant_row t = { 0 };
	int64_t log = 0, id = 0;
	int rc = arg_range(c, &range, err);

	if (rc == 0)
		rc = tenant_row_find(db, arg_text(c, "tenant"), &t, err);
	if (rc == 0)
		rc = tenant_row_log(db, t.id, &log, err);
	if (rc == 0 && principal)
		rc = principal_row_find(db, &t, principal, &p, err);
	if (rc == 0 && (since_us || until_us))
		rc = range_of_times(db, log, since_us, until_us, &range.from, &range.to, err);      /* once for all */
	if (rc == 0)
		rc = insert_hold(db, log, &range, principal ? p.pseudonym : NULL, &id, err);
	if (rc == 0)
		rc = record_set(c, db, logs, &range, t.id, id, principal ? p.pseudonym : NULL, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_int(c->out, "id", id);
	reply_text(c->out, "tenant", t.name);
	reply_text(c->out, "ticket", arg_text(c, "ticket"));
	reply_row_end(c->out);
	return 0;
}

/* --- hold list */

struct hold { int64_t id, log, tenant_id, from, to, set_by, released_by; char tenant[80], prn[64]; };

static int64_t number(struct db_stmt *st, unsigned col)
{
	return db_col_type(st, col) == DB_NULL ? -1 : db_col_i64(st, col);
}

static void read_hold(struct db_stmt *st, struct hold *ret)
{
	*ret = (struct hold){ .id = db_col_i64(st, 0), .log = db_col_i64(st, 1), .tenant_id = db_col_i64(st, 2),
		.from = number(st, 4), .to = number(st, 5), .set_by = number(st, 7), .released_by = number(st, 8) };
	(void)snprintf(ret->tenant, sizeof(ret->tenant), "%s", db_col_text(st, 3, NULL));
	(void)snprintf(ret->prn, sizeof(ret->prn), "%s", db_col_text(st, 6, NULL));
}

/* Who, when and why stand in the record; a released hold's may have been pruned. */
struct said { uint64_t ts_us; char by[64], reason[REASON_SIZE], ticket[TICKET_SIZE]; };

static void copy_field(const struct audit_view *v, unsigned tag, char *ret, size_t size)
{
	size_t len = 0;
	const uint8_t *p = audit_field_find(v->ext, v->ext_len, tag, &len);

	(void)snprintf(ret, size, "%.*s", p ? (int)(len < size ? len : size - 1) : 0, p ? (const char *)p : "");
}

static int see_record(void *arg, const struct audit_view *v)
{
	struct said *said = arg;

	said->ts_us = v->ts_us;
	copy_field(v, AUDIT_TAG_COMMAND, said->by, sizeof(said->by));
	said->by[strcspn(said->by, ":")] = '\0';        /* "uid 1000: hold set …" */
	copy_field(v, AUDIT_TAG_REASON, said->reason, sizeof(said->reason));
	copy_field(v, AUDIT_TAG_TICKET, said->ticket, sizeof(said->ticket));
	return 0;
}

static int put_hold(struct command_call *c, struct db *db, const struct hold *h, struct err *err)
{
	struct reply *o = c->out;
	struct map *names = NULL;
	struct said set = { 0 }, released = { 0 };
	int rc = audit_query_at(db, h->tenant_id, h->set_by, see_record, &set, err);

	if (rc == 0 && h->released_by >= 0)
		rc = audit_query_at(db, h->tenant_id, h->released_by, see_record, &released, err);
	if (rc == 0)
		rc = principal_names_load(db, h->tenant_id, &names, err);
	if (rc < 0)
		return rc;
	reply_row_begin(o);
	reply_int(o, "id", h->id);
	reply_text(o, "tenant", h->tenant);
	reply_text(o, "principal", principal_name(names, or_null(h->prn)));
	if (h->from >= 0) {
		reply_int(o, "from", h->from);
		reply_int(o, "to", h->to - 1);
	}
	reply_text(o, "state", h->released_by >= 0 ? "released" : "held");
	reply_text(o, "ticket", or_null(set.ticket));
	reply_text(o, "reason", or_null(set.reason));
	reply_time(o, "set", set.ts_us);
	reply_text(o, "set_by", or_null(set.by));
	reply_int(o, "set_record", h->set_by);
	reply_time(o, "released", released.ts_us);
	reply_text(o, "released_by", or_null(released.by));
	if (h->released_by >= 0)
		reply_int(o, "released_record", h->released_by);
	reply_row_end(o);
	principal_names_free(&names);
	return 0;
}

static int hold_list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const char *tenant = or_null(arg_text(c, "tenant"));
	struct tenant_row t = { 0 };
	struct db_stmt *st;
	struct hold h;
	int rc = tenant ? tenant_row_find(db, tenant, &t, err) : 0;

	(void)logs;
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_HOLD_LIST);
	db_bind_i64(st, 1, t.id);
	db_bind_i64(st, 2, arg_flag(c, "history"));
	while (rc == 0 && (rc = db_step(st, err)) == 1) {
		read_hold(st, &h);
		rc = put_hold(c, db, &h, err);
	}
	db_stmt_put(&st);
	return rc;
}

/* --- hold release */

static int hold_release_check(struct command_call *c, struct err *err)
{
	return check_texts(c, err);
}

static int find_hold(struct db *db, uint32_t id, struct hold *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_HOLD_GET);
	int rc;

	db_bind_i64(st, 1, id);
	rc = db_step(st, err);
	if (rc == 1)
		read_hold(st, ret);
	db_stmt_put(&st);
	if (rc == 1 && ret->released_by >= 0)
		return err_set(err, ERR_CONFLICT, "", "hold %u has been released", id);
	if (rc == 0) {
		(void)err_set(err, ERR_NOT_FOUND, "", "hold %u: not found", id);
		err_hint(err, "toolcrib hold list");
		return ERR_NOT_FOUND;
	}
	return rc < 0 ? rc : 0;
}

static int hold_release_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const char *ticket = arg_text(c, "ticket");
	struct hold h;
	struct audit_receipt at;
	struct audit_field field[2] = { { AUDIT_TAG_TICKET, ticket, strlen(ticket) } };
	char obj[40];
	struct command_record r = { .kind = AUDIT_HOLD_RELEASE, .obj = obj, .reason = arg_text(c, "reason"), .field = field,
		.nfield = 2,
		.ret = &at };
	int rc = find_hold(db, arg_uint(c, "id", 0), &h, err);

	if (rc == 0)
		rc = approval_require(c, db, err);
	if (rc < 0)
		return rc;
	field[1] = (struct audit_field){ AUDIT_TAG_APPROVER, approval_by(c), strlen(approval_by(c)) };
	(void)snprintf(obj, sizeof(obj), "hold/%" PRId64, h.id);
	r.tenant_id = h.tenant_id;
	r.prn = or_null(h.prn);
	rc = command_record(c, db, logs, &r, err);
	if (rc == 0)
		rc = bind_record(db, SQL_HOLD_RELEASE, h.id, &at, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_int(c->out, "id", h.id);
	reply_text(c->out, "tenant", h.tenant);
	reply_row_end(c->out);
	return 0;
}

/* --- rows of the command table */

static const struct command_arg hold_set_args[] = {
	TENANT_WORD, NEED("reason", "TEXT", ARG_TEXT, COMPLETE_NONE,
		"Why; it stays in the record for ever: no names of persons."),
	TICKET_NEED, OPT("principal", "NAME", ARG_TEXT, COMPLETE_NONE,
		"Only what this principal of the tenant did, now and later."),
	OPT("from", "INDEX", ARG_TEXT, COMPLETE_NONE, "Only records from this index on."),
	OPT("to", "INDEX", ARG_TEXT, COMPLETE_NONE, "The last of them."),
	OPT("since", "TIME", ARG_TIME, COMPLETE_NONE, "Only records from this time on that are there today."),
	OPT("until", "TIME", ARG_TIME, COMPLETE_NONE, "Only records before this time."), ARG_END };
static const struct command_arg hold_list_args[] = {
	TENANT_MAYBE, FLAG("history", "Released ones as well."), ARG_END };
static const struct command_arg hold_release_args[] = {
	{ "id", "ID", ARG_UINT, false, true, false, COMPLETE_NONE, "Number of the hold, from hold list." },
	NEED("reason", "TEXT", ARG_TEXT, COMPLETE_NONE, "Why; it stays in the record for ever."), TICKET_NEED, ARG_END };
static const struct command_column hold_list_cols[] = {
	COL("id", "ID"), COL("tenant", "TENANT"), COL("state", "STATE"), COL("principal", "PRINCIPAL"), COL("from", "FROM"),
	COL("to", "TO"), COL("ticket", "TICKET"), COL_AT("set", "SET"), COL("set_by", "SET BY"),
	COL_AT("released", "RELEASED"),
	COL("released_by", "RELEASED BY"), COL("reason", "REASON"), COL_END };

const struct command hold_commands[] = {
	{ .noun = "hold", .verb = "set", .help = "Keep records from being pruned or erased",
	  .detail = "All records of a tenant, a range of them, or those of a principal.  A range by times is turned into "
		    "indexes once, now.",
	  .args = hold_set_args, .done = "hold %{id} of %{tenant} set for %{ticket}", .role = ADM_OWNER,
	  .where = ADM_ON_WRITER,
	  .check = hold_set_check, .body = hold_set_body },
	{ .noun = "hold", .verb = "list", .help = "List what is held", .args = hold_list_args, .columns = hold_list_cols,
	  .shape = ADM_TABLE, .role = ADM_READ, .console = true, .seen = "tenant",
	  .where = ADM_ON_POOL,  .body = hold_list_body },
	{ .noun = "hold", .verb = "release", .help = "Let go what is held",
	  .detail = "Needs a second administrator: see approval list.", .args = hold_release_args,
	  .done = "hold %{id} of %{tenant} released", .destructive = true, .role = ADM_OWNER, .second = ADM_SECOND_ASKED,
	  .where = ADM_ON_WRITER, .check = hold_release_check, .body = hold_release_body },
	{ .noun = NULL },
};
