/* What others say of a log (AUDIT 8, steps 10 to 12): the system log by logs.commit, the signer by its state,
 * people by checkpoints that they took away.  Of each log the newest commit of every epoch is kept: it covers
 * those before it, and whoever has stolen a later key cannot have written it.  A commit of form 2 has one root for all
 * its logs, which is compared when the last of them has come as far (decision 0065). */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/checkpoint.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "tlog/signer.h"

#include "verify_int.h"

enum { ANCHOR_FILE = 1, ANCHOR_COMMAND };       /* kinds of rows of anchor */
#define RECEIPT_US 60000000             /* between a row of anchor and a record that does not say its time */

/* A logs.commit of form 2: leaves of its tree are made as the logs are read, which come in the order of its entries. */
struct heads {
	struct heads *next;             /* as they stand in the system log, newest first */
	int64_t idx;
	uint64_t epoch;
	size_t newest;                  /* of so many logs it is the newest one of its epoch; 0: it is not needed */
	size_t n, made;                 /* entries; leaves */
	bool lost;                      /* one log cannot be had as it was: nothing is compared */
	struct tree *tree;              /* of the leaves, from the first one to the last */
	uint8_t (*hint)[TREE_HASH];     /* what the notes of logs say that were pruned since, by entry; or NULL */
	uint8_t root[TREE_HASH];
	struct audit_said said[];
};

/* Roots that others say of a log, by size. */
struct mark {
	uint64_t size, epoch;           /* epoch: of logs.commit alone */
	bool known;                     /* a checkpoint from outside that a pinned key has signed */
	enum audit_finding_code code;
	struct heads *heads;            /* then `at`, and no root */
	union {
		uint8_t root[TREE_HASH];
		size_t at;
	};
};
struct marks { struct mark *v; size_t n, cap; };

struct verify_anchors {
	struct marks marks;
	size_t next;                    /* the first whose size has not been read */
	bool pruned, compared;          /* checkpoints from outside lie before the cut; one was compared */
	uint64_t pending;               /* size of the newest commit that fits, and that nothing signed covers yet */
};

/* What logs.commit says, the system log being read first; and when checkpoints were taken outside. */
struct verify_commits {
	struct map *logs;               /* struct marks by log */
	struct map *said;               /* struct said_last by log */
	struct heads *heads;            /* those of form 2 that are needed */
	struct audit_said *scratch;     /* AUDIT_HEADS_MAX */
	char *system;                   /* origin of the system log */
	int64_t count;                  /* how many logs the newest one counts */
	bool *used;                     /* of each checkpoint from outside: its log is there */
	int64_t receipt;                /* id of the row of anchor that the last anchor.receipt vouches for */
	/* When one was taken outside, as a record says that something signed covers; 0: not known.  Newer ones wait until
	 * they are covered. */
	uint64_t taken_us, waiting_us, waiting_size;
	bool met;                       /* there was an anchor.receipt */
};

static struct mark *add_mark(struct marks *m)
{
	if (m->n == m->cap) {
		m->cap = m->cap ? 2 * m->cap : 4;
		m->v = mem_realloc(m->v, m->cap * sizeof(*m->v));
	}
	return &m->v[m->n++];
}

/* --- logs.commit */

/* What the newest commit says of a log. */
struct said_last {
	uint64_t size;
	uint8_t root[TREE_HASH];        /* of form 1; else heads */
	struct heads *heads;
	bool bare;                      /* an earlier verification has seen that the root is the log's; it is not known here */
};

static struct marks *marks_of(struct verify *v, uint64_t log)
{
	struct marks *m = map_get_u64(v->commits->logs, log);

	if (!m) {
		m = mem_zalloc(sizeof(*m));
		map_set_u64(v->commits->logs, log, m);
	}
	return m;
}

static struct said_last *said_last(struct verify *v, uint64_t log)
{
	struct said_last *l = map_get_u64(v->commits->said, log);

	if (!l) {
		l = mem_zalloc(sizeof(*l));
		map_set_u64(v->commits->said, log, l);
	}
	return l;
}

/* Form 1: each log with its root.  false: it contradicts the commit before. */
static bool commit_one(struct verify_log *c, const uint8_t *p, uint64_t epoch)
{
	uint64_t log = audit_get_be(p, 4), size = audit_get_be(p + 4, 8);
	struct marks *m = marks_of(c->v, log);
	struct mark *mark = m->n > 0 && m->v[m->n - 1].epoch == epoch ? &m->v[m->n - 1] : add_mark(m);
	struct said_last *last = said_last(c->v, log);
	bool same = last->heads || last->bare || memcmp(last->root, p + 12, TREE_HASH) == 0;
	bool good = size > last->size || (size == last->size && same);

	*mark = (struct mark){ .size = size, .epoch = epoch, .code = AUDIT_FINDING_CROSS_REF };
	memcpy(mark->root, p + 12, TREE_HASH);
	*last = (struct said_last){ .size = size, .heads = NULL };
	memcpy(last->root, p + 12, TREE_HASH);
	return good;
}

static void heads_free(struct heads *h)
{
	free(h->tree);
	free(h->hint);
	free(h);
}

/* Of this epoch, those that are of no log the newest any more. */
static void drop_unneeded(struct verify_commits *k, uint64_t epoch)
{
	struct heads **at = &k->heads;

	while (*at && (*at)->epoch == epoch) {
		struct heads *h = *at;

		if (h->newest > 0) {
			at = &h->next;
			continue;
		}
		*at = h->next;
		heads_free(h);
	}
}

/* Form 2.  false: it contradicts the commit before. */
static bool commit_all(struct verify_log *c, const struct audit_said *said, size_t n, const uint8_t root[TREE_HASH],
		       int64_t idx, uint64_t epoch)
{
	struct verify_commits *k = c->v->commits;
	struct heads *h = mem_zalloc(sizeof(*h) + n * sizeof(*said));
	bool good = true, unneeded = false;

	*h = (struct heads){ .next = k->heads, .idx = idx, .epoch = epoch, .newest = n, .n = n };
	memcpy(h->root, root, TREE_HASH);
	memcpy(h->said, said, n * sizeof(*said));
	for (size_t i = 0; i < n; i++) {
		struct said_last *last = said_last(c->v, said[i].log);

		good &= said[i].size >= last->size;
		if (last->heads && last->heads->epoch == epoch)
			unneeded |= --last->heads->newest == 0;
		*last = (struct said_last){ .size = said[i].size, .heads = h };
	}
	k->heads = h;
	if (unneeded)
		drop_unneeded(k, epoch);
	return good;
}

static const uint8_t *field(const struct audit_row *row, unsigned tag, size_t *len)
{
	const struct audit_value *ext = &row->v[COL_EXT];

	*len = 0;
	return ext->present ? audit_field_find(ext->p, ext->len, tag, len) : NULL;
}

static void note_commit(struct verify_log *c, const struct audit_row *row, int64_t idx)
{
	struct verify_commits *k = c->v->commits;
	size_t len, count_len, all_len, n = 0;
	const uint8_t *p = field(row, AUDIT_TAG_HEADS, &len), *count = field(row, AUDIT_TAG_LOGS, &count_len);
	const uint8_t *all = field(row, AUDIT_TAG_HEADS_ROOT, &all_len);
	/* It belongs to the epoch of the first checkpoint that covers it. */
	uint64_t epoch = c->cover.due ? c->cover.due_epoch : UINT64_MAX;
	uint8_t root[TREE_HASH];
	bool good = true;

	if (!count || count_len != 8 || len % AUDIT_HEAD_BYTES != 0 || (len > 0 && all) ||
	    (all && audit_heads_read(all, all_len, k->scratch, &n, root) < 0)) {
		verify_tell_record(c, AUDIT_FINDING_PARSE, idx, idx);
		return;
	}
	k->count = (int64_t)audit_get_be(count, 8);
	for (size_t at = 0; p && at < len; at += AUDIT_HEAD_BYTES)
		good &= commit_one(c, p + at, epoch);
	if (n > 0)
		good &= commit_all(c, k->scratch, n, root, idx, epoch);
	if (!good)
		verify_tell_record(c, AUDIT_FINDING_CROSS_REF, idx, idx);
}

/* --- form 2, when the system log has been read */

/* A root of before the cut is not to be had from the records.  A note may have it; that the others fit proves it. */
static int find_hint(struct verify *v, struct heads *h, size_t at, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_CP_GET_BEFORE);
	struct checkpoint cp;
	struct note n;
	size_t len = 0;
	int rc;

	db_bind_i64(st, 1, (int64_t)h->said[at].log);
	db_bind_i64(st, 2, (int64_t)h->said[at].size);
	rc = db_step(st, err);
	h->lost = true;
	if (rc == 1) {
		const char *text = db_col_blob(st, 3, &len);

		h->lost = note_parse(text, len, &n) < 0 || checkpoint_parse(n.text, n.text_len, &cp) < 0 ||
			  cp.size != h->said[at].size;
	}
	db_stmt_put(&st);
	if (h->lost)
		return rc < 0 ? rc : 0;
	if (!h->hint)
		h->hint = mem_calloc(h->n, TREE_HASH);
	memcpy(h->hint[at], cp.root, TREE_HASH);
	return 0;
}

/* Logs of which something was pruned, ascending. */
static int list_cuts(struct verify *v, struct audit_said **ret, size_t *ret_n, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_LIST_CUTS);
	size_t cap = 0;
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		if (*ret_n == cap) {
			cap = cap ? 2 * cap : 64;
			*ret = mem_realloc(*ret, cap * sizeof(**ret));
		}
		(*ret)[(*ret_n)++] = (struct audit_said){ (uint64_t)db_col_i64(st, 0), (uint64_t)db_col_i64(st, 1) };
	}
	db_stmt_put(&st);
	return rc;
}

static int look_at_cuts(struct verify *v, struct err *err)
{
	struct audit_said *cut = NULL;
	size_t n = 0;
	int rc = list_cuts(v, &cut, &n, err);

	for (struct heads *h = v->commits->heads; h && n > 0 && rc == 0; h = h->next)
		for (size_t i = 0, k = 0; i < h->n && rc == 0 && !h->lost; i++) {
			while (k < n && cut[k].log < h->said[i].log)
				k++;
			if (k < n && cut[k].log == h->said[i].log && h->said[i].size < cut[k].size)
				rc = find_hint(v, h, i, err);
		}
	free(cut);
	return rc;
}

/* All that is needed is known: what it says of each log. */
static int say_heads(struct verify *v, struct err *err)
{
	for (struct heads *h = v->commits->heads; h; h = h->next)
		for (size_t i = 0; i < h->n; i++)
			*add_mark(marks_of(v, h->said[i].log)) = (struct mark){ .size = h->said[i].size, .epoch = h->epoch,
				.code = AUDIT_FINDING_CROSS_REF, .heads = h, .at = i };
	return v->commits->heads ? look_at_cuts(v, err) : 0;
}

/* One log has come to where it was.  The last one shows whether all were so. */
static void give_root(struct verify_log *c, const struct mark *m, const uint8_t root[TREE_HASH])
{
	struct heads *h = m->heads;
	uint8_t hash[TREE_HASH];

	h->lost |= h->made != m->at;
	if (h->lost)
		return;
	if (!h->tree)
		h->tree = mem_zalloc(sizeof(*h->tree));
	audit_head_leaf(&h->said[m->at], root, hash);
	tree_append(h->tree, hash);
	if (++h->made < h->n)
		return;
	tree_root(h->tree, hash);
	free(h->tree);
	h->tree = NULL;
	if (memcmp(hash, h->root, TREE_HASH) != 0)
		verify_tell(c->v, &(struct audit_finding){ .code = AUDIT_FINDING_CROSS_REF, .origin = c->v->commits->system,
			.from = h->idx, .to = h->idx, .detail = "it commits other roots than its logs have" });
}

/* --- one log: all that is said of it, by size */

static int by_size(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;

	return x->size < y->size ? -1 : x->size > y->size;
}

static void add_signer(struct verify_log *c)
{
	const struct signer_state *s = c->v->with->signer;
	const struct signer_log *l = s ? signer_state_find(s, c->head->origin) : NULL;
	struct mark *mark;

	if (!l || l->size == 0)
		return;
	mark = add_mark(&c->anchors->marks);
	*mark = (struct mark){ .size = l->size, .code = AUDIT_FINDING_SIGNER_AHEAD };
	memcpy(mark->root, l->root, TREE_HASH);
}

/* In a file of them an empty line stands behind each. */
static bool read_anchor(const struct audit_anchor *a, struct note *n, struct checkpoint *cp)
{
	size_t len = a->len;

	while (len > 1 && a->p[len - 1] == '\n' && a->p[len - 2] == '\n')
		len--;
	return note_parse(a->p, len, n) == 0 && checkpoint_parse(n->text, n->text_len, cp) == 0;
}

static void add_anchor(struct verify_log *c, size_t which)
{
	struct mark *mark;
	struct checkpoint cp;
	struct note n;
	int known;

	if (!read_anchor(&c->v->with->anchor[which], &n, &cp) || strcmp(cp.origin, c->head->origin) != 0)
		return;
	c->v->commits->used[which] = true;
	known = verify_keys_know(c->v, &n, c->head->origin);
	if (known == 0)
		verify_tell_store(c->v, AUDIT_FINDING_ANCHOR, c->head->origin,
				  "the checkpoint from outside is not signed by the log's key");
	else if (known < 0)
		verify_tell_store(c->v, AUDIT_FINDING_NOT_CHECKED, c->head->origin,
				  "who signed the checkpoint from outside: no key was pinned");
	mark = add_mark(&c->anchors->marks);
	*mark = (struct mark){ .size = cp.size, .code = AUDIT_FINDING_ANCHOR, .known = known > 0 };
	memcpy(mark->root, cp.root, TREE_HASH);
}

static void tell(struct verify_log *c, const struct mark *m, const char *what)
{
	char detail[100];

	snprintf(detail, sizeof(detail), "%s at %" PRIu64, what, m->size);
	verify_tell_store(c->v, m->code, c->head->origin, detail);
}

/* The tree has the root that was signed, so all before is covered: by a checkpoint that was pinned, by the signer's
 * own memory, or by a commit that is covered itself. */
static void cover(struct verify_log *c, const struct mark *m)
{
	struct verify_cover *cover = &c->cover;

	if (m->code == AUDIT_FINDING_CROSS_REF && m->epoch == UINT64_MAX && m->size > c->anchors->pending)
		c->anchors->pending = m->size;
	if (m->code == AUDIT_FINDING_ANCHOR ? !m->known : m->code == AUDIT_FINDING_CROSS_REF && m->epoch == UINT64_MAX)
		return;
	if (m->size > cover->covered && !(m->heads && m->heads->lost))
		cover->covered = m->size;
	if (m->code == AUDIT_FINDING_CROSS_REF && cover->last_size < m->size && !(cover->due && cover->due_size == m->size)) {
		cover->owed_size = m->size;
		cover->owed_epoch = m->epoch;
	}
}

/* What is said of a size, when the root at it is known; ts: of the last record then, 0 = not known. */
static void compare_mark(struct verify_log *c, const struct mark *m, const uint8_t root[TREE_HASH], uint64_t ts)
{
	c->anchors->compared |= m->code == AUDIT_FINDING_ANCHOR;
	if (m->heads) {
		give_root(c, m, root);
	} else if (memcmp(root, m->root, TREE_HASH) != 0) {
		tell(c, m, "another root was signed");
		return;
	}
	cover(c, m);
	if (m->known && verify_is_system(c) && ts > c->v->commits->taken_us)
		c->v->commits->taken_us = ts;
}

/* Of a log that ends before the mark, the tree has more than the store. */
static bool has_records(const struct verify_log *c, const struct verify_anchors *a)
{
	return a->marks.v[a->next].size <= (uint64_t)c->head->size;
}

/* Those of this size. */
static void compare_marks(struct verify_log *c, uint64_t ts)
{
	struct verify_anchors *a = c->anchors;
	uint8_t root[TREE_HASH];

	for (; a->next < a->marks.n && a->marks.v[a->next].size == c->tree.size && has_records(c, a); a->next++) {
		tree_root(&c->tree, root);
		compare_mark(c, &a->marks.v[a->next], root, ts);
	}
}

/* Those of before: what was pruned cannot be computed any more, what is below a mark can as a rule. */
static int compare_past(struct verify_log *c, const struct mark *m, struct err *err)
{
	uint8_t root[TREE_HASH];
	uint64_t ts = 0;
	int rc = c->start == VERIFY_BEHIND ? verify_past_root(c, m->size, root, &ts, err) : 0;

	if (rc == 1)
		compare_mark(c, m, root, ts);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	c->anchors->pruned |= m->code != AUDIT_FINDING_CROSS_REF;
	if (m->heads && m->heads->hint)
		give_root(c, m, m->heads->hint[m->at]);
	return 0;
}

/* --- when checkpoints were taken outside */

/* Records of before 0.2.0 do not say the row's time: theirs is near. */
static bool same_time(int64_t row, const struct audit_row *record)
{
	const struct audit_value *ts = &record->v[COL_TS];
	size_t len;
	const uint8_t *said = field(record, AUDIT_TAG_TIMES, &len);
	uint8_t time[8];

	audit_put_be(time, (uint64_t)row, sizeof(time));
	if (said)
		return len == sizeof(time) && memcmp(said, time, len) == 0;
	return ts->present && row >= 0 && ts->n >= 0 && (row > ts->n ? row - ts->n : ts->n - row) <= RECEIPT_US;
}

/* A row of anchor is what this record says: kind, size, note, receipt, time. */
static bool row_fits(struct db_stmt *st, const struct audit_row *row)
{
	size_t note_len, hash_len, got_len, said_len, what_len;
	const char *what = (const char *)field(row, AUDIT_TAG_REASON, &what_len);
	const char *note = db_col_blob(st, 3, &note_len);
	const uint8_t *hash = field(row, AUDIT_TAG_NOTE, &hash_len), *said = field(row, AUDIT_TAG_RECEIPT, &said_len);
	const uint8_t *got = db_col_blob(st, 4, &got_len);
	uint8_t digest[DIGEST_SIZE];
	struct checkpoint cp;
	struct note n;

	digest_sha256(note, note_len, digest);
	return hash && hash_len == sizeof(digest) && memcmp(hash, digest, sizeof(digest)) == 0 &&
	       read_anchor(&(struct audit_anchor){ note, note_len }, &n, &cp) && cp.size == (uint64_t)db_col_i64(st, 2) &&
	       said_len == got_len && (got_len == 0 || memcmp(said, got, got_len) == 0) &&
	       same_time(db_col_i64(st, 5), row) && what &&
	       db_col_i64(st, 1) == (text_eq(what, what_len, "file") ? ANCHOR_FILE : ANCHOR_COMMAND);
}

static int next_row(struct verify_log *c, struct db_stmt **ret, struct err *err)
{
	*ret = db_stmt_get(c->v->db, SQL_VERIFY_NEXT_ANCHOR);
	db_bind_i64(*ret, 1, c->v->commits->receipt);
	return db_step(*ret, err);
}

/* anchor.receipt: rows and records come in one transaction each, in one order.  Of a log whose beginning was pruned
 * the first rows have no record any more. */
static int note_receipt(struct verify_log *c, const struct audit_row *row, int64_t idx, struct err *err)
{
	struct verify_commits *k = c->v->commits;
	const struct audit_value *ts = &row->v[COL_TS];
	struct db_stmt *st;
	bool fits = false;
	int rc;

	if (k->waiting_size && k->waiting_size <= c->cover.covered && k->waiting_us > k->taken_us)
		k->taken_us = k->waiting_us;
	k->waiting_us = ts->present ? (uint64_t)ts->n : 0;
	k->waiting_size = (uint64_t)idx + 1;
	do {
		rc = next_row(c, &st, err);
		if (rc == 1) {
			fits = row_fits(st, row);
			k->receipt = db_col_i64(st, 0);
		}
		db_stmt_put(&st);
	} while (rc == 1 && !fits && c->head->min_idx > 0 && !k->met);
	k->met = true;
	if (rc >= 0 && !fits)
		verify_tell_record(c, AUDIT_FINDING_REGISTRY, idx, idx);
	return rc < 0 ? rc : 0;
}

/* The system log was read: rows that no record made, but for those that came meanwhile. */
static int check_receipts(struct verify_log *c, struct err *err)
{
	struct verify_commits *k = c->v->commits;
	struct db_stmt *st = db_stmt_get(c->v->db, SQL_VERIFY_COUNT_ANCHORS);
	int rc;

	if (k->waiting_size && k->waiting_size <= c->cover.covered && k->waiting_us > k->taken_us)
		k->taken_us = k->waiting_us;
	db_bind_i64(st, 1, k->receipt);
	db_bind_i64(st, 2, c->head->size);
	rc = db_step(st, err);
	if (rc == 1 && db_col_i64(st, 0) > db_col_i64(st, 1) && (k->met || c->head->min_idx == 0))
		verify_tell_store(c->v, AUDIT_FINDING_REGISTRY, c->head->origin, "checkpoints taken outside that no record knows");
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* --- logs that are not there */

static void tell_logless(struct verify *v)
{
	for (size_t it = 0; map_next(v->commits->logs, &it, NULL, NULL, NULL);)
		verify_tell_store(v, AUDIT_FINDING_CROSS_REF, NULL, "the system log has committed a log that is not there");
	if (v->commits->count > (int64_t)v->sum->logs)
		verify_tell_store(v, AUDIT_FINDING_LOG_MISSING, NULL, "the system log counts more logs than there are");
}

static int has_log(struct verify *v, const char *origin, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_AUDIT_GET_ORIGIN);
	int rc;

	db_bind_textz(st, 1, origin);
	rc = db_step(st, err);
	db_stmt_put(&st);
	return rc;
}

static int check_signer(struct verify *v, struct err *err)
{
	const struct signer_state *s = v->with->signer;
	int rc = 1;

	for (size_t i = 0; s && rc >= 0 && i < s->nlogs; i++) {
		rc = has_log(v, s->log[i]->origin, err);
		if (rc == 0 && s->log[i]->size > 0)
			verify_tell_store(v, AUDIT_FINDING_LOG_MISSING, s->log[i]->origin, "the signer has signed a log that is not there");
	}
	return rc < 0 ? rc : 0;
}

/* Times of rows are nobody's word: what counts is the record that something signed covers, or a checkpoint that was
 * brought along, which is as old as the last record in it. */
static void check_anchor_age(struct verify *v)
{
	uint64_t ts = v->commits->taken_us;

	if (v->with->anchor_age_s == 0)
		return;
	if (v->tenant_id)
		verify_tell_store(v, AUDIT_FINDING_NOT_CHECKED, NULL,
				  "when a checkpoint was taken outside: the system's log says so, and was not read");
	else if (ts == 0)
		verify_tell_store(v, AUDIT_FINDING_NO_ANCHOR, NULL, "no record that is signed says when one was taken");
	else if (ts + v->with->anchor_age_s * 1000000 < clock_wall_us())
		verify_tell_store(v, AUDIT_FINDING_NO_ANCHOR, NULL, "the newest one is older than was asked for");
}

/* Each checkpoint from outside is of a log that is there, or a log is gone, or this is not the store. */
static void tell_unused(struct verify *v)
{
	struct checkpoint cp;
	struct note n;

	for (size_t i = 0; i < v->with->nanchor; i++) {
		if (v->commits->used[i])
			continue;
		if (!read_anchor(&v->with->anchor[i], &n, &cp))
			verify_tell_store(v, AUDIT_FINDING_PARSE, NULL, "a checkpoint from outside is no signed note");
		else if (v->tenant_id)
			verify_tell_store(v, AUDIT_FINDING_NOT_CHECKED, cp.origin,
					  "the checkpoint from outside is of another log than the one that was read");
		else
			verify_tell_store(v, AUDIT_FINDING_LOG_MISSING, cp.origin,
					  "a checkpoint from outside is of a log that is not there");
	}
}

/* --- the step */

static int anchors_open(struct verify *v, struct err *err)
{
	(void)err;
	v->commits = mem_zalloc(sizeof(*v->commits));
	v->commits->logs = map_new();
	v->commits->said = map_new();
	v->commits->scratch = mem_calloc(AUDIT_HEADS_MAX, sizeof(*v->commits->scratch));
	v->commits->used = mem_calloc(v->with->nanchor + 1, sizeof(*v->commits->used));
	return 0;
}

/* Evidence of before it was cut off was told then. */
static int anchors_start(struct verify *v, struct err *err)
{
	int rc = 1;

	for (size_t i = 0; v->state && i < v->with->nanchor && rc >= 0; i++) {
		struct checkpoint cp;
		struct note n;

		rc = read_anchor(&v->with->anchor[i], &n, &cp) ? has_log(v, cp.origin, err) : 0;
		v->commits->used[i] = rc == 1;
	}
	return rc < 0 ? rc : 0;
}

static int anchors_begin(struct verify_log *c, struct err *err)
{
	(void)err;
	if (verify_is_system(c) && !c->v->commits->system)
		c->v->commits->system = mem_strdup(c->head->origin);
	c->anchors = mem_zalloc(sizeof(*c->anchors));
	return 0;
}

/* All that is said of the log; when it goes on, that is what was left. */
static void gather_marks(struct verify_log *c)
{
	struct marks *said = map_del_u64(c->v->commits->logs, (uint64_t)c->head->id), *m = &c->anchors->marks;

	if (c->start == VERIFY_ON) {
		for (size_t i = 0; said && i < said->n; i++)
			*add_mark(m) = said->v[i];
		if (said)
			free(said->v);
	} else if (said) {
		*m = *said;
	}
	free(said);
	if (c->start != VERIFY_ON) {
		add_signer(c);
		for (size_t i = 0; i < c->v->with->nanchor; i++)
			add_anchor(c, i);
	}
	if (m->n > 0)
		qsort(m->v, m->n, sizeof(*m->v), by_size);
}

/* A commit that nothing covered, when the mark was made, may be covered now. */
static void cover_pending(struct verify_log *c)
{
	const struct mark m = { c->anchors->pending, c->v->next_epoch, false, AUDIT_FINDING_CROSS_REF, NULL, { { 0 } } };

	c->anchors->pending = 0;
	if (m.size > 0)
		cover(c, &m);
}

static int anchors_start_log(struct verify_log *c, struct err *err)
{
	struct verify_anchors *a = c->anchors;
	int rc = 0;

	gather_marks(c);
	if (c->start == VERIFY_BEHIND && !verify_is_system(c))
		cover_pending(c);
	for (; rc == 0 && a->next < a->marks.n && a->marks.v[a->next].size < c->tree.size && has_records(c, a);
	     a->next++)
		rc = compare_past(c, &a->marks.v[a->next], err);
	compare_marks(c, 0);
	return rc;
}

static int anchors_record(struct verify_log *c, const struct audit_read *got, struct err *err)
{
	const struct audit_value *ts = &got->row.v[COL_TS];
	int rc = 0;

	if (verify_is_system(c) && verify_kind(&got->row) == AUDIT_LOGS_COMMIT)
		note_commit(c, &got->row, got->idx);
	if (verify_is_system(c) && verify_kind(&got->row) == AUDIT_ANCHOR_RECEIPT && !c->v->tenant_id)
		rc = note_receipt(c, &got->row, got->idx, err);
	compare_marks(c, ts->present ? (uint64_t)ts->n : 0);
	return rc;
}

static int anchors_end(struct verify_log *c, struct err *err)
{
	const struct marks *m = &c->anchors->marks;
	int rc;

	for (; c->anchors->next < m->n; c->anchors->next++) {
		c->anchors->compared |= m->v[c->anchors->next].code == AUDIT_FINDING_ANCHOR;
		tell(c, &m->v[c->anchors->next], "records were signed that are not there,");
	}
	if (c->anchors->pruned && !c->anchors->compared)
		verify_tell_store(c->v, AUDIT_FINDING_NOT_CHECKED, c->head->origin,
				  "a checkpoint from outside, or the signer's: what it covers was pruned");
	if (!verify_is_system(c))
		return 0;
	rc = say_heads(c->v, err);
	return rc == 0 && !c->v->tenant_id ? check_receipts(c, err) : rc;
}

static void anchors_close(struct verify_log *c)
{
	if (c->anchors)
		free(c->anchors->marks.v);
	free(c->anchors);
	c->anchors = NULL;
}

static int anchors_finish(struct verify *v, struct err *err)
{
	tell_unused(v);
	check_anchor_age(v);
	if (v->tenant_id)
		return 0;
	tell_logless(v);
	return check_signer(v, err);
}

static void anchors_free(struct verify *v)
{
	void *value;

	if (!v->commits)
		return;
	for (size_t it = 0; map_next(v->commits->logs, &it, NULL, NULL, &value);) {
		struct marks *m = value;

		free(m->v);
		free(m);
	}
	map_free(&v->commits->logs);
	for (size_t it = 0; map_next(v->commits->said, &it, NULL, NULL, &value);)
		free(value);
	map_free(&v->commits->said);
	while (v->commits->heads) {
		struct heads *h = v->commits->heads;

		v->commits->heads = h->next;
		heads_free(h);
	}
	free(v->commits->scratch);
	free(v->commits->system);
	free(v->commits->used);
	free(v->commits);
	v->commits = NULL;
}

/* --- what is carried */

/* How many stand before it; NULL: all of them. */
static uint64_t place_of(const struct verify_commits *k, const struct heads *of)
{
	uint64_t n = 0;

	for (const struct heads *h = k->heads; h && h != of; h = h->next)
		n++;
	return n;
}

static void save_mark(const struct verify_commits *k, const struct mark *m, struct str *to)
{
	verify_put(to, m->size);
	verify_put(to, m->epoch);
	verify_put(to, m->known);
	verify_put(to, m->code == AUDIT_FINDING_CROSS_REF ? 0 : m->code == AUDIT_FINDING_SIGNER_AHEAD ? 1 : 2);
	verify_put(to, m->heads ? place_of(k, m->heads) + 1 : 0);
	verify_put(to, m->heads ? m->at : 0);
	verify_put_bytes(to, m->heads ? (const uint8_t[TREE_HASH]){ 0 } : m->root, TREE_HASH);
}

static struct heads *load_place(const struct verify_commits *k, struct verify_in *in)
{
	uint64_t which = verify_get(in);
	struct heads *h = which ? k->heads : NULL;

	for (uint64_t n = which; h && n > 1; n--)
		h = h->next;
	in->bad |= which && !h;
	return h;
}

enum { MARK_BYTES = 6 * 8 + TREE_HASH };

static struct mark load_mark(const struct verify_commits *k, struct verify_in *in)
{
	static const enum audit_finding_code codes[] = { AUDIT_FINDING_CROSS_REF, AUDIT_FINDING_SIGNER_AHEAD,
		AUDIT_FINDING_ANCHOR };
	struct mark m = { .size = verify_get(in) };
	uint64_t code, at;
	uint8_t root[TREE_HASH];
	struct heads *h;

	m.epoch = verify_get(in);
	m.known = verify_get_bool(in);
	code = verify_get(in);
	h = load_place(k, in);
	at = verify_get(in);
	verify_get_bytes(in, root, sizeof(root));
	in->bad |= code >= NELEMS(codes) || (h && at >= h->n);
	m.code = code < NELEMS(codes) ? codes[code] : codes[0];
	m.heads = in->bad ? NULL : h;
	if (m.heads)
		m.at = (size_t)at;
	else
		memcpy(m.root, root, TREE_HASH);
	return m;
}

static void save_heads(const struct heads *h, struct str *to)
{
	verify_put(to, (uint64_t)h->idx);
	verify_put(to, h->epoch);
	verify_put(to, h->newest);
	verify_put(to, h->made);
	verify_put(to, h->lost);
	verify_put_bytes(to, h->root, TREE_HASH);
	verify_put_tree(to, h->tree ? h->tree : &(struct tree){ 0 });
	verify_put(to, h->n);
	for (size_t i = 0; i < h->n; i++) {
		verify_put(to, h->said[i].log);
		verify_put(to, h->said[i].size);
	}
	verify_put(to, h->hint != NULL);
	for (size_t i = 0; h->hint && i < h->n; i++)
		verify_put_bytes(to, h->hint[i], TREE_HASH);
}

static void load_said(struct heads *h, struct verify_in *in)
{
	for (size_t i = 0; i < h->n; i++) {
		h->said[i].log = verify_get(in);
		h->said[i].size = verify_get(in);
	}
	if (verify_get_bool(in))
		h->hint = mem_calloc(h->n + 1, TREE_HASH);
	for (size_t i = 0; h->hint && i < h->n; i++)
		verify_get_bytes(in, h->hint[i], TREE_HASH);
}

static struct heads *load_heads(struct verify_in *in)
{
	struct heads was = { .idx = (int64_t)verify_get(in) }, *h;
	struct tree tree;

	was.epoch = verify_get(in);
	was.newest = verify_get(in);
	was.made = verify_get(in);
	was.lost = verify_get_bool(in);
	verify_get_bytes(in, was.root, TREE_HASH);
	verify_get_tree(in, &tree);
	was.n = verify_get_count(in, 16);
	in->bad |= was.n == 0 || was.n > AUDIT_HEADS_MAX || was.made > was.n || was.newest > was.n;
	was.n = in->bad ? 0 : was.n;
	h = mem_zalloc(sizeof(*h) + was.n * sizeof(*h->said));
	memcpy(h, &was, sizeof(was));
	if (tree.size > 0)
		h->tree = mem_dup(&tree, sizeof(tree));
	load_said(h, in);
	return h;
}

static void save_way(const struct verify_commits *k, struct str *to)
{
	const void *key;
	size_t len;
	void *value;

	verify_put(to, place_of(k, NULL));
	for (const struct heads *h = k->heads; h; h = h->next)
		save_heads(h, to);
	verify_put(to, map_count(k->logs));
	for (size_t it = 0; map_next(k->logs, &it, &key, &len, &value);) {
		const struct marks *m = value;
		uint64_t log = 0;

		memcpy(&log, key, len < sizeof(log) ? len : sizeof(log));
		verify_put(to, log);
		verify_put(to, m->n);
		for (size_t i = 0; i < m->n; i++)
			save_mark(k, &m->v[i], to);
	}
}

static void load_way(struct verify *v, struct verify_in *in)
{
	struct heads **end = &v->commits->heads;

	for (size_t n = verify_get_count(in, 96); n > 0 && !in->bad; n--) {
		*end = load_heads(in);
		end = &(*end)->next;
	}
	for (size_t n = verify_get_count(in, 16); n > 0 && !in->bad; n--) {
		struct marks *m = marks_of(v, verify_get(in));

		for (size_t k = verify_get_count(in, MARK_BYTES); k > 0 && !in->bad; k--)
			*add_mark(m) = load_mark(v->commits, in);
	}
}

static void save_commits(const struct verify *v, struct str *to)
{
	const struct verify_commits *k = v->commits;
	const uint64_t all[] = { (uint64_t)k->count, (uint64_t)k->receipt, k->taken_us, k->waiting_us, k->waiting_size,
		k->met };
	const void *key;
	size_t len;
	void *value;

	for (size_t i = 0; i < NELEMS(all); i++)
		verify_put(to, all[i]);
	verify_put_text(to, k->system ? k->system : "", k->system ? strlen(k->system) : 0);
	verify_put(to, v->way);
	if (v->way)
		save_way(k, to);
	verify_put(to, map_count(k->said));
	for (size_t it = 0; map_next(k->said, &it, &key, &len, &value);) {
		const struct said_last *l = value;
		uint64_t log = 0;

		memcpy(&log, key, len < sizeof(log) ? len : sizeof(log));
		verify_put(to, log);
		verify_put(to, l->size);
		verify_put(to, l->bare || (l->heads && !v->way));
		verify_put(to, v->way && l->heads ? place_of(k, l->heads) + 1 : 0);
		verify_put_bytes(to, l->root, TREE_HASH);
	}
}

static void load_last(struct verify *v, struct verify_in *in)
{
	struct said_last *l = said_last(v, verify_get(in));

	l->size = verify_get(in);
	l->bare = verify_get_bool(in);
	l->heads = load_place(v->commits, in);
	verify_get_bytes(in, l->root, TREE_HASH);
}

static void load_commits(struct verify *v, struct verify_in *in)
{
	struct verify_commits *k = v->commits;
	const char *system;
	size_t len;

	k->count = (int64_t)verify_get(in);
	k->receipt = (int64_t)verify_get(in);
	k->taken_us = verify_get(in);
	k->waiting_us = verify_get(in);
	k->waiting_size = verify_get(in);
	k->met = verify_get_bool(in);
	system = verify_get_text(in, &len);
	k->system = len > 0 && !in->bad ? mem_strndup(system, len) : NULL;
	if (verify_get_bool(in))
		load_way(v, in);
	for (size_t n = verify_get_count(in, 32 + TREE_HASH); n > 0 && !in->bad; n--)
		load_last(v, in);
}

static void save_anchors(const struct verify_log *c, struct str *to)
{
	const struct verify_anchors *a = c->anchors;

	verify_put(to, a->pending);
	verify_put(to, c->v->way && a->pruned);
	verify_put(to, c->v->way && a->compared);
	verify_put(to, c->v->way ? a->marks.n - a->next : 0);
	for (size_t i = a->next; c->v->way && i < a->marks.n; i++)
		save_mark(c->v->commits, &a->marks.v[i], to);
}

static void load_anchors(struct verify_log *c, struct verify_in *in)
{
	struct verify_anchors *a = c->anchors;

	a->pending = verify_get(in);
	a->pruned = verify_get_bool(in);
	a->compared = verify_get_bool(in);
	for (size_t n = verify_get_count(in, MARK_BYTES); n > 0 && !in->bad; n--)
		*add_mark(&a->marks) = load_mark(c->v->commits, in);
}

const struct verify_step verify_anchors = {
	.name = "anchors", .open = anchors_open, .begin = anchors_begin, .record = anchors_record, .end = anchors_end,
	.close = anchors_close, .finish = anchors_finish, .free = anchors_free, .form = 1, .save = save_commits,
	.load = load_commits, .save_log = save_anchors, .load_log = load_anchors, .start = anchors_start,
	.start_log = anchors_start_log,
};
