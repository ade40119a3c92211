/* Patterns at run time: PCRE2 code in the schema's arena, matched within limits.  PCRE2 counts its match
 * limit anew for each place where a match may begin, so the limit shrinks with the text's length.  And it
 * counts points to come back to, not bytes: a loop that is never come back into costs nothing, though it may
 * run to the end of the text from each place.  So where a pattern may begin anywhere all loops can be come
 * back into, and where it may look at the same bytes again the limit shrinks with the length once more. */
#include "config.h"

#include "schema_int.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define MATCH_MAX 20000         /* backtracking points of one match (SEC S-209) */
#define MATCH_FIRST 500         /* what most matches never need; beyond it the work is charged */
#define MATCH_FIRST_LOOSE 64    /* the same for a pattern that may begin anywhere */
#define MATCH_LOOSE_WORK 200000u /* places times points, for a pattern that may begin anywhere: under 1 ms */
#define RESCAN_WORK 100000000u  /* points times bytes, for a pattern that looks ahead or back at a group */
#define RESCAN_STEP 1000        /* of these per step */
#define NESTED_WORK 2000000u    /* points times bytes, for one that looks ahead or back inside a group: under 1 ms */
#define HEAP_MAX_KIB 4096
#define STEP_BASE 8             /* steps of an easy match */
#define STEP_BYTES 16           /* bytes of text per further step */
#define STEP_HARD 1000          /* steps of a match that needed more than the first limit */

struct regex {
	const pcre2_code *code;
	bool loose;             /* may begin anywhere in the text */
	bool rescans;           /* may look at the same bytes from many places */
	bool nested;            /* and does so inside a group, which may repeat it */
	char source[];
};

struct regex_room {
	pcre2_match_data *data;
	pcre2_match_context *context;
};

static void *take(size_t n, void *mem)
{
	return arena_alloc(mem, n);
}

static void keep(void *p, void *mem)
{
}

static int fail_compile(int code, struct err *err)
{
	PCRE2_UCHAR text[128];

	if (pcre2_get_error_message(code, text, sizeof(text)) < 0)
		text[0] = '\0';
	if (code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAP_FAILED || code == PCRE2_ERROR_PATTERN_TOO_LARGE)
		return err_set(err, ERR_LIMIT, "", "the pattern needs too much memory");
	return err_set(err, ERR_INVALID, "", "not a pattern: %s", (const char *)text);
}

/* Behind the .* in front of a pattern that may begin anywhere: they fit everything, and the work of finding
 * out grows with the square of the text. */
static const char *behind_dots(const struct str *text)
{
	static const char dots[] = ECMA_DOT "*";
	const char *p = str_text(text);

	while (strncmp(p, dots, sizeof(dots) - 1) == 0 && !strchr(p, '|')) {
		p += sizeof(dots) - 1;
		p += *p == '?';
	}
	return p;
}

static const pcre2_code *compile_once(pcre2_compile_context *context, const char *p, uint32_t more, int *code)
{
	const uint32_t options = PCRE2_UTF | PCRE2_NO_UTF_CHECK | PCRE2_DOLLAR_ENDONLY | PCRE2_MATCH_UNSET_BACKREF |
				 PCRE2_ALLOW_EMPTY_CLASS | PCRE2_NEVER_BACKSLASH_C;
	PCRE2_SIZE offset = 0;

	return pcre2_compile((PCRE2_SPTR)p, PCRE2_ZERO_TERMINATED, options | more, code, &offset, context);
}

static bool is_loose(const pcre2_code *code)
{
	uint32_t options = 0;

	(void)pcre2_pattern_info(code, PCRE2_INFO_ALLOPTIONS, &options);
	return !(options & PCRE2_ANCHORED);
}

/* Behind a character class; p is behind its "[". */
static const char *behind_class(const char *p)
{
	for (; *p && *p != ']'; p++)
		p += *p == '\\' && p[1];
	return p;
}

/* Whether something inside of a group looks ahead, or back at a group: what the translator writes. */
static bool looks_in_group(const char *p)
{
	unsigned depth = 0;

	for (; *p; p++) {
		if (*p == '\\') {
			if (depth > 0 && p[1] == 'g')
				return true;
			p += p[1] != '\0';
		} else if (*p == '[') {
			p = behind_class(p + 1);
			if (!*p)
				return false;
		} else if (*p == '(') {
			if (depth > 0 && p[1] == '?' && (p[2] == '=' || p[2] == '!'))
				return true;
			depth++;
		} else if (*p == ')') {
			depth--;
		}
	}
	return false;
}

static int compile_translated(struct arena *mem, const struct str *text, struct regex *re, struct err *err)
{
	pcre2_general_context *general = pcre2_general_context_create(take, keep, mem);
	pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;
	const char *p = behind_dots(text);
	int code = PCRE2_ERROR_NOMEMORY;

	re->rescans = strstr(p, "(?=") || strstr(p, "(?!") || strstr(p, "\\g{");
	re->nested = re->rescans && looks_in_group(p);
	if (context && (*p == '^' || *p == '('))
		re->code = compile_once(context, p, 0, &code);
	re->loose = !re->code || is_loose(re->code);
	if (context && re->loose)
		re->code = compile_once(context, p, PCRE2_NO_AUTO_POSSESS, &code);
	return re->code ? 0 : fail_compile(code, err);
}

static int keep_regex(struct arena *mem, const struct regex *made, const char *p, size_t len,
		      const struct regex **ret, struct err *err)
{
	struct regex *re = arena_alloc(mem, sizeof(*re) + len + 1);

	if (!re)
		return fail_compile(PCRE2_ERROR_NOMEMORY, err);
	*re = *made;
	memcpy(re->source, p, len);
	*ret = re;
	return 0;
}

int regex_compile(struct arena *mem, const char *p, size_t len, const struct regex **ret, struct err *err)
{
	struct str text = STR_INIT;
	struct regex made = { .code = NULL };
	const char *why = NULL;
	int rc;

	if (len > SCHEMA_PATTERN_MAX)
		return err_set(err, ERR_LIMIT, "", "the pattern is longer than %d bytes", SCHEMA_PATTERN_MAX);
	if (!regex_translate(p, len, &text, &why))
		rc = err_set(err, ERR_INVALID, "", "not a pattern: %s", why);
	else
		rc = compile_translated(mem, &text, &made, err);
	str_fini(&text);
	return rc ? rc : keep_regex(mem, &made, p, len, ret, err);
}

int regex_compile_pcre(struct arena *mem, const char *pattern, const struct regex **ret, struct err *err)
{
	struct str text = STR_INIT;
	struct regex made = { .code = NULL };
	int rc;

	str_puts(&text, pattern);
	rc = compile_translated(mem, &text, &made, err);
	str_fini(&text);
	return rc ? rc : keep_regex(mem, &made, "", 0, ret, err);
}

const char *regex_source(const struct regex *re)
{
	return re->source;
}

static struct regex_room *room_new(void)
{
	struct regex_room *room = mem_alloc(sizeof(*room));

	room->data = pcre2_match_data_create(1, NULL);
	if (!room->data && mem_give_up_reserve())
		room->data = pcre2_match_data_create(1, NULL);
	room->context = pcre2_match_context_create(NULL);
	if (!room->context && mem_give_up_reserve())
		room->context = pcre2_match_context_create(NULL);
	if (!room->data || !room->context)
		abort();        /* out of memory, as mem_alloc() */
	pcre2_set_heap_limit(room->context, HEAP_MAX_KIB);
	return room;
}

void regex_room_free(struct regex_room **room)
{
	if (!*room)
		return;
	pcre2_match_context_free((*room)->context);
	pcre2_match_data_free((*room)->data);
	free(*room);
	*room = NULL;
}

/* The most points of one place that a text of this length allows. */
static size_t limit_of(const struct regex *re, size_t len)
{
	const size_t n = len + 1;

	if (!re->rescans)
		return MATCH_MAX;
	if (re->loose)
		return RESCAN_WORK / n / n;
	return (re->nested ? NESTED_WORK : RESCAN_WORK) / n;
}

static int match_within(const struct regex *re, const char *p, size_t len, struct regex_room *room, size_t limit,
			uint32_t where)
{
	const size_t most = limit_of(re, len);

	if (!most)
		return PCRE2_ERROR_MATCHLIMIT;
	pcre2_set_match_limit(room->context, (uint32_t)(limit < most ? limit : most));
	return pcre2_match(re->code, (PCRE2_SPTR)p, len, 0, PCRE2_NO_UTF_CHECK | where, room->data, room->context);
}

/* The first place, where most texts that fit do so, gets the whole limit, all places together not much more. */
static int match_hard(const struct regex *re, const char *p, size_t len, struct regex_room *room)
{
	size_t limit = MATCH_LOOSE_WORK / (len + 1) + MATCH_FIRST_LOOSE;
	int rc = match_within(re, p, len, room, MATCH_MAX, PCRE2_ANCHORED);

	if (!re->loose || rc != PCRE2_ERROR_NOMATCH)
		return rc;
	return match_within(re, p, len, room, limit < MATCH_MAX ? limit : MATCH_MAX, 0);
}

/* What a match may cost above its base price when it looks at bytes again. */
static size_t rescan_steps(const struct regex *re, size_t len)
{
	const size_t points = re->loose ? len : MATCH_MAX;

	return (len < RESCAN_WORK / points ? len * points : RESCAN_WORK) / RESCAN_STEP;
}

int regex_match(const struct regex *re, const char *p, size_t len, struct regex_room **room, size_t *steps)
{
	int rc;

	if (!*room)
		*room = room_new();
	*steps += STEP_BASE + len / STEP_BYTES;
	if (re->rescans && re->loose && len)
		*steps += rescan_steps(re, len);
	rc = match_within(re, p, len, *room, re->loose ? MATCH_FIRST_LOOSE : MATCH_FIRST, 0);
	/* Where no more is allowed than was tried, there is nothing to try again. */
	if (rc == PCRE2_ERROR_MATCHLIMIT && (re->loose || limit_of(re, len) > MATCH_FIRST)) {
		*steps += STEP_HARD * (re->loose ? len / 100 + 1 : 1);
		if (re->rescans && !re->loose)
			*steps += rescan_steps(re, len);
		rc = match_hard(re, p, len, *room);
	}
	if (rc == PCRE2_ERROR_NOMATCH)
		return 0;
	return rc >= 0 ? 1 : ERR_LIMIT;
}
