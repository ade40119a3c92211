/* A description as a whole: its server, its operations, and the documents they become: parameters, bodies and security
 * as arguments and an http handler, answers as outputSchema.  Pure but for the sink; what cannot be said is noted. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "json/json.h"

#include "openapi_int.h"

/* --- From parameters and security of an operation to arguments and an http handler. */

#define QUERY_MAX 32                    /* fixed names in `query`, and in `headers` */

static char *oa_argument(struct operation *o, const char *name, json_t *schema, const char *description, bool required)
{
	char *word = oa_word(name), *unique = mem_strdup(word);

	for (unsigned n = 2; json_object_get(o->properties, unique); n++) {
		free(unique);
		unique = mem_printf("%.56s_%u", word, n);
	}
	free(word);
	if (description && *description && json_is_object(schema) && !json_object_get(schema, "description")) {
		json_t *told = json_copy(schema);

		(void)json_object_set_new(told, "description", json_string(description));
		json_decref(schema);
		schema = told;
	}
	(void)json_object_set_new(o->properties, unique, schema);
	if (required)
		(void)json_array_append_new(o->required, json_string(unique));
	return unique;
}

/* --- parameters */

static const char *text_of(const json_t *v, const char *name, const char *usual)
{
	const char *text = json_string_value(json_object_get(v, name));

	return text ? text : usual;
}

/* What a parameter or media type says of its values. */
static const json_t *schema_of(const json_t *v)
{
	const json_t *content = json_object_get(v, "content");
	void *first = content ? json_object_iter((json_t *)(uintptr_t)content) : NULL;

	return json_object_get(first ? json_object_iter_value(first) : v, "schema");
}

/* a list of strings */
static bool oa_listed(const json_t *list, const char *name)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (text && strcmp(text, name) == 0)
			return true;
	}
	return false;
}

static bool oa_is_type(const struct operation *o, const json_t *schema, const char *type)
{
	const json_t *said = json_object_get(oa_follow(o->c, schema), "type");

	return json_is_string(said) ? strcmp(json_string_value(said), type) == 0 : oa_listed(said, type);
}

/* Put the template of one argument under a fixed name. */
static void put_fixed(struct operation *o, json_t **map, const char *what, const char *name, const char *argument)
{
	char *template = mem_printf("{/%s}", argument);

	if (!*map)
		*map = json_object();
	if (json_object_size(*map) == QUERY_MAX)
		oa_fail(o, "/parameters", "has more than %d %s", QUERY_MAX, what);
	else
		(void)json_object_set_new(*map, name, json_string(template));
	free(template);
}

static void put_query(struct operation *o, const char *name, const char *argument, const json_t *parameter)
{
	const json_t *schema = schema_of(parameter), *explode = json_object_get(parameter, "explode");
	bool each = oa_is_type(o, schema, "array") && !json_is_false(explode);

	/* The URL says lists as OpenAPI does; a name that differs from the argument's stands in `query`. */
	if (strcmp(name, argument) == 0)
		str_printf(&o->url_query, "%s%s%s", o->url_query.len ? "," : "", argument, each ? "*" : "");
	else if (oa_is_type(o, schema, "array"))
		oa_note(o, "/parameters", "the list %.80s of the query is left out", name);
	else
		put_fixed(o, &o->query, "odd names in the query", name, argument);
}

static bool is_ours(const char *header)
{
	static const char *const ours[] = { "accept", "content-type", "authorization", "host", "content-length",
		"connection",
					    "transfer-encoding", "te", "upgrade", "cookie", "expect", "trailer" };

	for (size_t i = 0; i < NELEMS(ours); i++)
		if (strcasecmp(ours[i], header) == 0)
			return true;
	return false;
}

/* Why it cannot be sent, or NULL. */
static const char *unfit(const struct operation *o, const json_t *p, const char *in)
{
	const char *style = text_of(p, "style", NULL);
	const json_t *schema = schema_of(p);

	if (strcmp(in, "cookie") == 0)
		return "cookies are not sent";
	if (style && strcmp(style, "form") != 0 && strcmp(style, "simple") != 0)
		return "its style is not known here";
	if (json_object_get(p, "content") && !oa_is_type(o, schema, "string"))
		return "parameters with content of their own are not known here";
	if (oa_is_type(o, schema, "object"))
		return "objects outside of the body are not known here";
	return NULL;
}

static const json_t *oa_members(struct operation *o, const json_t *schema);

/* The object whose members are values of their own in the query, or NULL; `deep` says as a[b]. */
static const json_t *spread_of(struct operation *o, const json_t *p, const char *in, bool *ret_deep)
{
	const char *style = text_of(p, "style", "form");

	*ret_deep = strcmp(style, "deepObject") == 0;
	if (strcmp(in, "query") != 0 || json_object_get(p, "content") || !oa_is_type(o, schema_of(p), "object"))
		return NULL;
	if (!*ret_deep && (strcmp(style, "form") != 0 || json_is_false(json_object_get(p, "explode"))))
		return NULL;
	return oa_members(o, oa_follow(o->c, schema_of(p)));
}

static void add_member(struct operation *o, const char *wire, const json_t *sub, bool required)
{
	char *argument;

	if (oa_is_type(o, sub, "object") || oa_is_type(o, sub, "array")) {
		if (required)
			oa_fail(o, "/parameters",
				"the parameter %.80s: lists and objects in objects of the query are not known here",
					wire);
		else
			oa_note(o, "/parameters",
				"the parameter %.80s is left out: it is a list or an object in an object of the query",
					wire);
		return;
	}
	argument = oa_argument(o, wire, oa_schema(o, sub), NULL, required);
	put_fixed(o, &o->query, "members of objects in the query", wire, argument);
	free(argument);
}

static void add_members(struct operation *o, const json_t *p, const json_t *object, bool deep)
{
	const json_t *must = json_is_true(json_object_get(p, "required")) ? json_object_get(object, "required") : NULL;
	const char *name;
	json_t *sub;

	json_object_foreach(json_object_get(object, "properties"), name, sub) {
		char *wire = deep ? mem_printf("%s[%s]", text_of(p, "name", ""), name) : mem_strdup(name);

		if (!json_is_true(json_object_get(oa_follow(o->c, sub), "readOnly")))
			add_member(o, wire, sub, oa_listed(must, name));
		free(wire);
	}
}

static void add_parameter(struct operation *o, const json_t *p)
{
	const char *name = text_of(p, "name", ""), *in = text_of(p, "in", ""), *why = unfit(o, p, in);
	bool path = strcmp(in, "path") == 0, required = path || json_is_true(json_object_get(p, "required"));
	const json_t *object;
	char *argument;
	bool deep;

	if (strcmp(in, "header") == 0 && is_ours(name))
		return;
	object = spread_of(o, p, in, &deep);
	if (object) {
		add_members(o, p, object, deep);
		return;
	}
	if (why && required)
		oa_fail(o, "/parameters", "the parameter %.80s: %s", name, why);
	else if (why)
		oa_note(o, "/parameters", "the parameter %.80s is left out: %s", name, why);
	if (why)
		return;
	argument = oa_argument(o, name, oa_schema(o, schema_of(p)), text_of(p, "description", NULL), required);
	if (strcmp(in, "query") == 0)
		put_query(o, name, argument, p);
	else if (strcmp(in, "header") == 0)
		put_fixed(o, &o->headers, "headers", name, argument);
	else if (path)
		(void)json_object_set_new(o->segments, name, json_string(argument));
	else
		oa_fail(o, "/parameters", "the parameter %.80s is in %.40s", name, in);
	free(argument);
}

/* Is it said again by a list that counts more? */
static bool is_overridden(const struct operation *o, const json_t *p, const json_t *by)
{
	for (size_t i = 0; i < json_array_size(by); i++) {
		const json_t *q = oa_follow(o->c, json_array_get(by, i));

		if (strcmp(text_of(p, "name", ""), text_of(q, "name", "")) == 0 &&
		    strcmp(text_of(p, "in", ""), text_of(q, "in", "")) == 0)
			return true;
	}
	return false;
}

static void add_list(struct operation *o, const json_t *list, const json_t *stronger)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *p = oa_follow(o->c, json_array_get(list, i));

		if (!json_is_object(p))
			oa_fail(o, "/parameters", "a parameter's reference leads nowhere");
		else if (!is_overridden(o, p, stronger))
			add_parameter(o, p);
	}
}

/* "/pets/{pet id}" with the names of the arguments. */
static void put_path(struct operation *o)
{
	for (const char *p = o->path; *p && !o->failed;) {
		size_t n = strcspn(p, "{");
		char *name;
		const char *argument;

		str_put(&o->url, p, n);
		p += n;
		if (!*p)
			break;
		n = strcspn(p, "}");
		name = mem_strndup(p + 1, n - 1);
		argument = json_string_value(json_object_get(o->segments, name));
		if (argument)
			str_printf(&o->url, "{%s}", argument);
		else
			oa_fail(o, "", "{%.80s} of its path is no parameter", name);
		free(name);
		p += p[n] ? n + 1 : n;
	}
}

static void oa_parameters(struct operation *o)
{
	const json_t *own = json_object_get(o->op, "parameters");

	add_list(o, json_object_get(o->item, "parameters"), own);
	add_list(o, own, NULL);
	str_puts(&o->url, o->c->server);
	put_path(o);
	if (o->url_query.len)
		str_printf(&o->url, "{?%s}", str_text(&o->url_query));
}

/* --- security */

static void put_secret(struct operation *o, json_t **map, const char *member, const char *before, const char *name)
{
	char *word = oa_word(name), *template = mem_printf("%s{secret:%s}", before, word);

	if (!*map)
		*map = json_object();
	(void)json_object_set_new(*map, member, json_string(template));
	if (!json_object_get(o->c->secrets, word)) {
		char *at = mem_printf("/components/securitySchemes/%s", name);
		char *text = mem_printf("requests carry a secret: toolcrib secret set %s", word);

		(void)json_object_set_new(o->c->secrets, word, json_true());
		o->c->sink->note(o->c->arg, at, text);
		free(text);
		free(at);
	}
	free(template);
	free(word);
}

static void put_scheme(struct operation *o, const char *name)
{
	const json_t *schemes = json_object_get(json_object_get(o->c->root, "components"), "securitySchemes");
	const json_t *scheme = oa_follow(o->c, json_object_get(schemes, name));
	const char *type = text_of(scheme, "type", ""), *in = text_of(scheme, "in", "");

	if (strcmp(type, "http") == 0 && strcasecmp(text_of(scheme, "scheme", ""), "basic") == 0)
		put_secret(o, &o->headers, "Authorization", "Basic ", name);
	else if (strcmp(type, "http") == 0 || strcmp(type, "oauth2") == 0 || strcmp(type, "openIdConnect") == 0)
		put_secret(o, &o->headers, "Authorization", "Bearer ", name);
	else if (strcmp(type, "apiKey") == 0 && strcmp(in, "header") == 0)
		put_secret(o, &o->headers, text_of(scheme, "name", "X-API-Key"), "", name);
	else if (strcmp(type, "apiKey") == 0 && strcmp(in, "query") == 0)
		put_secret(o, &o->query, text_of(scheme, "name", "key"), "", name);
	else
		oa_note(o, "/security", "the security scheme %.80s is left out", name);
}

/* The first of the ways that there are. */
static void oa_security(struct operation *o)
{
	const json_t *ways = json_object_get(o->op, "security");
	const char *name;
	json_t *scopes;

	if (!ways)
		ways = json_object_get(o->c->root, "security");
	json_object_foreach(json_array_get(ways, 0), name, scopes)
		put_scheme(o, name);
}

/* --- Bodies: what an operation sends and what it answers, as arguments and as outputSchema. */

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

/* An object of named members, an allOf as one; NULL: it is more than that, or none.  Borrowed until the end. */
static const json_t *oa_members(struct operation *o, const json_t *schema)
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

static void oa_body(struct operation *o)
{
	const json_t *said = json_object_get(o->op, "requestBody"), *body = oa_follow(o->c, said), *media, *schema,
		*members;
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
		oa_fail(o, "/requestBody",
			"the form is no object of named members, so it cannot stand among the arguments");
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

static void oa_answers(struct operation *o)
{
	json_t *schemas = json_array();
	const char *accept = NULL;
	bool all = read_answers(o, schemas, &accept);

	if (json_array_size(schemas) > 0 && !all)
		oa_note(o, "/responses",
			"outputSchema is left out: an answer that means success is no JSON with a schema");
	else if (json_array_size(schemas) > 0 && !o->failed)
		convert_output(o, schemas);
	if (o->output_schema && accept) {
		o->headers = o->headers ? o->headers : json_object();
		(void)json_object_set_new(o->headers, "Accept", json_string(accept));
	}
	json_decref(schemas);
}

/* --- the description as a whole */

static const struct oa_method methods[] = {
	{ "get", "GET", true, true }, { "put", "PUT", false, true }, { "post", "POST", false, false },
	{ "delete", "DELETE", false, true }, { "patch", "PATCH", false, false }, { "head", "HEAD", true, true },
	{ "options", "OPTIONS", true, true }, { "trace", NULL, true, true },
};

/* --- names */

/* operationId, else "get_pets_petId"; unique among the documents. */
static char *tool_name(const struct operation *o)
{
	const char *id = json_string_value(json_object_get(o->op, "operationId"));
	char *text = id ? mem_printf("%s%s", o->c->prefix, id)
		: mem_printf("%s%s_%s", o->c->prefix, o->method->name, o->path);
	char *word = oa_word(text), *name = mem_strdup(word);

	for (unsigned n = 2; json_object_get(o->c->names, name); n++) {
		free(name);
		name = mem_printf("%.60s_%u", word, n);
	}
	(void)json_object_set_new(o->c->names, name, json_true());
	free(word);
	free(text);
	return name;
}

/* --- one document */

/* Control characters have no place in what models read. */
static json_t *clean_text(const char *text)
{
	char *copy = mem_strdup(text), *to = copy;

	for (const char *p = text; *p; p++)
		if ((unsigned char)*p >= ' ' || *p == '\n' || *p == '\t')
			*to++ = *p;
	*to = '\0';
	json_t *v = json_string(copy);
	free(copy);
	return v;
}

static void put_words(const struct operation *o, json_t *doc)
{
	const char *summary = json_string_value(json_object_get(o->op, "summary"));
	const char *description = json_string_value(json_object_get(o->op, "description"));
	char *usual = mem_printf("%s %s", o->method->wire, o->path);

	if (summary && *summary && description && *description && strlen(summary) <= 200)
		(void)json_object_set_new(doc, "title", clean_text(summary));
	if (!description || !*description)
		description = summary && *summary ? summary : usual;
	(void)json_object_set_new(doc, "description", clean_text(description));
	free(usual);
}

static json_t *input_schema(struct operation *o)
{
	json_t *input = o->input;

	if (!input) {
		input = json_pack("{s:s, s:O}", "type", "object", "properties", o->properties);
		if (json_array_size(o->required) > 0)
			(void)json_object_set(input, "required", o->required);
		(void)json_object_set_new(input, "additionalProperties", json_false());
	}
	if (json_object_size(o->defs) > 0)
		(void)json_object_set(input, "$defs", o->defs);
	o->input = NULL;
	return input;
}

static void put_annotations(const struct operation *o, json_t *doc)
{
	json_t *notes = json_pack("{s:b, s:b}", "readOnlyHint", o->method->reads, "openWorldHint", true);

	if (!o->method->reads)
		(void)json_object_set_new(notes, "destructiveHint", json_boolean(strcmp(o->method->name, "post") != 0));
	if (!o->method->reads && o->method->idempotent)
		(void)json_object_set_new(notes, "idempotentHint", json_true());
	(void)json_object_set_new(doc, "annotations", notes);
}

static json_t *handler(struct operation *o)
{
	json_t *h = json_pack("{s:s}", "type", "http");

	if (strcmp(o->method->name, "get") != 0)
		(void)json_object_set_new(h, "method", json_string(o->method->wire));
	(void)json_object_set_new(h, "url", json_string(str_text(&o->url)));
	if (o->query)
		(void)json_object_set(h, "query", o->query);
	if (o->headers)
		(void)json_object_set(h, "headers", o->headers);
	if (o->body)
		(void)json_object_set(h, "body", o->body);
	if (o->c->host)
		(void)json_object_set_new(h, "allow", json_pack("{s:[s]}", "hosts", o->c->host));
	return h;
}

static void put_document(struct operation *o)
{
	char *name = tool_name(o);
	json_t *doc = json_pack("{s:s}", "name", name);

	put_words(o, doc);
	(void)json_object_set_new(doc, "inputSchema", input_schema(o));
	if (o->output_schema)
		(void)json_object_set(doc, "outputSchema", o->output_schema);
	put_annotations(o, doc);
	(void)json_object_set_new(doc, "handler", handler(o));
	o->c->sink->document(o->c->arg, str_text(&o->at), name, doc);
	free(name);
}

static void operation_fini(struct operation *o)
{
	json_decref(o->properties);
	json_decref(o->required);
	json_decref(o->defs);
	json_decref(o->targets);
	json_decref(o->waiting);
	json_decref(o->segments);
	json_decref(o->query);
	json_decref(o->headers);
	json_decref(o->body);
	json_decref(o->input);
	json_decref(o->output_schema);
	json_decref(o->merged);
	str_fini(&o->url);
	str_fini(&o->url_query);
	str_fini(&o->at);
}

static void convert_operation(struct converter *c, const char *path, const json_t *item, const struct oa_method *method)
{
	struct operation o = { .c = c, .at = STR_INIT, .method = method, .path = path, .item = item,
			       .op = json_object_get(item, method->name), .properties = json_object(),
				.required = json_array(),
			       .defs = json_object(), .targets = json_object(), .waiting = json_array(),
			       .segments = json_object(), .merged = json_array(), .url = STR_INIT,
				.url_query = STR_INIT };

	str_puts(&o.at, "/paths");
	jx_pointer_add(&o.at, path);
	jx_pointer_add(&o.at, method->name);
	if (!method->wire)
		oa_fail(&o, "", "the method is not known here");
	else if (json_object_get(o.op, "servers") || json_object_get(item, "servers"))
		oa_note(&o, "", "its own servers are ignored");
	oa_parameters(&o);
	oa_body(&o);
	oa_answers(&o);
	oa_security(&o);
	if (!o.failed)
		put_document(&o);
	operation_fini(&o);
}

/* --- the whole */

static int bad_server(struct err *err, const char *where, const char *url)
{
	(void)err_set(err, ERR_INVALID, where, "the server \"%.120s\" is no URL of the form https://host/path", url);
	err_hint(err, "say which one: --server https://api.example.com/v1");
	return ERR_INVALID;
}

/* The server's URL in its parts; "host:port" must be allowed by name unless it is https on port 443. */
static int read_server(struct converter *c, const char *given, struct err *err)
{
	const json_t *first = json_array_get(json_object_get(c->root, "servers"), 0);
	const char *url = given ? given : json_string_value(json_object_get(first, "url"));
	const char *where = given ? "" : "/servers/0/url", *host;
	bool tls;
	size_t n;

	if (!url)
		return bad_server(err, "", "");
	tls = strncmp(url, "https://", 8) == 0;
	host = url + (tls ? 8 : 7);
	if ((!tls && strncmp(url, "http://", 7) != 0) || strpbrk(url, "{}?# @\\\""))
		return bad_server(err, where, url);
	n = strcspn(host, "/");
	if (n == 0)
		return bad_server(err, where, url);
	if (memchr(host, ':', n) && *host != '[')
		c->host = mem_strndup(host, n);
	else if (*host == '[' && !memchr(host, ']', n))
		return bad_server(err, where, url);
	else if (*host == '[' && host[n - 1] != ']')
		c->host = mem_strndup(host, n);
	else if (!tls)
		c->host = mem_printf("%.*s:80", (int)n, host);
	if (c->host && tls && strlen(c->host) > 4 && strcmp(c->host + strlen(c->host) - 4, ":443") == 0) {
		free(c->host);
		c->host = NULL;
	}
	c->server = mem_strdup(url);
	while (c->server[strlen(c->server) - 1] == '/')
		c->server[strlen(c->server) - 1] = '\0';
	return 0;
}

static int read_version(struct converter *c, struct err *err)
{
	const char *version = json_string_value(json_object_get(c->root, "openapi"));

	if (json_object_get(c->root, "swagger")) {
		(void)err_set(err, ERR_INVALID, "/swagger", "descriptions of Swagger 2.0 are not read");
		err_hint(err, "convert it to OpenAPI 3 first");
		return ERR_INVALID;
	}
	if (!version)
		return err_set(err, ERR_INVALID, "", "is no OpenAPI description: it has no member openapi");
	c->modern = strncmp(version, "3.1", 3) == 0;
	if (!c->modern && strncmp(version, "3.0", 3) != 0)
		return err_set(err, ERR_INVALID, "/openapi", "OpenAPI %.20s is not known, 3.0 and 3.1 are", version);
	return 0;
}

static int convert_paths(struct converter *c, struct err *err)
{
	json_t *paths = json_object_get(c->root, "paths"), *item;
	const char *path;
	size_t n = 0;

	json_object_foreach(paths, path, item) {
		const json_t *target = oa_follow(c, item);

		for (size_t i = 0; i < NELEMS(methods); i++) {
			if (!json_is_object(json_object_get(target, methods[i].name)))
				continue;
			if (++n > OPENAPI_OPERATIONS_MAX)
				return err_set(err, ERR_LIMIT, "/paths", "more than %d operations",
					       OPENAPI_OPERATIONS_MAX);
			convert_operation(c, path, target, &methods[i]);
		}
	}
	return n > 0 ? 0 : err_set(err, ERR_INVALID, "/paths", "there is no operation");
}

int openapi_convert(const json_t *description, const struct openapi_options *options, const struct openapi_sink *sink,
		    void *arg, struct err *err)
{
	struct converter c = { .root = description, .sink = sink, .arg = arg, .prefix = options->prefix
		? options->prefix : "",
			       .names = json_object(), .secrets = json_object() };
	int rc = json_is_object(description) ? read_version(&c, err) :
		 err_set(err, ERR_INVALID, "", "an OpenAPI description is an object");

	if (rc == 0)
		rc = read_server(&c, options->server, err);
	if (rc == 0)
		rc = convert_paths(&c, err);
	free(c.server);
	free(c.host);
	json_decref(c.names);
	json_decref(c.secrets);
	return rc;
}
