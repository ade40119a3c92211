/* Access tokens as compact JWS (RFC 7515 7.1): header.payload.signature, each in strict base64url, and the key sets
 * that verify them.  Everything is refused that is not needed: other serializations, encryption, headers that act
 * (SEC S-401 to S-406).  Pure functions. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#include "oauth_int.h"

/* --- JSON Web Key sets (RFC 7517, RFC 7518, RFC 8037) */

/* Read strictly, with one algorithm for each key, and verified with. */

#define RSA_EXPONENT_MAX 8              /* bytes */
#define P256_BYTES 32                   /* of a coordinate, of half a signature */

struct jwk {
	char kid[JWT_KID_MAX + 1];
	bool named;                     /* it has a kid */
	enum jwt_alg alg;
	EVP_PKEY *pkey;                 /* RSA, EC */
	uint8_t ed[SIGN_PUBLIC_SIZE];   /* Ed25519 */
};
struct jwk_set { size_t n; struct jwk key[JWKS_KEYS_MAX]; };

/* or -1 */
static int jwt_alg_of(const char *name)
{
	static const char *const names[JWT_ALG_COUNT] = {
#define JWT_ALG_NAME(name) [JWT_##name] = #name,
		JWT_ALGS(JWT_ALG_NAME)
#undef JWT_ALG_NAME
	};

	for (int i = 0; i < JWT_ALG_COUNT; i++) {
		if (strcmp(names[i], name) == 0)
			return i;
	}
	return -1;
}

/* --- reading */

/* The bytes of a member in base64url, at most size.  False: absent, not strict, too long. */
static bool bytes_of(const json_t *obj, const char *name, uint8_t *ret, size_t size, size_t *ret_len)
{
	const json_t *v = json_object_get(obj, name);

	return json_is_string(v) &&
		text_unbase64url(json_string_value(v), json_string_length(v), ret, size, ret_len) == 0;
}

static EVP_PKEY *from_params(const char *type, OSSL_PARAM_BLD *bld)
{
	OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(bld);
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
	EVP_PKEY *key = NULL;

	if (!params || !ctx || EVP_PKEY_fromdata_init(ctx) != 1 ||
	    EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
		key = NULL;
	EVP_PKEY_CTX_free(ctx);
	OSSL_PARAM_free(params);
	return key;
}

static EVP_PKEY *rsa_new(const BIGNUM *n, const BIGNUM *e)
{
	OSSL_PARAM_BLD *bld = OSSL_PARAM_BLD_new();
	EVP_PKEY *key = NULL;

	if (bld && OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_RSA_N, n) &&
	    OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_RSA_E, e))
		key = from_params("RSA", bld);
	OSSL_PARAM_BLD_free(bld);
	return key;
}

static EVP_PKEY *read_rsa(const json_t *obj)
{
	uint8_t n[JWK_RSA_BITS_MAX / 8], e[RSA_EXPONENT_MAX];
	size_t n_len, e_len;
	EVP_PKEY *key = NULL;

	if (!bytes_of(obj, "n", n, sizeof(n), &n_len) || !bytes_of(obj, "e", e, sizeof(e), &e_len))
		return NULL;
	BIGNUM *bn = BN_bin2bn(n, (int)n_len, NULL), *be = BN_bin2bn(e, (int)e_len, NULL);

	/* An exponent of 1 verifies anything that is padded. */
	if (bn && be && BN_num_bits(bn) >= JWK_RSA_BITS_MIN && BN_is_odd(bn) && BN_is_odd(be) && !BN_is_one(be))
		key = rsa_new(bn, be);
	BN_free(bn);
	BN_free(be);
	return key;
}

static EVP_PKEY *read_p256(const json_t *obj)
{
	uint8_t point[1 + 2 * P256_BYTES] = { 0x04 };   /* uncompressed (SEC 1, 2.3.3) */
	size_t x_len, y_len;
	OSSL_PARAM_BLD *bld;
	EVP_PKEY *key = NULL;

	if (!bytes_of(obj, "x", point + 1, P256_BYTES, &x_len) || x_len != P256_BYTES ||
	    !bytes_of(obj, "y", point + 1 + P256_BYTES, P256_BYTES, &y_len) || y_len != P256_BYTES)
		return NULL;
	bld = OSSL_PARAM_BLD_new();
	if (bld && OSSL_PARAM_BLD_push_utf8_string(bld, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) &&
	    OSSL_PARAM_BLD_push_octet_string(bld, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point)))
		key = from_params("EC", bld);           /* refuses a point that is not on the curve */
	OSSL_PARAM_BLD_free(bld);
	return key;
}

/* For signatures, as far as it says. */
static bool is_for_signing(const json_t *obj)
{
	const json_t *ops = json_object_get(obj, "key_ops"), *op;
	const char *use = jwt_text(obj, "use");
	size_t i;

	if (json_object_get(obj, "use") && (!use || strcmp(use, "sig") != 0))
		return false;
	if (!ops)
		return true;
	json_array_foreach(ops, i, op) {
		if (json_is_string(op) && strcmp(json_string_value(op), "verify") == 0)
			return true;
	}
	return false;
}

/* Key material and the algorithm that it is for.  False: none of ours. */
static bool read_material(const json_t *obj, struct jwk *ret)
{
	const char *kty = jwt_text(obj, "kty"), *crv = jwt_text(obj, "crv"), *name = jwt_text(obj, "alg");
	bool said = json_object_get(obj, "alg") != NULL;
	int alg = name ? jwt_alg_of(name) : -1;
	size_t len;

	if (!kty || (said && alg < 0))
		return false;
	if (strcmp(kty, "RSA") == 0) {
		/* One that does not say is for RS256 alone: never for both (SEC S-403). */
		ret->alg = said ? (enum jwt_alg)alg : JWT_RS256;
		return (ret->alg == JWT_RS256 || ret->alg == JWT_PS256) && (ret->pkey = read_rsa(obj));
	}
	if (strcmp(kty, "EC") == 0 && crv && strcmp(crv, "P-256") == 0) {
		ret->alg = JWT_ES256;
		return (!said || alg == JWT_ES256) && (ret->pkey = read_p256(obj));
	}
	if (strcmp(kty, "OKP") == 0 && crv && strcmp(crv, "Ed25519") == 0) {
		ret->alg = JWT_EdDSA;
		return (!said || alg == JWT_EdDSA) && bytes_of(obj, "x", ret->ed, sizeof(ret->ed), &len) &&
			len == sizeof(ret->ed);
	}
	return false;
}

static int read_kid(const json_t *obj, const char *at, struct jwk *ret, struct err *err)
{
	const char *kid = jwt_text(obj, "kid");

	if (!json_object_get(obj, "kid"))
		return 0;
	if (!kid || strlen(kid) > JWT_KID_MAX)
		return err_set(err, ERR_INVALID, at, "kid must be a text of 1 to %d bytes", JWT_KID_MAX);
	ret->named = true;
	memcpy(ret->kid, kid, strlen(kid) + 1);
	return 0;
}

/* Appends the key, or passes it over. */
static int read_key(struct jwk_set *set, const json_t *obj, const char *at, struct err *err)
{
	struct jwk *key = &set->key[set->n];

	if (!json_is_object(obj))
		return err_set(err, ERR_INVALID, at, "must be an object");
	if (json_object_get(obj, "d") || json_object_get(obj, "k"))
		return err_set(err, ERR_INVALID, at, "is a private or shared key: who has this file can make tokens");
	if (!is_for_signing(obj))
		return 0;
	*key = (struct jwk){ 0 };
	if (!read_material(obj, key))
		return 0;
	set->n++;                       /* from here on the set owns it */
	if (read_kid(obj, at, key, err) < 0)
		return ERR_INVALID;
	for (const struct jwk *other = set->key; other < key; other++) {
		if (key->named && other->named && strcmp(key->kid, other->kid) == 0)
			return err_set(err, ERR_INVALID, at, "another key has this kid");
	}
	return 0;
}

static int read_keys(struct jwk_set *set, const json_t *root, struct err *err)
{
	json_t *keys = NULL, *obj;
	size_t i;

	if (!json_is_object(root))
		return err_set(err, ERR_INVALID, "", "a key set is an object with keys");
	if (jx_get_array(root, "", "keys", JX_REQUIRED, &keys, err) < 0)
		return ERR_INVALID;
	if (json_array_size(keys) > JWKS_KEYS_MAX)
		return err_set(err, ERR_LIMIT, "/keys", "more than %d keys", JWKS_KEYS_MAX);
	json_array_foreach(keys, i, obj) {
		char *at = mem_printf("/keys/%zu", i);
		int rc = read_key(set, obj, at, err);

		free(at);
		if (rc < 0)
			return rc;
	}
	if (set->n == 0)
		return err_set(err, ERR_INVALID, "/keys", "no key that can verify RS256, PS256, ES256 or EdDSA");
	return 0;
}

int jwk_set_parse(const char *text, size_t len, struct jwk_set **ret, struct err *err)
{
	struct jwk_set *set;
	json_t *root = NULL;
	int rc;

	if (len > JWKS_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "", "a key set has at most %u bytes", JWKS_BYTES_MAX);
	rc = jx_parse(text, len, &root, err);           /* duplicates are refused */
	if (rc < 0)
		return err_wrap(err, "the key set is no JSON of ours");
	set = mem_zalloc(sizeof(*set));
	rc = read_keys(set, root, err);
	json_decref(root);
	if (rc < 0) {
		jwk_set_free(&set);
		return rc;
	}
	*ret = set;
	return 0;
}

void jwk_set_free(struct jwk_set **set)
{
	if (!set || !*set)
		return;
	for (size_t i = 0; i < (*set)->n; i++)
		EVP_PKEY_free((*set)->key[i].pkey);
	free(*set);
	*set = NULL;
}

size_t jwk_set_count(const struct jwk_set *set)
{
	return set->n;
}

const char *jwk_set_kid(const struct jwk_set *set, size_t i)
{
	return set->key[i].named ? set->key[i].kid : NULL;
}

const struct jwk *jwk_find(const struct jwk_set *set, const char *kid)
{
	if (!kid)
		return set->n == 1 ? &set->key[0] : NULL;
	for (size_t i = 0; i < set->n; i++) {
		if (set->key[i].named && strcmp(set->key[i].kid, kid) == 0)
			return &set->key[i];
	}
	return NULL;
}

enum jwt_alg jwk_alg(const struct jwk *key)
{
	return key->alg;
}

/* --- verifying */

static bool verify_evp(const struct jwk *key, const void *p, size_t len, const uint8_t *sig, size_t sig_len)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	EVP_PKEY_CTX *pctx = NULL;              /* ctx's */
	bool ok = ctx && EVP_DigestVerifyInit_ex(ctx, &pctx, "SHA256", NULL, NULL, key->pkey, NULL) == 1;

	if (ok && key->alg == JWT_PS256)        /* RFC 7518 3.5: the salt is as long as the digest */
		ok = EVP_PKEY_CTX_set_rsa_padding(pctx, RSA_PKCS1_PSS_PADDING) == 1 &&
			EVP_PKEY_CTX_set_rsa_pss_saltlen(pctx, RSA_PSS_SALTLEN_DIGEST) == 1;
	ok = ok && EVP_DigestVerify(ctx, sig, sig_len, p, len) == 1;
	EVP_MD_CTX_free(ctx);
	return ok;
}

/* A JWS has r and s side by side (RFC 7518 3.4), OpenSSL wants them in DER. */
static bool verify_es256(const struct jwk *key, const void *p, size_t len, const uint8_t *sig, size_t sig_len)
{
	ECDSA_SIG *rs;
	BIGNUM *r, *s;
	unsigned char *der = NULL;
	int der_len = -1;
	bool ok;

	if (sig_len != 2 * P256_BYTES)
		return false;
	rs = ECDSA_SIG_new();
	r = BN_bin2bn(sig, P256_BYTES, NULL);
	s = BN_bin2bn(sig + P256_BYTES, P256_BYTES, NULL);
	if (rs && r && s && ECDSA_SIG_set0(rs, r, s)) {
		r = s = NULL;                   /* rs has them */
		der_len = i2d_ECDSA_SIG(rs, &der);
	}
	ok = der_len > 0 && verify_evp(key, p, len, der, (size_t)der_len);
	OPENSSL_free(der);
	ECDSA_SIG_free(rs);
	BN_free(r);
	BN_free(s);
	return ok;
}

bool jwk_verify(const struct jwk *key, const void *p, size_t len, const uint8_t *sig, size_t sig_len)
{
	switch (key->alg) {
	case JWT_RS256:
	case JWT_PS256:                 /* as long as the modulus, which OpenSSL asks of RS256 alone (RFC 8017 8.1.2) */
		return sig_len == (size_t)EVP_PKEY_get_size(key->pkey) && verify_evp(key, p, len, sig, sig_len);
	case JWT_ES256:
		return verify_es256(key, p, len, sig, sig_len);
	case JWT_EdDSA:
		return sig_len == SIGN_SIZE && sign_check(key->ed, p, len, sig);
	case JWT_ALG_COUNT:
		break;
	}
	return false;
}

/* --- tokens */

#define US_PER_S 1000000ull
#define TIME_MAX_S 253402300799.0       /* the last second of the year 9999 */

static int refuse(struct err *err, const char *why)
{
	return err_set(err, ERR_DENIED, "", "%s", why);
}

bool jwt_looks(const char *text, size_t len)
{
	const char *first = memchr(text, '.', len);

	return first && memchr(first + 1, '.', len - (size_t)(first - text) - 1);
}

/* --- shape */

const char *jwt_text(const json_t *obj, const char *name)
{
	const json_t *v = json_object_get(obj, name);
	size_t len = json_string_length(v);

	return len > 0 && strlen(json_string_value(v)) == len ? json_string_value(v) : NULL;
}

static int decode_object(const char *p, size_t len, json_t **ret, struct err *err)
{
	uint8_t bytes[JWT_BYTES_MAX];
	size_t n;
	json_t *tree = NULL;

	if (text_unbase64url(p, len, bytes, sizeof(bytes), &n) < 0)
		return refuse(err, "a part is not strict base64url");
	if (jx_parse((const char *)bytes, n, &tree, NULL) < 0)
		return refuse(err, "a part is no JSON, or has a member twice");
	if (!json_is_object(tree)) {
		json_decref(tree);
		return refuse(err, "a part is no JSON object");
	}
	*ret = tree;
	return 0;
}

static bool is_access_type(const char *is)
{
	static const char *const types[] = { "at+jwt", "application/at+jwt", "JWT" };

	for (size_t i = 0; is && i < NELEMS(types); i++) {
		if (strcasecmp(is, types[i]) == 0)      /* media types have no case (RFC 7515 4.1.9) */
			return true;
	}
	return false;
}

static int read_header(struct jwt *t, struct err *err)
{
	static const char *const acting[] = { "crit", "jku", "jwk", "x5u", "x5c", "zip" };      /* SEC S-404 */
	const char *alg = jwt_text(t->header, "alg"), *kid = jwt_text(t->header, "kid");
	int found = alg ? jwt_alg_of(alg) : -1;

	for (size_t i = 0; i < NELEMS(acting); i++) {
		if (json_object_get(t->header, acting[i]))
			return refuse(err, "the header has a member that acts: crit, jku, jwk, x5u, x5c or zip");
	}
	if (found < 0)
		return refuse(err, "alg is none of RS256, PS256, ES256, EdDSA");
	if (json_object_get(t->header, "typ") && !is_access_type(jwt_text(t->header, "typ")))
		return refuse(err, "typ is no access token");
	if (json_object_get(t->header, "kid") && (!kid || strlen(kid) > JWT_KID_MAX))
		return refuse(err, "kid is no text of 1 to 128 bytes");
	t->alg = (enum jwt_alg)found;
	t->kid = kid;
	return 0;
}

static int parse_parts(struct jwt *t, const char *text, size_t len, struct err *err)
{
	const char *end = text + len, *dot = memchr(text, '.', len), *second;

	second = dot ? memchr(dot + 1, '.', (size_t)(end - dot - 1)) : NULL;
	if (!second || memchr(second + 1, '.', (size_t)(end - second - 1)))
		return refuse(err, "no compact JWS: three parts");
	t->signed_text = text;
	t->signed_len = (size_t)(second - text);
	if (decode_object(text, (size_t)(dot - text), &t->header, err) < 0 || read_header(t, err) < 0 ||
	    decode_object(dot + 1, (size_t)(second - dot - 1), &t->claims, err) < 0)
		return ERR_DENIED;
	t->sig = mem_alloc(JWT_BYTES_MAX);
	if (text_unbase64url(second + 1, (size_t)(end - second - 1), t->sig, JWT_BYTES_MAX, &t->sig_len) < 0 ||
	    t->sig_len == 0)
		return refuse(err, "the signature is missing or not strict base64url");
	return 0;
}

int jwt_parse(const char *text, size_t len, struct jwt **ret, struct err *err)
{
	struct jwt *t;

	if (len > JWT_BYTES_MAX)
		return refuse(err, "longer than 8192 bytes");
	t = mem_zalloc(sizeof(*t));
	if (parse_parts(t, text, len, err) < 0) {
		jwt_free(&t);
		return ERR_DENIED;
	}
	*ret = t;
	return 0;
}

void jwt_free(struct jwt **t)
{
	if (!t || !*t)
		return;
	json_decref((*t)->header);
	json_decref((*t)->claims);
	free((*t)->sig);
	free(*t);
	*t = NULL;
}

int jwt_verify(const struct jwt *t, const struct jwk *key, struct err *err)
{
	if (jwk_alg(key) != t->alg)             /* SEC S-403 */
		return refuse(err, "alg is not the one of the key");
	if (!jwk_verify(key, t->signed_text, t->signed_len, t->sig, t->sig_len))
		return refuse(err, "the signature is not the key's");
	return 0;
}

/* --- claims */

/* A NumericDate in microseconds.  1: absent. */
static int time_of(const json_t *claims, const char *name, uint64_t *ret_us)
{
	const json_t *v = json_object_get(claims, name);
	double s;

	if (!v)
		return 1;
	if (!json_is_number(v))
		return -1;
	s = jx_nearest(v);
	if (!(s >= 0 && s <= TIME_MAX_S))
		return -1;
	*ret_us = (uint64_t)(s * (double)US_PER_S);
	return 0;
}

static int check_times(const json_t *claims, uint64_t now, uint64_t *ret_expires, enum cred_refusal *ret_why,
		       struct err *err)
{
	uint64_t exp = 0, nbf = 0, iat = now;
	int has_nbf = time_of(claims, "nbf", &nbf), has_iat = time_of(claims, "iat", &iat);

	if (time_of(claims, "exp", &exp) != 0 || has_nbf < 0 || has_iat < 0)
		return refuse(err, "exp is missing, or exp, nbf or iat is no time");
	*ret_why = CRED_EXPIRED;
	if (exp <= now)
		return refuse(err, "exp is over");
	*ret_why = CRED_EARLY;
	if (nbf > now + JWT_SKEW_US || iat > now + JWT_SKEW_US)
		return refuse(err, "nbf or iat is in the future");
	*ret_why = CRED_MALFORMED;
	if (exp > iat + JWT_LIFE_US)
		return refuse(err, "lives longer than a day");
	*ret_expires = exp;
	return 0;
}

static size_t authority_end(const char *url)
{
	const char *host = strstr(url, "://");

	return host ? (size_t)(host + 3 - url) + strcspn(host + 3, "/?#") : 0;
}

static bool same_resource(const char *a, const char *ours)
{
	size_t n = authority_end(ours);

	return strncasecmp(a, ours, n) == 0 && strcmp(a + n, ours + n) == 0;
}

/* Is our resource among the audiences?  Scheme and host in any case (MCP A-08). */
static bool jwt_audience_has(const json_t *aud, const char *audience)
{
	const json_t *one;
	size_t i;

	if (json_is_string(aud))
		return strlen(json_string_value(aud)) == json_string_length(aud) &&
			same_resource(json_string_value(aud), audience);
	json_array_foreach(aud, i, one) {
		if (json_is_string(one) && jwt_audience_has(one, audience))
			return true;
	}
	return false;
}

const char *jwt_client(const json_t *claims)
{
	const char *id = jwt_text(claims, "client_id");

	return id ? id : jwt_text(claims, "azp");
}

int jwt_check_claims(const json_t *claims, const struct jwt_expect *want, uint64_t *ret_expires_us,
		     enum cred_refusal *ret_why, struct err *err)
{
	const char *iss = jwt_text(claims, "iss");
	uint64_t expires = 0;

	*ret_why = CRED_UNKNOWN;
	if (!iss || strcmp(iss, want->issuer) != 0)
		return refuse(err, "iss is another issuer");
	*ret_why = CRED_MALFORMED;
	if (json_object_get(claims, "nonce"))           /* SEC S-405 */
		return refuse(err, "an ID token is no access token");
	if (check_times(claims, want->now_us, &expires, ret_why, err) < 0)
		return ERR_DENIED;
	*ret_why = CRED_AUDIENCE;
	if (!jwt_audience_has(json_object_get(claims, "aud"), want->audience))
		return refuse(err, "aud does not have the resource that was asked for");
	*ret_why = CRED_MALFORMED;
	if (!jwt_text(claims, "sub") || !jwt_client(claims))
		return refuse(err, "sub, or client_id and azp, are missing");
	*ret_expires_us = expires;
	return 0;
}
