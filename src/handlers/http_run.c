/* http, the call: at most HTTP_TRIES_MAX requests, all before the deadline, and what an answer means as a result of the
 * tool.  Loop thread.  The breaker of the server is asked before each request and told after it; only what may be
 * repeated is sent again (RFC 9110, 9.2.2). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/secrets.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "ev/ev.h"
#include "json/json.h"
#include "net/breaker.h"
#include "net/http_server.h"
#include "proto/trace.h"

#include "http_int.h"

/* --- one request */

/* One request from the plan's templates and the call's arguments. */

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
		return err_set(err, why.code == ERR_LIMIT ? ERR_LIMIT : ERR_TOOL, "",
			       "the arguments do not make a valid URL: %s", why.msg);
	if (u.tls != plan->base.tls || u.port != plan->base.port || strcmp(u.host, plan->base.host) != 0)
		return err_set(err, ERR_INTERNAL, "", "the URL left its host");
	return 0;
}

static int make_url(const struct http_plan *plan, const struct backend_req *req, struct http_message *ret,
		    struct err *err)
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

static int add_header(const struct http_pair *h, const struct backend_req *req, struct http_message *ret,
		      struct err *err)
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
	if (rc == 0 && plan->traced && req->trace) {
		ret->headers[ret->nheaders++] = (struct fetch_header){ "traceparent", mem_strdup(req->trace->parent) };
		if (*req->trace->state)
			ret->headers[ret->nheaders++] = (struct fetch_header){ "tracestate", mem_strdup(req->trace->state) };
	}
	return rc;
}

static int unbase64(struct str *body, struct err *err)
{
	size_t size = body->len, n = 0;
	char *bytes = mem_alloc(size);
	int rc = text_unbase64(body->p, body->len, bytes, size, &n);

	if (rc == 0) {
		body->len = 0;
		str_put(body, bytes, n);
	} else {
		rc = err_set(err, ERR_TOOL, "", "the body is no base64: RFC 4648, padded, without line breaks");
	}
	secret_wipe(bytes, size);
	free(bytes);
	return rc;
}

/* body is base64, or the text itself when the call says so. */
static int decode_body(const struct http_plan *plan, const struct backend_req *req, struct str *body, struct err *err)
{
	struct str how = STR_INIT;
	int rc = http_has_value(plan->encoding, req) ? tpl_render(plan->encoding, req, &how, err) : 0;
	bool text = rc == 0 && strcmp(str_text(&how), "text") == 0;

	if (rc == 0 && !text && how.len > 0 && strcmp(str_text(&how), "base64") != 0)
		rc = err_set(err, ERR_TOOL, "", "the body's encoding is base64 or text");
	else if (rc == 0 && !text && body->len > 0)
		rc = unbase64(body, err);
	str_fini(&how);
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
		if (rc == 0 && plan->encoding && !body.failed)
			rc = decode_body(plan, req, &body, err);
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

/* --- answers */

/* What an answer means as a result of the tool. */

#define TYPE_MAX 128                    /* bytes of a media type */

enum kind { KIND_JSON, KIND_TEXT, KIND_IMAGE, KIND_AUDIO, KIND_OTHER, KIND_UNKNOWN };

/* --- media types */

/* "Text/HTML; charset=utf-8" -> "text/html"; "" when it is none. */
static void media_type(const char *type, char ret[TYPE_MAX])
{
	static const char token[] = "!#$&^_.+-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t main_len = strspn(type, token);
	size_t len = type[main_len] == '/' ? main_len + 1 + strspn(type + main_len + 1, token) : 0;

	ret[0] = '\0';
	if (main_len == 0 || len <= main_len + 1 || len >= TYPE_MAX || !strchr("; \t", type[len]))
		return;
	for (size_t i = 0; i < len; i++)
		ret[i] = type[i] >= 'A' && type[i] <= 'Z' ? (char)(type[i] - 'A' + 'a') : type[i];
	ret[len] = '\0';
}

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, const char *with)
{
	size_t len = strlen(text), n = strlen(with);

	return len >= n && strcmp(text + len - n, with) == 0;
}

static enum kind kind_of(const char *media)
{
	static const char *const texts[] = { "application/xml", "application/javascript", "application/yaml",
		"application/x-yaml", "application/x-ndjson", "application/x-www-form-urlencoded",
		"application/graphql", "application/toml" };

	if (!*media)
		return KIND_UNKNOWN;
	if (strcmp(media, "application/json") == 0 || strcmp(media, "text/json") == 0 || ends(media, "+json"))
		return KIND_JSON;
	if (begins(media, "text/") || ends(media, "+xml"))
		return begins(media, "image/") ? KIND_IMAGE : KIND_TEXT;
	if (begins(media, "image/"))
		return KIND_IMAGE;
	if (begins(media, "audio/"))
		return KIND_AUDIO;
	for (size_t i = 0; i < NELEMS(texts); i++) {
		if (strcmp(media, texts[i]) == 0)
			return KIND_TEXT;
	}
	return KIND_OTHER;
}

/* --- results */

static void add_block(struct backend_result *ret, json_t *block)
{
	json_array_append_new(ret->content, block);
}

static int give_text(const struct http_answer *a, struct backend_result *ret, struct err *err)
{
	if (!text_utf8_valid(a->body, a->len))
		return err_set(err, ERR_TOOL, "", "the server's answer is text that is not UTF-8");
	add_block(ret, content_text(a->body, a->len));
	return 0;
}

static json_t *base64(const char *p, size_t len)
{
	char *text = mem_alloc(text_base64_size(len));

	text_base64(p, len, text);
	json_t *v = json_string_nocheck(text);
	free(text);
	return v;
}

static void give_media(const struct http_answer *a, const char *type, const char *media, struct backend_result *ret)
{
	json_t *block = json_object();

	json_object_set_new_nocheck(block, "type", json_string(type));
	json_object_set_new_nocheck(block, "data", base64(a->body, a->len));
	json_object_set_new_nocheck(block, "mimeType", json_string(media));
	add_block(ret, block);
}

/* The URI names the call: the URL may hold what the client must not see. */
static void give_blob(const struct http_answer *a, const char *media, const struct backend_req *req,
		      struct backend_result *ret)
{
	json_t *block = json_object(), *resource = json_object();
	char uri[sizeof("urn:uuid:") + ID_TEXT_SIZE], id[ID_TEXT_SIZE];

	snprintf(uri, sizeof(uri), "urn:uuid:%s", id_format(req->call_id, id));
	json_object_set_new_nocheck(resource, "uri", json_string(uri));
	json_object_set_new_nocheck(resource, "mimeType", json_string(*media ? media : "application/octet-stream"));
	json_object_set_new_nocheck(resource, "blob", base64(a->body, a->len));
	json_object_set_new_nocheck(block, "type", json_string("resource"));
	json_object_set_new_nocheck(block, "resource", resource);
	add_block(ret, block);
}

static int not_json(const struct err *why, struct err *err)
{
	return err_set(err, ERR_TOOL, "", "the server's answer is not usable JSON: %s%s%s", why->where,
		       why->where[0] ? ": " : "", why->msg);
}

static int give_json(const struct http_answer *a, struct backend_result *ret, struct err *err)
{
	struct err why;

	if (jx_scan(a->body, a->len, NULL, 0, &why) < 0)
		return not_json(&why, err);
	/* A number that the tree cannot hold stays in the text, unrounded (trap 14). */
	if (jx_parse_scanned(a->body, a->len, &ret->structured, &why) < 0)
		ret->structured = NULL;
	add_block(ret, content_text(a->body, a->len));          /* MCP T-27 */
	return 0;
}

static int give_pointer(const struct http_answer *a, const char *pointer, struct backend_result *ret, struct err *err)
{
	struct str text = STR_INIT;
	json_t *tree = NULL;
	struct err why;

	if (jx_parse(a->body, a->len, &tree, &why) < 0)
		return not_json(&why, err);
	json_t *v = jx_at(tree, pointer);
	if (!v) {
		json_decref(tree);
		return err_set(err, ERR_TOOL, "", "the server's answer has no %.100s", pointer);
	}
	if (json_is_string(v))
		str_put(&text, json_string_value(v), json_string_length(v));
	else
		jx_write(v, &text);
	ret->structured = json_incref(v);
	json_decref(tree);
	add_block(ret, content_text(str_text(&text), text.len));
	str_fini(&text);
	return 0;
}

static int give_auto(const struct http_answer *a, const struct backend_req *req, struct backend_result *ret,
		     struct err *err)
{
	char media[TYPE_MAX];

	media_type(a->type, media);
	switch (kind_of(media)) {
	case KIND_JSON:
		return give_json(a, ret, err);
	case KIND_TEXT:
		return give_text(a, ret, err);
	case KIND_IMAGE:
		give_media(a, "image", media, ret);
		return 0;
	case KIND_AUDIO:
		give_media(a, "audio", media, ret);
		return 0;
	case KIND_OTHER:
		give_blob(a, media, req, ret);
		return 0;
	case KIND_UNKNOWN:
		break;
	}
	if (jx_scan(a->body, a->len, NULL, 0, NULL) == 0)
		return give_json(a, ret, err);
	if (text_utf8_valid(a->body, a->len))
		return give_text(a, ret, err);
	give_blob(a, "", req, ret);
	return 0;
}

/* --- failures */

static void put_status(const struct http_answer *a, struct str *out)
{
	const char *words = http_status_text(a->status);

	str_printf(out, "HTTP %d", a->status);
	if (strcmp(words, "Unknown") != 0)
		str_printf(out, " %s", words);
}

/* Control characters become spaces; len is cut between characters of valid UTF-8. */
static void put_excerpt(const char *p, size_t len, struct str *out)
{
	bool cut = len > HTTP_EXCERPT_MAX;

	if (cut) {
		for (len = HTTP_EXCERPT_MAX; len > 0 && ((unsigned char)p[len] & 0xc0) == 0x80; len--)
			;
	}
	str_puts(out, "\n");
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)p[i];

		str_putc(out, (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f ? ' ' : (char)c);
	}
	if (cut)
		str_puts(out, " ...");
}

/* A status that says no: isError, with what the server says about it, bounded and cleaned. */
static void give_refusal(const struct http_answer *a, const struct backend_req *req, struct backend_result *ret)
{
	struct str text = STR_INIT, clean = STR_INIT;
	char media[TYPE_MAX];

	ret->is_error = true;
	media_type(a->type, media);
	put_status(a, &text);
	if (a->status < 400)
		str_puts(&text, ": redirects are not followed");
	/* Blanked before it is cut: half a secret is not found afterwards. */
	if (!a->encoded && text_utf8_valid(a->body, a->len))
		mask_text(req->secrets, a->body, a->len, &clean);
	else
		str_printf(&text, " (%zu bytes of %s)", a->len, *media ? media : "unknown type");
	if (clean.len > 0)
		put_excerpt(clean.p, clean.len, &text);
	add_block(ret, content_text(str_text(&text), text.len));
	str_fini(&text);
	str_fini(&clean);
}

int http_map(const struct http_plan *plan, const struct backend_req *req, const struct http_answer *a,
	     struct backend_result *ret, struct err *err)
{
	struct str text = STR_INIT;
	int rc = 0;

	*ret = (struct backend_result){ .content = json_array(), .xstat = a->status, .has_xstat = true };
	if (a->status < 200 || a->status > 299) {
		give_refusal(a, req, ret);
	} else if (a->encoded) {
		rc = err_set(err, ERR_TOOL, "", "the server's answer is compressed, which was not asked for");
	} else if (plan->result == HTTP_RESULT_POINTER) {
		rc = give_pointer(a, plan->pointer, ret, err);
	} else if (a->len == 0) {
		put_status(a, &text);
		add_block(ret, content_text(str_text(&text), text.len));
	} else if (plan->result == HTTP_RESULT_TEXT) {
		rc = give_text(a, ret, err);
	} else {
		rc = give_auto(a, req, ret, err);
	}
	str_fini(&text);
	if (rc < 0)
		json_decref(ret->content);
	return rc;
}

#define RETRY_FIRST_MS 100              /* and four times as long each time; a Retry-After of the server goes before */
#define RETRY_FACTOR 4
#define RETRY_LEFT_MS 20                /* less time than this is none */

struct http_op {
	struct backend_op op;
	struct fetcher *fetcher;
	const struct http_plan *plan;
	struct backend_req req;         /* its texts are ours; the rest lives until the end */
	char *tool, *tenant, *principal;
	uint8_t call_id[16];
	struct http_message message;
	struct fetch *fetch;
	struct ev_timer *wait;          /* before another try */
	unsigned tries;
	bool cancelled;
	enum cancel_why why;
	/* of the answer at hand */
	char address[ADDR_TEXT_SIZE];   /* where it came from, or would have; "" = nowhere */
	int status;
	char *type;
	bool encoded;
	uint64_t retry_after_ms;        /* 0 = not said */
	struct str body;
	struct err err;                 /* how it failed; code 0 = it did not */
};

static void http_free(void *arg)
{
	struct http_op *h = arg;

	ev_timer_free(&h->wait);
	http_message_fini(&h->message);
	str_fini(&h->body);
	free(h->type);
	free(h->tool);
	free(h->tenant);
	free(h->principal);
	free(h);
}

static void give_error(struct http_op *h, const struct err *err)
{
	h->op.sink.error(h->op.arg, err, 0, NULL);
	http_free(h);
}

/* Which request it was, and where the definition says so. */
static void tell_author(struct http_op *h)
{
	struct err why = h->err;

	(void)err_set(&h->err, why.code, "/handler/url", "%s http%s://%s:%u: %s", h->plan->method,
		      h->plan->base.tls ? "s" : "", h->plan->base.host, h->plan->base.port, why.msg);
	if (*why.hint)
		err_hint(&h->err, "%s", why.hint);
}

/* For who wrote the tool: whom it asked, where that is, and what came of it. */
static void give_hint(const struct http_op *h, const char *why)
{
	const struct url *u = &h->plan->base;
	char text[BACKEND_HINT_MAX], status[48] = "", tries[32] = "";

	if (!h->op.sink.hint)
		return;
	if (h->status)
		(void)snprintf(status, sizeof(status), ", which answered with status %d", h->status);
	if (h->tries > 1)
		(void)snprintf(tries, sizeof(tries), ", %u times", h->tries);
	(void)snprintf(text, sizeof(text), "it asked %s://%.100s:%u%s%s%s%s%s%.120s", u->tls ? "https" : "http", u->host,
		       u->port, *h->address ? " at " : "", h->address, tries, status, why ? ": " : "", why ? why : "");
	h->op.sink.hint(h->op.arg, text);
}

/* What a client reads says what is wrong with the tool's server, in the codes of a handler. */
static void give_failure(struct http_op *h)
{
	char id[ID_TEXT_SIZE];
	const struct log_ctx ctx = { .tenant = h->tenant, .principal = h->principal,
		.call = id_format(h->call_id, id) };

	if (h->cancelled) {
		(void)backend_cancel_err(h->why, &h->err);
	} else if (h->err.code != ERR_TIMEOUT && h->err.code != ERR_LIMIT) {
		log_warn(&ctx, "request failed tool=%s host=%s port=%u tries=%u why=\"%s\"", h->tool,
			 h->plan->base.host, h->plan->base.port, h->tries, h->err.msg);
		h->err.code = ERR_TOOL;
	}
	if (!h->cancelled)
		give_hint(h, h->req.author ? NULL : h->err.msg);
	if (h->req.author && !h->cancelled)
		tell_author(h);
	give_error(h, &h->err);
}

static void give_answer(struct http_op *h)
{
	const struct http_answer a = { h->status, h->type ? h->type : "", h->encoded, str_text(&h->body), h->body.len };
	struct backend_result res;

	if (http_map(h->plan, &h->req, &a, &res, &h->err) < 0) {
		give_failure(h);
		return;
	}
	if (res.is_error)
		give_hint(h, NULL);
	h->op.sink.result(h->op.arg, &res);
	http_free(h);
}

/* --- tries */

static void try_now(void *arg);

static bool is_overload(int status)
{
	return status == 502 || status == 503 || status == 504;
}

static enum breaker_word verdict(const struct http_op *h)
{
	switch (h->err.code) {
	case ERR_OK:
		return is_overload(h->status) ? BREAKER_BAD : BREAKER_GOOD;
	case ERR_UNREACHABLE:
	case ERR_IO:
	case ERR_TIMEOUT:
		return BREAKER_BAD;
	case ERR_LIMIT:
		return BREAKER_GOOD;
	case ERR_CANCELLED:
	case ERR_INVALID:
	case ERR_NOT_FOUND:
	case ERR_DENIED:
	case ERR_CAPABILITY:
	case ERR_RATE:
	case ERR_BUSY:
	case ERR_AUDIT:
	case ERR_CONFLICT:
	case ERR_CORRUPT:
	case ERR_UNCERTAIN:
	case ERR_INTERNAL:
	case ERR_TOOL:
		break;
	}
	return BREAKER_UNSAID;
}

/* RFC 9110 9.2.2: what is not idempotent is sent once. */
static bool worth_another(const struct http_op *h)
{
	if (!h->plan->idempotent || h->tries >= HTTP_TRIES_MAX || h->cancelled)
		return false;
	if (h->err.code == 0)
		return is_overload(h->status) || h->status == 429;
	return h->err.code == ERR_UNREACHABLE || h->err.code == ERR_IO;
}

static bool try_later(struct http_op *h)
{
	uint64_t wait_ms = h->retry_after_ms, now = ev_now_us(h->op.loop);

	if (!worth_another(h))
		return false;
	if (wait_ms == 0) {
		wait_ms = RETRY_FIRST_MS;
		for (unsigned i = 1; i < h->tries; i++)
			wait_ms *= RETRY_FACTOR;
		uint8_t jitter;
		id_random(&jitter, 1);
		wait_ms += wait_ms * jitter / 512;      /* up to half as much again */
	}
	if (now + (wait_ms + RETRY_LEFT_MS) * 1000 > h->req.deadline_us)
		return false;
	metric_inc(METRIC_http_retries);
	if (!h->wait)
		h->wait = ev_timer_new(h->op.loop, try_now, h);
	ev_timer_start(h->wait, wait_ms * 1000);
	return true;
}

/* RFC 9110 10.2.3: seconds, or a date by the wall clock.  0: nothing that helps, or a time that has passed. */
static uint64_t read_retry_after_ms(const char *text)
{
	uint64_t seconds, at_us, now_us = clock_wall_us();

	if (text_u64(text, strlen(text), &seconds) == 0)
		return (seconds < UINT32_MAX ? seconds : UINT32_MAX) * 1000;
	if (clock_parse_http(text, now_us, &at_us) == 0 && at_us > now_us)
		return (at_us - now_us + 999) / 1000;
	return 0;
}

static void on_head(void *arg, const struct fetch_head *head)
{
	struct http_op *h = arg;
	const char *type = fetch_head_get(head, "content-type"), *after = fetch_head_get(head, "retry-after");
	const char *encoding = fetch_head_get(head, "content-encoding");

	h->status = fetch_head_status(head);
	h->type = mem_strdup0(type);
	h->encoded = encoding && *encoding && strcasecmp(encoding, "identity") != 0;
	h->retry_after_ms = after ? read_retry_after_ms(after) : 0;
}

static int on_data(void *arg, const void *p, size_t len)
{
	struct http_op *h = arg;

	str_put(&h->body, p, len);      /* the fetcher counts */
	return 0;
}

static void on_done(void *arg, int rc, const struct err *err)
{
	struct http_op *h = arg;

	(void)snprintf(h->address, sizeof(h->address), "%s", fetch_address(h->fetch));
	h->fetch = NULL;
	h->err = *err;
	breaker_tell(fetcher_breakers(h->fetcher), h->tenant, h->plan->base.host, h->plan->base.port,
		     h->cancelled ? BREAKER_UNSAID : verdict(h), ev_now_us(h->op.loop));
	if (try_later(h))
		return;
	if (rc < 0 || h->cancelled)
		give_failure(h);
	else
		give_answer(h);
}

static int ask_breaker(struct http_op *h)
{
	uint32_t wait_ms = breaker_ask(fetcher_breakers(h->fetcher), h->tenant, h->plan->base.host, h->plan->base.port,
				       ev_now_us(h->op.loop));

	if (wait_ms == 0)
		return 0;
	return err_set(&h->err, ERR_TOOL, "", "the tool's server failed %d times and rests; try again in %u s",
		       BREAKER_FAILURES, (wait_ms + 999) / 1000);
}

static int send_request(struct http_op *h)
{
	static const struct fetch_sink sink = { on_head, on_data, on_done };
	const struct fetch_req req = {
		.method = h->plan->method, .url = h->message.url, .policy = &h->plan->policy, .scope = h->tenant,
		.headers = h->message.headers, .nheaders = h->message.nheaders, .body = h->message.body,
		.body_len = h->message.body_len, .deadline_us = h->req.deadline_us, .body_max = h->req.result_max,
	};

	int rc = ask_breaker(h);
	if (rc < 0)
		return rc;
	rc = fetch_start(h->fetcher, &req, &sink, h, &h->fetch, &h->err);
	if (rc < 0)
		breaker_tell(fetcher_breakers(h->fetcher), h->tenant, h->plan->base.host, h->plan->base.port,
			     BREAKER_UNSAID, ev_now_us(h->op.loop));
	return rc;
}

static void try_now(void *arg)
{
	struct http_op *h = arg;

	h->tries++;
	h->status = 0;
	h->encoded = false;
	h->retry_after_ms = 0;
	h->err.code = ERR_OK;
	free(h->type);
	h->type = NULL;
	str_reset(&h->body);
	if (send_request(h) < 0)
		give_failure(h);
}

/* --- the handler */

static void begin(void *arg)
{
	struct http_op *h = arg;

	if (h->err.code == ERR_TOOL || h->err.code == ERR_LIMIT)
		give_error(h, &h->err);         /* the arguments' fault: nothing for the log */
	else if (h->err.code != 0 || h->cancelled)
		give_failure(h);
	else
		try_now(h);
}

void http_start(const struct backend_env *env, const struct backend_req *req, const struct backend_sink *sink,
		void *arg, struct backend_op **ret)
{
	struct http_op *h = mem_zalloc(sizeof(*h));

	backend_op_init(&h->op, env, sink, arg);
	h->fetcher = env->fetcher;
	h->plan = req->plan;
	h->tool = mem_strdup(req->tool);
	h->tenant = mem_strdup(req->tenant);
	h->principal = mem_strdup(req->principal);
	memcpy(h->call_id, req->call_id, sizeof(h->call_id));
	h->req = *req;
	h->req.tool = h->tool;
	h->req.tenant = h->tenant;
	h->req.principal = h->principal;
	h->req.call_id = h->call_id;
	str_init(&h->body, 0);
	*ret = &h->op;
	if (http_message_make(h->plan, req, &h->message, &h->err) == 0)
		h->err.code = ERR_OK;
	ev_defer(env->loop, begin, h);
}

static void cancelled_while_waiting(void *arg)
{
	give_failure(arg);
}

void http_cancel(struct backend_op *op, enum cancel_why why)
{
	struct http_op *h = CONTAINER_OF(op, struct http_op, op);

	if (h->cancelled)
		return;
	h->cancelled = true;
	h->why = why;
	if (h->fetch) {
		fetch_cancel(h->fetch);
	} else if (h->wait && ev_timer_armed(h->wait)) {
		ev_timer_stop(h->wait);
		ev_defer(op->loop, cancelled_while_waiting, h);
	}
	/* Else begin() has not run yet, and sees it. */
}
