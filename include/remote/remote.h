#ifndef REMOTE_REMOTE_H
#define REMOTE_REMOTE_H

#include "toolset/toolset.h"
#include "command/command.h"

#include "upstream/upstream.h"
#include "registry/registry.h"

/* What the commands about upstreams share: adm_upstream.c (the upstreams themselves), adm_upstream_sync.c (what they
 * have). */

enum { ADM_UPSTREAM_ENABLED = 1, ADM_UPSTREAM_DISABLED = 2, ADM_UPSTREAM_REMOVED = 3 };
enum adm_remote_state { REMOTE_PINNED = 1, REMOTE_CHANGED, REMOTE_GONE, REMOTE_NEW, REMOTE_REFUSED };

struct adm_upstream {
	int64_t id, synced_us, created_us;
	int state;
	char name[80], prefix[UPSTREAM_PREFIX_MAX + 1], uri_prefix[UPSTREAM_PREFIX_MAX + 1], revision[16], server[128];
	uint8_t digest[32];
	char *definition;               /* free() it */
};
/* By name; removed ones are not found.  ERR_NOT_FOUND with "did you mean". */
int adm_find_upstream(struct db *db, const char *name, struct adm_upstream *ret, struct err *err) MUST_CHECK;

/* The same: 1 = found, 0 = there is none. */
int adm_find_upstream_row(struct db *db, const char *name, struct adm_upstream *ret, struct err *err) MUST_CHECK;

struct adm_remote {                     /* a row of upstream_tool, and the tool, prompt or resource made of it */
	int64_t id, tool_id;            /* tool_id 0: never accepted */
	enum adm_remote_state state;
	bool has_pinned, has_seen, held;
	uint8_t pinned[32], seen[32];
	char *remote, *note;            /* remote: its key (upstream/upstream.h); free() them */
	char tool[REG_FULL_NAME_SIZE];
	int tool_state;
	int64_t tool_version;
};
struct adm_remotes { struct adm_remote *p; size_t n; };
int adm_remotes_load(struct db *db, int64_t upstream_id, struct adm_remotes *ret, struct err *err) MUST_CHECK;
void adm_remotes_free(struct adm_remotes *r);
const char *adm_remote_state_name(enum adm_remote_state state);

/* The record of a change of an upstream; before and after: digests or NULL. */
int adm_upstream_record(struct adm_call *c, struct db *db, struct audit_logs *logs, int kind, const char *name,
			const uint8_t *before, const uint8_t *after, struct err *err) MUST_CHECK;
int adm_upstream_insert(struct db *db, const struct upstream_doc *doc, struct err *err) MUST_CHECK;
/* Remove it with its tools, whose ids go into *ret_tools: free() it, also after a failure; adm_changed_tools() is the
 * caller's. */
int adm_upstream_drop(struct adm_call *c, struct db *db, struct audit_logs *logs, const struct adm_upstream *u,
		      int64_t **ret_tools, size_t *ret_n, struct err *err) MUST_CHECK;
/* Put another document in the place of u's.  ERR_CONFLICT: another prefix while something is stored.  Where new versions
 * have to be approved, so has what those lead to: asks for a second administrator while something of u is stored. */
int adm_upstream_store(struct adm_call *c, struct db *db, const struct adm_upstream *u, const struct upstream_doc *doc, int state,
		       struct err *err) MUST_CHECK;
/* The document with the members of patch, both JSON texts. */
int adm_upstream_patch(const char *definition, const char *patch, struct upstream_doc *ret, struct err *err) MUST_CHECK;
/* A text column, cut to size; or whole, to be freed. */
void adm_col_copy(struct db_stmt *st, unsigned col, char *ret, size_t size);
char *adm_col_dup(struct db_stmt *st, unsigned col);

/* Its tables of commands, for app/commands.c. */
extern const struct adm_cmd upstream_commands[], sync_commands[], upstream_remove_commands[];

#endif
