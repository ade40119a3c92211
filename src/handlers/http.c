/* http, the block: method, URL, headers, body and result of a request, checked and compiled into a plan (any thread),
 * and bodies written from it on the loop.  One call is in http_run.c, URLs are in uri.c.  Values stay values: what is
 * inserted is encoded for where it goes (SEC S-708). */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "handlers/handlers.h"
#include "json/json.h"

#include "http_int.h"

/* --- bodies */

/* Bodies that a definition writes as an object: compiled once, written as JSON or as a form.  What is inserted is
 * encoded for where it goes, so it stays a value (SEC S-708). */

enum node_kind { NODE_FIXED, NODE_TEXT, NODE_VALUE, NODE_OBJECT, NODE_ARRAY };

struct http_node {
	enum node_kind kind;
	const char *name;               /* of a member; NULL in arrays and at the top */
	const char *fixed;              /* JSON text */
	const struct tpl *tpl;
	const char *pointer;            /* NODE_VALUE: the argument's */
	const struct http_node *first, *next;   /* children; the next of the same parent */
};

/* --- compile */

struct compiling { struct arena *mem; size_t nodes; struct err *err; };

static int compile_node(struct compiling *c, const json_t *v, const char *at, struct http_node *n);

static int too_many(const char *at, struct err *err)
{
	return err_set(err, ERR_LIMIT, at, "the body has more than %d values", HTTP_BODY_NODES_MAX);
}

/* Depth is bounded by the parser's. */
static int compile_children(struct compiling *c, const json_t *v, const char *at, struct http_node *parent)
{
	const struct http_node **link = &parent->first;
	struct str where = STR_INIT;
	void *it = json_object_iter((json_t *)(uintptr_t)v);    /* jansson's iterators take no const */
	char index[24];
	int rc = 0;

	for (size_t i = 0; rc == 0 && (json_is_object(v) ? it != NULL : i < json_array_size(v)); i++) {
		const char *name = json_is_object(v) ? json_object_iter_key(it) : NULL;
		const json_t *child = name ? json_object_iter_value(it) : json_array_get(v, i);
		struct http_node *n = arena_alloc(c->mem, sizeof(*n));

		if (!n || ++c->nodes > HTTP_BODY_NODES_MAX) {
			rc = n ? too_many(at, c->err) : backend_bind_full(at, c->err);
			break;
		}
		snprintf(index, sizeof(index), "%zu", i);
		str_reset(&where);
		str_puts(&where, at);
		jx_pointer_add(&where, name ? name : index);
		n->name = name ? arena_strdup(c->mem, name) : NULL;
		rc = compile_node(c, child, str_text(&where), n);
		*link = n;
		link = &n->next;
		if (name)
			it = json_object_iter_next((json_t *)(uintptr_t)v, it);
	}
	str_fini(&where);
	return rc;
}

static int compile_string(struct compiling *c, const json_t *v, const char *at, struct http_node *n)
{
	const char *text = json_string_value(v);

	if (memchr(text, '\0', json_string_length(v)))
		return err_set(c->err, ERR_INVALID, at, "must not contain U+0000");
	int rc = tpl_compile(text, at, TPL_ARGS | TPL_SECRETS, c->mem, &n->tpl, c->err);
	if (rc < 0)
		return rc;
	n->kind = NODE_TEXT;
	if (!tpl_is_one_argument(n->tpl))
		return 0;
	n->kind = NODE_VALUE;
	n->pointer = tpl_pointer(n->tpl);
	return 0;
}

static int compile_node(struct compiling *c, const json_t *v, const char *at, struct http_node *n)
{
	struct str text = STR_INIT;

	if (json_is_string(v))
		return compile_string(c, v, at, n);
	if (json_is_object(v) || json_is_array(v)) {
		n->kind = json_is_object(v) ? NODE_OBJECT : NODE_ARRAY;
		return compile_children(c, v, at, n);
	}
	n->kind = NODE_FIXED;
	jx_write(v, &text);
	n->fixed = arena_strdup(c->mem, str_text(&text));
	str_fini(&text);
	return n->fixed ? 0 : backend_bind_full(at, c->err);
}

static int http_body_compile(const json_t *v, const char *at, struct arena *mem, const struct http_node **ret,
			     struct err *err)
{
	struct compiling c = { .mem = mem, .err = err };
	struct http_node *n = arena_alloc(mem, sizeof(*n));

	if (!n)
		return backend_bind_full(at, err);
	int rc = compile_node(&c, v, at, n);
	if (rc == 0)
		*ret = n;
	return rc;
}

/* --- write */

bool http_has_value(const struct tpl *t, const struct backend_req *req)
{
	const json_t *v = tpl_is_one_argument(t) ? jx_at(req->args, tpl_pointer(t)) : NULL;

	return !tpl_is_one_argument(t) || (v && !json_is_null(v));
}

bool http_body_has_value(const struct http_node *n, const struct backend_req *req)
{
	return n->kind != NODE_VALUE || http_has_value(n->tpl, req);
}

static void wipe(struct str *s)
{
	if (s->p)
		secret_wipe(s->p, s->cap);
	str_fini(s);
}

static int put_json_text(const struct http_node *n, const struct backend_req *req, struct str *out, struct err *err)
{
	struct str text = STR_INIT;
	int rc = tpl_render(n->tpl, req, &text, err);

	if (rc == 0)
		jx_write_string(out, str_text(&text), text.len);
	wipe(&text);
	return rc;
}

static int put_json_value(const struct http_node *n, const struct backend_req *req, struct str *out, struct err *err)
{
	const json_t *v = jx_at(req->args, n->pointer);

	if (!v || json_is_null(v)) {
		str_puts(out, "null");  /* an element of an array */
		return 0;
	}
	if (json_is_string(v)) {
		jx_write_string(out, json_string_value(v), json_string_length(v));
		return 0;
	}
	return tpl_render(n->tpl, req, out, err);
}

int http_body_json(const struct http_node *n, const struct backend_req *req, struct str *out, struct err *err)
{
	unsigned count = 0;
	int rc = 0;

	switch (n->kind) {
	case NODE_FIXED:
		str_puts(out, n->fixed);
		return 0;
	case NODE_TEXT:
		return put_json_text(n, req, out, err);
	case NODE_VALUE:
		return put_json_value(n, req, out, err);
	case NODE_OBJECT:
	case NODE_ARRAY:
		break;
	}
	str_putc(out, n->kind == NODE_OBJECT ? '{' : '[');
	for (const struct http_node *c = n->first; c && rc == 0; c = c->next) {
		if (c->name && !http_body_has_value(c, req))
			continue;
		if (count++ > 0)
			str_putc(out, ',');
		if (c->name) {
			jx_write_stringz(out, c->name);
			str_putc(out, ':');
		}
		rc = http_body_json(c, req, out, err);
	}
	str_putc(out, n->kind == NODE_OBJECT ? '}' : ']');
	return rc;
}

static void put_pair(const char *name, const char *value, size_t len, struct str *out)
{
	if (out->len > 0)
		str_putc(out, '&');
	uri_encode(name, strlen(name), false, out);
	str_putc(out, '=');
	uri_encode(value, len, false, out);
}

/* A list goes as the same name again and again; what has no text goes as JSON. */
static int put_form_value(const struct http_node *n, const struct backend_req *req, struct str *out, struct err *err)
{
	const json_t *v = n->kind == NODE_VALUE ? jx_at(req->args, n->pointer) : NULL;
	struct str text = STR_INIT;
	const json_t *item;
	size_t i;
	int rc = 0;

	if (json_is_array(v)) {
		json_array_foreach(v, i, item) {
			str_reset(&text);
			if (json_is_string(item))
				str_put(&text, json_string_value(item), json_string_length(item));
			else
				jx_write(item, &text);
			put_pair(n->name, str_text(&text), text.len, out);
		}
	} else {
		rc = n->kind == NODE_FIXED ? 0 : tpl_render(n->tpl, req, &text, err);
		if (n->kind == NODE_FIXED)
			str_puts(&text, n->fixed);
		if (rc == 0)
			put_pair(n->name, str_text(&text), text.len, out);
	}
	wipe(&text);
	return rc;
}

int http_body_form(const struct http_node *n, const struct backend_req *req, struct str *out, struct err *err)
{
	int rc = 0;

	for (const struct http_node *c = n->first; c && rc == 0; c = c->next) {
		if (http_body_has_value(c, req))
			rc = put_form_value(c, req, out, err);
	}
	return rc;
}

/* an object without objects or lists written in it */
static bool http_body_is_flat(const struct http_node *n)
{
	for (const struct http_node *c = n->first; c; c = c->next) {
		if (c->kind == NODE_OBJECT || c->kind == NODE_ARRAY)
			return false;
	}
	return n->kind == NODE_OBJECT;
}

#define JSON_TYPE "application/json"
#define FORM_TYPE "application/x-www-form-urlencoded"
#define TEXT_TYPE "text/plain; charset=utf-8"
#define BYTES_TYPE "application/octet-stream"

static int bind_method(const json_t *handler, struct http_plan *plan, struct err *err)
{
	static const char *const methods[] = { "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH" };
	unsigned i = 0;

	int rc = backend_get_word(handler, "method", methods, NELEMS(methods), &i, err);
	plan->method = methods[i];
	plan->idempotent = i < 5;
	return rc;
}

static int bind_pair(const char *name, const json_t *v, const char *at, struct arena *mem, struct http_pair *ret,
		     struct err *err)
{
	const char *text = json_string_value(v);

	if (!text)
		return err_set(err, ERR_INVALID, at, "must be a string, is %s", jx_type_name(v));
	if (memchr(text, '\0', json_string_length(v)))
		return err_set(err, ERR_INVALID, at, "must not contain U+0000");
	ret->name = arena_strdup(mem, name);
	if (!ret->name)
		return backend_bind_full(at, err);
	return tpl_compile(text, at, TPL_ARGS | TPL_SECRETS, mem, &ret->value, err);
}

/* The map `member`: names are fixed, values are templates. */
static int bind_pairs(const json_t *handler, const char *member, struct arena *mem, const struct http_pair **ret,
		      size_t *ret_n, struct err *err)
{
	struct str at = STR_INIT;
	json_t *map = NULL, *v;
	const char *name;
	size_t n = 0;

	int rc = jx_get_object(handler, "", member, JX_OPTIONAL, &map, err);
	if (rc < 0 || !map)
		return rc;
	str_printf(&at, "/%s", member);
	struct http_pair *pairs = arena_alloc(mem, json_object_size(map) * sizeof(*pairs) + 1);
	if (json_object_size(map) > HTTP_PAIRS_MAX)
		rc = err_set(err, ERR_LIMIT, str_text(&at), "has more than %d members", HTTP_PAIRS_MAX);
	else if (!pairs)
		rc = backend_bind_full(str_text(&at), err);
	json_object_foreach(map, name, v) {
		if (rc < 0)
			break;
		str_reset(&at);
		str_printf(&at, "/%s", member);
		jx_pointer_add(&at, name);
		rc = bind_pair(name, v, str_text(&at), mem, &pairs[n++], err);
	}
	str_fini(&at);
	*ret = pairs;
	*ret_n = n;
	return rc;
}

static const struct http_pair *find_header(const struct http_plan *plan, const char *name, size_t before)
{
	for (size_t i = 0; i < before; i++) {
		if (strcasecmp(plan->headers[i].name, name) == 0)
			return &plan->headers[i];
	}
	return NULL;
}

/* SEC S-708: names are fixed, and none belongs to the connection. */
static int bind_headers(const json_t *handler, struct arena *mem, struct http_plan *plan, struct err *err)
{
	int rc = bind_pairs(handler, "headers", mem, &plan->headers, &plan->nheaders, err);

	for (size_t i = 0; i < plan->nheaders && rc == 0; i++) {
		const char *name = plan->headers[i].name;
		struct str at = STR_INIT;
		str_puts(&at, "/headers");
		jx_pointer_add(&at, name);
		rc = fetch_check_header_name(name, str_text(&at), err);
		if (rc == 0 && find_header(plan, name, i))
			rc = err_set(err, ERR_INVALID, str_text(&at), "the header stands there twice");
		const char *text = json_string_value(json_object_get(json_object_get(handler, "headers"), name));
		if (rc == 0)
			rc = fetch_check_header_value(text, strlen(text), str_text(&at), err);
		str_fini(&at);
	}
	return rc;
}

/* --- body */

/* Unless the definition says that it is for nobody, or says the headers itself (OP-404). */
static int bind_trace(const json_t *handler, struct http_plan *plan, struct err *err)
{
	plan->traced = true;
	int rc = jx_get_bool(handler, "", "trace", JX_OPTIONAL, &plan->traced, err);
	if (find_header(plan, "traceparent", plan->nheaders) || find_header(plan, "tracestate", plan->nheaders))
		plan->traced = false;
	return rc;
}

/* The Content-Type of the definition's headers as far as it decides about the body; NULL: there is none. */
static const char *type_of(const json_t *handler, const struct http_plan *plan)
{
	const struct http_pair *h = find_header(plan, "content-type", plan->nheaders);

	return h ? json_string_value(json_object_get(json_object_get(handler, "headers"), h->name)) : NULL;
}

static bool type_is(const json_t *handler, const struct http_plan *plan, const char *type)
{
	const char *text = type_of(handler, plan);

	return text && strncasecmp(text, type, strlen(type)) == 0;
}

static bool says_json(const json_t *handler, const struct http_plan *plan)
{
	const char *text = type_of(handler, plan), *end = text ? text + strcspn(text, "; \t") : NULL;

	return type_is(handler, plan, JSON_TYPE) || (end && end - text > 5 && strncasecmp(end - 5, "+json", 5) == 0);
}

static int bind_body_text(const json_t *handler, const char *text, struct arena *mem, struct http_plan *plan,
			  struct err *err)
{
	if (strcmp(text, "arguments") == 0) {
		plan->body = HTTP_SEND_ARGUMENTS;
		plan->body_type = JSON_TYPE;
		return 0;
	}
	int rc = tpl_compile(text, "/body", TPL_ARGS | TPL_SECRETS, mem, &plan->body_text, err);
	if (rc < 0)
		return rc;
	if (tpl_is_one_argument(plan->body_text) && says_json(handler, plan)) {
		plan->body = HTTP_SEND_JSON;
		return http_body_compile(json_object_get(handler, "body"), "/body", mem, &plan->body_tree, err);
	}
	plan->body = HTTP_SEND_TEXT;
	plan->body_type = TEXT_TYPE;
	if (tpl_is_constant(plan->body_text) || !(says_json(handler, plan) || type_is(handler, plan, FORM_TYPE)))
		return 0;
	(void)err_set(err, ERR_INVALID, "/body", "a template of this content type would not be encoded");
	err_hint(err, "write the body as an object: {name: \"{/name}\"}");
	return ERR_INVALID;
}

static int bind_body(const json_t *handler, struct arena *mem, struct http_plan *plan, struct err *err)
{
	const json_t *body = json_object_get(handler, "body");
	const char *text = NULL;
	int rc = 0;

	if (!body)
		return 0;
	if (strcmp(plan->method, "GET") == 0 || strcmp(plan->method, "HEAD") == 0)
		return err_set(err, ERR_INVALID, "/body", "%s has no body", plan->method);
	if (json_is_string(body)) {
		rc = jx_get_string(handler, "", "body", JX_REQUIRED, &text, err);
		if (rc == 0)
			rc = bind_body_text(handler, text, mem, plan, err);
	} else if (json_is_object(body) || json_is_array(body)) {
		rc = http_body_compile(body, "/body", mem, &plan->body_tree, err);
		plan->body = HTTP_SEND_JSON;
		plan->body_type = JSON_TYPE;
		if (rc == 0 && type_is(handler, plan, FORM_TYPE)) {
			plan->body = HTTP_SEND_FORM;
			if (!http_body_is_flat(plan->body_tree))
				rc = err_set(err, ERR_INVALID, "/body", "a form is an object of plain values");
		}
	} else {
		rc = err_set(err, ERR_INVALID, "/body", "must be arguments, a template or an object, is %s",
			     jx_type_name(body));
	}
	if (find_header(plan, "content-type", plan->nheaders))
		plan->body_type = NULL;         /* the header says it */
	return rc;
}

/* How the argument that is the body says bytes: always, or as another argument has it. */
static int bind_encoding(const json_t *handler, struct arena *mem, struct http_plan *plan, struct err *err)
{
	const char *text = NULL;
	int rc = jx_get_string(handler, "", "encoding", JX_OPTIONAL, &text, err);

	if (rc < 0 || !text)
		return rc;
	if (plan->body != HTTP_SEND_TEXT || !tpl_is_one_argument(plan->body_text))
		return err_set(err, ERR_INVALID, "/encoding", "is for a body that is one argument and no JSON or form");
	rc = tpl_compile(text, "/encoding", TPL_ARGS, mem, &plan->encoding, err);
	if (rc == 0 && strcmp(text, "base64") != 0 && strcmp(text, "text") != 0 && !tpl_is_one_argument(plan->encoding))
		rc = err_set(err, ERR_INVALID, "/encoding", "must be base64, text or one argument, is %.60s", text);
	if (rc == 0 && !find_header(plan, "content-type", plan->nheaders))
		plan->body_type = BYTES_TYPE;
	return rc;
}

/* --- result, url */

static int bind_result(const json_t *handler, struct arena *mem, struct http_plan *plan, struct err *err)
{
	static const char *const words[] = { "auto", "text" }, *const known[] = { "pointer" };
	const json_t *result = json_object_get(handler, "result");
	const char *pointer = NULL;
	unsigned word = 0;

	if (!json_is_object(result)) {
		int rc = backend_get_word(handler, "result", words, NELEMS(words), &word, err);
		plan->result = word == 1 ? HTTP_RESULT_TEXT : HTTP_RESULT_AUTO;
		return rc;
	}
	int rc = jx_only(result, "/result", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_string(result, "/result", "pointer", JX_REQUIRED, &pointer, err);
	if (rc < 0)
		return rc;
	if (pointer[0] != '/')
		return err_set(err, ERR_INVALID, "/result/pointer", "must be a JSON pointer like /data, is %.60s",
			       pointer);
	plan->result = HTTP_RESULT_POINTER;
	plan->pointer = arena_strdup(mem, pointer);
	return plan->pointer ? 0 : backend_bind_full("/result/pointer", err);
}

static int bind_url(const json_t *handler, struct arena *mem, struct http_plan *plan, struct err *err)
{
	const char *url = NULL;

	int rc = jx_get_string(handler, "", "url", JX_REQUIRED, &url, err);
	if (rc == 0)
		rc = uri_compile(url, "/url", mem, &plan->url, &plan->base, err);
	if (rc < 0)
		return rc;
	if (fetch_policy_url(&plan->policy, &plan->base, err) == 0)
		return 0;
	err_at(err, "/url");
	if (err)
		err->code = ERR_INVALID;
	return ERR_INVALID;
}

static int http_bind(const json_t *handler, struct arena *mem, const void **ret_plan, struct err *err)
{
	static const char *const known[] = { "type", "method", "url", "query", "headers", "body", "encoding", "result",
		"allow", "ca", "trace" };
	struct http_plan *plan = arena_alloc(mem, sizeof(*plan));

	if (!plan)
		return backend_bind_full("", err);
	int rc = jx_only(handler, "", known, NELEMS(known), err);
	if (rc == 0)
		rc = bind_method(handler, plan, err);
	if (rc == 0)
		rc = backend_bind_fetch(handler, mem, &plan->policy, err);
	if (rc == 0)
		rc = bind_url(handler, mem, plan, err);
	if (rc == 0)
		rc = bind_pairs(handler, "query", mem, &plan->query, &plan->nquery, err);
	if (rc == 0)
		rc = bind_headers(handler, mem, plan, err);
	if (rc == 0)
		rc = bind_trace(handler, plan, err);
	if (rc == 0)
		rc = bind_body(handler, mem, plan, err);
	if (rc == 0)
		rc = bind_encoding(handler, mem, plan, err);
	if (rc == 0)
		rc = bind_result(handler, mem, plan, err);
	if (rc == 0)
		*ret_plan = plan;
	return rc;
}

static void http_way(const void *plan, struct backend_way *ret)
{
	const struct http_plan *p = plan;

	*ret = (struct backend_way){ .method = p->method, .host = p->base.host, .port = p->base.port };
}

const struct backend_ops handler_http = {
	.name = "http", .bind = http_bind, .start = http_start, .cancel = http_cancel, .way = http_way,
};
