#ifndef VERIFY_VERIFY_H
#define VERIFY_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/finding.h"
#include "base/err.h"

/* Verification: reading a whole store as somebody who trusts nothing in it (AUDIT 8).  Every byte is hostile, no stored
 * hash is believed: records are encoded and hashed anew, and whatever the store says of them is compared with that.
 *
 * audit_evidence (audit/finding.h) is what a verifier brings along: pinned keys, the signer's state, checkpoints from
 * outside, keys of payloads; auditor/evidence.h reads it from files.  What is found is told by a function of the
 * caller, finding by finding, and summed up in audit_coverage.
 *
 * Threads: any, with a connection of its own, for as long as it takes.  Beside it a second one checks the file's
 * indexes (src/verify/integrity.c), and as many others as were asked for read and hash records (units/units.h): what is
 * found, and in which order, is the same with any number of them.  The server may write meanwhile: a log is read as far
 * as its head said at first.
 *
 * A walk: toolcrib-verify STORE gathers evidence -> audit_verify_with() -> each log record by record past the steps of
 * src/verify/verify.c -> findings are printed as they come -> the exit status is made from the coverage. */

#define AUDIT_VERIFY_OPEN_MAX (1u << 20)        /* begins without an end that pairing keeps in mind, of one log */

#define AUDIT_VERIFY_STEP 4096

/* The whole store by one read-only connection, one page of records in a read transaction at a time; memory does
 * not grow with the records.  tenant_id > 0: that tenant's log alone, and nothing of others.  found() for each
 * finding, runs of neighbours as one.  0 also with findings; an error only when the store could not be read. */
struct db;
struct str;
int audit_verify_with(struct db *db, int64_t tenant_id, const struct audit_evidence *with, audit_found_fn *found,
		      void *arg, struct audit_coverage *ret, struct err *err) MUST_CHECK;

/* --- what one verification leaves to the next (SC-704, decision 0066) */

/* The state of all steps, as bytes: with it a later verification reads only what came since.  Whoever keeps it sees to
 * it that nobody else can write it (auditor/mark.h). */
struct verify_range { int64_t log, from, to; };         /* records from <= idx < to */
struct verify_marking {
	const void *base; size_t base_len;      /* of one that ended; NULL: there is none */
	const void *way; size_t way_len;        /* of one that was cut off, which goes on now; NULL */
	void (*opened)(void *arg);      /* the logs come now: what was found before, going on finds again; NULL */
	/* Is it time to keep what there is?  Asked each AUDIT_VERIFY_STEP records; NULL: never. */
	bool (*due)(void *arg);
	void (*keep)(void *arg, const void *p, size_t len);     /* with due */
	void (*unread)(void *arg, int64_t log); /* it could not be read: what base has of it stays; NULL */
	void *arg;
	struct str *ret;                /* the state at the end */
	/* Of what base has: records that are read again, by log and then by index; and whether the indexes are compared. */
	const struct verify_range *again; size_t nagain;
	bool indexes;
};
/* Like audit_verify_with(), of the whole store.  ERR_INVALID: base or way is of another store, or not to be used any
 * more; ERR_CORRUPT: it is malformed. */
int audit_verify_marked(struct db *db, const struct audit_evidence *with, const struct verify_marking *mark,
			audit_found_fn *found, void *arg, struct audit_coverage *ret, struct err *err) MUST_CHECK;
/* How far each log was read: 0, or what fn returned; ERR_CORRUPT. */
typedef int verify_size_fn(void *arg, int64_t log, int64_t from, int64_t size);
int verify_state_sizes(const void *p, size_t len, verify_size_fn *fn, void *arg, struct err *err) MUST_CHECK;

/* No verification keeps more requests, versions and changes of a policy in mind than n (SIZE_MAX: as many as ever);
 * what is there beyond is NOT_CHECKED. */
FOR_TESTS void verify_approvals_bound(size_t n);

#endif
