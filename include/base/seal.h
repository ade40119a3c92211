#ifndef BASE_SEAL_H
#define BASE_SEAL_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct str;

/* Text that leaves and must come back unchanged: request state, list cursors (SEC S-122, MCP B-34).
 * Form: "v1." base64url(payload) "." base64url(HMAC-SHA-256(key, purpose 0x00 context-length
 * context payload)); the length is 8 bytes, little-endian.
 * The context (tenant, principal, …) is bound but not carried. */
struct seal;

struct seal *seal_new(const uint8_t master[32], const char *purpose);   /* key derived by purpose */
void seal_free(struct seal **s);
/* Append the sealed text to *ret. */
void seal_make(const struct seal *s, const void *context, size_t context_len, const void *payload, size_t len,
	       struct str *ret);
/* Open: appends the payload to *ret.  ERR_INVALID without detail when anything is wrong. */
int seal_open(const struct seal *s, const void *context, size_t context_len, const char *text, size_t len,
	      struct str *ret) MUST_CHECK;

#endif
