/* From parameters, body and security of an operation to arguments and an http handler. */
#include "config.h"

#include "openapi_int.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "json/json.h"

#define QUERY_MAX 32                    /* fixed names in `query`, and in `headers` */

char *oa_argument(struct operation *o, const char *name, json_t *schema, const char *description, bool required)
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

static bool is_listed(const json_t *list, const char *name)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (text && strcmp(text, name) == 0)
			return true;
	}
	return false;
}

static bool is_type(const struct operation *o, const json_t *schema, const char *type)
{
	const json_t *said = json_object_get(oa_follow(o->c, schema), "type");

	return json_is_string(said) ? strcmp(json_string_value(said), type) == 0 : is_listed(said, type);
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
	bool each = is_type(o, schema, "array") && !json_is_false(explode);

	/* The URL says lists as OpenAPI does; a name that differs from the argument's stands in `query`. */
	if (strcmp(name, argument) == 0)
		str_printf(&o->url_query, "%s%s%s", o->url_query.len ? "," : "", argument, each ? "*" : "");
	else if (is_type(o, schema, "array"))
		oa_note(o, "/parameters", "the list %.80s of the query is left out", name);
	else
		put_fixed(o, &o->query, "odd names in the query", name, argument);
}

static bool is_ours(const char *header)
{
	static const char *const ours[] = { "accept", "content-type", "authorization", "host", "content-length", "connection",
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
	if (json_object_get(p, "content") && !is_type(o, schema, "string"))
		return "parameters with content of their own are not known here";
	if (is_type(o, schema, "object"))
		return "objects outside of the body are not known here";
	return NULL;
}

static void add_parameter(struct operation *o, const json_t *p)
{
	const char *name = text_of(p, "name", ""), *in = text_of(p, "in", ""), *why = unfit(o, p, in);
	bool path = strcmp(in, "path") == 0, required = path || json_is_true(json_object_get(p, "required"));
	char *argument;

	if (strcmp(in, "header") == 0 && is_ours(name))
		return;
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

		if (strcmp(text_of(p, "name", ""), text_of(q, "name", "")) == 0 && strcmp(text_of(p, "in", ""), text_of(q, "in", "")) == 0)
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

void oa_parameters(struct operation *o)
{
	const json_t *own = json_object_get(o->op, "parameters");

	add_list(o, json_object_get(o->item, "parameters"), own);
	add_list(o, own, NULL);
	str_puts(&o->url, o->c->server);
	put_path(o);
	if (o->url_query.len)
		str_printf(&o->url, "{?%s}", str_text(&o->url_query));
}

/* --- body */

enum media { MEDIA_NONE, MEDIA_JSON, MEDIA_FORM };

static bool is_json(const char *type)
{
	size_t n = strcspn(type, "; "), len = strlen("+json");

	return strncasecmp(type, "application/json", n) == 0 || strncmp(type, "*/*", 3) == 0 ||
	       (n > len && strncasecmp(type + n - len, "+json", len) == 0);
}

static enum media choose_media(const json_t *content, const json_t **ret)
{
	enum media found = MEDIA_NONE;
	const char *type;
	json_t *media;

	json_object_foreach((json_t *)(uintptr_t)content, type, media) {
		bool form = strncasecmp(type, "application/x-www-form-urlencoded", 33) == 0;

		if (found == MEDIA_JSON || (!is_json(type) && !form))
			continue;
		found = form ? MEDIA_FORM : MEDIA_JSON;
		*ret = media;
	}
	return found;
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
		argument = oa_argument(o, name, oa_schema(o, sub), NULL, required && is_listed(must, name));
		template = mem_printf("{/%s}", argument);
		(void)json_object_set_new(o->body, name, json_string(template));
		free(template);
		free(argument);
	}
}

/* May the members be said one by one: is it an object that says all of its members itself? */
static bool is_plain_object(const struct operation *o, const json_t *schema)
{
	static const char *const complex[] = { "allOf", "anyOf", "oneOf", "not", "if", "patternProperties" };
	const json_t *more = json_object_get(schema, "additionalProperties");

	for (size_t i = 0; i < NELEMS(complex); i++)
		if (json_object_get(schema, complex[i]))
			return false;
	return json_object_size(json_object_get(schema, "properties")) > 0 && (!more || json_is_false(more)) &&
	       (is_type(o, schema, "object") || !json_object_get(schema, "type"));
}

/* The arguments are the body. */
static void take_whole(struct operation *o, const json_t *schema)
{
	json_t *made = oa_schema(o, schema);
	const char *ref = json_string_value(json_object_get(made, "$ref"));
	json_t *target = ref ? json_object_get(o->defs, ref + strlen("#/$defs/")) : NULL;

	if (target) {           /* the root must be an object by itself; its definition stays for those that refer to it */
		target = json_copy(target);
		json_decref(made);
		made = target;
	}
	(void)json_object_set_new(made, "type", json_string("object"));
	o->input = made;
	o->body = json_string("arguments");
}

void oa_body(struct operation *o)
{
	const json_t *said = json_object_get(o->op, "requestBody"), *body = oa_follow(o->c, said), *media = NULL, *schema;
	bool required = json_is_true(json_object_get(body, "required"));
	enum media type = choose_media(json_object_get(body, "content"), &media);

	if (!said)
		return;
	schema = oa_follow(o->c, json_object_get(media, "schema"));
	if (o->method->reads) {
		oa_note(o, "/requestBody", "%s has no body: it is left out", o->method->name);
	} else if (type == MEDIA_NONE) {
		if (required)
			oa_fail(o, "/requestBody", "bodies are JSON or forms");
		else
			oa_note(o, "/requestBody", "is left out: bodies are JSON or forms");
	} else if (is_plain_object(o, schema)) {
		spread(o, schema, required);
		if (type == MEDIA_FORM) {
			o->headers = o->headers ? o->headers : json_object();
			(void)json_object_set_new(o->headers, "Content-Type", json_string("application/x-www-form-urlencoded"));
		}
	} else if (type == MEDIA_JSON && json_object_size(o->properties) == 0 && (!schema || json_is_object(schema)) &&
		   (is_type(o, schema, "object") || !json_object_get(schema, "type"))) {
		take_whole(o, json_object_get(media, "schema"));
	} else {
		oa_fail(o, "/requestBody", "the body is no object of named members, so it cannot stand among the arguments");
	}
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
void oa_security(struct operation *o)
{
	const json_t *ways = json_object_get(o->op, "security");
	const char *name;
	json_t *scopes;

	if (!ways)
		ways = json_object_get(o->c->root, "security");
	json_object_foreach(json_array_get(ways, 0), name, scopes)
		put_scheme(o, name);
}
