/* Content blocks: the shapes of the five types of MCP.  A definition's are checked when it is stored, on the writer's
 * thread too, a child's or another server's on the loop before they are believed.  Pure functions. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "backend/handler.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

struct block_type {
	const char *name;
	const char *need[2];            /* string members that must be there */
	bool base64;                    /* `data` is base64 */
};

static const struct block_type block_types[] = {
	{ "text", { "text" }, false },
	{ "image", { "data", "mimeType" }, true },
	{ "audio", { "data", "mimeType" }, true },
	{ "resource_link", { "uri", "name" }, false },
	{ "resource", { NULL }, false },
};

static int check_base64(const json_t *obj, const char *at, const char *name, struct err *err)
{
	const json_t *v = json_object_get(obj, name);
	char where[sizeof(err->where)];

	if (text_base64_valid(json_string_value(v), json_string_length(v)))
		return 0;
	snprintf(where, sizeof(where), "%s/%s", at, name);
	return err_set(err, ERR_INVALID, where, "is not base64");
}

/* A string that may be empty and may hold U+0000: the getters refuse the latter. */
static int need_string(const json_t *obj, const char *at, const char *name, struct err *err)
{
	const json_t *v = json_object_get(obj, name);
	char where[sizeof(err->where)];

	if (json_is_string(v))
		return 0;
	snprintf(where, sizeof(where), "%s/%s", at, name);
	if (!v)
		return err_set(err, ERR_INVALID, where, "is missing");
	return err_set(err, ERR_INVALID, where, "must be a string, is %s", jx_type_name(v));
}

/* `resource`: an embedded one has a uri and either text or blob. */
static int check_embedded(const json_t *block, const char *at, struct err *err)
{
	char inner[sizeof(err->where)];
	json_t *res = NULL;

	int rc = jx_get_object(block, at, "resource", JX_REQUIRED, &res, err);
	if (rc < 0)
		return rc;
	snprintf(inner, sizeof(inner), "%s/resource", at);
	rc = need_string(res, inner, "uri", err);
	if (rc < 0)
		return rc;
	if (!json_object_get(res, "blob"))
		return need_string(res, inner, "text", err);
	rc = need_string(res, inner, "blob", err);
	return rc < 0 ? rc : check_base64(res, inner, "blob", err);
}

int content_check(const json_t *block, const char *at, struct err *err)
{
	const struct block_type *t = NULL;
	char where[sizeof(err->where)];
	const char *type = NULL;

	if (!json_is_object(block))
		return err_set(err, ERR_INVALID, at, "must be a content block, is %s", jx_type_name(block));
	int rc = jx_get_string(block, at, "type", JX_REQUIRED, &type, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < NELEMS(block_types) && !t; i++) {
		if (strcmp(type, block_types[i].name) == 0)
			t = &block_types[i];
	}
	if (!t) {
		snprintf(where, sizeof(where), "%s/type", at);
		(void)err_set(err, ERR_INVALID, where, "unknown content type %.40s", type);
		err_hint(err, "text, image, audio, resource_link and resource are known");
		return ERR_INVALID;
	}
	for (size_t i = 0; i < NELEMS(t->need) && t->need[i]; i++) {
		rc = need_string(block, at, t->need[i], err);
		if (rc < 0)
			return rc;
	}
	if (t->base64)
		return check_base64(block, at, "data", err);
	return t->need[0] ? 0 : check_embedded(block, at, err);
}

int content_check_all(const json_t *array, const char *at, struct err *err)
{
	char where[sizeof(err->where)];
	const json_t *block;
	size_t i;

	json_array_foreach(array, i, block) {
		if (content_check(block, at, NULL) == 0)
			continue;       /* where it stands is said of one that is wrong */
		snprintf(where, sizeof(where), "%s/%zu", at, i);
		return content_check(block, where, err);
	}
	return 0;
}

int content_check_messages(const json_t *array, const char *at, struct err *err)
{
	char where[sizeof(err->where)], inner[sizeof(err->where)];
	const json_t *message;
	size_t i;

	json_array_foreach(array, i, message) {
		static const char *const known[] = { "role", "content" };
		const char *role = NULL;
		json_t *block = NULL;

		snprintf(where, sizeof(where), "%s/%zu", at, i);
		if (!json_is_object(message))
			return err_set(err, ERR_INVALID, where, "must be a message, is %s", jx_type_name(message));
		int rc = jx_only(message, where, known, NELEMS(known), err);
		if (rc == 0)
			rc = jx_get_string(message, where, "role", JX_REQUIRED, &role, err);
		if (rc == 0 && strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0)
			rc = err_set(err, ERR_INVALID, where, "the role must be user or assistant, is %.40s", role);
		if (rc == 0)
			rc = jx_get_object(message, where, "content", JX_REQUIRED, &block, err);
		snprintf(inner, sizeof(inner), "%s/%zu/content", at, i);
		if (rc == 0)
			rc = content_check(block, inner, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int content_check_contents(const json_t *array, const char *at, struct err *err)
{
	static const char *const known[] = { "uri", "mimeType", "text", "blob", "_meta" };
	char where[sizeof(err->where)];
	const json_t *part;
	size_t i;

	json_array_foreach(array, i, part) {
		const char *text;
		json_t *meta;

		snprintf(where, sizeof(where), "%s/%zu", at, i);
		if (!json_is_object(part))
			return err_set(err, ERR_INVALID, where, "must be an object, is %s", jx_type_name(part));
		int rc = jx_only(part, where, known, NELEMS(known), err);
		if (rc == 0)
			rc = jx_get_string(part, where, "uri", JX_OPTIONAL, &text, err);
		if (rc == 0)
			rc = jx_get_string(part, where, "mimeType", JX_OPTIONAL, &text, err);
		if (rc == 0)
			rc = jx_get_object(part, where, "_meta", JX_OPTIONAL, &meta, err);
		if (rc == 0 && !json_object_get(part, "text") == !json_object_get(part, "blob"))
			rc = err_set(err, ERR_INVALID, where, "must have text or blob");
		if (rc == 0)
			rc = need_string(part, where, json_object_get(part, "blob") ? "blob" : "text", err);
		if (rc == 0 && json_object_get(part, "blob"))
			rc = check_base64(part, where, "blob", err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

json_t *content_text(const char *p, size_t len)
{
	json_t *block = json_object();

	json_object_set_new_nocheck(block, "type", json_string("text"));
	json_object_set_new_nocheck(block, "text", json_stringn_nocheck(p, len));
	return block;
}
