#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

/* Small allocations never return NULL: out of memory aborts (house rule 22).  What a peer sizes is
 * limited by the caller before it is allocated, or lives in an arena.  free() releases all. */
void *mem_alloc(size_t n) __attribute__((malloc, returns_nonnull));
void *mem_zalloc(size_t n) __attribute__((malloc, returns_nonnull));
void *mem_calloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull)); /* checks n * size */
void *mem_realloc(void *p, size_t n) __attribute__((returns_nonnull));
void *mem_dup(const void *p, size_t n) __attribute__((returns_nonnull));
char *mem_strdup(const char *s) __attribute__((returns_nonnull));
char *mem_strdup0(const char *s);                    /* NULL stays NULL */
char *mem_strndup(const char *s, size_t n) __attribute__((returns_nonnull)); /* n bytes, then NUL */
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2), returns_nonnull));

#define NELEMS(a) (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

#endif
