#ifndef CONF_INT_H
#define CONF_INT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "json/json.h"

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
#define CONF_SINKS "sinks"
#define CONF_ALERTS "alerts"
#define CONF_PDPS "pdp"

/* The list `listeners` of a document; err->where is a JSON pointer into the document. */
int conf_list_read(const json_t *list, struct conf *c, struct err *err) MUST_CHECK;
/* What a server without a list does: HTTP on loopback. */
void conf_list_default(struct conf *c);
bool conf_list_equal(const struct conf *a, const struct conf *b);       /* but for what stands under tls */
void conf_list_take_tls(struct conf *c, struct conf *next);             /* of equal lists */
void conf_list_free(struct conf *c);
void conf_list_sample(struct str *out);
/* The list `oauth.issuers`, and whether it belongs together with the listeners. */
int conf_oauth_read(const json_t *list, struct conf *c, struct err *err) MUST_CHECK;
int conf_oauth_check(const struct conf *c, struct err *err) MUST_CHECK;
void conf_oauth_free(struct conf *c);
void conf_oauth_sample(struct str *out);
/* The list `roles`. */
int conf_roles_read(const json_t *list, struct conf *c, struct err *err) MUST_CHECK;
void conf_roles_take(struct conf *c, struct conf *next);                 /* swaps them */
void conf_roles_free(struct conf *c);
void conf_roles_join(struct conf *c);           /* when the listeners are read as well */
void conf_roles_sample(struct str *out);
/* Members of entries.  One of a list of words, its place; texts, each as is_one() has it, else the entry is `what`; a
 * yes or no; an absolute path. */
struct conf_texts { const char *name; size_t max; bool (*is_one)(const char *text, size_t len); const char *what; };
int conf_read_word(const json_t *obj, const char *at, const char *name, const char *const *words, size_t n,
		   enum jx_need need, unsigned *ret, struct err *err) MUST_CHECK;
int conf_read_texts(const json_t *obj, const char *at, const struct conf_texts *of, char ***ret, size_t *ret_n,
		    struct err *err) MUST_CHECK;
int conf_read_yes(const json_t *obj, const char *at, const char *name, bool *ret, struct err *err) MUST_CHECK;
int conf_read_path(const json_t *obj, const char *at, const char *name, enum jx_need need, char **ret,
		   struct err *err) MUST_CHECK;
/* For records, lists, log: what a URL has behind its host may be a token, a digest of the whole is none. */
void conf_hide_url(json_t *obj, const char *url);
/* The list `alerts`. */
int conf_alerts_read(const json_t *list, struct conf *c, struct err *err) MUST_CHECK;
void conf_alerts_free(struct conf *c);
void conf_alerts_sample(struct str *out);
/* The list `pdp`. */
int conf_pdps_read(const json_t *list, struct conf *c, struct err *err) MUST_CHECK;
void conf_pdps_free(struct conf *c);
void conf_pdps_sample(struct str *out);
/* The list `sinks`. */
int conf_sinks_read(const json_t *list, struct conf *c, struct err *err) MUST_CHECK;
void conf_sinks_free(struct conf *c);
void conf_sinks_sample(struct str *out);
/* Are the doors for commands from elsewhere, and for metrics, whole? */
int conf_admin_check(const struct conf *c, struct err *err) MUST_CHECK;
int conf_metrics_check(const struct conf *c, struct err *err) MUST_CHECK;
/* Of a listener's address that has been accepted. */
bool conf_is_loopback(const char *address);

#endif
