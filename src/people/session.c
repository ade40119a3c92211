/* Sessions: session list and kill, and how commands of other rooms end calls and connections at once (SEC S-315), by
 * whatever they are named.  Loop thread: from bodies ON_LOOP and from after(). */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "call/call.h"
#include "command/rows.h"
#include "mcp/mcp.h"
#include "people/people.h"
#include "tenant/tenant.h"

void people_end_where(struct command_call *c, const struct call_where *where, bool kill, struct mcp_ended *ret)
{
	const struct command_env *env = command_env(c);

	*ret = (struct mcp_ended){ 0 };
	if (env->mcp)
		mcp_end_where(env->mcp, where, kill, ret);
	else if (kill)
		ret->calls = call_cancel_where(env->calls, where, CANCEL_REVOKED);
}

size_t people_stop_tool(struct command_call *c, const char *full_name)
{
	return call_cancel_where(command_env(c)->calls, &(struct call_where){ .tool = full_name }, CANCEL_STOPPED);
}

/* --- session kill */

static int session_id(const struct command_call *c, uint64_t *ret, struct err *err)
{
	const char *text = arg_text(c, "id");

	if (text_u64(text, strlen(text), ret) < 0)
		return err_set(err, ERR_INVALID, "id", "\"%.32s\" is no number of a session", text);
	return 0;
}

/* Before it is recorded. */
static int session_kill_check(struct command_call *c, struct err *err)
{
	uint64_t id;

	return session_id(c, &id, err);
}

static int session_kill_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct command_env *env = command_env(c);
	const char *name = arg_text(c, "tenant");
	const struct tenant *tenant = name ? tenant_by_name(env->tenants, name, strlen(name)) : NULL;
	struct mcp_ended ended;
	uint64_t id = 0;
	int rc = session_id(c, &id, err);

	(void)db;
	(void)logs;
	if (rc < 0)
		return rc;
	/* A tenant that is not there and one without such a session are the same answer. */
	if (commands_cancel(c->admin, name, id))
		ended = (struct mcp_ended){ .peers = 1, .calls = 1 };
	else if (!env->mcp || (name && !tenant) || !mcp_end_peer(env->mcp, tenant ? tenant->id : 0, id, &ended)) {
		(void)err_set(err, ERR_NOT_FOUND, "", "session %" PRIu64 ": not found", id);
		err_hint(err, "toolcrib session list");
		return ERR_NOT_FOUND;
	}
	reply_row_begin(c->out);
	reply_int(c->out, "id", (int64_t)id);
	reply_int(c->out, "calls", (int64_t)ended.calls);
	reply_row_end(c->out);
	return 0;
}

/* --- session list */

static void put_peer(void *arg, const struct mcp_peer_view *v)
{
	struct reply *o = arg;
	char client[256];

	reply_row_begin(o);
	reply_int(o, "id", (int64_t)v->id);
	reply_text(o, "tenant", v->tenant);
	reply_text(o, "principal", v->principal);
	reply_text(o, "key", v->accessor && *v->accessor ? v->accessor : NULL);
	reply_text(o, "kind", v->kind);
	reply_text(o, "revision", v->rev);
	/* The client's own words: claimed, and never sent raw to a terminal. */
	reply_text(o, "client", v->client ? text_printable(v->client, strlen(v->client), client, sizeof(client)) : NULL);
	reply_int(o, "running", v->running);
	reply_int(o, "listens", v->listens);
	reply_bool(o, "listening", v->listening);
	reply_time(o, "since", v->since_us);
	reply_time(o, "last", v->last_us);
	reply_row_end(o);
}

/* Calls that commands have made: nobody is told of a change there. */
static void put_command(void *arg, const struct command_view *v)
{
	struct reply *o = arg;
	char line[256];

	reply_row_begin(o);
	reply_int(o, "id", (int64_t)v->id);
	reply_text(o, "tenant", v->tenant);
	reply_text(o, "principal", v->principal);
	reply_text(o, "key", NULL);
	reply_text(o, "kind", "command");
	reply_text(o, "revision", NULL);
	reply_text(o, "client", text_printable(v->line, strlen(v->line), line, sizeof(line)));
	reply_int(o, "running", 1);
	reply_int(o, "listens", 0);
	reply_bool(o, "listening", false);
	reply_time(o, "since", v->since_us);
	reply_time(o, "last", v->since_us);
	reply_row_end(o);
}

static int session_list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct command_env *env = command_env(c);
	const char *name = arg_text(c, "tenant");
	const struct tenant *t = name ? tenant_by_name(env->tenants, name, strlen(name)) : NULL;

	(void)db;
	(void)logs;
	if (name && !t)
		return err_set(err, ERR_NOT_FOUND, "", "tenant %.64s: not found", name);
	if (env->mcp)
		mcp_peers(env->mcp, t ? t->id : 0, put_peer, c->out);
	commands_running(c->admin, name, put_command, c->out);
	return 0;
}

/* --- rows of the command table */

static const struct command_arg session_kill_args[] = {
	WORD("id", "ID", COMPLETE_NONE, "Its number, from session list."), TENANT_OPT, ARG_END };
static const struct command_arg session_list_args[] = { TENANT_OPT, ARG_END };
static const struct command_column session_list_cols[] = {
	COL("id", "ID"), COL("tenant", "TENANT"), COL("principal", "PRINCIPAL"), COL("kind", "KIND"),
	COL("revision", "REVISION"),
	COL("client", "CLIENT"), COL("running", "RUNNING"), COL("listening", "LISTENING"), COL_AT("since", "SINCE"), COL_END };

const struct command session_commands[] = {
	{ .noun = "session", .verb = "list", .help = "List who is connected",
	  .detail = "Connections, sessions, listens, calls that have neither, and calls that commands have made.  The ID is "
		    "for session kill, and of this run of the server.",
	  .args = session_list_args, .columns = session_list_cols, .shape = ADM_TABLE, .role = ADM_READ, .own = "tenant",
	  .where = ADM_ON_LOOP,
	  .body = session_list_body },
	{ .noun = "session", .verb = "kill", .help = "End a connection, a session or a call",
	  .detail = "Its calls are cancelled and answered, then it is closed.  Whoever it was may come again: tenant suspend, "
		    "principal set, key suspend and key revoke keep somebody out.",
	  .args = session_kill_args, .done = "session %{id} ended, %{calls} calls cancelled", .role = ADM_OPERATE,
	  .own = "tenant",
	  .where = ADM_ON_LOOP, .record = AUDIT_ADMIN_CMD, .check = session_kill_check, .body = session_kill_body },
	{ .noun = NULL },
};
