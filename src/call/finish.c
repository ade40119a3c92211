/* What a run brought: its size, its promised shape, its outcome. */

#include "config.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/metric.h"
#include "call_int.h"
#include "json/json.h"
#include "limit/limit.h"
#include "proto/caps.h"
#include "schema/schema.h"

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
	if (res->structured) {
		struct str *s = &c->eng->scratch;

		str_reset(s);
		jx_write(res->structured, s);
		n += s->len;
	}
	return n;
}

/* Replace what there is by isError and a text. */
static void put_failure(struct call *c, const char *text)
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
	c->n_res = (int64_t)strlen(text);
	c->outcome = AUDIT_TOOL_ERROR;
}

void call_fail(struct call *c, int outcome, const char *text)
{
	put_failure(c, text);
	call_end(c, outcome);
}

/* MCP T-20, B-17: a client would throw at what breaks the promise; it skips the check of an error. */
static bool keeps_promise(struct call *c, char *ret, size_t size)
{
	struct schema_report report;
	int rc;

	if (!c->compiled->output || c->result.is_error)
		return true;
	if (!c->result.structured) {
		(void)snprintf(ret, size, "The tool returned no structured content, which its definition promises"); /* fits */
		return false;
	}
	if (schema_run(c->compiled->output, c->result.structured, NULL) == 0)
		return true;
	rc = schema_run(c->compiled->output, c->result.structured, &report);
	call_count_budget(rc, &report);
	if (report.count == 0)
		(void)snprintf(report.failure[0].text, sizeof report.failure[0].text, "too much work to check"); /* fits */
	(void)snprintf(ret, size, "The tool's result breaks its output schema: %s", report.failure[0].text); /* cut */
	return false;
}

static json_t *link_text(const json_t *link)
{
	json_t *block = json_object();

	json_object_set_new(block, "type", json_string("text"));
	json_object_set_new(block, "text", json_sprintf("[resource %s: %s]", json_string_value(json_object_get(link, "name")),
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
	const struct call_form form = { c->kind, c->completing, c->tool_name, c->tool_len, c->compiled->mime };
	char text[600];
	struct err err;
	size_t n;

	c->result = *res;
	c->has_result = true;
	if (res->links_there)
		check_links(c, res);
	n = result_bytes(c, res);
	c->n_res = (int64_t)n;
	limit_add_bytes(c->ticket, n);
	call_took(c, n);
	c->outcome = res->sig ? AUDIT_CRASHED : res->is_error ? AUDIT_TOOL_ERROR : AUDIT_OK;
	if (n > c->compiled->result_max) {
		metric_inc(METRIC_handler_output_too_large);
		(void)snprintf(text, sizeof text, "The result has %zu bytes, more than the limit of %zu", n,
			       c->compiled->result_max); /* fits */
		put_failure(c, text);
	} else if (!keeps_promise(c, text, sizeof text)) {
		c->flags |= AUDIT_FLAG_BROKE_SCHEMA;
		put_failure(c, text);
	} else if (call_shape(&form, &c->result, &err) < 0) {
		c->flags |= AUDIT_FLAG_BROKE_SCHEMA;
		(void)snprintf(text, sizeof text, "The handler's result cannot be used: %s %s", err.where, err.msg); /* fits */
		put_failure(c, text);
	}
}

void call_take_error(struct call *c, const struct err *err, int rpc_code, json_t *data)
{
	struct call_trouble *t;

	if (rpc_code == 0 && err->code == ERR_TIMEOUT) {
		call_fail(c, AUDIT_TIMEOUT, err->msg);
	} else if (rpc_code == 0 && err->code == ERR_CANCELLED) {
		call_fail(c, AUDIT_CANCELLED, err->msg);
	} else if (rpc_code == 0 && (err->code == ERR_TOOL || err->code == ERR_LIMIT)) {
		call_fail(c, AUDIT_TOOL_ERROR, err->msg);
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
		call_end(c, rpc_code ? AUDIT_TOOL_ERROR : AUDIT_CRASHED);
	}
	json_decref(data);
}
