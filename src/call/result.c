/* What a run brought: its size, its promised schema, its normal form, its outcome.  The engine calls it when a handler
 * ends, on the loop's thread; the test of a tool uses the normal form alone.  What is too large or breaks its
 * promise becomes isError. */

#include "config.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/metric.h"
#include "base/tally.h"
#include "base/text.h"
#include "call/call.h"
#include "json/json.h"
#include "limit/limit.h"
#include "proto/caps.h"
#include "proto/trace.h"
#include "registry/registry.h"
#include "schema/schema.h"
#include "tenant/tenant.h"

#include "call_int.h"

/* --- normalize */

/* The result of a prompt, a resource or a completion in its one form, whatever its handler gave.
 *
 *   prompt       structured {messages: […]} as it is; else each content block is a message of the user
 *   resource     structured {contents: […]} as it is; else each content block is a part: text, image, audio, resource
 *   completion   structured {values: […]} or […]; else each line of the text is a value
 *
 * A structured value of another form, without content, is JSON text.  What comes out is the structured part:
 * {messages, description?}, {contents} or {values, total?, hasMore?}.  Its texts are clean as those of content blocks
 * are, which have been cleaned before. */

enum { VALUES_MAX = 100 };              /* MCP U-04 */

static json_t *text_of(const json_t *v)
{
	struct str s = STR_INIT;
	json_t *text;

	jx_write(v, &s);
	text = json_stringn(str_text(&s), s.len);
	str_fini(&s);
	return text;
}

static bool is_type(const json_t *block, const char *type)
{
	const char *is = json_string_value(json_object_get(block, "type"));

	return is && strcmp(is, type) == 0;
}

/* The blocks of the content, or the structured value as one. */
static json_t *blocks_of(const struct backend_result *res)
{
	json_t *blocks, *block;

	if (json_array_size(res->content) > 0 || !res->structured)
		return json_incref(res->content);
	blocks = json_array();
	block = json_object();
	json_object_set_new(block, "type", json_string("text"));
	json_object_set_new(block, "text", text_of(res->structured));
	json_array_append_new(blocks, block);
	return blocks;
}

/* As content_check_messages() has found them. */
static json_t *clean_messages(const json_t *messages)
{
	json_t *ret = json_array(), *message;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)messages, i, message) {
		json_t *copy = json_copy(message);

		json_object_set_new(copy, "content", backend_clean_block(json_object_get(message, "content")));
		json_array_append_new(ret, copy);
	}
	return ret;
}

static int shape_prompt(const struct backend_result *res, json_t *ret, struct err *err)
{
	json_t *messages = json_object_get(res->structured, "messages"), *blocks, *block;
	json_t *description = json_object_get(res->structured, "description");
	size_t i;
	int rc;

	if (json_is_array(messages)) {
		if (json_is_string(description))
			json_object_set_new(ret, "description", backend_clean_text(json_incref(description)));
		rc = content_check_messages(messages, "/messages", err);
		if (rc == 0)
			json_object_set_new(ret, "messages", clean_messages(messages));
		return rc;
	}
	blocks = blocks_of(res);
	messages = json_array();
	json_array_foreach(blocks, i, block) {
		json_t *message = json_object();

		json_object_set_new(message, "role", json_string("user"));
		json_object_set_new(message, "content", json_incref(block));
		json_array_append_new(messages, message);
	}
	json_object_set_new(ret, "messages", messages);
	json_decref(blocks);
	return 0;
}

static void move(json_t *to, const char *name, json_t *from, const char *of)
{
	json_t *v = json_object_get(from, of);

	if (v)
		json_object_set_new(to, name, json_incref(v));
}

/* One part of a resource; NULL: a block that is none. */
static json_t *part_of(json_t *block)
{
	json_t *part;

	if (is_type(block, "resource"))
		return json_copy(json_object_get(block, "resource"));
	if (is_type(block, "resource_link"))
		return NULL;
	part = json_object();
	move(part, "mimeType", block, "mimeType");
	move(part, "text", block, "text");
	move(part, "blob", block, "data");
	return part;
}

/* UI-07: hosts read csp, permissions and domain of a page in its contents. */
static void put_page(const char *page, json_t *part)
{
	json_t *meta = json_object_get(part, "_meta"), *ui = NULL;

	if (json_object_get(meta, "ui") || jx_parse_scanned(page, strlen(page), &ui, NULL) < 0)
		return;
	meta = meta ? json_copy(meta) : json_object();          /* what a handler gave may be its definition's */
	json_object_set_new(meta, "ui", ui);
	json_object_set_new(part, "_meta", meta);
}

static void fill_part(const struct call_form *form, json_t *part, bool json)
{
	const char *mime = form->mime;

	if (!json_object_get(part, "uri"))
		json_object_set_new(part, "uri", json_stringn(form->uri, form->uri_len));
	if (!mime && json)
		mime = "application/json";
	if (!mime && json_object_get(part, "text"))
		mime = "text/plain";
	if (mime && !json_object_get(part, "mimeType"))
		json_object_set_new(part, "mimeType", json_string(mime));
	if (form->page)
		put_page(form->page, part);
}

static int shape_resource(const struct call_form *form, const struct backend_result *res, json_t *ret, struct err *err)
{
	json_t *given = json_object_get(res->structured, "contents"), *blocks, *block, *contents, *part;
	bool json = json_array_size(res->content) == 0 || res->structured;
	size_t i;
	int rc = 0;

	if (json_is_array(given)) {
		contents = json_array();
		json_array_foreach(given, i, part)
			json_array_append_new(contents, json_copy(part));
		json = false;
	} else {
		contents = json_array();
		blocks = blocks_of(res);
		json_array_foreach(blocks, i, block) {
			part = part_of(block);
			if (part)
				json_array_append_new(contents, part);
			else
				rc = err_set(err, ERR_INVALID, "", "a link is no content of a resource");
		}
		json_decref(blocks);
	}
	json_object_set_new(ret, "contents", contents);
	if (rc == 0 && json_array_size(contents) == 0)  /* MCP E-10 */
		rc = err_set(err, ERR_INVALID, "", "it has no content");
	if (rc == 0)
		rc = content_check_contents(contents, "/contents", err);
	json_array_foreach(contents, i, part) {
		if (rc < 0)
			break;
		part = backend_clean_block(part);
		fill_part(form, part, json);
		(void)json_array_set_new(contents, i, part);    /* it is there */
	}
	return rc;
}

static void add_lines(json_t *values, const json_t *text)
{
	const char *p = json_string_value(text), *end = p + json_string_length(text);

	while (p && p < end) {
		const char *stop = memchr(p, '\n', (size_t)(end - p)), *next = stop ? stop + 1 : end;

		if (!stop)
			stop = end;
		if (stop > p && stop[-1] == '\r')
			stop--;
		if (stop > p)
			json_array_append_new(values, json_stringn(p, (size_t)(stop - p)));
		p = next;
	}
}

static int shape_values(const struct backend_result *res, json_t *ret, struct err *err)
{
	json_t *given = json_is_array(res->structured) ? res->structured : json_object_get(res->structured, "values");
	json_t *total = json_object_get(res->structured, "total"), *more = json_object_get(res->structured, "hasMore");
	json_t *values = json_array(), *block, *value;
	size_t i, n;

	json_object_set_new(ret, "values", values);
	if (json_is_array(given))
		(void)json_array_extend(values, given); /* both are arrays */
	else
		json_array_foreach(res->content, i, block)
			add_lines(values, json_object_get(block, "text"));
	json_array_foreach(values, i, value) {
		if (!json_is_string(value))
			return err_set(err, ERR_INVALID, "/values", "must hold texts, holds %s", jx_type_name(value));
		(void)json_array_set_new(values, i, backend_clean_text(json_incref(value)));    /* it is there */
	}
	n = json_array_size(values);
	if (json_is_integer(total) && json_integer_value(total) >= (json_int_t)n)
		json_object_set_new(ret, "total", json_incref(total));
	else
		json_object_set_new(ret, "total", json_integer((json_int_t)n));
	json_object_set_new(ret, "hasMore", json_boolean(n > VALUES_MAX || json_is_true(more)));
	while (json_array_size(values) > VALUES_MAX)
		(void)json_array_remove(values, json_array_size(values) - 1); /* it is there */
	return 0;
}

int call_shape(const struct call_form *form, struct backend_result *res, struct err *err)
{
	json_t *shaped;
	int rc;

	if (form->kind == REG_TOOL || res->is_error)
		return 0;
	shaped = json_object();
	if (form->completing)
		rc = shape_values(res, shaped, err);
	else if (form->kind == REG_PROMPT)
		rc = shape_prompt(res, shaped, err);
	else
		rc = shape_resource(form, res, shaped, err);
	if (rc < 0) {
		json_decref(shaped);
		return rc;
	}
	json_decref(res->structured);
	res->structured = shaped;
	json_decref(res->content);
	res->content = json_array();
	return 0;
}

/* --- size, schema, outcome */

static size_t string_bytes(const json_t *obj, const char *name)
{
	return json_string_length(json_object_get(obj, name));
}

/* n_res of the record: the bytes of texts and data in the content, and of the structured part as JSON. */
static size_t result_bytes(struct call *c, const struct backend_result *res)
{
	size_t n = 0, i;
	json_t *block;

	json_array_foreach(res->content, i, block) {
		const json_t *resource = json_object_get(block, "resource");

		n += string_bytes(block, "text") + string_bytes(block, "data");
		if (resource)
			n += string_bytes(resource, "text") + string_bytes(resource, "blob");
	}
	if (c->kind == REG_TOOL) {      /* the one form that it has */
		call_write_result(c);
		n += c->structured.len;
	} else if (res->structured) {
		struct str *s = &c->eng->scratch;

		str_reset(s);
		jx_write(res->structured, s);
		n += s->len;
	}
	return n;
}

/* Replace what there is by isError and a text. */
void call_put_failure(struct call *c, const char *text)
{
	json_t *block = json_object(), *words = json_string(text);

	json_decref(c->result.content);
	json_decref(c->result.structured);
	json_decref(c->result.meta);
	c->result.structured = c->result.meta = NULL;
	c->result.content = json_array();
	json_object_set_new_nocheck(block, "type", json_string("text"));
	json_object_set_new_nocheck(block, "text", words ? words : json_string("The tool failed"));
	json_array_append_new(c->result.content, block);
	c->result.is_error = true;
	c->has_result = true;
	str_fini(&c->text);
	c->n_res = (int64_t)strlen(text);
	c->outcome = AUDIT_TOOL_ERROR;
}

/* MCP T-20, B-17: a client would throw at what breaks the promise; it skips the check of an error. */
static bool keeps_promise(struct call *c, char *ret, size_t size)
{
	struct schema_report report;
	int rc;

	if (!c->compiled->output || c->result.is_error)
		return true;
	if (!c->result.structured) {
		(void)snprintf(ret, size, "The tool returned no structured content, "
			       "which its definition promises"); /* fits */
		return false;
	}
	if (schema_run(c->compiled->output, c->result.structured, NULL) == 0)
		return true;
	rc = schema_run(c->compiled->output, c->result.structured, &report);
	call_count_budget(rc, &report);
	if (report.count == 0)
		(void)snprintf(report.failure[0].text, sizeof(report.failure[0].text),
			       "too much work to check"); /* fits */
	(void)snprintf(ret, size, "The tool's result breaks its output schema: %s", report.failure[0].text); /* cut */
	return false;
}

static json_t *link_text(const json_t *link)
{
	json_t *block = json_object();

	json_object_set_new(block, "type", json_string("text"));
	json_object_set_new(block, "text",
			    json_sprintf("[resource %s: %s]", json_string_value(json_object_get(link, "name")),
					 json_string_value(json_object_get(link, "uri"))));
	return block;
}

/* Can the caller follow it?  http and https lead to where anybody may go (MCP U-07). */
static bool leads_nowhere(const struct call *c, const json_t *block)
{
	const char *type = json_string_value(json_object_get(block, "type"));
	const json_t *uri = json_object_get(block, "uri");
	const char *p = json_string_value(uri);

	return type && p && strcmp(type, "resource_link") == 0 && strncasecmp(p, "https://", 8) != 0 &&
	       strncasecmp(p, "http://", 7) != 0 && !reg_find_uri(c->snap, p, json_string_length(uri), NULL);
}

static void check_links(const struct call *c, const struct backend_result *res)
{
	json_t *block, *message;
	size_t i;

	json_array_foreach(res->content, i, block)
		if (leads_nowhere(c, block))
			json_array_set_new(res->content, i, link_text(block));
	json_array_foreach(c->kind == REG_PROMPT ? json_object_get(res->structured, "messages") : NULL, i, message) {
		block = json_object_get(message, "content");
		if (leads_nowhere(c, block))
			json_object_set_new(message, "content", link_text(block));
	}
}

void call_take_result(struct call *c, struct backend_result *res)
{
	const struct call_form form = { c->kind, c->completing, c->tool_name, c->tool_len, c->compiled->mime,
		c->compiled->page };
	char text[600];
	struct err err;
	size_t n;

	c->result = *res;
	c->has_result = true;
	if (res->links_there)
		check_links(c, res);
	n = result_bytes(c, res);
	c->n_res = (int64_t)n;
	if (c->ticket)                  /* what only follows has none (call_far_rest()) */
		limit_add_bytes(c->ticket, n);
	call_took(c, n);
	c->outcome = res->sig ? AUDIT_CRASHED : res->is_error ? AUDIT_TOOL_ERROR : AUDIT_OK;
	if (c->text.failed) {
		metric_inc(METRIC_budget_memory_refused);
		call_put_failure(c, "There was no memory for the result");
	} else if (n > c->compiled->result_max) {
		metric_inc(METRIC_handler_output_too_large);
		(void)snprintf(text, sizeof(text), "The result has %zu bytes, more than the limit of %zu", n,
			       c->compiled->result_max); /* fits */
		call_put_failure(c, text);
	} else if (!keeps_promise(c, text, sizeof(text))) {
		c->flags |= AUDIT_FLAG_BROKE_SCHEMA;
		call_put_failure(c, text);
	} else if (call_shape(&form, &c->result, &err) < 0) {
		c->flags |= AUDIT_FLAG_BROKE_SCHEMA;
		(void)snprintf(text, sizeof(text), "The handler's result cannot be used: %s %s",
			       err.where, err.msg); /* fits */
		call_put_failure(c, text);
	}
}

const char *call_check_questions(const struct call *c, const struct backend_ask *ask)
{
	const char *key;
	json_t *question;

	if (c->completing)                      /* MCP U-06 */
		return "a completion cannot ask";
	if (json_object_size(ask->requests) == 0)
		return "the tool asked, but payload no question";
	if (ask->state_len > ASK_STATE_MAX)
		return "the tool's state between two rounds is too large";
	json_object_foreach(ask->requests, key, question) {
		const char *method = json_string_value(json_object_get(question, "method"));
		uint32_t needs = method ? caps_for_request(method, json_object_get(question, "params")) : 0;

		if (!needs)
			return "the tool asked a question that no client knows";
		if (needs & ~c->caps)           /* MCP R-03, M-10 */
			return "the tool needs to ask something that this client did not declare to answer";
	}
	return NULL;
}

int call_take_error(struct call *c, const struct err *err, int rpc_code, json_t *data)
{
	struct call_trouble *t;
	int outcome = AUDIT_TOOL_ERROR;

	if (rpc_code == 0 && (err->code == ERR_TIMEOUT || err->code == ERR_CANCELLED || err->code == ERR_TOOL ||
			      err->code == ERR_LIMIT)) {
		call_put_failure(c, err->msg);
		if (err->code == ERR_TIMEOUT)
			outcome = AUDIT_TIMEOUT;
		else if (err->code == ERR_CANCELLED)
			outcome = AUDIT_CANCELLED;
	} else {
		t = call_trouble(c);
		t->err = *err;
		t->rpc_code = rpc_code;
		t->rpc_data = data;
		t->missing_caps = caps_from_json(json_object_get(data, "requiredCapabilities")) & ~c->caps;
		data = NULL;
		if (err->code == ERR_CAPABILITY && t->missing_caps)
			t->refusal = REFUSE_CAPABILITY;
		else if (rpc_code == 0)
			t->refusal = REFUSE_INTERNAL;
		outcome = rpc_code ? AUDIT_TOOL_ERROR : AUDIT_CRASHED;
	}
	json_decref(data);
	return outcome;
}

/* --- what scrapers are told (OP-107 to OP-109) */

/* Of a call whose trace somebody samples: its flag is the last of the hex digits. */
static bool mark_of(const struct call *c, uint64_t us, struct tally_mark *ret)
{
	const struct trace *trace = call_trace(c, false);
	const char flags = trace ? trace->parent[TRACE_PARENT_LEN - 1] : '0';
	const unsigned digit = (unsigned)(flags <= '9' ? flags - '0' : flags - 'a' + 10);

	if (!(digit & 1))
		return false;
	memcpy(ret->trace, trace->id, sizeof(ret->trace));
	memcpy(ret->call, c->id, sizeof(ret->call));
	ret->us = us;
	ret->wall_us = clock_wall_us();
	return true;
}

void call_tally_in(struct call *c, enum tally_place place)
{
	if (c->tally)
		tally_leave(c->tally, TALLY_WAITING);
	else
		c->tally = tally_get(TALLY_TENANT, c->who->tenant);
	tally_enter(c->tally, place);
}

void call_tally_end(struct call *c)
{
	const bool unrecorded = c->trouble && c->trouble->refusal == REFUSE_AUDIT;
	struct tally *tenant = c->tally ? c->tally : tally_get(TALLY_TENANT, c->who->tenant), *tool = NULL;
	const unsigned outcome = unrecorded ? AUDIT_OVERLOAD : (unsigned)c->outcome;
	struct tally_mark mark;
	const struct tally_mark *marked;
	uint64_t us;

	if (c->kind == REG_TOOL && c->tool)     /* by the name that all share: an alias is its tenant's own */
		tool = tally_get(TALLY_TOOL, c->tool->def->name);
	tally_count(tenant, outcome);
	if (tool)
		tally_count(tool, outcome);
	if (c->tally)
		tally_leave(tenant, c->start_us ? TALLY_RUNNING : TALLY_WAITING);
	c->tally = NULL;
	if (!c->start_us)
		return;                 /* it never began */
	us = clock_mono_us() - c->start_us;
	marked = mark_of(c, us, &mark) ? &mark : NULL;
	tally_observe(tenant, us, marked);
	if (tool)
		tally_observe(tool, us, marked);
}
