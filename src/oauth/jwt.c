/* Access tokens as compact JWS (RFC 7515 7.1): header.payload.signature, each in strict base64url.  Everything is refused
 * that is not needed: other serializations, encryption, headers that act (SEC S-401 to S-406). */

#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"

#include "oauth_int.h"

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

	if (text_unbase64url(p, len, bytes, sizeof bytes, &n) < 0)
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
	if (text_unbase64url(second + 1, (size_t)(end - second - 1), t->sig, JWT_BYTES_MAX, &t->sig_len) < 0 || t->sig_len == 0)
		return refuse(err, "the signature is missing or not strict base64url");
	return 0;
}

int jwt_parse(const char *text, size_t len, struct jwt **ret, struct err *err)
{
	struct jwt *t;

	if (len > JWT_BYTES_MAX)
		return refuse(err, "longer than 8192 bytes");
	t = mem_zalloc(sizeof *t);
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

static int check_times(const json_t *claims, uint64_t now, uint64_t *ret_expires, enum cred_refusal *ret_why, struct err *err)
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

bool jwt_audience_has(const json_t *aud, const char *audience)
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

int jwt_check_claims(const json_t *claims, const struct jwt_expect *want, uint64_t *ret_expires_us, enum cred_refusal *ret_why,
		     struct err *err)
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
