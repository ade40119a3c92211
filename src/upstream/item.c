/* What an upstream has as definitions of ours.  What it says is cleaned, not believed (SEC S-211, S-731). */
#include "config.h"

#include "upstream_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

enum { TITLE_BYTES = 256, DESCRIPTION_BYTES = 16 * 1024, ICONS = 16 };      /* what a definition may have */

static const char own_meta[] = "io.modelcontextprotocol/";      /* MCP B-44 */

enum upstream_kind upstream_key(const char *key, const char **ret_name)
{
	static const char *const prefix[UPSTREAM_KINDS] = { NULL, "prompt:", "resource:", "template:" };

	for (size_t i = UPSTREAM_PROMPT; i < UPSTREAM_KINDS; i++) {
		size_t n = strlen(prefix[i]);

		if (strncmp(key, prefix[i], n) != 0)
			continue;
		*ret_name = key + n;
		return (enum upstream_kind)i;
	}
	*ret_name = key;
	return UPSTREAM_TOOL;
}

void upstream_item_digest(enum upstream_kind kind, json_t *object, uint8_t ret[32])
{
	json_t *annotations = json_object_get(object, "annotations");
	struct str canon = STR_INIT;

	if (kind == UPSTREAM_RESOURCE) {        /* a longer file is the same resource */
		(void)json_object_del(object, "size");
		(void)json_object_del(annotations, "lastModified");
	}
	jx_write_canon(object, &canon);
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
		free(l->item[i].key);
		free(l->item[i].text);
	}
	free(l->item);
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
json_t *upstream_clean_text(const json_t *text, size_t max)
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
			json_object_set_new(v, key, upstream_clean_text(child, DESCRIPTION_BYTES));
		else
			clean_below(child);
	}
	json_array_foreach(v, i, child)
		clean_below(child);
}

void upstream_take_words(const json_t *from, const char *fallback, json_t *doc)
{
	const json_t *title = json_object_get(from, "title"), *text = json_object_get(from, "description");
	json_t *clean = json_is_string(text) ? upstream_clean_text(text, DESCRIPTION_BYTES) : json_string("");
	const char *p = json_string_value(clean);

	if (json_is_string(title))
		json_object_set_new(doc, "title", upstream_clean_text(title, TITLE_BYTES));
	if (p[strspn(p, " \t\n")] == '\0') {    /* models choose by it, and it may be missing (MCP T-11) */
		json_decref(clean);
		clean = json_string(fallback);
	}
	json_object_set_new(doc, "description", clean);
}

static void take_annotations(const json_t *tool, json_t *doc)
{
	static const char *const hints[] = { "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint" };
	const json_t *from = json_object_get(tool, "annotations"), *title = json_object_get(from, "title");
	json_t *to = json_object();

	if (json_is_string(title))
		json_object_set_new(to, "title", upstream_clean_text(title, TITLE_BYTES));
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
void upstream_take_icons(const json_t *tool, json_t *doc)
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

void upstream_take_deep(const json_t *from, const char *member, json_t *doc)
{
	json_t *v = json_object_get(from, member);
	bool meta = strcmp(member, "_meta") == 0;

	if (!json_is_object(v))
		return;
	v = json_deep_copy(v);
	if (meta)
		upstream_strip_meta(v);
	clean_below(v);
	if (json_object_size(v) > 0 || !meta)
		json_object_set(doc, member, v);
	json_decref(v);
}

/* A handler that leads there, for a definition or for the completion of one of its arguments. */
json_t *upstream_handler(const struct upstream_naming *naming, const struct upstream_item *item)
{
	static const char *const members[UPSTREAM_KINDS] = { "tool", "prompt", "resource", "template" };
	char hex[2 * sizeof(item->digest) + 1];
	const char *name;

	(void)upstream_key(item->key, &name);
	text_hex(item->digest, sizeof(item->digest), hex);
	return json_pack("{s:s, s:s, s:s, s:s}", "type", "mcp", "upstream", naming->upstream, members[item->kind], name,
			 "digest", hex);
}

static int take_tool(const struct upstream_naming *naming, const struct upstream_item *item, const json_t *there, json_t *doc,
		     struct err *err)
{
	static const char *const deep[] = { "inputSchema", "outputSchema", "_meta" };
	char *name = mem_printf("%s%s", naming->prefix, item->key);
	char *fallback = mem_printf("The tool %s of the MCP server %s.", item->key, naming->upstream);
	int rc = 0;

	if (!text_tool_name(name, strlen(name))) {
		rc = err_set(err, ERR_INVALID, "/name", "\"%.80s\" cannot be a tool's name here: letters, digits, _ . -, at most 64",
			     name);
		err_hint(err, "a shorter prefix may help");
	}
	json_object_set_new(doc, "name", json_string(name));
	upstream_take_words(there, fallback, doc);
	take_annotations(there, doc);
	upstream_take_icons(there, doc);
	for (size_t i = 0; i < NELEMS(deep); i++)
		upstream_take_deep(there, deep[i], doc);
	free(fallback);
	free(name);
	return rc;
}

int upstream_document(const struct upstream_naming *naming, const struct upstream_item *item, json_t **ret,
		      struct err *err)
{
	json_t *there = NULL, *doc;
	int rc = jx_parse(item->text, strlen(item->text), &there, err);

	if (rc < 0)
		return rc;
	doc = json_object();
	rc = item->kind == UPSTREAM_TOOL ? take_tool(naming, item, there, doc, err)
					 : upstream_hosted(naming, item, there, doc, err);
	json_decref(there);
	if (rc < 0) {
		json_decref(doc);
		return rc;
	}
	json_object_set_new(doc, "handler", upstream_handler(naming, item));
	*ret = doc;
	return 0;
}
