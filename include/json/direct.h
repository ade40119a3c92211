#ifndef JSON_DIRECT_H
#define JSON_DIRECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Trees read in place, as jansson 2.14 lays them out: a walk over members makes four calls into the library
 * for each, and they cost more than everything else that a validation does.  Who reads so asks
 * jx_direct_fits() first and takes jansson's own functions when it says no. */

struct jx_link { struct jx_link *prev, *next; };
struct jx_member {
	struct jx_link in_bucket, in_order;
	size_t hash;
	json_t *value;
	size_t len;
	char name[];
};
struct jx_direct_object {
	json_t head;
	size_t n;
	void *buckets;
	size_t order;
	struct jx_link all, members;            /* each closes a ring */
};
struct jx_direct_array { json_t head; size_t room, n; json_t **values; };
struct jx_direct_string { json_t head; char *p; size_t len; };

/* Does the library at hand lay out its values like that?  Compares a small tree read both ways. */
bool jx_direct_fits(void);

/* v is an object, an array or a string, as the name of the function says. */
static inline const struct jx_direct_object *jx_object(const json_t *v)
{
	return (const struct jx_direct_object *)(const void *)v;
}

static inline const struct jx_direct_array *jx_array(const json_t *v)
{
	return (const struct jx_direct_array *)(const void *)v;
}

static inline const struct jx_direct_string *jx_string(const json_t *v)
{
	return (const struct jx_direct_string *)(const void *)v;
}

/* The first member is behind the ring's head; NULL at its end. */
static inline const struct jx_member *jx_member_behind(const json_t *object, const struct jx_link *link)
{
	const struct jx_link *next = link->next;

	if (next == &jx_object(object)->members)
		return NULL;
	return (const struct jx_member *)(const void *)((const char *)next - offsetof(struct jx_member, in_order));
}

static inline const struct jx_member *jx_first_member(const json_t *object)
{
	return jx_member_behind(object, &jx_object(object)->members);
}

static inline const struct jx_member *jx_next_member(const json_t *object, const struct jx_member *m)
{
	return jx_member_behind(object, &m->in_order);
}

#endif
