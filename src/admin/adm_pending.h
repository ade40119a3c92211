#ifndef ADM_PENDING_H
#define ADM_PENDING_H

#include "admin_int.h"

/* New versions of definitions that wait for a second administrator (SEC S-740): tool pending, approve, reject, drift. */

/* Do they have to?  In force for all kinds, in the store, so that both roads of a command know. */
int adm_versions_wait(struct db *db, bool *ret, struct err *err) MUST_CHECK;

struct adm_pending {
	int64_t version, created_us;
	int state;                      /* of the tool, once it is approved */
	char actor[ADM_WHO_SIZE];       /* who made it: somebody else has to approve */
	uint8_t digest[32];
};
/* What waits of this tool: 1, or 0 for nothing. */
int adm_pending_find(struct db *db, int64_t tool_id, struct adm_pending *ret, struct err *err) MUST_CHECK;
/* This version waits from now on, in the place of another; with its record. */
int adm_pending_put(struct adm_call *c, struct db *db, struct audit_logs *logs, const struct adm_tool *tool,
		    const struct adm_pending *p, struct err *err) MUST_CHECK;
int adm_pending_drop(struct db *db, int64_t tool_id, struct err *err) MUST_CHECK;

/* adm_tool.c: another version and state, unless somebody was faster (ERR_CONFLICT). */
int adm_tool_set_version(struct db *db, const struct adm_tool *tool, int64_t version, int state, struct err *err) MUST_CHECK;
/* adm_diff.c: a stored version, by the rules of today. */
struct define_item;
/* adm_approval.c: by the policy for destructive acts. */
int adm_one_is_enough(struct db *db, bool *ret, struct err *err) MUST_CHECK;

/* adm_level.c, in a WRITER body: version `after` of a tool, which is stored, is to take the place of `before` (0: of none).
 * Asks for a second administrator when its own level comes to lie below that of the server or of any tenant (AUDIT A-909). */
int adm_level_check_version(struct adm_call *c, struct db *db, const struct adm_tool *tool, int64_t before, int64_t after,
			    struct err *err) MUST_CHECK;

#endif
