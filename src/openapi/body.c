/* Bodies: what an operation sends and what it answers, as arguments and as outputSchema. */
#include "config.h"

#include "openapi_int.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "json/json.h"

#define MERGE_DEPTH_MAX 16              /* allOf inside of allOf */

/* --- media types */

enum media { MEDIA_NONE, MEDIA_JSON, MEDIA_FORM };

static bool is_json(const char *type)
{
	static const char json[] = "application/json";
	size_t n = strcspn(type, "; "), len = strlen("+json");

	return (n == strlen(json) && strncasecmp(type, json, n) == 0) || strncmp(type, "*/*", 3) == 0 ||
	       (n > len && strncasecmp(type + n - len, "+json", len) == 0);
}

/* The best of them: JSON, then a form.  ret_type: its name, or that of the first when none will do. */
static enum media choose_media(const json_t *content, const json_t **ret, const char **ret_type)
{
	enum media found = MEDIA_NONE;
	const char *type;
	json_t *media;

	*ret = NULL;
	*ret_type = NULL;
	json_object_foreach((json_t *)(uintptr_t)content, type, media) {
		bool form = strncasecmp(type, "application/x-www-form-urlencoded", 33) == 0;

		if (!*ret_type)
			*ret_type = type;
		if (found == MEDIA_JSON || (!is_json(type) && !form))
			continue;
		found = form ? MEDIA_FORM : MEDIA_JSON;
		*ret = media;
		*ret_type = type;
	}
	return found;
}

/* --- objects */

static bool is_object(const struct operation *o, const json_t *schema)
{
	return oa_is_type(o, schema, "object") || !json_object_get(schema, "type");
}

/* Does it say all of its members itself, or by allOf? */
static bool is_simple(const struct operation *o, const json_t *schema)
{
	static const char *const complex[] = { "anyOf", "oneOf", "not", "if", "patternProperties" };
	const json_t *more = json_object_get(schema, "additionalProperties");

	for (size_t i = 0; i < NELEMS(complex); i++)
		if (json_object_get(schema, complex[i]))
			return false;
	return json_is_object(schema) && (!more || json_is_false(more)) && is_object(o, schema);
}

static void merge_members(const json_t *schema, json_t *properties, json_t *required)
{
	const char *name;
	json_t *sub;

	json_object_foreach(json_object_get(schema, "properties"), name, sub) {
		json_t *before = json_object_get(properties, name);

		if (!before)
			(void)json_object_set(properties, name, sub);
		else if (!json_equal(before, sub))
			(void)json_object_set_new(properties, name, json_pack("{s:[O, O]}", "allOf", before, sub));
	}
	json_array_extend(required, json_object_get(schema, "required"));
}

/* All parts of an allOf as one object; false: one of them is more than that. */
static bool merge(struct operation *o, const json_t *schema, json_t *properties, json_t *required, unsigned depth)
{
	const json_t *all;

	schema = oa_follow(o->c, schema);
	if (depth > MERGE_DEPTH_MAX || ++o->nodes > OPENAPI_NODES_MAX || !is_simple(o, schema))
		return false;
	merge_members(schema, properties, required);
	all = json_object_get(schema, "allOf");
	for (size_t i = 0; i < json_array_size(all); i++)
		if (!merge(o, json_array_get(all, i), properties, required, depth + 1))
			return false;
	return true;
}

const json_t *oa_members(struct operation *o, const json_t *schema)
{
	json_t *properties, *required;

	if (!is_simple(o, schema))
		return NULL;
	if (!json_object_get(schema, "allOf"))
		return json_object_size(json_object_get(schema, "properties")) > 0 ? schema : NULL;
	properties = json_object();
	required = json_array();
	if (merge(o, schema, properties, required, 0) && json_object_size(properties) > 0) {
		schema = json_pack("{s:O, s:O}", "properties", properties, "required", required);
		(void)json_array_append_new(o->merged, (json_t *)(uintptr_t)schema);
	} else {
		schema = NULL;
	}
	json_decref(properties);
	json_decref(required);
	return schema;
}

/* A schema that says by itself what its root is; its definition stays for those that refer to it. */
static json_t *root_schema(struct operation *o, const json_t *schema)
{
	json_t *made = oa_schema(o, schema);
	const char *ref = json_string_value(json_object_get(made, "$ref"));
	/* A $ref that leads nowhere stands as it came. */
	bool ours = ref && strncmp(ref, DEFS, strlen(DEFS)) == 0;
	json_t *target = ours ? json_object_get(o->defs, ref + strlen(DEFS)) : NULL;

	if (!target || json_object_size(made) > 1)
		return made;
	target = json_copy(target);
	json_decref(made);
	return target;
}

/* --- requests */

static void say_type(struct operation *o, const char *type)
{
	o->headers = o->headers ? o->headers : json_object();
	(void)json_object_set_new(o->headers, "Content-Type", json_string(type));
}

/* Each member of the body is an argument of its own. */
static void spread(struct operation *o, const json_t *schema, bool required)
{
	const json_t *must = json_object_get(schema, "required");
	const char *name;
	json_t *sub;

	o->body = json_object();
	json_object_foreach(json_object_get(schema, "properties"), name, sub) {
		const json_t *is = oa_follow(o->c, sub);
		char *argument, *template;

		if (json_is_true(json_object_get(is, "readOnly")))
			continue;
		argument = oa_argument(o, name, oa_schema(o, sub), NULL, required && oa_listed(must, name));
		template = mem_printf("{/%s}", argument);
		(void)json_object_set_new(o->body, name, json_string(template));
		free(template);
		free(argument);
	}
}

/* The arguments are the body. */
static void take_whole(struct operation *o, const json_t *schema)
{
	o->input = root_schema(o, schema);
	(void)json_object_set_new(o->input, "type", json_string("object"));
	o->body = json_string("arguments");
}

/* One argument is the body: a list, a plain value, or an object of which the description does not say the members. */
static void take_value(struct operation *o, const json_t *schema, const char *description, bool required)
{
	char *argument = oa_argument(o, "body", oa_schema(o, schema), description, required);
	char *template = mem_printf("{/%s}", argument);

	o->body = json_string(template);
	free(template);
	free(argument);
}

/* Nothing of what the server takes can be sent. */
static void refuse(struct operation *o, const char *type, bool inside, bool required)
{
	bool parts = type && strncasecmp(type, "multipart/", 10) == 0;
	const char *why = parts ? "bodies of several parts (multipart) are not sent" : "bodies are JSON or forms";
	struct str at = STR_INIT;

	str_puts(&at, "/requestBody");
	if (type && inside) {
		str_puts(&at, "/content");
		jx_pointer_add(&at, type);
	}
	if (required)
		oa_fail(o, str_text(&at), "%s", why);
	else
		oa_note(o, str_text(&at), "is left out: %s", why);
	str_fini(&at);
}

static void take_json(struct operation *o, const json_t *schema, const char *type, const json_t *body, bool required)
{
	const json_t *is = oa_follow(o->c, schema), *members = oa_members(o, is);
	const char *description = json_string_value(json_object_get(body, "description"));
	bool usual = strncasecmp(type, "application/json", strcspn(type, "; ")) == 0 || *type == '*';
	bool whole = json_object_size(o->properties) == 0 && (!is || json_is_object(is)) && is_object(o, is);

	if (members)
		spread(o, members, required);
	else if (whole)
		take_whole(o, schema);
	else
		take_value(o, schema, description, required);
	if (!usual || !(members || whole))
		say_type(o, usual ? "application/json" : type);
}

void oa_body(struct operation *o)
{
	const json_t *said = json_object_get(o->op, "requestBody"), *body = oa_follow(o->c, said), *media, *schema, *members;
	bool required = json_is_true(json_object_get(body, "required"));
	const char *type;
	enum media kind = choose_media(json_object_get(body, "content"), &media, &type);

	if (!said)
		return;
	schema = json_object_get(media, "schema");
	if (o->method->reads) {
		oa_note(o, "/requestBody", "%s has no body: it is left out", o->method->name);
	} else if (kind == MEDIA_NONE) {
		refuse(o, type, said == body, required);
	} else if (kind == MEDIA_JSON) {
		take_json(o, schema, type, body, required);
	} else if ((members = oa_members(o, oa_follow(o->c, schema)))) {
		spread(o, members, required);
		say_type(o, "application/x-www-form-urlencoded");
	} else {
		oa_fail(o, "/requestBody", "the form is no object of named members, so it cannot stand among the arguments");
	}
}

/* --- answers */

static bool is_known(const json_t *schemas, const json_t *schema)
{
	for (size_t i = 0; i < json_array_size(schemas); i++)
		if (json_equal(json_array_get(schemas, i), schema))
			return true;
	return false;
}

/* The schemas of all answers that mean success; false: one of them is no JSON, or without a schema. */
static bool read_answers(struct operation *o, json_t *schemas, const char **ret_accept)
{
	const char *status, *type;
	bool all = true;
	json_t *said;

	json_object_foreach(json_object_get(o->op, "responses"), status, said) {
		const json_t *content = json_object_get(oa_follow(o->c, said), "content"), *media;
		enum media kind = choose_media(content, &media, &type);
		json_t *schema = json_object_get(media, "schema");

		if (*status != '2')
			continue;
		if (kind == MEDIA_JSON && json_object_size(content) > 1)
			*ret_accept = type;
		if (kind != MEDIA_JSON || !schema)
			all = false;
		else if (!is_known(schemas, schema))
			(void)json_array_append(schemas, schema);
	}
	return all;
}

/* In definitions of its own: what the client alone writes is no part of it, what the server writes is. */
static void convert_output(struct operation *o, json_t *schemas)
{
	struct operation out = *o;
	json_t *made;

	out.output = true;
	out.defs = json_object();
	out.targets = json_object();
	out.waiting = json_array();
	out.converted = 0;
	if (json_array_size(schemas) == 1) {
		made = root_schema(&out, json_array_get(schemas, 0));
	} else {
		json_t *any = json_pack("{s:O}", "anyOf", schemas);

		made = oa_schema(&out, any);
		json_decref(any);
	}
	if (json_is_object(made) && json_object_size(out.defs) > 0)
		(void)json_object_set(made, "$defs", out.defs);
	if (!out.failed)
		o->output_schema = json_incref(made);
	o->nodes = out.nodes;
	o->at = out.at;
	json_decref(made);
	json_decref(out.defs);
	json_decref(out.targets);
	json_decref(out.waiting);
}

void oa_answers(struct operation *o)
{
	json_t *schemas = json_array();
	const char *accept = NULL;
	bool all = read_answers(o, schemas, &accept);

	if (json_array_size(schemas) > 0 && !all)
		oa_note(o, "/responses", "outputSchema is left out: an answer that means success is no JSON with a schema");
	else if (json_array_size(schemas) > 0 && !o->failed)
		convert_output(o, schemas);
	if (o->output_schema && accept) {
		o->headers = o->headers ? o->headers : json_object();
		(void)json_object_set_new(o->headers, "Accept", json_string(accept));
	}
	json_decref(schemas);
}
