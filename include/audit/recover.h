#ifndef AUDIT_RECOVER_H
#define AUDIT_RECOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

/* Begins that have no end, of a server that is gone or of one that runs on with them.  Writer thread. */

struct audit_logs;
struct db;

/* Calls by their ids: those that another process runs on with, and ends (OP-903). */
struct audit_calls { uint8_t (*id)[16]; size_t n; };
static inline bool audit_calls_have(const struct audit_calls *of, const uint8_t call[16])
{
	size_t i = 0;

	while (of && i < of->n && memcmp(of->id[i], call, sizeof(of->id[i])) != 0)
		i++;
	return of && i < of->n;
}
/* Append call.recovered for begins without an end (AUDIT A-104).  only false: at a start, for all but `some`, looking
 * from meta.open_from on; true: at any time, for those alone which are open. */
/* The same of another process by its name, where several share a store (audit/shared.h), from when its first such call
 * began.  On the writer's thread, in a transaction in which it was fenced. */
int audit_recover_node(struct audit_logs *logs, struct db *db, const char *boot, int64_t since_us, size_t *ret_count,
		       struct err *err) MUST_CHECK;
int audit_recover(struct audit_logs *logs, struct db *db, const struct audit_calls *some, bool only, size_t *ret_count,
		  struct err *err) MUST_CHECK;

#endif
