/* Where values stand in a text, for redaction: pointers, one in each line, then an empty line and the text.  Each place that is
 * told is the value that the parsed text has at that pointer, and none is left out. */
#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "json/json.h"

#include "fuzz.h"

struct search {
	const char *text, *pointer[JX_LOCATE_MAX];
	size_t len, n, end;             /* end: of the place before */
	json_t *root;
	bool told[JX_LOCATE_MAX];
};

static void located(void *arg, size_t pointer, size_t from, size_t to)
{
	struct search *s = arg;
	json_t *value = NULL, *want = jx_at(s->root, s->pointer[pointer]);
	struct err err;

	FUZZ_CHECK(from >= s->end && from < to && to <= s->len && want);
	s->end = to;
	FUZZ_CHECK(jx_parse(s->text + from, to - from, &value, &err) == 0);
	FUZZ_CHECK(jx_equal(value, want));
	json_decref(value);
	s->told[pointer] = true;
}

/* What none of the others stands above of, and what stands only once in the list, has to be told. */
static bool has_to_be_told(const struct search *s, size_t i)
{
	if (!jx_at(s->root, s->pointer[i]))
		return false;
	for (size_t k = 0; k < s->n; k++) {
		size_t len = strlen(s->pointer[k]);

		if (k != i && strncmp(s->pointer[k], s->pointer[i], len) == 0 && (s->pointer[i][len] == '/' || !s->pointer[i][len]))
			return false;
	}
	return true;
}

static void search(struct search *s)
{
	jx_locate(s->text, s->len, s->pointer, s->n, located, s);
	for (size_t i = 0; i < s->n; i++)
		FUZZ_CHECK(s->told[i] || !has_to_be_told(s, i));
}

/* The pointers, in a copy of their own; NULL: they are none. */
static char *take_pointers(struct search *s, const uint8_t *data, size_t size)
{
	const uint8_t *end = memmem(data, size, "\n\n", 2);
	char *lines, *p;

	if (!end || memchr(data, '\0', (size_t)(end - data)))
		return NULL;
	lines = p = mem_alloc((size_t)(end - data) + 1);
	memcpy(lines, data, (size_t)(end - data));
	lines[end - data] = '\0';
	for (char *line; (line = strsep(&p, "\n")) && s->n < JX_LOCATE_MAX;)
		if (jx_pointer_valid(line))
			s->pointer[s->n++] = line;
	s->text = (const char *)end + 2;
	s->len = size - (size_t)(end + 2 - data);
	return lines;
}

FUZZ_TARGET(locate)
{
	struct search s = { 0 };
	char *lines = take_pointers(&s, data, size);
	struct err err;

	if (lines && jx_parse(s.text, s.len, &s.root, &err) == 0) {
		search(&s);
		json_decref(s.root);
	}
	free(lines);
	return 0;
}
