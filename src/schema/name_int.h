#ifndef SRC_SCHEMA_NAME_INT_H
#define SRC_SCHEMA_NAME_INT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Names found without a comparison each: open addressing, the power of two at least twice their number.
 * A slot holds the ends of its name, which are all of it up to 16 bytes, so that a hit costs one line of
 * memory.  The multipliers are random: nobody can make up names that meet in one slot (SEC S-208). */

struct name { const char *p; size_t len; };
struct name_slot {
	uint64_t head, tail;                    /* see schema_name_key() */
	uint32_t len;
	uint32_t item;                          /* from 1 on, 0 = free */
};
struct name_index {
	const struct name_slot *slots;
	uint64_t seed[2];                       /* odd */
	unsigned shift;                         /* 64 - log2 of the slots */
};
struct name_key { uint64_t head, tail; };

/* Short names before long ones: an order to sort by, for nobody to read. */
static inline int schema_order_names(const struct name *a, const struct name *b)
{
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	return memcmp(a->p, b->p, a->len);
}

static inline uint64_t schema_load(const char *p, size_t n)
{
	uint64_t v = 0;

	memcpy(&v, p, n);
	return v;
}

/* The first and the last bytes, overlapping; what stands between them in long names is folded in. */
static inline struct name_key schema_name_key(const char *p, size_t len)
{
	struct name_key k = { 0, 0 };

	if (len >= 8) {
		k.head = schema_load(p, 8);
		k.tail = schema_load(p + len - 8, 8);
		for (size_t i = 8; i + 8 < len; i += 8)
			k.tail = (k.tail ^ schema_load(p + i, 8)) * 0x9e3779b97f4a7c15u;
	} else if (len >= 4) {
		k.head = schema_load(p, 4);
		k.tail = schema_load(p + len - 4, 4);
	} else if (len) {
		k.head = (uint64_t)(unsigned char)p[0] | (uint64_t)(unsigned char)p[len / 2] << 8 |
			 (uint64_t)(unsigned char)p[len - 1] << 16;
	}
	return k;
}

static inline size_t schema_name_slot(const struct name_index *x, struct name_key k, size_t len)
{
	return ((k.head + len) * x->seed[0] + (k.tail ^ k.tail >> 32) * x->seed[1]) >> x->shift;
}

/* The item with this name, or NULL; items begin with a struct name each.  k is the name's key. */
static inline const void *schema_find_key(const struct name_index *x, const void *items, size_t stride,
					  struct name_key k, const char *p, size_t len)
{
	size_t mask, i;

	if (!x->slots)
		return NULL;
	mask = ((size_t)1 << (64 - x->shift)) - 1;
	for (i = schema_name_slot(x, k, len); x->slots[i].item; i = (i + 1) & mask) {
		const struct name_slot *slot = &x->slots[i];
		const void *item = (const char *)items + (slot->item - 1u) * stride;

		if (slot->head == k.head && slot->tail == k.tail && slot->len == len &&
		    (len <= 16 || memcmp(((const struct name *)item)->p, p, len) == 0))
			return item;
	}
	return NULL;
}

static inline const void *schema_find_name(const struct name_index *x, const void *items, size_t stride,
					   const char *p, size_t len)
{
	return schema_find_key(x, items, stride, schema_name_key(p, len), p, len);
}

#endif
