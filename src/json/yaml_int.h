#ifndef SRC_JSON_YAML_INT_H
#define SRC_JSON_YAML_INT_H

/* Plain scalars by the core schema (YAML 1.2.2 10.3.2), for the reader and for the writer. */

#include "base/err.h"

#include <jansson.h>
#include <stddef.h>

/* The value that a plain scalar means: a new reference.  NULL with a sentence in *ret_why and a code in
 * *ret_code when it means something that JSON cannot hold. */
json_t *yaml_plain(const char *p, size_t len, enum err_code *ret_code, const char **ret_why);

#endif
