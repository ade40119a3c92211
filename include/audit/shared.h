#ifndef AUDIT_SHARED_H
#define AUDIT_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A store to which several nodes append (CLUSTER 3).  Writer thread.  A transaction that finds that another node was
 * faster fails as a whole with ERR_BUSY: undone and begun again, it comes behind that one. */

struct audit_logs;
struct db;

/* A transaction begins.  locks: heads are locked as they are met, so that nobody is faster: of what is not done
 * twice. */
void audit_shared_begin(struct audit_logs *logs, bool locks);
/* Behind that, before anything is appended: the logs of these tenants, 0 the system's, are met in the order in which
 * all nodes lock them, if one of them is contended or heads are locked. */
int audit_shared_meet_all(struct audit_logs *logs, const int64_t *tenant, size_t n, struct db *db,
			  struct err *err) MUST_CHECK;
/* What others have appended is known, but for logs that this transaction has met; all: also the trees of logs that this
 * process has not written to.  *ret_grew: there was something. */
int audit_shared_heads(struct audit_logs *logs, struct db *db, bool all, bool *ret_grew, struct err *err) MUST_CHECK;
/* What was signed for others is known. */
int audit_shared_notes(struct audit_logs *logs, struct db *db, struct err *err) MUST_CHECK;
/* Logs are not taken for contended any more. */
void audit_shared_eased(struct audit_logs *logs);
/* Logs that other nodes have made meanwhile are there. */
int audit_shared_logs(struct audit_logs *logs, struct db *db, struct err *err) MUST_CHECK;
/* When the oldest call began that has no end, wall clock; 0: none has none. */
int64_t audit_shared_since(const struct audit_logs *logs);
/* The name of this process in its records. */
const char *audit_boot(const struct audit_logs *logs);

#endif
