#ifndef BASE_AEAD_H
#define BASE_AEAD_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Encryption of values at rest: XChaCha20-Poly1305-IETF with a random nonce (SEC S-342).  A box is nonce, then
 * ciphertext, then tag.  The associated data binds it to its place: a box moved elsewhere does not open.  Any thread. */
#define AEAD_KEY_SIZE 32
#define AEAD_OVERHEAD (24 + 16)         /* nonce and tag */

/* ret has len + AEAD_OVERHEAD bytes. */
void aead_seal(const uint8_t key[AEAD_KEY_SIZE], const char *place, const void *p, size_t len, uint8_t *ret);
/* ret has len - AEAD_OVERHEAD bytes.  ERR_INVALID without detail: wrong key, place or box; ret is undefined then. */
int aead_open(const uint8_t key[AEAD_KEY_SIZE], const char *place, const uint8_t *p, size_t len, void *ret) MUST_CHECK;

#endif
