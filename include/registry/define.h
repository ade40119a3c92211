#ifndef REGISTRY_DEFINE_H
#define REGISTRY_DEFINE_H

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"
#include "registry/catalogue.h"
#include "registry/registry.h"

/* A definition document (product.md 4) to the row that is stored: every rule that needs no running handler. */

#define DEFINE_TEXT_MAX (512u << 10)    /* bytes of a definition as JSON */
#define DEFINE_MEMORY_MAX (4u << 20)    /* arena of one compiled definition */

struct define_item {
	enum reg_kind kind;
	char name[REG_FULL_NAME_SIZE];  /* the full one */
	char *uri;                      /* of a resource or template, or NULL */
	uint8_t digest[32];             /* SHA-256 of the canonical definition */
	uint8_t list_digest[32];        /* SHA-256 of the canonical listed part */
	char *text;                     /* JSON text to store */
	struct catalogue_refs refs;     /* shared schemas that it refers to, directly or through others */
};
/* Check one document of a kind that is listed (registry.h): names, URIs, unknown members with a hint, descriptions
 * (control characters refused, SEC S-211), schemas compile, x-mcp-header placement (MCP T-41, T-42), handler block by
 * bind, limits in range.  ERR_INVALID with where = JSON pointer into doc.  shared may be NULL.  Pure. */
int define_item(const json_t *doc, reg_bind_fn *bind, const struct catalogue *shared, struct define_item *ret,
		struct err *err) MUST_CHECK;
void define_free(struct define_item *d);
/* Legal, but real hosts choke on it (MCP B-31, B-32). */
typedef void define_warn_fn(void *arg, const char *pointer, const char *text);
void define_lint(const json_t *doc, define_warn_fn *warn, void *arg);
/* What of a schema's new version breaks those who rely on the old one: fn() for each place, a JSON pointer into the
 * schema, with why ("is required now", "was 1, is 5").  DEFINE_INPUT: what was valid and no longer is; DEFINE_OUTPUT:
 * what may come and could not before.  certain false: it cannot be told.  A property that is new and optional breaks
 * nobody, whatever the old schema let pass unnamed; what shared schemas say is not looked at.  Returns how many; fn may
 * be NULL.  Pure; any thread; bounded in steps and depth. */
enum define_side { DEFINE_INPUT, DEFINE_OUTPUT };
struct define_pair { const json_t *old, *now; bool old_formats, now_formats; };        /* format decides there */
typedef void define_break_fn(void *arg, const char *pointer, bool certain, const char *why);
FOR_TESTS size_t define_schema_breaks(const struct define_pair *pair, enum define_side side, define_break_fn *fn,
				      void *arg);
/* What of a new version breaks those who call, get or read what the old one said: fn() for each place, a JSON pointer
 * into the definition; returns how many.  Documents that are no definitions have none.  Pure. */
size_t define_breaks(const json_t *old, const json_t *now, define_break_fn *fn, void *arg);
/* Compile a definition: schemas, handler plan, limits.  The plan and the texts live in mem; the schemas are freed
 * by define_compiled_fini().  Used by reg_compile() and by `tool test`. */
int define_compile(const json_t *doc, enum reg_kind kind, reg_bind_fn *bind, const struct catalogue *shared,
		   struct arena *mem, struct reg_compiled *ret, struct err *err) MUST_CHECK;
void define_compiled_fini(struct reg_compiled *c);

/* A document of kind schema: a JSON Schema with an absolute $id. */
struct define_schema {
	char *uri;                      /* its $id */
	uint8_t digest[32];             /* SHA-256 of the canonical schema */
	char *text;                     /* JSON text to store */
	struct catalogue_refs refs;     /* others that it refers to */
};
/* What can be said without looking at other schemas: its name, text and digest. */
int define_schema_read(const json_t *doc, struct define_schema *ret, struct err *err) MUST_CHECK;
/* The rest: it compiles, can be said in 2020-12, and may stand in any tool's list.  shared has it already, and
 * all that it refers to; def->refs is filled. */
int define_schema_check(const json_t *doc, const struct catalogue *shared, struct define_schema *def,
			struct err *err) MUST_CHECK;
void define_schema_free(struct define_schema *d);

#endif
