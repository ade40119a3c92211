#ifndef BASE_MEM_H
#define BASE_MEM_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* --- the heap */

/* Small allocations never return NULL: they have a reserve, and behind it out of memory aborts (house rule 22).  What a
 * peer sizes is limited by the caller before it is allocated, and comes from mem_try_realloc(), an arena or a bounded
 * string: none is there for it fails the request, not the process (SEC S-810, HARDENING F-15).  free() releases all. */
void *mem_alloc(size_t n) __attribute__((malloc, returns_nonnull));
void *mem_zalloc(size_t n) __attribute__((malloc, returns_nonnull));
void *mem_calloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull)); /* checks n * size */
void *mem_realloc(void *p, size_t n) __attribute__((returns_nonnull));
void *mem_dup(const void *p, size_t n) __attribute__((returns_nonnull));
char *mem_strdup(const char *s) __attribute__((returns_nonnull));
char *mem_strdup0(const char *s);                    /* NULL stays NULL */
char *mem_strndup(const char *s, size_t n) __attribute__((returns_nonnull)); /* n bytes, then NUL */
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2), returns_nonnull));

/* So many bytes for small allocations, given up at the first that finds none.  From then on nobody who tries gets
 * any, so that what runs can end and nothing begins, until there are so many bytes again.  0: none. */
void mem_reserve(size_t n);
#define MEM_RESERVE (4u << 20)
/* For who allocates by another function, of a library: it has failed; true: try once more. */
bool mem_give_up_reserve(void);
FOR_TESTS unsigned mem_reserve_given_up(void);          /* how many times */
/* First of all: a heap keeps what was freed there for its threads alone, so there are two, not one for each thread. */
void mem_few_heaps(void);
/* What has been freed by any thread goes back to the system, as far as whole pages are free; some milliseconds. */
void mem_give_back(void);
/* NULL: there is no memory; p stays as it is. */
void *mem_try_realloc(void *p, size_t n) __attribute__((warn_unused_result));
/* From now on those who try get no piece of more than n bytes; SIZE_MAX: as ever. */
FOR_TESTS void mem_fail_above(size_t n);

/* Pieces of at most `size` bytes that were given back, at most `max` of them, for who needs the next one: malloc() has
 * seven of a size at hand, and none above 1 KiB.  Of one thread, which gives back what it has taken.  What was in a
 * piece is wiped before somebody else has it. */
struct mem_spares { size_t size; unsigned max, n; void *first; };
/* Not zeroed; NULL: there is no memory, as for mem_try_realloc().  n above size is no piece of these.  Free it by
 * mem_spare_free(), with the same n. */
void *mem_spare_try(struct mem_spares *s, size_t n) __attribute__((warn_unused_result));
void *mem_spare(struct mem_spares *s) __attribute__((malloc, returns_nonnull));  /* of size bytes */
void mem_spare_free(struct mem_spares *s, void *p, size_t n);
void mem_spares_fini(struct mem_spares *s);     /* those that are here */

#define NELEMS(a) (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

/* --- arenas */

/* A bump allocator with a limit: many small pieces, one free.  Not thread-safe; may be handed from
 * one thread to another as a whole. */
struct arena;

/* limit in bytes over all pieces, which count in steps of 16; never NULL. */
struct arena *arena_new(size_t limit);
/* zeroed, aligned to 16; NULL above the limit, or when there is no memory */
void *arena_alloc(struct arena *a, size_t n);
void *arena_dup(struct arena *a, const void *p, size_t n);          /* NULL above the limit */
char *arena_strndup(struct arena *a, const char *s, size_t n);      /* adds NUL; NULL above the limit */
char *arena_strdup(struct arena *a, const char *s);
size_t arena_used(const struct arena *a);
void arena_free(struct arena **a);

/* --- crash points */

/* --- the machine's processors, and deaths of tests */

/* How many this process may use, at least 1.  Any thread. */
unsigned cpu_count(void);

/* Crash points: places at which a test lets the process die as kill -9 would, to prove that the next start finds all
 * that it must (FAULT F2).  They are in builds made with --enable-crash-points only, which are not for use; elsewhere
 * CRASH_AT() is nothing.  The names are those of tests/faults/crash_points, and a check compares the two. */
/* Ends the process at once, CRASH_STATUS, at the n-th passage of the point that TOOLCRIB_CRASH_AT=name[:n] names.  With
 * TOOLCRIB_CRASH_DOES="execve PATH" or "open PATH" it does that first, as somebody would who has taken the process
 * over: CRASH_REFUSED when it may not, CRASH_DONE (or the program's own status) when it may.  Any thread.
 * Declared in every build, so that what has no point is the same text in both, and ccache knows it. */
enum { CRASH_STATUS = 137, CRASH_REFUSED = 77, CRASH_DONE = 78 };
void crash_at(const char *name);
#ifdef CRASH_POINTS
#define CRASH_AT(name) crash_at(name)
#else
#define CRASH_AT(name) ((void)0)
#endif

#endif
