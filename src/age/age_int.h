#ifndef AGE_INT_H
#define AGE_INT_H

#include "age/age.h"

#define AGE_FILE_KEY 16

/* The header that wraps this key for these. */
void age_header_make(const struct age_recipient *to, size_t n, const uint8_t key[AGE_FILE_KEY], struct str *ret);
/* What the stanzas wrap for one of the identities, and whether the MAC is by it.  ERR_DENIED, ERR_CORRUPT. */
int age_header_open(const struct age_header *h, const char *text, const struct age_identity *ids, size_t n,
		    uint8_t ret[AGE_FILE_KEY], struct err *err) MUST_CHECK;

#endif
