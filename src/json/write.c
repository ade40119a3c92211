/* Trees to text: compact, indented, canonical.  Numbers are written as they came or in the shortest
 * form that reads back as the same value; strings with the escapes of RFC 8785 3.2.2. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#include "json_int.h"

enum form { FORM_COMPACT, FORM_PRETTY, FORM_CANON, FORM_WORDS };

/* STRINGS */

static void write_escape(struct str *out, unsigned char c)
{
	static const char hex[] = "0123456789abcdef", letters[] = "btn fr";
	char u[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };

	if (c == '"' || c == '\\') {
		str_putc(out, '\\');
		str_putc(out, (char)c);
	} else if (c >= '\b' && c <= '\r' && c != '\v') {
		str_putc(out, '\\');
		str_putc(out, letters[c - '\b']);
	} else {
		str_put(out, u, sizeof(u));
	}
}

void jx_write_string(struct str *out, const char *p, size_t len)
{
	const unsigned char *b = (const unsigned char *)p;
	size_t from = 0, i = 0;

	str_putc(out, '"');
	while (i += text_plain_run(p + i, len - i), i < len) {
		bool special = b[i] < 0x20 || b[i] == '"' || b[i] == '\\';
		size_t n = special ? 0 : jx_utf8_len(b + i, len - i);

		i += n;
		if (n > 0)
			continue;
		str_put(out, p + from, i - from);
		if (special)
			write_escape(out, b[i]);
		else
			str_puts(out, "\xef\xbf\xbd");
		from = ++i;
	}
	str_put(out, p + from, len - from);
	str_putc(out, '"');
}

void jx_write_stringz(struct str *out, const char *z)
{
	jx_write_string(out, z, strlen(z));
}

/* NUMBERS */

static void put_zeros(struct str *out, int64_t n)
{
	while (n-- > 0)
		str_putc(out, '0');
}

/* A whole number within int64 in canonical form. */
static bool write_int64(const struct jx_decimal *d, struct str *out)
{
	char text[24] = "-";
	size_t n = d->n + (size_t)d->exp10;
	int64_t i;

	if (d->exp10 < 0 || d->exp10 > 18 || n > 19)
		return false;
	memcpy(text + 1, d->digits, d->n);
	memset(text + 1 + d->n, '0', n - d->n);
	if (text_i64(text + !d->negative, n + d->negative, &i) != 0)
		return false;
	str_put_i64(out, i);
	return true;
}

/* As ECMA-262 6.1.6.1.20 does, but so that it reads back as the same value: the canonical form writes whole
 * numbers as the integers they equal and those beyond int64 with an exponent; the other forms keep a mark
 * that it is no integer. */
static void write_decimal(const struct jx_decimal *d, enum form form, struct str *out)
{
	const char *digits = d->n ? d->digits : "0";
	size_t k = d->n ? d->n : 1;
	int64_t point = (int64_t)k + d->exp10;          /* digits before the decimal point */

	if (form == FORM_CANON && (!d->n || write_int64(d, out))) {
		str_puts(out, d->n ? "" : "0");
		return;
	}
	if (d->negative && d->n)
		str_putc(out, '-');
	if (point > (form == FORM_CANON ? (int64_t)k - 1 : 21) || point < -5) {
		str_put(out, digits, 1);
		if (k > 1) {
			str_putc(out, '.');
			str_put(out, digits + 1, k - 1);
		}
		str_printf(out, "e%c%" PRId64, point > 0 ? '+' : '-', point > 0 ? point - 1 : 1 - point);
	} else if (point <= 0) {
		str_puts(out, "0.");
		put_zeros(out, -point);
		str_put(out, digits, k);
	} else if (point >= (int64_t)k) {
		str_put(out, digits, k);
		put_zeros(out, point - (int64_t)k);
		str_puts(out, form == FORM_WORDS ? "" : ".0");
	} else {
		str_put(out, digits, (size_t)point);
		str_putc(out, '.');
		str_put(out, digits + point, k - (size_t)point);
	}
}

static void write_number(struct jx_number n, enum form form, struct str *out)
{
	struct jx_decimal d;

	if (n.kind == JX_INTEGER) {
		str_put_i64(out, n.i);
	} else if (n.kind == JX_TEXT && form != FORM_CANON) {
		str_puts(out, n.text);
	} else {
		jx_decimal(n, &d);
		write_decimal(&d, form, out);
	}
}

void jx_write_number(struct jx_number n, struct str *out)
{
	write_number(n, FORM_WORDS, out);
}

/* TREES */

static void new_line(struct str *out, enum form form, unsigned depth)
{
	if (form != FORM_PRETTY)
		return;
	str_putc(out, '\n');
	while (depth--)
		str_puts(out, "  ");
}

static void write_value(const json_t *v, enum form form, unsigned depth, struct str *out);

static void write_array(const json_t *v, enum form form, unsigned depth, struct str *out)
{
	size_t n = json_array_size(v);

	str_putc(out, '[');
	for (size_t i = 0; i < n; i++) {
		if (i)
			str_putc(out, ',');
		new_line(out, form, depth + 1);
		write_value(json_array_get(v, i), form, depth + 1, out);
	}
	if (n)
		new_line(out, form, depth);
	str_putc(out, ']');
}

static void write_member(const char *name, const json_t *v, enum form form, unsigned depth, struct str *out)
{
	new_line(out, form, depth);
	jx_write_stringz(out, name);
	str_puts(out, form == FORM_PRETTY ? ": " : ":");
	write_value(v, form, depth, out);
}

static int order_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void write_members_sorted(json_t *obj, unsigned depth, struct str *out)
{
	size_t n = json_object_size(obj), i = 0;
	const char **names = mem_calloc(n, sizeof(*names));

	for (void *it = json_object_iter(obj); it; it = json_object_iter_next(obj, it))
		names[i++] = json_object_iter_key(it);
	qsort(names, n, sizeof(*names), order_names);
	for (i = 0; i < n; i++) {
		if (i)
			str_putc(out, ',');
		write_member(names[i], json_object_get(obj, names[i]), FORM_CANON, depth, out);
	}
	free(names);
}

static void write_object(const json_t *v, enum form form, unsigned depth, struct str *out)
{
	json_t *obj = (json_t *)(uintptr_t)v;   /* jansson iterates without const */
	bool first = true;

	str_putc(out, '{');
	if (form == FORM_CANON && json_object_size(v) > 0)
		write_members_sorted(obj, depth + 1, out);
	for (void *it = json_object_iter(obj); it && form != FORM_CANON; it = json_object_iter_next(obj, it)) {
		if (!first)
			str_putc(out, ',');
		first = false;
		write_member(json_object_iter_key(it), json_object_iter_value(it), form, depth + 1, out);
	}
	if (!first)
		new_line(out, form, depth);
	str_putc(out, '}');
}

/* Recursion is bounded where trees are made: 64 levels from outside, a few more of our own. */
static void write_value(const json_t *v, enum form form, unsigned depth, struct str *out)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		write_object(v, form, depth, out);
		break;
	case JSON_ARRAY:
		write_array(v, form, depth, out);
		break;
	case JSON_STRING:
		jx_write_string(out, json_string_value(v), json_string_length(v));
		break;
	case JSON_INTEGER:
	case JSON_REAL:
		write_number(jx_number(v), form, out);
		break;
	case JSON_TRUE:
		str_puts(out, "true");
		break;
	case JSON_FALSE:
		str_puts(out, "false");
		break;
	case JSON_NULL:
		str_puts(out, "null");
		break;
	}
}

void jx_write(const json_t *v, struct str *out)
{
	write_value(v, FORM_COMPACT, 0, out);
}

void jx_write_pretty(const json_t *v, struct str *out)
{
	write_value(v, FORM_PRETTY, 0, out);
}

void jx_write_canon(const json_t *v, struct str *out)
{
	write_value(v, FORM_CANON, 0, out);
}

/* What is hidden is legal inside JSON strings, but some terminals obey it and nobody sees it. */
void jx_write_seen(const json_t *v, struct str *ret)
{
	struct str out = STR_INIT;
	unsigned n;

	jx_write(v, &out);
	for (size_t i = 0; i < out.len; i += n) {
		uint32_t c = 0xfffd;

		n = text_decode(out.p + i, out.len - i, &c);
		if (n == 0)
			n = 1;          /* there is none */
		if (!text_is_hidden(c))
			str_put(ret, out.p + i, n);
		else if (c > 0xffff)
			str_printf(ret,
				"\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
		else
			str_printf(ret, "\\u%04x", c);
	}
	str_fini(&out);
}

static bool all_scalars(const json_t *array)
{
	const json_t *item;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)array, i, item)
		if (json_is_object(item) || json_is_array(item))
			return false;
	return true;
}

void jx_write_plain(const json_t *v, struct str *out)
{
	const json_t *item;
	size_t i;

	if (json_is_boolean(v)) {
		str_puts(out, json_is_true(v) ? "yes" : "no");
	} else if (json_is_string(v)) {
		str_put(out, json_string_value(v), json_string_length(v));
	} else if (json_is_array(v) && all_scalars(v)) {
		json_array_foreach((json_t *)(uintptr_t)v, i, item) {
			str_puts(out, i ? ", " : "");
			if (json_is_null(item))
				str_putc(out, '-');
			else
				jx_write_plain(item, out);
		}
		if (json_array_size(v) == 0)
			str_putc(out, '-');
	} else if (v && !json_is_null(v)) {
		jx_write(v, out);
	}
}
