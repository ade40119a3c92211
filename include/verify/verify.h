#ifndef VERIFY_VERIFY_H
#define VERIFY_VERIFY_H

#include <stdint.h>

#include "audit/finding.h"
#include "base/err.h"

/* Verification: reading a whole store as somebody who trusts nothing in it (AUDIT 8).  Every byte is hostile, no stored
 * hash is believed: records are encoded and hashed anew, and whatever the store says of them is compared with that.
 *
 * audit_evidence (audit/finding.h) is what a verifier brings along: pinned keys, the signer's state, checkpoints from
 * outside, keys of payloads; verify/evidence.h reads it from files.  What is found is told by a function of the caller,
 * finding by finding, and summed up in audit_coverage.
 *
 * Threads: any, with a connection of its own, for as long as it takes; a second thread checks the file's indexes beside
 * it (src/verify/integrity.c).  The server may write meanwhile: a log is read as far as its head said at first.
 *
 * A walk: toolcrib-verify STORE gathers evidence -> audit_verify_with() -> each log record by record past the steps of
 * src/verify/verify.c -> findings are printed as they come -> the exit status is made from the coverage. */

#define AUDIT_VERIFY_OPEN_MAX (1u << 20)        /* begins without an end that pairing keeps in mind, of one log */

#define AUDIT_VERIFY_STEP 4096

/* The whole store by one read-only connection, one page of records in a read transaction at a time; memory does
 * not grow with the records.  tenant_id > 0: that tenant's log alone, and nothing of others.  found() for each
 * finding, runs of neighbours as one.  0 also with findings; an error only when the store could not be read. */
struct db;
int audit_verify_with(struct db *db, int64_t tenant_id, const struct audit_evidence *with, audit_found_fn *found,
		      void *arg, struct audit_coverage *ret, struct err *err) MUST_CHECK;
/* The same without any. */
FOR_TESTS int audit_verify(struct db *db, int64_t tenant_id, audit_found_fn *found, void *arg,
			   struct audit_coverage *ret, struct err *err) MUST_CHECK;

#endif
