/* Tasks (TK-43): each has one record that begins it and at most one that ends it, and its row, as long as there is one,
 * says what they say: a row that has ended has its end on record, one that has not has none. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/fields.h"
#include "base/map.h"
#include "base/mem.h"
#include "db/db.h"

#include "verify_int.h"

enum { TID_MAX = 32, SEEN_MAX = 1 << 20 };
struct seen { int64_t idx; uint8_t state; };            /* of the record that begins it; 0: it has no end */
struct verify_tasks {
	struct map *seen;               /* struct seen by id */
	uint64_t newest_us;             /* of the records that were read */
	bool overflow;
};

static int tasks_begin(struct verify_log *c, struct err *err)
{
	(void)err;
	c->tasks = mem_zalloc(sizeof(*c->tasks));
	c->tasks->seen = map_new();
	return 0;
}

static void tasks_close(struct verify_log *c)
{
	const void *key;
	size_t len;
	void *v;

	if (!c->tasks)
		return;
	for (size_t it = 0; map_next(c->tasks->seen, &it, &key, &len, &v); )
		free(v);
	map_free(&c->tasks->seen);
	free(c->tasks);
	c->tasks = NULL;
}

static struct seen *add(struct verify_tasks *t, const void *id, size_t len, int64_t idx)
{
	struct seen *s;

	if (map_count(t->seen) >= SEEN_MAX) {
		t->overflow = true;
		return NULL;
	}
	s = mem_zalloc(sizeof(*s));
	s->idx = idx;
	(void)map_set(t->seen, id, len, s);
	return s;
}

/* Were records pruned that could have begun it? */
static bool may_be_gone(const struct verify_log *c)
{
	return c->head->min_idx > 0 || c->tasks->overflow;
}

static int tasks_record(struct verify_log *c, const struct audit_read *got, struct err *err)
{
	const struct audit_value *kind = &got->row.v[COL_KIND], *ext = &got->row.v[COL_EXT], *ts = &got->row.v[COL_TS];
	struct verify_tasks *t = c->tasks;
	const uint8_t *id, *state;
	struct seen *s;
	size_t len, n;

	(void)err;
	id = ext->present ? audit_field_find(ext->p, ext->len, AUDIT_TAG_TASK, &len) : NULL;
	if (ts->present && (uint64_t)ts->n > t->newest_us)
		t->newest_us = (uint64_t)ts->n;
	if (!id || len > TID_MAX)
		return 0;
	s = map_get(t->seen, id, len);
	state = kind->n == AUDIT_TASK_CREATE ? NULL : audit_field_find(ext->p, ext->len, AUDIT_TAG_TASK_END, &n);
	if (kind->n != AUDIT_TASK_CREATE && (!state || n != 1))
		return 0;
	if (!s && (!state || may_be_gone(c)))
		s = add(t, id, len, got->idx);
	else if (!s || !state || s->state)
		verify_tell_record(c, AUDIT_FINDING_TASK, got->idx, got->idx);
	if (s && state && !s->state)
		s->state = *state;
	return 0;
}

/* A row, and what records say of it.  One that was changed since they were read is not told. */
static void compare(struct verify_log *c, struct db_stmt *st, struct map *rows)
{
	const struct verify_tasks *t = c->tasks;
	const int64_t state = db_col_i64(st, 5), updated_us = db_col_i64(st, 8);
	size_t len;
	const char *id = db_col_text(st, 0, &len);
	struct seen *s = map_get(t->seen, id, len);

	(void)map_set(rows, id, len, rows);
	if ((uint64_t)updated_us > t->newest_us)
		return;
	if (s ? (s->state ? s->state != state : (state >= 3 && state <= 5)) : !may_be_gone(c))
		verify_tell(c->v, &(struct audit_finding){ .code = AUDIT_FINDING_TASK, .origin = c->head->origin,
							   .from = s ? s->idx : -1, .to = s ? s->idx : -1,
							   .detail = "a row that is not what its records say" });
}

/* Those that have not ended, and whose rows are gone. */
static void tell_rowless(struct verify_log *c, const struct map *rows)
{
	int64_t *idx = mem_calloc(map_count(c->tasks->seen) + 1, sizeof(*idx));
	const void *key;
	size_t len, n = 0;
	void *v;

	for (size_t it = 0; map_next(c->tasks->seen, &it, &key, &len, &v); )
		if (!((struct seen *)v)->state && !map_get(rows, key, len))
			idx[n++] = ((struct seen *)v)->idx;
	verify_sort(idx, n);
	for (size_t i = 0; i < n; i++)
		verify_tell_record(c, AUDIT_FINDING_TASK, idx[i], idx[i]);
	free(idx);
}

static int tasks_end(struct verify_log *c, struct err *err)
{
	struct db_stmt *st;
	struct map *rows;
	int rc;

	if (!c->head->tenant_id)
		return 0;
	rows = map_new();
	st = db_stmt_get(c->v->db, SQL_TASK_LIST);
	db_bind_i64(st, 1, c->head->tenant_id);
	while ((rc = db_step(st, err)) == 1)
		compare(c, st, rows);
	db_stmt_put(&st);
	if (rc == 0)
		tell_rowless(c, rows);
	map_free(&rows);
	if (rc == 0 && c->tasks->overflow)
		verify_tell_store(c->v, AUDIT_FINDING_NOT_CHECKED, c->head->origin, "more tasks than are kept in mind");
	return rc;
}

static void save(const struct verify_log *c, struct str *to)
{
	const void *key;
	size_t len;
	void *v;

	pack_u64(to, c->tasks->newest_us);
	pack_u64(to, c->tasks->overflow);
	pack_u64(to, map_count(c->tasks->seen));
	for (size_t it = 0; map_next(c->tasks->seen, &it, &key, &len, &v); ) {
		pack_text(to, key, len);
		pack_u64(to, (uint64_t)((struct seen *)v)->idx);
		pack_u64(to, ((struct seen *)v)->state);
	}
}

static void load(struct verify_log *c, struct unpack *in)
{
	c->tasks->newest_us = unpack_u64(in);
	c->tasks->overflow = unpack_bool(in);
	for (size_t n = unpack_count(in, 24); n > 0 && !in->bad; n--) {
		size_t len;
		const char *id = unpack_text(in, &len);
		uint64_t idx = unpack_u64(in), state = unpack_u64(in);
		struct seen *s;

		in->bad |= len > TID_MAX || idx > INT64_MAX || state > 5;
		s = in->bad ? NULL : add(c->tasks, id, len, (int64_t)idx);
		if (s)
			s->state = (uint8_t)state;
	}
}

const struct verify_step verify_tasks = {
	.name = "tasks", .begin = tasks_begin, .record = tasks_record, .end = tasks_end, .close = tasks_close,
	.form = 1, .save_log = save, .load_log = load,
};
