#ifndef TESTS_BACKEND_RUN_H
#define TESTS_BACKEND_RUN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"

/* One run of a handler and everything that came back, for all tests of the room. */

#define PATIENCE_MS 60000

enum end_kind { END_NONE, END_RESULT, END_ASK, END_ERROR };

struct run {
	struct ev_loop *loop;
	struct arena *mem;
	json_t *handler, *args, *answers;
	const struct backend_ops *ops;
	struct backend_op *op;
	struct backend_req req;
	bool starting, done;
	unsigned ends, notices_after_end;
	/* the end */
	enum end_kind kind;
	struct backend_result res;
	json_t *requests; char *state; size_t state_len;
	struct err err; int rpc_code; json_t *rpc_data;
	uint64_t cpu_us, rss_kib;               /* before an error */
	/* notices */
	unsigned nprogress, nlog, nlasts;
	double progress_done, progress_total; char note[80];
	int level; char logger[80]; size_t logger_len; json_t *log_data;
	void (*on_progress)(struct run *r);
};
struct run_opts {
	const char *args;               /* JSON object; NULL = {} */
	const char *answers, *state;    /* of a re-run */
	int64_t tenant_id;
	uint32_t caps;
	uint64_t timeout_us;            /* 0 = 10 s */
	bool expired;                   /* the deadline is over before the start */
	bool unrecorded;                /* it is refused: no op, no end */
	bool author;                    /* as the author of the definition */
	size_t result_max;              /* 0 = the default */
};

struct ev_loop *run_loop(void);                         /* one per program */
struct upstreams *run_upstreams(void);                  /* knows one, "peer": tests/peers/mcp_echo */
struct fetcher *run_fetcher(void);                      /* the same */
const char *run_dir(void);                              /* a directory of this program, removed at exit */
void run_write_file(const char *name, const char *text, unsigned mode);
char *run_read_file(const char *name);                  /* NULL when there is none; free() it */

void run_secret_set(const char *name, const char *value);      /* from now on, for all runs */

/* Takes the handler.  The end has not come yet when this returns. */
void run_start(struct run *r, json_t *handler, const struct run_opts *opts);
void run_wait(struct run *r);                           /* exactly one end, and nothing after it */
void run_turns(unsigned n);                             /* turns of the loop */
void run_free(struct run *r);
void run_it(struct run *r, json_t *handler, const struct run_opts *opts);       /* start, wait */
const char *run_text(const struct run *r);              /* the first block's text, "" without */

/* Handlers. */
json_t *handler_json(const char *text);                 /* ' stands for " */
json_t *handler_sh(const char *script, const char *output);     /* sh -c, braces taken literally */

#define NO_OPTS (&(const struct run_opts){ 0 })
#define OPTS(...) (&(const struct run_opts){ __VA_ARGS__ })

#endif
