#ifndef BASE_CRYPTO_H
#define BASE_CRYPTO_H

#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- digests */

#define DIGEST_SIZE 32

/* SHA-256 (FIPS 180-4) by OpenSSL; any thread. */
void digest_sha256(const void *p, size_t n, uint8_t ret[DIGEST_SIZE]);
/* Of what a protocol asks for and nothing is proved by. */
#define DIGEST_MD5_SIZE 16
void digest_md5(const void *p, size_t n, uint8_t ret[DIGEST_MD5_SIZE]);
struct digest_part { const void *p; size_t len; };
/* Of the parts, one behind the other: for what is hashed often, since nothing is allocated. */
void digest_sha256_parts(const struct digest_part *part, size_t nparts, uint8_t ret[DIGEST_SIZE]);
struct digest;
struct digest *digest_new(void);
void digest_put(struct digest *d, const void *p, size_t n);
void digest_end(struct digest **d, uint8_t ret[DIGEST_SIZE]);   /* frees */
/* BLAKE2b-256 with a key (SEC S-304): prefix, then data. */
void digest_keyed(const uint8_t key[32], const char *prefix, size_t prefix_len, const void *p, size_t n,
		  uint8_t ret[DIGEST_SIZE]);
/* SipHash-2-4: for sums and tables within one run; nobody may know the key. */
#define DIGEST_SHORT_KEY 16
uint64_t digest_short(const uint8_t key[DIGEST_SHORT_KEY], const void *p, size_t n);
/* HMAC-SHA-256 (RFC 2104) over the parts, one behind the other. */
void digest_hmac(const uint8_t key[32], const struct digest_part *part, size_t nparts, uint8_t ret[DIGEST_SIZE]);
/* CRC-32 (ISO 3309, as in zlib), for typing errors only. */
uint32_t digest_crc32(const void *p, size_t n);

/* --- encryption at rest */

/* Encryption of values at rest: XChaCha20-Poly1305-IETF with a random nonce (SEC S-342).  A box is nonce, then
 * ciphertext, then tag.  The associated data binds it to its place: a box moved elsewhere does not open.  Any
 * thread. */
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

/* --- encryption for others (age/age.h) */

#define CURVE_SIZE 32
#define CHACHA_NONCE 12
/* X25519 (RFC 7748).  ERR_INVALID: the point is one of those whose secrets are all alike. */
void curve_public(const uint8_t secret[CURVE_SIZE], uint8_t ret[CURVE_SIZE]);
int curve_share(const uint8_t secret[CURVE_SIZE], const uint8_t point[CURVE_SIZE], uint8_t ret[CURVE_SIZE]) MUST_CHECK;
/* HKDF-SHA-256 (RFC 5869) of 32 bytes.  salt_len <= 64. */
void digest_hkdf(const void *salt, size_t salt_len, const void *key, size_t key_len, const char *info,
		 uint8_t ret[DIGEST_SIZE]);
/* ChaCha20-Poly1305 (RFC 8439); the nonce is the caller's, once for each key.  ret has len + AEAD_TAG bytes, or as many
 * less. */
void chacha_seal(const uint8_t key[AEAD_KEY_SIZE], const uint8_t nonce[CHACHA_NONCE], const void *p, size_t len,
		 uint8_t *ret);
int chacha_open(const uint8_t key[AEAD_KEY_SIZE], const uint8_t nonce[CHACHA_NONCE], const uint8_t *p, size_t len,
		void *ret) MUST_CHECK;

/* --- signatures */

/* Ed25519 signatures (RFC 8032) by libsodium; any thread. */
#define SIGN_SEED_SIZE 32
#define SIGN_PUBLIC_SIZE 32
#define SIGN_SECRET_SIZE 64             /* seed and public key */
#define SIGN_SIZE 64

void sign_keys(const uint8_t seed[SIGN_SEED_SIZE], uint8_t ret_public[SIGN_PUBLIC_SIZE],
	       uint8_t ret_secret[SIGN_SECRET_SIZE]);
void sign_make(const uint8_t secret[SIGN_SECRET_SIZE], const void *p, size_t len, uint8_t ret[SIGN_SIZE]);
bool sign_check(const uint8_t public[SIGN_PUBLIC_SIZE], const void *p, size_t len, const uint8_t sig[SIGN_SIZE]);

/* --- sealed texts */

/* Text that leaves and must come back unchanged: request state, list cursors (SEC S-122, MCP B-34).
 * Form: "v1." base64url(payload) "." base64url(HMAC-SHA-256(key, purpose 0x00 context-length
 * context payload)); the length is 8 bytes, little-endian.
 * The context (tenant, principal, …) is bound but not carried. */
struct seal;

struct seal *seal_new(const uint8_t master[32], const char *purpose);   /* key derived by purpose */
void seal_free(struct seal **s);
/* Append the sealed text to *ret. */
void seal_make(const struct seal *s, const void *context, size_t context_len, const void *payload, size_t len,
	       struct str *ret);
/* Open: appends the payload to *ret.  ERR_INVALID without detail when anything is wrong. */
int seal_open(const struct seal *s, const void *context, size_t context_len, const char *text, size_t len,
	      struct str *ret) MUST_CHECK;

/* --- memory for secrets */

/* Guarded, locked, never dumped memory (SEC S-344).  Failing to lock warns once, it does not stop. */
void *secret_alloc(size_t n);
void secret_free(void *p);                      /* wipes; NULL is fine */
void secret_wipe(void *p, size_t n);
bool secret_equal(const void *a, const void *b, size_t n);     /* constant time */
/* Master key of a store: 32 bytes in a file of mode 0400 (SEC S-341).  Derived keys are BLAKE2b
 * (master, purpose); ret is 32 bytes. */
#define SECRET_KEY_SIZE 32
void secret_derive(const uint8_t master[SECRET_KEY_SIZE], const char *purpose, uint8_t ret[SECRET_KEY_SIZE]);
/* libsodium start-up, no core dumps, not dumpable.  First call of every program. */
int secret_init(void);

#endif
