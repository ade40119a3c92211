#ifndef BASE_SIGN_H
#define BASE_SIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ed25519 signatures (RFC 8032) by libsodium; any thread. */
#define SIGN_SEED_SIZE 32
#define SIGN_PUBLIC_SIZE 32
#define SIGN_SECRET_SIZE 64             /* seed and public key */
#define SIGN_SIZE 64

void sign_keys(const uint8_t seed[SIGN_SEED_SIZE], uint8_t ret_public[SIGN_PUBLIC_SIZE],
	       uint8_t ret_secret[SIGN_SECRET_SIZE]);
void sign_make(const uint8_t secret[SIGN_SECRET_SIZE], const void *p, size_t len, uint8_t ret[SIGN_SIZE]);
bool sign_check(const uint8_t public[SIGN_PUBLIC_SIZE], const void *p, size_t len, const uint8_t sig[SIGN_SIZE]);

#endif
