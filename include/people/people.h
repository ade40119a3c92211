#ifndef PEOPLE_PEOPLE_H
#define PEOPLE_PEOPLE_H

#include "db/db.h"
#include "tenant/tenant.h"

#include "command/call.h"
#include "tenant/tenant_rows.h"
#include "registry/tool_rows.h"

/* Who may call: tenants, principals, keys, sessions and limits, for other rooms of commands. */

struct call_where;
struct mcp_ended;

/* --- limits */

/* In a WRITER body; no record. */
int limit_write(struct db *db, int64_t tenant_id, enum tenant_scope scope, int64_t subject,
		const struct tenant_limits *set, struct err *err) MUST_CHECK;
bool limit_same(const struct tenant_limits *a, const struct tenant_limits *b);

/* --- tenants */

int tenant_new_name(const char *name, struct err *err) MUST_CHECK;
int tenant_title(const char *title, char ret[256], struct err *err) MUST_CHECK;
/* In a WRITER body, with records; command_changed_people() and command_changed_tenant() are the caller's.
 * want->state 0: as it is.  ret_before: what it was, or what was just made; ret: what it is. */
int tenant_sandbox(const char *level, char ret[64], struct err *err) MUST_CHECK;
int tenant_store(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *want,
		     struct tenant_row *ret_before, struct tenant_row *ret, enum row_stored *ret_what,
		     struct err *err) MUST_CHECK;
/* The row alone, without a record. */
int tenant_write(struct db *db, const struct tenant_row *after, struct err *err) MUST_CHECK;
int tenant_change_state(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *before,
			    int state, struct err *err) MUST_CHECK;
/* In after(): as mcp_end_where(), also where nobody listens. */
void people_end_where(struct command_call *c, const struct call_where *where, bool kill, struct mcp_ended *ret);
void people_end_tenant(struct command_call *c, int64_t tenant_id, struct mcp_ended *ret);

size_t people_stop_tool(struct command_call *c, const char *full_name);       /* cancel its calls; how many */

/* --- keys */

command_check_fn key_list_check;
command_body_fn key_list_body;

/* Its tables of commands, for app/commands.c. */
extern const struct command tenant_commands[], principal_commands[], key_make_commands[], key_commands[],
	limit_commands[], session_commands[];

#endif
