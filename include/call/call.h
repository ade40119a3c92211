#ifndef CALL_CALL_H
#define CALL_CALL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include "base/err.h"
#include "json/json.h"
#include "proto/rev.h"
#include "registry/registry.h"
#include "schema/schema.h"
#include "task/task.h"

/* One tools/call, prompts/get, resources/read or completion by a handler, from admission to reply; the state list is
 * the pipeline (AUDIT 2).  Loop thread. */

struct assent; struct assents;
struct audit_event;
struct exec_workers;
struct call;
struct call_engine;
struct call_where;
struct ev_loop;
struct fetcher;
struct limiter;
struct pdps;
struct principal;
struct sandbox;
struct seal;
struct span;
struct tenants;
struct upstreams;
struct worker_pool;
struct writer;

#define CALL_STATES(X) X(ADMIT) X(QUEUED) X(DECIDING) X(HELD) X(AUDIT_BEGIN) X(RUN) X(ASKING) X(AUDIT_END) X(REPLY) \
	X(DEAD)

#define CALL_ROUNDS_MAX 8               /* asks carried for a legacy caller (product.md 6) */
#define CALL_ASK_TIMEOUT_MS 300000      /* waiting for a legacy caller's answers */
#define CALL_HELD_MAX 256               /* calls that wait for a person while their callers do */
#define CALL_HELD_TENANT_MAX 64         /* of a tenant; one more is answered without waiting */
#define CALL_STATE_TTL_S 3600           /* life of a sealed request state */
#define CALL_TASK_RETRY_MS 60000        /* of who needs a task, and has too many */
#define CALL_TASK_ANSWERS_MAX (1u << 20)        /* bytes of the answers of one round of a task */

struct call_env {                       /* borrowed for the engine's life */
	struct ev_loop *loop;
	struct tenants *tenants;
	struct registry *registry;
	struct limiter *limiter;
	struct writer *writer;
	const uint8_t *master;          /* seal keys are derived from it */
	const struct secret_source *secrets;  /* NULL: none is set */
	const char *store;              /* its directory; NULL: none */
	const struct sandbox *sandbox;    /* of the processes of tools; NULL: none is started */
	struct exec_workers *workers;     /* those that are kept; NULL: none */
	struct worker_pool *pool;               /* for work that can run away; NULL: there is none */
	struct fetcher *fetcher;                /* what handlers ask the outside with */
	struct assents *assents;                /* calls that persons agree to; NULL: none of them can run */
	struct tasks *tasks;                    /* calls that outlast their request; NULL: there are none */
	struct upstreams *upstreams;            /* other MCP servers; NULL: there are none */
	struct pdps *pdps;                      /* who decides beside us (PD-08); NULL: nobody */
	uint32_t hold_ms;               /* how long a call waits for a person before its caller is told (HA-06) */
	int audit_level;                /* enum audit_level: the server's default */
	/* Of a tenant that has no limit of its own; 0 = any. */
	uint32_t queue;                 /* calls that may wait */
	uint32_t requests;              /* messages a second, calls apart */
	/* Calls of servers before this one, which end as ours do (call_cancel_where()); how many.  NULL: none */
	size_t (*also)(void *arg, const struct call_where *where, enum cancel_why why);
	void *also_arg;
};
struct call_engine *call_engine_new(const struct call_env *env);
/* The server is about to stop: what only follows what goes on elsewhere is parked, and no task begins another round. */
void call_engine_put_off(struct call_engine *eng);
/* Cancel what runs; the ends come from the handlers and the writer. */
void call_engine_cancel_all(struct call_engine *eng, enum cancel_why why);
/* Who waits for a person is told to come again: nobody is asked here any more. */
void call_engine_drain(struct call_engine *eng);
size_t call_engine_running(const struct call_engine *eng);
/* Calls that can run on while their end alone is left to be recorded, as whoever it is does that (OP-903): they have
 * begun, and none is a task or about to be one, or cancelled.  stay: none becomes one any more. */
void call_engine_stay(struct call_engine *eng);
typedef void call_staying_fn(void *arg, const uint8_t id[16], uint64_t begun_us, const struct principal *who);
size_t call_engine_staying(const struct call_engine *eng, call_staying_fn *fn, void *arg);      /* how many */
void call_engine_cancel_others(struct call_engine *eng);        /* of them: because the server ends */
/* All calls have ended; writes the summaries of denied calls that are due. */
void call_engine_free(struct call_engine **eng);

struct call_param { const char *name, *value; size_t value_len; };     /* a decoded Mcp-Param-* header */

/* Booked on the disk for begin and end of a call, and so much for each byte of a value that is kept: packing loss and
 * the log's copy (AUDIT A-211). */
#define CALL_RESERVE_BYTES 8192
#define CALL_RESERVE_FACTOR 5 / 2
#define CALL_DENIED_PER_S 10            /* records of denied calls of one credential; more are summed up */
#define CALL_DENIED_SUMMARY_MS 60000
#define CALL_DENIED_CREDS_MAX 4096      /* credentials whose denials are summed up at once */

struct call_req {                       /* texts are copied; args and answers are taken over */
	struct principal *who;          /* counted */
	bool in_standing;               /* who has been checked in this turn of the loop (principal_check()) */
	struct reg_snapshot *snap;      /* its reference is taken over: held to the end of the call */
	/* What is called: a tool or a prompt by its name, REG_RESOURCE by a URI that is read. */
	enum reg_kind kind;
	const char *tool; size_t tool_len;
	bool ambiguous;                 /* of an app: several go by this name at their upstreams, so it is unknown (UI-05) */
	/* Complete this argument: of a prompt by name, or REG_TEMPLATE by its URI template.  NULL: call it. */
	const char *complete;
	json_t *args;                   /* object or NULL = {}; of a resource those of reg_find_uri() */
	const char *args_text; size_t args_len;         /* raw span; "" with args NULL */
	json_t *answers;                /* inputResponses of a retried request, or NULL */
	const char *sealed_state; size_t sealed_len;    /* requestState of a retried request, or NULL */
	const struct call_param *params; size_t nparams; bool check_params;    /* modern HTTP (MCP T-43) */
	uint32_t caps;                  /* what this very caller declared */
	int log_level;                  /* as backend_req has it */
	bool can_ask;                   /* legacy: the channel can carry server requests now */
	enum rev rev;
	int tport;                      /* enum audit_tport */
	/* A further round of this task, and what its handler wanted back; NULL: a call of its own. */
	struct task *task;
	const void *state; size_t state_len;
	bool far;                       /* which takes up what goes on elsewhere */
	const struct trace *trace;      /* copied; NULL: of none, or that of its span */
	struct span *span;              /* of the request, or NULL; taken over, and given back by call_end */
	const char *request;            /* its HTTP request's name, for the log, or NULL; borrowed for call_start() */
	/* Address, client as claimed, model as told; NULL = unknown; borrowed for call_start(). */
	const char *peer, *client, *model;
};
/* Why a call was refused before it ran, beside err.code; the words of the revision are mcp's matter. */
enum call_refusal { REFUSE_NONE, REFUSE_UNKNOWN_TOOL, REFUSE_ARGUMENTS, REFUSE_RULES, REFUSE_STATE, REFUSE_PARAMS,
	REFUSE_CAPABILITY, REFUSE_RATE, REFUSE_BUSY, REFUSE_CANCELLED, REFUSE_SANDBOX, REFUSE_SCOPE, REFUSE_AUDIT,
	REFUSE_POLICY, REFUSE_UNDECIDED, REFUSE_APPROVAL, REFUSE_INTERNAL };
/* Exactly one of result, requests, task, err; references are taken over.  The result of anything but a tool is an
 * error, or in its structured part: {messages}, {contents} or {values}. */
struct call_end {
	const uint8_t *call_id;                         /* 16 bytes; NULL when refused before it had one */
	struct backend_result *result;
	enum reg_output output;                         /* with result: how it was listed (MCP B-16) */
	/* With result: what it is made of, as jx_write() has it; p NULL: not written, or absent. */
	struct jx_span content, structured;
	json_t *requests; const char *sealed_state;     /* modern: input_required; borrowed text */
	const struct task *task;                        /* it runs on as this one, and has its own end (TK-31) */
	const struct err *err;
	enum call_refusal refusal;                      /* with err */
	const struct schema_report *report;             /* with REFUSE_ARGUMENTS */
	uint32_t missing_caps;                          /* with REFUSE_CAPABILITY */
	int64_t approval_id;    /* with REFUSE_APPROVAL or requests: for which it waits, until when; 0: for none */
	uint64_t approval_until_us;
	bool executed;          /* with err REFUSE_AUDIT: the tool ran, its end is not recorded */
	struct span *span;                              /* that of the request, which has been said about its call */
	int rpc_code; json_t *rpc_data;                 /* the tool asked for this JSON-RPC error; data may be NULL */
};
struct call_out {                       /* implemented by mcp */
	void (*progress)(void *arg, double done, double total, const char *note);
	void (*log)(void *arg, int level, const char *logger, json_t *data);
	/* Legacy: put the questions (key -> {method, params}) to the caller as real requests; call_answer()
	 * follows.  ERR_CAPABILITY or ERR_CANCELLED: the call ends with a tool error.  NULL: those that are open are
	 * taken back. */
	int (*ask)(void *arg, const json_t *requests, struct err *err);
	bool (*is_gone)(void *arg);                     /* the peer left: flag "not delivered" in the end record */
	void (*finish)(void *arg, struct call_end *end);        /* once, last, not before call_start() returned */
};
/* The result of anything but a tool in its one form, in place.  ERR_INVALID: it cannot be. */
struct call_form {
	enum reg_kind kind;
	bool completing;
	const char *uri; size_t uri_len;                /* of a resource: what is read, and its type or NULL */
	const char *mime, *page;                        /* page: as reg_compiled has it */
};
int call_shape(const struct call_form *form, struct backend_result *res, struct err *err) MUST_CHECK;
/* A message that is no call: 0, or ERR_RATE with retry_ms (SEC S-803).  loose: also when a little too often. */
int call_charge(struct call_engine *eng, const struct principal *who, unsigned cost, bool loose,
		struct err *err) MUST_CHECK;
void call_charge_more(struct call_engine *eng, const struct principal *who, unsigned cost);     /* known only now */
/* It is a call after all. */
void call_charge_back(struct call_engine *eng, const struct principal *who, unsigned cost);
/* The server is filled to so many percent, and the tenant has more than its share (SEC S-807): leave it out. */
bool call_shed(const struct call_engine *eng, const struct principal *who, unsigned percent);
/* It is so full that connections are not kept, and the tenant is among those who fill it (SEC S-807). */
bool call_crowds(const struct call_engine *eng, const struct principal *who);
/* A stream of a tenant, open until it is dropped.  ERR_BUSY. */
int call_hold_stream(struct call_engine *eng, int64_t tenant_id, struct err *err) MUST_CHECK;
void call_drop_stream(struct call_engine *eng, int64_t tenant_id);
void call_start(struct call_engine *eng, const struct call_req *req, const struct call_out *out, void *arg,
		struct call **ret);
void call_answer(struct call *c, json_t *answers);      /* takes; the handler runs again */
void call_cancel(struct call *c, enum cancel_why why);  /* finish() still comes, with ERR_CANCELLED */
/* The questions of a task that are open, as JSON by their names on the wire; NULL: it asks no more.  As
 * task_result(). */
int call_task_questions(struct call_engine *eng, struct task *t, task_result_fn *done, void *arg) MUST_CHECK;
/* Answers, taken, of who: ev (task.input, whose texts live until done) and they are durable before done says 0, and
 * with the last one the next round begins in the same turn.  0 as well when there is no such question (TK-08, TK-09).
 * ERR_LIMIT: they are too large, and none is kept; ERR_NOT_FOUND: it is gone; ERR_BUSY, ERR_AUDIT.  done: perhaps
 * before the return. */
void call_task_answer(struct call_engine *eng, struct task *t, struct principal *who, json_t *answers,
		      const struct audit_event *ev, task_done_fn *done, void *arg);
/* Somebody has agreed to a call, or nobody will any more: the tasks that wait for it are looked at. */
void call_look_at_held(struct call_engine *eng, const struct assent *a);
/* The id of the task that waits for it, borrowed until the loop turns; NULL: its caller has to call again. */
const char *call_held_as(struct call_engine *eng, const struct assent *a);
/* As task_cancel(), of whatever it waits for too: a person need not agree any more, and who works on it elsewhere is
 * told when that is on record. */
int call_task_cancel(struct call_engine *eng, struct task *t, const struct audit_event *ev, task_done_fn *done,
		     void *arg) MUST_CHECK;
/* Nobody will read the answer (legacy HTTP): the call runs on, out is not used again. */
void call_detach(struct call *c);
/* Hear of it when what a resource gives is another; plan and tenant of req are filled in.  *ret NULL: nobody says so.
 * ERR_LIMIT: too many are watched already.  ERR_AUDIT: somebody would have to be told, which is not recorded. */
int call_watch(struct call_engine *eng, struct reg_def *def, const struct backend_watch_req *req,
	       struct backend_watch **ret, struct err *err) MUST_CHECK;
/* For what is refused before it is a call: may it have a record of its own (AUDIT A-218)?  If not, it has been counted
 * for the caller's summary. */
bool call_may_record_denied(struct call_engine *eng, struct principal *who, enum call_refusal why);
/* Which calls: those for which all of this holds; 0 and NULL = any. */
struct call_where {
	int64_t tenant_id, principal_id, cred_id;
	const char *tool;               /* full name of what is called */
};
/* Cancel what runs, and tasks that are parked, each on record; how many that were. */
size_t call_cancel_where(struct call_engine *eng, const struct call_where *where, enum cancel_why why);
/* Wire to writer_on_late(): the engine records the end of a begin that came through too late. */
void call_late_begin(void *engine, const struct audit_event *begin);

#endif
