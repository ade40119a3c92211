/* Commands that run a tool: test and lint of definitions before they are stored, and call, on the loop; a handler runs
 * with its deadline.  Also how NAME=VALUE words become arguments, and how results are shown; and pdp, which asks the
 * policy about a call. */
#include "config.h"

#include "toolset/toolset.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "audit/audit.h"
#include "backend/backend.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "call/call.h"
#include "command/call.h"
#include "command/rows.h"
#include "ev/ev.h"
#include "json/json.h"
#include "keys/vault.h"
#include "pdp/pdp.h"
#include "proto/caps.h"
#include "proto/rev.h"
#include "registry/define.h"
#include "registry/registry.h"
#include "schema/schema.h"
#include "tenant/tenant.h"

#define GRACE_US 2000000                /* a handler ends by itself at its deadline; this much later it is told to */

/* --- arguments: --args first, then NAME=VALUE on top */

/* Does the property's schema ask for something else than text?  One that stands elsewhere does not say; then objects
 * and arrays are what they look like. */
static bool wants_json(const json_t *definition, const char *name, const char *value)
{
	const json_t *properties = json_object_get(json_object_get(definition, "inputSchema"), "properties");
	const json_t *schema = json_object_get(properties, name), *type = json_object_get(schema, "type");

	if (!type && json_object_get(schema, "$ref"))
		return *value == '{' || *value == '[';
	return json_is_string(type) && strcmp(json_string_value(type), "string") != 0;
}

static int tool_args(const struct command_call *c, const json_t *definition, json_t **ret, struct err *err)
{
	const json_t *given = arg_json(c, "args"), *values = arg_json(c, "values");
	json_t *args = given ? json_copy((json_t *)(uintptr_t)given) : json_object(), *value;
	const char *name;

	if (!args)
		return err_set(err, ERR_INTERNAL, "", "no memory for arguments");
	json_object_foreach((json_t *)(uintptr_t)values, name, value) {
		json_t *parsed = NULL;

		/* What is no JSON stays text, and the schema says what is wrong with it. */
		if (!wants_json(definition, name, json_string_value(value)) ||
		    jx_parse(json_string_value(value), json_string_length(value), &parsed, NULL) < 0)
			parsed = json_incref(value);
		(void)json_object_set_new(args, name, parsed);
	}
	*ret = args;
	return 0;
}

/* --args with the NAME=VALUE words on top, typed by the definition's schema (NULL: texts).  New reference. */
static void refused_arguments(const struct schema_report *report, struct err *err)
{
	struct str text = STR_INIT;

	for (size_t i = 0; report && i < report->count; i++)
		str_printf(&text, "%s%s", i > 0 ? "; " : "", report->failure[i].text);
	(void)err_set(err, ERR_INVALID, "", "%s", text.len > 0 ? str_text(&text) : "the arguments do not fit the schema");
	str_fini(&text);
}

static void put_result(struct reply *o, const char *call_id, const struct backend_result *res, const char *hint)
{
	reply_row_begin(o);
	reply_text(o, "call", call_id);
	reply_bool(o, "isError", res->is_error);
	reply_json(o, "content", res->content);
	if (res->structured)
		reply_json(o, "structuredContent", res->structured);
	if (hint)
		reply_text(o, "hint", hint);
	reply_row_end(o);
}

/* A tool that asks a person something cannot go on here: show what it wants to know. */
static void put_questions(struct reply *o, const char *call_id, const json_t *requests, const char *state)
{
	reply_row_begin(o);
	reply_text(o, "call", call_id);
	reply_bool(o, "isError", false);
	reply_raw(o, "content", "[]", 2);
	reply_json(o, "asks", requests);
	if (state)
		reply_text(o, "state", state);
	reply_row_end(o);
}

/* --- test */

struct test_job {
	struct command_call *c;
	struct arena *mem;
	struct reg_compiled compiled;
	struct define_item def;
	const char *uri;                /* of a resource: which one is read */
	json_t *args;
	struct str args_text;
	char *hint;
	struct backend_op *op;
	struct ev_timer *timer;
	uint8_t id[16];
	bool over;
};

static void free_test(void *priv)
{
	struct test_job *job = priv;

	ev_timer_free(&job->timer);
	define_compiled_fini(&job->compiled);
	arena_free(&job->mem);
	define_free(&job->def);
	json_decref(job->args);
	str_fini(&job->args_text);
	free(job->hint);
	free(job);
}

/* Each noun tests its own kinds. */
static int check_kind(const struct command_call *c, const struct define_item *def, struct err *err)
{
	const char *noun = tool_noun(def->name);

	if (strcmp(noun, command_noun(c)) == 0)
		return 0;
	(void)err_set(err, ERR_INVALID, "/documents/0/kind", "this is a %s, not a %s", reg_kinds[def->kind].noun,
		command_noun(c));
	err_hint(err, "use toolcrib %s test", noun);
	return ERR_INVALID;
}

/* What reading this URI gives the handler: it, and the variables of the template that it fits. */
static int read_uri(const struct command_call *c, struct test_job *job, struct err *err)
{
	const char *pattern = job->def.uri;
	bool template = job->def.kind == REG_TEMPLATE;

	job->uri = arg_text(c, "uri");
	if (!job->uri && template)
		return err_set(err, ERR_INVALID, "", "which URI of %s is read?", pattern);
	if (!job->uri)
		job->uri = pattern;
	if (template ? !reg_uri_match(pattern, job->uri, strlen(job->uri), &job->args) : strcmp(job->uri, pattern) != 0)
		return err_set(err, ERR_INVALID, "", "%.100s is no URI of %s", job->uri, pattern);
	if (!job->args)
		job->args = json_object();
	(void)json_object_set_new(job->args, "uri", json_string(job->uri));
	return 0;
}

int tool_test_check(struct command_call *c, struct err *err)
{
	struct test_job *job = command_priv(c, sizeof(*job));
	const json_t *documents = arg_json(c, "documents"), *doc = json_array_get(documents, 0);
	struct schema_report report = { 0 };
	struct schema_redact redact;
	int rc;

	c->free_priv = free_test;
	job->c = c;
	if (json_array_size(documents) != 1)
		return err_set(err, ERR_INVALID, "file", "one document is tested at a time, the file has %zu",
			       json_array_size(documents));
	rc = toolset_define(c, documents, 0, schema_shared(c), &job->def, err);
	if (rc < 0)
		return rc;
	rc = check_kind(c, &job->def, err);
	if (rc < 0)
		return rc;
	job->mem = arena_new(DEFINE_MEMORY_MAX);
	rc = define_compile(doc, job->def.kind, command_bind(c), schema_shared(c), job->mem, &job->compiled, err);
	if (rc < 0) {
		err_at(err, "/documents/0");
		return rc;
	}
	rc = job->def.uri ? read_uri(c, job, err) : tool_args(c, doc, &job->args, err);
	if (rc < 0)
		return rc;
	jx_write(job->args, &job->args_text);
	if (!job->compiled.input)
		return 0;
	redact = (struct schema_redact){ job->compiled.redact, job->compiled.nredact };
	rc = schema_explain(job->compiled.input, job->args, &redact, &report);
	if (rc < 0)
		refused_arguments(&report, err);
	return rc;
}

static void test_result(void *arg, struct backend_result *res)
{
	struct test_job *job = arg;
	const struct call_form form = { .kind = job->def.kind, .uri = job->uri, .uri_len = job->uri ? strlen(job->uri) : 0,
					.mime = job->compiled.mime, .page = job->compiled.page };
	struct schema_report report = { 0 };
	struct err err;
	int rc = call_shape(&form, res, &err);

	job->over = true;
	put_result(job->c->out, NULL, res, job->hint);
	if (rc < 0) {
		(void)err_wrap(&err, "the result is none of a %s", reg_kinds[job->def.kind].noun);
		command_finish(job->c, &err);
	} else if (job->compiled.output && !res->is_error &&
	    (!res->structured || schema_run(job->compiled.output, res->structured, &report) < 0)) {
		if (res->structured)
			refused_arguments(&report, &err);
		else
			(void)err_set(&err, ERR_TOOL, "", "there is an outputSchema, and the result has no structuredContent");
		(void)err_wrap(&err, "the result does not fit outputSchema");
		command_finish(job->c, &err);
	} else {
		command_finish(job->c, NULL);
	}
	json_decref(res->content);
	json_decref(res->structured);
	json_decref(res->meta);
}

static void test_ask(void *arg, struct backend_ask *ask)
{
	struct test_job *job = arg;

	job->over = true;
	put_questions(job->c->out, NULL, ask->requests, NULL);
	json_decref(ask->requests);
	command_finish(job->c, NULL);
}

static void test_error(void *arg, const struct err *err, int rpc_code, json_t *data)
{
	struct test_job *job = arg;
	struct err out = *err;

	(void)rpc_code;
	job->over = true;
	json_decref(data);
	if (job->hint && !*out.hint)
		err_hint(&out, "%s", job->hint);
	if (*out.where == '/')
		err_at(&out, "/documents/0");
	command_finish(job->c, &out);
}

static void test_progress(void *arg, double done, double total, const char *note)
{
	const struct test_job *job = arg;

	command_progress(job->c, done, total, note);
}

static void test_log(void *arg, int level, const char *logger, json_t *data)
{
	(void)arg;
	(void)level;
	(void)logger;
	json_decref(data);
}

static void test_used(void *arg, uint64_t cpu_us, uint64_t rss_kib)
{
	(void)arg;
	(void)cpu_us;
	(void)rss_kib;
}

static void test_hint(void *arg, const char *text)
{
	struct test_job *job = arg;

	free(job->hint);
	job->hint = mem_strdup(text);
}

static void test_late(void *arg)
{
	struct test_job *job = arg;

	if (!job->over)
		backend_cancel(job->op, CANCEL_DEADLINE);
}

void tool_test_cancel(struct command_call *c, bool stopped)
{
	const struct test_job *job = c->priv;

	if (job->op && !job->over)
		backend_cancel(job->op, stopped ? CANCEL_STOPPED : CANCEL_BY_CLIENT);
}

int tool_test_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	static const struct backend_sink sink = { test_progress, test_log, test_result, test_ask, test_error, test_used,
		test_hint, NULL, NULL };
	struct test_job *job = c->priv;
	const struct backend_env env = { .loop = command_env(c)->loop, .store = command_env(c)->store,
		.secrets = vault_secrets(command_env(c)->vault), .fetcher = command_env(c)->fetcher,
		.upstreams = command_env(c)->upstreams, .sandbox = command_env(c)->sandbox, .workers = command_env(c)->workers,
		.pool = command_env(c)->pool };
	const uint64_t limit_us = (uint64_t)job->compiled.timeout_ms * 1000;
	const struct backend_req req = { .recorded = true, .author = true, .plan = job->compiled.plan, .tool = job->def.name,
		.args = job->args,
		.args_text = str_text(&job->args_text), .args_len = job->args_text.len, .call_id = job->id, .tenant = "test",
		.principal = "test", .rev = rev_table[REV_COUNT - 1].text, .deadline_us = clock_mono_us() + limit_us,
		.result_max = job->compiled.result_max };

	(void)db;
	(void)logs;
	id_uuid7(job->id);
	int rc = backend_start(job->compiled.ops, &env, &req, &sink, job, &job->op, err);
	if (rc < 0)
		return rc;
	c->later = true;
	job->timer = ev_timer_new(command_env(c)->loop, test_late, job);
	ev_timer_start(job->timer, limit_us + GRACE_US);
	return 0;
}

/* --- tool lint */

struct lint { struct reply *out; size_t document; };

static void put_finding(struct reply *o, const char *where, const char *finding)
{
	reply_row_begin(o);
	reply_text(o, "where", where);
	reply_text(o, "finding", finding);
	reply_row_end(o);
}

static void warned(void *arg, const char *pointer, const char *text)
{
	const struct lint *lint = arg;
	char *where = mem_printf("/documents/%zu%s", lint->document, pointer);

	put_finding(lint->out, where, text);
	free(where);
}

static bool is_among(const json_t *documents, const char *uri)
{
	const json_t *doc;
	size_t i;

	json_array_foreach(documents, i, doc) {
		const char *own = json_string_value(json_object_get(doc, "uri"));

		if (own && strcmp(own, uri) == 0)
			return true;
	}
	return false;
}

/* UI-08: hosts that look for a page that nobody has defined show none.  Without a store nobody knows. */
static void lint_page_is_there(const struct command_call *c, const json_t *documents, const json_t *doc,
			       const struct lint *lint)
{
	const json_t *ui = json_object_get(json_object_get(doc, "_meta"), "ui");
	const char *uri = json_string_value(json_object_get(ui, "resourceUri"));
	const struct registry *reg = command_env(c)->registry;

	if (uri && reg && command_env(c)->writer && !is_among(documents, uri) && !reg_has_uri(reg, uri))
		warned((void *)(uintptr_t)lint, "/_meta/ui/resourceUri", "no resource with this URI is defined or enabled");
}

static void put_wrong(struct reply *o, const struct err *wrong)
{
	char *text = mem_printf("%s%s%s", wrong->msg, *wrong->hint ? "; " : "", wrong->hint);

	put_finding(o, wrong->where, text);
	free(text);
}

static int tool_lint_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const json_t *documents = arg_json(c, "documents");
	struct schema_set schemas = { .count = 0 };
	struct err wrong;

	(void)db;
	(void)logs;
	(void)err;
	if (schema_set_define(schema_shared(c), documents, false, &schemas, &wrong) < 0)
		put_wrong(c->out, &wrong);
	for (size_t i = 0; i < json_array_size(documents); i++) {
		struct lint lint = { .out = c->out, .document = i };
		struct define_item def = { .text = NULL };

		if (is_schema(json_array_get(documents, i)))
			continue;
		if (toolset_define(c, documents, i, schemas.shared, &def, &wrong) < 0) {
			put_wrong(c->out, &wrong);
			continue;
		}
		define_lint(json_array_get(documents, i), warned, &lint);
		lint_page_is_there(c, documents, json_array_get(documents, i), &lint);
		define_free(&def);
	}
	schema_set_fini(&schemas);
	return 0;
}

/* --- rows of the command table */

static const struct command_arg files_args[] = { FILES("YAML or JSON, one or more documents; - is standard input."),
	ARG_END };
static const struct command_arg tool_test_args[] = {
	FILE1("YAML or JSON, one document; - is standard input."), VALUES, ARGS_OPT, PROGRESS_FLAG, ARG_END };
static const struct command_column finding_cols[] = {
	COL("where", "PLACE"), COL("finding", "FINDING"), COL_END };

const struct command test_commands[] = {
	{ .noun = "tool", .verb = "test", .help = "Run a definition without storing it", .args = tool_test_args,
	  .runs = true, .shape = ADM_CONTENT, .role = ADM_OWNER, .where = ADM_ON_LOOP, .record = AUDIT_ADMIN_CMD,
	  .check = tool_test_check, .body = tool_test_body, .cancel = tool_test_cancel },
	{ .noun = "tool", .verb = "lint", .help = "Say what MCP hosts choke on in a definition",
	  .detail = "Needs no store; with one, its shared schemas are known, as are those among the documents, and whether "
		    "there is the page that a tool names.  Exit status 4 when there is something to say.", .args = files_args,
	  .columns = finding_cols, .shape = ADM_FINDINGS, .store_if_any = true, .role = ADM_READ, .where = ADM_ON_LOOP,
	  .body = tool_lint_body },
	{ .noun = NULL },
};

/* Command call: a tool, a prompt, or a read of a resource, as a tenant's principal, through the pipeline of agents'
 * calls; on the loop. */

struct call_job {
	struct call *call;
	struct str args_text;
};

static void free_job(void *priv)
{
	struct call_job *job = priv;

	str_fini(&job->args_text);
	free(job);
}

static void call_progress(void *arg, double done, double total, const char *note)
{
	command_progress(arg, done, total, note);
}

static void no_log(void *arg, int level, const char *logger, json_t *data)
{
	(void)arg;
	(void)level;
	(void)logger;
	json_decref(data);
}

static int no_ask(void *arg, const json_t *requests, struct err *err)
{
	(void)arg;
	(void)requests;
	return err_set(err, ERR_CAPABILITY, "", "nobody is there to be asked");
}

static bool never_gone(void *arg)
{
	(void)arg;
	return false;
}

/* get_weather, prompt:greet, or a URI, which a tool's name cannot be. */
static enum reg_kind kind_of(const char *what, const char **ret_name)
{
	bool prompt = strcmp(tool_noun(what), "prompt") == 0;

	*ret_name = prompt ? tool_bare_name(what) : what;
	return prompt ? REG_PROMPT : strchr(what, ':') ? REG_RESOURCE : REG_TOOL;
}

static void refused(const struct command_call *c, const struct call_end *end, struct err *ret)
{
	*ret = *end->err;
	if (end->refusal == REFUSE_ARGUMENTS && end->report && end->report->count > 0) {
		refused_arguments(end->report, ret);
	} else if (end->refusal == REFUSE_UNKNOWN_TOOL) {
		const char *name;
		enum reg_kind kind = kind_of(arg_text(c, "tool"), &name);

		(void)err_set(ret, ERR_NOT_FOUND, "", "%s %.64s: tenant %s has no such %s", reg_kinds[kind].noun, name,
			      arg_text(c, "tenant"), reg_kinds[kind].noun);
		err_hint(ret, "toolcrib grant list %s shows what it may call", arg_text(c, "tenant"));
	} else if (end->refusal == REFUSE_CAPABILITY) {
		(void)err_set(ret, ERR_CAPABILITY, "", "%.64s asks its caller something, and a command cannot answer",
			      arg_text(c, "tool"));
		err_hint(ret, "call it on a terminal, or with --ask and then --answers; toolcrib tool test FILE shows the first "
			      "question");
	}
}

static void call_finish(void *arg, struct call_end *end)
{
	struct command_call *c = arg;
	struct call_job *job = c->priv;
	char id[ID_TEXT_SIZE] = "";
	struct err err;

	job->call = NULL;
	if (end->call_id)
		id_format(end->call_id, id);
	if (end->result) {
		put_result(c->out, id, end->result, NULL);
		json_decref(end->result->content);
		json_decref(end->result->structured);
		json_decref(end->result->meta);
		command_finish(c, NULL);
	} else if (end->requests) {
		put_questions(c->out, id, end->requests, end->sealed_state);
		json_decref(end->requests);
		command_finish(c, NULL);
	} else {
		refused(c, end, &err);
		json_decref(end->rpc_data);
		command_finish(c, &err);
	}
}

/* The definition as the tenant sees it, so that NAME=VALUE words get the types of its schema; NULL when it sees
 * none. */
static json_t *visible_definition(const struct reg_snapshot *snap, enum reg_kind kind, const char *name)
{
	const struct reg_tool *tool = reg_find(snap, kind, name, strlen(name));
	json_t *doc = NULL;

	if (!tool || jx_parse(tool->def->text, tool->def->len, &doc, NULL) < 0)
		return NULL;
	return doc;
}

/* What the handler gets: of a resource the URI and the template's variables, else what the words say. */
static int read_args(const struct command_call *c, const struct reg_snapshot *snap, enum reg_kind kind,
		     const char *name, json_t **ret, struct err *err)
{
	json_t *definition;
	int rc;

	if (kind == REG_RESOURCE) {
		(void)reg_find_uri(snap, name, strlen(name), ret); /* the pipeline says that it is unknown */
		return 0;
	}
	definition = visible_definition(snap, kind, name);
	rc = tool_args(c, definition, ret, err);
	json_decref(definition);
	return rc;
}

/* Answers to what an earlier call asked: its state, and a response for each question. */
static int read_answers(const struct command_call *c, struct call_req *req, struct err *err)
{
	static const char *const known[] = { "state", "responses" };
	const json_t *given = arg_json(c, "answers");
	json_t *responses = NULL;
	int rc = given ? jx_only(given, "/answers", known, NELEMS(known), err) : 0;

	if (!given)
		return 0;
	if (rc == 0)
		rc = jx_get_string(given, "/answers", "state", JX_REQUIRED, &req->sealed_state, err);
	if (rc == 0)
		rc = jx_get_object(given, "/answers", "responses", JX_REQUIRED, &responses, err);
	if (rc < 0)
		return err_set(err, ERR_INVALID, "",
			       "--answers needs {\"state\": TEXT, \"responses\": {...}} and nothing else");
	req->sealed_len = strlen(req->sealed_state);
	req->answers = json_incref(responses);
	return 0;
}

static void call_cancelled(struct command_call *c, bool stopped)
{
	const struct call_job *job = c->priv;

	if (job->call)
		call_cancel(job->call, stopped ? CANCEL_STOPPED : CANCEL_BY_CLIENT);
}

static int call_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	static const struct call_out out = { call_progress, no_log, no_ask, never_gone, call_finish };
	const struct command_env *env = command_env(c);
	const char *name;
	enum reg_kind kind = kind_of(arg_text(c, "tool"), &name);
	struct call_job *job = command_priv(c, sizeof(*job));
	struct principal *who = NULL;
	struct reg_snapshot *snap;
	json_t *args = NULL;
	struct call_req req = { .kind = kind, .tool = name, .tool_len = strlen(name), .rev = REV_COUNT - 1,
				.tport = AUDIT_ADMIN_SOCKET,
				.caps = arg_flag(c, "ask") ? CAP_ELICITATION_FORM | CAP_ELICITATION_URL : 0 };
	int rc = principal_named(env->tenants, arg_text(c, "tenant"), arg_text(c, "principal"), AUDIT_AUTHN_UID, &who, err);

	(void)db;
	(void)logs;
	c->free_priv = free_job;
	if (rc < 0)
		return rc;
	snap = reg_acquire(env->registry, who->tenant_id);
	rc = read_args(c, snap, kind, name, &args, err);
	if (rc == 0)
		rc = read_answers(c, &req, err);
	if (rc < 0) {
		json_decref(args);
		reg_release(env->registry, &snap);
		principal_unref(&who);
		return rc;
	}
	if (args)
		jx_write(args, &job->args_text);
	c->later = true;
	req.who = who;
	req.snap = snap;
	req.args = args;
	req.args_text = str_text(&job->args_text);
	req.args_len = job->args_text.len;
	call_start(env->calls, &req, &out, c, &job->call);
	principal_unref(&who);
	return 0;
}

/* --- rows of the command table */

static const struct command_arg call_args[] = {
	TENANT_WORD, WORD("tool", "TOOL", COMPLETE_TOOL, "The tool, as the tenant sees it; or prompt:NAME, or the URI of a "
		"resource."),
	VALUES, ARGS_OPT,
	OPT("principal", "NAME", ARG_TEXT, COMPLETE_NONE, "As this principal of the tenant."), PROGRESS_FLAG,
	FLAG("ask", "It may ask who calls it; without a terminal the questions are the answer, with a state."),
	OPT("answers", "JSON", ARG_JSON, COMPLETE_NONE, "Call it again with {state: ..., responses: {...}}, the state that "
		"came with its questions and a response to each."), ARG_END };

const struct command call_commands[] = {
	{ .noun = "call", .help = "Call a tool, get a prompt or read a resource as a tenant",
		.detail = "Audited and limited like any call.  Ctrl-C cancels it, and exit status is 130 then; so does a connection "
			  "that is lost.  On a terminal it says how far it is, and what it asks is asked there.",
	  .args = call_args, .runs = true, .shape = ADM_CONTENT, .role = ADM_OPERATE, .where = ADM_ON_LOOP,
	  .body = call_body, .cancel = call_cancelled },
	{ .noun = NULL },
};

/* --- commands pdp: those who decide about calls (pdp/pdp.h), asked without a call; on the loop */

static int find_pdps(struct command_call *c, struct err *err)
{
	if (command_env(c)->pdps)
		return 0;
	(void)err_set(err, ERR_INVALID, "", "nobody decides about calls beside this server: its configuration has no pdp");
	err_hint(err, "see Policy decision points in toolcribd.yaml(5)");
	return ERR_INVALID;
}

/* --- status */

static void put_pdp(void *arg, const struct pdp_view *v)
{
	struct reply *o = arg;

	reply_row_begin(o);
	reply_text(o, "name", v->name);
	reply_text(o, "place", v->place);
	reply_text(o, "state", *v->why ? PDP_NO_ANSWER : v->asked ? "answers" : "not asked yet");
	reply_int(o, "asked", (int64_t)v->asked);
	reply_int(o, "allowed", (int64_t)v->allowed);
	reply_int(o, "denied", (int64_t)v->denied);
	reply_int(o, "failed", (int64_t)v->failed);
	reply_int(o, "cached", (int64_t)v->cached);
	reply_int(o, "kept", (int64_t)v->kept);
	reply_int(o, "running", (int64_t)v->running);
	reply_int(o, "waiting", (int64_t)v->waiting);
	reply_text(o, "why", *v->why ? v->why : NULL);
	reply_row_end(o);
}

static int status_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	int rc = find_pdps(c, err);

	(void)db;
	(void)logs;
	if (rc == 0)
		pdps_each(command_env(c)->pdps, put_pdp, c->out);
	return rc;
}

/* --- flush */

static int flush_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	int rc = find_pdps(c, err);

	(void)db;
	(void)logs;
	if (rc < 0)
		return rc;
	reply_row_begin(c->out);
	reply_int(c->out, "answers", (int64_t)pdps_flush(command_env(c)->pdps));
	reply_row_end(c->out);
	return 0;
}

/* --- check: asks, and runs nothing */

struct check_job {
	struct pdp_asking *asking;
	struct principal *who;
	struct reg_snapshot *snap;
	struct registry *registry;
	json_t *args;
	struct str args_text;
};

static void check_free(void *priv)
{
	struct check_job *job = priv;

	pdp_forget(&job->asking);
	principal_unref(&job->who);
	if (job->snap)
		reg_release(job->registry, &job->snap);
	json_decref(job->args);
	str_fini(&job->args_text);
	free(job);
}

static void put_verdict(struct command_call *c, const struct check_job *job, const struct pdp_verdict *v)
{
	for (size_t i = 0; i < v->n; i++) {
		const struct pdp_said *s = &v->said[i];
		const char *word = pdp_word_name(s->word), *request = pdp_request_text(job->asking, i);

		reply_row_begin(c->out);
		reply_text(c->out, "pdp", s->name);
		reply_text(c->out, "decision", word ? word : "not waited for");
		reply_int(c->out, "status", s->status);
		reply_int(c->out, "ms", s->ms);
		reply_text(c->out, "reason", s == v->against && *v->reason ? v->reason : NULL);
		reply_text(c->out, "why", *s->why ? s->why : NULL);
		reply_text(c->out, "request", request);
		reply_row_end(c->out);
	}
}

static void check_done(void *arg, const struct pdp_verdict *v)
{
	struct command_call *c = arg;

	put_verdict(c, c->priv, v);
	command_finish(c, NULL);
}

static void check_cancel(struct command_call *c, bool stopped)
{
	struct check_job *job = c->priv;
	struct err err;

	(void)stopped;
	pdp_forget(&job->asking);
	(void)err_set(&err, ERR_CANCELLED, "", "nobody waits for the answer any more");
	command_finish(c, &err);
}

static int find_asked(const struct command_call *c, struct check_job *job, struct pdp_question *q, struct err *err)
{
	const char *name;

	q->kind = kind_of(arg_text(c, "tool"), &name);
	q->tool = q->kind == REG_RESOURCE ? reg_find_uri(job->snap, name, strlen(name), NULL) :
		reg_find(job->snap, q->kind, name, strlen(name));
	if (!q->tool) {
		(void)err_set(err, ERR_NOT_FOUND, "", "%s %.64s: tenant %s has no such %s", reg_kinds[q->kind].noun, name,
			      arg_text(c, "tenant"), reg_kinds[q->kind].noun);
		err_hint(err, "toolcrib grant list %s shows what it may call", arg_text(c, "tenant"));
		return ERR_NOT_FOUND;
	}
	q->uri = q->kind == REG_RESOURCE ? name : NULL;
	if (reg_compile(job->registry, q->tool->def, &q->compiled, err) < 0)
		return err->code;
	return read_args(c, job->snap, q->kind, name, &job->args, err);
}

static int check_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct command_env *env = command_env(c);
	struct check_job *job = command_priv(c, sizeof(*job));
	struct pdp_question q = { .tport = AUDIT_ADMIN_SOCKET, .shown = true };
	const struct pdp_verdict *v;
	uint8_t id[16];
	int rc = find_pdps(c, err);

	(void)db;
	(void)logs;
	c->free_priv = check_free;
	job->registry = env->registry;
	if (rc == 0)
		rc = principal_named(env->tenants, arg_text(c, "tenant"), arg_text(c, "principal"), AUDIT_AUTHN_UID, &job->who,
				     err);
	if (rc < 0)
		return rc;
	job->snap = reg_acquire(env->registry, job->who->tenant_id);
	rc = find_asked(c, job, &q, err);
	if (rc < 0)
		return rc;
	if (!pdp_applies(env->pdps, job->who->tenant))
		return err_set(err, ERR_NOT_FOUND, "", "nobody is to be asked about calls of tenant %s", job->who->tenant);
	if (!job->args)
		job->args = json_object();
	jx_write(job->args, &job->args_text);
	id_uuid7(id);
	q.who = job->who;
	q.args = job->args;
	q.args_text = str_text(&job->args_text);
	q.args_len = job->args_text.len;
	q.call_id = id;
	job->asking = pdp_ask(env->pdps, &q, check_done, c);
	v = pdp_verdict(job->asking);
	if (v)
		put_verdict(c, job, v);
	else
		c->later = true;
	return 0;
}

/* --- rows of the command table */

static const struct command_arg check_args[] = {
	TENANT_WORD, WORD("principal", "PRINCIPAL", COMPLETE_NONE, "The principal of the tenant who would call."),
	WORD("tool", "TOOL", COMPLETE_TOOL, "The tool, as the tenant sees it; or prompt:NAME, or the URI of a resource."),
	VALUES, ARGS_OPT, ARG_END };
static const struct command_column check_cols[] = {
	COL("pdp", "pdp"), COL("decision", "decision"), COL("status", "status"), COL("ms", "ms"), COL("reason", "reason"),
	COL("why", "why"), COL("request", "request"), COL_END };
static const struct command_column status_cols[] = {
	COL("name", "NAME"), COL("place", "PLACE"), COL("state", "STATE"), COL("asked", "ASKED"), COL("allowed", "ALLOWED"),
	COL("denied", "DENIED"), COL("failed", "FAILED"), COL("cached", "CACHED"), COL("kept", "KEPT"), COL("why", "WHY"),
	COL_END };

const struct command pdp_commands[] = {
	{ .noun = "pdp", .verb = "status", .help = "List policy decision points, and how each answers",
	  .detail = "Of what the list pdp of the configuration names, counted since the server started.  FAILED: no answer "
		    "that counts, so that the call was refused; WHY says what was wrong the last time.  CACHED: answers that were "
		    "kept and used again; KEPT: how many of them there are.",
	  .args = no_args, .columns = status_cols, .runs = true, .shape = ADM_TABLE, .role = ADM_READ, .where = ADM_ON_LOOP,
	  .body = status_body },
	{ .noun = "pdp", .verb = "check", .help = "Ask the policy about a call, and run nothing",
	  .detail = "Asks those that decide about the tenant's calls now, whatever answers are kept, and shows what each was "
		    "asked and has said.  In the request, the caller is authenticated as uid and comes by the transport admin; of "
		    "a real call it has the credential, the client and its transport.",
	  .args = check_args, .columns = check_cols, .runs = true, .shape = ADM_ITEM, .role = ADM_OPERATE,
	  .where = ADM_ON_LOOP, .record = AUDIT_ADMIN_CMD, .body = check_body, .cancel = check_cancel },
	{ .noun = "pdp", .verb = "flush", .help = "Forget all answers of policy decision points",
	  .detail = "The next call of each sort asks again.  A reload of the configuration does the same.",
	  .args = no_args, .done = "answers forgotten: %{answers}", .role = ADM_OPERATE, .where = ADM_ON_LOOP,
	  .record = AUDIT_ADMIN_CMD, .body = flush_body },
	{ .noun = NULL },
};
