/* Fuzz target: key sets of issuers.  What is accepted has a key, all keys have an algorithm of ours, and to verify with
 * them neither crashes nor succeeds by chance. */

#include "config.h"

#include <string.h>

#include "../../src/oauth/oauth_int.h"
#include "fuzz.h"

FUZZ_TARGET(jwks)
{
	static const uint8_t sig[JWK_RSA_BITS_MAX / 8];
	struct jwk_set *set = NULL;
	const struct jwk *key;
	struct err err;

	if (jwk_set_parse((const char *)data, size, &set, &err) < 0) {
		FUZZ_CHECK(err.msg[0] && !set);
		return 0;
	}
	FUZZ_CHECK(size <= JWKS_BYTES_MAX && jwk_set_count(set) > 0 && jwk_set_count(set) <= JWKS_KEYS_MAX);
	key = jwk_find(set, NULL);
	FUZZ_CHECK((key != NULL) == (jwk_set_count(set) == 1));
	if (key) {
		FUZZ_CHECK(jwk_alg(key) < JWT_ALG_COUNT);
		for (size_t n = 32; n <= sizeof sig; n *= 2)
			(void)jwk_verify(key, "a.b", 3, sig, n);        /* any answer: the key itself is hostile */
	}
	jwk_set_free(&set);
	return 0;
}
