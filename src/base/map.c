/*
 * A hash map by open addressing and linear probing.  A slot holds the hash and a pointer to the pair; pairs never move
 * while a walk goes on, since only an insertion rebuilds the table.  A map whose first key is an integer has integers
 * alone: its slots hold the key and the value themselves, so that looking there takes one line of the cache.
 */

#include "config.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "base/map.h"
#include "base/mem.h"

enum { CAP_MIN = 8 };                   /* a power of two, as every capacity */

struct pair {
	void *value;
	size_t len;
	char key[];
};

struct slot {
	uint64_t hash;                  /* of integers: the key */
	void *p;                        /* a pair, of integers the value; NULL: never used; &gone: deleted */
};

struct map {
	struct slot *slots;             /* NULL while cap is 0 */
	size_t cap, count, dirty;       /* dirty: slots that are not NULL */
	bool integers;                  /* decided with the first slots */
};

static struct pair gone;

/* SEC S-208: who sends keys cannot know which of them meet. */
static unsigned char seed[crypto_shorthash_KEYBYTES];
static struct { uint64_t add, times; } integer_seed;
static pthread_once_t seed_once = PTHREAD_ONCE_INIT;

static void seed_draw(void)
{
	randombytes_buf(seed, sizeof(seed));
	randombytes_buf(&integer_seed, sizeof(integer_seed));
	integer_seed.times |= 1;
}

static uint64_t hash_of(const void *key, size_t len)
{
	unsigned char out[crypto_shorthash_BYTES];
	uint64_t h;

	crypto_shorthash(out, key, len, seed);
	memcpy(&h, out, sizeof(h));
	return h;
}

/* All bits of the product take part, so that no bits of the key alone say where it lies. */
static uint64_t hash_of_integer(uint64_t key)
{
	unsigned __int128 product = (unsigned __int128)(key ^ integer_seed.add) * integer_seed.times;
	uint64_t h = (uint64_t)product ^ (uint64_t)(product >> 64);

	return h ^ h >> 32;
}

uint64_t map_hash(const void *key, size_t len)
{
	pthread_once(&seed_once, seed_draw);
	return hash_of(key, len);
}

struct map *map_new(void)
{
	pthread_once(&seed_once, seed_draw);
	return mem_zalloc(sizeof(struct map));
}

void map_free(struct map **m)
{
	if (!m || !*m)
		return;
	for (size_t i = 0; i < (*m)->cap && !(*m)->integers; i++)
		if ((*m)->slots[i].p != &gone)
			free((*m)->slots[i].p);
	free((*m)->slots);
	free(*m);
	*m = NULL;
}

void map_free_all(struct map **m)
{
	void *value;

	for (size_t it = 0; *m && map_next(*m, &it, NULL, NULL, &value);)
		free(value);
	map_free(m);
}

size_t map_count(const struct map *m)
{
	return m->count;
}

/* The slot of this key, or NULL. */
static struct slot *find(const struct map *m, const void *key, size_t len, uint64_t hash)
{
	if (!m->cap)
		return NULL;
	for (size_t i = hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
		struct slot *s = &m->slots[i];
		const struct pair *pair = s->p;

		if (!pair)
			return NULL;
		if (s->hash == hash && pair != &gone && pair->len == len && (len == 0 || memcmp(pair->key, key, len) == 0))
			return s;
	}
}

static struct slot *find_integer(const struct map *m, uint64_t key)
{
	if (!m->cap)
		return NULL;
	for (size_t i = hash_of_integer(key) & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
		struct slot *s = &m->slots[i];

		if (!s->p)
			return NULL;
		if (s->hash == key && s->p != &gone)
			return s;
	}
}

static void place(struct map *m, struct slot s)
{
	size_t i = (m->integers ? hash_of_integer(s.hash) : s.hash) & (m->cap - 1);

	while (m->slots[i].p && m->slots[i].p != &gone)
		i = (i + 1) & (m->cap - 1);
	if (!m->slots[i].p)
		m->dirty++;
	m->slots[i] = s;
	m->count++;
}

/* A new table for count + 1 pairs, at most half full, without deleted slots. */
static void rebuild(struct map *m)
{
	struct map old = *m;
	size_t cap = CAP_MIN;

	while (cap / 2 < old.count + 1)
		cap *= 2;
	*m = (struct map){ .slots = mem_calloc(cap, sizeof *m->slots), .cap = cap, .integers = old.integers };
	for (size_t i = 0; i < old.cap; i++)
		if (old.slots[i].p && old.slots[i].p != &gone)
			place(m, old.slots[i]);
	free(old.slots);
}

static void make_room(struct map *m)
{
	if (m->dirty + 1 > m->cap / 4 * 3)
		rebuild(m);
}

/* Bytes of an integer, asked of a map of integers. */
static bool is_integer(const struct map *m, const void *key, size_t len, uint64_t *ret)
{
	if (!m->integers || len != sizeof(*ret))
		return false;
	memcpy(ret, key, sizeof(*ret));
	return true;
}

void *map_get(const struct map *m, const void *key, size_t len)
{
	uint64_t integer;
	struct slot *s;

	if (is_integer(m, key, len, &integer))
		return map_get_u64(m, integer);
	s = m->count && !m->integers ? find(m, key, len, hash_of(key, len)) : NULL;
	return s ? ((struct pair *)s->p)->value : NULL;
}

void *map_set(struct map *m, const void *key, size_t len, void *value)
{
	uint64_t integer, hash;
	struct pair *pair;
	struct slot *s;

	assert(value);
	if (is_integer(m, key, len, &integer))
		return map_set_u64(m, integer, value);
	assert(!m->integers);
	hash = hash_of(key, len);
	s = find(m, key, len, hash);
	if (s) {
		void *old = ((struct pair *)s->p)->value;

		((struct pair *)s->p)->value = value;
		return old;
	}
	make_room(m);
	pair = mem_alloc(sizeof(*pair) + len);
	pair->value = value;
	pair->len = len;
	if (len)
		memcpy(pair->key, key, len);
	place(m, (struct slot){ hash, pair });
	return NULL;
}

static void empty(struct map *m, struct slot *s)
{
	size_t i = (size_t)(s - m->slots);

	s->p = &gone;
	m->count--;
	/* A deleted slot before an empty one keeps no probe going: give it and its like back. */
	if (!m->slots[(i + 1) & (m->cap - 1)].p)
		for (; m->slots[i].p == &gone; i = (i - 1) & (m->cap - 1)) {
			m->slots[i].p = NULL;
			m->dirty--;
		}
}

void *map_del(struct map *m, const void *key, size_t len)
{
	uint64_t integer;
	struct slot *s;
	void *value;

	if (is_integer(m, key, len, &integer))
		return map_del_u64(m, integer);
	s = m->integers ? NULL : find(m, key, len, hash_of(key, len));
	if (!s)
		return NULL;
	value = ((struct pair *)s->p)->value;
	free(s->p);
	empty(m, s);
	return value;
}

bool map_next(const struct map *m, size_t *it, const void **ret_key, size_t *ret_len, void **ret_value)
{
	for (; *it < m->cap; ++*it) {
		const struct slot *s = &m->slots[*it];
		const struct pair *pair = s->p;

		if (!pair || pair == &gone)
			continue;
		if (ret_key)
			*ret_key = m->integers ? (const void *)&s->hash : pair->key;
		if (ret_len)
			*ret_len = m->integers ? sizeof(s->hash) : pair->len;
		if (ret_value)
			*ret_value = m->integers ? s->p : pair->value;
		++*it;
		return true;
	}
	return false;
}

void *map_get_u64(const struct map *m, uint64_t key)
{
	struct slot *s;

	if (!m->integers)
		return m->count ? map_get(m, &key, sizeof(key)) : NULL;
	s = find_integer(m, key);
	return s ? s->p : NULL;
}

void *map_set_u64(struct map *m, uint64_t key, void *value)
{
	struct slot *s;
	void *old;

	assert(value);
	if (!m->cap)
		m->integers = true;
	if (!m->integers)
		return map_set(m, &key, sizeof(key), value);
	s = find_integer(m, key);
	if (s) {
		old = s->p;
		s->p = value;
		return old;
	}
	make_room(m);
	place(m, (struct slot){ key, value });
	return NULL;
}

void *map_del_u64(struct map *m, uint64_t key)
{
	struct slot *s;
	void *value;

	if (!m->integers)
		return map_del(m, &key, sizeof(key));
	s = find_integer(m, key);
	if (!s)
		return NULL;
	value = s->p;
	empty(m, s);
	return value;
}

void *map_get_z(const struct map *m, const char *key)
{
	return map_get(m, key, strlen(key));
}

void *map_set_z(struct map *m, const char *key, void *value)
{
	return map_set(m, key, strlen(key), value);
}

void *map_del_z(struct map *m, const char *key)
{
	return map_del(m, key, strlen(key));
}

/* --- in front of maps */

struct near_set {
	uint64_t tag[NEAR_WAYS];
	void *p[NEAR_WAYS];             /* NULL: nothing is here */
};

enum { LINE = sizeof(struct near_set) };
_Static_assert(LINE == 64, "a line of the cache");

struct near {
	size_t mask;
	char *room;                     /* what was allocated */
	struct near_set *set;           /* in it, at the beginning of a line */
};

struct near *near_new(size_t sets)
{
	struct near *n = mem_alloc(sizeof(*n));

	assert(sets > 0 && sets <= NEAR_SETS_MAX && (sets & (sets - 1)) == 0);
	n->mask = sets - 1;
	n->room = mem_calloc(sets + 1, LINE);
	n->set = (struct near_set *)(void *)(n->room + (LINE - (uintptr_t)n->room % LINE));
	return n;
}

void near_free(struct near **n)
{
	if (*n)
		free((*n)->room);
	free(*n);
	*n = NULL;
}

static struct near_set *near_set(const struct near *n, uint64_t tag)
{
	return &n->set[(tag * UINT64_C(0x9e3779b97f4a7c15)) >> 48 & n->mask];
}

void *near_get(const struct near *n, uint64_t tag)
{
	const struct near_set *s = near_set(n, tag);

	for (unsigned i = 0; i < NEAR_WAYS; i++)
		if (s->tag[i] == tag && s->p[i])
			return s->p[i];
	return NULL;
}

void near_put(struct near *n, uint64_t tag, void *p)
{
	struct near_set *s = near_set(n, tag);

	memmove(s->tag + 1, s->tag, sizeof(s->tag) - sizeof(s->tag[0]));
	memmove(s->p + 1, s->p, sizeof(s->p) - sizeof(s->p[0]));
	s->tag[0] = tag;
	s->p[0] = p;
}

void near_del(struct near *n, uint64_t tag, const void *p)
{
	struct near_set *s = near_set(n, tag);

	for (unsigned i = 0; i < NEAR_WAYS; i++)
		if (s->p[i] == p)
			s->p[i] = NULL;
}

void near_clear(struct near *n)
{
	memset(n->set, 0, (n->mask + 1) * sizeof(n->set[0]));
}

uint64_t near_tag(uint64_t about, const char *text, size_t len)
{
	uint64_t end = 0;

	memcpy(&end, text + (len < 8 ? 0 : len - 8), len < 8 ? len : 8);
	return end ^ about * UINT64_C(0xff51afd7ed558ccd) ^ len << 56;
}
