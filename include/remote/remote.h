#ifndef REMOTE_REMOTE_H
#define REMOTE_REMOTE_H

#include "toolset/toolset.h"
#include "command/command.h"

#include "upstream/upstream.h"
#include "registry/registry.h"

/* What the commands about upstreams share: upstream_row.c (the upstreams themselves), upstream_sync.c (what they
 * have). */

enum { ADM_UPSTREAM_ENABLED = 1, ADM_UPSTREAM_DISABLED = 2, ADM_UPSTREAM_REMOVED = 3 };
enum remote_state { REMOTE_PINNED = 1, REMOTE_CHANGED, REMOTE_GONE, REMOTE_NEW, REMOTE_REFUSED };

struct upstream_row {
	int64_t id, synced_us, created_us;
	int state;
	char name[80], prefix[UPSTREAM_PREFIX_MAX + 1], uri_prefix[UPSTREAM_PREFIX_MAX + 1], revision[16], server[128];
	uint8_t digest[32];
	char *definition;               /* free() it */
};
/* By name; removed ones are not found.  ERR_NOT_FOUND with "did you mean". */
int upstream_row_find(struct db *db, const char *name, struct upstream_row *ret, struct err *err) MUST_CHECK;

/* The same: 1 = found, 0 = there is none. */
int upstream_row_get(struct db *db, const char *name, struct upstream_row *ret, struct err *err) MUST_CHECK;

struct remote_row {                     /* a row of upstream_tool, and the tool, prompt or resource made of it */
	int64_t id, tool_id;            /* tool_id 0: never accepted */
	enum remote_state state;
	bool has_pinned, has_seen, held;
	uint8_t pinned[32], seen[32];
	char *remote, *note;            /* remote: its key (upstream/upstream.h); free() them */
	char tool[REG_FULL_NAME_SIZE];
	int tool_state;
	int64_t tool_version;
};
struct remote_rows { struct remote_row *p; size_t n; };
int remotes_load(struct db *db, int64_t upstream_id, struct remote_rows *ret, struct err *err) MUST_CHECK;
void remotes_free(struct remote_rows *r);
const char *remote_state_name(enum remote_state state);

/* The record of a change of an upstream; before and after: digests or NULL. */
int upstream_record(struct command_call *c, struct db *db, struct audit_logs *logs, int kind, const char *name,
			const uint8_t *before, const uint8_t *after, struct err *err) MUST_CHECK;
int upstream_insert(struct db *db, const struct upstream_doc *doc, struct err *err) MUST_CHECK;
/* Remove it with its tools, whose ids go into *ret_tools: free() it, also after a failure; command_changed_tools() is
 * the caller's. */
int upstream_drop(struct command_call *c, struct db *db, struct audit_logs *logs, const struct upstream_row *u,
		      int64_t **ret_tools, size_t *ret_n, struct err *err) MUST_CHECK;
/* Put another document in the place of u's.  ERR_CONFLICT: another prefix while something is stored.  Where new
 * versions have to be approved, so has what those lead to: asks for a second administrator while something of u is
 * stored. */
int upstream_store(struct command_call *c, struct db *db, const struct upstream_row *u, const struct upstream_doc *doc,
		   int state, struct err *err) MUST_CHECK;
/* The document with the members of patch, both JSON texts. */
int upstream_patch(const char *definition, const char *patch, struct upstream_doc *ret, struct err *err) MUST_CHECK;
/* A text column, cut to size; or whole, to be freed. */

/* Its tables of commands, for app/commands.c. */
extern const struct command upstream_commands[], sync_commands[], upstream_remove_commands[];

#endif
