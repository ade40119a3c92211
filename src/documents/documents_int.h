#ifndef DOCUMENTS_INT_H
#define DOCUMENTS_INT_H

#include <stdio.h>

#include "base/mem.h"
#include "registry/registry.h"
#include "toolset/toolset.h"

/* Documents and the store: apply.c (the commands), kinds.c and tenants.c (what each kind is), answer.c (what all of
 * them use). */

struct apply;
struct export;
struct map;

struct apply_item {                     /* a document */
	const struct apply_kind *kind;
	size_t document;                /* which one of the arguments' */
	char *name;                     /* one of its kind; free() */
	uint8_t digest[32];             /* of kinds with same() */
	void *doc;                      /* what read() made of it; in apply.item of kinds with `keeps` alone */
};

/* One kind of document. */
struct apply_kind {
	const char *name, *space;       /* two of one space cannot have the same name */
	enum reg_kind listed;           /* of kinds that are listed to agents */
	bool keeps;                     /* read once alone, in the documents' order */
	/* Pool, then writer: check a document, fill item->name and item->doc. */
	int (*read)(struct apply *a, const json_t *doc, struct apply_item *item, struct err *err);
	/* Writer: 1 when its digest alone says that store() would change nothing; or NULL. */
	int (*same)(struct apply *a, const struct apply_item *item, struct err *err);
	/* Writer: make the rows say so, and tell apply_say() what that changed. */
	int (*store)(struct apply *a, const struct apply_item *item, struct err *err);
	/* Writer, the last kind first: remove what no document names, when there is a document of this space.  NULL: what a
	 * file could not bring back, or what was promised, is not taken away by one. */
	int (*prune)(struct apply *a, const struct apply_kind *kind, struct err *err);
	/* Pool: a document for each that there is, by export_put(). */
	int (*export)(struct export *x, const struct apply_kind *kind, struct err *err);
	void (*free_doc)(void *doc);
};
#define APPLY_KINDS 14
extern const struct apply_kind apply_kind_tenant, apply_kind_grant, apply_kind_limit, apply_kind_level,
	apply_kind_retention, apply_kind_system, apply_kind_inventory;  /* in tenants.c */
extern const struct apply_kind *const apply_kinds[APPLY_KINDS];      /* in the order of storing */

/* ERR_INVALID: an object of a document of this kind, at this place in it ("" or "/limits"), has a key that the table
 * document_keys[] does not list: so it lists all that is read. */
int document_only_keys(const json_t *obj, const char *kind, const char *at, struct err *err) MUST_CHECK;

struct apply_ids { int64_t *v; size_t n, cap; };
/* Of what changed; some of them more than once. */
static inline void apply_id(struct apply_ids *ids, int64_t id)
{
	if (ids->n > 0 && ids->v[ids->n - 1] == id)
		return;
	if (ids->n == ids->cap) {
		ids->cap = ids->cap ? 2 * ids->cap : 16;
		ids->v = mem_realloc(ids->v, ids->cap * sizeof(*ids->v));
	}
	ids->v[ids->n++] = id;
}



struct apply {
	struct command_call *c;
	bool dry_run, prune;
	uint64_t prune_most, prune_percent;     /* what --prune may remove: the larger of both */
	struct str gone;                /* what it removes, by kind and name */
	struct catalogue *shared;       /* a copy of those in force */
	struct schema_set schemas;     /* those among the documents, and the catalogue with them */
	enum row_stored *stored;        /* of each schema, once they are */
	char **replaced;                /* their texts before; NULL = none */
	size_t next_schema;
	struct apply_item *item; size_t count;
	struct map *names;              /* "space/name" -> item */
	struct map *spaces, *named;     /* those of the documents; tenants that they speak of: to anything */
	struct db *db; struct audit_logs *logs;         /* in store() and prune() */
	struct apply_ids tools, tenants;        /* changed */
	/* to be used so from now on; text NULL: gone */
	struct apply_upstream { char *name, *text; bool enabled; } *upstream;
	size_t nupstreams;
	struct apply_ids out;           /* tenants that nobody serves any more */
	size_t added, changed, removed, unsaid;         /* unsaid: counted, but not listed */
	size_t breaking, waits;         /* of those changed, whose callers break; what waits, also from before */
	struct err err; bool wrong;     /* what checking found */
};
/* Its name in its space is this item's from now on; false: another one has it. */
bool apply_name(struct apply *a, struct apply_item *item);
/* NULL: no document has it. */
const struct apply_item *apply_find(const struct apply *a, const char *space, const char *name);
/* Say that something was added (before NULL), removed (after NULL) or changed; both are JSON texts. */
void apply_say(struct apply *a, const char *kind, const char *name, const char *before, const char *after);
/* Say something of it that is not counted; version 0: of none. */
void apply_note(struct apply *a, const char *sign, const char *kind, const char *name, int64_t version,
		const char *said);

struct export {
	struct command_call *c;
	struct db *db;
	char tenant[64];                /* "" = all */
	int64_t tenant_id;
	FILE *file;                     /* rows that came before those of the reply; NULL: none yet */
	char *store;
	bool written;                   /* all documents are: what is left is to be sent */
};
/* A document and the file that it belongs into; takes doc.  ERR_IO. */
int export_put(struct export *x, const char *kind, const char *name, json_t *doc, struct err *err) MUST_CHECK;
/* All are put; those in the file can be sent.  ERR_IO. */
int export_end(struct export *x, struct err *err) MUST_CHECK;
/* The next of the file, whole rows of a part's size.  ERR_IO. */
int export_part(struct export *x, struct err *err) MUST_CHECK;

#endif
