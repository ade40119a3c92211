#ifndef TENANT_ARG_RULE_H
#define TENANT_ARG_RULE_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"
#include "base/text.h"

/*
 * What the arguments of a call must be for one key (SEC S-314).  A rule is a line:
 *
 *   GLOB POINTER equals JSON             the value at the JSON pointer (RFC 6901) is this one
 *   GLOB POINTER one-of [JSON, …]        it is one of these
 *   GLOB POINTER prefix "text"           it is a text that begins so
 *   GLOB POINTER range [LEAST, MOST]     it is a number, and none of these two is passed; null = no such end
 *
 * GLOB is matched with the name of the tool as the tenant sees it.  All rules that match a tool must hold.  A value
 * that is not there breaks its rule.
 */

#define ARG_RULES_MAX 32                /* of one key */
#define ARG_RULE_MAX 1024               /* bytes of one rule */

struct arg_rules;                       /* immutable, counted */

/* Rules with newlines between them; none: *ret is NULL.  Any thread.  ERR_INVALID, ERR_LIMIT: err->where is
 * "arg-rule". */
int arg_rules_parse(const char *text, size_t len, struct arg_rules **ret, struct err *err) MUST_CHECK;
void arg_rules_unref(struct arg_rules **r);
void arg_rules_print(const struct arg_rules *r, struct str *out);        /* for arg_rules_parse(); NULL: nothing */
/* May the tool be called with these arguments (NULL = none)?  ERR_DENIED: err->where is the pointer; what would be
 * allowed is not told.  rules NULL: anything. */
int arg_rules_check(const struct arg_rules *rules, const char *tool, const json_t *args, struct err *err) MUST_CHECK;

#endif
