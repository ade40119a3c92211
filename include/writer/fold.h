#ifndef WRITER_FOLD_H
#define WRITER_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Folding while a server runs (SCALE 6): rows that wait become blocks, and leftovers go.  A thread reads and makes one
 * proposal after the other; each rides on a batch that the writer commits anyway, with one slice of deletions.
 *
 *	fold_rows rows have come since the last round: all logs are folded up to the newest of them
 *	fold_age: a log whose oldest row has waited that long, and that has WRITER_FOLD_FEW, is folded
 *	plain_rows: leftovers that are not among so many newest rows go; all of them when room is short (SC-109)
 *
 * When more than twice fold_rows wait, the writer makes the proposals itself (SC-303); when more than eight times as
 * many do, calls are refused until it is less than four.  What waited at the start does not count for either.
 *
 * The first block of a store changes how it is read (forms/forms.h).  Who reads asks forms_see() before each use and
 * each page; the rows behind the first blocks stay for WRITER_FOLD_GRACE_S, or until the next start, so that who has
 * asked just before goes on with whole logs: no store begins that has so many of them that it would take longer.
 *
 * Loop thread. */

enum {
	WRITER_FOLD_FEW = 256,
	WRITER_FOLD_BEHIND = 2, WRITER_FOLD_REFUSE = 8,         /* times fold_rows */
	WRITER_FOLD_GRACE_S = 600,
	WRITER_FOLD_START_MAX = 1 << 20,        /* records that may wait in a store that was never folded */
};

struct writer;
struct writer_fold_limits {
	int64_t fold_rows, plain_rows;
	uint32_t fold_age_s;
};
/* Begins; writer_close() ends it. */
void writer_fold_start(struct writer *w, const struct writer_fold_limits *limits);
/* Why a log is not folded, the first one that was found; "" = all are. */
const char *writer_fold_stuck(const struct writer *w);

/* --- offline */

/* SC-305: all that waits becomes blocks and chapters, then the indexes that only rows need are dropped, while no server
 * runs.  Who calls holds the lock of the store.  It goes on where one that died has ended.  records false: nothing is
 * folded.  1: the store was not stopped; start and stop it first, so that calls which were open have their end.
 * ERR_LIMIT: there is not enough room; nothing was changed. */
struct writer_offline_way { void (*told)(void *arg, const char *what, int64_t done, int64_t of); void *arg; };
struct writer_offline {
	int64_t records;                /* that are in blocks now */
	unsigned indexes;               /* that are gone now */
	char stuck[640];                /* why a log was not folded to its end, the first one found; "" = all were */
};
int writer_fold_offline(const char *store, bool records, const struct writer_offline_way *way,
			struct writer_offline *ret, struct err *err) MUST_CHECK;

#endif
