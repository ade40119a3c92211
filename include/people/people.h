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
int adm_limit_write(struct db *db, int64_t tenant_id, enum tenant_scope scope, int64_t subject, const struct tenant_limits *set,
		    struct err *err) MUST_CHECK;
bool adm_limit_same(const struct tenant_limits *a, const struct tenant_limits *b);

/* --- tenants */

adm_check_fn adm_tenant_name_check;

int adm_tenant_new_name(const char *name, struct err *err) MUST_CHECK;
int adm_tenant_title(const char *title, char ret[256], struct err *err) MUST_CHECK;
/* In a WRITER body, with records; adm_changed_people() and adm_changed_tenant() are the caller's.  want->state 0: as
 * it is.  ret_before: what it was, or what was just made; ret: what it is. */
int adm_tenant_sandbox(const char *level, char ret[64], struct err *err) MUST_CHECK;
int adm_tenant_store(struct adm_call *c, struct db *db, struct audit_logs *logs, const struct adm_tenant *want,
		     struct adm_tenant *ret_before, struct adm_tenant *ret, enum adm_stored *ret_what,
		     struct err *err) MUST_CHECK;
/* The row alone, without a record. */
int adm_tenant_write(struct db *db, const struct adm_tenant *after, struct err *err) MUST_CHECK;
int adm_tenant_change_state(struct adm_call *c, struct db *db, struct audit_logs *logs, const struct adm_tenant *before,
			    int state, struct err *err) MUST_CHECK;
/* In after(): as mcp_end_where(), also where nobody listens. */
void adm_put_out(struct adm_call *c, const struct call_where *where, bool kill, struct mcp_ended *ret);
void adm_tenant_out(struct adm_call *c, int64_t tenant_id, struct mcp_ended *ret);
const char *adm_tenant_job_name(const struct adm_call *c);     /* after adm_tenant_name_check() */

size_t adm_stop_tool(struct adm_call *c, const char *full_name);       /* cancel its calls; how many */

/* --- keys */

adm_check_fn adm_key_list_check;
adm_body_fn adm_key_list_body;

/* Its tables of commands, for app/commands.c. */
extern const struct adm_cmd tenant_commands[], principal_commands[], key_make_commands[], key_commands[],
	limit_commands[], session_commands[];

#endif
