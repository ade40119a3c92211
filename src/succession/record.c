/* Logs that go on behind a restore (succession/succession.h): their records and rows.  Called by the guard of a start,
 * by verifiers and by restore. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/mem.h"
#include "db/db.h"
#include "succession/succession.h"

/* --- what a record says */

static size_t put_lost(const struct succession *s, uint8_t ret[SUCCESSION_BYTES + NOTE_NAME_MAX])
{
	const uint64_t numbers[] = { s->n, s->size, s->lost, s->epoch_from, s->epoch_to };
	size_t len = strlen(s->origin);

	for (size_t i = 0; i < NELEMS(numbers); i++)
		audit_put_be(ret + 8 * i, numbers[i], 8);
	memcpy(ret + 40, s->root, TREE_HASH);
	memcpy(ret + 40 + TREE_HASH, s->lost_root, TREE_HASH);
	memcpy(ret + SUCCESSION_BYTES, s->origin, len);
	return SUCCESSION_BYTES + len;
}

int succession_parse(const uint8_t *p, size_t len, struct succession *ret)
{
	uint64_t *const numbers[] = { &ret->n, &ret->size, &ret->lost, &ret->epoch_from, &ret->epoch_to };
	size_t name = len - SUCCESSION_BYTES;

	if (len <= SUCCESSION_BYTES || name > NOTE_NAME_MAX || memchr(p + SUCCESSION_BYTES, 0, name))
		return ERR_INVALID;
	for (size_t i = 0; i < NELEMS(numbers); i++) {
		*numbers[i] = audit_get_be(p + 8 * i, 8);
		if (*numbers[i] > INT64_MAX)
			return ERR_INVALID;
	}
	memcpy(ret->root, p + 40, TREE_HASH);
	memcpy(ret->lost_root, p + 40 + TREE_HASH, TREE_HASH);
	memcpy(ret->origin, p + SUCCESSION_BYTES, name);
	ret->origin[name] = '\0';
	return ret->n > 0 && ret->size <= ret->lost ? 0 : ERR_INVALID;
}

/* --- rows */

static int insert_row(struct db *db, const struct succession *s, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SUCCESSION_INSERT);

	db_bind_textz(st, 1, s->origin);
	db_bind_i64(st, 2, (int64_t)s->n);
	db_bind_i64(st, 3, (int64_t)s->size);
	db_bind_blob(st, 4, s->root, TREE_HASH);
	db_bind_i64(st, 5, (int64_t)s->lost);
	db_bind_blob(st, 6, s->lost_root, TREE_HASH);
	db_bind_i64(st, 7, (int64_t)s->epoch_from);
	db_bind_i64(st, 8, (int64_t)s->epoch_to);
	db_bind_i64(st, 9, s->idx);
	return db_run(&st, err);
}

static int read_row(struct db_stmt *st, struct succession *ret, struct err *err)
{
	size_t len = 0, root_len = 0, lost_len = 0;
	const char *origin = db_col_text(st, 0, &len);
	const void *root = db_col_blob(st, 3, &root_len), *lost = db_col_blob(st, 5, &lost_len);

	if (!origin || len > NOTE_NAME_MAX || root_len != TREE_HASH || lost_len != TREE_HASH)
		return err_set(err, ERR_CORRUPT, "succession", "a row of succession is malformed");
	*ret = (struct succession){ .n = (uint64_t)db_col_i64(st, 1), .size = (uint64_t)db_col_i64(st, 2),
		.lost = (uint64_t)db_col_i64(st, 4), .epoch_from = (uint64_t)db_col_i64(st, 6),
		.epoch_to = (uint64_t)db_col_i64(st, 7), .idx = db_col_i64(st, 8) };
	memcpy(ret->origin, origin, len);
	memcpy(ret->root, root, TREE_HASH);
	memcpy(ret->lost_root, lost, TREE_HASH);
	return 0;
}

int succession_each(struct db *db, succession_fn *fn, void *arg, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SUCCESSION_LIST);
	struct succession s;
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		rc = read_row(st, &s, err);
		if (rc == 0)
			rc = fn(arg, &s, err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	return rc;
}

/* --- one more */

int succession_add(struct audit_logs *logs, struct db *db, struct succession *s, struct err *err)
{
	uint8_t lost[SUCCESSION_BYTES + NOTE_NAME_MAX];
	struct audit_field field = { AUDIT_TAG_LOST, lost, put_lost(s, lost) };
	struct audit_receipt at;
	struct audit_event ev;
	int rc;

	audit_event_init(&ev, AUDIT_STORE_RESTORE, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.field = &field;
	ev.nfield = 1;
	rc = audit_append(logs, db, &ev, &at, err);
	if (rc < 0)
		return rc;
	s->idx = at.idx;
	return insert_row(db, s, err);
}
