/* The part of a definition that lists show to models and hosts. */

#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "registry_int.h"

enum {
	TITLE_MAX = 256,                /* bytes */
	DESCRIPTION_MAX = 16 * 1024,
	ICONS_MAX = 16,
	ICON_SRC_MAX = 64 * 1024,
};

static int check_text(const json_t *text, const char *at, size_t max, struct err *err)
{
	size_t len = json_string_length(text);
	uint32_t c;

	if (len > max)
		return err_set(err, ERR_LIMIT, at, "has %zu bytes, more than %zu", len, max);
	if (text_hidden(json_string_value(text), len, &c) < len)        /* SEC S-211 */
		return err_set(err, ERR_INVALID, at, "has an invisible control character, U+%04X", (unsigned)c);
	return 0;
}

/* Titles and descriptions anywhere below.  The depth is the parser's. */
static int check_texts_below(const json_t *v, struct str *at, struct err *err)
{
	const char *key;
	json_t *child;
	size_t i;
	int rc = 0;

	json_object_foreach((json_t *)(uintptr_t)v, key, child) {
		size_t len = pointer_push(at, key);

		if (json_is_string(child) && (strcmp(key, "title") == 0 || strcmp(key, "description") == 0))
			rc = check_text(child, str_text(at), DESCRIPTION_MAX, err);
		else
			rc = check_texts_below(child, at, err);
		pointer_pop(at, len);
		if (rc < 0)
			return rc;
	}
	json_array_foreach(v, i, child) {
		char index[24];
		size_t len;

		(void)snprintf(index, sizeof index, "%zu", i); /* fits */
		len = pointer_push(at, index);
		rc = check_texts_below(child, at, err);
		pointer_pop(at, len);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int define_check_texts(const json_t *v, struct err *err)
{
	struct str at = STR_INIT;
	int rc = check_texts_below(v, &at, err);

	str_fini(&at);
	return rc;
}

static int check_name(const json_t *doc, const char *noun, struct err *err)
{
	const char *name = NULL;
	int rc = jx_get_string(doc, "", "name", JX_REQUIRED, &name, err);

	if (rc < 0 || text_tool_name(name, strlen(name)))
		return rc;
	rc = err_set(err, ERR_INVALID, "/name", "%.80s is no %s name", name, noun);
	err_hint(err, "1 to 64 of A-Z a-z 0-9 _ . -");
	return rc;
}

static int check_word(const json_t *obj, const char *at, const char *name, size_t max, struct err *err)
{
	const char *text = NULL;
	char where[80];
	int rc = jx_get_string(obj, at, name, JX_OPTIONAL, &text, err);

	if (rc < 0 || !text)
		return rc;
	(void)snprintf(where, sizeof where, "%s/%s", at, name); /* fits */
	return check_text(json_object_get(obj, name), where, max, err);
}

int define_check_words(const json_t *obj, const char *at, struct err *err)
{
	int rc = check_word(obj, at, "title", TITLE_MAX, err);

	return rc < 0 ? rc : check_word(obj, at, "description", DESCRIPTION_MAX, err);
}

static int check_description(const json_t *doc, struct err *err)
{
	const char *description = NULL;
	int rc = define_check_words(doc, "", err);

	if (rc == 0)
		rc = jx_get_string(doc, "", "description", JX_OPTIONAL, &description, err);
	if (rc < 0 || (description && description[strspn(description, " \t\n")] != '\0'))
		return rc;
	rc = err_set(err, ERR_INVALID, "/description", description ? "is empty" : "is missing");
	err_hint(err, "models choose a tool by its description");
	return rc;
}

static int check_annotations(const json_t *doc, struct err *err)
{
	static const char *const known[] = { "title", "readOnlyHint", "destructiveHint", "idempotentHint",
					     "openWorldHint" };
	json_t *annotations = NULL;
	const char *title;
	bool hint;
	int rc = jx_get_object(doc, "", "annotations", JX_OPTIONAL, &annotations, err);

	if (rc < 0 || !annotations)
		return rc;
	rc = jx_only(annotations, "/annotations", known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_string(annotations, "/annotations", "title", JX_OPTIONAL, &title, err);
	for (size_t i = 1; i < NELEMS(known) && rc == 0; i++)
		rc = jx_get_bool(annotations, "/annotations", known[i], JX_OPTIONAL, &hint, err);
	return rc;
}

static bool starts_with(const char *s, const char *prefix)
{
	return strncasecmp(s, prefix, strlen(prefix)) == 0;
}

static int check_icon(const json_t *icon, const char *at, struct err *err)
{
	static const char *const known[] = { "src", "mimeType", "sizes", "theme" };
	const char *src = NULL, *mime, *theme = NULL;
	json_t *sizes = NULL, *size;
	char below[64];
	size_t i;
	int rc;

	if (!json_is_object(icon))
		return err_set(err, ERR_INVALID, at, "must be an object, is %s", jx_type_name(icon));
	rc = jx_only(icon, at, known, NELEMS(known), err);
	if (rc == 0)
		rc = jx_get_string(icon, at, "src", JX_REQUIRED, &src, err);
	if (rc == 0)
		rc = jx_get_string(icon, at, "mimeType", JX_OPTIONAL, &mime, err);
	if (rc == 0)
		rc = jx_get_string(icon, at, "theme", JX_OPTIONAL, &theme, err);
	if (rc == 0)
		rc = jx_get_array(icon, at, "sizes", JX_OPTIONAL, &sizes, err);
	if (rc < 0)
		return rc;
	(void)snprintf(below, sizeof below, "%s/src", at); /* fits */
	if (strlen(src) > ICON_SRC_MAX)
		return err_set(err, ERR_LIMIT, below, "has more than %d bytes", ICON_SRC_MAX);
	/* MCP I-03, I-04: the schemes that a client may load. */
	if (!starts_with(src, "https://") && !starts_with(src, "data:"))
		return err_set(err, ERR_INVALID, below, "must begin with https:// or data:");
	(void)snprintf(below, sizeof below, "%s/theme", at); /* fits */
	if (theme && strcmp(theme, "light") != 0 && strcmp(theme, "dark") != 0)
		return err_set(err, ERR_INVALID, below, "must be light or dark");
	json_array_foreach(sizes, i, size) {
		(void)snprintf(below, sizeof below, "%s/sizes/%zu", at, i); /* fits */
		if (!json_is_string(size))
			return err_set(err, ERR_INVALID, below, "must be a string, is %s", jx_type_name(size));
	}
	return 0;
}

static int check_icons(const json_t *doc, struct err *err)
{
	json_t *icons = NULL, *icon;
	size_t i;
	int rc = jx_get_array(doc, "", "icons", JX_OPTIONAL, &icons, err);

	if (rc == 0 && json_array_size(icons) > ICONS_MAX)
		rc = err_set(err, ERR_LIMIT, "/icons", "has %zu icons, more than %d", json_array_size(icons), ICONS_MAX);
	if (rc < 0)
		return rc;
	json_array_foreach(icons, i, icon) {
		char at[32];

		(void)snprintf(at, sizeof at, "/icons/%zu", i); /* fits */
		rc = check_icon(icon, at, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int define_check_tool(const json_t *doc, struct err *err)
{
	int rc = check_description(doc, err);

	return rc < 0 ? rc : check_annotations(doc, err);
}

int define_check_listed(const json_t *doc, const struct define_kind *kind, struct err *err)
{
	static const char *const deep[] = { "inputSchema", "outputSchema", "annotations", "_meta" };
	struct str at = STR_INIT;
	json_t *meta;
	int rc = check_name(doc, reg_kinds[kind->kind].noun, err);

	if (rc == 0)
		rc = kind->check(doc, err);
	if (rc == 0)
		rc = check_icons(doc, err);
	if (rc == 0)
		rc = jx_get_object(doc, "", "_meta", JX_OPTIONAL, &meta, err);
	for (size_t i = 0; i < NELEMS(deep) && rc == 0; i++) {
		size_t len = pointer_push(&at, deep[i]);

		rc = check_texts_below(json_object_get(doc, deep[i]), &at, err);
		pointer_pop(&at, len);
	}
	str_fini(&at);
	return rc;
}
