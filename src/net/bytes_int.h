/* One direction of a stream: what waits in one piece of memory. */
#ifndef NET_BYTES_INT_H
#define NET_BYTES_INT_H

#include <stdbool.h>
#include <stddef.h>

#define BYTES_FIRST 4096                /* the least memory that is taken */

struct bytes {                          /* what waits is p[start .. end) */
	char *p;
	size_t start, end, cap;
	bool wiped;                     /* nothing stays in memory that is used no more */
};

static inline size_t bytes_waiting(const struct bytes *b)
{
	return b->end - b->start;
}

void bytes_reserve(struct bytes *b, size_t n);          /* room for n more at the end */
void bytes_append(struct bytes *b, const void *p, size_t n);
/* The first n are done with; memory above keep is given back when they were all. */
void bytes_drop(struct bytes *b, size_t n, size_t keep);
void bytes_release(struct bytes *b);                    /* the memory alone; the end */

#endif
