#ifndef AUDIT_SHARED_H
#define AUDIT_SHARED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* A store to which several nodes append (CLUSTER 3).  Writer thread.  A transaction that finds that another node was
 * faster fails as a whole with ERR_BUSY: undone and begun again, it comes behind that one. */

struct audit_logs;
struct db;

/* A transaction begins.  locks: heads are locked as they are met, so that nobody is faster: of what is not done
 * twice. */
void audit_shared_begin(struct audit_logs *logs, bool locks);
/* Logs are not taken for contended any more. */
void audit_shared_eased(struct audit_logs *logs);
/* Logs that other nodes have made meanwhile are there. */
int audit_shared_logs(struct audit_logs *logs, struct db *db, struct err *err) MUST_CHECK;
/* When the oldest call began that has no end, wall clock; 0: none has none. */
int64_t audit_shared_since(const struct audit_logs *logs);
/* The name of this process in its records. */
const char *audit_boot(const struct audit_logs *logs);

#endif
