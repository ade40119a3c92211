#ifndef HANDLERS_HTTP_INT_H
#define HANDLERS_HTTP_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "backend/handler.h"
#include "net/fetch.h"
#include "net/url.h"

/* What the files of the http handler share: the plan and bodies (http.c), URL templates (uri.c), one call: its requests
 * and what an answer means (http_run.c). */

#define HTTP_PAIRS_MAX 32               /* of headers, and of query */
#define HTTP_BODY_NODES_MAX 1000        /* of a body written as an object */
#define HTTP_SEND_MAX (10u << 20)       /* bytes of a request's body */
#define HTTP_EXCERPT_MAX 2048           /* bytes of an answer that is an error */
#define HTTP_TRIES_MAX 3                /* requests of one call; more than one only when repeating is harmless */

struct str;
struct uri_tpl;
struct http_node;

/* A fixed name, and a value from a template. */
struct http_pair { const char *name; const struct tpl *value; };

enum http_body_kind { HTTP_SEND_NONE, HTTP_SEND_ARGUMENTS, HTTP_SEND_JSON, HTTP_SEND_FORM, HTTP_SEND_TEXT };
enum http_result_kind { HTTP_RESULT_AUTO, HTTP_RESULT_TEXT, HTTP_RESULT_POINTER };

struct http_plan {
	const char *method;
	bool idempotent;                /* RFC 9110 9.2.2: may be sent again */
	const struct uri_tpl *url;
	struct url base;                /* scheme, host, port: the definition's, always */
	const struct http_pair *query; size_t nquery;
	const struct http_pair *headers; size_t nheaders;
	enum http_body_kind body;
	const struct tpl *body_text;    /* HTTP_SEND_TEXT */
	const struct tpl *encoding;     /* of HTTP_SEND_TEXT: "base64" or nothing = bytes, "text"; NULL: it is text */
	const struct http_node *body_tree;      /* HTTP_SEND_JSON, HTTP_SEND_FORM */
	const char *body_type;          /* Content-Type, unless a header says it; NULL without a body */
	enum http_result_kind result;
	const char *pointer;
	struct fetch_policy policy;
	bool traced;                    /* the caller's trace goes along */
};

/* --- uri.c */

/* ret_base: where all expansions go. */
int uri_compile(const char *text, const char *at, struct arena *mem, const struct uri_tpl **ret, struct url *ret_base,
		struct err *err) MUST_CHECK;
/* ERR_TOOL: an argument is missing or cannot be part of a URL. */
int uri_expand(const struct uri_tpl *t, const struct backend_req *req, struct str *out, struct err *err) MUST_CHECK;
void uri_encode(const char *p, size_t len, bool slashes, struct str *out);      /* all but unreserved characters */

/* --- http.c */

/* Bodies written as YAML or JSON: strings in them are templates, and one that is a single argument
 * becomes that value with its type; without the argument the member is left out. */
int http_body_json(const struct http_node *n, const struct backend_req *req, struct str *out,
		   struct err *err) MUST_CHECK;
/* False: the whole body is one argument, and that is missing or null. */
bool http_body_has_value(const struct http_node *n, const struct backend_req *req);
int http_body_form(const struct http_node *n, const struct backend_req *req, struct str *out,
		   struct err *err) MUST_CHECK;
/* Is there anything to insert?  False: t is one argument, and that is missing or null. */
bool http_has_value(const struct tpl *t, const struct backend_req *req);

/* --- http_run.c */

/* One request, ready to be sent, perhaps more than once; holds secrets, http_message_fini() wipes. */
struct http_message {
	char *url;
	struct fetch_header headers[HTTP_PAIRS_MAX + 3]; size_t nheaders;       /* the names are the plan's, or ours */
	char *body; size_t body_len;
};
FOR_TESTS int http_message_make(const struct http_plan *plan, const struct backend_req *req, struct http_message *ret,
		      struct err *err) MUST_CHECK;
FOR_TESTS void http_message_fini(struct http_message *m);

/* body is cut by nobody yet; type is the Content-Type or "". */
struct http_answer { int status; const char *type; bool encoded; const char *body; size_t len; };
/* ERR_TOOL: it is not what it claims or what the plan wants. */
FOR_TESTS int http_map(const struct http_plan *plan, const struct backend_req *req, const struct http_answer *a,
	     struct backend_result *ret, struct err *err) MUST_CHECK;

void http_start(const struct backend_env *env, const struct backend_req *req, const struct backend_sink *sink,
		void *arg, struct backend_op **ret);
void http_cancel(struct backend_op *op, enum cancel_why why);

#endif
