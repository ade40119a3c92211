#ifndef REGISTRY_DEFINE_H
#define REGISTRY_DEFINE_H

#include "base/err.h"
#include "registry/registry.h"

#include <jansson.h>
#include <stdint.h>

/* A definition document (product.md 4) to the row that is stored: every rule that needs no running handler. */

#define DEFINE_TEXT_MAX (512u << 10)    /* bytes of a definition as JSON */
#define DEFINE_MEMORY_MAX (4u << 20)    /* arena of one compiled definition */

struct define_tool {
	char name[65];
	uint8_t digest[32];             /* SHA-256 of the canonical definition */
	uint8_t list_digest[32];        /* SHA-256 of the canonical listed part */
	char *text;                     /* JSON text to store; free() by define_free() */
};
/* Check one document of kind tool: names, unknown members with a hint, descriptions (control characters
 * refused, SEC S-211), schemas compile, x-mcp-header placement (MCP T-41, T-42), handler block by bind, limits
 * in range.  ERR_INVALID with where = JSON pointer into doc.  Pure. */
int define_tool(const json_t *doc, reg_bind_fn *bind, struct define_tool *ret, struct err *err) MUST_CHECK;
void define_free(struct define_tool *d);
/* Legal, but real hosts choke on it (MCP B-31, B-32). */
typedef void define_warn_fn(void *arg, const char *pointer, const char *text);
void define_lint(const json_t *doc, define_warn_fn *warn, void *arg);
/* Compile a definition: schemas, handler plan, limits.  The plan and the texts live in mem; the schemas are freed
 * by define_compiled_fini().  Used by reg_compile() and by `tool test`. */
int define_compile(const json_t *doc, reg_bind_fn *bind, struct arena *mem, struct reg_compiled *ret, struct err *err) MUST_CHECK;
void define_compiled_fini(struct reg_compiled *c);

#endif
