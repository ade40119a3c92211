#ifndef REGISTRY_CATALOGUE_H
#define REGISTRY_CATALOGUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The shared schemas of the store by their $id: what a $ref of a definition may lead to.  A picture in memory of
 * what is in force, for one thread at a time.  A text that a stored version of a tool refers to never changes under
 * its $id, so the digest of a definition says all of what runs. */

#define CATALOGUE_SCHEMAS_MAX 1000
#define CATALOGUE_BYTES_MAX (8u << 20)  /* of all texts */

struct catalogue;

/* An empty one, on top of another that is borrowed for life, or of none: what is set here hides what is below. */
struct catalogue *catalogue_new(const struct catalogue *below);
/* One with the same schemas that stands alone, for another thread; c may be NULL. */
struct catalogue *catalogue_copy(const struct catalogue *c);
void catalogue_free(struct catalogue **c);
/* Copies all.  text: JSON, or NULL: there is no such schema (any more). */
void catalogue_set(struct catalogue *c, const char *uri, const char *text, size_t len, const uint8_t digest[32]);
bool catalogue_is_empty(const struct catalogue *c);             /* c may be NULL */

/* One user's look: what was asked for, in the order of asking. */
struct catalogue_ref { char *uri; uint8_t digest[32]; };
struct catalogue_refs { struct catalogue_ref *v; size_t n; };
void catalogue_refs_fini(struct catalogue_refs *refs);
struct catalogue_use {
	const struct catalogue *from;   /* may be NULL: nothing is found */
	struct catalogue_refs refs;
	json_t **docs;                  /* of each */
};
/* A schema_find_fn; arg is a struct catalogue_use.  What it returns lives until catalogue_use_end(). */
const json_t *catalogue_find(void *arg, const char *uri);
void catalogue_use_end(struct catalogue_use *use, struct catalogue_refs *ret);   /* ret takes the refs; may be NULL */

#endif
