/* Fuzz target: an ECMA-262 pattern on the first line, a text on each further one.
 *   - The translation is a function of the pattern and has nothing of PCRE2's own syntax in it.
 *   - What is refused stays refused as the second of two alternatives, and is never compiled.
 *   - A group around the whole changes no verdict.
 *   - A match ends within its limit: its price is bounded by the length of the text, and asking again says the same. */

#include "config.h"

#include <string.h>

#include "../../src/schema/schema_int.h"
#include "base/mem.h"
#include "base/text.h"
#include "fuzz.h"

enum {
	EASY = 8, EASY_BYTES = 16,      /* of a match at once, and bytes of text per further step */
	HARD = 1000, HARD_BYTES = 100,  /* of one that has to look again, and bytes of text for as much again */
	RESCAN = 100000,                /* of one that looks at the same bytes again */
};

/* All that stands raw in a translation and opens something of PCRE2's is a "(": a literal one is \x{28}. */
static void check_syntax(const char *text)
{
	static const char *const groups[] = { "?:", "?=", "?!", "?<=", "?<!" };

	for (const char *p = text; (p = strchr(p, '('));) {
		bool known = *++p != '?';

		FUZZ_CHECK(*p != '*');
		for (size_t i = 0; i < sizeof groups / sizeof *groups && !known; i++)
			known = strncmp(p, groups[i], strlen(groups[i])) == 0;
		FUZZ_CHECK(known);
	}
}

static bool translate(const char *p, size_t len, struct str *out)
{
	const char *why = NULL;
	bool ok = regex_translate(p, len, out, &why);

	FUZZ_CHECK(ok || (why && *why));
	return ok;
}

/* *ret_ok: could it be translated? */
static void check_translation(const char *p, size_t len, bool *ret_ok)
{
	struct str once = STR_INIT, twice = STR_INIT, choice = STR_INIT, second = STR_INIT;

	*ret_ok = translate(p, len, &once);
	FUZZ_CHECK(translate(p, len, &twice) == *ret_ok);
	if (*ret_ok) {
		FUZZ_CHECK(strcmp(str_text(&once), str_text(&twice)) == 0);
		check_syntax(str_text(&once));
	} else {
		str_putc(&choice, '|');
		str_put(&choice, p, len);
		FUZZ_CHECK(!translate(choice.p, choice.len, &second));
	}
	str_fini(&once);
	str_fini(&twice);
	str_fini(&choice);
	str_fini(&second);
}

static const struct regex *compile(struct arena *mem, const char *p, size_t len)
{
	const struct regex *re = NULL;
	struct err e = { 0 };

	if (regex_compile(mem, p, len, &re, &e) == 0)
		return re;
	FUZZ_CHECK(!re && *e.msg && (e.code == ERR_INVALID || e.code == ERR_LIMIT));
	return NULL;
}

static int match(const struct regex *re, const char *p, size_t len, struct regex_room **room)
{
	size_t steps = 0, again = 0;
	int rc = regex_match(re, p, len, room, &steps);

	FUZZ_CHECK(rc == 1 || rc == 0 || rc == ERR_LIMIT);
	FUZZ_CHECK(steps >= EASY && steps <= EASY + len / EASY_BYTES + HARD * (len / HARD_BYTES + 1) + RESCAN);
	FUZZ_CHECK(regex_match(re, p, len, room, &again) == rc && again == steps);
	return rc;
}

static void check_text(const struct regex *re, const struct regex *grouped, const char *p, size_t len)
{
	struct regex_room *room = NULL;
	int rc = match(re, p, len, &room), same = grouped ? match(grouped, p, len, &room) : rc;

	FUZZ_CHECK(rc == same || rc == ERR_LIMIT || same == ERR_LIMIT);
	regex_room_free(&room);
}

static const struct regex *compile_grouped(struct arena *mem, const char *p, size_t len)
{
	const struct regex *re;
	struct str text = STR_INIT;

	str_puts(&text, "(?:");
	str_put(&text, p, len);
	str_putc(&text, ')');
	re = compile(mem, text.p, text.len);
	str_fini(&text);
	return re;
}

static size_t line_length(const char *p, const char *end)
{
	const char *line = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;

	return (size_t)((line ? line : end) - p);
}

FUZZ_TARGET(pattern)
{
	const char *p = (const char *)data, *end = p + size;
	size_t len = line_length(p, end);
	struct arena *mem;
	const struct regex *re, *grouped;
	bool translated;

	if (!text_utf8_valid(p, size))
		return 0;
	check_translation(p, len, &translated);
	mem = arena_new(2 * SCHEMA_MEMORY_MAX);
	re = compile(mem, p, len);
	FUZZ_CHECK(!re || translated);
	if (re) {
		FUZZ_CHECK(strlen(regex_source(re)) <= len);
		grouped = compile_grouped(mem, p, len);
		while ((p += len) < end) {
			len = line_length(++p, end);
			check_text(re, grouped, p, len);
		}
	}
	arena_free(&mem);
	return 0;
}
