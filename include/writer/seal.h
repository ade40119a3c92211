#ifndef WRITER_SEAL_H
#define WRITER_SEAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Sealing while a server runs (SCALE 6): records of months that have ended become files (bundle/seal.h).  A thread of
 * a lane of its own makes and verifies one file after the other; the writer puts each into the catalog, in a batch that
 * it commits anyway, then deletes the blocks behind it in slices.
 *
 * A pass goes over the logs, one after the other, until none has anything left.  What a log cannot have sealed, for
 * want of room or because a record is not as it was written, holds no other log up; the first reason is the pass's.
 * A file of a month that goes on has what is in blocks by then; the next one of the month begins behind it.
 *
 * Loop thread. */

enum { WRITER_SEAL_EVERY_S = 600 };     /* between two passes, also behind one that failed */

struct writer;
struct writer_seal_limits {
	bool on;                        /* false: leftovers of files go at the start, and files are made when told to */
	uint32_t after_s;               /* how long after its end a month is sealed */
	uint32_t hot;                   /* with so many records in blocks, months are that go on as well; 0: never */
};
/* Begins; writer_close() ends it.  limits NULL: nothing is done by itself. */
void writer_seal_start(struct writer *w, const struct writer_seal_limits *limits);

/* One pass now, behind one that is on: months that have ended at until_us, of all logs, or of a tenant's.  done: once,
 * not before the return; rc below 0: the first reason why a log was not sealed to its end, beside what was.  ERR_BUSY:
 * somebody waits for one already. */
struct writer_sealed { int64_t files, records, bytes; };
typedef void writer_seal_fn(void *arg, int rc, const struct writer_sealed *sealed, const struct err *err);
int writer_seal_now(struct writer *w, const char *tenant, uint64_t until_us, writer_seal_fn *done, void *arg,
		    struct err *err) MUST_CHECK;

/* For who has erased something and is about to say so: true: there is no file that is in no catalog; false: one is
 * being made, and will be thrown away, so ask again. */
bool writer_seal_yield(struct writer *w);

#endif
