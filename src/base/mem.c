/* Memory: allocation that never returns NULL, one that may, arenas with a limit, the crash points of test builds. */
#include "config.h"

#ifdef CRASH_POINTS
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#endif
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sanitized.h"

enum {
	HEAPS = 2,                      /* the loop's, and one for threads that wait more than they compute */
	ZEROED_HERE = 1024,             /* of such sizes each thread has some at hand, of which calloc() takes nothing */
};

/* --- the heap */

/* The log would allocate and lock; this cannot fail in a way that matters. */
static bool tell(const char *text, size_t n)
{
	return write(STDERR_FILENO, text, n) >= 0;
}

static _Noreturn void out_of_memory(void)
{
	static const char text[] = "out of memory\n";

	if (!tell(text, sizeof(text) - 1))
		_exit(70);
	abort();
}

/* The reserve is addresses alone until somebody writes to it, and nobody does.  It is of one piece, which the system
 * gets back at once, whatever else the heap is made of. */
static pthread_mutex_t reserve_lock = PTHREAD_MUTEX_INITIALIZER;        /* guards these */
static void *reserve;
static size_t reserve_size;
static unsigned times;                  /* that it was given up */
static _Atomic bool is_short;           /* it was given up and is not back; read without the lock */

unsigned mem_reserve_given_up(void)
{
	return times;
}

static void *take_reserve(size_t n)
{
	void *p = n > 0 ? mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;

	return p == MAP_FAILED ? NULL : p;
}

void mem_reserve(size_t n)
{
	pthread_mutex_lock(&reserve_lock);
	if (reserve)
		munmap(reserve, reserve_size);
	reserve_size = n;
	is_short = false;
	reserve = take_reserve(n);
	pthread_mutex_unlock(&reserve_lock);
}

void mem_few_heaps(void)
{
	(void)mallopt(M_ARENA_MAX, HEAPS);
}

void mem_give_back(void)
{
	(void)malloc_trim(0);
}

bool mem_give_up_reserve(void)
{
	static const char text[] = "out of memory: nothing new begins until some of it is back\n";
	bool given;

	pthread_mutex_lock(&reserve_lock);
	if (reserve) {
		munmap(reserve, reserve_size);
		reserve = NULL;
		is_short = true;
		times++;
		(void)tell(text, sizeof(text) - 1);
	}
	given = is_short;               /* by another thread perhaps: something may be left of it */
	pthread_mutex_unlock(&reserve_lock);
	return given;
}

/* False: nothing may begin yet. */
static bool is_back(void)
{
	if (!is_short)
		return true;
	pthread_mutex_lock(&reserve_lock);
	if (!reserve)
		reserve = take_reserve(reserve_size);
	is_short = !reserve;
	pthread_mutex_unlock(&reserve_lock);
	return !is_short;
}

/* p, or what the reserve has room for. */
static void *check(void *p, size_t n)
{
	if (!p && n > 0 && mem_give_up_reserve())
		p = malloc(n);
	if (!p)
		out_of_memory();
	return p;
}

void *mem_alloc(size_t n)
{
	n = n ? n : 1;
	return check(malloc(n), n);
}

void *mem_zalloc(size_t n)
{
	return n > ZEROED_HERE ? mem_calloc(1, n) : memset(mem_alloc(n), 0, n);
}

void *mem_calloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);   /* it checks the product */

	if (p || !mem_give_up_reserve())
		return check(p, 0);
	return check(calloc(n ? n : 1, size ? size : 1), 0);
}

void *mem_realloc(void *p, size_t n)
{
	void *moved;

	n = n ? n : 1;
	moved = realloc(p, n);
	if (!moved && mem_give_up_reserve())
		moved = realloc(p, n);
	return check(moved, 0);
}

static _Atomic size_t try_max = SIZE_MAX;

void *mem_try_realloc(void *p, size_t n)
{
	return n > try_max || !is_back() ? NULL : realloc(p, n ? n : 1);
}

void mem_fail_above(size_t n)
{
	try_max = n;
}

/* NULL: there is none. */
static void *spare_take(struct mem_spares *s)
{
	void *p = s->first;

	if (p) {
		memcpy(&s->first, p, sizeof(s->first));
		s->n--;
	}
	return p;
}

void *mem_spare_try(struct mem_spares *s, size_t n)
{
	void *p;

	if (n > try_max || !is_back())
		return NULL;
	p = n > s->size ? NULL : spare_take(s);
	return p ? p : malloc(n > s->size ? n : s->size);
}

void *mem_spare(struct mem_spares *s)
{
	void *p = spare_take(s);

	return p ? p : mem_alloc(s->size);
}

void mem_spare_free(struct mem_spares *s, void *p, size_t n)
{
	if (!p || SANITIZED || n > s->size || s->n >= s->max) {         /* it sees who uses what was given back */
		free(p);
		return;
	}
	memset(p, 0, n);
	memcpy(p, &s->first, sizeof(s->first));
	s->first = p;
	s->n++;
}

void mem_spares_fini(struct mem_spares *s)
{
	while (s->first) {
		void *p = s->first;

		memcpy(&s->first, p, sizeof(s->first));
		free(p);
	}
	s->n = 0;
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
	if (n < 0 && mem_give_up_reserve()) {
		va_start(ap, fmt);
		n = vasprintf(&text, fmt, ap);
		va_end(ap);
	}
	if (n < 0)
		out_of_memory();
	return text;
}

/* --- A bump allocator */

/* One block in the same piece of memory as its head, further blocks in a chain. */

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
	a = mem_alloc(sizeof(*a) + room);
	*a = (struct arena){ .limit = limit, .end = room, .top = a->first, .next_size = BLOCK_MIN };
	return a;
}

static bool add_block(struct arena *a, size_t need)
{
	size_t size = a->next_size, left = a->limit - a->used;
	struct block *b;

	if (size > left)
		size = left;
	if (size < need)
		size = need;
	b = mem_try_realloc(NULL, sizeof(*b) + size);
	if (!b)
		return false;
	b->size = size;
	b->next = a->blocks;
	a->blocks = b;
	a->top = b->data;
	a->at = 0;
	a->end = size;
	if (a->next_size < BLOCK_MAX)
		a->next_size *= 2;
	return true;
}

/* Room for n bytes, not zeroed. */
static void *take(struct arena *a, size_t n)
{
	size_t need;
	void *p;

	if (!round_up(n ? n : 1, &need) || need > a->limit - a->used)
		return NULL;
	if (need > a->end - a->at && !add_block(a, need))
		return NULL;
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

/* --- the machine's processors */

unsigned cpu_count(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		n = CPU_COUNT(&set);
	return n < 1 ? 1 : (unsigned)n;
}

/* --- crash points of test builds */

#ifdef CRASH_POINTS
/* What somebody would try who has taken the process over: "execve PATH" or "open PATH". */
static int try_as_intruder(const char *what)
{
	const char *path = strchr(what, ' ');
	char *argv[] = { NULL, NULL };

	if (!path)
		return CRASH_STATUS;
	argv[0] = (char *)(uintptr_t)++path;
	if (strncmp(what, "open ", 5) == 0)
		return open(path, O_RDONLY | O_CLOEXEC) < 0 && (errno == EPERM || errno == EACCES) ? CRASH_REFUSED : CRASH_DONE;
	(void)syscall(SYS_execve, path, argv, argv + 1);
	return errno == EPERM || errno == EACCES ? CRASH_REFUSED : CRASH_DONE;
}

void crash_at(const char *name)
{
	static _Atomic unsigned long passed;
	const char *at = getenv("TOOLCRIB_CRASH_AT"), *does = getenv("TOOLCRIB_CRASH_DOES");
	size_t len = strlen(name);

	if (!at || strncmp(at, name, len) != 0 || (at[len] && at[len] != ':'))
		return;
	if (++passed >= (at[len] ? strtoul(at + len + 1, NULL, 10) : 1))
		_exit(does ? try_as_intruder(does) : CRASH_STATUS);
}
#endif
