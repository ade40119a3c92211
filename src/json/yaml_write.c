/* Trees to YAML, block style.  A text stands without quotes only where no reader, of YAML 1.1 or 1.2,
 * could take it for anything else. */
#include "config.h"

#include "json/yaml.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#include "json_int.h"
#include "yaml_int.h"

static bool is_letter(char c)
{
	return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
}

/* Letters first, then printable ASCII without what begins a comment or ends a member name. */
static bool is_plain(const char *p, size_t len)
{
	static const char *const words[] = { "y", "n", "yes", "no", "on", "off", "null", "true", "false" };

	if (!len || !is_letter(*p) || p[len - 1] == ' ' || p[len - 1] == ':')
		return false;
	for (size_t i = 0; i < len; i++) {
		if (p[i] < ' ' || p[i] > '~' || (p[i] == ' ' && p[i + 1] == '#') || (p[i] == ':' && p[i + 1] == ' '))
			return false;
	}
	for (size_t i = 0; i < NELEMS(words); i++)
		if (strlen(words[i]) == len && strncasecmp(words[i], p, len) == 0)
			return false;
	return true;
}

/* A character that YAML wants escaped though JSON does not: C1 controls, DEL, line breaks of Unicode, the
 * byte order mark, non-characters. */
static bool needs_escape(uint32_t cp)
{
	return (cp >= 0x7f && cp < 0xa0) || cp == 0x2028 || cp == 0x2029 || cp == 0xfeff || cp == 0xfffe || cp == 0xffff;
}

static uint32_t code_point(const unsigned char *p, size_t n)
{
	if (n == 2)
		return (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
	if (n == 3)
		return (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
	return n == 1 ? p[0] : 0;
}

static void write_text(const char *p, size_t len, struct str *out)
{
	struct str quoted = STR_INIT;
	size_t n;

	if (is_plain(p, len)) {
		str_put(out, p, len);
		return;
	}
	jx_write_string(&quoted, p, len);
	for (size_t i = 0; i < quoted.len; i += n) {
		const unsigned char *c = (const unsigned char *)quoted.p + i;

		n = jx_utf8_len(c, quoted.len - i);
		if (needs_escape(code_point(c, n)))
			str_printf(out, "\\u%04x", (unsigned)code_point(c, n));
		else
			str_put(out, c, n);
	}
	str_fini(&quoted);
}

static void indent(struct str *out, unsigned depth)
{
	while (depth--)
		str_puts(out, "  ");
}

static bool is_block(const json_t *v)
{
	return json_object_size(v) > 0 || json_array_size(v) > 0;
}

static void write_block(const json_t *v, unsigned depth, struct str *out);

static void write_inline(const json_t *v, struct str *out)
{
	if (json_is_string(v))
		write_text(json_string_value(v), json_string_length(v), out);
	else
		jx_write(v, out);       /* scalars, {} and [] look the same */
	str_putc(out, '\n');
}

/* The members; the first one stands where the cursor is. */
static void write_members(const json_t *v, unsigned depth, struct str *out)
{
	json_t *obj = (json_t *)(uintptr_t)v;   /* jansson iterates without const */
	bool first = true;

	for (void *it = json_object_iter(obj); it; it = json_object_iter_next(obj, it)) {
		const json_t *child = json_object_iter_value(it);

		if (!first)
			indent(out, depth);
		first = false;
		write_text(json_object_iter_key(it), json_object_iter_key_len(it), out);
		if (!is_block(child)) {
			str_puts(out, ": ");
			write_inline(child, out);
			continue;
		}
		str_puts(out, ":\n");
		indent(out, depth + 1);
		write_block(child, depth + 1, out);
	}
}

static void write_block(const json_t *v, unsigned depth, struct str *out)
{
	if (json_is_object(v)) {
		write_members(v, depth, out);
		return;
	}
	for (size_t i = 0; i < json_array_size(v); i++) {
		const json_t *child = json_array_get(v, i);

		if (i)
			indent(out, depth);
		str_puts(out, "- ");
		if (is_block(child))
			write_block(child, depth + 1, out);
		else
			write_inline(child, out);
	}
}

void yaml_write(const json_t *v, struct str *out)
{
	if (is_block(v))
		write_block(v, 0, out);
	else
		write_inline(v, out);
}
