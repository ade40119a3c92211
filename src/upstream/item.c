/* Items of other servers in our form: tools, prompts, resources and templates as definitions (a sync, any thread), and
 * what a call of them brings back as results (the loop).  What a server says is cleaned, not believed (SEC S-211,
 * S-731): sizes, names, hidden characters, URIs and `_meta` are checked here and nowhere else. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#include "mcp_int.h"
#include "upstream_int.h"

enum { TITLE_BYTES = 256, DESCRIPTION_BYTES = 16 * 1024, ICONS = 16 };      /* what a definition may have */

static const char own_meta[] = "io.modelcontextprotocol/";      /* MCP B-44 */

/* --- URIs: there, and as they are shown here (decision 0120) */

/* A pair of functions, and the references of a `_meta` that name pages.  Pages of apps stay `ui:`, with the upstream as
 * the authority; http and https lead to where anybody may go; every other URI gets the prefix. */

#define SCHEME "ui://"
#define SCHEME_LEN (sizeof(SCHEME) - 1)

static bool is_anybodys(const char *uri)
{
	return strncasecmp(uri, "https://", 8) == 0 || strncasecmp(uri, "http://", 7) == 0;
}

/* `ui:` with an authority: without one there is no place for ours. */
static bool is_page(const char *uri)
{
	return strncasecmp(uri, SCHEME, SCHEME_LEN) == 0 && !strchr("/?#", uri[SCHEME_LEN]);    /* nor at the end */
}

/* Of the authority: the prefix without its last + - or . */
static size_t name_len(const char *prefix)
{
	size_t n = strlen(prefix);

	return n > 1 && strchr("+-.", prefix[n - 1]) ? n - 1 : n;
}

/* What made other URIs look like those that are told by their beginning (document.c). */
bool upstream_uri_prefix_hides(const char *prefix)
{
	static const char *const others[] = { "https", "http", "ui" };
	size_t n = strlen(prefix);

	for (size_t i = 0; n > 0 && i < NELEMS(others); i++)
		if (n <= strlen(others[i]) && strncasecmp(prefix, others[i], n) == 0)
			return true;
	return false;
}

char *upstream_uri_here(const char *uri, const char *prefix)
{
	size_t n = name_len(prefix);

	if (n > 0 && is_page(uri))      /* the scheme as it is written there, or the way back would not know it */
		return mem_printf("%.*s%.*s/%s", (int)SCHEME_LEN, uri, (int)n, prefix, uri + SCHEME_LEN);
	return mem_printf("%s%s", is_anybodys(uri) ? "" : prefix, uri);
}

char *upstream_uri_there(const char *uri, const char *prefix)
{
	size_t n = name_len(prefix), len = strlen(prefix);
	const char *rest = uri + SCHEME_LEN;

	if (n > 0 && is_page(uri)) {
		if (strncmp(rest, prefix, n) == 0 && rest[n] == '/')
			return mem_printf("%.*s%s", (int)SCHEME_LEN, uri, rest + n + 1);
		return mem_strdup(uri);
	}
	return mem_strdup(!is_anybodys(uri) && strncmp(uri, prefix, len) == 0 ? uri + len : uri);
}

/* One member that names a page there: as it is named here, or gone. */
static void move_ref(json_t *obj, const char *member, const char *prefix)
{
	const json_t *v = json_object_get(obj, member);
	const char *uri = json_string_value(v);
	size_t len = json_string_length(v);
	char *here = NULL;

	if (!v)
		return;
	if (uri && len > 0 && len <= UPSTREAM_URI_MAX && strlen(uri) == len &&
	    text_hidden(uri, len, &(uint32_t){ 0 }) == len)
		here = upstream_uri_here(uri, prefix);
	if (here && strlen(here) <= UPSTREAM_URI_MAX)
		json_object_set_new(obj, member, json_string(here));
	else
		(void)json_object_del(obj, member);
	free(here);
}

void upstream_refs_here(json_t *meta, const char *prefix)
{
	move_ref(json_object_get(meta, "ui"), "resourceUri", prefix);
	move_ref(meta, "ui/resourceUri", prefix);
	move_ref(meta, "openai/outputTemplate", prefix);
}

/* --- keys, digests, texts */

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

/* Remove what the protocol keeps for itself from a `_meta` (MCP B-44). */
static void upstream_strip_meta(json_t *meta)
{
	const char *key;
	json_t *v;
	void *tmp;

	json_object_foreach_safe(meta, tmp, key, v)
		if (strncmp(key, own_meta, sizeof(own_meta) - 1) == 0)
			(void)json_object_del(meta, key);
}

/* The text without what a person does not see, cut between characters. */
static json_t *upstream_clean_text(const json_t *text, size_t max)
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

static void upstream_take_words(const json_t *from, const char *fallback, json_t *doc)
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
static void upstream_take_icons(const json_t *tool, json_t *doc)
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

static void upstream_take_deep(const struct upstream_naming *naming, const json_t *from, const char *member,
			       json_t *doc)
{
	json_t *v = json_object_get(from, member);
	bool meta = strcmp(member, "_meta") == 0;

	if (!json_is_object(v))
		return;
	if (meta) {             /* in place: the tree of `from` is read once, and a copy has not all numbers (decision 0007) */
		upstream_strip_meta(v);
		upstream_refs_here(v, naming->uri_prefix);
	}
	clean_below(v);
	if (json_object_size(v) > 0 || !meta)
		json_object_set(doc, member, v);
}

/* A handler that leads there, for a definition or for the completion of one of its arguments. */
static json_t *upstream_handler(const struct upstream_naming *naming, const struct upstream_item *item)
{
	static const char *const members[UPSTREAM_KINDS] = { "tool", "prompt", "resource", "template" };
	char hex[2 * sizeof(item->digest) + 1];
	const char *name;

	(void)upstream_key(item->key, &name);
	text_hex(item->digest, sizeof(item->digest), hex);
	return json_pack("{s:s, s:s, s:s, s:s}", "type", "mcp", "upstream", naming->upstream, members[item->kind], name,
			 "digest", hex);
}

static int take_tool(const struct upstream_naming *naming, const struct upstream_item *item, const json_t *there,
		     json_t *doc, struct err *err)
{
	static const char *const deep[] = { "inputSchema", "outputSchema", "_meta" };
	char *name = mem_printf("%s%s", naming->prefix, item->key);
	char *fallback = mem_printf("The tool %s of the MCP server %s.", item->key, naming->upstream);
	int rc = 0;

	if (!text_tool_name(name, strlen(name))) {
		rc = err_set(err, ERR_INVALID, "/name",
			     "\"%.80s\" cannot be a tool's name here: letters, digits, _ . -, at most 64", name);
		err_hint(err, "a shorter prefix may help");
	}
	json_object_set_new(doc, "name", json_string(name));
	upstream_take_words(there, fallback, doc);
	take_annotations(there, doc);
	upstream_take_icons(there, doc);
	for (size_t i = 0; i < NELEMS(deep); i++)
		upstream_take_deep(naming, there, deep[i], doc);
	free(fallback);
	free(name);
	return rc;
}

static int upstream_hosted(const struct upstream_naming *naming, const struct upstream_item *item,
			   const json_t *there, json_t *doc, struct err *err);

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

/* --- results */

/* Results of other MCP servers: checked like a stranger's (SEC S-731), in the forms of ours. */

static int bad_result(struct err *err, const char *why)
{
	return err_set(err, ERR_TOOL, "", "its result %s", why);
}

/* Of an object, the URI there as it is shown here. */
static void put_uri(json_t *obj, const char *member, const char *uri, const char *prefix)
{
	char *here = upstream_uri_here(uri, prefix);

	json_object_set_new(obj, member, json_string(here));
	free(here);
}

static void show_uri(json_t *obj, const char *prefix)
{
	const char *uri = json_string_value(json_object_get(obj, "uri"));

	if (uri && strlen(uri) == json_string_length(json_object_get(obj, "uri")))
		put_uri(obj, "uri", uri, prefix);
}

void mcp_clean_meta(json_t *obj, const char *prefix)
{
	json_t *meta = json_object_get(obj, "_meta");

	if (!json_is_object(meta))
		return;
	upstream_strip_meta(meta);
	upstream_refs_here(meta, prefix);
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

	mcp_clean_meta(block, prefix);
	mcp_clean_meta(inner, prefix);
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
		return err_set(err, ERR_TOOL, "", "its result has a bad content block: %.60s %.120s", wrong.where,
			       wrong.msg);
	json_array_foreach(content, i, block)
		clean_block(block, prefix);
	*ret = json_incref(content);
	return 0;
}

static int tool_result(const json_t *result, const char *prefix, struct backend_result *res, struct err *err)
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
		return err_set(err, ERR_LIMIT, "", "its result has %zu %s, more than the limit of %d",
			       json_array_size(array), what, BACKEND_BLOCKS_MAX);
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
	const json_t *given = json_object_get(result, "messages"), *one;
	const json_t *description = json_object_get(result, "description");
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
		mcp_clean_meta(part, prefix);
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

static int take_hosted(const struct mcp_plan *plan, const char *prefix, const json_t *result,
		       struct backend_result *res, struct err *err)
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

/* Those of the origins that a page wants which the document names. */
static json_t *cut_origins(const json_t *wanted, const char *const *allowed, size_t n)
{
	json_t *ret = json_array(), *v;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)wanted, i, v)
		for (size_t k = 0; k < n && json_is_string(v); k++)
			if (strcmp(json_string_value(v), allowed[k]) == 0 && strlen(allowed[k]) == json_string_length(v)) {
				json_array_append(ret, v);
				break;
			}
	return ret;
}

/* UI-08: hosts read csp of a page in its contents first, so that it always stands there. */
static void cut_page(const struct upstream_ui *ui, json_t *part)
{
	const json_t *meta = json_object_get(part, "_meta"), *page = json_object_get(meta, "ui");
	const json_t *csp = json_object_get(page, "csp");
	json_t *cut = json_object(), *page_cut = json_is_object(page) ? json_copy((json_t *)(uintptr_t)page) : json_object();
	json_t *meta_cut = json_is_object(meta) ? json_copy((json_t *)(uintptr_t)meta) : json_object();

	json_object_set_new(cut, "connectDomains",
			    cut_origins(json_object_get(csp, "connectDomains"), ui->connect, ui->nconnect));
	json_object_set_new(cut, "resourceDomains",
			    cut_origins(json_object_get(csp, "resourceDomains"), ui->resources, ui->nresources));
	json_object_set_new(page_cut, "csp", cut);
	json_object_set_new(meta_cut, "ui", page_cut);
	json_object_set_new(part, "_meta", meta_cut);
}

int mcp_parse(struct jx_span span, size_t max, json_t **ret, struct err *err)
{
	if (span.len > max)
		return err_set(err, ERR_LIMIT, "", "its result is larger than %zu bytes", max);
	if (!rpc_is(span, '{'))
		return err_set(err, ERR_TOOL, "", "its result is no object");
	return jx_parse_scanned(span.p, span.len, ret, err) < 0 ?
		err_set(err, ERR_TOOL, "", "its result has a number that is too long") : 0;
}

int mcp_take(const struct mcp_plan *plan, const struct upstream_conf *conf, json_t *result, struct backend_result *res,
	     struct err *err)
{
	json_t *meta = json_object_get(result, "_meta"), *part;
	const char *uri_prefix = conf ? conf->uri_prefix : "";
	bool tool = plan->kind == UPSTREAM_TOOL;
	size_t i;
	int rc = tool ? tool_result(result, uri_prefix, res, err) : take_hosted(plan, uri_prefix, result, res, err);

	res->links_there = true;
	json_array_foreach(rc == 0 && conf && conf->ui.given && !plan->argument && !tool ?
			   json_object_get(res->structured, "contents") : NULL, i, part)
		cut_page(&conf->ui, part);
	if (rc == 0 && json_is_object(meta)) {
		upstream_strip_meta(meta);      /* MCP B-44 */
		upstream_refs_here(meta, uri_prefix);
		res->meta = json_object_size(meta) > 0 ? json_incref(meta) : NULL;
	}
	return rc;
}

/* --- prompts, resources and templates */

/* Prompts, resources and resource templates of an upstream as definitions.  They are found by what the upstream calls
 * them, so here they may be named freely: prefix and name there, with what no name of ours may have replaced. */

enum {
	NAME_BYTES = 64,                /* of a name of ours */
	MARK_BYTES = 9,                 /* "-" and eight digits of a digest */
	ARGUMENTS = 100, ARGUMENT_BYTES = 64,   /* what a definition may have */
};

static bool may_stand(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '.' ||
	       c == '-';
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

		if (len == 0 || len > ARGUMENT_BYTES ||
		    text_hidden(json_string_value(name), len, &(uint32_t){ 0 }) < len)
			return err_set(err, ERR_INVALID, "/arguments",
				       "argument %zu has no name that can be used here", i + 1);
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
static void complete_variables(const struct upstream_naming *naming, const struct upstream_item *item,
			       const char *template, json_t *complete)
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

static void put_completion(const struct upstream_naming *naming, const struct upstream_item *item, const json_t *there,
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

static void take_resource_annotations(const json_t *there, json_t *doc)
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

	put_uri(doc, template ? "uriTemplate" : "uri", uri, naming->uri_prefix);
	if (json_string_length(mime) > 0)
		json_object_set(doc, "mimeType", mime);
	take_resource_annotations(there, doc);
}

/* item.c: the document of what is no tool. */
static int upstream_hosted(const struct upstream_naming *naming, const struct upstream_item *item,
			   const json_t *there, json_t *doc, struct err *err)
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
	upstream_take_deep(naming, there, "_meta", doc);
	if (item->kind == UPSTREAM_PROMPT)
		rc = take_arguments(there, doc, err);
	else
		take_resource(naming, item, there, doc);
	if (rc == 0)
		put_completion(naming, item, there, doc);
	return rc;
}

/* --- what was stored before pages had URIs of ours */

/* The old form of a page's own URI: with the prefix like all others. */
static bool move_own(const struct upstream_naming *naming, const char *uri, json_t *doc, const char *member)
{
	const char *stored = json_string_value(json_object_get(doc, member));
	size_t n = strlen(naming->uri_prefix);

	if (!stored || n == 0 || !is_page(uri) || strncmp(stored, naming->uri_prefix, n) != 0 || strcmp(stored + n, uri) != 0)
		return false;
	char *here = upstream_uri_here(uri, naming->uri_prefix);
	json_object_set_new(doc, member, json_string(here));
	free(here);
	return true;
}

/* The old form of a reference: as it is there. */
static bool move_old_ref(const struct upstream_naming *naming, const json_t *there, json_t *here, const char *member)
{
	const json_t *was = json_object_get(there, member), *is = json_object_get(here, member);

	if (!json_is_string(was) || !json_is_string(is) || !json_equal(was, is))
		return false;
	json_t *before = json_copy(here);
	move_ref(here, member, naming->uri_prefix);
	bool moved = !json_equal(before, here);
	json_decref(before);
	return moved;
}

bool upstream_move_pages(const struct upstream_naming *naming, const struct upstream_item *item, json_t *doc)
{
	json_t *there = NULL, *was, *is;
	const char *uri;
	bool moved = false;

	if (!strcasestr(item->text, "ui:") || jx_parse(item->text, strlen(item->text), &there, NULL) < 0)
		return false;
	was = json_object_get(there, "_meta");
	is = json_object_get(doc, "_meta");
	(void)upstream_key(item->key, &uri);
	if (item->kind == UPSTREAM_RESOURCE || item->kind == UPSTREAM_TEMPLATE)
		moved = move_own(naming, uri, doc, item->kind == UPSTREAM_RESOURCE ? "uri" : "uriTemplate");
	moved |= move_old_ref(naming, json_object_get(was, "ui"), json_object_get(is, "ui"), "resourceUri");
	moved |= move_old_ref(naming, was, is, "ui/resourceUri");
	moved |= move_old_ref(naming, was, is, "openai/outputTemplate");
	json_decref(there);
	return moved;
}
