/* Sealed files (SC-101, SC-711): each is there, whole by itself, and what the catalog and the record that made it say;
 * those of a log join.  Their records are read with all others (units/units.h); all files come before the first log,
 * so that it is known what cannot be read. */

#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bundle/seal.h"
#include "db/db.h"

#include "verify_int.h"

struct verify_sealed {
	int64_t listed, met;            /* rows of the catalog whose records are to be read; such records */
};

/* A row of the catalog. */
struct listed {
	struct audit_sealed is;
	int64_t set_by;
};

static void tell(struct verify_log *c, enum audit_finding_code code, int64_t from, int64_t to, const char *detail)
{
	verify_tell(c->v, &(struct audit_finding){ .code = code, .origin = c->head->origin, .from = from, .to = to,
		.detail = detail });
}

static void take_digest(struct db_stmt *st, unsigned col, uint8_t ret[32])
{
	size_t len = 0;
	const void *p = db_col_blob(st, col, &len);

	memset(ret, 0, 32);
	if (len == 32)
		memcpy(ret, p, 32);
}

static void read_listed(struct db_stmt *st, int64_t log, struct listed *ret)
{
	*ret = (struct listed){ .is = { .log = log, .from = db_col_i64(st, 0), .to = db_col_i64(st, 1),
		.ts_min = db_col_i64(st, 2), .ts_max = db_col_i64(st, 3), .bytes = db_col_i64(st, 4) },
		.set_by = db_col_i64(st, 7) };
	take_digest(st, 5, ret->is.digest);
	take_digest(st, 6, ret->is.root);
	db_col_copy(st, 8, ret->is.path, sizeof(ret->is.path));
}

/* --- all files */

static void found_in(void *arg, const struct audit_finding *f)
{
	verify_tell(arg, f);
}

/* Of a log that begins there. */
static int look_at_files(struct verify *v, int64_t log, const char *origin, int64_t end, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_LIST_FILES);
	bool whole = false;
	struct listed l;
	int rc;

	db_bind_i64(st, 1, log);
	while ((rc = db_step(st, err)) == 1) {
		read_listed(st, log, &l);
		if (l.is.from != end || l.is.to <= l.is.from) {
			verify_tell(v, &(struct audit_finding){ .code = AUDIT_FINDING_SEGMENT, .origin = origin, .from = l.is.from,
				.to = l.is.to - 1, .detail = "a file does not begin where the one before it ends" });
			v->unreadable = true;
		}
		end = l.is.to;
		rc = audit_seal_check(v->db, origin, &l.is, found_in, v, &whole, err);
		v->unreadable = v->unreadable || !whole;
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int sealed_open(struct verify *v, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_LIST_SEALED);
	int rc;

	db_bind_i64(st, 1, v->tenant_id);
	while ((rc = db_step(st, err)) == 1) {
		char *origin = db_col_dup(st, 1);

		rc = look_at_files(v, db_col_i64(st, 0), origin, db_col_i64(st, 2), err);
		free(origin);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* --- the records that say so, of those that are read */

static int sealed_start(struct verify_log *c, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->v->db, SQL_VERIFY_LIST_FILES);
	struct listed l;
	int rc;

	c->sealed = mem_zalloc(sizeof(*c->sealed));
	db_bind_i64(st, 1, c->head->id);
	while ((rc = db_step(st, err)) == 1) {
		read_listed(st, c->head->id, &l);
		c->sealed->listed += l.set_by >= c->next;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* Whether the row is what the record says. */
static bool is_said(const struct audit_value *ext, const struct listed *l)
{
	size_t range_len = 0, digest_len = 0, root_len = 0;
	const uint8_t *range = audit_field_find(ext->p, ext->len, AUDIT_TAG_RANGE, &range_len);
	const uint8_t *digest = audit_field_find(ext->p, ext->len, AUDIT_TAG_BUNDLE, &digest_len);
	const uint8_t *root = audit_field_find(ext->p, ext->len, AUDIT_TAG_ROOT, &root_len);

	return range && range_len == 16 && digest && digest_len == 32 && root && root_len == 32 &&
		audit_get_be(range, 8) == (uint64_t)l->is.from && audit_get_be(range + 8, 8) == (uint64_t)l->is.to &&
		memcmp(digest, l->is.digest, 32) == 0 && memcmp(root, l->is.root, 32) == 0;
}

/* The file went with its records, as the tree at the cut says (SC-801). */
static bool was_pruned(const struct verify_log *c, const struct audit_value *ext)
{
	size_t len = 0;
	const uint8_t *range = ext->present ? audit_field_find(ext->p, ext->len, AUDIT_TAG_RANGE, &len) : NULL;

	return range && len == 16 && audit_get_be(range + 8, 8) <= (uint64_t)c->head->min_idx;
}

static int sealed_record(struct verify_log *c, const struct audit_read *got, struct err *err)
{
	const struct audit_value *ext = &got->row.v[COL_EXT];
	struct db_stmt *st;
	struct listed l;
	int rc;

	if (!c->sealed || verify_kind(&got->row) != AUDIT_SEGMENT_SEAL)
		return 0;
	st = db_stmt_get(c->v->db, SQL_VERIFY_FILE_OF);
	db_bind_i64(st, 1, c->head->id);
	db_bind_i64(st, 2, got->idx);
	rc = db_step(st, err);
	if (rc == 1)
		read_listed(st, c->head->id, &l);
	db_stmt_put(&st);
	if (rc == 1 && ext->present && is_said(ext, &l))
		c->sealed->met++;
	else if (rc == 1 || (rc == 0 && !was_pruned(c, ext)))
		tell(c, AUDIT_FINDING_SEGMENT, got->idx, got->idx, "the catalog has no such file as this record says");
	return rc < 0 ? rc : 0;
}

static int sealed_end(struct verify_log *c, struct err *err)
{
	(void)err;
	if (c->sealed && c->sealed->met < c->sealed->listed)
		tell(c, AUDIT_FINDING_SEGMENT, -1, -1, "the catalog has a file that no record says was sealed");
	return 0;
}

static void sealed_close(struct verify_log *c)
{
	free(c->sealed);
	c->sealed = NULL;
}

const struct verify_step verify_sealed = {
	.name = "sealed", .open = sealed_open, .start_log = sealed_start, .record = sealed_record, .end = sealed_end,
	.close = sealed_close, .form = 1,
};
