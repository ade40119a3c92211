/* Fuzz target: access tokens (SEC FZ-06).  The keys are those of the corpus; what verifies has been signed with one of
 * them, by its own algorithm: it is one of the tokens that were. */

#include "config.h"

#include <string.h>

#include "../../src/oauth/oauth_int.h"
#include "base/text.h"
#include "fuzz.h"

/* Public halves of keys that nobody has any more. */
static const char keys[] =
	"{\"keys\":[{\"kty\":\"RSA\",\"n\":\"smGL0d0m6YU11lq-honXA9VM2RBm3XPCoAipW1gXwkrcizM0oPVzWw3CeAq9D1MA"
	"6n_Xe-_LLWWO7Wdy7OXhQzEnNQEBlA6JjbaFadK6TZKKynhKkHrlw9oTYPXFtZbUotdLnuc17SKOSzFlWHqaDQ0CM9uMl-Uh-ePc"
	"vfMncJCl5sAJmBUN50_tLAR1QnXsqndBwxSSc_bftyGUI9d1qYb44L0x97bn8BytCeIEe3i18iBvUW9lRjmbETRKvj4rhNMSmvzc"
	"djFKl5viyu2X6iTqV2w3I15rIX-D-45mSBxhbt-seAJcykY5NuWBSQAYqbF8l0isSfXRnapUr0sclw\",\"e\":\"AQAB\",\"al"
	"g\":\"RS256\",\"kid\":\"RS256\"},{\"kty\":\"RSA\",\"n\":\"q2vytYEqYtM1-XkR8f6YF9sTbi5QlzezJEFHhPTLqr"
	"DFlR2D7irrn9aoLbkxaKzd64tj-hYD31P4I557vgCwpcIPP_k03F3P3kQou4j-Kh1HyaHM1VFbsmYczUKqlcq_I7dRHyLNyF7azN"
	"HUGYXohv-4-yVctR5ZiETJaZ0KOwKr8hxLpVlbKYyOTSxZv-B1vhpyVxmxAPYBmpB9aLgHcrjkr8RTBeTX4QyCBAqA-F_2rF5MUs"
	"xtwOaSwu6HzFRaZ2JRUWKKqr9U2OZ4lRs__WLR0EDBs6AJuRlJ9W1cGzHGBZhcCSTllkQWW3UQnahz63BcPyjT4QazJB3Hsf2VEQ"
	"\",\"e\":\"AQAB\",\"alg\":\"PS256\",\"kid\":\"PS256\"},{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"5ro"
	"0qITy9PghIaoPX8hHTgQDrnMJZJiGcEW_XDDMHCo\",\"y\":\"GvIH-tBv47UaOnTLMVNC_fAdPv_JSZg51bY8X07KoFY\",\"a"
	"lg\":\"ES256\",\"kid\":\"ES256\"},{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"DmKowK5qcyMFE5P8pyG-W"
	"YQOyTwqVbTeUC1hzLBoZLk\",\"alg\":\"EdDSA\",\"kid\":\"EdDSA\"}]}";
/* Of each token that was signed: header and payload. */
static const char *const signed_texts[] = {
	"eyJhbGciOiJSUzI1NiIsImtpZCI6IlJTMjU2IiwidHlwIjoiYXQrand0In0.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUu"
	"Y29tIiwiYXVkIjoiaHR0cHM6Ly90b29scy5leGFtcGxlLmNvbS9tY3AiLCJleHAiOjE4MDAwMDAzMDAsImlhdCI6MTc5OTk5OTk5"
	"NSwic3ViIjoiYWxpY2UiLCJjbGllbnRfaWQiOiJlZGl0b3IiLCJzY29wZSI6InRvb2xzLmNhbGwifQ",
	"eyJhbGciOiJQUzI1NiIsImtpZCI6IlBTMjU2IiwidHlwIjoiYXQrand0In0.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUu"
	"Y29tIiwiYXVkIjoiaHR0cHM6Ly90b29scy5leGFtcGxlLmNvbS9tY3AiLCJleHAiOjE4MDAwMDAzMDAsImlhdCI6MTc5OTk5OTk5"
	"NSwic3ViIjoiYWxpY2UiLCJjbGllbnRfaWQiOiJlZGl0b3IiLCJzY29wZSI6InRvb2xzLmNhbGwifQ",
	"eyJhbGciOiJFUzI1NiIsImtpZCI6IkVTMjU2IiwidHlwIjoiYXQrand0In0.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUu"
	"Y29tIiwiYXVkIjoiaHR0cHM6Ly90b29scy5leGFtcGxlLmNvbS9tY3AiLCJleHAiOjE4MDAwMDAzMDAsImlhdCI6MTc5OTk5OTk5"
	"NSwic3ViIjoiYWxpY2UiLCJjbGllbnRfaWQiOiJlZGl0b3IiLCJzY29wZSI6InRvb2xzLmNhbGwifQ",
	"eyJhbGciOiJFZERTQSIsImtpZCI6IkVkRFNBIiwidHlwIjoiYXQrand0In0.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUu"
	"Y29tIiwiYXVkIjoiaHR0cHM6Ly90b29scy5leGFtcGxlLmNvbS9tY3AiLCJleHAiOjE4MDAwMDAzMDAsImlhdCI6MTc5OTk5OTk5"
	"NSwic3ViIjoiYWxpY2UiLCJjbGllbnRfaWQiOiJlZGl0b3IiLCJzY29wZSI6InRvb2xzLmNhbGwifQ",
	"eyJhbGciOiJub25lIiwia2lkIjoiRWREU0EifQ.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUuY29tIiwiYXVkIjoiaHR0c"
	"HM6Ly90b29scy5leGFtcGxlLmNvbS9tY3AiLCJleHAiOjE4MDAwMDAzMDAsImlhdCI6MTc5OTk5OTk5NSwic3ViIjoiYWxpY2UiL"
	"CJjbGllbnRfaWQiOiJlZGl0b3IiLCJzY29wZSI6InRvb2xzLmNhbGwifQ",
	"eyJhbGciOiJub25lIiwiYWxnIjoiRWREU0EiLCJraWQiOiJFZERTQSJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUuY29"
	"tIiwiYXVkIjoiaHR0cHM6Ly90b29scy5leGFtcGxlLmNvbS9tY3AiLCJleHAiOjE4MDAwMDAzMDAsImlhdCI6MTc5OTk5OTk5NSw"
	"ic3ViIjoiYWxpY2UiLCJjbGllbnRfaWQiOiJlZGl0b3IiLCJzY29wZSI6InRvb2xzLmNhbGwifQ",
	"eyJhbGciOiJFZERTQSIsImtpZCI6IkVkRFNBIiwiY3JpdCI6WyJleHAiXX0.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUu"
	"Y29tIiwiYXVkIjoiaHR0cHM6Ly90b29scy5leGFtcGxlLmNvbS9tY3AiLCJleHAiOjE4MDAwMDAzMDAsImlhdCI6MTc5OTk5OTk5"
	"NSwic3ViIjoiYWxpY2UiLCJjbGllbnRfaWQiOiJlZGl0b3IiLCJzY29wZSI6InRvb2xzLmNhbGwifQ",
	"eyJhbGciOiJFZERTQSIsImtpZCI6IkVkRFNBIiwiamt1IjoiaHR0cHM6Ly9ldmlsLmV4YW1wbGUvIn0.eyJpc3MiOiJodHRwczov"
	"L2xvZ2luLmV4YW1wbGUuY29tIiwiYXVkIjoiaHR0cHM6Ly90b29scy5leGFtcGxlLmNvbS9tY3AiLCJleHAiOjE4MDAwMDAzMDAs"
	"ImlhdCI6MTc5OTk5OTk5NSwic3ViIjoiYWxpY2UiLCJjbGllbnRfaWQiOiJlZGl0b3IiLCJzY29wZSI6InRvb2xzLmNhbGwifQ",
	"eyJhbGciOiJFZERTQSIsImtpZCI6Ii4uLy4uL2Rldi9udWxsIn0.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUuY29tIiwi"
	"YXVkIjoiaHR0cHM6Ly90b29scy5leGFtcGxlLmNvbS9tY3AiLCJleHAiOjE4MDAwMDAzMDAsImlhdCI6MTc5OTk5OTk5NSwic3Vi"
	"IjoiYWxpY2UiLCJjbGllbnRfaWQiOiJlZGl0b3IiLCJzY29wZSI6InRvb2xzLmNhbGwifQ",
	"eyJhbGciOiJFZERTQSIsImtpZCI6IlJTMjU2In0.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUuY29tIiwiYXVkIjoiaHR0"
	"cHM6Ly90b29scy5leGFtcGxlLmNvbS9tY3AiLCJleHAiOjE4MDAwMDAzMDAsImlhdCI6MTc5OTk5OTk5NSwic3ViIjoiYWxpY2Ui"
	"LCJjbGllbnRfaWQiOiJlZGl0b3IiLCJzY29wZSI6InRvb2xzLmNhbGwifQ",
	"eyJhbGciOiJFZERTQSIsImtpZCI6IkVkRFNBIn0.eyJhdWQiOltbW1tbW1tbW1tbW11dXV1dXV1dXV1dXX0",
	"eyJhbGciOiJFZERTQSIsImtpZCI6IkVkRFNBIn0.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUuY29tIiwiYXVkIjpbIngi"
	"LCJIVFRQUzovL1RPT0xTLmV4YW1wbGUuY29tL21jcCJdLCJleHAiOjEuODAwMDAwM2U5LCJuYmYiOi0xLCJzdWIiOiIiLCJhenAi"
	"Ojd9",
	"eyJhbGciOiJFZERTQSIsImtpZCI6IkVkRFNBIn0.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wbGUuY29tIiwibm9uY2UiOiJuIn0",
};

static bool was_signed(const struct jwt *t)
{
	for (size_t i = 0; i < sizeof(signed_texts) / sizeof(signed_texts[0]); i++) {
		if (text_eq(t->signed_text, t->signed_len, signed_texts[i]))
			return true;
	}
	return false;
}

static void check_claims(const struct jwt *t)
{
	const struct jwt_expect want = { "https://login.example.com", "https://tools.example.com/mcp", 1800000000000000ull };
	enum cred_refusal why = CRED_REFUSAL_COUNT;
	uint64_t expires = 0;
	struct err err;

	if (jwt_check_claims(t->claims, &want, &expires, &why, &err) < 0) {
		FUZZ_CHECK(err.code == ERR_DENIED && err.msg[0] && why < CRED_REFUSAL_COUNT);
		return;
	}
	FUZZ_CHECK(expires > want.now_us && expires <= want.now_us + JWT_SKEW_US + JWT_LIFE_US);
	FUZZ_CHECK(jwt_text(t->claims, "sub") && jwt_client(t->claims));
}

FUZZ_TARGET(jwt)
{
	static struct jwk_set *set;
	struct jwt *t = NULL;
	const struct jwk *key;
	struct err err;

	if (!set)
		FUZZ_CHECK(jwk_set_parse(keys, sizeof(keys) - 1, &set, NULL) == 0);
	if (jwt_parse((const char *)data, size, &t, &err) < 0) {
		FUZZ_CHECK(err.code == ERR_DENIED && err.msg[0] && !t);
		return 0;
	}
	FUZZ_CHECK(size <= JWT_BYTES_MAX && jwt_looks((const char *)data, size) && t->sig_len > 0);
	FUZZ_CHECK(!t->kid || strlen(t->kid) <= JWT_KID_MAX);
	key = jwk_find(set, t->kid);
	if (key && jwt_verify(t, key, NULL) == 0)
		FUZZ_CHECK(t->alg == jwk_alg(key) && was_signed(t));
	check_claims(t);        /* as if it had been signed: the claims are hostile as well */
	jwt_free(&t);
	return 0;
}
