/* Content blocks by revision (MCP B-14, T-31 to T-36), and what R0 had instead of them. */

#include "config.h"

#include <stdint.h>
#include <string.h>

#include "base/text.h"

#include "proto_int.h"

/* Members of a block, or of a block's resource, that came after the revision. */
struct drop { bool meta, icons, last_modified; };

static const char *text_of(const json_t *block, const char *name)
{
	const char *s = json_string_value(json_object_get(block, name));

	return s ? s : "";
}

static void put_text(struct str *out, const char *p, size_t len)
{
	str_puts(out, "{\"type\":\"text\",\"text\":");
	jx_write_string(out, p, len);
	str_putc(out, '}');
}

static size_t base64_bytes(const json_t *data)
{
	size_t len = json_string_length(data);
	const char *p = json_string_value(data);

	while (len && p[len - 1] == '=')
		len--;
	return len / 4 * 3 + (len % 4) * 3 / 4;
}

/* A copy of an object without the members of `drop`. */
static void put_object(struct str *out, const json_t *obj, struct drop drop)
{
	const char *key;
	json_t *value;
	bool first = true;

	str_putc(out, '{');
	json_object_foreach((json_t *)(uintptr_t)obj, key, value) {
		if ((drop.meta && strcmp(key, "_meta") == 0) || (drop.icons && strcmp(key, "icons") == 0) ||
		    (drop.last_modified && strcmp(key, "lastModified") == 0))
			continue;
		if (!first)
			str_putc(out, ',');
		first = false;
		jx_write_stringz(out, key);
		str_putc(out, ':');
		if (strcmp(key, "resource") == 0 && json_is_object(value))
			put_object(out, value, (struct drop){ .meta = drop.meta });
		else if (strcmp(key, "annotations") == 0 && json_is_object(value))
			put_object(out, value, (struct drop){ .last_modified = drop.last_modified });
		else
			jx_write(value, out);
	}
	str_putc(out, '}');
}

static void put_audio_note(struct str *out, const json_t *block)
{
	struct str note = STR_INIT;

	str_printf(&note, "[audio %s, %zu bytes]", text_of(block, "mimeType"),
		   base64_bytes(json_object_get(block, "data")));
	put_text(out, note.p, note.len);
	str_fini(&note);
}

static void put_link_note(struct str *out, const json_t *block)
{
	struct str note = STR_INIT;

	str_printf(&note, "[resource %s: %s]", text_of(block, "name"), text_of(block, "uri"));
	put_text(out, note.p, note.len);
	str_fini(&note);
}

static void put_block(struct str *out, enum rev rev, const json_t *block)
{
	const struct rev_row *row = &rev_table[rev];
	const char *type = text_of(block, "type");
	const json_t *text = json_object_get(block, "text");

	if (strcmp(type, "text") == 0 && json_is_string(text) && json_object_size(block) == 2)
		put_text(out, json_string_value(text), json_string_length(text));
	else if (strcmp(type, "audio") == 0 && !row->audio)
		put_audio_note(out, block);
	else if (strcmp(type, "resource_link") == 0 && !row->resource_link)
		put_link_note(out, block);
	else if (row->icons)
		jx_write(block, out);
	else    /* `_meta` and lastModified came with R3 (MCP M-02, T-34), icons with R4 (T-33) */
		put_object(out, block, (struct drop){ .meta = !row->tool_meta, .icons = true,
						      .last_modified = !row->tool_meta });
}

static bool has_text(const json_t *content)
{
	size_t i;
	json_t *block;

	json_array_foreach((json_t *)(uintptr_t)content, i, block)
		if (strcmp(text_of(block, "type"), "text") == 0)
			return true;
	return false;
}

/* Would put_block() write it as jx_write() does? */
static bool is_whole(const struct rev_row *row, const json_t *block)
{
	const json_t *text = json_object_get(block, "text");

	if (!row->icons || !row->audio || !row->resource_link)
		return false;
	return json_object_size(block) != 2 || !json_is_string(text) ||
	       strcmp(json_object_iter_key(json_object_iter((json_t *)(uintptr_t)block)), "type") == 0;
}

/* What has been written already, when this revision shows all of it. */
static bool put_written(struct str *out, enum rev rev, const struct enc_result *r)
{
	size_t i;
	json_t *block;

	if (!r->content_text.p || r->text || (r->structured && !has_text(r->content)))
		return false;
	json_array_foreach((json_t *)(uintptr_t)r->content, i, block)
		if (!is_whole(&rev_table[rev], block))
			return false;
	str_put(out, r->content_text.p, r->content_text.len);
	return true;
}

/* An answer without a text gets its structured part as one. */
static void put_structured_text(struct str *out, const struct enc_result *r)
{
	struct str copy = STR_INIT;

	if (r->structured_text.p) {
		put_text(out, r->structured_text.p, r->structured_text.len);
		return;
	}
	jx_write(r->structured, &copy);
	put_text(out, str_text(&copy), copy.len);
	str_fini(&copy);
}

void content_write(struct str *out, enum rev rev, const struct enc_result *r)
{
	size_t i;
	json_t *block;

	if (put_written(out, rev, r))
		return;
	str_putc(out, '[');
	if (r->text)
		put_text(out, r->text, strlen(r->text));
	json_array_foreach((json_t *)(uintptr_t)r->content, i, block) {
		if (i || r->text)
			str_putc(out, ',');
		put_block(out, rev, block);
	}
	if (r->structured && !r->text && !has_text(r->content)) {
		if (json_array_size(r->content))
			str_putc(out, ',');
		put_structured_text(out, r);
	}
	str_putc(out, ']');
}

void content_write_messages(struct str *out, enum rev rev, const json_t *messages)
{
	size_t i;
	json_t *message;

	str_putc(out, '[');
	json_array_foreach((json_t *)(uintptr_t)messages, i, message) {
		str_puts(out, i ? ",{\"role\":" : "{\"role\":");
		jx_write_stringz(out, text_of(message, "role"));
		str_puts(out, ",\"content\":");
		put_block(out, rev, json_object_get(message, "content"));
		str_putc(out, '}');
	}
	str_putc(out, ']');
}

void content_write_parts(struct str *out, enum rev rev, const json_t *parts)
{
	size_t i;
	json_t *part;

	str_putc(out, '[');
	json_array_foreach((json_t *)(uintptr_t)parts, i, part) {
		if (i)
			str_putc(out, ',');
		put_object(out, part, (struct drop){ .meta = !rev_table[rev].tool_meta });     /* MCP M-02 */
	}
	str_putc(out, ']');
}

/* The texts of all text blocks, a newline between them. */
static void join_text(const struct enc_result *r, struct str *ret)
{
	size_t i;
	json_t *block;

	if (r->text)
		str_puts(ret, r->text);
	json_array_foreach((json_t *)(uintptr_t)r->content, i, block) {
		const json_t *text = json_object_get(block, "text");

		if (strcmp(text_of(block, "type"), "text") != 0)
			continue;
		if (ret->len)
			str_putc(ret, '\n');
		str_put(ret, json_string_value(text), json_string_length(text));
	}
}

static void put_failure(struct str *out, const struct enc_result *r, const struct str *text)
{
	const json_t *status = json_object_get(r->structured, "status");

	str_puts(out, "{\"error\":");
	jx_write_string(out, str_text(text), text->len);
	str_puts(out, ",\"status\":");
	if (json_is_string(status) || json_is_integer(status))
		jx_write(status, out);
	else
		str_puts(out, "\"error\"");
	str_putc(out, '}');
}

void content_write_tool_result(struct str *out, const struct enc_result *r)
{
	struct str text = STR_INIT;
	json_t *parsed = NULL;

	join_text(r, &text);
	if (r->is_error) {
		put_failure(out, r, &text);
	} else if (r->structured) {
		jx_write(r->structured, out);
	} else if (json_array_size(r->content) == 1 && text.len &&
		   jx_parse(text.p, text.len, &parsed, NULL) == 0) {
		jx_write(parsed, out);
	} else {
		jx_write_string(out, str_text(&text), text.len);
	}
	json_decref(parsed);
	str_fini(&text);
}
