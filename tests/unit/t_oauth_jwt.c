/* Access tokens and key sets: what is accepted, and the table of attacks (FAULT F40, SEC S-401 to S-406). */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../src/oauth/oauth_int.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "token.h"
#include "suite.h"

#define NOW_S 1800000000
#define ISSUER "https://login.example.com"
#define AUDIENCE "https://tools.example.com/mcp"

enum { K_RS, K_PS, K_ES, K_ED, K_COUNT };
static const char *const algs[K_COUNT] = { "RS256", "PS256", "ES256", "EdDSA" };
static struct token_key *keys[K_COUNT], *stranger;
static struct jwk_set *set;
static struct str rsa_jwk, rsa_pem;

static int open_keys(void **state)
{
	struct str text = STR_INIT;
	struct err err;

	assert_int_equal(secret_init(), 0);
	str_puts(&text, "{\"keys\":[");
	for (int i = 0; i < K_COUNT; i++) {
		keys[i] = token_key_new(algs[i], 2048);
		str_puts(&text, i ? "," : "");
		token_key_jwk(keys[i], algs[i], algs[i], &text);
	}
	str_puts(&text, "]}");
	if (jwk_set_parse(text.p, text.len, &set, &err) < 0)
		fail_msg("%s: %s", err.where, err.msg);
	stranger = token_key_new("EdDSA", 0);
	token_key_jwk(keys[K_RS], NULL, NULL, &rsa_jwk);
	token_key_pem(keys[K_RS], &rsa_pem);
	str_fini(&text);
	return 0;
}

static int close_keys(void **state)
{
	for (int i = 0; i < K_COUNT; i++)
		token_key_free(&keys[i]);
	token_key_free(&stranger);
	jwk_set_free(&set);
	str_fini(&rsa_jwk);
	str_fini(&rsa_pem);
	return 0;
}

/* --- claims as they should be, and one changed */

static char *claims_with(const char *name, const char *value)
{
	json_t *claims = json_pack("{s:s, s:s, s:i, s:i, s:s, s:s, s:s, s:s}", "iss", ISSUER, "aud", AUDIENCE, "exp", NOW_S + 300,
				   "iat", NOW_S - 5, "sub", "alice", "client_id", "editor", "scope", "tools.call", "jti", "t-1");
	struct str text = STR_INIT;
	json_t *v = NULL;

	if (name && value) {
		assert_int_equal(jx_parse(value, strlen(value), &v, NULL), 0);
		json_object_set_new(claims, name, v);
	} else if (name) {
		json_object_del(claims, name);
	}
	jx_write(claims, &text);
	json_decref(claims);
	return str_take(&text);
}

/* All that a verifier does with a token, in its order. */
static int judge(const char *token, size_t len, enum cred_refusal *why, struct err *err)
{
	const struct jwt_expect want = { ISSUER, AUDIENCE, NOW_S * 1000000ull };
	struct jwt *t = NULL;
	const struct jwk *key;
	uint64_t expires;
	int rc = jwt_parse(token, len, &t, err);

	*why = CRED_MALFORMED;
	if (rc < 0)
		return rc;
	key = jwk_find(set, t->kid);
	*why = CRED_UNKNOWN;
	rc = key ? jwt_verify(t, key, err) : err_set(err, ERR_DENIED, "", "no such key");
	if (rc == 0)
		rc = jwt_check_claims(t->claims, &want, &expires, why, err);
	jwt_free(&t);
	return rc;
}

static void accepts(const char *token)
{
	enum cred_refusal why;
	struct err err;

	if (judge(token, strlen(token), &why, &err) < 0)
		fail_msg("%s: refused: %s", token, err.msg);
}

static void refuses_len(const char *name, const char *token, size_t len, const char *msg)
{
	enum cred_refusal why;
	struct err err = { 0 };

	assert_int_equal(judge(token, len, &why, &err) < 0 ? 0 : 1, 0);
	if (err.code != ERR_DENIED || !strstr(err.msg, msg))
		fail_msg("%s: \"%s\", not \"%s\"", name, err.msg, msg);
}

static void refuses(const char *name, const char *token, const char *msg)
{
	refuses_len(name, token, strlen(token), msg);
}

static char *signed_by(const struct token_key *k, const char *header, const char *payload)
{
	struct str out = STR_INIT;

	token_sign(k, header, payload, &out);
	return str_take(&out);
}

/* --- tests */

static void each_algorithm_verifies(void **state)
{
	for (int i = 0; i < K_COUNT; i++) {
		char *payload = claims_with(NULL, NULL), *header = mem_printf("{\"alg\":\"%s\",\"kid\":\"%s\"}", algs[i], algs[i]);
		char *token = signed_by(keys[i], header, payload);

		accepts(token);
		/* One changed byte of the signature, in the middle of it. */
		char *mid = strrchr(token, '.') + 20;
		*mid = *mid == 'A' ? 'B' : 'A';
		refuses(algs[i], token, "signature");
		free(token);
		free(header);
		free(payload);
	}
}

/* A key never verifies by another algorithm than its entry's, whoever signed and whatever the header says. */
static void algorithm_is_the_keys(void **state)
{
	char *payload = claims_with(NULL, NULL);

	for (int by = 0; by < K_COUNT; by++) {
		for (int says = 0; says < K_COUNT; says++) {
			for (int kid = 0; kid < K_COUNT; kid++) {
				char *header = mem_printf("{\"alg\":\"%s\",\"kid\":\"%s\"}", algs[says], algs[kid]);
				char *token = signed_by(keys[by], header, payload);

				if (by == says && says == kid)
					accepts(token);
				else
					refuses(header, token, says == kid ? "signature" : "alg is not");
				free(header);
				free(token);
			}
		}
	}
	free(payload);
}

static const char ed_header[] = "{\"alg\":\"EdDSA\",\"kid\":\"EdDSA\",\"typ\":\"at+jwt\"}";

static void headers_that_act_are_refused(void **state)
{
	static const struct { const char *header, *msg; } rows[] = {
		{ "{\"alg\":\"none\",\"kid\":\"EdDSA\"}", "alg is none" },
		{ "{\"alg\":\"None\",\"kid\":\"EdDSA\"}", "alg is none" },
		{ "{\"alg\":\"HS256\",\"kid\":\"RS256\"}", "alg is none" },
		{ "{\"alg\":\"RS384\",\"kid\":\"RS256\"}", "alg is none" },
		{ "{\"alg\":\"ES256K\",\"kid\":\"ES256\"}", "alg is none" },
		{ "{\"alg\":\"eddsa\",\"kid\":\"EdDSA\"}", "alg is none" },
		{ "{\"alg\":[\"EdDSA\"],\"kid\":\"EdDSA\"}", "alg is none" },
		{ "{\"alg\":\"EdDSA\\u0000\",\"kid\":\"EdDSA\"}", "alg is none" },
		{ "{\"kid\":\"EdDSA\"}", "alg is none" },
		{ "{\"alg\":\"none\",\"alg\":\"EdDSA\",\"kid\":\"EdDSA\"}", "twice" },
		{ "{\"alg\":\"EdDSA\",\"\\u0061lg\":\"EdDSA\",\"kid\":\"EdDSA\"}", "twice" },
		{ "{\"alg\":\"EdDSA\",\"kid\":\"EdDSA\",\"crit\":[\"exp\"]}", "acts" },
		{ "{\"alg\":\"EdDSA\",\"kid\":\"EdDSA\",\"crit\":[]}", "acts" },
		{ "{\"alg\":\"EdDSA\",\"kid\":\"EdDSA\",\"jku\":\"https://evil.example/k\"}", "acts" },
		{ "{\"alg\":\"EdDSA\",\"kid\":\"EdDSA\",\"jwk\":{}}", "acts" },
		{ "{\"alg\":\"EdDSA\",\"kid\":\"EdDSA\",\"x5u\":\"https://evil.example/c\"}", "acts" },
		{ "{\"alg\":\"EdDSA\",\"kid\":\"EdDSA\",\"x5c\":[]}", "acts" },
		{ "{\"alg\":\"EdDSA\",\"kid\":\"EdDSA\",\"zip\":\"DEF\"}", "acts" },
		{ "{\"alg\":\"EdDSA\",\"kid\":\"../../dev/null\"}", "no such key" },
		{ "{\"alg\":\"EdDSA\",\"kid\":\"' OR 1=1 --\"}", "no such key" },
		{ "{\"alg\":\"EdDSA\",\"kid\":\"\"}", "kid" },
		{ "{\"alg\":\"EdDSA\",\"kid\":7}", "kid" },
		{ "{\"alg\":\"EdDSA\",\"kid\":\"EdDSA\\u0000\"}", "kid" },
		{ "{\"alg\":\"EdDSA\"}", "no such key" },       /* there is more than one */
		{ "{\"alg\":\"EdDSA\",\"kid\":\"EdDSA\",\"typ\":\"dpop+jwt\"}", "typ" },
		{ "{\"alg\":\"EdDSA\",\"kid\":\"EdDSA\",\"typ\":\"id_token\"}", "typ" },
		{ "{\"alg\":\"EdDSA\",\"kid\":\"EdDSA\",\"typ\":1}", "typ" },
		{ "[\"EdDSA\"]", "no JSON object" },
		{ "{\"alg\":\"EdDSA\",\"kid\":\"EdDSA\"} x", "no JSON" },
	};
	char *payload = claims_with(NULL, NULL), *token;

	for (size_t i = 0; i < NELEMS(rows); i++) {
		token = signed_by(keys[K_ED], rows[i].header, payload);
		refuses(rows[i].header, token, rows[i].msg);
		free(token);
	}
	static const char *const fine[] = { ed_header, "{\"alg\":\"EdDSA\",\"kid\":\"EdDSA\",\"typ\":\"JWT\"}",
		"{\"alg\":\"EdDSA\",\"kid\":\"EdDSA\",\"typ\":\"application/at+jwt\"}" };
	for (size_t i = 0; i < NELEMS(fine); i++) {
		token = signed_by(keys[K_ED], fine[i], payload);
		accepts(token);
		free(token);
	}
	free(payload);
}

static void kid_holds_at_its_limit(void **state)
{
	char *payload = claims_with(NULL, NULL);

	for (int n = JWT_KID_MAX; n <= JWT_KID_MAX + 1; n++) {
		char *header = mem_printf("{\"alg\":\"EdDSA\",\"kid\":\"%0*d\"}", n, 7), *token = signed_by(keys[K_ED], header, payload);

		refuses(header, token, n == JWT_KID_MAX ? "no such key" : "kid is no text");
		free(header);
		free(token);
	}
	free(payload);
}

/* What everybody knows of a key is no secret of an HMAC. */
static void public_key_is_no_hmac_secret(void **state)
{
	static const char header[] = "{\"alg\":\"HS256\",\"kid\":\"RS256\"}";
	static const char lying[] = "{\"alg\":\"RS256\",\"kid\":\"RS256\"}";
	const struct str *secrets[] = { &rsa_jwk, &rsa_pem };
	char *payload = claims_with(NULL, NULL);

	for (size_t i = 0; i < NELEMS(secrets); i++) {
		struct str token = STR_INIT;

		token_sign_hmac(secrets[i]->p, secrets[i]->len, header, payload, &token);
		refuses("HS256", token.p, "alg is none");
		str_reset(&token);
		token_sign_hmac(secrets[i]->p, secrets[i]->len, lying, payload, &token);
		refuses("RS256 by HMAC", token.p, "signature");
		str_fini(&token);
	}
	free(payload);
}

static void somebody_elses_signature_is_refused(void **state)
{
	char *payload = claims_with(NULL, NULL), *token = signed_by(stranger, ed_header, payload);

	refuses("stranger", token, "signature");
	free(token);
	free(payload);
}

static void only_compact_and_strict(void **state)
{
	char *payload = claims_with(NULL, NULL), *token = signed_by(keys[K_ED], ed_header, payload);
	size_t n = strlen(token);
	const char *dot = strchr(token, '.'), *second = strchr(dot + 1, '.');
	char *bad;

#define BAD(what, msg, ...) do { bad = mem_printf(__VA_ARGS__); refuses(what, bad, msg); free(bad); } while (0)
	accepts(token);
	refuses("empty", "", "three parts");
	refuses("one dot", "a.b", "three parts");
	BAD("five parts", "three parts", "%s.a.b", token);
	BAD("trailing dot", "three parts", "%s.", token);
	BAD("unsecured", "signature is missing", "%.*s", (int)(second - token + 1), token);
	BAD("detached", "no JSON", "%.*s.%s", (int)(dot - token + 1), token, second + 1);
	BAD("no header", "no JSON", "%s", dot);
	BAD("padding", "base64url", "%s=", token);
	BAD("space", "base64url", "%s ", token);
	BAD("line end", "base64url", "%s\n", token);
	BAD("space inside", "base64url", "%.*s %s", 4, token, token + 4);
	BAD("standard alphabet", "base64url", "%.*s+%s", (int)(dot - token), token, dot);
	BAD("truncated", "base64url", "%.*s", (int)n - 1, token);
	BAD("JSON serialization", "three parts", "{\"payload\":\"x\",\"signatures\":[]}");
#undef BAD
	/* 64 bytes are 86 characters: four bits of the last one say nothing and must be 0. */
	assert_int_equal(strlen(second + 1), 86);
	for (unsigned bits = 1; bits < 16; bits++) {
		static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
		char last = token[n - 1];
		size_t at = (size_t)(strchr(alphabet, last) - alphabet);

		token[n - 1] = alphabet[at | bits];
		refuses("trailing bits", token, "base64url");
		token[n - 1] = last;
	}
	refuses_len("NUL behind it", token, n + 1, "base64url");
	free(token);
	free(payload);
}

static void size_holds_at_its_limit(void **state)
{
	char *token = mem_strdup("");

	/* Grow a claim until the token is just as long as it may be. */
	for (int fill = 5600; strlen(token) < JWT_BYTES_MAX - 1; fill++) {
		char *value = mem_printf("\"%0*d\"", fill, 0), *payload = claims_with("x", value);

		free(token);
		token = signed_by(keys[K_ED], ed_header, payload);
		free(value);
		free(payload);
	}
	assert_in_range(strlen(token), JWT_BYTES_MAX - 1, JWT_BYTES_MAX);
	accepts(token);
	char *longer = mem_printf("%sAA", token);
	refuses("over the limit", longer, "longer than 8192");
	free(longer);
	free(token);
	char *huge = mem_alloc(1 << 20);
	memset(huge, 'A', 1 << 20);
	huge[100] = huge[200] = '.';
	refuses_len("1 MB", huge, 1 << 20, "longer than 8192");
	free(huge);
}

static void deep_and_double_json_is_refused(void **state)
{
	struct str deep = STR_INIT;
	char *token;

	str_puts(&deep, "{\"a\":");
	for (int i = 0; i < 100; i++)
		str_puts(&deep, "[");
	for (int i = 0; i < 100; i++)
		str_puts(&deep, "]");
	str_puts(&deep, "}");
	token = signed_by(keys[K_ED], ed_header, deep.p);
	refuses("deep", token, "no JSON");
	free(token);
	str_fini(&deep);
	token = signed_by(keys[K_ED], ed_header, "{\"iss\":\"" ISSUER "\",\"aud\":\"x\",\"aud\":\"" AUDIENCE "\"}");
	refuses("double aud", token, "twice");
	free(token);
}

static void claims_are_checked(void **state)
{
	static const struct { const char *name, *value, *msg; } rows[] = {      /* msg NULL: accepted */
		{ "aud", "\"https://other.example.com/mcp\"", "aud" },
		{ "aud", "\"" AUDIENCE "/\"", "aud" },
		{ "aud", "\"" AUDIENCE "x\"", "aud" },
		{ "aud", "\"https://tools.example.com\"", "aud" },
		{ "aud", "\"https://tools.example.com/MCP\"", "aud" },
		{ "aud", "\"https://tools.example.com.evil.example/mcp\"", "aud" },
		{ "aud", "\"HTTPS://Tools.Example.COM/mcp\"", NULL },
		{ "aud", "\"" AUDIENCE "\\u0000\"", "aud" },
		{ "aud", "[\"" AUDIENCE "\"]", NULL },
		{ "aud", "[\"https://other.example.com\", \"" AUDIENCE "\"]", NULL },
		{ "aud", "[\"https://other.example.com\", \"x\"]", "aud" },
		{ "aud", "[[\"" AUDIENCE "\"]]", "aud" },
		{ "aud", "{\"a\":\"" AUDIENCE "\"}", "aud" },
		{ "aud", "[]", "aud" },
		{ "aud", "true", "aud" },
		{ "aud", NULL, "aud" },
		{ "iss", "\"" ISSUER "/\"", "iss" },
		{ "iss", "\"https://LOGIN.example.com\"", "iss" },
		{ "iss", "[\"" ISSUER "\"]", "iss" },
		{ "iss", NULL, "iss" },
		{ "exp", NULL, "exp" },
		{ "exp", "\"1800000300\"", "exp" },
		{ "exp", "null", "exp" },
		{ "exp", "-1", "exp" },
		{ "exp", "1e400", "exp" },
		{ "exp", "99999999999999999999", "exp" },
		{ "exp", "1799999939", "exp is over" },         /* now - 61 s */
		{ "exp", "1800000000", "exp is over" },
		{ "exp", "1800000001", NULL },
		{ "exp", "1800000061", NULL },                  /* now + 61 s */
		{ "exp", "1800000000.5", NULL },
		{ "exp", "1800086395", NULL },                  /* iat + a day */
		{ "exp", "1800086396", "a day" },
		{ "iat", NULL, NULL },
		{ "iat", "1800000060", NULL },
		{ "iat", "1800000061", "future" },
		{ "iat", "\"now\"", "iat" },
		{ "nbf", "1800000060", NULL },
		{ "nbf", "1800000061", "future" },
		{ "nbf", "false", "nbf" },
		{ "nonce", "\"n\"", "ID token" },
		{ "sub", NULL, "sub" },
		{ "sub", "\"\"", "sub" },
		{ "sub", "7", "sub" },
		{ "client_id", NULL, "client_id" },
		{ "client_id", "[]", "client_id" },
		{ "azp", "\"x\"", NULL },
		{ "scope", NULL, NULL },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		char *payload = claims_with(rows[i].name, rows[i].value), *token = signed_by(keys[K_ED], ed_header, payload);

		if (rows[i].msg)
			refuses(payload, token, rows[i].msg);
		else
			accepts(token);
		free(token);
		free(payload);
	}
}

/* --- key sets */

static void set_refused(const char *text, enum err_code code, const char *msg)
{
	struct jwk_set *s = NULL;
	struct err err = { 0 };

	if (jwk_set_parse(text, strlen(text), &s, &err) == 0)
		fail_msg("accepted: %s", text);
	if (err.code != code || !strstr(err.msg, msg))
		fail_msg("%s: \"%s\", not \"%s\"", text, err.msg, msg);
	assert_null(s);
}

#define X32 "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"       /* RFC 8037 A.2 */
#define ED "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"" X32 "\""

static void key_sets_are_strict(void **state)
{
	set_refused("", ERR_INVALID, "no JSON");
	set_refused("[]", ERR_INVALID, "an object");
	set_refused("{}", ERR_INVALID, "missing");
	set_refused("{\"keys\":{}}", ERR_INVALID, "array");
	set_refused("{\"keys\":[]}", ERR_INVALID, "no key");
	set_refused("{\"keys\":[7]}", ERR_INVALID, "object");
	set_refused("{\"keys\":[" ED ",\"x\":\"" X32 "\"}]}", ERR_CONFLICT, "no JSON");
	set_refused("{\"keys\":[" ED ",\"kid\":\"a\"}," ED ",\"kid\":\"a\"}]}", ERR_INVALID, "this kid");
	set_refused("{\"keys\":[" ED ",\"kid\":7}]}", ERR_INVALID, "kid");
	set_refused("{\"keys\":[" ED ",\"d\":\"" X32 "\"}]}", ERR_INVALID, "private");
	set_refused("{\"keys\":[" ED "},{\"kty\":\"oct\",\"k\":\"AAAA\"}]}", ERR_INVALID, "shared");
}

/* Passed over, so that nothing is left of a set that has only such a key. */
static void keys_for_something_else_are_passed_over(void **state)
{
	static const char *const rows[] = {
		ED ",\"use\":\"enc\"}", ED ",\"key_ops\":[\"sign\"]}", ED ",\"alg\":\"ES256\"}", ED ",\"alg\":\"HS256\"}",
		ED ",\"alg\":7}", "{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":\"" X32 "\"}", "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AAAA\"}",
		"{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"" X32 "=\"}", "{\"kty\":\"EC\",\"crv\":\"P-384\",\"x\":\"AA\",\"y\":\"AA\"}",
		/* no point of the curve */
		"{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" X32 "\",\"y\":\"" X32 "\"}", "{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}",
		"{\"kty\":\"RSA\"}", "{\"kty\":7}", "{}",
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		char *text = mem_printf("{\"keys\":[%s]}", rows[i]);

		set_refused(text, ERR_INVALID, "no key");
		free(text);
		text = mem_printf("{\"keys\":[%s," ED ",\"use\":\"sig\",\"key_ops\":[\"verify\"]}]}", rows[i]);
		struct jwk_set *s = NULL;
		assert_int_equal(jwk_set_parse(text, strlen(text), &s, NULL), 0);
		assert_int_equal(jwk_set_count(s), 1);
		assert_non_null(jwk_find(s, NULL));
		assert_null(jwk_find(s, "a"));
		jwk_set_free(&s);
		free(text);
	}
}

static char *one_key_set(const struct token_key *k, const char *alg)
{
	struct str text = STR_INIT;

	str_puts(&text, "{\"keys\":[");
	token_key_jwk(k, NULL, alg, &text);
	str_puts(&text, "]}");
	return str_take(&text);
}

static void weak_rsa_is_passed_over(void **state)
{
	char *text = one_key_set(keys[K_RS], "RS256"), *n = strstr(text, "\"n\":\"");

	/* Without its first three bytes: 2024 bits. */
	assert_non_null(n);
	memmove(n + 5, n + 9, strlen(n + 9) + 1);
	set_refused(text, ERR_INVALID, "no key");
	free(text);
	/* An exponent of 1: the padded digest itself would be the signature. */
	text = one_key_set(keys[K_RS], "RS256");
	char *e = strstr(text, "\"e\":\"AQAB\"");
	assert_non_null(e);
	memcpy(e, "\"e\":\"AQ\"  ", 10);
	set_refused(text, ERR_INVALID, "no key");
	free(text);
}

/* RSA without alg is for RS256 alone. */
/* RFC 8017 8.1.2, 8.2.2: a signature that begins with a zero byte is none without it. */
static void rsa_signatures_are_as_long_as_the_key(void **state)
{
	char *payload = claims_with(NULL, NULL), *token, *sig;
	uint8_t bytes[JWT_BYTES_MAX];
	size_t len;

	for (int k = K_RS; k <= K_PS; k++) {
		char *header = NULL;

		token = NULL;
		do {                    /* one of 256 */
			static unsigned n;

			free(header);
			free(token);
			header = mem_printf("{\"alg\":\"%s\",\"kid\":\"%s\",\"n\":%u}", algs[k], algs[k], n++);
			token = signed_by(keys[k], header, payload);
			sig = strrchr(token, '.') + 1;
			assert_int_equal(text_unbase64url(sig, strlen(sig), bytes, sizeof bytes, &len), 0);
		} while (bytes[0] != 0);
		accepts(token);
		text_base64url(bytes + 1, len - 1, sig);
		refuses(algs[k], token, "signature");
		free(token);
		free(header);
	}
	free(payload);
}

static void rsa_without_alg_is_rs256(void **state)
{
	char *text = one_key_set(keys[K_PS], NULL), *payload = claims_with(NULL, NULL);
	struct jwk_set *s = NULL;
	struct jwt *t = NULL;
	char *token = signed_by(keys[K_PS], "{\"alg\":\"PS256\"}", payload);

	assert_int_equal(jwk_set_parse(text, strlen(text), &s, NULL), 0);
	assert_int_equal(jwk_alg(jwk_find(s, NULL)), JWT_RS256);
	assert_int_equal(jwt_parse(token, strlen(token), &t, NULL), 0);
	assert_int_equal(jwt_verify(t, jwk_find(s, NULL), NULL), ERR_DENIED);
	jwt_free(&t);
	jwk_set_free(&s);
	free(token);
	free(payload);
	free(text);
}

static void key_sets_hold_at_their_limits(void **state)
{
	for (int n = JWKS_KEYS_MAX; n <= JWKS_KEYS_MAX + 1; n++) {
		struct str text = STR_INIT;
		struct jwk_set *s = NULL;

		str_puts(&text, "{\"keys\":[");
		for (int i = 0; i < n; i++)
			str_printf(&text, "%s" ED ",\"kid\":\"%d\"}", i ? "," : "", i);
		str_puts(&text, "]}");
		assert_int_equal(jwk_set_parse(text.p, text.len, &s, NULL), n == JWKS_KEYS_MAX ? 0 : ERR_LIMIT);
		jwk_set_free(&s);
		str_fini(&text);
	}
	for (size_t n = JWKS_BYTES_MAX; n <= JWKS_BYTES_MAX + 1; n++) {
		char *text = mem_printf("{\"keys\":[" ED "}]}%*s", (int)(n - strlen("{\"keys\":[" ED "}]}")), "");
		struct jwk_set *s = NULL;

		assert_int_equal(strlen(text), n);
		assert_int_equal(jwk_set_parse(text, n, &s, NULL), n == JWKS_BYTES_MAX ? 0 : ERR_LIMIT);
		jwk_set_free(&s);
		free(text);
	}
}

SINGLE_THREAD_SUITE(jwt)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_algorithm_verifies),
		cmocka_unit_test(algorithm_is_the_keys),
		cmocka_unit_test(headers_that_act_are_refused),
		cmocka_unit_test(kid_holds_at_its_limit),
		cmocka_unit_test(public_key_is_no_hmac_secret),
		cmocka_unit_test(somebody_elses_signature_is_refused),
		cmocka_unit_test(only_compact_and_strict),
		cmocka_unit_test(size_holds_at_its_limit),
		cmocka_unit_test(deep_and_double_json_is_refused),
		cmocka_unit_test(claims_are_checked),
		cmocka_unit_test(key_sets_are_strict),
		cmocka_unit_test(keys_for_something_else_are_passed_over),
		cmocka_unit_test(weak_rsa_is_passed_over),
		cmocka_unit_test(rsa_signatures_are_as_long_as_the_key),
		cmocka_unit_test(rsa_without_alg_is_rs256),
		cmocka_unit_test(key_sets_hold_at_their_limits),
	};

	return cmocka_run_group_tests(tests, open_keys, close_keys);
}
