#ifndef REGISTRY_INT_H
#define REGISTRY_INT_H

#include "base/crypto.h"
#include "base/map.h"
#include "base/text.h"
#include "registry/define.h"
#include "registry/registry.h"

struct arena;
struct db;
struct map;

#define DEFINE_PARAMS_MAX 32            /* x-mcp-header properties of one tool */

/* A JSON pointer that grows and shrinks while a tree is walked. */
size_t pointer_push(struct str *at, const char *token);
void pointer_pop(struct str *at, size_t len);

/* What the documents of a kind are made of. */
struct define_kind {
	enum reg_kind kind;
	const char *const *listed;      /* what lists show, in the order of the wire; NULL-terminated */
	const char *const *more;        /* the blocks beside it; NULL-terminated */
	int (*check)(const json_t *doc, struct err *err);       /* what is particular to its listed part */
};
/* The listed part: names, texts, annotations, icons, _meta. */
int define_check_listed(const json_t *doc, const struct define_kind *kind, struct err *err) MUST_CHECK;
int define_check_tool(const json_t *doc, struct err *err) MUST_CHECK;
int define_check_words(const json_t *obj, const char *at, struct err *err) MUST_CHECK;  /* title, description */
/* define_hosted.c */
int define_check_prompt(const json_t *doc, struct err *err) MUST_CHECK;
int define_check_resource(const json_t *doc, struct err *err) MUST_CHECK;
int define_check_template(const json_t *doc, struct err *err) MUST_CHECK;
int define_prompt_schema(const json_t *doc, struct schema **ret, struct err *err) MUST_CHECK;
int define_read_complete(const json_t *doc, enum reg_kind kind, reg_bind_fn *bind, struct arena *mem,
			 struct reg_compiled *ret, struct err *err) MUST_CHECK;
int define_check_texts(const json_t *v, struct err *err) MUST_CHECK;    /* titles and descriptions anywhere below */
/* limits, audit, needs. */
int define_read_limits(const json_t *doc, struct reg_compiled *ret, struct err *err) MUST_CHECK;
int define_read_needs(const json_t *doc, struct reg_compiled *ret, struct err *err) MUST_CHECK;
int define_read_level(const json_t *doc, int *ret, struct err *err) MUST_CHECK;        /* -1: the definition says nothing */
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
	char data[];                    /* name, text, URI */
};
struct reg_node *reg_node_new(const struct reg_def *def);       /* copies name, text and URI; refs 1 */
void reg_node_unref(struct reg_node **node);

/* Which definition a line means, until reg_apply() has found it. */
struct reg_line_ref { int64_t tool_id, version_id; };

/* A snapshot with what is not shown: made by a change as plain memory, then the loop's. */
struct reg_snap {
	struct reg_snapshot pub;
	struct reg_tool *lines;         /* all that pub.list shows, kind after kind */
	size_t nlines;
	struct reg_line_ref *wanted;    /* one of each line; NULL once resolved */
	const struct reg_tool **by_uri; /* pub.by_uri */
	char *names;
	struct list pages;              /* struct page.mine */
};
struct reg_snap *reg_snap_new(int64_t tenant_id, size_t lines, size_t name_bytes);
void reg_snap_free(struct reg_snap **snap);     /* its pages are gone already */

/* What one tenant sees, as rows (visible.c). */
struct visible_row;
struct visible {
	struct visible_row *row; size_t n, cap;
	struct str uris;
};
int visible_load(struct visible *v, struct db *db, int64_t tenant_id, struct err *err) MUST_CHECK;
/* One row of each definition in the order of the lists; ERR_CONFLICT, ERR_LIMIT.  starting: conflicts are logged. */
int visible_settle(struct visible *v, const char *tenant, bool starting, struct err *err) MUST_CHECK;
void visible_digest(const struct visible *v, enum reg_family family, uint8_t ret[DIGEST_SIZE]);
struct reg_snap *visible_snap(const struct visible *v, int64_t tenant_id, const int64_t generation[REG_FAMILIES]);
void visible_fini(struct visible *v);
int reg_kind_of(int64_t stored, enum reg_kind *ret, struct err *err) MUST_CHECK;        /* tool_version.kind */

/* uri_template.c.  A resource's URI, or a URI template (RFC 6570) that can be read backwards. */
int uri_check(const char *uri, const char *at, bool template, struct err *err) MUST_CHECK;
size_t uri_template_literals(const char *pattern);      /* characters outside of expressions */
bool uri_template_has(const char *pattern, const char *variable);

/* A line of a list as this revision knows it (page_line.c).  False: the stored text is no JSON. */
bool page_put_line(struct str *out, const struct reg_tool *line, enum rev rev, const struct catalogue *shared);

struct reg_change_tenant { struct reg_snap *snap; bool differs[REG_FAMILIES]; };
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
