/* The wall clock against the monotonic one, each second: when it was set while the server runs, a record says so
 * (AUDIT 1605), and times that fall in the audit are explained. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/log.h"
#include "writer/writer.h"

#include "app_int.h"

#define STEP_US 1000000                 /* less is drift, or a slow turn of the loop */

void app_clock_start(struct app *a)
{
	a->clock_offset_us = (int64_t)clock_wall_us() - (int64_t)clock_mono_us();
}

void app_clock_check(struct app *a)
{
	int64_t offset = (int64_t)clock_wall_us() - (int64_t)clock_mono_us(), step = offset - a->clock_offset_us;
	struct audit_event ev;
	char text[64];

	if (step > -STEP_US && step < STEP_US)
		return;
	a->clock_offset_us = offset;
	(void)snprintf(text, sizeof(text), "%+" PRId64 " ms", step / 1000);
	log_warn(NULL, "the clock was set by=\"%s\"", text);
	audit_event_init(&ev, AUDIT_CLOCK_STEP, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.detail = text;
	if (writer_audit(a->writer, &ev, NULL, NULL) < 0)
		log_warn(NULL, "that could not be recorded");
}
