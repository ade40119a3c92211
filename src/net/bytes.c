/* The buffers of streams: they grow by doubling, and what is taken from the front moves nothing. */
#include "config.h"

#include "bytes_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void wipe(const struct bytes *b, size_t from, size_t to)
{
	if (b->wiped && from < to)
		explicit_bzero(b->p + from, to - from);
}

void bytes_release(struct bytes *b)
{
	wipe(b, 0, b->cap);
	free(b->p);
	b->p = NULL;
	b->cap = 0;
}

static void enlarge(struct bytes *b, size_t cap)
{
	if (!b->wiped) {
		b->p = mem_realloc(b->p, cap);
	} else {
		char *p = mem_alloc(cap);
		if (b->end > 0)
			memcpy(p, b->p, b->end);
		bytes_release(b);
		b->p = p;
	}
	b->cap = cap;
}

void bytes_reserve(struct bytes *b, size_t n)
{
	if (b->cap - b->end >= n)
		return;
	if (b->start > 0) {
		memmove(b->p, b->p + b->start, bytes_waiting(b));
		wipe(b, bytes_waiting(b), b->end);
		b->end -= b->start;
		b->start = 0;
	}
	if (b->cap - b->end >= n)
		return;
	size_t cap = b->cap ? b->cap : BYTES_FIRST;
	while (cap - b->end < n)
		cap *= 2;
	enlarge(b, cap);
}

void bytes_append(struct bytes *b, const void *p, size_t n)
{
	if (n == 0)
		return;
	bytes_reserve(b, n);
	memcpy(b->p + b->end, p, n);
	b->end += n;
}

void bytes_drop(struct bytes *b, size_t n, size_t keep)
{
	wipe(b, b->start, b->start + n);
	b->start += n;
	if (b->start < b->end)
		return;
	b->start = b->end = 0;
	if (b->cap > keep)
		bytes_release(b);
}
