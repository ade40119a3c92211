/* Parameters and security of an operation: arguments, and URL, query and headers of an http handler. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "json/json.h"

#include "openapi_int.h"

#define QUERY_MAX 32                    /* fixed names in `query`, and in `headers` */

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

static bool is_given(const struct operation *o, const char *header)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)o->c->headers, name, value)
		if (strcasecmp(name, header) == 0)
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

	if (strcmp(in, "header") == 0 && (is_ours(name) || is_given(o, name)))
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

static void put_parameters(struct operation *o)
{
	const json_t *own = json_object_get(o->op, "parameters");

	add_list(o, json_object_get(o->item, "parameters"), own);
	add_list(o, own, NULL);
	str_puts(&o->url, o->server->url ? o->server->url : "");
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
static void put_security(struct operation *o)
{
	const json_t *ways = json_object_get(o->op, "security");
	const char *name;
	json_t *scopes;

	if (!ways)
		ways = json_object_get(o->c->root, "security");
	json_object_foreach(json_array_get(ways, 0), name, scopes)
		put_scheme(o, name);
}

void oa_arguments(struct operation *o)
{
	put_parameters(o);
	put_security(o);
}
