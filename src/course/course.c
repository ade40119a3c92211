/* What tasks and approvals of a log go through by its records, and what their rows say of it. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/fields.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/pack.h"
#include "base/text.h"
#include "course/course.h"
#include "db/db.h"
#include "json/json.h"

enum { TID_MAX = 32, ID_SIZE = 8, DIGEST = 32, ASSENT_SIZE = ID_SIZE + DIGEST + 1, NAME_MAX_ = 1 + TID_MAX };
enum { WAITS = 1, GRANTED, REFUSED, LAPSED, USED, RECALLED };   /* of approvals */

struct seen {
	int64_t idx;                    /* of the record that begins it, or the first one that is there */
	uint8_t state;                  /* of a task 0: it has no end */
	uint8_t yes;                    /* who have agreed, so far; of a task enum phase */
	bool cut;                       /* what came before is gone */
	uint8_t digest[DIGEST];
};
/* What the newest record of a task that has not ended says of it (TK-33); answered, or to be taken up: it waits for a
 * round. */
enum phase { UNKNOWN, RUNS, ASKS, ANSWERED };
struct courses {
	struct map *seen;               /* struct seen by 'T' and the id of a task, or 'A' and the number of an approval */
	uint64_t newest_us;             /* of the records that were told */
	bool overflow;
};
struct name { char p[NAME_MAX_]; size_t len; };

static struct name name_of(char what, const void *id, size_t len)
{
	struct name n = { { what }, len + 1 };

	memcpy(n.p + 1, id, len);
	return n;
}

struct courses *courses_new(void)
{
	struct courses *c = mem_zalloc(sizeof(*c));

	c->seen = map_new();
	return c;
}

void courses_free(struct courses **c)
{
	const void *key;
	size_t len;
	void *v;

	if (!*c)
		return;
	for (size_t it = 0; map_next((*c)->seen, &it, &key, &len, &v); )
		free(v);
	map_free(&(*c)->seen);
	free(*c);
	*c = NULL;
}

bool courses_overflow(const struct courses *c)
{
	return c->overflow;
}

static struct seen *add(struct courses *c, const struct name *name, int64_t idx)
{
	struct seen *s;

	if (map_count(c->seen) >= COURSES_MAX) {
		c->overflow = true;
		return NULL;
	}
	s = mem_zalloc(sizeof(*s));
	s->idx = idx;
	(void)map_set(c->seen, name->p, name->len, s);
	return s;
}

/* --- records */

static enum phase phase_of(const struct course_record *r, enum phase before)
{
	if (r->kind == AUDIT_CALL_BEGIN)
		return RUNS;
	if (r->kind == AUDIT_CALL_END)          /* by which it does not end: what it follows goes on (TK-61) */
		return r->outcome == AUDIT_INPUT_REQUIRED ? ASKS : before != UNKNOWN ? ANSWERED : before;
	return (r->kind == AUDIT_TASK_INPUT || r->kind == AUDIT_TASK_RERUN) && before != UNKNOWN ? ANSWERED : before;
}

/* Can the row of one that has not ended be in this state (task/task.h)? */
static bool is_so_far(enum phase phase, int64_t state)
{
	switch (state) {
	case 1:
	case 8:
		return phase == UNKNOWN || phase == RUNS;
	case 2:
		return phase != RUNS;
	case 7:
		return phase == UNKNOWN || phase == ANSWERED;
	default:
		return state < 3 || state > 5;
	}
}

static bool task(struct courses *c, const struct course_record *r, bool pruned)
{
	size_t len, n;
	const uint8_t *id = audit_field_find(r->ext, r->ext_len, AUDIT_TAG_TASK, &len), *state;
	struct name name;
	struct seen *s;
	bool fits = true;

	if (!id || len > TID_MAX)
		return true;
	name = name_of('T', id, len);
	s = map_get(c->seen, name.p, name.len);
	if (s)
		s->yes = (uint8_t)phase_of(r, s->yes);
	state = r->kind == AUDIT_TASK_CREATE ? NULL : audit_field_find(r->ext, r->ext_len, AUDIT_TAG_TASK_END, &n);
	if (r->kind != AUDIT_TASK_CREATE && (!state || n != 1))
		return true;
	if (!s && (!state || pruned || c->overflow))
		s = add(c, &name, r->idx);
	else
		fits = s && state && !s->state;
	if (s && !state)
		s->yes = RUNS;
	if (s && state && !s->state)
		s->state = *state;
	return fits;
}

/* May an approval that is so become that, by such a record? */
static bool may_follow(int from, int to, int kind)
{
	switch (kind) {
	case AUDIT_CALL_APPROVED:
		return from == WAITS && (to == WAITS || to == GRANTED);
	case AUDIT_CALL_REFUSED:
		return from == WAITS && to == REFUSED;
	case AUDIT_CALL_LAPSED:
		return (from == WAITS || from == GRANTED) && to == LAPSED;
	case AUDIT_CALL_RECALLED:
		return from == GRANTED && to == RECALLED;
	case AUDIT_CALL_BEGIN:
		return from == GRANTED && to == USED;
	default:
		return false;
	}
}

static bool assent(struct courses *c, const struct course_record *r, bool pruned)
{
	size_t len;
	const uint8_t *v = audit_field_find(r->ext, r->ext_len, AUDIT_TAG_ASSENT, &len);
	struct name name;
	struct seen *s;
	bool fits = true;
	int to;

	if (!v || len != ASSENT_SIZE)
		return !v;
	name = name_of('A', v, ID_SIZE);
	s = map_get(c->seen, name.p, name.len);
	to = v[ASSENT_SIZE - 1];
	if (s) {
		fits = may_follow(s->state, to, r->kind) && memcmp(s->digest, v + ID_SIZE, DIGEST) == 0;
	} else {
		fits = r->kind == AUDIT_CALL_HELD ? to == WAITS : pruned || c->overflow;
		s = add(c, &name, r->idx);
		if (s) {
			s->cut = r->kind != AUDIT_CALL_HELD;
			memcpy(s->digest, v + ID_SIZE, DIGEST);
		}
	}
	if (s) {
		s->state = (uint8_t)to;
		s->yes = (uint8_t)(s->yes + (r->kind == AUDIT_CALL_APPROVED && s->yes < UINT8_MAX));
	}
	return fits;
}

bool courses_record(struct courses *c, const struct course_record *r, bool pruned, enum audit_finding_code *ret)
{
	if (r->ts > c->newest_us)
		c->newest_us = r->ts;
	if (!r->ext)
		return true;
	*ret = AUDIT_FINDING_TASK;
	if (!task(c, r, pruned))
		return false;
	*ret = AUDIT_FINDING_ASSENT;
	return assent(c, r, pruned);
}

/* --- rows: one that has changed since the newest record that was told is left out, for a server runs */

#define WRONG "a row that is not what its records say"

struct rows { struct courses *c; struct map *there; bool pruned; course_found_fn *found; void *arg; };

static struct seen *find(struct rows *r, const struct name *name)
{
	(void)map_set(r->there, name->p, name->len, r);         /* any value: it is a set */
	return map_get(r->c->seen, name->p, name->len);
}

static void compare_task(struct rows *r, struct db_stmt *st)
{
	const int64_t state = db_col_i64(st, 5);
	size_t len;
	const char *id = db_col_text(st, 0, &len);
	const struct name name = name_of('T', id, len < TID_MAX ? len : TID_MAX);
	const struct seen *s = find(r, &name);

	if ((uint64_t)db_col_i64(st, 8) > r->c->newest_us)
		return;
	if (s ? (s->state ? s->state != state : !is_so_far(s->yes, state)) : !r->pruned)
		r->found(r->arg, AUDIT_FINDING_TASK, s ? s->idx : -1, WRONG);
}

/* How many have to agree, as the rule says. */
static int64_t count_of(const char *rule)
{
	json_t *v = NULL;
	struct err err;
	int64_t count = 1;

	if (jx_parse(rule, strlen(rule), &v, &err) == 0 && json_is_object(v) && json_is_integer(json_object_get(v, "count")))
		count = json_integer_value(json_object_get(v, "count"));
	json_decref(v);
	return count;
}

static bool is_as_told(const struct seen *s, struct db_stmt *st)
{
	const int64_t state = db_col_i64(st, 1);
	size_t len;
	const void *digest = db_col_blob(st, 2, &len);

	if (s->state != state || len != DIGEST || memcmp(digest, s->digest, DIGEST) != 0)
		return false;
	return (state != GRANTED && state != USED) || s->cut || s->yes >= count_of(db_col_text(st, 4, NULL));
}

static void compare_assent(struct rows *r, struct db_stmt *st)
{
	uint8_t id[ID_SIZE];
	struct name name;
	const struct seen *s;

	audit_put_be(id, (uint64_t)db_col_i64(st, 0), sizeof(id));
	name = name_of('A', id, sizeof(id));
	s = find(r, &name);
	if ((uint64_t)db_col_i64(st, 3) > r->c->newest_us)
		return;
	if (s ? !is_as_told(s, st) : !r->pruned)
		r->found(r->arg, AUDIT_FINDING_ASSENT, s ? s->idx : -1, WRONG);
}

static int by_idx(const void *a, const void *b)
{
	const struct seen *const *x = a, *const *y = b;

	return (*x)->idx < (*y)->idx ? -1 : (*x)->idx > (*y)->idx;
}

/* Those of a sort that have not ended, and whose rows are gone. */
static void tell_rowless(struct rows *r, char what, enum audit_finding_code code)
{
	const struct seen **list = mem_calloc(map_count(r->c->seen) + 1, sizeof(*list));
	const char *key;
	const void *k;
	size_t len, n = 0;
	void *v;

	for (size_t it = 0; map_next(r->c->seen, &it, &k, &len, &v); ) {
		const struct seen *s = v;

		key = k;
		if (*key == what && !map_get(r->there, k, len) && (what == 'T' ? !s->state : s->state <= GRANTED))
			list[n++] = s;
	}
	qsort(list, n, sizeof(*list), by_idx);
	for (size_t i = 0; i < n; i++)
		r->found(r->arg, code, list[i]->idx, NULL);
	free(list);
}

int courses_rows(struct courses *c, struct db *db, int64_t tenant_id, bool pruned, course_found_fn *found, void *arg,
		 struct err *err)
{
	static const struct {
		enum sql_id rows;
		void (*compare)(struct rows *r, struct db_stmt *st);
		char what;
		enum audit_finding_code code;
	} all[] = { { SQL_TASK_LIST, compare_task, 'T', AUDIT_FINDING_TASK },
		    { SQL_ASSENT_ROWS, compare_assent, 'A', AUDIT_FINDING_ASSENT } };
	struct rows r = { c, map_new(), pruned || c->overflow, found, arg };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < NELEMS(all); i++) {
		struct db_stmt *st = db_stmt_get(db, all[i].rows);

		db_bind_i64(st, 1, tenant_id);
		while ((rc = db_step(st, err)) == 1)
			all[i].compare(&r, st);
		db_stmt_put(&st);
		if (rc == 0)
			tell_rowless(&r, all[i].what, all[i].code);
	}
	map_free(&r.there);
	return rc;
}

/* --- from one verification to the next */

void courses_save(const struct courses *c, struct str *to)
{
	const void *key;
	size_t len;
	void *v;

	pack_u64(to, c->newest_us);
	pack_u64(to, c->overflow);
	pack_u64(to, map_count(c->seen));
	for (size_t it = 0; map_next(c->seen, &it, &key, &len, &v); ) {
		const struct seen *s = v;

		pack_text(to, key, len);
		pack_u64(to, (uint64_t)s->idx);
		pack_u64(to, s->state);
		pack_u64(to, s->yes);
		pack_u64(to, s->cut);
		pack_bytes(to, s->digest, sizeof(s->digest));
	}
}

void courses_load(struct courses *c, struct unpack *in)
{
	c->newest_us = unpack_u64(in);
	c->overflow = unpack_bool(in);
	for (size_t n = unpack_count(in, 40 + DIGEST); n > 0 && !in->bad; n--) {
		struct seen got = { 0 }, *s;
		size_t len;
		const char *text = unpack_text(in, &len);
		uint64_t idx = unpack_u64(in), state = unpack_u64(in), yes = unpack_u64(in);
		struct name name;

		got.cut = unpack_bool(in);
		unpack_bytes(in, got.digest, sizeof(got.digest));
		in->bad |= len < 1 || len > NAME_MAX_ || idx > INT64_MAX || state > RECALLED || yes > UINT8_MAX;
		if (in->bad)
			return;
		name = name_of(*text, text + 1, len - 1);
		s = add(c, &name, (int64_t)idx);
		got.idx = (int64_t)idx;
		got.state = (uint8_t)state;
		got.yes = (uint8_t)yes;
		if (s)
			*s = got;
	}
}
