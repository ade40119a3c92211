#ifndef TESTS_BLOCK_PARTS_H
#define TESTS_BLOCK_PARTS_H

/* A block taken apart into its columns as they are inflated, and put together again: by zlib alone, without the code that
 * is tested. */

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ZLIB_CONST
#include <zlib.h>

#include "block/block.h"

enum { PART_COLUMNS = COL_COUNT - 2, PART_MAX = 5 << 20 };
struct part { uint8_t *p; size_t len; bool here, deflate; unsigned behind; };     /* behind: zeros after a stream */
struct parts {
	struct part col[PART_COLUMNS], hash;
	unsigned n;                     /* columns that are listed */
	struct block b;
	uint8_t *cols;
};

static inline size_t part_number(uint8_t *to, uint64_t v)
{
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		to[n++] = (uint8_t)(v | 0x80);
	to[n++] = (uint8_t)v;
	return n;
}

static inline uint64_t part_take(const uint8_t **p)
{
	uint64_t v = 0;
	unsigned shift = 0;

	do
		v |= (uint64_t)(**p & 0x7F) << shift;
	while (shift += 7, *(*p)++ & 0x80);
	return v;
}

static inline void part_set(struct part *part, const void *p, size_t len)
{
	uint8_t *copy = malloc(len + 1);

	if (len > 0)
		memcpy(copy, p, len);
	free(part->p);
	part->p = copy;
	part->len = len;
	part->here = true;
}

/* Of a sound block. */
static inline void parts_take(struct parts *parts, const struct block *b)
{
	const uint8_t *p = b->cols.p;
	static uint8_t room[PART_MAX];

	*parts = (struct parts){ .b = *b };
	parts->n = (unsigned)part_take(&p);
	for (unsigned i = 0; i < parts->n; i++) {
		const uint64_t n = part_take(&p);
		uLongf len = PART_MAX;

		if (n == 0)
			continue;
		parts->col[i].deflate = !(n & 1);
		if (n & 1)
			part_set(&parts->col[i], p, (size_t)n >> 1);
		else if (uncompress(room, &len, p, (uLong)n >> 1) == Z_OK)
			part_set(&parts->col[i], room, len);
		else
			abort();
		p += n >> 1;
	}
	part_set(&parts->hash, b->hash.p, b->hash.len);
}

/* The block of these columns; each deflated that says so. */
static inline const struct block *parts_join(struct parts *parts)
{
	size_t room = 64, at;

	for (unsigned i = 0; i < parts->n; i++)
		room += 64 + 2 * parts->col[i].len;
	free(parts->cols);
	parts->cols = malloc(room);
	at = part_number(parts->cols, parts->n);
	for (unsigned i = 0; i < parts->n; i++) {
		const struct part *c = &parts->col[i];
		uint8_t *deflated = c->deflate ? malloc(compressBound(c->len)) : NULL;
		uLongf len = deflated ? compressBound(c->len) : c->len;

		if (deflated)
			(void)compress2(deflated, &len, c->p, c->len, 9);
		at += part_number(parts->cols + at, c->here ? (uint64_t)(len + c->behind) << 1 | !c->deflate : 0);
		if (c->here) {
			memcpy(parts->cols + at, deflated ? deflated : c->p, len);
			memset(parts->cols + at + len, 0, c->behind);
			at += len + c->behind;
		}
		free(deflated);
	}
	parts->b.cols.p = parts->cols;
	parts->b.cols.len = at;
	parts->b.hash.p = parts->hash.p;
	parts->b.hash.len = parts->hash.len;
	return &parts->b;
}

static inline void parts_free(struct parts *parts)
{
	for (unsigned i = 0; i < PART_COLUMNS; i++)
		free(parts->col[i].p);
	free(parts->hash.p);
	free(parts->cols);
}

static inline bool parts_same(const struct parts *a, const struct parts *b)
{
	if (a->n != b->n || a->hash.len != b->hash.len || memcmp(a->hash.p, b->hash.p, a->hash.len) != 0)
		return false;
	for (unsigned i = 0; i < a->n; i++)
		if (a->col[i].here != b->col[i].here || a->col[i].len != b->col[i].len ||
		    (a->col[i].here && memcmp(a->col[i].p, b->col[i].p, a->col[i].len) != 0))
			return false;
	return true;
}

#endif
