#ifndef REGISTRY_INT_H
#define REGISTRY_INT_H

#include "base/list.h"
#include "base/str.h"
#include "registry/define.h"
#include "registry/registry.h"

struct arena;
struct map;

#define DEFINE_PARAMS_MAX 32            /* x-mcp-header properties of one tool */

/* A JSON pointer that grows and shrinks while a tree is walked. */
size_t pointer_push(struct str *at, const char *token);
void pointer_pop(struct str *at, size_t len);

/* The part that tools/list shows: names, texts, annotations, icons, _meta. */
extern const char *const define_listed[];       /* NULL-terminated, in the order of the wire */
int define_check_listed(const json_t *doc, struct err *err) MUST_CHECK;
int define_check_texts(const json_t *v, struct err *err) MUST_CHECK;    /* titles and descriptions anywhere below */
/* limits, audit, needs. */
int define_read_limits(const json_t *doc, struct reg_compiled *ret, struct err *err) MUST_CHECK;
int define_read_needs(const json_t *doc, struct reg_compiled *ret, struct err *err) MUST_CHECK;
int define_check_audit(const json_t *doc, struct err *err) MUST_CHECK;
int define_read_redact(const json_t *doc, struct arena *mem, struct reg_compiled *ret, struct err *err) MUST_CHECK;
/* Collect x-mcp-header of a schema that compiles (MCP T-41, T-42); names and pointers go to mem. */
int define_params(const json_t *schema, struct arena *mem, const struct reg_param **ret, size_t *ret_n,
		  struct err *err) MUST_CHECK;
/* x-mcp-header cannot stand in a schema that others refer to. */
int define_no_params(const json_t *schema, struct err *err) MUST_CHECK;
void define_digest(const json_t *v, uint8_t ret[32]);   /* of the canonical text */
enum reg_output define_output_form(const json_t *schema);

/* A definition, shared: one reference of the registry while it is its tool's current one, one of each line. */
struct reg_node {
	struct reg_def pub;
	unsigned refs;
	struct reg_compiled *compiled;  /* in mem; made on first use */
	struct arena *mem;
	struct err *broken;             /* it does not compile, and why */
	char data[];                    /* name, text */
};
struct reg_node *reg_node_new(const struct reg_def *def);       /* copies name and text; refs 1 */
void reg_node_unref(struct reg_node **node);

/* Which definition a line means, until reg_apply() has found it. */
struct reg_line_ref { int64_t tool_id, version_id; };

/* A snapshot with what is not shown: made by a change as plain memory, then the loop's. */
struct reg_snap {
	struct reg_snapshot pub;
	struct reg_tool *lines;         /* pub.tools */
	struct reg_line_ref *wanted;    /* one of each line; NULL once resolved */
	char *names;
	struct list pages;              /* struct page.mine */
};
struct reg_snap *reg_snap_new(int64_t tenant_id, int64_t generation, size_t tools, size_t name_bytes);
void reg_snap_free(struct reg_snap **snap);     /* its pages are gone already */

struct reg_change_tenant { struct reg_snap *snap; bool differs; };
struct reg_change_def { int64_t tool_id; struct reg_node *node; };      /* node NULL: no longer to be seen */
struct reg_change_schema { char *uri, *text; size_t len; uint8_t digest[32]; };        /* text NULL: no longer there */
struct reg_change {
	struct reg_change_schema *schemas; size_t nschemas;
	struct reg_change_def *defs; size_t ndefs, cap_defs;
	struct reg_change_tenant *tenants; size_t ntenants, cap_tenants;
};

struct registry {
	reg_bind_fn *bind;
	struct catalogue *shared;
	struct map *current;            /* tool id -> struct reg_node */
	struct map *snaps;              /* tenant id -> struct reg_snap */
	struct list lru;                /* struct page.lru, last used first */
	size_t page_bytes;
};
void reg_pages_drop(struct registry *reg, struct reg_snap *snap);

#endif
