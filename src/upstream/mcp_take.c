/* Results of other MCP servers: checked like a stranger's (SEC S-731), in the forms of ours. */
#include "config.h"

#include "mcp_int.h"

#include <string.h>

#include "base/mem.h"

static int bad_result(struct err *err, const char *why)
{
	return err_set(err, ERR_TOOL, "", "its result %s", why);
}

json_t *mcp_uri(const char *uri, const char *prefix)
{
	bool anybody = strncasecmp(uri, "https://", 8) == 0 || strncasecmp(uri, "http://", 7) == 0;

	return json_sprintf("%s%s", anybody ? "" : prefix, uri);
}

static void show_uri(json_t *obj, const char *prefix)
{
	const char *uri = json_string_value(json_object_get(obj, "uri"));

	if (uri && strlen(uri) == json_string_length(json_object_get(obj, "uri")))
		json_object_set_new(obj, "uri", mcp_uri(uri, prefix));
}

void mcp_clean_meta(json_t *obj)
{
	json_t *meta = json_object_get(obj, "_meta");

	if (!json_is_object(meta))
		return;
	upstream_strip_meta(meta);
	if (json_object_size(meta) == 0)
		(void)json_object_del(obj, "_meta");
}

/* It describes a resource as a list does. */
static void clean_link(json_t *link, const char *prefix)
{
	static const char *const texts[] = { "name", "title", "description" };

	show_uri(link, prefix);
	(void)json_object_del(link, "icons");
	for (size_t i = 0; i < NELEMS(texts); i++) {
		json_t *text = json_object_get(link, texts[i]);

		if (json_is_string(text))
			json_object_set_new(link, texts[i], upstream_clean_text(text, SIZE_MAX));
	}
}

/* One that has been checked. */
static void clean_block(json_t *block, const char *prefix)
{
	json_t *inner = json_object_get(block, "resource");

	mcp_clean_meta(block);
	mcp_clean_meta(inner);
	show_uri(inner, prefix);
	if (strcmp(json_string_value(json_object_get(block, "type")), "resource_link") == 0)
		clean_link(block, prefix);
}

/* --- tools */

static int take_content(const json_t *result, const char *prefix, json_t **ret, struct err *err)
{
	json_t *content = json_object_get(result, "content"), *block;
	struct err wrong;
	size_t i;

	if (!content && json_object_get(result, "structuredContent")) {
		*ret = json_array();
		return 0;
	}
	if (!json_is_array(content))
		return bad_result(err, "has no content");
	if (content_check_all(content, "", &wrong) < 0)
		return err_set(err, ERR_TOOL, "", "its result has a bad content block: %.60s %.120s", wrong.where, wrong.msg);
	json_array_foreach(content, i, block)
		clean_block(block, prefix);
	*ret = json_incref(content);
	return 0;
}

static int take_tool(const json_t *result, const char *prefix, struct backend_result *res, struct err *err)
{
	json_t *is_error = json_object_get(result, "isError");

	if (is_error && !json_is_boolean(is_error))
		return bad_result(err, "has an isError that is not true or false");
	int rc = take_content(result, prefix, &res->content, err);
	if (rc < 0)
		return rc;
	res->is_error = json_is_true(is_error);
	res->structured = json_incref(json_object_get(result, "structuredContent"));
	return 0;
}

/* --- prompts, resources, completion: the structured part alone (backend/backend.h) */

static int check_count(const json_t *array, const char *what, struct err *err)
{
	if (!json_is_array(array))
		return err_set(err, ERR_TOOL, "", "its result has no %s", what);
	if (json_array_size(array) > BACKEND_BLOCKS_MAX)
		return err_set(err, ERR_LIMIT, "", "its result has %zu %s, more than the limit of %d", json_array_size(array), what,
			       BACKEND_BLOCKS_MAX);
	return 0;
}

/* A copy with these members of from, as far as there are any. */
static json_t *only(const json_t *from, const char *const *names, size_t n)
{
	json_t *ret = json_object();

	for (size_t i = 0; i < n; i++) {
		json_t *v = json_object_get(from, names[i]);

		if (v)
			json_object_set(ret, names[i], v);
	}
	return ret;
}

static int take_messages(const json_t *result, const char *prefix, json_t *ret, struct err *err)
{
	static const char *const members[] = { "role", "content" };
	const json_t *given = json_object_get(result, "messages"), *description = json_object_get(result, "description"), *one;
	json_t *messages = json_array(), *message;
	struct err wrong;
	size_t i;
	int rc = check_count(given, "messages", err);

	json_object_set_new(ret, "messages", messages);
	if (json_is_string(description))
		json_object_set_new(ret, "description", upstream_clean_text(description, SIZE_MAX));
	json_array_foreach((json_t *)(uintptr_t)given, i, one)
		json_array_append_new(messages, only(one, members, NELEMS(members)));
	if (rc == 0 && content_check_messages(messages, "", &wrong) < 0)
		rc = err_set(err, ERR_TOOL, "", "its result has a bad message: %.60s %.120s", wrong.where, wrong.msg);
	if (rc < 0)
		return rc;
	json_array_foreach(messages, i, message) {
		json_t *block = json_object_get(message, "content");

		clean_block(block, prefix);
		json_object_set_new(message, "content", backend_clean_block(block));
	}
	return 0;
}

static int take_contents(const json_t *result, const char *prefix, json_t *ret, struct err *err)
{
	static const char *const members[] = { "uri", "mimeType", "text", "blob", "_meta" };
	const json_t *given = json_object_get(result, "contents"), *one;
	json_t *contents = json_array(), *part;
	struct err wrong;
	size_t i;
	int rc = check_count(given, "contents", err);

	json_object_set_new(ret, "contents", contents);
	json_array_foreach((json_t *)(uintptr_t)given, i, one)
		json_array_append_new(contents, only(one, members, NELEMS(members)));
	if (rc == 0 && content_check_contents(contents, "", &wrong) < 0)
		rc = err_set(err, ERR_TOOL, "", "its result has bad contents: %.60s %.120s", wrong.where, wrong.msg);
	if (rc < 0)
		return rc;
	json_array_foreach(contents, i, part) {
		mcp_clean_meta(part);
		show_uri(part, prefix);
		(void)json_array_set_new(contents, i, backend_clean_block(part));
	}
	return 0;
}

static int take_completion(const json_t *result, json_t *ret, struct err *err)
{
	static const char *const members[] = { "values", "total", "hasMore" };
	json_t *given = json_object_get(result, "completion"), *value, *values = json_array();
	size_t i;
	int rc = check_count(json_object_get(given, "values"), "values", err);

	json_object_update_new(ret, only(given, members, NELEMS(members)));
	json_array_foreach(json_object_get(given, "values"), i, value) {
		if (rc == 0 && !json_is_string(value))
			rc = bad_result(err, "has a value that is no text");
		else if (rc == 0)
			json_array_append_new(values, upstream_clean_text(value, SIZE_MAX));
	}
	json_object_set_new(ret, "values", values);
	return rc;
}

static int take_hosted(const struct mcp_plan *plan, const char *prefix, const json_t *result, struct backend_result *res,
		       struct err *err)
{
	int rc;

	res->content = json_array();
	res->structured = json_object();
	if (plan->argument)
		rc = take_completion(result, res->structured, err);
	else if (plan->kind == UPSTREAM_PROMPT)
		rc = take_messages(result, prefix, res->structured, err);
	else
		rc = take_contents(result, prefix, res->structured, err);
	if (rc < 0) {
		json_decref(res->content);
		json_decref(res->structured);
	}
	return rc;
}

int mcp_take(const struct mcp_plan *plan, const char *uri_prefix, json_t *result, struct backend_result *res,
	     struct err *err)
{
	json_t *meta = json_object_get(result, "_meta");
	bool tool = plan->kind == UPSTREAM_TOOL;
	int rc = tool ? take_tool(result, uri_prefix, res, err) : take_hosted(plan, uri_prefix, result, res, err);

	res->links_there = true;
	if (rc == 0 && json_is_object(meta)) {
		upstream_strip_meta(meta);      /* MCP B-44 */
		res->meta = json_object_size(meta) > 0 ? json_incref(meta) : NULL;
	}
	return rc;
}
