#ifndef ASSENT_RULE_H
#define ASSENT_RULE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The block `approve` of a definition or of a grant (HA-01): who agrees to a call, when that is needed, for how long,
 * how many.  Where both ask, both are met (decision 0131).  Immutable; any thread, but assent_asks(): one at a time. */

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
	char *text;                     /* canonical JSON of the block; of a request assent_asks_text() */
	/* Of a request: what the other asks beside this, and the text of the block of its grant; or NULL.  Its times are the
	 * shorter ones. */
	struct assent_rule *also;
	char *grant;
};
/* at: where the block stands, for err->where. */
int assent_rule_read(const json_t *block, const char *at, struct assent_rule **ret, struct err *err) MUST_CHECK;
/* Of a grant's row, or of a request. */
int assent_rule_parse(const char *text, struct assent_rule **ret, struct err *err) MUST_CHECK;
void assent_rule_free(struct assent_rule **rule);
/* "finance or controller-1"; with more than one to agree "2 of finance"; of both "finance, and 2 of legal". */
void assent_rule_whom(const struct assent_rule *rule, struct str *out);
/* The most that one of them asks for. */
unsigned assent_rule_count(const struct assent_rule *rule);

/* Which of the rules of a tool and of its grant, each perhaps NULL, ask of a call?  false: none.  What cannot be
 * evaluated asks (HA-02). */
struct assent_asks { const struct assent_rule *tool, *grant; bool by_tool, by_grant; };
bool assent_asks(const struct assent_rule *tool, const struct assent_rule *grant, const json_t *args,
		 struct assent_asks *ret);
/* What the request says of it: the tool's block as it is, or with that of its grant both and who of them asks, so that
 * a change of either is another request. */
void assent_asks_text(const struct assent_asks *asks, struct str *out);
/* Until when it may wait and be used: the shorter of those that ask. */
uint64_t assent_asks_ms(const struct assent_asks *asks);

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
#define ASSENT_OF_RULE 1u
#define ASSENT_OF_ALSO 2u
unsigned assent_decides(const struct conf_role *roles, size_t n, const struct assent_rule *rule,
			const struct assent_caller *caller, const char *person);        /* of which of both; 0: of none */
bool assent_may_decide(const struct conf_role *roles, size_t n, const struct assent_rule *rule,
		       const struct assent_caller *caller, const char *person);

#endif
