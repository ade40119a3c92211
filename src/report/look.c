/* Where a report has to look: which parts of a log may have a row that it chooses, by indexes, zones and sums beside
 * the records. */
#include "config.h"

#include <stdlib.h>

#include "audit/audit.h"
#include "base/mem.h"
#include "base/text.h"
#include "forms/forms.h"

#include "report_int.h"

static const char *or_null(const char *text)
{
	return *text ? text : NULL;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* --- where to look: the indexes end in times, so a part of a log is asked with the times that its records can have */

#define SLACK_US 60000000               /* a record may be as much older than one before it; more is a finding (TIME) */
#define STEPS_MAX 4096
#define SYSTEM_LOG 1

/* When the clock was set, by the records of that; those of before `from` are pruned. */
struct report_steps { int64_t from; size_t n; struct step { int64_t id, ts; } at[STEPS_MAX]; };
/* Positions, and the ids and times that the records there can have; times before the last one. */
struct stretch { int64_t low, below, from_id, to_id, from_us, before_us; };

int report_record_at(struct db *db, enum sql_id id, int64_t log, int64_t idx, struct report_record *ret,
		     struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, id);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, idx);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = (struct report_record){ db_col_i64(st, 0), db_col_i64(st, 1), db_col_i64(st, 2) };
	db_stmt_put(&st);
	return rc;
}

static int read_steps(struct report_look *l, struct db *db, struct err *err)
{
	struct report_steps *s = mem_zalloc(sizeof(*s));
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_STEPS);
	struct report_record first;
	int rc;

	db_bind_i64(st, 1, STEPS_MAX);
	while ((rc = db_step(st, err)) == 1)
		s->at[s->n++] = (struct step){ db_col_i64(st, 0), db_col_i64(st, 1) };
	db_stmt_put(&st);
	if (rc == 0)
		rc = report_record_at(db, SQL_REPORT_PLACE_FROM, SYSTEM_LOG, 0, &first, err);
	if (rc == 1)
		s->from = first.idx > 0 ? first.id : 0;
	l->steps = s;
	return rc < 0 ? rc : 0;
}

/* Between the two, or just behind them: that a clock was set is noticed within a second.  True as well when nobody
 * knows. */
static bool was_set(const struct report_steps *s, const struct report_record *first, const struct report_record *last)
{
	const struct step *next = NULL;

	for (size_t i = 0; i < s->n; i++) {
		const struct step *at = &s->at[i];

		if (at->id > first->id && at->id <= last->id)
			return true;
		if (at->id > last->id && (!next || at->id < next->id))
			next = at;
	}
	return s->n == STEPS_MAX || first->id < s->from ||
		(next && next->ts < last->ts + 2 * SLACK_US && next->ts > last->ts - 2 * SLACK_US);
}

/* Of a store with blocks positions say it: blocks know them, their times, and what ids they have. */
static int bound_in_forms(struct report_look *l, struct stretch *p)
{
	*p = (struct stretch){ p->low, p->below, p->low, p->below - 1, report_since(l->ask), report_until(l->ask) };
	return p->from_us < p->before_us;
}

/* Where several may write, by their clocks, the records themselves say their times: 1; 0: one alone writes, by one. */
static int bound_by_times(struct report_look *l, struct db *db, int64_t log, struct stretch *p, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_PART_TIMES);
	int rc;

	for (unsigned i = 0; i < 3; i++)
		db_bind_i64(st, i + 1, (int64_t[]){ log, p->low, p->below }[i]);
	rc = db_step(st, err);
	if (rc == 1 && bound_in_forms(l, p)) {
		p->before_us = db_col_type(st, 1) == DB_NULL ? 0 : least(p->before_us, db_col_i64(st, 1) + 1);
		p->from_us = -least(-p->from_us, -db_col_i64(st, 0));
	}
	db_stmt_put(&st);
	return rc;
}

/* 0: the part has no record that the span of time can have. */
static int bound_part(struct report_look *l, struct db *db, int64_t log, struct stretch *p, struct err *err)
{
	struct report_record first, last;
	int rc;

	if (forms_seen(db))
		return bound_in_forms(l, p);
	if ((rc = bound_by_times(l, db, log, p, err)) != 0)
		return rc < 0 ? rc : p->from_us < p->before_us;
	if (l->steps || (rc = read_steps(l, db, err)) == 0)
		rc = report_record_at(db, SQL_REPORT_PLACE_FROM, log, p->low, &first, err);
	if (rc == 1)
		rc = report_record_at(db, SQL_REPORT_PLACE_BELOW, log, p->below, &last, err);
	if (rc != 1 || first.idx > last.idx)
		return rc < 0 ? rc : 0;
	*p = (struct stretch){ p->low, p->below, first.id, last.id, report_since(l->ask), report_until(l->ask) };
	if (!was_set(l->steps, &first, &last)) {
		p->before_us = least(p->before_us, last.ts + SLACK_US + 1);
		if (p->from_us < first.ts - SLACK_US)
			p->from_us = first.ts - SLACK_US;
	}
	return p->from_us < p->before_us;
}

enum probe { PROBE_OUT, PROBE_KIND, PROBE_TOOL, PROBE_CRED, PROBE_PRN };
static const enum sql_id probes[][2] = {        /* of rows, of blocks */
	[PROBE_OUT] = { SQL_REPORT_PROBE_OUT, SQL_REPORT_FORMS_OUT },
	[PROBE_KIND] = { SQL_REPORT_PROBE_KIND, SQL_REPORT_FORMS_KIND },
	[PROBE_TOOL] = { SQL_REPORT_PROBE_TOOL, SQL_REPORT_FORMS_TOOL },
	[PROBE_CRED] = { SQL_REPORT_PROBE_CRED, SQL_REPORT_FORMS_CRED },
	[PROBE_PRN] = { SQL_REPORT_PROBE_PRN, SQL_REPORT_FORMS_PRN },
};

static int probe(struct db *db, enum probe which, int64_t log, const struct stretch *p, const char *text,
		 int64_t number, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, probes[which][forms_seen(db)]);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, p->from_us);
	db_bind_i64(st, 3, p->before_us);
	db_bind_i64(st, 4, p->from_id);
	db_bind_i64(st, 5, p->to_id);
	if (text)
		db_bind_textz(st, 6, text);
	else
		db_bind_i64(st, 6, number);
	rc = db_step(st, err);
	db_stmt_put(&st);
	return rc;
}

static int outcome_of(const struct report_ask *ask)
{
	return ask->way->outcome ? ask->way->outcome : ask->outcome;
}

static bool is_filtered(const struct report_ask *ask)
{
	return outcome_of(ask) > 0 || *ask->tool || *ask->key || *ask->pseudonym || ask->way->kind[0] || ask->kind;
}

/* Begins and ends of calls are everywhere, and no index of rows has them. */
static bool is_rare(int64_t kind)
{
	return kind && kind != AUDIT_CALL_BEGIN && kind != AUDIT_CALL_END;
}

/* 1 as well when any kind will do. */
static int probe_kinds(struct db *db, int64_t log, const struct stretch *p, const struct report_way *way,
		       struct err *err)
{
	int rc = way->kind[0] == 0;

	for (size_t i = 0; rc == 0 && i < REPORT_KINDS && way->kind[i]; i++)
		rc = probe(db, PROBE_KIND, log, p, NULL, way->kind[i], err);
	return rc;
}

static const int *kinds_of(const struct report_ask *ask, int own[REPORT_KINDS])
{
	own[0] = (int)ask->kind;
	return ask->way->kind[0] ? ask->way->kind : own;
}

/* Of what is no begin. */
static bool is_met(const struct report_ask *ask, const struct db *db)
{
	int own[REPORT_KINDS] = { 0 };
	const int kind = kinds_of(ask, own)[0];
	const int n = (ask->outcome >= 0) + (*ask->tool != 0) + (*ask->key != 0) + (*ask->pseudonym != 0) + (kind != 0);
	const bool ends = ask->way->walked || ask->outcome >= 0 || kind;

	return ask->way->own && n > 1 && ends && kind != AUDIT_CALL_BEGIN && forms_seen(db);
}

#define PART_ROWS 65536
#define PART_MET (1 << 20)              /* eight chapters or more */

/* When not all records are wanted half of them are read in vain. */
int64_t report_part(const struct report_ask *ask, const struct db *db, int64_t *ret_first)
{
	const int64_t most = is_filtered(ask) ? REPORT_LOOK : PART_ROWS;

	*ret_first = is_met(ask, db) ? PART_MET : most;
	return most;
}

/* The newest record of a part that has all of it, of one of the kinds: 1, *ret is where it stands; 0: there is none. */
static int find_meeting(struct db *db, const struct report_ask *ask, int64_t log, const struct stretch *p, int64_t *ret,
			struct err *err)
{
	const char *const text[] = { or_null(ask->tool), or_null(ask->pseudonym), or_null(ask->key) };
	const int64_t number[] = { log, p->from_us, p->before_us, p->from_id, p->to_id };
	int own[REPORT_KINDS] = { 0 };
	const int *kind = kinds_of(ask, own);
	size_t k = 0;
	int rc;

	*ret = -1;
	do {
		struct db_stmt *st = db_stmt_get(db, SQL_REPORT_MEETS);

		for (unsigned i = 0; i < NELEMS(number); i++)
			db_bind_i64(st, i + 1, number[i]);
		for (unsigned i = 0; i < NELEMS(text); i++)
			db_bind_textz(st, NELEMS(number) + i + 1, text[i]);
		db_bind_i64(st, 9, ask->outcome);
		db_bind_i64(st, 10, kind[k] ? kind[k] : -1);
		rc = db_step(st, err);
		if (rc == 1 && db_col_i64(st, 0) > *ret)
			*ret = db_col_i64(st, 0);
		db_stmt_put(&st);
	} while (rc >= 0 && ++k < REPORT_KINDS && kind[k]);
	return rc < 0 ? rc : *ret >= 0;
}

/* An outcome comes first, for it is the rarest (SC-405); of several filters each must have found something. */
int report_look(struct report_look *l, struct db *db, int64_t log, int64_t low, int64_t below, int64_t *ret_newest,
		struct err *err)
{
	const struct report_ask *ask = l->ask;
	struct stretch at = { .low = low, .below = below }, *const p = &at;
	int rc;

	*ret_newest = -1;
	if (!is_filtered(ask) && ask->since_us == 0 && ask->until_us == 0)
		return 1;
	rc = bound_part(l, db, log, p, err);
	if (rc == 1 && is_met(ask, db))
		return find_meeting(db, ask, log, p, ret_newest, err);
	if (rc == 1 && outcome_of(ask) > 0) {
		rc = probe(db, PROBE_OUT, log, p, NULL, outcome_of(ask), err);
		if (rc == 0 && ask->way->either)
			rc = probe_kinds(db, log, p, ask->way, err);
	}
	if (rc == 1 && !ask->way->either)
		rc = probe_kinds(db, log, p, ask->way, err);
	if (rc == 1 && is_rare(ask->kind))
		rc = probe(db, PROBE_KIND, log, p, NULL, ask->kind, err);
	if (rc == 1 && *ask->tool)
		rc = probe(db, PROBE_TOOL, log, p, ask->tool, 0, err);
	if (rc == 1 && *ask->key)
		rc = probe(db, PROBE_CRED, log, p, ask->key, 0, err);
	if (rc == 1 && *ask->pseudonym)
		rc = probe(db, PROBE_PRN, log, p, ask->pseudonym, 0, err);
	return rc;
}

int report_may_have(struct db *db, const struct report_ask *ask, int64_t log, int64_t low, int64_t below,
		    struct err *err)
{
	struct report_look l = { .ask = ask };
	int64_t newest;
	int rc = report_look(&l, db, log, low, below, &newest, err);

	free(l.steps);
	return rc;
}
