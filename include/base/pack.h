#ifndef BASE_PACK_H
#define BASE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* Numbers of eight bytes, little-endian, and texts behind their length, as a verification and the mark of an auditor
 * hold them.  Nothing here keeps what it is given; any thread. */
void pack_u64(struct str *to, uint64_t n);
void pack_bytes(struct str *to, const void *p, size_t n);
void pack_text(struct str *to, const char *p, size_t len);

/* Whoever reads beyond the end, or what cannot be, gets zeros, and bad is set.  Borrows p. */
struct unpack { const uint8_t *p; size_t left; bool bad; };
uint64_t unpack_u64(struct unpack *in);
bool unpack_bool(struct unpack *in);
void unpack_bytes(struct unpack *in, void *ret, size_t n);
const char *unpack_text(struct unpack *in, size_t *ret_len);    /* not terminated */
void unpack_name(struct unpack *in, char *ret, size_t size);    /* terminated, without NUL inside; else bad */
/* How many things of at least so many bytes follow; no more than there can be. */
size_t unpack_count(struct unpack *in, size_t each);
/* Part of the bytes by themselves. */
void unpack_part(struct unpack *in, struct unpack *ret);

#endif
