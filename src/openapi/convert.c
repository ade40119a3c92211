/* A description as a whole: its servers, its operations with what they send and answer, and the documents that they
 * become.  Pure but for the sink; what cannot be said
 * is noted. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "json/json.h"

#include "openapi_int.h"

/* --- Servers */

static int server_bad(const char *where, const char *url, struct err *err)
{
	(void)err_set(err, ERR_INVALID, where, "the server \"%.120s\" is no URL of the form https://host/path", url);
	err_hint(err, "say which one: --server https://api.example.com/v1");
	return ERR_INVALID;
}

/* "host:port" that must be allowed by name: it must be unless it is https on port 443. */
static char *allowed(const char *host, size_t n, bool tls)
{
	const char *end = host + n;

	if (*host == '[' ? end[-1] != ']' : memchr(host, ':', n) != NULL)
		return tls && n > 4 && memcmp(end - 4, ":443", 4) == 0 ? NULL : mem_strndup(host, n);
	return tls ? NULL : mem_printf("%.*s:80", (int)n, host);
}

static int server_parse(const char *url, struct oa_server *ret)
{
	bool tls = strncmp(url, "https://", 8) == 0;
	const char *host = url + (tls ? 8 : 7);
	size_t n, len = strlen(url);

	if ((!tls && strncmp(url, "http://", 7) != 0) || strpbrk(url, "{}?# @\\\""))
		return ERR_INVALID;
	n = strcspn(host, "/");
	if (n == 0 || (*host == '[' && !memchr(host, ']', n)))
		return ERR_INVALID;
	ret->host = allowed(host, n, tls);
	while (url[len - 1] == '/')
		len--;
	ret->url = mem_strndup(url, len);
	return 0;
}

/* "https://{region}.example.com" with the usual values; a variable that has none stays. */
static void put_variables(const char *url, const json_t *variables, struct str *out)
{
	while (*url) {
		size_t n = strcspn(url, "{"), name = strcspn(url + n, "}");
		const char *value = NULL;

		str_put(out, url, n);
		url += n;
		if (*url && url[name]) {
			char *word = mem_strndup(url + 1, name - 1);

			value = json_string_value(json_object_get(json_object_get(variables, word), "default"));
			free(word);
		}
		if (value) {
			str_puts(out, value);
			url += name + 1;
		} else if (*url) {
			str_putc(out, *url++);
		}
	}
}

/* Scheme and host of the usual server, in front of a path. */
static void put_origin(const struct converter *c, struct str *out)
{
	const char *url = c->usual.url, *host = strstr(url, "://") + 3;

	str_put(out, url, (size_t)(host - url) + strcspn(host, "/"));
}

static int server_of(const struct converter *c, const json_t *object, struct oa_server *ret, const char *at,
		 struct err *err)
{
	const json_t *first = json_array_get(json_object_get(object, "servers"), 0);
	const char *said = json_string_value(json_object_get(first, "url"));
	struct str url = STR_INIT;
	int rc = 0;

	if (!said)
		return 0;
	if (*said == '/' && said[1] != '/' && c->usual.url)
		put_origin(c, &url);
	put_variables(said, json_object_get(first, "variables"), &url);
	if (server_parse(str_text(&url), ret) < 0) {
		char *where = mem_printf("%s/servers/0/url", at);

		rc = server_bad(where, said, err);
		free(where);
	}
	str_fini(&url);
	return rc;
}

static void server_fini(struct oa_server *s)
{
	free(s->url);
	free(s->host);
	*s = (struct oa_server){ NULL, NULL };
}

/* --- Bodies: what an operation sends and what it answers, as arguments and as outputSchema. */

/* --- media types */

/* The best first. */
enum media { MEDIA_JSON, MEDIA_FORM, MEDIA_TEXT, MEDIA_BYTES, MEDIA_NONE };

static bool has_suffix(const char *type, const char *suffix)
{
	size_t n = strcspn(type, "; "), len = strlen(suffix);

	return n > len && strncasecmp(type + n - len, suffix, len) == 0;
}

static bool is_json(const char *type)
{
	static const char json[] = "application/json";
	size_t n = strcspn(type, "; ");

	return (n == strlen(json) && strncasecmp(type, json, n) == 0) || strncmp(type, "*/*", 3) == 0 ||
	       has_suffix(type, "+json");
}

static bool begins(const char *type, const char *const *with, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strncasecmp(type, with[i], strlen(with[i])) == 0)
			return true;
	return false;
}

static bool is_text(const char *type)
{
	static const char *const texts[] = { "text/", "application/xml", "application/yaml", "application/x-yaml",
		"application/x-ndjson", "application/graphql", "application/javascript", "application/toml" };

	return begins(type, texts, NELEMS(texts)) || has_suffix(type, "+xml") || has_suffix(type, "+yaml");
}

/* One string, of characters or bytes: what says nothing about itself is that, too. */
static bool is_string(const struct operation *o, const json_t *schema)
{
	static const char *const more[] = { "properties", "items", "allOf", "anyOf", "oneOf" };

	if (json_object_get(schema, "type"))
		return oa_is_type(o, schema, "string");
	for (size_t i = 0; i < NELEMS(more); i++)
		if (json_object_get(schema, more[i]))
			return false;
	return true;
}

static enum media media_of(const struct operation *o, const char *type, const json_t *media)
{
	const json_t *schema = oa_follow(o->c, json_object_get(media, "schema"));
	const char *format = json_string_value(json_object_get(schema, "format"));

	if (strpbrk(type, "{}"))        /* it would be a template */
		return MEDIA_NONE;
	if (is_json(type))
		return MEDIA_JSON;
	if (strncasecmp(type, "application/x-www-form-urlencoded", 33) == 0)
		return MEDIA_FORM;
	if (strncasecmp(type, "multipart/", 10) == 0 || !is_string(o, schema) || strchr(type, '*'))
		return MEDIA_NONE;
	return is_text(type) && !(format && strcmp(format, "binary") == 0) ? MEDIA_TEXT : MEDIA_BYTES;
}

/* The best of them, of equals the first.  ret_type: its name, or that of the first when none will do. */
static enum media choose_media(const struct operation *o, const json_t *content, const json_t **ret,
			       const char **ret_type)
{
	enum media found = MEDIA_NONE;
	const char *type;
	json_t *media;

	*ret = NULL;
	*ret_type = NULL;
	json_object_foreach((json_t *)(uintptr_t)content, type, media) {
		enum media is = media_of(o, type, media);

		if (!*ret_type)
			*ret_type = type;
		if (is >= found)
			continue;
		found = is;
		*ret = media;
		*ret_type = type;
	}
	return found;
}

static bool refers(const json_t *v, const char *ref)
{
	const char *said = json_string_value(json_object_get(v, "$ref")), *name;
	json_t *child;
	size_t i;

	if (said && strcmp(said, ref) == 0)
		return true;
	json_object_foreach((json_t *)(uintptr_t)v, name, child)
		if (refers(child, ref))
			return true;
	json_array_foreach(v, i, child)
		if (refers(child, ref))
			return true;
	return false;
}

/* A schema that says by itself what its root is; its definition stays for those that refer to it.  The last one that
 * is converted into its o->defs. */
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
	if (!refers(o->defs, ref))
		(void)json_object_del(o->defs, ref + strlen(DEFS));
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

/* Text, sent as it is. */
static void take_text(struct operation *o, const json_t *schema, const char *type, const char *description,
		      bool required)
{
	json_t *usual = json_pack("{s:s}", "type", "string");
	bool said = json_object_get(schema, "type") || json_object_get(schema, "$ref");

	take_value(o, said ? schema : usual, description, required);
	json_decref(usual);
	say_type(o, type);
}

/* Bytes: base64 in the arguments.  What may be text as well is told apart by an argument of its own. */
static void take_bytes(struct operation *o, const char *type, const char *description, bool required)
{
	static const char *const never[] = { "image/", "audio/", "video/", "font/" };
	bool either = !begins(type, never, NELEMS(never));
	char *told = mem_printf("%s%s%s, in base64%s", description ? description : "", description ? "\n\n" : "",
				"The bytes that are sent", either ? ", or as text when body_encoding says so" : "");
	json_t *schema = json_pack("{s:s}", "type", "string");

	if (!either)
		(void)json_object_set_new(schema, "contentEncoding", json_string("base64"));
	take_value(o, schema, told, required);
	json_decref(schema);
	if (either) {
		schema = json_pack("{s:s, s:[s, s], s:s}", "type", "string", "enum", "base64", "text", "default",
				   "base64");
		char *argument = oa_argument(o, "body_encoding", schema, NULL, false);

		o->encoding = mem_printf("{/%s}", argument);
		free(argument);
	} else {
		o->encoding = mem_strdup("base64");
	}
	say_type(o, type);
	free(told);
}

/* Nothing of what the server takes can be sent. */
static void refuse(struct operation *o, const char *type, bool inside)
{
	bool parts = type && strncasecmp(type, "multipart/", 10) == 0;
	const char *why = parts ? "bodies of several parts (multipart) are not sent" :
			  "bodies are JSON, forms, text or bytes";
	struct str at = STR_INIT;

	str_puts(&at, "/requestBody");
	if (type && inside) {
		str_puts(&at, "/content");
		jx_pointer_add(&at, type);
	}
	oa_fail(o, str_text(&at), "%s", why);
	str_fini(&at);
}

static void take_json(struct operation *o, const json_t *schema, const char *type, const json_t *body, bool required)
{
	const json_t *is = oa_follow(o->c, schema), *members = oa_members(o, is);
	const char *description = json_string_value(json_object_get(body, "description"));
	bool usual = strncasecmp(type, "application/json", strcspn(type, "; ")) == 0 || *type == '*';
	bool object = oa_is_type(o, is, "object") || !json_object_get(is, "type");
	bool whole = json_object_size(o->properties) == 0 && (!is || json_is_object(is)) && object;

	if (members)
		spread(o, members, required);
	else if (whole)
		take_whole(o, schema);
	else
		take_value(o, schema, description, required);
	if (!usual || !(members || whole))
		say_type(o, usual ? "application/json" : type);
}

static void put_body(struct operation *o)
{
	const json_t *said = json_object_get(o->op, "requestBody"), *body = oa_follow(o->c, said), *media, *schema,
		*members;
	bool required = json_is_true(json_object_get(body, "required"));
	const char *description = json_string_value(json_object_get(body, "description")), *type;
	enum media kind = choose_media(o, json_object_get(body, "content"), &media, &type);

	if (!said)
		return;
	schema = json_object_get(media, "schema");
	if (o->method->reads) {
		oa_note(o, "/requestBody", "%s has no body: it is left out", o->method->name);
	} else if (kind == MEDIA_NONE) {
		refuse(o, type, said == body);
	} else if (kind == MEDIA_JSON) {
		take_json(o, schema, type, body, required);
	} else if (kind == MEDIA_TEXT) {
		take_text(o, schema, type, description, required);
	} else if (kind == MEDIA_BYTES) {
		take_bytes(o, type, description, required);
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
		enum media kind = choose_media(o, content, &media, &type);
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

static void put_answers(struct operation *o)
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

/* --- The description as a whole */

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

/* Headers of all requests stand in place of its own. */
static void put_given_headers(struct operation *o)
{
	const char *name, *own;
	json_t *value, *ignored;
	void *next;

	if (json_object_size(o->c->headers) > 0 && !o->headers)
		o->headers = json_object();
	json_object_foreach((json_t *)(uintptr_t)o->c->headers, name, value) {
		json_object_foreach_safe(o->headers, next, own, ignored)
			if (strcasecmp(own, name) == 0)
				(void)json_object_del(o->headers, own);
		(void)json_object_set(o->headers, name, value);
	}
}

static json_t *handler(struct operation *o)
{
	json_t *h = json_pack("{s:s}", "type", "http");

	if (strcmp(o->method->name, "get") != 0)
		(void)json_object_set_new(h, "method", json_string(o->method->wire));
	(void)json_object_set_new(h, "url", json_string(str_text(&o->url)));
	if (o->query)
		(void)json_object_set(h, "query", o->query);
	put_given_headers(o);
	if (o->headers)
		(void)json_object_set(h, "headers", o->headers);
	if (o->body)
		(void)json_object_set(h, "body", o->body);
	if (o->encoding)
		(void)json_object_set_new(h, "encoding", json_string(o->encoding));
	if (o->server->host)
		(void)json_object_set_new(h, "allow", json_pack("{s:[s]}", "hosts", o->server->host));
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
	free(o->encoding);
	json_decref(o->input);
	json_decref(o->output_schema);
	json_decref(o->merged);
	str_fini(&o->url);
	str_fini(&o->url_query);
	str_fini(&o->at);
	server_fini(&o->own);
}

/* What most requests go to.  Without any an operation that has none of its own is refused later. */
static int read_server(struct converter *c, const char *given, struct err *err)
{
	if (given && server_parse(given, &c->usual) < 0)
		return server_bad("", given, err);
	return given ? 0 : server_of(c, c->root, &c->usual, "", err);
}

/* Its own server, else its path's, else that of all. */
static void choose_server(struct operation *o)
{
	const json_t *from = json_object_get(o->op, "servers") ? o->op : o->item;
	const char *given = o->c->given;
	struct err why;

	if (server_of(o->c, from, &o->own, "", &why) < 0)
		oa_fail(o, "/servers", "%s", why.msg);
	else if (o->own.url && given && strcmp(o->own.url, o->c->usual.url) != 0)
		oa_note(o, "/servers", "its requests go to its own server %.120s, not to --server", o->own.url);
	o->server = o->own.url ? &o->own : &o->c->usual;
	if (!o->server->url)
		oa_fail(o, "/servers", "it has no server");
}

static void make_operation(struct operation *o)
{
	oa_arguments(o);
	put_body(o);
	put_answers(o);
	if (!o->failed)
		put_document(o);
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
	choose_server(&o);
	make_operation(&o);
	operation_fini(&o);
}

/* --- the whole */

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

static bool matches(const json_t *globs, const char *text)
{
	for (size_t i = 0; i < json_array_size(globs); i++)
		if (text_glob(json_string_value(json_array_get(globs, i)), text))
			return true;
	return false;
}

static bool has_tag(const json_t *op, const json_t *globs)
{
	const json_t *tags = json_object_get(op, "tags");

	for (size_t i = 0; i < json_array_size(tags); i++) {
		const char *tag = json_string_value(json_array_get(tags, i));

		if (tag && matches(globs, tag))
			return true;
	}
	return false;
}

static bool is_wanted(const struct converter *c, const char *path, const json_t *op)
{
	return (!c->paths || matches(c->paths, path)) && (!c->tags || has_tag(op, c->tags));
}

/* The next operation behind *i of *it; NULL: there is no more.  Both are 0 at first. */
static const json_t *next_operation(const struct converter *c, void **it, size_t *i)
{
	json_t *paths = json_object_get(c->root, "paths");

	if (!*it) {
		*it = json_object_iter(paths);
		*i = 0;
	} else {
		++*i;
	}
	for (; *it; *it = json_object_iter_next(paths, *it), *i = 0)
		for (; *i < NELEMS(methods); ++*i) {
			const json_t *op = json_object_get(oa_follow(c, json_object_iter_value(*it)), methods[*i].name);

			if (json_is_object(op))
				return op;
		}
	return NULL;
}

/* Words that a glob could have meant. */
static void hint_at(const struct converter *c, const char *glob, bool tags, struct err *err)
{
	json_t *words = json_object(), *ignored;
	const char **list, *word, *near;
	void *it = NULL;
	size_t i = 0, n = 0;

	for (const json_t *op; (op = next_operation(c, &it, &i));) {
		const json_t *of = json_object_get(op, "tags");

		if (!tags)
			(void)json_object_set_new(words, json_object_iter_key(it), json_true());
		for (size_t t = 0; tags && t < json_array_size(of); t++)
			if (json_is_string(json_array_get(of, t)))
				(void)json_object_set_new(words, json_string_value(json_array_get(of, t)), json_true());
	}
	list = mem_calloc(json_object_size(words), sizeof(*list));
	json_object_foreach(words, word, ignored)
		list[n++] = word;
	near = text_nearest(glob, list, n);
	if (near)
		err_hint(err, "did you mean %.100s?", near);
	free(list);
	json_decref(words);
}

/* Each glob is there for something. */
static int check_globs(const struct converter *c, const json_t *globs, bool tags, struct err *err)
{
	for (size_t g = 0; g < json_array_size(globs); g++) {
		json_t *one = json_pack("[O]", json_array_get(globs, g));
		const char *glob = json_string_value(json_array_get(globs, g));
		const json_t *op;
		void *it = NULL;
		size_t i = 0;

		do
			op = next_operation(c, &it, &i);
		while (op && !(tags ? has_tag(op, one) : text_glob(glob, json_object_iter_key(it))));
		json_decref(one);
		if (op)
			continue;
		(void)err_set(err, ERR_NOT_FOUND, "", "no operation has the %s %.120s", tags ? "tag" : "path", glob);
		hint_at(c, glob, tags, err);
		return ERR_NOT_FOUND;
	}
	return 0;
}

static bool has_server(const struct converter *c, const json_t *item, const json_t *op)
{
	return c->usual.url || json_array_size(json_object_get(op, "servers")) > 0 ||
	       json_array_size(json_object_get(item, "servers")) > 0;
}

/* All that concerns more than one of them is looked at before the first is converted. */
static int check_operations(const struct converter *c, struct err *err)
{
	size_t i = 0, n = 0, all = 0;
	void *it = NULL;

	for (const json_t *op; (op = next_operation(c, &it, &i)); all++) {
		if (!is_wanted(c, json_object_iter_key(it), op))
			continue;
		if (!has_server(c, oa_follow(c, json_object_iter_value(it)), op))
			return server_bad("", "", err);
		n++;
	}
	if (all == 0)
		return err_set(err, ERR_INVALID, "/paths", "there is no operation");
	if (n == 0)
		return err_set(err, ERR_NOT_FOUND, "/paths", "no operation has one of the tags and one of the paths");
	if (n <= OPENAPI_OPERATIONS_MAX)
		return 0;
	(void)err_set(err, ERR_LIMIT, "/paths", "more than %d operations", OPENAPI_OPERATIONS_MAX);
	err_hint(err, "take some of them: --tag, --path");
	return ERR_LIMIT;
}

static void convert_operations(struct converter *c)
{
	size_t i = 0;
	void *it = NULL;

	for (const json_t *op; (op = next_operation(c, &it, &i));) {
		const char *path = json_object_iter_key(it);

		if (is_wanted(c, path, op))
			convert_operation(c, path, oa_follow(c, json_object_iter_value(it)), &methods[i]);
	}
}

int openapi_convert(const json_t *description, const struct openapi_options *options, const struct openapi_sink *sink,
		    void *arg, struct err *err)
{
	struct converter c = { .root = description, .sink = sink, .arg = arg, .prefix = options->prefix
		? options->prefix : "",
			       .tags = options->tags, .paths = options->paths, .headers = options->headers,
			       .names = json_object(), .secrets = json_object() };
	int rc = json_is_object(description) ? read_version(&c, err) :
		 err_set(err, ERR_INVALID, "", "an OpenAPI description is an object");

	if (rc == 0)
		rc = read_server(&c, options->server, err);
	c.given = options->server;
	if (rc == 0)
		rc = check_globs(&c, c.tags, true, err);
	if (rc == 0)
		rc = check_globs(&c, c.paths, false, err);
	if (rc == 0)
		rc = check_operations(&c, err);
	if (rc == 0)
		convert_operations(&c);
	server_fini(&c.usual);
	json_decref(c.names);
	json_decref(c.secrets);
	return rc;
}
