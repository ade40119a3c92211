/* Keys and checkpoints (AUDIT 8, steps 2 and 3).  From the pinned key of the first epoch to the newest each key is
 * signed by the one before.  Each checkpoint is a strict note of its log with both signatures, sizes and epochs
 * ascend, every epoch has one, and at its size the records give its root.  What no checkpoint covers is told. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/checkpoint.h"
#include "base/clock.h"
#include "base/mem.h"
#include "db/db.h"
#include "succession/succession.h"
#include "tlog/signer.h"

#include "verify_int.h"

/* --- the chain of keys */

struct verify_keys {
	char instance[NOTE_NAME_MAX + 1];
	bool has_log_key, log_pinned;
	uint8_t log_key[SIGN_PUBLIC_SIZE];
	uint8_t (*epoch)[SIGN_PUBLIC_SIZE];
	size_t n, cap;
	struct past *past;              /* NULL: nothing was carried */
};

/* What an earlier verification has seen of the chain. */
struct past {
	char instance[NOTE_NAME_MAX + 1];
	bool has_log_key, pinned;
	uint8_t log_key[SIGN_PUBLIC_SIZE];
	size_t n;
	uint8_t epoch[][SIGN_PUBLIC_SIZE];
};

static int read_instance(struct verify *v, char ret[NOTE_NAME_MAX + 1], struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_GET_SYSTEM);
	int rc = db_step(st, err);

	if (rc == 1)
		snprintf(ret, NOTE_NAME_MAX + 1, "%s", db_col_text(st, 0, NULL));
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static const struct note_key *pinned(const struct verify *v, const char *name)
{
	for (size_t i = 0; i < v->with->nkey; i++)
		if (strcmp(v->with->key[i].name, name) == 0)
			return &v->with->key[i];
	return NULL;
}

/* An epoch that is pinned must have that key; the first one has nothing else to vouch for it. */
static bool is_as_pinned(const struct verify *v, uint64_t n, const uint8_t public[SIGN_PUBLIC_SIZE])
{
	const struct note_key *pin;
	struct note_key key;

	if (epoch_key_set(&key, v->keys->instance, n, public) < 0)
		return false;
	pin = pinned(v, key.name);
	v->sum->pinned |= pin != NULL;
	return !pin || memcmp(pin->public, public, SIGN_PUBLIC_SIZE) == 0;
}

static void add_epoch(struct verify *v, uint64_t n, const void *pk, size_t pk_len, const void *cert, size_t cert_len)
{
	struct verify_keys *k = v->keys;
	uint8_t text[EPOCH_CERT_TEXT], public[SIGN_PUBLIC_SIZE] = { 0 };
	char detail[80];
	bool good = pk_len == sizeof(public) && n == k->n;

	if (good) {
		memcpy(public, pk, sizeof(public));
		epoch_cert_text(n, public, text);
		good = is_as_pinned(v, n, public) &&
		       (n == 0 ? cert_len == 0 : cert_len == SIGN_SIZE && sign_check(k->epoch[n - 1], text, sizeof(text), cert));
	}
	if (!good) {
		snprintf(detail, sizeof(detail), "epoch %" PRIu64 " does not follow from the one before", n);
		verify_tell_store(v, AUDIT_FINDING_KEYCHAIN, NULL, detail);
	}
	if (k->n == k->cap) {
		k->cap = k->cap ? 2 * k->cap : 64;
		k->epoch = mem_realloc(k->epoch, k->cap * sizeof(*k->epoch));
	}
	memcpy(k->epoch[k->n++], public, sizeof(public));
}

/* Epochs that are not known yet: the store may be in use. */
static int load_epochs(struct verify *v, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_LIST_EPOCHS);
	int rc;

	db_bind_i64(st, 1, (int64_t)v->keys->n);
	while ((rc = db_step(st, err)) == 1) {
		size_t pk_len = 0, cert_len = 0;
		const void *pk = db_col_blob(st, 1, &pk_len), *cert = db_col_blob(st, 2, &cert_len);

		add_epoch(v, (uint64_t)db_col_i64(st, 0), pk, pk_len, cert, cert_len);
	}
	db_stmt_put(&st);
	return rc;
}

static void found(void *v, const struct audit_finding *f) { verify_tell(v, f); }

static int keys_open(struct verify *v, struct err *err)
{
	struct verify_keys *k = v->keys = mem_zalloc(sizeof(*k));
	const struct note_key *pin;
	int rc = read_instance(v, k->instance, err);

	rc = rc == 0 ? successions_open(v->db, found, v, &v->successions, err) : rc;
	if (rc == 0) {
		rc = audit_log_key_get(v->db, k->log_key, err);
		if (rc == ERR_CORRUPT) {
			verify_tell_store(v, AUDIT_FINDING_KEYCHAIN, NULL, err->msg);
			rc = 0;
		}
		k->has_log_key = rc == 1;
	}
	if (rc >= 0)
		rc = load_epochs(v, err);
	if (rc < 0)
		return rc;
	pin = pinned(v, k->instance);
	if (pin && (!k->has_log_key || memcmp(pin->public, k->log_key, sizeof(k->log_key)) != 0))
		verify_tell_store(v, AUDIT_FINDING_KEYCHAIN, NULL, "the key of the logs is not the pinned one");
	if (pin)
		memcpy(k->log_key, pin->public, sizeof(k->log_key));
	k->has_log_key |= pin != NULL;
	k->log_pinned = pin != NULL;
	if (k->n > 0 && !k->has_log_key)
		verify_tell_store(v, AUDIT_FINDING_KEYCHAIN, NULL, "the store does not name the key of its logs");
	if (v->with->nkey > 0 && !v->sum->pinned)
		verify_tell_store(v, AUDIT_FINDING_KEYCHAIN, NULL, "the store has no epoch of which a key is pinned");
	v->sum->epochs = k->n;
	v->next_epoch = UINT64_MAX;
	return 0;
}

static void save_keys(const struct verify *v, struct str *to)
{
	const struct verify_keys *k = v->keys;

	pack_text(to, k->instance, strlen(k->instance));
	pack_u64(to, k->has_log_key);
	pack_u64(to, v->sum->pinned);
	pack_bytes(to, k->log_key, sizeof(k->log_key));
	pack_u64(to, k->n);
	pack_bytes(to, k->epoch, k->n * SIGN_PUBLIC_SIZE);
	pack_u64(to, v->way ? v->next_epoch : UINT64_MAX);
	pack_u64(to, v->way && v->stopped);
}

static void load_keys(struct verify *v, struct unpack *in)
{
	struct past was = { .n = 0 };

	unpack_name(in, was.instance, sizeof(was.instance));
	was.has_log_key = unpack_bool(in);
	was.pinned = unpack_bool(in);
	unpack_bytes(in, was.log_key, sizeof(was.log_key));
	was.n = unpack_count(in, SIGN_PUBLIC_SIZE);
	if (in->bad)
		return;
	free(v->keys->past);
	v->keys->past = mem_alloc(sizeof(was) + was.n * SIGN_PUBLIC_SIZE);
	*v->keys->past = was;
	unpack_bytes(in, v->keys->past->epoch, was.n * SIGN_PUBLIC_SIZE);
	v->next_epoch = unpack_u64(in);
	v->stopped = unpack_bool(in);
}

/* The store is the one of the mark, and its keys follow from those.  Who pinned a key then, has pinned it. */
static int keys_start(struct verify *v, struct err *err)
{
	const struct verify_keys *k = v->keys;
	const struct past *p = k->past;
	bool same;

	if (!p)
		return 0;
	if (strcmp(p->instance, k->instance) != 0) {
		(void)err_set(err, ERR_INVALID, "", "the mark is of another store, %s", p->instance);
		err_hint(err, "run once without --mark");
		return ERR_INVALID;
	}
	same = p->n <= k->n && (p->n == 0 || memcmp(p->epoch, k->epoch, p->n * SIGN_PUBLIC_SIZE) == 0) &&
	       (!p->has_log_key || (k->has_log_key && memcmp(p->log_key, k->log_key, sizeof(k->log_key)) == 0));
	if (!same)
		verify_tell_store(v, AUDIT_FINDING_KEYCHAIN, NULL, "the keys are not those that the mark has seen");
	v->sum->pinned |= same && p->pinned && p->n > 0;
	return 0;
}

/* --- signatures */

static bool keys_signed(const struct verify *v)
{
	return v->keys->n > 0;
}

static uint64_t keys_newest(const struct verify *v)
{
	return v->keys->n - 1;
}

static bool is_signed(const struct note *n, const char *name, const uint8_t public[SIGN_PUBLIC_SIZE])
{
	struct note_key key;

	return note_key_set(&key, name, public) == 0 && note_check(n, &key) == 1;
}

/* Whether both signatures of a checkpoint are good. */
static int keys_check(struct verify *v, const struct note *n, const char *origin, uint64_t epoch, bool *ret,
		      struct err *err)
{
	struct verify_keys *k = v->keys;
	struct note_key key;
	int rc = epoch >= k->n ? load_epochs(v, err) : 0;

	if (rc < 0)
		return rc;
	v->sum->notes++;
	*ret = epoch < k->n && is_signed(n, origin, k->log_key) &&
	       epoch_key_set(&key, k->instance, epoch, k->epoch[epoch]) == 0 && note_check(n, &key) == 1;
	return 0;
}

int verify_keys_know(const struct verify *v, const struct note *n, const char *origin)
{
	const struct verify_keys *k = v->keys;
	struct note_key key;

	if (k->log_pinned)
		return is_signed(n, origin, k->log_key);
	for (size_t i = k->n; i > 0 && v->sum->pinned; i--)
		if (epoch_key_set(&key, k->instance, i - 1, k->epoch[i - 1]) == 0 && note_check(n, &key) == 1)
			return 1;
	return v->sum->pinned ? 0 : -1;
}

/* A record of epoch.start against the table. */
static void check_start(struct verify_log *c, const struct audit_row *row, int64_t idx)
{
	const struct verify_keys *k = c->v->keys;
	const struct audit_value *ext = &row->v[COL_EXT];
	size_t n_len = 0, pk_len = 0;
	const uint8_t *n = ext->present ? audit_field_find(ext->p, ext->len, AUDIT_TAG_EPOCH, &n_len) : NULL;
	const uint8_t *pk = ext->present ? audit_field_find(ext->p, ext->len, AUDIT_TAG_PUBLIC, &pk_len) : NULL;
	uint64_t epoch = n && n_len == 8 ? audit_get_be(n, 8) : UINT64_MAX;

	if (epoch >= k->n || pk_len != SIGN_PUBLIC_SIZE || memcmp(k->epoch[epoch], pk, SIGN_PUBLIC_SIZE) != 0)
		verify_tell_record(c, AUDIT_FINDING_KEYCHAIN, idx, idx);
}

/* --- notes */

/* A signed note as it is due: when the tree has its size. */
struct signed_note {
	uint64_t size, epoch;
	uint8_t root[TREE_HASH];
	bool due, good;                 /* good: signed, so that its root means something */
};

struct verify_checkpoints {
	struct signed_note next;
	bool noted;                     /* there was one before, of last_epoch */
	uint64_t last_epoch;
	uint64_t bare_us;               /* time of the first record that nothing signed covers yet */
	uint64_t begun_us;              /* when the log was begun to be read */
	int64_t last_kind, covered_kind;        /* of the last record; of the last one that something signed covers */
};

static void tell(struct verify_log *c, enum audit_finding_code code, uint64_t size, const char *what)
{
	char detail[120];

	snprintf(detail, sizeof(detail), "the checkpoint at %" PRIu64 " %s", size, what);
	verify_tell_store(c->v, code, c->head->origin, detail);
}

/* A log that grew in an epoch was signed in it, or at the start of the next. */
static void settle(struct verify_log *c, uint64_t size, uint64_t epoch)
{
	if (c->cover.owed_size == 0 || size < c->cover.owed_size)
		return;
	if (epoch > c->cover.owed_epoch + 1 && !successions_epochs(c->v->successions, c->cover.owed_epoch, epoch))
		tell(c, AUDIT_FINDING_EPOCH_GAP, size, "comes after an epoch in which the log grew and was not signed");
	c->cover.owed_size = 0;
}

static void check_order(struct verify_log *c, const struct signed_note *n)
{
	bool system = verify_is_system(c);

	if (c->checkpoints->noted && n->epoch < c->checkpoints->last_epoch)
		tell(c, AUDIT_FINDING_CP_ORDER, n->size, "is of an earlier epoch than the one before");
	if (system && n->epoch > (c->checkpoints->noted ? c->checkpoints->last_epoch + 1 : 0) &&
	    !(c->checkpoints->noted && successions_epochs(c->v->successions, c->checkpoints->last_epoch, n->epoch)))
		tell(c, AUDIT_FINDING_EPOCH_GAP, n->size, "leaves an epoch out");
}

static int parse(struct verify_log *c, const char *text, size_t len, struct err *err)
{
	struct signed_note *n = &c->checkpoints->next;
	struct checkpoint cp;
	struct note note;

	n->good = false;
	if (note_parse(text, len, &note) < 0 || checkpoint_parse(note.text, note.text_len, &cp) < 0) {
		tell(c, AUDIT_FINDING_PARSE, n->size, "is no signed note");
		return 0;
	}
	if (cp.size != n->size) {
		tell(c, AUDIT_FINDING_CP_ORDER, n->size, "is one of another size");
		return 0;
	}
	memcpy(n->root, cp.root, TREE_HASH);
	if (successions_fit(c->v->successions, cp.origin, c->head->origin, n->size))
		return keys_check(c->v, &note, cp.origin, n->epoch, &n->good, err);
	return 0;
}

/* The next note behind a size, up to the newest of when the log's head was read, which may have been replaced since. */
static int fetch(struct verify_log *c, uint64_t after, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->v->db, SQL_VERIFY_NEXT_NOTE);
	struct signed_note *n = &c->checkpoints->next;
	size_t len = 0;
	int rc;

	db_bind_i64(st, 1, c->head->id);
	db_bind_i64(st, 2, (int64_t)after);
	db_bind_i64(st, 3, c->head->noted);
	rc = db_step(st, err);
	*n = (struct signed_note){ .due = rc == 1 };
	if (rc == 1) {
		const char *text = db_col_blob(st, 2, &len);

		n->size = (uint64_t)db_col_i64(st, 0);
		n->epoch = (uint64_t)db_col_i64(st, 1);
		n->due = db_col_type(st, 0) == DB_INT && n->size > after;
		if (n->due)
			rc = parse(c, text, len, err);
		else    /* a text is larger than any number: it would come again and again */
			tell(c, AUDIT_FINDING_PARSE, after, "is followed by one whose size is no number");
	} else if (rc == 0 && c->head->note.len > 0 && c->head->noted > (int64_t)after) {
		*n = (struct signed_note){ .due = true, .size = (uint64_t)c->head->noted, .epoch = (uint64_t)c->head->note_epoch };
		rc = parse(c, c->head->note.p, c->head->note.len, err);
	}
	db_stmt_put(&st);
	c->cover.due = n->due;
	c->cover.due_size = n->size;
	c->cover.due_epoch = n->epoch;
	if (verify_is_system(c) && n->due && c->v->next_epoch == UINT64_MAX)
		c->v->next_epoch = n->epoch;
	if (rc == 0 && n->due)
		check_order(c, n);
	return rc;
}

/* One that is good, of a size that the tree has. */
static int compare(struct verify_log *c, const struct signed_note *n, struct err *err)
{
	uint8_t root[TREE_HASH];
	uint64_t ts;
	int rc = 1;

	if (n->size == c->tree.size)
		tree_root(&c->tree, root);
	else
		rc = c->start == VERIFY_BEHIND ? verify_past_root(c, n->size, root, &ts, err) : 0;
	if (rc == 1 && memcmp(root, n->root, TREE_HASH) != 0)
		tell(c, AUDIT_FINDING_ROOT, n->size, "has another root than the records");
	else if (rc == 1 && n->size > c->cover.covered)
		c->cover.covered = n->size;
	if (rc == 0 && c->start == VERIFY_BEHIND)
		verify_tell_store(c->v, AUDIT_FINDING_NOT_CHECKED, c->head->origin,
				  "a checkpoint is of a size below the mark, and what is kept of tiles does not give its root");
	return rc < 0 ? rc : 0;
}

/* All that are due now. */
static int pass(struct verify_log *c, struct err *err)
{
	int rc = 0;

	while (rc == 0 && c->checkpoints->next.due && c->checkpoints->next.size <= c->tree.size) {
		struct signed_note *n = &c->checkpoints->next;

		if (!n->good)
			tell(c, AUDIT_FINDING_CP_SIG, n->size, "is not signed by the keys of its log and epoch");
		else
			rc = compare(c, n, err);
		settle(c, n->size, n->epoch);
		c->checkpoints->noted = true;
		c->cover.last_size = n->size;
		c->checkpoints->last_epoch = n->epoch;
		if (rc == 0)
			rc = fetch(c, n->size, err);
	}
	return rc;
}

/* AUDIT A-722: bad where nobody could write any more, because what is signed ends with a stop, or all does; else what
 * the next checkpoint will cover. */
static void tell_tail(struct verify_log *c)
{
	struct verify *v = c->v;
	uint64_t young_us = v->with->young_s * 1000000, bare_us = c->checkpoints->bare_us;

	/* As old as it was when the log was begun: reading a long one takes its time, and signing goes on. */
	if (young_us && bare_us <= clock_wall_us() && bare_us + young_us > c->checkpoints->begun_us)
		return;
	verify_tell(v, &(struct audit_finding){ .code = AUDIT_FINDING_UNCOVERED_TAIL, .origin = c->head->origin,
		.from = (int64_t)c->cover.covered, .to = (int64_t)c->tree.size - 1, .gap = !v->stopped });
}

/* --- the step */

static int checkpoints_begin(struct verify_log *c, struct err *err)
{
	(void)err;
	c->checkpoints = mem_zalloc(sizeof(*c->checkpoints));
	c->checkpoints->begun_us = clock_wall_us();
	return 0;
}

static int checkpoints_start(struct verify_log *c, struct err *err)
{
	int rc = fetch(c, c->cover.last_size, err);

	if (rc == 0)
		rc = pass(c, err);
	if (rc == 0 && c->start == VERIFY_BEHIND && c->cover.covered == c->tree.size)
		c->checkpoints->covered_kind = c->checkpoints->last_kind;
	return rc;
}

static void save_checkpoints(const struct verify_log *c, struct str *to)
{
	const struct verify_checkpoints *k = c->checkpoints;

	pack_u64(to, k->noted);
	pack_u64(to, k->last_epoch);
	pack_u64(to, k->bare_us);
	pack_u64(to, (uint64_t)k->last_kind);
	pack_u64(to, (uint64_t)k->covered_kind);
}

static void load_checkpoints(struct verify_log *c, struct unpack *in)
{
	struct verify_checkpoints *k = c->checkpoints;

	k->noted = unpack_bool(in);
	k->last_epoch = unpack_u64(in);
	k->bare_us = unpack_u64(in);
	k->last_kind = (int64_t)unpack_u64(in);
	k->covered_kind = (int64_t)unpack_u64(in);
}

static int checkpoints_record(struct verify_log *c, const struct audit_read *got, struct err *err)
{
	const struct audit_value *ts = &got->row.v[COL_TS];
	struct verify_checkpoints *k = c->checkpoints;
	int rc = 0;

	if (verify_is_system(c))
		successions_record(c->v->successions, &got->row, got->idx, c->head->origin);
	if (verify_is_system(c) && verify_kind(&got->row) == AUDIT_EPOCH_START)
		check_start(c, &got->row, got->idx);
	if (c->tree.size == c->cover.covered + 1)
		k->bare_us = ts->present ? (uint64_t)ts->n : 0;
	k->last_kind = verify_kind(&got->row);
	if (k->next.due && k->next.size <= c->tree.size)
		rc = pass(c, err);
	if (c->cover.covered == c->tree.size)
		k->covered_kind = k->last_kind;
	return rc;
}

/* 1: there is a newer note than when the head was read, which this verification does not compare. */
static int signed_since(const struct verify_log *c, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->v->db, SQL_VERIFY_NEWEST_NOTE);
	int rc;

	db_bind_i64(st, 1, c->head->id);
	rc = db_step(st, err);
	if (rc == 1)
		rc = db_col_type(st, 0) == DB_INT && db_col_i64(st, 0) > c->head->noted;
	db_stmt_put(&st);
	return rc;
}

static int checkpoints_end(struct verify_log *c, struct err *err)
{
	const struct verify_checkpoints *k = c->checkpoints;
	bool system = verify_is_system(c);
	uint64_t size = c->tree.size;
	int since = system && !k->next.due ? signed_since(c, err) : 0;

	if (since < 0)
		return since;
	if (system || c->v->tenant_id)
		successions_end(c->v->successions, system ? NULL : c->head->origin);
	/* Also a start that nothing signed covers is nobody's word: a server has its start signed before it serves, and the
	 * next one asks an administrator about what it finds there. */
	if (system)
		c->v->stopped = k->last_kind == AUDIT_SERVER_STOP || (k->covered_kind == AUDIT_SERVER_STOP && !since);
	/* else one is missing in between */
	if (k->next.due && k->next.size > (uint64_t)c->head->found)
		tell(c, AUDIT_FINDING_TRUNCATED, k->next.size, "covers records that are not there");
	if (!keys_signed(c->v))
		return 0;
	if (system && (!k->noted || k->last_epoch < keys_newest(c->v)) && !k->next.due && !since &&
	    !(k->noted && successions_epochs(c->v->successions, k->last_epoch, keys_newest(c->v) + 1)))
		verify_tell_store(c->v, AUDIT_FINDING_EPOCH_GAP, c->head->origin, "the newest epoch has no checkpoint");
	if (!system && c->cover.owed_size > 0 && c->cover.owed_epoch + 1 < keys_newest(c->v) &&
	    !successions_epochs(c->v->successions, c->cover.owed_epoch, keys_newest(c->v) + 1))
		verify_tell_store(c->v, AUDIT_FINDING_EPOCH_GAP, c->head->origin,
				  "the log grew in an epoch and was not signed since");
	if (c->cover.covered < size && !k->next.due)
		tell_tail(c);
	return 0;
}

static void checkpoints_close(struct verify_log *c)
{
	free(c->checkpoints);
	c->checkpoints = NULL;
}

static void keys_free(struct verify *v)
{
	if (v->keys) {
		free(v->keys->epoch);
		free(v->keys->past);
	}
	free(v->keys);
	v->keys = NULL;
	successions_free(&v->successions);
}

const struct verify_step verify_checkpoints = {
	.name = "checkpoints", .open = keys_open, .begin = checkpoints_begin, .record = checkpoints_record,
	.end = checkpoints_end, .close = checkpoints_close, .free = keys_free, .form = 1, .save = save_keys,
	.load = load_keys, .save_log = save_checkpoints, .load_log = load_checkpoints, .start = keys_start,
	.start_log = checkpoints_start,
};
