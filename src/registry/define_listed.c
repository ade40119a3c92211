/* The part of a definition that lists show to models and hosts, by kind.  define.c calls it for every document, on any
 * thread: it is pure.  The order of a kind's members is that of the wire. */

#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "proto/caps.h"
#include "schema/schema.h"
#include "tenant/scope.h"

#include "registry_int.h"

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

/* --- what all kinds have */

enum {
	TITLE_MAX = 256,                /* bytes */
	DESCRIPTION_MAX = 16 * 1024,
	ICONS_MAX = 16,
	ICON_SRC_MAX = 64 * 1024,
};

static int check_text(const json_t *text, const char *at, size_t max, struct err *err)
{
	size_t len = json_string_length(text);
	uint32_t c;

	if (len > max)
		return err_set(err, ERR_LIMIT, at, "has %zu bytes, more than %zu", len, max);
	if (text_hidden(json_string_value(text), len, &c) < len)        /* SEC S-211 */
		return err_set(err, ERR_INVALID, at, "has a character that nobody sees, U+%04X", (unsigned)c);
	return 0;
}

/* Titles and descriptions anywhere below.  The depth is the parser's. */
static int check_texts_below(const json_t *v, struct str *at, struct err *err)
{
	const char *key;
	json_t *child;
	size_t i;
	int rc = 0;

	json_object_foreach((json_t *)(uintptr_t)v, key, child) {
		size_t len = pointer_push(at, key);

		if (json_is_string(child) && (strcmp(key, "title") == 0 || strcmp(key, "description") == 0))
			rc = check_text(child, str_text(at), DESCRIPTION_MAX, err);
		else
			rc = check_texts_below(child, at, err);
		pointer_pop(at, len);
		if (rc < 0)
			return rc;
	}
	json_array_foreach(v, i, child) {
		char index[24];
		size_t len;

		(void)snprintf(index, sizeof(index), "%zu", i); /* fits */
		len = pointer_push(at, index);
		rc = check_texts_below(child, at, err);
		pointer_pop(at, len);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int define_check_texts(const json_t *v, struct err *err)
{
	struct str at = STR_INIT;
	int rc = check_texts_below(v, &at, err);

	str_fini(&at);
	return rc;
}

static int check_name(const json_t *doc, const char *noun, struct err *err)
{
	const char *name = NULL;
	int rc = jx_get_string(doc, "", "name", JX_REQUIRED, &name, err);

	if (rc < 0 || text_tool_name(name, strlen(name)))
		return rc;
	rc = err_set(err, ERR_INVALID, "/name", "%.80s is no %s name", name, noun);
	err_hint(err, "1 to 64 of A-Z a-z 0-9 _ . -");
	return rc;
}

static int check_word(const json_t *obj, const char *at, const char *name, size_t max, struct err *err)
{
	const char *text = NULL;
	char where[80];
	int rc = jx_get_string(obj, at, name, JX_OPTIONAL, &text, err);

	if (rc < 0 || !text)
		return rc;
	(void)snprintf(where, sizeof(where), "%s/%s", at, name); /* fits */
	return check_text(json_object_get(obj, name), where, max, err);
}

/* title, description */
static int check_words(const json_t *obj, const char *at, struct err *err)
{
	int rc = check_word(obj, at, "title", TITLE_MAX, err);

	return rc < 0 ? rc : check_word(obj, at, "description", DESCRIPTION_MAX, err);
}

static int check_description(const json_t *doc, struct err *err)
{
	const char *description = NULL;
	int rc = check_words(doc, "", err);

	if (rc == 0)
		rc = jx_get_string(doc, "", "description", JX_OPTIONAL, &description, err);
	if (rc < 0 || (description && description[strspn(description, " \t\n")] != '\0'))
		return rc;
	rc = err_set(err, ERR_INVALID, "/description", description ? "is empty" : "is missing");
	err_hint(err, "models choose a tool by its description");
	return rc;
}

static int check_tool_annotations(const json_t *doc, struct err *err)
{
	static const char *const known[] = { "title", "readOnlyHint", "destructiveHint", "idempotentHint",
					     "openWorldHint" };
	json_t *annotations = NULL;
	const char *title;
	bool hint;
	int rc = jx_get_object(doc, "", "annotations", JX_OPTIONAL, &annotations, err);

	if (rc < 0 || !annotations)
		return rc;
	rc = jx_only(annotations, "/annotations", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_string(annotations, "/annotations", "title", JX_OPTIONAL, &title, err);
	for (size_t i = 1; i < NELEMS(known) && rc == 0; i++)
		rc = jx_get_bool(annotations, "/annotations", known[i], JX_OPTIONAL, &hint, err);
	return rc;
}

static bool starts_with(const char *s, const char *prefix)
{
	return strncasecmp(s, prefix, strlen(prefix)) == 0;
}

static int check_icon(const json_t *icon, const char *at, struct err *err)
{
	static const char *const known[] = { "src", "mimeType", "sizes", "theme" };
	const char *src = NULL, *mime, *theme = NULL;
	json_t *sizes = NULL, *size;
	char below[64];
	size_t i;
	int rc;

	if (!json_is_object(icon))
		return err_set(err, ERR_INVALID, at, "must be an object, is %s", jx_type_name(icon));
	rc = jx_only(icon, at, known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_string(icon, at, "src", JX_REQUIRED, &src, err);
	if (rc == 0)
		rc = jx_get_string(icon, at, "mimeType", JX_OPTIONAL, &mime, err);
	if (rc == 0)
		rc = jx_get_string(icon, at, "theme", JX_OPTIONAL, &theme, err);
	if (rc == 0)
		rc = jx_get_array(icon, at, "sizes", JX_OPTIONAL, &sizes, err);
	if (rc < 0)
		return rc;
	(void)snprintf(below, sizeof(below), "%s/src", at); /* fits */
	if (strlen(src) > ICON_SRC_MAX)
		return err_set(err, ERR_LIMIT, below, "has more than %d bytes", ICON_SRC_MAX);
	/* MCP I-03, I-04: the schemes that a client may load. */
	if (!starts_with(src, "https://") && !starts_with(src, "data:"))
		return err_set(err, ERR_INVALID, below, "must begin with https:// or data:");
	(void)snprintf(below, sizeof(below), "%s/theme", at); /* fits */
	if (theme && strcmp(theme, "light") != 0 && strcmp(theme, "dark") != 0)
		return err_set(err, ERR_INVALID, below, "must be light or dark");
	json_array_foreach(sizes, i, size) {
		(void)snprintf(below, sizeof(below), "%s/sizes/%zu", at, i); /* fits */
		if (!json_is_string(size))
			return err_set(err, ERR_INVALID, below, "must be a string, is %s", jx_type_name(size));
	}
	return 0;
}

static int check_icons(const json_t *doc, struct err *err)
{
	json_t *icons = NULL, *icon;
	size_t i;
	int rc = jx_get_array(doc, "", "icons", JX_OPTIONAL, &icons, err);

	if (rc == 0 && json_array_size(icons) > ICONS_MAX)
		rc = err_set(err, ERR_LIMIT, "/icons", "has %zu icons, more than %d", json_array_size(icons), ICONS_MAX);
	if (rc < 0)
		return rc;
	json_array_foreach(icons, i, icon) {
		char at[32];

		(void)snprintf(at, sizeof(at), "/icons/%zu", i); /* fits */
		rc = check_icon(icon, at, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int check_tool(const json_t *doc, struct err *err)
{
	int rc = check_description(doc, err);

	return rc < 0 ? rc : check_tool_annotations(doc, err);
}

int define_check_listed(const json_t *doc, const struct define_kind *kind, struct err *err)
{
	static const char *const deep[] = { "inputSchema", "outputSchema", "annotations", "_meta" };
	struct str at = STR_INIT;
	json_t *meta;
	int rc = check_name(doc, reg_kinds[kind->kind].noun, err);

	if (rc == 0)
		rc = kind->check(doc, err);
	if (rc == 0)
		rc = check_icons(doc, err);
	if (rc == 0)
		rc = jx_get_object(doc, "", "_meta", JX_OPTIONAL, &meta, err);
	for (size_t i = 0; i < NELEMS(deep) && rc == 0; i++) {
		size_t len = pointer_push(&at, deep[i]);

		rc = check_texts_below(json_object_get(doc, deep[i]), &at, err);
		pointer_pop(&at, len);
	}
	str_fini(&at);
	return rc;
}

/* --- prompts, resources and templates: arguments, URIs, completion */

enum {
	ARGUMENTS_MAX = 100,            /* of one prompt */
	ARGUMENT_NAME_MAX = 64,         /* bytes */
	VALUES_MAX = 10000,             /* to complete one argument from */
	MIME_MAX = 255,                 /* bytes (RFC 6838 4.2, twice 127 and the slash) */
	SIZE_MAX_BYTES = 1 << 30,
};

static int check_argument(const json_t *argument, const char *at, struct err *err)
{
	static const char *const known[] = { "name", "title", "description", "required" };
	const char *name = NULL;
	char below[64];
	bool required;
	int rc;

	if (!json_is_object(argument))
		return err_set(err, ERR_INVALID, at, "must be an object, is %s", jx_type_name(argument));
	rc = jx_only(argument, at, known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_string(argument, at, "name", JX_REQUIRED, &name, err);
	if (rc == 0)
		rc = jx_get_bool(argument, at, "required", JX_OPTIONAL, &required, err);
	if (rc == 0)
		rc = check_words(argument, at, err);
	if (rc < 0)
		return rc;
	(void)snprintf(below, sizeof(below), "%s/name", at); /* fits */
	if (*name == '\0' || strlen(name) > ARGUMENT_NAME_MAX)
		return err_set(err, ERR_INVALID, below, "must have 1 to %d bytes", ARGUMENT_NAME_MAX);
	return 0;
}

static int check_arguments(const json_t *doc, struct err *err)
{
	json_t *arguments = NULL, *argument;
	size_t i;
	int rc = jx_get_array(doc, "", "arguments", JX_OPTIONAL, &arguments, err);

	if (rc == 0 && json_array_size(arguments) > ARGUMENTS_MAX)
		rc = err_set(err, ERR_LIMIT, "/arguments", "has %zu arguments, more than %d", json_array_size(arguments),
			     ARGUMENTS_MAX);
	if (rc < 0)
		return rc;
	json_array_foreach(arguments, i, argument) {
		char at[40];

		(void)snprintf(at, sizeof(at), "/arguments/%zu", i); /* fits */
		rc = check_argument(argument, at, err);
		for (size_t k = 0; k < i && rc == 0; k++)
			if (json_equal(json_object_get(json_array_get(arguments, k), "name"), json_object_get(argument, "name")))
				rc = err_set(err, ERR_INVALID, at, "the argument %.64s is named twice",
					     json_string_value(json_object_get(argument, "name")));
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* audience, priority, lastModified (MCP T-34). */
static int check_resource_annotations(const json_t *doc, struct err *err)
{
	static const char *const known[] = { "audience", "priority", "lastModified" };
	json_t *annotations = NULL, *audience = NULL, *priority, *role;
	const char *modified;
	size_t i;
	int rc = jx_get_object(doc, "", "annotations", JX_OPTIONAL, &annotations, err);

	if (rc < 0 || !annotations)
		return rc;
	rc = jx_only(annotations, "/annotations", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_array(annotations, "/annotations", "audience", JX_OPTIONAL, &audience, err);
	if (rc == 0)
		rc = jx_get_string(annotations, "/annotations", "lastModified", JX_OPTIONAL, &modified, err);
	if (rc < 0)
		return rc;
	json_array_foreach(audience, i, role) {
		const char *word = json_string_value(role);

		if (!word || (strcmp(word, "user") != 0 && strcmp(word, "assistant") != 0))
			return err_set(err, ERR_INVALID, "/annotations/audience", "must hold user, assistant or both");
	}
	priority = json_object_get(annotations, "priority");
	if (priority && (!json_is_number(priority) || jx_compare(jx_number(priority), (struct jx_number){ .i = 0 }) < 0 ||
			 jx_compare(jx_number(priority), (struct jx_number){ .i = 1 }) > 0))
		return err_set(err, ERR_INVALID, "/annotations/priority", "must be a number from 0 to 1");
	return 0;
}

/* RFC 6838: type/subtype, perhaps with parameters. */
static int check_mime(const json_t *doc, struct err *err)
{
	const char *mime = NULL, *slash;
	int rc = jx_get_string(doc, "", "mimeType", JX_OPTIONAL, &mime, err);

	if (rc < 0 || !mime)
		return rc;
	slash = strchr(mime, '/');
	for (const char *p = mime; slash && *p; p++)
		if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
			slash = NULL;
	if (!slash || slash == mime || slash[1] == '\0' || strlen(mime) > MIME_MAX)
		return err_set(err, ERR_INVALID, "/mimeType", "%.80s is no media type, as text/plain is one", mime);
	return 0;
}

static int check_prompt(const json_t *doc, struct err *err)
{
	int rc = check_words(doc, "", err);

	return rc < 0 ? rc : check_arguments(doc, err);
}

static int check_uri(const json_t *doc, const char *member, const char *at, bool template, struct err *err)
{
	const char *uri = NULL;
	int rc = jx_get_string(doc, "", member, JX_REQUIRED, &uri, err);

	return rc < 0 ? rc : uri_check(uri, at, template, err);
}

static int check_resource(const json_t *doc, struct err *err)
{
	int64_t size;
	int rc = check_uri(doc, "uri", "/uri", false, err);

	if (rc == 0)
		rc = check_words(doc, "", err);
	if (rc == 0)
		rc = check_mime(doc, err);
	if (rc == 0)
		rc = jx_get_int(doc, "", "size", JX_OPTIONAL, 0, SIZE_MAX_BYTES, &size, err);
	return rc < 0 ? rc : check_resource_annotations(doc, err);
}

static int check_template(const json_t *doc, struct err *err)
{
	int rc = check_uri(doc, "uriTemplate", "/uriTemplate", true, err);

	if (rc == 0)
		rc = check_words(doc, "", err);
	if (rc == 0)
		rc = check_mime(doc, err);
	return rc < 0 ? rc : check_resource_annotations(doc, err);
}

/* --- what runs of them */

json_t *define_prompt_schema(const json_t *doc)
{
	json_t *properties = json_object(), *required = json_array(), *argument;
	size_t i;

	json_array_foreach(json_object_get(doc, "arguments"), i, argument) {
		json_t *name = json_object_get(argument, "name");

		json_object_set_new(properties, json_string_value(name), json_pack("{s:s}", "type", "string"));
		if (json_is_true(json_object_get(argument, "required")))
			json_array_append_new(required, json_incref(name));
	}
	return json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", properties, "required", required,
			 "additionalProperties", 0);
}

static int full(const char *at, struct err *err)
{
	return err_set(err, ERR_LIMIT, at, "the definition is too large");
}

static int read_values(const json_t *values, const char *at, struct arena *mem, struct reg_completion *ret,
		       struct err *err)
{
	size_t n = json_array_size(values), i;
	const char **list = arena_alloc(mem, (n + 1) * sizeof(*list));
	json_t *value;

	if (n > VALUES_MAX)
		return err_set(err, ERR_LIMIT, at, "has %zu values, more than %d", n, VALUES_MAX);
	if (!list)
		return full(at, err);
	json_array_foreach(values, i, value) {
		if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
			return err_set(err, ERR_INVALID, at, "value %zu must be a text, is %s", i + 1, jx_type_name(value));
		list[i] = arena_strdup(mem, json_string_value(value));
		if (!list[i])
			return full(at, err);
	}
	ret->values = list;
	ret->nvalues = n;
	return 0;
}

static bool has_argument(const json_t *doc, enum reg_kind kind, const char *name)
{
	const json_t *argument;
	size_t i;

	if (kind == REG_TEMPLATE)
		return uri_template_has(json_string_value(json_object_get(doc, "uriTemplate")), name);
	json_array_foreach(json_object_get(doc, "arguments"), i, argument)
		if (strcmp(json_string_value(json_object_get(argument, "name")), name) == 0)
			return true;
	return false;
}

static int read_completion(const json_t *how, const char *at, reg_bind_fn *bind, struct arena *mem,
			   struct reg_completion *ret, struct err *err)
{
	int rc;

	if (json_is_array(how))
		return read_values(how, at, mem, ret, err);
	if (!json_is_object(how))
		return err_set(err, ERR_INVALID, at, "must be a list of values or a handler, is %s", jx_type_name(how));
	rc = bind(how, mem, &ret->ops, &ret->plan, err);
	if (rc < 0)
		err_at(err, at);
	return rc;
}

int define_read_complete(const json_t *doc, enum reg_kind kind, reg_bind_fn *bind, struct arena *mem,
			 struct reg_compiled *ret, struct err *err)
{
	json_t *complete = NULL, *how;
	struct reg_completion *list;
	const char *name;
	int rc = jx_get_object(doc, "", "complete", JX_OPTIONAL, &complete, err);

	if (rc < 0 || !complete)
		return rc;
	list = arena_alloc(mem, (json_object_size(complete) + 1) * sizeof(*list));
	if (!list)
		return full("/complete", err);
	json_object_foreach(complete, name, how) {
		struct reg_completion *c = &list[ret->ncompletions];
		struct str at = STR_INIT;

		str_puts(&at, "/complete");
		jx_pointer_add(&at, name);
		c->argument = arena_strdup(mem, name);
		if (!has_argument(doc, kind, name))
			rc = err_set(err, ERR_INVALID, str_text(&at), "there is no %s %.64s",
				     kind == REG_TEMPLATE ? "variable" : "argument", name);
		else
			rc = c->argument ? read_completion(how, str_text(&at), bind, mem, c, err) : full("/complete", err);
		str_fini(&at);
		if (rc < 0)
			return rc;
		ret->ncompletions++;
	}
	ret->completions = list;
	return 0;
}

/* --- pages of apps */

/* A page of ours: of an upstream's, the upstream says what it is. */
bool define_is_own_page(const json_t *doc)
{
	const char *uri = json_string_value(json_object_get(doc, "uri"));
	const char *type = json_string_value(json_object_get(json_object_get(doc, "handler"), "type"));

	if (!uri)
		uri = json_string_value(json_object_get(doc, "uriTemplate"));
	return uri && uri_is_page(uri) && type && strcmp(type, "mcp") != 0;
}

int define_compile_resource(const json_t *doc, struct arena *mem, struct reg_compiled *ret, struct err *err)
{
	const char *mime = json_string_value(json_object_get(doc, "mimeType"));
	const json_t *ui = json_object_get(json_object_get(doc, "_meta"), "ui");
	struct str text = STR_INIT;

	if (mime)
		ret->mime = arena_strdup(mem, mime);
	else if (define_is_own_page(doc))
		ret->mime = mime = CAP_UI_MIME;
	if (json_is_object(ui)) {
		jx_write(ui, &text);
		ret->page = arena_strndup(mem, text.p, text.len);
		str_fini(&text);
	}
	if ((mime && !ret->mime) || (json_is_object(ui) && !ret->page))
		return err_set(err, ERR_LIMIT, "", "the definition is too large");
	return 0;
}

static void lint_page(const json_t *doc, define_warn_fn *warn, void *arg)
{
	const char *uri = json_string_value(json_object_get(doc, "uri"));
	const char *mime = json_string_value(json_object_get(doc, "mimeType"));

	if (uri && uri_is_page(uri) && mime && strcmp(mime, CAP_UI_MIME) != 0)
		warn(arg, "/mimeType", "hosts take a ui: resource for a page only as " CAP_UI_MIME);
}

/* Who shows no pages sees the text, and so does the model. */
static void lint_fixed_result(const json_t *doc, define_warn_fn *warn, void *arg)
{
	const json_t *content = json_object_get(json_object_get(json_object_get(doc, "handler"), "result"), "content"), *block;
	size_t i;

	if (!json_object_get(json_object_get(json_object_get(doc, "_meta"), "ui"), "resourceUri") || !json_is_array(content))
		return;
	json_array_foreach((json_t *)(uintptr_t)content, i, block)
		if (json_string_length(json_object_get(block, "text")) > 0)
			return;
	warn(arg, "/handler/result/content", "there is no text: the model, and clients that show no pages, see nothing");
}

void define_lint_pages(const json_t *doc, enum reg_kind kind, define_warn_fn *warn, void *arg)
{
	if (kind == REG_RESOURCE)
		lint_page(doc, warn, arg);
	else if (kind == REG_TOOL)
		lint_fixed_result(doc, warn, arg);
}

/* --- the kinds */

const struct reg_kind_row reg_kinds[REG_KINDS] = {
	[REG_TOOL] = { "tool", "tool", "", REG_TOOLS, SCOPE_TOOLS_CALL },
	[REG_PROMPT] = { "prompt", "prompt", "prompt:", REG_PROMPTS, SCOPE_PROMPTS_GET },
	[REG_RESOURCE] = { "resource", "resource", "resource:", REG_RESOURCES, SCOPE_RESOURCES_READ },
	[REG_TEMPLATE] = { "resourceTemplate", "resource template", "resource:", REG_RESOURCES, SCOPE_RESOURCES_READ },
};

static const char *const tool_listed[] = { "name", "title", "description", "inputSchema", "outputSchema", "annotations",
					   "icons", "_meta", NULL };
static const char *const prompt_listed[] = { "name", "title", "description", "arguments", "icons", "_meta", NULL };
static const char *const resource_listed[] = { "uri", "name", "title", "description", "mimeType", "size", "annotations",
					       "icons", "_meta", NULL };
static const char *const template_listed[] = { "uriTemplate", "name", "title", "description", "mimeType", "annotations",
					       "icons", "_meta", NULL };
static const char *const tool_more[] = { "kind", "formats", "handler", "limits", "task", "approve", "audit", "policy",
					 "needs", NULL };
static const char *const resource_more[] = { "kind", "handler", "limits", "audit", "policy", "needs", NULL };
static const char *const complete_more[] = { "kind", "complete", "handler", "limits", "audit", "policy", "needs",
					      NULL };

const struct define_kind define_kinds[REG_KINDS] = {
	[REG_TOOL] = { REG_TOOL, tool_listed, tool_more, check_tool },
	[REG_PROMPT] = { REG_PROMPT, prompt_listed, complete_more, check_prompt },
	[REG_RESOURCE] = { REG_RESOURCE, resource_listed, resource_more, check_resource },
	[REG_TEMPLATE] = { REG_TEMPLATE, template_listed, complete_more, check_template },
};
