/* Verification of a store (AUDIT 8): the walk.  Each log is read record by record, its tree is computed anew, and
 * every step of the table looks at what passes; what the head of the log says is compared here.  Called by
 * toolcrib-verify and by the server's own checks, in any thread with a read-only connection; nothing that is read
 * is believed. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "db/db.h"
#include "verify/verify.h"

#include "verify_int.h"

/* Retention comes before those that need the tree at the cut, anchors before checkpoints, which settle what those
 * owe. */
static const struct verify_step *const steps[] = {
	&verify_integrity, &verify_forms, &verify_lifecycle, &verify_retention, &verify_payload, &verify_anchors,
	&verify_checkpoints, &verify_registry, &verify_approvals,
};

/* --- one log */

static int begin_steps(struct verify_log *c, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < NELEMS(steps) && rc == 0; i++)
		if (steps[i]->begin)
			rc = steps[i]->begin(c, err);
	return rc;
}

static int end_steps(struct verify_log *c, struct err *err)
{
	int rc = 0;

	for (size_t i = NELEMS(steps); i > 0 && rc == 0; i--)
		if (steps[i - 1]->end)
			rc = steps[i - 1]->end(c, err);
	return rc;
}

static void close_steps(struct verify_log *c)
{
	for (size_t i = NELEMS(steps); i > 0; i--)
		if (steps[i - 1]->close)
			steps[i - 1]->close(c);
	verify_tell_close(c);
	free(c->nodes.v);
}

static void tell_record(struct verify_log *c, const struct audit_read *got)
{
	static const struct { unsigned bit; enum audit_finding_code code; } bits[] = {
		{ AUDIT_FOUND_TYPE, AUDIT_FINDING_TYPE }, { AUDIT_FOUND_DICT, AUDIT_FINDING_DICT },
		{ AUDIT_FOUND_ENCODING, AUDIT_FINDING_ENCODING }, { AUDIT_FOUND_LEAF, AUDIT_FINDING_LEAF },
	};

	for (size_t i = 0; i < NELEMS(bits); i++)
		if (got->findings & bits[i].bit)
			verify_tell_record(c, bits[i].code, got->idx, got->idx);
}

static void sum_up(struct audit_coverage *sum, const struct audit_value *ts)
{
	sum->records++;
	if (ts->present && (sum->first_us == 0 || (uint64_t)ts->n < sum->first_us))
		sum->first_us = (uint64_t)ts->n;
	if (ts->present && (uint64_t)ts->n > sum->last_us)
		sum->last_us = (uint64_t)ts->n;
}

/* *next: the index that must come. */
static int check_record(struct verify_log *c, const struct audit_read *got, int64_t *next, struct err *err)
{
	int rc = 0;

	if (got->idx > *next)
		verify_tell_record(c, AUDIT_FINDING_GAP, *next, got->idx - 1);
	*next = got->idx + 1;
	tell_record(c, got);
	tree_append_nodes(&c->tree, got->leaf, audit_tile_note, &c->nodes);
	sum_up(c->v->sum, &got->row.v[COL_TS]);
	for (size_t i = 0; i < NELEMS(steps) && rc == 0; i++)
		if (steps[i]->record)
			rc = steps[i]->record(c, got, err);
	c->nodes.n = 0;
	return rc;
}

static void check_head(struct verify_log *c)
{
	const struct verify_head *h = c->head;
	uint8_t root[TREE_HASH];

	if (h->found < h->size)
		verify_tell_record(c, AUDIT_FINDING_TRUNCATED, h->found, h->size - 1);
	if (h->found > h->size)
		verify_tell_record(c, AUDIT_FINDING_UNCOVERED_TAIL, h->size, h->found - 1);
	tree_root(&c->tree, root);
	if (!h->has_root)
		verify_tell_store(c->v, AUDIT_FINDING_NOT_CHECKED, h->origin, "the log has no tree yet: it is from an older release");
	else if (memcmp(root, h->root, TREE_HASH) != 0)
		verify_tell_store(c->v, AUDIT_FINDING_ROOT, h->origin, NULL);
}

static void tell_progress(const struct verify *v)
{
	if (v->with->progress)
		v->with->progress(v->arg, v->sum->records, v->total);
}

/* What needs a block that cannot be read, which was told. */
static int left_out(struct verify *v, const char *origin, int rc, const struct err *err)
{
	if (rc != ERR_CORRUPT || !v->unreadable)
		return rc;
	verify_tell_store(v, AUDIT_FINDING_NOT_CHECKED, origin, err->msg);
	return 0;
}

static int check_log(struct verify *v, const struct verify_head *h, struct err *err)
{
	struct audit_reader *reader = audit_reader_new(v->db);
	struct audit_page page = { .log = h->id, .origin = h->origin, .from = h->min_idx, .to = h->size };
	struct verify_log c = { .v = v, .head = h };
	int64_t next = h->min_idx;
	struct audit_read got;
	int rc = begin_steps(&c, err);

	tell_progress(v);
	while (rc == 0 && (rc = audit_reader_next(reader, &page, &got, err)) == 1) {
		rc = check_record(&c, &got, &next, err);
		if (v->sum->records % AUDIT_VERIFY_STEP == 0)
			tell_progress(v);
	}
	audit_reader_free(&reader);
	if (rc == 0 && next < h->size && next < h->found)
		verify_tell_record(&c, AUDIT_FINDING_GAP, next, h->size - 1);
	if (rc == 0) {
		check_head(&c);
		rc = end_steps(&c, err);
	}
	rc = left_out(v, h->origin, rc, err);
	close_steps(&c);
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

static int count_records(struct verify *v, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_COUNT);
	int rc;

	db_bind_i64(st, 1, v->tenant_id);
	rc = db_step(st, err);
	if (rc == 1)
		v->total = (uint64_t)db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int check_next_log(struct verify *v, int64_t *after, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_AUDIT_NEXT_HEAD);
	struct verify_head h = { 0 };
	int rc;

	db_bind_i64(st, 1, *after);
	db_bind_i64(st, 2, v->tenant_id);
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

static int check_store(struct verify *v, struct err *err)
{
	int64_t after = 0;
	int rc = 0;

	for (size_t i = 0; i < NELEMS(steps) && rc == 0 && !v->sum->foreign; i++)
		if (steps[i]->open)
			rc = left_out(v, NULL, steps[i]->open(v, err), err);
	if (v->sum->foreign)
		return rc;
	if (rc == 0 && v->with->progress)
		rc = count_records(v, err);
	for (int more = 1; rc == 0 && more == 1;) {
		more = left_out(v, NULL, check_next_log(v, &after, err), err);
		rc = more < 0 ? more : 0;
	}
	for (size_t i = NELEMS(steps); i > 0 && rc == 0; i--)
		if (steps[i - 1]->finish)
			rc = left_out(v, NULL, steps[i - 1]->finish(v, err), err);
	return rc;
}

int audit_verify_with(struct db *db, int64_t tenant_id, const struct audit_evidence *with, audit_found_fn *found,
		      void *arg, struct audit_coverage *ret, struct err *err)
{
	static const struct audit_evidence none;
	struct verify v = { .db = db, .tenant_id = tenant_id, .found = found, .arg = arg, .sum = ret,
			    .with = with ? with : &none };
	int rc;

	*ret = (struct audit_coverage){ 0 };
	rc = check_store(&v, err);
	for (size_t i = NELEMS(steps); i > 0; i--)
		if (steps[i - 1]->free)
			steps[i - 1]->free(&v);
	return rc;
}

int audit_verify(struct db *db, int64_t tenant_id, audit_found_fn *found, void *arg, struct audit_coverage *ret,
		 struct err *err)
{
	return audit_verify_with(db, tenant_id, NULL, found, arg, ret, err);
}
