#ifndef SRC_SCHEMA_COMPILE_INT_H
#define SRC_SCHEMA_COMPILE_INT_H

/* The compiler's state, shared by the files that read keywords. */

#include "schema_int.h"

#include "base/text.h"

struct map;

/* DIALECTS */

enum { D4 = 1, D6 = 2, D7 = 4, D2019 = 8, D2020 = 16 };
enum {
	VOC_CORE = 1, VOC_APPLICATOR = 2, VOC_UNEVALUATED = 4, VOC_VALIDATION = 8, VOC_META = 16, VOC_FORMAT = 32,
	VOC_ASSERT = 64, VOC_CONTENT = 128,
};

struct dialect {
	unsigned draft;                 /* one bit */
	unsigned vocabularies;
};

/* WHERE SUBSCHEMAS BELONG */

/* A document or a part of it with an identifier of its own. */
struct resource {
	char *uri;                      /* absolute, no fragment; "" for a root without an identifier */
	const json_t *doc;
	struct dialect dialect;
	char *place;                    /* where it was found: "" or "/pointer" in the root, else an URI */
	struct map *anchors;            /* name -> json_t */
	struct name *dynamic;           /* names of the dynamic anchors; $recursiveAnchor has the name "" */
	size_t ndynamic;
	struct home *home;              /* made when the first node in here is compiled */
	struct resource *next;
};

struct place {                  /* of one subschema */
	struct resource *in;
	const struct node *node;        /* once compiled */
};

struct pending {                /* a reference whose target is compiled once the tree has been walked */
	const struct node **slot;
	const struct node *from;        /* NULL: no reference, a dynamic anchor */
	const json_t *target;
	struct resource *in;
	char *pointer;                  /* for errors */
};

#define REFS_MAX 2              /* $ref and $dynamicRef or $recursiveRef side by side */

struct reading {                /* the schema object being read */
	const json_t *object;
	struct pending refs[REFS_MAX];
	size_t nrefs;
};

/* What stands behind a keyword, for walks over subschemas. */
enum sub { SUB_NONE, SUB_SCHEMA, SUB_LIST, SUB_MAP, SUB_ITEMS };        /* ITEMS: one schema or a list */

struct compiler {
	const json_t *doc;              /* the root */
	struct schema_options options;
	enum sub (*sub_of)(const struct dialect *d, const char *name);       /* keyword_sub() */
	size_t text_max, nodes_max;
	bool direct;                    /* jx_direct_fits() */
	struct schema *s;
	struct arena *mem;
	struct arena *scratch;          /* dies with the compiler */
	struct err *err;
	struct str pointer;             /* of what is being read */
	unsigned depth;
	size_t nnodes;
	uint64_t seed[2];               /* of all name indexes */
	struct map *places;             /* json_t -> struct place */
	struct map *by_uri;             /* uri -> struct resource */
	struct resource *resources, **last_resource;
	json_t **loaded;                /* built-in documents, parsed */
	size_t nloaded;
	struct resource *in;            /* the resource being read */
	struct reading *reading;
	struct node *by_type[TYPE_ANY + 1];     /* the nodes that know nothing but types, made once each */
	struct pending *refs;
	size_t nrefs, refs_cap;
	struct logic *logics;           /* all, the last first */
};

/* Fill err with the place that is being read. */
int compile_fail(struct compiler *c, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
int compile_fail_memory(struct compiler *c);
void *compile_take(struct compiler *c, size_t n);       /* zeroed; NULL above the limit */
/* Step into a member or an element; compile_leave() takes what compile_enter() returned. */
size_t compile_enter(struct compiler *c, const char *name);
size_t compile_enter_index(struct compiler *c, size_t i);
void compile_leave(struct compiler *c, size_t mark);

static inline bool compile_is(const struct compiler *c, unsigned drafts)
{
	return (c->in->dialect.draft & drafts) != 0;
}

/* Compile the subschema that the pointer has been moved to. */
int compile_schema(struct compiler *c, const json_t *doc, const struct node **ret) MUST_CHECK;
int compile_list(struct compiler *c, const json_t *doc, struct node_list *ret) MUST_CHECK;

/* What can only be done once all keywords of an object have been read. */
int compile_finish_object(struct compiler *c, struct obj_rules *o) MUST_CHECK;

/* The handler of one member of a schema. */
int compile_keyword(struct compiler *c, struct node *n, const char *name, const json_t *v) MUST_CHECK;

/* What stands behind it. */
enum sub keyword_sub(const struct dialect *d, const char *name);
/* Does 2020-12 know this name with an effect, though the dialect does not? */
bool keyword_is_new(const struct dialect *d, const char *name);

/* DIALECTS AND RESOURCES: resource.c */

/* The dialect that v, a "$schema", names.  *ret is left alone when v is NULL. */
int dialect_choose(struct compiler *c, const json_t *v, struct dialect *ret) MUST_CHECK;
struct dialect dialect_default(void);
/* The same without custom meta-schemas; v NULL = 2020-12. */
int dialect_by_name(const json_t *v, struct dialect *ret) MUST_CHECK;
const char *dialect_name(unsigned draft);
const char *dialect_id_keyword(unsigned draft);

/* Find the identifiers, anchors and subschemas of a document; uri NULL = the root of all. */
int resource_add_document(struct compiler *c, const json_t *doc, const char *uri, const struct dialect *inherited,
			  struct resource **ret) MUST_CHECK;
/* Walk over what a reference has led to though no keyword does. */
int resource_add_stray(struct compiler *c, const json_t *doc, struct resource *in) MUST_CHECK;
/* The target of a reference and the resource that it lies in. */
int resource_resolve(struct compiler *c, const char *reference, const json_t **ret, struct resource **ret_in,
		     char **ret_fragment) MUST_CHECK;
void resource_free_all(struct compiler *c);

/* REFERENCES: compile.c */

/* $ref: remember it; compile all that are pending; refuse circles that lead nowhere. */
int compile_ref(struct compiler *c, struct node *n, const json_t *v) MUST_CHECK;
int compile_jump(struct compiler *c, struct node *n, const char *keyword, const json_t *v) MUST_CHECK;

#endif
