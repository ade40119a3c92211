#ifndef SUCCESSION_SUCCESSION_H
#define SUCCESSION_SUCCESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/finding.h"
#include "base/err.h"
#include "tlog/note.h"
#include "tlog/tree.h"

/* Logs that go on behind a restore, without records that the signer has signed (OPERATE OP-512, decision 0104).  The
 * tree goes on where the store was put back to, and is signed under another name from there on (succession_name()), so
 * that nothing is signed twice.  A record store.restore of the system log says of each such log what is lost, and a row
 * of table succession says it again, for whoever needs the name. */

struct audit_logs;
struct audit_row;
struct db;
struct signer_log;

struct succession {
	char origin[NOTE_NAME_MAX + 1];
	uint64_t n;                     /* of the name that begins */
	uint64_t size, lost;            /* where the log goes on; how many records the signer had signed of it */
	uint8_t root[TREE_HASH], lost_root[TREE_HASH];  /* of those trees */
	uint64_t epoch_from, epoch_to;  /* epochs that are lost with the records, if from <= to */
	int64_t idx;                    /* of its record */
};

/* Writer thread, in its transaction: record and row.  Sets idx. */
int succession_add(struct audit_logs *logs, struct db *db, struct succession *s, struct err *err) MUST_CHECK;
/* All rows, by origin and n, by any connection; negative ends the walk.  ERR_CORRUPT: a row is malformed. */
typedef int succession_fn(void *arg, const struct succession *s, struct err *err);
int succession_each(struct db *db, succession_fn *fn, void *arg, struct err *err) MUST_CHECK;
/* What AUDIT_TAG_LOST of a record has: n, size, lost, the epochs, 8 bytes each; both roots; the origin. */
#define SUCCESSION_BYTES (5 * 8 + 2 * TREE_HASH)
/* ERR_INVALID: it is none.  idx is left as it is. */
int succession_parse(const uint8_t *p, size_t len, struct succession *ret) MUST_CHECK;

/* --- what a verification asks */

/* In its thread: what was lost is told, each row has its record, and who is entitled to which name.  What is found is
 * handed to found(). */

struct successions;
int successions_open(struct db *db, audit_found_fn *found, void *arg, struct successions **ret,
		     struct err *err) MUST_CHECK;
void successions_free(struct successions **s);
/* A record of the system's log, in order. */
void successions_record(struct successions *s, const struct audit_row *row, int64_t idx, const char *system);
/* The system's log was read: NULL; or only one of a tenant is. */
void successions_end(struct successions *s, const char *origin);
/* Whether a checkpoint of this size may bear this name. */
bool successions_fit(const struct successions *s, const char *name, const char *origin, uint64_t size);
/* Somebody outside says that this was signed.  HOLDS: of the tree as it is; LOST: it lies in what is said to be lost;
 * BEYOND: it lies beyond that. */
enum succession_word { SUCCESSION_HOLDS, SUCCESSION_LOST, SUCCESSION_BEYOND };
enum succession_word successions_word(const struct successions *s, const char *name, uint64_t size,
				      const uint8_t root[TREE_HASH]);
/* The same; true: it holds, and there is something to compare.  What lies beyond is found, as of that code. */
bool successions_hold(const struct successions *s, enum audit_finding_code code, const char *name, uint64_t size,
		      const uint8_t root[TREE_HASH]);
/* Whether all epochs between these two were lost, so that they have no checkpoint. */
bool successions_epochs(const struct successions *s, uint64_t after, uint64_t before);

#endif
