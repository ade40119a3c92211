#ifndef BACKEND_HANDLER_H
#define BACKEND_HANDLER_H

#include "backend/backend.h"

struct fetch_policy;
struct str;

/* What handlers are made of: the head of a run, parts of blocks, templates, content blocks.  For the rooms that
 * implement a handler (handlers, exec, upstream); who only runs one needs backend/backend.h.
 *
 * A handler's bind() reads its block with backend_get_word(), backend_bind_fetch() and tpl_compile() into a plan; its
 * start() allocates a run whose first part is struct backend_op, fills that with backend_op_init(), and reports from
 * the loop, later.  static.c of handlers is the smallest example.  bind() may run on any thread, a run belongs to the
 * loop. */

/* The head of every run.  A member embeds it as its first part; the end functions report the one end and
 * leave the memory to the caller.  Loop thread. */
struct backend_op {
	struct ev_loop *loop;
	struct backend_sink sink;       /* copied: the caller's may be on its stack */
	void *arg;
};
void backend_op_init(struct backend_op *op, const struct backend_env *env, const struct backend_sink *sink,
		void *arg);
void backend_op_text(struct backend_op *op, const char *p, size_t len);      /* one text block; p is UTF-8 */
/* ERR_TIMEOUT for the deadline, else ERR_CANCELLED, with a sentence that says why. */
int backend_cancel_err(enum cancel_why why, struct err *err);
/* Arena memory ran out while a handler block was compiled. */
int backend_bind_full(const char *at, struct err *err);
/* Index of the string member `name` in words, *ret untouched when it is missing.  ERR_INVALID names the words. */
int backend_get_word(const json_t *obj, const char *name, const char *const *words, size_t n, unsigned *ret,
		struct err *err) MUST_CHECK;
/* `allow` and `ca` of a block: where its requests may go.  ret: zero before. */
int backend_bind_fetch(const json_t *block, struct arena *mem, struct fetch_policy *ret, struct err *err) MUST_CHECK;
/* The arguments on one line: line breaks between tokens become spaces, nothing else changes. */
void backend_put_args(const struct backend_req *req, struct str *out);

/* Templates: `{/json/pointer}` inserts an argument, `{secret:NAME}` a secret, `{tenant}` `{principal}` `{call}` what
 * they say, `{{` and `}}` are braces.  Compiled when the definition is stored, rendered for each run.  What is inserted
 * is text, never syntax: nothing looks at it again. */
struct tpl;
enum tpl_may {                                  /* what may be inserted here, besides the rest */
	TPL_NO_ARGS = 0, TPL_ARGS = 1, TPL_SECRETS = 2,
	TPL_ARGS_MAYBE = 4 | TPL_ARGS,          /* one that is missing is no text instead of an error */
};
/* may: TPL_ bits.  SEC S-345: no secrets where others can see them, as in a command line or a path. */
int tpl_compile(const char *text, const char *at, unsigned may, struct arena *mem,
		const struct tpl **ret, struct err *err) MUST_CHECK;
bool tpl_is_constant(const struct tpl *t);      /* inserts nothing */
bool tpl_is_of_tenant(const struct tpl *t);     /* the same text for all calls of a tenant, until a secret changes */
bool tpl_is_one_argument(const struct tpl *t);  /* `{/pointer}` and nothing beside it */
const char *tpl_pointer(const struct tpl *t);    /* the pointer, when it is one argument */
bool tpl_begins_with_insert(const struct tpl *t);
/* Append the text.  ERR_TOOL: an argument is missing, null or holds U+0000, or a secret is not set; the message names
 * it.  Where out got a secret, wipe it. */
int tpl_render(const struct tpl *t, const struct backend_req *req, struct str *out,
	       struct err *err) MUST_CHECK;

/* A content block has a known type and that type's members (MCP T-22).  ERR_INVALID, where = at… */
int content_check(const json_t *block, const char *at, struct err *err) MUST_CHECK;
json_t *content_text(const char *p, size_t len);        /* a text block; p is UTF-8 */

#endif
