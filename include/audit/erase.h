#ifndef AUDIT_ERASE_H
#define AUDIT_ERASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Destroying what records hold beside themselves (AUDIT ).  No record is touched: leaves, trees and
 * signatures stay what they are.  Writer thread.  The caller asks whether a hold stands against it, sees to the second
 * administrator, and keeps the order: record 1906 (erase) durable first, with its range (AUDIT_TAG_RANGE) or its key
 * ids (AUDIT_TAG_KEYS), which is what verification goes by; then a job (audit/keep.h), whose steps are the functions
 * below; then 1907 (erase.done).  Each of them is idempotent: after a crash all are called again.
 *
 *	one record	audit_erase_record() for each index, at most AUDIT_ERASE_SLICE in a transaction
 *	one subject	audit_erase_keys() -> ids, for the record 1906
 *			audit_erase_destroy(ids), outside of a transaction
 *			audit_erase_slice(ids) until it says done, each in a transaction of its own
 *	one tenant	audit_erase_destroy_tenant(), outside of a transaction, then audit_erase_slice() with n = 0
 *	sealed files	audit_sealed_erase() of each (bundle/seal.h)
 *	in the end	audit_erase_flush(), outside of a transaction, until it does not say ERR_BUSY
 *
 * What they promise: after destroy the values, openings and clear names under those keys cannot be read again, from
 * this store or from any copy of it that was made without keys.db; after slices, files and flush their bytes are in no
 * file of the store. */

#define AUDIT_ERASE_SLICE 64            /* rows deleted in one transaction, so that calls go on in between */

struct audit_logs;
struct db;

/* Salt and ciphertext of one record: nothing of it can be opened or proved again.  *ret_had: there was something. */
FOR_TESTS int audit_erase_record(struct audit_logs *logs, struct db *db, int64_t tenant_id, int64_t idx, bool *ret_had,
		       struct err *err) MUST_CHECK;

/* Ids of the keys of a subject: of a principal by its pseudonym.  Ascending; the caller frees *ret.  Addresses and
 * clients are under the keys of the principal that they were first seen with, those of callers who were refused
 * under subject "". */
int audit_erase_keys(struct audit_logs *logs, int64_t tenant_id, const char *subject, int64_t **ret, size_t *ret_n,
		     struct err *err) MUST_CHECK;
/* Destroy keys, durably.  ERR_BUSY: done, but a reader keeps the log of keys.db; audit_erase_flush() sees to it. */
FOR_TESTS int audit_erase_destroy(struct audit_logs *logs, const int64_t *ids, size_t n, struct err *err) MUST_CHECK;
FOR_TESTS int audit_erase_destroy_tenant(struct audit_logs *logs, int64_t tenant_id, struct err *err) MUST_CHECK;

/* Delete the next rows of pay of records before `before`, and all of alias, that are under these keys (n = 0: all
 * of the log's). *cursor: 0 at first, then as the last call left it; it may be lost.  *ret_done: there are no
 * more. */
FOR_TESTS int audit_erase_slice(struct audit_logs *logs, struct db *db, int64_t tenant_id, const int64_t *ids,
				size_t n, int64_t before, int64_t *cursor, bool *ret_done, struct err *err) MUST_CHECK;

/* What records AUDIT_ERASE name: all under these keys, and all of records from <= idx < to.  Adds what the ext of the
 * one at idx does.  ERR_CORRUPT: nothing.  Any thread. */
struct audit_span { int64_t from, to; };
struct audit_erased { int64_t *keys; size_t nkeys; struct audit_span *span; size_t nspans; };
int audit_erased_add(struct audit_erased *e, int64_t idx, const void *ext, size_t len, struct err *err) MUST_CHECK;
void audit_erased_fini(struct audit_erased *e);

/* Both files' logs emptied into them.  ERR_BUSY: a reader was in the way for 2 ms of either; again later. */
int audit_erase_flush(struct audit_logs *logs, struct db *db, struct err *err) MUST_CHECK;

#endif
