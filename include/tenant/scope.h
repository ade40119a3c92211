#ifndef TENANT_SCOPE_H
#define TENANT_SCOPE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/text.h"

/*
 * What a credential may do (SEC S-314): a set of words, none of which implies another.
 *
 *   tools:list                   prompts:list               resources:list
 *   tools:call:GLOB              prompts:get:GLOB           resources:read:GLOB
 *   audit:read:self              audit:read:tenant          audit:read:payload
 *   admin:GLOB                   the words of a command with a dot between them: admin:key.list, admin:tool.*
 *
 * A GLOB ('*', '?') is matched with the name that the tenant sees, without its kind; for resources that is the name,
 * not the URI.  A word that ends before its GLOB means all: tools:call is tools:call:*, and admin is admin:*.  A
 * completion belongs to what it completes; a subscription is a read.
 *
 * No set at all (NULL) stands for what a principal may without a key of limited scope: all six rights of MCP for
 * whatever the grants of its tenant show, nothing of audit and admin.  An empty set has no right.
 */

struct scopes;                          /* immutable, counted */

/* The rights, as bits: a method or command may be open to whoever has one of several. */
enum scope_right {
	SCOPE_ANYONE = 1 << 0,          /* whoever has a valid credential; no word */
	SCOPE_TOOLS_LIST = 1 << 1,
	SCOPE_TOOLS_CALL = 1 << 2,
	SCOPE_PROMPTS_LIST = 1 << 3,
	SCOPE_PROMPTS_GET = 1 << 4,
	SCOPE_RESOURCES_LIST = 1 << 5,
	SCOPE_RESOURCES_READ = 1 << 6,
	SCOPE_AUDIT_SELF = 1 << 7,
	SCOPE_AUDIT_TENANT = 1 << 8,
	SCOPE_AUDIT_PAYLOAD = 1 << 9,
	SCOPE_ADMIN = 1 << 10,
};
#define SCOPE_SERVED (SCOPE_ANYONE | SCOPE_TOOLS_LIST | SCOPE_TOOLS_CALL | SCOPE_PROMPTS_LIST | SCOPE_PROMPTS_GET | \
		      SCOPE_RESOURCES_LIST | SCOPE_RESOURCES_READ)

#define SCOPES_MAX 64                   /* words of a set */
#define SCOPE_GLOB_MAX 80               /* bytes of a GLOB */
#define SCOPE_NEED_SIZE 160             /* of scope_need(), with all rights */

/* Words with blanks between them; the same word twice counts once.  Any thread.  ERR_INVALID, ERR_LIMIT: err->where is
 * "scope", the text names the word. */
int scopes_parse(const char *text, size_t len, struct scopes **ret, struct err *err) MUST_CHECK;
/* One thread at a time: a set is made on any, and belongs to the loop from then on. */
struct scopes *scopes_ref(struct scopes *s);            /* NULL stays NULL */
void scopes_unref(struct scopes **s);
/* Its words in their long form, in the order of the rights, blanks between them; NULL: those it stands for. */
void scopes_print(const struct scopes *s, struct str *out);
/* Does it hold one of these rights, for anything at all?  This is asked before a name is known. */
bool scope_has(const struct scopes *s, unsigned rights);
/* Does it hold this one right for this name?  Rights without a GLOB take any name, NULL too. */
bool scope_allows(const struct scopes *s, enum scope_right right, const char *name);
/* Does it hold this one right for every name? */
bool scope_allows_all(const struct scopes *s, enum scope_right right);
/* The words that would give these rights, with blanks between them, for a challenge (MCP A-10). */
const char *scope_need(unsigned rights, char ret[SCOPE_NEED_SIZE]);

#endif
