/* What others say of a log (AUDIT 8, steps 10 to 12): the system log by logs.commit (commits.c), the signer by its
 * state, people by checkpoints that they took away. */

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
#include "succession/succession.h"
#include "tlog/signer.h"

#include "anchors_int.h"
#include "verify_int.h"

enum { ANCHOR_FILE = 1, ANCHOR_COMMAND, ANCHOR_OBJECT };        /* kinds of rows of anchor */
#define RECEIPT_US 60000000             /* between a row of anchor and a record that does not say its time */

struct verify_anchors {
	struct marks marks;
	size_t next;                    /* the first whose size has not been read */
	bool pruned, compared;          /* checkpoints from outside lie before the cut; one was compared */
	uint64_t pending;               /* size of the newest commit that fits, and that nothing signed covers yet */
};

/* --- one log: all that is said of it, by size */

static int by_size(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;

	return x->size < y->size ? -1 : x->size > y->size;
}

/* Under each name that the log has had. */
static void add_signer(struct verify_log *c)
{
	const struct signer_state *s = c->v->with->signer;
	const struct signer_log *l;
	struct mark *mark;

	for (uint64_t n = 0; s && (l = signer_state_nth(s, c->head->origin, n)) != NULL; n++) {
		if (!successions_hold(c->v->successions, AUDIT_FINDING_SIGNER_AHEAD, l->origin, l->size, l->root))
			continue;
		mark = verify_mark_add(&c->anchors->marks);
		*mark = (struct mark){ .size = l->size, .code = AUDIT_FINDING_SIGNER_AHEAD };
		memcpy(mark->root, l->root, TREE_HASH);
	}
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

	if (!read_anchor(&c->v->with->anchor[which], &n, &cp) || !succession_is(cp.origin, c->head->origin))
		return;
	c->v->commits->used[which] = true;
	known = verify_keys_know(c->v, &n, cp.origin);
	if (known == 0)
		verify_tell_store(c->v, AUDIT_FINDING_ANCHOR, c->head->origin,
				  "the checkpoint from outside is not signed by the log's key");
	else if (known < 0)
		verify_tell_store(c->v, AUDIT_FINDING_NOT_CHECKED, c->head->origin,
				  "who signed the checkpoint from outside: no key was pinned");
	if (!successions_hold(c->v->successions, AUDIT_FINDING_ANCHOR, cp.origin, cp.size, cp.root))
		return;
	mark = verify_mark_add(&c->anchors->marks);
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
		verify_commits_give(c, m, root);
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
		verify_commits_give(c, m, m->heads->hint[m->at]);
	return 0;
}

/* --- when checkpoints were taken outside */

/* Records of before 0.2.0 do not say the row's time: theirs is near. */
static bool same_time(int64_t row, const struct audit_row *record)
{
	const struct audit_value *ts = &record->v[COL_TS];
	size_t len;
	const uint8_t *said = verify_field(record, AUDIT_TAG_TIMES, &len);
	uint8_t time[8];

	audit_put_be(time, (uint64_t)row, sizeof(time));
	if (said)
		return len == sizeof(time) && memcmp(said, time, len) == 0;
	return ts->present && row >= 0 && ts->n >= 0 && (row > ts->n ? row - ts->n : ts->n - row) <= RECEIPT_US;
}

/* What the record calls the kind of its row. */
static int64_t kind_of(const char *what, size_t len)
{
	return text_eq(what, len, "file") ? ANCHOR_FILE : text_eq(what, len, "object") ? ANCHOR_OBJECT : ANCHOR_COMMAND;
}

/* A row of anchor is what this record says: kind, size, note, receipt, time. */
static bool row_fits(struct db_stmt *st, const struct audit_row *row)
{
	size_t note_len, hash_len, got_len, said_len, what_len;
	const char *what = (const char *)verify_field(row, AUDIT_TAG_REASON, &what_len);
	const char *note = db_col_blob(st, 3, &note_len);
	const uint8_t *hash = verify_field(row, AUDIT_TAG_NOTE, &hash_len);
	const uint8_t *said = verify_field(row, AUDIT_TAG_RECEIPT, &said_len);
	const uint8_t *got = db_col_blob(st, 4, &got_len);
	uint8_t digest[DIGEST_SIZE];
	struct checkpoint cp;
	struct note n;

	digest_sha256(note, note_len, digest);
	return hash && hash_len == sizeof(digest) && memcmp(hash, digest, sizeof(digest)) == 0 &&
	       read_anchor(&(struct audit_anchor){ note, note_len }, &n, &cp) && cp.size == (uint64_t)db_col_i64(st, 2) &&
	       said_len == got_len && (got_len == 0 || memcmp(said, got, got_len) == 0) &&
	       same_time(db_col_i64(st, 5), row) && what &&
	       db_col_i64(st, 1) == kind_of(what, what_len);
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

static int has_log(struct verify *v, const char *name, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_AUDIT_GET_ORIGIN);
	uint64_t n;
	int rc;

	db_bind_text(st, 1, name, succession_split(name, &n));
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
		if (rc == 0 && s->log[i]->size > 0 &&
		    successions_word(v->successions, s->log[i]->origin, s->log[i]->size, s->log[i]->root) != SUCCESSION_LOST)
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
		else if (successions_word(v->successions, cp.origin, cp.size, cp.root) != SUCCESSION_LOST)
			verify_tell_store(v, AUDIT_FINDING_LOG_MISSING, cp.origin,
					  "a checkpoint from outside is of a log that is not there");
	}
}

/* --- the step */

static int anchors_open(struct verify *v, struct err *err)
{
	(void)err;
	v->commits = verify_commits_new(v->with->nanchor);
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
			*verify_mark_add(m) = said->v[i];
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
		verify_commits_note(c, &got->row, got->idx);
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
	rc = verify_commits_say(c->v, err);
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

/* --- what is carried */

static void save_anchors(const struct verify_log *c, struct str *to)
{
	const struct verify_anchors *a = c->anchors;

	pack_u64(to, a->pending);
	pack_u64(to, c->v->way && a->pruned);
	pack_u64(to, c->v->way && a->compared);
	pack_u64(to, c->v->way ? a->marks.n - a->next : 0);
	for (size_t i = a->next; c->v->way && i < a->marks.n; i++)
		verify_mark_save(c->v->commits, &a->marks.v[i], to);
}

static void load_anchors(struct verify_log *c, struct unpack *in)
{
	struct verify_anchors *a = c->anchors;

	a->pending = unpack_u64(in);
	a->pruned = unpack_bool(in);
	a->compared = unpack_bool(in);
	for (size_t n = unpack_count(in, VERIFY_MARK_BYTES); n > 0 && !in->bad; n--)
		*verify_mark_add(&a->marks) = verify_mark_load(c->v->commits, in);
}

const struct verify_step verify_anchors = {
	.name = "anchors", .open = anchors_open, .begin = anchors_begin, .record = anchors_record, .end = anchors_end,
	.close = anchors_close, .finish = anchors_finish, .free = verify_commits_free, .form = 1, .save = verify_commits_save,
	.load = verify_commits_load, .save_log = save_anchors, .load_log = load_anchors, .start = anchors_start,
	.start_log = anchors_start_log,
};
