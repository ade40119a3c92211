#ifndef VERIFY_VERIFY_H
#define VERIFY_VERIFY_H

#include "audit/finding.h"
#include "base/err.h"

#include <stdint.h>

/* Reading a whole store as somebody who trusts nothing in it (AUDIT 8): every byte is hostile, no stored hash is
 * believed. */

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
