/* Prompts, resources and resource templates of an upstream as definitions.  They are found by what the upstream calls
 * them, so here they may be named freely: prefix and name there, with what no name of ours may have replaced. */
#include "config.h"

#include "upstream_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "mcp_int.h"

enum {
	NAME_BYTES = 64,                /* of a name of ours */
	MARK_BYTES = 9,                 /* "-" and eight digits of a digest */
	ARGUMENTS = 100, ARGUMENT_BYTES = 64, TITLE_BYTES = 256,        /* what a definition may have */
};

static bool may_stand(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '.' || c == '-';
}

/* prefix and name with "-" for what cannot stand there; marked when that is wanted, or too little is left of it. */
static char *make_name(const struct upstream_naming *naming, const struct upstream_item *item, const char *name)
{
	uint8_t digest[DIGEST_SIZE];
	struct str out = STR_INIT;
	size_t letters = 0;
	char hex[MARK_BYTES];

	str_puts(&out, naming->prefix);
	for (const char *p = name; *p; p++) {
		bool fits = may_stand((unsigned char)*p);

		letters += fits;
		if (fits || (out.len > 0 && out.p[out.len - 1] != '-'))
			str_putc(&out, fits ? *p : '-');
	}
	bool marked = naming->marked || letters == 0;
	size_t max = marked ? NAME_BYTES - MARK_BYTES : NAME_BYTES;
	char *made = mem_strndup(str_text(&out), out.len < max ? out.len : max);
	str_fini(&out);
	if (!marked)
		return made;
	digest_sha256(item->key, strlen(item->key), digest);
	text_hex(digest, 4, hex);
	char *ret = mem_printf("%s-%s", made, hex);
	free(made);
	return ret;
}

/* What people call it there is kept for them, as far as our name does not say it. */
static void take_name(const struct upstream_naming *naming, const struct upstream_item *item, const json_t *there,
		      json_t *doc)
{
	const json_t *given = json_object_get(there, "name");
	const char *key, *name = json_string_value(given);

	(void)upstream_key(item->key, &key);
	if (!name || !*name || strlen(name) != json_string_length(given))
		name = key;
	char *made = naming->name ? mem_strdup(naming->name) : make_name(naming, item, name);
	if (!json_object_get(doc, "title") && json_is_string(given) && !text_tool_name(name, strlen(name)))
		json_object_set_new(doc, "title", upstream_clean_text(given, TITLE_BYTES));
	json_object_set_new(doc, "name", json_string(made));
	free(made);
}

/* --- prompts */

static json_t *one_argument(const json_t *there)
{
	static const char *const words[] = { "title", "description" };
	json_t *name = json_object_get(there, "name"), *ret = json_object();

	json_object_set(ret, "name", name);
	for (size_t i = 0; i < NELEMS(words); i++) {
		const json_t *text = json_object_get(there, words[i]);

		if (json_is_string(text))
			json_object_set_new(ret, words[i], upstream_clean_text(text, i == 0 ? TITLE_BYTES : 16 * 1024));
	}
	if (json_is_true(json_object_get(there, "required")))
		json_object_set_new(ret, "required", json_true());
	return ret;
}

static int take_arguments(const json_t *there, json_t *doc, struct err *err)
{
	const json_t *given = json_object_get(there, "arguments"), *one;
	json_t *arguments = json_array();
	size_t i;

	json_object_set_new(doc, "arguments", arguments);
	if (json_array_size(given) > ARGUMENTS)
		return err_set(err, ERR_LIMIT, "/arguments", "has more than %d arguments", ARGUMENTS);
	json_array_foreach((json_t *)(uintptr_t)given, i, one) {
		const json_t *name = json_object_get(one, "name");
		size_t len = json_string_length(name);

		if (len == 0 || len > ARGUMENT_BYTES || text_hidden(json_string_value(name), len, &(uint32_t){ 0 }) < len)
			return err_set(err, ERR_INVALID, "/arguments", "argument %zu has no name that can be used here", i + 1);
		json_array_append_new(arguments, one_argument(one));
	}
	return 0;
}

/* --- completion */

static void complete_one(const struct upstream_naming *naming, const struct upstream_item *item, const char *argument,
			 json_t *complete)
{
	json_t *handler = upstream_handler(naming, item);

	json_object_set_new(handler, "argument", json_string(argument));
	json_object_set_new(complete, argument, handler);
}

/* The variables of a URI template: what stands in its braces, without operators. */
static void complete_variables(const struct upstream_naming *naming, const struct upstream_item *item, const char *template,
			       json_t *complete)
{
	for (const char *p = strchr(template, '{'); p; p = strchr(p, '{')) {
		const char *end = strchr(p, '}');

		for (p += strspn(p, "{+#./;?&"); end && p < end; ) {
			size_t n = strcspn(p, ",}");
			char *name = mem_strndup(p, n);

			complete_one(naming, item, name, complete);
			free(name);
			p += n + 1;
		}
		if (!end)
			return;
	}
}

static void take_completion(const struct upstream_naming *naming, const struct upstream_item *item, const json_t *there,
			    json_t *doc)
{
	json_t *complete = json_object();
	const json_t *argument;
	const char *template;
	size_t i;

	if (json_is_true(json_object_get(there, "completes"))) {
		json_array_foreach(json_object_get(doc, "arguments"), i, argument)
			complete_one(naming, item, json_string_value(json_object_get(argument, "name")), complete);
		if (upstream_key(item->key, &template) == UPSTREAM_TEMPLATE)
			complete_variables(naming, item, template, complete);
	}
	if (json_object_size(complete) > 0)
		json_object_set(doc, "complete", complete);
	json_decref(complete);
}

/* --- resources */

static void take_annotations(const json_t *there, json_t *doc)
{
	const json_t *from = json_object_get(there, "annotations");
	json_t *audience = json_object_get(from, "audience"), *priority = json_object_get(from, "priority"), *role;
	json_t *to = json_object(), *roles = json_array();
	size_t i;

	json_array_foreach(audience, i, role) {
		const char *word = json_string_value(role);

		if (word && (strcmp(word, "user") == 0 || strcmp(word, "assistant") == 0) && json_array_size(roles) < 2)
			json_array_append(roles, role);
	}
	if (json_array_size(roles) > 0)
		json_object_set(to, "audience", roles);
	if (json_is_number(priority))
		json_object_set(to, "priority", priority);
	if (json_object_size(to) > 0)
		json_object_set(doc, "annotations", to);
	json_decref(roles);
	json_decref(to);
}

static void take_resource(const struct upstream_naming *naming, const struct upstream_item *item, const json_t *there,
			  json_t *doc)
{
	json_t *mime = json_object_get(there, "mimeType");
	const char *uri;
	bool template = upstream_key(item->key, &uri) == UPSTREAM_TEMPLATE;

	json_object_set_new(doc, template ? "uriTemplate" : "uri", mcp_uri(uri, naming->uri_prefix));
	if (json_string_length(mime) > 0)
		json_object_set(doc, "mimeType", mime);
	take_annotations(there, doc);
}

int upstream_hosted(const struct upstream_naming *naming, const struct upstream_item *item, const json_t *there, json_t *doc,
		    struct err *err)
{
	static const char *const kinds[UPSTREAM_KINDS] = { "tool", "prompt", "resource", "resourceTemplate" };
	static const char *const nouns[UPSTREAM_KINDS] = { "tool", "prompt", "resource", "resource template" };
	const char *name;
	int rc = 0;

	(void)upstream_key(item->key, &name);
	char *fallback = mem_printf("The %s %s of the MCP server %s.", nouns[item->kind], name, naming->upstream);
	json_object_set_new(doc, "kind", json_string(kinds[item->kind]));
	upstream_take_words(there, fallback, doc);
	free(fallback);
	take_name(naming, item, there, doc);
	upstream_take_icons(there, doc);
	upstream_take_deep(there, "_meta", doc);
	if (item->kind == UPSTREAM_PROMPT)
		rc = take_arguments(there, doc, err);
	else
		take_resource(naming, item, there, doc);
	if (rc == 0)
		take_completion(naming, item, there, doc);
	return rc;
}
