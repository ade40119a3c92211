/* Rows that records vouch for: their digests, and the fields of the record (AUDIT A-417).  New logs and their rows. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/rows.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/map.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
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
	[AUDIT_ROW_INVENTORY] = { "inventory", SQL_ROWS_INVENTORY, SQL_ROWS_VOUCH_INVENTORY },
	[AUDIT_ROW_SYSTEM] = { "system", SQL_ROWS_SYSTEM, SQL_ROWS_VOUCH_SYSTEM },
	[AUDIT_ROW_VERSION] = { "version", SQL_ROWS_VERSION, SQL_ROWS_VOUCH_VERSION },
	[AUDIT_ROW_SETTING] = { "setting", SQL_ROWS_SETTING, SQL_ROWS_VOUCH_SETTING },
	[AUDIT_ROW_PENDING] = { "pending", SQL_ROWS_PENDING_VERSION, SQL_ROWS_VOUCH_PENDING },
	[AUDIT_ROW_LOG] = { "log", SQL_ROWS_LOG, SQL_ROWS_VOUCH_LOG },
	[AUDIT_ROW_HOLD] = { "hold", SQL_ROWS_HOLD, SQL_ROWS_VOUCH_HOLD },
	[AUDIT_ROW_REMOTE_STATE] = { "remote_state", SQL_ROWS_REMOTE_STATE, SQL_ROWS_VOUCH_REMOTE_STATE },
};

const char *audit_row_name(unsigned kind)
{
	return kind < AUDIT_ROW_END && kinds[kind].name ? kinds[kind].name : "row";
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

static void keep_field(struct str *kept, unsigned tag, const void *p, size_t len)
{
	uint8_t head[6];

	audit_put_be(head, tag, 2);
	audit_put_be(head + 2, len, 4);
	str_put(kept, head, sizeof(head));
	str_put(kept, p, len);
}

/* "TCRR", 1, the kind, then the columns as fields: no NULL, integers of 8 bytes.  kept: the same bytes, or NULL. */
static void digest_row(struct db_stmt *st, unsigned kind, uint8_t ret[AUDIT_ROW_DIGEST], struct str *kept)
{
	struct digest *d = digest_new();
	uint8_t number[8];

	if (kept) {
		audit_put_be(number, kind, 2);
		str_put(kept, "TCRR\1", 5);
		str_put(kept, number, 2);
	}

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
		if (kept)
			keep_field(kept, col - ROW_COL_ID + 1, p, len);
	}
	digest_end(&d, ret);
}

int audit_rows_page(struct db *db, unsigned kind, int64_t *from, audit_vouched_fn *fn, void *arg, struct err *err)
{
	struct db_stmt *st;
	int rows = 0, rc;

	if (!kinds[kind].name)          /* numbers between are not in use */
		return 0;
	st = db_stmt_get(db, kinds[kind].get);
	db_bind_i64(st, 1, *from);
	db_bind_i64(st, 2, ROWS_PAGE);
	while ((rc = db_step(st, err)) == 1) {
		struct audit_vouched row = { .kind = kind, .id = db_col_i64(st, ROW_COL_ID), .log = db_col_i64(st, ROW_COL_LOG),
			.idx = db_col_type(st, ROW_COL_IDX) == DB_INT ? db_col_i64(st, ROW_COL_IDX) : -1 };

		rows++;
		*from = row.id + 1;
		digest_row(st, kind, row.digest, NULL);
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
		digest_row(st, kind, ret, NULL);
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

/* The same of the record at a place; 1 when it says something.  *ret_taken_us, when asked for: its time where it took
 * the row as it was, else 0. */
static int record_of(struct db *db, int64_t log, int64_t idx, uint64_t key, uint8_t ret[AUDIT_ROW_DIGEST],
		     uint64_t *ret_taken_us, struct err *err)
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
	if (rc == 1 && ret_taken_us)
		*ret_taken_us = db_col_i64(st, 0) == AUDIT_REGISTRY_VOUCH ? (uint64_t)db_col_i64(st, 2) : 0;
	db_stmt_put(&st);
	return rc < 0 ? rc : digest != NULL;
}

/* Whose keys and hashes are rows and digests: a log's first record, changes, commands, and the start that adopts. */
bool audit_rows_speak(int64_t kind)
{
	return (kind >= AUDIT_CRED_CREATE && kind <= AUDIT_REGISTRY_QUARANTINE) || kind == AUDIT_ADMIN_CMD ||
	       kind == AUDIT_LOG_OPEN || kind == AUDIT_SERVER_START || kind == AUDIT_REVIEW_DONE ||
	       kind == AUDIT_INVENTORY_CHANGE || kind == AUDIT_SYSTEM_CHANGE ||
	       (kind >= AUDIT_KEY_ROTATE && kind <= AUDIT_KEY_DESTROY);
}

/* --- rows that wait for a record */

struct pending {
	size_t n, room;
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

static void pending_grow(struct pending *p)
{
	if (p->n < p->room)
		return;
	p->room = p->room ? 2 * p->room : 8;
	p->row = mem_realloc(p->row, p->room * sizeof(*p->row));
	p->keys = mem_realloc(p->keys, p->room * 8);
	p->digests = mem_realloc(p->digests, p->room * AUDIT_ROW_DIGEST);
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
	rc = known ? record_of(db, db_col_i64(st, 2), old, key, w.before, NULL, err) : 0;
	w.had = rc == 1;
	if (rc == ERR_UNREACHABLE)      /* what stood there before is in a sealed file that is not here */
		rc = 0;
	if (rc >= 0)
		rc = row_digest(db, w.kind, w.id, w.after, err);
	w.has = rc == 1;
	if (rc < 0)
		return rc;
	if (p->n > 0 && p->row[p->n - 1].kind == w.kind && p->row[p->n - 1].id == w.id)
		return 0;               /* one that is gone, and another that got its number */
	pending_grow(p);
	p->row[p->n] = w;
	audit_put_be(p->keys + 8 * p->n, key, 8);
	memcpy(p->digests + AUDIT_ROW_DIGEST * p->n, w.after, AUDIT_ROW_DIGEST);
	p->n++;
	return 0;
}

/* only: of this kind, of which there are few; 0: of all. */
static int pending_find(struct pending *p, struct db *db, unsigned only, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ROWS_PENDING);
	int rc;

	db_bind_i64(st, 1, only ? INT64_MAX : AUDIT_ROWS_OF_RECORD);
	while ((rc = db_step(st, err)) == 1 && p->n < AUDIT_ROWS_OF_RECORD) {
		if (only && db_col_i64(st, 0) != only)
			continue;
		rc = add_waiting(p, db, st, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int vouch(struct pending *p, struct db *db, const struct audit_receipt *at, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < p->n && rc == 0; i++) {
		struct db_stmt *st = db_stmt_get(db, SQL_ROWS_FORGET_GONE);     /* perhaps one that had its number */

		db_bind_i64(st, 1, (int64_t)p->row[i].kind);
		db_bind_i64(st, 2, p->row[i].id);
		rc = db_run(&st, err);
		if (rc < 0 || !p->row[i].has)
			continue;
		st = db_stmt_get(db, kinds[p->row[i].kind].vouch);
		db_bind_i64(st, 1, p->row[i].id);
		db_bind_i64(st, 2, at->log);
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

static int refuse_row(struct err *err, unsigned kind, int64_t id, const char *what)
{
	char name[40];

	(void)snprintf(name, sizeof(name), "%s/%" PRId64, audit_row_name(kind), id);
	(void)err_set(err, ERR_CORRUPT, name, "the row %s %s", name, what);
	err_hint(err, "toolcrib fsck lists such rows and takes them out of service, toolcrib-verify STORE says more");
	return ERR_CORRUPT;
}

/* 1: there were more rows than one record has room for. */
static int append_some(struct audit_logs *logs, struct db *db, const struct audit_event *ev, unsigned about,
		       struct audit_receipt *ret, struct err *err)
{
	struct audit_receipt at = { 0 };
	struct pending p = { 0 };
	char row[40];
	int rc = 0;

	if (audit_rows_speak(ev->kind)) /* else they wait for the next record */
		rc = pending_find(&p, db, ev->kind == AUDIT_LOG_OPEN ? AUDIT_ROW_LOG : 0, err);
	for (size_t i = 0; rc == 0 && about == AUDIT_ROWS_SAME && i < p.n; i++)
		if (!p.row[i].had || !p.row[i].has || memcmp(p.row[i].before, p.row[i].after, AUDIT_ROW_DIGEST) != 0)
			rc = refuse_row(err, p.row[i].kind, p.row[i].id, "is not what its record says");
	if (rc == 0)
		rc = append(&p, logs, db, ev, about, &at, err);
	if (rc == 0 && ret)
		*ret = at;
	if (rc == 0 && p.n == AUDIT_ROWS_OF_RECORD)
		rc = audit_rows_pending(db, row, err);
	pending_free(&p);
	return rc;
}

int audit_append_rows(struct audit_logs *logs, struct db *db, const struct audit_event *ev, unsigned about,
		      struct audit_receipt *ret, struct err *err)
{
	int rc = append_some(logs, db, ev, about, ret, err);

	return rc < 0 ? rc : 0;
}

int audit_append_all_rows(struct audit_logs *logs, struct db *db, const struct audit_event *what, unsigned about,
			  struct err *err)
{
	struct audit_event ev = *what;
	int rc = 1;

	while (rc == 1) {
		rc = append_some(logs, db, &ev, about, NULL, err);
		ev.obj = NULL;
		ev.after = NULL;
		ev.nfield = 0;
	}
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

#define KIND_MASK(kind) (UINT64_C(1) << (kind))

static uint64_t mask_all(void)
{
	uint64_t mask = 0;

	for (unsigned kind = 1; kind < AUDIT_ROW_END; kind++)
		if (kinds[kind].name)
			mask |= KIND_MASK(kind);
	return mask;
}

/* Kinds whose rows have records in this store, whatever the rows say; what says so is records, but for a store from
 * before there was registry.vouch. */
static int known_kinds(struct db *db, uint64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ROWS_LAST_VOUCH);
	size_t len = 0;
	char old[8];
	int rc = db_step(st, err);

	*ret = rc == ERR_UNREACHABLE ? mask_all() : 0;  /* in a sealed file that is not here: then nothing new is taken */
	if (rc == 1) {
		const void *ext = db_col_blob(st, 0, &len);

		*ret = audit_row_kinds(ext, len) | (KIND_MASK(AUDIT_ROW_FIRST_LATER) - 1);
	}
	db_stmt_put(&st);
	if (rc != 0)
		return rc < 0 && rc != ERR_UNREACHABLE ? rc : 0;
	rc = db_meta_get(db, META_VOUCHED, old, sizeof(old), err);
	if (rc == 0 && old[0])
		*ret = KIND_MASK(AUDIT_ROW_FIRST_LATER) - 1;
	return rc;
}

/* Only of kinds that are not known yet may rows wait. */
static int check_waiting(struct db *db, uint64_t known, bool *ret_some, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ROWS_PENDING);
	int rc;

	db_bind_i64(st, 1, INT64_MAX);
	while ((rc = db_step(st, err)) == 1) {
		unsigned kind = (unsigned)db_col_i64(st, 0);

		*ret_some = true;
		if (kind >= 64 || known & KIND_MASK(kind)) {
			rc = refuse_row(err, kind, db_col_i64(st, 1), "was written behind the log: no record speaks of it");
			break;
		}
	}
	db_stmt_put(&st);
	return rc;
}

/* registry.vouch, as often as it takes. */
static int take_rows(struct audit_logs *logs, struct db *db, uint64_t known, bool some, struct err *err)
{
	uint8_t list[2 * AUDIT_ROW_END];
	struct audit_field field = { AUDIT_TAG_ROW_KINDS, list, 0 };
	struct audit_event ev;
	int rc = 1;

	for (unsigned kind = 1; kind < AUDIT_ROW_END; kind++)
		if (kinds[kind].name) {
			audit_put_be(list + field.len, kind, 2);
			field.len += 2;
		}
	audit_event_init(&ev, AUDIT_REGISTRY_VOUCH, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.detail = !some ? "nothing" : known ? "rows as they were" : "rows of a store without records of them";
	ev.field = &field;
	ev.nfield = 1;
	while (rc == 1)
		rc = append_some(logs, db, &ev, 0, NULL, err);
	return rc;
}

int audit_append_start(struct audit_logs *logs, struct db *db, const struct audit_event *ev, struct err *err)
{
	uint64_t known = 0;
	bool some = false;
	int rc = known_kinds(db, &known, err);

	if (rc == 0)
		rc = check_waiting(db, known, &some, err);
	if (rc == 0)
		rc = audit_append(logs, db, ev, NULL, err);
	if (rc < 0 || (known & mask_all()) == mask_all())
		return rc;
	rc = take_rows(logs, db, known, some, err);
	return rc < 0 ? rc : db_meta_set(db, META_VOUCHED, "1", err);
}

struct row_check { struct db *db; unsigned away; };

static int check_row(void *arg, const struct audit_vouched *row, struct err *err)
{
	struct row_check *c = arg;
	uint8_t digest[AUDIT_ROW_DIGEST];
	int rc = row->idx >= 0 ? record_of(c->db, row->log, row->idx, audit_row_key(row->kind, row->id), digest, NULL, err)
		: 0;

	if (rc == ERR_UNREACHABLE) {
		c->away++;
		return 0;
	}
	if (rc < 0 || (rc == 1 && memcmp(digest, row->digest, sizeof(digest)) == 0))
		return rc < 0 ? rc : 0;
	return refuse_row(err, row->kind, row->id, "is not what its record says");
}

int audit_rows_check(struct db *db, struct err *err)
{
	struct row_check check = { .db = db };
	uint64_t known = 0;
	int rc = known_kinds(db, &known, err);

	if (rc < 0)
		return rc;
	for (unsigned kind = 1; kind < AUDIT_ROW_END; kind++) {
		int64_t from = 0;

		if (!(known & KIND_MASK(kind)) || kind == AUDIT_ROW_VERSION)
			continue;
		do {
			rc = audit_rows_page(db, kind, &from, check_row, &check, err);
		} while (rc == 1);
		if (rc < 0)
			return rc;
	}
	if (check.away > 0)
		log_warn(NULL, "rows could not be compared with their records, which are in sealed files that are not here "
			 "rows=%u", check.away);
	return 0;
}

int audit_row_check(struct db *db, unsigned kind, int64_t id, uint64_t *ret_taken_us, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, kinds[kind].get);
	uint8_t digest[AUDIT_ROW_DIGEST], said[AUDIT_ROW_DIGEST];
	int64_t log = 0, idx = -1;
	int rc;

	*ret_taken_us = 0;
	db_bind_i64(st, 1, id);
	db_bind_i64(st, 2, 1);
	rc = db_step(st, err);
	if (rc == 1 && db_col_i64(st, ROW_COL_ID) == id && db_col_type(st, ROW_COL_IDX) == DB_INT) {
		log = db_col_i64(st, ROW_COL_LOG);
		idx = db_col_i64(st, ROW_COL_IDX);
		digest_row(st, kind, digest, NULL);
	}
	db_stmt_put(&st);
	if (rc >= 0)
		rc = idx >= 0 ? record_of(db, log, idx, audit_row_key(kind, id), said, ret_taken_us, err) : 0;
	if (rc == ERR_UNREACHABLE || (rc == 1 && memcmp(said, digest, sizeof(said)) == 0))
		return 0;
	return rc < 0 ? rc : refuse_row(err, kind, id, "is not what its record says");
}

/* --- rows that keep a store from starting */

#define ROW_KEPT_MAX (32u << 10)        /* bytes of a row in its record; what is longer stays elsewhere too */

struct bad_walk { struct db *db; audit_bad_fn *fn; void *arg; };

static int tell_bad(void *arg, const struct audit_vouched *row, struct err *err)
{
	const struct bad_walk *w = arg;
	struct err why;
	struct row_check check = { .db = w->db };
	int rc = check_row(&check, row, &why);

	if (rc != ERR_CORRUPT) {
		if (rc < 0 && err)
			*err = why;
		return rc;
	}
	return w->fn(w->arg, row->kind, row->id, false, err);
}

static int tell_gone(const struct bad_walk *w, struct err *err)
{
	struct db_stmt *st = db_stmt_get(w->db, SQL_ROWS_GONE);
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		rc = w->fn(w->arg, (unsigned)db_col_i64(st, 0), db_col_i64(st, 1), true, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc;
}

/* Versions are not walked, but for those that no record speaks of. */
static int tell_versions(const struct bad_walk *w, struct err *err)
{
	struct db_stmt *st = db_stmt_get(w->db, SQL_ROWS_PENDING);
	int rc;

	db_bind_i64(st, 1, INT64_MAX);
	while ((rc = db_step(st, err)) == 1) {
		uint8_t ignored[AUDIT_ROW_DIGEST];
		int64_t id = db_col_i64(st, 1);

		if (db_col_i64(st, 0) != AUDIT_ROW_VERSION || row_digest(w->db, AUDIT_ROW_VERSION, id, ignored, err) != 1)
			continue;
		rc = w->fn(w->arg, AUDIT_ROW_VERSION, id, false, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc;
}

int audit_rows_bad(struct db *db, audit_bad_fn *fn, void *arg, struct err *err)
{
	struct bad_walk w = { db, fn, arg };
	uint64_t known = 0;
	int rc = known_kinds(db, &known, err);

	for (unsigned kind = 1; kind < AUDIT_ROW_END && rc == 0; kind++) {
		int64_t from = 0;

		if (!(known & KIND_MASK(kind)) || kind == AUDIT_ROW_VERSION)
			continue;
		do {
			rc = audit_rows_page(db, kind, &from, tell_bad, &w, err);
		} while (rc == 1);
	}
	if (rc == 0 && (known & KIND_MASK(AUDIT_ROW_VERSION)))
		rc = tell_versions(&w, err);
	return rc < 0 ? rc : tell_gone(&w, err);
}

/* --- taking them out of service */

/* Each way only closes.  first and second are given the id and the time; tenants: it may have held something back, so
 * that its tenants are suspended. */
static const struct closing {
	const char *how;
	enum sql_id first, second;
	bool has_second, tenants;
} closings[AUDIT_ROW_END] = {
	[AUDIT_ROW_TENANT] = { .how = "removed", .first = SQL_ROWS_CLOSE_TENANT },
	[AUDIT_ROW_PRINCIPAL] = { .how = "suspended, its keys revoked", .first = SQL_ROWS_CLOSE_PRINCIPAL,
		.second = SQL_ROWS_CLOSE_KEYS, .has_second = true },
	[AUDIT_ROW_CRED] = { .how = "revoked", .first = SQL_ROWS_CLOSE_CRED },
	[AUDIT_ROW_GRANT] = { .how = "taken back, its tenant suspended", .first = SQL_ROWS_CLOSE_GRANT, .tenants = true },
	[AUDIT_ROW_TOOL] = { .how = "removed", .first = SQL_ROWS_CLOSE_TOOL },
	[AUDIT_ROW_SCHEMA] = { .how = "removed", .first = SQL_ROWS_CLOSE_SCHEMA },
	[AUDIT_ROW_UPSTREAM] = { .how = "removed", .first = SQL_ROWS_CLOSE_UPSTREAM },
	[AUDIT_ROW_SECRET] = { .how = "removed", .first = SQL_ROWS_CLOSE_SECRET },
	[AUDIT_ROW_LIMIT] = { .how = "removed, its tenant suspended", .first = SQL_ROWS_CLOSE_LIMIT, .tenants = true },
	[AUDIT_ROW_LEVEL] = { .how = "removed, its tenant suspended", .first = SQL_ROWS_CLOSE_LEVEL, .tenants = true },
	[AUDIT_ROW_INVENTORY] = { .how = "removed, its tool disabled", .first = SQL_ROWS_CLOSE_RATED,
		.second = SQL_ROWS_CLOSE_INVENTORY, .has_second = true },
	[AUDIT_ROW_SYSTEM] = { .how = "removed, its principals suspended", .first = SQL_ROWS_CLOSE_MEMBERS,
		.second = SQL_ROWS_CLOSE_SYSTEM, .has_second = true },
	[AUDIT_ROW_VERSION] = { .how = "emptied, its tool removed where it is in force", .first = SQL_ROWS_CLOSE_VERSION,
		.second = SQL_ROWS_CLOSE_IN_FORCE, .has_second = true },
	[AUDIT_ROW_PENDING] = { .how = "rejected", .first = SQL_ROWS_CLOSE_PENDING, .second = SQL_ROWS_CLOSE_WAITING,
		.has_second = true },
};

const char *audit_row_closing(unsigned kind)
{
	return kind < AUDIT_ROW_END ? closings[kind].how : NULL;
}

struct named { unsigned kind; int64_t id; bool bad; struct str kept; };
struct named_rows { struct named *v; size_t n; };

static int parse_row(const char *text, struct named *ret, struct err *err)
{
	const char *slash = strchr(text, '/');
	uint64_t id = 0;

	for (unsigned kind = 1; slash && kind < AUDIT_ROW_END; kind++)
		if (kinds[kind].name && text_eq(text, (size_t)(slash - text), kinds[kind].name))
			ret->kind = kind;
	if (!ret->kind || text_u64(slash + 1, strlen(slash + 1), &id) < 0 || id > INT64_MAX) {
		(void)err_set(err, ERR_INVALID, "quarantine", "\"%.40s\" is no row", text);
		err_hint(err, "toolcrib fsck lists them, such as cred/7");
		return ERR_INVALID;
	}
	ret->id = (int64_t)id;
	if (closings[ret->kind].how)
		return 0;
	(void)err_set(err, ERR_DENIED, text, "a row of kind %s is not taken out of service: nothing that is "
		      "served would be safe without it", kinds[ret->kind].name);
	err_hint(err, "restore a backup");
	return ERR_DENIED;
}

static int note_bad(void *arg, unsigned kind, int64_t id, bool gone, struct err *err)
{
	struct named_rows *rows = arg;
	char name[40];

	(void)gone;
	for (size_t i = 0; i < rows->n; i++) {
		if (rows->v[i].kind != kind || rows->v[i].id != id)
			continue;
		rows->v[i].bad = true;
		return 0;
	}
	(void)snprintf(name, sizeof(name), "%s/%" PRId64, audit_row_name(kind), id);
	(void)err_set(err, ERR_CONFLICT, name, "the row %s is not what its record says either; nothing was changed", name);
	err_hint(err, "name it as well: toolcrib fsck lists all");
	return ERR_CONFLICT;
}

static int run_closing(struct db *db, enum sql_id what, int64_t id, bool timed, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, what);

	db_bind_i64(st, 1, id);
	if (timed)
		db_bind_i64(st, 2, (int64_t)clock_wall_us());
	return db_run(&st, err);
}

static int suspend_tenants(struct db *db, const struct named *row, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ROWS_TENANTS);
	int rc;

	db_bind_i64(st, 1, (int64_t)row->kind);
	db_bind_i64(st, 2, row->id);
	while ((rc = db_step(st, err)) == 1) {
		rc = run_closing(db, SQL_ROWS_SUSPEND_TENANT, db_col_i64(st, 0), false, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc;
}

static int keep_row(struct db *db, struct named *row, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, kinds[row->kind].get);
	uint8_t digest[AUDIT_ROW_DIGEST];
	int rc;

	db_bind_i64(st, 1, row->id);
	db_bind_i64(st, 2, 1);
	rc = db_step(st, err);
	if (rc == 1 && db_col_i64(st, ROW_COL_ID) == row->id)
		digest_row(st, row->kind, digest, &row->kept);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int close_row(struct db *db, const struct named *row, struct err *err)
{
	const struct closing *c = &closings[row->kind];
	bool keys = row->kind == AUDIT_ROW_PRINCIPAL;
	int rc = c->tenants ? suspend_tenants(db, row, err) : 0;

	if (rc == 0)
		rc = run_closing(db, c->first, row->id, row->kind == AUDIT_ROW_CRED, err);
	return rc < 0 || !c->has_second ? rc : run_closing(db, c->second, row->id, keys, err);
}

/* The first record vouches for all that was closed. */
static int record_closed(struct audit_logs *logs, struct db *db, const struct named *row, const char *by,
			 struct err *err)
{
	const struct audit_field field = { AUDIT_TAG_ROW, str_text(&row->kept), row->kept.len < ROW_KEPT_MAX ? row->kept.len
		: ROW_KEPT_MAX };
	struct audit_event ev;
	char name[40];

	(void)snprintf(name, sizeof(name), "%s/%" PRId64, audit_row_name(row->kind), row->id);
	audit_event_init(&ev, AUDIT_REGISTRY_QUARANTINE, 0);
	ev.actor = AUDIT_BY_UID;
	ev.authn = AUDIT_AUTHN_UID;
	ev.tport = AUDIT_ADMIN_SOCKET;
	ev.obj = name;
	ev.detail = by;
	ev.field = &field;
	ev.nfield = 1;
	return audit_append_rows(logs, db, &ev, 0, NULL, err);
}

static int quarantine(struct audit_logs *logs, struct db *db, struct named_rows *rows, const char *by, struct err *err)
{
	char name[40];
	int rc = audit_rows_bad(db, note_bad, rows, err);

	for (size_t i = 0; i < rows->n && rc == 0; i++) {
		(void)snprintf(name, sizeof(name), "%s/%" PRId64, audit_row_name(rows->v[i].kind), rows->v[i].id);
		if (!rows->v[i].bad)
			rc = err_set(err, ERR_CONFLICT, name, "the row %s is what its record says, or there is none; nothing was "
				     "changed", name);
		else
			rc = keep_row(db, &rows->v[i], err);
	}
	for (size_t i = 0; i < rows->n && rc == 0; i++)
		rc = close_row(db, &rows->v[i], err);
	for (size_t i = 0; i < rows->n && rc == 0; i++)
		rc = record_closed(logs, db, &rows->v[i], by, err);
	return rc;
}

int audit_quarantine(struct audit_logs *logs, struct db *db, const char *const *names, const char *by, struct err *err)
{
	struct named_rows rows = { .n = 0 };
	int rc = 0;

	while (names[rows.n])
		rows.n++;
	rows.v = mem_calloc(rows.n, sizeof(*rows.v));
	for (size_t i = 0; i < rows.n && rc == 0; i++)
		rc = parse_row(names[i], &rows.v[i], err);
	if (rc == 0)
		rc = quarantine(logs, db, &rows, by, err);
	for (size_t i = 0; i < rows.n; i++)
		str_fini(&rows.v[i].kept);
	free(rows.v);
	return rc;
}

/* --- new logs, whose first records vouch for their rows */

#define INSTANCE_CHARS 20               /* base62: 119 bits */

static int draw_instance(struct audit_logs *logs, struct db *db, struct err *err)
{
	char text[INSTANCE_CHARS + 1];
	int rc;

	id_random_text(text, INSTANCE_CHARS);
	rc = db_meta_set(db, META_INSTANCE, text, err);
	if (rc == 0)
		snprintf(logs->instance, sizeof(logs->instance), "%s", text);
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
static int make_origin(struct audit_logs *logs, struct db *db, int64_t tenant_id, const char *name, char **ret,
		       struct err *err)
{
	char *origin = tenant_id ? mem_printf("%s/t/%s", logs->instance, name) : mem_strdup(logs->instance);
	bool taken = false;
	int rc = origin_taken(db, origin, &taken, err);

	if (taken) {
		free(origin);
		origin = mem_printf("%s/t/%s/%" PRId64, logs->instance, name, tenant_id);
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
	rc = db_run_id(&st, &id, err);
	if (rc < 0)
		return rc;
	if ((id == AUDIT_SYSTEM_LOG) != (tenant_id == 0))
		return err_set(err, ERR_INTERNAL, "audit", "the system log must be the first log");
	st = db_stmt_get(db, SQL_AUDIT_INSERT_HEAD);
	db_bind_i64(st, 1, id);
	rc = db_run(&st, err);
	if (rc == 0)
		*ret_id = id;
	return rc;
}

/* Its first record says whose it is, so that nothing but the record does. */
static int append_open(struct audit_logs *logs, struct db *db, int64_t tenant_id, const char *name, const char *origin,
		       struct err *err)
{
	size_t len = tenant_id ? strlen(name) : 0;
	uint8_t *whose = mem_calloc(8 + len, 1);
	const struct audit_field field = { AUDIT_TAG_TENANT, whose, 8 + len };
	struct audit_event ev;
	int rc;

	audit_put_be(whose, (uint64_t)tenant_id, 8);
	if (tenant_id)
		memcpy(whose + 8, name, len);
	audit_event_init(&ev, AUDIT_LOG_OPEN, tenant_id);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.obj = origin;
	ev.field = &field;
	ev.nfield = tenant_id != 0;
	rc = audit_append_rows(logs, db, &ev, 0, NULL, err);
	free(whose);
	return rc;
}

int audit_log_create(struct audit_logs *logs, struct db *db, int64_t tenant_id, const char *tenant_name,
		     struct err *err)
{
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
		audit_undo_push(logs, UNDO_LOG, audit_log_add(logs, id, tenant_id, 0, origin));
		rc = append_open(logs, db, tenant_id, tenant_name, origin, err);
	}
	free(origin);
	return rc;
}
