#ifndef BACKEND_SECRETS_H
#define BACKEND_SECRETS_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Secrets reach handlers by name (SEC S-345): a definition says {secret:NAME}, the value is opened at the run and wiped
 * after it, and blanked from everything that the run says.  Loop thread. */

struct secret_source;
struct str;

#define BE_SECRETS_MAX 32               /* in use at once by one run, link or worker */

/* The values in use, opened on first use.  A run has one (req->secrets).  What outlives a run, a link or a worker that
 * got secrets at its start, has one of its own, and each run that it serves asks req->secrets for the same names, so
 * that the run's output is blanked. */
struct be_secrets;
struct be_secrets *be_secrets_new(const struct secret_source *from);  /* from: NULL = nothing is set */
void be_secrets_free(struct be_secrets **s);                            /* wipes */
/* The value; borrowed until be_secrets_free(), NUL-terminated, without NUL inside.  ERR_TOOL names what is not set. */
int be_secrets_get(struct be_secrets *s, const char *name, const char **ret, size_t *ret_len, struct err *err) MUST_CHECK;
bool be_secrets_used(const struct be_secrets *s);                       /* is there anything to blank? */

/* Blanking: [secret:NAME] for a value, also in base64 (both alphabets, any alignment), hex, percent-encoded and with the
 * escapes of JSON.  It is done once, centrally, for all that goes to a run's sink; a handler needs these for what it
 * logs, and before it cuts a text, since half a value is not found afterwards. */
void be_secrets_blank(const struct be_secrets *s, const char *p, size_t len, struct str *out);  /* appends */
json_t *be_secrets_blank_json(const struct be_secrets *s, json_t *v);   /* takes v, returns it or a copy; NULL stays */
void be_secrets_blank_err(const struct be_secrets *s, struct err *err); /* also what is left of a value at a cut end */

#endif
