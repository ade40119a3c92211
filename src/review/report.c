/* The reports of the audit: audit calls, denied, admin and so on, and the signature below them.  What a report is, and
 * what it says, is report/report.h's, in a process of its own (reports.c).  The body of review runs on the writer's
 * thread.  Reading is a record itself, durable before anything is shown (AUDIT A-304). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "command/rows.h"
#include "json/json.h"
#include "notary/notary.h"
#include "tenant/tenant.h"

#include "review_int.h"

#define ROWS_DEFAULT 100
#define SAMPLE_DEFAULT "25"
#define SEED_DEFAULT "1"
#define KINDS_MAX 3000                  /* codes of kinds are below */
#define KEY_STALE_MS (90ull * 24 * 3600 * 1000)

static void free_ask(void *priv)
{
	report_ask_fini(priv);
	free(priv);
}

struct report_ask *report_ask_new(struct command_call *c)
{
	struct report_ask *ask = command_priv(c, sizeof(*ask));

	c->free_priv = free_ask;
	c->elsewhere = &report_elsewhere;
	ask->report = report_find(command_noun(c), command_verb(c));
	ask->way = ask->report->way;
	ask->newest = -1;
	ask->to = -1;
	return ask;
}

/* --- what is asked for */

/* One word of the text, or each of a list. */
static int check_word(const struct report *r, const char *word, size_t len, struct err *err)
{
	char item[72];

	(void)snprintf(item, sizeof(item), " %.*s ", (int)(len < 64 ? len : 64), word);
	if (len > 0 && strstr(r->text_in, item))
		return 0;
	(void)err_set(err, ERR_INVALID, r->text, "%s: \"%.*s\" is none", r->text, (int)(len < 64 ? len : 64), word);
	err_hint(err, "one of:%s", r->text_in);
	return ERR_INVALID;
}

static int check_text(const struct command_call *c, struct report_ask *ask, struct err *err)
{
	const struct report *r = ask->report;
	const char *text = r->text ? arg_text(c, r->text) : NULL;
	int rc = 0;

	if (!text)
		return 0;
	if (strlen(text) + sizeof(",tenant,,") > sizeof(ask->text))
		return err_set(err, ERR_LIMIT, r->text, "%s is too long", r->text);
	ask->as_text = true;
	(void)snprintf(ask->text, sizeof(ask->text), r->text_list ? ",%s," : "%s", text);
	for (const char *word = text; rc == 0 && r->text_in; word += strcspn(word, ",") + 1) {
		size_t len = r->text_list ? strcspn(word, ",") : strlen(word);

		rc = check_word(r, word, len, err);
		if (!word[len])
			break;
	}
	return rc;
}

static int check_outcome(const struct command_call *c, struct report_ask *ask, struct err *err)
{
	const char *outcome = arg_given(c, "outcome") ? arg_text(c, "outcome") : NULL;

	ask->outcome = outcome ? audit_outcome_from_name(outcome) : -1;
	if (!outcome || ask->outcome >= 0)
		return 0;
	(void)err_set(err, ERR_INVALID, "outcome", "outcome: \"%.40s\" is none", outcome);
	err_hint(err, "ok, tool_error, invalid, denied, rate_limited, timeout, cancelled, input_required, crashed, aborted, "
		      "overload, unknown");
	return ERR_INVALID;
}

static int check_kind(const struct command_call *c, struct report_ask *ask, struct err *err)
{
	const char *kind = arg_text(c, "kind");

	if (!kind)
		return 0;
	for (int code = 1; code < KINDS_MAX; code++) {
		if (audit_kind_name(code) && strcmp(audit_kind_name(code), kind) == 0) {
			ask->kind = code;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, "kind", "kind: \"%.40s\" is none; toolcrib-audit(7) names them", kind);
}

/* What was asked, whatever the values mean now; not how many rows of it, and from where on. */
static void digest_question(const struct command_call *c, struct report_ask *ask)
{
	json_t *args = json_deep_copy(c->args);
	struct str text = STR_INIT;

	(void)json_object_del(args, "after");
	(void)json_object_del(args, "limit");
	(void)json_object_del(args, "look");
	(void)json_object_del(args, "wait");
	str_printf(&text, "%s %s ", command_noun(c), command_verb(c));
	jx_write_canon(args, &text);
	digest_sha256(text.p, text.len, ask->question);
	str_fini(&text);
	json_decref(args);
}

static int check_after(const struct command_call *c, struct report_ask *ask, struct err *err)
{
	const char *after = arg_text(c, "after");

	digest_question(c, ask);
	if (!after)
		return 0;
	if (!ask->way->paged)
		return err_set(err, ERR_INVALID, "after", "after: this report has no pages");
	ask->after = mem_strdup(after);
	return 0;
}

/* Of several logs there is no position that all of them have been looked at to. */
static int check_look(const struct command_call *c, struct report_ask *ask, struct err *err)
{
	ask->look = arg_uint(c, "look", 0);
	if (ask->look && !ask->way->walked)
		return err_set(err, ERR_INVALID, "look", "look: counts are of all records");
	return !ask->look || *ask->tenant ? 0 : err_set(err, ERR_INVALID, "look", "--look needs --tenant");
}

/* "NAME", or "TENANT/NAME" where no tenant is given: authority was decided by that one. */
static void copy_principal(const struct command_call *c, struct report_ask *ask)
{
	const char *text = arg_text(c, "principal"), *slash = text && !*ask->tenant ? strchr(text, '/') : NULL;

	if (slash)
		(void)snprintf(ask->tenant, sizeof(ask->tenant), "%.*s", (int)(slash - text), text);
	(void)snprintf(ask->principal, sizeof(ask->principal), "%s", slash ? slash + 1 : text ? text : "");
}

int report_ask_check(struct command_call *c, struct report_ask *ask, struct err *err)
{
	const struct tenant *t;

	ask->line = mem_strdup(command_line(c));
	ask->store = mem_strdup(command_env(c)->store);
	ask->has_key = command_env(c)->notary;
	if (ask->has_key)
		memcpy(ask->log_key, notary_log_key(command_env(c)->notary), sizeof(ask->log_key));
	arg_copy(c, "tenant", ask->tenant, sizeof(ask->tenant));
	arg_copy(c, "tool", ask->tool, sizeof(ask->tool));
	copy_principal(c, ask);
	arg_copy(c, "key", ask->key, sizeof(ask->key));
	ask->since_us = arg_time(c, "since");
	ask->until_us = arg_time(c, "until");
	ask->limit = arg_uint(c, "limit", arg_is_known(c, "limit") ? ROWS_DEFAULT : 0);
	if (*ask->principal && !*ask->tenant)
		return err_set(err, ERR_INVALID, "principal", "--principal needs --tenant");
	if (ask->until_us && ask->until_us <= ask->since_us)
		return err_set(err, ERR_INVALID, "until", "--until is not after --since: nothing lies between");
	t = *ask->tenant ? tenant_by_name(command_env(c)->tenants, ask->tenant, strlen(ask->tenant)) : NULL;
	if (t)
		command_record_in(c, t->id);
	return check_outcome(c, ask, err) < 0 || check_kind(c, ask, err) < 0 ? err->code : 0;
}

static bool is_method(const struct command_call *c, const char *method)
{
	const char *text = arg_text(c, "method");

	return strcmp(text ? text : REPORT_BY_RANK, method) == 0;
}

static const struct report_way *way_of(const struct command_call *c, const struct report *r)
{
	const struct report_way *way = r->way;

	while ((way->option && !arg_given(c, way->option)) || (way->method && !is_method(c, way->method)))
		way++;
	return way;
}

static bool has_word(const struct report_ask *ask, const char *word)
{
	char item[40];

	(void)snprintf(item, sizeof(item), ",%s,", word);
	return strstr(ask->text, item) != NULL;
}

/* People of two tenants are two, whatever their names: so the list of --group-by has the tenant, too. */
static void add_tenant(struct report_ask *ask)
{
	size_t len = strlen(ask->text);

	if ((has_word(ask, "principal") || has_word(ask, "obo")) && !has_word(ask, "tenant"))
		(void)snprintf(ask->text + len, sizeof(ask->text) - len, "tenant,");
}

/* Which sample it is: all that its record says, so that it can be drawn again (SC-404). */
static int check_sample(struct command_call *c, struct report_ask *ask, struct err *err)
{
	const char *method = arg_text(c, "method"), *seed = arg_text(c, "seed"), *number = arg_text(c, "number");
	int64_t to = 0;
	int rc = arg_index(c, "to", &to, err);

	if (rc < 0)
		return rc;
	if (method && !is_method(c, REPORT_BY_RANK) && !is_method(c, "hash"))
		return err_set(err, ERR_INVALID, "method", "method: \"%.40s\" is none: rank or hash", method);
	ask->number = strtoll(seed ? seed : SEED_DEFAULT, NULL, 10);   /* they were checked */
	ask->limit = strtoll(number ? number : SAMPLE_DEFAULT, NULL, 10);
	if (!ask->way->method && (ask->limit < 1 || ask->limit > REPORT_SAMPLE_MAX))
		return err_set(err, ERR_LIMIT, "number", "number: a sample has 1 to %d records", REPORT_SAMPLE_MAX);
	ask->to = arg_given(c, "to") ? to : -1;
	return 0;
}

static void name_sample(struct command_call *c)
{
	command_line_default(c, "number", SAMPLE_DEFAULT);
	command_line_default(c, "seed", SEED_DEFAULT);
	command_line_default(c, "method", REPORT_BY_RANK);
}

/* Who looked at one call: its id, as commands have it in their records. */
static int check_call(struct command_call *c, struct report_ask *ask, struct err *err)
{
	const char *text = arg_text(c, "call");

	if (!text)
		return 0;
	if (arg_call_check(c, err) < 0)
		return err->code;
	(void)snprintf(ask->text, sizeof(ask->text), "%s", text);
	ask->as_text = true;
	return 0;
}

/* What some reports take in their own way. */
static int check_specials(struct command_call *c, struct report_ask *ask, struct err *err)
{
	uint64_t now_us = clock_wall_us(), ms = arg_duration_ms(c, "stale", KEY_STALE_MS);
	char name[REG_FULL_NAME_SIZE];

	ask->number = (int64_t)now_us;
	if (ask->way->drawn && check_sample(c, ask, err) < 0)
		return err->code;
	if (!*ask->tenant && ask->report->text_list)
		add_tenant(ask);
	if (arg_given(c, "commands"))
		ask->as_text = true;
	if (arg_given(c, "stale") || arg_given(c, "unused-scopes"))
		ask->since_us = now_us - 1000 * ms;
	if (strcmp(ask->report->noun, "tool") == 0) {
		tool_full_name(ask->report->noun, ask->tool, name, sizeof(name));
		(void)snprintf(ask->text, sizeof(ask->text), "%s/%s", tool_noun(name), tool_bare_name(name));
		ask->as_text = true;
	}
	if (report_ask_scope(ask) == SCOPE_KEY && !*ask->key)
		return err_set(err, ERR_INVALID, "key", "say --key or --tool-hash");
	if (ask->kind) {
		(void)snprintf(ask->text, sizeof(ask->text), "%d", (int)ask->kind);
		ask->as_text = true;
	}
	return check_call(c, ask, err);
}

static int report_check(struct command_call *c, struct err *err)
{
	struct report_ask *ask = report_ask_new(c);
	int rc;

	ask->way = way_of(c, ask->report);
	if (ask->way->drawn)
		name_sample(c);
	rc = report_ask_check(c, ask, err);
	if (rc == 0)
		rc = check_after(c, ask, err);
	if (rc == 0)
		rc = check_text(c, ask, err);
	if (rc == 0)
		rc = check_look(c, ask, err);
	return rc < 0 ? rc : check_specials(c, ask, err);
}

/* Commands with a shape of their own that are reports when a flag asks for it. */
static int key_list_any_check(struct command_call *c, struct err *err)
{
	if (!arg_given(c, "review") && !arg_given(c, "stale") && !arg_given(c, "unused-scopes"))
		return key_list_check(c, err);
	command_record_as(c, AUDIT_AUDIT_READ);
	return report_check(c, err);
}

static int tool_history_any_check(struct command_call *c, struct err *err)
{
	if (!arg_given(c, "events"))
		return 0;
	if (arg_given(c, "tenant"))
		return err_set(err, ERR_INVALID, "tenant", "what was done to a tool stands in the system's log, which is no "
			       "tenant's: --events or --tenant, not both");
	command_record_as(c, AUDIT_AUDIT_READ);
	return report_check(c, err);
}

/* --- audit review sign: a person says that the audit was read up to a record; that is a record itself (A-Q31) */

#define NOTE_MAX 400

static int review_check(struct command_call *c, struct err *err)
{
	struct report_ask *ask = command_priv(c, sizeof(*ask));
	const char *action = arg_text(c, "action"), *note = arg_text(c, "note");

	c->free_priv = free_ask;
	if (strcmp(action, "sign") != 0)
		return err_set(err, ERR_INVALID, "action", "audit review: say sign; audit reviews lists what was signed");
	if (note && strlen(note) > NOTE_MAX)
		return err_set(err, ERR_LIMIT, "note", "note: longer than %d bytes", NOTE_MAX);
	ask->report = report_find("audit", "reviews");
	ask->way = ask->report->way;
	return report_ask_check(c, ask, err);
}

/* Behind the newest record that the review covers; 0: there is none. */
static int last_of(struct db *db, const struct report_ask *ask, int64_t *ret, struct err *err)
{
	int64_t first, last = -1;
	int rc = report_span(db, ask->log, (int64_t)ask->since_us,
			     ask->until_us ? (int64_t)ask->until_us : (int64_t)clock_wall_us(), &first, &last, err);

	*ret = last + 1;
	return rc < 0 ? rc : 0;
}

static int review_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct report_ask *ask = c->priv;
	uint8_t range[16] = { 0 };
	const struct audit_field field = { AUDIT_TAG_RANGE, range, sizeof(range) };
	struct audit_receipt receipt = { 0, 0 };
	struct command_record rec = { .kind = AUDIT_AUDIT_REVIEW, .field = &field, .nfield = 1, .ret = &receipt };
	int64_t to = 0;
	int rc = report_ask_find(db, ask, err);

	if (ask->log == 0)
		ask->log = 1;
	if (rc == 0)
		rc = last_of(db, ask, &to, err);
	if (rc == 0 && to == 0)
		rc = err_set(err, ERR_NOT_FOUND, "until", "there are no records of that time");
	if (rc < 0)
		return rc;
	audit_put_be(range + 8, (uint64_t)to, 8);
	rec.tenant_id = ask->tenant_id;
	rc = command_record(c, db, logs, &rec, err);
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_text(c->out, "log", *ask->tenant ? ask->tenant : "the system");
	reply_int(c->out, "to", to - 1);        /* the last one that was read; its own is another */
	reply_int(c->out, "index", receipt.idx);
	reply_row_end(c->out);
	return 0;
}

/* --- rows of the command table */

static const struct command_arg key_list_args[] = {
	TENANT_MAYBE, OPT("principal", "NAME", ARG_TEXT, COMPLETE_NONE, "Only this principal of the tenant."),
	FLAG("review", "With age, expiry, last use and what the tenant's grants open."),
	OPT("stale", "TIME", ARG_DURATION, COMPLETE_NONE, "Keys not used or not rotated for so long, or without an end: 90d."),
	FLAG("unused-scopes", "Grants that a key did not use for 90 days, or the time of --stale."),
	ARG_END };
static const struct command_arg tool_history_args[] = {
	WORD("tool", "TOOL", COMPLETE_TOOL, "Name of the tool."),
	FLAG("events", "What was done to it, who asked, who approved or rejected, from the audit."), TOOL_OF_TENANT, ARG_END };
static const struct command_column key_list_cols[] = {
	COL("accessor", "ACCESSOR"), COL("principal", "PRINCIPAL"), COL("state", "STATE"), COL_AT("expires", "EXPIRES"),
	COL_AT("old_secret_until", "OLD SECRET UNTIL"), COL_AT("last_used", "LAST USED (NOT EVIDENCE)"),
	COL("scopes", "SCOPES"), COL("label", "LABEL (NOT EVIDENCE)"), COL_END };
static const struct command_column tool_history_cols[] = {
	COL("version", "VERSION"), COL("in_force", "IN FORCE"), COL_AT("created", "ADDED"), COL("actor", "BY"),
	COL_AT("vouched_since", "NOT VOUCHED BEFORE"), COL("digest", "DIGEST"), COL_END };
static const struct command_column denied_cols[] = {
	COL_AT("time", "TIME"), COL("tool", "TOOL"), COL("principal", "PRINCIPAL"), COL("key", "KEY"), COL("rule", "RULE"),
	COL("outcome", "OUTCOME"), COL("detail", "DETAIL"), COL_END };
static const struct command_column admin_cols[] = {
	COL_AT("time", "TIME"), COL("kind", "KIND"), COL("object", "OBJECT"), COL("principal", "PRINCIPAL"),
	COL("detail", "DETAIL"),
	COL_END };
static const struct command_column credentials_cols[] = {
	COL_AT("time", "TIME"), COL("tenant", "TENANT"), COL("kind", "KIND"), COL("key", "KEY"), COL("principal", "PRINCIPAL"),
	COL("detail", "DETAIL"), COL_END };
static const struct command_column audit_calls_cols[] = {
	COL_AT("time", "TIME"), COL("tenant", "TENANT"), COL("tool", "TOOL"), COL("principal", "PRINCIPAL"),
	COL("outcome", "OUTCOME"), COL("ms", "MS"), COL("transport", "BY"), COL("rule", "RULE"), COL("call", "CALL"),
	COL_END };
static const struct command_column approvals_cols[] = {
	COL_AT("time", "TIME"), COL("tenant", "TENANT"), COL("approval", "ID"), COL("what", "WHAT"), COL("tool", "TOOL"),
	COL("principal", "FOR"), COL("by", "BY"), COL("seconds", "SECONDS"), COL("reason", "REASON"), COL_END };
static const struct command_column tasks_cols[] = {
	COL_AT("time", "TIME"), COL("tenant", "TENANT"), COL("task", "TASK"), COL("state", "STATE"), COL("tool", "TOOL"),
	COL("principal", "PRINCIPAL"), COL_AT("ended", "ENDED"), COL("seconds", "SECONDS"), COL("call", "CALL"), COL_END };
static const struct command_column segments_cols[] = {
	COL("tenant", "TENANT"), COL("month", "MONTH"), COL("records", "RECORDS"), COL("bytes", "SIZE"),
	COL("bytes_a_record", "B/REC"), COL("state", "STATE"), COL("path", "PATH"),
	COL_AT("verified", "VERIFIED"), COL("verified_as", "AS"), COL_END };
static const struct command_arg audit_calls_args[] = {
	REPORT_TENANT_OR("Calls of this tenant; default: of all."), REPORT_CALLS,
	OPT("group-by", "LIST", ARG_TEXT, COMPLETE_NONE,
	    "Count by these, with commas: client, obo, tool, principal, key, outcome, transport, revision, day, tenant."),
	    REPORT_END };
static const struct command_arg audit_denied_args[] = {
	REPORT_TENANT, REPORT_CALLS,
	OPT("by", "WHAT", ARG_TEXT, COMPLETE_NONE, "Count by rule, tool, principal, key, outcome or day."), REPORT_END };
static const struct command_arg audit_auth_args[] = {
	REPORT_TENANT_OR("Of this tenant's keys; default: all."), REPORT_KEY,
	OPT("by", "WHAT", ARG_TEXT, COMPLETE_NONE, "Count by source, rule, key, transport or hour."), REPORT_END };
static const struct command_arg audit_either_args[] = {
	REPORT_TENANT_OR("The log of this tenant; default: the system's."), REPORT_END };
static const struct command_arg audit_all_args[] = {
	REPORT_TENANT_OR("The log of this tenant; default: every log."), REPORT_END };
static const struct command_arg audit_access_args[] = {
	REPORT_TENANT_OR("The log of this tenant; default: every log."),
	OPT("call", "CALL", ARG_TEXT, COMPLETE_NONE, "Only who asked for this call by its id: its records, payload, proof."),
	REPORT_END };
static const struct command_arg audit_tenant_args[] = { REPORT_TENANT, REPORT_END };
static const struct command_arg audit_system_args[] = { REPORT_END };
static const struct command_arg audit_credential_args[] = {
	WORD("key", "ACCESSOR", COMPLETE_KEY, "The public part of the key: 12 characters after tck_."),
	FLAG("timeline", "Each record instead of sums by place and tool."),
	REPORT_TENANT_OR("The key has to be one of this tenant; default: of any."), REPORT_END };
static const struct command_arg audit_credentials_args[] = {
	REPORT_TENANT_OR("Keys of this tenant; default: all."),
	FLAG("changes", "What happened to keys; the default."), REPORT_END };
static const struct command_arg audit_subject_args[] = {
	WORD("principal", "TENANT/NAME", COMPLETE_PRINCIPAL, "The subject, with its tenant in front; a name or a pseudonym."),
	FLAG("export", "Every record instead of sums by kind and tool."),
	REPORT_TENANT_OR("The subject's; then its name alone says who it is."), REPORT_END };
static const struct command_arg audit_sample_args[] = {
	REPORT_TENANT_OR("Calls of this tenant; default: the system's log, with --kind."),
	OPT("kind", "KIND", ARG_TEXT, COMPLETE_NONE, "Records of this kind, such as tool.change, instead of calls."),
	OPT("number", "N", ARG_UINT, COMPLETE_NONE, "How many, at most 100000; default 25."),
	OPT("seed", "N", ARG_UINT, COMPLETE_NONE, "The same seed takes the same records; default 1."),
	OPT("to", "INDEX", ARG_TEXT, COMPLETE_NONE,
	    "The last record that may be drawn, to draw a sample again; default: the newest."),
	OPT("method", "METHOD", ARG_TEXT, COMPLETE_NONE,
	    "rank, the default; hash: the rule of 0.1, which reads every call."),
	REPORT_SPAN, ARG_END };
static const struct command_arg audit_continuity_args[] = {
	FLAG("executions", "Calls that ran while the audit was failing: there must be none."),
	FLAG("commands", "Runs of commands without a server as well."), REPORT_END };
static const struct command_arg audit_blast_args[] = {
	REPORT_KEY, OPT("tool-hash", "SHA256", ARG_TEXT, COMPLETE_NONE, "Who called this definition of a tool."),
	REPORT_TENANT_OR("With --tool-hash: calls of this tenant; default: of all."), REPORT_END };
static const struct command_arg audit_sandbox_args[] = {
	REPORT_TENANT_OR("Calls of this tenant; default: of all."), REPORT_TOOL, REPORT_END };
static const struct command_arg audit_approvals_args[] = {
	REPORT_TENANT_OR("Calls of this tenant; default: of all."), REPORT_TOOL, REPORT_PRINCIPAL,
	OPT("by", "WHAT", ARG_TEXT, COMPLETE_NONE, "Count by person, tool or principal."), REPORT_END };
static const struct command_arg audit_tasks_args[] = {
	REPORT_TENANT_OR("Calls of this tenant; default: of all."), REPORT_TOOL, REPORT_PRINCIPAL,
	FLAG("open", "Only those that have no end on record."),
	OPT("by", "WHAT", ARG_TEXT, COMPLETE_NONE, "Count by tool, principal or state."), REPORT_END };
static const struct command_arg audit_capacity_args[] = {
	FLAG("events", "When room was short, or the audit failed."),
	FLAG("tables", "What each table and each index takes, by looking at every page of the file."), REPORT_END };

const struct command key_list_commands[] = {
	{ .noun = "key", .verb = "list", .help = "List keys", .args = key_list_args, .columns = key_list_cols,
	  .shape = ADM_TABLE, .role = ADM_READ, .console = true, .own = "tenant", .seen = "tenant",
	  .where = ADM_ON_POOL,
	  .check = key_list_any_check, .body = key_list_body },
	{ .noun = NULL },
};

const struct command tool_history_commands[] = {
	{ .noun = "tool", .verb = "history", .help = "List the versions of a tool", .args = tool_history_args,
	  .columns = tool_history_cols, .shape = ADM_TABLE, .role = ADM_READ, .console = true, .seen = "tenant",
	  .where = ADM_ON_POOL,
	  .check = tool_history_any_check, .body = tool_history_body },
	{ .noun = NULL },
};

/* verb, help, detail, arguments, columns of tables for people or NULL for all.  Which statement and which log:
 * reports[]. */
#define REPORT(v, help_, detail_, args_, columns_) \
	{ .noun = "audit", .verb = v, .help = help_, .detail = detail_, .args = args_, .columns = columns_, \
	  .shape = ADM_REPORT, \
	  .role = ADM_AUDIT, .console = true, .where = ADM_ELSEWHERE, .record = AUDIT_AUDIT_READ, .check = report_check }
const struct command report_commands[] = {
	REPORT("calls", "List calls, the newest first",
	       "Those of one tenant, or of all for those who may read every log.  With --group-by: how many, by the client's "
	       "own claim, the person behind, and more; names of principals and people are a tenant's, so its name stands "
	       "beside them.", audit_calls_args, audit_calls_cols),
	REPORT("denied", "List calls that were refused, the newest first",
	       "RULE says what refused: rights, an unknown tool, the arguments' schema, a rate.", audit_denied_args,
	       denied_cols),
	REPORT("auth-failures", "List who was not let in, the newest first", NULL, audit_auth_args, NULL),
	REPORT("admin", "List what administrators did, the newest first",
	       "Keys and failures to come in with one, tenants, grants, tools, starts and stops, every command, and who "
	       "read or verified the audit.", audit_either_args, admin_cols),
	REPORT("access", "List who read, exported, verified or reviewed the audit",
	       "With --call: who looked at that call, by its id.  Lists and exports that it was part of are not among them: "
	       "their records say which range of the log was read.", audit_access_args, NULL),
	REPORT("credential", "Show from where a key was used, and for what", NULL, audit_credential_args, NULL),
	REPORT("credentials", "List how keys were created, used first, rotated and revoked", NULL, audit_credentials_args,
		credentials_cols),
	REPORT("subject", "Show what there is about a principal", NULL, audit_subject_args, NULL),
	REPORT("coverage", "Count the records of each day, and starts and stops",
	       "Positions of a log have no gaps: a day goes on where the day before it ended.", audit_either_args, NULL),
	REPORT("sample", "Take records at random, the same ones for the same seed",
	       "Ranks are drawn, of calls in the order of the log: toolcrib-audit(7) has the rule in ten lines of Python.  "
	       "With --method hash those with the smallest hash are taken.  Of position i and seed s, modulo p = 2147483647: "
	       "x = 48271 i + 69621 s + 1, y = x x + s, hash = y y + x.", audit_sample_args, NULL),
	REPORT("after-revocation", "List calls that began after their key had been revoked",
	       "Must be empty: exit status 4 when it is not.", audit_all_args, NULL),
	REPORT("continuity", "List the runs of the server, how each ended, and the time between",
	       "Each command without a server runs the audit, too: --commands lists these, and counts the time between from "
	       "one to the next.  With --executions the list must be empty: exit status 4 when it is not.",
	       audit_continuity_args, NULL),
	REPORT("clock", "List steps and states of the clock", NULL, audit_system_args, NULL),
	REPORT("erasures", "List what was erased, on which ground, and who approved", NULL, audit_all_args, NULL),
	REPORT("blast-radius", "Show what a key could reach, or who called a definition of a tool", NULL, audit_blast_args,
		NULL),
	REPORT("drift", "List calls whose definition was never stored here", "Must be empty: exit status 4 when it is not.",
	       audit_all_args, NULL),
	REPORT("config", "List changes of configuration and policies", NULL, audit_all_args, NULL),
	REPORT("isolation", "List keys and principals of one tenant in the log of another",
	       "Must be empty: exit status 4 when it is not.", audit_all_args, NULL),
	REPORT("key-history", "List changes of the keys that protect what is stored, and of secrets", NULL, audit_all_args,
		NULL),
	REPORT("dual-control", "List destructive acts that nobody else approved",
		"By the records of requests and grants; those under the policy one are listed, too.  Must be empty: exit status 4 "
		"when it is not.",
	       audit_all_args, NULL),
	REPORT("reviews", "List who reviewed the audit, and when", NULL, audit_all_args, NULL),
	REPORT("anomalies", "List what is unusual",
	       "By plain rules: a tool that a principal had not used before; a day with ten times the calls of the days "
	       "before, at least 50; a few calls between 22 and 6 h UTC; 20 refusals in a day.", audit_tenant_args, NULL),
	REPORT("sandbox", "Count calls by tool and how far its processes were confined", NULL, audit_sandbox_args, NULL),
	REPORT("oversight", "List calls that asked a person, and what came of it",
	       "WHAT: a question of the tool, which the caller's side answers, or an approval, which it cannot give.",
	       audit_all_args, NULL),
	REPORT("approvals", "List what persons were asked to agree to, and what they said",
	       "A row for each record: asked, agreed by one of several, granted, refused, lapsed, recalled.  With --by, of "
	       "each tenant: how many, which share of the decisions were refusals, and the median of the seconds they took.",
	       audit_approvals_args, approvals_cols),
	REPORT("tasks", "List calls that became tasks, and how they ended",
	       "A row for each task, by the records of its calls: completed, failed, cancelled, or open, which is all that "
	       "has no end on record.  With --by, of each tenant: how many, how they ended, and the median of the seconds "
	       "they took.  task list says how far those are that are there.",
	       audit_tasks_args, tasks_cols),
	REPORT("capacity", "Show how large the logs are, and how long there is room",
	       "The header says how many bytes the file has, how many of them wait for new records, how many a record takes, "
	       "how many records came a day in the last week, or since the first of them, and in how many days the disk is "
	       "full if that goes on.  It also says how many records are rows alone, how many are in blocks and of how many "
	       "bytes each there without what is kept of calls, how many rows there are for a plain sqlite3, and from when "
	       "on these have every record.  With --tables bytes are those of each record that the table has.",
	       audit_capacity_args, NULL),
	REPORT("segments", "List the sealed files of logs, and whether each is there",
	       "A file has the records of a log of a month.  STATE is what a look says: here, missing, or damaged, where its "
	       "size is another; audit verify reads them: VERIFIED is when one last did, of this log or the whole store, "
	       "and AS what it said.  A time chooses files that have records of it.", audit_all_args,
	       segments_cols),
	REPORT("anchors", "List checkpoints left outside, and epochs of the signing key", NULL, audit_system_args, NULL),
	{ .noun = NULL },
};

static const struct command_arg audit_review_args[] = {
	WORD("action", "sign", COMPLETE_NONE, "What to do: sign."),
	REPORT_TENANT_OR("The log of this tenant; default: the system's."),
	OPT("until", "TIME", ARG_TIME, COMPLETE_NONE, "What was read: records before this time; default: now."),
	OPT("note", "TEXT", ARG_TEXT, COMPLETE_NONE, "What came of it, or a reference."), ARG_END };

const struct command review_commands[] = {
	{ .noun = "audit", .verb = "review", .help = "Sign that the audit was reviewed", .args = audit_review_args,
	  .detail = "Writes a record of who looked and how far; audit reviews lists them.",
	  .done = "review of the log of %{log} up to record %{to} signed, as record %{index}", .role = ADM_AUDIT,
	  .console = true,
	  .where = ADM_ON_WRITER, .check = review_check, .body = review_body },
	{ .noun = NULL },
};
