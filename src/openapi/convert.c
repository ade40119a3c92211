/* A description as a whole: its server, its operations, and the documents they become. */
#include "config.h"

#include "openapi_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/json.h"

#define NOTE_BYTES 300

static const struct oa_method methods[] = {
	{ "get", "GET", true, true }, { "put", "PUT", false, true }, { "post", "POST", false, false },
	{ "delete", "DELETE", false, true }, { "patch", "PATCH", false, false }, { "head", "HEAD", true, true },
	{ "options", "OPTIONS", true, true }, { "trace", NULL, true, true },
};

/* --- notes */

static void say(struct operation *o, const char *where, const char *text)
{
	size_t mark = o->at.len;

	str_puts(&o->at, where);
	o->c->sink->note(o->c->arg, str_text(&o->at), text);
	o->at.len = mark;
	o->at.p[mark] = '\0';
}

void oa_note(struct operation *o, const char *where, const char *fmt, ...)
{
	char text[NOTE_BYTES];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof text, fmt, ap);    /* cut */
	va_end(ap);
	say(o, where, text);
}

void oa_fail(struct operation *o, const char *where, const char *fmt, ...)
{
	char text[NOTE_BYTES], *whole;
	va_list ap;

	if (o->failed)
		return;
	o->failed = true;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof text, fmt, ap);    /* cut */
	va_end(ap);
	whole = mem_printf("%s is left out: %s", o->output ? "outputSchema" : "the operation", text);
	say(o, where, whole);
	free(whole);
}

/* --- names */

char *oa_word(const char *text)
{
	static const char fit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
	struct str word = STR_INIT;

	for (const char *p = text; *p && word.len < NAME_MAX_BYTES; p++) {
		bool ok = strchr(fit, *p) != NULL;

		if (ok)
			str_putc(&word, *p);
		else if (word.len > 0 && word.p[word.len - 1] != '_')
			str_putc(&word, '_');
	}
	while (word.len > 1 && word.p[word.len - 1] == '_')
		word.p[--word.len] = '\0';
	if (word.len == 0)
		str_puts(&word, "x");
	return str_take(&word);
}

/* operationId, else "get_pets_petId"; unique among the documents. */
static char *tool_name(const struct operation *o)
{
	const char *id = json_string_value(json_object_get(o->op, "operationId"));
	char *text = id ? mem_printf("%s%s", o->c->prefix, id) : mem_printf("%s%s_%s", o->c->prefix, o->method->name, o->path);
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
			       .op = json_object_get(item, method->name), .properties = json_object(), .required = json_array(),
			       .defs = json_object(), .targets = json_object(), .waiting = json_array(),
			       .segments = json_object(), .merged = json_array(), .url = STR_INIT, .url_query = STR_INIT };

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
				return err_set(err, ERR_LIMIT, "/paths", "more than %d operations", OPENAPI_OPERATIONS_MAX);
			convert_operation(c, path, target, &methods[i]);
		}
	}
	return n > 0 ? 0 : err_set(err, ERR_INVALID, "/paths", "there is no operation");
}

int openapi_convert(const json_t *description, const struct openapi_options *options, const struct openapi_sink *sink,
		    void *arg, struct err *err)
{
	struct converter c = { .root = description, .sink = sink, .arg = arg, .prefix = options->prefix ? options->prefix : "",
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
