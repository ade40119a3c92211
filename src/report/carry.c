/* Records for those who carry them elsewhere: the members of audit export that a record has, each with a name of its
 * own.  The statement hands over the columns, texts.c makes words of them, and nothing becomes a tree (OP-308).  A call
 * is one read transaction, whose size is the caller's (OP-007). */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "report/carry.h"
#include "tlog/tree.h"

#include "report_int.h"

enum { COLUMN_AT = 1, COLUMN_LEAF = 2, COLUMNS_MAX = 64 };

struct report_carrier {
	struct db *db;
	struct report_texts *texts;
	struct report_column column[COLUMNS_MAX];
	struct reply row;
	char uid[REPORT_UID_SIZE];
};

struct report_carrier *report_carrier_new(struct db *db, bool clear)
{
	struct report_carrier *c = mem_zalloc(sizeof(*c));
	unsigned n = 0;

	for (const struct report_column *of = report_export_columns; of->name && n + 1 < COLUMNS_MAX; of++)
		if (clear || strcmp(of->name, "principal") != 0)
			c->column[n++] = *of;
	c->db = db;
	c->texts = report_texts_new(db, c->column, NULL, true);
	return c;
}

void report_carrier_free(struct report_carrier **cp)
{
	struct report_carrier *c = *cp;

	if (!c)
		return;
	*cp = NULL;
	report_texts_free(&c->texts);
	str_fini(&c->row.text);
	free(c);
}

/* OP-304 */
static void make_uid(struct report_carrier *c, const char *origin, int64_t idx, const void *leaf)
{
	uint8_t at[8], digest[DIGEST_SIZE];
	const struct digest_part parts[] = { { origin, strlen(origin) + 1 }, { at, sizeof(at) }, { leaf, TREE_HASH } };

	for (size_t i = 0; i < sizeof(at); i++)
		at[i] = (uint8_t)((uint64_t)idx >> (56 - 8 * i));
	digest_sha256_parts(parts, NELEMS(parts), digest);
	text_hex(digest, (REPORT_UID_SIZE - 1) / 2, c->uid);
}

static int make_row(struct report_carrier *c, const struct report_carry *of, struct db_stmt *st,
		    struct report_carried *ret, struct err *err)
{
	struct str *text = &c->row.text;
	char hex[2 * TREE_HASH + 1];
	const void *leaf;
	size_t len;
	int rc;

	leaf = db_col_blob(st, COLUMN_LEAF, &len);
	if (len != TREE_HASH)
		return err_set(err, ERR_CORRUPT, of->origin, "record %lld of %s has no leaf", (long long)ret->idx, of->origin);
	make_uid(c, of->origin, ret->idx, leaf);
	text_hex(leaf, TREE_HASH, hex);
	str_reset(text);
	str_printf(text, "{\"id\":\"%s\",", c->uid);
	rc = report_texts_row(c->texts, st, &c->row, err);
	str_printf(text, ",\"leaf\":\"%s\"}", hex);
	ret->uid = c->uid;
	ret->json = str_text(text);
	ret->len = text->len;
	return rc;
}

int report_carry(struct report_carrier *c, struct report_carry *of, report_carried_fn *fn, void *arg,
		 int64_t *ret_next, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->db, SQL_REPORT_CARRIED);
	int64_t rows = 0;
	int rc = 0, got = 1;

	*ret_next = of->from;
	of->first = -1;
	db_bind_i64(st, 1, of->log);
	db_bind_i64(st, 2, of->from);
	db_bind_i64(st, 3, of->to);
	db_bind_row(st, 4);
	report_texts_page(c->texts, of->log, of->tenant_id);
	while (rc == 0 && rows < of->most_rows && (got = db_step(st, err)) == 1) {
		struct report_carried r = { .idx = db_col_i64(st, COLUMN_AT) };

		rows++;
		report_texts_basics(st, &r.ts_us, &r.kind, &r.outcome);
		if (!of->wanted || of->wanted(of->wanted_arg, r.kind)) {
			rc = make_row(c, of, st, &r, err);
			rc = rc ? rc : fn(arg, &r, err);
		}
		if (rc >= 0)
			*ret_next = r.idx + 1;
		of->first = of->first < 0 ? r.idx : of->first;
	}
	db_stmt_put(&st);
	if (got == 0)
		*ret_next = of->to;
	rc = got < 0 ? got : rc;
	return rc < 0 ? rc : 0;
}
