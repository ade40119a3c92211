/* Command import openapi: from the description of a REST API to documents for review, on the loop, without a store. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "command/rows.h"
#include "openapi/openapi.h"
#include "registry/define.h"
#include "toolset/toolset.h"

static void put_note(void *arg, const char *pointer, const char *text)
{
	struct command_call *c = arg;
	struct reply *o = c->out;
	char *where = mem_printf("/documents/0%s", pointer);

	reply_row_begin(o);
	reply_text(o, "where", where);
	reply_text(o, "finding", text);
	reply_row_end(o);
	free(where);
}

/* Only what could be stored as it is. */
static void put_document(void *arg, const char *pointer, const char *name, json_t *doc)
{
	struct command_call *c = arg;
	struct reply *o = c->out;
	struct define_item def = { .text = NULL };
	struct err err;
	char *text;

	if (define_item(doc, command_bind(c), NULL, &def, &err) < 0) {
		text = mem_printf("the operation is left out: %s: %s", err.where, err.msg);
		put_note(c, pointer, text);
	} else {
		text = mem_printf("%s.yaml", name);
		reply_row_begin(o);
		reply_text(o, "kind", "tool");
		reply_text(o, "name", name);
		reply_text(o, "file", text);
		reply_json(o, "document", doc);
		reply_row_end(o);
	}
	define_free(&def);
	free(text);
	json_decref(doc);
}

static int import_openapi_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	static const struct openapi_sink sink = { put_document, put_note };
	const struct openapi_options options = { .server = arg_text(c, "server"), .prefix = arg_text(c, "prefix") };
	const json_t *documents = arg_json(c, "documents");
	int rc;

	(void)db;
	(void)logs;
	if (json_array_size(documents) != 1)
		return err_set(err, ERR_INVALID, "file", "one description is read at a time, the file has %zu documents",
			       json_array_size(documents));
	rc = openapi_convert(json_array_get(documents, 0), &options, &sink, c, err);
	if (rc < 0 && err && (*err->where || !options.server))
		err_at(err, "/documents/0");
	return rc;
}

/* --- rows of the command table */

static const struct command_arg import_openapi_args[] = {
	FILE1("The description, OpenAPI 3.0 or 3.1 in YAML or JSON; - is standard input."),
	OPT("server", "URL", ARG_TEXT, COMPLETE_NONE, "Where the requests go; default: the first server of the description."),
	OPT("prefix", "TEXT", ARG_TEXT, COMPLETE_NONE, "In front of the tools' names."),
	OPT("output", "DIR", ARG_PATH, COMPLETE_FILE, "Write a file for each tool into this folder; none may be there yet."),
	ARG_END };

const struct command import_commands[] = {
	{ .noun = "import", .verb = "openapi", .help = "Write tools for the operations of a REST API",
	  .detail = "For review: nothing is stored.  Each operation becomes a document with an http handler.  What cannot be "
		    "said is "
	  "named on standard error, with its place in the description.  Needs no store.",
	  .args = import_openapi_args, .shape = ADM_DOCUMENTS, .storeless = true, .role = ADM_READ, .where = ADM_ON_LOOP,
	  .body = import_openapi_body },
	{ .noun = NULL },
};
