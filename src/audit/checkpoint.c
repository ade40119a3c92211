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

void audit_beat_fini(struct audit_beat *b)
{
	for (size_t i = 0; i < b->nhead; i++) {
		free(b->head[i].origin);
		free(b->head[i].leaf);
	}
	free(b->head);
	*b = (struct audit_beat){ 0 };
}

/* --- what is due */

static int tree_of(struct audit_logs *logs, struct audit_log *log, struct db *db, struct tree *ret, struct err *err)
{
	int rc = log->tail ? 0 : logs->shared ? audit_shared_look(logs, log, db, err) : audit_tail_open(log, db, err);

	if (rc == 0)
		audit_tail_tree(log->tail, ret);
	return rc;
}

static void add_head(struct audit_logs *logs, struct audit_beat *b, struct audit_log *log, const struct tree *t)
{
	struct audit_head *h;

	b->head = mem_realloc(b->head, (b->nhead + 1) * sizeof(*b->head));
	h = &b->head[b->nhead++];
	*h = (struct audit_head){ .log = log->id, .tenant_id = log->tenant_id, .origin = mem_strdup(log->origin), .tree = *t };
	h->leaf = audit_tail_fresh(log->tail, t, &h->from);
	log->head_due = logs->some_due = true;
}

static int collect_tenants(struct audit_logs *logs, struct db *db, size_t max, struct audit_beat *b, struct err *err)
{
	LIST_FOREACH_SAFE(n, next, &logs->behind) {
		struct audit_log *log = CONTAINER_OF(n, struct audit_log, behind);
		struct tree t;
		int rc;

		if (log->id == AUDIT_SYSTEM_LOG)
			continue;
		b->owed |= log->headed < log->size;
		if (log->size <= log->noted.size) {
			if (log->headed >= log->size)
				list_unlink(n);
			continue;
		}
		if (b->nhead == max) {
			b->left++;
			continue;
		}
		rc = tree_of(logs, log, db, &t, err);
		if (rc < 0)
			return rc;
		add_head(logs, b, log, &t);
	}
	return 0;
}

/* --- logs.commit */

struct saying {
	struct audit_logs *logs;
	struct db *db;
	const uint8_t *policies;
	struct audit_log **log; size_t n, cap;
};

/* AUDIT A-702: one record of the system log for up to AUDIT_HEADS_MAX logs. */
static int write_commit(const struct saying *s, const uint8_t *heads, size_t len, struct err *err)
{
	uint8_t count[8];
	struct audit_field fields[3];
	struct audit_event ev;

	audit_put_be(count, map_count(s->logs->by_tenant), sizeof(count));
	audit_event_init(&ev, AUDIT_LOGS_COMMIT, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.field = fields;
	fields[ev.nfield++] = (struct audit_field){ AUDIT_TAG_LOGS, count, sizeof(count) };
	if (len > 0)
		fields[ev.nfield++] = (struct audit_field){ AUDIT_TAG_HEADS_ROOT, heads, len };
	if (s->policies)
		fields[ev.nfield++] = (struct audit_field){ AUDIT_TAG_POLICIES, s->policies, AUDIT_POLICIES_SIZE };
	return audit_append(s->logs, s->db, &ev, NULL, err);
}

static int say_some(const struct saying *s, struct audit_log *const *log, size_t n, struct err *err)
{
	uint8_t leaf[TREE_HASH], root[TREE_HASH], *bytes = mem_alloc(AUDIT_HEADS_BYTES);
	struct audit_said *said = mem_calloc(n, sizeof(*said));
	struct tree t, heads = { 0 };
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		rc = tree_of(s->logs, log[i], s->db, &t, err);
		if (rc < 0)
			break;
		said[i] = (struct audit_said){ (uint64_t)log[i]->id, t.size };
		tree_root(&t, root);
		audit_head_leaf(&said[i], root, leaf);
		tree_append(&heads, leaf);
	}
	if (rc == 0) {
		tree_root(&heads, root);
		rc = write_commit(s, bytes, audit_heads_write(said, n, root, bytes), err);
	}
	free(said);
	free(bytes);
	return rc;
}

static void note_said(struct audit_logs *logs, struct audit_log *log, enum audit_saying say)
{
	audit_undo_push(logs, UNDO_HEADED, log);
	logs->undo[logs->undo_len - 1].last_id = log->headed;
	log->headed = log->size;
	if (say != AUDIT_SAY_ALL)
		return;
	audit_undo_push(logs, UNDO_SAID_LAST, log);
	logs->undo[logs->undo_len - 1].last_id = log->said_last;
	log->said_last = log->size;
}

static void add_log(struct saying *s, struct audit_log *log, int64_t said)
{
	if (log->id == AUDIT_SYSTEM_LOG || log->size <= said)
		return;
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->log = mem_realloc(s->log, s->cap * sizeof(struct audit_log *));
	}
	s->log[s->n++] = log;
}

static void choose(struct saying *s, enum audit_saying say)
{
	void *log;

	if (say == AUDIT_SAY_GROWN)
		LIST_FOREACH(n, &s->logs->behind) {
			struct audit_log *l = CONTAINER_OF(n, struct audit_log, behind);

			add_log(s, l, l->headed);
		}
	else if (say == AUDIT_SAY_ALL)
		for (size_t it = 0; map_next(s->logs->by_tenant, &it, NULL, NULL, &log);) {
			struct audit_log *l = log;

			add_log(s, l, l->said_last < l->headed ? l->said_last : l->headed);
		}
	if (s->n > 0)
		qsort(s->log, s->n, sizeof(struct audit_log *), audit_log_order);
}

static int say_heads(struct saying *s, const struct audit_beat_opt *o, struct err *err)
{
	int rc = 0;

	choose(s, o->say);
	if (s->n == 0 && o->always)
		rc = write_commit(s, NULL, 0, err);
	for (size_t at = 0; at < s->n && rc == 0; at += AUDIT_HEADS_MAX)
		rc = say_some(s, s->log + at, s->n - at < AUDIT_HEADS_MAX ? s->n - at : AUDIT_HEADS_MAX, err);
	for (size_t i = 0; i < s->n && rc == 0; i++)
		note_said(s->logs, s->log[i], o->say);
	free(s->log);
	return rc;
}

int audit_beat(struct audit_logs *logs, struct db *db, const struct audit_beat_opt *opt, struct audit_beat *ret,
	       struct err *err)
{
	struct audit_beat beat = { .ts = clock_wall_us() };
	struct saying s = { .logs = logs, .db = db, .policies = opt->policies };
	int rc = collect_tenants(logs, db, opt->max, &beat, err);

	if (opt->say != AUDIT_SAY_LATER)
		audit_heads_due(logs);
	if (rc == 0)
		rc = say_heads(&s, opt, err);
	beat.owed &= opt->say == AUDIT_SAY_LATER;
	if (rc < 0)
		audit_beat_fini(&beat);
	else
		*ret = beat;
	return rc;
}

void audit_heads_forget(struct audit_logs *logs)
{
	void *value;

	for (size_t it = 0; map_next(logs->by_tenant, &it, NULL, NULL, &value);) {
		struct audit_log *log = value;

		log->headed = log->said_last = 0;
		if (log->size > 0)
			audit_behind(logs, log);
	}
}

int audit_beat_system(struct audit_logs *logs, struct db *db, struct audit_beat *b, struct err *err)
{
	struct audit_log *system = audit_log_find(logs, 0);
	struct tree t;
	int rc;

	if (!system || (b->nhead == 0 && system->size <= system->noted.size))
		return 0;
	rc = tree_of(logs, system, db, &t, err);
	if (rc == 0)
		add_head(logs, b, system, &t);
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
	if (log->size > log->noted.size || log->size > log->headed)
		audit_behind(logs, log);
	return 0;
}

/* AUDIT A-706: what is older than a month stays at the end of its epoch.  The walk goes round over all logs of tenants,
 * some rows in each turn; what is younger ends the look at its log. */
struct old_note { int64_t log, size, epoch, ts; };

static int list_on(struct audit_logs *logs, struct db *db, struct old_note ret[AUDIT_THIN_ROWS], size_t *ret_n,
		   struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_CP_LIST_ON);
	int rc;

	*ret_n = 0;
	db_bind_i64(st, 1, logs->thin.log);
	db_bind_i64(st, 2, logs->thin.size);
	db_bind_i64(st, 3, AUDIT_THIN_ROWS);
	while ((rc = db_step(st, err)) == 1 && *ret_n < AUDIT_THIN_ROWS)
		ret[(*ret_n)++] = (struct old_note){ db_col_i64(st, 0), db_col_i64(st, 1), db_col_i64(st, 2), db_col_i64(st, 3) };
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int delete_note(struct db *db, const struct old_note *n, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_CP_DELETE);

	db_bind_i64(st, 1, n->log);
	db_bind_i64(st, 2, n->size);
	return db_run(&st, err);
}

static int thin(struct audit_logs *logs, struct db *db, int64_t now, struct err *err)
{
	struct old_note v[AUDIT_THIN_ROWS];
	size_t n = 0, i = 0;
	int rc;

	if (logs->thin.log < AUDIT_SYSTEM_LOG)          /* whose notes are anchored, and few */
		logs->thin.log = AUDIT_SYSTEM_LOG, logs->thin.size = INT64_MAX;
	rc = list_on(logs, db, v, &n, err);
	for (; rc == 0 && i + 1 < n && v[i].ts < now - AUDIT_THIN_US; i++) {
		if (v[i].log == v[i + 1].log && v[i].epoch == v[i + 1].epoch)
			rc = delete_note(db, &v[i], err);
		logs->thin.log = v[i].log;
		logs->thin.size = v[i].size;
	}
	if (rc == 0 && i < n && v[i].ts >= now - AUDIT_THIN_US) {
		logs->thin.log = v[i].log;
		logs->thin.size = INT64_MAX;
	} else if (rc == 0 && n < AUDIT_THIN_ROWS) {
		logs->thin.log = 0;
	}
	return rc;
}

int audit_beat_store(struct audit_logs *logs, struct db *db, const struct audit_beat *b, const struct audit_note *notes,
		     int64_t epoch, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < b->nhead; i++)
		if (notes[i].p)
			rc = store_note(logs, db, &b->head[i], &notes[i], epoch, b->ts, err);
	return rc < 0 ? rc : thin(logs, db, (int64_t)b->ts, err);
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
	return db_meta_set(db, META_LOG_KEY, hex, err);
}

int audit_log_key_get(struct db *db, uint8_t ret[SIGN_PUBLIC_SIZE], struct err *err)
{
	char hex[2 * SIGN_PUBLIC_SIZE + 2];
	int rc = db_meta_get(db, META_LOG_KEY, hex, sizeof(hex), err);

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
	int rc = db_meta_get(db, META_INSTANCE, instance, sizeof(instance), err);

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
	return tree_of(logs, log, db, ret, err);
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
