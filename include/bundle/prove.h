#ifndef BUNDLE_PROVE_H
#define BUNDLE_PROVE_H

#include <stdint.h>

#include "base/err.h"

struct db;
struct str;

/* The text of a proof (tlog/proof.h) that a record is in its tenant's log as the newest checkpoint has it, made from
 * the records themselves and the hashes of whole tiles (AUDIT A-410), and checked against that checkpoint before it is
 * given out.  *ret_size: of the log at that checkpoint.  ERR_CONFLICT: no checkpoint covers the record yet, or it has
 * been pruned; ERR_CORRUPT: the records do not give what was signed.  Any thread, with a reader. */
int audit_prove(struct db *db, int64_t tenant_id, int64_t idx, struct str *ret, uint64_t *ret_size,
		struct err *err) MUST_CHECK;

#endif
