/* Room on the disk: what is free above the floor and not booked by calls that run (AUDIT A-211). */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/statvfs.h>

#include "base/log.h"
#include "ev/ev.h"

#include "writer_int.h"

uint64_t writer_room(const struct writer *w)
{
	uint64_t now = ev_now_us(w->loop);
	uint64_t taken = w->limits.space_floor + w->booked;
	struct wspace *space = w->space;
	struct statvfs fs;

	if (!space->at_us || now - space->at_us >= SPACE_AGE_US) {
		/* When the system does not say, the commit will. */
		space->free_bytes = statvfs(w->store, &fs) == 0 ? (uint64_t)fs.f_bavail * fs.f_frsize : UINT64_MAX;
		space->at_us = now;
	}
	return space->free_bytes > taken ? space->free_bytes - taken : 0;
}

/* AUDIT A-213: the crossing of a threshold, by its name. */
static int record_crossing(struct writer *w, bool worse, bool floor, uint64_t free_bytes)
{
	struct audit_event ev;
	char text[120];

	if (floor)
		(void)snprintf(text, sizeof text, "audit.space_floor: %" PRIu64 " bytes are free of %" PRIu64 " below which calls are refused",
			       free_bytes, w->limits.space_floor);
	else
		(void)snprintf(text, sizeof text, "audit.space_warn: %" PRIu64 " bytes are free, %s than %u %%", free_bytes,
			       worse ? "less" : "more", w->limits.space_warn);
	log_warn(NULL, "room on the disk of the store %s free=%" PRIu64, worse ? "shrinks" : "is back", free_bytes);
	audit_event_init(&ev, worse ? AUDIT_SPACE_LOW : AUDIT_SPACE_OK, 0);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.detail = text;
	return writer_audit(w, &ev, NULL, NULL);
}

void writer_watch_room(void *arg)
{
	struct writer *w = arg;
	struct wspace *space = w->space;
	struct statvfs fs;

	if (statvfs(w->store, &fs) == 0) {
		uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
		unsigned was = space->room, is = free_bytes < w->limits.space_floor ? ROOM_NONE :
			fs.f_bavail < fs.f_blocks / 100 * w->limits.space_warn ? ROOM_LOW : ROOM_ENOUGH;

		/* What finds no place in the queue is said at the next look. */
		if (is == was || record_crossing(w, is > was, is == ROOM_NONE || was == ROOM_NONE, free_bytes) == 0)
			space->room = is;
	}
	ev_timer_start(space->watch, SPACE_WATCH_MS * 1000);
}

int writer_state(const struct writer *w, const char **ret_reason)
{
	int rc = writer_refusal(w, ret_reason);

	if (rc == ERR_OK && w->held) {          /* AUDIT A-715 */
		rc = ERR_AUDIT;
		if (ret_reason)
			*ret_reason = w->held;
	}
	if (rc == ERR_OK && writer_room(w) == 0) {
		rc = ERR_AUDIT;
		if (ret_reason)
			*ret_reason = "too little space is left on the disk of the store";
	}
	return rc;
}

int writer_reserve(struct writer *w, size_t bytes)
{
	if (writer_refusal(w, NULL) != ERR_OK || w->held || wqueue_is_full(w->queue) || writer_room(w) < bytes)
		return ERR_AUDIT;
	w->booked += bytes;
	return 0;
}

void writer_release(struct writer *w, size_t bytes)
{
	w->booked -= bytes < w->booked ? bytes : w->booked;
}
