/* What the files of the module share: jwt.c (keys and tokens), keyset.c (an issuer: its server, its keys, its words),
 * check.c (the check itself, tokens found good, opaque ones, what claims mean), challenge.c (what a client without a
 * token is told). */
#ifndef OAUTH_INT_H
#define OAUTH_INT_H

#include "base/err.h"
#include "tenant/tenant.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/crypto.h"
#include "base/map.h"
#include "oauth/oauth.h"

struct conf_issuer;
struct conf_claim;
struct ev_loop;
struct fetcher;
struct str;

/* --- jwt.c: the public keys of an issuer (RFC 7517, RFC 8037) */

#define JWKS_BYTES_MAX (64u << 10)      /* of one set (SEC S-409) */
#define JWKS_KEYS_MAX 100               /* of one set, those that are passed over included */
#define JWK_RSA_BITS_MIN 2048           /* SEC S-403 */
#define JWK_RSA_BITS_MAX 8192           /* a check of more costs an attacker nothing and us milliseconds */
#define JWT_KID_MAX 128                 /* bytes (SEC S-404) */

/* The only ones: no HMAC, no `none` (SEC S-403). */
#define JWT_ALGS(X) X(RS256) X(PS256) X(ES256) X(EdDSA)
enum jwt_alg {
#define JWT_ALG_ENUM(name) JWT_##name,
	JWT_ALGS(JWT_ALG_ENUM)
#undef JWT_ALG_ENUM
	JWT_ALG_COUNT
};

struct jwk;
struct jwk_set;
/* Keys for something else, of another kind or too weak are passed over; ERR_INVALID when none is left, when two have
 * one kid, or when a key is a private one.  ERR_LIMIT.  err->where points into the text. */
int jwk_set_parse(const char *text, size_t len, struct jwk_set **ret, struct err *err) MUST_CHECK;
void jwk_set_free(struct jwk_set **set);
size_t jwk_set_count(const struct jwk_set *set);
const char *jwk_set_kid(const struct jwk_set *set, size_t i);    /* of the i-th; NULL: it has none */
/* The key with this id; kid NULL: the only key that there is.  NULL without. */
const struct jwk *jwk_find(const struct jwk_set *set, const char *kid);
/* What this key verifies, by its entry: nothing in a token chooses. */
FOR_TESTS enum jwt_alg jwk_alg(const struct jwk *key);
FOR_TESTS bool jwk_verify(const struct jwk *key, const void *p, size_t len, const uint8_t *sig, size_t sig_len);

/* --- jwt.c: one access token (RFC 7515, RFC 9068) */

#define JWT_BYTES_MAX 8192              /* SEC S-401 */
#define JWT_SKEW_US 60000000ull         /* of nbf and iat (SEC S-406) */
#define JWT_LIFE_US 86400000000ull      /* exp - iat at most (SEC S-406) */

struct jwt {
	enum jwt_alg alg;               /* as the header says: to be compared, never to be obeyed */
	const char *kid;                /* or NULL */
	const char *signed_text; size_t signed_len;     /* borrowed from the token */
	json_t *header, *claims;
	uint8_t *sig; size_t sig_len;
};
/* Shape alone: nothing has been verified when this returns 0.  ERR_DENIED with a sentence for the log, which quotes
 * nothing of the token. */
int jwt_parse(const char *text, size_t len, struct jwt **ret, struct err *err) MUST_CHECK;
void jwt_free(struct jwt **t);
/* Is this a compact JWS by its looks (two dots)?  Else it is opaque. */
bool jwt_looks(const char *text, size_t len);
/* The algorithm is the key's and so is the signature.  ERR_DENIED. */
int jwt_verify(const struct jwt *t, const struct jwk *key, struct err *err) MUST_CHECK;

/* A member that is a text, not empty, without U+0000; or NULL. */
const char *jwt_text(const json_t *obj, const char *name);
/* Who got the token: client_id, or azp; or NULL. */
const char *jwt_client(const json_t *claims);

struct jwt_expect { const char *issuer, *audience; uint64_t now_us; };
/* The claims every token must have (SEC S-405, S-406).  ERR_DENIED, and why. */
int jwt_check_claims(const json_t *claims, const struct jwt_expect *want, uint64_t *ret_expires_us,
		     enum cred_refusal *ret_why, struct err *err) MUST_CHECK;

/* --- keyset.c: requests to an issuer */

struct oauth_server;                    /* where an issuer is reached, and how; counted */
struct oauth_http_req {
	const char *url;
	const char *form;               /* the body of a POST; NULL: a GET */
	const char *authorization;      /* or NULL */
	uint64_t deadline_us;           /* monotonic */
};
/* rc 0: status 200 and this body. */
typedef void oauth_http_fn(void *arg, int rc, const struct str *body, const struct err *err);
struct oauth_http;
int oauth_http_start(struct fetcher *f, struct oauth_server *server, const struct oauth_http_req *req,
		     oauth_http_fn *got,
		    void *arg, struct oauth_http **ret, struct err *err) MUST_CHECK;
void oauth_http_cancel(struct oauth_http **g);            /* got() does not come any more */

/* --- keyset.c: its keys */

struct keyset_env {                     /* borrowed */
	struct ev_loop *loop;
	struct fetcher *fetcher;
	uint32_t interval_s, max_age_s;
	/* A fetch has ended: keys are new, or as they were. */
	void (*fetched)(void *arg, const struct conf_issuer *conf, bool fresh);
	void *arg;
};
struct keyset;
/* From a file: read it again; on failure the old keys stay.  Else: fetch them when the next token comes. */
int keyset_reload(struct keyset *k, struct err *err) MUST_CHECK;
enum keyset_find {
	KEYSET_FOUND,
	KEYSET_UNKNOWN,                 /* no such key */
	KEYSET_WAIT,                    /* ask again after fetched() */
	KEYSET_NONE,                    /* nobody can tell now: there are no keys, or it may be newer than they are */
};
enum keyset_find keyset_find(struct keyset *k, const char *kid, bool may_wait, const struct jwk **ret);
uint32_t keyset_retry_ms(const struct keyset *k);       /* when KEYSET_NONE may be over */

/* --- keyset.c: key ids that tokens named and no set had */

struct unknown_keys;
FOR_TESTS struct unknown_keys *unknown_keys_new(void);
FOR_TESTS void unknown_keys_free(struct unknown_keys **k);
/* When it was seen first, as far as is known. */
FOR_TESTS uint64_t unknown_keys_see(struct unknown_keys *k, const char *kid, uint64_t now_us);

/* --- check.c: tokens found good */

struct oauth_cache;
FOR_TESTS struct oauth_cache *oauth_cache_new(size_t max);
FOR_TESTS void oauth_cache_free(struct oauth_cache **c);
FOR_TESTS void oauth_cache_key(const char *token, size_t len, const char *resource, uint8_t ret[DIGEST_SIZE]);
/* who: borrowed.  False: not there, or over. */
FOR_TESTS bool oauth_cache_get(struct oauth_cache *c, const uint8_t key[DIGEST_SIZE], uint64_t now_us,
			       struct oauth_pass *ret);
/* True: it was not there, not even as one that is over. */
FOR_TESTS bool oauth_cache_put(struct oauth_cache *c, const uint8_t key[DIGEST_SIZE], const struct oauth_pass *pass,
		     uint64_t until_us);
/* Its tokens, NULL: all, are only known to have been good from now on. */
FOR_TESTS void oauth_cache_expire(struct oauth_cache *c, const struct oauth_issuer *issuer);

/* --- keyset.c: an issuer */

struct oauth_word { const char *word; struct scopes *scopes; };
struct oauth_issuer {
	struct oauth *o;
	const struct conf_issuer *conf;
	struct keyset *keys;            /* NULL: it is asked */
	struct oauth_server *server;    /* that is asked */
	struct oauth_word *words; size_t nwords;
	struct list waiting; size_t nwaiting;   /* struct oauth_check */
};
int issuer_init(struct oauth_issuer *s, struct oauth *o, const struct conf_issuer *conf, struct err *err) MUST_CHECK;
void issuer_fini(struct oauth_issuer *s);

struct oauth {
	struct oauth_env env;
	struct keyset_env keyset_env;
	struct oauth_issuer *issuers; size_t nissuers;
	struct oauth_cache *cache;
	size_t share;                   /* places for checks that are each issuer's own */
	size_t ncommon;                 /* checks that are not over beyond the shares of their issuers */
	uint8_t jti_key[32];
};

/* --- check.c: what claims mean here */

struct oauth_identity {                 /* texts borrowed from claims, or in here */
	const char *tenant, *subject;
	bool known_only;
	char own[PRINCIPAL_SUBJECT_MAX + 1];
	struct scopes *scopes;          /* to be unreffed */
};

#endif
