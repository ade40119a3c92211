#ifndef EXEC_INT_H
#define EXEC_INT_H

#include "backend/handler.h"
#include "base/text.h"
#include "ev/child.h"
#include "exec/sandbox.h"

/* The parts of the exec handler: the plan and the command line of a run (exec.c), the child contract as pure functions
 * over bytes (contract.c, fuzzed), one run and its process (run.c). */

#define EXEC_REUSE_MAX 16               /* processes that a tool keeps, for each tenant */
#define EXEC_ARGV_MAX 128               /* elements of argv */
#define EXEC_ENV_MAX 64                 /* variables of a definition */
#define EXEC_ARG_MAX ((128u << 10) - 1) /* bytes of one element: the kernel's MAX_ARG_STRLEN */
#define EXEC_COMMAND_MAX (192u << 10)   /* bytes of argv and environment together, below SANDBOX_POLICY_MAX */

enum exec_stdin { EXEC_STDIN_JSON, EXEC_STDIN_NONE, EXEC_STDIN_TEMPLATE };
enum exec_output { EXEC_TEXT, EXEC_JSON, EXEC_STREAM };

struct exec_arg {
	const struct tpl *tpl;
	const char *path;               /* absolute and without a template; else NULL */
	bool operand;                   /* after a literal "--": a leading '-' is no option (SEC S-503) */
};
struct exec_var { const char *name; const struct tpl *value; };

struct exec_plan {
	const char *program;            /* absolute */
	const char *sha256;             /* that it must have; NULL = any */
	const struct exec_arg *argv; size_t argc;       /* argv[0] is the program */
	const struct exec_var *env; size_t nenv;
	const char *cwd;                /* NULL = "/" */
	enum exec_stdin in;
	const struct tpl *in_tpl;       /* EXEC_STDIN_TEMPLATE */
	enum exec_output out;
	bool traced;                    /* the caller's trace is in its environment */
	unsigned reuse;                 /* how many processes wait for further calls; 0 = none */
	uint8_t handler[32];            /* with reuse: digest of the handler block */
	const char *const *files;       /* absolute paths that argv names by constants; NULL-terminated */
	struct exec_sandbox sandbox;
};

/* The lines of a child (product.md 6), one JSON object with one member each:
 *
 *   {"progress":{"done":3,"total":10,"message":"…"}}   total and message optional
 *   {"log":{"level":"info","data":…,"logger":"…"}}     data any JSON; logger optional
 *   {"task":{"message":"…"}}                           it takes long; message optional
 *   {"content":{…}}                                    a content block
 *   {"ask":{"requests":{KEY:{"method":…,"params":{}}},"state":"…"}}     last line of the run
 *   {"result":{"structuredContent":…,"content":[…],"isError":false,"_meta":{}}}  last line of the call
 *   {"error":{"code":-32602,"message":"…","data":…}}   last line of the call
 */
#define CHILD_LINE_MAX (1u << 20)       /* bytes of a line without its newline */

enum child_kind { CHILD_PROGRESS, CHILD_LOG, CHILD_TASK, CHILD_CONTENT, CHILD_ASK, CHILD_RESULT, CHILD_ERROR };

/* One line.  Everything is borrowed and dies with the callback; a json_t that is to stay needs a reference. */
struct child_msg {
	enum child_kind kind;
	size_t len;                     /* bytes of the line */
	double done, total;             /* progress; total < 0 = unknown */
	const char *text; /* progress, task: message; log: logger; error: message; may be NULL but in error */
	int level;                      /* log */
	int code;                       /* error */
	json_t *data;                   /* log, error: data or NULL; content: the block; ask: requests */
	json_t *content, *structured, *meta; bool is_error;     /* result; NULL = absent */
	const char *structured_text; size_t structured_len;     /* as the child wrote it */
	const char *state; size_t state_len;                    /* ask; NULL = none */
};
/* Negative ends the reading with this code. */
typedef int child_msg_fn(void *arg, const struct child_msg *msg, struct err *err);

struct child_reader {
	struct str line;                /* a line that is not complete yet */
	size_t lines;                   /* complete ones so far, for messages */
	bool over;                      /* the last line has been read */
};
#define CHILD_READER_INIT { STR_INIT, 0, false }

/* Cut bytes into lines and hand out each message.  ERR_TOOL: not a line of the contract, or one after the last;
 * ERR_LIMIT: longer than CHILD_LINE_MAX. */
int child_read(struct child_reader *r, const char *p, size_t n, child_msg_fn *fn, void *arg,
	       struct err *err) MUST_CHECK;
/* The end of the output: a complete message without its newline still counts. */
int child_read_end(struct child_reader *r, child_msg_fn *fn, void *arg, struct err *err) MUST_CHECK;
void child_reader_fini(struct child_reader *r);
/* The line that the child reads first.  timeout_ms: what is left. */
void child_write_request(const struct backend_req *req, uint64_t timeout_ms, struct str *out);

/* --- exec.c */

/* argv has room for argc + 1, env for nenv + 3 pointers, all NULL; mem is of EXEC_COMMAND_MAX.  ERR_TOOL: an argument
 * is missing or would become an option; ERR_LIMIT. */
int exec_render_argv(const struct exec_plan *plan, const struct backend_req *req, struct arena *mem,
		     const char **argv, struct err *err) MUST_CHECK;
int exec_render_env(const struct exec_plan *plan, const struct backend_req *req, struct arena *mem,
		    const char **env, struct err *err) MUST_CHECK;

/* --- explain.c */

struct sandbox_policy;
/* What of the end of stderr of a failed run, or of its status (a signal is negative), looks like the sandbox, and which
 * line of the definition would allow it: at most BACKEND_HINT_MAX bytes, or none.  The policy is that of the run. */
void exec_explain(const struct sandbox_policy *p, const char *tail, int status, struct str *out);

/* --- run.c */

void exec_start(const struct backend_env *env, const struct backend_req *req, const struct backend_sink *sink,
		void *arg, struct backend_op **ret);
void exec_cancel(struct backend_op *op, enum cancel_why why);

/* --- code.c: words of a command line that are code */

struct code_row;
struct code_reader {
	const struct code_row *row;     /* NULL: nothing is known of the program */
	const char *name;
	bool seen, placed;              /* placed: it is the program; else a word that could be one */
	bool next, armed, given, over, variable;
	unsigned operands, skip;
};
/* The next word of a command line, zeroed readers before the first.  ERR_INVALID: it is code, or chooses some, and
 * has a template (HARDENING F-20). */
int exec_code_check(struct code_reader r[2], const char *text, bool templated, const char *at,
		    struct err *err) MUST_CHECK;

#endif
