/* Keys and tokens for tests. */
#include "config.h"

#include "token.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include "base/crypto.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"

#define SIG_MAX 1024

struct token_key {
	const char *alg;
	EVP_PKEY *pkey;
	uint8_t ed_public[SIGN_PUBLIC_SIZE], ed_secret[SIGN_SECRET_SIZE];
};

static void must(int ok)
{
	if (ok)
		return;
	fputs("a test key or token could not be made\n", stderr);
	abort();
}

struct token_key *token_key_new(const char *alg, unsigned bits)
{
	static const char *const algs[] = { "RS256", "PS256", "ES256", "EdDSA" };
	struct token_key *k = mem_zalloc(sizeof *k);
	uint8_t seed[SIGN_SEED_SIZE];

	for (size_t i = 0; i < NELEMS(algs); i++)
		k->alg = strcmp(algs[i], alg) == 0 ? algs[i] : k->alg;
	must(k->alg != NULL);
	if (strcmp(alg, "EdDSA") == 0) {
		id_random(seed, sizeof seed);
		sign_keys(seed, k->ed_public, k->ed_secret);
		return k;
	}
	k->pkey = strcmp(alg, "ES256") == 0 ? EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256")
					    : EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)bits);
	must(k->pkey != NULL);
	return k;
}

void token_key_free(struct token_key **k)
{
	if (!*k)
		return;
	EVP_PKEY_free((*k)->pkey);
	free(*k);
	*k = NULL;
}

static void put_base64url(struct str *out, const void *p, size_t n)
{
	char *text = mem_alloc(text_base64url_size(n));

	text_base64url(p, n, text);
	str_puts(out, text);
	free(text);
}

/* name: the member; param: the library's; size 0 = as short as it goes. */
static void put_number(const struct token_key *k, const char *name, const char *param, size_t size, struct str *out)
{
	BIGNUM *n = NULL;
	uint8_t bytes[SIG_MAX];

	must(EVP_PKEY_get_bn_param(k->pkey, param, &n));
	if (size == 0)
		size = (size_t)BN_num_bytes(n);
	must(size <= sizeof bytes && BN_bn2binpad(n, bytes, (int)size) == (int)size);
	BN_free(n);
	str_printf(out, ",\"%s\":\"", name);
	put_base64url(out, bytes, size);
	str_puts(out, "\"");
}

void token_key_jwk(const struct token_key *k, const char *kid, const char *alg, struct str *out)
{
	if (strcmp(k->alg, "EdDSA") == 0) {
		str_puts(out, "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"");
		put_base64url(out, k->ed_public, sizeof k->ed_public);
		str_puts(out, "\"");
	} else if (strcmp(k->alg, "ES256") == 0) {
		str_puts(out, "{\"kty\":\"EC\",\"crv\":\"P-256\"");
		put_number(k, "x", OSSL_PKEY_PARAM_EC_PUB_X, 32, out);
		put_number(k, "y", OSSL_PKEY_PARAM_EC_PUB_Y, 32, out);
	} else {
		str_puts(out, "{\"kty\":\"RSA\"");
		put_number(k, "n", OSSL_PKEY_PARAM_RSA_N, 0, out);
		put_number(k, "e", OSSL_PKEY_PARAM_RSA_E, 0, out);
	}
	if (alg)
		str_printf(out, ",\"alg\":\"%s\"", alg);
	if (kid)
		str_printf(out, ",\"kid\":\"%s\"", kid);
	str_puts(out, "}");
}

static void put_signing_input(const char *header, const char *payload, struct str *out)
{
	put_base64url(out, header, strlen(header));
	str_puts(out, ".");
	put_base64url(out, payload, strlen(payload));
}

/* r and s side by side instead of DER. */
static size_t unwrap_ecdsa(uint8_t sig[SIG_MAX], size_t len)
{
	const unsigned char *p = sig;
	ECDSA_SIG *rs = d2i_ECDSA_SIG(NULL, &p, (long)len);

	must(rs != NULL);
	must(BN_bn2binpad(ECDSA_SIG_get0_r(rs), sig, 32) == 32 && BN_bn2binpad(ECDSA_SIG_get0_s(rs), sig + 32, 32) == 32);
	ECDSA_SIG_free(rs);
	return 64;
}

static size_t sign_evp(const struct token_key *k, const void *p, size_t n, uint8_t sig[SIG_MAX])
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	EVP_PKEY_CTX *pctx = NULL;
	size_t len = SIG_MAX;

	must(EVP_DigestSignInit_ex(ctx, &pctx, "SHA256", NULL, NULL, k->pkey, NULL));
	if (strcmp(k->alg, "PS256") == 0)
		must(EVP_PKEY_CTX_set_rsa_padding(pctx, RSA_PKCS1_PSS_PADDING) > 0 &&
		     EVP_PKEY_CTX_set_rsa_pss_saltlen(pctx, RSA_PSS_SALTLEN_DIGEST) > 0);
	must(EVP_DigestSign(ctx, sig, &len, p, n));
	EVP_MD_CTX_free(ctx);
	return strcmp(k->alg, "ES256") == 0 ? unwrap_ecdsa(sig, len) : len;
}

void token_sign(const struct token_key *k, const char *header, const char *payload, struct str *out)
{
	struct str input = STR_INIT;
	uint8_t sig[SIG_MAX];
	size_t len = SIGN_SIZE;

	put_signing_input(header, payload, &input);
	if (k->pkey)
		len = sign_evp(k, input.p, input.len, sig);
	else
		sign_make(k->ed_secret, input.p, input.len, sig);
	str_put(out, input.p, input.len);
	str_puts(out, ".");
	put_base64url(out, sig, len);
	str_fini(&input);
}

void token_sign_hmac(const void *key, size_t len, const char *header, const char *payload, struct str *out)
{
	struct str input = STR_INIT;
	uint8_t mac[32];

	put_signing_input(header, payload, &input);
	must(HMAC(EVP_sha256(), key, (int)len, (const unsigned char *)input.p, input.len, mac, NULL) != NULL);
	str_put(out, input.p, input.len);
	str_puts(out, ".");
	put_base64url(out, mac, sizeof mac);
	str_fini(&input);
}

void token_key_pem(const struct token_key *k, struct str *out)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *p = NULL;

	must(bio && PEM_write_bio_PUBKEY(bio, k->pkey));
	long n = BIO_get_mem_data(bio, &p);
	str_put(out, p, (size_t)n);
	BIO_free(bio);
}
