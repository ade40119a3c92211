/* http: the handler block of a request, checked and compiled.  A run of it is in http_run.c. */
#include "config.h"

#include "http_int.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"
#include "handlers/handlers.h"
#include "json/json.h"

#define JSON_TYPE "application/json"
#define FORM_TYPE "application/x-www-form-urlencoded"
#define TEXT_TYPE "text/plain; charset=utf-8"

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

/* --- body ---------------------------------------------------------------------------------------- */

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
		rc = err_set(err, ERR_INVALID, "/body", "must be arguments, a template or an object, is %s", jx_type_name(body));
	}
	if (find_header(plan, "content-type", plan->nheaders))
		plan->body_type = NULL;         /* the header says it */
	return rc;
}

/* --- result, url ---------------------------------------------------------------------------------- */

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
		return err_set(err, ERR_INVALID, "/result/pointer", "must be a JSON pointer like /data, is %.60s", pointer);
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
	static const char *const known[] = { "type", "method", "url", "query", "headers", "body", "result", "allow", "ca" };
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
		rc = bind_body(handler, mem, plan, err);
	if (rc == 0)
		rc = bind_result(handler, mem, plan, err);
	if (rc == 0)
		*ret_plan = plan;
	return rc;
}

const struct backend_ops handler_http = {
	.name = "http", .bind = http_bind, .start = http_start, .cancel = http_cancel,
};
