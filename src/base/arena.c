/* A bump allocator: one block in the same piece of memory as its head, further blocks in a chain. */

#include "config.h"

#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum {
	ALIGN = 16,                     /* of every piece; pieces are counted in these */
	FIRST_BLOCK = 2048 - 64,        /* most calls need no second one */
	BLOCK_MIN = 8 * 1024,
	BLOCK_MAX = 128 * 1024,         /* larger pieces get a block of their own size */
};

struct block {
	struct block *next;
	size_t size;                    /* bytes in data */
	_Alignas(ALIGN) char data[];
};

struct arena {
	size_t limit, used;             /* bytes handed out, rounded up to ALIGN */
	size_t at, end;                 /* free room in *top */
	char *top;
	struct block *blocks;           /* all but the first */
	size_t next_size;
	_Alignas(ALIGN) char first[];
};

static bool round_up(size_t n, size_t *ret)
{
	if (n > SIZE_MAX - ALIGN)
		return false;
	*ret = (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	return true;
}

struct arena *arena_new(size_t limit)
{
	size_t room = FIRST_BLOCK;
	struct arena *a;

	if (!round_up(limit, &limit))
		limit = SIZE_MAX - ALIGN + 1;
	if (room > limit)
		room = limit;
	a = mem_alloc(sizeof *a + room);
	*a = (struct arena){ .limit = limit, .end = room, .top = a->first, .next_size = BLOCK_MIN };
	return a;
}

static void add_block(struct arena *a, size_t need)
{
	size_t size = a->next_size, left = a->limit - a->used;
	struct block *b;

	if (size > left)
		size = left;
	if (size < need)
		size = need;
	b = mem_alloc(sizeof *b + size);
	b->size = size;
	b->next = a->blocks;
	a->blocks = b;
	a->top = b->data;
	a->at = 0;
	a->end = size;
	if (a->next_size < BLOCK_MAX)
		a->next_size *= 2;
}

/* Room for n bytes, not zeroed. */
static void *take(struct arena *a, size_t n)
{
	size_t need;
	void *p;

	if (!round_up(n ? n : 1, &need) || need > a->limit - a->used)
		return NULL;
	if (need > a->end - a->at)
		add_block(a, need);
	p = a->top + a->at;
	a->at += need;
	a->used += need;
	return p;
}

void *arena_alloc(struct arena *a, size_t n)
{
	void *p = take(a, n);

	if (p && n)
		memset(p, 0, n);
	return p;
}

void *arena_dup(struct arena *a, const void *p, size_t n)
{
	void *copy = take(a, n);

	if (copy && n)
		memcpy(copy, p, n);
	return copy;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
	char *copy = n < SIZE_MAX ? take(a, n + 1) : NULL;

	if (!copy)
		return NULL;
	if (n)
		memcpy(copy, s, n);
	copy[n] = '\0';
	return copy;
}

char *arena_strdup(struct arena *a, const char *s)
{
	return arena_strndup(a, s, strlen(s));
}

size_t arena_used(const struct arena *a)
{
	return a->used;
}

void arena_free(struct arena **a)
{
	struct block *b, *next;

	if (!a || !*a)
		return;
	for (b = (*a)->blocks; b; b = next) {
		next = b->next;
		free(b);
	}
	free(*a);
	*a = NULL;
}
