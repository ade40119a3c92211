/* A definition document to the row that is stored, and to what runs. */

#include "config.h"

#include "registry/define.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "registry_int.h"
#include "schema/schema.h"

size_t pointer_push(struct str *at, const char *token)
{
	size_t len = at->len;

	jx_pointer_add(at, token);
	return len;
}

void pointer_pop(struct str *at, size_t len)
{
	at->len = len;
	if (at->p)
		at->p[len] = '\0';
}

static const char *const tool_listed[] = { "name", "title", "description", "inputSchema", "outputSchema", "annotations",
					   "icons", "_meta", NULL };
static const char *const prompt_listed[] = { "name", "title", "description", "arguments", "icons", "_meta", NULL };
static const char *const resource_listed[] = { "uri", "name", "title", "description", "mimeType", "size", "annotations",
					       "icons", "_meta", NULL };
static const char *const template_listed[] = { "uriTemplate", "name", "title", "description", "mimeType", "annotations",
					       "icons", "_meta", NULL };
static const char *const tool_more[] = { "kind", "formats", "handler", "limits", "audit", "needs", NULL };
static const char *const resource_more[] = { "kind", "handler", "limits", "audit", "needs", NULL };
static const char *const complete_more[] = { "kind", "complete", "handler", "limits", "audit", "needs", NULL };

static const struct define_kind kinds[REG_KINDS] = {
	[REG_TOOL] = { REG_TOOL, tool_listed, tool_more, define_check_tool },
	[REG_PROMPT] = { REG_PROMPT, prompt_listed, complete_more, define_check_prompt },
	[REG_RESOURCE] = { REG_RESOURCE, resource_listed, resource_more, define_check_resource },
	[REG_TEMPLATE] = { REG_TEMPLATE, template_listed, complete_more, define_check_template },
};

int define_kind_of(const json_t *doc, enum reg_kind *ret, struct err *err)
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
		char where[sizeof err->where];

		memcpy(where, err->where, sizeof where);
		err->where[0] = '\0';
		(void)err_wrap(err, "%s", where);
	}
	err_at(err, at);
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
		(void)snprintf(at, sizeof at, "/%s", names[i]); /* fits */
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

	return rc < 0 ? rc : define_params(json_object_get(doc, "inputSchema"), mem, &ret->params, &ret->nparams, err);
}

static int compile_resource(const json_t *doc, struct arena *mem, struct reg_compiled *ret, struct err *err)
{
	const char *mime = json_string_value(json_object_get(doc, "mimeType"));

	if (!mime)
		return 0;
	ret->mime = arena_strdup(mem, mime);
	return ret->mime ? 0 : err_set(err, ERR_LIMIT, "/mimeType", "the definition is too large");
}

static int compile_kind(const json_t *doc, enum reg_kind kind, struct catalogue_use *use, struct arena *mem,
			struct reg_compiled *ret, struct err *err)
{
	switch (kind) {
	case REG_TOOL:
		return compile_tool(doc, use, mem, ret, err);
	case REG_PROMPT:
		return define_prompt_schema(doc, &ret->input, err);
	case REG_RESOURCE:
	case REG_TEMPLATE:
		return compile_resource(doc, mem, ret, err);
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
		rc = define_read_limits(doc, &c, err);
	if (rc == 0)
		rc = define_read_needs(doc, &c, err);
	if (rc == 0)
		rc = define_read_level(doc, &c.audit_level, err);
	if (rc == 0)
		rc = define_read_redact(doc, mem, &c, err);
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

void define_digest(const json_t *v, uint8_t ret[DIGEST_SIZE])
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
	for (const char *const *name = kind->listed; *name; name++) {
		json_t *v = json_object_get(doc, *name);

		if (v)
			json_object_set_new(listed, *name, json_incref(v));
	}
	jx_write(stored, &text);
	if (text.len > DEFINE_TEXT_MAX) {
		rc = err_set(err, ERR_LIMIT, "", "the definition has %zu bytes, more than %u", text.len, DEFINE_TEXT_MAX);
	} else {
		*ret = (struct define_item){ .kind = kind->kind, .uri = mem_strdup0(uri) };
		(void)snprintf(ret->name, sizeof ret->name, "%s%s", reg_kinds[kind->kind].prefix,
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
		rc = check_members(doc, &kinds[kind], err);
	if (rc == 0)
		rc = define_check_listed(doc, &kinds[kind], err);
	if (rc == 0)
		rc = check_compiles(doc, kind, bind, shared, &refs, err);
	if (rc == 0)
		rc = make_row(doc, &kinds[kind], ret, err);
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
