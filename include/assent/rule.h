#ifndef ASSENT_RULE_H
#define ASSENT_RULE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The block `approve` of a definition (HA-01): who agrees to a call, when that is needed, for how long, how many.
 * Immutable; any thread, but assent_rule_applies(): one at a time. */

struct conf_role;
struct schema;
struct str;

#define ASSENT_BY_MAX 16                /* groups and persons of a rule */
#define ASSENT_COUNT_MAX 5              /* persons that have to agree */
#define ASSENT_POINTERS_MAX 16          /* of `above`, and of `show` */
#define ASSENT_TIMEOUT_MIN_MS 60000
#define ASSENT_TIMEOUT_MAX_MS 604800000
#define ASSENT_TIMEOUT_MS 14400000
#define ASSENT_USE_MIN_MS 1000
#define ASSENT_USE_MAX_MS 86400000
#define ASSENT_USE_MS 900000
#define ASSENT_NAME_SIZE 64             /* of a person or group, with NUL */

struct assent_rule {
	struct { bool group; char name[ASSENT_NAME_SIZE]; } by[ASSENT_BY_MAX];
	size_t nby;
	unsigned count;
	struct { char *pointer; json_t *most; } above[ASSENT_POINTERS_MAX];
	size_t nabove;
	struct schema *when;            /* or NULL */
	uint64_t timeout_ms, use_ms;
	char *show[ASSENT_POINTERS_MAX];
	size_t nshow;                   /* 0: all */
	char *text;                     /* canonical JSON of the block */
};
/* at: where the block stands, for err->where. */
int assent_rule_read(const json_t *block, const char *at, struct assent_rule **ret, struct err *err) MUST_CHECK;
int assent_rule_parse(const char *text, struct assent_rule **ret, struct err *err) MUST_CHECK;
void assent_rule_free(struct assent_rule **rule);
/* Does this call need a yes?  What cannot be evaluated does (HA-02). */
bool assent_rule_applies(const struct assent_rule *rule, const json_t *args);
/* "finance or controller-1"; with more than one to agree "2 of finance". */
void assent_rule_whom(const struct assent_rule *rule, struct str *out);

/* What is agreed to (HA-02): tenant, principal, tool, definition, arguments, rule, each as it is; of a further round of
 * a call its answers as well, and of one of a task which task and round. */
struct assent_what {
	int64_t tenant_id, principal_id;
	const char *tool;               /* full name */
	const uint8_t *tdef;            /* 32 bytes */
	const json_t *args, *answers;   /* answers NULL: none */
	const char *rule;
	const char *task;               /* NULL: none */
	unsigned round;
};
void assent_digest(const struct assent_what *what, uint8_t ret[32]);

/* Does a person of the list of roles, by any of his lines, decide of this rule?  For calls of this principal of this
 * tenant: not one whose principal that is (HA-04); principal "": it may be anybody's of that tenant. */
struct assent_caller { const char *tenant, *principal; };
bool assent_may_decide(const struct conf_role *roles, size_t n, const struct assent_rule *rule,
		       const struct assent_caller *caller, const char *person);

#endif
