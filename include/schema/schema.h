#ifndef SCHEMA_SCHEMA_H
#define SCHEMA_SCHEMA_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* JSON Schema: compiled once per tool version, run per call.  Dialects: 2020-12 (the default), 2019-09,
 * draft-07, draft-06 and draft-04, named by "$schema"; any other is refused.  Nothing is fetched (MCP
 * references lead into the document, into the built-in meta-schemas or into a catalogue.
 *
 * All keywords of these dialects are known.  format and content* are annotations unless the caller or a
 * meta-schema with the vocabulary format-assertion asks for more.  A member that the dialect does not
 * have is refused by name at compile time, unless it begins with "x-" or the caller is lenient.
 *
 * What recurses is bounded by constants: over subschemas by SCHEMA_DEPTH_MAX, over values by the depth of a
 * parsed text, a run by 1000 nodes inside of each other, which SCHEMA_STACK_MAX has room for. */

#define SCHEMA_TEXT_MAX (64u << 10)     /* bytes of a schema (SEC S-209) */
#define SCHEMA_DEPTH_MAX 32
#define SCHEMA_NODES_MAX 4096
#define SCHEMA_PATTERN_MAX 1024         /* bytes of one pattern */
#define SCHEMA_STEPS_MAX 1000000        /* step budget of one run */
#define SCHEMA_STACK_MAX (8u << 20)     /* bytes of stack that a run may need under sanitizers; 1 MiB without */
#define SCHEMA_ERRORS_MAX 21            /* the first and 20 more */
#define SCHEMA_MEMORY_MAX (4u << 20)    /* bytes of one compiled schema */

struct schema;

/* A shared schema by its absolute URI without fragment, or NULL; borrowed while the compile lasts. */
typedef const json_t *schema_find_fn(void *arg, const char *uri);

struct schema_options {
	bool lenient;                   /* unknown members are annotations, not mistakes */
	bool assert_format;             /* format (and draft-07's content*) decides about a value */
	unsigned scale;                 /* text, subschemas and memory may be so many times larger; 0 = 1 */
	schema_find_fn *find;           /* the catalogue, NULL = none */
	void *find_arg;
};

/* Compile.  Borrows doc for the call.  ERR_INVALID or ERR_LIMIT with where = a JSON pointer into doc, or
 * into the schema of a catalogue ("https://example.com/a#/items").  The result is immutable and owns its
 * memory (arena, patterns); safe to hand to another thread, to be run by one thread at a time. */
int schema_compile(const json_t *doc, struct schema **ret, struct err *err) MUST_CHECK;
int schema_compile_with(const json_t *doc, const struct schema_options *options, struct schema **ret,
			struct err *err) MUST_CHECK;
void schema_free(struct schema **s);
FOR_TESTS size_t schema_memory(const struct schema *s);

/* One failure: paths are JSON pointers, text is a sentence for a model to mend its call by:
 * "Missing required argument: location" (top level: bare name; nested: dotted path), otherwise
 * "Invalid argument: <path>: <why>" (MCP D). */
struct schema_failure { char instance[160], keyword[160], text[400]; };
struct schema_report {
	size_t count;                   /* failures kept, at most SCHEMA_ERRORS_MAX */
	bool match_limit;               /* with ERR_LIMIT: one match of a pattern was too much, not the whole */
	struct schema_failure failure[SCHEMA_ERRORS_MAX];
};

/* 0 = valid.  ERR_INVALID: not valid, report filled (report may be NULL: stop at the first failure).
 * ERR_LIMIT: the step or match budget is spent: counts as invalid, report says so.  The sentences name
 * members of the value, but repeat nothing else of it. */
int schema_run(const struct schema *s, const json_t *value, struct schema_report *report) MUST_CHECK;

/* What a report must not tell: n JSON pointers into the value. */
struct schema_redact { const char *const *pointers; size_t n; };
/* The same, but the sentences repeat the scalars that they are about, shortened: `; got "kelvin"`.  Not so
 * at, above or below a redacted place; names of members below it that the schema does not have become "*". */
int schema_explain(const struct schema *s, const json_t *value, const struct schema_redact *redact,
		   struct schema_report *report) MUST_CHECK;

/* The schema in 2020-12 without "$schema", when it means the same: 1 and *ret is a new reference.  0: it is
 * 2020-12 already.  ERR_INVALID: it cannot be said in 2020-12, with where and why. */
int schema_translate(const json_t *doc, json_t **ret, struct err *err) MUST_CHECK;
/* The same with all that it refers to in the catalogue of `options` below "$defs", each under its $id, so that
 * whoever reads it has nothing to fetch.  1 and *ret is a new reference.  0: it stands alone and is 2020-12
 * already.  ERR_INVALID, ERR_LIMIT: it cannot be said so, or is longer than SCHEMA_TEXT_MAX then. */
int schema_bundle(const json_t *doc, const struct schema_options *options, json_t **ret, struct err *err) MUST_CHECK;
/* The name by which others refer to this schema: its "$id" (draft-04: "id"), an absolute URI without fragment
 * that is not one of the built-in meta-schemas'.  free() it. */
int schema_identity(const json_t *doc, char **ret, struct err *err) MUST_CHECK;

/* What real hosts choke on though the schema is legal (MCP B-31): calls warn() for each. */
typedef void schema_warn_fn(void *arg, const char *pointer, const char *text);
void schema_lint(const json_t *doc, schema_warn_fn *warn, void *arg);

#endif
