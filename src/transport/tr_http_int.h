/* The HTTP member's own: tr_http.c (connections, who may come in, exchanges), tr_http_head.c (what the head says, which
 * requests may ask), tr_http_answer.c (refusals, event streams, HTTP+SSE of 2024-11-05). */
#ifndef TR_HTTP_INT_H
#define TR_HTTP_INT_H

#include "base/text.h"
#include "conf/conf.h"
#include "net/http_server.h"
#include "tenant/tenant.h"

#include "transport_int.h"

#define TR_HTTP_TICK_MS 5000
#define TR_HTTP_LATE_MS 10000           /* a slow answer becomes an event stream (MCP B-39) */
#define TR_HTTP_ALIVE_MS 15000          /* comments on quiet event streams (MCP N-12) */
#define TR_HTTP_DRAIN_MS 500            /* for requests that were on their way when a stop began */
#define TR_HTTP_END_MAX 10              /* connections that a server nearly full ends behind their answers ... */
#define TR_HTTP_END_US 100000           /* ... in this time */
#define TR_HTTP_HURRY_MS 2000           /* for the next request of a stranger while the server is full */
#define TR_HTTP_PARAMS_MAX 16           /* Mcp-Param-* headers of one request */
#define TR_HTTP_ORIGIN_MAX 255          /* bytes of an allowed Origin */
#define TR_HTTP_CLIENT_SIZE (2 * ADDR_TEXT_SIZE)        /* "192.0.2.1 via 10.0.0.1" */
#define TR_HTTP_SHOWN_SIZE 160          /* of a Host or Origin, where a refusal names it */
#define TR_HTTP_CORS_SIZE 512           /* the lines that go with one */

struct map;
struct oauth_check;
struct oauth_issuer;
struct sse_peer;

struct tr_http {
	struct transport base;
	struct transport_env env;
	const struct conf_listener *conf;
	struct listener *listener;
	struct front front;
	struct list conns;              /* struct hconn */
	struct list open;               /* struct hreq: every request without its whole answer */
	struct map *sse;                /* id -> struct sse_peer */
	struct ev_timer *tick;
	uint64_t port;                  /* of the listener */
	char *origin;                   /* how clients reach it: scheme, host and port */
	bool loopback;                  /* bound to loopback: its names are good Hosts and Origins */
	bool draining;                  /* no request is taken any more (SEC S-842) */
	enum transport_pressure pressure;
	uint64_t ended_us;              /* since when */
	unsigned ended;                 /* are counted */
	bool closing;
};

struct hconn {
	struct list node;
	struct gate_pass pass;
	struct tr_http *t;
	struct http_conn *conn;
	const struct tls *tls;          /* the connection's, or NULL */
	bool proxied;                   /* the peer is a listed proxy */
	bool hurried;                   /* its next request is due at once */
	char from[ADDR_TEXT_SIZE];
};

enum hroute { ROUTE_NONE, ROUTE_MCP, ROUTE_SSE, ROUTE_MESSAGES, ROUTE_METADATA };
enum hmethod { METHOD_POST, METHOD_GET, METHOD_DELETE };

/* Why a head is refused; headers: whole lines, to be freed. */
struct http_refusal { struct str headers; uint32_t retry_s; char text[400]; };

/* One request from its head to its answer.  The header texts live behind the struct, in one block. */
struct hreq {
	struct list node;               /* of t->open */
	struct tr_http *t;
	struct http_request *r;
	struct principal *who;
	struct hconn *c;                /* until its body has been handed over */
	struct oauth_check *check;      /* whose it is is asked; nothing of its body has been read */
	const struct oauth_issuer *issuer;      /* of its access token, or NULL */
	const char *tenant;             /* that the path names, or NULL */
	/* What is wrong with it whoever asks; 0: nothing */
	struct { int status; const char *headers, *text; } later;
	const char *from;               /* the client's address, for records */
	struct mcp_exchange *x;         /* from mcp_input() to finish() */
	enum hroute route;
	enum hmethod method;
	struct mcp_headers http;
	const char *origin;             /* an allowed Origin, to be answered with CORS headers; or NULL */
	const char *stream_session;     /* GET: whose notice stream this is */
	const char *query;              /* of the target, or NULL */
	struct sse_peer *sse;           /* GET /sse: the peer whose stream this is */
	uint64_t begun_us, written_us;
	bool streaming;
	struct mcp_param params[TR_HTTP_PARAMS_MAX];    /* http.nparams of them; behind what is zero at first */
	char text[];
};

/* --- tr_http_head.c */

/* The request's route by its path; *ret_tenant = the path's tenant, p NULL when it names none. */
enum hroute http_route(struct http_text path, struct http_text *ret_tenant);
/* Host and Origin (SEC S-104).  0, or the status to refuse with, a text for the body, and a line in the log. */
int http_guard_host(const struct hconn *c, const struct http_head *h, char *ret_text, size_t size);
/* The Origin of a page that may read the answer: one that the configuration lists (MCP B-55), else p NULL. */
struct http_text http_cors_origin(const struct tr_http *t, const struct http_head *h);
/* Who asks. */
struct http_asker {
	struct principal *who;          /* counted */
	bool had_one;                   /* there was a credential */
	struct http_text token;         /* a bearer that is no key */
};
/* 0: ret->who is known.  HTTP_TOKEN: ret->token tells, if it is good.  Else the status (400, 401) and a text for the
 * body. */
#define HTTP_TOKEN 2
int http_guard_who(const struct hconn *c, const struct http_head *h, struct http_asker *ret, char *ret_text,
		   size_t size);
/* Route, method and tenant of the path are the caller's to fill in, and who. */
struct hreq *hreq_new(struct hconn *c, struct http_request *r, const struct http_head *h, struct http_text tenant);
/* The next member of a comma-separated list that is not empty; *list becomes what follows. */
bool http_list_next(struct http_text *list, struct http_text *ret);

/* --- tr_http_answer.c */

void hreq_free(struct hreq *q);         /* unlinked, references dropped; r is the connection's */
/* Answer with a plain text (not JSON: MCP B-49) and free.  headers: further lines, or "". */
void hreq_refuse(struct hreq *q, int status, const char *headers, const char *text);
/* Ready CORS lines for an allowed origin (p NULL: ""); hreq_cors() for that of q. */
const char *http_cors(struct http_text origin, char ret[TR_HTTP_CORS_SIZE]);
const char *hreq_cors(const struct hreq *q, char ret[TR_HTTP_CORS_SIZE]);
void http_refuse(struct http_request *r, int status, const char *headers, const char *cors, const char *text);
/* An answer to q begins: while its tenant fills the server it is the connection's last, of some at a time. */
void hreq_keep(const struct hreq *q);
/* Somebody is refused for not being known. */
void http_not_known(struct hconn *c);
void hreq_stream_begin(struct hreq *q);
void hreq_event(struct hreq *q, const char *text, size_t len);
/* The same for an answer, which may be larger than what a stream may queue. */
void hreq_answer_event(struct hreq *q, const char *text, size_t len);
/* GET of a legacy session: begin its notice stream or refuse. */
void hreq_get(struct hreq *q);
void hreq_delete(struct hreq *q);
/* The periodic look: slow answers become streams, quiet streams get a comment. */
void http_tick(void *tr_http);
/* GET /sse: a channel whose answers leave on this stream. */
void sse_open(struct hreq *q);
/* POST /messages?s=<id>: one message for that channel. */
void sse_post(struct hreq *q, const char *body, size_t len);
void sse_gone(struct sse_peer **p);     /* the stream's client has left */

#endif
