#ifndef AUDIT_KEEP_H
#define AUDIT_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/audit.h"
#include "base/err.h"

/* Jobs that take something away: pruning the oldest records of a log, erasing payloads.  A record of the intent is
 * durable before anything goes, the job is driven to its end in slices, also by the next start, and a record says when
 * it is done (AUDIT A-305).  Writer thread, inside a transaction, unless said otherwise. */

#define AUDIT_SLICE 64                  /* rows of one step: calls come in between */
#define AUDIT_CUT_UNIT 256              /* a cut at a multiple keeps one hash for each level */
#define AUDIT_PEAKS_MAX 63

struct db;

/* The tree of a log's first records, from its tiles; any thread. */
struct audit_cut {
	int64_t log, at;                /* at: a multiple of AUDIT_CUT_UNIT, not beyond the log's size */
	uint8_t root[32], frontier[AUDIT_PEAKS_MAX][32];
	size_t peaks;                   /* of frontier */
	bool keep;                      /* for audit_cut_set(): sealed files in archives stay there */
};
int audit_cut_read(struct db *db, int64_t log, int64_t at, struct audit_cut *ret, struct err *err) MUST_CHECK;
/* Rows of the registry whose records are before the cut: vouch is appended for them, as often as it takes.  First. */
int audit_cut_rows(struct audit_logs *logs, struct db *db, const struct audit_cut *cut, const struct audit_event *vouch,
		   struct err *err) MUST_CHECK;
/* The log begins at the cut from now on; intent: the record of kind AUDIT_PRUNE with range, root and frontier,
 * just appended.  ERR_CONFLICT: a call that began before the cut still runs, or a sealed file lies around it; those
 * before it are in the catalog no more.  Blocks and rows go by the job, and so do files, unless they are kept. */
int audit_cut_set(struct audit_logs *logs, struct db *db, const struct audit_cut *cut,
		  const struct audit_receipt *intent, struct err *err) MUST_CHECK;

/* An intent: AUDIT_PRUNE, or AUDIT_ERASE with the field AUDIT_TAG_KEYS (all under these keys) or AUDIT_TAG_RANGE (these
 * records; from 0 up to itself: all that the tenant has). */
struct audit_job {
	int64_t tenant_id, log, idx; int kind;  /* idx, kind: of the intent */
	int64_t cursor;                 /* how far this process has come */
	bool begun;
	/* Rows and blocks are erased, and the log has sealed files: from the one that has the record `cursor` on, each is
	 * looked at (bundle/seal.h), outside of a transaction; then false, flush true. */
	bool files;
	/* audit_erase_flush() comes next, outside of a transaction; then false, flushed true */
	bool flush;
	bool flushed;
};
/* The record of kind AUDIT_ERASE that was just appended is to be done. */
int audit_erase_intend(struct db *db, const struct audit_receipt *intent, struct err *err) MUST_CHECK;
/* 1: the oldest that is not done, of a kind, or of any (0), behind *ret by log and idx, 0 at first; 0: none. */
int audit_job_next(struct db *db, int kind, struct audit_job *ret, struct err *err) MUST_CHECK;
/* One slice.  *ret_done: that was the last one, and the record that says so has been appended. */
int audit_job_step(struct audit_logs *logs, struct db *db, struct audit_job *job, bool *ret_done,
		    struct err *err) MUST_CHECK;
/* Before that: what the keys' file says was erased, and this store, put back from an older copy, does not know of,
 * is intended again.  Outside of a transaction. */
int audit_erase_replay(struct audit_logs *logs, struct db *db, struct err *err) MUST_CHECK;
/* All erasures that a stop interrupted, before calls are accepted, but for what is in sealed files; outside of
 * a transaction. */
int audit_erase_resume(struct audit_logs *logs, struct db *db, struct err *err) MUST_CHECK;

/* Texts of the dictionary and clear names that no record uses any more: reads all records. */
int audit_compact(struct audit_logs *logs, struct db *db, int64_t *ret_texts, int64_t *ret_names,
		  struct err *err) MUST_CHECK;

#endif
