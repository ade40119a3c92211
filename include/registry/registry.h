#ifndef REGISTRY_REGISTRY_H
#define REGISTRY_REGISTRY_H

#include "base/err.h"
#include "base/text.h"
#include "proto/rev.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What each tenant may call.  Definitions are immutable and shared by the tenants that see them; a
 * snapshot is one tenant's sorted list of names -> definitions; published by one pointer, freed by its
 * last holder.  Loop thread, except the reg_change_* builders, which run where the rows are (writer thread
 * inside the change's transaction, or start-up) and make plain memory.
 *
 * Rows are checked when they are written (define.h), so start-up only reads them; a definition is parsed and
 * compiled on its first use. */

struct arena;
struct catalogue;
struct db;
struct registry;
struct schema;
struct backend_ops;

/* From above: compile a handler block.  pure; plan in arena memory. */
typedef int reg_bind_fn(const json_t *handler, struct arena *mem, const struct backend_ops **ret_ops,
			const void **ret_plan, struct err *err);

#define REG_PAGE 100                    /* tools of one tools/list page (MCP B-18) */
#define REG_TOOLS_MAX 10000             /* visible to one tenant */

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

struct reg_compiled {                   /* made on first use; lives as long as its reg_def */
	struct schema *input, *output;                  /* output may be NULL; define_compiled_fini() frees */
	enum reg_output output_form;
	const struct backend_ops *ops;
	const void *plan;
	const struct reg_param *params; size_t nparams;
	uint32_t needs_caps;            /* CAP_ bits of proto/caps.h */
	uint32_t timeout_ms;            /* limits.timeout */
	uint32_t concurrency;           /* limits.concurrency, 0 = none */
	struct text_rate rate;          /* limits.rate, count 0 = none */
	size_t result_max;              /* limits.result, bytes */
	const char *const *redact; size_t nredact;      /* audit.redact: pointers into the arguments */
};

struct reg_def {                        /* one version of one tool */
	int64_t version_id, tool_id, version;
	const char *name;               /* the tool's own name */
	uint8_t digest[32];             /* which definition ran, for the record */
	const char *text; size_t len;   /* the definition, JSON */
};
/* Named constants of `limits` (product.md 4). */
#define REG_TIMEOUT_MIN_MS 1000
#define REG_TIMEOUT_MAX_MS 3600000
#define REG_TIMEOUT_DEFAULT_MS 30000
#define REG_CONCURRENCY_MAX 10000
#define REG_REDACT_MAX 64               /* pointers of audit.redact */
#define REG_RESULT_MAX (16u << 20)
#define REG_RESULT_DEFAULT (1u << 20)

struct reg_tool {                       /* one line of a tenant's list */
	const char *name;               /* as this tenant sees it, alias included */
	struct reg_def *def;
	int64_t grant_id;               /* for the record: rule "grant/12" */
	uint32_t concurrency;           /* lowered by the grant; 0 = as the tool says */
	struct text_rate rate;          /* likewise; count 0 = as the tool says */
};

struct reg_snapshot {
	int64_t tenant_id, generation;
	unsigned refs;                  /* loop thread only, hence not atomic */
	size_t tool_count;
	const struct reg_tool *tools;   /* sorted by name (bytes), as in tools/list */
};

struct registry *registry_new(reg_bind_fn *bind);
void registry_free(struct registry **reg);
const struct catalogue *reg_shared(const struct registry *reg);        /* the shared schemas in force */
struct reg_snapshot *reg_acquire(struct registry *reg, int64_t tenant_id);   /* +1; an empty one when unknown */
void reg_release(struct registry *reg, struct reg_snapshot **snap);
const struct reg_tool *reg_find(const struct reg_snapshot *snap, const char *name, size_t len);
/* Parse and compile on first use.  ERR_CORRUPT when a stored definition does not compile (another release
 * wrote it): the caller answers -32603 and the list skips the tool. */
int reg_compile(struct registry *reg, struct reg_def *def, const struct reg_compiled **ret, struct err *err) MUST_CHECK;
/* The text of the `tools` array of one page for a revision, made once per snapshot and revision.  after:
 * the last name of the page before ("" or NULL = first page).  *ret_last = last name of this page, or NULL when it is
 * the last page; it lives as long as the snapshot.  all = true: one page with everything (R0).  The text is
 * borrowed until the next call of reg_page() or reg_release(). */
int reg_page(struct registry *reg, struct reg_snapshot *snap, enum rev rev, bool all, const char *after,
	     const char **ret_text, size_t *ret_len, const char **ret_last, struct err *err) MUST_CHECK;

/* A change, read from the rows inside its transaction; reg_change_all() at start-up writes nothing.  Changes
 * are applied in the order of their commits: one carries only the definitions that it touches. */
struct reg_change;
int reg_change_all(struct db *db, struct reg_change **ret, struct err *err) MUST_CHECK;
/* After writing tool rows or a tenant's rows and grants: recompute the visible set of each tenant concerned, bump
 * the generation where tools/list differs, and collect the new pictures.  A suspended or removed tenant sees nothing.
 * ERR_CONFLICT when two grants show a tenant two tools under one name (where = "tenant/NAME/tool/NAME"). */
int reg_change_tools(struct db *db, const int64_t *tool_ids, size_t n, struct reg_change **ret, struct err *err) MUST_CHECK;
int reg_change_tool(struct db *db, int64_t tool_id, struct reg_change **ret, struct err *err) MUST_CHECK;
int reg_change_tenant(struct db *db, int64_t tenant_id, struct reg_change **ret, struct err *err) MUST_CHECK;
/* After writing the row of a shared schema, or removing it.  No list changes by that. */
int reg_change_schema(struct db *db, const char *uri, struct reg_change **ret, struct err *err) MUST_CHECK;
void reg_change_free(struct reg_change **c);
/* What the change means to a tenant: walk with i from 0 until false.  *ret_differs: its list changed. */
bool reg_change_tenant_at(const struct reg_change *c, size_t i, int64_t *ret_tenant_id, int64_t *ret_generation,
			  bool *ret_differs);
/* Publish on the loop; told(arg, tenant_id, generation) for each tenant whose visible set differs.  Takes c. */
typedef void reg_told_fn(void *arg, int64_t tenant_id, int64_t generation);
void reg_apply(struct registry *reg, struct reg_change **c, reg_told_fn *told, void *arg);

#endif
