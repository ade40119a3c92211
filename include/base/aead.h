#ifndef BASE_AEAD_H
#define BASE_AEAD_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Encryption of values at rest: XChaCha20-Poly1305-IETF with a random nonce (SEC S-342).  A box is nonce, then
 * ciphertext, then tag.  The associated data binds it to its place: a box moved elsewhere does not open.  Any thread. */
#define AEAD_KEY_SIZE 32
#define AEAD_OVERHEAD (24 + 16)         /* of a box: nonce and tag */

#define AEAD_NONCE 24
#define AEAD_TAG 16

/* ret has len + AEAD_OVERHEAD bytes. */
void aead_seal(const uint8_t key[AEAD_KEY_SIZE], const char *place, const void *p, size_t len, uint8_t *ret);
/* ret has len - AEAD_OVERHEAD bytes.  ERR_INVALID without detail: wrong key, place or box; ret is undefined then. */
int aead_open(const uint8_t key[AEAD_KEY_SIZE], const char *place, const uint8_t *p, size_t len, void *ret) MUST_CHECK;

/* The same with nonce and ciphertext apart, and associated data that may be any bytes.  ret has len + AEAD_TAG. */
void aead_encrypt(const uint8_t key[AEAD_KEY_SIZE], const void *ad, size_t ad_len, const void *p, size_t len,
		  uint8_t ret_nonce[AEAD_NONCE], uint8_t *ret);
/* len is that of the ciphertext with its tag; ret has len - AEAD_TAG bytes. */
int aead_decrypt(const uint8_t key[AEAD_KEY_SIZE], const void *ad, size_t ad_len, const uint8_t nonce[AEAD_NONCE],
		 const uint8_t *p, size_t len, void *ret) MUST_CHECK;

#endif
