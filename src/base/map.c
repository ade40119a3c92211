/*
 * A hash map by open addressing and linear probing.  A slot holds the hash and a pointer to the pair;
 * pairs never move while a walk goes on, since only an insertion rebuilds the table.
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
	uint64_t hash;
	struct pair *pair;              /* NULL: never used; &gone: deleted */
};

struct map {
	struct slot *slots;             /* NULL while cap is 0 */
	size_t cap, count, dirty;       /* dirty: slots that are not NULL */
};

static struct pair gone;

/* SEC S-208: who sends keys cannot know which of them meet. */
static unsigned char seed[crypto_shorthash_KEYBYTES];
static pthread_once_t seed_once = PTHREAD_ONCE_INIT;

static void seed_draw(void)
{
	randombytes_buf(seed, sizeof(seed));
}

static uint64_t hash_of(const void *key, size_t len)
{
	unsigned char out[crypto_shorthash_BYTES];
	uint64_t h;

	crypto_shorthash(out, key, len, seed);
	memcpy(&h, out, sizeof(h));
	return h;
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
	for (size_t i = 0; i < (*m)->cap; i++)
		if ((*m)->slots[i].pair != &gone)
			free((*m)->slots[i].pair);
	free((*m)->slots);
	free(*m);
	*m = NULL;
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

		if (!s->pair)
			return NULL;
		if (s->pair != &gone && s->hash == hash && s->pair->len == len &&
		    (len == 0 || memcmp(s->pair->key, key, len) == 0))
			return s;
	}
}

static void place(struct map *m, struct pair *pair, uint64_t hash)
{
	size_t i = hash & (m->cap - 1);

	while (m->slots[i].pair && m->slots[i].pair != &gone)
		i = (i + 1) & (m->cap - 1);
	if (!m->slots[i].pair)
		m->dirty++;
	m->slots[i] = (struct slot){ hash, pair };
	m->count++;
}

/* A new table for count + 1 pairs, at most half full, without deleted slots. */
static void rebuild(struct map *m)
{
	struct map old = *m;
	size_t cap = CAP_MIN;

	while (cap / 2 < old.count + 1)
		cap *= 2;
	*m = (struct map){ .slots = mem_calloc(cap, sizeof *m->slots), .cap = cap };
	for (size_t i = 0; i < old.cap; i++)
		if (old.slots[i].pair && old.slots[i].pair != &gone)
			place(m, old.slots[i].pair, old.slots[i].hash);
	free(old.slots);
}

void *map_get(const struct map *m, const void *key, size_t len)
{
	struct slot *s = m->count ? find(m, key, len, hash_of(key, len)) : NULL;

	return s ? s->pair->value : NULL;
}

void *map_set(struct map *m, const void *key, size_t len, void *value)
{
	uint64_t hash = hash_of(key, len);
	struct slot *s = find(m, key, len, hash);
	struct pair *pair;
	void *old;

	assert(value);
	if (s) {
		old = s->pair->value;
		s->pair->value = value;
		return old;
	}
	if (m->dirty + 1 > m->cap / 4 * 3)
		rebuild(m);
	pair = mem_alloc(sizeof(*pair) + len);
	pair->value = value;
	pair->len = len;
	if (len)
		memcpy(pair->key, key, len);
	place(m, pair, hash);
	return NULL;
}

void *map_del(struct map *m, const void *key, size_t len)
{
	struct slot *s = find(m, key, len, hash_of(key, len));
	void *value;
	size_t i;

	if (!s)
		return NULL;
	value = s->pair->value;
	free(s->pair);
	s->pair = &gone;
	m->count--;
	/* A deleted slot before an empty one keeps no probe going: give it and its like back. */
	i = (size_t)(s - m->slots);
	if (!m->slots[(i + 1) & (m->cap - 1)].pair)
		for (; m->slots[i].pair == &gone; i = (i - 1) & (m->cap - 1)) {
			m->slots[i].pair = NULL;
			m->dirty--;
		}
	return value;
}

bool map_next(const struct map *m, size_t *it, const void **ret_key, size_t *ret_len, void **ret_value)
{
	for (; *it < m->cap; ++*it) {
		struct pair *pair = m->slots[*it].pair;

		if (!pair || pair == &gone)
			continue;
		if (ret_key)
			*ret_key = pair->key;
		if (ret_len)
			*ret_len = pair->len;
		if (ret_value)
			*ret_value = pair->value;
		++*it;
		return true;
	}
	return false;
}

void *map_get_u64(const struct map *m, uint64_t key)
{
	return map_get(m, &key, sizeof(key));
}

void *map_set_u64(struct map *m, uint64_t key, void *value)
{
	return map_set(m, &key, sizeof(key), value);
}

void *map_del_u64(struct map *m, uint64_t key)
{
	return map_del(m, &key, sizeof(key));
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
