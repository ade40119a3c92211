#ifndef TESTS_MCP_RIG_H
#define TESTS_MCP_RIG_H

/* A server of the core on a store of the test's own: two tenants, tools, scripted peers on byte streams and HTTP.
 * The call engine and the writer are doubles, so that a test holds each call in any state it likes. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "audit/audit.h"
#include "base/mem.h"
#include "base/text.h"
#include "call/call.h"
#include "ev/ev.h"
#include "mcp/mcp.h"
#include "proto/trace.h"
#include "proto/rev.h"
#include "registry/registry.h"
#include "tenant/tenant.h"

#define RIG_CALLS_MAX (MCP_INFLIGHT_MAX + 8)
#define RIG_RECORDS_MAX 64

/* A call as the engine's double holds it. */
struct rig_call {
	struct rig *rig;
	struct call_req req;            /* texts copied below */
	char *tool, *args_text, *state;
	struct trace trace;             /* req.trace leads here, or is NULL */
	char *param_name, *param_value; /* of the first Mcp-Param-*, or NULL */
	const struct call_out *out;
	void *arg;
	bool cancelled, detached, ended;
	enum cancel_why why;
	json_t *answers;                /* of call_answer() */
};

struct rig_record { int kind; int64_t tenant_id; uint64_t generation, receivers; char cause[64]; };

struct rig {
	void *rows;
	struct ev_loop *loop;
	struct tenants *tenants;
	struct registry *registry;
	struct mcp_server *srv;
	int64_t acme, other;            /* tenants; both have echo, acme has secret, other has private */
	int64_t echo, secret;           /* tools */
	struct principal *who_acme, *who_other;
	struct rig_call *calls[RIG_CALLS_MAX];
	size_t ncalls;
	unsigned charged, streams;      /* to the tenants, and open */
	uint32_t debt_ms;               /* not 0: messages come too often */
	unsigned filled;                /* percent */
	bool no_streams;
	struct rig_record records[RIG_RECORDS_MAX];
	size_t nrecords;
	bool writer_down;
	bool denials_full;              /* no more records of what is denied */
	struct rig_watch *watches;      /* of resources */
	size_t nwatches;
};

void rig_open(struct rig *r);
/* A prompt greet with a completion, a resource memo://one, a template page://{n}, granted to nobody. */
void rig_hosted(struct rig *r);
void rig_update(struct rig *r, const char *uri);        /* its handler says that it gives something else */
void rig_close(struct rig *r);
void rig_turn(struct rig *r);                           /* until nothing is deferred */
/* Change rows, publish, tell.  Returns how many were told. */
size_t rig_grant(struct rig *r, int64_t tenant_id, const char *glob);
size_t rig_ungrant(struct rig *r, int64_t tenant_id, const char *glob);
void rig_suspend(struct rig *r, int64_t tenant_id);
int64_t rig_tool(struct rig *r, const char *name, const char *more_members);

/* What a peer has received, in order. */
struct rig_box { char *text[2 * MCP_INFLIGHT_MAX]; size_t n, read; };
void rig_box_free(struct rig_box *b);

/* A byte stream. */
struct rig_peer {
	struct rig *rig;
	struct mcp_channel *ch;
	struct principal *who;
	int tport;
	struct rig_box box;
	unsigned finishes;
	size_t queued;                  /* what the push ops say is not yet written */
	bool hung_up;                   /* by push ops */
	bool told_to_close;             /* by an answer */
	bool put_out;                   /* set by a test: what it sends is not heard */
};
void rig_peer_open(struct rig *r, struct rig_peer *p, struct principal *who);
void rig_peer_close(struct rig_peer *p);
void rig_send(struct rig_peer *p, const char *line);    /* and turn */
void rig_feed(struct rig_peer *p, const char *line);    /* no turn: as pipelined input */
void rig_handshake(struct rig_peer *p, enum rev rev, const char *capabilities);
/* The next text; fails when there is none.  rig_none: nothing has come. */
const char *rig_next(struct rig_box *b);
void rig_none(struct rig_box *b);
void rig_expect(struct rig_box *b, const char *want);   /* equal */
void rig_expect_has(struct rig_box *b, const char *part);

/* One HTTP exchange. */
struct rig_http {
	struct rig *rig;
	struct mcp_exchange *x;
	struct rig_box box;             /* notices, then the answer unless it is empty */
	bool finished;
	size_t notices;
	int status;
	uint32_t retry_after_s;
	char session[64], scope[160];
};
struct rig_head {                       /* NULL members: absent */
	const char *version, *session, *method, *name;
	const char *param, *param_value;
	bool no_sse, duplicate;
	const char *traceparent, *tracestate;
};
void rig_post(struct rig *r, struct rig_http *h, struct principal *who, const struct rig_head *head,
	const char *body);
void rig_http_free(struct rig_http *h);                 /* the peer leaves when no answer came */
/* A modern POST: head and `_meta` made from the arguments; params: further members, a comma first, or "". */
void rig_modern(struct rig *r, struct rig_http *h, const char *method, const char *name, const char *params,
		const char *capabilities);
char *rig_modern_line(const char *id, const char *method, const char *params, const char *capabilities);

/* A session's GET stream. */
struct rig_stream { struct rig *rig; struct rig_box box; bool hung_up; };
void rig_stream_open(struct rig *r, struct rig_stream *s, const char *session, struct principal *who);
/* The peer leaves.  Due before *s goes out of scope: the session would write to it when it ends. */
void rig_stream_close(struct rig_stream *s, const char *session);

/* The newest call, and ways for it to end.  Each turns. */
struct rig_call *rig_call(struct rig *r);
void rig_end_text(struct rig_call *c, const char *text);
void rig_end_structured(struct rig_call *c, json_t *structured);    /* taken */
void rig_end_refused(struct rig_call *c, enum call_refusal why, enum err_code code, const char *msg);
void rig_end_call(struct rig_call *c, struct call_end *end);
void rig_forget_calls(struct rig *r);                   /* those that have not ended end cancelled */

#endif
