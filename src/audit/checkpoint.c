/* Checkpoints: what is due to be signed, what was signed, and from where a log can be read on. */

#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "audit/checkpoint.h"
#include "audit/record.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "tlog/note.h"
#include "tlog/signer.h"

#include "audit_int.h"

#define META_LOG_KEY "log_key"          /* public, hexadecimal */

enum {
	HEAD_BYTES = 4 + 8 + TREE_HASH,         /* of a log in logs.commit */
	HEADS_MAX = 1024,                       /* in one record */
};

void audit_beat_fini(struct audit_beat *b)
{
	for (size_t i = 0; i < b->nhead; i++)
		free(b->head[i].origin);
	free(b->head);
	*b = (struct audit_beat){ 0 };
}

/* --- what is due */

static int tree_of(struct audit_log *log, struct db *db, struct tree *ret, struct err *err)
{
	int rc = log->tail ? 0 : audit_tail_open(log, db, err);

	if (rc == 0)
		audit_tail_tree(log->tail, ret);
	return rc;
}

/* The heads of logs.commit, and those of them that are to be signed now. */
struct collect {
	struct audit_logs *logs;
	struct db *db;
	struct audit_beat *beat;
	size_t max;
	uint8_t bytes[HEADS_MAX * HEAD_BYTES];
	size_t len;
};

static void add_head(struct audit_beat *b, const struct audit_log *log, const struct tree *t)
{
	b->head = mem_realloc(b->head, (b->nhead + 1) * sizeof(*b->head));
	b->head[b->nhead++] = (struct audit_head){ log->id, log->tenant_id, mem_strdup(log->origin), *t };
}

/* AUDIT A-702: one record of the system log for all. */
static int write_commit(struct collect *c, struct err *err)
{
	uint8_t count[8];
	struct audit_field fields[] = {
		{ AUDIT_TAG_HEADS, c->bytes, c->len }, { AUDIT_TAG_LOGS, count, sizeof(count) },
	};
	struct audit_event ev;

	audit_put_be(count, map_count(c->logs->by_tenant), sizeof(count));
	audit_event_init(&ev, AUDIT_LOGS_COMMIT, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.field = fields;
	ev.nfield = NELEMS(fields);
	c->len = 0;
	return audit_append(c->logs, c->db, &ev, NULL, err);
}

static int commit_head(struct collect *c, struct audit_log *log, const struct tree *t, struct err *err)
{
	uint8_t *p = c->bytes + c->len;

	audit_put_be(p, (uint64_t)log->id, 4);
	audit_put_be(p + 4, t->size, 8);
	tree_root(t, p + 12);
	c->len += HEAD_BYTES;
	audit_undo_push(c->logs, UNDO_HEADED, log);
	c->logs->undo[c->logs->undo_len - 1].last_id = log->headed;
	log->headed = log->size;
	return c->len == sizeof(c->bytes) ? write_commit(c, err) : 0;
}

static int collect_tenants(struct collect *c, struct err *err)
{
	LIST_FOREACH_SAFE(n, next, &c->logs->behind) {
		struct audit_log *log = CONTAINER_OF(n, struct audit_log, behind);
		struct tree t;
		int rc;

		if (log->size <= log->noted.size && log->id != AUDIT_SYSTEM_LOG)
			list_unlink(n);
		if (log->size <= log->noted.size || log->id == AUDIT_SYSTEM_LOG)
			continue;
		rc = tree_of(log, c->db, &t, err);
		if (rc == 0 && c->beat->nhead < c->max)
			add_head(c->beat, log, &t);
		if (rc == 0 && log->headed < log->size)
			rc = commit_head(c, log, &t, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int audit_beat(struct audit_logs *logs, struct db *db, size_t max, bool always, struct audit_beat *ret, struct err *err)
{
	struct audit_beat beat = { .ts = clock_wall_us() };
	struct collect *c = mem_zalloc(sizeof(*c));
	int rc;

	c->logs = logs;
	c->db = db;
	c->beat = &beat;
	c->max = max;
	rc = collect_tenants(c, err);
	if (rc == 0 && (c->len > 0 || always))
		rc = write_commit(c, err);
	free(c);
	if (rc < 0)
		audit_beat_fini(&beat);
	else
		*ret = beat;
	return rc;
}

int audit_beat_system(struct audit_logs *logs, struct db *db, struct audit_beat *b, struct err *err)
{
	struct audit_log *system = audit_log_find(logs, 0);
	struct tree t;
	int rc;

	if (!system || (b->nhead == 0 && system->size <= system->noted.size))
		return 0;
	rc = tree_of(system, db, &t, err);
	if (rc == 0)
		add_head(b, system, &t);
	return rc;
}

/* --- what was signed */

static int insert_note(struct db *db, const struct audit_head *h, const struct audit_note *note, int64_t epoch,
		       uint64_t ts, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_CP_INSERT);

	db_bind_i64(st, 1, h->log);
	db_bind_i64(st, 2, (int64_t)h->tree.size);
	db_bind_i64(st, 3, epoch);
	db_bind_i64(st, 4, (int64_t)ts);
	db_bind_blob(st, 5, note->p, note->len);
	db_bind_blob(st, 6, h->tree.peak, tree_peaks(h->tree.size) * TREE_HASH);
	return db_run(&st, err);
}

static int delete_passed(struct db *db, const struct audit_log *log, int64_t epoch, uint64_t ts, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_CP_DELETE_PASSED);

	db_bind_i64(st, 1, log->id);
	db_bind_i64(st, 2, log->noted.size);
	db_bind_i64(st, 3, epoch);
	db_bind_i64(st, 4, (int64_t)ts);
	return db_run(&st, err);
}

static int store_note(struct audit_logs *logs, struct db *db, const struct audit_head *h, const struct audit_note *note,
		      int64_t epoch, uint64_t ts, struct err *err)
{
	struct audit_log *log = audit_log_find(logs, h->tenant_id);
	int rc = 0;

	/* The tenant may have gone since; or this very size was noted before. */
	if (!log || log->id != h->log || (int64_t)h->tree.size <= log->noted.size)
		return 0;
	rc = insert_note(db, h, note, epoch, ts, err);
	if (rc == 0 && log->noted.size > 0 && log->noted.epoch == epoch)
		rc = delete_passed(db, log, epoch, ts, err);
	if (rc < 0)
		return rc;
	audit_undo_push(logs, UNDO_NOTED, log);
	logs->undo[logs->undo_len - 1].last_id = log->noted.size;
	log->noted.size = (int64_t)h->tree.size;
	log->noted.epoch = epoch;
	log->noted.ts = (int64_t)ts;
	/* Behind those that wait longer. */
	list_unlink(&log->behind);
	if (log->size > log->noted.size)
		audit_behind(logs, log);
	return 0;
}

int audit_beat_store(struct audit_logs *logs, struct db *db, const struct audit_beat *b, const struct audit_note *notes,
		     int64_t epoch, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < b->nhead; i++)
		if (notes[i].p)
			rc = store_note(logs, db, &b->head[i], &notes[i], epoch, b->ts, err);
	return rc;
}

/* --- epochs */

static int write_epoch(struct audit_logs *logs, struct db *db, uint64_t n, const uint8_t *public, const uint8_t *cert,
		       struct err *err)
{
	uint8_t number[8];
	struct audit_field fields[] = {
		{ AUDIT_TAG_EPOCH, number, sizeof(number) }, { AUDIT_TAG_PUBLIC, public, SIGN_PUBLIC_SIZE },
		{ AUDIT_TAG_CERT, cert, SIGN_SIZE },
	};
	struct audit_event ev;

	audit_put_be(number, n, sizeof(number));
	audit_event_init(&ev, AUDIT_EPOCH_START, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.field = fields;
	ev.nfield = cert ? 3 : 2;
	return audit_append(logs, db, &ev, NULL, err);
}

int audit_epoch_begin(struct audit_logs *logs, struct db *db, uint64_t n, const uint8_t public[SIGN_PUBLIC_SIZE],
		      const uint8_t cert[SIGN_SIZE], struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_EPOCH_INSERT);
	int rc;

	db_bind_i64(st, 1, (int64_t)n);
	db_bind_blob(st, 2, public, SIGN_PUBLIC_SIZE);
	if (cert)
		db_bind_blob(st, 3, cert, SIGN_SIZE);
	else
		db_bind_null(st, 3);
	db_bind_i64(st, 4, (int64_t)clock_wall_us());
	rc = db_run(&st, err);
	return rc < 0 ? rc : write_epoch(logs, db, n, public, cert, err);
}

int audit_log_key_set(struct db *db, const uint8_t public[SIGN_PUBLIC_SIZE], struct err *err)
{
	char hex[2 * SIGN_PUBLIC_SIZE + 1];

	text_hex(public, SIGN_PUBLIC_SIZE, hex);
	return audit_meta_set(db, META_LOG_KEY, hex, err);
}

int audit_log_key_get(struct db *db, uint8_t ret[SIGN_PUBLIC_SIZE], struct err *err)
{
	char hex[2 * SIGN_PUBLIC_SIZE + 2];
	int rc = audit_meta_get(db, META_LOG_KEY, hex, sizeof(hex), err);

	if (rc < 0 || !hex[0])
		return rc;
	if (text_unhex(hex, strlen(hex), ret, SIGN_PUBLIC_SIZE) < 0)
		return err_set(err, ERR_CORRUPT, "meta/" META_LOG_KEY, "%s is no key", hex);
	return 1;
}

int audit_epoch_newest(struct db *db, struct audit_epoch *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_EPOCH_GET_NEWEST);
	int rc = db_step(st, err);
	size_t len = 0;
	const void *pk = rc == 1 ? db_col_blob(st, 1, &len) : NULL;

	if (rc == 1 && len != SIGN_PUBLIC_SIZE)
		rc = err_set(err, ERR_CORRUPT, "epoch", "the key of the newest epoch has %zu bytes", len);
	if (rc == 1) {
		ret->n = (uint64_t)db_col_i64(st, 0);
		ret->from_ts = (uint64_t)db_col_i64(st, 3);
		memcpy(ret->public, pk, SIGN_PUBLIC_SIZE);
	}
	db_stmt_put(&st);
	return rc;
}

static void print_key(struct str *ret, const struct note_key *key)
{
	note_key_print(key, ret);
	str_putc(ret, '\n');
}

static int print_epochs(struct db *db, const char *instance, bool all, struct str *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_VERIFY_LIST_EPOCHS);
	struct note_key key;
	bool more = true;
	int rc = 0;

	db_bind_i64(st, 1, 0);
	while (more && (rc = db_step(st, err)) == 1) {
		size_t len = 0;
		const uint8_t *pk = db_col_blob(st, 1, &len);

		if (len == SIGN_PUBLIC_SIZE && epoch_key_set(&key, instance, (uint64_t)db_col_i64(st, 0), pk) == 0)
			print_key(ret, &key);
		more = all;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int audit_keys_print(struct db *db, bool all, struct str *ret, struct err *err)
{
	char instance[NOTE_NAME_MAX + 1];
	uint8_t log_key[SIGN_PUBLIC_SIZE];
	struct note_key key;
	int rc = audit_meta_get(db, META_INSTANCE, instance, sizeof(instance), err);

	if (rc == 0)
		rc = audit_log_key_get(db, log_key, err);
	if (rc == 0)
		return err_set(err, ERR_NOT_FOUND, "", "the logs of this store have not been signed yet");
	if (rc < 0)
		return rc;
	if (note_key_set(&key, instance, log_key) < 0)
		return err_set(err, ERR_CORRUPT, "meta/" META_INSTANCE, "%s is no name of a key", instance);
	print_key(ret, &key);
	return print_epochs(db, instance, all, ret, err);
}

int audit_note_newest(struct db *db, struct str *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_CP_GET_BEFORE);
	size_t len = 0;
	const void *note;
	int rc;

	db_bind_i64(st, 1, AUDIT_SYSTEM_LOG);
	db_bind_i64(st, 2, INT64_MAX);
	rc = db_step(st, err);
	note = rc == 1 ? db_col_blob(st, 3, &len) : NULL;
	if (rc == 1)
		str_put(ret, note, len);
	db_stmt_put(&st);
	return rc;
}

/* --- finding again */

int audit_logs_each(struct audit_logs *logs, audit_log_fn *fn, void *arg, struct err *err)
{
	void *value;
	int rc = 0;

	for (size_t it = 0; rc == 0 && map_next(logs->by_tenant, &it, NULL, NULL, &value);) {
		const struct audit_log *log = value;

		rc = fn(arg, &(struct audit_log_view){ log->id, log->tenant_id, log->size, log->noted.size, log->origin }, err);
	}
	return rc;
}

int audit_head_tree(struct audit_logs *logs, struct db *db, int64_t tenant_id, struct tree *ret, struct err *err)
{
	struct audit_log *log = audit_log_find(logs, tenant_id);

	if (!log)
		return err_set(err, ERR_NOT_FOUND, "audit", "tenant %" PRId64 " has no log", tenant_id);
	return tree_of(log, db, ret, err);
}

int audit_cp_find(struct db *db, int64_t log, uint64_t at_most, struct tree *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_CP_GET_BEFORE);
	const void *frontier;
	size_t len = 0;
	int rc;

	*ret = (struct tree){ 0 };
	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, (int64_t)at_most);
	rc = db_step(st, err);
	if (rc == 1) {
		frontier = db_col_blob(st, 4, &len);
		if (!tree_load(ret, db_col_i64(st, 0), frontier, len))
			rc = err_set(err, ERR_CORRUPT, "cp", "the frontier of a checkpoint of log %" PRId64 " has %zu bytes", log, len);
	}
	db_stmt_put(&st);
	return rc;
}

static int too_short(int64_t log, uint64_t is, uint64_t to, struct err *err)
{
	return err_set(err, ERR_CORRUPT, "rec", "log %" PRId64 " has no record %" PRIu64 ", and should have %" PRIu64, log,
		       is, to);
}

int audit_grow(struct db *db, int64_t log, uint64_t to, struct tree *t, struct tree_consistency *since, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_AUDIT_LIST_LEAVES);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, (int64_t)t->size);
	db_bind_i64(st, 3, (int64_t)to);
	while ((rc = db_step(st, err)) == 1) {
		size_t len = 0;
		const void *leaf = db_col_blob(st, 1, &len);

		if (len != TREE_HASH || db_col_i64(st, 0) != (int64_t)t->size) {
			rc = too_short(log, t->size, to, err);
			break;
		}
		tree_append(t, leaf);
		if (since)
			tree_consistency_append(since, leaf);
	}
	db_stmt_put(&st);
	return rc == 0 && t->size != to ? too_short(log, t->size, to, err) : rc;
}

static void note_time(const struct audit_read *got, struct audit_times *ret)
{
	uint64_t ts = (uint64_t)got->row.v[COL_TS].n;

	if (ret->first == 0)
		ret->first = ts;
	ret->last = ts;
	ret->last_kind = (int)got->row.v[COL_KIND].n;
}

int audit_grow_checked(struct db *db, int64_t log, const char *origin, uint64_t to, struct tree *t,
		       struct audit_times *ret_times, struct err *err)
{
	struct audit_reader *reader = audit_reader_new(db);
	struct audit_page page = { .log = log, .origin = origin, .from = (int64_t)t->size, .to = (int64_t)to };
	struct audit_times times = { 0 };
	struct audit_read got;
	int rc;

	while ((rc = audit_reader_next(reader, &page, &got, err)) == 1) {
		if (got.findings || got.idx != (int64_t)t->size) {
			rc = err_set(err, ERR_CORRUPT, origin, "record %" PRId64 " of %s is not as it was written", got.idx, origin);
			break;
		}
		tree_append(t, got.leaf);
		note_time(&got, &times);
	}
	audit_reader_free(&reader);
	if (rc == 0 && t->size != to)
		rc = too_short(log, t->size, to, err);
	*ret_times = times;
	return rc;
}

int audit_at(struct db *db, int64_t log, int64_t idx, uint64_t *ret_ts, int *ret_kind, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_AUDIT_GET_TIME);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, idx);
	rc = db_step(st, err);
	if (rc == 1) {
		*ret_ts = (uint64_t)db_col_i64(st, 0);
		*ret_kind = (int)db_col_i64(st, 1);
	}
	db_stmt_put(&st);
	return rc == 0 ? too_short(log, (uint64_t)idx, (uint64_t)idx + 1, err) : rc < 0 ? rc : 0;
}
