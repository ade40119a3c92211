#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

/* A bump allocator with a limit: many small pieces, one free.  Not thread-safe; may be handed from
 * one thread to another as a whole. */
struct arena;

/* limit in bytes over all pieces, which count in steps of 16; never NULL. */
struct arena *arena_new(size_t limit);
void *arena_alloc(struct arena *a, size_t n);        /* zeroed, aligned to 16; NULL above the limit */
void *arena_dup(struct arena *a, const void *p, size_t n);          /* NULL above the limit */
char *arena_strndup(struct arena *a, const char *s, size_t n);      /* adds NUL; NULL above the limit */
char *arena_strdup(struct arena *a, const char *s);
size_t arena_used(const struct arena *a);
void arena_free(struct arena **a);

#endif
