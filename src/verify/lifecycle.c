/*
 * Step 8 of AUDIT 8 as far as one record after another tells it: starts, stops and crashes alternate, and times do not
 * fall unless the clock was set.  Pairing is in verify.c.
 */

#include "config.h"

#include "verify_int.h"

/* Records of one log are made by several threads and queues; so far apart their times may stand. */
#define SLACK_US 60000000

void verify_lifecycle(struct verify_log *c, const struct audit_row *row, int64_t idx)
{
	int64_t kind = row->v[COL_KIND].present ? row->v[COL_KIND].n : 0;

	if (c->head->id != AUDIT_SYSTEM_LOG || (kind != AUDIT_SERVER_START && kind != AUDIT_SERVER_STOP && kind != AUDIT_SERVER_CRASH))
		return;
	/* Of a log whose beginning was pruned the first one may be any; a crash may be that of the first start. */
	if (c->lifecycle == 0 ? kind == AUDIT_SERVER_STOP && c->head->min_idx == 0 :
	    (kind == AUDIT_SERVER_START) == (c->lifecycle == AUDIT_SERVER_START))
		verify_tell_record(c, AUDIT_FINDING_LIFECYCLE, idx, idx);
	c->lifecycle = kind;
}

/* The system's log is read first, and says when the clock was set. */
static bool clock_was_set(const struct verify *v, uint64_t at_us)
{
	return v->set_from_us <= at_us && at_us <= v->set_to_us;
}

static void note_step(struct verify *v, uint64_t at_us)
{
	const uint64_t around = 2 * SLACK_US;

	if (v->set_to_us == 0 || at_us < v->set_from_us + around)
		v->set_from_us = at_us > around ? at_us - around : 0;
	if (at_us + around > v->set_to_us)
		v->set_to_us = at_us + around;
}

/* A clock that was set is noticed within a second: another record may come before the one that says so. */
void verify_time_end(struct verify_log *c)
{
	if (c->fell)
		verify_tell_record(c, AUDIT_FINDING_TIME, c->fell_idx, c->fell_idx);
	c->fell = false;
}

void verify_time(struct verify_log *c, const struct audit_row *row, int64_t idx)
{
	const struct audit_value *ts = &row->v[COL_TS];
	uint64_t at_us = ts->present ? (uint64_t)ts->n : 0;

	if (c->head->id == AUDIT_SYSTEM_LOG && row->v[COL_KIND].present && row->v[COL_KIND].n == AUDIT_CLOCK_STEP) {
		note_step(c->v, at_us);
		c->fell = c->fell && !clock_was_set(c->v, c->fell_us);
		c->latest_us = at_us;
	}
	if (at_us + SLACK_US < c->latest_us) {
		verify_time_end(c);
		c->fell = !clock_was_set(c->v, at_us);
		c->fell_idx = idx;
		c->fell_us = at_us;
		c->latest_us = at_us;   /* told once, not for all that follow */
	}
	if (at_us > c->latest_us)
		c->latest_us = at_us;
}
