#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"

/* Handlers: how a tool runs, and whatever else has one.  A handler is a row of functions, struct backend_ops.
 *
 * Life.  bind() compiles the handler block of a definition into a plan, once, when the definition is stored or loaded;
 * the plan lives in the definition's arena.  start() begins a run of it with a request, struct backend_req, and
 * reports by a sink, struct backend_sink.  A run ends in exactly one of result, ask, error.  After ask() it is over and
 * forgotten; with the answers a fresh run begins, and all it knows is what the request carries.  Hence: no side effect
 * before the last ask.
 *
 * Threads.  bind() is pure and may run on any thread; everything else is of the loop thread, where a sink is never
 * called from inside start().
 *
 * Walk.  app/handlers.c lists the handlers.  The registry calls backend_bind() for a definition; the call engine fills
 * a request and calls backend_start(), which opens the run's secrets and calls the handler's start(); what the handler
 * reports comes back through run.c, which masks and sanitizes it, to the engine's sink.  backend_cancel() asks for an
 * early end, which still comes by the sink. */

struct arena;
struct backend_op;
struct secret_source;
struct open_secrets;
struct exec_workers;
struct ev_loop;
struct fetcher;
struct sandbox;
struct trace;
struct upstreams;
struct worker_pool;

#define ASK_STATE_MAX (16u << 10)       /* bytes of a handler's state between rounds */
#define ASK_REQUESTS_MAX 16             /* questions of one ask */
#define BACKEND_BLOCKS_MAX 1000         /* content blocks of one result */
#define BACKEND_RESULT_MAX_DEFAULT (1u << 20)

struct backend_env {
	struct ev_loop *loop;
	const struct secret_source *secrets;  /* NULL: none is set */
	const char *store;                      /* directory of the store, which no handler may read; NULL: none */
	struct fetcher *fetcher;                /* all requests to the outside (net/fetch.h) */
	struct upstreams *upstreams;            /* other MCP servers (upstream/upstream.h); NULL: there are none */
	const struct sandbox *sandbox;          /* of all processes (sandbox/sandbox.h), behind all runs; NULL: none */
	struct exec_workers *workers;             /* processes that wait for calls (exec/exec.h); NULL: none is kept */
	struct worker_pool *pool;                 /* processes for queries (worker/worker.h); NULL: there are none */
};

/* How far the process of a run would be confined, as levels of sandbox/level.h. */
#define BACKEND_LEVEL_TEXT 64
struct backend_sandbox {
	char level[BACKEND_LEVEL_TEXT];         /* what it would reach; for the record (SEC S-510) */
	char wanted[BACKEND_LEVEL_TEXT];        /* what it must reach */
	char best[BACKEND_LEVEL_TEXT];          /* what this machine has */
	bool enough;                            /* else it is not started (SEC S-511) */
	bool by_default;                        /* because nobody has said what is: there are two ways out */
};

/* An argument that a header repeats on its way to another MCP server (MCP T-43). */
struct backend_param { const char *header, *pointer; };

struct backend_req {
	const void *plan;                       /* from bind(); lives until the end */
	const char *tool;                       /* the full name, as the caller sees it: get_weather, prompt:greet */
	const json_t *args;                     /* validated object; borrowed until the end */
	const char *args_text; size_t args_len; /* as received: this is what is forwarded */
	const struct backend_param *params; size_t nparams;     /* until start() has returned */
	const json_t *answers;                  /* inputResponses by key; NULL in the first run */
	const void *state; size_t state_len;    /* from the last ask(); the seal has been opened */
	const uint8_t *call_id;                 /* 16 bytes */
	bool recorded;                          /* its begin is durable: without, nothing runs (HARDENING F-4) */
	/* Who asks has written it (`tool test`): errors name paths, addresses and SQL, with where = a pointer into the
	 * definition, which a caller never learns. */
	bool author;
	int64_t tenant_id;
	const char *tenant, *principal, *rev;   /* for templates and the child contract */
	uint32_t caps;                          /* CAP_ bits that the client declared */
	bool far;                               /* what it does may go on elsewhere (far of the sink) */
	int log_level;                          /* least level of log lines that it wants, 0 debug … 7; 8: none */
	const struct trace *trace;              /* of the caller's (proto/trace.h), or NULL */
	uint64_t deadline_us;                   /* monotonic; the handler's own end, the engine has one too */
	size_t result_max;                      /* bytes of output */
	struct open_secrets *secrets;             /* of this run (backend/secrets.h), until its end; set by
						   * backend_start() */
};
struct backend_result {
	json_t *content;                        /* array of content blocks; never NULL */
	/* NULL = absent; JSON null is a value.  What a prompt gives beyond content blocks is structured: an object with
	 * messages, and of a resource one with contents, of a completion one with values (call_shape()). */
	json_t *structured, *meta;
	bool is_error;                          /* a failure of the tool itself is a result */
	bool links_there;                       /* links lead to another server: those to what the caller cannot read
						 * become text */
	/* For the record: exit status or HTTP status; signal; what its process used (0 = unknown). */
	int64_t xstat; bool has_xstat; int sig;
	uint64_t cpu_us, rss_kib;
};
struct backend_ask {
	json_t *requests;                       /* our key -> {method, params} */
	const void *state; size_t state_len;    /* opaque, <= ASK_STATE_MAX; borrowed; the core seals it */
};
/* The way back.  Loop thread, never from inside start(); one of result, ask, error comes, once and last,
 * cancelled or not.  json_t references are taken. */
struct backend_sink {
	/* total < 0 = unknown; note may be NULL */
	void (*progress)(void *arg, double done, double total, const char *note);
	void (*log)(void *arg, int level, const char *logger, json_t *data);        /* level 0 debug … 7 emergency */
	void (*result)(void *arg, struct backend_result *res);
	void (*ask)(void *arg, struct backend_ask *ask);
	/* ERR_TOOL: ends as isError with err->msg.  ERR_TIMEOUT, ERR_CANCELLED, ERR_LIMIT: likewise, outcome by
	 * code.  rpc_code != 0: the tool wants this JSON-RPC error (code, err->msg, data taken or NULL).
	 * ERR_CAPABILITY: the caller lacks capabilities that data.requiredCapabilities names. */
	void (*error)(void *arg, const struct err *err, int rpc_code, json_t *data);
	/* Before error(): what the process of the run used, likewise for the record. */
	void (*used)(void *arg, uint64_t cpu_us, uint64_t rss_kib);
	/* Before the end, at most once: what else may have made it fail, for who wrote the tool and for the record, never for
	 * its caller.  NULL: nobody wants to know. */
	void (*hint)(void *arg, const char *text);
	/* Of a run that may: what it does goes on elsewhere, and a run that gets this state and nothing else takes it up
	 * where this one, which only follows it, is cut off.  At most once, before the end.  NULL: it is only waited for. */
	void (*far)(void *arg, const void *state, size_t len);
	/* It takes long, and whoever waits for it may go on now; note: what it does, or NULL.  NULL: nobody wants to know. */
	void (*lasts)(void *arg, const char *note);
};
#define BACKEND_HINT_MAX 400            /* bytes of a hint */
/* Somebody wants to hear of it when what a resource gives is another.  fn: on the loop thread, never from inside
 * watch() or backend_unwatch(). */
typedef void backend_changed_fn(void *arg);
struct backend_watch_req {
	const void *plan;                       /* of the resource; not used afterwards, nor is args */
	const json_t *args;                     /* as a read of it has them: `uri`, and a template's variables */
	int64_t tenant_id; const char *tenant;
	bool recorded;                          /* as backend_req has it */
	backend_changed_fn *fn; void *arg;
};
struct backend_watch { void (*end)(struct backend_watch *w, bool recorded); };
/* recorded: so is its end.  Without, nobody elsewhere is told of it.  NULL is none. */
void backend_unwatch(struct backend_watch **w, bool recorded);

/* REVOKED: its caller is out.  STOPPED: an administrator ended it. */
enum cancel_why { CANCEL_BY_CLIENT, CANCEL_DEADLINE, CANCEL_REVOKED, CANCEL_STOPPED, CANCEL_SHUTDOWN };
/* What a run does elsewhere, as its definition has it: for its span, so never a value of an argument or a secret. */
struct backend_way {
	const char *method;                     /* of HTTP, or of MCP */
	const char *host; uint16_t port;        /* NULL, 0: none; never a path, which may itself be what is secret */
	const char *upstream, *item;            /* another MCP server, and what it calls what is called there; or NULL */
};
struct backend_leave {                          /* not used afterwards */
	const void *plan;
	const void *state; size_t state_len;
	int64_t tenant_id;
	const char *tenant, *principal;         /* on whose behalf it was begun */
	bool recorded;                          /* that it ends is */
};
struct backend_ops {
	const char *name;                       /* "static", "builtin", "exec", "sql" */
	/* One tool's handler block, `type` included; pure, no I/O.  ERR_INVALID with where relative to it. */
	int (*bind)(const json_t *handler, struct arena *mem, const void **ret_plan, struct err *err);
	void (*start)(const struct backend_env *env, const struct backend_req *req, const struct backend_sink *sink,
		      void *arg, struct backend_op **ret);
	void (*cancel)(struct backend_op *op, enum cancel_why why);     /* idempotent; the end still comes */
	/* NULL, or a level that is empty: its runs need no process. */
	void (*sandbox)(const struct backend_env *env, const void *plan, struct backend_sandbox *ret);
	void (*way)(const void *plan, struct backend_way *ret);         /* NULL: it does nothing elsewhere; ret is zeros */
	/* Nobody follows what goes on elsewhere any more, with the state that far() or ask() gave: it may end.  Nothing comes
	 * back.  NULL: nothing that it does goes on elsewhere. */
	void (*leave)(const struct backend_env *env, const struct backend_leave *what);
	/* NULL: nobody says when what it gives changes.  ERR_LIMIT: too many are watched already; ERR_AUDIT: something
	 * would have to be sent, and is not recorded. */
	int (*watch)(const struct backend_env *env, const struct backend_watch_req *req, struct backend_watch **ret,
		     struct err *err);
};

/* The text of a level, in the order that all of them have.  ERR_INVALID: it is none. */
int backend_level_check(const char *level, struct err *err) MUST_CHECK;
/* This level must be reached as well. */
void backend_sandbox_require(struct backend_sandbox *sandbox, const char *level);
/* ERR_DENIED when it is not enough; the message says what is missing, the hint where to change it. */
int backend_sandbox_check(const struct backend_sandbox *sandbox, struct err *err) MUST_CHECK;

/* The one gate to all handlers (HARDENING F-4).  ERR_AUDIT: it is not recorded, and nothing was started.  Run a
 * handler: as ops->start() and ops->cancel(), with what is done for all of them around it.  Secrets that the run used
 * are blanked from all that it says. */
int backend_start(const struct backend_ops *ops, const struct backend_env *env, const struct backend_req *req,
		  const struct backend_sink *sink, void *arg, struct backend_op **ret, struct err *err) MUST_CHECK;
void backend_cancel(struct backend_op *op, enum cancel_why why);        /* op: from backend_start() */

/* A content block, or a part of a resource, whose texts are clean as those of a tool's result are: itself or a copy.
 * New reference. */
json_t *backend_clean_block(json_t *block);
/* The same of one text; takes it, returns it or a copy.  NULL and what is no text stay. */
json_t *backend_clean_text(json_t *text);

/* Compile a handler block by the one of these handlers that its type names; a table ends with NULL and has at most
 * BACKEND_TABLE_MAX.  ERR_INVALID with "did you mean" for an unknown type. */
#define BACKEND_TABLE_MAX 16
int backend_bind(const struct backend_ops *const *table, const json_t *handler, struct arena *mem,
		 const struct backend_ops **ret_ops, const void **ret_plan, struct err *err) MUST_CHECK;

/* The shapes of what handlers give: content blocks; messages of a prompt, a role and a block each; contents of a
 * resource, text or blob each, whose uri and mimeType may be missing.  ERR_INVALID, where = at… */
int content_check_all(const json_t *array, const char *at, struct err *err) MUST_CHECK;
int content_check_messages(const json_t *array, const char *at, struct err *err) MUST_CHECK;
int content_check_contents(const json_t *array, const char *at, struct err *err) MUST_CHECK;

#endif
