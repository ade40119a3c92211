/* export: the command that writes what the store holds as the documents that apply reads.  body() runs on a thread
 * of the pool; each kind of document (kinds.c) writes its own. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "command/rows.h"
#include "db/db.h"

#include "documents_int.h"

static int export_check(struct command_call *c, struct err *err)
{
	struct export *x = command_priv(c, sizeof(*x));
	const char *tenant = arg_text(c, "tenant");

	(void)err;
	(void)snprintf(x->tenant, sizeof(x->tenant), "%s", tenant ? tenant : "");
	return 0;
}

/* "schema/https_acme.example_address.yaml": names that any file system takes. */
static char *file_of(const char *kind, const char *name)
{
	char *file = mem_printf("%s/%s.yaml", kind, name);

	for (char *p = file + strlen(kind) + 1; *p; p++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-", *p))
			*p = '_';
	return file;
}

void export_put(struct export *x, const char *kind, const char *name, json_t *doc)
{
	char *file = file_of(kind, name);

	reply_row_begin(x->c->out);
	reply_text(x->c->out, "kind", kind);
	reply_text(x->c->out, "name", name);
	reply_text(x->c->out, "file", file);
	reply_json(x->c->out, "document", doc);
	reply_row_end(x->c->out);
	free(file);
	json_decref(doc);
}

static int export_all(struct export *x, struct err *err)
{
	struct tenant_row t;
	int rc = *x->tenant ? tenant_row_find(x->db, x->tenant, &t, err) : 0;

	if (rc == 0 && *x->tenant)
		x->tenant_id = t.id;
	for (size_t i = 0; i < APPLY_KINDS && rc == 0; i++)
		rc = apply_kinds[i]->export(x, apply_kinds[i], err);
	return rc;
}

static int export_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct export *x = c->priv;
	int rc = db_txn_begin(db, false, err);          /* one picture of all of it */

	(void)logs;
	if (rc < 0)
		return rc;
	x->c = c;
	x->db = db;
	return db_txn_end(db, export_all(x, err), err);
}

/* --- rows of the command table */

static const struct command_arg export_args[] = {
	OPT("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "Only this tenant, its grants, and what they show."),
	OPT("output", "DIR", ARG_PATH, COMPLETE_FILE, "Write a file for each into this folder; none may be there yet."),
	ARG_END };

const struct command export_commands[] = {
	{ .noun = "export", .help = "Write what the store holds as files for apply",
	  .detail = "Keys and tools of upstreams are left out.  Applying what was exported changes nothing.",
	  .args = export_args, .shape = ADM_DOCUMENTS, .role = ADM_READ, .where = ADM_ON_POOL,
	  .check = export_check, .body = export_body },
	{ .noun = NULL },
};
