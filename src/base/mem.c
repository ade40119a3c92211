/* Allocation that never returns NULL. */

#include "config.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Noreturn void out_of_memory(void)
{
	static const char text[] = "out of memory\n";

	/* The log would allocate and lock; this cannot fail in a way that matters. */
	if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
		_exit(70);
	abort();
}

static void *check(void *p)
{
	if (!p)
		out_of_memory();
	return p;
}

void *mem_alloc(size_t n)
{
	return check(malloc(n ? n : 1));
}

void *mem_zalloc(size_t n)
{
	return check(calloc(1, n ? n : 1));
}

void *mem_calloc(size_t n, size_t size)
{
	if (n == 0 || size == 0)
		return mem_zalloc(1);
	return check(calloc(n, size));    /* calloc() checks the product */
}

void *mem_realloc(void *p, size_t n)
{
	return check(realloc(p, n ? n : 1));
}

void *mem_dup(const void *p, size_t n)
{
	void *copy = mem_alloc(n);

	if (n)
		memcpy(copy, p, n);
	return copy;
}

char *mem_strdup(const char *s)
{
	return mem_dup(s, strlen(s) + 1);
}

char *mem_strdup0(const char *s)
{
	return s ? mem_strdup(s) : NULL;
}

char *mem_strndup(const char *s, size_t n)
{
	char *copy;

	if (n == SIZE_MAX)
		out_of_memory();
	copy = mem_alloc(n + 1);
	if (n)
		memcpy(copy, s, n);
	copy[n] = '\0';
	return copy;
}

char *mem_printf(const char *fmt, ...)
{
	char *text;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		out_of_memory();
	return text;
}
