/* A box: 24 bytes of nonce, the ciphertext, 16 bytes of tag.  192 bits of random nonce do not repeat. */

#include "config.h"

#include "base/crypto.h"

#include <string.h>

#include <sodium.h>

enum { NONCE = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES };

_Static_assert(AEAD_KEY_SIZE == crypto_aead_xchacha20poly1305_ietf_KEYBYTES, "key");
_Static_assert(AEAD_NONCE == NONCE && AEAD_TAG == crypto_aead_xchacha20poly1305_ietf_ABYTES, "nonce, tag");
_Static_assert(AEAD_OVERHEAD == NONCE + crypto_aead_xchacha20poly1305_ietf_ABYTES, "overhead");

void aead_encrypt(const uint8_t key[AEAD_KEY_SIZE], const void *ad, size_t ad_len, const void *p, size_t len,
		  uint8_t ret_nonce[AEAD_NONCE], uint8_t *ret)
{
	randombytes_buf(ret_nonce, NONCE);
	crypto_aead_xchacha20poly1305_ietf_encrypt(ret, NULL, p, len, ad, ad_len, NULL, ret_nonce, key);
}

int aead_decrypt(const uint8_t key[AEAD_KEY_SIZE], const void *ad, size_t ad_len, const uint8_t nonce[AEAD_NONCE],
		 const uint8_t *p, size_t len, void *ret)
{
	if (len < AEAD_TAG || crypto_aead_xchacha20poly1305_ietf_decrypt(ret, NULL, NULL, p, len, ad, ad_len, nonce, key) != 0)
		return ERR_INVALID;
	return 0;
}

void aead_seal(const uint8_t key[AEAD_KEY_SIZE], const char *place, const void *p, size_t len, uint8_t *ret)
{
	aead_encrypt(key, place, strlen(place), p, len, ret, ret + NONCE);
}

int aead_open(const uint8_t key[AEAD_KEY_SIZE], const char *place, const uint8_t *p, size_t len, void *ret)
{
	if (len < AEAD_OVERHEAD)
		return ERR_INVALID;
	return aead_decrypt(key, place, strlen(place), p, p + NONCE, len - NONCE, ret);
}
