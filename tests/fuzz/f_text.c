/* Fuzz target: codecs, numbers with units, times, ids, printable copies and globs of base. */

#include "config.h"

#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "fuzz.h"

/* Bytes come back from their text; what decodes encodes to the same text. */
static void check_codecs(const uint8_t *data, size_t size)
{
	const char *in = (const char *)data;
	char *text = mem_alloc(2 * size + 4);
	uint8_t *bytes = mem_alloc(size);
	size_t n;

	text_base64url(data, size, text);
	FUZZ_CHECK(strlen(text) + 1 == text_base64url_size(size));
	FUZZ_CHECK(text_unbase64url(text, strlen(text), bytes, size, &n) == 0);
	FUZZ_CHECK(n == size && (n == 0 || memcmp(bytes, data, n) == 0));
	text_hex(data, size, text);
	FUZZ_CHECK(text_unhex(text, 2 * size, bytes, size) == 0);
	FUZZ_CHECK(size == 0 || memcmp(bytes, data, size) == 0);
	if (text_unbase64url(in, size, bytes, size, &n) == 0) {
		text_base64url(bytes, n, text);
		FUZZ_CHECK(text_eq(in, size, text));
	}
	FUZZ_CHECK(text_base64_valid(in, size) == (text_unbase64(in, size, bytes, size, &n) == 0));
	free(bytes);
	free(text);
}

static void check_printable(const char *in, size_t size)
{
	size_t room = size ? (uint8_t)in[0] + 1U : 1;
	char *shown = mem_alloc(room), *again = mem_alloc(room);
	size_t len;

	text_printable(in, size, shown, room);
	len = strlen(shown);
	FUZZ_CHECK(len < room);
	FUZZ_CHECK(text_utf8_valid(shown, len));
	FUZZ_CHECK(text_utf8_count(shown, len) <= len);
	for (size_t i = 0; i < len; i++)
		FUZZ_CHECK((uint8_t)shown[i] >= 0x20 && shown[i] != 0x7f);
	text_printable(shown, len, again, room);
	FUZZ_CHECK(strcmp(shown, again) == 0);
	free(again);
	free(shown);
}

static void check_numbers(const char *text, size_t len)
{
	struct text_rate rate, same;
	uint64_t u, zeros;
	char again[64];
	int64_t i;

	if (text_u64(text, len, &u) == 0) {
		zeros = strspn(text, "0");
		(void)snprintf(again, sizeof again, "%llu", (unsigned long long)u); /* 20 digits */
		FUZZ_CHECK(strcmp(again, u ? text + zeros : "0") == 0);
		FUZZ_CHECK(text_size(text, &zeros) == 0 && zeros == u);
	}
	if (text_i64(text, len, &i) == 0 && i < 0) {
		(void)snprintf(again, sizeof again, "%lld", (long long)i); /* 20 characters */
		FUZZ_CHECK(strcmp(again + 1, text + 1 + strspn(text + 1, "0")) == 0);
	}
	if (text_rate(text, &rate) == 0) {
		text_format_rate(rate, again, sizeof again);
		FUZZ_CHECK(text_rate(again, &same) == 0 && same.count == rate.count && same.per_s == rate.per_s);
	}
	(void)text_duration_ms(text, &u);       /* must only survive */
	(void)text_size(text, &u);              /* the same */
	(void)text_tool_name(text, len);        /* the same */
	(void)text_entity_name(text, len);      /* the same */
}

static void check_times_and_ids(const char *text, size_t len)
{
	const uint64_t now_us = UINT64_C(1785232800000000);
	uint64_t us, same_us;
	uint8_t id[16];
	char again[64];

	if (clock_parse(text, now_us, &us) == 0) {
		clock_format_utc(us, again, sizeof again);
		FUZZ_CHECK(clock_parse(again, now_us, &same_us) == 0 && us == same_us);
	}
	(void)clock_parse_http(text, now_us, &us);      /* must only survive */
	if (id_parse(text, len, id) == 0)
		FUZZ_CHECK(strcmp(id_format(id, again), text) == 0);
}

/* The definition, as slow as it is short; both texts must be small. */
static bool glob_by_definition(const char *pattern, const char *text)
{
	if (*pattern == '*')
		return glob_by_definition(pattern + 1, text) || (*text && glob_by_definition(pattern, text + 1));
	if (!*pattern || !*text)
		return *pattern == *text;
	return (*pattern == '?' || *pattern == *text) && glob_by_definition(pattern + 1, text + 1);
}

static void check_globs(const char *pattern, const char *text)
{
	bool matches = text_glob(pattern, text);

	if (strlen(pattern) <= 10 && strlen(text) <= 16)
		FUZZ_CHECK(matches == glob_by_definition(pattern, text));
	if (text_glob_literal(pattern))
		FUZZ_CHECK(matches == (strcmp(pattern, text) == 0));
	FUZZ_CHECK(text_glob("*", text));
	FUZZ_CHECK(text_glob(text, text));
	if (strlen(pattern) <= 128)
		FUZZ_CHECK(text_nearest(pattern, &pattern, 1) == pattern);
	(void)text_nearest(pattern, &text, 1);  /* must only survive */
}

FUZZ_TARGET(text)
{
	char *first = mem_strndup((const char *)data, size);
	size_t first_len = strlen(first);
	/* What follows the first NUL is a second text. */
	const char *second = first_len < size ? first + first_len + 1 : "";

	check_codecs(data, size);
	check_printable((const char *)data, size);
	check_numbers(first, first_len);
	check_times_and_ids(first, first_len);
	check_globs(first, second);
	free(first);
	return 0;
}
