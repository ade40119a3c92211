/* node list: which servers share the store, as their rows say.  Times are the database's.  On the pool. */
#include "config.h"

#include "command/rows.h"
#include "db/db.h"
#include "db/server.h"
#include "people/people.h"

static int node_list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct db_stmt *st;
	int rc;

	(void)logs;
	if (!db_is_shared(db)) {
		(void)err_set(err, ERR_INVALID, "", "this store is in files, and its server is the only one");
		err_hint(err, "several share one on PostgreSQL: database.url in toolcribd.yaml(5)");
		return ERR_INVALID;
	}
	st = db_stmt_get(db, SQL_NODE_LIST);
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

/* --- rows of the command table */

static const struct command_arg node_list_args[] = { ARG_END };
static const struct command_column node_list_cols[] = {
	COL("name", "NODE"), COL("state", "STATE"), COL_AT("since", "SINCE"), COL_AT("last", "LAST"), COL("place", "PLACE"),
	COL("keeper", "KEEPER"), COL_END };

const struct command node_commands[] = {
	{ .noun = "node", .verb = "list", .help = "List the servers that share a store on PostgreSQL",
	  .detail = "STATE is serves, stopped, or dead: it has not written for five seconds, and another one is about to "
		    "end its calls.  LAST is when it wrote last, PLACE its machine and directory.  The KEEPER has the signer and "
		    "does what is done once for all; when it is gone, another one becomes it.",
	  .args = node_list_args, .columns = node_list_cols, .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL,
	  .body = node_list_body },
	{ .noun = NULL },
};
