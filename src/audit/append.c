/* Appending: an event becomes a row; logs are created; calls that a crash left open are closed. */

#include "config.h"

#include "audit/audit.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"

#include "audit_int.h"

enum { INSTANCE_CHARS = 20 };           /* base62: 119 bits */

void audit_row_init(struct audit_row *row, int64_t kind)
{
	*row = (struct audit_row){
		.kind = kind, .mono = -1, .boot = -1, .cred = -1, .prn = -1, .actor = -1, .authn = -1, .tport = -1, .rev = -1,
		.tool = -1, .tdef = -1, .build = -1, .rule = -1, .n_req = -1, .n_res = -1, .flags = -1, .outcome = -1,
		.xstat = -1, .sig = -1, .dur = -1, .beg = -1, .obj = -1,
	};
}

static void bind_int(struct db_stmt *st, unsigned pos, int64_t v)
{
	if (v < 0)
		db_bind_null(st, pos);
	else
		db_bind_i64(st, pos, v);
}

static void bind_bytes(struct db_stmt *st, unsigned pos, const uint8_t *p, size_t len)
{
	if (p)
		db_bind_blob(st, pos, p, len);
	else
		db_bind_null(st, pos);
}

static int insert_row(struct db *db, const struct audit_row *r, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_AUDIT_INSERT_REC);

	db_bind_i64(st, 1, AUDIT_ENC);
	db_bind_i64(st, 2, r->log);
	db_bind_i64(st, 3, r->idx);
	db_bind_i64(st, 4, r->kind);
	db_bind_i64(st, 5, r->ts);
	bind_int(st, 6, r->mono);
	bind_int(st, 7, r->boot);
	bind_bytes(st, 8, r->call, 16);
	bind_int(st, 9, r->cred);
	bind_int(st, 10, r->prn);
	bind_int(st, 11, r->actor);
	bind_int(st, 12, r->authn);
	bind_int(st, 13, r->tport);
	bind_int(st, 14, r->rev);
	bind_int(st, 15, r->tool);
	bind_int(st, 16, r->tdef);
	bind_int(st, 17, r->build);
	bind_int(st, 18, r->rule);
	bind_int(st, 19, r->n_req);
	bind_int(st, 20, r->n_res);
	bind_int(st, 21, r->flags);
	bind_int(st, 22, r->outcome);
	bind_int(st, 23, r->xstat);
	bind_int(st, 24, r->sig);
	bind_int(st, 25, r->dur);
	bind_int(st, 26, r->beg);
	bind_bytes(st, 27, r->prev, 16);
	bind_bytes(st, 28, r->trace, 16);
	bind_int(st, 29, r->obj);
	bind_bytes(st, 30, r->ext, r->ext_len);
	return db_run(&st, err);
}

static bool ends_call(int64_t kind)
{
	return kind == AUDIT_CALL_END || kind == AUDIT_CALL_RECOVERED;
}

int audit_insert(struct audit_logs *logs, struct db *db, struct audit_log *log, struct audit_row *row, struct err *err)
{
	struct audit_open *o = NULL;
	int rc;

	row->log = log->id;
	row->idx = log->size;
	if (row->call && ends_call(row->kind)) {
		o = audit_open_find(logs, row->call, log->id);
		row->beg = o ? o->beg : -1;
	}
	rc = insert_row(db, row, err);
	if (rc < 0)
		return rc;
	audit_undo_push(logs, UNDO_RECORD, log);
	logs->last_id = db_last_id(db);
	log->size++;
	if (list_empty(&log->dirty))
		list_push_back(&logs->dirty, &log->dirty);
	if (o)
		audit_open_end(logs, o);
	else if (row->call && row->kind == AUDIT_CALL_BEGIN)
		audit_open_add(logs, row->call, logs->last_id, log->id, row->idx);
	return 0;
}

/* The numbers of an event; "(0) = absent" of the face becomes -1. */
static void fill_numbers(const struct audit_event *ev, struct audit_row *row)
{
	row->ts = (int64_t)ev->time_us;
	row->mono = (int64_t)ev->mono_us;
	row->call = ev->has_call ? ev->call : NULL;
	row->prev = ev->has_prev ? ev->prev : NULL;
	row->trace = ev->has_trace ? ev->trace : NULL;
	row->actor = ev->actor ? ev->actor : -1;
	row->authn = ev->authn ? ev->authn : -1;
	row->tport = ev->tport ? ev->tport : -1;
	row->n_req = ev->n_req;
	row->n_res = ev->n_res;
	row->flags = ev->flags ? (int64_t)ev->flags : -1;
	row->outcome = ev->has_outcome ? ev->outcome : -1;
	if (ev->has_xstat)
		row->xstat = ev->xstat >= 0 ? ev->xstat : ev->xstat == INT64_MIN ? INT64_MAX : -ev->xstat;
	row->sig = ev->sig ? ev->sig : -1;
	row->dur = ev->dur_us ? (int64_t)ev->dur_us : -1;
}

static int fill_texts(struct audit_logs *logs, struct db *db, const struct audit_event *ev, struct audit_row *row, struct err *err)
{
	char tdef[65];
	const struct {
		enum audit_column col;
		const char *text;
		int64_t *id;
	} texts[] = {
		{ COL_BOOT, logs->boot, &row->boot },
		{ COL_BUILD, logs->build, &row->build },
		{ COL_CRED, ev->cred, &row->cred },
		{ COL_PRN, ev->prn, &row->prn },
		{ COL_REV, ev->rev, &row->rev },
		{ COL_TOOL, ev->tool, &row->tool },
		{ COL_TDEF, ev->tdef ? tdef : NULL, &row->tdef },
		{ COL_RULE, ev->rule, &row->rule },
		{ COL_OBJ, ev->obj, &row->obj },
	};

	if (ev->tdef)
		text_hex(ev->tdef, 32, tdef);
	for (size_t i = 0; i < NELEMS(texts); i++) {
		int rc = texts[i].text ? audit_text_id(logs, db, texts[i].col, texts[i].text, texts[i].id, err) : 0;

		if (rc < 0)
			return rc;
	}
	return 0;
}

int audit_append(struct audit_logs *logs, struct db *db, const struct audit_event *ev, struct audit_receipt *ret, struct err *err)
{
	struct audit_log *log = audit_log_find(logs, ev->tenant_id);
	uint8_t ext[AUDIT_EXT_MAX];
	struct audit_row row;
	int rc;

	if (!log)
		return err_set(err, ERR_NOT_FOUND, "audit", "tenant %" PRId64 " has no log", ev->tenant_id);
	audit_row_init(&row, ev->kind);
	fill_numbers(ev, &row);
	rc = fill_texts(logs, db, ev, &row, err);
	if (rc < 0)
		return rc;
	row.ext_len = audit_ext_build(ev, ext);
	row.ext = row.ext_len ? ext : NULL;
	rc = audit_insert(logs, db, log, &row, err);
	if (rc == 0 && ret)
		*ret = (struct audit_receipt){ row.log, row.idx };
	return rc;
}

static int draw_instance(struct audit_logs *logs, struct db *db, struct err *err)
{
	char text[INSTANCE_CHARS + 1];
	int rc;

	id_random_text(text, INSTANCE_CHARS);
	rc = audit_meta_set(db, META_INSTANCE, text, err);
	if (rc == 0)
		snprintf(logs->instance, sizeof logs->instance, "%s", text);
	return rc;
}

static int origin_taken(struct db *db, const char *origin, bool *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_AUDIT_GET_ORIGIN);
	int rc;

	db_bind_textz(st, 1, origin);
	rc = db_step(st, err);
	*ret = rc == 1;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* An origin is for ever: a tenant that takes the name of a removed one gets a number to it. */
static int make_origin(struct audit_logs *logs, struct db *db, int64_t tenant_id, const char *name, char **ret, struct err *err)
{
	char *origin = tenant_id ? mem_printf("%s/t/%s", logs->instance, name) : mem_strdup(logs->instance);
	bool taken = false;
	int rc = origin_taken(db, origin, &taken, err);

	if (taken) {
		free(origin);
		origin = mem_printf("%s/t/%s+%" PRId64, logs->instance, name, tenant_id);
	}
	if (rc < 0) {
		free(origin);
		return rc;
	}
	*ret = origin;
	return 0;
}

static int insert_log(struct db *db, const char *origin, int64_t tenant_id, int64_t *ret_id, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_AUDIT_INSERT_LOG);
	int64_t id;
	int rc;

	db_bind_textz(st, 1, origin);
	if (tenant_id)
		db_bind_i64(st, 2, tenant_id);
	else
		db_bind_null(st, 2);
	rc = db_run(&st, err);
	if (rc < 0)
		return rc;
	id = db_last_id(db);
	if ((id == AUDIT_SYSTEM_LOG) != (tenant_id == 0))
		return err_set(err, ERR_INTERNAL, "audit", "the system log must be the first log");
	st = db_stmt_get(db, SQL_AUDIT_INSERT_HEAD);
	db_bind_i64(st, 1, id);
	rc = db_run(&st, err);
	if (rc == 0)
		*ret_id = id;
	return rc;
}

int audit_log_create(struct audit_logs *logs, struct db *db, int64_t tenant_id, const char *tenant_name, struct err *err)
{
	struct audit_event ev;
	char *origin = NULL;
	int64_t id = 0;
	int rc = 0;

	if (audit_log_find(logs, tenant_id))
		return err_set(err, ERR_CONFLICT, "audit", "tenant %" PRId64 " has a log already", tenant_id);
	if (!logs->instance[0])
		rc = draw_instance(logs, db, err);
	if (rc == 0)
		rc = make_origin(logs, db, tenant_id, tenant_name, &origin, err);
	if (rc == 0)
		rc = insert_log(db, origin, tenant_id, &id, err);
	if (rc == 0) {
		audit_undo_push(logs, UNDO_LOG, audit_log_add(logs, id, tenant_id, 0));
		audit_event_init(&ev, AUDIT_LOG_OPEN, tenant_id);
		ev.actor = AUDIT_BY_SYSTEM;
		ev.obj = origin;
		rc = audit_append(logs, db, &ev, NULL, err);
	}
	free(origin);
	return rc;
}

int audit_last_kind(struct audit_logs *logs, struct db *db, int64_t tenant_id, int *ret, struct err *err)
{
	struct audit_log *log = audit_log_find(logs, tenant_id);
	struct db_stmt *st;
	int rc;

	if (!log)
		return err_set(err, ERR_NOT_FOUND, "audit", "tenant %" PRId64 " has no log", tenant_id);
	st = db_stmt_get(db, SQL_AUDIT_LAST_KIND);
	db_bind_i64(st, 1, log->id);
	rc = db_step(st, err);
	if (rc >= 0)
		*ret = rc == 1 ? (int)db_col_i64(st, 0) : 0;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* Begins without an end, from meta.open_from on, into logs->open. */
static int find_open(struct audit_logs *logs, struct db *db, struct err *err)
{
	struct db_stmt *st;
	int64_t from = 0;
	char text[24];
	int rc = audit_meta_get(db, META_OPEN_FROM, text, sizeof text, err);

	if (rc < 0)
		return rc;
	if (text[0] && text_i64(text, strlen(text), &from) < 0)
		return err_set(err, ERR_CORRUPT, "meta/" META_OPEN_FROM, "%s is no number", text);
	st = db_stmt_get(db, SQL_AUDIT_LIST_TAIL);
	db_bind_i64(st, 1, from);
	while ((rc = db_step(st, err)) == 1) {
		int64_t log = db_col_i64(st, 1), kind = db_col_i64(st, 3);
		struct audit_open *o;
		size_t len = 0;
		const uint8_t *call = db_col_blob(st, 4, &len);

		if (len != 16) {
			rc = err_set(err, ERR_CORRUPT, "audit", "record %" PRId64 " has no proper call id", db_col_i64(st, 0));
			break;
		}
		if (kind == AUDIT_CALL_BEGIN)
			audit_open_add(logs, call, db_col_i64(st, 0), log, db_col_i64(st, 2));
		else if (ends_call(kind) && (o = audit_open_find(logs, call, log)))
			audit_open_end(logs, o);
	}
	db_stmt_put(&st);
	return rc;
}

/* The record repeats who and what of its begin (AUDIT 4.2). */
static int recover_one(struct audit_logs *logs, struct db *db, const struct audit_open *o, struct audit_log *log, struct err *err)
{
	struct audit_row row;
	int64_t *const ids[] = { &row.cred, &row.prn, &row.actor, &row.authn, &row.tport, &row.rev, &row.tool, &row.tdef };
	uint8_t call[16];
	struct db_stmt *st;
	int rc;

	audit_row_init(&row, AUDIT_CALL_RECOVERED);
	memcpy(call, o->call, sizeof call);     /* audit_insert() ends *o */
	row.call = call;
	row.ts = (int64_t)clock_wall_us();
	row.mono = (int64_t)clock_mono_us();
	row.outcome = AUDIT_UNKNOWN;
	st = db_stmt_get(db, SQL_AUDIT_GET_BEGIN);
	db_bind_i64(st, 1, o->id);
	rc = db_step(st, err);
	for (unsigned i = 0; rc == 1 && i < NELEMS(ids); i++)
		*ids[i] = db_col_type(st, i) == DB_NULL ? -1 : db_col_i64(st, i);
	db_stmt_put(&st);
	if (rc < 0)
		return rc;
	rc = audit_text_id(logs, db, COL_BOOT, logs->boot, &row.boot, err);
	if (rc == 0)
		rc = audit_text_id(logs, db, COL_BUILD, logs->build, &row.build, err);
	return rc < 0 ? rc : audit_insert(logs, db, log, &row, err);
}

int audit_recover(struct audit_logs *logs, struct db *db, size_t *ret_count, struct err *err)
{
	struct map *by_id = map_new();
	size_t count = 0;
	void *value;
	int rc;

	for (size_t it = 0; map_next(logs->by_tenant, &it, NULL, NULL, &value);) {
		struct audit_log *log = value;

		map_set_u64(by_id, (uint64_t)log->id, log);
	}
	rc = find_open(logs, db, err);
	while (rc == 0 && !list_empty(&logs->open)) {
		struct audit_open *o = CONTAINER_OF(logs->open.next, struct audit_open, node);
		struct audit_log *log = map_get_u64(by_id, (uint64_t)o->log);

		if (!log)
			rc = err_set(err, ERR_CORRUPT, "audit", "record %" PRId64 " is in no log", o->id);
		else
			rc = recover_one(logs, db, o, log, err);
		count++;
	}
	map_free(&by_id);
	if (rc == 0)
		*ret_count = count;
	return rc;
}
