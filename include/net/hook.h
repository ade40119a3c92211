#ifndef NET_HOOK_H
#define NET_HOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* POSTs to a place that toolcribd.yaml names, which is the operator's word (OP-006): any address, private ones too,
 * with this name and port; https, unless it is on this machine; never a listener of ours.  Signed as Standard Webhooks
 * has it where there is a secret, anew at each try, over the id, the time and the very bytes.  One request at a time; a
 * status 2xx takes it.  Loop thread. */

#define HOOK_SECRET_MIN 24              /* bytes (Standard Webhooks) */
#define HOOK_SECRET_MAX 32
#define HOOK_ANSWER_MAX 65536

struct fetcher;
struct hook;

struct hook_conf {                      /* copied, but ca, which is borrowed for life; NULL: there is none */
	const char *url, *ca;           /* ca: NULL = the system's authorities */
	const char *secret_file;        /* "whsec_" and base64, on one line; nobody else may use it */
	const char *authorization_file; /* the value of a header, on one line; likewise */
	const char *scheme;             /* stands in front of that value, with a blank */
	const char *header, *value;     /* one more header */
	const char *aws_region, *aws_key_file;  /* requests are signed for S3, with the id and the secret on its two lines */
};
/* Is what it names there, and may it be reached?  ERR_INVALID, ERR_DENIED and those of path_read_as(). */
int hook_check(const struct hook_conf *conf, struct err *err) MUST_CHECK;

#define HOOK_KEEP_MAX 6
#define HOOK_HEADERS_MAX 8
struct fetch_header;
struct hook_message {
	const char *id, *type;          /* type: of the body; NULL: it has none */
	const void *body; size_t len;
	const char *method, *path;      /* NULL: POST; nothing behind the URL */
	const struct fetch_header *headers; size_t nheaders;    /* more of them */
	const char *keep[HOOK_KEEP_MAX];        /* headers of the answer that are wanted, lower case, static; NULL: none */
};
struct hook_answer {
	bool taken;
	bool mend;                      /* a person has to mend something, to try again soon is no use */
	const char *why;                /* not taken: as a person reads it */
	int status;                     /* 0: there was no answer */
	const void *body; size_t len;   /* of the answer, HOOK_ANSWER_MAX bytes at most */
	const char *kept[HOOK_KEEP_MAX];        /* what the message wants; NULL: it has none */
	uint64_t after_us;              /* it wants to be tried again no earlier; 0: it has not said */
};
typedef void hook_done_fn(void *arg, const struct hook_answer *answer);

/* scope: whose connections, no tenant's name; copied. */
int hook_open(struct fetcher *f, const struct hook_conf *conf, const char *scope, hook_done_fn *done, void *arg,
	      struct hook **ret, struct err *err) MUST_CHECK;
/* Ends with done(), which for one that cannot begin is called before it returns.  Everything is copied. */
void hook_send(struct hook *h, const struct hook_message *m);
void hook_close(struct hook **h);       /* of what is under way nobody hears */

#endif
