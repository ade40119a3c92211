/* audit payload: the command that prints the arguments and the result of a call, decrypted, or opens their
 * commitments for an outsider (AUDIT A-507).  check() runs on the loop, body() on a thread of the pool.  Reading is
 * a record itself, durable before anything is shown. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/payload.h"
#include "base/mem.h"
#include "base/text.h"
#include "command/rows.h"
#include "db/db.h"
#include "keys/keys.h"
#include "review/review.h"
#include "toolset/toolset.h"

#include "keeping_int.h"


struct payload_job {
	struct command_call *c;
	const struct tenant_row *t;
	bool opening;
	struct db *db;
	struct keys *keys;
	int64_t idx;                    /* of the record that is shown */
	const char *kind;
	struct err *err;
	int rc;
};

/* A value as it is, if that is text; one that was cut may end within a character.  False: that is not all of it. */
static bool put_value(struct reply *o, const char *p, size_t len)
{
	char *clean = mem_alloc(4 * len + 1);
	size_t n = len;
	bool exact;

	while (n > 0 && len - n < 4 && !text_utf8_valid(p, n))
		n--;
	exact = text_utf8_valid(p, n) && !memchr(p, '\0', n);
	if (exact) {
		memcpy(clean, p, n);
		clean[n] = '\0';
	} else {
		text_printable(p, len, clean, 4 * len + 1);
	}
	reply_text(o, "value", clean);
	free(clean);
	return exact && n == len;
}

/* What is committed to, where the value that people read is not all of it. */
static void put_bytes(struct reply *o, const uint8_t *p, size_t len)
{
	char *text = mem_alloc(text_base64_size(len));

	text_base64(p, len, text);
	reply_text(o, "bytes", text);
	free(text);
}

static void put_hex(struct reply *o, const char *name, const uint8_t *p)
{
	char text[65];

	if (p)
		text_hex(p, 32, text);
	reply_text(o, name, p ? text : NULL);
}

static void row_begin(struct payload_job *job, const char *what, const char *state)
{
	reply_row_begin(job->c->out);
	reply_int(job->c->out, "index", job->idx);
	reply_text(job->c->out, "tenant", job->t->name);
	reply_text(job->c->out, "kind", job->kind);
	reply_text(job->c->out, "what", what);
	reply_text(job->c->out, "state", state);
}

static int on_opened(void *arg, const struct audit_opened *o)
{
	struct payload_job *job = arg;
	const char *name = audit_ctag_name(o->ctag);
	struct reply *out = job->c->out;
	bool exact = true;

	row_begin(job, name ? name : "unknown", o->p ? "kept" : o->opening ? "committed" : "erased");
	if (o->p)
		exact = put_value(out, (const char *)o->p, o->len);
	else
		reply_text(out, "value", NULL);
	if (job->opening) {
		if (!exact)
			put_bytes(out, o->p, o->len);
		reply_int(out, "ctag", (int64_t)o->ctag);
		put_hex(out, "commitment", o->commitment);
		put_hex(out, "opening", o->opening);
	}
	reply_row_end(out);
	return reply_full(out);
}

/* An address or a client by its pseudonym, which is the state. */
static int show_alias(struct payload_job *job, const char *what, const char *pseudonym)
{
	char *clear = NULL;
	int rc = audit_open_pseudonym(job->db, job->keys, job->t->id, pseudonym, &clear, job->err);

	if (rc < 0 && rc != ERR_NOT_FOUND)
		return rc;
	row_begin(job, what, pseudonym);
	reply_text(job->c->out, "value", clear);
	reply_row_end(job->c->out);
	free(clear);
	return 0;
}

static int show_people(struct payload_job *job)
{
	struct db_stmt *st = db_stmt_get(job->db, SQL_PAYLOAD_PEOPLE);
	int64_t log = 0;
	int rc = tenant_row_log(job->db, job->t->id, &log, job->err);

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, job->idx);
	if (rc == 0)
		rc = db_step(st, job->err);
	if (rc == 1) {
		rc = db_col_type(st, 0) == DB_NULL ? 0 : show_alias(job, "address", db_col_text(st, 0, NULL));
		if (rc == 0 && db_col_type(st, 1) != DB_NULL)
			rc = show_alias(job, "client", db_col_text(st, 1, NULL));
	}
	db_stmt_put(&st);
	return rc;
}

static int on_record(void *arg, const struct audit_view *v)
{
	struct payload_job *job = arg;

	job->idx = v->idx;
	job->kind = audit_kind_name(v->kind);
	command_seen(job->c, job->t->id, v->idx);
	job->rc = show_people(job);
	if (job->rc == 0)
		job->rc = audit_open_record(job->db, job->keys, job->t->id, v->idx, on_opened, job, job->err);
	return job->rc < 0;
}

static int audit_payload_check(struct command_call *c, struct err *err)
{
	int rc = command_reason_check(c, err);

	return rc < 0 ? rc : arg_call_check(c, err);
}

static int audit_payload_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct keyfile_place place = { command_env(c)->store, command_env(c)->master };
	struct tenant_row t;
	struct payload_job job = { .c = c, .t = &t, .opening = arg_flag(c, "opening"), .db = db, .err = err };
	uint8_t call[16];
	int rc = keys_open_reader(&place, &job.keys, err);

	(void)logs;
	if (rc == 0)
		rc = arg_call(c, db, call, &t, err);
	if (rc == 0)
		rc = audit_query_call(db, t.id, call, on_record, &job, err);
	keys_close(&job.keys);
	return rc < 0 ? rc : job.rc;
}

/* --- rows of the command table */

static const struct command_arg audit_payload_args[] = {
	WORD("call", "CALL", COMPLETE_NONE, "Id of the call, as in audit calls."), TENANT_OPT,
	FLAG("opening", "What proves each value to somebody else: its commitment in the record, and the opening."),
	REASON_OPT, ARG_END };
static const struct command_column audit_payload_cols[] = {
	COL("index", "INDEX"), COL("kind", "KIND"), COL("what", "WHAT"), COL("state", "STATE"), COL("value", "VALUE"),
	COL_IF("ctag", "CTAG"), COL_IF("commitment", "COMMITMENT"), COL_IF("opening", "OPENING"), COL_END };

const struct command payload_commands[] = {
	{ .noun = "audit", .verb = "payload", .help = "Show what a call said, decrypted",
	  .detail = "Arguments, result, the text of an error, the caller's address and client.  STATE is kept, or committed "
		    "(only the commitment is there), or erased; of an address or a client the pseudonym.  Reading it is "
		    "recorded.  With "
		    "an opening somebody else can check a value: HMAC-SHA-256 over \"toolcrib/c/1\", a zero byte, the ctag as two "
		    "bytes and the value, keyed with the opening, is the commitment; of a value that is no whole text, bytes has "
		    "it in base64.  toolcrib-verify --proof and verify.py check it with --opening, from what --json prints.  It "
		    "says nothing about other records.",
	  .args = audit_payload_args, .columns = audit_payload_cols, .shape = ADM_TABLE, .role = ADM_PAYLOAD,
	  .console = true, .where = ADM_ON_POOL,
	  .record = AUDIT_AUDIT_READ, .check = audit_payload_check, .body = audit_payload_body },
	{ .noun = NULL },
};
