#ifndef KEYS_COMMIT_H
#define KEYS_COMMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Commitments to values and their encryption (AUDIT 5): pure functions of bytes, any thread.  A record holds
 * commitments, never a bare hash of a value; the opening r lets one commitment be checked and tells
 * nothing else. */

#define AUDIT_SALT_SIZE 16
#define AUDIT_STORED_MAX (64u << 10)    /* bytes stored of one value */
#define AUDIT_COMMITS_MAX 12            /* commitments of one record: more than there are tags */

/* What a record commits to. */
#define AUDIT_CTAGS(X) \
	X(ARGUMENTS, 1, "arguments") \
	X(RESULT, 2, "result") \
	X(ADDRESS, 3, "address") \
	X(PERSON, 4, "person") \
	X(CLIENT, 5, "client") \
	X(ERROR, 6, "error") \
	X(REDACTED, 8, "redacted") \
	X(WHOLE_ARGUMENTS, 9, "whole_arguments") \
	X(WHOLE_RESULT, 10, "whole_result") \
	X(UNKNOWN_NAME, 11, "unknown_name")
enum audit_ctag {
#define AUDIT_CTAG_ENUM(sym, tag, name) AUDIT_C_##sym = tag,
	AUDIT_CTAGS(AUDIT_CTAG_ENUM)
#undef AUDIT_CTAG_ENUM
};
const char *audit_ctag_name(unsigned ctag);             /* or NULL */

/* Where a record stands: what its values are bound to. */
struct audit_at { const char *origin; size_t origin_len; uint64_t idx; };

void audit_opening(const uint8_t dek[32], const uint8_t salt[AUDIT_SALT_SIZE], const struct audit_at *at, unsigned ctag,
		   uint8_t ret[32]);
void audit_commitment(const uint8_t opening[32], unsigned ctag, const void *value, size_t len, uint8_t ret[32]);
void audit_salt_check(const uint8_t salt[AUDIT_SALT_SIZE], uint8_t ret[16]);
/* What values are encrypted with: ekey of what follows.  struct keys_dek has it. */
void audit_payload_key(const uint8_t dek[32], uint8_t ret[32]);

/* Commitments as column cm holds them: 2 bytes tag, 32 bytes, ascending.  False: not of that form. */
struct audit_cm { unsigned ctag; const uint8_t *commitment; };
bool audit_cm_read(const uint8_t *p, size_t len, struct audit_cm ret[AUDIT_COMMITS_MAX], size_t *ret_n);

/* Values as a payload holds them: 2 bytes tag, 4 bytes length, bytes; ascending.  False: not of that form. */
struct audit_kept { unsigned ctag; const uint8_t *p; size_t len; };
bool audit_kept_read(const uint8_t *p, size_t len, struct audit_kept ret[AUDIT_COMMITS_MAX], size_t *ret_n);

/* The payload of one record, encrypted: ret has len + 16 bytes (AEAD_TAG). */
void audit_payload_seal(const uint8_t ekey[32], int64_t key_id, const uint8_t salt[AUDIT_SALT_SIZE],
			const struct audit_at *at, const uint8_t *values, size_t len, uint8_t ret_nonce[24], uint8_t *ret);
/* ret has len - 16 bytes.  ERR_CORRUPT: not what was sealed there. */
int audit_payload_open(const uint8_t ekey[32], int64_t key_id, const uint8_t salt[AUDIT_SALT_SIZE],
		       const struct audit_at *at, const uint8_t nonce[24], const uint8_t *ct, size_t len, uint8_t *ret) MUST_CHECK;

/* The clear name behind a pseudonym, encrypted in its row; kind: enum audit_pseudonym. */
void audit_pseudonym_seal(const uint8_t ekey[32], int64_t key_id, int kind, const char *origin, const char *name,
		      const void *value, size_t len, uint8_t ret_nonce[24], uint8_t *ret);
int audit_pseudonym_open(const uint8_t ekey[32], int64_t key_id, int kind, const char *origin, const char *name,
		     const uint8_t nonce[24], const uint8_t *ct, size_t len, uint8_t *ret) MUST_CHECK;

#endif
