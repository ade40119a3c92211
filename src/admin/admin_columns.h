#ifndef ADMIN_COLUMNS_H
#define ADMIN_COLUMNS_H

#include "admin/admin.h"

/* What commands show: members of their answers and titles for people.  A part of admin_table.c. */

#define COL(member, title) { member, title, COL_PLAIN }
#define COL_AT(member, title) { member, title, COL_TIME }
#define COL_END { NULL, NULL, COL_PLAIN }

static const struct adm_column init_cols[] = { COL("store", "Store"), COL("admin_socket", "Admin socket"),
	COL("log_key", "Pin this key"), COL("epoch_key", "and this one"), COL_END };
static const struct adm_column status_cols[] = {
	COL("store", "Store"), COL("version", "Version"), COL("mode", "Mode"), COL("state", "State"), COL("pid", "Process"),
	COL_AT("started", "Started"), COL("audit", "Audit"), COL("sandbox", "Sandbox"), COL("clock", "Clock"),
	COL("tenants", "Tenants"), COL("tools", "Tools"),
	COL("keys", "Keys"), COL("records", "Records"), COL("running", "Running calls"), COL("peers", "Connected"),
	COL("listeners", "Listeners"), COL_END };
static const struct adm_column admin_key_cols[] = { COL("key", "KEY"), COL_END };
static const struct adm_column tenant_list_cols[] = {
	COL("name", "NAME"), COL("state", "STATE"), COL("concurrency", "CONCURRENCY"), COL("rate", "RATE"),
	COL("title", "TITLE"), COL_END };
static const struct adm_column tenant_cols[] = {
	COL("name", "Name"), COL("title", "Title"), COL("state", "State"), COL("concurrency", "Concurrency"),
	COL("rate", "Rate"), COL("sandbox", "Sandbox"), COL("principals", "Principals"), COL("keys", "Keys"), COL("grants", "Grants"),
	COL("generation", "Generation"), COL_AT("created", "Created"), COL_END };
static const struct adm_column principal_list_cols[] = {
	COL("principal", "PRINCIPAL"), COL("state", "STATE"), COL("pseudonym", "PSEUDONYM"), COL_AT("created", "CREATED"),
	COL_END };
static const struct adm_column principal_cols[] = {
	COL("principal", "Principal"), COL("state", "State"), COL("pseudonym", "Pseudonym"), COL("keys", "Keys"),
	COL_AT("created", "Created"), COL_END };
static const struct adm_column key_create_cols[] = { COL("key", "KEY"), COL_END };
static const struct adm_column key_list_cols[] = {
	COL("accessor", "ACCESSOR"), COL("principal", "PRINCIPAL"), COL("state", "STATE"), COL_AT("expires", "EXPIRES"),
	COL_AT("old_secret_until", "OLD SECRET UNTIL"), COL_AT("last_used", "LAST USED"), COL("scopes", "SCOPES"),
	COL("label", "LABEL"), COL_END };
static const struct adm_column key_cols[] = {
	COL("accessor", "Accessor"), COL("principal", "Principal"), COL("state", "State"), COL("label", "Label"),
	COL("scopes", "Scopes"), COL("cidr", "Networks"), COL("arg_rules", "Argument rules"), COL_AT("created", "Created"),
	COL_AT("not_before", "Not before"), COL_AT("expires", "Expires"), COL_AT("rotated", "Rotated"),
	COL_AT("old_secret_until", "Old secret until"), COL_AT("suspended", "Suspended"), COL_AT("revoked", "Revoked"),
	COL_AT("last_used", "Last used"), COL("parent", "Made by"), COL_END };
static const struct adm_column tool_list_cols[] = {
	COL("name", "NAME"), COL("version", "VERSION"), COL("state", "STATE"), COL_AT("changed", "CHANGED"), COL_END };
static const struct adm_column tool_cols[] = {
	COL("name", "Name"), COL("version", "Version"), COL("state", "State"), COL("digest", "Digest"),
	COL("actor", "Added by"), COL_AT("created", "Added"), COL("definition", "Definition"), COL_END };
static const struct adm_column resource_list_cols[] = {
	COL("name", "NAME"), COL("uri", "URI"), COL("version", "VERSION"), COL("state", "STATE"), COL_AT("changed", "CHANGED"),
	COL_END };
static const struct adm_column hosted_cols[] = {
	COL("name", "Name"), COL("kind", "Kind"), COL("version", "Version"), COL("state", "State"), COL("digest", "Digest"),
	COL("actor", "Added by"), COL_AT("created", "Added"), COL("definition", "Definition"), COL_END };
static const struct adm_column tool_history_cols[] = {
	COL("version", "VERSION"), COL("in_force", "IN FORCE"), COL_AT("created", "ADDED"), COL("actor", "BY"),
	COL("digest", "DIGEST"), COL_END };
static const struct adm_column schema_list_cols[] = {
	COL("id", "ID"), COL("tools", "TOOLS"), COL_AT("created", "ADDED"), COL_END };
static const struct adm_column schema_cols[] = {
	COL("id", "Id"), COL("digest", "Digest"), COL("actor", "Added by"), COL_AT("created", "Added"), COL("tools", "Tools"),
	COL("schemas", "Schemas"), COL("refers_to", "Refers to"), COL("schema", "Schema"), COL_END };
static const struct adm_column finding_cols[] = {
	COL("where", "PLACE"), COL("finding", "FINDING"), COL_END };
static const struct adm_column denied_cols[] = {
	COL_AT("time", "TIME"), COL("tool", "TOOL"), COL("principal", "PRINCIPAL"), COL("key", "KEY"), COL("rule", "RULE"),
	COL("outcome", "OUTCOME"), COL("detail", "DETAIL"), COL_END };
static const struct adm_column admin_cols[] = {
	COL_AT("time", "TIME"), COL("kind", "KIND"), COL("object", "OBJECT"), COL("principal", "PRINCIPAL"), COL("detail", "DETAIL"),
	COL_END };
static const struct adm_column credentials_cols[] = {
	COL_AT("time", "TIME"), COL("tenant", "TENANT"), COL("kind", "KIND"), COL("key", "KEY"), COL("principal", "PRINCIPAL"),
	COL("detail", "DETAIL"), COL_END };
static const struct adm_column tool_health_cols[] = {
	COL("tool", "TOOL"), COL("calls", "CALLS"), COL("ok", "OK"), COL("errors", "ERRORS"), COL("timeouts", "TIMEOUTS"),
	COL("refused", "REFUSED"), COL("other", "OTHER"), COL("p50_ms", "P50 MS"), COL("p95_ms", "P95 MS"),
	COL("p99_ms", "P99 MS"), COL("max_ms", "MAX MS"), COL_END };
static const struct adm_column tail_cols[] = {
	COL_AT("time", "TIME"), COL("tenant", "TENANT"), COL("kind", "KIND"), COL("tool", "TOOL"), COL("principal", "PRINCIPAL"),
	COL("outcome", "OUTCOME"), COL("ms", "MS"), COL("detail", "DETAIL"), COL_END };
static const struct adm_column stats_cols[] = {
	COL_AT("time", "TIME"), COL("calls", "CALLS"), COL("errors", "ERRORS"), COL("timeouts", "TIMEOUTS"),
	COL("refused", "REFUSED"), COL("p50_ms", "P50 MS"), COL("p95_ms", "P95 MS"), COL("p99_ms", "P99 MS"), COL_END };
static const struct adm_column verify_cols[] = {
	COL("finding", "FINDING"), COL("log", "LOG"), COL("from", "FROM"), COL("to", "TO"), COL("detail", "DETAIL"), COL_END };
static const struct adm_column secret_list_cols[] = {
	COL("name", "NAME"), COL("set", "SET"), COL_AT("changed", "CHANGED"), COL("actor", "BY"), COL("tools", "USED BY"),
	COL_END };
static const struct adm_column grant_list_cols[] = {
	COL("tenant", "TENANT"), COL("tool", "TOOL"), COL("alias", "ALIAS"), COL("rate", "RATE"),
	COL("concurrency", "CONCURRENCY"), COL_AT("created", "GRANTED"), COL_END };
static const struct adm_column upstream_list_cols[] = {
	COL("name", "NAME"), COL("state", "STATE"), COL("by", "BY"), COL("revision", "REVISION"), COL("tools", "TOOLS"),
	COL("prompts", "PROMPTS"), COL("resources", "RESOURCES"), COL("waiting", "WAITING"), COL_AT("synced", "SYNCED"), COL_END };
static const struct adm_column upstream_cols[] = {
	COL("name", "Name"), COL("state", "State"), COL("server", "Calls itself"), COL("revision", "Revision"),
	COL_AT("synced", "Synced"), COL("prefix", "Prefix"), COL("uriPrefix", "URI prefix"),
	COL("tools", "Hosted"), COL("links", "Open links"),
	COL("calls", "Running calls"), COL("error", "Last failure"), COL_AT("created", "Added"), COL("digest", "Digest"),
	COL("definition", "Definition"), COL_END };
static const struct adm_column upstream_sync_cols[] = {
	COL("there", "THERE"), COL("said", "SAID"), COL("tool", "TOOL"), COL("version", "VERSION"), COL("why", "WHY"), COL_END };
static const struct adm_column audit_calls_cols[] = {
	COL_AT("time", "TIME"), COL("tool", "TOOL"), COL("principal", "PRINCIPAL"), COL("outcome", "OUTCOME"),
	COL("ms", "MS"), COL("transport", "BY"), COL("rule", "RULE"), COL("call", "CALL"), COL_END };
static const struct adm_column audit_proof_cols[] = { COL("proof", "Proof"), COL_END };
static const struct adm_column audit_show_cols[] = {
	COL("index", "INDEX"), COL("kind", "KIND"), COL_AT("time", "TIME"), COL("tool", "TOOL"),
	COL("principal", "PRINCIPAL"), COL("outcome", "OUTCOME"), COL("rule", "RULE"), COL("sandbox", "SANDBOX"),
	COL("detail", "DETAIL"), COL_END };
static const struct adm_column session_list_cols[] = {
	COL("id", "ID"), COL("tenant", "TENANT"), COL("principal", "PRINCIPAL"), COL("kind", "KIND"), COL("revision", "REVISION"),
	COL("client", "CLIENT"), COL("running", "RUNNING"), COL("listening", "LISTENING"), COL_AT("since", "SINCE"), COL_END };

#define BELOW_DETAIL \
	"A definition whose own audit level comes to lie below the server's or a tenant's needs a second administrator: see approval list."
/* The rows of prompts and of resources: what tools have, but for lint. */
#define HOSTED_ROWS(word, words, list_columns) \
	{ .noun = #word, .verb = "add", .help = "Store " words ", or new versions of them", \
	  .detail = "All documents or none.  A definition that differs from the version in force becomes the next " \
		    "version; one that does not changes nothing.  " BELOW_DETAIL, \
	  .args = files_args, .done = #word " %{name}: version %{version} %{said}", .role = ADM_OWNER, .second = ADM_SECOND_ASKED, \
	  .where = ADM_ON_WRITER, .check = adm_tool_add_check, .body = adm_tool_add_body }, \
	{ .noun = #word, .verb = "list", .help = "List the " words, .args = no_args, .columns = list_columns, \
	  .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL, .body = adm_tool_list_body }, \
	{ .noun = #word, .verb = "show", .help = "Show a " #word " and its definition", .args = word##_show_args, \
	  .columns = hosted_cols, .shape = ADM_ITEM, .role = ADM_READ, .where = ADM_ON_POOL, \
	  .check = adm_tool_names_check, .body = adm_tool_show_body }, \
	{ .noun = #word, .verb = "enable", .help = "Show disabled " words " again", .args = word##s_args, \
	  .done = #word " %{name} enabled", .role = ADM_OPERATE, .where = ADM_ON_WRITER, \
	  .check = adm_tool_names_check, .body = adm_tool_enable_body }, \
	{ .noun = #word, .verb = "disable", .help = "Hide " words " from all tenants", .args = word##s_args, \
	  .done = #word " %{name} disabled", .role = ADM_OPERATE, .where = ADM_ON_WRITER, \
	  .check = adm_tool_names_check, .body = adm_tool_disable_body, .after = adm_tool_disable_after }, \
	{ .noun = #word, .verb = "remove", .help = "Remove " words, \
	  .detail = "The versions stay for the records that name them; adding the " #word " again goes on counting.", \
	  .args = word##s_args, .done = #word " %{name} removed", .destructive = true, .role = ADM_OWNER, \
	  .where = ADM_ON_WRITER, .check = adm_tool_names_check, .body = adm_tool_remove_body }, \
	{ .noun = #word, .verb = "history", .help = "List the versions of a " #word, .args = word##_args, \
	  .columns = tool_history_cols, .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_POOL, \
	  .check = adm_tool_names_check, .body = adm_tool_history_body }, \
	{ .noun = #word, .verb = "diff", .help = "Show what differs between two versions of a " #word, \
	  .args = word##_diff_args, .shape = ADM_DIFF, .role = ADM_READ, .where = ADM_ON_POOL, \
	  .check = adm_tool_versions_check, .body = adm_tool_diff_body }, \
	{ .noun = #word, .verb = "revert", .help = "Put an older version of a " #word " in force again", \
	  .detail = "It becomes the next version, by the rules of today.  A disabled one stays disabled.", \
	  .args = word##_revert_args, .done = #word " %{name}: version %{version} says what version %{as} said%{waits}", \
	  .role = ADM_OWNER, .second = ADM_SECOND_ASKED, .where = ADM_ON_WRITER, \
	  .check = adm_tool_versions_check, .body = adm_tool_revert_body }, \
	{ .noun = #word, .verb = "test", .help = "Run a definition without storing it", .args = word##_test_args, \
	  .runs = true, .shape = ADM_CONTENT, .role = ADM_OWNER, .where = ADM_ON_LOOP, .record = AUDIT_ADMIN_CMD, \
	  .check = adm_tool_test_check, .body = adm_tool_test_body }

#endif
