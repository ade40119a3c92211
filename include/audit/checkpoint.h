#ifndef AUDIT_CHECKPOINT_H
#define AUDIT_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/crypto.h"
#include "base/err.h"
#include "tlog/tree.h"

/* Signed checkpoints as the store has them (AUDIT A-705): what is due, taking it down once it is signed, and finding it
 * again.  Who signs is not this module's matter. */

struct audit_logs;
struct db;
struct str;

/* A log as it was when the beat was made.  leaf: those from the size on that the beat before had, when they are few, so
 * that the proof of its growth reads nothing; else NULL.  Of more most are whole tiles, which are read by their hashes:
 * what is left is less than these. */
#define AUDIT_FRESH_MAX 1024
struct audit_head {
	int64_t log, tenant_id;
	char *origin;
	struct tree tree;
	uint64_t from;
	uint8_t (*leaf)[TREE_HASH];
};
struct audit_beat {
	struct audit_head *head; size_t nhead;
	size_t left;                    /* logs of tenants that max left out */
	uint64_t ts;
	bool owed;                      /* a log has grown that no logs.commit says yet */
};
void audit_beat_fini(struct audit_beat *b);
/* Which heads logs.commit says now: none; of all logs that have grown since the last one; of all that have grown since
 * the last one that said all, so that an epoch ends with one record that holds each of its logs. */
enum audit_saying { AUDIT_SAY_LATER, AUDIT_SAY_GROWN, AUDIT_SAY_ALL };
struct audit_beat_opt {
	size_t max;                     /* logs of tenants that are signed, those first that wait longest */
	enum audit_saying say;
	bool always;                    /* there is a logs.commit also when it has no heads to say */
	const uint8_t *policies;        /* AUDIT_POLICIES_SIZE bytes of audit/second.h that it says, or NULL */
};
/* In the writer's open transaction: what was not signed yet, and logs.commit.  Heads of those are due then, and of all
 * that are said: nothing is signed that table head does not know. */
int audit_beat(struct audit_logs *logs, struct db *db, const struct audit_beat_opt *opt, struct audit_beat *ret,
	       struct err *err) MUST_CHECK;
/* Nobody knows any more which heads a logs.commit has said: the next one says all. */
void audit_heads_forget(struct audit_logs *logs);
/* Then the system log, as it is now, if it is due: as the last head.  A beat without heads has nothing to sign. */
int audit_beat_system(struct audit_logs *logs, struct db *db, struct audit_beat *b, struct err *err) MUST_CHECK;
/* In a later transaction: the note of each head, in order; NULL = it was not signed.  Older ones that nobody needs
 * go: of this hour and epoch the one before, and, AUDIT_THIN_ROWS being looked at in a turn, those of tenants that are
 * older than a month and not the last of their epoch. */
#define AUDIT_THIN_US (30 * INT64_C(86400000000))
#define AUDIT_THIN_ROWS 64
struct audit_note { const char *p; size_t len; };
int audit_beat_store(struct audit_logs *logs, struct db *db, const struct audit_beat *b, const struct audit_note *notes,
		     int64_t epoch, struct err *err) MUST_CHECK;

/* fields.c: the second form of the heads in logs.commit, tag AUDIT_TAG_HEADS_ROOT.  Logs ascend. */
#define AUDIT_HEADS_MAX 1024            /* of one record */
#define AUDIT_HEAD_BYTES (4 + 8 + TREE_HASH)    /* of one log in form 1 */
#define AUDIT_HEADS_BYTES (AUDIT_HEADS_MAX * (5 + 10) + TREE_HASH)
struct audit_said { uint64_t log, size; };
/* The leaf of its entry, as form 1 would have it, in the tree of form 2. */
void audit_head_leaf(const struct audit_said *said, const uint8_t root[TREE_HASH], uint8_t ret[TREE_HASH]);
/* How many bytes. */
size_t audit_heads_write(const struct audit_said *said, size_t n, const uint8_t root[TREE_HASH],
			 uint8_t ret[AUDIT_HEADS_BYTES]);
/* ERR_INVALID: it is none, or not as audit_heads_write() writes it. */
int audit_heads_read(const uint8_t *p, size_t len, struct audit_said ret[AUDIT_HEADS_MAX], size_t *ret_n,
		     uint8_t ret_root[TREE_HASH]) MUST_CHECK;

/* A new epoch: its row, and epoch.start in the system log.  cert NULL: epoch 0. */
int audit_epoch_begin(struct audit_logs *logs, struct db *db, uint64_t n, const uint8_t public[SIGN_PUBLIC_SIZE],
		      const uint8_t cert[SIGN_SIZE], struct err *err) MUST_CHECK;
/* The key of all logs, which the store keeps beside the epochs'. */
int audit_log_key_set(struct db *db, const uint8_t public[SIGN_PUBLIC_SIZE], struct err *err) MUST_CHECK;
/* 1; 0: there is none */
int audit_log_key_get(struct db *db, uint8_t ret[SIGN_PUBLIC_SIZE], struct err *err) MUST_CHECK;
struct audit_epoch {
	uint64_t n, from_ts;
	uint8_t public[SIGN_PUBLIC_SIZE];
};
/* 1; 0: there is none */
int audit_epoch_newest(struct db *db, struct audit_epoch *ret, struct err *err) MUST_CHECK;

/* Keys in their text form, one in each line: of the logs and of the first epoch, or of all.  ERR_NOT_FOUND: there
 * are none. */
int audit_keys_print(struct db *db, bool all, struct str *ret, struct err *err) MUST_CHECK;
/* The system log's newest note.  1; 0: there is none. */
int audit_note_newest(struct db *db, struct str *ret, struct err *err) MUST_CHECK;

/* The logs as the writer sees them. */
struct audit_log_view {
	int64_t id, tenant_id, size;
	int64_t noted;                  /* size of the newest note, 0 = none */
	const char *origin;
};
typedef int audit_log_fn(void *arg, const struct audit_log_view *log, struct err *err); /* negative ends the walk */
int audit_logs_each(struct audit_logs *logs, audit_log_fn *fn, void *arg, struct err *err) MUST_CHECK;

/* The tree that head says a log has.  ERR_CORRUPT. */
int audit_head_tree(struct audit_logs *logs, struct db *db, int64_t tenant_id, struct tree *ret,
		    struct err *err) MUST_CHECK;
/* The newest checkpoint of at most that size: its tree into *ret.  1; 0: there is none, the tree is empty.
 * ERR_CORRUPT. */
int audit_cp_find(struct db *db, int64_t log, uint64_t at_most, struct tree *ret, struct err *err) MUST_CHECK;
/* Let a tree grow by the log's records up to size `to`, and since, if it is there, by the same leaves: by stored
 * leaves. */
int audit_grow(struct db *db, int64_t log, uint64_t to, struct tree *t, struct tree_consistency *since,
	       struct err *err) MUST_CHECK;
/* The same from the records themselves, which have to be as they were written (ERR_CORRUPT).  *ret_times: of the
 * first and the last of them; of none 0. */
struct audit_times { uint64_t first, last; int last_kind; };
int audit_grow_checked(struct db *db, int64_t log, const char *origin, uint64_t to, struct tree *t,
		       struct audit_times *ret_times, struct err *err) MUST_CHECK;
/* Time and kind of one record.  ERR_CORRUPT: there is none. */
int audit_at(struct db *db, int64_t log, int64_t idx, uint64_t *ret_ts, int *ret_kind, struct err *err) MUST_CHECK;

#endif
