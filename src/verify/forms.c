/* Blocks of a log (SCALE 5, SC-101): they join without a gap, each is what an encoder makes, what stands beside its
 * columns is what its records come to (SC-207), and rows that they have replaced say the same.  What the records are is
 * looked at where they are read; this comes first, so that it is known what cannot be. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "block/block.h"
#include "db/db.h"
#include "forms/forms.h"

#include "verify_int.h"

struct verify_forms {
	int64_t line;                   /* where blocks end */
	struct audit_reader *leftovers; /* of rows before it */
	struct audit_page page;
	struct audit_read left;
	int more;                       /* 1: left is one */
};

/* --- the blocks by themselves: of all logs before anything is read by them */

struct blocks { struct verify *v; int64_t log, end, blocks; char *origin; struct block_reader *reader; };

static void tell_block(const struct blocks *of, enum audit_finding_code code, const struct block *b, const char *detail)
{
	const bool place = b->first >= 0 && b->cnt > 0;

	verify_tell(of->v, &(struct audit_finding){ .code = code, .origin = of->origin, .from = place ? b->first : -1,
		.to = place ? b->first + b->cnt - 1 : -1, .detail = detail });
}

static struct block_bytes bytes_of(struct db_stmt *st, unsigned col)
{
	struct block_bytes b = { 0 };

	b.p = db_col_blob(st, col, &b.len);
	return b;
}

/* Behind the one before; the first one may begin in what was pruned. */
static bool check_place(const struct blocks *of, const struct block *b)
{
	if (b->first > of->end) {
		verify_tell(of->v, &(struct audit_finding){ .code = AUDIT_FINDING_GAP, .origin = of->origin, .from = of->end,
			.to = b->first - 1, .detail = "a block is missing" });
		return false;
	}
	if (b->first < of->end && of->blocks > 0) {
		tell_block(of, AUDIT_FINDING_GAP, b, "the block begins before the one before it ends");
		return false;
	}
	return true;
}

static bool check_block(struct blocks *of, const struct block *b)
{
	struct err err = { 0 };
	bool good = false;

	if (block_open(of->reader, b, BLOCK_ALL_COLUMNS, &err) < 0) {
		tell_block(of, AUDIT_FINDING_PARSE, b, err.msg);
		if (b->first < 0 || b->cnt < 1 || b->cnt > BLOCK_RECORDS_MAX || b->first > INT64_MAX - BLOCK_RECORDS_MAX)
			return false;
	} else {
		good = true;
		if (block_derived(of->reader, &err) < 0)
			tell_block(of, AUDIT_FINDING_INDEX, b, err.msg);
	}
	good = check_place(of, b) && good;
	of->end = b->first + b->cnt;
	of->blocks++;
	return good;
}

static int check_blocks(struct blocks *of, struct err *err)
{
	struct db_stmt *st = db_stmt_get(of->v->db, SQL_VERIFY_LIST_BLOCKS);
	int rc;

	db_bind_i64(st, 1, of->log);
	while ((rc = db_step(st, err)) == 1) {
		const struct block b = { .first = db_col_i64(st, 0), .cnt = db_col_i64(st, 1), .fmt = db_col_i64(st, 2),
			.ts_min = db_col_i64(st, 3), .ts_max = db_col_i64(st, 4), .cols = bytes_of(st, 5),
			.hash = bytes_of(st, 6), .zone = bytes_of(st, 7) };

		if (!check_block(of, &b))
			of->v->unreadable = true;
	}
	db_stmt_put(&st);
	return rc;
}

static int forms_open(struct verify *v, struct err *err)
{
	struct db_stmt *st;
	int rc;

	if (!forms_seen(v->db))
		return 0;
	st = db_stmt_get(v->db, SQL_VERIFY_LIST_FOLDED);
	db_bind_i64(st, 1, v->tenant_id);
	while ((rc = db_step(st, err)) == 1) {
		struct blocks of = { .v = v, .log = db_col_i64(st, 0), .end = db_col_i64(st, 2), .origin = db_col_dup(st, 1),
			.reader = block_reader_new(NULL) };

		rc = check_blocks(&of, err);
		block_reader_free(&of.reader);
		free(of.origin);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc;
}

/* --- rows that they have replaced */

static int next_leftover(struct verify_forms *forms, struct err *err)
{
	forms->more = audit_reader_next(forms->leftovers, &forms->page, &forms->left, err);
	return forms->more < 0 ? forms->more : 0;
}

static int check_kept(struct verify_log *c, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->v->db, SQL_VERIFY_LIST_KEPT_TWICE);
	int rc;

	db_bind_i64(st, 1, c->head->id);
	db_bind_i64(st, 2, c->forms->line);
	while ((rc = db_step(st, err)) == 1)
		verify_tell_record(c, db_col_i64(st, 1) ? AUDIT_FINDING_FORM : AUDIT_FINDING_ERASED_BUT_PRESENT,
				   db_col_i64(st, 0), db_col_i64(st, 0));
	db_stmt_put(&st);
	return rc;
}

/* Leftovers before a position: there is no record that they could be. */
static int pass_leftovers(struct verify_log *c, int64_t before, struct err *err)
{
	struct verify_forms *forms = c->forms;
	int rc = 0;

	while (rc == 0 && forms->more == 1 && forms->left.idx < before) {
		verify_tell_record(c, forms->left.idx >= 0 && forms->left.idx < c->head->min_idx
				   ? AUDIT_FINDING_ERASED_BUT_PRESENT : AUDIT_FINDING_FORM, forms->left.idx, forms->left.idx);
		rc = next_leftover(forms, err);
	}
	return rc;
}

/* --- the step */

static int forms_begin(struct verify_log *c, struct err *err)
{
	struct verify_forms *forms;
	int64_t line = INT64_MIN;
	int rc = forms_seen(c->v->db) ? forms_line(c->v->db, c->head->id, &line, err) : 0;

	if (rc < 0 || line == INT64_MIN)
		return rc;
	forms = c->forms = mem_zalloc(sizeof(*forms));
	forms->line = line;
	rc = check_kept(c, err);
	forms->leftovers = audit_reader_new(c->v->db);
	forms->page = (struct audit_page){ .log = c->head->id, .from = INT64_MIN, .to = forms->line,
		.origin = c->head->origin, .leftovers = true };
	return rc < 0 ? rc : next_leftover(forms, err);
}

static int forms_record(struct verify_log *c, const struct audit_read *got, struct err *err)
{
	struct verify_forms *forms = c->forms;
	int rc;

	if (!forms || forms->more != 1)
		return 0;
	rc = pass_leftovers(c, got->idx, err);
	if (rc < 0 || forms->more != 1 || forms->left.idx != got->idx)
		return rc;
	if (forms->left.findings || memcmp(forms->left.leaf, got->leaf, TREE_HASH) != 0)
		verify_tell_record(c, AUDIT_FINDING_FORM, got->idx, got->idx);
	return next_leftover(forms, err);
}

static int forms_end(struct verify_log *c, struct err *err)
{
	return c->forms ? pass_leftovers(c, INT64_MAX, err) : 0;
}

static void forms_close(struct verify_log *c)
{
	if (c->forms)
		audit_reader_free(&c->forms->leftovers);
	free(c->forms);
	c->forms = NULL;
}

const struct verify_step verify_forms = {
	.name = "forms", .open = forms_open, .begin = forms_begin, .record = forms_record, .end = forms_end,
	.close = forms_close,
};
