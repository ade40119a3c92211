#ifndef TOOLSET_TOOLSET_H
#define TOOLSET_TOOLSET_H

#include <inttypes.h>

#include "audit/rows.h"
#include "db/db.h"
#include "command/command.h"

#include "people/people.h"

/* What there is to call: tools, prompts, resources and their versions, shared schemas, secrets and grants, for other
 * rooms of commands. */

struct backend_result;
struct catalogue;
struct catalogue_refs;
struct define_item;
struct define_schema;
struct schema_report;
struct str;

command_body_fn tool_history_body;
/* Check document i; err->where is a pointer into the arguments. */
int toolset_define(const struct command_call *c, const json_t *documents, size_t i, const struct catalogue *shared,
	       struct define_item *ret, struct err *err) MUST_CHECK;

/* In a WRITER body, with a record; command_changed_tools() is the caller's.  keep_state: one that is disabled stays
 * so.  ERR_CONFLICT: it breaks callers, and the command was given --refuse-breaking. */
struct tool_stored {
	enum row_stored what;
	int64_t id, before, version;    /* before 0: it was not there */
	bool waits;                     /* for approval: what is in force is what was */
	char *breaks;                   /* what of it breaks callers, to free(), or NULL */
};
int tool_store(struct command_call *c, struct db *db, struct audit_logs *logs, const struct define_item *def,
		   bool keep_state, struct tool_stored *ret, struct err *err) MUST_CHECK;
/* What tool_store() would leave as it is, by its full name and digest: 1 with *ret, else 0. */
int tool_is_same(struct db *db, const char *name, const uint8_t digest[32], struct tool_stored *ret,
		 struct err *err) MUST_CHECK;
int tool_change_state(struct command_call *c, struct db *db, struct audit_logs *logs, const char *name, int state,
			  int64_t *ret_id, struct err *err) MUST_CHECK;

/* May this tool be enabled?  ERR_DENIED: its risk is prohibited (OP-1002). */
int tool_check_allowed(struct db *db, int64_t id, const char *name, struct err *err) MUST_CHECK;

command_body_fn tool_diff_body, tool_revert_body;
/* The member `name`: an array of {sign, where, from, to}, and of {sign "!", where, breaks} for what of a definition
 * breaks callers; returns how many of these. */
size_t put_changes(struct reply *o, const char *name, const json_t *a, const json_t *b);

command_check_fn tool_test_check;
command_body_fn tool_test_body;
void tool_test_cancel(struct command_call *c, bool stopped);

const struct catalogue *schema_shared(const struct command_call *c);   /* the shared schemas; NULL without a store */
/* Schemas of documents, checked, and the catalogue as it would be with them. */
struct schema_set {
	struct define_schema *def; size_t count;
	size_t *document;               /* of each */
	struct catalogue *shared;
};
/* all: every document is one; else those that say so.  shared: those in force, borrowed for the set's life.
 * schema_set_fini() also after a failure. */
int schema_set_define(const struct catalogue *shared, const json_t *documents, bool all, struct schema_set *ret,
		       struct err *err) MUST_CHECK;
void schema_set_fini(struct schema_set *set);
bool is_schema(const json_t *doc);          /* kind schema, or no kind and plainly a JSON Schema */
/* In a WRITER body.  ret: set->count of them. */
int schema_set_store(struct command_call *c, struct db *db, struct audit_logs *logs, const struct schema_set *set,
		      enum row_stored *ret, struct err *err) MUST_CHECK;
int schema_set_remove(struct command_call *c, struct db *db, struct audit_logs *logs, const char *const *uri, size_t n,
		       struct err *err) MUST_CHECK;
/* Note what a stored version refers to.  ERR_CONFLICT when that is not there as it was checked. */
int schema_link_tool(struct db *db, int64_t version_id, const struct catalogue_refs *refs, struct err *err) MUST_CHECK;

/* Append the names of secrets that a definition's handler names and nobody has set: "a, b". */
int secrets_missing(struct db *db, const char *definition, struct str *ret, struct err *err) MUST_CHECK;

/* Put "/documents/N" in front of a place in a document, and its member in front of the message. */
void err_at_document(struct err *err, size_t i);

/* --- versions that wait */

/* New versions of definitions that wait for a second administrator (SEC S-740): tool pending, approve, reject,
 * drift. */

/* Do they have to?  In force for all kinds, by the records; in bodies on the writer's thread. */
int versions_wait(const struct command_call *c, struct db *db, bool *ret, struct err *err) MUST_CHECK;

struct pending_row {
	int64_t version, created_us;
	int state;                      /* of the tool, once it is approved */
	char actor[ACTOR_SIZE];       /* who made it: somebody else has to approve */
	uint8_t digest[32];
};
/* Of tool add and apply, with command/rows.h. */
#define REFUSE_BREAKING FLAG("refuse-breaking", \
	"Store nothing when a new version would break callers of the one in force; see tool diff.")
/* Of the rows `diff`, with command/rows.h. */
#define DIFF_DETAIL \
	"Without versions: what waits for approval against what is in force, if something waits; a first version is new " \
	"as a " \
	"whole.  Values are shown whole.  In a long text that changed, [-words-] went and {+words+} came; \\n is where a " \
	"line ends.  \\u{N}, in JSON \\uNNNN, is a character that is not seen, or that looks like another one: a letter of " \
	"another alphabet within a word, a blank that is none.  \\\\ is a backslash, and one stands before what would " \
	"read as " \
	"a mark.  Lines with ! name what breaks callers: an argument more that is required, a type, bound or value " \
	"that is " \
	"no longer accepted; of results, what may come and could not before.  On a terminal more than a " \
	"screen comes in pages; exit status 5 when not all of them were looked at."
#define DIFF_VERSIONS \
	VERSION_MAYBE("from", "The older version; default: the one in force, or else the one before."), \
	VERSION_MAYBE("to", "The newer version; default: the one that waits, or else the one in force.")
/* Of the rows about one tool that a tenant's auditor may ask for, too. */
#define TOOL_OF_TENANT \
	OPT("tenant", "TENANT", ARG_TEXT, COMPLETE_TENANT, "Only if it is granted to this tenant.")
/* The definition that a command names, removed ones as well where `removed` says so; with a tenant as
 * tool_row_granted(). */
int tool_asked(const struct command_call *c, struct db *db, bool removed, struct tool_row *ret,
	       struct err *err) MUST_CHECK;
/* Whether the row `id` of this version is what its record says, before it is shown or used; *ret_taken_us as of
 * audit_row_check().  ERR_CORRUPT: it is not. */
static inline int version_check(struct db *db, const struct tool_row *tool, int64_t version, int64_t id,
				uint64_t *ret_taken_us, struct err *err)
{
	struct err why;
	int rc = audit_row_check(db, AUDIT_ROW_VERSION, id, ret_taken_us, &why);

	if (rc < 0 && rc != ERR_CORRUPT && err)
		*err = why;
	if (rc != ERR_CORRUPT)
		return rc;
	(void)err_set(err, ERR_CORRUPT, "", "the version %" PRId64 " of %s %s is not what its record says", version,
		      tool_noun(tool->name), tool_bare_name(tool->name));
	err_hint(err, "toolcrib-verify STORE says more");
	return ERR_CORRUPT;
}
/* What of the definition `now` breaks those who rely on a stored version, in a sentence to free(), or NULL. */
int version_breaks(struct db *db, const struct tool_row *tool, int64_t version, const char *now, char **ret,
		   struct err *err) MUST_CHECK;
/* What waits of this tool: 1, or 0 for nothing. */
int pending_row_find(struct db *db, int64_t tool_id, struct pending_row *ret, struct err *err) MUST_CHECK;
/* This version waits from now on, in the place of another; with its record. */
int pending_put(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tool_row *tool,
		    const struct pending_row *p, struct err *err) MUST_CHECK;
int pending_drop(struct db *db, int64_t tool_id, struct err *err) MUST_CHECK;

/* tool_row.c: another version and state, unless somebody was faster (ERR_CONFLICT). */
int tool_set_version(struct db *db, const struct tool_row *tool, int64_t version, int state,
		     struct err *err) MUST_CHECK;
/* diff.c: a stored version, by the rules of today. */
struct define_item;
/* level.c, in a WRITER body: version `after` of a tool, which is stored, is to take the place of `before` (0: of
 * none). Asks for a second administrator when its own level comes to lie below that of the server or of any tenant
 * (AUDIT A-909). */
int level_check_version(struct command_call *c, struct db *db, const struct tool_row *tool, int64_t before,
			int64_t after, struct err *err) MUST_CHECK;

/* --- levels, for documents */

struct level_of { char tenant[64], tool[80], level[24]; };      /* tool "": all; level "default": the one above says */
int level_check(const char *level, struct err *err) MUST_CHECK;         /* but "default" */
/* In a WRITER body, with a record; command_changed_people() is the caller's.  1: it was another, *ret_before, NULL =
 * none; 0: it is so. */
int level_store(struct command_call *c, struct db *db, struct audit_logs *logs, const struct level_of *l,
		const char **ret_before, int64_t *ret_tenant_id, struct err *err) MUST_CHECK;
typedef int level_each_fn(void *arg, const struct level_of *l, struct err *err);
int level_each(struct db *db, const struct tenant_row *t, level_each_fn *fn, void *arg, struct err *err) MUST_CHECK;

/* --- grants */

struct grant_row;
/* Loop: check a document, make the row that it describes; free(), also after an error. */
int grant_read(const json_t *doc, char ret_tenant[64], struct grant_row **ret, struct err *err) MUST_CHECK;
json_t *grant_document(const char *tenant, const struct grant_row *g);
const char *grant_tool(const struct grant_row *g);              /* the name or pattern */
/* Those of a tenant, by name; fn may drop them.  Ends at the first error. */
typedef int grant_each_fn(void *arg, const struct grant_row *g, struct err *err);
int grant_each(struct db *db, int64_t tenant_id, grant_each_fn *fn, void *arg, struct err *err) MUST_CHECK;
/* In a WRITER body, with a record; command_changed_tenant() is the caller's.  ret_before: with ADM_CHANGED the document
 * of what it was, else NULL. */
int grant_store(struct command_call *c, struct db *db, struct audit_logs *logs, const struct tenant_row *t,
		struct grant_row *want, json_t **ret_before, enum row_stored *ret, struct err *err) MUST_CHECK;
int grant_drop(struct command_call *c, struct db *db, struct audit_logs *logs, int64_t tenant_id,
	       const struct grant_row *g, struct err *err) MUST_CHECK;

/* Members of documents that tenants have as well: a rate, and the member `limits` with at most so many calls at
 * once. */
int document_rate(const json_t *limits, const char *name, struct text_rate *ret, struct err *err) MUST_CHECK;
int document_limits(const json_t *limits, int64_t max, int64_t *ret_concurrency, struct text_rate *ret_rate,
		    struct err *err) MUST_CHECK;
void document_put_rate(json_t *limits, const char *name, struct text_rate rate);        /* count 0: nothing */
/* rc, which comes from a check that names an argument: here it is a member. */
int document_member(struct err *err, int rc) MUST_CHECK;

/* Its tables of commands, for app/commands.c. */
extern const struct command tool_commands[], version_commands[], test_commands[], pending_commands[],
	schema_commands[], hosted_commands[], secret_commands[], grant_commands[], who_commands[], import_commands[],
	call_commands[],
	versions_policy_commands[], level_commands[], task_commands[], pdp_commands[];

#endif
