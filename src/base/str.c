/* A growable byte string whose appends never need a check of their own. */

#include "config.h"

#include "base/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

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

static void enlarge(struct str *s, size_t cap)
{
	char *p;

	if (!s->secret) {
		s->p = mem_realloc(s->p, cap);
	} else {
		p = mem_alloc(cap);
		if (s->p)
			memcpy(p, s->p, s->len + 1);
		if (s->p)
			explicit_bzero(s->p, s->cap);
		free(s->p);
		s->p = p;
	}
	s->cap = cap;
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

/* Make room for n more bytes and a NUL; false when that is above the limit. */
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
	enlarge(s, cap);
	return true;
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
	size_t at = sizeof digits;

	do {
		digits[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	str_put(s, digits + at, sizeof digits - at);
}

void str_put_i64(struct str *s, long long v)
{
	char text[21];
	size_t at = sizeof text;
	unsigned long long u = v < 0 ? 0 - (unsigned long long)v : (unsigned long long)v;

	do {
		text[--at] = (char)('0' + u % 10);
		u /= 10;
	} while (u);
	if (v < 0)
		text[--at] = '-';
	str_put(s, text + at, sizeof text - at);
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
