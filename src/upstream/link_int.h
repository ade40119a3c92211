#ifndef UPSTREAM_LINK_INT_H
#define UPSTREAM_LINK_INT_H

#include "base/map.h"
#include "base/text.h"
#include "json/json.h"
#include "proto/rev.h"
#include "proto/rpc.h"

#include "upstream_int.h"

/* The client's side of MCP.  A link is one conversation with one server, of whatever revision: its handshake, its
 * lists, its requests and theirs, what it watches (link.c, link.c, link_list.c, link_call.c, link.c).  A wire
 * carries its messages and knows none of them (link_pipe.c, link_http.c).  What the server sends is hostile:
 * everything is bounded, and nothing that it says outlives the callback that said it.  Loop thread. */

#define LINK_MESSAGE_MAX JX_MESSAGE_MAX  /* bytes of one message */
#define LINK_CALLS_MAX 256               /* calls of one link, waiting and running */
#define LINK_PARKED_MAX 32               /* calls of one link that wait for answers of their callers */
#define LINK_QUESTIONS_MAX 4             /* of one call at once */
#define LINK_PARK_MS 300000              /* and for how long */
#define LINK_POST_MS 10000               /* for the answer of a request that nobody waits for */
#define LINK_ASIDE_MAX 256               /* subscriptions, and ends of them, that the server has not answered */
#define LINK_PAGES_MAX 200               /* of a list */
#define LINK_LIST_BYTES_MAX (32u << 20)  /* of all lists, all pages */
#define LINK_PROBE_MS 2000               /* silence after server/discover means an older server (MCP V-07) */
#define LINK_START_MS 60000              /* from the start to the end of the lists: a package may have to be fetched */
#define LINK_LIST_MS 30000               /* for one reading of all lists, all pages */
#define LINK_RELIST_MS 1000              /* lists that change all the time are read this often, */
#define LINK_RELIST_BURST 8              /* after so many times at once */
#define LINK_RELISTEN_MS 5000            /* before a stream of news that has ended is asked for again */
#define LINK_DOUBT_MS 30000              /* silence after a ping means that the server hangs */
#define LINK_NOTICES_MAX (8u << 20)      /* bytes of progress and log lines of one call */
#define LINK_ANSWERED_MAX 1000           /* requests of a server that are answered within a second */

struct secret_source;
struct sandbox;
struct ev_loop;
struct ev_timer;
struct map;
struct link;
struct link_wire;

/* --- wires */

/* Of a request, for HTTP; more: arguments that headers repeat, Mcp-Param-<name>. */
struct link_param { char *name, *value; };
struct link_head {
	const char *method, *name;
	const struct link_param *more; size_t nmore;
	bool callers, recorded;         /* it carries what a caller gave; and the begin of that is durable (HARDENING F-4) */
};
#define LINK_PARAMS_MAX 32
struct link_wire_ops {
	/* id: of a request, 0 = a notice or an answer.  Text is copied. */
	void (*send)(struct link_wire *w, uint64_t id, const struct link_head *head, const char *text, size_t len);
	void (*spoken)(struct link_wire *w, enum rev rev);       /* the handshake is over; may be NULL */
	void (*forget)(struct link_wire *w, uint64_t id);        /* nobody waits for this answer; may be NULL */
	bool (*full)(const struct link_wire *w);                 /* do not send now: link_drained() follows */
	void (*close)(struct link_wire **w);                     /* no callback any more */
};
struct link_wire {
	const struct link_wire_ops *ops;
	bool exchanges;                 /* a message comes with the id of the request on whose stream it stands */
};
/* ERR_TOOL with a sentence that names no upstream.  The link's functions below are the way back. */
int link_pipe_open(struct link *link, struct ev_loop *loop, const struct sandbox *sandbox,
		   const struct upstream_conf *conf, const struct secret_source *secrets, int64_t tenant_id,
		   const char *tenant, struct link_wire **ret, struct err *err) MUST_CHECK;

int link_http_open(struct link *link, struct ev_loop *loop, struct fetcher *fetcher, struct upstream_conf *conf,
		   const struct secret_source *secrets, const char *tenant, struct link_wire **ret,
		   struct err *err) MUST_CHECK;

/* Never from inside send() or open().  exchange: see struct link_wire; true: this was the answer to that request. */
bool link_message(struct link *link, uint64_t exchange, const char *text, size_t len);
void link_failed(struct link *link, uint64_t id, const struct err *err);        /* of one request */
void link_dead(struct link *link, const struct err *err);       /* the wire is to be closed */
void link_drained(struct link *link);
void link_missed(struct link *link);                             /* news may have been lost */

/* --- calls */

struct link_call;
struct link_call_sink {
	void (*progress)(void *arg, double done, double total, const char *note);
	void (*log)(void *arg, int level, const char *logger, json_t *data);    /* data is taken */
	/* A question of an older server.  0: the run is over, with this handle a later one goes on (link_call_resume);
	 * negative: the caller cannot be asked. */
	int (*question)(void *arg, const char *handle, const char *method, json_t *params);
	/* One of these, once and last; never from inside start, resume or cancel.  The result is scanned JSON. */
	void (*result)(void *arg, struct jx_span result);
	void (*error)(void *arg, int code, const char *message, json_t *data);  /* data is taken, may be NULL */
	void (*failed)(void *arg, const struct err *err);
};
struct link_call_req {                   /* copied */
	const char *who;                /* on whose behalf: the same text, the same principal of the same tenant */
	const char *method;             /* a constant */
	const char *name;               /* what a header repeats (MCP H-33): a name, a URI, or NULL */
	const char *key;                /* of what is called (upstream/upstream.h) */
	const uint8_t *digest;          /* 32 bytes that it must still have; NULL = any */
	struct str *params;             /* members of the request's params, one line of JSON; taken */
	struct link_param *more; size_t nmore;    /* at most LINK_PARAMS_MAX, each allocated as is the array; taken by
						   * success */
	bool recorded;                  /* as struct link_head has it */
	uint32_t caps;                  /* what the caller can be asked */
	int log_level;                  /* least level of log lines that it wants; 8 = none */
	const struct trace *trace;      /* the caller's, or NULL */
	const json_t *answers;          /* for a server of 2026-07-28: of a request that it left open, or NULL */
	const char *state; size_t state_len;    /* and its state */
};
void link_params_free(struct link_param *more, size_t n);
/* ERR_TOOL: the link has too many calls. */
int link_call_start(struct link *link, const struct link_call_req *req, const struct link_call_sink *sink, void *arg,
		   struct link_call **ret, struct err *err) MUST_CHECK;
/* A request whose answer nobody needs, of a modern server; as link_call_start(). */
int link_call_post(struct link *link, const struct link_call_req *req, struct err *err) MUST_CHECK;
/* No end comes any more.  late: it was the deadline; is the server still there at all? */
void link_call_cancel(struct link_call **c, bool late);
#define LINK_HANDLE_SIZE 33              /* hexadecimal, with NUL */
/* The call that was parked under a handle, or NULL. */
struct link_call *link_call_parked(const struct map *parked, const char *handle, size_t len);
void link_call_resume(struct link_call *c, const json_t *answer, const struct link_call_sink *sink, void *arg);

/* --- links */

struct link_env {
	struct ev_loop *loop;
	struct map *parked;             /* handle -> struct link_call */
	void (*dead)(void *arg, const struct err *err);         /* once; free the link when this has returned */
	void (*ready)(void *arg);       /* the handshake is over, or the lists were read */
	void (*changed)(void *arg);     /* a list is not what it was, or not what somebody holds it for */
	void (*updated)(void *arg, const char *uri);    /* a watched resource; NULL: any, what was told was missed */
	/* Its last call has ended.  left: one was, without its answer; what comes late for it can no longer be told from
	 * what is another's. */
	void (*idle)(void *arg, bool left);
	/* A question or a log line that is nobody's: no live call of one principal is known to be the one it belongs to. */
	void (*dropped)(void *arg, const char *method);
	void *arg;
};
enum link_era { LINK_ERA_UNKNOWN, LINK_ERA_LEGACY, LINK_ERA_MODERN };
typedef int link_open_fn(struct link *link, void *arg, struct link_wire **ret, struct err *err);

/* era: what was spoken with this server before.  ERR_TOOL. */
int link_open(const struct link_env *env, const char *name, bool asks, enum link_era era, link_open_fn *open,
		  void *arg, struct link **ret, struct err *err) MUST_CHECK;
void link_close(struct link **link);    /* its calls fail */
bool link_busy(const struct link *link);        /* calls, parked ones too, or somebody who waits for a list */
/* era: LINK_ERA_UNKNOWN until the handshake is over; hash: 32 bytes over its lists. */
struct link_status { enum link_era era; size_t calls; const uint8_t *hash; };
struct link_status link_status(const struct link *link);
/* No new call comes: those who wait for a list hear that there will be none. */
void link_retire(struct link *link);
/* A resource by its URI there, which the server says news of, if it does.  Once each; on false: no more.  recorded:
 * that somebody wants it so is, and the server may be told. */
void link_watch(struct link *link, const char *uri, bool on, bool recorded);
/* Things that happen at most once in a gap, after a burst of them: when the next may.  *tat is their memory. */
uint64_t link_due(uint64_t *tat, uint64_t now, uint64_t gap_us, unsigned burst);

/* What it has, read now: begun after this call.  list is taken, NULL with err.  Not before the return.  What is
 * returned is good until then, or until link_unlist(), after which done() does not come. */
typedef void link_list_fn(void *arg, struct upstream_list *list, const struct err *err);
struct link_lister *link_list(struct link *link, link_list_fn *done, void *arg);
void link_unlist(struct link_lister **lister);

#endif
