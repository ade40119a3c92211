#ifndef PEOPLE_PEOPLE_H
#define PEOPLE_PEOPLE_H

#include "db/db.h"
#include "tenant/tenant.h"

#include "command/call.h"
#include "tenant/tenant_rows.h"
#include "registry/tool_rows.h"

/* Who may call: tenants, principals, keys, sessions and limits, and how long their records are kept, for other rooms of
 * commands. */

struct call_where;
struct mcp_ended;

/* --- limits */

/* In a WRITER body; no record. */
int limit_write(struct db *db, int64_t tenant_id, enum tenant_scope scope, int64_t subject,
		const struct tenant_limits *set, struct err *err) MUST_CHECK;
/* Limits of what is below a tenant: a principal, a key by its accessor, a tool by its full name. */
struct limit_of { enum tenant_scope scope; char tenant[64], name[80]; };
/* With a record; command_changed_people() is the caller's.  1: they were others, which *ret_before is; 0: they are so.
 * ERR_NOT_FOUND: with *ret_tenant_id the tenant is there. */
int limit_store(struct command_call *c, struct db *db, struct audit_logs *logs, const struct limit_of *of,
		const struct tenant_limits *set, struct tenant_limits *ret_before, int64_t *ret_tenant_id,
		struct err *err) MUST_CHECK;
/* Those of a tenant, by name; fn may change them.  Ends at the first error. */
typedef int limit_each_fn(void *arg, const struct limit_of *of, const struct tenant_limits *set, struct err *err);
int limit_each(struct db *db, const struct tenant_row *t, limit_each_fn *fn, void *arg, struct err *err) MUST_CHECK;
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

/* --- the console's process, which a server runs */

struct console;
struct console_env {                    /* borrowed for life */
	struct ev_loop *loop;
	struct commands *admin;
	struct visits *visits;
	struct fetcher *fetcher;
	const char *url;                /* where browsers find it behind a proxy, or NULL */
};
/* Its socket is open then; the process comes, and comes again.  ERR_IO and the like: it cannot listen there. */
int console_open(const struct console_env *env, const char *address, struct console **ret, struct err *err) MUST_CHECK;
void console_close(struct console **k);
const char *console_address(const struct console *k);

/* --- retention */

struct retention_period {               /* how long records are kept, in days */
	int64_t set_by, from_idx;       /* record of the change; first record that it is the first promise to */
	int64_t min_days, max_days;     /* at least, -1: there is no period; prune takes what is older, -1: nothing */
};
struct retention_periods { struct retention_period *v; size_t n; };         /* of a log, the newest first */
/* Any thread.  retention_fini() after a success; NULL is none. */
int retention_load(struct db *db, int64_t log, struct retention_periods *ret, struct err *err) MUST_CHECK;
void retention_fini(struct retention_periods *p);
/* The period in force, on any thread: 1, or 0 when the tenant has none. */
int retention_now(struct db *db, int64_t tenant_id, struct retention_period *ret, struct err *err) MUST_CHECK;
#define RETENTION_DAYS_MAX 36500
/* ERR_INVALID: more than the most, or a maximum below the minimum; -1: not said. */
int retention_check(int64_t min_days, int64_t max_days, struct err *err) MUST_CHECK;
/* In a WRITER body, with a record.  1: another one was in force, which *ret_before is; 0: it was this one.  A shorter
 * one asks for a second administrator, as approval_require_for() does.  ERR_INVALID as of retention_check(). */
int retention_store(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *t,
		    const struct retention_period *want, struct retention_period *ret_before, struct err *err) MUST_CHECK;

/* --- keys */

command_check_fn key_list_check;
command_body_fn key_list_body;

/* Its tables of commands, for app/commands.c. */
extern const struct command tenant_commands[], principal_commands[], key_make_commands[], key_commands[],
	limit_commands[], session_commands[], node_commands[], approve_commands[], console_commands[];

#endif
