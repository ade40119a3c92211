#ifndef CALL_INT_H
#define CALL_INT_H

#include "audit/audit.h"
#include "audit/payload.h"
#include "base/map.h"
#include "base/text.h"
#include "call/call.h"
#include "ev/ev.h"
#include "limit/limit.h"
#include "registry/registry.h"

struct denials;
struct map;
struct limit_ticket;

enum call_state {
#define CALL_STATE_ENUM(name) CALL_##name,
	CALL_STATES(CALL_STATE_ENUM)
#undef CALL_STATE_ENUM
};
#define CALL_STATE_ONE(name) + 1
enum { CALL_STATE_COUNT = CALL_STATES(CALL_STATE_ONE) };
#undef CALL_STATE_ONE

struct call_engine {
	struct call_env env;
	struct seal *seal;              /* request state */
	struct list calls;              /* struct call.all, until they are freed */
	size_t running;
	struct denials *denials;
	json_t *no_args;                /* {} for calls without arguments */
	struct map *degraded;           /* what has been recorded as less than it could be; see cage.c */
	struct str scratch;             /* of one function at a time */
	struct ev_timer *turns;         /* armed while calls wait for a slot */
	struct list paced;              /* struct call.paced */
	struct ev_timer *pace;          /* armed while there are any */
	bool closed;                    /* freed while calls were running; they must touch nothing */
};

/* What goes wrong, made when it does: most calls need none of it. */
struct call_trouble {
	struct err err;
	enum call_refusal refusal;
	uint32_t missing_caps;
	bool executed;
	int rpc_code;
	json_t *rpc_data;
	struct schema_report *report;
	char rule[48];                  /* of call.denied */
};

struct call {
	struct list all;
	struct call_engine *eng;
	enum call_state state;
	const struct call_out *out;     /* NULL: nobody wants to know any more */
	void *out_arg;
	/* The request. */
	struct principal *who;
	struct reg_snapshot *snap;
	enum reg_kind kind;
	const char *tool_name;          /* as asked for; of a resource the URI */
	size_t tool_len;
	json_t *args, *answers;         /* args is never NULL */
	const char *args_text;
	size_t args_len;
	const char *peer, *client, *request;    /* until its first record is submitted */
	char *kept;                     /* these, of a call that waits; else NULL */
	uint32_t caps;
	int log_level;
	enum rev rev;
	int tport;
	bool modern, can_ask, completing, has_id, has_prev;
	uint8_t id[16], prev[16];
	struct trace *trace;            /* NULL: of none */
	/* Admitted. */
	const struct reg_tool *tool;    /* lives with snap */
	const struct reg_compiled *compiled;
	const struct backend_ops *ops;
	const void *plan;
	struct limit_ticket *ticket;    /* its slots, or its place in the queue */
	struct list paced;              /* call_engine.paced, while its next step waits for a later turn of the loop */
	ev_fn *step;
	size_t reserved;                /* bytes booked on the disk; 0 = none */
	bool caged;
	struct backend_cage cage;       /* with caged */
	uint64_t start_us;              /* monotonic */
	/* Running. */
	struct backend_op *op;          /* NULL while no run is open */
	struct ev_timer *timer;         /* deadline of a run, or of the answers */
	struct str state_bytes;         /* the handler's, from its last ask */
	unsigned rounds;
	bool cancelled;
	enum cancel_why why;
	/* The end. */
	int outcome;                    /* enum audit_outcome */
	uint32_t flags;
	int64_t n_res;
	bool has_result;
	struct backend_result result;
	json_t *requests;
	struct str sealed;
	struct call_trouble *trouble;
};

/* engine.c */
void call_set_state(struct call *c, enum call_state to);
struct call_trouble *call_trouble(struct call *c);      /* made on first use */
/* End the run or the wait: record the end, then answer. */
void call_end(struct call *c, int outcome);
void call_say_cancelled(struct call *c);                /* fills c->trouble */
void call_said_begin(struct call *c);                   /* what was borrowed for its first record is not needed any more */
void call_begin(struct call *c);                        /* AUDIT_BEGIN */
void call_run(struct call *c);                          /* RUN: start the handler */
void call_reply(void *arg);                             /* REPLY; an ev_fn */
void call_fill_event(const struct call *c, enum audit_kind kind, struct audit_event *ev);

/* admit.c: 0, or a refusal in c->trouble.  On success it has its slots or waits for them.  req is not used afterwards. */
int call_admit(struct call *c, const struct call_req *req);
/* Room for its records, once it has its slots.  As call_admit(). */
int call_admit_last(struct call *c);
/* The same of one that has waited: its tool may have been disabled or taken away meanwhile (SEC S-315). */
int call_admit_turn(struct call *c);
void call_count_budget(int rc, const struct schema_report *report);     /* of a schema's run with a report */
/* charge.c: whom a message is charged to.  tool NULL: it is no call. */
struct call_sets { struct limit_set of[LIMIT_SCOPES]; };
struct call_charged { const struct principal *who; const struct reg_tool *tool; const struct reg_compiled *compiled; };
void call_limits(const struct call_engine *eng, const struct call_charged *to, struct call_sets *sets, struct limit_req *ret);
/* pace.c: the next step, in this turn of the loop or in a later one. */
void call_pace_init(struct call_engine *eng);
void call_pace_fini(struct call_engine *eng);
void call_pace(struct call *c, ev_fn *step);
void call_took(const struct call *c, size_t bytes);     /* of the loop's time, for its tenant */
/* queue.c: calls that wait for their slots. */
void call_queue_init(struct call_engine *eng);
void call_queue_fini(struct call_engine *eng);
void call_wait(struct call *c);                         /* ADMIT -> QUEUED */
void call_unqueue(struct call *c);                      /* cancelled while it waits */
void call_on_turn(void *arg, bool granted);             /* a limit_turn_fn */
void call_queue_soon(struct call_engine *eng);          /* a slot may have become free */
/* cage.c: how the call's process will be confined.  Is that enough?  0, or a message in *err. */
int call_check_cage(struct call *c, struct err *err);
/* Record that it is less than this machine has, once for each tool of a tenant.  As writer_audit(). */
int call_note_cage(struct call *c);
void call_cage_init(struct call_engine *eng);
void call_cage_fini(struct call_engine *eng);
struct backend_env call_backend_env(const struct call_engine *eng);
/* params.c (MCP T-43 to T-45) */
int call_check_params(const struct call *c, const struct call_req *req, struct err *err);

/* ask.c */
void call_ask(struct call *c, struct backend_ask *ask);         /* the run ended with questions */
int call_open_state(struct call *c, const char *text, size_t len);      /* 0 or ERR_INVALID */
void call_ask_timeout(struct call *c);

/* finish.c */
void call_take_result(struct call *c, struct backend_result *res);      /* taken */
void call_take_error(struct call *c, const struct err *err, int rpc_code, json_t *data);
/* End with isError and this text. */
void call_fail(struct call *c, int outcome, const char *text);

/* said.c: what the call's records commit to and keep (AUDIT ).  The event borrows from *said. */
struct call_said {
	struct audit_payload payload;
	struct audit_hidden hidden[AUDIT_HIDDEN_MAX];
	struct str redacted, text;      /* pointers of what is hidden; the result as text */
};
int call_level(const struct call *c);                   /* in force, enum audit_level */
size_t call_reserve_bytes(const struct call *c);
void call_say_request(const struct call *c, struct audit_event *ev, struct call_said *said);
void call_say_end(const struct call *c, struct audit_event *ev, struct call_said *said);
void call_said_fini(struct call_said *said);

/* denied.c: record the refusal, then answer. */
struct denials *denials_new(struct call_engine *eng);
void denials_free(struct denials **d);
void call_deny(struct call *c);

#endif
