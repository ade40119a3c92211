#ifndef SRC_SCHEMA_COMPILE_INT_H
#define SRC_SCHEMA_COMPILE_INT_H

/* The compiler's state, shared by the files that read keywords. */

#include "schema_int.h"

#include "base/str.h"

struct map;

struct pending_ref {            /* a $ref whose target is compiled once the tree has been walked */
	struct node *from;
	const json_t *target;
	char *pointer;
};

struct compiler {
	const json_t *doc;              /* the root */
	const char *id;                 /* its $id, NULL = none */
	bool draft7;
	struct schema *s;
	struct arena *mem;
	struct err *err;
	struct str pointer;             /* of what is being read */
	unsigned depth;
	size_t nnodes;
	struct map *seen;               /* json_t -> node */
	struct node *by_type[TYPE_ANY + 1];     /* the nodes that know nothing but types, made once each */
	struct pending_ref *refs;
	size_t nrefs, refs_cap;
	const json_t *ref_target;       /* $ref of the schema being read */
	const json_t *object;           /* the schema being read */
};

/* Fill err with the place that is being read. */
int compile_fail(struct compiler *c, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
int compile_fail_memory(struct compiler *c);
void *compile_take(struct compiler *c, size_t n);       /* zeroed; NULL above the limit */
/* Step into a member or an element; compile_leave() takes what compile_enter() returned. */
size_t compile_enter(struct compiler *c, const char *name);
size_t compile_enter_index(struct compiler *c, size_t i);
void compile_leave(struct compiler *c, size_t mark);

/* Compile the subschema that the pointer has been moved to. */
int compile_schema(struct compiler *c, const json_t *doc, const struct node **ret) MUST_CHECK;
int compile_list(struct compiler *c, const json_t *doc, struct node_list *ret) MUST_CHECK;
int compile_names(struct compiler *c, const json_t *doc, struct name_list *ret) MUST_CHECK;
int compile_constant(struct compiler *c, const json_t *v, struct constant *ret) MUST_CHECK;

/* The rules of a node, made when the first keyword needs them; NULL above the memory limit. */
struct num_rules *compile_num(struct compiler *c, struct node *n);
struct str_rules *compile_str(struct compiler *c, struct node *n);
struct arr_rules *compile_arr(struct compiler *c, struct node *n);
struct obj_rules *compile_obj(struct compiler *c, struct node *n);
struct logic *compile_logic(struct compiler *c, struct node *n);

/* The handler of one member of a schema, and the table of all of them. */
int compile_keyword(struct compiler *c, struct node *n, const char *name, const json_t *v) MUST_CHECK;
/* Refuse a member that no table knows, with the nearest name as a hint. */
int compile_unknown(struct compiler *c, const char *name);

/* $ref: remember it; compile all that are pending; refuse circles that lead nowhere. */
int compile_ref(struct compiler *c, const json_t *v) MUST_CHECK;
int compile_add_ref(struct compiler *c, struct node *from) MUST_CHECK;
int compile_pending_refs(struct compiler *c) MUST_CHECK;
int compile_check_circles(struct compiler *c) MUST_CHECK;

#endif
