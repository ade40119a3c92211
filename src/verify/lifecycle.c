/* Step 8 of AUDIT 8: what records of one log mean together.  Each begin of a call has one end; starts, stops and
 * crashes alternate; times do not fall unless the clock was set. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/second.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "forms/forms.h"

#include "verify_int.h"

/* Records of one log are made by several threads and queues; so far apart their times may stand. */
#define SLACK_US 60000000
#define SET_BACK_MAX_MS (INT64_C(1000) * 366 * 86400 * 1000)    /* a thousand years */

/* What the system's log says, which is read first: between which times the clock was set, 0: it was not; and the last
 * start, stop or crash, 0: there is none. */
struct verify_clock { uint64_t set_from_us, set_to_us; int64_t life; uint64_t life_us; };

struct verify_life {
	int64_t kind, more;             /* of the last start, stop or crash, 0: none yet; nodes that serve beside that one */
	uint64_t latest_us;             /* time of the latest record so far */
	bool fell; int64_t fell_idx; uint64_t fell_us;  /* a time, at that record, and no record has explained it yet */
	struct map *open;               /* struct open_call by call id */
	bool overflow;                  /* there were more of them than pairing keeps in mind */
};

/* A begin whose end has not been read yet. */
struct open_call { int64_t idx, cred, prn, tool; uint64_t ts; bool listed; };    /* listed: open_call has it */
enum { CALL_SIZE = 16 };

/* --- pairing */

static int64_t id_of(const struct audit_row *row, enum audit_column col)
{
	return row->v[col].present ? row->v[col].n : -1;
}

static void begin_call(struct verify_log *c, const struct audit_row *row, const struct audit_value *call, int64_t idx)
{
	struct open_call *o;

	if (map_get(c->life->open, call->p, call->len)) {
		verify_tell_record(c, AUDIT_FINDING_PAIRING, idx, idx);
		return;
	}
	if (map_count(c->life->open) >= AUDIT_VERIFY_OPEN_MAX) {
		c->life->overflow = true;
		return;
	}
	o = mem_alloc(sizeof(*o));
	*o = (struct open_call){ idx, id_of(row, COL_CRED), id_of(row, COL_PRN), id_of(row, COL_TOOL),
		row->v[COL_TS].present ? (uint64_t)row->v[COL_TS].n : 0, false };
	map_set(c->life->open, call->p, call->len, o);
}

/* One end or recovered per begin, of the same call, by the same, of the same tool (AUDIT 8, step 8). */
static void end_call(struct verify_log *c, const struct audit_row *row, const struct audit_value *call, int64_t idx)
{
	struct open_call *o = map_del(c->life->open, call->p, call->len);

	if (!o) {
		if (!c->life->overflow && (id_of(row, COL_BEG) < 0 || id_of(row, COL_BEG) >= c->head->min_idx))     /* else pruned */
			verify_tell_record(c, AUDIT_FINDING_PAIRING, idx, idx);
		return;
	}
	if (id_of(row, COL_BEG) != o->idx || id_of(row, COL_CRED) != o->cred || id_of(row, COL_PRN) != o->prn ||
	    id_of(row, COL_TOOL) != o->tool)
		verify_tell_record(c, AUDIT_FINDING_PAIRING, idx, idx);
	free(o);
}

static void pair(struct verify_log *c, const struct audit_row *row, int64_t idx)
{
	const struct audit_value *call = &row->v[COL_CALL];
	int64_t kind = id_of(row, COL_KIND);

	if (kind == AUDIT_CALL_BEGIN && call->present)
		begin_call(c, row, call, idx);
	else if (kind == AUDIT_CALL_END || kind == AUDIT_CALL_RECOVERED)
		end_call(c, row, call, idx);
	else if (kind == AUDIT_CALL_BEGIN ||
		 (kind == AUDIT_CALL_DENIED && call->present && map_get(c->life->open, call->p, call->len)))
		verify_tell_record(c, AUDIT_FINDING_PAIRING, idx, idx);
}

static bool clock_was_set(const struct verify_clock *k, uint64_t at_us)
{
	return k->set_from_us <= at_us && at_us <= k->set_to_us;
}

/* A call of the server that was started last, and has not stopped, runs; so does one that its crash has ended, until
 * the next start says so.  What began before that start has an end, or something is wrong (HARDENING F-19); but a start
 * says since when the server before it runs on with calls (OP-903). */
static bool may_run(const struct verify_clock *k, const struct open_call *o)
{
	return k->life == AUDIT_SERVER_START && (o->ts >= k->life_us || clock_was_set(k, o->ts));
}

static void tell_unpaired(struct verify_log *c)
{
	int64_t *dangling = mem_calloc(map_count(c->life->open) + 1, sizeof(*dangling));
	size_t n = 0;
	void *value;

	for (size_t it = 0; map_next(c->life->open, &it, NULL, NULL, &value);) {
		const struct open_call *o = value;

		if (may_run(c->v->clock, o))
			c->v->sum->running++;
		else
			dangling[n++] = o->idx;
	}
	verify_sort(dangling, n);
	for (size_t i = 0; i < n; i++)
		verify_tell_record(c, AUDIT_FINDING_DANGLING, dangling[i], dangling[i]);
	free(dangling);
	if (c->life->overflow)
		verify_tell_store(c->v, AUDIT_FINDING_NOT_CHECKED, c->head->origin,
				  "more begins without an end than pairing keeps in mind");
}

/* --- begins in blocks, as table open_call has them (SCALE SC-307): a start after a crash believes it */

/* The begin at idx of that call, if its end was not read. */
static struct open_call *open_at(const struct verify_life *l, const void *call, size_t len, int64_t idx)
{
	struct open_call *o = len == CALL_SIZE ? map_get(l->open, call, len) : NULL;

	return o && o->idx == idx ? o : NULL;
}

static void tell_open(struct verify_log *c, int64_t idx, const char *what)
{
	verify_tell(c->v, &(struct audit_finding){ .code = AUDIT_FINDING_INDEX, .origin = c->head->origin, .from = idx,
		.to = idx, .detail = what });
}

/* Rows of the table: each is such a begin. */
static int check_listed(struct verify_log *c, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->v->db, SQL_VERIFY_LIST_OPEN);
	int rc;

	db_bind_i64(st, 1, c->head->id);
	while ((rc = db_step(st, err)) == 1) {
		int64_t idx = db_col_i64(st, 0);
		size_t len = 0;
		const void *call = db_col_blob(st, 1, &len);
		struct open_call *o = open_at(c->life, call, len, idx);

		if (o)
			o->listed = true;
		else if (idx < c->head->size)   /* else it came meanwhile */
			tell_open(c, idx, "open_call lists a call that has ended, or that did not begin there");
	}
	db_stmt_put(&st);
	return rc;
}

/* 1: its end came after the log's head was read. */
static int has_ended(struct verify_log *c, const void *call, size_t len, struct err *err)
{
	struct db_stmt *st = db_stmt_get(c->v->db, SQL_VERIFY_ENDED_SINCE);
	int rc;

	db_bind_i64(st, 1, c->head->id);
	db_bind_i64(st, 2, c->head->size);
	db_bind_blob(st, 3, call, len);
	rc = db_step(st, err);
	if (rc == 1)
		rc = (int)db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc;
}

/* Begins below the line that it does not list, in the order of the log; one that is DANGLING is told. */
static int check_unlisted(struct verify_log *c, int64_t line, struct err *err)
{
	int64_t *missing = mem_calloc(map_count(c->life->open) + 1, sizeof(*missing));
	const void *call;
	size_t len, n = 0;
	void *value;
	int rc = 0;

	for (size_t it = 0; rc >= 0 && map_next(c->life->open, &it, &call, &len, &value);) {
		const struct open_call *o = value;

		rc = o->listed || o->idx >= line || !may_run(c->v->clock, o) ? 1 : has_ended(c, call, len, err);
		if (rc == 0)
			missing[n++] = o->idx;
	}
	verify_sort(missing, n);
	for (size_t i = 0; i < n && rc >= 0; i++)
		tell_open(c, missing[i], "open_call does not list a call that has not ended");
	free(missing);
	return rc < 0 ? rc : 0;
}

static int compare_open(struct verify_log *c, struct err *err)
{
	int64_t line = INT64_MIN;
	int rc = forms_line(c->v->db, c->head->id, &line, err);

	if (rc == 0)
		rc = check_listed(c, err);
	return rc < 0 ? rc : check_unlisted(c, line, err);
}

/* In one transaction: a server folds meanwhile. */
static int check_open(struct verify_log *c, struct err *err)
{
	int rc;

	if (!forms_seen(c->v->db) || c->life->overflow)
		return 0;
	if (db_txn_alive(c->v->db))
		return compare_open(c, err);
	rc = db_txn_begin(c->v->db, false, err);
	return rc < 0 ? rc : db_txn_end(c->v->db, compare_open(c, err), err);
}

/* --- starts, stops and crashes */

static void check_life(struct verify_log *c, const struct audit_row *row, int64_t idx)
{
	int64_t kind = verify_kind(row), before = c->life->kind;

	if (!verify_is_system(c) ||
	    (kind != AUDIT_SERVER_START && kind != AUDIT_SERVER_STOP && kind != AUDIT_SERVER_CRASH))
		return;
	/* Nodes that share the store serve side by side, and each has its end: it stops, or another one says that it died. */
	if (before == AUDIT_SERVER_START && (kind == before ? audit_said_node(&row->v[COL_EXT]) : c->life->more > 0)) {
		c->life->more += kind == before ? 1 : -1;
		return;
	}
	/* Of a log whose beginning was pruned the first one may be any; a crash may be that of the first start. */
	if (before == 0 ? kind == AUDIT_SERVER_STOP && c->head->min_idx == 0 :
	    (kind == AUDIT_SERVER_START) == (before == AUDIT_SERVER_START))
		verify_tell_record(c, AUDIT_FINDING_LIFECYCLE, idx, idx);
	c->life->kind = c->v->clock->life = kind;
	c->v->clock->life_us = row->v[COL_TS].present ? (uint64_t)row->v[COL_TS].n : 0;
	if (kind == AUDIT_SERVER_START && row->v[COL_EXT].present)
		c->v->clock->life_us = audit_calls_since(c->v->clock->life_us, row->v[COL_EXT].p, row->v[COL_EXT].len);
}

/* --- times */

/* How far it was set back, by the record's own words: "-3600000 ms".  0: it was set on, or they do not say. */
static uint64_t set_back_us(const struct audit_value *ext)
{
	char text[64];
	int64_t ms = 0;

	if (!ext->present || !audit_said_text(ext, AUDIT_TAG_REASON, text, sizeof(text)) || text[0] != '-' ||
	    text_i64(text + 1, strspn(text + 1, "0123456789"), &ms) < 0 || ms > SET_BACK_MAX_MS)
		return 0;
	return (uint64_t)ms * 1000;
}

/* A log that nobody wrote to meanwhile has a record of the clock as it was before, and behind it, whenever that comes,
 * one of the clock as it was set: all between the two times is a fall that the step explains. */
static void note_step(struct verify_clock *k, uint64_t at_us, const struct audit_value *ext)
{
	const uint64_t around = 2 * SLACK_US, before_us = at_us + set_back_us(ext);

	if (k->set_to_us == 0 || at_us < k->set_from_us + around)
		k->set_from_us = at_us > around ? at_us - around : 0;
	if (before_us + around > k->set_to_us)
		k->set_to_us = before_us + around;
}

/* A clock that was set is noticed within a second: another record may come before the one that says so. */
static void end_fall(struct verify_log *c)
{
	if (c->life->fell)
		verify_tell_record(c, AUDIT_FINDING_TIME, c->life->fell_idx, c->life->fell_idx);
	c->life->fell = false;
}

static void check_time(struct verify_log *c, const struct audit_row *row, int64_t idx)
{
	const struct audit_value *ts = &row->v[COL_TS];
	uint64_t at_us = ts->present ? (uint64_t)ts->n : 0;
	struct verify_life *l = c->life;

	if (verify_is_system(c) && verify_kind(row) == AUDIT_CLOCK_STEP) {
		note_step(c->v->clock, at_us, &row->v[COL_EXT]);
		l->fell = l->fell && !clock_was_set(c->v->clock, l->fell_us);
		l->latest_us = at_us;
	}
	if (at_us + SLACK_US < l->latest_us) {
		end_fall(c);
		l->fell = !clock_was_set(c->v->clock, at_us);
		l->fell_idx = idx;
		l->fell_us = at_us;
		l->latest_us = at_us;   /* told once, not for all that follow */
	}
	if (at_us > l->latest_us)
		l->latest_us = at_us;
}

/* --- the step */

static int read_steps(struct verify *v, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_LIST_STEPS);
	struct audit_value ext = { .present = false };
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		ext.p = db_col_blob(st, 1, &ext.len);
		ext.present = ext.p != NULL;
		note_step(v->clock, (uint64_t)db_col_i64(st, 0), &ext);
	}
	db_stmt_put(&st);
	return rc;
}

/* Whoever checks one tenant's log does not read the system's: its last word is taken as it stands, and its steps. */
static int read_life(struct verify *v, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_GET_LIFE);
	int rc = db_step(st, err);
	size_t len = 0;

	if (rc == 1) {
		const void *ext = db_col_blob(st, 2, &len);

		v->clock->life = db_col_i64(st, 0);
		v->clock->life_us = audit_calls_since((uint64_t)db_col_i64(st, 1),
						      v->clock->life == AUDIT_SERVER_START ? ext : NULL, len);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : read_steps(v, err);
}

static int lifecycle_open(struct verify *v, struct err *err)
{
	v->clock = mem_zalloc(sizeof(*v->clock));
	return v->tenant_id ? read_life(v, err) : 0;
}

static int lifecycle_begin(struct verify_log *c, struct err *err)
{
	(void)err;
	c->life = mem_zalloc(sizeof(*c->life));
	c->life->open = map_new();
	return 0;
}

static int lifecycle_record(struct verify_log *c, const struct audit_read *got, struct err *err)
{
	(void)err;
	pair(c, &got->row, got->idx);
	check_life(c, &got->row, got->idx);
	check_time(c, &got->row, got->idx);
	return 0;
}

static int lifecycle_end(struct verify_log *c, struct err *err)
{
	end_fall(c);
	tell_unpaired(c);
	return check_open(c, err);
}

static void lifecycle_close(struct verify_log *c)
{
	void *value;

	if (!c->life)
		return;
	for (size_t it = 0; map_next(c->life->open, &it, NULL, NULL, &value);)
		free(value);
	map_free(&c->life->open);
	free(c->life);
	c->life = NULL;
}

static void save_clock(const struct verify *v, struct str *to)
{
	const struct verify_clock *k = v->clock;

	pack_u64(to, k->set_from_us);
	pack_u64(to, k->set_to_us);
	pack_u64(to, (uint64_t)k->life);
	pack_u64(to, k->life_us);
}

static void load_clock(struct verify *v, struct unpack *in)
{
	struct verify_clock *k = v->clock;

	k->set_from_us = unpack_u64(in);
	k->set_to_us = unpack_u64(in);
	k->life = (int64_t)unpack_u64(in);
	k->life_us = unpack_u64(in);
}

static void save_life(const struct verify_log *c, struct str *to)
{
	const struct verify_life *l = c->life;
	const void *call;
	size_t len;
	void *value;

	pack_u64(to, (uint64_t)l->kind | (uint64_t)l->more << 32);
	pack_u64(to, l->latest_us);
	pack_u64(to, l->fell);
	pack_u64(to, (uint64_t)l->fell_idx);
	pack_u64(to, l->fell_us);
	pack_u64(to, l->overflow);
	pack_u64(to, map_count(l->open));
	for (size_t it = 0; map_next(l->open, &it, &call, &len, &value);) {
		const struct open_call *o = value;

		pack_text(to, call, len);
		pack_u64(to, (uint64_t)o->idx);
		pack_u64(to, (uint64_t)o->cred);
		pack_u64(to, (uint64_t)o->prn);
		pack_u64(to, (uint64_t)o->tool);
		pack_u64(to, o->ts);
	}
}

static void load_call(struct verify_life *l, struct unpack *in)
{
	size_t len;
	const char *call = unpack_text(in, &len);
	struct open_call *o = mem_zalloc(sizeof(*o));

	o->idx = (int64_t)unpack_u64(in);
	o->cred = (int64_t)unpack_u64(in);
	o->prn = (int64_t)unpack_u64(in);
	o->tool = (int64_t)unpack_u64(in);
	o->ts = unpack_u64(in);
	in->bad |= o->idx < 0 || map_count(l->open) >= AUDIT_VERIFY_OPEN_MAX;
	free(in->bad ? o : map_set(l->open, call, len, o));
}

static void load_life(struct verify_log *c, struct unpack *in)
{
	struct verify_life *l = c->life;

	l->more = (l->kind = (int64_t)unpack_u64(in)) >> 32;
	l->kind &= UINT32_MAX;
	l->latest_us = unpack_u64(in);
	l->fell = unpack_bool(in);
	l->fell_idx = (int64_t)unpack_u64(in);
	l->fell_us = unpack_u64(in);
	l->overflow = unpack_bool(in);
	for (size_t n = unpack_count(in, 48); n > 0 && !in->bad; n--)
		load_call(l, in);
}

static void lifecycle_free(struct verify *v)
{
	free(v->clock);
	v->clock = NULL;
}

const struct verify_step verify_lifecycle = {
	.name = "lifecycle", .open = lifecycle_open, .begin = lifecycle_begin, .record = lifecycle_record,
	.end = lifecycle_end, .close = lifecycle_close, .free = lifecycle_free,
	.form = 1, .save = save_clock, .load = load_clock, .save_log = save_life, .load_log = load_life,
};
