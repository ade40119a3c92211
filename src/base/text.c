/* Text: growing strings, numbers with units, UTF-8, names, globs and near misses.  Pure functions on
 * any thread.  What a person does not see of a text is hidden.c. */
#include "config.h"

#include <assert.h>
#include <endian.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"

/* --- A growable byte string whose appends never need a check of their own. */

enum { CAP_MIN = 64 };

void str_init(struct str *s, size_t max)
{
	*s = (struct str)STR_INIT;
	s->max = max;
}

void str_wipe(struct str *s)
{
	if (s->p)
		explicit_bzero(s->p, s->cap);
	str_fini(s);
}

/* try: false when there is no memory, and nothing has changed. */
static bool enlarge(struct str *s, size_t cap, bool try)
{
	char *p;

	if (!s->secret) {
		p = try ? mem_try_realloc(s->p, cap) : mem_realloc(s->p, cap);
		if (!p)
			return false;
		s->p = p;
	} else {
		p = try ? mem_try_realloc(NULL, cap) : mem_alloc(cap);
		if (!p)
			return false;
		if (s->p)
			memcpy(p, s->p, s->len + 1);
		if (s->p)
			explicit_bzero(s->p, s->cap);
		free(s->p);
		s->p = p;
	}
	s->cap = cap;
	return true;
}

void str_fini(struct str *s)
{
	free(s->p);
	str_init(s, s->max);
}

void str_reset(struct str *s)
{
	s->len = 0;
	s->failed = false;
	if (s->p)
		s->p[0] = '\0';
}

/* Make room for n more bytes and a NUL; false when that is above the limit.  Who gave a limit asks whether it failed:
 * where there is no memory, the limit is what there is. */
static bool reserve(struct str *s, size_t n)
{
	size_t limit = s->max ? s->max : SIZE_MAX / 2, need, cap;

	if (s->failed)
		return false;
	if (s->len > limit || n > limit - s->len) {
		s->failed = true;
		return false;
	}
	need = s->len + n + 1;
	if (need <= s->cap)
		return true;
	cap = s->cap ? s->cap : CAP_MIN;
	while (cap < need)
		cap *= 2;
	if (cap > limit)
		cap = limit + 1 > need ? limit + 1 : need;
	s->failed = !enlarge(s, cap, s->max > 0);
	return !s->failed;
}

void str_room(struct str *s, size_t n)
{
	if (!s->failed && (!s->max || n <= s->max - s->len))
		(void)reserve(s, n);
}

void str_put(struct str *s, const void *p, size_t n)
{
	if (!reserve(s, n))
		return;
	if (n)
		memcpy(s->p + s->len, p, n);
	s->len += n;
	s->p[s->len] = '\0';
}

void str_puts(struct str *s, const char *z)
{
	str_put(s, z, strlen(z));
}

void str_putc(struct str *s, char c)
{
	str_put(s, &c, 1);
}

void str_printf(struct str *s, const char *fmt, ...)
{
	va_list ap, again;
	size_t room;
	int n;

	if (!reserve(s, 0))
		return;
	room = s->cap - s->len;
	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(s->p + s->len, room, fmt, ap);
	va_end(ap);
	if (n < 0) {
		s->failed = true;
	} else if (reserve(s, (size_t)n)) {
		if ((size_t)n >= room)
			(void)vsnprintf(s->p + s->len, (size_t)n + 1, fmt, again); /* measured */
		s->len += (size_t)n;
	}
	va_end(again);
	s->p[s->len] = '\0';
}

void str_put_u64(struct str *s, unsigned long long v)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	str_put(s, digits + at, sizeof(digits) - at);
}

void str_put_i64(struct str *s, long long v)
{
	char text[21];
	size_t at = sizeof(text);
	unsigned long long u = v < 0 ? 0 - (unsigned long long)v : (unsigned long long)v;

	do {
		text[--at] = (char)('0' + u % 10);
		u /= 10;
	} while (u);
	if (v < 0)
		text[--at] = '-';
	str_put(s, text + at, sizeof(text) - at);
}

void str_drop_front(struct str *s, size_t n)
{
	assert(n <= s->len);
	if (n == 0)
		return;
	s->len -= n;
	memmove(s->p, s->p + n, s->len + 1);
}

char *str_take(struct str *s)
{
	char *p = s->p ? s->p : mem_strdup("");

	str_init(s, s->max);
	return p;
}

const char *str_text(const struct str *s)
{
	return s->p ? s->p : "";
}

/* --- Numbers and numbers with units: whole text or failure, no clamping. */

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit durations[] = {        /* milliseconds */
	{ "ms", 1 }, { "s", 1000 }, { "m", 60 * 1000 }, { "h", 3600 * 1000 }, { "d", 86400 * 1000 },
};
static const struct unit sizes[] = {
	{ "", 1 }, { "KiB", UINT64_C(1) << 10 }, { "MiB", UINT64_C(1) << 20 }, { "GiB", UINT64_C(1) << 30 },
};
static const struct unit rates[] = {            /* seconds; one row for each text_format_rate() writes */
	{ "/s", 1 }, { "/min", 60 }, { "/h", 3600 }, { "/day", 86400 },
};

/* Read decimal digits at the front; returns how many bytes, 0 without a digit or above UINT64_MAX. */
static size_t read_digits(const char *p, size_t len, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i;

	for (i = 0; i < len && p[i] >= '0' && p[i] <= '9'; i++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(p[i] - '0'), &v))
			return 0;
	*ret = v;
	return i;
}

int text_u64(const char *p, size_t len, uint64_t *ret)
{
	uint64_t v;

	if (len == 0 || read_digits(p, len, &v) != len)
		return ERR_INVALID;
	*ret = v;
	return 0;
}

int text_i64(const char *p, size_t len, int64_t *ret)
{
	bool negative = len && p[0] == '-';
	uint64_t v;

	if (text_u64(p + negative, len - negative, &v) < 0 || v > (uint64_t)INT64_MAX + negative)
		return ERR_INVALID;
	*ret = negative ? (int64_t)(0 - v) : (int64_t)v;
	return 0;
}

/* A number and one of the units. */
static int read_unit(const char *text, const struct unit *units, size_t n, uint64_t *ret_number,
		     uint64_t *ret_factor)
{
	uint64_t v;
	size_t used = read_digits(text, strlen(text), &v);

	if (!used)
		return ERR_INVALID;
	for (size_t i = 0; i < n; i++)
		if (strcmp(text + used, units[i].name) == 0) {
			*ret_number = v;
			*ret_factor = units[i].factor;
			return 0;
		}
	return ERR_INVALID;
}

static int read_product(const char *text, const struct unit *units, size_t n, uint64_t *ret)
{
	uint64_t number, factor, product;

	if (read_unit(text, units, n, &number, &factor) < 0 ||
	    __builtin_mul_overflow(number, factor, &product))
		return ERR_INVALID;
	*ret = product;
	return 0;
}

int text_duration_ms(const char *text, uint64_t *ret_ms)
{
	return read_product(text, durations, NELEMS(durations), ret_ms);
}

int text_time_of_day(const char *text, uint32_t *ret_s)
{
	uint64_t hours = 0, minutes = 0;

	if (strlen(text) != 5 || text[2] != ':' || text_u64(text, 2, &hours) < 0 || text_u64(text + 3, 2, &minutes) < 0 ||
	    hours > 23 || minutes > 59)
		return ERR_INVALID;
	*ret_s = (uint32_t)(hours * 60 + minutes) * 60;
	return 0;
}

int text_size(const char *text, uint64_t *ret_bytes)
{
	return read_product(text, sizes, NELEMS(sizes), ret_bytes);
}

int text_rate(const char *text, struct text_rate *ret)
{
	uint64_t count, per_s;

	if (read_unit(text, rates, NELEMS(rates), &count, &per_s) < 0 || count == 0 || count > UINT32_MAX)
		return ERR_INVALID;
	*ret = (struct text_rate){ (uint32_t)count, (uint32_t)per_s };
	return 0;
}

char *text_format_rate(struct text_rate r, char *ret, size_t size)
{
	for (size_t i = 0; i < NELEMS(rates); i++)
		if (rates[i].factor == r.per_s) {
			(void)snprintf(ret, size, "%u%s", r.count, rates[i].name); /* cut at size */
			return ret;
		}
	(void)snprintf(ret, size, "%u per %u s", r.count, r.per_s); /* cut at size */
	return ret;
}

char *text_format_age(uint64_t us, char *ret, size_t size)
{
	uint64_t ms = us / 1000;
	const struct unit *unit = &durations[1];

	/* The largest unit of which there is at least one, from seconds up. */
	for (size_t i = 2; i < NELEMS(durations) && ms >= durations[i].factor; i++)
		unit = &durations[i];
	(void)snprintf(ret, size, "%llu%s", (unsigned long long)(ms / unit->factor), unit->name); /* cut */
	return ret;
}

/* --- text */

/* Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF. */
unsigned text_decode(const char *text, size_t len, uint32_t *ret)
{
	const unsigned char *p = (const unsigned char *)text;
	static const uint32_t smallest[5] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned n;
	uint32_t c;

	if (len == 0)
		return 0;
	if (p[0] < 0x80) {
		*ret = p[0];
		return 1;
	}
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (len < n)
		return 0;
	c = p[0] & (0xffU >> (n + 1));
	for (unsigned i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < smallest[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*ret = c;
	return n;
}

/* The number of bytes at the front that are ASCII, a word at a time. */
static size_t ascii_run(const unsigned char *p, size_t len)
{
	size_t i = 0;
	uint64_t word;

	for (; len - i >= sizeof(word); i += sizeof(word)) {
		memcpy(&word, p + i, sizeof(word));
		if (word & UINT64_C(0x8080808080808080))
			break;
	}
	while (i < len && p[i] < 0x80)
		i++;
	return i;
}

/* The bytes of w that end a run of plain ones get their top bit set; above the first of them false positives are
 * possible, so only the lowest counts. */
static uint64_t special_bytes(uint64_t w)
{
	const uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
	uint64_t quote = w ^ ones * '"', backslash = w ^ ones * '\\';

	return (w | ((w - ones * 0x20) & ~w) | ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash)) & tops;
}

size_t text_plain_run(const char *p, size_t len)
{
	size_t i = 0;

	for (; len - i >= sizeof(uint64_t); i += sizeof(uint64_t)) {
		uint64_t word, special;

		memcpy(&word, p + i, sizeof(word));
		special = special_bytes(le64toh(word));
		if (special)
			return i + (size_t)__builtin_ctzll(special) / 8;
	}
	while (i < len && (unsigned char)p[i] >= 0x20 && (unsigned char)p[i] < 0x80 && p[i] != '"' && p[i] != '\\')
		i++;
	return i;
}

bool text_utf8_valid(const char *p, size_t len)
{
	const unsigned char *u = (const unsigned char *)p;
	size_t i = 0;
	uint32_t c;

	while (i < len) {
		unsigned n;

		i += ascii_run(u + i, len - i);
		if (i == len)
			break;
		n = text_decode(p + i, len - i, &c);
		if (n == 0)
			return false;
		i += n;
	}
	return true;
}

size_t text_utf8_count(const char *p, size_t len)
{
	size_t count = 0;

	for (size_t i = 0; i < len; i++)
		count += ((unsigned char)p[i] & 0xc0) != 0x80;
	return count;
}

bool text_eq(const char *p, size_t len, const char *z)
{
	return strlen(z) == len && (len == 0 || memcmp(p, z, len) == 0);
}

/* Match greedily and, on a mismatch, let only the last '*' take one byte more: earlier ones never need
 * to be tried again, so the work is at most strlen(pattern) * strlen(text). */
bool text_glob(const char *pattern, const char *text)
{
	const char *star = NULL, *resume = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = ++pattern;
			resume = text;
		} else if (*pattern == '?' || *pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star;
			text = ++resume;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return *pattern == '\0';
}

bool text_glob_literal(const char *pattern)
{
	return strpbrk(pattern, "*?") == NULL;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static bool is_joint(char c)
{
	return c == '_' || c == '.' || c == '-';
}

enum { TOOL_NAME_MAX = 64, ENTITY_NAME_MAX = 63 };

bool text_tool_name(const char *p, size_t len)
{
	if (len == 0 || len > TOOL_NAME_MAX)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_digit(p[i]) && !is_lower(p[i]) && !is_upper(p[i]) && !is_joint(p[i]))
			return false;
	return true;
}

bool text_entity_name(const char *p, size_t len)
{
	if (len == 0 || len > ENTITY_NAME_MAX || is_joint(p[0]))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_digit(p[i]) && !is_lower(p[i]) && !is_joint(p[i]))
			return false;
	return true;
}

enum { NEAREST_LEN_MAX = 128 };         /* longer words have no near ones */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Insertions, deletions, replacements and swaps of neighbours that make a into b. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t rows[3][NEAREST_LEN_MAX + 1];
	size_t *before = rows[0], *last = rows[1], *row = rows[2], *spare;

	for (size_t j = 0; j <= b_len; j++)
		last[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			row[j] = least(least(last[j] + 1, row[j - 1] + 1), last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], before[j - 2] + 1);
		}
		spare = before;
		before = last;
		last = row;
		row = spare;
	}
	return last[b_len];
}

const char *text_nearest(const char *word, const char *const *candidates, size_t n)
{
	size_t word_len = strlen(word), best = 1 + word_len / 4 + 1;
	const char *found = NULL;

	if (word_len > NEAREST_LEN_MAX)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(candidates[i]), d;

		if (len > NEAREST_LEN_MAX)
			continue;
		d = distance(word, word_len, candidates[i], len);
		if (d < best) {
			best = d;
			found = candidates[i];
		}
	}
	return found;
}
