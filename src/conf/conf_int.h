#ifndef CONF_INT_H
#define CONF_INT_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct conf;
struct conf_tls;
struct str;

/* ERR_INVALID with where = the pointer at/name. */
int conf_err(struct err *err, const char *at, const char *name, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* Put the member's name in front of a sentence about it: a line and a column are only its place.  Returns the code. */
int conf_named(struct err *err);

/* The lists of a document, by key; what they hold is in struct conf, and as it was written in its member lists. */
#define CONF_LISTENERS "listeners"
#define CONF_ROLES "roles"
#define CONF_ISSUERS "oauth.issuers"

/* The list `listeners` of a document; err->where is a JSON pointer into the document. */
int conf_list_read(const json_t *list, struct conf *c, struct err *err) MUST_CHECK;
/* What a server without a list does: HTTP on loopback. */
void conf_list_default(struct conf *c);
bool conf_list_equal(const struct conf *a, const struct conf *b);       /* but for what stands under tls */
void conf_list_take_tls(struct conf *c, struct conf *next);             /* of equal lists */
void conf_list_free(struct conf *c);
void conf_list_sample(struct str *out);
void conf_roles_take(struct conf *c, struct conf *next);                 /* swaps them */
/* Are the doors for commands from elsewhere, and for metrics, whole? */
int conf_admin_check(const struct conf *c, struct err *err) MUST_CHECK;
int conf_metrics_check(const struct conf *c, struct err *err) MUST_CHECK;
/* Of a listener's address that has been accepted. */
bool conf_is_loopback(const char *address);

#endif
