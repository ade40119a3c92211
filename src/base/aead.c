/* A box: 24 bytes of nonce, the ciphertext, 16 bytes of tag.  192 bits of random nonce do not repeat. */

#include "config.h"

#include "base/aead.h"

#include <string.h>

#include <sodium.h>

enum { NONCE = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES };

_Static_assert(AEAD_KEY_SIZE == crypto_aead_xchacha20poly1305_ietf_KEYBYTES, "key");
_Static_assert(AEAD_OVERHEAD == NONCE + crypto_aead_xchacha20poly1305_ietf_ABYTES, "overhead");

void aead_seal(const uint8_t key[AEAD_KEY_SIZE], const char *place, const void *p, size_t len, uint8_t *ret)
{
	randombytes_buf(ret, NONCE);
	crypto_aead_xchacha20poly1305_ietf_encrypt(ret + NONCE, NULL, p, len, (const uint8_t *)place, strlen(place), NULL,
						   ret, key);
}

int aead_open(const uint8_t key[AEAD_KEY_SIZE], const char *place, const uint8_t *p, size_t len, void *ret)
{
	if (len < AEAD_OVERHEAD)
		return ERR_INVALID;
	if (crypto_aead_xchacha20poly1305_ietf_decrypt(ret, NULL, NULL, p + NONCE, len - NONCE, (const uint8_t *)place,
						       strlen(place), p, key) != 0)
		return ERR_INVALID;
	return 0;
}
