/* The parts of prompt, resource and template documents that tools do not have: arguments, URIs, completion. */

#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "json/json.h"
#include "registry_int.h"
#include "schema/schema.h"

enum {
	ARGUMENTS_MAX = 100,            /* of one prompt */
	ARGUMENT_NAME_MAX = 64,         /* bytes */
	VALUES_MAX = 10000,             /* to complete one argument from */
	MIME_MAX = 255,                 /* bytes (RFC 6838 4.2, twice 127 and the slash) */
	SIZE_MAX_BYTES = 1 << 30,
};

/* --- what is listed */

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
		rc = define_check_words(argument, at, err);
	if (rc < 0)
		return rc;
	(void)snprintf(below, sizeof below, "%s/name", at); /* fits */
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

		(void)snprintf(at, sizeof at, "/arguments/%zu", i); /* fits */
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
static int check_annotations(const json_t *doc, struct err *err)
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

int define_check_prompt(const json_t *doc, struct err *err)
{
	int rc = define_check_words(doc, "", err);

	return rc < 0 ? rc : check_arguments(doc, err);
}

static int check_uri(const json_t *doc, const char *member, const char *at, bool template, struct err *err)
{
	const char *uri = NULL;
	int rc = jx_get_string(doc, "", member, JX_REQUIRED, &uri, err);

	return rc < 0 ? rc : uri_check(uri, at, template, err);
}

int define_check_resource(const json_t *doc, struct err *err)
{
	int64_t size;
	int rc = check_uri(doc, "uri", "/uri", false, err);

	if (rc == 0)
		rc = define_check_words(doc, "", err);
	if (rc == 0)
		rc = check_mime(doc, err);
	if (rc == 0)
		rc = jx_get_int(doc, "", "size", JX_OPTIONAL, 0, SIZE_MAX_BYTES, &size, err);
	return rc < 0 ? rc : check_annotations(doc, err);
}

int define_check_template(const json_t *doc, struct err *err)
{
	int rc = check_uri(doc, "uriTemplate", "/uriTemplate", true, err);

	if (rc == 0)
		rc = define_check_words(doc, "", err);
	if (rc == 0)
		rc = check_mime(doc, err);
	return rc < 0 ? rc : check_annotations(doc, err);
}

/* --- what runs */

/* The schema of a prompt's arguments: texts by name, and nothing else. */
int define_prompt_schema(const json_t *doc, struct schema **ret, struct err *err)
{
	json_t *properties = json_object(), *required = json_array(), *argument, *schema;
	size_t i;
	int rc;

	json_array_foreach(json_object_get(doc, "arguments"), i, argument) {
		json_t *name = json_object_get(argument, "name");

		json_object_set_new(properties, json_string_value(name), json_pack("{s:s}", "type", "string"));
		if (json_is_true(json_object_get(argument, "required")))
			json_array_append_new(required, json_incref(name));
	}
	schema = json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", properties, "required", required,
			   "additionalProperties", 0);
	rc = schema_compile(schema, ret, err);
	json_decref(schema);
	if (rc < 0)
		err_at(err, "/arguments");
	return rc;
}

static int full(const char *at, struct err *err)
{
	return err_set(err, ERR_LIMIT, at, "the definition is too large");
}

static int read_values(const json_t *values, const char *at, struct arena *mem, struct reg_completion *ret,
		       struct err *err)
{
	size_t n = json_array_size(values), i;
	const char **list = arena_alloc(mem, (n + 1) * sizeof *list);
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
	list = arena_alloc(mem, (json_object_size(complete) + 1) * sizeof *list);
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
