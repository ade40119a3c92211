#ifndef VERIFY_ANCHORS_INT_H
#define VERIFY_ANCHORS_INT_H

#include "audit/checkpoint.h"

#include "verify_int.h"

/* What anchors.c and commits.c share: what logs.commit says, and marks, which are all that anybody says of a log. */

/* A logs.commit of form 2: leaves of its tree are made as the logs are read, which come in the order of its entries. */
struct heads {
	struct heads *next;             /* as they stand in the system log, newest first */
	int64_t idx;
	uint64_t epoch;
	size_t newest;                  /* of so many logs it is the newest one of its epoch; 0: it is not needed */
	size_t n, made;                 /* entries; leaves */
	bool lost;                      /* one log cannot be had as it was: nothing is compared */
	struct tree *tree;              /* of the leaves, from the first one to the last */
	uint8_t (*hint)[TREE_HASH];     /* what the notes of logs say that were pruned since, by entry; or NULL */
	uint8_t root[TREE_HASH];
	struct audit_said said[];
};

/* Roots that others say of a log, by size. */
struct mark {
	uint64_t size, epoch;           /* epoch: of logs.commit alone */
	bool known;                     /* a checkpoint from outside that a pinned key has signed */
	enum audit_finding_code code;
	struct heads *heads;            /* then `at`, and no root */
	union {
		uint8_t root[TREE_HASH];
		size_t at;
	};
};
struct marks { struct mark *v; size_t n, cap; };

/* What logs.commit says, the system log being read first; and when checkpoints were taken outside. */
struct verify_commits {
	struct map *logs;               /* struct marks by log */
	struct map *said;               /* struct said_last by log */
	struct heads *heads;            /* those of form 2 that are needed */
	struct audit_said *scratch;     /* AUDIT_HEADS_MAX */
	char *system;                   /* origin of the system log */
	int64_t count;                  /* how many logs the newest one counts */
	bool *used;                     /* of each checkpoint from outside: its log is there */
	int64_t receipt;                /* id of the row of anchor that the last anchor.receipt vouches for */
	/* When one was taken outside, as a record says that something signed covers; 0: not known.  Newer ones wait until
	 * they are covered. */
	uint64_t taken_us, waiting_us, waiting_size;
	bool met;                       /* there was an anchor.receipt */
};

struct mark *verify_mark_add(struct marks *m);
void verify_mark_save(const struct verify_commits *k, const struct mark *m, struct str *to);
enum { VERIFY_MARK_BYTES = 6 * 8 + TREE_HASH };         /* of one that was saved, at least */
struct mark verify_mark_load(const struct verify_commits *k, struct unpack *in);

/* anchors: checkpoints from outside. */
struct verify_commits *verify_commits_new(size_t anchors);
void verify_commits_free(struct verify *v);
/* A record of kind logs.commit. */
void verify_commits_note(struct verify_log *c, const struct audit_row *row, int64_t idx);
/* The system log has been read, and all that is needed is known: what it says of each log. */
int verify_commits_say(struct verify *v, struct err *err) MUST_CHECK;
/* One log has come to where it was.  The last one shows whether all were so. */
void verify_commits_give(struct verify_log *c, const struct mark *m, const uint8_t root[TREE_HASH]);
void verify_commits_save(const struct verify *v, struct str *to);
void verify_commits_load(struct verify *v, struct unpack *in);

#endif
