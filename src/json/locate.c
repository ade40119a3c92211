/* Where values stand in a text: one pass with the pointers that still fit as a set of bits (locate, for redaction). */
#include "config.h"

#include "json/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json_int.h"

/* Pointers whose tokens have all fitted down to here, and how many tokens that is. */
struct level { uint64_t fit; size_t index; bool array; };

struct locate {
	size_t n;
	const char *rest[JX_LOCATE_MAX][JX_DEPTH_MAX + 1];      /* what is left of pointer i at a depth; NULL = does not fit */
	struct level level[JX_DEPTH_MAX + 1];
	unsigned depth;
	jx_located_fn *fn;
	void *arg;
};

static const char *skip_string(const char *p)
{
	for (p++; *p != '"'; p++)
		p += *p == '\\';
	return p + 1;
}

static const char *skip_space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
		p++;
	return p;
}

/* Over the value at p, which the scan has found sound. */
static const char *skip_value(const char *p, const char *end)
{
	unsigned open = 0;

	do {
		if (*p == '"') {
			p = skip_string(p);
			continue;
		}
		if (*p == '{' || *p == '[')
			open++;
		else if (*p == '}' || *p == ']')
			open--;
		p++;
		if (open == 0 && (p[-1] == '}' || p[-1] == ']'))
			return p;
	} while (p < end && (open > 0 || !strchr(",}] \t\n\r", *p)));
	return p;
}

/* Which of the pointers that fit here go on with this member name or index; *ret_whole: one that ends there. */
static uint64_t fit_token(struct locate *l, const char *name, size_t index, int *ret_whole)
{
	const struct level *here = &l->level[l->depth];
	uint64_t fit = 0;

	*ret_whole = -1;
	for (size_t i = 0; i < l->n; i++) {
		char token[JX_NAME_MAX + 1];
		const char *rest = l->rest[i][l->depth];
		size_t at;

		if (!(here->fit >> i & 1) || *rest != '/')
			continue;
		rest++;
		if (!jx_pointer_token(&rest, token))
			continue;
		if (here->array ? !jx_pointer_index(token, &at) || at != index : strcmp(token, name) != 0)
			continue;
		l->rest[i][l->depth + 1] = rest;
		fit |= UINT64_C(1) << i;
		if (*rest == '\0' && *ret_whole < 0)
			*ret_whole = (int)i;
	}
	return fit;
}

static const char *read_name(const char *p, char ret[JX_NAME_MAX + 1])
{
	const char *end = skip_string(p);
	size_t n = jx_unescape(p + 1, (size_t)(end - p) - 2, ret, JX_NAME_MAX);

	ret[n < JX_NAME_MAX ? n : JX_NAME_MAX] = '\0';
	return end;
}

static void enter(struct locate *l, const char *p, uint64_t fit)
{
	l->depth++;
	l->level[l->depth] = (struct level){ .fit = fit, .array = *p == '[' };
}

/* A member or element at p, behind the brace, the bracket or the comma; behind it, or into it. */
static const char *step(struct locate *l, const char *p, const char *text, const char *end)
{
	struct level *here = &l->level[l->depth];
	char name[JX_NAME_MAX + 1] = "";
	const char *next;
	uint64_t fit;
	int whole;

	if (!here->array) {
		p = skip_space(read_name(p, name), end);
		p = skip_space(p + 1, end);             /* the colon */
	}
	fit = fit_token(l, name, here->index++, &whole);
	if (fit && whole < 0 && (*p == '{' || *p == '[') && l->depth < JX_DEPTH_MAX) {
		enter(l, p, fit);
		return p + 1;
	}
	next = skip_value(p, end);
	if (whole >= 0)
		l->fn(l->arg, (size_t)whole, (size_t)(p - text), (size_t)(next - text));
	return next;
}

/* All that is in the container whose inside begins at p. */
static void walk(struct locate *l, const char *p, const char *text, const char *end)
{
	for (;;) {
		p = skip_space(p, end);
		if (*p == '}' || *p == ']') {
			p++;
			if (l->depth-- == 0)
				return;
		} else if (*p == ',') {
			p++;
		} else {
			p = step(l, p, text, end);
		}
	}
}

void jx_locate(const char *text, size_t len, const char *const *pointers, size_t n, jx_located_fn *fn, void *arg)
{
	const char *end = text + len, *p = skip_space(text, end);
	struct locate *l = mem_zalloc(sizeof *l);

	l->n = n;
	l->fn = fn;
	l->arg = arg;
	for (size_t i = 0; i < n; i++) {
		l->rest[i][0] = pointers[i];
		l->level[0].fit |= UINT64_C(1) << i;
		if (pointers[i][0] == '\0') {
			fn(arg, i, (size_t)(p - text), (size_t)(skip_value(p, end) - text));
			free(l);
			return;
		}
	}
	l->level[0].array = *p == '[';
	if (n > 0 && (*p == '{' || *p == '['))
		walk(l, p + 1, text, end);
	free(l);
}
