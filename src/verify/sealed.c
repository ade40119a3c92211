/* Sealed files (SC-101, SC-711): each is there, whole by itself, and what the catalog and the record that made it say;
 * those of a log join.  Their records are read with all others (units/units.h); all files come before the first log,
 * so that it is known what cannot be read. */

#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "bundle/seal.h"
#include "db/db.h"
#include "forms/forms.h"

#include "verify_int.h"

/* Of the store: files that were whole, for an earlier verification and for this one. */
struct verify_files { struct audit_seal_known was, now; };

struct verify_sealed {
	int64_t listed, met;            /* rows of the catalog whose records are to be read; such records */
};

static void tell(struct verify_log *c, enum audit_finding_code code, int64_t from, int64_t to, const char *detail)
{
	verify_tell(c->v, &(struct audit_finding){ .code = code, .origin = c->head->origin, .from = from, .to = to,
		.detail = detail });
}

/* --- those that are known (SC-705) */

static void sealed_know(struct verify *v, struct unpack *in)
{
	v->files = mem_zalloc(sizeof(*v->files));
	audit_seal_known_load(&v->files->was, in);
}

/* Some of its records are to be read again (SC-706). */
static bool is_chosen(const struct verify *v, const struct audit_sealed *l)
{
	for (size_t i = 0; v->mark && i < v->mark->nagain; i++) {
		const struct verify_range *r = &v->mark->again[i];

		if (r->log == l->log && r->from < l->to && l->from < r->to)
			return true;
	}
	return false;
}

/* --- all files */

static void found_in(void *arg, const struct audit_finding *f)
{
	verify_tell(arg, f);
}

/* Tells of the first file of those that are read; 0: there is none. */
static int take_file(struct verify *v, struct audit_seal_checks *checks, struct err *err)
{
	struct audit_seal_checked got;
	int rc = audit_seal_checks_next(checks, found_in, v, &got, err);

	if (rc != 1)
		return rc;
	v->unreadable = v->unreadable || !got.follows || !got.whole;
	if (!got.whole && got.archived)
		(void)map_set_u64(v->away ? v->away : (v->away = map_new()), (uint64_t)got.log, v);
	return 1;
}

/* Of a log that begins there. */
static int look_at_files(struct verify *v, struct audit_seal_checks *checks, int64_t log, const char *origin,
			 int64_t end, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_LIST_FILES);
	struct audit_sealed l;
	int rc;

	db_bind_i64(st, 1, log);
	while ((rc = db_step(st, err)) == 1) {
		if (audit_seal_checks_full(checks) && (rc = take_file(v, checks, err)) < 0)
			break;
		audit_sealed_row(st, log, &l);
		audit_seal_checks_put(checks, origin, &l, end, is_chosen(v, &l));
		end = l.to;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int look_at_logs(struct verify *v, struct audit_seal_checks *checks, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_LIST_SEALED);
	int rc;

	db_bind_i64(st, 1, v->tenant_id);
	while ((rc = db_step(st, err)) == 1) {
		char *origin = db_col_dup(st, 1);

		rc = look_at_files(v, checks, db_col_i64(st, 0), origin, db_col_i64(st, 2), err);
		free(origin);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int sealed_open(struct verify *v, struct err *err)
{
	struct audit_seal_checks *checks;
	int rc;

	if (!v->files)
		v->files = mem_zalloc(sizeof(*v->files));
	checks = audit_seal_checks_new(v->db, v->with->threads, &v->files->was, &v->files->now);
	rc = look_at_logs(v, checks, err);
	while (rc == 0 && (rc = take_file(v, checks, err)) == 1)
		rc = 0;
	audit_seal_checks_free(&checks);
	return rc;
}

static void sealed_save(const struct verify *v, struct str *to)
{
	audit_seal_known_save(&v->files->now, to);
}

/* The opening has taken it up; here it is looked at as strictly as all else. */
static void sealed_load(struct verify *v, struct unpack *in)
{
	struct audit_seal_known known = { NULL, 0, 0 };

	(void)v;
	audit_seal_known_load(&known, in);
	audit_seal_known_fini(&known);
}

static void sealed_free(struct verify *v)
{
	if (!v->files)
		return;
	audit_seal_known_fini(&v->files->was);
	audit_seal_known_fini(&v->files->now);
	free(v->files);
	v->files = NULL;
}

/* --- the records that say so, of those that are read */

static int sealed_start(struct verify_log *c, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->v->db, SQL_VERIFY_LIST_FILES);
	struct audit_sealed l;
	int rc;

	c->sealed = mem_zalloc(sizeof(*c->sealed));
	db_bind_i64(st, 1, c->head->id);
	while ((rc = db_step(st, err)) == 1) {
		audit_sealed_row(st, c->head->id, &l);
		c->sealed->listed += (l.set_by >= c->next) + (l.moved_by >= c->next || (l.moved_by < 0 && forms_is_archived(l.path)));
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* The file went with its records, as the tree at the cut says (SC-801). */
static bool was_pruned(const struct verify_log *c, const struct audit_value *ext)
{
	size_t len = 0;
	const uint8_t *range = ext->present ? audit_field_find(ext->p, ext->len, AUDIT_TAG_RANGE, &len) : NULL;

	return range && len == 16 && audit_get_be(range + 8, 8) <= (uint64_t)c->head->min_idx;
}

/* A record that moved a file which another one has moved since: that one is compared. */
static int moved_again(struct verify_log *c, const struct audit_value *ext, int64_t idx, struct err *err)
{
	size_t len = 0;
	const uint8_t *range = ext->present ? audit_field_find(ext->p, ext->len, AUDIT_TAG_RANGE, &len) : NULL;
	struct db_stmt *st = db_stmt_get(c->v->db, SQL_VERIFY_MOVED_BY);
	int rc;

	db_bind_i64(st, 1, c->head->id);
	db_bind_i64(st, 2, range && len == 16 ? (int64_t)audit_get_be(range, 8) : -1);
	rc = db_step(st, err);
	rc = rc == 1 ? db_col_i64(st, 0) > idx : rc;
	db_stmt_put(&st);
	return rc;
}

static int sealed_record(struct verify_log *c, const struct audit_read *got, struct err *err)
{
	const struct audit_value *ext = &got->row.v[COL_EXT];
	const bool moved = verify_kind(&got->row) == AUDIT_SEGMENT_MOVE;
	struct db_stmt *st;
	struct audit_sealed l;
	int rc;

	if (!c->sealed || (verify_kind(&got->row) != AUDIT_SEGMENT_SEAL && !moved))
		return 0;
	st = db_stmt_get(c->v->db, SQL_VERIFY_FILE_OF);
	db_bind_i64(st, 1, c->head->id);
	db_bind_i64(st, 2, got->idx);
	rc = db_step(st, err);
	if (rc == 1)
		audit_sealed_row(st, c->head->id, &l);
	db_stmt_put(&st);
	if (rc == 1 && ext->present && audit_sealed_said(&l, ext->p, ext->len, moved) &&
	    (moved ? l.moved_by : l.set_by) == got->idx) {
		c->sealed->met++;
		return 0;
	}
	if (rc == 0)
		rc = was_pruned(c, ext) || (moved && moved_again(c, ext, got->idx, err) == 1) ? 2 : 0;
	if (rc == 0 || rc == 1)
		tell(c, AUDIT_FINDING_SEGMENT, got->idx, got->idx, "the catalog has no such file as this record says");
	return rc < 0 ? rc : 0;
}

static int sealed_end(struct verify_log *c, struct err *err)
{
	(void)err;
	if (c->sealed && c->sealed->met < c->sealed->listed)
		tell(c, AUDIT_FINDING_SEGMENT, -1, -1, "the catalog has a file that no record says was sealed, or moved there");
	return 0;
}

static void sealed_close(struct verify_log *c)
{
	free(c->sealed);
	c->sealed = NULL;
}

const struct verify_step verify_sealed = {
	.name = "sealed", .know = sealed_know, .open = sealed_open,
	.start_log = sealed_start, .record = sealed_record, .end = sealed_end,
	.close = sealed_close, .free = sealed_free, .save = sealed_save, .load = sealed_load, .form = 2,
};
