/* http: one request from the plan's templates and the call's arguments. */
#include "config.h"

#include "http_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"

/* str_take() for what may hold a secret: the string keeps one copy. */
static char *take(struct str *s, size_t *ret_len)
{
	if (ret_len)
		*ret_len = s->len;
	return str_take(s);
}

static void drop(struct str *s)
{
	if (s->p)
		secret_wipe(s->p, s->cap);
	str_fini(s);
}

static int add_query(const struct http_plan *plan, const struct backend_req *req, struct str *url, struct err *err)
{
	bool first = !memchr(url->p, '?', url->len);
	struct str value = STR_INIT;
	int rc = 0;

	for (size_t i = 0; i < plan->nquery && rc == 0; i++) {
		const struct http_pair *q = &plan->query[i];

		if (!http_has_value(q->value, req))
			continue;
		str_reset(&value);
		rc = tpl_render(q->value, req, &value, err);
		str_putc(url, first ? '?' : '&');
		first = false;
		uri_encode(q->name, strlen(q->name), false, url);
		str_putc(url, '=');
		uri_encode(str_text(&value), value.len, false, url);
	}
	drop(&value);
	return rc;
}

/* Whatever the arguments are, the request goes where the definition says (SEC S-708). */
static int check_url(const struct http_plan *plan, const struct str *url, struct err *err)
{
	struct url u;
	struct err why;

	if (url_parse(str_text(url), url->len, "", &u, &why) < 0)
		return err_set(err, why.code == ERR_LIMIT ? ERR_LIMIT : ERR_TOOL, "", "the arguments do not make a valid URL: %s",
			       why.msg);
	if (u.tls != plan->base.tls || u.port != plan->base.port || strcmp(u.host, plan->base.host) != 0)
		return err_set(err, ERR_INTERNAL, "", "the URL left its host");
	return 0;
}

static int make_url(const struct http_plan *plan, const struct backend_req *req, struct http_message *ret, struct err *err)
{
	struct str url = STR_INIT;

	int rc = uri_expand(plan->url, req, &url, err);
	if (rc == 0)
		rc = add_query(plan, req, &url, err);
	if (rc == 0)
		rc = check_url(plan, &url, err);
	if (rc == 0)
		ret->url = take(&url, NULL);
	drop(&url);
	return rc;
}

static int add_header(const struct http_pair *h, const struct backend_req *req, struct http_message *ret, struct err *err)
{
	struct str value = STR_INIT;
	struct err why;

	int rc = tpl_render(h->value, req, &value, err);
	if (rc == 0 && fetch_check_header_value(str_text(&value), value.len, "", &why) < 0)
		rc = err_set(err, ERR_TOOL, "", "the value of the header %s would have control characters", h->name);
	if (rc == 0)
		ret->headers[ret->nheaders++] = (struct fetch_header){ h->name, take(&value, NULL) };
	drop(&value);
	return rc;
}

static int make_headers(const struct http_plan *plan, const struct backend_req *req, struct http_message *ret,
			struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < plan->nheaders && rc == 0; i++) {
		if (http_has_value(plan->headers[i].value, req))
			rc = add_header(&plan->headers[i], req, ret, err);
	}
	if (rc == 0 && plan->body_type)
		ret->headers[ret->nheaders++] = (struct fetch_header){ "Content-Type", mem_strdup(plan->body_type) };
	return rc;
}

static int make_body(const struct http_plan *plan, const struct backend_req *req, struct http_message *ret,
		     struct err *err)
{
	struct str body;
	int rc = 0;

	str_init(&body, HTTP_SEND_MAX);
	switch (plan->body) {
	case HTTP_SEND_NONE:
		break;
	case HTTP_SEND_ARGUMENTS:
		str_put(&body, req->args_len ? req->args_text : "{}", req->args_len ? req->args_len : 2);
		break;
	case HTTP_SEND_JSON:
		rc = http_body_has_value(plan->body_tree, req) ? http_body_json(plan->body_tree, req, &body, err) : 0;
		break;
	case HTTP_SEND_FORM:
		rc = http_body_form(plan->body_tree, req, &body, err);
		break;
	case HTTP_SEND_TEXT:
		rc = http_has_value(plan->body_text, req) ? tpl_render(plan->body_text, req, &body, err) : 0;
		break;
	}
	if (rc == 0 && body.failed)
		rc = err_set(err, ERR_LIMIT, "", "the request's body would be larger than %u bytes", HTTP_SEND_MAX);
	if (rc == 0)
		ret->body = take(&body, &ret->body_len);
	drop(&body);
	return rc;
}

int http_message_make(const struct http_plan *plan, const struct backend_req *req, struct http_message *ret,
		      struct err *err)
{
	*ret = (struct http_message){ .url = NULL };
	int rc = make_url(plan, req, ret, err);

	if (rc == 0)
		rc = make_headers(plan, req, ret, err);
	if (rc == 0)
		rc = make_body(plan, req, ret, err);
	if (rc < 0)
		http_message_fini(ret);
	return rc;
}

void http_message_fini(struct http_message *m)
{
	if (m->url)
		secret_wipe(m->url, strlen(m->url));
	free(m->url);
	for (size_t i = 0; i < m->nheaders; i++) {
		char *value = (char *)(uintptr_t)m->headers[i].value;   /* ours; the fetcher's face only reads it */

		secret_wipe(value, strlen(value));
		free(value);
	}
	if (m->body)
		secret_wipe(m->body, m->body_len);
	free(m->body);
	*m = (struct http_message){ .url = NULL };
}
