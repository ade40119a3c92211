#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A hash map from bytes to a pointer; SipHash with a seed per process (SEC S-208).  Keys are copied,
 * values borrowed.  One thread at a time. */
struct map;

struct map *map_new(void);
void map_free(struct map **m);                        /* values are the caller's */
size_t map_count(const struct map *m);
void *map_get(const struct map *m, const void *key, size_t len);   /* NULL when absent */
/* Returns the old value or NULL; value is not NULL. */
void *map_set(struct map *m, const void *key, size_t len, void *value);
void *map_del(struct map *m, const void *key, size_t len);         /* returns the value or NULL */
/* Walk: for (size_t it = 0; map_next(m, &it, &key, &len, &value); ).  Order is arbitrary; deleting
 * the pair just returned is allowed, inserting is not. */
bool map_next(const struct map *m, size_t *it, const void **ret_key, size_t *ret_len, void **ret_value);

/* Keys that are integers. */
void *map_get_u64(const struct map *m, uint64_t key);
void *map_set_u64(struct map *m, uint64_t key, void *value);
void *map_del_u64(struct map *m, uint64_t key);
void *map_get_z(const struct map *m, const char *key);
void *map_set_z(struct map *m, const char *key, void *value);
void *map_del_z(struct map *m, const char *key);

#endif
