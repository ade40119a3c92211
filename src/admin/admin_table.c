/* THE command table: words, arguments, help, authority, thread and record of every command.  What a command does
 * is in adm_<noun>.c. */
#include "config.h"

#include "admin/admin.h"

#include <stddef.h>

#include "audit/audit.h"

#include "adm_commands.h"
#include "admin_columns.h"
#include "admin_int.h"

#define END { NULL, NULL, ARG_TEXT, false, false, false, COMPLETE_NONE, NULL }
/* Positional: one that is needed, one that may be missing, one or more. */
#define WORD(name, value, complete, help) { name, value, ARG_TEXT, false, true, false, complete, help }
#define MAYBE(name, value, complete, help) { name, value, ARG_TEXT, false, false, false, complete, help }
#define WORDS(name, value, complete, help) { name, value, ARG_TEXT, false, true, true, complete, help }
#define FILES(help) { "file", "FILE", ARG_FILE, false, true, true, COMPLETE_FILE, help }
#define FILE1(help) { "file", "FILE", ARG_FILE, false, true, false, COMPLETE_FILE, help }
#define VALUES { "values", "NAME=VALUE", ARG_KEYVALUES, false, false, true, COMPLETE_NONE, \
	"An argument of the tool; a number, true, or JSON where its schema says so." }
/* Options. */
#define OPT(name, value, type, complete, help) { name, value, type, true, false, false, complete, help }
#define OPTS(name, value, type, complete, help) { name, value, type, true, false, true, complete, help }
#define NEED(name, value, type, complete, help) { name, value, type, true, true, false, complete, help }
#define FLAG(name, help) { name, NULL, ARG_FLAG, true, false, false, COMPLETE_NONE, help }

#define TENANT_WORD WORD("tenant", "TENANT", COMPLETE_TENANT, "Name of the tenant.")
#define TENANT_MAYBE MAYBE("tenant", "TENANT", COMPLETE_TENANT, "Only this tenant.")
#define TENANT_OPT OPT("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "Only this tenant.")
#define PRINCIPAL_WORD WORD("principal", "TENANT/NAME", COMPLETE_PRINCIPAL, "The principal, with its tenant in front.")
#define CONCURRENCY_OPT OPT("concurrency", "N", ARG_UINT, COMPLETE_NONE, "Calls running at once; 0 removes the limit.")
#define RATE_OPT OPT("rate", "N/UNIT", ARG_RATE, COMPLETE_NONE, "Calls per time: 10/s, 60/min, 100/h, 5000/day.")
#define ARGS_OPT OPT("args", "JSON", ARG_JSON, COMPLETE_NONE, "All arguments as one JSON object; NAME=VALUE words go on top.")

static const struct adm_arg no_args[] = { END };

#include "adm_keep_rows.h"
#include "adm_sign_rows.h"
#include "adm_level_rows.h"
#include "adm_pending_rows.h"
#include "adm_limit_rows.h"

static const struct adm_arg admin_key_args[] = {
	WORD("name", "NAME", COMPLETE_NONE, "What records say of it: lower-case letters, digits and _ . -, at most 32."), END };
static const struct adm_arg backup_args[] = {
	{ "file", "FILE", ARG_PATH, false, true, false, COMPLETE_FILE, "Where the copy goes; it must not exist." },
	OPT("keys", "FILE", ARG_PATH, COMPLETE_FILE, "Where a copy of keys.db goes as well: the keys of what is kept of calls."), END };
static const struct adm_arg migrate_args[] = { FLAG("dry-run", "Say what would be done and change nothing."), END };
static const struct adm_arg help_args[] = {
	{ "command", "COMMAND", ARG_TEXT, false, false, true, COMPLETE_COMMAND, "The command to explain." }, END };
static const struct adm_arg completion_args[] = {
	WORD("shell", "SHELL", COMPLETE_NONE, "The shell to complete for: bash."), END };

#define SANDBOX_OPT OPT("sandbox", "LEVEL", ARG_TEXT, COMPLETE_NONE, \
	"The least confinement of its tools' processes, as in toolcrib-run(8), beside what else requires one; empty: none.")
static const struct adm_arg tenant_add_args[] = {
	WORD("name", "NAME", COMPLETE_NONE, "Lower-case letters, digits and _ . -, at most 63."),
	OPT("title", "TEXT", ARG_TEXT, COMPLETE_NONE, "A name for people."), CONCURRENCY_OPT, RATE_OPT, SANDBOX_OPT, END };
static const struct adm_arg tenant_set_args[] = {
	TENANT_WORD, OPT("title", "TEXT", ARG_TEXT, COMPLETE_NONE, "A name for people."), CONCURRENCY_OPT, RATE_OPT,
	FLAG("no-rate", "Remove the limit of the rate."), SANDBOX_OPT, END };
static const struct adm_arg tenant_args[] = { TENANT_WORD, END };

static const struct adm_arg principal_args[] = { PRINCIPAL_WORD, END };
static const struct adm_arg principal_set_args[] = {
	PRINCIPAL_WORD, NEED("suspended", "yes|no", ARG_YESNO, COMPLETE_NONE, "Whether its keys are refused."), END };

static const struct adm_arg key_create_args[] = {
	WORD("principal", "TENANT/NAME", COMPLETE_PRINCIPAL, "Whom the key is for; created when it is missing."),
	OPT("ttl", "TIME", ARG_DURATION, COMPLETE_NONE, "Life of the key, at most 365d; default 90d, 1d with --one-shot."),
	OPT("not-before", "TIME", ARG_TIME, COMPLETE_NONE, "It is not valid before; its life begins then."),
	OPTS("scope", "WORDS", ARG_TEXT, COMPLETE_NONE, "What it may do, as in SCOPES; default: whatever the tenant's grants show."),
	OPTS("cidr", "NETWORK", ARG_TEXT, COMPLETE_NONE,
	     "Where it may be used, such as 10.0.0.0/8; sockets and pipes of this machine count as 127.0.0.1."),
	OPTS("arg-rule", "RULE", ARG_TEXT, COMPLETE_NONE, "What arguments must be, as in SCOPES."),
	FLAG("one-shot", "The key calls nothing; key enroll exchanges it, once, for one that has the rest."),
	OPT("key-ttl", "TIME", ARG_DURATION, COMPLETE_NONE, "Life of the key that a one-shot key is exchanged for; default 90d."),
	OPT("label", "TEXT", ARG_TEXT, COMPLETE_NONE, "A note for people: where the key is used."), END };
static const struct adm_arg key_rotate_args[] = {
	WORD("accessor", "ACCESSOR", COMPLETE_KEY, "The public part of the key: 12 characters after tck_."),
	OPT("overlap", "TIME", ARG_DURATION, COMPLETE_NONE, "How long the old secret is still valid, at most 30d; default 24h, 0s: not at all."),
	OPT("ttl", "TIME", ARG_DURATION, COMPLETE_NONE, "Life of the key from now on; default: as long as it was given before."), TENANT_OPT, END };
static const struct adm_arg key_enroll_args[] = {
	{ "file", "FILE", ARG_SECRET, true, false, false, COMPLETE_FILE,
	  "Read the one-shot key from here; else from standard input, from a terminal without echo." },
	OPT("label", "TEXT", ARG_TEXT, COMPLETE_NONE, "A note for people; default: that of the one-shot key."), END };
static const struct adm_arg key_list_args[] = {
	TENANT_MAYBE, OPT("principal", "NAME", ARG_TEXT, COMPLETE_NONE, "Only this principal of the tenant."),
	FLAG("review", "With age, expiry, last use and what the tenant's grants open."),
	OPT("stale", "TIME", ARG_DURATION, COMPLETE_NONE, "Keys not used or not rotated for so long, or without an end: 90d."),
	FLAG("unused-scopes", "Grants that a key did not use for 90 days, or the time of --stale."),
	OPT("format", "FORMAT", ARG_TEXT, COMPLETE_NONE, "Of these reports: table, json, jsonl or csv."), END };
static const struct adm_arg key_args[] = {
	WORD("accessor", "ACCESSOR", COMPLETE_KEY, "The public part of the key: 12 characters after tck_."), TENANT_OPT, END };
static const struct adm_arg key_revoke_args[] = {
	WORDS("accessor", "ACCESSOR", COMPLETE_KEY, "The public part of the key: 12 characters after tck_."),
	FLAG("kill", "Running calls too."), TENANT_OPT, END };
static const struct adm_arg key_suspend_args[] = {
	WORDS("accessor", "ACCESSOR", COMPLETE_KEY, "The public part of the key: 12 characters after tck_."),
	OPT("reason", "TEXT", ARG_TEXT, COMPLETE_NONE, "Why; it stays in the record for ever: no names of persons."), TENANT_OPT, END };

static const struct adm_arg files_args[] = { FILES("YAML or JSON, one or more documents; - is standard input."), END };
static const struct adm_arg schema_check_args[] = {
	FILES("YAML or JSON: the first document is the schema, all others are checked by it; - is standard input."),
	FLAG("formats", "Let format decide too; else it is an annotation."), END };
static const struct adm_arg schema_add_args[] = {
	FILES("YAML or JSON, one or more schemas with an absolute $id; - is standard input."), END };
static const struct adm_arg schema_args[] = { WORD("schema", "ID", COMPLETE_SCHEMA, "The $id of the schema."), END };
static const struct adm_arg schemas_args[] = { WORDS("schema", "ID", COMPLETE_SCHEMA, "The $id of the schema."), END };
static const struct adm_arg tool_show_args[] = {
	WORD("tool", "TOOL", COMPLETE_TOOL, "Name of the tool."),
	OPT("version", "N", ARG_UINT, COMPLETE_NONE, "This version instead of the one in force."), END };
static const struct adm_arg tool_history_args[] = {
	WORD("tool", "TOOL", COMPLETE_TOOL, "Name of the tool."),
	FLAG("events", "What was done to it, by whom, from the audit."),
	OPT("format", "FORMAT", ARG_TEXT, COMPLETE_NONE, "With --events: table, json, jsonl or csv."), END };
#define VERSION_MAYBE(name, help) { name, "VERSION", ARG_UINT, false, false, false, COMPLETE_NONE, help }
static const struct adm_arg tool_diff_args[] = {
	WORD("tool", "TOOL", COMPLETE_TOOL, "Name of the tool."),
	VERSION_MAYBE("from", "The older version; default: the one before."),
	VERSION_MAYBE("to", "The newer version; default: the one in force."), END };
static const struct adm_arg tool_revert_args[] = {
	WORD("tool", "TOOL", COMPLETE_TOOL, "Name of the tool."),
	{ "version", "VERSION", ARG_UINT, false, true, false, COMPLETE_NONE, "The version to take back." }, END };
static const struct adm_arg tools_args[] = { WORDS("tool", "TOOL", COMPLETE_TOOL, "Name of the tool."), END };
static const struct adm_arg tool_disable_args[] = {
	WORDS("tool", "TOOL", COMPLETE_TOOL, "Name of the tool."), FLAG("kill", "Cancel its running calls."), END };
static const struct adm_arg tool_test_args[] = {
	FILE1("YAML or JSON, one document; - is standard input."), VALUES, ARGS_OPT, END };

static const struct adm_arg prompt_test_args[] = {
	FILE1("YAML or JSON, one document; - is standard input."),
	{ "values", "NAME=VALUE", ARG_KEYVALUES, false, false, true, COMPLETE_NONE, "An argument of the prompt." }, END };
static const struct adm_arg resource_test_args[] = {
	FILE1("YAML or JSON, one document; - is standard input."),
	{ "uri", "URI", ARG_TEXT, false, false, false, COMPLETE_NONE, "Which one is read; a template needs it." }, END };
static const struct adm_arg prompt_show_args[] = {
	WORD("prompt", "PROMPT", COMPLETE_PROMPT, "Name of the prompt."),
	OPT("version", "N", ARG_UINT, COMPLETE_NONE, "This version instead of the one in force."), END };
static const struct adm_arg prompt_args[] = { WORD("prompt", "PROMPT", COMPLETE_PROMPT, "Name of the prompt."), END };
static const struct adm_arg prompts_args[] = { WORDS("prompt", "PROMPT", COMPLETE_PROMPT, "Name of the prompt."), END };
static const struct adm_arg resource_show_args[] = {
	WORD("resource", "RESOURCE", COMPLETE_RESOURCE, "Name of the resource or template."),
	OPT("version", "N", ARG_UINT, COMPLETE_NONE, "This version instead of the one in force."), END };
static const struct adm_arg resource_args[] = {
	WORD("resource", "RESOURCE", COMPLETE_RESOURCE, "Name of the resource or template."), END };
static const struct adm_arg resources_args[] = {
	WORDS("resource", "RESOURCE", COMPLETE_RESOURCE, "Name of the resource or template."), END };
static const struct adm_arg prompt_diff_args[] = {
	WORD("prompt", "PROMPT", COMPLETE_PROMPT, "Name of the prompt."),
	VERSION_MAYBE("from", "The older version; default: the one before."),
	VERSION_MAYBE("to", "The newer version; default: the one in force."), END };
static const struct adm_arg prompt_revert_args[] = {
	WORD("prompt", "PROMPT", COMPLETE_PROMPT, "Name of the prompt."),
	{ "version", "VERSION", ARG_UINT, false, true, false, COMPLETE_NONE, "The version to take back." }, END };
static const struct adm_arg resource_diff_args[] = {
	WORD("resource", "RESOURCE", COMPLETE_RESOURCE, "Name of the resource or template."),
	VERSION_MAYBE("from", "The older version; default: the one before."),
	VERSION_MAYBE("to", "The newer version; default: the one in force."), END };
static const struct adm_arg resource_revert_args[] = {
	WORD("resource", "RESOURCE", COMPLETE_RESOURCE, "Name of the resource or template."),
	{ "version", "VERSION", ARG_UINT, false, true, false, COMPLETE_NONE, "The version to take back." }, END };

static const struct adm_arg secret_set_args[] = {
	WORD("name", "NAME", COMPLETE_NONE, "Letters, digits and _ . -, at most 64."),
	{ "file", "FILE", ARG_SECRET, true, false, false, COMPLETE_FILE,
	  "Read the value from here; else from standard input, from a terminal without echo." }, END };
static const struct adm_arg secret_remove_args[] = {
	WORDS("name", "NAME", COMPLETE_NONE, "The secret."), FLAG("force", "Also while enabled tools use it."), END };

#define GLOB(macro) macro("tool", "TOOL-GLOB", COMPLETE_TOOL, \
	"A tool's name, or a pattern with * and ?; of prompts and resources with prompt: or resource: in front.")
#define ALIAS OPT("as", "ALIAS", ARG_TEXT, COMPLETE_NONE, "The name that the tenant sees, of a single tool, prompt or resource.")
static const struct adm_arg grant_add_args[] = { TENANT_WORD, GLOB(WORDS), ALIAS, RATE_OPT, CONCURRENCY_OPT, END };
static const struct adm_arg grant_set_args[] = {
	TENANT_WORD, GLOB(WORD), ALIAS, FLAG("no-alias", "Show the tool under its own name."), RATE_OPT,
	FLAG("no-rate", "Remove the grant's own limit of the rate."), CONCURRENCY_OPT, END };
static const struct adm_arg grant_list_args[] = { TENANT_MAYBE, END };
static const struct adm_arg grant_remove_args[] = { TENANT_WORD, GLOB(WORDS), END };

#define UPSTREAM_WORD WORD("upstream", "NAME", COMPLETE_UPSTREAM, "Name of the upstream.")
#define UPSTREAM_OPTIONS \
	OPT("url", "URL", ARG_TEXT, COMPLETE_NONE, "Where the server is reached by HTTP."), \
	{ "env", "NAME=VALUE", ARG_KEYVALUES, true, false, false, COMPLETE_NONE, \
	  "A variable for the server that command starts; {secret:NAME} stands for a secret." }, \
	OPT("cwd", "DIR", ARG_PATH, COMPLETE_FILE, "The directory that command starts in; default: one of its own."), \
	{ "read", "PATH", ARG_PATH, true, false, true, COMPLETE_FILE, "What command may read and execute beside the system's files." }, \
	{ "write", "PATH", ARG_PATH, true, false, true, COMPLETE_FILE, "What command may also write." }, \
	OPT("network", "yes|no", ARG_YESNO, COMPLETE_NONE, "Whether command gets the network."), \
	{ "header", "NAME=VALUE", ARG_KEYVALUES, true, false, false, COMPLETE_NONE, \
	  "A header for url; a credential must be a {secret:NAME}." }, \
	OPT("transport", "http|sse", ARG_TEXT, COMPLETE_NONE, "How url is spoken to; default http."), \
	OPT("allow-private", "yes|no", ARG_YESNO, COMPLETE_NONE, "Whether url may lead to an address that is not public."), \
	OPT("prefix", "TEXT", ARG_TEXT, COMPLETE_NONE, "In front of the names of what it has; default its own name and _."), \
	OPT("uri-prefix", "TEXT", ARG_TEXT, COMPLETE_NONE, "In front of the URIs of its resources; default its own name and +."), \
	OPT("shared", "yes|no", ARG_YESNO, COMPLETE_NONE, "One link for all tenants instead of one for each."), \
	OPT("asks", "yes|no", ARG_YESNO, COMPLETE_NONE, "Whether its questions are put to the caller."), \
	OPT("idle", "TIME", ARG_DURATION, COMPLETE_NONE, "End a link that had no call for so long; default 10m.")
#define UPSTREAM_COMMAND { "command", "PROGRAM", ARG_COMMAND, true, false, true, COMPLETE_FILE, \
	"The program that speaks MCP over its stdin and stdout, and its arguments; must come last." }
static const struct adm_arg upstream_add_args[] = {
	MAYBE("upstream", "NAME", COMPLETE_NONE, "Lower-case letters, digits and _ . -, at most 63."),
	{ "file", "FILE", ARG_FILE, true, false, true, COMPLETE_FILE, "Documents of kind upstream instead, YAML or JSON." },
	UPSTREAM_OPTIONS, UPSTREAM_COMMAND, END };
static const struct adm_arg upstream_args[] = { UPSTREAM_WORD, END };
static const struct adm_arg upstream_sync_args[] = {
	UPSTREAM_WORD, OPT("prefix", "TEXT", ARG_TEXT, COMPLETE_NONE, "In front of the names of what it has, while nothing is stored."),
	FLAG("check", "Disable what has changed; store nothing new."), END };
static const struct adm_arg upstream_accept_args[] = {
	UPSTREAM_WORD, { "tool", "TOOL", ARG_TEXT, false, false, true, COMPLETE_NONE, "Its name there or here, as upstream show tells it; else all that waits." }, END };
static const struct adm_arg upstream_set_args[] = { UPSTREAM_WORD, UPSTREAM_OPTIONS,
	OPT("enabled", "yes|no", ARG_YESNO, COMPLETE_NONE, "Whether what it has may be used."),
	FLAG("kill", "With --enabled no: cancel the calls that run there."), UPSTREAM_COMMAND, END };

static const struct adm_arg apply_args[] = {
	{ "file", "PATH", ARG_FILE, true, true, true, COMPLETE_FILE, "YAML or JSON, or a folder with such files; - is standard input." },
	FLAG("dry-run", "Say what would be done and change nothing."),
	FLAG("prune", "Remove what the documents do not name, of each kind that they have."), END };
static const struct adm_arg export_args[] = {
	OPT("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "Only this tenant, its grants, and what they show."),
	OPT("output", "DIR", ARG_PATH, COMPLETE_FILE, "Write a file for each into this folder; none may be there yet."), END };
static const struct adm_arg import_openapi_args[] = {
	FILE1("The description, OpenAPI 3.0 or 3.1 in YAML or JSON; - is standard input."),
	OPT("server", "URL", ARG_TEXT, COMPLETE_NONE, "Where the requests go; default: the first server of the description."),
	OPT("prefix", "TEXT", ARG_TEXT, COMPLETE_NONE, "In front of the tools' names."),
	OPT("output", "DIR", ARG_PATH, COMPLETE_FILE, "Write a file for each tool into this folder; none may be there yet."), END };
static const struct adm_arg call_args[] = {
	TENANT_WORD, WORD("tool", "TOOL", COMPLETE_TOOL, "The tool, as the tenant sees it; or prompt:NAME, or the URI of a resource."),
	VALUES, ARGS_OPT,
	OPT("principal", "NAME", ARG_TEXT, COMPLETE_NONE, "As this principal of the tenant."), END };

#include "report_args.h"

static const struct adm_arg audit_show_args[] = {
	WORD("call", "CALL", COMPLETE_NONE, "Id of the call, as in audit calls."), TENANT_OPT, END };
static const struct adm_arg audit_proof_args[] = {
	WORD("call", "CALL", COMPLETE_NONE, "Id of the call, as in audit calls."), TENANT_OPT,
	FLAG("begin", "The record of its begin, not of its end."), END };
static const struct adm_arg audit_verify_args[] = {
	OPT("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "This tenant's log alone; default: the whole store."),
	OPTS("key", "KEY", ARG_TEXT, COMPLETE_NONE, "A key that you have pinned, as audit keys prints it; may be given again."),
	OPT("signer-state", "FILE", ARG_PATH, COMPLETE_FILE, "What the signer remembers: its directory, or a copy of its file state."),
	OPTS("anchor", "FILE", ARG_PATH, COMPLETE_FILE, "A checkpoint that was taken away earlier; may be given again."),
	OPT("anchor-max-age", "TIME", ARG_TEXT, COMPLETE_NONE, "Say so when no checkpoint was taken outside for that long, such as 7d."),
	OPT("with-bundle", "FILE", ARG_PATH, COMPLETE_FILE, "Also this bundle, and whether its records are those that the store had."),
	FLAG("keys", "Open what is kept of calls with this store's keys, and check it against the records."),
	END };
static const struct adm_arg session_kill_args[] = {
	WORD("id", "ID", COMPLETE_NONE, "Its number, from session list."), TENANT_OPT, END };
static const struct adm_arg session_list_args[] = { TENANT_OPT, END };

const struct adm_cmd admin_table[] = {
	{ .noun = "init", .help = "Create a store",
	  .detail = "Makes the directory (0700) with the store and its master key (0400), and says where they are.",
	  .args = no_args, .columns = init_cols, .shape = ADM_ITEM, .storeless = true, .role = ADM_OWNER, .where = ADM_ON_CTL },
	{ .noun = "status", .help = "Show the store and the server that owns it", .args = no_args, .columns = status_cols,
	  .shape = ADM_ITEM, .role = ADM_READ, .where = ADM_ON_POOL,
	  .check = adm_status_check, .body = adm_status_body },
	{ .noun = "admin-key", .help = "Make a key for an administrator on another machine",
	  .detail = "Nothing is stored: what is printed beside the key stands under roles in the configuration, and the key in a file "
		    "that only its owner reads, for --key-file.",
	  .args = admin_key_args, .columns = admin_key_cols, .shape = ADM_SECRET, .storeless = true,
	  .done = "under roles in the configuration, then reload: {role: operator, key: %{hash}, name: %{name}}", .role = ADM_READ,
	  .where = ADM_ON_CTL },
	{ .noun = "reload", .help = "Let the server read its configuration again",
	  .detail = "And the certificates that it names, as SIGHUP does, but with the outcome as the answer: a fault changes "
		    "nothing, and what needs a restart is named.",
	  .args = no_args, .done = "configuration reloaded; needs a restart: %{restart}", .role = ADM_OPERATE, .where = ADM_ON_LOOP,
	  .record = AUDIT_ADMIN_CMD, .body = adm_reload_body },
	{ .noun = "backup", .help = "Copy the store to a new file while it is in use",
	  .detail = "The copy is one compact database.  Keys cannot be checked and secrets not be opened without "
		    "master.key and, after a rekey, secret-*.key: keep a copy of them apart from the backup.  What is kept of calls "
		    "is opened by keys.db: keep a copy of it elsewhere, and not as long as it may take to erase something; what "
		    "was erased can be read again by whoever has an older one.  A store that is put back while keys.db stays as "
		    "it is erases again, when it starts, what was erased since.",
	  .args = backup_args, .done = "store copied to %{file}, %{bytes} bytes", .role = ADM_OWNER, .where = ADM_ON_POOL,
	  .record = AUDIT_ADMIN_CMD,
	  .check = adm_backup_check, .body = adm_backup_body },
	{ .noun = "migrate", .help = "Bring the store to this program's schema",
	  .detail = "Opening a store for writing does the same; a store that a newer program made is refused.",
	  .args = migrate_args, .done = "schema %{from} -> %{to}: %{said}", .role = ADM_OWNER, .where = ADM_ON_CTL },
	{ .noun = "help", .help = "Explain a command", .args = help_args, .storeless = true, .role = ADM_READ,
	  .where = ADM_ON_CTL },
	{ .noun = "completion", .help = "Print the completion for a shell",
	  .detail = "For example: toolcrib completion bash > /etc/bash_completion.d/toolcrib", .args = completion_args,
	  .storeless = true, .role = ADM_READ, .where = ADM_ON_CTL },

	{ .noun = "tenant", .verb = "add", .help = "Add a tenant", .args = tenant_add_args, .done = "tenant %{name} added",
	  .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = adm_tenant_add_check, .body = adm_tenant_add_body },
	{ .noun = "tenant", .verb = "list", .help = "List the tenants", .args = no_args, .columns = tenant_list_cols,
	  .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL,
	  .body = adm_tenant_list_body },
	{ .noun = "tenant", .verb = "show", .help = "Show a tenant", .args = tenant_args, .columns = tenant_cols,
	  .shape = ADM_ITEM, .role = ADM_READ, .own = "tenant", .where = ADM_ON_POOL,
	  .check = adm_tenant_name_check, .body = adm_tenant_show_body },
	{ .noun = "tenant", .verb = "set", .help = "Change a tenant's title and limits",
	  .detail = "What is not named stays as it is.", .args = tenant_set_args, .done = "tenant %{name} changed",
	  .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = adm_tenant_set_check, .body = adm_tenant_set_body },
	{ .noun = "tenant", .verb = "suspend", .help = "Refuse all of a tenant's agents until resume",
	  .detail = "No request of theirs is served once the command returns: sessions and streams are over, running calls are "
		    "cancelled, and connections close behind the answers to those.", .args = tenant_args,
	  .done = "tenant %{name} suspended: %{calls} calls cancelled, %{connections} connections ended", .destructive = true, .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .check = adm_tenant_name_check, .body = adm_tenant_suspend_body, .after = adm_tenant_out_after },
	{ .noun = "tenant", .verb = "resume", .help = "Let a suspended tenant's agents in again", .args = tenant_args,
	  .done = "tenant %{name} resumed", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .check = adm_tenant_name_check, .body = adm_tenant_resume_body },
	{ .noun = "tenant", .verb = "remove", .help = "Remove a tenant with its keys and grants",
	  .detail = "Its records stay.  The name may be given to a new tenant.", .args = tenant_args,
	  .done = "tenant %{name} removed", .destructive = true, .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = adm_tenant_name_check, .body = adm_tenant_remove_body, .after = adm_tenant_out_after },

	{ .noun = "principal", .verb = "list", .help = "List the principals of a tenant", .args = tenant_args,
	  .columns = principal_list_cols, .shape = ADM_TABLE, .role = ADM_READ, .own = "tenant", .where = ADM_ON_POOL,
	  .check = adm_tenant_name_check, .body = adm_principal_list_body },
	{ .noun = "principal", .verb = "show", .help = "Show a principal", .args = principal_args, .columns = principal_cols,
	  .shape = ADM_ITEM, .role = ADM_READ, .own = "principal", .where = ADM_ON_POOL,
	  .check = adm_principal_check, .body = adm_principal_show_body },
	{ .noun = "principal", .verb = "set", .help = "Suspend a principal or let it in again",
	  .detail = "What a suspended one has open ends as with tenant suspend.", .args = principal_set_args,
	  .done = "principal %{tenant}/%{name} is %{state}", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .check = adm_principal_check, .body = adm_principal_set_body, .after = adm_principal_set_after },

	{ .noun = "key", .verb = "create", .help = "Create a key and show it once",
	  .detail = "The key goes to standard output, the rest to standard error.  Only a keyed hash of it is stored: "
		    "nobody can show it again.  A tenant has at most 10000 keys that are not revoked, and 10000 principals.",
	  .args = key_create_args, .columns = key_create_cols,
	  .done = "key %{accessor} of %{principal} expires %{expires}; it is not shown again", .shape = ADM_SECRET,
	  .role = ADM_OWNER, .own = "principal", .where = ADM_ON_WRITER,
	  .check = adm_key_create_check, .body = adm_key_create_body },
	{ .noun = "key", .verb = "list", .help = "List keys", .args = key_list_args, .columns = key_list_cols,
	  .shape = ADM_TABLE, .role = ADM_READ, .own = "tenant", .where = ADM_ON_POOL,
	  .check = adm_key_list_any_check, .body = adm_key_list_any_body },
	{ .noun = "key", .verb = "show", .help = "Show what is known of a key", .args = key_args, .columns = key_cols,
	  .shape = ADM_ITEM, .role = ADM_READ, .own = "tenant", .where = ADM_ON_POOL,
	  .check = adm_key_refs_check, .body = adm_key_show_body },
	{ .noun = "key", .verb = "rotate", .help = "Give a key a new secret and show it once",
	  .detail = "The key keeps its accessor, scopes, limits and history.  For the time of the overlap both secrets are "
		    "valid, and never more than two.  Connections and streams that the old one opened end with it.",
	  .args = key_rotate_args, .columns = key_create_cols,
	  .done = "key %{accessor} of %{principal} expires %{expires}; its new secret is not shown again", .shape = ADM_SECRET,
	  .role = ADM_OWNER, .own = "tenant", .where = ADM_ON_WRITER,
	  .check = adm_key_rotate_check, .body = adm_key_rotate_body },
	{ .noun = "key", .verb = "enroll", .help = "Exchange a one-shot key for the key that it stands for",
	  .detail = "The key has what was said when the one-shot key was created.  Revoking the one-shot key revokes it.",
	  .args = key_enroll_args, .columns = key_create_cols,
	  .done = "key %{accessor} of %{principal} expires %{expires}; it is not shown again", .shape = ADM_SECRET,
	  .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .check = adm_key_enroll_check, .body = adm_key_enroll_body },
	{ .noun = "key", .verb = "suspend", .help = "Refuse keys until resume",
	  .detail = "No request with the key is served once the command returns: its sessions and streams are over, its running "
		    "calls are cancelled, and its connections close behind the answers to those.  Other keys of the principal "
		    "are served.", .args = key_suspend_args,
	  .done = "key %{accessor} of %{principal} suspended: %{calls} calls cancelled, %{connections} connections ended",
	  .destructive = true, .role = ADM_OPERATE, .own = "tenant", .where = ADM_ON_WRITER,
	  .check = adm_key_suspend_check, .body = adm_key_suspend_body, .after = adm_key_suspend_after },
	{ .noun = "key", .verb = "resume", .help = "Let suspended keys in again", .args = key_suspend_args,
	  .done = "key %{accessor} of %{principal} resumed", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .check = adm_key_suspend_check, .body = adm_key_resume_body },
	{ .noun = "key", .verb = "revoke", .help = "Revoke keys for ever",
	  .detail = "The next request with the key fails and its connections end before the command returns; running "
		    "calls end by themselves.  What a one-shot key was exchanged for is revoked with it.",
	  .args = key_revoke_args, .done = "key %{accessor} of %{principal} revoked", .destructive = true, .role = ADM_OPERATE, .own = "tenant",
	  .where = ADM_ON_WRITER,
	  .check = adm_key_refs_check, .body = adm_key_revoke_body, .after = adm_key_revoke_after },

	{ .noun = "tool", .verb = "add", .help = "Store tools, or new versions of them",
	  .detail = "All documents or none.  A definition that differs from the version in force becomes the next "
		    "version; one that does not changes nothing.  " BELOW_DETAIL,
	  .args = files_args, .done = "tool %{name}: version %{version} %{said}", .role = ADM_OWNER, .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER,
	  .check = adm_tool_add_check, .body = adm_tool_add_body },
	{ .noun = "tool", .verb = "list", .help = "List the tools", .args = no_args, .columns = tool_list_cols,
	  .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL,
	  .body = adm_tool_list_body },
	{ .noun = "tool", .verb = "show", .help = "Show a tool and its definition", .args = tool_show_args,
	  .columns = tool_cols, .shape = ADM_ITEM, .role = ADM_READ, .where = ADM_ON_POOL,
	  .check = adm_tool_names_check, .body = adm_tool_show_body },
	{ .noun = "tool", .verb = "enable", .help = "Show disabled tools again", .args = tools_args,
	  .done = "tool %{name} enabled", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .check = adm_tool_names_check, .body = adm_tool_enable_body },
	{ .noun = "tool", .verb = "disable", .help = "Hide tools from all tenants",
	  .detail = "Running calls end by themselves, with --kill at once.  tool enable takes it back.", .args = tool_disable_args,
	  .done = "tool %{name} disabled, %{calls} calls cancelled", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .check = adm_tool_names_check, .body = adm_tool_disable_body, .after = adm_tool_disable_after },
	{ .noun = "tool", .verb = "remove", .help = "Remove tools",
	  .detail = "The versions stay for the records that name them; adding the tool again goes on counting.",
	  .args = tools_args, .done = "tool %{name} removed", .destructive = true, .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = adm_tool_names_check, .body = adm_tool_remove_body },
	{ .noun = "tool", .verb = "history", .help = "List the versions of a tool", .args = tool_history_args,
	  .columns = tool_history_cols, .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL,
	  .check = adm_tool_history_any_check, .body = adm_tool_history_any_body },
	{ .noun = "tool", .verb = "diff", .help = "Show what differs between two versions of a tool", .args = tool_diff_args,
	  .shape = ADM_DIFF, .role = ADM_READ, .where = ADM_ON_POOL,
	  .check = adm_tool_versions_check, .body = adm_tool_diff_body },
	{ .noun = "tool", .verb = "revert", .help = "Put an older version of a tool in force again",
	  .detail = "It becomes the next version, by the rules of today.  A disabled tool stays disabled.", .args = tool_revert_args,
	  .done = "tool %{name}: version %{version} says what version %{as} said%{waits}", .role = ADM_OWNER,
	  .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER, .check = adm_tool_versions_check, .body = adm_tool_revert_body },
	{ .noun = "tool", .verb = "test", .help = "Run a definition without storing it", .args = tool_test_args,
	  .runs = true, .shape = ADM_CONTENT, .role = ADM_OWNER, .where = ADM_ON_LOOP, .record = AUDIT_ADMIN_CMD,
	  .check = adm_tool_test_check, .body = adm_tool_test_body },
	{ .noun = "tool", .verb = "lint", .help = "Say what MCP hosts choke on in a definition",
	  .detail = "Needs no store; with one, its shared schemas are known, as are those among the documents.  Exit status 4 "
	  "when there is something to say.", .args = files_args,
	  .columns = finding_cols, .shape = ADM_FINDINGS, .store_if_any = true, .role = ADM_READ, .where = ADM_ON_LOOP,
	  .body = adm_tool_lint_body },
	PENDING_ROWS,

	{ .noun = "schema", .verb = "add", .help = "Store schemas for definitions to share",
	  .detail = "All documents or none.  A definition refers to one by its $id: {$ref: https://example.com/schemas/address}.  "
	  "What a version of a tool refers to stays as it is: another text needs an $id of its own.  Lists of tools show the "
	  "schema inside of the tool's.",
	  .args = schema_add_args, .done = "schema %{id} %{said}", .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = adm_schema_add_check, .body = adm_schema_add_body },
	{ .noun = "schema", .verb = "list", .help = "List the shared schemas and the tools that use them", .args = no_args,
	  .columns = schema_list_cols, .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL,
	  .body = adm_schema_list_body },
	{ .noun = "schema", .verb = "show", .help = "Show a shared schema and who uses it", .args = schema_args,
	  .columns = schema_cols, .shape = ADM_ITEM, .role = ADM_READ, .where = ADM_ON_POOL,
	  .check = adm_schema_names_check, .body = adm_schema_show_body },
	{ .noun = "schema", .verb = "remove", .help = "Remove shared schemas that no tool uses",
	  .detail = "Old versions of tools that refer to it stay readable; they can be stored again once the schema is back.",
	  .args = schemas_args, .done = "schema %{id} removed", .destructive = true, .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = adm_schema_names_check, .body = adm_schema_remove_body },
	{ .noun = "schema", .verb = "check", .help = "Check a JSON Schema, and documents by it",
	  .detail = "Needs no store; with one, its shared schemas are known.  The schema is held to the rules for those of tools, and failures are said in the words "
	  "that a caller of a tool reads.  Exit status 4 when there is something to say.", .args = schema_check_args,
	  .columns = finding_cols, .shape = ADM_FINDINGS, .store_if_any = true, .role = ADM_READ, .where = ADM_ON_LOOP,
	  .body = adm_schema_check_body },

	HOSTED_ROWS(prompt, "prompts", tool_list_cols),
	HOSTED_ROWS(resource, "resources and templates", resource_list_cols),

	{ .noun = "secret", .verb = "set", .help = "Store a value that tools get by name",
	  .detail = "A definition says {secret:NAME}.  The value is 4 bytes to 64 KiB of UTF-8 text; one line break at its end is "
		    "dropped.  It is encrypted in the store, nobody can show it again, and it is blanked from what tools say.  "
		    "Calls that begin from now on use it.",
	  .args = secret_set_args, .done = "secret %{name} %{said}", .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = adm_secret_set_check, .body = adm_secret_set_body, .after = adm_secret_set_after },
	{ .noun = "secret", .verb = "list", .help = "List secrets and the tools that use them, never a value",
	  .detail = "Also those that a tool uses and nobody has set.", .args = no_args, .columns = secret_list_cols,
	  .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL,
	  .body = adm_secret_list_body },
	{ .noun = "secret", .verb = "remove", .help = "Remove secrets",
	  .detail = "Refused while an enabled tool uses one; with --force calls of such a tool fail until it is set again.",
	  .args = secret_remove_args, .done = "secret %{name} removed", .destructive = true, .role = ADM_OWNER,
	  .where = ADM_ON_WRITER,
	  .check = adm_secret_remove_check, .body = adm_secret_remove_body, .after = adm_secret_remove_after },
	{ .noun = "secret", .verb = "rekey", .help = "Encrypt all secrets under a new key",
	  .detail = "Makes a key file beside the store and rewrites the secrets, 64 in each transaction, while the server "
		    "serves.  When it is interrupted, the same command goes on.  The old key file is removed after the last "
		    "one; master.key stays, since it is needed to check keys.  A backup made before needs the key file of then.",
	  .args = no_args, .done = "%{rewritten} secrets are under the new key %{key}, %{left} are left", .stepwise = true,
	  .role = ADM_OWNER, .where = ADM_ON_WRITER,
	  .check = adm_secret_rekey_check, .body = adm_secret_rekey_body, .after = adm_secret_rekey_after },

	{ .noun = "grant", .verb = "add", .help = "Let a tenant use tools, prompts and resources",
	  .detail = "The tenant's agents are told before the command returns.  Limits may lower those of the tool, never "
		    "raise them.  A grant may come before its tool.",
	  .args = grant_add_args, .done = "%{tenant}: %{tool} %{said}", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .check = adm_grant_check, .body = adm_grant_add_body },
	{ .noun = "grant", .verb = "list", .help = "List grants", .args = grant_list_args, .columns = grant_list_cols,
	  .shape = ADM_TABLE, .role = ADM_READ, .own = "tenant", .where = ADM_ON_POOL,
	  .check = adm_grant_check, .body = adm_grant_list_body },
	{ .noun = "grant", .verb = "remove", .help = "Take grants back", .args = grant_remove_args,
	  .done = "%{tool} no longer granted to %{tenant}", .destructive = true, .role = ADM_OPERATE, .own = "tenant", .where = ADM_ON_WRITER,
	  .check = adm_grant_check, .body = adm_grant_remove_body },
	{ .noun = "grant", .verb = "set", .help = "Change the alias and limits of a grant",
	  .detail = "What is not named stays as it is.", .args = grant_set_args,
	  .done = "grant of %{tool} to %{tenant} changed", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .check = adm_grant_set_check, .body = adm_grant_set_body },

	{ .noun = "upstream", .verb = "add", .help = "Add an MCP server whose tools, prompts and resources are hosted",
	  .detail = "Nothing is started or asked yet: upstream sync does that.  One that is there is changed, as by upstream set.",
	  .args = upstream_add_args, .done = "upstream %{name} %{said}", .role = ADM_OWNER, .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER,
	  .check = adm_upstream_add_check, .body = adm_upstream_add_body, .after = adm_upstream_after },
	{ .noun = "upstream", .verb = "list", .help = "List the upstreams",
	  .detail = "RESOURCES counts templates as well, WAITING what changed there, is gone there, is new or cannot be hosted.",
	  .args = no_args, .columns = upstream_list_cols, .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL,
	  .body = adm_upstream_list_body },
	{ .noun = "upstream", .verb = "show", .help = "Show an upstream and what has become of what it has",
	  .detail = "With --json each tool, prompt and resource is listed.", .args = upstream_args, .columns = upstream_cols, .shape = ADM_ITEM,
	  .role = ADM_READ, .where = ADM_ON_POOL, .check = adm_upstream_name_check, .body = adm_upstream_show_body },
	{ .noun = "upstream", .verb = "set", .help = "Change an upstream",
	  .detail = "What is not named stays as it is; a variable or header with an empty value is taken away.  Links under "
		    "the old settings end when their calls have ended.  Where new versions have to be approved (approval versions), "
		    "a change of one that has tools here needs a second administrator: see approval list; --enabled alone does not.",
	  .args = upstream_set_args, .done = "upstream %{name} %{said}", .role = ADM_OWNER, .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER,
	  .check = adm_upstream_set_check, .body = adm_upstream_set_body, .after = adm_upstream_after },
	{ .noun = "upstream", .verb = "sync", .help = "Read what an upstream has and store it",
	  .detail = "Each tool, prompt, resource and template becomes one here whose digest is pinned.  One that has changed "
		    "there since it was accepted, or is gone, is disabled until upstream accept.  The server looks by itself when "
		    "an upstream says that a list has changed, and then stores nothing new.",
	  .args = upstream_sync_args, .columns = upstream_sync_cols, .runs = true, .shape = ADM_TABLE, .role = ADM_OWNER,
	  .where = ADM_ON_WRITER, .check = adm_upstream_sync_check, .gather = adm_upstream_sync_gather,
	  .body = adm_upstream_sync_body },
	{ .noun = "upstream", .verb = "accept", .help = "Accept what has become of what an upstream has",
	  .detail = "What was seen at the last sync is stored and pinned, as a new version that is enabled; what is gone there "
		    "is removed.  The upstream is not asked again.",
	  .args = upstream_accept_args, .columns = upstream_sync_cols, .shape = ADM_TABLE, .role = ADM_OWNER,
	  .where = ADM_ON_WRITER, .check = adm_upstream_accept_check, .body = adm_upstream_accept_body },
	{ .noun = "upstream", .verb = "remove", .help = "Remove an upstream with all that it brought",
	  .detail = "Grants stay, as with any tool that is removed.", .args = upstream_args, .done = "upstream %{name} %{said}",
	  .destructive = true, .role = ADM_OWNER, .where = ADM_ON_WRITER, .check = adm_upstream_name_check,
	  .body = adm_upstream_remove_body, .after = adm_upstream_after },

	{ .noun = "apply", .help = "Bring the store to what files say",
	  .detail = "Documents of every kind, in any order, all of them or none.  What differs is shown: + added, ~ changed, - removed; "
	  "when nothing does, nothing is changed.  With --prune, what no document names is removed, of each kind that the "
	  "documents have any of; of grants, those of tenants that the documents name.  Tools of upstreams stay: they come by "
	  "upstream sync.  " BELOW_DETAIL,
	  .args = apply_args, .shape = ADM_DIFF, .destructive_with = "prune", .role = ADM_OWNER, .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER,
	  .check = adm_apply_check, .body = adm_apply_body, .after = adm_apply_after },
	{ .noun = "export", .help = "Write what the store holds as files for apply",
	  .detail = "Keys and tools of upstreams are left out.  Applying what was exported changes nothing.",
	  .args = export_args, .shape = ADM_DOCUMENTS, .role = ADM_READ, .where = ADM_ON_POOL,
	  .check = adm_export_check, .body = adm_export_body },

	{ .noun = "import", .verb = "openapi", .help = "Write tools for the operations of a REST API",
	  .detail = "For review: nothing is stored.  Each operation becomes a document with an http handler.  What cannot be said is "
	  "named on standard error, with its place in the description.  Needs no store.",
	  .args = import_openapi_args, .shape = ADM_DOCUMENTS, .storeless = true, .role = ADM_READ, .where = ADM_ON_LOOP,
	  .body = adm_import_openapi_body },

	{ .noun = "call", .help = "Call a tool, get a prompt or read a resource as a tenant", .detail = "Audited and limited like any call.",
	  .args = call_args, .runs = true, .shape = ADM_CONTENT, .role = ADM_OPERATE, .where = ADM_ON_LOOP,
	  .body = adm_call_body },

	{ .noun = "audit", .verb = "show", .help = "Show the records of a call", .args = audit_show_args,
	  .columns = audit_show_cols, .shape = ADM_TABLE, .role = ADM_AUDIT, .where = ADM_ON_POOL,
	  .record = AUDIT_AUDIT_READ,
	  .check = adm_audit_show_check, .body = adm_audit_show_body },
	PAYLOAD_ROW,
#define REPORT(v, help_, detail_, args_, columns_) \
	{ .noun = "audit", .verb = v, .help = help_, .detail = detail_, .args = args_, .columns = columns_, .shape = ADM_REPORT, \
	  .role = ADM_AUDIT, .where = ADM_ON_POOL, .record = AUDIT_AUDIT_READ, .check = adm_report_check, .body = adm_report_body },
#include "report_rows.def"
	{ .noun = "audit", .verb = "tool-health", .help = "Count a tenant's calls, failures and times by tool",
	  .args = audit_tool_health_args,
	  .detail = "P50, P95 and P99 are the times within which so many of a hundred of the calls that ran had ended: upper bounds, an "
	  "eighth too large at most.",
	  .columns = tool_health_cols, .shape = ADM_REPORT, .role = ADM_AUDIT, .where = ADM_ON_POOL, .record = AUDIT_AUDIT_READ,
	  .check = adm_tool_health_check, .body = adm_tool_health_body },
	{ .noun = "audit", .verb = "review", .help = "Sign that the audit was reviewed", .args = audit_review_args,
	  .detail = "Writes a record of who looked and how far; audit reviews lists them.",
	  .done = "review of the log of %{log} up to record %{to} signed, as record %{index}", .role = ADM_OPERATE,
	  .where = ADM_ON_WRITER, .check = adm_review_check, .body = adm_review_body },
	{ .noun = "audit", .verb = "tail", .help = "Show the newest records, and follow", .args = audit_tail_args,
	  .columns = tail_cols, .shape = ADM_REPORT, .stream = true, .role = ADM_AUDIT, .where = ADM_ON_POOL, .record = AUDIT_AUDIT_READ,
	  .check = adm_tail_check, .body = adm_feed_body },
	{ .noun = "audit", .verb = "export", .help = "Write all records, and follow", .args = audit_export_args,
	  .detail = "One object for each record, with the bytes that are hashed.  With --cursor each record is written at least once: "
	  "the file is brought up to date after what it says has been written.", .shape = ADM_REPORT, .stream = true,
	  .role = ADM_AUDIT, .where = ADM_ON_POOL, .record = AUDIT_AUDIT_EXPORT, .check = adm_audit_export_check, .body = adm_feed_body },
	{ .noun = "audit", .verb = "export-check", .help = "List logs whose export stays behind", .args = audit_export_check_args,
	  .detail = "Must be empty: exit status 4 when it is not.  A cursor that is ahead of its log means that records are missing "
	  "in the store.", .shape = ADM_REPORT, .role = ADM_AUDIT, .where = ADM_ON_POOL, .record = AUDIT_AUDIT_READ,
	  .check = adm_export_check_check, .body = adm_export_check_body },
	{ .noun = "audit", .verb = "stats", .help = "Chart calls, errors and times", .args = audit_stats_args,
	  .detail = "Of the last day, when no time is given.  Bars are calls, their end in another sign those that failed or were "
	  "refused.", .columns = stats_cols, .shape = ADM_CHART, .role = ADM_AUDIT, .where = ADM_ON_POOL, .record = AUDIT_AUDIT_READ,
	  .check = adm_stats_check, .body = adm_stats_body },
	{ .noun = "audit", .verb = "proof", .help = "Prove to an outsider that a call is in its tenant's log",
	  .detail = "Prints a C2SP tlog-proof: the bytes of the record, its place, the hashes that lead from it to the root of the "
	  "log's newest signed checkpoint, and that checkpoint.  Whoever has the log's public key checks it without the store: "
	  "with contrib/verify/verify.py, or any tool that knows transparency logs.  It shows nothing of other records.",
	  .args = audit_proof_args, .columns = audit_proof_cols, .done = "record %{index} of %{tenant}, in a log of %{size}",
	  .shape = ADM_TEXT, .role = ADM_READ, .where = ADM_ON_POOL, .record = AUDIT_AUDIT_EXPORT,
	  .check = adm_audit_proof_check, .body = adm_audit_proof_body },
	{ .noun = "audit", .verb = "verify", .help = "Check that no record was changed, removed or added",
	  .detail = "Computes each record's hash and each log's tree anew and compares them with what is stored; checks the "
	  "dictionary, that begins and ends of calls belong together, and the database's own soundness.  The last row says "
	  "what was looked at.  Exit status 4 when something is bad, 5 when only something could not be checked: a begin "
	  "without an end is a call that runs, or a crash.", .args = audit_verify_args,
	  .columns = verify_cols, .shape = ADM_FINDINGS, .role = ADM_AUDIT, .where = ADM_ON_POOL, .record = AUDIT_AUDIT_VERIFY,
	  .check = adm_audit_verify_check, .body = adm_audit_verify_body },
	SIGN_ROWS,
	BUNDLE_ROW,
	APPROVAL_ROWS,
	VERSIONS_POLICY_ROW,
	HOLD_ROWS,
	RETENTION_ROWS,
	ERASE_ROW,
	LEVEL_ROWS,
	LIMIT_ROWS,
	{ .noun = "session", .verb = "list", .help = "List who is connected",
	  .detail = "Connections, sessions, listens, and calls that have neither.  The ID is for session kill, and of this run of the server.",
	  .args = session_list_args, .columns = session_list_cols, .shape = ADM_TABLE, .role = ADM_READ, .own = "tenant", .where = ADM_ON_LOOP,
	  .body = adm_session_list_body },
	{ .noun = "session", .verb = "kill", .help = "End a connection, a session or a call",
	  .detail = "Its calls are cancelled and answered, then it is closed.  Whoever it was may come again: tenant suspend, "
		    "principal set, key suspend and key revoke keep somebody out.",
	  .args = session_kill_args, .done = "session %{id} ended, %{calls} calls cancelled", .role = ADM_OPERATE, .own = "tenant",
	  .where = ADM_ON_LOOP, .record = AUDIT_ADMIN_CMD, .check = adm_session_kill_check, .body = adm_session_kill_body },
	{ .noun = NULL },
};
