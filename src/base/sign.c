/* Ed25519 signatures. */

#include "config.h"

#include "base/crypto.h"

#include <sodium.h>

_Static_assert(SIGN_SEED_SIZE == crypto_sign_ed25519_SEEDBYTES, "seed");
_Static_assert(SIGN_PUBLIC_SIZE == crypto_sign_ed25519_PUBLICKEYBYTES, "public key");
_Static_assert(SIGN_SECRET_SIZE == crypto_sign_ed25519_SECRETKEYBYTES, "secret key");
_Static_assert(SIGN_SIZE == crypto_sign_ed25519_BYTES, "signature");

void sign_keys(const uint8_t seed[SIGN_SEED_SIZE], uint8_t ret_public[SIGN_PUBLIC_SIZE],
	       uint8_t ret_secret[SIGN_SECRET_SIZE])
{
	crypto_sign_ed25519_seed_keypair(ret_public, ret_secret, seed);
}

void sign_make(const uint8_t secret[SIGN_SECRET_SIZE], const void *p, size_t len, uint8_t ret[SIGN_SIZE])
{
	crypto_sign_ed25519_detached(ret, NULL, p, len, secret);
}

bool sign_check(const uint8_t public[SIGN_PUBLIC_SIZE], const void *p, size_t len, const uint8_t sig[SIGN_SIZE])
{
	return crypto_sign_ed25519_verify_detached(sig, p, len, public) == 0;
}
