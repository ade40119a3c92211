#ifndef REGISTRY_REGISTRY_H
#define REGISTRY_REGISTRY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/text.h"
#include "proto/rev.h"

/* What each tenant may call, get and read.  Definitions are immutable and shared by the tenants that see them; a
 * snapshot is one tenant's sorted lists of names -> definitions; published by one pointer, freed by its
 * last holder.  Loop thread, except the reg_change_* builders, which run where the rows are (writer thread
 * inside the change's transaction, or start-up) and make plain memory.
 *
 * Rows are checked when they are written (define.h), so start-up only reads them; a definition is parsed and
 * compiled on its first use. */

struct arena;
struct assent_rule;
struct catalogue;
struct db;
struct registry;
struct schema;
struct scopes;
struct backend_ops;

/* From above: compile a handler block.  pure; plan in arena memory. */
typedef int reg_bind_fn(const json_t *handler, struct arena *mem, const struct backend_ops **ret_ops,
			const void **ret_plan, struct err *err);

/* What a tenant can be shown.  The full name of anything but a tool says its kind: prompt:greet, resource:readme (a
 * template as well); that of a tool is its bare name, which has no colon. */
enum reg_kind { REG_TOOL, REG_PROMPT, REG_RESOURCE, REG_TEMPLATE, REG_KINDS };
/* What is announced together. */
enum reg_family { REG_TOOLS, REG_PROMPTS, REG_RESOURCES, REG_FAMILIES };
struct reg_kind_row {
	const char *word;               /* of a document's `kind` */
	const char *noun;               /* for people: "resource template" */
	const char *prefix;             /* of the full name */
	enum reg_family family;
	unsigned right;                 /* enum scope_right: to call, get or read one */
};
extern const struct reg_kind_row reg_kinds[REG_KINDS];

#define REG_NAME_MAX 64                 /* characters of a name; with its prefix: */
#define REG_FULL_NAME_SIZE 80
#define REG_URI_MAX 2048                /* bytes of a URI or a URI template */
#define REG_PAGE 100                    /* lines of one page of a list (MCP B-18) */
#define REG_TOOLS_MAX 10000             /* visible to one tenant, of each kind */

#define REG_PAGES_BYTES (64u << 20)     /* texts of pages kept in memory, of all tenants */

/* x-mcp-header (MCP T-41): Mcp-Param-<header>, and where its value stands in the arguments. */
enum reg_param_type { REG_PARAM_STRING, REG_PARAM_INTEGER, REG_PARAM_BOOLEAN };
struct reg_param { const char *header, *pointer; enum reg_param_type type; };

/* How an output schema is shown to R3 and R4, whose schemas and values must be objects (MCP B-16). */
enum reg_output {
	REG_OUTPUT_NONE,        /* there is none */
	REG_OUTPUT_OBJECT,      /* as it is */
	REG_OUTPUT_WRAPPED,     /* {result: S}; the value is shown as {result: value} */
	REG_OUTPUT_HIDDEN,      /* it has $ref: neither schema nor structuredContent is shown */
};

struct reg_completion {                 /* of one argument of a prompt, or variable of a template */
	const char *argument;
	const char *const *values; size_t nvalues;
	const struct backend_ops *ops; const void *plan;        /* ops NULL: values */
};

/* `task`: may a call outlast its request (TK-20)? */
enum reg_task_support { REG_TASK_FORBIDDEN, REG_TASK_OPTIONAL, REG_TASK_REQUIRED };
struct reg_task {
	enum reg_task_support support;
	uint64_t after_ms;              /* a run that is longer becomes one; UINT64_MAX: none does by that */
	uint64_t ttl_ms, poll_ms;
	uint64_t timeout_ms;            /* of a run as a task */
	bool asks_inside;               /* its first question makes it one; else that is asked of its call */
	uint64_t grace_ms;              /* which a first request has to ask, however soon it would be one */
	bool drive;                     /* what goes on elsewhere is waited for, for who knows no tasks (TK-64) */
	bool rerun;                     /* a run that a crash or a stop cuts off is made again (TK-35) */
};

struct reg_compiled {                   /* made on first use; lives as long as its reg_def */
	/* input is NULL for resources and templates, output may be NULL; define_compiled_fini() frees. */
	struct schema *input, *output;
	enum reg_output output_form;
	const struct backend_ops *ops;
	const void *plan;
	const struct reg_param *params; size_t nparams;
	uint32_t needs_caps;            /* CAP_ bits of proto/caps.h */
	uint32_t timeout_ms;            /* limits.timeout */
	struct reg_task task;
	struct assent_rule *approve;    /* a person has to agree (assent/rule.h); or NULL */
	uint32_t concurrency;           /* limits.concurrency, 0 = none */
	struct text_rate rate;          /* limits.rate, count 0 = none */
	size_t result_max;              /* limits.result, bytes */
	const char *const *redact; size_t nredact;      /* audit.redact: pointers into the arguments */
	/* policy.arguments: what of them a policy decision point may be told, where its arguments are chosen */
	const char *const *policy; size_t npolicy;
	int audit_level;                /* audit.level, enum audit_level; -1 = as the tenant or the server says */
	const char *mime;               /* mimeType of a resource or template, or NULL */
	const char *page;               /* its _meta.ui, JSON, for each of its contents (UI-07), or NULL */
	const struct reg_completion *completions; size_t ncompletions;
};

struct reg_def {                        /* one version of one tool, prompt, resource or template */
	int64_t version_id, tool_id, version;
	enum reg_kind kind;
	const char *name;               /* its own full name */
	const char *uri;                /* of a resource; a template's URI template; else NULL */
	bool completes;                 /* it has `complete` */
	bool refers, app_only;          /* of a tool: its `_meta` may name pages; no model is to see it (UI-04) */
	const char *remote;             /* of an upstream's: its name there for apps, or its ui: URI there; else NULL */
	uint8_t digest[32];             /* which definition ran, for the record */
	const char *text; size_t len;   /* the definition, JSON */
};
/* Named constants of `limits` (product.md 4). */
#define REG_TIMEOUT_MIN_MS 1000
#define REG_TIMEOUT_MAX_MS 3600000
#define REG_TIMEOUT_DEFAULT_MS 30000
#define REG_TASK_AFTER_MS 2000          /* of optional ones; required ones are tasks at once */
#define REG_TASK_ASK_GRACE_MS 1000      /* TK-21 */
#define REG_TASK_TTL_MIN_MS 60000
#define REG_TASK_TTL_MAX_MS UINT64_C(2592000000)
#define REG_TASK_TTL_MS 86400000
#define REG_TASK_POLL_MIN_MS 100
#define REG_TASK_POLL_MAX_MS 300000
#define REG_TASK_POLL_MS 1000
#define REG_TASK_TIMEOUT_MAX_MS 604800000
#define REG_CONCURRENCY_MAX 10000
#define REG_REDACT_MAX 64               /* pointers of audit.redact; JX_LOCATE_MAX at most */
#define REG_RESULT_MAX (16u << 20)
#define REG_RESULT_DEFAULT (1u << 20)

struct reg_tool {                       /* one line of a tenant's list, of any kind */
	const char *name;               /* as this tenant sees it, alias included */
	const char *full_name;          /* with the prefix of its kind, for records */
	struct reg_def *def;
	int64_t grant_id;               /* for the record: rule "grant/12" */
	uint32_t concurrency;           /* lowered by the grant; 0 = as the tool says */
	struct text_rate rate;          /* likewise; count 0 = as the tool says */
	const struct assent_rule *approve;      /* of the grant, beside that of the tool; or NULL */
};

struct reg_list { size_t count; const struct reg_tool *items; };        /* sorted by name (bytes), as it is listed */
struct reg_snapshot {
	int64_t tenant_id, generation[REG_FAMILIES];
	unsigned refs;                  /* loop thread only, hence not atomic */
	struct reg_list list[REG_KINDS];
	const struct reg_tool *const *by_uri;   /* the resources, sorted by URI */
	const struct reg_tool *const *by_remote; size_t nremote;        /* by kind, and the name there */
	bool completes;                 /* one of its prompts or templates does */
	bool pages, app_only;           /* a resource or template of it is ui:; a tool of it is for apps alone */
};

struct registry *registry_new(reg_bind_fn *bind);
void registry_free(struct registry **reg);
const struct catalogue *reg_shared(const struct registry *reg);        /* the shared schemas in force */
struct reg_snapshot *reg_acquire(struct registry *reg, int64_t tenant_id);   /* +1; an empty one when unknown */
void reg_release(struct registry *reg, struct reg_snapshot **snap);
const struct reg_tool *reg_find(const struct reg_snapshot *snap, enum reg_kind kind, const char *name, size_t len);
/* The resource with this URI, else the most particular template that matches it: the one with the most literal
 * characters, the first by name.  ret_args may be NULL; else a new object with `uri` and the template's variables. */
const struct reg_tool *reg_find_uri(const struct reg_snapshot *snap, const char *uri, size_t len, json_t **ret_args);
/* UI-05: a tool or resource by what its upstream calls it, as pages that come from there do.  More than one within
 * these scopes are none, and *ret_ambiguous. */
const struct reg_tool *reg_find_remote(const struct reg_snapshot *snap, enum reg_kind kind, const char *name,
				       size_t len, const struct scopes *scopes, bool *ret_ambiguous);
const struct reg_tool *reg_find_template(const struct reg_snapshot *snap, const char *pattern, size_t len);
/* Do these scopes let their holder call, get or read it?  What they do not, is neither shown nor found. */
bool reg_in_scope(const struct reg_tool *line, const struct scopes *scopes);
/* Does a URI template (RFC 6570, levels 1 to 3) generate this URI?  ret_values: variables to texts, new reference, or
 * NULL.  A value with a "." or ".." segment, U+0000 or bytes that are no UTF-8 is no match (MCP U-05). */
bool reg_uri_match(const char *pattern, const char *uri, size_t len, json_t **ret_values);
/* Is there a resource or template with it, whoever may read it? */
bool reg_has_uri(const struct registry *reg, const char *uri);
/* Parse and compile on first use.  ERR_CORRUPT when a stored definition does not compile (another release
 * wrote it): the caller answers -32603 and the list skips the tool. */
int reg_compile(struct registry *reg, struct reg_def *def, const struct reg_compiled **ret, struct err *err) MUST_CHECK;
/* One page of a list for a revision, cut to what the scopes let their holder call (product.md 11); made once per
 * snapshot, revision and cut. */
struct reg_ask {
	enum reg_kind kind;
	enum rev rev;
	bool all;                       /* one page with everything (R0) */
	bool apps;                      /* who asks shows pages: what is for them alone is listed too (UI-04) */
	const char *after;              /* the last name of the page before; "" or NULL = first page */
	const struct scopes *scopes;
};
struct reg_page {
	const char *text; size_t len;   /* of the array; borrowed until the next call of reg_page() or reg_release() */
	const char *last;               /* its last name, or NULL when it is the last page; lives as long as the snapshot */
	size_t total;                   /* lines of all pages */
};
int reg_page(struct registry *reg, struct reg_snapshot *snap, const struct reg_ask *ask, struct reg_page *ret,
	     struct err *err) MUST_CHECK;

/* A change, read from the rows inside its transaction; reg_change_all() at start-up writes nothing.  Changes
 * are applied in the order of their commits: one carries only the definitions that it touches. */
struct reg_change;
int reg_change_all(struct db *db, struct reg_change **ret, struct err *err) MUST_CHECK;
/* After writing tool rows or a tenant's rows and grants: recompute the visible set of each tenant concerned, bump
 * the generation where a list differs, and collect the new pictures.  A suspended or removed tenant sees nothing.
 * ERR_CONFLICT when two grants show a tenant two things of a kind under one name, or two resources under one URI
 * (where = "tenant/NAME/tool/NAME"). */
int reg_change_tools(struct db *db, const int64_t *tool_ids, size_t n, struct reg_change **ret,
		     struct err *err) MUST_CHECK;
FOR_TESTS int reg_change_tool(struct db *db, int64_t tool_id, struct reg_change **ret, struct err *err) MUST_CHECK;
int reg_change_tenant(struct db *db, int64_t tenant_id, struct reg_change **ret, struct err *err) MUST_CHECK;
/* After writing the row of a shared schema, or removing it.  No list changes by that. */
int reg_change_schema(struct db *db, const char *uri, struct reg_change **ret, struct err *err) MUST_CHECK;
void reg_change_free(struct reg_change **c);
/* What a change means to a tenant.  With no list that differs, what stands behind a line may still be another
 * version. */
struct reg_news {
	int64_t tenant_id, generation[REG_FAMILIES];
	bool differs[REG_FAMILIES];     /* which lists changed */
};
/* Walk with i from 0 until false. */
FOR_TESTS bool reg_change_tenant_at(const struct reg_change *c, size_t i, struct reg_news *ret);
/* Publish on the loop; told(arg, news) for each tenant of the change, once all pictures are in place.  Takes c. */
typedef void reg_told_fn(void *arg, const struct reg_news *news);
void reg_apply(struct registry *reg, struct reg_change **c, reg_told_fn *told, void *arg);

#endif
