#ifndef OPENAPI_OPENAPI_H
#define OPENAPI_OPENAPI_H

#include "base/err.h"

#include <jansson.h>

/* OpenAPI 3.0 and 3.1 descriptions to tool documents with http handlers: one for each operation.  What a document
 * cannot say is named, and the operation left out if its requests would be wrong without it.  Pure; nothing is
 * fetched, references lead into the description alone. */

#define OPENAPI_OPERATIONS_MAX 2000
#define OPENAPI_NODES_MAX 20000         /* values of the schemas of one operation */
#define OPENAPI_DEFS_MAX 500            /* schemas that one operation refers to */

struct openapi_options {
	const char *server;             /* http(s)://host[:port][/path]; NULL: the first of the description's servers */
	const char *prefix;             /* in front of the names; NULL = "" */
	const json_t *tags, *paths;     /* globs, of which an operation must match one of each list; NULL = all */
	const json_t *headers;          /* name -> template, of all requests, before what the description says; or NULL */
};

struct openapi_sink {
	/* pointer: to the operation, in the description.  Takes doc. */
	void (*document)(void *arg, const char *pointer, const char *name, json_t *doc);
	/* What could not be said, and where it stands. */
	void (*note)(void *arg, const char *pointer, const char *text);
};

/* ERR_INVALID with where = JSON pointer: it is no such description, or its server is no URL.  ERR_NOT_FOUND: a glob
 * matches no operation, or all of them together none. */
int openapi_convert(const json_t *description, const struct openapi_options *options, const struct openapi_sink *sink,
		    void *arg, struct err *err) MUST_CHECK;

#endif
