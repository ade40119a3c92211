#ifndef BACKEND_SECRETS_H
#define BACKEND_SECRETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"

/* Secrets in use, and their masking.
 *
 * Secrets reach handlers by name (SEC S-345): a definition says {secret:NAME}, the value is opened at the run and wiped
 * after it, and masked in everything that the run says.  Where values come from is keys/secrets.h.  backend_start()
 * makes a run's set and frees it at the end; a template that is rendered opens what it names; what the run reports is
 * masked centrally.  Loop thread. */

struct secret_source;
struct str;

#define OPEN_SECRETS_MAX 32               /* in use at once by one run, link or worker */

/* The values in use, opened on first use.  A run has one (req->secrets).  What outlives a run, a link or a worker that
 * got secrets at its start, has one of its own, and each run that it serves asks req->secrets for the same names, so
 * that the run's output is masked. */
struct open_secrets;
struct open_secrets *open_secrets_new(const struct secret_source *from);  /* from: NULL = nothing is set */
void open_secrets_free(struct open_secrets **s);                            /* wipes */
/* The value; borrowed until open_secrets_free(), NUL-terminated, without NUL inside.  ERR_TOOL names what is not
 * set. */
int open_secrets_get(struct open_secrets *s, const char *name, const char **ret, size_t *ret_len,
		     struct err *err) MUST_CHECK;
bool open_secrets_any(const struct open_secrets *s);                       /* is there anything to mask? */

/* Masking: [secret:NAME] for a value, also in base64 (both alphabets, any alignment), hex, percent-encoded and with
 * the escapes of JSON.  It is done once, centrally, for all that goes to a run's sink; a handler needs these for what
 * it logs, and before it cuts a text, since half a value is not found afterwards. */
void mask_text(const struct open_secrets *s, const char *p, size_t len, struct str *out);  /* appends */
json_t *mask_json(const struct open_secrets *s, json_t *v);   /* takes v, returns it or a copy; NULL stays */
void mask_err(const struct open_secrets *s, struct err *err); /* also what is left of a value at a cut end */

#endif
