#ifndef CONF_INT_H
#define CONF_INT_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct conf;
struct str;

/* ERR_INVALID with where = the pointer at/name. */
int conf_err(struct err *err, const char *at, const char *name, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* The list `listeners` of a document; err->where is a JSON pointer into the document. */
int conf_list_read(const json_t *list, struct conf *c, struct err *err) MUST_CHECK;
/* What a server without a list does: HTTP on loopback. */
void conf_list_default(struct conf *c);
bool conf_list_equal(const struct conf *a, const struct conf *b);
void conf_list_free(struct conf *c);
void conf_list_sample(struct str *out);

#endif
