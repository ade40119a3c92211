#ifndef CALL_INT_H
#define CALL_INT_H

#include "assent/assent.h"
#include "audit/audit.h"
#include "audit/payload.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/tally.h"
#include "base/text.h"
#include "call/call.h"
#include "ev/ev.h"
#include "limit/limit.h"
#include "registry/registry.h"
#include "task/task.h"

struct denials; struct limit_ticket; struct pdp_asking;

enum call_state {
#define CALL_STATE_ENUM(name) CALL_##name,
	CALL_STATES(CALL_STATE_ENUM)
#undef CALL_STATE_ENUM
};
#define CALL_STATE_ONE(name) + 1
enum { CALL_STATE_COUNT = CALL_STATES(CALL_STATE_ONE) };
#undef CALL_STATE_ONE

/* By which limits somebody's messages are charged. */
struct call_limits {
	const struct principal *who;
	struct limit_set of[LIMIT_SCOPES];
	struct limit_req req;           /* points into it */
};

struct call_engine {
	struct call_env env;
	struct seal *seal;              /* request state */
	struct list calls;              /* struct call.all, until they are freed */
	struct mem_spares spares;       /* of them, each with room for a short name and arguments */
	size_t running;
	struct denials *denials;
	json_t *no_args;                /* {} for calls without arguments */
	struct map *degraded;           /* what has been recorded as less than it could be; see admit.c */
	struct str scratch;             /* of one function at a time */
	/* Of the message that was charged last.  While it is taken in, nothing else happens: a call that it turns out to be
	 * goes by the same limits. */
	struct call_limits charged;
	bool is_call;                   /* it has turned out to be one, which begins next */
	struct ev_timer *turns;         /* armed while calls wait for a slot */
	struct list paced;              /* struct call.paced */
	struct ev_timer *pace;          /* armed while there are any */
	void (*task_made)(struct call *c);      /* engine.c, for promote.c: it is one, or is not to be */
	void (*task_stop)(void *call);  /* somebody cancels it */
	void (*decided)(struct call *c, int rc);        /* engine.c, for decide.c: as call_decide() */
	void (*start_round)(struct call_engine *eng, const struct call_req *req);       /* and for park.c */
	struct ev_timer *rounds;        /* armed while tasks wait for a round (call_task_turns()) */
	struct list held;               /* calls that wait for a person (hold.c) */
	struct ev_timer *holds;
	void (*again)(struct call *c);  /* engine.c, for hold.c: it is admitted anew; and held.c's for end.c */
	int (*file)(struct call *c, const struct audit_event *ev, writer_audit_fn *done);
	const struct call_holding *holding;
	bool stopping;                  /* none begins any more */
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
	int64_t approval_id;            /* with REFUSE_APPROVAL: for which it waits, until then; 0: for none */
	uint64_t approval_until_us;
	bool files, waits;              /* the request for it is filed with its record; it can be waited for */
	char task[TASK_ID_LEN + 1];     /* that waits for the same one; "": none */
	struct { writer_audit_fn *done; void *arg; } filed;     /* follows when that is durable, of one that waits as a task */
};

struct call {
	struct list all;
	struct call_engine *eng;
	size_t size;                    /* with the texts behind it */
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
	const char *peer, *client, *model, *request;    /* until its first record is submitted */
	char *kept;                     /* these, of a call that waits; else NULL */
	uint32_t caps;
	int log_level;
	enum rev rev;
	int tport;
	struct call_hold *hold;         /* it waits for a person, or has; NULL: it has not */
	bool form_back, declined;       /* its caller was told that it waits, and waits no longer */
	bool modern, can_ask, completing, has_id, has_prev, ambiguous, drawn;   /* drawn: id is, though on no record yet */
	uint8_t id[16], prev[16];
	struct trace *trace;            /* NULL: of none */
	struct span *span, *run;        /* of the request; of the run that is open; NULL: none */
	int64_t assent_id;              /* of the approval that it is begun with; 0: it needs none */
	int64_t end_idx;                /* where its end stands in its log; -1: it does not */
	/* Admitted. */
	const struct reg_tool *tool;    /* lives with snap */
	const struct reg_compiled *compiled;
	const struct backend_ops *ops;
	const void *plan;
	struct limit_ticket *ticket;    /* its slots, or its place in the queue */
	struct list paced;              /* call_engine.paced, while its next step waits for a later turn of the loop */
	ev_fn *step;
	size_t reserved;                /* bytes booked on the disk; 0 = none */
	int level;                      /* enum audit_level of its first record, once it is known; else -1 */
	struct pdp_asking *asking;      /* who decides beside us is asked, or has been; NULL: nobody */
	bool sandboxed;
	struct backend_sandbox sandbox;       /* with sandboxed */
	uint64_t start_us;              /* monotonic */
	struct tally *tally;            /* its tenant's, while it waits and runs */
	/* Running. */
	struct backend_op *op;          /* NULL while no run is open */
	struct ev_timer *timer;         /* deadline of a run, or of the answers */
	struct str state_bytes;         /* the handler's, from its last ask */
	unsigned rounds;
	bool cancelled;
	bool begun;                     /* its begin is durable (HARDENING F-4) */
	struct task *task;              /* its caller has gone on, and it runs as this (TK-31); NULL: it is plain */
	bool may_task;                  /* it can become one */
	uint64_t ttl_ms;                /* of the task, from the beginning of the run */
	writer_audit_fn *task_done;     /* engine.c's, behind what promote.c does at the end */
	bool promoting, over;           /* that is on its way to the store, and it has ended meanwhile */
	bool far;                       /* it only follows what goes on elsewhere, which state_bytes takes up again */
	uint64_t started_us;            /* its run, of the loop's clock */
	enum cancel_why why;
	/* The end. */
	int outcome;                    /* enum audit_outcome */
	uint32_t flags;
	int64_t n_res;
	bool has_result;
	struct backend_result result;
	struct str text;                /* the result as its record has it; empty until it is written */
	struct call_part { size_t at, len; } content, structured;       /* of it */
	json_t *requests;
	struct str sealed;
	char *hint, *note;              /* what else its record says of why it failed; what it has said of itself; or NULL */
	struct call_trouble *trouble;
};

/* Of a result as text: a string with a limit fails where there is no memory (HARDENING F-15); sizes are checked
 * before. */
#define CALL_TEXT_MAX (SIZE_MAX / 4)

/* Made on first use. */
static inline struct call_trouble *call_trouble(struct call *c)
{
	if (!c->trouble)
		c->trouble = mem_zalloc(sizeof(*c->trouble));
	return c->trouble;
}

/* admit.c: 0, or a refusal in c->trouble.  On success it has its slots or waits for them, until on_turn() is called.
 * req is not used afterwards. */
int call_admit(struct call *c, const struct call_req *req, limit_turn_fn *on_turn);
/* Room for its records, once it has its slots.  As call_admit(). */
int call_admit_last(struct call *c);
/* The same of one that has waited: its tool may be disabled or gone meanwhile (SEC S-315); again: but room. */
int call_admit_turn(struct call *c), call_admit_again(struct call *c);
#define call_count_budget(rc, report) \
	((rc) != ERR_LIMIT ? (void)0 : \
	 metric_inc((report)->match_limit ? METRIC_schema_match_limit : METRIC_schema_step_limit))
/* Record that its sandbox is less than this machine has, once for each tool of a tenant.  As writer_audit(). */
int call_note_sandbox(struct call *c);
static inline struct backend_env call_backend_env(const struct call_engine *eng)
{
	return (struct backend_env){ .loop = eng->env.loop, .secrets = eng->env.secrets, .store = eng->env.store,
				     .fetcher = eng->env.fetcher, .upstreams = eng->env.upstreams,
				     .sandbox = eng->env.sandbox, .workers = eng->env.workers, .pool = eng->env.pool };
}
/* decide.c: 0: nobody has to be asked, or all allow it; 1: they are asked, and eng->decided() follows; < 0: refused, in
 * c->trouble. */
int call_decide(struct call *c);
/* Once: it is that of its records too. */
static inline void call_draw_id(struct call *c)
{
	if (!c->drawn)
		id_uuid7(c->id);
	c->drawn = true;
}
struct call_decision {                                  /* what an event borrows */
	struct str text;
	uint8_t digests[16][32];
	struct audit_field field[2];
};

/* state.c */
void call_seal_state(struct call *c);   /* what its handler wants back, into c->sealed */
void call_seal_form(struct call *c, const uint8_t asked[16], uint64_t until_us);        /* that it waits */
int call_open_state(struct call *c, const char *text, size_t len);      /* 0 or ERR_INVALID */

/* result.c */
void call_tally_in(struct call *c, enum tally_place place);     /* for scrapers: it waits, then runs, or either */
void call_tally_end(struct call *c);                    /* with its last outcome */
/* Of the loop's time, for its tenant. */
static inline void call_took(const struct call *c, size_t bytes)
{
	if (c->ticket)
		(void)limit_turn_bytes(c->ticket, ev_now_us(c->eng->env.loop), bytes);
}
void call_take_result(struct call *c, struct backend_result *res);      /* taken */
int call_take_error(struct call *c, const struct err *err, int rpc_code, json_t *data);   /* data taken; its outcome */
/* What a handler may ask of this caller; NULL, or what is wrong with it. */
const char *call_check_questions(const struct call *c, const struct backend_ask *ask);
/* Replace what there is by isError and a text. */
void call_put_failure(struct call *c, const char *text);

/* trace.c: spans (OP-403) */
const struct trace *call_trace(const struct call *c, bool onward);      /* of its records, or of what it asks */
void call_span_run(struct call *c);                     /* its handler starts */
void call_span_ran(struct call *c, int outcome);        /* and has ended, so; or it asks */
void call_span_end(struct call *c);                     /* what its request's span has to say of it */

/* payload.c: what the call's records commit to and keep (AUDIT ).  The event borrows from *payload. */
struct call_payload {
	struct audit_payload audit;
	struct audit_hidden hidden[AUDIT_HIDDEN_MAX];
	struct str redacted;            /* pointers of what is hidden */
	struct call_decision decision;
};
void call_fill_event(const struct call *c, enum audit_kind kind, struct audit_event *ev);
size_t call_reserve_bytes(struct call *c);
void call_payload_request(const struct call *c, struct audit_event *ev, struct call_payload *payload);
void call_payload_end(struct call *c, struct audit_event *ev, struct call_payload *payload);
void call_write_result(struct call *c);                 /* into c->text, for its record and its answer */
void call_payload_fini(struct call_payload *payload);

#endif
