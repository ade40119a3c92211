#ifndef PEOPLE_INT_H
#define PEOPLE_INT_H

#include "tenant/tenant.h"

#include "people/people.h"

/* What the commands on keys share. */

#define KEY_DAY_MS (24ull * 3600 * 1000)
#define KEY_TTL_DEFAULT_MS (90 * KEY_DAY_MS)    /* SEC S-307 */
#define KEY_TTL_MAX_MS (365 * KEY_DAY_MS)
#define KEY_TTL_MIN_MS 1000
#define KEY_LABEL_MAX 200

struct key_row {
	int64_t id, tenant_id, principal_id;
	char tenant[80], principal[80], pseudonym[32], accessor[32], label[KEY_LABEL_MAX + 1], parent[32];
	char *scopes, *cidr, *rules;    /* or NULL */
	uint64_t created_us, expires_us, revoked_us, last_used_us;      /* 0 = never */
	uint64_t not_before_us, rotated_us, old_until_us;
	uint64_t enrol_ttl_us;          /* 0: it enrols none */
	int64_t children;
	uint8_t hash[32];
	int principal_state, tenant_state;
	uint64_t suspended_us;          /* 0: it is not */
};
/* A row of the answer; ended: how much of the key's was ended, or NULL. */
struct mcp_ended;
/* A life in range, or ERR_LIMIT. */
int key_life(const struct command_call *c, const char *name, uint64_t def_ms, uint64_t *ret_ms,
	     struct err *err) MUST_CHECK;

/* SEC S-312: who manages a tenant has no right of administration or audit to give, and takes none over. */
#define SCOPES_OF_ADMINS (SCOPE_ADMIN | SCOPE_AUDIT_SELF | SCOPE_AUDIT_TENANT | SCOPE_AUDIT_PAYLOAD)

/* A key about to be written; texts NULL = none. */
struct key_terms {
	const char *label, *scopes, *cidr, *rules;
	uint64_t expires_us, not_before_us, enrol_ttl_us;       /* 0 = none */
	int64_t parent_id;                                      /* likewise */
};
/* Room for one more, the row, its record (cred.create), and what it changes in memory.  reason: beside the command, or
 * NULL. */
int key_insert(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *t,
		   const struct principal_row *p, const struct key_new *key, const struct key_terms *terms, const char *reason,
		   struct err *err) MUST_CHECK;
void put_new_key(struct reply *o, const struct key_new *key, const char *tenant, const char *principal,
		 uint64_t expires_us);

#endif
