#ifndef MCP_MCP_H
#define MCP_MCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/rev.h"

/* The transport-blind core.  The unit of both eras is the exchange: one message in, its answers back.  Byte
 * streams have a channel (what legacy must remember); legacy HTTP has sessions, found by header; modern
 * HTTP has neither.  Era is a property of a message, never of a connection (MCP B-01).  Loop thread. */

struct call_engine;
struct call_where;
struct ev_loop;
struct otel;
struct principal;
struct reg_news;
struct registry;
struct tasks;
struct tenants;
struct writer;
struct mcp_server;
struct mcp_channel;
struct mcp_exchange;
struct mcp_session;

#define MCP_BATCH_MAX 50                /* members of an array (MCP B-03) */
#define MCP_INFLIGHT_MAX 1024           /* unanswered requests of one channel */
#define MCP_SUBSCRIPTIONS_MAX 256       /* resources that one peer, or one listen, is told of */
#define MCP_SUBSCRIPTIONS_TENANT_MAX 4096       /* and all peers of a tenant together */
#define MCP_TASKS_MAX 256               /* tasks that one listen names, */
#define MCP_TASKS_TENANT_MAX 4096       /* and all of a tenant */
#define MCP_LISTENS_MAX 64              /* listens of one principal (MCP B-21) */
#define MCP_SESSIONS_MAX 1000           /* legacy HTTP sessions of one tenant */
#define MCP_MODEL_MAX 128                /* bytes of a model; a longer one, or no printable ASCII, is dropped */
#define MCP_MODELS_MAX 256              /* models of one tenant that records name; what comes then is "other" in them */
#define MCP_SESSION_IDLE_MS (30u * 60 * 1000)

struct mcp_env {                        /* borrowed for the server's life */
	struct ev_loop *loop;
	struct tenants *tenants;
	struct registry *registry;
	struct call_engine *calls;
	struct tasks *tasks;            /* NULL: there are none */
	struct writer *writer;
	struct otel *otel;              /* where spans of requests go; NULL: there are none */
	const uint8_t *master;
	const char *version;            /* serverInfo.version */
	bool model_meta, model_header;  /* where the model of a call may be told (OP-1007) */
	void (*rechecked)(void *arg, int64_t tenant_id);        /* as mcp_recheck() was called; NULL: nobody is told */
	void *arg;
};
struct mcp_server *mcp_server_new(const struct mcp_env *env);
void mcp_server_free(struct mcp_server **srv);

/* name without "mcp-param-", in lower case; the raw value. */
struct mcp_param { const char *name, *value; size_t len; };
struct mcp_headers {                    /* known before any JSON is read; members may be NULL */
	const char *version, *session, *method, *name;
	const struct mcp_param *params; size_t nparams;
	bool duplicate;                 /* one of them came twice: -32020 (MCP B-37) */
	bool sse_ok;                    /* Accept allows text/event-stream (or is absent, or a wildcard) */
	const char *traceparent, *tracestate, *model;   /* model: X-Model */
	const char *request;            /* the request's name, for the log */
};
struct mcp_in {
	const char *text; size_t len;   /* one JSON message; not kept after the return */
	struct principal *who;          /* verified for this very message; counted by the exchange */
	const struct mcp_headers *http; /* NULL on byte streams */
	int tport;                      /* enum audit_tport */
	const char *peer;               /* its address, or NULL; not kept after the return */
};
struct mcp_answer {
	int status;                     /* HTTP status; ignored on byte streams */
	uint32_t retry_after_s;         /* 0 = none */
	const char *text; size_t len;   /* JSON; len 0: accepted, nothing to say (202) */
	const char *session;            /* Mcp-Session-Id to set, or NULL */
	bool hang_up;                   /* byte stream: close after this (MCP B-06) */
	const char *scope;              /* with 403: the words (tenant/scope.h) it lacks, one of them is enough */
};
/* Implemented by a transport.  finish comes once, last, never before mcp_input() has returned. */
struct mcp_sink_ops {
	void (*notice)(void *peer, const char *text, size_t len);       /* HTTP: turns the answer into SSE */
	void (*finish)(void *peer, const struct mcp_answer *a);
};
struct mcp_sink { const struct mcp_sink_ops *ops; void *peer; };

struct mcp_push_ops {                   /* messages outside any exchange; GET streams too */
	void   (*push)(void *peer, const char *text, size_t len);
	size_t (*queued)(const void *peer);             /* bytes not yet written */
	void   (*hang_up)(void *peer);                  /* end the stream after what is queued */
};
/* A byte stream: stdio, TCP, Unix socket, HTTP+SSE.  who: whom it is bound to. */
struct mcp_channel *mcp_channel_new(struct mcp_server *srv, const struct mcp_push_ops *ops, void *peer,
				    struct principal *who, int tport);
/* No more input: running requests get drain_ms, listens end with their result, then hang_up() (MCP B-56). */
void mcp_channel_eof(struct mcp_channel *ch, uint32_t drain_ms);
void mcp_channel_close(struct mcp_channel **ch);        /* the peer is gone: cancels what runs, nothing is sent */
FOR_TESTS size_t mcp_channel_busy(const struct mcp_channel *ch);        /* requests without an answer */

/* Feed one message.  ch is NULL on HTTP.  A channel whose last answer hangs up hears nothing more: *ret is NULL and no
 * finish() follows.  *ret is valid until finish() has been called or mcp_exchange_gone()
 * returned; a listen lives until the peer leaves. */
void mcp_input(struct mcp_server *srv, struct mcp_channel *ch, const struct mcp_in *in,
	       const struct mcp_sink *sink, struct mcp_exchange **ret);
/* HTTP: the peer left before finish().  Modern: cancels; legacy: detaches (MCP B-24).  No finish() after this. */
void mcp_exchange_gone(struct mcp_exchange **x);
/* Time to turn a slow answer into SSE (MCP B-39): asked by the HTTP transport after its delay. */
bool mcp_exchange_may_stream(const struct mcp_exchange *x);

/* Is the server so full, by the doing of this principal's tenant too, that its connections are not kept (SEC S-807)? */
bool mcp_crowded_by(const struct mcp_server *srv, const struct principal *who);

/* Legacy HTTP sessions.  ERR_NOT_FOUND: unknown, ended or another principal's. */
int mcp_session_find(struct mcp_server *srv, const char *id, const struct principal *who, struct mcp_session **ret,
		     struct err *err) MUST_CHECK;
/* GET: make this the session's one notice stream; an older one is hung up.  It ends with the credential of who, the
 * session does not. */
void mcp_session_stream(struct mcp_session *s, const struct mcp_push_ops *ops, void *peer, struct principal *who);
/* A no-op when the stream was replaced meanwhile. */
void mcp_session_stream_gone(struct mcp_server *srv, const char *id, void *peer);
void mcp_session_end(struct mcp_session **s);           /* DELETE */

/* What a change means to a tenant: tell exactly those of its listeners that it concerns, now, and record it (notify,
 * 1011).  Returns how many notices were sent. */
size_t mcp_changed(struct mcp_server *srv, const struct reg_news *news, const char *cause);
/* Put out a tenant, or what of it is of one principal or key: from now on nothing is read from its connections, its
 * sessions and listens are over, and connections close behind the answers of what still runs there.  kill: that is
 * cancelled, with such answers; else it ends by itself.  Its tool is not looked at.  Whether they may come again is a
 * matter of the tables (cred_check()), which must have changed before. */
struct mcp_ended { size_t peers, calls; };
void mcp_end_where(struct mcp_server *srv, const struct call_where *where, bool kill, struct mcp_ended *ret);
/* The same with one peer, by the id that mcp_peers() says; it may come again.  false: this tenant (0: any) has none. */
bool mcp_end_peer(struct mcp_server *srv, int64_t tenant_id, uint64_t id, struct mcp_ended *ret);
/* Keys or principals of a tenant (0 = of any) have changed, or the wall clock was set: what was opened with a
 * credential that is not valid any more ends soon, as by mcp_end_where() without a kill.  Without this it ends when
 * its time has come. */
void mcp_recheck(struct mcp_server *srv, int64_t tenant_id);
/* How many sessions over HTTP a tenant has. */
size_t mcp_sessions(const struct mcp_server *srv, int64_t tenant_id);
/* Stop: listens end with their result, channels drain. */
void mcp_drain(struct mcp_server *srv, uint32_t drain_ms);

/* For `session list`: texts valid during the call only. */
struct mcp_peer_view {
	uint64_t id;                    /* of this run of the server; never used again */
	const char *kind;               /* "stdio", "tcp", "unix", "http-sse", "http-session", "http-listen", "http-call" */
	const char *tenant, *principal, *accessor, *rev, *client;      /* client: claimed name/version */
	uint64_t since_us, last_us;     /* wall clock */
	unsigned listens, running;
	bool listening;                 /* would be told of a change */
};
/* The next id, for what stands beside them there. */
uint64_t mcp_next_id(struct mcp_server *srv);
typedef void mcp_peer_fn(void *arg, const struct mcp_peer_view *v);
void mcp_peers(const struct mcp_server *srv, int64_t tenant_id /* 0 = all */, mcp_peer_fn *fn, void *arg);

#endif
