/* What differs, for people who decide about it: every value whole, the words that changed marked, and what is hidden or
 * looks like something else spelt out.  What stands here can be read back to the byte (toolcrib(8), tool diff), so
 * that nothing becomes effective which nobody saw (HARDENING F-9).  ctl_print.c hands over the changes of a row. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#include "ctl_int.h"

#define SHORT_BYTES 72                  /* of a value that stands in the line of its place */
#define EDITS_MAX 1000                  /* words that come or go; where there are more, all between the ends does */
#define RED "\x1b[31m"
#define GREEN "\x1b[32m"
#define YELLOW "\x1b[33m"
#define PLAIN "\x1b[0m"
#define GUTTER_TEXT "  | "
#define GUTTER_JSON "  : "

/* --- spelling out */

static void spell_one(const char *p, unsigned n, uint32_t c, struct str *out)
{
	if (n == 0)
		str_printf(out, "\\x%02x", (unsigned char)*p);
	else
		str_printf(out, "\\u{%x}", c);
}

/* The text with escapes: \\, \n, \t, \u{N}, and \xNN of bytes that are no UTF-8.  Each text has one form, and no other
 * text has it. */
static void spell(const char *p, size_t len, struct str *out)
{
	bool *deceives = mem_calloc(len + 1, sizeof(*deceives));
	uint32_t c;

	text_deceives(p, len, deceives);
	for (size_t i = 0; i < len;) {
		unsigned n = text_decode(p + i, len - i, &c);

		if (n > 0 && c == '\\')
			str_puts(out, "\\\\");
		else if (n > 0 && (c == '\n' || c == '\t'))
			str_puts(out, c == '\n' ? "\\n" : "\\t");
		else if (deceives[i] || (c == ' ' && i + 1 == len))     /* a blank at the end is not seen either */
			spell_one(p + i, n, c, out);
		else
			str_put(out, p + i, n);
		i += n ? n : 1;
	}
	free(deceives);
}

/* JSON text with its own escapes for what has to be spelt out. */
static void spell_json(const char *p, size_t len, struct str *out)
{
	bool *deceives = mem_calloc(len + 1, sizeof(*deceives));
	uint32_t c;

	text_deceives(p, len, deceives);
	for (size_t i = 0; i < len;) {
		unsigned n = text_decode(p + i, len - i, &c);

		if (n == 0 || !deceives[i] || c == '\n')
			str_put(out, p + i, n ? n : 1);
		else if (c > 0xffff)
			str_printf(out, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
		else
			str_printf(out, "\\u%04x", c);
		i += n ? n : 1;
	}
	free(deceives);
}

/* Would a reader take the text for a number, a word of JSON, or a quoted or composed value? */
static bool reads_as_json(const char *p, size_t len)
{
	json_t *value = NULL;
	bool reads = len == 0 || strchr("\"{[", *p) || jx_parse(p, len, &value, NULL) == 0;

	json_decref(value);
	return reads;
}

/* A value in one line; a text stands bare when it can be nothing else. */
static void spell_line(const json_t *value, struct str *out)
{
	const char *p = json_string_value(value);
	struct str plain = STR_INIT;
	bool bare = p && *p != ' ' && !reads_as_json(p, json_string_length(value));

	if (bare)
		spell(p, json_string_length(value), out);
	if (bare && !strstr(str_text(out), "->"))
		return;
	str_reset(out);
	jx_write(value, &plain);
	spell_json(str_text(&plain), plain.len, out);
	str_fini(&plain);
}

/* A JSON pointer, without blanks: what ends it is a colon and a blank. */
static void spell_place(const json_t *where, struct str *out)
{
	struct str plain = STR_INIT;

	spell(json_string_value(where), json_string_length(where), &plain);
	for (size_t i = 0; i < plain.len; i++) {
		if (plain.p[i] == ' ')
			str_puts(out, "\\u{20}");
		else
			str_putc(out, plain.p[i]);
	}
	str_fini(&plain);
}

/* --- words */

struct piece { size_t at, len; };
struct pieces { const char *text; struct piece *v; size_t n, cap; bool *kept; };

static bool is_word_byte(char c)
{
	unsigned char b = (unsigned char)c;

	return b >= 0x80 || b == '_' || (b >= '0' && b <= '9') || ((b | 0x20) >= 'a' && (b | 0x20) <= 'z');
}

/* A word, an escape, or one character of anything else. */
static size_t piece_at(const char *p)
{
	size_t n = 1;

	if (*p == '\\')
		return p[1] == 'u' ? strcspn(p, "}") + 1 : p[1] == 'x' ? 4 : 2;
	while (is_word_byte(*p) && is_word_byte(p[n]))
		n++;
	return n;
}

static struct pieces cut(const char *text, size_t len)
{
	struct pieces c = { .text = text };

	for (size_t i = 0; i < len; i += c.v[c.n++].len) {
		if (c.n == c.cap) {
			c.cap = c.cap ? 2 * c.cap : 256;
			c.v = mem_realloc(c.v, c.cap * sizeof(*c.v));
		}
		c.v[c.n] = (struct piece){ i, piece_at(text + i) };
	}
	c.kept = mem_calloc(c.n + 1, sizeof(*c.kept));
	return c;
}

static bool same(const struct pieces *a, size_t i, const struct pieces *b, size_t j)
{
	return a->v[i].len == b->v[j].len && memcmp(a->text + a->v[i].at, b->text + b->v[j].at, a->v[i].len) == 0;
}

/* What lies between the common ends of both. */
struct middle { const struct pieces *a, *b; int64_t from, n, m; int64_t *row[EDITS_MAX + 1]; };

/* How far a path of d edits gets along diagonal k: what comes from d - 1 edits, by one piece that goes or comes. */
static int64_t step(const int64_t *before, int64_t d, int64_t k)
{
	const int64_t *mid = before + d - 1;            /* of diagonal 0 */

	if (k == -d || (k != d && mid[k - 1] < mid[k + 1]))
		return mid[k + 1];
	return mid[k - 1] + 1;
}

/* The fewest edits (E. Myers, An O(ND) Difference Algorithm, 1986), or -1: more than EDITS_MAX.  Rows of the furthest
 * points stay for the way back. */
static int64_t find_edits(struct middle *g)
{
	for (int64_t d = 0; d <= EDITS_MAX && d <= g->n + g->m; d++) {
		g->row[d] = mem_calloc((size_t)(2 * d + 1), sizeof(**g->row));
		for (int64_t k = -d; k <= d; k += 2) {
			int64_t x = d == 0 ? 0 : step(g->row[d - 1], d, k), y = x - k;

			while (x < g->n && y < g->m && same(g->a, (size_t)(g->from + x), g->b, (size_t)(g->from + y))) {
				x++;
				y++;
			}
			g->row[d][k + d] = x;
			if (x >= g->n && y >= g->m)
				return d;
		}
	}
	return -1;
}

static void keep(const struct middle *g, int64_t x, int64_t y)
{
	g->a->kept[g->from + x] = true;
	g->b->kept[g->from + y] = true;
}

/* Back along the path; d edits led to its end. */
static void walk_back(const struct middle *g, int64_t d)
{
	int64_t x = g->n, y = g->m;

	for (; d >= 0; d--) {
		int64_t k = x - y, start = d == 0 ? 0 : step(g->row[d - 1], d, k);
		const int64_t *mid = d == 0 ? NULL : g->row[d - 1] + d - 1;

		while (x > start && x > 0 && y > 0) {
			x--;
			y--;
			keep(g, x, y);
		}
		if (d > 0 && (k == -d || (k != d && mid[k - 1] < mid[k + 1])))
			y--;            /* one came */
		else if (d > 0)
			x--;            /* one went */
	}
}

static void compare(struct pieces *a, struct pieces *b)
{
	size_t most = a->n < b->n ? a->n : b->n, front = 0, back = 0;
	struct middle *g = mem_zalloc(sizeof(*g));
	int64_t d;

	while (front < most && same(a, front, b, front))
		front++;
	while (back < most - front && same(a, a->n - 1 - back, b, b->n - 1 - back))
		back++;
	for (size_t i = 0; i < front; i++)
		a->kept[i] = b->kept[i] = true;
	for (size_t i = 1; i <= back; i++)
		a->kept[a->n - i] = b->kept[b->n - i] = true;
	*g = (struct middle){ .a = a, .b = b, .from = (int64_t)front, .n = (int64_t)(a->n - front - back),
		.m = (int64_t)(b->n - front - back) };
	d = find_edits(g);
	if (d >= 0)
		walk_back(g, d);
	for (size_t i = 0; i < NELEMS(g->row); i++)
		free(g->row[i]);
	free(g);
}

/* --- blocks */

struct block {
	FILE *out;
	const char *indent, *gutter;
	const char *red, *green, *plain;
	bool broken;                    /* a line begins before whatever comes next */
};

static void block_begin(struct block *b)
{
	if (b->broken)
		fprintf(b->out, "\n%s%s", b->indent, b->gutter);
	b->broken = false;
}

/* Does a text have here what reads as a mark?  Then a backslash stands in front. */
static bool is_like_mark(const char *p, const char *end)
{
	char next = p + 1 < end ? p[1] : '\0';

	return (*p == '[' && (next == '-' || !next)) || (*p == '{' && (next == '+' || !next)) ||
	       (*p == '-' && next == ']') || (*p == '+' && next == '}');
}

/* A run of pieces with marks around it; sign ' ' = without.  A line of the text ends where it says \n, and so do the
 * marks, which begin again. */
static void put_run(struct block *b, const char *p, const char *end, char sign)
{
	bool open = false;

	while (p < end) {
		size_t n = *p == '\\' ? piece_at(p) : 1;

		block_begin(b);
		if (!open && sign != ' ')
			fputs(sign == '-' ? b->red : b->green, b->out);
		if (!open && sign != ' ')
			fputs(sign == '-' ? "[-" : "{+", b->out);
		open = true;
		if (is_like_mark(p, end))
			fputc('\\', b->out);
		fwrite(p, 1, n, b->out);
		b->broken = n == 2 && p[1] == 'n';
		p += n;
		if (sign != ' ' && (b->broken || p == end)) {
			fprintf(b->out, "%s%s", sign == '-' ? "-]" : "+}", b->plain);
			open = false;
		}
	}
}

/* Behind those from piece `from` on that the other text has not. */
static size_t own_end(const struct pieces *c, size_t from)
{
	while (from < c->n && !c->kept[from])
		from++;
	return from;
}

static void put_pieces(struct block *b, const struct pieces *c, size_t from, size_t to, char sign)
{
	if (to > from)
		put_run(b, c->text + c->v[from].at, c->text + c->v[to - 1].at + c->v[to - 1].len, sign);
}

static void put_compared(struct block *b, const struct pieces *was, const struct pieces *is)
{
	size_t i = 0, j = 0;

	while (i < was->n || j < is->n) {
		size_t gone = own_end(was, i), come = own_end(is, j), both = 0;

		put_pieces(b, was, i, gone, '-');
		put_pieces(b, is, j, come, '+');
		while (gone + both < was->n && come + both < is->n && was->kept[gone + both] && is->kept[come + both])
			both++;
		put_pieces(b, is, come, come + both, ' ');
		i = gone + both;
		j = come + both;
	}
}

static void put_words(struct block *b, const json_t *from, const json_t *to)
{
	struct str was = STR_INIT, is = STR_INIT;
	struct pieces a, c;

	spell(json_string_value(from), json_string_length(from), &was);
	spell(json_string_value(to), json_string_length(to), &is);
	a = cut(str_text(&was), was.len);
	c = cut(str_text(&is), is.len);
	compare(&a, &c);
	b->broken = true;
	put_compared(b, &a, &c);
	fputc('\n', b->out);
	free(a.v);
	free(a.kept);
	free(c.v);
	free(c.kept);
	str_fini(&was);
	str_fini(&is);
}

static void put_value(struct block *b, const json_t *value)
{
	struct str plain = STR_INIT, shown = STR_INIT;
	const char *line, *nl;

	if (json_is_string(value)) {
		b->gutter = GUTTER_TEXT;
		b->broken = true;
		spell(json_string_value(value), json_string_length(value), &shown);
		put_run(b, str_text(&shown), str_text(&shown) + shown.len, ' ');
		fputc('\n', b->out);
	} else {
		jx_write_pretty(value, &plain);
		spell_json(str_text(&plain), plain.len, &shown);
		for (line = str_text(&shown); *line; line = *nl ? nl + 1 : nl) {
			nl = line + strcspn(line, "\n");
			fprintf(b->out, "%s%s%s", line == str_text(&shown) ? "\n" : "", b->indent, GUTTER_JSON);
			fprintf(b->out, "%.*s\n", (int)(nl - line), line);
		}
	}
	str_fini(&plain);
	str_fini(&shown);
}

/* --- changes */

static void put_head(const struct ctl_print *p, const char *indent, char sign, const char *where)
{
	const char *colour = sign == '+' ? GREEN : sign == '-' || sign == '!' ? RED : YELLOW;

	fprintf(p->out, "%s%s%c%s %s:", indent, p->colour ? colour : "", sign, p->colour ? PLAIN : "", where);
}

static bool is_short(const struct str *a, const struct str *b)
{
	return a->len <= SHORT_BYTES && b->len <= SHORT_BYTES && !strstr(str_text(a), "\\n") && !strstr(str_text(b), "\\n");
}

void ctl_print_change(const struct ctl_print *p, const json_t *change, const char *indent)
{
	const char *sign = json_string_value(json_object_get(change, "sign"));
	const json_t *from = json_object_get(change, "from"), *to = json_object_get(change, "to");
	const json_t *breaks = json_object_get(change, "breaks");
	struct block b = { .out = p->out, .indent = indent, .gutter = GUTTER_TEXT, .red = p->colour ? RED : "",
		.green = p->colour ? GREEN : "", .plain = p->colour ? PLAIN : "" };
	struct str where = STR_INIT, was = STR_INIT, is = STR_INIT;

	spell_place(json_object_get(change, "where"), &where);
	if (from)
		spell_line(from, &was);
	if (to)
		spell_line(to, &is);
	if (breaks) {
		spell_line(breaks, &is);
		put_head(p, indent, '!', str_text(&where));
		fprintf(p->out, " %s\n", str_text(&is));
	} else if (is_short(&was, &is)) {
		put_head(p, indent, sign ? *sign : '~', str_text(&where));
		fprintf(p->out, " %s%s%s\n", str_text(&was), from && to ? " -> " : "", str_text(&is));
	} else if (json_is_string(from) && json_is_string(to)) {
		put_head(p, indent, '~', str_text(&where));
		put_words(&b, from, to);
	} else {
		if (from) {
			put_head(p, indent, '-', str_text(&where));
			put_value(&b, from);
		}
		if (to) {
			put_head(p, indent, '+', str_text(&where));
			put_value(&b, to);
		}
	}
	str_fini(&where);
	str_fini(&was);
	str_fini(&is);
}
