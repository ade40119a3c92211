/*
 * What every result passes before anybody sees it, whichever the handler: the shapes of its blocks, their base64, their
 * number, and characters that would act on a terminal or end a text early.  Sizes of payloads are the engine's matter.
 */
#include "config.h"

#include "sanitize_int.h"

#include <string.h>

#include "base/text.h"
#include "json/json.h"

#define FFFD "\xef\xbf\xbd"

/* C0 but tab, line feed and carriage return; DEL; C1 (two bytes in UTF-8).  0 = none at p, else its length. */
static size_t control_at(const char *p, size_t len)
{
	unsigned char c = (unsigned char)*p;

	if (c < 0x20 || c == 0x7f)
		return c != '\t' && c != '\n' && c != '\r';
	return c == 0xc2 && len > 1 && (unsigned char)p[1] < 0xa0 ? 2 : 0;
}

static size_t first_control(const char *p, size_t len)
{
	size_t i = 0;

	while (i < len) {
		size_t run = text_plain_run(p + i, len - i);
		const char *del = memchr(p + i, 0x7f, run);

		if (del)
			return (size_t)(del - p);
		for (i += run; i < len; i++) {
			if (control_at(p + i, len - i) > 0)
				return i;
			if ((unsigned char)p[i] < 0x80) {
				i++;
				break;
			}
		}
	}
	return len;
}

bool sanitize_is_clean(const char *p, size_t len)
{
	return first_control(p, len) == len;
}

void sanitize_put_clean(const char *p, size_t len, struct str *out)
{
	while (len > 0) {
		size_t n = first_control(p, len);
		str_put(out, p, n);
		p += n;
		len -= n;
		if (len == 0)
			break;
		n = control_at(p, len);
		str_puts(out, FFFD);
		p += n;
		len -= n;
	}
}

void sanitize_put_note(const char *p, size_t len, struct str *out)
{
	if (len > SANITIZE_NOTE_MAX) {
		len = SANITIZE_NOTE_MAX;
		while (len > 0 && ((unsigned char)p[len] & 0xc0) == 0x80)       /* between characters only */
			len--;
	}
	sanitize_put_clean(p, len, out);
}

void sanitize_err(struct err *err)
{
	for (char *p = err->msg; *p; p++) {
		if (control_at(p, strlen(p)) == 1)
			*p = ' ';
	}
}

static bool text_is_clean(const json_t *text)
{
	return !json_is_string(text) || sanitize_is_clean(json_string_value(text), json_string_length(text));
}

static json_t *clean_text(const json_t *text)
{
	struct str out = STR_INIT;

	sanitize_put_clean(json_string_value(text), json_string_length(text), &out);
	json_t *copy = json_stringn_nocheck(str_text(&out), out.len);
	str_fini(&out);
	return copy;
}

/* A plan's own blocks must stay as they are. */
json_t *sanitize_block(json_t *block)
{
	json_t *text = json_object_get(block, "text"), *inner = json_object_get(block, "resource");
	json_t *inner_text = json_object_get(inner, "text");

	if (text_is_clean(text) && text_is_clean(inner_text))
		return json_incref(block);
	json_t *copy = json_copy(block);
	if (!text_is_clean(text))
		json_object_set_new(copy, "text", clean_text(text));
	if (!text_is_clean(inner_text)) {
		json_t *resource = json_copy(inner);
		json_object_set_new(resource, "text", clean_text(inner_text));
		json_object_set_new(copy, "resource", resource);
	}
	return copy;
}

json_t *backend_clean_block(json_t *block)
{
	return sanitize_block(block);
}

json_t *backend_clean_text(json_t *text)
{
	json_t *copy;

	if (text_is_clean(text))
		return text;
	copy = clean_text(text);
	json_decref(text);
	return copy;
}

static bool content_is_clean(const json_t *content)
{
	const json_t *block;
	size_t i;

	json_array_foreach(content, i, block) {
		if (!text_is_clean(json_object_get(block, "text")) ||
		    !text_is_clean(json_object_get(json_object_get(block, "resource"), "text")))
			return false;
	}
	return true;
}

static void clean_content(json_t **content)
{
	json_t *copy, *block;
	size_t i;

	if (content_is_clean(*content))
		return;
	copy = json_array();
	json_array_foreach(*content, i, block)
		json_array_append_new(copy, sanitize_block(block));
	json_decref(*content);
	*content = copy;
}

static int check_meta(const json_t *meta, struct err *err)
{
	struct str text;

	if (!meta)
		return 0;
	str_init(&text, SANITIZE_META_MAX);
	jx_write(meta, &text);
	bool fits = !text.failed;
	str_fini(&text);
	return fits ? 0 : err_set(err, ERR_LIMIT, "", "the _meta of the tool's result is larger than %u bytes", SANITIZE_META_MAX);
}

int sanitize_result(struct backend_result *res, struct err *err)
{
	struct err why;

	if (json_array_size(res->content) > BACKEND_BLOCKS_MAX)
		return err_set(err, ERR_LIMIT, "", "the tool's result has %zu content blocks, more than the limit of %d",
			       json_array_size(res->content), BACKEND_BLOCKS_MAX);
	if (content_check_all(res->content, "content", &why) < 0)
		return err_set(err, ERR_TOOL, "", "the tool's result: %s: %s", why.where, why.msg);
	int rc = check_meta(res->meta, err);
	if (rc == 0)
		clean_content(&res->content);
	return rc;
}
