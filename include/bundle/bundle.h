#ifndef BUNDLE_BUNDLE_H
#define BUNDLE_BUNDLE_H

#include <stdint.h>
#include <stdio.h>

#include "audit/finding.h"
#include "block/row.h"
#include "base/err.h"

/* Bundles (AUDIT A-1002): a range of a log as one tar file that verifies without the store.  Members: records.jsonl
 * (each record's bytes in base64, its leaf, a readable view), tree.json (hashes at both ends), notes.json, epochs.json,
 * manifest.json.  Payloads are not in it.
 *
 * Writing reads the store and trusts it no more than verifying does: a record that is not as it was written ends it.
 * Reading trusts nothing that does not follow from something else in the file, or from a key that the reader has.  A
 * bundle that was found whole can be joined to a store: are these the records that a verified log had there?  Any
 * thread; memory does not grow with the range.
 *
 * A walk: toolcrib audit bundle -> audit_bundle_write() -> somebody takes the file away -> toolcrib-verify --bundle
 * FILE -> audit_bundle_verify(). */

#define AUDIT_BUNDLE_MAX (8ull << 30)           /* bytes of a bundle, to write and to read */
#define AUDIT_BUNDLE_LINE_MAX (1u << 20)        /* of a line of records.jsonl */
#define AUDIT_BUNDLE_PART_MAX (8u << 20)        /* of any other member */
#define AUDIT_BUNDLE_PEAKS_MAX 63

struct db;
struct str;

struct audit_bundle {
	char origin[256];
	int64_t from, to;               /* from <= idx < to */
	uint8_t sha256[32];             /* of the file */
	uint8_t root[32], frontier[AUDIT_BUNDLE_PEAKS_MAX][32]; /* of the log's first `to` records */
	size_t peaks;
};
struct audit_bundle_req {
	int64_t log, from, to;
	const char *origin;
	const char *query;              /* why and by whom it was made, for people */
};
/* Write it to an empty file that can be read and sought.  A reader's connection, any thread.  ERR_CORRUPT: a record is
 * not as it was written, or not there. */
int audit_bundle_write_to(struct db *db, const struct audit_bundle_req *req, FILE *f, struct audit_bundle *ret,
			  struct err *err) MUST_CHECK;
/* Write a new file, durable on return; nothing is left of it after a failure.  ERR_CONFLICT: the file exists. */
int audit_bundle_write(struct db *db, const struct audit_bundle_req *req, const char *path, struct audit_bundle *ret,
		       struct err *err) MUST_CHECK;
/* Every byte is hostile; memory does not grow with the file.  Of `with` the keys count: the epochs of
 * the bundle have to lead from one of them to the signatures, else a gap says that nobody vouches for them.  NULL:
 * something else does, such as the store beside which it is checked.  0 also with findings; *ret is whole only when
 * none is bad.  An error only when the file cannot be read. */
int audit_bundle_verify(FILE *f, const struct audit_evidence *with, audit_found_fn *found, void *arg,
			struct audit_bundle *ret, struct audit_coverage *sum,
			struct err *err) MUST_CHECK;
/* Records of a log as plain rows, with what the views need beside them and the views, as a database that any SQLite
 * reads (SC-109): from <= idx < to, of a time (until_us 0: no end), and begins of their calls.  In a file without a
 * name in dir; *ret_fd is the caller's.  It reads what the log has at that moment, page by page.  ERR_LIMIT:
 * db_copy_new(). */
struct audit_unfold_req { int64_t log, tenant_id, from, to; uint64_t since_us, until_us; const char *dir; };
struct audit_unfolded { uint64_t records, begins; };    /* of the time; of calls that ended in it, before it */
int audit_unfold(struct db *db, const struct audit_unfold_req *req, int *ret_fd, struct audit_unfolded *ret,
		 struct err *err) MUST_CHECK;
/* Whether the records of a verified bundle are those that a verified store had at its place. */
int audit_bundle_join(struct db *db, const struct audit_bundle *b, audit_found_fn *found, void *arg,
		      struct audit_coverage *sum, struct err *err) MUST_CHECK;

/* The text of a proof (tlog/proof.h) that a record is in its tenant's log as the newest checkpoint has it, made from
 * the records themselves and the hashes of whole tiles (AUDIT A-410), and checked against that checkpoint before it is
 * given out.  *ret_size: of the log at that checkpoint.  ERR_CONFLICT: no checkpoint covers the record yet, or it has
 * been pruned; ERR_CORRUPT: the records do not give what was signed.  Any thread, with a reader. */
int audit_prove(struct db *db, int64_t tenant_id, int64_t idx, struct str *ret, uint64_t *ret_size,
		struct err *err) MUST_CHECK;

/* The text of a proof that the log goes on behind its first `from` records, from the newest checkpoint of the log (RFC
 * 9162, 2.1.4): the body of a request to a witness (C2SP tlog-witness), which has that checkpoint at its end.  It was
 * checked against it.  from_root: of the first `from` records as they are here; zeros of none, which need no hashes.
 * tenant_id 0: the system's log.  ERR_INVALID: the checkpoint covers fewer; ERR_CONFLICT: there is none, or what the
 * size needs has been pruned; ERR_CORRUPT, threads: as audit_prove(). */
struct audit_growth { char origin[256]; uint64_t from, size; size_t n; uint8_t from_root[32]; };
int audit_prove_growth(struct db *db, int64_t tenant_id, uint64_t from, struct str *ret, struct audit_growth *ret_what,
		       struct err *err) MUST_CHECK;

/* What a proof proves: a record of a log that had so many when the checkpoint was signed.  row borrows record, which
 * free() takes. */
struct audit_proved { char origin[256]; uint64_t index, size; struct audit_row row; uint8_t *record; };
/* Of `with` the keys count.  ERR_INVALID, ERR_LIMIT: what is wrong with it. */
int audit_proof_check(const char *text, size_t len, const struct audit_evidence *with, struct audit_proved *ret,
		      struct err *err) MUST_CHECK;
/* Whether the record commits to this value, by the opening that audit payload gives. */
bool audit_proof_opens(const struct audit_proved *p, unsigned ctag, const uint8_t opening[32], const void *value,
		       size_t len);

/* The page that checks what audit_prove() and audit_prove_growth() made, in a browser: one file, contrib/verify/. */
extern const char bundle_verifier[];

#endif
