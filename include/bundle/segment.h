#ifndef BUNDLE_SEGMENT_H
#define BUNDLE_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/finding.h"
#include "base/err.h"

/* Sealed files (segment/segment.h): making one of what a store has of a log, and verifying one alone.  Making trusts
 * the store no more than verifying does: a record that is not as it was written ends it.  Verifying believes nothing
 * of the file that does not follow from its records, or from a key that the reader has.  Any thread.
 *
 * A walk: audit_segment_write() -> the file goes somewhere -> toolcrib-verify FILE.tcs -> audit_segment_verify(). */

struct db;

struct audit_segment {
	char origin[256];
	bool whole;                     /* nothing bad was found; else the others are what it says */
	int64_t from, to;               /* from <= idx < to */
	uint8_t digest[32];             /* over its blocks and texts */
	uint8_t before[32], root[32];   /* roots of the log's first `from` records, of its first `to` */
	uint64_t first_us, last_us;     /* least and greatest time of its records */
};
struct audit_segment_req {
	int64_t log, from, to;          /* multiples of SEGMENT_UNIT */
	const char *origin;
	const atomic_bool *stop;        /* ends it, looked at tile by tile: ERR_CANCELLED; or NULL */
};
/* A new file, durable on return but for its name; nothing is left of it after a failure.  db: a reader that sees forms.
 * ERR_CONFLICT: the file exists, or no checkpoint covers `to` yet; ERR_INVALID: no such range, or a record that blocks
 * cannot carry; ERR_LIMIT: too many records for one file; ERR_CORRUPT: one is not as it was written, or not there. */
FOR_TESTS int audit_segment_write(struct db *db, const struct audit_segment_req *req, const char *path,
				  struct err *err) MUST_CHECK;
/* Every byte is hostile; memory does not grow with the file.  Of `with` the keys count, and progress: the epochs of the
 * file have to lead from a pinned key to the note's, else a gap says that nobody vouches for them.  0 also with
 * findings.  Errors, when it is no sealed file that can be read: those of
 * segment_open() but ERR_CORRUPT, which is a finding. */
int audit_segment_verify(const char *path, const struct audit_evidence *with, audit_found_fn *found, void *arg,
			 struct audit_segment *ret, struct audit_coverage *sum, struct err *err) MUST_CHECK;
/* Whether files join, those that are whole (SC-709): of each log, the next one begins where the one before ends, with
 * the tree that it ends with.  Sorts them by log and place; findings go on top of sum, whose logs are counted. */
void audit_segment_join(struct audit_segment *v, size_t n, audit_found_fn *found, void *arg,
			struct audit_coverage *sum);

#endif
