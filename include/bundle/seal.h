#ifndef BUNDLE_SEAL_H
#define BUNDLE_SEAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/audit.h"
#include "audit/finding.h"
#include "base/err.h"
#include "block/row.h"

/* Sealing: records of a log that are in blocks become a file of their own (SCALE 6, segment/segment.h), which counts
 * from the transaction on that puts it into the catalog; blocks below its end are leftovers then, which go in slices.
 *
 *	a thread that reads	audit_seal_next() -> which records; audit_seal_make() -> the file, verified
 *	the writer		audit_seal_put(), in a transaction; then, each in one of its own or together with others,
 *				audit_seal_drop() until nothing is left
 *	a start			audit_seal_sweep(): files that are in no catalog go; their records are in blocks still
 *
 * As with blocks (audit/fold.h), what is erased while a file waits does not come back by it (SC-301).  Folders are the
 * store's user's alone, and no links: what stands there under a name of ours and is in no catalog is nobody's. */

enum { AUDIT_SEAL_PATH_MAX = 80, AUDIT_SEAL_BLOCKS = 4, AUDIT_SEAL_GROUPS = 64 };       /* that one slice takes */

struct db;

struct audit_sealed_chapter { int64_t first, cnt, ts_min, ts_max; struct audit_bytes zone, sums; };
struct audit_sealed {
	int64_t log, from, to;          /* from <= idx < to */
	int64_t month;                  /* 202611: of the last record */
	int64_t ts_min, ts_max, bytes, erasures;
	uint8_t digest[32], root[32];
	char path[AUDIT_SEAL_PATH_MAX]; /* of the file, in the folder of the store */
	struct audit_sealed_chapter *chapter;   /* of its records (audit/fold.h); as many */
	size_t chapters;
};
void audit_sealed_fini(struct audit_sealed *sealed);

/* Which records of a log are the next to be sealed: those of a month that has ended at until_us, as far as they are
 * in blocks alone and a checkpoint covers them; fewer where a file has no room for more.  1: *ret has log, from, to,
 * month, path and erasures; 0: there are none.  db: a reader that sees forms. */
int audit_seal_next(struct db *db, int64_t log, int64_t until_us, struct audit_sealed *ret,
		    struct err *err) MUST_CHECK;
/* Bytes that their file takes at most, about: twice those of its blocks. */
int audit_seal_room(struct db *db, const struct audit_sealed *s, int64_t *ret, struct err *err) MUST_CHECK;
/* Their file, in its place in the store, durable and verified; what audit_seal_put() takes is in *s.  What stands
 * there and is in no catalog is removed first.  db: a reader that sees forms.  stop: ends it, from any thread,
 * ERR_CANCELLED; or NULL.  Of one that failed nothing is left.  ERR_CONFLICT: the catalog has this file elsewhere;
 * ERR_DENIED: a folder is not ours alone; errors of audit_segment_write(). */
int audit_seal_make(struct db *db, struct audit_sealed *s, const atomic_bool *stop, struct err *err) MUST_CHECK;
/* The file that was made goes, unless the catalog has it after all, or cannot be asked. */
void audit_seal_unmake(struct db *db, const struct audit_sealed *s);
/* Times and chapters of a file that was just made; puts them in place of those of its blocks. */
int audit_seal_chapters(struct db *db, const char *path, struct audit_sealed *sealed, struct err *err) MUST_CHECK;
int audit_seal_put_chapters(struct db *db, const struct audit_sealed *sealed, struct err *err) MUST_CHECK;
/* Whether the store has these chapters of the file, and no others. */
int audit_seal_chapters_same(struct db *db, const struct audit_sealed *made, bool *ret, struct err *err) MUST_CHECK;

/* What is wrong with a file that the catalog lists: it is not here, not whole, or another one; *ret_whole: it can be
 * read.  Its chapters are counted as well. */
int audit_seal_check(struct db *db, const char *origin, const struct audit_sealed *listed, audit_found_fn *found,
		     void *arg, bool *ret_whole, struct err *err) MUST_CHECK;

/* A file of the catalog, for who copies them (SC-807): the first one of all behind *ret, whose log and from are 0 and
 * -1 at first.  1; 0: there is none.  *ret has log, from, to, digest, root and path; origin: of the log, free() it.
 * ERR_CORRUPT: it is called as none is. */
int audit_sealed_next(struct db *db, struct audit_sealed *ret, char **ret_origin, struct err *err) MUST_CHECK;
/* Copies it: `to` is durable under its name, with folders that were missing, or is not there.  What is there already
 * is left, *ret_new false, when it is as long and as old as `from`; it is replaced when it is the same file from
 * before something of it was erased.  ERR_NOT_FOUND: `from` is not here; ERR_CONFLICT: `to` is another file; ERR_BUSY:
 * `from` changed meanwhile; ERR_CORRUPT and errors of segment_open(): it is not what the catalog lists; ERR_IO. */
int audit_sealed_copy(const char *from, const char *to, const char *origin, const struct audit_sealed *listed,
		      bool *ret_new, struct err *err) MUST_CHECK;

/* Writer thread, in its transaction: the row of the catalog and the record SEGMENT_SEAL, which says so.  ERR_CONFLICT:
 * it does not follow any more, or something was erased meanwhile; nothing was changed, and the file is of no use. */
int audit_seal_put(struct audit_logs *logs, struct db *db, const struct audit_sealed *sealed,
		   struct err *err) MUST_CHECK;
/* Deletes the next blocks of a log that its files have. */
int audit_seal_drop(struct db *db, int64_t log, bool *ret_more, struct err *err) MUST_CHECK;
/* Whether there are any. */
int audit_seal_left(struct db *db, int64_t log, bool *ret, struct err *err) MUST_CHECK;
/* 1: the catalog has a file of that path, of whatever records. */
int audit_seal_listed(struct db *db, const char *path, struct err *err) MUST_CHECK;
/* Makes the folder, so that who may read nothing else afterwards can keep it, and removes files of the store there that
 * nobody finished, or that are in no catalog.  Links are not followed.  Nobody makes one meanwhile.  *ret_n: how many
 * went. */
int audit_seal_sweep(struct db *db, const char *store, size_t *ret_n, struct err *err) MUST_CHECK;

#endif
