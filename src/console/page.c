/* Pages out of templates: each value is escaped for the place where it stands, which contrib/htmlgen.awk has found out,
 * and there is no other way to put one (CONSOLE 13).  What a person would not see of a text is spelt out.  Pure. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"

#include "console_int.h"

/* --- escaping */

static const char *entity(char c)
{
	switch (c) {
	case '&': return "&amp;";
	case '<': return "&lt;";
	case '>': return "&gt;";
	case '"': return "&quot;";
	case '\'': return "&#39;";
	default: return NULL;
	}
}

/* Line feeds and tabs may stand in a text; what is hidden, or taken for something else, is spelt out. */
static void page_text(struct str *out, const char *p, size_t len)
{
	bool *deceives = text_plain_run(p, len) < len ? mem_calloc(len + 1, sizeof(*deceives)) : NULL;
	uint32_t c;

	if (deceives)
		text_deceives(p, len, deceives);
	for (size_t i = 0; i < len; ) {
		const unsigned n = text_decode(p + i, len - i, &c);
		const char *e = entity(p[i]);

		if (n == 0)
			str_printf(out, "⟨\\x%02x⟩", (unsigned char)p[i]);
		else if (text_is_hidden(c) || (deceives && deceives[i])) {
			if (c == '\n' || c == '\t')
				str_putc(out, (char)c);
			else
				str_printf(out, "⟨U+%04" PRIX32 "⟩", c);
		}
		else if (e)
			str_puts(out, e);
		else
			str_put(out, p + i, n);
		i += n ? n : 1;
	}
	free(deceives);
}

static bool is_unreserved(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
		c == '.' || c == '~';
}

static void page_path(struct str *out, const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (is_unreserved(p[i]))
			str_putc(out, p[i]);
		else
			str_printf(out, "%%%02X", (unsigned char)p[i]);
	}
}

/* --- templates */

static const char *base = "";           /* set once, before there are pages */

void page_set_base(const char *set)
{
	base = set;
}

const char *page_base(void)
{
	return base;
}

static const struct page_segment *find(const char *part)
{
	const struct page_segment *s = page_segments;

	while (s->kind != PAGE_PART || !s->name || strcmp(s->name, part) != 0) {
		if (s->kind == PAGE_PART && !s->name)
			abort();
		s++;
	}
	return s + 1;
}

static const char *value_of(const char *name, const struct page_value *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(values[i].name, name) == 0)
			return values[i].value ? values[i].value : "";
	if (strcmp(name, "hash") == 0)
		return page_asset(NULL, NULL);
	abort();
}

void page_put(struct str *out, const char *part, const struct page_value *values, size_t n)
{
	for (const struct page_segment *s = find(part); ; s++) {
		const char *value;

		str_puts(out, s->text);
		if (s->kind == PAGE_END)
			return;
		if (s->kind == PAGE_BASE) {
			str_puts(out, base);
			continue;
		}
		value = value_of(s->name, values, n);
		if (s->kind == PAGE_TEXT)
			page_text(out, value, strlen(value));
		else
			page_path(out, value, strlen(value));
	}
}

/* --- style sheet and script, whose address changes with them */

const char *page_asset(const char *part, const char **ret_text)
{
	const char *css = find("css")->text, *mjs = find("mjs")->text;
	static char hash[17];
	uint8_t digest[DIGEST_SIZE];
	struct digest *all;

	if (ret_text)
		*ret_text = find(part)->text;
	if (!*hash) {
		all = digest_new();
		digest_put(all, css, strlen(css) + 1);
		digest_put(all, mjs, strlen(mjs));
		digest_end(&all, digest);
		text_hex(digest, (sizeof(hash) - 1) / 2, hash);
	}
	return hash;
}
