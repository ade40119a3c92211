/* Room on the disk: what is free above the floor and not booked by calls that run (AUDIT A-211). */

#include "config.h"

#include <sys/statvfs.h>

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
