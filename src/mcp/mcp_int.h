#ifndef MCP_INT_H
#define MCP_INT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "base/text.h"
#include "mcp/mcp.h"
#include "proto/encode.h"
#include "proto/errmap.h"
#include "proto/rev.h"
#include "proto/rpc.h"
#include "registry/registry.h"
#include "task/task.h"

/* What the files of this folder share.  An exchange is one message in and its answer back; it holds the
 * requests of that message (one, or the members of a batch).  A channel or a legacy session holds what the
 * legacy era must remember of a peer, and the table of unanswered ids. */

struct audit_event;
struct call;
struct ev_timer;
struct mcp_sub;
struct mcp_tenant;
struct seal;
struct span;

#define MCP_SESSION_ID_LEN 32           /* base62: 190 bits (MCP H-11) */
#define MCP_CLIENT_SIZE 128             /* "name/version" as claimed, for views */
#define MCP_URI_SIZE (REG_URI_MAX + 2)  /* longer URIs are cut, and unknown then */

/* What was listed last, by principals that share a slot: the same again within LIST_REPEAT_US is not recorded again. */
enum { LIST_SLOTS = 16, LIST_REPEAT_US = 1000000 };
struct mcp_listed {
	int64_t principal_id, cred_id, generation;
	size_t len; int tport; uint64_t at_us; const void *what;
};

/* Per tenant, from its first peer on: who is told of a change. */
struct mcp_tenant {
	struct mcp_server *srv;
	int64_t id;
	struct mcp_listed listed[LIST_SLOTS];
	struct list channels, sessions, listens;
	size_t nsessions, nsubs;
	struct map *watches, *models;   /* URI -> struct mcp_watch; a set of those that its records name, or NULL */
	struct list ending;             /* struct mcp_watch.ending: the record of their end is on its way */
	struct ev_timer *updates;       /* notify_marked() */
};

struct mcp_server {
	struct mcp_env env;
	struct enc_server info;
	struct seal *cursors;
	struct map *tenants;            /* id -> struct mcp_tenant */
	struct map *sessions;           /* session id -> struct mcp_session */
	struct list idle;               /* sessions, least recently used first */
	struct ev_timer *expiry;
	struct list exchanges;          /* those without a channel */
	struct str out;                 /* one notice at a time */
	unsigned inside;                /* mcp_input() on the stack: nothing may be called back */
	uint64_t serial;                /* of the newest peer or exchange */
	struct mcp_caps_read *caps_read;        /* message.c: what was read last; NULL: nothing */
};

/* The resources that a peer or a listen is told of.  A subscription remembers which version of a definition its URI
 * led to; when it leads to another one, or to none, the resource has been updated. */

struct mcp_subs {
	struct mcp_sub *sub; size_t n;
	struct mcp_tenant *tenant;      /* with n > 0 */
};

#define MCP_LOG_OFF 8                   /* above "emergency" */

/* What legacy must remember of a peer (MCP C.2, C.3). */
enum legacy_state { LEGACY_NONE, LEGACY_INIT, LEGACY_READY };
struct mcp_memory {
	enum legacy_state state;
	enum rev rev;                   /* with state != LEGACY_NONE, as are caps and client */
	uint32_t caps;
	char client[MCP_CLIENT_SIZE];
	int log_level;                  /* as asked for by logging/setLevel; MCP_LOG_OFF before (MCP G-02) */
	unsigned declared;              /* SRV_ bits of its initialize result: what is served and told to it */
	int64_t announced[REG_FAMILIES];        /* generations last told or listed (MCP B-19) */
	struct mcp_subs subs;           /* resources/subscribe */
	struct map *inflight;           /* raw id -> struct mcp_req; on a channel of both eras (MCP B-43) */
	struct map *asks;               /* our ids -> struct mcp_ask */
	uint64_t next_ask;
};

struct mcp_channel {
	struct mcp_memory memory;
	struct mcp_server *srv;
	const struct mcp_push_ops *ops;
	void *peer;
	struct principal *who;
	int tport;
	struct list link;               /* mcp_tenant.channels */
	struct list exchanges;
	struct ev_timer *drain;         /* armed at EOF */
	struct ev_timer *lease;         /* for the end of the credential; NULL: it has none */
	bool eof, expired;              /* input has ended; and so has the time to finish */
	bool over;                      /* the server has too many streams: its first message is its last */
	bool deaf;                      /* it will be hung up: what else it sends is not read (MCP B-06) */
	uint64_t serial, since_us, last_us;     /* since, last: wall clock */
};

struct mcp_session {
	struct mcp_memory memory;
	struct mcp_server *srv;
	char id[MCP_SESSION_ID_LEN + 1];
	struct principal *who;
	const struct mcp_push_ops *ops; /* of the one GET stream, or NULL */
	void *peer;
	struct principal *stream_who;   /* who opened that, perhaps with another credential */
	struct ev_timer *lease;         /* for the end of that credential; NULL: it has none */
	struct list link;               /* mcp_tenant.sessions */
	struct list idle_link;          /* mcp_server.idle */
	struct list exchanges;
	uint64_t serial, since_us, last_us;     /* since, last: wall clock */
	uint64_t used_us;               /* monotonic, for the expiry */
};

struct mcp_req {
	struct mcp_exchange *x;
	enum rev rev;
	uint32_t caps;                  /* what the caller declared, for this request */
	struct jx_span id;              /* own memory */
	struct jx_span token;           /* own memory; p NULL: no progress wanted */
	double progress;                /* last one sent */
	uint64_t progress_us;
	int log_level;                  /* least level wanted; MCP_LOG_OFF: none (MCP G-02, G-03) */
	struct mcp_memory *memory;      /* where its id stands; NULL: nowhere (modern HTTP, session-less) */
	struct call *call;
	struct list asks;               /* our open questions to a legacy caller */
	json_t *answers;
	char *ask_failure;              /* why a question got no answer */
	char *label;                    /* of a call: the tool's name; of a listen: its client as claimed */
	struct list listen_link;        /* mcp_tenant.listens; in it: told of changes of the tool list */
	struct ev_timer *lease;         /* likewise: for the end of its credential; NULL: none, or its channel's */
	uint64_t since_us;              /* of a listen: wall clock */
	struct span *span; int code;    /* NULL: none, or its call has it; of the error that is its answer, 0: none */
	const char *method; uint64_t begun_us;  /* static, NULL: not dispatched; when that was, monotonic */
	/* Of a listen, honoured: ENC_ON_ bits, resources, tasks of its principal. */
	unsigned wants; struct mcp_subs subs; struct mcp_heard *tasks; const struct mcp_task_ways *ways;
	enum reg_kind kind; bool completing;    /* of a call */
	bool streams;                   /* it is charged as a stream */
	bool open;                      /* an answer is due, or the call has not ended */
	bool mute;                      /* cancelled: nothing is sent for it any more */
};

struct mcp_exchange {
	struct mcp_server *srv;
	struct mcp_channel *ch;         /* NULL on HTTP */
	struct mcp_session *session;    /* of a legacy HTTP message; NULL once it ended */
	struct principal *who;
	int tport;
	const char *peer;               /* address, during mcp_input() */
	struct mcp_sink sink;
	bool http, sse_ok, modern;
	bool batch;
	bool inside;                    /* mcp_input() still starts its requests */
	bool closed;                    /* finished, or the peer is gone */
	bool initialized;               /* from now on we may push: say what was missed */
	bool hang_up;
	int status;
	uint64_t serial, since_us;      /* since_us: wall clock */
	uint32_t retry_after_s;
	unsigned needs;                 /* rights that a refused request lacks: enum scope_right */
	char session_id[MCP_SESSION_ID_LEN + 1];        /* to hand out */
	unsigned pins;                  /* deferred jobs and calls that still point here */
	size_t unanswered;
	struct str reply;
	struct list link;               /* channel's, session's or server's list */
	size_t nreq;
	struct mcp_req req[];
};

/* One message as the handlers see it; valid during mcp_input(). */
struct mcp_msg {
	struct rpc_msg *rpc;
	struct rpc_meta meta;
	const struct mcp_headers *http; /* NULL on byte streams */
};

enum { SRV_TOOLS = 1, SRV_LOGGING = 2, SRV_RESOURCES = 4, SRV_PROMPTS = 8, SRV_COMPLETIONS = 16, SRV_TASKS = 32,
       SRV_PAGES = 64 };
#define SRV_ALWAYS (SRV_TOOLS | SRV_LOGGING)    /* whatever a tenant has (MCP T-02, B-22); the rest by mcp_has() */

/* subscriptions.c */
void listen_stop(struct mcp_req *req);                          /* not told any more; no answer */
void listen_end(struct mcp_req *req);                           /* by us: result, and the notice (MCP B-20) */
void subs_fini(struct mcp_subs *s);
void watch_fini(struct mcp_tenant *t);
/* Tell a peer of list_changed and of updated resources that it was not told of. */
void notify_missed(struct mcp_memory *m, struct mcp_server *srv, const struct principal *who,
		   const struct mcp_push_ops *ops, void *peer);

/* exchange.c */
struct mcp_exchange *exchange_new(struct mcp_server *srv, struct mcp_channel *ch, const struct mcp_in *in,
				  const struct mcp_sink *sink, size_t nreq);
void exchange_join_session(struct mcp_exchange *x, struct mcp_session *s);
/* The session ends before it: what runs is answered as if there were none. */
void exchange_leave_session(struct mcp_exchange *x);
/* End the input phase: when all answers are there, finish once the caller has returned. */
void exchange_settle(struct mcp_exchange *x);
void exchange_pin(struct mcp_exchange *x);
void exchange_unpin(struct mcp_exchange *x);
/* Nobody reads the answer any more.  cancel: stop what runs, else let it run on; the session it belongs to can still
 * cancel it. */
void exchange_abandon(struct mcp_exchange *x, bool cancel);
/* Refuse the message as a whole, before it has requests; takes e. */
void exchange_refuse(struct mcp_exchange *x, enum rev rev, struct jx_span id, struct rpc_error *e);
struct mcp_memory *exchange_memory(struct mcp_exchange *x);     /* channel's or session's, or NULL */

/* Give a request its id; false: refused and answered, because the id is in use or there are too many. */
bool req_open(struct mcp_req *req, struct mcp_memory *memory, struct jx_span id);
void req_result(struct mcp_req *req, const struct enc_result *r);
void req_fault(struct mcp_req *req, struct rpc_error *e);       /* takes e */
void req_span_end(struct mcp_req *req);                         /* trace.c */
void req_drop(struct mcp_req *req);                             /* ends without an answer */
void req_cancel(struct mcp_req *req);                           /* by its caller: nothing is sent any more */
void req_notice(struct mcp_req *req, const struct str *text);   /* unless the caller is gone */
void req_set_token(struct mcp_req *req, struct jx_span raw);

/* peers.c */
struct mcp_tenant *mcp_tenant_get(struct mcp_server *srv, int64_t id);  /* made when missing, kept for good */
unsigned mcp_has(const struct reg_snapshot *snap);              /* SRV_ bits of what a tenant has */
/* Write a record that nobody waits for: lists and notices go out without it. */
void mcp_record(struct mcp_server *srv, const struct audit_event *ev);
/* Record what was shown of a list of this generation; the same `what` again within a second is not recorded. */
void list_record(struct mcp_req *req, int64_t generation, size_t len, const char *detail, const void *what);
/* A client's `{"name":…,"version":…}` as "name/version"; false: not of that shape. */
bool client_read(struct jx_span raw, char ret[MCP_CLIENT_SIZE]);
/* Of the request or its peer; NULL: none was claimed. */
const char *req_client(const struct mcp_req *req, const struct mcp_msg *msg, char buf[MCP_CLIENT_SIZE]);
void channel_check_drained(struct mcp_channel *ch);
struct mcp_session *session_new(struct mcp_exchange *x, struct rpc_error *e);   /* NULL: error filled */
void session_touch(struct mcp_session *s);
/* End a listen with its credential. */
void listen_look(struct mcp_req *req);

#endif
