/* Rows that records vouch for: their digests, and the fields of the record (AUDIT A-417). */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/rows.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "db/db.h"

#include "audit_int.h"

enum { ROW_COL_LOG, ROW_COL_IDX, ROW_COL_ID };  /* of the statements rows_*; the rest of the digest follows */
#define ROWS_PAGE 256                   /* rows read in one transaction */
#define META_VOUCHED "vouched"          /* set once all rows have records */

static const struct {
	const char *name;
	enum sql_id get, vouch;
} kinds[AUDIT_ROW_END] = {
	[AUDIT_ROW_TENANT] = { "tenant", SQL_ROWS_TENANT, SQL_ROWS_VOUCH_TENANT },
	[AUDIT_ROW_PRINCIPAL] = { "principal", SQL_ROWS_PRINCIPAL, SQL_ROWS_VOUCH_PRINCIPAL },
	[AUDIT_ROW_CRED] = { "cred", SQL_ROWS_CRED, SQL_ROWS_VOUCH_CRED },
	[AUDIT_ROW_GRANT] = { "grant", SQL_ROWS_GRANT, SQL_ROWS_VOUCH_GRANT },
	[AUDIT_ROW_TOOL] = { "tool", SQL_ROWS_TOOL, SQL_ROWS_VOUCH_TOOL },
	[AUDIT_ROW_SCHEMA] = { "schema", SQL_ROWS_SCHEMA, SQL_ROWS_VOUCH_SCHEMA },
	[AUDIT_ROW_UPSTREAM] = { "upstream", SQL_ROWS_UPSTREAM, SQL_ROWS_VOUCH_UPSTREAM },
	[AUDIT_ROW_SECRET] = { "secret", SQL_ROWS_SECRET, SQL_ROWS_VOUCH_SECRET },
	[AUDIT_ROW_LIMIT] = { "limit", SQL_ROWS_LIMIT, SQL_ROWS_VOUCH_LIMIT },
	[AUDIT_ROW_LEVEL] = { "level", SQL_ROWS_LEVEL, SQL_ROWS_VOUCH_LEVEL },
	[AUDIT_ROW_UPSTREAM_TOOL] = { "upstream_tool", SQL_ROWS_UPSTREAM_TOOL, SQL_ROWS_VOUCH_UPSTREAM_TOOL },
};

const char *audit_row_name(unsigned kind)
{
	return kind > 0 && kind < AUDIT_ROW_END ? kinds[kind].name : "row";
}

/* --- digests */

static void add_field(struct digest *d, unsigned tag, const void *p, size_t len)
{
	uint8_t head[6];

	audit_put_be(head, tag, 2);
	audit_put_be(head + 2, len, 4);
	digest_put(d, head, sizeof(head));
	digest_put(d, p, len);
}

/* "TCRR", 1, the kind, then the columns as fields: NULL is left out, integers have 8 bytes. */
static void digest_row(struct db_stmt *st, unsigned kind, uint8_t ret[AUDIT_ROW_DIGEST])
{
	struct digest *d = digest_new();
	uint8_t number[8];

	digest_put(d, "TCRR\1", 5);
	audit_put_be(number, kind, 2);
	digest_put(d, number, 2);
	for (unsigned col = ROW_COL_ID; col < db_col_count(st); col++) {
		size_t len = 0;
		const void *p = NULL;

		switch (db_col_type(st, col)) {
		case DB_NULL:
			continue;
		case DB_INT:
			audit_put_be(number, (uint64_t)db_col_i64(st, col), 8);
			p = number;
			len = 8;
			break;
		case DB_FLOAT:
		case DB_TEXT:
		case DB_BLOB:
			p = db_col_blob(st, col, &len);
			break;
		}
		add_field(d, col - ROW_COL_ID + 1, p, len);
	}
	digest_end(&d, ret);
}

int audit_rows_page(struct db *db, unsigned kind, int64_t *from, audit_vouched_fn *fn, void *arg, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, kinds[kind].get);
	int rows = 0, rc;

	db_bind_i64(st, 1, *from);
	db_bind_i64(st, 2, ROWS_PAGE);
	while ((rc = db_step(st, err)) == 1) {
		struct audit_vouched row = { .kind = kind, .id = db_col_i64(st, ROW_COL_ID), .log = db_col_i64(st, ROW_COL_LOG),
			.idx = db_col_type(st, ROW_COL_IDX) == DB_INT ? db_col_i64(st, ROW_COL_IDX) : -1 };

		rows++;
		*from = row.id + 1;
		digest_row(st, kind, row.digest);
		rc = fn(arg, &row, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : rows == ROWS_PAGE;
}

/* 1, or 0 when there is no such row. */
static int row_digest(struct db *db, unsigned kind, int64_t id, uint8_t ret[AUDIT_ROW_DIGEST], struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, kinds[kind].get);
	int rc;

	db_bind_i64(st, 1, id);
	db_bind_i64(st, 2, 1);
	rc = db_step(st, err);
	if (rc == 1 && db_col_i64(st, ROW_COL_ID) == id)
		digest_row(st, kind, ret);
	else if (rc == 1)
		rc = 0;
	db_stmt_put(&st);
	return rc;
}

/* --- what a record says of a row */

uint64_t audit_row_key(unsigned kind, int64_t id)
{
	return (uint64_t)kind << AUDIT_ROW_KIND_SHIFT | (uint64_t)id;
}

/* 32 bytes, zero when the row was deleted; NULL: nothing. */
static const uint8_t *record_row(const void *ext, size_t len, uint64_t key)
{
	size_t nkeys = 0, ndigests = 0;
	const uint8_t *keys = audit_field_find(ext, len, AUDIT_TAG_KEYS, &nkeys);
	const uint8_t *digests = audit_field_find(ext, len, AUDIT_TAG_CONFIG, &ndigests);

	if (!keys || !digests || nkeys / 8 != ndigests / AUDIT_ROW_DIGEST)
		return NULL;
	for (size_t i = 0; i < nkeys / 8; i++)
		if (audit_get_be(keys + 8 * i, 8) == key)
			return digests + AUDIT_ROW_DIGEST * i;
	return NULL;
}

/* The same of the record at a place; 1 when it says something. */
static int record_of(struct db *db, int64_t log, int64_t idx, uint64_t key, uint8_t ret[AUDIT_ROW_DIGEST],
		     struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ROWS_GET_RECORD);
	const uint8_t *digest = NULL;
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, idx);
	rc = db_step(st, err);
	if (rc == 1 && audit_rows_speak(db_col_i64(st, 0))) {
		size_t len = 0;
		const void *ext = db_col_blob(st, 1, &len);

		digest = record_row(ext, len, key);
		if (digest)
			memcpy(ret, digest, AUDIT_ROW_DIGEST);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : digest != NULL;
}

/* Whose keys and hashes are rows and digests: changes, commands, and the start that adopts. */
bool audit_rows_speak(int64_t kind)
{
	return (kind >= AUDIT_CRED_CREATE && kind <= AUDIT_DEFINITION_REMOVE) || kind == AUDIT_ADMIN_CMD ||
	       kind == AUDIT_SERVER_START || (kind >= AUDIT_KEY_ROTATE && kind <= AUDIT_KEY_DESTROY);
}

/* --- rows that wait for a record */

struct pending {
	size_t n;
	struct waiting {
		unsigned kind;
		int64_t id;
		uint8_t before[AUDIT_ROW_DIGEST], after[AUDIT_ROW_DIGEST];
		bool had, has;
	} *row;
	uint8_t *keys, *digests;        /* as they stand in the record */
};

static void pending_free(struct pending *p)
{
	free(p->row);
	free(p->keys);
	free(p->digests);
}

static int add_waiting(struct pending *p, struct db *db, struct db_stmt *st, struct err *err)
{
	struct waiting w = { .kind = (unsigned)db_col_i64(st, 0), .id = db_col_i64(st, 1) };
	bool known = db_col_type(st, 3) == DB_INT;
	int64_t old = known ? db_col_i64(st, 3) : 0;
	uint64_t key = audit_row_key(w.kind, w.id);
	int rc;

	if (old < 0)
		old = -1 - old; /* as the trigger marked it */
	rc = known ? record_of(db, db_col_i64(st, 2), old, key, w.before, err) : 0;
	w.had = rc == 1;
	if (rc >= 0)
		rc = row_digest(db, w.kind, w.id, w.after, err);
	w.has = rc == 1;
	if (rc < 0)
		return rc;
	if (p->n > 0 && p->row[p->n - 1].kind == w.kind && p->row[p->n - 1].id == w.id)
		return 0;               /* one that is gone, and another that got its number */
	p->row[p->n] = w;
	audit_put_be(p->keys + 8 * p->n, key, 8);
	memcpy(p->digests + AUDIT_ROW_DIGEST * p->n, w.after, AUDIT_ROW_DIGEST);
	p->n++;
	return 0;
}

static int pending_find(struct pending *p, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ROWS_PENDING);
	int rc;

	db_bind_i64(st, 1, AUDIT_ROWS_OF_RECORD);
	while ((rc = db_step(st, err)) == 1) {
		if (!p->row) {
			p->row = mem_calloc(AUDIT_ROWS_OF_RECORD, sizeof(*p->row));
			p->keys = mem_calloc(AUDIT_ROWS_OF_RECORD, 8);
			p->digests = mem_calloc(AUDIT_ROWS_OF_RECORD, AUDIT_ROW_DIGEST);
		}
		rc = add_waiting(p, db, st, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc;
}

static int vouch(struct pending *p, struct db *db, const struct audit_receipt *at, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < p->n && rc == 0; i++) {
		struct db_stmt *st = db_stmt_get(db, p->row[i].has ? kinds[p->row[i].kind].vouch : SQL_ROWS_FORGET_GONE);

		db_bind_i64(st, 1, p->row[i].has ? p->row[i].id : (int64_t)p->row[i].kind);
		db_bind_i64(st, 2, p->row[i].has ? at->log : p->row[i].id);
		if (p->row[i].has)
			db_bind_i64(st, 3, at->idx);
		rc = db_run(&st, err);
	}
	return rc;
}

/* The event's own fields and two more, by ascending tag. */
static size_t merge_fields(const struct audit_event *ev, const struct pending *p,
			   struct audit_field ret[AUDIT_FIELDS_MAX + 2])
{
	const struct audit_field more[] = {
		{ AUDIT_TAG_KEYS, p->keys, 8 * p->n }, { AUDIT_TAG_CONFIG, p->digests, AUDIT_ROW_DIGEST * p->n },
	};
	size_t n = 0, k = 0;

	for (size_t i = 0; i < ev->nfield; i++) {
		while (k < NELEMS(more) && more[k].tag < ev->field[i].tag)
			ret[n++] = more[k++];
		ret[n++] = ev->field[i];
	}
	while (k < NELEMS(more))
		ret[n++] = more[k++];
	return n;
}

static const struct waiting *only_one_of(const struct pending *p, unsigned kind)
{
	const struct waiting *one = NULL;

	for (size_t i = 0; i < p->n; i++) {
		if (p->row[i].kind != kind)
			continue;
		if (one)
			return NULL;
		one = &p->row[i];
	}
	return one;
}

static int append(struct pending *p, struct audit_logs *logs, struct db *db, const struct audit_event *what,
		  unsigned about, struct audit_receipt *ret, struct err *err)
{
	struct audit_field field[AUDIT_FIELDS_MAX + 2];
	const struct waiting *one = only_one_of(p, about);
	struct audit_event ev = *what;
	int rc;

	if (one) {
		ev.before = one->had ? one->before : NULL;
		ev.after = one->has ? one->after : NULL;
	}
	if (p->n > 0) {
		ev.nfield = merge_fields(what, p, field);
		ev.field = field;
	}
	rc = audit_append(logs, db, &ev, ret, err);
	return rc < 0 ? rc : vouch(p, db, ret, err);
}

int audit_append_rows(struct audit_logs *logs, struct db *db, const struct audit_event *ev, unsigned about,
		      struct audit_receipt *ret, struct err *err)
{
	struct audit_receipt at = { 0 };
	struct pending p = { 0 };
	int rc = pending_find(&p, db, err);

	if (rc == 0)
		rc = append(&p, logs, db, ev, about, &at, err);
	if (rc == 0 && ret)
		*ret = at;
	pending_free(&p);
	return rc;
}

int audit_rows_pending(struct db *db, char ret[40], struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ROWS_PENDING);
	int rc;

	db_bind_i64(st, 1, 1);
	rc = db_step(st, err);
	if (rc == 1)
		(void)snprintf(ret, 40, "%s/%" PRId64, audit_row_name((unsigned)db_col_i64(st, 0)), db_col_i64(st, 1));
	db_stmt_put(&st);
	return rc;
}

/* --- the start */

int audit_append_start(struct audit_logs *logs, struct db *db, const struct audit_event *ev, struct err *err)
{
	struct audit_event more = *ev;
	char name[40], known[8];
	int rc = audit_meta_get(db, META_VOUCHED, known, sizeof(known), err), waits = 0;

	if (rc == 0)
		waits = rc = audit_rows_pending(db, name, err);
	if (rc < 0)
		return rc;
	if (waits == 1 && known[0]) {
		(void)err_set(err, ERR_CORRUPT, name, "the row %s was written behind the log: no record speaks of it", name);
		err_hint(err, "toolcrib-verify STORE says more");
		return ERR_CORRUPT;
	}
	more.kind = AUDIT_POLICY_CHANGE;        /* there is one start; this is for what one record does not hold */
	rc = audit_append_rows(logs, db, ev, 0, NULL, err);
	while (rc == 0 && waits == 1) {
		waits = rc = audit_rows_pending(db, name, err);
		if (rc == 1)
			rc = audit_append_rows(logs, db, &more, 0, NULL, err);
	}
	return rc < 0 || known[0] ? rc : audit_meta_set(db, META_VOUCHED, "1", err);
}

static int check_row(void *arg, const struct audit_vouched *row, struct err *err)
{
	uint8_t digest[AUDIT_ROW_DIGEST];
	char name[40];
	int rc = row->idx >= 0 ? record_of(arg, row->log, row->idx, audit_row_key(row->kind, row->id), digest, err) : 0;

	if (rc < 0 || (rc == 1 && memcmp(digest, row->digest, sizeof(digest)) == 0))
		return rc < 0 ? rc : 0;
	(void)snprintf(name, sizeof(name), "%s/%" PRId64, audit_row_name(row->kind), row->id);
	(void)err_set(err, ERR_CORRUPT, name, "the row %s is not what its record says", name);
	err_hint(err, "toolcrib-verify STORE says more");
	return ERR_CORRUPT;
}

int audit_rows_check(struct db *db, struct err *err)
{
	for (unsigned kind = 1; kind < AUDIT_ROW_END; kind++) {
		int64_t from = 0;
		int rc;

		do {
			rc = audit_rows_page(db, kind, &from, check_row, db, err);
		} while (rc == 1);
		if (rc < 0)
			return rc;
	}
	return 0;
}
