/* What differs between two versions, for people who decide about it: every value whole, and in texts the words that
 * went and came (CONSOLE 7, C-802).  What is hidden or looks like something else is spelt out by page.c. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/json.h"

#include "console_int.h"

#define EDITS_MAX 1000                  /* words of each side that are compared; where there are more,
	all between the ends differs */

struct piece { const char *p; size_t len; bool kept; };
struct pieces { struct piece *v; size_t n; };

static bool is_word_byte(char c)
{
	const unsigned char b = (unsigned char)c;

	return b >= 0x80 || b == '_' || (b >= '0' && b <= '9') || ((b | 0x20) >= 'a' && (b | 0x20) <= 'z');
}

/* Words, and single characters between them. */
static struct pieces cut(const char *text)
{
	struct pieces c = { mem_calloc(strlen(text) + 1, sizeof(struct piece)), 0 };

	while (*text) {
		size_t n = 1;

		while (is_word_byte(*text) && is_word_byte(text[n]))
			n++;
		c.v[c.n++] = (struct piece){ text, n, false };
		text += n;
	}
	return c;
}

static bool same(const struct piece *a, const struct piece *b)
{
	return a->len == b->len && memcmp(a->p, b->p, a->len) == 0;
}

/* The longest common row of pieces; the tables are bounded by EDITS_MAX. */
static void match(struct piece *a, size_t na, struct piece *b, size_t nb)
{
	uint16_t *best;
	size_t i = 0, k = 0;

	if (na == 0 || nb == 0 || na > EDITS_MAX || nb > EDITS_MAX)
		return;
	best = mem_calloc((na + 1) * (nb + 1), sizeof(*best));
#define BEST(x, y) best[(x) * (nb + 1) + (y)]
	for (size_t x = na; x-- > 0;)
		for (size_t y = nb; y-- > 0;)
			BEST(x, y) = same(&a[x], &b[y]) ? (uint16_t)(BEST(x + 1, y + 1) + 1) :
				BEST(x + 1, y) > BEST(x, y + 1) ? BEST(x + 1, y) : BEST(x, y + 1);
	while (i < na && k < nb) {
		if (same(&a[i], &b[k]))
			a[i++].kept = b[k++].kept = true;
		else if (BEST(i + 1, k) >= BEST(i, k + 1))
			i++;
		else
			k++;
	}
#undef BEST
	free(best);
}

static void compare(struct pieces *a, struct pieces *b)
{
	size_t front = 0, back = 0;

	while (front < a->n && front < b->n && same(&a->v[front], &b->v[front])) {
		a->v[front].kept = b->v[front].kept = true;
		front++;
	}
	while (front + back < a->n && front + back < b->n && same(&a->v[a->n - 1 - back], &b->v[b->n - 1 - back])) {
		a->v[a->n - 1 - back].kept = b->v[b->n - 1 - back].kept = true;
		back++;
	}
	match(a->v + front, a->n - front - back, b->v + front, b->n - front - back);
}

/* A cell; what is alike of neighbours goes out at once, so that page.c judges whole words. */
static void put_side(struct str *html, const struct pieces *c, const char *changed)
{
	PAGE_PLAIN(html, "side");
	for (size_t i = 0; i < c->n;) {
		const bool kept = c->v[i].kept;
		const char *from = c->v[i].p;
		char *text;

		while (i < c->n && c->v[i].kept == kept)
			i++;
		text = mem_printf("%.*s", (int)(c->v[i - 1].p + c->v[i - 1].len - from), from);
		PAGE(html, kept ? "side-same" : changed, { "text", text });
		free(text);
	}
	PAGE_PLAIN(html, "side-end");
}

static void put_change(struct str *html, const json_t *row)
{
	static const struct { const char *sign, *says; } signs[] = {
		{ "+", "new" }, { "-", "gone" }, { "~", "changed" }, { "!", "breaks callers" } };
	char *sign = view_text(json_object_get(row, "sign"), 8), *where = view_text(json_object_get(row,
		"where"), CON_LONG_MAX);
	char *from = view_text(json_object_get(row, "from"), CON_LONG_MAX), *to = view_text(json_object_get(row,
		"to"), CON_LONG_MAX);
	char *breaks = view_text(json_object_get(row, "breaks"), CON_LONG_MAX);
	struct pieces a = cut(*breaks ? "" : from), b = cut(*breaks ? breaks : to);
	const char *says = sign;

	for (size_t i = 0; i < NELEMS(signs); i++)
		says = strcmp(sign, signs[i].sign) == 0 ? signs[i].says : says;
	compare(&a, &b);
	PAGE(html, "change", { "says", says }, { "where", where });
	put_side(html, &a, "side-went");
	put_side(html, &b, *breaks ? "side-same" : "side-came");
	PAGE_PLAIN(html, "row-end");
	free(a.v);
	free(b.v);
	free(sign);
	free(where);
	free(from);
	free(to);
	free(breaks);
}

void words_diff(const struct request *q, struct str *html, const struct answer *a)
{
	const json_t *row;
	size_t i;

	if (json_array_size(a->rows) == 0) {
		PAGE(html, "none", { "text", "Nothing differs." });
		return;
	}
	PAGE(html, "changes", { "name", request_param(q, "name") });
	json_array_foreach(a->rows, i, row)
		put_change(html, row);
	PAGE_PLAIN(html, "rows-end");
}
