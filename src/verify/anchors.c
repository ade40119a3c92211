/* Verification of what others say of a log (AUDIT 8, steps 10 to 12): the system log by logs.commit, the signer by its
 * state, people by checkpoints that they took away.  Of each log the newest commit of every epoch is kept: it covers those
 * before it, and whoever has stolen a later key cannot have written it. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "db/db.h"
#include "tlog/signer.h"

#include "verify_int.h"

enum { HEAD_BYTES = 4 + 8 + TREE_HASH };

static struct verify_mark *add_mark(struct verify_marks *m)
{
	if (m->n == m->cap) {
		m->cap = m->cap ? 2 * m->cap : 4;
		m->v = mem_realloc(m->v, m->cap * sizeof *m->v);
	}
	return &m->v[m->n++];
}

/* --- logs.commit */

static void commit_one(struct verify_log *c, const uint8_t *p, uint64_t epoch)
{
	uint64_t log = audit_get_be(p, 4);
	struct verify_marks *m = map_get_u64(c->v->commits, log);
	struct verify_mark *mark;

	if (!m) {
		m = mem_zalloc(sizeof *m);
		map_set_u64(c->v->commits, log, m);
	}
	mark = m->n > 0 && m->v[m->n - 1].epoch == epoch ? &m->v[m->n - 1] : add_mark(m);
	*mark = (struct verify_mark){ .size = audit_get_be(p + 4, 8), .epoch = epoch, .code = AUDIT_FINDING_CROSS_REF };
	memcpy(mark->root, p + 12, TREE_HASH);
}

void verify_marks_commit(struct verify_log *c, const struct audit_row *row, int64_t idx)
{
	const struct audit_value *ext = &row->v[COL_EXT];
	size_t len = 0, count_len = 0;
	const uint8_t *p = ext->present ? audit_field_find(ext->p, ext->len, AUDIT_TAG_HEADS, &len) : NULL;
	const uint8_t *count = ext->present ? audit_field_find(ext->p, ext->len, AUDIT_TAG_LOGS, &count_len) : NULL;
	/* It belongs to the epoch of the first checkpoint that covers it. */
	uint64_t epoch = c->note.due ? c->note.epoch : UINT64_MAX;

	if (!count || count_len != 8 || len % HEAD_BYTES != 0) {
		verify_tell_record(c, AUDIT_FINDING_PARSE, idx, idx);
		return;
	}
	c->v->logs_said = (int64_t)audit_get_be(count, 8);
	for (size_t at = 0; p && at < len; at += HEAD_BYTES)
		commit_one(c, p + at, epoch);
}

/* --- one log: all that is said of it, by size */

static int by_size(const void *a, const void *b)
{
	const struct verify_mark *x = a, *y = b;

	return x->size < y->size ? -1 : x->size > y->size;
}

static void add_signer(struct verify_log *c)
{
	const struct signer_state *s = c->v->with->signer;
	const struct signer_log *l = s ? signer_state_find(s, c->head->origin) : NULL;
	struct verify_mark *mark;

	if (!l || l->size == 0)
		return;
	mark = add_mark(&c->marks);
	*mark = (struct verify_mark){ .size = l->size, .code = AUDIT_FINDING_SIGNER_AHEAD };
	memcpy(mark->root, l->root, TREE_HASH);
}

static void add_anchor(struct verify_log *c, const struct audit_anchor *a)
{
	struct verify_mark *mark;
	struct checkpoint cp;
	struct note n;

	if (note_parse(a->p, a->len, &n) < 0 || checkpoint_parse(n.text, n.text_len, &cp) < 0) {
		if (c->head->id == AUDIT_SYSTEM_LOG)
			verify_tell_store(c->v, AUDIT_FINDING_PARSE, NULL, "a checkpoint from outside is no signed note");
		return;
	}
	if (strcmp(cp.origin, c->head->origin) != 0)
		return;
	if (!verify_keys_know(c->v, &n, c->head->origin))
		verify_tell_store(c->v, AUDIT_FINDING_ANCHOR, c->head->origin, "the checkpoint from outside is not signed by the log's key");
	mark = add_mark(&c->marks);
	*mark = (struct verify_mark){ .size = cp.size, .code = AUDIT_FINDING_ANCHOR };
	memcpy(mark->root, cp.root, TREE_HASH);
}

void verify_marks_begin(struct verify_log *c)
{
	struct verify_marks *m = map_del_u64(c->v->commits, (uint64_t)c->head->id);

	if (m) {
		c->marks = *m;
		free(m);
	}
	add_signer(c);
	for (size_t i = 0; i < c->v->with->nanchor; i++)
		add_anchor(c, &c->v->with->anchor[i]);
	if (c->marks.n > 0)
		qsort(c->marks.v, c->marks.n, sizeof *c->marks.v, by_size);
	/* What was pruned cannot be computed any more; the cut itself can. */
	while (c->next_mark < c->marks.n && c->marks.v[c->next_mark].size < c->tree.size)
		c->next_mark++;
	verify_marks_at(c);
}

static void tell(struct verify_log *c, const struct verify_mark *m, const char *what)
{
	char detail[100];

	snprintf(detail, sizeof detail, "%s at %" PRIu64, what, m->size);
	verify_tell_store(c->v, m->code, c->head->origin, detail);
}

void verify_marks_at(struct verify_log *c)
{
	for (; c->next_mark < c->marks.n && c->marks.v[c->next_mark].size == c->tree.size; c->next_mark++) {
		const struct verify_mark *m = &c->marks.v[c->next_mark];
		uint8_t root[TREE_HASH];

		tree_root(&c->tree, root);
		if (memcmp(root, m->root, TREE_HASH) != 0) {
			tell(c, m, "another root was signed");
		} else if (m->code == AUDIT_FINDING_CROSS_REF && m->epoch != UINT64_MAX) {
			if (m->size > c->covered)
				c->covered = m->size;
			if (c->note_size < m->size && !(c->note.due && c->note.size == m->size)) {
				c->owed_size = m->size;
				c->owed_epoch = m->epoch;
			}
		}
	}
}

void verify_marks_end(struct verify_log *c)
{
	for (; c->next_mark < c->marks.n; c->next_mark++)
		tell(c, &c->marks.v[c->next_mark], "records were signed that are not there,");
}

/* --- logs that are not there */

static void forget_commits(struct verify *v, bool report)
{
	const void *key;
	void *value;
	size_t len;

	for (size_t it = 0; map_next(v->commits, &it, &key, &len, &value);) {
		struct verify_marks *m = value;

		if (report)
			verify_tell_store(v, AUDIT_FINDING_CROSS_REF, NULL, "the system log has committed a log that is not there");
		free(m->v);
		free(m);
	}
	map_free(&v->commits);
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

static int check_anchor_age(struct verify *v, struct err *err)
{
	struct db_stmt *st;
	uint64_t ts = 0;
	int rc;

	if (v->with->anchor_age_s == 0)
		return 0;
	st = db_stmt_get(v->db, SQL_VERIFY_GET_ANCHORED);
	rc = db_step(st, err);
	if (rc == 1)
		ts = (uint64_t)db_col_i64(st, 0);
	db_stmt_put(&st);
	if (rc >= 0 && ts + v->with->anchor_age_s * 1000000 < clock_wall_us())
		verify_tell_store(v, AUDIT_FINDING_NO_ANCHOR, NULL, ts ? "the newest one is older than was asked for" : "there was never one");
	return rc < 0 ? rc : 0;
}

int verify_marks_close(struct verify *v, bool report, struct err *err)
{
	int rc = 0;

	forget_commits(v, report);
	if (report && v->logs_said > (int64_t)v->sum->logs)
		verify_tell_store(v, AUDIT_FINDING_LOG_MISSING, NULL, "the system log counts more logs than there are");
	if (report)
		rc = check_signer(v, err);
	if (report && rc == 0)
		rc = check_anchor_age(v, err);
	return rc;
}
