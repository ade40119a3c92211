#ifndef SRC_SCHEMA_URI_INT_H
#define SRC_SCHEMA_URI_INT_H

#include <stdbool.h>
#include <stddef.h>

/* The reference resolved against the base (RFC 3986 5.2), without its fragment; free() it.  Both may be
 * relative: a document without an identifier has the base "". */
char *uri_resolve(const char *base, const char *reference);
/* Does it begin with a scheme (RFC 3986 3.1)? */
bool uri_is_absolute(const char *uri);

#endif
