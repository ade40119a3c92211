/* http: what an answer means as a result of the tool. */
#include "config.h"

#include "http_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/secrets.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "net/http_server.h"

#define TYPE_MAX 128                    /* bytes of a media type */

enum kind { KIND_JSON, KIND_TEXT, KIND_IMAGE, KIND_AUDIO, KIND_OTHER, KIND_UNKNOWN };

/* --- media types --------------------------------------------------------------------------------- */

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
	static const char *const texts[] = { "application/xml", "application/javascript", "application/yaml", "application/x-yaml",
		"application/x-ndjson", "application/x-www-form-urlencoded", "application/graphql", "application/toml" };

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

/* --- results ------------------------------------------------------------------------------------- */

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

/* --- failures ------------------------------------------------------------------------------------ */

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
