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
 * As with blocks (audit/fold.h), what is erased while a file waits does not come back by it (SC-301); of a log whose
 * erasures are not done none is put.  Folders are the
 * store's user's alone, and no links: what stands there under a name of ours and is in no catalog is nobody's. */

enum { AUDIT_SEAL_PATH_MAX = 512, AUDIT_SEAL_BLOCKS = 4, AUDIT_SEAL_GROUPS = 64 };       /* that one slice takes */
enum { AUDIT_SEAL_FOUND_MAX = 128 };    /* findings of one file that are told */

struct audit_erased;
struct db;

struct audit_sealed_chapter { int64_t first, cnt, ts_min, ts_max; struct audit_bytes zone, sums; };
struct audit_sealed {
	int64_t log, from, to;          /* from <= idx < to */
	int64_t month;                  /* 202611: of the last record */
	int64_t ts_min, ts_max, bytes, erasures;
	uint8_t digest[32], root[32];
	char path[AUDIT_SEAL_PATH_MAX]; /* of the file, in the folder of the store, or absolute, in an archive */
	struct audit_sealed_chapter *chapter;   /* of its records (audit/fold.h); as many */
	size_t chapters;
	int64_t set_by, moved_by;       /* of a row: its records; moved_by: -1, there is none */
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
/* Puts times and chapters of a file that was just made in place of those of its blocks. */
int audit_seal_put_chapters(struct db *db, const struct audit_sealed *sealed, struct err *err) MUST_CHECK;
/* Whether the store has these chapters of the file, and no others. */
int audit_seal_chapters_same(struct db *db, const struct audit_sealed *made, bool *ret, struct err *err) MUST_CHECK;

/* A row of the catalog as verification reads it; what is no path or digest reads as none. */
struct db_stmt;
void audit_sealed_row(struct db_stmt *st, int64_t log, struct audit_sealed *ret);
/* Whether the row is what the fields of its record say; moved: that says where the file is. */
bool audit_sealed_said(const struct audit_sealed *row, const void *ext, size_t len, bool moved);
/* What is wrong with files that the catalog lists: one is not here, not whole, or another one; it does not begin where
 * the one before it ends.  That one is not here which its record moved to an archive is a gap.  Chapters are counted
 * as well.  So many threads read, the caller's among them, fewer where there cannot be others; what is told is the
 * same, in the order of put.  Of one file at most AUDIT_SEAL_FOUND_MAX findings are told, the last of which says how
 * many there were more.  One thread calls:
 *
 *	c = audit_seal_checks_new(db, threads)
 *	while it is not full and there is another one: audit_seal_checks_put()
 *	audit_seal_checks_next() tells of the first one, until it is 0 */
struct audit_seal_checks;
/* What one verification leaves to the next (SC-705, decision 0143): files that were whole, ascending by log and place.
 * One whose row still says all that it said then is opened alone: it is as large as that says, and says the same of
 * itself; else it is looked at as any other. */
struct audit_seal_whole { int64_t log, from; uint8_t row[32]; };
struct audit_seal_known { struct audit_seal_whole *v; size_t n, cap; };
struct str;
struct unpack;
void audit_seal_known_save(const struct audit_seal_known *known, struct str *to);
void audit_seal_known_load(struct audit_seal_known *ret, struct unpack *in);    /* into an empty one, or in->bad */
void audit_seal_known_fini(struct audit_seal_known *known);
struct audit_seal_checked {
	int64_t log;
	bool follows;                   /* it begins where the one before it ends */
	bool whole, archived;           /* it can be read; it is in an archive */
};
/* db: a reader.  was: of an earlier verification; now: gets those of this one.  All borrowed. */
struct audit_seal_checks *audit_seal_checks_new(struct db *db, unsigned threads, const struct audit_seal_known *was,
						struct audit_seal_known *now);
void audit_seal_checks_free(struct audit_seal_checks **checks);
bool audit_seal_checks_full(const struct audit_seal_checks *checks);
/* Not while it is full.  end: where the log's file before it ends, or where the log begins.  again: it is looked at
 * also when it is known. */
void audit_seal_checks_put(struct audit_seal_checks *checks, const char *origin, const struct audit_sealed *listed,
			   int64_t end, bool again);
/* 1; 0: there is none; or an error of reading the store. */
int audit_seal_checks_next(struct audit_seal_checks *checks, audit_found_fn *found, void *arg,
			   struct audit_seal_checked *ret, struct err *err) MUST_CHECK;

/* A file of the catalog, for who copies them (SC-807): the first one of all behind *ret, whose log and from are 0 and
 * -1 at first.  1; 0: there is none.  *ret has log, from, to, digest, root and path; origin: of the log, free() it.
 * ERR_CORRUPT: it is called as none is. */
int audit_sealed_next(struct db *db, struct audit_sealed *ret, char **ret_origin, struct err *err) MUST_CHECK;
/* Copies it: `to` is durable under its name, with folders that were missing, or is not there.  What is there already
 * is left, *ret_new false, when it is as long and as old as `from`; it is replaced when it is the same file from
 * before something of it was erased.  ERR_NOT_FOUND: `from` is not here; ERR_CONFLICT: `to` is another file; ERR_BUSY:
 * `from` changed meanwhile; ERR_CORRUPT and errors of segment_open(): it is not what the catalog lists; ERR_IO.
 * stop: ends it, from any thread, ERR_CANCELLED; or NULL. */
int audit_sealed_copy(const char *from, const char *to, const char *origin, const struct audit_sealed *listed,
		      const atomic_bool *stop, bool *ret_new, struct err *err) MUST_CHECK;

/* Moving (SC-802; decision 0089).  A copy is made, durable and compared with the catalog, by a thread that reads; then
 * the writer says in one transaction, with record SEGMENT_MOVE, that this is the file; then the original goes.  Who
 * dies in between has the original, or the copy and the original, and nothing that was half copied has the name of a
 * file.
 *
 * The next file behind *ret in the folder of the store whose records are all older, of a log (0: of any but the
 * system's, which a start reads).  1: as audit_sealed_next(), and *ret has bytes and erasures; 0: there is none. */
int audit_archive_next(struct db *db, int64_t log, int64_t before_us, struct audit_sealed *ret, char **ret_origin,
		       struct err *err) MUST_CHECK;
/* Its copy in an archive: `to` says where.  floor: bytes that have to stay free there.  ERR_UNREACHABLE: the archive is
 * not here; ERR_DENIED: the log's folder in it is not ours alone; ERR_LIMIT: no room; errors of audit_sealed_copy(). */
int audit_archive_copy(struct db *db, const char *archive, const struct audit_sealed *s, const char *origin,
		       uint64_t floor, const atomic_bool *stop, char to[AUDIT_SEAL_PATH_MAX], struct err *err) MUST_CHECK;
/* Writer thread, in its transaction: the file is at `to` from now on, a path as the catalog has them.  ERR_CONFLICT:
 * something was erased or pruned meanwhile, or is to be. */
int audit_moved_put(struct audit_logs *logs, struct db *db, const struct audit_sealed *s, const char *to,
		    struct err *err) MUST_CHECK;
/* Later, when nobody reads by a catalog of before: originals of files that are in archives go, those whose copy is
 * there.  *ret_n: how many went. */
int audit_archive_clean(struct db *db, size_t *ret_n, struct err *err) MUST_CHECK;

/* What pruning leaves in an archive (SC-802): files of a log from the record `from` on, one behind the other, that end
 * at or before `to`, each read and compared with the catalog.  *ret_to: where the last one ends; root: the log's tree
 * there; digest: SHA-256 of their digests, in their order.  ERR_NOT_FOUND: what begins at `from` is in no archive, or
 * does not end by then; ERR_UNREACHABLE, ERR_CORRUPT: one is not here, or is not what the catalog says. */
int audit_archive_kept(struct db *db, int64_t log, int64_t from, int64_t to, int64_t *ret_to, uint8_t root[32],
		       uint8_t digest[32], struct err *err) MUST_CHECK;

/* The other way: a file of any name, from anywhere, is copied into the folder of the store, under a name that a start
 * removes; *ret is its row, *ret_origin its log's.  ERR_NOT_FOUND: it is of no row; ERR_CONFLICT: the row's file is
 * here; ERR_CORRUPT: it is not what the row says; ERR_INVALID: it is no sealed file. */
#define AUDIT_ATTACH_TMP FORMS_FOLDER "/attach.tmp"
int audit_attach_copy(struct db *db, const char *file, uint64_t floor, const atomic_bool *stop,
		      struct audit_sealed *ret, char **ret_origin, struct err *err) MUST_CHECK;
/* Then what was erased since it was copied away goes from it, and it takes its name: `to`, for audit_moved_put(). */
int audit_attach_place(struct db *db, const struct audit_sealed *s, const char *origin, struct audit_erased *erased,
		       uint64_t floor, const atomic_bool *stop, char to[AUDIT_SEAL_PATH_MAX], struct err *err) MUST_CHECK;

/* Erasing in sealed files (SC-803, SC-804), for jobs (audit/keep.h) whose rows and blocks are done.  A file is looked
 * at, and made anew beside itself as NAME.tmp, by a thread that reads; its own place it takes in a transaction of the
 * writer's.  Who dies in between has the old file, or the new one, and the job is still to be done.  One at a time.
 *
 * The next file of a log that has a record from `at` on; in it that goes which erasures of the log that are not done
 * name.  1, and ret->to is where the next one begins, also with an error below; 0: there is none, ret->to is 0.
 * *ret_made: it has some of it, and was made anew; ret->bytes: 0, it cannot have any.  floor: bytes of the file system
 * that are for calls.  stop: as above.  ERR_UNREACHABLE: it is not here, or cannot be opened; ERR_CORRUPT, and errors
 * of segment_open(): it is not what the catalog lists; ERR_LIMIT: no room; ERR_DENIED: the folder is not ours alone. */
int audit_sealed_erase(struct db *db, int64_t log, int64_t at, uint64_t floor, const atomic_bool *stop,
		       struct audit_sealed *ret, bool *ret_made, struct err *err) MUST_CHECK;
/* Writer thread, in its transaction: one that was made takes its place, unless the catalog has none there any more;
 * that says how large it is, also of one that was made before a death.  ERR_UNREACHABLE: it cannot, and is gone.  Then,
 * by whoever reads, that place is made durable: ERR_UNREACHABLE. */
int audit_sealed_erase_put(struct db *db, const struct audit_sealed *s, bool made, struct err *err) MUST_CHECK;
int audit_sealed_erase_sync(struct db *db, const struct audit_sealed *s, struct err *err) MUST_CHECK;

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
