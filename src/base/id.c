/* Time-ordered ids, random bytes and text. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <sodium.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/err.h"
#include "base/id.h"
#include "base/text.h"

/*
 * RFC 9562 5.7, big-endian: 48 bits of Unix milliseconds, version 7, 12 bits, variant 10, 62 bits.
 * The 74 bits between are a counter (6.2, method 2): a random start for each millisecond, then steps of
 * a random size, so that ids rise and yet cannot be guessed from each other.
 */
static struct {
	uint64_t ms;
	uint16_t high;          /* 12 bits */
	uint64_t low;           /* 62 bits */
} last;

static const uint64_t low_mask = (UINT64_C(1) << 62) - 1;

static void advance(void)
{
	uint64_t now_ms = clock_wall_us() / 1000;
	uint32_t step;

	if (now_ms <= last.ms) {
		id_random(&step, sizeof(step));
		last.low += (uint64_t)step + 1;
		if (last.low <= low_mask)
			return;
		last.low &= low_mask;
		if (++last.high < 0x1000)
			return;
		now_ms = last.ms + 1;   /* the counter is used up: borrow from the future */
	}
	last.ms = now_ms;
	id_random(&last.low, sizeof(last.low));
	id_random(&last.high, sizeof(last.high));
	last.low &= low_mask;
	last.high &= 0x7ff;             /* the upper half is room to count */
}

void id_uuid7(uint8_t ret[16])
{
	advance();
	for (int i = 0; i < 6; i++)
		ret[i] = (uint8_t)(last.ms >> (40 - 8 * i));
	ret[6] = (uint8_t)(0x70 | last.high >> 8);
	ret[7] = (uint8_t)last.high;
	for (int i = 0; i < 8; i++)
		ret[8 + i] = (uint8_t)(last.low >> (56 - 8 * i));
	ret[8] |= 0x80;
}

/* Bytes before each of the four dashes; the last group ends the text. */
static const unsigned groups[5] = { 4, 2, 2, 2, 6 };

char *id_format(const uint8_t id[16], char ret[ID_TEXT_SIZE])
{
	char *p = ret;

	for (int g = 0; g < 5; g++) {
		if (g)
			*p++ = '-';
		text_hex(id, groups[g], p);
		id += groups[g];
		p += 2 * groups[g];
	}
	return ret;
}

int id_parse(const char *text, size_t len, uint8_t ret[16])
{
	uint8_t id[16], *to = id;
	char again[ID_TEXT_SIZE];
	const char *p = text;

	if (len != ID_TEXT_SIZE - 1)
		return ERR_INVALID;
	for (int g = 0; g < 5; g++) {
		if (text_unhex(p, 2 * (size_t)groups[g], to, groups[g]) < 0)
			return ERR_INVALID;
		to += groups[g];
		p += 2 * groups[g] + 1;
	}
	/* One text for each id: dashes in their places, small letters. */
	if (memcmp(id_format(id, again), text, len) != 0)
		return ERR_INVALID;
	memcpy(ret, id, sizeof(id));
	return 0;
}

/* --- random bytes: the kernel's, of one thread by the page (SC-604) */

/* A mapping of its own.  A fork leaves the child zeros, so that `left` is 0 there and the child fills it for itself. */
struct pool {
	size_t left;                    /* at the end of bytes; those before were used, and are zero */
	uint8_t bytes[ID_POOL_SIZE];
};
static _Thread_local struct pool *pool;
static _Thread_local uint64_t refills;
static pthread_key_t pool_key;
static pthread_once_t pool_once = PTHREAD_ONCE_INIT;
static bool pool_usable;

static void pool_free(void *p)
{
	pool = NULL;
	sodium_munlock(p, sizeof(struct pool)); /* wipes */
	munmap(p, sizeof(struct pool));
}

static void pool_set_up(void)
{
	pool_usable = pthread_key_create(&pool_key, pool_free) == 0;
}

void id_random_pool(void)
{
	struct pool *p;

	pthread_once(&pool_once, pool_set_up);
	if (pool || !pool_usable)
		return;
	p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return;
	if (madvise(p, sizeof(*p), MADV_WIPEONFORK) < 0 || pthread_setspecific(pool_key, p) != 0) {
		munmap(p, sizeof(*p));
		return;
	}
	(void)madvise(p, sizeof(*p), MADV_DONTDUMP);
	(void)sodium_mlock(p, sizeof(*p));      /* best effort: nothing of it is a secret for long */
	pool = p;
}

static bool pool_fill(struct pool *p)
{
	size_t n = 0;

	while (n < sizeof(p->bytes)) {
		ssize_t got = getrandom(p->bytes + n, sizeof(p->bytes) - n, 0);

		if (got < 0 && errno != EINTR)
			return false;
		n += got > 0 ? (size_t)got : 0;
	}
	p->left = n;
	refills++;
	return true;
}

void id_random(void *ret, size_t n)
{
	uint8_t *from;

	if (!pool || n > ID_POOL_TAKE || (pool->left < n && !pool_fill(pool))) {
		randombytes_buf(ret, n);
		return;
	}
	from = pool->bytes + sizeof(pool->bytes) - pool->left;
	memcpy(ret, from, n);
	sodium_memzero(from, n);
	pool->left -= n;
}

const uint8_t *id_random_look(size_t *ret_left, uint64_t *ret_refills)
{
	*ret_left = pool ? pool->left : 0;
	*ret_refills = refills;
	return pool ? pool->bytes : NULL;
}

void id_random_text(char *ret, size_t n)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	enum { BASE = 62, FAIR = 256 / BASE * BASE };   /* bytes from FAIR on would favour some digits */
	uint8_t some[64];

	for (size_t done = 0; done < n;) {
		id_random(some, sizeof(some));
		for (size_t i = 0; i < sizeof(some) && done < n; i++)
			if (some[i] < FAIR)
				ret[done++] = digits[some[i] % BASE];
	}
	ret[n] = '\0';
	sodium_memzero(some, sizeof(some));      /* may have become a key */
}

void id_boot(char *ret, size_t size)
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, ret, size - 1) : 0;

	if (fd >= 0)
		close(fd);
	ret[n > 0 ? n : 0] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
	if (!ret[0])
		snprintf(ret, size, "unknown");
}
