#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define DIGEST_SIZE 32

/* SHA-256 (FIPS 180-4) by OpenSSL; any thread. */
void digest_sha256(const void *p, size_t n, uint8_t ret[DIGEST_SIZE]);
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

#endif
