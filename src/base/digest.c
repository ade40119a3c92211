/* SHA-256 by OpenSSL (five times libsodium's speed), keyed BLAKE2b and SipHash by libsodium, CRC-32. */

#include "config.h"

#include "base/crypto.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <sodium.h>

struct digest {
	EVP_MD_CTX *ctx;
};

/* Fetched once: a lookup by name costs more than hashing a kilobyte. */
static EVP_MD *sha256;
static pthread_once_t sha256_once = PTHREAD_ONCE_INIT;
/* Each thread's own, for digests in one go: to make one costs as much as to hash half a kilobyte. */
static pthread_key_t spare_key;
static _Thread_local EVP_MD_CTX *spare;

/* OpenSSL fails here only without memory or without its own provider: nothing could be recorded. */
static void must(int ok)
{
	if (ok)
		return;
	fputs("SHA-256 of OpenSSL is not available\n", stderr);
	abort();
}

static void spare_free(void *ctx)
{
	EVP_MD_CTX_free(ctx);
}

static void sha256_fetch(void)
{
	sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	must(sha256 != NULL && pthread_key_create(&spare_key, spare_free) == 0);
}

static EVP_MD_CTX *spare_get(void)
{
	if (!spare) {
		pthread_once(&sha256_once, sha256_fetch);
		spare = EVP_MD_CTX_new();
		must(spare && pthread_setspecific(spare_key, spare) == 0);
	}
	return spare;
}

void digest_sha256_parts(const struct digest_part *part, size_t nparts, uint8_t ret[DIGEST_SIZE])
{
	EVP_MD_CTX *ctx = spare_get();

	must(EVP_DigestInit_ex2(ctx, sha256, NULL));
	for (size_t i = 0; i < nparts; i++)
		must(EVP_DigestUpdate(ctx, part[i].p, part[i].len));
	must(EVP_DigestFinal_ex(ctx, ret, NULL));
}

void digest_sha256(const void *p, size_t n, uint8_t ret[DIGEST_SIZE])
{
	digest_sha256_parts(&(struct digest_part){ p, n }, 1, ret);
}

struct digest *digest_new(void)
{
	struct digest *d = malloc(sizeof *d);

	pthread_once(&sha256_once, sha256_fetch);
	must(d && (d->ctx = EVP_MD_CTX_new()) && EVP_DigestInit_ex2(d->ctx, sha256, NULL));
	return d;
}

void digest_put(struct digest *d, const void *p, size_t n)
{
	must(EVP_DigestUpdate(d->ctx, p, n));
}

void digest_end(struct digest **d, uint8_t ret[DIGEST_SIZE])
{
	must(EVP_DigestFinal_ex((*d)->ctx, ret, NULL));
	EVP_MD_CTX_free((*d)->ctx);
	free(*d);
	*d = NULL;
}

void digest_keyed(const uint8_t key[32], const char *prefix, size_t prefix_len, const void *p, size_t n,
		  uint8_t ret[DIGEST_SIZE])
{
	crypto_generichash_state state;

	crypto_generichash_init(&state, key, 32, DIGEST_SIZE);
	crypto_generichash_update(&state, (const unsigned char *)prefix, prefix_len);
	crypto_generichash_update(&state, p, n);
	crypto_generichash_final(&state, ret, DIGEST_SIZE);
	sodium_memzero(&state, sizeof state);
}

uint64_t digest_short(const uint8_t key[DIGEST_SHORT_KEY], const void *p, size_t n)
{
	unsigned char out[crypto_shorthash_BYTES];
	uint64_t h;

	crypto_shorthash(out, p, n, key);
	memcpy(&h, out, sizeof h);
	return h;
}

/* By OpenSSL's SHA-256 for its speed, in a context of its own, which forgets the key: it starts from there twice. */
static void hmac_pass(EVP_MD_CTX *ctx, const uint8_t key[32], uint8_t pad, const struct digest_part *part, size_t nparts,
		      uint8_t ret[DIGEST_SIZE])
{
	uint8_t block[64];

	for (size_t i = 0; i < sizeof block; i++)
		block[i] = (uint8_t)((i < 32 ? key[i] : 0) ^ pad);
	must(EVP_DigestInit_ex2(ctx, sha256, NULL));
	must(EVP_DigestUpdate(ctx, block, sizeof block));
	for (size_t i = 0; i < nparts; i++)
		must(EVP_DigestUpdate(ctx, part[i].p, part[i].len));
	must(EVP_DigestFinal_ex(ctx, ret, NULL));
	sodium_memzero(block, sizeof block);
}

void digest_hmac(const uint8_t key[32], const struct digest_part *part, size_t nparts, uint8_t ret[DIGEST_SIZE])
{
	struct digest_part inner = { ret, DIGEST_SIZE };
	EVP_MD_CTX *ctx;

	pthread_once(&sha256_once, sha256_fetch);
	ctx = EVP_MD_CTX_new();
	must(ctx != NULL);
	hmac_pass(ctx, key, 0x36, part, nparts, ret);
	hmac_pass(ctx, key, 0x5c, &inner, 1, ret);
	EVP_MD_CTX_free(ctx);
}

uint32_t digest_crc32(const void *p, size_t n)
{
	/* Remainders of the sixteen nibbles for the reflected polynomial 0xedb88320. */
	static const uint32_t nibbles[16] = {
		0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
		0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};
	const uint8_t *u = p;
	uint32_t crc = 0xffffffff;

	for (size_t i = 0; i < n; i++) {
		crc ^= u[i];
		crc = crc >> 4 ^ nibbles[crc & 15];
		crc = crc >> 4 ^ nibbles[crc & 15];
	}
	return ~crc;
}
