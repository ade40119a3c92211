/* A definition document to the row that is stored, and to what runs; documents of kind schema too.  Commands call it
 * on the writer's thread, the registry on the loop's: it is pure.  What define_item() accepts, define_compile()
 * compiles. */

#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "assent/rule.h"
#include "audit/payload.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "proto/caps.h"
#include "registry/define.h"
#include "schema/schema.h"

#include "registry_int.h"

/* --- what is legal but makes real hosts stumble (MCP B-31, B-32), and how R3 and R4 see an output schema */

enum { DESCRIPTION_WIDE = 1024 };       /* bytes: what the model interfaces of large hosts accept */

struct forward {
	define_warn_fn *warn;
	void *arg;
	const char *prefix;
};

static void forward_warning(void *arg, const char *pointer, const char *text)
{
	const struct forward *f = arg;
	struct str at = STR_INIT;

	str_puts(&at, f->prefix);
	str_puts(&at, pointer);
	f->warn(f->arg, str_text(&at), text);
	str_fini(&at);
}

static bool has_reference(const json_t *v)
{
	const char *key;
	json_t *child;
	size_t i;

	json_object_foreach((json_t *)(uintptr_t)v, key, child)
		if (strcmp(key, "$ref") == 0 || strcmp(key, "$dynamicRef") == 0 || has_reference(child))
			return true;
	json_array_foreach(v, i, child)
		if (has_reference(child))
			return true;
	return false;
}

enum reg_output define_output_form(const json_t *schema)
{
	const char *type = json_string_value(json_object_get(schema, "type"));

	if (!schema)
		return REG_OUTPUT_NONE;
	if (type && strcmp(type, "object") == 0)
		return REG_OUTPUT_OBJECT;
	return has_reference(schema) ? REG_OUTPUT_HIDDEN : REG_OUTPUT_WRAPPED;
}

/* --- x-mcp-header: which arguments a modern HTTP client repeats as Mcp-Param-* headers (MCP T-41, T-42) */

enum {
	HEADER_NAME_MAX = 64,
	DEFINE_PARAMS_MAX = 32,         /* x-mcp-header properties of one tool */
};

struct walk {
	struct str at;                  /* where we are, from the schema's root */
	struct str arg;                 /* the argument that this schema describes */
	struct arena *mem;
	struct reg_param params[DEFINE_PARAMS_MAX];
	size_t n;
	struct err *err;
};

static bool is_token(const char *s)
{
	/* RFC 9110 5.6.2 */
	return *s && s[strspn(s, "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")] == '\0';
}

static int take_param(struct walk *w, const json_t *schema, const json_t *value, bool reachable)
{
	static const char *const types[] = { "string", "integer", "boolean" };
	const char *name = json_string_value(value), *type = json_string_value(json_object_get(schema, "type")), *at;
	struct reg_param *p;

	at = str_text(&w->at);
	if (!reachable)
		return err_set(w->err, ERR_INVALID, at,
			       "x-mcp-header stands only on properties that are reached through properties alone");
	if (!name || !is_token(name) || strlen(name) != json_string_length(value) || strlen(name) > HEADER_NAME_MAX)
		return err_set(w->err, ERR_INVALID, at, "must be a header name of 1 to %d characters", HEADER_NAME_MAX);
	for (size_t i = 0; i < w->n; i++)
		if (strcasecmp(w->params[i].header, name) == 0)
			return err_set(w->err, ERR_INVALID, at, "%s is used twice", name);
	if (w->n == DEFINE_PARAMS_MAX)
		return err_set(w->err, ERR_LIMIT, at, "more than %d properties with x-mcp-header", DEFINE_PARAMS_MAX);
	p = &w->params[w->n];
	for (size_t i = 0; i < NELEMS(types) && type; i++) {
		if (strcmp(type, types[i]) != 0)
			continue;
		p->type = (enum reg_param_type)i;
		p->header = arena_strdup(w->mem, name);
		p->pointer = arena_strdup(w->mem, str_text(&w->arg));
		if (!p->header || !p->pointer)
			return err_set(w->err, ERR_LIMIT, at, "the definition is too large");
		w->n++;
		return 0;
	}
	return err_set(w->err, ERR_INVALID, at, "x-mcp-header needs type string, integer or boolean beside it");
}

static bool is_word(const char *key, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(key, words[i]) == 0)
			return true;
	return false;
}

static int walk_schema(struct walk *w, const json_t *schema, bool reachable);

/* A keyword whose value maps names to schemas. */
static int walk_map(struct walk *w, json_t *map, bool reachable)
{
	const char *name;
	json_t *sub;

	json_object_foreach(map, name, sub) {
		size_t at = pointer_push(&w->at, name), arg = pointer_push(&w->arg, name);
		int rc = walk_schema(w, sub, reachable);

		pointer_pop(&w->at, at);
		pointer_pop(&w->arg, arg);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int walk_list(struct walk *w, const json_t *list)
{
	json_t *sub;
	size_t i;

	json_array_foreach(list, i, sub) {
		int rc = walk_schema(w, sub, false);

		if (rc < 0)
			return rc;
	}
	return 0;
}

/* The schema compiled, so its depth is bounded. */
static int walk_schema(struct walk *w, const json_t *schema, bool reachable)
{
	static const char *const maps[] = { "properties", "patternProperties", "$defs", "definitions", "dependentSchemas" };
	static const char *const data[] = { "enum", "const", "default", "examples" };
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)schema, key, v) {
		size_t at = pointer_push(&w->at, key);
		int rc = 0;

		if (strcmp(key, "x-mcp-header") == 0)
			rc = take_param(w, schema, v, reachable);
		else if (is_word(key, maps, NELEMS(maps)))
			rc = walk_map(w, v, reachable && strcmp(key, "properties") == 0);
		else if (!is_word(key, data, NELEMS(data)))
			rc = json_is_array(v) ? walk_list(w, v) : walk_schema(w, v, false);
		pointer_pop(&w->at, at);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Collect x-mcp-header of a schema that compiles (MCP T-41, T-42); names and pointers go to mem. */
static int collect_params(const json_t *schema, struct arena *mem, const struct reg_param **ret, size_t *ret_n,
		  struct err *err)
{
	struct walk w = { .at = STR_INIT, .arg = STR_INIT, .mem = mem, .err = err };
	int rc = walk_schema(&w, schema, true);

	if (rc == 0 && w.n > 0) {
		struct reg_param *params = arena_dup(mem, w.params, w.n * sizeof(w.params[0]));

		rc = params ? 0 : err_set(err, ERR_LIMIT, "", "the definition is too large");
		*ret = params;
		*ret_n = w.n;
	}
	str_fini(&w.at);
	str_fini(&w.arg);
	if (rc < 0)
		err_at(err, "/inputSchema");
	return rc;
}

static int refuse_params(const json_t *schema, struct err *err)
{
	struct walk w = { .at = STR_INIT, .arg = STR_INIT, .err = err };
	int rc = walk_schema(&w, schema, false);

	str_fini(&w.at);
	str_fini(&w.arg);
	return rc;
}

/* --- the blocks of a definition beside the MCP tool object: limits, audit, needs (product.md 4) */

static int read_timeout(const json_t *limits, uint32_t *ret, struct err *err)
{
	const char *text = NULL;
	uint64_t ms;
	int rc = jx_get_string(limits, "/limits", "timeout", JX_OPTIONAL, &text, err);

	if (rc < 0)
		err_hint(err, "write a duration with its unit, as in 10s");
	if (rc < 0 || !text)
		return rc;
	if (text_duration_ms(text, &ms) < 0) {
		rc = err_set(err, ERR_INVALID, "/limits/timeout", "%.40s is no duration", text);
		err_hint(err, "write it with its unit, as in 500ms, 10s, 5m");
		return rc;
	}
	if (ms < REG_TIMEOUT_MIN_MS || ms > REG_TIMEOUT_MAX_MS)
		return err_set(err, ERR_INVALID, "/limits/timeout", "must be from 1s to 1h, is %.40s", text);
	*ret = (uint32_t)ms;
	return 0;
}

static int read_rate(const json_t *limits, struct text_rate *ret, struct err *err)
{
	const char *text = NULL;
	int rc = jx_get_string(limits, "/limits", "rate", JX_OPTIONAL, &text, err);

	if (rc < 0 || !text)
		return rc;
	if (text_rate(text, ret) == 0)
		return 0;
	rc = err_set(err, ERR_INVALID, "/limits/rate", "%.40s is no rate", text);
	err_hint(err, "write it as 10/s, 60/min, 100/h or 5000/day");
	return rc;
}

static int read_result(const json_t *limits, size_t *ret, struct err *err)
{
	const char *text = NULL;
	uint64_t bytes;
	int rc = jx_get_string(limits, "/limits", "result", JX_OPTIONAL, &text, err);

	if (rc < 0)
		err_hint(err, "write a size with its unit, as in 1MiB");
	if (rc < 0 || !text)
		return rc;
	if (text_size(text, &bytes) < 0) {
		rc = err_set(err, ERR_INVALID, "/limits/result", "%.40s is no size", text);
		err_hint(err, "write it as 512, 64KiB or 1MiB");
		return rc;
	}
	if (bytes < 1 || bytes > REG_RESULT_MAX)
		return err_set(err, ERR_INVALID, "/limits/result", "must be from 1 byte to 16MiB, is %.40s", text);
	*ret = (size_t)bytes;
	return 0;
}

static int read_limits(const json_t *doc, struct reg_compiled *ret, struct err *err)
{
	static const char *const known[] = { "timeout", "concurrency", "rate", "result" };
	json_t *limits = NULL;
	int64_t concurrency = 0;
	int rc = jx_get_object(doc, "", "limits", JX_OPTIONAL, &limits, err);

	ret->timeout_ms = REG_TIMEOUT_DEFAULT_MS;
	ret->result_max = REG_RESULT_DEFAULT;
	if (rc < 0 || !limits)
		return rc;
	rc = jx_only(limits, "/limits", known, NELEMS(known), err);
	if (rc == 0)
		rc = read_timeout(limits, &ret->timeout_ms, err);
	if (rc == 0)
		rc = jx_get_int(limits, "/limits", "concurrency", JX_OPTIONAL, 1, REG_CONCURRENCY_MAX, &concurrency, err);
	if (rc == 0)
		rc = read_rate(limits, &ret->rate, err);
	if (rc == 0)
		rc = read_result(limits, &ret->result_max, err);
	ret->concurrency = (uint32_t)concurrency;
	return rc;
}

/* HA-01.  What an approver is to be shown is not what nobody may be shown. */
static int read_approve(const json_t *doc, struct reg_compiled *ret, struct err *err)
{
	json_t *approve = NULL;
	int rc = jx_get_object(doc, "", "approve", JX_OPTIONAL, &approve, err);

	if (rc < 0 || !approve)
		return rc;
	rc = assent_rule_read(approve, "/approve", &ret->approve, err);
	for (size_t i = 0; rc == 0 && i < ret->approve->nshow; i++)
		for (size_t k = 0; rc == 0 && k < ret->nredact; k++) {
			const char *show = ret->approve->show[i], *redact = ret->redact[k];
			const size_t a = strlen(show), b = strlen(redact), n = a < b ? a : b;
			const char *rest = a < b ? redact : show;

			if (strncmp(show, redact, n) == 0 && (rest[n] == '\0' || rest[n] == '/'))
				rc = err_set(err, ERR_INVALID, "/approve/show", "%.60s is redacted, so nobody is shown it", redact);
		}
	return rc;
}

static int read_needs(const json_t *doc, struct reg_compiled *ret, struct err *err)
{
	static const char *const known[] = { "client" };
	static const char *const words[] = { "elicitation", "elicitation.url", "sampling", "sampling.tools", "roots" };
	json_t *needs = NULL, *client = NULL, *v;
	size_t i;
	int rc = jx_get_object(doc, "", "needs", JX_OPTIONAL, &needs, err);

	if (rc == 0 && needs)
		rc = jx_only(needs, "/needs", known, NELEMS(known), err);
	if (rc == 0 && needs)
		rc = jx_get_array(needs, "/needs", "client", JX_OPTIONAL, &client, err);
	if (rc < 0)
		return rc;
	json_array_foreach(client, i, v) {
		const char *word = json_string_value(v), *near;
		uint32_t caps = word ? caps_from_word(word) : 0;
		char at[48];

		ret->needs_caps |= caps;
		if (caps)
			continue;
		(void)snprintf(at, sizeof(at), "/needs/client/%zu", i); /* fits */
		if (!word)
			return err_set(err, ERR_INVALID, at, "must be a string, is %s", jx_type_name(v));
		rc = err_set(err, ERR_INVALID, at, "unknown client capability %.40s", word);
		near = text_nearest(word, words, NELEMS(words));
		if (near)
			err_hint(err, "did you mean %s?", near);
		return rc;
	}
	return 0;
}

/* -1: the definition says nothing */
static int read_level(const json_t *doc, int *ret, struct err *err)
{
	static const char *const known[] = { "level", "redact" };
	json_t *audit = NULL;
	const char *level = NULL;
	int rc = jx_get_object(doc, "", "audit", JX_OPTIONAL, &audit, err);

	*ret = -1;
	if (rc < 0 || !audit)
		return rc;
	rc = jx_only(audit, "/audit", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_string(audit, "/audit", "level", JX_OPTIONAL, &level, err);
	if (rc < 0 || !level)
		return rc;
	*ret = audit_level_from_name(level);
	if (*ret >= 0)
		return 0;
	(void)err_set(err, ERR_INVALID, "/audit/level", "unknown audit level %.40s", level);
	err_hint(err, "metadata, request or request_response: how much of a call is kept");
	return ERR_INVALID;
}

/* Pointers into the arguments: the member redact or arguments of a block. */
static int read_pointers(const json_t *doc, const char *block, const char *name, struct arena *mem,
			 const char *const **ret, size_t *ret_n, struct err *err)
{
	json_t *in = json_object_get(doc, block), *list = NULL, *v;
	const char **pointers;
	char at[40], where[80];
	size_t i;
	int rc;

	(void)snprintf(at, sizeof(at), "/%s", block);
	rc = in ? jx_get_array(in, at, name, JX_OPTIONAL, &list, err) : 0;
	if (rc < 0 || !list)
		return rc;
	(void)snprintf(where, sizeof(where), "%s/%s", at, name);
	if (json_array_size(list) > REG_REDACT_MAX)
		return err_set(err, ERR_LIMIT, where, "more than %d pointers", REG_REDACT_MAX);
	pointers = arena_alloc(mem, (json_array_size(list) + 1) * sizeof(const char *));
	if (!pointers)
		return err_set(err, ERR_LIMIT, where, "the definition is too large");
	json_array_foreach(list, i, v) {
		const char *pointer = json_string_value(v);

		(void)snprintf(where, sizeof(where), "%s/%s/%zu", at, name, i);
		if (!pointer || memchr(pointer, '\0', json_string_length(v)) || !jx_pointer_valid(pointer)) {
			rc = err_set(err, ERR_INVALID, where, "must be a JSON pointer into the arguments");
			err_hint(err, "write /card/number for {\"card\": {\"number\": ...}}");
			return rc;
		}
		pointers[i] = arena_strdup(mem, pointer);
		if (!pointers[i])
			return err_set(err, ERR_LIMIT, where, "the definition is too large");
	}
	*ret = pointers;
	*ret_n = json_array_size(list);
	return 0;
}

/* Arguments that nothing may repeat. */
static int read_redact(const json_t *doc, struct arena *mem, struct reg_compiled *ret, struct err *err)
{
	return read_pointers(doc, "audit", "redact", mem, &ret->redact, &ret->nredact, err);
}

/* What a policy decision point may be told of a call's arguments (PD-02). */
static int read_policy(const json_t *doc, struct arena *mem, struct reg_compiled *ret, struct err *err)
{
	static const char *const known[] = { "arguments" };
	json_t *policy = NULL;
	int rc = jx_get_object(doc, "", "policy", JX_OPTIONAL, &policy, err);

	rc = rc || !policy ? rc : jx_only(policy, "/policy", known, NELEMS(known), err);
	return rc ? rc : read_pointers(doc, "policy", "arguments", mem, &ret->policy, &ret->npolicy, err);
}

/* --- the document of a tool, prompt, resource or template */

/* The kind of a document: `kind`, or tool without one. */
static int define_kind_of(const json_t *doc, enum reg_kind *ret, struct err *err)
{
	static const char *const others[] = { "upstream", "tenant", "grant" };
	const char *words[REG_KINDS], *kind = "tool", *near;
	int rc = jx_get_string(doc, "", "kind", JX_OPTIONAL, &kind, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < REG_KINDS; i++) {
		words[i] = reg_kinds[i].word;
		if (strcmp(kind, words[i]) != 0)
			continue;
		*ret = (enum reg_kind)i;
		return 0;
	}
	if (strcmp(kind, "schema") == 0) {
		(void)err_set(err, ERR_INVALID, "/kind", "a schema is no tool");
		err_hint(err, "toolcrib schema add stores it for tools to refer to");
		return ERR_INVALID;
	}
	for (size_t i = 0; i < NELEMS(others); i++)
		if (strcmp(kind, others[i]) == 0) {
			(void)err_set(err, ERR_INVALID, "/kind", "kind %s is no tool, prompt or resource", kind);
			err_hint(err, "toolcrib apply reads documents of this kind");
			return ERR_INVALID;
		}
	(void)err_set(err, ERR_INVALID, "/kind", "unknown kind %.40s", kind);
	near = text_nearest(kind, words, NELEMS(words));
	if (near)
		err_hint(err, "did you mean %s?", near);
	else
		err_hint(err, "write tool, prompt, resource or resourceTemplate; without kind it is a tool");
	return ERR_INVALID;
}

static int check_members(const json_t *doc, const struct define_kind *kind, struct err *err)
{
	const char *known[32];
	size_t n = 0;

	for (size_t i = 0; kind->listed[i]; i++)
		known[n++] = kind->listed[i];
	for (size_t i = 0; kind->more[i]; i++)
		known[n++] = kind->more[i];
	return jx_only(doc, "", known, n, err);
}

/* "format" is an annotation unless the definition wants it to decide. */
static int read_formats(const json_t *doc, bool *ret_assert, struct err *err)
{
	const char *text = "annotate";
	int rc = jx_get_string(doc, "", "formats", JX_OPTIONAL, &text, err);

	if (rc == 0 && strcmp(text, "annotate") != 0 && strcmp(text, "assert") != 0)
		rc = err_set(err, ERR_INVALID, "/formats", "must be assert or annotate, is \"%.40s\"", text);
	*ret_assert = strcmp(text, "assert") == 0;
	return rc;
}

/* A place inside a shared schema is none in the document: it is said in words. */
static int schema_failed(struct err *err, const char *at, int rc)
{
	if (err && *err->where && *err->where != '/') {
		char where[sizeof(err->where)];

		memcpy(where, err->where, sizeof(where));
		err->where[0] = '\0';
		(void)err_wrap(err, "%s", where);
	}
	err_at(err, at);
	return rc;
}

static int compile_prompt(const json_t *doc, struct schema **ret, struct err *err)
{
	json_t *schema = define_prompt_schema(doc);
	int rc = schema_compile(schema, ret, err);

	json_decref(schema);
	if (rc < 0)
		err_at(err, "/arguments");
	return rc;
}

static int compile_schemas(const json_t *doc, struct catalogue_use *use, struct reg_compiled *ret, struct err *err)
{
	struct schema_options options = { .find = catalogue_find, .find_arg = use };
	json_t *input = NULL, *output = NULL;
	int rc = jx_get_object(doc, "", "inputSchema", JX_OPTIONAL, &input, err);
	const char *type = json_string_value(json_object_get(input, "type"));

	if (rc == 0 && !input) {
		rc = err_set(err, ERR_INVALID, "/inputSchema", "is missing");
		err_hint(err, "for a tool without arguments: inputSchema: {type: object, additionalProperties: false}");
	}
	/* MCP T-11: every revision demands this root, and some hosts drop all tools over one that lacks it. */
	if (rc == 0 && !type)
		rc = err_set(err, ERR_INVALID, "/inputSchema/type", "must be \"object\"");
	if (rc == 0 && strcmp(type, "object") != 0)
		rc = err_set(err, ERR_INVALID, "/inputSchema/type", "must be \"object\", is \"%.40s\"", type);
	if (rc == 0)
		rc = jx_get_object(doc, "", "outputSchema", JX_OPTIONAL, &output, err);
	if (rc == 0)
		rc = read_formats(doc, &options.assert_format, err);
	if (rc < 0)
		return rc;
	rc = schema_compile_with(input, &options, &ret->input, err);
	if (rc < 0)
		return schema_failed(err, "/inputSchema", rc);
	ret->output_form = define_output_form(output);
	if (!output)
		return 0;
	rc = schema_compile_with(output, &options, &ret->output, err);
	return rc < 0 ? schema_failed(err, "/outputSchema", rc) : 0;
}

/* Lists show a schema with all that it refers to, in 2020-12: that must be possible.  all: what is shown so. */
static int check_bundles(const json_t *doc, struct catalogue_use *all, struct err *err)
{
	static const char *const names[] = { "inputSchema", "outputSchema" };

	for (size_t i = 0; i < NELEMS(names); i++) {
		const json_t *schema = json_object_get(doc, names[i]);
		struct catalogue_use use = { .from = all->from };
		const struct schema_options options = { .find = catalogue_find, .find_arg = &use };
		json_t *made = NULL;
		int rc = schema ? schema_bundle(schema, &options, &made, err) : 0;
		bool alone = use.refs.n == 0;
		char at[16];

		json_decref(made);
		for (size_t k = 0; k < use.refs.n; k++)
			(void)catalogue_find(all, use.refs.v[k].uri);
		catalogue_use_end(&use, NULL);
		(void)snprintf(at, sizeof(at), "/%s", names[i]); /* fits */
		if (rc < 0 && !alone)   /* alone, what cannot be said in 2020-12 is listed as it is */
			return schema_failed(err, at, rc);
	}
	return 0;
}

/* A static handler has the shapes of the kind that it stands in; in a prompt or template it inserts arguments. */
static int static_handler(json_t *handler, enum reg_kind kind, json_t **ret, struct err *err)
{
	static const char *const own[REG_KINDS] = { [REG_TOOL] = "content", [REG_PROMPT] = "messages",
		[REG_RESOURCE] = "contents", [REG_TEMPLATE] = "contents" };
	const json_t *result = json_object_get(handler, "result");

	for (size_t i = 1; i < REG_TEMPLATE; i++)
		if (json_object_get(result, own[i]) && strcmp(own[i], own[kind]) != 0)
			return err_set(err, ERR_INVALID, i == REG_PROMPT ? "/handler/result/messages" : "/handler/result/contents",
				       "%s are not what a %s gives", own[i], reg_kinds[kind].noun);
	*ret = json_copy(handler);
	if ((kind == REG_PROMPT || kind == REG_TEMPLATE) && !json_object_get(handler, "template"))
		json_object_set_new(*ret, "template", json_true());
	return 0;
}

static int compile_handler(const json_t *doc, enum reg_kind kind, reg_bind_fn *bind, struct arena *mem,
			   struct reg_compiled *ret, struct err *err)
{
	json_t *handler = NULL, *own = NULL;
	const char *type;
	int rc = jx_get_object(doc, "", "handler", JX_OPTIONAL, &handler, err);

	if (rc == 0 && !handler) {
		rc = err_set(err, ERR_INVALID, "/handler", "is missing");
		err_hint(err, kind == REG_TOOL ? "for a first trial: handler: {type: builtin, function: echo}" :
			 "for a fixed text: handler: {type: static, text: …}");
	}
	if (rc < 0)
		return rc;
	type = json_string_value(json_object_get(handler, "type"));
	if (type && strcmp(type, "static") == 0)
		rc = static_handler(handler, kind, &own, err);
	if (rc < 0)
		return rc;
	rc = bind(own ? own : handler, mem, &ret->ops, &ret->plan, err);
	json_decref(own);
	if (rc < 0)
		err_at(err, "/handler");
	return rc;
}

static int compile_tool(const json_t *doc, struct catalogue_use *use, struct arena *mem, struct reg_compiled *ret,
			struct err *err)
{
	int rc = compile_schemas(doc, use, ret, err);

	return rc < 0 ? rc : collect_params(json_object_get(doc, "inputSchema"), mem, &ret->params, &ret->nparams, err);
}

static int compile_kind(const json_t *doc, enum reg_kind kind, struct catalogue_use *use, struct arena *mem,
			struct reg_compiled *ret, struct err *err)
{
	switch (kind) {
	case REG_TOOL:
		return compile_tool(doc, use, mem, ret, err);
	case REG_PROMPT:
		return compile_prompt(doc, &ret->input, err);
	case REG_RESOURCE:
	case REG_TEMPLATE:
		return define_compile_resource(doc, mem, ret, err);
	case REG_KINDS:
		break;
	}
	return err_set(err, ERR_INTERNAL, "", "no such kind");
}

static int compile_with(const json_t *doc, enum reg_kind kind, reg_bind_fn *bind, struct catalogue_use *use,
			struct arena *mem, struct reg_compiled *ret, struct err *err)
{
	struct reg_compiled c = { 0 };
	int rc = compile_kind(doc, kind, use, mem, &c, err);

	if (rc == 0)
		rc = read_limits(doc, &c, err);
	if (rc == 0 && kind == REG_TOOL)
		rc = define_task(doc, &c, err);
	if (rc == 0)
		rc = read_needs(doc, &c, err);
	if (rc == 0)
		rc = read_level(doc, &c.audit_level, err);
	if (rc == 0)
		rc = read_redact(doc, mem, &c, err);
	if (rc == 0 && kind == REG_TOOL)
		rc = read_approve(doc, &c, err);
	if (rc == 0)
		rc = read_policy(doc, mem, &c, err);
	if (rc == 0)
		rc = compile_handler(doc, kind, bind, mem, &c, err);
	if (rc == 0)
		rc = define_read_complete(doc, kind, bind, mem, &c, err);
	if (rc < 0)
		define_compiled_fini(&c);
	else
		*ret = c;
	return rc;
}

int define_compile(const json_t *doc, enum reg_kind kind, reg_bind_fn *bind, const struct catalogue *shared,
		   struct arena *mem, struct reg_compiled *ret, struct err *err)
{
	struct catalogue_use use = { .from = shared };
	int rc = compile_with(doc, kind, bind, &use, mem, ret, err);

	catalogue_use_end(&use, NULL);
	return rc;
}

void define_compiled_fini(struct reg_compiled *c)
{
	schema_free(&c->input);
	schema_free(&c->output);
	assent_rule_free(&c->approve);
}

/* Compile only to see that it does, and what it refers to. */
static int check_compiles(const json_t *doc, enum reg_kind kind, reg_bind_fn *bind, const struct catalogue *shared,
			  struct catalogue_refs *ret, struct err *err)
{
	struct arena *mem = arena_new(DEFINE_MEMORY_MAX);
	struct catalogue_use use = { .from = shared };
	struct reg_compiled compiled;
	int rc = compile_with(doc, kind, bind, &use, mem, &compiled, err);

	if (rc == 0) {
		define_compiled_fini(&compiled);
		rc = use.refs.n ? check_bundles(doc, &use, err) : 0;
	}
	catalogue_use_end(&use, rc == 0 ? ret : NULL);
	arena_free(&mem);
	return rc;
}

/* of the canonical text */
static void define_digest(const json_t *v, uint8_t ret[DIGEST_SIZE])
{
	struct str text = STR_INIT;

	jx_write_canon(v, &text);
	digest_sha256(str_text(&text), text.len, ret);
	str_fini(&text);
}

/* Text and digests of the document without `kind`, which says nothing more. */
static int make_row(const json_t *doc, const struct define_kind *kind, struct define_item *ret, struct err *err)
{
	struct str text = STR_INIT;
	json_t *stored = json_copy((json_t *)(uintptr_t)doc), *listed = json_object();  /* shallow */
	const char *uri = json_string_value(json_object_get(doc, kind->kind == REG_TEMPLATE ? "uriTemplate" : "uri"));
	int rc = 0;

	(void)json_object_del(stored, "kind"); /* may be absent */
	if (!json_object_get(stored, "mimeType") && define_is_own_page(stored))        /* UI-06 */
		json_object_set_new(stored, "mimeType", json_string(CAP_UI_MIME));
	for (const char *const *name = kind->listed; *name; name++) {
		json_t *v = json_object_get(stored, *name);

		if (v)
			json_object_set_new(listed, *name, json_incref(v));
	}
	jx_write(stored, &text);
	if (text.len > DEFINE_TEXT_MAX) {
		rc = err_set(err, ERR_LIMIT, "", "the definition has %zu bytes, more than %u", text.len, DEFINE_TEXT_MAX);
	} else {
		*ret = (struct define_item){ .kind = kind->kind, .uri = mem_strdup0(uri) };
		(void)snprintf(ret->name, sizeof(ret->name), "%s%s", reg_kinds[kind->kind].prefix,
			       json_string_value(json_object_get(doc, "name"))); /* checked: fits */
		define_digest(stored, ret->digest);
		define_digest(listed, ret->list_digest);
		ret->text = str_take(&text);
	}
	str_fini(&text);
	json_decref(stored);
	json_decref(listed);
	return rc;
}

int define_item(const json_t *doc, reg_bind_fn *bind, const struct catalogue *shared, struct define_item *ret,
		struct err *err)
{
	struct catalogue_refs refs = { NULL, 0 };
	enum reg_kind kind;
	int rc;

	if (!json_is_object(doc))
		return err_set(err, ERR_INVALID, "", "a definition must be an object, is %s", jx_type_name(doc));
	rc = define_kind_of(doc, &kind, err);
	if (rc == 0)
		rc = check_members(doc, &define_kinds[kind], err);
	if (rc == 0)
		rc = define_check_listed(doc, &define_kinds[kind], err);
	if (rc == 0)
		rc = check_compiles(doc, kind, bind, shared, &refs, err);
	if (rc == 0)
		rc = make_row(doc, &define_kinds[kind], ret, err);
	if (rc == 0)
		ret->refs = refs;
	else
		catalogue_refs_fini(&refs);
	return rc;
}

void define_free(struct define_item *d)
{
	free(d->text);
	free(d->uri);
	d->text = d->uri = NULL;
	catalogue_refs_fini(&d->refs);
}

void define_lint(const json_t *doc, define_warn_fn *warn, void *arg)
{
	struct forward f = { warn, arg, "/inputSchema" };
	const json_t *input = json_object_get(doc, "inputSchema"), *output = json_object_get(doc, "outputSchema");
	const char *name = json_string_value(json_object_get(doc, "name"));
	enum reg_kind kind;
	struct err ignored;

	if (define_kind_of(doc, &kind, &ignored) < 0)
		return;
	define_lint_pages(doc, kind, warn, arg);
	if (kind != REG_TOOL)
		return;                 /* what hosts stumble over is known of tools */
	if (name && strchr(name, '.'))
		warn(arg, "/name", "some hosts refuse tool names with a dot");
	if (json_string_length(json_object_get(doc, "description")) > DESCRIPTION_WIDE)
		warn(arg, "/description", "some hosts cut or refuse descriptions of more than 1024 bytes");
	if (json_is_object(input))
		schema_lint(input, forward_warning, &f);
	f.prefix = "/outputSchema";
	if (json_is_object(output))
		schema_lint(output, forward_warning, &f);
	switch (define_output_form(output)) {
	case REG_OUTPUT_NONE:
	case REG_OUTPUT_OBJECT:
		break;
	case REG_OUTPUT_WRAPPED:
		warn(arg, "/outputSchema",
		     "the root is not type object: clients of 2025-06-18 and 2025-11-25 see it wrapped as {result: …}");
		break;
	case REG_OUTPUT_HIDDEN:
		warn(arg, "/outputSchema",
		     "the root is not type object and has $ref: clients of 2025-06-18 and 2025-11-25 do not see it");
		break;
	}
}

/* --- documents of kind schema: what tools share by $ref */

/* `kind` says nothing more; the rest is the schema.  New reference. */
static json_t *without_kind(const json_t *doc)
{
	json_t *schema = json_copy((json_t *)(uintptr_t)doc);   /* shallow */

	(void)json_object_del(schema, "kind");  /* may be absent */
	return schema;
}

int define_schema_read(const json_t *doc, struct define_schema *ret, struct err *err)
{
	const char *kind = "schema";
	struct str text = STR_INIT;
	json_t *schema;
	char *uri = NULL;
	int rc = json_is_object(doc) ? jx_get_string(doc, "", "kind", JX_OPTIONAL, &kind, err) : 0;

	if (rc == 0 && strcmp(kind, "schema") != 0)
		rc = err_set(err, ERR_INVALID, "/kind", "must be schema, is %.40s", kind);
	if (rc == 0)
		rc = schema_identity(doc, &uri, err);
	if (rc < 0)
		return rc;
	schema = without_kind(doc);
	jx_write(schema, &text);
	if (text.len > SCHEMA_TEXT_MAX) {
		rc = err_set(err, ERR_LIMIT, "", "the schema is longer than %d KiB", SCHEMA_TEXT_MAX >> 10);
		free(uri);
	} else {
		*ret = (struct define_schema){ .uri = uri };
		define_digest(schema, ret->digest);
		ret->text = str_take(&text);
	}
	json_decref(schema);
	str_fini(&text);
	return rc;
}

int define_schema_check(const json_t *doc, const struct catalogue *shared, struct define_schema *def, struct err *err)
{
	struct catalogue_use use = { .from = shared };
	const struct schema_options options = { .find = catalogue_find, .find_arg = &use };
	json_t *schema = without_kind(doc), *whole = NULL;
	struct schema *compiled = NULL;
	int rc = define_check_texts(schema, err);

	if (rc == 0)
		rc = schema_compile_with(schema, &options, &compiled, err);
	schema_free(&compiled);
	if (rc == 0)
		rc = refuse_params(schema, err);
	if (rc == 0)
		rc = schema_bundle(schema, &options, &whole, err);
	json_decref(whole);
	json_decref(schema);
	catalogue_refs_fini(&def->refs);
	catalogue_use_end(&use, rc >= 0 ? &def->refs : NULL);
	return rc < 0 ? rc : 0;
}

void define_schema_free(struct define_schema *d)
{
	free(d->uri);
	free(d->text);
	d->uri = d->text = NULL;
	catalogue_refs_fini(&d->refs);
}
