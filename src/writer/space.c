/* Room on the disk: what is free above the floor and not booked by calls that run (AUDIT A-211). */

#include "config.h"

#include <sys/statvfs.h>

#include "ev/ev.h"

#include "writer_int.h"

uint64_t writer_room(struct writer *w)
{
	uint64_t now = ev_now_us(w->loop);
	uint64_t taken = w->limits.space_floor + w->booked;
	struct statvfs fs;

	if (!w->space_at_us || now - w->space_at_us >= SPACE_AGE_US) {
		/* When the system does not say, the commit will. */
		w->space = statvfs(w->store, &fs) == 0 ? (uint64_t)fs.f_bavail * fs.f_frsize : UINT64_MAX;
		w->space_at_us = now;
	}
	return w->space > taken ? w->space - taken : 0;
}

int writer_reserve(struct writer *w, size_t bytes)
{
	if (writer_state(w, NULL) != ERR_OK || wqueue_is_full(w->queue) || writer_room(w) < bytes)
		return ERR_AUDIT;
	w->booked += bytes;
	return 0;
}

void writer_release(struct writer *w, size_t bytes)
{
	w->booked -= bytes < w->booked ? bytes : w->booked;
}
