#ifndef SRC_SCHEMA_ECMA_INT_H
#define SRC_SCHEMA_ECMA_INT_H

#include <stdbool.h>
#include <stddef.h>

#define ECMA_DOT "[^\\n\\r\\x{2028}\\x{2029}]" /* what . is translated to */
#define ECMA_PROPERTY_MAX 48    /* bytes of a property's name */

/* Translate what stands in \p{...} to PCRE2's name for it; *negated is turned over where PCRE2 has only
 * the opposite.  False when ECMA-262 does not know the property. */
bool ecma_property(const char *p, size_t len, char ret[ECMA_PROPERTY_MAX], bool *negated);

#endif
