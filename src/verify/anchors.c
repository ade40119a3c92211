/* What others say of a log (AUDIT 8, steps 10 to 12): the system log by logs.commit, the signer by its state,
 * people by checkpoints that they took away.  Of each log the newest commit of every epoch is kept: it covers
 * those before it, and whoever has stolen a later key cannot have written it. */

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

/* Roots that others say of a log, by size. */
struct mark {
	uint64_t size, epoch;           /* epoch: of logs.commit alone */
	uint8_t root[TREE_HASH];
	enum audit_finding_code code;
};
struct marks { struct mark *v; size_t n, cap; };

struct verify_anchors { struct marks marks; size_t next; };     /* next: the first whose size has not been read */

/* What logs.commit says; the system log is read first. */
struct verify_commits {
	struct map *logs;               /* struct marks by log */
	int64_t count;                  /* how many logs the newest one counts */
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

static void commit_one(struct verify_log *c, const uint8_t *p, uint64_t epoch)
{
	uint64_t log = audit_get_be(p, 4);
	struct marks *m = map_get_u64(c->v->commits->logs, log);
	struct mark *mark;

	if (!m) {
		m = mem_zalloc(sizeof(*m));
		map_set_u64(c->v->commits->logs, log, m);
	}
	mark = m->n > 0 && m->v[m->n - 1].epoch == epoch ? &m->v[m->n - 1] : add_mark(m);
	*mark = (struct mark){ .size = audit_get_be(p + 4, 8), .epoch = epoch, .code = AUDIT_FINDING_CROSS_REF };
	memcpy(mark->root, p + 12, TREE_HASH);
}

static void note_commit(struct verify_log *c, const struct audit_row *row, int64_t idx)
{
	const struct audit_value *ext = &row->v[COL_EXT];
	size_t len = 0, count_len = 0;
	const uint8_t *p = ext->present ? audit_field_find(ext->p, ext->len, AUDIT_TAG_HEADS, &len) : NULL;
	const uint8_t *count = ext->present ? audit_field_find(ext->p, ext->len, AUDIT_TAG_LOGS, &count_len) : NULL;
	/* It belongs to the epoch of the first checkpoint that covers it. */
	uint64_t epoch = c->cover.due ? c->cover.due_epoch : UINT64_MAX;

	if (!count || count_len != 8 || len % HEAD_BYTES != 0) {
		verify_tell_record(c, AUDIT_FINDING_PARSE, idx, idx);
		return;
	}
	c->v->commits->count = (int64_t)audit_get_be(count, 8);
	for (size_t at = 0; p && at < len; at += HEAD_BYTES)
		commit_one(c, p + at, epoch);
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

static void add_anchor(struct verify_log *c, const struct audit_anchor *a)
{
	struct mark *mark;
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
		verify_tell_store(c->v, AUDIT_FINDING_ANCHOR, c->head->origin,
				  "the checkpoint from outside is not signed by the log's key");
	mark = add_mark(&c->anchors->marks);
	*mark = (struct mark){ .size = cp.size, .code = AUDIT_FINDING_ANCHOR };
	memcpy(mark->root, cp.root, TREE_HASH);
}

static void tell(struct verify_log *c, const struct mark *m, const char *what)
{
	char detail[100];

	snprintf(detail, sizeof(detail), "%s at %" PRIu64, what, m->size);
	verify_tell_store(c->v, m->code, c->head->origin, detail);
}

/* Those of this size. */
static void compare_marks(struct verify_log *c)
{
	struct verify_anchors *a = c->anchors;
	struct verify_cover *cover = &c->cover;

	for (; a->next < a->marks.n && a->marks.v[a->next].size == c->tree.size; a->next++) {
		const struct mark *m = &a->marks.v[a->next];
		uint8_t root[TREE_HASH];

		tree_root(&c->tree, root);
		if (memcmp(root, m->root, TREE_HASH) != 0) {
			tell(c, m, "another root was signed");
		} else if (m->code == AUDIT_FINDING_CROSS_REF && m->epoch != UINT64_MAX) {
			if (m->size > cover->covered)
				cover->covered = m->size;
			if (cover->last_size < m->size && !(cover->due && cover->due_size == m->size)) {
				cover->owed_size = m->size;
				cover->owed_epoch = m->epoch;
			}
		}
	}
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
		verify_tell_store(v, AUDIT_FINDING_NO_ANCHOR, NULL,
				  ts ? "the newest one is older than was asked for" : "there was never one");
	return rc < 0 ? rc : 0;
}

/* --- the step */

static int anchors_open(struct verify *v, struct err *err)
{
	(void)err;
	v->commits = mem_zalloc(sizeof(*v->commits));
	v->commits->logs = map_new();
	return 0;
}

static int anchors_begin(struct verify_log *c, struct err *err)
{
	struct marks *said = map_del_u64(c->v->commits->logs, (uint64_t)c->head->id), *m;

	(void)err;
	c->anchors = mem_zalloc(sizeof(*c->anchors));
	m = &c->anchors->marks;
	if (said)
		*m = *said;
	free(said);
	add_signer(c);
	for (size_t i = 0; i < c->v->with->nanchor; i++)
		add_anchor(c, &c->v->with->anchor[i]);
	if (m->n > 0)
		qsort(m->v, m->n, sizeof(*m->v), by_size);
	/* What was pruned cannot be computed any more; the cut itself can. */
	while (c->anchors->next < m->n && m->v[c->anchors->next].size < c->tree.size)
		c->anchors->next++;
	compare_marks(c);
	return 0;
}

static int anchors_record(struct verify_log *c, const struct audit_read *got, struct err *err)
{
	(void)err;
	if (verify_is_system(c) && verify_kind(&got->row) == AUDIT_LOGS_COMMIT)
		note_commit(c, &got->row, got->idx);
	compare_marks(c);
	return 0;
}

static int anchors_end(struct verify_log *c, struct err *err)
{
	const struct marks *m = &c->anchors->marks;

	(void)err;
	for (; c->anchors->next < m->n; c->anchors->next++)
		tell(c, &m->v[c->anchors->next], "records were signed that are not there,");
	return 0;
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
	int rc;

	if (v->tenant_id)
		return 0;
	tell_logless(v);
	rc = check_signer(v, err);
	return rc < 0 ? rc : check_anchor_age(v, err);
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
	free(v->commits);
	v->commits = NULL;
}

const struct verify_step verify_anchors = {
	.name = "anchors", .open = anchors_open, .begin = anchors_begin, .record = anchors_record, .end = anchors_end,
	.close = anchors_close, .finish = anchors_finish, .free = anchors_free,
};
