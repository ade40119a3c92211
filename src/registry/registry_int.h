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

/* define_listed.c.  A JSON pointer that grows and shrinks while a tree is walked. */
size_t pointer_push(struct str *at, const char *token);
void pointer_pop(struct str *at, size_t len);

/* define_task.c: the block `task` of a tool, whose limits are read. */
int define_task(const json_t *doc, struct reg_compiled *ret, struct err *err) MUST_CHECK;

/* What the documents of a kind are made of. */
struct define_kind {
	enum reg_kind kind;
	const char *const *listed;      /* what lists show, in the order of the wire; NULL-terminated */
	const char *const *more;        /* the blocks beside it; NULL-terminated */
	int (*check)(const json_t *doc, struct err *err);       /* what is particular to its listed part */
};
extern const struct define_kind define_kinds[REG_KINDS];
/* The listed part: names, texts, annotations, icons, _meta. */
int define_check_listed(const json_t *doc, const struct define_kind *kind, struct err *err) MUST_CHECK;
json_t *define_prompt_schema(const json_t *doc);        /* of its arguments; new reference */
int define_read_complete(const json_t *doc, enum reg_kind kind, reg_bind_fn *bind, struct arena *mem,
			 struct reg_compiled *ret, struct err *err) MUST_CHECK;
int define_check_texts(const json_t *v, struct err *err) MUST_CHECK;    /* titles and descriptions anywhere below */
enum reg_output define_output_form(const json_t *schema);
bool define_is_own_page(const json_t *doc);
int define_compile_resource(const json_t *doc, struct arena *mem, struct reg_compiled *ret, struct err *err) MUST_CHECK;
void define_lint_pages(const json_t *doc, enum reg_kind kind, define_warn_fn *warn, void *arg);

/* A definition, shared: one reference of the registry while it is its tool's current one or a grant names its version,
 * one of each line. */
struct reg_node {
	struct reg_def pub;
	unsigned refs;
	struct reg_compiled *compiled;  /* in mem; made on first use */
	struct arena *mem;
	struct err *broken;             /* it does not compile, and why */
	char *remote;                   /* pub.remote */
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
	const struct reg_tool **by_uri, **by_remote;    /* those of pub */
	char *names;
	struct assent_rule **rules; size_t nrules;      /* of grants, one of each, which lines have */
	struct list pages;              /* struct page.mine */
};
struct reg_snap *reg_snap_new(int64_t tenant_id, size_t lines, size_t name_bytes);

/* uri_template.c.  A resource's URI, or a URI template (RFC 6570) that can be read backwards. */
int uri_check(const char *uri, const char *at, bool template, struct err *err) MUST_CHECK;
bool uri_is_page(const char *uri);      /* ui: */
size_t uri_template_literals(const char *pattern);      /* characters outside of expressions */
bool uri_template_has(const char *pattern, const char *variable);

struct reg_change_tenant { struct reg_snap *snap; bool differs[REG_FAMILIES]; };
struct reg_change_def { int64_t tool_id; struct reg_node *node; };      /* node NULL: no longer to be seen */
struct reg_change_schema { char *uri, *text; size_t len; uint8_t digest[32]; };        /* text NULL: no longer there */
struct reg_change {
	struct reg_change_schema *schemas; size_t nschemas;
	struct reg_change_def *defs; size_t ndefs, cap_defs;
	struct reg_change_tenant *tenants; size_t ntenants, cap_tenants;
	struct map *versions;           /* id of a version that a grant names -> struct reg_node; NULL = none */
};

struct registry {
	reg_bind_fn *bind;
	struct catalogue *shared;
	struct map *current;            /* tool id -> struct reg_node */
	struct map *versions;           /* id of a version that is not the current one -> struct reg_node */
	struct map *snaps;              /* tenant id -> struct reg_snap */
	struct list lru;                /* struct page.lru, last used first */
	size_t page_bytes;
};

#endif
