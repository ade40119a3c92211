/* Cryptography: SHA-256 by OpenSSL (five times libsodium's speed), the rest by libsodium: keyed BLAKE2b and SipHash,
 * boxes, signatures, sealed texts, memory for keys.  Any thread; secret_init() comes first in every program. */
#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <openssl/evp.h>
#include <sodium.h>

#include "base/crypto.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sanitized.h"
#include "base/text.h"

/* --- digests */

struct digest {
	EVP_MD_CTX *ctx;
};

/* Fetched once: a lookup by name costs more than hashing a kilobyte. */
static EVP_MD *sha256;
static pthread_once_t sha256_once = PTHREAD_ONCE_INIT;
/* Each thread's own, for digests in one go: to make one costs as much as to hash half a kilobyte.  Between digests it
 * is at the start of one, so nothing that was hashed stays in it. */
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

/* OpenSSL 3.0 allocates at each start: it is small, so it lives on the reserve (decision 0045). */
static void context_start(EVP_MD_CTX *ctx)
{
	must(EVP_DigestInit_ex2(ctx, sha256, NULL) || (mem_give_up_reserve() && EVP_DigestInit_ex2(ctx, sha256, NULL)));
}

static EVP_MD_CTX *context_new(void)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();

	if (!ctx && mem_give_up_reserve())
		ctx = EVP_MD_CTX_new();
	must(ctx != NULL);
	context_start(ctx);
	return ctx;
}

static EVP_MD_CTX *spare_get(void)
{
	if (!spare) {
		pthread_once(&sha256_once, sha256_fetch);
		spare = context_new();
		must(pthread_setspecific(spare_key, spare) == 0);
	}
	return spare;
}

/* The result, and the context at the start of the next digest. */
static void spare_end(EVP_MD_CTX *ctx, uint8_t ret[DIGEST_SIZE])
{
	must(EVP_DigestFinal_ex(ctx, ret, NULL));
	context_start(ctx);
}

/* What is short goes in as one: each step of it costs as much as a block. */
struct gathered { size_t len, most; uint8_t p[512]; };

static void gathered_flush(EVP_MD_CTX *ctx, struct gathered *g)
{
	if (g->len > 0)
		must(EVP_DigestUpdate(ctx, g->p, g->len));
	g->most = g->len > g->most ? g->len : g->most;
	g->len = 0;
}

static void put_parts(EVP_MD_CTX *ctx, struct gathered *g, const struct digest_part *part, size_t nparts)
{
	for (size_t i = 0; i < nparts; i++) {
		if (part[i].len <= sizeof(g->p) - g->len && (g->len > 0 || i + 1 < nparts)) {
			if (part[i].len > 0)
				memcpy(g->p + g->len, part[i].p, part[i].len);
			g->len += part[i].len;
			continue;
		}
		gathered_flush(ctx, g);
		must(EVP_DigestUpdate(ctx, part[i].p, part[i].len));
	}
	gathered_flush(ctx, g);
}

void digest_sha256_parts(const struct digest_part *part, size_t nparts, uint8_t ret[DIGEST_SIZE])
{
	EVP_MD_CTX *ctx = spare_get();
	struct gathered g;

	g.len = g.most = 0;
	put_parts(ctx, &g, part, nparts);
	spare_end(ctx, ret);
	sodium_memzero(g.p, g.most);
}

void digest_sha256(const void *p, size_t n, uint8_t ret[DIGEST_SIZE])
{
	digest_sha256_parts(&(struct digest_part){ p, n }, 1, ret);
}

struct digest *digest_new(void)
{
	struct digest *d = mem_alloc(sizeof(*d));

	pthread_once(&sha256_once, sha256_fetch);
	d->ctx = context_new();
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
	sodium_memzero(&state, sizeof(state));
}

uint64_t digest_short(const uint8_t key[DIGEST_SHORT_KEY], const void *p, size_t n)
{
	unsigned char out[crypto_shorthash_BYTES];
	uint64_t h;

	crypto_shorthash(out, p, n, key);
	memcpy(&h, out, sizeof(h));
	return h;
}

enum { HMAC_BLOCK = 64 };

/* By OpenSSL's SHA-256 for its speed. */
static void hmac_pass(const struct digest_part *key, uint8_t pad, const struct digest_part *part, size_t nparts,
		      uint8_t ret[DIGEST_SIZE])
{
	EVP_MD_CTX *ctx = spare_get();
	struct gathered g;

	g.len = HMAC_BLOCK;
	g.most = 0;
	memset(g.p, 0, HMAC_BLOCK);
	memcpy(g.p, key->p, key->len);
	for (size_t i = 0; i < HMAC_BLOCK; i++)         /* of a known length: a few instructions for all */
		g.p[i] ^= pad;
	put_parts(ctx, &g, part, nparts);
	spare_end(ctx, ret);
	sodium_memzero(g.p, g.most);
}

static void hmac(const struct digest_part *key, const struct digest_part *part, size_t nparts, uint8_t ret[DIGEST_SIZE])
{
	struct digest_part inner = { ret, DIGEST_SIZE };

	hmac_pass(key, 0x36, part, nparts, ret);
	hmac_pass(key, 0x5c, &inner, 1, ret);
}

void digest_md5(const void *p, size_t n, uint8_t ret[DIGEST_MD5_SIZE])
{
	must(EVP_Digest(p, n, ret, NULL, EVP_md5(), NULL) == 1);
}

void digest_hmac(const uint8_t key[32], const struct digest_part *part, size_t nparts, uint8_t ret[DIGEST_SIZE])
{
	hmac(&(struct digest_part){ key, 32 }, part, nparts, ret);
}

void digest_hkdf(const void *salt, size_t salt_len, const void *key, size_t key_len, const char *info,
		 uint8_t ret[DIGEST_SIZE])
{
	uint8_t drawn[DIGEST_SIZE];

	hmac(&(struct digest_part){ salt, salt_len }, &(struct digest_part){ key, key_len }, 1, drawn);
	hmac(&(struct digest_part){ drawn, sizeof(drawn) },
	     (const struct digest_part[]){ { info, strlen(info) }, { "\1", 1 } }, 2, ret);
	sodium_memzero(drawn, sizeof(drawn));
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

/* --- A box */

/* 24 bytes of nonce, the ciphertext, 16 bytes of tag. 192 bits of random nonce do not repeat. */

enum { NONCE = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES };

_Static_assert(AEAD_KEY_SIZE == crypto_aead_xchacha20poly1305_ietf_KEYBYTES, "key");
_Static_assert(AEAD_NONCE == NONCE && AEAD_TAG == crypto_aead_xchacha20poly1305_ietf_ABYTES, "nonce, tag");
_Static_assert(AEAD_OVERHEAD == NONCE + crypto_aead_xchacha20poly1305_ietf_ABYTES, "overhead");

void aead_encrypt(const uint8_t key[AEAD_KEY_SIZE], const void *ad, size_t ad_len, const void *p, size_t len,
		  uint8_t ret_nonce[AEAD_NONCE], uint8_t *ret)
{
	id_random(ret_nonce, NONCE);
	crypto_aead_xchacha20poly1305_ietf_encrypt(ret, NULL, p, len, ad, ad_len, NULL, ret_nonce, key);
}

int aead_decrypt(const uint8_t key[AEAD_KEY_SIZE], const void *ad, size_t ad_len, const uint8_t nonce[AEAD_NONCE],
		 const uint8_t *p, size_t len, void *ret)
{
	if (len < AEAD_TAG || crypto_aead_xchacha20poly1305_ietf_decrypt(ret, NULL, NULL, p, len, ad, ad_len, nonce,
									 key) != 0)
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

/* --- encryption for others */

_Static_assert(CHACHA_NONCE == crypto_aead_chacha20poly1305_IETF_NPUBBYTES, "nonce");
_Static_assert(CURVE_SIZE == crypto_scalarmult_curve25519_BYTES, "point");

void curve_public(const uint8_t secret[CURVE_SIZE], uint8_t ret[CURVE_SIZE])
{
	crypto_scalarmult_curve25519_base(ret, secret);
}

int curve_share(const uint8_t secret[CURVE_SIZE], const uint8_t point[CURVE_SIZE], uint8_t ret[CURVE_SIZE])
{
	return crypto_scalarmult_curve25519(ret, secret, point) == 0 ? 0 : ERR_INVALID;
}

void chacha_seal(const uint8_t key[AEAD_KEY_SIZE], const uint8_t nonce[CHACHA_NONCE], const void *p, size_t len,
		 uint8_t *ret)
{
	crypto_aead_chacha20poly1305_ietf_encrypt(ret, NULL, p, len, NULL, 0, NULL, nonce, key);
}

int chacha_open(const uint8_t key[AEAD_KEY_SIZE], const uint8_t nonce[CHACHA_NONCE], const uint8_t *p, size_t len,
		void *ret)
{
	if (len < AEAD_TAG || crypto_aead_chacha20poly1305_ietf_decrypt(ret, NULL, NULL, p, len, NULL, 0, nonce, key) != 0)
		return ERR_INVALID;
	return 0;
}

/* --- Ed25519 signatures. */

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

/* --- Locked memory for keys */

/* Comparison and wiping, key derivation, and the process-wide precautions. */

enum { ALIGN = 16 };            /* sodium_malloc() aligns the end of a piece, not its start */

void *secret_alloc(size_t n)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;
	void *p;

	if (n > SIZE_MAX - ALIGN)
		n = SIZE_MAX - ALIGN;   /* fails below */
	n = (n + ALIGN) / ALIGN * ALIGN;
	p = sodium_malloc(n);
	if (!p && mem_give_up_reserve())
		p = sodium_malloc(n);
	if (!p) {
		log_err(NULL, "out of memory for secrets bytes=%zu", n);
		abort();
	}
	/* sodium_malloc() does not say whether it could lock; locks do not nest, so ask again. */
	if (sodium_mlock(p, n) != 0 && !atomic_flag_test_and_set(&warned))
		log_warn(NULL, "cannot lock memory of keys, it may reach swap: raise RLIMIT_MEMLOCK");
	memset(p, 0, n);
	return p;
}

void secret_free(void *p)
{
	sodium_free(p);
}

void secret_wipe(void *p, size_t n)
{
	sodium_memzero(p, n);
}

bool secret_equal(const void *a, const void *b, size_t n)
{
	return sodium_memcmp(a, b, n) == 0;
}

void secret_derive(const uint8_t master[SECRET_KEY_SIZE], const char *purpose, uint8_t ret[SECRET_KEY_SIZE])
{
	crypto_generichash(ret, SECRET_KEY_SIZE, (const unsigned char *)purpose, strlen(purpose), master,
			   SECRET_KEY_SIZE);
}

int secret_init(void)
{
	static const struct rlimit none = { 0, 0 };

	if (sodium_init() < 0)
		return ERR_INTERNAL;
	if (setrlimit(RLIMIT_CORE, &none) != 0)
		return ERR_INTERNAL;
	if (!SANITIZED && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		return ERR_INTERNAL;
	return 0;
}

/* --- Sealed text */

/* "v1." base64url(payload) "." base64url(tag). tag = HMAC-SHA-256(key, purpose, 0x00, length of context as 8 bytes
 * little-endian, context, payload).  The length keeps a byte from moving between context and payload under the same
 * tag. */

#define SEAL_VERSION "v1."
enum { TAG_SIZE = crypto_auth_hmacsha256_BYTES, TAG_TEXT_SIZE = 44 };   /* with NUL */

struct seal {
	char *purpose;
	uint8_t *key;           /* SECRET_KEY_SIZE, locked */
};

struct seal *seal_new(const uint8_t master[32], const char *purpose)
{
	struct seal *s = mem_zalloc(sizeof(*s));

	s->purpose = mem_strdup(purpose);
	s->key = secret_alloc(SECRET_KEY_SIZE);
	secret_derive(master, purpose, s->key);
	return s;
}

void seal_free(struct seal **s)
{
	if (!s || !*s)
		return;
	secret_free((*s)->key);
	free((*s)->purpose);
	free(*s);
	*s = NULL;
}

static void make_tag(const struct seal *s, const void *context, size_t context_len, const void *payload,
		     size_t len, uint8_t ret[TAG_SIZE])
{
	crypto_auth_hmacsha256_state state;
	uint8_t size[8];

	for (unsigned i = 0; i < sizeof(size); i++)
		size[i] = (uint8_t)((uint64_t)context_len >> (8 * i));
	crypto_auth_hmacsha256_init(&state, s->key, SECRET_KEY_SIZE);
	crypto_auth_hmacsha256_update(&state, (const unsigned char *)s->purpose, strlen(s->purpose) + 1);
	crypto_auth_hmacsha256_update(&state, size, sizeof(size));
	crypto_auth_hmacsha256_update(&state, context, context_len);
	crypto_auth_hmacsha256_update(&state, payload, len);
	crypto_auth_hmacsha256_final(&state, ret);
	secret_wipe(&state, sizeof(state));
}

void seal_make(const struct seal *s, const void *context, size_t context_len, const void *payload, size_t len,
	       struct str *ret)
{
	uint8_t tag[TAG_SIZE];
	char tag_text[TAG_TEXT_SIZE];
	char *text = mem_alloc(text_base64url_size(len));

	make_tag(s, context, context_len, payload, len, tag);
	text_base64url(payload, len, text);
	text_base64url(tag, sizeof(tag), tag_text);
	str_puts(ret, SEAL_VERSION);
	str_puts(ret, text);
	str_putc(ret, '.');
	str_puts(ret, tag_text);
	free(text);
}

int seal_open(const struct seal *s, const void *context, size_t context_len, const char *text, size_t len,
	      struct str *ret)
{
	const size_t head_len = strlen(SEAL_VERSION), tail_len = TAG_TEXT_SIZE;      /* "." and 43 digits */
	uint8_t tag[TAG_SIZE], want[TAG_SIZE], *payload = NULL;
	size_t n, body_len;
	int rc = ERR_INVALID;

	if (len < head_len + tail_len || memcmp(text, SEAL_VERSION, head_len) != 0 || text[len - tail_len] != '.')
		return ERR_INVALID;
	if (text_unbase64url(text + len - tail_len + 1, tail_len - 1, tag, sizeof(tag), &n) < 0)
		return ERR_INVALID;
	body_len = len - head_len - tail_len;
	payload = mem_alloc(body_len);
	if (text_unbase64url(text + head_len, body_len, payload, body_len, &n) < 0)
		goto out;
	make_tag(s, context, context_len, payload, n, want);
	if (!secret_equal(tag, want, sizeof(tag)))
		goto out;
	str_put(ret, payload, n);
	rc = ret->failed ? ERR_INVALID : 0;
out:
	free(payload);
	return rc;
}
