#ifndef SRC_OPENAPI_INT_H
#define SRC_OPENAPI_INT_H

#include "base/text.h"
#include "openapi/openapi.h"

#include <stdbool.h>
#include <stddef.h>

#define NAME_MAX_BYTES 64
#define DEFS "#/$defs/"              /* in front of the name, in a $ref of what is written here */

/* Where requests go. */
struct oa_server {
	char *url;                      /* without a slash at its end */
	char *host;                     /* "host:port" that must be allowed by name, or NULL: https on port 443 */
};

struct converter {
	const json_t *root;
	const struct openapi_sink *sink;
	void *arg;
	bool modern;                    /* 3.1: schemas are 2020-12 already */
	struct oa_server usual;         /* of operations without one of their own; url NULL: there is none */
	const char *given;              /* --server, or NULL */
	const char *prefix;
	const json_t *tags, *paths, *headers;   /* as in struct openapi_options */
	json_t *names;                  /* of the documents so far */
	json_t *secrets;                /* names of secrets that were spoken of */
};

struct oa_method {
	const char *name, *wire;        /* wire NULL: not sent */
	bool reads, idempotent;
};

/* What one operation becomes. */
struct operation {
	struct converter *c;
	struct str at;                  /* pointer to it */
	const struct oa_method *method;
	const char *path;
	const json_t *item, *op;        /* the path's and the operation's object */
	const struct oa_server *server; /* where its requests go: &own, or that of all */
	struct oa_server own;
	json_t *properties, *required;  /* of inputSchema */
	json_t *defs;                   /* $defs: name -> schema */
	json_t *targets;                /* reference -> name in defs */
	json_t *waiting;                /* references whose schemas are not converted yet, from `converted` on */
	size_t converted;
	json_t *segments;               /* name of a parameter in the path -> argument */
	json_t *query, *headers, *body; /* of the handler; body NULL = none */
	char *encoding;                 /* of the handler, for a body of bytes, or NULL */
	json_t *input;                  /* inputSchema as a whole: the body is the arguments; else NULL */
	json_t *output_schema;          /* or NULL */
	json_t *merged;                 /* schemas made of an allOf, until the end */
	bool output;                    /* the schema at hand is that of an answer */
	struct str url;                 /* template */
	struct str url_query;           /* "a,b*" of {?…} */
	size_t nodes;
	bool failed;                    /* a note says why there is no document, or no outputSchema */
};

/* Say what is left out.  where: below the operation. */
void oa_note(struct operation *o, const char *where, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The same, and there will be no document; with `output` no outputSchema. */
void oa_fail(struct operation *o, const char *where, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* The object that v is or refers to; NULL: it leads nowhere.  Borrowed. */
const json_t *oa_follow(const struct converter *c, const json_t *v);
/* The schema in 2020-12, references led to o->defs.  New reference. */
json_t *oa_schema(struct operation *o, const json_t *schema);

bool oa_listed(const json_t *list, const char *name);           /* in a list of strings */
bool oa_is_type(const struct operation *o, const json_t *schema, const char *type);
/* An object of named members, an allOf as one; NULL: it is more than that, or none.  Borrowed until the end. */
const json_t *oa_members(struct operation *o, const json_t *schema);
/* Add an argument with this schema (taken) under the name, or one like it that is free: free() what it is called. */
char *oa_argument(struct operation *o, const char *name, json_t *schema, const char *description, bool required);
/* Those of its parameters, and what its security asks for. */
void oa_arguments(struct operation *o);

/* A name that hosts take as an argument or tool: other characters become _; free(). */
char *oa_word(const char *text);

#endif
