/* Verification (AUDIT 8): each log record by record, then what binds the logs together. */

#include "config.h"

#include "verify/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "db/db.h"

#include "verify_int.h"

/* A begin whose end has not been read yet. */
struct open_call { int64_t idx, cred, prn, tool; };

void verify_tell(struct verify *v, const struct audit_finding *f)
{
	if (audit_finding_bad(f->code) && !f->gap)
		v->sum->bad++;
	else
		v->sum->gaps++;
	v->found(v->arg, f);
}

void verify_tell_store(struct verify *v, enum audit_finding_code code, const char *origin, const char *detail)
{
	verify_tell(v, &(struct audit_finding){ .code = code, .origin = origin, .from = -1, .to = -1, .detail = detail });
}

static void end_run(struct verify_log *c, enum audit_finding_code code)
{
	if (c->running[code])
		verify_tell(c->v, &c->run[code]);
	c->running[code] = false;
}

void verify_tell_record(struct verify_log *c, enum audit_finding_code code, int64_t from, int64_t to)
{
	struct audit_finding *run = &c->run[code];

	if (c->running[code] && run->to + 1 == from) {
		run->to = to;
		return;
	}
	end_run(c, code);
	*run = (struct audit_finding){ .code = code, .origin = c->head->origin, .from = from, .to = to };
	c->running[code] = true;
}

/* --- one log */

static void forget_open(struct verify_log *c, bool report)
{
	void *value;

	for (size_t it = 0; map_next(c->open, &it, NULL, NULL, &value);) {
		struct open_call *o = value;

		if (report)
			verify_tell_record(c, AUDIT_FINDING_DANGLING, o->idx, o->idx);
		free(o);
	}
	map_free(&c->open);
}

static int64_t id_of(const struct audit_row *row, enum audit_column col)
{
	return row->v[col].present ? row->v[col].n : -1;
}

static void begin_call(struct verify_log *c, const struct audit_row *row, const struct audit_value *call, int64_t idx)
{
	struct open_call *o;

	if (map_get(c->open, call->p, call->len)) {
		verify_tell_record(c, AUDIT_FINDING_PAIRING, idx, idx);
		return;
	}
	if (map_count(c->open) >= AUDIT_VERIFY_OPEN_MAX) {
		c->overflow = true;
		return;
	}
	o = mem_alloc(sizeof *o);
	*o = (struct open_call){ idx, id_of(row, COL_CRED), id_of(row, COL_PRN), id_of(row, COL_TOOL) };
	map_set(c->open, call->p, call->len, o);
}

/* One end or recovered per begin, of the same call, by the same, of the same tool (AUDIT 8, step 8). */
static void end_call(struct verify_log *c, const struct audit_row *row, const struct audit_value *call, int64_t idx)
{
	struct open_call *o = map_del(c->open, call->p, call->len);

	if (!o) {
		int64_t beg = id_of(row, COL_BEG);

		if (!c->overflow && (beg < 0 || beg >= c->head->min_idx))       /* else its begin was pruned */
			verify_tell_record(c, AUDIT_FINDING_PAIRING, idx, idx);
		return;
	}
	if (id_of(row, COL_BEG) != o->idx || id_of(row, COL_CRED) != o->cred || id_of(row, COL_PRN) != o->prn ||
	    id_of(row, COL_TOOL) != o->tool)
		verify_tell_record(c, AUDIT_FINDING_PAIRING, idx, idx);
	free(o);
}

static void check_meaning(struct verify_log *c, const struct audit_row *row, int64_t idx)
{
	const struct audit_value *call = &row->v[COL_CALL];
	int64_t kind = id_of(row, COL_KIND);

	if (kind == AUDIT_CALL_BEGIN && call->present)
		begin_call(c, row, call, idx);
	else if (kind == AUDIT_CALL_END || kind == AUDIT_CALL_RECOVERED)
		end_call(c, row, call, idx);
	else if (kind == AUDIT_CALL_BEGIN ||
		 (kind == AUDIT_CALL_DENIED && call->present && map_get(c->open, call->p, call->len)))
		verify_tell_record(c, AUDIT_FINDING_PAIRING, idx, idx);
}

static void check_record(struct verify_log *c, const struct audit_read *got)
{
	static const struct { unsigned bit; enum audit_finding_code code; } bits[] = {
		{ AUDIT_FOUND_TYPE, AUDIT_FINDING_TYPE }, { AUDIT_FOUND_DICT, AUDIT_FINDING_DICT },
		{ AUDIT_FOUND_ENCODING, AUDIT_FINDING_ENCODING }, { AUDIT_FOUND_LEAF, AUDIT_FINDING_LEAF },
	};
	const struct audit_value *ts = &got->row.v[COL_TS];
	struct audit_coverage *sum = c->v->sum;

	if (got->idx > c->next)
		verify_tell_record(c, AUDIT_FINDING_GAP, c->next, got->idx - 1);
	c->next = got->idx + 1;
	for (size_t i = 0; i < NELEMS(bits); i++)
		if (got->findings & bits[i].bit)
			verify_tell_record(c, bits[i].code, got->idx, got->idx);
	tree_append_nodes(&c->tree, got->leaf, audit_tile_note, &c->nodes);
	verify_payloads_note(c, got);
	check_meaning(c, &got->row, got->idx);
	verify_lifecycle(c, &got->row, got->idx);
	verify_time(c, &got->row, got->idx);
	sum->records++;
	if (ts->present && (sum->first_us == 0 || (uint64_t)ts->n < sum->first_us))
		sum->first_us = (uint64_t)ts->n;
	if (ts->present && (uint64_t)ts->n > sum->last_us)
		sum->last_us = (uint64_t)ts->n;
	if (c->tree.size == c->covered + 1)
		c->bare_us = ts->present ? (uint64_t)ts->n : 0;
	c->last_kind = id_of(&got->row, COL_KIND);
	if (c->last_kind == AUDIT_ERASE)
		verify_tomb(c, &got->row, got->idx);
	if (c->last_kind == AUDIT_ERASE_DONE)
		verify_tomb_done(c, &got->row, got->idx);
	if (c->last_kind == AUDIT_EPOCH_START && c->head->id == AUDIT_SYSTEM_LOG)
		verify_keys_record(c, &got->row, got->idx);
	if (c->last_kind == AUDIT_LOGS_COMMIT && c->head->id == AUDIT_SYSTEM_LOG)
		verify_marks_commit(c, &got->row, got->idx);
	verify_marks_at(c);
}

static void check_head(struct verify_log *c, const struct verify_head *h)
{
	uint8_t root[TREE_HASH];

	if (h->found < h->size)
		verify_tell_record(c, AUDIT_FINDING_TRUNCATED, h->found, h->size - 1);
	if (h->found > h->size)
		verify_tell_record(c, AUDIT_FINDING_UNCOVERED_TAIL, h->size, h->found - 1);
	tree_root(&c->tree, root);
	if (!h->has_root)
		verify_tell_store(c->v, AUDIT_FINDING_NOT_CHECKED, c->head->origin, "the log has no tree yet: it is from an older release");
	else if (memcmp(root, h->root, TREE_HASH) != 0)
		verify_tell_store(c->v, AUDIT_FINDING_ROOT, c->head->origin, NULL);
}

static void tell_progress(const struct verify *v)
{
	if (v->with->progress)
		v->with->progress(v->arg, v->sum->records, v->total);
}

static int check_log(struct verify *v, const struct verify_head *h, struct err *err)
{
	struct audit_reader *reader = audit_reader_new(v->db);
	struct audit_page page = { .log = h->id, .origin = h->origin, .from = h->min_idx, .to = h->size };
	struct verify_log *c = mem_zalloc(sizeof *c);
	struct audit_read got;
	int rc;

	c->v = v;
	c->head = h;
	c->open = map_new();
	if (v->rows)
		verify_rows_log(v, h->id, h->min_idx, h->size);
	rc = verify_cut(c, err);
	verify_marks_begin(c);
	verify_payloads_begin(c);
	tell_progress(v);
	if (rc == 0)
		rc = verify_notes_begin(c, err);
	while (rc == 0 && (rc = audit_reader_next(reader, &page, &got, err)) == 1) {
		check_record(c, &got);
		rc = verify_tiles(c, err);
		if (rc == 0)
			rc = verify_notes_at(c, err);
		if (rc == 0)
			rc = verify_keep(c, &got.row, got.idx, err);
		if (v->rows)
			verify_rows_record(v, h->id, &got.row, got.idx);
		if (v->sum->records % AUDIT_VERIFY_STEP == 0)
			tell_progress(v);
	}
	audit_reader_free(&reader);
	verify_time_end(c);
	if (rc == 0 && c->next < h->size && c->next < h->found)
		verify_tell_record(c, AUDIT_FINDING_GAP, c->next, h->size - 1);
	if (rc == 0)
		check_head(c, h);
	if (rc == 0)
		rc = verify_notes_end(c, err);
	if (rc == 0)
		verify_marks_end(c);
	if (rc == 0)
		rc = verify_payloads(c, err);
	verify_tombs_free(c);
	free(c->look.bits);
	free(c->marks.v);
	if (verify_keep_end(c, rc == 0, err) < 0 && rc == 0)
		rc = (int)err->code;
	forget_open(c, rc == 0);
	if (c->overflow)
		verify_tell_store(v, AUDIT_FINDING_NOT_CHECKED, c->head->origin, "more begins without an end than pairing keeps in mind");
	for (int code = 0; code < AUDIT_FINDING_COUNT; code++)
		end_run(c, (enum audit_finding_code)code);
	free(c);
	v->sum->logs++;
	return rc;
}

/* --- the store */

static void read_head(struct db_stmt *st, struct verify_head *ret)
{
	size_t len = 0;
	const void *root = db_col_blob(st, 4, &len);

	*ret = (struct verify_head){ .id = db_col_i64(st, 0), .size = db_col_i64(st, 2), .found = db_col_i64(st, 3),
		.min_idx = db_col_i64(st, 5), .pruned_by = db_col_type(st, 6) == DB_INT ? db_col_i64(st, 6) : -1 };
	ret->origin = mem_strdup(db_col_text(st, 1, NULL));
	ret->has_root = db_col_type(st, 4) != DB_NULL;
	ret->noted = db_col_i64(st, 7);
	ret->tenant_id = db_col_i64(st, 8);
	if (len == TREE_HASH)
		memcpy(ret->root, root, TREE_HASH);
}

static int count_records(struct verify *v, int64_t tenant_id, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_COUNT);
	int rc;

	db_bind_i64(st, 1, tenant_id);
	rc = db_step(st, err);
	if (rc == 1)
		v->total = (uint64_t)db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int check_next_log(struct verify *v, int64_t tenant_id, int64_t *after, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_AUDIT_NEXT_HEAD);
	struct verify_head h = { 0 };
	int rc;

	db_bind_i64(st, 1, *after);
	db_bind_i64(st, 2, tenant_id);
	rc = db_step(st, err);
	if (rc == 1)
		read_head(st, &h);
	db_stmt_put(&st);
	if (rc == 1) {
		*after = h.id;
		rc = check_log(v, &h, err);
		free(h.origin);
		return rc < 0 ? rc : 1;
	}
	return rc;
}

static int check_rows_of(struct verify *v, enum sql_id id, enum audit_finding_code code, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, id);
	int rc;

	while ((rc = db_step(st, err)) == 1)
		verify_tell_store(v, code, NULL, db_col_text(st, 0, NULL));
	db_stmt_put(&st);
	return rc;
}

static int check_schema(struct verify *v, bool *ret_sound, struct err *err)
{
	int rc = db_check_schema(v->db, err);

	*ret_sound = rc == 0;
	if (rc == ERR_CORRUPT)
		verify_tell_store(v, AUDIT_FINDING_SCHEMA, NULL, err->msg);
	return rc == ERR_CORRUPT ? 0 : rc;
}

static int check_store(struct verify *v, struct verify_aside **ret_aside, struct err *err)
{
	bool sound;
	int rc = check_schema(v, &sound, err);

	if (rc == 0)
		*ret_aside = verify_aside_start(v, sound);
	if (rc == 0)
		rc = check_rows_of(v, SQL_VERIFY_LIST_TWINS, AUDIT_FINDING_DICT, err);
	if (rc == 0)
		rc = check_rows_of(v, SQL_AUDIT_LIST_LOGLESS, AUDIT_FINDING_LOG_MISSING, err);
	if (rc == 0)
		rc = verify_payload_orphans(v, err);
	return rc;
}

int audit_verify(struct db *db, int64_t tenant_id, audit_found_fn *found, void *arg, struct audit_coverage *ret,
		 struct err *err)
{
	return audit_verify_with(db, tenant_id, NULL, found, arg, ret, err);
}

int audit_verify_with(struct db *db, int64_t tenant_id, const struct audit_evidence *with, audit_found_fn *found, void *arg,
		      struct audit_coverage *ret, struct err *err)
{
	static const struct audit_evidence none;
	struct verify v = { .db = db, .found = found, .arg = arg, .sum = ret, .with = with ? with : &none };
	struct verify_aside *aside = NULL;
	int64_t after = 0;
	int rc = 0, last;

	*ret = (struct audit_coverage){ 0 };
	v.commits = map_new();
	if (tenant_id == 0)
		rc = check_store(&v, &aside, err);
	if (rc == 0 && tenant_id == 0)
		v.rows = verify_rows_new();
	if (rc == 0 && v.with->progress)
		rc = count_records(&v, tenant_id, err);
	if (rc == 0)
		rc = verify_keys_open(&v, err);
	for (int more = 1; rc == 0 && more == 1;) {
		more = check_next_log(&v, tenant_id, &after, err);
		rc = more < 0 ? more : 0;
	}
	if (rc == 0 && v.rows)
		rc = verify_rows_end(&v, err);
	verify_rows_free(&v.rows);
	last = verify_marks_close(&v, rc == 0 && tenant_id == 0, err);
	verify_keys_close(&v);
	verify_payloads_close(&v);
	if (rc == 0)
		rc = last;
	last = aside ? verify_aside_end(&v, &aside, rc == 0 ? err : NULL) : 0;
	return rc < 0 ? rc : last;
}
