#ifndef AUDITOR_MARK_H
#define AUDITOR_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/finding.h"
#include "base/err.h"
#include "verify/verify.h"

/* The mark of somebody who verifies a store again and again (SC-704 to SC-707): what the steps of the last
 * verification carry (verify/verify.h), when each range of records was read, and, of a verification that was cut off,
 * how far it came and what it had found.  A file of the auditor's own, 0600, never inside the store, replaced as a
 * whole, under a MAC whose key is a file as well.  What is in it is read strictly all the same.  One thread.
 *
 * A walk: mark_open() -> mark_begin() -> audit_verify_marked(), which keeps what there is now and then; mark_found()
 * for each finding -> mark_end(), and the file says what this verification has seen. */

#define MARK_FILE_MAX (1u << 29)        /* bytes */
#define MARK_FOUND_MAX (1u << 16)       /* findings of one that was cut off; with more it is kept no longer */
#define MARK_RANGES_MAX 256             /* of a log; the two that are nearest by time become one, of the older time */
#define MARK_KEEP_US 5000000            /* between two times that what there is is kept */

struct mark;
/* key NULL: path with .key behind it.  store: its directory or file, in which neither may be; NULL: whoever has the
 * store keeps the mark as well (decision 0098).  A mark that is not there is a new one, whose key is made when that is
 * not there either.  ERR_INVALID; ERR_CORRUPT: it was changed, or has another key; ERR_DENIED: others may
 * read it or its key. */
int mark_open(const char *path, const char *key, const char *store, struct mark **ret, struct err *err) MUST_CHECK;
void mark_free(struct mark **m);
/* A verification with a mark.  found: what one that was cut off had found, when the logs begin; kept: the mark has been
 * given how far it is; or NULL. */
struct mark_run {
	bool resume;                    /* of one that was cut off; false from mark_begin() on when there is none */
	uint64_t every_us;              /* between two times that what there is is kept */
	unsigned scrub;                 /* 30: a thirtieth of the old records, read longest ago, is read again; 0: none */
	audit_found_fn *found;
	void (*kept)(void *arg);
	void *arg;
	uint64_t made_us;               /* by mark_begin(): when the mark was made; 0: it is new */
};
/* What audit_verify_marked() takes; borrowed, as run is. */
const struct verify_marking *mark_begin(struct mark *m, struct mark_run *run);
/* Each finding, as it is told. */
void mark_found(struct mark *m, const struct audit_finding *f);
#define MARK_SCRUB_MAX 100              /* of scrub */
/* It came to its end.  *ret_oldest_us: how long ago the oldest of what it has seen was read.  Of a store that is
 * damaged the mark stays what it was. */
int mark_end(struct mark *m, const struct audit_coverage *sum, uint64_t *ret_oldest_us,
	     struct err *err) MUST_CHECK;

/* The bytes of a file, with any MAC, as mark_open() reads them: ERR_CORRUPT. */
FOR_TESTS int mark_try(const void *p, size_t len, struct err *err) MUST_CHECK;

#endif
