/* Nodes: which servers share the store, as their rows say, and what becomes of one: node list, drain, remove.  A node
 * finds what is wanted of it in its own row, at each of its transactions.  Times are the database's. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/shared.h"
#include "command/rows.h"
#include "db/db.h"
#include "db/server.h"
#include "people/people.h"
#include "writer/writer.h"

static int refuse_files(struct err *err)
{
	(void)err_set(err, ERR_INVALID, "", "this store is in files, and its server is the only one");
	err_hint(err, "several share one on PostgreSQL: database.url in toolcribd.yaml(5)");
	return ERR_INVALID;
}

static int node_list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct db_stmt *st;
	int rc;

	(void)logs;
	if (!db_is_shared(db))
		return refuse_files(err);
	st = db_stmt_get(db, SQL_NODE_LIST);
	db_bind_i64(st, 1, WRITER_DEAD_US);
	while ((rc = db_step(st, err)) == 1) {
		reply_row_begin(c->out);
		reply_text(c->out, "name", db_col_text(st, 0, NULL));
		reply_text(c->out, "state", db_col_text(st, 1, NULL));
		reply_time(c->out, "since", (uint64_t)db_col_i64(st, 2));
		reply_time(c->out, "last", (uint64_t)db_col_i64(st, 3));
		reply_text(c->out, "place", db_col_text(st, 4, NULL));
		reply_bool(c->out, "keeper", db_col_i64(st, 5));
		reply_row_end(c->out);
	}
	db_stmt_put(&st);
	return rc;
}

/* --- what becomes of one */

enum { STAYS, DRAINS, GOES };

struct node_row {
	int64_t id, age_us;
	bool runs, is_this;
	int leaves;
};

/* Locked: its process waits with its next commit until this is durable. */
static int find_node(struct command_call *c, struct db *db, struct audit_logs *logs, struct node_row *ret,
		     struct err *err)
{
	const char *name = arg_text(c, "name"), *boot;
	struct db_stmt *st;
	int rc;

	if (!db_is_shared(db))
		return refuse_files(err);
	st = db_stmt_get(db, SQL_NODE_FIND);
	db_bind_textz(st, 1, name);
	rc = db_step(st, err);
	if (rc == 1) {
		boot = db_col_text(st, 2, NULL);
		*ret = (struct node_row){ .id = db_col_i64(st, 0), .runs = *boot != '\0', .age_us = db_col_i64(st, 4),
					  .is_this = strcmp(boot, audit_boot(logs)) == 0, .leaves = (int)db_col_i64(st, 7) };
	} else if (rc == 0) {
		rc = err_set(err, ERR_NOT_FOUND, "name", "no server of this store is node %.80s", name);
		err_hint(err, "toolcrib node list has their names");
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int want(struct command_call *c, struct db *db, struct audit_logs *logs, int64_t id, int leaves, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_NODE_LEAVES);
	char obj[96];
	int rc;

	db_bind_i64(st, 1, id);
	db_bind_i64(st, 2, leaves);
	rc = db_run(&st, err);
	if (rc < 0)
		return rc;
	(void)snprintf(obj, sizeof(obj), "node/%.80s", arg_text(c, "name"));
	return command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_ADMIN_CMD, .obj = obj }, err);
}

static void say(struct command_call *c, const char *said)
{
	reply_row_begin(c->out);
	reply_text(c->out, "name", arg_text(c, "name"));
	reply_text(c->out, "said", said);
	reply_row_end(c->out);
}

static int node_drain_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct node_row n;
	int rc = find_node(c, db, logs, &n, err);

	if (rc < 0)
		return rc;
	if (!n.runs || n.leaves == GOES || n.age_us > WRITER_DEAD_US) {
		rc = err_set(err, ERR_CONFLICT, "name", "node %s does not serve: it has stopped, or died", arg_text(c, "name"));
		err_hint(err, "toolcrib node remove forgets one that has stopped");
		return rc;
	}
	rc = want(c, db, logs, n.id, DRAINS, err);
	if (rc == 0)
		say(c, "drains, and stops when its calls have ended");
	return rc;
}

/* One that serves is fenced: its epoch is raised, and for the others it is one that has died.  Who closes its calls
 * lets the row go; to do it here would be to wait for heads that a commit of its own holds, which waits for the row. */
static int node_remove_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct node_row n;
	struct db_stmt *st;
	int rc = find_node(c, db, logs, &n, err);

	if (rc < 0)
		return rc;
	if (n.is_this || (n.runs && !arg_flag(c, "force"))) {
		rc = err_set(err, ERR_CONFLICT, "name", n.is_this ? "node %s is the one that this command was given to" :
			     "node %s has not stopped", arg_text(c, "name"));
		err_hint(err, n.is_this ? "toolcrib node drain lets it end; give the command to another node then" :
			 "toolcrib node drain lets it end; --force fences it first");
		return rc;
	}
	rc = want(c, db, logs, n.id, GOES, err);
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_NODE_FORGET);
	db_bind_i64(st, 1, n.id);
	rc = db_run(&st, err);
	if (rc == 0)
		say(c, n.runs ? "is fenced, and forgotten when its calls have an end" : "is forgotten");
	return rc;
}

/* --- rows of the command table */

static const struct command_arg node_drain_args[] = {
	WORD("name", "NAME", COMPLETE_NONE, "As node list has it."), ARG_END };
static const struct command_arg node_remove_args[] = {
	WORD("name", "NAME", COMPLETE_NONE, "As node list has it."),
	FLAG("force", "One that serves, or cannot be reached, is fenced first."), ARG_END };
static const struct command_arg node_list_args[] = { ARG_END };
static const struct command_column node_list_cols[] = {
	COL("name", "NODE"), COL("state", "STATE"), COL_AT("since", "SINCE"), COL_AT("last", "LAST"), COL("place", "PLACE"),
	COL("keeper", "KEEPER"), COL_END };

const struct command node_commands[] = {
	{ .noun = "node", .verb = "list", .help = "List the servers that share a store on PostgreSQL",
	  .detail = "STATE is serves, drains, stopped, or dead: it has not written for five seconds, and another one is about "
		    "to end its calls, as of one that is removed.  LAST is when it wrote last, PLACE its machine and directory.  "
		    "The KEEPER has the signer and does what is done once for all; when it is gone, another one becomes it.",
	  .args = node_list_args, .columns = node_list_cols, .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL,
	  .body = node_list_body },
	{ .noun = "node", .verb = "drain", .help = "Let a server that shares a store end",
	  .detail = "Whichever node is given the command, that one takes no new calls and sessions from then on, within "
		    "two seconds: it is refused with 503 and Retry-After, and /readyz says no.  Streams close, calls that run "
		    "end, and the server stops with status 0, as on SIGTERM.  Its unit starts it again, when somebody says so.",
	  .args = node_drain_args, .done = "node %{name} %{said}", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .body = node_drain_body },
	{ .noun = "node", .verb = "remove", .help = "Forget a server that has stopped",
	  .detail = "Its row goes; its records stay.  With --force one that serves is fenced first: what it has on its way "
		    "fails, its calls get their end (call.recovered, outcome unknown) from another node within two seconds, and it "
		    "ends with status 1 as soon as it finds out.  A server of that name may start again at any time.",
	  .args = node_remove_args, .done = "node %{name} %{said}", .destructive = true, .role = ADM_OWNER,
	  .where = ADM_ON_WRITER, .body = node_remove_body },
	{ .noun = NULL },
};
