/* Command import openapi: from the description of a REST API to documents for review, on the loop, without a store. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/text.h"
#include "command/rows.h"
#include "net/fetch.h"
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

/* Could it be stored?  Without its outputSchema perhaps, which is what its calls need least. */
static int check_document(struct command_call *c, const char *pointer, json_t *doc, struct err *err)
{
	static const char output[] = "/outputSchema";
	struct define_item def = { .text = NULL };
	int rc = define_item(doc, command_bind(c), NULL, &def, err);

	if (rc < 0 && strncmp(err->where, output, strlen(output)) == 0) {
		char *text = mem_printf("outputSchema is left out: %s: %s", err->where, err->msg);

		put_note(c, pointer, text);
		free(text);
		(void)json_object_del(doc, output + 1);
		define_free(&def);
		rc = define_item(doc, command_bind(c), NULL, &def, err);
	}
	define_free(&def);
	return rc;
}

/* Only what could be stored as it is. */
static void put_document(void *arg, const char *pointer, const char *name, json_t *doc)
{
	struct command_call *c = arg;
	struct reply *o = c->out;
	struct err err;
	char *text;

	if (check_document(c, pointer, doc, &err) < 0) {
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
	free(text);
	json_decref(doc);
}

/* --- headers of all requests */

#define SECRET "{secret:"
#define LITERAL_MAX 20                  /* characters of a word with digits that is no secret yet */

/* Letters and digits that nobody would type are no word. */
static bool looks_random(const char *value)
{
	size_t n = 0, digits = 0;

	for (const char *p = value; *p; p++) {
		bool digit = *p >= '0' && *p <= '9', letter = (*p | 0x20) >= 'a' && (*p | 0x20) <= 'z';

		n = digit || letter || *p == '_' || *p == '-' || *p == '+' || *p == '=' ? n + 1 : 0;
		digits = n == 0 ? 0 : digits + digit;
		if (n >= LITERAL_MAX && digits > 0)
			return true;
	}
	return false;
}

static bool has_word(const char *text, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (const char *p = text; *p; p++)
			if (strncasecmp(p, words[i], strlen(words[i])) == 0)
				return true;
	return false;
}

/* Would the value be a secret, on the command line, in a document?  If in doubt it would. */
static bool is_secret(const char *name, const char *value)
{
	static const char *const names[] = { "auth", "cookie", "key", "token", "secret", "password", "credential",
		"session", "signature" };
	static const char *const schemes[] = { "bearer ", "basic ", "token " };

	return has_word(name, names, NELEMS(names)) || has_word(value, schemes, NELEMS(schemes)) || looks_random(value);
}

/* Are all braces those of {secret:NAME}?  Each name is noted in secrets. */
static bool take_secrets(const char *value, json_t *secrets)
{
	while (*(value += strcspn(value, "{}"))) {
		const char *name = value + strlen(SECRET), *end;
		char *text;

		if (strncmp(value, SECRET, strlen(SECRET)) != 0)
			return false;
		end = name + strcspn(name, "{}");
		if (*end != '}' || !text_tool_name(name, (size_t)(end - name)))
			return false;
		text = mem_strndup(name, (size_t)(end - name));
		(void)json_object_set_new(secrets, text, json_true());
		free(text);
		value = end + 1;
	}
	return true;
}

/* "Name: value" into headers.  No message has the value: it may be a secret. */
static int take_header(const char *said, json_t *headers, json_t *secrets, struct err *err)
{
	const char *value = said + strcspn(said, ":");
	char *name = mem_strndup(said, (size_t)(value - said));
	int rc = 0;

	value += *value == ':';
	value += strspn(value, " ");
	if (!*name || !*value)
		rc = err_set(err, ERR_INVALID, "header", "--header is \"Name: value\"");
	else
		rc = fetch_check_header_name(name, "header", err);
	if (rc == 0 && strcasecmp(name, "Content-Type") == 0)
		rc = err_set(err, ERR_INVALID, "header", "Content-Type is what each operation says");
	else if (rc == 0 && !take_secrets(value, secrets))
		rc = err_set(err, ERR_INVALID, "header", "the value of %s may have {secret:NAME} and no other braces", name);
	else if (rc == 0 && !strstr(value, SECRET) && is_secret(name, value)) {
		rc = err_set(err, ERR_INVALID, "header", "the value of %s would be a secret on the command line", name);
		err_hint(err, "say --header \"%s: %s{secret:NAME}\", and toolcrib secret set NAME", name,
			 strncasecmp(value, "bearer ", 7) == 0 ? "Bearer " : "");
	}
	if (rc == 0)
		(void)json_object_set_new(headers, name, json_string(value));
	free(name);
	return rc;
}

static int take_headers(const struct command_call *c, json_t *headers, json_t *secrets, struct err *err)
{
	const json_t *said = arg_json(c, "header");
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < json_array_size(said); i++)
		rc = take_header(json_string_value(json_array_get(said, i)), headers, secrets, err);
	return rc;
}

static void note_secrets(struct command_call *c, const json_t *secrets)
{
	const char *name;
	json_t *ignored;

	json_object_foreach((json_t *)(uintptr_t)secrets, name, ignored) {
		char *text = mem_printf("requests carry a secret: toolcrib secret set %s", name);

		put_note(c, "", text);
		free(text);
	}
}

static int import_openapi_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	static const struct openapi_sink sink = { put_document, put_note };
	struct openapi_options options = { .server = arg_text(c, "server"), .prefix = arg_text(c, "prefix"),
					   .tags = arg_json(c, "tag"), .paths = arg_json(c, "path") };
	const json_t *documents = arg_json(c, "documents");
	json_t *headers = json_object(), *secrets = json_object();
	int rc;

	(void)db;
	(void)logs;
	options.headers = headers;
	if (json_array_size(documents) != 1)
		rc = err_set(err, ERR_INVALID, "file", "one description is read at a time, the file has %zu documents",
			     json_array_size(documents));
	else
		rc = take_headers(c, headers, secrets, err);
	if (rc == 0) {
		rc = openapi_convert(json_array_get(documents, 0), &options, &sink, c, err);
		if (rc < 0 && err && (*err->where || !options.server))
			err_at(err, "/documents/0");
	}
	if (rc == 0)
		note_secrets(c, secrets);
	json_decref(secrets);
	json_decref(headers);
	return rc;
}

/* --- rows of the command table */

static const struct command_arg import_openapi_args[] = {
	FILE1("The description, OpenAPI 3.0 or 3.1 in YAML or JSON; - is standard input."),
	OPT("server", "URL", ARG_TEXT, COMPLETE_NONE,
	    "Where requests go that have no server of their own; default: the first of the description."),
	OPT("prefix", "TEXT", ARG_TEXT, COMPLETE_NONE, "In front of the tools' names."),
	OPTS("tag", "GLOB", ARG_TEXT, COMPLETE_NONE, "Only operations with a tag like this; may be repeated."),
	OPTS("path", "GLOB", ARG_TEXT, COMPLETE_NONE,
	     "Only operations whose path is like this, as in \"/repos/*\"; * stands for slashes, too; may be repeated."),
	OPTS("header", "NAME: VALUE", ARG_TEXT, COMPLETE_NONE,
	     "A header of all requests, as in \"Authorization: Bearer {secret:NAME}\", in place of one that the description "
	     "says; may be repeated.  What looks like a secret is refused: it belongs into secret set."),
	OPT("output", "DIR", ARG_PATH, COMPLETE_FILE, "Write a file for each tool into this folder; none may be there yet."),
	ARG_END };

const struct command import_commands[] = {
	{ .noun = "import", .verb = "openapi", .help = "Write tools for the operations of a REST API",
	  .detail = "For review: nothing is stored.  Each operation becomes a document with an http handler, which "
		    "goes to the server of the operation, else of its path, else of all.  Bodies are JSON, forms, text, or bytes in "
		    "base64; an operation that sends anything else is left out.  What cannot be said is named on "
		    "standard error, with its place in the description.  It may have 32 MiB and a million values.  "
		    "Needs no store.",
	  .args = import_openapi_args, .shape = ADM_DOCUMENTS, .large = true, .storeless = true,
	  .role = ADM_READ, .where = ADM_ON_LOOP,
	  .body = import_openapi_body },
	{ .noun = NULL },
};
