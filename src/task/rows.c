/* Rows of tasks: what the writer does to them, each beside the record that says why, and what a reader's thread opens.
 * A result, and what another round needs, are sealed by XChaCha20-Poly1305 under a key made of the payload key of their
 * caller and month; bound to the task, the column and, where there are several, the round. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"
#include "db/owner.h"
#include "keys/keys.h"

#include "task_int.h"

const char *task_status(enum task_state state)
{
	switch (state) {
	case TASK_WORKING:
	case TASK_HELD:
	case TASK_QUEUED:
	case TASK_FAR:
		break;
	case TASK_INPUT:
		return "input_required";
	case TASK_COMPLETED:
		return "completed";
	case TASK_FAILED:
		return "failed";
	case TASK_CANCELLED:
		return "cancelled";
	}
	return "working";
}

static const char label[] = "toolcrib/k/1";

/* The key of a task, of the payload key that its row names. */
static void key_of(const struct keys_dek *dek, const char *id, uint8_t ret[DIGEST_SIZE])
{
	digest_keyed(dek->key, label, sizeof(label), id, strlen(id), ret);
}

/* round: of a body; -1: of a result. */
static size_t place_of(const char *id, int64_t round, char ret[64])
{
	if (round < 0)
		return (size_t)snprintf(ret, 64, "task/%s/result", id); /* fits, as does the other */
	return (size_t)snprintf(ret, 64, "task/%s/body/%lld", id, (long long)round);
}

/* --- the writer's thread */

/* What is sealed; ct NULL: nothing is. */
struct sealed {
	int64_t key;
	uint8_t nonce[AEAD_NONCE], *ct;
	size_t len;
};

/* Of whom and what: id, tenant, pseudonym, round as place_of() has it, time. */
struct seal_of { const char *id, *prn; int64_t tenant_id, round; uint64_t us; };

static int seal(const struct seal_of *of, const char *text, size_t len, struct db *db, struct audit_logs *logs,
		struct sealed *ret, struct err *err)
{
	const struct keys_dek *dek = NULL;
	uint8_t key[DIGEST_SIZE];
	char ad[64];
	int rc = keys_dek(audit_logs_keys(logs), db, of->tenant_id, of->prn, of->us, &dek, err);

	if (rc < 0)
		return rc;
	key_of(dek, of->id, key);
	ret->key = dek->id;
	ret->len = len + AEAD_TAG;
	ret->ct = mem_alloc(ret->len);
	aead_encrypt(key, ad, place_of(of->id, of->round, ad), text, len, ret->nonce, ret->ct);
	secret_wipe(key, sizeof(key));
	return 0;
}

/* From this position on: the key, the nonce, the text. */
static void bind_sealed(struct db_stmt *st, unsigned pos, const struct sealed *s)
{
	if (s->ct) {
		db_bind_i64(st, pos, s->key);
		db_bind_blob(st, pos + 1, s->nonce, sizeof(s->nonce));
		db_bind_blob(st, pos + 2, s->ct, s->len);
		return;
	}
	for (unsigned i = 0; i < 3; i++)
		db_bind_null(st, pos + i);
}

static const char *sealed_of(const struct task_more *more, const char *behind)
{
	return behind + more->nbytes;
}

static int run_also(const struct task_more *more, const char *behind, struct db *db, struct audit_logs *logs,
		    struct err *err)
{
	return more->also ? more->also->run(behind, more->nbytes, db, logs, err) : 0;
}

static int put_add(const struct task_add *t, const struct sealed *s, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TASK_ADD);

	db_bind_textz(st, 1, t->id);
	db_bind_i64(st, 2, t->tenant_id);
	db_bind_i64(st, 3, t->principal_id);
	db_bind_textz(st, 4, t->prn);
	db_bind_textz(st, 5, *t->cred ? t->cred : NULL);
	db_bind_textz(st, 6, t->tool);
	db_bind_blob(st, 7, t->tdef, sizeof(t->tdef));
	db_bind_blob(st, 8, t->call, sizeof(t->call));
	db_bind_i64(st, 9, (int64_t)t->created_us);
	db_bind_i64(st, 10, (int64_t)t->ends_us);
	db_bind_i64(st, 11, t->poll_ms);
	db_bind_textz(st, 12, t->name);
	db_bind_i64(st, 13, t->state);
	db_bind_i64(st, 14, (int64_t)s->len);
	db_bind_textz(st, 15, *t->note ? t->note : NULL);
	bind_sealed(st, 16, s);
	db_bind_i64(st, 19, t->rerun ? TASK_RERUNS_MAX : 0);
	return db_run(&st, err);
}

static int add(const void *bytes, size_t len, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct task_add *t = bytes;
	const char *behind = (const char *)(t + 1);
	const struct seal_of of = { t->id, t->prn, t->tenant_id, 0, t->created_us };
	struct sealed s = { .ct = NULL };
	int rc = t->more.len ? seal(&of, sealed_of(&t->more, behind), t->more.len, db, logs, &s, err) : 0;

	(void)len;
	if (rc == 0)
		rc = put_add(t, &s, db, err);
	if (rc == 0)
		rc = run_also(&t->more, behind, db, logs, err);
	free(s.ct);
	return rc;
}

/* --- from one state to another */

static int put_set(const struct task_set *m, const struct sealed *s, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TASK_MOVE);
	int rc;

	db_bind_textz(st, 1, m->id);
	db_bind_i64(st, 2, m->tenant_id);
	db_bind_i64(st, 3, m->state);
	db_bind_i64(st, 4, (int64_t)m->updated_us);
	db_bind_textz(st, 5, *m->note ? m->note : NULL);
	db_bind_i64(st, 6, m->round);
	if (m->has_call)
		db_bind_blob(st, 7, m->call, sizeof(m->call));
	else
		db_bind_null(st, 7);
	if (s->ct)
		db_bind_i64(st, 8, (int64_t)s->len);
	else
		db_bind_null(st, 8);
	bind_sealed(st, 9, s);
	rc = db_run(&st, err);
	if (rc == 0 && db_changes(db) != 1)
		rc = err_set(err, ERR_CONFLICT, m->id, "the task has ended");
	return rc;
}

static int move(const void *bytes, size_t len, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct task_set *m = bytes;
	const char *behind = (const char *)(m + 1);
	const struct seal_of of = { m->id, m->prn, m->tenant_id, m->round, m->updated_us };
	struct sealed s = { .ct = NULL };
	int rc = m->has_body ? seal(&of, sealed_of(&m->more, behind), m->more.len, db, logs, &s, err) : 0;

	(void)len;
	if (rc == 0)
		rc = put_set(m, &s, db, err);
	if (rc == 0)
		rc = run_also(&m->more, behind, db, logs, err);
	free(s.ct);
	CRASH_AT("task.moved");
	return rc;
}

/* --- the end */

static int set_end(const struct task_finish *f, const struct sealed *s, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TASK_END);

	db_bind_textz(st, 1, f->id);
	db_bind_i64(st, 2, f->tenant_id);
	db_bind_i64(st, 3, f->state);
	db_bind_i64(st, 4, (int64_t)f->updated_us);
	db_bind_i64(st, 5, (int64_t)f->ends_us);
	db_bind_textz(st, 6, *f->note ? f->note : NULL);
	db_bind_i64(st, 7, (int64_t)s->len);
	bind_sealed(st, 8, s);
	return db_run(&st, err);
}

/* The end of a call gets in whatever becomes of its answer: without a key the task has failed. */
static int end(const void *bytes, size_t len, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct task_finish *f = bytes;
	const struct seal_of of = { f->id, f->prn, f->tenant_id, -1, f->updated_us };
	struct sealed s = { .ct = NULL };
	int rc = f->len ? seal(&of, f->text, f->len, db, logs, &s, err) : 0;

	(void)len;
	if (rc < 0 && rc != ERR_AUDIT && rc != ERR_IO) {
		log_err(NULL, "the result of a task cannot be sealed and is lost error=%s", err->msg);
		rc = 0;
	}
	if (rc == 0)
		rc = set_end(f, &s, db, err);
	free(s.ct);
	return rc;
}

const struct writer_rows task_rows[] = {
	[TASK_ROWS_ADD] = { "task", add },
	[TASK_ROWS_MOVE] = { "state of a task", move },
	[TASK_ROWS_END] = { "end of a task", end },
};

/* --- at a start */

struct cut {
	char id[TASK_ID_LEN + 1], prn[TASK_PRN_MAX], cred[TASK_PRN_MAX], tool[TASK_TEXT_MAX];
	int64_t tenant_id;
	uint8_t call[16];
	uint64_t ends_us;
	bool again;
};

static bool read_cut(struct db_stmt *st, struct cut *ret)
{
	size_t len;
	const void *call = db_col_blob(st, 5, &len);

	*ret = (struct cut){ .tenant_id = db_col_i64(st, 1), .ends_us = (uint64_t)db_col_i64(st, 7),
			     .again = db_col_i64(st, 8) };
	db_col_copy(st, 0, ret->id, sizeof(ret->id));
	db_col_copy(st, 2, ret->prn, sizeof(ret->prn));
	db_col_copy(st, 3, ret->cred, sizeof(ret->cred));
	db_col_copy(st, 4, ret->tool, sizeof(ret->tool));
	if (len == sizeof(ret->call))
		memcpy(ret->call, call, len);
	return len == sizeof(ret->call);
}

/* Of a system that was cut off: fields are the caller's. */
static void cut_event(const struct cut *c, enum audit_kind kind, const struct audit_field *fields, size_t n,
		      struct audit_event *ev)
{
	audit_event_init(ev, kind, c->tenant_id);
	ev->actor = AUDIT_BY_SYSTEM;
	ev->prn = c->prn;
	ev->cred = *c->cred ? c->cred : NULL;
	ev->tool = c->tool;
	ev->has_prev = true;
	memcpy(ev->prev, c->call, sizeof(ev->prev));
	ev->field = fields;
	ev->nfield = n;
}

/* TK-35: its record is as durable as that it waits for another run. */
static int queue_cut(const struct cut *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct audit_field field = { AUDIT_TAG_TASK, c->id, strlen(c->id) };
	struct audit_event ev;
	struct db_stmt *st;
	int rc;

	cut_event(c, AUDIT_TASK_RERUN, &field, 1, &ev);
	rc = audit_append(logs, db, &ev, NULL, err);
	CRASH_AT("task.recover");
	if (rc < 0)
		return rc == ERR_NOT_FOUND ? 0 : rc;
	st = db_stmt_get(db, SQL_TASK_RERUN);
	db_bind_textz(st, 1, c->id);
	db_bind_i64(st, 2, c->tenant_id);
	db_bind_i64(st, 3, (int64_t)clock_wall_us());
	return db_run(&st, err);
}

static int fail_cut(const struct cut *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const uint8_t state = TASK_FAILED;
	const struct audit_field fields[] = { { AUDIT_TAG_TASK, c->id, strlen(c->id) },
					      { AUDIT_TAG_TASK_END, &state, 1 } };
	struct task_finish f = { .tenant_id = c->tenant_id, .state = TASK_FAILED, .updated_us = clock_wall_us() };
	const struct sealed none = { .ct = NULL };
	struct audit_event ev;
	int rc;

	memcpy(f.id, c->id, sizeof(f.id));
	f.ends_us = f.updated_us + UINT64_C(1000) * TASKS_KEPT_MS;
	if (c->ends_us > f.ends_us)
		f.ends_us = c->ends_us;
	cut_event(c, AUDIT_TASK_END, fields, NELEMS(fields), &ev);
	rc = audit_append(logs, db, &ev, NULL, err);
	CRASH_AT("task.recover");
	if (rc == ERR_NOT_FOUND)        /* its tenant has no log any more */
		rc = 0;
	return rc < 0 ? rc : set_end(&f, &none, db, err);
}

/* All are read before the first is changed. */
int task_recover(struct db *db, struct audit_logs *logs, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TASK_CUT);
	struct cut *cuts = NULL;
	size_t n = 0, again = 0;
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		if ((n & (n - 1)) == 0)
			cuts = mem_realloc(cuts, (n ? 2 * n : 1) * sizeof(*cuts));
		n += read_cut(st, &cuts[n]);
	}
	db_stmt_put(&st);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		again += cuts[i].again;
		rc = cuts[i].again ? queue_cut(&cuts[i], db, logs, err) : fail_cut(&cuts[i], db, logs, err);
	}
	if (rc == 0 && n > again)
		log_warn(NULL, "tasks whose runs were cut off have failed count=%zu", n - again);
	if (rc == 0 && again > 0)
		log_warn(NULL, "tasks whose runs were cut off run again count=%zu", again);
	free(cuts);
	return rc;
}

/* --- expiry */

struct due { int64_t id, tenant_id; };

static int record_expired(struct audit_logs *logs, struct db *db, int64_t tenant_id, size_t n, struct err *err)
{
	struct audit_event ev;
	char text[40];
	int rc;

	(void)snprintf(text, sizeof(text), "%zu tasks", n);     /* fits */
	audit_event_init(&ev, AUDIT_TASK_EXPIRE, tenant_id);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.detail = text;
	rc = audit_append(logs, db, &ev, NULL, err);
	return rc == ERR_NOT_FOUND ? 0 : rc;
}

static int by_tenant(const void *a, const void *b)
{
	const struct due *x = a, *y = b;

	return x->tenant_id < y->tenant_id ? -1 : x->tenant_id > y->tenant_id;
}

static int drop(struct db *db, const struct due *d, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TASK_DROP);

	db_bind_i64(st, 1, d->id);
	db_bind_i64(st, 2, d->tenant_id);
	return db_run(&st, err);
}

int task_expire(struct task_expiry *x, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct due due[TASKS_EXPIRE_BATCH];
	struct db_stmt *st = db_stmt_get(db, SQL_TASK_DUE);
	size_t same = 0;
	int rc;

	db_bind_i64(st, 1, (int64_t)x->now_us);
	db_bind_i64(st, 2, TASKS_EXPIRE_BATCH);
	for (x->n = 0; (rc = db_step(st, err)) == 1; x->n++) {
		due[x->n] = (struct due){ db_col_i64(st, 0), db_col_i64(st, 1) };
		db_col_copy(st, 2, x->id[x->n], sizeof(x->id[0]));
	}
	db_stmt_put(&st);
	qsort(due, x->n, sizeof(due[0]), by_tenant);
	for (size_t i = 0; rc == 0 && i < x->n; i++) {
		same++;
		rc = drop(db, &due[i], err);
		if (rc == 0 && (i + 1 == x->n || due[i + 1].tenant_id != due[i].tenant_id)) {
			rc = record_expired(logs, db, due[i].tenant_id, same, err);
			same = 0;
		}
	}
	return rc;
}

/* --- a reader's thread */

static int decrypt(struct keys *keys, const char *id, int64_t tenant_id, bool body, struct db_stmt *st, struct str *ret,
		   struct err *err)
{
	size_t nonce_len, len;
	const uint8_t *nonce = db_col_blob(st, 1, &nonce_len), *ct = db_col_blob(st, 2, &len);
	const struct keys_dek *dek = NULL;
	uint8_t key[DIGEST_SIZE];
	char ad[64], *text;
	int rc;

	if (nonce_len != AEAD_NONCE || len < AEAD_TAG)
		return err_set(err, ERR_NOT_FOUND, id, "what was sealed of a task is not as it was");
	rc = keys_find(keys, tenant_id, db_col_i64(st, 0), &dek, err);
	if (rc < 0)
		return rc;
	key_of(dek, id, key);
	text = mem_alloc(len - AEAD_TAG + 1);
	rc = aead_decrypt(key, ad, place_of(id, body ? db_col_i64(st, 3) : -1, ad), nonce, ct, len, text);
	secret_wipe(key, sizeof(key));
	if (rc == 0)
		str_put(ret, text, len - AEAD_TAG);
	free(text);
	return rc < 0 ? err_set(err, ERR_NOT_FOUND, id, "what was sealed of a task is not as it was") : 1;
}

/* Connections of readers, which are dear to open: kept from one to the next, without any key.  So what was erased is
 * gone at once: its key is looked for in the file each time.  One that finds nothing may be of a file that is not there
 * any more, and another one looks again. */
struct task_reader { struct db *db; struct keys *keys; struct stat file[2]; };

static void reader_free(struct task_reader *r)
{
	if (!r)
		return;
	keys_close(&r->keys);
	db_close(&r->db);
	free(r);
}

/* Which files it reads, by the names that they have now. */
static int look_at(const struct keyfile_place *place, struct stat file[2])
{
	const char *const names[] = { DB_FILE, DB_KEYS };
	int rc = 0;

	for (size_t i = 0; i < NELEMS(names) && rc == 0; i++) {
		char *path = path_join(place->store, names[i]);

		rc = stat(path, &file[i]) < 0 ? ERR_IO : 0;
		free(path);
	}
	return rc;
}

static bool is_the_same(const struct stat a[2], const struct stat b[2])
{
	return a[0].st_dev == b[0].st_dev && a[0].st_ino == b[0].st_ino &&
	       a[1].st_dev == b[1].st_dev && a[1].st_ino == b[1].st_ino;
}

static int reader_open(const struct keyfile_place *place, struct task_reader **ret, struct err *err)
{
	struct task_reader *r = mem_zalloc(sizeof(*r));
	int rc = look_at(place, r->file);

	if (rc < 0)
		(void)err_set(err, ERR_IO, place->store, "the store is not there");
	else
		rc = db_open_store(db_in(place->store), &r->db, err);
	if (rc == 0)
		rc = keys_open_reader(place, &r->keys, err);
	if (rc == 0)
		*ret = r;
	else
		reader_free(r);
	return rc;
}

/* NULL: none is kept of these files. */
static struct task_reader *reader_take(struct task_readers *all, const struct keyfile_place *place)
{
	struct task_reader *r = NULL;
	struct stat now[2];

	(void)pthread_mutex_lock(&all->lock);
	if (all->n > 0)
		r = all->idle[--all->n];
	(void)pthread_mutex_unlock(&all->lock);
	if (r && (look_at(place, now) < 0 || !is_the_same(r->file, now))) {
		reader_free(r);
		r = NULL;
	}
	return r;
}

static void reader_give(struct task_readers *all, struct task_reader *r)
{
	keys_abandon(r->keys);          /* wiped */
	(void)pthread_mutex_lock(&all->lock);
	if (all->n < NELEMS(all->idle)) {
		all->idle[all->n++] = r;
		r = NULL;
	}
	(void)pthread_mutex_unlock(&all->lock);
	reader_free(r);
}

void task_readers_fini(struct task_readers *all)
{
	while (all->n > 0)
		reader_free(all->idle[--all->n]);
	(void)pthread_mutex_destroy(&all->lock);
}

static int unseal(struct task_reader *r, const char *id, int64_t tenant_id, bool body, struct str *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(r->db, body ? SQL_TASK_BODY : SQL_TASK_SEALED);
	int rc;

	db_bind_textz(st, 1, id);
	db_bind_i64(st, 2, tenant_id);
	rc = db_step(st, err);
	if (rc == 0)
		rc = err_set(err, ERR_NOT_FOUND, id, "its row is gone");
	else if (rc == 1)
		rc = db_col_type(st, 2) == DB_NULL ? 0 : decrypt(r->keys, id, tenant_id, body, st, ret, err);
	db_stmt_put(&st);
	return rc;
}

int task_unseal(struct task_readers *all, const struct keyfile_place *place, const char *id, int64_t tenant_id,
		bool body, struct str *ret, struct err *err)
{
	struct task_reader *r = reader_take(all, place);
	int rc = r ? unseal(r, id, tenant_id, body, ret, err) : ERR_IO;

	if (rc < 0) {
		reader_free(r);
		r = NULL;
		str_reset(ret);
		rc = reader_open(place, &r, err);
		rc = rc ? rc : unseal(r, id, tenant_id, body, ret, err);
	}
	if (rc < 0)
		reader_free(r);
	else
		reader_give(all, r);
	return rc;
}
