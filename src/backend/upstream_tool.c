/* A tool of an upstream as a definition of ours.  What it says is cleaned, not believed (SEC S-211, S-731). */
#include "config.h"

#include "upstream_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text.h"
#include "json/json.h"

enum { TITLE_BYTES = 256, DESCRIPTION_BYTES = 16 * 1024, ICONS = 16 };      /* what a definition may have */

static const char own_meta[] = "io.modelcontextprotocol/";      /* MCP B-44 */

void upstream_tool_digest(const json_t *tool, uint8_t ret[32])
{
	struct str canon = STR_INIT;

	jx_write_canon(tool, &canon);
	digest_sha256(canon.p, canon.len, ret);
	str_fini(&canon);
}

void upstream_list_free(struct upstream_list **lp)
{
	struct upstream_list *l = lp ? *lp : NULL;

	if (!l)
		return;
	*lp = NULL;
	for (size_t i = 0; i < l->count; i++) {
		free(l->tool[i].name);
		free(l->tool[i].text);
	}
	free(l->tool);
	free(l);
}

void upstream_strip_meta(json_t *meta)
{
	const char *key;
	json_t *v;
	void *tmp;

	json_object_foreach_safe(meta, tmp, key, v)
		if (strncmp(key, own_meta, sizeof(own_meta) - 1) == 0)
			(void)json_object_del(meta, key);
}

/* The text without what a person does not see, cut between characters. */
static json_t *clean_text(const json_t *text, size_t max)
{
	char *copy = mem_alloc(json_string_length(text) + 1);
	size_t len = text_without_hidden(json_string_value(text), json_string_length(text), copy);

	if (len > max) {
		len = max;
		while (len > 0 && ((unsigned char)copy[len] & 0xc0) == 0x80)
			len--;
	}
	json_t *ret = json_stringn(copy, len);
	free(copy);
	return ret;
}

/* Titles and descriptions anywhere below; the depth is the parser's. */
static void clean_below(json_t *v)
{
	const char *key;
	json_t *child;
	size_t i;

	json_object_foreach(v, key, child) {
		if (json_is_string(child) && (strcmp(key, "title") == 0 || strcmp(key, "description") == 0))
			json_object_set_new(v, key, clean_text(child, DESCRIPTION_BYTES));
		else
			clean_below(child);
	}
	json_array_foreach(v, i, child)
		clean_below(child);
}

static void take_words(const json_t *tool, const char *upstream, json_t *doc)
{
	const json_t *title = json_object_get(tool, "title"), *text = json_object_get(tool, "description");
	json_t *clean = json_is_string(text) ? clean_text(text, DESCRIPTION_BYTES) : json_string("");
	const char *p = json_string_value(clean);

	if (json_is_string(title))
		json_object_set_new(doc, "title", clean_text(title, TITLE_BYTES));
	if (p[strspn(p, " \t\n")] == '\0') {    /* models choose by it, and it may be missing (MCP T-11) */
		json_decref(clean);
		clean = json_sprintf("The tool %s of the MCP server %s.", json_string_value(json_object_get(tool, "name")),
				     upstream);
	}
	json_object_set_new(doc, "description", clean);
}

static void take_annotations(const json_t *tool, json_t *doc)
{
	static const char *const hints[] = { "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint" };
	const json_t *from = json_object_get(tool, "annotations"), *title = json_object_get(from, "title");
	json_t *to = json_object();

	if (json_is_string(title))
		json_object_set_new(to, "title", clean_text(title, TITLE_BYTES));
	for (size_t i = 0; i < NELEMS(hints); i++) {
		json_t *hint = json_object_get(from, hints[i]);

		if (json_is_boolean(hint))
			json_object_set(to, hints[i], hint);
	}
	if (json_object_size(to) > 0)
		json_object_set(doc, "annotations", to);
	json_decref(to);
}

/* MCP I-04: only what a client may load. */
static void take_icons(const json_t *tool, json_t *doc)
{
	static const char *const members[] = { "src", "mimeType", "sizes", "theme" };
	const json_t *from = json_object_get(tool, "icons"), *icon;
	json_t *to = json_array();
	size_t i;

	json_array_foreach(from, i, icon) {
		const char *src = json_string_value(json_object_get(icon, "src"));

		if (!src || (strncasecmp(src, "https://", 8) != 0 && strncasecmp(src, "data:", 5) != 0) ||
		    json_array_size(to) == ICONS)
			continue;
		json_t *copy = json_object();
		for (size_t k = 0; k < NELEMS(members); k++) {
			json_t *v = json_object_get(icon, members[k]);

			if (v)
				json_object_set(copy, members[k], v);
		}
		json_array_append_new(to, copy);
	}
	if (json_array_size(to) > 0)
		json_object_set(doc, "icons", to);
	json_decref(to);
}

static void take_deep(const json_t *tool, json_t *doc)
{
	static const char *const members[] = { "inputSchema", "outputSchema", "_meta" };

	for (size_t i = 0; i < NELEMS(members); i++) {
		json_t *v = json_object_get(tool, members[i]);

		if (!json_is_object(v))
			continue;
		v = json_deep_copy(v);
		if (strcmp(members[i], "_meta") == 0)
			upstream_strip_meta(v);
		clean_below(v);
		if (json_object_size(v) > 0 || strcmp(members[i], "_meta") != 0)
			json_object_set(doc, members[i], v);
		json_decref(v);
	}
}

int upstream_tool_document(const char *upstream, const char *prefix, const struct upstream_tool *tool, json_t **ret,
			   struct err *err)
{
	char *name = mem_printf("%s%s", prefix, tool->name), hex[2 * sizeof(tool->digest) + 1];
	json_t *there = NULL;
	int rc = 0;

	if (!text_tool_name(name, strlen(name))) {
		rc = err_set(err, ERR_INVALID, "/name", "\"%.80s\" cannot be a tool's name here: letters, digits, _ . -, at most 64",
			     name);
		err_hint(err, "a shorter prefix may help");
	}
	if (rc == 0)
		rc = jx_parse(tool->text, strlen(tool->text), &there, err);
	if (rc < 0) {
		free(name);
		return rc;
	}
	json_t *doc = json_pack("{s:s}", "name", name);
	take_words(there, upstream, doc);
	take_annotations(there, doc);
	take_icons(there, doc);
	take_deep(there, doc);
	text_hex(tool->digest, sizeof(tool->digest), hex);
	json_object_set_new(doc, "handler", json_pack("{s:s, s:s, s:s, s:s}", "type", "mcp", "upstream", upstream, "tool",
						      tool->name, "digest", hex));
	json_decref(there);
	free(name);
	*ret = doc;
	return 0;
}
