/* What check.c and ask.c share: one check of a token. */
#ifndef OAUTH_CHECK_INT_H
#define OAUTH_CHECK_INT_H

#include "oauth_int.h"

struct question {                       /* texts borrowed */
	const char *token; size_t len;
	const char *resource;
	struct cred_source source;
	uint8_t key[DIGEST_SIZE];       /* in the cache */
};
struct oauth_check {                    /* one that waits */
	struct list node;               /* of its issuer */
	struct oauth_issuer *issuer;
	struct question q;              /* of the texts below */
	char *token, *resource, *from;
	oauth_done_fn *done;
	void *arg;
	struct oauth_get *get;          /* about this token */
};
/* The claims of a token whose origin is sure.  0: *ret counted. */
int check_claims(struct oauth_issuer *s, const struct question *q, const json_t *claims, struct oauth_pass *ret,
		 struct err *err) MUST_CHECK;
/* Frees it and tells. */
void check_finish(struct oauth_check *c, int rc, const struct oauth_pass *pass, const struct err *err);
int check_refuse(struct oauth *o, const struct question *q, enum cred_refusal why, const struct err *detail, struct err *err);
int check_unavailable(struct oauth *o, const struct question *q, uint32_t retry_ms, struct err *err);

/* --- ask.c */

/* May this be an opaque token?  (RFC 6750 2.1) */
bool ask_takes(const char *token, size_t len);
/* Ask the issuer about the token; check_finish() follows. */
int ask_start(struct oauth_check *c, struct err *err) MUST_CHECK;

#endif
