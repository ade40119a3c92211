#ifndef AUDIT_FOLD_H
#define AUDIT_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/audit.h"
#include "base/err.h"

/* Folding: rows of a log, in the order of their index, become blocks (SCALE 6).  A block that was put counts from its
 * transaction on, and the rows that it was made of are leftovers then, which go in slices (SC-101).
 *
 *	a thread that reads	audit_folder_next() -> a proposal: one block, checked against the leaves of its rows (SC-203)
 *	the writer		audit_fold_put(), in a transaction; then, each in one of its own or together with others,
 *				audit_fold_drop() until nothing is left
 *	after a stop		audit_folder_left() says what may be dropped: what is in a block as it was in the row
 *
 * What an erasure takes away while a proposal waits does not come back by it: a proposal has the count of erasures that
 * it was made under, and is thrown away when that has moved (SC-301). */

enum {
	AUDIT_FOLD_RECORDS = 2048,      /* of one block, at most */
	AUDIT_FOLD_SLICE = 256,         /* rows that one drop takes, at most */
};

struct db;

/* Reading half.  db: a reader that sees tables, not forms (audit/forms.h); borrowed.  One thread. */
struct audit_folder;
struct audit_folder *audit_folder_new(struct db *db);
void audit_folder_free(struct audit_folder **folder);
/* Where rows of a log begin to count: behind its newest block, else with its first record.  *ret_waits: blocks of
 * before wait to be pruned, and nothing can be folded. */
int audit_folder_line(struct audit_folder *folder, int64_t log, int64_t *ret, bool *ret_waits,
		      struct err *err) MUST_CHECK;

/* One block and what is kept beside it; owned by who has it, any thread. */
struct audit_folded { int64_t log, first, cnt; };
/* The next block of a log from the rows above its newest one and below `to`; it ends where a tile ends if it is not
 * the last one that can be made.  1: *ret; 0: there is nothing to fold, or blocks of before wait to be pruned.
 * ERR_CORRUPT: a record is missing, or not as it was written; ERR_INVALID: format 1 cannot carry it (SC-204).  Then the
 * log is folded no further, and where says "log/2/idx/42". */
int audit_folder_next(struct audit_folder *folder, int64_t log, int64_t to, struct audit_folded **ret,
		      struct err *err) MUST_CHECK;
void audit_folded_free(struct audit_folded **folded);
/* The next proposal of its log begins behind this one, which is put before it: several go into one transaction. */
void audit_folder_go_on(struct audit_folder *folder, const struct audit_folded *folded);
/* Proposals until it lets go are of the store as it is now, and pages that one has read the next one has: of many logs
 * whose records came in turn each page has rows of each.  Not for long (SCALE SC-505).  What went before is put, or is
 * not: nobody goes on behind it. */
int audit_folder_hold(struct audit_folder *folder, struct err *err) MUST_CHECK;
int audit_folder_let_go(struct audit_folder *folder, int rc, struct err *err) MUST_CHECK;
/* The oldest leftovers of a log: 1: rows from *ret_from on and below *ret_to are in a block, each as it was; 0: there
 * are none.  ERR_CORRUPT: one is not, or its block cannot be read. */
int audit_folder_left(struct audit_folder *folder, int64_t log, int64_t *ret_from, int64_t *ret_to,
		      struct err *err) MUST_CHECK;

/* Writing half: writer thread, in its transaction. */

/* Puts the block.  Calls that have not ended are remembered in open_call (SC-307).  ERR_CONFLICT: it does not follow
 * any more, or something was erased meanwhile; nothing was changed, and another can be made. */
int audit_fold_put(struct audit_logs *logs, struct db *db, const struct audit_folded *folded,
		   struct err *err) MUST_CHECK;
/* Deletes the next rows of from <= idx < to, which a block has that was put, or of which audit_folder_left() said so,
 * that came no later than rec.id upto.  *ret_n: how many; less than a slice: there are no others. */
int audit_fold_drop(struct db *db, int64_t log, int64_t from, int64_t to, int64_t upto, int64_t *ret_n,
		    struct err *err) MUST_CHECK;

/* The block that has the record at cut begins there from now on, and so does what is kept beside it. */
int audit_fold_cut(struct db *db, int64_t log, int64_t cut, struct err *err) MUST_CHECK;

/* Rows that are appended while this is on wait for each other, and are inserted together (decision 0173) by
 * audit_logs_insert(): before the transaction ends, a savepoint begins, or anybody reads records.  When that fails,
 * records are missing that audit_append() took, and is_lost says so until the transaction is undone. */
void audit_logs_gather(struct audit_logs *logs, bool on);
int audit_logs_insert(struct audit_logs *logs, struct db *db, struct err *err) MUST_CHECK;
bool audit_logs_is_lost(const struct audit_logs *logs);
/* rec.id of the newest row, as the picture has it. */
int64_t audit_newest_row(const struct audit_logs *logs);

#endif
