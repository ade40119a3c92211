#ifndef OAUTH_OAUTH_H
#define OAUTH_OAUTH_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A resource server of OAuth 2.1 (SEC 7, MCP 17): access tokens of configured issuers instead of keys, the document
 * that says where to get one (RFC 9728), and the challenges.  Tokens go nowhere else (MCP A-09).  Loop thread. */

/* checks that wait for issuers: one half shared out evenly, the other for who comes first */
#define OAUTH_WAITING_MAX 1024
/* of them, those about opaque tokens: each is a request of the fetcher, which tools use as well */
#define OAUTH_ASKING_MAX 256
#define OAUTH_KIDS_MAX 256              /* of one issuer: kids that are remembered because they were not there */
#define OAUTH_NEAR_MS 5000              /* how long a check waits for the next fetch of keys that may be made */
#define OAUTH_CACHE_MAX 10000           /* tokens that are remembered */
#define OAUTH_CACHE_MS 300000           /* for how long at most (SEC S-410) */
#define OAUTH_ASK_MS 5000               /* how long an issuer may take */

struct conf;
struct cred_source;
struct ev_loop;
struct fetcher;
struct oauth;
struct oauth_check;
struct oauth_issuer;
struct principal;
struct str;
struct tenants;

struct oauth_seen {                     /* a token that was verified, for the record; never the token (SEC S-411) */
	const char *issuer, *client;
	const char *commitment;         /* of its jti, or of itself when it has none: hex */
};
struct oauth_env {                      /* borrowed for life */
	struct ev_loop *loop;
	struct fetcher *fetcher;
	struct tenants *tenants;
	const struct conf *conf;        /* its issuers */
	const uint8_t *master;
	/* A secret of the store by its name, in memory of secret_alloc(). */
	int (*secret)(void *arg, const char *name, char **ret, size_t *ret_len, struct err *err);
	void *secret_arg;
	/* A token is good, and was not known to be. */
	void (*accepted)(void *arg, const struct cred_source *source, const struct principal *who,
			 const struct oauth_seen *seen);
	void *accepted_arg;
};
/* ERR_INVALID: the configuration says what cannot be, or a file of keys is none. */
int oauth_open(const struct oauth_env *env, struct oauth **ret, struct err *err) MUST_CHECK;
void oauth_close(struct oauth **o);     /* checks under way are forgotten: no done() comes */
/* What is in files is read again, tokens that were good are verified again.  A file that is wrong is logged, and its
 * keys stay as they were. */
void oauth_reload(struct oauth *o);
bool oauth_has_issuers(const struct oauth *o);          /* NULL: none */

struct oauth_pass { struct principal *who; const struct oauth_issuer *issuer; };
struct oauth_ask {                      /* all copied */
	const char *token; size_t len;
	const char *resource;           /* the URL that was asked for: what the token must be for */
	const struct cred_source *source;
};
/* rc 0: pass->who is counted, for the callee.  Else as oauth_check() says. */
typedef void oauth_done_fn(void *arg, int rc, const struct oauth_pass *pass, const struct err *err);
/* 0: ret_pass->who is counted.  1: an issuer is asked; done() follows once, never from inside a call of this module,
 * unless *ret_check is cancelled before.  ERR_DENIED: told to the watcher of tenants, err->msg fits an answer.
 * ERR_BUSY, ERR_UNREACHABLE: nobody can tell now; err->retry_ms. */
int oauth_check(struct oauth *o, const struct oauth_ask *ask, oauth_done_fn *done, void *arg,
		struct oauth_pass *ret_pass, struct oauth_check **ret_check, struct err *err) MUST_CHECK;
void oauth_check_cancel(struct oauth_check **c);

/* RFC 9728: where tokens for this resource come from. */
void oauth_metadata(const struct oauth *o, const char *resource, struct str *out);
/* The value of WWW-Authenticate (RFC 6750 3, RFC 9728 5.1). */
struct oauth_challenge {
	const char *metadata;           /* URL of the document */
	const char *error;              /* "invalid_token", "insufficient_scope"; NULL: there was no token */
	unsigned rights;                /* enum scope_right: what is needed, all at once (MCP A-10) */
	const struct oauth_issuer *issuer;      /* whose words; NULL: those that all of them know */
};
void oauth_challenge(const struct oauth *o, const struct oauth_challenge *c, struct str *out);

#endif
