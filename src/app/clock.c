/* The wall clock, each second.  Against the monotonic one: when it was set while the server runs, a record says so
 * (AUDIT 1605), and times that fall in the audit are explained.  And whether the kernel takes it for synchronised:
 * every record says that, and one of its own says that it changed (AUDIT 1606, FAULT F25). */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "mcp/mcp.h"
#include "writer/writer.h"

#include "app_int.h"

#define STEP_US 1000000                 /* less is drift, or a slow turn of the loop */

static int record(struct app *a, enum audit_kind kind, const char *text)
{
	struct audit_event ev;
	int rc;

	audit_event_init(&ev, kind, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.detail = text;
	rc = writer_audit(a->writer, &ev, NULL, NULL);
	if (rc < 0)
		log_warn(NULL, "the state of the clock could not be recorded kind=%s", audit_kind_name(kind));
	return rc;
}

/* A record and a line of what the kernel says now, with as many changes since the last one. */
static int tell(struct app *a, const struct clock_state *now, unsigned changes)
{
	const char *name = clock_sync_name(now->sync);
	char text[192], more[64] = "";

	if (changes > 1)
		(void)snprintf(more, sizeof(more), ", changed %u times since it was last said", changes);
	if (now->sync == CLOCK_UNKNOWN)
		(void)snprintf(text, sizeof(text), "%s: %s%s", name, strerror(now->why), more);
	else if (now->sync == CLOCK_UNSYNCED)
		(void)snprintf(text, sizeof(text), "%s, status 0x%04x%s", name, now->status, more);
	else
		(void)snprintf(text, sizeof(text), "%s, error at most %" PRIu64 " ms, status 0x%04x%s", name,
			       now->max_error_us / 1000,
			       now->status, more);
	if (now->sync == CLOCK_UNSYNCED)
		log_warn(NULL, "the clock is not synchronised, times of records may be wrong state=\"%s\"", text);
	else
		log_info(NULL, "the clock state=\"%s\"", text);
	return record(a, AUDIT_TIME_SYNC, text);
}

static void take(struct app *a, enum clock_sync sync)
{
	a->clock.sync = sync;
	writer_clock(a->writer, sync);
	metric_set(METRIC_clock_synchronised, sync == CLOCK_SYNCED);
}

/* The first change is told at once, what follows at most every APP_CLOCK_GAP_US: a clock on the edge must not fill
 * the log. */
static void check_sync(struct app *a)
{
	struct app_clock *c = &a->clock;
	const uint64_t mono_us = clock_mono_us();
	struct clock_state now;

	clock_state(&now);
	if (now.sync != c->sync) {
		take(a, now.sync);
		c->changes++;
		metric_inc(METRIC_clock_changes);
	}
	if (c->changes == 0 || (c->told_us && mono_us - c->told_us < APP_CLOCK_GAP_US))
		return;
	c->told_us = mono_us;
	if (tell(a, &now, c->changes) == 0)
		c->changes = 0;
}

static void check_step(struct app *a)
{
	int64_t offset = (int64_t)clock_wall_us() - (int64_t)clock_mono_us(), step = offset - a->clock.offset_us;
	char text[64];

	if (step > -STEP_US && step < STEP_US)
		return;
	a->clock.offset_us = offset;
	(void)snprintf(text, sizeof(text), "%+" PRId64 " ms", step / 1000);
	if (a->mcp)
		mcp_recheck(a->mcp, 0); /* what has expired by the clock as it is now */
	log_warn(NULL, "the clock was set by=\"%s\"", text);
	(void)record(a, AUDIT_CLOCK_STEP, text);
}

void app_clock_start(struct app *a)
{
	struct clock_state now;

	a->clock.offset_us = (int64_t)clock_wall_us() - (int64_t)clock_mono_us();
	clock_state(&now);
	take(a, now.sync);
	a->clock.changes = tell(a, &now, 0) < 0;
}

void app_clock_check(struct app *a)
{
	check_step(a);
	check_sync(a);
}
