#ifndef TESTS_TOKEN_H
#define TESTS_TOKEN_H

#include <stddef.h>

/* An issuer of tokens for tests: keys that are made when they are asked for, and compact JWS signed with them. */

struct str;
struct token_key;

/* alg: RS256, PS256, ES256, EdDSA; bits: of an RSA key.  Aborts when the library refuses. */
struct token_key *token_key_new(const char *alg, unsigned bits);
void token_key_free(struct token_key **k);
/* The public half as a JWK; kid, alg NULL = without. */
void token_key_jwk(const struct token_key *k, const char *kid, const char *alg, struct str *out);
/* header.payload.signature, by the key's own algorithm whatever the header says. */
void token_sign(const struct token_key *k, const char *header, const char *payload, struct str *out);
/* The same by HMAC-SHA-256 with these bytes as the key. */
void token_sign_hmac(const void *key, size_t len, const char *header, const char *payload, struct str *out);
/* The public half as PEM. */
void token_key_pem(const struct token_key *k, struct str *out);

#endif
