#ifndef DOCUMENTS_INT_H
#define DOCUMENTS_INT_H

#include "registry/registry.h"
#include "toolset/toolset.h"

/* Documents and the store: apply.c (from files to rows and back), kinds.c (what each kind of document is). */

struct apply;
struct export;
struct map;

struct apply_item {                     /* a document */
	const struct apply_kind *kind;
	size_t document;                /* which one of the arguments' */
	char *name;                     /* one of its kind; free() */
	void *doc;                      /* what read() made of it */
};

/* One kind of document. */
struct apply_kind {
	const char *name, *space;       /* two of one space cannot have the same name */
	enum reg_kind listed;           /* of kinds that are listed to agents */
	/* Loop: check a document, fill item->name and item->doc. */
	int (*read)(struct apply *a, const json_t *doc, struct apply_item *item, struct err *err);
	/* Writer: make the rows say so, and tell apply_say() what that changed. */
	int (*store)(struct apply *a, const struct apply_item *item, struct err *err);
	/* Writer, the last kind first: remove what no document names, when there is a document of this space. */
	int (*prune)(struct apply *a, const struct apply_kind *kind, struct err *err);
	/* Pool: a document for each that there is, by export_put(). */
	int (*export)(struct export *x, const struct apply_kind *kind, struct err *err);
	void (*free_doc)(void *doc);
};
#define APPLY_KINDS 9
extern const struct apply_kind *const apply_kinds[APPLY_KINDS];      /* in the order of storing */

struct apply_ids { int64_t *v; size_t n; };
void apply_id(struct apply_ids *ids, int64_t id);       /* once each */

struct apply {
	struct command_call *c;
	bool dry_run, prune;
	uint64_t prune_most, prune_percent;     /* what --prune may remove: the larger of both */
	struct str gone;                /* what it removes, by kind and name */
	struct schema_set schemas;     /* those among the documents, and the catalogue with them */
	enum row_stored *stored;        /* of each schema, once they are */
	char **replaced;                /* their texts before; NULL = none */
	size_t next_schema;
	struct apply_item *item; size_t count;
	struct map *names;              /* "space/name" -> item */
	struct db *db; struct audit_logs *logs;         /* in store() and prune() */
	struct apply_ids tools, tenants;        /* changed */
	/* to be used so from now on; text NULL: gone */
	struct apply_upstream { char *name, *text; bool enabled; } *upstream;
	size_t nupstreams;
	struct apply_ids out;           /* tenants that nobody serves any more */
	size_t added, changed, removed;
};
const struct apply_item *apply_find(const struct apply *a, const char *space, const char *name);
/* Say that something was added (before NULL), removed (after NULL) or changed; both are JSON texts. */
void apply_say(struct apply *a, const char *kind, const char *name, const char *before, const char *after);

void apply_upstreams(const struct apply *a);    /* loop, after the COMMIT */
void apply_upstreams_fini(struct apply *a);

struct export {
	struct command_call *c;
	struct db *db;
	char tenant[64];                /* "" = all */
	int64_t tenant_id;
};
/* A document and the file that it belongs into; takes doc. */
void export_put(struct export *x, const char *kind, const char *name, json_t *doc);

#endif
