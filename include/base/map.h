#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- hash maps */

/* A hash map from bytes to a pointer; SipHash with a seed per process (SEC S-208), integers by a keyed multiplication.
 * Keys are copied, values borrowed.  One thread at a time. */
struct map;

struct map *map_new(void);
void map_free(struct map **m);                        /* values are the caller's */
void map_free_all(struct map **m);                    /* and each value by free() */
size_t map_count(const struct map *m);
void *map_get(const struct map *m, const void *key, size_t len);   /* NULL when absent */
/* Returns the old value or NULL; value is not NULL. */
void *map_set(struct map *m, const void *key, size_t len, void *value);
void *map_del(struct map *m, const void *key, size_t len);         /* returns the value or NULL */
/* Walk: for (size_t it = 0; map_next(m, &it, &key, &len, &value); ).  Order is arbitrary; deleting
 * the pair just returned is allowed, inserting is not. */
bool map_next(const struct map *m, size_t *it, const void **ret_key, size_t *ret_len, void **ret_value);

/* The hash of all of them, for a table that is no map since its keys are in what it holds. */
uint64_t map_hash(const void *key, size_t len);

/* Keys that are integers.  A map whose first key was set by map_set_u64() takes no other key than of 8 bytes. */
void *map_get_u64(const struct map *m, uint64_t key);
void *map_set_u64(struct map *m, uint64_t key, void *value);
void *map_del_u64(struct map *m, uint64_t key);
void *map_get_z(const struct map *m, const char *key);
void *map_set_z(struct map *m, const char *key, void *value);
void *map_del_z(struct map *m, const char *key);

/* --- in front of maps */

/* What is asked for again and again, found by a tag that the caller makes of its key: no hash, and one line of the
 * cache.  Two keys may have one tag: whoever gets a pointer looks whether it is the one.  In a full set the one that
 * came first goes.  Pointers are borrowed. */
struct near;
#define NEAR_WAYS 4                     /* pointers of a set */
#define NEAR_SETS_MAX (1u << 16)

struct near *near_new(size_t sets);                   /* a power of two, at most NEAR_SETS_MAX */
void near_free(struct near **n);
void *near_get(const struct near *n, uint64_t tag);   /* NULL when absent */
void near_put(struct near *n, uint64_t tag, void *p); /* not NULL, and not there yet under this tag */
void near_del(struct near *n, uint64_t tag, const void *p);
void near_clear(struct near *n);
/* Of a key that is a text: its end, where such texts differ, and what it is a text of. */
uint64_t near_tag(uint64_t about, const char *text, size_t len);

/* --- lists */

/* Doubly linked intrusive lists.  A node that is in no list points to itself, so list_unlink() is
 * idempotent. */
struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_push_back(struct list *head, struct list *n)
{
	n->prev = head->prev;
	n->next = head;
	head->prev->next = n;
	head->prev = n;
}

static inline void list_push_front(struct list *head, struct list *n)
{
	n->next = head->next;
	n->prev = head;
	head->next->prev = n;
	head->next = n;
}

static inline void list_unlink(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

#define LIST_FOREACH(n, head) for (struct list *n = (head)->next; n != (head); n = n->next)
/* Safe when n itself is unlinked in the body. */
#define LIST_FOREACH_SAFE(n, tmp, head) \
	for (struct list *n = (head)->next, *tmp = n->next; n != (head); n = tmp, tmp = n->next)

#endif
