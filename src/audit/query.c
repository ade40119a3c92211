/* Reading the audit: a log newest first with filters, and one call. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/text.h"
#include "db/db.h"
#include "forms/forms.h"

#include "audit_int.h"

/* The columns of the four statements on rec_text, in their order. */
enum {
	C_IDX, C_KIND, C_TS, C_CALL, C_ACTOR, C_AUTHN, C_TPORT, C_N_REQ, C_N_RES, C_FLAGS, C_OUTCOME, C_XSTAT, C_SIG, C_DUR,
	C_BEG, C_PREV, C_EXT, C_CRED, C_PRN, C_REV, C_TOOL, C_TDEF, C_RULE, C_OBJ, C_SBOX,
};

enum { CALL_TIME = 6 };                 /* bytes of an id that say the millisecond */
#define SLACK_US INT64_C(60000000)
#define SOON_US INT64_C(3600000000)

static int64_t number(struct db_stmt *st, unsigned col, int64_t absent)
{
	return db_col_type(st, col) == DB_NULL ? absent : db_col_i64(st, col);
}

static const char *text(struct db_stmt *st, unsigned col)
{
	return db_col_type(st, col) == DB_NULL ? NULL : db_col_text(st, col, NULL);
}

static bool id16(struct db_stmt *st, unsigned col, uint8_t ret[16])
{
	size_t len = 0;
	const void *p = db_col_blob(st, col, &len);

	if (len != 16)
		return false;
	memcpy(ret, p, 16);
	return true;
}

static int read_row(struct db_stmt *st, struct audit_view *v, char *buf, struct err *err)
{
	size_t ext_len = 0;
	const uint8_t *ext = db_col_blob(st, C_EXT, &ext_len);
	char where[32];

	*v = (struct audit_view){
		.idx = db_col_i64(st, C_IDX),
		.beg = number(st, C_BEG, -1),
		.kind = (int)db_col_i64(st, C_KIND),
		.outcome = (int)number(st, C_OUTCOME, -1),
		.authn = (int)number(st, C_AUTHN, 0),
		.tport = (int)number(st, C_TPORT, 0),
		.actor = (int)number(st, C_ACTOR, 0),
		.sig = (int)number(st, C_SIG, 0),
		.ts_us = (uint64_t)db_col_i64(st, C_TS),
		.dur_us = (uint64_t)number(st, C_DUR, 0),
		.has_outcome = db_col_type(st, C_OUTCOME) != DB_NULL,
		.has_xstat = db_col_type(st, C_XSTAT) != DB_NULL,
		.cred = text(st, C_CRED),
		.prn = text(st, C_PRN),
		.rev = text(st, C_REV),
		.tool = text(st, C_TOOL),
		.tdef = text(st, C_TDEF),
		.rule = text(st, C_RULE),
		.obj = text(st, C_OBJ),
		.sbox = text(st, C_SBOX),
		.xstat = number(st, C_XSTAT, 0),
		.n_req = number(st, C_N_REQ, -1),
		.n_res = number(st, C_N_RES, -1),
		.flags = (uint32_t)number(st, C_FLAGS, 0),
	};
	v->has_call = id16(st, C_CALL, v->call);
	v->has_prev = id16(st, C_PREV, v->prev);
	v->ext = ext;
	v->ext_len = ext_len;
	if (audit_ext_read(ext, ext_len, v, buf) == 0)
		return 0;
	snprintf(where, sizeof(where), "idx/%" PRId64, v->idx);
	return err_set(err, ERR_CORRUPT, where, "column ext cannot be read");
}

/* Step to the end, handing out rows; puts the statement. */
static int walk(struct db_stmt **st, audit_row_fn *fn, void *arg, size_t *ret_rows, struct err *err)
{
	char detail[AUDIT_DETAIL_MAX + 1];
	struct audit_view view;
	size_t rows = 0;
	int rc;

	while ((rc = db_step(*st, err)) == 1) {
		rc = read_row(*st, &view, detail, err);
		if (rc < 0)
			break;
		rows++;
		if (fn(arg, &view) != 0) {
			rc = 0;
			break;
		}
	}
	db_stmt_put(st);
	if (ret_rows)
		*ret_rows = rows;
	return rc;
}

int audit_log_of(struct db *db, int64_t tenant_id, int64_t *ret, struct err *err)
{
	struct db_stmt *st;
	int rc;

	if (tenant_id == 0) {
		*ret = AUDIT_SYSTEM_LOG;
		return 0;
	}
	st = db_stmt_get(db, SQL_AUDIT_GET_LOG);
	db_bind_i64(st, 1, tenant_id);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = db_col_i64(st, 0);
	else if (rc == 0)
		rc = err_set(err, ERR_NOT_FOUND, "audit", "tenant %" PRId64 " has no log", tenant_id);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int audit_query(struct db *db, const struct audit_filter *f, audit_row_fn *fn, void *arg, struct err *err)
{
	bool begins = f->kind == AUDIT_CALL_BEGIN;
	uint64_t until = f->until_us && f->until_us < INT64_MAX ? f->until_us : INT64_MAX;
	uint64_t since = f->since_us < INT64_MAX ? f->since_us : INT64_MAX;
	struct db_stmt *st;
	int64_t log = 0;
	int rc = audit_log_of(db, f->tenant_id, &log, err);

	if (rc < 0)
		return rc;
	st = db_stmt_get(db, begins ? SQL_AUDIT_LIST_BEGIN :
			 f->kind && f->kind != AUDIT_CALL_END ? SQL_AUDIT_LIST_KIND : SQL_AUDIT_LIST_REC);
	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, (int64_t)since);
	db_bind_i64(st, 3, (int64_t)until);
	db_bind_textz(st, 4, f->tool);
	db_bind_textz(st, 5, f->prn);
	db_bind_textz(st, 6, f->cred);
	if (!begins) {
		db_bind_i64(st, 7, f->outcome);
		db_bind_i64(st, 8, f->kind);
	}
	db_bind_i64(st, begins ? 7 : 9, f->limit);
	return walk(&st, fn, arg, NULL, err);
}

/* A call's records that are found at its time; ended: 1, an end; 0, a begin alone; -1: none. */
struct call_found { int64_t ended, first, last; };

/* A call's id says when it began, and most have ended soon (SCALE 7, Q04). */
static int find_call(struct db *db, int64_t log, const uint8_t call[16], struct call_found *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_AUDIT_FIND_CALL_FORMS);
	int64_t ms = 0;
	int rc;

	for (unsigned i = 0; i < CALL_TIME; i++)
		ms = ms << 8 | call[i];
	db_bind_i64(st, 1, log);
	db_bind_blob(st, 2, call, 16);
	db_bind_i64(st, 3, ms * 1000 - SLACK_US);
	db_bind_i64(st, 4, ms * 1000 + SOON_US);
	*ret = (struct call_found){ -1, 0, INT64_MAX };
	rc = db_step(st, err);
	if (rc == 1 && db_col_type(st, 0) != DB_NULL)
		*ret = (struct call_found){ db_col_i64(st, 0), db_col_i64(st, 1), db_col_i64(st, 2) };
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* 1, and the first column; 0: no row. */
static int one_number(struct db_stmt **st, int64_t *ret, struct err *err)
{
	int rc = db_step(*st, err);

	if (rc == 1)
		*ret = number(*st, 0, -1);
	db_stmt_put(st);
	return rc;
}

/* A begin in a block whose end has not come. */
static int query_open(struct db *db, int64_t log, const uint8_t call[16], audit_row_fn *fn, void *arg, size_t *rows,
		      struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_AUDIT_GET_OPEN_CALL);
	int64_t idx = 0;
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_blob(st, 2, call, 16);
	rc = one_number(&st, &idx, err);
	if (rc != 1)
		return rc;
	st = db_stmt_get(db, SQL_AUDIT_LIST_AT);
	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, idx);
	return walk(&st, fn, arg, rows, err);
}

/* A log that does not have the call at its time is not walked for it, unless a clock was ever set. */
static int query_in_forms(struct db *db, int64_t log, const uint8_t call[16], audit_row_fn *fn, void *arg, size_t *rows,
			  struct err *err)
{
	struct call_found found;
	int64_t set = 0;
	struct db_stmt *st;
	int rc = find_call(db, log, call, &found, err);

	if (rc == 0 && found.ended == 0)
		rc = query_open(db, log, call, fn, arg, rows, err);
	if (rc < 0 || *rows > 0)
		return rc;
	if (found.ended < 0) {
		st = db_stmt_get(db, SQL_AUDIT_WAS_CLOCK_SET);
		rc = one_number(&st, &set, err);
	}
	if (rc >= 0 && (found.ended >= 0 || rc == 1)) {
		st = db_stmt_get(db, SQL_AUDIT_LIST_CALL_FORMS);
		db_bind_i64(st, 1, log);
		db_bind_blob(st, 2, call, 16);
		db_bind_i64(st, 3, found.ended == 1 ? found.first : 0);         /* an end may be late */
		db_bind_i64(st, 4, found.ended == 1 ? found.last : INT64_MAX);
		rc = walk(&st, fn, arg, rows, err);
	}
	return rc >= 0 && found.ended < 0 && *rows == 0 ? query_open(db, log, call, fn, arg, rows, err) : rc;
}

int audit_query_call(struct db *db, int64_t tenant_id, const uint8_t call[16], audit_row_fn *fn, void *arg,
		     struct err *err)
{
	struct db_stmt *st;
	int64_t log = 0, from = 0;
	size_t rows = 0;
	char value[24];
	int rc = audit_log_of(db, tenant_id, &log, err);

	if (rc < 0)
		return rc;
	if (forms_seen(db)) {
		rc = query_in_forms(db, log, call, fn, arg, &rows, err);
	} else {
		st = db_stmt_get(db, SQL_AUDIT_LIST_CALL);
		db_bind_i64(st, 1, log);
		db_bind_blob(st, 2, call, 16);
		rc = walk(&st, fn, arg, &rows, err);
	}
	if (rc < 0 || rows)
		return rc;
	/* No end yet: begins are in no index of calls, but an open one is not older than open_from. */
	rc = db_meta_get(db, META_OPEN_FROM, value, sizeof(value), err);
	if (rc < 0)
		return rc;
	if (value[0] && text_i64(value, strlen(value), &from) < 0)
		from = 0;
	st = db_stmt_get(db, SQL_AUDIT_LIST_RUNNING);
	db_bind_i64(st, 1, log);
	db_bind_blob(st, 2, call, 16);
	db_bind_i64(st, 3, from);
	return walk(&st, fn, arg, NULL, err);
}

int audit_query_at(struct db *db, int64_t tenant_id, int64_t idx, audit_row_fn *fn, void *arg, struct err *err)
{
	struct db_stmt *st;
	int64_t log = 0;
	int rc = audit_log_of(db, tenant_id, &log, err);

	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_AUDIT_LIST_AT);
	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, idx);
	return walk(&st, fn, arg, NULL, err);
}
